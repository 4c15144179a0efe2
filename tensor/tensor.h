/* Tensors.
 *
 * A tensor has a dtype, sizes and a layout. A `dense` tensor has strides and a pointer to its
 * elements. An `mkldnn` tensor has any format that a kernel needs (info.h), and callers cannot read
 * its elements; use to_dense. Tensors are reference counted: the caller releases every tensor that
 * a function returns, except inside a scope, which releases it automatically (see scope.h). If the
 * required tensor of a call is NULL because an earlier call failed, the call returns that failure;
 * so a chain of calls in a scope needs one check, at its end. A view shares the bytes of its
 * base. */
#ifndef TESSERA_TENSOR_TENSOR_H
#define TESSERA_TENSOR_TENSOR_H

#include "tensor/info.h"

typedef struct tensor tensor_t;

/* ---- constructors: contiguous and dense ---- */

status_t tensor_empty(context_t *ctx, dtype_t dtype, int rank, const int64_t *sizes,
                      tensor_t **out_tensor) TESSERA_API(tensor_empty);
status_t tensor_zeros(context_t *ctx, dtype_t dtype, int rank, const int64_t *sizes,
                      tensor_t **out_tensor) TESSERA_API(tensor_zeros);
status_t tensor_full(context_t *ctx, dtype_t dtype, int rank, const int64_t *sizes, double value,
                     tensor_t **out_tensor) TESSERA_API(tensor_full);

/* Random numbers from the context's generator: tensor_rand is uniform in [0, 1), tensor_randn is
 * standard normal. Floating-point dtypes only. */
status_t tensor_rand(context_t *ctx, dtype_t dtype, int rank, const int64_t *sizes,
                     tensor_t **out_tensor) TESSERA_API(tensor_rand);
status_t tensor_randn(context_t *ctx, dtype_t dtype, int rank, const int64_t *sizes,
                      tensor_t **out_tensor) TESSERA_API(tensor_randn);

/* Makes the n elements first, first + 1, first + 2, ... */
status_t tensor_arange(context_t *ctx, dtype_t dtype, int64_t n, double first,
                       tensor_t **out_tensor) TESSERA_API(tensor_arange);

/* Makes a tensor with a copy of `elements`, which are row-major and have this dtype. */
status_t tensor_from(context_t *ctx, dtype_t dtype, int rank, const int64_t *sizes,
                     const void *elements, tensor_t **out_tensor) TESSERA_API(tensor_from);

/* Make tensors of rank 0 that act as Python numbers do in PyTorch's type promotion: f32 tensor +
 * number is f32. tensor_number makes an f64, tensor_integer an s64. */
status_t tensor_number(context_t *ctx, double value, tensor_t **out_tensor)
    TESSERA_API(tensor_number);
status_t tensor_integer(context_t *ctx, int64_t value, tensor_t **out_tensor)
    TESSERA_API(tensor_integer);

/* Makes a tensor on the caller's memory, which must exist until deleter(user, data) is called.
 * deleter may be NULL. strides are in elements; NULL means contiguous. `data` must be aligned only
 * to the size of an element. */
status_t tensor_borrow(context_t *ctx, dtype_t dtype, int rank, const int64_t *sizes,
                       const int64_t *strides, void *data, void (*deleter)(void *user, void *data),
                       void *user, tensor_t **out_tensor) TESSERA_API(tensor_borrow);

/* Makes an mkldnn tensor of f32 elements in a grouped format (grouping_t in format.h), which takes
 * 2, 4 or 8 bits and a share of a scale for each element. For weights of linear and embedding;
 * other operators get the widened elements. The arrays are copied:
 *
 *   codes    [sizes..], one in each byte: s8 or u8, even if the format's codes have fewer bits
 *   scales   [sizes[0] .. sizes[rank-2]][groups], in grouping->scale; the groups of a row are
 *            ceil(sizes[rank-1] / grouping->group)
 *   offsets  the same shape: minima in grouping->scale, or zeros, one in each byte; NULL for
 *            GROUPING_NONE
 *
 * INVALID_ARGUMENT if the grouping is invalid, the tensor is empty or has rank 0, or a code or zero
 * is out of range. */
status_t tensor_grouped(context_t *ctx, const grouping_t *grouping, int rank, const int64_t *sizes,
                        const void *codes, const void *scales, const void *offsets,
                        tensor_t **out_tensor) TESSERA_API(tensor_grouped);

tensor_t *tensor_retain(tensor_t *tensor) TESSERA_API(tensor_retain);
void tensor_release(tensor_t *tensor) TESSERA_API(tensor_release);

/* ---- queries ---- */

dtype_t tensor_dtype(const tensor_t *tensor) TESSERA_API(tensor_dtype);
layout_t tensor_layout(const tensor_t *tensor) TESSERA_API(tensor_layout);
int tensor_rank(const tensor_t *tensor) TESSERA_API(tensor_rank);
const int64_t *tensor_sizes(const tensor_t *tensor) TESSERA_API(tensor_sizes);
int64_t tensor_numel(const tensor_t *tensor) TESSERA_API(tensor_numel);
const tensor_info_t *tensor_info(const tensor_t *tensor) TESSERA_API(tensor_info);

/* Strides in elements. UNSUPPORTED for mkldnn tensors. */
status_t tensor_strides(context_t *ctx, const tensor_t *tensor, const int64_t **out_strides)
    TESSERA_API(tensor_strides);

/* Pointer to the first element. Fails with UNSUPPORTED for mkldnn tensors: use to_dense. To write
 * elements, use tensor_data_mutable, which first copies the bytes if a snapshot shares them or if
 * they are read-only. A pointer is valid until the next call that writes to the tensor. */
status_t tensor_data(context_t *ctx, const tensor_t *tensor, const void **out_data)
    TESSERA_API(tensor_data);
status_t tensor_data_mutable(context_t *ctx, tensor_t *tensor, void **out_data)
    TESSERA_API(tensor_data_mutable);

/* True if the tensor or its bytes are used elsewhere: by another reference, a view, a snapshot, the
 * owner of borrowed memory, or a mapped file. If false, nobody else notices a write to the tensor.
 * False for NULL. */
bool tensor_is_shared(const tensor_t *tensor) TESSERA_API(tensor_is_shared);

/* The value of a tensor with exactly one element; any layout. */
status_t tensor_item(context_t *ctx, const tensor_t *tensor, double *out_value)
    TESSERA_API(tensor_item);
status_t tensor_item_integer(context_t *ctx, const tensor_t *tensor, int64_t *out_value)
    TESSERA_API(tensor_item_integer);

/* Copies all elements out in row-major order; any layout. capacity is in bytes. */
status_t tensor_read(context_t *ctx, const tensor_t *tensor, void *out_elements, size_t capacity)
    TESSERA_API(tensor_read);

/* max |a - b| / max |b| over all elements; any layouts. max |b| leaves out infinities. The result
 * is 0 if both maxima are 0, and infinite if an element is NaN or infinite in only one of the two
 * tensors. */
status_t tensor_max_rel_diff(context_t *ctx, const tensor_t *a, const tensor_t *b,
                             double *out_difference) TESSERA_API(tensor_max_rel_diff);

/* ---- views of dense tensors: no bytes move ---- */

/* Makes a view with any sizes and strides >= 0 that is inside the base's storage. offset is in
 * elements from the base's first element. */
status_t tensor_as_strided(context_t *ctx, const tensor_t *base, int rank, const int64_t *sizes,
                           const int64_t *strides, int64_t offset, tensor_t **out_view)
    TESSERA_API(tensor_as_strided);
/* Like torch.Tensor.view: one size may be -1. Fails with INVALID_ARGUMENT if a view cannot have
 * these sizes because the base's strides do not allow it. */
status_t tensor_view(context_t *ctx, const tensor_t *base, int rank, const int64_t *sizes,
                     tensor_t **out_view) TESSERA_API(tensor_view);
status_t tensor_permute(context_t *ctx, const tensor_t *base, int rank, const int64_t *dims,
                        tensor_t **out_view) TESSERA_API(tensor_permute);
status_t tensor_narrow(context_t *ctx, const tensor_t *base, int64_t dim, int64_t start,
                       int64_t length, tensor_t **out_view) TESSERA_API(tensor_narrow);

/* ---- copies ---- */

/* Copies a tensor. The copy of a dense tensor is contiguous; the copy of an mkldnn tensor has the
 * same format. */
status_t tensor_clone(context_t *ctx, const tensor_t *tensor, tensor_t **out_copy)
    TESSERA_API(tensor_clone);
/* Returns the tensor itself, retained, if it is contiguous; else a contiguous copy. The tensor must
 * be dense. */
status_t tensor_contiguous(context_t *ctx, const tensor_t *tensor, tensor_t **out_tensor)
    TESSERA_API(tensor_contiguous);
/* Copies a dense tensor of rank 3 to 5 such that dimension 1 is the fastest in memory. The copy is
 * dense. */
status_t tensor_channels_last(context_t *ctx, const tensor_t *tensor, tensor_t **out_tensor)
    TESSERA_API(tensor_channels_last);
/* Converts to another dtype; returns the tensor itself, retained, if it already has that dtype. */
status_t tensor_cast(context_t *ctx, const tensor_t *tensor, dtype_t dtype, tensor_t **out_tensor)
    TESSERA_API(tensor_cast);
/* Copies the elements of src to dst. Sizes must be equal; dtypes and layouts may differ. */
status_t tensor_copy(context_t *ctx, tensor_t *dst, const tensor_t *src) TESSERA_API(tensor_copy);
status_t tensor_fill(context_t *ctx, tensor_t *tensor, double value) TESSERA_API(tensor_fill);

#endif
