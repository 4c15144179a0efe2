/* Data-parallel training. Two ranks (processes) train like one with the doubled batch, and a rank
 * notices if the other one ends. The test starts itself with mpirun; each rank then runs its own
 * tests. */
#include "tests/support/nets/losses.h"
#include "tests/support/nets/training.h"
#include "tests/support/support.h"

#include "train/trainer.h"

#ifdef TESSERA_HAVE_MPI

#include <math.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "module/layers/layers.h"
#include "module/mkldnn.h"
#include "ops/ops.h"
#include "tensor/onednn/onednn.h"
#include "train/group_impl.h"
#include "train/loss.h"

#define N_STEPS 5
#define N_ITEMS 7 /* in the batch: 4 on rank 0, 3 on rank 1 */

/* ---- training on several ranks or one ---- */

typedef struct setting {
    const char *name;
    train_mode_t mode;
    bool is_blocked;
    bool is_bf16;
    bool is_warm; /* rank 0 trains two steps alone before it trains with the other */
} setting_t;

static const setting_t settings[] = {
    {"eager", TRAIN_EAGER, false, false, false},
    {"eager, blocked", TRAIN_EAGER, true, false, true},
    {"eager, bf16", TRAIN_EAGER, true, true, false},
    {"planned", TRAIN_PLANNED, false, false, true},
    {"planned, blocked", TRAIN_PLANNED, true, false, false},
};
#define N_SETTINGS ((int)(sizeof settings / sizeof *settings))

static module_t *make_conv(context_t *ctx, int64_t in, int64_t out)
{
    module_t *layer = NULL;
    const conv_attrs_t attrs = {.stride = {2, 2}, .padding = {1, 1}};
    CHECK_OK(ctx, layer_conv(ctx, 2, in, out, (const int64_t[]){3, 3}, &attrs, true, &layer));
    return layer;
}

/* Makes two convolutions and a linear layer on f32[n,3,8,8]. */
static module_t *make_net(context_t *ctx, uint64_t seed, int64_t n_results)
{
    module_t *net = NULL, *relu = NULL, *flatten = NULL, *linear = NULL;
    context_seed(ctx, seed);
    CHECK_OK(ctx, layer_sequential(ctx, &net));
    training_append(ctx, net, make_conv(ctx, 3, 17));
    CHECK_OK(ctx, layer_activation(ctx, ELTWISE_RELU, 0, 0, &relu));
    training_append(ctx, net, relu);
    training_append(ctx, net, make_conv(ctx, 17, 32));
    CHECK_OK(ctx, layer_flatten(ctx, 1, -1, &flatten));
    training_append(ctx, net, flatten);
    CHECK_OK(ctx, layer_linear(ctx, 32 * 4, n_results, true, &linear));
    training_append(ctx, net, linear);
    return net;
}

/* Makes n items of a batch, from item `first` on, without the context's random numbers. */
static tensor_t *make_part(context_t *ctx, uint64_t seed, int rank, const int64_t *sizes,
                           int64_t first, int64_t n)
{
    context_t *other = NULL;
    tensor_t *all = NULL, *part = NULL, *copy = NULL;
    assert_int_equal(context_create(NULL, &other), STATUS_OK);
    context_seed(other, seed);
    CHECK_OK(other, tensor_randn(other, DTYPE_F32, rank, sizes, &all));
    CHECK_OK(ctx, tensor_narrow(ctx, all, 0, first, n, &part));
    CHECK_OK(ctx, tensor_clone(ctx, part, &copy));
    tensor_release(part);
    tensor_release(all);
    context_destroy(other);
    return copy;
}

/* Runs a step on this rank's part of a batch of N_ITEMS. If `spoil` is not 0, it fills the
 * target. */
static status_t step(context_t *ctx, trainer_t *trainer, const parallel_t *parallel, int number,
                     double spoil, double *out_loss)
{
    const int n_ranks = parallel_n_ranks(parallel), rank = parallel_rank(parallel);
    const int64_t first = n_ranks > 1 && rank > 0 ? 4 : 0;
    const int64_t n = n_ranks == 1 ? N_ITEMS : rank > 0 ? 3 : 4;
    tensor_t *x = make_part(ctx, (uint64_t)number, 4, (const int64_t[]){N_ITEMS, 3, 8, 8}, first,
                            n);
    tensor_t *y = make_part(ctx, (uint64_t)number + 100, 2, (const int64_t[]){N_ITEMS, 5}, first,
                            n);
    if (spoil != 0.0) CHECK_OK(ctx, tensor_fill(ctx, y, spoil));
    status_t status = trainer_step(ctx, trainer, 1, (const tensor_t *const *)&x, y, NULL, out_loss);
    tensor_release(x);
    tensor_release(y);
    return status;
}

static void make_trainer(context_t *ctx, const setting_t *setting, parallel_t *parallel,
                         training_t *training)
{
    const train_options_t options = {.mode = setting->mode, .parallel = parallel};
    CHECK_OK(ctx, trainer_create(ctx, training->net, losses_mse, NULL, training->optimizer,
                                 &options, &training->trainer));
}

static training_t begin_training(context_t *ctx, const setting_t *setting, parallel_t *parallel)
{
    const int rank = parallel_rank(parallel);
    sgd_options_t sgd = sgd_options(0.01);
    sgd.momentum = 0.9;
    /* ranks start with different weights, which must become equal */
    training_t training = {.net = make_net(ctx, 5 + (uint64_t)rank, 5)};
    if (setting->is_blocked) CHECK_OK(ctx, module_mkldnn(ctx, training.net, NULL));
    CHECK_OK(ctx, optimizer_sgd(ctx, training.net, &sgd, &training.optimizer));
    if (setting->is_warm && rank == 0) {
        make_trainer(ctx, setting, NULL, &training);
        for (int i = 0; i < 2; i++)
            CHECK_OK(ctx, step(ctx, training.trainer, NULL, 50 + i, 0.0, NULL));
        trainer_destroy(training.trainer);
    }
    make_trainer(ctx, setting, parallel, &training);
    return training;
}

/* ---- tests that each rank runs ---- */

static parallel_t *join(context_t *ctx, const parallel_options_t *options)
{
    parallel_t *parallel = NULL;
    CHECK_OK(ctx, parallel_create(ctx, options, &parallel));
    assert_int_equal(parallel_n_ranks(parallel), 2);
    return parallel;
}

static void run_steps(context_t *ctx, const setting_t *setting, parallel_t *parallel,
                      double *out_losses)
{
    training_t training = begin_training(ctx, setting, parallel);
    for (int i = 0; i < N_STEPS; i++)
        CHECK_OK(ctx, step(ctx, training.trainer, parallel, i % 2, 0.0, &out_losses[i]));
    training_end(&training);
}

/* True if this process uses blocks of 16, as on AVX-512. Kernels for older processors do not. */
static bool has_wide_blocks(void)
{
    return __builtin_cpu_supports("avx512f") != 0 && getenv("ONEDNN_MAX_CPU_ISA") == NULL;
}

static bool has_avx2(void)
{
    return onednn_isa_has(onednn_isa(), ONEDNN_ISA_AVX2);
}

static void check_counts(const setting_t *setting, bool is_equal, const parallel_counts_t *counts)
{
    const bool is_planned = setting->mode == TRAIN_PLANNED;
    if (!is_equal && has_wide_blocks()) assert_int_equal(counts->n_blocked, 0);
    /* weight gradients for 4 and 3 items may differ in format: in plans, and on older processors */
    if (is_equal && setting->is_blocked)
        assert_in_range(counts->n_blocked, is_planned || !has_avx2() ? 1 : 3, 3);
    assert_int_equal(counts->n_blocked + counts->n_plain, 6);
    assert_in_range(counts->n_buckets, 8, 64);
    if (is_planned)
        assert_int_equal(counts->n_early, 0);
    else
        assert_in_range(counts->n_early, counts->n_buckets / 2, counts->n_buckets);
}

/* Returns true if all ranks have kernels for AVX2, or none has. */
static bool are_equal(context_t *ctx, parallel_t *parallel)
{
    double n = has_avx2() ? 1.0 : 0.0;
    CHECK_OK(ctx, parallel_sum(ctx, parallel, 1, &n));
    return n != 1.0;
}

/* Trains on both ranks. Rank 0 then trains alone with the entire batch, and compares. */
static void compare(context_t *ctx, const setting_t *setting)
{
    const parallel_options_t options = {.bf16_gradients = setting->is_bf16, .bucket_bytes = 2000};
    parallel_t *parallel = join(ctx, &options);
    double alone[N_STEPS], together[N_STEPS], largest = 0.0;
    run_steps(ctx, setting, parallel, together);
    const parallel_counts_t counts = parallel_counts(parallel);
    check_counts(setting, are_equal(ctx, parallel), &counts);
    if (parallel_rank(parallel) == 0) {
        run_steps(ctx, setting, NULL, alone);
        for (int k = 0; k < N_STEPS; k++)
            largest = fmax(largest, fabs(together[k] - alone[k]) / alone[k]);
        if (!(largest < (setting->is_bf16 ? 1e-2 : 1e-5)) || (largest < 1e-6 && setting->is_bf16))
            fail_msg("%s: losses differ by %g", setting->name, largest);
        assert_true(fabs(alone[N_STEPS - 1] - alone[0]) > 0.01 * alone[0]);
    }
    parallel_destroy(parallel);
}

static void two_ranks_train_as_one_with_the_doubled_batch(void **state)
{
    context_t *ctx = fixture_context(state);
    for (int i = 0; i < N_SETTINGS; i++) compare(ctx, &settings[i]);
}

/* Rank 1 uses kernels for older processors, whose blocks are smaller than those of AVX-512. */
static void formats_that_differ_are_exchanged_plain(void **state)
{
    context_t *ctx = fixture_context(state);
    for (int i = 0; i < N_SETTINGS; i++)
        if (settings[i].is_blocked && !settings[i].is_bf16) compare(ctx, &settings[i]);
}

static void a_step_that_fails_on_one_rank_has_failed_on_all(void **state)
{
    context_t *ctx = fixture_context(state);
    parallel_t *parallel = join(ctx, NULL);
    const int rank = parallel_rank(parallel);
    training_t training = begin_training(ctx, &settings[1], parallel);
    double loss = 0.0, sum = 0.0;
    for (int i = 0; i < 2; i++) {
        CHECK_FAILS(
            ctx, step(ctx, training.trainer, parallel, 0, rank == 1 ? (double)INFINITY : 0.0, NULL),
            STATUS_INVALID_ARGUMENT,
            rank == 1 ? "the loss of step" : "rank 1 has failed, so no rank has made");
        CHECK_FAILS(ctx, step(ctx, training.trainer, parallel, 0, (double)INFINITY, NULL),
                    STATUS_INVALID_ARGUMENT, "the loss of step");
        const tensor_t *nothing = NULL;
        context_clear_error(ctx);
        if (rank == 0)
            CHECK_FAILS(ctx, trainer_step(ctx, training.trainer, 1, &nothing, NULL, NULL, NULL),
                        STATUS_INVALID_ARGUMENT, "an input");
        else
            CHECK_FAILS(ctx, step(ctx, training.trainer, parallel, 0, 0.0, NULL),
                        STATUS_INVALID_ARGUMENT, "rank 0 has failed, so no rank has made");
        context_clear_error(ctx);
        CHECK_OK(ctx, step(ctx, training.trainer, parallel, 0, 0.0, &loss));
    }
    /* if weights are equal on all ranks, the sum of the next loss is twice this rank's */
    CHECK_OK(ctx, step(ctx, training.trainer, parallel, 1, 0.0, &loss));
    sum = loss;
    CHECK_OK(ctx, parallel_sum(ctx, parallel, 1, &sum));
    assert_true(sum == 2.0 * loss);
    training_end(&training);
    parallel_destroy(parallel);
}

static void ranks_with_other_networks_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    parallel_t *parallel = join(ctx, NULL);
    module_t *net = make_net(ctx, 5, 5 + parallel_rank(parallel));
    CHECK_FAILS(ctx, parallel_broadcast(ctx, parallel, net, NULL), STATUS_INVALID_ARGUMENT,
                "ranks have different parameters, buffers or optimizers");
    CHECK_FAILS(ctx, parallel_broadcast(ctx, parallel, net, NULL), STATUS_IO,
                "a rank has ended or left");
    module_release(net);
    parallel_destroy(parallel);
}

static void numbers_are_summed_over_the_ranks(void **state)
{
    context_t *ctx = fixture_context(state);
    parallel_t *parallel = join(ctx, NULL);
    double numbers[] = {parallel_rank(parallel), 2.5};
    CHECK_OK(ctx, parallel_sum(ctx, parallel, 2, numbers));
    assert_true(numbers[0] == 1.0 && numbers[1] == 5.0);
    CHECK_FAILS(ctx, parallel_sum(ctx, parallel, -1, numbers), STATUS_INVALID_ARGUMENT,
                "must not be negative");
    parallel_destroy(parallel);
}

static status_t sum_of_squares(context_t *ctx, void *user, const tensor_t *output,
                               const tensor_t *target, tensor_t **out_loss)
{
    (void)user;
    return loss_mse(ctx, output, target, REDUCTION_SUM, out_loss);
}

/* If no rank has items, the sum of the losses is 0, and so are gradients. */
static void empty_batches_of_all_ranks_move_no_weight(void **state)
{
    context_t *ctx = fixture_context(state);
    for (int i = 0; i < 2; i++) {
        parallel_t *parallel = join(ctx, NULL);
        const train_options_t options = {.mode = i == 0 ? TRAIN_EAGER : TRAIN_PLANNED,
                                         .parallel = parallel};
        module_t *net = make_net(ctx, 5, 5);
        optimizer_t *optimizer = NULL;
        trainer_t *trainer = NULL;
        float before[17] = {0}, after[17] = {0};
        double loss = -1.0;
        CHECK_OK(ctx, optimizer_sgd(ctx, net, NULL, &optimizer));
        CHECK_OK(ctx,
                 trainer_create(ctx, net, sum_of_squares, NULL, optimizer, &options, &trainer));
        CHECK_OK(ctx, tensor_read(ctx, module_parameter(net, "0.bias"), before, sizeof before));
        tensor_t *x = make_part(ctx, 1, 4, (const int64_t[]){N_ITEMS, 3, 8, 8}, 0, 0);
        tensor_t *y = make_part(ctx, 2, 2, (const int64_t[]){N_ITEMS, 5}, 0, 0);
        CHECK_OK(ctx, trainer_step(ctx, trainer, 1, (const tensor_t *const *)&x, y, NULL, &loss));
        CHECK_OK(ctx, tensor_read(ctx, module_parameter(net, "0.bias"), after, sizeof after));
        assert_true(loss == 0.0);
        assert_memory_equal(before, after, sizeof before);
        tensor_release(x);
        tensor_release(y);
        trainer_destroy(trainer);
        optimizer_destroy(optimizer);
        module_release(net);
        parallel_destroy(parallel);
    }
}

/* Records the size of the largest block that was requested. */
static void *get_measured(void *user, size_t bytes)
{
    size_t *most = user;
    if (bytes > *most) *most = bytes;
    return aligned_alloc(64, (bytes + 64) / 64 * 64);
}

static void put_measured(void *user, void *block)
{
    (void)user;
    free(block);
}

static void gradients_of_a_plan_lie_where_those_before_lay(void **state)
{
    (void)state;
    size_t most = 0;
    const allocator_t allocator = {&most, get_measured, put_measured};
    context_t *ctx = NULL;
    module_t *net = NULL, *flatten = NULL, *wide = NULL, *last = NULL;
    assert_int_equal(context_create(&(context_options_t){.allocator = &allocator}, &ctx),
                     STATUS_OK);
    parallel_t *parallel = join(ctx, NULL);
    CHECK_OK(ctx, layer_sequential(ctx, &net));
    CHECK_OK(ctx, layer_flatten(ctx, 1, -1, &flatten));
    training_append(ctx, net, flatten);
    CHECK_OK(ctx, layer_linear(ctx, 3 * 8 * 8, 1024, true, &wide));
    training_append(ctx, net, wide);
    CHECK_OK(ctx, layer_linear(ctx, 1024, 5, true, &last));
    training_append(ctx, net, last);
    training_t training = {.net = net};
    CHECK_OK(ctx, optimizer_sgd(ctx, net, NULL, &training.optimizer));
    make_trainer(ctx, &settings[3], parallel, &training);
    counters_t counters;
    for (int i = 0; i < 4; i++) {
        most = 0;
        counters_reset(ctx);
        CHECK_OK(ctx, step(ctx, training.trainer, parallel, 0, 0.0, NULL));
    }
    counters_read(ctx, &counters);
    /* a weight that is read in two formats is copied in each step, e.g. with AVX2 and oneDNN 3 */
    if (counters_weight_reorders(&counters) == 0)
        assert_true(most < 3 * 8 * 8 * 1024 * sizeof(float));
    training_end(&training);
    parallel_destroy(parallel);
    context_destroy(ctx);
}

static void failures_of_the_system_are_reported(void **state)
{
    context_t *ctx = fixture_context(state);
    group_t group = {.lock = -1};
    parallel_t *parallel = NULL;
    struct rlimit limit, none;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = limit;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    CHECK_FAILS(ctx, parallel_create(ctx, NULL, &parallel), STATUS_IO,
                "cannot create and lock a file in /tmp, each rank needs one");
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    CHECK_FAILS(ctx, group_begin(ctx, "add", &group, MPI_ERR_COMM), STATUS_IO,
                "Open MPI fails on rank 0");
    assert_true(group.is_broken);
}

static void mpi_is_begun_once(void **state)
{
    context_t *ctx = fixture_context(state);
    parallel_t *parallel = NULL;
    CHECK_FAILS(ctx, parallel_create(ctx, NULL, &parallel), STATUS_INVALID_ARGUMENT,
                "MPI is finalised already, a process can initialise it only once");
}

static int run_rank_tests(void)
{
    const struct CMUnitTest tests[] = {
        TEST(two_ranks_train_as_one_with_the_doubled_batch),
        TEST(a_step_that_fails_on_one_rank_has_failed_on_all),
        TEST(ranks_with_other_networks_are_refused),
        TEST(numbers_are_summed_over_the_ranks),
        TEST(empty_batches_of_all_ranks_move_no_weight),
        cmocka_unit_test(gradients_of_a_plan_lie_where_those_before_lay),
        TEST(failures_of_the_system_are_reported),
    };
    const struct CMUnitTest after[] = {TEST(mpi_is_begun_once)};
    /* initialised here, because ranks join several times and MPI can start only once */
    MPI_Init(NULL, NULL);
    int n_failed = cmocka_run_group_tests(tests, NULL, NULL);
    MPI_Finalize();
    return n_failed + cmocka_run_group_tests(after, NULL, NULL);
}

static int run_format_tests(void)
{
    const struct CMUnitTest tests[] = {TEST(formats_that_differ_are_exchanged_plain)};
    int rank = 0;
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 1) setenv("ONEDNN_MAX_CPU_ISA", "SSE41", 1);
    int n_failed = cmocka_run_group_tests(tests, NULL, NULL);
    MPI_Finalize();
    return n_failed;
}

/* Rank 1 is killed, or leaves. Rank 0 prints the error that it gets. */
static int lose_rank(bool is_killed)
{
    context_t *ctx = NULL;
    parallel_t *parallel = NULL;
    if (context_create(NULL, &ctx) != STATUS_OK) return 2;
    CHECK_OK(ctx, parallel_create(ctx, NULL, &parallel));
    training_t training = begin_training(ctx, &settings[1], parallel);
    const int rank = parallel_rank(parallel);
    for (int i = 0; i < 2; i++) CHECK_OK(ctx, step(ctx, training.trainer, parallel, i, 0.0, NULL));
    if (rank == 1 && is_killed) raise(SIGKILL);
    if (rank == 1) parallel_leave(parallel);
    status_t status = step(ctx, training.trainer, parallel, 2, 0.0, NULL);
    printf("rank %d: status %d, %s\n", rank, (int)status, context_error(ctx));
    training_end(&training);
    parallel_destroy(parallel);
    context_destroy(ctx);
    return 1;
}

/* ---- starting the ranks ---- */

static char output[1 << 16];

/* Leaks of Open MPI are ignored. The tests themselves count the library's allocations. */
static int run_ranks(const char *what)
{
    char self[1024], line[2048];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(n > 0);
    self[n] = '\0';
    snprintf(
        line, sizeof line,
        "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 LSAN_OPTIONS=detect_leaks=0 "
        "OMP_NUM_THREADS=1 mpirun --oversubscribe --timeout 200 -n 2 %s '%s' %s 2>&1",
        strcmp(what, "killed") == 0 || strcmp(what, "left") == 0 ? "--enable-recovery" : "", self,
        what);
    FILE *pipe = popen(line, "r");
    assert_non_null(pipe);
    output[fread(output, 1, sizeof output - 1, pipe)] = '\0';
    const int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void pass(const char *what, const char *count)
{
    const int code = run_ranks(what);
    if (code != 0 || strstr(output, count) == NULL)
        fail_msg("mpirun -n 2 test_parallel %s: exit %d\n%s", what, code, output);
}

static void ranks_pass_their_tests(void **state)
{
    (void)state;
    pass("tests", "7 test(s)");
    pass("formats", "1 test(s)");
}

static void a_rank_that_is_killed_is_seen_by_the_others(void **state)
{
    (void)state;
    run_ranks("killed");
    if (strstr(output, "rank 0: status 4, trainer_step: rank 1 has ended, rank 0 cannot") == NULL)
        fail_msg("%s", output);
}

static void a_rank_that_leaves_is_seen_by_the_others(void **state)
{
    (void)state;
    run_ranks("left");
    if (strstr(output, "rank 0: status 4, trainer_step: rank 1 has ended, rank 0 cannot") == NULL ||
        strstr(output, "rank 1: status 4, trainer_step: a rank has ended or left") == NULL)
        fail_msg("%s", output);
}

static void without_ranks_there_is_one(void **state)
{
    (void)state;
    assert_int_equal(parallel_rank(NULL), 0);
    assert_int_equal(parallel_n_ranks(NULL), 1);
    assert_int_equal(parallel_counts(NULL).n_buckets, 0);
    parallel_leave(NULL);
    parallel_destroy(NULL);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "tests") == 0) return run_rank_tests();
    if (argc > 1 && strcmp(argv[1], "formats") == 0) return run_format_tests();
    if (argc > 1) return lose_rank(strcmp(argv[1], "killed") == 0);
    const struct CMUnitTest tests[] = {
        TEST(ranks_pass_their_tests),
        TEST(a_rank_that_is_killed_is_seen_by_the_others),
        TEST(a_rank_that_leaves_is_seen_by_the_others),
        TEST(without_ranks_there_is_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

static void a_build_without_open_mpi_says_so(void **state)
{
    context_t *ctx = fixture_context(state);
    parallel_t *parallel = NULL;
    double number = 0.0;
    CHECK_FAILS(ctx, parallel_create(ctx, NULL, &parallel), STATUS_UNSUPPORTED,
                "this build has no Open MPI");
    CHECK_FAILS(ctx, parallel_sum(ctx, parallel, 1, &number), STATUS_UNSUPPORTED,
                "this build has no Open MPI");
    CHECK_FAILS(ctx, parallel_broadcast(ctx, parallel, NULL, NULL), STATUS_UNSUPPORTED,
                "this build has no Open MPI");
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(a_build_without_open_mpi_says_so)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
