/* Quantised operators of ONNX and com.microsoft, in every mode, compared with ONNX Runtime:
 * quantized_models.py writes quantized_models.bin and describes its records. Integers must be
 * equal, floats close. In models called near_.. integers may differ by one, because intermediate
 * floats are rounded differently. Models called half_.. use f16. In models called rough_.. ONNX
 * Runtime rounds intermediate floats to 8 bits, but Tessera does not. */
#include "tests/support/support.h"

#include <stdlib.h>
#include <string.h>

#include "freeze/freeze.h"
#include "graph/program/plan.h"
#include "io/onnx/onnx.h"
#include "tensor/file/file.h"
#include "tests/support/drawn.h"
#include "tests/support/onnx/onnx_data.h"
#include "tests/support/onnx/onnx_model.h"

enum { MAX_TENSORS = 12 };

typedef struct record {
    char letter;
    size_t n_bytes;
    const uint8_t *bytes;
} record_t;

/* Reads a record. Returns false at the end of the file. */
static bool read_record(const uint8_t **at, const uint8_t *end, record_t *out_record)
{
    if (*at == end) return false;
    const uint8_t *bytes = *at;
    assert_true(end - bytes > 5);
    size_t n = (size_t)bytes[1] | (size_t)bytes[2] << 8 | (size_t)bytes[3] << 16;
    assert_true((size_t)(end - bytes) >= 5 + n);
    *out_record = (record_t){(char)bytes[0], n, bytes + 5};
    *at = bytes + 5 + n;
    return true;
}

static tensor_t *read_tensor(context_t *ctx, const record_t *record)
{
    tensor_t *tensor = NULL;
    Onnx__TensorProto *proto = onnx__tensor_proto__unpack(NULL, record->n_bytes, record->bytes);
    assert_non_null(proto);
    CHECK_OK(ctx, onnx_data_tensor(ctx, proto, &tensor));
    onnx__tensor_proto__free_unpacked(proto, NULL);
    return tensor;
}

typedef struct sample {
    model_t model;
    char name[64];
    int n_out;
    tensor_t *out[MAX_TENSORS];
} sample_t;

static void load(context_t *ctx, const record_t *record, sample_t *sample)
{
    Onnx__ModelProto *proto = onnx__model_proto__unpack(NULL, record->n_bytes, record->bytes);
    assert_non_null(proto);
    *sample = (sample_t){.model = {.spec = sample->name, .kind = MODEL_ONNX}};
    snprintf(sample->name, sizeof sample->name, "%s", proto->graph->name);
    onnx__model_proto__free_unpacked(proto, NULL);
    if (onnx_load_bytes(ctx, record->bytes, record->n_bytes, NULL, &sample->model.module) !=
        STATUS_OK)
        fail_msg("%s: %s", sample->name, context_error(ctx));
}

static double tolerance_of(const sample_t *sample, const tensor_t *out)
{
    if (strncmp(sample->name, "half_", 5) == 0) return 4e-3;
    if (strncmp(sample->name, "rough_", 6) == 0) return 1e-2;
    if (dtype_is_floating(tensor_dtype(out))) return 1e-5;
    return strncmp(sample->name, "near_", 5) == 0 ? 1.0 : 0.0;
}

static void check(context_t *ctx, sample_t *sample, run_mode_t mode)
{
    runner_t runner;
    tensor_t *out[METHOD_MAX_OUTPUTS] = {NULL};
    int n_out = 0;
    if (mode_prepare(ctx, &sample->model, mode, &runner) != STATUS_OK)
        fail_msg("%s, mode %s: %s", sample->name, mode_name(mode), context_error(ctx));
    if (mode_run(&runner, &n_out, out) != STATUS_OK)
        fail_msg("%s, mode %s: %s", sample->name, mode_name(mode), context_error(ctx));
    assert_int_equal(n_out, sample->n_out);
    for (int i = 0; i < n_out; i++) {
        double atol = tolerance_of(sample, out[i]), rtol = atol < 1.0 ? atol : 0.0;
        if (!onnx_data_is_same(ctx, out[i], sample->out[i], rtol, atol))
            fail_msg("%s, mode %s: output %d is wrong", sample->name, mode_name(mode), i);
    }
    mode_release_outputs(n_out, out);
    mode_clear(&runner);
}

static void finish(context_t *ctx, sample_t *sample)
{
    for (int i = 0; i < MODE_COUNT; i++) check(ctx, sample, onnx_data_modes[i]);
    for (int i = 0; i < sample->n_out; i++) tensor_release(sample->out[i]);
    model_clear(&sample->model);
    CHECK_OK(ctx, dispatch_set_policy(ctx, POLICY_AUTO));
}

static void quantised_models_give_the_integers_of_onnx_runtime_in_every_mode(void **state)
{
    context_t *ctx = fixture_context(state);
    file_mapping_t *mapping = NULL;
    record_t record;
    sample_t sample = {.n_out = 0};
    int n_models = 0;
    CHECK_OK(ctx, file_map(ctx, TESSERA_SOURCE_DIR "/tests/io/quantized_models.bin", &mapping));
    const uint8_t *at = file_bytes(mapping), *end = at + file_size(mapping);
    while (read_record(&at, end, &record)) {
        if (record.letter == 'M') {
            if (n_models++ > 0) finish(ctx, &sample);
            load(ctx, &record, &sample);
        } else if (record.letter == 'I') {
            model_input_t *input = &sample.model.inputs[sample.model.n_inputs++];
            input->tensor = read_tensor(ctx, &record);
            input->info = *tensor_info(input->tensor);
        } else {
            assert_int_equal(record.letter, 'O');
            assert_in_range(sample.n_out, 0, MAX_TENSORS - 1);
            sample.out[sample.n_out++] = read_tensor(ctx, &record);
        }
    }
    assert_true(n_models > 0);
    finish(ctx, &sample);
    file_release(mapping);
}

static void refuse(context_t *ctx, status_t status, const char *message)
{
    module_t *model = NULL;
    size_t n_bytes = 0;
    maker_output(&maker, "y");
    uint8_t *bytes = maker_pack(&maker, &n_bytes);
    CHECK_FAILS(ctx, onnx_load_bytes(ctx, bytes, n_bytes, NULL, &model), status, message);
    free(bytes);
}

static void unsupported_quantized_nodes_are_named(void **state)
{
    enum { U8 = 2, S8 = 3, FLOAT8E8M0 = 24, FLOAT6E2M3 = 27 };
    context_t *ctx = fixture_context(state);
    const float scale[6] = {1, 1, 1, 1, 1, 1};
    const int types[] = {FLOAT8E8M0, FLOAT6E2M3};
    const char *const messages[] = {"(QuantizeLinear): numbers as FLOAT8E8M0",
                                    "(QuantizeLinear): elements of type FLOAT6E2M3"};
    for (int i = 0; i < 2; i++) {
        maker_begin(&maker, 21);
        maker_input(&maker, "x", FLOAT, 1, (const int64_t[]){6});
        maker_initializer(&maker, "s", FLOAT, 0, NULL, scale, 4);
        maker_int(maker_node(&maker, "QuantizeLinear", "q", "x s", "y"), "output_dtype", types[i]);
        refuse(ctx, STATUS_UNSUPPORTED, messages[i]);
    }
    maker_begin(&maker, 21);
    maker_input(&maker, "a", U8, 2, (const int64_t[]){2, 3});
    maker_input(&maker, "b", S8, 2, (const int64_t[]){3, 3});
    maker_initializer(&maker, "one", FLOAT, 0, NULL, scale, 4);
    maker_initializer(&maker, "many", FLOAT, 2, (const int64_t[]){2, 3}, scale, 24);
    maker_initializer(&maker, "u", U8, 0, NULL, scale, 1);
    maker_initializer(&maker, "s", S8, 0, NULL, scale, 1);
    maker_node(&maker, "QLinearMatMul", "q", "a one u b many s one u", "y");
    refuse(ctx, STATUS_UNSUPPORTED, "a scale is f32[2,3], one dimension is supported");
    maker_begin(&maker, 21);
    maker_input(&maker, "a", U8, 2, (const int64_t[]){2, 3});
    maker_input(&maker, "b", S8, 2, (const int64_t[]){3, 3});
    maker_initializer(&maker, "one", FLOAT, 0, NULL, scale, 4);
    maker_initializer(&maker, "two", FLOAT, 1, (const int64_t[]){2}, scale, 8);
    maker_initializer(&maker, "u", U8, 0, NULL, scale, 1);
    maker_initializer(&maker, "s", S8, 0, NULL, scale, 1);
    maker_node(&maker, "QLinearMatMul", "q", "a two u b one s one u", "y");
    refuse(ctx, STATUS_UNSUPPORTED, "a's scale is f32[2], one is supported");
}

/* The second run must use the weight that the first one packed. */
static void integer_weights_are_packed_once(void **state)
{
    context_t *ctx = fixture_context(state);
    static int8_t weight[32 * 16 * 9];
    model_t model = {.spec = "packed", .kind = MODEL_ONNX, .n_inputs = 1};
    const int64_t sizes[] = {1, 16, 8, 8}, weight_sizes[] = {32, 16, 3, 3};
    runner_t runner;
    counters_t counters;
    for (size_t i = 0; i < sizeof weight; i++) weight[i] = (int8_t)(i % 11);
    maker_begin(&maker, 21);
    maker_input(&maker, "x", 2, 4, sizes);
    maker_initializer(&maker, "w", 3, 4, weight_sizes, weight, sizeof weight);
    maker_node(&maker, "ConvInteger", "c", "x w", "y");
    maker_output(&maker, "y");
    model.module = load_model(ctx);
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_U8, 4, sizes, 3, &model.inputs[0].tensor));
    model.inputs[0].info = *tensor_info(model.inputs[0].tensor);
    CHECK_OK(ctx, mode_prepare(ctx, &model, MODE_MKLDNN, &runner));
    for (int run = 0; run < 2; run++) {
        tensor_t *out[METHOD_MAX_OUTPUTS] = {NULL};
        int n_out = 0;
        counters_reset(ctx);
        CHECK_OK(ctx, mode_run(&runner, &n_out, out));
        mode_release_outputs(n_out, out);
    }
    counters_read(ctx, &counters);
    assert_int_equal((int)counters_weight_reorders(&counters), 0);
    mode_clear(&runner);
    model_clear(&model);
    CHECK_OK(ctx, dispatch_set_policy(ctx, POLICY_AUTO));
}

/* Numbers of products of integers and of floats in a run. */
typedef struct products {
    int n_integers, n_numbers;
} products_t;

static status_t count_product(context_t *ctx, void *user, const op_event_t *event)
{
    static const char *const integers[] = {"conv2d_integer", "conv2d_quantized", "matmul_integer"};
    static const char *const numbers[] = {"conv2d", "linear", "matmul"};
    products_t *products = user;
    (void)ctx;
    if (event->slice > 0) return STATUS_OK; /* the slices of a batch are one product */
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++)
        products->n_integers += strcmp(event->op->name, integers[i]) == 0;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        products->n_numbers += strcmp(event->op->name, numbers[i]) == 0;
    return STATUS_OK;
}

static void count_products(context_t *ctx, const char *name, bool keeps_numbers, run_mode_t mode,
                           int n_integers, int n_numbers)
{
    char path[512];
    const int64_t sizes[] = {2, 3, 12, 12};
    model_t model = {.spec = name, .kind = MODEL_ONNX, .n_inputs = 1};
    const onnx_shape_t shape = {"x", 4, sizes};
    const onnx_options_t options = {
        .n_shapes = 1, .shapes = &shape, .keeps_numbers = keeps_numbers};
    products_t products = {0, 0};
    observer_t observer = {.user = &products, .op_end = count_product};
    tensor_t *out[METHOD_MAX_OUTPUTS] = {NULL};
    runner_t runner;
    int n_out = 0;
    snprintf(path, sizeof path, TESSERA_SOURCE_DIR "/tests/io/stored/%s.onnx", name);
    CHECK_OK(ctx, onnx_load(ctx, path, &options, &model.module));
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, 4, sizes, 0.5, &model.inputs[0].tensor));
    model.inputs[0].info = *tensor_info(model.inputs[0].tensor);
    CHECK_OK(ctx, mode_prepare(ctx, &model, mode, &runner));
    CHECK_OK(ctx, dispatch_add_observer(ctx, &observer));
    CHECK_OK(ctx, mode_run(&runner, &n_out, out));
    dispatch_remove_observer(ctx, &observer);
    if (products.n_integers != n_integers || products.n_numbers != n_numbers)
        fail_msg("%s, mode %s: %d products of integers, %d of numbers", name, mode_name(mode),
                 products.n_integers, products.n_numbers);
    mode_release_outputs(n_out, out);
    mode_clear(&runner);
    model_clear(&model);
    CHECK_OK(ctx, dispatch_set_policy(ctx, POLICY_AUTO));
}

/* Counts products only; test_onnx_stored.c compares the models' results with ONNX Runtime. */
static void products_between_dequantize_and_quantize_are_of_integers_in_every_mode(void **state)
{
    context_t *ctx = fixture_context(state);
    for (int i = 0; i < MODE_COUNT; i++) {
        count_products(ctx, "qdq_of_bytes", false, onnx_data_modes[i], 7, 0);
        count_products(ctx, "qdq_of_signed_bytes", false, onnx_data_modes[i], 7, 0);
        count_products(ctx, "qdq_of_bytes", true, onnx_data_modes[i], 0, 7);
    }
}

/* Loads a model of a convolution, a relu and a pool with DequantizeLinear before and QuantizeLinear
 * after each. `scale` follows the convolution. All numbers are exact. */
static module_t *load_pooled(context_t *ctx, float scale, bool keeps_numbers)
{
    enum { F32 = 1, U8 = 2, S8 = 3 };
    const float of_x = 0.5F, of_weight = 0.25F, bias[] = {1, -2, 0};
    const uint8_t zeros[] = {3, 0};
    const onnx_options_t options = {.keeps_numbers = keeps_numbers};
    int8_t weight[54];
    module_t *model = NULL;
    size_t n_bytes = 0;
    for (int i = 0; i < 54; i++) weight[i] = (int8_t)(i * 29 % 11 - 5);
    maker_begin(&maker, 13);
    maker_input(&maker, "x", F32, 4, (const int64_t[]){1, 2, 4, 4});
    maker_initializer(&maker, "s", F32, 0, NULL, &of_x, 4);
    maker_initializer(&maker, "z", U8, 0, NULL, &zeros[0], 1);
    maker_initializer(&maker, "t", F32, 0, NULL, &scale, 4);
    maker_initializer(&maker, "zero", U8, 0, NULL, &zeros[1], 1);
    maker_initializer(&maker, "w", S8, 4, (const int64_t[]){3, 2, 3, 3}, weight, sizeof weight);
    maker_initializer(&maker, "u", F32, 0, NULL, &of_weight, 4);
    maker_initializer(&maker, "bias", F32, 1, (const int64_t[]){3}, bias, sizeof bias);
    maker_node(&maker, "QuantizeLinear", "q1", "x s z", "a");
    maker_node(&maker, "DequantizeLinear", "d1", "a s z", "b");
    maker_node(&maker, "DequantizeLinear", "d2", "w u", "c");
    maker_node_t *conv = maker_node(&maker, "Conv", "conv", "b c bias", "d");
    maker_ints(conv, "pads", 4, (const int64_t[]){1, 1, 1, 1});
    maker_node(&maker, "Relu", "relu", "d", "e");
    maker_node(&maker, "QuantizeLinear", "q2", "e t zero", "f");
    maker_node(&maker, "DequantizeLinear", "d3", "f t zero", "g");
    maker_node_t *pool = maker_node(&maker, "MaxPool", "pool", "g", "h");
    maker_ints(pool, "kernel_shape", 2, (const int64_t[]){2, 2});
    maker_node(&maker, "QuantizeLinear", "q3", "h t zero", "i");
    maker_node(&maker, "DequantizeLinear", "d4", "i t zero", "y");
    maker_output(&maker, "y");
    uint8_t *bytes = maker_pack(&maker, &n_bytes);
    CHECK_OK(ctx, onnx_load_bytes(ctx, bytes, n_bytes, &options, &model));
    free(bytes);
    return model;
}

static int count_operators(const graph_t *graph, const char *name)
{
    const graph_block_t *body = graph_body(graph);
    int n = 0;
    for (int i = 0; i < body->n_nodes; i++) {
        const graph_node_t *node = body->nodes[i];
        n += node->kind == NODE_OP && strcmp(node->op->name, name) == 0;
    }
    return n;
}

static int count_steps(const module_t *frozen, const char *name)
{
    const plan_t *plan = plan_of(frozen, "forward");
    int n = 0;
    for (int i = 0; i < plan_n_steps(plan); i++) n += strcmp(plan_step(plan, i)->name, name) == 0;
    return n;
}

static void give_the_same(context_t *ctx, module_t *model, module_t *numbers, const tensor_t *x)
{
    tensor_t *y = NULL, *wanted = NULL;
    CHECK_OK(ctx, module_forward(ctx, model, x, &y));
    CHECK_OK(ctx, module_forward(ctx, numbers, x, &wanted));
    assert_true(onnx_data_is_same(ctx, y, wanted, 0.0, 0.0));
    tensor_release(y);
    tensor_release(wanted);
}

/* Until the model is frozen, scales are attributes, so only the import can know that they are
 * positive. */
static void a_relu_and_a_pool_are_done_on_integers_where_the_scale_is_above_0(void **state)
{
    context_t *ctx = fixture_context(state);
    const float scales[] = {0.125F, -0.125F};
    float elements[32];
    tensor_t *x = NULL;
    for (int i = 0; i < 32; i++) elements[i] = (float)(i * 7 % 23) - 9.0F;
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, 4, (const int64_t[]){1, 2, 4, 4}, elements, &x));
    for (int i = 0; i < 2; i++) {
        const int n_above = scales[i] > 0.0F;
        module_t *model = load_pooled(ctx, scales[i], false), *frozen = NULL;
        module_t *numbers = load_pooled(ctx, scales[i], true);
        const graph_t *graph = graph_of(model, "forward");
        assert_int_equal(count_operators(graph, "conv2d_integer"), 1);
        assert_int_equal(count_operators(graph, "requantize"), n_above);
        assert_int_equal(count_operators(graph, "relu"), 1 - n_above);
        assert_int_equal(count_operators(graph, "quantize"), 3 - 2 * n_above);
        give_the_same(ctx, model, numbers, x);
        CHECK_OK(ctx, freeze(ctx, model, NULL, &frozen));
        if (n_above == 1) {
            assert_int_equal(count_steps(frozen, "conv2d_quantized"), 1);
            assert_int_equal(count_steps(frozen, "relu"), 0);
            assert_int_equal(count_steps(frozen, "quantize"), 1);
        }
        give_the_same(ctx, frozen, numbers, x);
        module_release(frozen);
        module_release(numbers);
        module_release(model);
    }
    tensor_release(x);
}

/* Loads an LSTM of both directions with u8 weights, which have a zero point for each column or one
 * for all. If has_clip, lstm_quantized does not support it, though the clip changes no sum. */
static module_t *load_dynamic_lstm(context_t *ctx, bool by_column, bool has_clip)
{
    enum { C = 20, H = 24, COLUMNS = 4 * H };
    static uint8_t weights[2 * H * COLUMNS], zeros[2 * COLUMNS];
    static float scales[2 * COLUMNS];
    const int64_t n = by_column ? COLUMNS : 1, of_scales[] = {2, n};
    module_t *model = NULL;
    size_t n_bytes = 0;
    for (int i = 0; i < 2 * H * COLUMNS; i++) weights[i] = (uint8_t)(i * 37 % 251);
    for (int i = 0; i < 2 * COLUMNS; i++) zeros[i] = (uint8_t)(120 + i % 11);
    for (int i = 0; i < 2 * COLUMNS; i++) scales[i] = 0.001F + 0.0001F * (float)(i % 7);
    maker_begin(&maker, 21);
    maker_input(&maker, "x", 1, 3, (const int64_t[]){5, 2, C});
    maker_initializer(&maker, "w", 2, 3, (const int64_t[]){2, C, COLUMNS}, weights,
                      (size_t)2 * C * COLUMNS);
    maker_initializer(&maker, "r", 2, 3, (const int64_t[]){2, H, COLUMNS}, weights, sizeof weights);
    maker_initializer(&maker, "s", 1, by_column ? 2 : 1, of_scales, scales,
                      (size_t)(2 * n) * sizeof *scales);
    maker_initializer(&maker, "z", 2, by_column ? 2 : 1, of_scales, zeros, (size_t)(2 * n));
    maker_node_t *node = maker_node(&maker, "DynamicQuantizeLSTM", "lstm",
                                    "x w r - - - - - s z s z", "y");
    node->node.domain = (char *)(uintptr_t) "com.microsoft";
    maker_int(node, "hidden_size", H);
    maker_string(node, "direction", "bidirectional");
    if (has_clip) maker_float(node, "clip", 1e6F);
    maker_output(&maker, "y");
    uint8_t *bytes = maker_pack(&maker, &n_bytes);
    CHECK_OK(ctx, onnx_load_bytes(ctx, bytes, n_bytes, NULL, &model));
    free(bytes);
    return model;
}

static void a_dynamically_quantised_lstm_keeps_its_weights_as_integers(void **state)
{
    context_t *ctx = fixture_context(state);
    float elements[5 * 2 * 20];
    tensor_t *x = NULL;
    drawn_fill("x of an lstm", 0.0, 1.0, 200, elements);
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, 3, (const int64_t[]){5, 2, 20}, elements, &x));
    for (int by_column = 0; by_column < 2; by_column++) {
        module_t *model = load_dynamic_lstm(ctx, by_column, false), *frozen = NULL;
        module_t *clipped = load_dynamic_lstm(ctx, by_column, true);
        tensor_t *y = NULL, *of_frozen = NULL, *wanted = NULL;
        assert_int_equal(count_operators(graph_of(model, "forward"), "lstm_quantized"), 2);
        assert_int_equal(count_operators(graph_of(model, "forward"), "lstm"), 0);
        assert_int_equal(count_operators(graph_of(clipped, "forward"), "lstm"), 2);
        CHECK_OK(ctx, freeze(ctx, model, NULL, &frozen));
        CHECK_OK(ctx, module_forward(ctx, model, x, &y));
        CHECK_OK(ctx, module_forward(ctx, frozen, x, &of_frozen));
        CHECK_OK(ctx, module_forward(ctx, clipped, x, &wanted));
        assert_int_equal(count_steps(frozen, "lstm_quantized"), 2);
        assert_true(onnx_data_is_same(ctx, of_frozen, y, 0.0, 0.0));
        assert_true(onnx_data_is_same(ctx, y, wanted, 2e-4, 2e-4));
        tensor_release(wanted);
        tensor_release(of_frozen);
        tensor_release(y);
        module_release(frozen);
        module_release(clipped);
        module_release(model);
    }
    tensor_release(x);
}

/* Begins a model with inputs x (u8 of these sizes), s and z, and a node of com.microsoft. */
static maker_node_t *begin_microsoft(int rank, const char *type, const char *inputs)
{
    static const float scale = 1;
    const int64_t sizes[] = {2, 3, 4, 5};
    maker_begin(&maker, 21);
    maker_input(&maker, "x", 2, rank, sizes);
    maker_initializer(&maker, "s", 1, 0, NULL, &scale, 4);
    maker_initializer(&maker, "z", 2, 0, NULL, &scale, 1);
    maker_node_t *node = maker_node(&maker, type, "q", inputs, "y");
    node->node.domain = (char *)(uintptr_t) "com.microsoft";
    return node;
}

static void errors_of_microsofts_quantized_nodes_are_reported(void **state)
{
    context_t *ctx = fixture_context(state);
    maker_node_t *node = begin_microsoft(4, "QLinearAveragePool", "x s z s z");
    maker_ints(node, "kernel_shape", 2, (const int64_t[]){2, 2});
    maker_int(node, "channels_last", 1);
    refuse(ctx, STATUS_UNSUPPORTED, "(QLinearAveragePool): channels_last 1");
    maker_int(begin_microsoft(4, "QLinearConcat", "s z x s z s"), "axis", 1);
    refuse(ctx, STATUS_INVALID_ARGUMENT, "(QLinearConcat): 6 inputs, 2 and threes are needed");
    begin_microsoft(3, "DynamicQuantizeLSTM", "x s s - - - - - s z s z");
    refuse(ctx, STATUS_INVALID_ARGUMENT,
           "(DynamicQuantizeLSTM): input 1 is f32[], integers of rank 3 are needed");
    begin_microsoft(3, "DynamicQuantizeLSTM", "x x x");
    refuse(ctx, STATUS_INVALID_ARGUMENT, "(DynamicQuantizeLSTM): input 8 is missing");
    begin_microsoft(3, "DynamicQuantizeLSTM", "x x x - - - - - x z s z");
    refuse(ctx, STATUS_INVALID_ARGUMENT,
           "(DynamicQuantizeLSTM): input 8 is u8[2,3,4], one for each of 2 directions, or for 4 "
           "columns of each, is needed");
    begin_microsoft(2, "QLinearGlobalAveragePool", "x s z s z");
    refuse(ctx, STATUS_INVALID_ARGUMENT, "x is of rank 2, 3 or more is needed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(errors_of_microsofts_quantized_nodes_are_reported),
        TEST(a_dynamically_quantised_lstm_keeps_its_weights_as_integers),
        TEST(a_relu_and_a_pool_are_done_on_integers_where_the_scale_is_above_0),
        TEST(integer_weights_are_packed_once),
        TEST(products_between_dequantize_and_quantize_are_of_integers_in_every_mode),
        TEST(unsupported_quantized_nodes_are_named),
        TEST(quantised_models_give_the_integers_of_onnx_runtime_in_every_mode),
    };
    return cmocka_run_group_tests_name("onnx_quantized", tests, NULL, NULL);
}
