/* Transition layers that module_mkldnn places by itself.
 *
 * In a Sequential, a Dense2Mkldnn stands before each run of layers that compute in mkldnn, and a
 * Mkldnn2Dense behind it, so that all else sees dense tensors, and the tree shows where the model
 * is blocked. What a layer computes in is seen in a run of the example. Names of the other layers
 * stay: "dense2mkldnn_3" stands before "3". */
#ifndef TESSERA_MODULE_PLACEMENT_IMPL_H
#define TESSERA_MODULE_PLACEMENT_IMPL_H

#include "module/module.h"

/* What the operators below each path gave, in the order in which they ran. */
typedef struct placement placement_t;
status_t placement_begin(context_t *ctx, placement_t **out_placement);
/* Watches the calls of the context between the two. */
status_t placement_watch(context_t *ctx, placement_t *placement);
void placement_unwatch(context_t *ctx, placement_t *placement);
void placement_end(context_t *ctx, placement_t *placement);

/* UNSUPPORTED for a module that is no Sequential. */
status_t placement_check(context_t *ctx, const module_t *module);

/* Places them in the module, a Sequential, and in Sequentials among its layers that do not compute
 * in mkldnn as a whole. One that has such layers already is left alone. On failure none is placed.
 */
status_t placement_apply(context_t *ctx, placement_t *placement, module_t *module);

/* Takes out of the module, and of all modules below it, what was placed. */
void placement_remove(context_t *ctx, module_t *module);

#endif
