#include "module/layers/spatial.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "module/layers/layers_impl.h"
#include "tensor/context_impl.h"
#include "tensor/tensor_impl.h"

static status_t check_spatial(context_t *ctx, const char *op, int n_spatial)
{
    REQUIRE(ctx, n_spatial >= 1 && n_spatial <= LAYER_MAX_SPATIAL,
            "%s: %d spatial dimensions, must be 1 to 3", op, n_spatial);
    return STATUS_OK;
}

/* Returns the length of a list attribute; 0 if it is absent. */
static int count(const module_t *self, const char *name)
{
    const datum_t *value = module_attribute(self, name);
    return value != NULL ? datum_length(value) : 0;
}

/* ---- pooling ---- */

typedef status_t (*pool_t)(context_t *ctx, const tensor_t *x, const pool_attrs_t *attrs,
                           tensor_t **out);

static const pool_t max_pools[] = {op_max_pool1d, op_max_pool2d, op_max_pool3d};
static const pool_t avg_pools[] = {op_avg_pool1d, op_avg_pool2d, op_avg_pool3d};

/* Reads the attributes that max and average pooling share, and selects the operator for the number
 * of spatial dimensions. */
static status_t read_pool(context_t *ctx, const module_t *self, int n_in, const pool_t *pools,
                          pool_attrs_t *attrs, pool_t *out_pool)
{
    const int n_spatial = count(self, "kernel_size");
    TRY(layer_one_input(ctx, self, n_in));
    TRY(layer_read_sizes(ctx, self, "kernel_size", attrs->kernel));
    REQUIRE(ctx, n_spatial > 0, "module: attribute \"kernel_size\" of %s, must be 1 to 3 sizes",
            module_type(self));
    TRY(layer_read_sizes(ctx, self, "stride", attrs->stride));
    TRY(layer_read_sizes(ctx, self, "padding", attrs->padding));
    TRY(layer_read_sizes(ctx, self, "extra_padding", attrs->extra_padding));
    *out_pool = pools[n_spatial - 1];
    return layer_read_bool(ctx, self, "ceil_mode", &attrs->ceil_mode);
}

static status_t forward_max_pool(context_t *ctx, module_t *self, int n_in,
                                 const tensor_t *const *in, int *n_out, tensor_t **out)
{
    pool_attrs_t attrs = {0};
    pool_t pool = NULL;
    *n_out = 1;
    TRY(read_pool(ctx, self, n_in, max_pools, &attrs, &pool));
    TRY(layer_read_sizes(ctx, self, "dilation", attrs.dilation));
    return pool(ctx, in[0], &attrs, out);
}

static status_t forward_avg_pool(context_t *ctx, module_t *self, int n_in,
                                 const tensor_t *const *in, int *n_out, tensor_t **out)
{
    pool_attrs_t attrs = {0};
    pool_t pool = NULL;
    *n_out = 1;
    TRY(read_pool(ctx, self, n_in, avg_pools, &attrs, &pool));
    TRY(layer_read_bool(ctx, self, "count_include_pad", &attrs.count_include_pad));
    return pool(ctx, in[0], &attrs, out);
}

typedef struct pool_init {
    int n_spatial;
    pool_attrs_t attrs;
} pool_init_t;

static status_t init_pool(context_t *ctx, module_t *module, const pool_init_t *pool)
{
    const pool_attrs_t *attrs = &pool->attrs;
    const int n = pool->n_spatial;
    bool has_extra = false;
    for (int d = 0; d < n; d++) has_extra |= attrs->extra_padding[d] != 0;
    TRY(layer_set_sizes(ctx, module, "kernel_size", n, attrs->kernel));
    TRY(layer_set_sizes(ctx, module, "stride", n, attrs->stride));
    TRY(layer_set_sizes(ctx, module, "padding", n, attrs->padding));
    if (has_extra) TRY(layer_set_sizes(ctx, module, "extra_padding", n, attrs->extra_padding));
    return layer_set_bool(ctx, module, "ceil_mode", attrs->ceil_mode);
}

static status_t init_max_pool(context_t *ctx, module_t *module, const void *user)
{
    const pool_init_t *pool = user;
    TRY(init_pool(ctx, module, pool));
    return layer_set_sizes(ctx, module, "dilation", pool->n_spatial, pool->attrs.dilation);
}

static status_t init_avg_pool(context_t *ctx, module_t *module, const void *user)
{
    const pool_init_t *pool = user;
    TRY(init_pool(ctx, module, pool));
    return layer_set_bool(ctx, module, "count_include_pad", pool->attrs.count_include_pad);
}

static status_t check_pool(context_t *ctx, const char *op, int n_spatial, const pool_attrs_t *attrs,
                           pool_init_t *out)
{
    TRY(check_spatial(ctx, op, n_spatial));
    if (attrs == NULL) return context_null(ctx, op, "attrs");
    for (int d = 0; d < n_spatial; d++)
        REQUIRE(ctx, attrs->kernel[d] > 0, "%s: a kernel of size %lld, must be positive", op,
                (long long)attrs->kernel[d]);
    *out = (pool_init_t){n_spatial, *attrs};
    layer_replace_zeros(out->attrs.stride, out->attrs.kernel);
    layer_replace_zeros(out->attrs.dilation, NULL);
    return STATUS_OK;
}

status_t layer_max_pool(context_t *ctx, int n_spatial, const pool_attrs_t *attrs,
                        module_t **out_module)
{
    static const char *const types[] = {"MaxPool1d", "MaxPool2d", "MaxPool3d"};
    pool_init_t pool;
    TRY(context_output(ctx, "layer_max_pool", out_module));
    TRY(check_pool(ctx, "layer_max_pool", n_spatial, attrs, &pool));
    return layer_build(ctx, types[n_spatial - 1], forward_max_pool, init_max_pool, &pool,
                       out_module);
}

status_t layer_avg_pool(context_t *ctx, int n_spatial, const pool_attrs_t *attrs,
                        module_t **out_module)
{
    static const char *const types[] = {"AvgPool1d", "AvgPool2d", "AvgPool3d"};
    pool_init_t pool;
    TRY(context_output(ctx, "layer_avg_pool", out_module));
    TRY(check_pool(ctx, "layer_avg_pool", n_spatial, attrs, &pool));
    return layer_build(ctx, types[n_spatial - 1], forward_avg_pool, init_avg_pool, &pool,
                       out_module);
}

status_t layer_max_pool2d(context_t *ctx, const pool_attrs_t *attrs, module_t **out_module)
{
    return layer_max_pool(ctx, 2, attrs, out_module);
}

status_t layer_avg_pool2d(context_t *ctx, const pool_attrs_t *attrs, module_t **out_module)
{
    return layer_avg_pool(ctx, 2, attrs, out_module);
}

/* ---- adaptive pooling ---- */

static status_t forward_adaptive_avg(context_t *ctx, module_t *self, int n_in,
                                     const tensor_t *const *in, int *n_out, tensor_t **out)
{
    int64_t sizes[LAYER_MAX_SPATIAL] = {0};
    *n_out = 1;
    TRY(layer_one_input(ctx, self, n_in));
    TRY(layer_read_sizes(ctx, self, "output_size", sizes));
    return op_adaptive_avg_pool(ctx, in[0], count(self, "output_size"), sizes, out);
}

static status_t forward_adaptive_max(context_t *ctx, module_t *self, int n_in,
                                     const tensor_t *const *in, int *n_out, tensor_t **out)
{
    int64_t sizes[LAYER_MAX_SPATIAL] = {0};
    *n_out = 1;
    TRY(layer_one_input(ctx, self, n_in));
    TRY(layer_read_sizes(ctx, self, "output_size", sizes));
    return op_adaptive_max_pool(ctx, in[0], count(self, "output_size"), sizes, out);
}

typedef struct sizes_init {
    int n;
    const int64_t *sizes;
} sizes_init_t;

static status_t init_adaptive(context_t *ctx, module_t *module, const void *user)
{
    const sizes_init_t *output = user;
    return layer_set_sizes(ctx, module, "output_size", output->n, output->sizes);
}

static status_t make_adaptive(context_t *ctx, const char *op, const char *type, forward_t forward,
                              int n_spatial, const int64_t *sizes, module_t **out_module)
{
    sizes_init_t output = {n_spatial, sizes};
    TRY(context_output(ctx, op, out_module));
    TRY(check_spatial(ctx, op, n_spatial));
    if (sizes == NULL) return context_null(ctx, op, "output_size");
    for (int d = 0; d < n_spatial; d++)
        REQUIRE(ctx, sizes[d] > 0, "%s: an output of size %lld, must be positive", op,
                (long long)sizes[d]);
    char name[32];
    snprintf(name, sizeof name, "%s%dd", type, n_spatial);
    return layer_build(ctx, name, forward, init_adaptive, &output, out_module);
}

status_t layer_adaptive_avg_pool(context_t *ctx, int n_spatial, const int64_t *output_size,
                                 module_t **out_module)
{
    return make_adaptive(ctx, "layer_adaptive_avg_pool", "AdaptiveAvgPool", forward_adaptive_avg,
                         n_spatial, output_size, out_module);
}

status_t layer_adaptive_max_pool(context_t *ctx, int n_spatial, const int64_t *output_size,
                                 module_t **out_module)
{
    return make_adaptive(ctx, "layer_adaptive_max_pool", "AdaptiveMaxPool", forward_adaptive_max,
                         n_spatial, output_size, out_module);
}

status_t layer_adaptive_avg_pool2d(context_t *ctx, int64_t height, int64_t width,
                                   module_t **out_module)
{
    return layer_adaptive_avg_pool(ctx, 2, (int64_t[]){height, width}, out_module);
}

/* ---- upsampling ---- */

static status_t read_factors(context_t *ctx, const module_t *self, const int64_t *sizes,
                             resize_attrs_t *attrs)
{
    const datum_t *factors = module_attribute(self, "scale_factor");
    for (int d = 0; d < attrs->sizes.n; d++) {
        const datum_t *factor = factors;
        if (datum_length(factors) > 0)
            factor = datum_item(factors, d < datum_length(factors) ? d : 0);
        const datum_kind_t kind = factor != NULL ? datum_kind(factor) : DATUM_NONE;
        REQUIRE(ctx, kind == DATUM_FLOAT || kind == DATUM_INT,
                "module: attribute \"scale_factor\" of %s, must be floats", module_type(self));
        const double scale = datum_as_float(factor), size = floor((double)sizes[d] * scale);
        REQUIRE(ctx, size >= 1 && size < 0x1p53,
                "module: attribute \"scale_factor\" of %s is %g, the result for size %lld is out "
                "of range",
                module_type(self), scale, (long long)sizes[d]);
        attrs->scales.values[d] = scale;
        attrs->sizes.values[d] = (int64_t)size;
    }
    attrs->scales.n = attrs->sizes.n;
    return STATUS_OK;
}

static status_t forward_upsample(context_t *ctx, module_t *self, int n_in,
                                 const tensor_t *const *in, int *n_out, tensor_t **out)
{
    resize_attrs_t attrs = {.cubic_coefficient = -0.75};
    int64_t sizes[LAYER_MAX_SPATIAL] = {0}, mode = 0;
    bool align_corners = false;
    *n_out = 1;
    TRY(layer_one_input(ctx, self, n_in));
    if (in[0] == NULL) return context_null(ctx, "upsample", "x");
    TRY(layer_read_sizes(ctx, self, "size", sizes));
    TRY(layer_read_int(ctx, self, "mode", &mode));
    TRY(layer_read_bool(ctx, self, "align_corners", &align_corners));
    const int n = tensor_rank(in[0]) - 2;
    REQUIRE(ctx, n >= 1 && n <= LAYER_MAX_SPATIAL, "upsample: x is %s, rank 3 to 5 is needed",
            tensor_text(in[0]));
    attrs.mode = (int)mode;
    attrs.coordinates = mode == RESIZE_NEAREST ? RESIZE_ASYMMETRIC
                        : align_corners        ? RESIZE_ALIGN_CORNERS
                                               : RESIZE_HALF_PIXEL;
    attrs.sizes.n = n;
    layer_replace_zeros(sizes, NULL);
    if (count(self, "size") > 0)
        memcpy(attrs.sizes.values, sizes, (size_t)n * sizeof *sizes);
    else
        TRY(read_factors(ctx, self, tensor_sizes(in[0]) + 2, &attrs));
    return op_resize_attrs(ctx, in[0], &attrs, out);
}

static status_t set_factors(context_t *ctx, module_t *module, const double *factors)
{
    datum_t *items[LAYER_MAX_SPATIAL] = {NULL}, *tuple = NULL;
    status_t status = STATUS_OK;
    for (int d = 0; d < LAYER_MAX_SPATIAL && status == STATUS_OK; d++)
        status = datum_float(ctx, factors[d], &items[d]);
    if (status == STATUS_OK) status = datum_tuple(ctx, LAYER_MAX_SPATIAL, items, &tuple);
    if (status == STATUS_OK) status = module_set_attribute(ctx, module, "scale_factor", tuple);
    for (int d = 0; d < LAYER_MAX_SPATIAL; d++) datum_release(items[d]);
    datum_release(tuple);
    return status;
}

static status_t init_upsample(context_t *ctx, module_t *module, const void *user)
{
    const upsample_attrs_t *attrs = user;
    TRY(attrs->size[0] > 0 ? layer_set_sizes(ctx, module, "size", LAYER_MAX_SPATIAL, attrs->size)
                           : set_factors(ctx, module, attrs->scale_factor));
    TRY(layer_set_int(ctx, module, "mode", attrs->mode));
    return layer_set_bool(ctx, module, "align_corners", attrs->align_corners);
}

status_t layer_upsample(context_t *ctx, const upsample_attrs_t *attrs, module_t **out_module)
{
    TRY(context_output(ctx, "layer_upsample", out_module));
    if (attrs == NULL) return context_null(ctx, "layer_upsample", "attrs");
    upsample_attrs_t upsample = *attrs;
    REQUIRE(ctx, (attrs->size[0] > 0) != (attrs->scale_factor[0] > 0),
            "layer_upsample: size %lld and scale_factor %g, one of them must be positive",
            (long long)attrs->size[0], attrs->scale_factor[0]);
    REQUIRE(ctx, attrs->mode >= RESIZE_NEAREST && attrs->mode <= RESIZE_CUBIC,
            "layer_upsample: mode %d, must be a resize_mode_t", (int)attrs->mode);
    REQUIRE(ctx, !attrs->align_corners || attrs->mode != RESIZE_NEAREST,
            "layer_upsample: align_corners with mode nearest, which does not support it");
    layer_replace_zeros(upsample.size, NULL);
    if (attrs->size[0] == 0) upsample.size[0] = 0;
    for (int d = 0; d < LAYER_MAX_SPATIAL; d++) {
        if (upsample.scale_factor[d] == 0) upsample.scale_factor[d] = upsample.scale_factor[0];
        REQUIRE(ctx, upsample.size[d] >= 0 && upsample.scale_factor[d] >= 0,
                "layer_upsample: size %lld and scale_factor %g, must not be negative",
                (long long)upsample.size[d], upsample.scale_factor[d]);
    }
    return layer_build(ctx, "Upsample", forward_upsample, init_upsample, &upsample, out_module);
}

/* ---- pixel shuffle ---- */

static status_t forward_shuffle(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                                int *n_out, tensor_t **out)
{
    int64_t factor = 0;
    *n_out = 1;
    TRY(layer_one_input(ctx, self, n_in));
    TRY(layer_read_int(ctx, self, "upscale_factor", &factor));
    return op_pixel_shuffle(ctx, in[0], factor, out);
}

static status_t forward_unshuffle(context_t *ctx, module_t *self, int n_in,
                                  const tensor_t *const *in, int *n_out, tensor_t **out)
{
    int64_t factor = 0;
    *n_out = 1;
    TRY(layer_one_input(ctx, self, n_in));
    TRY(layer_read_int(ctx, self, "downscale_factor", &factor));
    return op_pixel_unshuffle(ctx, in[0], factor, out);
}

static status_t init_shuffle(context_t *ctx, module_t *module, const void *user)
{
    return layer_set_int(ctx, module, "upscale_factor", *(const int64_t *)user);
}

static status_t init_unshuffle(context_t *ctx, module_t *module, const void *user)
{
    return layer_set_int(ctx, module, "downscale_factor", *(const int64_t *)user);
}

status_t layer_pixel_shuffle(context_t *ctx, int64_t upscale_factor, module_t **out_module)
{
    TRY(context_output(ctx, "layer_pixel_shuffle", out_module));
    REQUIRE(ctx, upscale_factor > 0, "layer_pixel_shuffle: factor %lld, must be positive",
            (long long)upscale_factor);
    return layer_build(ctx, "PixelShuffle", forward_shuffle, init_shuffle, &upscale_factor,
                       out_module);
}

status_t layer_pixel_unshuffle(context_t *ctx, int64_t downscale_factor, module_t **out_module)
{
    TRY(context_output(ctx, "layer_pixel_unshuffle", out_module));
    REQUIRE(ctx, downscale_factor > 0, "layer_pixel_unshuffle: factor %lld, must be positive",
            (long long)downscale_factor);
    return layer_build(ctx, "PixelUnshuffle", forward_unshuffle, init_unshuffle, &downscale_factor,
                       out_module);
}

/* ---- padding ---- */

typedef struct pad_init {
    int n_spatial;
    const int64_t *padding;
    pad_mode_t mode;
    double value;
} pad_init_t;

static status_t forward_pad(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                            int *n_out, tensor_t **out)
{
    int64_t padding[2 * LAYER_MAX_SPATIAL], mode = 0;
    int64_t before[TENSOR_MAX_RANK] = {0}, after[TENSOR_MAX_RANK] = {0};
    double value = 0;
    int n = 0;
    *n_out = 1;
    TRY(layer_one_input(ctx, self, n_in));
    if (in[0] == NULL) return context_null(ctx, "pad", "x");
    TRY(layer_read_ints(ctx, self, "padding", 2 * LAYER_MAX_SPATIAL, &n, padding));
    TRY(layer_read_int(ctx, self, "mode", &mode));
    TRY(layer_read_float(ctx, self, "value", &value));
    const int rank = tensor_rank(in[0]);
    REQUIRE(ctx, n % 2 == 0 && n / 2 <= rank,
            "module: attribute \"padding\" of %s has %d numbers, must be two for each of at most "
            "%d dimensions",
            module_type(self), n, rank);
    for (int d = 0; d < n / 2; d++) {
        before[rank - 1 - d] = padding[2 * d];
        after[rank - 1 - d] = padding[2 * d + 1];
    }
    return op_pad(ctx, in[0], before, after, (pad_mode_t)mode, value, out);
}

static status_t init_pad(context_t *ctx, module_t *module, const void *user)
{
    const pad_init_t *pad = user;
    TRY(layer_set_sizes(ctx, module, "padding", 2 * pad->n_spatial, pad->padding));
    TRY(layer_set_int(ctx, module, "mode", pad->mode));
    return layer_set_float(ctx, module, "value", pad->value);
}

status_t layer_pad(context_t *ctx, int n_spatial, const int64_t *padding, pad_mode_t mode,
                   double value, module_t **out_module)
{
    static const char *const types[] = {"ConstantPad", "ReflectionPad", "ReplicationPad",
                                        "CircularPad"};
    pad_init_t pad = {n_spatial, padding, mode, value};
    char type[32];
    TRY(context_output(ctx, "layer_pad", out_module));
    TRY(check_spatial(ctx, "layer_pad", n_spatial));
    if (padding == NULL) return context_null(ctx, "layer_pad", "padding");
    REQUIRE(ctx, mode >= PAD_CONSTANT && mode <= PAD_WRAP,
            "layer_pad: mode %d, must be a pad_mode_t", (int)mode);
    const bool is_zero = mode == PAD_CONSTANT && value == 0;
    snprintf(type, sizeof type, "%s%dd", is_zero ? "ZeroPad" : types[mode], n_spatial);
    return layer_build(ctx, type, forward_pad, init_pad, &pad, out_module);
}
