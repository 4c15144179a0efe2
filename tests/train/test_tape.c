/* The tape records operators and computes gradients: which calls it records, its errors, and how
 * gradients add up. */
#include "tests/support/support.h"

#include <pthread.h>

#include "graph/program/plan.h"
#include "ops/ops.h"
#include "tensor/convert/convert.h"
#include "tensor/scope.h"
#include "train/tape.h"

static tensor_t *vector(context_t *ctx, int64_t n, const float *elements)
{
    tensor_t *x = NULL;
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, 1, &n, elements, &x));
    return x;
}

static void check_elements(context_t *ctx, const tensor_t *x, int n, const float *expected)
{
    float elements[8];
    assert_non_null(x);
    CHECK_OK(ctx, tensor_read(ctx, x, elements, sizeof elements));
    for (int i = 0; i < n; i++) assert_float_equal(elements[i], expected[i], 1e-6);
}

#define FLOATS(...) ((const float[]){__VA_ARGS__})

static void a_product_rule_reaches_both_factors(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *a = vector(ctx, 3, FLOATS(1, 2, 3)), *b = vector(ctx, 3, FLOATS(4, 5, 6));
    tensor_t *y = NULL, *grad = vector(ctx, 3, FLOATS(1, 10, 100));
    tape_t *tape = NULL;
    CHECK_OK(ctx, tape_create(ctx, &tape));
    CHECK_OK(ctx, tape_watch(ctx, tape, a));
    CHECK_OK(ctx, tape_watch(ctx, tape, b));
    CHECK_OK(ctx, tape_watch(ctx, tape, b));
    assert_null(tape_gradient(tape, a));
    CHECK_OK(ctx, op_mul(ctx, a, b, &y));
    assert_int_equal(tape_n_operators(tape), 1);
    assert_int_equal(tape_bytes(tape), 2 * 3 * sizeof(float));
    CHECK_OK(ctx, tape_backward(ctx, tape, y, grad));
    check_elements(ctx, tape_gradient(tape, a), 3, FLOATS(4, 50, 600));
    check_elements(ctx, tape_gradient(tape, b), 3, FLOATS(1, 20, 300));
    assert_int_equal(tape_n_operators(tape), 0);
    assert_int_equal(tape_bytes(tape), 0);
    tape_destroy(tape);
    tensor_release(a);
    tensor_release(b);
    tensor_release(y);
    tensor_release(grad);
}

static void uses_and_calls_add_up_until_gradients_are_zeroed(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = vector(ctx, 1, FLOATS(3)), *square = NULL, *y = NULL;
    tape_t *tape = NULL;
    CHECK_OK(ctx, tape_create(ctx, &tape));
    CHECK_OK(ctx, tape_watch(ctx, tape, x));
    for (int round = 1; round <= 2; round++) {
        CHECK_OK(ctx, op_mul(ctx, x, x, &square));
        CHECK_OK(ctx, op_add(ctx, square, x, &y)); /* x^2 + x */
        CHECK_OK(ctx, tape_backward(ctx, tape, y, NULL));
        check_elements(ctx, tape_gradient(tape, x), 1, FLOATS(7.0f * (float)round));
        tensor_release(square);
        tensor_release(y);
    }
    tape_zero_gradients(tape);
    assert_null(tape_gradient(tape, x));
    tape_destroy(tape);
    tensor_release(x);
}

/* The gradient of a sum's operand is the gradient of the sum itself. It must be a copy. */
static void the_callers_gradient_is_not_given_away(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *a = vector(ctx, 2, FLOATS(1, 2)), *b = vector(ctx, 2, FLOATS(3, 4)), *y = NULL;
    tensor_t *grad = vector(ctx, 2, FLOATS(5, 6));
    tape_t *tape = NULL;
    CHECK_OK(ctx, tape_create(ctx, &tape));
    CHECK_OK(ctx, tape_watch(ctx, tape, a));
    CHECK_OK(ctx, op_add(ctx, a, b, &y));
    CHECK_OK(ctx, tape_backward(ctx, tape, y, grad));
    CHECK_OK(ctx, tensor_fill(ctx, grad, 0.0));
    check_elements(ctx, tape_gradient(tape, a), 2, FLOATS(5, 6));
    tape_destroy(tape);
    tensor_release(a);
    tensor_release(b);
    tensor_release(y);
    tensor_release(grad);
}

static void results_computed_in_a_pause_are_constant(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = vector(ctx, 1, FLOATS(3)), *square = NULL, *y = NULL;
    tape_t *tape = NULL;
    CHECK_OK(ctx, tape_create(ctx, &tape));
    CHECK_OK(ctx, tape_watch(ctx, tape, x));
    tape_pause(tape);
    tape_pause(tape);
    tape_resume(tape);
    CHECK_OK(ctx, op_mul(ctx, x, x, &square));
    tape_resume(tape);
    CHECK_OK(ctx, op_mul(ctx, square, x, &y)); /* 9 x */
    CHECK_OK(ctx, tape_backward(ctx, tape, y, NULL));
    check_elements(ctx, tape_gradient(tape, x), 1, FLOATS(9));
    tensor_release(y);
    CHECK_OK(ctx, op_mul(ctx, square, square, &y));
    CHECK_FAILS(ctx, tape_backward(ctx, tape, y, NULL), STATUS_INVALID_ARGUMENT,
                "was not computed from watched tensors since the last tape_backward (gradients of "
                "gradients are not supported)");
    tape_destroy(tape);
    tensor_release(x);
    tensor_release(square);
    tensor_release(y);
}

static void blocked_tensors_get_gradients(void **state)
{
    context_t *ctx = fixture_context(state);
    const int64_t sizes[] = {1, 3, 2, 2};
    tensor_t *dense = NULL, *x = NULL, *y = NULL, *grad = NULL;
    tape_t *tape = NULL;
    float elements[12];
    CHECK_OK(ctx, tensor_arange(ctx, DTYPE_F32, 12, 1, &dense));
    CHECK_OK(ctx, tensor_view(ctx, dense, 4, sizes, &y));
    CHECK_OK(ctx, convert_reorder(ctx, y, "aBcd16b", &x));
    tensor_release(y);
    CHECK_OK(ctx, tape_create(ctx, &tape));
    CHECK_OK(ctx, tape_watch(ctx, tape, x));
    CHECK_OK(ctx, op_mul(ctx, x, x, &y));
    assert_int_equal(tensor_layout(y), LAYOUT_MKLDNN);
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, 4, sizes, 0.5, &grad));
    CHECK_OK(ctx, tape_backward(ctx, tape, y, grad));
    assert_int_equal(tensor_layout(tape_gradient(tape, x)), LAYOUT_MKLDNN);
    CHECK_OK(ctx, tensor_read(ctx, tape_gradient(tape, x), elements, sizeof elements));
    for (int i = 0; i < 12; i++) assert_float_equal(elements[i], (float)(i + 1), 1e-6);
    tape_destroy(tape);
    tensor_release(dense);
    tensor_release(x);
    tensor_release(y);
    tensor_release(grad);
}

static void in_place_the_target_becomes_the_result(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = vector(ctx, 1, FLOATS(3)), *y = NULL, *z = NULL, *two = NULL;
    tape_t *tape = NULL;
    CHECK_OK(ctx, tensor_number(ctx, 2.0, &two));
    CHECK_OK(ctx, tape_create(ctx, &tape));
    CHECK_OK(ctx, tape_watch(ctx, tape, x));
    CHECK_OK(ctx, op_mul(ctx, x, two, &y));
    CHECK_OK(ctx, op_add_(ctx, y, x)); /* 3 x */
    CHECK_OK(ctx, op_mul(ctx, y, two, &z));
    CHECK_OK(ctx, tape_backward(ctx, tape, z, NULL));
    check_elements(ctx, tape_gradient(tape, x), 1, FLOATS(6));
    tape_destroy(tape);
    tensor_release(x);
    tensor_release(y);
    tensor_release(z);
    tensor_release(two);
}

static void tensors_that_a_rule_reads_must_not_be_overwritten(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = vector(ctx, 1, FLOATS(3)), *w = vector(ctx, 1, FLOATS(2)), *y = NULL;
    tensor_t *view = NULL, *z = NULL;
    tape_t *tape = NULL;
    CHECK_OK(ctx, tape_create(ctx, &tape));
    CHECK_OK(ctx, tape_watch(ctx, tape, x));
    CHECK_FAILS(ctx, op_add_(ctx, x, w), STATUS_INVALID_ARGUMENT, "watched by a tape");
    CHECK_OK(ctx, op_mul(ctx, x, w, &y));
    CHECK_OK(ctx, tensor_fill(ctx, w, 5.0));
    CHECK_FAILS(ctx, tape_backward(ctx, tape, y, NULL), STATUS_INVALID_ARGUMENT,
                "which was written after the tape recorded it");
    assert_null(tape_gradient(tape, x));
    tensor_release(y);

    CHECK_OK(ctx, op_mul(ctx, x, w, &y));
    CHECK_OK(ctx, tensor_view(ctx, y, 1, (int64_t[]){1}, &view));
    CHECK_OK(ctx, tensor_fill(ctx, view, 1.0));
    CHECK_FAILS(ctx, op_add(ctx, y, w, &z), STATUS_UNSUPPORTED,
                "was written since the tape recorded it, through another tensor");
    tensor_release(y);

    /* the call that failed is not recorded */
    CHECK_OK(ctx, op_mul(ctx, x, w, &y));
    CHECK_OK(ctx, tape_backward(ctx, tape, y, NULL));
    check_elements(ctx, tape_gradient(tape, x), 1, FLOATS(5));
    tape_destroy(tape);
    tensor_release(x);
    tensor_release(w);
    tensor_release(y);
    tensor_release(view);
}

/* y = x * w has a gradient and u does not. Then y is added to ends[0], a view of half of u. */
static void tensors_written_through_a_view_are_not_constant(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = vector(ctx, 2, FLOATS(3, 4)), *w = vector(ctx, 2, FLOATS(2, 2));
    tensor_t *u = vector(ctx, 4, FLOATS(1, 1, 1, 1)), *ends[2] = {NULL}, *y = NULL, *z = NULL;
    tape_t *tape = NULL;
    for (int i = 0; i < 2; i++) CHECK_OK(ctx, tensor_narrow(ctx, u, 0, 2 * i, 2, &ends[i]));
    CHECK_OK(ctx, tape_create(ctx, &tape));
    CHECK_OK(ctx, tape_watch(ctx, tape, x));
    CHECK_OK(ctx, op_mul(ctx, x, w, &y));
    CHECK_OK(ctx, op_add_(ctx, ends[0], y));
    CHECK_FAILS(ctx, op_mul(ctx, u, u, &z), STATUS_UNSUPPORTED,
                "mul: input 0, f32[4], was written");
    CHECK_FAILS(ctx, op_add_(ctx, u, u), STATUS_UNSUPPORTED, "add: input 0, f32[4], was written");

    /* ends[0] has a gradient now; ends[1], the other half, is constant */
    CHECK_OK(ctx, op_mul(ctx, ends[0], ends[1], &z));
    CHECK_OK(ctx, tape_backward(ctx, tape, z, w));
    check_elements(ctx, tape_gradient(tape, x), 2, FLOATS(4, 4));
    tensor_release(z);

    /* tape_backward has dropped what was recorded, so all tensors are constant */
    CHECK_OK(ctx, op_mul(ctx, u, u, &z));
    tape_destroy(tape);
    for (int i = 0; i < 2; i++) tensor_release(ends[i]);
    tensor_release(x);
    tensor_release(w);
    tensor_release(u);
    tensor_release(y);
    tensor_release(z);
}

static void watched_tensors_are_not_written_through_a_view(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = vector(ctx, 4, FLOATS(3, 4, 5, 6)), *one = vector(ctx, 2, FLOATS(1, 1));
    tensor_t *view = NULL, *passed = NULL, *left = NULL, *right = NULL, *product = NULL;
    tape_t *tape = NULL;
    CHECK_OK(ctx, tensor_view(ctx, x, 2, (int64_t[]){2, 2}, &view));
    CHECK_OK(ctx, tensor_narrow(ctx, x, 0, 0, 2, &left));
    CHECK_OK(ctx, tensor_narrow(ctx, x, 0, 2, 2, &right));
    CHECK_OK(ctx, tape_create(ctx, &tape));
    CHECK_OK(ctx, tape_watch(ctx, tape, left));
    CHECK_OK(ctx, op_reshape(ctx, left, 2, (int64_t[]){1, 2}, &passed));
    CHECK_FAILS(ctx, op_add_(ctx, view, one), STATUS_INVALID_ARGUMENT,
                "add_: f32[2,2] is watched by a tape or shares memory with a watched tensor, must "
                "not be written while it records");
    CHECK_FAILS(ctx, op_add_(ctx, passed, one), STATUS_INVALID_ARGUMENT,
                "shares memory with a watched tensor");
    CHECK_OK(ctx, op_add_(ctx, right, one));
    tape_pause(tape);
    CHECK_OK(ctx, op_add_(ctx, view, one));
    tape_resume(tape);
    check_elements(ctx, x, 4, FLOATS(4, 5, 7, 8));
    CHECK_OK(ctx, op_mul(ctx, left, right, &product));
    CHECK_OK(ctx, tape_backward(ctx, tape, product, one));
    check_elements(ctx, tape_gradient(tape, left), 2, FLOATS(7, 8));
    tape_destroy(tape);
    tensor_release(x);
    tensor_release(one);
    tensor_release(view);
    tensor_release(passed);
    tensor_release(left);
    tensor_release(right);
    tensor_release(product);
}

static void an_output_that_was_written_has_no_gradient_to_pass(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = vector(ctx, 1, FLOATS(3)), *y = NULL, *view = NULL;
    tape_t *tape = NULL;
    CHECK_OK(ctx, tape_create(ctx, &tape));
    CHECK_OK(ctx, tape_watch(ctx, tape, x));
    CHECK_OK(ctx, op_mul(ctx, x, x, &y));
    CHECK_OK(ctx, op_reshape(ctx, y, 1, (int64_t[]){1}, &view));
    CHECK_OK(ctx, op_add_(ctx, view, x)); /* x^2 + x, where y was x^2 */
    CHECK_FAILS(ctx, tape_backward(ctx, tape, y, NULL), STATUS_INVALID_ARGUMENT,
                "the output, f32[1], was written since");
    CHECK_OK(ctx, tape_backward(ctx, tape, view, NULL));
    check_elements(ctx, tape_gradient(tape, x), 1, FLOATS(7));
    tape_destroy(tape);
    tensor_release(x);
    tensor_release(y);
    tensor_release(view);
}

/* Two tapes record x * w + x. Each has gradients only of the tensors that it watches. */
static void tapes_of_one_context_do_not_disturb_each_other(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = vector(ctx, 1, FLOATS(3)), *w = vector(ctx, 1, FLOATS(2)), *y = NULL, *z = NULL;
    tape_t *both = NULL, *one = NULL;
    CHECK_OK(ctx, tape_create(ctx, &both));
    CHECK_OK(ctx, tape_create(ctx, &one));
    CHECK_OK(ctx, tape_watch(ctx, both, x));
    CHECK_OK(ctx, tape_watch(ctx, both, w));
    CHECK_OK(ctx, tape_watch(ctx, one, w));
    CHECK_OK(ctx, op_mul(ctx, x, w, &y));
    CHECK_OK(ctx, op_add_(ctx, y, x));
    CHECK_OK(ctx, op_mul(ctx, x, x, &z)); /* the second tape does not watch x */
    assert_int_equal(tape_n_operators(both), 3);
    assert_int_equal(tape_n_operators(one), 2);
    tape_pause(one);
    CHECK_OK(ctx, tape_backward(ctx, both, y, NULL));
    tape_resume(one);
    assert_null(tape_gradient(one, w));
    CHECK_OK(ctx, tape_backward(ctx, one, y, NULL));
    check_elements(ctx, tape_gradient(both, x), 1, FLOATS(3));
    check_elements(ctx, tape_gradient(both, w), 1, FLOATS(3));
    check_elements(ctx, tape_gradient(one, w), 1, FLOATS(3));
    assert_null(tape_gradient(one, x));
    tape_destroy(both);

    tensor_release(y);
    CHECK_OK(ctx, op_mul(ctx, w, w, &y));
    CHECK_OK(ctx, tape_backward(ctx, one, y, NULL));
    check_elements(ctx, tape_gradient(one, w), 1, FLOATS(7));
    tape_destroy(one);
    tensor_release(x);
    tensor_release(w);
    tensor_release(y);
    tensor_release(z);
}

static void recording_inside_a_plan_is_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = vector(ctx, 1, FLOATS(3)), *y = NULL;
    module_t *module = NULL;
    graph_t *graph = NULL;
    tape_t *tape = NULL;
    CHECK_OK(ctx, graph_parse(ctx,
                              "graph forward(%self : module, %x : f32[1]) {\n"
                              "  %y = mul(%x, %x)\n"
                              "  return %y\n"
                              "}\n",
                              NULL, &graph));
    CHECK_OK(ctx, module_create(ctx, "Planned", &module));
    CHECK_OK(ctx, plan_set_method(ctx, module, "forward", graph, 0));
    CHECK_OK(ctx, tape_create(ctx, &tape));
    CHECK_OK(ctx, tape_watch(ctx, tape, x));
    CHECK_FAILS(ctx, module_forward(ctx, module, x, &y), STATUS_UNSUPPORTED,
                "runs in a plan, which a tape cannot record");
    tape_destroy(tape);
    graph_release(graph);
    module_release(module);
    tensor_release(x);
}

static void a_result_is_not_rounded_into_another_dtype(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *half = NULL;
    tape_t *tape = NULL;
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, 1, (int64_t[]){4}, &x));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_BF16, 1, (int64_t[]){4}, &half));
    CHECK_OK(ctx, tape_create(ctx, &tape));
    CHECK_OK(ctx, tape_watch(ctx, tape, x));
    CHECK_FAILS(ctx, op_add_(ctx, half, x), STATUS_UNSUPPORTED, "no gradient can pass that");
    tape_destroy(tape);
    tensor_release(x);
    tensor_release(half);
}

static void wrong_arguments_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = vector(ctx, 2, FLOATS(1, 2)), *y = NULL, *n = NULL, *rounded = NULL;
    tape_t *tape = NULL;
    CHECK_OK(ctx, tape_create(ctx, &tape));
    CHECK_OK(ctx, tensor_arange(ctx, DTYPE_S64, 2, 0, &n));
    CHECK_FAILS(ctx, tape_watch(ctx, tape, n), STATUS_INVALID_ARGUMENT, "must be floating");
    CHECK_OK(ctx, tape_watch(ctx, tape, x));
    CHECK_OK(ctx, op_add(ctx, x, x, &y));
    CHECK_FAILS(ctx, tape_watch(ctx, tape, y), STATUS_INVALID_ARGUMENT,
                "was computed from a watched tensor, cannot be watched itself");
    CHECK_FAILS(ctx, tape_backward(ctx, tape, y, NULL), STATUS_INVALID_ARGUMENT,
                "must have one element if no gradient is given");
    context_clear_error(ctx);
    tensor_release(y);
    CHECK_OK(ctx, op_add(ctx, x, x, &y));
    CHECK_FAILS(ctx, tape_backward(ctx, tape, y, n), STATUS_INVALID_ARGUMENT, "the gradient is");
    CHECK_OK(ctx, op_div_floor(ctx, y, x, &rounded)); /* constant except for jumps */
    CHECK_FAILS(ctx, tape_backward(ctx, tape, rounded, NULL), STATUS_INVALID_ARGUMENT,
                "was not computed from watched tensors since the last tape_backward (gradients of "
                "gradients are not supported)");
    tape_forget(tape);
    tape_destroy(tape);
    tape_destroy(NULL);
    tape_forget(NULL);
    tape_pause(NULL);
    tape_resume(NULL);
    tape_zero_gradients(NULL);
    assert_null(tape_gradient(NULL, x));
    assert_int_equal(tape_n_operators(NULL), 0);
    assert_int_equal(tape_bytes(NULL), 0);
    tensor_release(x);
    tensor_release(y);
    tensor_release(n);
    tensor_release(rounded);
}

typedef struct pupil {
    pthread_t thread;
    tensor_t *x;
    int n_wrong;
} pupil_t;

/* In its own context, a thread computes the gradient of x^2 at 3 again and again. */
static void *learn(void *user)
{
    pupil_t *pupil = user;
    context_t *ctx = NULL;
    tape_t *tape = NULL;
    bool is_right = context_create(NULL, &ctx) == STATUS_OK &&
                    tape_create(ctx, &tape) == STATUS_OK &&
                    tape_watch(ctx, tape, pupil->x) == STATUS_OK;
    for (int i = 0; i < 200 && is_right; i++) {
        tensor_t *y = NULL;
        float slope = 0.0f;
        is_right = op_mul(ctx, pupil->x, pupil->x, &y) == STATUS_OK &&
                   tape_backward(ctx, tape, y, NULL) == STATUS_OK &&
                   tensor_read(ctx, tape_gradient(tape, pupil->x), &slope, sizeof slope) ==
                       STATUS_OK &&
                   slope == 6.0f;
        tape_zero_gradients(tape);
        tensor_release(y);
    }
    pupil->n_wrong = !is_right;
    tape_destroy(tape);
    context_destroy(ctx);
    return NULL;
}

static void tapes_of_two_threads_may_watch_one_tensor(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = vector(ctx, 1, FLOATS(3));
    pupil_t pupils[2];
    for (int i = 0; i < 2; i++) {
        pupils[i] = (pupil_t){.x = x};
        assert_int_equal(pthread_create(&pupils[i].thread, NULL, learn, &pupils[i]), 0);
    }
    for (int i = 0; i < 2; i++) pthread_join(pupils[i].thread, NULL);
    assert_int_equal(pupils[0].n_wrong + pupils[1].n_wrong, 0);
    tensor_release(x);
}

/* Computes the gradient of (x * w + w) / x twice. If the second time fails, the gradient of the
 * first must remain. */
static status_t two_passes(context_t *ctx)
{
    const int64_t n = 4;
    tensor_t *x = NULL, *w = NULL, *y = NULL, *z = NULL, *q = NULL, *grad = NULL;
    tape_t *tape = NULL;
    status_t status = tensor_full(ctx, DTYPE_F32, 1, &n, 2.0, &x);
    if (status == STATUS_OK) status = tensor_full(ctx, DTYPE_F32, 1, &n, 3.0, &w);
    if (status == STATUS_OK) status = tensor_full(ctx, DTYPE_F32, 1, &n, 1.0, &grad);
    if (status == STATUS_OK) status = tape_create(ctx, &tape);
    if (status == STATUS_OK) status = tape_watch(ctx, tape, w);
    for (int round = 0; round < 2 && status == STATUS_OK; round++) {
        status = op_mul(ctx, x, w, &y);
        if (status == STATUS_OK) status = op_add(ctx, y, w, &z);
        if (status == STATUS_OK) status = op_div(ctx, z, x, &q);
        if (status == STATUS_OK) status = tape_backward(ctx, tape, q, grad);
        const tensor_t *got = tape_gradient(tape, w);
        if (status == STATUS_OK || got != NULL) {
            float elements[4] = {0};
            status_t read = tensor_read(ctx, got, elements, sizeof elements);
            const float expected = 1.5f * (float)(status == STATUS_OK ? round + 1 : round);
            if (read == STATUS_OK) assert_float_equal(elements[3], expected, 1e-6);
        }
        tensor_release(y);
        tensor_release(z);
        tensor_release(q);
        y = z = q = NULL;
    }
    tape_destroy(tape);
    tensor_release(x);
    tensor_release(w);
    tensor_release(grad);
    return status;
}

static void nothing_leaks_when_allocations_fail(void **state)
{
    (void)state;
    check_every_allocation(two_passes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_product_rule_reaches_both_factors),
        TEST(uses_and_calls_add_up_until_gradients_are_zeroed),
        TEST(the_callers_gradient_is_not_given_away),
        TEST(results_computed_in_a_pause_are_constant),
        TEST(blocked_tensors_get_gradients),
        TEST(in_place_the_target_becomes_the_result),
        TEST(tensors_that_a_rule_reads_must_not_be_overwritten),
        TEST(tensors_written_through_a_view_are_not_constant),
        TEST(watched_tensors_are_not_written_through_a_view),
        TEST(an_output_that_was_written_has_no_gradient_to_pass),
        TEST(tapes_of_one_context_do_not_disturb_each_other),
        TEST(recording_inside_a_plan_is_refused),
        TEST(a_result_is_not_rounded_into_another_dtype),
        TEST(wrong_arguments_are_refused),
        TEST(tapes_of_two_threads_may_watch_one_tensor),
        cmocka_unit_test(nothing_leaks_when_allocations_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
