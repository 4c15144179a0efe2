/* module_mkldnn: the one call that makes a model run blocked.
 *
 * It walks the tree and marks parameters, as .cuda() moves them: from then on each is packed once,
 * by its first consumer, into the format that consumer asks for, and kept. Sharing stays; a second
 * call does nothing; layers without mkldnn kernels are bridged by dispatch. State dicts, clones and
 * files always see plain weights. */
#ifndef TESSERA_MODULE_MKLDNN_H
#define TESSERA_MODULE_MKLDNN_H

#include "module/module.h"

TESSERA_BEGIN

typedef struct mkldnn_options {
    const char *const *skip; /* NULL-terminated paths of modules to leave alone; NULL: none */
    const tensor_t *const
        *example; /* NULL-terminated inputs: runs forward once, so that all
                     weights are packed when the call returns; NULL: at first run */
} mkldnn_options_t;

/* In place. options may be NULL. INVALID_ARGUMENT names a path in skip that does not exist. */
status_t module_mkldnn(context_t *ctx, module_t *module, const mkldnn_options_t *options)
    TESSERA_API(module_mkldnn);

/* Takes it back: packed forms are dropped, weights are plain. */
status_t module_dense(context_t *ctx, module_t *module) TESSERA_API(module_dense);

TESSERA_END

#endif
