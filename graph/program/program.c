#include "graph/program/program_impl.h"

#include "graph/analysis/alias_impl.h"
#include "graph/ir/graph_impl.h"
#include "graph/program/plan_impl.h"
#include "graph/program/regions_impl.h"
#include "graph/program/run_impl.h"
#include "module/module_impl.h"
#include "tensor/base/references_impl.h"
#include "tensor/context_impl.h"
#include "tensor/scope_impl.h"

program_t *program_retain(program_t *program)
{
    if (program != NULL) references_add(&program->n_references);
    return program;
}

void program_release(program_t *program)
{
    if (program == NULL || !references_drop(&program->n_references)) return;
    allocator_t allocator = program->allocator;
    for (int i = 0; i < program->n_regions; i++) {
        region_t *region = &program->regions[i];
        plan_release(region->plan);
        allocator_put(&allocator, region->in);
        allocator_put(&allocator, region->out);
        allocator_put(&allocator, region->before);
    }
    allocator_put(&allocator, program->regions);
    allocator_put(&allocator, program->rows);
    plan_release(program->plan);
    graph_release(program->graph);
    allocator_put(&allocator, program);
}

plan_t *program_plan(const program_t *program, int at)
{
    int n = 0;
    if (program->plan != NULL) return at == 0 ? program->plan : NULL;
    for (int i = 0; i < program->n_regions; i++)
        if (program->regions[i].plan != NULL && n++ == at) return program->regions[i].plan;
    return NULL;
}

void program_share_arenas(program_t *program, arenas_t *arenas)
{
    plan_t *plan = NULL;
    for (int i = 0; (plan = program_plan(program, i)) != NULL; i++) plan_share_arenas(plan, arenas);
}

size_t program_own_bytes(const program_t *program)
{
    size_t bytes = sizeof *program + graph_bytes(program->graph);
    const plan_t *plan = NULL;
    for (int i = 0; (plan = program_plan(program, i)) != NULL; i++) bytes += plan_own_bytes(plan);
    return bytes;
}

size_t program_run_bytes(const program_t *program)
{
    size_t most = 0;
    const plan_t *plan = NULL;
    for (int i = 0; (plan = program_plan(program, i)) != NULL; i++)
        most = plan->arena_bytes > most ? plan->arena_bytes : most;
    return most;
}

status_t program_form_bytes(context_t *ctx, const program_t *program, hash_table_t *seen,
                            size_t *out_bytes)
{
    const plan_t *plan = NULL;
    *out_bytes = 0;
    for (int i = 0; (plan = program_plan(program, i)) != NULL; i++) {
        size_t bytes = 0;
        TRY(plan_form_bytes(ctx, plan, seen, &bytes));
        *out_bytes += bytes;
    }
    return STATUS_OK;
}

void program_retire(program_t *program)
{
    plan_t *plan = NULL;
    for (int i = 0; (plan = program_plan(program, i)) != NULL; i++) plan_retire(plan);
}

static bool has_state(const alias_t *alias)
{
    bool has_state = false;
    for (int i = 0; i < alias->n_places; i++) has_state |= alias->places[i].setter != NULL;
    for (int i = 0; i < alias->n_classes; i++)
        has_state |= alias->classes[i].writer != NULL &&
                     (alias->classes[i].origins & ALIAS_ATTRIBUTE) != 0;
    return has_state;
}

/* Makes a single plan if the graph has no control flow and no effects, else regions. */
static status_t compile(context_t *ctx, program_t *program, module_t *self)
{
    const alias_t *alias = NULL;
    TRY(alias_of(ctx, program->graph, &alias));
    program->has_state = has_state(alias);
    program->has_effects = alias->has_effects;
    if (alias->has_effects) return regions_find(ctx, program, self);
    scope_attempt(ctx);
    status_t status = plan_create(ctx, program->graph, self, &program->plan);
    bool has_control = status == STATUS_UNSUPPORTED;
    status = scope_attempt_end(ctx, status, has_control);
    return has_control ? regions_find(ctx, program, self) : status;
}

status_t program_create(context_t *ctx, const graph_t *graph, module_t *self,
                        program_t **out_program)
{
    program_t *program = NULL;
    TRY(context_get_zeroed(ctx, sizeof *program, "a program", &program));
    atomic_init(&program->n_references, 1);
    program->allocator = *context_allocator(ctx);
    program->graph = graph_retain((graph_t *)(uintptr_t)graph);
    status_t status = compile(ctx, program, self);
    GIVE(status, out_program, program, program_release(program));
}

static status_t run_plan(context_t *ctx, plan_t *plan, int n_in, datum_t *const *in, int *n_out,
                         datum_t **out)
{
    const tensor_t *tensors[METHOD_MAX_OUTPUTS];
    tensor_t *results[METHOD_MAX_OUTPUTS];
    REQUIRE(ctx, plan->n_results <= METHOD_MAX_OUTPUTS, "plan: %d results, at most %d",
            plan->n_results, METHOD_MAX_OUTPUTS);
    for (int i = 0; i < n_in; i++) tensors[i] = datum_as_tensor(in[i]);
    TRY(plan_execute(ctx, plan, n_in, tensors, results));
    status_t status = STATUS_OK;
    int made = 0;
    while (status == STATUS_OK && made < plan->n_results) {
        status = datum_tensor(ctx, results[made], &out[made]);
        made += status == STATUS_OK;
    }
    for (int i = 0; i < plan->n_results; i++) tensor_drop(results[i]);
    if (status == STATUS_OK)
        *n_out = made;
    else
        while (made > 0) datum_release(out[--made]);
    return status;
}

status_t program_run(context_t *ctx, const program_t *program, module_t *self, int n_in,
                     datum_t *const *in, int *n_out, datum_t **out)
{
    if (program->plan != NULL) return run_plan(ctx, program->plan, n_in, in, n_out, out);
    bool is_locked = program->has_state && self != NULL;
    if (is_locked) module_lock(self);
    status_t status = run_program(ctx, program, self, n_in, in, n_out, out);
    if (is_locked) module_unlock(self);
    return status;
}
