#include "tests/support/support.h"

#include <string.h>

#include "module/layers/layers.h"
#include "module/module_impl.h"
#include "tensor/convert/convert.h"
#include "tensor/scope.h"
#include "tensor/tensor_impl.h"

/* ---- forwards ---- */

static status_t forward_twice(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                              int *n_out, tensor_t **out)
{
    (void)self;
    (void)n_in;
    tensor_t *copy = NULL, *unused = NULL;
    TRY(tensor_zeros(ctx, DTYPE_F32, SHAPE(1000), &unused));
    TRY(tensor_clone(ctx, in[0], &copy));
    out[0] = copy;
    TRY(tensor_clone(ctx, copy, &out[1]));
    *n_out = 2;
    return STATUS_OK;
}

static status_t forward_clone(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                              int *n_out, tensor_t **out)
{
    (void)self;
    (void)n_in;
    (void)n_out;
    return tensor_clone(ctx, in[0], out);
}

static status_t forward_given_input(context_t *ctx, module_t *self, int n_in,
                                    const tensor_t *const *in, int *n_out, tensor_t **out)
{
    (void)self;
    (void)n_in;
    (void)n_out;
    return tensor_contiguous(ctx, in[0], out);
}

static status_t forward_retained_weight(context_t *ctx, module_t *self, int n_in,
                                        const tensor_t *const *in, int *n_out, tensor_t **out)
{
    (void)ctx;
    (void)n_in;
    (void)in;
    (void)n_out;
    *out = tensor_retain(module_parameter(self, "weight"));
    return STATUS_OK;
}

/* Checks no status: the scope reports the first failure. */
static status_t forward_careless(context_t *ctx, module_t *self, int n_in,
                                 const tensor_t *const *in, int *n_out, tensor_t **out)
{
    (void)self;
    (void)n_in;
    (void)n_out;
    tensor_t *view = NULL;
    tensor_view(ctx, in[0], SHAPE(7), &view);
    tensor_clone(ctx, view, out);
    return STATUS_OK;
}

static status_t forward_nothing(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                                int *n_out, tensor_t **out)
{
    (void)ctx;
    (void)self;
    (void)n_in;
    (void)in;
    (void)n_out;
    (void)out;
    return STATUS_OK;
}

static status_t forward_child(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                              int *n_out, tensor_t **out)
{
    (void)n_in;
    *n_out = 1;
    return module_run_child(ctx, self, "inner", in[0], out);
}

/* A method with a state. Returns the state, and the method's first argument if it has one. */
static status_t run_pair(context_t *ctx, module_t *self, void *state, int n_in, datum_t *const *in,
                         int *n_out, datum_t **out)
{
    (void)self;
    datum_t *number = NULL;
    TRY(datum_int(ctx, *(int *)state, &number));
    out[0] = number;
    *n_out = 1;
    if (n_in > 0) out[(*n_out)++] = datum_retain(in[0]);
    return STATUS_OK;
}

static int n_released;

static void release_pair(void *state)
{
    (void)state;
    n_released++;
}

static const method_class_t pair_methods = {
    .name = "pair", .run = run_pair, .release = release_pair};

/* ---- building blocks ---- */

static module_t *make(context_t *ctx, const char *type, forward_t forward)
{
    module_t *module = NULL;
    CHECK_OK(ctx, module_create(ctx, type, &module));
    if (forward != NULL) CHECK_OK(ctx, module_set_forward(ctx, module, "forward", forward));
    return module;
}

static tensor_t *numbers(context_t *ctx, int64_t n)
{
    tensor_t *tensor = NULL;
    CHECK_OK(ctx, tensor_arange(ctx, DTYPE_F32, n, 1, &tensor));
    return tensor;
}

static void put_take(context_t *ctx, module_t *module, const char *name, module_t *child)
{
    CHECK_OK(ctx, module_set_child(ctx, module, name, child));
    module_release(child);
}

static void parameter_take(context_t *ctx, module_t *module, const char *name, tensor_t *tensor)
{
    CHECK_OK(ctx, module_set_parameter(ctx, module, name, tensor));
    tensor_release(tensor);
}

/* Makes Net(layer1: Block(conv1: Layer(weight, no bias)), conv9). */
static module_t *make_net(context_t *ctx)
{
    module_t *net = make(ctx, "Net", NULL), *block = make(ctx, "Block", NULL);
    module_t *layer = make(ctx, "Layer", forward_clone);
    parameter_take(ctx, layer, "weight", numbers(ctx, 6));
    CHECK_OK(ctx, module_set_parameter(ctx, layer, "bias", NULL));
    put_take(ctx, block, "conv1", layer);
    put_take(ctx, net, "layer1", block);
    put_take(ctx, net, "conv9", make(ctx, "Layer", forward_clone));
    return net;
}

static int references(tensor_t *tensor)
{
    return atomic_load(&tensor->n_references);
}

/* ---- members ---- */

static void members_are_found_by_dotted_paths(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_net(ctx);
    assert_string_equal(module_type(module_child(net, "layer1.conv1")), "Layer");
    assert_int_equal(tensor_numel(module_parameter(net, "layer1.conv1.weight")), 6);
    assert_null(module_parameter(net, "layer1.conv1.bias"));
    assert_null(module_parameter(net, "layer1.conv1"));
    assert_null(module_parameter(net, "layer1.conv.weight"));
    assert_null(module_child(net, "layer1."));
    assert_null(module_child(net, ""));
    assert_false(datum_as_bool(module_attribute(net, "layer1.training")));
    module_release(net);
}

static void members_of_every_kind_are_set_by_dotted_paths(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_net(ctx), *conv = module_child(net, "layer1.conv1");
    module_t *child = make(ctx, "Layer", forward_clone);
    tensor_t *x = numbers(ctx, 3), *y = NULL;
    datum_t *version = NULL;
    int n_members = module_n_members(net), n_in_conv = module_n_members(conv);
    CHECK_OK(ctx, datum_int(ctx, 7, &version));
    CHECK_OK(ctx, module_set_parameter(ctx, net, "layer1.conv1.weight", x));
    assert_ptr_equal(module_parameter(conv, "weight"), x);
    assert_int_equal(module_n_members(conv), n_in_conv);
    CHECK_OK(ctx, module_set_buffer(ctx, net, "layer1.conv1.mean", x));
    assert_ptr_equal(module_buffer(conv, "mean"), x);
    CHECK_OK(ctx, module_set_attribute(ctx, net, "layer1.conv1.version", version));
    assert_ptr_equal(module_attribute(conv, "version"), version);
    CHECK_OK(ctx, module_set_child(ctx, net, "layer1.conv1.inner", child));
    assert_ptr_equal(module_child(conv, "inner"), child);
    CHECK_OK(ctx, module_set_forward(ctx, net, "layer1.conv1.inner.again", forward_clone));
    assert_non_null(module_method(child, "again", NULL));
    CHECK_OK(ctx, module_run_child(ctx, net, "layer1.conv1.inner", x, &y));
    CHECK_OK(ctx, module_remove(ctx, net, "layer1.conv1.mean"));
    assert_null(module_buffer(conv, "mean"));
    assert_int_equal(module_n_members(net), n_members);
    CHECK_FAILS(ctx,
                module_set_child(ctx, net, "layer1.conv1.inner.up", module_child(net, "layer1")),
                STATUS_INVALID_ARGUMENT,
                "child \"up\" of Layer contains the module itself, a tree must not have cycles");
    tensor_release(y);
    tensor_release(x);
    datum_release(version);
    module_release(child);
    module_release(net);
}

static void a_path_that_leads_nowhere_is_refused_by_the_part_that_is_missing(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_net(ctx);
    tensor_t *x = numbers(ctx, 3);
    CHECK_FAILS(ctx, module_set_parameter(ctx, net, "fc.weight", x), STATUS_INVALID_ARGUMENT,
                "module: \"fc\" is no child of Net, it has layer1, conv9");
    CHECK_FAILS(ctx, module_set_buffer(ctx, net, "layer1.conv2.mean", x), STATUS_INVALID_ARGUMENT,
                "module: \"conv2\" is no child of Block, it has conv1");
    CHECK_FAILS(ctx, module_set_parameter(ctx, net, "layer1.conv1.weight.x", x),
                STATUS_INVALID_ARGUMENT, "module: \"weight\" is no child of Layer");
    CHECK_FAILS(ctx, module_set_child(ctx, net, "layer7.conv1", net), STATUS_INVALID_ARGUMENT,
                "module: \"layer7\" is no child of Net");
    CHECK_FAILS(ctx, module_remove(ctx, net, "fc.weight"), STATUS_INVALID_ARGUMENT,
                "module: \"fc\" is no child of Net");
    CHECK_FAILS(ctx, module_set_parameter(ctx, net, "layer1.conv1.", x), STATUS_INVALID_ARGUMENT,
                "a parameter of Layer without a name");
    assert_null(module_parameter(net, "fc.weight"));
    assert_int_equal(references(x), 1);
    tensor_release(x);
    module_release(net);
}

static void members_are_listed_in_order_of_setting(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make(ctx, "Net", NULL);
    tensor_t *x = numbers(ctx, 1);
    CHECK_OK(ctx, module_set_parameter(ctx, net, "b", x));
    CHECK_OK(ctx, module_set_buffer(ctx, net, "a", x));
    CHECK_OK(ctx, module_set_parameter(ctx, net, "b", NULL));
    CHECK_OK(ctx, module_set_forward(ctx, net, "forward", forward_clone));
    const char *names[] = {"training", "b", "a", "forward"};
    const member_kind_t kinds[] = {MEMBER_ATTRIBUTE, MEMBER_PARAMETER, MEMBER_BUFFER,
                                   MEMBER_METHOD};
    assert_int_equal(module_n_members(net), 4);
    for (int i = 0; i < 4; i++) {
        member_kind_t kind;
        assert_string_equal(module_member(net, i, &kind), names[i]);
        assert_int_equal(kind, kinds[i]);
    }
    assert_null(module_member(net, 4, NULL));
    assert_null(module_parameter(net, "b"));
    tensor_release(x);
    module_release(net);
}

static void replacing_a_member_lets_the_old_one_go(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make(ctx, "Net", NULL);
    tensor_t *x = numbers(ctx, 1), *y = numbers(ctx, 2);
    CHECK_OK(ctx, module_set_parameter(ctx, net, "weight", x));
    assert_int_equal(references(x), 2);
    CHECK_OK(ctx, module_set_parameter(ctx, net, "weight", x));
    assert_int_equal(references(x), 2);
    CHECK_OK(ctx, module_set_parameter(ctx, net, "weight", y));
    assert_int_equal(references(x), 1);
    CHECK_OK(ctx, module_remove(ctx, net, "weight"));
    assert_int_equal(references(y), 1);
    CHECK_FAILS(ctx, module_remove(ctx, net, "weight"), STATUS_INVALID_ARGUMENT,
                "module: \"weight\" is no member of Net");
    tensor_release(x);
    tensor_release(y);
    module_release(net);
}

static void a_name_belongs_to_one_kind_of_member(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_net(ctx);
    tensor_t *x = numbers(ctx, 1);
    CHECK_FAILS(ctx, module_set_parameter(ctx, net, "layer1", x), STATUS_INVALID_ARGUMENT,
                "module: parameter \"layer1\" of Net, the name belongs to another kind of member: "
                "child");
    CHECK_FAILS(ctx, module_set_forward(ctx, net, "training", forward_clone),
                STATUS_INVALID_ARGUMENT, "another kind of member: attribute");
    CHECK_FAILS(ctx, module_set_parameter(ctx, net, "", x), STATUS_INVALID_ARGUMENT,
                "without a name");
    assert_int_equal(references(x), 1);
    tensor_release(x);
    module_release(net);
}

static void a_module_cannot_stand_inside_itself(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_net(ctx);
    CHECK_FAILS(
        ctx, module_set_child(ctx, module_child(net, "layer1.conv1"), "up", net),
        STATUS_INVALID_ARGUMENT,
        "module: child \"up\" of Layer contains the module itself, a tree must not have cycles");
    module_release(net);
}

static void null_arguments_pass_on_the_first_failure(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = NULL;
    tensor_t *out = NULL;
    CHECK_FAILS(ctx, module_forward(ctx, NULL, NULL, &out), STATUS_INVALID_ARGUMENT,
                "module_forward: module is NULL");
    context_clear_error(ctx);
    CHECK_FAILS(ctx, layer_conv2d(ctx, 3, 7, 3, &(conv_attrs_t){.groups = 2}, true, &net),
                STATUS_INVALID_ARGUMENT, "3 to 7 channels in 2 groups");
    assert_null(net);
    CHECK_FAILS(ctx, module_set_child(ctx, NULL, "conv", net), STATUS_INVALID_ARGUMENT,
                "3 to 7 channels in 2 groups");
    CHECK_FAILS(ctx, module_forward(ctx, net, NULL, &out), STATUS_INVALID_ARGUMENT,
                "3 to 7 channels in 2 groups");
    assert_null(module_type(NULL));
    assert_null(module_parameter(NULL, "weight"));
    assert_int_equal(module_n_members(NULL), 0);
    module_release(NULL);
}

/* ---- methods ---- */

static void a_c_method_keeps_its_results_and_releases_the_rest(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make(ctx, "Net", forward_twice);
    tensor_t *x = numbers(ctx, 5), *out[METHOD_MAX_OUTPUTS] = {NULL};
    const tensor_t *in[] = {x};
    long before = atomic_load(&((fixture_t *)*state)->memory.live);
    int n_out = 0;
    CHECK_OK(ctx, module_call_tensors(ctx, net, "forward", 1, in, &n_out, out));
    assert_int_equal(n_out, 2);
    assert_int_equal(references(out[0]), 1);
    assert_int_equal(references(out[1]), 1);
    double difference = -1;
    CHECK_OK(ctx, tensor_max_rel_diff(ctx, out[1], x, &difference));
    assert_true(difference == 0);
    tensor_release(out[0]);
    tensor_release(out[1]);
    assert_int_equal(atomic_load(&((fixture_t *)*state)->memory.live), before);
    tensor_release(x);
    module_release(net);
}

static void results_in_a_scope_belong_to_the_scope(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make(ctx, "Net", forward_clone);
    tensor_t *x = NULL, *y = NULL, *z = NULL;
    CHECK_OK(ctx, scope_begin(ctx));
    x = numbers(ctx, 5);
    CHECK_OK(ctx, module_forward(ctx, net, x, &y));
    CHECK_OK(ctx, module_forward(ctx, net, y, &z));
    scope_keep(ctx, z);
    CHECK_OK(ctx, scope_end(ctx));
    assert_int_equal(references(z), 1);
    tensor_release(z);
    module_release(net);
}

static void a_result_may_be_the_input_or_a_weight(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *same = make(ctx, "Same", forward_given_input);
    module_t *weight = make(ctx, "Weight", forward_retained_weight);
    tensor_t *x = numbers(ctx, 5), *y = NULL, *z = NULL;
    CHECK_OK(ctx, module_set_parameter(ctx, weight, "weight", x));
    CHECK_OK(ctx, module_forward(ctx, same, x, &y));
    assert_ptr_equal(x, y);
    CHECK_OK(ctx, module_forward(ctx, weight, x, &z));
    assert_ptr_equal(x, z);
    assert_int_equal(references(x), 4);
    tensor_release(y);
    tensor_release(z);

    CHECK_OK(ctx, scope_begin(ctx));
    CHECK_OK(ctx, module_forward(ctx, same, x, &y));
    CHECK_OK(ctx, module_forward(ctx, weight, y, &z));
    assert_int_equal(references(x), 4);
    CHECK_OK(ctx, scope_end(ctx));
    assert_int_equal(references(x), 2);
    tensor_release(x);
    module_release(same);
    module_release(weight);
}

static void a_forward_that_checks_nothing_reports_its_first_failure(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make(ctx, "Net", forward_careless);
    tensor_t *x = numbers(ctx, 5), *y = NULL;
    CHECK_FAILS(ctx, module_forward(ctx, net, x, &y), STATUS_INVALID_ARGUMENT, "view");
    assert_null(y);
    CHECK_OK(ctx, module_set_forward(ctx, net, "forward", forward_nothing));
    CHECK_FAILS(ctx, module_forward(ctx, net, x, &y), STATUS_INVALID_ARGUMENT,
                "module: forward of Net returned NULL as one of 1 results");
    CHECK_OK(ctx, module_set_forward(ctx, net, "forward", forward_twice));
    CHECK_FAILS(ctx, module_forward(ctx, net, x, &y), STATUS_INVALID_ARGUMENT,
                "module: forward of Net returned 2 results, module_forward needs one");
    tensor_release(x);
    module_release(net);
}

static void a_missing_child_is_named_with_the_existing_ones(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_net(ctx);
    tensor_t *x = numbers(ctx, 5), *y = NULL;
    CHECK_FAILS(ctx, module_run_child(ctx, net, "layer5", x, &y), STATUS_INVALID_ARGUMENT,
                "module: \"layer5\" is no child of Net, it has layer1, conv9");
    CHECK_FAILS(ctx, module_run_child(ctx, net, "layer1.conv2", x, &y), STATUS_INVALID_ARGUMENT,
                "module: \"conv2\" is no child of Block, it has conv1");
    CHECK_FAILS(ctx, module_run_child(ctx, net, "layer7.conv2", x, &y), STATUS_INVALID_ARGUMENT,
                "module: \"layer7\" is no child of Net");
    CHECK_FAILS(ctx, module_forward(ctx, net, x, &y), STATUS_INVALID_ARGUMENT,
                "module: \"forward\" is no method of Net, it has none");
    CHECK_OK(ctx, module_set_forward(ctx, net, "forward", forward_clone));
    CHECK_FAILS(ctx, module_call(ctx, net, "predict", 0, NULL, &(int){0}, &(datum_t *){NULL}),
                STATUS_INVALID_ARGUMENT, "module: \"predict\" is no method of Net, it has forward");
    tensor_release(x);
    module_release(net);
}

static void a_long_list_of_names_is_cut(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make(ctx, "Net", NULL), *layer = make(ctx, "Layer", NULL);
    char name[32] = "a_rather_long_name_of_a_child_00";
    for (int i = 0; i < 40; i++) {
        name[29] = (char)('0' + i / 10);
        name[30] = (char)('0' + i % 10);
        name[31] = '\0';
        CHECK_OK(ctx, module_set_child(ctx, net, name, layer));
    }
    tensor_t *x = numbers(ctx, 5), *y = NULL;
    CHECK_FAILS(ctx, module_run_child(ctx, net, "x", x, &y), STATUS_INVALID_ARGUMENT, "child00, ");
    size_t length = strlen(context_error(ctx));
    assert_string_equal(context_error(ctx) + length - 5, ", ...");
    tensor_release(x);
    module_release(layer);
    module_release(net);
}

static void methods_pass_datums_and_tensors_both_ways(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make(ctx, "Net", forward_clone);
    static int number = 7;
    n_released = 0;
    CHECK_OK(ctx, module_set_method_take(ctx, net, "pair", &pair_methods, &number));
    tensor_t *x = numbers(ctx, 5), *tensors[METHOD_MAX_OUTPUTS] = {NULL};
    const tensor_t *in[] = {x};
    datum_t *wrapped = NULL, *seven = NULL, *out[METHOD_MAX_OUTPUTS] = {NULL};
    int n_out = 0;
    CHECK_OK(ctx, datum_tensor(ctx, x, &wrapped));
    CHECK_OK(ctx, datum_int(ctx, 7, &seven));

    CHECK_OK(ctx, module_call(ctx, net, "forward", 1, &wrapped, &n_out, out));
    assert_int_equal(n_out, 1);
    assert_int_equal(tensor_numel(datum_as_tensor(out[0])), 5);
    datum_release(out[0]);
    CHECK_FAILS(ctx, module_call(ctx, net, "forward", 1, &seven, &n_out, out),
                STATUS_INVALID_ARGUMENT,
                "module: argument 0 to a C method of Net is int, must be a tensor");

    CHECK_OK(ctx, module_call(ctx, net, "pair", 1, &seven, &n_out, out));
    assert_int_equal(n_out, 2);
    assert_int_equal(datum_as_int(out[0]), 7);
    assert_ptr_equal(out[1], seven);
    datum_release(out[0]);
    datum_release(out[1]);
    CHECK_FAILS(ctx, module_call_tensors(ctx, net, "pair", 1, in, &n_out, tensors),
                STATUS_INVALID_ARGUMENT,
                "module: result 0 of pair of Net is int, only module_call can return that");
    assert_int_equal(references(x), 2);
    assert_int_equal(n_released, 0);
    datum_release(wrapped);
    datum_release(seven);
    tensor_release(x);
    module_release(net);
    assert_int_equal(n_released, 1);
}

static void a_method_that_cannot_be_set_lets_its_state_go(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make(ctx, "Net", NULL);
    static int number = 7;
    void *found = NULL;
    n_released = 0;
    CHECK_FAILS(ctx, module_set_method_take(ctx, net, "training", &pair_methods, &number),
                STATUS_INVALID_ARGUMENT, "training");
    assert_int_equal(n_released, 1);
    CHECK_OK(ctx, module_set_method_take(ctx, net, "forward", &pair_methods, &number));
    assert_ptr_equal(module_method(net, "forward", &found), &pair_methods);
    assert_ptr_equal(found, &number);
    CHECK_OK(ctx, module_set_forward(ctx, net, "forward", forward_clone));
    assert_int_equal(n_released, 2);
    assert_string_equal(module_method(net, "forward", &found)->name, "c");
    assert_null(module_method(net, "backward", &found));
    module_release(net);
}

typedef struct log {
    char text[256];
} log_t;

static void note_enter(context_t *ctx, void *user, const char *path)
{
    (void)ctx;
    strcat(((log_t *)user)->text, "+");
    strcat(((log_t *)user)->text, path);
}

static void note_leave(context_t *ctx, void *user, const char *path)
{
    (void)ctx;
    strcat(((log_t *)user)->text, "-");
    strcat(((log_t *)user)->text, path);
}

static void observers_see_children_enter_and_leave_also_when_they_fail(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make(ctx, "Net", forward_child);
    module_t *inner = make(ctx, "Inner", forward_child);
    put_take(ctx, inner, "inner", make(ctx, "Leaf", forward_clone));
    put_take(ctx, net, "inner", inner);
    log_t log = {""};
    observer_t observer = {.user = &log, .module_enter = note_enter, .module_leave = note_leave};
    CHECK_OK(ctx, dispatch_add_observer(ctx, &observer));
    tensor_t *x = numbers(ctx, 5), *y = NULL;
    CHECK_OK(ctx, module_forward(ctx, net, x, &y));
    assert_string_equal(log.text, "+inner+inner-inner-inner");
    tensor_release(y);
    log.text[0] = '\0';
    CHECK_OK(ctx, module_set_forward(ctx, inner, "forward", forward_careless));
    CHECK_FAILS(ctx, module_forward(ctx, net, x, &y), STATUS_INVALID_ARGUMENT, "view");
    assert_string_equal(log.text, "+inner-inner");
    dispatch_remove_observer(ctx, &observer);
    tensor_release(x);
    module_release(net);
}

/* ---- trees ---- */

static status_t note_path(context_t *ctx, void *user, const char *path, module_t *module)
{
    (void)ctx;
    strcat(((log_t *)user)->text, path);
    strcat(((log_t *)user)->text, ":");
    strcat(((log_t *)user)->text, module_type(module));
    strcat(((log_t *)user)->text, " ");
    return STATUS_OK;
}

static status_t stop(context_t *ctx, void *user, const char *path, module_t *module)
{
    (void)module;
    ++*(int *)user;
    if (strcmp(path, "layer1") == 0) FAIL(ctx, STATUS_UNSUPPORTED, "stop: here");
    return STATUS_OK;
}

static void a_walk_visits_each_module_once_parents_first(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_net(ctx);
    CHECK_OK(ctx, module_set_child(ctx, net, "again", module_child(net, "layer1.conv1")));
    log_t log = {""};
    CHECK_OK(ctx, module_walk(ctx, net, note_path, &log));
    assert_string_equal(log.text, ":Net layer1:Block layer1.conv1:Layer conv9:Layer ");
    int n = 0;
    CHECK_FAILS(ctx, module_walk(ctx, net, stop, &n), STATUS_UNSUPPORTED, "stop: here");
    assert_int_equal(n, 2);
    module_release(net);
}

static status_t remove_children(context_t *ctx, void *user, const char *path, module_t *module)
{
    (void)path;
    ++*(int *)user;
    return module_child(module, "layer1") != NULL ? module_remove(ctx, module, "layer1")
                                                  : STATUS_OK;
}

static void a_visit_may_change_the_tree(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_net(ctx);
    int n = 0;
    CHECK_OK(ctx, module_walk(ctx, net, remove_children, &n));
    assert_int_equal(n, 4);
    assert_null(module_child(net, "layer1"));
    module_release(net);
}

static void training_is_switched_in_the_whole_tree(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_net(ctx);
    assert_false(module_is_training(net));
    CHECK_OK(ctx, module_train(ctx, net, true));
    assert_true(module_is_training(net));
    assert_true(module_is_training(module_child(net, "layer1.conv1")));
    CHECK_OK(ctx, module_train(ctx, net, false));
    assert_false(module_is_training(module_child(net, "layer1.conv1")));
    module_release(net);
}

static void a_clone_shares_inside_itself_and_nothing_with_the_original(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_net(ctx), *copy = NULL;
    module_t *layer = module_child(net, "layer1.conv1");
    tensor_t *weight = module_parameter(layer, "weight"), *view = NULL;
    datum_t *list = NULL, *one = NULL;
    CHECK_OK(ctx, tensor_view(ctx, weight, SHAPE(3, 2), &view));
    CHECK_OK(ctx, module_set_child(ctx, net, "again", layer));
    CHECK_OK(ctx, module_set_parameter(ctx, net, "tied", weight));
    CHECK_OK(ctx, module_set_buffer(ctx, net, "view", view));
    CHECK_OK(ctx, datum_list(ctx, 0, NULL, &list));
    CHECK_OK(ctx, datum_int(ctx, 1, &one));
    CHECK_OK(ctx, module_set_attribute(ctx, net, "list", list));

    CHECK_OK(ctx, module_clone(ctx, net, &copy));
    assert_ptr_equal(module_child(copy, "again"), module_child(copy, "layer1.conv1"));
    assert_ptr_not_equal(module_child(copy, "again"), layer);
    tensor_t *copied = module_parameter(copy, "layer1.conv1.weight");
    assert_ptr_equal(copied, module_parameter(copy, "tied"));
    assert_ptr_not_equal(copied->storage, weight->storage);
    assert_ptr_equal(copied->storage, module_buffer(copy, "view")->storage);
    double difference = -1;
    CHECK_OK(ctx, tensor_max_rel_diff(ctx, copied, weight, &difference));
    assert_true(difference == 0);
    CHECK_OK(ctx, datum_append(ctx, list, one));
    assert_int_equal(datum_length(module_attribute(copy, "list")), 0);
    assert_int_equal(module_n_members(copy), module_n_members(net));
    tensor_t *y = NULL;
    CHECK_OK(ctx, module_forward(ctx, module_child(copy, "again"), weight, &y));
    tensor_release(y);
    datum_release(one);
    datum_release(list);
    tensor_release(view);
    module_release(copy);
    module_release(net);
}

static void a_clone_has_plain_unmarked_weights(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_net(ctx), *copy = NULL;
    tensor_t *weight = module_parameter(net, "layer1.conv1.weight"), *blocked = NULL;
    CHECK_OK(ctx, to_mkldnn(ctx, weight, &blocked));
    CHECK_OK(ctx, module_set_buffer(ctx, net, "blocked", blocked));
    storage_set_packable(weight->storage, true);
    CHECK_OK(ctx, module_clone(ctx, net, &copy));
    assert_int_equal(tensor_layout(module_buffer(copy, "blocked")), LAYOUT_DENSE);
    assert_false(storage_is_packable(module_parameter(copy, "layer1.conv1.weight")->storage));
    tensor_release(blocked);
    module_release(copy);
    module_release(net);
}

static void a_method_without_clone_makes_cloning_fail(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_net(ctx), *copy = NULL;
    static int number = 7;
    CHECK_OK(ctx, module_set_method_take(ctx, net, "pair", &pair_methods, &number));
    CHECK_FAILS(ctx, module_clone(ctx, net, &copy), STATUS_UNSUPPORTED,
                "module: method \"pair\" of Net is of class pair, which cannot be cloned");
    assert_null(copy);
    module_release(net);
}

static void a_tree_prints_names_types_and_shapes(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_net(ctx);
    CHECK_OK(ctx, module_set_child(ctx, net, "again", module_child(net, "layer1.conv1")));
    text_t text = text_begin(ctx);
    CHECK_OK(ctx, module_print(ctx, net, &text));
    assert_string_equal(text_string(&text), "Net\n"
                                            "  layer1: Block\n"
                                            "    conv1: Layer weight f32[6] bias none\n"
                                            "  conv9: Layer\n"
                                            "  again: Layer, the one at layer1.conv1\n");
    text_clear(&text);
    module_release(net);
}

/* ---- memory ---- */

static status_t build_small(context_t *ctx, module_t **out_net)
{
    module_t *layer = NULL;
    tensor_t *weight = NULL;
    TRY(module_create(ctx, "Net", out_net));
    TRY(module_set_forward(ctx, *out_net, "forward", forward_clone));
    TRY(tensor_arange(ctx, DTYPE_F32, 6, 1, &weight));
    TRY(module_set_parameter(ctx, *out_net, "weight", weight));
    status_t status = module_create(ctx, "Layer", &layer);
    if (status == STATUS_OK) status = module_set_parameter(ctx, layer, "weight", weight);
    if (status == STATUS_OK) status = module_set_child(ctx, *out_net, "layer", layer);
    module_release(layer);
    return status;
}

static status_t use_small(context_t *ctx, module_t *net, module_t **out_copy, text_t *text)
{
    tensor_t *y = NULL;
    TRY(module_clone(ctx, net, out_copy));
    TRY(module_print(ctx, net, text));
    TRY(module_train(ctx, net, true));
    return module_forward(ctx, *out_copy, module_parameter(net, "weight"), &y);
}

static status_t build_and_use(context_t *ctx)
{
    module_t *net = NULL, *copy = NULL;
    text_t text = text_begin(ctx);
    TRY(scope_begin(ctx));
    status_t status = build_small(ctx, &net);
    if (status == STATUS_OK) status = use_small(ctx, net, &copy, &text);
    text_clear(&text);
    module_release(copy);
    module_release(net);
    status_t ended = scope_end(ctx);
    return status != STATUS_OK ? status : ended;
}

static void a_module_survives_every_failed_allocation(void **state)
{
    (void)state;
    check_every_allocation(build_and_use);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(members_are_found_by_dotted_paths),
        TEST(members_of_every_kind_are_set_by_dotted_paths),
        TEST(a_path_that_leads_nowhere_is_refused_by_the_part_that_is_missing),
        TEST(members_are_listed_in_order_of_setting),
        TEST(replacing_a_member_lets_the_old_one_go),
        TEST(a_name_belongs_to_one_kind_of_member),
        TEST(a_module_cannot_stand_inside_itself),
        TEST(null_arguments_pass_on_the_first_failure),
        TEST(a_c_method_keeps_its_results_and_releases_the_rest),
        TEST(results_in_a_scope_belong_to_the_scope),
        TEST(a_result_may_be_the_input_or_a_weight),
        TEST(a_forward_that_checks_nothing_reports_its_first_failure),
        TEST(a_missing_child_is_named_with_the_existing_ones),
        TEST(a_long_list_of_names_is_cut),
        TEST(methods_pass_datums_and_tensors_both_ways),
        TEST(a_method_that_cannot_be_set_lets_its_state_go),
        TEST(observers_see_children_enter_and_leave_also_when_they_fail),
        TEST(a_walk_visits_each_module_once_parents_first),
        TEST(a_visit_may_change_the_tree),
        TEST(training_is_switched_in_the_whole_tree),
        TEST(a_clone_shares_inside_itself_and_nothing_with_the_original),
        TEST(a_clone_has_plain_unmarked_weights),
        TEST(a_method_without_clone_makes_cloning_fail),
        TEST(a_tree_prints_names_types_and_shapes),
        TEST(a_module_survives_every_failed_allocation),
    };
    return cmocka_run_group_tests_name("module", tests, NULL, NULL);
}
