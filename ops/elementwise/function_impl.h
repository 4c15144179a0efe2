/* Elementwise functions as data. A line of unary.def or binary.def defines which dtypes a function
 * takes and returns. All functions share inference, specification and our own kernel. */
#ifndef TESSERA_OPS_ELEMENTWISE_FUNCTION_IMPL_H
#define TESSERA_OPS_ELEMENTWISE_FUNCTION_IMPL_H

#include "ops/elementwise/broadcast_impl.h"

typedef enum function_result {
    SAME,     /* the dtype that the operands are promoted to */
    FLOATING, /* the promoted dtype, or f32 if that is not floating */
    TRUTH     /* bool */
} function_result_t;

typedef enum function_takes {
    ANY,
    NUMBERS,      /* operands are not promoted to bool */
    NUMBERS_ONLY, /* no operand is bool */
    INTEGERS      /* or bool */
} function_takes_t;

typedef enum function_flag {
    COMMUTES = 1, /* operands can be exchanged */
    ZERO = 2,     /* zeros give +0 */
    DIVIDES = 4,  /* an integer second operand must not be 0 */
    ONEDNN = 8    /* oneDNN has the function, and keeps NaN */
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
    dtype_t compute; /* f32, f64, s64 or u64; or s32 */
} function_state_t;

/* Inference and specification. The specification runs a loop on one element, in double for floating
 * dtypes. */
status_t function_infer(context_t *ctx, const op_call_t *call, const function_t *function,
                        tensor_info_t *out);
double function_spec(const spec_call_t *call, const function_t *function,
                     const elementwise_loops_t *loops, const int64_t *index);

/* Prepares a function_state_t for our own kernel, broadcast_run, or declines. `s32`: the loop for
 * operands that are all s32, or NULL. */
status_t function_prepare(context_t *ctx, const op_call_t *call, const function_t *function,
                          const elementwise_loops_t *loops, elementwise_loop_t *s32,
                          prepared_t *prepared);

/* Functions whose result is bool are dense: mkldnn tensors do not hold bool. */
#define FUNCTION_PREFERENCE(result) ((result) == TRUTH ? OP_DENSE : OP_FOLLOWS)
#define FUNCTION_TRAITS(flags)                                                                     \
    (TRAIT_ELEMENTWISE | (((flags)&COMMUTES) != 0 ? TRAIT_COMMUTATIVE : 0))

#endif
