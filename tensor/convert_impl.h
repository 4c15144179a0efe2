/* Conversions with a cause, for dispatch and plans. */
#ifndef TESSERA_TENSOR_CONVERT_IMPL_H
#define TESSERA_TENSOR_CONVERT_IMPL_H

#include "tensor/convert.h"
#include "tensor/counters.h"
#include "tensor/onednn/onednn.h"
#include "tensor/tensor_impl.h"

/* Converts to another layout or format of the same dtype and sizes. Returns `tensor` itself,
 * retained, if nothing changes; a snapshot if only the layout differs, not the bytes; a snapshot of
 * a kept form (form_impl.h) if there is one; otherwise a reordered copy, counted under `cause`.
 * Writing to the result changes neither `tensor` nor a form. */
status_t convert_to(context_t *ctx, const tensor_t *tensor, const tensor_info_t *want,
                    reorder_cause_t cause, tensor_t **out_tensor);

/* convert_to for a call that only reads the result, which therefore shares matching bytes and kept
 * forms without a snapshot. `want` may have other sizes with the same row-major order. */
status_t convert_for_call(context_t *ctx, const tensor_t *tensor, const tensor_info_t *want,
                          reorder_cause_t cause, tensor_t **out_tensor);

/* Makes a result of convert_for_call writable: replaces shared bytes by a snapshot. Releases the
 * result on failure. */
status_t convert_own(context_t *ctx, const tensor_t *tensor, tensor_t **converted);

/* True if a conversion between infos of equal dtype and number of elements moves bytes. */
bool convert_moves_bytes(const tensor_info_t *from, const tensor_info_t *want);

/* Makes a new tensor with the elements and dtype of `tensor`, in the sizes of `want`, which have
 * the same row-major order. Neither uses nor keeps forms. */
status_t convert_make(context_t *ctx, const tensor_t *tensor, const tensor_info_t *want,
                      reorder_cause_t cause, tensor_t **out_tensor);

/* convert_make from bytes that `from` describes. */
status_t convert_make_from(context_t *ctx, const tensor_info_t *from, const void *from_bytes,
                           const tensor_info_t *want, reorder_cause_t cause, tensor_t **out_tensor);

/* A kernel's function that packs row-major bytes into the kernel's own format. It writes all of
 * `out`, padding included. */
typedef status_t (*convert_pack_t)(context_t *ctx, const tensor_info_t *from, const void *bytes,
                                   const tensor_info_t *want, void *out);

/* convert_into and convert_make_from with a kernel's pack function, counted as a copy. pack NULL:
 * oneDNN or Tessera's own loops convert. */
status_t convert_pack_bytes(context_t *ctx, convert_pack_t pack, const tensor_info_t *from,
                            const void *from_bytes, const tensor_info_t *want, void *bytes,
                            reorder_cause_t cause);
status_t convert_pack(context_t *ctx, convert_pack_t pack, const tensor_info_t *from,
                      const void *from_bytes, const tensor_info_t *want, reorder_cause_t cause,
                      tensor_t **out_tensor);

/* Cause of a conversion between two forms of an activation, for dispatch and plans. */
static inline reorder_cause_t convert_cause(const tensor_info_t *from, const tensor_info_t *to)
{
    if (from->layout == to->layout) return CAUSE_MISMATCH;
    return to->layout == LAYOUT_MKLDNN ? CAUSE_INPUT : CAUSE_OUTPUT;
}

/* Counts a transition of a tensor to the other layout. */
void convert_count_transition(context_t *ctx, layout_t to);

/* The reason why a tensor cannot be mkldnn; NULL if it can. */
const char *convert_refusal(const tensor_info_t *info);

/* Copies bytes between two infos of equal dtype and sizes. Uses oneDNN if possible, counted as a
 * reorder, else Tessera's own loops, counted as a copy. Padded elements of dst become zero. */
status_t convert_bytes(context_t *ctx, const tensor_info_t *src_info, const void *src,
                       const tensor_info_t *dst_info, void *dst, reorder_cause_t cause);

/* convert_bytes for sizes that may differ, with the same row-major order. */
status_t convert_into(context_t *ctx, const tensor_info_t *from, const void *from_bytes,
                      const tensor_info_t *want, void *bytes, reorder_cause_t cause);

/* convert_bytes in two steps, for a conversion that is repeated. convert_settle returns the
 * primitive that convert_bytes would use, retained, or NULL if it would use none. convert_settled
 * converts with that primitive, with the same number of threads. */
status_t convert_settle(context_t *ctx, const tensor_info_t *src_info,
                        const tensor_info_t *dst_info, onednn_primitive_t **out_primitive);
status_t convert_settled(context_t *ctx, onednn_primitive_t *primitive,
                         const tensor_info_t *src_info, const void *src,
                         const tensor_info_t *dst_info, void *dst, reorder_cause_t cause);

/* For an info with a regrouped format, the info of the same bytes with the sizes to which the
 * format's tag applies. Other infos are returned unchanged. */
tensor_info_t convert_inner_info(const tensor_info_t *info);

/* Copies n runs of `bytes` bytes each, at the given strides, in one thread; source and destination
 * must not overlap. Faster than a call of memcpy for each run if runs are short. */
void convert_runs(int64_t n, size_t bytes, const char *from, int64_t from_step, char *to,
                  int64_t to_step);

/* Copies and casts elements between strides with Tessera's own loops, uncounted. Source and
 * destination have the same sizes. */
void convert_strided(int rank, const int64_t *sizes, dtype_t src_dtype, const int64_t *src_strides,
                     const void *src, dtype_t dst_dtype, const int64_t *dst_strides, void *dst,
                     int n_threads);

/* Sets the `ns` of a conversion that started at `begin`, counts, traces and reports it. */
void convert_tell(context_t *ctx, conversion_t conversion, uint64_t begin);

/* Set the padded elements of a blocked tensor to zero; check that they are zero. */
void convert_zero_padding(const tensor_info_t *info, void *bytes);
bool convert_padding_is_zero(const tensor_info_t *info, const void *bytes);

#endif
