/* The loops of batch_norm_loops.c for the type NUMBER. There is no include guard, because
 * batch_norm_loops.c includes this file once for each type. */

static void NUMBER_NAME(moments)(const lines_t *lines, const void *x, double *means,
                                 double *squares)
{
    NUMBER center[STRIP_LANES], sum[STRIP_LANES], square[STRIP_LANES];
    const NUMBER *restrict src = (const NUMBER *)x + lines->offset;
    const int64_t n = lines->lanes, step = lines->step;
    for (int64_t l = 0; l < n; l++) center[l] = sum[l] = square[l] = 0;
    for (int64_t i = 0; i < lines->n; i++)
        for (int64_t l = 0; l < n; l++) center[l] += src[i * step + l];
    for (int64_t l = 0; l < n; l++) center[l] /= (NUMBER)lines->n;
    for (int64_t i = 0; i < lines->n; i++)
        for (int64_t l = 0; l < n; l++) {
            const NUMBER d = src[i * step + l] - center[l];
            sum[l] += d;
            square[l] += d * d;
        }
    const double factor = 1.0 / (double)lines->n;
    for (int64_t l = 0; l < n; l++) {
        const double mean = (double)sum[l] * factor;
        means[l] = (double)center[l] + mean;
        squares[l] = (double)square[l] - (double)sum[l] * mean;
    }
}

/* g if the pre-activation v is in the activation's range, otherwise 0. */
KERNEL_INLINE NUMBER NUMBER_NAME(passed)(bool is_activated, NUMBER g, NUMBER v, NUMBER high)
{
    return is_activated && ((v <= 0) | (v >= high)) ? 0 : g;
}

KERNEL_INLINE void NUMBER_NAME(add)(const lines_t *lines, bool is_activated, const void *x,
                                    const void *g, const NUMBER *restrict factors, double *sums,
                                    double *dots)
{
    NUMBER sum[STRIP_LANES], dot[STRIP_LANES];
    const NUMBER *restrict src = (const NUMBER *)x + lines->offset;
    const NUMBER *restrict grad = (const NUMBER *)g + lines->offset;
    const NUMBER *center = factors + BATCH_CENTER * STRIP_LANES;
    const NUMBER *a = factors + BATCH_A * STRIP_LANES, *shift = factors + BATCH_SHIFT * STRIP_LANES;
    const NUMBER high = factors[BATCH_HIGH * STRIP_LANES];
    const int64_t n = lines->lanes;
    for (int64_t l = 0; l < n; l++) sum[l] = dot[l] = 0;
    for (int64_t i = 0; i < lines->n; i++, src += lines->step, grad += lines->step)
        for (int64_t l = 0; l < n; l++) {
            const NUMBER way = src[l] - center[l];
            const NUMBER v = NUMBER_NAME(passed)(is_activated, grad[l], way * a[l] + shift[l],
                                                 high);
            sum[l] += v;
            dot[l] += v * way;
        }
    for (int64_t l = 0; l < n; l++) {
        sums[l] = (double)sum[l];
        dots[l] = (double)dot[l];
    }
}

/* Each call passes is_activated as a constant, here and below, so that no loop tests it. */
static void NUMBER_NAME(dots)(const lines_t *lines, bool is_activated, const void *x, const void *g,
                              const void *factors, double *sums, double *dots)
{
    if (is_activated)
        NUMBER_NAME(add)(lines, true, x, g, factors, sums, dots);
    else
        NUMBER_NAME(add)(lines, false, x, g, factors, sums, dots);
}

KERNEL_INLINE void NUMBER_NAME(scale_by)(const lines_t *lines, bool is_activated, const void *x,
                                         const NUMBER *factors, void *y)
{
    const NUMBER *center = factors + BATCH_CENTER * STRIP_LANES;
    const NUMBER *a = factors + BATCH_A * STRIP_LANES, *b = factors + BATCH_B * STRIP_LANES;
    const NUMBER high = factors[BATCH_HIGH * STRIP_LANES];
    const NUMBER *src = (const NUMBER *)x + lines->offset;
    NUMBER *dst = (NUMBER *)y + lines->offset;
    for (int64_t i = 0; i < lines->n; i++, src += lines->step, dst += lines->step)
#pragma omp simd
        for (int64_t l = 0; l < lines->lanes; l++) {
            const NUMBER v = (src[l] - center[l]) * a[l] + b[l];
            dst[l] = !is_activated ? v : v < 0 ? 0 : v > high ? high : v;
        }
}

static void NUMBER_NAME(scale)(const lines_t *lines, bool is_activated, const void *x,
                               const void *factors, void *y)
{
    if (is_activated)
        NUMBER_NAME(scale_by)(lines, true, x, factors, y);
    else
        NUMBER_NAME(scale_by)(lines, false, x, factors, y);
}

KERNEL_INLINE void NUMBER_NAME(combine_by)(const lines_t *lines, bool is_activated, const void *x,
                                           const void *g, const NUMBER *factors, void *y)
{
    const NUMBER *center = factors + BATCH_CENTER * STRIP_LANES;
    const NUMBER *a = factors + BATCH_A * STRIP_LANES, *b = factors + BATCH_B * STRIP_LANES;
    const NUMBER *c = factors + BATCH_C * STRIP_LANES, *shift = factors + BATCH_SHIFT * STRIP_LANES;
    const NUMBER high = factors[BATCH_HIGH * STRIP_LANES];
    const NUMBER *src = (const NUMBER *)x + lines->offset;
    const NUMBER *grad = (const NUMBER *)g + lines->offset;
    NUMBER *dst = (NUMBER *)y + lines->offset;
    const int64_t step = lines->step;
    for (int64_t i = 0; i < lines->n; i++, src += step, grad += step, dst += step)
#pragma omp simd
        for (int64_t l = 0; l < lines->lanes; l++) {
            const NUMBER way = src[l] - center[l];
            const NUMBER v = NUMBER_NAME(passed)(is_activated, grad[l], way * a[l] + shift[l],
                                                 high);
            dst[l] = v * a[l] + way * b[l] + c[l];
        }
}

static void NUMBER_NAME(combine)(const lines_t *lines, bool is_activated, const void *x,
                                 const void *g, const void *factors, void *y)
{
    if (is_activated)
        NUMBER_NAME(combine_by)(lines, true, x, g, factors, y);
    else
        NUMBER_NAME(combine_by)(lines, false, x, g, factors, y);
}
