/* The ONNX project's test data (Debian's libonnx-testdata): models with stored inputs and outputs.
 * Every model must give the stored outputs, or fail with UNSUPPORTED: run operator by operator
 * ("eagerly") and in every mode, with dense and with mkldnn inputs. */
#define _POSIX_C_SOURCE 200809L

#include "tests/support/support.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/onnx/onnx_impl.h"
#include "tests/support/arrange.h"
#include "tests/support/onnx/onnx_data.h"

/* Builds with assertions and sanitizers are slow, so they run each model in one of the five modes
 * only. The modes alternate from model to model. */
#ifdef NDEBUG
enum { MODE_STEP = 1 };
#else
enum { MODE_STEP = MODE_COUNT };
#endif

#define MAX_TENSORS 16
#define PATH_BYTES 512

/* Layout of the inputs. */
typedef enum given { GIVEN_DENSE, GIVEN_MKLDNN, GIVEN_COUNT } given_t;
static const char *const given_names[GIVEN_COUNT] = {"dense", "mkldnn"};

typedef struct sample {
    int number;
    char directory[PATH_BYTES];
    Onnx__ModelProto *model;
    int n_in, n_out;
    Onnx__TensorProto *in[MAX_TENSORS], *out[MAX_TENSORS];
    bool is_special; /* has sequences or optionals, which are not in these arrays */
    bool passed_in[GIVEN_COUNT][MODE_COUNT];
} sample_t;

typedef enum outcome { PASSED, REFUSED, FAILED } outcome_t;

/* ---- files ---- */

static int read_tensors(context_t *ctx, const char *directory, const char *what,
                        Onnx__TensorProto **out)
{
    int n = 0;
    for (; n < MAX_TENSORS; n++) {
        char path[PATH_BYTES + 64];
        snprintf(path, sizeof path, "%s/test_data_set_0/%s_%d.pb", directory, what, n);
        out[n] = onnx_data_read(ctx, &onnx__tensor_proto__descriptor, path);
        if (out[n] == NULL) break;
    }
    return n;
}

/* Returns true if an input or output is a sequence or optional. */
static bool has_special(const Onnx__GraphProto *graph)
{
    bool is_special = false;
    for (size_t i = 0; i < graph->n_input; i++)
        is_special |= graph->input[i]->type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    for (size_t i = 0; i < graph->n_output; i++)
        is_special |= graph->output[i]->type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    return is_special;
}

/* Returns true for bf16. The data store it as u16 bits that were truncated, not rounded. */
static bool is_bf16(const Onnx__ValueInfoProto *value)
{
    const Onnx__TypeProto *type = value->type;
    return type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE &&
           type->tensor_type->elem_type == ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16;
}

/* Returns true for models with random results. ONNX's generator is not ours. */
static bool is_random(const char *directory)
{
    return strstr(directory, "test_bernoulli") != NULL;
}

/* Reads a model's data. Returns false if they cannot be compared: unsupported element types, bf16,
 * random numbers. */
static bool sample_read(context_t *ctx, sample_t *sample)
{
    char path[PATH_BYTES + 64];
    snprintf(path, sizeof path, "%s/model.onnx", sample->directory);
    sample->model = onnx_data_read(ctx, &onnx__model_proto__descriptor, path);
    sample->is_special = sample->model != NULL && has_special(sample->model->graph);
    if (sample->is_special) return true;
    sample->n_in = read_tensors(ctx, sample->directory, "input", sample->in);
    sample->n_out = read_tensors(ctx, sample->directory, "output", sample->out);
    dtype_t dtype;
    for (int i = 0; i < sample->n_out; i++)
        if (onnx_dtype(ctx, sample->out[i]->data_type, &dtype) != STATUS_OK) return false;
    if (sample->model == NULL || sample->n_out == 0 || is_random(sample->directory)) return false;
    const Onnx__GraphProto *graph = sample->model->graph;
    for (size_t i = 0; i < graph->n_output; i++)
        if (is_bf16(graph->output[i])) return false;
    for (size_t i = 0; i < graph->n_input; i++)
        if (is_bf16(graph->input[i])) return false;
    return true;
}

static void sample_clear(sample_t *sample)
{
    if (sample->model != NULL) onnx__model_proto__free_unpacked(sample->model, NULL);
    for (int i = 0; i < sample->n_in; i++) onnx__tensor_proto__free_unpacked(sample->in[i], NULL);
    for (int i = 0; i < sample->n_out; i++) onnx__tensor_proto__free_unpacked(sample->out[i], NULL);
}

/* ---- running eagerly ---- */

typedef status_t (*run_t)(context_t *ctx, module_t *model, int n_in, const tensor_t *const *in,
                          int *n_out, tensor_t **out);

static status_t run_policy(context_t *ctx, policy_t policy, module_t *model, int n_in,
                           const tensor_t *const *in, int *n_out, tensor_t **out)
{
    TRY(dispatch_set_policy(ctx, policy));
    status_t status = module_call_tensors(ctx, model, "forward", n_in, in, n_out, out);
    TRY(dispatch_set_policy(ctx, POLICY_AUTO));
    return status;
}

static status_t run_auto(context_t *ctx, module_t *model, int n_in, const tensor_t *const *in,
                         int *n_out, tensor_t **out)
{
    return run_policy(ctx, POLICY_AUTO, model, n_in, in, n_out, out);
}

static status_t run_per_op(context_t *ctx, module_t *model, int n_in, const tensor_t *const *in,
                           int *n_out, tensor_t **out)
{
    return run_policy(ctx, POLICY_PER_OP, model, n_in, in, n_out, out);
}

static const struct {
    const char *name;
    run_t run;
} policies[] = {{"auto", run_auto}, {"per_op", run_per_op}};
#define N_POLICIES ((int)(sizeof policies / sizeof *policies))

static bool check_outputs(context_t *ctx, const sample_t *sample, int n_out, tensor_t *const *out)
{
    bool same = n_out == sample->n_out;
    for (int i = 0; i < n_out && same; i++) {
        tensor_t *wanted = NULL;
        CHECK_OK(ctx, onnx_data_tensor(ctx, sample->out[i], &wanted));
        same = onnx_data_is_same(ctx, out[i], wanted, 1e-3, 2e-6);
        tensor_release(wanted);
    }
    return same;
}

static outcome_t run_eagerly(context_t *ctx, const sample_t *sample, module_t *model, int policy,
                             int n_in, const tensor_t *const *in)
{
    tensor_t *out[METHOD_MAX_OUTPUTS] = {NULL};
    int n_out = 0;
    if (policies[policy].run(ctx, model, n_in, in, &n_out, out) != STATUS_OK) {
        print_error("%s, %s: %s\n", sample->directory, policies[policy].name, context_error(ctx));
        return context_status(ctx) == STATUS_UNSUPPORTED ? REFUSED : FAILED;
    }
    bool same = check_outputs(ctx, sample, n_out, out);
    if (!same) print_error("%s, %s: wrong output\n", sample->directory, policies[policy].name);
    for (int i = 0; i < n_out; i++) tensor_release(out[i]);
    return same ? PASSED : FAILED;
}

/* ---- running in a mode ---- */

/* Returns true for messages that begin with an operator's name, such as "conv2d: ...". */
static bool names_operator(const char *message)
{
    char word[64];
    int length = (int)strcspn(message, ":");
    snprintf(word, sizeof word, "%.*s", length, message);
    return message[length] == ':' && ops_find(word) != NULL;
}

static outcome_t refused_or_failed(context_t *ctx, const sample_t *sample, run_mode_t mode)
{
    const char *message = context_error(ctx);
    print_error("%s, mode %s: %s\n", sample->directory, mode_name(mode), message);
    bool is_refused = context_status(ctx) == STATUS_UNSUPPORTED && names_operator(message);
    return is_refused ? REFUSED : FAILED;
}

/* Converts the tensor to mkldnn, with blocks of channels if possible. Returns it unchanged if
 * mkldnn does not support its dtype or rank. */
static tensor_t *force(context_t *ctx, tensor_t *tensor)
{
    tensor_t *forced = NULL;
    arrangement_t how = ARRANGE_BLOCKS_8;
    if (!arrange_is_possible(tensor, how)) how = ARRANGE_SNAPSHOT;
    if (!arrange_is_possible(tensor, how)) how = ARRANGE_CONTIGUOUS;
    CHECK_OK(ctx, arrange(ctx, tensor, how, &forced));
    return forced;
}

/* Runs twice. The second run uses cached kernels, packed weights and plans. */
static outcome_t run_given(context_t *ctx, const sample_t *sample, runner_t *runner, given_t given)
{
    outcome_t outcome = PASSED;
    for (int i = 0; i < runner->n_in && given == GIVEN_MKLDNN; i++) {
        tensor_t *dense = runner->in[i];
        runner->in[i] = force(ctx, dense);
        tensor_release(dense);
    }
    for (int run = 0; run < 2 && outcome == PASSED; run++) {
        tensor_t *out[METHOD_MAX_OUTPUTS] = {NULL};
        int n_out = 0;
        if (mode_run(runner, &n_out, out) != STATUS_OK) {
            outcome = refused_or_failed(ctx, sample, runner->mode);
        } else if (!check_outputs(ctx, sample, n_out, out)) {
            print_error("%s, mode %s, inputs %s: wrong output\n", sample->directory,
                        mode_name(runner->mode), given_names[given]);
            outcome = FAILED;
        }
        mode_release_outputs(n_out, out);
    }
    return outcome;
}

static outcome_t run_in_mode(context_t *ctx, sample_t *sample, model_t *model, run_mode_t mode)
{
    runner_t runner;
    outcome_t outcome = PASSED;
    if (mode_prepare(ctx, model, mode, &runner) != STATUS_OK)
        return refused_or_failed(ctx, sample, mode);
    for (given_t given = 0; given < GIVEN_COUNT && outcome == PASSED; given++) {
        outcome = run_given(ctx, sample, &runner, given);
        sample->passed_in[given][mode] = outcome == PASSED;
    }
    mode_clear(&runner);
    return outcome;
}

static outcome_t run_in_modes(context_t *ctx, sample_t *sample, module_t *module, int n_in,
                              tensor_t *const *in)
{
    model_t model = {.spec = sample->directory, .kind = MODEL_ONNX, .module = module};
    outcome_t outcome = PASSED;
    for (model.n_inputs = 0; model.n_inputs < n_in; model.n_inputs++)
        model.inputs[model.n_inputs].tensor = in[model.n_inputs];
    for (int i = sample->number % MODE_STEP; i < MODE_COUNT; i += MODE_STEP)
        if (run_in_mode(ctx, sample, &model, onnx_data_modes[i]) == FAILED) outcome = FAILED;
    CHECK_OK(ctx, dispatch_set_policy(ctx, POLICY_AUTO));
    return outcome;
}

/* ---- running a sample ---- */

static outcome_t run_loaded(context_t *ctx, sample_t *sample, module_t *model, int n_in)
{
    tensor_t *in[MAX_TENSORS] = {NULL};
    outcome_t outcome = PASSED;
    for (int i = 0; i < n_in; i++)
        if (outcome == PASSED && onnx_data_tensor(ctx, sample->in[i], &in[i]) != STATUS_OK)
            outcome = REFUSED;
    for (int policy = 0; policy < N_POLICIES && outcome == PASSED; policy++)
        outcome = run_eagerly(ctx, sample, model, policy, n_in, (const tensor_t *const *)in);
    if (outcome == PASSED) outcome = run_in_modes(ctx, sample, model, n_in, in);
    for (int i = 0; i < n_in; i++) tensor_release(in[i]);
    return outcome;
}

static outcome_t run_bytes(context_t *ctx, sample_t *sample, int n_in, const void *bytes,
                           size_t n_bytes, bool tells)
{
    module_t *model = NULL;
    if (onnx_load_bytes(ctx, bytes, n_bytes, NULL, &model) != STATUS_OK) {
        outcome_t outcome = context_status(ctx) == STATUS_UNSUPPORTED ? REFUSED : FAILED;
        if (outcome == FAILED || tells)
            print_message("%s (%d inputs): %s\n", sample->directory, n_in, context_error(ctx));
        return outcome;
    }
    outcome_t outcome = run_loaded(ctx, sample, model, n_in);
    module_release(model);
    return outcome;
}

/* Turns the inputs from n_in on into initializers, so that importing knows their elements, and runs
 * the model. */
static outcome_t run_variant(context_t *ctx, sample_t *sample, int n_in, bool tells)
{
    Onnx__GraphProto *graph = sample->model->graph;
    Onnx__GraphProto saved = *graph;
    Onnx__TensorProto *initializers[2 * MAX_TENSORS];
    size_t n = 0;
    for (size_t i = 0; i < saved.n_initializer && n < MAX_TENSORS; i++)
        initializers[n++] = saved.initializer[i];
    for (int i = n_in; i < sample->n_in; i++) {
        sample->in[i]->name = realloc(sample->in[i]->name, strlen(saved.input[i]->name) + 1);
        strcpy(sample->in[i]->name, saved.input[i]->name);
        initializers[n++] = sample->in[i];
    }
    if (n_in < sample->n_in) {
        graph->initializer = initializers;
        graph->n_initializer = n;
    }
    size_t n_bytes = onnx__model_proto__get_packed_size(sample->model);
    uint8_t *bytes = malloc(n_bytes);
    assert_non_null(bytes);
    onnx__model_proto__pack(sample->model, bytes);
    *graph = saved;
    outcome_t outcome = run_bytes(ctx, sample, n_in, bytes, n_bytes, tells);
    free(bytes);
    return outcome;
}

/* Runs the model with all outputs. If these are not supported (masks, statistics), runs it with the
 * first output only. */
static outcome_t run_any_outputs(context_t *ctx, sample_t *sample, int n_in, bool tells)
{
    int n_out = sample->n_out;
    size_t n_outputs = sample->model->graph->n_output;
    outcome_t outcome = run_variant(ctx, sample, n_in, tells);
    if (outcome == REFUSED && n_out > 1) {
        sample->n_out = 1;
        sample->model->graph->n_output = 1;
        outcome = run_variant(ctx, sample, n_in, tells);
        sample->n_out = n_out;
        sample->model->graph->n_output = n_outputs;
    }
    return outcome;
}

/* ---- sequences and optionals ---- */

/* Reads stored values of inputs or outputs. Returns their number. */
static int read_data(context_t *ctx, const sample_t *sample, const char *what, size_t n,
                     Onnx__ValueInfoProto *const *values, datum_t **data)
{
    int n_read = 0;
    for (size_t i = 0; i < n && i < MAX_TENSORS; i++) {
        char path[PATH_BYTES + 64];
        snprintf(path, sizeof path, "%s/test_data_set_0/%s_%d.pb", sample->directory, what, (int)i);
        if (!onnx_data_datum(ctx, values[i]->type, path, &data[i])) break;
        n_read++;
    }
    return n_read;
}

static void release_data(int n, datum_t **data)
{
    for (int i = 0; i < n; i++) datum_release(data[i]);
}

/* Returns the value with its tensors converted by force(). The caller releases it. */
static datum_t *force_datum(context_t *ctx, datum_t *datum)
{
    datum_t *forced = NULL;
    if (datum_kind(datum) == DATUM_TENSOR) {
        tensor_t *tensor = force(ctx, datum_as_tensor(datum));
        CHECK_OK(ctx, datum_tensor(ctx, tensor, &forced));
        tensor_release(tensor);
    } else if (datum_kind(datum) == DATUM_LIST) {
        CHECK_OK(ctx, datum_list(ctx, 0, NULL, &forced));
        for (int i = 0; i < datum_length(datum); i++) {
            datum_t *item = force_datum(ctx, datum_item(datum, i));
            CHECK_OK(ctx, datum_append(ctx, forced, item));
            datum_release(item);
        }
    } else {
        forced = datum_retain(datum);
    }
    return forced;
}

typedef struct special {
    int n_in, n_wanted;
    datum_t *in[GIVEN_COUNT][MAX_TENSORS], *wanted[MAX_TENSORS];
} special_t;

static outcome_t call_special(context_t *ctx, const sample_t *sample, const special_t *special,
                              module_t *model, const char *form, given_t given)
{
    datum_t *out[METHOD_MAX_OUTPUTS] = {NULL};
    int n_out = 0;
    if (module_call(ctx, model, "forward", special->n_in, special->in[given], &n_out, out) !=
        STATUS_OK) {
        print_error("%s, %s: %s\n", sample->directory, form, context_error(ctx));
        return FAILED;
    }
    bool same = n_out == special->n_wanted;
    for (int i = 0; i < n_out && same; i++)
        same = onnx_data_is_same_datum(ctx, out[i], special->wanted[i]);
    if (!same)
        print_error("%s, %s, inputs %s: wrong output\n", sample->directory, form,
                    given_names[given]);
    release_data(n_out, out);
    return same ? PASSED : FAILED;
}

static outcome_t run_special_modes(context_t *ctx, sample_t *sample, const special_t *special,
                                   module_t *module)
{
    outcome_t outcome = PASSED;
    model_t model = {.spec = sample->directory, .kind = MODEL_ONNX, .module = module};
    for (int i = sample->number % MODE_STEP; i < MODE_COUNT; i += MODE_STEP) {
        const run_mode_t mode = onnx_data_modes[i];
        runner_t runner;
        CHECK_OK(ctx, mode_prepare(ctx, &model, mode, &runner));
        for (given_t given = 0; given < GIVEN_COUNT; given++) {
            outcome_t one = call_special(ctx, sample, special, runner.module, mode_name(mode),
                                         given);
            sample->passed_in[given][mode] = one == PASSED;
            if (one == FAILED) outcome = FAILED;
        }
        mode_clear(&runner);
    }
    CHECK_OK(ctx, dispatch_set_policy(ctx, POLICY_AUTO));
    return outcome;
}

static outcome_t run_special(context_t *ctx, sample_t *sample)
{
    const Onnx__GraphProto *graph = sample->model->graph;
    special_t special = {0};
    char path[PATH_BYTES + 64];
    module_t *model = NULL;
    outcome_t outcome = REFUSED;
    snprintf(path, sizeof path, "%s/model.onnx", sample->directory);
    special.n_in = read_data(ctx, sample, "input", graph->n_input, graph->input,
                             special.in[GIVEN_DENSE]);
    special.n_wanted = read_data(ctx, sample, "output", graph->n_output, graph->output,
                                 special.wanted);
    for (int i = 0; i < special.n_in; i++)
        special.in[GIVEN_MKLDNN][i] = force_datum(ctx, special.in[GIVEN_DENSE][i]);
    const bool is_read = special.n_in == (int)graph->n_input &&
                         special.n_wanted == (int)graph->n_output;
    status_t status = onnx_load(ctx, path, NULL, &model);
    if (status != STATUS_OK && status != STATUS_UNSUPPORTED) outcome = FAILED;
    if (status != STATUS_OK) print_message("%s: %s\n", sample->directory, context_error(ctx));
    if (status == STATUS_OK && is_read) {
        outcome = call_special(ctx, sample, &special, model, "auto", GIVEN_DENSE);
        if (outcome == PASSED) outcome = run_special_modes(ctx, sample, &special, model);
    }
    module_release(model);
    for (given_t given = 0; given < GIVEN_COUNT; given++)
        release_data(special.n_in, special.in[given]);
    release_data(special.n_wanted, special.wanted);
    return outcome;
}

/* ---- folders ---- */

static int is_test(const struct dirent *entry)
{
    return strncmp(entry->d_name, "test_", 5) == 0;
}

typedef struct totals {
    int n, n_passed, n_refused, n_failed;
    int n_unlisted; /* models whose support differs from the list of unsupported models */
    int n_passed_in[GIVEN_COUNT][MODE_COUNT];
} totals_t;

/* ---- the list of unsupported models ---- */

/* Reads onnx_refused.txt, which has lines "# REASON", each followed by models, one per line. */
static char *read_refused(void)
{
    FILE *file = fopen(TESSERA_SOURCE_DIR "/tests/io/onnx_refused.txt", "rb");
    assert_non_null(file);
    enum { MOST = 1 << 16 };
    char *text = calloc(1, MOST);
    assert_non_null(text);
    size_t n = fread(text, 1, MOST - 1, file);
    assert_true(n < MOST - 1);
    fclose(file);
    return text;
}

/* Returns true if a line of the text is this name. */
static bool is_listed(const char *text, const char *name)
{
    size_t length = strlen(name);
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) == 0 && line[length] == '\n') return true;
    }
    return false;
}

static int count_listed(const char *text)
{
    int n = 0;
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        n += strncmp(line, "test_", 5) == 0;
    }
    return n;
}

/* Runs every model of a folder, eagerly and in modes. If `variants`, runs each also with fewer
 * inputs and more initializers. `refused` is the list of unsupported models, or NULL. */
static totals_t run_folder(context_t *ctx, const char *folder, bool variants, const char *refused)
{
    char path[PATH_BYTES / 2];
    struct dirent **entries = NULL;
    totals_t totals = {0};
    snprintf(path, sizeof path, "%s/%s", TESSERA_ONNX_TESTDATA, folder);
    int n = scandir(path, &entries, is_test, alphasort);
    for (int i = 0; i < n; i++) {
        sample_t sample = {.number = i};
        snprintf(sample.directory, sizeof sample.directory, "%s/%.200s", path, entries[i]->d_name);
        free(entries[i]);
        bool is_usable = sample_read(ctx, &sample);
        outcome_t outcome = REFUSED;
        int least = variants ? 0 : sample.n_in;
        if (sample.is_special) {
            outcome = run_special(ctx, &sample);
            is_usable = false;
        }
        for (int n_in = sample.n_in; n_in >= least && is_usable && outcome != FAILED; n_in--) {
            outcome_t one = run_any_outputs(ctx, &sample, n_in, !variants);
            if (one != REFUSED) outcome = one;
        }
        totals.n++;
        totals.n_passed += outcome == PASSED;
        totals.n_refused += outcome == REFUSED;
        totals.n_failed += outcome == FAILED;
        const char *name = strrchr(sample.directory, '/') + 1;
        if (refused != NULL && is_listed(refused, name) != (outcome == REFUSED)) {
            totals.n_unlisted++;
            print_error("%s %s, onnx_refused.txt says otherwise\n", name,
                        outcome == REFUSED ? "is refused" : "is not refused");
        }
        for (int mode = 0; mode < GIVEN_COUNT * MODE_COUNT; mode++)
            totals.n_passed_in[mode / MODE_COUNT][mode % MODE_COUNT] +=
                sample.passed_in[mode / MODE_COUNT][mode % MODE_COUNT];
        sample_clear(&sample);
    }
    free(entries);
    print_message("%s: %d models, %d passed, %d refused, %d failed\n", folder, totals.n,
                  totals.n_passed, totals.n_refused, totals.n_failed);
    return totals;
}

/* Checks that enough models ran in each mode, for each layout of inputs. */
static void check_modes(const totals_t *totals, int at_least)
{
    for (given_t given = 0; given < GIVEN_COUNT; given++)
        for (int mode = 0; mode < MODE_COUNT; mode++) {
            const int n = totals->n_passed_in[given][mode];
            print_message("mode %s, inputs %s: %d passed\n", mode_name((run_mode_t)mode),
                          given_names[given], n);
            assert_in_range(n, MODE_STEP == 1 ? at_least : at_least / MODE_STEP / 2, totals->n);
        }
}

static void models_that_pytorch_exported_give_its_results_in_every_mode(void **state)
{
    if (TESSERA_ONNX_TESTDATA[0] == '\0') skip_without("libonnx-testdata");
    totals_t totals = run_folder(fixture_context(state), "pytorch-converted", false, NULL);
    assert_int_equal(totals.n, 82);
    assert_int_equal(totals.n_failed, 0);
    assert_int_equal(totals.n_passed, 82);
    check_modes(&totals, 82);
}

static void operators_that_pytorch_exported_give_its_results_in_every_mode(void **state)
{
    if (TESSERA_ONNX_TESTDATA[0] == '\0') skip_without("libonnx-testdata");
    totals_t totals = run_folder(fixture_context(state), "pytorch-operator", false, NULL);
    assert_int_equal(totals.n_failed, 0);
    assert_in_range(totals.n_passed, 35, totals.n);
    check_modes(&totals, 35);
}

static void single_operators_give_the_stored_results_in_every_mode_or_are_refused(void **state)
{
    if (TESSERA_ONNX_TESTDATA[0] == '\0') skip_without("libonnx-testdata");
    char *refused = read_refused();
    totals_t totals = run_folder(fixture_context(state), "node", true, refused);
    const int n_listed = count_listed(refused);
    free(refused);
    assert_int_equal(totals.n_failed, 0);
    assert_int_equal(totals.n_unlisted, 0);
    assert_int_equal(totals.n_refused, n_listed);
    assert_in_range(totals.n_passed, 887, totals.n);
    check_modes(&totals, 887);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(models_that_pytorch_exported_give_its_results_in_every_mode),
        TEST(operators_that_pytorch_exported_give_its_results_in_every_mode),
        TEST(single_operators_give_the_stored_results_in_every_mode_or_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
