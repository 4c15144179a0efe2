/* module_mkldnn: one call makes a model run in blocked layouts.
 *
 * It walks the tree and marks the weights, as .cuda() in PyTorch moves them. The first operator
 * that reads a marked weight packs it into the format that the operator needs; the packed form is
 * stored, so this happens once. Tensors that modules share stay shared, and a second call does
 * nothing. Dispatch converts around layers that have no mkldnn kernel. State dicts, clones and
 * files always contain plain weights. */
#ifndef TESSERA_MODULE_MKLDNN_H
#define TESSERA_MODULE_MKLDNN_H

#include "module/module.h"

TESSERA_BEGIN

typedef struct mkldnn_options {
    /* Paths of modules to skip, NULL-terminated; NULL: none. A star matches any text: "layer1.*",
     * "*.downsample". Skipped modules and all modules below them compute in plain layouts, under
     * policy per_op, whenever their methods are called. module_print marks them "dense". This has
     * no effect on traced and frozen graphs. */
    const char *const *skip;
    /* Inputs, NULL-terminated. If given, forward runs once, so that all weights are packed when the
     * call returns. If NULL, the first run packs the weights. */
    const tensor_t *const *example;
    /* Inserts conversion layers into the module, which must be a Sequential: a Dense2Mkldnn before
     * each sequence of layers that compute in mkldnn with the example, and a Mkldnn2Dense after it.
     * Nested Sequentials of which only some layers compute in mkldnn get them too. "dense2mkldnn_3"
     * is inserted before "3"; names and weights of other layers do not change. */
    bool transitions;
} mkldnn_options_t;

/* Changes the module in place. options may be NULL. On failure nothing has changed. A second call
 * replaces the `skip` of the first.
 *
 * INVALID_ARGUMENT  a path in skip that matches no module; transitions without an example
 * UNSUPPORTED       transitions in a module that is not a Sequential */
status_t module_mkldnn(context_t *ctx, module_t *module, const mkldnn_options_t *options)
    TESSERA_API(module_mkldnn);

/* Undoes module_mkldnn: releases packed forms, makes weights plain, cancels `skip`, and removes the
 * conversion layers that module_mkldnn inserted. */
status_t module_dense(context_t *ctx, module_t *module) TESSERA_API(module_dense);

TESSERA_END

#endif
