/* Running sums along one dimension. */
#include <string.h>

#include "ops/accept_impl.h"
#include "ops/ops_impl.h"
#include "tensor/threads_impl.h"

static const attr_field_t fields[] = {
    {"dim", ATTR_INT, false, offsetof(cumsum_attrs_t, dim), 0, 0, NULL},
    {"exclusive", ATTR_BOOL, false, offsetof(cumsum_attrs_t, exclusive), 0, 0, NULL},
    {"reverse", ATTR_BOOL, false, offsetof(cumsum_attrs_t, reverse), 0, 0, NULL}};

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false}};

static int find_dim(const void *attrs, int rank)
{
    return ops_dim(rank, ((const cumsum_attrs_t *)attrs)->dim);
}

static status_t infer(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)out_n;
    const tensor_info_t *x = call->in[0];
    int64_t wanted = ((const cumsum_attrs_t *)call->attrs)->dim;
    int dim = 0;
    REQUIRE(ctx, shape_dim(x->rank, wanted, &dim), "cumsum: dim %lld of %s, out of range",
            (long long)wanted, info_brief(x));
    out[0] = info_dense(dtype_is_floating(x->dtype) ? x->dtype : DTYPE_S64, x->rank, x->sizes);
    return STATUS_OK;
}

static double spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    const cumsum_attrs_t *attrs = call->attrs;
    int rank = call->out->rank, dim = find_dim(attrs, rank);
    if (rank == 0) return attrs->exclusive ? 0.0 : spec_at(call, 0, index);
    int64_t at[TENSOR_MAX_RANK], first = 0, last = index[dim];
    double sum = 0.0;
    if (attrs->reverse) {
        first = index[dim];
        last = call->out->sizes[dim] - 1;
    }
    memcpy(at, index, (size_t)rank * sizeof *at);
    for (at[dim] = first; at[dim] <= last; at[dim]++)
        if (!attrs->exclusive || at[dim] != index[dim]) sum += spec_at(call, 0, at);
    return sum;
}

/* ---- dense kernel ---- */

static status_t prepare(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    (void)ctx;
    if (call->layout == LAYOUT_MKLDNN) return prepared_decline(prepared, "native: dense only");
    TRY(accept_plain(call, prepared, 0));
    return accept_out_plain(call, prepared, 0);
}

/* `step` elements lie from one to the next, fewer than 0 from the end. */
static void add_line(dtype_t dtype, dtype_t out_dtype, bool exclusive, int64_t n, int64_t step,
                     const char *x, char *out)
{
    const int64_t size = step * (int64_t)dtype_size(dtype);
    const int64_t out_size = step * (int64_t)dtype_size(out_dtype);
    double sum = 0.0, before = 0.0;
    uint64_t integer = 0, integer_before = 0;
    for (int64_t i = 0; i < n; i++) {
        if (dtype_is_floating(dtype)) {
            before = sum;
            sum += dtype_load(dtype, x + i * size);
            dtype_store(out_dtype, out + i * out_size, exclusive ? before : sum);
        } else {
            integer_before = integer;
            integer += (uint64_t)dtype_load_integer(dtype, x + i * size);
            dtype_store_integer(out_dtype, out + i * out_size,
                                (int64_t)(exclusive ? integer_before : integer));
        }
    }
}

static status_t run(context_t *ctx, const prepared_t *prepared, void *const *in, void *const *out,
                    void *scratch)
{
    (void)scratch;
    const cumsum_attrs_t *attrs = prepared->attrs;
    const tensor_info_t *x = &prepared->in[0];
    const dtype_t dtype = x->dtype, out_dtype = prepared->out[0].dtype;
    const int64_t size = (int64_t)dtype_size(dtype), out_size = (int64_t)dtype_size(out_dtype);
    int dim = find_dim(attrs, x->rank);
    const int64_t n = x->rank > 0 ? x->sizes[dim] : 1, numel = info_numel(x);
    int64_t step = 1;
    for (int d = dim + 1; d < x->rank; d++) step *= x->sizes[d];
#pragma omp parallel for num_threads(threads_for(ctx, numel)) schedule(static)
    for (int64_t line = 0; line < numel / n; line++) {
        int64_t first = line / step * n * step + line % step;
        if (attrs->reverse) first += (n - 1) * step;
        add_line(dtype, out_dtype, attrs->exclusive, n, attrs->reverse ? -step : step,
                 (const char *)in[0] + first * size, (char *)out[0] + first * out_size);
    }
    return STATUS_OK;
}

static const kernel_t native = {.name = "native", .prepare = prepare, .run = run};
static const kernel_t *const kernels[] = {&native, NULL};

static const char *const cases[] = {"(f32[7])",
                                    "(f32[2,17,3]) dim=1",
                                    "(f32[2,3,4,5]) dim=-1",
                                    "(f64[3,2])",
                                    "(s32[3,4]) dim=1",
                                    "(bool[9])",
                                    "(f32[])",
                                    "(f32[0,3])",
                                    "(f32[2,17,3]) dim=1 exclusive=true",
                                    "(f32[2,7,31]) dim=-1 reverse=true",
                                    "(s32[3,4]) dim=1 exclusive=true reverse=true",
                                    "(f32[]) exclusive=true",
                                    NULL};

const opdef_t op_def_cumsum = {.name = "cumsum",
                               .preference = OP_DENSE,
                               .attrs = {sizeof(cumsum_attrs_t), 3, fields},
                               .n_operands = 1,
                               .operands = operands,
                               .n_outputs = 1,
                               .infer = infer,
                               .kernels = kernels,
                               .spec = spec,
                               .cases = cases};

status_t op_cumsum(context_t *ctx, const tensor_t *x, int64_t dim, tensor_t **out)
{
    return op_cumsum_attrs(ctx, x, &(cumsum_attrs_t){.dim = dim}, out);
}

status_t op_cumsum_attrs(context_t *ctx, const tensor_t *x, const cumsum_attrs_t *attrs,
                         tensor_t **out)
{
    return dispatch_run(ctx, &op_def_cumsum, attrs, 1, &x, NULL, out);
}
