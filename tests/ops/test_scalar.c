/* Arithmetic of tensors with C numbers. Result dtypes are those of PyTorch 2.13 for a tensor and a
 * Python number. */
#include "tests/support/support.h"

#include <math.h>

#include "graph/ir/graph.h"
#include "ops/ops.h"

typedef status_t (*scalar_t)(context_t *ctx, const tensor_t *x, double value, tensor_t **out);
typedef status_t (*integer_t)(context_t *ctx, const tensor_t *x, int64_t value, tensor_t **out);

static const struct {
    scalar_t scalar;
    integer_t integer;
} functions[] = {{op_add_scalar, op_add_integer},
                 {op_sub_scalar, op_sub_integer},
                 {op_mul_scalar, op_mul_integer},
                 {op_div_scalar, op_div_integer},
                 {op_pow_scalar, op_pow_integer}};
enum { ADD, SUB, MUL, DIV, POW, N_FUNCTIONS };

static double compute(int function, double x, double value)
{
    switch (function) {
    case ADD: return x + value;
    case SUB: return x - value;
    case MUL: return x * value;
    case DIV: return x / value;
    default: return pow(x, value);
    }
}

/* Applies a function to the numbers 1 to 5 in a dtype and to `value`, which is passed as integer or
 * double. Checks the result and its dtype. */
static void check(context_t *ctx, dtype_t dtype, int function, double value, bool is_integer,
                  dtype_t expected)
{
    double elements[5];
    tensor_t *x = NULL, *y = NULL, *wide = NULL;
    CHECK_OK(ctx, tensor_arange(ctx, dtype, 5, 1, &x));
    CHECK_OK(ctx, is_integer ? functions[function].integer(ctx, x, (int64_t)value, &y)
                             : functions[function].scalar(ctx, x, value, &y));
    assert_int_equal(tensor_dtype(y), expected);
    CHECK_OK(ctx, tensor_cast(ctx, y, DTYPE_F64, &wide));
    CHECK_OK(ctx, tensor_read(ctx, wide, elements, sizeof elements));
    for (int i = 0; i < 5; i++) {
        double wanted = compute(function, i + 1, value);
        double bound = 4 * dtype_epsilon(expected) * fabs(wanted);
        assert_true(fabs(elements[i] - wanted) <= bound);
    }
    tensor_release(wide);
    tensor_release(y);
    tensor_release(x);
}

static void a_floating_number_makes_integers_f32(void **state)
{
    context_t *ctx = fixture_context(state);
    static const struct {
        dtype_t dtype, expected;
    } rows[] = {{DTYPE_F32, DTYPE_F32}, {DTYPE_F64, DTYPE_F64}, {DTYPE_BF16, DTYPE_BF16},
                {DTYPE_F16, DTYPE_F16}, {DTYPE_S64, DTYPE_F32}, {DTYPE_S32, DTYPE_F32},
                {DTYPE_U8, DTYPE_F32}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int f = 0; f < N_FUNCTIONS; f++)
            check(ctx, rows[i].dtype, f, 2.5, false, rows[i].expected);
}

static void a_whole_number_keeps_the_dtype(void **state)
{
    context_t *ctx = fixture_context(state);
    static const dtype_t dtypes[] = {DTYPE_F32, DTYPE_BF16, DTYPE_S64, DTYPE_S32, DTYPE_S8};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        for (int f = 0; f < N_FUNCTIONS; f++)
            check(ctx, dtypes[i], f, 2, true,
                  f == DIV && !dtype_is_floating(dtypes[i]) ? DTYPE_F32 : dtypes[i]);
}

static void truth_becomes_a_number(void **state)
{
    context_t *ctx = fixture_context(state);
    const bool elements[] = {true, false};
    float sums[2];
    tensor_t *x = NULL, *y = NULL;
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_BOOL, SHAPE(2), elements, &x));
    CHECK_OK(ctx, op_add_scalar(ctx, x, 0.5, &y));
    assert_int_equal(tensor_dtype(y), DTYPE_F32);
    CHECK_OK(ctx, tensor_read(ctx, y, sums, sizeof sums));
    assert_float_equal(sums[0], 1.5, 0);
    assert_float_equal(sums[1], 0.5, 0);
    tensor_release(y);
    CHECK_OK(ctx, op_add_integer(ctx, x, 2, &y));
    assert_int_equal(tensor_dtype(y), DTYPE_S64);
    tensor_release(y);
    tensor_release(x);
}

static void blocked_tensors_stay_blocked(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *blocked = NULL, *y = NULL;
    counters_t counters;
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(2, 17, 4, 4), 3, &x));
    CHECK_OK(ctx, op_reorder(ctx, x, "aBcd16b", &blocked));
    counters_reset(ctx);
    CHECK_OK(ctx, op_mul_scalar(ctx, blocked, 0.5, &y));
    counters_read(ctx, &counters);
    assert_int_equal(tensor_layout(y), LAYOUT_MKLDNN);
    assert_int_equal(counters_activation_reorders(&counters) + counters_copies(&counters), 0);
    double difference = 1;
    tensor_release(x);
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(2, 17, 4, 4), 1.5, &x));
    CHECK_OK(ctx, tensor_max_rel_diff(ctx, y, x, &difference));
    assert_float_equal(difference, 0, 0);
    tensor_release(y);
    tensor_release(blocked);
    tensor_release(x);
}

static status_t forward(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                        int *n_out, tensor_t **out)
{
    tensor_t *y = NULL;
    (void)self, (void)n_in;
    *n_out = 1;
    op_sub_integer(ctx, in[0], 3, &y);
    op_mul_scalar(ctx, y, 0.5, out);
    return context_status(ctx);
}

static void traced_numbers_are_literals(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = NULL;
    tensor_t *x = NULL;
    text_t text = text_begin(ctx);
    CHECK_OK(ctx, module_create(ctx, "Net", &net));
    CHECK_OK(ctx, module_set_forward(ctx, net, "forward", forward));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(5), &x));
    CHECK_OK(ctx, graph_trace(ctx, net, "forward", 1, (const tensor_t *[]){x}));
    CHECK_OK(ctx, graph_print(ctx, graph_of(net, "forward"), NULL, &text));
    assert_string_equal(text_string(&text), "graph forward(%self : module, %x : f32[N=5]) {\n"
                                            "  %1 = sub(%x, 3) : f32[5]\n"
                                            "  %2 = mul(%1, 0.5) : f32[5]\n"
                                            "  return %2\n}\n");
    text_clear(&text);
    tensor_release(x);
    module_release(net);
}

static status_t halve(context_t *ctx)
{
    tensor_t *x = NULL, *y = NULL;
    status_t status = tensor_zeros(ctx, DTYPE_F32, SHAPE(5), &x);
    if (status == STATUS_OK) status = op_mul_scalar(ctx, x, 0.5, &y);
    tensor_release(y);
    tensor_release(x);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    check_every_allocation(halve);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_floating_number_makes_integers_f32),
        TEST(a_whole_number_keeps_the_dtype),
        TEST(truth_becomes_a_number),
        TEST(blocked_tensors_stay_blocked),
        TEST(traced_numbers_are_literals),
        TEST(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
