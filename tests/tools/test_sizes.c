/* The options --shape and --batch set sizes that a model leaves open. */
#include "tools/support/sizes.h"

#include "tests/support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/onnx/onnx_model.h"

static void a_shape_is_a_name_and_sizes_from_1(void **state)
{
    (void)state;
    static const char *const wrong[] = {"x",      "x=",
                                        "=2x3",   "x=2x",
                                        "x=x2",   "x=2,3",
                                        "x=-1x3", "x=2x0",
                                        "x=2 x3", "x=2xx3",
                                        "x=+2",   "x=99999999999999999999",
                                        "x=2x3 ", "x=1x1x1x1x1x1x1x1x1x1x1x1x1"};
    sizes_t sizes;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (sizes_parse(wrong[i], &sizes)) fail_msg("taken: %s", wrong[i]);
    assert_true(sizes_parse("in=put:0=1x3x320x480", &sizes));
    assert_int_equal(sizes.name_length, strlen("in=put:0"));
    assert_int_equal(sizes.rank, 4);
    assert_int_equal(sizes.sizes[0], 1);
    assert_int_equal(sizes.sizes[3], 480);
}

/* Makes two inputs that share a size. One also has a size without a name. */
static model_t two_inputs(context_t *ctx)
{
    model_t model = {.spec = "m.tessera", .kind = MODEL_FROZEN, .n_inputs = 2};
    CHECK_OK(ctx, module_create(ctx, "Two", &model.module));
    CHECK_OK(ctx, graph_define(ctx, model.module,
                               "graph forward(%self : module, %a : f32[N=1,3], %b : f32[N=1,?]) {\n"
                               "  return %a, %b\n}\n"));
    for (int i = 0; i < 2; i++) {
        snprintf(model.inputs[i].name, sizeof model.inputs[i].name, "%c", 'a' + i);
        model.inputs[i].info = info_dense(DTYPE_F32, 2, (const int64_t[]){1, i == 0 ? 3 : -1});
    }
    return model;
}

static status_t apply(context_t *ctx, model_t *model, const char *first, const char *second,
                      int64_t batch)
{
    args_list_t shapes = {.n = (first != NULL) + (second != NULL), .items = {first, second}};
    return sizes_apply(ctx, model, &shapes, batch);
}

static void a_name_is_one_size_wherever_it_stands(void **state)
{
    context_t *ctx = fixture_context(state);
    model_t model = two_inputs(ctx);
    const tensor_info_t *a = &model.inputs[0].info, *b = &model.inputs[1].info;
    CHECK_OK(ctx, apply(ctx, &model, "b=4x7", NULL, 0));
    assert_true(a->sizes[0] == 4 && a->sizes[1] == 3 && b->sizes[0] == 4 && b->sizes[1] == 7);
    CHECK_OK(ctx, apply(ctx, &model, NULL, NULL, 5));
    assert_true(a->sizes[0] == 5 && b->sizes[0] == 5 && b->sizes[1] == 7);
    tensor_info_t given = info_dense(DTYPE_F32, 2, (const int64_t[]){6, 3});
    CHECK_OK(ctx, sizes_take(ctx, &model, 0, &given));
    assert_true(a->sizes[0] == 6 && b->sizes[0] == 6 && b->sizes[1] == 7);
    model_clear(&model);
}

static void sizes_that_cannot_be_are_refused_in_words(void **state)
{
    context_t *ctx = fixture_context(state);
    model_t model = two_inputs(ctx);
    CHECK_FAILS(ctx, apply(ctx, &model, "a=2x4", NULL, 0), STATUS_INVALID_ARGUMENT,
                "--shape a=2x4, but size 1 of input a is fixed to 3: f32[1,3]");
    CHECK_FAILS(ctx, apply(ctx, &model, "a=2", NULL, 0), STATUS_INVALID_ARGUMENT,
                "--shape a=2, but input a has 2 dimensions: f32[1,3]");
    CHECK_FAILS(ctx, apply(ctx, &model, "c=2", NULL, 0), STATUS_INVALID_ARGUMENT,
                "m.tessera has no input \"c\", there are: a, b");
    CHECK_FAILS(ctx, apply(ctx, &model, "a=2x3", "b=3x9", 0), STATUS_INVALID_ARGUMENT,
                "--shape a=2x3, but another --shape sets a size of the same name differently");
    CHECK_FAILS(ctx, apply(ctx, &model, "a=2x3", NULL, 3), STATUS_INVALID_ARGUMENT,
                "--batch 3, but --shape says 2");
    tensor_info_t given = info_dense(DTYPE_F32, 2, (const int64_t[]){6, 2});
    CHECK_FAILS(ctx, sizes_take(ctx, &model, 0, &given), STATUS_INVALID_ARGUMENT,
                "input a: f32[6,2] was given, but size 1 of input a is fixed to 3");
    given = info_dense(DTYPE_F32, 2, (const int64_t[]){6, 3});
    const args_list_t none = {.n = 0}, one = {.n = 1, .items = {"b=2x7"}};
    CHECK_OK(ctx, sizes_take(ctx, &model, 0, &given));
    CHECK_OK(ctx, sizes_check_given(ctx, &model, &none, 6));
    CHECK_FAILS(ctx, sizes_check_given(ctx, &model, &none, 2), STATUS_INVALID_ARGUMENT,
                "--batch 2, but the inputs that are given make input a f32[6,3]");
    CHECK_FAILS(ctx, sizes_check_given(ctx, &model, &one, 0), STATUS_INVALID_ARGUMENT,
                "--shape b=2x7, but the inputs that are given make it f32[6,");
    model_clear(&model);
}

static void an_onnx_file_with_an_open_batch_takes_a_shape(void **state)
{
#ifdef TESSERA_HAVE_ONNX
    context_t *ctx = fixture_context(state);
    char path[] = "/tmp/tessera-sizes-XXXXXX.onnx";
    int file = mkstemps(path, (int)strlen(".onnx"));
    size_t n_bytes = 0;
    begin_model(13, DIMS(-1, 3));
    maker_node(&maker, "Relu", "relu", "x", "y");
    uint8_t *bytes = maker_pack(&maker, &n_bytes);
    assert_true(file >= 0 && write(file, bytes, n_bytes) == (ssize_t)n_bytes);
    close(file);
    free(bytes);
    model_t model = {.n_inputs = 0};
    model_options_t options = {.shapes = {1, {"x=5x3"}}};
    CHECK_OK(ctx, model_load(ctx, path, &options, &model));
    assert_int_equal(model.inputs[0].info.sizes[0], 5);
    CHECK_OK(ctx, model_fill_inputs(ctx, &model, &options));
    tensor_t *y = NULL;
    CHECK_OK(ctx, module_forward(ctx, model.module, model.inputs[0].tensor, &y));
    assert_int_equal(tensor_sizes(y)[0], 5);
    tensor_release(y);
    model_clear(&model);
    options.shapes.items[0] = "x=5x4";
    CHECK_FAILS(ctx, model_load(ctx, path, &options, &model), STATUS_INVALID_ARGUMENT,
                "size 4 in dimension 1, the file fixes it to 3");
    unlink(path);
#else
    (void)state;
    skip_without("protobuf-c");
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_shape_is_a_name_and_sizes_from_1),
        TEST(a_name_is_one_size_wherever_it_stands),
        TEST(sizes_that_cannot_be_are_refused_in_words),
        TEST(an_onnx_file_with_an_open_batch_takes_a_shape),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
