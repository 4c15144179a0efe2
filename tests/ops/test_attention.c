/* Attention: errors, and the format of the result. */
#include "tests/support/support.h"

#include <math.h>
#include <string.h>

#include "ops/ops.h"
#include "tensor/counters.h"

static tensor_t *randn(context_t *ctx, int rank, const int64_t *sizes)
{
    tensor_t *x = NULL;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, rank, sizes, &x));
    return x;
}

static void operands_that_do_not_go_together_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *q = randn(ctx, SHAPE(2, 4, 3, 8)), *k = randn(ctx, SHAPE(2, 4, 5, 8));
    tensor_t *few = randn(ctx, SHAPE(2, 2, 5, 8)), *narrow = randn(ctx, SHAPE(2, 4, 5, 7));
    tensor_t *mask = randn(ctx, SHAPE(3, 4)), *line = randn(ctx, SHAPE(8)), *out = NULL;
    CHECK_FAILS(ctx, op_scaled_dot_product_attention(ctx, line, k, k, NULL, NULL, &out),
                STATUS_INVALID_ARGUMENT,
                "query is f32[8], a floating type of rank 2 or more is needed");
    CHECK_FAILS(ctx, op_scaled_dot_product_attention(ctx, q, few, few, NULL, NULL, &out),
                STATUS_INVALID_ARGUMENT,
                "key is f32[2,2,5,8], its dtype and batch dimensions have to go with query "
                "f32[2,4,3,8]");
    CHECK_FAILS(ctx, op_scaled_dot_product_attention(ctx, q, narrow, k, NULL, NULL, &out),
                STATUS_INVALID_ARGUMENT,
                "key is f32[2,4,5,7], query is f32[2,4,3,8] and value is f32[2,4,5,8], [..,L,E], "
                "[..,S,E] and [..,S,V] are needed");
    CHECK_FAILS(ctx, op_scaled_dot_product_attention(ctx, q, k, k, mask, NULL, &out),
                STATUS_INVALID_ARGUMENT,
                "attn_mask is f32[3,4], bool or floating is needed that broadcasts to [..,3,5]");
    assert_null(out);
    tensor_t *all[] = {q, k, few, narrow, mask, line};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tensor_release(all[i]);
}

/* Splits [N][T][H E] into H heads and joins them again. Only strides change; no byte is copied. */
static void heads_are_split_and_joined_without_a_copy(void **state)
{
    context_t *ctx = fixture_context(state);
    const int64_t split[] = {2, 9, 4, 8}, joined[] = {2, 9, 32}, order[] = {0, 2, 1, 3};
    tensor_t *x = randn(ctx, SHAPE(2, 9, 32)), *heads = NULL, *swapped = NULL, *out = NULL;
    tensor_t *back = NULL, *y = NULL;
    counters_t counters;
    const uint64_t before = (counters_read(ctx, &counters), counters_copies(&counters));
    CHECK_OK(ctx, op_reshape(ctx, x, 4, split, &heads));
    CHECK_OK(ctx, op_permute(ctx, heads, 4, order, &swapped));
    CHECK_OK(ctx,
             op_scaled_dot_product_attention(ctx, swapped, swapped, swapped, NULL, NULL, &out));
    CHECK_OK(ctx, op_permute(ctx, out, 4, order, &back));
    CHECK_OK(ctx, op_reshape(ctx, back, 3, joined, &y));
    counters_read(ctx, &counters);
    assert_int_equal(counters_copies(&counters), before);
    char text[FORMAT_TEXT_MAX];
    assert_string_equal(format_text(&tensor_info(out)->format, text), "{288,8,32,1}");
    tensor_t *all[] = {x, heads, swapped, out, back, y};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tensor_release(all[i]);
}

/* If all keys of a query are masked, the result is 0, as in PyTorch. */
static void a_query_that_sees_no_key_gives_zeros(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *q = randn(ctx, SHAPE(2, 8)), *k = randn(ctx, SHAPE(3, 8)), *mask = NULL, *out = NULL;
    const void *data = NULL;
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(2, 3), -(double)INFINITY, &mask));
    CHECK_OK(ctx, op_scaled_dot_product_attention(ctx, q, k, k, mask, NULL, &out));
    CHECK_OK(ctx, tensor_data(ctx, out, &data));
    for (int i = 0; i < 16; i++) assert_true(((const float *)data)[i] == 0.0F);
    tensor_t *all[] = {q, k, mask, out};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tensor_release(all[i]);
}

/* The values of key 1 are NaN and infinite. With a causal mask only queries 1 and 2 see key 1. f32
 * and f64 run in different kernels. */
static void values_that_a_query_does_not_see_do_not_reach_it(void **state)
{
    static const dtype_t dtypes[] = {DTYPE_F32, DTYPE_F64};
    context_t *ctx = fixture_context(state);
    for (int i = 0; i < 2; i++) {
        const double nan_and_infinite[] = {1, 2, (double)NAN, (double)INFINITY, 3, 4};
        double read[6];
        tensor_t *q = NULL, *wide = NULL, *v = NULL, *out = NULL, *result = NULL;
        CHECK_OK(ctx, tensor_zeros(ctx, dtypes[i], SHAPE(3, 2), &q));
        CHECK_OK(ctx, tensor_from(ctx, DTYPE_F64, SHAPE(3, 2), nan_and_infinite, &wide));
        CHECK_OK(ctx, op_cast(ctx, wide, dtypes[i], &v));
        const attention_attrs_t causal = {.is_causal = true};
        CHECK_OK(ctx, op_scaled_dot_product_attention(ctx, q, q, v, NULL, &causal, &out));
        CHECK_OK(ctx, op_cast(ctx, out, DTYPE_F64, &result));
        CHECK_OK(ctx, tensor_read(ctx, result, read, sizeof read));
        assert_true(read[0] == 1 && read[1] == 2);
        assert_true(isnan(read[2]) && isinf(read[3]) && isnan(read[4]) && isinf(read[5]));
        tensor_t *all[] = {q, wide, v, out, result};
        for (size_t k = 0; k < sizeof all / sizeof *all; k++) tensor_release(all[k]);
    }
}

/* Only rows before the length are read; the rest of the caches is NaN. Kernel "stream" runs one
 * query, "panels" five. */
static void elements_after_the_length_are_not_read(void **state)
{
    context_t *ctx = fixture_context(state);
    for (int n = 1; n <= 5; n += 4) {
        const int64_t length = 7;
        tensor_t *q = randn(ctx, SHAPE(4, n, 16)), *k = randn(ctx, SHAPE(2, 7, 16)), *number = NULL;
        tensor_t *bad = NULL, *caches[1] = {NULL}, *out[2] = {NULL};
        const attention_attrs_t attrs = {.enable_gqa = true};
        double difference = 1;
        CHECK_OK(ctx, tensor_from(ctx, DTYPE_S64, 0, NULL, &length, &number));
        CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(2, 200, 16), (double)NAN, &bad));
        CHECK_OK(ctx, op_concat(ctx, 2, (const tensor_t *[]){k, bad}, 1, &caches[0]));
        CHECK_OK(ctx, op_cached_attention(ctx, q, caches[0], caches[0], NULL, number, NULL, &attrs,
                                          &out[0]));
        CHECK_OK(ctx, op_scaled_dot_product_attention(ctx, q, k, k, NULL, &attrs, &out[1]));
        CHECK_OK(ctx, tensor_max_rel_diff(ctx, out[0], out[1], &difference));
        assert_true(difference < 1e-6);
        tensor_t *all[] = {q, k, number, bad, caches[0], out[0], out[1]};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) tensor_release(all[i]);
    }
}

static void lengths_windows_and_caps_out_of_range_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    const int64_t numbers[] = {4, 5};
    tensor_t *q = randn(ctx, SHAPE(2, 1, 8)), *k = randn(ctx, SHAPE(2, 4, 8)), *out = NULL;
    tensor_t *half = NULL, *lengths = NULL, *x = NULL;
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_S64, SHAPE(2), numbers, &lengths));
    CHECK_FAILS(ctx, op_cached_attention(ctx, q, k, k, NULL, lengths, NULL, NULL, &out),
                STATUS_INVALID_ARGUMENT, "cached_attention: length 5, a cache of 4 rows is given");
    CHECK_FAILS(
        ctx, op_cached_attention(ctx, q, k, k, NULL, q, NULL, NULL, &out), STATUS_INVALID_ARGUMENT,
        "cached_attention: lengths is f32[2,1,8], query is f32[2,1,8], s64 is needed: one, or "
        "one for each index of dimension 0");
    const attention_attrs_t window = {.window = 3}, cap = {.softcap = -1};
    CHECK_FAILS(ctx, op_cached_attention(ctx, q, k, k, NULL, lengths, NULL, &window, &out),
                STATUS_INVALID_ARGUMENT,
                "cached_attention: window is 3, is_causal is false, a window needs is_causal");
    CHECK_FAILS(ctx, op_cached_attention(ctx, q, k, k, NULL, lengths, NULL, &cap, &out),
                STATUS_INVALID_ARGUMENT, "cached_attention: softcap is -1, must be 0 or positive");
    CHECK_OK(ctx, op_cast(ctx, k, DTYPE_BF16, &half));
    CHECK_FAILS(ctx, op_scaled_dot_product_attention(ctx, q, half, k, NULL, NULL, &out),
                STATUS_INVALID_ARGUMENT,
                "key is bf16[2,4,8], its dtype and batch dimensions have to go with query "
                "f32[2,1,8]");
    CHECK_FAILS(ctx, op_rotary_embedding(ctx, q, k, k, false, &out), STATUS_INVALID_ARGUMENT,
                "rotary_embedding: cos is f32[2,4,8], sin is f32[2,4,8], x is f32[2,1,8]: floating "
                "tables are needed that broadcast to the rows of x, with an angle for each two "
                "elements or fewer");
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(2, 3, 8), &x));
    CHECK_FAILS(ctx, op_slice_scatter_(ctx, x, 1, k, lengths, NULL), STATUS_INVALID_ARGUMENT,
                "slice_scatter: src is f32[2,4,8], x is f32[2,3,8], only dimension 1 may be "
                "shorter");
    CHECK_FAILS(ctx, op_slice_scatter_(ctx, k, 1, q, lengths, NULL), STATUS_INVALID_ARGUMENT,
                "slice_scatter: start 4 for src f32[2,1,8], it does not fit into dimension 1 of "
                "f32[2,4,8]");
    assert_null(out);
    tensor_t *all[] = {q, k, half, lengths, x};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tensor_release(all[i]);
}

static void wrong_slots_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    const int64_t numbers[] = {1, 2}, same[] = {1, 1};
    tensor_t *q = randn(ctx, SHAPE(2, 1, 1, 8)), *k = randn(ctx, SHAPE(2, 1, 4, 8));
    tensor_t *slots = NULL, *twice = NULL, *flat = randn(ctx, SHAPE(2, 1, 8)), *out = NULL;
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_S64, SHAPE(2), numbers, &slots));
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_S64, SHAPE(2), same, &twice));
    CHECK_FAILS(ctx, op_cached_attention(ctx, q, k, k, NULL, slots, slots, NULL, &out),
                STATUS_INVALID_ARGUMENT, "cached_attention: slot 2, the caches have 2");
    CHECK_FAILS(ctx, op_cached_attention(ctx, flat, flat, flat, NULL, slots, slots, NULL, &out),
                STATUS_INVALID_ARGUMENT,
                "cached_attention: slots is s64[2], query is f32[2,1,8], s64 is needed: one for "
                "each index of dimension 0 of 4 or more");
    CHECK_FAILS(ctx, op_slice_scatter_(ctx, k, 2, q, slots, slots), STATUS_INVALID_ARGUMENT,
                "slice_scatter: slot 2, x is f32[2,1,4,8] and has 2");
    CHECK_FAILS(ctx, op_slice_scatter_(ctx, k, 2, q, slots, twice), STATUS_INVALID_ARGUMENT,
                "slice_scatter: slot 1 is given twice");
    CHECK_FAILS(ctx, op_slice_scatter_(ctx, k, 2, q, slots, q), STATUS_INVALID_ARGUMENT,
                "slice_scatter: slots is f32[2,1,1,8], src is f32[2,1,1,8], s64 is needed: one for "
                "each index of dimension 0, which is not the dimension of the slice");
    assert_null(out);
    tensor_t *all[] = {q, k, slots, twice, flat};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tensor_release(all[i]);
}

/* In place, only the slice is written; both forms give the same tensor. */
static void rows_are_added_to_a_cache(void **state)
{
    context_t *ctx = fixture_context(state);
    const int64_t starts[] = {4, 0};
    tensor_t *cache = randn(ctx, SHAPE(2, 5, 3)), *row = randn(ctx, SHAPE(2, 1, 3)), *start = NULL;
    tensor_t *out = NULL;
    counters_t counters;
    double difference = 1;
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_S64, SHAPE(2), starts, &start));
    CHECK_OK(ctx, op_slice_scatter(ctx, cache, 1, row, start, NULL, &out));
    const uint64_t before = (counters_read(ctx, &counters), counters_copies(&counters));
    CHECK_OK(ctx, op_slice_scatter_(ctx, cache, 1, row, start, NULL));
    counters_read(ctx, &counters);
    assert_int_equal(counters_copies(&counters), before);
    CHECK_OK(ctx, tensor_max_rel_diff(ctx, out, cache, &difference));
    assert_true(difference == 0);
    tensor_t *all[] = {cache, row, start, out};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tensor_release(all[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(operands_that_do_not_go_together_are_refused),
        TEST(heads_are_split_and_joined_without_a_copy),
        TEST(a_query_that_sees_no_key_gives_zeros),
        TEST(values_that_a_query_does_not_see_do_not_reach_it),
        TEST(elements_after_the_length_are_not_read),
        TEST(rows_are_added_to_a_cache),
        TEST(lengths_windows_and_caps_out_of_range_are_refused),
        TEST(wrong_slots_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
