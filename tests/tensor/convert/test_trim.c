/* Matrices with 3 bytes an element ("trimmed" f32): how values are rounded, and conversions. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/support.h"

#include "tensor/convert/convert_impl.h"
#include "tensor/convert/trim_impl.h"

static float of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static void values_are_rounded_to_the_nearest_of_24_bits(void **state)
{
    static const uint32_t pairs[][2] = {
        {0x3f800000, 0x3f800000}, {0x3f80007f, 0x3f800000}, {0x3f800080, 0x3f800000},
        {0x3f800081, 0x3f800100}, {0x3f800180, 0x3f800200}, {0x3fffffff, 0x40000000},
        {0xbf800181, 0xbf800200}, {0x00000000, 0x00000000}, {0x80000000, 0x80000000},
        {0x00000080, 0x00000000}, {0x00000081, 0x00000100}, {0x007fffff, 0x00800000},
        {0x7f7fff7f, 0x7f7fff00}, {0x7f7fffff, 0x7f800000}, {0x7f800000, 0x7f800000},
        {0xff800000, 0xff800000}, {0x7fc00001, 0x7fc00000}, {0x7f800001, 0x7fc00000}};
    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        assert_int_equal(bits_of(trim_round(of_bits(pairs[i][0]))), pairs[i][1]);
    for (int i = 0; i < 10000; i++) {
        const float value = (float)rand() / (float)RAND_MAX * 8.0f - 4.0f;
        const float rounded = trim_round(value);
        assert_true(fabs((double)rounded - (double)value) <= fabs((double)value) * 0x1p-16);
        assert_true(trim_round(rounded) == rounded);
    }
}

static tensor_t *rounded(context_t *ctx, const tensor_t *plain)
{
    tensor_t *result = NULL;
    void *bytes = NULL;
    CHECK_OK(ctx, tensor_clone(ctx, plain, &result));
    CHECK_OK(ctx, tensor_writable(ctx, result, &bytes));
    for (int64_t i = 0; i < tensor_numel(result); i++)
        ((float *)bytes)[i] = trim_round(((float *)bytes)[i]);
    return result;
}

static void check_equal(context_t *ctx, const tensor_t *a, const tensor_t *b)
{
    double difference = 1.0;
    CHECK_OK(ctx, tensor_max_rel_diff(ctx, a, b, &difference));
    assert_true(difference == 0.0);
}

/* Returns the bits of element [row][column]. Its bytes are spread over words. Columns are counted
 * as they are stored. */
static uint32_t bits_at(const tensor_t *trimmed, int64_t row, int64_t column)
{
    const int64_t groups = trim_groups(&trimmed->info);
    const uint32_t *words = (const uint32_t *)tensor_bytes(trimmed) +
                            (row / 16 * groups + column / 4) * 48 + row % 16;
    if (column % 4 < 3) return words[column % 4 * 16] & 0xffffff00u;
    return (words[0] & 0xff) << 24 | (words[16] & 0xff) << 16 | (words[32] & 0xff) << 8;
}

static void check_places(const tensor_t *trimmed, const tensor_t *plain)
{
    const int64_t rows = plain->info.sizes[0], columns = plain->info.sizes[1];
    const float *values = tensor_bytes(plain);
    const int64_t padded = (rows + 15) / 16 * 16, all = (columns + 3) / 4 * 4;
    assert_int_equal(info_bytes(&trimmed->info), padded * all * 3);
    for (int64_t r = 0; r < padded; r++)
        for (int64_t c = 0; c < all; c++)
            assert_int_equal(bits_at(trimmed, r, c),
                             r < rows && c < columns ? bits_of(values[r * columns + c]) : 0);
}

static void conversions_go_both_ways(void **state)
{
    static const int64_t sizes[][2] = {{1, 1}, {16, 8}, {17, 3}, {31, 100}, {48, 1}, {200, 129}};
    context_t *ctx = fixture_context(state);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        tensor_t *plain = NULL, *trimmed = NULL, *dense = NULL, *blocked = NULL, *wanted = NULL,
                 *again = NULL;
        CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(sizes[i][0], sizes[i][1]), &plain));
        tensor_t *exact = rounded(ctx, plain);
        tensor_info_t want;
        assert_true(trim_plain(&plain->info, &want));
        assert_true(trim_is(&want));
        assert_false(trim_is(&plain->info));
        CHECK_OK(ctx, convert_to(ctx, plain, &want, CAUSE_USER, &trimmed));
        check_places(trimmed, exact);
        CHECK_OK(ctx, to_dense(ctx, trimmed, &dense));
        check_equal(ctx, dense, exact);
        CHECK_OK(ctx, convert_reorder(ctx, trimmed, "Ab16a", &blocked));
        CHECK_OK(ctx, convert_reorder(ctx, exact, "Ab16a", &wanted));
        check_equal(ctx, blocked, wanted);
        CHECK_OK(ctx, convert_to(ctx, blocked, &want, CAUSE_USER, &again));
        assert_memory_equal(tensor_bytes(again), tensor_bytes(trimmed), info_bytes(&want));
        tensor_t *const all[] = {plain, trimmed, dense, blocked, wanted, again, exact};
        for (size_t k = 0; k < sizeof all / sizeof *all; k++) tensor_release(all[k]);
    }
}

/* Casts and fills have loops of their own for trimmed tensors; others would read wrong numbers. */
static void casts_and_fills_know_it(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *plain = NULL, *trimmed = NULL, *narrow = NULL, *wanted = NULL, *full = NULL;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(31, 129), &plain));
    tensor_t *exact = rounded(ctx, plain);
    tensor_info_t want;
    assert_true(trim_plain(&plain->info, &want));
    CHECK_OK(ctx, convert_to(ctx, plain, &want, CAUSE_USER, &trimmed));
    CHECK_OK(ctx, tensor_cast(ctx, trimmed, DTYPE_BF16, &narrow));
    CHECK_OK(ctx, tensor_cast(ctx, exact, DTYPE_BF16, &wanted));
    assert_int_equal(tensor_layout(narrow), LAYOUT_MKLDNN);
    check_equal(ctx, narrow, wanted);
    CHECK_OK(ctx, tensor_fill(ctx, trimmed, 1.5));
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(31, 129), 1.5, &full));
    assert_true(trim_is(tensor_info(trimmed)));
    check_equal(ctx, trimmed, full);
    tensor_t *const all[] = {plain, exact, trimmed, narrow, wanted, full};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) tensor_release(all[k]);
}

/* The columns of a matrix are [C][H][W] in the order of a format, such as aBcd8b, with padding. */
static void columns_lie_as_a_tag_says(void **state)
{
    static const char *const tags[] = {"abcd", "acdb",   "aBcd8b", "aBcd16b",
                                       "abdc", "acBd4b", "abCd2c", "abcD4d"};
    context_t *ctx = fixture_context(state);
    const int64_t spread[] = {19, 10, 3, 5};
    tensor_t *plain = NULL;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(19, 150), &plain));
    tensor_t *exact = rounded(ctx, plain);
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
        format_t tag;
        tensor_info_t want, one;
        tensor_t *trimmed = NULL, *dense = NULL, *other = NULL;
        CHECK_OK(ctx, format_parse(ctx, tags[i], &tag));
        assert_true(trim_ordered(&plain->info, 4, spread, &tag, &want));
        assert_true(trim_is(&want));
        CHECK_OK(ctx, convert_to(ctx, plain, &want, CAUSE_USER, &trimmed));
        const tensor_info_t row = info_dense(DTYPE_F32, 4, (int64_t[]){1, 10, 3, 5});
        one = info_mkldnn(&row, &tag);
        assert_int_equal(trim_groups(&want), (info_bytes(&one) / 4 + 3) / 4);
        int64_t at[4] = {0}, column = 0;
        do {
            const float value = ((const float *)tensor_bytes(exact))[18 * 150 + column++];
            assert_int_equal(bits_at(trimmed, 18, format_offset(&tag, row.sizes, at)),
                             bits_of(value));
        } while (shape_next(4, row.sizes, at));
        CHECK_OK(ctx, to_dense(ctx, trimmed, &dense));
        check_equal(ctx, dense, exact);
        tensor_info_t flat;
        assert_true(trim_plain(&plain->info, &flat));
        CHECK_OK(ctx, convert_to(ctx, trimmed, &flat, CAUSE_USER, &other));
        tensor_release(dense);
        CHECK_OK(ctx, to_dense(ctx, other, &dense));
        check_equal(ctx, dense, exact);
        tensor_release(trimmed);
        tensor_release(dense);
        tensor_release(other);
    }
    tensor_release(plain);
    tensor_release(exact);
}

static bool takes(context_t *ctx, const tensor_info_t *matrix, const int64_t *sizes,
                  const char *text)
{
    format_t tag;
    tensor_info_t want;
    CHECK_OK(ctx, format_parse(ctx, text, &tag));
    return trim_ordered(matrix, tag.rank, sizes, &tag, &want);
}

/* A file may have a format with any numbers in it, so trim_is must check each. */
static void other_matrices_and_words_are_none(void **state)
{
    context_t *ctx = fixture_context(state);
    const tensor_info_t matrix = info_dense(DTYPE_F32, 2, (int64_t[]){32, 96});
    const tensor_info_t narrow = info_dense(DTYPE_BF16, 2, (int64_t[]){32, 96});
    const tensor_info_t empty = info_dense(DTYPE_F32, 2, (int64_t[]){0, 96});
    const tensor_info_t cube = info_dense(DTYPE_F32, 3, (int64_t[]){32, 96, 1});
    tensor_info_t want;
    assert_false(trim_plain(&narrow, &want));
    assert_false(trim_plain(&empty, &want));
    assert_false(trim_plain(&cube, &want));
    assert_true(takes(ctx, &matrix, (int64_t[]){32, 24, 4}, "abc"));
    assert_false(takes(ctx, &matrix, (int64_t[]){32, 24, 5}, "abc"));
    assert_false(takes(ctx, &matrix, (int64_t[]){32, 24, 4}, "bac"));
    assert_false(takes(ctx, &matrix, (int64_t[]){32, 24, 4}, "Abc8a"));
    assert_false(takes(ctx, &matrix, (int64_t[]){32, 24, 4}, "aBC8b4c"));
    assert_false(takes(ctx, &matrix, (int64_t[]){32, 24, 4, 1, 1, 1}, "abcdef"));
    assert_true(trim_plain(&matrix, &want));
    for (int word = 0; word < FORMAT_WORDS; word++)
        for (int bit = 0; bit < 62; bit++) {
            tensor_info_t other = want;
            other.format.words[word] ^= INT64_C(1) << bit;
            assert_false(trim_is(&other));
        }
    tensor_info_t other = want;
    other.sizes[0] = 33;
    assert_false(trim_is(&other));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_rounded_to_the_nearest_of_24_bits),
        TEST(conversions_go_both_ways),
        TEST(casts_and_fills_know_it),
        TEST(columns_lie_as_a_tag_says),
        TEST(other_matrices_and_words_are_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
