/* Copies of strided elements by our own loops, compared with copying one element at a time. */
#include "tensor/convert/convert_impl.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/support.h"

enum { MOST = 1 << 16 };

/* Copies x to the order of dst, and compares. Strides are in elements; sizes are in the order of
 * dst. */
static void check_copy(int rank, const int64_t *sizes, const int64_t *src, const int64_t *dst,
                       dtype_t dtype, int n_threads)
{
    static unsigned char x[MOST * 8], out[MOST * 8], want[MOST * 8];
    const size_t size = dtype_size(dtype);
    int64_t index[TENSOR_MAX_RANK] = {0};
    for (size_t i = 0; i < sizeof x; i++) x[i] = (unsigned char)rand();
    memset(out, 0, sizeof out);
    memset(want, 0, sizeof want);
    do {
        int64_t from = 0, to = 0;
        for (int d = 0; d < rank; d++) {
            from += index[d] * src[d];
            to += index[d] * dst[d];
        }
        assert_true(from < MOST && to < MOST);
        memcpy(want + (size_t)to * size, x + (size_t)from * size, size);
    } while (shape_next(rank, sizes, index));
    convert_strided(rank, sizes, dtype, src, x, dtype, dst, out, n_threads);
    assert_memory_equal(out, want, sizeof out);
}

static void elements_change_their_places(void **state)
{
    static const dtype_t dtypes[] = {DTYPE_U8, DTYPE_BF16, DTYPE_F32, DTYPE_F64};
    static const struct {
        int rank;
        int64_t sizes[4], src[4], dst[4];
    } all[] = {
        {1, {9001}, {1}, {1}},                                    /* contiguous */
        {2, {200, 300}, {1, 200}, {300, 1}},                      /* a matrix, transposed */
        {3, {3, 61, 67}, {1, 201, 3}, {4087, 67, 1}},             /* channels last to first */
        {3, {3, 61, 67}, {4087, 67, 1}, {1, 201, 3}},             /* and back */
        {4, {7, 31, 17, 2}, {1054, 34, 1, 17}, {1054, 34, 2, 1}}, /* pairs of elements */
        {3, {17, 31, 3}, {97, 3, 1}, {124, 4, 1}},                /* gaps in both */
        {2, {500, 33}, {0, 1}, {40, 1}},                          /* one row, repeated */
        {2, {500, 33}, {1, 0}, {33, 1}},                          /* one column, repeated */
        {4, {1, 1, 1, 1}, {5, 5, 5, 5}, {1, 1, 1, 1}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
            for (int n_threads = 1; n_threads <= 3; n_threads++)
                check_copy(all[i].rank, all[i].sizes, all[i].src, all[i].dst, dtypes[d], n_threads);
}

static void runs_of_any_length_are_copied(void **state)
{
    static char x[8192], out[8192], want[8192];
    (void)state;
    for (size_t i = 0; i < sizeof x; i++) x[i] = (char)rand();
    for (size_t bytes = 0; bytes <= 80; bytes++)
        for (size_t gap = 0; gap < 2; gap++) {
            memset(out, 0, sizeof out);
            memset(want, 0, sizeof want);
            for (size_t i = 0; i < 50; i++)
                memcpy(want + i * (bytes + gap), x + i * (bytes + 3 * gap), bytes);
            convert_runs(50, bytes, x, (int64_t)(bytes + 3 * gap), out, (int64_t)(bytes + gap));
            assert_memory_equal(out, want, sizeof out);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_change_their_places),
        cmocka_unit_test(runs_of_any_length_are_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
