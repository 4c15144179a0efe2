#include "tools/command/diff.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/base/try_impl.h"
#include "tools/support/path.h"

/* The results of a node in run b. */
typedef struct record {
    char *name, *path, *how; /* in one block of memory that begins at `name` */
    int n_out;
    tensor_t *out[OP_MAX_OUTPUTS];
} record_t;

typedef struct differ {
    path_t path;
    double tolerance;
    record_t *records;
    int n, capacity;
    int next; /* index of the record at which the search for the next node of run a begins */
    diff_result_t result;
} differ_t;

/* Writes "f32[1,64,56,56]@aBcd16b by onednn, jit:avx512_core" for the node's first result. */
static void say_how(const op_event_t *event, char *out_text, size_t capacity)
{
    char info[INFO_TEXT_MAX] = "nothing";
    const prepared_t *prepared = event->prepared;
    if (event->n_out > 0) info_text(tensor_info(event->out[0]), info);
    if (prepared == NULL)
        snprintf(out_text, capacity, "%s", info);
    else
        snprintf(out_text, capacity, "%s by %s, %s", info, prepared_kernel(prepared),
                 prepared_implementation(prepared));
}

/* ---- run b: results are kept ---- */

static status_t out_of_memory(context_t *ctx)
{
    FAIL(ctx, STATUS_OUT_OF_MEMORY, "diff: out of memory for the results of a run");
}

static status_t add_record(context_t *ctx, differ_t *differ, record_t **out_record)
{
    if (differ->n == differ->capacity) {
        int capacity = differ->capacity > 0 ? differ->capacity * 2 : 64;
        record_t *grown = realloc(differ->records, (size_t)capacity * sizeof *grown);
        if (grown == NULL) return out_of_memory(ctx);
        differ->records = grown;
        differ->capacity = capacity;
    }
    *out_record = &differ->records[differ->n++];
    **out_record = (record_t){.name = NULL};
    return STATUS_OK;
}

static status_t name_record(context_t *ctx, const char *name, const char *path, const char *how,
                            record_t *record)
{
    size_t of_name = strlen(name) + 1, of_path = strlen(path) + 1, of_how = strlen(how) + 1;
    char *block = malloc(of_name + of_path + of_how);
    if (block == NULL) return out_of_memory(ctx);
    record->name = block;
    record->path = block + of_name;
    record->how = block + of_name + of_path;
    memcpy(record->name, name, of_name);
    memcpy(record->path, path, of_path);
    memcpy(record->how, how, of_how);
    return STATUS_OK;
}

/* Keeps clones of the results, since the originals may be overwritten later, in a plan's arena for
 * example. */
static status_t keep(context_t *ctx, void *user, const op_event_t *event)
{
    differ_t *differ = user;
    record_t *record = NULL;
    char how[sizeof differ->result.first.b];
    TRY(add_record(ctx, differ, &record));
    say_how(event, how, sizeof how);
    TRY(name_record(ctx, event->op->name, differ->path.text, how, record));
    for (; record->n_out < event->n_out; record->n_out++) {
        tensor_t **copy = &record->out[record->n_out];
        TRY(tensor_clone(ctx, event->out[record->n_out], copy));
        scope_keep(ctx, *copy);
    }
    return STATUS_OK;
}

static void clear_records(differ_t *differ)
{
    for (int i = 0; i < differ->n; i++) {
        record_t *record = &differ->records[i];
        for (int j = 0; j < record->n_out; j++) tensor_release(record->out[j]);
        free(record->name);
    }
    free(differ->records);
}

/* ---- run a: results are compared ---- */

/* Finds the record of the same node in run b, or NULL. Records between the last one found and this
 * one are of nodes that ran only in run b. */
static const record_t *find_record(differ_t *differ, const char *name)
{
    for (int i = differ->next; i < differ->n; i++) {
        const record_t *record = &differ->records[i];
        if (strcmp(record->name, name) != 0 || strcmp(record->path, differ->path.text) != 0)
            continue;
        differ->result.n_alone += i - differ->next;
        differ->next = i + 1;
        return record;
    }
    return NULL;
}

static bool is_comparable(const tensor_t *a, const tensor_t *b)
{
    const tensor_info_t *of_a = tensor_info(a), *of_b = tensor_info(b);
    return of_a->dtype == of_b->dtype &&
           shape_equal(of_a->rank, of_a->sizes, of_b->rank, of_b->sizes);
}

static status_t measure(context_t *ctx, const op_event_t *event, const record_t *record,
                        double *out_difference)
{
    *out_difference = event->n_out == record->n_out ? 0.0 : (double)INFINITY;
    for (int i = 0; i < event->n_out && i < record->n_out; i++) {
        double difference = (double)INFINITY;
        if (is_comparable(event->out[i], record->out[i]))
            TRY(tensor_max_rel_diff(ctx, event->out[i], record->out[i], &difference));
        if (!(difference <= *out_difference)) *out_difference = difference;
    }
    return STATUS_OK;
}

static status_t compare(context_t *ctx, void *user, const op_event_t *event)
{
    differ_t *differ = user;
    diff_result_t *result = &differ->result;
    diff_node_t node;
    const record_t *record = find_record(differ, event->op->name);
    if (record == NULL) {
        result->n_alone++;
        return STATUS_OK;
    }
    TRY(measure(ctx, event, record, &node.difference));
    snprintf(node.name, sizeof node.name, "%s", record->name);
    snprintf(node.path, sizeof node.path, "%s", record->path);
    say_how(event, node.a, sizeof node.a);
    snprintf(node.b, sizeof node.b, "%s", record->how);
    if (!result->has_first && !(node.difference <= differ->tolerance)) {
        result->has_first = true;
        result->first = node;
    }
    if (result->n_nodes == 0 || node.difference > result->largest.difference)
        result->largest = node;
    result->n_nodes++;
    return STATUS_OK;
}

/* ---- the two runs ---- */

static void enter(context_t *ctx, void *user, const char *path)
{
    (void)ctx;
    path_enter(&((differ_t *)user)->path, path);
}

static void leave(context_t *ctx, void *user, const char *path)
{
    (void)ctx;
    path_leave(&((differ_t *)user)->path, path);
}

static status_t run(runner_t *runner, differ_t *differ,
                    status_t (*op_end)(context_t *, void *, const op_event_t *))
{
    observer_t observer = {
        .user = differ, .op_end = op_end, .module_enter = enter, .module_leave = leave};
    tensor_t *out[METHOD_MAX_OUTPUTS] = {NULL};
    int n_out = 0;
    differ->path = (path_t){.n_cut = 0};
    TRY(dispatch_add_observer(runner->ctx, &observer));
    status_t status = mode_run(runner, &n_out, out);
    dispatch_remove_observer(runner->ctx, &observer);
    mode_release_outputs(n_out, out);
    return status;
}

status_t diff_runs(runner_t *a, runner_t *b, double tolerance, diff_result_t *out_result)
{
    differ_t differ = {.tolerance = tolerance};
    status_t status = run(b, &differ, keep);
    if (status != STATUS_OK) { /* the context of a has the error */
        const char *message = context_error(b->ctx);
        status = context_fail(a->ctx, status, "%s", message);
    } else {
        status = run(a, &differ, compare);
    }
    differ.result.n_alone += differ.n - differ.next;
    clear_records(&differ);
    if (status == STATUS_OK) *out_result = differ.result;
    return status;
}
