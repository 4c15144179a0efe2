#define _POSIX_C_SOURCE 200809L

#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dispatch/dispatch.h"
#include "freeze/freeze.h"
#include "io/onnx/onnx.h"
#include "tests/support/onnx/onnx_model.h"

/* ---- helpers ---- */

static void check_refused(context_t *ctx, status_t status, const char *part)
{
    module_t *model = NULL;
    CHECK_FAILS(ctx, load_model_batch(ctx, 0, &model), status, part);
    assert_null(model);
}

/* ---- parameters ---- */

static void initializers_become_parameters_in_a_tree(void **state)
{
    context_t *ctx = fixture_context(state);
    begin_model(13, DIMS(1, 1, 4, 4));
    maker_initializer(&maker, "layer1.0.conv.weight", FLOAT, DIMS(1, 1, 3, 3), model_ramp, 36);
    maker_initializer(&maker, "layer1.0.conv.bias", FLOAT, DIMS(1), model_ramp, 4);
    maker_node(&maker, "Conv", "/layer1/conv", "x layer1.0.conv.weight layer1.0.conv.bias", "y");
    module_t *model = load_model(ctx);
    module_t *conv = module_child(model, "layer1.0.conv");
    assert_non_null(conv);
    assert_non_null(module_parameter(conv, "weight"));
    assert_int_equal(tensor_rank(module_parameter(model, "layer1.0.conv.weight")), 4);
    check_model_line(ctx, model, "getattr(%self) name=\"layer1.0.conv.weight\" : f32[1,1,3,3]");
    check_model_line(ctx, model, "at \"/layer1/conv\"");
    check_model_result(ctx, model, 4, (const float[]){349, 394, 529, 574});
    module_release(model);
}

static void names_that_cannot_be_paths_get_underscores(void **state)
{
    context_t *ctx = fixture_context(state);
    static const char *const names[] = {"a",        "a.b",   ".c",  "forward",
                                        "training", "w/x:0", "d.e", "d"};
    static const char *const paths[] = {"a",          "a_b",   "_c",  "forward_1",
                                        "training_1", "w/x:0", "d.e", "d_1"};
    begin_model(13, DIMS(1));
    char inputs[128] = "x";
    for (int i = 0; i < 8; i++) {
        maker_initializer(&maker, names[i], FLOAT, DIMS(1), model_ramp, 4);
        strcat(strcat(inputs, " "), names[i]);
    }
    maker_node(&maker, "Sum", "sum", inputs, "y");
    module_t *model = load_model(ctx);
    for (int i = 0; i < 8; i++) {
        if (module_parameter(model, paths[i]) == NULL) print_error("no %s\n", paths[i]);
        assert_non_null(module_parameter(model, paths[i]));
    }
    check_model_result(ctx, model, 1, (const float[]){9});
    module_release(model);
}

static void an_initializer_that_is_an_input_too_is_a_parameter(void **state)
{
    context_t *ctx = fixture_context(state);
    begin_model(9, DIMS(2));
    maker_input(&maker, "w", FLOAT, DIMS(2));
    maker_initializer(&maker, "w", FLOAT, DIMS(2), model_ramp, 8);
    maker_node(&maker, "Add", "add", "x w", "y");
    module_t *model = load_model(ctx);
    assert_int_equal(datum_length(module_attribute(model, "input_names")), 1);
    assert_string_equal(datum_as_string(datum_item(module_attribute(model, "output_names"), 0)),
                        "y");
    assert_int_equal(datum_as_int(module_attribute(model, "opset")), 9);
    check_model_result(ctx, model, 2, (const float[]){2, 4});
    module_release(model);
}

/* Parameters may have names that the module uses itself, such as metadata. */
static void metadata_are_found_by_key_and_stay_where_freezing_preserves_them(void **state)
{
    context_t *ctx = fixture_context(state);
    Onnx__StringStringEntryProto pairs[] = {ONNX__STRING_STRING_ENTRY_PROTO__INIT,
                                            ONNX__STRING_STRING_ENTRY_PROTO__INIT};
    Onnx__StringStringEntryProto *pair_list[] = {&pairs[0], &pairs[1]};
    module_t *frozen = NULL;
    pairs[0].key = "character", pairs[0].value = "a\nb \"\xe7\x96\x97";
    pairs[1].key = "empty";
    begin_model(9, DIMS(2));
    maker.model.metadata_props = pair_list;
    maker.model.n_metadata_props = 2;
    maker_initializer(&maker, "metadata", FLOAT, DIMS(2), model_ramp, 8);
    maker_node(&maker, "Add", "add", "x metadata", "y");
    module_t *model = load_model(ctx);
    assert_non_null(module_parameter(model, "metadata_1"));
    assert_string_equal(onnx_metadata(model, "character"), pairs[0].value);
    assert_string_equal(onnx_metadata(model, "empty"), "");
    assert_null(onnx_metadata(model, "other"));
    assert_null(onnx_metadata(model, NULL));
    assert_null(onnx_metadata(NULL, "character"));
    CHECK_OK(ctx, freeze(ctx, model, NULL, &frozen));
    assert_null(onnx_metadata(frozen, "character"));
    module_release(frozen);

    const freeze_options_t options = {.preserved = (const char *[]){"metadata", NULL}};
    CHECK_OK(ctx, freeze(ctx, model, &options, &frozen));
    CHECK_OK(ctx, freeze_save(ctx, frozen, "test_onnx_metadata.tessera"));
    module_release(frozen);
    CHECK_OK(ctx, freeze_load(ctx, "test_onnx_metadata.tessera", &frozen));
    assert_string_equal(onnx_metadata(frozen, "character"), pairs[0].value);
    module_release(frozen);
    module_release(model);
    remove("test_onnx_metadata.tessera");

    begin_model(9, DIMS(2));
    maker_node(&maker, "Relu", "relu", "x", "y");
    model = load_model(ctx);
    assert_null(onnx_metadata(model, "character"));
    assert_int_equal(datum_length(module_attribute(model, "metadata")), 0);
    module_release(model);
}

static void weights_made_by_constant_of_shape_are_parameters(void **state)
{
    context_t *ctx = fixture_context(state);
    const float value = 0.5F;
    Onnx__TensorProto tensor;
    begin_model(9, DIMS(1, 2, 2, 2));
    maker_tensor(&maker, &tensor, FLOAT, DIMS(1), &value, 4);
    maker_initializer(&maker, "shape", INT64, DIMS(4), (int64_t[]){1, 2, 2, 2}, 32);
    maker_node_t *node = maker_node(&maker, "ConstantOfShape", "", "shape", "gpu_0/conv1_w_0");
    maker_attr_tensor(node, "value", &tensor);
    maker_node(&maker, "Conv", "conv", "x gpu_0/conv1_w_0", "y");
    module_t *model = load_model(ctx);
    tensor_t *weight = module_parameter(model, "gpu_0/conv1_w_0");
    assert_non_null(weight);
    assert_true(info_is_contiguous(tensor_info(weight)));
    assert_null(module_buffer(model, "shape"));
    check_model_result(ctx, model, 1, (const float[]){18});
    CHECK_OK(ctx, tensor_fill(ctx, weight, 1.0)); /* the parameter has its own memory */
    check_model_result(ctx, model, 1, (const float[]){36});
    module_release(model);
}

static void every_data_field_is_read(void **state)
{
    context_t *ctx = fixture_context(state);
    float floats[2] = {1, 2};
    double doubles[2] = {3, 4};
    int32_t halves[2] = {0x4400, 0x4500}, bytes[2] = {-1, 7}; /* halves: 4 and 5 in f16 */
    int64_t longs[2] = {8, 9};
    begin_model(13, DIMS(2));
    const struct {
        int type;
        const char *name;
    } kinds[] = {{1, "floats"}, {11, "doubles"}, {10, "halves"}, {3, "bytes"}, {7, "longs"}};
    for (int i = 0; i < 5; i++) {
        Onnx__TensorProto *tensor = maker_initializer(&maker, kinds[i].name, kinds[i].type, DIMS(2),
                                                      NULL, 0);
        tensor->has_raw_data = false;
        if (i == 0) tensor->n_float_data = 2, tensor->float_data = floats;
        if (i == 1) tensor->n_double_data = 2, tensor->double_data = doubles;
        if (i == 2) tensor->n_int32_data = 2, tensor->int32_data = halves;
        if (i == 3) tensor->n_int32_data = 2, tensor->int32_data = bytes;
        if (i == 4) tensor->n_int64_data = 2, tensor->int64_data = longs;
        static const char *const casts[] = {"c0", "c1", "c2", "c3", "c4"};
        maker_int(maker_node(&maker, "Cast", "", kinds[i].name, casts[i]), "to", FLOAT);
    }
    maker_node(&maker, "Sum", "", "x c0 c1 c2 c3 c4", "y");
    module_t *model = load_model(ctx);
    check_model_result(ctx, model, 2,
                       (const float[]){1 + 1 + 3 + 4 - 1 + 8, 2 + 2 + 4 + 5 + 7 + 9});
    module_release(model);
}

/* ---- operators ---- */

static void gemm_with_a_known_matrix_is_one_linear(void **state)
{
    context_t *ctx = fixture_context(state);
    begin_model(13, DIMS(1, 2));
    maker_initializer(&maker, "fc.w", FLOAT, DIMS(2, 3), model_ramp, 24);
    maker_initializer(&maker, "fc.b", FLOAT, DIMS(1, 3), model_ramp, 12);
    maker_node_t *node = maker_node(&maker, "Gemm", "fc", "x fc.w fc.b", "y");
    maker_float(node, "alpha", 2.0F);
    maker_float(node, "beta", 10.0F);
    module_t *model = load_model(ctx);
    assert_int_equal(tensor_sizes(module_parameter(model, "fc.w"))[0], 3);
    assert_int_equal(tensor_rank(module_parameter(model, "fc.b")), 1);
    const graph_block_t *body = graph_body(graph_of(model, "forward"));
    assert_int_equal(body->n_nodes, 3); /* two getattr, one linear */
    assert_string_equal(body->nodes[2]->op->name, "linear");
    check_model_result(ctx, model, 3, (const float[]){2 * 9 + 10, 2 * 12 + 20, 2 * 15 + 30});
    module_release(model);
}

static void tied_matrices_stay_one_parameter(void **state)
{
    context_t *ctx = fixture_context(state);
    begin_model(13, DIMS(1, 2));
    maker_initializer(&maker, "w", FLOAT, DIMS(2, 2), model_ramp, 16);
    maker_node(&maker, "MatMul", "a", "x w", "h");
    maker_node(&maker, "MatMul", "b", "h w", "y");
    module_t *model = load_model(ctx);
    int n_parameters = 0;
    for (int i = 0; i < module_n_members(model); i++) {
        member_kind_t kind;
        (void)module_member(model, i, &kind);
        n_parameters += kind == MEMBER_PARAMETER;
    }
    assert_int_equal(n_parameters, 1);
    check_model_result(ctx, model, 2, (const float[]){37, 54});
    module_release(model);
}

static void padding_that_differs_on_both_sides_is_kept(void **state)
{
    context_t *ctx = fixture_context(state);
    static const char *const pads[] = {"SAME_UPPER", "SAME_LOWER"};
    const float wanted[2][4] = {{1 + 2 + 4 + 5, 3 + 6, 7 + 8, 9}, {1, 2 + 3, 4 + 7, 5 + 6 + 8 + 9}};
    for (int i = 0; i < 2; i++) {
        const float ones[4] = {1, 1, 1, 1};
        begin_model(13, DIMS(1, 1, 3, 3));
        maker_initializer(&maker, "w", FLOAT, DIMS(1, 1, 2, 2), ones, 16);
        maker_node_t *node = maker_node(&maker, "Conv", "conv", "x w", "y");
        maker_string(node, "auto_pad", pads[i]);
        maker_ints(node, "strides", DIMS(2, 2));
        module_t *model = load_model(ctx);
        check_model_result(ctx, model, 4, wanted[i]);
        module_release(model);
    }
}

static void operands_of_opset_6_line_up_at_their_axis(void **state)
{
    context_t *ctx = fixture_context(state);
    begin_model(6, DIMS(1, 2, 2, 1));
    maker_initializer(&maker, "b", FLOAT, DIMS(2), (float[]){10, 20}, 8);
    maker_node_t *node = maker_node(&maker, "Mul", "mul", "x b", "y");
    maker_int(node, "broadcast", 1);
    maker_int(node, "axis", 1);
    module_t *model = load_model(ctx);
    check_model_result(ctx, model, 4, (const float[]){10, 20, 60, 80});
    module_release(model);
}

static void softmax_before_opset_13_flattens_at_its_axis(void **state)
{
    context_t *ctx = fixture_context(state);
    const float old[4] = {0.0321F, 0.0871F, 0.2369F, 0.6439F};
    const float new[4] = {0.2689F, 0.7311F, 0.2689F, 0.7311F};
    for (int i = 0; i < 2; i++) {
        begin_model(i == 0 ? 11 : 13, DIMS(1, 2, 2));
        maker_node(&maker, "Softmax", "softmax", "x", "y");
        module_t *model = load_model(ctx);
        check_model_result(ctx, model, 4, i == 0 ? old : new);
        module_release(model);
    }
}

/* x.view(x.size(0), -1), as PyTorch exports it. */
static void shapes_that_are_computed_are_folded(void **state)
{
    context_t *ctx = fixture_context(state);
    begin_model(13, DIMS(-1, 2, 3));
    maker_initializer(&maker, "zero", INT64, 0, NULL, (int64_t[]){0}, 8);
    maker_initializer(&maker, "axes", INT64, DIMS(1), (int64_t[]){0}, 8);
    maker_initializer(&maker, "rest", INT64, DIMS(1), (int64_t[]){-1}, 8);
    maker_node(&maker, "Shape", "", "x", "shape");
    maker_int(maker_node(&maker, "Gather", "", "shape zero", "n"), "axis", 0);
    maker_node(&maker, "Unsqueeze", "", "n axes", "n1");
    maker_int(maker_node(&maker, "Concat", "", "n1 rest", "sizes"), "axis", 0);
    maker_node(&maker, "Reshape", "view", "x sizes", "y");
    module_t *model = NULL;
    CHECK_OK(ctx, load_model_batch(ctx, 2, &model));
    assert_int_equal(graph_body(graph_of(model, "forward"))->n_nodes, 1);
    check_model_line(ctx, model, "reshape(%x) sizes=[2,-1] where sizes[0]=N : f32[2,6]");
    check_model_result(ctx, model, 12, model_ramp);
    module_release(model);
}

/* From start to limit there are more integers than int64_t can count. */
static void a_range_over_all_integers_has_its_elements(void **state)
{
    context_t *ctx = fixture_context(state);
    const int64_t values[] = {INT64_MIN, INT64_MAX, INT64_MAX / 2};
    const int64_t wanted[] = {INT64_MIN, -(INT64_C(1) << 62) - 1, -2, (INT64_C(1) << 62) - 3,
                              INT64_MAX - 3};
    begin_model(13, DIMS(5));
    maker_initializer(&maker, "start", INT64, 0, NULL, &values[0], 8);
    maker_initializer(&maker, "limit", INT64, 0, NULL, &values[1], 8);
    maker_initializer(&maker, "delta", INT64, 0, NULL, &values[2], 8);
    maker_node(&maker, "Range", "", "start limit delta", "y");
    tensor_t *x = NULL, *y = NULL;
    int64_t given[5];
    module_t *model = load_model(ctx);
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(5), &x));
    CHECK_OK(ctx, module_forward(ctx, model, x, &y));
    assert_int_equal(tensor_numel(y), 5);
    CHECK_OK(ctx, tensor_read(ctx, y, given, sizeof given));
    assert_memory_equal(given, wanted, sizeof given);
    tensor_release(x);
    tensor_release(y);
    module_release(model);
}

/* The expected result is that of ONNX Runtime, and of test_resize_downsample_nearest in ONNX
 * 1.5. */
static void before_opset_11_nearest_rounds_up_where_sizes_shrink(void **state)
{
    context_t *ctx = fixture_context(state);
    begin_model(10, DIMS(1, 1, 2, 4));
    const float scales[] = {1, 1, 0.6F, 0.6F};
    maker_initializer(&maker, "scales", FLOAT, DIMS(4), scales, sizeof scales);
    maker_string(maker_node(&maker, "Resize", "", "x scales", "y"), "mode", "nearest");
    module_t *model = load_model(ctx);
    check_model_result(ctx, model, 2, (float[]){1, 3});
    module_release(model);
}

/* x.expand(-1, 3), as PyTorch exports it. */
static void comparisons_of_shapes_are_folded(void **state)
{
    context_t *ctx = fixture_context(state);
    begin_model(13, DIMS(2, 1));
    maker_initializer(&maker, "wanted", INT64, DIMS(2), (int64_t[]){-1, 3}, 16);
    maker_initializer(&maker, "two", INT64, DIMS(1), (int64_t[]){2}, 8);
    maker_initializer(&maker, "minus", INT64, 0, NULL, (int64_t[]){-1}, 8);
    Onnx__TensorProto one;
    maker_tensor(&maker, &one, INT64, DIMS(1), (int64_t[]){1}, 8);
    maker_attr_tensor(maker_node(&maker, "ConstantOfShape", "", "two", "ones"), "value", &one);
    maker_node(&maker, "Mul", "", "ones minus", "minuses");
    maker_node(&maker, "Equal", "", "wanted minuses", "is_open");
    maker_node(&maker, "Where", "", "is_open ones wanted", "sizes");
    maker_node(&maker, "Expand", "", "x sizes", "y");
    module_t *model = load_model(ctx);
    check_model_result(ctx, model, 6, (const float[]){1, 1, 1, 2, 2, 2});
    module_release(model);
}

static void a_known_number_becomes_a_literal(void **state)
{
    context_t *ctx = fixture_context(state);
    Onnx__TensorProto half;
    begin_model(13, DIMS(2));
    maker_tensor(&maker, &half, FLOAT, 0, NULL, &(float){0.5F}, 4);
    maker_attr_tensor(maker_node(&maker, "Constant", "", "", "half"), "value", &half);
    maker_node(&maker, "Mul", "mul", "x half", "y");
    module_t *model = load_model(ctx);
    check_model_line(ctx, model, "mul(%x, 0.5)");
    check_model_result(ctx, model, 2, (const float[]){0.5F, 1});
    module_release(model);
}

static void slices_backward_are_taken(void **state)
{
    context_t *ctx = fixture_context(state);
    begin_model(10, DIMS(2, 3));
    maker_initializer(&maker, "starts", INT64, DIMS(1), (int64_t[]){INT64_MAX}, 8);
    maker_initializer(&maker, "ends", INT64, DIMS(1), (int64_t[]){INT64_MIN}, 8);
    maker_initializer(&maker, "axes", INT64, DIMS(1), (int64_t[]){-1}, 8);
    maker_initializer(&maker, "steps", INT64, DIMS(1), (int64_t[]){-2}, 8);
    maker_node(&maker, "Slice", "slice", "x starts ends axes steps", "y");
    module_t *model = load_model(ctx);
    check_model_result(ctx, model, 4, (const float[]){3, 1, 6, 4});
    module_release(model);
}

/* ---- inputs ---- */

static void the_batch_stands_for_an_open_first_dimension(void **state)
{
    context_t *ctx = fixture_context(state);
    module_value_t value;
    module_t *model = NULL;
    begin_model(13, DIMS(-1, 3));
    maker_node(&maker, "Relu", "", "x", "y");
    for (int64_t batch = 0; batch <= 4; batch += 4) {
        CHECK_OK(ctx, load_model_batch(ctx, batch, &model));
        CHECK_OK(ctx, module_input(ctx, model, "forward", 0, &value));
        assert_string_equal(value.name, "x");
        assert_int_equal(value.sizes[0], -1);
        assert_int_equal(value.made[0], batch == 0 ? 1 : 4);
        CHECK_OK(ctx, module_output(ctx, model, "forward", 0, &value));
        assert_string_equal(value.name, "y");
        assert_int_equal(value.sizes[0], -1);
        assert_int_equal(value.sizes[1], 3);
        module_release(model);
        model = NULL;
    }
    CHECK_FAILS(ctx, load_model_batch(ctx, -1, &model), STATUS_INVALID_ARGUMENT, "a batch of -1");
}

static void another_open_dimension_is_named(void **state)
{
    context_t *ctx = fixture_context(state);
    begin_model(13, DIMS(1, 3, -1));
    maker_node(&maker, "Relu", "", "x", "y");
    check_refused(ctx, STATUS_INVALID_ARGUMENT,
                  "onnx: input \"x\": dimension 2 (\"N\") is not fixed");
}

/* ---- errors ---- */

static void all_unknown_operators_are_listed_at_once(void **state)
{
    context_t *ctx = fixture_context(state);
    begin_model(13, DIMS(1));
    maker_node(&maker, "Foo", "a", "x", "1");
    maker_node(&maker, "Relu", "b", "1", "2");
    maker_node(&maker, "Foo", "c", "2", "3");
    maker_node(&maker, "Gelu", "d", "3", "4"); /* exists from opset 20 on */
    maker_node(&maker, "Conv", "", "4", "y")->node.domain = strdup("com.x");
    check_refused(ctx, STATUS_UNSUPPORTED,
                  "onnx: 3 operators are not supported: Foo (node \"a\" and 1 more, opset 13), "
                  "Gelu (node \"d\", opset 13), com.x.Conv (node \"y\")");
    free(maker.nodes[4].node.domain);
}

static void errors_of_a_node_name_the_node(void **state)
{
    context_t *ctx = fixture_context(state);
    begin_model(13, DIMS(1, 2, 3, 3));
    maker_initializer(&maker, "w", FLOAT, DIMS(1, 1, 1, 1), model_ramp, 4);
    maker_node(&maker, "Conv", "conv1", "x w", "y");
    check_refused(
        ctx, STATUS_INVALID_ARGUMENT,
        "onnx: node \"conv1\" (Conv): conv2d: weight f32[1,1,1,1] needs 1 input channels");

    begin_model(13, DIMS(1, 2));
    maker_int(maker_node(&maker, "Relu", "r", "x", "y"), "speed", 1);
    check_refused(ctx, STATUS_UNSUPPORTED, "onnx: node \"r\" (Relu): attribute speed in opset 13");

    begin_model(13, DIMS(1, 2));
    maker_string(maker_node(&maker, "Softmax", "s", "x", "y"), "axis", "last");
    check_refused(ctx, STATUS_CORRUPT, "attribute axis is not an integer");

    begin_model(13, DIMS(1, 2));
    maker_node(&maker, "Reshape", "s", "x x", "y");
    check_refused(ctx, STATUS_INVALID_ARGUMENT, "the shape is f32[1,2], integers are needed");
}

static void broken_graphs_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    begin_model(13, DIMS(1));
    maker_node(&maker, "Relu", "b", "h", "y");
    maker_node(&maker, "Relu", "a", "y", "h");
    check_refused(ctx, STATUS_CORRUPT, "node \"a\" (Relu): input \"y\" is made by no node before");

    begin_model(13, DIMS(1));
    maker_node(&maker, "Add", "loop", "x y", "y");
    check_refused(ctx, STATUS_CORRUPT, "input \"y\" is made by no node before it");

    begin_model(13, DIMS(1));
    maker_node(&maker, "Relu", "a", "x", "y");
    maker_node(&maker, "Relu", "b", "x", "y");
    check_refused(ctx, STATUS_CORRUPT, "node \"b\" (Relu): value \"y\" is made twice");

    begin_model(13, DIMS(1));
    maker_node(&maker, "Relu", "a", "x", "z");
    check_refused(ctx, STATUS_CORRUPT, "output \"y\" is made by no node");

    begin_model(13, DIMS(1));
    maker_node(&maker, "Add", "a", "x -", "y");
    check_refused(ctx, STATUS_INVALID_ARGUMENT, "input 1 is missing");

    begin_model(13, DIMS(1));
    maker_node(&maker, "Relu", "r", "x", "h mask");
    maker_node(&maker, "Add", "a", "h mask", "y");
    check_refused(ctx, STATUS_UNSUPPORTED, "input \"mask\" is an output that is not supported");

    begin_model(13, DIMS(1));
    maker.model.graph = NULL;
    check_refused(ctx, STATUS_CORRUPT, "the model has no graph");

    begin_model(28, DIMS(1));
    check_refused(ctx, STATUS_UNSUPPORTED, "opset 28, 1 to 27 are supported");
}

static void elements_of_two_kinds_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    float floats[2] = {1, 2};
    int64_t longs[2] = {8, 9};
    for (int i = 0; i < 3; i++) {
        static const char *const parts[] = {"tensor \"w\": raw_data and float_data",
                                            "tensor \"w\": raw_data and int64_data",
                                            "tensor \"w\": float_data and int64_data"};
        begin_model(13, DIMS(2));
        Onnx__TensorProto *w = maker_initializer(&maker, "w", FLOAT, DIMS(2), floats,
                                                 sizeof floats);
        if (i == 2) w->has_raw_data = false, w->raw_data.len = 0;
        if (i != 1) w->n_float_data = 2, w->float_data = floats;
        if (i != 0) w->n_int64_data = 2, w->int64_data = longs;
        maker_node(&maker, "Add", "", "x w", "y");
        check_refused(ctx, STATUS_CORRUPT, parts[i]);
    }
}

static void sizes_that_lie_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    static const struct {
        int64_t sizes[2];
        status_t status;
        const char *part;
    } cases[] = {
        {{2, 3}, STATUS_CORRUPT, "initializer \"w\": tensor \"w\": f32[2,3] has more elements"},
        {{1, 1}, STATUS_CORRUPT, "raw_data of 8 bytes, f32[1,1] has 4"},
        {{-1, 2}, STATUS_INVALID_ARGUMENT, "is negative"},
        {{INT64_C(1) << 40, INT64_C(1) << 40}, STATUS_INVALID_ARGUMENT, "overflow"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin_model(13, DIMS(1));
        maker_initializer(&maker, "w", FLOAT, 2, cases[i].sizes, model_ramp, 8);
        maker_node(&maker, "Add", "", "x w", "y");
        check_refused(ctx, cases[i].status, cases[i].part);
    }
    begin_model(13, DIMS(1));
    maker_initializer(&maker, "s", INT64, DIMS(2), (int64_t[]){1 << 20, 1 << 20}, 16);
    maker_node(&maker, "ConstantOfShape", "c", "s", "w");
    maker_node(&maker, "Add", "", "x w", "y");
    check_refused(ctx, STATUS_UNSUPPORTED, "node \"c\" (ConstantOfShape): a constant f32[");
}

/* ---- invalid bytes ---- */

/* Makes a small model that uses many features. */
static void make_small_model(void)
{
    static Onnx__TensorProto value;
    begin_model(13, DIMS(-1, 1, 4, 4));
    maker_initializer(&maker, "conv.w", FLOAT, DIMS(2, 1, 3, 3), model_ramp, 72);
    maker_initializer(&maker, "fc.w", FLOAT, DIMS(8, 2), model_ramp, 64);
    maker_initializer(&maker, "sizes", INT64, DIMS(2), (int64_t[]){0, -1}, 16);
    maker_tensor(&maker, &value, FLOAT, DIMS(1), model_ramp, 4);
    maker_node_t *conv = maker_node(&maker, "Conv", "conv", "x conv.w", "1");
    maker_ints(conv, "pads", DIMS(0, 0, 1, 1));
    maker_node(&maker, "Relu", "relu", "1", "2");
    maker_node_t *pool = maker_node(&maker, "MaxPool", "pool", "2", "3");
    maker_ints(pool, "kernel_shape", DIMS(2, 2));
    maker_string(pool, "auto_pad", "SAME_LOWER");
    maker_node(&maker, "Reshape", "view", "3 sizes", "4");
    maker_float(maker_node(&maker, "LeakyRelu", "leaky", "4", "5"), "alpha", 0.5F);
    maker_node(&maker, "Shape", "shape", "5", "6");
    maker_attr_tensor(maker_node(&maker, "ConstantOfShape", "fill", "6", "7"), "value", &value);
    maker_node(&maker, "Add", "add", "5 7", "8");
    maker_initializer(&maker, "fc2.w", FLOAT, DIMS(18, 1), model_ramp, 72);
    maker_node(&maker, "Gemm", "fc", "8 fc2.w", "y");
}

/* Checks that the graph's text parses to a graph with the same text, whatever its names are. */
static void check_text(context_t *ctx, const graph_t *graph)
{
    datum_t *pool = NULL;
    graph_t *again = NULL;
    text_t text = text_begin(ctx), second = text_begin(ctx);
    CHECK_OK(ctx, datum_list(ctx, 0, NULL, &pool));
    CHECK_OK(ctx, graph_print(ctx, graph, pool, &text));
    CHECK_OK(ctx, graph_parse(ctx, text_string(&text), pool, &again));
    CHECK_OK(ctx, graph_print(ctx, again, NULL, &second));
    graph_release(again);
    datum_release(pool);
    text_clear(&text);
    text_clear(&second);
}

/* Imports arbitrary bytes, which must give a model or a message, without leaks. */
static bool try_bytes(context_t *ctx, const uint8_t *bytes, size_t n_bytes)
{
    module_t *model = NULL;
    context_clear_error(ctx);
    status_t status = onnx_load_bytes(ctx, bytes, n_bytes, NULL, &model);
    assert_true((status == STATUS_OK) == (model != NULL));
    if (status != STATUS_OK) assert_true(strlen(context_error(ctx)) > 0);
    if (status == STATUS_OK) check_text(ctx, graph_of(model, "forward"));
    module_release(model);
    return status == STATUS_OK;
}

static void a_model_cut_anywhere_is_refused_or_read(void **state)
{
    context_t *ctx = fixture_context(state);
    size_t n_bytes = 0;
    make_small_model();
    uint8_t *bytes = maker_pack(&maker, &n_bytes);
    assert_true(try_bytes(ctx, bytes, n_bytes));
    for (size_t n = 0; n < n_bytes; n++) {
        uint8_t *cut = malloc(n > 0 ? n : 1); /* so that sanitizers detect reads beyond its end */
        memcpy(cut, bytes, n);
        (void)try_bytes(ctx, cut, n);
        free(cut);
    }
    free(bytes);
}

static void flipped_bits_are_refused_or_read(void **state)
{
    context_t *ctx = fixture_context(state);
    size_t n_bytes = 0;
    uint64_t random = 88172645463325252U;
    make_small_model();
    uint8_t *bytes = maker_pack(&maker, &n_bytes), *flipped = malloc(n_bytes);
    for (size_t bit = 0; bit < 8 * n_bytes; bit++) { /* changes each bit alone */
        memcpy(flipped, bytes, n_bytes);
        flipped[bit / 8] ^= (uint8_t)(1U << bit % 8);
        (void)try_bytes(ctx, flipped, n_bytes);
    }
    for (int i = 0; i < 3000; i++) { /* changes several bits at a time */
        memcpy(flipped, bytes, n_bytes);
        for (int n = 0; n < 2 + i % 7; n++) {
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            flipped[random / 8 % n_bytes] ^= (uint8_t)(1U << random % 8);
        }
        (void)try_bytes(ctx, flipped, n_bytes);
    }
    free(flipped);
    free(bytes);
}

static void messages_that_nest_without_end_are_refused(void **state)
{
    /* Tags of nested blocks: graph { node { attribute { g { node { ... A level takes two bytes at
     * the end. */
    static const uint8_t tags[] = {0x3a, 0x0a, 0x2a, 0x32};
    context_t *ctx = fixture_context(state);
    enum { DEPTH = 20000 };
    uint8_t *bytes = malloc(6 * DEPTH), *at = bytes + 6 * DEPTH;
    for (int level = DEPTH - 1; level >= 0; level--) {
        size_t length = (size_t)(bytes + 6 * DEPTH - at);
        int n = length < 0x80 ? 1 : length < 0x4000 ? 2 : 3;
        at -= n;
        for (int i = 0; i < n; i++)
            at[i] = (uint8_t)((length >> 7 * i & 0x7f) | (i + 1 < n ? 0x80U : 0U));
        *--at = level == 0 ? 0x3a : tags[1 + (level - 1) % 3];
    }
    module_t *model = NULL;
    CHECK_FAILS(ctx, onnx_load_bytes(ctx, at, (size_t)(bytes + 6 * DEPTH - at), NULL, &model),
                STATUS_CORRUPT, "messages nest more than 64 deep");
    free(bytes);
}

static status_t load_small(context_t *ctx)
{
    module_t *model = NULL;
    TRY(dispatch_set_policy(ctx, POLICY_AUTO)); /* otherwise it hides a failed allocation */
    status_t status = load_model_batch(ctx, 0, &model);
    module_release(model);
    return status;
}

static void a_refused_allocation_leaves_nothing_behind(void **state)
{
    (void)state;
    make_small_model();
    check_every_allocation(load_small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(initializers_become_parameters_in_a_tree),
        TEST(names_that_cannot_be_paths_get_underscores),
        TEST(an_initializer_that_is_an_input_too_is_a_parameter),
        TEST(metadata_are_found_by_key_and_stay_where_freezing_preserves_them),
        TEST(weights_made_by_constant_of_shape_are_parameters),
        TEST(every_data_field_is_read),
        TEST(gemm_with_a_known_matrix_is_one_linear),
        TEST(tied_matrices_stay_one_parameter),
        TEST(padding_that_differs_on_both_sides_is_kept),
        TEST(operands_of_opset_6_line_up_at_their_axis),
        TEST(softmax_before_opset_13_flattens_at_its_axis),
        TEST(shapes_that_are_computed_are_folded),
        TEST(a_range_over_all_integers_has_its_elements),
        TEST(before_opset_11_nearest_rounds_up_where_sizes_shrink),
        TEST(comparisons_of_shapes_are_folded),
        TEST(a_known_number_becomes_a_literal),
        TEST(slices_backward_are_taken),
        TEST(the_batch_stands_for_an_open_first_dimension),
        TEST(another_open_dimension_is_named),
        TEST(all_unknown_operators_are_listed_at_once),
        TEST(errors_of_a_node_name_the_node),
        TEST(broken_graphs_are_refused),
        TEST(elements_of_two_kinds_are_refused),
        TEST(sizes_that_lie_are_refused),
        TEST(a_model_cut_anywhere_is_refused_or_read),
        TEST(flipped_bits_are_refused_or_read),
        TEST(messages_that_nest_without_end_are_refused),
        TEST(a_refused_allocation_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
