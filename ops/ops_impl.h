/* Definitions of the operators in ops.def, and functions that they share. */
#ifndef TESSERA_OPS_OPS_IMPL_H
#define TESSERA_OPS_OPS_IMPL_H

#include "ops/ops.h"

#define OP(name) extern const opdef_t op_def_##name;
#include "ops/ops.def"
#undef OP

/* Entries of attribute tables: a field of a struct, which has the name of the attribute, and its
 * default. INTS and FLOATS are empty by default, and POST has no post-ops. FIELD_OR is for a field
 * in which 0 is not legal, but means the default. */
#define FIELD_OF(type, kind, name, length, initial, names)                                         \
    {                                                                                              \
#name, kind, false, offsetof(type, name), length, initial, names                           \
    }
#define FIELD_BOOL(type, name, initial) FIELD_OF(type, ATTR_BOOL, name, 0, initial, NULL)
#define FIELD_INT(type, name, initial) FIELD_OF(type, ATTR_INT, name, 0, initial, NULL)
#define FIELD_FLOAT(type, name, initial) FIELD_OF(type, ATTR_FLOAT, name, 0, initial, NULL)
#define FIELD_DTYPE(type, name, initial) FIELD_OF(type, ATTR_DTYPE, name, 0, initial, NULL)
#define FIELD_NAME(type, name, initial, names) FIELD_OF(type, ATTR_NAME, name, 0, initial, names)
#define FIELD_ARRAY(type, name, n, initial) FIELD_OF(type, ATTR_ARRAY, name, n, initial, NULL)
#define FIELD_INTS(type, name) FIELD_OF(type, ATTR_INTS, name, 0, 0, NULL)
#define FIELD_FLOATS(type, name) FIELD_OF(type, ATTR_FLOATS, name, 0, 0, NULL)
#define FIELD_POST(type, name) FIELD_OF(type, ATTR_POST, name, 0, 0, NULL)
#define FIELD_FORMAT(type, name) FIELD_OF(type, ATTR_FORMAT, name, 0, 0, NULL)
#define FIELD_OR(type, kind, name, length, initial)                                                \
    {                                                                                              \
#name, kind, true, offsetof(type, name), length, initial, NULL                             \
    }

/* Fields of the definition of an operator that has one output and the functions <op>_infer, which
 * accepts symbolic sizes, and <op>_spec. */
#define FUNCTIONS_OF(op)                                                                           \
    .n_outputs = 1, .infer = op##_infer, .infers_symbols = true, .spec = op##_spec

/* Parts of a definition: an array of operands; pointers to kernels, some of which are defined in
 * place; the members of gradient_t. */
#define OPERANDS(array) .n_operands = (int)(sizeof(array) / sizeof *(array)), .operands = array
#define KERNELS(...) ((const kernel_t *const[]){__VA_ARGS__, NULL})
#define KERNEL(its_name, its_prepare, its_run)                                                     \
    (&(const kernel_t){.name = its_name, .prepare = its_prepare, .run = its_run})
#define VIEW(its_prepare)                                                                          \
    (&(const kernel_t){.name = "view", .prepare = its_prepare, .flags = KERNEL_IS_VIEW})
#define GRADIENT(...) (&(const gradient_t){__VA_ARGS__})

/* Releases an intermediate tensor and removes it from the open scope, which would release it again.
 * NULL is allowed. */
void ops_drop(context_t *ctx, tensor_t *tensor);

/* Calls an operator with one operand and a list of integers as attribute: reshape, permute. */
status_t ops_call_ints(context_t *ctx, const opdef_t *op, const tensor_t *x, int n,
                       const int64_t *values, tensor_t **out);

/* `infer` of operators whose result has the dtype and sizes of input 0. */
status_t ops_infer_like(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out);

/* Count multiplications and additions of an operator whose operand 1 is a weight. Let n be the
 * number of elements that the weight has for one index of its first dimension. Each element of the
 * result is a sum of n products; in a transposed operator, each element of operand 0 has n
 * products. */
double ops_flops_of_weight(const op_call_t *call);
double ops_flops_of_transposed(const op_call_t *call);

/* Converts a dimension that `infer` has checked to its non-negative form: ops_dim(4, -1) is 3. */
int ops_dim(int rank, int64_t dim);

#endif
