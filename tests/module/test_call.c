/* Forward methods in C: who owns their tensors, and how they report failures. */
#include "tests/support/support.h"

#include "module/module.h"
#include "ops/ops.h"
#include "tensor/scope.h"
#include "tensor/tensor_impl.h"

#define FORWARD(name)                                                                              \
    static status_t name(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,      \
                         int *n_out, tensor_t **out)

static int references(const tensor_t *tensor)
{
    return atomic_load(&tensor->n_references);
}

static module_t *make(context_t *ctx, forward_t forward)
{
    module_t *net = NULL;
    CHECK_OK(ctx, module_create(ctx, "Net", &net));
    CHECK_OK(ctx, module_set_forward(ctx, net, "forward", forward));
    return net;
}

static tensor_t *numbers(context_t *ctx)
{
    tensor_t *x = NULL;
    CHECK_OK(ctx, tensor_arange(ctx, DTYPE_F32, 4, -1, &x));
    return x;
}

static void check_elements(context_t *ctx, const tensor_t *x, float a, float b, float c, float d)
{
    float elements[4];
    CHECK_OK(ctx, tensor_read(ctx, x, elements, sizeof elements));
    assert_true(elements[0] == a && elements[1] == b && elements[2] == c && elements[3] == d);
}

/* ---- ownership ---- */

/* Returns |x| - x. Without a scope, it must release its temporaries. */
static status_t gap(context_t *ctx, const tensor_t *x, tensor_t **out)
{
    tensor_t *magnitude = NULL;
    TRY(op_abs(ctx, x, &magnitude));
    status_t status = op_sub(ctx, magnitude, x, out);
    tensor_release(magnitude);
    return status;
}

/* Applies relu n times. `at` always owns a reference. */
static status_t repeat(context_t *ctx, const tensor_t *x, int n, tensor_t **out)
{
    tensor_t *at = tensor_retain((tensor_t *)(uintptr_t)x);
    for (int i = 0; i < n; i++) {
        tensor_t *next = NULL;
        status_t status = op_relu(ctx, at, &next);
        tensor_release(at);
        TRY(status);
        at = next;
    }
    *out = at;
    return STATUS_OK;
}

FORWARD(forward_helpers)
{
    (void)self, (void)n_in, (void)n_out;
    tensor_t *a = NULL, *b = NULL, *c = NULL, *d = NULL;
    TRY(gap(ctx, in[0], &a));
    TRY(repeat(ctx, a, 3, &b));
    TRY(repeat(ctx, b, 0, &c));
    TRY(repeat(ctx, in[0], 0, &d));
    tensor_release(d);
    *out = c;
    return STATUS_OK;
}

static void helpers_that_release_what_they_made_are_right_inside_and_outside(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make(ctx, forward_helpers);
    tensor_t *x = numbers(ctx), *y = NULL;
    CHECK_OK(ctx, module_forward(ctx, net, x, &y));
    check_elements(ctx, y, 2, 0, 0, 0);
    assert_int_equal(references(y), 1);
    assert_int_equal(references(x), 1);
    tensor_release(y);
    CHECK_OK(ctx, gap(ctx, x, &y));
    check_elements(ctx, y, 2, 0, 0, 0);
    tensor_release(y);
    CHECK_OK(ctx, repeat(ctx, x, 2, &y));
    tensor_release(y);
    assert_int_equal(references(x), 1);
    tensor_release(x);
    module_release(net);
}

FORWARD(forward_input)
{
    (void)ctx, (void)self, (void)n_in, (void)n_out;
    *out = (tensor_t *)(uintptr_t)in[0];
    return STATUS_OK;
}

FORWARD(forward_retained_input)
{
    (void)ctx, (void)self, (void)n_in, (void)n_out;
    *out = tensor_retain((tensor_t *)(uintptr_t)in[0]);
    return STATUS_OK;
}

/* Returns both inputs, the first of them a second time, and a new result twice. */
FORWARD(forward_several)
{
    (void)self, (void)n_in;
    out[0] = (tensor_t *)(uintptr_t)in[0];
    out[1] = (tensor_t *)(uintptr_t)in[1];
    out[2] = tensor_retain(out[0]);
    TRY(op_relu(ctx, in[0], &out[3]));
    out[4] = out[3];
    *n_out = 5;
    return STATUS_OK;
}

FORWARD(forward_kept)
{
    (void)self, (void)n_in, (void)n_out;
    TRY(op_relu(ctx, in[0], out));
    scope_keep(ctx, *out);
    return STATUS_OK;
}

static void a_forward_may_return_its_input_retained_or_not(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *plain = make(ctx, forward_input), *retained = make(ctx, forward_retained_input);
    tensor_t *x = numbers(ctx), *y = NULL, *z = NULL;
    CHECK_OK(ctx, module_forward(ctx, plain, x, &y));
    CHECK_OK(ctx, module_forward(ctx, retained, x, &z));
    assert_ptr_equal(y, x);
    assert_ptr_equal(z, x);
    assert_int_equal(references(x), 3);
    tensor_release(y);
    tensor_release(z);

    CHECK_OK(ctx, scope_begin(ctx));
    CHECK_OK(ctx, module_forward(ctx, plain, x, &y));
    CHECK_OK(ctx, module_forward(ctx, retained, y, &z));
    tensor_release(z);
    CHECK_OK(ctx, scope_end(ctx));
    assert_int_equal(references(x), 1);
    tensor_release(x);
    module_release(plain);
    module_release(retained);
}

static void results_may_be_several_inputs_and_one_tensor_twice(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make(ctx, forward_several);
    tensor_t *x = numbers(ctx), *y = numbers(ctx), *out[METHOD_MAX_OUTPUTS] = {NULL};
    const tensor_t *in[] = {x, y};
    int n_out = 0;
    CHECK_OK(ctx, module_call_tensors(ctx, net, "forward", 2, in, &n_out, out));
    assert_int_equal(n_out, 5);
    assert_int_equal(references(x), 3);
    assert_int_equal(references(y), 2);
    assert_int_equal(references(out[3]), 2);
    for (int i = 0; i < n_out; i++) tensor_release(out[i]);
    tensor_release(x);
    tensor_release(y);
    module_release(net);
}

static void a_result_that_was_kept_is_the_callers(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make(ctx, forward_kept);
    tensor_t *x = numbers(ctx), *y = NULL;
    CHECK_OK(ctx, module_forward(ctx, net, x, &y));
    assert_int_equal(references(y), 1);
    tensor_release(y);
    tensor_release(x);
    module_release(net);
}

/* ---- failures ---- */

FORWARD(forward_status)
{
    (void)self, (void)n_in, (void)n_out;
    (void)op_relu(ctx, in[0], out);
    return context_status(ctx);
}

FORWARD(forward_null)
{
    (void)self, (void)n_in, (void)in, (void)n_out;
    return op_relu(ctx, NULL, out);
}

FORWARD(forward_add)
{
    (void)self, (void)n_in, (void)n_out;
    return op_add(ctx, in[0], in[1], out);
}

FORWARD(forward_handled)
{
    (void)self, (void)n_in, (void)n_out;
    tensor_t *view = NULL;
    if (tensor_view(ctx, in[0], SHAPE(7), &view) != STATUS_OK) context_clear_error(ctx);
    return op_relu(ctx, in[0], out);
}

FORWARD(forward_silent)
{
    (void)ctx, (void)self, (void)n_in, (void)in, (void)n_out, (void)out;
    return STATUS_IO;
}

static void a_forward_knows_nothing_of_a_failure_from_before(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *ends_with_status = make(ctx, forward_status), *null = make(ctx, forward_null);
    tensor_t *x = numbers(ctx), *y = NULL;
    context_fail(ctx, STATUS_IO, "load: no such file");
    CHECK_OK(ctx, module_forward(ctx, ends_with_status, x, &y));
    tensor_release(y);
    context_fail(ctx, STATUS_IO, "load: no such file");
    CHECK_FAILS(ctx, module_forward(ctx, null, x, &y), STATUS_INVALID_ARGUMENT, "relu: x is NULL");
    assert_null(y);
    CHECK_OK(ctx, scope_begin(ctx));
    context_fail(ctx, STATUS_IO, "load: no such file");
    CHECK_FAILS(ctx, module_forward(ctx, null, x, &y), STATUS_INVALID_ARGUMENT, "relu: x is NULL");
    CHECK_FAILS(ctx, scope_end(ctx), STATUS_IO, "load: no such file");
    tensor_release(x);
    module_release(ends_with_status);
    module_release(null);
}

static void a_null_among_several_inputs_passes_on_what_left_it_so(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make(ctx, forward_add);
    tensor_t *x = numbers(ctx), *bad = NULL, *out[METHOD_MAX_OUTPUTS] = {NULL};
    int n_out = 0;
    CHECK_OK(ctx, scope_begin(ctx));
    CHECK_FAILS(ctx, tensor_view(ctx, x, SHAPE(7), &bad), STATUS_INVALID_ARGUMENT, "tensor_view");
    const tensor_t *in[] = {x, bad};
    CHECK_FAILS(ctx, module_call_tensors(ctx, net, "forward", 2, in, &n_out, out),
                STATUS_INVALID_ARGUMENT, "tensor_view");
    CHECK_FAILS(ctx, scope_end(ctx), STATUS_INVALID_ARGUMENT, "tensor_view");
    CHECK_OK(ctx, scope_begin(ctx));
    CHECK_FAILS(ctx, module_call_tensors(ctx, net, "forward", 2, in, &n_out, out),
                STATUS_INVALID_ARGUMENT, "tensor_view");
    context_clear_error(ctx);
    CHECK_OK(ctx, scope_end(ctx));
    context_clear_error(ctx);
    CHECK_FAILS(ctx, module_call_tensors(ctx, net, "forward", 2, in, &n_out, out),
                STATUS_INVALID_ARGUMENT, "add: b is NULL");
    tensor_release(x);
    module_release(net);
}

static void a_failure_that_a_forward_handled_is_over(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make(ctx, forward_handled), *silent = make(ctx, forward_silent);
    tensor_t *x = numbers(ctx), *y = NULL;
    CHECK_OK(ctx, module_forward(ctx, net, x, &y));
    tensor_release(y);
    assert_int_equal(context_status(ctx), STATUS_OK);
    CHECK_FAILS(ctx, module_forward(ctx, silent, x, &y), STATUS_IO,
                "module: forward of Net returned IO without a message");
    tensor_release(x);
    module_release(net);
    module_release(silent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(helpers_that_release_what_they_made_are_right_inside_and_outside),
        TEST(a_forward_may_return_its_input_retained_or_not),
        TEST(results_may_be_several_inputs_and_one_tensor_twice),
        TEST(a_result_that_was_kept_is_the_callers),
        TEST(a_forward_knows_nothing_of_a_failure_from_before),
        TEST(a_null_among_several_inputs_passes_on_what_left_it_so),
        TEST(a_failure_that_a_forward_handled_is_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
