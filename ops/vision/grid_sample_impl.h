/* Declarations shared by grid_sample and its gradient. */
#ifndef TESSERA_OPS_VISION_GRID_SAMPLE_IMPL_H
#define TESSERA_OPS_VISION_GRID_SAMPLE_IMPL_H

#include "ops/ops_impl.h"

#define GRID_MAX_SPATIAL 3

typedef struct grid_sample_attrs {
    int mode;    /* grid_mode_t */
    int padding; /* grid_padding_t */
    bool align_corners;
} grid_sample_attrs_t;

extern const attr_field_t grid_sample_fields[3];

/* Pixels that contribute to a sample along one dimension, with their weights. */
typedef struct grid_taps {
    int n;
    int64_t index[4]; /* -1: outside, where x counts as 0 */
    double weight[4];
    double slope[4]; /* derivative of the weight with respect to `number` */
} grid_taps_t;

/* Finds the taps of a grid coordinate `number`: -1 is the first pixel and 1 the last (their centres
 * with align_corners, otherwise their outer edges). A position outside of x is moved into x, as the
 * padding requires. In mode cubic, each pixel is moved instead. */
grid_taps_t grid_find_taps(const grid_sample_attrs_t *attrs, dtype_t dtype, double number,
                           int64_t size);

#endif
