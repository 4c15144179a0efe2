/* Random samples for measuring errors of layers. */
#ifndef TESSERA_OPS_SAMPLE_IMPL_H
#define TESSERA_OPS_SAMPLE_IMPL_H

#include <math.h>
#include <stdint.h>

/* Returns a number in [-1, 1). The sequence is the same each time the program runs. */
static inline float sample_draw(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (float)(int32_t)(*state >> 32) * 0x1p-31f;
}

/* worst: the largest difference so far, or NaN if any difference is NaN. largest: the largest
 * result. */
typedef struct sample_error {
    double worst, largest;
} sample_error_t;

static inline void sample_add(sample_error_t *error, double difference, double result)
{
    error->largest = fmax(error->largest, fabs(result));
    if (!(fabs(difference) <= error->worst) && !isnan(error->worst))
        error->worst = fabs(difference);
}

static inline double sample_ratio(const sample_error_t *error)
{
    return error->largest > 0.0 ? error->worst / error->largest : error->worst;
}

#endif
