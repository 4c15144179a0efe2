#include "graph/ir/graph.h"

#include <string.h>

#include "freeze/freeze.h"
#include "module/layers/layers.h"
#include "tensor/scope.h"
#include "tests/support/support.h"

#define TOLERANCE 1e-5

/* ---- helpers ---- */

static tensor_t *image(context_t *ctx)
{
    tensor_t *x = NULL;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(1, 3, 6, 6), &x));
    return x;
}

/* Appends a new layer, or returns the failure of making it. */
static status_t append(context_t *ctx, module_t *net, status_t made, module_t **child)
{
    module_t *taken = made == STATUS_OK ? *child : NULL;
    return made == STATUS_OK ? layer_append_take(ctx, net, taken) : made;
}

/* Makes conv, batch norm, relu. */
static status_t make_block(context_t *ctx, module_t **out_block)
{
    const conv_attrs_t padded = {.padding = {1, 1}};
    module_t *block = NULL, *layer = NULL;
    TRY(layer_sequential(ctx, &block));
    status_t status = append(ctx, block, layer_conv2d(ctx, 3, 4, 3, &padded, true, &layer), &layer);
    if (status == STATUS_OK)
        status = append(ctx, block, layer_batch_norm(ctx, 4, 1e-5, &layer), &layer);
    if (status == STATUS_OK)
        status = append(ctx, block, layer_activation(ctx, ELTWISE_RELU, 0, 0, &layer), &layer);
    if (status == STATUS_OK)
        *out_block = block;
    else
        module_release(block);
    return status;
}

/* Makes a block followed by flatten and linear. */
static status_t make_net(context_t *ctx, module_t **out_net)
{
    module_t *net = NULL, *layer = NULL;
    TRY(layer_sequential(ctx, &net));
    status_t status = append(ctx, net, make_block(ctx, &layer), &layer);
    if (status == STATUS_OK) status = append(ctx, net, layer_flatten(ctx, 1, -1, &layer), &layer);
    if (status == STATUS_OK)
        status = append(ctx, net, layer_linear(ctx, 144, 5, true, &layer), &layer);
    if (status == STATUS_OK)
        *out_net = net;
    else
        module_release(net);
    return status;
}

static void trace(context_t *ctx, module_t *net, const tensor_t *x)
{
    CHECK_OK(ctx, graph_trace(ctx, net, "forward", 1, &x));
}

/* Checks that the traced forward returns the same as the original one. */
static void check_trace(context_t *ctx, module_t *net, const tensor_t *x)
{
    tensor_t *before = NULL, *behind = NULL;
    double difference;
    CHECK_OK(ctx, module_forward(ctx, net, x, &before));
    trace(ctx, net, x);
    CHECK_OK(ctx, module_forward(ctx, net, x, &behind));
    CHECK_OK(ctx, tensor_max_rel_diff(ctx, behind, before, &difference));
    assert_true(difference <= TOLERANCE);
    tensor_release(before);
    tensor_release(behind);
}

static void check_text(context_t *ctx, const module_t *net, const char *expected)
{
    text_t text = text_begin(ctx);
    CHECK_OK(ctx, graph_print(ctx, graph_of(net, "forward"), NULL, &text));
    assert_string_equal(text_string(&text), expected);
    text_clear(&text);
}

static int count_nodes(const graph_block_t *block, node_kind_t kind)
{
    int n = 0;
    for (int i = 0; i < block->n_nodes; i++) n += block->nodes[i]->kind == kind;
    return n;
}

static module_t *make_root(context_t *ctx, forward_t forward)
{
    module_t *root = NULL;
    tensor_t *weight = NULL;
    CHECK_OK(ctx, module_create(ctx, "Root", &root));
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(1, 3, 6, 6), 0.5, &weight));
    CHECK_OK(ctx, module_set_parameter(ctx, root, "weight", weight));
    CHECK_OK(ctx, module_set_buffer(ctx, root, "tied", weight));
    CHECK_OK(ctx, module_set_forward(ctx, root, "forward", forward));
    tensor_release(weight);
    return root;
}

/* ---- networks ---- */

static void a_network_becomes_its_operators_with_their_paths(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = NULL;
    tensor_t *x = image(ctx);
    CHECK_OK(ctx, make_net(ctx, &net));
    check_trace(ctx, net, x);
    check_text(ctx, net,
               "graph forward(%self : module, %x : f32[N=1,3,6,6]) {\n"
               "  %1 = getattr(%self) name=\"0.0.weight\" : f32[4,3,3,3]\n"
               "  %2 = getattr(%self) name=\"0.0.bias\" : f32[4]\n"
               "  %3 = conv2d(%x, %1, %2) padding=[1,1] : f32[1,4,6,6] at \"0.0\"\n"
               "  %4 = getattr(%self) name=\"0.1.weight\" : f32[4]\n"
               "  %5 = getattr(%self) name=\"0.1.bias\" : f32[4]\n"
               "  %6 = getattr(%self) name=\"0.1.running_mean\" : f32[4]\n"
               "  %7 = getattr(%self) name=\"0.1.running_var\" : f32[4]\n"
               "  %8 = batch_norm(%3, %4, %5, %6, %7) : f32[1,4,6,6] at \"0.1\"\n"
               "  %9 = relu(%8) : f32[1,4,6,6] at \"0.2\"\n"
               "  %10 = flatten(%9) start_dim=1 : f32[1,144] at \"1\"\n"
               "  %11 = getattr(%self) name=\"2.weight\" : f32[5,144]\n"
               "  %12 = getattr(%self) name=\"2.bias\" : f32[5]\n"
               "  %13 = linear(%10, %11, %12) : f32[1,5] at \"2\"\n"
               "  return %13\n"
               "}\n");
    tensor_release(x);
    module_release(net);
}

/* Tracing with the inputs' infos only, not their elements, gives the same graph and runs no
 * operator. */
static void infos_alone_give_the_trace_of_tensors(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = NULL;
    tensor_t *x = image(ctx);
    text_t by_values = text_begin(ctx), by_infos = text_begin(ctx);
    counters_t counters;
    CHECK_OK(ctx, make_net(ctx, &net));
    CHECK_OK(ctx, graph_trace(ctx, net, "forward", 1, (const tensor_t *[]){x}));
    CHECK_OK(ctx, graph_print(ctx, graph_of(net, "forward"), NULL, &by_values));
    module_release(net);
    CHECK_OK(ctx, make_net(ctx, &net));
    counters_reset(ctx);
    CHECK_OK(ctx,
             graph_trace_for(ctx, net, "forward", 1, (const tensor_info_t *[]){tensor_info(x)}));
    counters_read(ctx, &counters);
    assert_int_equal(counters.operators, 0);
    CHECK_OK(ctx, graph_print(ctx, graph_of(net, "forward"), NULL, &by_infos));
    assert_string_equal(text_string(&by_infos), text_string(&by_values));
    CHECK_FAILS(ctx, graph_trace_for(ctx, net, "forward", 1, (const tensor_info_t *[]){NULL}),
                STATUS_INVALID_ARGUMENT, "graph_trace_for: an info is NULL");
    const tensor_info_t wrong = info_dense(DTYPE_F32, 1, (const int64_t[]){3});
    CHECK_FAILS(ctx, graph_trace_for(ctx, net, "forward", 1, (const tensor_info_t *[]){&wrong}),
                STATUS_INVALID_ARGUMENT, "");
    text_clear(&by_values);
    text_clear(&by_infos);
    module_release(net);
    tensor_release(x);
}

static void attributes_stay_attributes(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = NULL;
    tensor_t *x = image(ctx), *y = NULL;
    double largest;
    CHECK_OK(ctx, make_net(ctx, &net));
    trace(ctx, net, x);
    CHECK_OK(ctx, tensor_fill(ctx, module_parameter(net, "2.weight"), 0.0));
    CHECK_OK(ctx, tensor_fill(ctx, module_parameter(net, "2.bias"), 3.0));
    CHECK_OK(ctx, module_forward(ctx, net, x, &y));
    tensor_t *threes = NULL;
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(1, 5), 3.0, &threes));
    CHECK_OK(ctx, tensor_max_rel_diff(ctx, y, threes, &largest));
    assert_float_equal(largest, 0.0, 0);
    tensor_release(threes);
    tensor_release(y);
    tensor_release(x);
    module_release(net);
}

static void a_traced_method_can_be_traced_again(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = NULL;
    tensor_t *x = image(ctx);
    text_t text = text_begin(ctx);
    CHECK_OK(ctx, make_net(ctx, &net));
    trace(ctx, net, x);
    CHECK_OK(ctx, graph_print(ctx, graph_of(net, "forward"), NULL, &text));
    check_trace(ctx, net, x);
    check_text(ctx, net, text_string(&text));
    text_clear(&text);
    tensor_release(x);
    module_release(net);
}

static void a_traced_network_takes_other_batches_and_refuses_other_images(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = NULL, *eager = NULL;
    tensor_t *x = image(ctx), *three = NULL, *wide = NULL, *expected = NULL, *y = NULL;
    double difference = 1.0;
    CHECK_OK(ctx, make_net(ctx, &net));
    CHECK_OK(ctx, module_clone(ctx, net, &eager));
    trace(ctx, net, x);
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(3, 3, 6, 6), &three));
    CHECK_OK(ctx, module_forward(ctx, eager, three, &expected));
    CHECK_OK(ctx, module_forward(ctx, net, three, &y));
    CHECK_OK(ctx, tensor_max_rel_diff(ctx, y, expected, &difference));
    assert_true(difference < 1e-5);
    tensor_release(y);
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(1, 3, 6, 7), &wide));
    CHECK_FAILS(ctx, module_forward(ctx, net, wide, &y), STATUS_INVALID_ARGUMENT,
                "forward: input x is f32[1,3,6,7], the graph was made for f32[N=1,3,6,6]");
    tensor_release(expected);
    tensor_release(wide);
    tensor_release(three);
    tensor_release(x);
    module_release(eager);
    module_release(net);
}

/* ---- tensors of all kinds ---- */

static status_t mix(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in, int *n_out,
                    tensor_t **out)
{
    (void)n_in;
    tensor_t *a = NULL, *b = NULL, *two = NULL, *ones = NULL;
    *n_out = 1;
    TRY(op_mul(ctx, in[0], module_parameter(self, "weight"), &a));
    TRY(op_add(ctx, a, module_buffer(self, "tied"), &b));
    TRY(tensor_number(ctx, 2.0, &two));
    TRY(op_mul(ctx, b, two, &a));
    TRY(tensor_full(ctx, DTYPE_F32, SHAPE(6), 1.0, &ones));
    TRY(op_add(ctx, a, ones, &b));
    return op_add(ctx, b, ones, out);
}

static void numbers_become_literals_and_other_tensors_constants(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = image(ctx);
    module_t *root = make_root(ctx, mix);
    check_trace(ctx, root, x);
    const graph_block_t *body = graph_body(graph_of(root, "forward"));
    assert_int_equal(count_nodes(body, NODE_OP), 5);
    assert_int_equal(count_nodes(body, NODE_GETATTR), 1);
    assert_int_equal(count_nodes(body, NODE_CONSTANT), 2);
    tensor_release(x);
    module_release(root);
}

static status_t pass_on(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                        int *n_out, tensor_t **out)
{
    (void)ctx;
    (void)n_in;
    tensor_t *x;
    memcpy(&x, &in[0], sizeof x);
    *n_out = 2;
    out[0] = tensor_retain(x);
    out[1] = tensor_retain(module_parameter(self, "weight"));
    return STATUS_OK;
}

static void inputs_and_attributes_may_be_results(void **state)
{
    context_t *ctx = fixture_context(state);
    const tensor_t *x = image(ctx);
    module_t *root = make_root(ctx, pass_on);
    CHECK_OK(ctx, graph_trace(ctx, root, "forward", 1, &x));
    check_text(ctx, root,
               "graph forward(%self : module, %x : f32[N=1,C=3,H=6,W=6]) {\n"
               "  %1 = getattr(%self) name=\"weight\" : f32[1,3,6,6]\n"
               "  return %x, %1\n"
               "}\n");
    tensor_t *held;
    memcpy(&held, &x, sizeof held);
    tensor_release(held);
    module_release(root);
}

static status_t two_inputs(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                           int *n_out, tensor_t **out)
{
    (void)self;
    (void)n_in;
    *n_out = 1;
    return op_sub(ctx, in[1], in[0], out);
}

static void several_inputs_have_numbers(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *root = make_root(ctx, two_inputs);
    tensor_t *a = image(ctx), *b = image(ctx);
    CHECK_OK(ctx, graph_trace(ctx, root, "forward", 2, (const tensor_t *const[]){a, b}));
    check_text(
        ctx, root,
        "graph forward(%self : module, %x0 : f32[N=1,C=3,H=6,W=6], %x1 : f32[N=1,C=3,H=6,W=6]) {\n"
        "  %1 = sub(%x1, %x0) : f32[1,3,6,6]\n"
        "  return %1\n"
        "}\n");
    tensor_release(a);
    tensor_release(b);
    module_release(root);
}

/* ---- errors ---- */

static status_t by_view(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                        int *n_out, tensor_t **out)
{
    (void)self;
    (void)n_in;
    tensor_t *view = NULL;
    *n_out = 1;
    TRY(tensor_view(ctx, in[0], SHAPE(1, -1), &view));
    return op_relu(ctx, view, out);
}

static void a_view_that_is_no_operator_is_not_taken_for_a_constant(void **state)
{
    context_t *ctx = fixture_context(state);
    const tensor_t *x = image(ctx);
    module_t *root = make_root(ctx, by_view);
    CHECK_FAILS(ctx, graph_trace(ctx, root, "forward", 1, &x), STATUS_UNSUPPORTED,
                "shares the bytes of");
    assert_null(graph_of(root, "forward"));
    tensor_t *held;
    memcpy(&held, &x, sizeof held);
    tensor_release(held);
    module_release(root);
}

static status_t by_writing(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                           int *n_out, tensor_t **out)
{
    (void)n_in;
    *n_out = 1;
    TRY(tensor_fill(ctx, module_buffer(self, "tied"), 2.0));
    return op_relu(ctx, in[0], out);
}

static void a_write_that_is_no_operator_is_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    const tensor_t *x = image(ctx);
    module_t *root = make_root(ctx, by_writing);
    CHECK_FAILS(ctx, graph_trace(ctx, root, "forward", 1, &x), STATUS_UNSUPPORTED,
                "graph_trace: forward wrote weight");
    CHECK_FAILS(ctx, graph_trace(ctx, root, "backward", 1, &x), STATUS_INVALID_ARGUMENT,
                "graph_trace: Root has no method \"backward\"");
    tensor_t *held;
    memcpy(&held, &x, sizeof held);
    tensor_release(held);
    module_release(root);
}

/* Writes in place to its weight, to a tensor that it makes with an operator, and to one made
 * without. */
static status_t by_calls_in_place(context_t *ctx, module_t *self, int n_in,
                                  const tensor_t *const *in, int *n_out, tensor_t **out)
{
    (void)n_in;
    tensor_t *weight = module_parameter(self, "weight"), *tripled = NULL, *sum = NULL;
    *n_out = 1;
    TRY(op_add_(ctx, weight, in[0]));
    TRY(op_relu(ctx, in[0], &tripled));
    TRY(op_mul_scalar_(ctx, tripled, 3));
    TRY(tensor_zeros(ctx, DTYPE_F32, SHAPE(1, 3, 6, 6), &sum));
    TRY(op_add_(ctx, sum, tripled));
    TRY(op_add_(ctx, sum, weight));
    *out = sum;
    return STATUS_OK;
}

static void check_ones(context_t *ctx, module_t *root, const tensor_t *x, double wanted)
{
    tensor_t *y = NULL, *full = NULL;
    double difference = 1;
    CHECK_OK(ctx, module_forward(ctx, root, x, &y));
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(1, 3, 6, 6), wanted, &full));
    CHECK_OK(ctx, tensor_max_rel_diff(ctx, y, full, &difference));
    if (!(difference < TOLERANCE)) fail_msg("differs by %g from %g", difference, wanted);
    tensor_release(y);
    tensor_release(full);
}

/* For an input of ones the n-th call returns 3 + 0.5 + n. Tracing is the first call. */
static void calls_in_place_are_recorded(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL;
    module_t *root = make_root(ctx, by_calls_in_place), *frozen = NULL;
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(1, 3, 6, 6), 1, &x));
    trace(ctx, root, x);
    text_t text = text_begin(ctx);
    CHECK_OK(ctx, graph_print(ctx, graph_of(root, "forward"), NULL, &text));
    assert_non_null(strstr(text_string(&text), "mul_(%"));
    text_clear(&text);
    check_ones(ctx, root, x, 5.5);
    check_ones(ctx, root, x, 6.5);
    CHECK_OK(ctx, freeze(ctx, root, NULL, &frozen));
    check_ones(ctx, frozen, x, 7.5);
    check_ones(ctx, frozen, x, 8.5);
    check_ones(ctx, root, x, 7.5);
    tensor_release(x);
    module_release(frozen);
    module_release(root);
}

static status_t by_another_dtype(context_t *ctx, module_t *self, int n_in,
                                 const tensor_t *const *in, int *n_out, tensor_t **out)
{
    (void)self, (void)n_in;
    tensor_t *half = NULL;
    *n_out = 1;
    TRY(op_cast(ctx, in[0], DTYPE_BF16, &half));
    TRY(op_add_(ctx, half, in[0]));
    *out = half;
    return STATUS_OK;
}

static void a_call_in_place_that_casts_is_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *y = NULL;
    module_t *root = make_root(ctx, by_another_dtype);
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(1, 3, 6, 6), 1, &x));
    CHECK_OK(ctx, module_forward(ctx, root, x, &y));
    CHECK_FAILS(ctx, graph_trace(ctx, root, "forward", 1, (const tensor_t *[]){x}),
                STATUS_UNSUPPORTED, "both must have the same dtype");
    tensor_release(x);
    tensor_release(y);
    module_release(root);
}

/* ---- allocation ---- */

static status_t trace_net(context_t *ctx)
{
    module_t *net = NULL;
    tensor_t *x = NULL;
    TRY(make_net(ctx, &net));
    status_t status = tensor_full(ctx, DTYPE_F32, SHAPE(1, 3, 6, 6), 1.0, &x);
    if (status == STATUS_OK) status = graph_trace(ctx, net, "forward", 1, (const tensor_t *[]){x});
    tensor_release(x);
    module_release(net);
    return status;
}

static void every_allocation_of_a_trace_may_fail(void **state)
{
    (void)state;
    check_allocations_by_turns(trace_net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_network_becomes_its_operators_with_their_paths),
        TEST(infos_alone_give_the_trace_of_tensors),
        TEST(attributes_stay_attributes),
        TEST(a_traced_method_can_be_traced_again),
        TEST(a_traced_network_takes_other_batches_and_refuses_other_images),
        TEST(numbers_become_literals_and_other_tensors_constants),
        TEST(inputs_and_attributes_may_be_results),
        TEST(several_inputs_have_numbers),
        TEST(a_view_that_is_no_operator_is_not_taken_for_a_constant),
        TEST(a_write_that_is_no_operator_is_refused),
        TEST(calls_in_place_are_recorded),
        TEST(a_call_in_place_that_casts_is_refused),
        TEST(every_allocation_of_a_trace_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
