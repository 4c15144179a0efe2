/* Gradients: the rule by which they pass an operator, written once against an emitter.
 *
 * A rule is given values, numbers that stand for tensors, and emits operators on them. It does not
 * know whether these run at once (the tape) or become nodes (graph_grad). Example, of mul:
 *
 *     static void pass_mul(const gradient_call_t *call)
 *     {
 *         const value_t of_a[] = {call->out_grad[0], call->in[B]};
 *         call->in_grad[A] = emit_op(call->emitter, &op_def_mul, NULL, 2, of_a);
 *         ...
 *     }
 *
 * Emitting after a failure does nothing and gives VALUE_NONE: a rule need not look. */
#ifndef TESSERA_DISPATCH_EMITTER_H
#define TESSERA_DISPATCH_EMITTER_H

#include "tensor/tensor.h"

TESSERA_BEGIN

typedef struct opdef opdef_t;
typedef struct emitter emitter_t;

/* A value of a graph or of an emitter, by its number; VALUE_NONE: an operand left out, a result
 * that failed, a gradient that is 0 everywhere. */
typedef int32_t value_t;
#define VALUE_NONE (-1)

/* An operator with one output; one with several. attrs NULL: defaults. Inputs may be VALUE_NONE for
 * operands that are absent. */
value_t emit_op(emitter_t *emitter, const opdef_t *op, const void *attrs, int n_in,
                const value_t *in) TESSERA_API(emit_op);
void emit_op_n(emitter_t *emitter, const opdef_t *op, const void *attrs, int n_in,
               const value_t *in, int n_out, value_t *out_values) TESSERA_API(emit_op_n);

/* A C number, which takes part in type promotion as one (tensor_number). */
value_t emit_number(emitter_t *emitter, double number) TESSERA_API(emit_number);

/* dtype and sizes of a value, dense; borrowed until the rule returns. Of VALUE_NONE, and after a
 * failure: dtype NONE. */
const tensor_info_t *emit_info(emitter_t *emitter, value_t value) TESSERA_API(emit_info);

/* Ends the rule with a message "<op>: <what was given>, <rule>"; the first one is kept. */
void emit_fail(emitter_t *emitter, status_t status, const char *format, ...) TESSERA_API(emit_fail)
    TESSERA_PRINTF(3, 4);

/* A call whose outputs have gradients, and whose inputs want them. */
typedef struct gradient_call {
    emitter_t *emitter;
    const opdef_t *op;
    const void *attrs; /* normalised */
    int n_in;
    const value_t *in; /* VALUE_NONE: absent */
    int n_out;
    const value_t *out;
    const value_t *out_grad; /* of the sizes and dtype of out; VALUE_NONE: 0 everywhere. At least
                                one is there */
    const bool *is_wanted;   /* [n_in]; the rule gives at least these, and need not look */
    value_t *in_grad;        /* [n_in], VALUE_NONE at first, which means 0 everywhere; of the sizes
                                and dtypes of in */
} gradient_call_t;

/* A rule. Of inputs and outputs that it does not read, sizes and dtypes alone are known, so that
 * the tape need not keep their elements. */
typedef struct gradient {
    void (*pass)(const gradient_call_t *call);
    uint64_t
        reads_in; /* 1 << i: elements of input i are read; input 63 stands for all behind, too */
    uint32_t reads_out; /* the same of outputs */
} gradient_t;

TESSERA_END

#endif
