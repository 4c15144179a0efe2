/* Fifty training steps from the same weights and batches as in PyTorch (parity.py), in modes dense,
 * mkldnn and planned. All operators of the first step must compute what their specifications say.
 * Losses must match, and so must outputs with the final weights, which are saved under PyTorch's
 * names. */
#include "tests/support/nets/nets.h"
#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dispatch/dispatch.h"
#include "io/safetensors/safetensors.h"
#include "module/layers/flow_impl.h"
#include "module/layers/layers.h"
#include "module/layers/recurrent.h"
#include "module/layers/transformer.h"
#include "module/mkldnn.h"
#include "module/state_dict.h"
#include "module/zoo.h"
#include "ops/ops.h"
#include "tests/support/drawn.h"
#include "tests/support/nets/losses.h"
#include "train/loss.h"
#include "train/trainer.h"

#define STEPS 50
#define BATCHES 4
#define CLASSES 10
#define STEPS_STEADY 4   /* in these first steps, no loss leaps */
#define STEPS_VERIFIED 1 /* steps of which each operator is compared with its specification */
#define N_VERIFIED 8     /* elements of each result */

/* ---- networks ---- */

static module_t *make_zoo(context_t *ctx, const char *name)
{
    const zoo_options_t options = {.n_classes = CLASSES, .divide = 8};
    module_t *module = NULL;
    CHECK_OK(ctx, zoo_create(ctx, name, &options, &module, NULL));
    return module;
}

static void set_dropout(context_t *ctx, module_t *module, const char *path)
{
    datum_t *zero = NULL;
    CHECK_OK(ctx, datum_float(ctx, 0.0, &zero));
    CHECK_OK(ctx, module_set_attribute(ctx, module, path, zero));
    datum_release(zero);
}

static module_t *make_resnet18(context_t *ctx)
{
    return make_zoo(ctx, "resnet18");
}

static module_t *make_alexnet(context_t *ctx)
{
    module_t *module = make_zoo(ctx, "alexnet");
    set_dropout(ctx, module, "classifier.0.p");
    set_dropout(ctx, module, "classifier.3.p");
    return module;
}

static void add_take(context_t *ctx, module_t *parent, const char *name, module_t *child)
{
    CHECK_OK(ctx, module_set_child(ctx, parent, name, child));
    module_release(child);
}

/* Runs the network; its recurrent layer passes on the last time step only. */
static status_t forward_recurrent(context_t *ctx, module_t *self, int n_in,
                                  const tensor_t *const *in, int *n_out, tensor_t **out)
{
    tensor_t *results[3] = {NULL}, *last = NULL;
    int n = 3;
    (void)n_in;
    TRY(module_call_tensors(ctx, module_child(self, "lstm"), "forward", 1, in, &n, results));
    *n_out = 1;
    (void)op_select(ctx, results[0], 0, tensor_sizes(results[0])[0] - 1, &last);
    return module_run_child(ctx, self, "fc", last, out);
}

static module_t *make_lstm(context_t *ctx)
{
    module_t *module = NULL, *lstm = NULL, *fc = NULL;
    const layer_recurrent_options_t options = {.num_layers = 2};
    CHECK_OK(ctx, module_create(ctx, "Recurrent", &module));
    CHECK_OK(ctx, layer_lstm(ctx, 16, 24, true, &options, &lstm));
    CHECK_OK(ctx, layer_linear(ctx, 24, CLASSES, true, &fc));
    add_take(ctx, module, "lstm", lstm);
    add_take(ctx, module, "fc", fc);
    CHECK_OK(ctx, module_set_forward(ctx, module, "forward", forward_recurrent));
    return module;
}

static module_t *make_transformer(context_t *ctx)
{
    module_t *module = NULL, *embedding = NULL, *layers = NULL, *norm = NULL, *fc = NULL;
    const transformer_attrs_t attrs = {.d_model = 32,
                                       .nhead = 4,
                                       .dim_feedforward = 64,
                                       .activation = ELTWISE_GELU,
                                       .norm_first = true};
    CHECK_OK(ctx, module_create(ctx, "Transformer", &module));
    CHECK_OK(ctx, layer_embedding(ctx, 50, 32, &embedding));
    CHECK_OK(ctx, layer_sequential(ctx, &layers));
    for (int i = 0; i < 2; i++) {
        module_t *layer = NULL;
        CHECK_OK(ctx, layer_transformer_encoder_layer(ctx, &attrs, &layer));
        CHECK_OK(ctx, layer_append_take(ctx, layers, layer));
    }
    CHECK_OK(ctx, layer_layer_norm(ctx, 1, (const int64_t[]){32}, 1e-5, true, true, &norm));
    CHECK_OK(ctx, layer_linear(ctx, 32, CLASSES, true, &fc));
    add_take(ctx, module, "embedding", embedding);
    add_take(ctx, module, "layers", layers);
    add_take(ctx, module, "norm", norm);
    add_take(ctx, module, "fc", fc);
    CHECK_OK(ctx, module_set_forward(ctx, module, "forward", net_forward_transformer));
    return module;
}

static optimizer_t *optimize_resnet18(context_t *ctx, module_t *module)
{
    optimizer_t *optimizer = NULL;
    sgd_options_t options = sgd_options(1e-4);
    options.momentum = 0.9;
    options.weight_decay = 5e-4;
    CHECK_OK(ctx, optimizer_sgd(ctx, module, &options, &optimizer));
    return optimizer;
}

static optimizer_t *optimize_alexnet(context_t *ctx, module_t *module)
{
    optimizer_t *optimizer = NULL;
    const adam_options_t options = adam_options(1e-4);
    CHECK_OK(ctx, optimizer_adam(ctx, module, &options, &optimizer));
    return optimizer;
}

static optimizer_t *optimize_lstm(context_t *ctx, module_t *module)
{
    optimizer_t *optimizer = NULL;
    sgd_options_t options = sgd_options(0.1);
    options.momentum = 0.9;
    CHECK_OK(ctx, optimizer_sgd(ctx, module, &options, &optimizer));
    return optimizer;
}

static optimizer_t *optimize_transformer(context_t *ctx, module_t *module)
{
    optimizer_t *optimizer = NULL;
    adam_options_t options = adamw_options(1e-3);
    options.weight_decay = 0.01;
    CHECK_OK(ctx, optimizer_adamw(ctx, module, &options, &optimizer));
    return optimizer;
}

typedef struct network {
    const char *name;
    module_t *(*make)(context_t *ctx);
    optimizer_t *(*optimize)(context_t *ctx, module_t *module);
    int rank;
    int64_t sizes[4];
    int64_t n;     /* labels per batch */
    int64_t limit; /* inputs are integers from 0 to limit - 1; 0: floats */
} network_t;

static const network_t networks[] = {
    {"resnet18", make_resnet18, optimize_resnet18, 4, {8, 3, 32, 32}, 8, 0},
    {"alexnet", make_alexnet, optimize_alexnet, 4, {4, 3, 127, 127}, 4, 0},
    {"lstm", make_lstm, optimize_lstm, 3, {12, 8, 16}, 8, 0},
    {"transformer", make_transformer, optimize_transformer, 2, {8, 10}, 8, 50},
};

/* ---- batches by their names ---- */

static tensor_t *draw_input(context_t *ctx, const network_t *network, int batch)
{
    char key[16];
    tensor_t *x = NULL;
    void *bytes = NULL;
    snprintf(key, sizeof key, "x%d", batch);
    if (network->limit > 0)
        return drawn_integers(ctx, key, network->limit, network->rank, network->sizes);
    CHECK_OK(ctx, tensor_empty(ctx, DTYPE_F32, network->rank, network->sizes, &x));
    CHECK_OK(ctx, tensor_data_mutable(ctx, x, &bytes));
    drawn_fill(key, 0.0, 1.0, tensor_numel(x), bytes);
    return x;
}

/* Returns the rest of the line in parity_values.txt that begins with `name` and `of`. The caller
 * frees it. */
static char *read_line(const char *name, const char *of)
{
    enum { CAPACITY = 1 << 14 };
    char word[64], *line = malloc(CAPACITY);
    FILE *file = fopen(TESSERA_SOURCE_DIR "/tests/train/values/parity_values.txt", "r");
    assert_non_null(line);
    assert_non_null(file);
    const int length = snprintf(word, sizeof word, "%s%s ", name, of);
    while (fgets(line, CAPACITY, file) != NULL)
        if (strncmp(line, word, (size_t)length) == 0) {
            fclose(file);
            line[strcspn(line, "\n")] = '\0';
            memmove(line, line + length, strlen(line + length) + 1);
            return line;
        }
    fail_msg("no line for %s", word);
    return NULL;
}

static void read_numbers(const char *name, const char *of, int n, double *numbers)
{
    char *line = read_line(name, of), *at = line;
    for (int i = 0; i < n; i++) {
        char *end = NULL;
        numbers[i] = strtod(at, &end);
        assert_true(end != at);
        at = end;
    }
    assert_int_equal(*at, '\0');
    free(line);
}

/* ---- after training ---- */

#define MAX_OUTPUTS 80

/* Runs the module on the first batch, in evaluation mode. */
static tensor_t *run_first(context_t *ctx, const network_t *network, module_t *module)
{
    tensor_t *x = draw_input(ctx, network, 0), *y = NULL;
    CHECK_OK(ctx, module_train(ctx, module, false));
    CHECK_OK(ctx, module_forward(ctx, module, x, &y));
    tensor_release(x);
    return y;
}

/* Checks the largest difference from PyTorch's outputs, relative to PyTorch's largest output.
 * `rounding` is the difference of PyTorch's own outputs in f32 and f64. Tessera's may differ ten
 * times as much, because Winograd and other orders of sums round differently. If rounding has
 * flipped the sign of a relu's input, gradients and later losses have leapt (has_leapt); then twice
 * PyTorch's largest leap is allowed, and at least 1e-3. parity.py explains leaps. */
static void check_outputs(context_t *ctx, const network_t *network, bool has_leapt,
                          const tensor_t *y)
{
    const int n = (int)network->n * CLASSES;
    double expected[MAX_OUTPUTS], rounding = 0.0, worst = 0.0, largest = 0.0, leaps[2];
    float given[MAX_OUTPUTS];
    assert_int_equal(tensor_numel(y), n);
    CHECK_OK(ctx, tensor_read(ctx, y, given, (size_t)n * sizeof *given));
    read_numbers(network->name, ".outputs", n, expected);
    read_numbers(network->name, ".rounding", 1, &rounding);
    read_numbers(network->name, ".leaps", 2, leaps);
    for (int i = 0; i < n; i++) {
        worst = fmax(worst, fabs((double)given[i] - expected[i]));
        largest = fmax(largest, fabs(expected[i]));
    }
    print_message("%s: outputs %.2g, in PyTorch %.2g\n", network->name, worst / largest, rounding);
    if (!(worst <= (has_leapt ? fmax(1e-3, 2.0 * leaps[1]) : 10 * rounding) * largest))
        fail_msg("%s: outputs differ from PyTorch's by %g of the largest", network->name,
                 worst / largest);
}

#ifdef TESSERA_HAVE_SAFETENSORS

/* Checks that the file has exactly the names and sizes of PyTorch's state dict. */
static void check_names(context_t *ctx, const network_t *network, const char *path)
{
    char *line = read_line(network->name, ".state");
    safetensors_t *file = NULL;
    int n = 0;
    CHECK_OK(ctx, safetensors_open(ctx, path, &file));
    for (char *word = strtok(line, " "); word != NULL; word = strtok(NULL, " "), n++) {
        char sizes[64] = "-";
        char *colon = strchr(word, ':');
        assert_non_null(colon);
        *colon = '\0';
        const safetensors_info_t *info = safetensors_find(file, word);
        if (info == NULL) fail_msg("%s: the file has no %s", network->name, word);
        for (int i = 0, length = 0; i < info->rank; i++)
            length += snprintf(sizes + length, sizeof sizes - (size_t)length, "%s%lld",
                               i > 0 ? "x" : "", (long long)info->sizes[i]);
        assert_string_equal(sizes, colon + 1);
    }
    assert_int_equal(safetensors_count(file), n);
    safetensors_close(file);
    free(line);
}

/* Saves a file for parity.py --load: the weights, and the module's outputs as test.outputs. */
static void save_for_pytorch(context_t *ctx, const network_t *network, const char *mode,
                             module_t *module, tensor_t *y)
{
    char path[512];
    datum_t *state = NULL, *outputs = NULL;
    const char *folder = getenv("TESSERA_WEIGHTS");
    if (folder == NULL) return;
    snprintf(path, sizeof path, "%s/%s.%s.safetensors", folder, network->name, mode);
    CHECK_OK(ctx, module_state_dict(ctx, module, &state));
    CHECK_OK(ctx, datum_tensor(ctx, y, &outputs));
    CHECK_OK(ctx, datum_put(ctx, state, "test.outputs", outputs));
    CHECK_OK(ctx, safetensors_save(ctx, path, state, NULL));
    datum_release(outputs);
    datum_release(state);
}

/* Loads the saved weights into a new module, and checks that its outputs equal the trained
 * module's. */
static void check_file(context_t *ctx, const network_t *network, module_t *module,
                       const tensor_t *y)
{
    char path[] = "/tmp/tessera_parity_XXXXXX";
    double difference = 1.0;
    const int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    CHECK_OK(ctx, module_save_safetensors(ctx, module, path, NULL));
    check_names(ctx, network, path);
    module_t *loaded = network->make(ctx);
    CHECK_OK(ctx, module_load_safetensors(ctx, loaded, path, true));
    tensor_t *again = run_first(ctx, network, loaded);
    CHECK_OK(ctx, tensor_max_rel_diff(ctx, again, y, &difference));
    assert_true(difference < 1e-5);
    tensor_release(again);
    module_release(loaded);
    unlink(path);
}

#endif

static void check_end(context_t *ctx, const network_t *network, const char *mode, bool has_leapt,
                      module_t *module)
{
    tensor_t *y = run_first(ctx, network, module);
    check_outputs(ctx, network, has_leapt, y);
#ifdef TESSERA_HAVE_SAFETENSORS
    check_file(ctx, network, module, y);
    save_for_pytorch(ctx, network, mode, module, y);
#else
    (void)mode;
#endif
    tensor_release(y);
}

/* ---- runs ---- */

/* Compares elements of each result with the specification. */
static status_t verify(context_t *ctx, void *user, const op_event_t *event)
{
    double error = 0.0;
    (void)user;
    if (event->op->spec == NULL) return STATUS_OK;
    TRY(dispatch_verify(ctx, event->op, event->attrs, event->n_in, event->in, event->n_out,
                        (const tensor_t *const *)event->out, N_VERIFIED, &error));
    if (!(error <= 1.0)) fail_msg("%s: wrong by %.3g times its bound", event->op->name, error);
    return STATUS_OK;
}

/* Checks the differences from PyTorch's losses: at most 1e-4 in the steps before any leap; then at
 * most 1e-3 or twice PyTorch's largest leap. */
static void check_losses(const network_t *network, const double *losses, bool *out_has_leapt)
{
    double expected[STEPS], leaps[2], worst = 0.0;
    read_numbers(network->name, "", STEPS, expected);
    read_numbers(network->name, ".leaps", 2, leaps);
    for (int step = 0; step < STEPS; step++) {
        const double difference = fabs(losses[step] - expected[step]) / expected[step];
        const double most = step < STEPS_STEADY ? 1e-4 : fmax(1e-3, 2.0 * leaps[0]);
        if (!(difference < most))
            fail_msg("%s: loss %d differs from PyTorch's by %g of it", network->name, step,
                     difference);
        worst = fmax(worst, difference);
    }
    print_message("%s: losses %.2g\n", network->name, worst);
    *out_has_leapt = worst > 1e-5;
}

static void train(context_t *ctx, const network_t *network, const char *name)
{
    const bool is_blocked = strcmp(name, "dense") != 0;
    const train_mode_t mode = strcmp(name, "planned") == 0 ? TRAIN_PLANNED : TRAIN_EAGER;
    double losses[STEPS];
    bool has_leapt = false;
    observer_t observer = {.op_end = verify};
    trainer_t *trainer = NULL;
    module_t *module = network->make(ctx);
    drawn_weights(ctx, module);
    optimizer_t *optimizer = network->optimize(ctx, module);
    const train_options_t options = {.mode = mode};
    if (is_blocked) CHECK_OK(ctx, module_mkldnn(ctx, module, NULL));
    CHECK_OK(ctx, trainer_create(ctx, module, losses_cross_entropy, NULL, optimizer, &options,
                                 &trainer));
    CHECK_OK(ctx, dispatch_add_observer(ctx, &observer));
    for (int step = 0; step < STEPS; step++) {
        char key[16];
        if (step == STEPS_VERIFIED) dispatch_remove_observer(ctx, &observer);
        snprintf(key, sizeof key, "labels%d", step % BATCHES);
        tensor_t *x = draw_input(ctx, network, step % BATCHES);
        tensor_t *labels = drawn_integers(ctx, key, CLASSES, 1, &network->n);
        CHECK_OK(ctx, trainer_step(ctx, trainer, 1, (const tensor_t *const *)&x, labels, NULL,
                                   &losses[step]));
        tensor_release(x);
        tensor_release(labels);
    }
    check_losses(network, losses, &has_leapt);
    trainer_destroy(trainer);
    check_end(ctx, network, name, has_leapt, module);
    optimizer_destroy(optimizer);
    module_release(module);
}

static void train_all(context_t *ctx, const char *mode)
{
    const char *filter = getenv("TESSERA_CASE");
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++)
        if (filter == NULL || strcmp(filter, networks[i].name) == 0) train(ctx, &networks[i], mode);
}

static void dense_training_has_the_losses_and_outputs_of_pytorch(void **state)
{
    context_t *ctx = fixture_context(state);
    CHECK_OK(ctx, dispatch_set_policy(ctx, POLICY_PER_OP));
    train_all(ctx, "dense");
}

static void blocked_training_has_the_losses_and_outputs_of_pytorch(void **state)
{
    train_all(fixture_context(state), "mkldnn");
}

static void planned_training_has_the_losses_and_outputs_of_pytorch(void **state)
{
    train_all(fixture_context(state), "planned");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(dense_training_has_the_losses_and_outputs_of_pytorch),
        TEST(blocked_training_has_the_losses_and_outputs_of_pytorch),
        TEST(planned_training_has_the_losses_and_outputs_of_pytorch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
