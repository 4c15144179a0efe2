/* Random numbers and window functions. Random numbers depend only on the seed. A node without a
 * seed is refused: each run would return the same numbers, but ONNX expects new ones. */
#include "io/onnx/node_impl.h"

#include <math.h>
#include <string.h>

#include "tensor/scope_impl.h"
#include "tensor/tensor_impl.h"

/* An ONNX seed is a float. Its bits are the seed. */
static status_t read_seed(onnx_node_t *node, int64_t *out_seed)
{
    double seed = 0;
    float narrow = 0;
    int32_t bits = 0;
    if (!onnx_has_attr(node, "seed"))
        FAIL(node->onnx->ctx, STATUS_UNSUPPORTED,
             "it has no seed, and would give the same numbers at each run");
    TRY(onnx_attr_float(node, "seed", 0, &seed));
    narrow = (float)seed;
    memcpy(&bits, &narrow, sizeof bits);
    *out_seed = bits;
    return STATUS_OK;
}

/* Reads a dtype attribute. If it is absent, *out_dtype is unchanged. */
static status_t read_dtype(onnx_node_t *node, const char *name, dtype_t *out_dtype)
{
    int64_t to = 0;
    if (!onnx_has_attr(node, name)) return STATUS_OK;
    TRY(onnx_attr_int(node, name, 0, &to));
    return onnx_dtype(node->onnx->ctx, to, out_dtype);
}

/* node->op->own is randn_like (attributes mean and scale) or rand_like (low and high). */
static status_t import_numbers(onnx_node_t *node, item_t x, dtype_t dtype)
{
    const bool is_normal = strcmp(node->op->own, "randn_like") == 0;
    double first = 0, second = 1;
    int64_t seed = 0;
    onnx_call_t call;
    TRY(read_seed(node, &seed));
    TRY(onnx_attr_float(node, is_normal ? "mean" : "low", 0.0, &first));
    TRY(onnx_attr_float(node, is_normal ? "scale" : "high", 1.0, &second));
    onnx_call(node, node->op->own, &call);
    onnx_set_int(&call, "seed", seed);
    onnx_set_float(&call, is_normal ? "mean" : "low", first);
    onnx_set_float(&call, is_normal ? "std" : "high", second);
    onnx_set_int(&call, "dtype", dtype);
    return onnx_emit(&call, 1, &x, &node->out[0]);
}

status_t onnx_import_random_like(onnx_node_t *node)
{
    dtype_t dtype = onnx_input_info(node, 0).dtype;
    TRY(read_dtype(node, "dtype", &dtype));
    return import_numbers(node, node->in[0], dtype);
}

status_t onnx_import_random(onnx_node_t *node)
{
    context_t *ctx = node->onnx->ctx;
    int64_t sizes[TENSOR_MAX_RANK];
    int rank = 0;
    dtype_t dtype = DTYPE_F32;
    tensor_t *zeros = NULL;
    item_t x;
    TRY(onnx_attr_ints(node, "shape", TENSOR_MAX_RANK, &rank, sizes));
    if (rank < 0) FAIL(ctx, STATUS_INVALID_ARGUMENT, "shape is missing");
    TRY(read_dtype(node, "dtype", &dtype));
    TRY(tensor_zeros(ctx, dtype, rank, sizes, &zeros));
    scope_take(ctx, zeros);
    TRY(onnx_item_take(node->onnx, NULL, zeros, &x));
    return import_numbers(node, x, dtype);
}

/* Compares uniform numbers with p, because a number is less than p with probability p. They are
 * f64, which has enough digits for small p. */
status_t onnx_import_bernoulli(onnx_node_t *node)
{
    dtype_t dtype = onnx_input_info(node, 0).dtype;
    int64_t seed = 0;
    item_t numbers, truth;
    TRY(read_seed(node, &seed));
    TRY(read_dtype(node, "dtype", &dtype));
    TRY(onnx_op(node, "rand_like", ONNX_ATTRS(SET("seed", seed), SET("dtype", DTYPE_F64)), 1,
                node->in, &numbers));
    TRY(onnx_binary(node, "lt", numbers, node->in[0], &truth));
    return onnx_cast(node, truth, dtype, &node->out[0]);
}

/* The input contains logarithms of unnormalised probabilities. */
status_t onnx_import_multinomial(onnx_node_t *node)
{
    const tensor_info_t x = onnx_input_info(node, 0);
    dtype_t dtype = DTYPE_S32;
    int64_t seed = 0, n_samples = 1;
    item_t weights;
    TRY(read_seed(node, &seed));
    TRY(read_dtype(node, "dtype", &dtype));
    TRY(onnx_attr_int(node, "sample_size", 1, &n_samples));
    if (x.rank != 2 || (dtype != DTYPE_S32 && dtype != DTYPE_S64))
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT,
             "x is %s and the indices %s, rank 2 and s32 or s64 are needed", onnx_brief(node, &x),
             dtype_name(dtype));
    TRY(onnx_cast(node, node->in[0], DTYPE_F64, &weights));
    TRY(onnx_op(node, "softmax", ONNX_ATTRS(SET("dim", 1)), 1, &weights, &weights));
    TRY(onnx_op(
        node, "multinomial",
        ONNX_ATTRS(SET("n_samples", n_samples), SET("replacement", true), SET("seed", seed)), 1,
        &weights, &node->out[0]));
    return onnx_cast(node, node->out[0], dtype, &node->out[0]);
}

/* ---- window functions ---- */

#define TWO_PI 6.28318530717958647692528676655900577

/* Emits 2 pi i / period for i = 0 to size - 1, in f64. If the period is 0, the angle is pi. */
static status_t emit_angles(onnx_node_t *node, bool is_periodic, item_t *out)
{
    item_t bounds[3], period, rest, angles;
    TRY(onnx_integer(node->onnx, 0, &bounds[0]));
    TRY(onnx_cast(node, node->in[0], DTYPE_S64, &bounds[1]));
    TRY(onnx_reshape(node, bounds[1], 0, NULL, &bounds[1]));
    TRY(onnx_integer(node->onnx, 1, &bounds[2]));
    TRY(onnx_op(node, "range", NULL, 3, bounds, &angles));
    TRY(onnx_cast(node, angles, DTYPE_F64, &angles));
    TRY(onnx_cast(node, bounds[1], DTYPE_F64, &period));
    TRY(onnx_with_number(node, "sub", period, is_periodic ? 0.0 : 1.0, &period));
    TRY(onnx_with_number(node, "minimum", period, 1.0, &rest)); /* 0 if the period is 0, else 1 */
    TRY(onnx_with_number(node, "mul", rest, -0.5, &rest));
    TRY(onnx_with_number(node, "add", rest, 0.5, &rest));
    TRY(onnx_binary(node, "add", angles, rest, &angles));
    TRY(onnx_with_number(node, "maximum", period, 1.0, &period));
    TRY(onnx_binary(node, "div", angles, period, &angles));
    return onnx_with_number(node, "mul", angles, TWO_PI, out);
}

/* out += factor * cos(multiple * angles) */
static status_t add_cosine(onnx_node_t *node, item_t angles, double multiple, double factor,
                           item_t *out)
{
    item_t term;
    TRY(onnx_with_number(node, "mul", angles, multiple, &term));
    TRY(onnx_unary(node, "cos", term, &term));
    TRY(onnx_with_number(node, "mul", term, factor, &term));
    return onnx_binary(node, "add", term, *out, out);
}

/* A window whose size the graph computes. */
static status_t emit_window(onnx_node_t *node, bool is_periodic, dtype_t dtype, double a, double b,
                            double c)
{
    item_t angles, sum;
    TRY(emit_angles(node, is_periodic, &angles));
    TRY(onnx_number(node->onnx, a, &sum));
    TRY(add_cosine(node, angles, 1, -b, &sum));
    TRY(add_cosine(node, angles, 2, c, &sum));
    return onnx_cast(node, sum, dtype, &node->out[0]);
}

/* a - b cos(2 pi i / n) + c cos(4 pi i / n) */
static status_t import_window(onnx_node_t *node, double a, double b, double c)
{
    context_t *ctx = node->onnx->ctx;
    int n = 0;
    int64_t size = 0;
    bool is_periodic = true;
    dtype_t dtype = DTYPE_F32;
    tensor_t *window = NULL;
    void *bytes = NULL;
    item_t item;
    TRY(onnx_attr_bool(node, "periodic", true, &is_periodic));
    TRY(read_dtype(node, "output_datatype", &dtype));
    if (!onnx_knows(node, 0)) return emit_window(node, is_periodic, dtype, a, b, c);
    TRY(onnx_input_numbers(node, 0, "the size", 1, &n, &size));
    if (n != 1 || size < 0 || size > ONNX_MAX_VALUES)
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "the size is not a number from 0 to %d",
             ONNX_MAX_VALUES);
    TRY(tensor_empty(ctx, DTYPE_F64, 1, &size, &window));
    scope_take(ctx, window);
    status_t status = tensor_data_mutable(ctx, window, &bytes);
    const double period = (double)(is_periodic ? size : size - 1);
    for (int64_t i = 0; i < size && status == STATUS_OK; i++) {
        const double angle = period > 0 ? TWO_PI * (double)i / period : TWO_PI / 2;
        ((double *)bytes)[i] = a - b * cos(angle) + c * cos(2 * angle);
    }
    TRY_OR(status, tensor_drop(window));
    TRY(onnx_item_take(node->onnx, NULL, window, &item));
    return onnx_cast(node, item, dtype, &node->out[0]);
}

status_t onnx_import_hann_window(onnx_node_t *node)
{
    return import_window(node, 0.5, 0.5, 0.0);
}

status_t onnx_import_hamming_window(onnx_node_t *node)
{
    return import_window(node, 25.0 / 46.0, 1.0 - 25.0 / 46.0, 0.0);
}

status_t onnx_import_blackman_window(onnx_node_t *node)
{
    return import_window(node, 0.42, 0.5, 0.08);
}
