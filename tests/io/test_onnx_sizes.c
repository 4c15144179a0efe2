/* ONNX models with open sizes run at other sizes than those of the import. Results are compared
 * with ones computed here in double. */
#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/onnx/onnx_sizes.h"

static const int64_t batches[4][4] = {{1, 4, 5}, {3, 4, 5}, {8, 4, 5}, {2, 4, 5}};

/* ---- sizes as numbers ---- */

static double mean_of_batch(const int64_t *sizes, const int64_t *index)
{
    double sum = 0;
    for (int64_t n = 0; n < sizes[0]; n++)
        for (int64_t i = 0; i < sizes[2]; i++)
            sum += sizes_element((n * sizes[1] + index[0]) * sizes[2] + i);
    return sum / (double)sizes[0];
}

static void shape_of_channels(const int64_t *sizes, int *out_rank, int64_t *out_sizes)
{
    *out_rank = 1;
    out_sizes[0] = sizes[1];
}

/* The model computes x.sum((0, 2)) / x.shape[0]. */
static void a_sum_is_divided_by_the_batch_that_is_run(void **state)
{
    begin_model(13, DIMS(-1, 4, 5));
    sizes_numbers();
    sizes_vector("dims", DIMS(0, 2));
    maker_int(maker_node(&maker, "ReduceSum", "", "x dims", "sum"), "keepdims", 0);
    sizes_size_of("x", "shape", "zero", "n");
    maker_int(maker_node(&maker, "Cast", "", "n", "float"), "to", FLOAT);
    maker_node(&maker, "Div", "", "sum float", "y");
    const sizes_trial_t trial = {3, mean_of_batch, shape_of_channels};
    sizes_check_at(fixture_context(state), &trial, 4, batches);
}

static double by_all_elements(const int64_t *sizes, const int64_t *index)
{
    int64_t at = (index[0] * sizes[1] + index[1]) * sizes[2] + index[2];
    return sizes_element(at) / (double)(sizes[0] * sizes[1] * sizes[2]) +
           (double)(sizes[0] * sizes[2] / 3);
}

/* Uses numel (Size), products of sizes, and quotients of them. */
static void products_and_quotients_of_sizes_follow_them(void **state)
{
    static const int64_t sizes[3][4] = {{1, 4, 5}, {3, 4, 2}, {2, 4, 16}};
    begin_model(13, DIMS(-1, 4, -1));
    sizes_open((const char *const[4]){NULL, NULL, "T", NULL});
    sizes_numbers();
    sizes_number("three", 3);
    sizes_vector("outer", DIMS(0, 2));
    maker_node(&maker, "Relu", "", "x", "relu");
    maker_node(&maker, "Size", "", "relu", "numel");
    maker_int(maker_node(&maker, "Cast", "", "numel", "divisor"), "to", FLOAT);
    maker_node(&maker, "Div", "", "x divisor", "quotient");
    sizes_size_of("relu", "shape", "outer", "sizes");
    maker_int(maker_node(&maker, "ReduceProd", "", "sizes", "product"), "keepdims", 0);
    maker_node(&maker, "Div", "", "product three", "third");
    maker_int(maker_node(&maker, "Cast", "", "third", "offset"), "to", FLOAT);
    maker_node(&maker, "Add", "", "quotient offset", "y");
    const sizes_trial_t trial = {3, by_all_elements, NULL};
    sizes_check_at(fixture_context(state), &trial, 3, sizes);
}

static double one_at_seven(const int64_t *sizes, const int64_t *index)
{
    return sizes_element(index[0] * sizes[1] + index[1]) + (sizes[0] == 7 ? 1 : 0);
}

/* Importing tries some sizes, but not 7, at which the comparison is true. */
static void a_comparison_of_sizes_is_made_at_each_of_them(void **state)
{
    static const int64_t sizes[3][4] = {{1, 3}, {8, 3}, {7, 3}};
    begin_model(13, DIMS(-1, 3));
    sizes_numbers();
    sizes_number("seven", 7);
    sizes_size_of("x", "shape", "zero", "n");
    maker_node(&maker, "Equal", "", "n seven", "equal");
    maker_int(maker_node(&maker, "Cast", "", "equal", "float"), "to", FLOAT);
    maker_node(&maker, "Add", "", "x float", "y");
    const sizes_trial_t trial = {2, one_at_seven, NULL};
    sizes_check_at(fixture_context(state), &trial, 3, sizes);
}

/* ---- sizes as shapes ---- */

static double same_element(const int64_t *sizes, const int64_t *index)
{
    return sizes_element(index[0] * sizes[1] * sizes[2] + index[1]);
}

static void shape_of_rows(const int64_t *sizes, int *out_rank, int64_t *out_sizes)
{
    *out_rank = 2;
    out_sizes[0] = sizes[0];
    out_sizes[1] = sizes[1] * sizes[2];
}

/* Reshapes by (x.size(0), -1) and by (0, -1), then flattens. */
static void views_keep_the_batch_that_is_run(void **state)
{
    for (int named = 0; named < 2; named++) {
        begin_model(13, DIMS(-1, 4, 5));
        maker_open(&maker, 0, named ? "batch size" : NULL);
        sizes_numbers();
        sizes_vector("rest", DIMS(-1));
        sizes_vector("split", DIMS(0, 2, -1));
        sizes_size_of("x", "shape", "zero", "n");
        maker_node(&maker, "Unsqueeze", "", "n v0", "n1");
        maker_int(maker_node(&maker, "Concat", "", "n1 rest", "sizes"), "axis", 0);
        maker_node(&maker, "Reshape", "", "x sizes", "rows");
        maker_node(&maker, "Reshape", "", "rows split", "halves");
        maker_node(&maker, "Flatten", "", "halves", "y");
        const sizes_trial_t trial = {3, same_element, shape_of_rows};
        sizes_check_at(fixture_context(state), &trial, 4, batches);
        module_t *model = load_model(fixture_context(state));
        check_model_line(fixture_context(state), model,
                         named ? "%x : f32[batch_size=1,4,5]" : "%x : f32[N=1,4,5]");
        module_release(model);
    }
}

static double behind_the_token(const int64_t *sizes, const int64_t *index)
{
    if (index[1] == 0) return sizes_element(index[2]);
    return sizes_element((index[0] * sizes[1] + index[1] - 1) * sizes[2] + index[2]);
}

static void shape_with_token(const int64_t *sizes, int *out_rank, int64_t *out_sizes)
{
    *out_rank = 3;
    out_sizes[0] = sizes[0];
    out_sizes[1] = sizes[1] + 1;
    out_sizes[2] = sizes[2];
}

/* token.expand(x.shape[0], -1, -1), as PyTorch exports it: the export finds each -1 and replaces
 * it. */
static void a_token_is_expanded_to_the_batch_that_is_run(void **state)
{
    Onnx__TensorProto one;
    const int64_t ones[1] = {1};
    begin_model(13, DIMS(-1, 4, 5));
    maker_tensor(&maker, &one, INT64, DIMS(1), ones, sizeof ones);
    sizes_numbers();
    sizes_number("minus", -1);
    sizes_vector("tail", DIMS(-1, -1));
    sizes_weight("token", DIMS(1, 1, 5));
    maker_node(&maker, "Shape", "", "x", "shape");
    maker_node(&maker, "Slice", "", "shape v0 v1", "n");
    maker_int(maker_node(&maker, "Concat", "", "n tail", "sizes"), "axis", 0);
    maker_node(&maker, "Shape", "", "sizes", "rank");
    maker_attr_tensor(maker_node(&maker, "ConstantOfShape", "", "rank", "ones"), "value", &one);
    maker_node(&maker, "Mul", "", "ones minus", "keep");
    maker_node(&maker, "Equal", "", "sizes keep", "kept");
    maker_node(&maker, "Where", "", "kept ones sizes", "chosen");
    maker_node(&maker, "Expand", "", "token chosen", "tokens");
    maker_int(maker_node(&maker, "Concat", "", "tokens x", "y"), "axis", 1);
    const sizes_trial_t trial = {3, behind_the_token, shape_with_token};
    sizes_check_at(fixture_context(state), &trial, 4, batches);
}

static double with_constants(const int64_t *sizes, const int64_t *index)
{
    int64_t at = (index[0] * sizes[1] + index[1]) * sizes[2] + index[2];
    return sizes_element(at) + 0.5 + sizes_element(index[2]);
}

static void constants_of_a_shape_and_tiles_follow_it(void **state)
{
    Onnx__TensorProto half;
    const float value = 0.5F;
    begin_model(13, DIMS(-1, 4, 5));
    maker_tensor(&maker, &half, FLOAT, DIMS(1), &value, sizeof value);
    sizes_numbers();
    sizes_vector("tail", DIMS(4, 1));
    sizes_weight("w", DIMS(1, 1, 5));
    maker_node(&maker, "Shape", "", "x", "shape");
    maker_attr_tensor(maker_node(&maker, "ConstantOfShape", "", "shape", "halves"), "value", &half);
    maker_node(&maker, "Add", "", "x halves", "sum");
    maker_node(&maker, "Slice", "", "shape v0 v1", "n");
    maker_int(maker_node(&maker, "Concat", "", "n tail", "repeats"), "axis", 0);
    maker_node(&maker, "Tile", "", "w repeats", "tiles");
    maker_node(&maker, "Add", "", "sum tiles", "y");
    const sizes_trial_t trial = {3, with_constants, NULL};
    sizes_check_at(fixture_context(state), &trial, 4, batches);
}

/* ---- other sizes than the batch ---- */

static double with_positions(const int64_t *sizes, const int64_t *index)
{
    int64_t at = (index[0] * sizes[1] + index[1]) * sizes[2] + index[2];
    return sizes_element(at) + 2 * sizes_element(index[1] * sizes[2] + index[2]) +
           (double)(3 + 2 * index[1]);
}

/* Looks up a table of 32 positions with Range and Gather, and by slicing; adds 3, 5, 7, ... from
 * Range. */
static void positions_are_counted_to_the_length_that_is_run(void **state)
{
    static const int64_t sizes[4][4] = {{1, 5, 4}, {3, 5, 4}, {2, 17, 4}, {1, 32, 4}};
    static const int64_t too_long[2][4] = {{1, 5, 4}, {1, 33, 4}};
    begin_model(13, DIMS(-1, -1, 4));
    sizes_open((const char *const[4]){"N", "T", NULL, NULL});
    sizes_numbers();
    sizes_number("two", 2);
    sizes_number("three", 3);
    sizes_weight("table", DIMS(32, 4));
    sizes_size_of("x", "shape", "one", "t");
    maker_node(&maker, "Range", "", "zero t one", "positions");
    maker_node(&maker, "Gather", "", "table positions", "embedded");
    maker_node(&maker, "Add", "", "x embedded", "a");
    maker_node(&maker, "Unsqueeze", "", "t v0", "t1");
    maker_node(&maker, "Slice", "", "table v0 t1 v0", "head");
    maker_node(&maker, "Add", "", "a head", "b");
    maker_node(&maker, "Mul", "", "t two", "twice");
    maker_node(&maker, "Add", "", "twice three", "limit");
    maker_node(&maker, "Range", "", "three limit two", "odd");
    maker_int(maker_node(&maker, "Cast", "", "odd", "float"), "to", FLOAT);
    maker_node(&maker, "Unsqueeze", "", "float v1", "column");
    maker_node(&maker, "Add", "", "b column", "y");
    const sizes_trial_t trial = {3, with_positions, NULL};
    sizes_check_at(fixture_context(state), &trial, 4, sizes);
    sizes_check_refused_at(fixture_context(state), 3, 2, too_long,
                           "T is 33, the graph holds where T <= 32 (Add \"b\")");
}

static double doubled(const int64_t *sizes, const int64_t *index)
{
    return sizes_element(((index[0] * sizes[1] + index[1]) * sizes[2] + index[2] / 2) * sizes[3] +
                         index[3] / 2);
}

static void shape_doubled(const int64_t *sizes, int *out_rank, int64_t *out_sizes)
{
    *out_rank = 4;
    for (int d = 0; d < 4; d++) out_sizes[d] = d < 2 ? sizes[d] : 2 * sizes[d];
}

static void an_image_is_resized_to_twice_the_size_that_is_run(void **state)
{
    static const int64_t sizes[4][4] = {{1, 3, 4, 4}, {3, 3, 4, 4}, {2, 3, 5, 9}, {1, 3, 1, 1}};
    begin_model(13, DIMS(-1, 3, -1, -1));
    sizes_open((const char *const[4]){"N", NULL, "H", "W"});
    sizes_numbers();
    sizes_vector("spatial", DIMS(2, 3));
    sizes_vector("outer", DIMS(0, 1));
    sizes_vector("two", DIMS(2, 2));
    maker_node(&maker, "Shape", "", "x", "shape");
    maker_node(&maker, "Gather", "", "shape outer", "nc");
    maker_node(&maker, "Gather", "", "shape spatial", "hw");
    maker_node(&maker, "Mul", "", "hw two", "twice");
    maker_int(maker_node(&maker, "Concat", "", "nc twice", "sizes"), "axis", 0);
    maker_node_t *node = maker_node(&maker, "Resize", "", "x - - sizes", "y");
    maker_string(node, "coordinate_transformation_mode", "asymmetric");
    maker_string(node, "nearest_mode", "floor");
    const sizes_trial_t trial = {4, doubled, shape_doubled};
    sizes_check_at(fixture_context(state), &trial, 4, sizes);
}

static double pooled_token(const int64_t *sizes, const int64_t *index)
{
    int64_t width = (sizes[3] - 1) / 2 + 1, p = index[1] / width, q = index[1] % width;
    double most = -INFINITY;
    for (int64_t h = 2 * p; h < 2 * p + 2 && h < sizes[2]; h++)
        for (int64_t w = 2 * q; w < 2 * q + 2 && w < sizes[3]; w++)
            most = fmax(
                most,
                sizes_element(((index[0] * sizes[1] + index[2]) * sizes[2] + h) * sizes[3] + w));
    return most;
}

static void shape_of_tokens(const int64_t *sizes, int *out_rank, int64_t *out_sizes)
{
    *out_rank = 3;
    out_sizes[0] = sizes[0];
    out_sizes[1] = ((sizes[2] - 1) / 2 + 1) * ((sizes[3] - 1) / 2 + 1);
    out_sizes[2] = sizes[1];
}

/* Planes of half the height and width, rounded up, become (H/2) * (W/2) tokens. */
static void planes_of_any_size_become_tokens(void **state)
{
    static const int64_t sizes[4][4] = {{1, 3, 8, 8}, {3, 3, 8, 8}, {2, 3, 5, 9}, {1, 3, 16, 7}};
    begin_model(13, DIMS(-1, 3, -1, -1));
    sizes_open((const char *const[4]){"N", NULL, "H", "W"});
    sizes_numbers();
    sizes_number("two", 2);
    sizes_number("three", 3);
    maker_node_t *node = maker_node(&maker, "MaxPool", "", "x", "pooled");
    maker_ints(node, "kernel_shape", DIMS(2, 2));
    maker_ints(node, "strides", DIMS(2, 2));
    maker_int(node, "ceil_mode", 1);
    sizes_size_of("pooled", "shape", "zero", "n");
    maker_node(&maker, "Gather", "", "shape one", "c");
    maker_node(&maker, "Gather", "", "shape two", "p");
    maker_node(&maker, "Gather", "", "shape three", "q");
    maker_node(&maker, "Mul", "", "p q", "pq");
    maker_node(&maker, "Unsqueeze", "", "n v0", "n1");
    maker_node(&maker, "Unsqueeze", "", "c v0", "c1");
    maker_node(&maker, "Unsqueeze", "", "pq v0", "pq1");
    maker_int(maker_node(&maker, "Concat", "", "n1 c1 pq1", "sizes"), "axis", 0);
    maker_node(&maker, "Reshape", "", "pooled sizes", "flat");
    maker_ints(maker_node(&maker, "Transpose", "", "flat", "y"), "perm", DIMS(0, 2, 1));
    const sizes_trial_t trial = {4, pooled_token, shape_of_tokens};
    sizes_check_at(fixture_context(state), &trial, 4, sizes);
}

static double skipped(const int64_t *sizes, const int64_t *index)
{
    int64_t c = index[1] % sizes[1], h = index[2], w = index[3];
    double most = -INFINITY;
    if (index[1] >= sizes[1])
        return sizes_element(((index[0] * sizes[1] + c) * sizes[2] + h) * sizes[3] + w);
    for (int64_t i = 0; i < 4; i++)
        most = fmax(most, sizes_element(((index[0] * sizes[1] + c) * sizes[2] + h / 2 * 2 + i / 2) *
                                            sizes[3] +
                                        w / 2 * 2 + i % 2));
    return most;
}

static void shape_of_skip(const int64_t *sizes, int *out_rank, int64_t *out_sizes)
{
    *out_rank = 4;
    for (int d = 0; d < 4; d++) out_sizes[d] = d == 1 ? 2 * sizes[d] : sizes[d];
}

/* x is halved, doubled and concatenated with x, which is possible only for even sizes. */
static void sizes_that_the_model_does_not_take_are_refused(void **state)
{
    static const int64_t sizes[3][4] = {{1, 3, 8, 8}, {3, 3, 8, 8}, {2, 3, 10, 4}};
    static const int64_t odd[3][4] = {{1, 3, 8, 8}, {1, 3, 9, 8}, {1, 3, 8, 5}};
    static const float scales[4] = {1, 1, 2, 2};
    begin_model(13, DIMS(-1, 3, -1, -1));
    sizes_open((const char *const[4]){"N", NULL, "H", "W"});
    maker_initializer(&maker, "scales", FLOAT, DIMS(4), scales, sizeof scales);
    maker_node_t *node = maker_node(&maker, "MaxPool", "", "x", "pooled");
    maker_ints(node, "kernel_shape", DIMS(2, 2));
    maker_ints(node, "strides", DIMS(2, 2));
    node = maker_node(&maker, "Resize", "", "pooled - scales", "up");
    maker_string(node, "coordinate_transformation_mode", "asymmetric");
    maker_string(node, "nearest_mode", "floor");
    maker_int(maker_node(&maker, "Concat", "", "up x", "y"), "axis", 1);
    const sizes_trial_t trial = {4, skipped, shape_of_skip};
    sizes_check_at(fixture_context(state), &trial, 3, sizes);
    sizes_check_refused_at(fixture_context(state), 4, 3, odd, " % 2 == 0 (Concat \"y\")");
}

static double clamped_mean(const int64_t *sizes, const int64_t *index)
{
    int64_t n = sizes[1] < 10 ? sizes[1] : 10;
    double sum = 0;
    for (int64_t t = 0; t < n; t++)
        sum += sizes_element((index[0] * sizes[1] + t) * sizes[2] + index[1]);
    return sum / (double)n;
}

static void shape_without_middle(const int64_t *sizes, int *out_rank, int64_t *out_sizes)
{
    *out_rank = 2;
    out_sizes[0] = sizes[0];
    out_sizes[1] = sizes[2];
}

/* The model computes x[:, :10].sum(1) / x[:, :10].shape[1]. */
static void a_slice_is_cut_where_the_size_that_is_run_ends(void **state)
{
    static const int64_t sizes[4][4] = {{1, 5, 3}, {2, 5, 3}, {2, 10, 3}, {1, 30, 3}};
    begin_model(13, DIMS(-1, -1, 3));
    sizes_open((const char *const[4]){"N", "T", NULL, NULL});
    sizes_numbers();
    sizes_vector("ten", DIMS(10));
    maker_node(&maker, "Slice", "", "x v0 ten v1", "head");
    maker_int(maker_node(&maker, "ReduceSum", "", "head v1", "sum"), "keepdims", 0);
    sizes_size_of("head", "shape", "one", "t");
    maker_int(maker_node(&maker, "Cast", "", "t", "float"), "to", FLOAT);
    maker_node(&maker, "Div", "", "sum float", "y");
    const sizes_trial_t trial = {3, clamped_mean, shape_without_middle};
    sizes_check_at(fixture_context(state), &trial, 4, sizes);
}

static double blended(const int64_t *sizes, const int64_t *index)
{
    const double place = ((double)index[3] + 0.5) / 2 - 0.5, low = floor(place);
    const int64_t last = sizes[3] - 1, row = index[2] * sizes[3];
    const int64_t left = low < 0 ? 0 : (int64_t)low,
                  right = left < last && low >= 0 ? left + 1 : left;
    const double part = low < 0 ? 0.0 : place - low;
    return (1 - part) * sizes_element(row + left) + part * sizes_element(row + right);
}

static void shape_of_wider(const int64_t *sizes, int *out_rank, int64_t *out_sizes)
{
    const int64_t shape[4] = {1, 1, sizes[2], 2 * sizes[3]};
    *out_rank = 4;
    memcpy(out_sizes, shape, sizeof shape);
}

/* pytorch_half_pixel samples otherwise if the result has one row. H must stay open nevertheless. */
static void an_image_of_one_row_is_resized_as_others(void **state)
{
    static const int64_t sizes[3][4] = {{1, 1, 3, 4}, {1, 1, 1, 5}, {1, 1, 6, 2}};
    static const float scales[4] = {1, 1, 1, 2};
    begin_model(13, DIMS(1, 1, -1, -1));
    sizes_open((const char *const[4]){NULL, NULL, "H", "W"});
    maker_initializer(&maker, "scales", FLOAT, 1, (int64_t[]){4}, scales, sizeof scales);
    maker_node_t *node = maker_node(&maker, "Resize", "", "x - scales", "y");
    maker_string(node, "mode", "linear");
    maker_string(node, "coordinate_transformation_mode", "pytorch_half_pixel");
    const sizes_trial_t trial = {4, blended, shape_of_wider};
    sizes_check_at(fixture_context(state), &trial, 3, sizes);
}

/* ---- quotients ---- */

static double first_columns(const int64_t *sizes, const int64_t *index)
{
    return sizes_element(index[0] * sizes[1] + index[1]);
}

static void shape_of_first_columns(const int64_t *sizes, int *out_rank, int64_t *out_sizes)
{
    *out_rank = 2;
    out_sizes[0] = sizes[0];
    out_sizes[1] = (sizes[1] + 5) / 16;
}

/* To tell (T+5)/16 from (T+4)/16 and (T+6)/16, T must be 11 or 10 above a multiple of 16, such as
 * 43 and 58. The import must not confuse them, though it may not try such sizes. */
static void a_quotient_is_right_at_sizes_that_are_not_tried(void **state)
{
    static const int64_t sizes[6][4] = {{2, 100}, {2, 43}, {2, 58}, {2, 48}, {2, 59}, {2, 91}};
    begin_model(13, DIMS(2, -1));
    sizes_open((const char *const[4]){NULL, "T", NULL, NULL});
    sizes_numbers();
    sizes_number("five", 5);
    sizes_number("sixteen", 16);
    sizes_size_of("x", "shape", "one", "n");
    maker_node(&maker, "Add", "", "n five", "sum");
    maker_node(&maker, "Div", "", "sum sixteen", "quotient");
    maker_node(&maker, "Unsqueeze", "", "quotient v0", "end");
    maker_node(&maker, "Slice", "", "x v0 end v1", "y");
    const sizes_trial_t trial = {2, first_columns, shape_of_first_columns};
    sizes_check_at(fixture_context(state), &trial, 6, sizes);
}

static double same_place(const int64_t *sizes, const int64_t *index)
{
    return sizes_element((index[0] * 4 + index[1]) * sizes[1] + index[2] * 4 + index[3]);
}

static void shape_of_pieces(const int64_t *sizes, int *out_rank, int64_t *out_sizes)
{
    const int64_t shape[4] = {sizes[0] / 4, 4, sizes[1] / 4, 4};
    *out_rank = 4;
    memcpy(out_sizes, shape, sizeof shape);
}

/* H must be a multiple of 4, and then H/4 and (H+1)/4 are equal. */
static void a_split_in_equal_pieces_runs_at_all_divisible_sizes(void **state)
{
    static const int64_t sizes[3][4] = {{16, 16}, {8, 20}, {12, 4}};
    begin_model(13, DIMS(-1, -1));
    sizes_open((const char *const[4]){"H", "W", NULL, NULL});
    sizes_numbers();
    sizes_vector("four", DIMS(4));
    sizes_size_of("x", "shape", "v0", "height");
    sizes_size_of("x", "again", "v1", "width");
    maker_node(&maker, "Div", "", "height four", "rows");
    maker_node(&maker, "Div", "", "width four", "columns");
    maker_int(maker_node(&maker, "Concat", "", "rows four columns four", "sizes"), "axis", 0);
    maker_node(&maker, "Reshape", "", "x sizes", "y");
    const sizes_trial_t trial = {2, same_place, shape_of_pieces};
    sizes_check_at(fixture_context(state), &trial, 3, sizes);
}

/* ---- padded and cut ---- */

/* A convolution with kernel 3 and stride 2. Odd sizes are padded on both sides, even ones at the
 * end. */
static double padded_as_same(const int64_t *sizes, const int64_t *index)
{
    double sum = 0;
    const int64_t top = sizes[2] % 2, left = sizes[3] % 2;
    for (int64_t i = 0; i < 9; i++) {
        const int64_t h = 2 * index[2] - top + i / 3, w = 2 * index[3] - left + i % 3;
        if (h < 0 || h >= sizes[2] || w < 0 || w >= sizes[3]) continue;
        sum += sizes_element((index[0] * sizes[2] + h) * sizes[3] + w) *
               sizes_element(index[1] * 9 + i);
    }
    return sum;
}

static void shape_of_same(const int64_t *sizes, int *out_rank, int64_t *out_sizes)
{
    const int64_t shape[4] = {sizes[0], 2, (sizes[2] + 1) / 2, (sizes[3] + 1) / 2};
    *out_rank = 4;
    memcpy(out_sizes, shape, sizeof shape);
}

static void padding_that_depends_on_odd_sizes_follows_them(void **state)
{
    static const int64_t sizes[4][4] = {{1, 1, 8, 8}, {2, 1, 9, 8}, {1, 1, 6, 11}, {3, 1, 7, 5}};
    begin_model(13, DIMS(-1, 1, -1, -1));
    sizes_open((const char *const[4]){"N", NULL, "H", "W"});
    sizes_weight("w", DIMS(2, 1, 3, 3));
    maker_node_t *node = maker_node(&maker, "Conv", "conv", "x w", "y");
    maker_string(node, "auto_pad", "SAME_UPPER");
    maker_ints(node, "strides", DIMS(2, 2));
    const sizes_trial_t trial = {4, padded_as_same, shape_of_same};
    sizes_check_at(fixture_context(state), &trial, 4, sizes);
}

enum { WINDOW = 24 };

static double element_or_pad(const int64_t *sizes, const int64_t *index)
{
    const int64_t at = index[1] * WINDOW + index[2];
    return at < sizes[1] ? sizes_element(index[0] * sizes[1] + at) : 0;
}

static void shape_of_windows(const int64_t *sizes, int *out_rank, int64_t *out_sizes)
{
    const int64_t shape[3] = {sizes[0], (sizes[1] + WINDOW - 1) / WINDOW, WINDOW};
    *out_rank = 3;
    memcpy(out_sizes, shape, sizeof shape);
}

/* Pads (24 - T % 24) % 24 elements and counts the windows of 24. The cases show at different T
 * only. */
static void padding_to_whole_windows_holds_at_each_size(void **state)
{
    static const int64_t sizes[7][4] = {{2, 48}, {2, 100}, {1, 23}, {3, 25},
                                        {1, 71}, {2, 77},  {1, 1}};
    begin_model(13, DIMS(-1, -1));
    sizes_open((const char *const[4]){"N", "T", NULL, NULL});
    sizes_numbers();
    sizes_number("window", WINDOW);
    sizes_vector("window1", DIMS(WINDOW));
    sizes_vector("minus", DIMS(-1));
    sizes_vector("none", DIMS(0, 0, 0));
    sizes_size_of("x", "shape", "one", "t");
    maker_node(&maker, "Mod", "", "t window", "rest");
    maker_node(&maker, "Sub", "", "window rest", "lacks");
    maker_node(&maker, "Mod", "", "lacks window", "more");
    maker_node(&maker, "Unsqueeze", "", "more v0", "more1");
    maker_int(maker_node(&maker, "Concat", "", "none more1", "pads"), "axis", 0);
    maker_node(&maker, "Pad", "", "x pads", "padded");
    maker_node(&maker, "Add", "", "t more", "whole");
    maker_node(&maker, "Div", "", "whole window", "n");
    maker_node(&maker, "Unsqueeze", "", "n v0", "n1");
    maker_int(maker_node(&maker, "Concat", "", "minus n1 window1", "sizes"), "axis", 0);
    maker_node(&maker, "Reshape", "", "padded sizes", "y");
    const sizes_trial_t trial = {2, element_or_pad, shape_of_windows};
    sizes_check_at(fixture_context(state), &trial, 7, sizes);
}

static double first_rows(const int64_t *sizes, const int64_t *index)
{
    return sizes_element(index[0] * sizes[1] + index[1]);
}

static void shape_of_first_rows(const int64_t *sizes, int *out_rank, int64_t *out_sizes)
{
    *out_rank = 2;
    out_sizes[0] = sizes[0];
    out_sizes[1] = 2 * (sizes[1] / 4);
}

/* T/2 is never less than 2*(T/4), so the minimum is always the latter. */
static void the_lesser_of_two_sizes_is_one_of_them_where_it_is_always(void **state)
{
    static const int64_t sizes[5][4] = {{2, 48}, {2, 47}, {1, 21}, {3, 26}, {1, 4}};
    begin_model(13, DIMS(-1, -1));
    sizes_open((const char *const[4]){"N", "T", NULL, NULL});
    sizes_numbers();
    sizes_number("two", 2);
    sizes_number("four", 4);
    sizes_size_of("x", "shape", "one", "t");
    maker_node(&maker, "Div", "", "t two", "half");
    maker_node(&maker, "Div", "", "t four", "quarter");
    maker_node(&maker, "Mul", "", "quarter two", "twice");
    maker_node(&maker, "Min", "", "half twice", "least");
    maker_node(&maker, "Unsqueeze", "", "least v0", "end");
    maker_node(&maker, "Slice", "", "x v0 end v1", "y");
    const sizes_trial_t trial = {2, first_rows, shape_of_first_rows};
    sizes_check_at(fixture_context(state), &trial, 5, sizes);
}

/* Min(T, 700) is T up to 700. The import tries no size between 700 and 1009. */
static double first_700(const int64_t *sizes, const int64_t *index)
{
    return sizes_element(index[0] * sizes[1] + index[1]);
}

static void shape_of_700(const int64_t *sizes, int *out_rank, int64_t *out_sizes)
{
    *out_rank = 2;
    out_sizes[0] = 2;
    out_sizes[1] = sizes[1] < 700 ? sizes[1] : 700;
}

static void the_lesser_of_two_sizes_is_found_at_each_of_them(void **state)
{
    static const int64_t sizes[4][4] = {{2, 48}, {2, 49}, {2, 700}, {2, 801}};
    begin_model(13, DIMS(2, -1));
    sizes_open((const char *const[4]){NULL, "T", NULL, NULL});
    sizes_numbers();
    sizes_number("most", 700);
    sizes_size_of("x", "shape", "one", "t");
    maker_node(&maker, "Min", "", "t most", "least");
    maker_node(&maker, "Unsqueeze", "", "least v0", "end");
    maker_node(&maker, "Slice", "cut", "x v0 end v1", "y");
    const sizes_trial_t trial = {2, first_700, shape_of_700};
    sizes_check_at(fixture_context(state), &trial, 4, sizes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_sum_is_divided_by_the_batch_that_is_run),
        TEST(products_and_quotients_of_sizes_follow_them),
        TEST(a_comparison_of_sizes_is_made_at_each_of_them),
        TEST(views_keep_the_batch_that_is_run),
        TEST(a_token_is_expanded_to_the_batch_that_is_run),
        TEST(constants_of_a_shape_and_tiles_follow_it),
        TEST(positions_are_counted_to_the_length_that_is_run),
        TEST(an_image_is_resized_to_twice_the_size_that_is_run),
        TEST(planes_of_any_size_become_tokens),
        TEST(sizes_that_the_model_does_not_take_are_refused),
        TEST(a_slice_is_cut_where_the_size_that_is_run_ends),
        TEST(an_image_of_one_row_is_resized_as_others),
        TEST(a_quotient_is_right_at_sizes_that_are_not_tried),
        TEST(a_split_in_equal_pieces_runs_at_all_divisible_sizes),
        TEST(padding_that_depends_on_odd_sizes_follows_them),
        TEST(padding_to_whole_windows_holds_at_each_size),
        TEST(the_lesser_of_two_sizes_is_one_of_them_where_it_is_always),
        TEST(the_lesser_of_two_sizes_is_found_at_each_of_them),
    };
    return cmocka_run_group_tests(tests, NULL, sizes_remove_file);
}
