/* Declarations that layer_norm, rms_norm and their gradients share. */
#ifndef TESSERA_OPS_NORM_NORM_IMPL_H
#define TESSERA_OPS_NORM_NORM_IMPL_H

#include "ops/gradient_impl.h"

typedef struct layer_attrs {
    int64_t n_dims;
    double epsilon;
} layer_attrs_t;

#define LAYER_FIELDS 2
extern const attr_field_t layer_fields[LAYER_FIELDS];

/* Describes x as rows of `length` elements, the product of its last n_dims sizes. */
void layer_rows(const tensor_info_t *x, const layer_attrs_t *attrs, int64_t *out_rows,
                int64_t *out_length);

/* Gradients of layer_norm and rms_norm. */
extern const gradient_t layer_norm_gradient, rms_norm_gradient;

#endif
