/* Layer norm and RMS norm (over the last dimensions), group norm and instance norm (over groups of
 * channels). */
#include "module/layers/layers_impl.h"
#include "module/layers/transformer.h"
#include "tensor/context_impl.h"
#include "tensor/shape.h"

/* How to create a norm. Its weight is 1 and its bias 0 at first. */
typedef struct norm_init {
    int rank;
    int64_t sizes[TENSOR_MAX_RANK]; /* sizes of weight and bias */
    int64_t n_groups;               /* 0: a norm over the last dimensions, without groups */
    double epsilon;
    bool has_weight, has_bias;
} norm_init_t;

static status_t init_norm(context_t *ctx, module_t *module, const void *user)
{
    const norm_init_t *norm = user;
    if (norm->has_weight)
        TRY(layer_parameter(ctx, module, "weight", norm->rank, norm->sizes, FILL_VALUE, 1, 0));
    else
        TRY(module_set_parameter(ctx, module, "weight", NULL));
    if (norm->has_bias)
        TRY(layer_parameter(ctx, module, "bias", norm->rank, norm->sizes, FILL_VALUE, 0, 0));
    else
        TRY(module_set_parameter(ctx, module, "bias", NULL));
    if (norm->n_groups > 0) TRY(layer_set_int(ctx, module, "num_groups", norm->n_groups));
    if (norm->n_groups == 0)
        TRY(layer_set_sizes(ctx, module, "normalized_shape", norm->rank, norm->sizes));
    return layer_set_float(ctx, module, "eps", norm->epsilon);
}

/* ---- the last dimensions ---- */

static status_t count_dims(context_t *ctx, const module_t *self, int *out_n)
{
    const datum_t *shape = module_attribute(self, "normalized_shape");
    datum_kind_t kind = shape != NULL ? datum_kind(shape) : DATUM_NONE;
    REQUIRE(ctx, kind == DATUM_TUPLE || kind == DATUM_LIST,
            "module: attribute \"normalized_shape\" of %s, must be a list or tuple of ints",
            module_type(self));
    *out_n = datum_length(shape);
    return STATUS_OK;
}

static status_t forward_layer_norm(context_t *ctx, module_t *self, int n_in,
                                   const tensor_t *const *in, int *n_out, tensor_t **out)
{
    double epsilon = 0;
    int n_dims = 0;
    *n_out = 1;
    TRY(layer_one_input(ctx, self, n_in));
    TRY(count_dims(ctx, self, &n_dims));
    TRY(layer_read_float(ctx, self, "eps", &epsilon));
    return op_layer_norm(ctx, in[0], n_dims, module_parameter(self, "weight"),
                         module_parameter(self, "bias"), epsilon, out);
}

static status_t forward_rms_norm(context_t *ctx, module_t *self, int n_in,
                                 const tensor_t *const *in, int *n_out, tensor_t **out)
{
    double epsilon = 0;
    int n_dims = 0;
    *n_out = 1;
    TRY(layer_one_input(ctx, self, n_in));
    TRY(count_dims(ctx, self, &n_dims));
    TRY(layer_read_float(ctx, self, "eps", &epsilon));
    return op_rms_norm(ctx, in[0], n_dims, module_parameter(self, "weight"), epsilon, out);
}

static status_t check_shape(context_t *ctx, const char *name, int n_dims, const int64_t *sizes,
                            double epsilon, norm_init_t *out)
{
    REQUIRE(ctx, n_dims >= 1 && n_dims <= TENSOR_MAX_RANK, "%s: %d dimensions, must be 1 to %d",
            name, n_dims, TENSOR_MAX_RANK);
    if (sizes == NULL) return context_null(ctx, name, "normalized_shape");
    REQUIRE(ctx, epsilon >= 0, "%s: epsilon %g, must not be negative", name, epsilon);
    out->rank = n_dims;
    out->epsilon = epsilon;
    for (int d = 0; d < n_dims; d++) {
        REQUIRE(ctx, sizes[d] > 0, "%s: a size of %lld, must be positive", name,
                (long long)sizes[d]);
        out->sizes[d] = sizes[d];
    }
    return STATUS_OK;
}

status_t layer_layer_norm(context_t *ctx, int n_dims, const int64_t *normalized_shape,
                          double epsilon, bool has_weight, bool has_bias, module_t **out_module)
{
    TRY(context_output(ctx, "layer_layer_norm", out_module));
    norm_init_t norm = {.has_weight = has_weight, .has_bias = has_bias};
    TRY(check_shape(ctx, "layer_layer_norm", n_dims, normalized_shape, epsilon, &norm));
    return layer_build(ctx, "LayerNorm", forward_layer_norm, init_norm, &norm, out_module);
}

status_t layer_rms_norm(context_t *ctx, int n_dims, const int64_t *normalized_shape, double epsilon,
                        bool has_weight, module_t **out_module)
{
    TRY(context_output(ctx, "layer_rms_norm", out_module));
    norm_init_t norm = {.has_weight = has_weight};
    TRY(check_shape(ctx, "layer_rms_norm", n_dims, normalized_shape, epsilon, &norm));
    return layer_build(ctx, "RMSNorm", forward_rms_norm, init_norm, &norm, out_module);
}

/* ---- groups of channels ---- */

static status_t forward_group_norm(context_t *ctx, module_t *self, int n_in,
                                   const tensor_t *const *in, int *n_out, tensor_t **out)
{
    double epsilon = 0;
    int64_t n_groups = 0;
    *n_out = 1;
    TRY(layer_one_input(ctx, self, n_in));
    TRY(layer_read_int(ctx, self, "num_groups", &n_groups));
    TRY(layer_read_float(ctx, self, "eps", &epsilon));
    return op_group_norm(ctx, in[0], n_groups, module_parameter(self, "weight"),
                         module_parameter(self, "bias"), epsilon, out);
}

static status_t build_groups(context_t *ctx, const char *name, const char *type, int64_t n_groups,
                             int64_t channels, double epsilon, bool is_affine,
                             module_t **out_module)
{
    REQUIRE(ctx, n_groups > 0 && channels > 0 && channels % n_groups == 0,
            "%s: %lld channels in %lld groups, must be positive, and groups must divide channels",
            name, (long long)channels, (long long)n_groups);
    REQUIRE(ctx, epsilon >= 0, "%s: epsilon %g, must not be negative", name, epsilon);
    norm_init_t norm = {.rank = 1,
                        .sizes = {channels},
                        .n_groups = n_groups,
                        .epsilon = epsilon,
                        .has_weight = is_affine,
                        .has_bias = is_affine};
    return layer_build(ctx, type, forward_group_norm, init_norm, &norm, out_module);
}

status_t layer_group_norm(context_t *ctx, int64_t num_groups, int64_t channels, double epsilon,
                          bool is_affine, module_t **out_module)
{
    TRY(context_output(ctx, "layer_group_norm", out_module));
    return build_groups(ctx, "layer_group_norm", "GroupNorm", num_groups, channels, epsilon,
                        is_affine, out_module);
}

status_t layer_instance_norm(context_t *ctx, int64_t channels, double epsilon, bool is_affine,
                             module_t **out_module)
{
    TRY(context_output(ctx, "layer_instance_norm", out_module));
    return build_groups(ctx, "layer_instance_norm", "InstanceNorm2d", channels, channels, epsilon,
                        is_affine, out_module);
}
