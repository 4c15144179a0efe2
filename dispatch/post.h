/* Post-ops: functions that an operator applies to its result before storing it, such as the relu of
 * a fused convolution and relu. */
#ifndef TESSERA_DISPATCH_POST_H
#define TESSERA_DISPATCH_POST_H

#include "dispatch/eltwise.h"

/* Kinds of post-ops. An operator applies its post-ops in order. Elementwise functions have no
 * operand. Each other post-op reads one operand; these come after the operator's own operands.
 * "sum" adds an operand of the result's shape, whose bytes the result reuses. "add", "sub", "mul",
 * "div", "max" and "min" combine the result with an operand that broadcasts. Elementwise functions
 * are printed "relu", "clamp(0,6)". */
typedef enum post_kind {
    POST_SUM,
    POST_ADD,
    POST_SUB,
    POST_MUL,
    POST_DIV,
    POST_MAXIMUM,
    POST_MINIMUM,
    POST_ELTWISE
} post_kind_t;
#define POST_MAX 4
typedef struct post_op {
    post_kind_t kind;
    eltwise_t eltwise;
    double alpha, beta;
} post_op_t;
typedef struct post_ops {
    int n;
    post_op_t op[POST_MAX];
} post_ops_t;

/* Number of operands that the post-ops read; 0 for NULL. */
int post_operands(const post_ops_t *post) TESSERA_API(post_operands);

/* "sum", "add", ...; "" for elementwise functions, which have their own names. */
const char *post_name(post_kind_t kind) TESSERA_API(post_name);

/* Applies one post-op to a value; elementwise functions ignore `operand`. */
double post_value(const post_op_t *op, double value, double operand) TESSERA_API(post_value);

#endif
