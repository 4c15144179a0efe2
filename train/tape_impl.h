/* What a trainer hears of a tape. */
#ifndef TESSERA_TRAIN_TAPE_IMPL_H
#define TESSERA_TRAIN_TAPE_IMPL_H

#include "train/tape.h"

/* Called in tape_backward once nothing more is added to the gradient of a watched tensor, if it had
 * none before; leaf counts watched tensors in their order. The call may read the gradient. */
typedef void (*tape_ready_t)(void *user, int leaf, const tensor_t *watched,
                             const tensor_t *gradient);
void tape_on_ready(tape_t *tape, tape_ready_t ready, void *user);

#endif
