/* Which values of a graph may share memory. The tests compare the table that graph_alias prints. */
#include "graph/analysis/alias_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/support.h"

/* the context of the running test */
static context_t *ctx;

static int setup(void **state)
{
    int failed = fixture_setup(state);
    ctx = failed ? NULL : fixture_context(state);
    return failed;
}

static graph_t *read_graph(const char *params, const char *statements, datum_t *pool)
{
    char text[4096];
    graph_t *graph = NULL;
    snprintf(text, sizeof text, "graph f(%s) {\n%s}\n", params, statements);
    CHECK_OK(ctx, graph_parse(ctx, text, pool, &graph));
    CHECK_OK(ctx, graph_verify(ctx, graph));
    return graph;
}

static void check_table(const char *params, const char *statements, const char *expect)
{
    graph_t *graph = read_graph(params, statements, NULL);
    text_t text = text_begin(ctx);
    CHECK_OK(ctx, graph_alias(ctx, graph, &text));
    assert_string_equal(text_string(&text), expect);
    text_clear(&text);
    graph_release(graph);
}

static void values_of_their_own_have_rows_of_their_own(void **state)
{
    (void)state;
    check_table("%x : f32[2,3]",
                "  %y = relu(%x) : f32[2,3]\n"
                "  %z = add(%y, %y) : f32[2,3]\n"
                "  return %z\n",
                "[0] %x: input\n"
                "[1] %y\n"
                "[2] %z: result\n");
}

static void a_view_is_the_same_memory(void **state)
{
    (void)state;
    check_table("%x : f32[2,3]",
                "  %y = relu(%x) : f32[2,3]\n"
                "  %v = reshape(%y) sizes=[6] : f32[6]\n"
                "  %w = relu_(%v) : f32[6]\n"
                "  return %y\n",
                "[0] %x: input\n"
                "[1] %y %v %w: result; written by %w = relu_(%v) : f32[6]\n");
}

static void to_append_to_a_list_does_not_write_what_is_in_it(void **state)
{
    (void)state;
    check_table("%x : f32[2]",
                "  %y = relu(%x) : f32[2]\n"
                "  %l = list(%y) : list<f32[2]>\n"
                "  append(%l, %x)\n"
                "  return %l\n",
                "[0] %x %y: input\n"
                "[1] %l: holds [0]; result; written by append(%l, %x)\n");
}

static void to_write_an_item_writes_what_it_came_from(void **state)
{
    (void)state;
    check_table("%self : module, %i : int",
                "  %l = getattr(%self) name=\"sub.list\" : list<f32[2]>\n"
                "  %w = getattr(%self) name=\"weight\" : f32[2]\n"
                "  %t = index(%l, %i) : f32[2]\n"
                "  %v = slice(%t) dim=0 start=0 end=1 : f32[1]\n"
                "  %u = relu_(%v) : f32[1]\n"
                "  return %w\n",
                "[0] %l: holds [1]; attribute sub.list; its contents are written\n"
                "[1] %t %v %u: written by %u = relu_(%v) : f32[1]\n"
                "[2] %w: attribute weight; result\n");
}

static void items_of_tuples_and_dicts_are_found_by_unpack_and_index(void **state)
{
    (void)state;
    check_table("%x : f32[2]",
                "  %a = relu(%x) : f32[2]\n"
                "  %b = sigmoid(%x) : f32[2]\n"
                "  %c = tanh(%x) : f32[2]\n"
                "  %d = dict(\"k\", %c) : dict<string,f32[2]>\n"
                "  %t = tuple(%a, %d) : tuple<f32[2],dict<string,f32[2]>>\n"
                "  %p, %q = unpack(%t) : f32[2], dict<string,f32[2]>\n"
                "  %i = index(%q, \"k\") : f32[2]\n"
                "  %j = relu_(%i) : f32[2]\n"
                "  return %b\n",
                "[0] %x: input\n"
                "[1] %a %d %p %q: holds [2]; its contents are written\n"
                "[2] %c %i %j: written by %j = relu_(%i) : f32[2]\n"
                "[3] %b: result\n"
                "[4] %t: holds [1]; its contents are written\n");
}

static void branches_and_loops_carry_what_goes_in(void **state)
{
    (void)state;
    check_table("%x : f32[2], %c : bool",
                "  %a = relu(%x) : f32[2]\n"
                "  %b = tanh(%x) : f32[2]\n"
                "  %y = if(%c) {\n"
                "    yield %a\n"
                "  } else {\n"
                "    %s = sigmoid(%x) : f32[2]\n"
                "    yield %s\n"
                "  } : f32[2]\n"
                "  %z = loop(3, %c, %b) do(%i, %k) {\n"
                "    %m = relu_(%k) : f32[2]\n"
                "    yield %c, %m\n"
                "  } : f32[2]\n"
                "  return %y, %z\n",
                "[0] %x: input\n"
                "[1] %a %y %s: result\n"
                "[2] %b %z %k %m: result; written by %m = relu_(%k) : f32[2]\n");
}

static void an_attribute_is_known_by_its_path(void **state)
{
    (void)state;
    check_table("%self : module",
                "  %sub = getattr(%self) name=\"sub\" : module\n"
                "  %a = getattr(%sub) name=\"a\" : f32[2]\n"
                "  %b = getattr(%self) name=\"sub.a\" : f32[2]\n"
                "  %c = getattr(%self) name=\"a\" : f32[2]\n"
                "  %d = relu_(%b) : f32[2]\n"
                "  setattr(%self, 2) name=\"version\"\n"
                "  return %c\n",
                "[0] %a %b %d: attribute sub.a; written by %d = relu_(%b) : f32[2]\n"
                "[1] %c: attribute a; result\n"
                "[2]: attribute version; set by setattr(%self, 2) name=\"version\"\n");
}

static void values_stored_in_attributes_may_be_written_elsewhere(void **state)
{
    (void)state;
    check_table("%self : module, %x : f32[2]",
                "  %w = getattr(%self) name=\"start\" : f32[2]\n"
                "  %l = list(%w) : list<f32[2]>\n"
                "  setattr(%self, %l) name=\"state\"\n"
                "  %y = relu(%x) : f32[2]\n"
                "  setattr(%self, %y) name=\"last\"\n"
                "  return\n",
                "[0] %x: input\n"
                "[1] %w: attribute start; may be written by other methods; stored by "
                "setattr(%self, %l) name=\"state\"\n"
                "[2] %l: holds [1]; attribute state; set by setattr(%self, %l) name=\"state\"; "
                "its contents are written\n"
                "[3] %y: attribute last; set by setattr(%self, %y) name=\"last\"\n");
}

static void a_call_may_write_and_keep_what_it_is_given(void **state)
{
    (void)state;
    check_table("%self : module, %x : f32[2]",
                "  %w = getattr(%self) name=\"sub.w\" : f32[2]\n"
                "  %o = getattr(%self) name=\"other.w\" : f32[2]\n"
                "  %sub = getattr(%self) name=\"sub\" : module\n"
                "  %a = relu(%x) : f32[2]\n"
                "  %l = list(%a) : list<f32[2]>\n"
                "  %y = call(%sub, %l) method=\"step\" : f32[2]\n"
                "  %z = relu(%y) : f32[2]\n"
                "  return %z, %o\n",
                "[0] %x: input\n"
                "[1] %w %a %l %y: holds [1]; attribute sub.w; may be written and kept by "
                "%y = call(%sub, %l) method=\"step\" : f32[2]\n"
                "[2] %o: attribute other.w; result\n"
                "[3] %z: result\n");
}

static void inputs_may_share_bytes_when_one_is_written(void **state)
{
    (void)state;
    check_table("%x : f32[2], %y : f32[2], %l : list<f32[2]>, %n : list<int>",
                "  %z = relu_(%x) : f32[2]\n"
                "  return\n",
                "[0] %x %z: input; written by %z = relu_(%x) : f32[2]\n"
                "[1] %y: input; may be the input written by %z = relu_(%x) : f32[2]\n"
                "[2] %l: holds [3]; input; its contents are written\n"
                "[3]: input; may be the input written by %z = relu_(%x) : f32[2]\n"
                "[4] %n: holds [5]; input\n"
                "[5]: input\n");
}

static void a_module_from_a_branch_may_be_any(void **state)
{
    (void)state;
    check_table("%self : module, %c : bool",
                "  %a = getattr(%self) name=\"a\" : module\n"
                "  %b = getattr(%self) name=\"b\" : module\n"
                "  %m = if(%c) {\n"
                "    yield %a\n"
                "  } else {\n"
                "    yield %b\n"
                "  } : module\n"
                "  %w = getattr(%m) name=\"w\" : f32[2]\n"
                "  %v = getattr(%b) name=\"w\" : f32[2]\n"
                "  %u = getattr(%b) name=\"u\" : f32[2]\n"
                "  %z = relu_(%w) : f32[2]\n"
                "  return\n",
                "[0] %w %v %z: attribute %m.w; attribute b.w; written by %z = relu_(%w) : f32[2]\n"
                "[1] %u: attribute b.u\n");
}

static void a_value_without_type_may_be_a_tensor_or_hold_tensors(void **state)
{
    (void)state;
    check_table("%x",
                "  %v = reshape(%x) sizes=[2]\n"
                "  %w = relu_(%v)\n"
                "  return\n",
                "[0] %x %v %w: holds [0]; input; written by %w = relu_(%v)\n");
}

static void a_container_may_hold_itself(void **state)
{
    (void)state;
    check_table("%x : f32[2]",
                "  %l = list()\n"
                "  append(%l, %l)\n"
                "  %y = relu(%x) : f32[2]\n"
                "  append(%l, %y)\n"
                "  return %l\n",
                "[0] %x: input\n"
                "[1] %l %y: holds [1]; result; written by append(%l, %l)\n");
}

static void constants_of_one_storage_share_it(void **state)
{
    (void)state;
    tensor_t *tensor = NULL;
    datum_t *datum = NULL, *pool = NULL;
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, 1, (int64_t[]){2}, 1.0, &tensor));
    CHECK_OK(ctx, datum_tensor(ctx, tensor, &datum));
    CHECK_OK(ctx, datum_list(ctx, 1, &datum, &pool));
    graph_t *graph = read_graph("",
                                "  %a = constant() value=$0 : f32[2]\n"
                                "  %l = constant() value=[$0] : list<f32[2]>\n"
                                "  %w = relu_(%a) : f32[2]\n"
                                "  return %l\n",
                                pool);
    text_t text = text_begin(ctx);
    CHECK_OK(ctx, graph_alias(ctx, graph, &text));
    assert_string_equal(text_string(&text),
                        "[0] %a %w: constant; written by %w = relu_(%a) : f32[2]\n"
                        "[1] %l: holds [0]; constant; result; its contents are written\n");
    text_clear(&text);
    graph_release(graph);
    datum_release(pool);
    datum_release(datum);
    tensor_release(tensor);
}

static status_t print_table(context_t *own)
{
    static const char source[] = "graph f(%self : module, %x : list<f32[2]>) {\n"
                                 "  %m = getattr(%self) name=\"a.b\" : module\n"
                                 "  %w = getattr(%m) name=\"w\" : f32[2]\n"
                                 "  append(%x, %w)\n"
                                 "  %c = constant() value=[[1, 2], [3]] : list<list<int>>\n"
                                 "  %y = call(%m, %c) method=\"forward\"\n"
                                 "  setattr(%y, %w) name=\"z\"\n"
                                 "  return %y\n"
                                 "}\n";
    graph_t *graph = NULL;
    TRY(graph_parse(own, source, NULL, &graph));
    text_t text = text_begin(own);
    status_t status = graph_alias(own, graph, &text);
    text_clear(&text);
    graph_release(graph);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    check_every_allocation(print_table);
}

#define TABLE_TEST(function) cmocka_unit_test_setup_teardown(function, setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TABLE_TEST(values_of_their_own_have_rows_of_their_own),
        TABLE_TEST(a_view_is_the_same_memory),
        TABLE_TEST(to_append_to_a_list_does_not_write_what_is_in_it),
        TABLE_TEST(to_write_an_item_writes_what_it_came_from),
        TABLE_TEST(items_of_tuples_and_dicts_are_found_by_unpack_and_index),
        TABLE_TEST(branches_and_loops_carry_what_goes_in),
        TABLE_TEST(an_attribute_is_known_by_its_path),
        TABLE_TEST(values_stored_in_attributes_may_be_written_elsewhere),
        TABLE_TEST(a_call_may_write_and_keep_what_it_is_given),
        TABLE_TEST(inputs_may_share_bytes_when_one_is_written),
        TABLE_TEST(a_module_from_a_branch_may_be_any),
        TABLE_TEST(a_value_without_type_may_be_a_tensor_or_hold_tensors),
        TABLE_TEST(a_container_may_hold_itself),
        TABLE_TEST(constants_of_one_storage_share_it),
        TABLE_TEST(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
