/* Loops that norms share, over a row or over channels: sums, and a scale and a shift. */
#ifndef TESSERA_OPS_NORM_MOMENTS_IMPL_H
#define TESSERA_OPS_NORM_MOMENTS_IMPL_H

#include "ops/walk_impl.h"

/* Term of a sum: the element, or the squared difference from a mean. */
typedef enum moment { MOMENT_SUM, MOMENT_SQUARES } moment_t;

/* Sums n adjacent elements in double; f32 is first summed in lanes. */
double moments_line(dtype_t dtype, int64_t n, const void *src, moment_t moment, double mean);

/* Sums each of `width` columns over `rows` contiguous rows; means and sums are [width]. */
void moments_columns(dtype_t dtype, int64_t rows, int64_t width, const void *src, moment_t moment,
                     const double *means, double *sums);

/* dst = src * scale + shift for one piece of a walk. scale and shift begin with the piece's first
 * channel; if is_constant, they have one element. They are f32 for f32 and f64 for other dtypes.
 * src and dst may be equal. */
void moments_apply(const walk_piece_t *piece, bool is_constant, dtype_t dtype, const void *scale,
                   const void *shift, const void *src, void *dst);

#endif
