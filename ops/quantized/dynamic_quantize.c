/* Quantization to u8, with a scale computed from the range of x: ONNX DynamicQuantizeLinear. */
#include <math.h>
#include <stdatomic.h>

#include "kernels/quantized/quantize_impl.h"
#include "ops/accept_impl.h"
#include "ops/ops_impl.h"
#include "tensor/threads/threads_impl.h"

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false}};
enum { X };
enum { INTEGERS, SCALE, ZERO };

static status_t dynamic_quantize_infer(context_t *ctx, const op_call_t *call, int *out_n,
                                       tensor_info_t *out)
{
    (void)out_n;
    const tensor_info_t *x = call->in[X];
    REQUIRE(ctx, x->dtype == DTYPE_F32, "dynamic_quantize: x is %s, f32 is needed", info_brief(x));
    out[INTEGERS] = info_dense(DTYPE_U8, x->rank, x->sizes);
    out[SCALE] = info_dense(DTYPE_F32, 0, NULL);
    out[ZERO] = info_dense(DTYPE_U8, 0, NULL);
    return STATUS_OK;
}

/* ---- scale and zero point for a range that contains 0 ---- */

typedef struct range {
    float least, most;
} range_t;

static float scale_of(range_t range)
{
    return range.least == range.most ? 1.0f : (range.most - range.least) / 255.0f;
}

static int32_t zero_of(range_t range)
{
    float zero = 0.0f - range.least / scale_of(range);
    if (!(zero > 0.0f)) return 0;
    return zero < 255.0f ? (int32_t)nearbyintf(zero) : 255;
}

static range_t widen(range_t range, float number)
{
    if (number < range.least) range.least = number;
    if (number > range.most) range.most = number;
    return range;
}

/* ---- specification ---- */

static double dynamic_quantize_spec(const spec_call_t *call, int output, const int64_t *index)
{
    const tensor_info_t *x = call->in[X];
    int64_t at[TENSOR_MAX_RANK] = {0};
    range_t range = {0.0f, 0.0f};
    if (info_numel(x) > 0) do {
            range = widen(range, (float)spec_at(call, X, at));
        } while (shape_next(x->rank, x->sizes, at));
    if (output == SCALE) return (double)scale_of(range);
    if (output == ZERO) return zero_of(range);
    float quotient = (float)spec_at(call, X, index) / scale_of(range);
    return quantize_spec((double)quotient, zero_of(range), DTYPE_U8);
}

/* ---- dense kernel ---- */

static status_t dynamic_quantize_prepare(context_t *ctx, const op_call_t *call,
                                         prepared_t *prepared)
{
    (void)ctx;
    if (call->layout == LAYOUT_MKLDNN) return prepared_decline(prepared, "native: dense only");
    format_t format = info_tag(call->in[X]);
    if (call->out_format != NULL && call->out_format->kind == FORMAT_TAG)
        format = *call->out_format;
    TRY(accept_format(call, prepared, X, &format));
    TRY(accept_out(call, prepared, INTEGERS, &format));
    TRY(accept_out_plain(call, prepared, SCALE));
    return accept_out_plain(call, prepared, ZERO);
}

static int64_t chunk_at(int64_t first, int64_t n)
{
    return n - first < QUANTIZE_CHUNK ? n - first : QUANTIZE_CHUNK;
}

typedef struct chunks {
    int64_t n; /* elements */
    const float *x;
    _Atomic(float) least, most;
    float scale;
    int32_t zero;
    uint8_t *out;
} chunks_t;

static void find_ranges(void *user, int64_t begin, int64_t end)
{
    chunks_t *c = user;
    for (int64_t i = begin; i < end; i++) {
        const int64_t first = i * QUANTIZE_CHUNK;
        range_t range = {0.0f, 0.0f};
        quantize_loops()->widen(chunk_at(first, c->n), c->x + first, &range.least, &range.most);
        float least = atomic_load(&c->least), most = atomic_load(&c->most);
        while (range.least < least && !atomic_compare_exchange_weak(&c->least, &least, range.least))
            continue;
        while (range.most > most && !atomic_compare_exchange_weak(&c->most, &most, range.most))
            continue;
    }
}

static void quantize_chunks(void *user, int64_t begin, int64_t end)
{
    const chunks_t *c = user;
    for (int64_t i = begin; i < end; i++) {
        const int64_t first = i * QUANTIZE_CHUNK, count = chunk_at(first, c->n);
        int32_t integers[QUANTIZE_CHUNK];
        quantize_divide(count, c->x + first, &c->scale, &c->zero, 0, DTYPE_U8, integers);
        quantize_loops()->store(count, integers, 1, c->out + first);
    }
}

static status_t dynamic_quantize_run(context_t *ctx, const prepared_t *prepared, void *const *in,
                                     void *const *out, void *scratch)
{
    (void)scratch;
    const int64_t n = info_numel(&prepared->in[X]),
                  n_chunks = (n + QUANTIZE_CHUNK - 1) / QUANTIZE_CHUNK;
    chunks_t chunks = {.n = n, .x = in[X], .out = out[INTEGERS]};
    threads_share(threads_for(ctx, n), n_chunks, find_ranges, &chunks);
    const range_t range = {chunks.least, chunks.most};
    *(float *)out[SCALE] = chunks.scale = scale_of(range);
    *(uint8_t *)out[ZERO] = (uint8_t)(chunks.zero = zero_of(range));
    threads_share(threads_for(ctx, n), n_chunks, quantize_chunks, &chunks);
    return STATUS_OK;
}

static const kernel_t native = {
    .name = "native", .prepare = dynamic_quantize_prepare, .run = dynamic_quantize_run};
static const kernel_t *const kernels[] = {&native, NULL};

const opdef_t op_def_dynamic_quantize = {.name = "dynamic_quantize",
                                         .preference = OP_DENSE,
                                         OPERANDS(operands),
                                         .n_outputs = 3,
                                         .infer = dynamic_quantize_infer,
                                         .infers_symbols = true,
                                         .kernels = kernels,
                                         .spec = dynamic_quantize_spec};

status_t op_dynamic_quantize(context_t *ctx, const tensor_t *x, tensor_t **out_integers,
                             tensor_t **out_scale, tensor_t **out_zero)
{
    tensor_t *out[] = {NULL, NULL, NULL};
    if (out_integers != NULL) *out_integers = NULL;
    if (out_scale != NULL) *out_scale = NULL;
    if (out_zero != NULL) *out_zero = NULL;
    if (out_integers == NULL || out_scale == NULL || out_zero == NULL)
        return context_null(ctx, "dynamic_quantize", "an output");
    int n = 3;
    TRY(dispatch_run(ctx, &op_def_dynamic_quantize, NULL, 1, &x, &n, out));
    *out_integers = out[INTEGERS];
    *out_scale = out[SCALE];
    *out_zero = out[ZERO];
    return STATUS_OK;
}
