/* Attributes that freezing keeps because they may be written: in place, through views, containers
 * or other attributes. The tests of PyTorch's class TestFreezing have the names that they have
 * there. PyTorch ignores containers, shares storage with the original module, and gives up if
 * attributes overlap. Tessera keeps the attributes that may change, and its results equal the
 * module's. */
#include "freeze/freeze.h"

#include "tests/support/support.h"

#include <string.h>

#include "tests/support/nets/mini.h"

/* Compares results of the module and its frozen form over several calls; n_left attributes must
 * stay. */
static module_t *check_steps(context_t *ctx, module_t *net, int n_left)
{
    module_t *frozen = mini_freeze(ctx, net, NULL);
    assert_int_equal(mini_n_left(ctx, frozen), n_left);
    for (int i = 0; i < 3; i++) mini_same(ctx, net, frozen, "forward", 1.0 + i);
    return frozen;
}

static void drop(module_t *net, module_t *frozen)
{
    module_release(frozen);
    module_release(net);
}

/* ---- lists and dicts ---- */

static void freeze_module_with_inplace_mutable(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = mini_module(ctx, "Net");
    mini_put(ctx, net, "a", MINI_LIST(ctx, 2, mini_number(ctx, 11), mini_number(ctx, 22)));
    mini_define(ctx, net,
                MINI_METHOD("forward", MINI_GET("a", "a") "append(%a, 33)\n"
                                                          "%n = len(%a)\n"
                                                          "return %n\n"));
    module_t *one = mini_freeze(ctx, net, NULL), *two = mini_freeze(ctx, net, NULL);
    assert_int_equal(mini_n_left(ctx, one), 1);
    assert_true(mini_run(ctx, one, "forward", 0.0) == 3.0);
    assert_true(mini_run(ctx, one, "forward", 0.0) == 4.0);
    assert_true(mini_run(ctx, two, "forward", 0.0) == 3.0);
    assert_true(mini_run(ctx, net, "forward", 0.0) == 3.0);
    mini_explains(ctx, one, "a: written in place by `append(%a, 33)` in forward\n");
    module_release(two);
    drop(net, one);
}

static void freeze_module_with_mutable_list(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = mini_module(ctx, "Net");
    mini_put(ctx, net, "a", MINI_LIST(ctx, 2, mini_number(ctx, 1), mini_number(ctx, 2)));
    mini_define(ctx, net, MINI_METHOD("forward", MINI_GET("a", "a") "return %a\n"));
    module_t *frozen = check_steps(ctx, net, 0), *before = mini_freeze(ctx, net, NULL);
    datum_t *item = mini_number(ctx, 3);
    CHECK_OK(ctx, datum_append(ctx, module_attribute(net, "a"), item));
    mini_same(ctx, frozen, before, "forward", 0.0);
    datum_release(item);
    module_release(before);
    drop(net, frozen);
}

static void freeze_module_with_mutable_dict(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = mini_module(ctx, "Net");
    mini_put(ctx, net, "a", MINI_DICT(ctx, 2, mini_text(ctx, "hello"), mini_text(ctx, "world")));
    mini_define(ctx, net, MINI_METHOD("forward", MINI_GET("a", "a") "return %a\n"));
    module_t *frozen = check_steps(ctx, net, 0), *before = mini_freeze(ctx, net, NULL);
    datum_t *item = mini_text(ctx, "there");
    CHECK_OK(ctx, datum_put(ctx, module_attribute(net, "a"), "2", item));
    mini_same(ctx, frozen, before, "forward", 0.0);
    datum_release(item);
    module_release(before);
    drop(net, frozen);
}

/* PyTorch's constant shares storage with the original module, so a write to the module changes the
 * constant. Tessera's does not. */
static void freeze_module_with_mutable_tensor(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = mini_module(ctx, "Net");
    tensor_t *a = mini_tensor(ctx, net, "a", 1.0);
    mini_define(ctx, net,
                MINI_METHOD("forward", MINI_GET("a", "a") "%y = add(%x, %a)\n"
                                                          "return %y\n"));
    module_t *frozen = check_steps(ctx, net, 0);
    CHECK_OK(ctx, tensor_fill(ctx, a, 5.0));
    assert_true(mini_run(ctx, net, "forward", 1.0) == 6.0);
    assert_true(mini_run(ctx, frozen, "forward", 1.0) == 2.0);
    drop(net, frozen);
}

/* A caller may write to a result that is a constant. The next run must return the constant again,
 * both in a plan and interpreted. */
static void results_that_are_constants_can_be_written(void **state)
{
    context_t *ctx = fixture_context(state);
    static const char *const texts[] = {
        MINI_METHOD("forward", MINI_GET("a", "a") "%y = add(%x, %a)\n"
                                                  "return %a, %y\n"),
        MINI_METHOD("forward", MINI_GET("a", "a") "%y = add(%x, %a)\n"
                                                  "%l = list(%y)\n"
                                                  "%n = len(%l)\n"
                                                  "return %a, %n\n"),
    };
    for (int i = 0; i < 2; i++) {
        module_t *net = mini_module(ctx, "Net");
        mini_tensor(ctx, net, "a", 1.0);
        mini_define(ctx, net, texts[i]);
        module_t *frozen = mini_freeze(ctx, net, NULL);
        tensor_t *x = mini_tensor(ctx, net, "x", 1.0);
        datum_t *in = mini_wrap(ctx, x), *out[METHOD_MAX_OUTPUTS];
        int n = METHOD_MAX_OUTPUTS;
        CHECK_OK(ctx, module_call(ctx, frozen, "forward", 1, &in, &n, out));
        CHECK_OK(ctx, tensor_fill(ctx, datum_as_tensor(out[0]), 9.0));
        assert_true(mini_run(ctx, frozen, "forward", 1.0) == 1.0);
        while (n > 0) datum_release(out[--n]);
        datum_release(in);
        drop(net, frozen);
    }
}

/* ---- written tensors ---- */

static void freeze_module_with_tensor(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = mini_module(ctx, "Net");
    mini_tensor(ctx, net, "a", 1.0);
    mini_define(ctx, net,
                MINI_METHOD("forward", MINI_GET("a", "a") "%v = reshape(%a) sizes=[1,2]\n"
                                                          "%w = add_(%v, %x) at \"in\"\n"
                                                          "%y = add(%x, %a)\n"
                                                          "return %y\n"));
    module_t *frozen = check_steps(ctx, net, 1);
    mini_explains(ctx, frozen, "a: written in place by `%w = add_(%v, %x) at \"in\"` in forward\n");
    CHECK_OK(ctx, tensor_fill(ctx, module_parameter(frozen, "a"), 0.0));
    assert_true(mini_run(ctx, frozen, "forward", 2.0) == 4.0);
    drop(net, frozen);
}

/* A branch writes to a tensor in a tuple or list. PyTorch makes the tensor a constant nevertheless,
 * so each run changes it. */
static void check_written_item(context_t *ctx, datum_kind_t kind)
{
    module_t *net = mini_module(ctx, "Net");
    tensor_t *t = mini_tensor(ctx, net, "t", 1.0);
    mini_put(ctx, net, "a",
             mini_items(ctx, kind, 2, (datum_t *const[]){mini_wrap(ctx, t), mini_number(ctx, 7)}));
    CHECK_OK(ctx, module_remove(ctx, net, "t"));
    mini_define(ctx, net,
                MINI_METHOD("forward", MINI_GET("a", "a") "%i = index(%a, 0)\n"
                                                          "%c = sum(%x) dims=[0]\n"
                                                          "%d = scalar_gt(%c, 3)\n"
                                                          "if(%d) {\n"
                                                          "%w = add_(%i, 10.0)\n"
                                                          "yield\n"
                                                          "} else {\n"
                                                          "yield\n"
                                                          "}\n"
                                                          "%y = add(%x, %i)\n"
                                                          "return %y\n"));
    module_t *frozen = check_steps(ctx, net, 1);
    mini_explains(ctx, frozen, "a: written in place by `%w = add_(%i, 10.0)` in forward\n");
    drop(net, frozen);
}

static void freeze_module_with_tuple(void **state)
{
    check_written_item(fixture_context(state), DATUM_TUPLE);
}

static void freeze_module_with_list(void **state)
{
    check_written_item(fixture_context(state), DATUM_LIST);
}

static void freeze_module_with_aliased_tensor_attr(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = mini_module(ctx, "Net");
    tensor_t *a = mini_tensor(ctx, net, "a", 1.0), *b = NULL;
    CHECK_OK(ctx, tensor_view(ctx, a, SHAPE(2, 1), &b));
    CHECK_OK(ctx, module_set_buffer(ctx, net, "b", b));
    tensor_release(b);
    mini_define(ctx, net,
                MINI_METHOD("forward", MINI_GET("b", "b") "%w = add_(%b, 10.0)\n" MINI_GET(
                                           "a", "a") "%y = add(%x, %a)\n"
                                                     "return %y\n"));
    module_t *frozen = check_steps(ctx, net, 2);
    mini_explains(ctx, frozen,
                  "a: shares bytes or lists with \"b\", which is written in place by `%w = "
                  "add_(%b, 10.0)` in forward\n"
                  "b: written in place by `%w = add_(%b, 10.0)` in forward\n");
    drop(net, frozen);
}

/* a = {"0": t}; b = {"0": view of t}. PyTorch reports an overlap and gives up. */
static void freeze_module_with_aliased_tensor_attr2(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = mini_module(ctx, "Net");
    tensor_t *t = mini_tensor(ctx, net, "t", 1.0), *view = NULL;
    CHECK_OK(ctx, tensor_view(ctx, t, SHAPE(2, 1), &view));
    mini_put(ctx, net, "a", MINI_DICT(ctx, 2, mini_wrap(ctx, t), mini_number(ctx, 2)));
    mini_put(ctx, net, "b", MINI_DICT(ctx, 1, mini_wrap(ctx, view)));
    tensor_release(view);
    CHECK_OK(ctx, module_remove(ctx, net, "t"));
    mini_define(ctx, net,
                MINI_METHOD("forward",
                            MINI_GET("b", "b") MINI_GET("a", "a") "%i = getattr(%a) name=\"0\"\n"
                                                                  "%w = add_(%i, 10.0)\n"
                                                                  "%j = getattr(%b) name=\"0\"\n"
                                                                  "%y = reshape(%j) sizes=[2]\n"
                                                                  "%z = add(%x, %y)\n"
                                                                  "return %z\n"));
    drop(net, check_steps(ctx, net, 2));
}

static void freeze_module_with_aliased_tensor_attr3(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = mini_module(ctx, "Net");
    tensor_t *a = mini_tensor(ctx, net, "a", 1.0);
    mini_put(ctx, net, "b", MINI_LIST(ctx, 2, mini_wrap(ctx, a), mini_number(ctx, 2)));
    mini_define(ctx, net,
                MINI_METHOD("forward", MINI_GET("a", "a") "%w = add_(%a, 10.0)\n" MINI_GET(
                                           "b", "b") "%i = index(%b, 0)\n"
                                                     "%y = add(%x, %i)\n"
                                                     "return %y\n"));
    drop(net, check_steps(ctx, net, 2));
}

/* Nobody writes to list c, but another method writes to the tensor in it, through another list. */
static void freeze_module_with_aliased_tensor_attr4(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = mini_module(ctx, "Net");
    tensor_t *a = mini_tensor(ctx, net, "a", 1.0);
    mini_put(ctx, net, "b", MINI_LIST(ctx, 1, mini_wrap(ctx, a)));
    mini_put(ctx, net, "c", MINI_TUPLE(ctx, 1, mini_wrap(ctx, a)));
    mini_int(ctx, net, "d", 3);
    mini_define(ctx, net,
                MINI_METHOD("step", MINI_GET("b", "b") "%i = index(%b, 0)\n"
                                                       "%w = mul_(%i, 2.0)\n"
                                                       "return %w\n"));
    mini_define(ctx, net,
                MINI_METHOD("forward", MINI_GET("c", "c") MINI_GET("d", "d") "%i = index(%c, 0)\n"
                                                                             "%y = add(%i, %d)\n"
                                                                             "return %y\n"));
    module_t *frozen = mini_freeze(ctx, net, MINI_PATHS("step"));
    assert_int_equal(mini_n_left(ctx, frozen), 2);
    for (int i = 0; i < 3; i++) {
        mini_same(ctx, net, frozen, "forward", 1.0);
        mini_same(ctx, net, frozen, "step", 1.0);
    }
    drop(net, frozen);
}

/* Three windows of one storage overlap, which PyTorch refuses. The windows that overlap a written
 * one stay. */
static void freeze_module_with_overlapping_attrs(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = mini_module(ctx, "Net");
    static const char *const names[] = {"a", "b", "c"};
    tensor_t *base = NULL;
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(4), &base));
    for (int i = 0; i < 3; i++) {
        tensor_t *window = NULL;
        CHECK_OK(ctx, tensor_narrow(ctx, base, 0, i, 2, &window));
        mini_put(ctx, net, names[i], MINI_LIST(ctx, 1, mini_wrap(ctx, window)));
        tensor_release(window);
    }
    tensor_release(base);
    mini_define(ctx, net,
                MINI_METHOD("forward", MINI_GET("a", "a") MINI_GET("b", "b")
                                           MINI_GET("c", "c") "%i = index(%b, 0)\n"
                                                              "%w = add_(%i, %x)\n"
                                                              "%p = index(%a, 0)\n"
                                                              "%q = index(%c, 0)\n"
                                                              "%y = add(%p, %q)\n"
                                                              "return %y\n"));
    drop(net, check_steps(ctx, net, 3));
}

/* ---- lists shared by two attributes ---- */

/* Two attributes are one list. PyTorch's scripting copies it; here it remains one list, and
 * stays. */
static void freeze_module_with_aliased_attr(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = mini_module(ctx, "Net");
    datum_t *list = MINI_LIST(ctx, 2, mini_number(ctx, 1), mini_number(ctx, 2));
    mini_put(ctx, net, "b", datum_retain(list));
    mini_put(ctx, net, "c", datum_retain(list));
    mini_put(ctx, net, "a", list);
    mini_define(ctx, net,
                MINI_METHOD("forward", MINI_GET("a", "a") MINI_GET("b", "b") "append(%b, 3)\n"
                                                                             "%n = len(%a)\n"
                                                                             "return %n, %a\n"));
    module_t *frozen = check_steps(ctx, net, 2);
    assert_false(mini_has(frozen, "c"));
    drop(net, frozen);
}

static void freeze_module_with_aliased_attr2(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = mini_module(ctx, "Net");
    datum_t *list = MINI_LIST(ctx, 2, mini_number(ctx, 1), mini_number(ctx, 2));
    mini_put(ctx, net, "b", MINI_TUPLE(ctx, 2, datum_retain(list), mini_number(ctx, 11)));
    mini_put(ctx, net, "a", list);
    mini_define(ctx, net,
                MINI_METHOD("forward",
                            MINI_GET("a", "a") MINI_GET("b", "b") "%l = index(%b, 0)\n"
                                                                  "append(%l, 3)\n"
                                                                  "%n = len(%a)\n"
                                                                  "%t = tuple(%a, 11)\n" MINI_SET(
                                                                      "b", "t") "return %n, %a\n"));
    drop(net, check_steps(ctx, net, 2));
}

static void freeze_module_with_aliased_attr3(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = mini_module(ctx, "Net");
    mini_put(ctx, net, "a", MINI_LIST(ctx, 2, mini_number(ctx, 1), mini_number(ctx, 2)));
    mini_define(ctx, net,
                MINI_METHOD("forward", MINI_GET("a", "a") "%t = tuple(%a, 11)\n"
                                                          "%l = index(%t, 0)\n"
                                                          "append(%l, 3)\n"
                                                          "%n = len(%a)\n"
                                                          "return %n, %a\n"));
    drop(net, check_steps(ctx, net, 1));
}

/* One method stores a value in an attribute; another method writes to it through the attribute. */
static void a_value_stored_in_an_attribute_stays_an_attribute(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = mini_module(ctx, "Net");
    mini_tensor(ctx, net, "a", 1.0);
    mini_tensor(ctx, net, "b", 2.0);
    mini_define(ctx, net,
                MINI_METHOD("forward", MINI_GET("a", "a") MINI_SET("b", "a") "%y = add(%x, %a)\n"
                                                                             "return %y\n"));
    mini_define(ctx, net,
                MINI_METHOD("step", MINI_GET("b", "b") "%w = add_(%b, 1.0)\n"
                                                       "return %w\n"));
    module_t *frozen = mini_freeze(ctx, net, MINI_PATHS("step"));
    for (int i = 0; i < 3; i++) {
        mini_same(ctx, net, frozen, "forward", 1.0);
        mini_same(ctx, net, frozen, "step", 1.0);
    }
    mini_explains(ctx, frozen,
                  "a: put into an attribute by `setattr(%self, %a) name=\"b\"` in forward\n"
                  "b: set by `setattr(%self, %a) name=\"b\"` in forward\n");
    drop(net, frozen);
}

/* A method chooses one of two modules at run time and writes to its attribute in place. Another
 * attribute shares the bytes and must stay, too. */
static void attributes_written_in_one_of_two_modules_stay(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = mini_module(ctx, "Net");
    module_t *one = mini_child(ctx, net, "one", "Box"), *two = mini_child(ctx, net, "two", "Box");
    tensor_t *w = mini_tensor(ctx, one, "w", 1.0);
    mini_tensor(ctx, two, "w", 2.0);
    CHECK_OK(ctx, module_set_parameter(ctx, net, "tied", w));
    mini_define(ctx, net,
                MINI_METHOD("forward", MINI_GET("one", "one") MINI_GET("two", "two")
                                           MINI_GET("tied", "tied") "%s = sum(%x) dims=[0]\n"
                                                                    "%c = scalar_gt(%s, 3)\n"
                                                                    "%m = if(%c) {\n"
                                                                    "yield %one\n"
                                                                    "} else {\n"
                                                                    "yield %two\n"
                                                                    "}\n"
                                                                    "%w = getattr(%m) name=\"w\"\n"
                                                                    "%v = add_(%w, 1.0)\n"
                                                                    "%y = add(%v, %tied)\n"
                                                                    "return %y\n"));
    module_t *frozen = mini_freeze(ctx, net, NULL);
    assert_true(mini_has(frozen, "tied"));
    for (int i = 0; i < 4; i++) mini_same(ctx, net, frozen, "forward", 1.0 + i);
    drop(net, frozen);
}

/* If a list grows, the list stays as an attribute, but the tensors in it become constants. */
static void a_list_that_grows_leaves_its_items_alone(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = mini_module(ctx, "Net");
    tensor_t *w = mini_tensor(ctx, net, "w", 4.0);
    mini_put(ctx, net, "all", MINI_LIST(ctx, 1, mini_wrap(ctx, w)));
    mini_define(ctx, net,
                MINI_METHOD("forward",
                            MINI_GET("all", "all") MINI_GET("w", "w") "append(%all, %x)\n"
                                                                      "%n = len(%all)\n"
                                                                      "%y = add(%w, %n)\n"
                                                                      "return %y\n"));
    module_t *frozen = check_steps(ctx, net, 1);
    assert_false(mini_has(frozen, "w"));
    drop(net, frozen);
}

/* ---- calls ---- */

static status_t add_one(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                        int *n_out, tensor_t **out)
{
    (void)n_in;
    *n_out = 1;
    TRY(tensor_fill(ctx, module_parameter(self, "count"), 7.0));
    return op_add(ctx, in[0], module_parameter(self, "count"), out);
}

/* A method in C may change its module and its arguments. */
static void attributes_passed_to_a_c_method_stay(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = mini_module(ctx, "Net"), *sub = mini_child(ctx, net, "sub", "Sub");
    mini_tensor(ctx, net, "a", 1.0);
    mini_tensor(ctx, net, "b", 2.0);
    mini_tensor(ctx, sub, "count", 0.0);
    CHECK_OK(ctx, module_set_forward(ctx, sub, "forward", add_one));
    mini_define(ctx, net,
                MINI_METHOD("forward", MINI_GET("sub", "sub") MINI_GET("a", "a") MINI_GET(
                                           "b", "b") "%y = call(%sub, %a) method=\"forward\"\n"
                                                     "%z = add(%y, %b)\n"
                                                     "return %z\n"));
    module_t *frozen = check_steps(ctx, net, 2);
    assert_true(mini_has(frozen, "sub.count") && mini_has(frozen, "a"));
    mini_explains(ctx, frozen,
                  "a: passed to `%y = call(%sub, %a) method=\"forward\"` in forward\n"
                  "sub.count: part of a module that is used as a whole by `%y = call(%sub, %a) "
                  "method=\"forward\"` in forward\n");
    drop(net, frozen);
}

/* A method that calls itself cannot be inlined, so it stays next to forward; it is frozen, too. */
static void a_method_that_calls_itself_stays(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = mini_module(ctx, "Net"), *sub = mini_child(ctx, net, "sub", "Sub");
    mini_int(ctx, net, "step", 1);
    mini_int(ctx, sub, "step", 2);
    static const char text[] = "graph down(%self : module, %x : tensor, %n : int) {\n"
                               "%s = getattr(%self) name=\"step\"\n"
                               "%m = scalar_sub(%n, %s)\n"
                               "%c = scalar_gt(%m, 0)\n"
                               "%y = if(%c) {\n"
                               "%z = call(%self, %x, %m) method=\"down\"\n"
                               "%w = add(%z, %x)\n"
                               "yield %w\n"
                               "} else {\n"
                               "yield %x\n"
                               "}\n"
                               "return %y\n"
                               "}\n";
    mini_define(ctx, net, text);
    mini_define(ctx, sub, text);
    mini_define(ctx, net,
                MINI_METHOD("forward",
                            MINI_GET("sub", "sub") "%y = call(%self, %x, 5) method=\"down\"\n"
                                                   "%z = call(%sub, %x, 5) method=\"down\"\n"
                                                   "%w = sub(%y, %z)\n"
                                                   "return %w\n"));
    module_t *frozen = check_steps(ctx, net, 1);
    assert_true(mini_has(frozen, "down") && mini_has(frozen, "sub.down"));
    mini_explains(ctx, frozen,
                  "sub.step: part of a module that is used as a whole by `%z = call(%sub, %x, 5) "
                  "method=\"down\"` in forward\n");
    drop(net, frozen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(freeze_module_with_inplace_mutable),
        TEST(freeze_module_with_mutable_list),
        TEST(freeze_module_with_mutable_dict),
        TEST(freeze_module_with_mutable_tensor),
        TEST(results_that_are_constants_can_be_written),
        TEST(freeze_module_with_tensor),
        TEST(freeze_module_with_tuple),
        TEST(freeze_module_with_list),
        TEST(freeze_module_with_aliased_tensor_attr),
        TEST(freeze_module_with_aliased_tensor_attr2),
        TEST(freeze_module_with_aliased_tensor_attr3),
        TEST(freeze_module_with_aliased_tensor_attr4),
        TEST(freeze_module_with_overlapping_attrs),
        TEST(freeze_module_with_aliased_attr),
        TEST(freeze_module_with_aliased_attr2),
        TEST(freeze_module_with_aliased_attr3),
        TEST(a_value_stored_in_an_attribute_stays_an_attribute),
        TEST(attributes_written_in_one_of_two_modules_stay),
        TEST(a_list_that_grows_leaves_its_items_alone),
        TEST(attributes_passed_to_a_c_method_stay),
        TEST(a_method_that_calls_itself_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
