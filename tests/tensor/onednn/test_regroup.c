/* Opaque formats of tensors that were packed with other sizes, such as those of separate groups. */
#include "tests/support/support.h"

#include "tensor/convert/convert_impl.h"
#include "tensor/tensor.h"

/* Packs f32[64,3,3,3] as f32[8,8,3,3,3]@aBcde16b: 8 groups, each with padding. */
static tensor_t *regrouped(context_t *ctx, const tensor_t *plain)
{
    tensor_t *apart = NULL, *packed = NULL, *result = NULL;
    format_t tag;
    tensor_info_t info = info_dense(DTYPE_F32, 5, (int64_t[]){8, 8, 3, 3, 3});
    CHECK_OK(ctx, format_parse(ctx, "aBcde16b", &tag));
    CHECK_OK(ctx, tensor_over(ctx, &info, plain->storage, 0, &apart));
    tensor_info_t want = info_mkldnn(&info, &tag);
    CHECK_OK(ctx, convert_to(ctx, apart, &want, CAUSE_USER, &packed));
    format_t format = format_regroup(4, &tag, info.sizes);
    want = info_mkldnn(&plain->info, &format);
    CHECK_OK(ctx, tensor_over(ctx, &want, packed->storage, 0, &result));
    tensor_release(apart);
    tensor_release(packed);
    return result;
}

static void check_equal(context_t *ctx, const tensor_t *a, const tensor_t *b)
{
    double difference = 1.0;
    CHECK_OK(ctx, tensor_max_rel_diff(ctx, a, b, &difference));
    assert_true(difference == 0.0);
}

static void conversions_take_it_as_what_it_was(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *plain = NULL, *dense = NULL, *blocked = NULL, *expected = NULL;
    counters_t counters;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(64, 3, 3, 3), &plain));
    tensor_t *tensor = regrouped(ctx, plain);
    counters_reset(ctx);
    CHECK_OK(ctx, to_dense(ctx, tensor, &dense));
    counters_read(ctx, &counters);
    assert_int_equal(counters.reorders[CAUSE_OUTPUT], 1);
    check_equal(ctx, dense, plain);
    CHECK_OK(ctx, convert_reorder(ctx, tensor, "Abcd16a", &blocked));
    CHECK_OK(ctx, convert_reorder(ctx, plain, "Abcd16a", &expected));
    check_equal(ctx, blocked, expected);
    tensor_release(plain);
    tensor_release(dense);
    tensor_release(blocked);
    tensor_release(expected);
    tensor_release(tensor);
}

/* Opaque formats that do not fit the sizes, and blocked formats of other sizes, must be refused
 * before oneDNN divides by zero. */
static void conversions_into_what_no_tag_describes_are_refused(void **state)
{
    static const char *const formats[] = {
        "opaque4x576x20603x1",
        "opaque4x2304x20603x4x3x6x8x8x0x8x1x1",
        "opaque4x2304x20603x4x3x6x8x8x8x8x0x1",
        "opaque4x576x20603x4x3x6x8x8x8x8x1x1",
        "opaque4x2304x20603x4x3x9x8x8x8x8x1x1",
        "opaque4x2304x20603x4x3x6x4x4x4x4x1x1",
        "4:edcba(2,4,8,3,3)",
        "4:lkjihgfedcba(2,2,2,2,2,2,1,3,3,1,1,1)",
    };
    context_t *ctx = fixture_context(state);
    tensor_t *plain = NULL;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(8, 8, 3, 3), &plain));
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        tensor_t *converted = NULL;
        format_t format;
        CHECK_OK(ctx, format_parse(ctx, formats[i], &format));
        tensor_info_t want = info_mkldnn(&plain->info, &format);
        status_t status = convert_to(ctx, plain, &want, CAUSE_USER, &converted);
        if (status == STATUS_OK) fail_msg("%s is taken", formats[i]);
        assert_null(converted);
        context_clear_error(ctx);
    }
    tensor_release(plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(conversions_take_it_as_what_it_was),
                                       TEST(conversions_into_what_no_tag_describes_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
