#include "graph/analysis/weights_impl.h"

#include "dispatch/select_impl.h"

weight_use_t weights_of(const graph_t *graph, const graph_node_t *node)
{
    for (int i = 0; i < node->n_inputs; i++)
        if (node->inputs[i] >= 0 && select_operand(node->op, i)->role == ROLE_WEIGHT &&
            graph_constant(graph, node->inputs[i]) == NULL)
            return WEIGHT_KEPT;
    return WEIGHT_CONSTANT;
}
