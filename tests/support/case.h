/* Cases, calls of operators written as text: "(f32[1,3,7,7], f32[4,3,3,3], none) padding=[1,1]".
 *
 *   case    = "(" [operand {"," operand}] ")" {attribute "=" literal}
 *   operand = "none" | number | dtype "[" [size {"," size}] "]" ["+"] ["<" limit | "*" scale]
 *
 * Operands have random elements. Floats are standard normal; "+" takes the magnitude and adds 0.1,
 * "*" multiplies by scale. Integers are in [0, limit), or in [-5, 5] (unsigned: [0, 10]). A number
 * such as 2.5 or 3 is a Python-like scalar in type promotion, as in PyTorch. */
#ifndef TESSERA_TESTS_CASE_H
#define TESSERA_TESTS_CASE_H

#include "dispatch/opdef.h"

#define CASE_MAX_INPUTS 16
#define CASE_MAX_ATTRS 1024

typedef struct case_operand {
    dtype_t dtype; /* NONE: absent */
    int rank;
    int64_t sizes[TENSOR_MAX_RANK];
    bool is_positive;
    int64_t limit; /* 0: none was written */
    int64_t scale; /* 0: none was written */
    bool is_number;
    double number;
} case_operand_t;

typedef struct case_call {
    int n_in;
    case_operand_t in[CASE_MAX_INPUTS];
    _Alignas(16) char attrs[CASE_MAX_ATTRS];
} case_call_t;

/* Parses a case. INVALID_ARGUMENT names the error in the text. */
status_t case_parse(context_t *ctx, const opdef_t *op, const char *text, case_call_t *out_call);

/* Makes a dense contiguous tensor from the context's random numbers; NULL for an absent operand. */
status_t case_fill(context_t *ctx, const case_operand_t *operand, tensor_t **out_tensor);

/* Infers the outputs of an operator for these tensors. Reads their elements if the sizes of the
 * outputs depend on them. */
status_t case_infer(context_t *ctx, const opdef_t *op, const void *attrs, int n_in,
                    tensor_t *const *in, int *out_n, tensor_info_t *out);

#endif
