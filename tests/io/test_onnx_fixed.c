/* ONNX models with open sizes. If a graph is valid for some sizes only, it refuses others; equal
 * names mean equal sizes; plans are as good as for fixed sizes. */
#include "tests/support/support.h"

#include <stdio.h>

#include "freeze/freeze.h"
#include "graph/program/plan.h"
#include "tests/support/onnx/onnx_sizes.h"

/* ---- errors ---- */

static const int64_t two_batches[2][4] = {{1, 4, 6}, {3, 4, 6}};

static void a_node_that_holds_for_one_size_is_named(void **state)
{
    context_t *ctx = fixture_context(state);
    begin_model(13, DIMS(-1, 4, 6));
    sizes_vector("sizes", DIMS(1, 24));
    maker_node(&maker, "Reshape", "rows", "x sizes", "y");
    sizes_check_refused_at(ctx, 3, 2, two_batches,
                           "forward: N is 3, the graph holds where N == 1 (Reshape \"rows\")");
    /* Squeeze removes dimensions of size 1, so each size must stay 1 or not 1. */
    begin_model(13, DIMS(-1, 4, 6));
    maker_node(&maker, "Squeeze", "all", "x", "y");
    sizes_check_refused_at(ctx, 3, 2, two_batches,
                           "the graph holds where N == 1 (Squeeze \"all\")");
    begin_model(13, DIMS(-1, 4, 6));
    sizes_vector("axes", DIMS(0));
    maker_node(&maker, "Squeeze", "first", "x axes", "y");
    sizes_check_refused_at(ctx, 3, 2, two_batches,
                           "the graph holds where N == 1 (Squeeze \"first\")");
}

static double with_most(const int64_t *sizes, const int64_t *index)
{
    const int64_t at = (index[0] * sizes[1] + index[1]) * sizes[2] + index[2];
    return sizes_element(at) + (double)(sizes[0] > 4 ? sizes[0] : 4) * sizes_element(0);
}

/* The size Max(N, 4) is 4 for N up to 4, and N above. */
static void a_shape_that_depends_on_a_comparison_follows_it(void **state)
{
    static const int64_t sizes[4][4] = {{1, 4, 6}, {3, 4, 6}, {5, 4, 6}, {9, 4, 6}};
    begin_model(13, DIMS(-1, 4, 6));
    sizes_numbers();
    sizes_vector("four", DIMS(4));
    sizes_vector("tail", DIMS(1, 1));
    sizes_weight("w", DIMS(1, 1, 1));
    maker_node(&maker, "Shape", "", "x", "shape");
    maker_node(&maker, "Slice", "", "shape v0 v1", "n");
    maker_node(&maker, "Max", "", "n four", "most");
    maker_int(maker_node(&maker, "Concat", "", "most tail", "sizes"), "axis", 0);
    maker_node(&maker, "Expand", "grow", "w sizes", "tokens");
    maker_int(maker_node(&maker, "ReduceSum", "", "tokens v0", "sum"), "keepdims", 1);
    maker_node(&maker, "Add", "", "x sum", "y");
    const sizes_trial_t trial = {3, with_most, NULL};
    sizes_check_at(fixture_context(state), &trial, 4, sizes);
}

/* Reshaping an image to 64 elements fixes its height H to 8. The batch stays open. */
static void other_sizes_stay_open_beside_one_that_is_fixed(void **state)
{
    static const int64_t sizes[2][4] = {{1, 1, 8, 8}, {1, 1, 9, 8}};
    context_t *ctx = fixture_context(state);
    tensor_t *y = NULL;
    begin_model(13, DIMS(-1, 1, -1, 8));
    sizes_open((const char *const[4]){"N", NULL, "H", NULL});
    sizes_vector("rows", DIMS(0, 1, 64));
    maker_node(&maker, "Reshape", "flat", "x rows", "y");
    sizes_check_refused_at(ctx, 4, 2, sizes,
                           "forward: H is 9, the graph holds where H == 8 (Reshape \"flat\")");
    onnx_shape_t shape = {"x", 4, sizes[0]};
    module_t *model = NULL;
    CHECK_OK(ctx, load_model_with(ctx, &(onnx_options_t){.n_shapes = 1, .shapes = &shape}, &model));
    CHECK_OK(ctx, sizes_run_at(ctx, model, 4, (int64_t[]){3, 1, 8, 8}, &y));
    assert_int_equal(tensor_sizes(y)[0], 3);
    tensor_release(y);
    module_release(model);
}

static void sizes_that_the_file_fixes_stay_fixed(void **state)
{
    context_t *ctx = fixture_context(state);
    const int64_t other[2] = {3, 4}, long_shape[3] = {2, 4, 1};
    module_t *model = NULL;
    begin_model(13, DIMS(2, 4));
    maker_node(&maker, "Relu", "", "x", "y");
    sizes_check_refused_at(ctx, 2, 2, (const int64_t[2][4]){{2, 4}, {3, 4}},
                           "forward: input x is f32[3,4], the graph was made for f32[2,4]");
    onnx_shape_t shape = {"x", 2, other};
    onnx_options_t options = {.n_shapes = 1, .shapes = &shape};
    CHECK_FAILS(ctx, load_model_with(ctx, &options, &model), STATUS_INVALID_ARGUMENT,
                "input \"x\": size 3 in dimension 0, the file fixes it to 2");
    shape = (onnx_shape_t){"x", 3, long_shape};
    CHECK_FAILS(ctx, load_model_with(ctx, &options, &model), STATUS_INVALID_ARGUMENT,
                "input \"x\": a shape of rank 3, the file has rank 2");
    shape = (onnx_shape_t){"z", 2, other};
    CHECK_FAILS(ctx, load_model_with(ctx, &options, &model), STATUS_INVALID_ARGUMENT,
                "a shape for input \"z\", the model has no such input");
}

/* A size that no shape sets must be known from open_size, or importing fails. */
static void open_size_stands_for_sizes_that_no_shape_says(void **state)
{
    context_t *ctx = fixture_context(state);
    const int64_t given[3] = {2, 5, 7};
    const onnx_shape_t shape = {"x", 3, given};
    module_t *model = NULL;
    module_value_t value;
    begin_model(13, DIMS(-1, -1, -1));
    sizes_open((const char *const[4]){"N", "T", "C", NULL});
    maker_node(&maker, "Relu", "", "x", "y");
    CHECK_FAILS(ctx, load_model_with(ctx, &(onnx_options_t){.batch = 0}, &model),
                STATUS_INVALID_ARGUMENT,
                "dimension 1 (\"T\") is not fixed, and no shape says its size");
    for (int is_given = 0; is_given < 2; is_given++) {
        onnx_options_t options = {.open_size = 9, .n_shapes = is_given, .shapes = &shape};
        CHECK_OK(ctx, load_model_with(ctx, &options, &model));
        CHECK_OK(ctx, module_input(ctx, model, "forward", 0, &value));
        for (int d = 0; d < 3; d++) {
            assert_int_equal(value.sizes[d], -1);
            assert_int_equal(value.made[d], is_given ? given[d] : d == 0 ? 1 : 9);
        }
        tensor_t *y = NULL;
        CHECK_OK(ctx, sizes_run_at(ctx, model, 3, (int64_t[]){3, 4, 5}, &y));
        tensor_release(y);
        module_release(model);
    }
}

/* Loads the model without sizes. Checks the sizes that the import has chosen, and the guards. */
static void check_chosen(context_t *ctx, int rank, const int64_t *sizes, const char *guards)
{
    const onnx_options_t options = {.open_size = 64};
    module_t *model = NULL;
    module_value_t value;
    text_t text = text_begin(ctx);
    CHECK_OK(ctx, load_model_with(ctx, &options, &model));
    CHECK_OK(ctx, module_input(ctx, model, "forward", 0, &value));
    assert_int_equal(value.rank, rank);
    for (int d = 0; d < rank; d++) assert_int_equal(value.made[d], sizes[d]);
    CHECK_OK(ctx, graph_guards(ctx, graph_of(model, "forward"), &text));
    assert_string_equal(text_string(&text), guards);
    text_clear(&text);
    module_release(model);
}

/* If a model does not accept a batch of 1 and 64 elsewhere, the guards of the failures lead to the
 * nearest sizes that it accepts. The numbers are those of the rules of ONNX. */
static void sizes_that_nobody_says_are_those_that_the_model_takes(void **state)
{
    context_t *ctx = fixture_context(state);
    const float kernel[100] = {0};
    begin_model(13, DIMS(-1, -1));
    sizes_open((const char *const[4]){"N", "T", NULL});
    maker_initializer(&maker, "rows", INT64, DIMS(2), (int64_t[]){-1, 6}, 2 * sizeof(int64_t));
    maker_node(&maker, "Reshape", "", "x rows", "r");
    maker_initializer(&maker, "sevens", INT64, DIMS(3), (int64_t[]){0, -1, 7}, 3 * sizeof(int64_t));
    maker_node(&maker, "Reshape", "", "x sevens", "y");
    check_chosen(ctx, 2, (int64_t[]){1, 84}, "N*T % 6 == 0, N >= 1, T % 7 == 0");
    begin_model(13, DIMS(-1));
    sizes_open((const char *const[4]){"N", NULL});
    maker_node(&maker, "Split", "", "x", "y a b");
    check_chosen(ctx, 1, (int64_t[]){3}, "N % 3 == 0");
    begin_model(13, DIMS(1, 1, -1));
    sizes_open((const char *const[4]){NULL, NULL, "T", NULL});
    maker_initializer(&maker, "w", FLOAT, DIMS(1, 1, 100), kernel, sizeof kernel);
    maker_node(&maker, "Conv", "", "x w", "y");
    check_chosen(ctx, 3, (int64_t[]){1, 1, 100}, "T >= 100");
    begin_model(13, DIMS(-1, -1));
    sizes_open((const char *const[4]){"N", "T", NULL});
    maker_node(&maker, "MatMul", "", "x x", "y");
    check_chosen(ctx, 2, (int64_t[]){64, 64}, "T == N");
}

/* Passes get the graph at sizes that its guards allow, so freezing does not fix the sizes. */
static void a_frozen_graph_takes_all_sizes_that_its_guards_allow(void **state)
{
    context_t *ctx = fixture_context(state);
    static const int64_t sizes[][2] = {{7, 30}, {1, 15}, {14, 60}};
    const onnx_options_t options = {.open_size = 64};
    module_t *model = NULL, *frozen = NULL;
    begin_model(13, DIMS(-1, -1));
    sizes_open((const char *const[4]){"N", "T", NULL});
    maker_initializer(&maker, "rows", INT64, DIMS(2), (int64_t[]){-1, 15}, 2 * sizeof(int64_t));
    maker_node(&maker, "Reshape", "", "x rows", "r");
    maker_node(&maker, "Relu", "", "r", "y");
    CHECK_OK(ctx, load_model_with(ctx, &options, &model));
    CHECK_OK(ctx, freeze(ctx, model, NULL, &frozen));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        tensor_t *y = NULL;
        CHECK_OK(ctx, sizes_run_at(ctx, frozen, 2, sizes[i], &y));
        assert_int_equal(tensor_sizes(y)[0], sizes[i][0] * sizes[i][1] / 15);
        tensor_release(y);
    }
    module_release(frozen);
    module_release(model);
}

/* The message is that of the first import, and a size that is given stays. */
static void sizes_that_are_given_do_not_change(void **state)
{
    context_t *ctx = fixture_context(state);
    const int64_t given[2] = {1, 65};
    const onnx_shape_t shape = {"x", 2, given};
    const onnx_options_t options = {.open_size = 64, .n_shapes = 1, .shapes = &shape};
    module_t *model = NULL;
    begin_model(13, DIMS(-1, -1));
    sizes_open((const char *const[4]){"N", "T", NULL});
    maker_initializer(&maker, "rows", INT64, DIMS(2), (int64_t[]){-1, 6}, 2 * sizeof(int64_t));
    maker_node(&maker, "Reshape", "", "x rows", "y");
    CHECK_FAILS(ctx, load_model_with(ctx, &options, &model), STATUS_INVALID_ARGUMENT,
                "65 elements into a shape of 6");
}

/* ---- names ---- */

static status_t run_two(context_t *ctx, module_t *model, int64_t n_a, int64_t n_b, tensor_t **out)
{
    tensor_t *in[2] = {NULL};
    int n_out = 1;
    CHECK_OK(ctx, tensor_rand(ctx, DTYPE_F32, SHAPE(n_a, 3), &in[0]));
    CHECK_OK(ctx, tensor_rand(ctx, DTYPE_F32, SHAPE(n_b, 3), &in[1]));
    status_t status = module_call_tensors(ctx, model, "forward", 2, (const tensor_t *const *)in,
                                          &n_out, out);
    tensor_release(in[0]);
    tensor_release(in[1]);
    return status;
}

static void equal_names_have_equal_sizes_and_other_names_need_not(void **state)
{
    context_t *ctx = fixture_context(state);
    for (int names = 1; names <= 2; names++) {
        module_t *model = NULL;
        tensor_t *y = NULL;
        begin_model(13, DIMS(-1, 3));
        maker_input(&maker, "z", FLOAT, DIMS(-1, 3));
        maker_open(&maker, 0, names == 1 ? "N" : "M");
        maker_int(maker_node(&maker, "Concat", "", "x z", "y"), "axis", 0);
        CHECK_OK(ctx, load_model_batch(ctx, 2, &model));
        for (int form = 0; sizes_next_form(ctx, form, &model); form++) {
            CHECK_OK(ctx, run_two(ctx, model, 3, 3, &y));
            tensor_release(y);
            y = NULL;
            if (names == 2) {
                CHECK_OK(ctx, run_two(ctx, model, 3, 1, &y));
                assert_int_equal(tensor_sizes(y)[0], 4);
                tensor_release(y);
            } else {
                CHECK_FAILS(ctx, run_two(ctx, model, 3, 1, &y), STATUS_INVALID_ARGUMENT,
                            "size N is 3 in input x and 1 in input z, one name is one size");
            }
        }
        module_release(model);
    }
    begin_model(13, DIMS(-1, 3));
    maker_input(&maker, "z", FLOAT, DIMS(-1, 3));
    maker_int(maker_node(&maker, "Concat", "", "x z", "y"), "axis", 0);
    const int64_t two[2] = {2, 3}, four[2] = {4, 3};
    const onnx_shape_t shapes[2] = {{"x", 2, two}, {"z", 2, four}};
    module_t *model = NULL;
    CHECK_FAILS(ctx,
                load_model_with(ctx, &(onnx_options_t){.n_shapes = 2, .shapes = shapes}, &model),
                STATUS_INVALID_ARGUMENT,
                "input \"z\": size 4 in dimension 0, N is 2 elsewhere, one name is one size");
}

/* Exporters write "?" or no name for unknown sizes. */
static void sizes_without_a_name_are_one_where_they_are_given_as_one(void **state)
{
    static const char *const names[] = {NULL, "?"};
    static const int64_t given[2][2][2] = {{{2, 3}, {2, 3}}, {{2, 3}, {4, 3}}};
    context_t *ctx = fixture_context(state);
    for (int i = 0; i < 4; i++) {
        const bool are_two = i >= 2;
        module_t *model = NULL;
        tensor_t *y = NULL;
        begin_model(13, DIMS(-1, 3));
        maker_open(&maker, 0, names[i % 2]);
        maker_input(&maker, "z", FLOAT, DIMS(-1, 3));
        maker_open(&maker, 0, names[i % 2]);
        maker_int(maker_node(&maker, "Concat", "", "x z", "y"), "axis", 0);
        const onnx_shape_t shapes[2] = {{"x", 2, given[are_two][0]}, {"z", 2, given[are_two][1]}};
        CHECK_OK(ctx,
                 load_model_with(ctx, &(onnx_options_t){.n_shapes = 2, .shapes = shapes}, &model));
        CHECK_OK(ctx, run_two(ctx, model, 5, 5, &y));
        assert_int_equal(tensor_sizes(y)[0], 10);
        tensor_release(y);
        if (are_two) {
            CHECK_OK(ctx, run_two(ctx, model, 3, 1, &y));
            tensor_release(y);
        } else {
            CHECK_FAILS(ctx, run_two(ctx, model, 3, 1, &y), STATUS_INVALID_ARGUMENT,
                        "size N is 3 in input x and 1 in input z, one name is one size");
        }
        module_release(model);
    }
}

/* ---- what is kept ---- */

/* Makes conv, batch norm, relu, a reshape to (size 0 of the relu, -1), linear. */
static void make_net(int64_t batch)
{
    const float ones[4] = {1, 1, 1, 1};
    begin_model(13, DIMS(batch, 3, 8, 8));
    sizes_numbers();
    sizes_vector("rest", DIMS(-1));
    sizes_weight("w", DIMS(4, 3, 3, 3));
    for (int i = 0; i < 4; i++) {
        static const char *const names[] = {"scale", "shift", "mean", "variance"};
        maker_initializer(&maker, names[i], FLOAT, DIMS(4), ones, sizeof ones);
    }
    sizes_weight("fc", DIMS(144, 5));
    maker_node(&maker, "Conv", "conv", "x w", "c");
    maker_node(&maker, "BatchNormalization", "bn", "c scale shift mean variance", "b");
    maker_node(&maker, "Relu", "relu", "b", "r");
    sizes_size_of("r", "shape", "zero", "n");
    maker_node(&maker, "Unsqueeze", "", "n v0", "n1");
    maker_int(maker_node(&maker, "Concat", "", "n1 rest", "sizes"), "axis", 0);
    maker_node(&maker, "Reshape", "", "r sizes", "rows");
    maker_node(&maker, "MatMul", "fc", "rows fc", "y");
}

static int n_nodes_of_plan(context_t *ctx, int64_t batch)
{
    module_t *model = NULL, *frozen = NULL;
    graph_t *graph = NULL;
    tensor_t *x = NULL;
    make_net(batch);
    CHECK_OK(ctx, load_model_batch(ctx, 2, &model));
    CHECK_OK(ctx, freeze(ctx, model, NULL, &frozen));
    CHECK_OK(ctx, tensor_rand(ctx, DTYPE_F32, SHAPE(2, 3, 8, 8), &x));
    CHECK_OK(ctx, graph_for(ctx, frozen, "forward", 1, (const tensor_t *const[]){x}, &graph));
    int n = graph_n_nodes(graph);
    graph_release(graph);
    tensor_release(x);
    module_release(frozen);
    module_release(model);
    return n;
}

static void a_plan_has_no_more_nodes_where_sizes_are_open(void **state)
{
    context_t *ctx = fixture_context(state);
    assert_int_equal(n_nodes_of_plan(ctx, -1), n_nodes_of_plan(ctx, 2));
}

static status_t load_positions(context_t *ctx)
{
    static const int64_t sizes[2] = {2, 5};
    const onnx_shape_t shape = {"x", 2, sizes};
    module_t *model = NULL;
    status_t status = load_model_with(ctx, &(onnx_options_t){.n_shapes = 1, .shapes = &shape},
                                      &model);
    module_release(model);
    return status;
}

static void a_refused_allocation_leaves_nothing_behind(void **state)
{
    (void)state;
    begin_model(13, DIMS(-1, -1));
    sizes_open((const char *const[4]){"N", "T", NULL, NULL});
    sizes_numbers();
    sizes_size_of("x", "shape", "one", "t");
    maker_node(&maker, "Range", "", "zero t one", "positions");
    maker_int(maker_node(&maker, "Cast", "", "positions", "float"), "to", FLOAT);
    maker_node(&maker, "Add", "", "x float", "sum");
    maker_node(&maker, "Expand", "", "sum shape", "y");
    check_every_allocation(load_positions);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_node_that_holds_for_one_size_is_named),
        TEST(a_shape_that_depends_on_a_comparison_follows_it),
        TEST(other_sizes_stay_open_beside_one_that_is_fixed),
        TEST(sizes_that_the_file_fixes_stay_fixed),
        TEST(open_size_stands_for_sizes_that_no_shape_says),
        TEST(sizes_that_nobody_says_are_those_that_the_model_takes),
        TEST(a_frozen_graph_takes_all_sizes_that_its_guards_allow),
        TEST(sizes_that_are_given_do_not_change),
        TEST(equal_names_have_equal_sizes_and_other_names_need_not),
        TEST(sizes_without_a_name_are_one_where_they_are_given_as_one),
        TEST(a_plan_has_no_more_nodes_where_sizes_are_open),
        TEST(a_refused_allocation_leaves_nothing_behind),
    };
    sizes_file = "test_onnx_fixed.tessera";
    return cmocka_run_group_tests(tests, NULL, sizes_remove_file);
}
