#include "tests/support/support.h"

#include <math.h>
#include <string.h>

#include "tensor/convert/convert.h"
#include "tensor/counters.h"
#include "tensor/tensor_impl.h"

static uint64_t n_copies(const context_t *ctx)
{
    counters_t counters;
    counters_read(ctx, &counters);
    return counters.copies[CAUSE_USER];
}

static tensor_t *make_random(context_t *ctx, int rank, const int64_t *sizes)
{
    tensor_t *tensor = NULL;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, rank, sizes, &tensor));
    return tensor;
}

static tensor_t *turn(context_t *ctx, const tensor_t *tensor)
{
    tensor_t *turned = NULL;
    CHECK_OK(ctx, tensor_permute(ctx, tensor, SHAPE(1, 0), &turned));
    return turned;
}

static void check_same(context_t *ctx, const tensor_t *a, const tensor_t *b)
{
    double difference = -1;
    CHECK_OK(ctx, tensor_max_rel_diff(ctx, a, b, &difference));
    if (difference != 0)
        fail_msg("%s and %s differ by %g", tensor_text(a), tensor_text(b), difference);
}

static void a_clone_has_bytes_of_its_own(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = make_random(ctx, SHAPE(4, 5)), *copy = NULL;
    CHECK_OK(ctx, tensor_clone(ctx, x, &copy));
    check_same(ctx, copy, x);
    assert_ptr_not_equal(tensor_bytes(copy), tensor_bytes(x));
    assert_int_equal(n_copies(ctx), 0);
    tensor_release(x);
    tensor_release(copy);
}

static void a_clone_of_a_transposed_tensor_is_contiguous_and_counts(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = make_random(ctx, SHAPE(40, 70)), *turned = turn(ctx, x), *copy = NULL;
    CHECK_OK(ctx, tensor_clone(ctx, turned, &copy));
    assert_true(info_is_contiguous(tensor_info(copy)));
    check_same(ctx, copy, turned);
    counters_t counters;
    counters_read(ctx, &counters);
    assert_int_equal(counters.copies[CAUSE_USER], 1);
    assert_int_equal(counters.reorder_bytes, 2 * 40 * 70 * 4);
    tensor_release(x);
    tensor_release(turned);
    tensor_release(copy);
}

static void contiguous_gives_the_tensor_itself_where_it_can(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = make_random(ctx, SHAPE(4, 5)), *turned = turn(ctx, x);
    tensor_t *same = NULL, *other = NULL;
    CHECK_OK(ctx, tensor_contiguous(ctx, x, &same));
    assert_ptr_equal(same, x);
    CHECK_OK(ctx, tensor_contiguous(ctx, turned, &other));
    check_same(ctx, other, turned);
    assert_int_equal(n_copies(ctx), 1);
    tensor_release(x);
    tensor_release(turned);
    tensor_release(same);
    tensor_release(other);
}

static void channels_last_has_channels_fastest(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = make_random(ctx, SHAPE(2, 3, 4, 5)), *last = NULL, *flat = NULL, *bad = NULL;
    const int64_t *strides = NULL;
    CHECK_OK(ctx, tensor_channels_last(ctx, x, &last));
    CHECK_OK(ctx, tensor_strides(ctx, last, &strides));
    assert_memory_equal(strides, ((int64_t[]){60, 1, 15, 3}), 4 * sizeof(int64_t));
    check_same(ctx, last, x);
    assert_int_equal(n_copies(ctx), 1);
    CHECK_OK(ctx, tensor_view(ctx, x, SHAPE(6, 20), &flat));
    CHECK_FAILS(ctx, tensor_channels_last(ctx, flat, &bad), STATUS_INVALID_ARGUMENT,
                "tensor_channels_last: f32[6,20] has rank 2, must be 3 to 5");
    tensor_release(x);
    tensor_release(last);
    tensor_release(flat);
}

static void a_cast_keeps_the_order_in_memory_and_does_not_count(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = make_random(ctx, SHAPE(2, 3, 4, 5)), *last = NULL, *cast = NULL, *same = NULL;
    const int64_t *strides = NULL;
    CHECK_OK(ctx, tensor_channels_last(ctx, x, &last));
    counters_reset(ctx);
    CHECK_OK(ctx, tensor_cast(ctx, last, DTYPE_F64, &cast));
    CHECK_OK(ctx, tensor_strides(ctx, cast, &strides));
    assert_memory_equal(strides, ((int64_t[]){60, 1, 15, 3}), 4 * sizeof(int64_t));
    check_same(ctx, cast, x);
    assert_int_equal(n_copies(ctx), 0);
    CHECK_OK(ctx, tensor_cast(ctx, last, DTYPE_F32, &same));
    assert_ptr_equal(same, last);
    tensor_release(x);
    tensor_release(last);
    tensor_release(cast);
    tensor_release(same);
}

static void a_cast_truncates_and_tests_as_pytorch_does(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *integers = NULL, *truths = NULL;
    const float values[4] = {-1.75f, 0, 0.5f, 3.99f};
    int64_t whole[4];
    unsigned char truth[4];
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, SHAPE(4), values, &x));
    CHECK_OK(ctx, tensor_cast(ctx, x, DTYPE_S64, &integers));
    CHECK_OK(ctx, tensor_cast(ctx, x, DTYPE_BOOL, &truths));
    CHECK_OK(ctx, tensor_read(ctx, integers, whole, sizeof whole));
    CHECK_OK(ctx, tensor_read(ctx, truths, truth, sizeof truth));
    assert_memory_equal(whole, ((int64_t[]){-1, 0, 0, 3}), sizeof whole);
    assert_memory_equal(truth, ((unsigned char[]){1, 0, 1, 1}), sizeof truth);
    tensor_release(x);
    tensor_release(integers);
    tensor_release(truths);
}

/* ---- copy and fill ---- */

static void copy_goes_between_any_strides_and_types(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = make_random(ctx, SHAPE(30, 20)), *turned = turn(ctx, x), *dst = NULL;
    CHECK_OK(ctx, tensor_empty(ctx, DTYPE_F64, SHAPE(20, 30), &dst));
    CHECK_OK(ctx, tensor_copy(ctx, dst, turned));
    check_same(ctx, dst, turned);
    CHECK_FAILS(ctx, tensor_copy(ctx, dst, x), STATUS_INVALID_ARGUMENT,
                "tensor_copy: src f32[30,20] into dst f64[20,30], sizes must be equal");
    tensor_release(x);
    tensor_release(turned);
    tensor_release(dst);
}

static void copy_writes_only_what_the_view_covers(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *piece = NULL, *ones = NULL;
    float back[8];
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(2, 4), &x));
    CHECK_OK(ctx, tensor_narrow(ctx, x, 1, 1, 2, &piece));
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_S32, SHAPE(2, 2), 1, &ones));
    CHECK_OK(ctx, tensor_copy(ctx, piece, ones));
    CHECK_OK(ctx, tensor_read(ctx, x, back, sizeof back));
    assert_memory_equal(back, ((float[]){0, 1, 1, 0, 0, 1, 1, 0}), sizeof back);
    tensor_release(x);
    tensor_release(piece);
    tensor_release(ones);
}

static void copy_between_overlapping_views_reads_before_it_writes(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *head = NULL, *tail = NULL;
    float back[5];
    CHECK_OK(ctx, tensor_arange(ctx, DTYPE_F32, 5, 0, &x));
    CHECK_OK(ctx, tensor_narrow(ctx, x, 0, 0, 4, &head));
    CHECK_OK(ctx, tensor_narrow(ctx, x, 0, 1, 4, &tail));
    CHECK_OK(ctx, tensor_copy(ctx, tail, head));
    CHECK_OK(ctx, tensor_read(ctx, x, back, sizeof back));
    assert_memory_equal(back, ((float[]){0, 0, 1, 2, 3}), sizeof back);
    tensor_release(x);
    tensor_release(head);
    tensor_release(tail);
}

static void elements_that_share_memory_cannot_be_written(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *wide = NULL, *dense = NULL;
    float back[6];
    CHECK_OK(ctx, tensor_arange(ctx, DTYPE_F32, 2, 1, &x));
    CHECK_OK(ctx, tensor_as_strided(ctx, x, SHAPE(2, 3), (int64_t[]){1, 0}, 0, &wide));
    CHECK_FAILS(ctx, tensor_fill(ctx, wide, 1), STATUS_INVALID_ARGUMENT,
                "tensor_fill: f32[2,3]{1,0} has elements that share memory");
    CHECK_FAILS(ctx, tensor_copy(ctx, wide, wide), STATUS_INVALID_ARGUMENT, "tensor_copy: ");
    CHECK_OK(ctx, tensor_contiguous(ctx, wide, &dense));
    CHECK_OK(ctx, tensor_read(ctx, dense, back, sizeof back));
    assert_memory_equal(back, ((float[]){1, 1, 1, 2, 2, 2}), sizeof back);
    tensor_release(x);
    tensor_release(wide);
    tensor_release(dense);
}

/* ---- mkldnn ---- */

static tensor_t *make_blocked(context_t *ctx, const tensor_t *tensor, const char *format)
{
    tensor_t *blocked = NULL;
    CHECK_OK(ctx, convert_reorder(ctx, tensor, format, &blocked));
    return blocked;
}

static void a_blocked_tensor_is_read_and_compared_as_any_other(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = make_random(ctx, SHAPE(2, 17, 3, 3)), *m = make_blocked(ctx, x, "aBcd16b");
    float back[2 * 17 * 9];
    CHECK_OK(ctx, tensor_read(ctx, m, back, sizeof back));
    assert_memory_equal(back, tensor_bytes(x), sizeof back);
    check_same(ctx, m, x);
    check_same(ctx, x, m);
    tensor_release(x);
    tensor_release(m);
}

static void a_clone_of_a_blocked_tensor_keeps_its_format(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = make_random(ctx, SHAPE(2, 17, 3, 3)), *m = make_blocked(ctx, x, "aBcd8b");
    tensor_t *copy = NULL;
    counters_reset(ctx);
    CHECK_OK(ctx, tensor_clone(ctx, m, &copy));
    counters_t counters;
    counters_read(ctx, &counters);
    assert_int_equal(counters.reorder_bytes, 0);
    assert_string_equal(tensor_text(copy), "mkldnn f32[2,17,3,3]@aBcd8b");
    assert_ptr_not_equal(tensor_bytes(copy), tensor_bytes(m));
    check_same(ctx, copy, x);
    tensor_release(x);
    tensor_release(m);
    tensor_release(copy);
}

static void a_cast_of_a_blocked_tensor_keeps_its_format(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = make_random(ctx, SHAPE(2, 17, 3, 3)), *m = make_blocked(ctx, x, "aBcd8b");
    tensor_t *narrow = NULL, *wide = NULL, *wanted = NULL, *bad = NULL;
    CHECK_OK(ctx, tensor_cast(ctx, m, DTYPE_BF16, &narrow));
    assert_string_equal(tensor_text(narrow), "mkldnn bf16[2,17,3,3]@aBcd8b");
    CHECK_OK(ctx, tensor_cast(ctx, narrow, DTYPE_F32, &wide));
    CHECK_OK(ctx, tensor_cast(ctx, x, DTYPE_BF16, &wanted));
    check_same(ctx, wide, wanted);
    CHECK_FAILS(ctx, tensor_cast(ctx, m, DTYPE_S64, &bad), STATUS_UNSUPPORTED,
                "tensor_cast: mkldnn f32[2,17,3,3]@aBcd8b to s64, oneDNN");
    tensor_release(x);
    tensor_release(m);
    tensor_release(narrow);
    tensor_release(wide);
    tensor_release(wanted);
}

static void a_snapshot_with_gaps_is_cast_into_a_plain_format(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = make_random(ctx, SHAPE(4, 6)), *piece = NULL, *m = NULL, *cast = NULL;
    tensor_t *wanted = NULL;
    CHECK_OK(ctx, tensor_narrow(ctx, x, 1, 1, 4, &piece));
    CHECK_OK(ctx, to_mkldnn(ctx, piece, &m));
    CHECK_OK(ctx, tensor_cast(ctx, m, DTYPE_S32, &cast));
    CHECK_OK(ctx, tensor_cast(ctx, piece, DTYPE_S32, &wanted));
    assert_string_equal(tensor_text(cast), "mkldnn s32[4,4]@ab");
    check_same(ctx, cast, wanted);
    tensor_release(x);
    tensor_release(piece);
    tensor_release(m);
    tensor_release(cast);
    tensor_release(wanted);
}

/* Copies between every pair of layouts, with and without a change of dtype. */
static void copy_goes_between_any_layouts(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = make_random(ctx, SHAPE(2, 17, 3, 3));
    const dtype_t dtypes[] = {DTYPE_F32, DTYPE_BF16};
    const char *formats[] = {NULL, "aBcd16b", "acdb"};
    for (int i = 0; i < 36; i++) {
        const char *from = formats[i % 3], *to = formats[i / 3 % 3];
        tensor_t *typed = NULL, *src = NULL, *empty = NULL, *dst = NULL, *wanted = NULL;
        CHECK_OK(ctx, tensor_cast(ctx, x, dtypes[i / 9 % 2], &typed));
        src = from != NULL ? make_blocked(ctx, typed, from) : tensor_retain(typed);
        CHECK_OK(ctx, tensor_full(ctx, dtypes[i / 18], SHAPE(2, 17, 3, 3), 9, &empty));
        dst = to != NULL ? make_blocked(ctx, empty, to) : tensor_retain(empty);
        CHECK_OK(ctx, tensor_copy(ctx, dst, src));
        CHECK_OK(ctx, tensor_cast(ctx, typed, dtypes[i / 18], &wanted));
        check_same(ctx, dst, wanted);
        tensor_release(typed);
        tensor_release(src);
        tensor_release(empty);
        tensor_release(dst);
        tensor_release(wanted);
    }
    tensor_release(x);
}

static void a_filled_blocked_tensor_has_zero_padding(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = make_random(ctx, SHAPE(1, 3, 2, 2)), *m = make_blocked(ctx, x, "aBcd8b");
    CHECK_OK(ctx, tensor_fill(ctx, m, 5));
    const float *bytes = tensor_bytes(m);
    for (int i = 0; i < 4 * 8; i++) assert_true(bytes[i] == (i % 8 < 3 ? 5.0f : 0.0f));
    tensor_release(x);
    tensor_release(m);
}

static void item_reads_an_opaque_tensor(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL;
    double value = 0;
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(1, 1, 1, 1), 4.25, &x));
    tensor_t *m = make_blocked(ctx, x, "aBcd8b");
    CHECK_OK(ctx, tensor_item(ctx, m, &value));
    assert_true(value == 4.25);
    tensor_release(x);
    tensor_release(m);
}

/* ---- comparison ---- */

typedef struct comparison {
    double a[2], b[2], wanted;
} comparison_t;

static void differences_follow_their_definition(void **state)
{
    context_t *ctx = fixture_context(state);
    const comparison_t cases[] = {
        {{1, 2}, {1, 2}, 0},
        {{1, 3}, {1, 4}, 0.25},
        {{0, 0}, {0, 0}, 0},
        {{1, 0}, {0, 0}, INFINITY},
        {{NAN, 1}, {NAN, 1}, 0},
        {{NAN, 1}, {1, 1}, INFINITY},
        {{1, 1}, {NAN, 1}, INFINITY},
        {{INFINITY, 1}, {INFINITY, 2}, 0.5},
        {{INFINITY, 1}, {-INFINITY, 1}, INFINITY},
        {{3, -2}, {3, -4}, 0.5},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tensor_t *a = NULL, *b = NULL;
        double difference = -1;
        CHECK_OK(ctx, tensor_from(ctx, DTYPE_F64, SHAPE(2), cases[i].a, &a));
        CHECK_OK(ctx, tensor_from(ctx, DTYPE_F64, SHAPE(2), cases[i].b, &b));
        CHECK_OK(ctx, tensor_max_rel_diff(ctx, a, b, &difference));
        if (difference != cases[i].wanted) fail_msg("case %zu gives %g", i, difference);
        tensor_release(a);
        tensor_release(b);
    }
}

static void only_equal_sizes_are_compared(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *a = make_random(ctx, SHAPE(2, 3)), *b = make_random(ctx, SHAPE(3, 2));
    double difference = -1;
    CHECK_FAILS(ctx, tensor_max_rel_diff(ctx, a, b, &difference), STATUS_INVALID_ARGUMENT,
                "tensor_max_rel_diff: f32[2,3] and f32[3,2], sizes must be equal");
    assert_true(difference == -1);
    tensor_release(a);
    tensor_release(b);
}

static status_t copy_around(context_t *ctx)
{
    tensor_t *t[7] = {NULL};
    double difference;
    status_t status = tensor_randn(ctx, DTYPE_F32, SHAPE(1, 3, 4, 4), &t[0]);
    if (status == STATUS_OK) status = tensor_permute(ctx, t[0], SHAPE(0, 1, 3, 2), &t[1]);
    if (status == STATUS_OK) status = tensor_contiguous(ctx, t[1], &t[2]);
    if (status == STATUS_OK) status = tensor_channels_last(ctx, t[1], &t[3]);
    if (status == STATUS_OK) status = tensor_cast(ctx, t[3], DTYPE_BF16, &t[4]);
    if (status == STATUS_OK) status = convert_reorder(ctx, t[0], "aBcd8b", &t[5]);
    if (status == STATUS_OK) status = tensor_copy(ctx, t[5], t[4]);
    if (status == STATUS_OK) status = tensor_clone(ctx, t[5], &t[6]);
    if (status == STATUS_OK) status = tensor_copy(ctx, t[0], t[1]);
    if (status == STATUS_OK) status = tensor_max_rel_diff(ctx, t[6], t[0], &difference);
    for (int i = 0; i < 7; i++) tensor_release(t[i]);
    return status;
}

static void copies_survive_every_refused_allocation(void **state)
{
    (void)state;
    check_every_allocation(copy_around);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_clone_has_bytes_of_its_own),
        TEST(a_clone_of_a_transposed_tensor_is_contiguous_and_counts),
        TEST(contiguous_gives_the_tensor_itself_where_it_can),
        TEST(channels_last_has_channels_fastest),
        TEST(a_cast_keeps_the_order_in_memory_and_does_not_count),
        TEST(a_cast_truncates_and_tests_as_pytorch_does),
        TEST(copy_goes_between_any_strides_and_types),
        TEST(copy_writes_only_what_the_view_covers),
        TEST(copy_between_overlapping_views_reads_before_it_writes),
        TEST(elements_that_share_memory_cannot_be_written),
        TEST(a_blocked_tensor_is_read_and_compared_as_any_other),
        TEST(a_clone_of_a_blocked_tensor_keeps_its_format),
        TEST(a_cast_of_a_blocked_tensor_keeps_its_format),
        TEST(a_snapshot_with_gaps_is_cast_into_a_plain_format),
        TEST(copy_goes_between_any_layouts),
        TEST(a_filled_blocked_tensor_has_zero_padding),
        TEST(item_reads_an_opaque_tensor),
        TEST(differences_follow_their_definition),
        TEST(only_equal_sizes_are_compared),
        TEST(copies_survive_every_refused_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
