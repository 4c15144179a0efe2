/* Tuning: measured times decide which formats and kernels run, files keep the decisions for similar
 * machines, and results do not change. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "graph/method/method_impl.h"
#include "graph/passes/layout/layout_impl.h"
#include "kernels/isa_impl.h"
#include "module/layers/recurrent.h"
#include "tensor/threads/progress.h"
#include "tests/support/nets/subject.h"

static const char parameters[] = "a=64,64,3,3 b=64,64,3,3 c=32,64,1,1";
static const char input[] = "%x : f32[1,64,28,28]";
static const char body[] = "  %1 = conv2d(%x, %a, none) padding=[1,1]\n  %2 = relu(%1)\n"
                           "  %3 = conv2d(%2, %b, none) padding=[1,1]\n  %4 = relu(%3)\n"
                           "  %5 = conv2d(%4, %c, none)\n  return %5\n";

static int count_kernels(const module_t *frozen, const char *kernel)
{
    const plan_t *plan = plan_of(frozen, "forward");
    int n = 0;
    for (int i = 0; i < plan_n_steps(plan); i++)
        n += strcmp(plan_step(plan, i)->name, "conv2d") == 0 &&
             strncmp(prepared_kernel(plan_step(plan, i)->prepared), kernel, strlen(kernel)) == 0;
    return n;
}

/* Runs the passes up to the layout pass on the frozen graph, for the subject's input, with these
 * times. */
static status_t choose(context_t *ctx, const subject_t *s, const char *timings,
                       layout_tuning_t *tuning, text_t *chosen, graph_t **out_graph)
{
    static const char *const names[] = {"layout", NULL};
    const pass_options_t options = {
        .self = s->frozen, .timings = timings, .tuning = tuning, .out_layout = chosen};
    return pass_run(ctx, graph_of(s->frozen, "forward"), names, &options, out_graph);
}

/* Returns the measured times with one kernel made fast and all others slow. */
static char *prefer(const char *lines, const char *kernel)
{
    const size_t room = strlen(lines) * 2 + 64;
    char *out = test_malloc(room), wanted[64];
    size_t length = 0;
    snprintf(wanted, sizeof wanted, " by %s;", kernel);
    out[0] = '\0';
    for (const char *at = lines, *end; (end = strchr(at, '\n')) != NULL; at = end + 1) {
        const char *number = end;
        while (number[-1] != ';') number--;
        const size_t head = (size_t)(number - at);
        const bool is_wanted = head > strlen(wanted) &&
                               strncmp(number - strlen(wanted), wanted, strlen(wanted)) == 0;
        length += (size_t)snprintf(out + length, room - length, "%.*s%d\n", (int)head, at,
                                   is_wanted ? 1000 : 100000000);
    }
    return out;
}

static void run_and_compare(context_t *ctx, module_t *module, const tensor_t *x,
                            const tensor_t *want, double bound)
{
    tensor_t *y = NULL;
    double difference = INFINITY;
    CHECK_OK(ctx, module_forward(ctx, module, x, &y));
    CHECK_OK(ctx, tensor_max_rel_diff(ctx, y, want, &difference));
    assert_true(difference <= bound);
    tensor_release(y);
}

/* The estimates favour Winograd for two of the convolutions. Measured times say the opposite, and
 * decide. */
static void measured_times_choose_kernels_and_files_keep_them(void **state)
{
    context_t *ctx = fixture_context(state);
    char path[] = "/tmp/tessera-tune-XXXXXX";
    const int file = mkstemp(path);
    text_t timings = text_begin(ctx), chosen = text_begin(ctx), line = text_begin(ctx);
    layout_tuning_t tuning = {.deadline = UINT64_MAX, .timings = &timings};
    graph_t *graph = NULL;
    module_t *loaded = NULL;
    tensor_t *y = NULL;
    if (isa_best() == ISA_PORTABLE) return;
    assert_true(file >= 0);
    close(file);
    subject_t s = subject_begin(ctx, parameters, input, body);
    CHECK_OK(ctx, module_forward(ctx, s.frozen, s.in[0], &y));
    assert_int_equal(count_kernels(s.frozen, "winograd_"), 2);

    CHECK_OK(ctx, choose(ctx, &s, NULL, &tuning, NULL, &graph));
    graph_release(graph);
    assert_true(tuning.n_measured >= 2);
    assert_non_null(strstr(text_string(&timings), " by winograd_"));
    char *preferred = prefer(text_string(&timings), "onednn");
    CHECK_OK(ctx, choose(ctx, &s, preferred, NULL, &chosen, &graph));
    assert_non_null(strstr(text_string(&chosen), ":onednn "));
    text_t printed = text_begin(ctx);
    CHECK_OK(ctx, graph_print(ctx, graph, NULL, &printed));
    assert_non_null(strstr(text_string(&printed), " by \"onednn\""));
    text_clear(&printed);
    graph_release(graph);

    text_append(&line, "f32[1,64,28,28];%s\n%s", text_string(&chosen), preferred);
    CHECK_OK(ctx, plan_set_layouts(ctx, s.frozen, "forward", text_string(&line)));
    CHECK_OK(ctx, freeze_save(ctx, s.frozen, path));
    test_free(preferred);

    /* Loading needs no times, because it uses the kernels that the file names. */
    CHECK_OK(ctx, freeze_load(ctx, path, &loaded));
    text_t kept = text_begin(ctx);
    CHECK_OK(ctx, plan_layouts(ctx, loaded, "forward", &kept));
    assert_non_null(strstr(text_string(&kept), ":onednn "));
    text_clear(&kept);
    text_clear(&line);
    text_clear(&chosen);
    text_clear(&timings);
    tensor_release(y);
    module_release(loaded);
    subject_end(&s);
    unlink(path);
}

/* A file's choice of kernels is valid for one number of threads. */
static void a_files_choices_hold_for_its_number_of_threads_only(void **state)
{
    context_t *ctx = fixture_context(state);
    const int n_threads = context_threads(ctx);
    char path[] = "/tmp/tessera-tune-XXXXXX";
    const int file = mkstemp(path);
    text_t timings = text_begin(ctx), chosen = text_begin(ctx), line = text_begin(ctx);
    layout_tuning_t tuning = {.deadline = UINT64_MAX, .timings = &timings};
    graph_t *graph = NULL;
    module_t *here = NULL, *elsewhere = NULL;
    tensor_t *y = NULL;
    if (isa_best() == ISA_PORTABLE) return;
    assert_true(file >= 0);
    close(file);
    subject_t s = subject_begin(ctx, parameters, input, body);
    module_t *fresh = NULL;
    CHECK_OK(ctx, module_forward(ctx, s.net, s.in[0], &y));
    CHECK_OK(ctx, freeze(ctx, s.net, NULL, &fresh));
    CHECK_OK(ctx, choose(ctx, &s, NULL, &tuning, NULL, &graph));
    graph_release(graph);
    char *preferred = prefer(text_string(&timings), "onednn");
    CHECK_OK(ctx, choose(ctx, &s, preferred, NULL, &chosen, &graph));
    graph_release(graph);
    text_append(&line, "f32[1,64,28,28];%s\n%s", text_string(&chosen), preferred);
    CHECK_OK(ctx, plan_set_layouts(ctx, fresh, "forward", text_string(&line)));
    test_free(preferred);
    CHECK_OK(ctx, freeze_save(ctx, fresh, path));

    CHECK_OK(ctx, freeze_load(ctx, path, &here));
    run_and_compare(ctx, here, s.in[0], y, 1e-4);
    assert_int_equal(count_kernels(here, "onednn"), 3);
    CHECK_OK(ctx, context_set_threads(ctx, n_threads == 1 ? 2 : 1));
    CHECK_OK(ctx, freeze_load(ctx, path, &elsewhere));
    run_and_compare(ctx, elsewhere, s.in[0], y, 1e-4);
    assert_int_equal(count_kernels(elsewhere, "winograd_"), 2);
    CHECK_OK(ctx, context_set_threads(ctx, n_threads));
    text_clear(&line);
    text_clear(&chosen);
    text_clear(&timings);
    tensor_release(y);
    module_release(fresh);
    module_release(elsewhere);
    module_release(here);
    subject_end(&s);
    unlink(path);
}

static void note(void *user, const progress_t *progress)
{
    int64_t *seen = user;
    if (strcmp(progress->what, "measure operators") != 0) return;
    assert_true(progress->done == *seen + 1 && progress->done <= progress->total);
    *seen = progress->done;
}

static void tuning_keeps_results_and_its_time(void **state)
{
    context_t *ctx = fixture_context(state);
    subject_t s = subject_begin(ctx, parameters, input, body);
    tensor_t *y = NULL;
    freeze_tuned_t tuned = {0};
    int64_t n_seen = 0;
    progress_listen(ctx, note, &n_seen);
    CHECK_OK(ctx, module_forward(ctx, s.net, s.in[0], &y));
    const uint64_t begin = context_now();
    CHECK_OK(ctx, freeze_tune(ctx, s.frozen, 1, (const tensor_t *[]){s.in[0]}, 0.3, &tuned));
    assert_true((double)(context_now() - begin) < 10e9);
    progress_listen(ctx, NULL, NULL);
    assert_int_equal(tuned.n_measured, n_seen);
    assert_true(tuned.n_measured >= 1);
    assert_true(tuned.ratio > 0.0);
    if (tuned.is_kept) assert_true(tuned.ratio < 1.0);
    run_and_compare(ctx, s.frozen, s.in[0], y, 1e-4);
    text_t lines = text_begin(ctx);
    CHECK_OK(ctx, plan_layouts(ctx, s.frozen, "forward", &lines));
    assert_non_null(strstr(text_string(&lines), "f32[1,64,28,28];"));
    assert_int_equal(strstr(text_string(&lines), "#conv2d") != NULL, tuned.is_kept);
    text_clear(&lines);
    tensor_release(y);
    subject_end(&s);
}

/* Tuning makes up operands. Here are layers with two weights, and an integer quotient, which must
 * not divide by 0. */
static void tuning_makes_operands_that_nodes_can_run_on(void **state)
{
    context_t *ctx = fixture_context(state);
    for (int is_gru = 0; is_gru < 2; is_gru++) {
        module_t *layer = NULL, *frozen = NULL;
        tensor_t *x = NULL;
        CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(7, 1, 64), &x));
        CHECK_OK(ctx, (is_gru ? layer_gru : layer_lstm)(ctx, 64, 48, true, NULL, &layer));
        CHECK_OK(ctx, module_train(ctx, layer, false));
        const tensor_t *in[] = {x};
        CHECK_OK(ctx, graph_trace(ctx, layer, "forward", 1, in));
        CHECK_OK(ctx, freeze(ctx, layer, NULL, &frozen));
        CHECK_OK(ctx, freeze_tune(ctx, frozen, 1, in, 0.2, NULL));
        tensor_release(x);
        module_release(frozen);
        module_release(layer);
    }
    subject_t s = subject_begin(ctx, "", "%x : s32[2,16,8,8], %y : s32[2,8,8,16]",
                                "  %p = permute(%x) dims=[0,2,3,1]\n  %1 = remainder(%p, %y)\n"
                                "  %2 = remainder(%y, %p)\n  %3 = add(%1, %2)\n  return %3\n");
    tensor_t *x = NULL, *y = NULL;
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_S32, SHAPE(2, 16, 8, 8), 5.0, &x));
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_S32, SHAPE(2, 8, 8, 16), 3.0, &y));
    CHECK_OK(ctx, freeze_tune(ctx, s.frozen, 2, (const tensor_t *[]){x, y}, 0.2, NULL));
    tensor_release(x);
    tensor_release(y);
    subject_end(&s);
}

static void lines_of_other_sizes_stay(void **state)
{
    context_t *ctx = fixture_context(state);
    subject_t s = subject_begin(ctx, parameters, "%x : f32[N=1,64,28,28]", body);
    tensor_t *four = NULL;
    text_t lines = text_begin(ctx);
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(4, 64, 28, 28), &four));
    CHECK_OK(ctx, freeze_tune(ctx, s.frozen, 1, (const tensor_t *[]){s.in[0]}, 0.1, NULL));
    CHECK_OK(ctx, freeze_tune(ctx, s.frozen, 1, (const tensor_t *[]){four}, 0.1, NULL));
    CHECK_OK(ctx, plan_layouts(ctx, s.frozen, "forward", &lines));
    assert_non_null(strstr(text_string(&lines), "f32[1,64,28,28];"));
    assert_non_null(strstr(text_string(&lines), "f32[4,64,28,28];"));
    text_clear(&lines);
    tensor_release(four);
    subject_end(&s);
}

/* A median slightly below the limit does not count as faster, because noise can cause it. */
static void only_what_is_clearly_faster_counts(void **state)
{
    static const struct {
        double ratios[9];
        int n;
        double median;
        bool is_faster;
    } cases[] = {{{0.9, 0.8, 0.91, 0.95, 0.92}, 5, 0.91, true},
                 {{0.9, 0.8, 0.91, 1.2, 0.92}, 5, 0.91, false},
                 {{0.995, 0.995, 0.995, 0.995, 0.995}, 5, 0.995, false},
                 {{0.98, 1.3, 0.97, 1.1, 0.98, 0.98, 0.97, 0.96, 1.2}, 9, 0.98, false},
                 {{0.98, 1.3, 0.97, 0.97, 0.98, 0.98, 0.97, 0.96, 0.98}, 9, 0.98, true}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double ratios[9], median = 0.0;
        memcpy(ratios, cases[i].ratios, sizeof ratios);
        assert_int_equal(plan_tune_is_faster(cases[i].n, ratios, &median), cases[i].is_faster);
        assert_true(median == cases[i].median);
    }
}

static void tuning_reports_nodes_that_it_cannot_run(void **state)
{
    context_t *ctx = fixture_context(state);
    subject_t s = subject_begin(ctx, parameters, input, body);
    const tensor_t *in[] = {s.in[0]};
    CHECK_FAILS(ctx, freeze_tune(ctx, s.frozen, 1, in, 0.0, NULL), STATUS_INVALID_ARGUMENT,
                "freeze_tune: 0 seconds, must be more than 0 and at most 1e6");
    CHECK_FAILS(ctx, freeze_tune(ctx, s.frozen, 1, in, (double)NAN, NULL), STATUS_INVALID_ARGUMENT,
                "seconds, must be more than 0 and at most 1e6");
    CHECK_FAILS(ctx, freeze_tune(ctx, s.net, 1, in, 0.1, NULL), STATUS_INVALID_ARGUMENT,
                "is not frozen, freeze it first");
    CHECK_FAILS(ctx, freeze_tune(ctx, s.frozen, 0, NULL, 0.1, NULL), STATUS_INVALID_ARGUMENT, "");
    CHECK_FAILS(ctx, freeze_tune(ctx, s.frozen, -1, NULL, 0.1, NULL), STATUS_INVALID_ARGUMENT,
                "freeze_tune: -1 inputs, must be at least 0");
    subject_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(measured_times_choose_kernels_and_files_keep_them),
        TEST(a_files_choices_hold_for_its_number_of_threads_only),
        TEST(tuning_keeps_results_and_its_time),
        TEST(tuning_makes_operands_that_nodes_can_run_on),
        TEST(lines_of_other_sizes_stay),
        TEST(only_what_is_clearly_faster_counts),
        TEST(tuning_reports_nodes_that_it_cannot_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
