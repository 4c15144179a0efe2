#include "graph/passes/alias_impl.h"

#include <string.h>

#include "graph/pass_impl.h"
#include "tensor/context_impl.h"

static value_t root_of(const alias_t *alias, value_t value)
{
    while (alias->parent[value] != value) {
        alias->parent[value] = alias->parent[alias->parent[value]];
        value = alias->parent[value];
    }
    return value;
}

static bool can_share(const alias_t *alias, value_t value)
{
    if (value < 0) return false;
    switch (graph_value_type(alias->graph, value)->kind) {
    case TYPE_INT:
    case TYPE_FLOAT:
    case TYPE_BOOL:
    case TYPE_STRING:
    case TYPE_NONE:
    case TYPE_MODULE: return false;
    default: return true;
    }
}

static void join(alias_t *alias, value_t a, value_t b)
{
    if (!can_share(alias, a) || !can_share(alias, b)) return;
    a = root_of(alias, a);
    b = root_of(alias, b);
    if (a == b) return;
    alias->parent[b] = a;
    if (alias->writers[a] == NULL) alias->writers[a] = alias->writers[b];
}

static void mark(alias_t *alias, value_t value, const graph_node_t *writer)
{
    if (!can_share(alias, value)) return;
    value_t root = root_of(alias, value);
    if (alias->writers[root] == NULL) alias->writers[root] = writer;
}

static bool is_append(const graph_node_t *node)
{
    return node->kind == NODE_BUILTIN && strcmp(node->name, "append") == 0;
}

bool alias_has_effect(const graph_node_t *node)
{
    if (node->kind == NODE_SETATTR || node->kind == NODE_CALL || is_append(node)) return true;
    if (node->kind == NODE_OP && node->is_in_place) return true;
    for (int b = 0; b < node->n_blocks; b++) {
        for (int i = 0; i < node->blocks[b]->n_nodes; i++) {
            if (alias_has_effect(node->blocks[b]->nodes[i])) return true;
        }
    }
    return false;
}

/* Beside views, operators that give their input back where there is nothing to convert. */
bool alias_shares(const graph_node_t *node)
{
    if (node->kind == NODE_BUILTIN)
        return strncmp(node->name, "scalar_", 7) != 0 && strcmp(node->name, "len") != 0;
    if (node->kind != NODE_OP) return node->kind != NODE_CONSTANT;
    return node->is_in_place || (node->op->traits & (TRAIT_VIEW | TRAIT_IDENTITY)) != 0 ||
           rewrite_is_op(node, "cast") || rewrite_is_op(node, "to_dense") ||
           rewrite_is_op(node, "to_mkldnn") || rewrite_is_op(node, "reorder");
}

static void join_blocks(alias_t *alias, const graph_node_t *node)
{
    bool is_loop = node->kind == NODE_LOOP;
    for (int b = 0; b < node->n_blocks; b++) {
        const graph_block_t *block = node->blocks[b];
        for (int i = 0; i < node->n_outputs; i++) {
            int at = is_loop ? i + 1 : i;
            if (at < block->n_results) join(alias, node->outputs[i], block->results[at]);
            if (!is_loop) continue;
            if (at + 1 < node->n_inputs) join(alias, node->outputs[i], node->inputs[at + 1]);
            if (at < block->n_params) join(alias, node->outputs[i], block->params[at]);
        }
    }
}

static status_t look_at(void *user, const graph_node_t *node)
{
    alias_t *alias = user;
    alias->has_effects |= alias_has_effect(node);
    if (node->n_blocks > 0) {
        join_blocks(alias, node);
        return STATUS_OK;
    }
    if (alias_shares(node)) {
        int n_sharing = node->kind == NODE_OP ? 1 : node->n_inputs;
        for (int i = 0; i < n_sharing && i < node->n_inputs; i++) {
            for (int o = 0; o < node->n_outputs; o++)
                join(alias, node->inputs[i], node->outputs[o]);
            if (i > 0 && node->kind == NODE_BUILTIN) join(alias, node->inputs[0], node->inputs[i]);
        }
    }
    if (node->kind == NODE_OP && node->is_in_place) mark(alias, node->inputs[0], node);
    if (is_append(node)) mark(alias, node->inputs[0], node);
    /* What goes into an attribute or a call may be written where we do not see it. */
    if (node->kind == NODE_SETATTR || node->kind == NODE_CALL) {
        for (int i = 0; i < node->n_inputs; i++) mark(alias, node->inputs[i], node);
    }
    return STATUS_OK;
}

status_t alias_analyze(context_t *ctx, const graph_t *graph, alias_t *out_alias)
{
    alias_t alias = {.ctx = ctx, .graph = graph};
    size_t n = (size_t)graph_n_values(graph);
    status_t status = context_get(ctx, n * sizeof *alias.parent, "classes of values",
                                  &alias.parent);
    if (status == STATUS_OK)
        status = context_get_zeroed(ctx, n * sizeof *alias.writers, "classes of values",
                                    &alias.writers);
    if (status != STATUS_OK) {
        alias_clear(&alias);
        return status;
    }
    for (size_t i = 0; i < n; i++) alias.parent[i] = (value_t)i;
    (void)rewrite_visit(graph_body(graph), look_at, &alias);
    *out_alias = alias;
    return STATUS_OK;
}

void alias_clear(alias_t *alias)
{
    if (alias->ctx == NULL) return;
    context_put(alias->ctx, alias->writers);
    context_put(alias->ctx, alias->parent);
    *alias = (alias_t){0};
}

bool alias_is_mutated(const alias_t *alias, value_t value)
{
    return alias_writer(alias, value) != NULL;
}

const graph_node_t *alias_writer(const alias_t *alias, value_t value)
{
    return value >= 0 ? alias->writers[root_of(alias, value)] : NULL;
}
