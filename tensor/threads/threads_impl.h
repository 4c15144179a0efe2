/* Chooses the number of threads, and divides loops among threads. Also changes OpenMP's settings,
 * which belong to the host program and are restored after each call.
 *
 * The folder tensor/threads contains how loops run: the number of threads and the quota that limits
 * it, the pool of workers, cancellation and limits of calls, reports of progress. */
#ifndef TESSERA_TENSOR_THREADS_THREADS_IMPL_H
#define TESSERA_TENSOR_THREADS_THREADS_IMPL_H

#include "tensor/context_impl.h"

/* Bounds on the number of threads. Example: 4 cores, 2 of them allowed, and a quota of 3. */
typedef struct threads_bounds {
    int n_cores;   /* physical cores of the machine, at least 1 */
    int n_allowed; /* cores that the process's CPU affinity allows */
    int n_node;    /* those among them on the NUMA node with the most of them */
    int n_quota;   /* processors that the quotas of cgroups allow, rounded up; 0: no quota */
} threads_bounds_t;

/* Returns the current bounds: affinity and quotas may change while a process runs. */
threads_bounds_t threads_bounds(void);

/* The smallest of the bounds: the number of threads of a context if the user requests no number. */
int threads_available(void);

/* The NUMA node for the pool's workers: the calling thread's, if no other has more allowed cores.
 * -1: the machine has only one. */
int threads_node(void);

/* Binds the calling thread, which is the worker with this number, to the node if the node has a
 * core for it next to those of the pool's first caller and of the workers with smaller numbers.
 * Returns whether it did; further workers may run everywhere. */
bool threads_stay(int node, int number);

/* Hardware threads that affinity and quota allow, which is how many threads can run at once. */
int threads_processors(void);

/* The CPU quota of the process's cgroups (version 1 or 2), in processors, rounded up; 0: no quota.
 * `root` is put before the paths /proc and /sys; it is "" except in tests. */
int threads_quota(const char *root);

/* Total bytes of the last-level caches of the allowed cores; 0: unknown. */
size_t threads_cache_bytes(void);

/* Called before the other functions with true if the user describes a machine to hwloc, by
 * HWLOC_SYNTHETIC or HWLOC_XMLFILE. The machine is then read by hwloc. */
void threads_note_hwloc(bool describes_machine);

/* Number of forks between the process that first called this function and this process. A thread
 * that the library started when this number was smaller does not exist in this process. Once this
 * function was called, fork ends the OpenMP team of the forking thread, so parent and child start
 * new teams. */
int threads_forks(void);

/* Stores how long OpenMP's threads spin at the end of a region, which follows from the values of
 * GOMP_SPINCOUNT and OMP_WAIT_POLICY (may be NULL). */
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
 * context's number of threads. If the context flushes denormals, these threads flush them; to set
 * this mode, both calls run an OpenMP region. */
threads_guard_t threads_enter(context_t *ctx);
void threads_leave(context_t *ctx, threads_guard_t guard);

/* Between these two calls a context has at most n_threads threads, for oneDNN, too. Call
 * threads_limit before threads_enter, and threads_unlimit after threads_leave, to run kernels that
 * were prepared for n_threads: they have scratch memory for no more threads, and do not check. */
typedef struct threads_limit {
    int n_context, n_openmp;
} threads_limit_t;
threads_limit_t threads_limit(context_t *ctx, int n_threads);
void threads_unlimit(context_t *ctx, threads_limit_t limit);

/* Number of threads for a loop over n_elements elements: 1 if the loop is short. */
static inline int threads_for(const context_t *ctx, int64_t n_elements)
{
    return n_elements >= 16384 ? context_threads(ctx) : 1;
}

/* Calls body for ranges [first, last) that together are [0, n), each index once, on up to n_threads
 * threads. These are threads of the pool (tensor/threads/pool_impl.h); shortly after a oneDNN
 * primitive, OpenMP's threads, because they still spin on the cores. A thread may get several
 * ranges, or none, so the body's result for an index must not depend on the range. One of OpenMP's
 * threads may get an empty range. If a body or an OpenMP parallel region calls threads_share, that
 * call runs on the calling thread alone. */
typedef void (*threads_body_t)(void *user, int64_t first, int64_t last);
void threads_share(int n_threads, int64_t n, threads_body_t body, void *user);

/* Like threads_share, for bodies that need private memory: no two calls with the same member, in
 * [0, n_threads), run at the same time, so a body may write to scratch + member * size. This memory
 * may contain results of the member's earlier ranges. The ranges of a member differ from run to
 * run. So do not add up floats per member, because the rounding would differ, too; add up fixed
 * parts of [0, n) instead. */
typedef void (*threads_member_body_t)(void *user, int64_t first, int64_t last, int member);
void threads_share_members(int n_threads, int64_t n, threads_member_body_t body, void *user);

#endif
