/* While one thread compiles a program (a method for given sizes), which other threads wait? An
 * allocator that blocks halts the compilation. */
#include "graph/method/programs_impl.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <time.h>

#include "graph/program/plan.h"
#include "tensor/tensor_impl.h"
#include "tests/support/support.h"

enum { SECONDS = 20 };

static const char text[] = "graph forward(%self : module, %x : f32[n,3]) {\n"
                           "  %a = relu(%x)\n"
                           "  %b = tanh(%a)\n"
                           "  %y = add(%b, %x)\n"
                           "  return %y\n"
                           "}\n";

static module_t *make_net(context_t *ctx)
{
    module_t *net = NULL;
    graph_t *graph = NULL;
    CHECK_OK(ctx, module_create(ctx, "Net", &net));
    CHECK_OK(ctx, graph_parse(ctx, text, NULL, &graph));
    CHECK_OK(ctx, plan_set_method(ctx, net, "forward", graph, 0));
    graph_release(graph);
    return net;
}

/* Calls the method with n rows of zeros. */
static status_t run(context_t *ctx, module_t *net, int64_t n)
{
    tensor_t *x = NULL, *y = NULL;
    TRY(tensor_zeros(ctx, DTYPE_F32, SHAPE(n, 3), &x));
    status_t status = module_forward(ctx, net, x, &y);
    tensor_release(y);
    tensor_release(x);
    return status;
}

static uint64_t n_built(context_t *ctx)
{
    counters_t counters;
    counters_read(ctx, &counters);
    return counters.plans_built;
}

/* Returns false after a timeout. */
static bool wait_for(sem_t *semaphore)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += SECONDS;
    int failed;
    do failed = sem_timedwait(semaphore, &until);
    while (failed != 0 && errno == EINTR);
    return failed == 0;
}

/* ---- a thread halted while compiling ---- */

typedef struct halted {
    counting_t memory;
    allocator_t allocator;
    atomic_long halt_at; /* the request to halt at, counted from now; 0: none */
    atomic_bool is_refusing;
    sem_t is_inside, may_go;
    context_t *ctx;
    module_t *net;
    int64_t n;
    pthread_t thread;
    status_t status;
    bool was_let_go;
} halted_t;

static void *get_or_halt(void *user, size_t bytes)
{
    halted_t *halted = user;
    if (atomic_load(&halted->halt_at) > 0 && atomic_fetch_sub(&halted->halt_at, 1) == 1) {
        sem_post(&halted->is_inside);
        halted->was_let_go = wait_for(&halted->may_go);
        if (atomic_load(&halted->is_refusing)) return NULL;
    }
    return halted->memory.allocator.get(halted->memory.allocator.user, bytes);
}

static void put_back(void *user, void *block)
{
    halted_t *halted = user;
    halted->memory.allocator.put(halted->memory.allocator.user, block);
}

static void *call_halted(void *user)
{
    halted_t *halted = user;
    halted->status = run(halted->ctx, halted->net, halted->n);
    return NULL;
}

/* Starts a thread that calls the method for n rows, and waits until it halts while compiling: in
 * the middle of its allocations. */
static void halted_begin(halted_t *halted, module_t *net, int64_t n)
{
    counting_begin(&halted->memory);
    halted->allocator = (allocator_t){halted, get_or_halt, put_back};
    atomic_init(&halted->halt_at, 0);
    atomic_init(&halted->is_refusing, false);
    sem_init(&halted->is_inside, 0, 0);
    sem_init(&halted->may_go, 0, 0);
    halted->net = net;
    halted->n = n;
    context_options_t options = {.allocator = &halted->allocator, .n_threads = 1};
    assert_int_equal(context_create(&options, &halted->ctx), STATUS_OK);
    counting_fail(&halted->memory, 0, false);
    CHECK_OK(halted->ctx, run(halted->ctx, net, 1));
    atomic_store(&halted->halt_at, atomic_load(&halted->memory.requests) / 2);
    assert_int_equal(pthread_create(&halted->thread, NULL, call_halted, halted), 0);
    assert_true(wait_for(&halted->is_inside));
}

static void halted_join(halted_t *halted)
{
    sem_post(&halted->may_go);
    pthread_join(halted->thread, NULL);
    assert_true(halted->was_let_go);
}

/* Destroys the thread's context. The module must have been released, because it uses memory of this
 * thread. */
static void halted_end(halted_t *halted)
{
    context_destroy(halted->ctx);
    assert_int_equal(atomic_load(&halted->memory.live), 0);
    sem_destroy(&halted->is_inside);
    sem_destroy(&halted->may_go);
}

/* ---- another thread ---- */

typedef struct other {
    context_t *ctx;
    module_t *net;
    int64_t n;
    sem_t is_done;
    pthread_t thread;
    status_t status;
} other_t;

static void *call(void *user)
{
    other_t *other = user;
    other->status = run(other->ctx, other->net, other->n);
    sem_post(&other->is_done);
    return NULL;
}

static void other_begin(other_t *other, module_t *net, int64_t n)
{
    other->net = net;
    other->n = n;
    sem_init(&other->is_done, 0, 0);
    assert_int_equal(context_create(&(context_options_t){.n_threads = 1}, &other->ctx), STATUS_OK);
    assert_int_equal(pthread_create(&other->thread, NULL, call, other), 0);
}

/* ---- tests ---- */

static void other_threads_run_and_compile_while_one_compiles(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_net(ctx);
    static halted_t halted;
    CHECK_OK(ctx, context_set_threads(ctx, 1));
    CHECK_OK(ctx, run(ctx, net, 2));
    halted_begin(&halted, net, 3);
    for (int i = 0; i < 10; i++) CHECK_OK(ctx, run(ctx, net, 2));
    CHECK_OK(ctx, run(ctx, net, 4));
    assert_int_equal(n_built(ctx), 2);
    halted_join(&halted);
    assert_int_equal(halted.status, STATUS_OK);
    assert_int_equal(n_built(halted.ctx), 2);
    CHECK_OK(ctx, run(ctx, net, 3));
    assert_int_equal(n_built(ctx), 2);
    module_release(net);
    halted_end(&halted);
}

static void the_second_who_wants_the_same_sizes_waits(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_net(ctx);
    static halted_t halted;
    static other_t other;
    halted_begin(&halted, net, 3);
    other_begin(&other, net, 3);
    /* If it compiled the program itself, it would be done after this time. */
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
    assert_int_not_equal(sem_trywait(&other.is_done), 0);
    halted_join(&halted);
    pthread_join(other.thread, NULL);
    assert_int_equal(halted.status, STATUS_OK);
    assert_int_equal(other.status, STATUS_OK);
    assert_int_equal(n_built(halted.ctx), 2);
    assert_int_equal(n_built(other.ctx), 0);
    context_destroy(other.ctx);
    module_release(net);
    halted_end(&halted);
}

/* The first thread fails to allocate. The second one, which waited for it, must compile and
 * succeed. */
static void a_thread_that_waited_for_a_failed_compilation_compiles_itself(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_net(ctx);
    static halted_t halted;
    static other_t other;
    halted_begin(&halted, net, 3);
    other_begin(&other, net, 3);
    atomic_store(&halted.is_refusing, true);
    halted_join(&halted);
    pthread_join(other.thread, NULL);
    assert_int_equal(halted.status, STATUS_OUT_OF_MEMORY);
    assert_int_equal(other.status, STATUS_OK);
    assert_int_equal(n_built(other.ctx), 1);
    module_release(net);
    context_destroy(other.ctx);
    halted_end(&halted);
}

/* The method keeps one program. The program that is being compiled must stay, and the other one is
 * removed. */
static void a_program_is_not_evicted_while_it_is_compiled(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_net(ctx);
    static halted_t halted;
    CHECK_OK(ctx, context_set_threads(ctx, 1));
    plan_set_capacity(net, "forward", 1);
    halted_begin(&halted, net, 3);
    CHECK_OK(ctx, run(ctx, net, 2));
    plan_set_capacity(net, "forward", 1);
    halted_join(&halted);
    assert_int_equal(halted.status, STATUS_OK);
    uint64_t n = n_built(ctx);
    CHECK_OK(ctx, run(ctx, net, 3));
    assert_int_equal(n_built(ctx), n);
    CHECK_OK(ctx, run(ctx, net, 2));
    assert_int_equal(n_built(ctx), n + 1);
    module_release(net);
    halted_end(&halted);
}

/* ---- many sizes ---- */

/* Fills row i of n with i / n, and checks the result, which is tanh(x) + x. */
static void check_rows(context_t *ctx, module_t *net, int64_t n)
{
    tensor_t *x = NULL, *y = NULL;
    float *bytes = NULL;
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(n, 3), &x));
    CHECK_OK(ctx, tensor_writable(ctx, x, (void **)&bytes));
    for (int64_t i = 0; i < 3 * n; i++) bytes[i] = (float)(i / 3) / (float)n;
    CHECK_OK(ctx, module_forward(ctx, net, x, &y));
    const float *made = tensor_bytes(y);
    for (int64_t i = 0; i < 3 * n; i++) {
        const double in = (double)(float)((float)(i / 3) / (float)n);
        assert_true(fabs((double)made[i] - (tanh(in) + in)) < 1e-5);
    }
    tensor_release(y);
    tensor_release(x);
}

static void the_last_two_sizes_stay_whatever_bytes_there_are(void **state)
{
    (void)state;
    context_t *ctx = NULL;
    counters_t counters;
    assert_int_equal(context_create(&(context_options_t){.plan_bytes = 1}, &ctx), STATUS_OK);
    module_t *net = make_net(ctx);
    for (int i = 0; i < 40; i++) check_rows(ctx, net, 1 + i % 2);
    counters_read(ctx, &counters);
    assert_int_equal(counters.plans_built, 2);
    assert_int_equal(counters.plans_evicted, 0);
    for (int i = 0; i < 40; i++) check_rows(ctx, net, 1 + i % 3);
    counters_read(ctx, &counters);
    assert_int_equal(counters.plans_built, 2 + 38);
    assert_int_equal(counters.plans_evicted, 38);
    assert_int_equal(counters.plan_bytes, 0);
    module_release(net);
    context_destroy(ctx);
}

static void plans_beyond_the_last_two_stay_within_their_bytes(void **state)
{
    (void)state;
    enum { BYTES = 2000000 };
    context_t *ctx = NULL;
    counters_t counters;
    assert_int_equal(context_create(&(context_options_t){.plan_bytes = BYTES}, &ctx), STATUS_OK);
    module_t *net = make_net(ctx);
    plan_set_capacity(net, "forward", 1000);
    for (int i = 0; i < 200; i++) {
        check_rows(ctx, net, 1 + i);
        counters_read(ctx, &counters);
        assert_in_range(counters.plan_bytes, 0, BYTES);
    }
    assert_in_range(counters.plan_bytes, BYTES / 2, BYTES);
    assert_in_range(counters.plans_evicted, 100, 197);
    const uint64_t n = n_built(ctx);
    check_rows(ctx, net, 199);
    assert_int_equal(n_built(ctx), n);
    check_rows(ctx, net, 1);
    assert_int_equal(n_built(ctx), n + 1);
    module_release(net);
    context_destroy(ctx);
}

typedef struct meeting {
    context_t *ctx;
    module_t *net;
    int first;
    pthread_t thread;
} meeting_t;

static void *meet_sizes(void *user)
{
    const meeting_t *meeting = user;
    for (int i = 0; i < 100; i++)
        check_rows(meeting->ctx, meeting->net, 1 + (meeting->first + i) % 11);
    return NULL;
}

/* Four threads use eleven sizes, but the method keeps few programs, so each thread removes programs
 * of others. */
static void a_plan_that_is_run_by_another_thread_may_be_evicted(void **state)
{
    enum { N = 4 };
    context_t *ctx = fixture_context(state);
    module_t *net = make_net(ctx);
    meeting_t meetings[N];
    uint64_t n_evicted = 0;
    for (int i = 0; i < N; i++) {
        meetings[i] = (meeting_t){.net = net, .first = 3 * i};
        const context_options_t options = {.n_threads = 1, .plan_bytes = 1};
        assert_int_equal(context_create(&options, &meetings[i].ctx), STATUS_OK);
    }
    for (int i = 0; i < N; i++)
        assert_int_equal(pthread_create(&meetings[i].thread, NULL, meet_sizes, &meetings[i]), 0);
    for (int i = 0; i < N; i++) {
        counters_t counters;
        pthread_join(meetings[i].thread, NULL);
        counters_read(meetings[i].ctx, &counters);
        n_evicted += counters.plans_evicted;
    }
    assert_true(n_evicted > 20);
    module_release(net);
    for (int i = 0; i < N; i++) context_destroy(meetings[i].ctx);
}

static int n_anchors(const module_t *net)
{
    int n = 0;
    const programs_anchor_t *anchor = programs_of(net, "forward")->anchors;
    for (; anchor != NULL; anchor = anchor->next) n++;
    return n;
}

static void sizes_near_those_that_were_searched_for_take_what_was_chosen(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_net(ctx);
    static const struct {
        int64_t n;
        int n_anchors;
    } cases[] = {{100, 1}, {110, 1}, {67, 1}, {149, 1}, {151, 2},
                 {125, 2}, {226, 2}, {66, 3}, {1, 4},   {2, 5}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_rows(ctx, net, cases[i].n);
        assert_int_equal(n_anchors(net), cases[i].n_anchors);
    }
    for (int64_t n = 1; n < 1000000; n *= 5) check_rows(ctx, net, n);
    for (int64_t n = 7; n < 100000; n *= 9) check_rows(ctx, net, n);
    assert_in_range(n_anchors(net), 5, 16);
    module_release(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(other_threads_run_and_compile_while_one_compiles),
        TEST(the_second_who_wants_the_same_sizes_waits),
        TEST(a_thread_that_waited_for_a_failed_compilation_compiles_itself),
        TEST(a_program_is_not_evicted_while_it_is_compiled),
        TEST(the_last_two_sizes_stay_whatever_bytes_there_are),
        TEST(plans_beyond_the_last_two_stay_within_their_bytes),
        TEST(a_plan_that_is_run_by_another_thread_may_be_evicted),
        TEST(sizes_near_those_that_were_searched_for_take_what_was_chosen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
