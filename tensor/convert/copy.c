#include <math.h>
#include <string.h>

#include "tensor/convert/convert_impl.h"
#include "tensor/tensor_impl.h"
#include "tensor/threads/threads_impl.h"

#define CHUNK 256

/* ---- moving elements between dense tensors ---- */

/* Copies and casts elements. Counts this as a copy only if the order of elements in memory
 * changes. */
static void move(context_t *ctx, const tensor_info_t *src_info, const void *src,
                 const tensor_info_t *dst_info, void *dst)
{
    int64_t numel = info_numel(dst_info);
    if (numel == 0) return;
    bool is_same = format_same(&src_info->format, &dst_info->format, dst_info->sizes);
    if (is_same && src_info->dtype == dst_info->dtype && info_is_contiguous(dst_info)) {
        memcpy(dst, src, (size_t)numel * dtype_size(dst_info->dtype));
        return;
    }
    uint64_t begin = is_same ? 0 : context_now();
    convert_strided(dst_info->rank, dst_info->sizes, src_info->dtype, src_info->format.strides, src,
                    dst_info->dtype, dst_info->format.strides, dst, threads_for(ctx, numel));
    if (is_same) return;
    const size_t element = dtype_size(src_info->dtype) + dtype_size(dst_info->dtype);
    convert_tell(ctx,
                 (conversion_t){.cause = CAUSE_USER,
                                .by = "tessera",
                                .is_copy = true,
                                .from = src_info,
                                .to = dst_info,
                                .from_bytes = src,
                                .to_bytes = dst,
                                .bytes = (uint64_t)numel * element},
                 begin);
}

/* Makes a dense tensor with the given info and the elements of src. */
static status_t copy_as(context_t *ctx, const tensor_t *src, const tensor_info_t *info,
                        tensor_t **out_copy)
{
    tensor_t *copy = NULL;
    void *bytes = NULL;
    TRY(storage_restore(ctx, src->storage, CAUSE_USER));
    TRY(tensor_make(ctx, info, &copy));
    TRY_OR(tensor_writable(ctx, copy, &bytes), tensor_drop(copy));
    move(ctx, &src->info, tensor_bytes(src), info, bytes);
    *out_copy = copy;
    return STATUS_OK;
}

status_t tensor_readable(context_t *ctx, const tensor_t *tensor, tensor_t **out_dense)
{
    if (tensor->info.layout == LAYOUT_DENSE) {
        TRY(storage_restore(ctx, tensor->storage, CAUSE_USER));
        *out_dense = tensor_hold((tensor_t *)(uintptr_t)tensor);
        return STATUS_OK;
    }
    tensor_info_t dense = info_dense(tensor->info.dtype, tensor->info.rank, tensor->info.sizes);
    return convert_to(ctx, tensor, &dense, CAUSE_USER, out_dense);
}

/* ---- clone, contiguous, channels_last ---- */

static status_t duplicate_mkldnn(context_t *ctx, const tensor_t *tensor, tensor_t **out_copy)
{
    tensor_t *copy = NULL;
    void *bytes = NULL;
    TRY(tensor_make(ctx, &tensor->info, &copy));
    TRY_OR(tensor_writable(ctx, copy, &bytes), tensor_drop(copy));
    memcpy(bytes, tensor_bytes(tensor), info_bytes(&tensor->info));
    *out_copy = copy;
    return STATUS_OK;
}

status_t tensor_duplicate(context_t *ctx, const tensor_t *tensor, tensor_t **out_copy)
{
    const tensor_info_t *info = &tensor->info;
    if (info->layout != LAYOUT_DENSE) return duplicate_mkldnn(ctx, tensor, out_copy);
    tensor_info_t contiguous = info_dense(info->dtype, info->rank, info->sizes);
    contiguous.is_number = info->is_number;
    return copy_as(ctx, tensor, &contiguous, out_copy);
}

status_t tensor_clone(context_t *ctx, const tensor_t *tensor, tensor_t **out_copy)
{
    TRY(context_output(ctx, "tensor_clone", out_copy));
    if (tensor == NULL) return context_null(ctx, "tensor_clone", "tensor");
    tensor_t *copy = NULL;
    TRY(tensor_duplicate(ctx, tensor, &copy));
    return tensor_give(ctx, copy, out_copy);
}

status_t tensor_contiguous(context_t *ctx, const tensor_t *tensor, tensor_t **out_tensor)
{
    TRY(context_output(ctx, "tensor_contiguous", out_tensor));
    TRY(tensor_need_dense(ctx, "tensor_contiguous", tensor));
    tensor_t *result = NULL;
    if (info_is_contiguous(&tensor->info))
        result = tensor_hold((tensor_t *)(uintptr_t)tensor);
    else
        TRY(tensor_duplicate(ctx, tensor, &result));
    return tensor_give(ctx, result, out_tensor);
}

status_t tensor_channels_last(context_t *ctx, const tensor_t *tensor, tensor_t **out_tensor)
{
    TRY(context_output(ctx, "tensor_channels_last", out_tensor));
    TRY(tensor_need_dense(ctx, "tensor_channels_last", tensor));
    const tensor_info_t *info = &tensor->info;
    REQUIRE(ctx, info->rank >= 3 && info->rank <= 5,
            "tensor_channels_last: %s has rank %d, must be 3 to 5", tensor_text(tensor),
            info->rank);
    format_t format = format_channels_last(info->rank);
    int64_t strides[TENSOR_MAX_RANK] = {0};
    format_strides(&format, info->sizes, strides);
    tensor_info_t wanted = info_strided(info->dtype, info->rank, info->sizes, strides);
    tensor_t *copy = NULL;
    TRY(copy_as(ctx, tensor, &wanted, &copy));
    return tensor_give(ctx, copy, out_tensor);
}

/* ---- cast ---- */

/* Casts a dense tensor. If the tensor has no gaps, the result has the same strides, as in
 * PyTorch. */
static status_t cast_dense(context_t *ctx, const tensor_t *tensor, dtype_t dtype,
                           tensor_t **out_tensor)
{
    const tensor_info_t *info = &tensor->info;
    format_t order = format_of_strides(info->rank, info->sizes, info->format.strides);
    tensor_info_t wanted = order.kind == FORMAT_TAG
                               ? info_strided(dtype, info->rank, info->sizes, info->format.strides)
                               : info_dense(dtype, info->rank, info->sizes);
    return copy_as(ctx, tensor, &wanted, out_tensor);
}

/* Casts a blocked tensor as one long row, padding included; the padding stays zero. */
static status_t cast_elements(context_t *ctx, const tensor_t *tensor, dtype_t dtype,
                              tensor_t **out_tensor)
{
    tensor_info_t info = tensor->info;
    info.dtype = dtype;
    const char *refusal = convert_refusal(&info);
    if (refusal != NULL)
        FAIL(ctx, STATUS_UNSUPPORTED, "tensor_cast: %s to %s, %s", tensor_text(tensor),
             dtype_name(dtype), refusal);
    if (info.format.kind == FORMAT_STRIDED) {
        info.format = format_of_strides(info.rank, info.sizes, info.format.strides);
        if (info.format.kind != FORMAT_TAG) info.format = format_plain(info.rank);
    }
    tensor_t *copy = NULL;
    void *bytes = NULL;
    TRY(tensor_make(ctx, &info, &copy));
    TRY_OR(tensor_writable(ctx, copy, &bytes), tensor_drop(copy));
    if (tensor->info.format.kind == FORMAT_TAG) {
        int64_t n = (int64_t)(info_bytes(&info) / dtype_size(dtype));
        const int64_t one = 1;
        convert_strided(1, &n, tensor->info.dtype, &one, tensor_bytes(tensor), dtype, &one, bytes,
                        threads_for(ctx, n));
    } else {
        tensor_info_t plain = info;
        plain.format = tensor->info.format;
        format_strides(&info.format, info.sizes, plain.format.strides);
        move(ctx, &tensor->info, tensor_bytes(tensor), &plain, bytes);
    }
    *out_tensor = copy;
    return STATUS_OK;
}

/* True if each element has its own bytes, unlike in a trimmed matrix (trim_impl.h). */
static bool has_places(const tensor_info_t *info)
{
    return info->format.kind == FORMAT_TAG || info->format.kind == FORMAT_STRIDED;
}

static status_t cast_mkldnn(context_t *ctx, const tensor_t *tensor, dtype_t dtype,
                            tensor_t **out_tensor)
{
    if (has_places(&tensor->info)) return cast_elements(ctx, tensor, dtype, out_tensor);
    const format_t format = format_plain(tensor->info.rank);
    const tensor_info_t want = info_mkldnn(&tensor->info, &format);
    tensor_t *plain = NULL;
    TRY(storage_restore(ctx, tensor->storage, CAUSE_USER));
    TRY(convert_make(ctx, tensor, &want, CAUSE_USER, &plain));
    FINISH(cast_elements(ctx, plain, dtype, out_tensor), tensor_drop(plain));
}

status_t tensor_cast(context_t *ctx, const tensor_t *tensor, dtype_t dtype, tensor_t **out_tensor)
{
    TRY(context_output(ctx, "tensor_cast", out_tensor));
    if (tensor == NULL) return context_null(ctx, "tensor_cast", "tensor");
    const tensor_info_t *info = &tensor->info;
    TRY(tensor_check(ctx, "tensor_cast", dtype, info->rank, info->sizes));
    tensor_t *result = NULL;
    if (info->dtype == dtype)
        result = tensor_hold((tensor_t *)(uintptr_t)tensor);
    else if (info->layout == LAYOUT_DENSE)
        TRY(cast_dense(ctx, tensor, dtype, &result));
    else
        TRY(cast_mkldnn(ctx, tensor, dtype, &result));
    return tensor_give(ctx, result, out_tensor);
}

/* ---- copy and fill ---- */

status_t tensor_check_writable(context_t *ctx, const char *op, const tensor_t *tensor)
{
    const tensor_info_t *info = &tensor->info;
    if (info->format.kind != FORMAT_STRIDED) return STATUS_OK;
    for (int d = 0; d < info->rank; d++)
        REQUIRE(ctx, info->sizes[d] <= 1 || info->format.strides[d] != 0,
                "%s: %s has elements that share memory, cannot be written", op,
                tensor_text(tensor));
    return STATUS_OK;
}

/* Makes a source that one conversion or one loop can copy into dst: it must be in another storage
 * than dst, and either dense or, if dst is mkldnn, of the same dtype as dst. */
static status_t prepare_source(context_t *ctx, const tensor_t *dst, const tensor_t *src,
                               tensor_t **out_source)
{
    tensor_t *source = NULL, *dense = NULL;
    if (src->storage == dst->storage)
        TRY(tensor_duplicate(ctx, src, &source));
    else
        source = tensor_hold((tensor_t *)(uintptr_t)src);
    if (src->info.dtype != dst->info.dtype) {
        status_t status = tensor_readable(ctx, source, &dense);
        tensor_drop(source);
        if (status != STATUS_OK) return status;
        source = dense;
        if (dst->info.layout == LAYOUT_MKLDNN) {
            status = cast_dense(ctx, dense, dst->info.dtype, &source);
            tensor_drop(dense);
            if (status != STATUS_OK) return status;
        }
    }
    *out_source = source;
    return STATUS_OK;
}

bool tensor_lies_like(const tensor_info_t *a, const tensor_info_t *b)
{
    return a->dtype == b->dtype && shape_equal(a->rank, a->sizes, b->rank, b->sizes) &&
           format_same(&a->format, &b->format, a->sizes);
}

status_t tensor_copy(context_t *ctx, tensor_t *dst, const tensor_t *src)
{
    if (ctx == NULL) return STATUS_INVALID_ARGUMENT;
    if (dst == NULL) return context_null(ctx, "tensor_copy", "dst");
    if (src == NULL) return context_null(ctx, "tensor_copy", "src");
    REQUIRE(ctx, shape_equal(dst->info.rank, dst->info.sizes, src->info.rank, src->info.sizes),
            "tensor_copy: src %s into dst %s, sizes must be equal", tensor_text(src),
            tensor_text(dst));
    TRY(tensor_check_writable(ctx, "tensor_copy", dst));
    if (dst == src || tensor_numel(dst) == 0) return STATUS_OK;

    tensor_t *source = NULL;
    void *bytes = NULL;
    TRY(prepare_source(ctx, dst, src, &source));
    status_t status = storage_restore(ctx, source->storage, CAUSE_USER);
    if (status == STATUS_OK) status = tensor_writable(ctx, dst, &bytes);
    if (status == STATUS_OK) {
        if (source->info.layout == LAYOUT_DENSE && dst->info.layout == LAYOUT_DENSE)
            move(ctx, &source->info, tensor_bytes(source), &dst->info, bytes);
        else
            status = convert_bytes(ctx, &source->info, tensor_bytes(source), &dst->info, bytes,
                                   CAUSE_USER);
    }
    tensor_drop(source);
    return status;
}

/* Fills a packed tensor with a number: fills a dense tensor and converts it. */
static status_t fill_packed(context_t *ctx, tensor_t *tensor, double value)
{
    const tensor_info_t *info = &tensor->info;
    const tensor_info_t dense = info_dense(info->dtype, info->rank, info->sizes);
    tensor_t *full = NULL;
    TRY(tensor_make(ctx, &dense, &full));
    status_t status = tensor_fill(ctx, full, value);
    if (status == STATUS_OK) status = tensor_copy(ctx, tensor, full);
    tensor_drop(full);
    return status;
}

status_t tensor_fill(context_t *ctx, tensor_t *tensor, double value)
{
    if (tensor == NULL) return context_null(ctx, "tensor_fill", "tensor");
    TRY(tensor_check_writable(ctx, "tensor_fill", tensor));
    const tensor_info_t *info = &tensor->info;
    int64_t numel = info_numel(info);
    if (numel == 0) return STATUS_OK;
    if (!has_places(info)) return fill_packed(ctx, tensor, value);
    void *bytes = NULL;
    TRY(tensor_writable(ctx, tensor, &bytes));

    static const int64_t still[TENSOR_MAX_RANK] = {0};
    union {
        double number;
        int64_t integer;
    } element;
    dtype_store(info->dtype, &element, value);
    int n_threads = threads_for(ctx, numel);
    if (info->format.kind == FORMAT_STRIDED) {
        convert_strided(info->rank, info->sizes, info->dtype, still, &element, info->dtype,
                        info->format.strides, bytes, n_threads);
        return STATUS_OK;
    }
    int64_t n = (int64_t)(info_bytes(info) / dtype_size(info->dtype));
    const int64_t one = 1;
    convert_strided(1, &n, info->dtype, still, &element, info->dtype, &one, bytes, n_threads);
    if (format_is_padded(&info->format, info->sizes)) convert_zero_padding(info, bytes);
    return STATUS_OK;
}

/* ---- reading ---- */

status_t tensor_read(context_t *ctx, const tensor_t *tensor, void *out_elements, size_t capacity)
{
    if (tensor == NULL) return context_null(ctx, "tensor_read", "tensor");
    const tensor_info_t *info = &tensor->info;
    size_t needed = (size_t)info_numel(info) * dtype_size(info->dtype);
    REQUIRE(ctx, storage_looks(tensor->storage) == NULL,
            "tensor_read: %s has sizes but no elements while a method is traced at other sizes",
            tensor_text(tensor));
    REQUIRE(ctx, capacity >= needed, "tensor_read: %s needs %zu bytes, capacity is %zu",
            tensor_text(tensor), needed, capacity);
    if (needed == 0) return STATUS_OK;
    if (out_elements == NULL) return context_null(ctx, "tensor_read", "the output");
    TRY(storage_restore(ctx, tensor->storage, CAUSE_USER));
    tensor_info_t plain = info_dense(info->dtype, info->rank, info->sizes);
    if (info->layout == LAYOUT_MKLDNN)
        return convert_bytes(ctx, info, tensor_bytes(tensor), &plain, out_elements, CAUSE_USER);
    move(ctx, info, tensor_bytes(tensor), &plain, out_elements);
    return STATUS_OK;
}

typedef struct difference {
    double largest; /* largest |a - b| */
    double scale;   /* largest finite |b| */
} difference_t;

static void compare(difference_t *difference, int64_t n, const double *a, const double *b)
{
    for (int64_t i = 0; i < n; i++) {
        double size = fabs(b[i]);
        if (isfinite(size) && size > difference->scale) difference->scale = size;
        if (a[i] == b[i] || (isnan(a[i]) && isnan(b[i]))) continue;
        double apart = isfinite(a[i]) && isfinite(b[i]) ? fabs(a[i] - b[i]) : INFINITY;
        if (apart > difference->largest) difference->largest = apart;
    }
}

static const char *row_at(const tensor_t *tensor, const int64_t *index)
{
    int64_t offset = 0;
    for (int d = 0; d < tensor->info.rank - 1; d++)
        offset += index[d] * tensor->info.format.strides[d];
    return (const char *)tensor_bytes(tensor) + offset * (int64_t)dtype_size(tensor->info.dtype);
}

static void compare_row(difference_t *difference, const tensor_t *a, const tensor_t *b,
                        const int64_t *index)
{
    int last = a->info.rank - 1;
    int64_t n = last >= 0 ? a->info.sizes[last] : 1;
    int64_t stride_a = last >= 0 ? a->info.format.strides[last] : 1;
    int64_t stride_b = last >= 0 ? b->info.format.strides[last] : 1;
    const char *from_a = row_at(a, index), *from_b = row_at(b, index);
    double values_a[CHUNK], values_b[CHUNK];
    for (int64_t i = 0; i < n; i += CHUNK) {
        int64_t count = n - i < CHUNK ? n - i : CHUNK;
        dtype_cast(count, a->info.dtype, from_a + i * stride_a * (int64_t)dtype_size(a->info.dtype),
                   stride_a, DTYPE_F64, values_a, 1);
        dtype_cast(count, b->info.dtype, from_b + i * stride_b * (int64_t)dtype_size(b->info.dtype),
                   stride_b, DTYPE_F64, values_b, 1);
        compare(difference, count, values_a, values_b);
    }
}

status_t tensor_max_rel_diff(context_t *ctx, const tensor_t *a, const tensor_t *b,
                             double *out_difference)
{
    if (ctx == NULL) return STATUS_INVALID_ARGUMENT;
    if (a == NULL) return context_null(ctx, "tensor_max_rel_diff", "a");
    if (b == NULL) return context_null(ctx, "tensor_max_rel_diff", "b");
    if (out_difference == NULL) return context_null(ctx, "tensor_max_rel_diff", "the output");
    REQUIRE(ctx, shape_equal(a->info.rank, a->info.sizes, b->info.rank, b->info.sizes),
            "tensor_max_rel_diff: %s and %s, sizes must be equal", tensor_text(a), tensor_text(b));
    difference_t difference = {0};
    if (tensor_numel(a) > 0) {
        tensor_t *dense_a = NULL, *dense_b = NULL;
        TRY(tensor_readable(ctx, a, &dense_a));
        status_t status = tensor_readable(ctx, b, &dense_b);
        if (status != STATUS_OK) {
            tensor_drop(dense_a);
            return status;
        }
        int64_t index[TENSOR_MAX_RANK] = {0};
        do compare_row(&difference, dense_a, dense_b, index);
        while (shape_next(a->info.rank - 1, a->info.sizes, index));
        tensor_drop(dense_a);
        tensor_drop(dense_b);
    }
    *out_difference = difference.largest > 0 ? difference.largest / difference.scale : 0.0;
    return STATUS_OK;
}
