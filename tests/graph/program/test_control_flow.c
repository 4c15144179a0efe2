/* Methods with control flow, containers and state give the same results as text, parsed again and
 * frozen. */
#include "freeze/freeze.h"
#include "graph/ir/graph.h"

#include "tests/support/support.h"

#include <string.h>

#include "tests/support/nets/mini.h"
#include "tests/support/rounds.h"

#define FORWARD(body) MINI_METHOD("forward", body)

/* Runs `forward` on ones and compares the printed result. */
static void check_run(context_t *ctx, module_t *net, const char *what, const char *wanted)
{
    datum_t *out[METHOD_MAX_OUTPUTS], *in = NULL;
    tensor_t *x = NULL;
    int n = METHOD_MAX_OUTPUTS;
    text_t text = text_begin(ctx);
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(2), 1.0, &x));
    in = mini_wrap(ctx, x);
    CHECK_OK(ctx, module_call(ctx, net, "forward", 1, &in, &n, out));
    for (int i = 0; i < n; i++) {
        if (i > 0) text_append(&text, ", ");
        rounds_show(ctx, out[i], &text);
        datum_release(out[i]);
    }
    if (strcmp(text_string(&text), wanted) != 0)
        fail_msg("%s gives %s, not %s", what, text_string(&text), wanted);
    text_clear(&text);
    datum_release(in);
    tensor_release(x);
}

/* Runs the module, its copy parsed from text, and the frozen module, each twice, because the first
 * run may change state. Releases the module. */
static void check_twice(context_t *ctx, module_t *net, const char *first, const char *second)
{
    module_t *all[] = {net, rounds_of_module(ctx, net), mini_freeze(ctx, net, NULL)};
    static const char *const names[] = {"the module", "its text", "what is frozen"};
    for (int i = 0; i < 3; i++) {
        check_run(ctx, all[i], names[i], first);
        check_run(ctx, all[i], names[i], second);
        module_release(all[i]);
    }
}

static void check_refused(context_t *ctx, module_t *net, const char *part)
{
    module_t *all[] = {net, rounds_of_module(ctx, net), mini_freeze(ctx, net, NULL)};
    tensor_t *x = NULL;
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(2), 1.0, &x));
    datum_t *in = mini_wrap(ctx, x), *out[METHOD_MAX_OUTPUTS];
    for (int i = 0; i < 3; i++) {
        int n = METHOD_MAX_OUTPUTS;
        CHECK_FAILS(ctx, module_call(ctx, all[i], "forward", 1, &in, &n, out),
                    STATUS_INVALID_ARGUMENT, part);
        module_release(all[i]);
    }
    datum_release(in);
    tensor_release(x);
}

static module_t *make(context_t *ctx, const char *body)
{
    module_t *net = mini_module(ctx, "Net");
    mini_define(ctx, net, body);
    return net;
}

/* ---- branches and loops ---- */

static void branches_in_a_branch_in_a_loop(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = mini_module(ctx, "Net");
    mini_int(ctx, net, "n", 4);
    mini_define(ctx, net,
                FORWARD(MINI_GET("n", "n") "%m = scalar_add(%n, 1)\n" MINI_SET(
                    "n", "m") "%y = loop(%n, true, %x) do (%i, %a) {\n"
                              "  %odd = scalar_mod(%i, 2)\n"
                              "  %b = if(%odd) {\n"
                              "    %late = scalar_gt(%i, 2)\n"
                              "    %c = if(%late) {\n"
                              "      %d = mul(%a, 10)\n"
                              "      yield %d\n"
                              "    } else {\n"
                              "      %e = add(%a, 1)\n"
                              "      yield %e\n"
                              "    }\n"
                              "    yield %c\n"
                              "  } else {\n"
                              "    %f = mul(%a, 2)\n"
                              "    yield %f\n"
                              "  }\n"
                              "  yield true, %b\n"
                              "}\n"
                              "return %y, %m\n"));
    check_twice(ctx, net, "<60 60>, 5", "<120 120>, 6");
}

/* The loop runs three times in the first call and five times in the second. Each iteration changes
 * the string, the list and the tensor. */
static void a_loop_carries_a_list_a_tensor_and_a_string(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = mini_module(ctx, "Net");
    mini_int(ctx, net, "n", 3);
    mini_define(
        ctx, net,
        FORWARD(MINI_GET("n", "n") "%m = scalar_add(%n, 2)\n" MINI_SET(
            "n", "m") "%l = list()\n"
                      "%p, %q, %r = loop(%n, true, %l, %x, \"even\") do (%i, %a, %b, %s) {\n"
                      "  append(%a, %i)\n"
                      "  %c = add(%b, %x)\n"
                      "  %is = scalar_eq(%s, \"even\")\n"
                      "  %t = if(%is) {\n"
                      "    yield \"odd\"\n"
                      "  } else {\n"
                      "    yield \"even\"\n"
                      "  }\n"
                      "  %d = list(%t, %i)\n"
                      "  append(%a, %d)\n"
                      "  yield true, %a, %c, %t\n"
                      "}\n"
                      "return %p, %q, %r\n"));
    check_twice(ctx, net, "[0 [\"odd\" 0] 1 [\"even\" 1] 2 [\"odd\" 2]], <4 4>, \"odd\"",
                "[0 [\"odd\" 0] 1 [\"even\" 1] 2 [\"odd\" 2] 3 [\"even\" 3] 4 [\"odd\" 4]], "
                "<6 6>, \"odd\"");
}

static void a_loop_without_a_count_goes_on_as_its_condition_says(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = mini_module(ctx, "Net");
    mini_int(ctx, net, "limit", 10);
    mini_define(ctx, net,
                FORWARD(MINI_GET("a", "limit") "%b = scalar_mul(%a, 10)\n" MINI_SET(
                    "limit", "b") "%y, %k = loop(none, true, %x, 0) do (%i, %v, %n) {\n"
                                  "  %w = mul(%v, 3)\n"
                                  "  %s = sum(%w)\n"
                                  "  %go = scalar_lt(%s, %a)\n"
                                  "  %m = scalar_add(%i, 1)\n"
                                  "  yield %go, %w, %m\n"
                                  "}\n"
                                  "%none = loop(none, false, 7) do (%j, %u) {\n"
                                  "  yield true, %j\n"
                                  "}\n"
                                  "return %y, %k, %none\n"));
    check_twice(ctx, net, "<9 9>, 2, 7", "<81 81>, 4, 7");
}

static void a_loop_of_no_rounds_gives_what_it_was_given(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = mini_module(ctx, "Net");
    mini_int(ctx, net, "n", 0);
    mini_define(ctx, net,
                FORWARD(MINI_GET("n", "n") "%m = scalar_sub(%n, 1)\n" MINI_SET(
                    "n", "m") "%l = list(%x)\n"
                              "%a, %b, %c, %d = loop(%n, true, %l, %x, \"s\", none) "
                              "do (%i, %p, %q, %r, %u) {\n"
                              "  append(%p, %i)\n"
                              "  %t = add_(%q, 1)\n"
                              "  yield true, %p, %t, \"never\", %i\n"
                              "}\n"
                              "return %a, %b, %c, %d\n"));
    check_twice(ctx, net, "[<1 1>], <1 1>, \"s\", none", "[<1 1>], <1 1>, \"s\", none");
}

/* ---- containers ---- */

static void dicts_have_strings_as_keys(void **state)
{
    context_t *ctx = fixture_context(state);
    check_twice(ctx,
                make(ctx, FORWARD("%l = list(1, none, 2.5)\n"
                                  "%e = dict(\"in\", %x)\n"
                                  "%d = dict(\"a\", %x, \"b b\", %l, \"\", %e) "
                                  ": dict<string,?>\n"
                                  "%n = len(%d)\n"
                                  "%v = getattr(%d) name=\"a\"\n"
                                  "%w = index(%d, \"\")\n"
                                  "%u = index(%w, \"in\")\n"
                                  "%y = add_(%u, %v)\n"
                                  "return %d, %n\n")),
                "{a: <2 2> b b: [1 none 2.5] : {in: <2 2>}}, 3",
                "{a: <2 2> b b: [1 none 2.5] : {in: <2 2>}}, 3");
    check_refused(ctx,
                  make(ctx, FORWARD("%d = dict(\"a\", %x)\n"
                                    "%v = index(%d, \"b\")\n"
                                    "return %v\n")),
                  "index: the dict has no \"b\"");
}

/* If the key's type is known, making the method fails; otherwise the run fails. */
static void keys_of_another_kind_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = mini_module(ctx, "Net");
    CHECK_FAILS(ctx, graph_define(ctx, net, FORWARD("%d = dict(1, %x)\nreturn %d\n")),
                STATUS_INVALID_ARGUMENT, "dict: a key is int, must be a string");
    mini_int(ctx, net, "key", 1);
    mini_define(
        ctx, net,
        FORWARD(MINI_GET("k", "key") MINI_SET("key", "k") "%d = dict(%k, %x)\nreturn %d\n"));
    check_refused(ctx, net, "dict: a key of kind int, must be a string");
}

static void negative_places_count_from_the_end(void **state)
{
    context_t *ctx = fixture_context(state);
    check_twice(ctx,
                make(ctx, FORWARD("%l = list(1, \"two\", %x)\n"
                                  "%t = tuple(%l, 4)\n"
                                  "%a = index(%l, -1)\n"
                                  "%b = index(%l, -3)\n"
                                  "%c = index(%t, -2)\n"
                                  "%d = index(%c, -2)\n"
                                  "return %a, %b, %d\n")),
                "<1 1>, 1, \"two\"", "<1 1>, 1, \"two\"");
    check_refused(ctx, make(ctx, FORWARD("%l = list(1, 2, 3)\n%a = index(%l, -4)\nreturn %a\n")),
                  "index: index -4, out of range for 3 items");
    check_refused(ctx, make(ctx, FORWARD("%l = list(1, 2, 3)\n%a = index(%l, 3)\nreturn %a\n")),
                  "index: index 3, out of range for 3 items");
}

static void unpack_takes_as_many_as_there_are(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = mini_module(ctx, "Net");
    CHECK_FAILS(ctx,
                graph_define(ctx, net, FORWARD("%t = tuple(1, %x)\n%a = unpack(%t)\nreturn %a\n")),
                STATUS_INVALID_ARGUMENT, "a tuple of 2 items, 1 values are given");
    mini_define(ctx, net, FORWARD("%l = list(1, 2, 3)\n%a, %b = unpack(%l)\nreturn %a\n"));
    check_refused(ctx, net, "unpack: 3 items, the graph takes 2");
    check_twice(ctx,
                make(ctx, FORWARD("%l = list(1, 2)\n"
                                  "append(%l, %x)\n"
                                  "%a, %b, %c = unpack(%l)\n"
                                  "return %c, %b, %a\n")),
                "<1 1>, 2, 1", "<1 1>, 2, 1");
}

/* ---- none ---- */

static void optional_values_may_be_none(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = mini_module(ctx, "Net");
    mini_define(ctx, net,
                "graph scale(%self : module, %x : f32[2], %by : tensor?, %n : int?) {\n"
                "  %is = scalar_eq(%by, none)\n"
                "  %y = if(%is) {\n"
                "    yield %x\n"
                "  } else {\n"
                "    %a = mul(%x, %by)\n"
                "    yield %a\n"
                "  }\n"
                "  %has = scalar_ne(%n, none)\n"
                "  %z = if(%has) {\n"
                "    %b = add(%y, %n)\n"
                "    yield %b\n"
                "  } else {\n"
                "    yield %y\n"
                "  }\n"
                "  return %z\n"
                "}\n");
    mini_define(ctx, net,
                FORWARD("%a = call(%self, %x, none, none) method=\"scale\"\n"
                        "%two = add(%x, %x)\n"
                        "%b = call(%self, %two, %two, none) method=\"scale\"\n"
                        "%c = call(%self, %x, none, 6) method=\"scale\"\n"
                        "%w = unsqueeze(%x) dims=[0]\n"
                        "%d = linear(%two, %w, none)\n"
                        "%l = list(%d, none)\n"
                        "return %a, %b, %c, %l, none\n"));
    check_twice(ctx, net, "<1 1>, <4 4>, <7 7>, [<4> none], none",
                "<1 1>, <4 4>, <7 7>, [<4> none], none");
}

/* ---- state ---- */

static void an_attribute_reads_as_the_value_set_before(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = mini_module(ctx, "Net"), *inner = mini_child(ctx, net, "inner", "Inner");
    mini_int(ctx, net, "n", 1);
    mini_tensor(ctx, inner, "w", 2.0);
    mini_define(ctx, inner,
                FORWARD(MINI_GET("w", "w") "%y = mul(%x, %w)\n"
                                           "%v = add(%w, 1)\n" MINI_SET("w", "v") "return %y\n"));
    mini_define(
        ctx, net,
        FORWARD(
            MINI_GET("n", "n") "%m = scalar_mul(%n, 2)\n" MINI_SET("n", "m") MINI_GET("k", "n")
                MINI_GET("inner",
                         "inner") "%y = loop(%k, true, %x) do (%i, %a) {\n"
                                  "  %s = add(%a, %i)\n"
                                  "  setattr(%inner, %s) name=\"w\"\n"
                                  "  %b = call(%inner, %a) method=\"forward\"\n"
                                  "  " MINI_GET(
                                      "g", "inner.w") "  %c = sub(%b, %g)\n"
                                                      "  %d = getattr(%self) name=\"n\"\n"
                                                      "  %e = scalar_add(%d, 1)\n"
                                                      "  setattr(%self, %e) name=\"n\"\n"
                                                      "  yield true, %c\n"
                                                      "}\n" MINI_GET("o", "n") MINI_GET(
                                                          "w",
                                                          "inner.w") "return %y, %k, %o, %w\n"));
    /* Starting from a = 1, iteration i replaces a by a (a + i) - (a + i + 1). */
    check_twice(ctx, net, "<-1 -1>, 2, 4, <1 1>", "<87599 87599>, 8, 16, <301 301>");
}

static void a_tensor_is_set_to_tensors_alone(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = mini_module(ctx, "Net");
    mini_tensor(ctx, net, "w", 2.0);
    mini_define(ctx, net,
                FORWARD("%l = list(%x)\n"
                        "%n = len(%l)\n" MINI_SET("w", "n") "return %x\n"));
    check_refused(ctx, net, "setattr: \"w\" of Net is a tensor, given a value of kind int");
}

static void writes_in_place_last(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = mini_module(ctx, "Net"), *inner = mini_child(ctx, net, "inner", "Inner");
    mini_tensor(ctx, inner, "w", -3.0);
    mini_define(
        ctx, net,
        FORWARD(MINI_GET(
            "w", "inner.w") "%before = add(%w, 0)\n"
                            "%v = add_(%w, %x)\n"
                            "%y = loop(2, true, %v) do (%i, %a) {\n"
                            "  %b = add_(%a, 1)\n"
                            "  yield true, %b\n"
                            "}\n" MINI_GET(
                                "u", "inner.w") "%r = add(%u, 0)\n"
                                                "%z = relu_(%u)\n" MINI_GET(
                                                    "t",
                                                    "inner.w") "return %before, %r, %z, %t\n"));
    check_twice(ctx, net, "<-3 -3>, <0 0>, <0 0>, <0 0>", "<0 0>, <3 3>, <3 3>, <3 3>");
}

static void appended_items_stay_in_the_list(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = mini_module(ctx, "Net"), *inner = mini_child(ctx, net, "inner", "Inner");
    mini_put(ctx, inner, "seen", MINI_LIST(ctx, 1, mini_text(ctx, "begin")));
    mini_define(ctx, inner,
                FORWARD(MINI_GET("l", "seen") "%n = len(%l)\n"
                                              "append(%l, %n)\n"
                                              "%y = mul(%x, %n)\n"
                                              "return %y\n"));
    mini_define(ctx, net,
                FORWARD(MINI_GET("inner", "inner") MINI_GET(
                    "l", "inner.seen") "%y = loop(2, true, %x) do (%i, %a) {\n"
                                       "  %b = call(%inner, %a) method=\"forward\"\n"
                                       "  yield true, %b\n"
                                       "}\n"
                                       "append(%l, \"end\")\n"
                                       "%n = len(%l)\n"
                                       "%c = index(%l, -2)\n"
                                       "return %y, %n, %c, %l\n"));
    check_twice(ctx, net, "<2 2>, 4, 2, [\"begin\" 1 2 \"end\"]",
                "<20 20>, 7, 5, [\"begin\" 1 2 \"end\" 4 5 \"end\"]");
}

static void a_method_that_calls_itself_without_end_is_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *module = NULL, *frozen = NULL;
    tensor_t *x = NULL, *y = NULL;
    CHECK_OK(ctx, module_create(ctx, "Endless", &module));
    CHECK_OK(ctx, graph_define(ctx, module,
                               "graph forward(%self : module, %x : f32[2]) {\n"
                               "  %1 = relu(%x)\n"
                               "  %y = call(%self, %1) method=\"forward\"\n"
                               "  return %y\n}\n"));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(2), &x));
    CHECK_OK(ctx, freeze(ctx, module, NULL, &frozen));
    module_t *const modules[] = {module, frozen};
    for (int i = 0; i < 4; i++) /* twice each: a failure must reset the count of nested calls */
        CHECK_FAILS(ctx, module_forward(ctx, modules[i % 2], x, &y), STATUS_INVALID_ARGUMENT,
                    "call: \"forward\" of Endless, methods call each other 128 deep");
    tensor_release(x);
    module_release(frozen);
    module_release(module);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(branches_in_a_branch_in_a_loop),
        TEST(a_loop_carries_a_list_a_tensor_and_a_string),
        TEST(a_loop_without_a_count_goes_on_as_its_condition_says),
        TEST(a_loop_of_no_rounds_gives_what_it_was_given),
        TEST(dicts_have_strings_as_keys),
        TEST(keys_of_another_kind_are_refused),
        TEST(negative_places_count_from_the_end),
        TEST(unpack_takes_as_many_as_there_are),
        TEST(optional_values_may_be_none),
        TEST(an_attribute_reads_as_the_value_set_before),
        TEST(a_tensor_is_set_to_tensors_alone),
        TEST(writes_in_place_last),
        TEST(appended_items_stay_in_the_list),
        TEST(a_method_that_calls_itself_without_end_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
