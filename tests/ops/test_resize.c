/* op_resize and op_resize_attrs: results and errors. Expected values are from
 * torch.nn.functional.interpolate of PyTorch 2.13. */
#include "tests/support/support.h"

#include <math.h>

#include "ops/ops.h"

static const float ramp[] = {1, 2, 3, 4, 5, 6};

static tensor_t *make(context_t *ctx, int rank, const int64_t *sizes)
{
    tensor_t *x = NULL;
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, rank, sizes, ramp, &x));
    return x;
}

static void check_result(context_t *ctx, tensor_t *out, int64_t n, const float *wanted)
{
    float read[16];
    assert_int_equal(tensor_numel(out), n);
    CHECK_OK(ctx, tensor_read(ctx, out, read, sizeof read));
    for (int64_t i = 0; i < n; i++)
        if (!(fabsf(read[i] - wanted[i]) <= 1e-5F))
            fail_msg("element %lld is %g, wanted %g", (long long)i, (double)read[i],
                     (double)wanted[i]);
    tensor_release(out);
}

static void the_last_dimensions_of_any_rank_are_resized(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = make(ctx, 2, (int64_t[]){2, 3}), *out = NULL;
    CHECK_OK(ctx, op_resize(ctx, x, 2, (int64_t[]){3, 2}, RESIZE_LINEAR, RESIZE_HALF_PIXEL, &out));
    check_result(ctx, out, 6, (const float[]){1.25F, 2.75F, 2.75F, 4.25F, 4.25F, 5.75F});
    CHECK_OK(ctx, op_resize(ctx, x, 1, (int64_t[]){2}, RESIZE_NEAREST, RESIZE_ASYMMETRIC, &out));
    check_result(ctx, out, 4, (const float[]){1, 2, 4, 5});
    tensor_release(x);
}

static void a_scale_counts_where_it_gives_no_whole_size(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = make(ctx, 3, (int64_t[]){1, 1, 5}), *out = NULL;
    resize_attrs_t attrs = {.sizes = ATTRS_INTS(3),
                            .mode = RESIZE_LINEAR,
                            .coordinates = RESIZE_HALF_PIXEL,
                            .scales = {.n = 1, .values = {0.7}}};
    CHECK_OK(ctx, op_resize_attrs(ctx, x, &attrs, &out));
    check_result(ctx, out, 3, (const float[]){1.214286F, 2.642857F, 4.071429F});
    tensor_release(x);
}

static void nearest_multiplies_by_a_factor_in_f32_as_pytorch(void **state)
{
    /* In a resize from 14 to 46, element 23 is at 23 * 14 / 46 = 7; f32 rounds that to just below
     * 7, so it is element 6. */
    context_t *ctx = fixture_context(state);
    static const struct {
        int64_t in, out, at;
        float want;
    } rows[] = {{14, 46, 23, 6}, {26, 22, 11, 12}, {39, 33, 22, 25}, {28, 46, 24, 14}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tensor_t *x = NULL, *out = NULL;
        float elements[64], read[64];
        for (int k = 0; k < 64; k++) elements[k] = (float)k;
        CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, 1, &rows[i].in, elements, &x));
        CHECK_OK(ctx, op_resize(ctx, x, 1, &rows[i].out, RESIZE_NEAREST, RESIZE_ASYMMETRIC, &out));
        CHECK_OK(ctx, tensor_read(ctx, out, read, sizeof read));
        assert_true(read[rows[i].at] == rows[i].want);
        tensor_release(x);
        tensor_release(out);
    }
}

static void invalid_resizes_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = make(ctx, 2, (int64_t[]){2, 3}), *whole = NULL, *out = NULL;
    const resize_attrs_t good = {
        .sizes = ATTRS_INTS(4), .mode = RESIZE_CUBIC, .cubic_coefficient = -0.75};
    resize_attrs_t attrs = good;
#define CHECK_REFUSED(part)                                                                        \
    CHECK_FAILS(ctx, op_resize_attrs(ctx, x, &attrs, &out), STATUS_INVALID_ARGUMENT, part)
    attrs.sizes = ATTRS_INTS(1, 2, 3);
    CHECK_REFUSED("resize: 3 sizes for f32[2,3], needs 1 to 2");
    attrs.sizes = ATTRS_INTS(0);
    CHECK_REFUSED("resize: dimension 1 of f32[2,3] to 0, sizes of at least 1 are needed");
    attrs = good;
    attrs.scales.n = 2;
    CHECK_REFUSED("resize: 2 scales for 1 sizes, none or as many are needed");
    attrs.scales = (floats_t){.n = 1, .values = {-1}};
    CHECK_REFUSED("resize: a scale of -1 for dimension 1, positive ones are needed");
    attrs = good;
    attrs.mode = 3;
    CHECK_REFUSED("resize: mode is 3");
    attrs = good;
    attrs.coordinates = RESIZE_TF_HALF_PIXEL + 1;
    CHECK_REFUSED("resize: coordinates is 7");
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_S32, SHAPE(2, 3), 1, &whole));
    CHECK_FAILS(ctx, op_resize_attrs(ctx, whole, &good, &out), STATUS_INVALID_ARGUMENT,
                "resize: x is s32[2,3], cubic needs a floating dtype");
    CHECK_FAILS(ctx,
                op_resize(ctx, x, 13, good.sizes.values, RESIZE_NEAREST, RESIZE_ASYMMETRIC, &out),
                STATUS_INVALID_ARGUMENT, "resize: 13 sizes, 1 to 12 are possible");
    tensor_release(whole);
    tensor_release(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_last_dimensions_of_any_rank_are_resized),
        TEST(a_scale_counts_where_it_gives_no_whole_size),
        TEST(nearest_multiplies_by_a_factor_in_f32_as_pytorch),
        TEST(invalid_resizes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
