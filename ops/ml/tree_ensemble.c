/* Decision trees. Each row of x walks from the first node of every tree to a leaf. The result is
 * the sum, minimum or maximum of these leaves.
 *
 * A walk continues only at a later node, so every walk ends. Any other link ends the walk at the
 * leaf that `exits` has for it. */
#include <stdatomic.h>
#include <string.h>

#include "ops/accept_impl.h"
#include "ops/index/indexing.h"
#include "ops/ops_impl.h"
#include "tensor/sym/sizes_impl.h"
#include "tensor/threads/threads_impl.h"

typedef struct tree_ensemble_attrs {
    int aggregate; /* tree_aggregate_t */
} tree_ensemble_attrs_t;

static const char *const aggregates[] = {"sum", "min", "max", NULL};
static const attr_field_t fields[] = {FIELD_NAME(tree_ensemble_attrs_t, aggregate, 0, aggregates)};

static const operand_t operands[] = {
    {"x", ROLE_ACTIVATION, false, false},     {"features", ROLE_ACTIVATION, false, false},
    {"modes", ROLE_ACTIVATION, false, false}, {"values", ROLE_ACTIVATION, false, false},
    {"links", ROLE_ACTIVATION, false, false}, {"exits", ROLE_ACTIVATION, false, false},
    {"roots", ROLE_ACTIVATION, false, false}, {"leaves", ROLE_ACTIVATION, false, false}};
enum { X, FEATURES, MODES, VALUES, LINKS, EXITS, ROOTS, LEAVES, N_OPERANDS };
enum { LEAVE_TRUE, LEAVE_FALSE };

static bool is_float(dtype_t dtype)
{
    return dtype == DTYPE_F32 || dtype == DTYPE_F64;
}

static status_t tree_ensemble_infer(context_t *ctx, const op_call_t *call, int *out_n,
                                    tensor_info_t *out)
{
    (void)out_n;
    static const int ranks[N_OPERANDS] = {2, 1, 1, 1, 2, 2, 1, 2};
    for (int i = 0; i < N_OPERANDS; i++) {
        const bool has_numbers = i == X || i == VALUES || i == LEAVES;
        REQUIRE(ctx,
                call->in[i]->rank == ranks[i] &&
                    (has_numbers ? is_float(call->in[i]->dtype) : call->in[i]->dtype == DTYPE_S32),
                "tree_ensemble: %s is %s, rank %d of %s is needed", operands[i].name,
                info_brief(call->in[i]), ranks[i], has_numbers ? "f32 or f64" : "s32");
    }
    const int64_t n = call->in[FEATURES]->sizes[0];
    for (int i = MODES; i <= EXITS; i++)
        REQUIRE(ctx,
                (i < LINKS || sym_equal(ctx, call->in[i]->sizes[1], LEAVE_FALSE + 1)) &&
                    sym_equal(ctx, call->in[i]->sizes[0], n),
                "tree_ensemble: %s is %s, of %lld nodes", operands[i].name, info_brief(call->in[i]),
                (long long)n);
    const int64_t sizes[] = {call->in[X]->sizes[0], call->in[LEAVES]->sizes[1]};
    TRY(shape_check(ctx, "tree_ensemble", call->in[LEAVES]->dtype, 2, sizes));
    out[0] = info_dense(call->in[LEAVES]->dtype, 2, sizes);
    return STATUS_OK;
}

/* ---- one step ---- */

static bool goes_true(int64_t mode, double x, double value)
{
    if (x != x && mode >= TREE_NAN_IS_TRUE) return true;
    switch (mode % TREE_NAN_IS_TRUE) {
    case TREE_LEQ: return x <= value;
    case TREE_LT: return x < value;
    case TREE_GTE: return x >= value;
    case TREE_GT: return x > value;
    case TREE_EQ: return x == value;
    default: return x != value;
    }
}

static double join(int aggregate, double a, double b)
{
    if (aggregate == TREE_SUM) return a + b;
    return (aggregate == TREE_MIN) == (b < a) ? b : a;
}

static double tree_ensemble_spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    const int aggregate = ((const tree_ensemble_attrs_t *)call->attrs)->aggregate;
    double result = 0;
    for (int64_t t = 0; t < call->in[ROOTS]->sizes[0]; t++) {
        int64_t node = (int64_t)spec_at(call, ROOTS, &t);
        for (;;) {
            const int64_t x[] = {index[0], (int64_t)spec_at(call, FEATURES, &node)};
            const bool is_true = goes_true((int64_t)spec_at(call, MODES, &node),
                                           spec_at(call, X, x), spec_at(call, VALUES, &node));
            const int64_t side[] = {node, is_true ? LEAVE_TRUE : LEAVE_FALSE};
            const int64_t next = (int64_t)spec_at(call, LINKS, side);
            const int64_t leaf[] = {(int64_t)spec_at(call, EXITS, side), index[1]};
            if (next > node) {
                node = next;
                continue;
            }
            const double weight = spec_at(call, LEAVES, leaf);
            result = t == 0 ? weight : join(aggregate, result, weight);
            break;
        }
    }
    return result;
}

/* ---- dense kernel ---- */

typedef struct forest {
    const int32_t *features, *modes, *links, *exits, *roots;
    const void *values, *leaves;
    bool has_wide_values, has_wide_leaves;
    int64_t n_features, n_nodes, n_roots, n_leaves, n_out;
    int aggregate;
} forest_t;

static double number_at(const void *numbers, bool is_wide, int64_t index)
{
    return is_wide ? ((const double *)numbers)[index] : (double)((const float *)numbers)[index];
}

/* Returns the leaf where a row's walk ends, or -1 if it needs a node, leaf or feature that does not
 * exist. */
static int64_t find_leaf(const forest_t *forest, const void *row, bool is_wide, int64_t node)
{
    if (node < 0 || node >= forest->n_nodes) return -1;
    for (;;) {
        const int64_t feature = forest->features[node], mode = forest->modes[node];
        if (feature < 0 || feature >= forest->n_features || mode < 0 ||
            mode >= 2 * TREE_NAN_IS_TRUE)
            return -1;
        const bool is_true = goes_true(mode, number_at(row, is_wide, feature),
                                       number_at(forest->values, forest->has_wide_values, node));
        const int64_t side = 2 * node + (is_true ? LEAVE_TRUE : LEAVE_FALSE);
        const int64_t next = forest->links[side], leaf = forest->exits[side];
        if (next <= node) return leaf < forest->n_leaves ? leaf : -1;
        if (next >= forest->n_nodes) return -1;
        node = next;
    }
}

/* Combines the leaves of one row of x into n_out doubles. Returns false if a walk is invalid. */
static bool walk(const forest_t *forest, const void *row, bool is_wide, double *sums)
{
    const int64_t n = forest->n_out;
    for (int64_t t = 0; t < forest->n_roots; t++) {
        const int64_t leaf = find_leaf(forest, row, is_wide, forest->roots[t]);
        if (leaf < 0) return false;
        for (int64_t k = 0; k < n; k++) {
            const double weight = number_at(forest->leaves, forest->has_wide_leaves, leaf * n + k);
            sums[k] = t == 0 ? weight : join(forest->aggregate, sums[k], weight);
        }
    }
    return true;
}

typedef struct rows {
    const forest_t *forest;
    bool is_wide;     /* x is f64 */
    size_t row_bytes; /* bytes of a row of x */
    const char *x;
    double *sums; /* [rows][n_out] */
    void *out;
    atomic_bool is_broken; /* a walk reached a node, leaf or feature that does not exist */
} rows_t;

static void walk_rows(void *user, int64_t first, int64_t last)
{
    rows_t *rows = user;
    const int64_t n_out = rows->forest->n_out;
    for (int64_t i = first; i < last; i++) {
        double *sums = rows->sums + i * n_out;
        if (!walk(rows->forest, rows->x + (size_t)i * rows->row_bytes, rows->is_wide, sums))
            atomic_store(&rows->is_broken, true);
        for (int64_t k = 0; k < n_out; k++) {
            if (rows->forest->has_wide_leaves)
                ((double *)rows->out)[i * n_out + k] = sums[k];
            else
                ((float *)rows->out)[i * n_out + k] = (float)sums[k];
        }
    }
}

static status_t tree_ensemble_run(context_t *ctx, const prepared_t *prepared, void *const *in,
                                  void *const *out, void *scratch)
{
    (void)scratch;
    const tensor_info_t *infos = prepared->in;
    const int64_t n_rows = infos[X].sizes[0], n_out = infos[LEAVES].sizes[1];
    const forest_t forest = {in[FEATURES],
                             in[MODES],
                             in[LINKS],
                             in[EXITS],
                             in[ROOTS],
                             in[VALUES],
                             in[LEAVES],
                             infos[VALUES].dtype == DTYPE_F64,
                             infos[LEAVES].dtype == DTYPE_F64,
                             infos[X].sizes[1],
                             infos[FEATURES].sizes[0],
                             infos[ROOTS].sizes[0],
                             infos[LEAVES].sizes[0],
                             n_out,
                             ((const tree_ensemble_attrs_t *)prepared->attrs)->aggregate};
    const size_t row_bytes = (size_t)forest.n_features * dtype_size(infos[X].dtype);
    double *all_sums = NULL;
    if (n_rows == 0 || n_out == 0) return STATUS_OK;
    TRY(context_get_zeroed(ctx, (size_t)(n_rows * n_out) * sizeof *all_sums, "sums", &all_sums));
    rows_t rows = {&forest, infos[X].dtype == DTYPE_F64, row_bytes, in[X], all_sums, out[0], false};
    threads_share(threads_for(ctx, n_rows * forest.n_roots * 16), n_rows, walk_rows, &rows);
    context_put(ctx, all_sums);
    REQUIRE(ctx, !rows.is_broken,
            "tree_ensemble: a walk leads to a feature, node, mode or leaf that is not there");
    return STATUS_OK;
}

const opdef_t op_def_tree_ensemble = {
    .name = "tree_ensemble",
    FUNCTIONS_OF(tree_ensemble),
    .preference = OP_DENSE,
    .attrs = {sizeof(tree_ensemble_attrs_t), 1, fields},
    .n_operands = N_OPERANDS,
    .operands = operands,
    .kernels = KERNELS(KERNEL("native", ops_prepare_dense, tree_ensemble_run))};

status_t op_tree_ensemble(context_t *ctx, const tensor_t *x, const tree_ensemble_t *trees,
                          tree_aggregate_t aggregate, tensor_t **out)
{
    const tree_ensemble_attrs_t attrs = {(int)aggregate};
    TRY(context_output(ctx, "tree_ensemble", out));
    if (trees == NULL) return context_null(ctx, "tree_ensemble", "trees");
    const tensor_t *in[] = {x,
                            trees->features,
                            trees->modes,
                            trees->values,
                            trees->links,
                            trees->exits,
                            trees->roots,
                            trees->leaves};
    return dispatch_run(ctx, &op_def_tree_ensemble, &attrs, N_OPERANDS, in, NULL, out);
}
