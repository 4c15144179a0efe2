/* Declarations shared by roi_align and its gradient. */
#ifndef TESSERA_OPS_VISION_ROI_ALIGN_IMPL_H
#define TESSERA_OPS_VISION_ROI_ALIGN_IMPL_H

#include "ops/ops_impl.h"

enum { ROI_X, ROI_BOXES, ROI_IMAGES, ROI_GRAD };

/* Maximum number of samples along one side of a bin. */
#define ROI_MAX_SAMPLES 65536

extern const attr_field_t roi_align_fields[5];

typedef struct roi_side {
    double start, bin, n_samples; /* n_samples: an integer, per bin */
    int64_t size;                 /* image size in pixels */
} roi_side_t;

/* Computes one side of a box, from `low` to `high`. Unless attrs->aligned, it is at least one pixel
 * long. */
roi_side_t roi_find_side(const roi_align_attrs_t *attrs, dtype_t dtype, double low, double high,
                         int64_t n_bins, int64_t size);

/* The two pixels next to a sample along one side, with weights. is_outside: the sample is more than
 * one pixel outside of the image and counts as 0. */
typedef struct roi_taps {
    bool is_outside;
    int64_t index[2];
    double weight[2];
} roi_taps_t;
roi_taps_t roi_find_taps(const roi_side_t *side, int64_t bin, int64_t sample);

/* One bin. Only the samples in rows first[0] to last[0] - 1 and columns first[1] to last[1] - 1 are
 * read: the others are outside and count as 0. A large box has millions of them. */
typedef struct roi_bin {
    const roi_side_t *side; /* [0]: height, [1]: width */
    int64_t index[2];
    int64_t first[2], last[2];
    double least; /* lower bound of the maximum: 0 if a sample is outside, else -infinity */
} roi_bin_t;
roi_bin_t roi_find_bin(const roi_side_t *side, int64_t row, int64_t column);

/* Used by `run`: the height and width of a box; the index of its image; checks of all boxes. */
void roi_find_sides(const prepared_t *prepared, const void *boxes, int64_t box,
                    roi_side_t *out_sides);
int64_t roi_image_at(dtype_t dtype, const void *images, int64_t box);
status_t roi_check_boxes(context_t *ctx, const prepared_t *prepared, void *const *in);

#endif
