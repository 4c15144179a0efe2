/* Records runs: the first one with all operators and reorders, later ones only with the times of
 * these operators and reorders. */
#include "dispatch/profile/profile.h"

#include <string.h>

#include "dispatch/prepared_impl.h"
#include "dispatch/profile/profile_impl.h"
#include "dispatch/select_impl.h"

/* ---- path of the running module ---- */

static void enter(context_t *ctx, void *user, const char *name)
{
    (void)ctx;
    profile_t *profile = user;
    const size_t length = strlen(profile->path), more = strlen(name), dot = length > 0;
    if (profile->n_cut > 0 || length + dot + more >= sizeof profile->path) {
        profile->n_cut++;
        return;
    }
    if (dot > 0) profile->path[length] = '.';
    memcpy(profile->path + length + dot, name, more + 1);
}

static void leave(context_t *ctx, void *user, const char *name)
{
    (void)ctx;
    profile_t *profile = user;
    const size_t length = strlen(profile->path), less = strlen(name);
    if (profile->n_cut > 0) {
        profile->n_cut--;
        return;
    }
    profile->path[length > less ? length - less - 1 : 0] = '\0';
}

/* ---- one record ---- */

static void clear_record(context_t *ctx, const record_t *record)
{
    CONTEXT_PUT(ctx, record->path, record->kernel, record->implementation, record->in, record->out,
                record->in_bytes, record->out_bytes);
}

static status_t make_room(context_t *ctx, int n_in, int n_out, record_t *record)
{
    const char *what = "a node of a profile";
    record->n_in = n_in;
    record->n_out = n_out;
    TRY(context_get_zeroed(ctx, (size_t)n_in * sizeof *record->in, what, &record->in));
    TRY(context_get_zeroed(ctx, (size_t)n_out * sizeof *record->out, what, &record->out));
    TRY(context_get_zeroed(ctx, (size_t)n_in * sizeof *record->in_bytes, what, &record->in_bytes));
    return context_get_zeroed(ctx, (size_t)n_out * sizeof *record->out_bytes, what,
                              &record->out_bytes);
}

static extent_t extent_of(const void *bytes, const tensor_info_t *info)
{
    return (extent_t){bytes, (const char *)bytes + info_bytes(info)};
}

static status_t describe_strings(context_t *ctx, const char *path, const prepared_t *prepared,
                                 record_t *record)
{
    const char *kernel = prepared != NULL ? prepared_kernel(prepared) : NULL;
    const char *implementation = prepared != NULL ? prepared_implementation(prepared) : NULL;
    TRY(context_string(ctx, path, &record->path));
    TRY(context_string(ctx, kernel != NULL ? kernel : "", &record->kernel));
    return context_string(ctx, implementation != NULL ? implementation : "",
                          &record->implementation);
}

/* True if the event's input is a copy, which a plan makes of an input that the step overwrites if
 * another observer reads inputs. A copy owns its bytes; other inputs are in the plan's memory. The
 * original of a copy was at the address of the result. */
static bool is_copied(const op_event_t *event, int index)
{
    const prepared_t *prepared = event->prepared;
    return event->is_planned && event->n_out > 0 &&
           ((prepared->overwrites >> index & 1) != 0 || (prepared->may_grow && index == 0)) &&
           storage_is_alone(event->in[index]->storage);
}

static status_t describe_call(context_t *ctx, const op_event_t *event, record_t *record)
{
    static const tensor_info_t absent = {.dtype = DTYPE_NONE};
    const prepared_t *prepared = event->prepared;
    const tensor_info_t *given[OP_MAX_INPUTS];
    const bool is_view = prepared != NULL && prepared->is_view;
    record->op = event->op;
    record->slice = event->slice;
    record->prepared = prepared;
    TRY(make_room(ctx, event->n_in, event->n_out, record));
    for (int i = 0; i < event->n_in; i++) {
        const tensor_t *tensor = event->in[i];
        given[i] = tensor != NULL ? &tensor->info : &absent;
        record->in[i] = prepared != NULL && tensor != NULL ? prepared->in[i] : *given[i];
        if (tensor != NULL && select_operand(event->op, i)->role == ROLE_ACTIVATION)
            record->in_bytes[i] = tensor_bytes(is_copied(event, i) ? event->out[0] : tensor);
        if (tensor != NULL && !is_view) record->bytes += info_bytes(&record->in[i]);
    }
    for (int i = 0; i < event->n_out; i++) {
        record->out[i] = event->out[i]->info;
        record->out_bytes[i] = extent_of(tensor_bytes(event->out[i]), &record->out[i]);
        if (!is_view) record->bytes += info_bytes(&record->out[i]);
    }
    record->flops = dispatch_flops(event->op, event->attrs, event->n_in, given, event->n_out,
                                   record->out);
    return STATUS_OK;
}

static status_t describe_conversion(context_t *ctx, const conversion_t *conversion,
                                    record_t *record)
{
    TRY(make_room(ctx, 1, 1, record));
    record->in[0] = *conversion->from;
    record->out[0] = *conversion->to;
    record->in_bytes[0] = conversion->from_bytes;
    record->out_bytes[0] = extent_of(conversion->to_bytes, conversion->to);
    record->bytes = conversion->bytes;
    record->cause = conversion->cause;
    record->by = conversion->by;
    record->is_copy = conversion->is_copy;
    return STATUS_OK;
}

static status_t add_record(profile_t *profile, const op_event_t *event,
                           const conversion_t *conversion)
{
    context_t *ctx = profile->ctx;
    TRY(context_grow(ctx, &profile->records, &profile->capacity, profile->n_records + 1,
                     sizeof *profile->records));
    record_t record = {.op = NULL};
    status_t status = describe_strings(ctx, profile->path, event != NULL ? event->prepared : NULL,
                                       &record);
    if (status == STATUS_OK)
        status = event != NULL ? describe_call(ctx, event, &record)
                               : describe_conversion(ctx, conversion, &record);
    TRY_OR(status, clear_record(ctx, &record));
    profile->records[profile->n_records++] = record;
    return STATUS_OK;
}

static bool is_same(const record_t *record, const char *path, const op_event_t *event,
                    const conversion_t *conversion)
{
    if (strcmp(record->path, path) != 0) return false;
    if (event != NULL) return record->op == event->op;
    return record->op == NULL && record->cause == conversion->cause &&
           record->is_copy == conversion->is_copy;
}

/* Records a call or a conversion (the other is NULL) that began at `begin` and took ns. */
static status_t note(profile_t *profile, const op_event_t *event, const conversion_t *conversion,
                     uint64_t begin, uint64_t ns)
{
    if (!profile->is_running || profile->is_other) return STATUS_OK;
    TRY(profile->status);
    if (profile->n_runs == 0) TRY(add_record(profile, event, conversion));
    profile->is_other = profile->at == profile->n_records ||
                        !is_same(&profile->records[profile->at], profile->path, event, conversion);
    if (profile->is_other) return STATUS_OK;
    TRY(context_grow(profile->ctx, &profile->samples, &profile->samples_capacity,
                     profile->n_samples + 1, sizeof *profile->samples));
    begin = begin > profile->run_begin ? begin - profile->run_begin : 0;
    profile->samples[profile->n_samples++] = (sample_t){begin, ns};
    profile->at++;
    return STATUS_OK;
}

static status_t note_call(context_t *ctx, void *user, const op_event_t *event)
{
    (void)ctx;
    return note(user, event, NULL, event->begin, event->ns);
}

static void note_conversion(context_t *ctx, void *user, const conversion_t *conversion)
{
    (void)ctx;
    profile_t *profile = user;
    const status_t status = note(profile, NULL, conversion, conversion->begin, conversion->ns);
    if (profile->status == STATUS_OK) profile->status = status;
}

/* ---- runs ---- */

status_t profile_create(context_t *ctx, profile_t **out_profile)
{
    profile_t *profile = NULL;
    TRY(context_output(ctx, "profile_create", out_profile));
    TRY(context_get_zeroed(ctx, sizeof *profile, "a profile", &profile));
    profile->ctx = ctx;
    profile->observer = (observer_t){.user = profile,
                                     .op_end = note_call,
                                     .converted = note_conversion,
                                     .module_enter = enter,
                                     .module_leave = leave,
                                     .ignores_inputs = true};
    *out_profile = profile;
    return STATUS_OK;
}

void profile_destroy(profile_t *profile)
{
    if (profile == NULL) return;
    context_t *ctx = profile->ctx;
    dispatch_remove_observer(ctx, &profile->observer);
    for (int i = 0; i < profile->n_records; i++) clear_record(ctx, &profile->records[i]);
    CONTEXT_PUT(ctx, profile->records, profile->samples, profile->run_ns, profile->nodes,
                profile->reorders, profile->producers, profile);
}

status_t profile_begin_run(profile_t *profile)
{
    if (profile == NULL) return STATUS_INVALID_ARGUMENT;
    REQUIRE(profile->ctx, !profile->is_running && !profile->is_finished,
            "profile_begin_run: the profile is %s, no other run can begin",
            profile->is_running ? "in a run" : "finished");
    TRY(profile->status);
    TRY(context_grow(profile->ctx, &profile->run_ns, &profile->run_capacity, profile->n_runs + 1,
                     sizeof *profile->run_ns));
    profile->at = 0;
    profile->is_other = false;
    profile->path[0] = '\0';
    TRY(dispatch_add_observer(profile->ctx, &profile->observer));
    profile->is_running = true;
    profile->run_begin = context_now();
    return STATUS_OK;
}

status_t profile_end_run(profile_t *profile)
{
    if (profile == NULL) return STATUS_INVALID_ARGUMENT;
    const uint64_t ns = context_now() - profile->run_begin;
    REQUIRE(profile->ctx, profile->is_running,
            "profile_end_run: no run has begun, call profile_begin_run first");
    profile->is_running = false;
    dispatch_remove_observer(profile->ctx, &profile->observer);
    TRY(profile->status);
    if (profile->is_other || profile->at < profile->n_records) {
        profile->n_left_out++;
        profile->n_samples = profile->n_runs * profile->n_records;
        return STATUS_OK;
    }
    profile->run_ns[profile->n_runs++] = ns;
    return STATUS_OK;
}

status_t profile_finish(profile_t *profile)
{
    if (profile == NULL) return STATUS_INVALID_ARGUMENT;
    REQUIRE(profile->ctx, profile->n_runs > 0 && !profile->is_running && !profile->is_finished,
            "profile_finish: the profile has %d runs%s, needs 1 or more complete runs and finishes "
            "once",
            profile->n_runs, profile->is_running ? " and an incomplete one" : "");
    TRY(profile_build(profile));
    profile->is_finished = true;
    return STATUS_OK;
}

/* ---- queries ---- */

int profile_n_nodes(const profile_t *profile)
{
    return profile != NULL ? profile->n_nodes : 0;
}

const profile_node_t *profile_node(const profile_t *profile, int index)
{
    if (profile == NULL || index < 0 || index >= profile->n_nodes) return NULL;
    return &profile->nodes[index];
}

int profile_n_runs(const profile_t *profile)
{
    return profile != NULL ? profile->n_runs : 0;
}

int profile_n_left_out(const profile_t *profile)
{
    return profile != NULL ? profile->n_left_out : 0;
}

double profile_run_ns(const profile_t *profile)
{
    return profile != NULL ? profile->median_ns : 0;
}

double profile_shown_ns(const profile_t *profile)
{
    return profile != NULL ? profile->shown_ns : 0;
}
