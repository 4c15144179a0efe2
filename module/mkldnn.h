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
    /* Paths of modules to leave alone, NULL-terminated; NULL: none. A star stands for any text:
     * "layer1.*", "*.downsample". They and all below them stay as they are, and compute in plain
     * layouts, under policy per_op, where their methods are called: module_print says "dense" of
     * them. What is traced or frozen has layouts of its own. */
    const char *const *skip;
    /* Inputs, NULL-terminated: runs forward once, so that all weights are packed when the call
     * returns; NULL: at first run. */
    const tensor_t *const *example;
    /* Places layers in the module, which is a Sequential: a Dense2Mkldnn before each run of layers
     * that compute in mkldnn with the example, and a Mkldnn2Dense behind it; also in Sequentials
     * among its layers that compute partly dense. "dense2mkldnn_3" stands before "3", whose name
     * and weights stay. */
    bool transitions;
} mkldnn_options_t;

/* In place. options may be NULL. INVALID_ARGUMENT names a path in skip that is there for no module,
 * or transitions without an example; UNSUPPORTED: transitions in what is no Sequential. On failure
 * nothing has changed. A second call ends what an earlier one skipped, unless it says so again. */
status_t module_mkldnn(context_t *ctx, module_t *module, const mkldnn_options_t *options)
    TESSERA_API(module_mkldnn);

/* Takes it back: packed forms are dropped, weights are plain, nothing is skipped, and transitions
 * that were placed are gone. */
status_t module_dense(context_t *ctx, module_t *module) TESSERA_API(module_dense);

TESSERA_END

#endif
