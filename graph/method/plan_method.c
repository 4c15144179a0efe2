/* The method class "plan": graphs, and the programs compiled for the sizes of earlier calls. */
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

/* Programs refer to parameters of their module, so a cloned method starts without programs. */
static status_t clone_method(context_t *ctx, const void *state, void **out_state)
{
    programs_t *copy = NULL;
    TRY(programs_clone(ctx, (programs_t *)(uintptr_t)state, &copy));
    *out_state = copy;
    return STATUS_OK;
}

/* ---- watching ---- */

typedef struct programs_watch {
    plan_ran_t ran;
    void (*drop)(void *user);
    void *user;
    allocator_t allocator;
} programs_watch_t;

static void end_watch(programs_watch_t *watch)
{
    if (watch == NULL) return;
    watch->drop(watch->user);
    const allocator_t allocator = watch->allocator;
    allocator_put(&allocator, watch);
}

void programs_unwatch(programs_t *first)
{
    end_watch(atomic_exchange(&first->watch, NULL));
}

void programs_tell(context_t *ctx, module_t *self, programs_t *first)
{
    if (atomic_load_explicit(&first->watch, memory_order_relaxed) == NULL) return;
    programs_watch_t *watch = atomic_exchange(&first->watch, NULL);
    if (watch == NULL) return; /* another thread was first */
    watch->ran(ctx, self, watch->user);
    end_watch(watch);
}

void plan_watch(module_t *module, const char *method, plan_ran_t ran, void (*drop)(void *user),
                void *user)
{
    programs_t *first = programs_of(module, method);
    programs_watch_t *watch = first != NULL ? allocator_get(&first->allocator, sizeof *watch)
                                            : NULL;
    if (watch == NULL) {
        drop(user);
        return;
    }
    *watch = (programs_watch_t){ran, drop, user, first->allocator};
    end_watch(atomic_exchange(&first->watch, watch));
}

/* ---- running ---- */

/* True if an input shares bytes with a tensor of the module. Holds the module's lock, because a run
 * in another thread may replace an attribute. */
static bool is_given_own(module_t *self, int n_in, datum_t *const *in)
{
    bool is_own = false;
    module_lock(self);
    for (int i = 0; i < n_in && !is_own; i++)
        is_own = module_overlaps(self, datum_as_tensor(in[i]));
    module_unlock(self);
    return is_own;
}

/* Interprets the graph without passes. Used if the run writes and an input overlaps a tensor of the
 * module, because passes and programs assume that there is no such overlap. */
static status_t run_literally(context_t *ctx, graph_t *graph, module_t *self, int n_in,
                              datum_t *const *in, int *n_out, datum_t **out)
{
    module_lock(self);
    FINISH(graph_run(ctx, graph, self, n_in, in, n_out, out), module_unlock(self));
}

static status_t run_program(context_t *ctx, programs_t *first, module_t *self, int n_in,
                            const tensor_info_t *const *infos, datum_t *const *in, int *n_out,
                            datum_t **out)
{
    programs_t *programs = NULL;
    program_t *program = NULL;
    TRY(programs_choose_program(ctx, first, self, n_in, infos, &programs, &program));
    const status_t status = program->has_effects && is_given_own(self, n_in, in)
                                ? run_literally(ctx, programs->graph, self, n_in, in, n_out, out)
                                : program_run(ctx, program, self, n_in, in, n_out, out);
    program_release(program);
    programs_leave(first, programs);
    return status;
}

/* Interprets the graph, because some inputs are not tensors. */
static status_t run_graph(context_t *ctx, programs_t *first, module_t *self, int n_in,
                          const tensor_info_t *const *infos, datum_t *const *in, int *n_out,
                          datum_t **out)
{
    programs_t *programs = NULL;
    TRY(programs_choose(ctx, first, self, n_in, infos, &programs));
    FINISH(graph_run(ctx, programs->graph, self, n_in, in, n_out, out),
           programs_leave(first, programs));
}

static status_t run_method(context_t *ctx, module_t *self, void *state, int n_in,
                           datum_t *const *in, int *n_out, datum_t **out)
{
    programs_t *first = state;
    const tensor_info_t *infos[METHOD_MAX_OUTPUTS] = {NULL};
    bool are_tensors = true;
    if (n_in > METHOD_MAX_OUTPUTS) return graph_run(ctx, first->graph, self, n_in, in, n_out, out);
    for (int i = 0; i < n_in; i++) {
        const bool is_tensor = in[i] != NULL && datum_kind(in[i]) == DATUM_TENSOR;
        infos[i] = is_tensor ? &datum_as_tensor(in[i])->info : NULL;
        are_tensors &= is_tensor;
    }
    const status_t status = are_tensors ? run_program(ctx, first, self, n_in, infos, in, n_out, out)
                                        : run_graph(ctx, first, self, n_in, infos, in, n_out, out);
    if (status == STATUS_OK) programs_tell(ctx, self, state);
    return status;
}

/* Writes results to the caller's tensors, which only a plan can do. Does not run programs with
 * control flow. */
static status_t run_into(context_t *ctx, module_t *self, void *state, int n_in,
                         const tensor_t *const *in, int n_wanted, tensor_t *const *wanted,
                         int *n_out, tensor_t **out)
{
    const tensor_info_t *infos[METHOD_MAX_OUTPUTS];
    programs_t *programs = NULL;
    program_t *program = NULL;
    *n_out = -1;
    if (n_in > METHOD_MAX_OUTPUTS) return STATUS_OK;
    for (int i = 0; i < n_in; i++) infos[i] = &in[i]->info;
    TRY(programs_choose_program(ctx, state, self, n_in, infos, &programs, &program));
    status_t status = STATUS_OK;
    if (program->plan != NULL) {
        status = plan_execute_into(ctx, program->plan, n_in, in, n_wanted, wanted, out);
        *n_out = program->plan->n_results;
        if (status == STATUS_OK) programs_tell(ctx, self, state);
    }
    program_release(program);
    programs_leave(state, programs);
    return status;
}

static void *own_graph(void *state)
{
    programs_t *programs = state;
    return programs->graph;
}

/* Describes the first graph. A size that differs in another graph counts as open. */
static status_t describe_method(context_t *ctx, void *state, bool is_output, int index, int *out_n,
                                struct module_value *out_value)
{
    const programs_t *programs = state;
    module_value_t value;
    TRY(graph_describe(ctx, programs->graph, is_output, index, out_n, out_value));
    for (int k = 1; index >= 0 && index < *out_n; k++) {
        programs = programs_at(state, k);
        if (programs == NULL) break;
        TRY(graph_describe(ctx, programs->graph, is_output, index, out_n, &value));
        for (int d = 0; d < out_value->rank && d < value.rank; d++)
            if (value.sizes[d] != out_value->sizes[d]) out_value->sizes[d] = -1;
    }
    return STATUS_OK;
}

static status_t check_inputs(context_t *ctx, void *state, int n_in, const tensor_info_t *const *in)
{
    programs_t *programs = NULL;
    TRY(programs_choose(ctx, state, NULL, n_in, in, &programs));
    FINISH(graph_check_inputs(ctx, programs->graph, n_in, in), programs_leave(state, programs));
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

status_t plan_add_graph(context_t *ctx, module_t *module, const char *method, graph_t *graph)
{
    programs_t *first = programs_of(module, method), *programs = NULL;
    REQUIRE(ctx, first != NULL, "plan_add_graph: \"%s\" of %s does not run as plans", method,
            module_type(module));
    if (plan_n_graphs(module, method) >= PLAN_MAX_GRAPHS)
        FAIL(ctx, STATUS_UNSUPPORTED,
             "plan_add_graph: \"%s\" of %s has %d graphs, which is the maximum", method,
             module_type(module), PLAN_MAX_GRAPHS);
    TRY(programs_create(ctx, graph, programs_capacity(first), &programs));
    status_t status = programs_leave_out(ctx, programs, first->skip);
    programs_unwatch(first);
    if (status == STATUS_OK)
        programs_append(first, programs);
    else
        programs_release(programs);
    return status;
}

int plan_n_graphs(const module_t *module, const char *method)
{
    programs_t *first = programs_of(module, method);
    int n = 0;
    while (programs_at(first, n) != NULL) n++;
    return n;
}

graph_t *plan_graph_at(const module_t *module, const char *method, int index)
{
    const programs_t *at = index < 0 ? NULL : programs_at(programs_of(module, method), index);
    return at != NULL ? at->graph : NULL;
}

void plan_set_extend(module_t *module, const char *method, plan_extend_t *extend)
{
    programs_t *first = programs_of(module, method);
    if (first != NULL) first->extend = extend;
}

plan_extend_t *plan_extends(const module_t *module, const char *method)
{
    const programs_t *first = programs_of(module, method);
    return first != NULL ? first->extend : NULL;
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
    programs_t *first = programs_of(module, method), *found = NULL;
    for (int i = 0; (found = programs_at(first, i)) != NULL; i++)
        programs_set_capacity(found, capacity);
}

status_t plan_layouts(context_t *ctx, module_t *module, const char *method, text_t *text)
{
    programs_t *first = programs_of(module, method), *found = NULL;
    for (int i = 0; (found = programs_at(first, i)) != NULL; i++)
        TRY(programs_layouts(ctx, found, text));
    return STATUS_OK;
}

/* Each graph gets all lines, and ignores lines whose inputs belong to another graph. */
status_t plan_set_layouts(context_t *ctx, module_t *module, const char *method, const char *lines)
{
    programs_t *first = programs_of(module, method), *found = NULL;
    if (lines[0] == '\0' || lines[strlen(lines) - 1] != '\n') return STATUS_OK;
    for (int i = 0; (found = programs_at(first, i)) != NULL; i++)
        TRY(programs_set_layouts(ctx, found, lines));
    return STATUS_OK;
}

program_t *program_of(const module_t *module, const char *method)
{
    programs_t *found = programs_of(module, method);
    if (found == NULL) return NULL;
    programs_t *used = programs_used(found);
    program_t *program = programs_last(used);
    programs_leave(found, used);
    return program;
}

/* The method's list still owns the program, so the plan stays valid. */
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
    programs_t *first = programs_of(module, method), *found = NULL;
    if (first == NULL || n_in > METHOD_MAX_OUTPUTS) return STATUS_OK;
    for (int i = 0; i < n_in; i++)
        if (infos[i] == NULL) return STATUS_OK;
    program_t *program = NULL;
    TRY(programs_choose_program(ctx, first, module, n_in, infos, &found, &program));
    program_release(program);
    programs_leave(first, found);
    return STATUS_OK;
}

/* Builds the plan for the graph's own sizes, if all are known. */
static status_t warm_graph(context_t *ctx, module_t *module, const char *method,
                           const graph_t *graph)
{
    const tensor_info_t *infos[METHOD_MAX_OUTPUTS];
    const graph_block_t *body = graph_body(graph);
    int n = 0;
    for (int i = 0; i < body->n_params; i++) {
        const graph_type_t *type = graph_value_type(graph, body->params[i]);
        if (type->kind == TYPE_MODULE) continue;
        if (!type_is_static(type) || n == METHOD_MAX_OUTPUTS) return STATUS_OK;
        infos[n++] = &type->info;
    }
    return plan_warm_for(ctx, module, method, n, infos);
}

status_t plan_warm(context_t *ctx, module_t *module, const char *method)
{
    if (module == NULL) return context_null(ctx, "plan_warm", "module");
    if (method == NULL) return context_null(ctx, "plan_warm", "method");
    programs_t *first = programs_of(module, method), *found = NULL;
    for (int i = 0; (found = programs_at(first, i)) != NULL; i++)
        TRY(warm_graph(ctx, module, method, found->graph));
    return STATUS_OK;
}
