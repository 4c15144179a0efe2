/* Reverses each sequence of a batch up to its own length. */
#include <string.h>

#include "ops/accept_impl.h"
#include "ops/gradient_impl.h"
#include "ops/index/index_impl.h"
#include "ops/shape/moving.h"
#include "tensor/sym/sizes_impl.h"
#include "tensor/threads/threads_impl.h"

typedef struct reverse_sequence_attrs {
    int64_t batch_dim, time_dim;
} reverse_sequence_attrs_t;

static const attr_field_t fields[] = {FIELD_INT(reverse_sequence_attrs_t, batch_dim, 0),
                                      FIELD_INT(reverse_sequence_attrs_t, time_dim, 1)};

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false},
                                     {"lengths", ROLE_ACTIVATION, false, false}};
enum { X, LENGTHS };

static status_t reverse_sequence_infer(context_t *ctx, const op_call_t *call, int *out_n,
                                       tensor_info_t *out)
{
    const reverse_sequence_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[X], *lengths = call->in[LENGTHS];
    int batch = 0, time = 0;
    REQUIRE(ctx,
            x->rank >= 2 && shape_dim(x->rank, attrs->batch_dim, &batch) &&
                shape_dim(x->rank, attrs->time_dim, &time) && batch != time,
            "reverse_sequence: batch_dim %lld and time_dim %lld of %s, two dimensions are needed",
            (long long)attrs->batch_dim, (long long)attrs->time_dim, info_brief(x));
    TRY(index_check_dtype(ctx, "reverse_sequence", lengths));
    REQUIRE(ctx, lengths->rank == 1 && sym_equal(ctx, lengths->sizes[0], x->sizes[batch]),
            "reverse_sequence: lengths %s, one for each of %lld sequences is needed",
            info_brief(lengths), (long long)x->sizes[batch]);
    return ops_infer_like(ctx, call, out_n, out);
}

/* The step of x that is copied to `step` of the result. Steps before `length` are reversed, later
 * ones are unchanged. */
static int64_t step_of(int64_t length, int64_t step)
{
    return step < length ? length - 1 - step : step;
}

static double reverse_sequence_spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    const reverse_sequence_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[X];
    int64_t at[TENSOR_MAX_RANK];
    const int time = ops_dim(x->rank, attrs->time_dim);
    memcpy(at, index, (size_t)x->rank * sizeof *at);
    int64_t length = (int64_t)spec_at(call, LENGTHS, &index[ops_dim(x->rank, attrs->batch_dim)]);
    at[time] = step_of(length, index[time]);
    return spec_at(call, X, at);
}

/* ---- dense kernel: dimensions after batch_dim and time_dim are copied as one block ---- */

static status_t reverse_sequence_prepare(context_t *ctx, const op_call_t *call,
                                         prepared_t *prepared)
{
    TRY(ops_prepare_dense(ctx, call, prepared));
    prepared->scratch_bytes = (size_t)(call->in[LENGTHS]->sizes[0] + 1) * sizeof(int64_t);
    return STATUS_OK;
}

static status_t read_lengths(context_t *ctx, const prepared_t *prepared, int64_t n_steps,
                             const void *bytes, int64_t *lengths)
{
    const tensor_info_t *info = &prepared->in[LENGTHS];
    dtype_cast(info->sizes[0], info->dtype, bytes, 1, DTYPE_S64, lengths, 1);
    for (int64_t i = 0; i < info->sizes[0]; i++)
        REQUIRE(ctx, lengths[i] >= 0 && lengths[i] <= n_steps,
                "reverse_sequence: length %lld of sequence %lld, there are %lld steps",
                (long long)lengths[i], (long long)i, (long long)n_steps);
    return STATUS_OK;
}

/* A block is the contiguous elements of all dimensions after batch_dim and time_dim. */
typedef struct blocks {
    const tensor_info_t *info; /* shape of x */
    int batch, time, inner;    /* dimensions; inner = max(batch, time) */
    const int64_t *lengths;
    int64_t time_step; /* number of blocks from one step to the next */
    size_t bytes;      /* bytes of a block */
    const char *x;
    char *out;
} blocks_t;

static void copy_blocks(void *user, int64_t first, int64_t last)
{
    const blocks_t *blocks = user;
    for (int64_t b = first; b < last; b++) {
        int64_t rest = b, sequence = 0, step = 0;
        for (int d = blocks->inner; d >= 0; d--) {
            const int64_t size = blocks->info->sizes[d];
            if (d == blocks->batch) sequence = rest % size;
            if (d == blocks->time) step = rest % size;
            rest /= size;
        }
        const int64_t to = step_of(blocks->lengths[sequence], step);
        const int64_t from = b + (to - step) * blocks->time_step;
        memcpy(blocks->out + (size_t)b * blocks->bytes, blocks->x + (size_t)from * blocks->bytes,
               blocks->bytes);
    }
}

static status_t reverse_sequence_run(context_t *ctx, const prepared_t *prepared, void *const *in,
                                     void *const *out, void *scratch)
{
    const reverse_sequence_attrs_t *attrs = prepared->attrs;
    const tensor_info_t *x = &prepared->in[X];
    const int batch = ops_dim(x->rank, attrs->batch_dim), time = ops_dim(x->rank, attrs->time_dim);
    const int inner = batch > time ? batch : time;
    int64_t *lengths = scratch, numel = info_numel(x), n_blocks = 1, block = 1, time_step = 1;
    TRY(read_lengths(ctx, prepared, x->sizes[time], in[LENGTHS], lengths));
    if (numel == 0) return STATUS_OK;
    for (int d = 0; d < x->rank; d++) {
        if (d <= inner) n_blocks *= x->sizes[d];
        if (d > inner) block *= x->sizes[d];
        if (d > time && d <= inner) time_step *= x->sizes[d];
    }
    const size_t bytes = (size_t)block * dtype_size(x->dtype);
    blocks_t blocks = {x, batch, time, inner, lengths, time_step, bytes, in[X], out[0]};
    threads_share(threads_for(ctx, numel), n_blocks, copy_blocks, &blocks);
    return STATUS_OK;
}

/* The gradient is grad, reversed in the same way. */
static void reverse_sequence_pass(const gradient_call_t *call)
{
    const value_t in[] = {call->out_grad[0], call->in[1]};
    call->in_grad[0] = emit_op(call->emitter, call->op, call->attrs, 2, in);
}

const opdef_t op_def_reverse_sequence = {
    .name = "reverse_sequence",
    FUNCTIONS_OF(reverse_sequence),
    .preference = OP_DENSE,
    .attrs = {sizeof(reverse_sequence_attrs_t), 2, fields},
    OPERANDS(operands),
    .kernels = KERNELS(KERNEL("native", reverse_sequence_prepare, reverse_sequence_run)),
    .gradient = GRADIENT(.pass = reverse_sequence_pass, .reads_in = 1u << 1)};

status_t op_reverse_sequence(context_t *ctx, const tensor_t *x, const tensor_t *lengths,
                             int64_t batch_dim, int64_t time_dim, tensor_t **out)
{
    const tensor_t *in[] = {x, lengths};
    reverse_sequence_attrs_t attrs = {batch_dim, time_dim};
    return dispatch_run(ctx, &op_def_reverse_sequence, &attrs, 2, in, NULL, out);
}
