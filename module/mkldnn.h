/* module_mkldnn: one call makes a model run in blocked layouts.
 *
 * It walks the tree and marks the weights, as .cuda() moves them. The first operator that reads a
 * marked weight packs it once, into the format it needs; the packed form is kept. Tensors that
 * modules share stay shared, and a second call does nothing. Dispatch converts around layers that
 * have no mkldnn kernel. State dicts, clones and files always contain plain weights. */
#ifndef TESSERA_MODULE_MKLDNN_H
#define TESSERA_MODULE_MKLDNN_H

#include "module/module.h"

TESSERA_BEGIN

typedef struct mkldnn_options {
    /* Paths of modules to skip, NULL-terminated; NULL: none. A star matches any text: "layer1.*",
     * "*.downsample". Skipped modules and all modules below them compute in plain layouts, under
     * policy per_op, whenever their methods are called. module_print marks them "dense". Traced and
     * frozen graphs choose their layouts without regard to this. */
    const char *const *skip;
    /* Inputs, NULL-terminated. If given, forward runs once, so that all weights are packed when the
     * call returns. NULL: weights are packed in the first run. */
    const tensor_t *const *example;
    /* Inserts conversion layers into the module, which must be a Sequential: a Dense2Mkldnn before
     * each run of layers that compute in mkldnn with the example, and a Mkldnn2Dense after it.
     * Nested Sequentials that compute only partly in mkldnn get them too. "dense2mkldnn_3" is
     * inserted before "3"; names and weights of other layers do not change. */
    bool transitions;
} mkldnn_options_t;

/* Works in place. options may be NULL. On failure nothing has changed. A second call cancels the
 * skips of an earlier one unless it repeats them.
 *
 * INVALID_ARGUMENT  a path in skip that matches no module; transitions without an example
 * UNSUPPORTED       transitions in a module that is not a Sequential */
status_t module_mkldnn(context_t *ctx, module_t *module, const mkldnn_options_t *options)
    TESSERA_API(module_mkldnn);

/* Undoes module_mkldnn: drops packed forms, makes weights plain, cancels all skips and removes the
 * conversion layers that module_mkldnn inserted. */
status_t module_dense(context_t *ctx, module_t *module) TESSERA_API(module_dense);

TESSERA_END

#endif
