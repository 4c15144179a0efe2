/* lstm that multiplies 8-bit weights as integers, like ONNX Runtime's DynamicQuantizeLSTM.
 *
 * The products with x and with the state are sums of integers (kernels/quantized). Each row of x
 * and of the state is scaled to its largest absolute value and rounded to integers of up to 15
 * bits: as many as 32-bit sums allow. This is faster than f32, because each step reads all weights,
 * and these have a quarter of the bytes. */
#include <math.h>
#include <string.h>

#include "kernels/quantized/quantize_impl.h"
#include "kernels/recurrent/rows_impl.h"
#include "ops/accept_impl.h"
#include "ops/ops_impl.h"
#include "ops/quantized/integer_impl.h"
#include "ops/quantized/quantized.h"
#include "ops/recurrent/recurrent_impl.h"
#include "tensor/onednn/cost.h"
#include "tensor/sym/sizes_impl.h"
#include "tensor/threads/threads_impl.h"

static const operand_t operands[RECURRENT_QUANTIZED_OPERANDS] = {
    [RECURRENT_X] = {"x", ROLE_ACTIVATION, false, false},
    [RECURRENT_WEIGHT_IH] = {"weight_ih", ROLE_WEIGHT, false, false},
    [RECURRENT_WEIGHT_HH] = {"weight_hh", ROLE_WEIGHT, false, false},
    [RECURRENT_BIAS_IH] = {"bias_ih", ROLE_BIAS, true, false},
    [RECURRENT_BIAS_HH] = {"bias_hh", ROLE_BIAS, true, false},
    [RECURRENT_H0] = {"h0", ROLE_ACTIVATION, true, false},
    [RECURRENT_LENGTHS] = {"lengths", ROLE_STATE, true, false},
    [RECURRENT_C0] = {"c0", ROLE_ACTIVATION, true, false},
    [RECURRENT_SCALE_IH] = {"scale_ih", ROLE_STATE, false, false},
    [RECURRENT_SCALE_HH] = {"scale_hh", ROLE_STATE, false, false},
    [RECURRENT_ZERO_IH] = {"zero_ih", ROLE_STATE, true, false},
    [RECURRENT_ZERO_HH] = {"zero_hh", ROLE_STATE, true, false}};

#define MOST_TERMS (1 << 22) /* maximum terms of a sum; more would leave integers below 2 bits */

/* ---- inference ---- */

static status_t check_weight(context_t *ctx, const op_call_t *call, int operand)
{
    const char *op = call->op->name;
    const int at_scale = operand - RECURRENT_WEIGHT_IH + RECURRENT_SCALE_IH;
    const int at_zero = operand - RECURRENT_WEIGHT_IH + RECURRENT_ZERO_IH;
    const tensor_info_t *weight = call->in[operand], *scale = call->in[at_scale];
    REQUIRE(ctx, integer_is_byte(weight->dtype), "%s: %s is %s, s8 or u8 is needed", op,
            operands[operand].name, info_brief(weight));
    for (int i = at_scale; i <= at_zero; i += at_zero - at_scale) {
        const tensor_info_t *info = call->in[i];
        if (!call_has(call, i)) continue;
        const bool is_one = info->rank <= 1 && sizes_are_one(ctx, info);
        REQUIRE(ctx,
                is_one || (info->rank == 1 && weight->rank == 2 &&
                           sym_equal(ctx, info->sizes[0], weight->sizes[0])),
                "%s: %s is %s, one for all or for each row of %s is needed", op, operands[i].name,
                info_brief(info), operands[operand].name);
    }
    REQUIRE(ctx, scale->dtype == DTYPE_F32, "%s: %s is %s, f32 is needed", op,
            operands[at_scale].name, info_brief(scale));
    REQUIRE(ctx, !call_has(call, at_zero) || call->in[at_zero]->dtype == weight->dtype,
            "%s: %s is %s, that of %s is %s", op, operands[at_zero].name,
            info_brief(call->in[at_zero]), operands[operand].name, dtype_name(weight->dtype));
    REQUIRE(ctx, sym_hint(ctx, weight->sizes[weight->rank - 1]) <= MOST_TERMS,
            "%s: %s is %s, at most %d columns are supported", op, operands[operand].name,
            info_brief(weight), MOST_TERMS);
    return STATUS_OK;
}

/* Infers results as for an lstm with f32 weights; then checks the integer weights. */
static status_t lstm_quantized_infer(context_t *ctx, const op_call_t *call, int *out_n,
                                     tensor_info_t *out)
{
    const tensor_info_t none = {.dtype = DTYPE_NONE};
    const char *unusual = recurrent_unusual(true, call->attrs);
    tensor_info_t weights[2];
    const tensor_info_t *in[RECURRENT_N_OPERANDS];
    op_call_t plain = *call;
    if (unusual != NULL) FAIL(ctx, STATUS_UNSUPPORTED, "%s: %s", call->op->name, unusual);
    REQUIRE(ctx, call->in[RECURRENT_X]->dtype == DTYPE_F32, "%s: x is %s, f32 is needed",
            call->op->name, info_brief(call->in[RECURRENT_X]));
    for (int i = 0; i < RECURRENT_N_OPERANDS; i++)
        in[i] = i < RECURRENT_SCALE_IH ? call->in[i] : &none;
    for (int i = RECURRENT_WEIGHT_IH; i <= RECURRENT_WEIGHT_HH; i++) {
        tensor_info_t *weight = &weights[i - RECURRENT_WEIGHT_IH];
        *weight = *call->in[i];
        weight->dtype = DTYPE_F32;
        in[i] = weight;
    }
    plain.in = in;
    plain.n_in = RECURRENT_N_OPERANDS;
    TRY(recurrent_infer(ctx, &plain, out_n, out));
    TRY(check_weight(ctx, call, RECURRENT_WEIGHT_IH));
    return check_weight(ctx, call, RECURRENT_WEIGHT_HH);
}

/* ---- products of f32 rows (of x or of the state) with a weight ---- */

typedef struct side {
    int weight, scale, zero; /* indices of operands */
    int64_t n_inputs, n_outputs, n_pairs;
    float most; /* largest integer that an element of a row is rounded to */
    /* Offsets in scratch, for the maximum number of rows. */
    size_t weight_at, rows_at, starts_at, sums_at, factors_at, zeros_at, scales_at, products_at;
    size_t numbers_at; /* results: f32 [rows][outputs] */
} side_t;

static void *part(void *scratch, size_t at)
{
    return (char *)scratch + at;
}

static size_t take(size_t bytes, size_t *at)
{
    const size_t begin = *at;
    *at += integer_align(bytes);
    return begin;
}

/* Describes the products with one weight and lays out their scratch. Sums of n_inputs terms, minus
 * the zero points, must stay below 2^31; this limits `most`. */
static void describe_side(int weight, int64_t n_inputs, int64_t n_outputs, int64_t n_rows,
                          bool is_packed, side_t *side, size_t *at)
{
    const size_t rows = (size_t)n_rows, outputs = (size_t)n_outputs;
    const double most = floor(0x7fffffff / (256.0 * (double)(n_inputs > 0 ? n_inputs : 1)));
    *side = (side_t){.weight = weight,
                     .scale = weight - RECURRENT_WEIGHT_IH + RECURRENT_SCALE_IH,
                     .zero = weight - RECURRENT_WEIGHT_IH + RECURRENT_ZERO_IH,
                     .n_inputs = n_inputs,
                     .n_outputs = n_outputs,
                     .n_pairs = (n_inputs + 1) / 2,
                     .most = most < 32767.0 ? (float)most : 32767.0f};
    const size_t packed = (size_t)integer_packed(n_outputs, side->n_pairs, INTEGER_PAIRS);
    side->weight_at = take(is_packed ? 0 : packed, at);
    side->rows_at = take(rows * 2 * (size_t)side->n_pairs * sizeof(int16_t), at);
    side->starts_at = take(rows * sizeof(int64_t), at);
    side->sums_at = take(rows * sizeof(int32_t), at);
    side->factors_at = take(rows * sizeof(float), at);
    side->zeros_at = take(integer_zero_bytes(n_outputs), at);
    side->scales_at = take(outputs * sizeof(float), at);
    side->products_at = take(rows * outputs * sizeof(int32_t), at);
    side->numbers_at = take(rows * outputs * sizeof(float), at);
}

static int64_t find_element(const void *user, int64_t i)
{
    const int64_t n_inputs = *(const int64_t *)user;
    return i < n_inputs ? i : -1;
}

static void pack_weight(const tensor_info_t *weight, const void *from, int8_t *to)
{
    const int64_t n_inputs = weight->sizes[1];
    integer_pack(weight->dtype, weight->sizes[0], (n_inputs + 1) / 2, INTEGER_PAIRS, n_inputs,
                 find_element, &n_inputs, from, to);
}

static void round_row(const side_t *side, void *scratch, int64_t row, const float *from)
{
    int16_t *to = (int16_t *)part(scratch, side->rows_at) + row * 2 * side->n_pairs;
    float *factors = part(scratch, side->factors_at);
    int32_t *sums = part(scratch, side->sums_at);
    factors[row] = quantize_loops()->round(side->n_inputs, from, side->most, to);
    if (side->n_inputs % 2 != 0) to[side->n_inputs] = 0;
    integer_loops()->sums(1, 0, side->n_inputs, to, &sums[row]);
}

/* Prepares everything that is the same for all rows of a run: the weight, its scales and zero
 * points. */
static void begin_side(const prepared_t *prepared, void *const *in, const side_t *side,
                       int64_t n_rows, bool is_packed, void *scratch, integer_t *out_product)
{
    int64_t *starts = part(scratch, side->starts_at);
    int32_t *zeros = part(scratch, side->zeros_at);
    float *scales = part(scratch, side->scales_at);
    int8_t *weight = is_packed ? in[side->weight] : part(scratch, side->weight_at);
    const float *scale = in[side->scale];
    const bool has_one = info_numel(&prepared->in[side->scale]) == 1;
    for (int64_t i = 0; i < side->n_outputs; i++) scales[i] = scale[has_one ? 0 : i];
    for (int64_t i = 0; i < n_rows; i++) starts[i] = i * 2 * side->n_pairs;
    if (!is_packed) pack_weight(&prepared->in[side->weight], in[side->weight], weight);
    const bool has_zeros = integer_zeros(prepared, in, side->weight, side->zero, side->n_outputs,
                                         zeros);
    *out_product = (integer_t){.n_outputs = side->n_outputs,
                               .n_runs = 1,
                               .n_steps = side->n_pairs,
                               .step = INTEGER_PAIRS,
                               .x = part(scratch, side->rows_at),
                               .starts = starts,
                               .weight = weight,
                               .zeros = has_zeros ? zeros : NULL,
                               .sums = part(scratch, side->sums_at),
                               .out = part(scratch, side->products_at),
                               .out_stride = side->n_outputs};
}

typedef struct scaling {
    const int32_t *products; /* [rows][n] */
    int64_t n;
    const float *scales, *factors; /* scales of columns, factors of rows */
    float *numbers;
} scaling_t;

static void scale_rows(void *user, int64_t first, int64_t last)
{
    const scaling_t *s = user;
    for (int64_t row = first; row < last; row++)
        quantize_loops()->scale(s->n, s->products + row * s->n, s->scales, s->factors[row],
                                s->numbers + row * s->n);
}

/* Multiplies n_rows rounded rows by the weight and scales the sums to f32. */
static void multiply(context_t *ctx, const side_t *side, integer_t product, int64_t n_rows,
                     void *scratch)
{
    const int64_t n = side->n_outputs;
    scaling_t scaling = {product.out, n, part(scratch, side->scales_at),
                         part(scratch, side->factors_at), part(scratch, side->numbers_at)};
    product.n_rows = n_rows;
    integer_run(&product, isa_best(), threads_for(ctx, n_rows * n * side->n_inputs));
    threads_share(threads_for(ctx, n_rows * n), n_rows, scale_rows, &scaling);
}

/* ---- kernel ---- */

#define ROWS_AT_ONCE 64 /* rows of x multiplied at once; more if one step has more */
#define VERSION 1
enum { BLOCK, N_NUMBERS }; /* numbers stored in the format of a packed weight */

typedef struct state {
    recurrent_sizes_t s;
    bool is_packed;
    int64_t at_once; /* steps whose products with x are computed at once */
    side_t x, h;
    size_t lengths_at, h_at, c_at, before_at; /* offsets in scratch */
} state_t;

static status_t pack(context_t *ctx, const tensor_info_t *from, const void *bytes,
                     const tensor_info_t *want, void *out)
{
    (void)ctx, (void)want;
    pack_weight(from, bytes, out);
    return STATUS_OK;
}

/* Returns false if the size of scratch could overflow. */
static bool is_possible(const recurrent_sizes_t *s)
{
    int64_t rows = 0, weights = 0;
    const int64_t n = s->n > ROWS_AT_ONCE ? s->n : ROWS_AT_ONCE;
    return s->h < INT32_MAX && s->c < INT32_MAX &&
           shape_multiply(n, 8 * (4 * s->h + INTEGER_BLOCK + s->c), &rows) &&
           shape_multiply(4 * s->h + INTEGER_BLOCK, s->c + s->h + 2, &weights) &&
           rows < INT64_MAX / 16 && weights < INT64_MAX / 16;
}

static status_t lstm_quantized_prepare(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const recurrent_sizes_t s = recurrent_sizes(call->op, call->attrs, call->in[RECURRENT_X],
                                                call->in[RECURRENT_WEIGHT_HH]);
    state_t *state = NULL;
    size_t at = 0;
    if (call->layout == LAYOUT_MKLDNN) return prepared_decline(prepared, "native: dense only");
    if (!is_possible(&s))
        return prepared_decline(prepared, "native: scratch for %s overflows",
                                info_brief(call->in[RECURRENT_X]));
    accept_contiguous(call, prepared, 0, call->n_in - 1);
    for (int i = 0; i < call->n_out; i++) TRY(accept_out_plain(call, prepared, i));
    TRY(prepared_make_state(ctx, prepared, sizeof *state, &state));
    state->s = s;
    state->is_packed = call->weights == WEIGHT_CONSTANT && !call->per_op && s.c > 0 && s.h > 0;
    state->at_once = s.n > 0 && s.n < ROWS_AT_ONCE ? ROWS_AT_ONCE / s.n : 1;
    if (state->at_once > s.t) state->at_once = s.t;
    describe_side(RECURRENT_WEIGHT_IH, s.c, s.g * s.h, state->at_once * s.n, state->is_packed,
                  &state->x, &at);
    describe_side(RECURRENT_WEIGHT_HH, s.h, s.g * s.h, s.n, state->is_packed, &state->h, &at);
    state->lengths_at = take((size_t)s.n * sizeof(int64_t), &at);
    state->h_at = take((size_t)(s.n * s.h) * sizeof(float), &at);
    state->c_at = take((size_t)(s.n * s.h) * sizeof(float), &at);
    state->before_at = take((size_t)(3 * s.n * s.h) * sizeof(float), &at);
    prepared->scratch_bytes = at;
    for (int i = RECURRENT_WEIGHT_IH; state->is_packed && i <= RECURRENT_WEIGHT_HH; i++) {
        const side_t *side = i == RECURRENT_WEIGHT_IH ? &state->x : &state->h;
        TRY(prepared_want_packed(ctx, prepared, i,
                                 integer_packed(s.g * s.h, side->n_pairs, INTEGER_PAIRS), VERSION,
                                 N_NUMBERS, (const int64_t[]){[BLOCK] = INTEGER_BLOCK}));
    }
    const double products = (double)(s.g * s.h) * (double)(s.c + s.h);
    prepared->cost_ns = cost_run(ctx, "native", 2.0 * products * (double)(s.t * s.n), products);
    return STATUS_OK;
}

typedef struct run {
    context_t *ctx;
    const state_t *state;
    const recurrent_attrs_t *attrs;
    void *const *in, *const *out;
    void *scratch;
    integer_t x, h; /* products with x and with the state */
    const int64_t *lengths;
    int64_t first_step; /* first of the steps whose products with x are ready */
} run_t;

/* Row of x and y for sequence n at a step. Rows after the end of a sequence are not reversed. */
static int64_t row_of(const run_t *run, int64_t step, int64_t n)
{
    const recurrent_sizes_t *s = &run->state->s;
    const bool is_inside = step < run->lengths[n];
    return recurrent_row(run->attrs, s,
                         is_inside ? recurrent_time(run->attrs, run->lengths[n], step) : step, n);
}

static void round_rows(void *user, int64_t first, int64_t last)
{
    const run_t *run = *(const run_t *const *)user;
    const recurrent_sizes_t *s = &run->state->s;
    for (int64_t row = first; row < last; row++) {
        const int64_t at = row_of(run, run->first_step + row / s->n, row % s->n);
        round_row(&run->state->x, run->scratch, row,
                  (const float *)run->in[RECURRENT_X] + at * s->c);
    }
}

static void project(const run_t *run, int64_t n_steps)
{
    const side_t *side = &run->state->x;
    const recurrent_sizes_t *s = &run->state->s;
    threads_share(threads_for(run->ctx, n_steps * s->n * s->c), n_steps * s->n, round_rows, &run);
    multiply(run->ctx, side, run->x, n_steps * s->n, run->scratch);
}

/* Finishes a step of one sequence. After its end, y is 0 and the state does not change. */
static void finish(const run_t *run, int64_t step, int64_t n)
{
    const state_t *state = run->state;
    const recurrent_sizes_t *s = &state->s;
    const int64_t width = s->g * s->h, row = (step - run->first_step) * s->n + n;
    float *h = (float *)part(run->scratch, state->h_at) + n * s->h;
    float *before = (float *)part(run->scratch, state->before_at) + n * 3 * s->h;
    float *y = (float *)run->out[RECURRENT_Y] + row_of(run, step, n) * s->h;
    if (step >= run->lengths[n]) {
        memset(y, 0, (size_t)s->h * sizeof *y);
        return;
    }
    const recurrent_rows_t rows = {
        .n = s->h,
        .gate_step = s->h,
        .sums = (float *)part(run->scratch, state->x.numbers_at) + row * width,
        .step = (float *)part(run->scratch, state->h.numbers_at) + n * width,
        .bias_ih = run->in[RECURRENT_BIAS_IH],
        .bias_hh = run->in[RECURRENT_BIAS_HH],
        .h = h,
        .c = (float *)part(run->scratch, state->c_at) + n * s->h,
        .old_h = before,
        .old_c = before + s->h,
        .new_c = before + 2 * s->h};
    recurrent_loops()->step_lstm(&rows);
    memcpy(y, h, (size_t)s->h * sizeof *y);
}

typedef struct one_step {
    const run_t *run;
    int64_t step;
} one_step_t;

static void finish_sequences(void *user, int64_t first, int64_t last)
{
    const one_step_t *one = user;
    for (int64_t n = first; n < last; n++) finish(one->run, one->step, n);
}

static void take_step(const run_t *run, int64_t step)
{
    const state_t *state = run->state;
    const int64_t n = state->s.n, elements = state->s.h;
    const float *h = part(run->scratch, state->h_at);
    for (int64_t i = 0; i < n; i++) round_row(&state->h, run->scratch, i, h + i * elements);
    multiply(run->ctx, &state->h, run->h, n, run->scratch);
    one_step_t one = {run, step};
    threads_share(threads_for(run->ctx, n * elements * 4), n, finish_sequences, &one);
}

static void copy_state(const recurrent_sizes_t *s, const float *from, float *to)
{
    const size_t bytes = (size_t)(s->n * s->h) * sizeof *to;
    if (bytes == 0) return;
    if (from == NULL)
        memset(to, 0, bytes);
    else
        memcpy(to, from, bytes);
}

static status_t run_native(context_t *ctx, const prepared_t *prepared, void *const *in,
                           void *const *out, void *scratch)
{
    const state_t *state = prepared->state;
    const recurrent_sizes_t *s = &state->s;
    int64_t *lengths = part(scratch, state->lengths_at);
    float *h = part(scratch, state->h_at);
    float *c = part(scratch, state->c_at);
    run_t run = {ctx, state, prepared_attrs(prepared), in, out, scratch, .lengths = lengths};
    TRY(recurrent_read_lengths(ctx, prepared_op(prepared)->name, s,
                               prepared->in[RECURRENT_LENGTHS].dtype, in[RECURRENT_LENGTHS],
                               lengths));
    copy_state(s, in[RECURRENT_H0], h);
    copy_state(s, in[RECURRENT_C0], c);
    if (s->t > 0 && s->n > 0 && s->h > 0) {
        begin_side(prepared, in, &state->x, state->at_once * s->n, state->is_packed, scratch,
                   &run.x);
        begin_side(prepared, in, &state->h, s->n, state->is_packed, scratch, &run.h);
    }
    for (int64_t step = 0; s->n > 0 && s->h > 0 && step < s->t; step++) {
        if (step % state->at_once == 0) {
            const int64_t rest = s->t - step;
            run.first_step = step;
            project(&run, rest < state->at_once ? rest : state->at_once);
        }
        take_step(&run, step);
    }
    copy_state(s, h, out[RECURRENT_H]);
    copy_state(s, c, out[RECURRENT_C]);
    return STATUS_OK;
}

static const kernel_t native = {.name = "native",
                                .prepare = lstm_quantized_prepare,
                                .run = run_native,
                                .flags = KERNEL_IS_STORED,
                                .pack = pack};
static const kernel_t *const kernels[] = {&native, NULL};

/* ---- definition ---- */

const opdef_t op_def_lstm_quantized = {
    .name = "lstm_quantized",
    .variant = RECURRENT_LSTM,
    .preference = OP_DENSE,
    .attrs = {sizeof(recurrent_attrs_t), RECURRENT_QUANTIZED_FIELDS, recurrent_lstm_fields},
    .n_operands = RECURRENT_QUANTIZED_OPERANDS,
    .operands = operands,
    .n_outputs = 3,
    .infer = lstm_quantized_infer,
    .infers_symbols = true,
    .kernels = kernels,
    .cancels = 1.0,
    .flops = recurrent_flops,
    .spec = recurrent_spec};

/* ---- public ---- */

status_t op_lstm_quantized(context_t *ctx, const tensor_t *x, const tensor_t *h0,
                           const tensor_t *c0, const tensor_t *lengths,
                           const lstm_quantized_weights_t *weights, const recurrent_attrs_t *attrs,
                           tensor_t **out_y, tensor_t **out_h, tensor_t **out_c)
{
    tensor_t *out[3] = {NULL};
    int n_out = 3;
    if (out_h != NULL) *out_h = NULL;
    if (out_c != NULL) *out_c = NULL;
    TRY(context_output(ctx, "lstm_quantized", out_y));
    TRY(context_output(ctx, "lstm_quantized", out_h));
    TRY(context_output(ctx, "lstm_quantized", out_c));
    if (weights == NULL) return context_null(ctx, "lstm_quantized", "weights");
    const tensor_t *in[RECURRENT_QUANTIZED_OPERANDS] = {[RECURRENT_X] = x,
                                                        [RECURRENT_WEIGHT_IH] = weights->weight_ih,
                                                        [RECURRENT_WEIGHT_HH] = weights->weight_hh,
                                                        [RECURRENT_BIAS_IH] = weights->bias_ih,
                                                        [RECURRENT_BIAS_HH] = weights->bias_hh,
                                                        [RECURRENT_H0] = h0,
                                                        [RECURRENT_LENGTHS] = lengths,
                                                        [RECURRENT_C0] = c0,
                                                        [RECURRENT_SCALE_IH] = weights->scale_ih,
                                                        [RECURRENT_SCALE_HH] = weights->scale_hh,
                                                        [RECURRENT_ZERO_IH] = weights->zero_ih,
                                                        [RECURRENT_ZERO_HH] = weights->zero_hh};
    TRY(dispatch_run(ctx, &op_def_lstm_quantized, attrs, RECURRENT_QUANTIZED_OPERANDS, in, &n_out,
                     out));
    *out_y = out[RECURRENT_Y];
    *out_h = out[RECURRENT_H];
    *out_c = out[RECURRENT_C];
    return STATUS_OK;
}
