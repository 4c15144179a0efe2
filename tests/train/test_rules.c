/* Gradient rules: the rule of a custom operator, and calls without gradients. */
#include "tests/support/support.h"

#include <string.h>

#include "dispatch/emitter.h"
#include "graph/ir/graph.h"
#include "ops/ops_impl.h"
#include "train/graph_grad.h"
#include "train/tape.h"

/* ---- a custom operator: x^3, or a rule that fails on request ---- */

typedef struct cube_attrs {
    bool fails;
} cube_attrs_t;

static const attr_field_t fields[] = {
    {"fails", ATTR_BOOL, false, offsetof(cube_attrs_t, fails), 0, 0, NULL}};
static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false}};

static status_t run(context_t *ctx, const prepared_t *prepared, void *const *in, void *const *out,
                    void *scratch)
{
    const int64_t n = info_numel(prepared_output(prepared, 0));
    const float *x = in[0];
    float *y = out[0];
    (void)ctx, (void)scratch;
    for (int64_t i = 0; i < n; i++) y[i] = x[i] * x[i] * x[i];
    return STATUS_OK;
}

static void pass(const gradient_call_t *call)
{
    emitter_t *emitter = call->emitter;
    const opdef_t *mul = ops_find("mul");
    const tensor_info_t *info = emit_info(emitter, call->in[0]);
    if (((const cube_attrs_t *)call->attrs)->fails)
        emit_fail(emitter, STATUS_UNSUPPORTED, "cube: x of rank %d, the test asks for a failure",
                  info->rank);
    const value_t thrice[] = {call->in[0], emit_number(emitter, 3.0)};
    value_t square[] = {VALUE_NONE, call->in[0]};
    emit_op_n(emitter, mul, NULL, 2, thrice, 1, &square[0]);
    const value_t product[] = {emit_op(emitter, mul, NULL, 2, square), call->out_grad[0]};
    call->in_grad[0] = emit_op(emitter, mul, NULL, 2, product);
}

static const kernel_t kernel = {.name = "own", .prepare = ops_prepare_dense, .run = run};
static const kernel_t *const kernels[] = {&kernel, NULL};
static const gradient_t gradient = {.pass = pass, .reads_in = 1};
static const opdef_t cube = {.name = "cube",
                             .preference = OP_DENSE,
                             .attrs = {sizeof(cube_attrs_t), 1, fields},
                             .n_operands = 1,
                             .operands = operands,
                             .n_outputs = 1,
                             .infer = ops_infer_like,
                             .kernels = kernels,
                             .gradient = &gradient};

static tensor_t *number(context_t *ctx, float value)
{
    tensor_t *x = NULL;
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, 1, (int64_t[]){1}, &value, &x));
    return x;
}

static void an_operator_of_a_users_passes_gradients_by_its_own_rule(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = number(ctx, 2.0f), *y = NULL;
    tape_t *tape = NULL;
    double slope = 0.0;
    CHECK_OK(ctx, tape_create(ctx, &tape));
    CHECK_OK(ctx, tape_watch(ctx, tape, x));
    CHECK_OK(ctx, dispatch_run(ctx, &cube, &(cube_attrs_t){false}, 1, (const tensor_t *[]){x}, NULL,
                               &y));
    CHECK_OK(ctx, tape_backward(ctx, tape, y, NULL));
    CHECK_OK(ctx, tensor_item(ctx, tape_gradient(tape, x), &slope));
    assert_true(slope == 12.0);
    tape_destroy(tape);
    tensor_release(x);
    tensor_release(y);
}

static void a_rule_that_fails_says_why_and_changes_no_gradient(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = number(ctx, 2.0f), *y = NULL;
    tape_t *tape = NULL;
    CHECK_OK(ctx, tape_create(ctx, &tape));
    CHECK_OK(ctx, tape_watch(ctx, tape, x));
    CHECK_OK(ctx,
             dispatch_run(ctx, &cube, &(cube_attrs_t){true}, 1, (const tensor_t *[]){x}, NULL, &y));
    CHECK_FAILS(ctx, tape_backward(ctx, tape, y, NULL), STATUS_UNSUPPORTED,
                "x of rank 1, the test asks for a failure");
    assert_null(tape_gradient(tape, x));
    tape_destroy(tape);
    tensor_release(x);
    tensor_release(y);
}

/* ---- calls without gradients ---- */

static graph_t *parse(context_t *ctx, const char *text)
{
    graph_t *graph = NULL;
    CHECK_OK(ctx, graph_parse(ctx, text, NULL, &graph));
    return graph;
}

static void watching_a_tensor_after_its_use_is_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = number(ctx, 2.0f), *late = number(ctx, 3.0f), *y = NULL;
    tape_t *tape = NULL;
    CHECK_OK(ctx, tape_create(ctx, &tape));
    CHECK_OK(ctx, tape_watch(ctx, tape, x));
    CHECK_OK(ctx, op_mul(ctx, x, x, &y));
    CHECK_FAILS(ctx, tape_watch(ctx, tape, late), STATUS_INVALID_ARGUMENT,
                "must be watched before the tape records calls");
    tape_destroy(tape);
    tensor_release(x);
    tensor_release(late);
    tensor_release(y);
}

static void a_tape_passes_gradients_in_its_own_context_only(void **state)
{
    context_t *ctx = fixture_context(state), *other = NULL;
    tensor_t *x = number(ctx, 2.0f);
    tape_t *tape = NULL;
    CHECK_OK(ctx, tape_create(ctx, &tape));
    CHECK_OK(NULL, context_create(NULL, &other));
    CHECK_FAILS(other, tape_backward(other, tape, x, NULL), STATUS_INVALID_ARGUMENT,
                "tape_backward: the tape belongs to another context");
    context_destroy(other);
    tape_destroy(tape);
    tensor_release(x);
}

static void graph_grad_refuses_what_is_not_in_the_graph(void **state)
{
    context_t *ctx = fixture_context(state);
    graph_t *plain = parse(ctx, "graph f(%x : f32[1]) {\n  %y = mul(%x, %x)\n  return %y\n}\n");
    graph_t *grouped = parse(ctx, "graph f(%x : f32[1]) {\n"
                                  "  %t = tuple(%x, %x)\n"
                                  "  %a, %b = unpack(%t)\n"
                                  "  %y = mul(%a, %b)\n"
                                  "  return %y\n"
                                  "}\n");
    const value_t wrt[] = {0}, beyond[] = {1000};
    graph_t *grads = NULL;
    int at = 0;
    CHECK_FAILS(ctx, graph_grad(ctx, plain, 1, 1, wrt, &at, &grads), STATUS_INVALID_ARGUMENT,
                "graph_grad: result 1 does not exist, f has 1");
    CHECK_FAILS(ctx, graph_grad(ctx, plain, 0, 1, beyond, &at, &grads), STATUS_INVALID_ARGUMENT,
                "graph_grad: value 1000 does not exist, f has 2");
    CHECK_FAILS(ctx, graph_grad(ctx, grouped, 0, 1, wrt, &at, &grads), STATUS_UNSUPPORTED,
                "only operators, constants and attributes are supported");
    graph_release(plain);
    graph_release(grouped);
}

/* ---- the table ---- */

/* True for operators that need no gradient rule: backward operators; operators on integers; those
 * that fold weights, which are then not trained; fused operators, which plans make after gradients
 * were added; unique; trees, which are constant between thresholds and whose leaves are not
 * trained. */
static bool may_lack_a_rule(const char *name)
{
    static const char *const names[] = {"fold_weight",      "fold_bias",        "quantize",
                                        "dequantize",       "requantize",       "dynamic_quantize",
                                        "conv1d_integer",   "conv2d_integer",   "conv3d_integer",
                                        "matmul_integer",   "unique",           "conv1d_quantized",
                                        "conv2d_quantized", "conv3d_quantized", "batch_norm_conv2d",
                                        "expand_depthwise", "tree_ensemble",    "lstm_quantized",
                                        "cached_attention", "rotary_embedding", "slice_scatter"};
    bool may = strstr(name, "_backward") != NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) may |= strcmp(name, names[i]) == 0;
    return may;
}

static void every_operator_has_a_rule_or_none_on_purpose(void **state)
{
    (void)state;
    for (int i = 0; i < ops_count(); i++) {
        const opdef_t *op = ops_at(i);
        if ((op->gradient == NULL) != may_lack_a_rule(op->name))
            fail_msg("%s has %s rule for gradients", op->name, op->gradient == NULL ? "no" : "a");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_operator_has_a_rule_or_none_on_purpose),
        TEST(an_operator_of_a_users_passes_gradients_by_its_own_rule),
        TEST(a_rule_that_fails_says_why_and_changes_no_gradient),
        TEST(watching_a_tensor_after_its_use_is_refused),
        TEST(a_tape_passes_gradients_in_its_own_context_only),
        TEST(graph_grad_refuses_what_is_not_in_the_graph),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
