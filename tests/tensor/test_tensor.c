#include "tests/support/support.h"

#include <math.h>
#include <string.h>

#include "tensor/convert/convert.h"
#include "tensor/counters.h"
#include "tensor/tensor_impl.h"

static void a_tensor_knows_its_type_sizes_and_strides(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *t = NULL;
    const int64_t *strides = NULL;
    CHECK_OK(ctx, tensor_empty(ctx, DTYPE_BF16, SHAPE(2, 3, 4), &t));
    assert_int_equal(tensor_dtype(t), DTYPE_BF16);
    assert_int_equal(tensor_layout(t), LAYOUT_DENSE);
    assert_int_equal(tensor_rank(t), 3);
    assert_int_equal(tensor_numel(t), 24);
    assert_int_equal(tensor_sizes(t)[1], 3);
    assert_string_equal(tensor_text(t), "bf16[2,3,4]");
    CHECK_OK(ctx, tensor_strides(ctx, t, &strides));
    assert_int_equal(strides[0], 12);
    assert_int_equal(strides[1], 4);
    assert_int_equal(strides[2], 1);
    assert_ptr_equal(tensor_retain(t), t);
    tensor_release(t);
    tensor_release(t);
    tensor_release(NULL);
}

static void wrong_types_and_sizes_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *t = NULL;
    const int64_t sizes[13] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    CHECK_FAILS(ctx, tensor_empty(ctx, DTYPE_NONE, SHAPE(2), &t), STATUS_INVALID_ARGUMENT,
                "tensor_empty: dtype 0");
    CHECK_FAILS(ctx, tensor_zeros(ctx, DTYPE_COUNT, SHAPE(2), &t), STATUS_INVALID_ARGUMENT,
                "tensor_zeros: dtype");
    CHECK_FAILS(ctx, tensor_empty(ctx, DTYPE_F32, SHAPE(2, -1), &t), STATUS_INVALID_ARGUMENT,
                "tensor_empty: ");
    CHECK_FAILS(ctx, tensor_empty(ctx, DTYPE_F32, 13, sizes, &t), STATUS_INVALID_ARGUMENT,
                "tensor_empty: ");
    CHECK_FAILS(ctx, tensor_empty(ctx, DTYPE_F32, SHAPE(INT64_MAX, 2), &t), STATUS_INVALID_ARGUMENT,
                "tensor_empty: ");
    assert_null(t);
}

static void tensors_may_be_empty_or_have_rank_0(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *t = NULL, *copy = NULL;
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(2, 0, 3), &t));
    assert_int_equal(tensor_numel(t), 0);
    CHECK_OK(ctx, tensor_fill(ctx, t, 1));
    CHECK_OK(ctx, tensor_clone(ctx, t, &copy));
    CHECK_OK(ctx, tensor_copy(ctx, copy, t));
    CHECK_OK(ctx, tensor_read(ctx, t, NULL, 0));
    tensor_release(t);
    tensor_release(copy);
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, 0, NULL, 2.5, &t));
    assert_int_equal(tensor_numel(t), 1);
    double value = 0;
    CHECK_OK(ctx, tensor_item(ctx, t, &value));
    assert_true(value == 2.5);
    tensor_release(t);
}

static void full_and_zeros_set_every_element_of_every_type(void **state)
{
    context_t *ctx = fixture_context(state);
    for (int dtype = DTYPE_F32; dtype < DTYPE_COUNT; dtype++) {
        tensor_t *ones = NULL, *zeros = NULL;
        const void *one = NULL, *zero = NULL;
        CHECK_OK(ctx, tensor_full(ctx, (dtype_t)dtype, SHAPE(5, 7), 1, &ones));
        CHECK_OK(ctx, tensor_zeros(ctx, (dtype_t)dtype, SHAPE(5, 7), &zeros));
        CHECK_OK(ctx, tensor_data(ctx, ones, &one));
        CHECK_OK(ctx, tensor_data(ctx, zeros, &zero));
        size_t size = dtype_size((dtype_t)dtype);
        for (size_t i = 0; i < 35; i++) {
            assert_true(dtype_load((dtype_t)dtype, (const char *)one + i * size) == 1);
            assert_true(dtype_load((dtype_t)dtype, (const char *)zero + i * size) == 0);
        }
        tensor_release(ones);
        tensor_release(zeros);
    }
}

static void random_tensors_repeat_with_the_seed(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *a = NULL, *b = NULL, *c = NULL;
    double difference = -1;
    context_seed(ctx, 42);
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(999), &a));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(999), &b));
    context_seed(ctx, 42);
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(999), &c));
    CHECK_OK(ctx, tensor_max_rel_diff(ctx, a, c, &difference));
    assert_true(difference == 0);
    CHECK_OK(ctx, tensor_max_rel_diff(ctx, a, b, &difference));
    assert_true(difference > 0.1);
    tensor_release(a);
    tensor_release(b);
    tensor_release(c);
}

static void randn_has_the_moments_of_a_standard_normal(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *t = NULL;
    const void *data = NULL;
    const int n = 200000;
    double sums[5] = {0};
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F64, SHAPE(n), &t));
    CHECK_OK(ctx, tensor_data(ctx, t, &data));
    for (int i = 0; i < n; i++)
        for (int k = 1; k < 5; k++) sums[k] += pow(((const double *)data)[i], k) / n;
    assert_true(fabs(sums[1]) < 0.01);
    assert_true(fabs(sums[2] - 1) < 0.02);
    assert_true(fabs(sums[3]) < 0.05);
    assert_true(fabs(sums[4] - 3) < 0.15);
    tensor_release(t);
}

/* Rounding to a narrow dtype must not make a number 1. */
static void rand_stays_below_1_in_every_floating_type(void **state)
{
    context_t *ctx = fixture_context(state);
    const dtype_t dtypes[] = {DTYPE_F32, DTYPE_F64, DTYPE_BF16, DTYPE_F16};
    for (int i = 0; i < 4; i++) {
        tensor_t *t = NULL;
        const void *data = NULL;
        double sum = 0;
        CHECK_OK(ctx, tensor_rand(ctx, dtypes[i], SHAPE(20000), &t));
        CHECK_OK(ctx, tensor_data(ctx, t, &data));
        for (size_t j = 0; j < 20000; j++) {
            double value = dtype_load(dtypes[i], (const char *)data + j * dtype_size(dtypes[i]));
            assert_true(value >= 0 && value < 1);
            sum += value;
        }
        assert_true(fabs(sum / 20000 - 0.5) < 0.01);
        tensor_release(t);
    }
    tensor_t *t = NULL;
    CHECK_FAILS(ctx, tensor_rand(ctx, DTYPE_S32, SHAPE(2), &t), STATUS_INVALID_ARGUMENT,
                "tensor_rand: dtype s32");
}

static void invalid_dtypes_are_refused_by_all_constructors(void **state)
{
    context_t *ctx = fixture_context(state);
    const int wrong[] = {DTYPE_NONE, DTYPE_COUNT, 4096, -1};
    for (int i = 0; i < 4; i++) {
        dtype_t dtype = (dtype_t)wrong[i];
        tensor_t *t = NULL;
        const float one = 1;
        CHECK_FAILS(ctx, tensor_empty(ctx, dtype, SHAPE(1), &t), STATUS_INVALID_ARGUMENT,
                    "tensor_empty: dtype");
        CHECK_FAILS(ctx, tensor_rand(ctx, dtype, SHAPE(1), &t), STATUS_INVALID_ARGUMENT,
                    "tensor_rand: dtype");
        CHECK_FAILS(ctx, tensor_randn(ctx, dtype, SHAPE(1), &t), STATUS_INVALID_ARGUMENT,
                    "tensor_randn: dtype");
        CHECK_FAILS(ctx, tensor_arange(ctx, dtype, 1, 0, &t), STATUS_INVALID_ARGUMENT,
                    "tensor_arange: dtype");
        CHECK_FAILS(ctx, tensor_from(ctx, dtype, SHAPE(1), &one, &t), STATUS_INVALID_ARGUMENT,
                    "tensor_from: dtype");
        assert_null(t);
    }
}

static void arange_counts_exactly(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *t = NULL;
    const void *data = NULL;
    CHECK_OK(ctx, tensor_arange(ctx, DTYPE_F32, 4, -0.5, &t));
    CHECK_OK(ctx, tensor_data(ctx, t, &data));
    const float wanted[4] = {-0.5f, 0.5f, 1.5f, 2.5f};
    assert_memory_equal(data, wanted, sizeof wanted);
    tensor_release(t);

    CHECK_OK(ctx, tensor_arange(ctx, DTYPE_S64, 3, 0x1p53, &t));
    CHECK_OK(ctx, tensor_data(ctx, t, &data));
    assert_true(((const int64_t *)data)[1] == (INT64_C(1) << 53) + 1);
    tensor_release(t);
    t = NULL;
    CHECK_FAILS(ctx, tensor_arange(ctx, DTYPE_S64, 3, 0x1p63, &t), STATUS_INVALID_ARGUMENT,
                "64 bits");
    CHECK_FAILS(ctx, tensor_arange(ctx, DTYPE_S64, 3, NAN, &t), STATUS_INVALID_ARGUMENT, "64 bits");
    CHECK_FAILS(ctx, tensor_arange(ctx, DTYPE_F32, -1, 0, &t), STATUS_INVALID_ARGUMENT,
                "tensor_arange: ");
    assert_null(t);
}

static void from_copies_the_elements(void **state)
{
    context_t *ctx = fixture_context(state);
    int32_t elements[6] = {1, 2, 3, 4, 5, 6}, back[6] = {0};
    tensor_t *t = NULL;
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_S32, SHAPE(2, 3), elements, &t));
    elements[0] = 100;
    CHECK_OK(ctx, tensor_read(ctx, t, back, sizeof back));
    assert_int_equal(back[0], 1);
    assert_int_equal(back[5], 6);
    CHECK_FAILS(ctx, tensor_read(ctx, t, back, sizeof back - 1), STATUS_INVALID_ARGUMENT,
                "tensor_read: s32[2,3] needs 24 bytes, capacity is 23");
    tensor_release(t);
    t = NULL;
    assert_null(t);
}

static void numbers_are_marked_for_promotion(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *number = NULL, *integer = NULL;
    int64_t value = 0;
    CHECK_OK(ctx, tensor_number(ctx, 0.1, &number));
    CHECK_OK(ctx, tensor_integer(ctx, INT64_MAX, &integer));
    assert_true(tensor_info(number)->is_number);
    assert_int_equal(tensor_dtype(number), DTYPE_F64);
    assert_int_equal(tensor_rank(number), 0);
    CHECK_OK(ctx, tensor_item_integer(ctx, integer, &value));
    assert_true(value == INT64_MAX);
    tensor_release(number);
    tensor_release(integer);
}

static void item_needs_exactly_one_element(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *t = NULL;
    double value = 7;
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(2, 3), &t));
    CHECK_FAILS(ctx, tensor_item(ctx, t, &value), STATUS_INVALID_ARGUMENT,
                "tensor_item: f32[2,3] has 6 elements, must have one");
    assert_true(value == 7);
    tensor_release(t);
}

/* ---- borrowing ---- */

static int n_deleted;

static void count_deletion(void *user, void *data)
{
    assert_ptr_equal(user, data);
    n_deleted++;
}

static void a_borrowed_tensor_reads_and_writes_the_callers_memory(void **state)
{
    context_t *ctx = fixture_context(state);
    float memory[6] = {1, 2, 3, 4, 5, 6}, back[4];
    const int64_t strides[2] = {1, 4};
    tensor_t *t = NULL;
    n_deleted = 0;
    CHECK_OK(ctx, tensor_borrow(ctx, DTYPE_F32, SHAPE(2, 2), strides, memory, count_deletion,
                                memory, &t));
    CHECK_OK(ctx, tensor_read(ctx, t, back, sizeof back));
    assert_memory_equal(back, ((float[]){1, 5, 2, 6}), sizeof back);
    CHECK_OK(ctx, tensor_fill(ctx, t, 9));
    assert_memory_equal(memory, ((float[]){9, 9, 3, 4, 9, 9}), sizeof memory);
    assert_int_equal(n_deleted, 0);
    tensor_release(t);
    assert_int_equal(n_deleted, 1);
}

static void a_borrow_that_is_refused_never_calls_the_deleter(void **state)
{
    fixture_t *fixture = *state;
    context_t *ctx = fixture->ctx;
    float memory[6] = {0};
    const int64_t negative[1] = {-1};
    tensor_t *t = NULL;
    n_deleted = 0;
    CHECK_FAILS(
        ctx, tensor_borrow(ctx, DTYPE_F32, SHAPE(2), negative, memory, count_deletion, memory, &t),
        STATUS_INVALID_ARGUMENT, "tensor_borrow: stride -1 of dimension 0");
    CHECK_FAILS(ctx,
                tensor_borrow(ctx, DTYPE_F32, SHAPE(2), NULL, (char *)memory + 1, count_deletion,
                              memory, &t),
                STATUS_INVALID_ARGUMENT, "multiple of 4 bytes");
    for (long n = 1; n <= 3; n++) {
        counting_fail(&fixture->memory, n, false);
        CHECK_FAILS(
            ctx, tensor_borrow(ctx, DTYPE_F32, SHAPE(2), NULL, memory, count_deletion, memory, &t),
            STATUS_OUT_OF_MEMORY, "out of memory");
    }
    assert_null(t);
    assert_int_equal(n_deleted, 0);
}

static void only_empty_tensors_may_be_borrowed_from_null(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *t = NULL;
    CHECK_FAILS(ctx, tensor_borrow(ctx, DTYPE_F32, SHAPE(2), NULL, NULL, NULL, NULL, &t),
                STATUS_INVALID_ARGUMENT, "tensor_borrow: data is NULL");
    CHECK_OK(ctx, tensor_borrow(ctx, DTYPE_F32, SHAPE(0, 4), NULL, NULL, NULL, NULL, &t));
    CHECK_OK(ctx, tensor_fill(ctx, t, 1));
    tensor_release(t);
}

/* ---- opaque tensors, failures, lifetime ---- */

static void an_opaque_tensor_says_to_use_to_dense(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *m = NULL, *view = NULL;
    const int64_t *strides = NULL;
    const void *data = NULL;
    void *bytes = NULL;
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(1, 3, 2, 2), 1.5, &x));
    CHECK_OK(ctx, convert_reorder(ctx, x, "aBcd16b", &m));
    CHECK_FAILS(ctx, tensor_data(ctx, m, &data), STATUS_UNSUPPORTED,
                "tensor_data: mkldnn f32[1,3,2,2]@aBcd16b is opaque, use to_dense");
    CHECK_FAILS(ctx, tensor_data_mutable(ctx, m, &bytes), STATUS_UNSUPPORTED, "use to_dense");
    CHECK_FAILS(ctx, tensor_strides(ctx, m, &strides), STATUS_UNSUPPORTED,
                "tensor_strides: mkldnn f32[1,3,2,2]@aBcd16b is opaque, use to_dense");
    CHECK_FAILS(ctx, tensor_view(ctx, m, SHAPE(12), &view), STATUS_UNSUPPORTED, "use to_dense");
    CHECK_FAILS(ctx, tensor_contiguous(ctx, m, &view), STATUS_UNSUPPORTED, "use to_dense");
    assert_null(view);
    tensor_release(x);
    tensor_release(m);
}

static void a_chain_on_null_passes_the_first_failure_on(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *y = NULL;
    double value;
    assert_int_equal(tensor_empty(ctx, DTYPE_F32, SHAPE(-2), &x), STATUS_INVALID_ARGUMENT);
    char first[256];
    strncpy(first, context_error(ctx), sizeof first - 1);
    first[sizeof first - 1] = '\0';
    CHECK_FAILS(ctx, tensor_clone(ctx, x, &y), STATUS_INVALID_ARGUMENT, first);
    CHECK_FAILS(ctx, tensor_view(ctx, y, SHAPE(4), &y), STATUS_INVALID_ARGUMENT, first);
    CHECK_FAILS(ctx, tensor_item(ctx, y, &value), STATUS_INVALID_ARGUMENT, first);
    context_clear_error(ctx);
    CHECK_FAILS(ctx, tensor_copy(ctx, y, x), STATUS_INVALID_ARGUMENT, "tensor_copy: dst is NULL");
}

static void a_tensor_may_outlive_its_context(void **state)
{
    fixture_t *fixture = *state;
    context_options_t options = {.allocator = &fixture->memory.allocator};
    context_t *ctx = NULL;
    tensor_t *t = NULL;
    assert_int_equal(context_create(&options, &ctx), STATUS_OK);
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(4), 3, &t));
    context_destroy(ctx);
    assert_true(((const float *)tensor_bytes(t))[3] == 3);
    tensor_release(t);
}

static void the_texts_of_eight_tensors_live_side_by_side(void **state)
{
    (void)state;
    const char *texts[8];
    for (int64_t i = 0; i < 8; i++) {
        tensor_info_t info = info_dense(DTYPE_F32, 1, &i);
        texts[i] = info_brief(&info);
    }
    assert_string_equal(texts[0], "f32[0]");
    assert_string_equal(texts[7], "f32[7]");
    assert_string_equal(tensor_text(NULL), "none");
}

static void writes_to_a_borrowed_tensor_reach_its_memory_and_no_snapshot(void **state)
{
    context_t *ctx = fixture_context(state);
    float memory[4] = {1, 2, 3, 4}, seen[4];
    tensor_t *x = NULL, *view = NULL, *m = NULL;
    const void *data = NULL;
    CHECK_OK(ctx, tensor_borrow(ctx, DTYPE_F32, SHAPE(4), NULL, memory, NULL, NULL, &x));
    CHECK_OK(ctx, tensor_narrow(ctx, x, 0, 1, 2, &view));
    CHECK_OK(ctx, to_mkldnn(ctx, x, &m));
    CHECK_OK(ctx, tensor_fill(ctx, x, 7));
    assert_true(memory[0] == 7 && memory[3] == 7);
    CHECK_OK(ctx, tensor_fill(ctx, view, 8));
    assert_true(memory[0] == 7 && memory[1] == 8 && memory[2] == 8 && memory[3] == 7);
    CHECK_OK(ctx, tensor_data(ctx, x, &data));
    assert_ptr_equal(data, memory);
    memory[0] = 9;
    CHECK_OK(ctx, tensor_read(ctx, m, seen, sizeof seen));
    for (int i = 0; i < 4; i++) assert_true(seen[i] == (float)(i + 1));
    CHECK_OK(ctx, tensor_fill(ctx, m, 5));
    assert_true(memory[0] == 9 && memory[1] == 8);
    tensor_release(x);
    tensor_release(view);
    tensor_release(m);
}

static status_t make_all(context_t *ctx)
{
    tensor_t *t[6] = {NULL};
    float memory[4] = {1, 2, 3, 4};
    status_t status = tensor_full(ctx, DTYPE_F32, SHAPE(2, 2), 1, &t[0]);
    if (status == STATUS_OK) status = tensor_randn(ctx, DTYPE_F16, SHAPE(7), &t[1]);
    if (status == STATUS_OK) status = tensor_arange(ctx, DTYPE_S32, 5, 1, &t[2]);
    if (status == STATUS_OK) status = tensor_number(ctx, 1, &t[3]);
    if (status == STATUS_OK) status = tensor_from(ctx, DTYPE_F32, SHAPE(4), memory, &t[4]);
    if (status == STATUS_OK)
        status = tensor_borrow(ctx, DTYPE_F32, SHAPE(4), NULL, memory, NULL, NULL, &t[5]);
    for (int i = 0; i < 6; i++) tensor_release(t[i]);
    return status;
}

/* Sizes matter, because a small tensor's bytes are in one block with its handle. */
static void the_number_of_owners_of_a_tensor_is_known(void **state)
{
    context_t *ctx = fixture_context(state);
    float memory[4] = {0};
    for (int64_t n = 1; n < 200000; n *= 400) {
        tensor_t *t = NULL, *view = NULL, *snapshot = NULL;
        CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(n), &t));
        assert_false(tensor_is_shared(t));
        assert_true(tensor_is_shared(tensor_retain(t)));
        tensor_release(t);
        CHECK_OK(ctx, tensor_view(ctx, t, 2, (int64_t[]){n, 1}, &view));
        assert_true(tensor_is_shared(t) && tensor_is_shared(view));
        tensor_release(view);
        assert_false(tensor_is_shared(t));
        CHECK_OK(ctx, to_mkldnn(ctx, t, &snapshot));
        assert_true(tensor_is_shared(t) && tensor_is_shared(snapshot));
        tensor_release(t);
        assert_false(tensor_is_shared(snapshot));
        tensor_release(snapshot);
    }
    tensor_t *borrowed = NULL;
    CHECK_OK(ctx, tensor_borrow(ctx, DTYPE_F32, SHAPE(4), NULL, memory, NULL, NULL, &borrowed));
    assert_true(tensor_is_shared(borrowed));
    tensor_release(borrowed);
    assert_false(tensor_is_shared(NULL));
}

static void making_survives_every_refused_allocation(void **state)
{
    (void)state;
    check_every_allocation(make_all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_tensor_knows_its_type_sizes_and_strides),
        TEST(wrong_types_and_sizes_are_refused),
        TEST(tensors_may_be_empty_or_have_rank_0),
        TEST(full_and_zeros_set_every_element_of_every_type),
        TEST(random_tensors_repeat_with_the_seed),
        TEST(randn_has_the_moments_of_a_standard_normal),
        TEST(rand_stays_below_1_in_every_floating_type),
        TEST(invalid_dtypes_are_refused_by_all_constructors),
        TEST(arange_counts_exactly),
        TEST(from_copies_the_elements),
        TEST(numbers_are_marked_for_promotion),
        TEST(item_needs_exactly_one_element),
        TEST(a_borrowed_tensor_reads_and_writes_the_callers_memory),
        TEST(a_borrow_that_is_refused_never_calls_the_deleter),
        TEST(only_empty_tensors_may_be_borrowed_from_null),
        TEST(an_opaque_tensor_says_to_use_to_dense),
        TEST(a_chain_on_null_passes_the_first_failure_on),
        TEST(a_tensor_may_outlive_its_context),
        TEST(the_texts_of_eight_tensors_live_side_by_side),
        TEST(writes_to_a_borrowed_tensor_reach_its_memory_and_no_snapshot),
        TEST(the_number_of_owners_of_a_tensor_is_known),
        TEST(making_survives_every_refused_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
