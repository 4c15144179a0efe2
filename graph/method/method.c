#include "graph/ir/graph_impl.h"
#include "graph/method/method_impl.h"
#include "tensor/context_impl.h"

/* A graph as a method: its state is the graph. Graphs are immutable, so clones share it. */

static status_t run_method(context_t *ctx, module_t *self, void *state, int n_in,
                           datum_t *const *in, int *n_out, datum_t **out)
{
    graph_t *graph = graph_retain(state); /* a call inside may replace the method's graph */
    FINISH(graph_run(ctx, graph, self, n_in, in, n_out, out), graph_release(graph));
}

static void release_method(void *state)
{
    graph_release(state);
}

static status_t clone_method(context_t *ctx, const void *state, void **out_state)
{
    (void)ctx;
    union {
        const void *from;
        graph_t *graph;
    } shared = {state};
    *out_state = graph_retain(shared.graph);
    return STATUS_OK;
}

static void *own_graph(void *state)
{
    return state;
}

static status_t describe_method(context_t *ctx, void *state, bool is_output, int index, int *out_n,
                                struct module_value *out_value)
{
    return graph_describe(ctx, state, is_output, index, out_n, out_value);
}

static status_t check_inputs(context_t *ctx, void *state, int n_in, const tensor_info_t *const *in)
{
    return graph_check_inputs(ctx, state, n_in, in);
}

static const method_class_t graph_method = {.name = "graph",
                                            .run = run_method,
                                            .release = release_method,
                                            .clone = clone_method,
                                            .graph = own_graph,
                                            .describe = describe_method,
                                            .check_inputs = check_inputs};

status_t graph_set_method(context_t *ctx, module_t *module, const char *method, graph_t *graph)
{
    if (module == NULL) return context_null(ctx, "graph_set_method", "the module");
    if (graph == NULL) return context_null(ctx, "graph_set_method", "the graph");
    return module_set_method_take(ctx, module, method, &graph_method, graph_retain(graph));
}

status_t graph_define(context_t *ctx, module_t *module, const char *text)
{
    if (module == NULL) return context_null(ctx, "graph_define", "the module");
    if (text == NULL) return context_null(ctx, "graph_define", "the text");
    graph_t *graph;
    TRY(graph_parse(ctx, text, NULL, &graph));
    const graph_block_t *body = graph_body(graph);
    bool has_self = body->n_params > 0 &&
                    graph_value_type(graph, body->params[0])->kind == TYPE_MODULE;
    status_t status = STATUS_OK;
    if (!has_self)
        status = context_fail(ctx, STATUS_INVALID_ARGUMENT,
                              "graph_define: the first parameter of %s must be of type module",
                              graph_name(graph));
    if (status == STATUS_OK) status = graph_verify(ctx, graph);
    if (status == STATUS_OK) status = graph_set_method(ctx, module, graph_name(graph), graph);
    graph_release(graph);
    return status;
}
