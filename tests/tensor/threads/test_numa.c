/* The number of threads on a machine with two NUMA nodes, which hwloc simulates. */
#define _XOPEN_SOURCE 700

#include "tests/support/support.h"

#include <stdlib.h>
#include <string.h>

#include "tensor/context_impl.h"
#include "tensor/threads/threads_impl.h"

enum { N_CORES = 8, N_NODE = 4 };

static void the_cores_of_a_node_bound_the_number_of_threads(void **state)
{
    char text[128];
    (void)state;
    const threads_bounds_t bounds = threads_bounds();
    assert_int_equal(bounds.n_cores, N_CORES);
    assert_int_equal(bounds.n_allowed, N_CORES);
    assert_int_equal(bounds.n_node, N_NODE);
    assert_int_equal(threads_available(),
                     bounds.n_quota > 0 && bounds.n_quota < N_NODE ? bounds.n_quota : N_NODE);
    context_threads_text(text, sizeof text);
    assert_non_null(strstr(text, "8 in the affinity mask, 4 of them on one NUMA node, "));
}

static void a_program_may_request_the_threads_of_all_nodes(void **state)
{
    const context_options_t options = {.n_threads = N_CORES};
    context_t *ctx = NULL;
    (void)state;
    assert_int_equal(context_create(NULL, &ctx), STATUS_OK);
    assert_int_equal(context_threads(ctx), threads_available());
    context_destroy(ctx);
    assert_int_equal(context_create(&options, &ctx), STATUS_OK);
    assert_int_equal(context_threads(ctx), N_CORES);
    context_destroy(ctx);
}

/* The caller takes a core of the node, too. */
static void workers_stay_on_the_node_as_long_as_it_has_cores(void **state)
{
    (void)state;
    const int node = threads_node();
    assert_in_range(node, 0, 1);
    for (int worker = 0; worker < N_CORES; worker++)
        assert_int_equal(threads_stay(node, worker), worker + 1 < N_NODE);
    assert_false(threads_stay(-1, 0));
    assert_false(threads_stay(2, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_cores_of_a_node_bound_the_number_of_threads),
        TEST(a_program_may_request_the_threads_of_all_nodes),
        TEST(workers_stay_on_the_node_as_long_as_it_has_cores),
    };
    context_t *ctx = NULL;
    setenv("HWLOC_SYNTHETIC", "numa:2 core:4 pu:2", 1);
    unsetenv("TESSERA_THREADS");
    if (context_create(NULL, &ctx)) return 1; /* reads the environment */
    context_destroy(ctx);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
