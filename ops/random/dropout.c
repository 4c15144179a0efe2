/* Dropout in training consists of two operators. draw_seed takes a new seed from the context's
 * generator in every run, also in the runs of a graph's plan. dropout_by depends only on x and the
 * seed. So the gradient is dropout_by of grad with the same seed, and no mask needs to be
 * stored. */
#include "dispatch/choose/choose_impl.h"
#include "kernels/random/dropout_impl.h"
#include "kernels/random/generator_impl.h"
#include "ops/accept_impl.h"
#include "ops/gradient_impl.h"
#include "ops/walk_impl.h"
#include "tensor/context_impl.h"
#include "tensor/threads/threads_impl.h"

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

/* There is no specification, because it would depend on the state of the generator. */
const opdef_t op_def_draw_seed = {.name = "draw_seed",
                                  .preference = OP_DENSE,
                                  .traits = TRAIT_DRAWS,
                                  .n_outputs = 1,
                                  .infer = infer_seed,
                                  .infers_symbols = true,
                                  .kernels = KERNELS(KERNEL("native", ops_prepare_dense, run_seed)),
                                  .gradient = &gradient_zero};

/* ---- dropout_by: attributes ---- */

typedef struct attrs {
    double p;
    int64_t leading_dims; /* d > 0: elements with the same first d indices are dropped together */
} attrs_t;

static const attr_field_t fields[] = {FIELD_FLOAT(attrs_t, p, 0.5),
                                      FIELD_INT(attrs_t, leading_dims, 0)};

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false},
                                     {"seed", ROLE_STATE, false, false}};
enum { X, SEED };

/* ---- inference and specification ---- */

static status_t dropout_infer(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
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

typedef struct rule {
    int64_t seed;
    uint64_t least; /* an element is dropped if its 53-bit random number is below this */
    double scale;   /* factor of elements that are not dropped */
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

static double dropout_spec(const spec_call_t *call, int output, const int64_t *index)
{
    const attrs_t *attrs = call->attrs;
    const tensor_info_t *x = &call->out[output];
    const int n = attrs->leading_dims > 0 ? (int)attrs->leading_dims : x->rank;
    const rule_t rule = make_rule(attrs, *(const int64_t *)call->data[SEED]);
    int64_t place = 0;
    for (int d = 0; d < n; d++) place = place * x->sizes[d] + index[d];
    return is_kept(&rule, place) ? spec_at(call, X, index) * rule.scale : 0.0;
}

/* ---- our own kernel: pieces of one channel, or of several adjacent channels ----
 *
 * An element's number is its row-major index, whatever the format. */

static status_t dropout_prepare_native(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const tensor_info_t *seed = call->in[SEED];
    TRY(walk_follow(call, prepared, true));
    prepared->in[SEED] = info_dense(seed->dtype, seed->rank, seed->sizes);
    prepared->overwrites = 1u << X;
    prepared->cost_ns = cost_run(ctx, "native", 0.0, 2.0 * (double)info_bytes(&prepared->in[X]));
    return STATUS_OK;
}

#define CHUNK 256

static void run_row(const dropout_loops_t *loops, const dropout_row_t *row, dtype_t dtype,
                    const char *x, char *out)
{
    const int64_t size = (int64_t)dtype_size(dtype);
    float value[CHUNK];
    if (dtype == DTYPE_F32) {
        loops->f32(row, (const float *)(const void *)x, (float *)(void *)out);
        return;
    }
    if (dtype == DTYPE_F64) {
        loops->f64(row, (const double *)(const void *)x, (double *)(void *)out);
        return;
    }
    for (int64_t at = 0; at < row->n; at += CHUNK) {
        dropout_row_t part = *row;
        part.n = row->n - at < CHUNK ? row->n - at : CHUNK;
        part.first += at * row->step;
        dtype_cast(part.n, dtype, x + at * size, 1, DTYPE_F32, value, 1);
        loops->f32(&part, value, value);
        dtype_cast(part.n, DTYPE_F32, value, 1, dtype, out + at * size, 1);
    }
}

typedef struct run {
    const tensor_info_t *x;
    walk_t walk;
    const dropout_loops_t *loops;
    rule_t rule;
    int64_t leading_dims;
    const char *in;
    char *out;
} run_t;

/* Finds the numbers of a row's elements. The row begins at position `spatial` of `channel`. */
static void number_row(const run_t *run, int64_t image, int64_t channel, int64_t spatial,
                       dropout_row_t *row)
{
    const walk_t *walk = &run->walk;
    const int64_t plane = image * walk->channels + channel;
    const bool is_channel = walk->block == 1; /* else a row has one element of each channel */
    switch (run->leading_dims) {
    case 1:
        row->first = run->x->rank < 2 ? spatial : image;
        row->step = run->x->rank < 2;
        break;
    case 2:
        row->first = plane;
        row->step = !is_channel;
        break;
    default:
        row->first = plane * walk->spatial + spatial;
        row->step = is_channel ? 1 : walk->spatial;
    }
}

static void run_pieces(void *user, int64_t first, int64_t last)
{
    const run_t *run = user;
    const walk_t *walk = &run->walk;
    const int64_t size = (int64_t)dtype_size(run->x->dtype);
    dropout_row_t row = {
        .seed = run->rule.seed, .least = run->rule.least, .scale = run->rule.scale};
    for (int64_t i = first; i < last; i++) {
        const walk_piece_t piece = walk_piece(walk, i);
        const int64_t position = piece.offset / walk->block;
        const int64_t image = position / walk->spatial / walk->n_blocks;
        for (int64_t r = 0; r < piece.rows; r++) {
            const int64_t at = (piece.offset + r * piece.width) * size;
            row.n = piece.width;
            number_row(run, image, piece.channel, (position + r) % walk->spatial, &row);
            run_row(run->loops, &row, run->x->dtype, run->in + at, run->out + at);
        }
    }
}

static status_t dropout_run_native(context_t *ctx, const prepared_t *prepared, void *const *in,
                                   void *const *out, void *scratch)
{
    (void)scratch;
    const attrs_t *attrs = prepared->attrs;
    if (info_numel(&prepared->in[X]) == 0) return STATUS_OK;
    run_t run = {.x = &prepared->in[X],
                 .loops = dropout_rows(isa_best()),
                 .rule = make_rule(attrs, *(const int64_t *)in[SEED]),
                 .leading_dims = attrs->leading_dims,
                 .in = in[X],
                 .out = out[0]};
    walk_channels(run.x, &run.walk);
    threads_share(threads_for(ctx, walk_elements(run.x)), walk_pieces(&run.walk), run_pieces, &run);
    return STATUS_OK;
}

static const kernel_t native = {
    .name = "native", .prepare = dropout_prepare_native, .run = dropout_run_native};
static const kernel_t *const kernels[] = {&native, NULL};

/* ---- gradient: 0 for dropped elements, scaled for others ---- */

static void dropout_pass(const gradient_call_t *call)
{
    const value_t in[] = {call->out_grad[0], call->in[SEED]};
    call->in_grad[X] = emit_op(call->emitter, &op_def_dropout_by, call->attrs, 2, in);
}

/* ---- definition ---- */

const opdef_t op_def_dropout_by = {
    .name = "dropout_by",
    .preference = OP_FOLLOWS,
    .attrs = {sizeof(attrs_t), 2, fields},
    OPERANDS(operands),
    .n_outputs = 1,
    .infer = dropout_infer,
    .infers_symbols = true,
    .kernels = kernels,
    .spec = dropout_spec,
    .gradient = GRADIENT(.pass = dropout_pass, .reads_in = 1u << SEED)};

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
    FINISH(dispatch_run(ctx, &op_def_dropout_by, &attrs, 2, in, NULL, out), ops_drop(ctx, seed));
}
