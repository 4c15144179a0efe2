/* Normalization in inference: batch norm, and layer and rms norm over the last dimensions. */
#include <math.h>
#include <string.h>

#include "dispatch/choose/choose_impl.h"
#include "dispatch/post_impl.h"
#include "kernels/norm/moments_impl.h"
#include "ops/accept_impl.h"
#include "ops/gradient_impl.h"
#include "ops/norm/norm_impl.h"
#include "ops/reduce/reduce_impl.h"
#include "ops/walk_impl.h"
#include "tensor/sym/sizes_impl.h"
#include "tensor/threads/threads_impl.h"

/* ---- attributes ---- */

typedef struct batch_attrs {
    double epsilon;
    post_ops_t post;
} batch_attrs_t;

static const attr_field_t batch_fields[] = {FIELD_FLOAT(batch_attrs_t, epsilon, 1e-5),
                                            FIELD_POST(batch_attrs_t, post)};
const attr_field_t layer_fields[LAYER_FIELDS] = {FIELD_OR(layer_attrs_t, ATTR_INT, n_dims, 0, 1),
                                                 FIELD_FLOAT(layer_attrs_t, epsilon, 1e-5)};

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false},
                                     {"weight", ROLE_BIAS, true, false},
                                     {"bias", ROLE_BIAS, true, false},
                                     {"running_mean", ROLE_STATE, false, false},
                                     {"running_var", ROLE_STATE, false, false}};
enum { X, WEIGHT, BIAS, MEAN, VAR, POST };

enum { VARIANT_layer_norm, VARIANT_rms_norm };

/* True for rms_norm, which uses 0 in place of the mean. */
static bool is_rms(const opdef_t *op)
{
    return op->variant == VARIANT_rms_norm;
}

/* ---- inference ---- */

static status_t infer_batch(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)out_n;
    const tensor_info_t *x = call->in[X];
    const char *op = call->op->name;
    REQUIRE(ctx, x->rank >= 2 && x->rank <= 5, "%s: x is %s, rank 2 to 5 is needed", op,
            info_brief(x));
    REQUIRE(ctx, dtype_is_floating(x->dtype), "%s: x is %s, a floating type is needed", op,
            info_brief(x));
    for (int i = WEIGHT; i <= VAR; i++) {
        const tensor_info_t *info = call->in[i];
        if (!call_has(call, i)) continue;
        REQUIRE(ctx,
                info->rank == 1 && sym_equal(ctx, info->sizes[0], x->sizes[1]) &&
                    dtype_is_floating(info->dtype),
                "%s: %s is %s, input %s needs floating [%lld]", op, operands[i].name,
                info_brief(info), info_brief(x), (long long)x->sizes[1]);
    }
    out[0] = info_dense(x->dtype, x->rank, x->sizes);
    return accept_post(ctx, call, &out[0]);
}

static status_t infer_layer(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)out_n;
    const layer_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[X];
    const char *op = call->op->name;
    REQUIRE(ctx, attrs->n_dims >= 1 && attrs->n_dims <= x->rank,
            "%s: n_dims=%lld, input %s needs 1 to %d", op, (long long)attrs->n_dims, info_brief(x),
            x->rank);
    REQUIRE(ctx, dtype_is_floating(x->dtype), "%s: x is %s, a floating type is needed", op,
            info_brief(x));
    int n_dims = (int)attrs->n_dims;
    for (int i = WEIGHT; i <= BIAS; i++) {
        const tensor_info_t *info = call->in[i];
        if (!call_has(call, i)) continue;
        REQUIRE(ctx,
                sizes_equal(ctx, n_dims, &x->sizes[x->rank - n_dims], info->rank, info->sizes) &&
                    dtype_is_floating(info->dtype),
                "%s: %s is %s, the last %d dimensions of %s are needed", op, operands[i].name,
                info_brief(info), n_dims, info_brief(x));
    }
    out[0] = info_dense(x->dtype, x->rank, x->sizes);
    return STATUS_OK;
}

/* ---- specification ---- */

static double spec_batch(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    const batch_attrs_t *attrs = call->attrs;
    const int64_t *channel = &index[1];
    double value = (spec_at(call, X, index) - spec_at(call, MEAN, channel)) /
                   sqrt(spec_at(call, VAR, channel) + attrs->epsilon);
    if (spec_has(call, WEIGHT)) value *= spec_at(call, WEIGHT, channel);
    if (spec_has(call, BIAS)) value += spec_at(call, BIAS, channel);
    return spec_post(call, &attrs->post, POST, value, index);
}

static double spec_layer(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    const layer_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[X];
    int n_dims = (int)attrs->n_dims, first = x->rank - n_dims;
    int64_t at[TENSOR_MAX_RANK] = {0}, n = 0;
    double sum = 0.0, squares = 0.0;
    for (int d = 0; d < first; d++) at[d] = index[d];
    do {
        sum += spec_at(call, X, at);
        n++;
    } while (shape_next(n_dims, &x->sizes[first], &at[first]));
    const double mean = is_rms(call->op) ? 0.0 : sum / (double)n;
    do {
        double difference = spec_at(call, X, at) - mean;
        squares += difference * difference;
    } while (shape_next(n_dims, &x->sizes[first], &at[first]));
    double value = (spec_at(call, X, index) - mean) / sqrt(squares / (double)n + attrs->epsilon);
    if (spec_has(call, WEIGHT)) value *= spec_at(call, WEIGHT, &index[first]);
    return spec_has(call, BIAS) ? value + spec_at(call, BIAS, &index[first]) : value;
}

/* ---- kernels on oneDNN ---- */

/* oneDNN supports x in f32 and bf16, with f32 statistics. It needs f32 weight and bias, or
 * neither. */
static status_t check_onednn(const op_call_t *call, prepared_t *prepared)
{
    const tensor_info_t *x = call->in[X];
    if (x->dtype != DTYPE_F32 && x->dtype != DTYPE_BF16)
        return prepared_decline(prepared, "onednn: dtype %s", dtype_name(x->dtype));
    if (call_has(call, WEIGHT) != call_has(call, BIAS))
        return prepared_decline(prepared, "onednn: weight and bias, or none of them");
    const int n_own = call->n_in < POST ? call->n_in : POST;
    for (int i = WEIGHT; i < n_own; i++) {
        if (!call_has(call, i)) continue;
        if (call->in[i]->dtype != DTYPE_F32)
            return prepared_decline(prepared, "onednn: %s is %s", operands[i].name,
                                    dtype_name(call->in[i]->dtype));
        prepared->in[i] = info_dense(DTYPE_F32, call->in[i]->rank, call->in[i]->sizes);
    }
    return STATUS_OK;
}

/* Never requests a reorder of x: our own kernel reads every format without one. oneDNN supports no
 * post-op except a single relu. */
static status_t prepare_batch_onednn(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const batch_attrs_t *attrs = call->attrs;
    const post_op_t *relu = attrs->post.n > 0 ? &attrs->post.op[0] : NULL;
    if (relu != NULL &&
        (attrs->post.n > 1 || relu->kind != POST_ELTWISE || relu->eltwise != ELTWISE_RELU))
        return prepared_decline(prepared, "onednn: of post-ops one relu");
    TRY(check_onednn(call, prepared));
    tensor_info_t src = *call->in[X], dst = call->out[0];
    onednn_problem_t problem = {.kind = ONEDNN_BATCH_NORM,
                                .n_src = 1,
                                .src = &src,
                                .dst = &dst,
                                .epsilon = (float)attrs->epsilon,
                                .has_scale = call_has(call, WEIGHT),
                                .has_relu = relu != NULL};
    op_call_t own = *call;
    own.keep_formats = true;
    TRY(choose_formats(ctx, &own, prepared, &problem, 0.0));
    if (!call->per_op && src.dtype == DTYPE_F32 && src.format.n_blocks > 0)
        return prepared_decline(prepared,
                                "onednn: our own finds in each core's cache what it reads");
    if (src.dtype == DTYPE_F32 && strstr(prepared->implementation, "jit") == NULL)
        return prepared_decline(prepared, "onednn: %s is slower than our own",
                                prepared->implementation);
    prepared->overwrites = 1u << X;
    int8_t *arguments = prepared->arguments;
    int n = 0;
    arguments[n++] = X;
    arguments[n++] = MEAN;
    arguments[n++] = VAR;
    if (problem.has_scale) {
        arguments[n++] = WEIGHT;
        arguments[n++] = BIAS;
    }
    arguments[n++] = -1;
    return STATUS_OK;
}

void layer_rows(const tensor_info_t *x, const layer_attrs_t *attrs, int64_t *out_rows,
                int64_t *out_length)
{
    int64_t length = 1;
    for (int d = x->rank - (int)attrs->n_dims; d < x->rank; d++) length *= x->sizes[d];
    *out_length = length;
    *out_rows = length > 0 ? info_numel(x) / length : 0;
}

static status_t prepare_layer_onednn(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const layer_attrs_t *attrs = call->attrs;
    onednn_primitive_t *primitive = NULL;
    TRY(check_onednn(call, prepared));
    TRY(accept_plain(call, prepared, X));
    TRY(accept_out_plain(call, prepared, 0));
    int64_t sizes[2];
    layer_rows(call->in[X], attrs, &sizes[0], &sizes[1]);
    if (sizes[1] > 8 * REDUCE_NAIVE_MOST)
        return prepared_decline(prepared, "onednn: it adds %lld elements in eight floats",
                                (long long)sizes[1]);
    tensor_info_t flat = info_dense(call->in[X]->dtype, 2, sizes);
    onednn_problem_t problem = {.kind = ONEDNN_LAYER_NORM,
                                .n_src = 1,
                                .src = &flat,
                                .dst = &flat,
                                .epsilon = (float)attrs->epsilon,
                                .has_scale = call_has(call, WEIGHT)};
    status_t status = onednn_describe(ctx, &problem, &primitive);
    if (status == STATUS_UNSUPPORTED)
        return prepared_decline(prepared, "onednn: %s for %s", onednn_refusal(ctx),
                                info_brief(call->in[X]));
    TRY(status);
    prepared_take_primitive(prepared, primitive);
    prepared->overwrites = 1u << X;
    if (onednn_is_reference(prepared->implementation))
        return prepared_decline(prepared, "onednn: layer_norm is %s", prepared->implementation);
    if (!call->per_op && flat.dtype == DTYPE_F32 && strstr(prepared->implementation, "jit") == NULL)
        return prepared_decline(prepared, "onednn: %s is slower than our own",
                                prepared->implementation);
    prepared->cost_ns = cost_run(ctx, prepared->implementation, 0.0,
                                 2.0 * (double)info_bytes(&prepared->in[X]));
    return STATUS_OK;
}

static const kernel_t onednn_batch = {.name = "onednn",
                                      .prepare = prepare_batch_onednn,
                                      .run = prepared_run_primitive,
                                      .flags = KERNEL_NEEDS_ELEMENTS | KERNEL_FUSES_POST_OPS};
static const kernel_t onednn_layer = {.name = "onednn",
                                      .prepare = prepare_layer_onednn,
                                      .run = prepared_run_primitive,
                                      .flags = KERNEL_NEEDS_ELEMENTS};

/* ---- our own batch norm: x * scale[c] + shift[c]; both are 0 for padded channels ---- */

static void want_contiguous(const op_call_t *call, prepared_t *prepared)
{
    accept_contiguous(call, prepared, WEIGHT, call->n_in - 1);
}

/* Element of an operand, or `absent` if there is no such operand. */
static double element(const prepared_t *prepared, void *const *in, int operand, int64_t index,
                      double absent)
{
    if (in[operand] == NULL) return absent;
    dtype_t dtype = prepared->in[operand].dtype;
    return dtype_load(dtype, (const char *)in[operand] + index * (int64_t)dtype_size(dtype));
}

static status_t prepare_batch_native(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    walk_t walk;
    const batch_attrs_t *attrs = call->attrs;
    if (attrs->post.n > 0 && (call->in[X]->dtype != DTYPE_F32 || post_operands(&attrs->post) > 0))
        return prepared_decline(prepared, "native: of post-ops functions of f32");
    TRY(walk_follow(call, prepared, true));
    want_contiguous(call, prepared);
    walk_channels(&prepared->in[X], &walk);
    prepared->overwrites = 1u << X;
    prepared->scratch_bytes = (size_t)(walk.n_blocks * walk.block) * 2 * sizeof(double);
    prepared->cost_ns = cost_run(ctx, "native", 0.0, 2.0 * (double)info_bytes(&prepared->in[X]));
    return STATUS_OK;
}

static bool is_all_f32(const prepared_t *prepared, void *const *in)
{
    bool is_f32 = true;
    for (int i = X; i <= VAR; i++) is_f32 &= in[i] == NULL || prepared->in[i].dtype == DTYPE_F32;
    return is_f32;
}

/* Stores all scales, then all shifts, in scratch: as f32 if x is f32, else as f64. */
static void make_factors(const prepared_t *prepared, void *const *in, const walk_t *walk,
                         void *scratch)
{
    const batch_attrs_t *attrs = prepared->attrs;
    const int64_t n = walk->n_blocks * walk->block;
    const size_t size = prepared->in[X].dtype == DTYPE_F32 ? sizeof(float) : sizeof(double);
    memset(scratch, 0, 2 * (size_t)n * size);
    if (is_all_f32(prepared, in)) {
        moments_factors(isa_best(), walk->channels, attrs->epsilon, in[WEIGHT], in[BIAS], in[MEAN],
                        in[VAR], scratch, (float *)scratch + n);
        return;
    }
    for (int64_t c = 0; c < walk->channels; c++) {
        const double scale = element(prepared, in, WEIGHT, c, 1.0) /
                             sqrt(element(prepared, in, VAR, c, 0.0) + attrs->epsilon);
        const double shift = element(prepared, in, BIAS, c, 0.0) -
                             element(prepared, in, MEAN, c, 0.0) * scale;
        if (size == sizeof(float)) {
            ((float *)scratch)[c] = (float)scale;
            ((float *)scratch)[n + c] = (float)shift;
        } else {
            ((double *)scratch)[c] = scale;
            ((double *)scratch)[n + c] = shift;
        }
    }
}

typedef struct pieces {
    walk_t walk;
    dtype_t dtype;
    const char *scale, *shift; /* per channel, f32 or f64 */
    post_rest_t post;
    const char *x;
    char *out;
} pieces_t;

static void run_pieces(void *user, int64_t first, int64_t last)
{
    const pieces_t *pieces = user;
    const int64_t size = (int64_t)dtype_size(pieces->dtype);
    const int64_t factor = pieces->dtype == DTYPE_F32 ? sizeof(float) : sizeof(double);
    for (int64_t i = first; i < last; i++) {
        const walk_piece_t piece = walk_piece(&pieces->walk, i);
        char *to = pieces->out + piece.offset * size;
        moments_apply(isa_best(), pieces->dtype, piece.rows, piece.width, pieces->walk.block == 1,
                      pieces->scale + piece.channel * factor,
                      pieces->shift + piece.channel * factor, pieces->x + piece.offset * size, to);
        post_finish(&pieces->post, (void *)to, piece.rows * piece.width);
    }
}

static status_t run_batch_native(context_t *ctx, const prepared_t *prepared, void *const *in,
                                 void *const *out, void *scratch)
{
    pieces_t pieces = {.dtype = prepared->in[X].dtype,
                       .scale = scratch,
                       .post = {&((const batch_attrs_t *)prepared->kernel_attrs)->post, 0},
                       .x = in[X],
                       .out = out[0]};
    const walk_t *walk = &pieces.walk;
    walk_channels(&prepared->in[X], &pieces.walk);
    make_factors(prepared, in, walk, scratch);
    pieces.shift = pieces.scale +
                   walk->n_blocks * walk->block *
                       (int64_t)(pieces.dtype == DTYPE_F32 ? sizeof(float) : sizeof(double));
    threads_share(threads_for(ctx, walk_elements(&prepared->in[X])), walk_pieces(walk), run_pieces,
                  &pieces);
    if (!post_keep_zero(&pieces.post)) walk_zero_padding(&prepared->out[0], out[0]);
    return STATUS_OK;
}

static const kernel_t native_batch = {.name = "native",
                                      .prepare = prepare_batch_native,
                                      .run = run_batch_native,
                                      .flags = KERNEL_FUSES_POST_OPS};

/* ---- our own layer and rms norm ----
 *
 * Three passes over each row compute its mean (not for rms_norm), its variance and the result. */

static status_t prepare_layer_native(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    TRY(accept_plain(call, prepared, X));
    TRY(accept_out_plain(call, prepared, 0));
    want_contiguous(call, prepared);
    prepared->overwrites = 1u << X;
    prepared->cost_ns = cost_run(ctx, "native", 0.0, 4.0 * (double)info_bytes(&prepared->in[X]));
    return STATUS_OK;
}

static bool is_f32(const prepared_t *prepared, void *const *in, int operand)
{
    return operand >= prepared->n_in || in[operand] == NULL ||
           prepared->in[operand].dtype == DTYPE_F32;
}

static void normalize_row(const prepared_t *prepared, void *const *in, int64_t n, const char *src,
                          char *dst)
{
    const layer_attrs_t *attrs = prepared->attrs;
    const dtype_t dtype = prepared->in[X].dtype;
    const int64_t size = (int64_t)dtype_size(dtype);
    const bool has_bias = prepared->n_in > BIAS && in[BIAS] != NULL;
    const isa_t isa = isa_best();
    double mean = 0.0;
    if (!is_rms(prepared->op)) mean = moments_line(isa, dtype, n, src, MOMENT_SUM, 0.0) / (double)n;
    double squares = moments_line(isa, dtype, n, src, MOMENT_SQUARES, mean);
    double scale = 1.0 / sqrt(squares / (double)n + attrs->epsilon);
    for (int64_t i = 0; i < n; i++) {
        double value = (dtype_load(dtype, src + i * size) - mean) * scale;
        value *= element(prepared, in, WEIGHT, i, 1.0);
        if (has_bias) value += element(prepared, in, BIAS, i, 0.0);
        dtype_store(dtype, dst + i * size, value);
    }
}

typedef struct rows {
    const prepared_t *prepared;
    void *const *in;
    int64_t n; /* elements in a row */
    char *out;
} rows_t;

static void normalize_rows(void *user, int64_t first, int64_t last)
{
    const rows_t *rows = user;
    const prepared_t *prepared = rows->prepared;
    const int64_t bytes = rows->n * (int64_t)dtype_size(prepared->in[X].dtype);
    const char *x = (const char *)rows->in[X] + first * bytes;
    char *out = rows->out + first * bytes;
    if (is_f32(prepared, rows->in, X) && is_f32(prepared, rows->in, WEIGHT) &&
        is_f32(prepared, rows->in, BIAS)) {
        const layer_attrs_t *attrs = prepared->attrs;
        moments_normalize(isa_best(), last - first, rows->n, !is_rms(prepared->op), attrs->epsilon,
                          (const void *)x, rows->in[WEIGHT],
                          prepared->n_in > BIAS ? rows->in[BIAS] : NULL, (void *)out);
        return;
    }
    for (int64_t row = first; row < last; row++, x += bytes, out += bytes)
        normalize_row(prepared, rows->in, rows->n, x, out);
}

static status_t run_layer_native(context_t *ctx, const prepared_t *prepared, void *const *in,
                                 void *const *out, void *scratch)
{
    (void)scratch;
    int64_t n_rows = 0;
    rows_t rows = {prepared, in, 0, out[0]};
    layer_rows(&prepared->in[X], prepared->attrs, &n_rows, &rows.n);
    threads_share(threads_for(ctx, n_rows * rows.n), n_rows, normalize_rows, &rows);
    return STATUS_OK;
}

static const kernel_t native_layer = {
    .name = "native", .prepare = prepare_layer_native, .run = run_layer_native};

/* ---- gradients of batch norm with given statistics ---- */

/* Sums over all dimensions except channels; bf16 and f16 in f32. */
static value_t sum_channels(const gradient_call_t *call, value_t x)
{
    int64_t dims[TENSOR_MAX_RANK] = {0, 2, 3, 4};
    const int rank = emit_info(call->emitter, call->in[X])->rank;
    x = emit_widen(call->emitter, x);
    return emit_reduce(call->emitter, &op_def_sum, x, rank > 1 ? rank - 1 : 0, dims, false);
}

static value_t emit_norm(const gradient_call_t *call, value_t x, value_t weight, value_t mean)
{
    const value_t in[] = {x, weight, VALUE_NONE, mean, call->in[VAR]};
    return emit_op(call->emitter, &op_def_batch_norm, call->attrs, 5, in);
}

/* With g = grad, dx = g weight / sqrt(var + epsilon): the batch norm of g with mean 0 and no
 * bias. */
static void pass_batch(const gradient_call_t *call)
{
    emitter_t *e = call->emitter;
    const value_t g = call->out_grad[0], weight = call->in[WEIGHT];
    const value_t zero = emit_mul(e, call->in[VAR], 0.0);
    const value_t of_x = emit_norm(call, g, weight, zero);
    const double epsilon = ((const batch_attrs_t *)call->attrs)->epsilon;
    call->in_grad[X] = of_x;
    if (call->is_wanted[BIAS])
        call->in_grad[BIAS] = emit_cast(e, sum_channels(call, g),
                                        emit_info(e, call->in[BIAS])->dtype);
    if (call->is_wanted[MEAN]) {
        const value_t wide = emit_widen(e, g);
        const value_t exact = wide == g ? of_x : emit_norm(call, wide, weight, zero);
        const value_t sum = emit_unary(e, &op_def_neg, sum_channels(call, exact));
        call->in_grad[MEAN] = emit_cast(e, sum, emit_info(e, call->in[MEAN])->dtype);
    }
    if (!call->is_wanted[WEIGHT] && !call->is_wanted[VAR]) return;
    const value_t normal = emit_norm(call, emit_widen(e, call->in[X]), VALUE_NONE, call->in[MEAN]);
    const value_t dot = sum_channels(call, emit_binary(e, &op_def_mul, emit_widen(e, g), normal));
    if (call->is_wanted[WEIGHT])
        call->in_grad[WEIGHT] = emit_cast(e, dot, emit_info(e, weight)->dtype);
    if (!call->is_wanted[VAR]) return;
    const value_t scaled = weight == VALUE_NONE ? dot : emit_binary(e, &op_def_mul, dot, weight);
    const value_t part = emit_binary(e, &op_def_div, scaled, emit_add(e, call->in[VAR], epsilon));
    call->in_grad[VAR] = emit_cast(e, emit_mul(e, part, -0.5), emit_info(e, call->in[VAR])->dtype);
}

/* ---- definitions ---- */

const opdef_t op_def_batch_norm = {
    .name = "batch_norm",
    .preference = OP_FOLLOWS,
    .traits = TRAIT_POST_OPS | TRAIT_POST_FUNCTIONS | TRAIT_BATCHED,
    .attrs = {sizeof(batch_attrs_t), 2, batch_fields},
    OPERANDS(operands),
    .n_outputs = 1,
    .infer = infer_batch,
    .infers_symbols = true,
    .kernels = KERNELS(&onednn_batch, &native_batch),
    .spec = spec_batch,
    .gradient = GRADIENT(.pass = pass_batch,
                         .reads_in = 1u << X | 1u << WEIGHT | 1u << MEAN | 1u << VAR)};

const opdef_t op_def_layer_norm = {.name = "layer_norm",
                                   .variant = VARIANT_layer_norm,
                                   .preference = OP_FOLLOWS,
                                   .attrs = {sizeof(layer_attrs_t), 2, layer_fields},
                                   .n_operands = 3,
                                   .operands = operands,
                                   .n_outputs = 1,
                                   .infer = infer_layer,
                                   .infers_symbols = true,
                                   .kernels = KERNELS(&onednn_layer, &native_layer),
                                   .spec = spec_layer,
                                   .gradient = &layer_norm_gradient};

const opdef_t op_def_rms_norm = {.name = "rms_norm",
                                 .variant = VARIANT_rms_norm,
                                 .preference = OP_FOLLOWS,
                                 .attrs = {sizeof(layer_attrs_t), 2, layer_fields},
                                 .n_operands = 2,
                                 .operands = operands,
                                 .n_outputs = 1,
                                 .infer = infer_layer,
                                 .infers_symbols = true,
                                 .kernels = KERNELS(&native_layer),
                                 .spec = spec_layer,
                                 .gradient = &rms_norm_gradient};

/* ---- public ---- */

status_t op_batch_norm(context_t *ctx, const tensor_t *x, const tensor_t *weight,
                       const tensor_t *bias, const tensor_t *running_mean,
                       const tensor_t *running_var, double epsilon, tensor_t **out)
{
    const tensor_t *in[] = {x, weight, bias, running_mean, running_var};
    batch_attrs_t attrs = {.epsilon = epsilon};
    return dispatch_run(ctx, &op_def_batch_norm, &attrs, 5, in, NULL, out);
}

status_t op_layer_norm(context_t *ctx, const tensor_t *x, int n_dims, const tensor_t *weight,
                       const tensor_t *bias, double epsilon, tensor_t **out)
{
    const tensor_t *in[] = {x, weight, bias};
    layer_attrs_t attrs = {n_dims, epsilon};
    return dispatch_run(ctx, &op_def_layer_norm, &attrs, 3, in, NULL, out);
}

status_t op_rms_norm(context_t *ctx, const tensor_t *x, int n_dims, const tensor_t *weight,
                     double epsilon, tensor_t **out)
{
    const tensor_t *in[] = {x, weight};
    layer_attrs_t attrs = {n_dims, epsilon};
    return dispatch_run(ctx, &op_def_rms_norm, &attrs, 2, in, NULL, out);
}
