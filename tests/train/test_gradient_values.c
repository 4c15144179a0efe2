/* Gradients at points where the slope is not unique or is zero, such as kinks and ties, compared
 * with PyTorch. gradient_values.py prints the table. Also tests errors of backward operators. */
#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "dispatch/dispatch.h"
#include "ops/gradient_impl.h"
#include "ops/ops.h"
#include "tests/support/case.h"
#include "train/tape.h"

/* A case: an operator, its inputs of rank 1, and PyTorch's gradients. */
typedef struct value {
    const char *op, *attrs;
    int n[2];
    float in[2][8], grad[2][8];
} value_row_t;

static const value_row_t values[] = {
    {"relu",
     "",
     {8},
     {{-6.0f, -3.0f, -1.0f, 0.0f, 0.5f, 1.0f, 3.0f, 6.0f}},
     {{0.0f, 0.0f, 0.0f, 0.0f, 5.0f, 6.0f, 7.0f, 8.0f}}},
    {"relu6",
     "",
     {8},
     {{-6.0f, -3.0f, -1.0f, 0.0f, 0.5f, 1.0f, 3.0f, 6.0f}},
     {{0.0f, 0.0f, 0.0f, 0.0f, 5.0f, 6.0f, 7.0f, 0.0f}}},
    {"clamp",
     "min=-1.0 max=1.0",
     {8},
     {{-6.0f, -3.0f, -1.0f, 0.0f, 0.5f, 1.0f, 3.0f, 6.0f}},
     {{0.0f, 0.0f, 3.0f, 4.0f, 5.0f, 6.0f, 0.0f, 0.0f}}},
    {"clamp",
     "min=1.0 max=-1.0",
     {8},
     {{-6.0f, -3.0f, -1.0f, 0.0f, 0.5f, 1.0f, 3.0f, 6.0f}},
     {{0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f}}},
    {"leaky_relu",
     "negative_slope=0.25",
     {8},
     {{-6.0f, -3.0f, -1.0f, 0.0f, 0.5f, 1.0f, 3.0f, 6.0f}},
     {{0.25f, 0.5f, 0.75f, 1.0f, 5.0f, 6.0f, 7.0f, 8.0f}}},
    {"elu",
     "alpha=0.5",
     {8},
     {{-6.0f, -3.0f, -1.0f, 0.0f, 0.5f, 1.0f, 3.0f, 6.0f}},
     {{0.00123937614f, 0.0497870669f, 0.551819205f, 2.0f, 5.0f, 6.0f, 7.0f, 8.0f}}},
    {"celu",
     "alpha=2.0",
     {8},
     {{-6.0f, -3.0f, -1.0f, 0.0f, 0.5f, 1.0f, 3.0f, 6.0f}},
     {{0.0497870669f, 0.446260333f, 1.819592f, 4.0f, 5.0f, 6.0f, 7.0f, 8.0f}}},
    {"selu",
     "",
     {8},
     {{-6.0f, -3.0f, -1.0f, 0.0f, 0.5f, 1.0f, 3.0f, 6.0f}},
     {{0.00435789255f, 0.175061211f, 1.94030571f, 7.03239727f, 5.25350523f, 6.30420589f,
       7.35490704f, 8.40560818f}}},
    {"gelu",
     "",
     {8},
     {{-6.0f, -3.0f, -1.0f, 0.0f, 0.5f, 1.0f, 3.0f, 6.0f}},
     {{-2.98023224e-08f, -0.0238912106f, -0.249946296f, 2.0f, 4.3374753f, 6.49989223f, 7.08361912f,
       8.0f}}},
    {"gelu",
     "tanh_approximation=true",
     {8},
     {{-6.0f, -3.0f, -1.0f, 0.0f, 0.5f, 1.0f, 3.0f, 6.0f}},
     {{0.0f, -0.0231685936f, -0.248892277f, 2.0f, 4.33684921f, 6.49778461f, 7.08108997f, 8.0f}}},
    {"mish",
     "",
     {8},
     {{-6.0f, -3.0f, -1.0f, 0.0f, 0.5f, 1.0f, 3.0f, 6.0f}},
     {{-0.0123599665f, -0.186786249f, 0.177650183f, 2.4000001f, 4.43212223f, 6.29421759f,
       7.14774895f, 8.00107193f}}},
    {"silu",
     "",
     {8},
     {{-6.0f, -3.0f, -1.0f, 0.0f, 0.5f, 1.0f, 3.0f, 6.0f}},
     {{-0.0123264315f, -0.176208213f, 0.216988459f, 2.0f, 3.69980597f, 5.56602335f, 7.61672831f,
       8.09860992f}}},
    {"softplus",
     "",
     {8},
     {{-6.0f, -3.0f, -1.0f, 0.0f, 0.5f, 1.0f, 3.0f, 6.0f}},
     {{0.00247262325f, 0.0948517472f, 0.806824386f, 2.0f, 3.11229682f, 4.38635159f, 6.66801882f,
       7.98021889f}}},
    {"hardsigmoid",
     "",
     {8},
     {{-6.0f, -3.0f, -1.0f, 0.0f, 0.5f, 1.0f, 3.0f, 6.0f}},
     {{0.0f, 0.0f, 0.5f, 0.666666687f, 0.833333373f, 1.0f, 0.0f, 0.0f}}},
    {"hardswish",
     "",
     {8},
     {{-6.0f, -3.0f, -1.0f, 0.0f, 0.5f, 1.0f, 3.0f, 6.0f}},
     {{0.0f, 0.0f, 0.49999997f, 2.0f, 3.33333349f, 5.0f, 7.0f, 8.0f}}},
    {"shrink",
     "lambd=1.0",
     {8},
     {{-6.0f, -3.0f, -1.0f, 0.0f, 0.5f, 1.0f, 3.0f, 6.0f}},
     {{1.0f, 2.0f, 0.0f, 0.0f, 0.0f, 0.0f, 7.0f, 8.0f}}},
    {"shrink",
     "lambd=1.0 bias=1.0",
     {8},
     {{-6.0f, -3.0f, -1.0f, 0.0f, 0.5f, 1.0f, 3.0f, 6.0f}},
     {{1.0f, 2.0f, 0.0f, 0.0f, 0.0f, 0.0f, 7.0f, 8.0f}}},
    {"threshold",
     "threshold=1.0 value=7.0",
     {8},
     {{-6.0f, -3.0f, -1.0f, 0.0f, 0.5f, 1.0f, 3.0f, 6.0f}},
     {{0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 7.0f, 8.0f}}},
    {"abs",
     "",
     {8},
     {{-6.0f, -3.0f, -1.0f, 0.0f, 0.5f, 1.0f, 3.0f, 6.0f}},
     {{-1.0f, -2.0f, -3.0f, 0.0f, 5.0f, 6.0f, 7.0f, 8.0f}}},
    {"softsign",
     "",
     {8},
     {{-6.0f, -3.0f, -1.0f, 0.0f, 0.5f, 1.0f, 3.0f, 6.0f}},
     {{0.0204081684f, 0.125f, 0.75f, 4.0f, 2.22222209f, 1.5f, 0.4375f, 0.163265347f}}},
    {"sqrt", "", {2}, {{0.0f, 4.0f}}, {{INFINITY, 0.5f}}},
    {"log", "", {2}, {{0.0f, 4.0f}}, {{INFINITY, 0.5f}}},
    {"reciprocal",
     "",
     {4},
     {{0.0f, 2.0f, -3.0f, 0.0f}},
     {{-INFINITY, -0.5f, -0.333333373f, -INFINITY}}},
    {"relu", "", {3}, {{NAN, -INFINITY, INFINITY}}, {{1.0f, 0.0f, 3.0f}}},
    {"pow",
     "",
     {8, 8},
     {{0.0f, 0.0f, 0.0f, 2.0f, -2.0f, -2.0f, 0.0f, 2.0f},
      {0.0f, 2.0f, 0.5f, 0.0f, 2.0f, 3.0f, 1.0f, -1.0f}},
     {{0.0f, 0.0f, INFINITY, 0.0f, -20.0f, 72.0f, 7.0f, -2.0f},
      {0.0f, 0.0f, 0.0f, 2.77258873f, NAN, NAN, 0.0f, 2.77258873f}}},
    {"maximum",
     "",
     {4, 4},
     {{1.0f, 2.0f, 3.0f, NAN}, {1.0f, 3.0f, 2.0f, 1.0f}},
     {{0.5f, 0.0f, 3.0f, 4.0f}, {0.5f, 2.0f, 0.0f, 4.0f}}},
    {"minimum",
     "",
     {4, 4},
     {{1.0f, 2.0f, 3.0f, NAN}, {1.0f, 3.0f, 2.0f, 1.0f}},
     {{0.5f, 2.0f, 0.0f, 4.0f}, {0.5f, 0.0f, 3.0f, 4.0f}}},
    {"fmod",
     "",
     {4, 4},
     {{5.5f, -5.5f, 6.0f, 2.0f}, {2.0f, 2.0f, -4.0f, 7.0f}},
     {{1.0f, 2.0f, 3.0f, 4.0f}, {-2.0f, 4.0f, 3.0f, 0.0f}}},
    {"remainder",
     "",
     {4, 4},
     {{5.5f, -5.5f, 6.0f, 2.0f}, {2.0f, 2.0f, -4.0f, 7.0f}},
     {{1.0f, 2.0f, 3.0f, 4.0f}, {-2.0f, 6.0f, 6.0f, 0.0f}}},
    {"atan2",
     "",
     {4, 4},
     {{1.0f, -1.0f, 0.0f, 0.0f}, {0.0f, -1.0f, -2.0f, 2.0f}},
     {{0.0f, -1.0f, -1.5f, 2.0f}, {-1.0f, 1.0f, 0.0f, 0.0f}}},
    {"hypot",
     "",
     {4, 4},
     {{3.0f, -3.0f, 0.0f, 0.0f}, {4.0f, 0.0f, -2.0f, 0.0f}},
     {{0.600000024f, -2.0f, 0.0f, NAN}, {0.800000012f, 0.0f, -3.0f, NAN}}},
    {"prelu",
     "",
     {4, 1},
     {{0.0f, 2.0f, -3.0f, 0.0f}, {0.25f}},
     {{0.25f, 2.0f, 0.75f, 1.0f}, {-9.0f}}},
    {"amax",
     "",
     {4},
     {{1.0f, 3.0f, 3.0f, 3.0f}},
     {{0.0f, 0.333333343f, 0.333333343f, 0.333333343f}}},
    {"amin", "", {4}, {{1.0f, 3.0f, 1.0f, 3.0f}}, {{0.5f, 0.0f, 0.5f, 0.0f}}},
    {"prod", "", {3}, {{2.0f, 3.0f, -4.0f}}, {{-12.0f, -8.0f, 6.0f}}},
    {"prod", "", {3}, {{2.0f, 0.0f, -4.0f}}, {{0.0f, -8.0f, 0.0f}}},
    {"prod", "", {3}, {{2.0f, 0.0f, 0.0f}}, {{0.0f, 0.0f, 0.0f}}},
    {"cumprod", "", {5}, {{2.0f, 0.0f, -4.0f, 0.0f, 3.0f}}, {{1.0f, -20.0f, 0.0f, 0.0f, 0.0f}}},
    {"norm", "", {2}, {{0.0f, 0.0f}}, {{0.0f, 0.0f}}},
    {"norm", "", {4}, {{0.0f, 2.0f, -3.0f, 0.0f}}, {{0.0f, 0.554700196f, -0.832050323f, 0.0f}}},
    {"norm", "", {2}, {{5.51012977e-40f, 7.34683969e-40f}}, {{0.600000024f, 0.800000012f}}},
    {"std", "", {2}, {{0.0f, 7.34683969e-40f}}, {{-0.707106769f, 0.707106769f}}},
    {"norm", "p=0.0", {4}, {{0.0f, 2.0f, -3.0f, 0.0f}}, {{0.0f, 0.0f, 0.0f, 0.0f}}},
    {"norm", "p=1.0", {4}, {{0.0f, 2.0f, -3.0f, 0.0f}}, {{0.0f, 1.0f, -1.0f, 0.0f}}},
    {"norm", "p=0.5", {4}, {{0.0f, 2.0f, -3.0f, 0.0f}}, {{0.0f, 2.2247448f, -1.81649649f, 0.0f}}},
    {"norm", "p=1.5", {4}, {{0.0f, 2.0f, -3.0f, 0.0f}}, {{0.0f, 0.706384063f, -0.8651402f, 0.0f}}},
    {"norm", "p=3.0", {4}, {{0.0f, 2.0f, -3.0f, 0.0f}}, {{0.0f, 0.3738361f, -0.84113121f, 0.0f}}},
    {"norm", "p=3.0", {2}, {{0.0f, 0.0f}}, {{0.0f, 0.0f}}},
    {"norm", "p=inf", {3}, {{-3.0f, 3.0f, 1.0f}}, {{-0.5f, 0.5f, 0.0f}}},
    {"norm", "p=-inf", {3}, {{-3.0f, 1.0f, 1.0f}}, {{0.0f, 0.5f, 0.5f}}},
    {"var", "", {3}, {{1.0f, 2.0f, 4.0f}}, {{-1.33333325f, -0.333333254f, 1.66666675f}}},
    {"std", "", {2}, {{2.0f, 2.0f}}, {{0.0f, 0.0f}}},
    {"std",
     "correction=0",
     {3},
     {{1.0f, 2.0f, 4.0f}},
     {{-0.356348336f, -0.089087069f, 0.445435464f}}},
    {"logsumexp", "", {3}, {{1.0f, -INFINITY, 2.0f}}, {{0.268941402f, 0.0f, 0.731058538f}}},
};

static bool is_near(float got, float expected)
{
    if (isnan(expected)) return isnan(got);
    if (isinf(expected)) return got == expected;
    return fabsf(got - expected) <= 2e-6f * fabsf(expected) + 2e-6f;
}

/* Makes the gradient of the result: 1, 2, 3, ... */
static tensor_t *count_up(context_t *ctx, const tensor_t *like)
{
    tensor_t *grad = NULL;
    void *bytes = NULL;
    CHECK_OK(ctx, tensor_empty(ctx, DTYPE_F32, tensor_rank(like), tensor_sizes(like), &grad));
    CHECK_OK(ctx, tensor_data_mutable(ctx, grad, &bytes));
    for (int64_t i = 0; i < tensor_numel(grad); i++) ((float *)bytes)[i] = (float)(i + 1);
    return grad;
}

static void check_row(context_t *ctx, const value_row_t *row)
{
    const opdef_t *op = ops_find(row->op);
    const int n_in = row->n[1] > 0 ? 2 : 1;
    char text[128];
    case_call_t call;
    tensor_t *in[2] = {NULL}, *out = NULL, *grad = NULL;
    tape_t *tape = NULL;
    assert_non_null(op);
    snprintf(text, sizeof text, "(f32[1]) %s", row->attrs);
    CHECK_OK(ctx, case_parse(ctx, op, text, &call));
    CHECK_OK(ctx, tape_create(ctx, &tape));
    for (int i = 0; i < n_in; i++) {
        CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, SHAPE(row->n[i]), row->in[i], &in[i]));
        CHECK_OK(ctx, tape_watch(ctx, tape, in[i]));
    }
    CHECK_OK(ctx, dispatch_run(ctx, op, call.attrs, n_in, (const tensor_t *const *)in, NULL, &out));
    grad = count_up(ctx, out);
    CHECK_OK(ctx, tape_backward(ctx, tape, out, grad));
    for (int i = 0; i < n_in; i++) {
        float got[8] = {0};
        if (tape_gradient(tape, in[i]) != NULL)
            CHECK_OK(ctx, tensor_read(ctx, tape_gradient(tape, in[i]), got,
                                      (size_t)row->n[i] * sizeof *got));
        for (int j = 0; j < row->n[i]; j++)
            if (!is_near(got[j], row->grad[i][j]))
                fail_msg("%s %s: gradient %d of input %d is %g, PyTorch's %g", row->op, row->attrs,
                         j, i, (double)got[j], (double)row->grad[i][j]);
    }
    tape_destroy(tape);
    tensor_release(grad);
    tensor_release(out);
    for (int i = 0; i < n_in; i++) tensor_release(in[i]);
}

static void gradients_at_kinks_and_ties_are_those_of_pytorch(void **state)
{
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        check_row(fixture_context(state), &values[i]);
}

/* Checks that a call, written as a case (tests/support/case.h), fails. */
static void check_refusal(context_t *ctx, const opdef_t *op, const char *text, const char *part)
{
    case_call_t call;
    tensor_t *in[CASE_MAX_INPUTS] = {NULL}, *out[OP_MAX_OUTPUTS] = {NULL};
    int n_out = OP_MAX_OUTPUTS;
    CHECK_OK(ctx, case_parse(ctx, op, text, &call));
    for (int i = 0; i < call.n_in; i++) CHECK_OK(ctx, case_fill(ctx, &call.in[i], &in[i]));
    CHECK_FAILS(
        ctx, dispatch_run(ctx, op, call.attrs, call.n_in, (const tensor_t *const *)in, &n_out, out),
        STATUS_INVALID_ARGUMENT, part);
    assert_null(out[0]);
    for (int i = 0; i < call.n_in; i++) tensor_release(in[i]);
}

static void gradients_that_do_not_fit_are_refused(void **state)
{
    static const struct {
        const opdef_t *op;
        const char *call, *part;
    } refused[] = {
        {&op_def_elementwise_backward, "(f32[2], f64[2])", "one floating dtype is needed"},
        {&op_def_elementwise_backward, "(f32[2], f32[3])", "equal sizes are needed"},
        {&op_def_binary_backward, "(s32[2], f32[2], f32[2])", "a floating dtype is needed"},
        {&op_def_binary_backward, "(f32[1], f32[2], f32[2])", "they do not broadcast to grad"},
        {&op_def_slice_backward, "(f32[3]) start=2 size=4", "floating elements are there"},
        {&op_def_pad_backward, "(s32[3]) before=[1] after=[1]",
         "pad_backward: grad is s32[3], a floating dtype"},
        {&op_def_pad_backward, "(f32[1]) before=[1] after=[1]", "after dimension 0 gave f32[1]"},
        {&op_def_resize_backward, "(s32[1,1,3]) sizes=[5]",
         "resize_backward: grad is s32[1,1,3], a floating dtype"},
        {&op_def_cumprod_backward, "(f32[2], f32[3])", "equal floating tensors are needed"},
        {&op_def_gather_backward, "(f32[3,2], s64[4]<2) size=2",
         "no floating slices along dimension 0"},
        {&op_def_gather_backward, "(f32[3,2], s64[3]*9) size=1", "gather_backward: index "},
        {&op_def_prod_backward, "(f32[2], f32[3,4])", "floating elements of x's dtype are needed"},
        {&op_def_grid_sample_backward, "(f32[1,2,3,3], f32[1,4,5,2], f32[1,2,5,4])",
         "grad is f32[1,2,5,4], the samples are f32[1,2,4,5]"},
        {&op_def_roi_align_backward, "(f32[1,2,3,3], f32[3,4], s64[3]<1, f32[3,2,1,2])",
         "roi_align_backward: grad is f32[3,2,1,2], the bins are f32[3,2,1,1]"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        check_refusal(fixture_context(state), refused[i].op, refused[i].call, refused[i].part);
}

/* Checks that the gradient rule of a call fails for input `watched`. The call is written as a
 * case. */
static void check_rule_refusal(context_t *ctx, const opdef_t *op, const char *text, int watched,
                               const char *part)
{
    case_call_t call;
    tensor_t *in[CASE_MAX_INPUTS] = {NULL}, *out = NULL, *grad = NULL;
    tape_t *tape = NULL;
    CHECK_OK(ctx, case_parse(ctx, op, text, &call));
    for (int i = 0; i < call.n_in; i++) CHECK_OK(ctx, case_fill(ctx, &call.in[i], &in[i]));
    CHECK_OK(ctx, tape_create(ctx, &tape));
    CHECK_OK(ctx, tape_watch(ctx, tape, in[watched]));
    CHECK_OK(ctx,
             dispatch_run(ctx, op, call.attrs, call.n_in, (const tensor_t *const *)in, NULL, &out));
    grad = count_up(ctx, out);
    CHECK_FAILS(ctx, tape_backward(ctx, tape, out, grad), STATUS_UNSUPPORTED, part);
    tape_destroy(tape);
    tensor_release(grad);
    tensor_release(out);
    for (int i = 0; i < call.n_in; i++) tensor_release(in[i]);
}

static void products_that_are_put_have_no_gradient(void **state)
{
    context_t *ctx = fixture_context(state);
    check_rule_refusal(ctx, &op_def_scatter, "(f32[3], s64[2]<3, f32[2]) reduction=\"mul\"", 2,
                       "src with reduction \"mul\" wants a gradient");
    check_rule_refusal(ctx, &op_def_scatter_nd, "(f32[3], s64[2,1]<3, f32[2]) reduction=\"max\"", 0,
                       "scatter_nd: reduction \"max\", gradients pass");
}

static void boxes_have_no_gradient(void **state)
{
    check_rule_refusal(fixture_context(state), &op_def_roi_align,
                       "(f32[1,2,5,5], f32[3,4]*4, s64[3]<1)", 1,
                       "roi_align: boxes have no gradient, detached ones are needed");
}

/* One thread sums each row of the gradient, in the order of the index, so results are
 * reproducible. */
static void embeddings_have_the_same_bits_on_any_number_of_threads(void **state)
{
    (void)state;
    static float first[50 * 40];
    for (int threads = 1; threads <= 5; threads += 2) {
        const context_options_t options = {.n_threads = threads};
        context_t *ctx = NULL;
        case_call_t call;
        tensor_t *in[2] = {NULL}, *out = NULL;
        static float got[50 * 40];
        CHECK_OK(NULL, context_create(&options, &ctx));
        context_seed(ctx, 7);
        CHECK_OK(ctx, case_parse(ctx, &op_def_gather_backward,
                                 "(f32[3000,40], s64[3000]<50) size=50", &call));
        for (int i = 0; i < 2; i++) CHECK_OK(ctx, case_fill(ctx, &call.in[i], &in[i]));
        CHECK_OK(ctx, dispatch_run(ctx, &op_def_gather_backward, call.attrs, 2,
                                   (const tensor_t *const *)in, NULL, &out));
        CHECK_OK(ctx, tensor_read(ctx, out, got, sizeof got));
        if (threads == 1) memcpy(first, got, sizeof got);
        assert_memory_equal(first, got, sizeof got);
        tensor_release(out);
        for (int i = 0; i < 2; i++) tensor_release(in[i]);
        context_destroy(ctx);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(gradients_at_kinks_and_ties_are_those_of_pytorch),
        TEST(gradients_that_do_not_fit_are_refused),
        TEST(products_that_are_put_have_no_gradient),
        TEST(boxes_have_no_gradient),
        TEST(embeddings_have_the_same_bits_on_any_number_of_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
