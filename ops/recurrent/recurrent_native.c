/* Portable recurrent kernel for dtypes, activations and lengths that the other kernels do not
 * support.
 *
 * Products with x do not depend on the state, so all of them are computed first. In each step the
 * state elements are divided among the threads. For each element and gate, a thread computes the
 * dot product of h with one row of the weight. Data is f32, or f64 for f64 tensors; activations are
 * computed in double. */
#include <math.h>
#include <string.h>

#include "kernels/recurrent/rows_impl.h"
#include "ops/accept_impl.h"
#include "ops/recurrent/recurrent_impl.h"
#include "tensor/threads/threads_impl.h"

/* ---- data of a call ---- */

/* Arrays ("blocks") in scratch memory. */
enum {
    XS,
    WEIGHT_IH,
    WEIGHT_HH,
    BIAS_IH,
    BIAS_HH,
    PEEPHOLE,
    PRODUCTS,
    H,
    NEXT_H,
    C,
    KEPT,
    N_BLOCKS
};

typedef struct layer {
    recurrent_cell_t cell;
    const recurrent_attrs_t *attrs;
    recurrent_sizes_t s;
    dtype_t dtype, number; /* tensor dtype, computation dtype */
    size_t size;           /* bytes of an element of dtype `number` */
    recurrent_dot_t *dot;
    bool is_reset_before;
    char *blocks[N_BLOCKS]; /* NULL if the operand is absent */
    int64_t *lengths;       /* [N] */
    char *y;
} layer_t;

static dtype_t number_of(dtype_t dtype)
{
    return dtype == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32;
}

/* Number of elements in each block. False on overflow. */
static bool count_blocks(const recurrent_sizes_t *s, int64_t *out_counts)
{
    int64_t rows = s->g * s->h, state = 0, steps = 0;
    bool fits = shape_multiply(s->t, s->n, &steps) && shape_multiply(s->n, s->h, &state) &&
                shape_multiply(steps, s->c, &out_counts[XS]) &&
                shape_multiply(rows, s->c, &out_counts[WEIGHT_IH]) &&
                shape_multiply(rows, s->h, &out_counts[WEIGHT_HH]) &&
                shape_multiply(steps, rows, &out_counts[PRODUCTS]);
    out_counts[BIAS_IH] = out_counts[BIAS_HH] = rows;
    out_counts[PEEPHOLE] = 3 * s->h;
    out_counts[H] = out_counts[NEXT_H] = out_counts[C] = out_counts[KEPT] = state;
    return fits;
}

/* Byte offset of each block, then of the lengths; the last entry is the total. False on
 * overflow. */
static bool place_blocks(const recurrent_sizes_t *s, dtype_t number, int64_t *out_places)
{
    int64_t counts[N_BLOCKS], at = 0, bytes = 0;
    if (!count_blocks(s, counts)) return false;
    for (int i = 0; i < N_BLOCKS; i++) {
        out_places[i] = at;
        if (!shape_multiply(counts[i], (int64_t)dtype_size(number), &bytes) ||
            __builtin_add_overflow(at, bytes, &at) || at > INT64_MAX - 64)
            return false;
        at = (at + 63) / 64 * 64;
    }
    out_places[N_BLOCKS] = at;
    return shape_multiply(s->n, (int64_t)sizeof(int64_t), &bytes) &&
           !__builtin_add_overflow(at, bytes, &out_places[N_BLOCKS + 1]);
}

static status_t recurrent_native_prepare(context_t *ctx, const op_call_t *call,
                                         prepared_t *prepared)
{
    (void)ctx;
    const tensor_info_t *x = call->in[RECURRENT_X];
    const recurrent_sizes_t s = recurrent_sizes(call->op, call->attrs, x,
                                                call->in[RECURRENT_WEIGHT_HH]);
    int64_t places[N_BLOCKS + 2];
    if (call->layout == LAYOUT_MKLDNN) return prepared_decline(prepared, "native: dense only");
    if (!place_blocks(&s, number_of(x->dtype), places))
        return prepared_decline(prepared, "native: scratch for %s overflows", info_brief(x));
    for (int i = 0; i < call->n_in; i++) {
        const tensor_info_t *info = call->in[i];
        if (call->op->operands[i].role == ROLE_ACTIVATION && call_has(call, i))
            TRY(accept_plain(call, prepared, i));
        else if (call_has(call, i))
            prepared->in[i] = info_dense(info->dtype, info->rank, info->sizes);
    }
    prepared->scratch_bytes = (size_t)places[N_BLOCKS + 1];
    prepared->cost_ns = 1e9;
    for (int i = 0; i < call->n_out; i++) TRY(accept_out_plain(call, prepared, i));
    return STATUS_OK;
}

/* ---- running ---- */

/* Provides an operand as a block: its own memory if the tensors have dtype `number`, otherwise a
 * cast copy. */
static void take(const layer_t *layer, int64_t n, const void *from, char **block)
{
    if (from == NULL)
        *block = NULL;
    else if (layer->dtype == layer->number)
        *block = (char *)(uintptr_t)from;
    else
        dtype_cast(n, layer->dtype, from, 1, layer->number, *block, 1);
}

/* Copies an initial state into a block; fills it with zeros if `from` is NULL. */
static void take_state(const layer_t *layer, int64_t n, const void *from, char *block)
{
    if (from == NULL)
        memset(block, 0, (size_t)n * layer->size);
    else
        dtype_cast(n, layer->dtype, from, 1, layer->number, block, 1);
}

status_t recurrent_read_lengths(context_t *ctx, const char *op, const recurrent_sizes_t *s,
                                dtype_t dtype, const char *from, int64_t *out_lengths)
{
    for (int64_t n = 0; n < s->n; n++) {
        int64_t length = s->t;
        if (from != NULL) length = dtype_load_integer(dtype, from + (size_t)n * dtype_size(dtype));
        REQUIRE(ctx, length >= 0 && length <= s->t,
                "%s: lengths[%lld] is %lld, 0 to %lld are possible", op, (long long)n,
                (long long)length, (long long)s->t);
        out_lengths[n] = length;
    }
    return STATUS_OK;
}

static status_t begin(context_t *ctx, const prepared_t *prepared, void *const *in, void *const *out,
                      char *scratch, layer_t *layer)
{
    const opdef_t *op = prepared_op(prepared);
    const recurrent_attrs_t *attrs = prepared_attrs(prepared);
    const dtype_t dtype = prepared->in[RECURRENT_X].dtype;
    const bool is_lstm = op->variant == RECURRENT_LSTM;
    int64_t places[N_BLOCKS + 2], counts[N_BLOCKS];
    *layer = (layer_t){.cell = (recurrent_cell_t)op->variant,
                       .attrs = attrs,
                       .s = recurrent_sizes(op, attrs, &prepared->in[RECURRENT_X],
                                            &prepared->in[RECURRENT_WEIGHT_HH]),
                       .dtype = dtype,
                       .number = number_of(dtype),
                       .size = dtype_size(number_of(dtype)),
                       .dot = dtype == DTYPE_F64 ? recurrent_loops()->dot_f64
                                                 : recurrent_loops()->dot_f32,
                       .is_reset_before = op->variant == RECURRENT_GRU && attrs->reset_before,
                       .y = out[RECURRENT_Y]};
    bool fits = count_blocks(&layer->s, counts) && place_blocks(&layer->s, layer->number, places);
    INVARIANT(fits);
    (void)fits;
    for (int i = 0; i < N_BLOCKS; i++) layer->blocks[i] = scratch + places[i];
    layer->lengths = (int64_t *)(void *)(scratch + places[N_BLOCKS]);
    take(layer, counts[XS], in[RECURRENT_X], &layer->blocks[XS]);
    take(layer, counts[WEIGHT_IH], in[RECURRENT_WEIGHT_IH], &layer->blocks[WEIGHT_IH]);
    take(layer, counts[WEIGHT_HH], in[RECURRENT_WEIGHT_HH], &layer->blocks[WEIGHT_HH]);
    take(layer, counts[BIAS_IH], in[RECURRENT_BIAS_IH], &layer->blocks[BIAS_IH]);
    take(layer, counts[BIAS_HH], in[RECURRENT_BIAS_HH], &layer->blocks[BIAS_HH]);
    take(layer, counts[PEEPHOLE], is_lstm ? in[RECURRENT_PEEPHOLE] : NULL,
         &layer->blocks[PEEPHOLE]);
    take_state(layer, counts[H], in[RECURRENT_H0], layer->blocks[H]);
    take_state(layer, counts[C], is_lstm ? in[RECURRENT_C0] : NULL, layer->blocks[C]);
    return recurrent_read_lengths(ctx, op->name, &layer->s, prepared->in[RECURRENT_LENGTHS].dtype,
                                  in[RECURRENT_LENGTHS], layer->lengths);
}

static inline char *at(const layer_t *layer, int block, int64_t index)
{
    return layer->blocks[block] + (size_t)index * layer->size;
}

static inline double load(const layer_t *layer, int block, int64_t index)
{
    return layer->blocks[block] != NULL ? dtype_load(layer->number, at(layer, block, index)) : 0.0;
}

static inline void store(const layer_t *layer, int block, int64_t index, double value)
{
    dtype_store(layer->number, at(layer, block, index), value);
}

/* One step of a layer. */
typedef struct one_step {
    const layer_t *layer;
    int64_t step;
} one_step_t;

/* Computes weight_ih x + bias_ih for all steps and sequences. The outer loop is over rows of
 * weight_ih, so each row is read from memory once. */
static void multiply_rows(void *user, int64_t first, int64_t last)
{
    const layer_t *layer = ((const one_step_t *)user)->layer;
    const int64_t rows = layer->s.g * layer->s.h, c = layer->s.c, n = layer->s.t * layer->s.n;
    for (int64_t row = first; row < last; row++) {
        const double bias = load(layer, BIAS_IH, row);
        const char *weight = at(layer, WEIGHT_IH, row * c);
        for (int64_t i = 0; i < n; i++)
            store(layer, PRODUCTS, i * rows + row,
                  bias + layer->dot(at(layer, XS, i * c), weight, c));
    }
}

static void multiply_inputs(context_t *ctx, const layer_t *layer)
{
    const int64_t rows = layer->s.g * layer->s.h, n = layer->s.t * layer->s.n;
    one_step_t all = {layer, 0};
    threads_share(threads_for(ctx, n * rows * (layer->s.c + 1)), rows, multiply_rows, &all);
}

/* Computes the pre-activations of gates [first, last) for element j of sequence n at time t.
 * `state` is the block by which weight_hh is multiplied: H, or KEPT for r * h. */
static void fill_gates(const layer_t *layer, int64_t t, int64_t n, int64_t j, int first, int last,
                       int state, recurrent_unit_t *unit)
{
    const int64_t h = layer->s.h;
    const int64_t products = recurrent_row(layer->attrs, &layer->s, t, n) * layer->s.g * h;
    const char *from = at(layer, state, n * h);
    for (int g = first; g < last; g++) {
        const int64_t row = g * h + j;
        unit->x[g] = load(layer, PRODUCTS, products + row);
        unit->h[g] = load(layer, BIAS_HH, row) + layer->dot(from, at(layer, WEIGHT_HH, row * h), h);
    }
}

/* Computes r * h of one step into KEPT, for a gru with reset_before. */
static void reset_units(void *user, int64_t first, int64_t last)
{
    const layer_t *layer = ((const one_step_t *)user)->layer;
    const int64_t h = layer->s.h, step = ((const one_step_t *)user)->step;
    for (int64_t i = first; i < last; i++) {
        const int64_t j = i / layer->s.n, n = i % layer->s.n;
        recurrent_unit_t unit;
        if (step >= layer->lengths[n]) continue;
        fill_gates(layer, recurrent_time(layer->attrs, layer->lengths[n], step), n, j, 0, 1, H,
                   &unit);
        store(layer, KEPT, n * h + j,
              recurrent_reset(layer->attrs, &unit) * load(layer, H, n * h + j));
    }
}

static void reset(context_t *ctx, const layer_t *layer, int64_t step)
{
    const int64_t h = layer->s.h, n_units = layer->s.n * h;
    one_step_t one = {layer, step};
    threads_share(threads_for(ctx, n_units * h), n_units, reset_units, &one);
}

/* Advances element j of sequence n by one step. After the end of the sequence, y is 0 and the state
 * does not change. */
static void step_unit(const layer_t *layer, int64_t step, int64_t n, int64_t j)
{
    const int64_t h = layer->s.h, own = n * h + j;
    const int n_gates = (int)layer->s.g, n_before = layer->is_reset_before ? 2 : n_gates;
    const bool is_inside = step < layer->lengths[n];
    const int64_t t = is_inside ? recurrent_time(layer->attrs, layer->lengths[n], step) : step;
    recurrent_unit_t unit = {.old_h = load(layer, H, own), .old_c = load(layer, C, own)};
    double next = unit.old_h, c = unit.old_c;
    if (is_inside) {
        fill_gates(layer, t, n, j, 0, n_before, H, &unit);
        fill_gates(layer, t, n, j, n_before, n_gates, KEPT, &unit);
        for (int i = 0; i < 3; i++) unit.peephole[i] = load(layer, PEEPHOLE, i * h + j);
        next = recurrent_step(layer->cell, layer->attrs, &unit, &c);
    }
    store(layer, NEXT_H, own, next);
    store(layer, C, own, c);
    const int64_t place = recurrent_row(layer->attrs, &layer->s, t, n) * h + j;
    dtype_store(layer->dtype, layer->y + (size_t)place * dtype_size(layer->dtype),
                is_inside ? next : 0.0);
}

/* Computes a range of state elements in one step. The inner index is that of the sequence, so that
 * an element's weight rows, read for one sequence, are still in the cache for the next. */
static void step_units(void *user, int64_t first, int64_t last)
{
    const layer_t *layer = ((const one_step_t *)user)->layer;
    const int64_t step = ((const one_step_t *)user)->step;
    for (int64_t i = first; i < last; i++) step_unit(layer, step, i % layer->s.n, i / layer->s.n);
}

static void step_all(context_t *ctx, layer_t *layer, int64_t step)
{
    const int64_t n_units = layer->s.n * layer->s.h;
    one_step_t one = {layer, step};
    threads_share(threads_for(ctx, n_units * layer->s.h), n_units, step_units, &one);
    char *next = layer->blocks[NEXT_H];
    layer->blocks[NEXT_H] = layer->blocks[H];
    layer->blocks[H] = next;
}

static status_t recurrent_native_run(context_t *ctx, const prepared_t *prepared, void *const *in,
                                     void *const *out, void *scratch)
{
    layer_t layer;
    TRY(begin(ctx, prepared, in, out, scratch, &layer));
    const int64_t n = layer.s.n * layer.s.h;
    multiply_inputs(ctx, &layer);
    for (int64_t step = 0; step < layer.s.t; step++) {
        if (layer.is_reset_before) reset(ctx, &layer, step);
        step_all(ctx, &layer, step);
    }
    dtype_cast(n, layer.number, layer.blocks[H], 1, layer.dtype, out[RECURRENT_H], 1);
    if (layer.cell == RECURRENT_LSTM)
        dtype_cast(n, layer.number, layer.blocks[C], 1, layer.dtype, out[RECURRENT_C], 1);
    return STATUS_OK;
}

const kernel_t recurrent_native = {
    .name = "native", .prepare = recurrent_native_prepare, .run = recurrent_native_run};
