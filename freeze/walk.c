/* Runs a frozen graph on examples node by node, and passes all values to callbacks. */
#include "freeze/freeze_impl.h"
#include "graph/ir/graph_impl.h"
#include "graph/program/run_impl.h"
#include "tensor/context_impl.h"
#include "tensor/convert/convert.h"
#include "tensor/scope_impl.h"
#include "tensor/threads/interrupt_impl.h"

typedef struct walking {
    context_t *ctx;
    const graph_t *graph;
    const freeze_options_t *options;
    const freeze_walk_t *walk;
    int example;
    datum_t **known;                                /* [graph_n_values] */
    int *n_left;                                    /* [graph_n_values]: remaining uses */
    const tensor_info_t *infos[METHOD_MAX_OUTPUTS]; /* infos of the example's inputs */
} walking_t;

static status_t keep(const walking_t *w, value_t value, datum_t *datum)
{
    w->known[value] = datum;
    if (w->walk->value == NULL) return STATUS_OK;
    return w->walk->value(w->walk->user, w->example, value, datum);
}

static void release_read(const walking_t *w, const graph_node_t *node)
{
    for (int i = 0; i < node->n_inputs; i++) {
        const value_t value = node->inputs[i];
        if (value < 0 || --w->n_left[value] > 0) continue;
        datum_release(w->known[value]);
        w->known[value] = NULL;
    }
}

static status_t run_node(walking_t *w, const graph_node_t *node)
{
    static const run_limits_t none = {.trips = INT64_MAX, .bytes = SIZE_MAX};
    datum_t *out[OP_MAX_OUTPUTS] = {NULL};
    status_t status = STATUS_OK;
    if (node->kind == NODE_CONSTANT) {
        w->known[node->outputs[0]] = datum_retain(node->datum);
        return STATUS_OK;
    }
    if (node->kind == NODE_GETATTR || node->kind == NODE_SETATTR || node->kind == NODE_CALL ||
        node->n_outputs > OP_MAX_OUTPUTS)
        FAIL(w->ctx, STATUS_UNSUPPORTED,
             "freeze: layers of %s cannot be measured on examples, it has attributes or calls "
             "that are not constant",
             graph_name(w->graph));
    TRY(run_known(w->ctx, w->graph, node, w->infos, w->known, &none, out));
    for (int i = 0; i < node->n_outputs; i++) {
        status_t kept = keep(w, node->outputs[i], out[i]);
        if (status == STATUS_OK) status = kept;
    }
    return status;
}

static status_t take_inputs(const walking_t *w, const tensor_t *const *example)
{
    const graph_block_t *body = graph_body(w->graph);
    for (int i = 0, n = 0; i < body->n_params; i++) {
        tensor_t *tensor = NULL;
        datum_t *datum = NULL;
        if (graph_value_type(w->graph, body->params[i])->kind == TYPE_MODULE) continue;
        if (example[n] == NULL) return context_null(w->ctx, "freeze", "an input of an example");
        TRY(to_dense(w->ctx, example[n++], &tensor));
        status_t status = datum_tensor(w->ctx, tensor, &datum);
        scope_take(w->ctx, tensor);
        tensor_drop(tensor);
        TRY(status);
        TRY(keep(w, body->params[i], datum));
    }
    return STATUS_OK;
}

static status_t run_example(walking_t *w, const tensor_t *const *example)
{
    const graph_block_t *body = graph_body(w->graph);
    for (int i = 0; i < graph_n_values(w->graph); i++) w->n_left[i] = graph_n_uses(w->graph, i);
    TRY(take_inputs(w, example));
    for (int i = 0; i < body->n_nodes; i++) {
        const graph_node_t *node = body->nodes[i];
        TRY(run_node(w, node));
        if (w->walk->node != NULL) TRY(w->walk->node(w->walk->user, node, w->known));
        release_read(w, node);
        TRY(interrupt_tell(w->ctx, "examples, nodes", (int64_t)w->example * body->n_nodes + i + 1,
                           (int64_t)w->options->n_examples * body->n_nodes));
    }
    return STATUS_OK;
}

static status_t check_example(walking_t *w, const tensor_t *const *example)
{
    int n = 0;
    for (; example != NULL && example[n] != NULL; n++) {
        REQUIRE(w->ctx, n < METHOD_MAX_OUTPUTS, "freeze: an example has more than %d inputs",
                METHOD_MAX_OUTPUTS);
        w->infos[n] = tensor_info(example[n]);
    }
    return graph_check_inputs(w->ctx, w->graph, n, w->infos);
}

static status_t run_examples(walking_t *w)
{
    status_t status = STATUS_OK;
    for (int i = 0; i < w->options->n_examples && status == STATUS_OK; i++) {
        w->example = i;
        status = check_example(w, w->options->examples[i]);
        if (status == STATUS_OK) status = run_example(w, w->options->examples[i]);
        for (int v = 0; v < graph_n_values(w->graph); v++) {
            datum_release(w->known[v]);
            w->known[v] = NULL;
        }
    }
    return status;
}

status_t freeze_walk(context_t *ctx, const graph_t *graph, const freeze_options_t *options,
                     const freeze_walk_t *walk)
{
    walking_t w = {.ctx = ctx, .graph = graph, .options = options, .walk = walk};
    const size_t n = (size_t)graph_n_values(graph);
    TRY(context_get_zeroed(ctx, n * sizeof *w.known, "values of a run", &w.known));
    status_t status = context_get_zeroed(ctx, n * sizeof *w.n_left, "uses of values", &w.n_left);
    if (status == STATUS_OK) status = run_examples(&w);
    CONTEXT_PUT(ctx, w.n_left, w.known);
    return status;
}
