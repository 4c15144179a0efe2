#include "module/placement_impl.h"

#include <string.h>

#include "dispatch/dispatch.h"
#include "module/layers/layers.h"
#include "module/mkldnn.h"
#include "module/module_impl.h"
#include "module/state_dict.h"
#include "tensor/tensor_impl.h"
#include "tests/support/support.h"

static status_t append_take(context_t *ctx, module_t *net, status_t status, module_t **layer)
{
    return status == STATUS_OK ? layer_append_take(ctx, net, *layer) : status;
}

/* Runs an operator that supports only dense tensors. */
static status_t forward_cumsum(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                               int *n_out, tensor_t **out)
{
    (void)self;
    (void)n_in;
    *n_out = 1;
    return op_cumsum(ctx, in[0], 1, out);
}

static status_t make_cumsum(context_t *ctx, module_t **out)
{
    TRY(module_create(ctx, "Cumsum", out));
    status_t status = module_set_forward(ctx, *out, "forward", forward_cumsum);
    if (status == STATUS_OK) return STATUS_OK;
    module_release(*out);
    *out = NULL;
    return status;
}

/* Makes a Sequential of a convolution, relu, and a Sequential of cumsum, flatten and linear. */
static status_t make(context_t *ctx, module_t **out)
{
    module_t *net = NULL, *tail = NULL, *layer = NULL;
    TRY(layer_sequential(ctx, &net));
    status_t status = append_take(
        ctx, net, layer_conv2d(ctx, 16, 16, 3, &(conv_attrs_t){.padding = {1, 1}}, true, &layer),
        &layer);
    if (status == STATUS_OK)
        status = append_take(ctx, net, layer_activation(ctx, ELTWISE_RELU, 0, 0, &layer), &layer);
    if (status == STATUS_OK) status = layer_sequential(ctx, &tail);
    if (status == STATUS_OK) status = append_take(ctx, tail, make_cumsum(ctx, &layer), &layer);
    if (status == STATUS_OK)
        status = append_take(ctx, tail, layer_flatten(ctx, 1, -1, &layer), &layer);
    if (status == STATUS_OK)
        status = append_take(ctx, tail, layer_linear(ctx, 16 * 4 * 4, 8, true, &layer), &layer);
    if (status == STATUS_OK) status = module_set_child(ctx, net, "2", tail);
    module_release(tail);
    if (status == STATUS_OK)
        *out = net;
    else
        module_release(net);
    return status;
}

static tensor_t *image(context_t *ctx)
{
    tensor_t *x = NULL;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(1, 16, 4, 4), &x));
    return x;
}

/* Writes the children's names in order, each followed by a blank. */
static const char *children(const module_t *module, char *out_text, size_t capacity)
{
    out_text[0] = '\0';
    for (int i = 0; i < module_n_members(module); i++) {
        member_kind_t kind;
        const char *name = module_member(module, i, &kind);
        if (kind != MEMBER_CHILD) continue;
        strncat(out_text, name, capacity - strlen(out_text) - 1);
        strncat(out_text, " ", capacity - strlen(out_text) - 1);
    }
    return out_text;
}

/* Relu and flatten run in the layout of their input, so mkldnn covers layers 0 and 1 and, in the
 * inner Sequential, linear alone. */
static void transitions_stand_around_runs_of_layers_that_compute_in_mkldnn(void **state)
{
    context_t *ctx = fixture_context(state);
    char text[256];
    module_t *net = NULL;
    tensor_t *x = image(ctx), *plain = NULL, *out = NULL;
    CHECK_OK(ctx, make(ctx, &net));
    CHECK_OK(ctx, module_forward(ctx, net, x, &plain));
    const mkldnn_options_t options = {.example = (const tensor_t *[]){x, NULL},
                                      .transitions = true};
    CHECK_OK(ctx, module_mkldnn(ctx, net, &options));
    assert_string_equal(children(net, text, sizeof text), "dense2mkldnn_0 0 1 mkldnn2dense_1 2 ");
    assert_string_equal(children(module_child(net, "2"), text, sizeof text),
                        "0 1 dense2mkldnn_2 2 mkldnn2dense_2 ");
    text_t printed = text_begin(ctx);
    CHECK_OK(ctx, module_print(ctx, net, &printed));
    assert_non_null(strstr(text_string(&printed), "\n  dense2mkldnn_0: Dense2Mkldnn\n  0: Conv2d"));
    assert_non_null(strstr(text_string(&printed), "\n  mkldnn2dense_1: Mkldnn2Dense\n  2: Seq"));
    text_clear(&printed);
    CHECK_OK(ctx, module_forward(ctx, net, x, &out));
    assert_int_equal(tensor_layout(out), LAYOUT_DENSE);
    double difference = 1;
    CHECK_OK(ctx, tensor_max_rel_diff(ctx, out, plain, &difference));
    assert_true(difference < 1e-5);
    tensor_release(out);
    tensor_release(plain);
    tensor_release(x);
    module_release(net);
}

static void a_second_call_places_nothing_and_dense_takes_them_out(void **state)
{
    context_t *ctx = fixture_context(state);
    char text[256];
    module_t *net = NULL, *by_hand = NULL;
    datum_t *dict = NULL;
    tensor_t *x = image(ctx);
    CHECK_OK(ctx, make(ctx, &net));
    const mkldnn_options_t options = {.example = (const tensor_t *[]){x, NULL},
                                      .transitions = true};
    CHECK_OK(ctx, module_mkldnn(ctx, net, &options));
    CHECK_OK(ctx, module_mkldnn(ctx, net, &options));
    assert_string_equal(children(net, text, sizeof text), "dense2mkldnn_0 0 1 mkldnn2dense_1 2 ");
    CHECK_OK(ctx, module_state_dict(ctx, net, &dict)); /* the weights' names do not change */
    assert_non_null(datum_find(dict, "0.weight"));
    assert_non_null(datum_find(dict, "2.2.bias"));
    assert_int_equal(datum_length(dict), 4);
    CHECK_OK(ctx, layer_mkldnn_to_dense(ctx, &by_hand));
    CHECK_OK(ctx, module_set_child(ctx, net, "mine", by_hand));
    CHECK_OK(ctx, module_dense(ctx, net));
    assert_string_equal(children(net, text, sizeof text), "0 1 2 mine ");
    assert_string_equal(children(module_child(net, "2"), text, sizeof text), "0 1 2 ");
    datum_release(dict);
    module_release(by_hand);
    tensor_release(x);
    module_release(net);
}

static void layers_that_are_skipped_stand_outside_of_transitions(void **state)
{
    context_t *ctx = fixture_context(state);
    char text[256];
    module_t *net = NULL;
    tensor_t *x = image(ctx);
    CHECK_OK(ctx, make(ctx, &net));
    const mkldnn_options_t options = {.skip = (const char *[]){"2.*", "1", NULL},
                                      .example = (const tensor_t *[]){x, NULL},
                                      .transitions = true};
    CHECK_OK(ctx, module_mkldnn(ctx, net, &options));
    assert_string_equal(children(net, text, sizeof text), "dense2mkldnn_0 0 mkldnn2dense_0 1 2 ");
    assert_string_equal(children(module_child(net, "2"), text, sizeof text), "0 1 2 ");
    tensor_release(x);
    module_release(net);
}

static void transitions_need_an_example_and_a_sequential(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = NULL, *layer = NULL;
    tensor_t *x = image(ctx);
    CHECK_OK(ctx, make(ctx, &net));
    CHECK_OK(ctx, layer_activation(ctx, ELTWISE_RELU, 0, 0, &layer));
    CHECK_FAILS(ctx, module_mkldnn(ctx, net, &(mkldnn_options_t){.transitions = true}),
                STATUS_INVALID_ARGUMENT,
                "module_mkldnn: transitions without an example, which is needed to find each "
                "layer's layout");
    const mkldnn_options_t options = {.example = (const tensor_t *[]){x, NULL},
                                      .transitions = true};
    CHECK_FAILS(ctx, module_mkldnn(ctx, layer, &options), STATUS_UNSUPPORTED,
                "module_mkldnn: transitions in ReLU, only a Sequential can have them");
    assert_false(storage_is_packable(module_parameter(net, "0.weight")->storage));
    module_release(layer);
    tensor_release(x);
    module_release(net);
}

/* If a layer has the name that a transition (layout conversion) needs, no transition stays. The
 * layer is in the Sequential that is processed last, after transitions were added elsewhere. */
static void a_name_that_is_taken_is_refused_and_nothing_is_placed(void **state)
{
    context_t *ctx = fixture_context(state);
    char text[256];
    module_t *net = NULL, *layer = NULL;
    tensor_t *x = image(ctx);
    CHECK_OK(ctx, make(ctx, &net));
    CHECK_OK(ctx, layer_activation(ctx, ELTWISE_RELU, 0, 0, &layer));
    CHECK_OK(ctx, module_set_child(ctx, net, "dense2mkldnn_0", layer));
    const mkldnn_options_t options = {.example = (const tensor_t *[]){x, NULL},
                                      .transitions = true};
    CHECK_FAILS(ctx, module_mkldnn(ctx, net, &options), STATUS_INVALID_ARGUMENT,
                "module_mkldnn: transition \"dense2mkldnn_0\", Sequential already has a layer of "
                "that name");
    assert_string_equal(children(net, text, sizeof text), "0 1 2 dense2mkldnn_0 ");
    assert_string_equal(children(module_child(net, "2"), text, sizeof text), "0 1 2 ");
    module_release(layer);
    tensor_release(x);
    module_release(net);
}

static void a_layer_that_is_appended_replaces_none(void **state)
{
    context_t *ctx = fixture_context(state);
    char text[256];
    module_t *net = NULL, *layer = NULL;
    tensor_t *x = image(ctx);
    CHECK_OK(ctx, make(ctx, &net));
    const mkldnn_options_t options = {.example = (const tensor_t *[]){x, NULL},
                                      .transitions = true};
    CHECK_OK(ctx, module_mkldnn(ctx, net, &options));
    for (int i = 0; i < 3; i++) {
        CHECK_OK(ctx, layer_activation(ctx, ELTWISE_RELU, 0, 0, &layer));
        CHECK_OK(ctx, layer_append_take(ctx, net, layer));
        CHECK_OK(ctx, module_dense(ctx, net));
    }
    assert_string_equal(children(net, text, sizeof text), "0 1 2 5 4 6 ");
    tensor_release(x);
    module_release(net);
}

static void a_path_that_has_no_room_is_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    char name[600];
    module_t *net = NULL, *layer = NULL;
    tensor_t *x = image(ctx);
    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    CHECK_OK(ctx, layer_sequential(ctx, &net));
    CHECK_OK(ctx, layer_activation(ctx, ELTWISE_RELU, 0, 0, &layer));
    CHECK_OK(ctx, module_set_child(ctx, net, name, layer));
    const mkldnn_options_t options = {.example = (const tensor_t *[]){x, NULL},
                                      .transitions = true};
    CHECK_FAILS(ctx, module_mkldnn(ctx, net, &options), STATUS_UNSUPPORTED,
                "module_mkldnn: transitions below a path of more than 512 bytes");
    module_release(layer);
    tensor_release(x);
    module_release(net);
}

static status_t place_and_count(context_t *ctx)
{
    module_t *net = NULL;
    tensor_t *x = NULL;
    TRY(make(ctx, &net));
    status_t status = tensor_zeros(ctx, DTYPE_F32, SHAPE(1, 16, 4, 4), &x);
    if (status == STATUS_OK) {
        const mkldnn_options_t options = {.example = (const tensor_t *[]){x, NULL},
                                          .transitions = true};
        status = module_mkldnn(ctx, net, &options);
        bool is_placed = module_child(net, "dense2mkldnn_0") != NULL &&
                         module_child(net, "2.mkldnn2dense_2") != NULL;
        bool is_marked = storage_is_packable(module_parameter(net, "0.weight")->storage);
        assert_int_equal(is_placed, status == STATUS_OK);
        assert_int_equal(is_marked, status == STATUS_OK);
        if (status != STATUS_OK) assert_null(module_child(net, "2.dense2mkldnn_2"));
    }
    tensor_release(x);
    module_release(net);
    return status;
}

static void without_memory_nothing_is_placed(void **state)
{
    (void)state;
    check_allocations_by_turns(place_and_count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(transitions_stand_around_runs_of_layers_that_compute_in_mkldnn),
        TEST(a_second_call_places_nothing_and_dense_takes_them_out),
        TEST(layers_that_are_skipped_stand_outside_of_transitions),
        TEST(transitions_need_an_example_and_a_sequential),
        TEST(a_name_that_is_taken_is_refused_and_nothing_is_placed),
        TEST(a_layer_that_is_appended_replaces_none),
        TEST(a_path_that_has_no_room_is_refused),
        TEST(without_memory_nothing_is_placed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
