/* What grid_sample and its gradient share. */
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

/* The pixels that a place meets along one dimension. */
typedef struct grid_taps {
    int n;
    int64_t index[4]; /* -1: outside, and 0 there */
    double weight[4];
    double slope[4]; /* of the weight, by the number */
} grid_taps_t;

/* `number`, of a grid of this dtype, is -1 at the first pixel and 1 at the last: at their centres
 * with align_corners, else at their outer edges. Pixels of cubic are moved inside one by one,
 * others by their place. */
grid_taps_t grid_find_taps(const grid_sample_attrs_t *attrs, dtype_t dtype, double number,
                           int64_t size);

#endif
