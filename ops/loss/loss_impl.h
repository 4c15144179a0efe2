/* Attributes of losses: operators that compare scores with targets, and reduce over rows. */
#ifndef TESSERA_OPS_LOSS_LOSS_IMPL_H
#define TESSERA_OPS_LOSS_LOSS_IMPL_H

#include "ops/ops_impl.h"

/* Reductions over rows. LOSS_NONE returns one number for each row. */
enum { LOSS_MEAN, LOSS_SUM, LOSS_NONE };

/* Attributes of cross_entropy, nll_loss and their backward operators. Rows whose label is
 * ignore_index are skipped. */
typedef struct cross_entropy_attrs {
    int reduction;
    int64_t ignore_index;
    double label_smoothing; /* cross_entropy: part of the target shared by all classes */
} cross_entropy_attrs_t;

#define LOSS_IGNORE_INDEX (-100)

#endif
