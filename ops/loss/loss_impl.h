/* Attributes of losses: operators that compare scores with targets and combine the losses of all
 * rows. */
#ifndef TESSERA_OPS_LOSS_LOSS_IMPL_H
#define TESSERA_OPS_LOSS_LOSS_IMPL_H

#include "ops/ops_impl.h"

/* How the losses of rows are combined. LOSS_NONE returns one loss for each row. */
enum { LOSS_MEAN, LOSS_SUM, LOSS_NONE };

/* Attributes of cross_entropy, nll_loss and their backward operators. Rows whose label is
 * ignore_index are skipped. */
typedef struct cross_entropy_attrs {
    int reduction;
    int64_t ignore_index;
    double label_smoothing; /* cross_entropy: share of the target for all classes equally */
} cross_entropy_attrs_t;

#define LOSS_IGNORE_INDEX (-100)

#endif
