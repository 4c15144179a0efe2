/* Elementwise functions as data. A line of unary.def or binary.def defines which dtypes a function
 * takes and returns. All functions share inference, specification and our own kernel. See
 * binary.def for the members of the enumerations. */
#ifndef TESSERA_OPS_ELEMENTWISE_FUNCTION_IMPL_H
#define TESSERA_OPS_ELEMENTWISE_FUNCTION_IMPL_H

#include "ops/elementwise/broadcast_impl.h"

typedef enum function_result {
    SAME,     /* the promoted dtype of the operands */
    FLOATING, /* the promoted dtype, or f32 if that is not floating */
    TRUTH     /* bool */
} function_result_t;

typedef enum function_takes {
    ANY,
    NUMBERS,      /* not all operands are bool */
    NUMBERS_ONLY, /* no operand is bool */
    INTEGERS      /* integers and bool */
} function_takes_t;

typedef enum function_flag {
    COMMUTES = 1, /* operands can be exchanged */
    ZERO = 2,     /* the function of zeros is +0 */
    DIVIDES = 4,  /* an integer second operand must not be 0 */
    ONEDNN = 8    /* oneDNN has the function and propagates NaN */
} function_flag_t;

typedef struct function {
    function_result_t result;
    function_takes_t takes;
    unsigned flags;
} function_t;

/* State of our own kernel. */
typedef struct function_state {
    broadcast_t broadcast;
    const function_t *function;
    dtype_t compute; /* dtype to compute in: f32, f64, s32, s64 or u64 */
} function_state_t;

/* Inference and specification. The specification runs the kernel's loop on one element, in double
 * for floating dtypes. */
status_t function_infer(context_t *ctx, const op_call_t *call, const function_t *function,
                        tensor_info_t *out);
double function_spec(const spec_call_t *call, const function_t *function,
                     const elementwise_loops_t *loops, const int64_t *index);

/* Prepares a function_state_t for our own kernel, broadcast_run, or declines. `s32` is the loop for
 * calls whose operands are all s32, or NULL. */
status_t function_prepare(context_t *ctx, const op_call_t *call, const function_t *function,
                          const elementwise_loops_t *loops, elementwise_loop_t *s32,
                          prepared_t *prepared);

/* Functions that return bool return dense tensors, because mkldnn tensors cannot be bool. */
#define FUNCTION_PREFERENCE(result) ((result) == TRUTH ? OP_DENSE : OP_FOLLOWS)
#define FUNCTION_TRAITS(flags)                                                                     \
    (TRAIT_ELEMENTWISE | (((flags)&COMMUTES) != 0 ? TRAIT_COMMUTATIVE : 0))

#endif
