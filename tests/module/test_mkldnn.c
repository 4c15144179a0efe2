#include "module/mkldnn.h"

#include "tests/support/support.h"

#include <stdio.h>
#include <string.h>

#include "dispatch/dispatch.h"
#include "module/layers/layers.h"
#include "module/state_dict.h"
#include "tensor/convert/convert.h"
#include "tensor/convert/form_impl.h"
#include "tensor/counters.h"
#include "tensor/scope.h"
#include "tensor/tensor_impl.h"

static void append(context_t *ctx, module_t *net, int64_t in, int64_t out)
{
    module_t *child = NULL;
    CHECK_OK(ctx, layer_conv2d(ctx, in, out, 3, &(conv_attrs_t){.padding = {1, 1}}, true, &child));
    CHECK_OK(ctx, layer_append_take(ctx, net, child));
}

/* Makes a Sequential of three 3x3 convolutions. The last two share a weight. */
static module_t *make(context_t *ctx)
{
    module_t *net = NULL;
    CHECK_OK(ctx, layer_sequential(ctx, &net));
    append(ctx, net, 16, 32);
    append(ctx, net, 32, 32);
    append(ctx, net, 32, 32);
    CHECK_OK(ctx, module_set_parameter(ctx, module_child(net, "2"), "weight",
                                       module_parameter(net, "1.weight")));
    return net;
}

static bool is_marked(const module_t *net, const char *path)
{
    return storage_is_packable(module_parameter(net, path)->storage);
}

static bool has_packed(const module_t *net, const char *path)
{
    return storage_forms(module_parameter(net, path)->storage) != NULL;
}

static tensor_t *image(context_t *ctx)
{
    tensor_t *x = NULL;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(1, 16, 8, 8), &x));
    return x;
}

/* Runs forward. Returns the number of weight reorders. */
static uint64_t run(context_t *ctx, module_t *net, const tensor_t *x, tensor_t **out)
{
    counters_t counters;
    counters_reset(ctx);
    CHECK_OK(ctx, module_forward(ctx, net, x, out));
    counters_read(ctx, &counters);
    return counters_weight_reorders(&counters);
}

static void every_parameter_is_marked_and_dense_takes_it_back(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make(ctx);
    assert_false(is_marked(net, "0.weight"));
    CHECK_OK(ctx, module_mkldnn(ctx, net, NULL));
    assert_true(is_marked(net, "0.weight"));
    assert_true(is_marked(net, "0.bias"));
    assert_true(is_marked(net, "2.weight"));
    CHECK_OK(ctx, module_mkldnn(ctx, net, NULL));
    CHECK_OK(ctx, module_dense(ctx, net));
    assert_false(is_marked(net, "0.weight"));
    assert_false(is_marked(net, "2.weight"));
    module_release(net);
}

static void skipped_modules_stay_unmarked(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make(ctx), *outer = NULL;
    CHECK_OK(ctx, layer_sequential(ctx, &outer));
    CHECK_OK(ctx, layer_append_take(ctx, outer, net));
    mkldnn_options_t options = {.skip = (const char *const[]){"0.0", "0.2", NULL}};
    CHECK_OK(ctx, module_mkldnn(ctx, outer, &options));
    assert_false(is_marked(outer, "0.0.weight"));
    assert_false(is_marked(outer, "0.2.bias"));
    assert_true(is_marked(outer, "0.1.bias"));
    assert_true(is_marked(outer, "0.2.weight")); /* layer 0.1 has the same weight */
    CHECK_OK(ctx, module_dense(ctx, outer));
    options.skip = (const char *const[]){"0", NULL};
    CHECK_OK(ctx, module_mkldnn(ctx, outer, &options));
    assert_false(is_marked(outer, "0.1.weight"));
    module_release(outer);
}

static void a_path_that_does_not_exist_is_named_and_nothing_is_marked(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make(ctx);
    mkldnn_options_t options = {.skip = (const char *const[]){"0", "5", NULL}};
    CHECK_FAILS(ctx, module_mkldnn(ctx, net, &options), STATUS_INVALID_ARGUMENT,
                "module: \"5\" is no child of Sequential, it has 0, 1, 2");
    assert_false(is_marked(net, "1.weight"));
    module_release(net);
}

static void weights_are_packed_once_and_kept(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make(ctx);
    tensor_t *x = image(ctx), *before = NULL, *first = NULL, *second = NULL;
    CHECK_OK(ctx, module_forward(ctx, net, x, &before));
    CHECK_OK(ctx, module_mkldnn(ctx, net, NULL));
    assert_int_equal(run(ctx, net, x, &first), 2); /* two of three layers share a weight */
    assert_int_equal(run(ctx, net, x, &second), 0);
    double difference = -1;
    CHECK_OK(ctx, tensor_max_rel_diff(ctx, second, before, &difference));
    assert_true(difference < 1e-5);
    assert_true(has_packed(net, "0.weight"));
    CHECK_OK(ctx, module_dense(ctx, net));
    assert_false(has_packed(net, "0.weight"));
    tensor_release(second);
    tensor_release(first);
    tensor_release(before);
    tensor_release(x);
    module_release(net);
}

static void an_example_packs_at_once(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make(ctx);
    tensor_t *x = image(ctx), *y = NULL;
    mkldnn_options_t options = {.example = (const tensor_t *const[]){x, NULL}};
    CHECK_OK(ctx, module_mkldnn(ctx, net, &options));
    assert_true(has_packed(net, "1.weight"));
    assert_int_equal(run(ctx, net, x, &y), 0);
    tensor_release(y);
    tensor_release(x);
    module_release(net);
}

static void an_example_that_fails_leaves_the_model_as_it_was(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make(ctx);
    tensor_t *x = NULL;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(1, 15, 8, 8), &x));
    mkldnn_options_t options = {.example = (const tensor_t *const[]){x, NULL}};
    CHECK_FAILS(ctx, module_mkldnn(ctx, net, &options), STATUS_INVALID_ARGUMENT, "conv2d");
    assert_false(is_marked(net, "0.weight"));
    tensor_release(x);
    module_release(net);
}

static void writing_a_weight_is_seen_by_the_next_run(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make(ctx);
    tensor_t *x = image(ctx), *y = NULL;
    CHECK_OK(ctx, module_mkldnn(ctx, net, NULL));
    CHECK_OK(ctx, module_forward(ctx, net, x, &y));
    tensor_release(y);
    CHECK_OK(ctx, tensor_fill(ctx, module_parameter(net, "2.weight"), 0));
    CHECK_OK(ctx, tensor_fill(ctx, module_parameter(net, "2.bias"), 3));
    CHECK_OK(ctx, module_forward(ctx, net, x, &y));
    float elements[32 * 64];
    CHECK_OK(ctx, tensor_read(ctx, y, elements, sizeof elements));
    for (int i = 0; i < 32 * 64; i++) assert_true(elements[i] == 3);
    tensor_release(y);
    tensor_release(x);
    module_release(net);
}

/* Makes a 64-to-64 convolution without bias. Its weight is so large that it has a block of its
 * own. */
static module_t *make_large(context_t *ctx)
{
    module_t *net = NULL;
    CHECK_OK(ctx, layer_conv2d(ctx, 64, 64, 3, &(conv_attrs_t){.padding = {1, 1}}, false, &net));
    return net;
}

/* Doubles the packed form of the weight, as an optimizer's step may change it. */
static void double_packed(context_t *ctx, tensor_t *weight)
{
    tensor_t *form = NULL;
    void *bytes = NULL;
    assert_int_equal(form_list(weight, 1, &form), 1);
    tensor_info_t info = form->info;
    tensor_release(form);
    CHECK_OK(ctx, form_writable(ctx, weight, &info, CAUSE_WEIGHT, &bytes));
    for (size_t i = 0; i < info_bytes(&info) / sizeof(float); i++) ((float *)bytes)[i] *= 2;
    CHECK_OK(ctx, form_written(ctx, weight, &info, CAUSE_WEIGHT));
}

static void check_times(context_t *ctx, const tensor_t *tensor, const tensor_t *base, float factor)
{
    enum { NUMEL = 64 * 64 * 9 };
    static float is[NUMEL], was[NUMEL];
    assert_int_equal(tensor_numel(tensor), tensor_numel(base));
    CHECK_OK(ctx, tensor_read(ctx, tensor, is, sizeof is));
    CHECK_OK(ctx, tensor_read(ctx, base, was, sizeof was));
    for (int64_t i = 0; i < tensor_numel(base); i++) assert_true(is[i] == factor * was[i]);
}

static void a_weight_is_trained_in_its_packed_form_and_saved_in_its_plain_one(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_large(ctx), *copy = NULL;
    tensor_t *weight = module_parameter(net, "weight"), *before = NULL, *x = NULL, *y[4] = {NULL};
    datum_t *dict = NULL;
    CHECK_OK(ctx, tensor_clone(ctx, weight, &before));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(1, 64, 8, 8), &x));
    CHECK_OK(ctx, module_mkldnn(ctx, net, NULL));
    assert_int_equal(run(ctx, net, x, &y[0]), 1);
    for (int step = 1; step < 4; step++) {
        double_packed(ctx, weight);
        assert_int_equal(run(ctx, net, x, &y[step]), 0);
        assert_true(storage_is_shed(weight->storage));
        check_times(ctx, y[step], y[0], (float)(1 << step));
    }
    CHECK_OK(ctx, module_state_dict(ctx, net, &dict));
    CHECK_OK(ctx, module_clone(ctx, net, &copy));
    check_times(ctx, datum_as_tensor(datum_find(dict, "weight")), before, 8);
    check_times(ctx, module_parameter(copy, "weight"), before, 8);
    datum_release(dict);
    assert_true(storage_is_plain(weight->storage));
    double_packed(ctx, weight);
    double_packed(ctx, weight);
    assert_true(storage_is_shed(weight->storage));
    check_times(ctx, module_parameter(copy, "weight"), before, 8);
    CHECK_OK(ctx, module_dense(ctx, net));
    assert_false(has_packed(net, "weight"));
    check_times(ctx, weight, before, 32);
    for (int i = 0; i < 4; i++) tensor_release(y[i]);
    tensor_release(x);
    tensor_release(before);
    module_release(copy);
    module_release(net);
}

/* The second layer fails. By then the first layer has packed its weight and freed the plain
 * bytes. */
static void an_example_that_fails_late_gives_plain_bytes_back(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = NULL;
    tensor_t *before = NULL, *x = NULL;
    CHECK_OK(ctx, layer_sequential(ctx, &net));
    CHECK_OK(ctx, layer_append_take(ctx, net, make_large(ctx)));
    append(ctx, net, 63, 3);
    tensor_t *weight = module_parameter(net, "0.weight");
    CHECK_OK(ctx, tensor_clone(ctx, weight, &before));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(1, 64, 8, 8), &x));
    const mkldnn_options_t options = {.example = (const tensor_t *const[]){x, NULL}};
    CHECK_FAILS(ctx, module_mkldnn(ctx, net, &options), STATUS_INVALID_ARGUMENT, "conv2d");
    assert_true(storage_is_plain(weight->storage));
    assert_false(has_packed(net, "0.weight"));
    assert_false(is_marked(net, "0.weight"));
    check_times(ctx, weight, before, 1);
    tensor_release(x);
    tensor_release(before);
    module_release(net);
}

static void values_that_are_loaded_are_packed_into_the_same_bytes(void **state)
{
    fixture_t *fixture = *state;
    context_t *ctx = fixture->ctx;
    module_t *net = make(ctx), *other = make(ctx);
    tensor_t *x = image(ctx), *y = NULL, *wanted = NULL;
    datum_t *dict = NULL;
    CHECK_OK(ctx, module_mkldnn(ctx, net, NULL));
    assert_int_equal(run(ctx, net, x, &y), 2);
    tensor_release(y);
    for (int round = 0; round < 2; round++) {
        CHECK_OK(ctx, module_state_dict(ctx, other, &dict));
        CHECK_OK(ctx, module_load_state_dict(ctx, net, dict));
        datum_release(dict);
        long live = atomic_load(&fixture->memory.live);
        assert_int_equal(run(ctx, net, x, &y), 2);
        assert_int_equal(atomic_load(&fixture->memory.live), live + 1); /* y */
        CHECK_OK(ctx, module_forward(ctx, other, x, &wanted));
        double difference = -1;
        CHECK_OK(ctx, tensor_max_rel_diff(ctx, y, wanted, &difference));
        assert_true(difference < 1e-5);
        tensor_release(wanted);
        tensor_release(y);
        CHECK_OK(ctx, tensor_fill(ctx, module_parameter(other, "0.weight"), 0.5));
    }
    tensor_release(x);
    module_release(other);
    module_release(net);
}

static void dense_makes_blocked_parameters_plain_and_keeps_ties(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make(ctx);
    tensor_t *blocked = NULL;
    CHECK_OK(ctx, to_mkldnn(ctx, module_parameter(net, "1.weight"), &blocked));
    CHECK_OK(ctx, module_set_parameter(ctx, module_child(net, "1"), "weight", blocked));
    CHECK_OK(ctx, module_set_parameter(ctx, module_child(net, "2"), "weight", blocked));
    tensor_release(blocked);
    CHECK_OK(ctx, module_dense(ctx, net));
    assert_int_equal(tensor_layout(module_parameter(net, "1.weight")), LAYOUT_DENSE);
    assert_ptr_equal(module_parameter(net, "1.weight"), module_parameter(net, "2.weight"));
    module_release(net);
}

static status_t convert_both_ways(context_t *ctx)
{
    module_t *net = NULL;
    tensor_t *x = NULL;
    TRY(scope_begin(ctx));
    status_t status = layer_linear(ctx, 4, 4, true, &net);
    if (status == STATUS_OK) status = tensor_randn(ctx, DTYPE_F32, SHAPE(2, 4), &x);
    mkldnn_options_t options = {.example = (const tensor_t *const[]){x, NULL}};
    if (status == STATUS_OK) status = module_mkldnn(ctx, net, &options);
    if (status == STATUS_OK) status = module_dense(ctx, net);
    module_release(net);
    status_t ended = scope_end(ctx);
    return status != STATUS_OK ? status : ended;
}

static void conversion_survives_every_failed_allocation(void **state)
{
    (void)state;
    check_every_allocation(convert_both_ways);
}

/* ---- layers that are skipped ---- */

/* The layouts of the results of a Sequential's children. */
typedef struct seen {
    char path[16];
    layout_t layouts[3];
} seen_t;

static void enter(context_t *ctx, void *user, const char *name)
{
    (void)ctx;
    snprintf(((seen_t *)user)->path, sizeof((seen_t *)user)->path, "%s", name);
}

static status_t note_layout(context_t *ctx, void *user, const op_event_t *event)
{
    (void)ctx;
    seen_t *seen = user;
    seen->layouts[seen->path[0] - '0'] = tensor_layout(event->out[0]);
    return STATUS_OK;
}

/* Runs the net and checks the layouts of its children's results. The policy must not change. */
static void check_layouts(context_t *ctx, module_t *net, layout_t first, layout_t second,
                          layout_t third)
{
    seen_t seen = {.path = ""};
    observer_t observer = {.user = &seen, .op_end = note_layout, .module_enter = enter};
    tensor_t *x = image(ctx), *out = NULL;
    CHECK_OK(ctx, dispatch_add_observer(ctx, &observer));
    CHECK_OK(ctx, module_forward(ctx, net, x, &out));
    dispatch_remove_observer(ctx, &observer);
    assert_int_equal(seen.layouts[0], first);
    assert_int_equal(seen.layouts[1], second);
    assert_int_equal(seen.layouts[2], third);
    assert_int_equal(dispatch_policy(ctx), POLICY_AUTO);
    tensor_release(out);
    tensor_release(x);
}

static void skipped_modules_compute_dense(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make(ctx);
    mkldnn_options_t options = {.skip = (const char *const[]){"1", NULL}};
    CHECK_OK(ctx, module_mkldnn(ctx, net, &options));
    check_layouts(ctx, net, LAYOUT_MKLDNN, LAYOUT_DENSE, LAYOUT_MKLDNN);
    text_t text = text_begin(ctx);
    CHECK_OK(ctx, module_print(ctx, net, &text));
    const char *printed = strstr(text_string(&text), "\n  1: Conv2d");
    assert_non_null(printed);
    assert_true(strstr(printed, ", dense\n") < strstr(printed, "\n  2: Conv2d"));
    text_clear(&text);
    CHECK_OK(ctx, module_mkldnn(ctx, net, NULL)); /* skips nothing any more */
    check_layouts(ctx, net, LAYOUT_MKLDNN, LAYOUT_MKLDNN, LAYOUT_MKLDNN);
    CHECK_OK(ctx, module_mkldnn(ctx, net, &options));
    CHECK_OK(ctx, module_dense(ctx, net));
    check_layouts(ctx, net, LAYOUT_MKLDNN, LAYOUT_MKLDNN, LAYOUT_MKLDNN);
    module_release(net);
}

/* A skipped layer runs with another policy. The policy must be restored if the layer fails. */
static void a_skipped_layer_that_fails_leaves_the_policy(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make(ctx);
    tensor_t *wrong = NULL;
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(1, 3, 8, 8), &wrong));
    mkldnn_options_t options = {.skip = (const char *const[]){"*", NULL},
                                .example = (const tensor_t *const[]){wrong, NULL}};
    CHECK_FAILS(ctx, module_mkldnn(ctx, net, &options), STATUS_INVALID_ARGUMENT,
                "needs 16 input channels");
    assert_int_equal(dispatch_policy(ctx), POLICY_AUTO);
    check_layouts(ctx, net, LAYOUT_MKLDNN, LAYOUT_MKLDNN, LAYOUT_MKLDNN);
    tensor_release(wrong);
    module_release(net);
}

static void a_star_in_a_path_stands_for_any_text(void **state)
{
    context_t *ctx = fixture_context(state);
    static const struct {
        const char *pattern;
        bool is_skipped[3];
    } cases[] = {{"0.1", {false, true, false}},   {"*.1", {false, true, false}},
                 {"0.*", {true, true, true}},     {"*2", {false, false, true}},
                 {"*0*", {true, true, true}},     {"0*", {true, true, true}},
                 {"0.**1", {false, true, false}}, {"*.0", {true, false, false}}};
    module_t *net = make(ctx), *outer = NULL;
    CHECK_OK(ctx, layer_sequential(ctx, &outer));
    CHECK_OK(ctx, layer_append_take(ctx, outer, net));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mkldnn_options_t options = {.skip = (const char *const[]){cases[i].pattern, NULL}};
        CHECK_OK(ctx, module_mkldnn(ctx, outer, &options));
        for (int j = 0; j < 3; j++) {
            const char path[] = {(char)('0' + j), '.', 'b', 'i', 'a', 's', '\0'};
            assert_int_equal(is_marked(net, path), !cases[i].is_skipped[j]);
        }
        CHECK_OK(ctx, module_dense(ctx, outer));
    }
    mkldnn_options_t options = {.skip = (const char *const[]){"*.7", NULL}};
    CHECK_FAILS(ctx, module_mkldnn(ctx, outer, &options), STATUS_INVALID_ARGUMENT,
                "module_mkldnn: skip \"*.7\" matches no module of Sequential");
    assert_false(is_marked(net, "1.weight"));
    module_release(outer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_parameter_is_marked_and_dense_takes_it_back),
        TEST(skipped_modules_stay_unmarked),
        TEST(skipped_modules_compute_dense),
        TEST(a_skipped_layer_that_fails_leaves_the_policy),
        TEST(a_star_in_a_path_stands_for_any_text),
        TEST(a_path_that_does_not_exist_is_named_and_nothing_is_marked),
        TEST(weights_are_packed_once_and_kept),
        TEST(an_example_packs_at_once),
        TEST(an_example_that_fails_leaves_the_model_as_it_was),
        TEST(writing_a_weight_is_seen_by_the_next_run),
        TEST(a_weight_is_trained_in_its_packed_form_and_saved_in_its_plain_one),
        TEST(an_example_that_fails_late_gives_plain_bytes_back),
        TEST(values_that_are_loaded_are_packed_into_the_same_bytes),
        TEST(dense_makes_blocked_parameters_plain_and_keeps_ties),
        TEST(conversion_survives_every_failed_allocation),
    };
    return cmocka_run_group_tests_name("mkldnn", tests, NULL, NULL);
}
