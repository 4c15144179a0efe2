/* Attributes of operators that are losses. */
#ifndef TESSERA_OPS_LOSS_LOSS_IMPL_H
#define TESSERA_OPS_LOSS_LOSS_IMPL_H

#include "ops/ops_impl.h"

/* One number for all rows, the mean or the sum, or one for each. */
enum { LOSS_MEAN, LOSS_SUM, LOSS_NONE };

/* Of cross_entropy, nll_loss and their backward operators. Rows whose label is ignore_index count
 * nothing. */
typedef struct cross_entropy_attrs {
    int reduction;
    int64_t ignore_index;
    double label_smoothing; /* cross_entropy: this much of the target is spread over all classes */
} cross_entropy_attrs_t;

#define LOSS_IGNORE_INDEX (-100)

#endif
