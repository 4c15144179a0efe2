/* The number of threads, loops on threads, and OpenMP, whose settings belong to the host program
 * and are restored after each call. */
#ifndef TESSERA_TENSOR_THREADS_IMPL_H
#define TESSERA_TENSOR_THREADS_IMPL_H

#include "tensor/context_impl.h"

/* Bounds on the number of threads. Example: 4 cores, 2 of them allowed, and a quota of 3. */
typedef struct threads_bounds {
    int n_cores;   /* physical cores of the machine (hwloc), at least 1 */
    int n_allowed; /* cores that the affinity of the calling thread's process allows */
    int n_quota;   /* processors that control groups' quotas allow, rounded up; 0: no quota */
} threads_bounds_t;

/* Returns the current bounds: affinity and quotas may change while a process runs. */
threads_bounds_t threads_bounds(void);

/* The least of the bounds: the number of threads of a context for which the user requests none. */
int threads_available(void);

/* Hardware threads that the affinity and the quota allow: as many threads may run at once. */
int threads_processors(void);

/* The CPU quota of the process's control groups, version 1 or 2, in processors, rounded up; 0:
 * there is no quota. `root` is a prefix of the paths /proc and /sys: "", or another one in tests.
 */
int threads_quota(const char *root);

/* Bytes of the last-level caches of these cores; 0: unknown (hwloc). */
size_t threads_cache_bytes(void);

/* Number of forks between the process that first called this function and this process. A thread of
 * the library that was started at another value does not exist in this process. Once this function
 * was called, fork ends the OpenMP team of the forking thread, so both start new ones. */
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

/* Between these two calls, which may nest, loops and OpenMP regions of the calling thread have the
 * context's number of threads. If the context flushes denormals, all these threads flush them; both
 * calls then run an OpenMP region to set the mode. */
threads_guard_t threads_enter(context_t *ctx);
void threads_leave(context_t *ctx, threads_guard_t guard);

/* Between these two calls a context has at most n_threads threads, for oneDNN, too. Code that runs
 * kernels prepared for n_threads calls them around threads_enter, because the kernels have scratch
 * memory for no more threads and do not check. */
typedef struct threads_limit {
    int n_context, n_openmp;
} threads_limit_t;
threads_limit_t threads_limit(context_t *ctx, int n_threads);
void threads_unlimit(context_t *ctx, threads_limit_t limit);

/* Number of threads for a loop over n_elements elements: one for short loops. */
static inline int threads_for(const context_t *ctx, int64_t n_elements)
{
    return n_elements >= 16384 ? context_threads(ctx) : 1;
}

/* Calls body for ranges [first, last) that together are [0, n), each index once, on up to n_threads
 * threads. They are threads of the pool (tensor/pool_impl.h), or OpenMP's shortly after a oneDNN
 * primitive, because then these have the cores. A thread may get several ranges, or none, so what a
 * body computes for an index must not depend on the range. Ranges are not empty. A call from inside
 * of a body, or of an OpenMP parallel region, runs on the calling thread alone. */
typedef void (*threads_body_t)(void *user, int64_t first, int64_t last);
void threads_share(int n_threads, int64_t n, threads_body_t body, void *user);

/* threads_share for bodies that need private memory: no two calls with the same member, in [0,
 * n_threads), run at the same time, so a body may write to scratch + member * size. Results of
 * earlier ranges of this member may still be there. The ranges of a member differ from run to run.
 * So do not sum floats for each member: the rounding would differ, too. Sum fixed parts of [0,
 * n). */
typedef void (*threads_member_body_t)(void *user, int64_t first, int64_t last, int member);
void threads_share_members(int n_threads, int64_t n, threads_member_body_t body, void *user);

#endif
