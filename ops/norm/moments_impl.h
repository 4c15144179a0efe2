/* What norms do to the elements of a line or of channels: sums of them, and a scale and a shift. */
#ifndef TESSERA_OPS_NORM_MOMENTS_IMPL_H
#define TESSERA_OPS_NORM_MOMENTS_IMPL_H

#include "ops/walk_impl.h"

/* What is added up: an element, or the square of its deviation from a mean. */
typedef enum moment { MOMENT_SUM, MOMENT_SQUARES } moment_t;

/* Of n neighbours; f32 is added in lanes and these in double, all else in double. */
double moments_line(dtype_t dtype, int64_t n, const void *src, moment_t moment, double mean);

/* Of each of `width` columns of `rows` rows that lie one behind the other; means [width], sums
 * [width]. */
void moments_columns(dtype_t dtype, int64_t rows, int64_t width, const void *src, moment_t moment,
                     const double *means, double *sums);

/* dst = src * scale + shift for a piece of a walk, whose channels scale and shift begin with: f32
 * for f32, f64 for other dtypes; one number of each where is_constant. src and dst may be one. */
void moments_apply(const walk_piece_t *piece, bool is_constant, dtype_t dtype, const void *scale,
                   const void *shift, const void *src, void *dst);

#endif
