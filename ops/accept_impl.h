/* What kernels agree on with dispatch about one operand: the format it is wanted or given in.
 *
 * Both keep the two promises of a call whose formats are fixed: inputs are not reordered, and the
 * result has the format asked for; where they cannot, they decline. */
#ifndef TESSERA_OPS_ACCEPT_IMPL_H
#define TESSERA_OPS_ACCEPT_IMPL_H

#include "dispatch/prepared_impl.h"

/* Wants an input row-major without gaps; and in any format, for the call's layout. */
status_t accept_plain(const op_call_t *call, prepared_t *prepared, int index);
status_t accept_format(const op_call_t *call, prepared_t *prepared, int index,
                       const format_t *format);

/* Gives an output in a format. */
status_t accept_out(const op_call_t *call, prepared_t *prepared, int index, const format_t *format);
status_t accept_out_plain(const op_call_t *call, prepared_t *prepared, int index);

/* Gives output `index` as a view of input 0 with these strides, `offset` elements in. */
status_t accept_view(const op_call_t *call, prepared_t *prepared, int index, const int64_t *strides,
                     int64_t offset);

/* The tensor in a format without gaps, for a layout. */
tensor_info_t accept_info(const tensor_info_t *info, layout_t layout, const format_t *format);

/* The tag that a tensor's elements lie in, or plain if they have gaps or overlaps. */
format_t accept_own(const tensor_info_t *info);

/* The tag without gaps whose dimensions are in the order of the tensor's strides; plain for blocks.
 */
format_t accept_order(const tensor_info_t *info);

/* Operands of post-ops go together with the result; for `infer`. */
status_t accept_post(context_t *ctx, const op_call_t *call, const tensor_info_t *out);

#endif
