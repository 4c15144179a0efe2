/* Specification of recurrent gradients, by forward-mode differentiation: runs the layer on values
 * together with their derivatives with respect to one element of an operand. The element's gradient
 * is the sum over all result elements of derivative times gradient. */
#include <math.h>
#include <string.h>

#include "ops/recurrent/recurrent_impl.h"
#include "tensor/context_impl.h"

/* A value and its derivative. */
typedef struct dual {
    double v, d;
} dual_t;

static dual_t add(dual_t a, dual_t b)
{
    return (dual_t){a.v + b.v, a.d + b.d};
}

static dual_t mul(dual_t a, dual_t b)
{
    return (dual_t){a.v * b.v, a.v * b.d + a.d * b.v};
}

static dual_t one_minus(dual_t a)
{
    return (dual_t){1.0 - a.v, -a.d};
}

static dual_t apply(const recurrent_activation_t *activation, double clip, dual_t x)
{
    return (dual_t){recurrent_value(activation, clip, x.v),
                    recurrent_slope(activation, clip, x.v) * x.d};
}

typedef struct sequence {
    const spec_call_t *call;
    const recurrent_attrs_t *attrs;
    recurrent_sizes_t s;
    int operand; /* derivatives are with respect to `element` of it */
    const int64_t *element;
    int64_t n;
    dual_t *h, *next, *c; /* [H] */
} sequence_t;

/* Reads an element of an operand; 0 if the operand is absent. */
static dual_t read(const sequence_t *q, int operand, int rank, const int64_t *index)
{
    dual_t number = {0.0, 0.0};
    if (spec_has(q->call, operand)) number.v = spec_at(q->call, operand, index);
    if (operand == q->operand && memcmp(index, q->element, (size_t)rank * sizeof *index) == 0)
        number.d = 1.0;
    return number;
}

static dual_t product_x(const sequence_t *q, int64_t t, int64_t row)
{
    const bool batch_first = q->attrs->batch_first;
    dual_t sum = read(q, RECURRENT_BIAS_IH, 1, &row);
    for (int64_t i = 0; i < q->s.c; i++) {
        const int64_t at[] = {batch_first ? q->n : t, batch_first ? t : q->n, i};
        const int64_t at_weight[] = {row, i};
        sum = add(sum,
                  mul(read(q, RECURRENT_X, 3, at), read(q, RECURRENT_WEIGHT_IH, 2, at_weight)));
    }
    return sum;
}

static dual_t product_h(const sequence_t *q, int64_t row)
{
    dual_t sum = read(q, RECURRENT_BIAS_HH, 1, &row);
    for (int64_t i = 0; i < q->s.h; i++) {
        const int64_t at_weight[] = {row, i};
        sum = add(sum, mul(q->h[i], read(q, RECURRENT_WEIGHT_HH, 2, at_weight)));
    }
    return sum;
}

static dual_t gate(const sequence_t *q, int64_t t, int64_t g, int64_t j)
{
    const int64_t row = g * q->s.h + j;
    return add(product_x(q, t, row), product_h(q, row));
}

static dual_t peephole(const sequence_t *q, int64_t which, int64_t j, dual_t c)
{
    const int64_t at = which * q->s.h + j;
    return mul(read(q, RECURRENT_PEEPHOLE, 1, &at), c);
}

static dual_t step_lstm(const sequence_t *q, int64_t t, int64_t j)
{
    const recurrent_attrs_t *attrs = q->attrs;
    const double clip = attrs->clip;
    const dual_t old = q->c[j];
    dual_t input = apply(&attrs->gate, clip, add(gate(q, t, 0, j), peephole(q, 0, j, old)));
    dual_t forget = attrs->input_forget
                        ? one_minus(input)
                        : apply(&attrs->gate, clip, add(gate(q, t, 1, j), peephole(q, 1, j, old)));
    dual_t fresh = apply(&attrs->candidate, clip, gate(q, t, 2, j));
    dual_t c = add(mul(forget, old), mul(input, fresh));
    dual_t output = apply(&attrs->gate, clip, add(gate(q, t, 3, j), peephole(q, 2, j, c)));
    q->c[j] = c;
    return mul(output, apply(&attrs->output, 0.0, c));
}

static dual_t step_gru(const sequence_t *q, int64_t t, int64_t j)
{
    const recurrent_attrs_t *attrs = q->attrs;
    const int64_t row = 2 * q->s.h + j;
    dual_t reset = apply(&attrs->gate, attrs->clip, gate(q, t, 0, j));
    dual_t update = apply(&attrs->gate, attrs->clip, gate(q, t, 1, j));
    dual_t fresh = apply(&attrs->candidate, attrs->clip,
                         add(product_x(q, t, row), mul(reset, product_h(q, row))));
    return add(mul(one_minus(update), fresh), mul(update, q->h[j]));
}

static dual_t step(const sequence_t *q, int64_t t, int64_t j)
{
    switch ((recurrent_cell_t)q->call->op->variant) {
    case RECURRENT_LSTM: return step_lstm(q, t, j);
    case RECURRENT_GRU: return step_gru(q, t, j);
    case RECURRENT_RNN: break;
    }
    return apply(&q->attrs->candidate, q->attrs->clip, gate(q, t, 0, j));
}

/* `derivative` of a result element, times the element's gradient. */
static double term(const sequence_t *q, int result, const int64_t *index, double derivative)
{
    const int operand = recurrent_grad(q->call->op) + result;
    return spec_has(q->call, operand) ? spec_at(q->call, operand, index) * derivative : 0.0;
}

static double run(sequence_t *q)
{
    const spec_call_t *call = q->call;
    int64_t length = q->s.t;
    double sum = 0.0;
    if (spec_has(call, RECURRENT_LENGTHS))
        length = (int64_t)spec_at(call, RECURRENT_LENGTHS, &q->n);
    const bool is_lstm = call->op->variant == RECURRENT_LSTM;
    for (int64_t j = 0; j < q->s.h; j++) {
        const int64_t at[] = {q->n, j};
        q->h[j] = read(q, RECURRENT_H0, 2, at);
        q->c[j] = is_lstm ? read(q, RECURRENT_C0, 2, at) : (dual_t){0.0, 0.0};
    }
    for (int64_t i = 0; i < length; i++) {
        const int64_t t = recurrent_time(q->attrs, length, i);
        for (int64_t j = 0; j < q->s.h; j++) q->next[j] = step(q, t, j);
        memcpy(q->h, q->next, (size_t)q->s.h * sizeof *q->h);
        for (int64_t j = 0; j < q->s.h; j++) {
            const bool batch_first = q->attrs->batch_first;
            const int64_t at[] = {batch_first ? q->n : t, batch_first ? t : q->n, j};
            sum += term(q, RECURRENT_Y, at, q->h[j].d);
        }
    }
    for (int64_t j = 0; j < q->s.h; j++) {
        const int64_t at[] = {q->n, j};
        sum += term(q, RECURRENT_H, at, q->h[j].d);
        if (is_lstm) sum += term(q, RECURRENT_C, at, q->c[j].d);
    }
    return sum;
}

double recurrent_backward_spec(const spec_call_t *call, int output, const int64_t *index)
{
    static const int operand_of[RECURRENT_N_DIFFS] = {
        RECURRENT_X,       RECURRENT_WEIGHT_IH, RECURRENT_WEIGHT_HH, RECURRENT_BIAS_IH,
        RECURRENT_BIAS_HH, RECURRENT_H0,        RECURRENT_C0,        RECURRENT_PEEPHOLE};
    const recurrent_attrs_t *attrs = call->attrs;
    sequence_t q = {
        .call = call,
        .attrs = attrs,
        .s = recurrent_sizes(call->op, attrs, call->in[RECURRENT_X], call->in[RECURRENT_WEIGHT_HH]),
        .operand = operand_of[output],
        .element = index};
    int64_t first = 0, last = q.s.n; /* sequences that depend on the element */
    if (output == RECURRENT_DIFF_X) first = index[attrs->batch_first ? 0 : 1];
    if (output == RECURRENT_DIFF_H0 || output == RECURRENT_DIFF_C0) first = index[0];
    if (output == RECURRENT_DIFF_X || output == RECURRENT_DIFF_H0 || output == RECURRENT_DIFF_C0)
        last = first + 1;
    dual_t *memory = allocator_get(allocator_default(), (size_t)(3 * q.s.h) * sizeof *memory);
    if (memory == NULL) return NAN;
    q.h = memory;
    q.next = memory + q.s.h;
    q.c = memory + 2 * q.s.h;
    double sum = 0.0;
    for (q.n = first; q.n < last; q.n++) sum += run(&q);
    allocator_put(allocator_default(), memory);
    return sum;
}
