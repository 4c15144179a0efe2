/* Gradients of recurrent layers.
 *
 * 1. The forward steps run again. For each row of x (a step of a sequence), they store the gates'
 *    pre-activations W x + b + U h + b' (W, U: weight_ih, weight_hh) and the state before the step.
 * 2. The backward steps compute the gradients of the pre-activations. One matrix product per step
 *    computes the gradient of the state before the step.
 * 3. Products over all rows compute the gradients of x and the weights.
 *
 * oneDNN computes only the f32 products: its backward layers return wrong weight gradients if there
 * is no initial state. Arithmetic is f32, or f64 for f64 tensors. Common lstm and gru cells use
 * vector loops; others are computed element by element in double. */
#include <string.h>

#include "kernels/recurrent/rows_impl.h"
#include "ops/accept_impl.h"
#include "ops/recurrent/recurrent_impl.h"
#include "tensor/onednn/cost.h"
#include "tensor/threads/threads_impl.h"

/* ---- products ---- */

/* STATE and STATE_GRAD are products of one step. The others cover all rows of x. */
enum { INPUTS, STATE, STATE_GRAD, X_GRAD, WEIGHT_IH_GRAD, WEIGHT_HH_GRAD, N_PRODUCTS };

/* out[m][n] = sum(k) a[m][k] b[k][n]. Transposed, a is stored as [k][m] and b as [n][k]. */
typedef struct product {
    int64_t m, n, k;
    bool transposes_a, transposes_b;
    onednn_primitive_t *primitive; /* NULL: multiply_by_loop */
} product_t;

typedef struct backward_state {
    recurrent_sizes_t s;
    product_t products[N_PRODUCTS];
    size_t product_scratch;
} backward_state_t;

static tensor_info_t matrix(int64_t rows, int64_t columns, bool is_transposed)
{
    tensor_info_t info = info_dense(DTYPE_F32, 2, (int64_t[]){rows, columns});
    format_t format = format_plain(2);
    if (is_transposed) format = (format_t){.kind = FORMAT_TAG, .rank = 2, .order = {1, 0}};
    return info_mkldnn(&info, &format);
}

/* Leaves p->primitive NULL if oneDNN has no optimised implementation. */
static status_t describe(context_t *ctx, product_t *p, size_t *scratch_bytes)
{
    const tensor_info_t a = matrix(p->m, p->k, p->transposes_a), out = matrix(p->m, p->n, false);
    const tensor_info_t b = matrix(p->k, p->n, p->transposes_b);
    const onednn_problem_t problem = {
        .kind = ONEDNN_MATMUL, .n_src = 1, .src = &a, .weight = &b, .dst = &out};
    if (p->m == 0 || p->n == 0 || p->k == 0) return STATUS_OK;
    status_t status = onednn_describe(ctx, &problem, &p->primitive);
    if (status == STATUS_UNSUPPORTED) return STATUS_OK;
    TRY(status);
    if (onednn_is_reference(onednn_implementation(p->primitive))) {
        onednn_release(p->primitive);
        p->primitive = NULL;
        return STATUS_OK;
    }
    size_t bytes = onednn_scratch_bytes(p->primitive);
    if (bytes > *scratch_bytes) *scratch_bytes = bytes;
    return STATUS_OK;
}

static status_t describe_products(context_t *ctx, dtype_t number, backward_state_t *state)
{
    const recurrent_sizes_t *s = &state->s;
    const int64_t rows = s->t * s->n, gates = s->g * s->h;
    const product_t products[N_PRODUCTS] = {
        [INPUTS] = {.m = rows, .n = gates, .k = s->c, .transposes_b = true},
        [STATE] = {.m = s->n, .n = gates, .k = s->h, .transposes_b = true},
        [STATE_GRAD] = {.m = s->n, .n = s->h, .k = gates},
        [X_GRAD] = {.m = rows, .n = s->c, .k = gates},
        [WEIGHT_IH_GRAD] = {.m = gates, .n = s->c, .k = rows, .transposes_a = true},
        [WEIGHT_HH_GRAD] = {.m = gates, .n = s->h, .k = rows, .transposes_a = true}};
    memcpy(state->products, products, sizeof products);
    for (int i = 0; number == DTYPE_F32 && i < N_PRODUCTS; i++)
        TRY(describe(ctx, &state->products[i], &state->product_scratch));
    return STATUS_OK;
}

typedef struct loop_product {
    const product_t *p;
    dtype_t dtype;
    const char *a, *b;
    char *out;
} loop_product_t;

static void multiply_elements(void *user, int64_t first, int64_t last)
{
    const loop_product_t *l = user;
    const product_t *p = l->p;
    const int64_t size = (int64_t)dtype_size(l->dtype);
    const int64_t a_row = p->transposes_a ? 1 : p->k, a_step = p->transposes_a ? p->m : 1;
    const int64_t b_column = p->transposes_b ? p->k : 1, b_step = p->transposes_b ? 1 : p->n;
    for (int64_t i = first; i < last; i++) {
        const char *a = l->a + i / p->n * a_row * size, *b = l->b + i % p->n * b_column * size;
        double sum = 0.0;
        for (int64_t k = 0; k < p->k; k++)
            sum += dtype_load(l->dtype, a + k * a_step * size) *
                   dtype_load(l->dtype, b + k * b_step * size);
        dtype_store(l->dtype, l->out + i * size, sum);
    }
}

static void multiply_by_loop(context_t *ctx, const product_t *p, dtype_t dtype, const char *a,
                             const char *b, char *out)
{
    loop_product_t product = {p, dtype, a, b, out};
    threads_share(threads_for(ctx, p->m * p->n * p->k), p->m * p->n, multiply_elements, &product);
}

/* ---- data of a call ---- */

/* Arrays ("blocks") of the dtype of the arithmetic, in scratch memory. Operands and results that
 * already have this dtype are not copied: their block is their own memory. Rows are rows of x,
 * [T * N]. */
enum {
    X,
    WEIGHT_IH,
    WEIGHT_HH,
    BIAS_IH,
    BIAS_HH,
    PEEPHOLE,
    GRAD_Y,
    SUMS,     /* [rows][G H] pre-activations of the gates; gru's candidate: only W x + b */
    INNER,    /* [rows][H] gru: U h + b' of the candidate */
    OLD_H,    /* [rows][H] h before the step */
    OLD_C,    /* [rows][H] */
    NEW_C,    /* [rows][H] */
    DIFFS,    /* [rows][G H] gradients of the products with x */
    H_DIFFS,  /* [rows][G H] gradients of the products with h; lstm, rnn: the block DIFFS */
    STEP,     /* [N][G H] products with h in one step, or their gradients */
    H,        /* [N][H] */
    C,        /* [N][H] */
    DIFF_H,   /* [N][H] gradient of h through the next step's products */
    DIRECT_H, /* [N][H] the rest of h's gradient, such as that from gru's update gate * h */
    DIFF_C,   /* [N][H] */
    RESULTS,
    N_BLOCKS = RESULTS + RECURRENT_N_DIFFS
};

typedef struct backward {
    context_t *ctx;
    const backward_state_t *state;
    recurrent_cell_t cell;
    const recurrent_attrs_t *attrs;
    recurrent_sizes_t s;
    dtype_t dtype, number; /* tensor dtype, computation dtype */
    int64_t size;          /* bytes of an element of dtype `number` */
    bool goes_by_rows;
    char *blocks[N_BLOCKS]; /* NULL if the operand is absent */
    int64_t *lengths;       /* [N] */
    char *product_scratch;
} backward_t;

static dtype_t number_of(dtype_t dtype)
{
    return dtype == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32;
}

/* Number of elements in each block. False on overflow. */
static bool count_blocks(recurrent_cell_t cell, const recurrent_sizes_t *s, int64_t *out_counts)
{
    const int64_t gates = s->g * s->h;
    int64_t rows = 0, state = 0, all = 0, states = 0, xs = 0, weight_ih = 0, weight_hh = 0,
            step = 0;
    bool fits = shape_multiply(s->t, s->n, &rows) && shape_multiply(s->n, s->h, &state) &&
                shape_multiply(rows, gates, &all) && shape_multiply(rows, s->h, &states) &&
                shape_multiply(rows, s->c, &xs) && shape_multiply(gates, s->c, &weight_ih) &&
                shape_multiply(gates, s->h, &weight_hh) && shape_multiply(s->n, gates, &step);
    const bool is_gru = cell == RECURRENT_GRU, is_lstm = cell == RECURRENT_LSTM;
    const int64_t counts[N_BLOCKS] = {[X] = xs,
                                      [WEIGHT_IH] = weight_ih,
                                      [WEIGHT_HH] = weight_hh,
                                      [BIAS_IH] = gates,
                                      [BIAS_HH] = gates,
                                      [PEEPHOLE] = 3 * s->h,
                                      [GRAD_Y] = states,
                                      [SUMS] = all,
                                      [INNER] = is_gru ? states : 0,
                                      [OLD_H] = states,
                                      [OLD_C] = is_lstm ? states : 0,
                                      [NEW_C] = is_lstm ? states : 0,
                                      [DIFFS] = all,
                                      [H_DIFFS] = is_gru ? all : 0,
                                      [STEP] = step,
                                      [H] = state,
                                      [C] = state,
                                      [DIFF_H] = state,
                                      [DIRECT_H] = state,
                                      [DIFF_C] = state,
                                      [RESULTS + RECURRENT_DIFF_X] = xs,
                                      [RESULTS + RECURRENT_DIFF_WEIGHT_IH] = weight_ih,
                                      [RESULTS + RECURRENT_DIFF_WEIGHT_HH] = weight_hh,
                                      [RESULTS + RECURRENT_DIFF_BIAS_IH] = gates,
                                      [RESULTS + RECURRENT_DIFF_BIAS_HH] = gates,
                                      [RESULTS + RECURRENT_DIFF_H0] = state,
                                      [RESULTS + RECURRENT_DIFF_C0] = state,
                                      [RESULTS + RECURRENT_DIFF_PEEPHOLE] = 3 * s->h};
    memcpy(out_counts, counts, sizeof counts);
    return fits;
}

/* Byte offsets of the blocks, the lengths and the products' scratch memory; then the total size.
 * False on overflow. */
static bool place_blocks(recurrent_cell_t cell, const backward_state_t *state, dtype_t number,
                         int64_t *out_places)
{
    int64_t counts[N_BLOCKS + 2], at = 0;
    if (!count_blocks(cell, &state->s, counts)) return false;
    counts[N_BLOCKS] = state->s.n;
    counts[N_BLOCKS + 1] = (int64_t)state->product_scratch;
    for (int i = 0; i < N_BLOCKS + 2; i++) {
        const int64_t size = i < N_BLOCKS    ? (int64_t)dtype_size(number)
                             : i == N_BLOCKS ? (int64_t)sizeof(int64_t)
                                             : 1;
        int64_t bytes = 0;
        out_places[i] = at;
        if (!shape_multiply(counts[i], size, &bytes) || __builtin_add_overflow(at, bytes, &at) ||
            at > INT64_MAX - 64)
            return false;
        at = (at + 63) / 64 * 64;
    }
    out_places[N_BLOCKS + 2] = at;
    return true;
}

static status_t recurrent_backward_native_prepare(context_t *ctx, const op_call_t *call,
                                                  prepared_t *prepared)
{
    const tensor_info_t *x = call->in[RECURRENT_X];
    const recurrent_cell_t cell = (recurrent_cell_t)call->op->variant;
    backward_state_t *state = NULL;
    int64_t places[N_BLOCKS + 3];
    for (int i = 0; i < call->n_in; i++) {
        const tensor_info_t *info = call->in[i];
        if (call_has(call, i)) prepared->in[i] = info_dense(info->dtype, info->rank, info->sizes);
    }
    TRY(prepared_make_state(ctx, prepared, sizeof *state, &state));
    state->s = recurrent_sizes(call->op, call->attrs, x, call->in[RECURRENT_WEIGHT_HH]);
    if (!place_blocks(cell, state, number_of(x->dtype), places))
        return prepared_decline(prepared, "native: scratch for %s overflows", info_brief(x));
    TRY(describe_products(ctx, number_of(x->dtype), state));
    if (!place_blocks(cell, state, number_of(x->dtype), places))
        return prepared_decline(prepared, "native: scratch for %s overflows", info_brief(x));
    prepared->scratch_bytes = (size_t)places[N_BLOCKS + 2];
    const recurrent_sizes_t *s = &state->s;
    const double flops = 6.0 * (double)(s->g * s->h) * (double)(s->c + s->h) *
                         (double)(s->t * s->n);
    prepared->cost_ns = cost_run(ctx, "native", flops, (double)prepared->scratch_bytes);
    return STATUS_OK;
}

static void destroy(void *state)
{
    for (int i = 0; i < N_PRODUCTS; i++)
        onednn_release(((backward_state_t *)state)->products[i].primitive);
}

/* ---- running ---- */

static inline double load(const backward_t *b, int block, int64_t index)
{
    const void *numbers = b->blocks[block];
    if (numbers == NULL) return 0.0;
    return b->number == DTYPE_F32 ? (double)((const float *)numbers)[index]
                                  : ((const double *)numbers)[index];
}

static inline void store(const backward_t *b, int block, int64_t index, double value)
{
    void *numbers = b->blocks[block];
    if (b->number == DTYPE_F32)
        ((float *)numbers)[index] = (float)value;
    else
        ((double *)numbers)[index] = value;
}

static status_t multiply(const backward_t *b, int which, int from_a, int from_b, int to)
{
    const product_t *p = &b->state->products[which];
    void *arguments[] = {b->blocks[from_a], b->blocks[from_b], b->blocks[to]};
    if (p->primitive != NULL)
        return onednn_run(b->ctx, p->primitive, arguments, b->product_scratch);
    multiply_by_loop(b->ctx, p, b->number, arguments[0], arguments[1], arguments[2]);
    return STATUS_OK;
}

/* Sets the block of an operand: to the operand's memory if no cast is needed, else to a copy. */
static void take(backward_t *b, int block, int64_t n, const void *from)
{
    if (from == NULL)
        b->blocks[block] = NULL;
    else if (b->dtype == b->number)
        b->blocks[block] = (char *)(uintptr_t)from;
    else
        dtype_cast(n, b->dtype, from, 1, b->number, b->blocks[block], 1);
}

/* Copies a state or its gradient into a block; fills it with zeros if `from` is NULL. */
static void take_state(backward_t *b, int block, int64_t n, const void *from)
{
    if (from == NULL)
        memset(b->blocks[block], 0, (size_t)(n * b->size));
    else
        dtype_cast(n, b->dtype, from, 1, b->number, b->blocks[block], 1);
}

static void take_all(backward_t *b, const int64_t *counts, int first_grad, void *const *in,
                     void *const *out, int n_out)
{
    const bool is_lstm = b->cell == RECURRENT_LSTM;
    take(b, X, counts[X], in[RECURRENT_X]);
    take(b, WEIGHT_IH, counts[WEIGHT_IH], in[RECURRENT_WEIGHT_IH]);
    take(b, WEIGHT_HH, counts[WEIGHT_HH], in[RECURRENT_WEIGHT_HH]);
    take(b, BIAS_IH, counts[BIAS_IH], in[RECURRENT_BIAS_IH]);
    take(b, BIAS_HH, counts[BIAS_HH], in[RECURRENT_BIAS_HH]);
    take(b, PEEPHOLE, counts[PEEPHOLE], is_lstm ? in[RECURRENT_PEEPHOLE] : NULL);
    take(b, GRAD_Y, counts[GRAD_Y], in[first_grad + RECURRENT_Y]);
    take_state(b, H, counts[H], in[RECURRENT_H0]);
    take_state(b, C, counts[C], is_lstm ? in[RECURRENT_C0] : NULL);
    take_state(b, DIFF_H, counts[H], in[first_grad + RECURRENT_H]);
    take_state(b, DIFF_C, counts[C], is_lstm ? in[first_grad + RECURRENT_C] : NULL);
    memset(b->blocks[DIRECT_H], 0, (size_t)(counts[H] * b->size));
    /* the steps do not write rows after the end of a sequence */
    memset(b->blocks[OLD_H], 0, (size_t)(counts[OLD_H] * b->size));
    memset(b->blocks[OLD_C], 0, (size_t)(counts[OLD_C] * b->size));
    memset(b->blocks[NEW_C], 0, (size_t)(counts[NEW_C] * b->size));
    memset(b->blocks[DIFFS], 0, (size_t)(counts[DIFFS] * b->size));
    memset(b->blocks[H_DIFFS], 0, (size_t)(counts[H_DIFFS] * b->size));
    if (b->cell != RECURRENT_GRU) b->blocks[H_DIFFS] = b->blocks[DIFFS];
    for (int i = 0; i < n_out && b->dtype == b->number; i++) b->blocks[RESULTS + i] = out[i];
}

/* Row of x that sequence n reads in a step; -1 after the end of the sequence. */
static inline int64_t row_of(const backward_t *b, int64_t step, int64_t n)
{
    if (step >= b->lengths[n]) return -1;
    return recurrent_row(b->attrs, &b->s, recurrent_time(b->attrs, b->lengths[n], step), n);
}

/* Gathers what recurrent_step reads for element j: the pre-activations and the old state. */
static recurrent_unit_t unit_of(const backward_t *b, int64_t row, int64_t j)
{
    const int64_t h = b->s.h;
    recurrent_unit_t unit = {.old_h = load(b, OLD_H, row * h + j)};
    for (int64_t g = 0; g < b->s.g; g++) unit.x[g] = load(b, SUMS, (row * b->s.g + g) * h + j);
    if (b->cell == RECURRENT_GRU) unit.h[2] = load(b, INNER, row * h + j);
    if (b->cell != RECURRENT_LSTM) return unit;
    unit.old_c = load(b, OLD_C, row * h + j);
    for (int i = 0; i < 3; i++) unit.peephole[i] = load(b, PEEPHOLE, i * h + j);
    return unit;
}

static void step_unit(const backward_t *b, int64_t row, int64_t n, int64_t j)
{
    const int64_t h = b->s.h, own = n * h + j;
    const bool is_lstm = b->cell == RECURRENT_LSTM;
    for (int64_t g = 0; g < b->s.g; g++) {
        const int64_t gate = g * h + j, at = row * b->s.g * h + gate;
        double of_x = load(b, SUMS, at) + load(b, BIAS_IH, gate);
        double of_h = load(b, STEP, n * b->s.g * h + gate) + load(b, BIAS_HH, gate);
        const bool is_inner = b->cell == RECURRENT_GRU && g == 2;
        if (is_inner) store(b, INNER, row * h + j, of_h);
        store(b, SUMS, at, is_inner ? of_x : of_x + of_h);
    }
    store(b, OLD_H, row * h + j, load(b, H, own));
    if (is_lstm) store(b, OLD_C, row * h + j, load(b, C, own));
    const recurrent_unit_t unit = unit_of(b, row, j);
    double c = 0.0;
    store(b, H, own, recurrent_step(b->cell, b->attrs, &unit, &c));
    if (!is_lstm) return;
    store(b, C, own, c);
    store(b, NEW_C, row * h + j, c);
}

/* The vector loops divide the state of each sequence into parts of this many elements. */
#define PART 64

static float *at(const backward_t *b, int block, int64_t index)
{
    float *numbers = (float *)(void *)b->blocks[block];
    return numbers == NULL ? NULL : numbers + index;
}

static int64_t count_parts(const backward_t *b)
{
    return b->s.n * ((b->s.h + PART - 1) / PART);
}

/* Returns the sequence of a part; sets its first element and its number of elements. */
static int64_t find_part(const backward_t *b, int64_t part, int64_t *out_first, int64_t *out_n)
{
    const int64_t n_parts = (b->s.h + PART - 1) / PART;
    *out_first = part % n_parts * PART;
    *out_n = b->s.h - *out_first < PART ? b->s.h - *out_first : PART;
    return part / n_parts;
}

static void step_part(const backward_t *b, int64_t step, int64_t part)
{
    int64_t j = 0, n = 0;
    const int64_t sequence = find_part(b, part, &j, &n), row = row_of(b, step, sequence);
    const int64_t h = b->s.h, gates = b->s.g * h, state = sequence * h + j, here = row * h + j;
    if (row < 0) return;
    const recurrent_rows_t rows = {.n = n,
                                   .gate_step = h,
                                   .sums = at(b, SUMS, row * gates + j),
                                   .inner = at(b, INNER, here),
                                   .step = at(b, STEP, sequence * gates + j),
                                   .bias_ih = at(b, BIAS_IH, j),
                                   .bias_hh = at(b, BIAS_HH, j),
                                   .h = at(b, H, state),
                                   .c = at(b, C, state),
                                   .old_h = at(b, OLD_H, here),
                                   .old_c = at(b, OLD_C, here),
                                   .new_c = at(b, NEW_C, here)};
    (b->cell == RECURRENT_LSTM ? recurrent_loops()->step_lstm : recurrent_loops()->step_gru)(&rows);
}

typedef struct one_step {
    const backward_t *b;
    int64_t step;
} one_step_t;

static void step_parts(void *user, int64_t first, int64_t last)
{
    const one_step_t *s = user;
    for (int64_t part = first; part < last; part++) step_part(s->b, s->step, part);
}

static void step_units(void *user, int64_t first, int64_t last)
{
    const one_step_t *s = user;
    const int64_t h = s->b->s.h;
    for (int64_t i = first; i < last; i++) {
        const int64_t row = row_of(s->b, s->step, i / h);
        if (row >= 0) step_unit(s->b, row, i / h, i % h);
    }
}

static status_t run_forward(const backward_t *b)
{
    const int64_t n_units = b->s.n * b->s.h;
    TRY(multiply(b, INPUTS, X, WEIGHT_IH, SUMS));
    for (int64_t step = 0; step < b->s.t; step++) {
        one_step_t one = {b, step};
        TRY(multiply(b, STATE, H, WEIGHT_HH, STEP));
        if (b->goes_by_rows)
            threads_share(threads_for(b->ctx, n_units * 8), count_parts(b), step_parts, &one);
        else
            threads_share(threads_for(b->ctx, n_units * 64), n_units, step_units, &one);
    }
    return STATUS_OK;
}

/* ---- one element of a backward step: gradients of its gates from those of h and c ---- */

typedef struct diffs {
    double x[RECURRENT_MAX_GATES], h[RECURRENT_MAX_GATES];
    double old_h, old_c; /* the part that does not pass through the pre-activations */
} diffs_t;

static diffs_t back_lstm(const backward_t *b, const recurrent_unit_t *unit, double c, double diff_h,
                         double diff_c)
{
    const recurrent_attrs_t *attrs = b->attrs;
    const double clip = attrs->clip, *p = unit->peephole;
    const double sum_i = unit->x[0] + p[0] * unit->old_c, sum_f = unit->x[1] + p[1] * unit->old_c;
    const double sum_o = unit->x[3] + p[2] * c;
    const double input = recurrent_value(&attrs->gate, clip, sum_i);
    const double forget = attrs->input_forget ? 1.0 - input
                                              : recurrent_value(&attrs->gate, clip, sum_f);
    const double fresh = recurrent_value(&attrs->candidate, clip, unit->x[2]);
    const double output = recurrent_value(&attrs->gate, clip, sum_o);
    diffs_t d = {.old_h = 0.0};
    d.x[3] = diff_h * recurrent_value(&attrs->output, 0.0, c) *
             recurrent_slope(&attrs->gate, clip, sum_o);
    diff_c += diff_h * output * recurrent_slope(&attrs->output, 0.0, c) + d.x[3] * p[2];
    d.x[2] = diff_c * input * recurrent_slope(&attrs->candidate, clip, unit->x[2]);
    double diff_input = diff_c * fresh;
    if (attrs->input_forget)
        diff_input -= diff_c * unit->old_c;
    else
        d.x[1] = diff_c * unit->old_c * recurrent_slope(&attrs->gate, clip, sum_f);
    d.x[0] = diff_input * recurrent_slope(&attrs->gate, clip, sum_i);
    d.old_c = diff_c * forget + d.x[0] * p[0] + d.x[1] * p[1];
    memcpy(d.h, d.x, sizeof d.h);
    return d;
}

static diffs_t back_gru(const backward_t *b, const recurrent_unit_t *unit, double diff_h)
{
    const recurrent_activation_t *gate = &b->attrs->gate, *candidate = &b->attrs->candidate;
    const double clip = b->attrs->clip;
    const double reset = recurrent_value(gate, clip, unit->x[0]);
    const double update = recurrent_value(gate, clip, unit->x[1]);
    const double sum = unit->x[2] + reset * unit->h[2];
    const double fresh = recurrent_value(candidate, clip, sum);
    diffs_t d = {.old_h = diff_h * update};
    d.x[2] = diff_h * (1.0 - update) * recurrent_slope(candidate, clip, sum);
    d.x[1] = diff_h * (unit->old_h - fresh) * recurrent_slope(gate, clip, unit->x[1]);
    d.x[0] = d.x[2] * unit->h[2] * recurrent_slope(gate, clip, unit->x[0]);
    d.h[0] = d.x[0];
    d.h[1] = d.x[1];
    d.h[2] = d.x[2] * reset;
    return d;
}

static diffs_t back_of(const backward_t *b, const recurrent_unit_t *unit, double c, double diff_h,
                       double diff_c)
{
    switch (b->cell) {
    case RECURRENT_LSTM: return back_lstm(b, unit, c, diff_h, diff_c);
    case RECURRENT_GRU: return back_gru(b, unit, diff_h);
    case RECURRENT_RNN: break;
    }
    diffs_t d = {.old_h = 0.0};
    d.x[0] = diff_h * recurrent_slope(&b->attrs->candidate, b->attrs->clip, unit->x[0]);
    d.h[0] = d.x[0];
    return d;
}

/* Backward step of one element. After the end of a sequence (row < 0), gradients do not change. */
static void back_unit(const backward_t *b, int64_t row, int64_t n, int64_t j)
{
    const int64_t h = b->s.h, own = n * h + j, gates = b->s.g * h;
    double diff_h = load(b, DIFF_H, own) + load(b, DIRECT_H, own);
    diffs_t d = {.old_h = diff_h};
    if (row >= 0) {
        const recurrent_unit_t unit = unit_of(b, row, j);
        const bool is_lstm = b->cell == RECURRENT_LSTM;
        d = back_of(b, &unit, is_lstm ? load(b, NEW_C, row * h + j) : 0.0,
                    diff_h + load(b, GRAD_Y, row * h + j), load(b, DIFF_C, own));
        if (is_lstm) store(b, DIFF_C, own, d.old_c);
    }
    store(b, DIRECT_H, own, d.old_h);
    for (int64_t g = 0; g < b->s.g; g++) {
        store(b, STEP, n * gates + g * h + j, d.h[g]);
        if (row < 0) continue;
        store(b, DIFFS, row * gates + g * h + j, d.x[g]);
        store(b, H_DIFFS, row * gates + g * h + j, d.h[g]);
    }
}

static void back_part(const backward_t *b, int64_t step, int64_t part)
{
    int64_t j = 0, n = 0;
    const int64_t sequence = find_part(b, part, &j, &n), row = row_of(b, step, sequence);
    const int64_t h = b->s.h, gates = b->s.g * h, state = sequence * h + j, here = row * h + j;
    if (row < 0) {
        for (int64_t i = j; i < j + n; i++) back_unit(b, row, sequence, i);
        return;
    }
    const recurrent_rows_back_t rows = {.n = n,
                                        .gate_step = h,
                                        .sums = at(b, SUMS, row * gates + j),
                                        .inner = at(b, INNER, here),
                                        .old_h = at(b, OLD_H, here),
                                        .old_c = at(b, OLD_C, here),
                                        .new_c = at(b, NEW_C, here),
                                        .grad_y = at(b, GRAD_Y, here),
                                        .diff_h = at(b, DIFF_H, state),
                                        .direct_h = at(b, DIRECT_H, state),
                                        .diff_c = at(b, DIFF_C, state),
                                        .diffs = at(b, DIFFS, row * gates + j),
                                        .h_diffs = at(b, H_DIFFS, row * gates + j),
                                        .step = at(b, STEP, sequence * gates + j)};
    (b->cell == RECURRENT_LSTM ? recurrent_loops()->back_lstm : recurrent_loops()->back_gru)(&rows);
}

static void back_parts(void *user, int64_t first, int64_t last)
{
    const one_step_t *s = user;
    for (int64_t part = first; part < last; part++) back_part(s->b, s->step, part);
}

static void back_units(void *user, int64_t first, int64_t last)
{
    const one_step_t *s = user;
    const int64_t h = s->b->s.h;
    for (int64_t i = first; i < last; i++)
        back_unit(s->b, row_of(s->b, s->step, i / h), i / h, i % h);
}

static status_t run_back(const backward_t *b)
{
    const int64_t n_units = b->s.n * b->s.h;
    for (int64_t step = b->s.t - 1; step >= 0; step--) {
        one_step_t one = {b, step};
        if (b->goes_by_rows)
            threads_share(threads_for(b->ctx, n_units * 8), count_parts(b), back_parts, &one);
        else
            threads_share(threads_for(b->ctx, n_units * 64), n_units, back_units, &one);
        TRY(multiply(b, STATE_GRAD, STEP, WEIGHT_HH, DIFF_H));
    }
    return STATUS_OK;
}

/* ---- results ---- */

enum { SUM_WIDTH = 16 }; /* columns that are summed at once */

/* Sums columns [first, first + width) of [G H] over all rows: the gradients of biases and
 * peephole. */
static void sum_gates(const backward_t *b, int64_t first, int64_t width)
{
    const int64_t h = b->s.h, gates = b->s.g * h, rows = b->s.t * b->s.n;
    const bool is_lstm = b->cell == RECURRENT_LSTM;
    double of_x[SUM_WIDTH] = {0}, of_h[SUM_WIDTH] = {0}, of_c[SUM_WIDTH] = {0};
    for (int64_t row = 0; row < rows; row++)
        for (int64_t i = 0; i < width; i++) {
            const int64_t gate = first + i;
            const double diff = load(b, DIFFS, row * gates + gate);
            of_x[i] += diff;
            of_h[i] += load(b, H_DIFFS, row * gates + gate);
            if (is_lstm)
                of_c[i] += diff * load(b, gate < 3 * h ? OLD_C : NEW_C, row * h + gate % h);
        }
    for (int64_t i = 0; i < width; i++) {
        const int64_t gate = first + i;
        store(b, RESULTS + RECURRENT_DIFF_BIAS_IH, gate, of_x[i]);
        store(b, RESULTS + RECURRENT_DIFF_BIAS_HH, gate, of_h[i]);
        if (is_lstm && gate / h != 2) /* the candidate has no peephole */
            store(b, RESULTS + RECURRENT_DIFF_PEEPHOLE, gate < 3 * h ? gate : gate - h, of_c[i]);
    }
}

static void sum_gate_groups(void *user, int64_t begin, int64_t end)
{
    const backward_t *b = *(const backward_t *const *)user;
    const int64_t gates = b->s.g * b->s.h;
    for (int64_t i = begin; i < end; i++) {
        const int64_t first = i * SUM_WIDTH, left = gates - first;
        sum_gates(b, first, left < SUM_WIDTH ? left : SUM_WIDTH);
    }
}

static void sum_rows(const backward_t *b)
{
    const int64_t gates = b->s.g * b->s.h;
    threads_share(threads_for(b->ctx, b->s.t * b->s.n * gates), (gates + SUM_WIDTH - 1) / SUM_WIDTH,
                  sum_gate_groups, &b);
}

static status_t make_results(const backward_t *b)
{
    const int64_t n = b->s.n * b->s.h;
    TRY(multiply(b, X_GRAD, DIFFS, WEIGHT_IH, RESULTS + RECURRENT_DIFF_X));
    TRY(multiply(b, WEIGHT_IH_GRAD, DIFFS, X, RESULTS + RECURRENT_DIFF_WEIGHT_IH));
    TRY(multiply(b, WEIGHT_HH_GRAD, H_DIFFS, OLD_H, RESULTS + RECURRENT_DIFF_WEIGHT_HH));
    sum_rows(b);
    for (int64_t i = 0; i < n; i++)
        store(b, RESULTS + RECURRENT_DIFF_H0, i, load(b, DIFF_H, i) + load(b, DIRECT_H, i));
    if (b->cell == RECURRENT_LSTM)
        memcpy(b->blocks[RESULTS + RECURRENT_DIFF_C0], b->blocks[DIFF_C], (size_t)(n * b->size));
    return STATUS_OK;
}

/* True for lstm and gru with sigmoid gates and tanh elsewhere, and without clip, input_forget,
 * reset_before and peephole. */
static bool is_vectorised(recurrent_cell_t cell, const recurrent_attrs_t *attrs, bool has_peephole)
{
    const bool is_lstm = cell == RECURRENT_LSTM;
    if (cell == RECURRENT_RNN || attrs->clip != 0.0 || has_peephole) return false;
    if (attrs->gate.function != RECURRENT_SIGMOID || attrs->candidate.function != RECURRENT_TANH)
        return false;
    if (is_lstm) return attrs->output.function == RECURRENT_TANH && !attrs->input_forget;
    return !attrs->reset_before;
}

static status_t recurrent_backward_native_run(context_t *ctx, const prepared_t *prepared,
                                              void *const *in, void *const *out, void *scratch)
{
    const opdef_t *op = prepared_op(prepared);
    const backward_state_t *state = prepared_state(prepared);
    const dtype_t dtype = prepared->in[RECURRENT_X].dtype;
    int64_t places[N_BLOCKS + 3], counts[N_BLOCKS];
    backward_t b = {.ctx = ctx,
                    .state = state,
                    .cell = (recurrent_cell_t)op->variant,
                    .attrs = prepared_attrs(prepared),
                    .s = state->s,
                    .dtype = dtype,
                    .number = number_of(dtype),
                    .size = (int64_t)dtype_size(number_of(dtype))};
    bool fits = count_blocks(b.cell, &b.s, counts) && place_blocks(b.cell, state, b.number, places);
    INVARIANT(fits);
    (void)fits;
    for (int i = 0; i < N_BLOCKS; i++) b.blocks[i] = (char *)scratch + places[i];
    b.lengths = (int64_t *)(void *)((char *)scratch + places[N_BLOCKS]);
    b.product_scratch = (char *)scratch + places[N_BLOCKS + 1];
    take_all(&b, counts, recurrent_grad(op), in, out, prepared->n_out);
    b.goes_by_rows = b.number == DTYPE_F32 &&
                     is_vectorised(b.cell, b.attrs, b.blocks[PEEPHOLE] != NULL);
    TRY(recurrent_read_lengths(ctx, op->name, &b.s, prepared->in[RECURRENT_LENGTHS].dtype,
                               in[RECURRENT_LENGTHS], b.lengths));
    TRY(run_forward(&b));
    TRY(run_back(&b));
    TRY(make_results(&b));
    for (int i = 0; i < prepared->n_out && b.dtype != b.number; i++)
        dtype_cast(counts[RESULTS + i], b.number, b.blocks[RESULTS + i], 1, b.dtype, out[i], 1);
    return STATUS_OK;
}

const kernel_t recurrent_backward_native = {.name = "native",
                                            .prepare = recurrent_backward_native_prepare,
                                            .run = recurrent_backward_native_run,
                                            .destroy = destroy};
