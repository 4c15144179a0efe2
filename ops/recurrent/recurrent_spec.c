/* Specification of the recurrent operators: computes a single sequence, step by step. */
#include <math.h>
#include <string.h>

#include "ops/recurrent/recurrent_impl.h"
#include "tensor/context_impl.h"

/* State of one sequence before and after a step. */
typedef struct sequence {
    const spec_call_t *call;
    recurrent_sizes_t s;
    int64_t n;
    double *h, *c, *next_h, *kept; /* [H]; kept: reset gate * h */
    double n_reads;                /* lower bound of the number of operand elements that are read */
    double x_error, h_error;       /* rounding_error of x and of h in this step */
} sequence_t;

static double bias(const spec_call_t *call, int operand, int64_t row)
{
    return spec_has(call, operand) ? spec_at(call, operand, &row) : 0.0;
}

/* Scale or zero point of a row; the operand has one element for all rows or one per row. */
static double part_at(const spec_call_t *call, int operand, int64_t row)
{
    const int64_t at = info_numel(call->in[operand]) == 1 ? 0 : row;
    return spec_at(call, operand, &at);
}

/* Weight element; integer weights are dequantized. */
static double weight(const spec_call_t *call, int operand, int64_t row, int64_t i)
{
    const double element = spec_at(call, operand, (int64_t[]){row, i});
    const int scale = operand - RECURRENT_WEIGHT_IH + RECURRENT_SCALE_IH;
    const int zero = operand - RECURRENT_WEIGHT_IH + RECURRENT_ZERO_IH;
    if (dtype_is_floating(call->in[operand]->dtype)) return element;
    return (element - (spec_has(call, zero) ? part_at(call, zero, row) : 0.0)) *
           part_at(call, scale, row);
}

/* lstm_quantized rounds the n elements of a row to integers from -most to most, so that sums of
 * products fit in 32 bits. Returns the argument of spec_rounding that adds 6 standard deviations of
 * this rounding error to the error bound. The error is uniform, so its standard deviation is its
 * maximum, largest / (2 * most), divided by sqrt(3). dispatch_error_bound multiplies all changes by
 * `roundings`, so the result is divided by it. */
static double rounding_error(const sequence_t *q, int64_t n, double largest)
{
    const double most = fmin(32767.0, floor(0x7fffffff / (256.0 * (double)n)));
    const double roundings = (8.0 + sqrt(q->n_reads)) * dtype_epsilon(DTYPE_F32);
    return 6.0 / sqrt(3.0) * largest / (2.0 * most) / roundings;
}

static void find_errors(sequence_t *q, int64_t t)
{
    const bool batch_first = ((const recurrent_attrs_t *)q->call->attrs)->batch_first;
    spec_call_t plain = *q->call;
    double largest_x = 0.0, largest_h = 0.0;
    plain.probe = NULL;
    for (int64_t i = 0; i < q->s.c; i++) {
        int64_t at[] = {batch_first ? q->n : t, batch_first ? t : q->n, i};
        largest_x = fmax(largest_x, fabs(spec_at(&plain, RECURRENT_X, at)));
    }
    for (int64_t i = 0; i < q->s.h; i++) largest_h = fmax(largest_h, fabs(q->h[i]));
    q->x_error = rounding_error(q, q->s.c, largest_x);
    q->h_error = rounding_error(q, q->s.h, largest_h);
}

static double product_x(const sequence_t *q, int64_t t, int64_t row)
{
    const bool batch_first = ((const recurrent_attrs_t *)q->call->attrs)->batch_first;
    double sum = bias(q->call, RECURRENT_BIAS_IH, row);
    for (int64_t i = 0; i < q->s.c; i++) {
        int64_t at[] = {batch_first ? q->n : t, batch_first ? t : q->n, i};
        const double x = spec_at(q->call, RECURRENT_X, at) +
                         spec_rounding(q->call, (int)(t * q->s.c + i), q->x_error);
        sum += x * weight(q->call, RECURRENT_WEIGHT_IH, row, i);
    }
    return sum;
}

static double product_h(const sequence_t *q, int64_t t, const double *h, int64_t row)
{
    double sum = bias(q->call, RECURRENT_BIAS_HH, row);
    for (int64_t i = 0; i < q->s.h; i++) {
        const int which = (int)(q->s.t * q->s.c + t * q->s.h + i);
        sum += (h[i] + spec_rounding(q->call, which, q->h_error)) *
               weight(q->call, RECURRENT_WEIGHT_HH, row, i);
    }
    return sum;
}

/* Computes the pre-activations of element j for the gates from `first` on. */
static void fill_unit(const sequence_t *q, int64_t t, int64_t j, int64_t first, const double *h,
                      recurrent_unit_t *unit)
{
    for (int64_t g = first; g < q->s.g; g++) {
        unit->x[g] = product_x(q, t, g * q->s.h + j);
        unit->h[g] = product_h(q, t, h, g * q->s.h + j);
    }
}

static void step(const sequence_t *q, int64_t t)
{
    const spec_call_t *call = q->call;
    const recurrent_attrs_t *attrs = call->attrs;
    const recurrent_cell_t cell = (recurrent_cell_t)call->op->variant;
    const bool has_peephole = call->op->n_operands == RECURRENT_N_OPERANDS &&
                              spec_has(call, RECURRENT_PEEPHOLE);
    const bool is_reset_before = cell == RECURRENT_GRU && attrs->reset_before;
    recurrent_unit_t unit;
    for (int64_t j = 0; is_reset_before && j < q->s.h; j++) {
        fill_unit(q, t, j, 0, q->h, &unit);
        q->kept[j] = recurrent_reset(attrs, &unit) * q->h[j];
    }
    for (int64_t j = 0; j < q->s.h; j++) {
        memset(&unit, 0, sizeof unit);
        fill_unit(q, t, j, 0, q->h, &unit);
        if (is_reset_before) fill_unit(q, t, j, 2, q->kept, &unit);
        for (int64_t i = 0; has_peephole && i < 3; i++)
            unit.peephole[i] = spec_at(call, RECURRENT_PEEPHOLE, (int64_t[]){i * q->s.h + j});
        unit.old_h = q->h[j];
        unit.old_c = q->c[j];
        q->next_h[j] = recurrent_step(cell, attrs, &unit, &q->c[j]);
    }
    memcpy(q->h, q->next_h, (size_t)q->s.h * sizeof *q->h);
}

static double run(sequence_t *q, int output, const int64_t *index)
{
    const spec_call_t *call = q->call;
    const recurrent_attrs_t *attrs = call->attrs;
    int64_t length = q->s.t, until = -1, j = index[1];
    if (spec_has(call, RECURRENT_LENGTHS))
        length = (int64_t)spec_at(call, RECURRENT_LENGTHS, &q->n);
    if (output == RECURRENT_Y) {
        until = index[attrs->batch_first ? 1 : 0];
        j = index[2];
        if (until >= length) return 0.0;
    }
    for (int64_t i = 0; i < q->s.h; i++) {
        int64_t at[] = {q->n, i};
        q->h[i] = spec_has(call, RECURRENT_H0) ? spec_at(call, RECURRENT_H0, at) : 0.0;
        q->c[i] = spec_has(call, RECURRENT_C0) ? spec_at(call, RECURRENT_C0, at) : 0.0;
    }
    const bool is_rounded = !dtype_is_floating(call->in[RECURRENT_WEIGHT_IH]->dtype);
    const int64_t n_steps = until < 0 ? length : recurrent_time(attrs, length, until) + 1;
    q->n_reads = (double)(n_steps * q->s.g * q->s.h) * (double)(2 * q->s.c + q->s.h);
    for (int64_t i = 0; i < length; i++) {
        int64_t t = recurrent_time(attrs, length, i);
        if (is_rounded && call->probe != NULL) find_errors(q, t);
        step(q, t);
        if (t == until) break;
    }
    return output == RECURRENT_C ? q->c[j] : q->h[j];
}

double recurrent_spec(const spec_call_t *call, int output, const int64_t *index)
{
    const recurrent_attrs_t *attrs = call->attrs;
    sequence_t q = {
        .call = call,
        .s = recurrent_sizes(call->op, attrs, call->in[RECURRENT_X], call->in[RECURRENT_WEIGHT_HH]),
        .n = index[output == RECURRENT_Y && !attrs->batch_first ? 1 : 0]};
    double *memory = allocator_get(allocator_default(), (size_t)(4 * q.s.h) * sizeof *memory);
    if (memory == NULL) return NAN;
    q.h = memory;
    q.c = memory + q.s.h;
    q.next_h = memory + 2 * q.s.h;
    q.kept = memory + 3 * q.s.h;
    double result = run(&q, output, index);
    allocator_put(allocator_default(), memory);
    return result;
}
