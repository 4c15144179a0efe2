/* Shows steps of plans to observers. */
#include <string.h>

#include "dispatch/select_impl.h"
#include "graph/program/plan_run_impl.h"
#include "tensor/context_impl.h"
#include "tensor/info_impl.h"

status_t plan_tensor_at(plan_run_t *run, const tensor_info_t *info, void *bytes, tensor_t **out)
{
    storage_t *storage = NULL;
    TRY(storage_borrow(run->ctx, bytes, info_bytes(info), true, NULL, NULL, &storage));
    FINISH(tensor_over(run->ctx, info, storage, 0, out), storage_release(storage));
}

/* Makes the tensor that observers see for an input. For a weight, it is the graph's tensor. If the
 * step overwrites the input and an observer reads elements, it is a copy. */
static status_t show_input(plan_run_t *run, const step_t *step, int index, void *bytes,
                           tensor_t **out)
{
    const plan_source_t *source = &step->sources[index];
    tensor_t *shown = NULL;
    if (source->kind == SOURCE_NONE) return STATUS_OK;
    if (source->kind == SOURCE_TENSOR) {
        *out = tensor_hold(source->given);
        return STATUS_OK;
    }
    if (source->kind == SOURCE_PARAMETER) return plan_take_parameter(run, source, out);
    TRY(plan_tensor_at(run, &step->prepared->in[index], bytes, &shown));
    const int made = step->output_roots[0];
    if (step->view.overwrites < 0 || !run->shows_inputs ||
        (source->root != made && run->plan->roots[source->root].twin != made + 1)) {
        *out = shown;
        return STATUS_OK;
    }
    tensor_t *copy = NULL;
    status_t status = tensor_make(run->ctx, &shown->info, &copy);
    void *to = NULL;
    if (status == STATUS_OK) status = tensor_writable(run->ctx, copy, &to);
    if (status == STATUS_OK) memcpy(to, bytes, info_bytes(&shown->info));
    tensor_drop(shown);
    GIVE(status, out, copy, tensor_drop(copy));
}

status_t plan_watch_begin(plan_run_t *run, const step_t *step, void *const *in, void *const *out,
                          plan_watch_t *watch)
{
    const prepared_t *prepared = step->prepared;
    *watch = (plan_watch_t){{NULL}, {NULL}};
    for (int i = 0; i < step->n_sources; i++) TRY(show_input(run, step, i, in[i], &watch->in[i]));
    for (int i = 0; i < step->n_outputs; i++)
        TRY(plan_tensor_at(run, &prepared->out[i], out[i], &watch->out[i]));
    return STATUS_OK;
}

status_t plan_watch_end(plan_run_t *run, const step_t *step, status_t status, uint64_t begin,
                        uint64_t ns, plan_watch_t *watch)
{
    const prepared_t *prepared = step->prepared;
    const char *path = step->view.path;
    op_event_t event = {.op = prepared->op,
                        .attrs = prepared->attrs,
                        .n_in = step->n_sources,
                        .in = (const tensor_t *const *)watch->in,
                        .n_out = step->n_outputs,
                        .out = watch->out,
                        .prepared = prepared,
                        .begin = begin,
                        .ns = ns,
                        .is_planned = true,
                        .slice = run->slice,
                        .n_slices = step->view.n_slices,
                        .plan = run->plan,
                        .step = (int)(step - run->plan->steps)};
    dispatch_enter_module(run->ctx, path);
    if (status == STATUS_OK) status = dispatch_tell(run->ctx, &event);
    dispatch_leave_module(run->ctx, path);
    for (int i = 0; i < step->n_sources; i++) tensor_drop(watch->in[i]);
    for (int i = 0; i < step->n_outputs; i++) tensor_drop(watch->out[i]);
    return status;
}

status_t plan_run_kernel(plan_run_t *run, const step_t *step, void *const *in, void *const *out)
{
    char *scratch = NULL;
    if (step->scratch >= 0)
        scratch = (char *)run->frame->pointers[step->scratch] +
                  (size_t)run->worker * run->plan->roots[step->scratch].copy_bytes;
    return step->prepared->run(run->ctx, step->prepared, in, out, scratch);
}

status_t plan_run_watched(plan_run_t *run, const step_t *step, void *const *in, void *const *out)
{
    plan_watch_t watch;
    status_t status = plan_watch_begin(run, step, in, out, &watch);
    const uint64_t begin = context_now();
    if (status == STATUS_OK) status = plan_run_kernel(run, step, in, out);
    return plan_watch_end(run, step, status, begin, context_now() - begin, &watch);
}
