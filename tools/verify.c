#include "tools/verify.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/try_impl.h"
#include "tools/bar.h"
#include "tools/path.h"

/* What a value of the plan's graph was when its step had made it, whatever format it lay in. */
typedef struct record {
    bool is_known;
    dtype_t dtype;
    uint64_t checksum;
} record_t;

typedef struct verifier {
    int64_t n_elements;
    uint64_t seed;
    path_t path;
    const plan_t *plan; /* NULL: operators run one by one */
    int next_step;
    record_t *records; /* by value of the plan's graph */
    bool is_following; /* views are made again, and their events are none of the plan's */
    verify_result_t result;
} verifier_t;

static const char *place(const verifier_t *verifier, const char *op, char *out_text,
                         size_t capacity)
{
    const char *path = verifier->path.text;
    snprintf(out_text, capacity, "%s%s%s", op, path[0] != '\0' ? " at " : "", path);
    return out_text;
}

/* ---- by the specification ---- */

static status_t check_elements(context_t *ctx, verifier_t *verifier, const op_event_t *event)
{
    verify_result_t *result = &verifier->result;
    char where[sizeof result->where];
    if (event->op->spec == NULL || event->n_out == 0) return STATUS_OK;
    double error = 0.0;
    context_seed(ctx, verifier->seed + (uint64_t)result->n_operators);
    TRY(dispatch_verify(ctx, event->op, event->attrs, event->n_in, event->in, event->n_out,
                        (const tensor_t *const *)event->out, verifier->n_elements, &error));
    result->n_operators++;
    bar_show("verify", result->n_operators,
             verifier->plan != NULL ? plan_n_steps(verifier->plan) : 0, NULL);
    place(verifier, event->op->name, where, sizeof where);
    if (error > result->largest || result->where[0] == '\0') {
        result->largest = error;
        memcpy(result->where, where, sizeof where);
    }
    if (error <= 1.0) return STATUS_OK;
    result->n_failed++;
    bar_end();
    fprintf(stderr, "%s (%s, %s): off by %.3g times what rounding explains\n", where,
            prepared_kernel(event->prepared), prepared_implementation(event->prepared), error);
    return STATUS_OK;
}

/* ---- values of a plan, between the step that makes them and those that read them ---- */

/* Of the elements in row-major order. */
static status_t find_checksum(context_t *ctx, const tensor_t *tensor, uint64_t *out_checksum)
{
    tensor_t *dense = NULL, *rows = NULL;
    const void *data = NULL;
    status_t status = to_dense(ctx, tensor, &dense);
    if (status == STATUS_OK) status = tensor_contiguous(ctx, dense, &rows);
    if (status == STATUS_OK) status = tensor_data(ctx, rows, &data);
    if (status == STATUS_OK)
        *out_checksum = file_checksum(
            data, (size_t)tensor_numel(rows) * dtype_size(tensor_dtype(rows)), 0);
    tensor_release(rows);
    tensor_release(dense);
    return status;
}

static status_t keep_value(context_t *ctx, verifier_t *verifier, value_t value,
                           const tensor_t *tensor)
{
    record_t *record = &verifier->records[value];
    TRY(find_checksum(ctx, tensor, &record->checksum));
    record->dtype = tensor_dtype(tensor);
    record->is_known = true;
    return STATUS_OK;
}

/* Transitions keep every element: a plan converts, or does nothing. */
static bool is_transition(const graph_node_t *node)
{
    static const char *const names[] = {"to_mkldnn", "to_dense", "reorder"};
    for (size_t i = 0; node != NULL && i < sizeof names / sizeof *names; i++)
        if (node->kind == NODE_OP && strcmp(node->op->name, names[i]) == 0) return true;
    return false;
}

static status_t keep_views(context_t *ctx, verifier_t *verifier, value_t value,
                           const tensor_t *tensor);

/* What a view of the tensor is. */
static status_t keep_view(context_t *ctx, verifier_t *verifier, const graph_node_t *node,
                          const tensor_t *tensor)
{
    tensor_t *out[OP_MAX_OUTPUTS] = {NULL};
    int n = OP_MAX_OUTPUTS;
    verifier->is_following = true;
    status_t status = dispatch_run(ctx, node->op, node->attrs, 1, &tensor, &n, out);
    verifier->is_following = false;
    for (int i = 0; i < node->n_outputs && status == STATUS_OK; i++) {
        status = keep_value(ctx, verifier, node->outputs[i], out[i]);
        if (status == STATUS_OK) status = keep_views(ctx, verifier, node->outputs[i], out[i]);
    }
    for (int i = 0; i < OP_MAX_OUTPUTS; i++) tensor_release(out[i]);
    return status;
}

/* A view is no step of a plan: what it shows of a value is kept with the value, and so are views of
 * what transitions make of it. */
static status_t keep_views(context_t *ctx, verifier_t *verifier, value_t value,
                           const tensor_t *tensor)
{
    const graph_block_t *body = graph_body(plan_graph(verifier->plan));
    for (int i = 0; i < body->n_nodes; i++) {
        const graph_node_t *node = body->nodes[i];
        if (node->n_inputs != 1 || node->inputs[0] != value) continue;
        if (is_transition(node))
            TRY(keep_views(ctx, verifier, node->outputs[0], tensor));
        else if (node->kind == NODE_OP && (node->op->traits & TRAIT_VIEW) != 0)
            TRY(keep_view(ctx, verifier, node, tensor));
    }
    return STATUS_OK;
}

/* Of the value, or of what transitions have made it from; NULL: not known. */
static const record_t *find_record(const verifier_t *verifier, value_t value)
{
    while (value >= 0 && !verifier->records[value].is_known) {
        const graph_node_t *node = graph_producer(plan_graph(verifier->plan), value);
        value = is_transition(node) ? node->inputs[0] : VALUE_NONE;
    }
    return value >= 0 ? &verifier->records[value] : NULL;
}

/* reader is told where the value is another one now. */
static status_t check_value(context_t *ctx, verifier_t *verifier, value_t value,
                            const tensor_t *tensor, const char *reader)
{
    const record_t *record = find_record(verifier, value);
    uint64_t checksum = 0;
    if (record == NULL || tensor == NULL || record->dtype != tensor_dtype(tensor)) return STATUS_OK;
    TRY(find_checksum(ctx, tensor, &checksum));
    verifier->result.n_values++;
    if (checksum == record->checksum) return STATUS_OK;
    verifier->result.n_overwritten++;
    bar_end();
    fprintf(stderr, "%s reads %%%s, which is not what was computed: it was overwritten\n", reader,
            graph_value_name(plan_graph(verifier->plan), value));
    return STATUS_OK;
}

/* The step that an event is about: those of reorders have none. */
static const plan_step_t *take_step(verifier_t *verifier)
{
    const plan_step_t *step = plan_step(verifier->plan, verifier->next_step++);
    while (step != NULL && step->prepared == NULL)
        step = plan_step(verifier->plan, verifier->next_step++);
    return step;
}

static status_t check_step(context_t *ctx, verifier_t *verifier, const op_event_t *event)
{
    char reader[sizeof verifier->result.where];
    const plan_step_t *step = take_step(verifier);
    REQUIRE(ctx, step != NULL && step->prepared == event->prepared && step->node != NULL,
            "verify: the plan has no step for %s", event->op->name);
    place(verifier, event->op->name, reader, sizeof reader);
    for (int i = 0; i < event->n_in && i < step->n_in; i++)
        TRY(check_value(ctx, verifier, step->inputs[i], event->in[i], reader));
    for (int i = 0; i < event->n_out && i < step->node->n_outputs; i++) {
        TRY(keep_value(ctx, verifier, step->node->outputs[i], event->out[i]));
        TRY(keep_views(ctx, verifier, step->node->outputs[i], event->out[i]));
    }
    return STATUS_OK;
}

static status_t check_results(verifier_t *verifier, context_t *ctx, int n, tensor_t *const *results)
{
    if (verifier->plan == NULL) return STATUS_OK;
    const graph_block_t *body = graph_body(plan_graph(verifier->plan));
    for (int i = 0; i < n && i < body->n_results; i++)
        TRY(check_value(ctx, verifier, body->results[i], results[i], "the caller"));
    return STATUS_OK;
}

/* ---- the whole ---- */

static status_t check(context_t *ctx, void *user, const op_event_t *event)
{
    verifier_t *verifier = user;
    if (verifier->is_following) return STATUS_OK;
    if (verifier->plan != NULL) TRY(check_step(ctx, verifier, event));
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
    if (status == STATUS_OK) status = check_results(verifier, runner->ctx, n_out, out);
    mode_release_outputs(n_out, out);
    return status;
}

status_t verify_run(runner_t *runner, int64_t n_elements, uint64_t seed,
                    verify_result_t *out_result)
{
    verifier_t verifier = {.n_elements = n_elements,
                           .seed = seed,
                           .plan = plan_retain(plan_of(runner->module, "forward"))};
    status_t status = STATUS_OK;
    if (verifier.plan != NULL) {
        size_t n_values = (size_t)graph_n_values(plan_graph(verifier.plan));
        verifier.records = calloc(n_values + 1, sizeof *verifier.records);
        if (verifier.records == NULL)
            status = context_fail(runner->ctx, STATUS_OUT_OF_MEMORY,
                                  "verify: out of memory for %zu values", n_values);
    }
    if (status == STATUS_OK) status = run_observed(runner, &verifier);
    free(verifier.records);
    plan_release((plan_t *)(uintptr_t)verifier.plan);
    if (status == STATUS_OK) *out_result = verifier.result;
    return status;
}
