/* The table of operators. */
#include <string.h>

#include "ops/accept_impl.h"
#include "ops/ops_impl.h"
#include "tensor/scope_impl.h"
#include "tensor/tensor_impl.h"

static const opdef_t *const table[] = {
#define OP(name) &op_def_##name,
#include "ops/ops.def"
#undef OP
};

int ops_count(void)
{
    return (int)(sizeof table / sizeof *table);
}

const opdef_t *ops_at(int index)
{
    return index >= 0 && index < ops_count() ? table[index] : NULL;
}

const opdef_t *ops_find(const char *name)
{
    if (name == NULL) return NULL;
    for (int i = 0; i < ops_count(); i++)
        if (strcmp(table[i]->name, name) == 0) return table[i];
    return NULL;
}

status_t ops_prepare_dense(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    if (call == NULL) return context_null(ctx, "ops_prepare_dense", "call");
    if (prepared == NULL) return context_null(ctx, "ops_prepare_dense", "prepared");
    if (call->layout == LAYOUT_MKLDNN)
        return prepared_decline(prepared, "%s: dense only", prepared->kernel->name);
    for (int i = 0; i < call->n_in; i++)
        if (call->in[i]->dtype != DTYPE_NONE) TRY(accept_plain(call, prepared, i));
    for (int i = 0; i < call->n_out; i++) TRY(accept_out_plain(call, prepared, i));
    return STATUS_OK;
}

void ops_drop(context_t *ctx, tensor_t *tensor)
{
    if (tensor == NULL) return;
    scope_take(ctx, tensor);
    tensor_drop(tensor);
}

status_t ops_call_ints(context_t *ctx, const opdef_t *op, const tensor_t *x, int n,
                       const int64_t *values, tensor_t **out)
{
    TRY(context_output(ctx, op->name, out));
    ints_t ints = {.n = n};
    if (n > 0 && values == NULL) return context_null(ctx, op->name, op->attrs.fields[0].name);
    REQUIRE(ctx, n >= 0 && n <= TENSOR_MAX_RANK, "%s: %d %s, 0 to %d are possible", op->name, n,
            op->attrs.fields[0].name, TENSOR_MAX_RANK);
    if (n > 0) memcpy(ints.values, values, (size_t)n * sizeof *values);
    return dispatch_run(ctx, op, &ints, 1, &x, NULL, out);
}

status_t ops_infer_like(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)ctx, (void)out_n;
    out[0] = info_dense(call->in[0]->dtype, call->in[0]->rank, call->in[0]->sizes);
    return STATUS_OK;
}

int ops_dim(int rank, int64_t dim)
{
    int found = 0;
    shape_dim(rank, dim, &found);
    return found;
}
