/* After a fork, children run the library with their own threads. Forks happen before the library is
 * used, before and after the first run, with one thread and more, from a thread other than the one
 * that ran, and in a child. */
#define _DEFAULT_SOURCE

#include "freeze/freeze.h"

#include "tests/support/support.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "module/mkldnn.h"
#include "module/module.h"
#include "tests/support/nets/nets.h"

enum { N_OUT = 10, BATCH = 3, MAX_SECONDS = 120, MAX_DEPTH = 3 };

/* The results of one process, in memory shared by parent and child. */
typedef struct answer {
    float same[N_OUT], other[N_OUT], loaded[N_OUT];
    bool is_whole;
} answer_t;

static void run(context_t *ctx, module_t *net, int64_t batch, float *out)
{
    float all[BATCH * N_OUT];
    tensor_t *x = net_input(ctx, batch), *y = NULL;
    const tensor_t *const in[] = {x};
    int n_out = 1;
    CHECK_OK(ctx, module_call_tensors(ctx, net, "forward", 1, in, &n_out, &y));
    CHECK_OK(ctx, tensor_read(ctx, y, all, sizeof all));
    memcpy(out, all, N_OUT * sizeof *out);
    tensor_release(y);
    tensor_release(x);
}

/* Runs the module as the parent did, then with another batch size, then loads the file in a new
 * context and runs that. */
static void answer(context_t *ctx, module_t *net, const char *path, answer_t *out)
{
    context_t *own = NULL;
    module_t *loaded = NULL;
    const context_options_t options = {.n_threads = context_threads(ctx)};
    run(ctx, net, 1, out->same);
    run(ctx, net, BATCH, out->other);
    assert_int_equal(context_create(&options, &own), STATUS_OK);
    CHECK_OK(own, freeze_load(own, path, &loaded));
    run(own, loaded, 1, out->loaded);
    module_release(loaded);
    context_destroy(own);
    out->is_whole = true;
}

typedef struct family {
    context_t *ctx;
    module_t *net;
    const char *path;
    answer_t *answers; /* [MAX_DEPTH], one per process, in shared memory */
} family_t;

/* Forks a child, which forks its own child up to MAX_DEPTH levels deep and then computes
 * answers. */
static void have_child(const family_t *family, int depth)
{
    int status = 0;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(MAX_SECONDS);
        if (depth + 1 < MAX_DEPTH) have_child(family, depth + 1);
        answer(family->ctx, family->net, family->path, &family->answers[depth]);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void make_and_run(int n_threads, float *out)
{
    const context_options_t options = {.n_threads = n_threads};
    context_t *ctx = NULL;
    module_t *frozen = NULL;
    assert_int_equal(context_create(&options, &ctx), STATUS_OK);
    module_t *net = net_grouped(ctx);
    CHECK_OK(ctx, freeze(ctx, net, NULL, &frozen));
    run(ctx, frozen, 1, out);
    module_release(frozen);
    module_release(net);
    context_destroy(ctx);
}

/* The first test of the program, so its first child uses the library before the parent does. */
static void a_child_may_use_the_library_first(void **state)
{
    float *of_child = mmap(NULL, N_OUT * sizeof *of_child, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    (void)state;
    assert_true(of_child != MAP_FAILED);
    for (int n_threads = 1; n_threads <= 2; n_threads++) {
        float own[N_OUT];
        int status = 0;
        memset(of_child, 0, N_OUT * sizeof *of_child);
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            alarm(MAX_SECONDS);
            make_and_run(n_threads, of_child);
            _exit(0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        make_and_run(n_threads, own);
        assert_memory_equal(of_child, own, sizeof own);
    }
    assert_int_equal(munmap(of_child, N_OUT * sizeof *of_child), 0);
}

static void *have_child_in_thread(void *user)
{
    have_child(user, 0);
    return NULL;
}

static void check(const family_t *family, bool by_thread)
{
    answer_t own = {.is_whole = false};
    pthread_t thread;
    memset(family->answers, 0, MAX_DEPTH * sizeof *family->answers);
    if (by_thread) {
        assert_int_equal(pthread_create(&thread, NULL, have_child_in_thread, (void *)family), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
    } else {
        have_child(family, 0);
    }
    answer(family->ctx, family->net, family->path, &own);
    for (int i = 0; i < MAX_DEPTH; i++) assert_memory_equal(&family->answers[i], &own, sizeof own);
}

static void check_threads(int n_threads, bool is_frozen)
{
    static const char path[] = "test_fork.tessera";
    const context_options_t options = {.n_threads = n_threads};
    family_t family = {.path = path};
    module_t *net = NULL, *frozen = NULL;
    family.answers = mmap(NULL, MAX_DEPTH * sizeof *family.answers, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(family.answers != MAP_FAILED);
    assert_int_equal(context_create(&options, &family.ctx), STATUS_OK);
    net = net_grouped(family.ctx);
    CHECK_OK(family.ctx, freeze(family.ctx, net, NULL, &frozen));
    CHECK_OK(family.ctx, freeze_save(family.ctx, frozen, path));
    if (!is_frozen) CHECK_OK(family.ctx, module_mkldnn(family.ctx, net, NULL));
    family.net = is_frozen ? frozen : net;
    check(&family, false); /* forks before the first run */
    check(&family, false);
    check(&family, true);
    module_release(frozen);
    module_release(net);
    context_destroy(family.ctx);
    assert_int_equal(munmap(family.answers, MAX_DEPTH * sizeof *family.answers), 0);
    unlink(path);
}

static void children_run_frozen_modules(void **state)
{
    (void)state;
    for (int n = 1; n <= 3; n++) check_threads(n, true);
}

static void children_run_modules_of_blocked_weights(void **state)
{
    (void)state;
    for (int n = 1; n <= 3; n++) check_threads(n, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_child_may_use_the_library_first),
        TEST(children_run_frozen_modules),
        TEST(children_run_modules_of_blocked_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
