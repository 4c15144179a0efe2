/* Loops that threads of the pool share. Each index must be seen once, for all sizes, numbers of
 * threads and callers. A worker that is late, busy or asleep must delay only the chunk that it
 * has. */
#define _GNU_SOURCE /* processor sets */

#include "tests/support/support.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

#include "tensor/context_impl.h"
#include "tensor/threads/pool_impl.h"
#include "tensor/threads/processor_impl.h"
#include "tensor/threads/threads_impl.h"

enum { MAX_N = 3000, MAX_THREADS = 9, N_CALLERS = 6, MAX_SECONDS = 120 };

typedef struct run {
    int64_t n;
    int n_threads;
    atomic_int seen[MAX_N];
    atomic_int is_inside[MAX_THREADS];
    atomic_int n_faults;
} run_t;

static run_t *make_run(void)
{
    run_t *run = calloc(1, sizeof *run);
    assert_non_null(run);
    return run;
}

static void mark(void *user, int64_t first, int64_t last)
{
    run_t *run = user;
    if (first < 0 || first >= last || last > run->n) atomic_fetch_add(&run->n_faults, 1);
    for (int64_t i = first; i < last; i++) atomic_fetch_add(&run->seen[i], 1);
}

static void mark_as_member(void *user, int64_t first, int64_t last, int member)
{
    run_t *run = user;
    if (member < 0 || member >= run->n_threads || atomic_exchange(&run->is_inside[member], 1) != 0)
        atomic_fetch_add(&run->n_faults, 1);
    mark(user, first, last);
    atomic_store(&run->is_inside[member], 0);
}

static void begin(run_t *run, int n_threads, int64_t n)
{
    run->n = n;
    run->n_threads = n_threads;
    for (int64_t i = 0; i < n; i++) atomic_store(&run->seen[i], 0);
}

/* Returns the number of indices that were not seen `wanted` times, and of other faults. */
static int count_wrong(run_t *run, int wanted)
{
    int n_wrong = atomic_load(&run->n_faults);
    for (int64_t i = 0; i < run->n; i++) n_wrong += atomic_load(&run->seen[i]) != wanted;
    return n_wrong;
}

static void check(run_t *run)
{
    const int n_wrong = count_wrong(run, 1);
    if (n_wrong != 0)
        fail_msg("threads %d, n %d: %d indices are wrong", run->n_threads, (int)run->n, n_wrong);
}

static const int64_t sizes[] = {0, 1, 2, 3, 7, 8, 9, 31, 64, 100, 1000, MAX_N};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

static void each_index_is_seen_once(void **state)
{
    run_t *run = make_run();
    (void)state;
    for (int s = 0; s < N_SIZES; s++)
        for (int n_threads = 1; n_threads <= MAX_THREADS; n_threads++)
            for (int repetition = 0; repetition < 10; repetition++) {
                begin(run, n_threads, sizes[s]);
                threads_share(n_threads, run->n, mark, run);
                check(run);
                begin(run, n_threads, sizes[s]);
                threads_share_members(n_threads, run->n, mark_as_member, run);
                check(run);
            }
    free(run);
}

static void add_size(void *user, int64_t first, int64_t last)
{
    atomic_fetch_add((atomic_llong *)user, last - first);
}

static void loops_may_be_huge(void **state)
{
    static const int64_t n = INT64_C(1) << 60;
    atomic_llong sum = 0;
    (void)state;
    threads_share(3, n + 1, add_size, &sum);
    assert_true(atomic_load(&sum) == n + 1);
}

/* ---- loops in loops ---- */

static void mark_all_in_loop(void *user, int64_t first, int64_t last)
{
    run_t *run = user;
    for (int64_t i = first; i < last; i++) threads_share(run->n_threads, run->n, mark, run);
}

static void a_loop_in_a_loop_runs_on_its_thread(void **state)
{
    enum { N_OUTER = 20 };
    run_t *run = make_run();
    (void)state;
    begin(run, 4, 100);
    threads_share(4, N_OUTER, mark_all_in_loop, run);
    assert_int_equal(count_wrong(run, N_OUTER), 0);
    free(run);
}

#ifndef __SANITIZE_THREAD__
static void loops_run_in_a_region_of_the_host(void **state)
{
    run_t *runs[3] = {make_run(), make_run(), make_run()};
    (void)state;
#pragma omp parallel for num_threads(3) schedule(static, 1)
    for (int i = 0; i < 3; i++) {
        begin(runs[i], 4, 1000);
        threads_share_members(4, 1000, mark_as_member, runs[i]);
    }
    for (int i = 0; i < 3; i++) {
        check(runs[i]);
        free(runs[i]);
    }
}
#endif

/* ---- several callers ---- */

static void *run_many(void *user)
{
    run_t *run = user;
    for (int i = 0; i < 300; i++) {
        begin(run, 2 + i % 4, 1 + i * 7 % 500);
        threads_share_members(run->n_threads, run->n, mark_as_member, run);
        if (count_wrong(run, 1) != 0) break;
    }
    return NULL;
}

static void callers_share_the_pool(void **state)
{
    pthread_t callers[N_CALLERS];
    run_t *runs[N_CALLERS];
    (void)state;
    for (int i = 0; i < N_CALLERS; i++) {
        runs[i] = make_run();
        assert_int_equal(pthread_create(&callers[i], NULL, run_many, runs[i]), 0);
    }
    for (int i = 0; i < N_CALLERS; i++) {
        assert_int_equal(pthread_join(callers[i], NULL), 0);
        check(runs[i]);
        free(runs[i]);
    }
}

/* ---- workers that are late ---- */

static bool wait_until(atomic_int *value, int least)
{
    const uint64_t end = context_now() + UINT64_C(1000000000) * MAX_SECONDS;
    while (atomic_load(value) < least)
        if (context_now() > end) return false;
    return true;
}

typedef struct pause {
    int64_t n, where; /* the chunk with this index waits for all others */
    atomic_int n_done, is_late;
} pause_t;

static void pause_in_one(void *user, int64_t first, int64_t last)
{
    pause_t *pause = user;
    const bool is_here = first <= pause->where && pause->where < last;
    if (is_here && !wait_until(&pause->n_done, (int)(pause->n - (last - first))))
        atomic_store(&pause->is_late, 1);
    if (!is_here) usleep(100);
    atomic_fetch_add(&pause->n_done, (int)(last - first));
}

static void other_threads_take_chunks_that_a_thread_has_not_begun(void **state)
{
    (void)state;
    for (int n_threads = 2; n_threads <= 4; n_threads++)
        for (int64_t where = 0; where < 64; where += 63) {
            pause_t pause = {.n = 64, .where = where};
            threads_share(n_threads, pause.n, pause_in_one, &pause);
            assert_int_equal(atomic_load(&pause.n_done), 64);
            assert_int_equal(atomic_load(&pause.is_late), 0);
        }
}

typedef struct hold {
    atomic_int n_inside, is_over, is_late;
} hold_t;

static void hold_thread(void *user, int64_t first, int64_t last)
{
    hold_t *hold = user;
    (void)first;
    (void)last;
    atomic_fetch_add(&hold->n_inside, 1);
    if (!wait_until(&hold->is_over, 1)) atomic_store(&hold->is_late, 1);
}

static void *hold_all(void *user)
{
    threads_share(2, 2, hold_thread, user);
    return NULL;
}

/* Another caller keeps the only worker all the time. */
static void loops_end_without_workers(void **state)
{
    hold_t hold = {0};
    pthread_t caller;
    run_t *run = make_run();
    (void)state;
    pool_set_processors(2);
    assert_int_equal(pthread_create(&caller, NULL, hold_all, &hold), 0);
    (void)wait_until(&hold.n_inside, 1);
    for (int i = 0; i < 100; i++) {
        begin(run, 2, 200);
        threads_share(2, 200, mark, run);
        check(run);
    }
    atomic_store(&hold.is_over, 1);
    assert_int_equal(pthread_join(caller, NULL), 0);
    assert_int_equal(atomic_load(&hold.is_late), 0);
    pool_set_processors(MAX_THREADS);
    free(run);
}

static void keep_one(void *user, int64_t first, int64_t last, int member)
{
    int *of_member = user;
    of_member[member] += (int)(last - first);
}

/* Workers write to the stack of a loop's caller. One that comes after the loop would spoil other
 * data. */
static void late_workers_take_nothing(void **state)
{
    const int n_loops = IS_SANITIZED ? 3000 : 50000;
    (void)state;
    for (int i = 0; i < n_loops; i++) {
        int of_member[4] = {0, 0, 0, 0};
        const int n = 2 + i % 5;
        threads_share_members(4, n, keep_one, of_member);
        assert_int_equal(of_member[0] + of_member[1] + of_member[2] + of_member[3], n);
        if (i % 500 == 0) usleep(200); /* so long that workers fall asleep */
    }
}

static void workers_are_made_as_they_are_wanted(void **state)
{
    run_t *run = make_run();
    (void)state;
    pool_set_processors(6);
    for (int n_threads = 5; n_threads <= 20; n_threads += 5) {
        begin(run, n_threads, MAX_N);
        threads_share(n_threads, run->n, mark, run);
        check(run);
        assert_in_range(pool_workers(), n_threads < 6 ? 4 : 5, MAX_THREADS - 1);
    }
    pool_set_processors(1); /* no workers */
    begin(run, 4, MAX_N);
    threads_share_members(4, run->n, mark_as_member, run);
    check(run);
    pool_set_processors(MAX_THREADS);
    free(run);
}

/* ---- processors that other programs occupy ---- */

#ifdef __linux__
/* Two processors that the process may use. Returns false if there is only one. */
static bool find_two(int *out_processors)
{
    cpu_set_t allowed;
    int n = 0;
    assert_int_equal(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    for (int p = 0; p < CPU_SETSIZE && n < 2; p++)
        if (CPU_ISSET((size_t)p, &allowed)) out_processors[n++] = p;
    return n == 2;
}

static void stay_on(int processor, cpu_set_t *out_before)
{
    cpu_set_t one;
    assert_int_equal(sched_getaffinity(0, sizeof *out_before, out_before), 0);
    CPU_ZERO(&one);
    CPU_SET((size_t)processor, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
}

static void check_move(processor_thread_t self, int from, int to)
{
    cpu_set_t before, after;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    processor_pull(self, from);
    assert_int_equal(processor_current(), from);
    processor_push(self, from);
    assert_int_not_equal(processor_current(), from);
    processor_pull(self, to);
    assert_int_equal(processor_current(), to);
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_true(CPU_EQUAL(&before, &after));
}

static void threads_move_and_keep_their_affinity(void **state)
{
    int processors[2];
    cpu_set_t before, after;
    (void)state;
    if (!find_two(processors)) return;
    const processor_thread_t self = processor_thread();
    for (int i = 0; i < 20; i++) check_move(self, processors[i % 2], processors[1 - i % 2]);
    stay_on(processors[0], &before);
    processor_push(self, processors[0]); /* nowhere to go */
    processor_pull(self, processors[1]); /* not allowed */
    assert_int_equal(processor_current(), processors[0]);
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_int_equal(CPU_COUNT(&after), 1);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    const uint64_t time = processor_time(self);
    while (processor_time(self) == time) continue;
    assert_true(time > 0 && processor_time((processor_thread_t){0}) == 0);
}

static void *spin_on(void *processor)
{
    cpu_set_t before;
    stay_on(*(const int *)processor, &before);
    for (;;) pthread_testcancel();
    return NULL;
}

typedef struct starved {
    int processor; /* where other threads spin */
    atomic_int n_inside, n_left;
} starved_t;

/* The worker moves to the processor on which many others spin, so it gets little time there. The
 * caller waits for it. */
static void starve_worker(void *user, int64_t first, int64_t last, int member)
{
    starved_t *starved = user;
    (void)first;
    (void)last;
    if (member == 0) {
        (void)wait_until(&starved->n_inside, 1);
        return;
    }
    atomic_fetch_add(&starved->n_inside, 1);
    processor_pull(processor_thread(), starved->processor);
    bool is_there = true;
    for (int i = 0; i < 3 && is_there; i++) {
        sched_yield();
        is_there = processor_current() == starved->processor;
    }
    if (!is_there) atomic_fetch_add(&starved->n_left, 1);
}

/* The caller's processor has one neighbour, the other one has four, so the worker is moved. Without
 * this, 0 to 7 of 20 loops see it elsewhere. On a machine with other work, a round may fail. */
static void a_worker_without_a_processor_gets_the_callers(void **state)
{
    enum { N_LOOPS = 20, N_NEIGHBOURS = 5, N_ROUNDS = 5 };
    int processors[2], most = 0;
    pthread_t neighbours[N_NEIGHBOURS];
    cpu_set_t before;
    (void)state;
    if (!find_two(processors)) return;
    pool_set_processors(2);
    for (int i = 0; i < N_NEIGHBOURS; i++)
        assert_int_equal(pthread_create(&neighbours[i], NULL, spin_on, &processors[i > 0]), 0);
    stay_on(processors[0], &before);
    for (int round = 0; round < N_ROUNDS && most < N_LOOPS / 2; round++) {
        starved_t starved = {.processor = processors[1]};
        for (int i = 0; i < N_LOOPS; i++) {
            atomic_store(&starved.n_inside, 0);
            pool_run(2, 2, starve_worker, &starved);
        }
        const int n = atomic_load(&starved.n_left);
        most = n > most ? n : most;
    }
    for (int i = 0; i < N_NEIGHBOURS; i++) {
        assert_int_equal(pthread_cancel(neighbours[i]), 0);
        assert_int_equal(pthread_join(neighbours[i], NULL), 0);
    }
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    pool_set_processors(MAX_THREADS);
    assert_in_range(most, N_LOOPS / 2, N_LOOPS);
}
#endif

/* ---- fork ---- */

#ifndef __SANITIZE_THREAD__ /* it knows no threads of a forked child */
static void a_child_makes_workers_of_its_own(void **state)
{
    run_t *run = make_run();
    (void)state;
    (void)threads_forks();
    for (int i = 0; i < 5; i++) {
        begin(run, 4, 1000);
        threads_share(4, run->n, mark, run);
        int status = 0;
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            alarm(MAX_SECONDS);
            const bool had_none = pool_workers() == 0;
            begin(run, 4, 1000);
            threads_share(4, run->n, mark, run);
            _exit(had_none && pool_workers() >= 3 && count_wrong(run, 1) == 0 ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        begin(run, 4, 1000);
        threads_share(4, run->n, mark, run);
        check(run);
    }
    free(run);
}
#endif

/* ---- modes ---- */

#ifdef __SSE__
typedef struct modes {
    unsigned wanted;
    atomic_int n_wrong;
} modes_t;

static void check_mode(void *user, int64_t first, int64_t last)
{
    modes_t *modes = user;
    (void)first;
    (void)last;
    usleep(100); /* gives others time to come */
    if ((_mm_getcsr() & 0xffc0u) != modes->wanted) atomic_fetch_add(&modes->n_wrong, 1);
}

static void workers_have_the_callers_mode(void **state)
{
    static const unsigned added[] = {0x8040u, 0u, 0x8000u, 0x2000u, 0x0040u}; /* last: rounding */
    const unsigned before = _mm_getcsr();
    (void)state;
    for (size_t i = 0; i < sizeof added / sizeof *added; i++) {
        modes_t modes = {(before & 0xffc0u & ~0xe040u) | added[i], 0};
        _mm_setcsr(modes.wanted);
        threads_share(4, 64, check_mode, &modes);
        assert_int_equal(_mm_getcsr() & 0xffc0u, modes.wanted);
        _mm_setcsr(before);
        assert_int_equal(atomic_load(&modes.n_wrong), 0);
    }
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_index_is_seen_once),
        TEST(loops_may_be_huge),
        TEST(a_loop_in_a_loop_runs_on_its_thread),
#ifndef __SANITIZE_THREAD__
        TEST(loops_run_in_a_region_of_the_host),
        TEST(a_child_makes_workers_of_its_own),
#endif
        TEST(callers_share_the_pool),
        TEST(other_threads_take_chunks_that_a_thread_has_not_begun),
        TEST(loops_end_without_workers),
        TEST(late_workers_take_nothing),
        TEST(workers_are_made_as_they_are_wanted),
#ifdef __linux__
        TEST(threads_move_and_keep_their_affinity),
        TEST(a_worker_without_a_processor_gets_the_callers),
#endif
#ifdef __SSE__
        TEST(workers_have_the_callers_mode),
#endif
    };
    pool_set_processors(MAX_THREADS);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
