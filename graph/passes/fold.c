#include "graph/passes/fold_impl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/passes/alias_impl.h"
#include "tensor/context_impl.h"
#include "tensor/scope_impl.h"

#define NAME_MAX_BYTES 256

/* An anchor and what is folded into it; the folded operator stands where the anchor stood. */
typedef struct fold {
    fold_anchor_t anchor;
    value_t end; /* the value it makes from now on */
    double *scale;
    double *shift;
} fold_t;

typedef struct folding {
    context_t *ctx;
    const graph_t *graph;
    const fold_rule_t *rule;
    alias_t alias;
    int *fold_of; /* for each value that an anchor or a folded node makes; -1: none */
    fold_t *folds;
    int n_folds;
    int capacity;
} folding_t;

/* ---- anchors ---- */

static const tensor_t *constant_tensor(const folding_t *folding, const graph_node_t *node, int i)
{
    if (i >= node->n_inputs || alias_is_mutated(&folding->alias, node->inputs[i])) return NULL;
    const datum_t *datum = graph_constant(folding->graph, node->inputs[i]);
    return datum != NULL && datum_kind(datum) == DATUM_TENSOR ? datum_as_tensor(datum) : NULL;
}

static bool find_kind(const graph_node_t *node, fold_anchor_t *anchor)
{
    static const char *const convs[] = {"conv1d", "conv2d", "conv3d"};
    static const char *const transposed[] = {"conv_transpose1d", "conv_transpose2d",
                                             "conv_transpose3d"};
    if (node == NULL) return false;
    anchor->is_linear = rewrite_is_op(node, "linear");
    if (anchor->is_linear) return true;
    for (int i = 0; i < 3; i++) {
        anchor->is_transposed = rewrite_is_op(node, transposed[i]);
        if (!anchor->is_transposed && !rewrite_is_op(node, convs[i])) continue;
        anchor->rank = i + 3;
        anchor->channel_from_end = i + 1;
        return true;
    }
    return false;
}

static bool find_anchor(const folding_t *folding, const graph_node_t *node,
                        fold_anchor_t *out_anchor)
{
    fold_anchor_t anchor = {.node = node, .groups = 1};
    if (!find_kind(node, &anchor) || node->is_in_place) return false;
    const post_ops_t *post = rewrite_post(node);
    if ((post != NULL && post->n > 0) || node->n_inputs > 3) return false;
    anchor.weight = constant_tensor(folding, node, 1);
    if (anchor.weight == NULL || !dtype_is_floating(tensor_dtype(anchor.weight)) ||
        tensor_rank(anchor.weight) != (anchor.is_linear ? 2 : anchor.rank))
        return false;
    if (node->n_inputs > 2 && node->inputs[2] != GRAPH_NONE) {
        anchor.bias = constant_tensor(folding, node, 2);
        if (anchor.bias == NULL) return false;
    }
    const int64_t *groups = rewrite_attr(node, "groups", ATTR_INT);
    if (anchor.is_transposed && groups != NULL && *groups > 1) anchor.groups = *groups;
    const int64_t *sizes = tensor_sizes(anchor.weight);
    anchor.n_channels = anchor.is_transposed ? sizes[1] * anchor.groups : sizes[0];
    const graph_type_t *type = graph_value_type(folding->graph, node->outputs[0]);
    if (anchor.is_linear && type->kind == TYPE_TENSOR && type->has_info)
        anchor.rank = type->info.rank;
    bool fits = anchor.bias == NULL || tensor_numel(anchor.bias) == anchor.n_channels;
    *out_anchor = anchor;
    return fits && anchor.n_channels > 0;
}

/* ---- finding what folds ---- */

static status_t start_fold(folding_t *folding, const fold_anchor_t *anchor, int *out_fold)
{
    context_t *ctx = folding->ctx;
    TRY(context_grow(ctx, &folding->folds, &folding->capacity, folding->n_folds + 1,
                     sizeof *folding->folds));
    fold_t fold = {.anchor = *anchor, .end = anchor->node->outputs[0]};
    size_t n = (size_t)anchor->n_channels;
    TRY(context_get(ctx, n * sizeof *fold.scale, "scales of channels", &fold.scale));
    status_t status = context_get(ctx, n * sizeof *fold.shift, "shifts of channels", &fold.shift);
    if (status != STATUS_OK) {
        context_put(ctx, fold.scale);
        return status;
    }
    for (size_t k = 0; k < n; k++) {
        fold.scale[k] = 1.0;
        fold.shift[k] = 0.0;
    }
    folding->folds[folding->n_folds] = fold;
    *out_fold = folding->n_folds++;
    return STATUS_OK;
}

/* The result must be what the anchor gives but for the values. */
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

static bool all_finite(int64_t n, const double *values)
{
    bool finite = true;
    for (int64_t i = 0; i < n; i++) finite &= isfinite(values[i]) != 0;
    return finite;
}

/* Multiplies one more affine map in. */
static status_t extend(folding_t *folding, fold_t *fold, const graph_node_t *node,
                       const char **out_reason)
{
    context_t *ctx = folding->ctx;
    int64_t n = fold->anchor.n_channels;
    double *scale = NULL, *shift = NULL;
    status_t status = context_get(ctx, (size_t)n * sizeof *scale, "scales", &scale);
    if (status == STATUS_OK) status = context_get(ctx, (size_t)n * sizeof *shift, "shifts", &shift);
    if (status == STATUS_OK)
        status = folding->rule->affine(ctx, folding->graph, node, &fold->anchor, scale, shift,
                                       out_reason);
    if (status == STATUS_OK && *out_reason == NULL &&
        (!all_finite(n, scale) || !all_finite(n, shift)))
        *out_reason = "the constants give what is not finite";
    if (status == STATUS_OK && *out_reason == NULL) {
        for (int64_t k = 0; k < n; k++) {
            fold->scale[k] *= scale[k];
            fold->shift[k] = fold->shift[k] * scale[k] + shift[k];
        }
    }
    context_put(ctx, shift);
    context_put(ctx, scale);
    return status;
}

static bool has_written_constant(const folding_t *folding, const graph_node_t *node, int operand)
{
    bool written = node->is_in_place && operand != 0;
    for (int i = 0; i < node->n_inputs; i++)
        written |= i != operand && alias_is_mutated(&folding->alias, node->inputs[i]);
    return written;
}

static status_t look_at(void *user, const graph_node_t *node)
{
    folding_t *folding = user;
    if (node->kind != NODE_OP || node->n_outputs != 1) return STATUS_OK;
    int operand = folding->rule->operand(folding->graph, node);
    if (operand < 0 || operand >= node->n_inputs || node->inputs[operand] < 0) return STATUS_OK;
    value_t value = node->inputs[operand];
    int place = folding->fold_of[value];
    fold_anchor_t anchor;
    if (place < 0 && !find_anchor(folding, graph_producer(folding->graph, value), &anchor))
        return STATUS_OK;

    const char *reason = compare_types(folding, value, node->outputs[0]);
    if (graph_n_uses(folding->graph, value) != 1) reason = "the result before it is used elsewhere";
    if (has_written_constant(folding, node, operand)) reason = "its constant is written";
    if (reason == NULL) {
        bool is_new = place < 0;
        if (is_new) TRY(start_fold(folding, &anchor, &place));
        fold_t *fold = &folding->folds[place];
        TRY(extend(folding, fold, node, &reason));
        if (reason == NULL) {
            folding->fold_of[fold->anchor.node->outputs[0]] = place;
            folding->fold_of[node->outputs[0]] = place;
            fold->end = node->outputs[0];
        }
    }
    if (reason != NULL) pass_note(folding->ctx, folding->rule->pass, node, reason);
    return STATUS_OK;
}

/* ---- the folded constants ---- */

status_t fold_read(context_t *ctx, const tensor_t *tensor, double **out_values)
{
    int64_t n = tensor_numel(tensor);
    dtype_t dtype = tensor_dtype(tensor);
    size_t bytes = (size_t)n * dtype_size(dtype);
    void *elements = NULL;
    double *values = NULL;
    status_t status = context_get(ctx, bytes, "elements of a constant", &elements);
    if (status == STATUS_OK)
        status = context_get(ctx, (size_t)n * sizeof *values, "elements of a constant", &values);
    if (status == STATUS_OK) status = tensor_read(ctx, tensor, elements, bytes);
    if (status == STATUS_OK) {
        dtype_cast(n, dtype, elements, 1, DTYPE_F64, values, 1);
        *out_values = values;
    } else {
        context_put(ctx, values);
    }
    context_put(ctx, elements);
    return status;
}

static status_t add_tensor(rewrite_t *rewrite, dtype_t dtype, int rank, const int64_t *sizes,
                           const double *values, const char *name, value_t *out_value)
{
    context_t *ctx = rewrite->ctx;
    int64_t n = 1;
    for (int d = 0; d < rank; d++) n *= sizes[d];
    void *elements;
    tensor_t *tensor = NULL;
    datum_t *datum = NULL;
    TRY(context_get(ctx, (size_t)n * dtype_size(dtype), "elements of a constant", &elements));
    dtype_cast(n, DTYPE_F64, values, 1, dtype, elements, 1);
    status_t status = tensor_from(ctx, dtype, rank, sizes, elements, &tensor);
    context_put(ctx, elements);
    TRY(status);
    status = datum_tensor(ctx, tensor, &datum);
    scope_take(ctx, tensor);
    tensor_release(tensor);
    TRY(status);
    *out_value = graph_add_constant(rewrite->to, datum, name);
    datum_release(datum);
    return STATUS_OK;
}

/* "%w" gives "w.folded", and so does "%w.folded"; what has a number only gets another. */
static const char *folded_name(const rewrite_t *rewrite, value_t old, char *out_name)
{
    static const char suffix[] = ".folded";
    const char *name = old >= 0 ? graph_value_name(rewrite->from, old) : NULL;
    if (name == NULL || name[strspn(name, "0123456789")] == '\0') return NULL;
    const char *end = strstr(name, suffix);
    int length = end != NULL ? (int)(end - name) : (int)strlen(name);
    snprintf(out_name, NAME_MAX_BYTES, "%.*s%s", length, name, suffix);
    return out_name;
}

/* The channel of each element of the weight: dimension 0 is K, or in transposed ones [C][K/G]. */
static int64_t channel_of(const fold_anchor_t *anchor, int64_t c, int64_t j)
{
    if (!anchor->is_transposed) return c;
    const int64_t *sizes = tensor_sizes(anchor->weight);
    return c / (sizes[0] / anchor->groups) * sizes[1] + j;
}

static status_t add_weight(rewrite_t *rewrite, const fold_t *fold, value_t *out_value)
{
    const tensor_t *weight = fold->anchor.weight;
    const int64_t *sizes = tensor_sizes(weight);
    int rank = tensor_rank(weight);
    double *values;
    TRY(fold_read(rewrite->ctx, weight, &values));
    int64_t inner = 1;
    for (int d = 2; d < rank; d++) inner *= sizes[d];
    double *value = values;
    for (int64_t i = 0; i < sizes[0]; i++) {
        for (int64_t j = 0; j < sizes[1]; j++) {
            double scale = fold->scale[channel_of(&fold->anchor, i, j)];
            for (int64_t e = 0; e < inner; e++) *value++ *= scale;
        }
    }
    char name[NAME_MAX_BYTES];
    status_t status = add_tensor(rewrite, tensor_dtype(weight), rank, sizes, values,
                                 folded_name(rewrite, fold->anchor.node->inputs[1], name),
                                 out_value);
    context_put(rewrite->ctx, values);
    return status;
}

static status_t add_bias(rewrite_t *rewrite, const fold_t *fold, value_t *out_value)
{
    const fold_anchor_t *anchor = &fold->anchor;
    int64_t n = anchor->n_channels;
    double *values = NULL;
    if (anchor->bias != NULL)
        TRY(fold_read(rewrite->ctx, anchor->bias, &values));
    else
        TRY(context_get_zeroed(rewrite->ctx, (size_t)n * sizeof *values, "a bias", &values));
    for (int64_t k = 0; k < n; k++) values[k] = values[k] * fold->scale[k] + fold->shift[k];
    dtype_t dtype = tensor_dtype(anchor->bias != NULL ? anchor->bias : anchor->weight);
    char name[NAME_MAX_BYTES];
    value_t old = anchor->bias != NULL ? anchor->node->inputs[2] : GRAPH_NONE;
    status_t status = add_tensor(rewrite, dtype, 1, &n, values, folded_name(rewrite, old, name),
                                 out_value);
    context_put(rewrite->ctx, values);
    return status;
}

/* ---- rewriting ---- */

static status_t write_fold(rewrite_t *rewrite, const fold_t *fold)
{
    value_t inputs[3] = {rewrite_value(rewrite, fold->anchor.node->inputs[0]), GRAPH_NONE,
                         GRAPH_NONE};
    TRY(add_weight(rewrite, fold, &inputs[1]));
    TRY(add_bias(rewrite, fold, &inputs[2]));
    graph_node_t node = *fold->anchor.node;
    node.n_inputs = 3;
    node.inputs = inputs;
    return rewrite_emit(rewrite, &node, inputs, &fold->end);
}

static status_t fold_node(rewrite_t *rewrite, const graph_node_t *node, bool *out_done)
{
    const folding_t *folding = rewrite->user;
    int place = node->n_outputs == 1 ? folding->fold_of[node->outputs[0]] : -1;
    if (place < 0) return STATUS_OK;
    *out_done = true;
    const fold_t *fold = &folding->folds[place];
    return fold->anchor.node == node ? write_fold(rewrite, fold) : STATUS_OK;
}

static status_t find_and_fold(folding_t *folding, graph_t **out_graph)
{
    int n = graph_n_values(folding->graph);
    TRY(alias_analyze(folding->ctx, folding->graph, &folding->alias));
    TRY(context_get(folding->ctx, (size_t)n * sizeof *folding->fold_of, "folded values",
                    &folding->fold_of));
    for (int i = 0; i < n; i++) folding->fold_of[i] = -1;
    TRY(rewrite_visit(graph_body(folding->graph), look_at, folding));
    bool found = false;
    for (int i = 0; i < n; i++) found |= folding->fold_of[i] >= 0;
    if (!found) return rewrite_nothing(folding->graph, out_graph);
    return rewrite_graph(folding->ctx, folding->graph, fold_node, folding, out_graph);
}

status_t fold_graph(context_t *ctx, const graph_t *graph, const fold_rule_t *rule,
                    graph_t **out_graph)
{
    folding_t folding = {.ctx = ctx, .graph = graph, .rule = rule};
    status_t status = find_and_fold(&folding, out_graph);
    for (int i = 0; i < folding.n_folds; i++) {
        context_put(ctx, folding.folds[i].scale);
        context_put(ctx, folding.folds[i].shift);
    }
    context_put(ctx, folding.folds);
    context_put(ctx, folding.fold_of);
    alias_clear(&folding.alias);
    return status;
}
