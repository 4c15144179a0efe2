/* Reference counts. A shared object starts with one reference, and is freed with the last one. */
#ifndef TESSERA_TENSOR_BASE_REFERENCES_IMPL_H
#define TESSERA_TENSOR_BASE_REFERENCES_IMPL_H

#include <stdatomic.h>
#include <stdbool.h>

/* Adds a reference; the caller holds one already. */
static inline void references_add(atomic_int *n_references)
{
    atomic_fetch_add_explicit(n_references, 1, memory_order_relaxed);
}

/* Drops a reference. Returns true for the last one; then the caller frees the object. If there is
 * only one reference, no other thread can add another, so the slow atomic subtraction (6 ns) is not
 * needed. */
static inline bool references_drop(atomic_int *n_references)
{
    return atomic_load_explicit(n_references, memory_order_acquire) == 1 ||
           atomic_fetch_sub_explicit(n_references, 1, memory_order_acq_rel) == 1;
}

#endif
