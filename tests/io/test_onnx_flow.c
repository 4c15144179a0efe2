/* Invalid ONNX nodes with subgraphs ("blocks"), such as If and Loop: each message must name the
 * node and the reason. test_onnx_stored.c tests valid ones. */
#include "tests/support/onnx/onnx_model.h"
#include "tests/support/support.h"

static maker_t blocks[2];

/* Makes a block that applies an operator to x, a value of the graph around it. */
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
    refuse(ctx, STATUS_CORRUPT, "gives 2 results, needs 1");
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

/* The message names both the outer and the inner node. */
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

/* ---- Loop and Scan ---- */

static maker_node_t *begin_loop(const char *type, const char *inputs, const char *outputs)
{
    begin_model(17, DIMS(2, 3));
    maker_input(&maker, "n", INT64, 0, NULL);
    maker_initializer(&maker, "go", 9, 0, NULL, &(uint8_t){1}, 1);
    return maker_node(&maker, type, "again", inputs, outputs);
}

/* Begins a loop's body with inputs i (iteration), c (condition) and a, and output c. The test adds
 * the output after a. */
static void begin_body(maker_t *body)
{
    maker_begin(body, 17);
    maker_input(body, "i", INT64, 0, NULL);
    maker_input(body, "c", 9, 0, NULL);
    maker_input(body, "a", FLOAT, DIMS(2, 3));
    maker_output(body, "c");
}

static void a_loop_lacks_what_it_needs(void **state)
{
    context_t *ctx = fixture_context(state);
    begin_loop("Loop", "n go x", "y");
    refuse(ctx, STATUS_INVALID_ARGUMENT, "onnx: node \"again\" (Loop): body is missing");
    begin_body(&blocks[0]);
    maker_attr_graph(begin_loop("Loop", "n go x x", "y"), "body", &blocks[0]);
    refuse(ctx, STATUS_INVALID_ARGUMENT,
           "the body has 3 inputs and 1 results for 2 carried values");
    begin_body(&blocks[0]);
    maker_output(&blocks[0], "nothing");
    maker_attr_graph(begin_loop("Loop", "n go x", "y"), "body", &blocks[0]);
    refuse(ctx, STATUS_CORRUPT, "result \"nothing\" is made by no node");
}

static void carried_values_keep_their_rank(void **state)
{
    context_t *ctx = fixture_context(state);
    begin_body(&blocks[0]);
    maker_node(&blocks[0], "Shape", "", "a", "b");
    maker_output(&blocks[0], "b");
    maker_attr_graph(begin_loop("Loop", "n go x", "y"), "body", &blocks[0]);
    refuse(ctx, STATUS_UNSUPPORTED,
           "onnx: node \"again\" (Loop): value 0 is f32[2,3], and then s64[2]");
}

static void a_loop_that_never_ends_is_an_error(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *model = NULL;
    tensor_t *in[2] = {NULL}, *out = NULL;
    int n_out = 1;
    begin_body(&blocks[0]);
    maker_output(&blocks[0], "a");
    maker_attr_graph(begin_loop("Loop", "- go x", "y"), "body", &blocks[0]);
    CHECK_OK(ctx, load_model_with(ctx, NULL, &model));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(2, 3), &in[0]));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_S64, 0, NULL, &in[1]));
    CHECK_FAILS(
        ctx,
        module_call_tensors(ctx, model, "forward", 2, (const tensor_t *const *)in, &n_out, &out),
        STATUS_LIMIT, "loop: loops and method calls reached the limit of 1048576");
    tensor_release(in[0]);
    tensor_release(in[1]);
    module_release(model);
}

/* Runs a loop zero times. In each iteration its body would append `collected` to a result: "a", f32
 * [2][3], or "twice", whose size the import does not know. */
static void run_empty_loop(context_t *ctx, const char *collected, module_t **model,
                           status_t *status, tensor_t **out)
{
    tensor_t *in[2] = {NULL};
    int n_out = 2;
    begin_body(&blocks[0]);
    maker_int(maker_node(&blocks[0], "Concat", "", "a a", "twice"), "axis", 0);
    maker_output(&blocks[0], collected);
    maker_output(&blocks[0], collected);
    maker_attr_graph(begin_loop("Loop", "n go x", "y all"), "body", &blocks[0]);
    maker_output(&maker, "all");
    CHECK_OK(ctx, load_model_with(ctx, NULL, model));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(2, 3), &in[0]));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_S64, 0, NULL, &in[1]));
    *status = module_call_tensors(ctx, *model, "forward", 2, (const tensor_t *const *)in, &n_out,
                                  out);
    tensor_release(in[0]);
    tensor_release(in[1]);
}

/* The result has the size [iterations, sizes of a], here [0, 2, 3]. */
static void a_loop_without_iterations_collects_no_rows(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *model = NULL;
    tensor_t *out[2] = {NULL};
    status_t status;
    run_empty_loop(ctx, "a", &model, &status, out);
    CHECK_OK(ctx, status);
    assert_int_equal(tensor_dtype(out[1]), DTYPE_F32);
    assert_int_equal(tensor_rank(out[1]), 3);
    assert_memory_equal(tensor_sizes(out[1]), ((int64_t[]){0, 2, 3}), 3 * sizeof(int64_t));
    tensor_release(out[0]);
    tensor_release(out[1]);
    module_release(model);
}

static void rows_whose_sizes_are_not_known_are_an_error_where_there_are_none(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *model = NULL;
    tensor_t *out[2] = {NULL};
    status_t status;
    run_empty_loop(ctx, "twice", &model, &status, out);
    CHECK_FAILS(ctx, status, STATUS_INVALID_ARGUMENT, "join: the list is empty");
    module_release(model);
}

static void a_scan_lacks_what_it_needs(void **state)
{
    context_t *ctx = fixture_context(state);
    maker_begin(&blocks[0], 17);
    maker_input(&blocks[0], "a", FLOAT, DIMS(3));
    maker_node(&blocks[0], "Neg", "", "a", "b");
    maker_output(&blocks[0], "b");
    maker_attr_graph(begin_loop("Scan", "x", "y"), "body", &blocks[0]);
    refuse(ctx, STATUS_INVALID_ARGUMENT, "0 scan inputs of 1, the body has 1");
    maker_node_t *node = begin_loop("Scan", "x", "y");
    maker_attr_graph(node, "body", &blocks[0]);
    maker_int(node, "num_scan_inputs", 1);
    maker_ints(node, "scan_input_axes", DIMS(2));
    refuse(ctx, STATUS_INVALID_ARGUMENT, "axis 2 of rank 2");
    node = begin_loop("Scan", "x", "y");
    maker_attr_graph(node, "body", &blocks[0]);
    maker_int(node, "num_scan_inputs", 1);
    maker_ints(node, "scan_output_axes", DIMS(0, 0));
    refuse(ctx, STATUS_INVALID_ARGUMENT, "scan_output_axes has 2 numbers, needs 1");
    node = begin_loop("Scan", "x x", "y");
    blocks[0].graph.n_output = 0;
    maker_input(&blocks[0], "z", FLOAT, DIMS(3));
    maker_attr_graph(node, "body", &blocks[0]);
    maker_int(node, "num_scan_inputs", 1);
    refuse(ctx, STATUS_INVALID_ARGUMENT, "the body has 0 results for 1 state");
}

/* The import supports sizes that are linear in a count of elements found at run time. The square of
 * such a count, as k of TopK, is not. */
static void sizes_that_are_not_linear_in_a_count_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    begin_model(17, DIMS(64));
    maker_node(&maker, "NonZero", "", "x", "found");
    maker_node(&maker, "Shape", "", "found", "sizes");
    maker_initializer(&maker, "one", INT64, 1, (int64_t[]){1}, &(int64_t){1}, 8);
    maker_initializer(&maker, "ends", INT64, 1, (int64_t[]){1}, &(int64_t){2}, 8);
    maker_node(&maker, "Slice", "", "sizes one ends", "count");
    maker_node(&maker, "Mul", "", "count count", "square");
    maker_node(&maker, "TopK", "window", "x square", "y -");
    refuse(ctx, STATUS_UNSUPPORTED, "follows a size that depends on elements");
}

/* Importing must not fail if a branch is invalid for these sizes, because another branch may run.
 * If the invalid branch runs, the run fails. */
static void a_block_that_is_refused_may_not_be_run(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *model = NULL;
    tensor_t *in[2] = {NULL};
    maker_begin(&blocks[0], 17);
    maker_initializer(&blocks[0], "shape", INT64, 1, (int64_t[]){1}, &(int64_t){7}, 8);
    maker_node(&blocks[0], "Reshape", "seven", "x shape", "a");
    maker_output(&blocks[0], "a");
    make_block(&blocks[1], "Neg", "b");
    maker_node_t *node = begin_if(9, 0);
    maker_attr_graph(node, "then_branch", &blocks[0]);
    maker_attr_graph(node, "else_branch", &blocks[1]);
    CHECK_OK(ctx, load_model_with(ctx, NULL, &model));
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(2, 3), 1, &in[0]));
    for (int flag = 0; flag < 2; flag++) {
        tensor_t *out = NULL;
        int n_out = 1;
        CHECK_OK(ctx, tensor_full(ctx, DTYPE_BOOL, 0, NULL, flag, &in[1]));
        status_t status = module_call_tensors(ctx, model, "forward", 2, (const tensor_t *const *)in,
                                              &n_out, &out);
        if (flag == 0)
            CHECK_OK(ctx, status);
        else
            CHECK_FAILS(ctx, status, STATUS_INVALID_ARGUMENT,
                        "node \"seven\" (Reshape): 6 elements into a shape of 7");
        tensor_release(in[1]);
        tensor_release(out);
    }
    tensor_release(in[0]);
    module_release(model);
}

/* Min(count, 1) is a size of no operand, even if it may equal one. */
static void sizes_that_are_equal_by_chance_are_read_at_the_run(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *model = NULL;
    begin_model(17, DIMS(8));
    maker_initializer(&maker, "one", INT64, 1, (int64_t[]){1}, &(int64_t){1}, 8);
    maker_initializer(&maker, "two", INT64, 1, (int64_t[]){1}, &(int64_t){2}, 8);
    maker_initializer(&maker, "v", FLOAT, 1, (int64_t[]){1}, &(float){1}, 4);
    maker_node(&maker, "NonZero", "", "x", "found");
    maker_node(&maker, "Shape", "", "found", "sizes");
    maker_node(&maker, "Slice", "", "sizes one two", "count");
    maker_node(&maker, "Min", "", "count one", "least");
    maker_node(&maker, "Expand", "wide", "v least", "y");
    CHECK_OK(ctx, load_model_with(ctx, NULL, &model));
    for (int value = 0; value < 2; value++) {
        tensor_t *x = NULL, *y = NULL;
        CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(8), value, &x));
        CHECK_OK(ctx, module_forward(ctx, model, x, &y));
        assert_int_equal(tensor_rank(y), 1);
        assert_int_equal(tensor_sizes(y)[0], value);
        tensor_release(x);
        tensor_release(y);
    }
    module_release(model);
}

/* The two results of Compress have as many rows as m has true elements. The import cannot prove
 * that, but at run time they are equal. */
static void sizes_that_are_equal_at_the_run_are_taken(void **state)
{
    context_t *ctx = fixture_context(state);
    float rows[32];
    for (int i = 0; i < 32; i++) rows[i] = 1;
    begin_model(17, DIMS(3, 8));
    maker_input(&maker, "m", 9, DIMS(8));
    maker_initializer(&maker, "rows", FLOAT, 2, (int64_t[]){8, 4}, rows, sizeof rows);
    maker_int(maker_node(&maker, "Compress", "", "x m", "a"), "axis", 1);
    maker_int(maker_node(&maker, "Compress", "", "rows m", "b"), "axis", 0);
    maker_node(&maker, "MatMul", "product", "a b", "y");
    module_t *model = NULL;
    tensor_t *in[2] = {NULL, NULL}, *y = NULL;
    int n_out = 1;
    CHECK_OK(ctx, load_model_with(ctx, NULL, &model));
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(3, 8), 2, &in[0]));
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_BOOL, SHAPE(8), 1, &in[1]));
    CHECK_OK(ctx, module_call_tensors(ctx, model, "forward", 2, (const tensor_t *const *)in, &n_out,
                                      &y));
    float elements[12];
    CHECK_OK(ctx, tensor_read(ctx, y, elements, sizeof elements));
    for (int i = 0; i < 12; i++) assert_true(elements[i] == 2.0F * 8.0F);
    tensor_release(y);
    tensor_release(in[0]);
    tensor_release(in[1]);
    module_release(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_if_lacks_what_it_needs),
        TEST(a_block_lacks_its_results),
        TEST(branches_have_to_give_the_same),
        TEST(operators_of_blocks_are_listed_with_the_others),
        TEST(a_failure_inside_says_where_it_is),
        TEST(a_block_that_is_refused_may_not_be_run),
        TEST(a_loop_lacks_what_it_needs),
        TEST(carried_values_keep_their_rank),
        TEST(a_loop_that_never_ends_is_an_error),
        TEST(a_loop_without_iterations_collects_no_rows),
        TEST(rows_whose_sizes_are_not_known_are_an_error_where_there_are_none),
        TEST(a_scan_lacks_what_it_needs),
        TEST(sizes_that_are_not_linear_in_a_count_are_refused),
        TEST(sizes_that_are_equal_by_chance_are_read_at_the_run),
        TEST(sizes_that_are_equal_at_the_run_are_taken),
    };
    return cmocka_run_group_tests_name("onnx_flow", tests, NULL, NULL);
}
