/* Gradients of bf16 and f16 tensors must equal the f32 gradients for the same numbers, rounded
 * once. test_gradients.c tests f32 gradients.
 *
 * In each case, some number inside the gradient rule (a sum, count or difference) is too large or
 * too precise for the inputs' dtype. */
#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/dispatch.h"
#include "ops/ops.h"
#include "tests/support/case.h"
#include "train/tape.h"

typedef struct row {
    const char *op, *call;
    double tolerance; /* relative to the largest gradient; larger if a rule reads rounded results */
    int output;       /* the output whose gradient is given */
} row_t;

static const row_t rows[] = {
    {"scaled_dot_product_attention", "(bf16[1,2,33,16]*4, bf16[1,2,65,16]*4, bf16[1,2,65,8], none)",
     0.004, 0},
    {"scaled_dot_product_attention",
     "(f16[2,4,9,16]*4, f16[2,2,17,16]*4, f16[2,2,17,8], f16[9,17]) enable_gqa=true", 0.0005, 0},
    {"batch_norm", "(f16[64,2,33,31], none, f32[2], f32[2], f32[2]+)", 1e-5, 0},
    {"batch_norm", "(bf16[8,3,9,9], f32[3], f32[3], f32[3]*9, f32[3]+)", 1e-5, 0},
    {"cumprod", "(bf16[3,40]+) dim=1", 1e-5, 0},
    {"var", "(bf16[7,40]+*9) dims=[1]", 1e-5, 0},
    {"std", "(bf16[7,40]+*9) dims=[1]", 0.003, 0},
    {"logsumexp", "(bf16[7,40]+*9) dims=[1]", 1e-5, 0},
    {"prelu", "(f16[3,2,200,200]*9, f32[2])", 1e-5, 0},
    {"add", "(bf16[400,9], f32[])", 1e-5, 0},
    {"conv_transpose2d", "(bf16[2,3,40,40], bf16[3,2,1,1], f32[2])", 1e-5, 0},
    {"linear", "(bf16[900,3], bf16[2,3], f32[2])", 1e-5, 0},
    {"layer_norm", "(bf16[900,5], f32[5], f32[5])", 1e-5, 0},
    {"rms_norm", "(f16[900,5]*9, f32[5])", 1e-5, 0},
    {"group_norm", "(bf16[9,6,8,9], f32[6], f32[6]) num_groups=3", 1e-5, 0},
    {"softmax", "(bf16[3,90])", 4e-3, 0},
    {"cross_entropy", "(bf16[3,90], s64[3]<90, none)", 1e-5, 0},
    {"where", "(bool[400,9]<2, bf16[400,9], f32[])", 1e-5, 0},
    {"gather_elements", "(bf16[4,9], s64[900,9]<4)", 1e-5, 0},
    {"gather_nd", "(bf16[4,9], s64[900,1]<4)", 1e-5, 0},
    {"gather", "(bf16[4,9], s64[900]<4)", 1e-5, 0},
    {"batch_norm_training", "(bf16[40,3,5]+*9, none, none)", 1e-5, 2},
    {"max_pool2d", "(bf16[2,17,20,20]) kernel=[9,9] stride=[1,1]", 1e-5, 0},
    {"avg_pool2d", "(bf16[2,17,20,20]) kernel=[9,9] stride=[1,1]", 1e-5, 0},
    {"adaptive_avg_pool", "(f16[1,3,40]) output_size=[39]", 1e-5, 0},
    {"conv2d", "(bf16[2,3,40,40], bf16[2,3,1,1], f32[2])", 1e-5, 0},
};

static bool is_floating(const tensor_t *tensor)
{
    return tensor != NULL && dtype_is_floating(tensor_dtype(tensor));
}

/* Computes the gradients of op's inputs in f32 from the gradient `grad` of its output. */
static void pass_back(context_t *ctx, const row_t *row, const case_call_t *call,
                      tensor_t *const *in, const tensor_t *grad, tensor_t **out_gradients)
{
    tape_t *tape = NULL;
    tensor_t *out[OP_MAX_OUTPUTS] = {NULL}, *own = NULL;
    int n_out = OP_MAX_OUTPUTS;
    CHECK_OK(ctx, tape_create(ctx, &tape));
    for (int i = 0; i < call->n_in; i++)
        if (is_floating(in[i])) CHECK_OK(ctx, tape_watch(ctx, tape, in[i]));
    CHECK_OK(ctx, dispatch_run(ctx, ops_find(row->op), call->attrs, call->n_in,
                               (const tensor_t *const *)in, &n_out, out));
    CHECK_OK(ctx, op_cast(ctx, grad, tensor_dtype(out[row->output]), &own));
    CHECK_OK(ctx, tape_backward(ctx, tape, out[row->output], own));
    for (int i = 0; i < call->n_in; i++)
        if (is_floating(in[i]))
            CHECK_OK(ctx, op_cast(ctx, tape_gradient(tape, in[i]), DTYPE_F32, &out_gradients[i]));
    tape_destroy(tape);
    tensor_release(own);
    for (int i = 0; i < n_out; i++) tensor_release(out[i]);
}

/* Returns the maximum relative rounding error of a dtype. */
static double rounding_of(dtype_t dtype)
{
    return dtype == DTYPE_BF16 ? 1.0 / 256 : dtype == DTYPE_F16 ? 1.0 / 2048 : 1e-6;
}

static void compare(context_t *ctx, const row_t *row, int input, dtype_t dtype,
                    const tensor_t *narrow, const tensor_t *wide)
{
    const size_t bytes = (size_t)tensor_numel(wide) * sizeof(float);
    float *got = malloc(bytes), *expected = malloc(bytes);
    double most = 0.0;
    assert_non_null(got);
    assert_non_null(expected);
    CHECK_OK(ctx, tensor_read(ctx, narrow, got, bytes));
    CHECK_OK(ctx, tensor_read(ctx, wide, expected, bytes));
    for (int64_t i = 0; i < tensor_numel(wide); i++) most = fmax(most, fabs((double)expected[i]));
    for (int64_t i = 0; i < tensor_numel(wide); i++) {
        const double a = (double)got[i], b = (double)expected[i];
        if (!(fabs(a - b) <= rounding_of(dtype) * fabs(b) + row->tolerance * most))
            fail_msg("%s %s: element %lld of input %d's gradient is %g, in f32 %g", row->op,
                     row->call, (long long)i, input, a, b);
    }
    free(expected);
    free(got);
}

static void check_row(context_t *ctx, const row_t *row)
{
    const opdef_t *op = ops_find(row->op);
    tensor_t *narrow[CASE_MAX_INPUTS] = {NULL}, *wide[CASE_MAX_INPUTS] = {NULL}, *grad = NULL;
    tensor_t *of_narrow[CASE_MAX_INPUTS] = {NULL}, *of_wide[CASE_MAX_INPUTS] = {NULL};
    tensor_info_t out[OP_MAX_OUTPUTS];
    case_call_t call;
    int n_out = OP_MAX_OUTPUTS;
    assert_non_null(op);
    CHECK_OK(ctx, case_parse(ctx, op, row->call, &call));
    for (int i = 0; i < call.n_in; i++) {
        CHECK_OK(ctx, case_fill(ctx, &call.in[i], &narrow[i]));
        if (is_floating(narrow[i]))
            CHECK_OK(ctx, op_cast(ctx, narrow[i], DTYPE_F32, &wide[i]));
        else
            wide[i] = tensor_retain(narrow[i]);
    }
    CHECK_OK(ctx, case_infer(ctx, op, call.attrs, call.n_in, narrow, &n_out, out));
    case_operand_t operand = {
        .dtype = out[row->output].dtype, .rank = out[row->output].rank, .is_positive = true};
    operand.scale = 4;
    memcpy(operand.sizes, out[row->output].sizes, sizeof operand.sizes);
    CHECK_OK(ctx, case_fill(ctx, &operand, &grad));
    pass_back(ctx, row, &call, narrow, grad, of_narrow);
    pass_back(ctx, row, &call, wide, grad, of_wide);
    for (int i = 0; i < call.n_in; i++) {
        if (is_floating(narrow[i]))
            compare(ctx, row, i, tensor_dtype(narrow[i]), of_narrow[i], of_wide[i]);
        tensor_release(narrow[i]);
        tensor_release(wide[i]);
        tensor_release(of_narrow[i]);
        tensor_release(of_wide[i]);
    }
    tensor_release(grad);
}

static void narrow_gradients_are_those_in_f32_rounded(void **state)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_row(fixture_context(state), &rows[i]);
}

/* Computes the gradient of x in f16. The gradient of each result is of_result. */
static void pass_f16(context_t *ctx, const char *name, const char *attrs, const tensor_t *x,
                     double of_result, float *out_got)
{
    const opdef_t *op = ops_find(name);
    char text[64];
    case_call_t call;
    tensor_t *in = NULL, *out = NULL, *grad = NULL, *wide = NULL;
    tape_t *tape = NULL;
    snprintf(text, sizeof text, "(f16[1]) %s", attrs);
    CHECK_OK(ctx, case_parse(ctx, op, text, &call));
    CHECK_OK(ctx, op_cast(ctx, x, DTYPE_F16, &in));
    CHECK_OK(ctx, tape_create(ctx, &tape));
    CHECK_OK(ctx, tape_watch(ctx, tape, in));
    CHECK_OK(ctx, dispatch_run(ctx, op, call.attrs, 1, (const tensor_t *const *)&in, NULL, &out));
    CHECK_OK(ctx,
             tensor_full(ctx, DTYPE_F16, tensor_rank(out), tensor_sizes(out), of_result, &grad));
    CHECK_OK(ctx, tape_backward(ctx, tape, out, grad));
    CHECK_OK(ctx, op_cast(ctx, tape_gradient(tape, in), DTYPE_F32, &wide));
    CHECK_OK(ctx, tensor_read(ctx, wide, out_got, (size_t)tensor_numel(x) * sizeof *out_got));
    tape_destroy(tape);
    tensor_release(wide);
    tensor_release(grad);
    tensor_release(out);
    tensor_release(in);
}

/* 70000 elements are equal, which is more than f16's largest number, 65504. */
static void equal_elements_may_be_more_than_f16_counts(void **state)
{
    static float got[70000];
    static const char *const calls[][2] = {{"amax", ""}, {"amin", ""}, {"norm", "p=inf"}};
    context_t *ctx = fixture_context(state);
    tensor_t *ones = NULL;
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(70000), 1.0, &ones));
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        pass_f16(ctx, calls[i][0], calls[i][1], ones, 7000.0, got);
        for (int j = 0; j < 70000; j++) assert_true(fabsf(got[j] - 0.1f) <= 1e-4f);
    }
    tensor_release(ones);
}

static void equal_elements_at_one_place_may_be_more_than_f16_counts(void **state)
{
    static float got[69999];
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *index = NULL, *src = NULL, *out = NULL, *grad = NULL, *wide = NULL;
    tape_t *tape = NULL;
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F16, SHAPE(1), 1.0, &x));
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F16, SHAPE(1), 7000.0, &grad));
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F16, SHAPE(69999), 1.0, &src));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_S64, SHAPE(69999), &index));
    CHECK_OK(ctx, tape_create(ctx, &tape));
    CHECK_OK(ctx, tape_watch(ctx, tape, src));
    CHECK_OK(ctx, op_scatter(ctx, x, 0, index, src, SCATTER_MAX, &out));
    CHECK_OK(ctx, tape_backward(ctx, tape, out, grad));
    CHECK_OK(ctx, op_cast(ctx, tape_gradient(tape, src), DTYPE_F32, &wide));
    CHECK_OK(ctx, tensor_read(ctx, wide, got, sizeof got));
    for (int i = 0; i < 69999; i++) assert_true(fabsf(got[i] - 0.1f) <= 1e-4f);
    tape_destroy(tape);
    tensor_release(wide);
    tensor_release(out);
    tensor_release(grad);
    tensor_release(index);
    tensor_release(src);
    tensor_release(x);
}

/* With x = 2^-10, 2^-10, 300, 300 and y its running products, d(sum y) / dx[0] is 1 + x1 + x1 x2 +
 * x1 x2 x3. A partial sum, x2 + x2 x3, exceeds f16. */
static void partial_sums_of_a_running_product_may_be_larger_than_f16_has(void **state)
{
    context_t *ctx = fixture_context(state);
    const float x[] = {0x1p-10f, 0x1p-10f, 300.0f, 300.0f};
    const float expected[] = {1.0f + 90301.0f / 1024.0f, 90301.0f / 1024.0f, 301.0f / 1048576.0f,
                              300.0f / 1048576.0f};
    float got[4];
    tensor_t *in = NULL;
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, SHAPE(4), x, &in));
    pass_f16(ctx, "cumprod", "", in, 1.0, got);
    for (int i = 0; i < 4; i++) assert_true(fabsf(got[i] - expected[i]) <= 1e-3f * expected[i]);
    tensor_release(in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(narrow_gradients_are_those_in_f32_rounded),
        TEST(equal_elements_may_be_more_than_f16_counts),
        TEST(equal_elements_at_one_place_may_be_more_than_f16_counts),
        TEST(partial_sums_of_a_running_product_may_be_larger_than_f16_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
