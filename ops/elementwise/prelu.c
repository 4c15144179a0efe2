/* max(x, 0) + weight * min(x, 0), with one weight or one for each channel. oneDNN's kernel is not
 * used: for one weight it is slow reference code, and for several weights it is only as fast as
 * ours, because memory bandwidth limits both. */
#include "dispatch/choose/choose_impl.h"
#include "ops/accept_impl.h"
#include "ops/gradient_impl.h"
#include "ops/walk_impl.h"
#include "tensor/sym/sizes_impl.h"
#include "tensor/threads/threads_impl.h"

/* ---- attributes: none ---- */

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false},
                                     {"weight", ROLE_BIAS, false, false}};
enum { X, WEIGHT };

/* ---- inference ---- */

static status_t prelu_infer(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)out_n;
    const tensor_info_t *x = call->in[X], *weight = call->in[WEIGHT];
    const char *op = call->op->name;
    int64_t channels = x->rank > 1 ? x->sizes[1] : 1;
    REQUIRE(ctx, dtype_is_floating(x->dtype) && dtype_is_floating(weight->dtype),
            "%s: x is %s, weight is %s, floating types are needed", op, info_brief(x),
            info_brief(weight));
    REQUIRE(ctx,
            sizes_are_one(ctx, weight) ||
                (weight->rank == 1 && sym_equal(ctx, weight->sizes[0], channels)),
            "%s: weight is %s, input %s needs [1] or [%lld]", op, info_brief(weight), info_brief(x),
            (long long)channels);
    out[0] = info_dense(x->dtype, x->rank, x->sizes);
    return STATUS_OK;
}

/* ---- specification ---- */

static double prelu_spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    const int64_t zeros[TENSOR_MAX_RANK] = {0};
    bool has_one = info_numel(call->in[WEIGHT]) == 1;
    double x = spec_at(call, X, index);
    return x > 0 ? x : x * spec_at(call, WEIGHT, has_one ? zeros : &index[1]);
}

/* ---- our own kernel ---- */

#define CHUNK 256

/* With one weight, a tensor of any format is treated as a single channel. */
static void walk_of(const prepared_t *prepared, walk_t *out_walk)
{
    if (info_numel(&prepared->in[WEIGHT]) == 1)
        *out_walk = (walk_t){1, 1, walk_elements(&prepared->in[X]), 1, 1};
    else
        walk_channels(&prepared->in[X], out_walk);
}

static status_t prelu_prepare_native(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const tensor_info_t *weight = call->in[WEIGHT];
    walk_t walk;
    TRY(walk_follow(call, prepared, info_numel(weight) > 1));
    prepared->in[WEIGHT] = info_dense(weight->dtype, weight->rank, weight->sizes);
    walk_of(prepared, &walk);
    prepared->scratch_bytes = (size_t)(walk.n_blocks * walk.block) * sizeof(double);
    prepared->cost_ns = cost_run(ctx, "native", 0.0, 2.0 * (double)info_bytes(&prepared->in[X]));
    return STATUS_OK;
}

typedef struct run {
    walk_t walk;
    dtype_t dtype;
    elementwise_loop_t *loop;
    const char *weights; /* cast to the dtype of the computation */
    const char *src;
    char *dst;
} run_t;

/* The loop for the gradient, x > 0 ? g : g w, also computes prelu(x, w) if g is x. */
static elementwise_rows_t rows_of(const run_t *run, const walk_piece_t *piece)
{
    const dtype_t compute = run->dtype == DTYPE_F32 ? DTYPE_F32 : DTYPE_F64;
    const int64_t step = run->walk.block != 1;
    return (elementwise_rows_t){
        .rows = piece->rows,
        .n = piece->width,
        .in = {[2] = run->weights + piece->channel * (int64_t)dtype_size(compute)},
        .step = {1, 1, step},
        .row_step = {piece->width, piece->width, 0},
        .out_row_step = piece->width};
}

/* Computes part of a row in f64, using a buffer. */
static void run_chunk(const run_t *run, elementwise_rows_t rows, int64_t at)
{
    double value[CHUNK];
    const int64_t size = (int64_t)dtype_size(run->dtype);
    rows.in[0] = rows.in[1] = rows.out = value;
    dtype_cast(rows.n, run->dtype, run->src + at * size, 1, DTYPE_F64, value, 1);
    run->loop(&rows);
    dtype_cast(rows.n, DTYPE_F64, value, 1, run->dtype, run->dst + at * size, 1);
}

static void run_pieces(void *user, int64_t first, int64_t last)
{
    const run_t *run = user;
    for (int64_t i = first; i < last; i++) {
        const walk_piece_t piece = walk_piece(&run->walk, i);
        elementwise_rows_t rows = rows_of(run, &piece);
        if (run->dtype == DTYPE_F32) {
            rows.in[0] = rows.in[1] = (const float *)(const void *)run->src + piece.offset;
            rows.out = (float *)(void *)run->dst + piece.offset;
            run->loop(&rows);
            continue;
        }
        rows.rows = 1;
        for (int64_t row = 0; row < piece.rows; row++)
            for (int64_t c = 0; c < piece.width; c += CHUNK) {
                elementwise_rows_t part = rows;
                part.n = piece.width - c < CHUNK ? piece.width - c : CHUNK;
                part.in[2] = (const double *)rows.in[2] + c * rows.step[2];
                run_chunk(run, part, piece.offset + row * piece.width + c);
            }
    }
}

/* Converts the weights to f32 if x is f32, otherwise to f64. Padded channels get weight 0. */
static void make_weights(const prepared_t *prepared, const void *weight, const walk_t *walk,
                         void *scratch)
{
    const dtype_t dtype = prepared->in[WEIGHT].dtype;
    for (int64_t c = 0; c < walk->n_blocks * walk->block; c++) {
        double value = 0.0;
        if (c < walk->channels)
            value = dtype_load(dtype, (const char *)weight + c * (int64_t)dtype_size(dtype));
        if (prepared->in[X].dtype == DTYPE_F32)
            ((float *)scratch)[c] = (float)value;
        else
            ((double *)scratch)[c] = value;
    }
}

static status_t prelu_run_native(context_t *ctx, const prepared_t *prepared, void *const *in,
                                 void *const *out, void *scratch)
{
    walk_t walk;
    walk_of(prepared, &walk);
    make_weights(prepared, in[WEIGHT], &walk, scratch);
    const dtype_t dtype = prepared->in[X].dtype;
    const elementwise_loops_t *loops = elementwise_binary_slope(BINARY_SLOPE_PRELU, isa_best());
    run_t run = {.walk = walk,
                 .dtype = dtype,
                 .loop = dtype == DTYPE_F32 ? loops->f32 : loops->f64,
                 .weights = scratch,
                 .src = in[X],
                 .dst = out[0]};
    threads_share(threads_for(ctx, walk_elements(&prepared->in[X])), walk_pieces(&walk), run_pieces,
                  &run);
    walk_zero_padding(&prepared->out[0], out[0]);
    return STATUS_OK;
}

/* ---- gradients ---- */

/* Reshapes the weight to broadcast with x: [] for one weight, [K,1,1] for x [N,K,H,W]. */
static value_t spread_weight(const gradient_call_t *call)
{
    emitter_t *e = call->emitter;
    const int rank = emit_info(e, call->in[X])->rank;
    const tensor_info_t weight = *emit_info(e, call->in[WEIGHT]);
    int64_t sizes[TENSOR_MAX_RANK] = {1, 1};
    if (info_numel(&weight) == 1 && weight.rank > 0)
        return emit_ints(e, &op_def_reshape, call->in[WEIGHT], 0, NULL);
    if (info_numel(&weight) == 1 || rank < 3) return call->in[WEIGHT];
    sizes[0] = weight.sizes[0];
    for (int d = 1; d < rank - 1; d++) sizes[d] = 1;
    return emit_ints(e, &op_def_reshape, call->in[WEIGHT], rank - 1, sizes);
}

/* The gradient of a weight is the sum of grad * min(x, 0) over the elements that the weight
 * multiplies. */
static void prelu_pass(const gradient_call_t *call)
{
    emitter_t *e = call->emitter;
    const value_t weight = spread_weight(call);
    if (call->is_wanted[X])
        call->in_grad[X] = emit_binary_backward(e, BINARY_SLOPE_PRELU, call->out_grad[0],
                                                call->in[X], weight);
    if (!call->is_wanted[WEIGHT]) return;
    value_t below = emit_binary(e, &op_def_minimum, call->in[X], emit_number(e, 0.0));
    value_t grad = emit_binary(e, &op_def_mul, call->out_grad[0], below);
    grad = emit_unbroadcast(e, grad, weight);
    call->in_grad[WEIGHT] = emit_reshape_like(e, grad, call->in[WEIGHT]);
}

/* ---- definition ---- */

const opdef_t op_def_prelu = {
    .name = "prelu",
    FUNCTIONS_OF(prelu),
    .preference = OP_FOLLOWS,
    OPERANDS(operands),
    .kernels = KERNELS(KERNEL("native", prelu_prepare_native, prelu_run_native)),
    .gradient = GRADIENT(.pass = prelu_pass, .reads_in = 1u << X | 1u << WEIGHT)};

/* ---- public ---- */

status_t op_prelu(context_t *ctx, const tensor_t *x, const tensor_t *weight, tensor_t **out)
{
    return dispatch_run(ctx, &op_def_prelu, NULL, 2, (const tensor_t *[]){x, weight}, NULL, out);
}
