/* Resampling of the dimensions after the channels. */
#include <math.h>
#include <string.h>

#include "dispatch/choose_impl.h"
#include "ops/accept_impl.h"
#include "ops/ops_impl.h"
#include "tensor/threads_impl.h"

/* ---- attributes ---- */

typedef struct resize_attrs {
    ints_t sizes;
    int mode;        /* resize_mode_t */
    int coordinates; /* resize_coordinates_t */
} resize_attrs_t;

static const char *const mode_names[] = {"nearest", "linear", NULL};
static const char *const coordinate_names[] = {"asymmetric", "half_pixel", "align_corners", NULL};

static const attr_field_t fields[] = {
    {"sizes", ATTR_INTS, false, offsetof(resize_attrs_t, sizes), 0, 0, NULL},
    {"mode", ATTR_NAME, false, offsetof(resize_attrs_t, mode), 0, 0, mode_names},
    {"coordinates", ATTR_NAME, false, offsetof(resize_attrs_t, coordinates), 0, 0,
     coordinate_names}};

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false}};

/* ---- inference ---- */

static status_t infer(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)out_n;
    const resize_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[0];
    REQUIRE(ctx, x->rank >= 3 && x->rank <= 5, "resize: x is %s, rank 3 to 5 is needed",
            info_brief(x));
    REQUIRE(ctx, attrs->sizes.n == x->rank - 2, "resize: %d sizes for %s, %d are needed",
            attrs->sizes.n, info_brief(x), x->rank - 2);
    REQUIRE(ctx, attrs->mode == RESIZE_NEAREST || dtype_is_floating(x->dtype),
            "resize: x is %s, linear needs a floating dtype", info_brief(x));
    int64_t sizes[TENSOR_MAX_RANK] = {x->sizes[0], x->sizes[1]};
    for (int i = 0; i < attrs->sizes.n; i++) {
        sizes[2 + i] = attrs->sizes.values[i];
        REQUIRE(ctx,
                sizes[2 + i] >= 1 && sizes[2 + i] < INT32_MAX && x->sizes[2 + i] >= 1 &&
                    x->sizes[2 + i] < INT32_MAX,
                "resize: dimension %d of %s to %lld, sizes of at least 1 are needed", 2 + i,
                info_brief(x), (long long)sizes[2 + i]);
    }
    TRY(shape_check(ctx, "resize", x->dtype, x->rank, sizes));
    out[0] = info_dense(x->dtype, x->rank, sizes);
    return STATUS_OK;
}

/* ---- where an output index samples ---- */

/* Rounded down, in whole numbers. */
static int64_t find_nearest(int coordinates, int64_t i, int64_t in, int64_t out)
{
    switch (coordinates) {
    case RESIZE_HALF_PIXEL: {
        int64_t above = (2 * i + 1) * in - out;
        return above < 0 ? 0 : above / (2 * out);
    }
    case RESIZE_ALIGN_CORNERS: return out > 1 ? i * (in - 1) / (out - 1) : 0;
    default: return i * in / out;
    }
}

/* Between two neighbours: low takes 1 - share. */
typedef struct sample {
    int64_t low, high;
    double share;
} sample_t;

static sample_t find_sample(const resize_attrs_t *attrs, int64_t i, int64_t in, int64_t out)
{
    sample_t sample = {0};
    if (attrs->mode == RESIZE_NEAREST) {
        sample.low = sample.high = find_nearest(attrs->coordinates, i, in, out);
        return sample;
    }
    double place = (double)i * (double)in / (double)out;
    if (attrs->coordinates == RESIZE_HALF_PIXEL)
        place = ((double)i + 0.5) * (double)in / (double)out - 0.5;
    else if (attrs->coordinates == RESIZE_ALIGN_CORNERS)
        place = out > 1 ? (double)i * (double)(in - 1) / (double)(out - 1) : 0.0;
    if (place < 0.0) place = 0.0;
    if (place > (double)(in - 1)) place = (double)(in - 1);
    sample.low = (int64_t)floor(place);
    sample.high = sample.low + 1 < in ? sample.low + 1 : in - 1;
    sample.share = place - (double)sample.low;
    return sample;
}

/* ---- specification ---- */

static double spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    const tensor_info_t *x = call->in[0];
    int n_spatial = x->rank - 2;
    int64_t at[TENSOR_MAX_RANK] = {index[0], index[1]};
    double sum = 0.0;
    for (int corner = 0; corner < 1 << n_spatial; corner++) {
        double weight = 1.0;
        for (int i = 0; i < n_spatial; i++) {
            sample_t sample = find_sample(call->attrs, index[2 + i], x->sizes[2 + i],
                                          call->out->sizes[2 + i]);
            bool is_high = (corner >> i & 1) != 0;
            at[2 + i] = is_high ? sample.high : sample.low;
            weight *= is_high ? sample.share : 1.0 - sample.share;
        }
        if (weight != 0.0) sum += weight * spec_at(call, 0, at);
    }
    return sum;
}

/* ---- kernel on oneDNN: where it samples at the same places ---- */

/* Its nearest rounds (i + 0.5) in / out - 0.5 to the nearest number, which is i in / out rounded
 * down where every input element is repeated equally often; its linear is that of half pixels. */
static bool samples_alike(const resize_attrs_t *attrs, const tensor_info_t *x)
{
    if (attrs->mode == RESIZE_LINEAR) return attrs->coordinates == RESIZE_HALF_PIXEL;
    if (attrs->coordinates != RESIZE_ASYMMETRIC) return false;
    for (int i = 0; i < attrs->sizes.n; i++)
        if (attrs->sizes.values[i] % x->sizes[2 + i] != 0 || attrs->sizes.values[i] > 1 << 20)
            return false;
    return true;
}

static status_t prepare_onednn(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const resize_attrs_t *attrs = call->attrs;
    tensor_info_t src = *call->in[0], dst = call->out[0];
    if (src.dtype != DTYPE_F32 && src.dtype != DTYPE_BF16)
        return prepared_decline(prepared, "onednn: dtype %s", dtype_name(src.dtype));
    if (!samples_alike(attrs, &src))
        return prepared_decline(prepared, "onednn: %s with coordinates %s samples elsewhere",
                                mode_names[attrs->mode], coordinate_names[attrs->coordinates]);
    onednn_problem_t problem = {.kind = ONEDNN_RESAMPLING,
                                .algorithm = attrs->mode == RESIZE_LINEAR
                                                 ? ONEDNN_RESAMPLING_LINEAR
                                                 : ONEDNN_RESAMPLING_NEAREST,
                                .n_src = 1,
                                .src = &src,
                                .dst = &dst};
    return choose_formats(ctx, call, prepared, &problem, 0.0);
}

static const kernel_t onednn = {"onednn", prepare_onednn, prepared_run_primitive};

/* ---- kernel of our own: planes, or channels last ---- */

static status_t prepare_native(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    (void)ctx;
    const tensor_info_t *x = call->in[0];
    format_t plain = format_plain(x->rank), last = format_channels_last(x->rank);
    bool is_last = format_same(&x->format, &last, x->sizes) &&
                   !format_same(&x->format, &plain, x->sizes);
    TRY(accept_format(call, prepared, 0, is_last ? &last : &plain));
    return accept_out(call, prepared, 0, is_last ? &last : &plain);
}

/* Spatial dimensions padded to three in front. lanes: elements that lie together at one place. */
typedef struct field {
    int64_t in[3], out[3], in_plane, out_plane, lanes, n;
} field_t;

static field_t describe_field(const prepared_t *prepared)
{
    const tensor_info_t *x = &prepared->in[0];
    int n_spatial = x->rank - 2;
    int64_t inner = 1;
    field_t field = {.in_plane = 1, .out_plane = 1};
    for (int i = 0; i < 3; i++) {
        int from = i - (3 - n_spatial);
        field.in[i] = from < 0 ? 1 : x->sizes[2 + from];
        field.out[i] = from < 0 ? 1 : prepared->out[0].sizes[2 + from];
        field.in_plane *= field.in[i];
        field.out_plane *= field.out[i];
    }
    format_t plain = format_plain(x->rank);
    if (!format_same(&x->format, &plain, x->sizes)) inner = x->sizes[1];
    field.lanes = inner;
    field.n = x->sizes[0] * x->sizes[1] / inner;
    return field;
}

/* One output place. */
static void blend(const resize_attrs_t *attrs, const field_t *field, dtype_t dtype, const char *x,
                  int64_t place, char *out)
{
    const size_t size = dtype_size(dtype);
    int64_t offsets[8], rest = place, at[3];
    double weights[8];
    int n = 1;
    for (int i = 2; i >= 0; i--) {
        at[i] = rest % field->out[i];
        rest /= field->out[i];
    }
    offsets[0] = 0;
    weights[0] = 1.0;
    for (int i = 0; i < 3; i++) {
        sample_t sample = find_sample(attrs, at[i], field->in[i], field->out[i]);
        int n_before = n;
        for (int c = 0; c < n_before; c++) {
            int64_t base = offsets[c] * field->in[i];
            double weight = weights[c];
            offsets[c] = base + sample.low;
            weights[c] = weight * (1.0 - sample.share);
            if (sample.share == 0.0) continue;
            offsets[n] = base + sample.high;
            weights[n++] = weight * sample.share;
        }
    }
    if (n == 1) {
        memcpy(out, x + (size_t)(offsets[0] * field->lanes) * size, (size_t)field->lanes * size);
        return;
    }
    for (int64_t lane = 0; lane < field->lanes; lane++) {
        double sum = 0.0;
        for (int c = 0; c < n; c++)
            sum += weights[c] *
                   dtype_load(dtype, x + (size_t)(offsets[c] * field->lanes + lane) * size);
        dtype_store(dtype, out + (size_t)lane * size, sum);
    }
}

static status_t run_native(context_t *ctx, const prepared_t *prepared, void *const *in,
                           void *const *out, void *scratch)
{
    (void)scratch;
    const field_t field = describe_field(prepared);
    const dtype_t dtype = prepared->in[0].dtype;
    const int64_t in_bytes = field.lanes * (int64_t)dtype_size(dtype);
#pragma omp parallel for num_threads(threads_for(ctx, info_numel(&prepared->out[0])))              \
    schedule(static)
    for (int64_t i = 0; i < field.n * field.out_plane; i++)
        blend(prepared->attrs, &field, dtype,
              (const char *)in[0] + i / field.out_plane * field.in_plane * in_bytes,
              i % field.out_plane, (char *)out[0] + i * in_bytes);
    return STATUS_OK;
}

static const kernel_t native = {"native", prepare_native, run_native};
static const kernel_t *const kernels[] = {&onednn, &native, NULL};

/* ---- cases ---- */

static const char *const cases[] = {
    "(f32[2,3,4,5]) sizes=[8,10]",
    "(f32[1,17,4,5]) sizes=[7,9]",
    "(f32[1,16,8,6]) sizes=[4,3]",
    "(f32[1,16,3,3]) sizes=[6,9]",
    "(f32[1,3,4,5]) sizes=[7,3] coordinates=\"half_pixel\"",
    "(f32[1,3,4,5]) sizes=[7,9] coordinates=\"align_corners\"",
    "(f32[2,17,4,5]) sizes=[7,9] mode=\"linear\" coordinates=\"half_pixel\"",
    "(f32[1,16,8,8]) sizes=[4,3] mode=\"linear\" coordinates=\"half_pixel\"",
    "(f32[1,3,4,5]) sizes=[7,3] mode=\"linear\" coordinates=\"align_corners\"",
    "(f32[1,3,4,5]) sizes=[8,1] mode=\"linear\" coordinates=\"asymmetric\"",
    "(f32[1,3,1,1]) sizes=[4,4] mode=\"linear\" coordinates=\"align_corners\"",
    "(f32[2,3,7]) sizes=[14]",
    "(f32[1,8,3,4,2]) sizes=[6,5,3] mode=\"linear\" coordinates=\"half_pixel\"",
    "(bf16[1,16,4,4]) sizes=[8,8] mode=\"linear\" coordinates=\"half_pixel\"",
    "(f64[1,2,3,3]) sizes=[5,5] mode=\"linear\"",
    "(s64[1,2,3,3]) sizes=[5,6]",
    NULL};

/* ---- definition ---- */

const opdef_t op_def_resize = {.name = "resize",
                               .preference = OP_FOLLOWS,
                               .attrs = {sizeof(resize_attrs_t), 3, fields},
                               .n_operands = 1,
                               .operands = operands,
                               .n_outputs = 1,
                               .infer = infer,
                               .kernels = kernels,
                               .spec = spec,
                               .cases = cases};

/* ---- public ---- */

status_t op_resize(context_t *ctx, const tensor_t *x, int n, const int64_t *sizes,
                   resize_mode_t mode, resize_coordinates_t coordinates, tensor_t **out)
{
    TRY(context_output(ctx, "resize", out));
    resize_attrs_t attrs = {.sizes = {.n = n}, .mode = (int)mode, .coordinates = (int)coordinates};
    if (sizes == NULL) return context_null(ctx, "resize", "sizes");
    REQUIRE(ctx, n >= 1 && n <= 3, "resize: %d sizes, 1 to 3 are possible", n);
    memcpy(attrs.sizes.values, sizes, (size_t)n * sizeof *sizes);
    return dispatch_run(ctx, &op_def_resize, &attrs, 1, &x, NULL, out);
}
