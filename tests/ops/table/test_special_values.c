/* NaN, infinities and results near 0: activations, maxima, softmax and pooling must give PyTorch's
 * results, in both layouts and fused after products. */
#include "tests/support/support.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "dispatch/select_impl.h"
#include "ops/ops.h"
#include "tensor/onednn/candidates.h"
#include "tensor/onednn/onednn.h"

#define N 16

/* Values printed by special_values.py. */
static const float x[N] = {NAN, INFINITY, -INFINITY, 0,  1e-40f,  -20,     -50, -8,
                           -10, 20,       88.5f,     89, 1.0001f, 0.9999f, -3,  0.5f};
static const struct {
    const char *op, *attrs;
    float value[N];
} known[] = {
    {"relu",
     "",
     {NAN, INFINITY, 0, 0, 9.9999461e-41f, 0, 0, 0, 0, 20, 88.5f, 89, 1.00010002f, 0.999899983f, 0,
      0.5f}},
    {"relu6",
     "",
     {NAN, 6, 0, 0, 9.9999461e-41f, 0, 0, 0, 0, 6, 6, 6, 1.00010002f, 0.999899983f, 0, 0.5f}},
    {"clamp",
     "min=-0.5 max=0.75",
     {NAN, 0.75f, -0.5f, 0, 9.9999461e-41f, -0.5f, -0.5f, -0.5f, -0.5f, 0.75f, 0.75f, 0.75f, 0.75f,
      0.75f, -0.5f, 0.5f}},
    {"leaky_relu",
     "",
     {NAN, INFINITY, -INFINITY, 0, 9.9999461e-41f, -0.2f, -0.5f, -0.08f, -0.1f, 20, 88.5f, 89,
      1.00010002f, 0.999899983f, -0.03f, 0.5f}},
    {"leaky_relu",
     "negative_slope=0.0",
     {NAN, INFINITY, NAN, 0, 9.9999461e-41f, -0, -0, -0, -0, 20, 88.5f, 89, 1.00010002f,
      0.999899983f, -0, 0.5f}},
    {"elu",
     "",
     {NAN, INFINITY, -1, 0, 9.9999461e-41f, -0.999999998f, -1, -0.999664537f, -0.9999546f, 20,
      88.5f, 89, 1.00010002f, 0.999899983f, -0.950212932f, 0.5f}},
    {"selu",
     "",
     {NAN, INFINITY, -1.75809934f, 0, 1.05069532e-40f, -1.75809934f, -1.75809934f, -1.75750956f,
      -1.75801952f, 21.0140197f, 92.9870374f, 93.5123879f, 1.05080607f, 1.0505959f, -1.67056873f,
      0.525350494f}},
    {"celu",
     "alpha=2.0",
     {NAN, INFINITY, -2.0f, 0.0f, 9.9999461e-41f, -1.9999092f, -2.0f, -1.96336872f, -1.98652411f,
      20.0f, 88.5f, 89.0f, 1.00010002f, 0.999899983f, -1.55373968f, 0.5f}},
    {"mish",
     "",
     {NAN, INFINITY, NAN, 0.0f, 5.99996766e-41f, -4.12230724e-08f, -9.64374924e-21f,
      -0.00268325088f, -0.000453988992f, 20.0f, 88.5f, 89.0f, 0.86520331f, 0.864993468f,
      -0.145647461f, 0.375245211f}},
    {"shrink",
     "lambd=0.75 bias=0.75",
     {NAN, INFINITY, -INFINITY, 0.0f, 0.0f, -19.25f, -49.25f, -7.25f, -9.25f, 19.25f, 87.75f,
      88.25f, 0.250100017f, 0.249899983f, -2.25f, 0.0f}},
    {"threshold",
     "threshold=0.5",
     {NAN, INFINITY, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 20.0f, 88.5f, 89.0f, 1.00010002f,
      0.999899983f, 0.0f, 0.0f}},
    {"softsign",
     "",
     {NAN, NAN, NAN, 0.0f, 9.9999461e-41f, -0.952380952f, -0.980392157f, -0.888888889f,
      -0.909090909f, 0.952380952f, 0.988826816f, 0.988888889f, 0.500025003f, 0.499974995f, -0.75f,
      0.333333333f}},
    {"logsigmoid",
     "",
     {NAN, 0.0f, -INFINITY, -0.693147181f, -0.693147181f, -20.0f, -50.0f, -8.00033541f,
      -10.0000454f, -2.06115362e-09f, -3.67230168e-39f, -2.22736356e-39f, -0.31323479f,
      -0.313288587f, -3.04858735f, -0.474076984f}},
    {"rsqrt",
     "",
     {NAN, 0.0f, NAN, INFINITY, 1.00000269e+20f, NAN, NAN, NAN, NAN, 0.223606798f, 0.106298801f,
      0.105999788f, 0.999949995f, 1.00005001f, NAN, 1.41421356f}},
    {"square",
     "",
     {NAN, INFINITY, INFINITY, 0.0f, 0, 400.0f, 2500.0f, 64.0f, 100.0f, 400.0f, 7832.25f, 7921.0f,
      1.00020004f, 0.999799977f, 9.0f, 0.25f}},
    {"exp2",
     "",
     {NAN, INFINITY, 0.0f, 1.0f, 1.0f, 9.53674316e-07f, 8.8817842e-16f, 0.00390625f, 0.0009765625f,
      1048576.0f, 4.37677898e+26f, 6.1897002e+26f, 2.00013866f, 1.99986135f, 0.125f, 1.41421356f}},
    {"expm1",
     "",
     {NAN, INFINITY, -1.0f, 0.0f, 9.9999461e-41f, -0.999999998f, -1.0f, -0.999664537f, -0.9999546f,
      485165194.0f, 2.72308783e+38f, INFINITY, 1.71855372f, 1.71800997f, -0.950212932f,
      0.648721271f}},
    {"log2",
     "",
     {NAN, INFINITY, NAN, -INFINITY, -132.877132f, NAN, NAN, NAN, NAN, 4.32192809f, 6.46760555f,
      6.47573343f, 0.000144286229f, -0.00014430066f, NAN, -1.0f}},
    {"log10",
     "",
     {NAN, INFINITY, NAN, -INFINITY, -40.0000023f, NAN, NAN, NAN, NAN, 1.30103f, 1.94694327f,
      1.94939001f, 4.34344828e-05f, -4.34388272e-05f, NAN, -0.301029996f}},
    {"log1p",
     "",
     {NAN, INFINITY, NAN, 0.0f, 9.9999461e-41f, NAN, NAN, NAN, NAN, 3.04452244f, 4.49423863f,
      4.49980967f, 0.693197188f, 0.693097171f, NAN, 0.405465108f}},
    {"gelu",
     "",
     {NAN, INFINITY, NAN, 0, 4.99997305e-41f, -0, -0, -4.88498131e-15f, -0, 20, 88.5f, 89,
      0.841453097f, 0.841236398f, -0.00404969409f, 0.345731231f}},
    {"erf",
     "",
     {NAN, 1, -1, 0, 1.12837309e-40f, -1, -1, -1, -1, 1, 1, 1, 0.842742306f, 0.842659271f,
      -0.99997791f, 0.520499878f}},
    {"sigmoid",
     "",
     {NAN, 1, 0, 0.5f, 0.5f, 2.06115362e-09f, 1.92874985e-22f, 0.00033535013f, 4.53978687e-05f,
      0.999999998f, 1, 1, 0.731078243f, 0.731038914f, 0.0474258732f, 0.622459331f}},
    {"tanh",
     "",
     {NAN, 1, -1, 0, 9.9999461e-41f, -1, -1, -0.999999775f, -0.999999996f, 1, 1, 1, 0.761636157f,
      0.761552148f, -0.995054754f, 0.462117157f}},
    {"hardsigmoid",
     "",
     {NAN, 1, 0, 0.5f, 0.5f, 0, 0, 0, 0, 1, 1, 1, 0.666683336f, 0.666649997f, 0, 0.583333333f}},
    {"hardswish",
     "",
     {NAN, INFINITY, NAN, 0, 4.99997305e-41f, -0, -0, -0, -0, 20, 88.5f, 89, 0.666750015f,
      0.666583321f, -0, 0.291666667f}},
    {"silu",
     "",
     {NAN, INFINITY, NAN, 0, 4.99997305e-41f, -4.12230724e-08f, -9.64374924e-21f, -0.00268280104f,
      -0.000453978687f, 20, 88.5f, 89, 0.731151363f, 0.730965798f, -0.14227762f, 0.311229666f}},
    {"softplus",
     "",
     {NAN, INFINITY, 0, 0.693147181f, 0.693147181f, 2.06115362e-09f, 1.92874985e-22f,
      0.000335406373f, 4.53988992e-05f, 20, 88.5f, 89, 1.31333481f, 1.31318857f, 0.0485873516f,
      0.974076984f}},
    {"exp",
     "",
     {NAN, INFINITY, 0, 1, 1, 2.06115362e-09f, 1.92874985e-22f, 0.000335462628f, 4.53999298e-05f,
      485165195.0f, 2.72308783e+38f, INFINITY, 2.71855372f, 2.71800997f, 0.0497870684f,
      1.64872127f}},
    {"log",
     "",
     {NAN, INFINITY, NAN, -INFINITY, -92.1034091f, NAN, NAN, NAN, NAN, 2.99573227f, 4.48300255f,
      4.48863637f, 0.000100011593f, -0.000100021596f, NAN, -0.693147181f}},
    {"abs",
     "",
     {NAN, INFINITY, INFINITY, 0, 9.9999461e-41f, 20, 50, 8, 10, 20, 88.5f, 89, 1.00010002f,
      0.999899983f, 3, 0.5f}},
    {"neg",
     "",
     {NAN, -INFINITY, INFINITY, -0, -9.9999461e-41f, 20, 50, 8, 10, -20, -88.5f, -89, -1.00010002f,
      -0.999899983f, 3, -0.5f}},
};
#define N_KNOWN (sizeof known / sizeof *known)

/* ---- activations ---- */

/* Makes N channels of one element each, dense or in blocks of 16. */
static tensor_t *make(context_t *ctx, layout_t layout, const float *values)
{
    tensor_t *dense = NULL, *blocked = NULL;
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, SHAPE(1, N, 1, 1), values, &dense));
    if (layout == LAYOUT_DENSE) return dense;
    CHECK_OK(ctx, op_reorder(ctx, dense, "aBcd16b", &blocked));
    tensor_release(dense);
    return blocked;
}

/* gelu subtracts numbers as large as x, and elu as large as alpha. A result that is much smaller
 * may be 0. */
static bool is_close(const char *op, float x_value, float wanted, float given)
{
    if (isnan(wanted) || isnan(given)) return isnan(wanted) && isnan(given);
    if (wanted == given) return true;
    bool subtracts = strcmp(op, "gelu") == 0 || strcmp(op, "elu") == 0 || strcmp(op, "selu") == 0;
    double terms = fabs((double)wanted) + (subtracts ? fmax(fabs((double)x_value), 1.0) : 0.0);
    return fabs((double)wanted - (double)given) <= 4.0 * FLT_EPSILON * terms + (double)FLT_MIN;
}

static void parse_attrs(context_t *ctx, size_t row, const opdef_t **out_op, char *attrs)
{
    const char *at = known[row].attrs;
    *out_op = ops_find(known[row].op);
    assert_non_null(*out_op);
    attrs_init(&(*out_op)->attrs, attrs);
    while (*at != '\0')
        CHECK_OK(ctx, attrs_parse(ctx, known[row].op, &(*out_op)->attrs, &at, attrs));
}

static void activations_of_special_values_are_pytorchs_in_both_layouts(void **state)
{
    context_t *ctx = fixture_context(state);
    _Alignas(16) char attrs[ATTRS_MAX];
    for (size_t row = 0; row < N_KNOWN; row++)
        for (int layout = LAYOUT_DENSE; layout <= LAYOUT_MKLDNN; layout++) {
            const opdef_t *op = NULL;
            float given[N];
            parse_attrs(ctx, row, &op, attrs);
            tensor_t *in = make(ctx, (layout_t)layout, x), *out = NULL;
            CHECK_OK(ctx,
                     dispatch_run(ctx, op, attrs, 1, (const tensor_t *const *)&in, NULL, &out));
            assert_int_equal(tensor_layout(out), layout);
            CHECK_OK(ctx, tensor_read(ctx, out, given, sizeof given));
            for (int i = 0; i < N; i++)
                if (!is_close(op->name, x[i], known[row].value[i], given[i]))
                    fail_msg("%s %s, layout %d: of %g is %.9g, wanted %.9g", op->name,
                             known[row].attrs, layout, (double)x[i], (double)given[i],
                             (double)known[row].value[i]);
            tensor_release(in);
            tensor_release(out);
        }
}

/* Products that multiply each x by 1, dense or blocked. They are followed by an activation, or by a
 * sum with zeros and then the activation. */
static const struct {
    const char *op;
    int rank, weight_rank;
    int64_t x[4], weight[4];
    bool is_blocked;
} products[] = {
    {"conv2d", 4, 4, {N, 1, 2, 2}, {16, 1, 1, 1}, false},
    {"conv2d", 4, 4, {N, 17, 2, 2}, {17, 17, 1, 1}, false}, /* oneDNN's gemm:jit */
    {"conv2d", 4, 4, {N, 8, 3, 3}, {16, 8, 3, 3}, true},
    {"conv2d", 4, 4, {N, 16, 2, 2}, {16, 16, 1, 1}, true},
    {"conv_transpose2d", 4, 4, {N, 1, 2, 2}, {1, 16, 1, 1}, false},
    {"linear", 2, 2, {N, 1}, {16, 1}, false},
    {"matmul", 2, 2, {N, 1}, {1, 16}, false},
};
#define N_PRODUCTS (sizeof products / sizeof *products)

/* Each x is in an image or row of its own, whose other elements are 0, so results are x. */
static void make_product(context_t *ctx, size_t product, tensor_t **out_x, tensor_t **out_weight)
{
    float elements[N * 16 * 9] = {0}, weights[16 * 16 * 9] = {0};
    const int64_t *sizes = products[product].x, *weight = products[product].weight;
    const int rank = products[product].rank;
    int64_t plane = 1, inputs = rank == 4 ? sizes[1] : 1, taps = 1, n = 1;
    for (int d = 2; d < rank; d++) plane *= sizes[d];
    for (int d = 0; d < products[product].weight_rank; d++) n *= weight[d];
    for (int d = 2; d < products[product].weight_rank; d++) taps *= weight[d];
    for (int64_t i = 0; i < N; i++)
        for (int64_t k = 0; k < (taps > 1 ? 1 : plane); k++)
            elements[i * inputs * plane + (taps > 1 ? plane / 2 : k)] = x[i];
    for (int64_t i = 0; i < n; i++) weights[i] = 1;
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, rank, sizes, elements, out_x));
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, products[product].weight_rank, weight, weights,
                              out_weight));
    if (!products[product].is_blocked) return;
    tensor_t *blocked = NULL;
    format_t candidates[CANDIDATES_MAX];
    char format[FORMAT_TEXT_MAX];
    candidates_list(rank, candidates);
    CHECK_OK(ctx, op_reorder(ctx, *out_x, format_text(&candidates[0], format), &blocked));
    tensor_release(*out_x);
    *out_x = blocked;
}

static void run_behind(context_t *ctx, size_t product, bool has_sum, size_t row, float *out_values)
{
    _Alignas(16) char attrs[ATTRS_MAX], of_product[ATTRS_MAX];
    const opdef_t *op = NULL, *product_op = ops_find(products[product].op);
    tensor_t *in[4] = {NULL}, *bare = NULL, *out = NULL;
    parse_attrs(ctx, row, &op, attrs);
    make_product(ctx, product, &in[0], &in[1]);
    attrs_init(&product_op->attrs, of_product);
    const int n_in = product_op->n_operands;
    CHECK_OK(ctx, dispatch_run(ctx, product_op, of_product, n_in, (const tensor_t *const *)in, NULL,
                               &bare));
    CHECK_OK(ctx, op_full_like(ctx, bare, 0.0, DTYPE_F32, &in[n_in]));
    post_ops_t *post = (post_ops_t *)(uintptr_t)attrs_post(&product_op->attrs, of_product);
    post->n = has_sum ? 2 : 1;
    post->op[0] = (post_op_t){.kind = POST_SUM};
    assert_true(op->as_post_op(op, attrs, &post->op[post->n - 1]));
    CHECK_OK(ctx, dispatch_run(ctx, product_op, of_product, n_in + has_sum,
                               (const tensor_t *const *)in, NULL, &out));
    float values[N * 16 * 16];
    const int64_t step = tensor_numel(out) / N;
    CHECK_OK(ctx, tensor_read(ctx, out, values, sizeof values));
    for (int i = 0; i < N; i++) out_values[i] = values[i * step];
    for (int i = 0; i < 4; i++) tensor_release(in[i]);
    tensor_release(bare);
    tensor_release(out);
}

static void fused_activations_of_special_values_are_pytorchs(void **state)
{
    context_t *ctx = fixture_context(state);
    for (size_t row = 0; row < N_KNOWN; row++)
        for (size_t product = 0; product < 2 * N_PRODUCTS; product++) {
            float given[N];
            if (ops_find(known[row].op)->as_post_op == NULL) continue;
            run_behind(ctx, product / 2, product % 2 == 1, row, given);
            for (int i = 0; i < N; i++) {
                if (fabsf(x[i]) > 0 && fabsf(x[i]) < FLT_MIN) continue; /* products flush x to 0 */
                if (!is_close(known[row].op, x[i], known[row].value[i], given[i]))
                    fail_msg("%s (case %d), then %s %s: of %g is %.9g, wanted %.9g",
                             products[product / 2].op, (int)product, known[row].op,
                             known[row].attrs, (double)x[i], (double)given[i],
                             (double)known[row].value[i]);
            }
        }
}

static void maximum_and_minimum_keep_the_nan_of_either_side(void **state)
{
    context_t *ctx = fixture_context(state);
    float a[N], b[N], given[N];
    for (int i = 0; i < N; i++) {
        a[i] = i % 3 == 0 ? NAN : (float)i;
        b[i] = i % 4 == 0 ? NAN : 8.0f;
    }
    for (int layout = LAYOUT_DENSE; layout <= LAYOUT_MKLDNN; layout++)
        for (int is_minimum = 0; is_minimum < 2; is_minimum++) {
            tensor_t *left = make(ctx, (layout_t)layout, a),
                     *right = make(ctx, (layout_t)layout, b);
            tensor_t *out = NULL;
            CHECK_OK(ctx, is_minimum ? op_minimum(ctx, left, right, &out)
                                     : op_maximum(ctx, left, right, &out));
            CHECK_OK(ctx, tensor_read(ctx, out, given, sizeof given));
            for (int i = 0; i < N; i++) {
                bool is_nan = i % 3 == 0 || i % 4 == 0;
                if (is_nan != (isnan(given[i]) != 0))
                    fail_msg("element %d is %g", i, (double)given[i]);
                float wanted = is_minimum == (i < 8) ? (float)i : 8.0f;
                if (!is_nan) assert_true(given[i] == wanted);
            }
            tensor_release(left);
            tensor_release(right);
            tensor_release(out);
        }
}

/* torch.clamp(torch.tensor([-4, 0, 4]), -2.5, 3) is f32. Integer bounds would not change the
 * dtype. */
static void integers_clamped_to_a_fraction_give_floats(void **state)
{
    context_t *ctx = fixture_context(state);
    const int64_t integers[] = {-4, 0, 4};
    tensor_t *in = NULL, *floats = NULL, *kept = NULL;
    float given[3];
    int64_t whole[3];
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_S64, SHAPE(3), integers, &in));
    CHECK_OK(ctx, op_clamp(ctx, in, -2.5, 3.0, &floats));
    assert_int_equal(tensor_dtype(floats), DTYPE_F32);
    CHECK_OK(ctx, tensor_read(ctx, floats, given, sizeof given));
    assert_true(given[0] == -2.5f && given[1] == 0.0f && given[2] == 3.0f);
    CHECK_OK(ctx, op_clamp(ctx, in, -INFINITY, 3.0, &kept));
    assert_int_equal(tensor_dtype(kept), DTYPE_S64);
    CHECK_OK(ctx, tensor_read(ctx, kept, whole, sizeof whole));
    assert_true(whole[0] == -4 && whole[1] == 0 && whole[2] == 3);
    tensor_release(in);
    tensor_release(floats);
    tensor_release(kept);
}

/* ---- softmax ---- */

#define COLUMNS 37

/* Computes softmax of a matrix in which row r is (first, rest, rest, ...), and returns that row. */
static void run_softmax(context_t *ctx, bool is_logarithm, dtype_t dtype, layout_t layout, int dim,
                        float first, float rest, float *out_row)
{
    float wide[3 * COLUMNS], result[3 * COLUMNS];
    const int64_t row_step = dim == 1 ? COLUMNS : 1, step = dim == 1 ? 1 : 3;
    for (int64_t i = 0; i < 3 * COLUMNS; i++) wide[i] = 0.25f;
    for (int64_t i = 0; i < COLUMNS; i++) wide[row_step + i * step] = i == 0 ? first : rest;
    tensor_t *floats = NULL, *in = NULL, *out = NULL, *back = NULL, *given = NULL;
    const int64_t sizes[2] = {dim == 1 ? 3 : COLUMNS, dim == 1 ? COLUMNS : 3};
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, 2, sizes, wide, &floats));
    CHECK_OK(ctx, op_cast(ctx, floats, dtype, &in));
    if (layout == LAYOUT_MKLDNN)
        CHECK_OK(ctx, op_to_mkldnn(ctx, in, &given));
    else
        given = tensor_retain(in);
    CHECK_OK(ctx, is_logarithm ? op_log_softmax(ctx, given, dim, &out)
                               : op_softmax(ctx, given, dim, &out));
    CHECK_OK(ctx, op_cast(ctx, out, DTYPE_F32, &back));
    CHECK_OK(ctx, tensor_read(ctx, back, result, sizeof result));
    for (int64_t i = 0; i < COLUMNS; i++) out_row[i] = result[row_step + i * step];
    for (int64_t i = 0; i < 3; i++) assert_false(isnan(result[i * step]) && dim == 1);
    tensor_release(floats);
    tensor_release(in);
    tensor_release(given);
    tensor_release(out);
    tensor_release(back);
}

static void a_nan_an_infinity_or_nothing_makes_its_row_of_softmax_nan(void **state)
{
    context_t *ctx = fixture_context(state);
    const float rows[][2] = {{NAN, 1}, {INFINITY, 0}, {-INFINITY, -INFINITY}, {1, NAN}};
    const dtype_t dtypes[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F64};
    for (int k = 0; k < 4 * 3 * 2 * 2 * 2; k++) {
        float row[COLUMNS];
        const float *values = rows[k % 4];
        dtype_t dtype = dtypes[k / 4 % 3];
        bool is_logarithm = k / 12 % 2 != 0;
        layout_t layout = k / 24 % 2 != 0 && dtype != DTYPE_F64 ? LAYOUT_MKLDNN : LAYOUT_DENSE;
        run_softmax(ctx, is_logarithm, dtype, layout, k / 48, values[0], values[1], row);
        for (int i = 0; i < COLUMNS; i++) {
            if (!isnan(row[i]))
                fail_msg("%s of %s, layout %d, dim %d, row (%g, %g ..): element %d is %g",
                         is_logarithm ? "log_softmax" : "softmax", dtype_name(dtype), layout,
                         k / 48, (double)values[0], (double)values[1], i, (double)row[i]);
        }
    }
}

/* Expected values were computed with mpmath: if an element is larger by d than 36 others, its log
 * softmax is -log(1 + 36 exp(-d)). */
static void log_softmax_is_right_where_the_sum_is_nearly_one(void **state)
{
    context_t *ctx = fixture_context(state);
    static const struct {
        float d;
        double value;
    } cases[] = {{10, -1.6330632974e-3}, {16, -4.0512580835e-6}, {24, -1.3590484350e-9}};
    for (int k = 0; k < 3 * 2 * 2; k++) {
        float row[COLUMNS];
        layout_t layout = k / 3 % 2 != 0 ? LAYOUT_MKLDNN : LAYOUT_DENSE;
        run_softmax(ctx, true, DTYPE_F32, layout, k / 6, cases[k % 3].d, 0, row);
        if (row[0] > 0 || fabs((double)row[0] - cases[k % 3].value) > 1e-6)
            fail_msg("of %g above the others is %.9g", (double)cases[k % 3].d, (double)row[0]);
    }
}

static void log_softmax_over_one_element_is_zero(void **state)
{
    context_t *ctx = fixture_context(state);
    const float values[] = {-3, 0.1f, 88, 1e30f};
    for (int dim = 0; dim < 2; dim++) {
        tensor_t *in = NULL, *out = NULL;
        float given[4];
        CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, 2,
                                  (int64_t[]){dim == 0 ? 1 : 4, dim == 0 ? 4 : 1}, values, &in));
        CHECK_OK(ctx, op_log_softmax(ctx, in, dim, &out));
        CHECK_OK(ctx, tensor_read(ctx, out, given, sizeof given));
        for (int i = 0; i < 4; i++) assert_true(given[i] == 0.0f);
        tensor_release(in);
        tensor_release(out);
    }
}

/* ---- pooling ---- */

/* Pools channels with one 2x2 window each, alternately (a, b, b, b) and (b, b, b, a). format NULL
 * is dense. */
static void pool(context_t *ctx, const char *format, dtype_t dtype, int64_t dilation, float a,
                 float b, float *out_pair)
{
    const int64_t side = dilation + 1, channels = 19;
    float image[19 * 9] = {0}, values[19];
    for (int64_t c = 0; c < channels; c++)
        for (int64_t i = 0; i < 4; i++)
            image[(c * side + i / 2 * dilation) * side + i % 2 * dilation] = i == (c % 2 == 0 ? 0
                                                                                              : 3)
                                                                                 ? a
                                                                                 : b;
    tensor_t *wide = NULL, *dense = NULL, *in = NULL, *out = NULL, *result = NULL;
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, SHAPE(1, channels, side, side), image, &wide));
    CHECK_OK(ctx, op_cast(ctx, wide, dtype, &dense));
    if (format != NULL) CHECK_OK(ctx, op_reorder(ctx, dense, format, &in));
    const pool_attrs_t attrs = {.kernel = {2, 2}, .dilation = {dilation, dilation}};
    CHECK_OK(ctx, op_max_pool2d(ctx, in != NULL ? in : dense, &attrs, &out));
    assert_int_equal(tensor_numel(out), channels);
    CHECK_OK(ctx, op_cast(ctx, out, DTYPE_F32, &result));
    CHECK_OK(ctx, tensor_read(ctx, result, values, sizeof values));
    for (int64_t c = 2; c < channels; c++)
        assert_true(values[c] == values[c % 2] || (isnan(values[c]) && isnan(values[c % 2])));
    memcpy(out_pair, values, 2 * sizeof *values);
    tensor_release(wide);
    tensor_release(dense);
    tensor_release(in);
    tensor_release(out);
    tensor_release(result);
}

static void max_pool_keeps_nan_and_infinities_in_every_format(void **state)
{
    context_t *ctx = fixture_context(state);
    static const char *const formats[] = {NULL, "abcd", "acdb", "aBcd8b", "aBcd16b", "aBcd4b"};
    static const dtype_t dtypes[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16, DTYPE_F64};
    static const struct {
        float a, b, largest;
    } cases[] = {{NAN, 3, NAN},
                 {3, NAN, NAN},
                 {NAN, INFINITY, NAN},
                 {NAN, -INFINITY, NAN},
                 {-INFINITY, -INFINITY, -INFINITY},
                 {-INFINITY, -3, -3},
                 {INFINITY, 3, INFINITY}};
    for (size_t f = 0; f < 6; f++)
        for (size_t t = 0; t < 4; t++)
            for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
                float pair[2];
                if (f > 0 && !onednn_has_dtype(dtypes[t])) continue;
                const float wanted = cases[i / 2].largest;
                pool(ctx, formats[f], dtypes[t], 1 + (int64_t)(i % 2), cases[i / 2].a,
                     cases[i / 2].b, pair);
                for (int k = 0; k < 2; k++)
                    if (pair[k] != wanted && !(isnan(wanted) && isnan(pair[k])))
                        fail_msg("%s %s, case %d: %g, wanted %g", dtype_name(dtypes[t]),
                                 formats[f] == NULL ? "dense" : formats[f], (int)i, (double)pair[k],
                                 (double)wanted);
            }
}

static void a_bound_of_nan_makes_all_of_a_clamp_nan(void **state)
{
    context_t *ctx = fixture_context(state);
    const int64_t integers[] = {-4, 0, 4};
    for (int layout = LAYOUT_DENSE; layout <= LAYOUT_MKLDNN; layout++)
        for (int is_upper = 0; is_upper < 2; is_upper++) {
            float given[N];
            tensor_t *in = make(ctx, (layout_t)layout, x), *out = NULL;
            CHECK_OK(ctx, op_clamp(ctx, in, is_upper ? -1.0 : NAN, is_upper ? NAN : 1.0, &out));
            CHECK_OK(ctx, tensor_read(ctx, out, given, sizeof given));
            for (int i = 0; i < N; i++) assert_true(isnan(given[i]));
            tensor_release(in);
            tensor_release(out);
        }
    float floats[3];
    tensor_t *in = NULL, *out = NULL;
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_S64, SHAPE(3), integers, &in));
    CHECK_OK(ctx, op_clamp(ctx, in, NAN, 1.0, &out));
    CHECK_OK(ctx, tensor_read(ctx, out, floats, sizeof floats));
    for (int i = 0; i < 3; i++) assert_true(isnan(floats[i]));
    tensor_release(in);
    tensor_release(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(activations_of_special_values_are_pytorchs_in_both_layouts),
        TEST(fused_activations_of_special_values_are_pytorchs),
        TEST(maximum_and_minimum_keep_the_nan_of_either_side),
        TEST(integers_clamped_to_a_fraction_give_floats),
        TEST(a_nan_an_infinity_or_nothing_makes_its_row_of_softmax_nan),
        TEST(log_softmax_is_right_where_the_sum_is_nearly_one),
        TEST(log_softmax_over_one_element_is_zero),
        TEST(max_pool_keeps_nan_and_infinities_in_every_format),
        TEST(a_bound_of_nan_makes_all_of_a_clamp_nan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
