/* Layers that run one operator and have no spatial dimensions. */
#include <stdio.h>

#include "module/layers/layers_impl.h"
#include "tensor/context_impl.h"
#include "tensor/tensor_impl.h"

/* ---- functions without attributes ---- */

#define PLAIN(name, op)                                                                            \
    static status_t forward_##name(context_t *ctx, module_t *self, int n_in,                       \
                                   const tensor_t *const *in, int *n_out, tensor_t **out)          \
    {                                                                                              \
        *n_out = 1;                                                                                \
        TRY(layer_one_input(ctx, self, n_in));                                                     \
        return op(ctx, in[0], out);                                                                \
    }

PLAIN(identity, op_identity)
PLAIN(softsign, op_softsign)
PLAIN(logsigmoid, op_logsigmoid)

status_t layer_identity(context_t *ctx, module_t **out_module)
{
    TRY(context_output(ctx, "layer_identity", out_module));
    return layer_build(ctx, "Identity", forward_identity, NULL, NULL, out_module);
}

status_t layer_softsign(context_t *ctx, module_t **out_module)
{
    TRY(context_output(ctx, "layer_softsign", out_module));
    return layer_build(ctx, "Softsign", forward_softsign, NULL, NULL, out_module);
}

status_t layer_log_sigmoid(context_t *ctx, module_t **out_module)
{
    TRY(context_output(ctx, "layer_log_sigmoid", out_module));
    return layer_build(ctx, "LogSigmoid", forward_logsigmoid, NULL, NULL, out_module);
}

/* ---- softmax ---- */

static status_t forward_softmax(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                                int *n_out, tensor_t **out)
{
    int64_t dim = 0;
    *n_out = 1;
    TRY(layer_one_input(ctx, self, n_in));
    TRY(layer_read_int(ctx, self, "dim", &dim));
    return op_softmax(ctx, in[0], dim, out);
}

static status_t forward_log_softmax(context_t *ctx, module_t *self, int n_in,
                                    const tensor_t *const *in, int *n_out, tensor_t **out)
{
    int64_t dim = 0;
    *n_out = 1;
    TRY(layer_one_input(ctx, self, n_in));
    TRY(layer_read_int(ctx, self, "dim", &dim));
    return op_log_softmax(ctx, in[0], dim, out);
}

static status_t init_dim(context_t *ctx, module_t *module, const void *user)
{
    return layer_set_int(ctx, module, "dim", *(const int64_t *)user);
}

status_t layer_softmax(context_t *ctx, int64_t dim, module_t **out_module)
{
    TRY(context_output(ctx, "layer_softmax", out_module));
    return layer_build(ctx, "Softmax", forward_softmax, init_dim, &dim, out_module);
}

status_t layer_log_softmax(context_t *ctx, int64_t dim, module_t **out_module)
{
    TRY(context_output(ctx, "layer_log_softmax", out_module));
    return layer_build(ctx, "LogSoftmax", forward_log_softmax, init_dim, &dim, out_module);
}

/* ---- prelu ---- */

static status_t forward_prelu(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                              int *n_out, tensor_t **out)
{
    *n_out = 1;
    TRY(layer_one_input(ctx, self, n_in));
    return op_prelu(ctx, in[0], module_parameter(self, "weight"), out);
}

typedef struct prelu_init {
    int64_t n;
    double slope;
} prelu_init_t;

static status_t init_prelu(context_t *ctx, module_t *module, const void *user)
{
    const prelu_init_t *prelu = user;
    return layer_parameter(ctx, module, "weight", 1, &prelu->n, FILL_VALUE, prelu->slope, 0);
}

status_t layer_prelu(context_t *ctx, int64_t num_parameters, double init, module_t **out_module)
{
    prelu_init_t prelu = {num_parameters, init};
    TRY(context_output(ctx, "layer_prelu", out_module));
    REQUIRE(ctx, num_parameters > 0, "layer_prelu: %lld parameters, must be positive",
            (long long)num_parameters);
    return layer_build(ctx, "PReLU", forward_prelu, init_prelu, &prelu, out_module);
}

/* ---- unflatten ---- */

typedef struct unflatten_init {
    int64_t dim;
    int n;
    const int64_t *sizes;
} unflatten_init_t;

static status_t forward_unflatten(context_t *ctx, module_t *self, int n_in,
                                  const tensor_t *const *in, int *n_out, tensor_t **out)
{
    int64_t parts[TENSOR_MAX_RANK], sizes[TENSOR_MAX_RANK], dim = 0;
    int n = 0, place = 0, rank = 0;
    *n_out = 1;
    TRY(layer_one_input(ctx, self, n_in));
    if (in[0] == NULL) return context_null(ctx, "unflatten", "x");
    TRY(layer_read_int(ctx, self, "dim", &dim));
    TRY(layer_read_ints(ctx, self, "unflattened_size", TENSOR_MAX_RANK, &n, parts));
    const int given = tensor_rank(in[0]);
    REQUIRE(ctx, given > 0 && shape_dim(given, dim, &place) && given - 1 + n <= TENSOR_MAX_RANK,
            "unflatten: dim %lld of %s into %d dimensions, out of range", (long long)dim,
            tensor_text(in[0]), n);
    const int64_t *from = tensor_sizes(in[0]);
    int64_t product = 1;
    bool is_open = false;
    for (int i = 0; i < n; i++) {
        is_open |= parts[i] == -1;
        REQUIRE(ctx, parts[i] == -1 || shape_multiply(product, parts[i], &product),
                "unflatten: sizes of %s overflow", module_type(self));
    }
    REQUIRE(ctx, is_open ? product > 0 && from[place] % product == 0 : product == from[place],
            "unflatten: dim %d of %s into sizes with product %lld, must fit", place,
            tensor_text(in[0]), (long long)product);
    for (int d = 0; d < given; d++) {
        if (d != place) sizes[rank++] = from[d];
        for (int i = 0; d == place && i < n; i++)
            sizes[rank++] = parts[i] != -1 ? parts[i] : from[place] / product;
    }
    return op_reshape(ctx, in[0], rank, sizes, out);
}

static status_t init_unflatten(context_t *ctx, module_t *module, const void *user)
{
    const unflatten_init_t *unflatten = user;
    TRY(layer_set_int(ctx, module, "dim", unflatten->dim));
    return layer_set_sizes(ctx, module, "unflattened_size", unflatten->n, unflatten->sizes);
}

status_t layer_unflatten(context_t *ctx, int64_t dim, int n, const int64_t *unflattened_size,
                         module_t **out_module)
{
    unflatten_init_t unflatten = {dim, n, unflattened_size};
    int n_open = 0;
    TRY(context_output(ctx, "layer_unflatten", out_module));
    REQUIRE(ctx, n >= 1 && n <= TENSOR_MAX_RANK, "layer_unflatten: %d sizes, must be 1 to %d", n,
            TENSOR_MAX_RANK);
    if (unflattened_size == NULL) return context_null(ctx, "layer_unflatten", "unflattened_size");
    for (int i = 0; i < n; i++) {
        n_open += unflattened_size[i] == -1;
        REQUIRE(ctx, unflattened_size[i] >= -1 && n_open <= 1,
                "layer_unflatten: size %lld, must be 0 or more, or -1 once",
                (long long)unflattened_size[i]);
    }
    return layer_build(ctx, "Unflatten", forward_unflatten, init_unflatten, &unflatten, out_module);
}
