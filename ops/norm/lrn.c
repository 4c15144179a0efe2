/* Local response normalisation across channels, and its gradient. */
#include <math.h>
#include <string.h>

#include "dispatch/choose/choose_impl.h"
#include "kernels/norm/lrn_impl.h"
#include "ops/accept_impl.h"
#include "ops/gradient_impl.h"
#include "ops/walk_impl.h"
#include "tensor/sym/sizes_impl.h"
#include "tensor/threads/threads_impl.h"

/* ---- attributes ---- */

static const attr_field_t fields[] = {FIELD_OR(lrn_t, ATTR_INT, size, 0, 5),
                                      FIELD_FLOAT(lrn_t, alpha, 1e-4),
                                      FIELD_FLOAT(lrn_t, beta, 0.75), FIELD_FLOAT(lrn_t, k, 1.0)};

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false}};
static const operand_t backward_operands[] = {{"x", ROLE_ACTIVATION, false, false},
                                              {"grad", ROLE_ACTIVATION, false, false}};
enum { X, GRAD };

/* ---- inference ---- */

static status_t lrn_infer(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)out_n;
    const lrn_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[X];
    REQUIRE(ctx, x->rank >= 2, "%s: x is %s, rank 2 or more is needed", call->op->name,
            info_brief(x));
    REQUIRE(ctx, dtype_is_floating(x->dtype), "%s: x is %s, a floating type is needed",
            call->op->name, info_brief(x));
    REQUIRE(ctx, sym_at_most(ctx, 1, attrs->size), "%s: size=%lld, at least 1 is needed",
            call->op->name, (long long)attrs->size);
    out[0] = info_dense(x->dtype, x->rank, x->sizes);
    return STATUS_OK;
}

static status_t lrn_backward_infer(context_t *ctx, const op_call_t *call, int *out_n,
                                   tensor_info_t *out)
{
    const tensor_info_t *x = call->in[X], *grad = call->in[GRAD];
    TRY(lrn_infer(ctx, call, out_n, out));
    REQUIRE(ctx, sizes_are_like(ctx, grad, x), "%s: grad is %s, x is %s, equal ones are needed",
            call->op->name, info_brief(grad), info_brief(x));
    return STATUS_OK;
}

/* ---- specification ---- */

/* k + alpha / size * sum(x^2) over the window of channel index[1]. */
static double spec_base(const spec_call_t *call, const int64_t *index)
{
    const lrn_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[X];
    int64_t at[TENSOR_MAX_RANK], end;
    double sum = 0.0;
    for (int d = 0; d < x->rank; d++) at[d] = index[d];
    for (lrn_window(attrs, index[1], x->sizes[1], &at[1], &end); at[1] < end; at[1]++)
        sum += spec_at(call, X, at) * spec_at(call, X, at);
    return attrs->k + attrs->alpha * sum / (double)attrs->size;
}

static double lrn_spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    return spec_at(call, X, index) /
           pow(spec_base(call, index), ((const lrn_t *)call->attrs)->beta);
}

static double lrn_backward_spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    const lrn_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[X];
    int64_t at[TENSOR_MAX_RANK], end;
    double sum = 0.0;
    for (int d = 0; d < x->rank; d++) at[d] = index[d];
    for (lrn_reached(attrs, index[1], x->sizes[1], &at[1], &end); at[1] < end; at[1]++)
        sum += spec_at(call, GRAD, at) * spec_at(call, X, at) *
               pow(spec_base(call, at), -attrs->beta - 1.0);
    return spec_at(call, GRAD, index) * pow(spec_base(call, index), -attrs->beta) -
           2.0 * attrs->alpha * attrs->beta / (double)attrs->size * spec_at(call, X, index) * sum;
}

/* ---- kernel on oneDNN ---- */

static status_t prepare_onednn(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const lrn_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[X];
    if (x->dtype != DTYPE_F32 && x->dtype != DTYPE_BF16)
        return prepared_decline(prepared, "onednn: dtype %s", dtype_name(x->dtype));
    if (attrs->size % 2 == 0)
        return prepared_decline(prepared, "onednn: size=%lld would take one channel less",
                                (long long)attrs->size);
    tensor_info_t src = *x, dst = call->out[0];
    onednn_problem_t problem = {.kind = ONEDNN_LRN,
                                .algorithm = ONEDNN_LRN_ACROSS_CHANNELS,
                                .n_src = 1,
                                .src = &src,
                                .dst = &dst,
                                .size = attrs->size,
                                .alpha = (float)attrs->alpha,
                                .beta = (float)attrs->beta,
                                .k = (float)attrs->k};
    op_call_t own = *call;
    own.keep_formats = true;
    return choose_formats(ctx, &own, prepared, &problem, 0.0);
}

static const kernel_t onednn = {.name = "onednn",
                                .prepare = prepare_onednn,
                                .run = prepared_run_primitive,
                                .flags = KERNEL_NEEDS_ELEMENTS};

/* ---- our own kernel ---- */

#define TILE 128     /* positions (plain format) or channels (other formats) processed at a time */
#define SIZE_FAST 33 /* largest window of the vectorized loops */

static status_t prepare_native(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    TRY(walk_follow(call, prepared, true));
    prepared->cost_ns = cost_run(ctx, "native", 0.0, 6.0 * (double)info_bytes(&prepared->in[X]));
    return STATUS_OK;
}

/* dst = src * (k + alpha / size * sum)^-beta. */
static void finish(const lrn_t *attrs, int64_t n, const float *sum, const float *src, float *dst)
{
    const float scale = (float)(attrs->alpha / (double)attrs->size), k = (float)attrs->k;
    const float power = (float)-attrs->beta;
    if (attrs->beta == 0.75)
        for (int64_t i = 0; i < n; i++) {
            float base = k + scale * sum[i], root = sqrtf(base);
            dst[i] = src[i] / (root * sqrtf(root));
        }
    else
        for (int64_t i = 0; i < n; i++) dst[i] = src[i] * powf(k + scale * sum[i], power);
}

/* Computes n adjacent positions in the plain format, one channel at a time. */
static void run_positions(const lrn_t *attrs, const walk_t *walk, const float *src, float *dst,
                          int64_t n)
{
    float sum[TILE];
    for (int64_t c = 0; c < walk->channels; c++) {
        int64_t first, end;
        lrn_window(attrs, c, walk->channels, &first, &end);
        for (int64_t i = 0; i < n; i++) sum[i] = 0.0f;
        for (; first < end; first++) {
            const float *row = src + first * walk->spatial;
            for (int64_t i = 0; i < n; i++) sum[i] += row[i] * row[i];
        }
        finish(attrs, n, sum, src + c * walk->spatial, dst + c * walk->spatial);
    }
}

/* Computes all channels of one position in channels last or blocked channels; src and dst point to
 * channel 0. For each tile of channels, gathers the squares of its channels and their neighbours,
 * then sums each window. */
static void run_channels(const lrn_t *attrs, const walk_t *walk, const float *src, float *dst)
{
    const int64_t before = attrs->size / 2, block = walk->block;
    float squares[TILE + SIZE_FAST], sum[TILE];
    for (int64_t c = 0; c < walk->channels; c += TILE) {
        int64_t n = walk->channels - c < TILE ? walk->channels - c : TILE;
        for (int64_t i = 0; i < n + attrs->size; i++) squares[i] = 0.0f;
        int64_t from = c > before ? c - before : 0, end = c + n + (attrs->size - 1) / 2;
        if (end > walk->channels) end = walk->channels;
        while (from < end) {
            const float *run = src + from / block * walk->spatial * block + from % block;
            float *to = squares + (from - c + before);
            int64_t count = block - from % block < end - from ? block - from % block : end - from;
            for (int64_t i = 0; i < count; i++) to[i] = run[i] * run[i];
            from += count;
        }
        for (int64_t i = 0; i < n; i++) sum[i] = squares[i];
        for (int64_t j = 1; j < attrs->size; j++)
            for (int64_t i = 0; i < n; i++) sum[i] += squares[i + j];
        for (int64_t i = 0; i < n;) {
            int64_t at = (c + i) / block * walk->spatial * block + (c + i) % block;
            int64_t left = block - (c + i) % block, count = left < n - i ? left : n - i;
            finish(attrs, count, sum + i, src + at, dst + at);
            i += count;
        }
    }
}

/* Computes all channels of one position in double, for any dtype and window. */
static void run_any(const lrn_t *attrs, const walk_t *walk, dtype_t dtype, const char *src,
                    char *dst)
{
    const int64_t size = (int64_t)dtype_size(dtype), block = walk->block;
    for (int64_t c = 0; c < walk->channels; c++) {
        int64_t first, end, at = (c / block * walk->spatial * block + c % block) * size;
        double sum = 0.0;
        for (lrn_window(attrs, c, walk->channels, &first, &end); first < end; first++) {
            double x = dtype_load(
                dtype, src + (first / block * walk->spatial * block + first % block) * size);
            sum += x * x;
        }
        double base = attrs->k + attrs->alpha * sum / (double)attrs->size;
        dtype_store(dtype, dst + at, dtype_load(dtype, src + at) / pow(base, attrs->beta));
    }
}

typedef struct tiles {
    const prepared_t *prepared;
    walk_t walk;
    int64_t step, n_tiles; /* positions in a tile, tiles in an image */
    const char *x;
    char *out;
} tiles_t;

static bool is_fast(const prepared_t *prepared)
{
    return prepared->in[X].dtype == DTYPE_F32 &&
           ((const lrn_t *)prepared->attrs)->size <= SIZE_FAST;
}

static void run_tiles(void *user, int64_t first, int64_t last)
{
    const tiles_t *tiles = user;
    const lrn_t *attrs = tiles->prepared->attrs;
    const walk_t *walk = &tiles->walk;
    const dtype_t dtype = tiles->prepared->in[X].dtype;
    for (int64_t i = first; i < last; i++) {
        const int64_t n = i / tiles->n_tiles, s = i % tiles->n_tiles * tiles->step;
        const int64_t left = walk->spatial - s;
        const int64_t at = (n * walk->n_blocks * walk->spatial + s) * walk->block *
                           (int64_t)dtype_size(dtype);
        const void *src = tiles->x + at;
        void *dst = tiles->out + at;
        if (!is_fast(tiles->prepared))
            run_any(attrs, walk, dtype, src, dst);
        else if (walk->block == 1)
            run_positions(attrs, walk, src, dst, left < tiles->step ? left : tiles->step);
        else
            run_channels(attrs, walk, src, dst);
    }
}

static status_t run_native(context_t *ctx, const prepared_t *prepared, void *const *in,
                           void *const *out, void *scratch)
{
    (void)scratch;
    tiles_t tiles = {.prepared = prepared, .x = in[X], .out = out[0]};
    walk_channels(&prepared->in[X], &tiles.walk);
    tiles.step = is_fast(prepared) && tiles.walk.block == 1 ? TILE : 1;
    tiles.n_tiles = (tiles.walk.spatial + tiles.step - 1) / tiles.step;
    threads_share(threads_for(ctx, walk_elements(&prepared->in[X])), tiles.walk.n * tiles.n_tiles,
                  run_tiles, &tiles);
    walk_zero_padding(&prepared->out[0], out[0]);
    return STATUS_OK;
}

static const kernel_t native = {.name = "native", .prepare = prepare_native, .run = run_native};
static const kernel_t *const kernels[] = {&onednn, &native, NULL};

/* ---- gradient ----
 *
 * Copies all channels of up to POSITIONS positions from x's format to [channels][POSITIONS],
 * and computes there. */

#define POSITIONS LRN_POSITIONS
#define MAX_PARTS 16
enum { BUFFER_X, BUFFER_GRAD, BUFFER_SCALE, BUFFER_TERM, N_BUFFERS };

/* Number of parts that are divided among the threads. Each part has its own buffers; the number
 * depends only on sizes, so that prepare_backward can count their bytes. */
static int64_t count_parts(const walk_t *walk, int64_t *out_n_tiles)
{
    const int64_t n = walk->n * ((walk->spatial + POSITIONS - 1) / POSITIONS);
    *out_n_tiles = n;
    return n < MAX_PARTS ? n : MAX_PARTS;
}

static size_t buffer_bytes(const walk_t *walk, dtype_t dtype)
{
    return (size_t)(walk->channels * POSITIONS) *
           (dtype == DTYPE_F64 ? sizeof(double) : sizeof(float));
}

static status_t prepare_backward(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    walk_t walk = {0};
    int64_t n_tiles = 0;
    TRY(walk_follow(call, prepared, true));
    const format_t own = info_tag(&prepared->in[X]);
    TRY(accept_format(call, prepared, GRAD, &own));
    if (walk_channels(&prepared->in[X], &walk))
        prepared->scratch_bytes = (size_t)count_parts(&walk, &n_tiles) * N_BUFFERS *
                                  buffer_bytes(&walk, prepared->in[X].dtype);
    prepared->overwrites = 1u << X | 1u << GRAD;
    prepared->cost_ns = cost_run(ctx, "native", 0.0, 10.0 * (double)info_bytes(&prepared->in[X]));
    return STATUS_OK;
}

/* Processes `count` positions; `first` is the index of the first one in channel 0. */
static void run_positions_backward(const prepared_t *prepared, const walk_t *walk, int64_t first,
                                   int64_t count, char *buffers, void *const *in, char *out)
{
    const dtype_t dtype = prepared->in[X].dtype;
    const dtype_t compute = dtype == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32;
    const int64_t size = (int64_t)dtype_size(dtype), bytes = (int64_t)buffer_bytes(walk, dtype);
    const int64_t row = POSITIONS * (int64_t)dtype_size(compute), block = walk->block;
    if (count < POSITIONS) memset(buffers, 0, (size_t)(2 * bytes));
    for (int64_t c = 0; c < walk->channels; c++) {
        const int64_t at = (first + c / block * walk->spatial * block + c % block) * size;
        for (int i = X; i <= GRAD; i++)
            dtype_cast(count, dtype, (const char *)in[i] + at, block, compute,
                       buffers + (BUFFER_X + i) * bytes + c * row, 1);
    }
    void *x = buffers, *grad = buffers + BUFFER_GRAD * bytes;
    void *scale = buffers + BUFFER_SCALE * bytes, *term = buffers + BUFFER_TERM * bytes;
    lrn_gradient(isa_best(), compute, prepared->attrs, walk->channels, x, grad, scale, term);
    for (int64_t c = 0; c < walk->channels; c++)
        dtype_cast(count, compute, buffers + c * row, 1, dtype,
                   out + (first + c / block * walk->spatial * block + c % block) * size, block);
}

typedef struct parts {
    const prepared_t *prepared;
    walk_t walk;
    int64_t n, n_tiles; /* parts; tiles of POSITIONS positions in the batch */
    void *const *in;
    char *out, *buffers;
} parts_t;

static void run_parts(void *user, int64_t begin, int64_t end)
{
    const parts_t *parts = user;
    const walk_t *walk = &parts->walk;
    const int64_t in_row = (walk->spatial + POSITIONS - 1) / POSITIONS;
    const size_t bytes = N_BUFFERS * buffer_bytes(walk, parts->prepared->in[X].dtype);
    for (int64_t part = begin; part < end; part++) {
        const int64_t last = parts->n_tiles * (part + 1) / parts->n;
        for (int64_t i = parts->n_tiles * part / parts->n; i < last; i++) {
            const int64_t s = i % in_row * POSITIONS, left = walk->spatial - s;
            const int64_t first = (i / in_row * walk->n_blocks * walk->spatial + s) * walk->block;
            run_positions_backward(parts->prepared, walk, first,
                                   left < POSITIONS ? left : POSITIONS,
                                   parts->buffers + (size_t)part * bytes, parts->in, parts->out);
        }
    }
}

static status_t run_backward(context_t *ctx, const prepared_t *prepared, void *const *in,
                             void *const *out, void *scratch)
{
    parts_t parts = {.prepared = prepared, .in = in, .out = out[0], .buffers = scratch};
    if (!walk_channels(&prepared->in[X], &parts.walk)) return STATUS_OK;
    parts.n = count_parts(&parts.walk, &parts.n_tiles);
    threads_share(threads_for(ctx, walk_elements(&prepared->in[X])), parts.n, run_parts, &parts);
    walk_zero_padding(&prepared->out[0], out[0]);
    return STATUS_OK;
}

static void lrn_pass(const gradient_call_t *call)
{
    const value_t in[] = {call->in[X], call->out_grad[0]};
    call->in_grad[X] = emit_op(call->emitter, &op_def_lrn_backward, call->attrs, 2, in);
}

/* ---- definitions ---- */

const opdef_t op_def_lrn = {.name = "lrn",
                            FUNCTIONS_OF(lrn),
                            .preference = OP_FOLLOWS,
                            .attrs = {sizeof(lrn_t), 4, fields},
                            OPERANDS(operands),
                            .kernels = kernels,
                            .gradient = GRADIENT(.pass = lrn_pass, .reads_in = 1u << X)};

const opdef_t op_def_lrn_backward = {
    .name = "lrn_backward",
    FUNCTIONS_OF(lrn_backward),
    .preference = OP_FOLLOWS,
    .attrs = {sizeof(lrn_t), 4, fields},
    OPERANDS(backward_operands),
    .kernels = KERNELS(KERNEL("native", prepare_backward, run_backward))};

/* ---- public ---- */

status_t op_lrn(context_t *ctx, const tensor_t *x, int64_t size, double alpha, double beta,
                double k, tensor_t **out)
{
    TRY(context_output(ctx, "lrn", out));
    lrn_t attrs = {size, alpha, beta, k};
    REQUIRE(ctx, size >= 1, "lrn: size=%lld, at least 1 is needed", (long long)size);
    return dispatch_run(ctx, &op_def_lrn, &attrs, 1, &x, NULL, out);
}
