/* Preserved attributes, modules and methods stay, in the module and in its children. The tests of
 * PyTorch's class TestFreezing have the names that they have there. */
#include "freeze/freeze.h"

#include "tests/support/support.h"

#include <string.h>

#include "tests/support/nets/mini.h"

static void drop(module_t *net, module_t *frozen)
{
    module_release(frozen);
    module_release(net);
}

/* ---- attributes ---- */

static void freeze_module_with_user_preserved_attr(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = mini_module(ctx, "Net"), *frozen = NULL;
    mini_int(ctx, net, "version", 1);
    mini_int(ctx, net, "other", 2);
    mini_tensor(ctx, net, "w", 10.0);
    mini_define(ctx, net,
                MINI_METHOD("forward",
                            MINI_GET("w", "w") MINI_GET("v", "version") "%y = add(%w, %v)\n"
                                                                        "return %y\n"));
    CHECK_FAILS(
        ctx, freeze(ctx, net, &(freeze_options_t){.preserved = MINI_PATHS("w", "a.b.c")}, &frozen),
        STATUS_INVALID_ARGUMENT,
        "freeze: \"a.b.c\" is unknown, Net has no attribute, module or method of this name");
    frozen = mini_freeze(ctx, net, MINI_PATHS("version"));
    assert_int_equal(mini_n_left(ctx, frozen), 1);
    assert_true(mini_run(ctx, frozen, "forward", 0.0) == 11.0);
    mini_int(ctx, frozen, "version", 2);
    assert_true(mini_run(ctx, frozen, "forward", 0.0) == 12.0);
    mini_explains(ctx, frozen, "version: preserved by name\n");
    module_t *loaded = mini_reload(ctx, frozen);
    mini_explains(ctx, loaded, "version: preserved by name\n");
    mini_int(ctx, loaded, "version", 5);
    assert_true(mini_run(ctx, loaded, "forward", 0.0) == 15.0);
    module_release(loaded);
    drop(net, frozen);
}

/* The preserved attribute stays although no method reads it. Attributes that share its bytes stay,
 * too, because writes to one change the other. */
static void attributes_that_share_bytes_with_preserved_ones_stay(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = mini_module(ctx, "Net");
    tensor_t *a = mini_tensor(ctx, net, "a", 1.0), *view = NULL;
    CHECK_OK(ctx, tensor_view(ctx, a, SHAPE(1, 2), &view));
    mini_put(ctx, net, "b", MINI_LIST(ctx, 1, mini_wrap(ctx, view)));
    tensor_release(view);
    mini_define(ctx, net,
                MINI_METHOD("forward", MINI_GET("b", "b") "%i = index(%b, 0)\n"
                                                          "%v = reshape(%i) sizes=[2]\n"
                                                          "%y = add(%x, %v)\n"
                                                          "return %y\n"));
    module_t *frozen = mini_freeze(ctx, net, MINI_PATHS("a"));
    assert_int_equal(mini_n_left(ctx, frozen), 2);
    CHECK_OK(ctx, tensor_fill(ctx, module_parameter(frozen, "a"), 5.0));
    assert_true(mini_run(ctx, frozen, "forward", 1.0) == 6.0);
    mini_explains(ctx, frozen,
                  "a: preserved by name\n"
                  "b: shares bytes or lists with \"a\", which is preserved by name\n");
    drop(net, frozen);
}

/* forward reads sub1.a and sub1.b; it does not use sub2. */
static module_t *make_subs(context_t *ctx)
{
    module_t *net = mini_module(ctx, "Net");
    module_t *sub1 = mini_child(ctx, net, "sub1", "Sub"),
             *sub2 = mini_child(ctx, net, "sub2", "Sub");
    module_t *subs[] = {sub1, sub2};
    for (int i = 0; i < 2; i++) {
        mini_int(ctx, subs[i], "a", 1 + i);
        mini_int(ctx, subs[i], "b", 3 + i);
        mini_define(ctx, subs[i],
                    MINI_METHOD("method_a", MINI_GET("a", "a") "%y = add(%x, %a)\n"
                                                               "return %y\n"));
        mini_define(ctx, subs[i],
                    MINI_METHOD("method_b", MINI_GET("b", "b") "%c = scalar_add(%b, 1)\n" MINI_SET(
                                                "b", "c") "%y = add(%x, %c)\n"
                                                          "return %y\n"));
    }
    mini_define(ctx, net,
                MINI_METHOD("forward", MINI_GET("s", "sub1") MINI_GET("a", "sub1.a")
                                           MINI_GET("b", "sub1.b") "%y = add(%x, %a)\n"
                                                                   "%z = add(%y, %b)\n"
                                                                   "return %z\n"));
    return net;
}

static void freeze_module_with_user_preserved_attribute_on_submodule(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_subs(ctx), *frozen = mini_freeze(ctx, net, MINI_PATHS("sub1.a"));
    assert_int_equal(mini_n_left(ctx, frozen), 1);
    assert_true(mini_run(ctx, frozen, "forward", 2.0) == 6.0);
    mini_int(ctx, module_child(frozen, "sub1"), "a", 2);
    assert_true(mini_run(ctx, frozen, "forward", 2.0) == 7.0);
    module_t *loaded = mini_reload(ctx, frozen);
    assert_true(mini_run(ctx, loaded, "forward", 2.0) == 7.0);
    mini_explains(ctx, loaded, "sub1.a: preserved by name\n");
    module_release(loaded);
    drop(net, frozen);
}

static void freeze_module_with_user_preserved_attribute_on_unused_submodule(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_subs(ctx);
    module_t *frozen = mini_freeze(ctx, net, MINI_PATHS("sub2.a", "sub2.method_a"));
    assert_int_equal(mini_n_left(ctx, frozen), 1);
    assert_true(mini_has(frozen, "sub2.a") && mini_has(frozen, "sub2.method_a"));
    assert_false(mini_has(frozen, "sub1") || mini_has(frozen, "sub2.method_b"));
    assert_true(mini_run(ctx, frozen, "sub2.method_a", 1.0) == 3.0);
    mini_int(ctx, module_child(frozen, "sub2"), "a", 7);
    assert_true(mini_run(ctx, frozen, "sub2.method_a", 1.0) == 8.0);
    drop(net, frozen);
}

/* ---- modules ---- */

static void freeze_module_with_preserve_sub_module(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_subs(ctx), *frozen = mini_freeze(ctx, net, MINI_PATHS("sub1"));
    assert_int_equal(mini_n_left(ctx, frozen), 2);
    assert_true(mini_has(frozen, "sub1.a") && mini_has(frozen, "sub1.b"));
    assert_true(mini_has(frozen, "sub1.method_a") && mini_has(frozen, "sub1.method_b"));
    assert_false(mini_has(frozen, "sub2"));
    for (int i = 0; i < 3; i++) {
        mini_same(ctx, net, frozen, "forward", 1.0);
        mini_same(ctx, net, frozen, "sub1.method_b", 1.0);
    }
    mini_explains(ctx, frozen,
                  "sub1.a: part of \"sub1\", which is preserved by name\n"
                  "sub1.b: part of \"sub1\", which is preserved by name\n");
    drop(net, frozen);
}

static void freeze_module_with_preserve_sub_module_and_mutation(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_subs(ctx);
    mini_define(
        ctx, net,
        MINI_METHOD("forward",
                    MINI_GET("a", "sub2.a") "%b = scalar_add(%a, 10)\n" MINI_SET("sub2.a", "b")
                        MINI_GET("s", "sub1") "%y = call(%s, %x) method=\"method_a\"\n"
                                              "%z = add(%y, %b)\n"
                                              "return %z\n"));
    module_t *frozen = mini_freeze(ctx, net, MINI_PATHS("sub1"));
    /* PyTorch also keeps the unused sub2.b. */
    assert_int_equal(mini_n_left(ctx, frozen), 3);
    assert_true(mini_has(frozen, "sub2.a"));
    for (int i = 0; i < 3; i++) mini_same(ctx, net, frozen, "forward", 1.0);
    drop(net, frozen);
}

/* ---- methods ---- */

static module_t *make_two_methods(context_t *ctx)
{
    module_t *net = mini_module(ctx, "Net");
    mini_int(ctx, net, "a", 1);
    mini_int(ctx, net, "b", 2);
    mini_int(ctx, net, "c", 3);
    mini_define(ctx, net,
                MINI_METHOD("forward", MINI_GET("a", "a") MINI_GET("c", "c") "%y = add(%x, %a)\n"
                                                                             "%z = add(%y, %c)\n"
                                                                             "return %z\n"));
    mini_define(ctx, net,
                MINI_METHOD("modify_a", MINI_GET("a", "a") "%n = scalar_add(%a, 10)\n" MINI_SET(
                                            "a", "n") MINI_GET("b", "b") "%y = add(%x, %b)\n"
                                                                         "return %y\n"));
    mini_define(ctx, net, MINI_METHOD("modify_c", MINI_SET("c", "x") "return %x\n"));
    return net;
}

static void freeze_module_with_user_preserved_method(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_two_methods(ctx), *frozen = mini_freeze(ctx, net, MINI_PATHS("modify_a"));
    assert_int_equal(mini_n_left(ctx, frozen), 1);
    assert_true(mini_has(frozen, "a") && mini_has(frozen, "modify_a"));
    assert_false(mini_has(frozen, "modify_c"));
    for (int i = 0; i < 3; i++) {
        mini_same(ctx, net, frozen, "forward", 1.0);
        mini_same(ctx, net, frozen, "modify_a", 1.0);
    }
    drop(net, frozen);
    net = make_two_methods(ctx); /* forward alone changes no attribute */
    frozen = mini_freeze(ctx, net, NULL);
    assert_int_equal(mini_n_left(ctx, frozen), 0);
    mini_same(ctx, net, frozen, "forward", 1.0);
    drop(net, frozen);
}

/* If one of two preserved methods changes an attribute, it stays for both. */
static void freeze_module_with_user_preserved_method2(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = mini_module(ctx, "Net");
    mini_tensor(ctx, net, "a", 1.0);
    mini_tensor(ctx, net, "b", 2.0);
    mini_define(ctx, net,
                MINI_METHOD("forward", MINI_GET("a", "a") MINI_GET("b", "b") "%v = add_(%b, %x)\n"
                                                                             "%y = add(%v, %a)\n"
                                                                             "return %y\n"));
    mini_define(
        ctx, net,
        MINI_METHOD("modify_a", MINI_GET("b", "b") MINI_GET("a", "a") "%n = add(%a, %b)\n" MINI_SET(
                                    "a", "n") "return %n\n"));
    module_t *frozen = mini_freeze(ctx, net, MINI_PATHS("modify_a"));
    assert_int_equal(mini_n_left(ctx, frozen), 2);
    assert_true(mini_says(ctx, frozen, "forward", "%a = getattr(%self) name=\"a\""));
    assert_true(mini_says(ctx, frozen, "modify_a", "%b = getattr(%self) name=\"b\""));
    for (int i = 0; i < 3; i++) {
        mini_same(ctx, net, frozen, "forward", 1.0);
        mini_same(ctx, net, frozen, "modify_a", 1.0);
    }
    drop(net, frozen);
}

static void freeze_module_with_user_preserved_method_on_submodule(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_subs(ctx), *frozen = mini_freeze(ctx, net, MINI_PATHS("sub1.method_a"));
    assert_true(mini_has(frozen, "sub1.method_a"));
    assert_false(mini_has(frozen, "sub1.method_b") || mini_has(frozen, "sub2"));
    assert_int_equal(mini_n_left(ctx, frozen), 0);
    assert_false(mini_says(ctx, module_child(frozen, "sub1"), "method_a", "getattr"));
    mini_same(ctx, net, frozen, "sub1.method_a", 1.0);
    drop(net, frozen);
    frozen = NULL; /* method_b changes an attribute of forward, which stays */
    net = make_subs(ctx);
    frozen = mini_freeze(ctx, net, MINI_PATHS("sub1.method_b"));
    assert_int_equal(mini_n_left(ctx, frozen), 1);
    for (int i = 0; i < 3; i++) {
        mini_same(ctx, net, frozen, "forward", 1.0);
        mini_same(ctx, net, frozen, "sub1.method_b", 1.0);
    }
    drop(net, frozen);
}

static void freeze_module_with_call_method(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = mini_module(ctx, "Net");
    mini_int(ctx, net, "value", 5);
    mini_define(ctx, net,
                MINI_METHOD("forward", MINI_GET("v", "value") "%y = add(%x, %v)\n"
                                                              "return %y\n"));
    mini_define(ctx, net,
                MINI_METHOD("foo", "%y = call(%self, %x) method=\"forward\"\n"
                                   "%z = mul(%y, 2.0)\n"
                                   "return %z\n"));
    module_t *frozen = mini_freeze(ctx, net, MINI_PATHS("foo"));
    assert_int_equal(mini_n_left(ctx, frozen), 0);
    assert_false(mini_says(ctx, frozen, "foo", "call"));
    assert_true(mini_run(ctx, frozen, "forward", 1.0) == 6.0);
    assert_true(mini_run(ctx, frozen, "foo", 1.0) == 12.0);
    drop(net, frozen);
}

static void freeze_module_no_forward(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = mini_module(ctx, "Net"), *frozen = NULL;
    mini_int(ctx, net, "a", 5);
    mini_define(ctx, net,
                MINI_METHOD("foo", MINI_GET("a", "a") "%y = mul(%x, %a)\n"
                                                      "return %y\n"));
    CHECK_FAILS(ctx, freeze(ctx, net, NULL, &frozen), STATUS_INVALID_ARGUMENT,
                "freeze: no method of Net has a graph, use graph_trace or graph_define");
    CHECK_FAILS(ctx, freeze(ctx, net, &(freeze_options_t){.preserved = MINI_PATHS("a")}, &frozen),
                STATUS_INVALID_ARGUMENT,
                "freeze: no method of Net has a graph, use graph_trace or graph_define");
    frozen = mini_freeze(ctx, net, MINI_PATHS("foo"));
    assert_int_equal(mini_n_left(ctx, frozen), 0);
    assert_false(mini_has(frozen, "forward"));
    assert_true(mini_run(ctx, frozen, "foo", 2.0) == 10.0);
    drop(net, frozen);
}

static status_t give_back(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                          int *n_out, tensor_t **out)
{
    (void)self;
    (void)n_in;
    *n_out = 1;
    return tensor_clone(ctx, in[0], out);
}

/* There are 40 levels. On each, a module has one child under two names, so 2^40 paths lead to the
 * last. */
static void modules_that_are_shared_at_many_levels_are_set_and_frozen(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *below = mini_module(ctx, "Leaf");
    for (int level = 0; level < 40; level++) {
        module_t *above = mini_module(ctx, "Level");
        CHECK_OK(ctx, module_set_child(ctx, above, "a", below));
        CHECK_OK(ctx, module_set_child(ctx, above, "b", below));
        module_release(below);
        below = above;
    }
    mini_define(ctx, below, MINI_METHOD("forward", "return %x\n"));
    module_t *frozen = mini_freeze(ctx, below, NULL);
    assert_false(mini_has(frozen, "a"));
    module_release(frozen);
    module_release(below);
}

static void freeze_no_forward(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = mini_module(ctx, "Net"), *frozen = NULL;
    CHECK_OK(ctx, module_set_forward(ctx, net, "forward", give_back));
    mini_define(ctx, net,
                MINI_METHOD("foo", "%y = relu(%x)\n"
                                   "return %y\n"));
    CHECK_FAILS(ctx,
                freeze(ctx, net, &(freeze_options_t){.preserved = MINI_PATHS("forward")}, &frozen),
                STATUS_INVALID_ARGUMENT, "freeze: method \"forward\" has no graph");
    frozen = mini_freeze(ctx, net, MINI_PATHS("foo"));
    assert_false(mini_has(frozen, "forward"));
    assert_true(mini_run(ctx, frozen, "foo", -2.0) == 0.0);
    drop(net, frozen);
}

/* ---- memory ---- */

/* Freezes, explains and takes a module with calls, a branch, a growing list and preserved names. */
static status_t scenario(context_t *ctx)
{
    module_t *net = NULL, *sub = NULL, *frozen = NULL, *taken = NULL;
    datum_t *list = NULL;
    tensor_t *w = NULL;
    text_t text = text_begin(ctx);
    const freeze_options_t options = {.preserved = MINI_PATHS("sub.w", "sub.step", "other")};
    status_t status = module_create(ctx, "Net", &net);
    if (status == STATUS_OK) status = module_create(ctx, "Sub", &sub);
    if (status == STATUS_OK) status = module_set_child(ctx, net, "sub", sub);
    if (status == STATUS_OK) status = module_set_child(ctx, net, "other", sub);
    if (status == STATUS_OK) status = tensor_full(ctx, DTYPE_F32, SHAPE(2), 1.0, &w);
    if (status == STATUS_OK) status = module_set_parameter(ctx, sub, "w", w);
    if (status == STATUS_OK) status = datum_list(ctx, 0, NULL, &list);
    if (status == STATUS_OK) status = module_set_attribute(ctx, sub, "l", list);
    if (status == STATUS_OK)
        status = graph_define(ctx, sub,
                              MINI_METHOD("step", MINI_GET("l", "l")
                                                      MINI_GET("w", "w") "append(%l, %x)\n"
                                                                         "%y = add(%x, %w)\n"
                                                                         "%t = tuple(%y, %l)\n"
                                                                         "return %t\n"));
    if (status == STATUS_OK)
        status = graph_define(ctx, net,
                              MINI_METHOD("forward",
                                          MINI_GET("s", "other") MINI_GET(
                                              "c", "training") "%y = if(%c) {\n"
                                                               "yield %x\n"
                                                               "} else {\n"
                                                               "%t = call(%s, %x) method=\"step\"\n"
                                                               "%a, %b = unpack(%t)\n"
                                                               "yield %a\n"
                                                               "}\n"
                                                               "return %y\n"));
    if (status == STATUS_OK) status = freeze(ctx, net, &options, &frozen);
    if (status == STATUS_OK) status = freeze_explain(ctx, frozen, &text);
    if (status == STATUS_OK) status = freeze_optimize(ctx, frozen, NULL);
    if (status == STATUS_OK) status = freeze_take(ctx, &net, &options, &taken);
    text_clear(&text);
    datum_release(list);
    tensor_release(w);
    module_release(taken);
    module_release(frozen);
    module_release(sub);
    module_release(net);
    return status;
}

static void every_failing_allocation_is_a_status(void **state)
{
    (void)state;
    check_every_allocation(scenario);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(freeze_module_with_user_preserved_attr),
        TEST(attributes_that_share_bytes_with_preserved_ones_stay),
        TEST(freeze_module_with_user_preserved_attribute_on_submodule),
        TEST(freeze_module_with_user_preserved_attribute_on_unused_submodule),
        TEST(freeze_module_with_preserve_sub_module),
        TEST(freeze_module_with_preserve_sub_module_and_mutation),
        TEST(freeze_module_with_user_preserved_method),
        TEST(freeze_module_with_user_preserved_method2),
        TEST(freeze_module_with_user_preserved_method_on_submodule),
        TEST(freeze_module_with_call_method),
        TEST(freeze_module_no_forward),
        TEST(modules_that_are_shared_at_many_levels_are_set_and_frozen),
        TEST(freeze_no_forward),
        cmocka_unit_test(every_failing_allocation_is_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
