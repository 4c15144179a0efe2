#include "module/layers/layers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "module/layers/flow_impl.h"
#include "module/layers/layers_impl.h"
#include "tensor/tensor_impl.h"

/* ---- linear ---- */

static status_t forward_linear(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                               int *n_out, tensor_t **out)
{
    *n_out = 1;
    TRY(layer_one_input(ctx, self, n_in));
    return op_linear(ctx, in[0], module_parameter(self, "weight"), module_parameter(self, "bias"),
                     out);
}

typedef struct linear_init {
    int64_t sizes[2];
    bool has_bias;
} linear_init_t;

static status_t init_linear(context_t *ctx, module_t *module, const void *user)
{
    const linear_init_t *linear = user;
    double deviation = sqrt(1 / (double)linear->sizes[1]);
    TRY(layer_parameter(ctx, module, "weight", 2, linear->sizes, FILL_NORMAL, deviation, 0));
    if (!linear->has_bias) return module_set_parameter(ctx, module, "bias", NULL);
    return layer_parameter(ctx, module, "bias", 1, linear->sizes, FILL_NORMAL, LAYER_BIAS_DEVIATION,
                           0);
}

status_t layer_linear(context_t *ctx, int64_t in_features, int64_t out_features, bool has_bias,
                      module_t **out_module)
{
    TRY(context_output(ctx, "layer_linear", out_module));
    REQUIRE(ctx, in_features > 0 && out_features > 0,
            "layer_linear: %lld to %lld features, must be positive", (long long)in_features,
            (long long)out_features);
    linear_init_t linear = {{out_features, in_features}, has_bias};
    return layer_build(ctx, "Linear", forward_linear, init_linear, &linear, out_module);
}

/* ---- batch norm ---- */

/* Reads attribute `momentum`, the weight of a new batch in the running statistics: 0.1 if it is
 * absent; -1 if it is None, which means that the running statistics are means over all batches. */
static status_t read_momentum(context_t *ctx, const module_t *self, double *out)
{
    const datum_t *momentum = module_attribute(self, "momentum");
    *out = 0.1;
    if (momentum == NULL) return STATUS_OK;
    if (datum_kind(momentum) != DATUM_NONE) return layer_read_float(ctx, self, "momentum", out);
    *out = -1;
    return STATUS_OK;
}

/* running += (batch * scale - running) * momentum. A negative momentum stands for 1 / n_tracked,
 * which makes running a mean over all batches. */
static status_t track(context_t *ctx, tensor_t *running, const tensor_t *batch, double scale,
                      double momentum, const tensor_t *n_tracked)
{
    tensor_t *plain = NULL, *scaled = NULL, *way = NULL, *part = NULL;
    TRY(op_to_dense(ctx, batch, &plain));
    TRY(op_mul_scalar(ctx, plain, scale, &scaled));
    if (momentum >= 0) return op_lerp_(ctx, running, scaled, momentum);
    TRY(op_sub(ctx, scaled, running, &way));
    TRY(op_div(ctx, way, n_tracked, &part));
    return op_add_(ctx, running, part);
}

/* Normalizes with the batch's statistics; in training mode, also updates the running statistics.
 * The running variance uses the unbiased estimate: n / (n - 1) times the batch's variance. */
static status_t train_batch_norm(context_t *ctx, module_t *self, const tensor_t *x, double epsilon,
                                 tensor_t **out)
{
    tensor_t *mean = module_buffer(self, "running_mean");
    tensor_t *variance = module_buffer(self, "running_var");
    tensor_t *n_tracked = module_buffer(self, "num_batches_tracked");
    tensor_t *batch_mean = NULL, *batch_variance = NULL;
    double momentum = 0;
    TRY(read_momentum(ctx, self, &momentum));
    REQUIRE(ctx, momentum >= 0 || n_tracked != NULL || mean == NULL,
            "batch_norm: attribute \"momentum\" is None, which needs buffer num_batches_tracked");
    TRY(op_batch_norm_training(ctx, x, module_parameter(self, "weight"),
                               module_parameter(self, "bias"), epsilon, out, &batch_mean,
                               &batch_variance));
    if (!module_is_training(self)) return STATUS_OK;
    const int64_t channels = tensor_sizes(x)[1];
    const int64_t n_each = channels > 0 ? tensor_numel(x) / channels : 2;
    const double n = (double)n_each;
    if (n_tracked != NULL) TRY(op_add_integer_(ctx, n_tracked, 1));
    if (mean != NULL) TRY(track(ctx, mean, batch_mean, 1, momentum, n_tracked));
    if (variance == NULL) return STATUS_OK;
    return track(ctx, variance, batch_variance, n / (n - 1), momentum, n_tracked);
}

/* Uses the running statistics in inference if the layer has them; otherwise the statistics of the
 * batch. */
static status_t forward_batch_norm(context_t *ctx, module_t *self, int n_in,
                                   const tensor_t *const *in, int *n_out, tensor_t **out)
{
    double epsilon = 0;
    *n_out = 1;
    TRY(layer_one_input(ctx, self, n_in));
    TRY(layer_read_float(ctx, self, "eps", &epsilon));
    const tensor_t *mean = module_buffer(self, "running_mean");
    const tensor_t *variance = module_buffer(self, "running_var");
    if (module_is_training(self) || (mean == NULL && variance == NULL))
        return train_batch_norm(ctx, self, in[0], epsilon, out);
    return op_batch_norm(ctx, in[0], module_parameter(self, "weight"),
                         module_parameter(self, "bias"), mean, variance, epsilon, out);
}

typedef struct norm_init {
    int64_t channels;
    double epsilon;
} norm_init_t;

static status_t init_batch_norm(context_t *ctx, module_t *module, const void *user)
{
    const norm_init_t *norm = user;
    const int64_t *n = &norm->channels;
    TRY(layer_parameter(ctx, module, "weight", 1, n, FILL_UNIFORM, 0.5, 1.5));
    TRY(layer_parameter(ctx, module, "bias", 1, n, FILL_NORMAL, LAYER_BIAS_DEVIATION, 0));
    TRY(layer_buffer(ctx, module, "running_mean", 1, n, FILL_NORMAL, 0.1, 0));
    TRY(layer_buffer(ctx, module, "running_var", 1, n, FILL_UNIFORM, 0.5, 1.5));

    tensor_info_t info = info_dense(DTYPE_S64, 0, NULL);
    tensor_t *tracked = NULL;
    void *bytes = NULL;
    TRY(tensor_make(ctx, &info, &tracked));
    status_t status = tensor_writable(ctx, tracked, &bytes);
    if (status == STATUS_OK) {
        memset(bytes, 0, sizeof(int64_t));
        status = module_set_buffer(ctx, module, "num_batches_tracked", tracked);
    }
    tensor_drop(tracked);
    TRY(status);
    return layer_set_float(ctx, module, "eps", norm->epsilon);
}

status_t layer_batch_norm(context_t *ctx, int64_t channels, double epsilon, module_t **out_module)
{
    TRY(context_output(ctx, "layer_batch_norm", out_module));
    REQUIRE(ctx, channels > 0, "layer_batch_norm: %lld channels, must be positive",
            (long long)channels);
    REQUIRE(ctx, epsilon >= 0, "layer_batch_norm: epsilon %g, must not be negative", epsilon);
    norm_init_t norm = {channels, epsilon};
    return layer_build(ctx, "BatchNorm2d", forward_batch_norm, init_batch_norm, &norm, out_module);
}

/* ---- flatten, dropout, transitions ---- */

static status_t forward_flatten(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                                int *n_out, tensor_t **out)
{
    int64_t start = 0, end = 0;
    *n_out = 1;
    TRY(layer_one_input(ctx, self, n_in));
    TRY(layer_read_int(ctx, self, "start_dim", &start));
    TRY(layer_read_int(ctx, self, "end_dim", &end));
    return op_flatten(ctx, in[0], start, end, out);
}

static status_t init_flatten(context_t *ctx, module_t *module, const void *user)
{
    const int64_t *dims = user;
    TRY(layer_set_int(ctx, module, "start_dim", dims[0]));
    return layer_set_int(ctx, module, "end_dim", dims[1]);
}

status_t layer_flatten(context_t *ctx, int64_t start_dim, int64_t end_dim, module_t **out_module)
{
    TRY(context_output(ctx, "layer_flatten", out_module));
    int64_t dims[] = {start_dim, end_dim};
    return layer_build(ctx, "Flatten", forward_flatten, init_flatten, dims, out_module);
}

static status_t forward_dropout(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                                int *n_out, tensor_t **out)
{
    double p = 0;
    *n_out = 1;
    TRY(layer_one_input(ctx, self, n_in));
    TRY(layer_read_float(ctx, self, "p", &p));
    return module_is_training(self) ? op_dropout_train(ctx, in[0], p, 0, out)
                                    : op_dropout(ctx, in[0], p, out);
}

static status_t forward_alpha_dropout(context_t *ctx, module_t *self, int n_in,
                                      const tensor_t *const *in, int *n_out, tensor_t **out)
{
    if (module_is_training(self))
        FAIL(ctx, STATUS_UNSUPPORTED,
             "AlphaDropout: the layer is in training mode, only inference is supported; "
             "module_train switches it");
    return forward_dropout(ctx, self, n_in, in, n_out, out);
}

/* In training, a rank-2 input of Dropout1d and a rank-4 input of Dropout3d have no batch dimension
 * and begin with the channels. Dropout2d treats every input as a batch, as PyTorch does. */
static status_t forward_feature_dropout(context_t *ctx, module_t *self, int n_in,
                                        const tensor_t *const *in, int *n_out, tensor_t **out)
{
    double p = 0;
    *n_out = 1;
    TRY(layer_one_input(ctx, self, n_in));
    TRY(layer_read_float(ctx, self, "p", &p));
    if (!module_is_training(self)) return op_feature_dropout(ctx, in[0], p, out);
    const char *type = module_type(self);
    const int rank = in[0] == NULL ? 0 : tensor_rank(in[0]);
    const bool is_single = (rank == 2 && strcmp(type, "Dropout1d") == 0) ||
                           (rank == 4 && strcmp(type, "Dropout3d") == 0);
    return op_dropout_train(ctx, in[0], p, is_single ? 1 : 2, out);
}

static status_t init_dropout(context_t *ctx, module_t *module, const void *user)
{
    return layer_set_float(ctx, module, "p", *(const double *)user);
}

static status_t make_dropout(context_t *ctx, const char *op, const char *type, forward_t forward,
                             double p, module_t **out_module)
{
    TRY(context_output(ctx, op, out_module));
    REQUIRE(ctx, p >= 0 && p <= 1, "%s: p %g, must be 0 to 1", op, p);
    return layer_build(ctx, type, forward, init_dropout, &p, out_module);
}

status_t layer_dropout(context_t *ctx, double p, module_t **out_module)
{
    return make_dropout(ctx, "layer_dropout", "Dropout", forward_dropout, p, out_module);
}

status_t layer_alpha_dropout(context_t *ctx, double p, module_t **out_module)
{
    return make_dropout(ctx, "layer_alpha_dropout", "AlphaDropout", forward_alpha_dropout, p,
                        out_module);
}

status_t layer_feature_dropout(context_t *ctx, int n_spatial, double p, module_t **out_module)
{
    static const char *const types[] = {"Dropout1d", "Dropout2d", "Dropout3d"};
    TRY(context_output(ctx, "layer_feature_dropout", out_module));
    REQUIRE(ctx, n_spatial >= 1 && n_spatial <= LAYER_MAX_SPATIAL,
            "layer_feature_dropout: %d spatial dimensions, must be 1 to 3", n_spatial);
    return make_dropout(ctx, "layer_feature_dropout", types[n_spatial - 1], forward_feature_dropout,
                        p, out_module);
}

static status_t forward_to_mkldnn(context_t *ctx, module_t *self, int n_in,
                                  const tensor_t *const *in, int *n_out, tensor_t **out)
{
    *n_out = 1;
    TRY(layer_one_input(ctx, self, n_in));
    return op_to_mkldnn(ctx, in[0], out);
}

static status_t forward_to_dense(context_t *ctx, module_t *self, int n_in,
                                 const tensor_t *const *in, int *n_out, tensor_t **out)
{
    *n_out = 1;
    TRY(layer_one_input(ctx, self, n_in));
    return op_to_dense(ctx, in[0], out);
}

status_t layer_dense_to_mkldnn(context_t *ctx, module_t **out_module)
{
    TRY(context_output(ctx, "layer_dense_to_mkldnn", out_module));
    return layer_build(ctx, "Dense2Mkldnn", forward_to_mkldnn, NULL, NULL, out_module);
}

status_t layer_mkldnn_to_dense(context_t *ctx, module_t **out_module)
{
    TRY(context_output(ctx, "layer_mkldnn_to_dense", out_module));
    return layer_build(ctx, "Mkldnn2Dense", forward_to_dense, NULL, NULL, out_module);
}

/* ---- sequential ---- */

status_t layer_forward_children(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                                int *n_out, tensor_t **out)
{
    flow_t flow = flow_begin(ctx, self, n_in, in);
    *n_out = 1;
    for (int i = 0; i < module_n_members(self); i++) {
        member_kind_t kind;
        const char *name = module_member(self, i, &kind);
        if (kind == MEMBER_CHILD) flow_child(&flow, name);
    }
    return flow_end(&flow, out);
}

status_t layer_sequential(context_t *ctx, module_t **out_module)
{
    TRY(context_output(ctx, "layer_sequential", out_module));
    return layer_build(ctx, "Sequential", layer_forward_children, NULL, NULL, out_module);
}

static status_t append(context_t *ctx, module_t *sequential, module_t *child)
{
    if (sequential == NULL) return context_null(ctx, "layer_append_take", "sequential");
    if (child == NULL) return context_null(ctx, "layer_append_take", "child");
    int n = 0;
    for (int i = 0; i < module_n_members(sequential); i++) {
        member_kind_t kind;
        module_member(sequential, i, &kind);
        if (kind == MEMBER_CHILD) n++;
    }
    char name[16];
    do snprintf(name, sizeof name, "%d", n++);
    while (module_child(sequential, name) != NULL);
    return module_set_child(ctx, sequential, name, child);
}

status_t layer_append_take(context_t *ctx, module_t *sequential, module_t *child)
{
    FINISH(append(ctx, sequential, child), module_release(child));
}
