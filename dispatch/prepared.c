/* Prepared operators: creation, reasons of kernels that declined, running oneDNN's primitives. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "dispatch/select_impl.h"
#include "tensor/base/references_impl.h"
#include "tensor/convert/convert_impl.h"
#include "tensor/info_impl.h"
#include "tensor/text/text.h"

static size_t align(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

status_t prepared_create(context_t *ctx, const opdef_t *op, const void *attrs, int n_in, int n_out,
                         prepared_t **out_prepared)
{
    const size_t info_bytes = sizeof(tensor_info_t);
    size_t sizes[] = {sizeof(prepared_t),
                      op->attrs.bytes,
                      op->attrs.bytes,
                      (size_t)n_in * info_bytes,
                      (size_t)n_in * info_bytes,
                      (size_t)n_out * info_bytes,
                      (size_t)n_in * sizeof(arrival_t),
                      (size_t)n_out * sizeof(size_t),
                      (size_t)n_out * sizeof(uint64_t),
                      (size_t)n_out * sizeof(uint64_t),
                      (size_t)n_in * sizeof(uint64_t)};
    enum { N_PARTS = sizeof sizes / sizeof *sizes };
    size_t bytes = 0;
    char *block = NULL;
    void *parts[N_PARTS];
    for (int i = 0; i < N_PARTS; i++) bytes += align(sizes[i]);
    TRY(context_get_zeroed(ctx, bytes, "a prepared operator", &block));
    for (int i = 0; i < N_PARTS; i++) {
        parts[i] = block;
        block += align(sizes[i]);
    }
    prepared_t *prepared = parts[0];
    atomic_init(&prepared->n_references, 1);
    prepared->allocator = *context_allocator(ctx);
    prepared->op = op;
    prepared->attrs = parts[1];
    prepared->kernel_attrs = parts[2];
    if (op->attrs.bytes > 0) {
        memcpy(prepared->attrs, attrs, op->attrs.bytes);
        memcpy(prepared->kernel_attrs, attrs, op->attrs.bytes);
    }
    prepared->n_in = n_in;
    prepared->n_out = n_out;
    prepared->asked = parts[3];
    prepared->in = parts[4];
    prepared->out = parts[5];
    prepared->arrivals = parts[6];
    prepared->out_bytes = parts[7];
    prepared->out_hash = parts[8];
    prepared->out_stamp = parts[9];
    prepared->asked_stamp = parts[10];
    prepared->sum_operand = -1;
    prepared->implementation = "";
    *out_prepared = prepared;
    return STATUS_OK;
}

size_t prepared_bytes(const prepared_t *prepared)
{
    size_t bytes = sizeof *prepared + 2 * align(prepared->op->attrs.bytes);
    bytes += (2 * (size_t)prepared->n_in + (size_t)prepared->n_out) * sizeof(tensor_info_t);
    if (prepared->reasons != NULL) bytes += strlen(prepared->reasons);
    return bytes + (prepared->primitive != NULL ? ONEDNN_PRIMITIVE_BYTES : 0);
}

prepared_t *prepared_retain(prepared_t *prepared)
{
    if (prepared != NULL) references_add(&prepared->n_references);
    return prepared;
}

void prepared_reset(prepared_t *prepared)
{
    onednn_release(prepared->primitive);
    prepared->primitive = NULL;
    if (prepared->state != NULL && prepared->kernel->destroy != NULL)
        prepared->kernel->destroy(prepared->state);
    allocator_put(&prepared->allocator, prepared->state);
    prepared->state = NULL;
    prepared->post_left = prepared->operands_left = 0;
    prepared->is_view = false;
    prepared->is_joined = false;
    prepared->may_grow = false;
    memset(prepared->offset, 0, sizeof prepared->offset);
    prepared->sum_operand = -1;
    prepared->overwrites = 0;
    prepared->scratch_bytes = 0;
    prepared->rows = NULL;
    prepared->cost_ns = 0;
    prepared->is_asked_for = false;
    prepared->implementation = "";
}

void prepared_release(prepared_t *prepared)
{
    if (prepared == NULL || !references_drop(&prepared->n_references)) return;
    prepared_reset(prepared);
    allocator_t allocator = prepared->allocator;
    allocator_put(&allocator, prepared->reasons);
    allocator_put(&allocator, prepared);
}

static arrival_t arrival_of(const prepared_t *prepared, int index)
{
    const tensor_info_t *asked = &prepared->asked[index], *want = &prepared->in[index];
    const operand_role_t role = select_operand(prepared->op, index)->role;
    arrival_t arrival = {.kind = ARRIVAL_PASS, .role = role, .cause = CAUSE_WEIGHT};
    if (asked->dtype == DTYPE_NONE || want->dtype == DTYPE_NONE) return arrival;
    arrival.is_transition = asked->layout != want->layout;
    if (role == ROLE_ACTIVATION) arrival.cause = convert_cause(asked, want);
    if (convert_moves_bytes(asked, want))
        arrival.kind = role == ROLE_WEIGHT ? ARRIVAL_PACK : ARRIVAL_CONVERT;
    else if (prepared->is_view && arrival.is_transition)
        arrival.kind = ARRIVAL_SHARE;
    return arrival;
}

status_t prepared_settle(context_t *ctx, prepared_t *prepared, const tensor_info_t *const *asked)
{
    for (int i = 0; i < prepared->n_in; i++) {
        prepared->asked[i] = *asked[i];
        prepared->asked_stamp[i] = tensor_new_stamp();
        prepared->arrivals[i] = arrival_of(prepared, i);
    }
    for (int i = 0; i < prepared->n_out; i++) {
        TRY(tensor_count_bytes(ctx, &prepared->out[i], &prepared->out_bytes[i]));
        prepared->out_hash[i] = info_identity_hash(&prepared->out[i]);
        prepared->out_stamp[i] = tensor_new_stamp();
    }
    return STATUS_OK;
}

TESSERA_PRINTF(2, 0)
static void note(prepared_t *prepared, const char *format, va_list arguments)
{
    char line[512];
    int length = vsnprintf(line, sizeof line, format, arguments);
    if (length < 0) return;
    size_t n = (size_t)length < sizeof line ? (size_t)length : sizeof line - 1;
    size_t had = prepared->reasons == NULL ? 0 : strlen(prepared->reasons);
    char *reasons = allocator_get(&prepared->allocator, had + n + 2);
    if (reasons == NULL) {
        prepared->is_out_of_memory = true;
        return;
    }
    if (had > 0) memcpy(reasons, prepared->reasons, had);
    memcpy(reasons + had, line, n);
    memcpy(reasons + had + n, "\n", 2);
    allocator_put(&prepared->allocator, prepared->reasons);
    prepared->reasons = reasons;
}

void prepared_note(prepared_t *prepared, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    note(prepared, format, arguments);
    va_end(arguments);
}

status_t prepared_decline(prepared_t *prepared, const char *format, ...)
{
    va_list arguments;
    if (prepared == NULL || format == NULL) return STATUS_UNSUPPORTED;
    va_start(arguments, format);
    note(prepared, format, arguments);
    va_end(arguments);
    return STATUS_UNSUPPORTED;
}

void prepared_set_scratch(prepared_t *prepared, size_t bytes)
{
    if (prepared != NULL) prepared->scratch_bytes = bytes;
}

status_t prepared_make_state(context_t *ctx, prepared_t *prepared, size_t bytes, void *out_state)
{
    TRY(context_output(ctx, "prepared_make_state", out_state));
    if (prepared == NULL) return context_null(ctx, "prepared_make_state", "prepared");
    REQUIRE(ctx, prepared->state == NULL, "%s: prepared_make_state was called before",
            prepared->op->name);
    TRY(context_get_zeroed(ctx, bytes, "the state of a kernel", &prepared->state));
    *(void **)out_state = prepared->state;
    return STATUS_OK;
}

void *prepared_state(const prepared_t *prepared)
{
    return prepared != NULL ? prepared->state : NULL;
}

static status_t check_numbers(context_t *ctx, const char *op, int version, int n_numbers,
                              const int64_t *numbers)
{
    REQUIRE(ctx, version >= 0, "%s: version %d of a packed weight, must not be negative", op,
            version);
    REQUIRE(ctx, n_numbers >= 0 && n_numbers <= FORMAT_MAX_NUMBERS,
            "%s: %d numbers of a packed weight, 0 to %d are possible", op, n_numbers,
            FORMAT_MAX_NUMBERS);
    if (n_numbers > 0 && numbers == NULL) return context_null(ctx, op, "numbers");
    for (int i = 0; i < n_numbers; i++)
        REQUIRE(ctx, numbers[i] >= 0, "%s: number %lld of a packed weight, must not be negative",
                op, (long long)numbers[i]);
    return STATUS_OK;
}

status_t prepared_want_packed(context_t *ctx, prepared_t *prepared, int index, int64_t elements,
                              int version, int n_numbers, const int64_t *numbers)
{
    if (prepared == NULL) return context_null(ctx, "prepared_want_packed", "prepared");
    const opdef_t *op = prepared->op;
    char owner[128];
    TRY(check_numbers(ctx, op->name, version, n_numbers, numbers));
    REQUIRE(ctx, prepared->kernel->pack != NULL, "%s: kernel %s has no pack", op->name,
            prepared->kernel->name);
    REQUIRE(ctx,
            index >= 0 && index < op->n_operands && op->operands[index].role == ROLE_WEIGHT &&
                prepared->in[index].dtype != DTYPE_NONE,
            "%s: operand %d is not a weight, only weights are packed", op->name, index);
    REQUIRE(ctx, elements > 0, "%s: a packed weight of %lld elements, 1 or more are needed",
            op->name, (long long)elements);
    snprintf(owner, sizeof owner, "%s/%s", op->name, prepared->kernel->name);
    tensor_info_t *info = &prepared->in[index], want = *info;
    want.layout = LAYOUT_MKLDNN;
    want.format = format_owned(info->rank, elements, owner, version, n_numbers, numbers);
    size_t bytes = 0;
    TRY(tensor_count_bytes(ctx, &want, &bytes));
    *info = want;
    return STATUS_OK;
}

void prepared_take_primitive(prepared_t *prepared, onednn_primitive_t *primitive)
{
    onednn_release(prepared->primitive);
    prepared->primitive = primitive;
    prepared->implementation = onednn_implementation(primitive);
    prepared->scratch_bytes = onednn_scratch_bytes(primitive);
    int n = 0;
    for (int i = 0; i < prepared->n_in - prepared->operands_left; i++)
        if (prepared->in[i].dtype != DTYPE_NONE && i != prepared->sum_operand)
            prepared->arguments[n++] = (int8_t)i;
    prepared->arguments[n++] = -1;
    prepared->n_arguments = n;
}

status_t prepared_run_primitive(context_t *ctx, const prepared_t *prepared, void *const *in,
                                void *const *out, void *scratch)
{
    void *arguments[ONEDNN_MAX_ARGUMENTS];
    INVARIANT(prepared->n_arguments == onednn_n_arguments(prepared->primitive));
    for (int i = 0; i < prepared->n_arguments; i++)
        arguments[i] = prepared->arguments[i] < 0 ? out[-1 - prepared->arguments[i]]
                                                  : in[prepared->arguments[i]];
    if (prepared->sum_operand >= 0 && in[prepared->sum_operand] != out[0])
        memcpy(out[0], in[prepared->sum_operand], info_bytes(&prepared->out[0]));
    return onednn_run(ctx, prepared->primitive, arguments, scratch);
}

void prepared_out_like_call(prepared_t *prepared, const op_call_t *call)
{
    for (int i = 0; i < prepared->n_out; i++) {
        prepared->out[i] = call->out[i];
        if (call->layout != LAYOUT_MKLDNN) continue;
        format_t plain = format_plain(call->out[i].rank);
        prepared->out[i] = info_mkldnn(&call->out[i], &plain);
    }
}

const void *prepared_attrs(const prepared_t *prepared)
{
    return prepared != NULL && prepared->op->attrs.bytes > 0 ? prepared->kernel_attrs : NULL;
}

const opdef_t *prepared_op(const prepared_t *prepared)
{
    return prepared != NULL ? prepared->op : NULL;
}

const char *prepared_kernel(const prepared_t *prepared)
{
    if (prepared == NULL) return NULL;
    return prepared->post_left > 0 ? prepared->peeled_name : prepared->kernel->name;
}

const char *prepared_implementation(const prepared_t *prepared)
{
    if (prepared == NULL) return NULL;
    return prepared->implementation[0] != '\0' ? prepared->implementation
                                               : prepared_kernel(prepared);
}

const char *prepared_reasons(const prepared_t *prepared)
{
    if (prepared == NULL) return NULL;
    return prepared->reasons == NULL ? "" : prepared->reasons;
}

const tensor_info_t *prepared_input(const prepared_t *prepared, int index)
{
    bool is_there = prepared != NULL && index >= 0 && index < prepared->n_in;
    return is_there ? &prepared->in[index] : NULL;
}

const tensor_info_t *prepared_output(const prepared_t *prepared, int index)
{
    bool is_there = prepared != NULL && index >= 0 && index < prepared->n_out;
    return is_there ? &prepared->out[index] : NULL;
}

int prepared_n_outputs(const prepared_t *prepared)
{
    return prepared != NULL ? prepared->n_out : 0;
}

static bool has_needed_operands(const opdef_t *op, int n_in, const tensor_info_t *const *in)
{
    if (in == NULL) return false;
    for (int i = 0; i < op->n_operands; i++)
        if (!op->operands[i].is_optional && (i >= n_in || in[i] == NULL)) return false;
    return true;
}

double dispatch_flops(const opdef_t *op, const void *attrs, int n_in,
                      const tensor_info_t *const *in, int n_out, const tensor_info_t *out)
{
    if (op == NULL || n_out < 1 || out == NULL || info_numel(&out[0]) == 0) return 0;
    if (!has_needed_operands(op, n_in, in)) return 0;
    const op_call_t call = {
        .op = op, .attrs = attrs, .n_in = n_in, .in = in, .n_out = n_out, .out = out};
    if (op->flops != NULL) return op->flops(&call);
    return (op->traits & TRAIT_ELEMENTWISE) != 0 ? (double)info_numel(&out[0]) : 0;
}

double prepared_cost(const prepared_t *prepared)
{
    return prepared != NULL ? prepared->cost_ns : 0;
}

void prepared_repro(const prepared_t *prepared, text_t *text)
{
    if (prepared == NULL || text == NULL) return;
    char info[INFO_TEXT_MAX];
    if (prepared->primitive != NULL) {
        onednn_repro(prepared->primitive, text);
        return;
    }
    text_append(text, "# %s, %s:", prepared->op->name, prepared_kernel(prepared));
    for (int i = 0; i < prepared->n_in; i++)
        text_append(text, " %s", info_text(&prepared->in[i], info));
    for (int i = 0; i < prepared->n_out; i++)
        text_append(text, "%s %s", i == 0 ? " to" : "", info_text(&prepared->out[i], info));
}
