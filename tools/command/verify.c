#include "tools/command/verify.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/base/try_impl.h"
#include "tools/support/bar.h"
#include "tools/support/path.h"
#include "tools/support/print.h"

/* Checksums of a value of a plan's graph, one for each row (index of dimension 0). They are
 * computed after the step that makes the value, and do not depend on its format. A step that runs
 * on slices of a batch makes a part of the rows each time. */
typedef struct record {
    dtype_t dtype;
    int64_t n_rows;
    uint64_t *rows;  /* NULL: unknown */
    tensor_t *whole; /* the value while its slices are made, if it has views */
} record_t;

/* A plan that the run has executed. */
typedef struct followed {
    plan_t *plan; /* retained */
    int n_values;
    record_t *records; /* [n_values] of the plan's graph; NULL: the plan writes in place */
} followed_t;

/* The part of the batch on which a step has run. */
typedef struct part {
    int slice, n_slices;
} part_t;

static const part_t all = {0, 1};

typedef struct verifier {
    int64_t n_elements;
    uint64_t seed;
    path_t path;
    int64_t n_events, total; /* total 0: not known */
    int n_followed;
    followed_t *followed;
    bool is_following; /* views are being recomputed; their events are ignored */
    verify_result_t result;
} verifier_t;

static const char *place(const verifier_t *verifier, const char *op, char *out_text,
                         size_t capacity)
{
    const char *path = verifier->path.text;
    snprintf(out_text, capacity, "%s%s%s", op, path[0] != '\0' ? " at " : "", path);
    return out_text;
}

/* ---- check against the specification ---- */

static status_t check_elements(context_t *ctx, verifier_t *verifier, const op_event_t *event)
{
    verify_result_t *result = &verifier->result;
    char where[sizeof result->where];
    if (event->op->spec == NULL || event->n_out == 0) return STATUS_OK;
    double error = 0.0;
    context_seed(ctx, verifier->seed + (uint64_t)verifier->n_events);
    TRY(dispatch_verify(ctx, event->op, event->attrs, event->n_in, event->in, event->n_out,
                        (const tensor_t *const *)event->out, verifier->n_elements, &error));
    result->n_operators += event->slice == 0;
    bar_show("verify", ++verifier->n_events, verifier->total, NULL);
    place(verifier, event->op->name, where, sizeof where);
    if (error > result->largest || result->where[0] == '\0') {
        result->largest = error;
        memcpy(result->where, where, sizeof where);
    }
    if (error <= 1.0) return STATUS_OK;
    result->n_failed++;
    bar_end();
    print_error("%s (%s, %s): error is %.3g times the rounding bound\n", where,
                prepared_kernel(event->prepared), prepared_implementation(event->prepared), error);
    return STATUS_OK;
}

/* ---- check that plan values are not overwritten before they are read ---- */

static int64_t count_rows(const tensor_t *tensor)
{
    return tensor_rank(tensor) == 0 ? 1 : tensor_sizes(tensor)[0];
}

/* Returns the elements in row-major order. The caller releases *out_rows. */
static status_t find_elements(context_t *ctx, const tensor_t *tensor, tensor_t **out_rows,
                              const char **out_elements, size_t *out_row_bytes)
{
    const int64_t n = count_rows(tensor);
    tensor_t *dense = NULL;
    const void *data = NULL;
    status_t status = to_dense(ctx, tensor, &dense);
    if (status == STATUS_OK) status = tensor_contiguous(ctx, dense, out_rows);
    if (status == STATUS_OK) status = tensor_data(ctx, *out_rows, &data);
    tensor_release(dense);
    *out_elements = data;
    *out_row_bytes = n == 0 ? 0
                            : (size_t)(tensor_numel(tensor) / n) * dtype_size(tensor_dtype(tensor));
    return status;
}

static status_t find_checksums(context_t *ctx, const tensor_t *tensor, uint64_t *out_checksums)
{
    tensor_t *rows = NULL;
    const char *elements = NULL;
    size_t bytes = 0;
    status_t status = find_elements(ctx, tensor, &rows, &elements, &bytes);
    for (int64_t r = 0; status == STATUS_OK && r < count_rows(tensor); r++)
        out_checksums[r] = file_checksum(elements + (size_t)r * bytes, bytes, 0);
    tensor_release(rows);
    return status;
}

static status_t keep_value(context_t *ctx, record_t *record, const tensor_t *tensor, part_t part)
{
    const int64_t n = count_rows(tensor), n_rows = n * part.n_slices;
    if (record->rows == NULL || record->n_rows != n_rows) {
        free(record->rows);
        record->rows = calloc((size_t)n_rows + 1, sizeof *record->rows);
        if (record->rows == NULL)
            return context_fail(ctx, STATUS_OUT_OF_MEMORY,
                                "verify: out of memory for %" PRId64 " checksums", n_rows);
    }
    record->n_rows = n_rows;
    record->dtype = tensor_dtype(tensor);
    return find_checksums(ctx, tensor, record->rows + part.slice * n);
}

/* True for nodes that keep every element: a plan runs them as a conversion or not at all. */
static bool is_transition(const graph_node_t *node)
{
    static const char *const names[] = {"to_mkldnn", "to_dense", "reorder"};
    for (size_t i = 0; node != NULL && i < sizeof names / sizeof *names; i++)
        if (node->kind == NODE_OP && strcmp(node->op->name, names[i]) == 0) return true;
    return false;
}

static bool is_view(const graph_node_t *node)
{
    return node->kind == NODE_OP && (node->op->traits & TRAIT_VIEW) != 0;
}

static status_t keep_views(context_t *ctx, verifier_t *verifier, const followed_t *followed,
                           value_t value, const tensor_t *tensor);

/* Computes a view of the tensor again and records its checksums. */
static status_t keep_view(context_t *ctx, verifier_t *verifier, const followed_t *followed,
                          const graph_node_t *node, const tensor_t *tensor)
{
    tensor_t *out[OP_MAX_OUTPUTS] = {NULL};
    int n = OP_MAX_OUTPUTS;
    verifier->is_following = true;
    status_t status = dispatch_run(ctx, node->op, node->attrs, 1, &tensor, &n, out);
    verifier->is_following = false;
    for (int i = 0; i < node->n_outputs && status == STATUS_OK; i++) {
        status = keep_value(ctx, &followed->records[node->outputs[i]], out[i], all);
        if (status == STATUS_OK)
            status = keep_views(ctx, verifier, followed, node->outputs[i], out[i]);
    }
    for (int i = 0; i < OP_MAX_OUTPUTS; i++) tensor_release(out[i]);
    return status;
}

/* Records the checksums of all views of a value and of its conversions, because a plan has no steps
 * for views. */
static status_t keep_views(context_t *ctx, verifier_t *verifier, const followed_t *followed,
                           value_t value, const tensor_t *tensor)
{
    const graph_block_t *body = graph_body(plan_graph(followed->plan));
    for (int i = 0; i < body->n_nodes; i++) {
        const graph_node_t *node = body->nodes[i];
        if (node->n_inputs != 1 || node->inputs[0] != value) continue;
        if (is_transition(node))
            TRY(keep_views(ctx, verifier, followed, node->outputs[0], tensor));
        else if (is_view(node))
            TRY(keep_view(ctx, verifier, followed, node, tensor));
    }
    return STATUS_OK;
}

static bool has_views(const followed_t *followed, value_t value)
{
    const graph_block_t *body = graph_body(plan_graph(followed->plan));
    bool has = false;
    for (int i = 0; i < body->n_nodes && !has; i++) {
        const graph_node_t *node = body->nodes[i];
        has = node->n_inputs == 1 && node->inputs[0] == value &&
              (is_view(node) || (is_transition(node) && has_views(followed, node->outputs[0])));
    }
    return has;
}

static status_t add_slice(context_t *ctx, record_t *record, const tensor_t *slice, part_t part)
{
    tensor_t *rows = NULL;
    const char *elements = NULL;
    const void *whole = NULL;
    size_t row_bytes = 0;
    if (record->whole == NULL) {
        int64_t sizes[TENSOR_MAX_RANK];
        memcpy(sizes, tensor_sizes(slice), (size_t)tensor_rank(slice) * sizeof *sizes);
        sizes[0] *= part.n_slices;
        TRY(tensor_zeros(ctx, tensor_dtype(slice), tensor_rank(slice), sizes, &record->whole));
    }
    TRY(tensor_data(ctx, record->whole, &whole));
    status_t status = find_elements(ctx, slice, &rows, &elements, &row_bytes);
    const size_t bytes = (size_t)count_rows(slice) * row_bytes;
    if (status == STATUS_OK)
        memcpy((char *)(uintptr_t)whole + (size_t)part.slice * bytes, elements, bytes);
    tensor_release(rows);
    return status;
}

/* Records views of a value that is made in slices. A view needs the entire batch, so the slices are
 * collected first. */
static status_t keep_views_of_slice(context_t *ctx, verifier_t *verifier,
                                    const followed_t *followed, value_t value,
                                    const tensor_t *slice, part_t part)
{
    record_t *record = &followed->records[value];
    if (!has_views(followed, value)) return STATUS_OK;
    TRY(add_slice(ctx, record, slice, part));
    TRY(keep_views(ctx, verifier, followed, value, record->whole));
    if (part.slice + 1 < part.n_slices) return STATUS_OK;
    tensor_release(record->whole);
    record->whole = NULL;
    return STATUS_OK;
}

/* Finds the record of the value, or of the value that was converted to it. NULL: unknown. */
static const record_t *find_record(const followed_t *followed, value_t value)
{
    while (value >= 0 && followed->records[value].rows == NULL) {
        const graph_node_t *node = graph_producer(plan_graph(followed->plan), value);
        value = is_transition(node) ? node->inputs[0] : VALUE_NONE;
    }
    return value >= 0 ? &followed->records[value] : NULL;
}

/* Reports a value that has changed before `reader` reads it. A step that runs on slices may read
 * all of an operand without a batch dimension. */
static status_t check_value(context_t *ctx, verifier_t *verifier, const followed_t *followed,
                            value_t value, const tensor_t *tensor, part_t part, const char *reader)
{
    const record_t *record = find_record(followed, value);
    if (record == NULL || tensor == NULL || record->dtype != tensor_dtype(tensor)) return STATUS_OK;
    const char *name = graph_value_name(plan_graph(followed->plan), value);
    const int64_t n = count_rows(tensor);
    const bool is_slice = n * part.n_slices == record->n_rows;
    REQUIRE(ctx, is_slice || n == record->n_rows,
            "verify: %s reads %" PRId64 " rows of %%%s, which has %" PRId64, reader, n, name,
            record->n_rows);
    uint64_t *now = calloc((size_t)n + 1, sizeof *now);
    if (now == NULL)
        return context_fail(ctx, STATUS_OUT_OF_MEMORY,
                            "verify: out of memory for %" PRId64 " checksums", n);
    status_t status = find_checksums(ctx, tensor, now);
    const bool is_same = status == STATUS_OK &&
                         memcmp(now, record->rows + (is_slice ? part.slice * n : 0),
                                (size_t)n * sizeof *now) == 0;
    free(now);
    TRY(status);
    verifier->result.n_values++;
    if (is_same) return STATUS_OK;
    verifier->result.n_overwritten++;
    bar_end();
    print_error("%s reads %%%s, which is not what was computed: it was overwritten\n", reader,
                name);
    return STATUS_OK;
}

/* ---- plans ---- */

/* True if a node writes in place. Such a plan is not checked, since its values change. */
static bool writes_in_place(const graph_t *graph)
{
    const graph_block_t *body = graph_body(graph);
    bool writes = false;
    for (int i = 0; i < body->n_nodes; i++)
        writes |= body->nodes[i]->is_in_place || body->nodes[i]->kind == NODE_SETATTR;
    return writes;
}

/* Finds or adds the records of a plan. A run may execute several plans, such as the branches of an
 * if, and each of them several times. */
static status_t find_followed(context_t *ctx, verifier_t *verifier, plan_t *plan,
                              const followed_t **out_followed)
{
    for (int i = 0; i < verifier->n_followed; i++)
        if (verifier->followed[i].plan == plan) {
            *out_followed = &verifier->followed[i];
            return STATUS_OK;
        }
    followed_t *grown = realloc(verifier->followed,
                                (size_t)(verifier->n_followed + 1) * sizeof *grown);
    if (grown == NULL)
        return context_fail(ctx, STATUS_OUT_OF_MEMORY, "verify: out of memory for a plan");
    verifier->followed = grown;
    followed_t *followed = &grown[verifier->n_followed];
    *followed = (followed_t){.n_values = graph_n_values(plan_graph(plan))};
    if (!writes_in_place(plan_graph(plan))) {
        followed->records = calloc((size_t)followed->n_values + 1, sizeof *followed->records);
        if (followed->records == NULL)
            return context_fail(ctx, STATUS_OUT_OF_MEMORY, "verify: out of memory for %d values",
                                followed->n_values);
    }
    followed->plan = plan_retain(plan);
    verifier->n_followed++;
    *out_followed = followed;
    return STATUS_OK;
}

static void forget_plans(verifier_t *verifier)
{
    for (int f = 0; f < verifier->n_followed; f++) {
        followed_t *followed = &verifier->followed[f];
        for (int i = 0; followed->records != NULL && i < followed->n_values; i++) {
            free(followed->records[i].rows);
            tensor_release(followed->records[i].whole);
        }
        free(followed->records);
        plan_release(followed->plan);
    }
    free(verifier->followed);
}

static status_t check_step(context_t *ctx, verifier_t *verifier, const op_event_t *event)
{
    char reader[sizeof verifier->result.where];
    const plan_step_t *step = plan_step(event->plan, event->step);
    const part_t part = {event->slice, event->n_slices};
    const followed_t *followed = NULL;
    REQUIRE(ctx, step != NULL && step->prepared == event->prepared && step->node != NULL,
            "verify: the plan has no step for %s", event->op->name);
    TRY(find_followed(ctx, verifier, event->plan, &followed));
    if (followed->records == NULL) return STATUS_OK;
    place(verifier, event->op->name, reader, sizeof reader);
    for (int i = 0; i < event->n_in && i < step->n_in; i++)
        TRY(check_value(ctx, verifier, followed, step->inputs[i], event->in[i], part, reader));
    for (int i = 0; i < event->n_out && i < step->node->n_outputs; i++) {
        const value_t value = step->node->outputs[i];
        TRY(keep_value(ctx, &followed->records[value], event->out[i], part));
        if (part.n_slices > 1)
            TRY(keep_views_of_slice(ctx, verifier, followed, value, event->out[i], part));
        else
            TRY(keep_views(ctx, verifier, followed, value, event->out[i]));
    }
    return STATUS_OK;
}

/* Checks the results of a method that is a single plan. */
static status_t check_results(context_t *ctx, verifier_t *verifier, plan_t *plan, int n,
                              tensor_t *const *results)
{
    const followed_t *followed = NULL;
    if (plan == NULL) return STATUS_OK;
    TRY(find_followed(ctx, verifier, plan, &followed));
    if (followed->records == NULL) return STATUS_OK;
    const graph_block_t *body = graph_body(plan_graph(plan));
    for (int i = 0; i < n && i < body->n_results; i++)
        TRY(check_value(ctx, verifier, followed, body->results[i], results[i], all, "the caller"));
    return STATUS_OK;
}

/* ---- running ---- */

static status_t check(context_t *ctx, void *user, const op_event_t *event)
{
    verifier_t *verifier = user;
    if (verifier->is_following) return STATUS_OK;
    if (event->plan != NULL) TRY(check_step(ctx, verifier, event));
    return check_elements(ctx, verifier, event);
}

static void enter(context_t *ctx, void *user, const char *path)
{
    (void)ctx;
    path_enter(&((verifier_t *)user)->path, path);
}

static void leave(context_t *ctx, void *user, const char *path)
{
    (void)ctx;
    path_leave(&((verifier_t *)user)->path, path);
}

static status_t run_observed(runner_t *runner, verifier_t *verifier)
{
    observer_t observer = {
        .user = verifier, .op_end = check, .module_enter = enter, .module_leave = leave};
    tensor_t *out[METHOD_MAX_OUTPUTS] = {NULL};
    int n_out = 0;
    TRY(dispatch_add_observer(runner->ctx, &observer));
    status_t status = mode_run(runner, &n_out, out);
    dispatch_remove_observer(runner->ctx, &observer);
    bar_end();
    plan_t *plan = plan_of(runner->module, "forward");
    if (status == STATUS_OK) status = check_results(runner->ctx, verifier, plan, n_out, out);
    mode_release_outputs(n_out, out);
    return status;
}

static int64_t count_events(const plan_t *plan)
{
    int64_t n = 0;
    for (int s = 0; s < plan_n_steps(plan); s++) {
        const plan_step_t *step = plan_step(plan, s);
        if (step->prepared != NULL) n += step->n_slices;
    }
    return n;
}

status_t verify_run(runner_t *runner, int64_t n_elements, uint64_t seed,
                    verify_result_t *out_result)
{
    verifier_t verifier = {.n_elements = n_elements,
                           .seed = seed,
                           .total = count_events(plan_of(runner->module, "forward"))};
    status_t status = run_observed(runner, &verifier);
    forget_plans(&verifier);
    if (status == STATUS_OK) *out_result = verifier.result;
    return status;
}
