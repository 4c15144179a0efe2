/* LSTM, GRU and RNN. Each direction becomes one operator; their results are concatenated. Weights
 * are reordered from ONNX's order of gates to PyTorch's, which Tessera's operators use. */
#include "io/onnx/node_impl.h"

#include <string.h>

#include "ops/recurrent/recurrent.h"
#include "tensor/tensor_impl.h"

#define MAX_GATES 4
#define MAX_RESULTS 3

/* Inputs of all three operators. Only LSTM has INITIAL_C and P. */
enum { X, W, R, B, SEQUENCE_LENS, INITIAL_H, INITIAL_C, P };

typedef struct recurrent {
    const char *op;
    int n_gates;
    int gates[MAX_GATES]; /* ONNX's index of each gate, in Tessera's order */
    int n_functions;      /* activation functions of each direction */
    int n_results;
    int64_t n_directions, hidden;
    bool is_batch_first;
    recurrent_attrs_t attrs[2]; /* one for each direction */
    /* For lstm_quantized: scales of W and R, then their zeros, each [D][1] or [D][4 H]. */
    int n_quantized;
    item_t quantized[4];
} recurrent_t;

/* ---- attributes ---- */

/* Activation functions by their ONNX names, with default parameters. */
static const struct {
    const char *name;
    recurrent_function_t function;
    bool has_alpha, has_beta;
    double alpha, beta;
} functions[] = {
    {"Sigmoid", RECURRENT_SIGMOID, false, false, 0, 0},
    {"Tanh", RECURRENT_TANH, false, false, 0, 0},
    {"Relu", RECURRENT_RELU, false, false, 0, 0},
    {"Affine", RECURRENT_AFFINE, true, true, 1, 0},
    {"LeakyRelu", RECURRENT_LEAKY_RELU, true, false, 0.01, 0},
    {"ThresholdedRelu", RECURRENT_THRESHOLDED_RELU, true, false, 1, 0},
    {"ScaledTanh", RECURRENT_SCALED_TANH, true, true, 1, 1},
    {"HardSigmoid", RECURRENT_HARDSIGMOID, true, true, 0.2, 0.5},
    {"Elu", RECURRENT_ELU, true, false, 1, 0},
    {"Softsign", RECURRENT_SOFTSIGN, false, false, 0, 0},
    {"Softplus", RECURRENT_SOFTPLUS, false, false, 0, 0},
};
#define N_FUNCTIONS ((int)(sizeof functions / sizeof *functions))
#define MAX_LISTED 6 /* functions of both directions */

/* Parameters of the activation functions, in order. Functions without parameters are skipped. */
typedef struct numbers {
    int n_alpha, n_beta, next_alpha, next_beta;
    double alpha[MAX_LISTED], beta[MAX_LISTED];
} numbers_t;

static status_t read_function(onnx_node_t *node, const ProtobufCBinaryData *name,
                              numbers_t *numbers, recurrent_activation_t *out)
{
    for (int i = 0; i < N_FUNCTIONS; i++) {
        if (name->len != strlen(functions[i].name) ||
            memcmp(name->data, functions[i].name, name->len) != 0)
            continue;
        *out = (recurrent_activation_t){(int)functions[i].function, functions[i].alpha,
                                        functions[i].beta};
        if (functions[i].has_alpha && numbers->next_alpha < numbers->n_alpha)
            out->alpha = numbers->alpha[numbers->next_alpha++];
        if (functions[i].has_beta && numbers->next_beta < numbers->n_beta)
            out->beta = numbers->beta[numbers->next_beta++];
        return STATUS_OK;
    }
    FAIL(node->onnx->ctx, STATUS_UNSUPPORTED, "an activation \"%.*s\"", (int)name->len,
         (const char *)name->data);
}

/* For each direction, ONNX lists functions f, g, h. RNN has only f, its candidate function. */
static status_t read_activations(onnx_node_t *node, recurrent_t *layer)
{
    numbers_t numbers = {0};
    Onnx__AttributeProto *list = onnx_attr(node, "activations");
    const int64_t n = layer->n_functions * layer->n_directions;
    TRY(onnx_attr_floats(node, "activation_alpha", MAX_LISTED, &numbers.n_alpha, numbers.alpha));
    TRY(onnx_attr_floats(node, "activation_beta", MAX_LISTED, &numbers.n_beta, numbers.beta));
    if (list == NULL) return STATUS_OK;
    if (list->type != ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS ||
        (int64_t)list->n_strings != n)
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "%zu activations, a list of %lld is needed",
             list->n_strings, (long long)n);
    for (int i = 0; i < (int)n; i++) {
        recurrent_attrs_t *attrs = &layer->attrs[i / layer->n_functions];
        recurrent_activation_t *of[] = {&attrs->gate, &attrs->candidate, &attrs->output};
        int which = i % layer->n_functions + (layer->n_functions == 1);
        TRY(read_function(node, &list->strings[i], &numbers, of[which]));
    }
    return STATUS_OK;
}

static status_t read_attributes(onnx_node_t *node, recurrent_t *layer)
{
    static const char *const directions[] = {"forward", "reverse", "bidirectional", NULL};
    context_t *ctx = node->onnx->ctx;
    bool has_clip = onnx_has_attr(node, "clip");
    double clip = 0;
    int direction = 0;
    int64_t hidden = layer->hidden;
    TRY(onnx_attr_name(node, "direction", directions, 0, &direction));
    TRY(onnx_attr_float(node, "clip", 0.0, &clip));
    TRY(onnx_attr_int(node, "hidden_size", hidden, &hidden));
    if (node->opset >= 14) TRY(onnx_attr_bool(node, "layout", false, &layer->is_batch_first));
    if (node->opset < 7) onnx_attr_ignore(node, "output_sequence");
    if (has_clip && !(clip > 0))
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "clip %g, a positive number is needed", clip);
    if (!sym_equal(ctx, hidden, layer->hidden))
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "hidden_size %lld, R has %lld", (long long)hidden,
             (long long)sym_hint(ctx, layer->hidden));
    layer->n_directions = direction == 2 ? 2 : 1;
    for (int d = 0; d < 2; d++) {
        layer->attrs[d].reverse = d == 1 || direction == 1;
        layer->attrs[d].batch_first = layer->is_batch_first;
        layer->attrs[d].clip = clip;
    }
    return read_activations(node, layer);
}

/* ---- operands ---- */

static status_t check_input(onnx_node_t *node, const recurrent_t *layer, int input, int rank,
                            int direction_dim)
{
    static const char *const names[] = {"X",         "W",         "R", "B", "sequence_lens",
                                        "initial_h", "initial_c", "P"};
    if (!onnx_has(node, input)) return STATUS_OK;
    tensor_info_t info = onnx_input_info(node, input);
    if (info.rank != rank ||
        !sym_equal(node->onnx->ctx, info.sizes[direction_dim], layer->n_directions))
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT,
             "%s is %s, rank %d with %lld directions in dimension %d is needed", names[input],
             onnx_brief(node, &info), rank, (long long)layer->n_directions, direction_dim);
    return STATUS_OK;
}

/* Requires that an input has n gates of `hidden` rows each. */
static status_t check_rows(onnx_node_t *node, int input, int64_t n, int64_t hidden)
{
    context_t *ctx = node->onnx->ctx;
    const int64_t rows = sym_multiply(ctx, n, hidden);
    if (!onnx_has(node, input)) return STATUS_OK;
    tensor_info_t info = onnx_input_info(node, input);
    if (!sym_equal(ctx, info.sizes[1], rows))
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "input %d is %s, %lld rows are needed", input,
             onnx_brief(node, &info), (long long)sym_hint(ctx, rows));
    return STATUS_OK;
}

static status_t change_dim(onnx_node_t *node, const char *op, item_t x, int64_t dim, item_t *out)
{
    return onnx_op(node, op, ONNX_ATTRS(SET_INTS("dims", 1, &dim)), 1, &x, out);
}

/* One direction's part of an input; ITEM_NONE if the input is absent. */
static status_t take_direction(onnx_node_t *node, int input, int dim, int64_t direction,
                               item_t *out)
{
    *out = ITEM_NONE;
    if (!onnx_has(node, input)) return STATUS_OK;
    TRY(onnx_slice(node, node->in[input], dim, direction, direction + 1, 1, out));
    return change_dim(node, "squeeze", *out, dim, out);
}

/* Selects n parts of `rows` rows each, in the given order; `order` counts parts from part `first`
 * of x. */
static status_t take_parts(onnx_node_t *node, item_t x, int64_t first, int64_t rows, int n,
                           const int *order, item_t *out)
{
    context_t *ctx = node->onnx->ctx;
    item_t parts[MAX_GATES] = {ITEM_NONE};
    *out = ITEM_NONE;
    if (x == ITEM_NONE) return STATUS_OK;
    for (int i = 0; i < n; i++) {
        const int64_t start = sym_multiply(ctx, first + order[i], rows);
        TRY(onnx_slice(node, x, 0, start, sym_add(ctx, start, rows), 1, &parts[i]));
    }
    return onnx_concat(node, n, parts, 0, out);
}

/* True if all lengths are known and equal the number of steps, as exporters often write. */
static status_t are_whole(onnx_node_t *node, const recurrent_t *layer, bool *out_are_whole)
{
    context_t *ctx = node->onnx->ctx;
    const tensor_info_t x = onnx_input_info(node, X);
    const int time_dim = layer->is_batch_first ? 1 : 0;
    int64_t *lengths = NULL;
    int n = 0;
    *out_are_whole = false;
    if (!onnx_knows(node, SEQUENCE_LENS)) return STATUS_OK;
    const tensor_info_t info = onnx_input_info(node, SEQUENCE_LENS);
    if (info.rank != 1 || !sym_knows_equal(ctx, info.sizes[0], x.sizes[1 - time_dim]) ||
        dtype_is_floating(info.dtype) || sym_is(info.sizes[0]) || info.sizes[0] > ONNX_MAX_VALUES)
        return STATUS_OK;
    const int capacity = (int)info.sizes[0] + 1;
    TRY(context_get(ctx, (size_t)capacity * sizeof *lengths, "lengths", &lengths));
    status_t status = onnx_input_ints(node, SEQUENCE_LENS, "sequence_lens", capacity, &n, lengths);
    *out_are_whole = status == STATUS_OK;
    for (int i = 0; i < n && *out_are_whole; i++)
        *out_are_whole = sym_knows_equal(ctx, lengths[i], x.sizes[time_dim]);
    context_put(ctx, lengths);
    return status;
}

/* ---- one direction ---- */

/* The scale or zero point of one direction. `all` has one element for each direction or for each
 * row. */
static status_t take_scale(onnx_node_t *node, const recurrent_t *layer, item_t all,
                           int64_t direction, item_t *out)
{
    TRY(onnx_slice(node, all, 0, direction, direction + 1, 1, out));
    TRY(change_dim(node, "squeeze", *out, 0, out));
    if (sym_equal(node->onnx->ctx, onnx_info(node->onnx, *out)->sizes[0], 1)) return STATUS_OK;
    return take_parts(node, *out, 0, layer->hidden, layer->n_gates, layer->gates, out);
}

/* Emits the operator of one direction. Operands: x, weight_ih, weight_hh, bias_ih, bias_hh, h0,
 * lengths, c0, peephole. For lstm_quantized, scales and zeros take the place of the peephole. */
static status_t emit_direction(onnx_node_t *node, const recurrent_t *layer, int64_t direction,
                               item_t lengths, item_t *out)
{
    static const int peephole_gates[] = {0, 2, 1}; /* i, o, f in ONNX */
    const int64_t h = layer->hidden;
    const int n_gates = layer->n_gates, state_dim = layer->is_batch_first ? 1 : 0;
    const bool has_cell = layer->n_results == 3;
    item_t in[12] = {node->in[X]}, weight, bias, peephole;
    onnx_call_t call;
    TRY(take_direction(node, W, 0, direction, &weight));
    TRY(take_parts(node, weight, 0, h, n_gates, layer->gates, &in[1]));
    TRY(take_direction(node, R, 0, direction, &weight));
    TRY(take_parts(node, weight, 0, h, n_gates, layer->gates, &in[2]));
    TRY(take_direction(node, B, 0, direction, &bias));
    TRY(take_parts(node, bias, 0, h, n_gates, layer->gates, &in[3]));
    TRY(take_parts(node, bias, n_gates, h, n_gates, layer->gates, &in[4]));
    TRY(take_direction(node, INITIAL_H, state_dim, direction, &in[5]));
    in[6] = lengths;
    if (has_cell) {
        TRY(take_direction(node, INITIAL_C, state_dim, direction, &in[7]));
        TRY(take_direction(node, P, 0, direction, &peephole));
        TRY(take_parts(node, peephole, 0, h, 3, peephole_gates, &in[8]));
    }
    for (int i = 0; i < layer->n_quantized; i++)
        TRY(take_scale(node, layer, layer->quantized[i], direction, &in[8 + i]));
    onnx_call(node, layer->op, &call);
    onnx_set_all(&call, &layer->attrs[direction], sizeof layer->attrs[direction]);
    return onnx_emit_n(&call,
                       !has_cell                ? 7
                       : layer->n_quantized > 0 ? 12
                                                : 9,
                       in, layer->n_results, out);
}

static status_t import(onnx_node_t *node, recurrent_t *layer)
{
    const int state_dim = layer->is_batch_first ? 1 : 0;
    item_t lengths = onnx_has(node, SEQUENCE_LENS) ? node->in[SEQUENCE_LENS] : ITEM_NONE;
    item_t results[2][MAX_RESULTS], parts[2];
    bool is_whole = false;
    TRY(check_input(node, layer, W, 3, 0));
    TRY(check_input(node, layer, R, 3, 0));
    TRY(check_input(node, layer, B, 2, 0));
    TRY(check_input(node, layer, INITIAL_H, 3, state_dim));
    if (layer->n_results == 3) TRY(check_input(node, layer, INITIAL_C, 3, state_dim));
    if (layer->n_results == 3) TRY(check_input(node, layer, P, 2, 0));
    TRY(check_rows(node, W, layer->n_gates, layer->hidden));
    TRY(check_rows(node, R, layer->n_gates, layer->hidden));
    TRY(check_rows(node, B, 2 * layer->n_gates, layer->hidden));
    if (layer->n_results == 3) TRY(check_rows(node, P, 3, layer->hidden));
    TRY(are_whole(node, layer, &is_whole));
    for (int64_t d = 0; d < layer->n_directions; d++)
        TRY(emit_direction(node, layer, d, is_whole ? ITEM_NONE : lengths, results[d]));
    for (int i = 0; i < layer->n_results; i++) {
        /* y is [T][D][N][H] or [N][T][D][H], states are [D][N][H] or [N][D][H] */
        int64_t dim = i > 0 ? state_dim : layer->is_batch_first ? 2 : 1;
        if (!onnx_wants(node, i)) continue;
        for (int64_t d = 0; d < layer->n_directions; d++)
            TRY(change_dim(node, "unsqueeze", results[d][i], dim, &parts[d]));
        TRY(onnx_concat(node, (int)layer->n_directions, parts, dim, &node->out[i]));
    }
    return STATUS_OK;
}

/* Reads the hidden size H, on which the sizes of all operands depend. */
static status_t read_hidden(onnx_node_t *node, recurrent_t *layer)
{
    const tensor_info_t r = onnx_input_info(node, R);
    if (r.rank != 3)
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "R is %s, rank 3 is needed",
             onnx_brief(node, &r));
    layer->hidden = r.sizes[2];
    return STATUS_OK;
}

static const recurrent_t lstm = {
    .op = "lstm", .n_gates = 4, .gates = {0, 2, 3, 1}, .n_functions = 3, .n_results = 3};

/* Reads the attributes of an LSTM. layer->hidden is already set. */
static status_t read_lstm(onnx_node_t *node, recurrent_t *layer)
{
    bool is_coupled = false;
    TRY(read_attributes(node, layer));
    TRY(onnx_attr_bool(node, "input_forget", false, &is_coupled));
    for (int d = 0; d < 2; d++) layer->attrs[d].input_forget = is_coupled;
    return STATUS_OK;
}

status_t onnx_import_lstm(onnx_node_t *node)
{
    recurrent_t layer = lstm;
    TRY(read_hidden(node, &layer));
    TRY(read_lstm(node, &layer));
    return import(node, &layer);
}

/* Checks an integer weight [D][features][4 H] and its scale and zero, which have one element for
 * each direction or for each column. Reshapes scale and zero to [D][1] or [D][4 H]. */
static status_t read_quantized(onnx_node_t *node, int input, int scale, item_t *out_scale,
                               item_t *out_zero)
{
    context_t *ctx = node->onnx->ctx;
    const tensor_info_t weight = onnx_input_info(node, input);
    item_t *const parts[2] = {out_scale, out_zero};
    if (weight.rank != 3 || dtype_is_floating(weight.dtype))
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT,
             "input %d is %s, integers of rank 3 are needed", input, onnx_brief(node, &weight));
    TRY(onnx_check_inputs(node, scale, scale + 2));
    for (int i = 0; i < 2; i++) {
        const tensor_info_t info = onnx_input_info(node, scale + i);
        const int64_t sizes[] = {weight.sizes[0], info.rank == 2 ? weight.sizes[2] : 1};
        if (info.rank < 1 || info.rank > 2 ||
            !sym_equal(ctx, onnx_numel(node, &info), onnx_product(node, 2, sizes)))
            FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT,
                 "input %d is %s, one for each of %lld directions, or for %lld columns of each, is "
                 "needed",
                 scale + i, onnx_brief(node, &info), (long long)sym_hint(ctx, weight.sizes[0]),
                 (long long)sym_hint(ctx, weight.sizes[2]));
        TRY(onnx_reshape(node, node->in[scale + i], 2, sizes, parts[i]));
    }
    return STATUS_OK;
}

/* Dequantises a weight that read_quantized has checked, to [D][features][4 H]. */
static status_t dequantize(onnx_node_t *node, int input, item_t scale, item_t zero, item_t *out)
{
    const item_t parts[2] = {zero, scale};
    TRY(onnx_cast(node, node->in[input], DTYPE_F32, out));
    for (int i = 0; i < 2; i++) {
        item_t part;
        TRY(change_dim(node, "unsqueeze", parts[i], 1, &part));
        TRY(onnx_cast(node, part, DTYPE_F32, &part));
        TRY(onnx_binary(node, i == 0 ? "sub" : "mul", *out, part, out));
    }
    return STATUS_OK;
}

/* True if lstm_quantized supports the node's dtypes, activation functions and options. */
static bool has_usual_cells(const onnx_node_t *node, const recurrent_t *layer)
{
    bool is_usual = !onnx_has(node, P) && onnx_input_info(node, X).dtype == DTYPE_F32;
    for (int i = W; i <= R; i++) is_usual &= dtype_size(onnx_input_info(node, i).dtype) == 1;
    for (int d = 0; d < 2; d++) {
        const recurrent_attrs_t *attrs = &layer->attrs[d];
        const int gate = attrs->gate.function, candidate = attrs->candidate.function;
        const int output = attrs->output.function;
        is_usual &= attrs->clip == 0 && !attrs->input_forget &&
                    (gate == RECURRENT_USUAL || gate == RECURRENT_SIGMOID) &&
                    (candidate == RECURRENT_USUAL || candidate == RECURRENT_TANH) &&
                    (output == RECURRENT_USUAL || output == RECURRENT_TANH);
    }
    return is_usual;
}

/* LSTM with integer weights. ONNX Runtime rounds x and the states to 8 bits at each step;
 * lstm_quantized keeps 15 bits. If it does not support the node, the weights are dequantised. */
status_t onnx_import_dynamic_quantize_lstm(onnx_node_t *node)
{
    enum { W_SCALE = P + 1, R_SCALE = P + 3 };
    recurrent_t layer;
    item_t scales[2], zeros[2];
    TRY(read_quantized(node, W, W_SCALE, &scales[0], &zeros[0]));
    TRY(read_quantized(node, R, R_SCALE, &scales[1], &zeros[1]));
    node->n_in = P + 1;
    layer = lstm;
    layer.hidden = onnx_input_info(node, R).sizes[1];
    TRY(read_lstm(node, &layer));
    const bool is_quantized = has_usual_cells(node, &layer);
    for (int i = 0; i < 2; i++) {
        item_t *weight = &node->in[W + i];
        if (!is_quantized) TRY(dequantize(node, W + i, scales[i], zeros[i], weight));
        TRY(onnx_permute(node, *weight, 3, (const int64_t[]){0, 2, 1}, weight));
        layer.quantized[i] = scales[i];
        layer.quantized[2 + i] = zeros[i];
    }
    if (is_quantized) layer.op = "lstm_quantized";
    if (is_quantized) layer.n_quantized = 4;
    return import(node, &layer);
}

status_t onnx_import_gru(onnx_node_t *node)
{
    recurrent_t layer = {
        .op = "gru", .n_gates = 3, .gates = {1, 0, 2}, .n_functions = 2, .n_results = 2};
    bool is_behind = false;
    TRY(read_hidden(node, &layer));
    TRY(read_attributes(node, &layer));
    TRY(onnx_attr_bool(node, "linear_before_reset", false, &is_behind));
    for (int d = 0; d < 2; d++) layer.attrs[d].reset_before = !is_behind;
    return import(node, &layer);
}

status_t onnx_import_rnn(onnx_node_t *node)
{
    recurrent_t layer = {.op = "rnn", .n_gates = 1, .n_functions = 1, .n_results = 2};
    TRY(read_hidden(node, &layer));
    TRY(read_attributes(node, &layer));
    return import(node, &layer);
}
