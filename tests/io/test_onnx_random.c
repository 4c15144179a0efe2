/* Random ONNX models (tests/support/onnx/random_model.h) in every mode and from a frozen file,
 * compared with ONNX Runtime. The models are the corpus of the fuzz target `model`, and those of
 * numbered seeds. random_models.py writes random_models.values, for which it calls
 *
 *     test_onnx_random write FOLDER NAME...
 *
 * to write NAME.onnx, and the inputs of both runs, NAME.0.f32 and NAME.1.f32: the sizes as four
 * s64, then the elements. */
#define _POSIX_C_SOURCE 200809L

#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/onnx/onnx.h"
#include "tests/support/onnx/onnx_data.h"
#include "tests/support/onnx/random_model.h"

#define CORPUS TESSERA_SOURCE_DIR "/tests/fuzz/corpus/model"
#define VALUES TESSERA_SOURCE_DIR "/tests/io/random_models.values"
#define SAVED "test_onnx_random.tessera"

enum { N_SHOWN = 24, N_BYTES = 96, MAX_BYTES = 1 << 14, MAX_NAME = 128 };
enum { N_MODELS = 82 };

/* Builds with assertions and sanitizers are slow, so they run every fourth model. */
#ifdef NDEBUG
enum { MODEL_STEP = 1 };
#else
enum { MODEL_STEP = 4 };
#endif

/* Maximum error of a result, relative to the change that slightly changed ("shaken") inputs
 * cause. */
#define MAX_SHAKEN 16.0

/* ---- models ---- */

typedef struct random_model {
    const char *name;
    int base; /* the model is imported for the sizes of this run */
    size_t n_packed;
    uint8_t *packed;
    int64_t sizes[RANDOM_MODEL_RUNS][4];
} random_model_t;

/* Reads the bytes that choose a model. Names such as "seed7" are the seed of random bytes; other
 * names are files of the corpus. */
static size_t read_bytes(const char *name, uint8_t *out_bytes)
{
    char path[512];
    if (strncmp(name, "seed", 4) == 0) {
        uint32_t state = 2654435761u * (uint32_t)(atoi(name + 4) + 1);
        for (int i = 0; i < N_BYTES; i++) {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            out_bytes[i] = (uint8_t)(state >> 11);
        }
        return N_BYTES;
    }
    snprintf(path, sizeof path, CORPUS "/%s", name);
    FILE *file = fopen(path, "rb");
    if (file == NULL) fail_msg("%s cannot be read", path);
    const size_t n = fread(out_bytes, 1, MAX_BYTES, file);
    fclose(file);
    return n;
}

static random_model_t make_model(const char *name)
{
    static uint8_t bytes[MAX_BYTES];
    random_model_t model = {.name = name};
    const size_t n_bytes = read_bytes(name, bytes);
    model.packed = random_model_make(bytes, n_bytes, model.sizes, &model.n_packed);
    return model;
}

static int64_t numel_of(const int64_t *sizes)
{
    return sizes[0] * sizes[1] * sizes[2] * sizes[3];
}

/* ---- writing ---- */

static FILE *create(const char *folder, const char *name, const char *end)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s%s", folder, name, end);
    FILE *file = fopen(path, "wb");
    if (file == NULL) fprintf(stderr, "%s cannot be written\n", path);
    return file;
}

static bool write_one(const char *folder, const char *name)
{
    static const char *const ends[] = {".0.f32", ".1.f32"};
    static float elements[RANDOM_MODEL_NUMEL];
    random_model_t model = make_model(name);
    FILE *file = create(folder, name, ".onnx");
    bool is_written = file != NULL &&
                      fwrite(model.packed, 1, model.n_packed, file) == model.n_packed;
    if (file != NULL) is_written = fclose(file) == 0 && is_written;
    for (int run = 0; run < RANDOM_MODEL_RUNS && is_written; run++) {
        const size_t n = (size_t)numel_of(model.sizes[run]);
        random_model_fill((int64_t)n, 0.0, elements);
        file = create(folder, name, ends[run]);
        is_written = file != NULL && fwrite(model.sizes[run], sizeof(int64_t), 4, file) == 4 &&
                     fwrite(elements, sizeof *elements, n, file) == n;
        if (file != NULL) is_written = fclose(file) == 0 && is_written;
    }
    free(model.packed);
    return is_written;
}

/* ---- stored results ---- */

static Onnx__GraphProto *values;

/* Finds the stored tensor "NAME RUN KIND OUTPUT", or returns NULL. The caller releases it. */
static tensor_t *find(context_t *ctx, const char *name, int run, const char *kind, int output)
{
    static size_t next; /* where to search first: after the last tensor found */
    char key[MAX_NAME + 64];
    tensor_t *tensor = NULL;
    snprintf(key, sizeof key, "%s %d %s %d", name, run, kind, output);
    for (size_t i = 0; i < values->n_initializer; i++) {
        const size_t at = (next + i) % values->n_initializer;
        if (strcmp(values->initializer[at]->name, key) != 0) continue;
        CHECK_OK(ctx, onnx_data_tensor(ctx, values->initializer[at], &tensor));
        next = at;
        return tensor;
    }
    return NULL;
}

/* ---- running ---- */

typedef struct results {
    int n;
    tensor_t *out[METHOD_MAX_OUTPUTS];
} results_t;

static void release(results_t *results)
{
    mode_release_outputs(results->n, results->out);
    results->n = 0;
}

static tensor_t *make_input(context_t *ctx, const int64_t *sizes, double shake)
{
    tensor_t *x = NULL;
    void *elements = NULL;
    CHECK_OK(ctx, tensor_empty(ctx, DTYPE_F32, 4, sizes, &x));
    CHECK_OK(ctx, tensor_data_mutable(ctx, x, &elements));
    random_model_fill(tensor_numel(x), shake, elements);
    return x;
}

static int n_fixed; /* runs refused because the graph is valid at the imported sizes only */

/* Runs the model. Returns false if its graph is valid only for the sizes of the import, and the run
 * has others. */
static bool run_once(context_t *ctx, const random_model_t *model, runner_t *runner, int run,
                     double shake, const char *form, results_t *results)
{
    *results = (results_t){.n = 0};
    tensor_release(runner->in[0]);
    runner->in[0] = make_input(ctx, model->sizes[run], shake);
    if (runner->mode == MODE_NHWC) {
        tensor_t *plain = runner->in[0];
        CHECK_OK(ctx, tensor_channels_last(ctx, plain, &runner->in[0]));
        tensor_release(plain);
    }
    if (mode_run(runner, &results->n, results->out) == STATUS_OK) return true;
    if (run == model->base || (strstr(context_error(ctx), "the graph was made for") == NULL &&
                               strstr(context_error(ctx), "the graph holds where") == NULL))
        fail_msg("%s, imported for run %d, run %d, %s: %s", model->name, model->base, run, form,
                 context_error(ctx));
    n_fixed++;
    return false;
}

/* Returns the elements in row-major order. The caller frees them. */
static float *elements_of(context_t *ctx, const tensor_t *tensor)
{
    const size_t n_bytes = (size_t)tensor_numel(tensor) * sizeof(float);
    float *elements = malloc(n_bytes + 1);
    assert_non_null(elements);
    assert_int_equal(tensor_dtype(tensor), DTYPE_F32);
    CHECK_OK(ctx, tensor_read(ctx, tensor, elements, n_bytes));
    return elements;
}

/* Returns the error that an output may have, from the change that the shaken input causes. */
static double allowed_of(context_t *ctx, const tensor_t *plain, const tensor_t *shaken)
{
    float *a = elements_of(ctx, plain), *b = elements_of(ctx, shaken);
    double largest = 0.0, reach = 0.0;
    for (int64_t i = 0; i < tensor_numel(plain); i++) {
        largest = fmax(largest, fabs((double)a[i]));
        reach = fmax(reach, fabs((double)a[i] - (double)b[i]));
    }
    free(a);
    free(b);
    return MAX_SHAKEN * reach + 1e-5 * (1.0 + largest);
}

/* Compares elements. If they differ too much, prints the difference and returns false. */
static bool are_close(context_t *ctx, const tensor_t *got, const tensor_t *wanted, double allowed,
                      const char *what)
{
    const int64_t n = tensor_numel(got), step = (n + N_SHOWN - 1) / N_SHOWN | 1;
    float *a = elements_of(ctx, got), *b = elements_of(ctx, wanted);
    bool is_same = true;
    for (int64_t i = 0; is_same && i < tensor_numel(wanted); i++) {
        const double x = (double)a[i * step], y = (double)b[i];
        is_same = isnan(y) ? isnan(x) : x == y || fabs(x - y) <= allowed;
        if (!is_same)
            print_error("%s: element %lld is %g, ONNX Runtime's %g, %g apart is allowed\n", what,
                        (long long)(i * step), x, y, allowed);
    }
    free(a);
    free(b);
    return is_same;
}

static bool check_output(context_t *ctx, const random_model_t *model, int run, const char *form,
                         int output, const tensor_t *got, double allowed)
{
    tensor_t *sizes = find(ctx, model->name, run, "sizes", output);
    tensor_t *wanted = find(ctx, model->name, run, "out", output);
    int64_t shape[TENSOR_MAX_RANK];
    char what[MAX_NAME + 64];
    snprintf(what, sizeof what, "%s, run %d, %s: output %d", model->name, run, form, output);
    if (sizes == NULL || wanted == NULL) fail_msg("%s is not stored", what);
    CHECK_OK(ctx, tensor_read(ctx, sizes, shape, sizeof shape));
    bool is_same = shape_equal(tensor_rank(got), tensor_sizes(got), (int)tensor_numel(sizes),
                               shape);
    if (!is_same)
        print_error("%s has other sizes\n", what);
    else
        is_same = are_close(ctx, got, wanted, allowed, what);
    tensor_release(sizes);
    tensor_release(wanted);
    return is_same;
}

static bool check_runner(context_t *ctx, const random_model_t *model, runner_t *runner,
                         double allowed[RANDOM_MODEL_RUNS][METHOD_MAX_OUTPUTS], const char *form)
{
    bool is_same = true;
    for (int run = 0; run < RANDOM_MODEL_RUNS && is_same; run++) {
        results_t results;
        if (!run_once(ctx, model, runner, run, 0.0, form, &results)) continue;
        for (int i = 0; i < results.n; i++)
            is_same = check_output(ctx, model, run, form, i, results.out[i], allowed[run][i]) &&
                      is_same;
        release(&results);
    }
    return is_same;
}

static void find_allowed(context_t *ctx, const random_model_t *model, runner_t *runner,
                         double allowed[RANDOM_MODEL_RUNS][METHOD_MAX_OUTPUTS])
{
    for (int run = 0; run < RANDOM_MODEL_RUNS; run++) {
        results_t plain, shaken;
        if (!run_once(ctx, model, runner, run, 0.0, "dense", &plain) ||
            !run_once(ctx, model, runner, run, RANDOM_MODEL_SHAKE, "shaken", &shaken))
            continue;
        for (int i = 0; i < plain.n; i++)
            allowed[run][i] = allowed_of(ctx, plain.out[i], shaken.out[i]);
        release(&plain);
        release(&shaken);
    }
}

static bool check_file(context_t *ctx, const random_model_t *model, runner_t *runner,
                       double allowed[RANDOM_MODEL_RUNS][METHOD_MAX_OUTPUTS])
{
    module_t *loaded = NULL;
    CHECK_OK(ctx, freeze_save(ctx, runner->module, SAVED));
    CHECK_OK(ctx, freeze_load(ctx, SAVED, &loaded));
    module_release(runner->module);
    runner->module = loaded;
    const bool is_same = check_runner(ctx, model, runner, allowed, "loaded");
    remove(SAVED);
    return is_same;
}

static bool check_modes(context_t *ctx, const random_model_t *made, model_t *model)
{
    double allowed[RANDOM_MODEL_RUNS][METHOD_MAX_OUTPUTS] = {{0}};
    bool is_same = true;
    for (int i = 0; i < MODE_COUNT; i++) {
        const run_mode_t mode = onnx_data_modes[i];
        runner_t runner;
        if (mode_prepare(ctx, model, mode, &runner) != STATUS_OK)
            fail_msg("%s, mode %s: %s", made->name, mode_name(mode), context_error(ctx));
        if (mode == MODE_DENSE) find_allowed(ctx, made, &runner, allowed);
        is_same = check_runner(ctx, made, &runner, allowed, mode_name(mode)) && is_same;
        if (mode == MODE_FROZEN) is_same = check_file(ctx, made, &runner, allowed) && is_same;
        mode_clear(&runner);
    }
    CHECK_OK(ctx, dispatch_set_policy(ctx, POLICY_AUTO));
    return is_same;
}

static bool check_model(context_t *ctx, const char *name)
{
    random_model_t made = make_model(name);
    bool is_same = true;
    for (; made.base < RANDOM_MODEL_RUNS && is_same; made.base++) {
        model_t model = {.kind = MODEL_ONNX, .spec = name, .n_inputs = 1};
        const onnx_shape_t shape = {"x", 4, made.sizes[made.base]};
        const onnx_options_t options = {.n_shapes = 1, .shapes = &shape};
        is_same = onnx_load_bytes(ctx, made.packed, made.n_packed, &options, &model.module) ==
                  STATUS_OK;
        if (!is_same) {
            print_error("%s: %s\n", name, context_error(ctx));
            continue;
        }
        model.inputs[0].tensor = make_input(ctx, made.sizes[made.base], 0.0);
        is_same = check_modes(ctx, &made, &model);
        model_clear(&model);
    }
    free(made.packed);
    return is_same;
}

static const char *values_path = VALUES;

static void random_models_give_what_onnx_runtime_gives_in_every_mode(void **state)
{
    context_t *ctx = fixture_context(state);
    char last[MAX_NAME] = "";
    int n_models = 0, n_wrong = 0;
    values = onnx_data_read(ctx, &onnx__graph_proto__descriptor, values_path);
    if (values == NULL) fail_msg("%s cannot be read", values_path);
    for (size_t i = 0; i < values->n_initializer; i++) {
        char name[MAX_NAME];
        assert_int_equal(sscanf(values->initializer[i]->name, "%127s", name), 1);
        if (strcmp(name, last) == 0) continue;
        memcpy(last, name, sizeof last);
        if (n_models++ % MODEL_STEP == 0) n_wrong += !check_model(ctx, name);
    }
    print_message("%d models, %d wrong, %d runs at other sizes than the import's refused\n",
                  n_models, n_wrong, n_fixed);
    assert_int_equal(n_wrong, 0);
    if (strcmp(values_path, VALUES) == 0) assert_int_equal(n_models, N_MODELS);
    onnx__graph_proto__free_unpacked(values, NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(random_models_give_what_onnx_runtime_gives_in_every_mode),
    };
    if (argc > 3 && strcmp(argv[1], "write") == 0) {
        for (int i = 3; i < argc; i++)
            if (!write_one(argv[2], argv[i])) return 1;
        return 0;
    }
    if (argc > 1) values_path = argv[1];
    return cmocka_run_group_tests_name("onnx_random", tests, NULL, NULL);
}
