/* The inside of a tensor, for library folders. */
#ifndef TESSERA_TENSOR_TENSOR_IMPL_H
#define TESSERA_TENSOR_TENSOR_IMPL_H

#include <stdatomic.h>

#include "tensor/storage_impl.h"
#include "tensor/tensor.h"

struct tensor {
    atomic_int n_references;
    atomic_int n_scopes; /* open scopes that list it */
    allocator_t allocator;
    tensor_info_t info;
    storage_t *storage;
    int64_t offset;             /* bytes from the storage's first */
    atomic_uint_fast64_t hash;  /* 0: not asked for yet */
    atomic_uint_fast64_t stamp; /* 0: none */
    atomic_uint taped;          /* a number of its own from the first tape on; 0: no tape saw it */
    bool is_in_block;           /* made with its storage, in whose block of memory it lies */
};

/* References of library code, which no scope knows of: a module holds its parameters, a datum its
 * tensor, a call what it converts. tensor_retain and tensor_release are the user's, and tell the
 * scopes that list the tensor; library code that called tensor_release would give a scope's
 * reference up. NULL is let pass. */
tensor_t *tensor_hold(tensor_t *tensor);
void tensor_drop(tensor_t *tensor);

/* A tensor over a storage, which it retains. Not entered in a scope: internal results are released
 * by who made them; public functions hand theirs out by tensor_give. */
status_t tensor_over(context_t *ctx, const tensor_info_t *info, storage_t *storage, int64_t offset,
                     tensor_t **out_tensor);

/* Uninitialised, with storage of its own, in any layout and format. */
status_t tensor_make(context_t *ctx, const tensor_info_t *info, tensor_t **out_tensor);
/* The same for who knows how many bytes that is, and info_identity_hash(info) or 0. Gives the
 * bytes, which are to be written before anybody else has the tensor. */
status_t tensor_make_of(context_t *ctx, const tensor_info_t *info, size_t n_bytes, uint64_t hash,
                        tensor_t **out_tensor, void **out_bytes);

/* The bytes of a tensor; refuses what overflows. */
status_t tensor_count_bytes(context_t *ctx, const tensor_info_t *info, size_t *out_bytes);

/* The hash of info_identical's fields, kept with the tensor once it was asked for. */
uint64_t tensor_hash(const tensor_t *tensor);

/* Stamps: tensors that have the same one have identical infos, so that dispatch need not compare
 * them. What an operator gives has the stamp of its prepared result from the start; another tensor
 * gets one, by a look-up that compared its info. A tensor may get another stamp, none is wrong. */
uint64_t tensor_new_stamp(void);

static inline uint64_t tensor_stamp(const tensor_t *tensor)
{
    return atomic_load_explicit(&tensor->stamp, memory_order_relaxed);
}

static inline void tensor_set_stamp(const tensor_t *tensor, uint64_t stamp)
{
    atomic_store_explicit(&((tensor_t *)(uintptr_t)tensor)->stamp, stamp, memory_order_relaxed);
}

/* A dense tensor of these sizes of which one element stands for all: see storage_set_hollow. */
status_t tensor_hollow(context_t *ctx, const tensor_info_t *info, atomic_int *looks,
                       tensor_t **out_tensor);

/* What every public function that hands a tensor out ends with: writes *out_tensor and enters the
 * tensor in the scope that is open. On failure the tensor is released. */
status_t tensor_give(context_t *ctx, tensor_t *tensor, tensor_t **out_tensor);

static inline const void *tensor_bytes(const tensor_t *tensor)
{
    return (const char *)storage_data(tensor->storage) + tensor->offset;
}

/* What tensor_clone gives, outside any scope. */
status_t tensor_duplicate(context_t *ctx, const tensor_t *tensor, tensor_t **out_copy);

/* Same dtype, sizes and bytes, of either layout: dense [4,4] and mkldnn [4,4]@ab. */
bool tensor_lies_like(const tensor_info_t *a, const tensor_info_t *b);

/* True when elements of both have an address in common, whatever their storages: the even and the
 * odd columns of a matrix have none. */
bool tensor_overlaps(const tensor_t *a, const tensor_t *b);

/* True when the elements of both have the very same addresses, in any order. False is also given
 * where elements share memory through overlapping strides in different ways. */
bool tensor_has_bytes_of(const tensor_t *a, const tensor_t *b);

/* True when what is written through one is seen through the other: they overlap, and are no
 * snapshots of each other, of which a write makes a copy. */
bool tensor_shares_writes(const tensor_t *a, const tensor_t *b);

/* Refuses to write a tensor whose elements are seen several times through its strides, as PyTorch
 * does; `op` begins the message. */
status_t tensor_check_writable(context_t *ctx, const char *op, const tensor_t *tensor);

/* The same bytes from an offset on, under this info: shared until either is written. */
status_t tensor_snapshot(context_t *ctx, const tensor_t *tensor, const tensor_info_t *info,
                         int64_t offset, tensor_t **out_tensor);

/* What to_dense gives, outside any scope and counted as the user's: contiguous if mkldnn, else the
 * tensor itself, retained. */
status_t tensor_readable(context_t *ctx, const tensor_t *tensor, tensor_t **out_dense);

/* Refuses an element type that is none, and sizes as shape_check does. */
status_t tensor_check(context_t *ctx, const char *op, dtype_t dtype, int rank,
                      const int64_t *sizes);

/* A dense tensor's info with any strides. */
tensor_info_t info_strided(dtype_t dtype, int rank, const int64_t *sizes, const int64_t *strides);

/* Bytes to write, any layout; see storage_writable. */
status_t tensor_writable(context_t *ctx, tensor_t *tensor, void **out_bytes);

/* "%s" text of a tensor for messages, in a small ring of buffers of the calling thread. */
const char *tensor_text(const tensor_t *tensor);
const char *info_brief(const tensor_info_t *info);

/* The strides of a view with other sizes over the same elements; false when there are none.
 * sizes has no -1 left. */
bool view_strides(const tensor_info_t *base, int rank, const int64_t *sizes, int64_t *out_strides);

#endif
