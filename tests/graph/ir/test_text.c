#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/ir/graph.h"
#include "tests/support/support.h"

/* The context of the running test, and a pool of three tensors for constants. */
static context_t *ctx;
static datum_t *pool;

static status_t add_blob(context_t *of, dtype_t dtype, int rank, const int64_t *sizes,
                         datum_t *list)
{
    tensor_t *tensor = NULL;
    datum_t *datum = NULL;
    TRY(tensor_zeros(of, dtype, rank, sizes, &tensor));
    status_t status = datum_tensor(of, tensor, &datum);
    if (status == STATUS_OK) status = datum_append(of, list, datum);
    datum_release(datum);
    tensor_release(tensor);
    return status;
}

static status_t make_pool(context_t *of, datum_t **out_pool)
{
    datum_t *list = NULL;
    TRY(datum_list(of, 0, NULL, &list));
    status_t status = add_blob(of, DTYPE_F32, SHAPE(4, 3, 3, 3), list);
    if (status == STATUS_OK) status = add_blob(of, DTYPE_F32, SHAPE(4), list);
    if (status == STATUS_OK) status = add_blob(of, DTYPE_S64, 0, NULL, list);
    if (status == STATUS_OK)
        *out_pool = list;
    else
        datum_release(list);
    return status;
}

static int setup(void **state)
{
    if (fixture_setup(state) != 0) return -1;
    ctx = fixture_context(state);
    return make_pool(ctx, &pool) == STATUS_OK ? 0 : -1;
}

static int teardown(void **state)
{
    datum_release(pool);
    return fixture_teardown(state);
}

/* Parses a text with the pool, and prints the graph. */
static void print_parsed(const char *text, text_t *out_text)
{
    graph_t *graph = NULL;
    datum_t *fresh = NULL;
    CHECK_OK(ctx, graph_parse(ctx, text, pool, &graph));
    CHECK_OK(ctx, make_pool(ctx, &fresh));
    datum_release(fresh);
    CHECK_OK(ctx, graph_print(ctx, graph, pool, out_text));
    graph_release(graph);
}

/* Checks that `text` parses and prints as `wanted`, and that `wanted` parses to the same graph. */
static void check_print(const char *text, const char *wanted)
{
    text_t first = text_begin(ctx), second = text_begin(ctx);
    print_parsed(text, &first);
    assert_string_equal(text_string(&first), wanted);
    print_parsed(text_string(&first), &second);
    assert_string_equal(text_string(&second), wanted);
    text_clear(&first);
    text_clear(&second);
    assert_int_equal(datum_length(pool), 3);
}

static void check_same(const char *text)
{
    check_print(text, text);
}

/* Checks a graph that consists of one statement and returns its value. */
static void check_statement(const char *statement)
{
    char text[4096];
    snprintf(text, sizeof text,
             "graph f(%%self : module, %%x : f32[2,3], %%n : int, %%u) {\n  %s\n  return\n}\n",
             statement);
    check_same(text);
}

static void check_type(const char *type)
{
    char text[4096];
    snprintf(text, sizeof text, "graph f(%%x : %s) {\n  return %%x\n}\n", type);
    check_same(text);
}

static void check_rejected(const char *text, const char *place, const char *part)
{
    graph_t *graph = NULL;
    CHECK_FAILS(ctx, graph_parse(ctx, text, pool, &graph), STATUS_INVALID_ARGUMENT, part);
    assert_null(graph);
    if (strncmp(context_error(ctx), place, strlen(place)) != 0) {
        print_error("%s\n    not at %s\n", context_error(ctx), place);
        fail();
    }
}

static void check_statement_rejected(const char *statement, int column, const char *part)
{
    char text[4096], place[64];
    snprintf(text, sizeof text,
             "graph f(%%self : module, %%x : f32[2,3], %%n : int, %%u) {\n%s\n  return\n}\n",
             statement);
    snprintf(place, sizeof place, "line 2, column %d: ", column);
    check_rejected(text, place, part);
}

/* ---- valid texts ---- */

static const char sample[] =
    "graph forward(%self : module, %x : f32[1,3,8,8], %flag : bool) {\n"
    "  %w = constant() value=$0 : f32[4,3,3,3]\n"
    "  %bias = getattr(%self) name=\"conv1.bias\" : f32[4]\n"
    "  %1 = conv2d(%x, %w, %bias) padding=[1,1] : f32[1,4,8,8] at \"conv1\"\n"
    "  %2 = conv2d(%x, %w, none; %1) padding=[1,1] post=[\"sum\",\"relu\"] : f32[1,4,8,8] at "
    "\"a\\\"b\"\n"
    "  %3 = relu_(%2) : f32[1,4,8,8]\n"
    "  %4 = if(%flag) {\n"
    "    %5 = relu(%3) : f32[1,4,8,8]\n"
    "    yield %5\n"
    "  } else {\n"
    "    yield %3\n"
    "  } : f32[1,4,8,8] at \"branch\"\n"
    "  %6, %7 = loop(10, true, %4, 0) do (%i, %a, %s) {\n"
    "    %8 = scalar_add(%s, %i) : int\n"
    "    %9 = relu(%a)\n"
    "    %c = scalar_lt(%8, 100) : bool\n"
    "    yield %c, %9, %8\n"
    "  } : tensor, int\n"
    "  %j = loop(%7, %flag, %2) do (%k, %b : f32[1,4,8,8]) {\n"
    "    %d = reorder(%b) format=\"aBcd8b\" : f32[1,4,8,8]@aBcd8b\n"
    "    %m = to_dense(%d) : f32[1,4,8,8]\n"
    "    yield none, %m\n"
    "  } : f32[1,4,8,8]\n"
    "  %l = list(%6, %3) : list<tensor>\n"
    "  append(%l, %x)\n"
    "  setattr(%self, %7) name=\"count\"\n"
    "  %y, %z = call(%self, %6, {\"a\": [1,2.5,(true,none)]}, $2) method=\"step\" : tensor, ?\n"
    "  %t = tuple(%y, \"x\\n\") : tuple<tensor,string>\n"
    "  return %t, %l, none, 3\n"
    "}\n";

static void a_graph_prints_as_it_was_read(void **state)
{
    (void)state;
    check_same(sample);
}

static void every_kind_of_statement_reads_back(void **state)
{
    (void)state;
    check_statement("%y = relu(%x) : f32[2,3] by \"native\" at \"a.b\"");
    check_statement("%y = relu(%x) : f32[2,3]");
    check_statement("%y = relu(%x) : f32[2,3] at \"a.b\"");
    check_statement("%y = relu(%u)");
    check_statement("%y = relu(%u) at \"a.b\"");
    check_statement("%y = relu_(%x) : f32[2,3]");
    check_statement("%a, %b = split(%x) dim=1 sizes=[1,2] : f32[2,1], f32[2,2]");
    check_statement("%a, %b = split(%u) dim=1 sizes=[1,2] : f32[2,1], ?");
    check_statement("%y = flatten(%x) end_dim=1 : f32[6]");
    check_statement("%m = getattr(%self) name=\"a.b\" : module");
    check_statement("%m = getattr(%self) name=\"a.b\"");
    check_statement("setattr(%self, none) name=\"odd \\\"name\\\" \\\\ \\u0001\\t\"");
    check_statement("call(%self, %x) method=\"reset\"");
    check_statement("%y = call(%self) method=\"get\" : tensor? at \"m\"");
    check_statement("%a, %b = unpack(%u)");
    check_statement("%a = index(%u, -1)");
    check_statement("%a = len(%u) : int");
    check_statement("%a = dict(\"k\", %x, \"l\", none) : dict<string,f32[2,3]?>");
    check_statement("%a = list() : list<?>");
    check_statement("%a = tuple() : tuple<>");
    check_statement("%a = scalar_div(%n, 2) : float");
    check_statement("%a = scalar_neg(%u)");
    check_statement("%a = constant() value=[[1],[]] : list<?>");
}

static void every_kind_of_constant_reads_back(void **state)
{
    (void)state;
    check_statement("%a = constant() value=3 : int");
    check_statement("%a = constant() value=-9223372036854775808 : int");
    check_statement("%a = constant() value=0.1 : float");
    check_statement("%a = constant() value=-0.0 : float");
    check_statement("%a = constant() value=1e-300 : float");
    check_statement("%a = constant() value=-inf : float");
    check_statement("%a = constant() value=nan : float");
    check_statement("%a = constant() value=true : bool");
    check_statement("%a = constant() value=none : none");
    check_statement("%a = constant() value=\"\\\"\\\\\\n\\u001f \xC3\xA9\" : string");
    check_statement("%a = constant() value=[] : list<?>");
    check_statement("%a = constant() value=[1,2] : list<int>");
    check_statement("%a = constant() value=[1,none] : list<int?>");
    check_statement("%a = constant() value=(1) : tuple<int>");
    check_statement("%a = constant() value=(1,\"b\",()) : tuple<int,string,tuple<>>");
    check_statement("%a = constant() value={} : dict<string,?>");
    check_statement("%a = constant() value={\"a\": 1,\"b c\": 2} : dict<string,int>");
    check_statement("%a = constant() value=$1 : f32[4]");
    check_statement("%a = constant() value=[$2,$0] : list<tensor>");
}

static void every_type_reads_back(void **state)
{
    (void)state;
    static const char *const types[] = {"tensor",
                                        "int",
                                        "float",
                                        "bool",
                                        "string",
                                        "none",
                                        "module",
                                        "tensor?",
                                        "int?",
                                        "f32[]",
                                        "bool[2]",
                                        "bf16[0,3]",
                                        "s64[1,64,56,56]@aBcd16b",
                                        "f32[8,3,5,5]@acdb",
                                        "f32[2,3]@?",
                                        "f32[2,3]{1,2}",
                                        "f32[2,3]@{6,2}",
                                        "f32[N,3,?,W.2]",
                                        "f32[N,16,?,7]@aBcd16b",
                                        "f32[N,3]{1,8}",
                                        "list<int>",
                                        "list<f32[N,3]?>?",
                                        "tuple<int,list<tensor>,none>",
                                        "dict<string,tuple<float>>",
                                        "list<?>"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) check_type(types[i]);
}

/* ---- alternative spellings ---- */

static void blanks_newlines_in_parentheses_and_comments_are_free(void **state)
{
    (void)state;
    check_print("// one\n\n graph  f ( %x:f32[2 , 3],\n  %y )\r\n{ // two\n"
                "%a=relu( %x ): f32[ 2,3 ]at\"p\" // three\n\n"
                "%b = list(%a, // four\n %y\n)\n"
                "%c = constant() value = [ 1 ,\n 2 ]\n"
                "return %a ,%b } // end\n",
                "graph f(%x : f32[2,3], %y) {\n"
                "  %a = relu(%x) : f32[2,3] at \"p\"\n"
                "  %b = list(%a, %y) : list<?>\n"
                "  %c = constant() value=[1,2] : list<int>\n"
                "  return %a, %b\n"
                "}\n");
}

static void blocks_may_stand_on_one_line(void **state)
{
    (void)state;
    check_print("graph f(%c, %x : int) { %y = if (%c) { yield %x } else { yield 1 }\n return %y }",
                "graph f(%c, %x : int) {\n"
                "  %y = if(%c) {\n"
                "    yield %x\n"
                "  } else {\n"
                "    yield 1\n"
                "  } : int\n"
                "  return %y\n"
                "}\n");
}

static void what_is_not_said_is_inferred_and_what_is_said_is_kept(void **state)
{
    (void)state;
    check_print("graph f(%x : f32[2,3]) {\n  %a = relu(%x)\n  %b = relu(%a) : tensor\n"
                "  %c = relu(%a) : f32[2,3]@ab\n  return\n}\n",
                "graph f(%x : f32[2,3]) {\n  %a = relu(%x) : f32[2,3]\n  %b = relu(%a) : tensor\n"
                "  %c = relu(%a) : f32[2,3]@ab\n  return\n}\n");
}

static void numbers_among_operands_promote_as_pytorchs(void **state)
{
    (void)state;
    check_print("graph f(%x : f32[2], %i : s32[2]) {\n  %a = add(%x, 2)\n  %b = add(%i, 2)\n"
                "  %c = mul(%i, 0.5)\n  return\n}\n",
                "graph f(%x : f32[2], %i : s32[2]) {\n  %a = add(%x, 2) : f32[2]\n"
                "  %b = add(%i, 2) : s32[2]\n  %c = mul(%i, 0.5) : f32[2]\n  return\n}\n");
}

static void results_may_be_left_out(void **state)
{
    (void)state;
    check_print("graph f(%1 : f32[2]) {\n  relu_(%1)\n  constant() value=1\n  return\n}\n",
                "graph f(%1 : f32[2]) {\n  %2 = relu_(%1) : f32[2]\n"
                "  %3 = constant() value=1 : int\n  return\n}\n");
}

static void a_dtype_literal_is_its_name(void **state)
{
    (void)state;
    check_print("graph f() {\n  %a = constant() value=[bf16,\"x\"]\n  return\n}\n",
                "graph f() {\n  %a = constant() value=[\"bf16\",\"x\"] : list<string>\n"
                "  return\n}\n");
}

static void operands_left_out_are_printed_as_none(void **state)
{
    (void)state;
    check_print("graph f(%x, %w) {\n  %a = conv2d(%x, %w)\n  return\n}\n",
                "graph f(%x, %w) {\n  %a = conv2d(%x, %w, none)\n  return\n}\n");
}

static void the_same_tensor_has_one_place_in_the_pool(void **state)
{
    (void)state;
    graph_t *graph = NULL;
    datum_t *fresh = NULL;
    text_t text = text_begin(ctx);
    CHECK_OK(ctx, datum_list(ctx, 0, NULL, &fresh));
    CHECK_OK(ctx, graph_parse(ctx, "graph f() { return $1, $0, [$1] }", pool, &graph));
    CHECK_OK(ctx, graph_print(ctx, graph, fresh, &text));
    assert_string_equal(text_string(&text), "graph f() {\n  return $0, $1, [$0]\n}\n");
    assert_int_equal(datum_length(fresh), 2);
    assert_ptr_equal(datum_as_tensor(datum_item(fresh, 0)), datum_as_tensor(datum_item(pool, 1)));
    text_clear(&text);
    graph_release(graph);
    datum_release(fresh);
}

static void without_a_pool_tensors_print_as_what_cannot_be_read(void **state)
{
    (void)state;
    graph_t *graph = NULL;
    text_t text = text_begin(ctx);
    CHECK_OK(ctx, graph_parse(ctx, "graph f() { return $1 }", pool, &graph));
    CHECK_OK(ctx, graph_print(ctx, graph, NULL, &text));
    graph_release(graph);
    assert_string_equal(text_string(&text), "graph f() {\n  return $?\n}\n");
    check_rejected(text_string(&text), "line 2, column 10: ", "printed without a pool");
    text_clear(&text);
}

static void several_graphs_are_read_one_after_the_other(void **state)
{
    (void)state;
    const char *cursor = "graph a() { return }\n// between\ngraph b() { return }\n\n";
    static const char *const names[] = {"a", "b"};
    graph_t *graph = NULL;
    for (int i = 0; i < 2; i++) {
        CHECK_OK(ctx, graph_parse_next(ctx, &cursor, NULL, &graph));
        assert_string_equal(graph_name(graph), names[i]);
        graph_release(graph);
    }
    CHECK_OK(ctx, graph_parse_next(ctx, &cursor, NULL, &graph));
    assert_null(graph);
    assert_string_equal(cursor, "");
}

/* ---- errors ---- */

static void broken_graphs_are_told_with_line_and_column(void **state)
{
    (void)state;
    static const struct {
        const char *text, *place, *part;
    } cases[] = {
        {"", "line 1, column 1: ", "expected \"graph\", found the end of the text"},
        {"\n\n  grap f", "line 3, column 3: ", "expected \"graph\", found \"grap\""},
        {"graph (", "line 1, column 7: ", "expected the name of the graph, found \"(\""},
        {"graph f[", "line 1, column 8: ", "expected \"(\", found \"[\""},
        {"graph f(x)", "line 1, column 9: ", "expected a value, found \"x\""},
        {"graph f(%)", "line 1, column 10: ", "expected the name of a value"},
        {"graph f(%x", "line 1, column 11: ", "expected \",\" or \")\""},
        {"graph f(%x, %x) {", "line 1, column 13: ", "%x is defined already"},
        {"graph f() return", "line 1, column 11: ", "expected \"{\", found \"return\""},
        {"graph f() {\n}",
         "line 2, column 1: ", "expected a statement, \"return\" or \"yield\", found \"}\""},
        {"graph f() {\n  return", "line 2, column 9: ", "found the end of the text"},
        {"graph f() {\n  return %x\n}", "line 2, column 10: ", "%x is not defined here"},
        {"graph f() {\n  return 1 2\n}", "line 2, column 12: ", "expected \"}\", found \"2\""},
        {"graph f() {\n  return\n  %a = constant() value=1\n}",
         "line 3, column 3: ", "expected \"}\""},
        {"graph f() { return }\ngraph g() { return }",
         "line 2, column 1: ", "expected the end of the text, found \"graph\""},
        {"graph f() { return \xC3\xA9 }", "line 1, column 20: ", "found \"\xC3\xA9\""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_rejected(cases[i].text, cases[i].place, cases[i].part);
}

static void broken_statements_are_told_with_line_and_column(void **state)
{
    (void)state;
    check_statement_rejected("%y = relu(%x) by \"winograd_4\"", 15,
                             "relu has no kernel \"winograd_4\"");
    check_statement_rejected("%y = list(%x) by \"native\"", 15, "`by` names a kernel");
    check_statement_rejected("%y relu(%x)", 4, "expected \",\" or \"=\", found \"relu\"");
    check_statement_rejected("%y = (%x)", 6, "expected an operator, found \"(\"");
    check_statement_rejected("%y = foo(%x)", 6, "operator \"foo\" is unknown");
    check_statement_rejected("%y = foo_(%x)", 6, "operator \"foo_\" is unknown");
    check_statement_rejected("%y = relu %x", 11, "expected \"(\", found \"%x\"");
    check_statement_rejected("%y = relu(%x", 13,
                             "expected \",\" or \")\", found the end of the line");
    check_statement_rejected("%y = relu(%x %x)", 14, "expected \",\" or \")\", found \"%x\"");
    check_statement_rejected("%y = relu(,)", 11, "expected a value or a literal, found \",\"");
    check_statement_rejected("%y = relu(%y)", 11, "%y is not defined here");
    check_statement_rejected("%y = relu(y)", 11, "expected a literal, found \"y\"");
    check_statement_rejected("%x = relu(%x)", 1, "%x is defined already");
    check_statement_rejected("%a, %a = split(%x) sizes=[1,1]", 10, "%a is defined twice");
    check_statement_rejected("%a, %b = relu(%x)", 10, "relu: it has 1 outputs, 2 values");
    check_statement_rejected("%y = relu(%x) at", 15, "relu: attribute \"at\" is unknown");
    check_statement_rejected("%y = relu(%x) : f32[2,3] at x", 26, "expected the end of the");
    check_statement_rejected("%y = relu(%x) : f32[2,3], int", 16, "2 types are given");
    check_statement_rejected("%y = relu(%x) %z", 15, "expected the end of the statement");
    check_statement_rejected("%y = relu(%x; %x)", 6, "its post-ops need 0");
    check_statement_rejected("%y = conv2d(%u, %u) post=[\"sum\"]", 6, "its post-ops need 1");
    check_statement_rejected("%y = conv2d(%x, %x)", 6, "conv2d: ");
    check_statement_rejected("%y = conv2d(%u, %u) foo=1", 21, "attribute \"foo\" is unknown");
    check_statement_rejected("%y = conv2d(%u, %u) groups=x", 21, "an integer is needed");
    check_statement_rejected("%y = conv2d(%u, %u) groups=1 groups=2", 30, "is given twice");
    check_statement_rejected("%y = getattr(%self)", 20, "expected \"name=\"");
    check_statement_rejected("%y = getattr(%self) name=3", 26, "expected \"\"\", found \"3\"");
    check_statement_rejected("%y = getattr() name=\"a\"", 6, "getattr: 0 operands, needs 1");
    check_statement_rejected("call(%self) name=\"a\"", 13, "expected \"method=\", found \"name\"");
    check_statement_rejected("%y = constant()", 16, "expected \"value=\"");
    check_statement_rejected("%y = constant(1) value=1", 6, "constant: 1 operands, at most 0 are");
    check_statement_rejected("%y = len(%x) foo=1", 14, "expected a type or the end");
    check_statement_rejected("%y = append(%u, %x)", 6, "append: it has 0 outputs, 1 values");
}

static void broken_literals_are_told_with_line_and_column(void **state)
{
    (void)state;
    check_statement_rejected("%y = constant() value=", 23, "expected a literal");
    check_statement_rejected("%y = constant() value=x", 23, "expected a literal, found \"x\"");
    check_statement_rejected("%y = constant() value=3x", 23, "expected a literal");
    check_statement_rejected("%y = constant() value=99999999999999999999", 23, "64 bits");
    check_statement_rejected("%y = constant() value=1e999", 23, "64 bits");
    check_statement_rejected("%y = constant() value=[1", 25, "expected \",\" or \"]\"");
    check_statement_rejected("%y = constant() value=[1,]", 26, "expected a literal, found \"]\"");
    check_statement_rejected("%y = constant() value=(1]", 25, "expected \",\" or \")\"");
    check_statement_rejected("%y = constant() value={1: 2}", 24, "expected a key");
    check_statement_rejected("%y = constant() value={\"a\" 2}", 28, "expected \":\"");
    check_statement_rejected("%y = constant() value={\"a\": 2,\"a\": 3}", 23, "has a key twice");
    check_statement_rejected("%y = constant() value=\"abc", 23, "this string is not closed");
    check_statement_rejected("%y = constant() value=\"a\\qc\"", 25, "unknown escape");
    check_statement_rejected("%y = constant() value=\"\\u0000\"", 24, "unknown escape");
    check_statement_rejected("%y = constant() value=$", 24, "expected the number of a blob");
    check_statement_rejected("%y = constant() value=$9", 23, "but the pool has 3");
    check_statement_rejected("%y = constant() value=$-1", 24, "expected the number of a blob");
}

static void broken_types_are_told_with_line_and_column(void **state)
{
    (void)state;
    check_statement_rejected("%y = relu(%x) : foo", 17, "expected a type, found \"foo\"");
    check_statement_rejected("%y = relu(%x) : f32", 20, "expected \"[\"");
    check_statement_rejected("%y = relu(%x) : f32[2 3]", 23, "expected \",\" or \"]\"");
    check_statement_rejected("%y = relu(%x) : f32[-2]", 21, "expected a size, a name or");
    check_statement_rejected("%y = relu(%x) : f32[2", 22, "expected \",\" or \"]\"");
    check_statement_rejected("%y = relu(%x) : f32[99999999999999999999]", 21, "too large");
    check_statement_rejected("%y = relu(%x) : f32[9999999999,9999999999]", 17,
                             "its bytes overflow");
    check_statement_rejected("%y = relu(%x) : f32[1,1,1,1,1,1,1,1,1,1,1,1,1]", 45, "at most 12");
    check_statement_rejected("%y = relu(%x) : f32[2,3]@", 26, "expected a format");
    check_statement_rejected("%y = relu(%x) : f32[2,3]@aB", 25, "format: \"aB\"");
    check_statement_rejected("%y = relu(%x) : f32[2,3]@abc", 25,
                             "format abc has rank 3, the tensor has rank 2");
    check_statement_rejected("%y = relu(%x) : f32[2,3]{1}", 25, "has rank 1");
    check_statement_rejected("%y = relu(%x) : f32[2,3]{1,x}", 28, "expected a stride");
    check_statement_rejected("%y = relu(%x) : f32[2,3]{1,9223372036854775807}", 17,
                             "this tensor is too large");
    check_statement_rejected("%y = relu(%x) : list<int", 25, "expected \",\" or \">\"");
    check_statement_rejected("%y = relu(%x) : list<int,int>", 17, "a list has 1 item type");
    check_statement_rejected("%y = relu(%x) : dict<int>", 17, "a key type and a value type");
}

static void broken_blocks_are_told_with_line_and_column(void **state)
{
    (void)state;
    check_statement_rejected("if() { yield } else { yield }", 1, "one condition is needed");
    check_statement_rejected("if(%n) { yield } if", 18, "expected \"else\", found \"if\"");
    check_statement_rejected("%y = if(%n) { yield } else { yield }", 6, "yields 0 values, needs 1");
    check_statement_rejected("loop(1) do (%i) { yield true }", 1, "a trip count and a condition");
    check_statement_rejected("loop(1, true, %x) do (%i) { yield true }", 1,
                             "1 carried values, but 0 outputs");
    check_statement_rejected("loop(1, true) do { yield true }", 18, "expected \"(\"");
    check_statement_rejected("loop(1, true) do (%i, %j) { yield true }", 1,
                             "its block has 2 parameters, needs 1");
    check_statement_rejected("loop(1, true) do (%x) { yield true }", 19, "%x is defined already");
    check_statement_rejected("if(%n) { yield } else { yield } : int", 34, "1 types are given");
}

static void values_of_a_block_are_not_seen_outside(void **state)
{
    (void)state;
    check_rejected("graph f(%c, %x) {\n  %y = if(%c) {\n    %z = relu(%x)\n    yield %z\n"
                   "  } else {\n    yield %z\n  }\n  return %y\n}",
                   "line 6, column 11: ", "%z is not defined here");
    check_rejected("graph f(%c, %x) {\n  %y = if(%c) {\n    yield %y\n  } else {\n    yield %x\n"
                   "  }\n  return %y\n}",
                   "line 3, column 11: ", "%y is not defined here");
}

static char *repeat(const char *begin, const char *piece, int n, const char *end)
{
    size_t length = strlen(piece);
    char *text = malloc(strlen(begin) + length * (size_t)n + strlen(end) + 1);
    assert_non_null(text);
    strcpy(text, begin);
    char *at = text + strlen(begin);
    for (int i = 0; i < n; i++, at += length) memcpy(at, piece, length);
    strcpy(at, end);
    return text;
}

static void deep_nesting_is_refused_not_followed(void **state)
{
    (void)state;
    static const struct {
        const char *begin, *piece, *part;
    } cases[] = {{"graph f() { return ", "[", "nested more than 32 deep"},
                 {"graph f() { return ", "{\"a\":", "nested more than 32 deep"},
                 {"graph f(%x : ", "list<", "nested more than 32 deep"},
                 {"graph f(%c) {\n", "if(%c) {\n", "nested more than 64 deep"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = repeat(cases[i].begin, cases[i].piece, 100000, "");
        graph_t *graph = NULL;
        CHECK_FAILS(ctx, graph_parse(ctx, text, NULL, &graph), STATUS_INVALID_ARGUMENT,
                    cases[i].part);
        free(text);
    }
}

static void what_is_as_deep_as_allowed_reads_back(void **state)
{
    (void)state;
    text_t text = text_begin(ctx);
    text_append(&text, "graph f(%%c) {\n");
    for (int i = 0; i < 63; i++) text_append(&text, "if(%%c) {\n");
    text_append(&text, "yield }");
    for (int i = 0; i < 63; i++) text_append(&text, " else { yield }\n%s", i < 62 ? "yield }" : "");
    text_append(&text, "%%a = constant() value=");
    for (int i = 0; i < 31; i++) text_append(&text, "[");
    for (int i = 0; i < 31; i++) text_append(&text, "]");
    text_append(&text, "\nreturn }");
    text_t first = text_begin(ctx), second = text_begin(ctx);
    print_parsed(text_string(&text), &first);
    print_parsed(text_string(&first), &second);
    assert_string_equal(text_string(&first), text_string(&second));
    text_clear(&text);
    text_clear(&first);
    text_clear(&second);
}

static void long_texts_are_read(void **state)
{
    (void)state;
    graph_t *graph = NULL;
    char *text = repeat("graph f(%x : f32[2]) {\n", "relu_(%x)\n", 20000, "return }");
    CHECK_OK(ctx, graph_parse(ctx, text, NULL, &graph));
    assert_int_equal(graph_n_nodes(graph), 20000);
    graph_release(graph);
    free(text);
    text = repeat("graph f(%x) {\nreturn ", "%x, ", 20000, "\"end\" }");
    CHECK_OK(ctx, graph_parse(ctx, text, NULL, &graph));
    assert_int_equal(graph_body(graph)->n_results, 20001);
    graph_release(graph);
    free(text);
    text = repeat("graph f() {\n%a = constant() value=\"", "\\u00e9", 20000, "\"\nreturn }");
    CHECK_OK(ctx, graph_parse(ctx, text, NULL, &graph));
    assert_int_equal(strlen(datum_as_string(graph_constant(graph, 0))), 40000);
    graph_release(graph);
    free(text);
}

/* ---- arbitrary texts ---- */

/* Copies the text to a block of its exact length, so that sanitizers detect reads beyond its
 * end. */
static void parse_prefix(const char *text, size_t length)
{
    graph_t *graph = NULL;
    char *copy = malloc(length + 1);
    assert_non_null(copy);
    memcpy(copy, text, length);
    copy[length] = '\0';
    status_t status = graph_parse(ctx, copy, pool, &graph);
    if (status == STATUS_OK) {
        text_t first = text_begin(ctx), second = text_begin(ctx);
        CHECK_OK(ctx, graph_print(ctx, graph, pool, &first));
        print_parsed(text_string(&first), &second);
        assert_string_equal(text_string(&first), text_string(&second));
        text_clear(&first);
        text_clear(&second);
        graph_release(graph);
    } else {
        assert_int_equal(strncmp(context_error(ctx), "line ", 5), 0);
    }
    free(copy);
}

static void a_text_cut_anywhere_does_no_harm(void **state)
{
    (void)state;
    for (size_t length = 0; length < sizeof sample; length++) parse_prefix(sample, length);
}

static void a_text_with_pieces_changed_does_no_harm(void **state)
{
    (void)state;
    static const char alphabet[] = "%(){}[]<>,;:=@$?\"\\ \n_.-0129abexyz/";
    char text[sizeof sample];
    uint32_t random = 1;
    for (int round = 0; round < 20000; round++) {
        memcpy(text, sample, sizeof text);
        for (int i = 0; i <= round % 4; i++) {
            random = random * 1664525u + 1013904223u;
            size_t at = (random >> 8) % (sizeof text - 1);
            random = random * 1664525u + 1013904223u;
            if (random >> 31)
                text[at] = alphabet[(random >> 8) % (sizeof alphabet - 1)];
            else
                text[at] = text[(random >> 8) % (sizeof text - 1)];
        }
        parse_prefix(text, strlen(text));
    }
}

static status_t read_and_print(context_t *scenario)
{
    datum_t *blobs = NULL;
    graph_t *graph = NULL;
    text_t text = text_begin(scenario);
    TRY(make_pool(scenario, &blobs));
    status_t status = graph_parse(scenario, sample, blobs, &graph);
    datum_release(blobs);
    blobs = NULL;
    if (status == STATUS_OK) status = datum_list(scenario, 0, NULL, &blobs);
    if (status == STATUS_OK) status = graph_print(scenario, graph, blobs, &text);
    text_clear(&text);
    graph_release(graph);
    datum_release(blobs);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    check_every_allocation(read_and_print);
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_graph_prints_as_it_was_read),
        CASE(every_kind_of_statement_reads_back),
        CASE(every_kind_of_constant_reads_back),
        CASE(every_type_reads_back),
        CASE(blanks_newlines_in_parentheses_and_comments_are_free),
        CASE(blocks_may_stand_on_one_line),
        CASE(what_is_not_said_is_inferred_and_what_is_said_is_kept),
        CASE(numbers_among_operands_promote_as_pytorchs),
        CASE(results_may_be_left_out),
        CASE(a_dtype_literal_is_its_name),
        CASE(operands_left_out_are_printed_as_none),
        CASE(the_same_tensor_has_one_place_in_the_pool),
        CASE(without_a_pool_tensors_print_as_what_cannot_be_read),
        CASE(several_graphs_are_read_one_after_the_other),
        CASE(broken_graphs_are_told_with_line_and_column),
        CASE(broken_statements_are_told_with_line_and_column),
        CASE(broken_literals_are_told_with_line_and_column),
        CASE(broken_types_are_told_with_line_and_column),
        CASE(broken_blocks_are_told_with_line_and_column),
        CASE(values_of_a_block_are_not_seen_outside),
        CASE(deep_nesting_is_refused_not_followed),
        CASE(what_is_as_deep_as_allowed_reads_back),
        CASE(long_texts_are_read),
        CASE(a_text_cut_anywhere_does_no_harm),
        CASE(a_text_with_pieces_changed_does_no_harm),
        CASE(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
