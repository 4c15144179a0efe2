#include <string.h>

#include "dispatch/choose_impl.h"
#include "graph/graph_impl.h"
#include "graph/pass_impl.h"
#include "graph/passes/alias_impl.h"
#include "ops/activation_impl.h"
#include "tensor/context_impl.h"

/* Chains from an operator that takes post-ops (the anchor) through activations and additions, each
 * the only use of the one before, all in one block. The fused operator stands where the chain ends,
 * because the tensors that are added must have been made. */

typedef struct chain {
    const graph_node_t *anchor;
    post_ops_t post;
    value_t operands[POST_MAX]; /* that were added to the anchor's own */
    int n_operands;
    value_t end;
} chain_t;

/* What is known of a value: the block that makes it, and how it is used there. */
typedef struct usage {
    const graph_block_t *home;
    int made_at;  /* index in home's nodes */
    int last_use; /* the same, inner blocks included */
    bool
        is_shared; /* something that outlives a use may share its bytes: a view, a list, a result */
    int chain;     /* of which it is the end or a middle; -1: none */
} usage_t;

typedef struct fusing {
    context_t *ctx;
    const graph_t *graph;
    alias_t alias;
    usage_t *usages;
    chain_t *chains;
    int n_chains;
    int capacity;
} fusing_t;

/* ---- uses ---- */

typedef struct level {
    const graph_block_t *block;
    int index;
    const struct level *outer;
} level_t;

static void note_use(fusing_t *fusing, const level_t *level, value_t value, bool is_shared)
{
    if (value < 0) return;
    usage_t *usage = &fusing->usages[value];
    usage->is_shared |= is_shared || level->block != usage->home;
    while (level != NULL && level->block != usage->home) level = level->outer;
    if (level != NULL) usage->last_use = level->index;
}

static void note_uses(fusing_t *fusing, const graph_block_t *block, const level_t *outer)
{
    level_t level = {block, 0, outer};
    for (int i = 0; i < block->n_params; i++) fusing->usages[block->params[i]].home = block;
    for (; level.index < block->n_nodes; level.index++) {
        const graph_node_t *node = block->nodes[level.index];
        for (int i = 0; i < node->n_inputs; i++)
            note_use(fusing, &level, node->inputs[i], alias_shares(node));
        for (int i = 0; i < node->n_blocks; i++) note_uses(fusing, node->blocks[i], &level);
        for (int i = 0; i < node->n_outputs; i++) {
            fusing->usages[node->outputs[i]].home = block;
            fusing->usages[node->outputs[i]].made_at = level.index;
        }
    }
    for (int i = 0; i < block->n_results; i++) note_use(fusing, &level, block->results[i], true);
}

/* ---- chains ---- */

static bool is_anchor(const graph_node_t *node)
{
    return node != NULL && node->kind == NODE_OP && (node->op->traits & TRAIT_POST_OPS) != 0 &&
           !node->is_in_place && node->n_outputs == 1 && rewrite_post(node) != NULL;
}

static bool is_written(const fusing_t *fusing, int n, const value_t *values)
{
    bool written = false;
    for (int i = 0; i < n; i++) written |= alias_is_mutated(&fusing->alias, values[i]);
    return written;
}

/* The chain that ends in this value, or -1: begins one if an anchor makes it. */
static status_t chain_at(fusing_t *fusing, const graph_block_t *block, value_t value,
                         int *out_chain)
{
    *out_chain = -1;
    if (value < 0 || graph_n_uses(fusing->graph, value) != 1) return STATUS_OK;
    usage_t *usage = &fusing->usages[value];
    if (usage->home != block) return STATUS_OK;
    if (usage->chain < 0) {
        const graph_node_t *anchor = graph_producer(fusing->graph, value);
        if (!is_anchor(anchor) || is_written(fusing, anchor->n_inputs, anchor->inputs))
            return STATUS_OK;
        TRY(context_grow(fusing->ctx, &fusing->chains, &fusing->capacity, fusing->n_chains + 1,
                         sizeof *fusing->chains));
        fusing->chains[fusing->n_chains] = (chain_t){
            .anchor = anchor, .post = *rewrite_post(anchor), .end = value};
        usage->chain = fusing->n_chains++;
    }
    if (fusing->chains[usage->chain].post.n < POST_MAX) *out_chain = usage->chain;
    return STATUS_OK;
}

static void extend(fusing_t *fusing, int place, const graph_node_t *node, post_op_t op)
{
    chain_t *chain = &fusing->chains[place];
    chain->post.op[chain->post.n++] = op;
    chain->end = node->outputs[0];
    fusing->usages[chain->end].chain = place;
}

static bool is_floating(const fusing_t *fusing, value_t value)
{
    const graph_type_t *type = graph_value_type(fusing->graph, value);
    return type->kind != TYPE_TENSOR || !type->has_info || dtype_is_floating(type->info.dtype);
}

static status_t look_at_activation(fusing_t *fusing, const graph_block_t *block,
                                   const graph_node_t *node)
{
    post_op_t op = {.kind = POST_ELTWISE};
    onednn_post_op_t unused;
    if (node->n_inputs < 1 ||
        !activation_eltwise(node->op, node->attrs, &op.eltwise, &op.alpha, &op.beta))
        return STATUS_OK;
    int place;
    TRY(chain_at(fusing, block, node->inputs[0], &place));
    if (place < 0 || !is_floating(fusing, node->inputs[0])) return STATUS_OK;
    if (choose_eltwise(op.eltwise, op.alpha, op.beta, &unused))
        extend(fusing, place, node, op);
    else
        pass_note(fusing->ctx, "fuse_post_ops", node, "oneDNN has no such post-op");
    return STATUS_OK;
}

static bool same_tensors(const fusing_t *fusing, value_t a, value_t b)
{
    const graph_type_t *x = graph_value_type(fusing->graph, a);
    const graph_type_t *y = graph_value_type(fusing->graph, b);
    if (x->kind != TYPE_TENSOR || y->kind != TYPE_TENSOR || !x->has_info || !y->has_info)
        return false;
    return type_is_static(x) && x->info.dtype == y->info.dtype &&
           shape_equal(x->info.rank, x->info.sizes, y->info.rank, y->info.sizes);
}

/* True if the result may be accumulated on the tensor: an operator made it in this block, for uses
 * that are over, and nobody else can see its bytes. */
static bool is_free(const fusing_t *fusing, const graph_block_t *block, int index, value_t value)
{
    const graph_node_t *producer = graph_producer(fusing->graph, value);
    const usage_t *usage = &fusing->usages[value];
    return producer != NULL && producer->kind == NODE_OP && !alias_shares(producer) &&
           usage->home == block && usage->last_use == index && !usage->is_shared;
}

static bool has_sum(const post_ops_t *post)
{
    bool has = false;
    for (int i = 0; i < post->n; i++) has |= post->op[i].kind == POST_SUM;
    return has;
}

static bool reads(const chain_t *chain, value_t value)
{
    bool found = false;
    for (int i = 0; i < chain->anchor->n_inputs; i++) found |= chain->anchor->inputs[i] == value;
    for (int i = 0; i < chain->n_operands; i++) found |= chain->operands[i] == value;
    return found;
}

static status_t look_at_add(fusing_t *fusing, const graph_block_t *block, int index)
{
    const graph_node_t *node = block->nodes[index];
    if (!rewrite_is_op(node, "add") || node->n_inputs != 2) return STATUS_OK;
    for (int i = 0; i < (node->is_in_place ? 1 : 2); i++) {
        value_t other = node->inputs[1 - i];
        int place;
        TRY(chain_at(fusing, block, node->inputs[i], &place));
        if (place < 0 || other < 0) continue;
        if (!same_tensors(fusing, node->inputs[i], other) ||
            !same_tensors(fusing, other, node->outputs[0]) || !is_floating(fusing, other) ||
            is_written(fusing, 1, &other)) {
            pass_note(fusing->ctx, "fuse_post_ops", node,
                      "the tensors added are not of one known shape and dtype, or are written");
            continue;
        }
        chain_t *chain = &fusing->chains[place];
        bool is_sum = !has_sum(&chain->post) && !reads(chain, other) &&
                      is_free(fusing, block, index, other);
        chain->operands[chain->n_operands++] = other;
        extend(fusing, place, node, (post_op_t){.kind = is_sum ? POST_SUM : POST_ADD});
        return STATUS_OK;
    }
    return STATUS_OK;
}

static status_t find_chains(fusing_t *fusing, const graph_block_t *block)
{
    for (int i = 0; i < block->n_nodes; i++) {
        const graph_node_t *node = block->nodes[i];
        if (node->kind == NODE_OP && node->n_outputs == 1) {
            TRY(look_at_activation(fusing, block, node));
            TRY(look_at_add(fusing, block, i));
        }
        for (int b = 0; b < node->n_blocks; b++) TRY(find_chains(fusing, node->blocks[b]));
    }
    return STATUS_OK;
}

/* Fusing moves an anchor down to the end of its chain: if it comes to read a tensor after that was
 * accumulated on, it is to be added only. */
static void check_sum(fusing_t *fusing, int place)
{
    chain_t *chain = &fusing->chains[place];
    int operand = chain->n_operands - post_operands(&chain->post);
    for (int i = 0; i < chain->post.n; i++) {
        if (chain->post.op[i].kind == POST_ELTWISE) continue;
        int at = operand++;
        if (at < 0 || chain->post.op[i].kind != POST_SUM) continue;
        value_t value = chain->operands[at];
        for (int other = 0; other < fusing->n_chains; other++) {
            const chain_t *reader = &fusing->chains[other];
            if (other != place && reads(reader, value) &&
                fusing->usages[reader->end].made_at > fusing->usages[value].last_use)
                chain->post.op[i].kind = POST_ADD;
        }
    }
}

/* ---- rewriting ---- */

/* The anchor with its own operands (those left out said so), then those of post-ops. */
static status_t emit_chain(rewrite_t *rewrite, const chain_t *chain)
{
    context_t *ctx = rewrite->ctx;
    graph_node_t node = *chain->anchor;
    int n_old = node.n_inputs - node.n_post_inputs;
    int n_own = n_old > node.op->n_operands ? n_old : node.op->n_operands;
    value_t inputs[OP_MAX_INPUTS + 2 * POST_MAX];
    INVARIANT(n_own <= OP_MAX_INPUTS);
    for (int i = 0; i < n_own; i++)
        inputs[i] = i < n_old ? rewrite_value(rewrite, node.inputs[i]) : GRAPH_NONE;
    int n = n_own;
    for (int i = 0; i < node.n_post_inputs; i++)
        inputs[n++] = rewrite_value(rewrite, node.inputs[n_old + i]);
    for (int i = 0; i < chain->n_operands; i++)
        inputs[n++] = rewrite_value(rewrite, chain->operands[i]);

    void *attrs;
    TRY(context_get(ctx, node.op->attrs.bytes, "attributes", &attrs));
    memcpy(attrs, node.attrs, node.op->attrs.bytes);
    post_ops_t *post = rewrite_attr_in(&node, attrs, NULL, ATTR_POST);
    *post = chain->post;
    node.attrs = attrs;
    node.n_inputs = n;
    node.inputs = inputs;
    node.n_post_inputs = n - n_own;
    status_t status = rewrite_emit(rewrite, &node, inputs, &chain->end);
    context_put(ctx, attrs);
    return status;
}

static const chain_t *chain_of(const fusing_t *fusing, const graph_node_t *node)
{
    int place = node->n_outputs == 1 ? fusing->usages[node->outputs[0]].chain : -1;
    if (place < 0) return NULL;
    const chain_t *chain = &fusing->chains[place];
    return chain->end != chain->anchor->outputs[0] ? chain : NULL;
}

static status_t fuse_node(rewrite_t *rewrite, const graph_node_t *node, bool *out_done)
{
    const chain_t *chain = chain_of(rewrite->user, node);
    if (chain == NULL) return STATUS_OK;
    *out_done = true;
    return chain->end == node->outputs[0] ? emit_chain(rewrite, chain) : STATUS_OK;
}

static status_t find_and_fuse(fusing_t *fusing, graph_t **out_graph)
{
    const graph_t *graph = fusing->graph;
    int n = graph_n_values(graph);
    TRY(alias_analyze(fusing->ctx, graph, &fusing->alias));
    TRY(context_get_zeroed(fusing->ctx, (size_t)n * sizeof *fusing->usages, "uses of values",
                           &fusing->usages));
    for (int i = 0; i < n; i++) fusing->usages[i].chain = -1;
    note_uses(fusing, graph_body(graph), NULL);
    TRY(find_chains(fusing, graph_body(graph)));
    for (int i = 0; i < fusing->n_chains; i++) check_sum(fusing, i);
    bool found = false;
    for (int i = 0; i < fusing->n_chains; i++)
        found |= fusing->chains[i].end != fusing->chains[i].anchor->outputs[0];
    if (!found) return rewrite_nothing(graph, out_graph);
    return rewrite_graph(fusing->ctx, graph, fuse_node, fusing, out_graph);
}

status_t pass_fuse_post_ops(context_t *ctx, const graph_t *graph, const pass_options_t *options,
                            graph_t **out_graph)
{
    (void)options;
    fusing_t fusing = {.ctx = ctx, .graph = graph};
    status_t status = find_and_fuse(&fusing, out_graph);
    context_put(ctx, fusing.chains);
    context_put(ctx, fusing.usages);
    alias_clear(&fusing.alias);
    return status;
}
