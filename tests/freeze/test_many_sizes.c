/* With input sizes that never repeat, Tessera's memory stays constant once the caches are full, and
 * counters report evictions. perf/sizes measures the entire process.
 *
 * For more sizes, up to 10,000: test_many_sizes N_SIZES. */
#include "freeze/freeze.h"

#include "tests/support/support.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "module/layers/layers.h"
#include "ops/ops.h"

enum { N_WARM = 100, N_PLANS = 8, N_ENTRIES = 64, SIDE = 100, LEAST = 8, STEP = 7919 };

static int n_sizes = 300;

/* ---- an allocator that counts ---- */

/* Precedes each block. Its size is the alignment of blocks. */
typedef struct header {
    alignas(64) size_t bytes;
} header_t;

static _Atomic size_t n_live;

static void *get_counted(void *user, size_t bytes)
{
    (void)user;
    const size_t whole = (sizeof(header_t) + bytes + 63) / 64 * 64;
    header_t *header = aligned_alloc(64, whole);
    if (header == NULL) return NULL;
    header->bytes = bytes;
    n_live += bytes;
    return header + 1;
}

static void put_counted(void *user, void *block)
{
    (void)user;
    if (block == NULL) return;
    header_t *header = (header_t *)block - 1;
    n_live -= header->bytes;
    free(header);
}

static context_t *counted_context(void)
{
    static const allocator_t allocator = {NULL, get_counted, put_counted};
    const context_options_t options = {
        .allocator = &allocator, .n_threads = 1, .cache_entries = N_ENTRIES};
    context_t *ctx = NULL;
    assert_int_equal(context_create(&options, &ctx), STATUS_OK);
    return ctx;
}

/* ---- runs at many sizes ---- */

/* Makes an image. `number` selects one of all pairs of SIDE heights and SIDE widths, in a shuffled
 * order without repetition. */
static tensor_t *image(context_t *ctx, int number)
{
    tensor_t *x = NULL;
    const int place = number * STEP % (SIDE * SIDE);
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32,
                               SHAPE(1, 3, LEAST + place / SIDE, LEAST + place % SIDE), &x));
    return x;
}

static module_t *frozen_network(context_t *ctx)
{
    module_t *net = NULL, *layer = NULL, *frozen = NULL;
    const conv_attrs_t attrs = {.padding = {1, 1}};
    tensor_t *x = image(ctx, 0);
    CHECK_OK(ctx, layer_sequential(ctx, &net));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(ctx, layer_conv2d(ctx, 3 + 5 * i, 8, 3, &attrs, true, &layer));
        CHECK_OK(ctx, layer_append_take(ctx, net, layer));
        CHECK_OK(ctx, layer_activation(ctx, ELTWISE_RELU, 0, 0, &layer));
        CHECK_OK(ctx, layer_append_take(ctx, net, layer));
    }
    CHECK_OK(ctx, graph_trace(ctx, net, "forward", 1, (const tensor_t *const[]){x}));
    tensor_release(x);
    CHECK_OK(ctx, freeze_take(ctx, &net, &(freeze_options_t){.plans = N_PLANS}, &frozen));
    return frozen;
}

/* Runs all sizes. The memory in use, averaged over any fifty runs, must never exceed that at the
 * end of the first hundred. Fifty runs are comparable because sizes are shuffled. */
static void run_all(context_t *ctx, module_t *frozen, const tensor_t *weight, counters_t *counters)
{
    enum { N_MEAN = 50 };
    const conv_attrs_t attrs = {.padding = {1, 1}};
    double sum = 0, warm = 0, most = 0;
    counters_reset(ctx);
    for (int i = 0; i < n_sizes; i++) {
        tensor_t *x = image(ctx, i), *y = NULL;
        if (frozen != NULL)
            CHECK_OK(ctx, module_forward(ctx, frozen, x, &y));
        else
            CHECK_OK(ctx, op_conv2d(ctx, x, weight, NULL, &attrs, &y));
        assert_int_equal(tensor_sizes(y)[2], tensor_sizes(x)[2]);
        assert_int_equal(tensor_sizes(y)[3], tensor_sizes(x)[3]);
        tensor_release(x);
        tensor_release(y);
        sum += (double)n_live / N_MEAN;
        if ((i + 1) % N_MEAN != 0) continue;
        if (i + 1 == N_WARM) warm = sum;
        if (i + 1 > N_WARM && sum > most) most = sum;
        sum = 0;
    }
    counters_read(ctx, counters);
    print_message("%d sizes: %.0f bytes when the first %d end, then at most %.0f\n", n_sizes, warm,
                  N_WARM, most);
    assert_true(most < 1.2 * warm);
}

static void a_frozen_network_keeps_plans_for_few_of_many_sizes(void **state)
{
    (void)state;
    context_t *ctx = counted_context();
    counters_t counters;
    module_t *frozen = frozen_network(ctx);
    run_all(ctx, frozen, NULL, &counters);
    assert_int_equal(counters.plans_built, n_sizes - 1); /* freezing built the first */
    assert_int_equal(counters.plans_evicted, n_sizes - N_PLANS);
    assert_in_range(counters.cache_entries, 0, N_ENTRIES);
    module_release(frozen);
    context_destroy(ctx);
    assert_int_equal(n_live, 0);
}

static void a_convolution_called_by_itself_keeps_few_of_many_sizes(void **state)
{
    (void)state;
    context_t *ctx = counted_context();
    counters_t counters;
    tensor_t *weight = NULL;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(8, 3, 3, 3), &weight));
    run_all(ctx, NULL, weight, &counters);
    assert_in_range(counters.cache_misses, n_sizes, INT64_MAX);
    assert_int_equal(counters.cache_entries, N_ENTRIES);
    tensor_release(weight);
    context_destroy(ctx);
    assert_int_equal(n_live, 0);
}

int main(int argc, char **argv)
{
    if (argc > 1) n_sizes = atoi(argv[1]);
    if (n_sizes < 2 * N_WARM || n_sizes > SIDE * SIDE) return 2;
    const struct CMUnitTest tests[] = {
        TEST(a_frozen_network_keeps_plans_for_few_of_many_sizes),
        TEST(a_convolution_called_by_itself_keeps_few_of_many_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
