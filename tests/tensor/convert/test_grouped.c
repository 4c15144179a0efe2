/* Tensors in grouped formats: their elements, bytes, and what can be done with them. Expected
 * elements are computed in double from the codes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/ops.h"
#include "tensor/convert/convert_impl.h"
#include "tensor/convert/grouped_impl.h"
#include "tensor/text/print.h"
#include "tests/support/support.h"

#define MOST 8192

/* The arrays of a grouped tensor, and its elements. */
typedef struct sample {
    grouping_t grouping;
    int64_t sizes[3], n_rows, n_columns, n_groups;
    int rank;
    int8_t codes[MOST], zeros[MOST];
    char scales[MOST * 4], minima[MOST * 4];
    float values[MOST];
} sample_t;

static double number(const sample_t *s, const char *from, int64_t at)
{
    return dtype_load(s->grouping.scale, from + at * (int64_t)dtype_size(s->grouping.scale));
}

static void put_number(const sample_t *s, char *to, int64_t at, double value)
{
    dtype_store(s->grouping.scale, to + at * (int64_t)dtype_size(s->grouping.scale), value);
}

static int draw_code(const grouping_t *grouping)
{
    const int code = rand() % (1 << grouping->bits);
    return grouping->is_signed ? code - (1 << (grouping->bits - 1)) : code;
}

static double code_of(const grouping_t *grouping, int8_t code)
{
    return grouping->is_signed ? code : (uint8_t)code;
}

static void fill(sample_t *s)
{
    for (int64_t i = 0; i < s->n_rows * s->n_groups; i++) {
        put_number(s, s->scales, i, (double)rand() / RAND_MAX * 0.1 - 0.02);
        put_number(s, s->minima, i, (double)rand() / RAND_MAX - 0.5);
        s->zeros[i] = (int8_t)draw_code(&s->grouping);
    }
    for (int64_t r = 0; r < s->n_rows; r++)
        for (int64_t c = 0; c < s->n_columns; c++) {
            const int64_t at = r * s->n_columns + c;
            const int64_t group = r * s->n_groups + c / s->grouping.group;
            s->codes[at] = (int8_t)draw_code(&s->grouping);
            double code = code_of(&s->grouping, s->codes[at]);
            if (s->grouping.offset == GROUPING_ZEROS)
                code -= code_of(&s->grouping, s->zeros[group]);
            s->values[at] = (float)(number(s, s->scales, group) * code);
            if (s->grouping.offset == GROUPING_MINIMA)
                s->values[at] = (float)(s->values[at] + number(s, s->minima, group));
        }
}

static const void *offsets_of(const sample_t *s)
{
    return s->grouping.offset == GROUPING_NONE    ? NULL
           : s->grouping.offset == GROUPING_ZEROS ? (const void *)s->zeros
                                                  : (const void *)s->minima;
}

static tensor_t *make(context_t *ctx, sample_t *s, const grouping_t *grouping, int rank,
                      const int64_t *sizes)
{
    tensor_t *tensor = NULL;
    s->grouping = *grouping;
    s->rank = rank;
    s->n_rows = 1;
    memcpy(s->sizes, sizes, (size_t)rank * sizeof *sizes);
    for (int d = 0; d < rank - 1; d++) s->n_rows *= sizes[d];
    s->n_columns = sizes[rank - 1];
    s->n_groups = (s->n_columns + grouping->group - 1) / grouping->group;
    assert_true(s->n_rows * s->n_columns <= MOST);
    fill(s);
    CHECK_OK(ctx, tensor_grouped(ctx, &s->grouping, rank, sizes, s->codes, s->scales, offsets_of(s),
                                 &tensor));
    return tensor;
}

static void check_elements(context_t *ctx, const sample_t *s, const tensor_t *tensor)
{
    static float read[MOST];
    CHECK_OK(ctx, tensor_read(ctx, tensor, read, sizeof read));
    assert_memory_equal(read, s->values, (size_t)(s->n_rows * s->n_columns) * sizeof *read);
}

static const int64_t shapes[][3] = {{64},    {1, 1},      {16, 32},    {17, 33}, {31, 100},
                                    {48, 1}, {5, 17, 48}, {2, 1, 500}, {40, 129}};
static const int ranks[] = {1, 2, 2, 2, 2, 2, 3, 3, 2};
#define N_SHAPES ((int)(sizeof ranks / sizeof *ranks))

static void elements_are_exact(void **state)
{
    static sample_t s;
    static const dtype_t scales[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    context_t *ctx = fixture_context(state);
    for (int bits = 2; bits <= 8; bits *= 2)
        for (int offset = 0; offset < 3; offset++)
            for (int i = 0; i < 6 * N_SHAPES; i++) {
                const grouping_t grouping = {bits, i % 2 != 0, i % 4 == 0 ? 128 : 16 << i % 4,
                                             scales[i / 2 % 3], (grouping_offset_t)offset};
                tensor_t *dense = NULL, *other = NULL;
                tensor_t *tensor = make(ctx, &s, &grouping, ranks[i % N_SHAPES],
                                        shapes[i % N_SHAPES]);
                check_elements(ctx, &s, tensor);
                CHECK_OK(ctx, to_dense(ctx, tensor, &dense));
                check_elements(ctx, &s, dense);
                if (s.rank == 2) {
                    CHECK_OK(ctx, convert_reorder(ctx, tensor, "AB16b16a", &other));
                    check_elements(ctx, &s, other);
                    tensor_release(other);
                }
                tensor_release(dense);
                tensor_release(tensor);
            }
}

/* Files depend on the bytes: [17,40] has two blocks of 16 rows, each of two groups. */
static void bytes_have_the_documented_places(void **state)
{
    static sample_t s;
    context_t *ctx = fixture_context(state);
    const grouping_t grouping = {4, true, 32, DTYPE_F16, GROUPING_ZEROS};
    tensor_t *tensor = make(ctx, &s, &grouping, 2, (int64_t[]){17, 40});
    const int64_t head = 16 * 2 + 16, whole = head + 4 * 64, rest = head + 2 * 64;
    const int64_t block = (whole + rest + 63) / 64 * 64;
    assert_int_equal(info_bytes(tensor_info(tensor)), 2 * block);
    const char *bytes = tensor_bytes(tensor);
    for (int64_t r = 0; r < 32; r++)
        for (int64_t c = 0; c < 48; c++) {
            const char *group = bytes + r / 16 * block + c / 32 * whole;
            uint32_t word;
            memcpy(&word, group + head + c % 32 / 8 * 64 + r % 16 * 4, sizeof word);
            const int code = word >> (c % 4 * 8 + c / 4 % 2 * 4) & 15;
            assert_int_equal(code, r < 17 && c < 40 ? s.codes[r * 40 + c] + 8 : 0);
            assert_int_equal((uint8_t)group[32 + r % 16], r < 17 ? s.zeros[r * 2 + c / 32] + 8 : 0);
            if (r < 17) assert_memory_equal(group + r % 16 * 2, s.scales + (r * 2 + c / 32) * 2, 2);
        }
    tensor_release(tensor);
}

static void formats_are_compared_and_printed(void **state)
{
    static sample_t s;
    context_t *ctx = fixture_context(state);
    const grouping_t grouping = {4, false, 32, DTYPE_F16, GROUPING_MINIMA};
    char text[INFO_TEXT_MAX];
    tensor_t *tensor = make(ctx, &s, &grouping, 2, (int64_t[]){4, 40}), *copy = NULL;
    grouping_t read, other = grouping;
    other.group = 64;
    assert_string_equal(info_text(tensor_info(tensor), text), "mkldnn f32[4,40]@u4f16m32b");
    assert_true(format_grouping(&tensor_info(tensor)->format, &read));
    assert_true(read.bits == 4 && !read.is_signed && read.group == 32 && read.scale == DTYPE_F16 &&
                read.offset == GROUPING_MINIMA);
    const format_t wide = format_grouped(2, &other), plain = format_plain(2);
    assert_false(format_same(&wide, &tensor_info(tensor)->format, s.sizes));
    assert_false(format_same(&plain, &tensor_info(tensor)->format, s.sizes));
    assert_false(format_grouping(&plain, &read));
    assert_int_equal(format_grouped(0, &grouping).kind, FORMAT_ANY);
    assert_int_equal(format_grouped(2, NULL).kind, FORMAT_ANY);
    CHECK_OK(ctx, tensor_clone(ctx, tensor, &copy));
    assert_true(info_equal(tensor_info(copy), tensor_info(tensor)));
    assert_true(info_hash(tensor_info(copy), 1) == info_hash(tensor_info(tensor), 1));
    check_elements(ctx, &s, copy);
    tensor_release(copy);
    tensor_release(tensor);
}

static void other_operators_get_the_elements(void **state)
{
    static sample_t s;
    context_t *ctx = fixture_context(state);
    const grouping_t grouping = {8, true, 16, DTYPE_F32, GROUPING_NONE};
    tensor_t *tensor = make(ctx, &s, &grouping, 2, (int64_t[]){20, 24}), *dense = NULL;
    tensor_t *sum[2] = {NULL}, *cast[2] = {NULL}, *moved[2] = {NULL}, *product[2] = {NULL};
    CHECK_OK(ctx, to_dense(ctx, tensor, &dense));
    tensor_t *const both[] = {tensor, dense};
    for (int i = 0; i < 2; i++) {
        CHECK_OK(ctx, op_add(ctx, both[i], both[i], &sum[i]));
        CHECK_OK(ctx, op_transpose(ctx, both[i], 0, 1, &moved[i]));
        CHECK_OK(ctx, op_linear(ctx, dense, both[i], NULL, &product[i]));
        CHECK_OK(ctx, tensor_cast(ctx, both[i], DTYPE_BF16, &cast[i]));
    }
    tensor_t **const pairs[] = {sum, cast, moved};
    double difference = 1.0;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        CHECK_OK(ctx, tensor_max_rel_diff(ctx, pairs[i][0], pairs[i][1], &difference));
        assert_true(difference == 0.0);
    }
    CHECK_OK(ctx, tensor_max_rel_diff(ctx, product[0], product[1], &difference));
    assert_true(difference < 1e-6);
    for (int i = 0; i < 2; i++) {
        tensor_t *const all[] = {sum[i], cast[i], moved[i], product[i], both[i]};
        for (size_t k = 0; k < sizeof all / sizeof *all; k++) tensor_release(all[k]);
    }
}

static void wrong_arguments_are_refused_with_the_rule(void **state)
{
    static sample_t s;
    context_t *ctx = fixture_context(state);
    grouping_t grouping = {4, true, 32, DTYPE_F16, GROUPING_NONE};
    tensor_t *tensor = make(ctx, &s, &grouping, 2, (int64_t[]){4, 40}), *made = NULL, *dense = NULL;
#define MAKE(rank, sizes, offsets)                                                                 \
    tensor_grouped(ctx, &grouping, rank, sizes, s.codes, s.scales, offsets, &made)
    CHECK_FAILS(ctx, MAKE(0, NULL, NULL), STATUS_INVALID_ARGUMENT,
                "tensor_grouped: f32[], must have a dimension and elements");
    CHECK_FAILS(ctx, MAKE(2, ((int64_t[]){4, 0}), NULL), STATUS_INVALID_ARGUMENT,
                "tensor_grouped: f32[4,0], must have a dimension and elements");
    CHECK_FAILS(ctx, MAKE(2, s.sizes, s.zeros), STATUS_INVALID_ARGUMENT,
                "tensor_grouped: offsets are given, the grouping has none");
    CHECK_FAILS(ctx, MAKE(2, ((int64_t[]){INT64_C(1) << 40, 1 << 12}), NULL),
                STATUS_INVALID_ARGUMENT, "its bytes overflow");
    s.codes[70] = 8;
    CHECK_FAILS(ctx, MAKE(2, s.sizes, NULL), STATUS_INVALID_ARGUMENT,
                "tensor_grouped: code 70 is 8, must be -8 to 7");
    s.codes[70] = 0;
    grouping.offset = GROUPING_ZEROS;
    CHECK_FAILS(ctx, MAKE(2, s.sizes, NULL), STATUS_INVALID_ARGUMENT,
                "tensor_grouped: offsets are missing, the grouping has some");
    s.zeros[3] = -9;
    CHECK_FAILS(ctx, MAKE(2, s.sizes, s.zeros), STATUS_INVALID_ARGUMENT,
                "tensor_grouped: zero 3 is -9, must be -8 to 7");
    grouping.group = 24;
    CHECK_FAILS(ctx, MAKE(2, s.sizes, s.zeros), STATUS_INVALID_ARGUMENT,
                "tensor_grouped: 4 bits in groups of 24 with scales of f16, must be");
    CHECK_OK(ctx, to_dense(ctx, tensor, &dense));
    CHECK_FAILS(ctx, tensor_copy(ctx, tensor, dense), STATUS_UNSUPPORTED,
                "only tensor_grouped writes a grouped format");
    CHECK_FAILS(ctx, tensor_fill(ctx, tensor, 1.0), STATUS_UNSUPPORTED,
                "only tensor_grouped writes a grouped format");
    check_elements(ctx, &s, dense);
    tensor_release(dense);
    tensor_release(tensor);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(elements_are_exact),
        TEST(bytes_have_the_documented_places),
        TEST(formats_are_compared_and_printed),
        TEST(other_operators_get_the_elements),
        TEST(wrong_arguments_are_refused_with_the_rule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
