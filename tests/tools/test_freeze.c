/* tessera freeze of ONNX models: what it needs to know of inputs, and what it does without. */
#include "tests/support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "freeze/freeze.h"
#include "io/npy.h"
#include "tests/support/onnx_model.h"
#include "tests/support/scratch.h"

#ifdef TESSERA_HAVE_ONNX

#define BOOL ONNX__TENSOR_PROTO__DATA_TYPE__BOOL

static maker_t block;

/* Runs `tessera ARGUMENTS` in the scratch directory: the exit code, and a part of what it prints.
 */
static void check(const char *arguments, int code, const char *part)
{
    static char text[1 << 16];
    char line[1024];
    snprintf(line, sizeof line, "cd %s && timeout 60 " TESSERA_COMMAND " %s 2>&1", scratch,
             arguments);
    FILE *pipe = popen(line, "r");
    assert_non_null(pipe);
    text[fread(text, 1, sizeof text - 1, pipe)] = '\0';
    const int status = pclose(pipe);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != code || strstr(text, part) == NULL)
        fail_msg("repeat: tessera %s\nstatus %d, wanted %d with %s:\n%s", arguments, status, code,
                 part, text);
}

static void path_in_scratch(const char *name, char *out_path)
{
    snprintf(out_path, 256, "%s/%s", scratch, name);
}

static void write_model(const char *name)
{
    char path[256];
    size_t n_bytes = 0;
    uint8_t *bytes = maker_pack(&maker, &n_bytes);
    path_in_scratch(name, path);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n_bytes, file), n_bytes);
    fclose(file);
    free(bytes);
}

static void write_array(context_t *ctx, const char *name, dtype_t dtype, int rank,
                        const int64_t *sizes, const void *elements)
{
    char path[256];
    tensor_t *tensor = NULL;
    CHECK_OK(ctx, tensor_from(ctx, dtype, rank, sizes, elements, &tensor));
    path_in_scratch(name, path);
    CHECK_OK(ctx, npy_save(ctx, path, tensor));
    tensor_release(tensor);
}

/* All elements of an array that a command has written. */
static void check_array(context_t *ctx, const char *name, int n, const float *wanted)
{
    char path[256];
    tensor_t *tensor = NULL;
    const void *elements = NULL;
    path_in_scratch(name, path);
    CHECK_OK(ctx, npy_load(ctx, path, &tensor));
    assert_int_equal(tensor_numel(tensor), n);
    CHECK_OK(ctx, tensor_data(ctx, tensor, &elements));
    for (int i = 0; i < n; i++)
        assert_float_equal(((const float *)elements)[i], wanted[i], 1e-5f * (1.0f + wanted[i]));
    tensor_release(tensor);
}

/* ---- models that random values break ---- */

/* y = float(x / b), of integers: random ones have a 0 among them. */
static void make_quotient(context_t *ctx)
{
    int64_t a[24], b[24];
    float y[24];
    maker_begin(&maker, 17);
    maker_input(&maker, "a", INT64, DIMS(4, 6));
    maker_input(&maker, "b", INT64, DIMS(4, 6));
    maker_output(&maker, "y");
    maker_node(&maker, "Div", "quotient", "a b", "q");
    maker_int(maker_node(&maker, "Cast", "cast", "q", "y"), "to", FLOAT);
    for (int i = 0; i < 24; i++) {
        a[i] = 97 * i - 1000;
        b[i] = i % 2 == 0 ? i + 3 : -i;
        y[i] = (float)(a[i] / b[i]);
    }
    write_model("quotient.onnx");
    write_array(ctx, "a.npy", DTYPE_S64, DIMS(4, 6), a);
    write_array(ctx, "b.npy", DTYPE_S64, DIMS(4, 6), b);
    check("freeze quotient.onnx -o m.tessera", 0, "m.tessera: ");
    check("run m.tessera --input a=a.npy --input b=b.npy --output-dir out", 0, "y f32[4,6]");
    check_array(ctx, "out/y.npy", 24, y);
}

/* y = float(range(0, n, 1)): how long it is only the value of n says. */
static void make_range(context_t *ctx)
{
    maker_begin(&maker, 17);
    maker_input(&maker, "n", INT64, 0, NULL);
    maker_output(&maker, "y");
    maker_initializer(&maker, "from", INT64, 0, NULL, (int64_t[]){2}, sizeof(int64_t));
    maker_initializer(&maker, "by", INT64, 0, NULL, (int64_t[]){3}, sizeof(int64_t));
    maker_node(&maker, "Range", "range", "from n by", "r");
    maker_int(maker_node(&maker, "Cast", "cast", "r", "y"), "to", FLOAT);
    write_model("range.onnx");
    write_array(ctx, "n.npy", DTYPE_S64, 0, NULL, (int64_t[]){12});
    check("freeze range.onnx -o m.tessera", 0, "m.tessera: ");
    check("run m.tessera --input n=n.npy --output-dir out", 0, "y f32[4]");
    check_array(ctx, "out/y.npy", 4, (float[]){2, 5, 8, 11});
}

/* y: x, doubled as long as it is below a bound; it never ends where the bound is not reached. */
static void make_loop(context_t *ctx)
{
    maker_begin(&block, 17);
    maker_input(&block, "i", INT64, 0, NULL);
    maker_input(&block, "c", BOOL, 0, NULL);
    maker_input(&block, "h", FLOAT, 0, NULL);
    maker_output(&block, "go");
    maker_output(&block, "g");
    maker_node(&block, "Add", "sum", "h h", "g");
    maker_node(&block, "Less", "less", "g bound", "go");
    maker_begin(&maker, 17);
    maker_input(&maker, "x", FLOAT, 0, NULL);
    maker_input(&maker, "bound", FLOAT, 0, NULL);
    maker_input(&maker, "first", BOOL, 0, NULL);
    maker_output(&maker, "y");
    maker_attr_graph(maker_node(&maker, "Loop", "loop", "- first x", "y"), "body", &block);
    write_model("loop.onnx");
    write_array(ctx, "x.npy", DTYPE_F32, 0, NULL, (float[]){3});
    write_array(ctx, "bound.npy", DTYPE_F32, 0, NULL, (float[]){40});
    write_array(ctx, "first.npy", DTYPE_BOOL, 0, NULL, (bool[]){true});
    check("freeze loop.onnx -o m.tessera", 0, "m.tessera: ");
    check("run m.tessera --input x=x.npy --input bound=bound.npy --input first=first.npy "
          "--output-dir out",
          0, "y f32[]");
    check_array(ctx, "out/y.npy", 1, (float[]){48});
}

/* y = reshape(x w, shape) v: only the elements of `shape` say what the second product takes. */
static void make_reshape(context_t *ctx)
{
    float x[24], w[6 * 8], v[4 * 3], p[32], y[24];
    for (int i = 0; i < 48; i++) w[i] = (float)(i * i % 13 - 6);
    for (int i = 0; i < 24; i++) x[i] = (float)(i % 7 - 3);
    for (int i = 0; i < 12; i++) v[i] = (float)(i % 5 - 2);
    for (int i = 0; i < 32; i++) {
        p[i] = 0.0f;
        for (int k = 0; k < 6; k++) p[i] += x[i / 8 * 6 + k] * w[k * 8 + i % 8];
    }
    for (int i = 0; i < 24; i++) {
        y[i] = 0.0f;
        for (int k = 0; k < 4; k++) y[i] += p[i / 3 * 4 + k] * v[k * 3 + i % 3];
    }
    maker_begin(&maker, 17);
    maker_input(&maker, "x", FLOAT, DIMS(4, 6));
    maker_input(&maker, "shape", INT64, DIMS(2));
    maker_output(&maker, "y");
    maker_initializer(&maker, "w", FLOAT, DIMS(6, 8), w, sizeof w);
    maker_initializer(&maker, "v", FLOAT, DIMS(4, 3), v, sizeof v);
    maker_node(&maker, "MatMul", "first", "x w", "p");
    maker_node(&maker, "Reshape", "reshape", "p shape", "r");
    maker_node(&maker, "MatMul", "second", "r v", "y");
    write_model("reshape.onnx");
    write_array(ctx, "x.npy", DTYPE_F32, DIMS(4, 6), x);
    write_array(ctx, "shape.npy", DTYPE_S64, DIMS(2), (int64_t[]){8, 4});
    check("freeze reshape.onnx -o m.tessera", 0, "m.tessera: ");
    check("run m.tessera --input x=x.npy --input shape=shape.npy --output-dir out", 0,
          "y f32[8,3]");
    check_array(ctx, "out/y.npy", 24, y);
    check("freeze reshape.onnx -o m.tessera --tune 0.1", 0, "m.tessera: ");
    check("freeze reshape.onnx -o m.tessera --dtype bf16", 0,
          "bf16: not measured; --input of every");
    check("freeze reshape.onnx -o m.tessera --input x=x.npy --input shape=shape.npy --dtype bf16",
          0, "outputs differ from f32 by 0");
}

static void models_that_random_values_break_are_frozen(void **state)
{
    context_t *ctx = fixture_context(state);
    make_quotient(ctx);
    make_range(ctx);
    make_loop(ctx);
    make_reshape(ctx);
}

/* ---- what is measured on values ---- */

#define NETWORK "zoo:squeezenet1_1"
#define IMAGE NETWORK " --input x=image.npy"

static void what_is_measured_on_values_needs_them(void **state)
{
    context_t *ctx = fixture_context(state);
    char path[256];
    tensor_t *image = NULL;
    path_in_scratch("image.npy", path);
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, DIMS(1, 3, 64, 64), &image));
    CHECK_OK(ctx, npy_save(ctx, path, image));
    tensor_release(image);
    check("freeze " NETWORK " -o m.tessera --dtype bf16 --max-layer-error 1e-9", 1,
          "--max-layer-error, needs values: --input of every input, or --calibrate DIR");
    check("freeze " NETWORK " -o m.tessera --dtype bf16 --min-agreement 1", 1,
          "--min-agreement, needs values");
    check("freeze " IMAGE " -o m.tessera --dtype bf16", 0, "0 kept in f32; outputs differ");
    check("freeze " IMAGE " -o m.tessera --dtype bf16 --max-layer-error 1e-9", 0, "kept in f32: ");
    check("run " IMAGE " --output-dir saved", 0, "output ");
    check("freeze " NETWORK " --shape x=1x3x64x64 -o m.tessera --tune 0.2", 0, "tuned: ");
    check("run m.tessera --input x=image.npy --compare saved --tolerance 1e-3", 0, "differs");
    check("freeze " IMAGE " -o m.tessera --tune 0.2", 0, "of the time by estimates");
    check("run m.tessera --input x=image.npy --compare saved --tolerance 1e-3", 0, "differs");
}

/* ---- nothing runs ---- */

static status_t note_run(context_t *ctx, void *user, const op_event_t *event)
{
    (void)ctx, (void)event;
    ++*(int *)user;
    return STATUS_OK;
}

/* Weights are packed, and no operator is run, as counters and observers say. */
static void no_operator_runs_while_a_plan_is_made_of_sizes(void **state)
{
    context_t *ctx = fixture_context(state);
    static const float weight[16 * 16 * 9] = {1.0f};
    int n_runs = 0;
    observer_t observer = {.user = &n_runs, .op_end = note_run};
    module_t *model = NULL, *frozen = NULL;
    freeze_tuned_t tuned;
    counters_t counters;
    begin_model(17, DIMS(-1, 16, 24, 24));
    maker_initializer(&maker, "w", FLOAT, DIMS(16, 16, 3, 3), weight, sizeof weight);
    maker_node(&maker, "Conv", "conv", "x w", "c");
    maker_node(&maker, "Relu", "relu", "c", "y");
    model = load_model(ctx);
    CHECK_OK(ctx, freeze_take(ctx, &model, NULL, &frozen));
    const tensor_info_t info = info_dense(DTYPE_F32, 4, (const int64_t[]){2, 16, 24, 24});
    const tensor_info_t *infos[] = {&info};
    CHECK_OK(ctx, dispatch_add_observer(ctx, &observer));
    counters_reset(ctx);
    CHECK_OK(ctx, plan_warm_for(ctx, frozen, "forward", 1, infos));
    CHECK_OK(ctx, freeze_tune_for(ctx, frozen, 1, infos, 0.05, &tuned));
    CHECK_OK(ctx, plan_warm_for(ctx, frozen, "forward", 1, infos));
    counters_read(ctx, &counters);
    dispatch_remove_observer(ctx, &observer);
    assert_int_equal(n_runs, 0);
    assert_int_equal(counters.operators, 0);
    assert_true(tuned.n_measured > 0);
    assert_int_equal(counters.plans_built, 2);
    assert_non_null(plan_of(frozen, "forward"));
    const tensor_info_t other = info_dense(DTYPE_F32, 4, (const int64_t[]){2, 8, 24, 24});
    CHECK_FAILS(ctx, plan_warm_for(ctx, frozen, "forward", 1, (const tensor_info_t *[]){&other}),
                STATUS_INVALID_ARGUMENT, "f32[2,8,24,24]");
    CHECK_OK(ctx, plan_warm_for(ctx, frozen, "forward", 1, (const tensor_info_t *[]){NULL}));
    module_release(frozen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(models_that_random_values_break_are_frozen),
        TEST(what_is_measured_on_values_needs_them),
        TEST(no_operator_runs_while_a_plan_is_made_of_sizes),
    };
    return cmocka_run_group_tests(tests, scratch_begin, scratch_end);
}

#else

int main(void)
{
    return 0;
}

#endif
