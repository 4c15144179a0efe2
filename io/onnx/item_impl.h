/* Items of an import: tensors that are known, and values of the graph. */
#ifndef TESSERA_IO_ONNX_ITEM_IMPL_H
#define TESSERA_IO_ONNX_ITEM_IMPL_H

#include "io/onnx/onnx_impl.h"

#ifdef TESSERA_HAVE_ONNX

/* A known item. Takes over the tensor, also on failure. */
status_t onnx_item_take(onnx_t *onnx, const char *name, tensor_t *tensor, item_t *out_item);

/* A value of the graph. */
status_t onnx_value(onnx_t *onnx, const char *name, const tensor_info_t *info, item_t *out_item);

/* C numbers, which do not take part in type promotion, and known s64 vectors. */
status_t onnx_number(onnx_t *onnx, double number, item_t *out_item);
status_t onnx_integer(onnx_t *onnx, int64_t number, item_t *out_item);
status_t onnx_vector(onnx_t *onnx, const char *name, int n, const int64_t *elements,
                     item_t *out_item);

/* dtype and sizes of an item, which may be symbolic; its tensor, or NULL. */
const tensor_info_t *onnx_info(const onnx_t *onnx, item_t item);
tensor_t *onnx_tensor_of(const onnx_t *onnx, item_t item);

/* ---- symbols ---- */

/* A handle; not INT64_MIN and -INT64_MAX, which stand in attributes for what is before the first
 * element. */
static inline bool onnx_is_symbol(int64_t value)
{
    return sym_is(value) && value > -INT64_MAX;
}

/* Sets the elements of a value, symbolic ones or numbers; the array is copied. */
status_t onnx_set_symbols(onnx_t *onnx, item_t item, bool is_live, const int64_t *symbols);

/* A size that depends on elements: a name of its own, without a hint. */
int64_t onnx_unknown_size(onnx_t *onnx);
/* Names for the elements of a value of a few integers, which may become sizes. */
status_t onnx_name_elements(onnx_t *onnx, item_t item);
/* The info with hints for sizes; false where one has none. */
bool onnx_hint_info(const onnx_t *onnx, const tensor_info_t *info, tensor_info_t *out_info);

/* An expression of sizes that depend on elements, by the dimensions of operand 0 that have these
 * sizes: "#1". SYM_NONE where that is not possible. */
int64_t onnx_by_operand(onnx_t *onnx, item_t operand, int64_t symbol);

/* Elements are known at import, as numbers or as expressions of sizes. */
bool onnx_is_known(const onnx_t *onnx, item_t item);

/* ---- sequences and optionals ---- */

/* The rank of a sequence's tensors where there is none yet, and where they have several. Sizes that
 * differ among them, or are not known, are -1; a dtype that is not known is NONE. */
#define ONNX_RANK_NONE (-1)
#define ONNX_RANK_ANY (-2)

/* The item is no tensor: a sequence, or what may be none. */
bool onnx_is_special(const onnx_t *onnx, item_t item);

/* True for a sequence whose tensors are known items: how many, and which. */
bool onnx_is_listed(const onnx_t *onnx, item_t item, int *out_n, const item_t **out_items);

/* Dtype, rank and sizes of a sequence's tensors; of a tensor, its own. */
tensor_info_t onnx_element_info(const onnx_t *onnx, item_t item);
/* Sets them for a sequence. */
void onnx_set_element(onnx_t *onnx, item_t item, const tensor_info_t *element);
/* What tensors are that are of either kind. */
tensor_info_t onnx_join_elements(const tensor_info_t *a, const tensor_info_t *b);
bool onnx_same_elements(const tensor_info_t *a, const tensor_info_t *b);

/* Gives up the items from `first` on. */
void onnx_cut_items(onnx_t *onnx, int first);

/* The item's value in the graph: known ones go there as a literal, a parameter (floating weights,
 * and whatever floating has several elements), a buffer (other weights), or a constant. */
status_t onnx_value_of(onnx_t *onnx, item_t item, value_t *out_value);

/* A value that calculates the item's symbols from sizes of inputs. */
status_t onnx_calculate(onnx_t *onnx, item_t item, value_t *out_value);

/* Puts a tensor in the module under the name's dotted path, or under a name without dots where the
 * path is taken or no path. The caller puts *out_path back. */
status_t onnx_place(onnx_t *onnx, const char *name, tensor_t *tensor, bool is_buffer,
                    char **out_path);

/* Names of ONNX values. CORRUPT when one is bound twice; ITEM_NONE when it is not bound. */
status_t onnx_bind(onnx_t *onnx, const char *name, item_t item);
item_t onnx_find(const onnx_t *onnx, const char *name);
/* Gives up the names that were bound after the first n_bound. */
void onnx_unbind(onnx_t *onnx, int n_bound);

#endif
#endif
