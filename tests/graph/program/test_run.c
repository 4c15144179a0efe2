#include "graph/ir/graph.h"

#include <stdio.h>
#include <string.h>

#include "tensor/convert/convert.h"
#include "tensor/scope.h"
#include "tensor/tensor_impl.h"
#include "tests/support/support.h"

/* ---- helpers ---- */

static graph_t *parse(context_t *ctx, const char *text)
{
    graph_t *graph = NULL;
    CHECK_OK(ctx, graph_parse(ctx, text, NULL, &graph));
    CHECK_OK(ctx, graph_verify(ctx, graph));
    return graph;
}

static datum_t *of_int(context_t *ctx, int64_t value)
{
    datum_t *datum;
    CHECK_OK(ctx, datum_int(ctx, value, &datum));
    return datum;
}

static datum_t *of_bool(context_t *ctx, bool value)
{
    datum_t *datum = NULL;
    CHECK_OK(ctx, datum_bool(ctx, value, &datum));
    return datum;
}

/* Makes f32[n] from values. */
static datum_t *of_floats(context_t *ctx, int64_t n, const float *values)
{
    tensor_t *tensor = NULL;
    datum_t *datum = NULL;
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, 1, &n, values, &tensor));
    CHECK_OK(ctx, datum_tensor(ctx, tensor, &datum));
    tensor_release(tensor);
    return datum;
}
#define FLOATS(ctx, ...)                                                                           \
    of_floats((ctx), (int64_t)(sizeof((float[]){__VA_ARGS__}) / sizeof(float)),                    \
              (float[]){__VA_ARGS__})

static void check_floats(context_t *ctx, const datum_t *datum, int64_t n, const float *values)
{
    float read[16];
    assert_int_equal(datum_kind(datum), DATUM_TENSOR);
    assert_int_equal(tensor_numel(datum_as_tensor(datum)), n);
    CHECK_OK(ctx, tensor_read(ctx, datum_as_tensor(datum), read, sizeof read));
    for (int64_t i = 0; i < n; i++) assert_float_equal(read[i], values[i], 1e-6);
}
#define CHECK_FLOATS(ctx, datum, ...)                                                              \
    check_floats((ctx), (datum), (int64_t)(sizeof((float[]){__VA_ARGS__}) / sizeof(float)),        \
                 (float[]){__VA_ARGS__})

/* Runs a graph's text on inputs, which it releases. Returns the only result. */
static datum_t *run_text(context_t *ctx, module_t *self, const char *text, int n, datum_t **in)
{
    datum_t *out[METHOD_MAX_OUTPUTS] = {NULL};
    int n_out = METHOD_MAX_OUTPUTS;
    graph_t *graph = parse(ctx, text);
    CHECK_OK(ctx, graph_run(ctx, graph, self, n, in, &n_out, out));
    assert_int_equal(n_out, 1);
    for (int i = 0; i < n; i++) datum_release(in[i]);
    graph_release(graph);
    return out[0];
}

static void fails(context_t *ctx, const char *text, int n, datum_t **in, status_t status,
                  const char *part)
{
    datum_t *out[METHOD_MAX_OUTPUTS] = {NULL};
    int n_out = METHOD_MAX_OUTPUTS;
    graph_t *graph = parse(ctx, text);
    CHECK_FAILS(ctx, graph_run(ctx, graph, NULL, n, in, &n_out, out), status, part);
    assert_null(out[0]);
    for (int i = 0; i < n; i++) datum_release(in[i]);
    graph_release(graph);
}

/* ---- operators ---- */

static void numbers_are_operands(void **state)
{
    context_t *ctx = fixture_context(state);
    datum_t *in[] = {FLOATS(ctx, 1, -2, 3)};
    datum_t *y = run_text(ctx, NULL,
                          "graph f(%x : f32[3]) {\n"
                          "  %a = mul(%x, 2)\n"
                          "  %b = add(%a, 0.5)\n"
                          "  return %b\n"
                          "}\n",
                          1, in);
    CHECK_FLOATS(ctx, y, 2.5F, -3.5F, 6.5F);
    assert_int_equal(tensor_dtype(datum_as_tensor(y)), DTYPE_F32);
    datum_release(y);
}

static void a_list_stands_for_the_operands_it_holds(void **state)
{
    context_t *ctx = fixture_context(state);
    datum_t *in[] = {FLOATS(ctx, 1, 2), FLOATS(ctx, 3)};
    datum_t *y = run_text(ctx, NULL,
                          "graph f(%a : tensor, %b : tensor) {\n"
                          "  %l = list(%a, %b, %a)\n"
                          "  %y = concat(%l) dim=0\n"
                          "  return %y\n"
                          "}\n",
                          2, in);
    CHECK_FLOATS(ctx, y, 1, 2, 3, 1, 2);
    datum_release(y);
}

static void an_operator_with_several_results_gives_them_all(void **state)
{
    context_t *ctx = fixture_context(state);
    datum_t *in[] = {FLOATS(ctx, 1, 2, 3)};
    datum_t *y = run_text(ctx, NULL,
                          "graph f(%x : f32[3]) {\n"
                          "  %a, %b = split(%x) sizes=[2,1]\n"
                          "  %y = mul(%a, %b)\n"
                          "  return %y\n"
                          "}\n",
                          1, in);
    CHECK_FLOATS(ctx, y, 3, 6);
    datum_release(y);
}

static void in_place_operators_write_their_first_operand(void **state)
{
    context_t *ctx = fixture_context(state);
    datum_t *x = FLOATS(ctx, -1, 2);
    datum_t *in[] = {datum_retain(x)};
    datum_t *y = run_text(ctx, NULL,
                          "graph f(%x : f32[2]) {\n"
                          "  %a = relu_(%x)\n"
                          "  %b = add_(%a, 1)\n"
                          "  return %x\n"
                          "}\n",
                          1, in);
    CHECK_FLOATS(ctx, y, 1, 3);
    CHECK_FLOATS(ctx, x, 1, 3);
    datum_release(y);
    datum_release(x);
}

static void in_place_operators_refuse_a_result_of_another_shape(void **state)
{
    context_t *ctx = fixture_context(state);
    datum_t *in[] = {FLOATS(ctx, 1), FLOATS(ctx, 1, 2)};
    fails(ctx,
          "graph f(%x : tensor, %y : tensor) {\n"
          "  %a = add_(%x, %y)\n"
          "  return %a\n"
          "}\n",
          2, in, STATUS_INVALID_ARGUMENT, "add_: operand 0 is f32[1], the result f32[2]");
}

/* ---- branches and loops ---- */

static const char *const branches = "graph f(%c : bool, %x : f32[2]) {\n"
                                    "  %y = if(%c) {\n"
                                    "    %a = mul(%x, 10)\n"
                                    "    yield %a\n"
                                    "  } else {\n"
                                    "    %b = neg(%x)\n"
                                    "    yield %b\n"
                                    "  }\n"
                                    "  return %y\n"
                                    "}\n";

static void if_takes_the_branch_of_its_condition(void **state)
{
    context_t *ctx = fixture_context(state);
    for (int i = 0; i < 2; i++) {
        datum_t *in[] = {of_bool(ctx, i == 0), FLOATS(ctx, 1, 2)};
        datum_t *y = run_text(ctx, NULL, branches, 2, in);
        if (i == 0)
            CHECK_FLOATS(ctx, y, 10, 20);
        else
            CHECK_FLOATS(ctx, y, -1, -2);
        datum_release(y);
    }
}

static void loop_runs_as_often_as_its_trip_count(void **state)
{
    context_t *ctx = fixture_context(state);
    for (int64_t n = 0; n < 4; n++) {
        datum_t *in[] = {of_int(ctx, n), FLOATS(ctx, 1, 2)};
        datum_t *y = run_text(ctx, NULL,
                              "graph f(%n : int, %x : f32[2]) {\n"
                              "  %s, %p = loop(%n, true, %x, 0) do (%i, %a, %sum) {\n"
                              "    %b = add(%a, %x)\n"
                              "    %t = scalar_add(%sum, %i)\n"
                              "    %go = constant() value=true\n"
                              "    yield %go, %b, %t\n"
                              "  }\n"
                              "  %y = add(%s, %p)\n"
                              "  return %y\n"
                              "}\n",
                              2, in);
        float k = (float)n, rounds = (float)(n * (n - 1) / 2);
        CHECK_FLOATS(ctx, y, 1 + k + rounds, 2 + 2 * k + rounds);
        datum_release(y);
    }
}

static void loop_ends_when_its_condition_fails(void **state)
{
    context_t *ctx = fixture_context(state);
    datum_t *in[] = {of_int(ctx, 100)};
    datum_t *y = run_text(ctx, NULL,
                          "graph f(%limit : int) {\n"
                          "  %p = loop(none, true, 1) do (%i, %a) {\n"
                          "    %b = scalar_mul(%a, 2)\n"
                          "    %go = scalar_lt(%b, %limit)\n"
                          "    yield %go, %b\n"
                          "  }\n"
                          "  return %p\n"
                          "}\n",
                          1, in);
    assert_int_equal(datum_as_int(y), 128);
    datum_release(y);
}

static void loop_that_may_not_begin_gives_what_it_was_given(void **state)
{
    context_t *ctx = fixture_context(state);
    datum_t *in[] = {of_bool(ctx, false)};
    datum_t *y = run_text(ctx, NULL,
                          "graph f(%go : bool) {\n"
                          "  %p = loop(5, %go, 7) do (%i, %a) {\n"
                          "    %b = scalar_add(%a, 1)\n"
                          "    yield %go, %b\n"
                          "  }\n"
                          "  return %p\n"
                          "}\n",
                          1, in);
    assert_int_equal(datum_as_int(y), 7);
    datum_release(y);
}

/* ---- builtins ---- */

static int64_t integer(context_t *ctx, const char *expression)
{
    char text[512];
    snprintf(text, sizeof text, "graph f() {\n  %%y = %s\n  return %%y\n}\n", expression);
    datum_t *y = run_text(ctx, NULL, text, 0, NULL);
    assert_true(datum_kind(y) == DATUM_INT || datum_kind(y) == DATUM_BOOL);
    int64_t value = datum_as_int(y);
    datum_release(y);
    return value;
}

static double number(context_t *ctx, const char *expression)
{
    char text[512];
    snprintf(text, sizeof text, "graph f() {\n  %%y = %s\n  return %%y\n}\n", expression);
    datum_t *y = run_text(ctx, NULL, text, 0, NULL);
    assert_int_equal(datum_kind(y), DATUM_FLOAT);
    double value = datum_as_float(y);
    datum_release(y);
    return value;
}

static void scalars_calculate_as_python(void **state)
{
    context_t *ctx = fixture_context(state);
    assert_int_equal(integer(ctx, "scalar_floordiv(-7, 2)"), -4);
    assert_int_equal(integer(ctx, "scalar_mod(-7, 2)"), 1);
    assert_int_equal(integer(ctx, "scalar_mod(7, -2)"), -1);
    assert_int_equal(integer(ctx, "scalar_sub(3, 5)"), -2);
    assert_int_equal(integer(ctx, "scalar_neg(3)"), -3);
    assert_float_equal(number(ctx, "scalar_div(1, 4)"), 0.25, 0);
    assert_float_equal(number(ctx, "scalar_mod(-7.5, 2)"), 0.5, 0);
    assert_float_equal(number(ctx, "scalar_floordiv(-7.5, 2)"), -4.0, 0);
    assert_float_equal(number(ctx, "scalar_add(1, 0.5)"), 1.5, 0);
    assert_int_equal(integer(ctx, "scalar_lt(9007199254740993, 9007199254740992)"), 0);
    assert_int_equal(integer(ctx, "scalar_ge(2, 2.0)"), 1);
    assert_int_equal(integer(ctx, "scalar_eq(\"a\", \"a\")"), 1);
    assert_int_equal(integer(ctx, "scalar_ne(none, 1)"), 1);
    assert_int_equal(integer(ctx, "scalar_and(true, 0)"), 0);
    assert_int_equal(integer(ctx, "scalar_or(false, 2)"), 1);
    assert_int_equal(integer(ctx, "scalar_not(0)"), 1);
}

static void scalars_that_cannot_be_calculated_are_told(void **state)
{
    context_t *ctx = fixture_context(state);
    fails(ctx, "graph f() {\n  %y = scalar_floordiv(1, 0)\n  return %y\n}\n", 0, NULL,
          STATUS_INVALID_ARGUMENT, "scalar_floordiv: 1 by 0");
    fails(ctx, "graph f() {\n  %y = scalar_div(1.0, 0)\n  return %y\n}\n", 0, NULL,
          STATUS_INVALID_ARGUMENT, "scalar_div: 1 by zero");
    fails(ctx, "graph f() {\n  %y = scalar_mul(9223372036854775807, 2)\n  return %y\n}\n", 0, NULL,
          STATUS_INVALID_ARGUMENT, "scalar_mul: 9223372036854775807 and 2, the result overflows");
}

static void containers_are_made_and_taken_apart(void **state)
{
    context_t *ctx = fixture_context(state);
    datum_t *y = run_text(ctx, NULL,
                          "graph f() {\n"
                          "  %l = list(1, 2)\n"
                          "  append(%l, 30)\n"
                          "  %n = len(%l)\n"
                          "  %last = index(%l, -1)\n"
                          "  %t = tuple(%n, %last)\n"
                          "  %a, %b = unpack(%t)\n"
                          "  %d = dict(\"sum\", %a, \"product\", %b)\n"
                          "  %p = index(%d, \"product\")\n"
                          "  %y = scalar_add(%p, %a)\n"
                          "  return %y\n"
                          "}\n",
                          0, NULL);
    assert_int_equal(datum_as_int(y), 33);
    datum_release(y);
}

static void a_result_that_is_written_does_not_change_a_constant_of_the_graph(void **state)
{
    context_t *ctx = fixture_context(state);
    datum_t *constant = FLOATS(ctx, 1, 1), *pool = NULL;
    CHECK_OK(ctx, datum_list(ctx, 1, &constant, &pool));
    graph_t *graph = NULL;
    CHECK_OK(ctx, graph_parse(ctx,
                              "graph f() {\n"
                              "  %c = constant() value=$0\n"
                              "  %v = reshape(%c) sizes=[2,1]\n"
                              "  %l = list(%v)\n"
                              "  return %v, %l\n"
                              "}\n",
                              pool, &graph));
    for (int run = 0; run < 2; run++) {
        datum_t *out[METHOD_MAX_OUTPUTS] = {NULL};
        int n_out = METHOD_MAX_OUTPUTS;
        CHECK_OK(ctx, graph_run(ctx, graph, NULL, 0, NULL, &n_out, out));
        CHECK_FLOATS(ctx, out[0], 1, 1);
        CHECK_OK(ctx, tensor_fill(ctx, datum_as_tensor(datum_item(out[1], 0)), 5.0));
        CHECK_FLOATS(ctx, out[0], 5, 5);
        for (int i = 0; i < n_out; i++) datum_release(out[i]);
    }
    CHECK_FLOATS(ctx, constant, 1, 1);
    graph_release(graph);
    datum_release(pool);
    datum_release(constant);
}

/* The list of the module's members changes with each new attribute while the method runs. */
static void a_method_may_set_new_attributes_of_its_module(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = NULL;
    tensor_t *x = NULL, *y = NULL;
    text_t text = text_begin(ctx);
    CHECK_OK(ctx, module_create(ctx, "Net", &net));
    text_append(&text, "graph forward(%%self : module, %%x : f32[2]) {\n");
    for (int i = 0; i < 40; i++) text_append(&text, "  setattr(%%self, %d) name=\"n%d\"\n", i, i);
    text_append(&text, "  return 7\n}\n");
    CHECK_OK(ctx, graph_define(ctx, net, text_string(&text)));
    text_clear(&text);
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, 1, (const int64_t[]){2}, &x));
    CHECK_FAILS(ctx, module_forward(ctx, net, x, &y), STATUS_INVALID_ARGUMENT,
                "module: result 0 of forward of Net is int, only module_call can return that");
    assert_int_equal(datum_as_int(module_attribute(net, "n39")), 39);
    tensor_release(x);
    module_release(net);
}

static void an_item_that_a_list_does_not_have_is_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    fails(ctx,
          "graph f() {\n"
          "  %l = list(1, 2)\n"
          "  %y = index(%l, 5)\n"
          "  return %y\n"
          "}\n",
          0, NULL, STATUS_INVALID_ARGUMENT, "index: index 5, out of range for 2 items");
}

static void operands_beyond_what_operators_take_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    graph_t *graph = NULL;
    text_t text = text_begin(ctx);
    text_append(&text, "graph f(%%x : f32[1,2]) {\n  %%y = concat(");
    for (int i = 0; i < 65; i++) text_append(&text, "%s%%x", i > 0 ? ", " : "");
    text_append(&text, ") dim=0 : f32[65,2]\n  return %%y\n}\n");
    CHECK_FAILS(ctx, graph_parse(ctx, text_string(&text), NULL, &graph), STATUS_INVALID_ARGUMENT,
                "concat: 65 operands, at most 64 are allowed");
    text_clear(&text);
    text = text_begin(ctx);
    text_append(&text, "graph f(%%x : f32[33]) {\n  %%y0");
    for (int i = 1; i < 33; i++) text_append(&text, ", %%y%d", i);
    text_append(&text, " = split(%%x) sizes=[1]\n  return %%y0\n}\n");
    CHECK_FAILS(ctx, graph_parse(ctx, text_string(&text), NULL, &graph), STATUS_INVALID_ARGUMENT,
                "split: 33 results, at most 32 are allowed");
    text_clear(&text);
}

static void a_list_that_is_constant_is_new_at_every_run(void **state)
{
    context_t *ctx = fixture_context(state);
    graph_t *graph = parse(ctx, "graph f() {\n"
                                "  %l = constant() value=[1,2]\n"
                                "  append(%l, 3)\n"
                                "  %n = len(%l)\n"
                                "  return %n\n"
                                "}\n");
    for (int i = 0; i < 2; i++) {
        datum_t *out[METHOD_MAX_OUTPUTS];
        int n_out = METHOD_MAX_OUTPUTS;
        CHECK_OK(ctx, graph_run(ctx, graph, NULL, 0, NULL, &n_out, out));
        assert_int_equal(datum_as_int(out[0]), 3);
        datum_release(out[0]);
    }
    graph_release(graph);
}

/* ---- modules ---- */

/* Makes a module whose child `inner` has a `scale` of two elements, and no bias. */
static module_t *make_module(context_t *ctx)
{
    module_t *root = NULL, *inner = NULL;
    datum_t *scale = FLOATS(ctx, 2, 3), *version = of_int(ctx, 1);
    CHECK_OK(ctx, module_create(ctx, "Root", &root));
    CHECK_OK(ctx, module_create(ctx, "Inner", &inner));
    CHECK_OK(ctx, module_set_child(ctx, root, "inner", inner));
    CHECK_OK(ctx, module_set_parameter(ctx, inner, "scale", datum_as_tensor(scale)));
    CHECK_OK(ctx, module_set_parameter(ctx, inner, "bias", NULL));
    CHECK_OK(ctx, module_set_attribute(ctx, root, "version", version));
    datum_release(version);
    datum_release(scale);
    module_release(inner);
    return root;
}

static void attributes_are_read_at_every_run(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *root = make_module(ctx);
    datum_t *x = FLOATS(ctx, 1, 1);
    static const char *const text = "graph f(%self : module, %x : f32[2]) {\n"
                                    "  %inner = getattr(%self) name=\"inner\"\n"
                                    "  %s = getattr(%inner) name=\"scale\"\n"
                                    "  %t = getattr(%self) name=\"inner.scale\"\n"
                                    "  %a = mul(%x, %s)\n"
                                    "  %b = add(%a, %t)\n"
                                    "  return %b\n"
                                    "}\n";
    datum_t *y = run_text(ctx, root, text, 1, (datum_t *[]){datum_retain(x)});
    CHECK_FLOATS(ctx, y, 4, 6);
    datum_release(y);
    CHECK_OK(ctx, tensor_fill(ctx, module_parameter(root, "inner.scale"), 1.0));
    y = run_text(ctx, root, text, 1, (datum_t *[]){datum_retain(x)});
    CHECK_FLOATS(ctx, y, 2, 2);
    datum_release(y);
    datum_release(x);
    module_release(root);
}

static void a_parameter_that_is_absent_is_none(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *root = make_module(ctx);
    datum_t *y = run_text(ctx, root,
                          "graph f(%self : module) {\n"
                          "  %b = getattr(%self) name=\"inner.bias\"\n"
                          "  return %b\n"
                          "}\n",
                          0, NULL);
    assert_int_equal(datum_kind(y), DATUM_NONE);
    datum_release(y);
    module_release(root);
}

static void attributes_set_by_a_run_are_seen_by_the_next(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *root = make_module(ctx);
    CHECK_OK(ctx, graph_define(ctx, root,
                               "graph count(%self : module) {\n"
                               "  %v = getattr(%self) name=\"version\"\n"
                               "  %w = scalar_add(%v, 1)\n"
                               "  setattr(%self, %w) name=\"version\"\n"
                               "  return %w\n"
                               "}\n"));
    for (int i = 2; i < 5; i++) {
        datum_t *out[METHOD_MAX_OUTPUTS];
        int n_out = METHOD_MAX_OUTPUTS;
        CHECK_OK(ctx, module_call(ctx, root, "count", 0, NULL, &n_out, out));
        assert_int_equal(datum_as_int(out[0]), i);
        datum_release(out[0]);
    }
    assert_int_equal(datum_as_int(module_attribute(root, "version")), 4);
    module_release(root);
}

static status_t twice(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                      int *n_out, tensor_t **out)
{
    (void)self;
    (void)n_in;
    *n_out = 1;
    return op_add(ctx, in[0], in[0], out);
}

static void methods_in_c_and_in_graphs_call_each_other(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *root = make_module(ctx);
    CHECK_OK(ctx, module_set_forward(ctx, module_child(root, "inner"), "twice", twice));
    CHECK_OK(ctx, graph_define(ctx, module_child(root, "inner"),
                               "graph forward(%self : module, %x : tensor) {\n"
                               "  %s = getattr(%self) name=\"scale\"\n"
                               "  %a = call(%self, %x) method=\"twice\"\n"
                               "  %b = mul(%a, %s)\n"
                               "  return %b\n"
                               "}\n"));
    CHECK_OK(ctx, graph_define(ctx, root,
                               "graph forward(%self : module, %x : tensor) {\n"
                               "  %inner = getattr(%self) name=\"inner\"\n"
                               "  %y = call(%inner, %x) method=\"forward\"\n"
                               "  return %y\n"
                               "}\n"));
    assert_non_null(graph_of(root, "forward"));
    assert_null(graph_of(module_child(root, "inner"), "twice"));
    assert_null(graph_of(root, "backward"));
    datum_t *x = FLOATS(ctx, 1, 10), *datum = NULL;
    tensor_t *y = NULL;
    CHECK_OK(ctx, module_forward(ctx, root, datum_as_tensor(x), &y));
    CHECK_OK(ctx, datum_tensor(ctx, y, &datum));
    CHECK_FLOATS(ctx, datum, 4, 60);
    datum_release(datum);
    datum_release(x);
    tensor_release(y);
    module_release(root);
}

static void a_clone_has_the_method_but_its_own_attributes(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *root = make_module(ctx), *copy = NULL;
    CHECK_OK(ctx, graph_define(ctx, root,
                               "graph forward(%self : module, %x : tensor) {\n"
                               "  %s = getattr(%self) name=\"inner.scale\"\n"
                               "  %y = mul(%x, %s)\n"
                               "  return %y\n"
                               "}\n"));
    CHECK_OK(ctx, module_clone(ctx, root, &copy));
    CHECK_OK(ctx, tensor_fill(ctx, module_parameter(root, "inner.scale"), 0.0));
    module_release(root);
    datum_t *x = FLOATS(ctx, 1, 1), *datum = NULL;
    tensor_t *y = NULL;
    CHECK_OK(ctx, module_forward(ctx, copy, datum_as_tensor(x), &y));
    CHECK_OK(ctx, datum_tensor(ctx, y, &datum));
    CHECK_FLOATS(ctx, datum, 2, 3);
    datum_release(datum);
    datum_release(x);
    tensor_release(y);
    module_release(copy);
}

/* ---- lifetimes ---- */

/* A method that returns the number of allocated blocks. */
static status_t probe(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                      int *n_out, tensor_t **out)
{
    (void)self;
    (void)n_in;
    counting_t *memory = context_allocator(ctx)->user;
    *n_out = 1;
    TRY(op_relu(ctx, in[0], out));
    return tensor_full(ctx, DTYPE_F32, 0, NULL, (double)atomic_load(&memory->live), out);
}

static double alive_after(context_t *ctx, int n)
{
    char text[2048];
    module_t *root = NULL;
    int length = snprintf(text, sizeof text, "graph f(%%self : module, %%x0 : tensor) {\n");
    for (int i = 1; i <= n; i++)
        length += snprintf(text + length, sizeof text - (size_t)length, "  %%x%d = relu(%%x%d)\n",
                           i, i - 1);
    snprintf(text + length, sizeof text - (size_t)length,
             "  %%y = call(%%self, %%x%d) method=\"probe\"\n  return %%y\n}\n", n);
    CHECK_OK(ctx, module_create(ctx, "Root", &root));
    CHECK_OK(ctx, module_set_forward(ctx, root, "probe", probe));
    graph_t *graph = parse(ctx, text);
    int before = (int)atomic_load(&((counting_t *)context_allocator(ctx)->user)->live);
    datum_t *x = FLOATS(ctx, 1, 2), *y[METHOD_MAX_OUTPUTS];
    int n_out = METHOD_MAX_OUTPUTS;
    double alive;
    CHECK_OK(ctx, graph_run(ctx, graph, root, 1, &x, &n_out, y));
    CHECK_OK(ctx, tensor_item(ctx, datum_as_tensor(y[0]), &alive));
    datum_release(y[0]);
    datum_release(x);
    graph_release(graph);
    module_release(root);
    return alive - before;
}

static void values_are_released_at_their_last_use(void **state)
{
    context_t *ctx = fixture_context(state);
    (void)alive_after(ctx, 1); /* fills caches */
    double one = alive_after(ctx, 1);
    assert_float_equal(alive_after(ctx, 20), one, 0);
}

static void a_scope_around_does_not_matter(void **state)
{
    context_t *ctx = fixture_context(state);
    CHECK_OK(ctx, scope_begin(ctx));
    datum_t *x = FLOATS(ctx, 1, 1);
    scope_keep(ctx, datum_as_tensor(x));
    CHECK_OK(ctx, scope_end(ctx));
    datum_release(x);

    CHECK_OK(ctx, scope_begin(ctx));
    tensor_t *made = NULL;
    datum_t *in[1];
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(2), 1.0, &made));
    CHECK_OK(ctx, datum_tensor(ctx, made, &in[0]));
    datum_t *y = run_text(ctx, NULL,
                          "graph f(%x : f32[2]) {\n"
                          "  %a = add(%x, 1)\n"
                          "  %b = add(%a, %x)\n"
                          "  return %b\n"
                          "}\n",
                          1, in);
    CHECK_OK(ctx, scope_end(ctx));
    CHECK_FLOATS(ctx, y, 3, 3);
    datum_release(y);
}

/* ---- errors ---- */

static void inputs_that_do_not_fit_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    static const char *const text = "graph f(%x : f32[2]) {\n"
                                    "  %y = relu(%x)\n"
                                    "  return %y\n"
                                    "}\n";
    datum_t *in[] = {FLOATS(ctx, 1, 2, 3)};
    fails(ctx, text, 1, in, STATUS_INVALID_ARGUMENT,
          "f: input x is f32[3], the graph was made for f32[2]");
    fails(ctx, text, 0, NULL, STATUS_INVALID_ARGUMENT, "f: given 0 inputs, takes 1");
    datum_t *none = NULL;
    CHECK_OK(ctx, datum_none(ctx, &none));
    fails(ctx, text, 1, &none, STATUS_INVALID_ARGUMENT, "f: input x is of kind none");
    fails(ctx,
          "graph f(%self : module) {\n"
          "  %y = getattr(%self) name=\"a\"\n"
          "  return %y\n"
          "}\n",
          0, NULL, STATUS_INVALID_ARGUMENT, "f: takes a module as its first input");
}

/* If the list is empty, join and stack return their third operand. Otherwise they use the list. */
static void an_empty_list_gives_what_stands_for_it(void **state)
{
    context_t *ctx = fixture_context(state);
    const char *text = "graph f(%x, %e) {\n"
                       "  %l = list()\n"
                       "  %a = join(%l, 0, %e)\n"
                       "  %b = stack(%l, 0, %e)\n"
                       "  %m = list(%x, %x)\n"
                       "  %c = join(%m, 0, %e)\n"
                       "  %t = tuple(%a, %b, %c)\n"
                       "  return %t }\n";
    tensor_t *tensors[2] = {NULL};
    datum_t *in[2] = {NULL};
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(1, 3), &tensors[0]));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(0, 3), &tensors[1]));
    for (int i = 0; i < 2; i++) CHECK_OK(ctx, datum_tensor(ctx, tensors[i], &in[i]));
    datum_t *y = run_text(ctx, NULL, text, 2, in);
    for (int i = 0; i < 3; i++)
        assert_int_equal(tensor_sizes(datum_as_tensor(datum_item(y, i)))[0], i < 2 ? 0 : 2);
    datum_release(y);
    for (int i = 0; i < 2; i++) tensor_release(tensors[i]);
    fails(ctx,
          "graph f() {\n"
          "  %l = list()\n"
          "  %a = join(%l, 0, 1)\n"
          "  return %a }\n",
          0, NULL, STATUS_INVALID_ARGUMENT, "join: a int for an empty list, must be a tensor");
}

static void attributes_that_are_not_there_are_named(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *root = make_module(ctx);
    graph_t *graph = parse(ctx, "graph f(%self : module) {\n"
                                "  %y = getattr(%self) name=\"inner.weight\"\n"
                                "  return %y\n"
                                "}\n");
    datum_t *out[METHOD_MAX_OUTPUTS];
    int n_out = METHOD_MAX_OUTPUTS;
    CHECK_FAILS(ctx, graph_run(ctx, graph, root, 0, NULL, &n_out, out), STATUS_INVALID_ARGUMENT,
                "getattr: Root has no member \"inner.weight\"");
    graph_release(graph);
    CHECK_FAILS(ctx, graph_define(ctx, root, "graph f(%x : tensor) {\n  return %x\n}\n"),
                STATUS_INVALID_ARGUMENT, "graph_define: the first parameter of f must be");
    module_release(root);
}

/* ---- allocation ---- */

static status_t run_all(context_t *ctx)
{
    static const char *const text = "graph f(%self : module, %n : int, %x : f32[2]) {\n"
                                    "  %w = getattr(%self) name=\"w\"\n"
                                    "  %s = loop(%n, true, %x) do (%i, %a) {\n"
                                    "    %c = scalar_lt(%i, 1)\n"
                                    "    %b = if(%c) {\n"
                                    "      %d = mul(%a, %w)\n"
                                    "      yield %d\n"
                                    "    } else {\n"
                                    "      %e = add(%a, %w)\n"
                                    "      yield %e\n"
                                    "    }\n"
                                    "    yield %c, %b\n"
                                    "  }\n"
                                    "  %l = list(%s, %w)\n"
                                    "  %t, %u = unpack(%l)\n"
                                    "  setattr(%self, %t) name=\"w\"\n"
                                    "  return %u\n"
                                    "}\n";
    module_t *root = NULL;
    tensor_t *tensor = NULL;
    datum_t *in[2] = {NULL}, *out[METHOD_MAX_OUTPUTS] = {NULL};
    int n_out = METHOD_MAX_OUTPUTS;
    TRY(dispatch_set_policy(ctx, POLICY_AUTO)); /* otherwise it hides a failed allocation */
    TRY(module_create(ctx, "Root", &root));
    status_t status = tensor_full(ctx, DTYPE_F32, SHAPE(2), 2.0, &tensor);
    if (status == STATUS_OK) status = module_set_parameter(ctx, root, "w", tensor);
    if (status == STATUS_OK) status = datum_int(ctx, 3, &in[0]);
    if (status == STATUS_OK) status = datum_tensor(ctx, tensor, &in[1]);
    if (status == STATUS_OK) status = graph_define(ctx, root, text);
    if (status == STATUS_OK) status = module_call(ctx, root, "f", 2, in, &n_out, out);
    datum_release(out[0]);
    datum_release(in[1]);
    datum_release(in[0]);
    tensor_release(tensor);
    module_release(root);
    return status;
}

static void every_allocation_of_a_run_may_fail(void **state)
{
    (void)state;
    check_every_allocation(run_all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(numbers_are_operands),
        TEST(a_list_stands_for_the_operands_it_holds),
        TEST(an_operator_with_several_results_gives_them_all),
        TEST(in_place_operators_write_their_first_operand),
        TEST(in_place_operators_refuse_a_result_of_another_shape),
        TEST(if_takes_the_branch_of_its_condition),
        TEST(loop_runs_as_often_as_its_trip_count),
        TEST(loop_ends_when_its_condition_fails),
        TEST(loop_that_may_not_begin_gives_what_it_was_given),
        TEST(scalars_calculate_as_python),
        TEST(scalars_that_cannot_be_calculated_are_told),
        TEST(containers_are_made_and_taken_apart),
        TEST(a_result_that_is_written_does_not_change_a_constant_of_the_graph),
        TEST(a_method_may_set_new_attributes_of_its_module),
        TEST(an_item_that_a_list_does_not_have_is_refused),
        TEST(operands_beyond_what_operators_take_are_refused),
        TEST(a_list_that_is_constant_is_new_at_every_run),
        TEST(attributes_are_read_at_every_run),
        TEST(a_parameter_that_is_absent_is_none),
        TEST(attributes_set_by_a_run_are_seen_by_the_next),
        TEST(methods_in_c_and_in_graphs_call_each_other),
        TEST(a_clone_has_the_method_but_its_own_attributes),
        TEST(values_are_released_at_their_last_use),
        TEST(a_scope_around_does_not_matter),
        TEST(inputs_that_do_not_fit_are_refused),
        TEST(attributes_that_are_not_there_are_named),
        TEST(an_empty_list_gives_what_stands_for_it),
        TEST(every_allocation_of_a_run_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
