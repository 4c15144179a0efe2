/* Graphs that write in place to a tensor of which they have views. A view must share bytes with the
 * tensor in any layout. */
#include "graph/ir/graph.h"

#include "tensor/convert/convert.h"
#include "tensor/convert/form_impl.h"
#include "tensor/tensor_impl.h"
#include "tests/support/support.h"

/* Flattening a blocked %t would copy, but %f must share memory with %t under each policy. */
static void views_share_with_what_is_written_under_every_policy(void **state)
{
    context_t *ctx = fixture_context(state);
    graph_t *graph = NULL;
    CHECK_OK(ctx, graph_parse(ctx,
                              "graph f(%x : f32[1,8,4,4], %w : f32[32,8,1,1]) {\n"
                              "  %t = conv2d(%x, %w, none)\n"
                              "  %f = flatten(%t)\n"
                              "  %u = add_(%t, 1.0)\n"
                              "  %v = flatten(%x)\n"
                              "  %z = mul_(%v, 0.0)\n"
                              "  return %f, %x\n"
                              "}\n",
                              NULL, &graph));
    for (int is_blocked = 0; is_blocked < 2; is_blocked++) {
        tensor_t *x = NULL, *m = NULL, *w = NULL;
        datum_t *in[2] = {NULL}, *out[METHOD_MAX_OUTPUTS] = {NULL};
        float read[512] = {0};
        int n_out = METHOD_MAX_OUTPUTS;
        CHECK_OK(ctx, dispatch_set_policy(ctx, is_blocked != 0 ? POLICY_AUTO : POLICY_PER_OP));
        CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(1, 8, 4, 4), 1.0, &x));
        CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(32, 8, 1, 1), 0.5, &w));
        if (is_blocked != 0) {
            CHECK_OK(ctx, to_mkldnn(ctx, x, &m));
            tensor_release(x);
            x = m;
        }
        CHECK_OK(ctx, datum_tensor(ctx, x, &in[0]));
        CHECK_OK(ctx, datum_tensor(ctx, w, &in[1]));
        CHECK_OK(ctx, graph_run(ctx, graph, NULL, 2, in, &n_out, out));
        CHECK_OK(ctx, tensor_read(ctx, datum_as_tensor(out[0]), read, 512 * sizeof *read));
        for (int i = 0; i < 512; i++) assert_float_equal(read[i], 5, 0);
        CHECK_OK(ctx, tensor_read(ctx, x, read, 128 * sizeof *read));
        for (int i = 0; i < 128; i++) assert_float_equal(read[i], 0, 0);
        for (int i = 0; i < n_out; i++) datum_release(out[i]);
        for (int i = 0; i < 2; i++) datum_release(in[i]);
        tensor_release(x);
        tensor_release(w);
    }
    graph_release(graph);
}

/* In-place operators must also write to forms, which are copies of a tensor in other formats: for a
 * dense tensor whose elements are only in a form, and for an mkldnn tensor that has one. */
static void in_place_operators_reach_the_forms_of_what_they_write(void **state)
{
    context_t *ctx = fixture_context(state);
    graph_t *graph = NULL;
    CHECK_OK(ctx, graph_parse(ctx,
                              "graph f(%x : tensor) {\n"
                              "  %y = add_(%x, 1.0)\n"
                              "  return %x\n"
                              "}\n",
                              NULL, &graph));
    for (int is_blocked = 0; is_blocked < 2; is_blocked++) {
        tensor_t *x = NULL, *m = NULL, *form = NULL;
        datum_t *in = NULL, *out[METHOD_MAX_OUTPUTS] = {NULL};
        void *bytes = NULL;
        int n_out = METHOD_MAX_OUTPUTS;
        counters_t counters;
        CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(1, 16, 4, 4), &x));
        if (is_blocked != 0) {
            CHECK_OK(ctx, to_mkldnn(ctx, x, &m));
            tensor_release(x);
            x = m;
        }
        format_t blocks = format_channel_blocks(4, 8);
        tensor_info_t want = info_mkldnn(&x->info, &blocks);
        CHECK_OK(ctx, form_writable(ctx, x, &want, CAUSE_WEIGHT, &bytes));
        for (int i = 0; i < 256; i++) ((float *)bytes)[i] = (float)i;
        CHECK_OK(ctx, form_written(ctx, x, &want, CAUSE_WEIGHT));
        CHECK_OK(ctx, datum_tensor(ctx, x, &in));
        CHECK_OK(ctx, graph_run(ctx, graph, NULL, 1, &in, &n_out, out));
        counters_reset(ctx);
        CHECK_OK(ctx, form_get(ctx, x, &want, NULL, CAUSE_WEIGHT, NULL, &form));
        counters_read(ctx, &counters);
        assert_int_equal(counters.reorders[CAUSE_WEIGHT], 1);
        assert_ptr_equal(tensor_bytes(form), bytes);
        for (int i = 0; i < 256; i++) assert_true(((float *)bytes)[i] == (float)(i + 1));
        for (int i = 0; i < n_out; i++) datum_release(out[i]);
        datum_release(in);
        tensor_release(form);
        tensor_release(x);
    }
    graph_release(graph);
}

/* A view needs a dense tensor, but a run must not change the format of the module's tensor. */
static void a_view_of_a_blocked_attribute_is_not_written(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = NULL;
    tensor_t *x = NULL, *m = NULL;
    int n_out = 1;
    CHECK_OK(ctx, module_create(ctx, "Net", &net));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(1, 8, 4, 4), &x));
    CHECK_OK(ctx, to_mkldnn(ctx, x, &m));
    CHECK_OK(ctx, module_set_buffer(ctx, net, "b", m));
    CHECK_OK(ctx, graph_define(ctx, net,
                               "graph forward(%self : module) {\n"
                               "  %b = getattr(%self) name=\"b\" : tensor\n"
                               "  %f = flatten(%b)\n"
                               "  %u = add_(%f, 1.0)\n"
                               "  return %u\n"
                               "}\n"));
    tensor_release(x);
    CHECK_FAILS(ctx, module_call_tensors(ctx, net, "forward", 0, NULL, &n_out, &x),
                STATUS_UNSUPPORTED,
                "but a view of it is written in place; convert it with to_dense");
    tensor_release(m);
    module_release(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(views_share_with_what_is_written_under_every_policy),
        TEST(in_place_operators_reach_the_forms_of_what_they_write),
        TEST(a_view_of_a_blocked_attribute_is_not_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
