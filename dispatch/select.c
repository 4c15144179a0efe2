/* Selects a kernel for a call from the call's metadata, and makes a prepared operator.
 *
 * Tries the layouts that the policy allows, in order of preference. In each layout it tries the
 * operator's kernels in order and takes the first that accepts; among competing kernels
 * (KERNEL_COMPETES) it takes the cheapest. A kernel sees the infos that activations have after
 * dispatch has converted them to this layout. */
#include <stdalign.h>
#include <string.h>

#include "dispatch/select_impl.h"
#include "tensor/convert/convert_impl.h"
#include "tensor/onednn/cost.h"
#include "tensor/threads/interrupt_impl.h"
#include "tensor/threads/threads_impl.h"

const operand_t *select_operand(const opdef_t *op, int index)
{
    static const operand_t post = {"post", ROLE_ACTIVATION, false, false};
    if (index < op->n_operands) return &op->operands[index];
    if (op->n_operands > 0 && op->operands[op->n_operands - 1].is_variadic)
        return &op->operands[op->n_operands - 1];
    return &post;
}

bool select_reads_grouped(const opdef_t *op, int index, const tensor_info_t *info)
{
    return index == 0 && (op->traits & TRAIT_READS_GROUPED) != 0 &&
           info->format.kind == FORMAT_GROUPED;
}

/* The kernel for calls whose outputs are all empty. */
static status_t prepare_empty(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    (void)ctx;
    for (int i = 0; i < call->n_out; i++) prepared->out[i] = call->out[i];
    return STATUS_OK;
}

static status_t run_empty(context_t *ctx, const prepared_t *prepared, void *const *in,
                          void *const *out, void *scratch)
{
    (void)ctx, (void)prepared, (void)in, (void)out, (void)scratch;
    return STATUS_OK;
}

static const kernel_t empty_kernel = {.name = "empty", .prepare = prepare_empty, .run = run_empty};

static status_t check_operands(context_t *ctx, const opdef_t *op, const void *attrs, int n_in,
                               const tensor_info_t *const *in)
{
    TRY(attrs_check(ctx, op->name, &op->attrs, attrs));
    int n_post = post_operands(attrs_post(&op->attrs, attrs));
    bool is_variadic = op->n_operands > 0 && op->operands[op->n_operands - 1].is_variadic;
    REQUIRE(ctx, n_in >= 0 && n_in <= OP_MAX_INPUTS, "%s: %d inputs, at most %d are possible",
            op->name, n_in, OP_MAX_INPUTS);
    if (n_in > 0 && in == NULL) return context_null(ctx, op->name, "in");
    REQUIRE(ctx, is_variadic ? n_in >= op->n_operands : n_in == op->n_operands + n_post,
            "%s: %d inputs, needs %d", op->name, n_in, op->n_operands + n_post);
    for (int i = 0; i < n_in; i++) {
        const operand_t *operand = select_operand(op, i);
        if (in[i] == NULL) return context_null(ctx, op->name, operand->name);
        REQUIRE(ctx, in[i]->dtype != DTYPE_NONE || operand->is_optional, "%s: %s is missing",
                op->name, operand->name);
    }
    return STATUS_OK;
}

status_t select_attrs(context_t *ctx, const opdef_t *op, const void *attrs, void *out_normalised)
{
    REQUIRE(ctx, op->name != NULL && op->infer != NULL && op->kernels != NULL,
            "%s: an operator needs a name, infer and kernels",
            op->name != NULL ? op->name : "dispatch");
    REQUIRE(ctx, op->attrs.bytes <= ATTRS_MAX && op->n_outputs <= OP_MAX_OUTPUTS,
            "%s: attributes of %zu bytes and %d outputs, at most %d and %d are possible", op->name,
            op->attrs.bytes, op->n_outputs, ATTRS_MAX, OP_MAX_OUTPUTS);
    attrs_normalize(&op->attrs, attrs, out_normalised);
    return STATUS_OK;
}

static bool knows_all(const op_call_t *call)
{
    for (int i = 0; i < call->n_in; i++)
        if (call_has(call, i) && !call_knows(call, i)) return false;
    return true;
}

/* Checks an inferred output. Its sizes may be -1 if they depend on elements that are not known. */
static status_t check_inferred(context_t *ctx, const op_call_t *call, const tensor_info_t *out)
{
    int64_t sizes[TENSOR_MAX_RANK];
    bool may_be_open = (call->op->traits & TRAIT_MEASURES) != 0 && !knows_all(call);
    for (int d = 0; d < out->rank && out->rank <= TENSOR_MAX_RANK; d++)
        sizes[d] = may_be_open && out->sizes[d] == -1 ? 1 : out->sizes[d];
    return shape_check(ctx, call->op->name, out->dtype, out->rank, sizes);
}

status_t select_infer(context_t *ctx, op_call_t *call, int *out_n, tensor_info_t *out)
{
    TRY(check_operands(ctx, call->op, call->attrs, call->n_in, call->in));
    *out_n = call->op->n_outputs;
    TRY(call->op->infer(ctx, call, out_n, out));
    for (int i = 0; i < *out_n; i++) TRY(check_inferred(ctx, call, &out[i]));
    return STATUS_OK;
}

status_t dispatch_infer(context_t *ctx, const opdef_t *op, const void *attrs, int n_in,
                        const tensor_info_t *const *in, int *out_n, tensor_info_t *out)
{
    if (op == NULL) return context_null(ctx, "dispatch_infer", "op");
    if (out_n == NULL || out == NULL) return context_null(ctx, op->name, "the output");
    alignas(16) char normalised[ATTRS_MAX];
    TRY(select_attrs(ctx, op, attrs, normalised));
    op_call_t call = {.op = op, .attrs = normalised, .n_in = n_in, .in = in};
    return select_infer(ctx, &call, out_n, out);
}

static status_t check_given(context_t *ctx, const opdef_t *op, int n_in,
                            const tensor_info_t *const *in)
{
    TRY(context_array(ctx, op->name, "inputs", n_in, in));
    for (int i = 0; i < n_in; i++)
        if (in[i] == NULL) return context_null(ctx, op->name, "an input");
    return STATUS_OK;
}

/* Sets prepared->in to the infos that a kernel in this layout sees. Activations in a grouped format
 * are widened, unless the operator reads them. */
static status_t show_inputs(prepared_t *prepared, const opdef_t *op, layout_t layout, int n_in,
                            const tensor_info_t *const *in)
{
    for (int i = 0; i < n_in; i++) {
        const tensor_info_t *info = in[i];
        prepared->in[i] = *info;
        if (info->dtype == DTYPE_NONE || select_operand(op, i)->role != ROLE_ACTIVATION) continue;
        if (select_reads_grouped(op, i, info)) continue;
        if (layout == LAYOUT_DENSE && info->layout == LAYOUT_MKLDNN) {
            prepared->in[i] = info_dense(info->dtype, info->rank, info->sizes);
        } else if (info->format.kind == FORMAT_GROUPED) {
            const format_t plain = format_plain(info->rank);
            prepared->in[i] = info_mkldnn(info, &plain);
        } else if (layout == LAYOUT_MKLDNN && info->layout == LAYOUT_DENSE && info->rank > 0) {
            const char *refusal = convert_refusal(info);
            if (refusal != NULL)
                return prepared_decline(prepared, "mkldnn: %s, %s", info_brief(info), refusal);
            format_t format = format_of_strides(info->rank, info->sizes, info->format.strides);
            prepared->in[i] = info_mkldnn(info, &format);
        }
    }
    return STATUS_OK;
}

static bool touches_empty(const op_call_t *call)
{
    for (int i = 0; i < call->n_in; i++)
        if (call->in[i]->dtype != DTYPE_NONE && info_numel(call->in[i]) == 0) return true;
    return false;
}

/* Prepares one kernel. is_peeled: the kernel does not compute the post-ops. */
static status_t try_kernel(context_t *ctx, const op_call_t *call, const kernel_t *kernel,
                           bool is_peeled, const tensor_info_t *shown, prepared_t *prepared)
{
    prepared_reset(prepared);
    for (int i = 0; i < call->n_in; i++) prepared->in[i] = shown[i];
    if (call->op->attrs.bytes > 0)
        memcpy(prepared->kernel_attrs, prepared->attrs, call->op->attrs.bytes);
    prepared_out_like_call(prepared, call);
    prepared->kernel = kernel;
    prepared->run = kernel->run;
    prepared->is_view = (kernel->flags & KERNEL_IS_VIEW) != 0;
    if (is_peeled) return peel_prepare(ctx, call, kernel, prepared);
    TRY(kernel->prepare(ctx, call, prepared));
    if (prepared->post_left > 0) peel_rest(prepared);
    return STATUS_OK;
}

/* Tries the kernel with its post-ops if it fuses them. If it does not, or declines, tries it with
 * peeled post-ops. */
static status_t ask_kernel(context_t *ctx, const op_call_t *call, const kernel_t *kernel,
                           const tensor_info_t *shown, prepared_t *prepared)
{
    const bool has_post = peel_is_due(call);
    status_t status = STATUS_UNSUPPORTED;
    if (touches_empty(call) && (kernel->flags & KERNEL_NEEDS_ELEMENTS) != 0)
        return prepared_decline(prepared, "%s: empty tensors never reach oneDNN", kernel->name);
    if (!has_post || (kernel->flags & KERNEL_FUSES_POST_OPS) != 0)
        status = try_kernel(ctx, call, kernel, false, shown, prepared);
    if (has_post && status == STATUS_UNSUPPORTED)
        status = try_kernel(ctx, call, kernel, true, shown, prepared);
    return status;
}

/* Estimated time of the call with this kernel, including conversions of activations, and of weights
 * that are converted in each call. */
static double cost_of(const op_call_t *call, const prepared_t *prepared,
                      const tensor_info_t *const *in)
{
    double cost = prepared->cost_ns;
    for (int i = 0; i < call->n_in; i++) {
        const operand_role_t role = select_operand(call->op, i)->role;
        const bool is_moved = role == ROLE_ACTIVATION ||
                              (role == ROLE_WEIGHT && call->weights == WEIGHT_GIVEN);
        if (is_moved && in[i]->dtype != DTYPE_NONE && prepared->in[i].dtype != DTYPE_NONE &&
            in[i]->rank == prepared->in[i].rank)
            cost += cost_reorder(in[i], &prepared->in[i]);
    }
    return cost;
}

static void note_loser(prepared_t *to, const prepared_t *loser, double cost,
                       const prepared_t *winner, double winner_cost)
{
    prepared_note(to, "%s: estimated at %.1f us, %s at %.1f us", loser->kernel->name, cost / 1000.0,
                  winner->kernel->name, winner_cost / 1000.0);
}

/* Stores the cheaper of *prepared and *best in *best (at first NULL). *prepared becomes the other
 * one, for use with the next kernel, and keeps the reasons. */
static status_t compare(context_t *ctx, const op_call_t *call, const tensor_info_t *const *in,
                        prepared_t **prepared, prepared_t **best)
{
    prepared_t *other = *best;
    const double cost = cost_of(call, *prepared, in);
    if (other == NULL) {
        TRY(prepared_create(ctx, call->op, (*prepared)->attrs, call->n_in, call->n_out, &other));
    } else {
        const double least = cost_of(call, other, in);
        if (cost >= least) {
            note_loser(*prepared, *prepared, cost, other, least);
            return STATUS_OK;
        }
        note_loser(*prepared, other, least, *prepared, cost);
    }
    other->reasons = (*prepared)->reasons;
    (*prepared)->reasons = NULL;
    other->is_out_of_memory = (*prepared)->is_out_of_memory;
    *best = *prepared;
    *prepared = other;
    return STATUS_OK;
}

/* Tries the kernels in the order of the operator's list, in which those that compete
 * (KERNEL_COMPETES) come first. */
static status_t ask_kernels(context_t *ctx, const op_call_t *call, const tensor_info_t *const *in,
                            const tensor_info_t *shown, prepared_t **prepared)
{
    prepared_t *best = NULL;
    status_t status = STATUS_UNSUPPORTED;
    for (int k = 0; status == STATUS_UNSUPPORTED && call->op->kernels[k] != NULL; k++) {
        const kernel_t *kernel = call->op->kernels[k];
        const bool competes = (kernel->flags & KERNEL_COMPETES) != 0;
        if (call->kernel != NULL && kernel != call->kernel) continue;
        if (!competes && best != NULL) break;
        status = ask_kernel(ctx, call, kernel, shown, *prepared);
        const bool is_alone = !competes || call->kernel != NULL || (*prepared)->is_asked_for;
        if (status != STATUS_OK || is_alone) continue;
        status = compare(ctx, call, in, prepared, &best);
        if (status == STATUS_OK) status = STATUS_UNSUPPORTED;
    }
    if (best == NULL) return status;
    if (status == STATUS_UNSUPPORTED) { /* all accepted kernels compete: take the cheapest */
        prepared_t *spare = *prepared;
        best->reasons = spare->reasons;
        best->is_out_of_memory = spare->is_out_of_memory;
        spare->reasons = NULL;
        *prepared = best;
        best = spare;
        status = STATUS_OK;
    }
    prepared_release(best);
    return status;
}

static status_t try_layout(context_t *ctx, op_call_t *call, layout_t layout,
                           const tensor_info_t *const *in, prepared_t **prepared)
{
    tensor_info_t shown[OP_MAX_INPUTS];
    const tensor_info_t *shown_at[OP_MAX_INPUTS];
    TRY(show_inputs(*prepared, call->op, layout, call->n_in, in));
    for (int i = 0; i < call->n_in; i++) {
        shown[i] = (*prepared)->in[i];
        shown_at[i] = &shown[i];
    }
    call->layout = layout;
    call->in = shown_at;
    status_t status = ask_kernels(ctx, call, in, shown, prepared);
    call->in = in;
    return status;
}

/* Lists the layouts to try. Fails under policy strict if inputs have different layouts. */
static status_t layouts_of(context_t *ctx, const opdef_t *op, int n_in,
                           const tensor_info_t *const *in, policy_t policy, layout_t *out_layouts,
                           int *out_n)
{
    int n_mkldnn = 0, n_dense = 0, first_dense = 0;
    for (int i = n_in - 1; i >= 0; i--) {
        if (in[i]->dtype == DTYPE_NONE || in[i]->rank == 0) continue;
        if (select_operand(op, i)->role != ROLE_ACTIVATION) continue;
        if (in[i]->layout == LAYOUT_MKLDNN) {
            n_mkldnn++;
        } else {
            n_dense++;
            first_dense = i;
        }
    }
    *out_n = 0;
    if (policy == POLICY_STRICT) {
        REQUIRE(ctx, n_mkldnn == 0 || n_dense == 0,
                "%s: %s is dense and other inputs are mkldnn, policy strict forbids mixed layouts",
                op->name, select_operand(op, first_dense)->name);
        out_layouts[(*out_n)++] = n_mkldnn > 0 ? LAYOUT_MKLDNN : LAYOUT_DENSE;
        return STATUS_OK;
    }
    bool wants_mkldnn = op->preference == OP_PREFERS ||
                        (op->preference == OP_FOLLOWS && n_mkldnn > 0 && policy == POLICY_AUTO);
    if (wants_mkldnn) out_layouts[(*out_n)++] = LAYOUT_MKLDNN;
    out_layouts[(*out_n)++] = LAYOUT_DENSE;
    return STATUS_OK;
}

static status_t select_guarded(context_t *ctx, const op_call_t *wanted,
                               const tensor_info_t *const *in, int n_layouts,
                               const layout_t *layouts, prepared_t **out_prepared)
{
    tensor_info_t out[OP_MAX_OUTPUTS];
    op_call_t call = *wanted; /* a copy, because it will point to `out` */
    const opdef_t *op = call.op;
    call.in = in;
    TRY(interrupt_check(ctx, op->name));
    if ((op->traits & TRAIT_MEASURES) != 0 && call.data == NULL)
        FAIL(ctx, STATUS_UNSUPPORTED,
             "%s: its output sizes depend on elements, its kernel is selected when it runs",
             op->name);
    TRY(select_infer(ctx, &call, &call.n_out, out));
    bool is_empty = call.n_out > 0;
    for (int i = 0; i < call.n_out; i++) is_empty = is_empty && info_numel(&out[i]) == 0;
    call.out = out;

    prepared_t *prepared = NULL;
    TRY(prepared_create(ctx, op, call.attrs, call.n_in, call.n_out, &prepared));
    status_t status = STATUS_UNSUPPORTED;
    if (is_empty) {
        prepared->kernel = &empty_kernel;
        prepared->run = run_empty;
        for (int i = 0; i < call.n_in; i++) prepared->in[i] = *in[i];
        status = prepare_empty(ctx, &call, prepared);
    }
    for (int i = 0; status == STATUS_UNSUPPORTED && i < n_layouts; i++)
        status = try_layout(ctx, &call, layouts[i], in, &prepared);
    if ((status == STATUS_OK || status == STATUS_UNSUPPORTED) && prepared->is_out_of_memory)
        status = context_fail(ctx, STATUS_OUT_OF_MEMORY,
                              "%s: out of memory for the reasons why kernels declined", op->name);
    if (status == STATUS_UNSUPPORTED && !call.keep_formats) {
        char text[INFO_TEXT_MAX];
        context_fail(ctx, status, "%s: no kernel for %s\n%s", op->name,
                     call.n_in > 0 ? info_text(in[0], text) : "no input",
                     prepared_reasons(prepared));
    }
    if (status == STATUS_OK) status = prepared_settle(ctx, prepared, in);
    GIVE(status, out_prepared, prepared, prepared_release(prepared));
}

/* Selects a kernel with the context's number of threads set, because oneDNN's proposals depend on
 * the number. */
static status_t select_over(context_t *ctx, op_call_t *call, const tensor_info_t *const *in,
                            int n_layouts, const layout_t *layouts, prepared_t **out_prepared)
{
    threads_guard_t guard = threads_enter(ctx);
    FINISH(select_guarded(ctx, call, in, n_layouts, layouts, out_prepared),
           threads_leave(ctx, guard));
}

status_t select_prepared(context_t *ctx, const opdef_t *op, const void *attrs, int n_in,
                         const tensor_info_t *const *in, weight_use_t weights, policy_t policy,
                         prepared_t **out_prepared)
{
    layout_t layouts[2];
    int n_layouts = 0;
    TRY(layouts_of(ctx, op, n_in, in, policy, layouts, &n_layouts));
    op_call_t call = {.op = op,
                      .attrs = attrs,
                      .n_in = n_in,
                      .weights = weights,
                      .per_op = policy == POLICY_PER_OP};
    return select_over(ctx, &call, in, n_layouts, layouts, out_prepared);
}

status_t select_may_measure(context_t *ctx, const opdef_t *op, int n_in,
                            const tensor_info_t *const *given, policy_t policy)
{
    layout_t layouts[2];
    char text[INFO_TEXT_MAX];
    int n_layouts = 0;
    TRY(layouts_of(ctx, op, n_in, given, policy, layouts, &n_layouts));
    if (policy != POLICY_STRICT || layouts[0] == LAYOUT_DENSE) return STATUS_OK;
    FAIL(ctx, STATUS_UNSUPPORTED, "%s: no kernel for %s, needs dense tensors", op->name,
         info_text(given[0], text));
}

status_t select_measured(context_t *ctx, const opdef_t *op, const void *attrs, int n_in,
                         const tensor_info_t *const *given, const tensor_info_t *const *in,
                         const void *const *data, policy_t policy, prepared_t **out_prepared)
{
    layout_t layouts[2];
    int n_layouts = 0;
    TRY(layouts_of(ctx, op, n_in, given, policy, layouts, &n_layouts));
    op_call_t call = {.op = op, .attrs = attrs, .n_in = n_in, .data = data};
    return select_over(ctx, &call, in, n_layouts, layouts, out_prepared);
}

status_t dispatch_select(context_t *ctx, const opdef_t *op, const void *attrs, int n_in,
                         const tensor_info_t *const *in, policy_t policy, prepared_t **out_prepared)
{
    return select_for_weights(ctx, op, attrs, n_in, in, WEIGHT_GIVEN, policy, out_prepared);
}

status_t select_for_weights(context_t *ctx, const opdef_t *op, const void *attrs, int n_in,
                            const tensor_info_t *const *in, weight_use_t weights, policy_t policy,
                            prepared_t **out_prepared)
{
    TRY(context_output(ctx, "dispatch_select", out_prepared));
    if (op == NULL) return context_null(ctx, "dispatch_select", "op");
    TRY(check_given(ctx, op, n_in, in));
    TRY(policy_check(ctx, "dispatch_select", policy));
    alignas(16) char normalised[ATTRS_MAX];
    TRY(select_attrs(ctx, op, attrs, normalised));
    return select_prepared(ctx, op, normalised, n_in, in, weights, policy, out_prepared);
}

status_t dispatch_select_fixed(context_t *ctx, const opdef_t *op, const void *attrs, int n_in,
                               const tensor_info_t *const *in, layout_t layout,
                               const format_t *out_format, prepared_t **out_prepared)
{
    return select_fixed(ctx, op, attrs, n_in, in, WEIGHT_GIVEN, layout, out_format, NULL,
                        out_prepared);
}

status_t select_fixed(context_t *ctx, const opdef_t *op, const void *attrs, int n_in,
                      const tensor_info_t *const *in, weight_use_t weights, layout_t layout,
                      const format_t *out_format, const kernel_t *kernel, prepared_t **out_prepared)
{
    TRY(context_output(ctx, "dispatch_select_fixed", out_prepared));
    if (op == NULL) return context_null(ctx, "dispatch_select_fixed", "op");
    TRY(check_given(ctx, op, n_in, in));
    alignas(16) char normalised[ATTRS_MAX];
    TRY(select_attrs(ctx, op, attrs, normalised));
    op_call_t call = {.op = op,
                      .attrs = normalised,
                      .n_in = n_in,
                      .weights = weights,
                      .keep_formats = true,
                      .out_format = out_format,
                      .kernel = kernel};
    return select_over(ctx, &call, in, 1, &layout, out_prepared);
}
