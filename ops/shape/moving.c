/* Functions that move elements by calling other operators. */
#include "ops/shape/moving.h"

#include <math.h>
#include <string.h>

#include "ops/ops_impl.h"
#include "tensor/tensor_impl.h"

/* Describes three steps: reshape, then permute or broadcast, then reshape. */
typedef struct steps {
    int n;                            /* rank after the first reshape */
    int64_t between[TENSOR_MAX_RANK]; /* sizes after the first reshape */
    int64_t order[TENSOR_MAX_RANK];   /* order of dimensions; unused if is_wide */
    bool is_wide;                     /* broadcast instead of permute */
    int64_t wide[TENSOR_MAX_RANK];    /* sizes after the broadcast */
    int rank;
    int64_t sizes[TENSOR_MAX_RANK]; /* sizes of the result */
} steps_t;

static status_t take_steps(context_t *ctx, const tensor_t *x, const steps_t *steps, tensor_t **out)
{
    tensor_t *split = NULL, *moved = NULL;
    status_t status = op_reshape(ctx, x, steps->n, steps->between, &split);
    if (status == STATUS_OK)
        status = steps->is_wide ? op_expand(ctx, split, steps->n, steps->wide, &moved)
                                : op_permute(ctx, split, steps->n, steps->order, &moved);
    if (status == STATUS_OK) status = op_reshape(ctx, moved, steps->rank, steps->sizes, out);
    ops_drop(ctx, split);
    ops_drop(ctx, moved);
    return status;
}

/* ---- stack, chunk, select, unbind ---- */

status_t op_stack(context_t *ctx, int n, const tensor_t *const *tensors, int64_t dim,
                  tensor_t **out)
{
    tensor_t *wide[OP_MAX_INPUTS] = {NULL};
    int place = 0, n_made = 0;
    TRY(context_output(ctx, "stack", out));
    if (tensors == NULL) return context_null(ctx, "stack", "tensors");
    REQUIRE(ctx, n >= 1 && n <= OP_MAX_INPUTS, "stack: %d tensors, 1 to %d are possible", n,
            OP_MAX_INPUTS);
    for (int i = 0; i < n; i++) {
        if (tensors[i] == NULL) return context_null(ctx, "stack", "a tensor");
        const tensor_info_t *first = &tensors[0]->info, *info = &tensors[i]->info;
        REQUIRE(ctx, shape_equal(first->rank, first->sizes, info->rank, info->sizes),
                "stack: tensor %d is %s, tensor 0 is %s, equal sizes are needed", i,
                tensor_text(tensors[i]), tensor_text(tensors[0]));
    }
    const int rank = tensors[0]->info.rank;
    REQUIRE(ctx, rank < TENSOR_MAX_RANK && shape_dim(rank + 1, dim, &place),
            "stack: dim %lld for tensors %s, out of range", (long long)dim,
            tensor_text(tensors[0]));
    status_t status = STATUS_OK;
    for (; n_made < n && status == STATUS_OK; n_made++)
        status = op_unsqueeze(ctx, tensors[n_made], 1, (int64_t[]){place}, &wide[n_made]);
    if (status == STATUS_OK) status = op_concat(ctx, n, (const tensor_t *const *)wide, place, out);
    for (int i = 0; i < n_made; i++) ops_drop(ctx, wide[i]);
    return context_rename(ctx, status, "stack");
}

status_t op_chunk(context_t *ctx, const tensor_t *x, int n, int64_t dim, int *out_n, tensor_t **out)
{
    int place = 0, n_made = 0;
    TRY(context_output(ctx, "chunk", out));
    if (out_n == NULL) return context_null(ctx, "chunk", "the number of pieces");
    if (x == NULL) return context_null(ctx, "chunk", "x");
    REQUIRE(ctx, n >= 1, "chunk: %d pieces, 1 or more are possible", n);
    REQUIRE(ctx, x->info.rank > 0 && shape_dim(x->info.rank, dim, &place),
            "chunk: dim %lld of %s, out of range", (long long)dim, tensor_text(x));
    const int64_t size = x->info.sizes[place], piece = size / n + (size % n != 0);
    status_t status = STATUS_OK;
    for (int i = 0; i < n; i++) out[i] = NULL;
    do { /* an empty x is cut into n empty pieces */
        const int64_t begin = n_made * piece;
        status = op_slice(ctx, x, place, begin, begin + piece < size ? begin + piece : size, 1,
                          &out[n_made]);
    } while (status == STATUS_OK && ++n_made < n && (n_made * piece < size || size == 0));
    if (status == STATUS_OK) {
        *out_n = n_made;
        return STATUS_OK;
    }
    for (int i = 0; i < n_made; i++) {
        ops_drop(ctx, out[i]);
        out[i] = NULL;
    }
    return context_rename(ctx, status, "chunk");
}

static status_t take_slice(context_t *ctx, const tensor_t *x, int64_t dim, int64_t index,
                           tensor_t **out)
{
    tensor_t *slice = NULL;
    status_t status = op_slice(ctx, x, dim, index, index + 1, 1, &slice);
    if (status == STATUS_OK) status = op_squeeze(ctx, slice, 1, &dim, out);
    ops_drop(ctx, slice);
    return status;
}

status_t op_select(context_t *ctx, const tensor_t *x, int64_t dim, int64_t index, tensor_t **out)
{
    int place = 0;
    TRY(context_output(ctx, "select", out));
    if (x == NULL) return context_null(ctx, "select", "x");
    REQUIRE(ctx, x->info.rank > 0 && shape_dim(x->info.rank, dim, &place),
            "select: dim %lld of %s, out of range", (long long)dim, tensor_text(x));
    const int64_t size = x->info.sizes[place];
    REQUIRE(ctx, index >= -size && index < size, "select: index %lld of dim %d of %s, out of range",
            (long long)index, place, tensor_text(x));
    return context_rename(ctx, take_slice(ctx, x, place, index < 0 ? index + size : index, out),
                          "select");
}

status_t op_unbind(context_t *ctx, const tensor_t *x, int64_t dim, int n, tensor_t **out)
{
    int place = 0, n_made = 0;
    TRY(context_output(ctx, "unbind", out));
    if (x == NULL) return context_null(ctx, "unbind", "x");
    REQUIRE(ctx, x->info.rank > 0 && shape_dim(x->info.rank, dim, &place),
            "unbind: dim %lld of %s, out of range", (long long)dim, tensor_text(x));
    REQUIRE(ctx, n == x->info.sizes[place], "unbind: %d slices of dim %d of %s, all are given", n,
            place, tensor_text(x));
    for (int i = 0; i < n; i++) out[i] = NULL;
    status_t status = STATUS_OK;
    for (; n_made < n && status == STATUS_OK; n_made++)
        status = take_slice(ctx, x, place, n_made, &out[n_made]);
    if (status == STATUS_OK) return STATUS_OK;
    for (int i = 0; i < n; i++) {
        ops_drop(ctx, out[i]);
        out[i] = NULL;
    }
    return context_rename(ctx, status, "unbind");
}

/* ---- tile, repeat_interleave ---- */

status_t op_tile(context_t *ctx, const tensor_t *x, int n, const int64_t *repeats, tensor_t **out)
{
    steps_t steps = {.is_wide = true};
    TRY(context_output(ctx, "tile", out));
    if (x == NULL) return context_null(ctx, "tile", "x");
    if (n > 0 && repeats == NULL) return context_null(ctx, "tile", "repeats");
    REQUIRE(ctx, n >= 0 && n <= TENSOR_MAX_RANK, "tile: %d repeats, 0 to %d are possible", n,
            TENSOR_MAX_RANK);
    const int rank = x->info.rank;
    steps.rank = n > rank ? n : rank;
    for (int d = 0; d < steps.rank; d++) {
        const int from = d - (steps.rank - rank), at = d - (steps.rank - n);
        const int64_t size = from >= 0 ? x->info.sizes[from] : 1;
        const int64_t repeat = at >= 0 ? repeats[at] : 1;
        REQUIRE(ctx, repeat >= 1 && shape_multiply(size, repeat, &steps.sizes[d]),
                "tile: repeats %lld of %s, 1 or more are possible", (long long)repeat,
                tensor_text(x));
        const bool is_split = repeat > 1 && size != 1;
        if (steps.n + 1 + is_split > TENSOR_MAX_RANK)
            FAIL(ctx, STATUS_UNSUPPORTED, "tile: %d dimensions on the way, %d are the most",
                 steps.n + 1 + is_split, TENSOR_MAX_RANK);
        if (is_split) {
            steps.between[steps.n] = 1;
            steps.wide[steps.n++] = repeat;
        }
        steps.between[steps.n] = size;
        steps.wide[steps.n] = is_split ? size : steps.sizes[d];
        steps.n++;
    }
    return context_rename(ctx, take_steps(ctx, x, &steps, out), "tile");
}

status_t op_repeat_interleave(context_t *ctx, const tensor_t *x, int64_t repeats,
                              const int64_t *dim, tensor_t **out)
{
    steps_t steps = {.is_wide = true};
    int place = 0;
    TRY(context_output(ctx, "repeat_interleave", out));
    if (x == NULL) return context_null(ctx, "repeat_interleave", "x");
    const tensor_info_t *info = &x->info;
    const int64_t numel = info_numel(info);
    const bool is_flat = dim == NULL || info->rank == 0;
    const int64_t *sizes = is_flat ? &numel : info->sizes;
    steps.rank = is_flat ? 1 : info->rank;
    REQUIRE(ctx, dim == NULL || shape_dim(info->rank, *dim, &place),
            "repeat_interleave: dim %lld of %s, out of range", (long long)*dim, tensor_text(x));
    if (steps.rank == TENSOR_MAX_RANK)
        FAIL(ctx, STATUS_UNSUPPORTED, "repeat_interleave: rank %d, %d is the most", steps.rank,
             TENSOR_MAX_RANK - 1);
    for (int d = 0; d < steps.rank; d++) {
        steps.between[steps.n] = steps.wide[steps.n] = steps.sizes[d] = sizes[d];
        steps.n++;
        if (d != place) continue;
        REQUIRE(ctx, repeats >= 1 && shape_multiply(sizes[d], repeats, &steps.sizes[d]),
                "repeat_interleave: repeats %lld of %s, 1 or more are possible", (long long)repeats,
                tensor_text(x));
        steps.between[steps.n] = 1;
        steps.wide[steps.n++] = repeats;
    }
    return context_rename(ctx, take_steps(ctx, x, &steps, out), "repeat_interleave");
}

/* ---- pixel_shuffle, pixel_unshuffle ---- */

/* Sets the steps for all dimensions before the last three, which the operators do not change. */
static status_t begin_pixels(context_t *ctx, const char *op, const tensor_t *x, int64_t factor,
                             tensor_t **out, steps_t *steps)
{
    *steps = (steps_t){.n = 0};
    TRY(context_output(ctx, op, out));
    if (x == NULL) return context_null(ctx, op, "x");
    REQUIRE(ctx, x->info.rank >= 3 && x->info.rank <= TENSOR_MAX_RANK - 2,
            "%s: x is %s, rank 3 to %d is needed", op, tensor_text(x), TENSOR_MAX_RANK - 2);
    REQUIRE(ctx, factor >= 1 && factor <= INT32_MAX, "%s: factor %lld, must be 1 to %d", op,
            (long long)factor, INT32_MAX);
    for (; steps->n < x->info.rank - 3; steps->n++) {
        steps->between[steps->n] = steps->sizes[steps->n] = x->info.sizes[steps->n];
        steps->order[steps->n] = steps->n;
    }
    steps->rank = x->info.rank;
    return STATUS_OK;
}

/* Sets the last five dimensions of the first reshape, their order, and the last three sizes of the
 * result. */
static void end_pixels(steps_t *steps, const int64_t *between, const int *order,
                       const int64_t *sizes)
{
    for (int i = 0; i < 5; i++) {
        steps->between[steps->n + i] = between[i];
        steps->order[steps->n + i] = steps->n + order[i];
    }
    memcpy(&steps->sizes[steps->n], sizes, 3 * sizeof *sizes);
    steps->n += 5;
}

status_t op_pixel_shuffle(context_t *ctx, const tensor_t *x, int64_t factor, tensor_t **out)
{
    steps_t steps;
    TRY(begin_pixels(ctx, "pixel_shuffle", x, factor, out, &steps));
    const int64_t *sizes = &x->info.sizes[steps.n], r = factor, c = sizes[0] / (r * r);
    REQUIRE(ctx, c * r * r == sizes[0], "pixel_shuffle: x is %s, channels do not divide by %lld",
            tensor_text(x), (long long)(r * r));
    int64_t h = 0, w = 0;
    REQUIRE(ctx, shape_multiply(sizes[1], r, &h) && shape_multiply(sizes[2], r, &w),
            "pixel_shuffle: x is %s, too large", tensor_text(x));
    end_pixels(&steps, (int64_t[]){c, r, r, sizes[1], sizes[2]}, (int[]){0, 3, 1, 4, 2},
               (int64_t[]){c, h, w});
    return context_rename(ctx, take_steps(ctx, x, &steps, out), "pixel_shuffle");
}

status_t op_pixel_unshuffle(context_t *ctx, const tensor_t *x, int64_t factor, tensor_t **out)
{
    steps_t steps;
    TRY(begin_pixels(ctx, "pixel_unshuffle", x, factor, out, &steps));
    const int64_t *sizes = &x->info.sizes[steps.n], r = factor, h = sizes[1] / r, w = sizes[2] / r;
    int64_t c = 0;
    REQUIRE(ctx, h * r == sizes[1] && w * r == sizes[2],
            "pixel_unshuffle: x is %s, height and width do not divide by %lld", tensor_text(x),
            (long long)r);
    REQUIRE(ctx, shape_multiply(sizes[0], r * r, &c), "pixel_unshuffle: x is %s, too large",
            tensor_text(x));
    end_pixels(&steps, (int64_t[]){sizes[0], h, r, w, r}, (int[]){0, 2, 4, 1, 3},
               (int64_t[]){c, h, w});
    return context_rename(ctx, take_steps(ctx, x, &steps, out), "pixel_unshuffle");
}

/* ---- masked_fill, one_hot, embedding ---- */

/* True if the dtype can hold the value: exactly if it is integral, or as a finite number if it is
 * floating. */
static bool fits(dtype_t dtype, double value)
{
    double rounded = 0;
    if (dtype_is_floating(dtype)) {
        dtype_store(dtype, &rounded, value);
        return !isfinite(value) || isfinite(dtype_load(dtype, &rounded));
    }
    int64_t element = 0;
    if (!(fabs(value) < 0x1p63) || value != floor(value)) return false;
    dtype_store(dtype, &element, value);
    return dtype_load(dtype, &element) == value;
}

status_t op_masked_fill(context_t *ctx, const tensor_t *x, const tensor_t *mask, double value,
                        tensor_t **out)
{
    tensor_t *number = NULL;
    TRY(context_output(ctx, "masked_fill", out));
    if (x == NULL) return context_null(ctx, "masked_fill", "x");
    if (mask == NULL) return context_null(ctx, "masked_fill", "mask");
    const dtype_t dtype = x->info.dtype;
    REQUIRE(ctx, fits(dtype, value), "masked_fill: value %g into %s, a %s of its range is needed",
            value, tensor_text(x), dtype_is_floating(dtype) ? "number" : "whole number");
    TRY(tensor_full(ctx, dtype, 0, NULL, value, &number));
    status_t status = op_where(ctx, mask, number, x, out);
    ops_drop(ctx, number);
    return context_rename(ctx, status, "masked_fill");
}

status_t op_one_hot(context_t *ctx, const tensor_t *index, int64_t n, tensor_t **out)
{
    tensor_t *zeros = NULL, *column = NULL, *wide = NULL;
    int64_t sizes[TENSOR_MAX_RANK];
    TRY(context_output(ctx, "one_hot", out));
    if (index == NULL) return context_null(ctx, "one_hot", "index");
    const int rank = index->info.rank;
    REQUIRE(ctx, rank < TENSOR_MAX_RANK, "one_hot: index is %s, rank %d is the most",
            tensor_text(index), TENSOR_MAX_RANK - 1);
    REQUIRE(ctx, n >= 1, "one_hot: %lld classes, 1 or more are possible", (long long)n);
    for (int d = 0; d < rank; d++) sizes[d] = -1; /* keep index's size, even if symbolic */
    sizes[rank] = n;
    status_t status = op_unsqueeze(ctx, index, 1, (int64_t[]){-1}, &column);
    if (status == STATUS_OK) status = op_expand(ctx, column, rank + 1, sizes, &wide);
    if (status == STATUS_OK) status = op_full_like(ctx, wide, 0.0, DTYPE_S64, &zeros);
    if (status == STATUS_OK)
        status = op_scatter_value(ctx, zeros, -1, column, 1.0, SCATTER_NONE, out);
    ops_drop(ctx, zeros);
    ops_drop(ctx, wide);
    ops_drop(ctx, column);
    return context_rename(ctx, status, "one_hot");
}

status_t op_embedding(context_t *ctx, const tensor_t *index, const tensor_t *weight, tensor_t **out)
{
    TRY(context_output(ctx, "embedding", out));
    if (index == NULL) return context_null(ctx, "embedding", "index");
    if (weight == NULL) return context_null(ctx, "embedding", "weight");
    REQUIRE(ctx, weight->info.rank == 2, "embedding: weight %s, rank 2 is needed",
            tensor_text(weight));
    return context_rename(ctx, op_gather(ctx, weight, 0, index, out), "embedding");
}
