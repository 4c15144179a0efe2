/* Decision trees of ai.onnx.ml. Their attribute lists become the tensors of operator tree_ensemble.
 *
 * Nodes get new numbers in breadth-first order from the first node of each tree, so that each node
 * comes before its children. A node that is reached twice is refused, because it is in a cycle or
 * in two trees. */
#include "io/onnx/ml_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/index/indexing.h"
#include "tensor/tensor_impl.h"

/* ---- attribute lists ---- */

typedef struct lists {
    ml_ints_t trees, ids, features, on_true, on_false, tracks;
    ml_floats_t values;
    const Onnx__AttributeProto *modes;
    ml_ints_t leaf_trees, leaf_ids, leaf_targets;
    ml_floats_t leaf_weights, bases;
    int64_t n_targets;
} lists_t;

/* The index in the lists of the node with this tree and id. */
typedef struct place {
    int64_t tree, id;
    int64_t at;
} place_t;

typedef struct forest {
    onnx_node_t *node;
    lists_t lists;
    int64_t n;        /* nodes in the lists */
    place_t *places;  /* [n] sorted by tree and id */
    int64_t *numbers; /* [n] new number of each node; -1: not yet reached */
    int64_t *queue;   /* [n] nodes in the order of their new numbers */
    int64_t *leaf_of; /* [n] row of `weights`; -1: not a leaf */
    int8_t *modes;    /* [n] tree_mode_t; -1: a leaf */
    int64_t n_leaves, n_roots, n_made;
    int32_t *features, *kinds, *links, *exits, *roots;
    float *values, *weights; /* weights: [n_leaves][n_targets] */
    bool *has_weight;        /* [n_leaves][n_targets] */
} forest_t;

static int compare_places(const void *a, const void *b)
{
    const place_t *left = a, *right = b;
    if (left->tree != right->tree) return left->tree < right->tree ? -1 : 1;
    return left->id != right->id ? (left->id < right->id ? -1 : 1) : 0;
}

/* The node of a tree with this id, or -1. */
static int64_t find_node(const forest_t *forest, int64_t tree, int64_t id)
{
    const place_t key = {tree, id, 0};
    const place_t *found = bsearch(&key, forest->places, (size_t)forest->n, sizeof key,
                                   compare_places);
    return found != NULL ? found->at : -1;
}

static status_t read_mode(const forest_t *forest, int64_t i, int8_t *out_mode)
{
    static const char *const names[] = {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE",
                                        "BRANCH_GT",  "BRANCH_EQ", "BRANCH_NEQ"};
    const ProtobufCBinaryData *text = &forest->lists.modes->strings[i];
    for (int m = 0; m < (int)(sizeof names / sizeof *names); m++)
        if (strlen(names[m]) == text->len && memcmp(names[m], text->data, text->len) == 0) {
            const bool tracks = forest->lists.tracks.n > 0 && forest->lists.tracks.at[i] != 0;
            *out_mode = (int8_t)(m + (tracks ? TREE_NAN_IS_TRUE : 0));
            return STATUS_OK;
        }
    *out_mode = -1;
    if (text->len == 4 && memcmp("LEAF", text->data, 4) == 0) return STATUS_OK;
    FAIL(forest->node->onnx->ctx, STATUS_UNSUPPORTED, "nodes_modes \"%.*s\"",
         (int)(text->len < 32 ? text->len : 32),
         text->data != NULL ? (const char *)text->data : "");
}

/* Requires equal lengths of all lists of nodes, and of all lists of leaves. */
static status_t check_lengths(const forest_t *forest)
{
    const lists_t *lists = &forest->lists;
    const size_t n = lists->ids.n, n_leaves = lists->leaf_ids.n;
    const bool is_alike = lists->trees.n == n && lists->features.n == n && lists->on_true.n == n &&
                          lists->on_false.n == n && lists->values.n == n && lists->modes != NULL &&
                          lists->modes->n_strings == n &&
                          (lists->tracks.n == 0 || lists->tracks.n == n);
    if (!is_alike || n == 0 || n > INT32_MAX / 2)
        FAIL(forest->node->onnx->ctx, STATUS_CORRUPT,
             "lists of nodes have different lengths, nodes_nodeids %zu", n);
    if (lists->leaf_trees.n != n_leaves || lists->leaf_targets.n != n_leaves ||
        lists->leaf_weights.n != n_leaves)
        FAIL(forest->node->onnx->ctx, STATUS_CORRUPT,
             "lists of weights have different lengths, ids %zu", n_leaves);
    return STATUS_OK;
}

/* Reads all lists. `what` is the prefix of the attributes with leaves: "target" or "class". */
static status_t read_lists(onnx_node_t *node, const char *what, lists_t *lists)
{
    static const char *const ends[] = {"treeids", "nodeids", "ids"};
    ml_ints_t *const targets[] = {&lists->leaf_trees, &lists->leaf_ids, &lists->leaf_targets};
    char name[64];
    TRY(ml_read_ints(node, "nodes_treeids", &lists->trees));
    TRY(ml_read_ints(node, "nodes_nodeids", &lists->ids));
    TRY(ml_read_ints(node, "nodes_featureids", &lists->features));
    TRY(ml_read_ints(node, "nodes_truenodeids", &lists->on_true));
    TRY(ml_read_ints(node, "nodes_falsenodeids", &lists->on_false));
    TRY(ml_read_ints(node, "nodes_missing_value_tracks_true", &lists->tracks));
    TRY(ml_read_floats(node, "nodes_values", &lists->values));
    TRY(ml_read_floats(node, "base_values", &lists->bases));
    onnx_attr_ignore(node, "nodes_hitrates");
    onnx_attr_ignore(node, "nodes_hitrates_as_tensor");
    lists->modes = onnx_attr(node, "nodes_modes");
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%s_%s", what, ends[i]);
        TRY(ml_read_ints(node, name, targets[i]));
    }
    snprintf(name, sizeof name, "%s_weights", what);
    return ml_read_floats(node, name, &lists->leaf_weights);
}

/* ---- building the tensors ---- */

static status_t get_blocks(forest_t *forest)
{
    context_t *ctx = forest->node->onnx->ctx;
    const size_t n = (size_t)forest->n;
    TRY(context_get(ctx, n * sizeof *forest->places, "nodes", &forest->places));
    TRY(context_get(ctx, n * sizeof *forest->numbers, "nodes", &forest->numbers));
    TRY(context_get(ctx, n * sizeof *forest->queue, "nodes", &forest->queue));
    TRY(context_get(ctx, n * sizeof *forest->leaf_of, "nodes", &forest->leaf_of));
    TRY(context_get(ctx, n * sizeof *forest->modes, "nodes", &forest->modes));
    TRY(context_get_zeroed(ctx, n * sizeof *forest->features, "nodes", &forest->features));
    TRY(context_get_zeroed(ctx, n * sizeof *forest->kinds, "nodes", &forest->kinds));
    TRY(context_get_zeroed(ctx, 2 * n * sizeof *forest->links, "nodes", &forest->links));
    TRY(context_get_zeroed(ctx, 2 * n * sizeof *forest->exits, "nodes", &forest->exits));
    TRY(context_get_zeroed(ctx, n * sizeof *forest->roots, "nodes", &forest->roots));
    return context_get_zeroed(ctx, n * sizeof *forest->values, "nodes", &forest->values);
}

static void put_blocks(forest_t *forest)
{
    context_t *ctx = forest->node->onnx->ctx;
    void *const blocks[] = {forest->places,    forest->numbers,  forest->queue,  forest->leaf_of,
                            forest->modes,     forest->features, forest->kinds,  forest->links,
                            forest->exits,     forest->roots,    forest->values, forest->weights,
                            forest->has_weight};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) context_put(ctx, blocks[i]);
}

static status_t index_nodes(forest_t *forest)
{
    const lists_t *lists = &forest->lists;
    for (int64_t i = 0; i < forest->n; i++) {
        forest->places[i] = (place_t){lists->trees.at[i], lists->ids.at[i], i};
        forest->numbers[i] = forest->leaf_of[i] = -1;
        TRY(read_mode(forest, i, &forest->modes[i]));
        if (forest->modes[i] < 0) forest->leaf_of[i] = forest->n_leaves++;
    }
    qsort(forest->places, (size_t)forest->n, sizeof *forest->places, compare_places);
    for (int64_t i = 1; i < forest->n; i++)
        if (compare_places(&forest->places[i - 1], &forest->places[i]) == 0)
            FAIL(forest->node->onnx->ctx, STATUS_CORRUPT, "node %lld of tree %lld is there twice",
                 (long long)forest->places[i].id, (long long)forest->places[i].tree);
    return STATUS_OK;
}

/* Adds up the weights of each leaf for each target. Weights of inner nodes are refused. */
static status_t fill_weights(forest_t *forest)
{
    context_t *ctx = forest->node->onnx->ctx;
    const lists_t *lists = &forest->lists;
    const int64_t k = lists->n_targets;
    size_t n = 0;
    if (__builtin_mul_overflow((size_t)forest->n_leaves, (size_t)k, &n) || n > ONNX_MAX_FOLDED / 4)
        FAIL(ctx, STATUS_UNSUPPORTED, "%lld leaves of %lld targets", (long long)forest->n_leaves,
             (long long)k);
    TRY(context_get_zeroed(ctx, (n + 1) * sizeof *forest->weights, "weights", &forest->weights));
    TRY(context_get_zeroed(ctx, n + 1, "weights", &forest->has_weight));
    for (size_t i = 0; i < lists->leaf_ids.n; i++) {
        const int64_t target = lists->leaf_targets.at[i];
        const int64_t node = find_node(forest, lists->leaf_trees.at[i], lists->leaf_ids.at[i]);
        if (node < 0 || forest->leaf_of[node] < 0 || target < 0 || target >= k)
            FAIL(ctx, STATUS_CORRUPT,
                 "a weight of node %lld of tree %lld for target %lld of %lld, a leaf is needed",
                 (long long)lists->leaf_ids.at[i], (long long)lists->leaf_trees.at[i],
                 (long long)target, (long long)k);
        const int64_t at = forest->leaf_of[node] * k + target;
        forest->weights[at] += lists->leaf_weights.at[i];
        forest->has_weight[at] = true;
    }
    return STATUS_OK;
}

/* Sets one side of a node: an exit to a leaf, or a link to a child, which gets the next number. */
static status_t add_side(forest_t *forest, int64_t node, int side)
{
    const lists_t *lists = &forest->lists;
    const int64_t tree = lists->trees.at[node];
    const int64_t id = side == 0 ? lists->on_true.at[node] : lists->on_false.at[node];
    const int64_t child = find_node(forest, tree, id);
    const int64_t at = 2 * forest->numbers[node] + side;
    context_t *ctx = forest->node->onnx->ctx;
    if (child < 0)
        FAIL(ctx, STATUS_CORRUPT, "node %lld of tree %lld leads to node %lld, which is not there",
             (long long)lists->ids.at[node], (long long)tree, (long long)id);
    if (forest->leaf_of[child] >= 0) {
        forest->exits[at] = (int32_t)forest->leaf_of[child];
        return STATUS_OK;
    }
    if (forest->numbers[child] >= 0)
        FAIL(ctx, STATUS_CORRUPT, "node %lld of tree %lld is reached twice, trees have no cycles",
             (long long)id, (long long)tree);
    forest->numbers[child] = forest->n_made;
    forest->queue[forest->n_made] = child;
    forest->links[at] = (int32_t)forest->n_made++;
    return STATUS_OK;
}

/* Adds a tree. A tree that is a single leaf becomes a node with this leaf on both sides. */
static status_t add_tree(forest_t *forest, int64_t root)
{
    const lists_t *lists = &forest->lists;
    int64_t next = forest->n_made;
    forest->roots[forest->n_roots++] = (int32_t)next;
    forest->numbers[root] = forest->n_made;
    forest->queue[forest->n_made++] = root;
    if (forest->leaf_of[root] >= 0) {
        for (int side = 0; side < 2; side++)
            forest->exits[2 * next + side] = (int32_t)forest->leaf_of[root];
        return STATUS_OK;
    }
    for (; next < forest->n_made; next++) {
        const int64_t node = forest->queue[next], feature = lists->features.at[node];
        if (feature < 0 || feature > INT32_MAX)
            FAIL(forest->node->onnx->ctx, STATUS_CORRUPT, "nodes_featureids has %lld",
                 (long long)feature);
        forest->features[next] = (int32_t)feature;
        forest->kinds[next] = forest->modes[node];
        forest->values[next] = lists->values.at[node];
        for (int side = 0; side < 2; side++) TRY(add_side(forest, node, side));
    }
    return STATUS_OK;
}

/* Adds all trees. A tree begins with its first node in the lists. */
static status_t add_trees(forest_t *forest)
{
    for (int64_t i = 0; i < forest->n;) {
        const int64_t tree = forest->places[i].tree;
        int64_t root = forest->places[i].at;
        for (; i < forest->n && forest->places[i].tree == tree; i++)
            if (forest->places[i].at < root) root = forest->places[i].at;
        TRY(add_tree(forest, root));
    }
    return STATUS_OK;
}

static status_t make_forest(forest_t *forest)
{
    TRY(check_lengths(forest));
    forest->n = (int64_t)forest->lists.ids.n;
    TRY(get_blocks(forest));
    TRY(index_nodes(forest));
    TRY(fill_weights(forest));
    return add_trees(forest);
}

/* Emits the operator for the rows of x: [N][n_targets]. `weights` belong to the leaves. */
static status_t emit_trees(const forest_t *forest, item_t x, tree_aggregate_t aggregate,
                           const float *weights, item_t *out)
{
    onnx_node_t *node = forest->node;
    context_t *ctx = node->onnx->ctx;
    const int64_t n = forest->n_made, n_roots = forest->n_roots;
    const int64_t pairs[] = {n, 2}, leaves[] = {forest->n_leaves, forest->lists.n_targets};
    const tensor_info_t info = *onnx_info(node->onnx, x);
    item_t in[8] = {x};
    const int64_t n_features = sym_is(info.sizes[1]) ? INT64_MAX : info.sizes[1];
    int32_t feature = 0; /* the first index that is too large, otherwise the largest one */
    for (int64_t i = 0; i < n && feature < n_features; i++)
        if (forest->features[i] > feature) feature = forest->features[i];
    if (n > 0 && !sym_less(ctx, feature, info.sizes[1]))
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "feature %d is compared, x is %s", feature,
             onnx_brief(node, &info));
    TRY(ml_known(node, DTYPE_S32, 1, &n, forest->features, &in[1]));
    TRY(ml_known(node, DTYPE_S32, 1, &n, forest->kinds, &in[2]));
    TRY(ml_known(node, DTYPE_F32, 1, &n, forest->values, &in[3]));
    TRY(ml_known(node, DTYPE_S32, 2, pairs, forest->links, &in[4]));
    TRY(ml_known(node, DTYPE_S32, 2, pairs, forest->exits, &in[5]));
    TRY(ml_known(node, DTYPE_S32, 1, &n_roots, forest->roots, &in[6]));
    TRY(ml_known(node, DTYPE_F32, 2, leaves, weights, &in[7]));
    return onnx_op(node, "tree_ensemble", ONNX_ATTRS(SET("aggregate", (int64_t)aggregate)), 8, in,
                   out);
}

/* ---- targets with a score ---- */

typedef enum scored { SCORED_NEVER, SCORED_SOMETIMES, SCORED_ALWAYS } scored_t;

/* SCORED_ALWAYS if in some tree every leaf has a weight for the target. */
static scored_t find_scored(const forest_t *forest, int64_t target)
{
    const int64_t k = forest->lists.n_targets;
    scored_t scored = SCORED_NEVER;
    for (int64_t i = 0; i < forest->n;) {
        const int64_t tree = forest->places[i].tree;
        bool is_whole = true;
        for (; i < forest->n && forest->places[i].tree == tree; i++) {
            const int64_t leaf = forest->leaf_of[forest->places[i].at];
            if (leaf < 0) continue;
            is_whole = is_whole && forest->has_weight[leaf * k + target];
            if (forest->has_weight[leaf * k + target]) scored = SCORED_SOMETIMES;
        }
        if (is_whole) return SCORED_ALWAYS;
    }
    return scored;
}

/* Sets the scores to -infinity for classes that have no weight in any leaf reached. */
static status_t hide_unscored(const forest_t *forest, item_t x, item_t scores, item_t *out)
{
    onnx_node_t *node = forest->node;
    const int64_t k = forest->lists.n_targets, n = forest->n_leaves * k;
    float *marks = NULL;
    item_t in[3] = {ITEM_NONE, scores, ITEM_NONE};
    *out = scores;
    int64_t n_scored = (int64_t)forest->lists.bases.n;
    while (n_scored < k && find_scored(forest, n_scored) == SCORED_ALWAYS) n_scored++;
    if (n_scored == k) return STATUS_OK;
    TRY(context_get(node->onnx->ctx, (size_t)(n + 1) * sizeof *marks, "marks", &marks));
    for (int64_t i = 0; i < n; i++)
        marks[i] = forest->has_weight[i] || i % k < (int64_t)forest->lists.bases.n ? 1.0F : 0.0F;
    status_t status = emit_trees(forest, x, TREE_MAX, marks, &in[0]);
    context_put(node->onnx->ctx, marks);
    TRY(status);
    TRY(onnx_with_number(node, "gt", in[0], 0.5, &in[0]));
    TRY(onnx_number(node->onnx, -(double)INFINITY, &in[2]));
    return onnx_op(node, "where", NULL, 3, in, out);
}

/* ---- regression ---- */

static status_t add_bases(onnx_node_t *node, ml_floats_t bases, item_t *scores)
{
    const int64_t n = (int64_t)bases.n;
    item_t known;
    if (n == 0) return STATUS_OK;
    TRY(ml_known(node, DTYPE_F32, 1, &n, bases.at, &known));
    return onnx_binary(node, "add", *scores, known, scores);
}

static status_t regress(forest_t *forest, int aggregate, ml_transform_t transform)
{
    enum { SUM, AVERAGE, MIN, MAX };
    onnx_node_t *node = forest->node;
    const lists_t *lists = &forest->lists;
    const tree_aggregate_t own = aggregate == MIN   ? TREE_MIN
                                 : aggregate == MAX ? TREE_MAX
                                                    : TREE_SUM;
    item_t x, scores;
    TRY(ml_rows(node, true, &x));
    TRY(make_forest(forest));
    for (int64_t t = 0; t < lists->n_targets && own != TREE_SUM; t++)
        if (find_scored(forest, t) != SCORED_ALWAYS)
            FAIL(node->onnx->ctx, STATUS_UNSUPPORTED,
                 "the least or largest of leaves that have no weight for target %lld",
                 (long long)t);
    TRY(emit_trees(forest, x, own, forest->weights, &scores));
    if (aggregate == AVERAGE)
        TRY(onnx_with_number(node, "div", scores, (double)forest->n_roots, &scores));
    TRY(add_bases(node, lists->bases, &scores));
    /* ONNX Runtime does not transform a single target. */
    if (lists->n_targets == 1) transform = ML_NONE;
    return ml_transform(node, transform, scores, &node->out[0]);
}

status_t onnx_import_tree_regressor(onnx_node_t *node)
{
    static const char *const names[] = {"SUM", "AVERAGE", "MIN", "MAX", NULL};
    context_t *ctx = node->onnx->ctx;
    forest_t forest = {.node = node};
    ml_transform_t transform = ML_NONE;
    int aggregate = 0;
    TRY(read_lists(node, "target", &forest.lists));
    TRY(ml_read_transform(node, &transform));
    TRY(onnx_attr_name(node, "aggregate_function", names, 0, &aggregate));
    TRY(onnx_attr_int(node, "n_targets", 1, &forest.lists.n_targets));
    const int64_t n = forest.lists.n_targets;
    if (n < 1 || n > INT32_MAX || (forest.lists.bases.n > 0 && forest.lists.bases.n != (size_t)n))
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "n_targets %lld, base_values %zu", (long long)n,
             forest.lists.bases.n);
    FINISH(regress(&forest, aggregate, transform), put_blocks(&forest));
}

/* ---- classification ---- */

static bool is_positive(const lists_t *lists)
{
    for (size_t i = 0; i < lists->leaf_weights.n; i++)
        if (lists->leaf_weights.at[i] < 0) return false;
    return true;
}

static status_t column(onnx_node_t *node, item_t x, int64_t at, item_t *out)
{
    return onnx_slice(node, x, 1, at, at + 1, 1, out);
}

/* Two classes, as ONNX Runtime computes them. If only one class has weights, it counts as the
 * second class, whatever its number. */
static status_t classify_two(const forest_t *forest, ml_transform_t transform,
                             const int64_t *labels, item_t scores)
{
    static const int64_t no_labels[] = {0, 1};
    onnx_node_t *node = forest->node;
    const ml_floats_t bases = forest->lists.bases;
    const scored_t scored[] = {find_scored(forest, 0), find_scored(forest, 1)};
    const bool is_one = scored[0] == SCORED_NEVER || scored[1] == SCORED_NEVER;
    const bool is_plain = is_positive(&forest->lists);
    const double threshold = is_one && is_plain ? 0.5 : 0.0;
    item_t parts[2];
    if (scored[0] == SCORED_SOMETIMES || scored[1] == SCORED_SOMETIMES)
        FAIL(node->onnx->ctx, STATUS_UNSUPPORTED,
             "two classes and leaves that have no weight for one of them");
    for (int i = 0; i < 2; i++) TRY(column(node, scores, i, &parts[i]));
    if (bases.n == 2 && scored[1] == SCORED_ALWAYS) {
        TRY(onnx_with_number(node, "add", parts[0], (double)bases.at[1], &parts[1]));
        if (scored[0] == SCORED_ALWAYS) TRY(onnx_unary(node, "neg", parts[1], &parts[0]));
    } else if (bases.n > 0 && scored[0] == SCORED_ALWAYS) {
        TRY(onnx_with_number(node, "add", parts[0], (double)bases.at[0], &parts[0]));
    }
    const item_t decides = parts[scored[1] == SCORED_ALWAYS ? 1 : 0];
    if (labels != NULL) TRY(ml_label_above(node, is_one ? labels : no_labels, decides, threshold));
    if (scored[1] == SCORED_NEVER && bases.n < 2)
        return ml_add_first_class(node, transform, is_plain, parts[0], &node->out[1]);
    TRY(onnx_op(node, "concat", ONNX_ATTRS(SET("dim", 1)), 2, parts, &scores));
    return ml_transform(node, transform, scores, &node->out[1]);
}

static status_t classify(forest_t *forest, ml_transform_t transform, ml_ints_t labels)
{
    onnx_node_t *node = forest->node;
    item_t x, scores, seen;
    TRY(ml_rows(node, true, &x));
    TRY(make_forest(forest));
    TRY(emit_trees(forest, x, TREE_SUM, forest->weights, &scores));
    if (forest->lists.n_targets == 2)
        return classify_two(forest, transform, labels.n == 2 ? labels.at : NULL, scores);
    TRY(add_bases(node, forest->lists.bases, &scores));
    TRY(hide_unscored(forest, x, scores, &seen));
    TRY(ml_label_largest(node, labels, seen));
    return ml_transform(node, transform, scores, &node->out[1]);
}

status_t onnx_import_tree_classifier(onnx_node_t *node)
{
    forest_t forest = {.node = node};
    ml_transform_t transform = ML_NONE;
    ml_ints_t labels;
    size_t n_texts = 0;
    TRY(read_lists(node, "class", &forest.lists));
    TRY(ml_read_transform(node, &transform));
    TRY(ml_read_ints(node, "classlabels_int64s", &labels));
    TRY(ml_count_strings(node, "classlabels_strings", &n_texts));
    const size_t n = n_texts > 0 ? n_texts : labels.n, n_bases = forest.lists.bases.n;
    if (n_texts > 0) labels.n = 0;
    if (n < 2 || n > INT32_MAX || (n_bases != 0 && n_bases != n && !(n == 2 && n_bases == 1)))
        FAIL(node->onnx->ctx, STATUS_UNSUPPORTED, "%zu classes, base_values %zu", n, n_bases);
    forest.lists.n_targets = (int64_t)n;
    FINISH(classify(&forest, transform, labels), put_blocks(&forest));
}
