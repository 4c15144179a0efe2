/* Internals of a tensor, for library folders. */
#ifndef TESSERA_TENSOR_TENSOR_IMPL_H
#define TESSERA_TENSOR_TENSOR_IMPL_H

#include <stdatomic.h>

#include "tensor/storage_impl.h"
#include "tensor/tensor.h"

struct tensor {
    atomic_int n_references;
    atomic_int n_scopes; /* number of open scopes that list it */
    allocator_t allocator;
    tensor_info_t info;
    storage_t *storage;
    int64_t offset;             /* in bytes from the start of the storage */
    atomic_uint_fast64_t hash;  /* 0: not computed yet */
    atomic_uint_fast64_t stamp; /* 0: none */
    atomic_uint taped;          /* unique number, set by the first tape (train/tape.h); 0: none */
    bool is_in_block;           /* allocated in one memory block with its storage */
};

/* tensor_hold and tensor_drop retain and release for library code; scopes ignore these references.
 * Examples: a module holds its parameters, a datum its tensor, a call its converted inputs.
 * tensor_retain and tensor_release are for users, and notify the scopes that list the tensor.
 * Library code must not call tensor_release, which might release a scope's reference. NULL does
 * nothing. */
tensor_t *tensor_hold(tensor_t *tensor);
void tensor_drop(tensor_t *tensor);

/* Makes a tensor on a storage, which it retains. Does not enter the tensor in a scope: the caller
 * releases it, or returns it from a public function with tensor_give. This also holds for the other
 * functions here that make a tensor. */
status_t tensor_over(context_t *ctx, const tensor_info_t *info, storage_t *storage, int64_t offset,
                     tensor_t **out_tensor);

/* Makes an uninitialised tensor with its own storage, in any layout and format. */
status_t tensor_make(context_t *ctx, const tensor_info_t *info, tensor_t **out_tensor);
/* Like tensor_make, for callers that know the size in bytes. hash: info_identity_hash(info), or 0
 * if unknown. *out_bytes are the tensor's bytes, which must be written before the tensor is
 * shared. */
status_t tensor_make_of(context_t *ctx, const tensor_info_t *info, size_t n_bytes, uint64_t hash,
                        tensor_t **out_tensor, void **out_bytes);

/* Size of a tensor in bytes; fails on overflow. */
status_t tensor_count_bytes(context_t *ctx, const tensor_info_t *info, size_t *out_bytes);

/* Hash of the fields that info_identical compares, cached in the tensor. */
uint64_t tensor_hash(const tensor_t *tensor);

/* A stamp is a number that identifies an info: tensors with the same stamp have identical infos, so
 * dispatch compares stamps instead of infos. Tensors with different stamps may still have equal
 * infos. The result of an operator has the stamp of the prepared operator's output
 * (prepared_impl.h); another tensor gets a stamp when dispatch finds its info in the cache. */
uint64_t tensor_new_stamp(void);

static inline uint64_t tensor_stamp(const tensor_t *tensor)
{
    return atomic_load_explicit(&tensor->stamp, memory_order_relaxed);
}

static inline void tensor_set_stamp(const tensor_t *tensor, uint64_t stamp)
{
    atomic_store_explicit(&((tensor_t *)(uintptr_t)tensor)->stamp, stamp, memory_order_relaxed);
}

/* Makes a dense placeholder, which has sizes but no elements, for tracing without computing. See
 * storage_set_hollow. */
status_t tensor_hollow(context_t *ctx, const tensor_info_t *info, atomic_int *looks,
                       tensor_t **out_tensor);

/* Last step of a public function that returns a tensor: writes *out_tensor and enters the tensor in
 * the open scope. Releases the tensor on failure. */
status_t tensor_give(context_t *ctx, tensor_t *tensor, tensor_t **out_tensor);

static inline const void *tensor_bytes(const tensor_t *tensor)
{
    return (const char *)storage_data(tensor->storage) + tensor->offset;
}

/* Like tensor_clone, but does not enter the copy in a scope. */
status_t tensor_duplicate(context_t *ctx, const tensor_t *tensor, tensor_t **out_copy);

/* Fails with a message of function `op` if the tensor is NULL or not dense. */
status_t tensor_need_dense(context_t *ctx, const char *op, const tensor_t *tensor);

/* True if dtype and sizes are equal and both formats have the same bytes; layouts may differ.
 * Example: dense [4,4] and mkldnn [4,4]@ab. */
bool tensor_lies_like(const tensor_info_t *a, const tensor_info_t *b);

/* True if some address belongs to elements of both tensors. The even and the odd columns of a
 * matrix do not overlap. */
bool tensor_overlaps(const tensor_t *a, const tensor_t *b);

/* True if the elements of both tensors have the same addresses, in any order. May be false even
 * then if several elements of one tensor share an address. */
bool tensor_has_bytes_of(const tensor_t *a, const tensor_t *b);

/* True if a write to one tensor changes the other: they overlap, and no snapshot is involved (a
 * write to a snapshot copies its bytes first). */
bool tensor_shares_writes(const tensor_t *a, const tensor_t *b);

/* Fails if several elements of the tensor have the same address, as PyTorch does before it writes
 * to a tensor. The message starts with `op`. */
status_t tensor_check_writable(context_t *ctx, const char *op, const tensor_t *tensor);

/* Makes a snapshot of the tensor's bytes from an offset on, with this info. The two tensors share
 * the bytes until one of them is written. */
status_t tensor_snapshot(context_t *ctx, const tensor_t *tensor, const tensor_info_t *info,
                         int64_t offset, tensor_t **out_tensor);

/* Like to_dense, but does not enter the result in a scope. A conversion is counted under
 * CAUSE_USER. */
status_t tensor_readable(context_t *ctx, const tensor_t *tensor, tensor_t **out_dense);

/* Fails if the dtype is invalid, or if shape_check rejects the sizes. */
status_t tensor_check(context_t *ctx, const char *op, dtype_t dtype, int rank,
                      const int64_t *sizes);

/* Info of a dense tensor with any strides. */
tensor_info_t info_strided(dtype_t dtype, int rank, const int64_t *sizes, const int64_t *strides);

/* Returns the bytes for writing, any layout; see storage_writable. */
status_t tensor_writable(context_t *ctx, tensor_t *tensor, void **out_bytes);

/* Describes a tensor or info, for messages. Each thread has a few buffers for such strings, so a
 * string is valid only for a few calls. */
const char *tensor_text(const tensor_t *tensor);
const char *info_brief(const tensor_info_t *info);

/* Computes the strides of a view that shows the same elements with other sizes; false if there are
 * none. sizes must not contain -1. */
bool view_strides(const tensor_info_t *base, int rank, const int64_t *sizes, int64_t *out_strides);

#endif
