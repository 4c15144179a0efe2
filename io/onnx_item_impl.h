/* Items of an import: tensors that are known, and values of the graph; what differs between trials.
 */
#ifndef TESSERA_IO_ONNX_ITEM_IMPL_H
#define TESSERA_IO_ONNX_ITEM_IMPL_H

#include "io/onnx_impl.h"

#ifdef TESSERA_HAVE_ONNX

/* A known item that no import function makes; takes over the tensor, also on failure. */
status_t onnx_item_take(onnx_t *onnx, const char *name, tensor_t *tensor, item_t *out_item);

/* A known item, for import functions: the next one of the node. Takes over the tensor, also on
 * failure. */
status_t onnx_known_take(onnx_t *onnx, const char *name, tensor_t *tensor, item_t *out_item);

/* A value of the graph. */
status_t onnx_value(onnx_t *onnx, const char *name, const tensor_info_t *info, item_t *out_item);

/* C numbers, which do not take part in type promotion, and known s64 vectors. */
status_t onnx_number(onnx_t *onnx, double number, item_t *out_item);
status_t onnx_integer(onnx_t *onnx, int64_t number, item_t *out_item);
status_t onnx_vector(onnx_t *onnx, const char *name, int n, const int64_t *elements,
                     item_t *out_item);

/* dtype and sizes of an item; its tensor, or NULL; in this trial. */
const tensor_info_t *onnx_info(const onnx_t *onnx, item_t item);
tensor_t *onnx_tensor_of(const onnx_t *onnx, item_t item);

/* What an item is in this trial, where it differs from trial 0. The first takes over the tensor,
 * also on failure. */
status_t onnx_set_known_take(onnx_t *onnx, item_t item, tensor_t *tensor);
status_t onnx_set_info(onnx_t *onnx, item_t item, const tensor_info_t *info);

/* What stands for a value in this trial: takes over the tensor, also on failure; and its tensor, or
 * NULL. */
status_t onnx_set_stand_take(onnx_t *onnx, item_t item, tensor_t *tensor);
tensor_t *onnx_stand_of(const onnx_t *onnx, item_t item);

/* A value of these few integers has something that stands for it. */
bool onnx_needs_stand(const tensor_info_t *info);
/* Numbers of their own, from the *data-th on, which is counted up. */
status_t onnx_make_stand(onnx_t *onnx, item_t item, const tensor_info_t *info, int *data);

/* True when the item differs from trial 0 in one trial; in any that is not over. */
bool onnx_differs(const onnx_t *onnx, item_t item, int trial);
bool onnx_varies(const onnx_t *onnx, item_t item);
bool onnx_dim_varies(const onnx_t *onnx, item_t item, int dim);

/* ---- sequences and optionals ---- */

/* The rank of a sequence's tensors where there is none yet, and where they have several. Sizes that
 * differ among them, or are not known, are -1; a dtype that is not known is NONE. */
#define ONNX_RANK_NONE (-1)
#define ONNX_RANK_ANY (-2)

/* The item is no tensor: a sequence, or what may be none. */
bool onnx_is_special(const onnx_t *onnx, item_t item);

/* True for a sequence whose tensors are known items: how many, and which. */
bool onnx_is_listed(const onnx_t *onnx, item_t item, int *out_n, const item_t **out_items);

/* What the tensors of a sequence are, or the item is as one of them, in this trial. */
tensor_info_t onnx_element_info(const onnx_t *onnx, item_t item);
/* Says that of a sequence for this trial. */
status_t onnx_set_element(onnx_t *onnx, item_t item, const tensor_info_t *element);
/* What tensors are that are of either kind. */
tensor_info_t onnx_join_elements(const tensor_info_t *a, const tensor_info_t *b);
bool onnx_same_elements(const tensor_info_t *a, const tensor_info_t *b);

/* True when the item, or its sizes, follow sizes or integers that depend on elements. */
bool onnx_is_of_data(const onnx_t *onnx, item_t item);

/* Gives up the items from `first` on. */
void onnx_cut_items(onnx_t *onnx, int first);

/* The item's value in the graph: known ones go there as a literal, a parameter (floating weights,
 * and whatever floating has several elements), a buffer (other weights), or a constant. */
status_t onnx_value_of(onnx_t *onnx, item_t item, value_t *out_value);

/* A value that calculates item->expr from sizes of inputs. */
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
