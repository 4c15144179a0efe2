/* Decision trees: one made by hand, and errors. tests/io compares imported ones with ONNX
 * Runtime. */
#include "tests/support/support.h"

#include <math.h>

#include "dispatch/dispatch.h"
#include "ops/index/indexing.h"

/* The first tree is x[0] <= 1 ? (x[1] > 2 ? leaf 0 : leaf 1) : leaf 2, and x[1] > 2 is true for
 * NaN. The second tree is only leaf 1. */
static const int32_t features[] = {0, 1, 0}, links[] = {1, 0, 0, 0, 0, 0};
static const int32_t modes[] = {TREE_LEQ, TREE_GT + TREE_NAN_IS_TRUE, TREE_LEQ};
static const int32_t exits[] = {0, 2, 0, 1, 1, 1}, roots[] = {0, 2};
static const float values[] = {1, 2, 0}, leaves[] = {1, 10, 2, 20, 4, 40};

typedef struct made {
    tensor_t *all[7];
    tree_ensemble_t trees;
} made_t;

static void make(context_t *ctx, made_t *made)
{
    static const int64_t three[] = {3}, two[] = {2}, pairs[] = {3, 2};
    tensor_t **all = made->all;
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_S32, 1, three, features, &all[0]));
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_S32, 1, three, modes, &all[1]));
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, 1, three, values, &all[2]));
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_S32, 2, pairs, links, &all[3]));
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_S32, 2, pairs, exits, &all[4]));
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_S32, 1, two, roots, &all[5]));
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, 2, pairs, leaves, &all[6]));
    made->trees = (tree_ensemble_t){all[0], all[1], all[2], all[3], all[4], all[5], all[6]};
}

static void clear(made_t *made)
{
    for (int i = 0; i < 7; i++) tensor_release(made->all[i]);
}

static void rows_come_to_their_leaves(void **state)
{
    context_t *ctx = fixture_context(state);
    static const int64_t sizes[] = {4, 2};
    const float rows[] = {1, 3, 0, 2, 5, 0, 1, NAN};
    static const float wanted[3][8] = {
        {3, 30, 4, 40, 6, 60, 3, 30}, {1, 10, 2, 20, 2, 20, 1, 10}, {2, 20, 2, 20, 4, 40, 2, 20}};
    tensor_t *x = NULL;
    made_t made;
    make(ctx, &made);
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, 2, sizes, rows, &x));
    for (int aggregate = TREE_SUM; aggregate <= TREE_MAX; aggregate++) {
        float found[8];
        tensor_t *out = NULL;
        CHECK_OK(ctx, op_tree_ensemble(ctx, x, &made.trees, (tree_aggregate_t)aggregate, &out));
        CHECK_OK(ctx, tensor_read(ctx, out, found, sizeof found));
        for (int i = 0; i < 8; i++) assert_float_equal(found[i], wanted[aggregate][i], 0);
        tensor_release(out);
    }
    tensor_release(x);
    clear(&made);
}

static void trees_that_lead_nowhere_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    static const int64_t sizes[] = {1, 1}, pairs[] = {3, 2}, two[] = {2};
    static const int32_t far_exits[] = {0, 3, 0, 1, 1, 1};
    const float row[] = {5};
    tensor_t *x = NULL, *other = NULL, *out = NULL;
    made_t made;
    make(ctx, &made);
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, 2, sizes, row, &x));
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_S32, 2, pairs, far_exits, &other));
    tree_ensemble_t trees = made.trees;
    trees.exits = other;
    CHECK_FAILS(ctx, op_tree_ensemble(ctx, x, &trees, TREE_SUM, &out), STATUS_INVALID_ARGUMENT,
                "tree_ensemble: a walk leads to a feature, node, mode or leaf that is not there");
    tensor_release(other);
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_S32, 1, two, roots, &other));
    trees = made.trees;
    trees.modes = other;
    CHECK_FAILS(ctx, op_tree_ensemble(ctx, x, &trees, TREE_SUM, &out), STATUS_INVALID_ARGUMENT,
                "tree_ensemble: modes is s32[2], of 3 nodes");
    trees.modes = made.trees.values;
    CHECK_FAILS(ctx, op_tree_ensemble(ctx, x, &trees, TREE_SUM, &out), STATUS_INVALID_ARGUMENT,
                "tree_ensemble: modes is f32[3], rank 1 of s32 is needed");
    context_clear_error(ctx);
    CHECK_FAILS(ctx, op_tree_ensemble(ctx, x, NULL, TREE_SUM, &out), STATUS_INVALID_ARGUMENT,
                "trees");
    assert_null(out);
    tensor_release(x);
    tensor_release(other);
    clear(&made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rows_come_to_their_leaves),
        TEST(trees_that_lead_nowhere_are_refused),
    };
    return cmocka_run_group_tests_name("tree_ensemble", tests, NULL, NULL);
}
