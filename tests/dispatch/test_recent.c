#include "dispatch/recent_impl.h"

#include <string.h>

#include "dispatch/dispatch.h"
#include "ops/ops.h"
#include "tensor/convert/convert.h"
#include "tensor/tensor_impl.h"
#include "tests/support/support.h"

/* Input and weight of ones. Each result of conv2d is then the number of inputs under the kernel. */
typedef struct layer {
    tensor_t *x, *weight;
} layer_t;

static layer_t make_layer(context_t *ctx)
{
    layer_t layer = {NULL, NULL};
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(1, 4, 6, 6), 1, &layer.x));
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(2, 4, 3, 3), 1, &layer.weight));
    return layer;
}

static void release_layer(layer_t *layer)
{
    tensor_release(layer->x);
    tensor_release(layer->weight);
}

/* Checks the number of rows of the result, and its first element. */
static void check_conv(context_t *ctx, const layer_t *layer, const conv_attrs_t *attrs,
                       int64_t size, double corner)
{
    tensor_t *out = NULL, *dense = NULL;
    const void *elements = NULL;
    CHECK_OK(ctx, op_conv2d(ctx, layer->x, layer->weight, NULL, attrs, &out));
    CHECK_OK(ctx, to_dense(ctx, out, &dense));
    assert_int_equal(tensor_sizes(out)[2], size);
    CHECK_OK(ctx, tensor_data(ctx, dense, &elements));
    assert_float_equal(*(const float *)elements, corner, 0);
    tensor_release(dense);
    tensor_release(out);
}

static counters_t counters_of(context_t *ctx)
{
    counters_t counters;
    counters_read(ctx, &counters);
    return counters;
}

static void calls_that_differ_in_one_attribute_are_told_apart(void **state)
{
    context_t *ctx = fixture_context(state);
    layer_t layer = make_layer(ctx);
    for (int round = 0; round < 3; round++) {
        check_conv(ctx, &layer, NULL, 4, 36);
        check_conv(ctx, &layer, &(conv_attrs_t){.padding = {1, 1}}, 6, 16);
        check_conv(ctx, &layer, &(conv_attrs_t){.padding = {1, 0}}, 6, 24);
        check_conv(ctx, &layer, &(conv_attrs_t){.stride = {2}}, 2, 36);
        check_conv(ctx, &layer, &(conv_attrs_t){.dilation = {2, 2}}, 2, 36);
        check_conv(ctx, &layer, &(conv_attrs_t){.algorithm = CONV_WINOGRAD}, 4, 36);
    }
    assert_int_equal(counters_of(ctx).cache_misses, 6);
    release_layer(&layer);
}

/* Attributes with written defaults and attributes without them share one entry of the cache. */
static void defaults_that_are_written_and_left_out_are_one_entry(void **state)
{
    context_t *ctx = fixture_context(state);
    layer_t layer = make_layer(ctx);
    const conv_attrs_t zeros = {.padding = {1, 1}};
    const conv_attrs_t written = {
        .stride = {1, 1}, .padding = {1, 1}, .dilation = {1, 1}, .groups = 1};
    check_conv(ctx, &layer, &zeros, 6, 16);
    uint64_t misses = counters_of(ctx).cache_misses;
    for (int round = 0; round < 3; round++) {
        check_conv(ctx, &layer, &written, 6, 16);
        check_conv(ctx, &layer, &zeros, 6, 16);
    }
    assert_int_equal(counters_of(ctx).cache_misses, misses);
    release_layer(&layer);
}

/* Bytes of the struct that belong to no field, or to the unused end of a list, are ignored. */
static void garbage_that_no_field_has_changes_nothing(void **state)
{
    context_t *ctx = fixture_context(state);
    layer_t layer = make_layer(ctx);
    conv_attrs_t attrs;
    check_conv(ctx, &layer, &(conv_attrs_t){.padding = {1, 1}}, 6, 16);
    uint64_t misses = counters_of(ctx).cache_misses;
    for (int filling = 0; filling < 256; filling += 51) {
        memset(&attrs, filling, sizeof attrs);
        for (int i = 0; i < 3; i++)
            attrs.stride[i] = attrs.dilation[i] = attrs.extra_padding[i] = attrs.padding[i] = 0;
        attrs.padding[0] = attrs.padding[1] = 1;
        attrs.groups = 1;
        attrs.algorithm = CONV_DIRECT;
        attrs.post.n = 0;
        check_conv(ctx, &layer, &attrs, 6, 16);
    }
    assert_int_equal(counters_of(ctx).cache_misses, misses);
    release_layer(&layer);
}

static void policy_and_threads_belong_to_a_call(void **state)
{
    context_t *ctx = fixture_context(state);
    layer_t layer = make_layer(ctx);
    tensor_t *out = NULL;
    const policy_t policies[] = {POLICY_AUTO, POLICY_PER_OP, POLICY_STRICT};
    const layout_t layouts[] = {LAYOUT_MKLDNN, LAYOUT_DENSE, LAYOUT_DENSE};
    for (int i = 0; i < 12; i++) {
        CHECK_OK(ctx, dispatch_set_policy(ctx, policies[i % 3]));
        CHECK_OK(ctx, context_set_threads(ctx, 1 + i / 6));
        CHECK_OK(ctx, op_conv2d(ctx, layer.x, layer.weight, NULL, NULL, &out));
        assert_int_equal(tensor_layout(out), layouts[i % 3]);
        tensor_release(out);
    }
    for (int i = 0; i < 4; i++) { /* the policy stays strict; only the number of threads changes */
        CHECK_OK(ctx, context_set_threads(ctx, 3 + i % 2));
        CHECK_OK(ctx, op_conv2d(ctx, layer.x, layer.weight, NULL, NULL, &out));
        tensor_release(out);
    }
    assert_int_equal(counters_of(ctx).cache_misses, 3 * 2 + 2);
    release_layer(&layer);
}

static void the_layout_of_an_input_belongs_to_a_call(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *dense = NULL, *blocked = NULL, *turned = NULL, *out = NULL;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(1, 16, 4, 4), &dense));
    CHECK_OK(ctx, convert_reorder(ctx, dense, "aBcd16b", &blocked));
    CHECK_OK(ctx, tensor_permute(ctx, dense, 4, (const int64_t[]){0, 1, 3, 2}, &turned));
    const tensor_t *inputs[] = {dense, blocked, turned};
    for (int i = 0; i < 9; i++) {
        CHECK_OK(ctx, op_relu(ctx, inputs[i % 3], &out));
        assert_int_equal(tensor_layout(out), tensor_layout(inputs[i % 3]));
        if (i % 3 == 2) {
            const int64_t *strides = NULL;
            CHECK_OK(ctx, tensor_strides(ctx, out, &strides));
            assert_int_equal(strides[3], 4); /* the strides of the input are preserved */
        }
        tensor_release(out);
    }
    tensor_release(turned);
    tensor_release(blocked);
    tensor_release(dense);
}

/* With a cache of one entry, each call evicts the entry of the previous call. */
static void a_call_that_lost_its_entry_is_selected_again(void **state)
{
    context_t *small = NULL;
    (void)state;
    assert_int_equal(context_create(&(context_options_t){.cache_entries = 1}, &small), STATUS_OK);
    layer_t layer = make_layer(small);
    for (int round = 0; round < 3; round++) {
        check_conv(small, &layer, NULL, 4, 36);
        check_conv(small, &layer, &(conv_attrs_t){.padding = {1, 1}}, 6, 16);
    }
    assert_true(counters_of(small).cache_misses >= 6);
    dispatch_clear_cache(small);
    check_conv(small, &layer, NULL, 4, 36);
    release_layer(&layer);
    context_destroy(small);
}

/* A call with one different part is not found. recent_t does not read entries, so any pointer can
 * be used as an entry. */
static void a_call_is_found_by_what_was_kept_until_its_entry_is_forgotten(void **state)
{
    context_t *ctx = fixture_context(state);
    static recent_t recent;
    recent_key_t key, other;
    layer_t layer = make_layer(ctx);
    const tensor_t *in[] = {layer.x, layer.weight, NULL};
    const opdef_t *op = ops_find("conv2d");
    const conv_attrs_t attrs = {.padding = {1, 1}}, moved = {.padding = {1, 2}};
    cache_entry_t *entry = (cache_entry_t *)(void *)&key;
    memset(&recent, 0, sizeof recent);
    cache_call_t call = {.op = op, .given = &attrs, .n_in = 3, .in = in, .n_threads = 1};
    assert_false(recent_key(&call, &key)); /* no tensor has a stamp yet */
    tensor_set_stamp(layer.x, tensor_new_stamp());
    tensor_set_stamp(layer.weight, tensor_new_stamp());
    assert_true(recent_key(&call, &key));
    assert_null(recent_find(&recent, &key));
    recent_keep(&recent, &key, entry);
    assert_ptr_equal(recent_find(&recent, &key), entry);
    const cache_call_t others[] = {
        {.op = op, .given = &moved, .n_in = 3, .in = in, .n_threads = 1},
        {.op = op, .n_in = 3, .in = in, .n_threads = 1},
        {.op = op, .given = &attrs, .n_in = 2, .in = in, .n_threads = 1},
        {.op = op, .given = &attrs, .n_in = 3, .in = in, .n_threads = 2},
        {.op = op, .given = &attrs, .n_in = 3, .in = in, .policy = POLICY_STRICT, .n_threads = 1},
        {.op = op, .given = &attrs, .n_in = 3, .in = in, .weights = WEIGHT_KEPT, .n_threads = 1}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_true(recent_key(&others[i], &other));
        assert_null(recent_find(&recent, &other));
    }
    recent_forget(&recent, entry);
    assert_null(recent_find(&recent, &key));
    call.n_in = RECENT_INPUTS + 1;
    assert_false(recent_key(&call, &key));
    release_layer(&layer);
}

/* A stamp identifies dtype, sizes and format. Results get one at once, so that the next operator's
 * call is found, too. */
static void results_of_one_call_have_one_stamp(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *first = NULL, *second = NULL, *view = NULL;
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(2, 3), &x));
    CHECK_OK(ctx, op_relu(ctx, x, &first));
    CHECK_OK(ctx, op_relu(ctx, x, &second));
    assert_int_not_equal(tensor_stamp(first), 0);
    assert_int_equal(tensor_stamp(first), tensor_stamp(second));
    CHECK_OK(ctx, op_permute(ctx, first, 2, (const int64_t[]){1, 0}, &view));
    assert_int_not_equal(tensor_stamp(view), 0);
    assert_int_not_equal(tensor_stamp(view), tensor_stamp(first));
    tensor_release(view);
    tensor_release(second);
    tensor_release(first);
    tensor_release(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(calls_that_differ_in_one_attribute_are_told_apart),
        TEST(defaults_that_are_written_and_left_out_are_one_entry),
        TEST(garbage_that_no_field_has_changes_nothing),
        TEST(policy_and_threads_belong_to_a_call),
        TEST(the_layout_of_an_input_belongs_to_a_call),
        TEST(a_call_that_lost_its_entry_is_selected_again),
        TEST(a_call_is_found_by_what_was_kept_until_its_entry_is_forgotten),
        TEST(results_of_one_call_have_one_stamp),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
