/* graph_trace and graph_trace_for: record a method once (trace_once.c), and find the sizes that may
 * vary (trace_sizes.c). */
#include <string.h>

#include "graph/ir/graph.h"
#include "graph/ir/graph_impl.h"
#include "graph/method/trace_impl.h"
#include "module/module_impl.h"
#include "tensor/tensor_impl.h"
#include "tensor/threads/interrupt_impl.h"

static status_t check_method(context_t *ctx, const char *caller, const module_t *module,
                             const char *method)
{
    if (module == NULL) return context_null(ctx, caller, "the module");
    if (method == NULL) return context_null(ctx, caller, "the method");
    void *state;
    const method_class_t *class_ = module_method(module, method, &state);
    REQUIRE(ctx, class_ != NULL, "%s: %s has no method \"%s\"", caller, module_type(module),
            method);
    REQUIRE(ctx, strcmp(class_->name, "plan") != 0,
            "%s: \"%s\" of %s is a plan, whose operators cannot be seen", caller, method,
            module_type(module));
    return STATUS_OK;
}

/* Traces a method on tensors or, if `in` is NULL, from infos alone. Then finds the sizes that may
 * vary, and replaces the method by the graph. */
static status_t trace(context_t *ctx, const char *caller, module_t *module, const char *method,
                      int n_in, const tensor_t *const *in, const tensor_info_t *const *infos)
{
    graph_t *graph = NULL, *opened = NULL;
    module_t *initial = NULL;
    interrupt_begin(ctx, caller);
    status_t status = module_snapshot(ctx, module, &initial);
    if (status == STATUS_OK && in != NULL)
        status = trace_once(ctx, module, method, n_in, in, &graph);
    else if (status == STATUS_OK)
        status = trace_infos(ctx, initial, method, n_in, infos, &graph);
    if (status == STATUS_OK)
        status = trace_other_sizes(ctx, initial, method, n_in, infos, graph, &opened);
    if (status == STATUS_OK) status = graph_set_method(ctx, module, method, opened);
    graph_release(opened);
    graph_release(graph);
    module_release(initial);
    return interrupt_end(ctx, status);
}

status_t graph_trace(context_t *ctx, module_t *module, const char *method, int n_in,
                     const tensor_t *const *in)
{
    static const tensor_t *const none[1];
    const tensor_info_t **infos = NULL;
    TRY(check_method(ctx, "graph_trace", module, method));
    TRY(context_array(ctx, "graph_trace", "inputs", n_in, in));
    TRY(context_get(ctx, (size_t)n_in * sizeof *infos, "infos of inputs", &infos));
    for (int i = 0; i < n_in; i++) infos[i] = in[i] != NULL ? &in[i]->info : NULL;
    FINISH(trace(ctx, "graph_trace", module, method, n_in, n_in > 0 ? in : none, infos),
           context_put(ctx, infos));
}

status_t graph_trace_for(context_t *ctx, module_t *module, const char *method, int n_in,
                         const tensor_info_t *const *infos)
{
    TRY(check_method(ctx, "graph_trace_for", module, method));
    TRY(context_array(ctx, "graph_trace_for", "infos", n_in, infos));
    for (int i = 0; i < n_in; i++)
        if (infos[i] == NULL) return context_null(ctx, "graph_trace_for", "an info");
    return trace(ctx, "graph_trace_for", module, method, n_in, NULL, infos);
}
