/* If only a 1x1 convolution reads a batch norm and formats are blocked, the two are fused. Results
 * do not change. */
#include "graph/passes/pass.h"

#include <stdio.h>
#include <string.h>

#include "graph/ir/graph.h"
#include "kernels/isa_impl.h"
#include "tests/support/support.h"

#define NORM "%n = batch_norm(%c, %s, %t, %m, %v) epsilon=0.001"
#define HEAD                                                                                       \
    "graph f(%x : f32[2,64,9,8], %k : f32[128,64,3,3], %s : f32[128], %t : f32[128], "             \
    "%m : f32[128], %v : f32[128], %w : f32[32,128,1,1], %b : f32[32]) {\n"                        \
    "  %c = conv2d(%x, %k, none) padding=[1,1]\n"

/* Runs the plan's passes; returns the text and the first result. */
static void run(context_t *ctx, const char *text, const char *skip, text_t *out_text,
                tensor_t **out)
{
    static const int64_t sizes[][4] = {{2, 64, 9, 8}, {128, 64, 3, 3}, {128},           {128},
                                       {128},         {128},           {32, 128, 1, 1}, {32}};
    static const int ranks[] = {4, 4, 1, 1, 1, 1, 4, 1};
    enum { N = sizeof ranks / sizeof *ranks };
    const char *const skipped[] = {skip, NULL};
    const pass_options_t options = {.skip = skip != NULL ? skipped : NULL};
    graph_t *graph = NULL, *result = NULL;
    datum_t *in[N], *made[2] = {NULL};
    int n_out = 2;
    context_seed(ctx, 7);
    for (int i = 0; i < N; i++) {
        tensor_t *tensor = NULL;
        CHECK_OK(ctx, i == 5 ? tensor_rand(ctx, DTYPE_F32, ranks[i], sizes[i], &tensor)
                             : tensor_randn(ctx, DTYPE_F32, ranks[i], sizes[i], &tensor));
        CHECK_OK(ctx, datum_tensor(ctx, tensor, &in[i]));
        tensor_release(tensor);
    }
    CHECK_OK(ctx, graph_parse(ctx, text, NULL, &graph));
    CHECK_OK(ctx, pass_run(ctx, graph, pass_pipeline_plan(), &options, &result));
    *out_text = text_begin(ctx);
    CHECK_OK(ctx, graph_print(ctx, result, NULL, out_text));
    CHECK_OK(ctx, graph_run(ctx, result, NULL, N, in, &n_out, made));
    *out = tensor_retain(datum_as_tensor(made[0]));
    for (int i = 0; i < n_out; i++) datum_release(made[i]);
    for (int i = 0; i < N; i++) datum_release(in[i]);
    graph_release(graph);
    graph_release(result);
}

static int count(const text_t *text, const char *word)
{
    int n = 0;
    for (const char *at = text_string(text); (at = strstr(at, word)) != NULL; at++) n++;
    return n;
}

/* Compares results with and without the pass. `wanted` norms must be fused. */
static void compare(void **state, const char *text, int wanted)
{
    context_t *ctx = fixture_context(state);
    text_t fused, apart;
    tensor_t *of_fused = NULL, *of_apart = NULL;
    double difference = 1.0;
    run(ctx, text, NULL, &fused, &of_fused);
    run(ctx, text, "fuse_norm_conv", &apart, &of_apart);
    assert_int_equal(count(&apart, "batch_norm_conv2d("), 0);
    /* Portable kernels use no blocked formats, so the pass does nothing. */
    if (isa_best() != ISA_PORTABLE) {
        assert_int_equal(count(&fused, "batch_norm_conv2d("), wanted);
        assert_int_equal(count(&fused, "batch_norm("), count(&apart, "batch_norm(") - wanted);
    }
    CHECK_OK(ctx, tensor_max_rel_diff(ctx, of_fused, of_apart, &difference));
    assert_true(difference < 1e-4); /* sums are in the hundreds, most results at most 6 */
    text_clear(&fused);
    text_clear(&apart);
    tensor_release(of_fused);
    tensor_release(of_apart);
}

static void a_norm_is_computed_as_the_convolution_reads(void **state)
{
    compare(state, HEAD "  " NORM " post=[\"relu\"]\n  %y = conv2d(%n, %w, %b)\n  return %y\n}\n",
            1);
    compare(state,
            HEAD "  " NORM "\n  %y = conv2d(%n, %w, none) post=[\"clamp(0,6)\"]\n  return %y\n}\n",
            1);
    compare(state,
            HEAD "  " NORM " post=[\"clamp(0,6)\"]\n  %y = conv2d(%n, %w, none)\n  return %y\n}\n",
            1);
}

static void norms_with_other_readers_or_without_a_kernel_stay(void **state)
{
    /* something else reads the norm */
    compare(state,
            HEAD "  " NORM "\n  %y = conv2d(%n, %w, %b)\n  %z = sum(%n) dims=[1,2,3]\n"
                 "  return %y, %z\n}\n",
            0);
    /* the kernel cannot compute this activation */
    compare(state, HEAD "  " NORM " post=[\"tanh\"]\n  %y = conv2d(%n, %w, %b)\n  return %y\n}\n",
            0);
    /* the convolution has a stride */
    compare(state, HEAD "  " NORM "\n  %y = conv2d(%n, %w, %b) stride=[2,2]\n  return %y\n}\n", 0);
    /* a tanh stands between the two */
    compare(state,
            HEAD "  " NORM "\n  %z = tanh(%c)\n  %y = conv2d(%n, %w, %b)\n  return %y, %z\n}\n", 0);
}

/* A reorder has changed the norm's input to `formats`; the kernel accepts blocked ones only. */
static void a_norm_of_what_was_reordered_stays(void **state)
{
    static const char *const names[] = {"fuse_norm_conv", NULL};
    static const char *const formats[] = {"abcd", "aBcd16b"};
    context_t *ctx = fixture_context(state);
    for (int i = 0; i < 2; i++) {
        char source[700];
        graph_t *graph = NULL, *result = NULL;
        text_t text = text_begin(ctx);
        snprintf(source, sizeof source,
                 "graph f(%%x : f32[2,128,9,8]@%s, %%s : f32[128], %%t : f32[128], "
                 "%%m : f32[128], %%v : f32[128], %%w : f32[32,128,1,1], %%b : f32[32]) {\n%s"
                 "  %%n = batch_norm(%%%s, %%s, %%t, %%m, %%v) : f32[2,128,9,8]@aBcd16b\n"
                 "  %%y = conv2d(%%n, %%w, %%b) : f32[2,32,9,8]@aBcd16b\n  return %%y\n}\n",
                 formats[i],
                 i == 0 ? "  %r = reorder(%x) format=\"aBcd16b\" : f32[2,128,9,8]@aBcd16b\n" : "",
                 i == 0 ? "r" : "x");
        CHECK_OK(ctx, graph_parse(ctx, source, NULL, &graph));
        CHECK_OK(ctx, pass_run(ctx, graph, names, NULL, &result));
        CHECK_OK(ctx, graph_print(ctx, result, NULL, &text));
        assert_int_equal(count(&text, "batch_norm_conv2d("), i == 1 && isa_best() == ISA_AVX512);
        text_clear(&text);
        graph_release(graph);
        graph_release(result);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(a_norm_is_computed_as_the_convolution_reads),
                                       TEST(norms_with_other_readers_or_without_a_kernel_stay),
                                       TEST(a_norm_of_what_was_reordered_stays)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
