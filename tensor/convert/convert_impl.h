/* Conversions with a cause, for dispatch and plans. Terms: a storage (storage_impl.h) holds a
 * tensor's bytes. A snapshot shares these bytes until one of the two is written. A form
 * (form_impl.h) is a copy in another format that the storage keeps.
 *
 * The folder tensor/convert contains everything that copies elements: conversions, forms, copies
 * between strided tensors, trimmed weights. */
#ifndef TESSERA_TENSOR_CONVERT_CONVERT_IMPL_H
#define TESSERA_TENSOR_CONVERT_CONVERT_IMPL_H

#include "tensor/convert/convert.h"
#include "tensor/counters.h"
#include "tensor/onednn/onednn.h"
#include "tensor/tensor_impl.h"

/* Converts to another layout or format; dtype and sizes stay. Returns `tensor` itself, retained, if
 * nothing changes, and a snapshot if the layout changes but no byte moves. From one mkldnn format
 * to another, returns a snapshot of a form, which is made if necessary. Otherwise returns a
 * reordered copy. Reorders are counted under `cause`. Unless the result is `tensor` itself, writing
 * to it changes neither `tensor` nor a form. */
status_t convert_to(context_t *ctx, const tensor_t *tensor, const tensor_info_t *want,
                    reorder_cause_t cause, tensor_t **out_tensor);

/* Like convert_to, for a caller that only reads the result: instead of making a snapshot, the
 * result uses the storage or the form itself. `want` may have other sizes if they are a reshape of
 * the tensor's (the same elements in row-major order). */
status_t convert_for_call(context_t *ctx, const tensor_t *tensor, const tensor_info_t *want,
                          reorder_cause_t cause, tensor_t **out_tensor);

/* Makes a result of convert_for_call writable: if it uses the tensor's storage or a form, replaces
 * it by a snapshot, which is copied when it is written. Releases the result on failure. */
status_t convert_own(context_t *ctx, const tensor_t *tensor, tensor_t **converted);

/* True if every machine can convert from this format: it is not opaque, or it is trimmed. */
bool convert_is_readable(const tensor_info_t *info);

/* True if a conversion between infos of equal dtype and number of elements moves bytes. */
bool convert_moves_bytes(const tensor_info_t *from, const tensor_info_t *want);

/* Makes a new tensor with the elements and dtype of `tensor`. `want` may have other sizes, as for
 * convert_for_call. Does not use existing forms, and makes none. */
status_t convert_make(context_t *ctx, const tensor_t *tensor, const tensor_info_t *want,
                      reorder_cause_t cause, tensor_t **out_tensor);

/* Like convert_make, but takes the elements from bytes that `from` describes. */
status_t convert_make_from(context_t *ctx, const tensor_info_t *from, const void *from_bytes,
                           const tensor_info_t *want, reorder_cause_t cause, tensor_t **out_tensor);

/* A kernel's function that packs row-major bytes into the kernel's own format. It writes all of
 * `out`, padding included. */
typedef status_t (*convert_pack_t)(context_t *ctx, const tensor_info_t *from, const void *bytes,
                                   const tensor_info_t *want, void *out);

/* Like convert_into and convert_make_from, but a kernel's pack function converts, which is counted
 * as a copy. If pack is NULL, oneDNN or Tessera's own loops convert. */
status_t convert_pack_bytes(context_t *ctx, convert_pack_t pack, const tensor_info_t *from,
                            const void *from_bytes, const tensor_info_t *want, void *bytes,
                            reorder_cause_t cause);
status_t convert_pack(context_t *ctx, convert_pack_t pack, const tensor_info_t *from,
                      const void *from_bytes, const tensor_info_t *want, reorder_cause_t cause,
                      tensor_t **out_tensor);

/* Cause of the conversion of an activation, for dispatch and plans. */
static inline reorder_cause_t convert_cause(const tensor_info_t *from, const tensor_info_t *to)
{
    if (from->layout == to->layout) return CAUSE_MISMATCH;
    return to->layout == LAYOUT_MKLDNN ? CAUSE_INPUT : CAUSE_OUTPUT;
}

/* Counts a transition of a tensor to the other layout. */
void convert_count_transition(context_t *ctx, layout_t to);

/* The reason why a tensor cannot have mkldnn layout; NULL if it can. */
const char *convert_refusal(const tensor_info_t *info);

/* Converts bytes from one format to another; dtype and sizes of both infos are equal. Uses oneDNN
 * if possible, counted as a reorder, else Tessera's own loops, counted as a copy. The padding of
 * dst becomes zero. */
status_t convert_bytes(context_t *ctx, const tensor_info_t *src_info, const void *src,
                       const tensor_info_t *dst_info, void *dst, reorder_cause_t cause);

/* Like convert_bytes, but the sizes of `want` may be a reshape of those of `from`. */
status_t convert_into(context_t *ctx, const tensor_info_t *from, const void *from_bytes,
                      const tensor_info_t *want, void *bytes, reorder_cause_t cause);

/* convert_bytes in two steps, for a conversion that is repeated. convert_settle returns the
 * primitive that convert_bytes would use, retained, or NULL if it would use none. convert_settled
 * converts with that primitive; the context must have the same number of threads in both calls. */
status_t convert_settle(context_t *ctx, const tensor_info_t *src_info,
                        const tensor_info_t *dst_info, onednn_primitive_t **out_primitive);
status_t convert_settled(context_t *ctx, onednn_primitive_t *primitive,
                         const tensor_info_t *src_info, const void *src,
                         const tensor_info_t *dst_info, void *dst, reorder_cause_t cause);

/* Replaces a regrouped format (format_regroup) by its tag, and the sizes by those to which the tag
 * applies. Returns other infos unchanged. */
tensor_info_t convert_inner_info(const tensor_info_t *info);

/* Copies n runs of `bytes` bytes each, at the given strides, in one thread; source and destination
 * must not overlap. Faster than a call of memcpy for each run if runs are short. */
void convert_runs(int64_t n, size_t bytes, const char *from, int64_t from_step, char *to,
                  int64_t to_step);

/* Copies elements from one array with strides to another, and casts them, with Tessera's own loops.
 * Is not counted. Source and destination have the same sizes. */
void convert_strided(int rank, const int64_t *sizes, dtype_t src_dtype, const int64_t *src_strides,
                     const void *src, dtype_t dst_dtype, const int64_t *dst_strides, void *dst,
                     int n_threads);

/* Reports a conversion that started at `begin`: sets its `ns`, adds it to the counters, and passes
 * it to the trace and to observers. */
void convert_tell(context_t *ctx, conversion_t conversion, uint64_t begin);

/* Set the padding of a blocked tensor to zero; return true if the padding is zero. */
void convert_zero_padding(const tensor_info_t *info, void *bytes);
bool convert_padding_is_zero(const tensor_info_t *info, const void *bytes);

#endif
