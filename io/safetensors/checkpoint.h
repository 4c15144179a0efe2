/* Checkpoints: everything needed to resume training, in one safetensors file.
 *
 * The file contains the tensors of the module's state dict under their names in the module, so
 * other safetensors readers find the weights. It also contains the optimizer's state, under names
 * such as "optimizer.fc.weight.exp_avg". Its metadata holds the format version, the optimizer's
 * kind and the state of the context's random generator. All tensors are row-major; the next step
 * converts weights and state to blocked formats again. Resumed training is bit-identical to
 * uninterrupted training on the same machine with the same number of threads. */
#ifndef TESSERA_IO_SAFETENSORS_CHECKPOINT_H
#define TESSERA_IO_SAFETENSORS_CHECKPOINT_H

#include "train/optimizer.h"

/* Writes the file atomically: if the process is killed, the old file or the new file exists.
 * optimizer may be NULL. metadata may be NULL or a dict of strings to store (an epoch, a seed); its
 * keys must not begin with "tessera.".
 *
 * INVALID_ARGUMENT  other metadata; a parameter or buffer whose path begins with "optimizer."
 * IO                with the system's reason */
status_t checkpoint_save(context_t *ctx, module_t *module, const optimizer_t *optimizer,
                         const char *path, const datum_t *metadata) TESSERA_API(checkpoint_save);

/* Loads the weights into the module's tensors, the optimizer's state, and the state of the
 * context's random generator. If optimizer is NULL, the file's optimizer state is skipped.
 * out_metadata may be NULL; otherwise it receives a dict of strings, which the caller releases.
 *
 * INVALID_ARGUMENT  names, sizes, dtypes or kind of optimizer differ; the file is not a checkpoint
 * UNSUPPORTED       another version of the format
 * CORRUPT, IO
 *
 * Everything is checked before anything is overwritten. */
status_t checkpoint_load(context_t *ctx, module_t *module, optimizer_t *optimizer, const char *path,
                         datum_t **out_metadata) TESSERA_API(checkpoint_load);

#endif
