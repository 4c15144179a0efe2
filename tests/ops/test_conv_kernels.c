/* When our own kernels are selected: for convolutions with few outputs, and transposed ones.
 * test_conformance.c and tests/kernels check their values. */
#include <string.h>

#include "dispatch/select_impl.h"
#include "kernels/isa_impl.h"
#include "ops/conv/conv.h"
#include "ops/ops_impl.h"
#include "tests/support/support.h"

static void check(context_t *ctx, const opdef_t *op, const void *attrs, const int64_t *sizes,
                  const int64_t *kernel, const format_t *format, weight_use_t weights,
                  const char *wanted)
{
    const int rank = op == &op_def_conv1d ? 3 : 4;
    const tensor_info_t dense = info_dense(DTYPE_F32, rank, sizes), none = {.dtype = DTYPE_NONE};
    const tensor_info_t x = info_mkldnn(&dense, format);
    const tensor_info_t weight = info_dense(DTYPE_F32, rank, kernel);
    const tensor_info_t *in[] = {&x, &weight, &none};
    prepared_t *prepared = NULL;
    CHECK_OK(ctx, select_for_weights(ctx, op, attrs, 3, in, weights, POLICY_AUTO, &prepared));
    if (strcmp(prepared_kernel(prepared), wanted) != 0)
        fail_msg("%s, wanted %s; %s", prepared_kernel(prepared), wanted,
                 prepared_reasons(prepared));
    prepared_release(prepared);
}

static void few_outputs_or_channels_are_made_along_rows(void **state)
{
    static const struct {
        const opdef_t *op;
        int64_t sizes[4], kernel[4];
        conv_attrs_t attrs;
        const char *wanted;
    } cases[] = {
        {&op_def_conv2d, {1, 8, 64, 256}, {2, 8, 3, 39}, {.padding = {1, 19}}, "taps"},
        {&op_def_conv2d, {1, 1, 96, 96}, {1, 1, 5, 5}, {.padding = {2, 2}}, "taps"},
        {&op_def_conv2d, {1, 8, 96, 96}, {16, 8, 1, 9}, {.padding = {0, 4}}, "onednn"},
        {&op_def_conv2d, {1, 8, 96, 96}, {31, 8, 1, 9}, {.padding = {0, 4}}, "onednn"},
        {&op_def_conv1d, {1, 1, 4096}, {1, 1, 256}, {.stride = {1}}, "taps"},
        {&op_def_conv1d, {1, 3, 4096}, {4, 3, 7}, {.dilation = {8}}, "taps"},
        {&op_def_conv2d, {1, 64, 56, 56}, {64, 64, 3, 3}, {.padding = {1, 1}}, "onednn"},
        {&op_def_conv2d, {1, 16, 56, 56}, {31, 16, 3, 3}, {.padding = {1, 1}}, "onednn"},
    };
    context_t *ctx = fixture_context(state);
    for (size_t i = 0; i < sizeof cases / sizeof *cases && isa_best() != ISA_PORTABLE; i++) {
        const format_t plain = format_plain(cases[i].op == &op_def_conv1d ? 3 : 4);
        check(ctx, cases[i].op, &cases[i].attrs, cases[i].sizes, cases[i].kernel, &plain,
              WEIGHT_CONSTANT, cases[i].wanted);
    }
}

static void windows_side_by_side_are_tiles(void **state)
{
    static const struct {
        int64_t kernel[4];
        conv_transpose_attrs_t attrs;
        weight_use_t weights;
        const char *wanted;
    } cases[] = {
        {{24, 24, 2, 2}, {.stride = {2, 2}}, WEIGHT_CONSTANT, "tiling"},
        {{24, 1, 2, 2}, {.stride = {2, 2}}, WEIGHT_CONSTANT, "tiling"},
        {{24, 31, 4, 3}, {.stride = {4, 3}}, WEIGHT_CONSTANT, "tiling"},
        {{24, 24, 2, 2}, {.stride = {2, 2}}, WEIGHT_GIVEN, "onednn"},
        {{24, 24, 3, 3}, {.stride = {2, 2}}, WEIGHT_CONSTANT, "onednn"},
        {{24, 24, 2, 2}, {.stride = {2, 2}, .padding = {1, 1}}, WEIGHT_CONSTANT, "onednn"},
        {{24, 12, 2, 2}, {.stride = {2, 2}, .groups = 2}, WEIGHT_CONSTANT, "onednn"},
    };
    static const int64_t sizes[] = {1, 24, 40, 60};
    const format_t last = format_channels_last(4);
    context_t *ctx = fixture_context(state);
    for (size_t i = 0; i < sizeof cases / sizeof *cases && isa_best() != ISA_PORTABLE; i++)
        check(ctx, &op_def_conv_transpose2d, &cases[i].attrs, sizes, cases[i].kernel, &last,
              cases[i].weights, cases[i].wanted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(few_outputs_or_channels_are_made_along_rows),
        TEST(windows_side_by_side_are_tiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
