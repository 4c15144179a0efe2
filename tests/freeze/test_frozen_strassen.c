/* Strassen's algorithm in frozen modules: which layers may use it, how the error bound limits it,
 * and the results. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "graph/ir/graph.h"
#include "graph/program/plan.h"
#include "kernels/isa_impl.h"
#include "ops/conv/conv_winograd_impl.h"
#include "ops/linear/strassen_impl.h"
#include "ops/recurrent/recurrent_impl.h"
#include "tensor/tensor_impl.h"
#include "tests/support/nets/subject.h"

static int count_text(context_t *ctx, const module_t *frozen, const char *part)
{
    text_t text = text_begin(ctx);
    int n = 0;
    CHECK_OK(ctx, graph_print(ctx, graph_of(frozen, "forward"), NULL, &text));
    for (const char *at = strstr(text_string(&text), part); at != NULL; at = strstr(at + 1, part))
        n++;
    text_clear(&text);
    return n;
}

/* Counts layers of the frozen graph that may use Strassen's algorithm. */
static int count_allowed(context_t *ctx, module_t *net, const freeze_options_t *options)
{
    module_t *frozen = NULL;
    CHECK_OK(ctx, freeze(ctx, net, options, &frozen));
    const int n = count_text(ctx, frozen, "algorithm=\"strassen\"");
    CHECK_OK(ctx, freeze_optimize(ctx, frozen, options)); /* optimising again changes nothing */
    assert_int_equal(count_text(ctx, frozen, "algorithm=\"strassen\""), n);
    module_release(frozen);
    return n;
}

/* Counts steps of the plan that use Strassen's algorithm. */
static int count_run(const module_t *frozen)
{
    const plan_t *plan = plan_of(frozen, "forward");
    int n = 0;
    for (int i = 0; i < plan_n_steps(plan); i++) {
        const prepared_t *prepared = plan_step(plan, i)->prepared;
        n += prepared != NULL && strcmp(prepared_kernel(prepared), "strassen") == 0;
    }
    return n;
}

/* Tests linear layers. The conformance tests cover convolutions, because there weights need not be
 * constant. */
static void the_kernel_that_is_asked_for_gives_the_values(void **state)
{
    static const struct {
        const char *parameters, *inputs, *body;
    } cases[] = {
        {"w=64,32 b=64", "%x : f32[17,32]",
         "  %1 = linear(%x, %w, %b) algorithm=\"strassen_only\"\n  %2 = gelu(%1)\n"},
        {"w=128,96 b=128", "%x : f32[2,31,96], %r : f32[2,31,128]",
         "  %1 = linear(%x, %w, %b) algorithm=\"strassen_only\"\n  %2 = add(%1, %r)\n"},
        {"w=192,64 b=192", "%x : f32[33,64], %r : f32[33,192]",
         "  %1 = linear(%x, %w, none) algorithm=\"strassen_only\"\n  %3 = silu(%1)\n"
         "  %2 = mul(%3, %r)\n"},
        {"w=64,1056 b=64", "%x : f32[1,197,1056]",
         "  %1 = linear(%x, %w, %b) algorithm=\"strassen_only\"\n"
         "  %2 = clamp(%1) min=-1.0 max=0.5\n"},
    };
    context_t *ctx = fixture_context(state);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[256];
        snprintf(body, sizeof body, "%s  return %%2\n", cases[i].body);
        subject_t s = subject_begin(ctx, cases[i].parameters, cases[i].inputs, body);
        subject_check_values(&s);
        if (count_run(s.frozen) != (isa_best() == ISA_PORTABLE ? 0 : 1))
            fail_msg("%s%s", cases[i].body, text_string(&s.text));
        subject_end(&s);
    }
}

/* Checks that n operators of this net may use Strassen's algorithm. */
static void check_allowed(context_t *ctx, const char *parameters, const char *input,
                          const char *body, int n)
{
    module_t *net = subject_net(ctx, parameters, input, body);
    if (count_allowed(ctx, net, NULL) != n) fail_msg("%s by %s\n%s", input, parameters, body);
    module_release(net);
}

static void layers_of_many_rows_and_whole_halves_may(void **state)
{
    static const struct {
        const char *parameters, *input, *body;
        int n;
    } cases[] = {
        {"w=64,32", "%x : f32[32,32]", "  %1 = linear(%x, %w, none)\n", 1},
        {"w=64,32", "%x : f32[2,16,32]", "  %1 = linear(%x, %w, none)\n", 1},
        {"w=64,32", "%x : f32[31,32]", "  %1 = linear(%x, %w, none)\n", 0},
        {"w=96,32", "%x : f32[32,32]", "  %1 = linear(%x, %w, none)\n", 0},
        {"w=64,48", "%x : f32[32,48]", "  %1 = linear(%x, %w, none)\n", 0},
        {"w=64,32,1,1", "%x : f32[1,32,8,4]", "  %1 = conv2d(%x, %w, none)\n", 1},
        {"w=64,32,1,1", "%x : f32[1,32,12,12]", "  %1 = conv2d(%x, %w, none) stride=[2,2]\n", 1},
        {"w=64,32,1,1", "%x : f32[9,32,5,5]", "  %1 = conv2d(%x, %w, none)\n", 0},
        {"w=64,32,1,1", "%x : f32[1,64,8,8]", "  %1 = conv2d(%x, %w, none) groups=2\n", 0},
        {"w=64,32,1,2", "%x : f32[1,32,8,8]", "  %1 = conv2d(%x, %w, none)\n", 0},
    };
    context_t *ctx = fixture_context(state);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[256];
        snprintf(body, sizeof body, "%s  return %%1\n", cases[i].body);
        check_allowed(ctx, cases[i].parameters, cases[i].input, body, cases[i].n);
    }
}

static void the_bound_and_numerics_decide(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = subject_net(ctx, "w=128,256", "%x : f32[64,256]",
                                "  %1 = linear(%x, %w, none)\n  return %1\n");
    const char *const skip[] = {"bound_errors", NULL};
    const tensor_t *weight = module_parameter(net, "w");
    double error = 0.0;
    CHECK_OK(ctx, strassen_error(ctx, 128, 256, tensor_bytes(weight), &error));
    assert_true(error > 1e-7 && error < 1e-5); /* several times the rounding of 256 products */
    assert_int_equal(count_allowed(ctx, net, NULL), 1);
    assert_int_equal(count_allowed(ctx, net, &(freeze_options_t){.keep_numerics = true}), 0);
    assert_int_equal(count_allowed(ctx, net, &(freeze_options_t){.skip = skip}), 0);
    assert_int_equal(count_allowed(ctx, net, &(freeze_options_t){.rounding_error = error * 1.01}),
                     1);
    assert_int_equal(count_allowed(ctx, net, &(freeze_options_t){.rounding_error = error * 0.99}),
                     0);
    module_release(net);
}

/* Winograd saves more time relative to its error, so it uses up the error bound first. */
static void winograd_has_the_bound_first(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = subject_net(ctx, "k=64,64,3,3 w=64,64,1,1", "%x : f32[1,64,28,28]",
                                "  %1 = conv2d(%x, %k, none) padding=[1,1]\n"
                                "  %2 = conv2d(%1, %w, none)\n  return %2\n");
    const tensor_t *kernel = module_parameter(net, "k"), *weight = module_parameter(net, "w");
    double of_winograd = 0.0, of_strassen = 0.0;
    CHECK_OK(ctx, conv_winograd_error(ctx, tensor_info(kernel), tensor_bytes(kernel), 1, 6,
                                      &of_winograd));
    CHECK_OK(ctx, strassen_error(ctx, 64, 64, tensor_bytes(weight), &of_strassen));
    assert_true(of_strassen < of_winograd); /* by the error alone, Strassen would be first */
    for (int n = 0; n < 2; n++) {
        const double bound = of_winograd + of_strassen * (n == 0 ? 0.99 : 1.01);
        const freeze_options_t options = {.rounding_error = bound};
        module_t *frozen = NULL;
        CHECK_OK(ctx, freeze(ctx, net, &options, &frozen));
        assert_int_equal(count_text(ctx, frozen, "algorithm=\"winograd_up_to_6\""), 1);
        assert_int_equal(count_text(ctx, frozen, "algorithm=\"strassen\""), n);
        module_release(frozen);
    }
    module_release(net);
}

/* Weights that are not finite have an infinite error, which no bound allows. */
static void the_error_is_that_of_the_weight(void **state)
{
    enum { OUTPUTS = 128, INPUTS = 64 };
    static float weight[OUTPUTS * INPUTS];
    context_t *ctx = fixture_context(state);
    double even = 0.0, infinite = 0.0;
    for (int i = 0; i < OUTPUTS * INPUTS; i++) weight[i] = (float)(i * 37 % 101) / 50.0f - 1.0f;
    CHECK_OK(ctx, strassen_error(ctx, OUTPUTS, INPUTS, weight, &even));
    assert_true(even > 1e-8 && even < 1e-5);
    for (int i = 0; i < OUTPUTS; i++) { /* also for outputs that the estimate does not sample */
        weight[i * INPUTS + i % INPUTS] = i % 2 == 0 ? (float)INFINITY : (float)NAN;
        CHECK_OK(ctx, strassen_error(ctx, OUTPUTS, INPUTS, weight, &infinite));
        assert_true(isinf(infinite));
        weight[i * INPUTS + i % INPUTS] = 0.0f;
    }
}

static void save_and_load(context_t *ctx, module_t *frozen, module_t **out_loaded)
{
    char path[] = "/tmp/tessera-strassen-XXXXXX";
    const int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    CHECK_OK(ctx, freeze_save(ctx, frozen, path));
    CHECK_OK(ctx, freeze_load(ctx, path, out_loaded));
    unlink(path);
}

/* With vectors of 16, Strassen is faster for a transformer's and a ResNet's layer. A loaded file
 * must run like the saved module. */
static void large_layers_run_by_it_where_it_is_faster(void **state)
{
    static const struct {
        const char *parameters, *input, *body;
    } cases[] = {
        {"w=1024,512", "%x : f32[1,128,512]", "  %1 = linear(%x, %w, none)\n  return %1\n"},
        {"k=256,3,1,1 w=1024,256,1,1", "%x : f32[1,3,14,14]",
         "  %2 = conv2d(%x, %k, none)\n  %1 = conv2d(%2, %w, none)\n  return %1\n"}};
    context_t *ctx = fixture_context(state);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        subject_t s = subject_begin(ctx, cases[i].parameters, cases[i].input, cases[i].body);
        const int n = isa_best() == ISA_AVX512 ? 1 : 0;
        module_t *loaded = NULL;
        subject_check_values(&s);
        assert_int_equal(count_run(s.frozen), n);
        save_and_load(ctx, s.frozen, &loaded);
        tensor_t *y = NULL, *again = NULL;
        CHECK_OK(ctx, module_forward(ctx, s.frozen, s.in[0], &y));
        CHECK_OK(ctx, module_forward(ctx, loaded, s.in[0], &again));
        assert_int_equal(count_run(loaded), n);
        assert_memory_equal(tensor_bytes(y), tensor_bytes(again),
                            (size_t)tensor_numel(y) * sizeof(float));
        tensor_release(y);
        tensor_release(again);
        module_release(loaded);
        subject_end(&s);
    }
}

/* ---- lstm ---- */

#define LSTM "%1, %2, %3 = lstm(%x, %wi, %wh, %bi, %bh, none, none, none, none)"

/* Tries odd and even numbers of sequences, and both directions. A second run must return the same
 * bytes. */
static void lstm_gives_the_values_by_it(void **state)
{
    static const struct {
        const char *parameters, *input, *body;
        int n;
    } cases[] = {
        {"wi=256,32 wh=256,64 bi=256 bh=256", "%x : f32[5,1,32]",
         "  " LSTM " algorithm=\"strassen_only\"\n  return %1\n", 1},
        {"wi=256,96 wh=256,64 bi=256 bh=256", "%x : f32[4,7,96]",
         "  " LSTM " algorithm=\"strassen_only\"\n  return %3\n", 1},
        {"wi=256,64 wh=256,64 bi=256 bh=256", "%x : f32[16,6,64]",
         "  " LSTM " batch_first=true algorithm=\"strassen_only\"\n  return %1\n", 1},
        {"wi=128,32 wh=128,32 bi=128 bh=128", "%x : f32[3,17,32]",
         "  " LSTM " algorithm=\"strassen_only\"\n"
         "  %4, %5, %6 = lstm(%x, %wi, %wh, none, none, none, none, none, none) reverse=true "
         "algorithm=\"strassen_only\"\n  %7 = concat(%1, %4) dim=2\n  return %7\n",
         2}};
    context_t *ctx = fixture_context(state);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        subject_t s = subject_begin(ctx, cases[i].parameters, cases[i].input, cases[i].body);
        tensor_t *y[2] = {NULL};
        subject_check_values(&s);
        for (int k = 0; k < 2; k++) CHECK_OK(ctx, module_forward(ctx, s.frozen, s.in[0], &y[k]));
        assert_memory_equal(tensor_bytes(y[0]), tensor_bytes(y[1]),
                            (size_t)tensor_numel(y[0]) * sizeof(float));
        if (count_run(s.frozen) != cases[i].n)
            fail_msg("%s%s", cases[i].body, text_string(&s.text));
        for (int k = 0; k < 2; k++) tensor_release(y[k]);
        subject_end(&s);
    }
}

static void lstm_of_many_sequences_may(void **state)
{
    static const struct {
        const char *parameters, *input, *attrs;
        int n;
    } cases[] = {
        {"wi=128,32 wh=128,32 bi=128 bh=128", "%x : f32[3,12,32]", "", 1},
        {"wi=128,32 wh=128,32 bi=128 bh=128", "%x : f32[12,3,32]", " batch_first=true", 1},
        {"wi=128,32 wh=128,32 bi=128 bh=128", "%x : f32[12,3,32]", "", 0},
        {"wi=128,48 wh=128,32 bi=128 bh=128", "%x : f32[3,12,48]", "", 0},
        {"wi=192,32 wh=192,48 bi=192 bh=192", "%x : f32[3,12,32]", "", 0},
        {"wi=128,32 wh=128,32 bi=128 bh=128", "%x : f32[3,12,32]", " clip=1.0", 0},
        {"wi=128,32 wh=128,32 bi=128 bh=128", "%x : f32[3,12,32]", " output=\"relu\"", 0},
    };
    context_t *ctx = fixture_context(state);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[256];
        snprintf(body, sizeof body, "  %s%s\n  return %%1\n", LSTM, cases[i].attrs);
        check_allowed(ctx, cases[i].parameters, cases[i].input, body, cases[i].n);
    }
}

static double error_of(context_t *ctx, const module_t *net, const recurrent_sizes_t *sizes)
{
    static const char *const names[] = {"wi", "wh", "bi", "bh"};
    const float *plain[4];
    double error = 0.0;
    for (int i = 0; i < 4; i++) plain[i] = tensor_bytes(module_parameter(net, names[i]));
    const recurrent_plain_t weights = {plain[0], plain[1], plain[2], plain[3], NULL};
    CHECK_OK(ctx, recurrent_strassen_error(ctx, sizes, &weights, &error));
    return error;
}

static void the_bound_and_numerics_decide_about_lstm(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = subject_net(ctx, "wi=512,64 wh=512,128 bi=512 bh=512", "%x : f32[6,16,64]",
                                "  " LSTM "\n  return %1\n");
    recurrent_sizes_t sizes = {.t = 6, .n = 16, .c = 64, .h = 128, .g = 4};
    const double error = error_of(ctx, net, &sizes);
    assert_true(error > 1e-7 && error < 3e-5);
    assert_int_equal(count_allowed(ctx, net, &(freeze_options_t){.keep_numerics = true}), 0);
    assert_int_equal(count_allowed(ctx, net, &(freeze_options_t){.rounding_error = error * 1.01}),
                     1);
    assert_int_equal(count_allowed(ctx, net, &(freeze_options_t){.rounding_error = error * 0.99}),
                     0);
    sizes.t = 1;
    assert_true(error_of(ctx, net, &sizes) < error); /* more time steps increase the error */
    float *weight = NULL;
    CHECK_OK(ctx, tensor_writable(ctx, module_parameter(net, "wh"), (void **)&weight));
    weight[512 * 128 - 1] = NAN;
    assert_true(isinf(error_of(ctx, net, &sizes)));
    module_release(net);
}

/* Weights are as small as those of a new layer. A loaded file must run like the saved module. */
static void lstm_runs_by_it_from_a_file(void **state)
{
    static const char *const names[] = {"wi", "wh", "bi", "bh"};
    context_t *ctx = fixture_context(state);
    module_t *net = subject_net(ctx, "wi=512,64 wh=512,128 bi=512 bh=512", "%x : f32[40,16,64]",
                                "  " LSTM "\n  return %1\n");
    const int n = isa_best() == ISA_AVX512 ? 1 : 0;
    module_t *frozen = NULL, *loaded = NULL;
    tensor_t *x = NULL, *y[3] = {NULL};
    for (int i = 0; i < 4; i++) {
        tensor_t *parameter = module_parameter(net, names[i]);
        float *elements = NULL;
        CHECK_OK(ctx, tensor_writable(ctx, parameter, (void **)&elements));
        for (int64_t k = 0; k < tensor_numel(parameter); k++) elements[k] *= 0.09f;
    }
    CHECK_OK(ctx, tensor_rand(ctx, DTYPE_F32, SHAPE(40, 16, 64), &x));
    CHECK_OK(ctx, freeze(ctx, net, NULL, &frozen));
    save_and_load(ctx, frozen, &loaded);
    CHECK_OK(ctx, module_forward(ctx, net, x, &y[0]));
    CHECK_OK(ctx, module_forward(ctx, frozen, x, &y[1]));
    CHECK_OK(ctx, module_forward(ctx, loaded, x, &y[2]));
    assert_int_equal(count_run(frozen), n);
    assert_int_equal(count_run(loaded), n);
    const float *plain = tensor_bytes(y[0]), *by_it = tensor_bytes(y[1]);
    for (int64_t k = 0; k < tensor_numel(y[0]); k++)
        assert_true(fabsf(plain[k] - by_it[k]) < 5e-6f);
    assert_memory_equal(by_it, tensor_bytes(y[2]), (size_t)tensor_numel(y[1]) * sizeof(float));
    for (int k = 0; k < 3; k++) tensor_release(y[k]);
    tensor_release(x);
    module_release(loaded);
    module_release(frozen);
    module_release(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(the_kernel_that_is_asked_for_gives_the_values),
                                       TEST(layers_of_many_rows_and_whole_halves_may),
                                       TEST(the_bound_and_numerics_decide),
                                       TEST(winograd_has_the_bound_first),
                                       TEST(the_error_is_that_of_the_weight),
                                       TEST(large_layers_run_by_it_where_it_is_faster),
                                       TEST(lstm_gives_the_values_by_it),
                                       TEST(lstm_of_many_sequences_may),
                                       TEST(the_bound_and_numerics_decide_about_lstm),
                                       TEST(lstm_runs_by_it_from_a_file)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
