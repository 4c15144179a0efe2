#include <string.h>

#include "graph/analysis/alias_impl.h"
#include "graph/ir/graph_impl.h"
#include "graph/ir/size_impl.h"
#include "graph/passes/pass_impl.h"
#include "tensor/hash_impl.h"

/* Compares each node with earlier nodes of the same block or a block around it, after replacing the
 * node's inputs by earlier equal values. Does not change graphs with writes. A value into which a
 * post-op accumulates is not merged, because it must not get more uses. If two equal values are
 * both returned, both stay, because the caller may write to one of them. */

/* An earlier node of this block or of a block around it. */
typedef struct seen {
    uint64_t hash;
    const struct search *search;
    const graph_node_t *node;
    struct seen *before; /* the entry added before this one */
} seen_t;

typedef struct search {
    context_t *ctx;
    const graph_t *graph;
    value_t *stands_for; /* for each old value: itself, or an equal earlier value */
    hash_table_t seen;   /* entries are seen_t */
    seen_t *last;
    bool *is_summed; /* values into which a post-op accumulates */
    const alias_t *alias;
    bool *is_returned; /* [n_classes]: the graph returns the value, or a value it replaces */
    int n_found;
} search_t;

static value_t canonical(const search_t *search, value_t value)
{
    return value < 0 ? value : search->stands_for[value];
}

/* Input i. The first two inputs of commutative operators are sorted. */
static value_t input_at(const search_t *search, const graph_node_t *node, int i)
{
    bool swaps = i < 2 && node->kind == NODE_OP && node->n_inputs >= 2 &&
                 (node->op->traits & TRAIT_COMMUTATIVE) != 0;
    value_t value = canonical(search, node->inputs[i]);
    if (!swaps) return value;
    value_t other = canonical(search, node->inputs[1 - i]);
    return (value <= other) == (i == 0) ? value : other;
}

static bool is_scalar(const datum_t *datum)
{
    datum_kind_t kind = datum_kind(datum);
    return kind != DATUM_TENSOR && kind != DATUM_LIST && kind != DATUM_TUPLE && kind != DATUM_DICT;
}

static status_t note_sum(void *user, const graph_node_t *node)
{
    const search_t *search = user;
    const post_ops_t *post = rewrite_post(node);
    if (post == NULL) return STATUS_OK;
    int at = node->n_inputs - node->n_post_inputs;
    for (int i = 0; i < post->n; i++) {
        if (post->op[i].kind == POST_ELTWISE) continue;
        if (post->op[i].kind == POST_SUM && at < node->n_inputs && node->inputs[at] >= 0)
            search->is_summed[node->inputs[at]] = true;
        at++;
    }
    return STATUS_OK;
}

static bool is_candidate(const search_t *search, const graph_node_t *node)
{
    if (node->n_outputs == 0 || node->n_blocks > 0 || node->kind == NODE_CALL) return false;
    if (node->kind == NODE_OP && (node->op->traits & TRAIT_DRAWS) != 0) return false;
    for (int i = 0; i < node->n_outputs; i++) {
        if (search->is_summed[node->outputs[i]]) return false;
    }
    return node->kind != NODE_CONSTANT || is_scalar(node->datum) ||
           datum_kind(node->datum) == DATUM_TENSOR;
}

static uint64_t hash_of(const search_t *search, const graph_node_t *node)
{
    uint64_t hash = hash_mix(0, (uint64_t)node->kind);
    for (int i = 0; i < node->n_inputs; i++)
        hash = hash_mix(hash, (uint64_t)input_at(search, node, i));
    if (node->kind == NODE_OP) {
        hash = hash_mix(hash, (uint64_t)(uintptr_t)node->op);
        return attrs_hash(&node->op->attrs, node->attrs, hash);
    }
    if (node->kind != NODE_CONSTANT) {
        for (const char *c = node->name; c != NULL && *c != '\0'; c++)
            hash = hash_mix(hash, (uint64_t)(unsigned char)*c);
        return hash;
    }
    hash = hash_mix(hash, (uint64_t)datum_kind(node->datum));
    if (datum_kind(node->datum) == DATUM_TENSOR)
        hash = hash_mix(hash, (uint64_t)(uintptr_t)datum_as_tensor(node->datum));
    return hash;
}

static bool same_constant(context_t *ctx, const datum_t *a, const datum_t *b)
{
    if (datum_kind(a) != datum_kind(b)) return false;
    if (datum_kind(a) == DATUM_TENSOR) return datum_as_tensor(a) == datum_as_tensor(b);
    return datum_equal(ctx, a, b);
}

static bool equal_nodes(const search_t *search, const graph_node_t *a, const graph_node_t *b)
{
    if (a->kind != b->kind || a->n_inputs != b->n_inputs || a->n_outputs != b->n_outputs ||
        a->n_post_inputs != b->n_post_inputs)
        return false;
    for (int i = 0; i < a->n_inputs; i++) {
        if (input_at(search, a, i) != input_at(search, b, i)) return false;
    }
    for (int i = 0; i < a->n_outputs; i++) {
        if (!type_equal(graph_value_type(search->graph, a->outputs[i]),
                        graph_value_type(search->graph, b->outputs[i])))
            return false;
    }
    if (a->kind == NODE_OP)
        return a->op == b->op && attrs_equal(&a->op->attrs, a->attrs, b->attrs) && size_equal(a, b);
    if (a->kind == NODE_CONSTANT) return same_constant(search->ctx, a->datum, b->datum);
    return a->name != NULL && b->name != NULL && strcmp(a->name, b->name) == 0;
}

static bool *returned(const search_t *search, value_t value)
{
    int class = alias_class(search->alias, value);
    return class >= 0 ? &search->is_returned[class] : NULL;
}

/* True if both nodes allocate memory for returned values. */
static bool are_returned(const search_t *search, const graph_node_t *earlier,
                         const graph_node_t *node)
{
    if (node->kind != NODE_OP && node->kind != NODE_BUILTIN) return false;
    for (int o = 0; o < node->n_outputs; o++) {
        const bool *one = returned(search, earlier->outputs[o]);
        const bool *other = returned(search, node->outputs[o]);
        if (one != NULL && other != NULL && *one && *other) return true;
    }
    return false;
}

static bool is_equal(const void *item, const void *node)
{
    const seen_t *seen = item;
    return equal_nodes(seen->search, seen->node, node) &&
           !are_returned(seen->search, seen->node, node);
}

static status_t look_at(search_t *search, const graph_node_t *node)
{
    uint64_t hash = hash_of(search, node);
    const seen_t *earlier = hash_find(&search->seen, hash, is_equal, node);
    if (earlier != NULL) {
        for (int o = 0; o < node->n_outputs; o++) {
            const bool *is_returned = returned(search, node->outputs[o]);
            search->stands_for[node->outputs[o]] = earlier->node->outputs[o];
            if (is_returned != NULL) *returned(search, earlier->node->outputs[o]) |= *is_returned;
        }
        search->n_found++;
        return STATUS_OK;
    }
    seen_t *seen = NULL;
    TRY(context_get(search->ctx, sizeof *seen, "equal nodes", &seen));
    *seen = (seen_t){hash, search, node, search->last};
    search->last = seen;
    return hash_put(search->ctx, &search->seen, hash, seen);
}

/* Removes the entries after `before` when a block ends. */
static void forget(search_t *search, const seen_t *before)
{
    while (search->last != before) {
        seen_t *seen = search->last;
        search->last = seen->before;
        hash_remove(&search->seen, seen->hash, seen);
        context_put(search->ctx, seen);
    }
}

static status_t search_block(search_t *search, const graph_block_t *block)
{
    const seen_t *outer = search->last;
    status_t status = STATUS_OK;
    for (int i = 0; i < block->n_nodes && status == STATUS_OK; i++) {
        const graph_node_t *node = block->nodes[i];
        if (is_candidate(search, node)) status = look_at(search, node);
        for (int b = 0; b < node->n_blocks && status == STATUS_OK; b++)
            status = search_block(search, node->blocks[b]);
    }
    forget(search, outer);
    return status;
}

static status_t share(rewrite_t *rewrite, const graph_node_t *node, bool *out_done)
{
    const search_t *search = rewrite->user;
    if (node->n_outputs == 0 || search->stands_for[node->outputs[0]] == node->outputs[0])
        return STATUS_OK;
    for (int o = 0; o < node->n_outputs; o++)
        rewrite_map(rewrite, node->outputs[o],
                    rewrite_value(rewrite, search->stands_for[node->outputs[o]]));
    *out_done = true;
    return STATUS_OK;
}

static status_t search_and_share(search_t *search, graph_t **out_graph)
{
    int n = graph_n_values(search->graph);
    TRY(context_get(search->ctx, (size_t)n * sizeof *search->stands_for, "equal values",
                    &search->stands_for));
    for (value_t i = 0; i < n; i++) search->stands_for[i] = i;
    TRY(context_get_zeroed(search->ctx, (size_t)n * sizeof *search->is_summed, "summed values",
                           &search->is_summed));
    (void)rewrite_visit(graph_body(search->graph), note_sum, search);
    size_t n_classes = (size_t)search->alias->n_classes;
    TRY(context_get(search->ctx, n_classes * sizeof *search->is_returned, "returned values",
                    &search->is_returned));
    for (size_t i = 0; i < n_classes; i++)
        search->is_returned[i] = search->alias->classes[i].is_returned;
    TRY(search_block(search, graph_body(search->graph)));
    if (search->n_found == 0) return rewrite_nothing(search->graph, out_graph);
    return rewrite_graph(search->ctx, search->graph, share, search, out_graph);
}

status_t pass_common_subexpressions(context_t *ctx, const graph_t *graph,
                                    const pass_options_t *options, graph_t **out_graph)
{
    (void)options;
    const alias_t *alias;
    TRY(alias_of(ctx, graph, &alias));
    if (alias->has_effects) return rewrite_nothing(graph, out_graph);
    search_t search = {.ctx = ctx, .graph = graph, .alias = alias};
    status_t status = search_and_share(&search, out_graph);
    hash_clear(ctx, &search.seen);
    CONTEXT_PUT(ctx, search.is_returned, search.is_summed, search.stands_for);
    return status;
}
