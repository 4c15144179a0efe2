#include "tests/support/support.h"

#include <string.h>

#include "tensor/onednn/onednn.h"

/* An instruction set is a set of bits, as in oneDNN's headers. oneDNN after 3.2 adds AVX-512 with
 * fp16 and better ones. */
static void an_instruction_set_of_a_later_version_goes_by_the_best_known_in_it(void **state)
{
    (void)state;
    static const struct {
        unsigned isa;
        const char *name;
        bool has_avx512, has_avx2;
    } sets[] = {
#ifdef __aarch64__
        {0x0, "other", false, false},
        {0x1, "asimd", false, false},
        {0x7, "sve_256", false, false},
        {0x1f, "sve_512", false, false},
#else
        {0x0, "other", false, false},
        {0x1, "sse41", false, false},
        {0x3, "avx", false, false},
        {0x7, "avx2", false, true},
        {0x27, "avx512_core", true, true},
        {0x67, "avx512_core_vnni", true, true},
        {0xe7, "avx512_core_bf16", true, true},
        {0x1ef, "avx512_core_fp16", true, true},
        {0x201ff, "avx512_core_fp16", true, true},
        {0x1fef, "avx512_core_amx_fp16", true, true},
        {0x22fff, "avx512_core_", true, true},
#endif
    };
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        const char *name = onednn_isa_name(sets[i].isa);
        assert_memory_equal(name, sets[i].name, strlen(sets[i].name));
        assert_int_equal(onednn_isa_has(sets[i].isa, ONEDNN_ISA_AVX512), sets[i].has_avx512);
        assert_int_equal(onednn_isa_has(sets[i].isa, ONEDNN_ISA_AVX2), sets[i].has_avx2);
    }
}

static void known_faults_are_told(void **state)
{
    (void)state;
    tensor_info_t bf16 = info_dense(DTYPE_BF16, SHAPE(3, 17)), last;
    tensor_info_t f32 = info_dense(DTYPE_F32, SHAPE(1, 7, 4, 4));
    format_t format = format_channels_last(4);
    last = info_mkldnn(&f32, &format);
    onednn_problem_t softmax = {.kind = ONEDNN_SOFTMAX, .dst = &bf16};
    onednn_problem_t conv = {.kind = ONEDNN_CONVOLUTION, .dst = &last};
    onednn_problem_t subtracts = {.kind = ONEDNN_CONVOLUTION,
                                  .dst = &last,
                                  .n_post = 1,
                                  .post = {{.kind = ONEDNN_POST_BINARY}}};
    onednn_problem_t hardswish = {
        .kind = ONEDNN_CONVOLUTION,
        .dst = &f32,
        .n_post = 1,
        .post = {{.kind = ONEDNN_POST_ELTWISE, .algorithm = ONEDNN_ELTWISE_HARDSWISH}}};
    tensor_info_t states[3] = {f32, f32};
    onednn_problem_t rnn = {
        .kind = ONEDNN_RNN, .propagation = ONEDNN_BACKWARD, .n_src = 3, .src = states, .dst = &f32};
    assert_null(onednn_fault(&rnn, "ref"));
    states[1].dtype = DTYPE_NONE;
    assert_string_equal(onednn_fault(&rnn, "ref"),
                        "computes wrong weight gradients without initial states");
    rnn.propagation = ONEDNN_TRAINING;
    assert_null(onednn_fault(&rnn, "ref"));
    assert_string_equal(onednn_fault(&softmax, "jit:sve_512"),
                        "reports success without writing bf16");
    assert_null(onednn_fault(&softmax, "jit:avx512_core"));
    softmax.dst = &f32;
    assert_null(onednn_fault(&softmax, "jit:sve_512"));
    assert_string_equal(onednn_fault(&hardswish, "jit_1x1:sve_512"), "computes hardswish wrongly");
    assert_null(onednn_fault(&hardswish, "brgconv:avx512_core"));
    assert_string_equal(onednn_fault(&subtracts, "x64:gemm:jit"),
                        "reads wrong elements of post-op operands in channels last");
    assert_null(onednn_fault(&subtracts, "brgconv:avx512_core"));
    subtracts.dst = &f32;
    assert_null(onednn_fault(&subtracts, "x64:gemm:jit"));
    assert_null(onednn_fault(&conv, "x64:gemm:jit"));
    subtracts.dst = &last;
    assert_string_equal(onednn_fault(&subtracts, "jit_dw:sse41"),
                        "crashes if post-ops read unaligned pixels");
    assert_null(onednn_fault(&subtracts, "jit_dw:avx2"));
    assert_null(onednn_fault(&conv, "jit_dw:sse41"));
}

/* oneDNN 2.6 needs 4 s and 1 GB to make a primitive with a padding of 8 million. */
static void a_kernel_that_generates_code_for_padding_is_a_fault(void **state)
{
    (void)state;
    const tensor_info_t out = info_dense(DTYPE_F32, SHAPE(1, 7, 4, 4));
    const char *fault = "generates code for each element of the padding";
    for (int end = 0; end < 2; end++) {
        onednn_problem_t conv = {.kind = ONEDNN_CONVOLUTION, .dst = &out};
        int64_t *padding = end ? conv.pad_end : conv.pad_begin;
        padding[1] = 4096;
        assert_null(onednn_fault(&conv, "brgconv:avx512_core"));
        padding[1] = 4097;
        assert_string_equal(onednn_fault(&conv, "brgconv:avx512_core"), fault);
        assert_null(onednn_fault(&conv, "jit:avx512_core"));
    }
}

/* Transpose(2,0,1,3) leaves rows of a matrix that are not contiguous. oneDNN's gemm computes such
 * products wrongly. */
static void a_product_whose_rows_are_in_pieces_is_a_fault(void **state)
{
    context_t *ctx = fixture_context(state);
    static const char *const tags[] = {"abcd", "bcda", "bcad", "badc", "cabd"};
    const int64_t x_sizes[] = {31, 9, 4, 2}, w_sizes[] = {48, 9, 4, 2}, out_sizes[] = {31, 48};
    for (int i = 0; i < 5; i++) {
        onednn_primitive_t *primitive = NULL;
        tensor_info_t src = info_dense(DTYPE_F32, 4, x_sizes),
                      dst = info_dense(DTYPE_F32, 2, out_sizes),
                      weight = info_dense(DTYPE_F32, 4, w_sizes);
        CHECK_OK(ctx, format_parse(ctx, tags[i], &src.format));
        weight.format = src.format;
        src.layout = weight.layout = LAYOUT_MKLDNN;
        const onednn_problem_t product = {
            .kind = ONEDNN_INNER_PRODUCT, .n_src = 1, .src = &src, .weight = &weight, .dst = &dst};
        assert_int_equal(onednn_fault(&product, "x64:gemm:jit") != NULL, i >= 2);
        assert_null(onednn_fault(&product, "brgemm:avx512_core"));
        src.sizes[0] = weight.sizes[0] = 1;
        assert_null(onednn_fault(&product, "x64:gemm:jit"));
        src.sizes[0] = 31;
        weight.sizes[0] = 48;
        /* if oneDNN supports the product, it must choose another implementation */
        status_t status = onednn_describe(ctx, &product, &primitive);
        if (status == STATUS_OK && i >= 2)
            assert_null(strstr(onednn_implementation(primitive), ":gemm"));
        if (status != STATUS_OK) assert_int_equal(status, STATUS_UNSUPPORTED);
        onednn_release(primitive);
    }
}

static const char *refusal_of(context_t *ctx, const onednn_problem_t *problem)
{
    onednn_primitive_t *primitive = NULL;
    if (onednn_describe(ctx, problem, &primitive) == STATUS_OK) {
        onednn_release(primitive);
        return "";
    }
    assert_null(primitive);
    return onednn_refusal(ctx);
}

/* Each number has 32 bits or fewer, but products that oneDNN computes from them have more. */
static void problems_beyond_32_bits_are_refused_in_words(void **state)
{
    context_t *ctx = fixture_context(state);
    const int64_t most = 2147483647, sizes[] = {1, 16, 1, 3}, one[] = {16, 16, 1, 1};
    const int64_t out[] = {1, 16, 1, 1};
    const tensor_info_t src = info_dense(DTYPE_F32, 4, sizes), dst = info_dense(DTYPE_F32, 4, out);
    const tensor_info_t weight = info_dense(DTYPE_F32, 4, one);
    onednn_problem_t conv = {.kind = ONEDNN_CONVOLUTION,
                             .n_src = 1,
                             .src = &src,
                             .weight = &weight,
                             .dst = &dst,
                             .stride = {1, 3},
                             .dilation = {1, 1}};
    assert_string_equal(refusal_of(ctx, &conv), "");
    conv.stride[1] = most;
    assert_string_equal(refusal_of(ctx, &conv), "strides, dilations or paddings beyond 32 bits");
    conv.stride[1] = 1 << 28;
    assert_string_equal(refusal_of(ctx, &conv), "windows beyond 2^31 bytes");
    conv.stride[1] = 3;
    conv.pad_begin[0] = conv.pad_end[0] = 1 << 24;
    assert_string_equal(refusal_of(ctx, &conv), "windows beyond 2^31 bytes");
    onednn_problem_t pool = {.kind = ONEDNN_POOLING,
                             .algorithm = ONEDNN_POOL_MAX,
                             .n_src = 1,
                             .src = &src,
                             .dst = &dst,
                             .kernel = {1, most},
                             .stride = {1, 1},
                             .dilation = {1, 1},
                             .pad_end = {0, most - 3}};
    assert_string_equal(refusal_of(ctx, &pool), "strides, dilations or paddings beyond 32 bits");
    const int64_t long_sizes[] = {most + INT64_C(2)};
    const tensor_info_t flat = info_dense(DTYPE_F32, 1, long_sizes);
    const onednn_problem_t relu = {.kind = ONEDNN_ELTWISE,
                                   .algorithm = ONEDNN_ELTWISE_RELU,
                                   .n_src = 1,
                                   .src = &flat,
                                   .dst = &flat};
    assert_string_equal(refusal_of(ctx, &relu), "sizes beyond 32 bits");
    const onednn_problem_t lrn = {.kind = ONEDNN_LRN,
                                  .algorithm = ONEDNN_LRN_ACROSS_CHANNELS,
                                  .n_src = 1,
                                  .src = &src,
                                  .dst = &src,
                                  .size = most,
                                  .alpha = 1.0f};
    assert_string_equal(refusal_of(ctx, &lrn), "an lrn size beyond 31 bits");
}

/* Describes f32[1,channels,2,2], row-major and in blocks of 16. */
static void describe_pair(int64_t channels, tensor_info_t *out_src, tensor_info_t *out_dst)
{
    format_t plain = format_plain(4), blocks = format_channel_blocks(4, 16);
    tensor_info_t dense = info_dense(DTYPE_F32, 4, (const int64_t[]){1, channels, 2, 2});
    *out_src = info_mkldnn(&dense, &plain);
    *out_dst = info_mkldnn(&dense, &blocks);
}

/* The cache has two entries. One pair of formats is requested again and again, and two others in
 * turn, so these evict each other. `held` keeps their primitives, so a new one has another
 * address. */
static void the_reorder_that_was_asked_for_the_longest_ago_goes(void **state)
{
    (void)state;
    context_t *ctx = NULL;
    tensor_info_t src, dst;
    onednn_primitive_t *kept = NULL, *again = NULL, *held[4] = {NULL};
    assert_int_equal(context_create(&(context_options_t){.cache_entries = 2}, &ctx), STATUS_OK);
    describe_pair(3, &src, &dst);
    CHECK_OK(ctx, onednn_reorder(ctx, &src, &dst, &kept));
    onednn_retain(kept);
    for (int i = 0; i < 4; i++) {
        describe_pair(17 + i % 2, &src, &dst);
        CHECK_OK(ctx, onednn_reorder(ctx, &src, &dst, &again));
        held[i] = onednn_retain(again);
        for (int j = 0; j < i; j++) assert_ptr_not_equal(held[i], held[j]);
        describe_pair(3, &src, &dst);
        CHECK_OK(ctx, onednn_reorder(ctx, &src, &dst, &again));
        assert_ptr_equal(again, kept);
    }
    for (int i = 0; i < 4; i++) onednn_release(held[i]);
    onednn_release(kept);
    context_destroy(ctx);
}

/* Requests more pairs than the cache has entries. Evicted ones are made again, and results stay
 * right. */
static void a_reorder_is_described_once_until_there_are_too_many(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_info_t src, dst;
    onednn_primitive_t *first = NULL, *again = NULL, *back = NULL;
    describe_pair(3, &src, &dst);
    CHECK_OK(ctx, onednn_reorder(ctx, &src, &dst, &first));
    CHECK_OK(ctx, onednn_reorder(ctx, &src, &dst, &again));
    assert_ptr_equal(first, again);
    CHECK_OK(ctx, onednn_reorder(ctx, &dst, &src, &back));
    assert_ptr_not_equal(first, back);
    for (int64_t channels = 1; channels <= 1100; channels++) {
        float in[1100 * 4] = {0}, out[1104 * 4];
        void *arguments[] = {in, out}, *scratch = NULL;
        describe_pair(channels, &src, &dst);
        CHECK_OK(ctx, onednn_reorder(ctx, &src, &dst, &again));
        if (channels % 100 != 0) continue;
        for (int i = 0; i < channels * 4; i++) in[i] = (float)i;
        CHECK_OK(ctx, context_scratch(ctx, onednn_scratch_bytes(again), &scratch));
        CHECK_OK(ctx, onednn_run(ctx, again, arguments, scratch));
        assert_true(out[1] == 4 && out[16] == 1); /* channel 1; position 1 of channel 0 */
    }
}

static void the_version_is_three_numbers(void **state)
{
    (void)state;
    int dots = 0;
    for (const char *at = onednn_version_text(); *at != '\0'; at++) {
        assert_true(*at == '.' || (*at >= '0' && *at <= '9'));
        dots += *at == '.';
    }
    assert_int_equal(dots, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_product_whose_rows_are_in_pieces_is_a_fault),
        TEST(problems_beyond_32_bits_are_refused_in_words),
        TEST(an_instruction_set_of_a_later_version_goes_by_the_best_known_in_it),
        TEST(known_faults_are_told),
        TEST(a_kernel_that_generates_code_for_padding_is_a_fault),
        TEST(the_reorder_that_was_asked_for_the_longest_ago_goes),
        TEST(a_reorder_is_described_once_until_there_are_too_many),
        TEST(the_version_is_three_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
