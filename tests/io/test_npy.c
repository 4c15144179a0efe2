#define _POSIX_C_SOURCE 200809L

#include "tests/support/scratch.h"
#include "tests/support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/data/npy.h"
#include "tensor/convert/convert.h"

static char path[128];

static int begin_directory(void **state)
{
    const int status = scratch_begin(state);
    snprintf(path, sizeof path, "%s/a.npy", scratch);
    return status;
}

static void put_bytes(const void *bytes, size_t n_bytes)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n_bytes, file), n_bytes);
    fclose(file);
}

static size_t get_bytes(void *bytes, size_t capacity)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t n = fread(bytes, 1, capacity, file);
    fclose(file);
    return n;
}

/* Writes a file of version 1 with this text as header. */
static void put_npy(const char *header, const void *elements, size_t n_bytes)
{
    unsigned char bytes[1024] = "\x93NUMPY\x01";
    size_t length = strlen(header);
    bytes[8] = (unsigned char)length;
    memcpy(bytes + 10, header, length);
    if (n_bytes > 0) memcpy(bytes + 10 + length, elements, n_bytes);
    put_bytes(bytes, 10 + length + n_bytes);
}

static void files_written_by_numpy_are_read(void **state)
{
    /* The file that NumPy 1.24 writes: numpy.save("a.npy", numpy.array([[1, 2, 3], [4, 5, 6]],
     * "<i4")) */
    static const char header[] =
        "\x93NUMPY\x01\x00v\x00{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }"
        "                                                          \n";
    context_t *ctx = fixture_context(state);
    unsigned char file[128 + 24];
    int32_t elements[6] = {1, 2, 3, 4, 5, 6}, read[6];
    tensor_t *tensor = NULL;
    assert_int_equal(sizeof header - 1, 128);
    memcpy(file, header, 128);
    memcpy(file + 128, elements, sizeof elements);
    put_bytes(file, sizeof file);
    CHECK_OK(ctx, npy_load(ctx, path, &tensor));
    assert_int_equal(tensor_dtype(tensor), DTYPE_S32);
    assert_int_equal(tensor_rank(tensor), 2);
    assert_int_equal(tensor_sizes(tensor)[1], 3);
    CHECK_OK(ctx, tensor_read(ctx, tensor, read, sizeof read));
    assert_memory_equal(read, elements, sizeof read);

    /* npy_save must write the same file */
    unsigned char again[256];
    CHECK_OK(ctx, npy_save(ctx, path, tensor));
    assert_int_equal(get_bytes(again, sizeof again), sizeof file);
    assert_memory_equal(again, file, sizeof file);
    tensor_release(tensor);
}

static void every_dtype_and_rank_comes_back(void **state)
{
    static const int64_t sizes[] = {2, 1, 3, 1, 2, 1, 1, 1, 1, 2, 1, 2};
    context_t *ctx = fixture_context(state);
    for (dtype_t dtype = DTYPE_NONE + 1; dtype < DTYPE_COUNT; dtype++) {
        if (dtype == DTYPE_BF16) continue; /* bf16 is written as f32 */
        for (int rank = 0; rank <= TENSOR_MAX_RANK; rank++) {
            tensor_t *tensor = NULL, *back = NULL;
            double difference = 1;
            CHECK_OK(ctx, tensor_full(ctx, dtype, rank, sizes, 1, &tensor));
            CHECK_OK(ctx, npy_save(ctx, path, tensor));
            CHECK_OK(ctx, npy_load(ctx, path, &back));
            assert_true(info_equal(tensor_info(tensor), tensor_info(back)));
            CHECK_OK(ctx, tensor_max_rel_diff(ctx, tensor, back, &difference));
            assert_true(difference == 0);
            tensor_release(tensor);
            tensor_release(back);
        }
    }
}

static void blocked_and_strided_tensors_are_written_row_major(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *last = NULL, *blocked = NULL, *back = NULL;
    double difference = 1;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(2, 17, 3, 5), &x));
    CHECK_OK(ctx, tensor_channels_last(ctx, x, &last));
    CHECK_OK(ctx, convert_reorder(ctx, x, "aBcd16b", &blocked));
    const tensor_t *forms[] = {last, blocked};
    for (int i = 0; i < 2; i++) {
        CHECK_OK(ctx, npy_save(ctx, path, forms[i]));
        CHECK_OK(ctx, npy_load(ctx, path, &back));
        CHECK_OK(ctx, tensor_max_rel_diff(ctx, back, x, &difference));
        assert_true(difference == 0);
        tensor_release(back);
    }
    tensor_release(x);
    tensor_release(last);
    tensor_release(blocked);
}

static void bf16_is_written_as_f32(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *back = NULL;
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_BF16, SHAPE(3), 1.5, &x));
    CHECK_OK(ctx, npy_save(ctx, path, x));
    CHECK_OK(ctx, npy_load(ctx, path, &back));
    assert_int_equal(tensor_dtype(back), DTYPE_F32);
    float elements[3];
    CHECK_OK(ctx, tensor_read(ctx, back, elements, sizeof elements));
    assert_true(elements[2] == 1.5F);
    tensor_release(x);
    tensor_release(back);
}

static void column_order_and_big_endian_are_read(void **state)
{
    context_t *ctx = fixture_context(state);
    const unsigned char columns[] = {0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 2,
                                     0, 0, 0, 5, 0, 0, 0, 3, 0, 0, 0, 6};
    tensor_t *tensor = NULL;
    int32_t read[6];
    put_npy("{\"shape\": (2, 3), 'fortran_order': True, 'descr': '>i4'}\n", columns, 24);
    CHECK_OK(ctx, npy_load(ctx, path, &tensor));
    CHECK_OK(ctx, tensor_read(ctx, tensor, read, sizeof read));
    assert_memory_equal(read, ((int32_t[]){1, 2, 3, 4, 5, 6}), sizeof read);
    tensor_release(tensor);
}

/* NumPy 1.0 to 2.3 reads these headers: a missing byte order is the machine's, and integers of
 * Python 2 end with L. A shape (2) is a number and no tuple; NumPy refuses it, too. */
static void headers_of_other_writers_are_read(void **state)
{
    context_t *ctx = fixture_context(state);
    const float elements[] = {1, 2};
    static const char *const headers[] = {
        "{'descr': 'f4', 'fortran_order': False, 'shape': (2,), }\n",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2L,), }\n",
        "{'descr': '=f4', 'fortran_order': False, 'shape': (1L, 2L), }\n"};
    for (int i = 0; i < 3; i++) {
        tensor_t *tensor = NULL;
        const void *bytes = NULL;
        put_npy(headers[i], elements, sizeof elements);
        CHECK_OK(ctx, npy_load(ctx, path, &tensor));
        assert_int_equal(tensor_rank(tensor), i < 2 ? 1 : 2);
        CHECK_OK(ctx, tensor_data(ctx, tensor, &bytes));
        assert_memory_equal(bytes, elements, sizeof elements);
        tensor_release(tensor);
    }
    tensor_t *tensor = NULL;
    put_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2), }\n", elements,
            sizeof elements);
    CHECK_FAILS(ctx, npy_load(ctx, path, &tensor), STATUS_CORRUPT, "no valid shape");
    put_bytes("TESSERA\n and more", 17);
    CHECK_FAILS(ctx, npy_load(ctx, path, &tensor), STATUS_CORRUPT,
                "has the first bytes of a .tessera file");
}

static void versions_2_and_3_are_read(void **state)
{
    context_t *ctx = fixture_context(state);
    static const char header[] = "{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }\n";
    unsigned char bytes[128] = "\x93NUMPY\x02";
    size_t length = sizeof header - 1;
    bytes[8] = (unsigned char)length;
    memcpy(bytes + 12, header, length);
    for (unsigned char version = 2; version <= 3; version++) {
        tensor_t *tensor = NULL;
        bytes[6] = version;
        put_bytes(bytes, 12 + length + 2);
        CHECK_OK(ctx, npy_load(ctx, path, &tensor));
        assert_int_equal(tensor_numel(tensor), 2);
        tensor_release(tensor);
    }
}

static void broken_headers_are_refused_with_their_reason(void **state)
{
    static const struct {
        const char *header;
        status_t status;
        const char *part;
    } cases[] = {
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", STATUS_CORRUPT,
         "8 bytes of elements, f32[3] needs 12"},
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}", STATUS_UNSUPPORTED,
         "elements of type '<c8'"},
        {"{'descr': '<f4', 'fortran_order': False}", STATUS_CORRUPT, "descr, fortran_order"},
        {"{'descr': '<f4', 'descr': '<f4', 'shape': (1,)}", STATUS_CORRUPT, "keys"},
        {"{'descr': '<f4', 'fortran_order': 7, 'shape': (1,)}", STATUS_CORRUPT, "fortran_order"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", STATUS_CORRUPT, "shape"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
         STATUS_CORRUPT, "shape"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}",
         STATUS_INVALID_ARGUMENT, "overflow"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1)}",
         STATUS_UNSUPPORTED, "rank of more than 12"},
        {"['descr']", STATUS_CORRUPT, "dict"},
    };
    context_t *ctx = fixture_context(state);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tensor_t *tensor = NULL;
        put_npy(cases[i].header, "12345678", 8);
        CHECK_FAILS(ctx, npy_load(ctx, path, &tensor), cases[i].status, cases[i].part);
        assert_null(tensor);
    }
}

static void a_file_cut_anywhere_is_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    unsigned char bytes[256];
    tensor_t *tensor = NULL;
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(2, 3), 1, &tensor));
    CHECK_OK(ctx, npy_save(ctx, path, tensor));
    tensor_release(tensor);
    tensor = NULL;
    size_t n_bytes = get_bytes(bytes, sizeof bytes);
    for (size_t n = 0; n < n_bytes; n++) {
        put_bytes(bytes, n);
        assert_int_equal(npy_load(ctx, path, &tensor), STATUS_CORRUPT);
        assert_null(tensor);
    }
}

static void a_file_that_is_not_there_is_named(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *tensor = NULL;
    CHECK_FAILS(ctx, npy_load(ctx, "/tmp/there/is/none.npy", &tensor), STATUS_IO, "none.npy");
}

static status_t there_and_back(context_t *ctx)
{
    tensor_t *x = NULL, *back = NULL;
    TRY(tensor_full(ctx, DTYPE_F32, SHAPE(2, 3), 1, &x));
    status_t status = npy_save(ctx, path, x);
    if (status == STATUS_OK) status = npy_load(ctx, path, &back);
    tensor_release(x);
    tensor_release(back);
    return status;
}

static void a_refused_allocation_leaves_nothing_behind(void **state)
{
    (void)state;
    check_every_allocation(there_and_back);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(files_written_by_numpy_are_read),
        TEST(every_dtype_and_rank_comes_back),
        TEST(blocked_and_strided_tensors_are_written_row_major),
        TEST(bf16_is_written_as_f32),
        TEST(column_order_and_big_endian_are_read),
        TEST(headers_of_other_writers_are_read),
        TEST(versions_2_and_3_are_read),
        TEST(broken_headers_are_refused_with_their_reason),
        TEST(a_file_cut_anywhere_is_refused),
        TEST(a_file_that_is_not_there_is_named),
        TEST(a_refused_allocation_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, begin_directory, scratch_end);
}
