/* Builds a graph.
 *
 * Values are records in a growing array. Each open block has growing arrays, which are copied to
 * the graph's arena at the end of the block. Nodes, types and strings are in the arena from the
 * start. Unnamed values are numbered at the end, when all names are known, so that parsing printed
 * text results in the same numbers. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "graph/ir/graph_impl.h"
#include "graph/ir/size_impl.h"
#include "tensor/context_impl.h"

/* An open block. `waiting` is its last node if the blocks of that node have not been added yet. */
typedef struct open_block {
    value_t *params;
    int n_params, params_capacity;
    const graph_node_t **nodes;
    int n_nodes, nodes_capacity;
    graph_node_t *owner;
    graph_node_t *waiting;
    int n_ended;
} open_block_t;

/* A name in use, and the number to append for the next value with the same hint. */
typedef struct taken {
    const char *name;
    value_t value;
    int next;
} taken_t;

struct graph_builder {
    context_t *ctx;
    graph_t *graph;
    status_t status;
    char message[CONTEXT_ERROR_MAX]; /* message of the first failure */
    value_record_t *values;
    int n_values, values_capacity;
    open_block_t blocks[GRAPH_MAX_DEPTH + 1];
    int depth;
    graph_node_t *last;
    taken_t *taken; /* hash table with open addressing */
    int n_taken, taken_capacity;
};

/* ---- failures ---- */

void graph_builder_fail(graph_builder_t *builder, status_t status)
{
    if (builder == NULL || status == STATUS_OK || builder->status != STATUS_OK) return;
    builder->status = status;
    snprintf(builder->message, sizeof builder->message, "%s", context_error(builder->ctx));
}

/* Records the first failure. Returns true if there was none so far. */
static bool keep(graph_builder_t *builder, status_t status)
{
    graph_builder_fail(builder, status);
    return builder->status == STATUS_OK;
}

static bool is_ready(graph_builder_t *builder)
{
    if (builder == NULL || builder->status != STATUS_OK) return false;
    const graph_node_t *waiting = builder->blocks[builder->depth].waiting;
    if (waiting == NULL) return true;
    return keep(builder,
                context_fail(builder->ctx, STATUS_INVALID_ARGUMENT, "%s: block %d of %d is missing",
                             graph_node_word(waiting), builder->blocks[builder->depth].n_ended + 1,
                             waiting->n_blocks));
}

status_t graph_builder_status(const graph_builder_t *builder)
{
    return builder->status;
}

/* ---- names ---- */

static taken_t *find_taken(const graph_builder_t *builder, const char *name, size_t length)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)name[i]) * UINT64_C(1099511628211);
    size_t mask = (size_t)builder->taken_capacity - 1;
    size_t at = (size_t)(hash ^ hash >> 32) & mask;
    for (;; at = (at + 1) & mask) {
        const char *other = builder->taken[at].name;
        if (other == NULL || (strncmp(other, name, length) == 0 && other[length] == '\0'))
            return &builder->taken[at];
    }
}

static bool is_taken(const graph_builder_t *builder, const char *name)
{
    return builder->n_taken > 0 && find_taken(builder, name, strlen(name))->name != NULL;
}

value_t graph_builder_find(const graph_builder_t *builder, const char *name, size_t length)
{
    if (builder->n_taken == 0) return VALUE_NONE;
    const taken_t *taken = find_taken(builder, name, length);
    return taken->name != NULL ? taken->value : VALUE_NONE;
}

static status_t take(graph_builder_t *builder, const char *name, value_t value)
{
    if (builder->n_taken * 2 >= builder->taken_capacity) {
        taken_t *old = builder->taken, *grown = NULL;
        int n = builder->taken_capacity, capacity = n > 0 ? n * 2 : 64;
        TRY(context_get_zeroed(builder->ctx, (size_t)capacity * sizeof *grown, "names of values",
                               &grown));
        builder->taken = grown;
        builder->taken_capacity = capacity;
        for (int i = 0; i < n; i++)
            if (old[i].name != NULL)
                *find_taken(builder, old[i].name, strlen(old[i].name)) = old[i];
        context_put(builder->ctx, old);
    }
    *find_taken(builder, name, strlen(name)) = (taken_t){name, value, 1};
    builder->n_taken++;
    return STATUS_OK;
}

static bool is_name_character(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.';
}

/* Uses the hint as the name, with a number appended if another value has that name. */
static status_t choose_name(graph_builder_t *builder, const char *hint, value_t value,
                            const char **out_name)
{
    size_t length = strlen(hint);
    char *name = NULL;
    TRY(graph_get(builder->ctx, builder->graph, length + 16, &name));
    for (size_t i = 0; i < length; i++) name[i] = is_name_character(hint[i]) ? hint[i] : '_';
    name[length] = '\0';
    if (is_taken(builder, name)) {
        taken_t *same = find_taken(builder, name, length);
        do snprintf(name + length, 16, ".%d", same->next++);
        while (is_taken(builder, name));
    }
    *out_name = name;
    return take(builder, name, value);
}

/* ---- values ---- */

static status_t new_value(graph_builder_t *builder, const char *hint, const graph_type_t *type,
                          const graph_node_t *producer, value_t *out_value)
{
    TRY(context_grow(builder->ctx, &builder->values, &builder->values_capacity,
                     builder->n_values + 1, sizeof *builder->values));
    value_record_t record = {.type = type, .producer = producer};
    if (hint != NULL && *hint != '\0')
        TRY(choose_name(builder, hint, builder->n_values, &record.name));
    builder->values[builder->n_values] = record;
    *out_value = builder->n_values++;
    return STATUS_OK;
}

static status_t use_values(graph_builder_t *builder, const char *who, int n, const value_t *values)
{
    for (int i = 0; i < n; i++)
        REQUIRE(builder->ctx, values[i] >= VALUE_NONE && values[i] < builder->n_values,
                "%s: value %" PRId32 " does not exist, the graph has %d values", who, values[i],
                builder->n_values);
    for (int i = 0; i < n; i++)
        if (values[i] >= 0) builder->values[values[i]].n_uses++;
    return STATUS_OK;
}

const graph_type_t *graph_builder_type(const graph_builder_t *builder, value_t value)
{
    if (builder == NULL || value < 0 || value >= builder->n_values)
        return type_plain(value == VALUE_NONE ? TYPE_NONE : TYPE_UNKNOWN);
    return builder->values[value].type;
}

datum_t *graph_builder_constant(const graph_builder_t *builder, value_t value)
{
    if (builder == NULL || value < 0 || value >= builder->n_values) return NULL;
    const graph_node_t *producer = builder->values[value].producer;
    return producer != NULL && producer->kind == NODE_CONSTANT ? producer->datum : NULL;
}

const char *graph_builder_name(const graph_builder_t *builder, value_t value)
{
    return value >= 0 && value < builder->n_values ? builder->values[value].name : NULL;
}

status_t graph_builder_set_fixed(graph_builder_t *builder, const char *reason)
{
    return graph_string(builder->ctx, builder->graph, reason, &builder->graph->fixed);
}

graph_t *graph_builder_graph(graph_builder_t *builder)
{
    return builder->graph;
}

int graph_builder_depth(const graph_builder_t *builder)
{
    return builder->depth;
}

int graph_builder_n_values(const graph_builder_t *builder)
{
    return builder->n_values;
}

void graph_set_type(graph_builder_t *builder, value_t value, const graph_type_t *type)
{
    if (builder == NULL || builder->status != STATUS_OK) return;
    if (!keep(builder, use_values(builder, "graph_set_type", 1, &value)) || value < 0) return;
    value_record_t *record = &builder->values[value];
    record->n_uses--;
    keep(builder, type_copy(builder->ctx, builder->graph, type, &record->type));
}

static bool is_said(const graph_type_t *type)
{
    return type != NULL && type->kind != TYPE_UNKNOWN;
}

/* ---- inferred types ---- */

static status_t fail_at_path(context_t *ctx, status_t status, const char *path)
{
    if (status == STATUS_OK || path == NULL) return status;
    return context_fail(ctx, status, "%s at \"%s\"", context_error(ctx), path);
}

static status_t infer_op(graph_builder_t *builder, const graph_node_t *node,
                         const graph_type_t *const *in, const graph_type_t **out_types)
{
    context_t *ctx = builder->ctx;
    tensor_info_t infos[OP_MAX_OUTPUTS];
    int n = 0;
    status_t status = graph_infer(ctx, node->op, node->attrs, node->n_inputs, in, &n, infos);
    TRY(fail_at_path(ctx, status, node->path));
    if (n == 0) return STATUS_OK;
    if (n != node->n_outputs)
        return fail_at_path(ctx,
                            context_fail(ctx, STATUS_INVALID_ARGUMENT,
                                         "%s: it has %d outputs, %d values are given",
                                         node->op->name, n, node->n_outputs),
                            node->path);
    for (int i = 0; i < n; i++) TRY(type_of_info(ctx, builder->graph, &infos[i], &out_types[i]));
    return STATUS_OK;
}

static status_t infer_node(graph_builder_t *builder, const graph_node_t *node,
                           const graph_type_t **out_types)
{
    context_t *ctx = builder->ctx;
    if (node->kind == NODE_CONSTANT)
        return type_of_datum(ctx, builder->graph, node->datum, &out_types[0]);
    if (node->kind != NODE_OP && node->kind != NODE_BUILTIN) return STATUS_OK;
    const graph_type_t **in = NULL;
    TRY(context_get(ctx, (size_t)node->n_inputs * sizeof *in, "types of operands", &in));
    for (int i = 0; i < node->n_inputs; i++) in[i] = graph_builder_type(builder, node->inputs[i]);
    FINISH(node->kind == NODE_OP ? infer_op(builder, node, in, out_types)
                                 : type_of_builtin(ctx, builder->graph, graph_builtin(node->name),
                                                   node->n_inputs, in, node->n_outputs, out_types),
           context_put(ctx, in));
}

/* Finds the types of a node's outputs: the given ones, and inferred ones where none is given. */
static status_t find_types(graph_builder_t *builder, const graph_node_t *node,
                           const graph_type_t *const *said, const graph_type_t **out_types)
{
    bool is_complete = said != NULL;
    for (int i = 0; i < node->n_outputs; i++) {
        out_types[i] = type_plain(TYPE_UNKNOWN);
        is_complete = is_complete && is_said(said[i]);
    }
    /* Constants are always inferred, which checks that they can be printed. */
    if (!is_complete || node->kind == NODE_CONSTANT) TRY(infer_node(builder, node, out_types));
    for (int i = 0; i < node->n_outputs && said != NULL; i++)
        if (is_said(said[i])) TRY(type_copy(builder->ctx, builder->graph, said[i], &out_types[i]));
    return STATUS_OK;
}

/* ---- nodes ---- */

/* The number of outputs of a node of this kind; -1: any number, set by the caller. */
static int fixed_outputs(const graph_node_t *node)
{
    switch (node->kind) {
    case NODE_OP: return node->op->n_outputs > 0 ? node->op->n_outputs : -1;
    case NODE_CONSTANT:
    case NODE_GETATTR: return 1;
    case NODE_SETATTR: return 0;
    case NODE_BUILTIN: return graph_builtin(node->name)->n_outputs;
    default: return -1;
    }
}

/* Checks the rules for nodes on which other code relies. The verifier checks the rules for
 * operands. */
static status_t check_shape(context_t *ctx, const graph_node_t *node)
{
    int least = 0, most = INT32_MAX, n_outputs;
    bool needs_name = false;
    switch (node->kind) {
    case NODE_OP:
        if (node->op == NULL) return context_null(ctx, "graph_add_node", "op");
        most = OP_MAX_INPUTS;
        REQUIRE(ctx, node->n_outputs <= OP_MAX_OUTPUTS, "%s: %d results, at most %d are allowed",
                node->op->name, node->n_outputs, OP_MAX_OUTPUTS);
        break;
    case NODE_CONSTANT:
        if (node->datum == NULL) return context_null(ctx, "graph_add_constant", "datum");
        most = 0;
        break;
    case NODE_GETATTR: least = most = 1, needs_name = true; break;
    case NODE_SETATTR: least = most = 2, needs_name = true; break;
    case NODE_CALL: least = 1, needs_name = true; break;
    case NODE_IF: least = most = 1; break;
    case NODE_LOOP: least = most = node->n_outputs + 2; break;
    case NODE_BUILTIN: {
        const builtin_t *builtin = node->name != NULL ? graph_builtin(node->name) : NULL;
        REQUIRE(ctx, builtin != NULL, "graph_add_node: \"%s\" is not a builtin",
                node->name != NULL ? node->name : "");
        least = builtin->min_inputs;
        if (builtin->max_inputs >= 0) most = builtin->max_inputs;
        break;
    }
    }
    if (needs_name && node->name == NULL) return context_null(ctx, graph_node_word(node), "name");
    REQUIRE(ctx, node->n_inputs >= least, "%s: %d operands, needs %d", graph_node_word(node),
            node->n_inputs, least);
    REQUIRE(ctx, node->n_inputs <= most, "%s: %d operands, at most %d are allowed",
            graph_node_word(node), node->n_inputs, most);
    REQUIRE(ctx,
            node->kind != NODE_BUILTIN || strcmp(node->name, "dict") != 0 ||
                node->n_inputs % 2 == 0,
            "dict: %d operands, a key and a value for each item are needed", node->n_inputs);
    n_outputs = fixed_outputs(node);
    REQUIRE(ctx, node->n_outputs >= 0 && (n_outputs < 0 || node->n_outputs == n_outputs),
            "%s: it has %d outputs, %d values are given", graph_node_word(node), n_outputs,
            node->n_outputs);
    return STATUS_OK;
}

/* Number of omitted optional operands. They become `none`, so that the operands of post-ops have
 * fixed positions. */
static int n_left_out(const opdef_t *op, int n_own)
{
    if (n_own < 0) return 0;
    for (int i = n_own; i < op->n_operands; i++)
        if (!op->operands[i].is_optional || op->operands[i].is_variadic) return 0;
    return op->n_operands > n_own ? op->n_operands - n_own : 0;
}

static status_t copy_inputs(graph_builder_t *builder, graph_node_t *node, const value_t *inputs)
{
    value_t *copy = NULL;
    int n = node->n_inputs, n_post = node->n_post_inputs, n_more = 0;
    TRY(use_values(builder, graph_node_word(node), n, inputs));
    if (node->kind == NODE_OP) n_more = n_left_out(node->op, n - n_post);
    TRY(graph_get(builder->ctx, builder->graph, (size_t)(n + n_more) * sizeof *copy, &copy));
    for (int i = 0; i < n - n_post; i++) copy[i] = inputs[i];
    for (int i = 0; i < n_more; i++) copy[n - n_post + i] = VALUE_NONE;
    for (int i = n - n_post; i < n; i++) copy[n_more + i] = inputs[i];
    node->inputs = copy;
    node->n_inputs = n + n_more;
    return STATUS_OK;
}

/* Copies attributes and strings into the graph and retains the datum. */
static status_t copy_parts(graph_builder_t *builder, const graph_node_t *from, graph_node_t *node)
{
    context_t *ctx = builder->ctx;
    graph_t *graph = builder->graph;
    node->n_post_inputs = 0;
    node->attrs = NULL;
    node->n_sized = from->kind == NODE_OP ? from->n_sized : 0;
    node->sized = NULL;
    node->is_in_place = from->kind == NODE_OP && from->is_in_place;
    node->is_inline = from->kind == NODE_CONSTANT && from->is_inline;
    if (from->kind == NODE_OP) {
        void *attrs = NULL;
        TRY(graph_get(ctx, graph, from->op->attrs.bytes, &attrs));
        attrs_normalize(&from->op->attrs, from->attrs, attrs);
        node->attrs = attrs;
        node->n_post_inputs = graph_n_post(from->op, attrs);
        TRY(size_copy(ctx, graph, from->op, attrs, from->n_sized, from->sized, &node->sized));
        REQUIRE(ctx, node->n_post_inputs <= from->n_inputs, "%s: %d operands, its post-ops need %d",
                from->op->name, from->n_inputs, node->n_post_inputs);
    }
    if (from->kind == NODE_CONSTANT) TRY(graph_hold(ctx, graph, from->datum));
    if (from->kind == NODE_BUILTIN)
        node->name = graph_builtin(from->name)->name;
    else
        TRY(graph_string(ctx, graph, from->name, &node->name));
    return graph_builder_set_path(builder, node, from->path);
}

static status_t make_outputs(graph_builder_t *builder, graph_node_t *node,
                             const graph_type_t *const *types, const char *const *names,
                             value_t *out_values)
{
    value_t *outputs = NULL;
    const graph_type_t **found = NULL;
    size_t n = (size_t)node->n_outputs;
    TRY(graph_get(builder->ctx, builder->graph, n * sizeof *outputs, &outputs));
    TRY(graph_get(builder->ctx, builder->graph, n * sizeof *found, &found));
    TRY(find_types(builder, node, types, found));
    for (size_t i = 0; i < n; i++)
        TRY(new_value(builder, names != NULL ? names[i] : NULL, found[i], node, &outputs[i]));
    for (size_t i = 0; i < n; i++) out_values[i] = outputs[i];
    node->outputs = outputs;
    return STATUS_OK;
}

static status_t make_block_places(graph_builder_t *builder, graph_node_t *node)
{
    node->n_blocks = node->kind == NODE_IF ? 2 : node->kind == NODE_LOOP ? 1 : 0;
    node->blocks = NULL;
    if (node->n_blocks == 0) return STATUS_OK;
    graph_block_t **blocks = NULL;
    TRY(graph_get(builder->ctx, builder->graph, (size_t)node->n_blocks * sizeof *blocks, &blocks));
    for (int i = 0; i < node->n_blocks; i++)
        TRY(graph_get(builder->ctx, builder->graph, sizeof **blocks, &blocks[i]));
    for (int i = 0; i < node->n_blocks; i++)
        *blocks[i] = (graph_block_t){.index = ++builder->graph->n_blocks};
    node->blocks = blocks;
    return STATUS_OK;
}

static status_t add_node(graph_builder_t *builder, const graph_node_t *from, const value_t *inputs,
                         const graph_type_t *const *types, const char *const *names,
                         value_t *out_values)
{
    context_t *ctx = builder->ctx;
    graph_node_t *node = NULL;
    TRY(check_shape(ctx, from));
    TRY(context_array(ctx, "graph_add_node", "inputs", from->n_inputs, inputs));
    TRY(context_array(ctx, "graph_add_node", "outputs", from->n_outputs, out_values));
    TRY(graph_get(ctx, builder->graph, sizeof *node, &node));
    *node = *from;
    TRY(copy_parts(builder, from, node));
    TRY(copy_inputs(builder, node, inputs));
    TRY(make_block_places(builder, node));
    TRY(make_outputs(builder, node, types, names, out_values));
    open_block_t *block = &builder->blocks[builder->depth];
    TRY(context_grow(ctx, &block->nodes, &block->nodes_capacity, block->n_nodes + 1,
                     sizeof *block->nodes));
    block->nodes[block->n_nodes++] = node;
    if (node->n_blocks > 0) {
        block->waiting = node;
        block->n_ended = 0;
    }
    builder->last = node;
    builder->graph->n_nodes++;
    return STATUS_OK;
}

void graph_add_node(graph_builder_t *builder, const graph_node_t *node, const value_t *inputs,
                    const graph_type_t *const *types, const char *const *names, value_t *out_values)
{
    if (node == NULL) return;
    if (is_ready(builder) &&
        keep(builder, add_node(builder, node, inputs, types, names, out_values)))
        return;
    for (int i = 0; i < node->n_outputs && out_values != NULL; i++) out_values[i] = VALUE_NONE;
}

static value_t add_one(graph_builder_t *builder, graph_node_t *node, const value_t *inputs,
                       const graph_type_t *type, const char *name)
{
    value_t value = VALUE_NONE;
    node->n_outputs = 1;
    graph_add_node(builder, node, inputs, &type, &name, &value);
    return value;
}

value_t graph_add_constant(graph_builder_t *builder, datum_t *datum, const char *name)
{
    graph_node_t node = {.kind = NODE_CONSTANT, .datum = datum};
    return add_one(builder, &node, NULL, NULL, name);
}

value_t graph_add_literal(graph_builder_t *builder, datum_t *datum)
{
    graph_node_t node = {.kind = NODE_CONSTANT, .datum = datum, .is_inline = true};
    return add_one(builder, &node, NULL, NULL, NULL);
}

value_t graph_add_getattr(graph_builder_t *builder, value_t object, const char *path,
                          const graph_type_t *type)
{
    graph_node_t node = {.kind = NODE_GETATTR, .name = path, .n_inputs = 1};
    return add_one(builder, &node, &object, type, NULL);
}

value_t graph_add_op(graph_builder_t *builder, const opdef_t *op, const void *attrs, int n_inputs,
                     const value_t *inputs, const char *path)
{
    graph_node_t node = {
        .kind = NODE_OP, .op = op, .attrs = attrs, .path = path, .n_inputs = n_inputs};
    return add_one(builder, &node, inputs, NULL, NULL);
}

void graph_add_op_n(graph_builder_t *builder, const opdef_t *op, const void *attrs, int n_inputs,
                    const value_t *inputs, const char *path, int n_outputs, value_t *out_values)
{
    graph_node_t node = {.kind = NODE_OP,
                         .op = op,
                         .attrs = attrs,
                         .path = path,
                         .n_inputs = n_inputs,
                         .n_outputs = n_outputs};
    graph_add_node(builder, &node, inputs, NULL, NULL, out_values);
}

graph_node_t *graph_builder_last(graph_builder_t *builder)
{
    return builder->last;
}

/* Reuses the path of the previous node if it is equal. */
status_t graph_builder_set_path(graph_builder_t *builder, graph_node_t *node, const char *path)
{
    const char *before = builder->last != NULL ? builder->last->path : NULL;
    if (path != NULL && before != NULL && strcmp(path, before) == 0) {
        node->path = before;
        return STATUS_OK;
    }
    return graph_string(builder->ctx, builder->graph, path, &node->path);
}

/* ---- blocks ---- */

/* Default type of a loop parameter. */
static const graph_type_t *carried_type(const graph_builder_t *builder, const open_block_t *block)
{
    const graph_node_t *owner = block->owner;
    int index = block->n_params;
    if (owner == NULL || owner->kind != NODE_LOOP || index + 1 >= owner->n_inputs)
        return type_plain(TYPE_UNKNOWN);
    return type_carried(index, graph_builder_type(builder, owner->inputs[index + 1]));
}

static status_t add_param(graph_builder_t *builder, const char *name, const graph_type_t *type,
                          value_t *out_value)
{
    open_block_t *block = &builder->blocks[builder->depth];
    const graph_type_t *copy = NULL;
    if (is_said(type))
        TRY(type_copy(builder->ctx, builder->graph, type, &copy));
    else
        copy = carried_type(builder, block);
    TRY(context_grow(builder->ctx, &block->params, &block->params_capacity, block->n_params + 1,
                     sizeof *block->params));
    value_t value = VALUE_NONE;
    TRY(new_value(builder, name, copy, NULL, &value));
    block->params[block->n_params++] = value;
    *out_value = value;
    return STATUS_OK;
}

value_t graph_add_param(graph_builder_t *builder, const char *name, const graph_type_t *type)
{
    value_t value = VALUE_NONE;
    if (is_ready(builder)) keep(builder, add_param(builder, name, type, &value));
    return value;
}

static status_t begin_block(graph_builder_t *builder)
{
    graph_node_t *owner = builder->blocks[builder->depth].waiting;
    REQUIRE(builder->ctx, owner != NULL, "graph_block_begin: the last node needs no further block");
    REQUIRE(builder->ctx, builder->depth < GRAPH_MAX_DEPTH,
            "graph_block_begin: blocks are nested more than %d deep", GRAPH_MAX_DEPTH);
    open_block_t *block = &builder->blocks[++builder->depth];
    block->n_params = block->n_nodes = block->n_ended = 0;
    block->owner = owner;
    block->waiting = NULL;
    return STATUS_OK;
}

void graph_block_begin(graph_builder_t *builder)
{
    if (builder != NULL && builder->status == STATUS_OK) keep(builder, begin_block(builder));
}

/* Copies the block's arrays into the graph. */
static status_t settle_block(graph_builder_t *builder, int n_results, const value_t *results,
                             graph_block_t *out_block)
{
    context_t *ctx = builder->ctx;
    const open_block_t *block = &builder->blocks[builder->depth];
    value_t *params = NULL, *copies = NULL;
    const graph_node_t **nodes = NULL;
    TRY(context_array(ctx, "graph_block_end", "results", n_results, results));
    TRY(use_values(builder, "graph_block_end", n_results, results));
    TRY(graph_get(ctx, builder->graph, (size_t)block->n_params * sizeof *params, &params));
    TRY(graph_get(ctx, builder->graph, (size_t)block->n_nodes * sizeof *nodes, &nodes));
    TRY(graph_get(ctx, builder->graph, (size_t)n_results * sizeof *copies, &copies));
    for (int i = 0; i < block->n_params; i++) params[i] = block->params[i];
    for (int i = 0; i < block->n_nodes; i++) nodes[i] = block->nodes[i];
    for (int i = 0; i < n_results; i++) copies[i] = results[i];
    *out_block = (graph_block_t){.index = out_block->index,
                                 .n_params = block->n_params,
                                 .params = params,
                                 .n_nodes = block->n_nodes,
                                 .nodes = nodes,
                                 .n_results = n_results,
                                 .results = copies};
    return STATUS_OK;
}

static status_t check_block(context_t *ctx, const graph_node_t *owner, const open_block_t *block,
                            int n_results)
{
    bool is_loop = owner->kind == NODE_LOOP;
    const char *name = is_loop ? "loop" : "if";
    int n_params = is_loop ? owner->n_outputs + 1 : 0;
    int needed = owner->n_outputs + (is_loop ? 1 : 0);
    REQUIRE(ctx, block->n_params == n_params, "%s: its block has %d parameters, needs %d%s", name,
            block->n_params, n_params, is_loop ? " (iteration, carried values)" : "");
    REQUIRE(ctx, n_results == needed, "%s: its block yields %d values, needs %d%s", name, n_results,
            needed, is_loop ? " (condition, carried values)" : "");
    return STATUS_OK;
}

/* Sets the type of each output without a type, so that it includes the results of both branches, or
 * the initial and the yielded value of a loop. */
static status_t join_outputs(graph_builder_t *builder, const graph_node_t *node)
{
    bool is_loop = node->kind == NODE_LOOP;
    for (int i = 0; i < node->n_outputs; i++) {
        value_record_t *record = &builder->values[node->outputs[i]];
        if (is_said(record->type)) continue;
        value_t a = is_loop ? node->inputs[i + 2] : node->blocks[0]->results[i];
        value_t b = is_loop ? node->blocks[0]->results[i + 1] : node->blocks[1]->results[i];
        TRY(type_join(builder->ctx, builder->graph, graph_builder_type(builder, a),
                      graph_builder_type(builder, b), &record->type));
    }
    return STATUS_OK;
}

static status_t end_block(graph_builder_t *builder, int n_results, const value_t *results)
{
    REQUIRE(builder->ctx, builder->depth > 0, "graph_block_end: no block is open");
    const open_block_t *block = &builder->blocks[builder->depth];
    TRY(check_block(builder->ctx, block->owner, block, n_results));
    open_block_t *outer = &builder->blocks[builder->depth - 1];
    graph_node_t *owner = outer->waiting;
    TRY(settle_block(builder, n_results, results, owner->blocks[outer->n_ended]));
    builder->depth--;
    if (++outer->n_ended < owner->n_blocks) return STATUS_OK;
    outer->waiting = NULL;
    return join_outputs(builder, owner);
}

void graph_block_end(graph_builder_t *builder, int n_results, const value_t *results)
{
    if (is_ready(builder)) keep(builder, end_block(builder, n_results, results));
}

/* ---- creating and finishing ---- */

static status_t set_graph_name(graph_builder_t *builder, const char *name)
{
    char *copy = NULL;
    size_t length = strlen(name);
    TRY(graph_get(builder->ctx, builder->graph, length + 2, &copy));
    bool has_letter = (*name >= 'a' && *name <= 'z') || (*name >= 'A' && *name <= 'Z');
    builder->graph->name = copy;
    if (!has_letter) *copy++ = 'g';
    for (size_t i = 0; i < length; i++) copy[i] = is_name_character(name[i]) ? name[i] : '_';
    copy[length] = '\0';
    return STATUS_OK;
}

status_t graph_builder_create(context_t *ctx, const char *name, graph_builder_t **out_builder)
{
    TRY(context_output(ctx, "graph_builder_create", out_builder));
    if (name == NULL) return context_null(ctx, "graph_builder_create", "name");
    graph_builder_t *builder = NULL;
    TRY(context_get_zeroed(ctx, sizeof *builder, "a graph builder", &builder));
    builder->ctx = ctx;
    status_t status = graph_make(ctx, &builder->graph);
    if (status == STATUS_OK) status = set_graph_name(builder, name);
    GIVE(status, out_builder, builder, graph_builder_destroy(builder));
}

void graph_builder_destroy(graph_builder_t *builder)
{
    if (builder == NULL) return;
    context_t *ctx = builder->ctx;
    for (int i = 0; i <= GRAPH_MAX_DEPTH; i++) {
        CONTEXT_PUT(ctx, builder->blocks[i].params, builder->blocks[i].nodes);
    }
    CONTEXT_PUT(ctx, builder->values, builder->taken);
    graph_release(builder->graph);
    context_put(ctx, builder);
}

/* Numbers the values without names. Literals come last, since their names are never printed. */
static status_t number_values(graph_builder_t *builder, bool literals, int *number)
{
    for (int i = 0; i < builder->n_values; i++) {
        value_record_t *record = &builder->values[i];
        bool is_literal = record->producer != NULL && record->producer->is_inline;
        if (record->name != NULL || is_literal != literals) continue;
        char *name = NULL;
        TRY(graph_get(builder->ctx, builder->graph, 16, &name));
        do snprintf(name, 16, "%d", (*number)++);
        while (is_taken(builder, name));
        record->name = name;
    }
    return STATUS_OK;
}

static status_t finish(graph_builder_t *builder, int n_results, const value_t *results)
{
    context_t *ctx = builder->ctx;
    graph_t *graph = builder->graph;
    REQUIRE(ctx, graph != NULL, "graph_finish: the builder is empty");
    REQUIRE(ctx, builder->depth == 0, "graph_finish: %d blocks are open", builder->depth);
    graph_block_t *body = NULL;
    TRY(graph_get(ctx, graph, sizeof *body, &body));
    body->index = 0;
    graph->n_blocks++;
    TRY(settle_block(builder, n_results, results, body));
    graph->body = body;
    int number = 1;
    TRY(number_values(builder, false, &number));
    TRY(number_values(builder, true, &number));
    TRY(graph_get(ctx, graph, (size_t)builder->n_values * sizeof *graph->values, &graph->values));
    for (int i = 0; i < builder->n_values; i++) graph->values[i] = builder->values[i];
    graph->n_values = builder->n_values;
    return STATUS_OK;
}

status_t graph_finish(graph_builder_t *builder, int n_results, const value_t *results,
                      graph_t **out_graph)
{
    if (out_graph != NULL) *out_graph = NULL;
    if (builder == NULL) return STATUS_INVALID_ARGUMENT;
    TRY(context_output(builder->ctx, "graph_finish", out_graph));
    if (builder->status != STATUS_OK)
        return context_fail(builder->ctx, builder->status, "%s", builder->message);
    if (!is_ready(builder) || !keep(builder, finish(builder, n_results, results)))
        return builder->status;
    *out_graph = builder->graph;
    builder->graph = NULL;
    builder->status = STATUS_INVALID_ARGUMENT;
    snprintf(builder->message, sizeof builder->message, "graph_finish: the builder is empty");
    return STATUS_OK;
}
