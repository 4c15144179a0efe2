#include "tools/verify.h"

#include <stdio.h>
#include <string.h>

#include "tools/path.h"

typedef struct verifier {
    int64_t n_elements;
    uint64_t seed;
    path_t path;
    verify_result_t result;
} verifier_t;

static status_t check(context_t *ctx, void *user, const op_event_t *event)
{
    verifier_t *verifier = user;
    verify_result_t *result = &verifier->result;
    if (event->op->spec == NULL || event->n_out == 0) return STATUS_OK;
    double error = 0.0;
    context_seed(ctx, verifier->seed + (uint64_t)result->n_operators);
    TRY(dispatch_verify(ctx, event->op, event->attrs, event->n_in, event->in, event->n_out,
                        (const tensor_t *const *)event->out, verifier->n_elements, &error));
    result->n_operators++;
    if (error > result->largest || result->where[0] == '\0') {
        result->largest = error;
        snprintf(result->where, sizeof result->where, "%s%s%s", event->op->name,
                 verifier->path.text[0] != '\0' ? " at " : "", verifier->path.text);
    }
    if (error <= 1.0) return STATUS_OK;
    result->n_failed++;
    fprintf(stderr, "%s (%s, %s)%s%s: off by %.3g times what rounding explains\n", event->op->name,
            prepared_kernel(event->prepared), prepared_implementation(event->prepared),
            verifier->path.text[0] != '\0' ? " at " : "", verifier->path.text, error);
    return STATUS_OK;
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

/* The graph that the plan used last was built from, on the runner's inputs. */
static status_t interpret(runner_t *runner, const plan_t *plan)
{
    context_t *ctx = runner->ctx;
    datum_t *in[MODEL_MAX_INPUTS] = {NULL}, *out[METHOD_MAX_OUTPUTS] = {NULL};
    int n_out = 0;
    status_t status = STATUS_OK;
    for (int i = 0; i < runner->n_in && status == STATUS_OK; i++)
        status = datum_tensor(ctx, runner->in[i], &in[i]);
    if (status == STATUS_OK)
        status = graph_run(ctx, plan_graph(plan), runner->module, runner->n_in, in, &n_out, out);
    for (int i = 0; i < runner->n_in; i++) datum_release(in[i]);
    for (int i = 0; i < n_out; i++) datum_release(out[i]);
    return status;
}

static status_t run_observed(runner_t *runner)
{
    const plan_t *plan = plan_of(runner->module, "forward");
    if (plan != NULL) return interpret(runner, plan);
    tensor_t *out[METHOD_MAX_OUTPUTS] = {NULL};
    int n_out = 0;
    TRY(mode_run(runner, &n_out, out));
    mode_release_outputs(n_out, out);
    return STATUS_OK;
}

status_t verify_run(runner_t *runner, int64_t n_elements, uint64_t seed,
                    verify_result_t *out_result)
{
    verifier_t verifier = {.n_elements = n_elements, .seed = seed};
    observer_t observer = {
        .user = &verifier, .op_end = check, .module_enter = enter, .module_leave = leave};
    TRY(dispatch_add_observer(runner->ctx, &observer));
    status_t status = run_observed(runner);
    dispatch_remove_observer(runner->ctx, &observer);
    if (status == STATUS_OK) *out_result = verifier.result;
    return status;
}
