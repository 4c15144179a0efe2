/* State dicts: parameters and buffers by path, always dense. */
#ifndef TESSERA_MODULE_STATE_DICT_H
#define TESSERA_MODULE_STATE_DICT_H

#include "module/module.h"

/* Creates a dict that maps paths to dense tensors, in the order of module_walk. If a parameter or
 * buffer is dense, the dict's tensor shares its bytes. */
status_t module_state_dict(context_t *ctx, module_t *module, datum_t **out_dict)
    TESSERA_API(module_state_dict);

/* Copies values into the module's tensors. Keys and shapes must match exactly. Two kinds of keys
 * may be missing: `num_batches_tracked` of a batch norm, which then keeps its value; and further
 * keys of a tensor that has several, as long as one is present. If anything else differs, the call
 * fails with INVALID_ARGUMENT, and nothing has changed; the message names missing keys, unknown
 * keys and wrong shapes. */
status_t module_load_state_dict(context_t *ctx, module_t *module, const datum_t *dict)
    TESSERA_API(module_load_state_dict);

/* Like module_load_state_dict, but without copying, as torch's load_state_dict(assign=True) does:
 * the dict's tensors become the parameters and buffers, and references to the old parameters no
 * longer belong to the module. A tensor that is not dense and contiguous, or has another dtype than
 * the parameter, is converted first. Parameters in mkldnn layout are overwritten in place. If
 * is_strict is false, keys may be missing or unknown. */
status_t module_assign_state_dict(context_t *ctx, module_t *module, const datum_t *dict,
                                  bool is_strict) TESSERA_API(module_assign_state_dict);

#endif
