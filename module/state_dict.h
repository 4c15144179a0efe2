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
 * names those that are missing, unknown and of another shape, and nothing has changed then. Only
 * `num_batches_tracked` of a batch norm may be absent, and stays as it is, and one of two keys that
 * mean the same tensor. */
status_t module_load_state_dict(context_t *ctx, module_t *module, const datum_t *dict)
    TESSERA_API(module_load_state_dict);

/* The same without a copy, as torch's load_state_dict(assign=True): parameters and buffers become
 * the dict's tensors, where these are dense, contiguous and of the same dtype, else converted
 * copies. Whoever holds a parameter from before holds one that the module has no more. Values of
 * mkldnn parameters are written into them. With is_strict false keys may be missing and unknown. */
status_t module_assign_state_dict(context_t *ctx, module_t *module, const datum_t *dict,
                                  bool is_strict) TESSERA_API(module_assign_state_dict);

TESSERA_END

#endif
