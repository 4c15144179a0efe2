/* The tape has two roles. As an observer of the context, it records each operator call. As an
 * emitter, it runs the operators that gradient rules call during the backward pass. */
#include "train/tape_impl.h"

#include <stdatomic.h>
#include <string.h>

#include "dispatch/dispatch.h"
#include "dispatch/emitter_impl.h"
#include "dispatch/select_impl.h"
#include "ops/gradient_impl.h"
#include "tensor/hash_impl.h"
#include "tensor/scope_impl.h"
#include "tensor/tensor_impl.h"

/* An operand or result of a recorded call, or a tensor that a gradient rule computed. If a rule
 * reads its elements, the record retains the tensor (`elements`); otherwise it has only its dtype
 * and sizes. */
typedef struct record {
    value_t number;
    tensor_info_t info;
    const tensor_t *key; /* address of the tensor. A later tensor may reuse the address; then
                            `taped` differs. Leaves (watched tensors) are held. */
    uint32_t taped;
    tensor_t *elements;
    uint64_t version; /* write counter of the storage when the elements were recorded */
    uint64_t seen;    /* write counter when a recorded call made or last wrote the tensor */
    bool is_tracked;  /* needs a gradient: is a leaf or depends on one */
    bool is_leaf;
    tensor_t *grad; /* exists during tape_backward; for a leaf, until tape_zero_gradients */
    int first_use;  /* for a leaf, during tape_backward: index of the first call that read it */
} record_t;

typedef struct entry {
    const opdef_t *op;
    void *attrs;
    int n_in, n_out;
    value_t *in, *out; /* attrs, in and out are one allocation */
} entry_t;

struct tape {
    emitter_t emitter; /* first member, because rules get its address */
    context_t *ctx;
    observer_t observer;
    int n_paused;
    record_t **records; /* leaves first */
    int n_records, records_capacity, n_leaves;
    entry_t *entries;
    int n_entries, entries_capacity;
    hash_table_t by_tensor; /* records of tracked tensors, by address */
    value_t written;        /* result of an in-place call that will now write its target */
    tensor_t **targets;     /* tensors that recorded in-place calls wrote, retained */
    int n_targets, targets_capacity;
    size_t bytes;
    tape_ready_t ready; /* callback or NULL */
    void *ready_user;
};

/* ---- records ---- */

static uint64_t hash_of(const tensor_t *tensor)
{
    return hash_mix(0, (uintptr_t)tensor);
}

static record_t *find(const tape_t *tape, const tensor_t *tensor)
{
    record_t *record = hash_find(&tape->by_tensor, hash_of(tensor), NULL, NULL);
    if (record == NULL || record->is_leaf) return record;
    return atomic_load(&tensor->taped) == record->taped ? record : NULL;
}

/* A number that identifies the tensor, even if another tensor later gets its address. The first
 * tape that sees the tensor assigns the number; all tapes use it. */
static uint32_t number_of(const tensor_t *tensor)
{
    static atomic_uint last;
    atomic_uint *taped = &((tensor_t *)(uintptr_t)tensor)->taped;
    unsigned number = atomic_load(taped);
    if (number != 0) return number;
    const unsigned made = atomic_fetch_add(&last, 1) + 1;
    return atomic_compare_exchange_strong(taped, &number, made) ? made : number;
}

static status_t add_record(tape_t *tape, const tensor_info_t *info, record_t **out_record)
{
    context_t *ctx = tape->ctx;
    record_t *record = NULL;
    TRY(context_grow(ctx, &tape->records, &tape->records_capacity, tape->n_records + 1,
                     sizeof *tape->records));
    TRY(context_get_zeroed(ctx, sizeof *record, "a record of a tape", &record));
    record->info = *info;
    record->number = tape->n_records;
    tape->records[tape->n_records++] = record;
    *out_record = record;
    return STATUS_OK;
}

static void keep_elements(tape_t *tape, record_t *record, const tensor_t *tensor)
{
    if (record->elements != NULL) return;
    record->elements = tensor_hold((tensor_t *)(uintptr_t)tensor);
    record->version = storage_version(tensor->storage);
    tape->bytes += info_bytes(&tensor->info);
}

static void drop_elements(tape_t *tape, record_t *record)
{
    if (record->elements == NULL) return;
    tape->bytes -= info_bytes(&record->elements->info);
    tensor_drop(record->elements);
    record->elements = NULL;
}

/* Makes `record` the record of the tensor, unless the tensor is a leaf. */
static status_t track(tape_t *tape, record_t *record, const tensor_t *tensor)
{
    const uint64_t hash = hash_of(tensor);
    record_t *old = hash_find(&tape->by_tensor, hash, NULL, NULL);
    if (old != NULL && old->is_leaf) return STATUS_OK;
    if (old != NULL) hash_remove(&tape->by_tensor, hash, old);
    TRY(hash_put(tape->ctx, &tape->by_tensor, hash, record));
    record->key = tensor;
    record->is_tracked = true;
    record->seen = storage_version(tensor->storage);
    record->taped = number_of(tensor);
    return STATUS_OK;
}

static void end_record(tape_t *tape, record_t *record)
{
    drop_elements(tape, record);
    tensor_drop(record->grad);
    if (record->is_leaf) tensor_drop((tensor_t *)(uintptr_t)record->key);
    context_put(tape->ctx, record);
}

/* Removes all records after the first n. */
static void cut_records(tape_t *tape, int n)
{
    while (tape->n_records > n) {
        record_t *record = tape->records[--tape->n_records];
        if (record->key != NULL) hash_remove(&tape->by_tensor, hash_of(record->key), record);
        end_record(tape, record);
    }
}

void tape_forget(tape_t *tape)
{
    if (tape == NULL) return;
    for (int i = 0; i < tape->n_entries; i++) context_put(tape->ctx, tape->entries[i].attrs);
    tape->n_entries = 0;
    for (int i = 0; i < tape->n_targets; i++) tensor_drop(tape->targets[i]);
    tape->n_targets = 0;
    for (int i = 0; i < tape->n_leaves; i++) drop_elements(tape, tape->records[i]);
    cut_records(tape, tape->n_leaves);
}

/* ---- recording ---- */

/* Records an operand. Holds its elements if the operator's gradient rule reads them. */
static status_t record_input(tape_t *tape, const op_event_t *event, int i, value_t *out_value)
{
    const tensor_t *tensor = event->in[i];
    record_t *record = NULL;
    *out_value = VALUE_NONE;
    if (tensor == NULL) return STATUS_OK;
    record = find(tape, tensor);
    if (record == NULL) TRY(add_record(tape, &tensor->info, &record));
    const int bit = i < 63 ? i : 63;
    if ((event->op->gradient->reads_in >> bit & 1) != 0) keep_elements(tape, record, tensor);
    *out_value = record->number;
    return STATUS_OK;
}

static status_t record_output(tape_t *tape, const op_event_t *event, int i, value_t *out_value)
{
    const tensor_t *tensor = event->out[i];
    record_t *record = NULL;
    TRY(add_record(tape, &tensor->info, &record));
    *out_value = record->number;
    if ((event->op->gradient->reads_out >> i & 1) != 0) keep_elements(tape, record, tensor);
    return dtype_is_floating(tensor->info.dtype) ? track(tape, record, tensor) : STATUS_OK;
}

static status_t add_entry(tape_t *tape, const op_event_t *event, entry_t **out_entry)
{
    context_t *ctx = tape->ctx;
    const size_t attr_bytes = (event->op->attrs.bytes + 15) / 16 * 16;
    const int n = event->n_in + event->n_out;
    char *block = NULL;
    TRY(context_grow(ctx, &tape->entries, &tape->entries_capacity, tape->n_entries + 1,
                     sizeof *tape->entries));
    TRY(context_get(ctx, attr_bytes + (size_t)n * sizeof(value_t), "a call on a tape", &block));
    if (event->op->attrs.bytes > 0) memcpy(block, event->attrs, event->op->attrs.bytes);
    entry_t *entry = &tape->entries[tape->n_entries++];
    *entry = (entry_t){.op = event->op, .attrs = block, .n_in = event->n_in, .n_out = event->n_out};
    entry->in = (value_t *)(void *)(block + attr_bytes);
    entry->out = entry->in + event->n_in;
    *out_entry = entry;
    return STATUS_OK;
}

/* True if gradients can pass through the call: it has a floating-point result and an input that
 * depends on a watched tensor. */
static bool passes(const tape_t *tape, const op_event_t *event)
{
    bool is_tracked = false, is_floating = false;
    if (event->op->gradient == &gradient_zero && event->target == NULL) return false;
    for (int i = 0; i < event->n_in && !is_tracked; i++)
        is_tracked = event->in[i] != NULL && find(tape, event->in[i]) != NULL;
    for (int i = 0; i < event->n_out && !is_floating; i++)
        is_floating = dtype_is_floating(event->out[i]->info.dtype);
    return is_tracked && is_floating;
}

static const char *const advice = "tape_pause stops recording";

/* Fails if the target is a leaf or shares memory with one: writing it would change the leaf without
 * a record. */
static status_t check_target(const tape_t *tape, const op_event_t *event)
{
    for (int i = 0; i < tape->n_leaves && event->target != NULL; i++)
        if (tape->records[i]->key == event->target ||
            tensor_shares_writes(tape->records[i]->key, event->target))
            FAIL(tape->ctx, STATUS_INVALID_ARGUMENT,
                 "%s_: %s is watched by a tape or shares memory with a watched tensor, must not be "
                 "written while it records; %s",
                 event->op->name, tensor_text(event->target), advice);
    return STATUS_OK;
}

/* True if an input has elements that no recorded call has computed. Either the input has a record,
 * but was written through another tensor; or it has none, but shares memory with the target of a
 * recorded in-place call. */
static bool was_written(const tape_t *tape, const tensor_t *tensor)
{
    const record_t *record = find(tape, tensor);
    if (record != NULL) return !record->is_leaf && record->seen != storage_version(tensor->storage);
    for (int i = 0; i < tape->n_targets; i++)
        if (tensor_shares_writes(tape->targets[i], tensor)) return true;
    return false;
}

static status_t check_inputs(const tape_t *tape, const op_event_t *event)
{
    bool is_floating = event->target != NULL;
    for (int i = 0; i < event->n_out; i++)
        is_floating |= dtype_is_floating(event->out[i]->info.dtype);
    if (!is_floating) return STATUS_OK;
    for (int i = 0; i < event->n_in; i++)
        if (event->in[i] != NULL && was_written(tape, event->in[i]))
            FAIL(tape->ctx, STATUS_UNSUPPORTED,
                 "%s: input %d, %s, was written since the tape recorded it, through another tensor "
                 "or without an operator",
                 event->op->name, i, tensor_text(event->in[i]));
    return STATUS_OK;
}

static status_t check_dtype(const tape_t *tape, const op_event_t *event)
{
    if (event->target == NULL || event->out[0]->info.dtype == event->target->info.dtype)
        return STATUS_OK;
    FAIL(tape->ctx, STATUS_UNSUPPORTED,
         "%s_: the result, %s, is rounded to %s, no gradient can pass that", event->op->name,
         tensor_text(event->out[0]), tensor_text(event->target));
}

/* Stores the target of an in-place call, because views of it that have no record now have elements
 * that depend on watched tensors. record_call has reserved the array element. */
static void add_target(tape_t *tape, tensor_t *target)
{
    for (int i = 0; i < tape->n_targets; i++)
        if (tape->targets[i] == target) return;
    tape->targets[tape->n_targets++] = tensor_hold(target);
}

static status_t record_call(context_t *ctx, void *user, const op_event_t *event)
{
    static const gradient_t missing = {.reads_in = 0};
    tape_t *tape = user;
    entry_t *entry = NULL;
    tape->written = VALUE_NONE;
    if (tape->n_paused > 0) return STATUS_OK;
    /* A plan's tensors are parts of its memory, which later steps of the plan reuse. */
    if (event->is_planned)
        FAIL(ctx, STATUS_UNSUPPORTED,
             "%s: runs in a plan, which a tape cannot record; use a module with C methods, or %s",
             event->op->name, advice);
    TRY(check_target(tape, event));
    TRY(check_inputs(tape, event));
    if (!passes(tape, event)) return STATUS_OK;
    TRY(check_dtype(tape, event));
    if (event->target != NULL)
        TRY(context_grow(ctx, &tape->targets, &tape->targets_capacity, tape->n_targets + 1,
                         sizeof *tape->targets));
    opdef_t op = *event->op;
    op_event_t call = *event;
    if (op.gradient == NULL) { /* without a rule: fails later if a gradient reaches the call */
        op.gradient = &missing;
        call.op = &op;
    }
    const int n_records = tape->n_records;
    TRY(add_entry(tape, event, &entry));
    for (int i = 0; i < entry->n_in + entry->n_out; i++) entry->in[i] = VALUE_NONE;
    status_t status = STATUS_OK;
    for (int i = 0; i < entry->n_in && status == STATUS_OK; i++)
        status = record_input(tape, &call, i, &entry->in[i]);
    for (int i = 0; i < entry->n_out && status == STATUS_OK; i++)
        status = record_output(tape, &call, i, &entry->out[i]);
    if (status != STATUS_OK) { /* remove the call completely */
        context_put(ctx, entry->attrs);
        tape->n_entries--;
        cut_records(tape, n_records);
        return status;
    }
    if (event->target != NULL) tape->written = entry->out[0];
    return STATUS_OK;
}

/* Assigns the record of the in-place call's result to the target, which now contains that
 * result. */
static status_t note_written(context_t *ctx, void *user, tensor_t *target)
{
    tape_t *tape = user;
    (void)ctx;
    if (tape->written == VALUE_NONE) return STATUS_OK;
    record_t *record = tape->records[tape->written];
    hash_remove(&tape->by_tensor, hash_of(record->key), record);
    tape->written = VALUE_NONE;
    add_target(tape, target);
    return track(tape, record, target);
}

/* ---- the emitter: runs the operators that gradient rules call ---- */

static tape_t *tape_of(const emitter_t *emitter)
{
    return (tape_t *)(uintptr_t)emitter;
}

static status_t give_constant(emitter_t *emitter, tensor_t *tensor, value_t *out_value)
{
    tape_t *tape = tape_of(emitter);
    record_t *record = NULL;
    status_t status = add_record(tape, &tensor->info, &record);
    if (status == STATUS_OK) {
        keep_elements(tape, record, tensor);
        *out_value = record->number;
    }
    tensor_drop(tensor);
    return status;
}

/* Finds the tensor of a value. Fails if its elements were written after they were recorded. */
static status_t take_elements(tape_t *tape, const opdef_t *op, value_t value,
                              const tensor_t **out_tensor)
{
    const record_t *record = tape->records[value];
    const tensor_t *tensor = record->elements;
    if (tensor == NULL)
        FAIL(tape->ctx, STATUS_INVALID_ARGUMENT,
             "%s: a gradient rule passes it a value %s that the rule does not declare as read",
             op->name, info_brief(&record->info));
    REQUIRE(tape->ctx, storage_version(tensor->storage) == record->version,
            "%s: its gradient reads %s, which was written after the tape recorded it", op->name,
            tensor_text(tensor));
    *out_tensor = tensor;
    return STATUS_OK;
}

static status_t run_emitted(emitter_t *emitter, const opdef_t *op, const void *attrs, int n_in,
                            const value_t *in, int n_out, value_t *out_values)
{
    tape_t *tape = tape_of(emitter);
    const tensor_t *inputs[OP_MAX_INPUTS];
    tensor_t *outputs[OP_MAX_OUTPUTS] = {NULL};
    int n_made = n_out;
    REQUIRE(tape->ctx, n_in <= OP_MAX_INPUTS && n_out <= OP_MAX_OUTPUTS,
            "%s: %d inputs and %d outputs, at most %d and %d are possible", op->name, n_in, n_out,
            OP_MAX_INPUTS, OP_MAX_OUTPUTS);
    for (int i = 0; i < n_in; i++) {
        inputs[i] = NULL;
        if (in[i] != VALUE_NONE) TRY(take_elements(tape, op, in[i], &inputs[i]));
    }
    TRY(dispatch_run(tape->ctx, op, attrs, n_in, inputs, &n_made, outputs));
    status_t status = STATUS_OK;
    for (int i = 0; i < n_made; i++) {
        scope_take(tape->ctx, outputs[i]);
        if (status == STATUS_OK)
            status = give_constant(emitter, outputs[i], &out_values[i]);
        else
            tensor_drop(outputs[i]);
    }
    return status;
}

static const tensor_info_t *info_of(const emitter_t *emitter, value_t value)
{
    return &tape_of(emitter)->records[value]->info;
}

static const emitter_class_t emitter_class = {run_emitted, give_constant, info_of};

/* ---- gradients ---- */

/* Makes a value for a gradient, so that a rule can read it; VALUE_NONE if grad is NULL. */
static status_t lend_gradient(tape_t *tape, const tensor_t *grad, value_t *out_value)
{
    *out_value = VALUE_NONE;
    if (grad == NULL) return STATUS_OK;
    return give_constant(&tape->emitter, tensor_hold((tensor_t *)(uintptr_t)grad), out_value);
}

static status_t add_gradient(tape_t *tape, record_t *record, tensor_t *grad)
{
    tensor_t *sum = NULL;
    if (record->grad == NULL) {
        record->grad = tensor_hold(grad);
        return STATUS_OK;
    }
    const tensor_t *in[] = {record->grad, grad};
    TRY(dispatch_run(tape->ctx, &op_def_add, NULL, 2, in, NULL, &sum));
    scope_take(tape->ctx, sum);
    tensor_drop(record->grad);
    record->grad = sum;
    return STATUS_OK;
}

/* Computes the gradients of a recorded call's inputs from those of its results, with its gradient
 * rule. */
static status_t pass_entry(tape_t *tape, const entry_t *entry)
{
    value_t out_grad[OP_MAX_OUTPUTS], in_grad[OP_MAX_INPUTS];
    bool is_wanted[OP_MAX_INPUTS], has_grad = false;
    for (int i = 0; i < entry->n_out; i++) {
        TRY(lend_gradient(tape, tape->records[entry->out[i]]->grad, &out_grad[i]));
        has_grad = has_grad || out_grad[i] != VALUE_NONE;
    }
    if (!has_grad) return STATUS_OK;
    for (int i = 0; i < entry->n_in; i++)
        is_wanted[i] = entry->in[i] != VALUE_NONE && tape->records[entry->in[i]]->is_tracked;
    const gradient_call_t call = {.emitter = &tape->emitter,
                                  .op = entry->op,
                                  .attrs = entry->attrs,
                                  .n_in = entry->n_in,
                                  .in = entry->in,
                                  .n_out = entry->n_out,
                                  .out = entry->out,
                                  .out_grad = out_grad,
                                  .is_wanted = is_wanted,
                                  .in_grad = in_grad};
    tape->emitter.status = STATUS_OK;
    TRY(gradient_pass(&call));
    for (int i = 0; i < entry->n_in; i++)
        if (is_wanted[i] && in_grad[i] != VALUE_NONE)
            TRY(add_gradient(tape, tape->records[entry->in[i]],
                             tape->records[in_grad[i]]->elements));
    return STATUS_OK;
}

/* Releases what only this call and later ones needed: the call's results, their gradients, and the
 * elements of inputs without gradients. */
static void end_entry(tape_t *tape, const entry_t *entry)
{
    for (int i = 0; i < entry->n_out; i++) {
        record_t *record = tape->records[entry->out[i]];
        drop_elements(tape, record);
        tensor_drop(record->grad);
        record->grad = NULL;
    }
    for (int i = 0; i < entry->n_in; i++)
        if (entry->in[i] != VALUE_NONE && !tape->records[entry->in[i]]->is_tracked)
            drop_elements(tape, tape->records[entry->in[i]]);
}

static bool is_leaf(const tape_t *tape, value_t value)
{
    return value >= 0 && value < tape->n_leaves;
}

/* Finds the first call that read each leaf. Calls are processed from last to first, so after this
 * call the gradient of the leaf is complete. */
static void find_first_uses(tape_t *tape)
{
    for (int i = tape->n_entries - 1; i >= 0; i--)
        for (int k = 0; k < tape->entries[i].n_in; k++)
            if (is_leaf(tape, tape->entries[i].in[k]))
                tape->records[tape->entries[i].in[k]]->first_use = i;
}

static void tell_ready(const tape_t *tape, int number)
{
    const entry_t *entry = &tape->entries[number];
    for (int k = 0; tape->ready != NULL && k < entry->n_in; k++) {
        if (!is_leaf(tape, entry->in[k])) continue;
        const record_t *record = tape->records[entry->in[k]];
        if (record->first_use == number && record->grad != NULL)
            tape->ready(tape->ready_user, entry->in[k], record->key, record->grad);
    }
}

static status_t pass_all(tape_t *tape)
{
    if (tape->ready != NULL) find_first_uses(tape);
    for (int i = tape->n_entries - 1; i >= 0; i--) {
        const int n_records = tape->n_records;
        status_t status = pass_entry(tape, &tape->entries[i]);
        cut_records(tape, n_records);
        TRY(status);
        end_entry(tape, &tape->entries[i]);
        tell_ready(tape, i);
    }
    return STATUS_OK;
}

static status_t make_one(context_t *ctx, const tensor_t *output, tensor_t **out_grad)
{
    REQUIRE(ctx, info_numel(&output->info) == 1,
            "tape_backward: the output is %s, must have one element if no gradient is given",
            tensor_text(output));
    TRY(tensor_full(ctx, output->info.dtype, output->info.rank, output->info.sizes, 1.0, out_grad));
    scope_take(ctx, *out_grad);
    return STATUS_OK;
}

/* Exchanges the leaves' gradients with `kept`. The first call sets earlier gradients aside; a
 * second one restores them after a failure. */
static void swap_gradients(tape_t *tape, tensor_t **kept)
{
    for (int i = 0; i < tape->n_leaves; i++) {
        tensor_t *grad = tape->records[i]->grad;
        tape->records[i]->grad = kept[i];
        kept[i] = grad;
    }
}

static status_t add_kept(tape_t *tape, tensor_t **kept)
{
    for (int i = 0; i < tape->n_leaves; i++) {
        tensor_t *sum = NULL;
        const tensor_t *in[] = {kept[i], tape->records[i]->grad};
        if (in[0] == NULL || in[1] == NULL) continue;
        TRY(dispatch_run(tape->ctx, &op_def_add, NULL, 2, in, NULL, &sum));
        scope_take(tape->ctx, sum);
        tensor_drop(tape->records[i]->grad);
        tape->records[i]->grad = sum;
    }
    for (int i = 0; i < tape->n_leaves; i++)
        if (tape->records[i]->grad == NULL) tape->records[i]->grad = tensor_hold(kept[i]);
    return STATUS_OK;
}

/* Copies each leaf gradient that shares memory with the caller's tensor `grad`, because the caller
 * may write that tensor later. */
static status_t part_from(tape_t *tape, const tensor_t *grad)
{
    for (int i = 0; i < tape->n_leaves; i++) {
        record_t *record = tape->records[i];
        tensor_t *copy = NULL;
        if (record->grad == NULL || !tensor_shares_writes(record->grad, grad)) continue;
        TRY(tensor_duplicate(tape->ctx, record->grad, &copy));
        tensor_drop(record->grad);
        record->grad = copy;
    }
    return STATUS_OK;
}

static status_t backward(context_t *ctx, tape_t *tape, record_t *record, const tensor_t *output,
                         const tensor_t *grad)
{
    tensor_t *one = NULL, **kept = NULL;
    if (grad == NULL) {
        TRY(make_one(ctx, output, &one));
        grad = one;
    }
    status_t status = context_get_zeroed(ctx, (size_t)tape->n_leaves * sizeof(tensor_t *),
                                         "gradients", &kept);
    if (status == STATUS_OK) {
        swap_gradients(tape, kept);
        record->grad = tensor_hold((tensor_t *)(uintptr_t)grad);
        status = pass_all(tape);
        if (status == STATUS_OK && one == NULL) status = part_from(tape, grad);
        if (status == STATUS_OK) status = add_kept(tape, kept);
        if (status != STATUS_OK) swap_gradients(tape, kept);
        for (int i = 0; i < tape->n_leaves; i++) tensor_drop(kept[i]);
        context_put(ctx, kept);
    }
    tensor_drop(one);
    return status;
}

status_t tape_backward(context_t *ctx, tape_t *tape, const tensor_t *output, const tensor_t *grad)
{
    if (ctx == NULL) return STATUS_INVALID_ARGUMENT;
    if (tape == NULL) return context_null(ctx, "tape_backward", "tape");
    if (output == NULL) return context_null(ctx, "tape_backward", "output");
    REQUIRE(ctx, tape->ctx == ctx, "tape_backward: the tape belongs to another context");
    record_t *record = find(tape, output);
    REQUIRE(ctx, record != NULL,
            "tape_backward: %s was not computed from watched tensors since the last tape_backward "
            "(gradients of gradients are not supported)",
            tensor_text(output));
    REQUIRE(ctx, !was_written(tape, output),
            "tape_backward: the output, %s, was written since the tape recorded it",
            tensor_text(output));
    REQUIRE(
        ctx,
        grad == NULL ||
            (grad->info.dtype == output->info.dtype &&
             shape_equal(grad->info.rank, grad->info.sizes, output->info.rank, output->info.sizes)),
        "tape_backward: the gradient is %s, the output %s", tensor_text(grad), tensor_text(output));
    tape_pause(tape);
    status_t status = backward(ctx, tape, record, output, grad);
    tape_resume(tape);
    tape_forget(tape);
    return status;
}

/* ---- public functions ---- */

status_t tape_create(context_t *ctx, tape_t **out_tape)
{
    tape_t *tape = NULL;
    TRY(context_output(ctx, "tape_create", out_tape));
    TRY(context_get_zeroed(ctx, sizeof *tape, "a tape", &tape));
    *tape = (tape_t){.emitter = {&emitter_class, ctx, STATUS_OK},
                     .ctx = ctx,
                     .observer = {.user = tape, .op_end = record_call, .written = note_written},
                     .written = VALUE_NONE};
    status_t status = dispatch_add_observer(ctx, &tape->observer);
    GIVE(status, out_tape, tape, context_put(ctx, tape));
}

void tape_destroy(tape_t *tape)
{
    if (tape == NULL) return;
    context_t *ctx = tape->ctx;
    dispatch_remove_observer(ctx, &tape->observer);
    tape_forget(tape);
    tape->n_leaves = 0;
    cut_records(tape, 0);
    hash_clear(ctx, &tape->by_tensor);
    CONTEXT_PUT(ctx, tape->records, tape->entries, tape->targets, tape);
}

status_t tape_watch(context_t *ctx, tape_t *tape, tensor_t *tensor)
{
    record_t *record = NULL;
    if (ctx == NULL) return STATUS_INVALID_ARGUMENT;
    if (tape == NULL) return context_null(ctx, "tape_watch", "tape");
    if (tensor == NULL) return context_null(ctx, "tape_watch", "tensor");
    REQUIRE(ctx, dtype_is_floating(tensor->info.dtype), "tape_watch: %s, must be floating",
            tensor_text(tensor));
    record = find(tape, tensor);
    if (record != NULL && record->is_leaf) return STATUS_OK;
    REQUIRE(ctx, record == NULL,
            "tape_watch: %s was computed from a watched tensor, cannot be watched itself",
            tensor_text(tensor));
    /* Records of leaves must come first, before those of any call. */
    REQUIRE(ctx, tape->n_entries == 0,
            "tape_watch: %s, must be watched before the tape records calls", tensor_text(tensor));
    TRY(add_record(tape, &tensor->info, &record));
    TRY_OR(track(tape, record, tensor), cut_records(tape, tape->n_leaves));
    record->is_leaf = true;
    record->key = tensor_hold(tensor);
    tape->n_leaves++;
    return STATUS_OK;
}

static status_t watch_parameters(context_t *ctx, void *user, const char *path, module_t *module)
{
    (void)path;
    for (int i = 0; i < module_n_members(module); i++) {
        member_kind_t kind;
        const char *name = module_member(module, i, &kind);
        tensor_t *tensor = kind == MEMBER_PARAMETER ? module_parameter(module, name) : NULL;
        if (tensor != NULL && dtype_is_floating(tensor->info.dtype))
            TRY(tape_watch(ctx, user, tensor));
    }
    return STATUS_OK;
}

status_t tape_watch_module(context_t *ctx, tape_t *tape, module_t *module)
{
    if (ctx == NULL) return STATUS_INVALID_ARGUMENT;
    if (tape == NULL) return context_null(ctx, "tape_watch_module", "tape");
    if (module == NULL) return context_null(ctx, "tape_watch_module", "module");
    return module_walk(ctx, module, watch_parameters, tape);
}

void tape_on_ready(tape_t *tape, tape_ready_t ready, void *user)
{
    tape->ready = ready;
    tape->ready_user = user;
}

void tape_pause(tape_t *tape)
{
    if (tape != NULL) tape->n_paused++;
}

void tape_resume(tape_t *tape)
{
    if (tape != NULL && tape->n_paused > 0) tape->n_paused--;
}

tensor_t *tape_gradient(const tape_t *tape, const tensor_t *tensor)
{
    if (tape == NULL || tensor == NULL) return NULL;
    const record_t *record = find(tape, tensor);
    return record != NULL && record->is_leaf ? record->grad : NULL;
}

void tape_zero_gradients(tape_t *tape)
{
    if (tape == NULL) return;
    for (int i = 0; i < tape->n_leaves; i++) {
        tensor_drop(tape->records[i]->grad);
        tape->records[i]->grad = NULL;
    }
}

int tape_n_operators(const tape_t *tape)
{
    return tape != NULL ? tape->n_entries : 0;
}

size_t tape_bytes(const tape_t *tape)
{
    return tape != NULL ? tape->bytes : 0;
}
