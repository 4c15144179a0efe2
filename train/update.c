/* Each loop handles only element i of every array in iteration i, so results do not depend on the
 * number of threads or the order of elements in memory. */
#include "train/update_impl.h"

#include <math.h>
#include <stddef.h>

#include "tensor/simd_impl.h"
#include "tensor/threads_impl.h"

typedef void (*loop_t)(const update_t *update, int64_t first, int64_t last);

/* ---- SGD ---- */

FOR_EACH_ISA static void sgd(const update_t *update, int64_t first, int64_t last)
{
    const update_t u = *update;
#pragma omp simd
    for (int64_t i = first; i < last; i++) {
        const float p = u.parameter[i], g = u.gradient[i];
        u.parameter[i] = p - u.rate * (u.decay != 0.0f ? g + u.decay * p : g);
    }
}

FOR_EACH_ISA static void sgd_momentum(const update_t *update, int64_t first, int64_t last)
{
    const update_t u = *update;
    float *const buffer = u.state[0];
#pragma omp simd
    for (int64_t i = first; i < last; i++) {
        const float p = u.parameter[i];
        const float g = u.decay != 0.0f ? u.gradient[i] + u.decay * p : u.gradient[i];
        const float b = u.momentum * buffer[i] + u.blend * g;
        buffer[i] = b;
        u.parameter[i] = p - u.rate * (u.is_nesterov ? g + u.momentum * b : b);
    }
}

/* ---- Adam ---- */

/* a + weight (b - a), computed from the nearer end, as torch.lerp. From a, a much larger difference
 * would cancel b. */
static inline float lerp(float a, float b, float weight)
{
    const float difference = b - a;
    return weight < 0.5f ? a + weight * difference : b - (1.0f - weight) * difference;
}

FOR_EACH_ISA static void adam(const update_t *update, int64_t first, int64_t last)
{
    const update_t u = *update;
    float *const average = u.state[0], *const square = u.state[1];
#pragma omp simd
    for (int64_t i = first; i < last; i++) {
        const float p = u.parameter[i] * u.shrink;
        const float g = u.decay != 0.0f ? u.gradient[i] + u.decay * p : u.gradient[i];
        const float m = lerp(average[i], g, u.gain1);
        const float v = u.beta2 * square[i] + u.gain2 * g * g;
        average[i] = m;
        square[i] = v;
        u.parameter[i] = p - u.rate * m / (sqrtf(v) / u.root + u.eps);
    }
}

FOR_EACH_ISA static void adam_amsgrad(const update_t *update, int64_t first, int64_t last)
{
    const update_t u = *update;
    float *const average = u.state[0], *const square = u.state[1], *const largest = u.state[2];
#pragma omp simd
    for (int64_t i = first; i < last; i++) {
        const float p = u.parameter[i] * u.shrink;
        const float g = u.decay != 0.0f ? u.gradient[i] + u.decay * p : u.gradient[i];
        const float m = lerp(average[i], g, u.gain1);
        const float v = u.beta2 * square[i] + u.gain2 * g * g;
        const float most = largest[i] >= v ? largest[i] : v; /* NaN is kept, as in torch.maximum */
        const float kept = largest[i] != largest[i] ? largest[i] : most;
        average[i] = m;
        square[i] = v;
        largest[i] = kept;
        u.parameter[i] = p - u.rate * m / (sqrtf(kept) / u.root + u.eps);
    }
}

/* ---- RMSprop ---- */

FOR_EACH_ISA static void rmsprop(const update_t *update, int64_t first, int64_t last)
{
    const update_t u = *update;
    float *const square = u.state[0], *const buffer = u.state[1];
    const bool has_buffer = buffer != NULL;
#pragma omp simd
    for (int64_t i = first; i < last; i++) {
        const float p = u.parameter[i];
        const float g = u.decay != 0.0f ? u.gradient[i] + u.decay * p : u.gradient[i];
        const float v = u.beta2 * square[i] + u.gain2 * g * g;
        const float deviation = sqrtf(v) + u.eps;
        square[i] = v;
        if (has_buffer) buffer[i] = u.momentum * buffer[i] + g / deviation;
        u.parameter[i] = p - (has_buffer ? u.rate * buffer[i] : u.rate * g / deviation);
    }
}

FOR_EACH_ISA static void rmsprop_centered(const update_t *update, int64_t first, int64_t last)
{
    const update_t u = *update;
    float *const square = u.state[0], *const buffer = u.state[1], *const average = u.state[2];
    const bool has_buffer = buffer != NULL;
#pragma omp simd
    for (int64_t i = first; i < last; i++) {
        const float p = u.parameter[i];
        const float g = u.decay != 0.0f ? u.gradient[i] + u.decay * p : u.gradient[i];
        const float v = u.beta2 * square[i] + u.gain2 * g * g;
        const float a = lerp(average[i], g, u.gain2);
        const float deviation = sqrtf(v - a * a) + u.eps;
        square[i] = v;
        average[i] = a;
        if (has_buffer) buffer[i] = u.momentum * buffer[i] + g / deviation;
        u.parameter[i] = p - (has_buffer ? u.rate * buffer[i] : u.rate * g / deviation);
    }
}

/* ---- all tensors in one parallel region ---- */

static loop_t loop_of(update_kind_t kind, const update_t *update)
{
    switch (kind) {
    case UPDATE_SGD: return update->state[0] != NULL ? sgd_momentum : sgd;
    case UPDATE_ADAM: return update->state[2] != NULL ? adam_amsgrad : adam;
    case UPDATE_RMSPROP: break;
    }
    return update->state[2] != NULL ? rmsprop_centered : rmsprop;
}

/* Work is split in units of this many elements, so that threads do not share cache lines. */
#define UNIT 64

typedef struct work {
    update_kind_t kind;
    int n;
    const update_t *updates;
} work_t;

static int64_t count_units(const update_t *update)
{
    return (update->n + UNIT - 1) / UNIT;
}

/* Units are numbered across all tensors. */
static void run_units(void *user, int64_t first, int64_t last)
{
    const work_t *work = user;
    int64_t begin = 0;
    for (int i = 0; i < work->n && begin < last; i++) {
        const update_t *update = &work->updates[i];
        const int64_t end = begin + count_units(update);
        const int64_t from = (first > begin ? first - begin : 0) * UNIT;
        const int64_t to = last < end ? (last - begin) * UNIT : update->n;
        if (from < to) loop_of(work->kind, update)(update, from, to);
        begin = end;
    }
}

void update_part(update_kind_t kind, const update_t *update, int64_t first, int64_t n,
                 const float *gradient)
{
    update_t part = *update;
    part.parameter += first;
    part.gradient = gradient;
    for (int s = 0; s < UPDATE_MAX_STATES; s++)
        if (part.state[s] != NULL) part.state[s] += first;
    loop_of(kind, &part)(&part, 0, n);
}

void update_run(update_kind_t kind, int n_threads, int n, const update_t *updates)
{
    work_t work = {.kind = kind, .n = n, .updates = updates};
    int64_t n_units = 0;
    for (int i = 0; i < n; i++) n_units += count_units(&updates[i]);
    threads_share(n_threads, n_units, run_units, &work);
}
