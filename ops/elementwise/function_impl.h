/* Families of elementwise functions as data: a line of a .def file says what a function takes,
 * gives and computes; inference, specification and the kernel of ours are the same for all. */
#ifndef TESSERA_OPS_ELEMENTWISE_FUNCTION_IMPL_H
#define TESSERA_OPS_ELEMENTWISE_FUNCTION_IMPL_H

#include "ops/elementwise/broadcast_impl.h"

typedef enum function_result {
    SAME,     /* the dtype that the operands meet in */
    FLOATING, /* that, or f32 where it is not floating */
    TRUTH     /* bool */
} function_result_t;

typedef enum function_takes {
    ANY,
    NUMBERS,      /* operands do not meet in bool */
    NUMBERS_ONLY, /* no operand is bool */
    INTEGERS      /* or bool */
} function_takes_t;

typedef enum function_flag {
    COMMUTES = 1, /* the operands may change places */
    ZERO = 2,     /* of zeros it makes +0 */
    DIVIDES = 4,  /* integers have no result where the second operand is 0 */
    ONEDNN = 8    /* oneDNN has it, and keeps NaN */
} function_flag_t;

typedef struct function {
    function_result_t result;
    function_takes_t takes;
    unsigned flags;
    broadcast_compute_t f32, f64, s64, u64; /* rows, by the type that is computed in */
} function_t;

/* The state of a kernel of ours. */
typedef struct function_state {
    broadcast_t broadcast;
    const function_t *function;
    dtype_t compute; /* f32, f64, s64 or u64; or s32 */
} function_state_t;

/* One inference and one specification for all. The latter runs the rows on one element, floating
 * ones in double. */
status_t function_infer(context_t *ctx, const op_call_t *call, const function_t *function,
                        tensor_info_t *out);
double function_spec(const spec_call_t *call, const function_t *function, const int64_t *index);

/* The kernel of ours: prepares a function_state_t for broadcast_run, or declines. `s32` computes
 * what the function does of operands that are all s32, whose results have the same low bits as
 * those of s64, without a cast; or is NULL. */
status_t function_prepare(context_t *ctx, const op_call_t *call, const function_t *function,
                          broadcast_compute_t s32, prepared_t *prepared);

/* Of a function that gives bool, which mkldnn tensors do not hold; and of the others. */
#define FUNCTION_PREFERENCE(result) ((result) == TRUTH ? OP_DENSE : OP_FOLLOWS)
#define FUNCTION_TRAITS(flags)                                                                     \
    (TRAIT_ELEMENTWISE | (((flags)&COMMUTES) != 0 ? TRAIT_COMMUTATIVE : 0))

/* Result types for ROWS_UNARY and ROWS_BINARY. */
#define FUNCTION_OUT_SAME element_t
#define FUNCTION_OUT_FLOATING element_t
#define FUNCTION_OUT_TRUTH bool

#endif
