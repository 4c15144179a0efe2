/* Nodes with blocks that are wrong: every refusal names the node and the reason. What right ones
 * give is in test_onnx_stored.c. */
#include "tests/support/support.h"

#include "tests/support/onnx_model.h"

#ifdef TESSERA_HAVE_ONNX

static maker_t blocks[2];

/* A block that gives what one operator makes of x of the graph around it. */
static void make_block(maker_t *block, const char *operator_name, const char *result)
{
    maker_begin(block, 17);
    maker_node(block, operator_name, "", "x", result);
    maker_output(block, result);
}

static void refuse_with(context_t *ctx, const onnx_options_t *options, status_t status,
                        const char *words)
{
    module_t *model = NULL;
    CHECK_FAILS(ctx, load_model_with(ctx, options, &model), status, words);
}

static void refuse(context_t *ctx, status_t status, const char *words)
{
    refuse_with(ctx, NULL, status, words);
}

/* ---- If ---- */

static maker_node_t *begin_if(int dtype, int rank)
{
    begin_model(17, DIMS(2, 3));
    maker_input(&maker, "flag", dtype, rank, (int64_t[]){2});
    return maker_node(&maker, "If", "choice", "flag", "y");
}

static void an_if_lacks_what_it_needs(void **state)
{
    context_t *ctx = fixture_context(state);
    make_block(&blocks[0], "Relu", "a");
    make_block(&blocks[1], "Neg", "b");
    maker_attr_graph(begin_if(9, 0), "then_branch", &blocks[0]);
    refuse(ctx, STATUS_INVALID_ARGUMENT, "onnx: node \"choice\" (If): else_branch is missing");

    maker_node_t *node = begin_if(9, 1);
    maker_attr_graph(node, "then_branch", &blocks[0]);
    maker_attr_graph(node, "else_branch", &blocks[1]);
    refuse(ctx, STATUS_INVALID_ARGUMENT, "the condition is bool[2], one bool is needed");
    node = begin_if(FLOAT, 0);
    maker_attr_graph(node, "then_branch", &blocks[0]);
    maker_attr_graph(node, "else_branch", &blocks[1]);
    refuse(ctx, STATUS_INVALID_ARGUMENT, "the condition is f32[], one bool is needed");
}

static void a_block_lacks_its_results(void **state)
{
    context_t *ctx = fixture_context(state);
    make_block(&blocks[0], "Relu", "a");
    make_block(&blocks[1], "Neg", "b");
    maker_output(&blocks[1], "c");
    maker_node_t *node = begin_if(9, 0);
    maker_attr_graph(node, "then_branch", &blocks[0]);
    maker_attr_graph(node, "else_branch", &blocks[1]);
    refuse(ctx, STATUS_INVALID_ARGUMENT, "gives 2 results for 1 outputs");
    make_block(&blocks[1], "Neg", "b");
    blocks[1].graph.output[0]->name = blocks[0].graph.output[0]->name;
    refuse(ctx, STATUS_CORRUPT, "result \"a\" is made by no node");
}

static void branches_have_to_give_the_same(void **state)
{
    context_t *ctx = fixture_context(state);
    make_block(&blocks[0], "Relu", "a");
    make_block(&blocks[1], "Shape", "b");
    maker_node_t *node = begin_if(9, 0);
    maker_attr_graph(node, "then_branch", &blocks[0]);
    maker_attr_graph(node, "else_branch", &blocks[1]);
    refuse(ctx, STATUS_UNSUPPORTED, "onnx: node \"choice\" (If): output 0 is f32[2,3] or s64[2]");
}

static void operators_of_blocks_are_listed_with_the_others(void **state)
{
    context_t *ctx = fixture_context(state);
    make_block(&blocks[0], "Foo", "a");
    make_block(&blocks[1], "Bar", "b");
    maker_node_t *node = begin_if(9, 0);
    maker_attr_graph(node, "then_branch", &blocks[0]);
    maker_attr_graph(node, "else_branch", &blocks[1]);
    maker_node(&maker, "Baz", "last", "y", "z");
    refuse(
        ctx, STATUS_UNSUPPORTED,
        "onnx: 3 operators are not supported: Foo (node \"a\", opset 17), Bar (node \"b\", opset "
        "17), Baz (node \"last\", opset 17)");
}

/* "onnx: node A: node B: reason" */
static void a_failure_inside_says_where_it_is(void **state)
{
    context_t *ctx = fixture_context(state);
    make_block(&blocks[0], "Relu", "a");
    maker_begin(&blocks[1], 17);
    maker_node(&blocks[1], "Relu", "inner", "nothing", "b");
    maker_output(&blocks[1], "b");
    maker_node_t *node = begin_if(9, 0);
    maker_attr_graph(node, "then_branch", &blocks[0]);
    maker_attr_graph(node, "else_branch", &blocks[1]);
    refuse(
        ctx, STATUS_CORRUPT,
        "onnx: node \"choice\" (If): node \"inner\" (Relu): input \"nothing\" is made by no node "
        "before it");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_if_lacks_what_it_needs),
        TEST(a_block_lacks_its_results),
        TEST(branches_have_to_give_the_same),
        TEST(operators_of_blocks_are_listed_with_the_others),
        TEST(a_failure_inside_says_where_it_is),
    };
    return cmocka_run_group_tests_name("onnx_flow", tests, NULL, NULL);
}

#else

int main(void)
{
    return 0;
}

#endif
