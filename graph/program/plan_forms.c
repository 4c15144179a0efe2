/* Temporary converted copies ("forms") of parameters. If a plan writes a weight, converted copies
 * of it are out of date at the next run, so caching them is useless. A form that only one step
 * reads is stored in the arena during that step.
 *
 * Example: the gradient of a convolution's input reads the weight as BAcd16a16b; forward and update
 * use ABcd16b16a. Forms for steps that run in slices of a batch are not temporary, because each
 * slice would convert the weight again. */
#include <string.h>

#include "graph/program/plan_impl.h"
#include "tensor/context_impl.h"

static const plan_master_t *find_master(const plan_t *plan, const plan_source_t *source,
                                        int n_masters, const plan_master_t *masters)
{
    if (source->kind != SOURCE_PARAMETER || !source->is_weight || source->is_view) return NULL;
    for (int i = 0; i < n_masters; i++)
        if (strcmp(masters[i].path, plan->parameters[source->parameter].path) == 0)
            return &masters[i];
    return NULL;
}

static bool reads_same(const plan_source_t *a, const plan_source_t *b)
{
    return b->kind == SOURCE_PARAMETER && a->parameter == b->parameter && b->is_weight &&
           info_equal(a->want, b->want);
}

static int count_readers(const plan_t *plan, const plan_source_t *source)
{
    int n = 0;
    for (int s = 0; s < plan->n_steps; s++)
        for (int i = 0; i < plan->steps[s].n_sources; i++)
            n += reads_same(source, &plan->steps[s].sources[i]);
    return n;
}

static status_t add_room(context_t *ctx, plan_t *plan, int step, plan_source_t *source,
                         int *roots_capacity)
{
    TRY(context_grow(ctx, &plan->roots, roots_capacity, plan->n_roots + 1, sizeof *plan->roots));
    plan->roots[plan->n_roots] = (plan_root_t){.kind = ROOT_ARENA,
                                               .info = *source->want,
                                               .bytes = info_bytes(source->want),
                                               .first_step = step,
                                               .last_step = step};
    source->root = plan->n_roots++;
    return STATUS_OK;
}

status_t plan_add_passing_forms(context_t *ctx, plan_t *plan, int n_masters,
                                const plan_master_t *masters, int *roots_capacity)
{
    for (int s = 0; n_masters > 0 && s < plan->n_steps; s++)
        for (int i = 0; i < plan->steps[s].n_sources; i++) {
            plan_source_t *source = &plan->steps[s].sources[i];
            const plan_master_t *master = find_master(plan, source, n_masters, masters);
            if (master == NULL || plan->steps[s].view.n_slices > 1 ||
                !convert_moves_bytes(&master->info, source->want) ||
                count_readers(plan, source) > 1)
                continue;
            TRY(add_room(ctx, plan, s, source, roots_capacity));
        }
    return STATUS_OK;
}
