/* Recurrent layers as modules, dense, packed, traced and frozen, compared with numbers from
 * PyTorch. recurrent_values.py writes recurrent_values.txt and describes its format. */
#include "tests/support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/dispatch.h"
#include "freeze/freeze.h"
#include "module/layers/recurrent.h"
#include "module/mkldnn.h"
#include "module/state_dict.h"
#include "tensor/counters.h"

#define SAVED "test_recurrent.tessera"

enum { T = 5, N = 3, C = 4, H = 6, NUMBER_OF_X = 100, MAX_NAMES = 16, MAX_RESULTS = 3 };

/* ---- the stored layers ---- */

typedef struct stored {
    char kind[8];
    int layers, is_bidirectional, is_batch_first, has_bias, has_states, is_single;
    int n_names, n_results;
    char names[MAX_NAMES][32];
    int numel[MAX_RESULTS];
    double results[MAX_RESULTS][T * N * 2 * H];
} stored_t;

static float value_at(int64_t i, int number)
{
    return (float)((i * 97 + number * 31 + 11) % 251 - 125) / 256;
}

static void read_result(FILE *file, stored_t *out)
{
    const int r = out->n_results++;
    assert_in_range(r, 0, MAX_RESULTS - 1);
    assert_int_equal(fscanf(file, "%d", &out->numel[r]), 1);
    assert_in_range(out->numel[r], 1, T * N * 2 * H);
    for (int i = 0; i < out->numel[r]; i++)
        assert_int_equal(fscanf(file, "%lf", &out->results[r][i]), 1);
}

/* Reads a layer. The file is after the word "layer", both before and afterwards. */
static void read_stored(FILE *file, stored_t *out)
{
    char word[16];
    memset(out, 0, sizeof *out);
    assert_int_equal(fscanf(file, "%7s %d %d %d %d %d %d", out->kind, &out->layers,
                            &out->is_bidirectional, &out->is_batch_first, &out->has_bias,
                            &out->has_states, &out->is_single),
                     7);
    while (fscanf(file, "%15s", word) == 1 && strcmp(word, "layer") != 0) {
        if (strcmp(word, "name") != 0) {
            read_result(file, out);
            continue;
        }
        assert_in_range(out->n_names, 0, MAX_NAMES - 1);
        assert_int_equal(fscanf(file, "%31s", out->names[out->n_names++]), 1);
    }
}

/* ---- Tessera's version of the layer ---- */

static tensor_t *filled(context_t *ctx, int rank, const int64_t *sizes, int number)
{
    tensor_t *tensor = NULL;
    float values[1024];
    int64_t n = 1;
    for (int d = 0; d < rank; d++) n *= sizes[d];
    assert_in_range(n, 1, 1024);
    for (int64_t i = 0; i < n; i++) values[i] = value_at(i, number);
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, rank, sizes, values, &tensor));
    return tensor;
}

static module_t *make(context_t *ctx, const stored_t *stored)
{
    const layer_recurrent_options_t options = {.num_layers = stored->layers,
                                               .bidirectional = stored->is_bidirectional,
                                               .batch_first = stored->is_batch_first,
                                               .is_relu = strcmp(stored->kind, "RELU") == 0,
                                               .dropout = 0.5};
    module_t *net = NULL;
    if (strcmp(stored->kind, "LSTM") == 0)
        CHECK_OK(ctx, layer_lstm(ctx, C, H, stored->has_bias, &options, &net));
    else if (strcmp(stored->kind, "GRU") == 0)
        CHECK_OK(ctx, layer_gru(ctx, C, H, stored->has_bias, &options, &net));
    else
        CHECK_OK(ctx, layer_rnn(ctx, C, H, stored->has_bias, &options, &net));
    return net;
}

/* Checks that the state dict has PyTorch's names in PyTorch's order. Sets the parameters. */
static void fill_parameters(context_t *ctx, const stored_t *stored, module_t *net)
{
    int n = 0;
    for (int i = 0; i < module_n_members(net); i++) {
        member_kind_t kind;
        const char *name = module_member(net, i, &kind);
        if (kind != MEMBER_PARAMETER) continue;
        assert_in_range(n, 0, stored->n_names - 1);
        assert_string_equal(name, stored->names[n]);
        const tensor_t *old = module_parameter(net, name);
        tensor_t *tensor = filled(ctx, tensor_rank(old), tensor_sizes(old), n++);
        CHECK_OK(ctx, module_set_parameter(ctx, net, name, tensor));
        tensor_release(tensor);
    }
    assert_int_equal(n, stored->n_names);
}

/* Makes x and, if the layer has them, the states. Returns the number of inputs. */
static int make_inputs(context_t *ctx, const stored_t *stored, tensor_t **out)
{
    const int n_states = !stored->has_states ? 0 : strcmp(stored->kind, "LSTM") == 0 ? 2 : 1;
    const int64_t n = stored->layers * (stored->is_bidirectional ? 2 : 1);
    if (stored->is_single)
        out[0] = filled(ctx, SHAPE(T, C), NUMBER_OF_X);
    else if (stored->is_batch_first)
        out[0] = filled(ctx, SHAPE(N, T, C), NUMBER_OF_X);
    else
        out[0] = filled(ctx, SHAPE(T, N, C), NUMBER_OF_X);
    for (int i = 1; i <= n_states; i++)
        out[i] = stored->is_single ? filled(ctx, SHAPE(n, H), NUMBER_OF_X + i)
                                   : filled(ctx, SHAPE(n, N, H), NUMBER_OF_X + i);
    return 1 + n_states;
}

/* ---- running ---- */

typedef struct run {
    context_t *ctx;
    const stored_t *stored;
    int n_in;
    tensor_t *in[3];
} run_t;

/* Counts recurrent operators that ran with the expected kernel, and with others. */
typedef struct kernels {
    const char *wanted;
    int n_wanted, n_others;
} kernels_t;

static status_t note_kernel(context_t *ctx, void *user, const op_event_t *event)
{
    kernels_t *kernels = user;
    const char *name = event->op->name;
    (void)ctx;
    if (strcmp(name, "lstm") != 0 && strcmp(name, "gru") != 0 && strcmp(name, "rnn") != 0)
        return STATUS_OK;
    if (strcmp(prepared_kernel(event->prepared), kernels->wanted) == 0)
        kernels->n_wanted++;
    else
        kernels->n_others++;
    return STATUS_OK;
}

static void check_results(const run_t *run, int n_out, tensor_t *const *out, const char *form)
{
    float values[T * N * 2 * H];
    assert_int_equal(n_out, run->stored->n_results);
    for (int r = 0; r < n_out; r++) {
        const int numel = run->stored->numel[r];
        assert_int_equal(tensor_rank(out[r]), run->stored->is_single ? 2 : 3);
        CHECK_OK(run->ctx, tensor_read(run->ctx, out[r], values, (size_t)numel * sizeof *values));
        for (int i = 0; i < numel; i++) {
            double wanted = run->stored->results[r][i], given = (double)values[i];
            if (!(given >= wanted - 2e-6 && given <= wanted + 2e-6))
                fail_msg("%s of %d layers, %s: result %d element %d is %g, wanted %g",
                         run->stored->kind, run->stored->layers, form, r, i, given, wanted);
        }
    }
}

/* Runs a module twice. Returns the number of weights that the second run packs or reorders. */
static uint64_t check_twice(const run_t *run, module_t *net, const char *form)
{
    const int n_ops = run->stored->layers * (run->stored->is_bidirectional ? 2 : 1);
    const bool is_own = (strcmp(run->stored->kind, "LSTM") == 0 ||
                         strcmp(run->stored->kind, "GRU") == 0) &&
                        strcmp(form, "per_op") != 0;
    counters_t counters;
    for (int i = 0; i < 2; i++) {
        tensor_t *out[METHOD_MAX_OUTPUTS] = {NULL};
        kernels_t kernels = {.wanted = is_own ? "sequence" : "onednn"};
        observer_t observer = {.user = &kernels, .op_end = note_kernel};
        int n_out = 0;
        counters_reset(run->ctx);
        CHECK_OK(run->ctx, dispatch_add_observer(run->ctx, &observer));
        CHECK_OK(run->ctx, module_call_tensors(run->ctx, net, "forward", run->n_in,
                                               (const tensor_t *const *)run->in, &n_out, out));
        dispatch_remove_observer(run->ctx, &observer);
        counters_read(run->ctx, &counters);
        check_results(run, n_out, out, form);
        assert_int_equal(kernels.n_wanted, n_ops);
        assert_int_equal(kernels.n_others, 0);
        for (int r = 0; r < n_out; r++) tensor_release(out[r]);
    }
    return counters.reorders[CAUSE_WEIGHT] + counters.copies[CAUSE_WEIGHT];
}

static void check_layer(context_t *ctx, const stored_t *stored)
{
    const int n_ops = stored->layers * (stored->is_bidirectional ? 2 : 1);
    run_t run = {.ctx = ctx, .stored = stored};
    module_t *net = make(ctx, stored), *frozen = NULL, *loaded = NULL;
    fill_parameters(ctx, stored, net);
    run.n_in = make_inputs(ctx, stored, run.in);
    assert_int_equal(check_twice(&run, net, "eager"), 2 * n_ops);
    CHECK_OK(ctx, dispatch_set_policy(ctx, POLICY_PER_OP));
    assert_int_equal(check_twice(&run, net, "per_op"), 2 * n_ops);
    CHECK_OK(ctx, dispatch_set_policy(ctx, POLICY_AUTO));
    CHECK_OK(ctx, module_mkldnn(ctx, net, NULL));
    assert_int_equal(check_twice(&run, net, "mkldnn"), 0);
    CHECK_OK(ctx, graph_trace(ctx, net, "forward", run.n_in, (const tensor_t *const *)run.in));
    assert_int_equal(check_twice(&run, net, "traced"), 0);
    CHECK_OK(ctx, freeze(ctx, net, NULL, &frozen));
    assert_int_equal(check_twice(&run, frozen, "frozen"), 0);
    CHECK_OK(ctx, freeze_save(ctx, frozen, SAVED));
    CHECK_OK(ctx, freeze_load(ctx, SAVED, &loaded));
    assert_int_equal(check_twice(&run, loaded, "loaded"), 0);
    remove(SAVED);
    module_release(loaded);
    module_release(frozen);
    module_release(net);
    for (int i = 0; i < run.n_in; i++) tensor_release(run.in[i]);
}

static void layers_give_what_pytorch_gives_in_every_form(void **state)
{
    FILE *file = fopen(TESSERA_SOURCE_DIR "/tests/module/recurrent_values.txt", "r");
    stored_t *stored = malloc(sizeof *stored);
    char word[16];
    int n = 0;
    assert_non_null(file);
    assert_non_null(stored);
    assert_int_equal(fscanf(file, "%15s", word), 1);
    for (; !feof(file); n++) {
        read_stored(file, stored);
        check_layer(fixture_context(state), stored);
    }
    fclose(file);
    free(stored);
    assert_int_equal(n, 16);
}

/* ---- errors ---- */

static void attributes_that_layers_do_not_support_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = NULL;
#define REFUSED(part, in, options)                                                                 \
    CHECK_FAILS(ctx, layer_lstm(ctx, in, H, true, options, &net), STATUS_INVALID_ARGUMENT, part)
    REFUSED("layer_lstm: 0 to 6 elements, must be positive", 0, NULL);
    REFUSED("elements, too many for 64-bit sizes", INT64_MAX, NULL);
    REFUSED("layer_lstm: -1 layers, must be 1 to 64", C,
            &(layer_recurrent_options_t){.num_layers = -1});
    REFUSED("layer_lstm: 33 layers, must be 1 to 32", C,
            (&(layer_recurrent_options_t){.num_layers = 33, .bidirectional = true}));
    REFUSED("layer_lstm: dropout 2, must be 0 to 1", C, &(layer_recurrent_options_t){.dropout = 2});
#undef REFUSED
    assert_null(net);
}

static void check_refusal(context_t *ctx, module_t *net, int n_in, tensor_t *const *in,
                          status_t status, const char *part)
{
    tensor_t *out[METHOD_MAX_OUTPUTS] = {NULL};
    int n_out = 0;
    CHECK_FAILS(
        ctx,
        module_call_tensors(ctx, net, "forward", n_in, (const tensor_t *const *)in, &n_out, out),
        status, part);
    assert_null(out[0]);
}

static void set_text(context_t *ctx, module_t *net, const char *name, const char *text)
{
    datum_t *value = NULL;
    CHECK_OK(ctx, datum_string(ctx, text, &value));
    CHECK_OK(ctx, module_set_attribute(ctx, net, name, value));
    datum_release(value);
}

static void a_forward_names_what_does_not_fit(void **state)
{
    context_t *ctx = fixture_context(state);
    const layer_recurrent_options_t options = {.num_layers = 2, .dropout = 0.5};
    tensor_t *in[] = {filled(ctx, SHAPE(T, N, C), 0), filled(ctx, SHAPE(1, N, H), 1),
                      filled(ctx, SHAPE(2, N, H), 2)};
    module_t *net = NULL, *rnn = NULL;
    datum_t *layers = NULL;
    CHECK_OK(ctx, layer_lstm(ctx, C, H, true, &options, &net));
    CHECK_OK(ctx, layer_rnn(ctx, C, H, true, NULL, &rnn));
    check_refusal(ctx, net, 2, in, STATUS_INVALID_ARGUMENT,
                  "module: forward of LSTM with 2 inputs, takes x alone or with 2 states");
    check_refusal(ctx, net, 3, in, STATUS_INVALID_ARGUMENT,
                  "the layer needs [2,N,H] for 2 layers of 1 directions");
    CHECK_OK(ctx, module_train(ctx, net, true));
    check_refusal(ctx, net, 1, in, STATUS_UNSUPPORTED,
                  "LSTM: the layer is in training mode with dropout 0.5");
    CHECK_OK(ctx, module_train(ctx, net, false));
    set_text(ctx, rnn, "nonlinearity", "sine");
    check_refusal(ctx, rnn, 1, in, STATUS_INVALID_ARGUMENT,
                  "attribute \"nonlinearity\" of RNN is \"sine\", must be tanh or relu");
    CHECK_OK(ctx, datum_int(ctx, 65, &layers));
    CHECK_OK(ctx, module_set_attribute(ctx, net, "num_layers", layers));
    datum_release(layers);
    check_refusal(ctx, net, 1, in, STATUS_INVALID_ARGUMENT,
                  "module: attribute \"num_layers\" of LSTM is 65, must be 1 to 64");
    for (int i = 0; i < 3; i++) tensor_release(in[i]);
    module_release(rnn);
    module_release(net);
}

static status_t build_and_run(context_t *ctx)
{
    const layer_recurrent_options_t options = {.bidirectional = true};
    module_t *net = NULL;
    tensor_t *x = NULL, *out[METHOD_MAX_OUTPUTS] = {NULL};
    int n_out = 0;
    status_t status = layer_lstm(ctx, 2, 3, true, &options, &net);
    if (status == STATUS_OK) status = tensor_zeros(ctx, DTYPE_F32, SHAPE(2, 1, 2), &x);
    if (status == STATUS_OK)
        status = module_call_tensors(ctx, net, "forward", 1, (const tensor_t *const[]){x}, &n_out,
                                     out);
    for (int i = 0; i < n_out; i++) tensor_release(out[i]);
    tensor_release(x);
    module_release(net);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    check_allocations_by_turns(build_and_run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(layers_give_what_pytorch_gives_in_every_form),
        TEST(attributes_that_layers_do_not_support_are_refused),
        TEST(a_forward_names_what_does_not_fit),
        TEST(every_allocation_may_fail),
    };
    return cmocka_run_group_tests_name("recurrent layers", tests, NULL, NULL);
}
