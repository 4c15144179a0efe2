/* module_mkldnn: one call makes a model run in blocked layouts.
 *
 * Like .cuda() in PyTorch, it changes the module in place. It marks each weight as one that may be
 * stored in a blocked format. The first operator that reads a marked weight packs it, which means
 * that it reorders the weight into the format that the operator needs, and the packed bytes are
 * stored for later calls. A tensor that several modules share is packed once. Before and after
 * layers that have no mkldnn kernel, tensors are converted automatically. State dicts, clones and
 * files always contain row-major weights. */
#ifndef TESSERA_MODULE_MKLDNN_H
#define TESSERA_MODULE_MKLDNN_H

#include "module/module.h"

typedef struct mkldnn_options {
    /* Paths of modules to skip, NULL-terminated; NULL: none. A star matches any text: "layer1.*",
     * "*.downsample". Skipped modules and all modules below them read and return row-major tensors
     * (policy per_op) whenever their methods are called. module_print shows them as "dense". This
     * has no effect on traced and frozen graphs. */
    const char *const *skip;
    /* Inputs of forward, NULL-terminated. If example is not NULL, forward runs once on them, so
     * that all weights are packed when module_mkldnn returns. If it is NULL, the first call of
     * forward packs them. */
    const tensor_t *const *example;
    /* Inserts conversion layers into the module, which must be a Sequential: a Dense2Mkldnn before
     * each sequence of layers that compute in mkldnn with the example, and a Mkldnn2Dense after it.
     * Nested Sequentials are changed too if only some of their layers compute in mkldnn.
     * "dense2mkldnn_3" is inserted before "3"; names and weights of other layers do not change. */
    bool transitions;
} mkldnn_options_t;

/* Changes the module in place. options may be NULL. On failure nothing has changed. A second call
 * replaces the `skip` of the first.
 *
 * INVALID_ARGUMENT  a path in skip that matches no module; transitions without an example
 * UNSUPPORTED       transitions in a module that is not a Sequential */
status_t module_mkldnn(context_t *ctx, module_t *module, const mkldnn_options_t *options)
    TESSERA_API(module_mkldnn);

/* Undoes module_mkldnn: makes weights row-major, releases their packed copies, cancels `skip`, and
 * removes the conversion layers that module_mkldnn inserted. */
status_t module_dense(context_t *ctx, module_t *module) TESSERA_API(module_dense);

#endif
