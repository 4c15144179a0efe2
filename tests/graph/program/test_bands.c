/* Plans that compute chains of steps by bands of rows. Results must have the same bits as those of
 * all rows at once, which a plan computes while it is observed, and must be near those of the
 * module. Also tests which steps are in chains, and the memory that bands save. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/prepared_impl.h"
#include "freeze/freeze.h"
#include "graph/program/plan_impl.h"
#include "kernels/isa_impl.h"
#include "module/zoo.h"
#include "tensor/tensor_impl.h"
#include "tests/support/nets/subject.h"

/* Only kernels for blocks compute bands; without vector instructions oneDNN's are used. */
static bool has_bands(void)
{
    return isa_best() > ISA_PORTABLE;
}

static context_t *make_context(int n_threads)
{
    context_t *ctx = NULL;
    assert_int_equal(context_create(&(context_options_t){.n_threads = n_threads}, &ctx), STATUS_OK);
    context_seed(ctx, 7);
    return ctx;
}

/* Makes a net with input %x [batch,inputs,size,size + 3] and weights of `channels` outputs:
 * %f [,inputs,3,3], %w [,channels,3,3], %p [,channels,1,1], %d [,1,3,3] and %e [,1,5,5]. */
static module_t *make_net(context_t *ctx, int batch, int inputs, int channels, int size,
                          const char *statements)
{
    char parameters[256], input[64];
    const int c = channels;
    snprintf(parameters, sizeof parameters,
             "f=%d,%d,3,3 w=%d,%d,3,3 p=%d,%d,1,1 d=%d,1,3,3 e=%d,1,5,5", c, inputs, c, c, c, c, c,
             c);
    snprintf(input, sizeof input, "%%x : f32[%d,%d,%d,%d]", batch, inputs, size, size + 3);
    return subject_net(ctx, parameters, input, statements);
}

typedef struct watch {
    int n_events;
    int64_t n_rows; /* rows of all results */
} watch_t;

static status_t note(context_t *ctx, void *user, const op_event_t *event)
{
    watch_t *watch = user;
    (void)ctx;
    watch->n_events++;
    if (tensor_info(event->out[0])->rank == 4)
        watch->n_rows += tensor_info(event->out[0])->sizes[2];
    return STATUS_OK;
}

static int count_banded(const module_t *frozen)
{
    const plan_t *plan = plan_of(frozen, "forward");
    int n = 0;
    for (int i = 0; i < plan_n_steps(plan); i++) n += plan_step(plan, i)->n_bands > 1;
    return n;
}

static void check_same(context_t *ctx, module_t *frozen, const tensor_t *x, watch_t *watch)
{
    observer_t observer = {.user = watch, .op_end = note};
    tensor_t *bands = NULL, *whole = NULL;
    counters_t before, after;
    counters_read(ctx, &before);
    CHECK_OK(ctx, module_forward(ctx, frozen, x, &bands));
    counters_read(ctx, &after);
    CHECK_OK(ctx, dispatch_add_observer(ctx, &observer));
    CHECK_OK(ctx, module_forward(ctx, frozen, x, &whole));
    dispatch_remove_observer(ctx, &observer);
    assert_memory_equal(tensor_bytes(bands), tensor_bytes(whole), info_bytes(tensor_info(whole)));
    assert_int_equal(after.operators - before.operators, watch->n_events);
    tensor_release(bands);
    tensor_release(whole);
}

/* Freezes the net and checks it for x with and without numbers that are not finite. Returns the
 * number of steps in chains. */
static int check_net(context_t *ctx, module_t *net, const tensor_info_t *input,
                     const freeze_options_t *options, size_t *out_arena, watch_t *out_watch)
{
    module_t *frozen = NULL;
    tensor_t *x = NULL, *y = NULL, *wanted = NULL;
    watch_t watch = {0};
    float *values = NULL;
    double difference = 1.0;
    const int64_t n = info_numel(input);
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, input->rank, input->sizes, &x));
    CHECK_OK(ctx, freeze(ctx, net, options, &frozen));
    check_same(ctx, frozen, x, &watch);
    CHECK_OK(ctx, module_forward(ctx, net, x, &wanted));
    CHECK_OK(ctx, module_forward(ctx, frozen, x, &y));
    CHECK_OK(ctx, tensor_max_rel_diff(ctx, y, wanted, &difference));
    if (!(difference <= 2e-4)) fail_msg("results differ by %g", difference);
    if (out_watch != NULL) *out_watch = watch;
    CHECK_OK(ctx, tensor_writable(ctx, x, (void **)&values));
    for (int i = 1; i < 8; i++) values[n / 8 * i + i] = i % 2 == 0 ? NAN : INFINITY;
    watch = (watch_t){0};
    check_same(ctx, frozen, x, &watch);
    const int n_banded = count_banded(frozen);
    *out_arena = plan_arena_bytes(plan_of(frozen, "forward"));
    tensor_release(x);
    tensor_release(y);
    tensor_release(wanted);
    module_release(frozen);
    return n_banded;
}

static int check(int inputs, int channels, int size, const char *statements, size_t *out_arena)
{
    int n_banded = 0;
    for (int n_threads = 1; n_threads <= 3; n_threads++) {
        context_t *ctx = make_context(n_threads);
        module_t *net = make_net(ctx, 1, inputs, channels, size, statements);
        const tensor_info_t input = info_dense(DTYPE_F32, SHAPE(1, inputs, size, size + 3));
        n_banded = check_net(ctx, net, &input, NULL, out_arena, NULL);
        module_release(net);
        context_destroy(ctx);
    }
    return n_banded;
}

/* ---- chains ---- */

/* As in VGG: three values of 12.8 MB, of which two exist at once. */
static void two_convolutions_and_a_pool_are_a_chain(void **state)
{
    size_t arena = 0;
    (void)state;
    const int n = check(3, 64, 112,
                        "  %1 = conv2d(%x, %f, none) padding=[1,1]\n"
                        "  %2 = relu(%1)\n"
                        "  %3 = conv2d(%2, %w, none) padding=[1,1]\n"
                        "  %4 = relu(%3)\n"
                        "  %5 = max_pool2d(%4) kernel=[2,2] stride=[2,2]\n"
                        "  %6 = conv2d(%5, %p, none)\n"
                        "  return %6\n",
                        &arena);
    if (!has_bands()) return;
    assert_int_equal(n, 3);
    assert_true(arena < (size_t)2 * 64 * 112 * 115 * 4 * 3 / 4);
}

/* The sum is written over the chain's input, whose rows each band reads first. */
static void a_residual_block_overwrites_its_input(void **state)
{
    size_t arena = 0;
    (void)state;
    const int n = check(3, 64, 96,
                        "  %0 = conv2d(%x, %f, none) padding=[1,1]\n"
                        "  %1 = conv2d(%0, %p, none)\n"
                        "  %2 = relu(%1)\n"
                        "  %3 = conv2d(%2, %w, none) padding=[1,1]\n"
                        "  %4 = relu(%3)\n"
                        "  %5 = conv2d(%4, %w, none) padding=[1,1]\n"
                        "  %6 = add(%5, %0)\n"
                        "  return %6\n",
                        &arena);
    if (has_bands()) assert_true(n >= 2);
}

static void values_that_others_read_are_not_inside(void **state)
{
    size_t arena = 0;
    (void)state;
    (void)check(3, 64, 80,
                "  %1 = conv2d(%x, %f, none) padding=[1,1]\n"
                "  %2 = conv2d(%1, %w, none) padding=[1,1]\n"
                "  %3 = conv2d(%2, %w, none) padding=[1,1]\n"
                "  %4 = conv2d(%3, %p, none)\n"
                "  %5 = add(%4, %2)\n"
                "  %6 = add(%5, %1)\n"
                "  return %6\n",
                &arena);
}

static void batches_have_no_bands(void **state)
{
    const tensor_info_t input = info_dense(DTYPE_F32, SHAPE(2, 3, 80, 83));
    context_t *ctx = make_context(2);
    size_t arena = 0;
    (void)state;
    module_t *net = make_net(ctx, 2, 3, 64, 80,
                             "  %1 = conv2d(%x, %f, none) padding=[1,1]\n"
                             "  %2 = conv2d(%1, %w, none) padding=[1,1]\n"
                             "  %3 = max_pool2d(%2) kernel=[2,2] stride=[2,2]\n"
                             "  return %3\n");
    assert_int_equal(check_net(ctx, net, &input, NULL, &arena, NULL), 0);
    module_release(net);
    context_destroy(ctx);
}

/* An observer receives each step once, with all rows. */
static void observers_see_all_rows(void **state)
{
    const tensor_info_t input = info_dense(DTYPE_F32, SHAPE(1, 3, 112, 115));
    context_t *ctx = make_context(2);
    size_t arena = 0;
    watch_t watch = {0};
    (void)state;
    module_t *net = make_net(ctx, 1, 3, 64, 112,
                             "  %1 = conv2d(%x, %f, none) padding=[1,1]\n"
                             "  %2 = conv2d(%1, %w, none) padding=[1,1]\n"
                             "  %3 = max_pool2d(%2) kernel=[2,2] stride=[2,2]\n"
                             "  return %3\n");
    const int n = check_net(ctx, net, &input, NULL, &arena, &watch);
    if (has_bands()) assert_int_equal(n, 3);
    assert_int_equal(watch.n_events, 3);
    assert_int_equal(watch.n_rows, 112 + 112 + 56);
    module_release(net);
    context_destroy(ctx);
}

/* ---- random chains ---- */

static const char *const steps[] = {
    "conv2d(, %w, none) padding=[1,1]",
    "conv2d(, %w, none)",
    "conv2d(, %w, none) padding=[1,1] stride=[2,2]",
    "conv2d(, %w, none) padding=[2,2] dilation=[2,2]",
    "conv2d(, %p, none)",
    "conv2d(, %p, none) stride=[2,2]",
    "conv2d(, %d, none) padding=[1,1] groups=GROUPS",
    "conv2d(, %d, none) padding=[1,1] stride=[2,2] groups=GROUPS",
    "conv2d(, %e, none) padding=[2,2] groups=GROUPS",
    "max_pool2d() kernel=[2,2] stride=[2,2]",
    "max_pool2d() kernel=[3,3] stride=[2,2] padding=[1,1]",
    "max_pool2d() kernel=[3,3] stride=[1,1] padding=[1,1]",
    "relu()",
};

static uint32_t seed = 1;

static int draw(int n)
{
    seed = seed * 1664525u + 1013904223u;
    return (int)(seed >> 16) % n;
}

static void write_net(int channels, char *out, size_t capacity)
{
    const int n = 3 + draw(5);
    size_t at = (size_t)snprintf(out, capacity, "  %%0 = conv2d(%%x, %%f, none) padding=[1,1]\n");
    for (int i = 0; i < n; i++) {
        char line[128];
        const char *step = steps[draw((int)(sizeof steps / sizeof *steps))];
        const int name = (int)strcspn(step, "(");
        snprintf(line, sizeof line, "%.*s(%%%d%s", name, step, i, step + name + 1);
        char *groups = strstr(line, "GROUPS");
        if (groups != NULL) sprintf(groups, "%d", channels);
        at += (size_t)snprintf(out + at, capacity - at, "  %%%d = %s\n", i + 1, line);
    }
    snprintf(out + at, capacity - at, "  return %%%d\n", n);
}

static void random_chains_have_the_same_bits(void **state)
{
    static const int channels[] = {16, 32, 64, 24};
    int n_banded = 0;
    (void)state;
    for (int i = 0; i < (IS_SANITIZED ? 6 : 40); i++) {
        const int c = channels[draw(4)], size = 60 + draw(70);
        char net[2048];
        size_t arena = 0;
        write_net(c, net, sizeof net);
        n_banded += check(1 + draw(4), c, size, net, &arena);
    }
    if (has_bands()) assert_true(n_banded > 0);
}

/* ---- networks of the zoo ---- */

static void zoo_networks_have_the_same_bits(void **state)
{
    static const struct {
        const char *name;
        size_t kb; /* most memory of the arena, with AVX-512 */
    } nets[] = {{"mobilenet_v2", 2300}, {"squeezenet1_1", SIZE_MAX}};
    const tensor_info_t input = info_dense(DTYPE_F32, SHAPE(1, 3, 224, 224));
    (void)state;
    for (size_t i = 0; i < sizeof nets / sizeof *nets; i++) {
        context_t *ctx = make_context(2);
        module_t *net = NULL;
        tensor_t *x = NULL;
        size_t arena = 0;
        CHECK_OK(ctx, zoo_create(ctx, nets[i].name, NULL, &net, NULL));
        CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, input.rank, input.sizes, &x));
        CHECK_OK(ctx, graph_trace(ctx, net, "forward", 1, (const tensor_t *const[]){x}));
        const int n = check_net(ctx, net, &input, NULL, &arena, NULL);
        if (isa_best() == ISA_AVX512 && nets[i].kb < SIZE_MAX) {
            assert_true(n >= 3);
            if (arena > nets[i].kb << 10)
                fail_msg("%s: an arena of %zu bytes", nets[i].name, arena);
        }
        tensor_release(x);
        module_release(net);
        context_destroy(ctx);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(two_convolutions_and_a_pool_are_a_chain),
        TEST(a_residual_block_overwrites_its_input),
        TEST(values_that_others_read_are_not_inside),
        TEST(batches_have_no_bands),
        TEST(observers_see_all_rows),
        TEST(random_chains_have_the_same_bits),
        TEST(zoo_networks_have_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
