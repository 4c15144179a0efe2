#include "graph/passes/fold/fold_impl.h"

#include <stdalign.h>
#include <stdio.h>
#include <string.h>

#include "dispatch/select_impl.h"
#include "graph/analysis/alias_impl.h"
#include "graph/ir/graph_impl.h"
#include "tensor/context_impl.h"

#define NAME_MAX_BYTES 256

/* An anchor (fold_impl.h) and the nodes folded into it, in order. A new anchor replaces all of
 * them. */
typedef struct fold {
    fold_anchor_t anchor;
    value_t end;     /* the value that the new anchor produces */
    int first, last; /* indices of steps */
} fold_t;

typedef struct step {
    const graph_node_t *node;
    int next; /* index of the next step; -1: none */
} step_t;

typedef struct folding {
    context_t *ctx;
    const graph_t *graph;
    const fold_rule_t *rule;
    const alias_t *alias;
    bool *is_constant; /* [n_values]: computed from constants that no node writes */
    int *block_of;     /* [n_values]: for values that a node produces */
    int *fold_of;      /* [n_values]: the fold whose anchor or step produces it; -1: none */
    int n_blocks;
    fold_t *folds;
    int n_folds, folds_capacity;
    step_t *steps;
    int n_steps, steps_capacity;
} folding_t;

/* ---- constants ---- */

const datum_t *fold_constant(const graph_t *graph, value_t value)
{
    return graph_constant(graph, rewrite_before_conversions(graph, value));
}

static status_t read_tensor(context_t *ctx, const tensor_t *tensor, double *values)
{
    dtype_t dtype = tensor_dtype(tensor);
    size_t n = (size_t)tensor_numel(tensor), bytes = n * dtype_size(dtype);
    void *elements = NULL;
    TRY(context_get(ctx, bytes, "elements of a constant", &elements));
    status_t status = tensor_read(ctx, tensor, elements, bytes);
    if (status == STATUS_OK) dtype_cast((int64_t)n, dtype, elements, 1, DTYPE_F64, values, 1);
    context_put(ctx, elements);
    return status;
}

status_t fold_read(context_t *ctx, const datum_t *datum, double **out_values, int64_t *out_n)
{
    datum_kind_t kind = datum != NULL ? datum_kind(datum) : DATUM_NONE;
    bool is_number = kind == DATUM_INT || kind == DATUM_FLOAT || kind == DATUM_BOOL;
    double *values = NULL;
    *out_values = NULL;
    if (!is_number && kind != DATUM_TENSOR) return STATUS_OK;
    *out_n = is_number ? 1 : tensor_numel(datum_as_tensor(datum));
    TRY(context_get(ctx, (size_t)*out_n * sizeof *values, "elements of a constant", &values));
    status_t status = STATUS_OK;
    if (is_number)
        *values = datum_as_float(datum);
    else
        status = read_tensor(ctx, datum_as_tensor(datum), values);
    GIVE(status, out_values, values, context_put(ctx, values));
}

/* ---- anchors ---- */

static bool find_kind(const graph_node_t *node, fold_anchor_t *anchor)
{
    if (node == NULL) return false;
    int n_spatial = rewrite_conv(node), n_transposed = rewrite_conv_transpose(node);
    anchor->is_linear = rewrite_is_op(node, "linear");
    anchor->is_transposed = n_transposed > 0;
    if (anchor->is_linear) return true;
    anchor->channel_from_end = n_spatial + n_transposed;
    anchor->rank = anchor->channel_from_end + 2;
    return anchor->channel_from_end > 0;
}

/* Describes the anchor. Returns the reason why nothing can be folded into it, or NULL. */
static const char *fill_anchor(const folding_t *folding, fold_anchor_t *anchor)
{
    const graph_t *graph = folding->graph;
    const graph_node_t *node = anchor->node;
    const post_ops_t *post = rewrite_post(node);
    if (post != NULL && post->n > 0) return "the operator before it has post-ops";
    if (node->inputs[1] < 0 || !folding->is_constant[node->inputs[1]])
        return "the weight before it is not constant";
    anchor->weight = rewrite_before_conversions(graph, node->inputs[1]);
    anchor->bias = node->n_inputs > 2 ? node->inputs[2] : VALUE_NONE;
    if (anchor->bias != VALUE_NONE && !folding->is_constant[anchor->bias])
        return "the bias before it is not constant";
    const graph_type_t *type = graph_value_type(graph, anchor->weight);
    if (!type_is_static(type)) return "the weight before it has an unknown type";
    const tensor_info_t *weight = &type->info;
    if (weight->format.kind == FORMAT_GROUPED) return "the weight before it has low-bit codes";
    const int64_t *groups = rewrite_attr(node, "groups", ATTR_INT);
    anchor->dtype = weight->dtype;
    anchor->groups = anchor->is_transposed ? *groups : 1;
    anchor->n_channels = anchor->is_transposed ? weight->sizes[1] * anchor->groups
                                               : weight->sizes[0];
    type = graph_value_type(graph, node->outputs[0]);
    if (anchor->is_linear && type->kind == TYPE_TENSOR && type->has_info)
        anchor->rank = type->info.rank;
    return anchor->n_channels > 0 ? NULL : "the operator before it has no channels";
}

/* ---- finding folds ---- */

/* Folding must not change dtype or shape. Returns a message if it would, else NULL. */
static const char *compare_types(const folding_t *folding, value_t before, value_t after)
{
    const graph_type_t *a = graph_value_type(folding->graph, before);
    const graph_type_t *b = graph_value_type(folding->graph, after);
    if (a->kind != TYPE_TENSOR || b->kind != TYPE_TENSOR || !a->has_info || !b->has_info)
        return NULL;
    if (a->info.dtype != b->info.dtype) return "the result has another dtype";
    if (!shape_equal(a->info.rank, a->info.sizes, b->info.rank, b->info.sizes))
        return "the result has another shape";
    return NULL;
}

/* Refuses to fold a node that writes to a value of another block, because a loop would repeat the
 * write. */
static const char *check_writes(const folding_t *folding, const graph_node_t *node, int operand)
{
    value_t value = node->inputs[operand];
    if (node->is_in_place && operand != 0) return "its constant is written";
    if (node->is_in_place && folding->block_of[value] != folding->block_of[node->outputs[0]])
        return "it writes a value of another block";
    for (int i = 0; i < node->n_inputs; i++)
        if (i != operand && alias_is_mutated(folding->alias, node->inputs[i]))
            return "its constant is written";
    return NULL;
}

static status_t add_step(folding_t *folding, const fold_anchor_t *anchor, const graph_node_t *node,
                         value_t value)
{
    context_t *ctx = folding->ctx;
    int place = folding->fold_of[value], step = folding->n_steps;
    TRY(context_grow(ctx, &folding->steps, &folding->steps_capacity, step + 1,
                     sizeof *folding->steps));
    if (place < 0) {
        TRY(context_grow(ctx, &folding->folds, &folding->folds_capacity, folding->n_folds + 1,
                         sizeof *folding->folds));
        place = folding->n_folds++;
        folding->folds[place] = (fold_t){.anchor = *anchor, .first = step};
        folding->fold_of[value] = place;
    } else {
        folding->steps[folding->folds[place].last].next = step;
    }
    folding->steps[folding->n_steps++] = (step_t){node, -1};
    folding->folds[place].last = step;
    folding->folds[place].end = node->outputs[0];
    folding->fold_of[node->outputs[0]] = place;
    return STATUS_OK;
}

static status_t look_at(folding_t *folding, const graph_node_t *node)
{
    if (node->kind != NODE_OP || node->n_outputs != 1) return STATUS_OK;
    int operand = folding->rule->operand(folding->graph, node);
    if (operand < 0 || operand >= node->n_inputs || node->inputs[operand] < 0) return STATUS_OK;
    value_t value = node->inputs[operand];
    const char *reason = NULL;
    fold_anchor_t anchor = {.node = graph_producer(folding->graph, value)};
    if (folding->fold_of[value] >= 0) {
        anchor = folding->folds[folding->fold_of[value]].anchor;
    } else {
        if (!find_kind(anchor.node, &anchor)) return STATUS_OK;
        reason = fill_anchor(folding, &anchor);
    }
    if (reason == NULL && graph_n_uses(folding->graph, value) != 1)
        reason = "the result before it is used elsewhere";
    if (reason == NULL) reason = compare_types(folding, value, node->outputs[0]);
    if (reason == NULL) reason = check_writes(folding, node, operand);
    if (reason == NULL)
        TRY(folding->rule->check(folding->ctx, folding->graph, node, &anchor, &reason));
    if (reason == NULL) return add_step(folding, &anchor, node, value);
    pass_note(folding->ctx, folding->rule->pass, node, reason);
    return STATUS_OK;
}

static bool is_computed(const folding_t *folding, const graph_node_t *node)
{
    if (node->kind == NODE_CONSTANT) return !alias_is_mutated(folding->alias, node->outputs[0]);
    if (node->kind != NODE_OP || node->is_in_place || node->n_inputs == 0) return false;
    for (int i = 0; i < node->n_inputs; i++)
        if (node->inputs[i] >= 0 && !folding->is_constant[node->inputs[i]]) return false;
    return true;
}

static status_t look_through(folding_t *folding, const graph_block_t *block)
{
    int number = folding->n_blocks++;
    for (int i = 0; i < block->n_nodes; i++) {
        const graph_node_t *node = block->nodes[i];
        bool is_constant = is_computed(folding, node);
        for (int o = 0; o < node->n_outputs; o++) {
            folding->block_of[node->outputs[o]] = number;
            folding->is_constant[node->outputs[o]] = is_constant;
        }
        TRY(look_at(folding, node));
        for (int b = 0; b < node->n_blocks; b++) TRY(look_through(folding, node->blocks[b]));
    }
    return STATUS_OK;
}

/* ---- writing ---- */

status_t fold_bring(rewrite_t *rewrite, value_t value, value_t *out_value)
{
    value = rewrite_before_conversions(rewrite->from, value);
    if (value >= 0 && !rewrite_is_mapped(rewrite, value))
        TRY(rewrite_copy(rewrite, graph_producer(rewrite->from, value)));
    *out_value = rewrite_value(rewrite, value);
    return STATUS_OK;
}

status_t fold_apply(rewrite_t *rewrite, const char *op, const char *attrs, value_t *value)
{
    alignas(16) char parsed[ATTRS_MAX];
    const opdef_t *def = ops_find(op);
    attrs_init(&def->attrs, parsed);
    if (*attrs != '\0') TRY(attrs_parse(rewrite->ctx, op, &def->attrs, &attrs, parsed));
    *value = graph_add_op(rewrite->to, def, parsed, 1, value, NULL);
    return STATUS_OK;
}

/* "%w" becomes "w.bn_folded", as does "%w.folded". Values named by a number stay so. A bias that
 * was absent is named after the weight. */
static const char *folded_name(const rewrite_t *rewrite, const fold_anchor_t *anchor, bool is_bias,
                               char *out_name)
{
    static const char weight[] = "weight";
    bool is_absent = is_bias && anchor->bias == VALUE_NONE;
    const char *suffix = ((const folding_t *)rewrite->user)->rule->suffix;
    value_t old = is_bias && !is_absent ? anchor->bias : anchor->weight;
    const char *name = rewrite_name(rewrite->from, old);
    if (name == NULL) return NULL;
    size_t length = strlen(name), n_weight = sizeof weight - 1;
    for (const char *end = name; (end = strchr(end, '.')) != NULL; end++)
        if (strncmp(end, ".folded", 7) == 0 || strncmp(end, ".bn_folded", 10) == 0) {
            length = (size_t)(end - name);
            break;
        }
    const char *bias = "";
    if (is_absent) {
        bool ends = length >= n_weight && strncmp(name + length - n_weight, weight, n_weight) == 0;
        bias = ends ? "bias" : ".bias";
        length -= ends ? n_weight : 0;
    }
    snprintf(out_name, NAME_MAX_BYTES, "%.*s%s%s", (int)length, name, bias, suffix);
    return out_name;
}

static value_t add_fold(rewrite_t *rewrite, const char *op, const fold_anchor_t *anchor,
                        const graph_node_t *from, const fold_attrs_t *attrs, int n,
                        const value_t *inputs)
{
    char name[NAME_MAX_BYTES];
    const char *hint = folded_name(rewrite, anchor, strcmp(op, "fold_bias") == 0, name);
    const graph_node_t node = {.kind = NODE_OP,
                               .op = ops_find(op),
                               .attrs = attrs,
                               .path = from->path,
                               .n_inputs = n,
                               .n_outputs = 1};
    value_t value = VALUE_NONE;
    graph_add_node(rewrite->to, &node, inputs, NULL, &hint, &value);
    return value;
}

/* Adds a step's weight and bias. Without a scale, the weight is unchanged; without a shift, an
 * absent bias stays absent. */
static status_t write_step(rewrite_t *rewrite, const fold_anchor_t *anchor,
                           const graph_node_t *node, value_t *weight, value_t *bias)
{
    const folding_t *folding = rewrite->user;
    fold_operands_t o = {VALUE_NONE, VALUE_NONE, VALUE_NONE, VALUE_NONE, .attrs.groups = 1};
    attrs_init(&ops_find("fold_bias")->attrs, &o.attrs);
    o.attrs.groups = anchor->groups;
    o.attrs.transposed = anchor->is_transposed;
    TRY(folding->rule->write(rewrite, node, anchor, &o));
    bool is_scaled = o.scale != VALUE_NONE || o.variance != VALUE_NONE;
    bool is_shifted = o.shift != VALUE_NONE || o.mean != VALUE_NONE;
    if (is_scaled) {
        const value_t inputs[] = {*weight, o.scale, o.variance};
        *weight = add_fold(rewrite, "fold_weight", anchor, node, &o.attrs, 3, inputs);
    }
    if (is_shifted || (is_scaled && *bias != VALUE_NONE)) {
        const value_t inputs[] = {*weight, *bias, o.scale, o.shift, o.mean, o.variance};
        *bias = add_fold(rewrite, "fold_bias", anchor, node, &o.attrs, 6, inputs);
    }
    return STATUS_OK;
}

static status_t write_fold(rewrite_t *rewrite, const fold_t *fold)
{
    const folding_t *folding = rewrite->user;
    const fold_anchor_t *anchor = &fold->anchor;
    value_t before = rewrite_value(rewrite, anchor->weight), weight = before;
    value_t bias = rewrite_value(rewrite, anchor->bias);
    for (int i = fold->first; i >= 0; i = folding->steps[i].next)
        TRY(write_step(rewrite, anchor, folding->steps[i].node, &weight, &bias));
    if (weight == before) weight = rewrite_value(rewrite, anchor->node->inputs[1]);
    graph_node_t node = *anchor->node;
    node.n_inputs = 3;
    const value_t inputs[] = {rewrite_value(rewrite, node.inputs[0]), weight, bias};
    return rewrite_emit(rewrite, &node, inputs, &fold->end);
}

static status_t fold_node(rewrite_t *rewrite, const graph_node_t *node, bool *out_done)
{
    const folding_t *folding = rewrite->user;
    if (node->n_outputs != 1) return STATUS_OK;
    if (node->kind == NODE_CONSTANT) {
        *out_done = rewrite_is_mapped(rewrite, node->outputs[0]);
        return STATUS_OK;
    }
    int place = folding->fold_of[node->outputs[0]];
    if (place < 0) return STATUS_OK;
    *out_done = true;
    const fold_t *fold = &folding->folds[place];
    return fold->anchor.node == node ? write_fold(rewrite, fold) : STATUS_OK;
}

/* ---- pass ---- */

static status_t find_and_fold(folding_t *folding, graph_t **out_graph)
{
    context_t *ctx = folding->ctx;
    size_t n = (size_t)graph_n_values(folding->graph);
    TRY(alias_of(ctx, folding->graph, &folding->alias));
    TRY(context_get_zeroed(ctx, n * sizeof *folding->is_constant, "constants",
                           &folding->is_constant));
    TRY(context_get_zeroed(ctx, n * sizeof *folding->block_of, "blocks of values",
                           &folding->block_of));
    TRY(context_get(ctx, n * sizeof *folding->fold_of, "folded values", &folding->fold_of));
    for (size_t i = 0; i < n; i++) folding->fold_of[i] = -1;
    TRY(look_through(folding, graph_body(folding->graph)));
    if (folding->n_folds == 0) return rewrite_nothing(folding->graph, out_graph);
    return rewrite_graph(ctx, folding->graph, fold_node, folding, out_graph);
}

status_t fold_graph(context_t *ctx, const graph_t *graph, const fold_rule_t *rule,
                    graph_t **out_graph)
{
    folding_t folding = {.ctx = ctx, .graph = graph, .rule = rule};
    FINISH(find_and_fold(&folding, out_graph),
           CONTEXT_PUT(ctx, folding.steps, folding.folds, folding.fold_of, folding.block_of,
                       folding.is_constant));
}
