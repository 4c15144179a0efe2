/* Checks rules that the builder does not: scope, operands, attributes, types and formats. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "graph/ir/graph_impl.h"
#include "tensor/context_impl.h"

typedef struct verifier {
    context_t *ctx;
    const graph_t *graph;
    graph_t *scratch; /* its arena stores types while they are compared */
    bool *is_visible; /* [value] */
    status_t status;  /* first failure while printing for a message */
} verifier_t;

/* ---- messages ---- */

/* Fails with "relu: <what is wrong>, in "%2 = relu(%1)"", or with the graph's name instead if node
 * is NULL. */
static status_t wrong(verifier_t *verifier, const graph_node_t *node, const char *format, ...)
    TESSERA_PRINTF(3, 4);
static status_t wrong(verifier_t *verifier, const graph_node_t *node, const char *format, ...)
{
    char message[CONTEXT_ERROR_MAX / 2];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    context_t *ctx = verifier->ctx;
    TRY(verifier->status);
    if (node == NULL)
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "%s: %s", graph_name(verifier->graph), message);
    text_t line = text_begin(ctx);
    graph_print_node(verifier->graph, node, &line);
    status_t status = text_status(&line);
    if (status == STATUS_OK)
        status = context_fail(ctx, STATUS_INVALID_ARGUMENT, "%s: %s, in \"%s\"",
                              graph_node_word(node), message, text_string(&line));
    text_clear(&line);
    return status;
}

/* Adds the node to an error message of an operator's own check. */
static status_t wrong_as_told(verifier_t *verifier, const graph_node_t *node, status_t status)
{
    context_t *ctx = verifier->ctx;
    if (status != STATUS_INVALID_ARGUMENT && status != STATUS_UNSUPPORTED) return status;
    const char *told = context_error(ctx), *name = graph_node_word(node);
    size_t n = strlen(name);
    if (strncmp(told, name, n) == 0 && strncmp(told + n, ": ", 2) == 0) told += n + 2;
    return wrong(verifier, node, "%s", told);
}

/* Prints a type into a buffer. */
#define TYPE_TEXT_MAX 320
static const char *type_text(verifier_t *verifier, const graph_type_t *type, char *out_text)
{
    text_t text = text_begin(verifier->ctx);
    type_print(type, &text);
    snprintf(out_text, TYPE_TEXT_MAX, "%s", text_string(&text));
    if (verifier->status == STATUS_OK) verifier->status = text_status(&text);
    text_clear(&text);
    return out_text;
}

static const graph_type_t *type_at(verifier_t *verifier, value_t value)
{
    return graph_value_type(verifier->graph, value);
}

/* ---- scope ---- */

static status_t check_visible(verifier_t *verifier, const graph_node_t *node, int n,
                              const value_t *values)
{
    for (int i = 0; i < n; i++) {
        if (values[i] < 0 || verifier->is_visible[values[i]]) continue;
        return wrong(verifier, node, "%%%s is used before its definition, or outside its block",
                     graph_value_name(verifier->graph, values[i]));
    }
    return STATUS_OK;
}

/* Checks that a value's type fits the type that its reader needs. */
static status_t check_edge(verifier_t *verifier, const graph_node_t *node, value_t from,
                           const graph_type_t *to, const char *what, int index)
{
    char given[TYPE_TEXT_MAX], taken[TYPE_TEXT_MAX];
    bool formats_only = false;
    if (type_fits(type_at(verifier, from), to, &formats_only)) return STATUS_OK;
    return wrong(verifier, node, "%s %d comes from %%%s as %s, but is read as %s%s", what, index,
                 graph_value_name(verifier->graph, from),
                 type_text(verifier, type_at(verifier, from), given),
                 type_text(verifier, to, taken), formats_only ? " (a reorder is missing)" : "");
}

/* ---- operators ---- */

static bool is_container(const graph_type_t *type)
{
    return type->kind == TYPE_LIST || type->kind == TYPE_TUPLE;
}

static const operand_t *operand_at(const opdef_t *op, int n_own, int index)
{
    if (index >= n_own) return NULL;
    if (index < op->n_operands) return &op->operands[index];
    bool is_variadic = op->n_operands > 0 && op->operands[op->n_operands - 1].is_variadic;
    return is_variadic ? &op->operands[op->n_operands - 1] : NULL;
}

static status_t check_operand(verifier_t *verifier, const graph_node_t *node,
                              const operand_t *operand, value_t value)
{
    char text[TYPE_TEXT_MAX];
    const char *name = operand != NULL ? operand->name : "of a post-op";
    const graph_type_t *type = type_at(verifier, value);
    switch (type->kind) {
    case TYPE_UNKNOWN:
    case TYPE_TENSOR:
    case TYPE_INT:
    case TYPE_FLOAT:
    case TYPE_BOOL:
    case TYPE_LIST:
    case TYPE_TUPLE: return STATUS_OK;
    case TYPE_NONE:
        /* A value that may be none is accepted: the node may be in a branch that never runs. */
        if (value >= 0 || (operand != NULL && (operand->is_optional || operand->is_variadic)))
            return STATUS_OK;
        return wrong(verifier, node, "operand %s is missing", name);
    default:
        return wrong(verifier, node, "operand %s is %s, must be a tensor or a number", name,
                     type_text(verifier, type, text));
    }
}

/* Checks the number of operands, unless one operand is a list. */
static status_t check_operands(verifier_t *verifier, const graph_node_t *node)
{
    const opdef_t *op = node->op;
    int n_own = node->n_inputs - node->n_post_inputs;
    bool has_list = false;
    for (int i = 0; i < node->n_inputs; i++)
        has_list |= is_container(type_at(verifier, node->inputs[i]));
    if (!has_list && n_own < op->n_operands && !op->operands[n_own].is_variadic)
        return wrong(verifier, node, "%d operands, %s is missing", n_own, op->operands[n_own].name);
    for (int i = 0; i < node->n_inputs; i++) {
        const operand_t *operand = operand_at(op, n_own, i);
        if (i < n_own && operand == NULL && !has_list)
            return wrong(verifier, node, "%d operands, at most %d are allowed", n_own,
                         op->n_operands);
        TRY(check_operand(verifier, node, operand, node->inputs[i]));
    }
    return STATUS_OK;
}

static status_t check_post(verifier_t *verifier, const graph_node_t *node, const post_ops_t *post)
{
    if (post->n < 0 || post->n > POST_MAX)
        return wrong(verifier, node, "%d post-ops, at most %d are allowed", post->n, POST_MAX);
    for (int i = 0; i < post->n; i++) {
        const post_op_t *op = &post->op[i];
        bool is_known = (unsigned)op->kind < POST_ELTWISE ||
                        (op->kind == POST_ELTWISE && (unsigned)op->eltwise < ELTWISE_COUNT &&
                         op->eltwise != ELTWISE_NONE);
        if (!is_known) return wrong(verifier, node, "post-op %d has an unknown kind", i);
    }
    return STATUS_OK;
}

static status_t check_attributes(verifier_t *verifier, const graph_node_t *node)
{
    const attr_table_t *table = &node->op->attrs;
    for (int f = 0; f < table->n_fields; f++) {
        const attr_field_t *field = &table->fields[f];
        const void *at = (const char *)node->attrs + field->offset;
        int n = 0, n_names = 0;
        switch (field->kind) {
        case ATTR_NAME:
            memcpy(&n, at, sizeof n);
            while (field->names[n_names] != NULL) n_names++;
            if (n < 0 || n >= n_names)
                return wrong(verifier, node, "attribute %s is %d, must be below %d", field->name, n,
                             n_names);
            break;
        case ATTR_DTYPE:
            if (*(const dtype_t *)at >= DTYPE_COUNT)
                return wrong(verifier, node, "attribute %s is not a dtype", field->name);
            break;
        case ATTR_INTS:
            n = ((const ints_t *)at)->n;
            if (n < 0 || n > TENSOR_MAX_RANK)
                return wrong(verifier, node, "attribute %s has %d integers, at most %d are allowed",
                             field->name, n, TENSOR_MAX_RANK);
            break;
        case ATTR_FLOATS:
            n = ((const floats_t *)at)->n;
            if (n < 0 || n > TENSOR_MAX_RANK)
                return wrong(verifier, node, "attribute %s has %d numbers, at most %d are allowed",
                             field->name, n, TENSOR_MAX_RANK);
            break;
        case ATTR_POST: TRY(check_post(verifier, node, at)); break;
        default: break;
        }
    }
    return STATUS_OK;
}

/* Compares dtypes and sizes with inferred ones, but not layouts: operators run in any layout. */
static status_t check_inferred(verifier_t *verifier, const graph_node_t *node)
{
    context_t *ctx = verifier->ctx;
    const graph_type_t **in = NULL;
    tensor_info_t infos[OP_MAX_OUTPUTS];
    int n = 0;
    TRY(graph_get(ctx, verifier->scratch, (size_t)node->n_inputs * sizeof *in, &in));
    for (int i = 0; i < node->n_inputs; i++) in[i] = type_at(verifier, node->inputs[i]);
    TRY(wrong_as_told(verifier, node,
                      graph_infer(ctx, node->op, node->attrs, node->n_inputs, in, &n, infos)));
    if (n > 0 && n != node->n_outputs)
        return wrong(verifier, node, "%d outputs are inferred, the node has %d", n,
                     node->n_outputs);
    for (int i = 0; i < n; i++) {
        graph_type_t said = *type_at(verifier, node->outputs[i]);
        graph_type_t inferred = {.kind = TYPE_TENSOR, .has_info = true, .info = infos[i]};
        char a[TYPE_TEXT_MAX], b[TYPE_TEXT_MAX];
        bool formats_only = false;
        if (type_fits(&said, &inferred, &formats_only) || formats_only) continue;
        return wrong(verifier, node, "output %d has type %s, but %s was inferred", i,
                     type_text(verifier, &said, a), type_text(verifier, &inferred, b));
    }
    return STATUS_OK;
}

/* ---- formats ---- */

/* The info of an mkldnn tensor with a chosen format, or NULL. */
static const tensor_info_t *chosen_info(const graph_type_t *type)
{
    if (!type_is_static(type) || type->info.layout != LAYOUT_MKLDNN ||
        type->info.format.kind == FORMAT_ANY)
        return NULL;
    return &type->info;
}

static status_t check_same_format(verifier_t *verifier, const graph_node_t *node, value_t value,
                                  const char *why)
{
    const tensor_info_t *from = chosen_info(type_at(verifier, value));
    const tensor_info_t *to = chosen_info(type_at(verifier, node->outputs[0]));
    char a[FORMAT_TEXT_MAX], b[FORMAT_TEXT_MAX];
    if (from == NULL || to == NULL || !shape_equal(from->rank, from->sizes, to->rank, to->sizes) ||
        format_same(&from->format, &to->format, to->sizes))
        return STATUS_OK;
    return wrong(verifier, node, "%%%s is @%s, but %s @%s (a reorder is missing)",
                 graph_value_name(verifier->graph, value), format_text(&from->format, a), why,
                 format_text(&to->format, b));
}

/* Checks formats of results where they are determined: by the operand of a "sum" post-op, by the
 * input of an elementwise operator, by the format attribute of a reorder. */
static status_t check_formats(verifier_t *verifier, const graph_node_t *node)
{
    const opdef_t *op = node->op;
    int next = node->n_inputs - node->n_post_inputs;
    if (node->n_outputs == 0) return STATUS_OK;
    if (op->traits & TRAIT_ELEMENTWISE && node->n_inputs > 0)
        TRY(check_same_format(verifier, node, node->inputs[0], "the result is"));
    for (int f = 0; f < op->attrs.n_fields; f++) {
        const attr_field_t *field = &op->attrs.fields[f];
        const void *at = (const char *)node->attrs + field->offset;
        if (field->kind == ATTR_POST) {
            const post_ops_t *post = at;
            for (int i = 0; i < post->n; i++) {
                if (post->op[i].kind == POST_SUM)
                    TRY(check_same_format(verifier, node, node->inputs[next],
                                          "is summed into a result in"));
                next += post->op[i].kind != POST_ELTWISE;
            }
        }
        const tensor_info_t *out = chosen_info(type_at(verifier, node->outputs[0]));
        if (field->kind != ATTR_FORMAT || out == NULL) continue;
        char a[FORMAT_TEXT_MAX], b[FORMAT_TEXT_MAX];
        const format_t *format = at;
        if (format->kind != FORMAT_ANY && !format_same(format, &out->format, out->sizes))
            return wrong(verifier, node, "%s is %s, but the result is @%s", field->name,
                         format_text(format, a), format_text(&out->format, b));
    }
    return STATUS_OK;
}

static status_t check_op(verifier_t *verifier, const graph_node_t *node)
{
    char text[TYPE_TEXT_MAX];
    TRY(check_attributes(verifier, node));
    TRY(check_operands(verifier, node));
    for (int i = 0; i < node->n_outputs; i++) {
        const graph_type_t *type = type_at(verifier, node->outputs[i]);
        if (type->kind != TYPE_UNKNOWN && type->kind != TYPE_TENSOR)
            return wrong(verifier, node, "output %d has type %s, operators return tensors", i,
                         type_text(verifier, type, text));
    }
    TRY(check_inferred(verifier, node));
    TRY(check_formats(verifier, node));
    if (!node->is_in_place) return STATUS_OK;
    if (node->n_outputs != 1 || node->n_inputs == 0 || node->inputs[0] < 0)
        return wrong(verifier, node, "an in-place operator needs one output and an operand 0");
    const graph_type_t *target = type_at(verifier, node->inputs[0]);
    if (target->kind != TYPE_TENSOR && target->kind != TYPE_UNKNOWN)
        return wrong(verifier, node, "operand 0 is %s, only a tensor can be written in place",
                     type_text(verifier, target, text));
    return check_edge(verifier, node, node->inputs[0], type_at(verifier, node->outputs[0]),
                      "operand", 0);
}

/* ---- other nodes ---- */

static status_t check_constant(verifier_t *verifier, const graph_node_t *node)
{
    char given[TYPE_TEXT_MAX], taken[TYPE_TEXT_MAX];
    const graph_type_t *said = type_at(verifier, node->outputs[0]), *type = NULL;
    TRY(type_of_datum(verifier->ctx, verifier->scratch, node->datum, &type));
    if (type_fits(type, said, NULL)) return STATUS_OK;
    return wrong(verifier, node, "its type is %s, but its value is %s",
                 type_text(verifier, said, taken), type_text(verifier, type, given));
}

/* Checks the kind of a value; an unknown type passes. */
static status_t check_kind(verifier_t *verifier, const graph_node_t *node, value_t value,
                           const char *what, unsigned kinds, const char *rule)
{
    char text[TYPE_TEXT_MAX];
    const graph_type_t *type = type_at(verifier, value);
    if (type->kind == TYPE_UNKNOWN || (kinds >> type->kind & 1)) return STATUS_OK;
    return wrong(verifier, node, "%s is %s, must be %s", what, type_text(verifier, type, text),
                 rule);
}

#define KIND(kind) (1u << (kind))
#define KINDS_SCALAR (KIND(TYPE_INT) | KIND(TYPE_FLOAT) | KIND(TYPE_BOOL) | KIND(TYPE_TENSOR))
#define KINDS_CONTAINER (KIND(TYPE_LIST) | KIND(TYPE_TUPLE) | KIND(TYPE_DICT))

static status_t check_builtin_operands(verifier_t *verifier, const graph_node_t *node)
{
    const builtin_t *builtin = graph_builtin(node->name);
    bool is_scalar = strncmp(node->name, "scalar_", 7) == 0;
    bool compares = strcmp(node->name, "scalar_eq") == 0 || strcmp(node->name, "scalar_ne") == 0;
    for (int i = 0; i < node->n_inputs && is_scalar && !compares; i++)
        TRY(check_kind(verifier, node, node->inputs[i], "an operand", KINDS_SCALAR, "a number"));
    for (int i = 0; i < node->n_inputs && builtin->rule == BUILTIN_DICT; i += 2)
        TRY(check_kind(verifier, node, node->inputs[i], "a key", KIND(TYPE_STRING), "a string"));
    for (int i = 0; i < node->n_inputs; i++)
        if (type_at(verifier, node->inputs[i])->kind == TYPE_MODULE)
            return wrong(verifier, node, "an operand is a module, builtins accept none");
    if (strcmp(node->name, "append") == 0 || strcmp(node->name, "insert") == 0 ||
        strcmp(node->name, "erase") == 0)
        return check_kind(verifier, node, node->inputs[0], "operand 0", KIND(TYPE_LIST), "a list");
    if (strcmp(node->name, "len") == 0)
        return check_kind(verifier, node, node->inputs[0], "operand 0",
                          KINDS_CONTAINER | KIND(TYPE_STRING) | KIND(TYPE_TENSOR),
                          "a list, tuple or dict");
    if (strcmp(node->name, "shape") == 0 || strcmp(node->name, "size") == 0)
        TRY(check_kind(verifier, node, node->inputs[0], "operand 0", KIND(TYPE_TENSOR),
                       "a tensor"));
    if (strcmp(node->name, "size") == 0)
        return check_kind(verifier, node, node->inputs[1], "the dimension", KIND(TYPE_INT),
                          "an int");
    if (builtin->rule == BUILTIN_ITEM) {
        TRY(check_kind(verifier, node, node->inputs[0], "operand 0", KINDS_CONTAINER,
                       "a list, tuple or dict"));
        return check_kind(verifier, node, node->inputs[1], "the index",
                          KIND(TYPE_INT) | KIND(TYPE_STRING) | KIND(TYPE_TENSOR),
                          "an int or a string");
    }
    if (builtin->rule != BUILTIN_ITEMS) return STATUS_OK;
    const graph_type_t *type = type_at(verifier, node->inputs[0]);
    if (type->kind == TYPE_TUPLE && type->n_items != node->n_outputs)
        return wrong(verifier, node, "a tuple of %d items, %d values are given", type->n_items,
                     node->n_outputs);
    return check_kind(verifier, node, node->inputs[0], "operand 0",
                      KIND(TYPE_LIST) | KIND(TYPE_TUPLE), "a list or tuple");
}

static status_t check_builtin(verifier_t *verifier, const graph_node_t *node)
{
    const graph_type_t **in = NULL, **out = NULL;
    TRY(check_builtin_operands(verifier, node));
    TRY(graph_get(verifier->ctx, verifier->scratch, (size_t)node->n_inputs * sizeof *in, &in));
    TRY(graph_get(verifier->ctx, verifier->scratch, (size_t)node->n_outputs * sizeof *out, &out));
    for (int i = 0; i < node->n_inputs; i++) in[i] = type_at(verifier, node->inputs[i]);
    for (int i = 0; i < node->n_outputs; i++) out[i] = type_plain(TYPE_UNKNOWN);
    TRY(type_of_builtin(verifier->ctx, verifier->scratch, graph_builtin(node->name), node->n_inputs,
                        in, node->n_outputs, out));
    for (int i = 0; i < node->n_outputs; i++) {
        char said[TYPE_TEXT_MAX], inferred[TYPE_TEXT_MAX];
        if (type_fits(out[i], type_at(verifier, node->outputs[i]), NULL)) continue;
        return wrong(verifier, node, "output %d has type %s, but %s was inferred", i,
                     type_text(verifier, type_at(verifier, node->outputs[i]), said),
                     type_text(verifier, out[i], inferred));
    }
    return STATUS_OK;
}

static status_t check_if(verifier_t *verifier, const graph_node_t *node)
{
    TRY(check_kind(verifier, node, node->inputs[0], "the condition", KINDS_SCALAR, "a bool"));
    for (int b = 0; b < node->n_blocks; b++)
        for (int i = 0; i < node->n_outputs; i++)
            TRY(check_edge(verifier, node, node->blocks[b]->results[i],
                           type_at(verifier, node->outputs[i]), "output", i));
    return STATUS_OK;
}

static status_t check_loop(verifier_t *verifier, const graph_node_t *node)
{
    const graph_block_t *block = node->blocks[0];
    const unsigned none = KIND(TYPE_NONE);
    TRY(check_kind(verifier, node, node->inputs[0], "the trip count",
                   KIND(TYPE_INT) | KIND(TYPE_TENSOR) | none, "an int or none"));
    TRY(check_kind(verifier, node, node->inputs[1], "the condition", KINDS_SCALAR | none,
                   "a bool or none"));
    TRY(check_kind(verifier, node, block->params[0], "the iteration", KIND(TYPE_INT), "an int"));
    TRY(check_kind(verifier, node, block->results[0], "the yielded condition", KINDS_SCALAR | none,
                   "a bool or none"));
    for (int i = 0; i < node->n_outputs; i++) {
        const graph_type_t *param = type_at(verifier, block->params[i + 1]);
        const graph_type_t *output = type_at(verifier, node->outputs[i]);
        TRY(check_edge(verifier, node, node->inputs[i + 2], param, "carried value", i));
        TRY(check_edge(verifier, node, block->results[i + 1], param, "carried value", i));
        TRY(check_edge(verifier, node, node->inputs[i + 2], output, "output", i));
        TRY(check_edge(verifier, node, block->results[i + 1], output, "output", i));
    }
    return STATUS_OK;
}

static status_t check_node(verifier_t *verifier, const graph_node_t *node)
{
    const unsigned module = KIND(TYPE_MODULE);
    switch (node->kind) {
    case NODE_OP: return check_op(verifier, node);
    case NODE_CONSTANT: return check_constant(verifier, node);
    case NODE_GETATTR:
        return check_kind(verifier, node, node->inputs[0], "operand 0", module | KIND(TYPE_DICT),
                          "a module");
    case NODE_SETATTR:
    case NODE_CALL:
        return check_kind(verifier, node, node->inputs[0], "operand 0", module, "a module");
    case NODE_IF: return check_if(verifier, node);
    case NODE_LOOP: return check_loop(verifier, node);
    case NODE_BUILTIN: return check_builtin(verifier, node);
    }
    return STATUS_OK;
}

/* ---- graphs ---- */

static void show_values(verifier_t *verifier, int n, const value_t *values, bool is_visible)
{
    for (int i = 0; i < n; i++) verifier->is_visible[values[i]] = is_visible;
}

/* The values of a block are visible until the block ends. */
static status_t check_block(verifier_t *verifier, const graph_node_t *owner,
                            const graph_block_t *block)
{
    show_values(verifier, block->n_params, block->params, true);
    for (int n = 0; n < block->n_nodes; n++) {
        const graph_node_t *node = block->nodes[n];
        TRY(check_visible(verifier, node, node->n_inputs, node->inputs));
        for (int b = 0; b < node->n_blocks; b++) TRY(check_block(verifier, node, node->blocks[b]));
        TRY(check_node(verifier, node));
        show_values(verifier, node->n_outputs, node->outputs, true);
    }
    TRY(check_visible(verifier, owner, block->n_results, block->results));
    show_values(verifier, block->n_params, block->params, false);
    for (int n = 0; n < block->n_nodes; n++)
        show_values(verifier, block->nodes[n]->n_outputs, block->nodes[n]->outputs, false);
    return STATUS_OK;
}

/* Callers pass tensors in tag or strided formats, or in any format that the plan chooses. */
static status_t check_params(verifier_t *verifier)
{
    const graph_block_t *body = graph_body(verifier->graph);
    for (int i = 0; i < body->n_params; i++) {
        char text[TYPE_TEXT_MAX];
        const graph_type_t *type = type_at(verifier, body->params[i]);
        if (type->kind != TYPE_TENSOR || !type->has_info) continue;
        format_kind_t kind = type->info.format.kind;
        if (kind == FORMAT_OPAQUE || kind == FORMAT_REGROUPED)
            return wrong(verifier, NULL, "parameter %%%s is %s, must have a tag or strides",
                         graph_value_name(verifier->graph, body->params[i]),
                         type_text(verifier, type, text));
    }
    return STATUS_OK;
}

status_t graph_verify(context_t *ctx, const graph_t *graph)
{
    if (graph == NULL) return context_null(ctx, "graph_verify", "graph");
    verifier_t verifier = {.ctx = ctx, .graph = graph};
    size_t n = (size_t)graph_n_values(graph);
    status_t status = context_get_zeroed(ctx, n * sizeof *verifier.is_visible, "a check",
                                         &verifier.is_visible);
    if (status == STATUS_OK) status = graph_make(ctx, &verifier.scratch);
    if (status == STATUS_OK) status = check_params(&verifier);
    if (status == STATUS_OK) status = check_block(&verifier, NULL, graph_body(graph));
    graph_release(verifier.scratch);
    context_put(ctx, verifier.is_visible);
    return status;
}
