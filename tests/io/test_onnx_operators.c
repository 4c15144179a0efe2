/* ONNX operators on values that are not known at import. */
#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>

#include "io/onnx/onnx.h"
#include "tests/support/onnx/onnx_model.h"

static void short_and_unsigned_elements_are_read(void **state)
{
    context_t *ctx = fixture_context(state);
    int32_t words[2] = {40000, 2};
    uint64_t longs[2] = {UINT64_C(3000000000), 5};
    static const struct {
        int type;
        float wanted[2];
    } kinds[] = {{4, {40001, 4}}, {5, {-25535, 4}}, {12, {3e9F, 7}}, {13, {3e9F, 7}}};
    for (int i = 0; i < 4; i++) {
        begin_model(13, DIMS(2));
        Onnx__TensorProto *tensor = maker_initializer(&maker, "w", kinds[i].type, DIMS(2), NULL, 0);
        tensor->has_raw_data = false;
        if (i < 2)
            tensor->n_int32_data = 2, tensor->int32_data = words;
        else
            tensor->n_uint64_data = 2, tensor->uint64_data = longs;
        maker_int(maker_node(&maker, "Cast", "", "w", "c"), "to", FLOAT);
        maker_node(&maker, "Add", "", "x c", "y");
        module_t *model = load_model(ctx);
        check_model_result(ctx, model, 2, kinds[i].wanted);
        module_release(model);
    }
}

static void comparisons_choose_between_live_values(void **state)
{
    context_t *ctx = fixture_context(state);
    begin_model(13, DIMS(5));
    maker_initializer(&maker, "three", FLOAT, 0, NULL, &(float){3}, 4);
    maker_initializer(&maker, "half", FLOAT, 0, NULL, &(float){0.5F}, 4);
    maker_node(&maker, "Greater", "", "x three", "large");
    maker_node(&maker, "Equal", "", "x three", "same");
    maker_node(&maker, "Or", "", "large same", "either");
    maker_node(&maker, "Not", "", "either", "below");
    maker_node(&maker, "Mul", "", "x half", "halves");
    maker_node(&maker, "Round", "", "halves", "rounded");
    maker_node(&maker, "Where", "", "below x rounded", "y");
    module_t *model = load_model(ctx);
    check_model_line(ctx, model, "gt(%x, %1) : bool[5]");
    check_model_line(ctx, model, "where(%5, %x, %8) : f32[5]");
    check_model_result(ctx, model, 5, (const float[]){1, 2, 2, 2, 2});
    module_release(model);
}

/* Div rounds towards zero: -9 / 2 is -4. Mod has the sign of the divisor: -9 mod 2 is 1, but -1
 * with attribute fmod. */
static void live_integers_divide_towards_zero(void **state)
{
    static const char *const operators[] = {"Div", "Mod", "Mod"};
    static const float wanted[3][4] = {{-4, -4, -3, -3}, {1, 0, 1, 0}, {-1, 0, -1, 0}};
    context_t *ctx = fixture_context(state);
    for (int i = 0; i < 3; i++) {
        begin_model(13, DIMS(4));
        maker_initializer(&maker, "ten", INT64, 0, NULL, &(int64_t){10}, 8);
        maker_initializer(&maker, "two", INT64, 0, NULL, &(int64_t){2}, 8);
        maker_int(maker_node(&maker, "Cast", "", "x", "whole"), "to", INT64);
        maker_node(&maker, "Sub", "", "whole ten", "below");
        maker_node_t *node = maker_node(&maker, operators[i], "", "below two", "result");
        if (i == 2) maker_int(node, "fmod", 1);
        maker_int(maker_node(&maker, "Cast", "", "result", "y"), "to", FLOAT);
        module_t *model = load_model(ctx);
        check_model_result(ctx, model, 4, wanted[i]);
        module_release(model);
    }
}

static void a_dropout_gives_a_mask_of_ones(void **state)
{
    context_t *ctx = fixture_context(state);
    begin_model(13, DIMS(3));
    maker_node(&maker, "Dropout", "d", "x", "h mask");
    maker_int(maker_node(&maker, "Cast", "", "mask", "m"), "to", FLOAT);
    maker_node(&maker, "Add", "a", "h m", "y");
    module_t *model = load_model(ctx);
    check_model_result(ctx, model, 3, (const float[]){2, 3, 4});
    module_release(model);
}

/* The row 1, 2, 3 has the mean 2 and the variance 2/3. */
static void a_layer_normalization_gives_its_statistics(void **state)
{
    context_t *ctx = fixture_context(state);
    for (int i = 0; i < 2; i++) {
        begin_model(17, DIMS(1, 3));
        maker_initializer(&maker, "w", FLOAT, DIMS(3), model_ramp, 12);
        maker_node(&maker, "LayerNormalization", "n", "x w", i == 0 ? "h y" : "h - y");
        module_t *model = load_model(ctx);
        check_model_result(ctx, model, 1,
                           i == 0 ? (const float[]){2} : (const float[]){1.2247357F});
        module_release(model);
    }
}

static void sums_run_from_either_end_with_and_without_the_element(void **state)
{
    static const float wanted[4][4] = {{1, 3, 6, 10}, {0, 1, 3, 6}, {10, 9, 7, 4}, {9, 7, 4, 0}};
    context_t *ctx = fixture_context(state);
    for (int i = 0; i < 4; i++) {
        begin_model(14, DIMS(4));
        maker_initializer(&maker, "axis", INT64, 0, NULL, &(int64_t){0}, 8);
        maker_node_t *node = maker_node(&maker, "CumSum", "", "x axis", "y");
        maker_int(node, "exclusive", i & 1);
        maker_int(node, "reverse", i >> 1);
        module_t *model = load_model(ctx);
        check_model_result(ctx, model, 4, wanted[i]);
        module_release(model);
    }
}

/* x is 1 to 6 in two rows. Norms of integers, such as sqrt(14) and sqrt(77), are truncated. */
static void reductions_are_of_rows_known_by_an_attribute_or_an_input(void **state)
{
    static const struct {
        const char *operator;
        bool is_whole;
        float wanted[2];
    } kinds[] = {{"ReduceMax", false, {3, 6}},
                 {"ReduceMin", true, {1, 4}},
                 {"ReduceProd", false, {6, 120}},
                 {"ReduceProd", true, {6, 120}},
                 {"ReduceL1", true, {6, 15}},
                 {"ReduceL2", false, {3.7416574F, 8.774964F}},
                 {"ReduceL2", true, {3, 8}},
                 {"ReduceLogSum", false, {1.7917595F, 2.7080502F}},
                 {"ReduceLogSumExp", false, {3.407606F, 6.407606F}},
                 {"ReduceSumSquare", true, {14, 77}}};
    context_t *ctx = fixture_context(state);
    for (size_t i = 0; i < 2 * sizeof kinds / sizeof *kinds; i++) {
        const size_t kind = i / 2;
        const bool by_input = i % 2 != 0;
        begin_model(by_input ? 18 : 13, DIMS(2, 3));
        maker_initializer(&maker, "axes", INT64, DIMS(1), (int64_t[]){-1}, 8);
        maker_int(maker_node(&maker, "Cast", "", "x", "c"), "to", INT64);
        const char *in = kinds[kind].is_whole ? "c" : "x";
        char inputs[16];
        snprintf(inputs, sizeof inputs, by_input ? "%s axes" : "%s", in);
        maker_node_t *node = maker_node(&maker, kinds[kind].operator, "", inputs, "r");
        if (!by_input) maker_ints(node, "axes", DIMS(-1));
        maker_int(node, "keepdims", 0);
        maker_int(maker_node(&maker, "Cast", "", "r", "y"), "to", FLOAT);
        module_t *model = load_model(ctx);
        check_model_result(ctx, model, 2, kinds[kind].wanted);
        module_release(model);
    }
}

/* Each element is reduced alone, so its norm is its absolute value. */
static void reductions_over_no_axes_may_keep_all_elements(void **state)
{
    static const char *const operators[] = {"ReduceMax", "ReduceL1", "ReduceL2"};
    context_t *ctx = fixture_context(state);
    for (int i = 0; i < 3; i++) {
        begin_model(18, DIMS(3));
        maker_node(&maker, "Neg", "", "x", "n");
        maker_int(maker_node(&maker, operators[i], "", "n", "y"), "noop_with_empty_axes", 1);
        module_t *model = load_model(ctx);
        const float negative[] = {-1, -2, -3}, positive[] = {1, 2, 3};
        check_model_result(ctx, model, 3, i == 0 ? negative : positive);
        module_release(model);
    }
}

static void logarithms_of_whole_numbers_are_refused(void **state)
{
    static const char *const operators[] = {"ReduceLogSum", "ReduceLogSumExp"};
    context_t *ctx = fixture_context(state);
    for (int i = 0; i < 2; i++) {
        module_t *model = NULL;
        begin_model(13, DIMS(3));
        maker_int(maker_node(&maker, "Cast", "", "x", "c"), "to", INT64);
        maker_node(&maker, operators[i], "", "c", "y");
        CHECK_FAILS(ctx, load_model_batch(ctx, 1, &model), STATUS_UNSUPPORTED,
                    "a logarithm of s64");
    }
}

/* x is 1 to 6 in two rows. Clip to at least 2 makes the first two elements equal. */
static void the_first_or_the_last_of_equal_elements_is_found(void **state)
{
    context_t *ctx = fixture_context(state);
    for (int selects_last = 0; selects_last < 2; selects_last++) {
        begin_model(13, DIMS(2, 3));
        maker_initializer(&maker, "two", FLOAT, 0, NULL, &(float){2}, 4);
        maker_node(&maker, "Clip", "", "x two", "c");
        maker_node_t *node = maker_node(&maker, "ArgMin", "", "c", "i");
        maker_int(node, "axis", -1);
        maker_int(node, "keepdims", 0);
        maker_int(node, "select_last_index", selects_last);
        maker_int(maker_node(&maker, "Cast", "", "i", "y"), "to", FLOAT);
        module_t *model = load_model(ctx);
        check_model_result(ctx, model, 2,
                           selects_last ? (const float[]){1, 0} : (const float[]){0, 0});
        module_release(model);
    }
}

static void the_k_largest_come_by_an_attribute_or_an_input(void **state)
{
    static const float wanted[2][4] = {{3, 2, 6, 5}, {2, 1, 2, 1}};
    context_t *ctx = fixture_context(state);
    for (int i = 0; i < 4; i++) {
        const bool by_input = i >= 2;
        begin_model(by_input ? 11 : 9, DIMS(2, 3));
        maker_initializer(&maker, "k", INT64, DIMS(1), (int64_t[]){2}, 8);
        maker_node_t *node = maker_node(&maker, "TopK", "", by_input ? "x k" : "x", "v i");
        if (!by_input) maker_int(node, "k", 2);
        maker_int(maker_node(&maker, "Cast", "", i % 2 == 0 ? "v" : "i", "y"), "to", FLOAT);
        module_t *model = load_model(ctx);
        check_model_result(ctx, model, 4, wanted[i % 2]);
        module_release(model);
    }
    module_t *model = NULL;
    begin_model(11, DIMS(3));
    maker_initializer(&maker, "k", INT64, DIMS(0), (int64_t[]){0}, 0);
    maker_node(&maker, "TopK", "", "x k", "y i");
    CHECK_FAILS(ctx, load_model_batch(ctx, 1, &model), STATUS_INVALID_ARGUMENT,
                "K has 0 elements, needs 1");
}

/* Before opset 13, Hardmax treats the dimensions from axis 1 on as one. */
static void the_first_largest_element_is_one_and_the_others_are_zero(void **state)
{
    static const float wanted[2][8] = {{0, 0, 0, 1, 0, 0, 0, 1}, {0, 1, 0, 1, 0, 1, 0, 1}};
    context_t *ctx = fixture_context(state);
    for (int i = 0; i < 2; i++) {
        begin_model(i == 0 ? 11 : 13, DIMS(2, 2, 2));
        maker_node(&maker, "Hardmax", "", "x", "y");
        module_t *model = load_model(ctx);
        check_model_result(ctx, model, 8, wanted[i]);
        module_release(model);
    }
}

static void padding_wraps_around(void **state)
{
    context_t *ctx = fixture_context(state);
    begin_model(19, DIMS(3));
    maker_initializer(&maker, "pads", INT64, DIMS(2), (int64_t[]){2, 4}, 16);
    maker_string(maker_node(&maker, "Pad", "", "x pads", "y"), "mode", "wrap");
    module_t *model = load_model(ctx);
    check_model_result(ctx, model, 9, (const float[]){2, 3, 1, 2, 3, 1, 2, 3, 1});
    module_release(model);
}

static void average_pooling_has_dilations(void **state)
{
    context_t *ctx = fixture_context(state);
    begin_model(19, DIMS(1, 1, 5));
    maker_node_t *node = maker_node(&maker, "AveragePool", "", "x", "y");
    maker_ints(node, "kernel_shape", DIMS(2));
    maker_ints(node, "dilations", DIMS(3));
    module_t *model = load_model(ctx);
    check_model_result(ctx, model, 2, (const float[]){2.5F, 3.5F});
    module_release(model);
}

/* The expected values are those of torch.nn.functional.interpolate. */
static void resizing_is_cubic_by_any_scale_and_of_any_rank(void **state)
{
    context_t *ctx = fixture_context(state);
    begin_model(13, DIMS(1, 1, 2, 3));
    maker_initializer(&maker, "sizes", INT64, DIMS(4), (int64_t[]){1, 1, 4, 3}, 32);
    maker_string(maker_node(&maker, "Resize", "", "x - - sizes", "y"), "mode", "cubic");
    module_t *model = load_model(ctx);
    check_model_result(ctx, model, 12,
                       (const float[]){0.6835938F, 1.683594F, 2.683594F, 1.679688F, 2.679688F,
                                       3.679688F, 3.320312F, 4.320312F, 5.320312F, 4.316406F,
                                       5.316406F, 6.316406F});
    module_release(model);

    begin_model(13, DIMS(1, 1, 5));
    maker_initializer(&maker, "scales", FLOAT, DIMS(3), (float[]){1, 1, 0.7F}, 12);
    maker_string(maker_node(&maker, "Resize", "", "x - scales", "y"), "mode", "linear");
    model = load_model(ctx);
    check_model_line(ctx, model, "scales=[");
    check_model_result(ctx, model, 3, (const float[]){1.214286F, 2.642857F, 4.071429F});
    module_release(model);

    begin_model(13, DIMS(2, 3));
    maker_initializer(&maker, "sizes", INT64, DIMS(2), (int64_t[]){3, 2}, 16);
    maker_string(maker_node(&maker, "Resize", "", "x - - sizes", "y"), "mode", "linear");
    model = load_model(ctx);
    check_model_result(ctx, model, 6, (const float[]){1.25F, 2.75F, 2.75F, 4.25F, 4.25F, 5.75F});
    module_release(model);
}

/* The indices are 1, -1, -2 and 4. As in ONNX Runtime, negative ones count from the end, and 4,
 * which is out of range, sets no element. */
static void places_are_made_hot(void **state)
{
    context_t *ctx = fixture_context(state);
    const float far[4] = {0, -3, -5, 0};
    begin_model(13, DIMS(4));
    maker_initializer(&maker, "far", FLOAT, DIMS(4), far, sizeof far);
    maker_initializer(&maker, "depth", INT64, 0, NULL, &(int64_t){3}, 8);
    maker_initializer(&maker, "values", FLOAT, DIMS(2), (const float[]){5, 7}, 8);
    maker_node(&maker, "Add", "", "x far", "index");
    maker_int(maker_node(&maker, "OneHot", "", "index depth values", "y"), "axis", 0);
    module_t *model = load_model(ctx);
    check_model_result(ctx, model, 12, (const float[]){5, 5, 5, 5, 7, 5, 7, 5, 5, 7, 5, 5});
    module_release(model);
}

static void hot_places_without_two_values_or_a_depth_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    static const struct {
        int64_t depth;
        int n_values;
        const char *part;
    } kinds[] = {{3, 3, "the values are f32[3], two are needed"},
                 {-1, 2, "the depth is no number from 0 to 65536"}};
    for (int i = 0; i < 2; i++) {
        module_t *model = NULL;
        begin_model(13, DIMS(4));
        maker_initializer(&maker, "depth", INT64, 0, NULL, &kinds[i].depth, 8);
        maker_initializer(&maker, "values", FLOAT, DIMS(kinds[i].n_values), model_ramp,
                          (size_t)kinds[i].n_values * 4);
        maker_node(&maker, "OneHot", "", "x depth values", "y");
        CHECK_FAILS(ctx, load_model_batch(ctx, 1, &model), STATUS_INVALID_ARGUMENT, kinds[i].part);
    }
}

/* The operator reads only the shape of x. */
static void random_numbers_are_those_of_the_seed(void **state)
{
    context_t *ctx = fixture_context(state);
    float given[3][4];
    for (int run = 0; run < 3; run++) {
        tensor_t *x = NULL, *out = NULL;
        int n_out = 1;
        begin_model(13, DIMS(4));
        maker_float(maker_node(&maker, "RandomNormalLike", "", "x", "y"), "seed",
                    run < 2 ? 1.5f : 2.5f);
        module_t *model = load_model(ctx);
        CHECK_OK(ctx, tensor_arange(ctx, DTYPE_F32, 4, run, &x));
        CHECK_OK(ctx, module_call_tensors(ctx, model, "forward", 1, (const tensor_t *[]){x}, &n_out,
                                          &out));
        CHECK_OK(ctx, tensor_read(ctx, out, given[run], sizeof given[run]));
        tensor_release(out);
        tensor_release(x);
        module_release(model);
    }
    for (int i = 0; i < 4; i++) {
        assert_true(given[0][i] == given[1][i]);
        assert_true(given[0][i] != given[2][i]);
    }
}

/* Row 0 has the logarithms of 0, 1 and 1/3, so the weights 0, 3/4 and 1/4. Row 1 has equal ones. */
static void draws_by_weights_come_as_often_as_they_weigh(void **state)
{
    enum { N = 4000 };
    context_t *ctx = fixture_context(state);
    static const float logarithms[2][3] = {{-INFINITY, 0.0f, -1.0986123f}, {5.0f, 5.0f, 5.0f}};
    static const double wanted[2][3] = {{0.0, 0.75, 0.25}, {1.0 / 3, 1.0 / 3, 1.0 / 3}};
    static int64_t indices[2][N];
    tensor_t *x = NULL, *out = NULL;
    int n_out = 1;
    begin_model(15, DIMS(2, 3));
    maker_node_t *node = maker_node(&maker, "Multinomial", "", "x", "y");
    maker_int(node, "sample_size", N);
    maker_int(node, "dtype", INT64);
    maker_float(node, "seed", 3);
    module_t *model = load_model(ctx);
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, SHAPE(2, 3), logarithms, &x));
    CHECK_OK(ctx,
             module_call_tensors(ctx, model, "forward", 1, (const tensor_t *[]){x}, &n_out, &out));
    assert_int_equal(tensor_dtype(out), DTYPE_S64);
    CHECK_OK(ctx, tensor_read(ctx, out, indices, sizeof indices));
    for (int row = 0; row < 2; row++) {
        int counts[3] = {0};
        for (int i = 0; i < N; i++) {
            assert_in_range(indices[row][i], 0, 2);
            counts[indices[row][i]]++;
        }
        for (int k = 0; k < 3; k++) {
            const double p = wanted[row][k], deviation = sqrt(p * (1 - p) / N);
            assert_true(fabs((double)counts[k] / N - p) <= 5 * deviation);
        }
    }
    tensor_release(out);
    tensor_release(x);
    module_release(model);
}

static void draws_by_weights_of_another_rank_or_type_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    for (int i = 0; i < 2; i++) {
        module_t *model = NULL;
        begin_model(15, i == 0 ? 1 : 2, (const int64_t[]){2, 3});
        maker_node_t *node = maker_node(&maker, "Multinomial", "", "x", "y");
        maker_float(node, "seed", 3);
        maker_int(node, "dtype", i == 0 ? INT64 : FLOAT);
        CHECK_FAILS(ctx, load_model_batch(ctx, 1, &model), STATUS_INVALID_ARGUMENT,
                    i == 0 ? "x is f32[2] and the indices s64, rank 2 and s32 or s64 are needed"
                           : "x is f32[2,3] and the indices f32, rank 2 and s32 or s64 are needed");
    }
}

static void random_numbers_without_a_seed_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    static const char *const kinds[] = {"RandomNormalLike", "RandomUniformLike", "Bernoulli"};
    for (int i = 0; i < 3; i++) {
        module_t *model = NULL;
        begin_model(15, DIMS(4));
        maker_node(&maker, kinds[i], "", "x", "y");
        CHECK_FAILS(ctx, load_model_batch(ctx, 1, &model), STATUS_UNSUPPORTED,
                    "it has no seed, and would give the same numbers at each run");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(short_and_unsigned_elements_are_read),
        TEST(comparisons_choose_between_live_values),
        TEST(live_integers_divide_towards_zero),
        TEST(a_dropout_gives_a_mask_of_ones),
        TEST(a_layer_normalization_gives_its_statistics),
        TEST(sums_run_from_either_end_with_and_without_the_element),
        TEST(reductions_are_of_rows_known_by_an_attribute_or_an_input),
        TEST(reductions_over_no_axes_may_keep_all_elements),
        TEST(logarithms_of_whole_numbers_are_refused),
        TEST(the_first_or_the_last_of_equal_elements_is_found),
        TEST(the_k_largest_come_by_an_attribute_or_an_input),
        TEST(the_first_largest_element_is_one_and_the_others_are_zero),
        TEST(padding_wraps_around),
        TEST(places_are_made_hot),
        TEST(random_numbers_are_those_of_the_seed),
        TEST(draws_by_weights_come_as_often_as_they_weigh),
        TEST(draws_by_weights_of_another_rank_or_type_are_refused),
        TEST(random_numbers_without_a_seed_are_refused),
        TEST(hot_places_without_two_values_or_a_depth_are_refused),
        TEST(average_pooling_has_dilations),
        TEST(resizing_is_cubic_by_any_scale_and_of_any_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
