/* Threads: how many, and how calls borrow the host's OpenMP pool without changing its settings. */
#ifndef TESSERA_TENSOR_THREADS_IMPL_H
#define TESSERA_TENSOR_THREADS_IMPL_H

#include "tensor/context_impl.h"

/* The bounds on the number of threads: 4 cores, of which 2 are allowed, and a quota of 3. */
typedef struct threads_bounds {
    int n_cores;   /* physical cores of the machine (hwloc), at least 1 */
    int n_allowed; /* those of them that the affinity of the calling thread's process allows */
    int n_quota;   /* processors that the quotas of control groups are worth; 0: there is none */
} threads_bounds_t;

/* As they are now: affinity and quotas may change while a process runs. */
threads_bounds_t threads_bounds(void);

/* The least of the bounds: the number of threads of a context for which the user requests none. */
int threads_available(void);

/* Hardware threads that the affinity and the quota allow: how many threads may run at once. */
int threads_processors(void);

/* The CPU quota of the process's control groups, version 1 or 2, in processors, rounded up; 0:
 * there is no quota. `root` is a prefix of the paths /proc and /sys: "", or another one in tests.
 */
int threads_quota(const char *root);

/* Bytes of the last-level caches of these cores; 0: unknown (hwloc). */
size_t threads_cache_bytes(void);

/* The number of forks from the process that first called this function to this one. After the
 * first call, fork ends the OpenMP team of the forking thread, so that parent and child both start
 * a new one. A thread of the library that was started at another value no longer exists. */
int threads_forks(void);

/* Finds how long OpenMP's threads spin at the end of a region, from the values of GOMP_SPINCOUNT
 * and OMP_WAIT_POLICY, which may be NULL. */
void threads_note_openmp(const char *spin_count, const char *wait_policy);

/* Called before and after oneDNN runs a primitive on n_threads OpenMP threads. */
void threads_begin_openmp(int n_threads);
void threads_end_openmp(int n_threads);

/* State that threads_leave restores: the host's number of OpenMP threads, and how many threads were
 * set to flush denormals (0: none). */
typedef struct threads_guard {
    int n_threads;
    int n_flushing;
    bool is_outermost;
} threads_guard_t;

/* Between these two calls, loops and OpenMP regions of the calling thread have the context's number
 * of threads. If the context flushes denormals, all of these threads do, which costs a parallel
 * region at both ends. Calls nest. */
threads_guard_t threads_enter(context_t *ctx);
void threads_leave(context_t *ctx, threads_guard_t guard);

/* Between these two calls, a context has at most n_threads threads, also for oneDNN, because a
 * kernel that was prepared for n_threads has scratch memory for no more. Called around
 * threads_enter by the code that runs kernels prepared earlier; kernels need not check. */
typedef struct threads_limit {
    int n_context, n_openmp;
} threads_limit_t;
threads_limit_t threads_limit(context_t *ctx, int n_threads);
void threads_unlimit(context_t *ctx, threads_limit_t limit);

/* A loop worth this many elements gets this many threads. */
static inline int threads_for(const context_t *ctx, int64_t n_elements)
{
    return n_elements >= 16384 ? context_threads(ctx) : 1;
}

/* Calls body for ranges [first, last) that together are [0, n), each index once, on up to this many
 * threads: those of the pool (tensor/pool_impl.h), or OpenMP's right after a primitive of oneDNN.
 * One thread may get several ranges, and some threads none: a body finds what it needs from its
 * indices, never from how many ranges there are or where they begin. Ranges are not empty. A call
 * from inside of a body, or of a parallel region of OpenMP, runs on its thread alone. */
typedef void (*threads_body_t)(void *user, int64_t first, int64_t last);
void threads_share(int n_threads, int64_t n, threads_body_t body, void *user);

/* The same for bodies that need memory of their own: no two calls with the same member, in
 * [0, n_threads), run at the same time, so that a body may write to scratch + member * size. It may
 * find there what an earlier range left. Which member gets which range differs from run to run, so
 * sums of floats by member do too: sum by fixed pieces of [0, n) instead. */
typedef void (*threads_member_body_t)(void *user, int64_t first, int64_t last, int member);
void threads_share_members(int n_threads, int64_t n, threads_member_body_t body, void *user);

#endif
