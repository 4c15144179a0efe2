/* Frozen modules in the store (tensor/store): an entry has the bytes of a .tessera file, so loading
 * it is a mapping. Failures are not reported; the caller then makes the module again. */
#ifndef TESSERA_FREEZE_KEPT_IMPL_H
#define TESSERA_FREEZE_KEPT_IMPL_H

#include "module/module.h"
#include "tensor/store/store_impl.h"

/* The text identifies a module: the file it comes from and all options. The store adds the versions
 * of the libraries and the instruction set, and these functions add the number of threads. */
#define KEPT_TEXT_MAX 1024

/* Maps the module of this text; NULL if there is none that can be used. The caller releases it. */
module_t *kept_find(context_t *ctx, const char *text);

/* Adds the frozen module to the store after its next run, with the plans and packed weights that
 * it then has. Does nothing if the module has parameters or buffers: a run may change them. Changes
 * to the module before the run, such as freeze_tune, cancel this; so does a run by a context with
 * another number of threads or another store. */
void kept_add_later(context_t *ctx, module_t *frozen, const char *text);

#endif
