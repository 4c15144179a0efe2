#include "graph/method/specialise_impl.h"

#include "graph/ir/graph_impl.h"
#include "graph/ir/rewrite_impl.h"
#include "graph/ir/size_impl.h"
#include "graph/method/programs_impl.h"
#include "graph/passes/pass_impl.h"
#include "graph/passes/precision/widen_impl.h"
#include "graph/program/plan.h"
#include "tensor/context_impl.h"
#include "tensor/tensor_impl.h"
#include "tensor/threads/interrupt_impl.h"

static bool fits(const graph_t *graph, const shapes_t *shapes)
{
    const graph_block_t *body = graph_body(graph);
    int input = 0;
    for (int i = 0; i < body->n_params; i++) {
        const graph_type_t *type = graph_value_type(graph, body->params[i]);
        if (type->kind == TYPE_MODULE) continue;
        if (input == shapes->n) return false;
        const tensor_info_t *info = &shapes->infos[input++];
        if (!type_is_static(type) || type->info.dtype != info->dtype ||
            !shape_equal(type->info.rank, type->info.sizes, info->rank, info->sizes))
            return false;
    }
    return input == shapes->n;
}

/* Sets the parameter types to those of the inputs, and infers all other types. */
static status_t retype(context_t *ctx, const graph_t *graph, const shapes_t *shapes,
                       graph_t **out_graph)
{
    if (fits(graph, shapes)) return graph_close(ctx, graph, out_graph);
    return graph_resize(ctx, graph, shapes->infos, false, out_graph);
}

static status_t find_sized(void *user, const graph_node_t *node)
{
    *(bool *)user |= node->n_sized > 0;
    return STATUS_OK;
}

/* Replaces results of `size` and `shape` by constants, and values that depend on constants only.
 * Then more sizes are known, so this is repeated until nothing changes. */
static status_t compute_sizes(context_t *ctx, const graph_t *open, graph_t **graph)
{
    static const char *const find[] = {"sizes", NULL};
    static const char *const compute[] = {"constant_propagation", "dead_code", NULL};
    bool has_sized = false, is_again = true;
    (void)rewrite_visit(graph_body(open), find_sized, &has_sized);
    while (is_again) {
        graph_t *found = NULL, *computed = NULL;
        TRY(pass_run(ctx, *graph, find, NULL, &found));
        is_again = found != *graph;
        status_t status = STATUS_OK;
        if (is_again || has_sized) status = pass_run(ctx, found, compute, NULL, &computed);
        has_sized = false;
        graph_release(found);
        TRY(status);
        if (computed == NULL) continue;
        graph_release(*graph);
        *graph = computed;
    }
    return STATUS_OK;
}

status_t specialise(context_t *ctx, module_t *self, const graph_t *graph, const shapes_t *shapes,
                    const layout_talk_t *layout, graph_t **out_graph)
{
    graph_t *typed = NULL;
    pass_options_t options = {.self = self,
                              .layout = layout->known,
                              .out_layout = layout->chosen,
                              .names_kernels = layout->names_kernels,
                              .out_certificate = layout->certificate,
                              .timings = layout->timings,
                              .tuning = layout->tuning,
                              .skip = layout->skip};
    TRY(retype(ctx, graph, shapes, &typed));
    status_t status = compute_sizes(ctx, graph, &typed);
    if (status == STATUS_OK)
        status = pass_run(ctx, typed, pass_pipeline_plan(), &options, out_graph);
    graph_release(typed);
    return status;
}

/* ---- specialising for one set of inputs ---- */

static status_t check_tensors(context_t *ctx, const graph_t *graph)
{
    const graph_block_t *body = graph_body(graph);
    for (int i = 0; i < body->n_params; i++) {
        type_kind_t kind = graph_value_type(graph, body->params[i])->kind;
        REQUIRE(ctx, kind == TYPE_MODULE || kind == TYPE_TENSOR || kind == TYPE_UNKNOWN,
                "graph_for: %%%s of %s is not a tensor, only tensors are supported",
                graph_value_name(graph, body->params[i]), graph_name(graph));
    }
    return STATUS_OK;
}

static status_t specialise_for(context_t *ctx, module_t *module, const graph_t *graph, int n_in,
                               const tensor_t *const *inputs, const layout_talk_t *layout,
                               graph_t **out_graph)
{
    tensor_info_t *infos = NULL;
    graph_t *computed = NULL;
    for (int i = 0; i < n_in; i++)
        if (inputs[i] == NULL) return context_null(ctx, "graph_for", "an input");
    TRY(check_tensors(ctx, graph));
    TRY(context_get(ctx, (size_t)n_in * sizeof *infos, "infos of inputs", &infos));
    const tensor_info_t **given = NULL;
    status_t status = context_get(ctx, (size_t)n_in * sizeof *given, "infos of inputs", &given);
    for (int i = 0; i < n_in && status == STATUS_OK; i++) {
        given[i] = &inputs[i]->info;
        infos[i] = info_dense(given[i]->dtype, given[i]->rank, given[i]->sizes);
    }
    if (status == STATUS_OK) status = graph_check_inputs(ctx, graph, n_in, given);
    if (status == STATUS_OK) status = widen_graph(ctx, graph, &computed);
    if (status == STATUS_OK)
        status = specialise(ctx, module, computed, &(shapes_t){n_in, infos}, layout, out_graph);
    graph_release(computed);
    CONTEXT_PUT(ctx, given, infos);
    return status;
}

/* Specialises the graph of a plan method that accepts the inputs. */
static status_t specialise_among(context_t *ctx, module_t *module, programs_t *first, int n_in,
                                 const tensor_t *const *inputs, const layout_talk_t *layout,
                                 graph_t **out_graph)
{
    const tensor_info_t *infos[METHOD_MAX_OUTPUTS];
    programs_t *programs = first;
    layout_talk_t own = *layout;
    own.skip = first->skip;
    for (int i = 0; i < n_in && i < METHOD_MAX_OUTPUTS; i++)
        infos[i] = inputs[i] != NULL ? &inputs[i]->info : NULL;
    if (n_in <= METHOD_MAX_OUTPUTS)
        TRY(programs_choose(ctx, first, module, n_in, infos, &programs));
    FINISH(specialise_for(ctx, module, programs->graph, n_in, inputs, &own, out_graph),
           programs_leave(first, programs));
}

/* Finds the graph that runs for the inputs. `caller` is the public function's name, for
 * messages. */
static status_t find_graph(context_t *ctx, const char *caller, module_t *module, const char *method,
                           int n_in, const tensor_t *const *inputs, const layout_talk_t *layout,
                           graph_t **out_graph)
{
    if (module == NULL) return context_null(ctx, caller, "module");
    if (method == NULL) return context_null(ctx, caller, "method");
    TRY(context_array(ctx, caller, "inputs", n_in, inputs));
    graph_t *graph = graph_of(module, method), *optimized = NULL;
    programs_t *programs = programs_of(module, method);
    if (programs != NULL)
        return specialise_among(ctx, module, programs, n_in, inputs, layout, out_graph);
    REQUIRE(ctx, graph != NULL,
            "%s: %s has no graph of method \"%s\", use graph_trace or graph_define", caller,
            module_type(module), method);
    interrupt_begin(ctx, caller);
    status_t status = pass_run(ctx, graph, pass_pipeline_graph(), &(pass_options_t){.self = module},
                               &optimized);
    if (status == STATUS_OK)
        status = specialise_for(ctx, module, optimized, n_in, inputs, layout, out_graph);
    graph_release(optimized);
    return interrupt_end(ctx, status);
}

status_t graph_for(context_t *ctx, module_t *module, const char *method, int n_in,
                   const tensor_t *const *inputs, graph_t **out_graph)
{
    TRY(context_output(ctx, "graph_for", out_graph));
    return find_graph(ctx, "graph_for", module, method, n_in, inputs, &(layout_talk_t){0},
                      out_graph);
}

status_t graph_certificate(context_t *ctx, module_t *module, const char *method, int n_in,
                           const tensor_t *const *inputs, layout_certificate_t *out_certificate)
{
    layout_certificate_t certificate = {0};
    graph_t *graph = NULL;
    if (out_certificate == NULL) return context_null(ctx, "graph_certificate", "the output");
    TRY(find_graph(ctx, "graph_certificate", module, method, n_in, inputs,
                   &(layout_talk_t){.certificate = &certificate}, &graph));
    graph_release(graph);
    *out_certificate = certificate;
    return STATUS_OK;
}
