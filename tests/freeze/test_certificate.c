/* How near to the best the choice of formats and kernels is: every network of the zoo, frozen, with
 * one image and with sixteen. Widths are a quarter, so that weights are soon made; `tessera explain
 * zoo:NAME --certificate --batch N` says the same of the whole ones. */
#include <stdio.h>
#include <time.h>

#include "freeze/freeze.h"
#include "module/zoo.h"
#include "tests/support/support.h"

/* Sanitizers and emulators take their time. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__x86_64__)
#define MOST_SECONDS 10.0
#else
#define MOST_SECONDS 0.5
#endif
#define LARGEST_GAP 0.03

/* Of this thread: others may run beside it. */
static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void check_batch(context_t *ctx, const char *name, module_t *frozen, int64_t batch,
                        int64_t size)
{
    tensor_t *x = NULL;
    layout_certificate_t found;
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(batch, 3, size, size), &x));
    const double begin = cpu_seconds();
    CHECK_OK(ctx, graph_certificate(ctx, frozen, "forward", 1, (const tensor_t *[]){x}, &found));
    const double seconds = cpu_seconds() - begin;
    const double gap = (found.cost - found.lower_bound) / found.cost;
    print_message("%-18s %2lld: %8.1f us, uniform %8.1f us, gap %.2f %%, chosen in %.3f s\n", name,
                  (long long)batch, found.cost / 1e3, found.best_uniform / 1e3, 100.0 * gap,
                  seconds);
    assert_true(found.cost > 0.0);
    assert_true(found.cost <= found.best_uniform);
    assert_true(found.lower_bound <= found.cost);
    assert_true(gap <= LARGEST_GAP);
    assert_true(seconds <= MOST_SECONDS);
    tensor_release(x);
}

static void every_network_of_the_zoo_is_near_its_bound(void **state)
{
    context_t *ctx = fixture_context(state);
    for (const char *const *name = zoo_names(); *name != NULL; name++) {
        module_t *net = NULL, *frozen = NULL;
        tensor_t *x = NULL;
        int64_t size = 0;
        CHECK_OK(ctx, zoo_create(ctx, *name, &(zoo_options_t){.divide = 4}, &net, &size));
        CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(1, 3, size, size), &x));
        CHECK_OK(ctx, graph_trace(ctx, net, "forward", 1, (const tensor_t *[]){x}));
        CHECK_OK(ctx, freeze_take(ctx, &net, NULL, &frozen));
        check_batch(ctx, *name, frozen, 1, size);
        check_batch(ctx, *name, frozen, 16, size);
        tensor_release(x);
        module_release(frozen);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(every_network_of_the_zoo_is_near_its_bound)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
