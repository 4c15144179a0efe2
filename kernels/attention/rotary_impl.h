/* Rotation of pairs of elements by angles, which rotary position embedding uses.
 *
 * This folder holds the loops of ops/attention. */
#ifndef TESSERA_KERNELS_ATTENTION_ROTARY_IMPL_H
#define TESSERA_KERNELS_ATTENTION_ROTARY_IMPL_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/isa_impl.h"

/* Rotates n pairs of x. Pair i is (x[i], x[n + i]), or (x[2 i], x[2 i + 1]) if is_interleaved:
 *
 *   (a, b) becomes (a cos[i] - b sin[i], b cos[i] + a sin[i])
 *
 * out must not overlap x. */
void rotary_turn(isa_t isa, bool is_interleaved, int64_t n, const float *x, const float *cos,
                 const float *sin, float *out);

typedef void (*rotary_turn_t)(bool is_interleaved, int64_t n, const float *x, const float *cos,
                              const float *sin, float *out);
typedef struct rotary_loops {
    rotary_turn_t turn;
} rotary_loops_t;
ISA_EXTERN(const rotary_loops_t, rotary);

#endif
