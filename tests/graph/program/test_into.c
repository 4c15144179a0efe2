/* module_call_into writes results to the caller's memory. Plans write them directly if they can;
 * otherwise there is one copy. */
#include "tests/support/support.h"

#include <stdalign.h>
#include <string.h>

#include "freeze/freeze.h"
#include "graph/program/plan.h"

#define N 16

/* A graph of relu(x w^T). */
static const char layer_text[] = "graph forward(%self : module, %x : f32[4,4]) {\n"
                                 "  %w = getattr(%self) name=\"w\" : f32[4,4]\n"
                                 "  %h = linear(%x, %w, none) : f32[4,4]\n"
                                 "  %y = relu(%h) : f32[4,4]\n"
                                 "  return %y\n}\n";

static const char pair_text[] = "graph forward(%self : module, %x : f32[4,4]) {\n"
                                "  %y = relu(%x) : f32[4,4]\n"
                                "  %f = flatten(%y) : f32[16]\n"
                                "  %s = sum(%y) dims=[0,1] : f32[]\n"
                                "  return %y, %f, %s\n}\n";

static tensor_t *ramp(context_t *ctx, double first)
{
    tensor_t *line = NULL, *square = NULL;
    CHECK_OK(ctx, tensor_arange(ctx, DTYPE_F32, N, first, &line));
    CHECK_OK(ctx, tensor_view(ctx, line, SHAPE(4, 4), &square));
    tensor_release(line);
    return square;
}

static module_t *define(context_t *ctx, const char *text)
{
    module_t *net = NULL;
    tensor_t *w = ramp(ctx, -5);
    CHECK_OK(ctx, module_create(ctx, "Net", &net));
    CHECK_OK(ctx, module_set_parameter(ctx, net, "w", w));
    CHECK_OK(ctx, graph_define(ctx, net, text));
    tensor_release(w);
    return net;
}

static module_t *frozen(context_t *ctx, const char *text)
{
    module_t *net = define(ctx, text), *result = NULL;
    CHECK_OK(ctx, freeze(ctx, net, NULL, &result));
    module_release(net);
    return result;
}

/* Checks y = relu(x w^T), where the elements of x count up from x0 and those of w from w0. All sums
 * are small integers, so results are exact. */
static void check_layer(const float *y, float x0, float w0)
{
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 4; k++) {
            float sum = 0;
            for (int c = 0; c < 4; c++)
                sum += (x0 + (float)(4 * i + c)) * (w0 + (float)(4 * k + c));
            assert_float_equal(y[4 * i + k], sum > 0 ? sum : 0, 0);
        }
}

static counters_t counted_run(context_t *ctx, module_t *net, const tensor_t *x, tensor_t *out)
{
    counters_t counters;
    counters_reset(ctx);
    CHECK_OK(ctx, module_forward_into(ctx, net, x, out));
    counters_read(ctx, &counters);
    return counters;
}

static void a_plan_writes_aligned_memory_straight_away(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = frozen(ctx, layer_text);
    alignas(64) float memory[N];
    tensor_t *x = ramp(ctx, 1), *warm = NULL, *own = NULL, *lent = NULL;
    CHECK_OK(ctx, module_forward(ctx, net, x, &warm));
    CHECK_OK(ctx, tensor_empty(ctx, DTYPE_F32, SHAPE(4, 4), &own));
    CHECK_OK(ctx, tensor_borrow(ctx, DTYPE_F32, SHAPE(4, 4), NULL, memory, NULL, NULL, &lent));
    for (int i = 0; i < 4; i++) {
        counters_t counters = counted_run(ctx, net, x, i % 2 == 0 ? own : lent);
        assert_int_equal(counters.tensor_bytes, 0);
        assert_int_equal(counters_copies(&counters), 0);
    }
    check_layer(memory, 1, -5);
    memset(memory, 0, sizeof memory);
    CHECK_OK(ctx, tensor_read(ctx, own, memory, sizeof memory));
    check_layer(memory, 1, -5);
    tensor_release(lent);
    tensor_release(own);
    tensor_release(warm);
    tensor_release(x);
    module_release(net);
}

/* A plan cannot write directly to `out`, so there is one copy. */
static void check_copied(context_t *ctx, module_t *net, const tensor_t *x, tensor_t *out)
{
    counters_t counters = counted_run(ctx, net, x, out);
    float elements[N];
    assert_int_equal(counters_copies(&counters), 1);
    CHECK_OK(ctx, tensor_read(ctx, out, elements, sizeof elements));
    check_layer(elements, 1, -5);
}

static void other_memory_gets_one_copy(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = frozen(ctx, layer_text);
    alignas(64) float memory[N + 2] = {0};
    tensor_t *x = ramp(ctx, 1), *warm = NULL, *unaligned = NULL, *turned = NULL, *blocked = NULL;
    CHECK_OK(ctx, module_forward(ctx, net, x, &warm));
    CHECK_OK(ctx,
             tensor_borrow(ctx, DTYPE_F32, SHAPE(4, 4), NULL, memory + 1, NULL, NULL, &unaligned));
    CHECK_OK(ctx, tensor_permute(ctx, warm, SHAPE(1, 0), &turned));
    CHECK_OK(ctx, op_to_mkldnn(ctx, x, &blocked));
    check_copied(ctx, net, x, unaligned);
    assert_float_equal(memory[0], 0, 0);
    assert_float_equal(memory[N + 1], 0, 0);
    check_copied(ctx, net, x, turned);
    CHECK_OK(ctx, module_forward_into(ctx, net, x, blocked));
    assert_int_equal(tensor_layout(blocked), LAYOUT_MKLDNN);
    float elements[N];
    CHECK_OK(ctx, tensor_read(ctx, blocked, elements, sizeof elements));
    check_layer(elements, 1, -5);
    tensor_release(blocked);
    tensor_release(turned);
    tensor_release(unaligned);
    tensor_release(warm);
    tensor_release(x);
    module_release(net);
}

/* %q reads %x after %p, the first result, may have been written to the same memory. */
static const char late_text[] = "graph forward(%self : module, %x : f32[4,4]) {\n"
                                "  %w = getattr(%self) name=\"w\" : f32[4,4]\n"
                                "  %p = relu(%x) : f32[4,4]\n"
                                "  %q = add(%w, %x) : f32[4,4]\n"
                                "  return %p, %q\n}\n";

/* Checks p = relu(x) and q = w + x, where x counts up from -3 and w from -5. */
static void check_late(context_t *ctx, const tensor_t *p, const tensor_t *q)
{
    float first[N], second[N];
    CHECK_OK(ctx, tensor_read(ctx, p, first, sizeof first));
    CHECK_OK(ctx, tensor_read(ctx, q, second, sizeof second));
    for (int i = 0; i < N; i++) {
        assert_float_equal(first[i], i > 3 ? (float)(i - 3) : 0, 0);
        assert_float_equal(second[i], (float)(2 * i - 8), 0);
    }
}

static void an_input_or_a_parameter_may_be_where_a_result_goes(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *fast = frozen(ctx, late_text), *planned = define(ctx, late_text);
    tensor_t *x = ramp(ctx, -3), *view = NULL, *q = NULL, *w = module_parameter(planned, "w");
    const tensor_t *in[] = {x};
    CHECK_OK(ctx, plan_set_method(ctx, planned, "forward", graph_of(planned, "forward"), 0));
    CHECK_OK(ctx, tensor_empty(ctx, DTYPE_F32, SHAPE(4, 4), &q));
    CHECK_OK(ctx, module_call_into(ctx, planned, "forward", 1, in, 2, (tensor_t *[]){w, q}));
    check_late(ctx, w, q);
    CHECK_OK(ctx, tensor_view(ctx, x, SHAPE(4, 4), &view));
    CHECK_OK(ctx, module_call_into(ctx, fast, "forward", 1, in, 2, (tensor_t *[]){view, q}));
    check_late(ctx, x, q);
    tensor_release(view);
    tensor_release(x);
    tensor_release(q);
    module_release(planned);
    module_release(fast);
}

static void results_that_are_views_of_each_other_go_to_memory_of_their_own(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *nets[] = {define(ctx, pair_text), frozen(ctx, pair_text)};
    tensor_t *x = ramp(ctx, -3);
    for (int n = 0; n < 2; n++) {
        float y[N], f[N], s = 0;
        tensor_t *out[3] = {NULL};
        CHECK_OK(ctx, tensor_empty(ctx, DTYPE_F32, SHAPE(4, 4), &out[0]));
        CHECK_OK(ctx, tensor_empty(ctx, DTYPE_F32, SHAPE(16), &out[1]));
        CHECK_OK(ctx, tensor_empty(ctx, DTYPE_F32, 0, NULL, &out[2]));
        CHECK_OK(ctx,
                 module_call_into(ctx, nets[n], "forward", 1, (const tensor_t *[]){x}, 3, out));
        CHECK_OK(ctx, tensor_fill(ctx, out[1], 32));
        CHECK_OK(ctx, tensor_read(ctx, out[0], y, sizeof y));
        CHECK_OK(ctx, tensor_read(ctx, out[1], f, sizeof f));
        CHECK_OK(ctx, tensor_read(ctx, out[2], &s, sizeof s));
        for (int i = 0; i < N; i++) {
            assert_float_equal(y[i], i > 3 ? (float)(i - 3) : 0, 0);
            assert_float_equal(f[i], 32, 0);
        }
        assert_float_equal(s, 78, 0);
        for (int i = 0; i < 3; i++) tensor_release(out[i]);
        module_release(nets[n]);
    }
    tensor_release(x);
}

static status_t give_input(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                           int *n_out, tensor_t **out)
{
    (void)ctx, (void)self, (void)n_in;
    *n_out = 1;
    memcpy(out, in, sizeof *out);
    return STATUS_OK;
}

static void a_method_in_c_may_give_what_overlaps(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = NULL;
    float memory[6] = {1, 2, 3, 4, 5, 6};
    const float wanted[6] = {1, 2, 1, 2, 3, 4};
    tensor_t *x = NULL, *out = NULL;
    CHECK_OK(ctx, module_create(ctx, "Net", &net));
    CHECK_OK(ctx, module_set_forward(ctx, net, "forward", give_input));
    CHECK_OK(ctx, tensor_borrow(ctx, DTYPE_F32, SHAPE(4), NULL, memory, NULL, NULL, &x));
    CHECK_OK(ctx, tensor_borrow(ctx, DTYPE_F32, SHAPE(4), NULL, memory + 2, NULL, NULL, &out));
    CHECK_OK(ctx, module_forward_into(ctx, net, x, out));
    assert_memory_equal(memory, wanted, sizeof memory);
    tensor_release(out);
    tensor_release(x);
    module_release(net);
}

static void results_that_do_not_fit_are_refused_and_not_written(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *nets[] = {define(ctx, layer_text), frozen(ctx, layer_text)};
    tensor_t *x = ramp(ctx, 1), *out = NULL, *half = NULL, *other = NULL, *view = NULL;
    const tensor_t *in[] = {x};
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(4, 4), &out));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(4, 2), &half));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_S32, SHAPE(4, 4), &other));
    CHECK_OK(ctx, tensor_narrow(ctx, out, 0, 1, 2, &view));
    for (int n = 0; n < 2; n++) {
        CHECK_FAILS(ctx, module_forward_into(ctx, nets[n], x, half), STATUS_INVALID_ARGUMENT,
                    "the tensor for it is f32[4,2], dtype and sizes must be equal");
        CHECK_FAILS(ctx, module_forward_into(ctx, nets[n], x, other), STATUS_INVALID_ARGUMENT,
                    "the tensor for it is s32[4,4]");
        CHECK_FAILS(ctx,
                    module_call_into(ctx, nets[n], "forward", 1, in, 2, (tensor_t *[]){out, half}),
                    STATUS_INVALID_ARGUMENT, "results, the call has tensors for 2");
        CHECK_FAILS(
            ctx, module_call_into(ctx, nets[n], "forward", 1, in, 2, (tensor_t *[]){view, out}),
            STATUS_INVALID_ARGUMENT, "tensors for results 0 and 1 of forward of Net overlap");
        CHECK_FAILS(ctx, module_call_into(ctx, nets[n], "forward", 1, in, 99, &out),
                    STATUS_INVALID_ARGUMENT,
                    "module: 99 tensors for results of forward of Net, must be 0 to 32");
        CHECK_FAILS(ctx, module_call_into(ctx, nets[n], "backward", 1, in, 1, &out),
                    STATUS_INVALID_ARGUMENT, "\"backward\" is no method of Net");
        CHECK_FAILS(ctx, module_forward_into(ctx, nets[n], half, out), STATUS_INVALID_ARGUMENT,
                    "f32[4,2]");
    }
    float elements[N];
    CHECK_OK(ctx, tensor_read(ctx, out, elements, sizeof elements));
    for (int i = 0; i < N; i++) assert_float_equal(elements[i], 0, 0);
    tensor_release(view);
    tensor_release(other);
    tensor_release(half);
    tensor_release(out);
    tensor_release(x);
    for (int n = 0; n < 2; n++) module_release(nets[n]);
}

static void control_flow_gets_a_copy(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = frozen(ctx, "graph forward(%self : module, %x : f32[4,4], %c : bool) {\n"
                                "  %y = if(%c) {\n    %a = relu(%x) : f32[4,4]\n"
                                "    yield %a\n  } else {\n    yield %x\n  } : f32[4,4]\n"
                                "  return %y\n}\n");
    tensor_t *x = ramp(ctx, -3), *c = NULL, *out = NULL;
    float y[N];
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_BOOL, 0, NULL, 1, &c));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(4, 4), &out));
    status_t status = module_call_into(ctx, net, "forward", 2, (const tensor_t *[]){x, c}, 1, &out);
    if (status == STATUS_OK) {
        CHECK_OK(ctx, tensor_read(ctx, out, y, sizeof y));
        for (int i = 0; i < N; i++) assert_float_equal(y[i], i > 3 ? (float)(i - 3) : 0, 0);
    }
    CHECK_OK(ctx, status);
    tensor_release(out);
    tensor_release(c);
    tensor_release(x);
    module_release(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_plan_writes_aligned_memory_straight_away),
        TEST(other_memory_gets_one_copy),
        TEST(an_input_or_a_parameter_may_be_where_a_result_goes),
        TEST(results_that_are_views_of_each_other_go_to_memory_of_their_own),
        TEST(a_method_in_c_may_give_what_overlaps),
        TEST(results_that_do_not_fit_are_refused_and_not_written),
        TEST(control_flow_gets_a_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
