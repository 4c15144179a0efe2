/* A callback that tells a trainer when gradients are complete. */
#ifndef TESSERA_TRAIN_TAPE_IMPL_H
#define TESSERA_TRAIN_TAPE_IMPL_H

#include "train/tape.h"

/* Called during tape_backward as soon as the gradient of a watched tensor is complete, if the
 * tensor had no gradient before. leaf: its index in the order of watching. The callback may read
 * the gradient. */
typedef void (*tape_ready_t)(void *user, int leaf, const tensor_t *watched,
                             const tensor_t *gradient);
void tape_on_ready(tape_t *tape, tape_ready_t ready, void *user);

#endif
