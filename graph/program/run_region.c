/* Regions as their plans. */
#include "graph/program/plan_impl.h"
#include "graph/program/run_inside_impl.h"
#include "tensor/tensor_impl.h"

/* False when a live-in is not the tensor that the plan was built for: a number, or other sizes. */
static bool gather_live_in(run_t *run, const region_t *region)
{
    for (int i = 0; i < region->n_in; i++) {
        const datum_t *datum = run->slots[region->in[i]].datum;
        if (datum == NULL || datum_kind(datum) != DATUM_TENSOR) return false;
        run->live_in[i] = datum_as_tensor(datum);
        if (!plan_takes(region->plan, i, &run->live_in[i]->info)) return false;
    }
    return true;
}

static status_t run_plan_of(run_t *run, const region_t *region)
{
    tensor_t *results[METHOD_MAX_OUTPUTS];
    for (int i = 0; i < region->n_constants; i++) TRY(run_node(run, region->constants[i]));
    TRY(plan_execute(run->ctx, region->plan, region->n_in, run->live_in, results));
    status_t status = STATUS_OK;
    for (int i = 0; i < region->n_out; i++) {
        slot_t *slot = &run->slots[region->out[i]];
        if (status == STATUS_OK) status = datum_tensor(run->ctx, results[i], &slot->datum);
        tensor_drop(results[i]);
        bool is_viewed = run_is_blocked(slot->datum) && alias_is_viewed(run->alias, region->out[i]);
        if (status == STATUS_OK && is_viewed) status = run_make_dense(run->ctx, &slot->datum);
    }
    return status;
}

status_t run_region(run_t *run, const region_t *region)
{
    int end = region->first + region->n_nodes;
    if (!gather_live_in(run, region)) return run_nodes(run, region->block, region->first, end);
    TRY(run_plan_of(run, region));
    for (int i = 0; i < region->n_in; i++)
        run_release_dead(run, region->block, end - 1, region->in[i]);
    return STATUS_OK;
}
