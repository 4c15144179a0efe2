/* Calls on symbolic elements, with which models compute sizes. The import computes results of few
 * elements; any other call is left to the graph. */
#include "io/onnx/node_impl.h"

#include <string.h>

#include "ops/shape/symbolic_impl.h"
#include "tensor/info_impl.h"
#include "tensor/scope_impl.h"
#include "tensor/tensor_impl.h"

static bool is_real(dtype_t dtype)
{
    return dtype == DTYPE_F32 || dtype == DTYPE_F64;
}

/* True if the import can compute with the operand: few elements of a dtype that symbols support. */
static bool is_small(const onnx_t *onnx, item_t index)
{
    const onnx_item_t *item = &onnx->items[index];
    const tensor_info_t *info = onnx_info(onnx, index);
    const bool is_of_symbols = info->dtype == DTYPE_S64 || info->dtype == DTYPE_S32 ||
                               info->dtype == DTYPE_BOOL || is_real(info->dtype);
    if (item->known == NULL && item->symbols == NULL) return false;
    return is_of_symbols && !onnx_is_special(onnx, index) && info_numel(info) <= ONNX_MAX_SYMBOLS;
}

/* ---- operands ---- */

typedef struct symbol_call {
    int n_in, n_out;
    symbolic_t in[OP_MAX_INPUTS], out[OP_MAX_OUTPUTS];
} symbol_call_t;

static status_t load(onnx_t *onnx, item_t index, symbolic_t *out)
{
    context_t *ctx = onnx->ctx;
    const onnx_item_t *item = &onnx->items[index];
    const tensor_info_t *info = onnx_info(onnx, index);
    char *bytes = NULL;
    TRY(symbolic_create(ctx, info->dtype, info->rank, info->sizes, out));
    out->is_number = info->is_number;
    if (item->symbols != NULL) {
        memcpy(out->elements, item->symbols, (size_t)out->n * sizeof *out->elements);
        return STATUS_OK;
    }
    const size_t size = dtype_size(info->dtype);
    TRY(context_get(ctx, (size_t)out->n * size + 1, "elements", &bytes));
    status_t status = tensor_read(ctx, item->known, bytes, (size_t)out->n * size + 1);
    const sym_real_t type = info->dtype == DTYPE_F64 ? SYM_F64 : SYM_F32;
    for (int64_t i = 0; i < out->n && status == STATUS_OK; i++) {
        const void *at = bytes + (size_t)i * size;
        out->elements[i] = is_real(info->dtype) ? sym_real(ctx, type, dtype_load(info->dtype, at))
                                                : dtype_load_integer(info->dtype, at);
    }
    context_put(ctx, bytes);
    return status;
}

/* True if all operands are small, one has symbols, and no attribute is symbolic. */
static bool is_possible(const onnx_t *onnx, const onnx_noted_t *call, bool *is_live)
{
    bool has_symbols = false;
    *is_live = false;
    for (int i = 0; i < call->n_in; i++) {
        if (call->in[i] == ITEM_NONE) continue;
        if (!is_small(onnx, call->in[i])) return false;
        has_symbols = has_symbols || onnx->items[call->in[i]].symbols != NULL;
        *is_live = *is_live || onnx->items[call->in[i]].is_live;
    }
    for (int f = 0; f < call->op->attrs.n_fields; f++)
        for (int i = 0; i < onnx_n_integers(call->op, call->attrs, f); i++)
            if (onnx_is_symbol(*onnx_integer_at(call->op, call->attrs, f, i))) return false;
    return has_symbols;
}

static status_t calculate(onnx_t *onnx, const onnx_noted_t *call, symbol_call_t *made)
{
    for (int i = 0; i < call->n_in; i++) {
        made->n_in = i + 1;
        if (call->in[i] != ITEM_NONE) TRY(load(onnx, call->in[i], &made->in[i]));
    }
    TRY(symbolic_run(onnx->ctx, call->op, call->attrs, call->n_in, made->in, &made->n_out,
                     made->out));
    for (int o = 0; o < made->n_out; o++)
        if (made->out[o].n > ONNX_MAX_SYMBOLS) FAIL(onnx->ctx, STATUS_UNSUPPORTED, "many elements");
    return sym_status(onnx->ctx);
}

/* ---- results ---- */

static bool are_numbers(const tensor_info_t *info, const int64_t *symbols)
{
    bool are = !is_real(info->dtype);
    for (int64_t i = 0; i < info_numel(info) && are; i++) are = !sym_is(symbols[i]);
    return are;
}

static status_t give_numbers(onnx_t *onnx, const tensor_info_t *info, const int64_t *numbers,
                             item_t *out)
{
    tensor_t *tensor = NULL;
    void *bytes = NULL;
    TRY(tensor_make(onnx->ctx, info, &tensor));
    TRY_OR(tensor_writable(onnx->ctx, tensor, &bytes), tensor_drop(tensor));
    for (int64_t i = 0; i < info_numel(info); i++)
        dtype_store_integer(info->dtype, (char *)bytes + (size_t)i * dtype_size(info->dtype),
                            numbers[i]);
    return onnx_item_take(onnx, NULL, tensor, out);
}

static status_t give(onnx_t *onnx, int at, bool is_live, const symbol_call_t *made)
{
    onnx_noted_t *call = &onnx->calls[at];
    call->is_known = !is_live;
    for (int i = 0; i < call->n_out; i++) {
        const symbolic_t *out = &made->out[i];
        const tensor_info_t info = info_dense(out->dtype, out->rank, out->sizes);
        if (are_numbers(&info, out->elements)) {
            TRY(give_numbers(onnx, &info, out->elements, &call->out[i]));
        } else {
            TRY(onnx_value(onnx, NULL, &info, &call->out[i]));
            TRY(onnx_set_symbols(onnx, call->out[i], is_live, out->elements));
        }
        onnx->items[call->out[i]].call = at;
    }
    return STATUS_OK;
}

status_t onnx_run_symbols(onnx_t *onnx, int at, bool *out_is_done)
{
    bool is_live = false;
    symbol_call_t *made = NULL;
    *out_is_done = false;
    if (!is_possible(onnx, &onnx->calls[at], &is_live)) return STATUS_OK;
    TRY(context_get_zeroed(onnx->ctx, sizeof *made, "a call on symbols", &made));
    scope_attempt(onnx->ctx);
    status_t status = calculate(onnx, &onnx->calls[at], made);
    *out_is_done = status == STATUS_OK;
    const status_t calculated = sym_status(onnx->ctx); /* a decision is left to run time */
    const bool is_forgiven = status == STATUS_UNSUPPORTED || calculated == STATUS_UNSUPPORTED;
    status = scope_attempt_end(onnx->ctx, status, is_forgiven);
    if (is_forgiven) status = STATUS_OK;
    if (status == STATUS_OK && *out_is_done) status = give(onnx, at, is_live, made);
    for (int i = 0; i < made->n_in; i++) symbolic_clear(onnx->ctx, &made->in[i]);
    for (int o = 0; o < made->n_out; o++) symbolic_clear(onnx->ctx, &made->out[o]);
    context_put(onnx->ctx, made);
    return status;
}
