/* The table of operators. */
#include <string.h>

#include "ops/accept_impl.h"
#include "ops/ops_impl.h"

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
    if (call == NULL || prepared == NULL) return context_null(ctx, "ops_prepare_dense", "call");
    if (call->layout == LAYOUT_MKLDNN) return prepared_decline(prepared, "dense only");
    for (int i = 0; i < call->n_in; i++)
        if (call->in[i]->dtype != DTYPE_NONE) TRY(accept_plain(call, prepared, i));
    for (int i = 0; i < call->n_out; i++) TRY(accept_out_plain(call, prepared, i));
    return STATUS_OK;
}
