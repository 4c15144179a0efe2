/* Runs regions as plans. */
#include "graph/program/plan_impl.h"
#include "graph/program/run_inside_impl.h"
#include "tensor/scope_impl.h"
#include "tensor/tensor_impl.h"

/* False if an input of the region is not like the planned one: a number, or another size. */
static bool gather_live_in(run_t *run, const region_t *region)
{
    for (int i = 0; i < region->n_in; i++) {
        const datum_t *datum = run->slots[region->in[i]].datum;
        if (datum == NULL || datum_kind(datum) != DATUM_TENSOR) return false;
        run->live_in[i] = datum_as_tensor(datum);
        if (!plan_takes(region->plan, i, &run->live_in[i]->info)) return false;
    }
    return !plan_splits(region->plan, run->live_in);
}

/* Runs nodes that must run before the plan. False on failure: then all nodes run one by one, and
 * the failing one reports its error. */
static bool run_before(run_t *run, const region_t *region)
{
    status_t status = STATUS_OK;
    if (region->n_before == 0) return true;
    scope_attempt(run->ctx);
    for (int i = 0; i < region->n_before && status == STATUS_OK; i++)
        status = run_node(run, region->before[i]);
    return scope_attempt_end(run->ctx, status, true) == STATUS_OK;
}

static void clear_before(run_t *run, const region_t *region)
{
    for (int i = 0; i < region->n_before; i++)
        run_clear_slot(&run->slots[region->before[i]->outputs[0]]);
}

static status_t run_plan_of(run_t *run, const region_t *region)
{
    tensor_t *results[METHOD_MAX_OUTPUTS];
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
    if (!run_before(run, region) || !gather_live_in(run, region)) {
        clear_before(run, region);
        return run_nodes(run, region->block, region->first, end);
    }
    TRY(run_plan_of(run, region));
    for (int i = 0; i < region->n_in; i++)
        run_release_dead(run, region->block, end - 1, region->in[i]);
    return STATUS_OK;
}
