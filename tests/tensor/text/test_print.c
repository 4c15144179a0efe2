/* Compares with PyTorch's output, which print_values.py prints, except for the type at the end. */
#include "tensor/text/print.h"

#include "tests/support/support.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tensor/convert/convert.h"

static void check(context_t *ctx, const tensor_t *tensor, const char *expected)
{
    text_t text = text_begin(ctx);
    CHECK_OK(ctx, tensor_print_text(ctx, tensor, &text));
    assert_string_equal(text_string(&text), expected);
    text_clear(&text);
}

static void check_floats(context_t *ctx, int rank, const int64_t *sizes, const float *elements,
                         const char *expected)
{
    tensor_t *tensor = NULL;
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, rank, sizes, elements, &tensor));
    check(ctx, tensor, expected);
    tensor_release(tensor);
}

/* Prints 0, step, 2 step, ... and compares. */
static void check_ramp(context_t *ctx, dtype_t dtype, int rank, const int64_t *sizes, double step,
                       const char *expected)
{
    tensor_t *tensor = NULL;
    void *data = NULL;
    CHECK_OK(ctx, tensor_empty(ctx, dtype, rank, sizes, &tensor));
    CHECK_OK(ctx, tensor_data_mutable(ctx, tensor, &data));
    for (int64_t i = 0; i < tensor_numel(tensor); i++)
        dtype_store(dtype, (char *)data + (size_t)i * dtype_size(dtype), (double)i * step);
    check(ctx, tensor, expected);
    tensor_release(tensor);
}

static void floating_numbers_have_one_form_and_one_width(void **state)
{
    context_t *ctx = fixture_context(state);
    check_floats(ctx, SHAPE(2, 2), (float[]){1, 2.5f, 3, -4},
                 "tensor([[ 1.0000,  2.5000],\n"
                 "        [ 3.0000, -4.0000]], f32[2,2])");
    check_floats(ctx, SHAPE(7), (float[]){1, 20, -3, 0, NAN, INFINITY, -INFINITY},
                 "tensor([ 1., 20., -3.,  0., nan, inf, -inf], f32[7])");
    check_floats(ctx, SHAPE(3), (float[]){1e-5f, 1.5f, 2},
                 "tensor([1.0000e-05, 1.5000e+00, 2.0000e+00], f32[3])");
    check_floats(ctx, SHAPE(3), (float[]){1, 2, 3e8f},
                 "tensor([1.0000e+00, 2.0000e+00, 3.0000e+08], f32[3])");
    check_floats(ctx, SHAPE(4), (float[]){NAN, 0, -0.0f, INFINITY},
                 "tensor([nan, 0., -0., inf], f32[4])");
    check_floats(ctx, 0, NULL, (float[]){2.5f}, "tensor(2.5000, f32[])");
    check_ramp(ctx, DTYPE_F64, SHAPE(2, 3, 4), 1,
               "tensor([[[ 0.,  1.,  2.,  3.],\n"
               "         [ 4.,  5.,  6.,  7.],\n"
               "         [ 8.,  9., 10., 11.]],\n"
               "\n"
               "        [[12., 13., 14., 15.],\n"
               "         [16., 17., 18., 19.],\n"
               "         [20., 21., 22., 23.]]], f64[2,3,4])");
}

static void integers_and_truth_are_words(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *tensor = NULL;
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_BOOL, SHAPE(2), (bool[]){true, false}, &tensor));
    check(ctx, tensor, "tensor([ True, False], bool[2])");
    tensor_release(tensor);
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_S64, SHAPE(2, 2), (int64_t[]){1, -20, 300, 4}, &tensor));
    check(ctx, tensor,
          "tensor([[  1, -20],\n"
          "        [300,   4]], s64[2,2])");
    tensor_release(tensor);
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_U64, SHAPE(1), (uint64_t[]){UINT64_MAX}, &tensor));
    check(ctx, tensor, "tensor([18446744073709551615], u64[1])");
    tensor_release(tensor);
}

static void long_rows_are_broken_and_large_tensors_cut(void **state)
{
    context_t *ctx = fixture_context(state);
    check_ramp(ctx, DTYPE_S32, SHAPE(40), 1,
               "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,\n"
               "        18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35,\n"
               "        36, 37, 38, 39], s32[40])");
    check_ramp(ctx, DTYPE_F32, SHAPE(2000), 1,
               "tensor([0.0000e+00, 1.0000e+00, 2.0000e+00,  ..., 1.9970e+03, 1.9980e+03,\n"
               "        1.9990e+03], f32[2000])");
    check_ramp(ctx, DTYPE_F32, SHAPE(7, 143), 0.25,
               "tensor([[  0.0000,   0.2500,   0.5000,  ...,  35.0000,  35.2500,  35.5000],\n"
               "        [ 35.7500,  36.0000,  36.2500,  ...,  70.7500,  71.0000,  71.2500],\n"
               "        [ 71.5000,  71.7500,  72.0000,  ..., 106.5000, 106.7500, 107.0000],\n"
               "        ...,\n"
               "        [143.0000, 143.2500, 143.5000,  ..., 178.0000, 178.2500, 178.5000],\n"
               "        [178.7500, 179.0000, 179.2500,  ..., 213.7500, 214.0000, 214.2500],\n"
               "        [214.5000, 214.7500, 215.0000,  ..., 249.5000, 249.7500, 250.0000]],\n"
               "       f32[7,143])");
}

static void empty_ones_have_their_sizes(void **state)
{
    context_t *ctx = fixture_context(state);
    check_floats(ctx, SHAPE(0), NULL, "tensor([], f32[0])");
    check_ramp(ctx, DTYPE_F32, SHAPE(2, 0, 3), 1, "tensor([], f32[2,0,3])");
}

static void layouts_and_strides_do_not_show_but_in_the_type(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *blocked = NULL, *turned = NULL;
    CHECK_OK(ctx, tensor_arange(ctx, DTYPE_F32, 6, 0, &x));
    CHECK_OK(ctx,
             tensor_as_strided(ctx, x, SHAPE(1, 3, 2, 1), (int64_t[]){6, 1, 3, 1}, 0, &turned));
    CHECK_OK(ctx, convert_reorder(ctx, turned, "aBcd8b", &blocked));
    check(ctx, blocked,
          "tensor([[[[0.],\n          [3.]],\n\n         [[1.],\n          [4.]],\n\n"
          "         [[2.],\n          [5.]]]], mkldnn f32[1,3,2,1]@aBcd8b)");
    tensor_release(turned);
    CHECK_OK(ctx, tensor_as_strided(ctx, x, SHAPE(3, 2), (int64_t[]){1, 3}, 0, &turned));
    check(ctx, turned,
          "tensor([[0., 3.],\n"
          "        [1., 4.],\n"
          "        [2., 5.]], f32[3,2]{1,3})");
    tensor_release(turned);
    tensor_release(blocked);
    tensor_release(x);
}

static void the_decimal_point_is_a_point_in_every_locale(void **state)
{
    context_t *ctx = fixture_context(state);
    if (setlocale(LC_NUMERIC, "de_DE.UTF-8") == NULL) skip_without("locale de_DE.UTF-8");
    check_floats(ctx, SHAPE(1), (float[]){2.5f}, "tensor([2.5000], f32[1])");
    setlocale(LC_NUMERIC, "C");
}

static void a_file_gets_the_text_and_a_newline(void **state)
{
    context_t *ctx = fixture_context(state);
    char line[64] = "";
    tensor_t *x = NULL;
    FILE *file = tmpfile(), *full = fopen("/dev/full", "w");
    assert_non_null(file);
    CHECK_OK(ctx, tensor_arange(ctx, DTYPE_S32, 3, 0, &x));
    CHECK_OK(ctx, tensor_print(ctx, x, file));
    rewind(file);
    assert_non_null(fgets(line, sizeof line, file));
    assert_string_equal(line, "tensor([0, 1, 2], s32[3])\n");
    fclose(file);
    if (full != NULL) {
        setvbuf(full, NULL, _IONBF, 0);
        CHECK_FAILS(ctx, tensor_print(ctx, x, full), STATUS_IO, "tensor_print: No space left");
        fclose(full);
    }
    tensor_release(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(floating_numbers_have_one_form_and_one_width),
        TEST(integers_and_truth_are_words),
        TEST(long_rows_are_broken_and_large_tensors_cut),
        TEST(empty_ones_have_their_sizes),
        TEST(layouts_and_strides_do_not_show_but_in_the_type),
        TEST(the_decimal_point_is_a_point_in_every_locale),
        TEST(a_file_gets_the_text_and_a_newline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
