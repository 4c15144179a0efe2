/* Conversions to and from memory formats (tags), including those that oneDNN does not support.
 * Every element must be at the offset that the tag says, and padding must be zero. */
#include "tests/support/support.h"

#include <string.h>

#include "tensor/convert/convert_impl.h"
#include "tensor/counters.h"
#include "tensor/tensor.h"
#include "tensor/tensor_impl.h"

/* Writes the bytes of an element: its row-major index, counted from 1. For float dtypes it is a
 * normal number, because conversions may set denormals to zero. */
static void number_bytes(int64_t number, dtype_t dtype, char *out)
{
    const int64_t normal = dtype == DTYPE_F32 ? 0x3f800000 : dtype == DTYPE_BF16 ? 0x3000 : 0;
    number += normal;
    memcpy(out, &number, dtype_size(dtype));
}

static tensor_t *make_numbered(context_t *ctx, dtype_t dtype, const int64_t *sizes)
{
    tensor_t *tensor = NULL;
    void *bytes = NULL;
    const size_t size = dtype_size(dtype);
    CHECK_OK(ctx, tensor_empty(ctx, dtype, 4, sizes, &tensor));
    CHECK_OK(ctx, tensor_data_mutable(ctx, tensor, &bytes));
    for (int64_t i = 0; i < tensor_numel(tensor); i++)
        number_bytes(i + 1, dtype, (char *)bytes + (size_t)i * size);
    return tensor;
}

static void check_elements(const tensor_t *tensor)
{
    const tensor_info_t *info = tensor_info(tensor);
    const size_t size = dtype_size(info->dtype);
    const char *bytes = tensor_bytes(tensor);
    int64_t index[TENSOR_MAX_RANK] = {0}, number = 0;
    char wanted[8];
    do {
        number_bytes(++number, info->dtype, wanted);
        const int64_t at = format_offset(&info->format, info->sizes, index);
        assert_memory_equal(bytes + (size_t)at * size, wanted, size);
    } while (shape_next(4, info->sizes, index));
    assert_true(convert_padding_is_zero(info, bytes));
}

static void check_tag(context_t *ctx, dtype_t dtype, const int64_t *sizes, const char *tag)
{
    tensor_t *plain = make_numbered(ctx, dtype, sizes), *packed = NULL, *back = NULL;
    format_t format;
    CHECK_OK(ctx, format_parse(ctx, tag, &format));
    const tensor_info_t want = info_mkldnn(tensor_info(plain), &format);
    CHECK_OK(ctx, convert_make(ctx, plain, &want, CAUSE_USER, &packed));
    check_elements(packed);
    const tensor_info_t dense = info_dense(dtype, 4, sizes);
    CHECK_OK(ctx, convert_make(ctx, packed, &dense, CAUSE_USER, &back));
    check_elements(back);
    tensor_release(plain);
    tensor_drop(packed);
    tensor_drop(back);
}

static void elements_are_where_the_tag_says(void **state)
{
    static const char *const tags[] = {"ABcd2b4a2b", "ABcd4a4b", "BAcd2a3b5a",  "cABd3a2b",
                                       "dcba",       "aBcd16b",  "ABCD2d3c2b2a"};
    static const int64_t sizes[][4] = {{128, 4, 3, 3}, {17, 7, 3, 5}, {1, 31, 2, 1}, {3, 1, 1, 7}};
    static const dtype_t dtypes[] = {DTYPE_F32, DTYPE_BF16, DTYPE_S8, DTYPE_S32};
    context_t *ctx = fixture_context(state);
    for (size_t t = 0; t < sizeof tags / sizeof *tags; t++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
                check_tag(ctx, dtypes[d], sizes[s], tags[t]);
}

/* oneDNN does not convert directly between these two tags, so row-major bytes are used in between.
 * Conversions by our own loops count as copies. */
static void conversions_without_onednn_count_as_copies(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *plain = make_numbered(ctx, DTYPE_BF16, (const int64_t[]){12, 4, 2, 3});
    tensor_t *first = NULL, *second = NULL;
    counters_t counters;
    CHECK_OK(ctx, convert_reorder(ctx, plain, "ABcd2b4a2b", &first));
    CHECK_OK(ctx, convert_reorder(ctx, first, "BAcd2a3b5a", &second));
    check_elements(second);
    counters_read(ctx, &counters);
    assert_true(counters_copies(&counters) + counters.reorders[CAUSE_USER] == 3);
    assert_true(counters_copies(&counters) >= 2);
    tensor_release(plain);
    tensor_release(first);
    tensor_release(second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(elements_are_where_the_tag_says),
                                       TEST(conversions_without_onednn_count_as_copies)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
