/* Post-ops: what a fused operator does to its result before it is stored. */
#ifndef TESSERA_DISPATCH_POST_H
#define TESSERA_DISPATCH_POST_H

#include "dispatch/eltwise.h"

TESSERA_BEGIN

/* What a fused operator does to its result before it is stored, in order: "sum" adds the next
 * operand behind the ";" (of the result's shape, whose bytes it takes over), "add", "sub", "mul",
 * "div", "max" and "min" combine the result with one that broadcasts, the others are elementwise
 * functions, printed "relu", "clamp(0,6)". */
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

/* Operands that the post-ops take; 0 for NULL. */
int post_operands(const post_ops_t *post) TESSERA_API(post_operands);

/* "sum", "add", ...; "" for elementwise functions, which have names of their own. */
const char *post_name(post_kind_t kind) TESSERA_API(post_name);

/* What one makes of a value; operand is not looked at by elementwise functions. */
double post_value(const post_op_t *op, double value, double operand) TESSERA_API(post_value);

TESSERA_END

#endif
