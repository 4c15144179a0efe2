/* A callback that tells a trainer when gradients are complete. */
#ifndef TESSERA_TRAIN_TAPE_IMPL_H
#define TESSERA_TRAIN_TAPE_IMPL_H

#include "train/tape.h"

/* Called during tape_backward as soon as the gradient of a watched tensor is complete. Not called
 * for a gradient that will be added to one from an earlier tape_backward. leaf is the tensor's
 * index in the order of the tape_watch calls. The callback may read the gradient. */
typedef void (*tape_ready_t)(void *user, int leaf, const tensor_t *watched,
                             const tensor_t *gradient);
void tape_on_ready(tape_t *tape, tape_ready_t ready, void *user);

#endif
