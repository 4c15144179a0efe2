/* Functions that call several operators. */
#include "ops/combined.h"

#include <math.h>

#include "ops/ops_impl.h"
#include "tensor/tensor_impl.h"

/* value * x. If value is 1, returns x itself, so that integers stay integers. */
static status_t scale(context_t *ctx, const tensor_t *x, double value, tensor_t **out)
{
    return value == 1 ? op_identity(ctx, x, out) : op_mul_scalar(ctx, x, value, out);
}

/* ---- addcmul, addcdiv, lerp, addmm, outer ---- */

typedef status_t (*two_t)(context_t *ctx, const tensor_t *a, const tensor_t *b, tensor_t **out);

static status_t combine(context_t *ctx, two_t function, const tensor_t *a, const tensor_t *b,
                        double value, tensor_t **out)
{
    tensor_t *both = NULL;
    status_t status = function(ctx, a, b, &both);
    if (status == STATUS_OK) status = scale(ctx, both, value, out);
    ops_drop(ctx, both);
    return status;
}

static status_t add_combined(context_t *ctx, const char *op, const tensor_t *x, two_t function,
                             const tensor_t *a, const tensor_t *b, double value, tensor_t **out)
{
    tensor_t *both = NULL;
    TRY(context_output(ctx, op, out));
    if (x == NULL) return context_null(ctx, op, "x");
    status_t status = combine(ctx, function, a, b, value, &both);
    if (status == STATUS_OK) status = op_add(ctx, x, both, out);
    ops_drop(ctx, both);
    return status;
}

static status_t add_combined_(context_t *ctx, tensor_t *x, two_t function, const tensor_t *a,
                              const tensor_t *b, double value)
{
    tensor_t *both = NULL;
    status_t status = combine(ctx, function, a, b, value, &both);
    if (status == STATUS_OK) status = op_add_(ctx, x, both);
    ops_drop(ctx, both);
    return status;
}

status_t op_addcmul(context_t *ctx, const tensor_t *x, const tensor_t *a, const tensor_t *b,
                    double value, tensor_t **out)
{
    return context_rename(ctx, add_combined(ctx, "addcmul", x, op_mul, a, b, value, out),
                          "addcmul");
}

status_t op_addcdiv(context_t *ctx, const tensor_t *x, const tensor_t *a, const tensor_t *b,
                    double value, tensor_t **out)
{
    return context_rename(ctx, add_combined(ctx, "addcdiv", x, op_div, a, b, value, out),
                          "addcdiv");
}

status_t op_addcmul_(context_t *ctx, tensor_t *x, const tensor_t *a, const tensor_t *b,
                     double value)
{
    return context_rename(ctx, add_combined_(ctx, x, op_mul, a, b, value), "addcmul_");
}

status_t op_addcdiv_(context_t *ctx, tensor_t *x, const tensor_t *a, const tensor_t *b,
                     double value)
{
    return context_rename(ctx, add_combined_(ctx, x, op_div, a, b, value), "addcdiv_");
}

status_t op_addmm(context_t *ctx, const tensor_t *x, const tensor_t *a, const tensor_t *b,
                  double beta, double alpha, tensor_t **out)
{
    tensor_t *scaled = NULL;
    TRY(context_output(ctx, "addmm", out));
    if (x == NULL) return context_null(ctx, "addmm", "x");
    TRY(context_rename(ctx,
                       beta == 0 ? op_full_like(ctx, x, 0.0, x->info.dtype, &scaled)
                                 : scale(ctx, x, beta, &scaled),
                       "addmm"));
    status_t status = add_combined(ctx, "addmm", scaled, op_matmul, a, b, alpha, out);
    ops_drop(ctx, scaled);
    return context_rename(ctx, status, "addmm");
}

/* Adds the difference to the operand that has more weight, so that weight 1 returns exactly b. */
status_t op_lerp(context_t *ctx, const tensor_t *a, const tensor_t *b, double weight,
                 tensor_t **out)
{
    tensor_t *way = NULL, *part = NULL;
    TRY(context_output(ctx, "lerp", out));
    if (a == NULL) return context_null(ctx, "lerp", "a");
    if (b == NULL) return context_null(ctx, "lerp", "b");
    REQUIRE(ctx, dtype_is_floating(a->info.dtype) && a->info.dtype == b->info.dtype,
            "lerp: a is %s, b is %s, one floating dtype is needed", tensor_text(a), tensor_text(b));
    const bool is_near = weight < 0.5;
    status_t status = op_sub(ctx, b, a, &way);
    if (status == STATUS_OK) status = scale(ctx, way, is_near ? weight : 1 - weight, &part);
    if (status == STATUS_OK)
        status = is_near ? op_add(ctx, a, part, out) : op_sub(ctx, b, part, out);
    ops_drop(ctx, way);
    ops_drop(ctx, part);
    return context_rename(ctx, status, "lerp");
}

status_t op_lerp_(context_t *ctx, tensor_t *a, const tensor_t *b, double weight)
{
    tensor_t *result = NULL;
    TRY(context_rename(ctx, op_lerp(ctx, a, b, weight, &result), "lerp_"));
    status_t status = STATUS_OK;
    if (!shape_equal(a->info.rank, a->info.sizes, result->info.rank, result->info.sizes))
        status = context_fail(ctx, STATUS_INVALID_ARGUMENT,
                              "lerp_: b is %s, it does not broadcast to a %s", tensor_text(b),
                              tensor_text(a));
    if (status == STATUS_OK) status = op_copy_(ctx, a, result);
    ops_drop(ctx, result);
    return context_rename(ctx, status, "lerp_");
}

status_t op_outer(context_t *ctx, const tensor_t *a, const tensor_t *b, tensor_t **out)
{
    tensor_t *column = NULL;
    TRY(context_output(ctx, "outer", out));
    if (a == NULL) return context_null(ctx, "outer", "a");
    if (b == NULL) return context_null(ctx, "outer", "b");
    REQUIRE(ctx, a->info.rank == 1 && b->info.rank == 1,
            "outer: a is %s, b is %s, vectors are needed", tensor_text(a), tensor_text(b));
    status_t status = op_unsqueeze(ctx, a, 1, (const int64_t[]){1}, &column);
    if (status == STATUS_OK) status = op_mul(ctx, column, b, out);
    ops_drop(ctx, column);
    return context_rename(ctx, status, "outer");
}

/* ---- functions of one tensor ---- */

static status_t find_dim(context_t *ctx, const char *op, const tensor_t *x, int64_t dim,
                         int *out_dim)
{
    if (x == NULL) return context_null(ctx, op, "x");
    REQUIRE(ctx, x->info.rank > 0 && shape_dim(x->info.rank, dim, out_dim),
            "%s: dim %lld of %s, out of range", op, (long long)dim, tensor_text(x));
    return STATUS_OK;
}

status_t op_glu(context_t *ctx, const tensor_t *x, int64_t dim, tensor_t **out)
{
    tensor_t *first = NULL, *second = NULL, *gate = NULL;
    int place = 0;
    TRY(context_output(ctx, "glu", out));
    TRY(find_dim(ctx, "glu", x, dim, &place));
    const int64_t size = x->info.sizes[place];
    REQUIRE(ctx, size % 2 == 0, "glu: dim %d of %s, two halves are needed", place, tensor_text(x));
    status_t status = op_slice(ctx, x, place, 0, size / 2, 1, &first);
    if (status == STATUS_OK) status = op_slice(ctx, x, place, size / 2, size, 1, &second);
    if (status == STATUS_OK) status = op_sigmoid(ctx, second, &gate);
    if (status == STATUS_OK) status = op_mul(ctx, first, gate, out);
    ops_drop(ctx, first);
    ops_drop(ctx, second);
    ops_drop(ctx, gate);
    return context_rename(ctx, status, "glu");
}

status_t op_isfinite(context_t *ctx, const tensor_t *x, tensor_t **out)
{
    tensor_t *is_nan = NULL, *is_infinite = NULL, *is_either = NULL;
    TRY(context_output(ctx, "isfinite", out));
    status_t status = op_isnan(ctx, x, &is_nan);
    if (status == STATUS_OK) status = op_isinf(ctx, x, &is_infinite);
    if (status == STATUS_OK) status = op_logical_or(ctx, is_nan, is_infinite, &is_either);
    if (status == STATUS_OK) status = op_logical_not(ctx, is_either, out);
    ops_drop(ctx, is_nan);
    ops_drop(ctx, is_infinite);
    ops_drop(ctx, is_either);
    return context_rename(ctx, status, "isfinite");
}

status_t op_normalize(context_t *ctx, const tensor_t *x, double p, int64_t dim, double epsilon,
                      tensor_t **out)
{
    tensor_t *norm = NULL, *bounded = NULL;
    int place = 0;
    TRY(context_output(ctx, "normalize", out));
    TRY(find_dim(ctx, "normalize", x, dim, &place));
    status_t status = op_norm(ctx, x, p, 1, (const int64_t[]){place}, true, &norm);
    if (status == STATUS_OK) status = op_clamp(ctx, norm, epsilon, INFINITY, &bounded);
    if (status == STATUS_OK) status = op_div(ctx, x, bounded, out);
    ops_drop(ctx, norm);
    ops_drop(ctx, bounded);
    return context_rename(ctx, status, "normalize");
}

status_t op_narrow(context_t *ctx, const tensor_t *x, int64_t dim, int64_t start, int64_t length,
                   tensor_t **out)
{
    int place = 0;
    TRY(context_output(ctx, "narrow", out));
    TRY(find_dim(ctx, "narrow", x, dim, &place));
    const int64_t size = x->info.sizes[place], first = start < 0 ? start + size : start;
    REQUIRE(ctx, first >= 0 && first <= size && length >= 0 && length <= size - first,
            "narrow: start %lld length %lld in dim %d of %s, out of range", (long long)start,
            (long long)length, place, tensor_text(x));
    return context_rename(ctx, op_slice(ctx, x, place, first, first + length, 1, out), "narrow");
}

status_t op_movedim(context_t *ctx, const tensor_t *x, int64_t from, int64_t to, tensor_t **out)
{
    int64_t order[TENSOR_MAX_RANK];
    int source = 0, target = 0;
    TRY(context_output(ctx, "movedim", out));
    TRY(find_dim(ctx, "movedim", x, from, &source));
    TRY(find_dim(ctx, "movedim", x, to, &target));
    for (int d = 0, next = 0; d < x->info.rank; d++) {
        if (next == source) next++;
        order[d] = d == target ? source : next++;
    }
    return context_rename(ctx, op_permute(ctx, x, x->info.rank, order, out), "movedim");
}

/* ---- unpooling ---- */

/* Scatters x [N][C][P][Q] to planes of `size` elements: [N][C][size]. */
static status_t scatter_planes(context_t *ctx, const tensor_t *x, const tensor_t *indices,
                               int64_t size, tensor_t **out)
{
    tensor_t *flat = NULL, *index = NULL, *one = NULL, *zero = NULL, *plane = NULL;
    status_t status = op_flatten(ctx, x, 2, -1, &flat);
    if (status == STATUS_OK) status = op_flatten(ctx, indices, 2, -1, &index);
    if (status == STATUS_OK) status = op_slice(ctx, flat, 2, 0, 1, 1, &one);
    if (status == STATUS_OK) status = op_full_like(ctx, one, 0.0, DTYPE_NONE, &zero);
    if (status == STATUS_OK)
        status = op_expand(ctx, zero, 3, (const int64_t[]){-1, -1, size}, &plane);
    if (status == STATUS_OK) status = op_scatter(ctx, plane, 2, index, flat, SCATTER_NONE, out);
    ops_drop(ctx, flat);
    ops_drop(ctx, index);
    ops_drop(ctx, one);
    ops_drop(ctx, zero);
    ops_drop(ctx, plane);
    return status;
}

status_t op_max_unpool(context_t *ctx, const tensor_t *x, const tensor_t *indices, int n,
                       const int64_t *output_size, tensor_t **out)
{
    tensor_t *planes = NULL;
    int64_t sizes[5] = {0}, size = 1;
    TRY(context_output(ctx, "max_unpool", out));
    if (x == NULL) return context_null(ctx, "max_unpool", "x");
    if (indices == NULL) return context_null(ctx, "max_unpool", "indices");
    if (output_size == NULL) return context_null(ctx, "max_unpool", "output_size");
    const tensor_info_t *info = &x->info, *of = &indices->info;
    REQUIRE(ctx, n >= 1 && n <= 3 && info->rank == n + 2,
            "max_unpool: x is %s, output_size has %d numbers, 1 to 3 behind the channels are "
            "needed",
            tensor_text(x), n);
    REQUIRE(ctx,
            of->dtype == DTYPE_S64 && shape_equal(info->rank, info->sizes, of->rank, of->sizes),
            "max_unpool: indices are %s, s64 and the sizes of x %s are needed",
            tensor_text(indices), info_brief(info));
    sizes[0] = info->sizes[0];
    sizes[1] = info->sizes[1];
    for (int i = 0; i < n; i++) {
        sizes[2 + i] = output_size[i];
        REQUIRE(ctx, output_size[i] >= 1 && shape_multiply(size, output_size[i], &size),
                "max_unpool: output_size %lld, positive numbers are needed",
                (long long)output_size[i]);
    }
    status_t status = scatter_planes(ctx, x, indices, size, &planes);
    if (status == STATUS_OK) status = op_reshape(ctx, planes, n + 2, sizes, out);
    ops_drop(ctx, planes);
    return context_rename(ctx, status, "max_unpool");
}
