/* Einsum as a chain of calls of other operators: operators at once, importers into their graph. */
#ifndef TESSERA_OPS_LINEAR_EINSUM_IMPL_H
#define TESSERA_OPS_LINEAR_EINSUM_IMPL_H

#include "tensor/info_impl.h"

#define EINSUM_MAX_OPERANDS 16

/* What makes the calls; tensors are known by numbers of the maker's. */
typedef struct einsum_maker {
    void *user;
    status_t (*reshape)(void *user, int x, int rank, const int64_t *sizes, int *out);
    status_t (*permute)(void *user, int x, int n, const int64_t *dims, int *out);
    /* Every step-th element of the last dimension, from the first one on. */
    status_t (*stride)(void *user, int x, int rank, int64_t size, int64_t step, int *out);
    status_t (*sum)(void *user, int x, int n, const int64_t *dims, int *out);
    status_t (*mul)(void *user, int a, int b, int *out);
    status_t (*matmul)(void *user, int a, int b, int *out);
} einsum_maker_t;

/* The equation as torch.einsum and ONNX have it. */
status_t einsum_make(context_t *ctx, const char *equation, int n, const tensor_info_t *const *infos,
                     const int *in, const einsum_maker_t *maker, int *out);

#endif
