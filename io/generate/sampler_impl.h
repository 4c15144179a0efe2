/* Chooses a token from logits. */
#ifndef TESSERA_IO_GENERATE_SAMPLER_IMPL_H
#define TESSERA_IO_GENERATE_SAMPLER_IMPL_H

#include "io/generate/generator.h"

typedef struct candidate {
    float logit;
    int32_t token;
} candidate_t;

/* INVALID_ARGUMENT for numbers out of range. */
status_t sampler_check(context_t *ctx, const sampling_t *sampling);

/* Chooses a token. `recent` are tokens that the penalty is for. candidates [n] is scratch memory.
 * uniform is a random number in [0, 1). */
int64_t sampler_choose(const sampling_t *sampling, int64_t n, const float *logits, int64_t n_recent,
                       const int64_t *recent, candidate_t *candidates, double uniform);

#endif
