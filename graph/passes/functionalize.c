#include <limits.h>
#include <string.h>

#include "graph/analysis/alias_impl.h"
#include "graph/ir/graph_impl.h"
#include "graph/passes/pass_impl.h"
#include "tensor/context_impl.h"

/* Replaces an in-place operator by the same operator out of place if nothing else can observe its
 * write. This is so if all conditions hold: An operator in the same block allocated the written
 * bytes. Each later value that shares the bytes is not read after the write, unless it is the same
 * tensor (a result of in-place operators), which the new result replaces. None of these values was
 * stored in a container or attribute, or passed to a call.
 *
 * If types are unknown, one error is no longer detected: a result whose dtype or sizes differ from
 * operand 0. */

/* Nodes are counted in execution order. A node with blocks makes its outputs after them. */
typedef struct times {
    int made, last_use, first_leak;
    const graph_block_t *home;
    value_t same; /* the first value that is the same tensor */
    value_t next; /* next value of the same class, or -1 */
} times_t;

typedef struct functionalizing {
    context_t *ctx;
    const graph_t *graph;
    const alias_t *alias;
    times_t *times; /* [n_values] */
    value_t *first; /* [n_classes] */
    int now;
    bool *is_chosen; /* [n_values]: output of a node that becomes out of place */
    int n_chosen;
} functionalizing_t;

/* ---- times ---- */

static void note_made(functionalizing_t *f, const graph_block_t *block, int n,
                      const value_t *values)
{
    for (int i = 0; i < n; i++) {
        int class = alias_class(f->alias, values[i]);
        f->times[values[i]] = (times_t){f->now, -1, INT_MAX, block, values[i], VALUE_NONE};
        if (class < 0) continue;
        f->times[values[i]].next = f->first[class];
        f->first[class] = values[i];
    }
}

static bool leaks(const graph_node_t *node, int input)
{
    if (node->kind == NODE_SETATTR || node->kind == NODE_CALL) return true;
    if (node->kind != NODE_BUILTIN) return false;
    return strcmp(node->name, "list") == 0 || strcmp(node->name, "tuple") == 0 ||
           strcmp(node->name, "dict") == 0 || strcmp(node->name, "insert") == 0 ||
           strcmp(node->name, "erase") == 0 || strcmp(node->name, "element") == 0 ||
           (strcmp(node->name, "append") == 0 && input == 1);
}

static void note_block(functionalizing_t *f, const graph_block_t *block)
{
    note_made(f, block, block->n_params, block->params);
    for (int n = 0; n < block->n_nodes; n++) {
        const graph_node_t *node = block->nodes[n];
        f->now++;
        for (int i = 0; i < node->n_inputs; i++) {
            if (node->inputs[i] < 0) continue;
            times_t *times = &f->times[node->inputs[i]];
            times->last_use = f->now;
            if (leaks(node, i) && times->first_leak == INT_MAX) times->first_leak = f->now;
        }
        for (int b = 0; b < node->n_blocks; b++) note_block(f, node->blocks[b]);
        if (node->n_blocks > 0) f->now++;
        note_made(f, block, node->n_outputs, node->outputs);
        if (node->is_in_place) f->times[node->outputs[0]].same = f->times[node->inputs[0]].same;
    }
    f->now++;
    for (int i = 0; i < block->n_results; i++)
        if (block->results[i] >= 0) f->times[block->results[i]].last_use = f->now;
}

/* ---- choosing ---- */

/* The value whose operator allocated the bytes, before views and in-place operators. */
static value_t find_base(const functionalizing_t *f, value_t value)
{
    for (;;) {
        const graph_node_t *node = graph_producer(f->graph, value);
        if (node == NULL || node->kind != NODE_OP || !alias_shares(node) || node->inputs[0] < 0)
            return value;
        value = node->inputs[0];
    }
}

static const char *why_not_new(const graph_node_t *producer)
{
    if (producer == NULL) return "it writes an input";
    switch (producer->kind) {
    case NODE_CONSTANT: return "it writes a constant";
    case NODE_GETATTR: return "it writes an attribute";
    case NODE_CALL: return "it writes the result of a call";
    case NODE_BUILTIN: return "it writes an item of a container";
    case NODE_OP: return NULL;
    default: return "it writes a result of a branch or loop";
    }
}

/* The reason to leave the operator in place; NULL if it can become out of place. */
static const char *why_not(const functionalizing_t *f, const graph_node_t *node)
{
    value_t target = node->inputs[0], base = find_base(f, target);
    if (alias_class(f->alias, target) < 0) return "operand 0 is not a tensor";
    const char *reason = why_not_new(graph_producer(f->graph, base));
    if (reason != NULL) return reason;
    int now = f->times[node->outputs[0]].made, since = f->times[base].made;
    if (f->times[base].home != f->times[node->outputs[0]].home)
        return "it writes a value of another block";
    for (value_t v = f->first[alias_class(f->alias, target)]; v >= 0; v = f->times[v].next) {
        const times_t *times = &f->times[v];
        if (times->made < since || times->made >= now) continue;
        if (times->first_leak < now)
            return "a container, an attribute or a call received the written tensor";
        if (times->same != f->times[target].same && times->last_use > now)
            return "another view of the written tensor is read later";
    }
    return NULL;
}

static status_t choose(void *user, const graph_node_t *node)
{
    functionalizing_t *f = user;
    if (node->kind != NODE_OP || !node->is_in_place || node->inputs[0] < 0) return STATUS_OK;
    const char *reason = why_not(f, node);
    if (reason != NULL) {
        pass_note(f->ctx, "functionalize", node, reason);
        return STATUS_OK;
    }
    f->is_chosen[node->outputs[0]] = true;
    f->n_chosen++;
    return STATUS_OK;
}

/* ---- rewriting ---- */

static status_t put_out_of_place(rewrite_t *rewrite, const graph_node_t *node, bool *out_done)
{
    const functionalizing_t *f = rewrite->user;
    if (node->kind != NODE_OP || !node->is_in_place || !f->is_chosen[node->outputs[0]])
        return STATUS_OK;
    value_t inputs[OP_MAX_INPUTS], result = node->outputs[0];
    graph_node_t plain = *node;
    plain.is_in_place = false;
    for (int i = 0; i < node->n_inputs; i++) inputs[i] = rewrite_value(rewrite, node->inputs[i]);
    TRY(rewrite_emit(rewrite, &plain, inputs, node->outputs));
    value_t same = f->times[result].same;
    for (value_t v = f->first[alias_class(f->alias, result)]; v >= 0; v = f->times[v].next)
        if (f->times[v].same == same && f->times[v].made < f->times[result].made)
            rewrite_map(rewrite, v, rewrite_value(rewrite, result));
    *out_done = true;
    return STATUS_OK;
}

static status_t functionalize(functionalizing_t *f, graph_t **out_graph)
{
    size_t n = (size_t)graph_n_values(f->graph);
    TRY(context_get(f->ctx, n * sizeof *f->times, "times of values", &f->times));
    TRY(context_get_zeroed(f->ctx, n * sizeof *f->is_chosen, "times of values", &f->is_chosen));
    TRY(context_get(f->ctx, (size_t)f->alias->n_classes * sizeof *f->first, "times of values",
                    &f->first));
    for (int i = 0; i < f->alias->n_classes; i++) f->first[i] = VALUE_NONE;
    note_block(f, graph_body(f->graph));
    TRY(rewrite_visit(graph_body(f->graph), choose, f));
    if (f->n_chosen == 0) return rewrite_nothing(f->graph, out_graph);
    return rewrite_graph(f->ctx, f->graph, put_out_of_place, f, out_graph);
}

status_t pass_functionalize(context_t *ctx, const graph_t *graph, const pass_options_t *options,
                            graph_t **out_graph)
{
    (void)options;
    functionalizing_t f = {.ctx = ctx, .graph = graph};
    TRY(alias_of(ctx, graph, &f.alias));
    FINISH(f.alias->has_effects ? functionalize(&f, out_graph) : rewrite_nothing(graph, out_graph),
           CONTEXT_PUT(ctx, f.first, f.is_chosen, f.times));
}
