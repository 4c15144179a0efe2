/* How kernels choose the formats of operands and results.
 *
 * A call may fix its formats: inputs are not reordered then, and the result has the requested
 * format. These functions decline the call if the formats that the kernel needs differ from the
 * fixed ones. */
#ifndef TESSERA_OPS_ACCEPT_IMPL_H
#define TESSERA_OPS_ACCEPT_IMPL_H

#include "dispatch/prepared_impl.h"
#include "tensor/info_impl.h"

/* The kernel reads input `index` row-major without gaps, or in a given format. */
status_t accept_plain(const op_call_t *call, prepared_t *prepared, int index);
status_t accept_format(const op_call_t *call, prepared_t *prepared, int index,
                       const format_t *format);

/* The kernel reads input `index` with any order of dimensions and any strides, if it has no blocks
 * and the elements of the last dimension are adjacent; otherwise row-major without gaps. */
status_t accept_rows(const op_call_t *call, prepared_t *prepared, int index);

/* The kernel reads those of the inputs `first` to `last` that are present row-major without gaps,
 * also if the call fixes formats: for weights, which are converted once. */
void accept_contiguous(const op_call_t *call, prepared_t *prepared, int first, int last);

/* The kernel writes output `index` in a given format, or row-major without gaps. */
status_t accept_out(const op_call_t *call, prepared_t *prepared, int index, const format_t *format);
status_t accept_out_plain(const op_call_t *call, prepared_t *prepared, int index);

/* Output `index` is a view of input 0 with these strides; its first element is element `offset`. */
status_t accept_view(const op_call_t *call, prepared_t *prepared, int index, const int64_t *strides,
                     int64_t offset);

/* Describes the tensor with `layout` and with `format`, without gaps. */
tensor_info_t accept_info(const tensor_info_t *info, layout_t layout, const format_t *format);

/* The tag without gaps that has the dimension order of the tensor's strides. Blocked tensors get
 * the plain tag. */
format_t accept_order(const tensor_info_t *info);

/* For `infer`: fails unless the operands of post-ops fit the result. */
status_t accept_post(context_t *ctx, const op_call_t *call, const tensor_info_t *out);

#endif
