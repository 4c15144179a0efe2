/* Dropout in training, as two operators: draw_seed takes a seed from the context's generator at
 * every run, of a plan as well; dropout_by follows from x and that seed alone, so that the gradient
 * passes by the same operator with the same seed, and no mask is kept. */
#include "dispatch/choose_impl.h"
#include "ops/accept_impl.h"
#include "ops/gradient_impl.h"
#include "ops/random/generator_impl.h"
#include "ops/walk_impl.h"
#include "tensor/context_impl.h"
#include "tensor/simd_impl.h"
#include "tensor/threads_impl.h"

/* ---- draw_seed ---- */

static status_t infer_seed(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)ctx, (void)call, (void)out_n;
    out[0] = info_dense(DTYPE_S64, 0, NULL);
    return STATUS_OK;
}

static status_t run_seed(context_t *ctx, const prepared_t *prepared, void *const *in,
                         void *const *out, void *scratch)
{
    (void)prepared, (void)in, (void)scratch;
    *(int64_t *)out[0] = (int64_t)(context_random(ctx) >> 1);
    return STATUS_OK;
}

static const kernel_t seed_native = {
    .name = "native", .prepare = ops_prepare_dense, .run = run_seed};
static const kernel_t *const seed_kernels[] = {&seed_native, NULL};

/* No specification knows what the generator gives next. */
const opdef_t op_def_draw_seed = {.name = "draw_seed",
                                  .preference = OP_DENSE,
                                  .traits = TRAIT_DRAWS,
                                  .n_outputs = 1,
                                  .infer = infer_seed,
                                  .infers_symbols = true,
                                  .kernels = seed_kernels,
                                  .gradient = &gradient_zero};

/* ---- dropout_by: attributes ---- */

typedef struct attrs {
    double p;
    int64_t leading_dims; /* an index of that many dimensions is dropped as a whole; 0: elements */
} attrs_t;

static const attr_field_t fields[] = {
    {"p", ATTR_FLOAT, false, offsetof(attrs_t, p), 0, 0.5, NULL},
    {"leading_dims", ATTR_INT, false, offsetof(attrs_t, leading_dims), 0, 0, NULL}};

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false},
                                     {"seed", ROLE_STATE, false, false}};
enum { X, SEED };

/* ---- inference and specification ---- */

static status_t infer(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)out_n;
    const attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[X], *seed = call->in[SEED];
    REQUIRE(ctx, attrs->p >= 0.0 && attrs->p <= 1.0, "dropout: p=%g, 0 to 1 is needed", attrs->p);
    REQUIRE(ctx, dtype_is_floating(x->dtype), "dropout: x is %s, a floating dtype is needed",
            info_brief(x));
    REQUIRE(ctx,
            attrs->leading_dims >= 0 && attrs->leading_dims <= 2 && attrs->leading_dims <= x->rank,
            "dropout: leading_dims %lld of %s, 0 to 2 that x has are possible",
            (long long)attrs->leading_dims, info_brief(x));
    REQUIRE(ctx, seed->dtype == DTYPE_S64 && seed->rank == 0,
            "dropout: seed is %s, one s64 is needed", info_brief(seed));
    out[0] = info_dense(x->dtype, x->rank, x->sizes);
    return STATUS_OK;
}

/* What numbers are compared with, and kept elements multiplied by. */
typedef struct rule {
    int64_t seed;
    uint64_t least; /* numbers of 53 bits below it drop their element */
    double scale;
} rule_t;

static rule_t make_rule(const attrs_t *attrs, int64_t seed)
{
    return (rule_t){.seed = seed,
                    .least = (uint64_t)(attrs->p * 0x1p53),
                    .scale = attrs->p < 1.0 ? 1.0 / (1.0 - attrs->p) : 0.0};
}

static bool is_kept(const rule_t *rule, int64_t index)
{
    return generator_bits(rule->seed, index) >= rule->least;
}

static double spec(const spec_call_t *call, int output, const int64_t *index)
{
    const attrs_t *attrs = call->attrs;
    const tensor_info_t *x = &call->out[output];
    const int n = attrs->leading_dims > 0 ? (int)attrs->leading_dims : x->rank;
    const rule_t rule = make_rule(attrs, *(const int64_t *)call->data[SEED]);
    int64_t place = 0;
    for (int d = 0; d < n; d++) place = place * x->sizes[d] + index[d];
    return is_kept(&rule, place) ? spec_at(call, X, index) * rule.scale : 0.0;
}

/* ---- kernel of our own: pieces of one channel, or of some neighbouring ones ----
 *
 * Numbers are those of row-major elements, whatever the format. */

static status_t prepare_native(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const tensor_info_t *seed = call->in[SEED];
    TRY(walk_follow(call, prepared, true));
    prepared->in[SEED] = info_dense(seed->dtype, seed->rank, seed->sizes);
    prepared->overwrites = 1u << X;
    prepared->cost_ns = cost_run(ctx, "native", 0.0, 2.0 * (double)info_bytes(&prepared->in[X]));
    return STATUS_OK;
}

/* Elements of a row: their numbers are `step` apart, from `first` on. */
typedef struct row {
    int64_t n, first, step;
} row_t;

#define ROW(suffix, type)                                                                          \
    FOR_EACH_ISA static void row_##suffix(const rule_t *rule, const row_t *row, const type *x,     \
                                          type *out)                                               \
    {                                                                                              \
        const uint64_t base = generator_mix((uint64_t)rule->seed + GENERATOR_STEP);                \
        const uint64_t step = (uint64_t)row->step * GENERATOR_STEP;                                \
        const uint64_t first = base + ((uint64_t)row->first + 1) * GENERATOR_STEP;                 \
        const uint64_t least = rule->least;                                                        \
        const type scale = (type)rule->scale;                                                      \
        const int64_t n = row->n;                                                                  \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++)                                        \
        {                                                                                          \
            const uint64_t bits = generator_mix(first + (uint64_t)i * step) >> 11;                 \
            out[i] = bits >= least ? x[i] * scale : 0;                                             \
        }                                                                                          \
    }

ROW(f32, float)
ROW(f64, double)

#define CHUNK 256

static void run_row(const rule_t *rule, row_t row, dtype_t dtype, const char *x, char *out)
{
    const int64_t size = (int64_t)dtype_size(dtype);
    float value[CHUNK];
    if (dtype == DTYPE_F32) {
        row_f32(rule, &row, (const float *)(const void *)x, (float *)(void *)out);
        return;
    }
    if (dtype == DTYPE_F64) {
        row_f64(rule, &row, (const double *)(const void *)x, (double *)(void *)out);
        return;
    }
    for (int64_t at = 0, n = row.n; at < n; at += CHUNK) {
        row_t part = {n - at < CHUNK ? n - at : CHUNK, row.first + at * row.step, row.step};
        dtype_cast(part.n, dtype, x + at * size, 1, DTYPE_F32, value, 1);
        row_f32(rule, &part, value, value);
        dtype_cast(part.n, DTYPE_F32, value, 1, dtype, out + at * size, 1);
    }
}

/* A run of the kernel. */
typedef struct run {
    const tensor_info_t *x;
    walk_t walk;
    rule_t rule;
    int64_t leading_dims;
    const char *in;
    char *out;
} run_t;

/* The numbers of a row, which begins `spatial` positions into its image, at `channel`. */
static row_t number_row(const run_t *run, int64_t image, int64_t channel, int64_t spatial,
                        int64_t width)
{
    const walk_t *walk = &run->walk;
    const int64_t place = image * walk->channels + channel;
    const bool is_channel = walk->block == 1; /* else the row has one element of each channel */
    switch (run->leading_dims) {
    case 1: return (row_t){width, run->x->rank < 2 ? spatial : image, run->x->rank < 2};
    case 2: return (row_t){width, place, !is_channel};
    default: return (row_t){width, place * walk->spatial + spatial, is_channel ? 1 : walk->spatial};
    }
}

static void run_pieces(void *user, int64_t first, int64_t last)
{
    const run_t *run = user;
    const walk_t *walk = &run->walk;
    const int64_t size = (int64_t)dtype_size(run->x->dtype);
    for (int64_t i = first; i < last; i++) {
        const walk_piece_t piece = walk_piece(walk, i);
        const int64_t position = piece.offset / walk->block;
        const int64_t image = position / walk->spatial / walk->n_blocks;
        for (int64_t r = 0; r < piece.rows; r++) {
            const int64_t at = (piece.offset + r * piece.width) * size;
            const row_t row = number_row(run, image, piece.channel, (position + r) % walk->spatial,
                                         piece.width);
            run_row(&run->rule, row, run->x->dtype, run->in + at, run->out + at);
        }
    }
}

static status_t run_native(context_t *ctx, const prepared_t *prepared, void *const *in,
                           void *const *out, void *scratch)
{
    (void)scratch;
    const attrs_t *attrs = prepared->attrs;
    if (info_numel(&prepared->in[X]) == 0) return STATUS_OK;
    run_t run = {.x = &prepared->in[X],
                 .rule = make_rule(attrs, *(const int64_t *)in[SEED]),
                 .leading_dims = attrs->leading_dims,
                 .in = in[X],
                 .out = out[0]};
    walk_channels(run.x, &run.walk);
    threads_share(threads_for(ctx, walk_elements(run.x)), walk_pieces(&run.walk), run_pieces, &run);
    return STATUS_OK;
}

static const kernel_t native = {.name = "native", .prepare = prepare_native, .run = run_native};
static const kernel_t *const kernels[] = {&native, NULL};

/* ---- the rule: what was dropped has no gradient, what was kept has its scale ---- */

static void pass(const gradient_call_t *call)
{
    const value_t in[] = {call->out_grad[0], call->in[SEED]};
    call->in_grad[X] = emit_op(call->emitter, &op_def_dropout_by, call->attrs, 2, in);
}

static const gradient_t gradient = {.pass = pass, .reads_in = 1u << SEED};

/* ---- cases ---- */

static const char *const cases[] = {"(f32[2,3,7,5], s64[])",
                                    "(f32[1,17,9,9], s64[]) p=0.25",
                                    "(f32[2,31,6,6], s64[]) leading_dims=2",
                                    "(f32[3,17,6], s64[]) leading_dims=1",
                                    "(f32[1,32,40,40], s64[]) p=0.1",
                                    "(f32[1,17,3,4,5], s64[]) leading_dims=2 p=0.75",
                                    "(f32[5,13], s64[])",
                                    "(f32[7], s64[]) leading_dims=1",
                                    "(f32[4,8], s64[]) leading_dims=2",
                                    "(f32[], s64[])",
                                    "(f32[2,17,3], s64[]) p=0.0",
                                    "(f32[2,17,3], s64[]) p=1.0",
                                    "(bf16[2,17,25,20], s64[])",
                                    "(f16[2,3,5], s64[])",
                                    "(f64[2,7,3,3], s64[]) leading_dims=2",
                                    "(f32[0,3,4], s64[])",
                                    NULL};

/* ---- definition ---- */

const opdef_t op_def_dropout_by = {.name = "dropout_by",
                                   .preference = OP_FOLLOWS,
                                   .attrs = {sizeof(attrs_t), 2, fields},
                                   .n_operands = 2,
                                   .operands = operands,
                                   .n_outputs = 1,
                                   .infer = infer,
                                   .infers_symbols = true,
                                   .kernels = kernels,
                                   .spec = spec,
                                   .gradient = &gradient,
                                   .cases = cases};

/* ---- public ---- */

status_t op_dropout_train(context_t *ctx, const tensor_t *x, double p, int64_t leading_dims,
                          tensor_t **out)
{
    tensor_t *seed = NULL;
    TRY(context_output(ctx, "dropout", out));
    if (x == NULL) return context_null(ctx, "dropout", "x");
    TRY(dispatch_run(ctx, &op_def_draw_seed, NULL, 0, NULL, NULL, &seed));
    const attrs_t attrs = {p, leading_dims};
    const tensor_t *in[] = {x, seed};
    status_t status = dispatch_run(ctx, &op_def_dropout_by, &attrs, 2, in, NULL, out);
    ops_drop(ctx, seed);
    return status;
}
