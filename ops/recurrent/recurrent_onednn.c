/* Recurrent operators with oneDNN: f32, sequences of equal length, the common activations.
 *
 * oneDNN reads a weight as [L][D][C][G][H] (here one layer, one direction) and orders gru's gates
 * differently from PyTorch, so weights are always packed. The packed format is the one that oneDNN
 * prefers, such as blocks of 32 state elements, if a format tag can describe it. Otherwise it is
 * plain, and oneDNN packs the weight again in each run, in a format that depends on the number of
 * steps and sequences. */
#include <string.h>

#include "ops/accept_impl.h"
#include "ops/recurrent/recurrent_impl.h"
#include "tensor/convert/convert_impl.h"
#include "tensor/onednn/cost.h"
#include "tensor/onednn/onednn.h"

#define WEIGHT_RANK 5

typedef struct layer_state {
    onednn_primitive_t *primitive;
    recurrent_sizes_t s;
    recurrent_cell_t cell;
    bool has_states;    /* h0 or c0 is present */
    size_t bias, zeros; /* byte offsets in scratch */
} layer_state_t;

/* Index in oneDNN's gate order of a PyTorch gate: gru is z, r, n instead of r, z, n. */
static int64_t gate_of(int64_t n_gates, int64_t gate)
{
    return n_gates == 3 && gate < 2 ? 1 - gate : gate;
}

/* ---- packed weights: a format tag encoded as numbers ---- */

enum { N_GATES, ORDER, FIRST_BLOCK };

static status_t want_packed(context_t *ctx, prepared_t *prepared, int index,
                            const tensor_info_t *wanted)
{
    const format_t *format = &wanted->format;
    int64_t numbers[FORMAT_MAX_NUMBERS] = {[N_GATES] = wanted->sizes[3]}, elements = 0;
    INVARIANT(FIRST_BLOCK + FORMAT_MAX_BLOCKS <= FORMAT_MAX_NUMBERS);
    for (int i = 0; i < WEIGHT_RANK; i++) numbers[ORDER] = numbers[ORDER] * 8 + format->order[i];
    for (int i = 0; i < format->n_blocks; i++)
        numbers[FIRST_BLOCK + i] = (int64_t)format->block_sizes[i] * 8 + format->block_dims[i];
    if (!format_elements(format, wanted->sizes, &elements))
        return prepared_decline(prepared, "onednn: a weight of %s overflows", info_brief(wanted));
    return prepared_want_packed(ctx, prepared, index, elements, 1, FIRST_BLOCK + format->n_blocks,
                                numbers);
}

static format_t format_of_numbers(const int64_t *numbers)
{
    format_t format = {.kind = FORMAT_TAG, .rank = WEIGHT_RANK};
    int64_t order = numbers[ORDER];
    for (int i = WEIGHT_RANK - 1; i >= 0; i--, order /= 8) format.order[i] = (uint8_t)(order % 8);
    while (format.n_blocks < FORMAT_MAX_BLOCKS && numbers[FIRST_BLOCK + format.n_blocks] > 0) {
        int64_t block = numbers[FIRST_BLOCK + format.n_blocks];
        format.block_dims[format.n_blocks] = (uint8_t)(block % 8);
        format.block_sizes[format.n_blocks++] = (uint16_t)(block / 8);
    }
    return format;
}

/* Packs a weight. An element's offset is the sum of offsets along each dimension, which are
 * computed once. */
static status_t pack(context_t *ctx, const tensor_info_t *from, const void *bytes,
                     const tensor_info_t *want, void *out)
{
    const int64_t *numbers = format_numbers(&want->format);
    const int64_t n_gates = numbers[N_GATES], n_in = from->sizes[1];
    const int64_t n_elements = from->sizes[0] / n_gates;
    const int64_t sizes[WEIGHT_RANK] = {1, 1, n_in, n_gates, n_elements};
    const format_t format = format_of_numbers(numbers);
    int64_t *in_places = NULL;
    memset(out, 0, info_bytes(want));
    TRY(context_get(ctx, (size_t)n_in * sizeof *in_places, "places of a weight", &in_places));
    for (int64_t i = 0; i < n_in; i++)
        in_places[i] = format_offset(&format, sizes, (int64_t[]){0, 0, i, 0, 0});
    for (int64_t row = 0; row < from->sizes[0]; row++) {
        const int64_t gate = gate_of(n_gates, row / n_elements);
        const float *src = (const float *)bytes + row * n_in;
        float *dst = (float *)out +
                     format_offset(&format, sizes, (int64_t[]){0, 0, 0, gate, row % n_elements});
        for (int64_t i = 0; i < n_in; i++) dst[in_places[i]] = src[i];
    }
    context_put(ctx, in_places);
    return STATUS_OK;
}

/* ---- preparing ---- */

static const char *find_obstacle(const op_call_t *call)
{
    const recurrent_attrs_t *attrs = call->attrs;
    const int candidate = attrs->candidate.function;
    const bool is_rnn = call->op->variant == RECURRENT_RNN;
    if (call->in[RECURRENT_X]->dtype != DTYPE_F32) return "f32 is needed";
    if (call_has(call, RECURRENT_LENGTHS)) return "sequences of several lengths";
    if (attrs->clip > 0) return "clip";
    if (attrs->input_forget) return "input_forget";
    if (!is_rnn && attrs->gate.function != RECURRENT_SIGMOID) return "gates are no sigmoid";
    if (candidate != RECURRENT_TANH && !(is_rnn && candidate == RECURRENT_RELU))
        return "a function that it has not";
    if (call->op->variant == RECURRENT_LSTM && attrs->output.function != RECURRENT_TANH)
        return "a function that it has not";
    return NULL;
}

static onednn_algorithm_t algorithm_of(const op_call_t *call)
{
    const recurrent_attrs_t *attrs = call->attrs;
    if (call->op->variant == RECURRENT_LSTM) return ONEDNN_RNN_LSTM;
    if (call->op->variant == RECURRENT_GRU)
        return attrs->reset_before ? ONEDNN_RNN_GRU : ONEDNN_RNN_LBR_GRU;
    return attrs->candidate.function == RECURRENT_RELU ? ONEDNN_RNN_RELU : ONEDNN_RNN_TANH;
}

static bool has_own_bias(recurrent_cell_t cell, const recurrent_attrs_t *attrs)
{
    return cell == RECURRENT_GRU && !attrs->reset_before;
}

static tensor_info_t plain(int rank, const int64_t *sizes)
{
    tensor_info_t dense = info_dense(DTYPE_F32, rank, sizes);
    format_t format = format_plain(rank);
    return info_mkldnn(&dense, &format);
}

/* Describes [T][N][size]; with batch_first, memory order is [N][T][size]. */
static tensor_info_t layer_info(const recurrent_sizes_t *s, bool batch_first, int64_t size)
{
    tensor_info_t info = plain(3, (int64_t[]){s->t, s->n, size});
    if (batch_first) info.format = (format_t){.kind = FORMAT_TAG, .rank = 3, .order = {1, 0, 2}};
    return info;
}

typedef struct layer_problem {
    tensor_info_t src[3], weight[4], bias, dst[3];
    onednn_problem_t problem;
} layer_problem_t;

static void fill_problem(const op_call_t *call, const layer_state_t *state,
                         layer_problem_t *out_problem)
{
    const recurrent_sizes_t *s = &state->s;
    const recurrent_attrs_t *attrs = call->attrs;
    const bool is_lstm = state->cell == RECURRENT_LSTM;
    const tensor_info_t h = plain(4, (int64_t[]){1, 1, s->n, s->h});
    layer_problem_t *p = out_problem;
    memset(p, 0, sizeof *p);
    p->src[0] = layer_info(s, attrs->batch_first, s->c);
    p->dst[0] = layer_info(s, attrs->batch_first, s->h);
    p->dst[1] = h;
    if (state->has_states) p->src[1] = h;
    if (is_lstm) p->dst[2] = h;
    if (is_lstm && state->has_states) p->src[2] = h;
    p->weight[0] = plain(WEIGHT_RANK, (int64_t[]){1, 1, s->c, s->g, s->h});
    p->weight[1] = plain(WEIGHT_RANK, (int64_t[]){1, 1, s->h, s->g, s->h});
    if (call_has(call, RECURRENT_PEEPHOLE)) p->weight[2] = plain(4, (int64_t[]){1, 1, 3, s->h});
    p->bias = plain(4, (int64_t[]){1, 1, s->g + has_own_bias(state->cell, attrs), s->h});
    p->problem = (onednn_problem_t){.kind = ONEDNN_RNN,
                                    .algorithm = algorithm_of(call),
                                    .direction = attrs->reverse ? ONEDNN_RIGHT_TO_LEFT
                                                                : ONEDNN_LEFT_TO_RIGHT,
                                    .n_src = 3,
                                    .src = p->src,
                                    .weight = p->weight,
                                    .bias = &p->bias,
                                    .dst = p->dst};
}

/* Creates a primitive that chooses the weights' formats. If no tag describes these, creates one for
 * plain weights. Sets p->weight to the formats that the primitive needs. */
static status_t describe(context_t *ctx, layer_problem_t *p, onednn_primitive_t **out_primitive)
{
    const format_t formats[] = {{.kind = FORMAT_ANY}, format_plain(WEIGHT_RANK)};
    for (int i = 0; i < 2; i++) {
        onednn_primitive_t *primitive = NULL;
        tensor_info_t wanted[2];
        bool is_told = true;
        p->weight[0].format = p->weight[1].format = formats[i];
        status_t status = onednn_describe(ctx, &p->problem, &primitive);
        if (status == STATUS_UNSUPPORTED) continue;
        TRY(status);
        for (int w = 0; w < 2 && status == STATUS_OK && is_told; w++) {
            status = onednn_query(ctx, primitive, ONEDNN_ARGUMENT_WEIGHT + w, &wanted[w]);
            is_told = status == STATUS_OK && wanted[w].format.kind == FORMAT_TAG;
        }
        if (is_told) {
            memcpy(p->weight, wanted, sizeof wanted);
            *out_primitive = primitive;
            return STATUS_OK;
        }
        onednn_release(primitive);
        if (status != STATUS_OK && status != STATUS_UNSUPPORTED) return status;
    }
    return STATUS_UNSUPPORTED;
}

static status_t accept_operands(context_t *ctx, const op_call_t *call, prepared_t *prepared,
                                const layer_problem_t *p)
{
    static const int activations[] = {RECURRENT_X, RECURRENT_H0, RECURRENT_C0};
    static const int plains[] = {RECURRENT_BIAS_IH, RECURRENT_BIAS_HH, RECURRENT_PEEPHOLE};
    for (int i = 0; i < 3; i++)
        if (call_has(call, activations[i])) TRY(accept_plain(call, prepared, activations[i]));
    for (int i = 0; i < 3; i++) {
        if (!call_has(call, plains[i])) continue;
        const tensor_info_t *info = call->in[plains[i]];
        prepared->in[plains[i]] = info_dense(info->dtype, info->rank, info->sizes);
    }
    for (int i = 0; i < call->n_out; i++) TRY(accept_out_plain(call, prepared, i));
    TRY(want_packed(ctx, prepared, RECURRENT_WEIGHT_IH, &p->weight[0]));
    return want_packed(ctx, prepared, RECURRENT_WEIGHT_HH, &p->weight[1]);
}

static size_t align(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

static status_t recurrent_onednn_prepare(context_t *ctx, const op_call_t *call,
                                         prepared_t *prepared)
{
    const char *obstacle = find_obstacle(call);
    layer_state_t *state = NULL;
    layer_problem_t p;
    if (obstacle != NULL) return prepared_decline(prepared, "onednn: %s", obstacle);
    TRY(prepared_make_state(ctx, prepared, sizeof *state, &state));
    state->cell = (recurrent_cell_t)call->op->variant;
    state->has_states = call_has(call, RECURRENT_H0) || call_has(call, RECURRENT_C0);
    state->s = recurrent_sizes(call->op, call->attrs, call->in[RECURRENT_X],
                               call->in[RECURRENT_WEIGHT_HH]);
    fill_problem(call, state, &p);
    status_t status = describe(ctx, &p, &state->primitive);
    if (status == STATUS_UNSUPPORTED)
        return prepared_decline(prepared, "onednn: has no such layer");
    TRY(status);
    TRY(accept_operands(ctx, call, prepared, &p));
    const recurrent_sizes_t *s = &state->s;
    const double products = (double)(s->g * s->h) * (double)(s->c + s->h);
    prepared->implementation = onednn_implementation(state->primitive);
    prepared->cost_ns = cost_run(ctx, prepared->implementation,
                                 2.0 * products * (double)(s->t * s->n),
                                 products * (double)sizeof(float));
    state->bias = align(onednn_scratch_bytes(state->primitive));
    state->zeros = state->bias + align(info_bytes(&p.bias));
    prepared->scratch_bytes = state->zeros + (size_t)(s->n * s->h) * sizeof(float);
    return STATUS_OK;
}

/* ---- running ---- */

static void add(int64_t n, const float *src, float *dst)
{
    for (int64_t i = 0; src != NULL && i < n; i++) dst[i] += src[i];
}

/* Adds PyTorch's two biases to oneDNN's single bias per gate. For gru (oneDNN's lbr_gru), the
 * candidate's bias_hh stays separate. */
static void fill_bias(const layer_state_t *state, bool has_own, const float *bias_ih,
                      const float *bias_hh, float *out)
{
    const int64_t g = state->s.g, h = state->s.h;
    memset(out, 0, (size_t)((g + has_own) * h) * sizeof *out);
    for (int64_t i = 0; i < g; i++) {
        const bool is_own = has_own && i == 2;
        float *dst = out + gate_of(g, i) * h;
        add(h, bias_ih != NULL ? bias_ih + i * h : NULL, dst);
        add(h, bias_hh != NULL ? bias_hh + i * h : NULL, is_own ? out + g * h : dst);
    }
}

/* h0 or c0; zeros if only the other one of the two is present. */
static void *state_or_zeros(const layer_state_t *state, void *given, char *scratch)
{
    if (given != NULL) return given;
    float *zeros = (float *)(void *)(scratch + state->zeros);
    memset(zeros, 0, (size_t)(state->s.n * state->s.h) * sizeof *zeros);
    return zeros;
}

static status_t recurrent_onednn_run(context_t *ctx, const prepared_t *prepared, void *const *in,
                                     void *const *out, void *scratch)
{
    const layer_state_t *state = prepared_state(prepared);
    const bool is_lstm = state->cell == RECURRENT_LSTM;
    float *bias = (float *)(void *)((char *)scratch + state->bias);
    void *arguments[ONEDNN_MAX_ARGUMENTS];
    int n = 0;
    fill_bias(state, has_own_bias(state->cell, prepared_attrs(prepared)), in[RECURRENT_BIAS_IH],
              in[RECURRENT_BIAS_HH], bias);
    arguments[n++] = in[RECURRENT_X];
    if (state->has_states) {
        arguments[n++] = state_or_zeros(state, in[RECURRENT_H0], scratch);
        if (is_lstm) arguments[n++] = state_or_zeros(state, in[RECURRENT_C0], scratch);
    }
    arguments[n++] = in[RECURRENT_WEIGHT_IH];
    arguments[n++] = in[RECURRENT_WEIGHT_HH];
    if (is_lstm && in[RECURRENT_PEEPHOLE] != NULL) arguments[n++] = in[RECURRENT_PEEPHOLE];
    arguments[n++] = bias;
    arguments[n++] = out[RECURRENT_Y];
    arguments[n++] = out[RECURRENT_H];
    if (is_lstm) arguments[n++] = out[RECURRENT_C];
    INVARIANT(n == onednn_n_arguments(state->primitive));
    return onednn_run(ctx, state->primitive, arguments, scratch);
}

static void destroy(void *state)
{
    onednn_release(((layer_state_t *)state)->primitive);
}

const kernel_t recurrent_onednn = {.name = "onednn",
                                   .prepare = recurrent_onednn_prepare,
                                   .run = recurrent_onednn_run,
                                   .flags = KERNEL_IS_STORED | KERNEL_NEEDS_ELEMENTS,
                                   .pack = pack,
                                   .destroy = destroy};
