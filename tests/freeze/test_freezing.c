/* Attributes that freezing folds, keeps and removes. The tests of PyTorch's class TestFreezing have
 * the names that they have there. test_freezing_aliases.c tests attributes that share bytes,
 * test_freezing_preserved.c tests preserved names. */
#include "freeze/freeze.h"

#include "tests/support/support.h"

#include <string.h>

#include "tests/support/nets/mini.h"

/* ---- attributes of every kind ---- */

static module_t *make_values(context_t *ctx)
{
    module_t *net = mini_module(ctx, "Net");
    datum_t *f = NULL, *none = NULL;
    CHECK_OK(ctx, datum_float(ctx, 1.5, &f));
    CHECK_OK(ctx, datum_none(ctx, &none));
    mini_int(ctx, net, "a", 1);
    mini_put(ctx, net, "b", f);
    mini_put(ctx, net, "c", mini_text(ctx, "hello"));
    mini_put(ctx, net, "d", mini_text(ctx, "hi\xc3\xa1 \"\\\n\x01"));
    mini_put(ctx, net, "e", MINI_LIST(ctx, 2, mini_number(ctx, 1), mini_number(ctx, 2)));
    mini_put(ctx, net, "f", MINI_TUPLE(ctx, 2, mini_number(ctx, 1), mini_text(ctx, "t")));
    mini_put(ctx, net, "g", MINI_DICT(ctx, 2, mini_text(ctx, "x"), mini_text(ctx, "y")));
    mini_put(ctx, net, "h",
             MINI_LIST(ctx, 2, none, MINI_LIST(ctx, 2, mini_number(ctx, 3), mini_number(ctx, 4))));
    mini_tensor(ctx, net, "t", 2.0);
    mini_define(ctx, net,
                MINI_METHOD("forward", MINI_GET("a", "a") MINI_GET("b", "b") MINI_GET("c", "c")
                                           MINI_GET("d", "d") MINI_GET("e", "e") MINI_GET("f", "f")
                                               MINI_GET("g", "g") MINI_GET("h", "h") MINI_GET(
                                                   "t", "t") "%y = add(%x, %t)\n"
                                                             "return %y, %a, %b, %c, %d, %e, %f, "
                                                             "%g, %h, %t\n"));
    return net;
}

static void freeze_module(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_values(ctx), *frozen = mini_freeze(ctx, net, NULL);
    assert_int_equal(mini_n_left(ctx, frozen), 0);
    assert_false(mini_says(ctx, frozen, "forward", "getattr"));
    mini_same(ctx, net, frozen, "forward", 3.0);
    module_t *loaded = mini_reload(ctx, frozen);
    assert_int_equal(mini_n_left(ctx, loaded), 0);
    mini_same(ctx, net, loaded, "forward", 3.0);
    mini_explains(ctx, loaded, "");
    module_release(loaded);
    module_release(frozen);
    module_release(net);
}

static void freezing_twice_gives_an_equal_module(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_values(ctx), *once = mini_freeze(ctx, net, NULL);
    module_t *twice = mini_freeze(ctx, once, NULL), *unknown = NULL;
    text_t a = text_begin(ctx), b = text_begin(ctx);
    CHECK_OK(ctx, graph_print(ctx, graph_of(once, "forward"), NULL, &a));
    CHECK_OK(ctx, graph_print(ctx, graph_of(twice, "forward"), NULL, &b));
    assert_string_equal(text_string(&a), text_string(&b));
    CHECK_FAILS(ctx, freeze(ctx, once, &(freeze_options_t){.preserved = MINI_PATHS("a")}, &unknown),
                STATUS_INVALID_ARGUMENT, "freeze: \"a\" is unknown");
    text_clear(&a);
    text_clear(&b);
    module_release(twice);
    module_release(once);
    module_release(net);
}

/* ---- submodules ---- */

/* sub1 is unused; sub2.sub sets its own b; the top module sets b. */
static module_t *make_nested(context_t *ctx)
{
    module_t *net = mini_module(ctx, "Net");
    module_t *sub1 = mini_child(ctx, net, "sub1", "One"),
             *sub2 = mini_child(ctx, net, "sub2", "Two");
    module_t *inner = mini_child(ctx, sub2, "sub", "Inner");
    mini_int(ctx, net, "a", 1);
    mini_int(ctx, net, "b", 2);
    mini_int(ctx, sub1, "a", 3);
    mini_int(ctx, inner, "a", 4);
    mini_int(ctx, inner, "b", 5);
    mini_define(ctx, sub1,
                MINI_METHOD("forward", MINI_GET("a", "a") "%y = add(%x, %a)\n"
                                                          "return %y\n"));
    mini_define(ctx, inner,
                MINI_METHOD("forward", MINI_GET("a", "a") MINI_GET("b", "b")
                                           MINI_SET("b", "a") "%y = add(%x, %b)\n"
                                                              "return %y\n"));
    mini_define(ctx, sub2,
                MINI_METHOD("forward",
                            MINI_GET("sub", "sub") "%y = call(%sub, %x) method=\"forward\"\n"
                                                   "return %y\n"));
    mini_define(
        ctx, net,
        MINI_METHOD(
            "forward",
            MINI_GET("sub2", "sub2") "%y = call(%sub2, %x) method=\"forward\"\n" MINI_GET("a", "a")
                MINI_GET("b", "b") "%z = add(%y, %b)\n"
                                   "%c = scalar_add(%b, %a)\n" MINI_SET("b", "c") "return %z\n"));
    return net;
}

static void freeze_module_with_submodule(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_nested(ctx), *frozen = mini_freeze(ctx, net, NULL);
    assert_true(mini_has(frozen, "b") && mini_has(frozen, "sub2.sub.b"));
    assert_int_equal(mini_n_left(ctx, frozen), 2);
    assert_false(mini_has(frozen, "sub1") || mini_has(frozen, "sub2.forward"));
    assert_false(mini_says(ctx, frozen, "forward", "call"));
    for (int i = 0; i < 3; i++) mini_same(ctx, net, frozen, "forward", 1.0);
    mini_explains(
        ctx, frozen,
        "b: set by `setattr(%self, %c) name=\"b\"` in forward\n"
        "sub2.sub.b: set by `setattr(%self, %sub2.sub.a) name=\"sub2.sub.b\"` in forward\n");
    module_t *loaded = mini_reload(ctx, frozen);
    mini_same(ctx, net, loaded, "forward", 1.0);
    module_release(loaded);
    module_release(frozen);
    module_release(net);
}

/* If one instance of a class needs an attribute, PyTorch keeps it in all instances; Tessera keeps
 * it in that instance only. */
static void freeze_module_with_sharedclasstype(void **state)
{
    context_t *ctx = fixture_context(state);
    static const char text[] = MINI_METHOD(
        "set_a", MINI_GET("a", "a")
                     MINI_GET("b", "b") "%c = add(%a, %x)\n" MINI_SET("a", "c") "%y = add(%c, %b)\n"
                                                                                "return %y\n");
    static const char other[] = MINI_METHOD(
        "set_b", MINI_GET("a", "a")
                     MINI_GET("b", "b") "%c = add(%b, %x)\n" MINI_SET("b", "c") "%y = add(%c, %a)\n"
                                                                                "return %y\n");
    module_t *net = mini_module(ctx, "Net");
    module_t *sub1 = mini_child(ctx, net, "sub1", "Sub"),
             *sub2 = mini_child(ctx, net, "sub2", "Sub");
    module_t *both[] = {sub1, sub2};
    for (int i = 0; i < 2; i++) {
        mini_tensor(ctx, both[i], "a", 1.1);
        mini_tensor(ctx, both[i], "b", 2.2);
        mini_define(ctx, both[i], text);
        mini_define(ctx, both[i], other);
    }
    mini_define(ctx, net,
                MINI_METHOD("forward", MINI_GET("sub1", "sub1") MINI_GET(
                                           "sub2", "sub2") "%y = call(%sub1, %x) method=\"set_a\"\n"
                                                           "%z = call(%sub2, %x) method=\"set_b\"\n"
                                                           "%w = add(%y, %z)\n"
                                                           "return %w\n"));
    module_t *frozen = mini_freeze(ctx, net, NULL);
    assert_true(mini_has(frozen, "sub1.a") && mini_has(frozen, "sub2.b"));
    assert_int_equal(mini_n_left(ctx, frozen), 2);
    for (int i = 0; i < 3; i++) mini_same(ctx, net, frozen, "forward", 1.0);
    module_release(frozen);
    module_release(net);
}

/* Makes a module that can be reached by two paths: sub.inner and inner. */
static module_t *make_shared(context_t *ctx, bool is_scalar)
{
    module_t *net = mini_module(ctx, "Net"), *sub = mini_child(ctx, net, "sub", "Sub");
    module_t *inner = mini_child(ctx, sub, "inner", "Inner");
    CHECK_OK(ctx, module_set_child(ctx, net, "inner", inner));
    if (is_scalar) {
        mini_int(ctx, inner, "a", 11);
        mini_int(ctx, inner, "b", 12);
    } else {
        mini_tensor(ctx, inner, "a", 11.0);
        mini_tensor(ctx, inner, "b", 12.0);
    }
    mini_define(ctx, net,
                MINI_METHOD("forward",
                            MINI_GET("b", "inner.b") MINI_GET(
                                "a", "sub.inner.a") "%c = add(%a, %x)\n" MINI_SET("inner.a", "c")
                                MINI_GET("d", "sub.inner.a") "%y = add(%d, %b)\n"
                                                             "return %y\n"));
    return net;
}

static void freeze_module_with_nestedaliasing(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_shared(ctx, false), *frozen = mini_freeze(ctx, net, NULL);
    assert_true(mini_has(frozen, "sub.inner.a"));
    assert_int_equal(mini_n_left(ctx, frozen), 1);
    for (int i = 0; i < 3; i++) mini_same(ctx, net, frozen, "forward", 1.0);
    module_t *loaded = mini_reload(ctx, frozen);
    for (int i = 0; i < 3; i++) mini_same(ctx, net, loaded, "forward", 1.0);
    module_release(loaded);
    module_release(frozen);
    module_release(net);
}

/* Both paths lead to one number, which a method changes. PyTorch misses that, because scripting
 * copies numbers. */
static void freeze_module_with_nestedaliasingscalar(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_shared(ctx, true), *frozen = mini_freeze(ctx, net, NULL);
    assert_true(mini_has(frozen, "sub.inner.a"));
    assert_int_equal(mini_n_left(ctx, frozen), 1);
    for (int i = 0; i < 3; i++) mini_same(ctx, net, frozen, "forward", 1.0);
    module_release(frozen);
    module_release(net);
}

static void freeze_module_with_helperfunction(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = mini_module(ctx, "Net"), *sub = mini_child(ctx, net, "sub", "Sub");
    mini_int(ctx, net, "a", 3);
    mini_int(ctx, sub, "b", 2);
    mini_define(ctx, sub,
                MINI_METHOD("forward", "%y = call(%self, %x) method=\"helper\"\n"
                                       "return %y\n"));
    mini_define(ctx, sub,
                MINI_METHOD("helper", MINI_GET("b", "b") "%y = mul(%x, %b)\n"
                                                         "return %y\n"));
    mini_define(ctx, net,
                MINI_METHOD("forward", "%y = call(%self, %x) method=\"helper\"\n"
                                       "return %y\n"));
    mini_define(ctx, net,
                MINI_METHOD("helper", MINI_GET("a", "a") MINI_GET(
                                          "s", "sub") "%z = call(%s, %x) method=\"forward\"\n"
                                                      "%y = add(%z, %a)\n"
                                                      "return %y\n"));
    module_t *frozen = mini_freeze(ctx, net, NULL);
    datum_t *out[METHOD_MAX_OUTPUTS];
    int n = METHOD_MAX_OUTPUTS;
    assert_false(mini_has(frozen, "a") || mini_has(frozen, "sub") || mini_has(frozen, "helper"));
    mini_same(ctx, net, frozen, "forward", 5.0);
    CHECK_FAILS(ctx, module_call(ctx, frozen, "helper", 0, NULL, &n, out), STATUS_INVALID_ARGUMENT,
                "\"helper\" is no method of Net, it has forward");
    module_release(frozen);
    module_release(net);
}

static void module_with_shared_type_instances(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = mini_module(ctx, "Net");
    static const char *const names[] = {"conv1", "conv2"};
    for (int i = 0; i < 2; i++) {
        module_t *child = mini_child(ctx, net, names[i], "Child");
        mini_tensor(ctx, child, "w", i == 0 ? 3.0 : 7.0);
        mini_define(ctx, child,
                    MINI_METHOD("forward", MINI_GET("w", "w") "%y = mul(%x, %w)\n"
                                                              "return %y\n"));
    }
    mini_define(ctx, net,
                MINI_METHOD("forward", MINI_GET("a", "conv1") MINI_GET(
                                           "b", "conv2") "%y = call(%a, %x) method=\"forward\"\n"
                                                         "%z = call(%b, %y) method=\"forward\"\n"
                                                         "return %z\n"));
    module_t *frozen = mini_freeze(ctx, net, NULL);
    assert_int_equal(mini_n_left(ctx, frozen), 0);
    assert_true(mini_run(ctx, frozen, "forward", 2.0) == 42.0);
    module_release(frozen);
    module_release(net);
}

/* The module is chosen at run time, so both modules stay, but nothing else does. */
static void module_getattr_indirection(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = mini_module(ctx, "Net");
    module_t *one = mini_child(ctx, net, "one", "Box"), *two = mini_child(ctx, net, "two", "Box");
    mini_int(ctx, net, "limit", 10);
    mini_int(ctx, one, "value", 1);
    mini_int(ctx, two, "value", 2);
    mini_define(ctx, net,
                MINI_METHOD("forward", MINI_GET("one", "one") MINI_GET("two", "two") MINI_GET(
                                           "limit", "limit") "%s = sum(%x) dims=[0]\n"
                                                             "%c = scalar_gt(%s, %limit)\n"
                                                             "%m = if(%c) {\n"
                                                             "yield %one\n"
                                                             "} else {\n"
                                                             "yield %two\n"
                                                             "}\n"
                                                             "%v = getattr(%m) name=\"value\"\n"
                                                             "%y = add(%x, %v)\n"
                                                             "return %y\n"));
    module_t *frozen = mini_freeze(ctx, net, NULL);
    assert_true(mini_has(frozen, "one.value") && mini_has(frozen, "two.value"));
    assert_false(mini_has(frozen, "limit"));
    mini_same(ctx, net, frozen, "forward", 1.0);
    mini_same(ctx, net, frozen, "forward", 9.0);
    mini_explains(
        ctx, frozen,
        "one.value: part of a module that is used as a whole by `%m = if(%c)` in forward\n"
        "two.value: part of a module that is used as a whole by `%m = if(%c)` in "
        "forward\n");
    module_release(frozen);
    module_release(net);
}

/* If freezing knows the choice, only the chosen module stays. */
static void a_choice_between_modules_that_is_known_is_made(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = mini_module(ctx, "Net");
    static const char *const names[] = {"one", "two"};
    mini_bool(ctx, net, "first", false);
    for (int i = 0; i < 2; i++) {
        module_t *child = mini_child(ctx, net, names[i], "Child");
        mini_int(ctx, child, "n", i);
        mini_define(ctx, child,
                    MINI_METHOD("step", MINI_GET("n", "n") "%m = scalar_add(%n, 1)\n" MINI_SET(
                                            "n", "m") "%y = add(%x, %m)\n"
                                                      "return %y\n"));
    }
    mini_define(ctx, net,
                MINI_METHOD("forward", MINI_GET("one", "one") MINI_GET("two", "two") MINI_GET(
                                           "c", "first") "%m = if(%c) {\n"
                                                         "yield %one\n"
                                                         "} else {\n"
                                                         "yield %two\n"
                                                         "}\n"
                                                         "%y = call(%m, %x) method=\"step\"\n"
                                                         "return %y\n"));
    module_t *frozen = mini_freeze(ctx, net, NULL);
    assert_int_equal(mini_n_left(ctx, frozen), 1);
    assert_true(mini_has(frozen, "two.n"));
    assert_false(mini_has(frozen, "one") || mini_has(frozen, "two.step"));
    for (int i = 0; i < 2; i++) mini_same(ctx, net, frozen, "forward", 1.0);
    module_release(frozen);
    module_release(net);
}

/* A graph cannot have a list of modules: parsing it fails. */
static void freeze_module_with_non_static_module_container_index(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = mini_module(ctx, "Net");
    mini_child(ctx, net, "one", "Child");
    CHECK_FAILS(ctx,
                graph_define(ctx, net,
                             "graph forward(%self : module, %x : f32[2], %i : int) {\n"
                             "%one = getattr(%self) name=\"one\" : module\n"
                             "%l = list(%one, %one)\n"
                             "%m = index(%l, %i)\n"
                             "%y = call(%m, %x) method=\"forward\"\n"
                             "return %y\n}\n"),
                STATUS_INVALID_ARGUMENT, "an operand is a module, builtins accept none");
    module_release(net);
}

/* ---- results ---- */

static void freeze_module_return_self(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = mini_module(ctx, "Net"), *frozen = NULL;
    mini_define(ctx, net, MINI_METHOD("forward", "return %self\n"));
    CHECK_FAILS(ctx, freeze(ctx, net, NULL, &frozen), STATUS_INVALID_ARGUMENT,
                "freeze: forward of Net returns the module itself, which cannot be frozen");
    mini_define(ctx, net, MINI_METHOD("me", "return %self\n"));
    mini_define(ctx, net,
                MINI_METHOD("forward", "%m = call(%self, %x) method=\"me\"\n"
                                       "return %x, %m\n"));
    CHECK_FAILS(ctx, freeze(ctx, net, NULL, &frozen), STATUS_INVALID_ARGUMENT,
                "returns the module itself");
    module_release(net);
}

static void freeze_module_return_sub_module(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = mini_module(ctx, "Net"), *conv = mini_child(ctx, net, "conv1", "Conv");
    mini_tensor(ctx, conv, "weight", 1.0);
    mini_int(ctx, net, "a", 1);
    mini_define(ctx, net, MINI_METHOD("forward", MINI_GET("m", "conv1") "return %m\n"));
    module_t *frozen = mini_freeze(ctx, net, NULL);
    assert_true(mini_has(frozen, "conv1.weight"));
    assert_false(mini_has(frozen, "a"));
    mini_explains(ctx, frozen, "conv1.weight: part of a module that is returned by forward\n");
    module_release(frozen);
    module_release(net);
}

/* A tuple that a child makes and its caller takes apart disappears. */
static void freeze_module_with_tupleoutput_submodule(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = mini_module(ctx, "Net"), *sub = mini_child(ctx, net, "sub", "Sub");
    mini_define(ctx, sub,
                MINI_METHOD("forward", "%a = relu(%x)\n"
                                       "%b = mul(%x, 2.0)\n"
                                       "%t = tuple(%a, %b)\n"
                                       "return %t\n"));
    mini_define(ctx, net,
                MINI_METHOD("forward",
                            MINI_GET("sub", "sub") "%t = call(%sub, %x) method=\"forward\"\n"
                                                   "%a, %b = unpack(%t)\n"
                                                   "%c = index(%t, -1)\n"
                                                   "%d = add(%a, %b)\n"
                                                   "%e = add(%c, %d)\n"
                                                   "return %e\n"));
    module_t *frozen = mini_freeze(ctx, net, NULL);
    assert_false(mini_says(ctx, frozen, "forward", "tuple"));
    assert_false(mini_says(ctx, frozen, "forward", "unpack"));
    assert_false(mini_says(ctx, frozen, "forward", "index"));
    mini_same(ctx, net, frozen, "forward", 3.0);
    module_release(frozen);
    module_release(net);
}

/* A method that was inlined reads a constant object, which is saved. */
static void freeze_module_inlining(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = mini_module(ctx, "Net"), *sub = mini_child(ctx, net, "sub", "Sub");
    mini_put(ctx, sub, "box", MINI_DICT(ctx, 2, mini_number(ctx, 4), mini_number(ctx, 5)));
    mini_define(ctx, sub, MINI_METHOD("get", MINI_GET("box", "box") "return %box\n"));
    mini_define(ctx, net,
                MINI_METHOD("forward",
                            MINI_GET("sub", "sub") "%box = call(%sub, %x) method=\"get\"\n"
                                                   "%v = index(%box, \"1\")\n"
                                                   "%y = add(%x, %v)\n"
                                                   "return %y, %box\n"));
    module_t *frozen = mini_freeze(ctx, net, NULL), *loaded = mini_reload(ctx, frozen);
    assert_false(mini_says(ctx, loaded, "forward", "call"));
    mini_same(ctx, net, loaded, "forward", 1.0);
    module_release(loaded);
    module_release(frozen);
    module_release(net);
}

/* A dict stands for PyTorch's plain object; its entries are the attributes. */
static void freeze_non_module_class_getattr(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = mini_module(ctx, "Net");
    mini_put(ctx, net, "box", MINI_DICT(ctx, 2, mini_number(ctx, 4), mini_number(ctx, 5)));
    mini_define(ctx, net,
                MINI_METHOD("forward", MINI_GET("box", "box") "%v = getattr(%box) name=\"1\"\n"
                                                              "%y = add(%x, %v)\n"
                                                              "return %y\n"));
    module_t *frozen = mini_freeze(ctx, net, NULL);
    assert_int_equal(mini_n_left(ctx, frozen), 0);
    assert_true(mini_run(ctx, frozen, "forward", 1.0) == 6.0);
    module_release(frozen);
    module_release(net);
}

/* ---- modes ---- */

static void freeze_module_in_training_mode(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_nested(ctx), *frozen = NULL;
    CHECK_OK(ctx, module_train(ctx, net, true));
    CHECK_FAILS(ctx, freeze(ctx, net, NULL, &frozen), STATUS_INVALID_ARGUMENT,
                "freeze: Net is in training mode, only evaluation mode can be frozen");
    CHECK_OK(ctx, module_train(ctx, net, false));
    frozen = mini_freeze(ctx, net, NULL);
    mini_same(ctx, net, frozen, "forward", 1.0);
    module_release(frozen);
    module_release(net);
}

/* An attribute is constant if the only branch that changes it never runs. */
static void a_branch_that_is_never_taken_keeps_nothing(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = mini_module(ctx, "Net");
    mini_int(ctx, net, "n", 5);
    mini_define(ctx, net,
                MINI_METHOD("forward", MINI_GET("t", "training")
                                           MINI_GET("n", "n") "if(%t) {\n"
                                                              "%m = scalar_add(%n, 1)\n" MINI_SET(
                                                                  "n", "m") "yield\n"
                                                                            "} else {\n"
                                                                            "yield\n"
                                                                            "}\n"
                                                                            "%y = add(%x, %n)\n"
                                                                            "return %y\n"));
    module_t *frozen = mini_freeze(ctx, net, NULL);
    assert_int_equal(mini_n_left(ctx, frozen), 0);
    assert_true(mini_run(ctx, frozen, "forward", 1.0) == 6.0);
    module_release(frozen);
    module_release(net);
}

/* An attribute that is read in a branch and after the branch becomes a single constant. */
static void an_attribute_becomes_one_constant(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = mini_module(ctx, "Net");
    mini_tensor(ctx, net, "w", 5.0);
    mini_define(ctx, net,
                "graph forward(%self : module, %x : f32[2]) {\n"
                "%s = sum(%x) dims=[0]\n"
                "%c = scalar_gt(%s, 0)\n"
                "%y = if(%c) {\n" MINI_GET("w", "w") "%a = add(%x, %w)\n"
                                                     "yield %a\n"
                                                     "} else {\n"
                                                     "yield %x\n"
                                                     "}\n" MINI_GET("v", "w") "%z = mul(%y, %v)\n"
                                                                              "return %z\n"
                                                                              "}\n");
    module_t *frozen = NULL;
    CHECK_OK(ctx, freeze(ctx, net, &(freeze_options_t){.skip = MINI_PATHS("common_subexpressions")},
                         &frozen));
    assert_true(mini_says(ctx, frozen, "forward", "%w = constant()"));
    assert_false(mini_says(ctx, frozen, "forward", "%v"));
    mini_same(ctx, net, frozen, "forward", 1.0);
    mini_same(ctx, net, frozen, "forward", -1.0);
    module_release(frozen);
    module_release(net);
}

/* ---- taking ownership, optimising ---- */

static void a_module_that_is_taken_is_not_copied(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = mini_module(ctx, "Net"), *frozen = NULL;
    tensor_t *w = NULL;
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(2), 5.0, &w));
    CHECK_OK(ctx, module_set_parameter(ctx, net, "w", w));
    mini_define(ctx, net,
                MINI_METHOD("forward", MINI_GET("w", "w") "%y = add(%x, %w)\n"
                                                          "return %y, %w\n"));
    const void *bytes = NULL, *same = NULL;
    CHECK_OK(ctx, tensor_data(ctx, w, &bytes));
    module_t *kept = net;
    CHECK_FAILS(ctx,
                freeze_take(ctx, &net, &(freeze_options_t){.preserved = MINI_PATHS("no")}, &frozen),
                STATUS_INVALID_ARGUMENT, "freeze: \"no\" is unknown");
    assert_ptr_equal(net, kept);
    CHECK_OK(ctx, freeze_take(ctx, &net, NULL, &frozen));
    assert_null(net);
    const graph_t *graph = graph_of(frozen, "forward");
    const datum_t *constant = graph_constant(graph, graph_body(graph)->results[1]);
    CHECK_OK(ctx, tensor_data(ctx, datum_as_tensor(constant), &same));
    assert_ptr_equal(same, bytes);
    CHECK_OK(ctx, tensor_fill(ctx, w, 9.0)); /* the first write copies */
    assert_true(mini_run(ctx, frozen, "forward", 1.0) == 6.0);
    CHECK_OK(ctx, freeze_take(ctx, &frozen, NULL, &net));
    assert_null(frozen);
    assert_true(mini_run(ctx, net, "forward", 1.0) == 6.0);
    tensor_release(w);
    module_release(net);
}

static void optimising_is_a_step_of_its_own(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = mini_module(ctx, "Net"), *frozen = NULL;
    tensor_t *w = NULL, *v = NULL;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(4, 2), &w));
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(4), 0.5, &v));
    CHECK_OK(ctx, module_set_parameter(ctx, net, "w", w));
    CHECK_OK(ctx, module_set_parameter(ctx, net, "v", v));
    mini_define(ctx, net,
                "graph forward(%self : module, %x : f32[1,2]) {\n" MINI_GET("w", "w")
                    MINI_GET("v", "v") "%y = linear(%x, %w, none)\n"
                                       "%z = batch_norm(%y, %v, %v, %v, %v)\n"
                                       "%a = relu(%z)\n"
                                       "return %a\n}\n");
    CHECK_FAILS(ctx, freeze_optimize(ctx, net, NULL), STATUS_INVALID_ARGUMENT,
                "freeze_optimize: Net is not frozen");
    CHECK_OK(ctx, freeze(ctx, net, &(freeze_options_t){.no_optimize = true}, &frozen));
    assert_true(mini_says(ctx, frozen, "forward", "batch_norm"));
    assert_false(mini_says(ctx, frozen, "forward", "getattr"));
    CHECK_OK(ctx, freeze_optimize(ctx, frozen, &(freeze_options_t){.keep_numerics = true}));
    assert_true(mini_says(ctx, frozen, "forward", "batch_norm"));
    CHECK_OK(ctx, freeze_optimize(ctx, frozen, NULL));
    assert_false(mini_says(ctx, frozen, "forward", "batch_norm"));
    text_t once = text_begin(ctx), twice = text_begin(ctx);
    CHECK_OK(ctx, graph_print(ctx, graph_of(frozen, "forward"), NULL, &once));
    CHECK_OK(ctx, freeze_optimize(ctx, frozen, NULL));
    CHECK_OK(ctx, graph_print(ctx, graph_of(frozen, "forward"), NULL, &twice));
    assert_string_equal(text_string(&once), text_string(&twice));
    text_clear(&once);
    text_clear(&twice);
    tensor_release(w);
    tensor_release(v);
    module_release(frozen);
    module_release(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(freeze_module),
        TEST(freezing_twice_gives_an_equal_module),
        TEST(freeze_module_with_submodule),
        TEST(freeze_module_with_sharedclasstype),
        TEST(freeze_module_with_nestedaliasing),
        TEST(freeze_module_with_nestedaliasingscalar),
        TEST(freeze_module_with_helperfunction),
        TEST(module_with_shared_type_instances),
        TEST(module_getattr_indirection),
        TEST(a_choice_between_modules_that_is_known_is_made),
        TEST(freeze_module_with_non_static_module_container_index),
        TEST(freeze_module_return_self),
        TEST(freeze_module_return_sub_module),
        TEST(freeze_module_with_tupleoutput_submodule),
        TEST(freeze_module_inlining),
        TEST(freeze_non_module_class_getattr),
        TEST(freeze_module_in_training_mode),
        TEST(a_branch_that_is_never_taken_keeps_nothing),
        TEST(an_attribute_becomes_one_constant),
        TEST(a_module_that_is_taken_is_not_copied),
        TEST(optimising_is_a_step_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
