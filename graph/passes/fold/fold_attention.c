#include <math.h>
#include <stdio.h>

#include "graph/passes/pattern_impl.h"
#include "tensor/context_impl.h"

/* Matches softmax(scale * query key + mask) value as PyTorch's exporters write it. The scale may be
 * applied to the query, the key or their product; the mask is optional. For a query that attends to
 * no key, the formula is NaN. Exporters replace NaN by zeros, and scaled_dot_product_attention
 * always returns zeros. Nothing else may read the scores, because the operator does not return
 * them. */

#define SCORES "mul(?product, scores:matmul(mul(?at_query, query), mul(?at_key, key)))"
#define MASKED "weights:softmax(add(mask, " SCORES "))"

static const char *const rules[] = {"matmul(weights:softmax(" SCORES "), value)",
                                    "matmul(" MASKED ", value)",
                                    "matmul(where(isnan(weights), zero, " MASKED "), value)"};

enum { N_RULES = sizeof rules / sizeof *rules };

typedef struct folding {
    const alias_t *alias;
    pattern_t patterns[N_RULES];
} folding_t;

static bool swaps_last(const graph_node_t *node)
{
    const ints_t *dims = rewrite_is_op(node, "permute") ? rewrite_attr(node, "dims", ATTR_INTS)
                                                        : NULL;
    if (dims == NULL || dims->n < 2 || node->is_in_place) return false;
    for (int d = 0; d < dims->n; d++) {
        const int64_t from = d < dims->n - 2 ? d : 2 * dims->n - 3 - d;
        if (dims->values[d] != from && dims->values[d] + dims->n != from) return false;
    }
    return true;
}

/* True if the last two sizes are equal, so that a reshape between both shapes keeps these
 * dimensions. */
static bool keeps_last(const tensor_info_t *a, const tensor_info_t *b)
{
    return a != NULL && b != NULL && a->rank >= 2 && b->rank >= 2 &&
           shape_equal(2, &a->sizes[a->rank - 2], 2, &b->sizes[b->rank - 2]);
}

/* The value from which this one is made by swapping the last two dimensions; VALUE_NONE if there is
 * none. One exporter merges batch dimensions before the swap and splits them again after it. */
static value_t before_transpose(const graph_t *graph, value_t value)
{
    const graph_node_t *node = graph_producer(graph, value);
    if (swaps_last(node)) return node->inputs[0];
    if (!rewrite_is_op(node, "reshape") || node->is_in_place) return VALUE_NONE;
    const tensor_info_t *whole = pattern_info(graph, value);
    const tensor_info_t *inner = pattern_info(graph, node->inputs[0]);
    const graph_node_t *swap = graph_producer(graph, node->inputs[0]);
    if (!keeps_last(whole, inner) || !swaps_last(swap)) return VALUE_NONE;
    const graph_node_t *merge = graph_producer(graph, swap->inputs[0]);
    if (!rewrite_is_op(merge, "reshape") || merge->is_in_place) return VALUE_NONE;
    const tensor_info_t *before = pattern_info(graph, merge->inputs[0]);
    const bool is_kept = keeps_last(before, pattern_info(graph, swap->inputs[0])) &&
                         shape_equal(before->rank - 2, before->sizes, whole->rank - 2,
                                     whole->sizes);
    return is_kept ? merge->inputs[0] : VALUE_NONE;
}

/* Checks the shapes: operands have the same dtype and batch dimensions, softmax is over the last
 * dimension, and `node` multiplies the softmax by the values. A mask must be floating point, since
 * it is added. */
static bool has_shapes(const graph_t *graph, const graph_node_t *node, const match_t *match)
{
    const value_t mask = match_value(match, "mask");
    const tensor_info_t *added = pattern_info(graph, mask);
    const tensor_info_t *query = pattern_info(graph, match_value(match, "query"));
    const tensor_info_t *key = pattern_info(graph, match_value(match, "key"));
    const tensor_info_t *value = pattern_info(graph, match_value(match, "value"));
    const graph_node_t *weights = match_node(match, "weights");
    const int64_t *dim = rewrite_attr(weights, "dim", ATTR_INT);
    if (query == NULL || key == NULL || value == NULL || dim == NULL) return false;
    if (mask != VALUE_NONE && (added == NULL || !dtype_is_floating(added->dtype))) return false;
    const int rank = query->rank;
    return rank >= 2 && dtype_is_floating(query->dtype) && query->dtype == key->dtype &&
           query->dtype == value->dtype && (*dim == -1 || *dim == rank - 1) &&
           shape_equal(rank - 2, query->sizes, key->rank - 2, key->sizes) &&
           shape_equal(rank - 2, query->sizes, value->rank - 2, value->sizes) &&
           pattern_same(graph, match_value(match, "scores"), weights->inputs[0]) &&
           pattern_same(graph, match_value(match, "weights"), node->inputs[0]);
}

/* True if the value that replaces NaN is zero, or if NaN is not replaced. */
static status_t read_zero(context_t *ctx, const graph_t *graph, value_t value, bool *out_is)
{
    const datum_t *datum = value < 0 ? NULL : graph_constant(graph, value);
    uint64_t element = 0;
    *out_is = value == VALUE_NONE;
    if (datum == NULL || datum_kind(datum) != DATUM_TENSOR) return STATUS_OK;
    const tensor_t *tensor = datum_as_tensor(datum);
    const dtype_t dtype = tensor_dtype(tensor);
    if (tensor_numel(tensor) != 1) return STATUS_OK;
    TRY(tensor_read(ctx, tensor, &element, dtype_size(dtype)));
    *out_is = dtype_load(dtype, &element) == 0.0;
    return STATUS_OK;
}

/* Prints the dims of a permute that swaps the last two dimensions: "dims=[0,1,3,2]". */
static void print_swap(int rank, text_t *text)
{
    for (int d = 0; d < rank; d++)
        text_append(text, "%s%d", d == 0 ? "dims=[" : ",", d < rank - 2 ? d : 2 * rank - 3 - d);
    text_append(text, "]");
}

static status_t emit_key(rewrite_t *rewrite, const match_t *match, value_t *out_key)
{
    const value_t transposed = match_value(match, "key");
    const value_t key = before_transpose(rewrite->from, transposed);
    text_t dims = text_begin(rewrite->ctx);
    if (key != VALUE_NONE) {
        *out_key = rewrite_value(rewrite, key);
        return STATUS_OK;
    }
    *out_key = rewrite_value(rewrite, transposed);
    print_swap(pattern_info(rewrite->from, transposed)->rank, &dims);
    FINISH(pattern_add(rewrite, "permute", text_string(&dims), 1, out_key,
                       match_node(match, "scores")->path, out_key),
           text_clear(&dims));
}

static status_t emit(rewrite_t *rewrite, const graph_node_t *node, const match_t *match,
                     double scale)
{
    const value_t mask = match_value(match, "mask");
    value_t inputs[4] = {rewrite_value(rewrite, match_value(match, "query")), VALUE_NONE,
                         rewrite_value(rewrite, match_value(match, "value")), VALUE_NONE};
    char attrs[64];
    if (mask != VALUE_NONE) inputs[3] = rewrite_value(rewrite, mask);
    TRY(emit_key(rewrite, match, &inputs[1]));
    snprintf(attrs, sizeof attrs, "scale=%.17g", scale);
    return pattern_replace(rewrite, node, "scaled_dot_product_attention", attrs, 4, inputs);
}

static status_t replace(rewrite_t *rewrite, const graph_node_t *node, bool *out_done)
{
    const folding_t *folding = rewrite->user;
    match_t match;
    for (int i = 0; i < N_RULES && rewrite_is_op(node, "matmul") && !*out_done; i++) {
        bool is_guarded = false;
        if (!pattern_match(&folding->patterns[i], folding->alias, node->outputs[0], &match))
            continue;
        const double scale = match_number(&match, "product") * match_number(&match, "at_query") *
                             match_number(&match, "at_key");
        TRY(read_zero(rewrite->ctx, rewrite->from, match_value(&match, "zero"), &is_guarded));
        if (!is_guarded || !isfinite(scale) || scale == 0.0 ||
            !has_shapes(rewrite->from, node, &match) || !match_is_closed(&match, node->outputs[0]))
            continue;
        TRY(emit(rewrite, node, &match, scale));
        *out_done = true;
    }
    return STATUS_OK;
}

status_t pass_fold_attention(context_t *ctx, const graph_t *graph, const pass_options_t *options,
                             graph_t **out_graph)
{
    folding_t folding;
    (void)options;
    TRY(alias_of(ctx, graph, &folding.alias));
    for (int i = 0; i < N_RULES; i++) pattern_parse(rules[i], &folding.patterns[i]);
    return rewrite_graph(ctx, graph, replace, &folding, out_graph);
}
