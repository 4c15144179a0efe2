/* lstm and gru kernels that keep packed weights in the CPU caches from step to step. They support
 * f32, the common activations and sequences of any lengths. lstm can use Strassen's algorithm. */
#include "kernels/recurrent/sequence_impl.h"

#include <string.h>

#include "ops/accept_impl.h"
#include "ops/linear/strassen_impl.h"
#include "ops/recurrent/recurrent_impl.h"
#include "tensor/onednn/cost.h"
#include "tensor/threads/threads_impl.h"

/* Numbers stored in the format of a packed weight. */
enum { GATES, LANES, N_NUMBERS };

#define LEAST_SEQUENCES 12 /* with fewer, reading 7 weight factors instead of 4 costs too much */
#define STRASSEN_TIME 0.93 /* time relative to plain products; 16 sequences on Zen 4 */

static sequence_cell_t cell_of(const opdef_t *op)
{
    return op->variant == RECURRENT_LSTM ? SEQUENCE_LSTM : SEQUENCE_GRU;
}

static status_t pack(context_t *ctx, const tensor_info_t *from, const void *bytes,
                     const tensor_info_t *want, void *out)
{
    const int64_t *numbers = format_numbers(&want->format);
    const sequence_cell_t cell = numbers[GATES] == 4 ? SEQUENCE_LSTM : SEQUENCE_GRU;
    (void)ctx;
    memset(out, 0, info_bytes(want));
    sequence_pack(cell, from->sizes[0] / numbers[GATES], from->sizes[1], numbers[LANES], bytes,
                  out);
    return STATUS_OK;
}

static status_t pack_halves(context_t *ctx, const tensor_info_t *from, const void *bytes,
                            const tensor_info_t *want, void *out)
{
    const int64_t *numbers = format_numbers(&want->format);
    (void)ctx;
    sequence_pack_halves(from->sizes[0] / numbers[GATES], from->sizes[1], numbers[LANES], bytes,
                         out);
    return STATUS_OK;
}

/* ---- preparing ---- */

const char *recurrent_unusual(bool is_lstm, const recurrent_attrs_t *attrs)
{
    if (attrs->clip > 0) return "clip";
    if (is_lstm && attrs->input_forget) return "input_forget";
    if (!is_lstm && attrs->reset_before) return "reset_before";
    if (attrs->gate.function != RECURRENT_SIGMOID) return "gates are no sigmoid";
    if (attrs->candidate.function != RECURRENT_TANH ||
        (is_lstm && attrs->output.function != RECURRENT_TANH))
        return "a function other than tanh";
    return NULL;
}

static const char *find_obstacle(const op_call_t *call)
{
    if (call->per_op) return "oneDNN alone under policy per_op";
    if (call->in[RECURRENT_X]->dtype != DTYPE_F32) return "f32 is needed";
    return recurrent_unusual(call->op->variant == RECURRENT_LSTM, call->attrs);
}

static status_t want_packed(context_t *ctx, const op_call_t *call, prepared_t *prepared, int index,
                            int64_t n_gates, bool by_strassen)
{
    const tensor_info_t *weight = call->in[index];
    const int64_t numbers[N_NUMBERS] = {[GATES] = n_gates, [LANES] = isa_lanes(isa_best())};
    const int64_t n_elements = weight->sizes[0] / n_gates;
    int64_t elements = 0;
    if (by_strassen ? !sequence_halves_elements(n_elements, weight->sizes[1], &elements)
                    : !sequence_weight_elements(cell_of(call->op), n_elements, weight->sizes[1],
                                                numbers[LANES], &elements))
        return prepared_decline(prepared, "sequence: a weight of %s overflows", info_brief(weight));
    return prepared_want_packed(ctx, prepared, index, elements, 1, N_NUMBERS, numbers);
}

static sequence_t describe(const opdef_t *op, const recurrent_attrs_t *attrs,
                           const recurrent_sizes_t *s)
{
    return (sequence_t){.cell = cell_of(op),
                        .n_steps = s->t,
                        .n_sequences = s->n,
                        .n_inputs = s->c,
                        .n_elements = s->h,
                        .is_reverse = attrs->reverse,
                        .x_time = attrs->batch_first ? s->c : s->n * s->c,
                        .x_sequence = attrs->batch_first ? s->t * s->c : s->c,
                        .y_time = attrs->batch_first ? s->h : s->n * s->h,
                        .y_sequence = attrs->batch_first ? s->t * s->h : s->h};
}

/* Bytes of scratch memory, including the lengths at its start. False on overflow. */
static bool count_scratch(sequence_t *sequence, bool has_peephole, int n_threads, size_t *out_bytes)
{
    static const float present = 0.0f;
    int64_t lengths = 0;
    sequence->peephole = has_peephole ? &present : NULL;
    return shape_multiply(sequence->n_sequences, (int64_t)sizeof(int64_t), &lengths) &&
           lengths <= INT64_MAX - 63 &&
           sequence_scratch(sequence, isa_best(), n_threads, out_bytes) &&
           !__builtin_add_overflow(*out_bytes, (size_t)((lengths + 63) / 64 * 64), out_bytes);
}

static status_t prepare_by(context_t *ctx, const op_call_t *call, prepared_t *prepared,
                           bool by_strassen)
{
    const char *obstacle = find_obstacle(call);
    const recurrent_sizes_t s = recurrent_sizes(call->op, call->attrs, call->in[RECURRENT_X],
                                                call->in[RECURRENT_WEIGHT_HH]);
    size_t bytes = 0;
    if (obstacle != NULL) return prepared_decline(prepared, "sequence: %s", obstacle);
    sequence_t sequence = describe(call->op, call->attrs, &s);
    sequence.by_strassen = by_strassen;
    if (!count_scratch(&sequence, call_has(call, RECURRENT_PEEPHOLE), context_threads(ctx), &bytes))
        return prepared_decline(prepared, "sequence: scratch for %s overflows",
                                info_brief(call->in[RECURRENT_X]));
    for (int i = 0; i < call->n_in; i++) {
        const tensor_info_t *info = call->in[i];
        if (call->op->operands[i].role == ROLE_ACTIVATION && call_has(call, i))
            TRY(accept_plain(call, prepared, i));
        else if (call_has(call, i))
            prepared->in[i] = info_dense(info->dtype, info->rank, info->sizes);
    }
    for (int i = 0; i < call->n_out; i++) TRY(accept_out_plain(call, prepared, i));
    TRY(want_packed(ctx, call, prepared, RECURRENT_WEIGHT_IH, s.g, by_strassen));
    TRY(want_packed(ctx, call, prepared, RECURRENT_WEIGHT_HH, s.g, by_strassen));
    const double products = (double)(s.g * s.h) * (double)(s.c + s.h);
    const double share = by_strassen ? STRASSEN_TIME : 1.0;
    prepared->cost_ns = cost_run(ctx, "sequence", share * 2.0 * products * (double)(s.t * s.n),
                                 products * (double)sizeof(float));
    prepared_set_scratch(prepared, bytes);
    return STATUS_OK;
}

static status_t recurrent_sequence_prepare(context_t *ctx, const op_call_t *call,
                                           prepared_t *prepared)
{
    return prepare_by(ctx, call, prepared, false);
}

bool recurrent_strassen_suits(const recurrent_attrs_t *attrs, const recurrent_sizes_t *sizes)
{
    const int64_t lanes = isa_lanes(ISA_AVX512);
    return sizes->n >= LEAST_SEQUENCES && recurrent_unusual(true, attrs) == NULL &&
           sequence_has_halves(SEQUENCE_LSTM, sizes->h, sizes->c, lanes) &&
           sequence_has_halves(SEQUENCE_LSTM, sizes->h, sizes->h, lanes);
}

static status_t prepare_strassen(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const int algorithm = ((const recurrent_attrs_t *)call->attrs)->algorithm;
    if (algorithm == RECURRENT_DIRECT) return STATUS_UNSUPPORTED; /* not requested */
    const recurrent_sizes_t s = recurrent_sizes(call->op, call->attrs, call->in[RECURRENT_X],
                                                call->in[RECURRENT_WEIGHT_HH]);
    const int64_t lanes = isa_lanes(isa_best());
    if (!sequence_has_halves(SEQUENCE_LSTM, s.h, s.c, lanes) ||
        !sequence_has_halves(SEQUENCE_LSTM, s.h, s.h, lanes))
        return prepared_decline(prepared, "strassen: multiples of %d inputs and elements only",
                                (int)(2 * lanes));
    prepared->is_asked_for = algorithm == RECURRENT_STRASSEN_ONLY;
    if (!prepared->is_asked_for && lanes < isa_lanes(ISA_AVX512))
        return prepared_decline(prepared, "strassen: vectors of %d or more", isa_lanes(ISA_AVX512));
    if (!prepared->is_asked_for && s.n < LEAST_SEQUENCES)
        return prepared_decline(prepared, "strassen: few sequences");
    return prepare_by(ctx, call, prepared, true);
}

/* ---- running ---- */

static status_t run_by(context_t *ctx, const prepared_t *prepared, void *const *in,
                       void *const *out, void *scratch, bool by_strassen)
{
    const opdef_t *op = prepared_op(prepared);
    const recurrent_attrs_t *attrs = prepared_attrs(prepared);
    const tensor_info_t *x = &prepared->in[RECURRENT_X];
    const recurrent_sizes_t s = recurrent_sizes(op, attrs, x, &prepared->in[RECURRENT_WEIGHT_HH]);
    const bool is_lstm = op->variant == RECURRENT_LSTM;
    int64_t *lengths = scratch;
    char *rest = (char *)scratch + ((size_t)s.n * sizeof *lengths + 63) / 64 * 64;
    TRY(recurrent_read_lengths(ctx, op->name, &s, prepared->in[RECURRENT_LENGTHS].dtype,
                               in[RECURRENT_LENGTHS], lengths));
    sequence_t sequence = describe(op, attrs, &s);
    sequence.by_strassen = by_strassen;
    sequence.weight_ih = in[RECURRENT_WEIGHT_IH];
    sequence.weight_hh = in[RECURRENT_WEIGHT_HH];
    sequence.bias_ih = in[RECURRENT_BIAS_IH];
    sequence.bias_hh = in[RECURRENT_BIAS_HH];
    sequence.peephole = is_lstm ? in[RECURRENT_PEEPHOLE] : NULL;
    sequence.lengths = lengths;
    sequence.x = in[RECURRENT_X];
    sequence.y = out[RECURRENT_Y];
    sequence.h0 = in[RECURRENT_H0];
    sequence.c0 = is_lstm ? in[RECURRENT_C0] : NULL;
    sequence.h = out[RECURRENT_H];
    sequence.c = is_lstm ? out[RECURRENT_C] : NULL;
    sequence_run(&sequence, isa_best(), threads_for(ctx, s.n * s.g * s.h * s.h), rest);
    return STATUS_OK;
}

static status_t recurrent_sequence_run(context_t *ctx, const prepared_t *prepared, void *const *in,
                                       void *const *out, void *scratch)
{
    return run_by(ctx, prepared, in, out, scratch, false);
}

static status_t run_strassen(context_t *ctx, const prepared_t *prepared, void *const *in,
                             void *const *out, void *scratch)
{
    return run_by(ctx, prepared, in, out, scratch, true);
}

const kernel_t recurrent_sequence = {.name = "sequence",
                                     .prepare = recurrent_sequence_prepare,
                                     .run = recurrent_sequence_run,
                                     .flags = KERNEL_IS_STORED | KERNEL_NEEDS_ELEMENTS,
                                     .pack = pack};
const kernel_t recurrent_strassen = {.name = "strassen",
                                     .prepare = prepare_strassen,
                                     .run = run_strassen,
                                     .flags = KERNEL_IS_STORED | KERNEL_NEEDS_ELEMENTS,
                                     .pack = pack_halves};
