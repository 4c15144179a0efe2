#define _POSIX_C_SOURCE 200809L

#include "tests/support/scratch.h"
#include "tests/support/support.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/safetensors/safetensors.h"
#include "module/layers/layers.h"
#include "module/state_dict.h"
#include "tensor/convert/convert.h"
#include "tensor/tensor_impl.h"

#ifdef TESSERA_HAVE_SAFETENSORS

/* Written by the format's own library: safetensors_files.py. */
#define TYPES TESSERA_SOURCE_DIR "/tests/io/types.safetensors"
#define FOREIGN TESSERA_SOURCE_DIR "/tests/io/foreign.safetensors"

static char path[128];

static int begin_directory(void **state)
{
    const int status = scratch_begin(state);
    snprintf(path, sizeof path, "%s/a.safetensors", scratch);
    return status;
}

#define FILE_MAX 4096

static void put_bytes(const void *bytes, size_t n_bytes)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n_bytes, file), n_bytes);
    fclose(file);
}

static size_t get_bytes(const char *from, void *bytes)
{
    FILE *file = fopen(from, "rb");
    assert_non_null(file);
    size_t n = fread(bytes, 1, FILE_MAX, file);
    fclose(file);
    assert_true(n < FILE_MAX);
    return n;
}

/* Writes a file with this header and n_elements bytes 1, 2, 3, ... */
static void put_file(const char *header, size_t n_elements)
{
    unsigned char bytes[FILE_MAX] = {0};
    size_t length = strlen(header);
    assert_true(8 + length + n_elements < sizeof bytes);
    bytes[0] = (unsigned char)(length & 0xff);
    bytes[1] = (unsigned char)(length >> 8);
    memcpy(bytes + 8, header, length);
    for (size_t i = 0; i < n_elements; i++) bytes[8 + length + i] = (unsigned char)(i + 1);
    put_bytes(bytes, 8 + length + n_elements);
}

static tensor_t *get(context_t *ctx, const safetensors_t *file, const char *name)
{
    tensor_t *tensor = NULL;
    CHECK_OK(ctx, safetensors_tensor(ctx, file, name, &tensor));
    return tensor;
}

/* Adds a tensor to a dict. */
static void put_tensor(context_t *ctx, datum_t *dict, const char *name, tensor_t *tensor)
{
    datum_t *value = NULL;
    CHECK_OK(ctx, datum_tensor(ctx, tensor, &value));
    CHECK_OK(ctx, datum_put(ctx, dict, name, value));
    datum_release(value);
}

static datum_t *make_dict(context_t *ctx)
{
    datum_t *dict = NULL;
    CHECK_OK(ctx, datum_dict(ctx, 0, NULL, NULL, &dict));
    return dict;
}

static datum_t *make_metadata(context_t *ctx, const char *key, const char *text)
{
    datum_t *value = NULL, *dict = make_dict(ctx);
    CHECK_OK(ctx, datum_string(ctx, text, &value));
    CHECK_OK(ctx, datum_put(ctx, dict, key, value));
    datum_release(value);
    return dict;
}

/* ---- reading ---- */

static void files_of_the_python_package_are_read(void **state)
{
    static const struct {
        const char *name, *type;
        dtype_t dtype;
    } all[] = {{"bool", "BOOL", DTYPE_BOOL},     {"uint8", "U8", DTYPE_U8},
               {"int8", "I8", DTYPE_S8},         {"int16", "I16", DTYPE_S16},
               {"uint16", "U16", DTYPE_U16},     {"float16", "F16", DTYPE_F16},
               {"bfloat16", "BF16", DTYPE_BF16}, {"int32", "I32", DTYPE_S32},
               {"uint32", "U32", DTYPE_U32},     {"float32", "F32", DTYPE_F32},
               {"float64", "F64", DTYPE_F64},    {"int64", "I64", DTYPE_S64},
               {"uint64", "U64", DTYPE_U64}};
    context_t *ctx = fixture_context(state);
    safetensors_t *file = NULL;
    CHECK_OK(ctx, safetensors_open(ctx, TYPES, &file));
    assert_int_equal(safetensors_count(file), 16);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const safetensors_info_t *info = safetensors_find(file, all[i].name);
        tensor_t *tensor = get(ctx, file, all[i].name);
        unsigned char bytes[16];
        size_t size = dtype_size(all[i].dtype);
        assert_string_equal(info->type, all[i].type);
        assert_int_equal(info->dtype, all[i].dtype);
        assert_int_equal(info->n_bytes, 2 * size);
        assert_int_equal(info->sizes[1], 2);
        assert_int_equal(tensor_dtype(tensor), all[i].dtype);
        assert_true(shape_equal(tensor_rank(tensor), tensor_sizes(tensor), 2, (int64_t[]){1, 2}));
        CHECK_OK(ctx, tensor_read(ctx, tensor, bytes, sizeof bytes));
        assert_true(dtype_load(all[i].dtype, bytes) == 1);
        assert_true(dtype_load(all[i].dtype, bytes + size) == (i == 0 ? 0 : 2));
        tensor_release(tensor);
    }
    safetensors_close(file);
}

static void names_and_metadata_are_listed_in_the_order_of_the_file(void **state)
{
    static const char *const names[] = {
        "uint64",   "int64",   "float64", "float32", "number",  "uint32", "int32",
        "bfloat16", "float16", "uint16",  "int16",   "nothing", "int8",   "\"\\\n\x1f\xc3\xbc",
        "uint8",    "bool"};
    context_t *ctx = fixture_context(state);
    safetensors_t *file = NULL;
    CHECK_OK(ctx, safetensors_open(ctx, TYPES, &file));
    for (int i = 0; i < 16; i++) {
        assert_string_equal(safetensors_info(file, i)->name, names[i]);
        assert_ptr_equal(safetensors_find(file, names[i]), safetensors_info(file, i));
    }
    assert_int_equal(safetensors_info(file, 15)->offset + 2, 1131);
    assert_null(safetensors_info(file, 16));
    assert_null(safetensors_info(file, -1));
    assert_null(safetensors_find(file, "uint"));
    assert_int_equal(safetensors_n_metadata(file), 1);
    assert_string_equal(safetensors_metadata_key(file, 0), "format");
    assert_null(safetensors_metadata_key(file, 1));
    assert_string_equal(safetensors_metadata(file, "format"), "pt");
    assert_null(safetensors_metadata(file, "pt"));
    tensor_t *none = NULL;
    CHECK_FAILS(ctx, safetensors_tensor(ctx, file, "uint", &none), STATUS_INVALID_ARGUMENT,
                "safetensors_tensor: \"uint\" is no tensor of " TYPES);
    safetensors_close(file);
}

static void types_that_no_tensor_has_are_listed_but_refused(void **state)
{
    static const char *const names[] = {"complex", "float8", "float4"};
    static const char *const types[] = {"C64", "F8_E4M3", "F4"};
    context_t *ctx = fixture_context(state);
    safetensors_t *file = NULL;
    CHECK_OK(ctx, safetensors_open(ctx, FOREIGN, &file));
    assert_int_equal(safetensors_count(file), 4);
    for (int i = 0; i < 3; i++) {
        char part[64];
        tensor_t *tensor = NULL;
        assert_string_equal(safetensors_find(file, names[i])->type, types[i]);
        assert_int_equal(safetensors_find(file, names[i])->dtype, DTYPE_NONE);
        snprintf(part, sizeof part, "has elements of type %s", types[i]);
        CHECK_FAILS(ctx, safetensors_tensor(ctx, file, names[i], &tensor), STATUS_UNSUPPORTED,
                    part);
        assert_null(tensor);
    }
    tensor_release(get(ctx, file, "float32"));
    safetensors_close(file);
    datum_t *dict = NULL;
    CHECK_FAILS(ctx, safetensors_load(ctx, FOREIGN, &dict), STATUS_UNSUPPORTED, "of type C64");
    assert_null(dict);
    put_file("{\"a\":{\"dtype\":\"Q3\",\"shape\":[7],\"data_offsets\":[0,3]}}", 3);
    CHECK_FAILS(ctx, safetensors_load(ctx, path, &dict), STATUS_UNSUPPORTED, "of type Q3");
}

static void a_tensor_outlives_its_handle_and_is_a_copy(void **state)
{
    context_t *ctx = fixture_context(state);
    safetensors_t *file = NULL;
    unsigned char before[FILE_MAX], after[FILE_MAX];
    float elements[2];
    size_t n_bytes = get_bytes(TYPES, before);
    put_bytes(before, n_bytes);
    CHECK_OK(ctx, safetensors_open(ctx, path, &file));
    tensor_t *written = get(ctx, file, "float32"), *read = get(ctx, file, "float32");
    safetensors_close(file);
    CHECK_OK(ctx, tensor_fill(ctx, written, 7));
    assert_ptr_not_equal(tensor_bytes(written), tensor_bytes(read));
    CHECK_OK(ctx, tensor_read(ctx, read, elements, sizeof elements));
    assert_true(elements[0] == 1 && elements[1] == 2);
    assert_int_equal(get_bytes(path, after), n_bytes);
    assert_memory_equal(before, after, n_bytes);
    tensor_release(written);
    tensor_release(read);
}

static void an_open_file_can_be_written_over(void **state)
{
    context_t *ctx = fixture_context(state);
    datum_t *dict = make_dict(ctx), *loaded = NULL, *again = NULL;
    tensor_t *ones = NULL;
    float element = 0;
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(1), 1, &ones));
    put_tensor(ctx, dict, "a", ones);
    CHECK_OK(ctx, safetensors_save(ctx, path, dict, NULL));
    CHECK_OK(ctx, safetensors_load(ctx, path, &loaded));
    CHECK_OK(ctx, tensor_fill(ctx, ones, 2));
    CHECK_OK(ctx, safetensors_save(ctx, path, dict, NULL));
    CHECK_OK(ctx, tensor_read(ctx, datum_as_tensor(datum_item(loaded, 0)), &element, 4));
    assert_true(element == 1);
    CHECK_OK(ctx, safetensors_save(ctx, path, loaded, NULL));
    CHECK_OK(ctx, safetensors_load(ctx, path, &again));
    CHECK_OK(ctx, tensor_read(ctx, datum_as_tensor(datum_item(again, 0)), &element, 4));
    assert_true(element == 1);
    datum_release(again);
    datum_release(loaded);
    datum_release(dict);
    tensor_release(ones);
}

/* Truncates the file while it is open, after one tensor was read. A mapping of it would crash. */
static void a_file_that_is_cut_is_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    datum_t *dict = make_dict(ctx);
    tensor_t *ones = NULL, *read = NULL;
    safetensors_t *file = NULL;
    float elements[8192];
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(8192), 1, &ones));
    put_tensor(ctx, dict, "a", ones);
    CHECK_OK(ctx, safetensors_save(ctx, path, dict, NULL));
    CHECK_OK(ctx, safetensors_open(ctx, path, &file));
    read = get(ctx, file, "a");
    assert_int_equal(truncate(path, 4096), 0);
    CHECK_OK(ctx, tensor_read(ctx, read, elements, sizeof elements));
    for (int i = 0; i < 8192; i++) assert_true(elements[i] == 1);
    tensor_release(read);
    CHECK_FAILS(ctx, safetensors_tensor(ctx, file, "a", &read), STATUS_CORRUPT,
                "ends at byte 4096, it had ");
    assert_null(read);
    safetensors_close(file);
    CHECK_FAILS(ctx, safetensors_open(ctx, path, &file), STATUS_CORRUPT, "must end at");
    datum_release(dict);
    tensor_release(ones);
}

static void elements_need_no_alignment(void **state)
{
    context_t *ctx = fixture_context(state);
    safetensors_t *file = NULL;
    uint16_t shorts[2];
    unsigned char bytes[2];
    put_file("{\"a\":{\"dtype\":\"BOOL\",\"shape\":[2],\"data_offsets\":[0,2]},"
             "\"b\":{\"dtype\":\"U16\",\"shape\":[2],\"data_offsets\":[3,7]},"
             "\"c\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[2,3]}} ",
             7);
    CHECK_OK(ctx, safetensors_open(ctx, path, &file));
    tensor_t *a = get(ctx, file, "a"), *b = get(ctx, file, "b"), *c = get(ctx, file, "c");
    assert_int_equal(safetensors_find(file, "b")->offset % 2, 1);
    assert_false(storage_is_read_only(c->storage));
    CHECK_OK(ctx, tensor_read(ctx, a, bytes, sizeof bytes));
    assert_true(bytes[0] == 1 && bytes[1] == 1); /* the file has 1 and 2 */
    CHECK_OK(ctx, tensor_read(ctx, b, shorts, sizeof shorts));
    assert_true(shorts[0] == 0x0504 && shorts[1] == 0x0706);
    tensor_release(a);
    tensor_release(b);
    tensor_release(c);
    safetensors_close(file);
}

static void tensors_of_memory_are_copies(void **state)
{
    context_t *ctx = fixture_context(state);
    safetensors_t *file = NULL;
    unsigned char bytes[FILE_MAX];
    float elements[2];
    size_t n_bytes = get_bytes(TYPES, bytes);
    CHECK_OK(ctx, safetensors_open_bytes(ctx, bytes, n_bytes, &file));
    tensor_t *tensor = get(ctx, file, "float32");
    safetensors_close(file);
    memset(bytes, 0, sizeof bytes);
    CHECK_OK(ctx, tensor_read(ctx, tensor, elements, sizeof elements));
    assert_true(elements[0] == 1 && elements[1] == 2);
    tensor_release(tensor);
}

/* ---- errors ---- */

#define A "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}"
#define ONE(type, shape, offsets)                                                                  \
    "{\"a\":{\"dtype\":" type ",\"shape\":" shape ",\"data_offsets\":" offsets "}}"

static void broken_headers_are_refused_with_their_reason(void **state)
{
    static const struct {
        const char *header;
        size_t n_bytes;
        status_t status;
        const char *part;
    } cases[] = {
        {A "}", 8, STATUS_OK, ""},
        {A "}   ", 8, STATUS_OK, ""},
        {"{}", 0, STATUS_OK, ""},
        {"", 4, STATUS_CORRUPT, "the header must begin with '{'"},
        {" " A "}", 8, STATUS_CORRUPT, "the header must begin with '{'"},
        {"[1]", 0, STATUS_CORRUPT, "the header must begin with '{'"},
        {A, 8, STATUS_CORRUPT, "of the header: "},
        {A "}x", 8, STATUS_CORRUPT, "end of file expected near 'x', must be JSON"},
        {"{\"\xff\":1}", 0, STATUS_CORRUPT, "unable to decode byte 0xff"},
        {A ",\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[8,12]}}", 12, STATUS_CORRUPT,
         "duplicate object key"},
        {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"I8\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0,
         STATUS_CORRUPT, "duplicate object key"},
        {"{\"__metadata__\":{\"a\":\"b\",\"a\":\"c\"}}", 0, STATUS_CORRUPT, "duplicate object key"},
        {"{\"a\\u0000\":1}", 0, STATUS_UNSUPPORTED, "of the header: NUL byte in object key"},
        {"{\"__metadata__\":[]}", 0, STATUS_CORRUPT,
         "__metadata__ is an array, must be an object of strings"},
        {"{\"__metadata__\":{\"k\":null}}", 0, STATUS_CORRUPT,
         "\"k\" of __metadata__ is null, must be a string"},
        {"{\"a\":true}", 0, STATUS_CORRUPT, "tensor \"a\" is a bool, must be an object"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8, STATUS_CORRUPT,
         "tensor \"a\" lacks data_offsets, dtype, shape and data_offsets are needed"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[],\"offsets\":[0,1]}}", 1, STATUS_CORRUPT,
         "tensor \"a\" lacks data_offsets"},
        {ONE("7", "[2]", "[0,8]"), 8, STATUS_CORRUPT, "dtype of tensor \"a\" must be a string"},
        {ONE("\"F32\"", "2", "[0,8]"), 8, STATUS_CORRUPT,
         "shape of tensor \"a\" must be an array of integers"},
        {ONE("\"F32\"", "[-2]", "[0,8]"), 8, STATUS_CORRUPT, "shape of tensor \"a\" must be"},
        {ONE("\"F32\"", "[2.0]", "[0,8]"), 8, STATUS_CORRUPT, "shape of tensor \"a\" must be"},
        {ONE("\"F32\"", "[9223372036854775808]", "[0,8]"), 8, STATUS_CORRUPT, "too big integer"},
        {ONE("\"U8\"", "[1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,1]"), 1, STATUS_UNSUPPORTED,
         "tensor \"a\" has 13 dimensions, at most 12"},
        {ONE("\"F32\"", "[2]", "{}"), 8, STATUS_CORRUPT, "data_offsets of tensor \"a\" must be"},
        {ONE("\"F32\"", "[2]", "[0]"), 8, STATUS_CORRUPT, "data_offsets of tensor \"a\" must be"},
        {ONE("\"F32\"", "[2]", "[0,8,8]"), 8, STATUS_CORRUPT,
         "data_offsets of tensor \"a\" must be [begin, end]"},
        {ONE("\"F32\"", "[2]", "[-8,0]"), 8, STATUS_CORRUPT, "data_offsets of tensor \"a\""},
        {ONE("\"F32\"", "[2]", "[8,0]"), 8, STATUS_CORRUPT, "data_offsets of tensor \"a\""},
        {ONE("\"F32\"", "[2]", "[0,8.0]"), 8, STATUS_CORRUPT, "data_offsets of tensor \"a\""},
        {ONE("\"F32\"", "[3]", "[0,8]"), 8, STATUS_CORRUPT,
         "tensor \"a\" of F32[3] has 8 bytes, needs 96 bits"},
        {ONE("\"F4\"", "[3]", "[0,1]"), 1, STATUS_CORRUPT, "of F4[3] has 1 bytes, needs 12 bits"},
        {ONE("\"F8_E4M3\"", "[3]", "[0,2]"), 2, STATUS_CORRUPT, "has 2 bytes, needs 24 bits"},
        {ONE("\"U8\"", "[4294967296,4294967296,0]", "[0,0]"), 0, STATUS_CORRUPT,
         "tensor \"a\" has sizes that overflow"},
        {ONE("\"U8\"", "[4294967296,4294967297]", "[0,4294967296]"), 8, STATUS_CORRUPT,
         "tensor \"a\" has sizes that overflow"},
        {ONE("\"U8\"", "[4]", "[1,5]"), 5, STATUS_CORRUPT,
         "tensor \"a\" begins at byte 1, must begin at 0 where the last one ends"},
        {A ",\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[9,10]}}", 10, STATUS_CORRUPT,
         "tensor \"b\" begins at byte 9, must begin at 8 where"},
        {A ",\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}", 8, STATUS_CORRUPT,
         "tensor \"b\" begins at byte 4, must begin at 8 where"},
        {A "}", 9, STATUS_CORRUPT, "tensors end at byte 8, must end at 9 with the file"},
        {A "}", 7, STATUS_CORRUPT, "tensors end at byte 8, must end at 7 with the file"},
        {"{}", 1, STATUS_CORRUPT, "tensors end at byte 0, must end at 1 with the file"},
    };
    context_t *ctx = fixture_context(state);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        safetensors_t *file = NULL;
        put_file(cases[i].header, cases[i].n_bytes);
        if (cases[i].status == STATUS_OK)
            CHECK_OK(ctx, safetensors_open(ctx, path, &file));
        else
            CHECK_FAILS(ctx, safetensors_open(ctx, path, &file), cases[i].status, cases[i].part);
        assert_int_equal(file != NULL, cases[i].status == STATUS_OK);
        safetensors_close(file);
    }
}

static void a_header_has_to_be_in_the_file(void **state)
{
    static const struct {
        unsigned char length[8];
        const char *part;
    } cases[] = {
        {{3}, "has a header of 3 bytes, the file has 2 behind its length"},
        {{0x00, 0xe1, 0xf5, 0x05}, "has a header of 100000000 bytes, the file has 2 behind"},
        {{0x01, 0xe1, 0xf5, 0x05}, "has a header of 100000001 bytes, at most 100000000"},
        {{2, 0, 0, 0, 0, 0, 0, 0x80}, "has a header of 9223372036854775810 bytes, at most"}};
    context_t *ctx = fixture_context(state);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned char bytes[10] = {0};
        safetensors_t *file = NULL;
        memcpy(bytes, cases[i].length, 8);
        memcpy(bytes + 8, "{}", 2);
        CHECK_FAILS(ctx, safetensors_open_bytes(ctx, bytes, 10, &file), STATUS_CORRUPT,
                    cases[i].part);
    }
    safetensors_t *file = NULL;
    CHECK_FAILS(ctx, safetensors_open_bytes(ctx, "1234567", 7, &file), STATUS_CORRUPT,
                "memory has 7 bytes, the header's length needs 8");
    CHECK_FAILS(ctx, safetensors_open(ctx, "/tmp/there/is/none.safetensors", &file), STATUS_IO,
                "none.safetensors");
}

/* Opens truncated files, and truncated blocks of memory. Blocks have the exact size, so that
 * sanitizers detect reads beyond the end. */
static void a_file_cut_anywhere_is_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    unsigned char bytes[FILE_MAX];
    size_t n_bytes = get_bytes(TYPES, bytes);
    for (size_t n = 0; n < n_bytes; n++) {
        safetensors_t *file = NULL;
        unsigned char *cut = malloc(n > 0 ? n : 1);
        assert_non_null(cut);
        if (n > 0) memcpy(cut, bytes, n);
        assert_int_equal(safetensors_open_bytes(ctx, cut, n, &file), STATUS_CORRUPT);
        assert_null(file);
        put_bytes(cut, n);
        assert_int_equal(safetensors_open(ctx, path, &file), STATUS_CORRUPT);
        assert_null(file);
        free(cut);
    }
}

/* ---- writing ---- */

static void written_files_equal_those_of_the_python_package(void **state)
{
    context_t *ctx = fixture_context(state);
    unsigned char wanted[FILE_MAX], written[FILE_MAX];
    datum_t *loaded = NULL, *backwards = make_dict(ctx);
    datum_t *metadata = make_metadata(ctx, "format", "pt");
    CHECK_OK(ctx, safetensors_load(ctx, TYPES, &loaded));
    assert_int_equal(datum_length(loaded), 16);
    for (int i = 15; i >= 0; i--)
        CHECK_OK(ctx, datum_put(ctx, backwards, datum_key(loaded, i), datum_item(loaded, i)));
    CHECK_OK(ctx, safetensors_save(ctx, path, backwards, metadata));
    size_t n_bytes = get_bytes(TYPES, wanted);
    assert_int_equal(get_bytes(path, written), n_bytes);
    assert_memory_equal(written, wanted, n_bytes);
    datum_release(metadata);
    datum_release(backwards);
    datum_release(loaded);
}

static void every_dtype_and_rank_comes_back(void **state)
{
    static const int64_t sizes[] = {2, 1, 3, 1, 2, 1, 1, 1, 1, 2, 1, 2};
    context_t *ctx = fixture_context(state);
    for (dtype_t dtype = DTYPE_NONE + 1; dtype < DTYPE_COUNT; dtype++) {
        for (int rank = 0; rank <= TENSOR_MAX_RANK; rank++) {
            tensor_t *tensor = NULL;
            datum_t *dict = make_dict(ctx), *back = NULL;
            double difference = 1;
            CHECK_OK(ctx, tensor_full(ctx, dtype, rank, sizes, 1, &tensor));
            put_tensor(ctx, dict, "x", tensor);
            CHECK_OK(ctx, safetensors_save(ctx, path, dict, NULL));
            CHECK_OK(ctx, safetensors_load(ctx, path, &back));
            const tensor_t *read = datum_as_tensor(datum_find(back, "x"));
            assert_true(info_equal(tensor_info(tensor), tensor_info(read)));
            CHECK_OK(ctx, tensor_max_rel_diff(ctx, tensor, read, &difference));
            assert_true(difference == 0);
            datum_release(back);
            datum_release(dict);
            tensor_release(tensor);
        }
    }
}

static void blocked_and_strided_tensors_are_written_plain(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *mkldnn = NULL, *swapped = NULL;
    datum_t *dict = make_dict(ctx), *back = NULL;
    float rows[6] = {1, 2, 3, 4, 5, 6}, columns[6] = {1, 4, 2, 5, 3, 6}, read[6];
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, SHAPE(1, 2, 3, 1), rows, &x));
    CHECK_OK(ctx, to_mkldnn(ctx, x, &mkldnn));
    CHECK_OK(ctx, tensor_permute(ctx, x, 4, (int64_t[]){0, 2, 1, 3}, &swapped));
    put_tensor(ctx, dict, "mkldnn", mkldnn);
    put_tensor(ctx, dict, "swapped", swapped);
    CHECK_OK(ctx, safetensors_save(ctx, path, dict, NULL));
    CHECK_OK(ctx, safetensors_load(ctx, path, &back));
    CHECK_OK(ctx, tensor_read(ctx, datum_as_tensor(datum_find(back, "mkldnn")), read, sizeof read));
    assert_memory_equal(read, rows, sizeof rows);
    CHECK_OK(ctx,
             tensor_read(ctx, datum_as_tensor(datum_find(back, "swapped")), read, sizeof read));
    assert_memory_equal(read, columns, sizeof columns);
    datum_release(back);
    datum_release(dict);
    tensor_release(swapped);
    tensor_release(mkldnn);
    tensor_release(x);
}

static void tensors_that_no_file_can_have_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *vast = NULL;
    char byte = 0;
    datum_t *text = NULL, *dict = make_dict(ctx), *metadata = make_metadata(ctx, "a", "\xff");
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_U8, SHAPE(1), &x));
    CHECK_OK(ctx, tensor_borrow(ctx, DTYPE_U8, SHAPE(INT64_MAX), (int64_t[]){0}, &byte, NULL, NULL,
                                &vast));
    CHECK_OK(ctx, datum_string(ctx, "b", &text));
    unlink(path);
    CHECK_FAILS(ctx, safetensors_save(ctx, path, text, NULL), STATUS_INVALID_ARGUMENT,
                "safetensors_save: tensors are string, must be a dict");
    CHECK_FAILS(ctx, safetensors_save(ctx, path, dict, text), STATUS_INVALID_ARGUMENT,
                "safetensors_save: metadata is string, must be a dict of strings");
    CHECK_FAILS(ctx, safetensors_save(ctx, path, dict, metadata), STATUS_INVALID_ARGUMENT,
                "safetensors_save: metadata, unable to decode byte 0xff");
    CHECK_OK(ctx, datum_put(ctx, metadata, "a", dict));
    CHECK_FAILS(ctx, safetensors_save(ctx, path, dict, metadata), STATUS_INVALID_ARGUMENT,
                "safetensors_save: metadata \"a\" is dict, must be a string");
    CHECK_OK(ctx, datum_put(ctx, dict, "t", text));
    CHECK_FAILS(ctx, safetensors_save(ctx, path, dict, NULL), STATUS_INVALID_ARGUMENT,
                "safetensors_save: \"t\" is string, must be a tensor");
    put_tensor(ctx, dict, "t", vast);
    put_tensor(ctx, dict, "u", x);
    CHECK_FAILS(ctx, safetensors_save(ctx, path, dict, NULL), STATUS_INVALID_ARGUMENT,
                "bytes after 9223372036854775807, the file's size overflows");
    put_tensor(ctx, dict, "__metadata__", x);
    CHECK_FAILS(ctx, safetensors_save(ctx, path, dict, NULL), STATUS_INVALID_ARGUMENT,
                "a tensor \"__metadata__\", the name belongs to the metadata");
    datum_release(dict);
    dict = make_dict(ctx);
    put_tensor(ctx, dict, "\xc3", x);
    CHECK_FAILS(ctx, safetensors_save(ctx, path, dict, NULL), STATUS_INVALID_ARGUMENT,
                "safetensors_save: the name of a tensor, ");
    assert_int_not_equal(access(path, F_OK), 0);
    datum_release(metadata);
    datum_release(dict);
    datum_release(text);
    tensor_release(vast);
    tensor_release(x);
}

static void a_header_of_more_than_the_most_is_not_written(void **state)
{
    context_t *ctx = fixture_context(state);
    const size_t n = 100000000;
    char *text = malloc(n + 1);
    assert_non_null(text);
    memset(text, 'x', n);
    text[n] = '\0';
    datum_t *dict = make_dict(ctx), *metadata = make_metadata(ctx, "a", text);
    CHECK_FAILS(ctx, safetensors_save(ctx, path, dict, metadata), STATUS_INVALID_ARGUMENT,
                "safetensors_save: a header of 100000032 bytes, at most 100000000");
    datum_release(metadata);
    datum_release(dict);
    free(text);
}

/* ---- modules ---- */

static module_t *make_net(context_t *ctx, uint64_t seed)
{
    module_t *net = NULL, *layer = NULL;
    context_seed(ctx, seed);
    CHECK_OK(ctx, layer_sequential(ctx, &net));
    CHECK_OK(ctx, layer_linear(ctx, 4, 4, true, &layer));
    CHECK_OK(ctx, layer_append_take(ctx, net, layer));
    CHECK_OK(ctx, layer_batch_norm(ctx, 4, 1e-5, &layer));
    CHECK_OK(ctx, layer_append_take(ctx, net, layer));
    return net;
}

static void a_module_goes_out_and_comes_back(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_net(ctx, 1), *other = make_net(ctx, 2);
    unsigned char before[FILE_MAX], after[FILE_MAX];
    double difference = 1;
    CHECK_OK(ctx, module_save_safetensors(ctx, net, path, NULL));
    CHECK_OK(ctx, module_load_safetensors(ctx, other, path, true));
    size_t n_bytes = get_bytes(path, before);
    tensor_t *weight = module_parameter(other, "0.weight");
    CHECK_OK(ctx, tensor_max_rel_diff(ctx, weight, module_parameter(net, "0.weight"), &difference));
    assert_true(difference == 0);
    CHECK_OK(ctx, tensor_fill(ctx, weight, 3));
    assert_int_equal(get_bytes(path, after), n_bytes);
    assert_memory_equal(before, after, n_bytes);
    CHECK_OK(ctx, module_save_safetensors(ctx, other, path, NULL));
    CHECK_OK(ctx, module_load_safetensors(ctx, net, path, true));
    CHECK_OK(ctx, tensor_max_rel_diff(ctx, weight, module_parameter(net, "0.weight"), &difference));
    assert_true(difference == 0);
    module_release(other);
    module_release(net);
}

static void a_file_of_another_module_changes_nothing(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_net(ctx, 1);
    tensor_t *bias = module_parameter(net, "0.bias");
    put_file("{\"0.bias\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]},"
             "\"0.weight\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[16,32]},"
             "\"more\":{\"dtype\":\"F8_E4M3\",\"shape\":[1],\"data_offsets\":[32,33]}}",
             33);
    CHECK_FAILS(ctx, module_load_safetensors(ctx, net, path, true), STATUS_INVALID_ARGUMENT,
                "a.safetensors: load_state_dict: \"0.weight\" is [4], Sequential has [4,4]; "
                "\"1.weight\", \"1.bias\", \"1.running_mean\", \"1.running_var\" are missing, "
                "Sequential needs them; \"more\" is unknown, Sequential has no such parameter or "
                "buffer");
    CHECK_FAILS(ctx, module_load_safetensors(ctx, net, path, false), STATUS_INVALID_ARGUMENT,
                "load_state_dict: \"0.weight\" is [4], Sequential has [4,4]");
    assert_ptr_equal(module_parameter(net, "0.bias"), bias);
    module_release(net);
}

static void names_may_differ_if_that_is_asked_for(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_net(ctx, 1);
    float elements[4];
    put_file("{\"0.bias\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
             "\"more\":{\"dtype\":\"F8_E4M3\",\"shape\":[1],\"data_offsets\":[4,5]}}",
             5);
    CHECK_OK(ctx, module_load_safetensors(ctx, net, path, false));
    CHECK_OK(ctx, tensor_read(ctx, module_parameter(net, "0.bias"), elements, sizeof elements));
    assert_true(elements[0] == 1 && elements[3] == 4);
    put_file("{\"0.bias\":{\"dtype\":\"F8_E4M3\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4);
    CHECK_FAILS(ctx, module_load_safetensors(ctx, net, path, false), STATUS_UNSUPPORTED,
                "has elements of type F8_E4M3");
    module_release(net);
}

/* ---- threads, memory ---- */

#define N_ROUNDS 200

static void *read_often(void *shared)
{
    const safetensors_t *file = shared;
    context_t *ctx = NULL;
    context_options_t options = {.n_threads = 1};
    intptr_t n_right = 0;
    if (context_create(&options, &ctx) != STATUS_OK) return NULL;
    for (int round = 0; round < N_ROUNDS; round++) {
        tensor_t *tensor = NULL;
        float elements[2] = {0};
        if (safetensors_tensor(ctx, file, "float32", &tensor) == STATUS_OK &&
            tensor_read(ctx, tensor, elements, sizeof elements) == STATUS_OK &&
            tensor_fill(ctx, tensor, 5) == STATUS_OK)
            n_right += elements[0] == 1 && elements[1] == 2;
        tensor_release(tensor);
    }
    context_destroy(ctx);
    return (void *)n_right;
}

static void two_threads_read_one_file(void **state)
{
    context_t *ctx = fixture_context(state);
    safetensors_t *file = NULL;
    pthread_t threads[2];
    CHECK_OK(ctx, safetensors_open(ctx, TYPES, &file));
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_often, file), 0);
    for (int i = 0; i < 2; i++) {
        void *n_right = NULL;
        pthread_join(threads[i], &n_right);
        assert_int_equal((intptr_t)n_right, N_ROUNDS);
    }
    safetensors_close(file);
}

static status_t there_and_back(context_t *ctx)
{
    module_t *net = NULL;
    datum_t *dict = NULL;
    status_t status = layer_linear(ctx, 2, 2, true, &net);
    if (status == STATUS_OK) status = module_save_safetensors(ctx, net, path, NULL);
    if (status == STATUS_OK) status = module_load_safetensors(ctx, net, path, true);
    if (status == STATUS_OK) status = safetensors_load(ctx, TYPES, &dict);
    module_release(net);
    datum_release(dict);
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
        TEST(files_of_the_python_package_are_read),
        TEST(names_and_metadata_are_listed_in_the_order_of_the_file),
        TEST(types_that_no_tensor_has_are_listed_but_refused),
        TEST(a_tensor_outlives_its_handle_and_is_a_copy),
        TEST(an_open_file_can_be_written_over),
        TEST(a_file_that_is_cut_is_refused),
        TEST(elements_need_no_alignment),
        TEST(tensors_of_memory_are_copies),
        TEST(broken_headers_are_refused_with_their_reason),
        TEST(a_header_has_to_be_in_the_file),
        TEST(a_file_cut_anywhere_is_refused),
        TEST(written_files_equal_those_of_the_python_package),
        TEST(every_dtype_and_rank_comes_back),
        TEST(blocked_and_strided_tensors_are_written_plain),
        TEST(tensors_that_no_file_can_have_are_refused),
        TEST(a_header_of_more_than_the_most_is_not_written),
        TEST(a_module_goes_out_and_comes_back),
        TEST(a_file_of_another_module_changes_nothing),
        TEST(names_may_differ_if_that_is_asked_for),
        TEST(two_threads_read_one_file),
        TEST(a_refused_allocation_leaves_nothing_behind),
    };
    return cmocka_run_group_tests_name("safetensors", tests, begin_directory, scratch_end);
}

#else

static void a_build_without_jansson_says_so(void **state)
{
    context_t *ctx = fixture_context(state);
    safetensors_t *file = NULL;
    datum_t *dict = NULL;
    CHECK_OK(ctx, datum_dict(ctx, 0, NULL, NULL, &dict));
    CHECK_FAILS(ctx, safetensors_open_bytes(ctx, "12345678{}", 10, &file), STATUS_UNSUPPORTED,
                "safetensors: this build has no jansson");
    CHECK_FAILS(ctx, safetensors_save(ctx, "/tmp/none.safetensors", dict, NULL), STATUS_UNSUPPORTED,
                "this build has no jansson");
    datum_release(dict);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(a_build_without_jansson_says_so)};
    return cmocka_run_group_tests_name("safetensors", tests, NULL, NULL);
}

#endif
