#define _POSIX_C_SOURCE 200809L

#include "tensor/threads/threads_impl.h"

#include <hwloc.h>
#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/threads/machine_impl.h"
#include "tensor/threads/pool_impl.h"

#ifdef __SSE__
#include <xmmintrin.h>
#define MXCSR_FLUSH 0x8040u /* flush to zero, denormals are zero */
#endif

static pthread_once_t once = PTHREAD_ONCE_INIT;
static machine_t machine;         /* what Linux's files say */
static bool is_simple;            /* `machine` suffices, so there is no topology */
static hwloc_topology_t topology; /* never freed; NULL if it cannot be read */
static size_t cache_bytes = 0;
static atomic_bool is_described; /* the user describes a machine to hwloc */

/* ---- cores ---- */

/* Counts the cores of a set that the mask allows. */
static int count_cores_in(hwloc_const_bitmap_t set, hwloc_const_bitmap_t mask)
{
    int count = 0;
    hwloc_obj_t core = NULL;
    while ((core = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_CORE, core)) != NULL)
        if (hwloc_bitmap_isincluded(core->cpuset, set) &&
            hwloc_bitmap_intersects(core->cpuset, mask))
            count++;
    return count;
}

/* The NUMA node where the mask has the most cores; NULL if the machine has only one node. */
static hwloc_obj_t largest_node(hwloc_const_bitmap_t mask, int *out_n_cores)
{
    hwloc_obj_t node = NULL, largest = NULL;
    *out_n_cores = 0;
    if (hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE) < 2) return NULL;
    while ((node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)) != NULL) {
        const int n = count_cores_in(node->cpuset, mask);
        if (n <= *out_n_cores) continue;
        *out_n_cores = n;
        largest = node;
    }
    return largest;
}

/* Adds up the sizes of the last-level caches (the caches farthest from the cores). */
static size_t sum_caches(hwloc_const_bitmap_t mask)
{
    static const hwloc_obj_type_t levels[] = {HWLOC_OBJ_L4CACHE, HWLOC_OBJ_L3CACHE,
                                              HWLOC_OBJ_L2CACHE};
    size_t bytes = 0;
    for (size_t i = 0; bytes == 0 && i < sizeof levels / sizeof *levels; i++) {
        hwloc_obj_t cache = NULL;
        while ((cache = hwloc_get_next_obj_by_type(topology, levels[i], cache)) != NULL)
            if (hwloc_bitmap_intersects(cache->cpuset, mask)) bytes += cache->attr->cache.size;
    }
    return bytes;
}

/* The CPU affinity of the process; NULL if memory runs out. */
static hwloc_bitmap_t allowed_mask(void)
{
    hwloc_bitmap_t mask = hwloc_bitmap_alloc();
    if (mask != NULL && hwloc_get_cpubind(topology, mask, HWLOC_CPUBIND_PROCESS) != 0)
        hwloc_bitmap_copy(mask, hwloc_topology_get_allowed_cpuset(topology));
    return mask;
}

/* Reads the machine's topology: once per process, because it takes milliseconds with hwloc. */
static void read_topology(void)
{
    machine_set_t allowed;
    is_simple = !atomic_load(&is_described) && machine_read("", &machine) &&
                machine_allowed(&allowed);
    if (is_simple) {
        cache_bytes = machine_cache_bytes(&machine, &allowed);
        return;
    }
    if (hwloc_topology_init(&topology) != 0) {
        topology = NULL;
        return;
    }
    if (hwloc_topology_load(topology) != 0) {
        hwloc_topology_destroy(topology);
        topology = NULL;
        return;
    }
    hwloc_bitmap_t mask = allowed_mask();
    if (mask != NULL) cache_bytes = sum_caches(mask);
    hwloc_bitmap_free(mask);
}

threads_bounds_t threads_bounds(void)
{
    threads_bounds_t bounds = {0};
    machine_set_t allowed;
    pthread_once(&once, read_topology);
    if (is_simple) {
        bounds.n_cores = machine_cores(&machine, NULL);
        if (machine_allowed(&allowed)) bounds.n_allowed = machine_cores(&machine, &allowed);
    } else if (topology != NULL) {
        hwloc_bitmap_t mask = allowed_mask();
        bounds.n_cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
        if (mask != NULL) {
            bounds.n_allowed = count_cores_in(hwloc_topology_get_topology_cpuset(topology), mask);
            (void)largest_node(mask, &bounds.n_node);
        }
        hwloc_bitmap_free(mask);
    }
    if (bounds.n_allowed < 1) bounds.n_allowed = omp_get_num_procs();
    if (bounds.n_allowed < 1) bounds.n_allowed = 1;
    if (bounds.n_cores < bounds.n_allowed) bounds.n_cores = bounds.n_allowed;
    if (bounds.n_node < 1) bounds.n_node = bounds.n_allowed;
    bounds.n_quota = threads_quota("");
    return bounds;
}

int threads_available(void)
{
    const threads_bounds_t bounds = threads_bounds();
    return bounds.n_quota > 0 && bounds.n_quota < bounds.n_node ? bounds.n_quota : bounds.n_node;
}

int threads_node(void)
{
    int number = -1, n_cores = 0;
    hwloc_obj_t node = NULL;
    pthread_once(&once, read_topology);
    hwloc_bitmap_t mask = topology != NULL ? allowed_mask() : NULL;
    hwloc_bitmap_t here = mask != NULL ? hwloc_bitmap_alloc() : NULL;
    if (here != NULL && (node = largest_node(mask, &n_cores)) != NULL) {
        number = (int)node->logical_index;
        node = NULL;
        if (hwloc_get_last_cpu_location(topology, here, HWLOC_CPUBIND_THREAD) != 0)
            hwloc_bitmap_zero(here);
        while ((node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)) != NULL)
            if (hwloc_bitmap_intersects(node->cpuset, here) &&
                count_cores_in(node->cpuset, mask) == n_cores) {
                number = (int)node->logical_index;
                break;
            }
    }
    hwloc_bitmap_free(here);
    hwloc_bitmap_free(mask);
    return number;
}

bool threads_stay(int node, int number)
{
    bool is_bound = false;
    if (node < 0) return false;
    const hwloc_obj_t at = hwloc_get_obj_by_type(topology, HWLOC_OBJ_NUMANODE, (unsigned)node);
    hwloc_bitmap_t mask = at != NULL ? allowed_mask() : NULL;
    if (mask != NULL && number + 1 < count_cores_in(at->cpuset, mask)) {
        hwloc_bitmap_and(mask, mask, at->cpuset);
        is_bound = hwloc_set_cpubind(topology, mask, HWLOC_CPUBIND_THREAD) == 0;
    }
    hwloc_bitmap_free(mask);
    return is_bound;
}

int threads_processors(void)
{
    int n = 0;
    const int n_quota = threads_quota("");
    machine_set_t allowed;
    pthread_once(&once, read_topology);
    if (is_simple && machine_allowed(&allowed)) n = machine_count(&machine, &allowed);
    hwloc_bitmap_t mask = topology != NULL ? allowed_mask() : NULL;
    if (mask != NULL) n = hwloc_bitmap_weight(mask);
    hwloc_bitmap_free(mask);
    if (n < 1) n = omp_get_num_procs();
    if (n_quota > 0 && n_quota < n) n = n_quota;
    return n > 0 ? n : 1;
}

size_t threads_cache_bytes(void)
{
    pthread_once(&once, read_topology);
    return cache_bytes;
}

void threads_note_hwloc(bool describes_machine)
{
    atomic_store(&is_described, describes_machine);
}

/* ---- fork ---- */

static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
static atomic_int n_forks;

/* Called before a fork. libgomp keeps the threads of a parallel region (a team) for the calling
 * thread's next region. A forked child inherits the list of these threads but not the threads, so
 * its first region would wait forever. If the team has ended before the fork, parent and child
 * start new threads. */
static void end_team(void)
{
    (void)omp_pause_resource_all(omp_pause_soft);
    pool_before_fork();
}

static void go_on(void)
{
    pool_after_fork(false);
}

static void begin_child(void)
{
    atomic_fetch_add(&n_forks, 1);
    pool_after_fork(true);
}

static void watch_forks(void)
{
    (void)pthread_atfork(end_team, go_on, begin_child);
}

int threads_forks(void)
{
    pthread_once(&fork_once, watch_forks);
    return atomic_load(&n_forks);
}

/* ---- denormals ---- */

/* A thread can only set its own floating-point mode, so all threads of an OpenMP team set it in a
 * parallel region. Later regions with as many threads run on the same team, so the mode stays set.
 * Calls of two contexts may nest in one thread; mode_before is the mode before the outer call. */
#ifdef __SSE__
static _Thread_local int flush_depth;
static _Thread_local unsigned mode_before;

static void begin_flush(int n_threads)
{
#pragma omp parallel num_threads(n_threads)
    {
        if (flush_depth++ == 0) mode_before = _mm_getcsr() & MXCSR_FLUSH;
        _mm_setcsr(_mm_getcsr() | MXCSR_FLUSH);
    }
}

static void end_flush(int n_threads)
{
#pragma omp parallel num_threads(n_threads)
    {
        if (flush_depth > 0 && --flush_depth == 0)
            _mm_setcsr((_mm_getcsr() & ~MXCSR_FLUSH) | mode_before);
    }
}
#else
static void begin_flush(int n_threads)
{
    (void)n_threads;
}

static void end_flush(int n_threads)
{
    (void)n_threads;
}
#endif

/* ---- calls ---- */

threads_guard_t threads_enter(context_t *ctx)
{
    threads_guard_t guard = {0};
    int *depth = context_depth(ctx);
    guard.is_outermost = (*depth)++ == 0;
    if (!guard.is_outermost) return guard;

    guard.n_threads = omp_get_max_threads();
    if (guard.n_threads != context_threads(ctx)) omp_set_num_threads(context_threads(ctx));
    if (context_flushes_denormals(ctx)) {
        guard.n_flushing = context_threads(ctx);
        begin_flush(guard.n_flushing);
    }
    return guard;
}

void threads_leave(context_t *ctx, threads_guard_t guard)
{
    --*context_depth(ctx);
    if (!guard.is_outermost) return;
    if (guard.n_flushing > 0) end_flush(guard.n_flushing);
    if (omp_get_max_threads() != guard.n_threads) omp_set_num_threads(guard.n_threads);
}

threads_limit_t threads_limit(context_t *ctx, int n_threads)
{
    const threads_limit_t limit = {context_threads(ctx), omp_get_max_threads()};
    if (n_threads < limit.n_context) (void)context_set_threads(ctx, n_threads);
    if (n_threads < limit.n_openmp) omp_set_num_threads(n_threads);
    return limit;
}

void threads_unlimit(context_t *ctx, threads_limit_t limit)
{
    if (context_threads(ctx) != limit.n_context) (void)context_set_threads(ctx, limit.n_context);
    if (omp_get_max_threads() != limit.n_openmp) omp_set_num_threads(limit.n_openmp);
}

/* ---- loops ---- */

/* After a oneDNN primitive, OpenMP's threads spin for a while on cores that the pool's workers
 * would need. So loops run on OpenMP's threads as long as these spin. If the user makes OpenMP's
 * threads spin only for a short time, at most LOOPS_AFTER loops after a primitive run on them. So a
 * plan that alternates between primitives and loops does not change threads each time. */
#define SHORT_SPIN_COUNT 20000
#define SHORT_SPIN_NS 30000u
#define LONG_SPIN_NS 5000000u
#define LOOPS_AFTER 2

static atomic_bool spins_shortly;
static _Thread_local uint64_t team_time; /* when this thread's OpenMP team was last used */
static _Thread_local int n_team_loops;   /* loops on OpenMP's threads since the last primitive */

void threads_note_openmp(const char *spin_count, const char *wait_policy)
{
    char *end = NULL;
    bool is_short = wait_policy != NULL && strcmp(wait_policy, "passive") == 0;
    if (spin_count != NULL) {
        const unsigned long long count = strtoull(spin_count, &end, 10);
        is_short = end != spin_count && *end == '\0' && count <= SHORT_SPIN_COUNT;
    }
    atomic_store(&spins_shortly, is_short);
}

void threads_begin_openmp(int n_threads)
{
    if (n_threads > 1) pool_rest();
}

void threads_end_openmp(int n_threads)
{
    if (n_threads <= 1) return;
    team_time = context_now();
    n_team_loops = 0;
}

static bool is_team_hot(void)
{
    if (team_time == 0) return false;
    const bool is_short = atomic_load_explicit(&spins_shortly, memory_order_relaxed);
    const uint64_t spin_ns = is_short ? SHORT_SPIN_NS : LONG_SPIN_NS;
    if (!(is_short && n_team_loops++ >= LOOPS_AFTER) && context_now() - team_time < spin_ns)
        return true;
    team_time = 0;
    return false;
}

static void share_in_team(int n_threads, int64_t n, threads_member_body_t body, void *user)
{
#pragma omp parallel num_threads(n_threads)
    {
        int64_t n_members = omp_get_num_threads(), member = omp_get_thread_num();
        int64_t share = n / n_members, rest = n % n_members;
        int64_t first = member * share + (member < rest ? member : rest);
        body(user, first, first + share + (member < rest ? 1 : 0), (int)member);
    }
    team_time = context_now();
}

void threads_share_members(int n_threads, int64_t n, threads_member_body_t body, void *user)
{
    if (n <= 0) return;
    if (n_threads <= 1 || n == 1 || omp_in_parallel())
        body(user, 0, n, 0);
    else if (!pool_is_inside() && is_team_hot())
        share_in_team(n_threads, n, body, user);
    else
        pool_run(n_threads, n, body, user);
}

typedef struct plain {
    threads_body_t body;
    void *user;
} plain_t;

static void run_plain(void *user, int64_t first, int64_t last, int member)
{
    const plain_t *plain = user;
    (void)member;
    plain->body(plain->user, first, last);
}

void threads_share(int n_threads, int64_t n, threads_body_t body, void *user)
{
    plain_t plain = {body, user};
    threads_share_members(n_threads, n, run_plain, &plain);
}
