/* Winograd in frozen modules: the sum of errors stays in the bound, and what files contain. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "graph/ir/graph.h"
#include "graph/program/plan.h"
#include "kernels/isa_impl.h"
#include "tests/support/nets/subject.h"

static const char parameters[] = "a=64,64,3,3 b=64,64,3,3 c=64,64,3,3";
static const char input[] = "%x : f32[1,64,28,28]";
static const char body[] = "  %1 = conv2d(%x, %a, none) padding=[1,1]\n  %2 = relu(%1)\n"
                           "  %3 = conv2d(%2, %b, none) padding=[1,1]\n  %4 = relu(%3)\n"
                           "  %5 = conv2d(%4, %c, none) padding=[1,1]\n  return %5\n";
/* The second of three convolutions has stride 2. */
static const char strided_parameters[] = "a=192,64,3,3 b=192,192,3,3 c=64,192,3,3";
static const char strided_body[] = "  %1 = conv2d(%x, %a, none) padding=[1,1]\n  %2 = relu(%1)\n"
                                   "  %3 = conv2d(%2, %b, none) stride=[2,2] padding=[1,1]\n"
                                   "  %4 = relu(%3)\n"
                                   "  %5 = conv2d(%4, %c, none) padding=[1,1]\n  return %5\n";

static int count(const char *text, const char *part)
{
    int n = 0;
    for (const char *at = strstr(text, part); at != NULL; at = strstr(at + 1, part)) n++;
    return n;
}

/* Counts convolutions that may use Winograd with tiles of up to 2, 4 and 6. */
static void count_allowed(context_t *ctx, module_t *net, const freeze_options_t *options, int *out)
{
    static const char *const names[] = {"algorithm=\"winograd_up_to_2\"", "algorithm=\"winograd\"",
                                        "algorithm=\"winograd_up_to_6\""};
    module_t *frozen = NULL;
    text_t text = text_begin(ctx);
    CHECK_OK(ctx, freeze(ctx, net, options, &frozen));
    CHECK_OK(ctx, freeze_optimize(ctx, frozen, options)); /* optimising again changes nothing */
    CHECK_OK(ctx, graph_print(ctx, graph_of(frozen, "forward"), NULL, &text));
    for (int i = 0; i < 3; i++) out[i] = count(text_string(&text), names[i]);
    text_clear(&text);
    module_release(frozen);
}

static void check_allowed(context_t *ctx, module_t *net, const freeze_options_t *options, int of_2,
                          int of_4, int of_6)
{
    int n[3];
    count_allowed(ctx, net, options, n);
    if (n[0] != of_2 || n[1] != of_4 || n[2] != of_6)
        fail_msg("%d %d %d with bound %g, wanted %d %d %d", n[0], n[1], n[2],
                 options != NULL ? options->rounding_error : 0.0, of_2, of_4, of_6);
}

static void the_sum_of_errors_stays_in_the_bound(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = subject_net(ctx, parameters, input, body);
    check_allowed(ctx, net, NULL, 0, 0, 3);
    check_allowed(ctx, net, &(freeze_options_t){.rounding_error = 1.0}, 0, 0, 3);
    check_allowed(ctx, net, &(freeze_options_t){.rounding_error = 1e-9}, 0, 0, 0);
    check_allowed(ctx, net, &(freeze_options_t){.has_rounding_error = true}, 0, 0, 0);
    check_allowed(ctx, net, &(freeze_options_t){.rounding_error = 0.0}, 0, 0, 3);
    check_allowed(ctx, net, &(freeze_options_t){.keep_numerics = true}, 0, 0, 0);
    int before = 0, levels = 0;
    for (double bound = 1e-7; bound < 1e-3; bound *= 1.3) {
        int n[3];
        count_allowed(ctx, net, &(freeze_options_t){.rounding_error = bound}, n);
        const int sum = n[0] + 2 * n[1] + 3 * n[2];
        assert_true(sum >= before);
        levels += sum > before;
        before = sum;
    }
    assert_int_equal(before, 9);
    assert_true(levels >= 4);
    module_release(net);
}

static void a_bound_below_zero_is_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = subject_net(ctx, parameters, input, body), *frozen = NULL;
    const freeze_options_t options = {.rounding_error = -1};
    CHECK_FAILS(ctx, freeze(ctx, net, &options, &frozen), STATUS_INVALID_ARGUMENT,
                "freeze: rounding_error -1, must be at least 0");
    CHECK_OK(ctx, freeze(ctx, net, NULL, &frozen));
    CHECK_FAILS(ctx, freeze_optimize(ctx, frozen, &options), STATUS_INVALID_ARGUMENT,
                "freeze_optimize: rounding_error -1, must be at least 0");
    module_release(frozen);
    module_release(net);
}

static int count_winograd(const module_t *frozen)
{
    const plan_t *plan = plan_of(frozen, "forward");
    int n = 0;
    for (int i = 0; i < plan_n_steps(plan); i++)
        n += strcmp(plan_step(plan, i)->name, "conv2d") == 0 &&
             strncmp(prepared_implementation(plan_step(plan, i)->prepared), "winograd_", 9) == 0;
    return n;
}

static void check_file(context_t *ctx, const char *of_parameters, const char *of_body,
                       double n_weights)
{
    char path[] = "/tmp/tessera-winograd-XXXXXX";
    int file = mkstemp(path);
    struct stat status;
    tensor_t *y = NULL, *again = NULL;
    module_t *loaded = NULL;
    assert_true(file >= 0);
    close(file);
    subject_t s = subject_begin(ctx, of_parameters, input, of_body);
    CHECK_OK(ctx, module_forward(ctx, s.frozen, s.in[0], &y));
    if (isa_best() != ISA_PORTABLE) assert_int_equal(count_winograd(s.frozen), 3);
    CHECK_OK(ctx, freeze_save(ctx, s.frozen, path));
    assert_int_equal(stat(path, &status), 0);
    assert_true((double)status.st_size < 1.1 * n_weights * sizeof(float));
    CHECK_OK(ctx, freeze_load(ctx, path, &loaded));
    CHECK_OK(ctx, module_forward(ctx, loaded, s.in[0], &again));
    assert_int_equal(count_winograd(loaded), count_winograd(s.frozen));
    const size_t n = (size_t)tensor_numel(y) * sizeof(float);
    char *first = test_malloc(n), *second = test_malloc(n);
    CHECK_OK(ctx, tensor_read(ctx, y, first, n));
    CHECK_OK(ctx, tensor_read(ctx, again, second, n));
    assert_memory_equal(first, second, n);
    test_free(first);
    test_free(second);
    tensor_release(y);
    tensor_release(again);
    module_release(loaded);
    subject_end(&s);
    remove(path);
}

/* The file has the original weights; loading transforms them. */
static void a_file_is_hardly_larger_than_its_weights(void **state)
{
    check_file(fixture_context(state), parameters, body, 3 * 64 * 64 * 9);
    check_file(fixture_context(state), strided_parameters, strided_body,
               (192 * 64 + 192 * 192 + 64 * 192) * 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_sum_of_errors_stays_in_the_bound),
        TEST(a_bound_below_zero_is_refused),
        TEST(a_file_is_hardly_larger_than_its_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
