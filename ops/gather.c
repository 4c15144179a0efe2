/* Elements picked along one dimension by an index tensor, as numpy.take. */
#include <string.h>

#include "ops/accept_impl.h"
#include "ops/ops_impl.h"
#include "tensor/threads_impl.h"

typedef struct gather_attrs {
    int64_t dim;
} gather_attrs_t;

static const attr_field_t fields[] = {
    {"dim", ATTR_INT, false, offsetof(gather_attrs_t, dim), 0, 0, NULL}};

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false},
                                     {"index", ROLE_ACTIVATION, false, false}};
enum { X, INDEX };

static int find_dim(const void *attrs, int rank)
{
    return ops_dim(rank, ((const gather_attrs_t *)attrs)->dim);
}

static status_t infer(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)out_n;
    const tensor_info_t *x = call->in[X], *index = call->in[INDEX];
    int64_t wanted = ((const gather_attrs_t *)call->attrs)->dim, sizes[TENSOR_MAX_RANK];
    int dim = 0, rank = x->rank - 1 + index->rank;
    REQUIRE(ctx, x->rank > 0 && shape_dim(x->rank, wanted, &dim),
            "gather: dim %lld of %s, out of range", (long long)wanted, info_brief(x));
    REQUIRE(ctx, dtype_is_integral(index->dtype), "gather: index is %s, integers are needed",
            info_brief(index));
    REQUIRE(ctx, rank <= TENSOR_MAX_RANK,
            "gather: %s by %s would have rank %d, at most %d is possible", info_brief(x),
            info_brief(index), rank, TENSOR_MAX_RANK);
    memcpy(sizes, x->sizes, (size_t)dim * sizeof *sizes);
    memcpy(&sizes[dim], index->sizes, (size_t)index->rank * sizeof *sizes);
    memcpy(&sizes[dim + index->rank], &x->sizes[dim + 1],
           (size_t)(x->rank - dim - 1) * sizeof *sizes);
    TRY(shape_check(ctx, "gather", x->dtype, rank, sizes));
    out[0] = info_dense(x->dtype, rank, sizes);
    return STATUS_OK;
}

static double spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    const tensor_info_t *x = call->in[X], *picked = call->in[INDEX];
    int dim = find_dim(call->attrs, x->rank);
    int64_t at[TENSOR_MAX_RANK];
    memcpy(at, index, (size_t)dim * sizeof *at);
    at[dim] = (int64_t)spec_at(call, INDEX, &index[dim]);
    if (at[dim] < 0) at[dim] += x->sizes[dim];
    memcpy(&at[dim + 1], &index[dim + picked->rank], (size_t)(x->rank - dim - 1) * sizeof *at);
    return spec_at(call, X, at);
}

/* ---- dense kernel: one row behind the dimension for each index ---- */

static status_t prepare(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    (void)ctx;
    if (call->layout == LAYOUT_MKLDNN) return prepared_decline(prepared, "native: dense only");
    TRY(accept_plain(call, prepared, X));
    TRY(accept_plain(call, prepared, INDEX));
    return accept_out_plain(call, prepared, 0);
}

static status_t run(context_t *ctx, const prepared_t *prepared, void *const *in, void *const *out,
                    void *scratch)
{
    (void)scratch;
    const tensor_info_t *x = &prepared->in[X], *index = &prepared->in[INDEX];
    int dim = find_dim(prepared->attrs, x->rank);
    const int64_t size = x->sizes[dim], n_picked = info_numel(index);
    const size_t index_bytes = dtype_size(index->dtype);
    int64_t n_outer = 1;
    size_t row = dtype_size(x->dtype);
    for (int d = 0; d < dim; d++) n_outer *= x->sizes[d];
    for (int d = dim + 1; d < x->rank; d++) row *= (size_t)x->sizes[d];
    for (int64_t i = 0; i < n_picked; i++) {
        int64_t at = dtype_load_integer(index->dtype,
                                        (const char *)in[INDEX] + (size_t)i * index_bytes);
        REQUIRE(ctx, at >= -size && at < size,
                "gather: index %lld of %s in dimension %d, out of range", (long long)at,
                info_brief(x), dim);
    }
#pragma omp parallel for num_threads(threads_for(ctx, info_numel(&prepared->out[0])))              \
    schedule(static)
    for (int64_t r = 0; r < n_outer * n_picked; r++) {
        int64_t at = dtype_load_integer(index->dtype, (const char *)in[INDEX] +
                                                          (size_t)(r % n_picked) * index_bytes);
        if (at < 0) at += size;
        memcpy((char *)out[0] + (size_t)r * row,
               (const char *)in[X] + (size_t)(r / n_picked * size + at) * row, row);
    }
    return STATUS_OK;
}

static const kernel_t native = {.name = "native", .prepare = prepare, .run = run};
static const kernel_t *const kernels[] = {&native, NULL};

static const char *const cases[] = {"(f32[7,3], s64[5]<7)",
                                    "(f32[2,17,3], s64[2,4]<17) dim=1",
                                    "(f32[2,3,5], s32[6]<5) dim=-1",
                                    "(s64[4,2], s64[]<4)",
                                    "(bf16[3,16,2,2], s64[1]<16) dim=1",
                                    "(f32[3,2], s64[0]<1)",
                                    NULL};

const opdef_t op_def_gather = {.name = "gather",
                               .preference = OP_DENSE,
                               .attrs = {sizeof(gather_attrs_t), 1, fields},
                               .n_operands = 2,
                               .operands = operands,
                               .n_outputs = 1,
                               .infer = infer,
                               .kernels = kernels,
                               .spec = spec,
                               .cases = cases};

status_t op_gather(context_t *ctx, const tensor_t *x, int64_t dim, const tensor_t *index,
                   tensor_t **out)
{
    gather_attrs_t attrs = {dim};
    const tensor_t *in[] = {x, index};
    return dispatch_run(ctx, &op_def_gather, &attrs, 2, in, NULL, out);
}
