/* Decides which layers use Strassen's algorithm, and measures the rounding error. */
#include "ops/linear/strassen_impl.h"

#include <math.h>
#include <string.h>

#include "kernels/linear/product_impl.h"
#include "ops/sample_impl.h"
#include "tensor/context_impl.h"

#define LEAST_LANES                                                                                \
    16 /* with narrower vectors, direct products are as fast: measured with AVX2 on Zen 4 */
#define LEAST_ROWS 32 /* with fewer rows, sums of quarters of the weight cost too much */

bool strassen_suits(int64_t n_inputs, int64_t n_outputs, int64_t n_rows)
{
    return n_rows >= LEAST_ROWS && strassen_fits(n_inputs, n_outputs, ISA_AVX512);
}

status_t strassen_accept(prepared_t *prepared, int64_t n_inputs, int64_t n_outputs, int64_t n_rows,
                         bool is_only)
{
    const isa_t isa = isa_best();
    if (!strassen_fits(n_inputs, n_outputs, isa))
        return prepared_decline(prepared, "strassen: multiples of %d inputs and %d outputs only",
                                2 * isa_lanes(isa), 2 * STRASSEN_VECTORS * isa_lanes(isa));
    prepared->is_asked_for = is_only;
    if (is_only) return STATUS_OK;
    if (isa_lanes(isa) < LEAST_LANES)
        return prepared_decline(prepared, "strassen: vectors of %d or more", LEAST_LANES);
    if (n_rows < LEAST_ROWS) return prepared_decline(prepared, "strassen: few rows");
    return STATUS_OK;
}

/* ---- errors ---- */

enum { N_ROWS = 4 };

typedef struct sample {
    strassen_t strassen;
    isa_t isa;
    int64_t step; /* the sample has each step-th output of the layer */
    const float *plain;
    float *x, *weight, *out;
    void *scratch;
} sample_t;

/* Row of the layer's weight for an output of the sample. Outputs of the sample are evenly spaced,
 * so each half of them comes from the same half of the layer. */
static const float *plain_row(const sample_t *s, int64_t output)
{
    return s->plain + output * s->step * s->strassen.n_inputs;
}

/* Returns true if all elements are finite. In Strassen's sums of quarters, an infinite weight of
 * one output would change other outputs, too. */
static bool is_finite(int64_t n, const float *elements)
{
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(elements[i])) return false;
    return true;
}

static double compare(const sample_t *s)
{
    const int64_t n_inputs = s->strassen.n_inputs, n_outputs = s->strassen.n_outputs;
    sample_error_t error = {0.0, 0.0};
    for (int64_t r = 0; r < N_ROWS; r++)
        for (int64_t o = 0; o < n_outputs; o++) {
            const float *weight = plain_row(s, o), *x = s->x + r * n_inputs;
            double sum = 0.0;
            for (int64_t i = 0; i < n_inputs; i++) sum += (double)x[i] * (double)weight[i];
            sample_add(&error, (double)s->out[r * n_outputs + o] - sum, sum);
        }
    return sample_ratio(&error);
}

static status_t allocate(context_t *ctx, sample_t *s)
{
    static const char purpose[] = "a sample of a layer";
    const strassen_t *of = &s->strassen;
    const int64_t n_blocks = (of->n_outputs + PRODUCT_BLOCK - 1) / PRODUCT_BLOCK;
    TRY(context_get(ctx, (size_t)(N_ROWS * of->n_inputs) * sizeof *s->x, purpose, &s->x));
    TRY(context_get(ctx, (size_t)(n_blocks * of->weight_block) * sizeof *s->weight, purpose,
                    &s->weight));
    TRY(context_get(ctx, (size_t)(N_ROWS * of->n_outputs) * sizeof *s->out, purpose, &s->out));
    return context_get(ctx, strassen_scratch(of, s->isa, 1), purpose, &s->scratch);
}

static void run(sample_t *s)
{
    strassen_t *of = &s->strassen;
    uint64_t state = 1;
    for (int64_t i = 0; i < N_ROWS * of->n_inputs; i++) s->x[i] = sample_draw(&state);
    for (int64_t o = 0; o < of->n_outputs; o++) {
        float *to = s->weight + o / PRODUCT_BLOCK * of->weight_block + o % PRODUCT_BLOCK;
        const float *row = plain_row(s, o);
        for (int64_t i = 0; i < of->n_inputs; i++) to[i * PRODUCT_BLOCK] = row[i];
    }
    of->x = s->x;
    of->weight = s->weight;
    of->out = s->out;
    strassen_run(of, s->isa, 1, s->scratch);
}

status_t strassen_error(context_t *ctx, int64_t n_outputs, int64_t n_inputs, const float *weight,
                        double *out_error)
{
    sample_t s = {.isa = isa_best(), .plain = weight};
    const int64_t lanes = isa_lanes(s.isa), n_sampled = 2 * STRASSEN_VECTORS * lanes;
    *out_error = INFINITY;
    if (!is_finite(n_outputs * n_inputs, weight)) return STATUS_OK;
    s.step = n_outputs / n_sampled;
    s.strassen = (strassen_t){.n_images = 1,
                              .n_rows = N_ROWS,
                              .n_inputs = n_inputs,
                              .n_outputs = n_sampled,
                              .x_row = n_inputs,
                              .x_block = lanes,
                              .line_rows = N_ROWS,
                              .weight_outputs = PRODUCT_BLOCK,
                              .weight_block = n_inputs * PRODUCT_BLOCK,
                              .out_row = n_sampled,
                              .out_block = lanes};
    status_t status = allocate(ctx, &s);
    if (status == STATUS_OK) {
        run(&s);
        *out_error = compare(&s);
    }
    CONTEXT_PUT(ctx, s.x, s.weight, s.out, s.scratch);
    return status;
}
