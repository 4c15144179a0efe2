#include "tensor/tensor_impl.h"

static status_t need_base(context_t *ctx, const char *op, const tensor_t *base)
{
    if (base == NULL) return context_null(ctx, op, "base");
    if (base->info.layout != LAYOUT_DENSE)
        FAIL(ctx, STATUS_UNSUPPORTED, "%s: %s is opaque, use to_dense", op, tensor_text(base));
    return STATUS_OK;
}

static status_t give_view(context_t *ctx, const tensor_t *base, int rank, const int64_t *sizes,
                          const int64_t *strides, int64_t offset, tensor_t **out_view)
{
    tensor_info_t info = info_strided(base->info.dtype, rank, sizes, strides);
    tensor_t *view = NULL;
    TRY(tensor_over(ctx, &info, base->storage,
                    base->offset + offset * (int64_t)dtype_size(base->info.dtype), &view));
    return tensor_give(ctx, view, out_view);
}

/* Finds the range of bytes in the storage that a view uses. Returns false on overflow. */
static bool find_reach(const tensor_t *base, int rank, const int64_t *sizes, const int64_t *strides,
                       int64_t offset, int64_t *out_first, int64_t *out_end)
{
    int64_t element = (int64_t)dtype_size(base->info.dtype);
    int64_t last = 0, step;
    bool is_empty = false;
    for (int d = 0; d < rank; d++) {
        if (sizes[d] == 0) is_empty = true;
        int64_t steps = sizes[d] > 0 ? sizes[d] - 1 : 0;
        if (!shape_multiply(steps, strides[d], &step)) return false;
        if (__builtin_add_overflow(last, step, &last)) return false;
    }
    int64_t n_elements = is_empty ? 0 : last;
    if (!is_empty && __builtin_add_overflow(last, 1, &n_elements)) return false;
    int64_t start, length;
    return !__builtin_mul_overflow(offset, element, &start) &&
           !__builtin_add_overflow(start, base->offset, out_first) &&
           shape_multiply(n_elements, element, &length) &&
           !__builtin_add_overflow(*out_first, length, out_end);
}

status_t tensor_as_strided(context_t *ctx, const tensor_t *base, int rank, const int64_t *sizes,
                           const int64_t *strides, int64_t offset, tensor_t **out_view)
{
    TRY(context_output(ctx, "tensor_as_strided", out_view));
    const char *op = "tensor_as_strided";
    TRY(need_base(ctx, op, base));
    TRY(tensor_check(ctx, op, base->info.dtype, rank, sizes));
    if (rank > 0 && strides == NULL) return context_null(ctx, op, "strides");
    for (int d = 0; d < rank; d++)
        REQUIRE(ctx, strides[d] >= 0, "%s: stride %lld of dimension %d, must be >= 0", op,
                (long long)strides[d], d);
    int64_t first = 0, end = 0;
    REQUIRE(ctx,
            find_reach(base, rank, sizes, strides, offset, &first, &end) && first >= 0 &&
                (uint64_t)end <= storage_bytes(base->storage),
            "%s: the view at offset %lld reaches outside the storage of %s", op, (long long)offset,
            tensor_text(base));
    return give_view(ctx, base, rank, sizes, strides, offset, out_view);
}

/* Works like PyTorch's computeStride: merges dimensions of the base that are contiguous in memory.
 * The size of each merged dimension must be a product of sizes of the view. */
bool view_strides(const tensor_info_t *base, int rank, const int64_t *sizes, int64_t *out_strides)
{
    int64_t numel;
    if (base->format.kind != FORMAT_STRIDED || !shape_numel(rank, sizes, &numel) ||
        numel != info_numel(base))
        return false;
    if (numel <= 1) {
        shape_strides(rank, sizes, out_strides);
        return true;
    }
    const int64_t *strides = base->format.strides;
    int d = rank - 1;
    int64_t run_stride = strides[base->rank - 1], run = 1, taken = 1;
    for (int b = base->rank - 1; b >= 0; b--) {
        run *= base->sizes[b];
        if (b > 0 && (base->sizes[b - 1] == 1 || strides[b - 1] == run * run_stride)) continue;
        while (d >= 0 && (taken < run || sizes[d] == 1)) {
            out_strides[d] = taken * run_stride;
            taken *= sizes[d--];
        }
        if (taken != run) return false;
        if (b > 0) run_stride = strides[b - 1];
        run = taken = 1;
    }
    return d == -1;
}

/* Computes the one size that is -1. */
static status_t infer_size(context_t *ctx, const tensor_t *base, int rank, const int64_t *sizes,
                           int64_t *out_sizes)
{
    const char *op = "tensor_view";
    char wanted[128];
    int unknown = -1;
    REQUIRE(ctx, rank >= 0 && rank <= TENSOR_MAX_RANK, "%s: rank %d, must be 0 to %d", op, rank,
            TENSOR_MAX_RANK);
    if (rank > 0 && sizes == NULL) return context_null(ctx, op, "sizes");
    shape_text(rank, sizes, wanted, sizeof wanted);
    for (int d = 0; d < rank; d++) {
        out_sizes[d] = sizes[d];
        if (sizes[d] != -1) continue;
        REQUIRE(ctx, unknown < 0, "%s: %s as %s, only one size may be -1", op, tensor_text(base),
                wanted);
        unknown = d;
        out_sizes[d] = 1;
    }
    TRY(shape_check(ctx, op, base->info.dtype, rank, out_sizes));
    int64_t known = 0, numel = tensor_numel(base);
    REQUIRE(ctx, shape_numel(rank, out_sizes, &known), "%s: %s overflows", op, wanted);
    if (unknown >= 0) {
        REQUIRE(ctx, known > 0 && numel % known == 0, "%s: %s as %s, no size fits for -1", op,
                tensor_text(base), wanted);
        out_sizes[unknown] = numel / known;
        return STATUS_OK;
    }
    REQUIRE(ctx, known == numel, "%s: %s as %s, the number of elements must stay", op,
            tensor_text(base), wanted);
    return STATUS_OK;
}

status_t tensor_view(context_t *ctx, const tensor_t *base, int rank, const int64_t *sizes,
                     tensor_t **out_view)
{
    TRY(context_output(ctx, "tensor_view", out_view));
    TRY(need_base(ctx, "tensor_view", base));
    int64_t full[TENSOR_MAX_RANK] = {0}, strides[TENSOR_MAX_RANK] = {0};
    TRY(infer_size(ctx, base, rank, sizes, full));
    char wanted[128];
    REQUIRE(ctx, view_strides(&base->info, rank, full, strides),
            "tensor_view: %s as %s, its strides do not allow it, use tensor_contiguous",
            tensor_text(base), shape_text(rank, full, wanted, sizeof wanted));
    return give_view(ctx, base, rank, full, strides, 0, out_view);
}

status_t tensor_permute(context_t *ctx, const tensor_t *base, int rank, const int64_t *dims,
                        tensor_t **out_view)
{
    TRY(context_output(ctx, "tensor_permute", out_view));
    const char *op = "tensor_permute";
    TRY(need_base(ctx, op, base));
    REQUIRE(ctx, rank == base->info.rank, "%s: %d dims for %s, must be as many as its rank", op,
            rank, tensor_text(base));
    if (rank > 0 && dims == NULL) return context_null(ctx, op, "dims");
    int64_t sizes[TENSOR_MAX_RANK] = {0}, strides[TENSOR_MAX_RANK] = {0};
    bool is_used[TENSOR_MAX_RANK] = {false};
    for (int d = 0; d < rank; d++) {
        int from = 0;
        REQUIRE(ctx, shape_dim(rank, dims[d], &from), "%s: dim %lld of %s, out of range", op,
                (long long)dims[d], tensor_text(base));
        REQUIRE(ctx, !is_used[from], "%s: dim %d of %s twice, must be once", op, from,
                tensor_text(base));
        is_used[from] = true;
        sizes[d] = base->info.sizes[from];
        strides[d] = base->info.format.strides[from];
    }
    return give_view(ctx, base, rank, sizes, strides, 0, out_view);
}

/* If the view is empty, it begins where the base begins, so that it never points past the
 * storage. */
status_t tensor_narrow(context_t *ctx, const tensor_t *base, int64_t dim, int64_t start,
                       int64_t length, tensor_t **out_view)
{
    TRY(context_output(ctx, "tensor_narrow", out_view));
    const char *op = "tensor_narrow";
    TRY(need_base(ctx, op, base));
    int d = 0;
    REQUIRE(ctx, base->info.rank > 0 && shape_dim(base->info.rank, dim, &d),
            "%s: dim %lld of %s, out of range", op, (long long)dim, tensor_text(base));
    int64_t size = base->info.sizes[d];
    int64_t from = start < 0 ? start + size : start;
    REQUIRE(ctx, from >= 0 && from <= size && length >= 0 && length <= size - from,
            "%s: start %lld length %lld in dim %d of %s, out of range", op, (long long)start,
            (long long)length, d, tensor_text(base));
    tensor_info_t info = base->info;
    info.sizes[d] = length;
    int64_t offset = info_numel(&info) > 0 ? from * info.format.strides[d] : 0;
    return give_view(ctx, base, info.rank, info.sizes, info.format.strides, offset, out_view);
}
