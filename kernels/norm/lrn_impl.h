/* Local response normalisation: y[c] = x[c] base[c]^-beta, with base[c] = k + alpha / size * sum of
 * x[j]^2 over the channels j of a window around c. */
#ifndef TESSERA_KERNELS_NORM_LRN_IMPL_H
#define TESSERA_KERNELS_NORM_LRN_IMPL_H

#include <stdint.h>

#include "kernels/isa_impl.h"
#include "tensor/dtype.h"

typedef struct lrn {
    int64_t size; /* channels in a window */
    double alpha, beta, k;
} lrn_t;

/* The window of a channel is channels [*out_first, *out_end). If the size is even, it has one more
 * channel before the given one than after it. */
static inline void lrn_window(const lrn_t *lrn, int64_t channel, int64_t n_channels,
                              int64_t *out_first, int64_t *out_end)
{
    int64_t before = lrn->size / 2, behind = (lrn->size - 1) / 2;
    *out_first = channel > before ? channel - before : 0;
    *out_end = n_channels - channel > behind ? channel + behind + 1 : n_channels;
}

/* Channels [*out_first, *out_end), whose windows contain the given channel. */
static inline void lrn_reached(const lrn_t *lrn, int64_t channel, int64_t n_channels,
                               int64_t *out_first, int64_t *out_end)
{
    int64_t before = (lrn->size - 1) / 2, behind = lrn->size / 2;
    *out_first = channel > before ? channel - before : 0;
    *out_end = n_channels - channel > behind ? channel + behind + 1 : n_channels;
}

/* Overwrites x with its gradient:
 *
 *   dx[c] = grad[c] base[c]^-beta
 *           - (2 alpha beta / size) x[c] sum(j) grad[j] x[j] base[j]^(-beta - 1)
 *
 * over the channels j whose windows contain c. Arrays are [n_channels][LRN_POSITIONS], f32 or f64;
 * scale and term are buffers. */
#define LRN_POSITIONS 32
void lrn_gradient(isa_t isa, dtype_t dtype, const lrn_t *lrn, int64_t n_channels, void *x,
                  const void *grad, void *scale, void *term);

/* Loops of one ISA for one dtype. */
typedef void lrn_gradient_t(const lrn_t *lrn, int64_t n_channels, void *x, const void *grad,
                            void *scale, void *term);
ISA_EXTERN(lrn_gradient_t, lrn_gradient_f32);
ISA_EXTERN(lrn_gradient_t, lrn_gradient_f64);

#endif
