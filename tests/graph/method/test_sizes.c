/* A graph is valid for the sizes in the types of its parameters: a number means that size, a name
 * means any size. */
#include "tests/support/support.h"

#include <string.h>

#include "freeze/freeze.h"
#include "graph/passes/pass.h"
#include "graph/program/plan.h"
#include "ops/ops.h"

/* Makes a module with this forward function, traced on f32[batch, 4]. *out_eager is a copy that is
 * not traced. */
static module_t *traced(context_t *ctx, forward_t forward, int64_t batch, module_t **out_eager)
{
    module_t *module = NULL;
    tensor_t *x = NULL;
    CHECK_OK(ctx, module_create(ctx, "Traced", &module));
    CHECK_OK(ctx, module_set_forward(ctx, module, "forward", forward));
    CHECK_OK(ctx, module_clone(ctx, module, out_eager));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(batch, 4), &x));
    CHECK_OK(ctx, graph_trace(ctx, module, "forward", 1, (const tensor_t *[]){x}));
    tensor_release(x);
    return module;
}

/* Checks that the C function, the graph and the frozen graph return the same. */
static void check_same(context_t *ctx, module_t *eager, module_t *graph, int64_t batch)
{
    tensor_t *x = NULL, *expected = NULL, *y = NULL;
    module_t *frozen = NULL;
    double difference = 1.0;
    CHECK_OK(ctx, freeze(ctx, graph, NULL, &frozen));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(batch, 4), &x));
    CHECK_OK(ctx, module_forward(ctx, eager, x, &expected));
    module_t *const modules[] = {graph, frozen};
    for (int i = 0; i < 2; i++) {
        CHECK_OK(ctx, module_forward(ctx, modules[i], x, &y));
        CHECK_OK(ctx, tensor_max_rel_diff(ctx, y, expected, &difference));
        assert_true(difference < 1e-6);
        tensor_release(y);
    }
    tensor_release(x);
    tensor_release(expected);
    module_release(frozen);
}

static void check_refused(context_t *ctx, module_t *graph, int64_t batch, const char *message)
{
    tensor_t *x = NULL, *y = NULL;
    module_t *frozen = NULL;
    CHECK_OK(ctx, freeze(ctx, graph, NULL, &frozen));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(batch, 4), &x));
    CHECK_FAILS(ctx, module_forward(ctx, graph, x, &y), STATUS_INVALID_ARGUMENT, message);
    CHECK_FAILS(ctx, module_forward(ctx, frozen, x, &y), STATUS_INVALID_ARGUMENT, message);
    assert_null(y);
    tensor_release(x);
    module_release(frozen);
}

static void check_graph(context_t *ctx, module_t *module, const char *expected)
{
    text_t text = text_begin(ctx);
    graph_t *again = NULL;
    CHECK_OK(ctx, graph_print(ctx, graph_of(module, "forward"), NULL, &text));
    assert_string_equal(text_string(&text), expected);
    CHECK_OK(ctx, graph_parse(ctx, text_string(&text), NULL, &again));
    text_clear(&text);
    CHECK_OK(ctx, graph_print(ctx, again, NULL, &text));
    assert_string_equal(text_string(&text), expected);
    text_clear(&text);
    graph_release(again);
}

/* ---- literals computed from sizes ---- */

static status_t reshape_by_size(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                                int *n_out, tensor_t **out)
{
    (void)self, (void)n_in;
    const int64_t *sizes = tensor_sizes(in[0]);
    tensor_t *twice = NULL;
    *n_out = 1;
    op_mul(ctx, in[0], in[0], &twice);
    return op_reshape(ctx, twice, 3, (int64_t[]){sizes[0], 2, -1}, out);
}

static void a_reshape_by_a_size_holds_for_every_batch(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *eager = NULL, *graph = traced(ctx, reshape_by_size, 1, &eager);
    check_graph(ctx, graph,
                "graph forward(%self : module, %x : f32[N=1,C=4]) {\n"
                "  %1 = mul(%x, %x) : f32[1,4]\n"
                "  %2 = reshape(%1) sizes=[1,2,-1] where sizes[0]=N : f32[1,2,2]\n"
                "  return %2\n}\n");
    for (int64_t batch = 1; batch < 4; batch++) check_same(ctx, eager, graph, batch);
    module_release(graph);
    module_release(eager);
}

static status_t mean_of_batch(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                              int *n_out, tensor_t **out)
{
    (void)self, (void)n_in;
    tensor_t *sum = NULL, *n = NULL;
    *n_out = 1;
    op_sum(ctx, in[0], 1, (int64_t[]){0}, false, &sum);
    tensor_number(ctx, (double)tensor_sizes(in[0])[0], &n);
    return op_div(ctx, sum, n, out);
}

static void a_number_that_is_a_size_is_that_of_the_run(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *eager = NULL, *graph = traced(ctx, mean_of_batch, 2, &eager);
    for (int64_t batch = 1; batch < 5; batch++) check_same(ctx, eager, graph, batch);
    module_release(graph);
    module_release(eager);
}

static status_t last_half(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                          int *n_out, tensor_t **out)
{
    (void)self, (void)n_in;
    int64_t n = tensor_sizes(in[0])[0];
    *n_out = 1;
    return op_slice(ctx, in[0], 0, n / 2, n, 1, out);
}

static void a_slice_by_half_a_size_holds_for_every_batch(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *eager = NULL, *graph = traced(ctx, last_half, 3, &eager);
    for (int64_t batch = 1; batch < 6; batch++) check_same(ctx, eager, graph, batch);
    module_release(graph);
    module_release(eager);
}

/* ---- padding to complete windows ---- */

enum { WINDOW = 4 };

/* Splits x[T][4], padded and rolled by 2, into windows of 4 rows, subtracts each window's mean, and
 * undoes the roll and the padding. */
static status_t windows_less_mean(context_t *ctx, module_t *self, int n_in,
                                  const tensor_t *const *in, int *n_out, tensor_t **out)
{
    (void)self, (void)n_in;
    const int64_t size = tensor_sizes(in[0])[0], columns = tensor_sizes(in[0])[1];
    const int64_t more = (WINDOW - size % WINDOW) % WINDOW, n = (size + more) / WINDOW;
    tensor_t *padded = NULL, *rolled = NULL, *windows = NULL, *mean = NULL, *less = NULL;
    tensor_t *rows = NULL, *back = NULL;
    *n_out = 1;
    op_pad(ctx, in[0], (int64_t[]){0, 0}, (int64_t[]){more, 0}, PAD_CONSTANT, 0.0, &padded);
    op_roll(ctx, padded, 1, (int64_t[]){-2}, (int64_t[]){0}, &rolled);
    op_reshape(ctx, rolled, 2, (int64_t[]){n, WINDOW * columns}, &windows);
    op_mean(ctx, windows, 1, (int64_t[]){1}, true, &mean);
    op_sub(ctx, windows, mean, &less);
    op_reshape(ctx, less, 2, (int64_t[]){n * WINDOW, columns}, &rows);
    op_roll(ctx, rows, 1, (int64_t[]){2}, (int64_t[]){0}, &back);
    return op_slice(ctx, back, 0, 0, size, 1, out);
}

static void windows_that_rows_are_padded_to_hold_for_every_number_of_rows(void **state)
{
    context_t *ctx = fixture_context(state);
    static const int64_t traced_at[] = {8, 6, 32};
    for (int i = 0; i < 3; i++) {
        module_t *eager = NULL, *graph = traced(ctx, windows_less_mean, traced_at[i], &eager);
        for (int64_t rows = 1; rows < 24; rows++) check_same(ctx, eager, graph, rows);
        check_same(ctx, eager, graph, 501);
        module_release(graph);
        module_release(eager);
    }
}

/* Averages pairs of rows, repeats each average, and pads to the original number of rows. */
static status_t grown_again(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                            int *n_out, tensor_t **out)
{
    (void)self, (void)n_in;
    const int64_t size = tensor_sizes(in[0])[0], half = size / 2;
    tensor_t *even = NULL, *pairs = NULL, *most = NULL, *grown = NULL, *flat = NULL, *whole = NULL;
    *n_out = 1;
    op_slice(ctx, in[0], 0, 0, 2 * half, 1, &even);
    op_reshape(ctx, even, 3, (int64_t[]){half, 2, 4}, &pairs);
    op_mean(ctx, pairs, 1, (int64_t[]){1}, true, &most);
    op_expand(ctx, most, 3, (int64_t[]){half, 2, 4}, &grown);
    op_reshape(ctx, grown, 2, (int64_t[]){2 * half, 4}, &flat);
    op_pad(ctx, flat, (int64_t[]){0, 0}, (int64_t[]){size - 2 * half, 0}, PAD_CONSTANT, 0.0,
           &whole);
    return op_add(ctx, whole, in[0], out);
}

static void padding_after_a_division_is_right_at_every_size(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *eager = NULL, *graph = traced(ctx, grown_again, 6, &eager);
    for (int64_t rows = 2; rows < 20; rows++) check_same(ctx, eager, graph, rows);
    module_release(graph);
    module_release(eager);
}

/* ---- unprovable cases ---- */

static status_t branch(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                       int *n_out, tensor_t **out)
{
    (void)self, (void)n_in;
    *n_out = 1;
    return tensor_sizes(in[0])[0] > 7 ? op_relu(ctx, in[0], out) : op_sigmoid(ctx, in[0], out);
}

static void a_branch_on_a_size_keeps_the_graph_to_its_sizes(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *eager = NULL, *graph = traced(ctx, branch, 2, &eager);
    assert_string_equal(context_error(ctx), "");
    check_same(ctx, eager, graph, 2);
    check_refused(ctx, graph, 8,
                  "forward: input x is f32[8,4], the graph was made for f32[2,4] "
                  "(sigmoid: other operators run at other sizes)");
    module_release(graph);
    module_release(eager);
}

static status_t square_of_size(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                               int *n_out, tensor_t **out)
{
    (void)self, (void)n_in;
    tensor_t *n = NULL;
    int64_t size = tensor_sizes(in[0])[0];
    *n_out = 1;
    tensor_number(ctx, (double)(size ^ 5), &n);
    return op_mul(ctx, in[0], n, out);
}

static void a_number_that_follows_a_size_in_no_known_way_is_refused_at_others(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *eager = NULL, *graph = traced(ctx, square_of_size, 2, &eager);
    check_refused(ctx, graph, 3, "changes with the sizes, but not as an expression of them");
    module_release(graph);
    module_release(eager);
}

static status_t refuse_many(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                            int *n_out, tensor_t **out)
{
    (void)self, (void)n_in;
    *n_out = 1;
    if (tensor_sizes(in[0])[0] > 3)
        return context_fail(ctx, STATUS_INVALID_ARGUMENT, "more than 3");
    return op_relu(ctx, in[0], out);
}

static void sizes_that_the_method_refuses_are_refused_after_tracing(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *eager = NULL, *graph = traced(ctx, refuse_many, 2, &eager);
    assert_string_equal(context_error(ctx), "");
    check_refused(ctx, graph, 4, "forward: input x is f32[4,4], the graph was made for f32[2,");
    module_release(graph);
    module_release(eager);
}

/* ---- no side effects ---- */

static status_t count_runs(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                           int *n_out, tensor_t **out)
{
    (void)n_in;
    datum_t *count = NULL;
    const datum_t *before = module_attribute(self, "count");
    *n_out = 1;
    if (datum_int(ctx, datum_as_int(before) + 1, &count) == STATUS_OK)
        (void)module_set_attribute(ctx, self, "count", count);
    datum_release(count);
    return op_relu(ctx, in[0], out);
}

static status_t count_operator(context_t *ctx, void *user, const op_event_t *event)
{
    (void)ctx, (void)event;
    ++*(int *)user;
    return STATUS_OK;
}

static void tracing_again_leaves_module_counters_and_observers_alone(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *module = NULL;
    tensor_t *x = NULL, *a = NULL, *b = NULL;
    datum_t *zero = NULL;
    counters_t counters;
    int n_seen = 0;
    observer_t observer = {.user = &n_seen, .op_end = count_operator};
    double difference = 1.0;
    CHECK_OK(ctx, module_create(ctx, "Counting", &module));
    CHECK_OK(ctx, datum_int(ctx, 0, &zero));
    CHECK_OK(ctx, module_set_attribute(ctx, module, "count", zero));
    datum_release(zero);
    CHECK_OK(ctx, module_set_forward(ctx, module, "forward", count_runs));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(2, 4), &x));
    CHECK_OK(ctx, dispatch_add_observer(ctx, &observer));
    counters_reset(ctx);
    context_seed(ctx, 7);
    CHECK_OK(ctx, graph_trace(ctx, module, "forward", 1, (const tensor_t *[]){x}));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(4), &a));
    context_seed(ctx, 7);
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(4), &b));
    counters_read(ctx, &counters);
    dispatch_remove_observer(ctx, &observer);
    CHECK_OK(ctx, tensor_max_rel_diff(ctx, a, b, &difference));
    assert_true(difference == 0);
    assert_int_equal(datum_as_int(module_attribute(module, "count")), 1);
    assert_int_equal(counters.operators, 1);
    assert_int_equal(n_seen, 1);
    tensor_release(a);
    tensor_release(b);
    tensor_release(x);
    module_release(module);
}

/* ---- text ---- */

static void define(context_t *ctx, module_t **out_module, const char *text)
{
    CHECK_OK(ctx, module_create(ctx, "Defined", out_module));
    CHECK_OK(ctx, graph_define(ctx, *out_module, text));
}

static void a_name_is_one_size_wherever_it_stands(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *module = NULL, *frozen = NULL;
    tensor_t *x = NULL, *y = NULL, *out[1] = {NULL};
    int n = 0;
    define(ctx, &module,
           "graph forward(%self : module, %x : f32[N=2,4], %y : f32[N=2,4]) {\n"
           "  %1 = add(%x, %y)\n"
           "  return %1\n}\n");
    CHECK_OK(ctx, freeze(ctx, module, NULL, &frozen));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(3, 4), &x));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(1, 4), &y));
    module_t *const modules[] = {module, frozen};
    for (int i = 0; i < 2; i++)
        CHECK_FAILS(
            ctx,
            module_call_tensors(ctx, modules[i], "forward", 2, (const tensor_t *[]){x, y}, &n, out),
            STATUS_INVALID_ARGUMENT,
            "forward: size N is 3 in input x and 1 in input y, one name is one size");
    CHECK_OK(ctx,
             module_call_tensors(ctx, frozen, "forward", 2, (const tensor_t *[]){x, x}, &n, out));
    tensor_release(out[0]);
    tensor_release(x);
    tensor_release(y);
    module_release(frozen);
    module_release(module);
}

/* Made for batch 1, both operands of the sum have the same shape, but at other batches %r is
 * broadcast. So the sum must not become a post-op, which does not broadcast. */
static void passes_do_not_take_a_batch_of_one_for_a_broadcast(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *module = NULL, *frozen = NULL;
    tensor_t *w = NULL, *r = NULL, *x = NULL, *expected = NULL, *y = NULL;
    double difference = 1.0;
    CHECK_OK(ctx, module_create(ctx, "Sum", &module));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(4, 4, 3, 3), &w));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(1, 4, 8, 8), &r));
    CHECK_OK(ctx, module_set_parameter(ctx, module, "w", w));
    CHECK_OK(ctx, module_set_parameter(ctx, module, "r", r));
    CHECK_OK(ctx, graph_define(ctx, module,
                               "graph forward(%self : module, %x : f32[N=1,4,8,8]) {\n"
                               "  %w = getattr(%self) name=\"w\" : f32[4,4,3,3]\n"
                               "  %r = getattr(%self) name=\"r\" : f32[1,4,8,8]\n"
                               "  %1 = conv2d(%x, %w, none) padding=[1,1]\n"
                               "  %2 = add(%1, %r)\n"
                               "  return %2\n}\n"));
    CHECK_OK(ctx, freeze(ctx, module, NULL, &frozen));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(3, 4, 8, 8), &x));
    CHECK_OK(ctx, module_forward(ctx, module, x, &expected));
    CHECK_OK(ctx, module_forward(ctx, frozen, x, &y));
    CHECK_OK(ctx, tensor_max_rel_diff(ctx, y, expected, &difference));
    assert_true(difference < 1e-5);
    tensor_release(x);
    tensor_release(y);
    tensor_release(expected);
    tensor_release(w);
    tensor_release(r);
    module_release(frozen);
    module_release(module);
}

static void an_open_size_that_an_operator_refuses_is_refused_by_it(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *module = NULL, *frozen = NULL;
    tensor_t *w = NULL, *x = NULL, *y = NULL;
    CHECK_OK(ctx, module_create(ctx, "Conv", &module));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(4, 3, 3, 3), &w));
    CHECK_OK(ctx, module_set_parameter(ctx, module, "w", w));
    CHECK_OK(ctx, graph_define(ctx, module,
                               "graph forward(%self : module, %x : f32[N=1,C=3,H=8,8]) {\n"
                               "  %w = getattr(%self) name=\"w\" : f32[4,3,3,3]\n"
                               "  %1 = conv2d(%x, %w, none)\n"
                               "  return %1\n}\n"));
    CHECK_OK(ctx, freeze(ctx, module, NULL, &frozen));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(1, 4, 8, 8), &x));
    CHECK_FAILS(ctx, module_forward(ctx, module, x, &y), STATUS_INVALID_ARGUMENT,
                "conv2d: weight f32[4,3,3,3] needs 3 input channels, input f32[1,4,8,8] has 4");
    CHECK_FAILS(ctx, module_forward(ctx, frozen, x, &y), STATUS_INVALID_ARGUMENT,
                "the graph was made for f32[1,3,8,8] (other sizes fail, conv2d: weight "
                "f32[4,3,3,3] needs 3 input channels, input ");
    tensor_release(w);
    tensor_release(x);
    module_release(frozen);
    module_release(module);
}

static void a_literal_that_fits_one_size_alone_is_the_reason_that_a_frozen_graph_gives(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *module = NULL, *frozen = NULL;
    tensor_t *x = NULL, *y = NULL;
    CHECK_OK(ctx, module_create(ctx, "Rows", &module));
    CHECK_OK(ctx, graph_define(ctx, module,
                               "graph forward(%self : module, %x : f32[N=2,6]) {\n"
                               "  %1 = relu(%x)\n"
                               "  %2 = reshape(%1) sizes=[4,3] at \"rows\"\n"
                               "  return %2\n}\n"));
    CHECK_OK(ctx, freeze(ctx, module, NULL, &frozen));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(3, 6), &x));
    CHECK_FAILS(ctx, module_forward(ctx, frozen, x, &y), STATUS_INVALID_ARGUMENT,
                "forward: input x is f32[3,6], the graph was made for f32[2,6] (other sizes fail, "
                "reshape: f32[");
    CHECK_FAILS(ctx, module_forward(ctx, frozen, x, &y), STATUS_INVALID_ARGUMENT,
                "to [4,3], the number of elements must stay at \"rows\")");
    tensor_release(x);
    module_release(frozen);
    module_release(module);
}

static void sizes_are_values_and_constants_of_a_plan(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *module = NULL, *frozen = NULL;
    tensor_t *x = NULL, *y = NULL;
    double value = 0;
    define(ctx, &module,
           "graph forward(%self : module, %x : f32[N=2,C=4]) {\n"
           "  %n = size(%x, 0)\n"
           "  %s = shape(%x)\n"
           "  %1 = mul(%s, %n)\n"
           "  %2 = sum(%1)\n"
           "  return %2\n}\n");
    CHECK_OK(ctx, freeze(ctx, module, NULL, &frozen));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(3, 5), &x));
    module_t *const modules[] = {module, frozen};
    for (int i = 0; i < 2; i++) {
        CHECK_OK(ctx, module_forward(ctx, modules[i], x, &y));
        CHECK_OK(ctx, tensor_item(ctx, y, &value));
        assert_true(value == 3 * (3 + 5));
        tensor_release(y);
    }
    assert_non_null(plan_of(frozen, "forward"));
    tensor_release(x);
    module_release(frozen);
    module_release(module);
}

/* ---- called methods ---- */

/* Counts the calls of methods in the frozen graph. */
static int count_calls(const module_t *frozen)
{
    const graph_block_t *body = graph_body(graph_of(frozen, "forward"));
    int n = 0;
    for (int i = 0; i < body->n_nodes; i++) n += body->nodes[i]->kind == NODE_CALL;
    return n;
}

/* `two` is made for two rows. `forward`, which calls it, must accept f32[2,4] and reject f32[3,4],
 * frozen or not. */
static void check_called(context_t *ctx, const char *forward, int n_calls)
{
    module_t *module = NULL, *frozen = NULL;
    define(ctx, &module,
           "graph two(%self : module, %x : f32[2,4]) {\n"
           "  %1 = reshape(%x) sizes=[4,-1]\n"
           "  return %1\n}\n");
    CHECK_OK(ctx, graph_define(ctx, module, forward));
    CHECK_OK(ctx, freeze(ctx, module, NULL, &frozen));
    assert_int_equal(count_calls(frozen), n_calls);
    module_t *const modules[] = {module, frozen};
    for (int i = 0; i < 2; i++)
        for (int64_t batch = 2; batch < 5; batch++) {
            tensor_t *x = NULL, *y = NULL;
            CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(batch, 4), &x));
            if (batch == 2)
                CHECK_OK(ctx, module_forward(ctx, modules[i], x, &y));
            else
                CHECK_FAILS(ctx, module_forward(ctx, modules[i], x, &y), STATUS_INVALID_ARGUMENT,
                            "the graph was made for f32[2,4]");
            tensor_release(y);
            tensor_release(x);
        }
    module_release(frozen);
    module_release(module);
}

static void a_method_for_fixed_sizes_stays_a_call_where_sizes_are_not_known(void **state)
{
    check_called(fixture_context(state),
                 "graph forward(%self : module, %x : tensor) {\n"
                 "  %1 = call(%self, %x) method=\"two\"\n"
                 "  return %1\n}\n",
                 1);
}

static void a_method_for_fixed_sizes_stays_a_call_where_a_size_may_be_any(void **state)
{
    check_called(fixture_context(state),
                 "graph forward(%self : module, %x : f32[N=2,4]) {\n"
                 "  %1 = call(%self, %x) method=\"two\"\n"
                 "  return %1\n}\n",
                 1);
}

static void a_method_for_fixed_sizes_is_inlined_where_these_are_given(void **state)
{
    check_called(fixture_context(state),
                 "graph forward(%self : module, %x : f32[2,4]) {\n"
                 "  %1 = call(%self, %x) method=\"two\"\n"
                 "  return %1\n}\n",
                 0);
}

/* `pair` needs two inputs of equal sizes. x and its first row are so only for N = 1, and passes
 * must not assume that N is 1. */
static void sizes_refused_by_an_inner_call_are_refused_when_frozen(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *module = NULL, *frozen = NULL;
    define(ctx, &module,
           "graph pair(%self : module, %x : f32[N=1,4], %y : f32[N=1,4]) {\n"
           "  %1 = add(%x, %y)\n"
           "  return %1\n}\n");
    CHECK_OK(ctx, graph_define(ctx, module,
                               "graph four(%self : module, %x : f32[4,4]) {\n"
                               "  %1 = relu(%x)\n"
                               "  return %1\n}\n"));
    CHECK_OK(ctx, graph_define(ctx, module,
                               "graph same(%self : module, %x : f32[N=1,C=4]) {\n"
                               "  %1 = call(%self, %x, %x) method=\"pair\"\n"
                               "  %2 = relu(%1)\n"
                               "  %3 = call(%self, %2, %1) method=\"pair\"\n"
                               "  return %3\n}\n"));
    static const char *const forwards[] = {
        "graph forward(%self : module, %x : f32[N=1,4]) {\n"
        "  %1 = slice(%x) dim=0 start=0 end=1\n"
        "  %2 = call(%self, %x, %1) method=\"pair\"\n"
        "  return %2\n}\n",
        "graph forward(%self : module, %x : f32[N=4,4]) {\n"
        "  %1 = relu(%x)\n"
        "  %2 = call(%self, %1) method=\"four\"\n"
        "  return %2\n}\n",
        "graph forward(%self : module, %x : f32[N=2,4]) {\n"
        "  %1 = relu(%x)\n"
        "  %2 = call(%self, %1) method=\"same\"\n"
        "  return %2\n}\n",
    };
    static const int n_calls[] = {1, 1, 0};
    static const int64_t taken[] = {1, 4, -1};
    for (int f = 0; f < 3; f++) {
        CHECK_OK(ctx, graph_define(ctx, module, forwards[f]));
        CHECK_OK(ctx, freeze(ctx, module, NULL, &frozen));
        assert_int_equal(count_calls(frozen), n_calls[f]);
        for (int64_t batch = 1; batch < 9; batch++) {
            tensor_t *x = NULL, *y = NULL;
            CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(batch, 4), &x));
            if (taken[f] < 0 || taken[f] == batch)
                CHECK_OK(ctx, module_forward(ctx, frozen, x, &y));
            else
                CHECK_FAILS(ctx, module_forward(ctx, frozen, x, &y), STATUS_INVALID_ARGUMENT, "");
            tensor_release(y);
            tensor_release(x);
        }
        module_release(frozen);
    }
    module_release(module);
}

static void a_sized_integer_that_an_attribute_lacks_is_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    graph_t *graph = NULL;
    CHECK_FAILS(ctx,
                graph_parse(ctx,
                            "graph f(%x : f32[N=2,4]) {\n"
                            "  %1 = reshape(%x) sizes=[8] where sizes[1]=N\n"
                            "  return %1\n}\n",
                            NULL, &graph),
                STATUS_INVALID_ARGUMENT, "reshape: sized integer 0 belongs to no attribute");
    CHECK_FAILS(ctx,
                graph_parse(ctx,
                            "graph f(%x : f32[N=2,4]) {\n"
                            "  %1 = reshape(%x) sizes=[8] where size[0]=N\n"
                            "  return %1\n}\n",
                            NULL, &graph),
                STATUS_INVALID_ARGUMENT, "expected the name of an attribute");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_reshape_by_a_size_holds_for_every_batch),
        TEST(a_number_that_is_a_size_is_that_of_the_run),
        TEST(a_slice_by_half_a_size_holds_for_every_batch),
        TEST(windows_that_rows_are_padded_to_hold_for_every_number_of_rows),
        TEST(padding_after_a_division_is_right_at_every_size),
        TEST(a_branch_on_a_size_keeps_the_graph_to_its_sizes),
        TEST(a_number_that_follows_a_size_in_no_known_way_is_refused_at_others),
        TEST(sizes_that_the_method_refuses_are_refused_after_tracing),
        TEST(tracing_again_leaves_module_counters_and_observers_alone),
        TEST(a_name_is_one_size_wherever_it_stands),
        TEST(passes_do_not_take_a_batch_of_one_for_a_broadcast),
        TEST(an_open_size_that_an_operator_refuses_is_refused_by_it),
        TEST(a_literal_that_fits_one_size_alone_is_the_reason_that_a_frozen_graph_gives),
        TEST(sizes_are_values_and_constants_of_a_plan),
        TEST(a_method_for_fixed_sizes_stays_a_call_where_sizes_are_not_known),
        TEST(a_method_for_fixed_sizes_stays_a_call_where_a_size_may_be_any),
        TEST(a_method_for_fixed_sizes_is_inlined_where_these_are_given),
        TEST(sizes_refused_by_an_inner_call_are_refused_when_frozen),
        TEST(a_sized_integer_that_an_attribute_lacks_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
