#include <stdio.h>

#include "graph/analysis/alias_impl.h"
#include "graph/passes/pattern_impl.h"
#include "tensor/tensor_impl.h"

/* gather(x, 2), where the index is a constant of one element, becomes slice(x) start=2 end=3,
 * followed by a squeeze if the index is a scalar. A slice is a view, so nothing is copied.
 * Exporters use such gathers on the product that computes query, key and value together. */

static const tensor_t *index_of(const graph_t *graph, value_t value)
{
    const datum_t *datum = value < 0 ? NULL : graph_constant(graph, value);
    if (datum == NULL || datum_kind(datum) != DATUM_TENSOR) return NULL;
    const tensor_t *tensor = datum_as_tensor(datum);
    return tensor_numel(tensor) == 1 && tensor_rank(tensor) <= 1 ? tensor : NULL;
}

/* The info of x. NULL if x or the result is written, because a write to a view would change
 * both. */
static const tensor_info_t *source_of(const alias_t *alias, const graph_node_t *node)
{
    if (!rewrite_is_op(node, "gather") || node->is_in_place || node->inputs[0] < 0 ||
        alias_is_mutated(alias, node->inputs[0]) || alias_is_mutated(alias, node->outputs[0]))
        return NULL;
    return pattern_info(alias->graph, node->inputs[0]);
}

static status_t take_slice(rewrite_t *rewrite, const graph_node_t *node, bool *out_done)
{
    const alias_t *const *alias = rewrite->user;
    const tensor_info_t *x = source_of(*alias, node);
    const tensor_t *index = x != NULL ? index_of(rewrite->from, node->inputs[1]) : NULL;
    uint64_t element = 0;
    char attrs[128];
    int dim = 0;
    if (index == NULL ||
        !shape_dim(x->rank, *(const int64_t *)rewrite_attr(node, "dim", ATTR_INT), &dim))
        return STATUS_OK;
    TRY(tensor_read(rewrite->ctx, index, &element, dtype_size(tensor_dtype(index))));
    const int64_t at = dtype_load_integer(tensor_dtype(index), &element);
    if (at < -x->sizes[dim] || at >= x->sizes[dim]) return STATUS_OK;
    /* A negative index stays negative, since x may have another size in a later run. */
    snprintf(attrs, sizeof attrs, "dim=%d start=%lld end=%lld", dim, (long long)at,
             at == -1 ? INT64_MAX : (long long)at + 1);
    value_t value = rewrite_value(rewrite, node->inputs[0]);
    *out_done = true;
    if (tensor_rank(index) == 1) return pattern_replace(rewrite, node, "slice", attrs, 1, &value);
    TRY(pattern_add(rewrite, "slice", attrs, 1, &value, node->path, &value));
    snprintf(attrs, sizeof attrs, "dims=[%d]", dim);
    return pattern_replace(rewrite, node, "squeeze", attrs, 1, &value);
}

status_t pass_gather_to_slice(context_t *ctx, const graph_t *graph, const pass_options_t *options,
                              graph_t **out_graph)
{
    (void)options;
    const alias_t *alias;
    TRY(alias_of(ctx, graph, &alias));
    return rewrite_graph(ctx, graph, take_slice, &alias, out_graph);
}
