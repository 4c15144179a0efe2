#define _POSIX_C_SOURCE 200809L

#include "tests/support/scratch.h"
#include "tests/support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/gguf/gguf.h"
#include "tensor/convert/convert.h"
#include "tensor/tensor_impl.h"

/* Written by the format's own package: gguf_files.py. */
#define BLOCKS TESSERA_SOURCE_DIR "/tests/io/blocks.gguf"

static char path[128];

static int begin_directory(void **state)
{
    const int status = scratch_begin(state);
    snprintf(path, sizeof path, "%s/a.gguf", scratch);
    return status;
}

/* ---- files that the test writes ---- */

static unsigned char bytes[40000];
static size_t n_bytes;

static void put_number(uint64_t number, int n)
{
    for (int i = 0; i < n; i++) bytes[n_bytes++] = (unsigned char)(number >> 8 * i & 0xff);
}

static void put_string(const char *text)
{
    put_number(strlen(text), 8);
    for (; *text != '\0'; text++) bytes[n_bytes++] = (unsigned char)*text;
}

static void begin(uint64_t n_tensors, uint64_t n_values)
{
    n_bytes = 0;
    put_number(0x46554747, 4);
    put_number(3, 4);
    put_number(n_tensors, 8);
    put_number(n_values, 8);
}

/* A value's key and type; the caller adds the value. */
static void put_key(const char *key, uint64_t type)
{
    put_string(key);
    put_number(type, 4);
}

static void put_tensor(const char *name, int rank, const uint64_t *sizes, uint64_t type,
                       uint64_t offset)
{
    put_string(name);
    put_number((uint64_t)rank, 4);
    for (int i = 0; i < rank; i++) put_number(sizes[i], 8);
    put_number(type, 4);
    put_number(offset, 8);
}

/* Zeros up to a multiple of the alignment, then n bytes 1, 2, 3, ... */
static void put_elements(size_t alignment, size_t n)
{
    while (n_bytes % alignment != 0) put_number(0, 1);
    for (size_t i = 1; i <= n; i++) put_number(i, 1);
}

static void write_file(void)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n_bytes, file), n_bytes);
    fclose(file);
}

static void read_blocks(void)
{
    FILE *file = fopen(BLOCKS, "rb");
    assert_non_null(file);
    n_bytes = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    assert_true(n_bytes < sizeof bytes);
}

static void check_refused(context_t *ctx, status_t status, const char *part)
{
    gguf_t *file = NULL;
    write_file();
    CHECK_FAILS(ctx, gguf_open(ctx, path, &file), status, part);
    assert_null(file);
}

static void check_accepted(context_t *ctx)
{
    gguf_t *file = NULL;
    write_file();
    CHECK_OK(ctx, gguf_open(ctx, path, &file));
    gguf_close(file);
}

/* ---- reading ---- */

static void numbers_of_quantised_blocks_are_those_of_the_formats_own_package(void **state)
{
    static const char *const types[] = {"Q4_0", "Q4_1", "Q5_0", "Q5_1",
                                        "Q8_0", "Q4_K", "Q5_K", "Q6_K"};
    context_t *ctx = fixture_context(state);
    gguf_t *file = NULL;
    CHECK_OK(ctx, gguf_open(ctx, BLOCKS, &file));
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char name[32];
        float read[3 * 256], wanted[3 * 256];
        tensor_t *grouped = NULL, *tensor = NULL, *values = NULL;
        grouping_t grouping;
        const gguf_info_t *info = gguf_find(file, types[i]);
        snprintf(name, sizeof name, "%s.values", types[i]);
        CHECK_OK(ctx, gguf_tensor(ctx, file, types[i], &grouped));
        CHECK_OK(ctx, gguf_tensor(ctx, file, name, &values));
        CHECK_OK(ctx, to_dense(ctx, grouped, &tensor));
        assert_true(format_grouping(&tensor_info(grouped)->format, &grouping));
        assert_int_equal(grouping.bits, types[i][1] == '4' ? 4 : 8);
        assert_string_equal(info->type, types[i]);
        assert_true(info->is_quantized && info->dtype == DTYPE_F32);
        assert_true(shape_equal(tensor_rank(tensor), tensor_sizes(tensor), SHAPE(3, 256)));
        CHECK_OK(ctx, tensor_read(ctx, tensor, read, sizeof read));
        CHECK_OK(ctx, tensor_read(ctx, values, wanted, sizeof wanted));
        assert_memory_equal(read, wanted, sizeof read);
        tensor_release(values);
        tensor_release(tensor);
        tensor_release(grouped);
    }
    gguf_close(file);
}

static void tensors_of_numbers_stay_in_the_file(void **state)
{
    static const struct {
        const char *name, *type;
        dtype_t dtype;
    } all[] = {{"float16", "F16", DTYPE_F16}, {"float32", "F32", DTYPE_F32},
               {"float64", "F64", DTYPE_F64}, {"bfloat16", "BF16", DTYPE_BF16},
               {"int8", "I8", DTYPE_S8},      {"int16", "I16", DTYPE_S16},
               {"int32", "I32", DTYPE_S32},   {"int64", "I64", DTYPE_S64}};
    static const double floats[] = {1, -2, 0.5, 0, 3, 4};
    context_t *ctx = fixture_context(state);
    gguf_t *file = NULL;
    CHECK_OK(ctx, gguf_open(ctx, BLOCKS, &file));
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const gguf_info_t *info = gguf_find(file, all[i].name);
        unsigned char read[48];
        tensor_t *tensor = NULL;
        CHECK_OK(ctx, gguf_tensor(ctx, file, all[i].name, &tensor));
        assert_string_equal(info->type, all[i].type);
        assert_false(info->is_quantized);
        assert_int_equal(tensor_dtype(tensor), all[i].dtype);
        assert_true(shape_equal(tensor_rank(tensor), tensor_sizes(tensor), SHAPE(2, 1, 3)));
        assert_true(storage_is_read_only(tensor->storage));
        CHECK_OK(ctx, tensor_read(ctx, tensor, read, sizeof read));
        for (size_t j = 0; j < 6; j++) {
            const double wanted = dtype_is_floating(all[i].dtype) ? floats[j] : (int)floats[j];
            assert_true(dtype_load(all[i].dtype, read + j * dtype_size(all[i].dtype)) == wanted);
        }
        CHECK_OK(ctx, tensor_fill(ctx, tensor, 7));
        tensor_release(tensor);
    }
    tensor_t *tensor = NULL;
    float read[6];
    CHECK_OK(ctx, gguf_tensor(ctx, file, "float32", &tensor));
    gguf_close(file);
    CHECK_OK(ctx, tensor_read(ctx, tensor, read, sizeof read));
    assert_true(read[0] == 1 && read[5] == 4);
    tensor_release(tensor);
}

static void check_array(const gguf_t *file, const char *key, int n, const double *numbers)
{
    const gguf_value_t *value = gguf_find_value(file, key);
    assert_true(value->is_array);
    assert_int_equal(value->n, n);
    for (int i = 0; i < n; i++)
        assert_true(dtype_load(value->dtype, (const char *)value->elements +
                                                 (size_t)i * dtype_size(value->dtype)) ==
                    numbers[i]);
}

static void metadata_of_every_type_is_read(void **state)
{
    static const struct {
        const char *key;
        int64_t number;
    } integers[] = {{"test.uint8", 200},
                    {"test.int8", -100},
                    {"test.uint16", 60000},
                    {"test.int16", -30000},
                    {"test.uint32", 4000000000},
                    {"test.int32", -2000000000},
                    {"test.bool", 1},
                    {"test.int64", -((int64_t)1 << 62)}};
    context_t *ctx = fixture_context(state);
    gguf_t *file = NULL;
    double number = 0;
    const char *text = "before";
    CHECK_OK(ctx, gguf_open(ctx, BLOCKS, &file));
    assert_string_equal(gguf_path(file), BLOCKS);
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++) {
        int64_t integer = 7;
        CHECK_OK(ctx, gguf_integer(ctx, file, integers[i].key, &integer));
        CHECK_OK(ctx, gguf_number(ctx, file, integers[i].key, &number));
        assert_int_equal(integer, integers[i].number);
        assert_true(number == (double)integers[i].number);
    }
    CHECK_OK(ctx, gguf_number(ctx, file, "test.float32", &number));
    assert_true(number == 0.5);
    CHECK_OK(ctx, gguf_number(ctx, file, "test.float64", &number));
    assert_true(number == 0.1);
    CHECK_OK(ctx, gguf_number(ctx, file, "test.uint64", &number));
    assert_true(number == 0x1p63);
    CHECK_OK(ctx, gguf_text(ctx, file, "nothing", &text));
    assert_string_equal(text, "before");
    CHECK_OK(ctx, gguf_text(ctx, file, "test.string", &text));
    assert_string_equal(text, "zw\xc3\xb6lf \xe2\x9c\x93");
    check_array(file, "test.numbers", 3, (const double[]){1, -2, 3});
    check_array(file, "test.floats", 2, (const double[]){0.5, -1.5});
    const gguf_value_t *strings = gguf_find_value(file, "test.strings");
    assert_int_equal(strings->n, 3);
    assert_int_equal(strings->strings[1].n_bytes, 0);
    assert_int_equal(strings->strings[2].n_bytes, 3);
    assert_memory_equal(strings->strings[2].text, "\xc3\xbc\n", 3);
    assert_string_equal(gguf_value(file, 0)->key, "general.architecture");
    assert_null(gguf_value(file, gguf_n_values(file)));
    assert_null(gguf_find_value(file, "test"));
    assert_int_equal(gguf_count(file), 25);
    assert_string_equal(gguf_info(file, 0)->name, "Q4_0");
    assert_null(gguf_info(file, -1));
    assert_null(gguf_find(file, "Q"));
    gguf_close(file);
}

static void values_of_other_types_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    gguf_t *file = NULL;
    int64_t integer = 7;
    double number = 7;
    const char *text = NULL;
    tensor_t *tensor = NULL;
    CHECK_OK(ctx, gguf_open(ctx, BLOCKS, &file));
    CHECK_FAILS(ctx, gguf_integer(ctx, file, "test.float32", &integer), STATUS_CORRUPT,
                "\"test.float32\" is f32, must be an integer");
    CHECK_FAILS(ctx, gguf_integer(ctx, file, "test.uint64", &integer), STATUS_CORRUPT,
                "\"test.uint64\" is 9223372036854775808, at most 2^63 - 1");
    CHECK_FAILS(ctx, gguf_number(ctx, file, "test.string", &number), STATUS_CORRUPT,
                "\"test.string\" is string, must be a number");
    CHECK_FAILS(ctx, gguf_number(ctx, file, "test.numbers", &number), STATUS_CORRUPT,
                "\"test.numbers\" is an array of s32, must be a number");
    CHECK_FAILS(ctx, gguf_text(ctx, file, "test.strings", &text), STATUS_CORRUPT,
                "\"test.strings\" is an array of string, must be a string");
    assert_true(integer == 7 && number == 7 && text == NULL);
    CHECK_FAILS(ctx, gguf_tensor(ctx, file, "Q2_K", &tensor), STATUS_UNSUPPORTED,
                "has elements of type Q2_K");
    CHECK_FAILS(ctx, gguf_tensor(ctx, file, "none", &tensor), STATUS_INVALID_ARGUMENT,
                "\"none\" is no tensor of " BLOCKS);
    assert_null(tensor);
    gguf_close(file);
}

static void unaligned_and_empty_tensors_are_copied(void **state)
{
    context_t *ctx = fixture_context(state);
    gguf_t *file = NULL;
    tensor_t *a = NULL, *b = NULL, *c = NULL;
    unsigned char read[4];
    begin(3, 2);
    put_key("general.alignment", 4);
    put_number(1, 4);
    put_key("k", 8);
    put_string("1");
    put_tensor("a", 1, (const uint64_t[]){1}, 24, 0);
    put_tensor("b", 0, NULL, 0, 1);
    put_tensor("c", 2, (const uint64_t[]){64, 0}, 8, 5);
    put_elements(1, 5);
    write_file();
    CHECK_OK(ctx, gguf_open(ctx, path, &file));
    CHECK_OK(ctx, gguf_tensor(ctx, file, "a", &a));
    CHECK_OK(ctx, gguf_tensor(ctx, file, "b", &b));
    CHECK_OK(ctx, gguf_tensor(ctx, file, "c", &c));
    assert_int_not_equal(gguf_find(file, "b")->offset % 4, 0);
    CHECK_OK(ctx, tensor_read(ctx, b, read, 4));
    assert_memory_equal(read, "\2\3\4\5", 4);
    assert_true(shape_equal(tensor_rank(c), tensor_sizes(c), SHAPE(0, 64)));
    tensor_release(c);
    tensor_release(b);
    tensor_release(a);
    gguf_close(file);
}

static void files_in_memory_are_read(void **state)
{
    context_t *ctx = fixture_context(state);
    gguf_t *file = NULL;
    tensor_t *tensor = NULL;
    float read[6];
    read_blocks();
    CHECK_OK(ctx, gguf_open_bytes(ctx, bytes, n_bytes, &file));
    CHECK_OK(ctx, gguf_tensor(ctx, file, "float32", &tensor));
    assert_string_equal(gguf_path(file), "memory");
    gguf_close(file);
    memset(bytes, 0, n_bytes);
    CHECK_OK(ctx, tensor_read(ctx, tensor, read, sizeof read));
    assert_true(read[0] == 1 && read[5] == 4);
    tensor_release(tensor);
    CHECK_FAILS(ctx, gguf_open_bytes(ctx, "GGUF", 4, &file), STATUS_CORRUPT,
                "gguf: memory, the version needs 4 bytes");
}

static void metadata_travels_in_a_tensor(void **state)
{
    context_t *ctx = fixture_context(state);
    gguf_t *file = NULL, *copy = NULL;
    tensor_t *metadata = NULL;
    const void *data = NULL;
    CHECK_OK(ctx, gguf_open(ctx, BLOCKS, &file));
    CHECK_OK(ctx, gguf_metadata(ctx, file, &metadata));
    assert_int_equal(tensor_dtype(metadata), DTYPE_U8);
    CHECK_OK(ctx, tensor_data(ctx, metadata, &data));
    CHECK_OK(ctx, gguf_open_bytes(ctx, data, (size_t)tensor_numel(metadata), &copy));
    assert_int_equal(gguf_count(copy), 0);
    assert_int_equal(gguf_n_values(copy), gguf_n_values(file));
    for (int i = 0; i < gguf_n_values(file); i++) {
        const gguf_value_t *a = gguf_value(file, i), *b = gguf_value(copy, i);
        assert_string_equal(a->key, b->key);
        assert_true(a->dtype == b->dtype && a->is_array == b->is_array && a->n == b->n);
        if (a->dtype != DTYPE_NONE)
            assert_memory_equal(a->elements, b->elements, (size_t)a->n * dtype_size(a->dtype));
    }
    gguf_close(copy);
    gguf_close(file);
    tensor_release(metadata);
}

/* ---- broken files ---- */

static void broken_beginnings_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    begin(0, 0);
    check_accepted(ctx);
    bytes[0] = 'X';
    check_refused(ctx, STATUS_CORRUPT, "a.gguf does not begin with GGUF");
    static const struct {
        uint64_t version;
        const char *part;
    } versions[] = {{0, "has version 0, versions 2 and 3 are supported"},
                    {1, "has version 1, versions"},
                    {4, "has version 4, versions"},
                    {0xffffffff, "has version 4294967295, versions"},
                    {0x03000000, "is a big-endian file"}};
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        begin(0, 0);
        n_bytes = 4;
        put_number(versions[i].version, 4);
        n_bytes = 24;
        check_refused(ctx, STATUS_UNSUPPORTED, versions[i].part);
    }
    begin(0, 0);
    bytes[4] = 2;
    check_accepted(ctx);
    begin(UINT64_MAX, 0);
    check_refused(ctx, STATUS_CORRUPT, "has 18446744073709551615 tensors, the file has 24 bytes");
    begin(0, (uint64_t)1 << 63);
    check_refused(ctx, STATUS_CORRUPT, "has 9223372036854775808 values, the file has 24 bytes");
    gguf_t *file = NULL;
    CHECK_FAILS(ctx, gguf_open(ctx, "/tmp/there/is/none.gguf", &file), STATUS_IO, "none.gguf");
    memcpy(bytes, "TESSERA\n", 8);
    check_refused(ctx, STATUS_CORRUPT, "has the first bytes of a .tessera file");
}

/* Starts a file with one value of this type; the caller adds it. */
static void begin_value(uint64_t type)
{
    begin(0, 1);
    put_key("k", type);
}

static void broken_values_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    begin_value(13);
    put_number(0, 8);
    check_refused(ctx, STATUS_CORRUPT, "\"k\" has a value of type 13, types are 0 to 12");
    begin_value(7);
    put_number(2, 1);
    check_refused(ctx, STATUS_CORRUPT, "\"k\" has a boolean of 2, must be 0 or 1");
    begin_value(8);
    put_number(UINT64_MAX, 8);
    check_refused(ctx, STATUS_CORRUPT,
                  "a string needs 18446744073709551615 bytes at byte 45, the "
                  "file has 45");
    begin_value(8);
    put_number(1, 8);
    put_number(0, 1);
    check_refused(ctx, STATUS_UNSUPPORTED, "a string contains the character U+0000");
    begin_value(9);
    put_number(9, 4);
    put_number(0, 8);
    check_refused(ctx, STATUS_UNSUPPORTED, "\"k\" is an array of arrays");
    begin_value(9);
    put_number(4, 4);
    put_number((uint64_t)1 << 62, 8);
    check_refused(ctx, STATUS_CORRUPT,
                  "\"k\" has 4611686018427387904 elements, the file has 0 "
                  "bytes after their number");
    begin_value(9);
    put_number(8, 4);
    put_number(2, 8);
    put_number(0, 8);
    check_refused(ctx, STATUS_CORRUPT, "\"k\" has 2 elements, the file has 8 bytes");
    begin_value(9);
    put_number(8, 4);
    put_number(1, 8);
    put_number(1, 8);
    check_refused(ctx, STATUS_CORRUPT, "a string of an array needs 1 bytes");
    begin(0, 1);
    put_number(65536, 8);
    n_bytes += 65536 < sizeof bytes - n_bytes ? 65536 : 100;
    check_refused(ctx, STATUS_CORRUPT, "a key needs 65536 bytes");
    begin(0, 1);
    put_key("", 0);
    put_number(0, 1);
    check_refused(ctx, STATUS_CORRUPT, "has an empty key");
    begin(0, 3);
    for (int i = 0; i < 3; i++) {
        put_key(i == 1 ? "b" : "a", 0);
        put_number(0, 1);
    }
    check_refused(ctx, STATUS_CORRUPT, "has two values of \"a\"");
}

static void broken_alignments_are_refused(void **state)
{
    static const struct {
        uint64_t type, number;
        const char *part;
    } cases[] = {{4, 0, "general.alignment is 0, must be a power of 2"},
                 {4, 13, "general.alignment is 13, must be a power of 2"},
                 {5, 32, "general.alignment must be a u32"},
                 {8, 0, "general.alignment must be a u32"}};
    context_t *ctx = fixture_context(state);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin(0, 1);
        put_key("general.alignment", cases[i].type);
        put_number(cases[i].number, cases[i].type == 8 ? 8 : 4);
        check_refused(ctx, STATUS_CORRUPT, cases[i].part);
    }
    begin(1, 1);
    put_key("general.alignment", 4);
    put_number(0x80000000, 4);
    put_tensor("t", 1, (const uint64_t[]){1}, 24, 0);
    put_number(0, 8);
    check_refused(ctx, STATUS_CORRUPT, "tensor \"t\" of 1 bytes ends after the file");
}

static void broken_tensors_are_refused(void **state)
{
    static const struct {
        int rank;
        uint64_t sizes[5];
        uint64_t type, offset;
        status_t status;
        const char *part;
    } cases[] = {
        {2, {2, 4}, 0, 0, STATUS_OK, ""},
        {1, {32}, 8, 0, STATUS_OK, ""},
        {0, {0}, 0, 0, STATUS_OK, ""},
        {5, {1, 1, 1, 1, 1}, 0, 0, STATUS_UNSUPPORTED, "tensor \"t\" has 5 dimensions, at most 4"},
        {1, {1}, 4, 0, STATUS_UNSUPPORTED, "tensor \"t\" has unknown type 4"},
        {1, {1}, 0xffffffff, 0, STATUS_UNSUPPORTED, "has unknown type 4294967295"},
        {1, {UINT64_MAX}, 0, 0, STATUS_CORRUPT, "has a size of 18446744073709551615"},
        {2, {(uint64_t)1 << 32, (uint64_t)1 << 32}, 24, 0, STATUS_CORRUPT, "sizes that overflow"},
        {3,
         {(uint64_t)1 << 32, (uint64_t)1 << 32, 0},
         24,
         0,
         STATUS_CORRUPT,
         "sizes that overflow"},
        {1, {(uint64_t)1 << 62}, 0, 0, STATUS_CORRUPT, "tensor \"t\" has sizes that overflow"},
        {1, {16}, 8, 0, STATUS_CORRUPT, "has rows of 16 elements, Q8_0 needs a multiple of 32"},
        {0, {0}, 12, 0, STATUS_CORRUPT, "has rows of 1 elements, Q4_K needs a multiple of 256"},
        {1, {1}, 0, 32, STATUS_CORRUPT, "begins at byte 32 of the elements, must begin at 0"},
        {1, {1}, 0, UINT64_MAX, STATUS_CORRUPT, "must begin at 0"},
        {1, {17}, 0, 0, STATUS_CORRUPT, "tensor \"t\" of 68 bytes ends after the file"},
        {1, {((uint64_t)1 << 61) - 1}, 0, 0, STATUS_CORRUPT, "ends after the file"},
    };
    context_t *ctx = fixture_context(state);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin(1, 0);
        put_tensor("t", cases[i].rank, cases[i].sizes, cases[i].type, cases[i].offset);
        put_elements(32, 64);
        if (cases[i].status == STATUS_OK)
            check_accepted(ctx);
        else
            check_refused(ctx, cases[i].status, cases[i].part);
    }
}

static void tensors_follow_each_other_at_the_alignment(void **state)
{
    static const struct {
        const char *name;
        uint64_t offset;
        const char *part;
    } cases[] = {{"b", 64, NULL},
                 {"a", 64, "has two tensors \"a\""},
                 {"b", 36, "tensor \"b\" begins at byte 36 of the elements, must begin at 64"},
                 {"b", 0, "tensor \"b\" begins at byte 0 of the elements, must begin at 64"}};
    context_t *ctx = fixture_context(state);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin(2, 1);
        put_key("general.alignment", 4);
        put_number(64, 4);
        put_tensor("a", 1, (const uint64_t[]){9}, 0, 0);
        put_tensor(cases[i].name, 1, (const uint64_t[]){1}, 0, cases[i].offset);
        put_elements(64, 68);
        if (cases[i].part == NULL)
            check_accepted(ctx);
        else
            check_refused(ctx, STATUS_CORRUPT, cases[i].part);
    }
}

static void a_file_cut_anywhere_is_refused(void **state)
{
    enum { PADDING = 12 }; /* zeros after the last tensor, which nobody needs */
    context_t *ctx = fixture_context(state);
    read_blocks();
    write_file();
    for (size_t n = n_bytes - 1; n > 0; n -= IS_SANITIZED && n > 4000 ? 7 : 1) {
        gguf_t *file = NULL;
        assert_int_equal(truncate(path, (off_t)n), 0);
        const status_t status = gguf_open(ctx, path, &file);
        assert_int_equal(status, n >= n_bytes - PADDING ? STATUS_OK : STATUS_CORRUPT);
        assert_int_equal(file != NULL, status == STATUS_OK);
        gguf_close(file);
    }
}

/* Whatever a byte of the header becomes, the file is refused, or all of it can be read. */
static void no_byte_of_the_header_breaks_the_reader(void **state)
{
    static const unsigned char changes[] = {0x01, 0x80, 0xff, 0x20};
    context_t *ctx = fixture_context(state);
    gguf_t *file = NULL;
    CHECK_OK(ctx, gguf_open(ctx, BLOCKS, &file));
    const size_t n_header = gguf_info(file, 0)->offset;
    gguf_close(file);
    read_blocks();
    write_file();
    FILE *opened = fopen(path, "r+b");
    assert_non_null(opened);
    setvbuf(opened, NULL, _IONBF, 0);
    for (size_t i = 0; i < 4 * n_header; i += IS_SANITIZED ? 3 : 1) {
        const size_t at = i / 4;
        fseek(opened, (long)at, SEEK_SET);
        fputc(bytes[at] ^ changes[i % 4], opened);
        const status_t status = gguf_open(ctx, path, &file);
        if (status != STATUS_OK) {
            assert_true(status == STATUS_CORRUPT || status == STATUS_UNSUPPORTED);
            assert_non_null(strstr(context_error(ctx), "a.gguf"));
        }
        for (int j = 0; j < gguf_count(file); j++) {
            tensor_t *tensor = NULL;
            if (gguf_tensor(ctx, file, gguf_info(file, j)->name, &tensor) != STATUS_OK)
                assert_int_equal(context_status(ctx), STATUS_UNSUPPORTED);
            tensor_release(tensor);
        }
        gguf_close(file);
        fseek(opened, (long)at, SEEK_SET);
        fputc(bytes[at], opened);
    }
    fclose(opened);
}

static status_t open_and_read(context_t *ctx)
{
    gguf_t *file = NULL;
    tensor_t *tensor = NULL, *mapped = NULL;
    TRY(gguf_open(ctx, BLOCKS, &file));
    status_t status = gguf_tensor(ctx, file, "Q4_K", &tensor);
    if (status == STATUS_OK) status = gguf_tensor(ctx, file, "float32", &mapped);
    tensor_release(mapped);
    tensor_release(tensor);
    tensor_t *metadata = NULL;
    if (status == STATUS_OK) status = gguf_metadata(ctx, file, &metadata);
    tensor_release(metadata);
    gguf_close(file);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    check_every_allocation(open_and_read);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(numbers_of_quantised_blocks_are_those_of_the_formats_own_package),
        TEST(tensors_of_numbers_stay_in_the_file),
        TEST(metadata_of_every_type_is_read),
        TEST(values_of_other_types_are_refused),
        TEST(unaligned_and_empty_tensors_are_copied),
        TEST(files_in_memory_are_read),
        TEST(metadata_travels_in_a_tensor),
        TEST(broken_beginnings_are_refused),
        TEST(broken_values_are_refused),
        TEST(broken_alignments_are_refused),
        TEST(broken_tensors_are_refused),
        TEST(tensors_follow_each_other_at_the_alignment),
        TEST(a_file_cut_anywhere_is_refused),
        TEST(no_byte_of_the_header_breaks_the_reader),
        TEST(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, begin_directory, scratch_end);
}
