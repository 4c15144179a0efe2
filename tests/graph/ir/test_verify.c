#include <stdio.h>
#include <string.h>

#include "graph/ir/graph.h"
#include "tests/support/support.h"

/* the context of the running test */
static context_t *ctx;

static int setup(void **state)
{
    int failed = fixture_setup(state);
    ctx = failed ? NULL : fixture_context(state);
    return failed;
}

static const char params[] =
    "%self : module, %x : f32[2,16], %y : f32[2,16]@Ab4a, %n : int, %s : string, %u";

/* Parses a graph with these statements. */
static graph_t *read_statements(const char *statements)
{
    char text[4096];
    graph_t *graph = NULL;
    snprintf(text, sizeof text, "graph f(%s) {\n  %s\n  return\n}\n", params, statements);
    CHECK_OK(ctx, graph_parse(ctx, text, NULL, &graph));
    return graph;
}

static void check_good(const char *statements)
{
    graph_t *graph = read_statements(statements);
    CHECK_OK(ctx, graph_verify(ctx, graph));
    graph_release(graph);
}

static void check_bad(const char *statements, const char *part)
{
    graph_t *graph = read_statements(statements);
    CHECK_FAILS(ctx, graph_verify(ctx, graph), STATUS_INVALID_ARGUMENT, part);
    graph_release(graph);
}

static graph_builder_t *begin(void)
{
    graph_builder_t *builder = NULL;
    CHECK_OK(ctx, graph_builder_create(ctx, "f", &builder));
    return builder;
}

static void check_built(graph_builder_t *builder, value_t result, const char *part)
{
    graph_t *graph = NULL;
    CHECK_OK(ctx, graph_finish(builder, 1, &result, &graph));
    graph_builder_destroy(builder);
    CHECK_FAILS(ctx, graph_verify(ctx, graph), STATUS_INVALID_ARGUMENT, part);
    graph_release(graph);
}

/* ---- valid graphs ---- */

static void graphs_that_keep_the_rules_pass(void **state)
{
    (void)state;
    check_good("%a = relu(%x)");
    check_good("%a = relu_(%x)");
    check_good("%a = relu(%u)");
    check_good("%a = relu(%n)");
    check_good("%a = relu(%y) : f32[2,16]@Ab4a");
    check_good("%a = relu(%y)");
    check_good("%a = relu(%x) : f32[?,16]");
    check_good("%a = reorder(%y) format=\"ab\" : f32[2,16]@ab");
    check_good("%a = to_dense(%y) : f32[2,16]");
    check_good("%a = getattr(%self) name=\"m\" : module\n%b = call(%a, %x) method=\"forward\"\n"
               "setattr(%a, %b) name=\"n\"");
    check_good("%a, %b = split(%x) dim=1 sizes=[3,13]");
    check_good("%l = list(%x, %y)\nappend(%l, %x)\n%i = len(%l)\n%a = index(%l, %i)");
    check_good("%t = tuple(%x, %n)\n%a, %b = unpack(%t) : f32[2,16], int");
    check_good("%a = scalar_add(%n, 1.5) : float\n%b = scalar_eq(%s, none)");
    check_good("%a = constant() value=[1,2] : list<int>");
    check_good("%a = if(%n) { yield %x } else { yield none } : f32[2,16]?");
    check_good("%a, %b = loop(%n, none, %x, 0) do (%i, %c, %k) {\n%d = relu(%c)\n"
               "%e = scalar_add(%k, 1)\nyield true, %d, %e }");
}

/* ---- scope ---- */

static void values_are_made_before_they_are_used_and_in_scope(void **state)
{
    (void)state;
    graph_builder_t *builder = begin();
    graph_type_t type = {.kind = TYPE_FLOAT};
    value_t c = graph_add_param(builder, "c", &type), inner = VALUE_NONE, y = VALUE_NONE;
    graph_node_t node = {.kind = NODE_IF, .n_inputs = 1, .n_outputs = 1};
    graph_add_node(builder, &node, &c, NULL, NULL, &y);
    graph_block_begin(builder);
    inner = graph_add_op(builder, ops_find("relu"), NULL, 1, &c, NULL);
    graph_block_end(builder, 1, &inner);
    graph_block_begin(builder);
    graph_block_end(builder, 1, &inner);
    check_built(builder, y, "if: %2 is used before its definition, or outside its block, in \"");

    builder = begin();
    c = graph_add_param(builder, "c", &type);
    graph_add_node(builder, &node, &c, NULL, NULL, &y);
    graph_block_begin(builder);
    graph_block_end(builder, 1, &c);
    graph_block_begin(builder);
    graph_block_end(builder, 1, &y);
    check_built(builder, y, "if: %1 is used before");

    builder = begin();
    c = graph_add_param(builder, "c", &type);
    graph_add_node(builder, &node, &c, NULL, NULL, &y);
    graph_block_begin(builder);
    inner = graph_add_op(builder, ops_find("relu"), NULL, 1, &c, NULL);
    graph_block_end(builder, 1, &inner);
    graph_block_begin(builder);
    graph_block_end(builder, 1, &c);
    check_built(builder, inner, "f: %2 is used before");
}

/* ---- operators ---- */

static void operands_are_as_many_and_of_the_kinds_that_the_operator_takes(void **state)
{
    (void)state;
    check_bad("%a = conv2d(%u)", "conv2d: 1 operands, weight is missing, in \"%a = conv2d(%u)\"");
    check_bad("%a = relu(%u, %u)",
              "relu: 2 operands, at most 1 are allowed, in \"%a = relu(%u, %u)\"");
    check_bad("%a = conv2d(%u, none)", "conv2d: operand weight is missing");
    check_bad("%a = relu(%s)", "relu: operand x is string, must be a tensor or a number");
    check_bad("%a = relu(%self)", "relu: operand x is module, must be a tensor or a number");
    check_bad("%a = relu_(%n)", "relu: operand 0 is int, only a tensor can be written in place");
}

static void said_types_are_those_that_are_inferred(void **state)
{
    (void)state;
    check_bad("%a = relu(%x) : f32[2,17]",
              "relu: output 0 has type f32[2,17], but f32[2,16] was inferred, in "
              "\"%a = relu(%x) : f32[2,17]\"");
    check_bad("%a = relu(%x) : bf16[2,16]", "output 0 has type bf16[2,16]");
    check_bad("%a = relu(%x) : int", "output 0 has type int, operators return tensors");
    check_bad("%a = flatten(%x) start_dim=7 : f32[32]", "in \"%a = flatten(%x) start_dim=7");
    check_bad("%a = constant() value=3 : float",
              "constant: its type is float, but its value is int");
    check_bad("%a = scalar_add(%n, 1) : float", "has type float, but int was inferred");
    check_bad("%t = tuple(%x, %n)\n%a, %b, %c = unpack(%t)",
              "unpack: a tuple of 2 items, 3 values are given");
}

static void attributes_are_in_range(void **state)
{
    (void)state;
    graph_builder_t *builder = begin();
    value_t in[] = {graph_add_param(builder, "x", NULL), graph_add_param(builder, "w", NULL)};
    conv_attrs_t attrs = {.post = {1, {{.kind = POST_ELTWISE, .eltwise = ELTWISE_COUNT}}}};
    value_t y = graph_add_op(builder, ops_find("conv2d"), &attrs, 2, in, NULL);
    check_built(builder, y, "conv2d: post-op 0 has an unknown kind");
}

/* ---- formats ---- */

static void formats_agree_along_an_edge(void **state)
{
    (void)state;
    check_bad("%a = relu(%y) : f32[2,16]@ab",
              "relu: %y is @Ab4a, but the result is @ab (a reorder is missing), in "
              "\"%a = relu(%y) : f32[2,16]@ab\"");
    check_bad("%a = reorder(%x) format=\"ba\" : f32[2,16]@ab",
              "reorder: format is ba, but the result is @ab");
    check_bad(
        "%w = constant() value=1\n%a = linear(%u, %u, none; %y) post=[\"sum\"] : f32[2,16]@ab",
        "linear: %y is @Ab4a, but is summed into a result in @ab");
    check_bad("%a = if(%n) { yield %x } else { yield %y } : f32[2,16]",
              "if: output 0 comes from %y as f32[2,16]@Ab4a, but is read as f32[2,16] "
              "(a reorder is missing)");
}

/* ---- other nodes ---- */

static void other_nodes_take_operands_of_their_kinds(void **state)
{
    (void)state;
    check_bad("%a = getattr(%x) name=\"a\"", "getattr: operand 0 is f32[2,16], must be a module");
    check_bad("setattr(%n, %x) name=\"a\"", "setattr: operand 0 is int, must be a module");
    check_bad("call(none) method=\"a\"", "call: operand 0 is none, must be a module");
    check_bad("%a = scalar_add(%n, %s)", "scalar_add: an operand is string, must be a number");
    check_bad("%a = dict(%n, %x)", "dict: a key is int, must be a string");
    check_bad("%a = list(%self)", "list: an operand is a module");
    check_bad("append(%x, %x)", "append: operand 0 is f32[2,16], must be a list");
    check_bad("%a = index(%n, 0)", "index: operand 0 is int, must be a list, tuple or dict");
    check_bad("%l = list(%x)\n%a = index(%l, 1.5)", "index: the index is float, must be an int");
    check_bad("%a = unpack(%n)", "unpack: operand 0 is int, must be a list or tuple");
    check_bad("%a = len(%n)", "len: operand 0 is int, must be a list, tuple or dict");
}

static void blocks_give_what_their_node_says(void **state)
{
    (void)state;
    check_bad("if(%s) { yield } else { yield }", "if: the condition is string, must be a bool");
    check_bad("%a = if(%n) { yield 1 } else { yield 2.5 } : int", "if: output 0 comes from %");
    check_bad("loop(%s, true) do (%i) { yield true }",
              "loop: the trip count is string, must be an int or none");
    check_bad("loop(1, %s) do (%i) { yield true }",
              "loop: the condition is string, must be a bool");
    check_bad("loop(1, true) do (%i) { yield \"a\" }", "loop: the yielded condition is string");
    check_bad("%a = loop(1, true, %x) do (%i, %c) { yield true, 3 }",
              "loop: carried value 0 comes from %");
}

static void what_is_wrong_inside_blocks_is_found(void **state)
{
    (void)state;
    check_bad("if(%n) {\n loop(1, true) do (%i) {\n%a = relu(%s)\nyield true }\nyield }"
              " else { yield }",
              "in \"%a = relu(%s)\"");
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(graphs_that_keep_the_rules_pass),
        CASE(values_are_made_before_they_are_used_and_in_scope),
        CASE(operands_are_as_many_and_of_the_kinds_that_the_operator_takes),
        CASE(said_types_are_those_that_are_inferred),
        CASE(attributes_are_in_range),
        CASE(formats_agree_along_an_edge),
        CASE(other_nodes_take_operands_of_their_kinds),
        CASE(blocks_give_what_their_node_says),
        CASE(what_is_wrong_inside_blocks_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
