/* Threads: how many, and how calls borrow the host's OpenMP pool without changing its settings. */
#ifndef TESSERA_TENSOR_THREADS_IMPL_H
#define TESSERA_TENSOR_THREADS_IMPL_H

#include "tensor/context_impl.h"

/* Physical cores in the affinity mask of the process, at least 1 (hwloc). */
int threads_available(void);

/* What a call found and puts back: the host's number of OpenMP threads and the calling thread's
 * floating-point mode. */
typedef struct threads_guard {
    int n_threads;
    unsigned mxcsr;
    bool is_outermost;
} threads_guard_t;

/* Between the two the calling thread's parallel regions, ours and oneDNN's, have the context's
 * number of threads, and flush denormals unless the context keeps them. They nest. */
threads_guard_t threads_enter(context_t *ctx);
void threads_leave(context_t *ctx, threads_guard_t guard);

/* A loop worth this many elements gets this many threads. */
static inline int threads_for(const context_t *ctx, int64_t n_elements)
{
    return n_elements >= 16384 ? context_threads(ctx) : 1;
}

#endif
