/* Progress reports of long calls. */
#include "tensor/threads/progress.h"

#include "tests/support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "freeze/freeze.h"
#include "graph/program/plan.h"

/* Reports that a listener received: counts, whether `done` ever exceeded `total`, and the last
 * reports of planning, of saving constants, and of anything. */
typedef struct heard {
    int n_all, n_passes;
    bool is_backwards;
    progress_t plan, save, last;
    char what[64];
} heard_t;

static void hear(void *user, const progress_t *progress)
{
    heard_t *heard = user;
    heard->n_all++;
    heard->n_passes += strncmp(progress->what, "pass ", 5) == 0;
    heard->is_backwards |= progress->total > 0 && progress->done > progress->total;
    if (strcmp(progress->what, "plan") == 0) heard->plan = *progress;
    if (strcmp(progress->what, "save, constants") == 0) heard->save = *progress;
    snprintf(heard->what, sizeof heard->what, "%s", progress->what);
    heard->last = *progress;
}

static void progress_reports_reach_the_one_listener(void **state)
{
    context_t *ctx = fixture_context(state);
    heard_t first = {.n_all = 0}, second = {.n_all = 0};
    progress_tell(ctx, "nobody listens", 1, 2);
    progress_listen(ctx, hear, &first);
    progress_tell(ctx, "step", 3, 7);
    assert_int_equal(first.n_all, 1);
    assert_string_equal(first.what, "step");
    assert_int_equal(first.last.done, 3);
    assert_int_equal(first.last.total, 7);
    progress_listen(ctx, hear, &second);
    progress_tell(ctx, NULL, 0, 0);
    assert_int_equal(first.n_all, 1);
    assert_int_equal(second.n_all, 1);
    assert_string_equal(second.what, "");
    progress_listen(ctx, NULL, NULL);
    progress_tell(ctx, "step", 4, 7);
    assert_int_equal(second.n_all, 1);
}

static const char text[] = "graph forward(%self : module, %x : f32[2,3]) {\n"
                           "  %w = getattr(%self) name=\"w\" : f32[4,3]\n"
                           "  %y = linear(%x, %w) : f32[2,4]\n"
                           "  %z = relu(%y) : f32[2,4]\n"
                           "  return %z\n}\n";

static void freezing_planning_and_saving_tell_of_each_step(void **state)
{
    context_t *ctx = fixture_context(state);
    heard_t heard = {.n_all = 0};
    module_t *net = NULL, *frozen = NULL;
    tensor_t *w = NULL;
    char path[] = "/tmp/tessera-progress-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    CHECK_OK(ctx, module_create(ctx, "Net", &net));
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, 2, (int64_t[]){4, 3}, 1.0, &w));
    CHECK_OK(ctx, module_set_parameter(ctx, net, "w", w));
    CHECK_OK(ctx, graph_define(ctx, net, text));
    progress_listen(ctx, hear, &heard);
    CHECK_OK(ctx, freeze(ctx, net, NULL, &frozen));
    assert_true(heard.n_passes > 5);
    CHECK_OK(ctx, plan_warm(ctx, frozen, "forward"));
    assert_true(heard.plan.total >= 2 && heard.plan.done == heard.plan.total);
    CHECK_OK(ctx, freeze_save(ctx, frozen, path));
    assert_true(heard.save.total >= 1 && heard.save.done == heard.save.total);
    assert_false(heard.is_backwards);
    unlink(path);
    module_release(frozen);
    module_release(net);
    tensor_release(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(progress_reports_reach_the_one_listener),
        TEST(freezing_planning_and_saving_tell_of_each_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
