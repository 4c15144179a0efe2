/* State dicts: parameters and buffers by path, always plain. */
#ifndef TESSERA_MODULE_STATE_DICT_H
#define TESSERA_MODULE_STATE_DICT_H

#include "module/module.h"

TESSERA_BEGIN

/* A dict of path to dense tensor, in the order of the walk. Tensors that are dense share the
 * module's bytes. */
status_t module_state_dict(context_t *ctx, module_t *module, datum_t **out_dict)
    TESSERA_API(module_state_dict);

/* Copies values in, in place. All keys must be there and no others, shapes equal; INVALID_ARGUMENT
 * names the first of another shape, or those that are missing and unknown, and nothing has changed
 * then. Only `num_batches_tracked` of a batch norm may be absent, and stays as it is. */
status_t module_load_state_dict(context_t *ctx, module_t *module, const datum_t *dict)
    TESSERA_API(module_load_state_dict);

TESSERA_END

#endif
