/* Frozen modules convert few tensors to and from blocked formats, and none between operators that
 * support them. The names are those of PyTorch's TestFrozenOptimizations. */
#include <stdio.h>
#include <string.h>

#include "graph/program/plan.h"
#include "tests/support/nets/subject.h"

static const int channels[] = {1, 3, 7, 16, 17, 31};
enum { N_CHANNELS = sizeof channels / sizeof *channels };

static void conv_to_mkldnn(void **state)
{
    context_t *ctx = fixture_context(state);
    subject_t s = subject_begin(ctx, "w=16,16,3,3 b=16", "%x : f32[1,16,8,8]",
                                "  %1 = conv2d(%x, %w, %b) padding=[1,1]\n  return %1\n");
    text_t text = text_begin(ctx);
    CHECK_OK(ctx, graph_print(ctx, graph_of(s.net, "forward"), NULL, &text));
    assert_null(strstr(text_string(&text), "to_mkldnn")); /* before freezing there are none */
    assert_null(strstr(text_string(&text), "@"));
    text_clear(&text);
    assert_true(subject_count(&s, "@") > 0);
    subject_check_values(&s);
    subject_check_borders(&s, 1);
    subject_end(&s);
}

/* Tessera always has oneDNN, so a dtype that oneDNN does not support replaces PyTorch's build
 * without it. */
static void conv_to_mkldnn_no_mkldnn(void **state)
{
    context_t *ctx = fixture_context(state);
    subject_t s = subject_begin(ctx, "", "%x : f64[1,4,8,8], %w : f64[3,4,3,3]",
                                "  %1 = conv2d(%x, %w, none)\n  %2 = sigmoid(%1)\n  return %2\n");
    subject_check_count(&s, "@", 0);
    subject_check_count(&s, "post=[\"sigmoid\"]", 1);
    subject_check_values(&s);
    subject_check_borders(&s, 0);
    subject_end(&s);
}

static void collapse_adjacent_conversions(void **state)
{
    subject_t s = subject_begin(fixture_context(state), "w=16,16,3,3 u=16,16,3,3",
                                "%x : f32[1,16,8,8]",
                                "  %1 = conv2d(%x, %w, none)\n  %2 = conv2d(%1, %u, none)\n"
                                "  return %2\n");
    subject_check_count(&s, " to_dense(", 1);
    subject_check_values(&s);
    subject_check_borders(&s, 1);
    subject_end(&s);
}

/* PyTorch raises an error if a blocked and a dense tensor are added; Tessera converts one of
 * them. */
static void fuser_broadcasting(void **state)
{
    context_t *ctx = fixture_context(state);
    static const char *const shapes[] = {"v=8", "v=8,8,1", "v=8,1,1", "v=1,8,8,8", "v=2,8,1,1"};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        char parameters[64];
        snprintf(parameters, sizeof parameters, "w=8,8,1,1 %s", shapes[i]);
        subject_t s = subject_begin(
            ctx, parameters, "%x : f32[2,8,8,8], %r : f32[8,1,8]",
            "  %1 = conv2d(%x, %w, none)\n  %2 = relu(%1)\n  %3 = add(%2, %v)\n"
            "  %4 = mul(%3, %r)\n  return %4\n");
        subject_check_values(&s);
        subject_end(&s);
    }
}

static void maxpool_mkldnn(void **state)
{
    subject_t s = subject_begin(fixture_context(state), "w=17,3,3,3 v=17", "%x : f32[1,3,12,12]",
                                "  %1 = conv2d(%x, %w, none)\n"
                                "  %2 = batch_norm(%1, %v, %v, %v, %v)\n"
                                "  %3 = relu(%2)\n"
                                "  %4 = max_pool2d(%3) kernel=[2,2]\n"
                                "  return %4\n");
    subject_check_count(&s, " to_dense(", 1);
    subject_check_count(&s, "batch_norm", 0);
    subject_check_values(&s);
    subject_check_borders(&s, 1);
    subject_end(&s);
}

static void freeze_conv_relu_fusion(void **state)
{
    context_t *ctx = fixture_context(state);
    subject_t s = subject_begin(ctx, "w=16,3,3,3 b=16", "%x : f32[1,3,9,9]",
                                "  %1 = conv2d(%x, %w, %b)\n  %2 = relu(%1)\n  return %2\n");
    subject_check_count(&s, "post=[\"relu\"]", 1);
    subject_check_values(&s);
    subject_end(&s);
    s = subject_begin(ctx, "w=16,3,3,3 u=16,3,3,3", "%x : f32[1,3,9,9]",
                      "  %1 = conv2d(%x, %w, none)\n  %2 = conv2d(%x, %u, none)\n"
                      "  %3 = add(%1, %2)\n  %4 = relu(%3)\n  return %4\n");
    subject_check_count(&s, "post=[\"sum\",\"relu\"]", 1);
    subject_check_values(&s);
    subject_end(&s);
}

static void freeze_conv_relu_fusion_not_forward(void **state)
{
    context_t *ctx = fixture_context(state);
    const char *const preserved[] = {"predict", NULL};
    module_t *net = subject_net(ctx, "w=16,3,3,3", "%x : f32[1,3,9,9]", "  return %x\n");
    module_t *frozen = NULL;
    subject_method(ctx, net, "predict", "w=16,3,3,3", "%x : f32[1,3,9,9]",
                   "  %1 = conv2d(%x, %w, none)\n  %2 = relu(%1)\n  return %2\n");
    CHECK_OK(ctx, freeze(ctx, net, &(freeze_options_t){.preserved = preserved}, &frozen));
    text_t text = text_begin(ctx);
    CHECK_OK(ctx, graph_print(ctx, graph_of(frozen, "predict"), NULL, &text));
    assert_non_null(strstr(text_string(&text), "post=[\"relu\"]"));
    text_clear(&text);
    module_release(frozen);
    module_release(net);
}

/* More activations than a convolution can fuse, so the others run on the padded tensor. */
static void numel_less_than_size_with_padding(void **state)
{
    context_t *ctx = fixture_context(state);
    for (int i = 0; i < N_CHANNELS; i++) {
        char parameters[64];
        snprintf(parameters, sizeof parameters, "w=%d,3,3,3", channels[i]);
        subject_t s = subject_begin(
            ctx, parameters, "%x : f32[1,3,7,7]",
            "  %1 = conv2d(%x, %w, none) padding=[1,1]\n"
            "  %2 = sigmoid(%1)\n  %3 = hardsigmoid(%2)\n  %4 = hardswish(%3)\n"
            "  %5 = tanh(%4)\n  %6 = sigmoid(%5)\n  %7 = elu(%6)\n"
            "  %8 = exp(%7)\n  %9 = mul(%8, %1)\n  return %9\n");
        subject_check_values(&s);
        subject_check_borders(&s, 1);
        subject_end(&s);
    }
}

static void incompatible_perf_formats(void **state)
{
    subject_t s = subject_begin(
        fixture_context(state), "w=3,3,3,3", "%x : f32[2,3,40,40]",
        "  %1 = conv2d(%x, %w, none) padding=[1,1]\n"
        "  %2 = max_pool2d(%x) kernel=[31,31] stride=[1,1] padding=[15,15]\n"
        "  %3 = add(%1, %2)\n  return %3\n");
    subject_check_values(&s);
    subject_end(&s);
}

static void pool2d_batchnorm(void **state)
{
    static const char *const middles[] = {
        "adaptive_avg_pool(%3) output_size=[4,4]", "max_pool2d(%3) kernel=[4,4]",
        "avg_pool2d(%3) kernel=[2,2]", "batch_norm(%3, %v, %v, %v, %v)"};
    context_t *ctx = fixture_context(state);
    for (size_t i = 0; i < sizeof middles / sizeof *middles; i++) {
        char body[512];
        snprintf(body, sizeof body,
                 "  %%1 = conv2d(%%x, %%w, %%b)\n  %%2 = relu(%%1)\n  %%3 = mul(%%2, 2.0)\n"
                 "  %%4 = %s\n  %%5 = hardswish(%%4)\n  return %%5\n",
                 middles[i]);
        subject_t s = subject_begin(ctx, "w=8,3,3,3 b=8 v=8", "%x : f32[1,3,18,18]", body);
        subject_check_values(&s);
        subject_check_borders(&s, 1);
        subject_end(&s);
    }
}

static void pool3d_batchnorm(void **state)
{
    static const char *const middles[] = {
        "adaptive_avg_pool(%2) output_size=[2,2,2]", "max_pool3d(%2) kernel=[2,2,2]",
        "avg_pool3d(%2) kernel=[2,2,2]", "batch_norm(%2, %v, %v, %v, %v)"};
    context_t *ctx = fixture_context(state);
    for (size_t i = 0; i < sizeof middles / sizeof *middles; i++) {
        char body[512];
        snprintf(body, sizeof body,
                 "  %%1 = conv3d(%%x, %%w, %%b)\n  %%2 = relu(%%1)\n"
                 "  %%3 = %s\n  %%4 = hardswish(%%3)\n  return %%4\n",
                 middles[i]);
        subject_t s = subject_begin(ctx, "w=8,3,3,3,3 b=8 v=8", "%x : f32[1,3,8,8,8]", body);
        subject_check_values(&s);
        subject_check_borders(&s, 1);
        subject_end(&s);
    }
}

/* Also tests bounds that exclude 0, which PyTorch does not convert. */
static void conv_hardswish(void **state)
{
    static const char *const activations[] = {"hardswish(%1)",
                                              "hardsigmoid(%1)",
                                              "relu6(%1)",
                                              "tanh(%1)",
                                              "gelu(%1)",
                                              "clamp(%1) min=-1.0 max=1.0",
                                              "clamp(%1) min=0.5 max=2.0",
                                              "clamp(%1) min=-2.0 max=-0.5",
                                              "clamp(%1) min=0.25",
                                              "clamp(%1) max=-0.25"};
    context_t *ctx = fixture_context(state);
    for (size_t i = 0; i < sizeof activations / sizeof *activations; i++) {
        char body[256];
        snprintf(body, sizeof body,
                 "  %%1 = conv2d(%%x, %%w, %%b)\n  %%2 = %s\n  %%3 = conv2d(%%2, %%u, none)\n"
                 "  return %%3\n",
                 activations[i]);
        subject_t s = subject_begin(ctx, "w=7,3,3,3 b=7 u=16,7,1,1", "%x : f32[1,3,9,9]", body);
        subject_check_count(&s, "post=[", 1);
        subject_check_count(&s, " to_dense(", 1);
        subject_check_values(&s);
        subject_check_borders(&s, 1);
        subject_end(&s);
    }
}

static void hardswish_hardsigmoid(void **state)
{
    static const char *const shapes[] = {"[0]", "[1]", "[3]", "[1,3,8,8]"};
    static const char *const bodies[] = {
        "  %1 = hardswish(%x)\n  %2 = hardsigmoid(%1)\n  return %2\n",
        "  %0 = neg(%x)\n  %1 = hardswish_(%0)\n  %2 = hardsigmoid_(%1)\n  return %2\n"};
    context_t *ctx = fixture_context(state);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (size_t k = 0; k < sizeof bodies / sizeof *bodies; k++) {
            char inputs_text[64];
            snprintf(inputs_text, sizeof inputs_text, "%%x : f32%s", shapes[i]);
            subject_t s = subject_begin(ctx, "", inputs_text, bodies[k]);
            subject_check_values(&s);
            subject_end(&s);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(conv_to_mkldnn),
        TEST(conv_to_mkldnn_no_mkldnn),
        TEST(collapse_adjacent_conversions),
        TEST(fuser_broadcasting),
        TEST(maxpool_mkldnn),
        TEST(freeze_conv_relu_fusion),
        TEST(freeze_conv_relu_fusion_not_forward),
        TEST(numel_less_than_size_with_padding),
        TEST(incompatible_perf_formats),
        TEST(pool2d_batchnorm),
        TEST(pool3d_batchnorm),
        TEST(conv_hardswish),
        TEST(hardswish_hardsigmoid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
