/* Infers the outputs of calls with symbolic sizes or integer attributes (tensor/sym/sym.h).
 *
 * The operator's `infer` runs twice: first with numbers (the hints, which are example sizes), then
 * with the symbolic integers. The first run detects errors. The result of the second run, computed
 * for the hints, must equal that of the first. If the second run fails or its result differs, the
 * call is pinned: guards fix its sizes to the hints, and the first result is used. So an `infer`
 * that does not support symbols makes a graph less general, never wrong. Guards that a failed
 * second run has added do no harm, because the pinned sizes satisfy them. */
#include <stdalign.h>
#include <stdio.h>

#include "dispatch/attrs_impl.h"
#include "dispatch/select_impl.h"
#include "tensor/scope_impl.h"
#include "tensor/sym/sizes_impl.h"

/* True for a symbolic integer. INT64_MIN and -INT64_MAX are numbers here: in attributes they mean
 * positions before the first element. */
static bool is_symbolic(int64_t value)
{
    return sym_is(value) && value > -INT64_MAX;
}

/* A call in which numbers replace all symbolic integers. */
typedef struct numbers {
    op_call_t call;
    alignas(16) char attrs[ATTRS_MAX];
    tensor_info_t infos[OP_MAX_INPUTS];
    const tensor_info_t *in[OP_MAX_INPUTS];
    bool are_given; /* the call has no symbolic integers */
    bool are_known; /* every symbolic integer has a number */
} numbers_t;

/* The function that finds these numbers: sym_hint or sym_pin. */
typedef int64_t (*number_of_t)(context_t *ctx, int64_t value);

static int64_t find_number(context_t *ctx, numbers_t *numbers, number_of_t number_of, int64_t value)
{
    if (!is_symbolic(value)) return value;
    const int64_t number = number_of(ctx, value);
    numbers->are_given = false;
    numbers->are_known = numbers->are_known && number != SYM_NONE;
    return number;
}

static void find_attrs(context_t *ctx, numbers_t *numbers, number_of_t number_of,
                       const op_call_t *call)
{
    const attr_table_t *table = &call->op->attrs;
    attrs_normalize(table, call->attrs, numbers->attrs);
    for (int f = 0; f < table->n_fields; f++) {
        const attr_field_t *field = &table->fields[f];
        if (field->kind != ATTR_INT && field->kind != ATTR_ARRAY && field->kind != ATTR_INTS)
            continue;
        for (int i = 0; i < attrs_n_elements(field, numbers->attrs); i++) {
            const int64_t value = attrs_integer(field, numbers->attrs, i);
            attrs_set_integer(field, numbers->attrs, i,
                              find_number(ctx, numbers, number_of, value));
        }
    }
}

static void find_numbers(context_t *ctx, const op_call_t *call, number_of_t number_of,
                         numbers_t *numbers)
{
    numbers->are_given = numbers->are_known = true;
    numbers->call = *call;
    numbers->call.attrs = numbers->attrs;
    numbers->call.in = numbers->in;
    find_attrs(ctx, numbers, number_of, call);
    for (int i = 0; i < call->n_in; i++) {
        const tensor_info_t *info = numbers->in[i] = call->in[i];
        int64_t sizes[TENSOR_MAX_RANK];
        if (info == NULL || info->dtype == DTYPE_NONE ||
            !sizes_have_symbols(info->rank, info->sizes))
            continue;
        for (int d = 0; d < info->rank; d++)
            sizes[d] = find_number(ctx, numbers, number_of, info->sizes[d]);
        numbers->infos[i] = info_dense(info->dtype, info->rank, sizes);
        numbers->infos[i].is_number = info->is_number;
        numbers->in[i] = &numbers->infos[i];
    }
}

/* Clears failures of symbolic calculations outside the current space. An `infer` that rejects a
 * number below -2^62 causes such a failure, because the number looks like a symbolic integer. */
static void forget_numbers(context_t *ctx)
{
    sym_space_t *space = sym_space_enter(ctx, NULL);
    scope_attempt(ctx);
    (void)scope_attempt_end(ctx, sym_status(ctx), true);
    sym_space_enter(ctx, space);
}

static status_t infer_numbers(context_t *ctx, op_call_t *call, int *out_n, tensor_info_t *out)
{
    sym_space_t *space = sym_space_enter(ctx, NULL);
    FINISH(select_infer(ctx, call, out_n, out), sym_space_enter(ctx, space));
}

/* Infers an elementwise operator whose `infer` supports only numbers, as users' operators may. The
 * result has the sizes to which the operands broadcast: [N,8] for x [N,8] and y [8]. */
static status_t infer_elementwise(context_t *ctx, const op_call_t *call, tensor_info_t *out)
{
    int64_t sizes[TENSOR_MAX_RANK];
    int rank = 0;
    for (int i = 0; i < call->n_in; i++)
        REQUIRE(ctx,
                !call_has(call, i) || sizes_broadcast(ctx, rank, sizes, call->in[i]->rank,
                                                      call->in[i]->sizes, &rank, sizes),
                "%s: input %d does not broadcast", call->op->name, i);
    out[0] = info_dense(out[0].dtype, rank, sizes);
    return STATUS_OK;
}

static status_t infer_symbols(context_t *ctx, op_call_t *call, int *out_n, tensor_info_t *out)
{
    if (call->op->infers_symbols) return select_infer(ctx, call, out_n, out);
    if ((call->op->traits & TRAIT_ELEMENTWISE) != 0 && *out_n == 1)
        return infer_elementwise(ctx, call, out);
    FAIL(ctx, STATUS_UNSUPPORTED, "%s: its size inference supports numbers only", call->op->name);
}

/* True if the outputs, computed for the hints, equal those of the run with numbers. */
static bool is_confirmed(context_t *ctx, int n, const tensor_info_t *out,
                         const tensor_info_t *numbers)
{
    for (int i = 0; i < n; i++) {
        if (out[i].dtype != numbers[i].dtype || out[i].rank != numbers[i].rank) return false;
        for (int d = 0; d < out[i].rank; d++) {
            const int64_t size = out[i].sizes[d];
            if ((is_symbolic(size) ? sym_hint(ctx, size) : size) != numbers[i].sizes[d])
                return false;
        }
    }
    return true;
}

/* Infers with symbols. numbers: the n_numbers outputs of the run with numbers; NULL if a size has
 * no hint, in which case failures are final. Returns UNSUPPORTED if the call must be pinned. */
static status_t try_symbols(context_t *ctx, op_call_t *call, int n_numbers,
                            const tensor_info_t *numbers, int *out_n, tensor_info_t *out)
{
    scope_attempt(ctx);
    *out_n = numbers != NULL ? n_numbers : call->op->n_outputs;
    for (int i = 0; i < n_numbers; i++) out[i] = numbers[i];
    status_t status = infer_symbols(ctx, call, out_n, out);
    if (status == STATUS_OK && numbers != NULL &&
        (*out_n != n_numbers || !is_confirmed(ctx, n_numbers, out, numbers)))
        status = context_fail(ctx, STATUS_UNSUPPORTED,
                              "%s: its symbolic sizes contradict the hints", call->op->name);
    const status_t calculated = sym_status(ctx); /* the cause if `infer` has failed */
    if (calculated != STATUS_OK) status = calculated;
    if (numbers != NULL && status != STATUS_OK && status != STATUS_OUT_OF_MEMORY)
        status = STATUS_UNSUPPORTED;
    return scope_attempt_end(ctx, status, numbers != NULL && status == STATUS_UNSUPPORTED);
}

/* After the run with numbers has failed: infers with symbols, so that the decision which fails
 * becomes a guard. The failure stays that of the numbers. */
static status_t guard_failure(context_t *ctx, op_call_t *call, status_t failure)
{
    char message[CONTEXT_ERROR_MAX];
    tensor_info_t out[OP_MAX_OUTPUTS];
    int n_out = call->op->n_outputs;
    if (failure != STATUS_INVALID_ARGUMENT) return failure;
    snprintf(message, sizeof message, "%s", context_error(ctx));
    context_clear_error(ctx);
    scope_attempt(ctx);
    status_t status = infer_symbols(ctx, call, &n_out, out);
    const status_t calculated = sym_status(ctx);
    if (calculated != STATUS_OK) status = calculated;
    status = scope_attempt_end(ctx, status, status != STATUS_OUT_OF_MEMORY);
    if (status == STATUS_OUT_OF_MEMORY) return status;
    return context_fail(ctx, failure, "%s", message);
}

status_t dispatch_infer_symbolic(context_t *ctx, const op_call_t *given, int *out_n,
                                 tensor_info_t *out, bool *out_is_pinned)
{
    alignas(16) char normalised[ATTRS_MAX];
    tensor_info_t wanted[OP_MAX_OUTPUTS];
    numbers_t numbers;
    op_call_t call = *given;
    int n_wanted = 0;
    *out_is_pinned = false;
    forget_numbers(ctx);
    TRY(sym_status(ctx));
    TRY(select_attrs(ctx, call.op, call.attrs, normalised));
    call.attrs = normalised;
    find_numbers(ctx, &call, sym_hint, &numbers);
    if (numbers.are_given) return infer_numbers(ctx, &call, out_n, out);
    if (!numbers.are_known) return try_symbols(ctx, &call, 0, NULL, out_n, out);
    status_t status = infer_numbers(ctx, &numbers.call, &n_wanted, wanted);
    if (status != STATUS_OK) return guard_failure(ctx, &call, status);
    status = try_symbols(ctx, &call, n_wanted, wanted, out_n, out);
    if (status != STATUS_UNSUPPORTED) return status;
    find_numbers(ctx, &call, sym_pin, &numbers);
    TRY(sym_status(ctx));
    for (int i = 0; i < n_wanted; i++) out[i] = wanted[i];
    *out_n = n_wanted;
    *out_is_pinned = true;
    return STATUS_OK;
}
