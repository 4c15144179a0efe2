#include <stdio.h>
#include <string.h>

#include "graph/analysis/alias_impl.h"
#include "graph/passes/pattern_impl.h"

/* reshape(permute(reshape(x))), where the last reshape only splits dimensions, becomes
 * permute(reshape(x)):
 *
 *   x f32[197,16,768] > reshape [197,192,64] > permute [192,197,64] > reshape [16,12,197,64]
 *   x f32[197,16,768] > reshape [197,16,12,64] > permute [16,12,197,64]
 *
 * The upper graph merges batch and heads, which needs a copy if x is part of wider rows. The lower
 * graph is a view. */

typedef struct chain {
    value_t x;
    int rank;
    int64_t sizes[TENSOR_MAX_RANK]; /* sizes of the new reshape */
    int64_t dims[TENSOR_MAX_RANK];  /* dims of the permute after it */
} chain_t;

/* The number of sizes, from index `at` on, whose product is n; 0 if there is none. */
static int count_split(const tensor_info_t *info, int at, int64_t n)
{
    int64_t product = 1;
    int count = 0;
    while (at + count < info->rank && (count == 0 || product < n))
        product *= info->sizes[at + count++];
    return product == n ? count : 0;
}

/* For each dimension of `permuted`, finds the dimensions of `out` into which it is split. */
static bool find_splits(const tensor_info_t *permuted, const tensor_info_t *out, int *starts,
                        int *counts)
{
    int at = 0;
    for (int d = 0; d < permuted->rank; d++) {
        starts[d] = at;
        counts[d] = count_split(out, at, permuted->sizes[d]);
        if (counts[d] == 0) return false;
        at += counts[d];
    }
    return at == out->rank;
}

static bool is_plain_op(const alias_t *alias, const graph_node_t *node, const char *op)
{
    return node != NULL && rewrite_is_op(node, op) && !node->is_in_place && node->inputs[0] >= 0 &&
           !alias_is_mutated(alias, node->inputs[0]) && !alias_is_mutated(alias, node->outputs[0]);
}

/* True if all sizes are plain numbers that may be replaced: none is inferred (-1), copied (0) or
 * computed from an input's size. */
static bool has_fixed_sizes(const graph_node_t *reshape)
{
    const ints_t *sizes = rewrite_attr(reshape, "sizes", ATTR_INTS);
    bool is_fixed = sizes != NULL && reshape->n_sized == 0;
    for (int i = 0; is_fixed && i < sizes->n; i++) is_fixed = sizes->values[i] > 0;
    return is_fixed;
}

static bool find_chain(const alias_t *alias, const graph_node_t *node, chain_t *out)
{
    const graph_t *graph = alias->graph;
    if (!is_plain_op(alias, node, "reshape")) return false;
    const graph_node_t *permute = graph_producer(graph, node->inputs[0]);
    if (!is_plain_op(alias, permute, "permute")) return false;
    const graph_node_t *first = graph_producer(graph, permute->inputs[0]);
    if (!is_plain_op(alias, first, "reshape")) return false;
    if (!has_fixed_sizes(node) || !has_fixed_sizes(first)) return false;
    const tensor_info_t *to = pattern_info(graph, node->outputs[0]);
    const tensor_info_t *permuted = pattern_info(graph, permute->outputs[0]);
    const ints_t *dims = rewrite_attr(permute, "dims", ATTR_INTS);
    int starts[TENSOR_MAX_RANK], counts[TENSOR_MAX_RANK], n = 0;
    if (to == NULL || permuted == NULL || info_numel(to) == 0 || dims->n != permuted->rank ||
        !find_splits(permuted, to, starts, counts))
        return false;
    *out = (chain_t){.x = first->inputs[0], .rank = to->rank};
    for (int d = 0; d < permuted->rank; d++)
        for (int p = 0; p < permuted->rank; p++) {
            if ((dims->values[p] + permuted->rank) % permuted->rank != d) continue;
            for (int i = 0; i < counts[p]; i++, n++) {
                out->sizes[n] = to->sizes[starts[p] + i];
                out->dims[starts[p] + i] = n;
            }
        }
    return n == to->rank;
}

static void write_ints(const char *name, int n, const int64_t *values, char *text, size_t size)
{
    size_t at = (size_t)snprintf(text, size, "%s=[", name);
    for (int i = 0; i < n && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%lld", i > 0 ? "," : "",
                               (long long)values[i]);
    if (at < size) snprintf(text + at, size - at, "]");
}

static status_t split_first(rewrite_t *rewrite, const graph_node_t *node, bool *out_done)
{
    const alias_t *const *alias = rewrite->user;
    chain_t chain;
    char attrs[512];
    if (!find_chain(*alias, node, &chain)) return STATUS_OK;
    value_t value = rewrite_value(rewrite, chain.x);
    write_ints("sizes", chain.rank, chain.sizes, attrs, sizeof attrs);
    *out_done = true;
    TRY(pattern_add(rewrite, "reshape", attrs, 1, &value, node->path, &value));
    write_ints("dims", chain.rank, chain.dims, attrs, sizeof attrs);
    return pattern_replace(rewrite, node, "permute", attrs, 1, &value);
}

status_t pass_split_before_permute(context_t *ctx, const graph_t *graph,
                                   const pass_options_t *options, graph_t **out_graph)
{
    (void)options;
    const alias_t *alias;
    TRY(alias_of(ctx, graph, &alias));
    return rewrite_graph(ctx, graph, split_first, &alias, out_graph);
}
