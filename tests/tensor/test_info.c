#include "tests/support/support.h"

#include <string.h>

#include "tensor/info.h"

static tensor_info_t strided(dtype_t dtype, int rank, const int64_t *sizes, const int64_t *strides)
{
    tensor_info_t info = info_dense(dtype, rank, sizes);
    memcpy(info.format.strides, strides, (size_t)rank * sizeof *strides);
    return info;
}

static tensor_info_t blocked(context_t *ctx, const char *tag, int rank, const int64_t *sizes)
{
    format_t format;
    CHECK_OK(ctx, format_parse(ctx, tag, &format));
    tensor_info_t dense = info_dense(DTYPE_F32, rank, sizes);
    return info_mkldnn(&dense, &format);
}

static int64_t nchw[] = {8, 64, 56, 56};

static void layouts_have_names(void **state)
{
    (void)state;
    assert_string_equal(layout_name(LAYOUT_DENSE), "dense");
    assert_string_equal(layout_name(LAYOUT_MKLDNN), "mkldnn");
    assert_string_equal(layout_name((layout_t)9), "unknown");
}

static void text_tells_type_sizes_and_format(void **state)
{
    context_t *ctx = fixture_context(state);
    char text[INFO_TEXT_MAX];
    tensor_info_t info = info_dense(DTYPE_F32, 4, nchw);
    assert_string_equal(info_text(&info, text), "f32[8,64,56,56]");
    info = blocked(ctx, "aBcd16b", 4, nchw);
    assert_string_equal(info_text(&info, text), "mkldnn f32[8,64,56,56]@aBcd16b");
    info = blocked(ctx, "?", 4, nchw);
    assert_string_equal(info_text(&info, text), "mkldnn f32[8,64,56,56]@?");
    info = blocked(ctx, "{1,8}", SHAPE(8, 64));
    assert_string_equal(info_text(&info, text), "mkldnn f32[8,64]@{1,8}");
    info = strided(DTYPE_S64, SHAPE(8, 64), (int64_t[]){1, 8});
    assert_string_equal(info_text(&info, text), "s64[8,64]{1,8}");
    info = strided(DTYPE_BF16, SHAPE(1, 64), (int64_t[]){7, 1});
    assert_string_equal(info_text(&info, text), "bf16[1,64]");
    info = info_dense(DTYPE_BOOL, 0, NULL);
    assert_string_equal(info_text(&info, text), "bool[]");
    info = (tensor_info_t){0};
    assert_string_equal(info_text(&info, text), "none");
}

static void the_longest_text_fits(void **state)
{
    (void)state;
    char text[INFO_TEXT_MAX];
    tensor_info_t info = {.dtype = DTYPE_BF16, .layout = LAYOUT_MKLDNN, .rank = TENSOR_MAX_RANK};
    info.format.kind = FORMAT_STRIDED;
    info.format.rank = TENSOR_MAX_RANK;
    for (int d = 0; d < TENSOR_MAX_RANK; d++) info.sizes[d] = info.format.strides[d] = INT64_MAX;
    info_text(&info, text);
    assert_int_equal(text[strlen(text) - 1], '}');
    assert_int_equal(strlen(text), strlen("mkldnn bf16[]@{}") + 2 * (12 * 19 + 11));
}

static void bytes_include_padding_and_gaps(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_info_t info = info_dense(DTYPE_S64, SHAPE(2, 3));
    assert_int_equal(info_numel(&info), 6);
    assert_int_equal(info_bytes(&info), 48);
    info = blocked(ctx, "aBcd16b", SHAPE(2, 17, 3, 3));
    assert_int_equal(info_numel(&info), 2 * 17 * 9);
    assert_int_equal(info_bytes(&info), 2 * 32 * 9 * 4);
    info = strided(DTYPE_F32, SHAPE(2, 3), (int64_t[]){10, 2});
    assert_int_equal(info_bytes(&info), (10 + 4 + 1) * 4);
    info = info_dense(DTYPE_F32, SHAPE(2, 0));
    assert_int_equal(info_bytes(&info), 0);
    info = info_dense(DTYPE_F64, 0, NULL);
    assert_int_equal(info_bytes(&info), 8);
    info = blocked(ctx, "?", SHAPE(2, 17));
    assert_int_equal(info_bytes(&info), 2 * 17 * 4);
    info = (tensor_info_t){0};
    assert_int_equal(info_bytes(&info), 0);
}

static void contiguous_is_row_major_but_for_sizes_of_one(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_info_t info = info_dense(DTYPE_F32, 4, nchw);
    assert_true(info_is_contiguous(&info));
    info = info_dense(DTYPE_F32, 0, NULL);
    assert_true(info_is_contiguous(&info));
    info = strided(DTYPE_F32, SHAPE(2, 3), (int64_t[]){1, 2});
    assert_false(info_is_contiguous(&info));
    info = strided(DTYPE_F32, SHAPE(2, 3), (int64_t[]){4, 1});
    assert_false(info_is_contiguous(&info));
    info = strided(DTYPE_F32, SHAPE(2, 3), (int64_t[]){0, 1});
    assert_false(info_is_contiguous(&info));
    info = strided(DTYPE_F32, SHAPE(2, 1, 3), (int64_t[]){3, 77, 1});
    assert_true(info_is_contiguous(&info));
    info = strided(DTYPE_F32, SHAPE(2, 0, 3), (int64_t[]){5, 77, 9});
    assert_true(info_is_contiguous(&info));
    info = blocked(ctx, "abcd", 4, nchw);
    assert_true(info_is_contiguous(&info));
    info = blocked(ctx, "aBcd16b", 4, nchw);
    assert_false(info_is_contiguous(&info));
    info = blocked(ctx, "?", 4, nchw);
    assert_false(info_is_contiguous(&info));
}

/* Checks a == b, b == a, and that equal infos have equal hashes. */
static void check_equal(const tensor_info_t *a, const tensor_info_t *b, bool is_equal)
{
    assert_int_equal(info_equal(a, b), is_equal);
    assert_int_equal(info_equal(b, a), is_equal);
    assert_int_equal(info_hash(a, 5) == info_hash(b, 5), is_equal);
    assert_int_not_equal(info_hash(a, 5), info_hash(a, 6));
}

static void infos_are_equal_in_type_sizes_layout_and_bytes(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_info_t a = info_dense(DTYPE_F32, 4, nchw), b = a;
    check_equal(&a, &b, true);
    b.dtype = DTYPE_S32;
    check_equal(&a, &b, false);
    b = a;
    b.is_number = true;
    check_equal(&a, &b, false);
    b = info_dense(DTYPE_F32, SHAPE(8, 64, 56, 57));
    check_equal(&a, &b, false);
    b = info_dense(DTYPE_F32, SHAPE(8, 64, 56 * 56));
    check_equal(&a, &b, false);
    b = blocked(ctx, "abcd", 4, nchw);
    check_equal(&a, &b, false);
    a = blocked(ctx, "{200704,3136,56,1}", 4, nchw);
    check_equal(&a, &b, true);
    b = blocked(ctx, "aBcd16b", 4, nchw);
    check_equal(&a, &b, false);
    a = blocked(ctx, "aBcd8b", 4, nchw);
    check_equal(&a, &b, false);
    a = blocked(ctx, "?", 4, nchw);
    check_equal(&a, &b, false);
    b = a;
    check_equal(&a, &b, true);
}

static void formats_with_the_same_bytes_are_equal(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_info_t a = blocked(ctx, "aBcd16b", SHAPE(3, 32, 1, 1));
    tensor_info_t b = blocked(ctx, "abcd", SHAPE(3, 32, 1, 1));
    check_equal(&a, &b, true);
    a = strided(DTYPE_F32, SHAPE(3, 1), (int64_t[]){1, 1});
    b = strided(DTYPE_F32, SHAPE(3, 1), (int64_t[]){1, 9});
    check_equal(&a, &b, true);
}

static void an_absent_tensor_equals_only_an_absent_one(void **state)
{
    (void)state;
    tensor_info_t none = {0}, other_none = {.rank = 1, .sizes = {3}};
    tensor_info_t present = info_dense(DTYPE_F32, 0, NULL);
    check_equal(&none, &other_none, true);
    check_equal(&none, &present, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layouts_have_names),
        TEST(text_tells_type_sizes_and_format),
        cmocka_unit_test(the_longest_text_fits),
        TEST(bytes_include_padding_and_gaps),
        TEST(contiguous_is_row_major_but_for_sizes_of_one),
        TEST(infos_are_equal_in_type_sizes_layout_and_bytes),
        TEST(formats_with_the_same_bytes_are_equal),
        cmocka_unit_test(an_absent_tensor_equals_only_an_absent_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
