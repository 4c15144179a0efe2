/* Operators whose output sizes depend on elements ("measured" ones): results compared with PyTorch
 * and NumPy, an error for each rule, and folding in graphs if the elements are constant. */
#include "tests/support/support.h"

#include <math.h>

#include "dispatch/dispatch.h"
#include "module/layers/layers.h"
#include "module/mkldnn.h"
#include "ops/ops.h"
#include "tensor/convert/convert.h"
#include "tensor/convert/form_impl.h"
#include "tensor/counters.h"
#include "tensor/tensor_impl.h"

static tensor_t *integers(context_t *ctx, int rank, const int64_t *sizes, const int64_t *values)
{
    tensor_t *tensor = NULL;
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_S64, rank, sizes, values, &tensor));
    return tensor;
}

static tensor_t *vector(context_t *ctx, int n, const int64_t *values)
{
    return integers(ctx, 1, (int64_t[]){n}, values);
}

/* Makes 0, 1, 2, ... */
static tensor_t *ramp(context_t *ctx, int rank, const int64_t *sizes)
{
    int64_t values[64];
    for (int i = 0; i < 64; i++) values[i] = i;
    return integers(ctx, rank, sizes, values);
}

static void check(context_t *ctx, tensor_t *got, int rank, const int64_t *sizes,
                  const int64_t *wanted)
{
    int64_t values[64];
    assert_int_equal(tensor_rank(got), rank);
    for (int d = 0; d < rank; d++) assert_int_equal(tensor_sizes(got)[d], sizes[d]);
    CHECK_OK(ctx, tensor_read(ctx, got, values, sizeof values));
    for (int64_t i = 0; i < tensor_numel(got); i++) assert_int_equal(values[i], wanted[i]);
    tensor_release(got);
}

/* Compares with torch.nonzero([[0, 3, 0], [nan, 0, -1]]). */
static void nonzero_gives_indices_in_order(void **state)
{
    context_t *ctx = fixture_context(state);
    const float elements[6] = {0, 3, -0.0F, NAN, 0, -1};
    tensor_t *x = NULL, *y = NULL, *blocked = NULL;
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, SHAPE(2, 3), elements, &x));
    CHECK_OK(ctx, op_nonzero(ctx, x, &y));
    check(ctx, y, 2, (int64_t[]){3, 2}, (int64_t[]){0, 1, 1, 0, 1, 2});
    CHECK_OK(ctx, to_mkldnn(ctx, x, &blocked));
    CHECK_OK(ctx, op_nonzero(ctx, blocked, &y));
    check(ctx, y, 2, (int64_t[]){3, 2}, (int64_t[]){0, 1, 1, 0, 1, 2});
    tensor_release(blocked);
    tensor_release(x);
    x = ramp(ctx, 0, NULL); /* the only element is 0 */
    CHECK_OK(ctx, op_nonzero(ctx, x, &y));
    check(ctx, y, 2, (int64_t[]){0, 0}, NULL);
    tensor_release(x);
}

static void reshape_by_takes_sizes_from_a_tensor(void **state)
{
    context_t *ctx = fixture_context(state);
    int64_t wanted[24];
    tensor_t *x = ramp(ctx, 3, (int64_t[]){2, 3, 4}), *y = NULL;
    tensor_t *sizes = vector(ctx, 3, (int64_t[]){0, -1, 2});
    for (int i = 0; i < 24; i++) wanted[i] = i;
    CHECK_OK(ctx, op_reshape_by(ctx, x, sizes, true, &y));
    check(ctx, y, 3, (int64_t[]){2, 6, 2}, wanted);
    CHECK_FAILS(ctx, op_reshape_by(ctx, x, sizes, false, &y), STATUS_INVALID_ARGUMENT,
                "no size fits for -1");
    tensor_release(sizes);
    sizes = vector(ctx, 2, (int64_t[]){5, -2});
    CHECK_FAILS(ctx, op_reshape_by(ctx, x, sizes, true, &y), STATUS_INVALID_ARGUMENT,
                "reshape_by: size 1 is -2, -1 or more is needed");
    tensor_release(sizes);
    sizes = vector(ctx, 4, (int64_t[]){2, 3, 4, 0});
    CHECK_FAILS(ctx, op_reshape_by(ctx, x, sizes, true, &y), STATUS_INVALID_ARGUMENT,
                "reshape_by: size 3 is to be that of s64[2,3,4]");
    tensor_release(sizes);
    CHECK_FAILS(ctx, op_reshape_by(ctx, x, x, true, &y), STATUS_INVALID_ARGUMENT,
                "reshape_by: sizes are s64[2,3,4], one dimension of at most 12 is needed");
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(2), 4, &sizes));
    CHECK_FAILS(ctx, op_reshape_by(ctx, x, sizes, true, &y), STATUS_INVALID_ARGUMENT,
                "reshape_by: sizes is f32[2], s64 or s32 is needed");
    tensor_release(sizes);
    tensor_release(x);
}

/* Compares with numpy.broadcast_to, for the shape to which both are broadcast. */
static void expand_by_broadcasts_both_ways(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = ramp(ctx, 2, (int64_t[]){3, 1}), *y = NULL;
    tensor_t *sizes = vector(ctx, 3, (int64_t[]){2, 1, 2});
    CHECK_OK(ctx, op_expand_by(ctx, x, sizes, &y));
    check(ctx, y, 3, (int64_t[]){2, 3, 2}, (int64_t[]){0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2});
    tensor_release(sizes);
    sizes = vector(ctx, 1, (int64_t[]){4});
    CHECK_OK(ctx, op_expand_by(ctx, x, sizes, &y));
    check(ctx, y, 2, (int64_t[]){3, 4}, (int64_t[]){0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2});
    tensor_release(sizes);
    sizes = vector(ctx, 2, (int64_t[]){2, 4});
    CHECK_FAILS(ctx, op_expand_by(ctx, x, sizes, &y), STATUS_INVALID_ARGUMENT,
                "expand_by: s64[3,1] and [2,4] do not broadcast");
    tensor_release(sizes);
    tensor_release(x);
}

/* Compares with list(range(7))[start:end:step]. */
static void slice_by_counts_as_python_does(void **state)
{
    context_t *ctx = fixture_context(state);
    static const struct {
        int64_t start, end, step;
        int n;
        int64_t wanted[7];
    } slices[] = {{1, 5, 1, 4, {1, 2, 3, 4}},
                  {-3, 100, 1, 3, {4, 5, 6}},
                  {0, -1, 3, 2, {0, 3}},
                  {5, 1, -2, 2, {5, 3}},
                  {100, -100, -3, 3, {6, 3, 0}},
                  {3, 3, 1, 0, {0}},
                  {-1, INT64_MIN, -1, 7, {6, 5, 4, 3, 2, 1, 0}},
                  {INT64_MIN, INT64_MAX, 4, 2, {0, 4}}};
    tensor_t *x = ramp(ctx, 1, (int64_t[]){7}), *y = NULL;
    for (size_t i = 0; i < sizeof slices / sizeof *slices; i++) {
        tensor_t *start = vector(ctx, 1, &slices[i].start), *end = vector(ctx, 1, &slices[i].end);
        CHECK_OK(ctx, op_slice_by(ctx, x, start, end, 0, slices[i].step, &y));
        check(ctx, y, 1, (int64_t[]){slices[i].n}, slices[i].wanted);
        tensor_release(start);
        tensor_release(end);
    }
    CHECK_OK(ctx, op_slice_by(ctx, x, NULL, NULL, -1, -3, &y));
    check(ctx, y, 1, (int64_t[]){3}, (int64_t[]){6, 3, 0});
    CHECK_FAILS(ctx, op_slice_by(ctx, x, NULL, NULL, 0, 0, &y), STATUS_INVALID_ARGUMENT,
                "slice_by: a step of 0");
    CHECK_FAILS(ctx, op_slice_by(ctx, x, NULL, NULL, 1, 1, &y), STATUS_INVALID_ARGUMENT,
                "slice_by: dim 1 of s64[7], out of range");
    CHECK_FAILS(ctx, op_slice_by(ctx, x, x, NULL, 0, 1, &y), STATUS_INVALID_ARGUMENT,
                "slice_by: start is s64[7], one element is needed");
    tensor_release(x);
}

static void range_counts_until_the_limit(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *numbers[4], *y = NULL;
    for (int i = 0; i < 4; i++)
        numbers[i] = vector(ctx, 1, (int64_t[]){(int64_t[]){7, -2, -3, 0}[i]});
    CHECK_OK(ctx, op_range(ctx, numbers[0], numbers[1], numbers[2], &y));
    check(ctx, y, 1, (int64_t[]){3}, (int64_t[]){7, 4, 1});
    CHECK_OK(ctx, op_range(ctx, numbers[1], numbers[0], numbers[2], &y));
    check(ctx, y, 1, (int64_t[]){0}, NULL);
    CHECK_FAILS(ctx, op_range(ctx, numbers[0], numbers[1], numbers[3], &y), STATUS_INVALID_ARGUMENT,
                "range: it has no end, or too many elements");
    tensor_t *flag = NULL, *pair = vector(ctx, 2, (int64_t[]){1, 2});
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_BOOL, SHAPE(1), 1, &flag));
    CHECK_FAILS(ctx, op_range(ctx, flag, flag, flag, &y), STATUS_INVALID_ARGUMENT,
                "range: of bool, f32, f64, s32 or s64 is needed");
    CHECK_FAILS(ctx, op_range(ctx, numbers[0], pair, numbers[2], &y), STATUS_INVALID_ARGUMENT,
                "range: limit is s64[2], one element of s64 is needed");
    tensor_release(flag);
    tensor_release(pair);
    for (int i = 0; i < 4; i++) tensor_release(numbers[i]);
}

/* Without elements, sizes are unknown and no kernel can be selected. */
static void it_is_selected_where_it_runs(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = ramp(ctx, 1, (int64_t[]){7});
    const tensor_info_t *infos[] = {tensor_info(x)};
    tensor_info_t out[OP_MAX_OUTPUTS];
    prepared_t *prepared = NULL;
    int n_out = 0;
    CHECK_OK(ctx, dispatch_infer(ctx, ops_find("nonzero"), NULL, 1, infos, &n_out, out));
    assert_int_equal(out[0].sizes[0], -1);
    assert_int_equal(out[0].sizes[1], 1);
    CHECK_FAILS(
        ctx, dispatch_select(ctx, ops_find("nonzero"), NULL, 1, infos, POLICY_AUTO, &prepared),
        STATUS_UNSUPPORTED,
        "nonzero: its output sizes depend on elements, its kernel is selected when it runs");
    tensor_release(x);
}

static void policy_strict_refuses_a_blocked_input_and_converts_none(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *blocked = NULL, *out = NULL;
    counters_t counters;
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(1, 17, 4, 4), 1, &x));
    CHECK_OK(ctx, convert_reorder(ctx, x, "aBcd16b", &blocked));
    CHECK_OK(ctx, dispatch_set_policy(ctx, POLICY_STRICT));
    counters_reset(ctx);
    CHECK_FAILS(ctx, op_nonzero(ctx, blocked, &out), STATUS_UNSUPPORTED,
                "nonzero: no kernel for mkldnn f32[1,17,4,4]@aBcd16b, needs dense tensors");
    counters_read(ctx, &counters);
    assert_int_equal(counters.to_dense, 0);
    assert_int_equal(counters_copies(&counters), 0);
    CHECK_OK(ctx, dispatch_set_policy(ctx, POLICY_AUTO));
    CHECK_OK(ctx, op_nonzero(ctx, blocked, &out));
    assert_int_equal(tensor_sizes(out)[0], 272);
    tensor_t *all[] = {x, blocked, out};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) tensor_release(all[k]);
}

/* The weight's elements are only in a blocked form, from which the operator must read them. */
static void a_weight_that_has_shed_its_bytes_is_read(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = NULL;
    tensor_t *x = NULL, *y = NULL, *row = NULL, *out = NULL;
    CHECK_OK(ctx, layer_conv2d(ctx, 64, 64, 3, NULL, false, &net));
    tensor_t *weight = module_parameter(net, "weight");
    CHECK_OK(ctx, tensor_fill(ctx, weight, 0));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(1, 64, 8, 8), &x));
    CHECK_OK(ctx, module_mkldnn(ctx, net, NULL));
    CHECK_OK(ctx, module_forward(ctx, net, x, &y));
    assert_true(storage_is_shed(weight->storage));
    CHECK_OK(ctx, tensor_narrow(ctx, weight, 0, 7, 25, &row));
    CHECK_OK(ctx, op_nonzero(ctx, row, &out));
    assert_int_equal(tensor_sizes(out)[0], 0);
    tensor_t *all[] = {x, y, row, out};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) tensor_release(all[k]);
    module_release(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(policy_strict_refuses_a_blocked_input_and_converts_none),
        TEST(a_weight_that_has_shed_its_bytes_is_read),
        TEST(nonzero_gives_indices_in_order),
        TEST(reshape_by_takes_sizes_from_a_tensor),
        TEST(expand_by_broadcasts_both_ways),
        TEST(slice_by_counts_as_python_does),
        TEST(range_counts_until_the_limit),
        TEST(it_is_selected_where_it_runs),
    };
    return cmocka_run_group_tests_name("measured", tests, NULL, NULL);
}
