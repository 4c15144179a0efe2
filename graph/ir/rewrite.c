#include <string.h>

#include "graph/ir/graph_impl.h"
#include "graph/ir/rewrite_impl.h"
#include "tensor/context_impl.h"
#include "tensor/threads/interrupt_impl.h"

#define VALUE_UNMAPPED (-2)

/* A rewrite in progress, with its callback. */
typedef struct walk {
    rewrite_t rewrite;
    rewrite_node_t visit;
} walk_t;

/* ---- values ---- */

value_t rewrite_value(const rewrite_t *rewrite, value_t old)
{
    if (old < 0) return old;
    INVARIANT(rewrite->map[old] != VALUE_UNMAPPED);
    return rewrite->map[old];
}

bool rewrite_is_mapped(const rewrite_t *rewrite, value_t old)
{
    return old < 0 || rewrite->map[old] != VALUE_UNMAPPED;
}

void rewrite_map(rewrite_t *rewrite, value_t old, value_t new_value)
{
    rewrite->map[old] = new_value;
}

/* The name for a new value that replaces this one. NULL if this one has no name, so that the new
 * one gets a number. */
const char *rewrite_name(const graph_t *graph, value_t value)
{
    const char *name = value >= 0 ? graph_value_name(graph, value) : NULL;
    return name == NULL || name[strspn(name, "0123456789")] == '\0' ? NULL : name;
}

/* ---- nodes ---- */

static bool is_known(const graph_type_t *type)
{
    return type != NULL && type->kind != TYPE_UNKNOWN &&
           (type->kind != TYPE_TENSOR || type->has_info);
}

/* A copy of the node whose path has the prefix rewrite->at. `text` stores the path. */
static graph_node_t place(const rewrite_t *rewrite, const graph_node_t *node, text_t *text)
{
    graph_node_t placed = *node;
    bool is_placed = rewrite->at != NULL && rewrite->at[0] != '\0';
    if (!is_placed || (node->kind != NODE_OP && node->path == NULL)) return placed;
    text_append(text, "%s%s%s", rewrite->at, node->path != NULL ? "." : "",
                node->path != NULL ? node->path : "");
    placed.path = text_string(text);
    return placed;
}

/* Adds a node to the new graph. keep_types: uses the types of stands_for instead of inferring
 * types. */
static status_t emit(rewrite_t *rewrite, const graph_node_t *node, const value_t *inputs,
                     const value_t *stands_for, bool keep_types)
{
    context_t *ctx = rewrite->ctx;
    text_t path = text_begin(ctx);
    graph_node_t placed = place(rewrite, node, &path);
    size_t n = (size_t)node->n_outputs;
    value_t *values = NULL;
    const char **names = NULL;
    const graph_type_t **types = NULL;
    status_t status = text_status(&path);
    if (status == STATUS_OK)
        status = context_get(ctx, n * sizeof *values, "values of a node", &values);
    if (status == STATUS_OK) status = context_get(ctx, n * sizeof *names, "names", &names);
    if (status == STATUS_OK) status = context_get(ctx, n * sizeof *types, "types", &types);
    if (status == STATUS_OK) {
        for (size_t i = 0; i < n; i++) {
            values[i] = VALUE_NONE;
            names[i] = rewrite_name(rewrite->from, stands_for[i]);
            types[i] = graph_value_type(rewrite->from, stands_for[i]);
        }
        graph_add_node(rewrite->to, &placed, inputs, keep_types ? types : NULL, names, values);
        for (size_t i = 0; i < n; i++) {
            if (values[i] >= 0 && !is_known(graph_builder_type(rewrite->to, values[i])))
                graph_set_type(rewrite->to, values[i], types[i]);
            rewrite_map(rewrite, stands_for[i], values[i]);
        }
    }
    CONTEXT_PUT(ctx, types, names, values);
    text_clear(&path);
    return status;
}

status_t rewrite_emit(rewrite_t *rewrite, const graph_node_t *node, const value_t *inputs,
                      const value_t *stands_for)
{
    return emit(rewrite, node, inputs, stands_for, false);
}

/* True if no input changes its type; the outputs then keep their types and formats. */
static bool keeps_types(const rewrite_t *rewrite, const graph_node_t *node, const value_t *inputs)
{
    if (node->kind != NODE_OP) return true;
    for (int i = 0; i < node->n_inputs; i++) {
        if (node->inputs[i] < 0 && inputs[i] < 0) continue;
        if (node->inputs[i] < 0 || inputs[i] < 0) return false;
        if (!type_equal(graph_value_type(rewrite->from, node->inputs[i]),
                        graph_builder_type(rewrite->to, inputs[i])))
            return false;
    }
    return true;
}

static status_t map_results(rewrite_t *rewrite, const graph_block_t *block, value_t *out_results)
{
    for (int i = 0; i < block->n_results; i++)
        out_results[i] = rewrite_value(rewrite, block->results[i]);
    if (rewrite->at_end == NULL) return STATUS_OK;
    TRY(rewrite->at_end(rewrite, block, out_results));
    for (int i = 0; i < block->n_results; i++)
        rewrite->has_changes |= out_results[i] != rewrite_value(rewrite, block->results[i]);
    return STATUS_OK;
}

static status_t copy_block(rewrite_t *rewrite, const graph_block_t *block)
{
    graph_block_begin(rewrite->to);
    for (int i = 0; i < block->n_params; i++) {
        value_t old = block->params[i];
        rewrite_map(rewrite, old,
                    graph_add_param(rewrite->to, rewrite_name(rewrite->from, old),
                                    graph_value_type(rewrite->from, old)));
    }
    TRY(rewrite_nodes(rewrite, block));
    value_t *results;
    TRY(context_get(rewrite->ctx, (size_t)block->n_results * sizeof *results, "results of a block",
                    &results));
    status_t status = map_results(rewrite, block, results);
    graph_block_end(rewrite->to, block->n_results, results);
    context_put(rewrite->ctx, results);
    return status;
}

status_t rewrite_copy_with(rewrite_t *rewrite, const graph_node_t *node, const value_t *inputs)
{
    TRY(emit(rewrite, node, inputs, node->outputs, keeps_types(rewrite, node, inputs)));
    for (int i = 0; i < node->n_blocks; i++) TRY(copy_block(rewrite, node->blocks[i]));
    return STATUS_OK;
}

status_t rewrite_copy(rewrite_t *rewrite, const graph_node_t *node)
{
    value_t *inputs;
    TRY(context_get(rewrite->ctx, (size_t)node->n_inputs * sizeof *inputs, "inputs of a node",
                    &inputs));
    for (int i = 0; i < node->n_inputs; i++) inputs[i] = rewrite_value(rewrite, node->inputs[i]);
    FINISH(rewrite_copy_with(rewrite, node, inputs), context_put(rewrite->ctx, inputs));
}

status_t rewrite_nodes(rewrite_t *rewrite, const graph_block_t *block)
{
    const walk_t *walk = (const walk_t *)rewrite;
    for (int i = 0; i < block->n_nodes; i++) {
        bool done = false;
        TRY(interrupt_check(rewrite->ctx, graph_node_word(block->nodes[i])));
        TRY(walk->visit(rewrite, block->nodes[i], &done));
        rewrite->has_changes |= done;
        if (!done) TRY(rewrite_copy(rewrite, block->nodes[i]));
    }
    return STATUS_OK;
}

status_t rewrite_inline(rewrite_t *rewrite, const graph_t *callee, const char *at, void *user,
                        const value_t *params, value_t *out_results)
{
    context_t *ctx = rewrite->ctx;
    const walk_t *outer = (const walk_t *)rewrite;
    walk_t walk = {{.ctx = ctx, .from = callee, .to = rewrite->to, .user = user, .at = at},
                   outer->visit};
    rewrite_t *inner = &walk.rewrite;
    const graph_block_t *body = graph_body(callee);
    int n = graph_n_values(callee);
    TRY(context_get(ctx, (size_t)n * sizeof *inner->map, "values of a rewrite", &inner->map));
    for (int i = 0; i < n; i++) inner->map[i] = VALUE_UNMAPPED;
    for (int i = 0; i < body->n_params; i++) rewrite_map(inner, body->params[i], params[i]);
    status_t status = rewrite_nodes(inner, body);
    for (int i = 0; i < body->n_results && status == STATUS_OK; i++)
        out_results[i] = rewrite_value(inner, body->results[i]);
    context_put(ctx, inner->map);
    return status;
}

status_t rewrite_branch(rewrite_t *rewrite, const graph_node_t *node, bool truth)
{
    const graph_block_t *branch = node->blocks[truth ? 0 : 1];
    TRY(rewrite_nodes(rewrite, branch));
    for (int i = 0; i < node->n_outputs; i++)
        rewrite_map(rewrite, node->outputs[i], rewrite_value(rewrite, branch->results[i]));
    return STATUS_OK;
}

static status_t copy_all(rewrite_t *rewrite, const graph_node_t *node, bool *out_done)
{
    (void)rewrite, (void)node, (void)out_done;
    return STATUS_OK;
}

/* ---- graphs ---- */

static status_t fill(rewrite_t *rewrite, graph_t **out_graph)
{
    const graph_t *from = rewrite->from;
    const graph_block_t *body = graph_body(from);
    for (int i = 0; i < graph_n_values(from); i++) rewrite->map[i] = VALUE_UNMAPPED;
    int n_inputs = 0;
    for (int i = 0; i < body->n_params; i++) {
        value_t old = body->params[i];
        const graph_type_t *type = graph_value_type(from, old);
        graph_type_t given = *type;
        const int input = type->kind != TYPE_MODULE ? n_inputs++ : 0;
        if (rewrite->infos != NULL && (type->kind == TYPE_TENSOR || type->kind == TYPE_UNKNOWN)) {
            bool keeps_names = type->kind == TYPE_TENSOR && type->has_info;
            given = (graph_type_t){.kind = TYPE_TENSOR, .has_info = true};
            given.info = rewrite->infos[input];
            given.dims = keeps_names ? type->dims : NULL;
        }
        if (rewrite->drops_names) given.dims = NULL;
        if (rewrite->types != NULL) given = rewrite->types[i];
        type = &given;
        rewrite_map(rewrite, old, graph_add_param(rewrite->to, graph_value_name(from, old), type));
    }
    TRY(rewrite_nodes(rewrite, body));
    value_t *results;
    TRY(context_get(rewrite->ctx, (size_t)body->n_results * sizeof *results, "results of a graph",
                    &results));
    status_t status = map_results(rewrite, body, results);
    bool is_same = !rewrite->has_changes && graph_builder_status(rewrite->to) == STATUS_OK;
    if (status == STATUS_OK && is_same)
        status = rewrite_nothing(from, out_graph);
    else if (status == STATUS_OK)
        status = graph_finish(rewrite->to, body->n_results, results, out_graph);
    context_put(rewrite->ctx, results);
    return status;
}

status_t rewrite_graph(context_t *ctx, const graph_t *from, rewrite_node_t node, void *user,
                       graph_t **out_graph)
{
    return rewrite_graph_to_end(ctx, from, node, NULL, user, out_graph);
}

static status_t run_walk(walk_t *walk, graph_t **out_graph)
{
    rewrite_t *rewrite = &walk->rewrite;
    context_t *ctx = rewrite->ctx;
    status_t status = context_get(ctx, (size_t)graph_n_values(rewrite->from) * sizeof *rewrite->map,
                                  "values of a rewrite", &rewrite->map);
    if (status == STATUS_OK)
        status = graph_builder_create(ctx, graph_name(rewrite->from), &rewrite->to);
    if (status == STATUS_OK && rewrite->from->fixed != NULL)
        status = graph_builder_set_fixed(rewrite->to, rewrite->from->fixed);
    /* If names are dropped, guards are not needed: they have been checked for the remaining
     * sizes. */
    if (status == STATUS_OK && rewrite->from->space != NULL && !rewrite->drops_names)
        graph_set_space(graph_builder_graph(rewrite->to), rewrite->from->space);
    if (status == STATUS_OK) status = fill(rewrite, out_graph);
    graph_builder_destroy(rewrite->to);
    context_put(ctx, rewrite->map);
    return status;
}

status_t rewrite_graph_to_end(context_t *ctx, const graph_t *from, rewrite_node_t node,
                              rewrite_end_t at_end, void *user, graph_t **out_graph)
{
    walk_t walk = {{.ctx = ctx, .from = from, .user = user, .at_end = at_end}, node};
    return run_walk(&walk, out_graph);
}

status_t rewrite_graph_typed(context_t *ctx, const graph_t *from, rewrite_node_t node,
                             const tensor_info_t *infos, bool drops_names, void *user,
                             graph_t **out_graph)
{
    walk_t walk = {{.ctx = ctx,
                    .from = from,
                    .user = user,
                    .infos = infos,
                    .drops_names = drops_names,
                    .has_changes = infos != NULL || drops_names},
                   node};
    return run_walk(&walk, out_graph);
}

status_t rewrite_graph_params(context_t *ctx, const graph_t *from, rewrite_node_t node,
                              const graph_type_t *types, void *user, graph_t **out_graph)
{
    walk_t walk = {{.ctx = ctx, .from = from, .user = user, .types = types, .has_changes = true},
                   node};
    return run_walk(&walk, out_graph);
}

static status_t say_reason(rewrite_t *rewrite, const graph_block_t *block, value_t *results)
{
    (void)results;
    if (block != graph_body(rewrite->from)) return STATUS_OK;
    return graph_builder_set_fixed(rewrite->to, rewrite->user);
}

status_t graph_with_reason(context_t *ctx, const graph_t *graph, const char *reason,
                           graph_t **out_graph)
{
    if (reason[0] == '\0') return rewrite_nothing(graph, out_graph);
    void *user;
    memcpy(&user, &reason, sizeof user);
    walk_t walk = {
        {.ctx = ctx, .from = graph, .user = user, .at_end = say_reason, .has_changes = true},
        copy_all};
    return run_walk(&walk, out_graph);
}

status_t rewrite_nothing(const graph_t *graph, graph_t **out_graph)
{
    graph_t *same;
    memcpy(&same, &graph, sizeof same);
    *out_graph = graph_retain(same);
    return STATUS_OK;
}

/* ---- queries about nodes ---- */

static const attr_field_t *find_field(const graph_node_t *node, const char *name, attr_kind_t kind)
{
    if (node->kind != NODE_OP) return NULL;
    const attr_table_t *table = &node->op->attrs;
    for (int i = 0; i < table->n_fields; i++) {
        const attr_field_t *field = &table->fields[i];
        if (field->kind == kind && (name == NULL || strcmp(field->name, name) == 0)) return field;
    }
    return NULL;
}

const void *rewrite_attr(const graph_node_t *node, const char *name, attr_kind_t kind)
{
    const attr_field_t *field = find_field(node, name, kind);
    return field != NULL ? (const char *)node->attrs + field->offset : NULL;
}

void *rewrite_attr_in(const graph_node_t *node, void *attrs, const char *name, attr_kind_t kind)
{
    const attr_field_t *field = find_field(node, name, kind);
    return field != NULL ? (char *)attrs + field->offset : NULL;
}

const post_ops_t *rewrite_post(const graph_node_t *node)
{
    return node->kind == NODE_OP ? attrs_post(&node->op->attrs, node->attrs) : NULL;
}

typedef struct use_count {
    value_t value;
    int n;
} use_count_t;

static status_t count_uses(void *user, const graph_node_t *node)
{
    use_count_t *count = user;
    for (int i = 0; i < node->n_inputs && node->kind == NODE_OP; i++)
        count->n += node->inputs[i] == count->value;
    return STATUS_OK;
}

bool rewrite_feeds_operators(const graph_t *graph, value_t value)
{
    use_count_t count = {value, 0};
    (void)rewrite_visit(graph_body(graph), count_uses, &count);
    return count.n == graph_n_uses(graph, value);
}

bool rewrite_is_op(const graph_node_t *node, const char *op_name)
{
    return node != NULL && node->kind == NODE_OP && strcmp(node->op->name, op_name) == 0;
}

bool rewrite_is_builtin(const graph_node_t *node, const char *name)
{
    return node != NULL && node->kind == NODE_BUILTIN && strcmp(node->name, name) == 0;
}

static int find_op(const graph_node_t *node, const char *const *names)
{
    for (int i = 0; i < 3; i++)
        if (rewrite_is_op(node, names[i])) return i + 1;
    return 0;
}

int rewrite_conv(const graph_node_t *node)
{
    static const char *const names[] = {"conv1d", "conv2d", "conv3d"};
    return find_op(node, names);
}

int rewrite_conv_transpose(const graph_node_t *node)
{
    static const char *const names[] = {"conv_transpose1d", "conv_transpose2d", "conv_transpose3d"};
    return find_op(node, names);
}

value_t rewrite_before_conversions(const graph_t *graph, value_t value)
{
    const graph_node_t *node = value >= 0 ? graph_producer(graph, value) : NULL;
    while (node != NULL && node->kind == NODE_OP && graph_is_conversion(node->op)) {
        value = node->inputs[0];
        node = value >= 0 ? graph_producer(graph, value) : NULL;
    }
    return value;
}

const graph_node_t *rewrite_single_use(const graph_t *graph, value_t value, const char *op_name)
{
    if (value < 0 || graph_n_uses(graph, value) != 1) return NULL;
    const graph_node_t *node = graph_producer(graph, value);
    return rewrite_is_op(node, op_name) ? node : NULL;
}

status_t rewrite_visit(const graph_block_t *block, rewrite_visit_t visit, void *user)
{
    for (int i = 0; i < block->n_nodes; i++) {
        const graph_node_t *node = block->nodes[i];
        TRY(visit(user, node));
        for (int b = 0; b < node->n_blocks; b++) TRY(rewrite_visit(node->blocks[b], visit, user));
    }
    return STATUS_OK;
}
