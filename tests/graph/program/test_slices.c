/* Plans that run a large batch in slices of a few images. Results must equal those of the plan for
 * the entire batch and of the module. Also tests which steps are sliced, and effects on observers,
 * profiles and the arena. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/prepared_impl.h"
#include "dispatch/profile/profile.h"
#include "freeze/freeze.h"
#include "graph/program/plan_slices_impl.h"
#include "kernels/isa_impl.h"
#include "module/zoo.h"
#include "tensor/tensor_impl.h"
#include "tests/support/nets/subject.h"

/* A quarter of CACHE holds the input and output of a step for an image of 32 channels, 64 x 64. */
enum { CACHE = 4 << 20, NETWORK_CACHE = 8 << 20 };

/* False without vector instructions: computing then takes longer than memory access, so that slices
 * do not help. */
static bool memory_counts(void)
{
    return isa_best() > ISA_PORTABLE;
}

/* Makes a context with this cache size and number of threads. A single thread runs all slices in
 * order. Several threads are workers: each runs some slices. */
static context_t *context_with_cache(long bytes, int n_threads)
{
    char text[32];
    context_t *ctx = NULL;
    snprintf(text, sizeof text, "%ld", bytes);
    setenv("TESSERA_CPU_CACHE", text, 1);
    assert_int_equal(context_create(&(context_options_t){.n_threads = n_threads}, &ctx), STATUS_OK);
    unsetenv("TESSERA_CPU_CACHE");
    return ctx;
}

/* Makes a net with input %x [batch,channels,size,size] and parameters %w [channels,channels,3,3],
 * %d [channels,1,3,3], %p [channels,channels,1,1], %c [1,channels,1,1] and %k [batch,channels,1,1];
 * "groups=?" means one group per channel. */
static module_t *make_net(context_t *ctx, int64_t batch, int64_t channels, int64_t size,
                          const char *statements)
{
    const long long n = (long long)batch, c = (long long)channels, s = (long long)size;
    char parameters[256], input[64], body[2048];
    snprintf(parameters, sizeof parameters,
             "w=%lld,%lld,3,3 d=%lld,1,3,3 p=%lld,%lld,1,1 c=1,%lld,1,1 k=%lld,%lld,1,1", c, c, c,
             c, c, c, n, c);
    snprintf(input, sizeof input, "%%x : f32[%lld,%lld,%lld,%lld]", n, c, s, s);
    size_t at = 0;
    for (const char *from = statements; *from != '\0';) {
        const char *groups = strstr(from, "groups=?");
        const int length = (int)(groups != NULL ? (size_t)(groups - from) : strlen(from));
        at += (size_t)snprintf(body + at, sizeof body - at, "%.*s", length, from);
        from += length;
        if (groups == NULL) break;
        at += (size_t)snprintf(body + at, sizeof body - at, "groups=%lld", c);
        from += strlen("groups=?");
    }
    context_seed(ctx, 7);
    return subject_net(ctx, parameters, input, body);
}

/* Counts the sliced steps of this name. Checks that all or one of the threads run each step. */
static int count_sliced(const module_t *frozen, const char *name, int n_threads)
{
    const plan_t *plan = plan_of(frozen, "forward");
    int n = 0;
    for (int i = 0; i < plan_n_steps(plan); i++) {
        const plan_step_t *step = plan_step(plan, i);
        assert_true(step->n_slices >= 1);
        assert_true(step->n_workers == 1 || step->n_workers == n_threads);
        n += step->n_slices > 1 && (name == NULL || strcmp(step->name, name) == 0);
    }
    return n;
}

/* Counts steps that workers run. For odd batches all threads may work on the same slice instead. */
static int count_of_workers(const module_t *frozen)
{
    const plan_t *plan = plan_of(frozen, "forward");
    int n = 0;
    for (int i = 0; i < plan_n_steps(plan); i++) n += plan_step(plan, i)->n_workers > 1;
    return n;
}

/* Runs the module twice on x. Returns the results of the second run. */
static int run(context_t *ctx, module_t *module, tensor_t *x, datum_t **out)
{
    int n = 0;
    datum_t *in = NULL;
    CHECK_OK(ctx, datum_tensor(ctx, x, &in));
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < n; i++) datum_release(out[i]);
        n = METHOD_MAX_OUTPUTS;
        CHECK_OK(ctx, module_call(ctx, module, "forward", 1, &in, &n, out));
    }
    datum_release(in);
    return n;
}

static void check_near(context_t *ctx, int n, datum_t *const *a, datum_t *const *b, double bound)
{
    for (int i = 0; i < n; i++) {
        double difference = 1.0;
        CHECK_OK(ctx, tensor_max_rel_diff(ctx, datum_as_tensor(a[i]), datum_as_tensor(b[i]),
                                          &difference));
        if (!(difference <= bound)) fail_msg("result %d differs by %g", i, difference);
    }
}

static void release_all(int n, datum_t **results)
{
    for (int i = 0; i < n; i++) datum_release(results[i]);
}

/* Cache size of the next check, and the number of steps that two workers ran in the last one. */
static long cache = CACHE;
static int n_of_workers;

/* Freezes without fusion, so that each operator is a step of its own. Runs with a small cache and
 * n_threads, and compares with a run without slices. Returns the number of sliced steps of this
 * name. */
static int check_threads(int n_threads, int64_t batch, int64_t channels, int64_t size,
                         const char *statements, const char *name, size_t *out_arenas)
{
    static const char *const skip[] = {"fuse_post_ops", "merge_shared_inputs", NULL};
    const long caches[] = {cache, 0};
    const freeze_options_t options = {.skip = skip, .keep_numerics = true};
    int n = 0, sliced = 0;
    size_t arenas[2];
    datum_t *results[3][METHOD_MAX_OUTPUTS];
    context_t *contexts[2];
    for (int i = 0; i < 2; i++) {
        context_t *ctx = contexts[i] = context_with_cache(caches[i], n_threads);
        module_t *net = make_net(ctx, batch, channels, size, statements), *frozen = NULL;
        tensor_t *x = NULL;
        CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(batch, channels, size, size), &x));
        CHECK_OK(ctx, freeze(ctx, net, &options, &frozen));
        n = run(ctx, frozen, x, results[i]);
        if (i == 0) sliced = count_sliced(frozen, name, n_threads);
        if (i == 0 && n_threads == 2) n_of_workers = count_of_workers(frozen);
        if (i == 1) assert_int_equal(count_sliced(frozen, NULL, n_threads), 0);
        if (i == 1) assert_int_equal(run(ctx, net, x, results[2]), n);
        arenas[i] = plan_arena_bytes(plan_of(frozen, "forward"));
        if (out_arenas != NULL) out_arenas[i] = arenas[i];
        tensor_release(x);
        module_release(frozen);
        module_release(net);
    }
    check_near(contexts[1], n, results[0], results[1], 1e-6);
    check_near(contexts[1], n, results[0], results[2], 1e-5);
    if (arenas[0] > arenas[1] + arenas[1] / 20)
        fail_msg("%d threads: an arena of %zu bytes became one of %zu", n_threads, arenas[1],
                 arenas[0]);
    for (int i = 0; i < 3; i++) release_all(n, results[i]);
    for (int i = 0; i < 2; i++) context_destroy(contexts[i]);
    return sliced;
}

/* Checks one thread and two, which slice equally here. Then checks three, which may slice
 * otherwise; sanitizers skip that. */
static int check_same(int64_t batch, int64_t channels, int64_t size, const char *statements,
                      const char *name, size_t *out_arenas)
{
    const int one = check_threads(1, batch, channels, size, statements, name, out_arenas);
    const int two = check_threads(2, batch, channels, size, statements, name, out_arenas);
    if (!IS_SANITIZED) (void)check_threads(3, batch, channels, size, statements, name, NULL);
    return one < two ? one : two;
}

/* ---- sliced steps ---- */

static void a_chain_of_convolutions_is(void **state)
{
    static const int64_t channels[] = {1, 3, 17, 32};
    (void)state;
    for (size_t i = 0; i < sizeof channels / sizeof *channels; i++) {
        const int64_t size = channels[i] == 1 ? 288 : channels[i] == 3 ? 208 : 64;
        size_t arenas[2];
        const int n = check_same(8, channels[i], size,
                                 "  %1 = conv2d(%x, %d, none) padding=[1,1] groups=?\n"
                                 "  %2 = relu(%1)\n"
                                 "  %3 = conv2d(%2, %p, none)\n"
                                 "  %4 = max_pool2d(%3) kernel=[2,2] stride=[2,2]\n"
                                 "  return %4\n",
                                 NULL, arenas);
        if (!memory_counts()) continue;
        if (n < 2) fail_msg("%d channels: %d steps sliced", (int)channels[i], n);
        assert_true(n_of_workers >= 2);
        assert_true(arenas[0] < arenas[1]);
    }
}

/* A tensor must be complete if steps outside of the sliced loop read it: results, an addend that is
 * read inside and after the loop, operands without a batch dimension. */
static void values_that_others_read_lie_whole(void **state)
{
    (void)state;
    const int n = check_same(6, 32, 64,
                             "  %1 = conv2d(%x, %d, none) padding=[1,1] groups=?\n"
                             "  %2 = relu(%1)\n"
                             "  %3 = conv2d(%2, %p, none)\n"
                             "  %4 = add(%3, %1)\n"
                             "  %5 = mul(%4, %c)\n"
                             "  %6 = conv2d(%5, %d, none) padding=[1,1] groups=?\n"
                             "  %7 = adaptive_avg_pool(%6) output_size=[1,1]\n"
                             "  %8 = softmax(%4) dim=0\n"
                             "  %9 = add(%8, %x)\n"
                             "  return %3, %7, %9\n",
                             NULL, NULL);
    if (memory_counts() && (n < 2 || n_of_workers < 4))
        fail_msg("%d and %d steps sliced", n, n_of_workers);
}

/* If a slice is one image, parts of a concat are written directly to its result; otherwise
 * copied. */
static void concats_inside_are_joined(void **state)
{
    static const char statements[] = "  %1 = conv2d(%x, %p, none)\n"
                                     "  %2 = relu(%1)\n"
                                     "  %3 = conv2d(%2, %d, none) padding=[1,1] groups=?\n"
                                     "  %4 = concat(%2, %3) dim=1\n"
                                     "  %5 = relu6(%4)\n"
                                     "  %6 = max_pool2d(%5) kernel=[2,2] stride=[2,2]\n"
                                     "  %7 = concat(%6, %6) dim=0\n"
                                     "  return %7, %4\n";
    (void)state;
    for (int64_t batch = 8; batch <= 11; batch += IS_SANITIZED ? 3 : 1)
        assert_int_equal(check_same(batch, 32, 64, statements, "concat", NULL), 1);
    cache = 4 * CACHE; /* holds slices of two threads */
    assert_int_equal(check_threads(2, 8, 32, 64, statements, "concat", NULL), 1);
    assert_true(n_of_workers >= 2);
    cache = CACHE;
}

/* Without slices the plan needs 12 MB: 4 for %3, and 8 for %4, which takes over the memory of %1. A
 * sliced loop over the last steps keeps %1 and %3 (8 MB) while it runs, so 4 MB are left for slices
 * of %4. */
static void slices_have_no_room_for_more_than_the_plan_needs(void **state)
{
    (void)state;
    context_t *ctx = context_with_cache(0, 2);
    module_t *net = make_net(ctx, 8, 32, 64,
                             "  %1 = sigmoid(%x)\n"
                             "  %2 = max_pool2d(%1) kernel=[2,2] stride=[2,2]\n"
                             "  %3 = resize(%2) sizes=[64,64] mode=\"nearest\"\n"
                             "  %4 = concat(%1, %3) dim=1\n"
                             "  %5 = sin(%4)\n"
                             "  %6 = max_pool2d(%5) kernel=[2,2] stride=[2,2]\n"
                             "  return %6\n"),
             *frozen = NULL;
    tensor_t *x = NULL, *y = NULL;
    plan_slice_costs_t *costs = NULL;
    int64_t batches[16] = {0};
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(8, 32, 64, 64), &x));
    CHECK_OK(ctx, freeze(ctx, net, NULL, &frozen));
    CHECK_OK(ctx, module_forward(ctx, frozen, x, &y));
    const plan_t *plan = plan_of(frozen, "forward");
    const int n = plan_n_steps(plan);
    assert_in_range(n, 5, 16);
    int concat = 0;
    while (strcmp(plan_step(plan, concat)->name, "concat") != 0) concat++;
    for (int s = concat; s < n; s++)
        if (plan_step(plan, s)->prepared != NULL) batches[s] = 8;
    CHECK_OK(ctx, plan_slice_costs_create(ctx, plan, 2, batches, &costs));
    plan_slice_costs_end_before(costs, n);
    for (int s = n - 1; s >= concat; s--) plan_slice_costs_add(costs, s);
    assert_false(plan_slice_costs_have_room(costs, 2, 2)); /* all of %4 at once */
    assert_true(plan_slice_costs_have_room(costs, 8, 2));  /* a quarter of it */
    assert_true(plan_slice_costs_have_room(costs, 2, 1));
    plan_slice_costs_destroy(ctx, costs);
    tensor_release(x);
    tensor_release(y);
    module_release(frozen);
    module_release(net);
    context_destroy(ctx);
}

/* Steps that mix images of the batch, or have no batch, are not sliced. */
static void other_steps_are_not(void **state)
{
    (void)state;
    assert_int_equal(check_same(8, 32, 64,
                                "  %1 = softmax(%x) dim=0\n"
                                "  %2 = cumsum(%1) dim=0\n"
                                "  %3 = flip(%2) dims=[0]\n"
                                "  %4 = concat(%3, %2) dim=0\n"
                                "  return %4\n",
                                NULL, NULL),
                     0);
    assert_int_equal(check_same(1, 32, 256,
                                "  %1 = conv2d(%x, %p, none)\n"
                                "  %2 = relu(%1)\n"
                                "  %3 = conv2d(%2, %p, none)\n"
                                "  return %3\n",
                                NULL, NULL),
                     0);
}

/* A constant has the batch dimension, too, but it cannot be sliced, because it is packed. */
static void a_constant_of_the_batch_stays_whole(void **state)
{
    (void)state;
    const int n = check_same(8, 32, 64,
                             "  %1 = conv2d(%x, %p, none)\n"
                             "  %2 = relu(%1)\n"
                             "  %3 = mul(%2, %k)\n"
                             "  %4 = conv2d(%3, %p, none)\n"
                             "  %5 = relu(%4)\n"
                             "  return %5\n",
                             "mul", NULL);
    assert_int_equal(n, 0);
}

/* A sliced loop must not read a view of some images if one of its steps writes them: while it runs,
 * only one slice exists. */
static void elements_of_what_a_loop_writes_are_read_whole(void **state)
{
    static const char *const statements[] = {"  %1 = sigmoid(%x)\n"
                                             "  %2 = slice(%1) dim=0 start=0 end=1 step=1\n"
                                             "  %3 = sub(%1, %2)\n"
                                             "  %4 = max_pool2d(%3) kernel=[2,2] stride=[2,2]\n"
                                             "  return %4\n",
                                             "  %1 = sigmoid(%x)\n"
                                             "  %2 = slice(%1) dim=0 start=5 end=6 step=1\n"
                                             "  %3 = sub(%1, %2)\n"
                                             "  %4 = max_pool2d(%3) kernel=[2,2] stride=[2,2]\n"
                                             "  return %4, %1\n",
                                             "  %0 = softmax(%x) dim=0\n"
                                             "  %5 = slice(%0) dim=0 start=0 end=1 step=1\n"
                                             "  %1 = sub(%x, %5)\n"
                                             "  %2 = add(%0, %1)\n"
                                             "  %3 = relu(%2)\n"
                                             "  return %3\n"};
    (void)state;
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++)
        check_same(8, 32, 64, statements[i], NULL, NULL);
}

/* ---- networks ---- */

static void zoo_networks_give_the_same(void **state)
{
    static const char *const names[] = {"mobilenet_v2", "densenet121", "mobilenet_v2"};
    static const int threads[] = {2, 2, 1};
    (void)state;
    const size_t n_runs = IS_SANITIZED ? 1 : sizeof names / sizeof *names;
    for (size_t t = 0; t < n_runs; t++) {
        datum_t *results[2][METHOD_MAX_OUTPUTS];
        context_t *contexts[2];
        int n = 0;
        for (int k = 0; k < 2; k++) {
            context_t *ctx = contexts[k] = context_with_cache(k == 0 ? NETWORK_CACHE : 0,
                                                              threads[t]);
            module_t *net = NULL, *frozen = NULL;
            tensor_t *x = NULL;
            context_seed(ctx, 3);
            CHECK_OK(ctx, zoo_create(ctx, names[t], NULL, &net, NULL));
            CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(6, 3, 160, 160), &x));
            CHECK_OK(ctx, graph_trace(ctx, net, "forward", 1, (const tensor_t *const[]){x}));
            CHECK_OK(ctx, freeze(ctx, net, NULL, &frozen));
            n = run(ctx, frozen, x, results[k]);
            if (k == 0 && memory_counts()) assert_true(count_sliced(frozen, NULL, threads[t]) >= 2);
            if (k == 0 && threads[t] == 2) assert_true(count_of_workers(frozen) >= 2);
            tensor_release(x);
            module_release(frozen);
            module_release(net);
        }
        check_near(contexts[0], n, results[0], results[1], 1e-4);
        for (int k = 0; k < 2; k++) release_all(n, results[k]);
        for (int k = 0; k < 2; k++) context_destroy(contexts[k]);
    }
}

/* ---- observers ---- */

typedef struct watch {
    int n_events, n_first;
    int64_t batch; /* sum of images over the slices */
} watch_t;

static status_t note(context_t *ctx, void *user, const op_event_t *event)
{
    watch_t *watch = user;
    (void)ctx;
    assert_true(event->slice >= 0 && event->slice < event->n_slices);
    watch->n_events++;
    watch->n_first += event->slice == 0;
    watch->batch += tensor_info(event->out[0])->sizes[0];
    return STATUS_OK;
}

static void check_watched(int n_threads)
{
    context_t *ctx = context_with_cache(CACHE, n_threads);
    watch_t watch = {0};
    observer_t observer = {.user = &watch, .op_end = note};
    profile_t *profile = NULL;
    module_t *net = make_net(ctx, 8, 32, 64,
                             "  %1 = conv2d(%x, %d, none) padding=[1,1] groups=?\n"
                             "  %2 = max_pool2d(%1) kernel=[2,2] stride=[2,2]\n"
                             "  return %2\n");
    module_t *frozen = NULL;
    tensor_t *x = NULL, *y = NULL;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(8, 32, 64, 64), &x));
    CHECK_OK(ctx, freeze(ctx, net, NULL, &frozen));
    CHECK_OK(ctx, module_forward(ctx, frozen, x, &y));
    assert_int_equal(count_sliced(frozen, NULL, n_threads), 2);
    CHECK_OK(ctx, profile_create(ctx, &profile));
    CHECK_OK(ctx, dispatch_add_observer(ctx, &observer));
    CHECK_OK(ctx, profile_begin_run(profile));
    tensor_release(y);
    CHECK_OK(ctx, module_forward(ctx, frozen, x, &y));
    CHECK_OK(ctx, profile_end_run(profile));
    dispatch_remove_observer(ctx, &observer);
    CHECK_OK(ctx, profile_finish(profile));
    const int n_slices = plan_step(plan_of(frozen, "forward"), 0)->n_slices;
    assert_int_equal(watch.n_events, 2 * n_slices);
    assert_int_equal(watch.n_first, 2);
    assert_int_equal(watch.batch, 2 * 8);
    int n_nodes = 0;
    for (int i = 0; i < profile_n_nodes(profile); i++) {
        const profile_node_t *node = profile_node(profile, i);
        if (node->op == NULL) continue;
        assert_int_equal(node->n_slices, n_slices);
        if (n_nodes++ == 0) assert_true(node->flops == 2.0 * 9 * 32 * 64 * 64 * 8);
    }
    assert_int_equal(n_nodes, 2);
    profile_destroy(profile);
    tensor_release(x);
    tensor_release(y);
    module_release(frozen);
    module_release(net);
    context_destroy(ctx);
}

static void each_slice_is_told_and_profiles_sum_them(void **state)
{
    (void)state;
    if (!memory_counts()) return;
    for (int n_threads = 1; n_threads <= 2; n_threads++) check_watched(n_threads);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain_of_convolutions_is),
        cmocka_unit_test(values_that_others_read_lie_whole),
        cmocka_unit_test(concats_inside_are_joined),
        cmocka_unit_test(slices_have_no_room_for_more_than_the_plan_needs),
        cmocka_unit_test(other_steps_are_not),
        cmocka_unit_test(a_constant_of_the_batch_stays_whole),
        cmocka_unit_test(elements_of_what_a_loop_writes_are_read_whole),
        cmocka_unit_test(zoo_networks_give_the_same),
        cmocka_unit_test(each_slice_is_told_and_profiles_sum_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
