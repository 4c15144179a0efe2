/* Items of an import. A known item is a tensor whose elements the import has. Any other item is a
 * value of the future graph. */
#ifndef TESSERA_IO_ONNX_ITEM_IMPL_H
#define TESSERA_IO_ONNX_ITEM_IMPL_H

#include "io/onnx/onnx_impl.h"

/* Creates a known item. Takes ownership of the tensor, also on failure. */
status_t onnx_item_take(onnx_t *onnx, const char *name, tensor_t *tensor, item_t *out_item);

/* Creates an item that is a value of the graph. */
status_t onnx_value(onnx_t *onnx, const char *name, const tensor_info_t *info, item_t *out_item);

/* Create known items: numbers, which do not affect type promotion (as is_number in tensor_info_t),
 * and vectors of s64. */
status_t onnx_number(onnx_t *onnx, double number, item_t *out_item);
status_t onnx_integer(onnx_t *onnx, int64_t number, item_t *out_item);
status_t onnx_vector(onnx_t *onnx, const char *name, int n, const int64_t *elements,
                     item_t *out_item);

/* Dtype and sizes of an item; sizes may be symbolic. */
const tensor_info_t *onnx_info(const onnx_t *onnx, item_t item);
tensor_t *onnx_tensor_of(const onnx_t *onnx, item_t item);

/* ---- symbols ---- */

/* True if an integer is a handle of a symbolic expression (tensor/sym/sym.h). INT64_MIN and
 * -INT64_MAX are not handles: in attributes they mean a position before the first element. */
static inline bool onnx_is_symbol(int64_t value)
{
    return sym_is(value) && value > -INT64_MAX;
}

/* Sets the elements of a value, each a symbolic expression or a number. Copies the array. */
status_t onnx_set_symbols(onnx_t *onnx, item_t item, bool is_live, const int64_t *symbols);

/* Creates a symbol for a size that is known only at run time. */
int64_t onnx_unknown_size(onnx_t *onnx);
/* Gives each element of a short integer vector a new symbol, because the elements may become
 * sizes. */
status_t onnx_name_elements(onnx_t *onnx, item_t item);
/* Replaces symbolic sizes with their hints, the sizes of the import. Returns false if one has no
 * hint. */
bool onnx_hint_info(const onnx_t *onnx, const tensor_info_t *info, tensor_info_t *out_info);

/* Rewrites an expression of sizes that are known only at run time. The result uses sizes of the
 * operand: "#1" is its size in dimension 1. SYM_NONE if that is not possible. */
int64_t onnx_by_operand(onnx_t *onnx, item_t operand, int64_t symbol);

/* True if the elements are known at import, as numbers or as expressions of sizes. */
bool onnx_is_known(const onnx_t *onnx, item_t item);

/* ---- sequences and optionals ---- */

/* Special ranks in the info that describes a sequence's tensors. ONNX_RANK_NONE: no tensor so far.
 * ONNX_RANK_ANY: tensors of different ranks. Sizes that differ or are unknown are -1; an unknown
 * dtype is DTYPE_NONE. */
#define ONNX_RANK_NONE (-1)
#define ONNX_RANK_ANY (-2)

/* True for items that are not tensors: sequences, and optionals that may be none. */
bool onnx_is_special(const onnx_t *onnx, item_t item);

/* True for a sequence of known items. Sets their number and the items. */
bool onnx_is_listed(const onnx_t *onnx, item_t item, int *out_n, const item_t **out_items);

/* Dtype, rank and sizes of a sequence's tensors; if the item is a tensor, its own. */
tensor_info_t onnx_element_info(const onnx_t *onnx, item_t item);
/* Sets dtype, rank and sizes of a sequence's tensors. */
void onnx_set_element(onnx_t *onnx, item_t item, const tensor_info_t *element);
/* Describes the tensors of two sequences by one info: -1 for sizes that differ. */
tensor_info_t onnx_join_elements(const tensor_info_t *a, const tensor_info_t *b);
bool onnx_same_elements(const tensor_info_t *a, const tensor_info_t *b);

/* Removes the items from index `first` on. */
void onnx_cut_items(onnx_t *onnx, int first);

/* Returns the item's value in the graph. Adds a known item to the graph if necessary. A number
 * becomes a literal. A floating-point tensor becomes a parameter if it is a weight or has several
 * elements. A weight of another dtype becomes a buffer, anything else a constant. */
status_t onnx_value_of(onnx_t *onnx, item_t item, value_t *out_value);

/* Adds nodes that compute the item's symbols from sizes of inputs. */
status_t onnx_calculate(onnx_t *onnx, item_t item, value_t *out_value);

/* Stores a tensor in the module. The name's dots separate submodules; if that path is taken or
 * invalid, a free name without dots is used. The caller releases *out_path with context_put. */
status_t onnx_place(onnx_t *onnx, const char *name, tensor_t *tensor, bool is_buffer,
                    char **out_path);

/* Names of ONNX values. onnx_bind returns CORRUPT if the block has already bound the name.
 * onnx_find returns ITEM_NONE if the name is not bound. */
status_t onnx_bind(onnx_t *onnx, const char *name, item_t item);
item_t onnx_find(const onnx_t *onnx, const char *name);
/* Removes the bindings after the first n_bound. Outer names that they hid are visible again. */
void onnx_unbind(onnx_t *onnx, int n_bound);

#endif
