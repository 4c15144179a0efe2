/* Runs an operator: looks up or selects a kernel, converts the inputs, runs, notifies observers. */
#include "dispatch/dispatch.h"

#include <stdalign.h>
#include <stdio.h>

#include "dispatch/hollow_impl.h"
#include "dispatch/pack_impl.h"
#include "dispatch/select_impl.h"
#include "tensor/convert/convert_impl.h"
#include "tensor/info_impl.h"
#include "tensor/text/trace.h"
#include "tensor/threads/interrupt_impl.h"
#include "tensor/threads/threads_impl.h"

/* Dispatch's state in a context. */
typedef struct dispatch_state {
    policy_t policy;
    observer_t *observers;
    hollow_run_t *hollow; /* not NULL: operators are only inferred (hollow_impl.h) */
    cache_t *cache;       /* NULL: not used yet */
} dispatch_state_t;

static const context_slot_t state_slot = {sizeof(dispatch_state_t), NULL, NULL};

static status_t find_state(context_t *ctx, dispatch_state_t **out_state)
{
    void *state = NULL;
    TRY(context_slot(ctx, &state_slot, &state));
    *out_state = state;
    return STATUS_OK;
}

static observer_t *first_observer(context_t *ctx)
{
    dispatch_state_t *state = NULL;
    return ctx != NULL && find_state(ctx, &state) == STATUS_OK ? state->observers : NULL;
}

const char *policy_name(policy_t policy)
{
    static const char *const names[] = {"auto", "strict", "per_op"};
    return policy >= POLICY_AUTO && policy <= POLICY_PER_OP ? names[policy] : "none";
}

status_t policy_check(context_t *ctx, const char *op, policy_t policy)
{
    REQUIRE(ctx, policy >= POLICY_AUTO && policy <= POLICY_PER_OP,
            "%s: policy %d, must be 0 to %d (auto to per_op)", op, (int)policy, POLICY_PER_OP);
    return STATUS_OK;
}

status_t dispatch_set_policy(context_t *ctx, policy_t policy)
{
    dispatch_state_t *state = NULL;
    if (ctx == NULL) return STATUS_INVALID_ARGUMENT;
    TRY(policy_check(ctx, "dispatch_set_policy", policy));
    TRY(find_state(ctx, &state));
    state->policy = policy;
    return STATUS_OK;
}

policy_t dispatch_policy(context_t *ctx)
{
    dispatch_state_t *state = NULL;
    return ctx != NULL && find_state(ctx, &state) == STATUS_OK ? state->policy : POLICY_AUTO;
}

/* ---- observers ---- */

static void tell_conversion(context_t *ctx, const conversion_t *conversion)
{
    for (observer_t *at = first_observer(ctx); at != NULL; at = at->next)
        if (at->converted != NULL) at->converted(ctx, at->user, conversion);
}

status_t dispatch_add_observer(context_t *ctx, observer_t *observer)
{
    dispatch_state_t *state = NULL;
    if (observer == NULL) return context_null(ctx, "dispatch_add_observer", "observer");
    if (ctx == NULL) return STATUS_INVALID_ARGUMENT;
    TRY(find_state(ctx, &state));
    observer->next = state->observers;
    state->observers = observer;
    *context_listener(ctx) = tell_conversion;
    return STATUS_OK;
}

void dispatch_remove_observer(context_t *ctx, observer_t *observer)
{
    dispatch_state_t *state = NULL;
    if (ctx == NULL || find_state(ctx, &state) != STATUS_OK) return;
    for (observer_t **at = &state->observers; *at != NULL; at = &(*at)->next)
        if (*at == observer) {
            *at = observer->next;
            break;
        }
    if (state->observers == NULL) *context_listener(ctx) = NULL;
}

void dispatch_enter_module(context_t *ctx, const char *path)
{
    if (path == NULL) return;
    for (observer_t *at = first_observer(ctx); at != NULL; at = at->next)
        if (at->module_enter != NULL) at->module_enter(ctx, at->user, path);
}

void dispatch_leave_module(context_t *ctx, const char *path)
{
    if (path == NULL) return;
    for (observer_t *at = first_observer(ctx); at != NULL; at = at->next)
        if (at->module_leave != NULL) at->module_leave(ctx, at->user, path);
}

static status_t tell_observers(context_t *ctx, observer_t *first, const op_event_t *event)
{
    for (observer_t *at = first; at != NULL; at = at->next)
        if (at->op_end != NULL) TRY(at->op_end(ctx, at->user, event));
    return STATUS_OK;
}

/* ---- inferring sizes and dtypes instead of running operators ---- */

status_t hollow_begin(context_t *ctx, hollow_run_t *run)
{
    dispatch_state_t *state = NULL;
    TRY(find_state(ctx, &state));
    atomic_init(&run->looks, 0);
    run->observers = state->observers;
    state->observers = NULL;
    state->hollow = run;
    return STATUS_OK;
}

void hollow_end(context_t *ctx, hollow_run_t *run)
{
    dispatch_state_t *state = NULL;
    if (find_state(ctx, &state) != STATUS_OK) return;
    state->observers = run->observers;
    state->hollow = NULL;
}

/* Makes placeholder outputs, which have sizes but no elements; on failure some of them may
 * exist. */
static status_t infer_hollow(context_t *ctx, const dispatch_state_t *state, op_event_t *event,
                             tensor_t **outputs)
{
    static const tensor_info_t absent = {.dtype = DTYPE_NONE};
    const tensor_info_t *infos[OP_MAX_INPUTS];
    tensor_info_t made[OP_MAX_OUTPUTS];
    for (int i = 0; i < event->n_in; i++)
        infos[i] = event->in[i] == NULL ? &absent : &event->in[i]->info;
    TRY(dispatch_infer(ctx, event->op, event->attrs, event->n_in, infos, &event->n_out, made));
    for (int i = 0; i < event->n_out; i++) {
        if (!info_is_sized(&made[i]))
            FAIL(ctx, STATUS_UNSUPPORTED, "%s: the sizes of its result depend on elements",
                 event->op->name);
        TRY(tensor_hollow(ctx, &made[i], &state->hollow->looks, &outputs[i]));
    }
    event->out = outputs;
    return STATUS_OK;
}

static status_t run_hollow(context_t *ctx, dispatch_state_t *state, const op_event_t *call,
                           int *n_out, tensor_t **out)
{
    tensor_t *outputs[OP_MAX_OUTPUTS] = {NULL};
    op_event_t event = *call;
    int n_given = 0;
    status_t status = infer_hollow(ctx, state, &event, outputs);
    if (status == STATUS_OK) status = tell_observers(ctx, state->observers, &event);
    for (; n_given < event.n_out && status == STATUS_OK; n_given++)
        status = tensor_give(ctx, outputs[n_given], &outputs[n_given]);
    if (status != STATUS_OK) {
        for (int i = n_given; i < OP_MAX_OUTPUTS; i++) tensor_drop(outputs[i]);
        return status;
    }
    for (int i = 0; i < event.n_out; i++) out[i] = outputs[i];
    if (n_out != NULL) *n_out = event.n_out;
    return STATUS_OK;
}

/* ---- inputs ---- */

/* Converts an input to the info that the kernel needs. *out_input is the tensor itself, or a new
 * tensor, which is also stored in *out_made. */
static status_t take_input(context_t *ctx, const prepared_t *prepared, policy_t policy, int index,
                           const tensor_t *tensor, const tensor_t **out_input, tensor_t **out_made)
{
    const arrival_t *arrival = &prepared->arrivals[index];
    const tensor_info_t *want = &prepared->in[index];
    if (arrival->kind == ARRIVAL_PASS) {
        if (arrival->is_transition) convert_count_transition(ctx, want->layout);
        if (tensor != NULL) TRY(storage_restore(ctx, tensor->storage, arrival->cause));
        *out_input = tensor;
        return STATUS_OK;
    }
    /* a parameter that module_mkldnn has marked keeps the converted copy (a form) for later calls,
     * even if the operator reads it as an activation */
    bool is_packed = arrival->kind == ARRIVAL_PACK ||
                     (arrival->kind == ARRIVAL_CONVERT && arrival->role == ROLE_ACTIVATION &&
                      storage_is_packable(tensor->storage));
    if (is_packed && policy != POLICY_PER_OP)
        TRY(pack_moved_weight(ctx, prepared->kernel, tensor, want, out_made));
    else
        TRY(pack_for_call(ctx, prepared->kernel, tensor, want, arrival->cause, out_made));
    /* a view will share the storage of its input; if this input is a form, use a snapshot
     * instead */
    if (prepared->is_view) TRY(convert_own(ctx, tensor, out_made));
    *out_input = *out_made;
    return STATUS_OK;
}

/* A view of a dense tensor shares the tensor's bytes. A view of an mkldnn tensor is a snapshot, so
 * a write to one of them never changes the other. If they shared bytes, the blocks of the format
 * would determine whether such a write is visible. */
static status_t make_views(context_t *ctx, const prepared_t *prepared, bool is_snapshot,
                           const tensor_t *in, tensor_t **out)
{
    for (int i = 0; i < prepared->n_out; i++) {
        int64_t offset = in->offset +
                         prepared->offset[i] * (int64_t)dtype_size(prepared->out[i].dtype);
        TRY(is_snapshot ? tensor_snapshot(ctx, in, &prepared->out[i], offset, &out[i])
                        : tensor_over(ctx, &prepared->out[i], in->storage, offset, &out[i]));
        tensor_set_stamp(out[i], prepared->out_stamp[i]);
    }
    return STATUS_OK;
}

static status_t run_kernel(context_t *ctx, const prepared_t *prepared, const tensor_t *const *in,
                           tensor_t **out)
{
    void *in_bytes[OP_MAX_INPUTS], *out_bytes[OP_MAX_OUTPUTS], *scratch = NULL;
    for (int i = 0; i < prepared->n_in; i++) {
        bool is_read = in[i] != NULL && prepared->in[i].dtype != DTYPE_NONE;
        in_bytes[i] = is_read ? (void *)(uintptr_t)tensor_bytes(in[i]) : NULL;
    }
    for (int i = 0; i < prepared->n_out; i++) {
        TRY(tensor_make_of(ctx, &prepared->out[i], prepared->out_bytes[i], prepared->out_hash[i],
                           &out[i], &out_bytes[i]));
        tensor_set_stamp(out[i], prepared->out_stamp[i]);
    }
    if (prepared->scratch_bytes > 0) TRY(context_scratch(ctx, prepared->scratch_bytes, &scratch));
    return prepared->run(ctx, prepared, in_bytes, out_bytes, scratch);
}

/* Under policy per_op, converts all outputs to dense. */
static status_t make_plain(context_t *ctx, int n, tensor_t **out)
{
    for (int i = 0; i < n; i++) {
        if (out[i]->info.layout == LAYOUT_DENSE) continue;
        tensor_info_t want = info_dense(out[i]->info.dtype, out[i]->info.rank, out[i]->info.sizes);
        tensor_t *plain = NULL;
        TRY(convert_to(ctx, out[i], &want, CAUSE_OUTPUT, &plain));
        tensor_drop(out[i]);
        out[i] = plain;
    }
    return STATUS_OK;
}

/* Runs a prepared operator. The inputs have the infos for which its kernel was selected. */
static status_t run_selected(context_t *ctx, const prepared_t *prepared, policy_t policy,
                             const tensor_t *const *in, tensor_t **out)
{
    const tensor_t *inputs[OP_MAX_INPUTS];
    tensor_t *made[OP_MAX_INPUTS], *outputs[OP_MAX_OUTPUTS];
    status_t status = STATUS_OK;
    int n_taken = 0;
    for (int i = 0; i < prepared->n_out; i++) outputs[i] = NULL;
    for (; status == STATUS_OK && n_taken < prepared->n_in; n_taken++) {
        made[n_taken] = NULL;
        status = take_input(ctx, prepared, policy, n_taken, in[n_taken], &inputs[n_taken],
                            &made[n_taken]);
    }
    if (status == STATUS_OK && prepared->is_view) {
        bool is_snapshot = (prepared->op->traits & TRAIT_IDENTITY) == 0 &&
                           in[0]->info.layout == LAYOUT_MKLDNN;
        status = make_views(ctx, prepared, is_snapshot, inputs[0], outputs);
    } else if (status == STATUS_OK) {
        status = run_kernel(ctx, prepared, inputs, outputs);
    }
    if (status == STATUS_OK && policy == POLICY_PER_OP)
        status = make_plain(ctx, prepared->n_out, outputs);
    context_counters(ctx)->operators++;
    for (int i = 0; i < n_taken; i++) tensor_drop(made[i]);
    for (int i = 0; i < prepared->n_out; i++) {
        if (status == STATUS_OK)
            out[i] = outputs[i];
        else
            tensor_drop(outputs[i]);
    }
    return status;
}

static void trace_call(context_t *ctx, const prepared_t *prepared, int n_in,
                       const tensor_t *const *in, tensor_t *const *out, uint64_t ns)
{
    text_t inputs = text_begin(ctx), outputs = text_begin(ctx);
    char text[INFO_TEXT_MAX];
    for (int i = 0; i < n_in; i++)
        text_append(&inputs, "%s%s", i > 0 ? " " : "",
                    in[i] == NULL ? "none" : info_text(tensor_info(in[i]), text));
    for (int i = 0; i < prepared->n_out; i++)
        text_append(&outputs, "%s%s", i > 0 ? " " : "", info_text(tensor_info(out[i]), text));
    trace_event(ctx, TRACE_DISPATCH, "%s,%s,%s,\"%s\",\"%s\",%.3f", prepared->op->name,
                prepared_kernel(prepared), prepared_implementation(prepared), text_string(&inputs),
                text_string(&outputs), (double)ns / 1e3);
    text_clear(&inputs);
    text_clear(&outputs);
}

static bool is_watched(const context_t *ctx, const dispatch_state_t *state)
{
    return state->observers != NULL || trace_wanted(ctx, TRACE_DISPATCH);
}

static bool shows_inputs(const dispatch_state_t *state)
{
    for (const observer_t *at = state->observers; at != NULL; at = at->next)
        if (at->op_end != NULL && !at->ignores_inputs) return true;
    return false;
}

status_t dispatch_is_watched(context_t *ctx, bool *out_is_watched, bool *out_shows_inputs)
{
    dispatch_state_t *state = NULL;
    TRY(find_state(ctx, &state));
    *out_is_watched = is_watched(ctx, state);
    *out_shows_inputs = shows_inputs(state);
    return STATUS_OK;
}

status_t dispatch_tell(context_t *ctx, const op_event_t *event)
{
    if (trace_wanted(ctx, TRACE_DISPATCH))
        trace_call(ctx, event->prepared, event->n_in, event->in, event->out, event->ns);
    return tell_observers(ctx, first_observer(ctx), event);
}

/* Runs a call and reports it to observers and the trace. `read` are the call's inputs, or dense
 * copies of them. */
static status_t run_watched(context_t *ctx, prepared_t *prepared, const cache_call_t *call,
                            const tensor_t *const *read, tensor_t *target, tensor_t **out)
{
    uint64_t begin = context_now();
    TRY(run_selected(ctx, prepared, call->policy, read, out));
    uint64_t ns = context_now() - begin;
    op_event_t event = {.op = prepared->op,
                        .attrs = prepared->attrs,
                        .n_in = call->n_in,
                        .in = call->in,
                        .n_out = prepared->n_out,
                        .out = out,
                        .target = target,
                        .prepared = prepared,
                        .begin = begin,
                        .ns = ns};
    status_t status = dispatch_tell(ctx, &event);
    for (int i = 0; status != STATUS_OK && i < prepared->n_out; i++) tensor_drop(out[i]);
    return status;
}

/* Capacity of `out`. */
static int room_of(const opdef_t *op, const int *n_out)
{
    return n_out != NULL ? *n_out : op->n_outputs;
}

/* Sets the outputs to NULL, their value on failure. */
static status_t clear_outputs(context_t *ctx, const opdef_t *op, const int *n_out, tensor_t **out)
{
    if (out == NULL) return context_null(ctx, op->name, "the output");
    for (int i = 0; i < room_of(op, n_out) && i < OP_MAX_OUTPUTS; i++) out[i] = NULL;
    return STATUS_OK;
}

static status_t check_room(context_t *ctx, const opdef_t *op, int n_made, const int *n_out)
{
    int room = room_of(op, n_out);
    REQUIRE(ctx, n_made <= room, "%s: %d outputs, the capacity is %d", op->name, n_made, room);
    return STATUS_OK;
}

status_t dispatch_run(context_t *ctx, const opdef_t *op, const void *attrs, int n_in,
                      const tensor_t *const *in, int *n_out, tensor_t **out)
{
    return dispatch_run_as(ctx, op, attrs, n_in, in, WEIGHT_GIVEN, NULL, n_out, out);
}

static status_t check_inputs(context_t *ctx, const opdef_t *op, int n_in, const tensor_t *const *in)
{
    REQUIRE(ctx, n_in >= 0 && n_in <= OP_MAX_INPUTS, "%s: %d inputs, at most %d are possible",
            op->name, n_in, OP_MAX_INPUTS);
    if (n_in > 0 && in == NULL) return context_null(ctx, op->name, "in");
    for (int i = 0; i < n_in; i++) {
        if (in[i] != NULL) continue;
        const operand_t *operand = select_operand(op, i);
        if (!operand->is_optional) return context_null(ctx, op->name, operand->name);
    }
    return STATUS_OK;
}

/* ---- operators whose results have sizes that depend on elements of the inputs ---- */

/* Row-major inputs: the originals, or converted tensors in `made`. */
typedef struct measured {
    const tensor_t *in[OP_MAX_INPUTS];
    tensor_t *made[OP_MAX_INPUTS];
    const tensor_info_t *given[OP_MAX_INPUTS], *infos[OP_MAX_INPUTS];
    const void *data[OP_MAX_INPUTS];
} measured_t;

static status_t take_measured(context_t *ctx, const cache_call_t *call, measured_t *measured)
{
    static const tensor_info_t absent = {.dtype = DTYPE_NONE};
    const tensor_t *const *in = call->in;
    for (int i = 0; i < call->n_in; i++)
        measured->given[i] = in[i] != NULL ? &in[i]->info : &absent;
    TRY(select_may_measure(ctx, call->op, call->n_in, measured->given, call->policy));
    for (int i = 0; i < call->n_in; i++) {
        const tensor_info_t *info = measured->infos[i] = measured->given[i];
        measured->in[i] = in[i];
        measured->data[i] = NULL;
        if (in[i] == NULL) continue;
        tensor_info_t want = info_dense(info->dtype, info->rank, info->sizes);
        want.is_number = info->is_number;
        if (!info_equal(info, &want)) {
            TRY(convert_to(ctx, in[i], &want, convert_cause(info, &want), &measured->made[i]));
            measured->in[i] = measured->made[i];
        }
        TRY(storage_restore(ctx, measured->in[i]->storage, CAUSE_USER));
        measured->infos[i] = &measured->in[i]->info;
        measured->data[i] = tensor_bytes(measured->in[i]);
    }
    return STATUS_OK;
}

/* Returns all n tensors to the caller, or none on failure. */
static status_t give_outputs(context_t *ctx, int n, tensor_t **outputs, tensor_t **out)
{
    status_t status = STATUS_OK;
    for (int i = 0; i < n; i++) {
        status_t given = tensor_give(ctx, outputs[i], &out[i]);
        if (given != STATUS_OK) out[i] = NULL;
        if (status == STATUS_OK) status = given;
    }
    if (status != STATUS_OK)
        for (int i = 0; i < n; i++) out[i] = NULL;
    return status;
}

static status_t infer_only(context_t *ctx, dispatch_state_t *state, const opdef_t *op,
                           const void *attrs, int n_in, const tensor_t *const *in, int *n_out,
                           tensor_t **out)
{
    alignas(16) char normalised[ATTRS_MAX];
    TRY(check_inputs(ctx, op, n_in, in));
    TRY(select_attrs(ctx, op, attrs, normalised));
    op_event_t call = {.op = op, .attrs = normalised, .n_in = n_in, .in = in};
    return run_hollow(ctx, state, &call, n_out, out);
}

/* Checks a call that is not among the recent ones, and looks it up in the cache. */
static status_t look_up(context_t *ctx, cache_t *cache, const cache_call_t *call,
                        cache_entry_t **out_entry)
{
    alignas(16) char normalised[ATTRS_MAX];
    cache_call_t checked = *call;
    TRY(check_inputs(ctx, call->op, call->n_in, call->in));
    TRY(select_attrs(ctx, call->op, call->given, normalised));
    checked.attrs = normalised;
    threads_guard_t guard = threads_enter(ctx);
    FINISH(cache_enter(ctx, cache, &checked, out_entry), threads_leave(ctx, guard));
}

static status_t run_entry(context_t *ctx, const dispatch_state_t *state, const cache_call_t *call,
                          cache_entry_t *entry, int *n_out, tensor_t **out)
{
    tensor_t *outputs[OP_MAX_OUTPUTS];
    prepared_t *prepared = cache_prepared(entry);
    const int n_made = prepared->n_out;
    threads_guard_t guard = threads_enter(ctx);
    status_t status = check_room(ctx, call->op, n_made, n_out);
    if (status == STATUS_OK)
        status = is_watched(ctx, state)
                     ? run_watched(ctx, prepared, call, call->in, NULL, outputs)
                     : run_selected(ctx, prepared, call->policy, call->in, outputs);
    cache_leave(ctx, entry);
    threads_leave(ctx, guard);
    TRY(status);
    TRY(give_outputs(ctx, n_made, outputs, out));
    if (n_out != NULL) *n_out = n_made;
    return STATUS_OK;
}

static status_t make_measured(context_t *ctx, const dispatch_state_t *state,
                              const cache_call_t *call, const measured_t *measured, int *n_made,
                              const int *n_out, tensor_t **outputs)
{
    prepared_t *prepared = NULL;
    TRY(select_measured(ctx, call->op, call->attrs, call->n_in, measured->given, measured->infos,
                        measured->data, call->policy, &prepared));
    *n_made = prepared->n_out;
    status_t status = check_room(ctx, call->op, *n_made, n_out);
    if (status == STATUS_OK)
        status = is_watched(ctx, state)
                     ? run_watched(ctx, prepared, call, measured->in, NULL, outputs)
                     : run_selected(ctx, prepared, call->policy, measured->in, outputs);
    prepared_release(prepared);
    return status;
}

static status_t run_measured(context_t *ctx, const dispatch_state_t *state,
                             const cache_call_t *given, int *n_out, tensor_t **out)
{
    alignas(16) char normalised[ATTRS_MAX];
    measured_t measured = {.made = {NULL}};
    tensor_t *outputs[OP_MAX_OUTPUTS];
    cache_call_t call = *given;
    int n_made = 0;
    TRY(check_inputs(ctx, call.op, call.n_in, call.in));
    TRY(select_attrs(ctx, call.op, call.given, normalised));
    call.attrs = normalised;
    threads_guard_t guard = threads_enter(ctx);
    status_t status = take_measured(ctx, &call, &measured);
    if (status == STATUS_OK)
        status = make_measured(ctx, state, &call, &measured, &n_made, n_out, outputs);
    for (int i = 0; i < call.n_in; i++) tensor_drop(measured.made[i]);
    threads_leave(ctx, guard);
    TRY(status);
    TRY(give_outputs(ctx, n_made, outputs, out));
    if (n_out != NULL) *n_out = n_made;
    return STATUS_OK;
}

/* How the call's weights are handled. Only a weight that module_mkldnn or a plan has marked keeps
 * its packed copies; any other weight, even if it is constant, would be packed again in each
 * call. */
static weight_use_t use_of_weights(const opdef_t *op, int n_in, const tensor_t *const *in,
                                   weight_use_t known)
{
    for (int i = 0; i < n_in && i < op->n_operands && in != NULL; i++)
        if (op->operands[i].role == ROLE_WEIGHT && in[i] != NULL &&
            storage_is_packable(in[i]->storage))
            return known == WEIGHT_CONSTANT ? WEIGHT_CONSTANT : WEIGHT_KEPT;
    return WEIGHT_GIVEN;
}

status_t dispatch_run_as(context_t *ctx, const opdef_t *op, const void *attrs, int n_in,
                         const tensor_t *const *in, weight_use_t weights,
                         const format_t *out_format, int *n_out, tensor_t **out)
{
    if (ctx == NULL) return STATUS_INVALID_ARGUMENT;
    if (op == NULL) return context_null(ctx, "dispatch_run", "op");
    TRY(clear_outputs(ctx, op, n_out, out));
    dispatch_state_t *state = NULL;
    TRY(find_state(ctx, &state));
    TRY(interrupt_check(ctx, op->name));
    if (state->hollow != NULL) return infer_only(ctx, state, op, attrs, n_in, in, n_out, out);
    if (state->cache == NULL) TRY(cache_of(ctx, &state->cache));
    bool is_asked = out_format != NULL && out_format->kind == FORMAT_TAG;
    cache_call_t call = {.op = op,
                         .given = attrs,
                         .n_in = n_in,
                         .in = in,
                         .weights = use_of_weights(op, n_in, in, weights),
                         .policy = state->policy,
                         .out_format = state->policy == POLICY_AUTO && is_asked ? out_format : NULL,
                         .n_threads = context_threads(ctx)};
    if ((op->traits & TRAIT_MEASURES) != 0) return run_measured(ctx, state, &call, n_out, out);
    cache_entry_t *entry = cache_recall(ctx, state->cache, &call);
    if (entry == NULL) TRY(look_up(ctx, state->cache, &call, &entry));
    return run_entry(ctx, state, &call, entry, n_out, out);
}

/* ---- in place ---- */

static bool can_hold(dtype_t target, dtype_t result)
{
    if (target == DTYPE_BOOL) return result == DTYPE_BOOL;
    return dtype_is_floating(target) || !dtype_is_floating(result);
}

/* Checks that the target has the result's sizes and can hold its dtype. */
static status_t check_result(context_t *ctx, const opdef_t *op, const tensor_t *target,
                             const tensor_info_t *result)
{
    const tensor_info_t *info = &target->info;
    REQUIRE(ctx, shape_equal(info->rank, info->sizes, result->rank, result->sizes),
            "%s_: the result is %s, the target %s, equal sizes are needed", op->name,
            info_brief(result), info_brief(info));
    REQUIRE(ctx, can_hold(info->dtype, result->dtype),
            "%s_: the result is %s, the target %s cannot hold its dtype", op->name,
            info_brief(result), info_brief(info));
    return STATUS_OK;
}

static status_t tell_written(context_t *ctx, tensor_t *target)
{
    for (observer_t *at = first_observer(ctx); at != NULL; at = at->next)
        if (at->written != NULL) TRY(at->written(ctx, at->user, target));
    return STATUS_OK;
}

/* True if the kernel may write directly into the target: the target's elements are arranged in
 * memory as those of the kernel's result, and it overlaps no other operand. */
static bool writes_target(const prepared_t *prepared, const cache_call_t *call,
                          const tensor_t *target)
{
    if ((prepared->overwrites & 1) == 0 || prepared->is_view || call->policy == POLICY_PER_OP ||
        prepared->arrivals[0].kind != ARRIVAL_PASS ||
        !tensor_lies_like(&target->info, &prepared->out[0]))
        return false;
    for (int i = 1; i < call->n_in; i++)
        if (call->in[i] != NULL && tensor_overlaps(call->in[i], target)) return false;
    return true;
}

static status_t run_into_target(context_t *ctx, const prepared_t *prepared,
                                const cache_call_t *call, tensor_t *target)
{
    const tensor_t *inputs[OP_MAX_INPUTS] = {target};
    tensor_t *made[OP_MAX_INPUTS] = {NULL};
    void *in_bytes[OP_MAX_INPUTS] = {NULL}, *out_bytes = NULL, *scratch = NULL;
    status_t status = storage_restore(ctx, target->storage, prepared->arrivals[0].cause);
    for (int i = 1; i < call->n_in && status == STATUS_OK; i++)
        status = take_input(ctx, prepared, call->policy, i, call->in[i], &inputs[i], &made[i]);
    if (status == STATUS_OK && prepared->scratch_bytes > 0)
        status = context_scratch(ctx, prepared->scratch_bytes, &scratch);
    if (status == STATUS_OK) status = tensor_writable(ctx, target, &out_bytes);
    for (int i = 0; i < call->n_in; i++)
        if (inputs[i] != NULL) in_bytes[i] = (void *)(uintptr_t)tensor_bytes(inputs[i]);
    if (status == STATUS_OK) status = prepared->run(ctx, prepared, in_bytes, &out_bytes, scratch);
    context_counters(ctx)->operators++;
    for (int i = 1; i < call->n_in; i++) tensor_drop(made[i]);
    return status;
}

static status_t run_entry_in_place(context_t *ctx, const dispatch_state_t *state,
                                   const cache_call_t *call, prepared_t *prepared, tensor_t *target)
{
    tensor_t *outputs[OP_MAX_OUTPUTS] = {NULL};
    TRY(check_result(ctx, call->op, target, &prepared->out[0]));
    const bool is_seen = is_watched(ctx, state);
    if (!is_seen && writes_target(prepared, call, target))
        return run_into_target(ctx, prepared, call, target);
    TRY(is_seen ? run_watched(ctx, prepared, call, call->in, target, outputs)
                : run_selected(ctx, prepared, call->policy, call->in, outputs));
    status_t status = tensor_copy(ctx, target, outputs[0]);
    tensor_drop(outputs[0]);
    if (status == STATUS_OK && is_seen) status = tell_written(ctx, target);
    return status;
}

static status_t infer_in_place(context_t *ctx, const dispatch_state_t *state,
                               const cache_call_t *call, tensor_t *target)
{
    alignas(16) char normalised[ATTRS_MAX];
    tensor_t *outputs[OP_MAX_OUTPUTS] = {NULL};
    TRY(check_inputs(ctx, call->op, call->n_in, call->in));
    TRY(select_attrs(ctx, call->op, call->given, normalised));
    op_event_t event = {
        .op = call->op, .attrs = normalised, .n_in = call->n_in, .in = call->in, .target = target};
    status_t status = infer_hollow(ctx, state, &event, outputs);
    if (status == STATUS_OK) status = check_result(ctx, call->op, target, &outputs[0]->info);
    if (status == STATUS_OK) status = tell_observers(ctx, state->observers, &event);
    for (int i = 0; i < OP_MAX_OUTPUTS; i++) tensor_drop(outputs[i]);
    return status;
}

status_t dispatch_run_in_place(context_t *ctx, const opdef_t *op, const void *attrs,
                               tensor_t *target, int n_in, const tensor_t *const *in)
{
    char name[64];
    const tensor_t *inputs[OP_MAX_INPUTS] = {target};
    dispatch_state_t *state = NULL;
    if (ctx == NULL) return STATUS_INVALID_ARGUMENT;
    if (op == NULL) return context_null(ctx, "dispatch_run_in_place", "op");
    snprintf(name, sizeof name, "%s_", op->name);
    if (target == NULL) return context_null(ctx, name, "the target");
    if (n_in > 0 && in == NULL) return context_null(ctx, name, "in");
    REQUIRE(ctx, n_in >= 0 && n_in < OP_MAX_INPUTS, "%s: %d operands, 0 to %d are possible", name,
            n_in, OP_MAX_INPUTS - 1);
    REQUIRE(ctx, op->n_outputs == 1 && (op->traits & (TRAIT_MEASURES | TRAIT_VIEW)) == 0,
            "%s: cannot run in place, needs one result of known sizes that is not a view", name);
    TRY(tensor_check_writable(ctx, name, target));
    for (int i = 0; i < n_in; i++) inputs[i + 1] = in[i];
    TRY(find_state(ctx, &state));
    cache_call_t call = {.op = op,
                         .given = attrs,
                         .n_in = n_in + 1,
                         .in = inputs,
                         .weights = use_of_weights(op, n_in + 1, inputs, WEIGHT_GIVEN),
                         .policy = state->policy,
                         .n_threads = context_threads(ctx)};
    TRY(interrupt_check(ctx, name));
    if (state->hollow != NULL) return infer_in_place(ctx, state, &call, target);
    if (state->cache == NULL) TRY(cache_of(ctx, &state->cache));
    cache_entry_t *entry = cache_recall(ctx, state->cache, &call);
    if (entry == NULL) TRY(look_up(ctx, state->cache, &call, &entry));
    threads_guard_t guard = threads_enter(ctx);
    status_t status = run_entry_in_place(ctx, state, &call, cache_prepared(entry), target);
    cache_leave(ctx, entry);
    threads_leave(ctx, guard);
    return status;
}
