/* Measures the error of an lstm with Strassen's algorithm. An error in h enters the products of the
 * next step, so the error of a single product would be too small a measure. Therefore the kernel
 * runs up to 64 steps on random inputs, and its results are compared with those computed in
 * double. */
#include <math.h>
#include <string.h>

#include "kernels/recurrent/sequence_impl.h"
#include "ops/recurrent/recurrent_impl.h"
#include "ops/sample_impl.h"
#include "tensor/context_impl.h"

#define MOST_STEPS 64 /* in layers that forget, errors do not grow any more by then */

enum { N_SEQUENCES = 4 };

typedef struct sample {
    sequence_t sequence;
    isa_t isa;
    const recurrent_plain_t *plain;
    int64_t lengths[N_SEQUENCES];
    float *x, *weight_ih, *weight_hh, *y, *last; /* last: h, c */
    double *sums;                                /* [gates * elements][sequences] */
    double *state;                               /* h, then c: [elements][sequences] each */
    void *scratch;
} sample_t;

/* ---- the same steps in double ---- */

/* sums[row][s] += dot product of a weight row (n elements) and sequence s of numbers
 * [n][sequences]. */
static void add_products(int64_t n_rows, int64_t n, const float *weight, const double *numbers,
                         double *sums)
{
    for (int64_t row = 0; row < n_rows; row++, weight += n, sums += N_SEQUENCES) {
        double sum[N_SEQUENCES] = {0.0};
        for (int64_t i = 0; i < n; i++)
            for (int s = 0; s < N_SEQUENCES; s++)
                sum[s] += (double)weight[i] * numbers[i * N_SEQUENCES + s];
        for (int s = 0; s < N_SEQUENCES; s++) sums[s] += sum[s];
    }
}

static double at(const float *numbers, int64_t index)
{
    return numbers != NULL ? (double)numbers[index] : 0.0;
}

static void step_element(const sample_t *s, int64_t element, int sequence)
{
    static const recurrent_attrs_t usual = {.gate = {.function = RECURRENT_SIGMOID},
                                            .candidate = {.function = RECURRENT_TANH},
                                            .output = {.function = RECURRENT_TANH}};
    const int64_t n = s->sequence.n_elements, own = element * N_SEQUENCES + sequence;
    double *h = s->state + own, *c = h + n * N_SEQUENCES;
    recurrent_unit_t unit = {.old_h = *h, .old_c = *c};
    for (int gate = 0; gate < 4; gate++) {
        const int64_t row = gate * n + element;
        unit.x[gate] = s->sums[row * N_SEQUENCES + sequence];
        unit.h[gate] = at(s->plain->bias_ih, row) + at(s->plain->bias_hh, row);
        if (gate < 3) unit.peephole[gate] = at(s->plain->peephole, row);
    }
    *h = recurrent_step(RECURRENT_LSTM, &usual, &unit, c);
}

/* Runs the steps in double and compares each h with the kernel's y. x is scratch memory. */
static double compare(const sample_t *s, double *x)
{
    const int64_t n = s->sequence.n_elements, n_inputs = s->sequence.n_inputs, rows = 4 * n;
    sample_error_t error = {0.0, 0.0};
    memset(s->state, 0, (size_t)(2 * n * N_SEQUENCES) * sizeof *s->state);
    for (int64_t step = 0; step < s->sequence.n_steps; step++) {
        for (int64_t i = 0; i < n_inputs * N_SEQUENCES; i++)
            x[i] = (double)
                       s->x[(step * N_SEQUENCES + i % N_SEQUENCES) * n_inputs + i / N_SEQUENCES];
        memset(s->sums, 0, (size_t)(rows * N_SEQUENCES) * sizeof *s->sums);
        add_products(rows, n_inputs, s->plain->weight_ih, x, s->sums);
        add_products(rows, n, s->plain->weight_hh, s->state, s->sums);
        for (int64_t i = 0; i < n * N_SEQUENCES; i++)
            step_element(s, i / N_SEQUENCES, (int)(i % N_SEQUENCES));
        for (int64_t i = 0; i < n * N_SEQUENCES; i++) {
            const double h = s->state[i];
            const int64_t row = step * N_SEQUENCES + i % N_SEQUENCES;
            sample_add(&error, (double)s->y[row * n + i / N_SEQUENCES] - h, h);
        }
    }
    return sample_ratio(&error);
}

/* ---- the steps with the kernel ---- */

static bool are_finite(int64_t n, const float *elements)
{
    for (int64_t i = 0; i < n && elements != NULL; i++)
        if (!isfinite(elements[i])) return false;
    return true;
}

static status_t get(context_t *ctx, int64_t n, size_t bytes, void *out)
{
    return context_get(ctx, (size_t)n * bytes, "a sample of a layer", out);
}

static status_t allocate(context_t *ctx, sample_t *s, double **out_x)
{
    const sequence_t *of = &s->sequence;
    const int64_t n = of->n_elements, rows = of->n_steps * N_SEQUENCES;
    int64_t of_x = 0, of_h = 0;
    size_t scratch = 0;
    if (!sequence_halves_elements(n, of->n_inputs, &of_x) ||
        !sequence_halves_elements(n, n, &of_h) || !sequence_scratch(of, s->isa, 1, &scratch))
        return context_fail(ctx, STATUS_OUT_OF_MEMORY, "lstm: a sample overflows");
    TRY(get(ctx, of_x, sizeof(float), &s->weight_ih));
    TRY(get(ctx, of_h, sizeof(float), &s->weight_hh));
    TRY(get(ctx, rows * of->n_inputs, sizeof(float), &s->x));
    TRY(get(ctx, rows * n, sizeof(float), &s->y));
    TRY(get(ctx, 2 * n * N_SEQUENCES, sizeof(float), &s->last));
    TRY(get(ctx, 4 * n * N_SEQUENCES, sizeof(double), &s->sums));
    TRY(get(ctx, 2 * n * N_SEQUENCES, sizeof(double), &s->state));
    TRY(get(ctx, of->n_inputs * N_SEQUENCES, sizeof(double), out_x));
    return get(ctx, (int64_t)scratch, 1, &s->scratch);
}

static void run(sample_t *s)
{
    sequence_t *of = &s->sequence;
    const int64_t n = of->n_elements, lanes = isa_lanes(s->isa);
    uint64_t state = 1;
    for (int64_t i = 0; i < of->n_steps * N_SEQUENCES * of->n_inputs; i++)
        s->x[i] = sample_draw(&state);
    sequence_pack_halves(n, of->n_inputs, lanes, s->plain->weight_ih, s->weight_ih);
    sequence_pack_halves(n, n, lanes, s->plain->weight_hh, s->weight_hh);
    of->x = s->x;
    of->y = s->y;
    of->h = s->last;
    of->c = s->last + n * N_SEQUENCES;
    of->weight_ih = s->weight_ih;
    of->weight_hh = s->weight_hh;
    sequence_run(of, s->isa, 1, s->scratch);
}

status_t recurrent_strassen_error(context_t *ctx, const recurrent_sizes_t *sizes,
                                  const recurrent_plain_t *weights, double *out_error)
{
    const int64_t n = sizes->h, n_inputs = sizes->c;
    sample_t s = {.isa = isa_best(), .plain = weights};
    double *x = NULL;
    *out_error = INFINITY;
    if (!are_finite(4 * n * n_inputs, weights->weight_ih) ||
        !are_finite(4 * n * n, weights->weight_hh))
        return STATUS_OK;
    s.sequence = (sequence_t){.cell = SEQUENCE_LSTM,
                              .by_strassen = true,
                              .n_steps = sizes->t < MOST_STEPS ? sizes->t : MOST_STEPS,
                              .n_sequences = N_SEQUENCES,
                              .n_inputs = n_inputs,
                              .n_elements = n,
                              .bias_ih = weights->bias_ih,
                              .bias_hh = weights->bias_hh,
                              .peephole = weights->peephole,
                              .x_time = N_SEQUENCES * n_inputs,
                              .x_sequence = n_inputs,
                              .y_time = N_SEQUENCES * n,
                              .y_sequence = n};
    for (int i = 0; i < N_SEQUENCES; i++) s.lengths[i] = s.sequence.n_steps;
    s.sequence.lengths = s.lengths;
    status_t status = allocate(ctx, &s, &x);
    if (status == STATUS_OK) {
        run(&s);
        *out_error = compare(&s, x);
    }
    void *const all[] = {s.x, s.weight_ih, s.weight_hh, s.y, s.last, s.sums, s.state, s.scratch, x};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) context_put(ctx, all[i]);
    return status;
}
