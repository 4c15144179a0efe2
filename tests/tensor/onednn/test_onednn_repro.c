/* Lines for benchdnn, character by character. The problem in a line has the same text as in
 * oneDNN's verbose log, with which tests/tools/test_repro.c compares it. */
#include "tests/support/support.h"

#include <stdio.h>
#include <string.h>

#include <oneapi/dnnl/dnnl_version.h>

#include "tensor/onednn/onednn.h"

static tensor_info_t info(context_t *ctx, dtype_t dtype, const char *tag, int rank,
                          const int64_t *sizes)
{
    format_t format;
    tensor_info_t dense = info_dense(dtype, rank, sizes);
    CHECK_OK(ctx, format_parse(ctx, tag, &format));
    return info_mkldnn(&dense, &format);
}
#define INFO(tag, ...)                                                                             \
    info(ctx, DTYPE_F32, tag, (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), (int64_t[]){__VA_ARGS__})

static void check(context_t *ctx, const onednn_problem_t *problem, const char *expected)
{
    char line[1024];
    text_t text = text_begin(ctx);
    onednn_repro_problem(problem, &text);
    CHECK_OK(ctx, text_status(&text));
    const char *space = strchr(expected, ' ');
    snprintf(line, sizeof line, "./benchdnn --%.*s --allow-enum-tags-only=0%s",
             (int)(space - expected), expected, space);
    assert_string_equal(text_string(&text), line);
    text_clear(&text);
}

static void convolutions_say_every_spatial_dimension(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_info_t x = INFO("abcd", 1, 3, 224, 224), w = INFO("Acdb16a", 64, 3, 7, 7);
    tensor_info_t b = INFO("a", 64), y = INFO("aBcd16b", 1, 64, 112, 112);
    onednn_problem_t p = {.kind = ONEDNN_CONVOLUTION,
                          .n_src = 1,
                          .src = &x,
                          .weight = &w,
                          .dst = &y,
                          .stride = {2, 2},
                          .dilation = {1, 1},
                          .pad_begin = {3, 3},
                          .pad_end = {3, 3}};
    check(ctx, &p,
          "conv --dir=FWD_I --cfg=f32 --stag=abcd --wtag=Acdb16a --dtag=aBcd16b "
          "mb1_ic3oc64_ih224oh112kh7sh2dh0ph3_iw224ow112kw7sw2dw0pw3");
    p.bias = &b;
    p.n_post = 4;
    tensor_info_t row = INFO("aBcd16b", 1, 64, 1, 1), one = INFO("abcd", 1, 1, 1, 1);
    p.post[0] = (onednn_post_op_t){.kind = ONEDNN_POST_SUM};
    p.post[1] = (onednn_post_op_t){
        .kind = ONEDNN_POST_ELTWISE, .algorithm = ONEDNN_ELTWISE_CLIP, .alpha = 0, .beta = 6};
    p.post[2] = (onednn_post_op_t){
        .kind = ONEDNN_POST_BINARY, .algorithm = ONEDNN_BINARY_MUL, .operand = &row};
    p.post[3] = (onednn_post_op_t){
        .kind = ONEDNN_POST_BINARY, .algorithm = ONEDNN_BINARY_ADD, .operand = &one};
    check(ctx, &p,
          "conv --dir=FWD_B --cfg=f32 --stag=abcd --wtag=Acdb16a --dtag=aBcd16b "
          "--attr-post-ops=sum+clip:0:6+mul:f32:per_oc+add:f32:common "
          "mb1_ic3oc64_ih224oh112kh7sh2dh0ph3_iw224ow112kw7sw2dw0pw3");

    p.n_post = 0;
    p.algorithm = ONEDNN_WINOGRAD;
    w.format = (format_t){.kind = FORMAT_OPAQUE, .rank = 4};
    check(ctx, &p,
          "conv --dir=FWD_B --cfg=f32 --stag=abcd --wtag=any --dtag=aBcd16b --alg=WINO "
          "mb1_ic3oc64_ih224oh112kh7sh2dh0ph3_iw224ow112kw7sw2dw0pw3");

    tensor_info_t x1 = INFO("abc", 2, 8, 10), w1 = INFO("abcd", 4, 2, 2, 3),
                  y1 = INFO("abc", 2, 8, 6);
    p = (onednn_problem_t){.kind = ONEDNN_CONVOLUTION,
                           .n_src = 1,
                           .src = &x1,
                           .weight = &w1,
                           .dst = &y1,
                           .stride = {1},
                           .dilation = {2}};
    check(ctx, &p,
          "conv --dir=FWD_I --cfg=f32 --stag=abc --wtag=abcd --dtag=abc "
          "g4mb2_ic8oc8_iw10ow6kw3sw1dw1pw0");
    x1.dtype = w1.dtype = y1.dtype = DTYPE_BF16;
    p.kind = ONEDNN_DECONVOLUTION;
    check(ctx, &p,
          "deconv --dir=FWD_I --cfg=bf16bf16bf16 --stag=abc --wtag=abcd --dtag=abc "
          "g4mb2_ic8oc8_iw10ow6kw3sw1dw1pw0");
}

static void products_say_their_sizes(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_info_t x = INFO("ab", 1, 512), w = INFO("AB16b64a", 1000, 512), b = INFO("a", 1000);
    tensor_info_t y = INFO("ab", 1, 1000), x4 = INFO("aBcd16b", 1, 256, 6, 6);
    tensor_info_t w4 = INFO("abcd", 1000, 256, 6, 6);
    onednn_problem_t p = {
        .kind = ONEDNN_INNER_PRODUCT, .n_src = 1, .src = &x, .weight = &w, .bias = &b, .dst = &y};
    check(ctx, &p, "ip --dir=FWD_B --cfg=f32 --stag=ab --wtag=AB16b64a --dtag=ab mb1ic512oc1000");
    p.src = &x4;
    p.weight = &w4;
    p.bias = NULL;
    check(ctx, &p,
          "ip --dir=FWD_I --cfg=f32 --stag=aBcd16b --wtag=abcd --dtag=ab mb1ic256ih6iw6oc1000");

    tensor_info_t m = INFO("abc", 2, 10, 30), k = INFO("acb", 2, 30, 20),
                  n = INFO("abc", 2, 10, 20);
    tensor_info_t bias = INFO("abc", 1, 1, 20);
    p = (onednn_problem_t){
        .kind = ONEDNN_MATMUL, .n_src = 1, .src = &m, .weight = &k, .bias = &bias, .dst = &n};
    check(ctx, &p,
          DNNL_VERSION_MAJOR == 2
              ? "matmul --cfg=f32 --stag=abc --wtag=acb --dtag=abc --bia_dt=f32 --bia_mask=4 "
                "2x10x30:2x30x20"
              : "matmul --dt=f32 --stag=abc --wtag=acb --dtag=abc --bia_dt=f32 --bia_mask=4 "
                "2x10x30:2x30x20");
}

static void the_others_say_their_algorithm(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_info_t x[] = {INFO("aBcd8b", 1, 64, 112, 112), INFO("abcd", 1, 64, 1, 1)};
    tensor_info_t half = INFO("aBcd8b", 1, 64, 56, 56), same = x[0];
    onednn_problem_t p = {.kind = ONEDNN_POOLING,
                          .algorithm = ONEDNN_POOL_AVERAGE,
                          .n_src = 1,
                          .src = x,
                          .dst = &half,
                          .kernel = {3, 3},
                          .stride = {2, 2},
                          .dilation = {1, 1},
                          .pad_begin = {1, 1}};
    check(ctx, &p,
          "pool --dir=FWD_I --cfg=f32 --tag=aBcd8b --alg=avg_np "
          "mb1ic64_ih112oh56kh3sh2dh0ph1_iw112ow56kw3sw2dw0pw1");
    p = (onednn_problem_t){.kind = ONEDNN_LRN,
                           .algorithm = ONEDNN_LRN_ACROSS_CHANNELS,
                           .n_src = 1,
                           .src = x,
                           .dst = &same,
                           .size = 5,
                           .alpha = 0.5f,
                           .beta = 0.75f,
                           .k = 1.0f};
    check(ctx, &p,
          "lrn --dir=FWD_I --dt=f32 --tag=aBcd8b --alg=ACROSS "
          "mb1ic64ih112iw112_ls5_alpha0.5_beta0.75_k1");
    p = (onednn_problem_t){.kind = ONEDNN_BATCH_NORM,
                           .n_src = 1,
                           .src = x,
                           .dst = &same,
                           .epsilon = 0.5f,
                           .has_scale = true};
    check(ctx, &p, "bnorm --dir=FWD_I --dt=f32 --tag=aBcd8b --flags=GCH mb1ic64ih112iw112_eps0.5");
    p.kind = ONEDNN_LAYER_NORM;
    check(ctx, &p, "lnorm --dir=FWD_I --dt=f32 --tag=aBcd8b --flags=CH 1x64x112x112");
    p = (onednn_problem_t){.kind = ONEDNN_ELTWISE,
                           .algorithm = ONEDNN_ELTWISE_LINEAR,
                           .n_src = 1,
                           .src = x,
                           .dst = &same,
                           .alpha = 2.0f,
                           .beta = -0.5f};
    check(ctx, &p,
          "eltwise --dir=FWD_I --dt=f32 --tag=aBcd8b --alg=linear --alpha=2 --beta=-0.5 "
          "1x64x112x112");
    p.algorithm = ONEDNN_ELTWISE_RELU; /* relu has no beta */
    check(ctx, &p,
          "eltwise --dir=FWD_I --dt=f32 --tag=aBcd8b --alg=relu --alpha=2 --beta=0 1x64x112x112");
    p = (onednn_problem_t){
        .kind = ONEDNN_BINARY, .algorithm = ONEDNN_BINARY_MUL, .n_src = 2, .src = x, .dst = &same};
    check(ctx, &p,
          "binary --alg=mul --sdt=f32:f32 --ddt=f32 --stag=aBcd8b:abcd 1x64x112x112:1x64x1x1");
    p = (onednn_problem_t){.kind = ONEDNN_SOFTMAX,
                           .algorithm = ONEDNN_SOFTMAX_LOG,
                           .n_src = 1,
                           .src = x,
                           .dst = &same,
                           .axis = 1};
    check(ctx, &p,
          "softmax --dir=FWD_I --sdt=f32 --ddt=f32 --stag=aBcd8b --dtag=aBcd8b --alg=LOGSOFTMAX "
          "--axis=1 1x64x112x112");
    p = (onednn_problem_t){.kind = ONEDNN_RESAMPLING,
                           .algorithm = ONEDNN_RESAMPLING_LINEAR,
                           .n_src = 1,
                           .src = x,
                           .dst = &half};
    check(ctx, &p,
          "resampling --dir=FWD_I --sdt=f32 --ddt=f32 --tag=aBcd8b --alg=linear "
          "mb1ic64_ih112oh56_iw112ow56");
    tensor_info_t plain = INFO("abcd", 1, 64, 112, 112);
    p = (onednn_problem_t){.kind = ONEDNN_REORDER, .n_src = 1, .src = &plain, .dst = &same};
    check(ctx, &p, "reorder --sdt=f32 --ddt=f32 --stag=abcd --dtag=aBcd8b 1x64x112x112");
}

static void gradients_say_their_direction(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_info_t x = INFO("aBcd8b", 2, 7, 9, 9), y = INFO("aBcd8b", 2, 16, 9, 9);
    tensor_info_t w = INFO("abcd", 16, 7, 3, 3), b = INFO("a", 16);
    const char *sizes = "mb2_ic7oc16_ih9oh9kh3sh1dh0ph1_iw9ow9kw3sw1dw0pw1";
    char line[256];
    onednn_problem_t data = {.kind = ONEDNN_CONVOLUTION,
                             .propagation = ONEDNN_BACKWARD_DATA,
                             .weight = &w,
                             .diff_src = &x,
                             .diff_dst = &y,
                             .stride = {1, 1},
                             .dilation = {1, 1},
                             .pad_begin = {1, 1},
                             .pad_end = {1, 1}};
    snprintf(line, sizeof line,
             "conv --dir=BWD_D --cfg=f32 --stag=aBcd8b --wtag=abcd --dtag=aBcd8b %s", sizes);
    check(ctx, &data, line);
    onednn_problem_t weights = data;
    weights.propagation = ONEDNN_BACKWARD_WEIGHT;
    weights.weight = weights.diff_src = NULL;
    weights.n_src = 1;
    weights.src = &x;
    weights.diff_weight = &w;
    weights.diff_bias = &b;
    snprintf(line, sizeof line,
             "conv --dir=BWD_WB --cfg=f32 --stag=aBcd8b --wtag=abcd --dtag=aBcd8b %s", sizes);
    check(ctx, &weights, line);

    onednn_problem_t norm = {.kind = ONEDNN_BATCH_NORM,
                             .propagation = ONEDNN_TRAINING,
                             .n_src = 1,
                             .src = &x,
                             .dst = &x,
                             .epsilon = 0.5f,
                             .has_scale = true,
                             .has_relu = true};
    check(ctx, &norm, "bnorm --dir=FWD_D --dt=f32 --tag=aBcd8b --flags=CHR mb2ic7ih9iw9_eps0.5");
    norm.propagation = ONEDNN_BACKWARD;
    norm.dst = NULL;
    norm.diff_src = norm.diff_dst = &x;
    norm.fixed_statistics = true;
    check(ctx, &norm, "bnorm --dir=BWD_DW --dt=f32 --tag=aBcd8b --flags=GCHR mb2ic7ih9iw9_eps0.5");
    onednn_problem_t tanh = {.kind = ONEDNN_ELTWISE,
                             .algorithm = ONEDNN_ELTWISE_TANH,
                             .propagation = ONEDNN_BACKWARD_DATA,
                             .dst = &x,
                             .diff_src = &x,
                             .diff_dst = &x,
                             .from_dst = true};
    check(ctx, &tanh,
          "eltwise --dir=BWD_D --dt=f32 --tag=aBcd8b --alg=tanh_dst --alpha=0 --beta=0 2x7x9x9");
}

static void recurrent_layers_say_their_cell_and_sizes(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_info_t src[] = {INFO("abc", 5, 2, 3)}, dst[3] = {INFO("abc", 5, 2, 14)};
    tensor_info_t weight[4] = {INFO("abcde", 1, 2, 3, 4, 7), INFO("abcde", 1, 2, 7, 4, 7)};
    tensor_info_t bias = INFO("abcd", 1, 2, 4, 7);
    onednn_problem_t p = {.kind = ONEDNN_RNN,
                          .algorithm = ONEDNN_RNN_LSTM,
                          .direction = ONEDNN_BOTH_CONCATENATED,
                          .n_src = 1,
                          .src = src,
                          .weight = weight,
                          .bias = &bias,
                          .dst = dst};
    check(ctx, &p,
          "rnn --prop=FWD_I --cfg=f32 --alg=VANILLA_LSTM --direction=concat "
          "l1t5mb2sic7slc3dhc7dic7");
    p.algorithm = ONEDNN_RNN_RELU;
    p.direction = ONEDNN_LEFT_TO_RIGHT;
    p.propagation = ONEDNN_TRAINING;
    check(ctx, &p,
          "rnn --prop=FWD_D --cfg=f32 --alg=VANILLA_RNN --direction=left2right "
          "--activation=RELU l1t5mb2sic7slc3dhc7dic7");
}

static void integers_say_their_scales_and_zeros(void **state)
{
    context_t *ctx = fixture_context(state);
    const float scale = 0.5f, scales[] = {0.25f, 0.125f};
    const int32_t zero = 5;
    tensor_info_t x = INFO("acdb", 1, 3, 1, 1), w = INFO("abcd", 2, 3, 1, 1);
    tensor_info_t y = INFO("acdb", 1, 2, 1, 1);
    x.dtype = y.dtype = DTYPE_U8;
    w.dtype = DTYPE_S8;
    onednn_problem_t p = {.kind = ONEDNN_CONVOLUTION,
                          .n_src = 1,
                          .src = &x,
                          .weight = &w,
                          .dst = &y,
                          .stride = {1, 1},
                          .dilation = {1, 1},
                          .src_quantization = {true, true, false, &scale, &zero},
                          .weight_quantization = {true, false, true, scales, NULL},
                          .dst_quantization = {true, true, false, &scale, NULL}};
    const char *scale_words = DNNL_VERSION_MAJOR == 2
                                  ? "--attr-oscale=per_oc:0.25"
                                  : "--attr-scales=src:common:0.5+wei:per_oc:0.25+dst:common:0.5";
    char line[512];
    snprintf(line, sizeof line,
             "conv --dir=FWD_I --cfg=u8s8u8 --stag=acdb --wtag=abcd --dtag=acdb %s "
             "--attr-zero-points=src:common:5*+dst:common:1* "
             "mb1_ic3oc2_ih1oh1kh1sh1dh0ph0_iw1ow1kw1sw1dw0pw0",
             scale_words);
    check(ctx, &p, line);

    p.src_quantization.has_zero = p.dst_quantization.has_zero = false;
    p.n_post = 1;
    p.post[0] = (onednn_post_op_t){.kind = ONEDNN_POST_SUM};
    snprintf(line, sizeof line,
             "conv --dir=FWD_I --cfg=u8s8u8 --stag=acdb --wtag=abcd --dtag=acdb %s "
             "--attr-post-ops=sum:0.5%s mb1_ic3oc2_ih1oh1kh1sh1dh0ph0_iw1ow1kw1sw1dw0pw0",
             DNNL_VERSION_MAJOR == 2 ? "--attr-oscale=per_oc:0.125" : scale_words,
             DNNL_VERSION_MAJOR == 2 ? "+linear:2:0" : "");
    check(ctx, &p, line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(convolutions_say_every_spatial_dimension),
        TEST(products_say_their_sizes),
        TEST(the_others_say_their_algorithm),
        TEST(gradients_say_their_direction),
        TEST(recurrent_layers_say_their_cell_and_sizes),
        TEST(integers_say_their_scales_and_zeros),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
