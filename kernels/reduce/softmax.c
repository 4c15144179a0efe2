#include "kernels/reduce/softmax_impl.h"

#include <math.h>

#include "tensor/threads/threads_impl.h"

#define NARROW 2048 /* longest row of bf16 or f16 that is converted to f32 on the stack */

static const softmax_loops_t *const tables[ISA_COUNT] = ISA_TABLE(softmax);

/* A call. A unit of work is one softmax over n elements, or for f32 up to `width` adjacent ones. */
typedef struct run {
    const softmax_t *softmax;
    const softmax_loops_t *loops;
    int64_t width, n_parts; /* parts of `width` elements of the inner dimension */
    const char *x, *grad;   /* in the backward pass, x is y; else grad is NULL */
    char *out;
} run_t;

static run_t run_of(const softmax_t *softmax, isa_t isa, const void *x, const void *grad, void *out)
{
    const int64_t width = softmax->dtype == DTYPE_F32 ? SOFTMAX_COLUMNS : 1;
    const int64_t n_parts = (softmax->inner + width - 1) / width;
    return (run_t){softmax, tables[isa], width, n_parts, x, grad, out};
}

/* One column of any dtype, in double. */
static void run_column(const softmax_t *s, const char *src, char *dst)
{
    const int64_t step = s->inner * (int64_t)dtype_size(s->dtype);
    double largest = -INFINITY, sum = 0.0;
    for (int64_t a = 0; a < s->n; a++) {
        double x = dtype_load(s->dtype, src + a * step);
        if (x > largest || isnan(x)) largest = x;
    }
    for (int64_t a = 0; a < s->n; a++) sum += exp(dtype_load(s->dtype, src + a * step) - largest);
    for (int64_t a = 0; a < s->n; a++) {
        double difference = dtype_load(s->dtype, src + a * step) - largest;
        dtype_store(s->dtype, dst + a * step,
                    s->is_logarithm ? difference - log(sum) : exp(difference) / sum);
    }
}

/* The gradient of one column of any dtype, in double: y (grad - sum(grad y)); for the logarithm
 * grad - exp(y) sum(grad). */
static void pass_column(const softmax_t *s, const char *y, const char *grad, char *dst)
{
    const int64_t step = s->inner * (int64_t)dtype_size(s->dtype);
    double sum = 0.0;
    for (int64_t a = 0; a < s->n; a++)
        sum += dtype_load(s->dtype, grad + a * step) *
               (s->is_logarithm ? 1.0 : dtype_load(s->dtype, y + a * step));
    for (int64_t a = 0; a < s->n; a++) {
        const double element = dtype_load(s->dtype, y + a * step);
        const double given = dtype_load(s->dtype, grad + a * step);
        dtype_store(s->dtype, dst + a * step,
                    s->is_logarithm ? given - exp(element) * sum : element * (given - sum));
    }
}

static void run_row(const run_t *run, const float *src, const float *grad, float *dst)
{
    const softmax_t *s = run->softmax;
    if (grad == NULL)
        run->loops->row(s->is_logarithm, s->n, src, dst);
    else
        run->loops->row_gradient(s->is_logarithm, s->n, src, grad, dst);
}

static void run_columns(const run_t *run, int64_t width, const float *src, const float *grad,
                        float *dst)
{
    const softmax_t *s = run->softmax;
    if (grad == NULL)
        run->loops->columns(s->is_logarithm, s->n, s->inner, width, src, dst);
    else
        run->loops->column_gradients(s->is_logarithm, s->n, s->inner, width, src, grad, dst);
}

/* Runs a unit of work. grad is NULL in the forward pass. */
static void run_part(const run_t *run, int64_t width, const void *src, const void *grad, void *dst)
{
    const softmax_t *s = run->softmax;
    float wide[NARROW], other[NARROW];
    if (s->dtype == DTYPE_F32 && s->inner == 1) {
        run_row(run, src, grad, dst);
    } else if (s->dtype == DTYPE_F32) {
        run_columns(run, width, src, grad, dst);
    } else if (s->dtype != DTYPE_F64 && s->n <= NARROW) {
        dtype_cast(s->n, s->dtype, src, s->inner, DTYPE_F32, wide, 1);
        if (grad != NULL) dtype_cast(s->n, s->dtype, grad, s->inner, DTYPE_F32, other, 1);
        run_row(run, wide, grad != NULL ? other : NULL, other);
        dtype_cast(s->n, DTYPE_F32, other, 1, s->dtype, dst, s->inner);
    } else if (grad == NULL) {
        run_column(s, src, dst);
    } else {
        pass_column(s, src, grad, dst);
    }
}

static void run_parts(void *user, int64_t begin, int64_t end)
{
    const run_t *run = user;
    const softmax_t *s = run->softmax;
    for (int64_t i = begin; i < end; i++) {
        const int64_t first = i % run->n_parts * run->width, left = s->inner - first;
        const int64_t at = (i / run->n_parts * s->n * s->inner + first) *
                           (int64_t)dtype_size(s->dtype);
        run_part(run, left < run->width ? left : run->width, run->x + at,
                 run->grad != NULL ? run->grad + at : NULL, run->out + at);
    }
}

void softmax_forward(const softmax_t *softmax, isa_t isa, int n_threads, const void *x, void *out)
{
    softmax_backward(softmax, isa, n_threads, x, NULL, out);
}

void softmax_backward(const softmax_t *softmax, isa_t isa, int n_threads, const void *y,
                      const void *grad, void *out)
{
    run_t run = run_of(softmax, isa, y, grad, out);
    threads_share(n_threads, softmax->outer * run.n_parts, run_parts, &run);
}

/* ---- parts of softmax that other kernels use ---- */

static void spread_rows(void *user, int64_t first, int64_t last)
{
    const run_t *run = user;
    const int64_t n = run->softmax->n;
    for (int64_t i = first; i < last; i++)
        if (run->softmax->dtype == DTYPE_F32)
            run->loops->spread_nan_f32(n, (float *)(void *)run->out + i * n);
        else
            run->loops->spread_nan_bf16(n, (uint16_t *)(void *)run->out + i * n);
}

void softmax_spread_nan(const softmax_t *softmax, isa_t isa, int n_threads, void *out)
{
    run_t run = run_of(softmax, isa, NULL, NULL, out);
    threads_share(n_threads, softmax->outer, spread_rows, &run);
}

float softmax_exponentials(isa_t isa, int64_t n, const float *src, float *dst, float *out_largest)
{
    return tables[isa]->exponentials(n, src, dst, out_largest);
}
