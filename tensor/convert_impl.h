/* Conversions by cause, for dispatch and plans. */
#ifndef TESSERA_TENSOR_CONVERT_IMPL_H
#define TESSERA_TENSOR_CONVERT_IMPL_H

#include "tensor/convert.h"
#include "tensor/counters.h"
#include "tensor/onednn/onednn.h"
#include "tensor/tensor_impl.h"

/* The tensor in another layout or format, of the same dtype and sizes: `tensor` retained where
 * nothing changes, a snapshot of it where its bytes are right and only the layout id differs, one
 * of its kept form, or a reordered copy, counted under `cause`. Whoever writes the result writes
 * neither `tensor` nor a form. */
status_t convert_to(context_t *ctx, const tensor_t *tensor, const tensor_info_t *want,
                    reorder_cause_t cause, tensor_t **out_tensor);

/* The same for a call that reads the result and lets it go: right bytes and forms are shared, not
 * snapshotted. `want` may have other sizes over the same row-major order. */
status_t convert_for_call(context_t *ctx, const tensor_t *tensor, const tensor_info_t *want,
                          reorder_cause_t cause, tensor_t **out_tensor);

/* Makes what convert_for_call gave for a tensor one that may be written: a snapshot of what is
 * shared. On failure it is released. */
status_t convert_own(context_t *ctx, const tensor_t *tensor, tensor_t **converted);

/* Whether one has to be made from the other, which has equal dtype and as many elements. */
bool convert_moves_bytes(const tensor_info_t *from, const tensor_info_t *want);

/* A tensor of its own, of the dtype of `tensor`, maybe of other sizes over the same row-major
 * order. Neither looks for forms nor keeps one. */
status_t convert_make(context_t *ctx, const tensor_t *tensor, const tensor_info_t *want,
                      reorder_cause_t cause, tensor_t **out_tensor);

/* The same of bytes. */
status_t convert_make_from(context_t *ctx, const tensor_info_t *from, const void *from_bytes,
                           const tensor_info_t *want, reorder_cause_t cause, tensor_t **out_tensor);

/* How the owner of a format makes a weight in it, of row-major bytes: all of `out`, padding
 * too. */
typedef status_t (*convert_pack_t)(context_t *ctx, const tensor_info_t *from, const void *bytes,
                                   const tensor_info_t *want, void *out);

/* convert_into and convert_make_from by the owner of the format `want`, counted as a copy. pack may
 * be NULL: oneDNN or our own loops make the format. */
status_t convert_pack_bytes(context_t *ctx, convert_pack_t pack, const tensor_info_t *from,
                            const void *from_bytes, const tensor_info_t *want, void *bytes,
                            reorder_cause_t cause);
status_t convert_pack(context_t *ctx, convert_pack_t pack, const tensor_info_t *from,
                      const void *from_bytes, const tensor_info_t *want, reorder_cause_t cause,
                      tensor_t **out_tensor);

/* The cause of a conversion that dispatch or a plan puts between two forms of an activation. */
static inline reorder_cause_t convert_cause(const tensor_info_t *from, const tensor_info_t *to)
{
    if (from->layout == to->layout) return CAUSE_MISMATCH;
    return to->layout == LAYOUT_MKLDNN ? CAUSE_INPUT : CAUSE_OUTPUT;
}

/* Counts a tensor that is taken in the other layout. */
void convert_count_transition(context_t *ctx, layout_t to);

/* Why this tensor cannot be mkldnn, or NULL if it can. */
const char *convert_refusal(const tensor_info_t *info);

/* Moves bytes between two infos of equal dtype and sizes: by oneDNN where it can, counted as a
 * reorder, else by our own loops, counted as a copy. Padded lanes of dst become zero. */
status_t convert_bytes(context_t *ctx, const tensor_info_t *src_info, const void *src,
                       const tensor_info_t *dst_info, void *dst, reorder_cause_t cause);

/* The same where the sizes may differ over the same row-major order. */
status_t convert_into(context_t *ctx, const tensor_info_t *from, const void *from_bytes,
                      const tensor_info_t *want, void *bytes, reorder_cause_t cause);

/* For conversions that are run often: the primitive by which convert_bytes would go from one info
 * to the other, retained, or NULL where it goes another way; and convert_bytes with that. Under the
 * number of threads that it was settled for. */
status_t convert_settle(context_t *ctx, const tensor_info_t *src_info,
                        const tensor_info_t *dst_info, onednn_primitive_t **out_primitive);
status_t convert_settled(context_t *ctx, onednn_primitive_t *primitive,
                         const tensor_info_t *src_info, const void *src,
                         const tensor_info_t *dst_info, void *dst, reorder_cause_t cause);

/* Of a regrouped tensor: what its bytes are under the sizes that its tag is for. Others as they
 * are.
 */
tensor_info_t convert_inner_info(const tensor_info_t *info);

/* Copies n runs of so many bytes, which begin at these distances on either side and do not overlap.
 * One thread. Short runs, such as 4 bytes of each of 8 tensors, cost no call each. */
void convert_runs(int64_t n, size_t bytes, const char *from, int64_t from_step, char *to,
                  int64_t to_step);

/* Strided copy with cast by our own loops, not counted; both dense, equal sizes. */
void convert_strided(int rank, const int64_t *sizes, dtype_t src_dtype, const int64_t *src_strides,
                     const void *src, dtype_t dst_dtype, const int64_t *dst_strides, void *dst,
                     int n_threads);

/* Counts a conversion that began then, `ns` being set here, writes its line of the trace and tells
 * the context's listener. */
void convert_tell(context_t *ctx, conversion_t conversion, uint64_t begin);

/* Sets the padded lanes of a blocked tensor to zero, and tells whether they all are. */
void convert_zero_padding(const tensor_info_t *info, void *bytes);
bool convert_padding_is_zero(const tensor_info_t *info, const void *bytes);

#endif
