#include <stdalign.h>
#include <string.h>

#include "dispatch/select_impl.h"
#include "graph/ir/graph_impl.h"
#include "graph/passes/pass_impl.h"
#include "tensor/context_impl.h"

/* If an activation is the only reader of a result of batch_norm_training, it becomes an attribute
 * of that operator:
 *
 *   %n, %m, %v = batch_norm_training(%x, %w, %b)
 *   %y = relu(%n)
 *
 * becomes, with equal results and without reading %n again,
 *
 *   %y, %m, %v = batch_norm_training(%x, %w, %b) activation="relu" */

typedef struct fusing {
    const graph_t *graph;
    const graph_node_t **readers; /* [values of the graph]: the activation that reads a batch norm's
                                     result, or NULL */
    int n_found;
} fusing_t;

/* Index of the name among the values of the norm's attribute `activation`, or -1. */
static int find_name(const graph_node_t *norm, const char *name)
{
    const attr_table_t *table = &norm->op->attrs;
    for (int i = 0; i < table->n_fields; i++) {
        const attr_field_t *field = &table->fields[i];
        if (strcmp(field->name, "activation") != 0) continue;
        for (int k = 0; field->names[k] != NULL; k++)
            if (strcmp(field->names[k], name) == 0) return k;
    }
    return -1;
}

static status_t look(void *user, const graph_node_t *node)
{
    fusing_t *fusing = user;
    if (node->kind != NODE_OP || node->is_in_place || node->n_inputs != 1 || node->inputs[0] < 0)
        return STATUS_OK;
    const graph_node_t *norm = rewrite_single_use(fusing->graph, node->inputs[0],
                                                  "batch_norm_training");
    if (norm == NULL || norm->outputs[0] != node->inputs[0]) return STATUS_OK;
    const int *activation = rewrite_attr(norm, "activation", ATTR_NAME);
    if (*activation != 0 || find_name(norm, node->op->name) <= 0) return STATUS_OK;
    fusing->readers[node->inputs[0]] = node;
    fusing->n_found++;
    return STATUS_OK;
}

static status_t fuse(rewrite_t *rewrite, const graph_node_t *node, bool *out_done)
{
    const fusing_t *fusing = rewrite->user;
    const graph_node_t *reader = NULL;
    value_t inputs[OP_MAX_INPUTS], outputs[OP_MAX_OUTPUTS];
    alignas(16) char attrs[ATTRS_MAX];
    if (node->kind != NODE_OP || node->n_outputs < 1) return STATUS_OK;
    if (rewrite_is_mapped(rewrite, node->outputs[0])) {
        *out_done = true; /* the batch norm computes it now */
        return STATUS_OK;
    }
    reader = fusing->readers[node->outputs[0]];
    if (reader == NULL) return STATUS_OK;
    graph_node_t fused = *node;
    memcpy(attrs, node->attrs, node->op->attrs.bytes);
    fused.attrs = attrs;
    *(int *)rewrite_attr_in(node, attrs, "activation", ATTR_NAME) = find_name(node,
                                                                              reader->op->name);
    for (int i = 0; i < node->n_inputs; i++) inputs[i] = rewrite_value(rewrite, node->inputs[i]);
    for (int i = 0; i < node->n_outputs; i++) outputs[i] = node->outputs[i];
    outputs[0] = reader->outputs[0];
    *out_done = true;
    return rewrite_emit(rewrite, &fused, inputs, outputs);
}

status_t pass_fuse_norm_activation(context_t *ctx, const graph_t *graph,
                                   const pass_options_t *options, graph_t **out_graph)
{
    (void)options;
    fusing_t fusing = {.graph = graph};
    TRY(context_get_zeroed(ctx, (size_t)graph_n_values(graph) * sizeof(*fusing.readers),
                           "values of a graph", &fusing.readers));
    status_t status = rewrite_visit(graph_body(graph), look, &fusing);
    if (status == STATUS_OK)
        status = fusing.n_found > 0 ? rewrite_graph(ctx, graph, fuse, &fusing, out_graph)
                                    : rewrite_nothing(graph, out_graph);
    context_put(ctx, fusing.readers);
    return status;
}
