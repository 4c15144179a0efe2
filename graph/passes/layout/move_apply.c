/* Applies one move of a reorder. A form of a value is the value in one layout and format. */
#include "graph/ir/graph_impl.h"
#include "graph/passes/layout/move_impl.h"
#include "tensor/context_impl.h"

typedef struct apply {
    const move_t *move;
    bool is_made;
    value_t made; /* value that replaces all conversions equal to the one that moves */
} apply_t;

static const graph_type_t *target_of(const rewrite_t *rewrite)
{
    const apply_t *apply = rewrite->user;
    return graph_value_type(rewrite->from, apply->move->conversion->outputs[0]);
}

static void set_made(apply_t *apply, value_t value)
{
    apply->is_made = true;
    apply->made = value;
}

/* Adds a conversion of an old value to the form that the moved conversion makes. */
static value_t convert(rewrite_t *rewrite, value_t old)
{
    const apply_t *apply = rewrite->user;
    const graph_type_t *type = graph_value_type(rewrite->from, old), *target = target_of(rewrite);
    value_t value = rewrite_value(rewrite, old);
    if (type_equal(type, target)) return value;
    return layout_convert(rewrite, value, &type->info, &target->info,
                          apply->move->conversion->path);
}

/* ---- nodes with other outputs ---- */

typedef struct outputs {
    int n;
    value_t *values;
    const graph_type_t **types;
    const char **names;
} outputs_t;

static void outputs_clear(context_t *ctx, outputs_t *outputs)
{
    CONTEXT_PUT(ctx, outputs->values, outputs->types, outputs->names);
}

/* Lists the node's outputs. The converted form of the moved output replaces the output, or is
 * appended. */
static status_t outputs_begin(rewrite_t *rewrite, const graph_node_t *node, outputs_t *out)
{
    const apply_t *apply = rewrite->user;
    const move_t *move = apply->move;
    context_t *ctx = rewrite->ctx;
    size_t n = (size_t)node->n_outputs + 1;
    *out = (outputs_t){.n = node->n_outputs + !move->replaces};
    status_t status = context_get(ctx, n * sizeof *out->values, "outputs", &out->values);
    if (status == STATUS_OK)
        status = context_get(ctx, n * sizeof *out->types, "types", &out->types);
    if (status == STATUS_OK)
        status = context_get(ctx, n * sizeof *out->names, "names", &out->names);
    TRY_OR(status, outputs_clear(ctx, out));
    for (int i = 0; i < out->n; i++) {
        bool is_moved = i == (move->replaces ? move->index : node->n_outputs);
        value_t like = is_moved ? move->conversion->outputs[0] : node->outputs[i];
        out->types[i] = graph_value_type(rewrite->from, like);
        out->names[i] = rewrite_name(rewrite->from, like);
    }
    return STATUS_OK;
}

/* Index of the converted value among these outputs. */
static int moved_place(const apply_t *apply, const graph_node_t *node)
{
    return apply->move->replaces ? apply->move->index : node->n_outputs;
}

static void map_others(rewrite_t *rewrite, const graph_node_t *node, const outputs_t *outputs)
{
    const move_t *move = ((apply_t *)rewrite->user)->move;
    for (int i = 0; i < node->n_outputs; i++)
        if (!move->replaces || i != move->index)
            rewrite_map(rewrite, node->outputs[i], outputs->values[i]);
}

/* Ends a block with the old block's results and the moved value. `first` is the number of results
 * before those that become outputs. */
static status_t end_block(rewrite_t *rewrite, const graph_node_t *node, const graph_block_t *block,
                          int first, value_t moved)
{
    const apply_t *apply = rewrite->user;
    value_t *results = NULL;
    int n = block->n_results + !apply->move->replaces, place = first + moved_place(apply, node);
    TRY(context_get(rewrite->ctx, (size_t)n * sizeof *results, "results of a block", &results));
    for (int i = 0; i < n; i++)
        results[i] = i == place ? moved : rewrite_value(rewrite, block->results[i]);
    graph_block_end(rewrite->to, n, results);
    context_put(rewrite->ctx, results);
    return STATUS_OK;
}

/* ---- if ---- */

static status_t sink_into(rewrite_t *rewrite, const graph_node_t *node, int branch)
{
    const move_t *move = ((apply_t *)rewrite->user)->move;
    const graph_block_t *block = node->blocks[branch];
    graph_block_begin(rewrite->to);
    TRY(rewrite_nodes(rewrite, block));
    value_t ready = move->available[branch];
    value_t moved = ready >= 0 ? rewrite_value(rewrite, ready)
                               : convert(rewrite, block->results[move->index]);
    return end_block(rewrite, node, block, 0, moved);
}

static status_t sink(rewrite_t *rewrite, const graph_node_t *node)
{
    apply_t *apply = rewrite->user;
    outputs_t outputs;
    TRY(outputs_begin(rewrite, node, &outputs));
    graph_node_t changed = *node;
    value_t condition = rewrite_value(rewrite, node->inputs[0]);
    changed.n_outputs = outputs.n;
    graph_add_node(rewrite->to, &changed, &condition, outputs.types, outputs.names, outputs.values);
    status_t status = sink_into(rewrite, node, 0);
    if (status == STATUS_OK) status = sink_into(rewrite, node, 1);
    map_others(rewrite, node, &outputs);
    set_made(apply, outputs.values[moved_place(apply, node)]);
    outputs_clear(rewrite->ctx, &outputs);
    return status;
}

/* ---- loop ---- */

static value_t copy_param(rewrite_t *rewrite, value_t old)
{
    value_t param = graph_add_param(rewrite->to, rewrite_name(rewrite->from, old),
                                    graph_value_type(rewrite->from, old));
    rewrite_map(rewrite, old, param);
    return param;
}

static status_t carry_through(rewrite_t *rewrite, const graph_node_t *node)
{
    apply_t *apply = rewrite->user;
    const move_t *move = apply->move;
    const graph_block_t *body = node->blocks[0];
    const char *name = rewrite_name(rewrite->from, move->conversion->outputs[0]);
    graph_block_begin(rewrite->to);
    for (int i = 0; i < body->n_params; i++) {
        if (move->replaces && i == move->index + 1)
            set_made(apply, graph_add_param(rewrite->to, name, target_of(rewrite)));
        else
            copy_param(rewrite, body->params[i]);
    }
    if (!move->replaces) set_made(apply, graph_add_param(rewrite->to, name, target_of(rewrite)));
    TRY(rewrite_nodes(rewrite, body));
    return end_block(rewrite, node, body, 1, rewrite_value(rewrite, move->available[0]));
}

static status_t add_loop(rewrite_t *rewrite, const graph_node_t *node, const outputs_t *outputs)
{
    const apply_t *apply = rewrite->user;
    graph_node_t changed = *node;
    value_t *inputs = NULL;
    changed.n_outputs = outputs->n;
    changed.n_inputs = outputs->n + 2;
    TRY(context_get(rewrite->ctx, (size_t)changed.n_inputs * sizeof *inputs, "inputs of a loop",
                    &inputs));
    value_t begin = convert(rewrite, node->inputs[apply->move->index + 2]);
    int place = moved_place(apply, node) + 2;
    for (int i = 0; i < changed.n_inputs; i++)
        inputs[i] = i == place ? begin : rewrite_value(rewrite, node->inputs[i]);
    graph_add_node(rewrite->to, &changed, inputs, outputs->types, outputs->names, outputs->values);
    context_put(rewrite->ctx, inputs);
    return STATUS_OK;
}

static status_t carry(rewrite_t *rewrite, const graph_node_t *node)
{
    apply_t *apply = rewrite->user;
    const move_t *move = apply->move;
    outputs_t outputs;
    TRY(outputs_begin(rewrite, node, &outputs));
    status_t status = add_loop(rewrite, node, &outputs);
    if (status == STATUS_OK) status = carry_through(rewrite, node);
    map_others(rewrite, node, &outputs);
    value_t old = node->outputs[move->index];
    if (status == STATUS_OK && move->replaces && graph_n_uses(rewrite->from, old) > 0)
        rewrite_map(rewrite, old,
                    layout_convert(rewrite, outputs.values[move->index], &target_of(rewrite)->info,
                                   &graph_value_type(rewrite->from, old)->info, node->path));
    outputs_clear(rewrite->ctx, &outputs);
    return status;
}

/* ---- a loop that runs at least once ---- */

static value_t add_builtin(rewrite_t *rewrite, const char *name, value_t a, value_t b)
{
    graph_node_t node = {.kind = NODE_BUILTIN, .name = name, .n_inputs = 2, .n_outputs = 1};
    const value_t inputs[] = {a, b};
    value_t value = VALUE_NONE;
    graph_add_node(rewrite->to, &node, inputs, NULL, NULL, &value);
    return value;
}

/* Adds the condition that the loop runs: trip count above zero and initial condition true. */
static status_t add_guard(rewrite_t *rewrite, const graph_node_t *loop, value_t *out_guard)
{
    value_t count = rewrite_value(rewrite, loop->inputs[0]);
    value_t begins = rewrite_value(rewrite, loop->inputs[1]);
    if (move_has_trip(rewrite->from, loop)) {
        *out_guard = begins;
        return STATUS_OK;
    }
    datum_t *zero = NULL;
    TRY(datum_int(rewrite->ctx, 0, &zero));
    value_t literal = graph_add_literal(rewrite->to, zero);
    datum_release(zero);
    *out_guard = add_builtin(rewrite, "scalar_gt", count, literal);
    if (!move_may_begin(rewrite->from, loop))
        *out_guard = add_builtin(rewrite, "scalar_and", *out_guard, begins);
    return STATUS_OK;
}

/* Fills both branches: one with the loop itself, one with its initial values. */
static status_t fill_guard(rewrite_t *rewrite, const graph_node_t *loop, value_t *results)
{
    int n = loop->n_outputs;
    graph_block_begin(rewrite->to);
    TRY(rewrite_copy(rewrite, loop));
    for (int i = 0; i < n; i++) results[i] = rewrite_value(rewrite, loop->outputs[i]);
    graph_block_end(rewrite->to, n, results);
    graph_block_begin(rewrite->to);
    for (int i = 0; i < n; i++) results[i] = rewrite_value(rewrite, loop->inputs[i + 2]);
    graph_block_end(rewrite->to, n, results);
    return STATUS_OK;
}

static status_t guard(rewrite_t *rewrite, const graph_node_t *loop)
{
    value_t condition = VALUE_NONE, *values = NULL;
    int n = loop->n_outputs;
    TRY(add_guard(rewrite, loop, &condition));
    graph_node_t node = {.kind = NODE_IF, .n_inputs = 1, .n_outputs = n, .path = loop->path};
    TRY(rewrite_emit(rewrite, &node, &condition, loop->outputs));
    TRY(context_get(rewrite->ctx, (size_t)n * 2 * sizeof *values, "results of a loop", &values));
    for (int i = 0; i < n; i++) values[i] = rewrite_value(rewrite, loop->outputs[i]);
    status_t status = fill_guard(rewrite, loop, values + n);
    for (int i = 0; i < n; i++) rewrite_map(rewrite, loop->outputs[i], values[i]);
    context_put(rewrite->ctx, values);
    return status;
}

/* ---- applying ---- */

static status_t apply_to(rewrite_t *rewrite, const graph_node_t *node, bool *out_done)
{
    apply_t *apply = rewrite->user;
    const move_t *move = apply->move;
    bool is_moved = node == move->conversion;
    if (apply->is_made && move_is_same(rewrite->from, node, move->conversion)) {
        rewrite_map(rewrite, node->outputs[0], apply->made);
        *out_done = true;
        return STATUS_OK;
    }
    if (is_moved && (move->kind == MOVE_REPLACE || move->kind == MOVE_CONVERT)) {
        bool is_ready = move->kind == MOVE_REPLACE;
        rewrite_map(rewrite, node->outputs[0],
                    is_ready ? rewrite_value(rewrite, move->source)
                             : convert(rewrite, move->source));
        *out_done = true;
        return STATUS_OK;
    }
    if (node != move->at) return STATUS_OK;
    *out_done = move->kind != MOVE_HOIST;
    switch (move->kind) {
    case MOVE_HOIST:
        set_made(apply, convert(rewrite, move->conversion->inputs[0]));
        return STATUS_OK;
    case MOVE_SINK: return sink(rewrite, node);
    case MOVE_CARRY: return carry(rewrite, node);
    default: return guard(rewrite, node);
    }
}

/* A value made in a block cannot be used after the block. */
static status_t leave_block(rewrite_t *rewrite, const graph_block_t *block, value_t *results)
{
    (void)results;
    apply_t *apply = rewrite->user;
    if (block == apply->move->block) apply->is_made = false;
    return STATUS_OK;
}

status_t move_apply(context_t *ctx, const graph_t *graph, const move_t *move, graph_t **out_graph)
{
    apply_t apply = {.move = move};
    return rewrite_graph_to_end(ctx, graph, apply_to, leave_block, &apply, out_graph);
}
