/* Example inputs in a folder, and tessera freeze --dtype s8 with them. */
#include "tools/command/examples.h"

#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/onnx/onnx_model.h"

static char scratch[] = "/tmp/tessera-examples-XXXXXX";

static int make_scratch(void **state)
{
    (void)state;
    return mkdtemp(scratch) == NULL;
}

static int remove_scratch(void **state)
{
    (void)state;
    char line[256];
    snprintf(line, sizeof line, "rm -r %s", scratch);
    return system(line);
}

static const char *path_of(const char *name, char *out_path)
{
    snprintf(out_path, 256, "%s/%s", scratch, name);
    return out_path;
}

static void make_folder(const char *name)
{
    char path[256];
    assert_int_equal(mkdir(path_of(name, path), 0700), 0);
}

static void save(context_t *ctx, const char *name, int rank, const int64_t *sizes, double first)
{
    char path[256];
    tensor_t *tensor = NULL;
    void *elements = NULL;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, rank, sizes, &tensor));
    CHECK_OK(ctx, tensor_data_mutable(ctx, tensor, &elements));
    ((float *)elements)[0] = (float)first;
    CHECK_OK(ctx, npy_save(ctx, path_of(name, path), tensor));
    tensor_release(tensor);
}

/* ---- the folder ---- */

static model_t inputs_of(int n)
{
    static const char *const names[] = {"a:0", "b"};
    model_t model = {.spec = "m.onnx", .n_inputs = n};
    for (int i = 0; i < n; i++) {
        snprintf(model.inputs[i].name, MODEL_NAME_MAX, "%s", names[i]);
        model.inputs[i].info = info_dense(DTYPE_F32, 2, (const int64_t[]){1, 3});
    }
    return model;
}

static float first_of(context_t *ctx, const tensor_t *tensor)
{
    const void *elements = NULL;
    CHECK_OK(ctx, tensor_data(ctx, tensor, &elements));
    return *(const float *)elements;
}

static void every_file_is_an_example_of_the_one_input(void **state)
{
    context_t *ctx = fixture_context(state);
    const model_t model = inputs_of(1);
    examples_t examples;
    char path[256];
    make_folder("one");
    save(ctx, "one/z.npy", 2, (const int64_t[]){1, 3}, 2.0);
    save(ctx, "one/b 1.npy", 2, (const int64_t[]){4, 3}, 1.0);
    CHECK_OK(ctx, examples_load(ctx, &model, path_of("one", path), &examples));
    assert_int_equal(examples.n, 2);
    for (int i = 0; i < 2; i++) {
        assert_true(first_of(ctx, examples.of_each[i][0]) == (float)(i + 1));
        assert_null(examples.of_each[i][1]);
    }
    examples_clear(&examples);
    save(ctx, "one/c.npy", 3, (const int64_t[]){1, 3, 2}, 1.0);
    CHECK_FAILS(ctx, examples_load(ctx, &model, path, &examples), STATUS_INVALID_ARGUMENT,
                "/one/c.npy: f32[1,3,2] was given, input a:0 must be f32[1,3]");
}

static void numbers_tell_examples_of_several_inputs_apart(void **state)
{
    context_t *ctx = fixture_context(state);
    const model_t model = inputs_of(2);
    examples_t examples;
    char path[256];
    make_folder("two");
    CHECK_FAILS(ctx, examples_load(ctx, &model, path_of("two", path), &examples),
                STATUS_INVALID_ARGUMENT, "has no .npy file");
    CHECK_FAILS(ctx, examples_load(ctx, &model, path_of("none", path), &examples), STATUS_IO,
                "No such file or directory");
    save(ctx, "two/a_0.0.npy", 2, (const int64_t[]){1, 3}, 1.0);
    save(ctx, "two/b.0.npy", 2, (const int64_t[]){1, 3}, 2.0);
    save(ctx, "two/a_0.1.npy", 2, (const int64_t[]){1, 3}, 3.0);
    CHECK_FAILS(ctx, examples_load(ctx, &model, path_of("two", path), &examples),
                STATUS_INVALID_ARGUMENT,
                "/two/b.1.npy is missing: a_0.1.npy is an example, and input b needs one");
    save(ctx, "two/b.1.npy", 2, (const int64_t[]){1, 3}, 4.0);
    CHECK_OK(ctx, examples_load(ctx, &model, path, &examples));
    assert_int_equal(examples.n, 2);
    for (int i = 0; i < 4; i++)
        assert_true(first_of(ctx, examples.of_each[i / 2][i % 2]) == (float)(i + 1));
    examples_clear(&examples);
    save(ctx, "two/b.x.npy", 2, (const int64_t[]){1, 3}, 4.0);
    CHECK_FAILS(ctx, examples_load(ctx, &model, path, &examples), STATUS_INVALID_ARGUMENT,
                "/two/b.x.npy matches no input of m.onnx, the first is a:0");
    make_folder("half");
    save(ctx, "half/b.npy", 2, (const int64_t[]){1, 3}, 4.0);
    CHECK_FAILS(ctx, examples_load(ctx, &model, path_of("half", path), &examples),
                STATUS_INVALID_ARGUMENT, "/half has no file of input a:0");
}

/* ---- the command ---- */

#ifdef TESSERA_HAVE_ONNX

/* Writes a model of relu(conv(x, w)), then the mean of each channel: scores of four classes. */
static void write_model(const char *name, float first_weight, bool is_open)
{
    char path[256];
    size_t n_bytes = 0;
    float weight[4 * 3 * 9];
    for (int i = 0; i < 4 * 3 * 9; i++) weight[i] = sinf((float)(i * i));
    weight[0] = first_weight;
    if (is_open)
        begin_model(13, DIMS(-1, 3, -1, -1));
    else
        begin_model(13, DIMS(-1, 3, 6, 6));
    if (is_open) maker_open(&maker, 2, "H");
    if (is_open) maker_open(&maker, 3, "W");
    maker_initializer(&maker, "w", FLOAT, DIMS(4, 3, 3, 3), weight, sizeof weight);
    maker_node_t *layer = maker_node(&maker, "Conv", "layer", "x w", "c");
    if (is_open) maker_ints(layer, "strides", DIMS(2, 2));
    if (is_open) maker_string(layer, "auto_pad", "SAME_UPPER");
    maker_node(&maker, "Relu", "relu", "c", "r");
    maker_node(&maker, "GlobalAveragePool", "", "r", "p");
    maker_node(&maker, "Flatten", "", "p", "y");
    uint8_t *bytes = maker_pack(&maker, &n_bytes);
    FILE *file = fopen(path_of(name, path), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n_bytes, file), n_bytes);
    fclose(file);
    free(bytes);
}

/* Runs `tessera ARGUMENTS` in the scratch directory. Checks the exit code and a part of the
 * output. */
static void check(const char *arguments, int code, const char *part)
{
    static char text[1 << 16];
    char line[1024];
    snprintf(line, sizeof line, "cd %s && " TESSERA_COMMAND " %s 2>&1", scratch, arguments);
    FILE *pipe = popen(line, "r");
    assert_non_null(pipe);
    text[fread(text, 1, sizeof text - 1, pipe)] = '\0';
    const int status = pclose(pipe);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != code || strstr(text, part) == NULL)
        fail_msg("repeat: tessera %s\nstatus %d, wanted %d with %s:\n%s", arguments, status, code,
                 part, text);
}

static void wrong_usage_is_told(void)
{
#define FREEZE "freeze m.onnx -o m.tessera "
    check(FREEZE "--dtype s8", 2, "--dtype s8 needs --calibrate DIR");
    check(FREEZE "--calibrate images", 2, "--calibrate needs --dtype s8 or bf16");
    check(FREEZE "--dtype bf16 --percentile 99", 2, "--percentile needs --dtype s8");
    check(FREEZE "--calibration minmax", 2, "--calibration needs --dtype s8");
    check(FREEZE "--dtype s8 --calibrate images --calibration best", 2,
          "--calibration best, must be percentile, entropy or minmax");
    check(FREEZE "--min-agreement 0.9", 2, "--min-agreement needs --dtype");
    check(FREEZE "--dtype bf16 --min-agreement 1.5", 2, "--min-agreement 1.5, must be at most 1");
    check(FREEZE "--dtype s8 --calibrate images --percentile 101", 2,
          "--percentile 101, must be at most 100");
}

static void a_file_of_integers_is_made_and_runs(void **state)
{
    static const char *const kinds[] = {"percentile", "entropy", "minmax"};
    context_t *ctx = fixture_context(state);
    char line[256];
    write_model("m.onnx", 0.0f, false);
    make_folder("images");
    wrong_usage_is_told();
    check(FREEZE "--dtype s8 --calibrate images", 1, "images has no .npy file");
    for (int i = 0; i < 4; i++) {
        snprintf(line, sizeof line, "images/%d.npy", i);
        save(ctx, line, 4, (const int64_t[]){25, 3, 6, 6}, 0.0);
    }
    for (int i = 0; i < 3; i++) {
        snprintf(line, sizeof line, FREEZE "--dtype s8 --calibrate images --calibration %s",
                 kinds[i]);
        check(line, 0, "s8: 1 layers, 0 kept in f32; outputs differ from f32 by 0.0");
        check(line, 0, "of 100 rows");
        check(line, 0, "largest error of a layer 0.");
    }
    check("run m.onnx --mode dense --output-dir saved", 0, "y f32[1,4]");
    check("run m.tessera --compare saved --tolerance 0.05", 0, "differs from saved");
    check("explain m.tessera", 0, "conv2d_quantized");
    check(FREEZE "--dtype s8 --calibrate images --max-layer-error 1e-9", 0,
          "kept in f32: conv2d layer, error");
    check("run m.tessera --compare saved --tolerance 1e-5", 0, "differs from saved");
    /* the ranges clip most numbers, so scores are wrong until the layer stays f32 */
    check(FREEZE "--dtype s8 --calibrate images --percentile 2 --min-agreement 1", 0,
          "the 1 layers of the largest errors stay f32");
    check(FREEZE "--dtype s8 --calibrate images --percentile 2 --min-agreement 1", 0,
          "s8: 0 layers, 1 kept in f32");
    check(FREEZE "--dtype s8 --calibrate images --percentile 2 --min-agreement 1", 0,
          "100 of 100 rows");
    /* the scores agree at once, so the report is the same as without --min-agreement */
    check(FREEZE "--dtype s8 --calibrate images --min-agreement 0.1", 0,
          "s8: 1 layers, 0 kept in f32; outputs differ from f32 by 0.0");
    save(ctx, "images/4.npy", 4, (const int64_t[]){1, 3, 5, 6}, 0.0);
    check(FREEZE "--dtype s8 --calibrate images", 1, "f32[1,3,5,6]");
    save(ctx, "images/4.npy", 4, (const int64_t[]){1, 3, 6, 6}, NAN);
    check(FREEZE "--dtype s8 --calibrate images", 1,
          "freeze: %x of examples[4] contains NaN or infinity, ranges need finite numbers");
}

/* If a score is NaN, no score is the largest, so f32 does not agree with itself. */
static void scores_that_are_no_numbers_do_not_agree(void **state)
{
    context_t *ctx = fixture_context(state);
    write_model("nan.onnx", NAN, false);
    save(ctx, "one.npy", 4, (const int64_t[]){1, 3, 6, 6}, 0.0);
    check("freeze nan.onnx -o nan.tessera --dtype bf16 --min-agreement 0.5", 1, "needs values");
    check("freeze nan.onnx -o nan.tessera --dtype bf16 --min-agreement 0.5 --input x=one.npy", 1,
          "the scores agree in 0 of 1 rows with all layers in f32");
    check("run nan.tessera", 1, "No such file");
}

static void padding_follows_the_sizes_of_examples(void **state)
{
    context_t *ctx = fixture_context(state);
    write_model("open.onnx", 0.0f, true);
    make_folder("pictures");
    save(ctx, "pictures/0.npy", 4, (const int64_t[]){1, 3, 9, 8}, 0.0);
    check("run open.onnx --shape x=1x3x9x8 --mode dense --output-dir padded", 0, "y f32[1,4]");
    check("freeze open.onnx --shape x=1x3x9x8 -o open.tessera --dtype bf16 --calibrate pictures", 0,
          "outputs differ");
    check("run open.tessera --shape x=1x3x9x8 --compare padded --tolerance 0.05", 0, "differs");
    check("freeze open.onnx --shape x=1x3x9x8 -o open.tessera --dtype s8 --calibrate pictures", 0,
          "outputs differ");
    check("run open.tessera --shape x=1x3x9x8 --compare padded --tolerance 0.05", 0, "differs");
}

#else

static void scores_that_are_no_numbers_do_not_agree(void **state)
{
    (void)state;
    skip_without("protobuf-c");
}

static void padding_follows_the_sizes_of_examples(void **state)
{
    (void)state;
    skip_without("protobuf-c");
}

static void a_file_of_integers_is_made_and_runs(void **state)
{
    (void)state;
    skip_without("protobuf-c");
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_file_is_an_example_of_the_one_input),
        TEST(numbers_tell_examples_of_several_inputs_apart),
        TEST(a_file_of_integers_is_made_and_runs),
        TEST(scores_that_are_no_numbers_do_not_agree),
        TEST(padding_follows_the_sizes_of_examples),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
