/* Shared loops: each index once, whatever the sizes and numbers of threads, with memory of its own
 * for each member. */
#include "tests/support/support.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "tensor/threads_impl.h"

enum { MAX_N = 3000, MAX_THREADS = 9 };

typedef struct run {
    int64_t n;
    int n_threads;
    atomic_int seen[MAX_N];
    atomic_int is_inside[MAX_THREADS];
    atomic_int n_faults;
} run_t;

static void mark(void *user, int64_t first, int64_t last)
{
    run_t *run = user;
    if (first < 0 || last > run->n) atomic_fetch_add(&run->n_faults, 1);
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

static void check(run_t *run)
{
    for (int64_t i = 0; i < run->n; i++)
        if (atomic_load(&run->seen[i]) != 1)
            fail_msg("threads %d, n %d: index %d was seen %d times", run->n_threads, (int)run->n,
                     (int)i, atomic_load(&run->seen[i]));
    assert_int_equal(atomic_load(&run->n_faults), 0);
}

static void each_index_is_seen_once(void **state)
{
    static const int64_t sizes[] = {0, 1, 2, 3, 7, 8, 9, 31, 64, 100, 1000, MAX_N};
    run_t *run = calloc(1, sizeof *run);
    (void)state;
    assert_non_null(run);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int n_threads = 1; n_threads <= MAX_THREADS; n_threads++) {
            begin(run, n_threads, sizes[s]);
            threads_share(n_threads, run->n, mark, run);
            check(run);
            begin(run, n_threads, sizes[s]);
            threads_share_members(n_threads, run->n, mark_as_member, run);
            check(run);
        }
    free(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_index_is_seen_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
