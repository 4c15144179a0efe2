/* Conversion layers that module_mkldnn inserts.
 *
 * In a Sequential, a Dense2Mkldnn is inserted before each sequence of layers that compute in
 * mkldnn, and a Mkldnn2Dense after it. All other layers then read dense tensors, and the printed
 * tree shows which layers compute in mkldnn. A run of the option `example` (mkldnn.h) finds these
 * layers. Names of other layers do not change: "dense2mkldnn_3" is inserted before "3". */
#ifndef TESSERA_MODULE_PLACEMENT_IMPL_H
#define TESSERA_MODULE_PLACEMENT_IMPL_H

#include "module/module.h"

/* Records each operator call: the path of the calling module, and the layout of the result. */
typedef struct placement placement_t;
status_t placement_begin(context_t *ctx, placement_t **out_placement);
/* Records all calls in the context from placement_watch to placement_unwatch. */
status_t placement_watch(context_t *ctx, placement_t *placement);
void placement_unwatch(context_t *ctx, placement_t *placement);
void placement_end(context_t *ctx, placement_t *placement);

/* Fails with UNSUPPORTED if the module is not a Sequential. */
status_t placement_check(context_t *ctx, const module_t *module);

/* Inserts the layers into the Sequential `module`, and into nested Sequentials if only some of
 * their layers compute in mkldnn. Skips Sequentials that already contain inserted layers. On
 * failure inserts nothing. */
status_t placement_apply(context_t *ctx, placement_t *placement, module_t *module);

/* Removes the inserted layers from the module and all modules below it. */
void placement_remove(context_t *ctx, module_t *module);

#endif
