/* Checkpoints: all that a training goes on from, in one safetensors file.
 *
 * The file has the module's state dict under its own names, so that anything that reads safetensors
 * finds the weights; the optimizer's state under names such as "optimizer.fc.weight.exp_avg"; and
 * in its metadata the version of this format, the kind of the optimizer and the context's random
 * numbers. Everything is plain. A training that was loaded goes on with the same bits as the one
 * that was saved, on the same machine and number of threads: blocked weights and state are made of
 * the plain ones at the next step. */
#ifndef TESSERA_IO_SAFETENSORS_CHECKPOINT_H
#define TESSERA_IO_SAFETENSORS_CHECKPOINT_H

#include "train/optimizer.h"

TESSERA_BEGIN

/* Writes the file whole or not at all: a process that is killed leaves the old one or the new one.
 * optimizer may be NULL, as may metadata, a dict of strings to be kept with it (an epoch, a seed),
 * whose keys do not begin with "tessera.".
 *
 * INVALID_ARGUMENT  other metadata; a parameter or buffer whose path begins with "optimizer."
 * IO                with the system's reason */
status_t checkpoint_save(context_t *ctx, module_t *module, const optimizer_t *optimizer,
                         const char *path, const datum_t *metadata) TESSERA_API(checkpoint_save);

/* Loads weights into the module's tensors, state into the optimizer, and the context's random
 * numbers. Without an optimizer, NULL, its state is left out. out_metadata, a dict of strings that
 * the caller releases, may be NULL.
 *
 * INVALID_ARGUMENT  names, sizes, dtypes or the kind of the optimizer are others; no checkpoint
 * UNSUPPORTED       a later version of the format
 * CORRUPT, IO
 *
 * Everything is checked before anything is overwritten. */
status_t checkpoint_load(context_t *ctx, module_t *module, optimizer_t *optimizer, const char *path,
                         datum_t **out_metadata) TESSERA_API(checkpoint_load);

TESSERA_END

#endif
