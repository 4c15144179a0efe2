#include <math.h>
#include <string.h>

#include "dispatch/choose/choose_impl.h"
#include "graph/analysis/alias_impl.h"
#include "graph/ir/graph_impl.h"
#include "graph/passes/pass_impl.h"
#include "tensor/context_impl.h"

/* Finds chains: an operator that supports post-ops (the anchor), followed by activations and binary
 * operators in the same block. Each of these is the only reader of the node before it. The fused
 * operator comes at the end of the chain, where all operands exist. */

typedef struct chain {
    const graph_node_t *anchor;
    post_ops_t post;
    value_t operands[POST_MAX]; /* operands of post-ops */
    int n_operands;
    value_t end;
} chain_t;

/* The block in which a value is produced, and how that block uses the value. */
typedef struct usage {
    const graph_block_t *home;
    int made_at;    /* index in home's nodes of the node that produces it */
    int last_use;   /* index in home's nodes, including uses in inner blocks */
    bool is_shared; /* bytes may be read after the last use: by a view, list or result */
    int chain;      /* the chain that it is part of; -1: none */
} usage_t;

typedef struct fusing {
    context_t *ctx;
    const graph_t *graph;
    const alias_t *alias;
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
    for (int i = 0; i < n; i++) written |= alias_is_mutated(fusing->alias, values[i]);
    return written;
}

/* Index of the chain that ends in this value, or of a new chain if an anchor produces the value;
 * else -1. */
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
    *out_chain = usage->chain;
    return STATUS_OK;
}

/* The post-ops that a node would add to a chain. */
typedef struct link {
    int n;
    post_op_t op[2];
    value_t operand; /* operand of the last post-op, or VALUE_NONE */
} link_t;

static void leave(const fusing_t *fusing, const graph_node_t *node, const char *reason)
{
    pass_note(fusing->ctx, "fuse_post_ops", node, reason);
}

static bool is_linear(const post_op_t *op)
{
    return op->kind == POST_ELTWISE && op->eltwise == ELTWISE_LINEAR;
}

/* Appends a post-op, or merges it with the last one if both are linear functions. */
static void append(post_ops_t *post, const post_op_t *op)
{
    post_op_t *last = post->n > 0 ? &post->op[post->n - 1] : NULL;
    if (last != NULL && is_linear(last) && is_linear(op)) {
        last->alpha *= op->alpha;
        last->beta = last->beta * op->alpha + op->beta;
    } else {
        post->op[post->n++] = *op;
    }
}

/* Adds the node to the chain. If the anchor does not support this, reports the reason and returns
 * false. */
static bool extend(fusing_t *fusing, int place, const graph_node_t *node, const link_t *link)
{
    chain_t *chain = &fusing->chains[place];
    post_ops_t post = chain->post;
    const char *reason = NULL;
    for (int i = 0; i < link->n && reason == NULL; i++) {
        if (post.n == POST_MAX && !(is_linear(&post.op[post.n - 1]) && is_linear(&link->op[i])))
            reason = "the operator has the maximum number of post-ops";
        else
            append(&post, &link->op[i]);
    }
    if (reason == NULL && !choose_tells_apart(&post))
        reason = "oneDNN confuses two post-ops of the same function";
    if (reason != NULL) {
        leave(fusing, node, reason);
        return false;
    }
    chain->post = post;
    if (link->operand != VALUE_NONE) chain->operands[chain->n_operands++] = link->operand;
    chain->end = node->outputs[0];
    fusing->usages[chain->end].chain = place;
    return true;
}

/* True if the chain computes floating-point numbers. Operators with a weight or state always do;
 * for others the type must be known. */
static bool is_floating(const fusing_t *fusing, const chain_t *chain)
{
    const graph_type_t *type = graph_value_type(fusing->graph, chain->end);
    if (type->kind == TYPE_TENSOR && type->has_info) return dtype_is_floating(type->info.dtype);
    bool has_weight = false;
    for (int i = 0; i < chain->anchor->op->n_operands; i++)
        has_weight |= chain->anchor->op->operands[i].role == ROLE_WEIGHT ||
                      chain->anchor->op->operands[i].role == ROLE_STATE;
    return has_weight;
}

/* ---- activations ---- */

static post_op_t function(eltwise_t eltwise, double alpha, double beta)
{
    return (post_op_t){.kind = POST_ELTWISE, .eltwise = eltwise, .alpha = alpha, .beta = beta};
}

/* Reads a constant that is a number or a floating-point tensor of one element. */
static status_t read_number(const fusing_t *fusing, value_t value, double *out_number, bool *out_is)
{
    const datum_t *datum = value < 0 ? NULL : graph_constant(fusing->graph, value);
    *out_is = false;
    if (datum == NULL) return STATUS_OK;
    datum_kind_t kind = datum_kind(datum);
    if (kind == DATUM_INT || kind == DATUM_FLOAT) {
        *out_number = datum_as_float(datum);
        *out_is = true;
    } else if (kind == DATUM_TENSOR) {
        const tensor_t *tensor = datum_as_tensor(datum);
        uint64_t element = 0;
        if (tensor_numel(tensor) != 1 || !dtype_is_floating(tensor_dtype(tensor))) return STATUS_OK;
        TRY(tensor_read(fusing->ctx, tensor, &element, dtype_size(tensor_dtype(tensor))));
        *out_number = dtype_load(tensor_dtype(tensor), &element);
        *out_is = true;
    }
    return STATUS_OK;
}

/* Describes a function as post-ops. Some functions are composed of functions that oneDNN has, with
 * equal results. */
static const char *describe_function(post_op_t op, link_t *out_link)
{
    onednn_post_op_t unused;
    out_link->n = 1;
    out_link->operand = VALUE_NONE;
    out_link->op[0] = op;
    if (op.eltwise == ELTWISE_NEG) {
        out_link->op[0] = function(ELTWISE_LINEAR, -1.0, 0.0);
    } else if (op.eltwise == ELTWISE_SELU) { /* scale * elu(x, alpha) */
        double scale = eltwise_value(ELTWISE_SELU, 1.0, 0.0, 0.0);
        double alpha = eltwise_value(ELTWISE_SELU, -1.0, 0.0, 0.0) / scale / expm1(-1.0);
        out_link->op[0] = function(ELTWISE_ELU, alpha, 0.0);
        out_link->op[out_link->n++] = function(ELTWISE_LINEAR, scale, 0.0);
    }
    if (!choose_eltwise(out_link->op[0].eltwise, op.alpha, op.beta, &unused))
        return "oneDNN has no such post-op, or a wrong one";
    return NULL;
}

static bool is_post_op(const graph_node_t *node, post_op_t *out_post)
{
    return node->kind == NODE_OP && node->op->as_post_op != NULL &&
           node->op->as_post_op(node->op, node->attrs, out_post);
}

static status_t look_at_activation(fusing_t *fusing, const graph_block_t *block,
                                   const graph_node_t *node)
{
    post_op_t op = {.kind = POST_ELTWISE};
    link_t link;
    int place;
    bool is_prelu = rewrite_is_op(node, "prelu");
    if (node->n_inputs < 1 || (!is_prelu && !(is_post_op(node, &op) && op.kind == POST_ELTWISE)))
        return STATUS_OK;
    TRY(chain_at(fusing, block, node->inputs[0], &place));
    if (place < 0 || !is_floating(fusing, &fusing->chains[place])) return STATUS_OK;
    if (is_prelu) {
        bool has_one = false;
        TRY(read_number(fusing, node->inputs[1], &op.alpha, &has_one));
        if (!has_one || is_written(fusing, 1, &node->inputs[1])) {
            leave(fusing, node, "its slope is not one known number");
            return STATUS_OK;
        }
        op.eltwise = ELTWISE_LEAKY_RELU;
    }
    const char *reason = describe_function(op, &link);
    if (reason == NULL)
        extend(fusing, place, node, &link);
    else
        leave(fusing, node, reason);
    return STATUS_OK;
}

/* ---- operators of two operands ---- */

static bool same_tensors(const fusing_t *fusing, value_t a, value_t b)
{
    const graph_type_t *x = graph_value_type(fusing->graph, a);
    const graph_type_t *y = graph_value_type(fusing->graph, b);
    if (x->kind != TYPE_TENSOR || y->kind != TYPE_TENSOR || !x->has_info || !y->has_info)
        return false;
    return type_is_static(x) && x->info.dtype == y->info.dtype &&
           shape_equal(x->info.rank, x->info.sizes, y->info.rank, y->info.sizes);
}

/* True if the result may be accumulated into the tensor: an operator in this block produced it,
 * nothing reads it later, and no other value shares its bytes. */
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

/* Describes x op c or, if the chain is the second operand, c op x. */
static const char *describe_number(post_kind_t kind, bool is_second, double c, link_t *out_link)
{
    double inverse = 1.0 / c;
    out_link->n = 1;
    out_link->operand = VALUE_NONE;
    if (!isfinite((float)c)) return "the number is not finite";
    switch (kind) {
    case POST_ADD: out_link->op[0] = function(ELTWISE_LINEAR, 1.0, c); break;
    case POST_SUB:
        out_link->op[0] = function(ELTWISE_LINEAR, is_second ? -1.0 : 1.0, is_second ? c : -c);
        break;
    case POST_MUL: out_link->op[0] = function(ELTWISE_LINEAR, c, 0.0); break;
    case POST_MAXIMUM: out_link->op[0] = function(ELTWISE_CLAMP, c, INFINITY); break;
    case POST_MINIMUM: out_link->op[0] = function(ELTWISE_CLAMP, -INFINITY, c); break;
    default:
        if (is_second) return "a number divided by the result is not a post-op";
        if (!isfinite((float)inverse)) return "the number has no inverse";
        out_link->op[0] = function(ELTWISE_LINEAR, inverse, 0.0);
        break;
    }
    return NULL;
}

/* True for one element, or one for each channel. The channels are dimension 1 after a conv (whose
 * weight has more than two dimensions), else the last dimension. Other broadcasts would be slow. */
static bool broadcasts(const fusing_t *fusing, const chain_t *chain, const tensor_info_t *operand,
                       const tensor_info_t *result)
{
    bool is_conv = false;
    for (int i = 0; i < chain->anchor->op->n_operands; i++) {
        value_t value = i < chain->anchor->n_inputs ? chain->anchor->inputs[i] : VALUE_NONE;
        if (value < 0 || chain->anchor->op->operands[i].role != ROLE_WEIGHT) continue;
        const graph_type_t *type = graph_value_type(fusing->graph, value);
        is_conv = type->kind == TYPE_TENSOR && type->has_info && type->info.rank > 2;
    }
    int channel = is_conv ? 1 : result->rank - 1;
    for (int d = 0; d < operand->rank; d++) {
        int at = d + result->rank - operand->rank;
        if (operand->sizes[d] != 1 && at != channel) return false;
    }
    return true;
}

static const char *describe_tensor(const fusing_t *fusing, const chain_t *chain, post_kind_t kind,
                                   const graph_node_t *node, bool is_second, link_t *out_link)
{
    value_t operand = node->inputs[is_second ? 0 : 1];
    const graph_type_t *type = operand < 0 ? NULL : graph_value_type(fusing->graph, operand);
    if (type == NULL || type->kind != TYPE_TENSOR || !type->has_info || !type_is_static(type) ||
        !same_tensors(fusing, chain->end, node->outputs[0]))
        return "shapes or dtypes are unknown, or the operator changes them";
    const tensor_info_t *result = &graph_value_type(fusing->graph, node->outputs[0])->info;
    if (type->info.dtype != result->dtype) return "the operand has another dtype";
    if (!same_tensors(fusing, operand, node->outputs[0]) &&
        !broadcasts(fusing, chain, &type->info, result))
        return "the operand broadcasts over more than channels";
    if (is_written(fusing, 1, &operand)) return "the operand is written";
    if (is_second && kind == POST_DIV) return "a tensor divided by the result is not a post-op";
    out_link->n = 0;
    out_link->operand = operand;
    if (is_second && kind == POST_SUB) {
        out_link->op[out_link->n++] = function(ELTWISE_LINEAR, -1.0, 0.0);
        kind = POST_ADD;
    }
    out_link->op[out_link->n++] = (post_op_t){.kind = kind};
    return NULL;
}

/* Replaces an addition by a "sum" post-op, which accumulates into the operand's bytes, if possible;
 * at most once per operator. */
static void accumulate(const fusing_t *fusing, const graph_block_t *block, int index,
                       const chain_t *chain, link_t *link)
{
    value_t operand = link->operand;
    post_op_t *op = &link->op[link->n - 1];
    if (op->kind == POST_ADD && !has_sum(&chain->post) && !reads(chain, operand) &&
        same_tensors(fusing, operand, block->nodes[index]->outputs[0]) &&
        is_free(fusing, block, index, operand))
        op->kind = POST_SUM;
}

static status_t look_at_binary(fusing_t *fusing, const graph_block_t *block, int index)
{
    const graph_node_t *node = block->nodes[index];
    post_op_t post;
    if (node->n_inputs != 2 || !is_post_op(node, &post) || post.kind == POST_ELTWISE)
        return STATUS_OK;
    post_kind_t kind = post.kind;
    for (int i = 0; i < (node->is_in_place ? 1 : 2); i++) {
        int place;
        double number = 0.0;
        bool is_number = false;
        link_t link;
        TRY(chain_at(fusing, block, node->inputs[i], &place));
        if (place < 0 || !is_floating(fusing, &fusing->chains[place]) ||
            (fusing->chains[place].anchor->op->traits & TRAIT_POST_FUNCTIONS) != 0)
            continue;
        const chain_t *chain = &fusing->chains[place];
        TRY(read_number(fusing, node->inputs[1 - i], &number, &is_number));
        bool is_literal = is_number &&
                          datum_kind(graph_constant(fusing->graph, node->inputs[1 - i])) !=
                              DATUM_TENSOR;
        is_number = is_literal || (is_number && !is_written(fusing, 1, &node->inputs[1 - i]) &&
                                   same_tensors(fusing, chain->end, node->outputs[0]));
        const char *reason = is_number ? describe_number(kind, i == 1, number, &link)
                                       : describe_tensor(fusing, chain, kind, node, i == 1, &link);
        if (reason != NULL) {
            leave(fusing, node, reason);
            continue;
        }
        if (!is_number) accumulate(fusing, block, index, chain, &link);
        if (extend(fusing, place, node, &link)) return STATUS_OK;
    }
    return STATUS_OK;
}

static status_t find_chains(fusing_t *fusing, const graph_block_t *block)
{
    for (int i = 0; i < block->n_nodes; i++) {
        const graph_node_t *node = block->nodes[i];
        if (node->kind == NODE_OP && node->n_outputs == 1) {
            TRY(look_at_activation(fusing, block, node));
            TRY(look_at_binary(fusing, block, i));
        }
        for (int b = 0; b < node->n_blocks; b++) TRY(find_chains(fusing, node->blocks[b]));
    }
    return STATUS_OK;
}

/* Fusing moves an anchor to the end of its chain. If the anchor would read there a tensor into
 * which another chain has accumulated, the other chain must use an addition instead. */
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

/* Adds the anchor: its own operands (none for omitted ones), then the operands of post-ops. */
static status_t emit_chain(rewrite_t *rewrite, const chain_t *chain)
{
    context_t *ctx = rewrite->ctx;
    graph_node_t node = *chain->anchor;
    int n_old = node.n_inputs - node.n_post_inputs;
    int n_own = n_old > node.op->n_operands ? n_old : node.op->n_operands;
    value_t inputs[OP_MAX_INPUTS + 2 * POST_MAX];
    INVARIANT(n_own <= OP_MAX_INPUTS);
    for (int i = 0; i < n_own; i++)
        inputs[i] = i < n_old ? rewrite_value(rewrite, node.inputs[i]) : VALUE_NONE;
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
    FINISH(rewrite_emit(rewrite, &node, inputs, &chain->end), context_put(ctx, attrs));
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
    TRY(alias_of(fusing->ctx, graph, &fusing->alias));
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
    FINISH(find_and_fuse(&fusing, out_graph), CONTEXT_PUT(ctx, fusing.chains, fusing.usages));
}
