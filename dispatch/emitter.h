/* Gradients: each operator has one gradient rule, which computes the gradients of its inputs by
 * calling other operators through an emitter.
 *
 * A rule does not see tensors but values: numbers that identify tensors. It passes values to
 * emit_op, which "emits" an operator. The emitter of a tape runs the operator at once; the emitter
 * of graph_grad adds it to a graph. The rule is the same for both. For mul:
 *
 *     static void pass_mul(const gradient_call_t *call)
 *     {
 *         const value_t of_a[] = {call->out_grad[0], call->in[B]};
 *         call->in_grad[A] = emit_op(call->emitter, &op_def_mul, NULL, 2, of_a);
 *         ...
 *     }
 *
 * After a failure, emitting does nothing and returns VALUE_NONE, so a rule need not check. */
#ifndef TESSERA_DISPATCH_EMITTER_H
#define TESSERA_DISPATCH_EMITTER_H

#include "tensor/tensor.h"

typedef struct opdef opdef_t;
typedef struct emitter emitter_t;

/* A number that identifies a tensor in a graph or tape. VALUE_NONE: an absent operand, a failed
 * result, or a gradient that is 0 everywhere. */
typedef int32_t value_t;
#define VALUE_NONE (-1)

/* emit_op emits an operator with one output, emit_op_n one with several. attrs NULL means defaults.
 * Absent operands are VALUE_NONE. */
value_t emit_op(emitter_t *emitter, const opdef_t *op, const void *attrs, int n_in,
                const value_t *in) TESSERA_API(emit_op);
void emit_op_n(emitter_t *emitter, const opdef_t *op, const void *attrs, int n_in,
               const value_t *in, int n_out, value_t *out_values) TESSERA_API(emit_op_n);

/* Makes a value from a number, which has the role of a Python number in type promotion
 * (tensor_number). */
value_t emit_number(emitter_t *emitter, double number) TESSERA_API(emit_number);

/* Returns dtype and sizes of a value, as a dense info; borrowed until the rule returns. The dtype
 * is DTYPE_NONE for VALUE_NONE and after a failure. */
const tensor_info_t *emit_info(emitter_t *emitter, value_t value) TESSERA_API(emit_info);

/* Fails with a message "<op>: <what was given>, <rule>". Only the first message is kept. */
void emit_fail(emitter_t *emitter, status_t status, const char *format, ...) TESSERA_API(emit_fail)
    TESSERA_PRINTF(3, 4);

/* A call of an operator for which the rule computes gradients. */
typedef struct gradient_call {
    emitter_t *emitter;
    const opdef_t *op;
    const void *attrs; /* with defaults filled in */
    int n_in;
    const value_t *in; /* VALUE_NONE: absent */
    int n_out;
    const value_t *out;
    const value_t *out_grad; /* same sizes and dtype as out; VALUE_NONE: 0 everywhere. At least
                                one is set */
    const bool *is_wanted;   /* [n_in] inputs whose gradients are needed; a rule may compute
                                others too */
    value_t *in_grad;        /* [n_in] results, same sizes and dtypes as in; initially
                                VALUE_NONE, which means 0 everywhere */
} gradient_call_t;

/* A gradient rule, and the tensors whose elements it reads. The tape need not hold other tensors;
 * the rule may only use their sizes and dtypes. */
typedef struct gradient {
    void (*pass)(const gradient_call_t *call);
    uint64_t reads_in;  /* bit i: reads elements of input i; bit 63 covers all later inputs, too */
    uint32_t reads_out; /* bit i: reads elements of output i */
} gradient_t;

#endif
