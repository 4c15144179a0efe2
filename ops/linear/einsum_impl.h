/* Translates einsum to other operators. op_einsum calls these operators; importers add them to a
 * graph. */
#ifndef TESSERA_OPS_LINEAR_EINSUM_IMPL_H
#define TESSERA_OPS_LINEAR_EINSUM_IMPL_H

#include "tensor/info_impl.h"

#define EINSUM_MAX_OPERANDS 16

/* Callbacks, each of which calls one operator or adds it to a graph. Tensors are identified by
 * numbers that the callbacks choose. */
typedef struct einsum_maker {
    void *user;
    status_t (*reshape)(void *user, int x, int rank, const int64_t *sizes, int *out);
    status_t (*permute)(void *user, int x, int n, const int64_t *dims, int *out);
    /* Selects every step-th element of the last dimension, from the first on. */
    status_t (*stride)(void *user, int x, int rank, int64_t size, int64_t step, int *out);
    status_t (*sum)(void *user, int x, int n, const int64_t *dims, int *out);
    status_t (*mul)(void *user, int a, int b, int *out);
    status_t (*matmul)(void *user, int a, int b, int *out);
} einsum_maker_t;

/* Evaluates an equation with the syntax of torch.einsum and ONNX. */
status_t einsum_make(context_t *ctx, const char *equation, int n, const tensor_info_t *const *infos,
                     const int *in, const einsum_maker_t *maker, int *out);

#endif
