#include <stdlib.h>
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

static graph_type_t tensor_type(int rank, const int64_t *sizes)
{
    return (graph_type_t){
        .kind = TYPE_TENSOR, .has_info = true, .info = info_dense(DTYPE_F32, rank, sizes)};
}

static graph_builder_t *begin(void)
{
    graph_builder_t *builder = NULL;
    CHECK_OK(ctx, graph_builder_create(ctx, "forward", &builder));
    return builder;
}

static graph_t *finish(graph_builder_t *builder, value_t result)
{
    graph_t *graph = NULL;
    CHECK_OK(ctx, graph_finish(builder, 1, &result, &graph));
    graph_builder_destroy(builder);
    return graph;
}

static void check_failure(graph_builder_t *builder, status_t status, const char *part)
{
    graph_t *graph = NULL;
    CHECK_FAILS(ctx, graph_finish(builder, 0, NULL, &graph), status, part);
    assert_null(graph);
    graph_builder_destroy(builder);
}

static value_t add_relu(graph_builder_t *builder, value_t x)
{
    return graph_add_op(builder, ops_find("relu"), NULL, 1, &x, NULL);
}

static value_t add_image(graph_builder_t *builder)
{
    graph_type_t type = tensor_type(SHAPE(1, 3, 8, 8));
    return graph_add_param(builder, "x", &type);
}

static value_t add_int(graph_builder_t *builder, int64_t number)
{
    datum_t *datum = NULL;
    CHECK_OK(ctx, datum_int(ctx, number, &datum));
    value_t value = graph_add_literal(builder, datum);
    datum_release(datum);
    return value;
}

/* ---- queries ---- */

static void a_finished_graph_answers_for_its_values(void **state)
{
    (void)state;
    graph_builder_t *builder = begin();
    value_t x = add_image(builder);
    value_t y = add_relu(builder, x);
    value_t z = add_relu(builder, y);
    graph_t *graph = finish(builder, z);
    assert_string_equal(graph_name(graph), "forward");
    assert_int_equal(graph_n_values(graph), 3);
    assert_int_equal(graph_n_nodes(graph), 2);
    assert_string_equal(graph_value_name(graph, x), "x");
    assert_null(graph_producer(graph, x));
    assert_ptr_equal(graph_producer(graph, z), graph_body(graph)->nodes[1]);
    assert_int_equal(graph_n_uses(graph, x), 1);
    assert_int_equal(graph_n_uses(graph, z), 1);
    assert_int_equal(graph_value_type(graph, z)->info.sizes[2], 8);
    assert_int_equal(graph_body(graph)->n_params, 1);
    assert_int_equal(graph_body(graph)->results[0], z);
    assert_ptr_equal(graph_retain(graph), graph);
    graph_release(graph);
    graph_release(graph);
}

static void none_and_numbers_beyond_the_graph_have_harmless_answers(void **state)
{
    (void)state;
    graph_builder_t *builder = begin();
    graph_t *graph = finish(builder, add_image(builder));
    assert_string_equal(graph_value_name(graph, VALUE_NONE), "none");
    assert_int_equal(graph_value_type(graph, VALUE_NONE)->kind, TYPE_NONE);
    assert_null(graph_producer(graph, 99));
    assert_null(graph_constant(graph, VALUE_NONE));
    assert_int_equal(graph_n_uses(graph, 99), 0);
    graph_release(graph);
    graph_release(NULL);
}

static void constants_are_held_by_the_graph(void **state)
{
    (void)state;
    graph_builder_t *builder = begin();
    tensor_t *tensor = NULL;
    datum_t *datum = NULL;
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(2, 3), &tensor));
    CHECK_OK(ctx, datum_tensor(ctx, tensor, &datum));
    value_t c = graph_add_constant(builder, datum, "weight");
    assert_ptr_equal(graph_builder_constant(builder, c), datum);
    tensor_release(tensor);
    datum_release(datum);
    graph_t *graph = finish(builder, c);
    assert_int_equal(tensor_numel(datum_as_tensor(graph_constant(graph, c))), 6);
    assert_int_equal(graph_value_type(graph, c)->info.sizes[1], 3);
    graph_release(graph);
}

/* ---- names ---- */

static void taken_names_get_a_number_and_odd_characters_an_underscore(void **state)
{
    (void)state;
    graph_builder_t *builder = begin();
    value_t a = graph_add_param(builder, "in/put:0", NULL);
    value_t b = graph_add_param(builder, "in_put_0", NULL);
    value_t c = graph_add_param(builder, "in_put_0.1", NULL);
    value_t d = graph_add_param(builder, "in_put_0", NULL);
    graph_t *graph = finish(builder, a);
    assert_string_equal(graph_value_name(graph, a), "in_put_0");
    assert_string_equal(graph_value_name(graph, b), "in_put_0.1");
    assert_string_equal(graph_value_name(graph, c), "in_put_0.1.1");
    assert_string_equal(graph_value_name(graph, d), "in_put_0.2");
    graph_release(graph);
}

static void values_without_a_name_get_the_numbers_that_are_free(void **state)
{
    (void)state;
    graph_builder_t *builder = begin();
    value_t a = graph_add_param(builder, NULL, NULL);
    value_t literal = add_int(builder, 7);
    value_t b = graph_add_param(builder, "", NULL);
    value_t c = graph_add_param(builder, "2", NULL);
    graph_t *graph = finish(builder, a);
    assert_string_equal(graph_value_name(graph, a), "1");
    assert_string_equal(graph_value_name(graph, b), "3");
    assert_string_equal(graph_value_name(graph, c), "2");
    assert_string_equal(graph_value_name(graph, literal), "4");
    graph_release(graph);
}

static void a_graph_name_always_begins_with_a_letter(void **state)
{
    (void)state;
    graph_builder_t *builder = NULL;
    CHECK_OK(ctx, graph_builder_create(ctx, "1 step", &builder));
    graph_t *graph = finish(builder, VALUE_NONE);
    assert_string_equal(graph_name(graph), "g1_step");
    graph_release(graph);
}

/* ---- operators ---- */

static void an_operator_infers_its_type_and_keeps_its_attributes(void **state)
{
    (void)state;
    graph_builder_t *builder = begin();
    graph_type_t type = tensor_type(SHAPE(4, 3, 3, 3));
    char path[] = "layer1.0";
    conv_attrs_t attrs = {.padding = {1, 1}};
    value_t in[] = {add_image(builder), graph_add_param(builder, "w", &type)};
    value_t y = graph_add_op(builder, ops_find("conv2d"), &attrs, 2, in, path);
    memset(path, '?', sizeof path - 1);
    attrs.padding[0] = 99;
    graph_t *graph = finish(builder, y);
    const graph_node_t *node = graph_producer(graph, y);
    const tensor_info_t *info = &graph_value_type(graph, y)->info;
    assert_int_equal(info->sizes[1], 4);
    assert_int_equal(info->sizes[2], 8);
    assert_int_equal(info->layout, LAYOUT_DENSE);
    assert_string_equal(node->path, "layer1.0");
    assert_int_equal(((const conv_attrs_t *)node->attrs)->padding[0], 1);
    assert_int_equal(((const conv_attrs_t *)node->attrs)->stride[0], 1);
    graph_release(graph);
}

static void operands_that_are_left_out_stand_as_none_before_those_of_post_ops(void **state)
{
    (void)state;
    graph_builder_t *builder = begin();
    graph_type_t type = tensor_type(SHAPE(3, 3, 1, 1));
    conv_attrs_t attrs = {.post = {1, {{.kind = POST_SUM}}}};
    value_t x = add_image(builder);
    value_t in[] = {x, graph_add_param(builder, "w", &type), x};
    value_t y = graph_add_op(builder, ops_find("conv2d"), &attrs, 3, in, NULL);
    graph_t *graph = finish(builder, y);
    const graph_node_t *node = graph_producer(graph, y);
    assert_int_equal(node->n_inputs, 4);
    assert_int_equal(node->n_post_inputs, 1);
    assert_int_equal(node->inputs[2], VALUE_NONE);
    assert_int_equal(node->inputs[3], x);
    assert_int_equal(graph_n_uses(graph, x), 2);
    graph_release(graph);
}

static void an_operator_on_unknown_types_gives_an_unknown_type(void **state)
{
    (void)state;
    graph_builder_t *builder = begin();
    value_t x = graph_add_param(builder, "x", NULL);
    int64_t sizes[] = {-1, 3};
    graph_type_t type = tensor_type(2, sizes);
    value_t dynamic = graph_add_param(builder, "n", &type);
    value_t y = add_relu(builder, x), z = add_relu(builder, dynamic);
    assert_int_equal(graph_builder_type(builder, y)->kind, TYPE_UNKNOWN);
    assert_int_equal(graph_builder_type(builder, z)->kind, TYPE_UNKNOWN);
    graph_set_type(builder, y, &type);
    graph_t *graph = finish(builder, y);
    assert_int_equal(graph_value_type(graph, y)->info.sizes[0], -1);
    graph_release(graph);
}

static void an_operator_with_several_outputs_has_as_many_as_it_infers(void **state)
{
    (void)state;
    graph_builder_t *builder = begin();
    const opdef_t *split = ops_find("split");
    char attrs[1024] __attribute__((aligned(16)));
    const char *text = "sizes=[3,5] dim=3", *cursor = text;
    value_t x = add_image(builder), out[2];
    attrs_init(&split->attrs, attrs);
    CHECK_OK(ctx, attrs_parse(ctx, "split", &split->attrs, &cursor, attrs));
    CHECK_OK(ctx, attrs_parse(ctx, "split", &split->attrs, &cursor, attrs));
    graph_add_op_n(builder, split, attrs, 1, &x, NULL, 2, out);
    assert_int_equal(graph_builder_type(builder, out[1])->info.sizes[3], 5);
    value_t three[3];
    graph_add_op_n(builder, split, attrs, 1, &x, "a", 3, three);
    assert_int_equal(three[2], VALUE_NONE);
    check_failure(builder, STATUS_INVALID_ARGUMENT,
                  "split: it has 2 outputs, 3 values are given at \"a\"");
}

/* ---- failures ---- */

static void the_first_failure_is_kept_with_its_path_and_ends_the_building(void **state)
{
    (void)state;
    graph_builder_t *builder = begin();
    graph_type_t type = tensor_type(SHAPE(4, 5, 3, 3));
    value_t in[] = {add_image(builder), graph_add_param(builder, "w", &type)};
    value_t y = graph_add_op(builder, ops_find("conv2d"), NULL, 2, in, "layer1.conv");
    assert_int_equal(y, VALUE_NONE);
    assert_int_equal(add_relu(builder, in[0]), VALUE_NONE);
    context_fail(ctx, STATUS_IO, "something later");
    check_failure(builder, STATUS_INVALID_ARGUMENT, "at \"layer1.conv\"");
    assert_non_null(strstr(context_error(ctx), "conv2d: "));
}

static void who_builds_can_fail_the_builder(void **state)
{
    (void)state;
    graph_builder_t *builder = begin();
    graph_builder_fail(builder, context_fail(ctx, STATUS_UNSUPPORTED, "no such thing"));
    assert_int_equal(graph_add_param(builder, "x", NULL), VALUE_NONE);
    check_failure(builder, STATUS_UNSUPPORTED, "no such thing");
}

static void a_value_of_another_graph_is_refused(void **state)
{
    (void)state;
    graph_builder_t *builder = begin();
    add_image(builder);
    assert_int_equal(add_relu(builder, 5), VALUE_NONE);
    check_failure(builder, STATUS_INVALID_ARGUMENT, "relu: value 5 does not exist");
}

static void a_finished_builder_is_empty(void **state)
{
    (void)state;
    graph_builder_t *builder = begin();
    graph_t *graph = NULL;
    CHECK_OK(ctx, graph_finish(builder, 0, NULL, &graph));
    graph_release(graph);
    assert_int_equal(graph_add_param(builder, "x", NULL), VALUE_NONE);
    check_failure(builder, STATUS_INVALID_ARGUMENT, "the builder is empty");
    graph_builder_destroy(NULL);
}

static void a_constant_that_text_cannot_hold_is_refused(void **state)
{
    (void)state;
    graph_builder_t *builder = begin();
    datum_t *inner = NULL, *outer = NULL;
    CHECK_OK(ctx, datum_list(ctx, 0, NULL, &inner));
    for (int i = 0; i < 40; i++) {
        CHECK_OK(ctx, datum_list(ctx, 1, &inner, &outer));
        datum_release(inner);
        inner = outer;
    }
    assert_int_equal(graph_add_constant(builder, inner, NULL), VALUE_NONE);
    datum_release(inner);
    check_failure(builder, STATUS_INVALID_ARGUMENT, "more than 32 deep");
}

static void builtins_are_checked_for_their_number_of_operands(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int n_inputs, n_outputs;
        const char *part;
    } cases[] = {{"len", 0, 1, "len: 0 operands, needs 1"},
                 {"scalar_add", 3, 1, "scalar_add: 3 operands, at most 2 are allowed"},
                 {"scalar_not", 1, 2, "scalar_not: it has 1 outputs, 2 values are given"},
                 {"dict", 3, 1, "a key and a value for each item"},
                 {"int_add", 2, 1, "\"int_add\" is not a builtin"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        graph_builder_t *builder = begin();
        value_t one = add_int(builder, 1), in[] = {one, one, one}, out[2];
        graph_node_t node = {.kind = NODE_BUILTIN,
                             .name = cases[i].name,
                             .n_inputs = cases[i].n_inputs,
                             .n_outputs = cases[i].n_outputs};
        graph_add_node(builder, &node, in, NULL, NULL, out);
        assert_int_equal(out[0], VALUE_NONE);
        check_failure(builder, STATUS_INVALID_ARGUMENT, cases[i].part);
    }
}

/* ---- blocks ---- */

static value_t add_if(graph_builder_t *builder, value_t condition)
{
    value_t out = VALUE_NONE;
    graph_node_t node = {.kind = NODE_IF, .n_inputs = 1, .n_outputs = 1};
    graph_add_node(builder, &node, &condition, NULL, NULL, &out);
    return out;
}

static void an_if_has_two_blocks_and_takes_the_type_they_agree_on(void **state)
{
    (void)state;
    graph_builder_t *builder = begin();
    graph_type_t is_bool = {.kind = TYPE_BOOL};
    value_t x = add_image(builder), c = graph_add_param(builder, "c", &is_bool);
    value_t y = add_if(builder, c);
    graph_block_begin(builder);
    value_t a = add_relu(builder, x);
    graph_block_end(builder, 1, &a);
    graph_block_begin(builder);
    graph_block_end(builder, 1, &x);
    value_t z = add_relu(builder, y);
    assert_int_equal(graph_builder_type(builder, z)->info.rank, 4);
    graph_t *graph = finish(builder, z);
    const graph_node_t *node = graph_producer(graph, y);
    assert_int_equal(node->n_blocks, 2);
    assert_int_equal(node->blocks[0]->n_nodes, 1);
    assert_int_equal(node->blocks[1]->results[0], x);
    assert_int_equal(graph_n_nodes(graph), 3);
    graph_release(graph);
}

static void branches_that_differ_leave_less_known(void **state)
{
    (void)state;
    graph_builder_t *builder = begin();
    value_t x = add_image(builder), none = VALUE_NONE, one = add_int(builder, 1);
    value_t optional = add_if(builder, one);
    graph_block_begin(builder);
    graph_block_end(builder, 1, &x);
    graph_block_begin(builder);
    graph_block_end(builder, 1, &none);
    value_t unknown = add_if(builder, one);
    graph_block_begin(builder);
    graph_block_end(builder, 1, &x);
    graph_block_begin(builder);
    graph_block_end(builder, 1, &one);
    graph_t *graph = finish(builder, unknown);
    assert_true(graph_value_type(graph, optional)->is_optional);
    assert_int_equal(graph_value_type(graph, optional)->kind, TYPE_TENSOR);
    assert_int_equal(graph_value_type(graph, unknown)->kind, TYPE_UNKNOWN);
    graph_release(graph);
}

static void a_loop_carries_kinds_but_not_sizes(void **state)
{
    (void)state;
    graph_builder_t *builder = begin();
    value_t out[1], in[] = {add_int(builder, 3), VALUE_NONE, add_image(builder)};
    graph_node_t node = {.kind = NODE_LOOP, .n_inputs = 3, .n_outputs = 1};
    graph_add_node(builder, &node, in, NULL, NULL, out);
    graph_block_begin(builder);
    value_t i = graph_add_param(builder, "i", NULL);
    value_t carried = graph_add_param(builder, "a", NULL);
    assert_int_equal(graph_builder_type(builder, i)->kind, TYPE_INT);
    assert_int_equal(graph_builder_type(builder, carried)->kind, TYPE_TENSOR);
    assert_false(graph_builder_type(builder, carried)->has_info);
    value_t results[] = {VALUE_NONE, carried};
    graph_block_end(builder, 2, results);
    graph_t *graph = finish(builder, out[0]);
    assert_int_equal(graph_value_type(graph, out[0])->kind, TYPE_TENSOR);
    assert_false(graph_value_type(graph, out[0])->has_info);
    graph_release(graph);
}

static void blocks_that_are_missing_or_wrong_fail_the_builder(void **state)
{
    (void)state;
    value_t x;
    graph_builder_t *builder = begin();
    add_if(builder, add_int(builder, 1));
    assert_int_equal(add_int(builder, 2), VALUE_NONE);
    check_failure(builder, STATUS_INVALID_ARGUMENT, "if: block 1 of 2 is missing");

    builder = begin();
    add_if(builder, add_int(builder, 1));
    graph_block_begin(builder);
    graph_block_end(builder, 0, NULL);
    check_failure(builder, STATUS_INVALID_ARGUMENT, "its block yields 0 values, needs 1");

    builder = begin();
    x = add_image(builder);
    add_if(builder, x);
    graph_block_begin(builder);
    graph_add_param(builder, "p", NULL);
    graph_block_end(builder, 1, &x);
    check_failure(builder, STATUS_INVALID_ARGUMENT, "its block has 1 parameters, needs 0");

    builder = begin();
    graph_block_begin(builder);
    check_failure(builder, STATUS_INVALID_ARGUMENT, "the last node needs no further block");

    builder = begin();
    graph_block_end(builder, 0, NULL);
    check_failure(builder, STATUS_INVALID_ARGUMENT, "no block is open");

    builder = begin();
    add_if(builder, add_int(builder, 1));
    graph_block_begin(builder);
    check_failure(builder, STATUS_INVALID_ARGUMENT, "1 blocks are open");
}

static void blocks_nest_only_so_deep(void **state)
{
    (void)state;
    graph_builder_t *builder = begin();
    value_t one = add_int(builder, 1);
    for (int i = 0; i < 100; i++) {
        add_if(builder, one);
        graph_block_begin(builder);
    }
    check_failure(builder, STATUS_INVALID_ARGUMENT, "nested more than 64 deep");
}

/* ---- types ---- */

static void tuples_of_tuples_do_not_grow_without_end(void **state)
{
    (void)state;
    graph_builder_t *builder = begin();
    value_t x = add_int(builder, 1);
    graph_node_t node = {.kind = NODE_BUILTIN, .name = "tuple", .n_inputs = 2, .n_outputs = 1};
    for (int i = 0; i < 60; i++) {
        value_t in[] = {x, x};
        graph_add_node(builder, &node, in, NULL, NULL, &x);
    }
    graph_t *graph = finish(builder, x);
    assert_int_equal(graph_value_type(graph, 1)->kind, TYPE_TUPLE);
    graph_release(graph);
}

static void types_are_copied_with_their_items_and_names(void **state)
{
    (void)state;
    graph_builder_t *builder = begin();
    int64_t sizes[] = {-1, 3};
    char name[] = "N";
    const char *dims[] = {name, NULL};
    graph_type_t item = tensor_type(2, sizes);
    item.dims = dims;
    graph_type_t list = {.kind = TYPE_LIST, .n_items = 1, .items = &item};
    value_t x = graph_add_param(builder, "x", &list);
    name[0] = '?';
    item.info.sizes[1] = 99;
    graph_t *graph = finish(builder, x);
    const graph_type_t *type = graph_value_type(graph, x);
    assert_int_equal(type->items[0].info.sizes[1], 3);
    assert_string_equal(type->items[0].dims[0], "N");
    graph_release(graph);
}

static void a_type_that_is_wrong_in_itself_is_refused(void **state)
{
    (void)state;
    graph_type_t rank = {.kind = TYPE_TENSOR, .has_info = true};
    rank.info.dtype = DTYPE_F32;
    rank.info.rank = 99;
    graph_type_t list = {.kind = TYPE_LIST};
    graph_builder_t *builder = begin();
    graph_add_param(builder, "x", &rank);
    check_failure(builder, STATUS_INVALID_ARGUMENT, "rank 99, must be 0 to 12");
    builder = begin();
    graph_add_param(builder, "x", &list);
    check_failure(builder, STATUS_INVALID_ARGUMENT, "a list has 0 item types");
}

/* ---- memory ---- */

static status_t build(context_t *scenario, graph_builder_t *builder, graph_t **out_graph)
{
    graph_type_t type = tensor_type(SHAPE(1, 3, 8, 8));
    value_t x = graph_add_param(builder, "x", &type), one = VALUE_NONE;
    datum_t *datum = NULL;
    TRY(datum_int(scenario, 1, &datum));
    one = graph_add_literal(builder, datum);
    datum_release(datum);
    value_t y = add_if(builder, one);
    graph_block_begin(builder);
    value_t a = x;
    for (int i = 0; i < 70; i++) a = add_relu(builder, a);
    graph_block_end(builder, 1, &a);
    graph_block_begin(builder);
    graph_block_end(builder, 1, &x);
    return graph_finish(builder, 1, &y, out_graph);
}

static status_t build_and_look(context_t *scenario)
{
    graph_builder_t *builder = NULL;
    graph_t *graph = NULL;
    text_t text = text_begin(scenario);
    TRY(graph_builder_create(scenario, "forward", &builder));
    status_t status = build(scenario, builder, &graph);
    graph_builder_destroy(builder);
    if (status == STATUS_OK) status = graph_verify(scenario, graph);
    if (status == STATUS_OK) status = graph_dot(scenario, graph, &text);
    text_clear(&text);
    graph_release(graph);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    check_every_allocation(build_and_look);
}

/* ---- pictures ---- */

static void a_picture_shows_layouts_reorders_and_constants(void **state)
{
    (void)state;
    graph_t *graph = NULL;
    text_t text = text_begin(ctx);
    CHECK_OK(ctx, graph_parse(ctx,
                              "graph f(%x : f32[1,16,4,4]) {\n"
                              "  %c = constant() value=\"a \\\"b\\\"\" : string\n"
                              "  %y = reorder(%x) format=\"aBcd16b\" : f32[1,16,4,4]@aBcd16b\n"
                              "  %z = relu(%y) : f32[1,16,4,4]@aBcd16b at \"act\"\n"
                              "  return %z, %c\n"
                              "}",
                              NULL, &graph));
    CHECK_OK(ctx, graph_dot(ctx, graph, &text));
    const char *dot = text_string(&text);
    assert_non_null(strstr(dot, "digraph \"f\""));
    static const char *const parts[] = {
        "[shape=ellipse, color=\"#7a7a7a\", fillcolor=\"#f0f0f0\", label=<<b>x</b>",
        "[shape=note, color=\"#9a9a9a\", fillcolor=\"#ffffff\", label=<<b>constant</b>",
        "&quot;a \\&quot;b\\&quot;&quot;",
        "[shape=box, color=\"#c0392b\", fillcolor=\"#f6b9b0\", label=<<b>reorder</b>",
        ">, style=\"filled\", penwidth=2.5];\n",
        "[shape=box, color=\"#3a6fc1\", fillcolor=\"#dbe8fb\", label=<<b>relu</b>",
        "color=\"#8a5a00\">act</font>",
        "color=\"#404040\">f32[1,16,4,4]@aBcd16b</font>>];\n",
        "v0 -> v2 [color=\"#7a7a7a\", weight=9];\n",
        "v2 -> v3 [color=\"#3a6fc1\", weight=9];\n",
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strstr(dot, parts[i]) == NULL) fail_msg("no %s in\n%s", parts[i], dot);
    text_clear(&text);
    graph_release(graph);
}

static void a_picture_has_a_cluster_for_each_block_and_bytes_for_constants(void **state)
{
    (void)state;
    graph_t *graph = NULL;
    datum_t *datum = NULL, *pool = NULL;
    tensor_t *tensor = NULL;
    text_t text = text_begin(ctx);
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, 2, (int64_t[]){16, 20}, 1, &tensor));
    CHECK_OK(ctx, datum_tensor(ctx, tensor, &datum));
    CHECK_OK(ctx, datum_list(ctx, 1, &datum, &pool));
    CHECK_OK(ctx, graph_parse(ctx,
                              "graph f(%c : bool, %n : int) {\n"
                              "  %w = constant() value=$0 : f32[16,20]\n"
                              "  %y = if(%c) {\n"
                              "    yield %w\n"
                              "  } else {\n"
                              "    %z = loop(%n, true, %w) do (%i, %a) {\n"
                              "      %b = relu(%a)\n"
                              "      yield %c, %b\n"
                              "    }\n"
                              "    yield %z\n"
                              "  }\n"
                              "  return %y\n"
                              "}",
                              pool, &graph));
    CHECK_OK(ctx, graph_dot(ctx, graph, &text));
    const char *dot = text_string(&text);
    static const char *const parts[] = {"label=\"if then\"",  "label=\"if else\"",
                                        "label=\"loop do\"",  "<b>w</b>",
                                        "f32[16,20], 1.3 kB", "penwidth=0.6"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strstr(dot, parts[i]) == NULL) fail_msg("no %s in\n%s", parts[i], dot);
    text_clear(&text);
    graph_release(graph);
    datum_release(pool);
    datum_release(datum);
    tensor_release(tensor);
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_finished_graph_answers_for_its_values),
        CASE(none_and_numbers_beyond_the_graph_have_harmless_answers),
        CASE(constants_are_held_by_the_graph),
        CASE(taken_names_get_a_number_and_odd_characters_an_underscore),
        CASE(values_without_a_name_get_the_numbers_that_are_free),
        CASE(a_graph_name_always_begins_with_a_letter),
        CASE(an_operator_infers_its_type_and_keeps_its_attributes),
        CASE(operands_that_are_left_out_stand_as_none_before_those_of_post_ops),
        CASE(an_operator_on_unknown_types_gives_an_unknown_type),
        CASE(an_operator_with_several_outputs_has_as_many_as_it_infers),
        CASE(the_first_failure_is_kept_with_its_path_and_ends_the_building),
        CASE(who_builds_can_fail_the_builder),
        CASE(a_value_of_another_graph_is_refused),
        CASE(a_finished_builder_is_empty),
        CASE(a_constant_that_text_cannot_hold_is_refused),
        CASE(builtins_are_checked_for_their_number_of_operands),
        CASE(an_if_has_two_blocks_and_takes_the_type_they_agree_on),
        CASE(branches_that_differ_leave_less_known),
        CASE(a_loop_carries_kinds_but_not_sizes),
        CASE(blocks_that_are_missing_or_wrong_fail_the_builder),
        CASE(blocks_nest_only_so_deep),
        CASE(tuples_of_tuples_do_not_grow_without_end),
        CASE(types_are_copied_with_their_items_and_names),
        CASE(a_type_that_is_wrong_in_itself_is_refused),
        CASE(every_allocation_may_fail),
        CASE(a_picture_shows_layouts_reorders_and_constants),
        CASE(a_picture_has_a_cluster_for_each_block_and_bytes_for_constants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
