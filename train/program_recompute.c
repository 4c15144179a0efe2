/* Recomputes activations in the backward pass, so that a step needs less memory (gradient
 * checkpointing).
 *
 *   %n, %m, %v = batch_norm_training(%x, %w, %b)
 *   %y = relu(%n)
 *   ...                                                forward, loss
 *   %g = conv2d_backward_weight(%y, ..)                keeps %y alive until here
 *
 * If %x is stored anyway, for the gradient of the batch norm, the last line becomes
 *
 *   %n2, .. = batch_norm_training(%x, %w, %b)          the same nodes, so the same bits
 *   %y2 = relu(%n2)
 *   %g = conv2d_backward_weight(%y2, ..)
 *
 * An activation can be dropped if a few cheap operators (no convolutions, linear or recurrent
 * layers) can recompute it from values that exist when the backward pass first reads it. Candidates
 * are chosen greedily, by bytes saved per estimated time. A value from which another one is
 * recomputed is never dropped. */
#include <stdlib.h>
#include <string.h>

#include "dispatch/select_impl.h"
#include "graph/analysis/alias_impl.h"
#include "graph/analysis/weights_impl.h"
#include "graph/ir/graph_impl.h"
#include "graph/ir/rewrite_impl.h"
#include "train/program_impl.h"

#define MIN_BYTES 65536.0 /* for smaller activations, recomputing does not pay */
#define MAX_CHAIN 4
#define MAX_LEAVES 8

/* An activation that can be recomputed, and the nodes that do this. */
typedef struct chain {
    value_t value;
    int at;               /* the first node of the backward pass that reads it */
    int nodes[MAX_CHAIN]; /* in the order in which they run */
    int n_nodes;
    value_t leaves[MAX_LEAVES]; /* stored values from which it is computed */
    int n_leaves;
    double worth; /* bytes saved per ns */
} chain_t;

typedef struct recompute {
    context_t *ctx;
    const graph_t *from;
    const alias_t *alias;
    int first_backward; /* the first node after the loss */
    int *made;          /* [values] index of the node that computes it; -1: an input of the graph */
    int *first, *last;  /* [values] first and last reader in the backward pass; -1: none */
    bool *is_used;      /* [values] it will be dropped, or a chosen chain reads it */
    int n_chains, capacity;
    chain_t *chains;
    graph_builder_t *to;
    value_t *map, *again; /* [values] in the new graph: the value itself; its recomputed copy */
} recompute_t;

/* ---- selection ---- */

static void note_uses(recompute_t *r)
{
    const graph_block_t *body = graph_body(r->from);
    const int loss = body->results[TRAIN_RESULT_LOSS];
    for (int k = 0; k < body->n_nodes; k++)
        for (int i = 0; i < body->nodes[k]->n_outputs; i++) r->made[body->nodes[k]->outputs[i]] = k;
    r->first_backward = r->made[loss] + 1;
    for (int k = r->first_backward; k < body->n_nodes; k++)
        for (int i = 0; i < body->nodes[k]->n_inputs; i++) {
            const value_t input = body->nodes[k]->inputs[i];
            if (input < 0) continue;
            if (r->first[input] < 0) r->first[input] = k;
            r->last[input] = k;
        }
}

static bool is_forward(const recompute_t *r, value_t value)
{
    return r->made[value] >= 0 && r->made[value] < r->first_backward;
}

/* True for operators without a preferred layout (convolutions and others have one) that return the
 * same result each time. */
static bool is_cheap(const graph_node_t *node)
{
    return node->kind == NODE_OP && !node->is_in_place && node->op->preference != OP_PREFERS &&
           (node->op->traits & (TRAIT_DRAWS | TRAIT_MEASURES | TRAIT_VIEW)) == 0 &&
           !graph_is_conversion(node->op);
}

/* True if the value exists during the complete step: an input, a tensor of the module, a constant,
 * or a conversion of one of the last two. */
static bool is_lasting(const recompute_t *r, value_t value)
{
    const graph_node_t *node = graph_producer(r->from, value);
    if (node == NULL || node->kind == NODE_GETATTR || node->kind == NODE_CONSTANT) return true;
    return node->kind == NODE_OP && graph_is_conversion(node->op) &&
           is_lasting(r, node->inputs[0]) && graph_producer(r->from, node->inputs[0]) != NULL;
}

static double bytes_of(const recompute_t *r, value_t value)
{
    const graph_type_t *type = value >= 0 ? graph_value_type(r->from, value) : NULL;
    return type != NULL && type_is_static(type) ? (double)info_bytes(&type->info) : 0.0;
}

/* True if dropping the value saves enough memory: a forward value that the backward pass reads, and
 * that shares its memory with no other value. */
static bool may_be_dropped(const recompute_t *r, value_t value)
{
    const alias_class_t *class = &r->alias->classes[alias_class(r->alias, value)];
    return is_forward(r, value) && r->first[value] >= 0 && !class->is_returned &&
           !class->is_in_place && !class->has_views && class->keeper == NULL &&
           bytes_of(r, value) >= MIN_BYTES;
}

/* Estimates the time of the kernel that the plan will choose. */
static status_t cost_of(const recompute_t *r, const graph_node_t *node, double *out_ns)
{
    static const tensor_info_t absent = {.dtype = DTYPE_NONE};
    const tensor_info_t *infos[OP_MAX_INPUTS];
    const tensor_info_t *said = &graph_value_type(r->from, node->outputs[0])->info;
    const bool is_mkldnn = said->layout == LAYOUT_MKLDNN;
    prepared_t *prepared = NULL;
    for (int i = 0; i < node->n_inputs; i++) {
        const value_t input = node->inputs[i];
        infos[i] = input >= 0 ? &graph_value_type(r->from, input)->info : &absent;
        if (input >= 0 && !type_is_static(graph_value_type(r->from, input)))
            return STATUS_UNSUPPORTED;
    }
    TRY(select_fixed(r->ctx, node->op, node->attrs, node->n_inputs, infos,
                     weights_of(r->from, node), is_mkldnn ? LAYOUT_MKLDNN : LAYOUT_DENSE,
                     is_mkldnn ? &said->format : NULL, node->kernel, &prepared));
    *out_ns = prepared->cost_ns > 1.0 ? prepared->cost_ns : 1.0;
    prepared_release(prepared);
    return STATUS_OK;
}

static bool add_node(const recompute_t *r, chain_t *chain, int k);

/* Makes an operand available to a chain: as a leaf if it still exists when the chain runs, else by
 * adding the node that computes it. Returns false if neither is possible. */
static bool add_operand(const recompute_t *r, chain_t *chain, value_t value)
{
    if (value < 0 || is_lasting(r, value)) return true;
    for (int i = 0; i < chain->n_nodes; i++)
        if (chain->nodes[i] == r->made[value]) return true;
    if (r->last[value] < chain->at) {
        return is_forward(r, value) && add_node(r, chain, r->made[value]);
    }
    if (chain->n_leaves == MAX_LEAVES) return false;
    chain->leaves[chain->n_leaves++] = value;
    return true;
}

static bool add_node(const recompute_t *r, chain_t *chain, int k)
{
    const graph_node_t *node = graph_body(r->from)->nodes[k];
    if (!is_cheap(node) || node->n_inputs > OP_MAX_INPUTS || node->n_outputs > OP_MAX_OUTPUTS)
        return false;
    for (int i = 0; i < node->n_inputs; i++)
        if (!add_operand(r, chain, node->inputs[i])) return false;
    if (chain->n_nodes == MAX_CHAIN) return false;
    chain->nodes[chain->n_nodes++] = k;
    return true;
}

/* Sums the times of a chain's nodes. *out_cost is 0 if a node would need its operands in other
 * formats. */
static status_t add_costs(const recompute_t *r, const chain_t *chain, double *out_cost)
{
    double sum = 0.0;
    *out_cost = 0.0;
    for (int i = 0; i < chain->n_nodes; i++) {
        double ns = 0.0;
        status_t status = cost_of(r, graph_body(r->from)->nodes[chain->nodes[i]], &ns);
        if (status == STATUS_UNSUPPORTED) return STATUS_OK;
        TRY(status);
        sum += ns;
    }
    *out_cost = sum;
    return STATUS_OK;
}

static status_t list_chains(recompute_t *r)
{
    for (value_t v = 0; v < graph_n_values(r->from); v++) {
        double cost = 0.0;
        if (!may_be_dropped(r, v)) continue;
        chain_t chain = {.value = v, .at = r->first[v]};
        if (!add_node(r, &chain, r->made[v])) continue;
        TRY(add_costs(r, &chain, &cost));
        if (cost == 0.0) continue;
        chain.worth = bytes_of(r, v) / cost;
        TRY(context_grow(r->ctx, &r->chains, &r->capacity, r->n_chains + 1, sizeof *r->chains));
        r->chains[r->n_chains++] = chain;
    }
    return STATUS_OK;
}

static int compare_chains(const void *a, const void *b)
{
    const chain_t *first = a, *second = b;
    if (first->worth != second->worth) return first->worth < second->worth ? 1 : -1;
    return first->value - second->value;
}

static bool is_free(const recompute_t *r, const chain_t *chain)
{
    bool is_free = !r->is_used[chain->value];
    for (int i = 0; i < chain->n_leaves; i++) is_free &= r->again[chain->leaves[i]] == VALUE_NONE;
    return is_free;
}

/* Chooses the best chains, such that no chosen chain reads a value that is dropped. */
static void choose_chains(recompute_t *r)
{
    int n = 0;
    if (r->n_chains == 0) return; /* qsort does not accept NULL */
    qsort(r->chains, (size_t)r->n_chains, sizeof *r->chains, compare_chains);
    for (int i = 0; i < r->n_chains; i++) {
        const chain_t chain = r->chains[i];
        if (!is_free(r, &chain)) continue;
        r->is_used[chain.value] = true;
        r->again[chain.value] = chain.value; /* temporary mark for "dropped" */
        for (int k = 0; k < chain.n_leaves; k++) r->is_used[chain.leaves[k]] = true;
        r->chains[n++] = chain;
    }
    r->n_chains = n;
}

/* ---- rewriting ---- */

/* Copies a node. In the backward pass, it reads recomputed values instead of dropped ones. */
static void copy_node(recompute_t *r, const graph_node_t *node, bool is_backward,
                      value_t *out_values)
{
    const graph_type_t *types[OP_MAX_OUTPUTS];
    const char *names[OP_MAX_OUTPUTS] = {NULL};
    value_t inputs[OP_MAX_INPUTS];
    for (int i = 0; i < node->n_inputs; i++) {
        const value_t input = node->inputs[i];
        const bool is_again = is_backward && input >= 0 && r->again[input] != VALUE_NONE;
        inputs[i] = input < 0 ? VALUE_NONE : is_again ? r->again[input] : r->map[input];
    }
    for (int i = 0; i < node->n_outputs; i++) {
        types[i] = graph_value_type(r->from, node->outputs[i]);
        if (out_values == NULL) names[i] = rewrite_name(r->from, node->outputs[i]);
    }
    value_t outputs[OP_MAX_OUTPUTS];
    graph_add_node(r->to, node, inputs, types, names, outputs);
    for (int i = 0; i < node->n_outputs; i++)
        *(out_values != NULL ? &out_values[i] : &r->map[node->outputs[i]]) = outputs[i];
}

/* Copies the nodes of a chain. Nodes outside of the chain read only its last value. */
static void add_chain(recompute_t *r, const chain_t *chain)
{
    const graph_block_t *body = graph_body(r->from);
    value_t outputs[OP_MAX_OUTPUTS];
    for (int i = 0; i < chain->n_nodes; i++) {
        const graph_node_t *node = body->nodes[chain->nodes[i]];
        copy_node(r, node, true, outputs);
        for (int k = 0; k < node->n_outputs; k++) r->again[node->outputs[k]] = outputs[k];
    }
    for (int i = 0; i < chain->n_nodes; i++) {
        const graph_node_t *node = body->nodes[chain->nodes[i]];
        for (int k = 0; k < node->n_outputs; k++)
            if (node->outputs[k] != chain->value) r->again[node->outputs[k]] = VALUE_NONE;
    }
}

static status_t copy_graph(recompute_t *r, int n_chains, graph_t **out_graph)
{
    const graph_block_t *body = graph_body(r->from);
    value_t *results = NULL;
    for (value_t v = 0; v < graph_n_values(r->from); v++) r->again[v] = VALUE_NONE;
    for (int i = 0; i < body->n_params; i++)
        r->map[body->params[i]] = graph_add_param(r->to, rewrite_name(r->from, body->params[i]),
                                                  graph_value_type(r->from, body->params[i]));
    for (int k = 0; k < body->n_nodes; k++) {
        for (int i = 0; i < n_chains; i++)
            if (r->chains[i].at == k) add_chain(r, &r->chains[i]);
        copy_node(r, body->nodes[k], k >= r->first_backward, NULL);
    }
    TRY(context_get(r->ctx, (size_t)body->n_results * sizeof *results, "results", &results));
    for (int i = 0; i < body->n_results; i++)
        results[i] = body->results[i] < 0 ? VALUE_NONE : r->map[body->results[i]];
    FINISH(graph_finish(r->to, body->n_results, results, out_graph), context_put(r->ctx, results));
}

static bool fits(const graph_t *graph)
{
    const graph_block_t *body = graph_body(graph);
    for (int k = 0; k < body->n_nodes; k++)
        if (body->nodes[k]->n_blocks > 0 || body->nodes[k]->n_inputs > OP_MAX_INPUTS ||
            body->nodes[k]->n_outputs > OP_MAX_OUTPUTS)
            return false;
    return graph_producer(graph, body->results[TRAIN_RESULT_LOSS]) != NULL;
}

static status_t rewrite(recompute_t *r, int *n, graph_t **out_graph)
{
    TRY(alias_of(r->ctx, r->from, &r->alias));
    note_uses(r);
    TRY(list_chains(r));
    choose_chains(r);
    if (*n < 0 || *n > r->n_chains) *n = r->n_chains;
    TRY(graph_builder_create(r->ctx, graph_name(r->from), &r->to));
    FINISH(copy_graph(r, *n, out_graph), graph_builder_destroy(r->to));
}

status_t train_recompute(context_t *ctx, const graph_t *graph, int *n, graph_t **out_graph)
{
    const size_t n_values = (size_t)graph_n_values(graph);
    recompute_t r = {.ctx = ctx, .from = graph};
    char *block = NULL;
    if (*n == 0 || !fits(graph)) {
        *n = 0;
        return rewrite_nothing(graph, out_graph);
    }
    TRY(context_get_zeroed(ctx, n_values * (3 * sizeof(int) + 2 * sizeof(value_t) + sizeof(bool)),
                           "values of a graph", &block));
    r.map = (value_t *)(void *)block;
    r.again = r.map + n_values;
    r.made = (int *)(void *)(r.again + n_values);
    r.first = r.made + n_values;
    r.last = r.first + n_values;
    r.is_used = (bool *)(void *)(r.last + n_values);
    for (size_t i = 0; i < n_values; i++) {
        r.made[i] = r.first[i] = r.last[i] = -1;
        r.map[i] = r.again[i] = VALUE_NONE;
    }
    FINISH(rewrite(&r, n, out_graph), CONTEXT_PUT(ctx, r.chains, block));
}
