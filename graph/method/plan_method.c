/* The method class "plan": a graph, and its programs for the shapes it was called with. */
#include <string.h>

#include "graph/ir/graph_impl.h"
#include "graph/method/method_impl.h"
#include "graph/method/programs_impl.h"
#include "graph/program/plan_impl.h"
#include "module/module_impl.h"
#include "tensor/context_impl.h"
#include "tensor/tensor_impl.h"

static void release_method(void *state)
{
    programs_release(state);
}

/* Programs belong to the module they read parameters of: a clone begins without. */
static status_t clone_method(context_t *ctx, const void *state, void **out_state)
{
    programs_t *programs = (programs_t *)(uintptr_t)state, *copy = NULL;
    TRY(programs_create(ctx, programs->graph, programs_capacity(programs), &copy));
    status_t status = programs_leave_out(ctx, copy, programs->skip);
    if (status == STATUS_OK)
        *out_state = copy;
    else
        programs_release(copy);
    return status;
}

/* ---- running ---- */

/* An input that is a tensor of the module, or shares bytes with one. A run in another thread may
 * be putting another tensor in the place of an attribute. */
static bool is_given_own(module_t *self, int n_in, datum_t *const *in)
{
    bool is_own = false;
    module_lock(self);
    for (int i = 0; i < n_in && !is_own; i++)
        is_own = module_overlaps(self, datum_as_tensor(in[i]));
    module_unlock(self);
    return is_own;
}

/* Passes and programs take it that inputs and what the module holds are apart. Where they are not,
 * and something is written, the graph runs as it was given. */
static status_t run_literally(context_t *ctx, graph_t *graph, module_t *self, int n_in,
                              datum_t *const *in, int *n_out, datum_t **out)
{
    module_lock(self);
    status_t status = graph_run(ctx, graph, self, n_in, in, n_out, out);
    module_unlock(self);
    return status;
}

static status_t run_method(context_t *ctx, module_t *self, void *state, int n_in,
                           datum_t *const *in, int *n_out, datum_t **out)
{
    programs_t *programs = state;
    const tensor_info_t *infos[METHOD_MAX_OUTPUTS];
    for (int i = 0; i < n_in; i++) {
        bool is_tensor = n_in <= METHOD_MAX_OUTPUTS && in[i] != NULL &&
                         datum_kind(in[i]) == DATUM_TENSOR;
        if (!is_tensor) return graph_run(ctx, programs->graph, self, n_in, in, n_out, out);
        infos[i] = &datum_as_tensor(in[i])->info;
    }
    program_t *program = NULL;
    status_t status = programs_get(ctx, programs, self, n_in, infos, &program);
    if (status == STATUS_OK && program->has_effects && is_given_own(self, n_in, in))
        status = run_literally(ctx, programs->graph, self, n_in, in, n_out, out);
    else if (status == STATUS_OK)
        status = program_run(ctx, program, self, n_in, in, n_out, out);
    program_release(program);
    return status;
}

/* Only a plan writes results where they shall be: a program with control flow is not run here. */
static status_t run_into(context_t *ctx, module_t *self, void *state, int n_in,
                         const tensor_t *const *in, int n_wanted, tensor_t *const *wanted,
                         int *n_out, tensor_t **out)
{
    const tensor_info_t *infos[METHOD_MAX_OUTPUTS];
    program_t *program = NULL;
    *n_out = -1;
    if (n_in > METHOD_MAX_OUTPUTS) return STATUS_OK;
    for (int i = 0; i < n_in; i++) infos[i] = &in[i]->info;
    TRY(programs_get(ctx, state, self, n_in, infos, &program));
    status_t status = STATUS_OK;
    if (program->plan != NULL) {
        status = plan_execute_into(ctx, program->plan, n_in, in, n_wanted, wanted, out);
        *n_out = program->plan->n_results;
    }
    program_release(program);
    return status;
}

static void *own_graph(void *state)
{
    programs_t *programs = state;
    return programs->graph;
}

static status_t describe_method(context_t *ctx, void *state, bool is_output, int index, int *out_n,
                                struct module_value *out_value)
{
    return graph_describe(ctx, own_graph(state), is_output, index, out_n, out_value);
}

static status_t check_inputs(context_t *ctx, void *state, int n_in, const tensor_info_t *const *in)
{
    return graph_check_inputs(ctx, own_graph(state), n_in, in);
}

static const method_class_t plan_class = {.name = "plan",
                                          .run = run_method,
                                          .release = release_method,
                                          .clone = clone_method,
                                          .graph = own_graph,
                                          .describe = describe_method,
                                          .run_into = run_into,
                                          .check_inputs = check_inputs};

status_t plan_set_method_without(context_t *ctx, module_t *module, const char *method,
                                 graph_t *graph, int capacity, const char *const *skip)
{
    programs_t *programs = NULL;
    TRY(programs_create(ctx, graph, capacity, &programs));
    status_t status = programs_leave_out(ctx, programs, skip);
    if (status == STATUS_OK)
        return module_set_method_take(ctx, module, method, &plan_class, programs);
    programs_release(programs);
    return status;
}

status_t plan_set_method(context_t *ctx, module_t *module, const char *method, graph_t *graph,
                         int capacity)
{
    if (module == NULL) return context_null(ctx, "plan_set_method", "module");
    if (graph == NULL) return context_null(ctx, "plan_set_method", "graph");
    return plan_set_method_without(ctx, module, method, graph, capacity, NULL);
}

programs_t *programs_of(const module_t *module, const char *method)
{
    void *state = NULL;
    return module_method(module, method, &state) == &plan_class ? state : NULL;
}

bool plan_is_method(const module_t *module, const char *method)
{
    return programs_of(module, method) != NULL;
}

bool plan_is_widened(const module_t *module, const char *method)
{
    const programs_t *found = module != NULL ? programs_of(module, method) : NULL;
    return found != NULL && found->computed != found->graph;
}

int plan_capacity(const module_t *module, const char *method)
{
    programs_t *found = programs_of(module, method);
    return found != NULL ? programs_capacity(found) : 0;
}

void plan_set_capacity(module_t *module, const char *method, int capacity)
{
    programs_t *found = programs_of(module, method);
    if (found != NULL) programs_set_capacity(found, capacity);
}

status_t plan_layouts(context_t *ctx, module_t *module, const char *method, text_t *text)
{
    programs_t *found = programs_of(module, method);
    return found != NULL ? programs_layouts(ctx, found, text) : STATUS_OK;
}

status_t plan_set_layouts(context_t *ctx, module_t *module, const char *method, const char *lines)
{
    programs_t *found = programs_of(module, method);
    if (found == NULL || lines[0] == '\0' || lines[strlen(lines) - 1] != '\n') return STATUS_OK;
    return programs_set_layouts(ctx, found, lines);
}

program_t *program_of(const module_t *module, const char *method)
{
    programs_t *found = programs_of(module, method);
    return found != NULL ? programs_last(found) : NULL;
}

/* The method keeps the program that the plan belongs to. */
plan_t *plan_of(const module_t *module, const char *method)
{
    program_t *program = program_of(module, method);
    plan_t *plan = program == NULL ? NULL : program->plan;
    program_release(program);
    return plan;
}

status_t plan_warm_for(context_t *ctx, module_t *module, const char *method, int n_in,
                       const tensor_info_t *const *infos)
{
    if (module == NULL) return context_null(ctx, "plan_warm_for", "module");
    if (method == NULL) return context_null(ctx, "plan_warm_for", "method");
    TRY(context_array(ctx, "plan_warm_for", "infos", n_in, infos));
    programs_t *found = programs_of(module, method);
    if (found == NULL || n_in > METHOD_MAX_OUTPUTS) return STATUS_OK;
    for (int i = 0; i < n_in; i++)
        if (infos[i] == NULL) return STATUS_OK;
    program_t *program = NULL;
    TRY(programs_get(ctx, found, module, n_in, infos, &program));
    program_release(program);
    return STATUS_OK;
}

status_t plan_warm(context_t *ctx, module_t *module, const char *method)
{
    if (module == NULL) return context_null(ctx, "plan_warm", "module");
    if (method == NULL) return context_null(ctx, "plan_warm", "method");
    programs_t *found = programs_of(module, method);
    if (found == NULL) return STATUS_OK;
    const tensor_info_t *infos[METHOD_MAX_OUTPUTS];
    const graph_block_t *body = graph_body(found->graph);
    int n = 0;
    for (int i = 0; i < body->n_params; i++) {
        const graph_type_t *type = graph_value_type(found->graph, body->params[i]);
        if (type->kind == TYPE_MODULE) continue;
        if (!type_is_static(type) || n == METHOD_MAX_OUTPUTS) return STATUS_OK;
        infos[n++] = &type->info;
    }
    return plan_warm_for(ctx, module, method, n, infos);
}
