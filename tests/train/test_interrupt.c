/* Cancels and limits. A call that is interrupted says so, loses no data, and can run again. */
#define _POSIX_C_SOURCE 200809L

#include "tests/support/support.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#include "dispatch/dispatch.h"
#include "freeze/freeze.h"
#include "graph/ir/graph.h"
#include "module/layers/layers.h"
#include "module/state_dict.h"
#include "ops/ops.h"
#include "tensor/context_impl.h"
#include "tensor/threads/progress.h"
#include "tests/support/nets/losses.h"
#include "tests/support/nets/nets.h"
#include "train/trainer.h"

static tensor_t *draw(context_t *ctx, uint64_t seed, int rank, const int64_t *sizes)
{
    tensor_t *x = NULL;
    context_seed(ctx, seed);
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, rank, sizes, &x));
    return x;
}

static bool is_same(context_t *ctx, const tensor_t *a, const tensor_t *b)
{
    const size_t bytes = (size_t)tensor_numel(a) * dtype_size(tensor_dtype(a));
    char *first = NULL, *second = NULL;
    CHECK_OK(ctx, context_get(ctx, bytes, "elements", &first));
    CHECK_OK(ctx, context_get(ctx, bytes, "elements", &second));
    CHECK_OK(ctx, tensor_read(ctx, a, first, bytes));
    CHECK_OK(ctx, tensor_read(ctx, b, second, bytes));
    const bool is_same = memcmp(first, second, bytes) == 0;
    context_put(ctx, first);
    context_put(ctx, second);
    return is_same;
}

/* An observer that counts operators and cancels after a given number. */
typedef struct countdown {
    int at, n;
} countdown_t;

static status_t count_down(context_t *ctx, void *user, const op_event_t *event)
{
    countdown_t *countdown = user;
    (void)event;
    if (countdown->n++ == countdown->at) context_cancel(ctx);
    return STATUS_OK;
}

static observer_t observe(countdown_t *countdown)
{
    return (observer_t){.user = countdown, .op_end = count_down, .ignores_inputs = true};
}

/* ---- calls ---- */

static void a_cancel_ends_the_next_call_and_is_over_then(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = draw(ctx, 1, SHAPE(4)), *y = NULL;
    context_cancel(NULL);
    assert_false(context_withdraw_cancel(NULL));
    context_cancel(ctx);
    context_cancel(ctx);
    CHECK_FAILS(ctx, op_relu(ctx, x, &y), STATUS_CANCELLED, "relu: cancelled");
    assert_null(y);
    CHECK_OK(ctx, op_relu(ctx, x, &y));
    context_cancel(ctx);
    assert_true(context_withdraw_cancel(ctx));
    assert_false(context_withdraw_cancel(ctx));
    CHECK_OK(ctx, op_add_(ctx, y, x));
    context_cancel(ctx);
    CHECK_FAILS(ctx, op_add_(ctx, y, x), STATUS_CANCELLED, "add_: cancelled");
    tensor_release(y);
    tensor_release(x);
}

static module_t *frozen_net(context_t *ctx, tensor_t **out_x)
{
    module_t *net = net_residual(ctx), *frozen = NULL;
    *out_x = net_input(ctx, 2);
    CHECK_OK(ctx, graph_trace(ctx, net, "forward", 1, (const tensor_t *const *)out_x));
    CHECK_OK(ctx, freeze(ctx, net, NULL, &frozen));
    module_release(net);
    return frozen;
}

static void a_run_may_be_cancelled_after_any_operator(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *wanted = NULL, *y = NULL;
    module_t *frozen = frozen_net(ctx, &x);
    CHECK_OK(ctx, module_forward(ctx, frozen, x, &wanted));
    int n_cancelled = 0;
    for (int at = 0;; at++) {
        countdown_t countdown = {.at = at};
        observer_t observer = observe(&countdown);
        CHECK_OK(ctx, dispatch_add_observer(ctx, &observer));
        const status_t status = module_forward(ctx, frozen, x, &y);
        dispatch_remove_observer(ctx, &observer);
        if (status == STATUS_OK) break;
        CHECK_FAILS(ctx, status, STATUS_CANCELLED, "module_forward: cancelled before ");
        assert_null(y);
        n_cancelled++;
        CHECK_OK(ctx, module_forward(ctx, frozen, x, &y));
        assert_true(is_same(ctx, y, wanted));
        tensor_release(y);
        y = NULL;
    }
    assert_true(n_cancelled >= 2);
    (void)context_withdraw_cancel(ctx);
    tensor_release(y);
    tensor_release(wanted);
    tensor_release(x);
    module_release(frozen);
}

/* A listener to progress reports that cancels at report `at`. */
typedef struct telling {
    context_t *ctx;
    int at, n;
} telling_t;

static void tell(void *user, const progress_t *progress)
{
    telling_t *telling = user;
    (void)progress;
    if (telling->n++ == telling->at) context_cancel(telling->ctx);
}

static void freezing_and_saving_may_be_cancelled_at_any_step(void **state)
{
    context_t *ctx = fixture_context(state);
    telling_t telling = {ctx, 0, 0};
    module_t *net = net_residual(ctx), *frozen = NULL;
    tensor_t *x = net_input(ctx, 1);
    CHECK_OK(ctx, graph_trace(ctx, net, "forward", 1, (const tensor_t *const *)&x));
    progress_listen(ctx, tell, &telling);
    int n_cancelled = 0;
    for (;; telling.at++) {
        telling.n = 0;
        const status_t status = freeze(ctx, net, NULL, &frozen);
        if (status == STATUS_OK) break;
        CHECK_FAILS(ctx, status, STATUS_CANCELLED, "freeze: cancelled before ");
        assert_null(frozen);
        n_cancelled++;
    }
    assert_true(n_cancelled > 20);
    (void)context_withdraw_cancel(ctx);
    telling.n = 0;
    telling.at = 0;
    CHECK_FAILS(ctx, freeze_save(ctx, frozen, "interrupt.tessera"), STATUS_CANCELLED,
                "freeze_save: cancelled before save, constants");
    progress_listen(ctx, NULL, NULL);
    tensor_release(x);
    module_release(frozen);
    module_release(net);
}

static context_t *handled;

static void handle(int signal_number)
{
    (void)signal_number;
    context_cancel(handled);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* The limits are generous, because other processes may use the cores. */
static void a_signal_handler_cancels_what_runs(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *y = NULL;
    module_t *frozen = frozen_net(ctx, &x);
    handled = ctx;
    signal(SIGALRM, handle);
    for (int i = 1; i <= 10; i++) {
        const struct itimerval timer = {.it_value = {0, 1000 * i}};
        status_t status = STATUS_OK;
        const double begin = now();
        assert_int_equal(setitimer(ITIMER_REAL, &timer, NULL), 0);
        while (status == STATUS_OK && now() - begin < 60.0) {
            status = module_forward(ctx, frozen, x, &y);
            tensor_release(y);
        }
        CHECK_FAILS(ctx, status, STATUS_CANCELLED, "cancelled");
        assert_true(now() - begin < 30.0);
    }
    signal(SIGALRM, SIG_DFL);
    tensor_release(x);
    module_release(frozen);
}

static void *cancel_later(void *user)
{
    const struct timespec pause = {0, 3000000};
    nanosleep(&pause, NULL);
    context_cancel(user);
    return NULL;
}

static void another_thread_cancels_what_runs(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *y = NULL;
    module_t *frozen = frozen_net(ctx, &x);
    for (int i = 0; i < 10; i++) {
        pthread_t thread;
        status_t status = STATUS_OK;
        assert_int_equal(pthread_create(&thread, NULL, cancel_later, ctx), 0);
        while (status == STATUS_OK) {
            status = module_forward(ctx, frozen, x, &y);
            tensor_release(y);
        }
        CHECK_FAILS(ctx, status, STATUS_CANCELLED, "cancelled");
        pthread_join(thread, NULL);
    }
    tensor_release(x);
    module_release(frozen);
}

/* ---- training ---- */

/* Makes a convolution, batch norm, dropout and a linear layer for f32[2,3,8,8]. */
static module_t *make_net(context_t *ctx)
{
    module_t *net = NULL, *layer = NULL;
    const conv_attrs_t attrs = {.padding = {1, 1}};
    context_seed(ctx, 5);
    CHECK_OK(ctx, layer_sequential(ctx, &net));
    CHECK_OK(ctx, layer_conv(ctx, 2, 3, 8, (const int64_t[]){3, 3}, &attrs, true, &layer));
    CHECK_OK(ctx, layer_append_take(ctx, net, layer));
    CHECK_OK(ctx, layer_batch_norm(ctx, 8, 1e-5, &layer));
    CHECK_OK(ctx, layer_append_take(ctx, net, layer));
    CHECK_OK(ctx, layer_activation(ctx, ELTWISE_RELU, 0, 0, &layer));
    CHECK_OK(ctx, layer_append_take(ctx, net, layer));
    CHECK_OK(ctx, layer_flatten(ctx, 1, -1, &layer));
    CHECK_OK(ctx, layer_append_take(ctx, net, layer));
    CHECK_OK(ctx, layer_dropout(ctx, 0.5, &layer));
    CHECK_OK(ctx, layer_append_take(ctx, net, layer));
    CHECK_OK(ctx, layer_linear(ctx, 8 * 64, 5, true, &layer));
    CHECK_OK(ctx, layer_append_take(ctx, net, layer));
    return net;
}

typedef struct training {
    module_t *net;
    optimizer_t *optimizer;
    trainer_t *trainer;
    tensor_t *x, *target;
} training_t;

static training_t begin_training(context_t *ctx, const train_options_t *options)
{
    training_t t = {.net = make_net(ctx)};
    sgd_options_t sgd = sgd_options(0.01);
    sgd.momentum = 0.9;
    t.x = draw(ctx, 1, SHAPE(2, 3, 8, 8));
    t.target = draw(ctx, 2, SHAPE(2, 5));
    CHECK_OK(ctx, optimizer_sgd(ctx, t.net, &sgd, &t.optimizer));
    CHECK_OK(ctx,
             trainer_create(ctx, t.net, losses_squares, NULL, t.optimizer, options, &t.trainer));
    context_seed(ctx, 3);
    return t;
}

static status_t train(context_t *ctx, const training_t *t, double *out_loss)
{
    return trainer_step(ctx, t->trainer, 1, (const tensor_t *const *)&t->x, t->target, NULL,
                        out_loss);
}

static void end_training(const training_t *t)
{
    trainer_destroy(t->trainer);
    optimizer_destroy(t->optimizer);
    tensor_release(t->x);
    tensor_release(t->target);
    module_release(t->net);
}

/* Returns true if parameters, running statistics and their count are equal. */
static bool has_state_of(context_t *ctx, module_t *a, module_t *b)
{
    datum_t *first = NULL, *second = NULL;
    bool is_equal = true;
    CHECK_OK(ctx, module_state_dict(ctx, a, &first));
    CHECK_OK(ctx, module_state_dict(ctx, b, &second));
    for (int i = 0; i < datum_length(first); i++)
        is_equal = is_equal && is_same(ctx, datum_as_tensor(datum_item(first, i)),
                                       datum_as_tensor(datum_item(second, i)));
    datum_release(first);
    datum_release(second);
    return is_equal;
}

enum { N_STEPS = 3 };

/* Cancels the second step after every possible number of operators. The state must be that before
 * or after the step, and further steps must work as usual. */
static void check_training(context_t *ctx, const train_options_t *options)
{
    double wanted[N_STEPS], losses[N_STEPS];
    int n_cancelled = 0, n_finished = 0;
    for (int at = 0;; at++) {
        countdown_t countdown = {.at = at};
        observer_t observer = observe(&countdown);
        uint64_t random[CONTEXT_GENERATOR_STATE];
        training_t plain = begin_training(ctx, options);
        for (int i = 0; i < N_STEPS - 1; i++) CHECK_OK(ctx, train(ctx, &plain, &wanted[i]));
        training_t t = begin_training(ctx, options);
        CHECK_OK(ctx, train(ctx, &t, &losses[0]));
        context_generator_state(ctx, random);
        CHECK_OK(ctx, dispatch_add_observer(ctx, &observer));
        const status_t status = train(ctx, &t, &losses[1]);
        dispatch_remove_observer(ctx, &observer);
        const bool is_over = countdown.n <= at;
        if (status == STATUS_OK) {
            n_finished += context_withdraw_cancel(ctx);
        } else {
            CHECK_FAILS(ctx, status, STATUS_CANCELLED, "trainer_step: cancelled before ");
            assert_false(has_state_of(ctx, t.net, plain.net));
            n_cancelled++;
            CHECK_OK(ctx, train(ctx, &t, &losses[1]));
        }
        assert_true(has_state_of(ctx, t.net, plain.net));
        for (int i = 0; i < N_STEPS - 1; i++) assert_true(losses[i] == wanted[i]);
        end_training(&plain);
        end_training(&t);
        if (is_over) break;
    }
    assert_true(n_cancelled > 3);
    assert_true(options->mode == TRAIN_EAGER || options->update_apart || n_finished > 0);
}

static void a_step_is_whole_or_has_not_been(void **state)
{
    context_t *ctx = fixture_context(state);
    check_training(ctx, &(train_options_t){.mode = TRAIN_EAGER});
    check_training(ctx, &(train_options_t){.mode = TRAIN_PLANNED});
    check_training(ctx, &(train_options_t){.mode = TRAIN_PLANNED, .update_apart = true});
}

/* ---- limits ---- */

static module_t *define(context_t *ctx, const char *text)
{
    module_t *module = NULL;
    CHECK_OK(ctx, module_create(ctx, "Module", &module));
    CHECK_OK(ctx, graph_define(ctx, module, text));
    return module;
}

static void check_endless(context_t *ctx, const char *text, status_t status, const char *part)
{
    module_t *module = define(ctx, text);
    tensor_t *x = draw(ctx, 1, SHAPE(2)), *y = NULL;
    const double begin = now();
    CHECK_FAILS(ctx, module_forward(ctx, module, x, &y), status, part);
    assert_true(now() - begin < 60.0);
    tensor_release(x);
    module_release(module);
}

#define LOOP(count, body)                                                                          \
    "graph forward(%self : module, %x : f32[2]) {\n  %go = constant() value=true\n"                \
    "  %y = loop(" count ", true, %x) do (%i, %a) {\n" body                                        \
    "    yield %go, %b\n  }\n  return %y\n}\n"

static void no_loop_runs_without_end(void **state)
{
    context_t *ctx = fixture_context(state);
    static const char *const counted = LOOP("4611686018427387904", "    %b = relu(%a)\n");
    static const char *const nested = LOOP("100000000",
                                           "    %b = loop(100000000, true, %a) do (%j, %c) {\n"
                                           "      yield %go, %c\n    }\n");
    check_endless(ctx, counted, STATUS_LIMIT,
                  "loop: loops and method calls reached the limit of 1048576");
    check_endless(ctx, nested, STATUS_LIMIT, "reached the limit of");
}

static void limits_of_iterations_and_time_end_a_call_each(void **state)
{
    (void)state;
    context_t *ctx = NULL;
    static const char *const ten = LOOP("10", "    %b = relu(%a)\n");
    static const char *const many = LOOP("1000000000", "    %b = relu(%a)\n");
    for (int64_t limit = 9; limit <= 10; limit++) {
        CHECK_OK(NULL, context_create(&(context_options_t){.limit_iterations = limit}, &ctx));
        module_t *module = define(ctx, ten);
        tensor_t *x = draw(ctx, 1, SHAPE(2)), *y = NULL;
        for (int i = 0; i < 2; i++) {
            if (limit == 9)
                CHECK_FAILS(ctx, module_forward(ctx, module, x, &y), STATUS_LIMIT,
                            "reached the limit of 9");
            else
                CHECK_OK(ctx, module_forward(ctx, module, x, &y));
            tensor_release(y);
        }
        context_destroy(ctx);
        ctx = NULL;
        tensor_release(x);
        module_release(module);
        if (limit == 10) break;
    }
    CHECK_OK(NULL,
             context_create(
                 &(context_options_t){.limit_seconds = 0.2, .limit_iterations = INT64_MAX}, &ctx));
    const double begin = now();
    check_endless(ctx, many, STATUS_LIMIT, "the time limit of 0.2 seconds has passed");
    assert_true(now() - begin >= 0.2);
    tensor_t *x = draw(ctx, 1, SHAPE(2)), *y = NULL;
    CHECK_OK(ctx, op_relu(ctx, x, &y));
    tensor_release(x);
    tensor_release(y);
    context_destroy(ctx);
}

static void a_limit_of_memory_is_named_and_ends_with_its_last_block(void **state)
{
    fixture_t *fixture = *state;
    context_t *ctx = NULL;
    tensor_t *small = NULL, *large = NULL;
    const context_options_t options = {.allocator = &fixture->memory.allocator,
                                       .limit_bytes = 1 << 20};
    CHECK_OK(NULL, context_create(&options, &ctx));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(100, 1000), &small));
    CHECK_FAILS(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(200, 1000), &large), STATUS_OUT_OF_MEMORY,
                "bytes for a tensor");
    assert_non_null(strstr(context_error(ctx), "the context's limit is 1048576 bytes, of which "));
    assert_null(large);
    for (int i = 0; i < 100; i++) {
        CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(100, 1000), &large));
        tensor_release(large);
    }
    context_destroy(ctx);
    tensor_release(small); /* the fixture then checks for leaks */
}

static void bad_limits_are_refused(void **state)
{
    (void)state;
    context_t *ctx = NULL;
    CHECK_FAILS(NULL, context_create(&(context_options_t){.limit_bytes = -1}, &ctx),
                STATUS_INVALID_ARGUMENT, "context_create: a limit of -1 bytes");
    CHECK_FAILS(NULL, context_create(&(context_options_t){.limit_seconds = -0.5}, &ctx),
                STATUS_INVALID_ARGUMENT, "context_create: a limit of -0.5 seconds");
    CHECK_FAILS(NULL, context_create(&(context_options_t){.limit_iterations = -3}, &ctx),
                STATUS_INVALID_ARGUMENT, "context_create: a limit of -3 iterations");
    CHECK_FAILS(NULL, context_create(&(context_options_t){.limit_bytes = 100}, &ctx),
                STATUS_OUT_OF_MEMORY, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_cancel_ends_the_next_call_and_is_over_then),
        TEST(a_run_may_be_cancelled_after_any_operator),
        TEST(freezing_and_saving_may_be_cancelled_at_any_step),
        TEST(a_signal_handler_cancels_what_runs),
        TEST(another_thread_cancels_what_runs),
        TEST(a_step_is_whole_or_has_not_been),
        TEST(no_loop_runs_without_end),
        TEST(limits_of_iterations_and_time_end_a_call_each),
        TEST(a_limit_of_memory_is_named_and_ends_with_its_last_block),
        TEST(bad_limits_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
