/* A .npy file: magic, version, length of the header, the header (a Python dict as text),
 * elements. */
#include "io/data/npy.h"

#include <stdio.h>
#include <string.h>

#include "tensor/context_impl.h"
#include "tensor/convert/convert_impl.h"
#include "tensor/file/file.h"
#include "tensor/file/file_block_impl.h"
#include "tensor/file/file_kind_impl.h"
#include "tensor/tensor_impl.h"

static const char magic[] = "\x93NUMPY";
#define MAGIC_BYTES 6
#define HEADER_MAX 512 /* bytes, enough for rank 12 with sizes of 19 digits */

/* NumPy's names of element types, without the byte order. */
static const struct {
    const char *name;
    dtype_t dtype;
} types[] = {{"f4", DTYPE_F32}, {"f8", DTYPE_F64}, {"f2", DTYPE_F16}, {"i1", DTYPE_S8},
             {"u1", DTYPE_U8},  {"i2", DTYPE_S16}, {"u2", DTYPE_U16}, {"i4", DTYPE_S32},
             {"u4", DTYPE_U32}, {"i8", DTYPE_S64}, {"u8", DTYPE_U64}, {"b1", DTYPE_BOOL}};

/* ---- the header ---- */

typedef struct header {
    context_t *ctx;
    const char *path;
    const char *at, *end;
    dtype_t dtype;
    bool is_big_endian;
    bool is_fortran;
    int rank;
    int64_t sizes[TENSOR_MAX_RANK];
    unsigned seen; /* keys read so far, one bit each */
} header_t;

static status_t fail_header(const header_t *header, const char *what)
{
    FAIL(header->ctx, STATUS_CORRUPT, "npy: %s, its header has no valid %s", header->path, what);
}

static void skip_spaces(header_t *header)
{
    while (header->at < header->end && (*header->at == ' ' || *header->at == '\n')) header->at++;
}

static bool skip(header_t *header, char wanted)
{
    skip_spaces(header);
    if (header->at == header->end || *header->at != wanted) return false;
    header->at++;
    return true;
}

static bool skip_word(header_t *header, const char *word)
{
    size_t length = strlen(word);
    skip_spaces(header);
    if ((size_t)(header->end - header->at) < length || memcmp(header->at, word, length) != 0)
        return false;
    header->at += length;
    return true;
}

/* Reads a string in single or double quotes, without escapes, cut to `capacity`. */
static bool read_string(header_t *header, char *out_text, size_t capacity)
{
    char quote = '\'';
    if (!skip(header, quote)) {
        quote = '"';
        if (!skip(header, quote)) return false;
    }
    size_t n = 0;
    for (; header->at < header->end && *header->at != quote; header->at++)
        if (n + 1 < capacity) out_text[n++] = *header->at;
    out_text[n] = '\0';
    return skip(header, quote);
}

static status_t read_type(header_t *header)
{
    char text[32];
    if (!read_string(header, text, sizeof text)) return fail_header(header, "descr");
    /* Without a byte order, as with "=", the order is this machine's. */
    header->is_big_endian = text[0] == '>';
    const char *name = text + (text[0] != '\0' && strchr("<>|=", text[0]) != NULL);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(name, types[i].name) == 0) header->dtype = types[i].dtype;
    if (header->dtype == DTYPE_NONE)
        FAIL(header->ctx, STATUS_UNSUPPORTED, "npy: %s, elements of type '%s'", header->path, text);
    return STATUS_OK;
}

static status_t read_order(header_t *header)
{
    header->is_fortran = skip_word(header, "True");
    if (!header->is_fortran && !skip_word(header, "False"))
        return fail_header(header, "fortran_order");
    return STATUS_OK;
}

static bool read_size(header_t *header, int64_t *out_size)
{
    int64_t size = 0;
    const char *first = header->at;
    for (; header->at < header->end && *header->at >= '0' && *header->at <= '9'; header->at++)
        if (__builtin_mul_overflow(size, 10, &size) ||
            __builtin_add_overflow(size, *header->at - '0', &size))
            return false;
    *out_size = size;
    if (header->at == first) return false;
    if (header->at < header->end && *header->at == 'L') header->at++; /* Python 2 writes 24L */
    return true;
}

static status_t read_shape(header_t *header)
{
    if (!skip(header, '(')) return fail_header(header, "shape");
    while (!skip(header, ')')) {
        if (header->rank == TENSOR_MAX_RANK)
            FAIL(header->ctx, STATUS_UNSUPPORTED, "npy: %s, a rank of more than %d", header->path,
                 TENSOR_MAX_RANK);
        skip_spaces(header);
        if (!read_size(header, &header->sizes[header->rank++])) return fail_header(header, "shape");
        if (skip(header, ',')) continue;
        /* Python reads (24) as a number and (24,) as a tuple. */
        if (header->rank == 1 || !skip(header, ')')) return fail_header(header, "shape");
        break;
    }
    return STATUS_OK;
}

static status_t read_header(header_t *header)
{
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    static status_t (*const read[])(header_t *) = {read_type, read_order, read_shape};
    if (!skip(header, '{')) return fail_header(header, "dict");
    while (!skip(header, '}')) {
        char key[32];
        unsigned which = 0;
        if (!read_string(header, key, sizeof key) || !skip(header, ':'))
            return fail_header(header, "dict");
        while (which < 3 && strcmp(keys[which], key) != 0) which++;
        if (which == 3 || (header->seen >> which & 1) != 0) return fail_header(header, "keys");
        header->seen |= 1U << which;
        skip_spaces(header);
        TRY(read[which](header));
        if (skip(header, ',')) continue;
        if (!skip(header, '}')) return fail_header(header, "dict");
        break;
    }
    if (header->seen != 7) return fail_header(header, "descr, fortran_order and shape");
    return shape_check(header->ctx, "npy", header->dtype, header->rank, header->sizes);
}

/* Finds the header's text. The elements follow it. */
static status_t find_header(header_t *header, const unsigned char *bytes, size_t n_bytes)
{
    TRY(file_check_kind(header->ctx, "npy", header->path, FILE_NPY, bytes, n_bytes));
    size_t first = n_bytes > MAGIC_BYTES && bytes[MAGIC_BYTES] > 1 ? 12 : 10, length = 0;
    if (n_bytes < first || memcmp(bytes, magic, MAGIC_BYTES) != 0)
        FAIL(header->ctx, STATUS_CORRUPT, "npy: %s, no .npy file", header->path);
    if (bytes[MAGIC_BYTES] < 1 || bytes[MAGIC_BYTES] > 3)
        FAIL(header->ctx, STATUS_UNSUPPORTED, "npy: %s, version %d", header->path,
             bytes[MAGIC_BYTES]);
    for (size_t i = first; i > 8; i--) length = length << 8 | bytes[i - 1];
    if (length > n_bytes - first) return fail_header(header, "length");
    header->at = (const char *)bytes + first;
    header->end = header->at + length;
    return STATUS_OK;
}

/* ---- loading ---- */

static void swap_bytes(unsigned char *bytes, size_t n_elements, size_t size)
{
    for (; n_elements > 0; n_elements--, bytes += size)
        for (size_t i = 0; i < size / 2; i++) {
            unsigned char byte = bytes[i];
            bytes[i] = bytes[size - 1 - i];
            bytes[size - 1 - i] = byte;
        }
}

static void settle(const header_t *header, unsigned char *bytes, size_t n_elements)
{
    size_t size = dtype_size(header->dtype);
    if (header->is_big_endian) swap_bytes(bytes, n_elements, size);
    for (size_t i = 0; header->dtype == DTYPE_BOOL && i < n_elements; i++) bytes[i] = bytes[i] != 0;
}

/* Converts Fortran order (first dimension fastest) to row-major order. */
static status_t reorder(const header_t *header, const tensor_t *columns, tensor_t *tensor)
{
    int64_t strides[TENSOR_MAX_RANK], stride = 1;
    void *bytes = NULL;
    for (int d = 0; d < header->rank; d++) {
        strides[d] = stride;
        if (header->sizes[d] > 1) stride *= header->sizes[d];
    }
    TRY(tensor_writable(header->ctx, tensor, &bytes));
    convert_strided(header->rank, header->sizes, header->dtype, strides, tensor_bytes(columns),
                    header->dtype, tensor_info(tensor)->format.strides, bytes, 1);
    return STATUS_OK;
}

static status_t read_elements(const header_t *header, size_t n_left, tensor_t **out_tensor)
{
    context_t *ctx = header->ctx;
    tensor_info_t info = info_dense(header->dtype, header->rank, header->sizes);
    size_t n = (size_t)info_numel(&info), n_bytes = n * dtype_size(header->dtype);
    tensor_t *tensor = NULL, *columns = NULL;
    void *bytes = NULL;
    if (n_bytes > n_left)
        FAIL(ctx, STATUS_CORRUPT, "npy: %s, %zu bytes of elements, %s needs %zu", header->path,
             n_left, info_brief(&info), n_bytes);
    TRY(tensor_make(ctx, &info, &tensor));
    status_t status = tensor_writable(ctx, tensor, &bytes);
    if (status == STATUS_OK && n > 0) {
        memcpy(bytes, header->end, n_bytes);
        settle(header, bytes, n);
    }
    if (status == STATUS_OK && header->is_fortran && header->rank > 1) {
        columns = tensor;
        tensor = NULL;
        status = tensor_make(ctx, &info, &tensor);
        if (status == STATUS_OK) status = reorder(header, columns, tensor);
    }
    tensor_drop(columns);
    GIVE(status, out_tensor, tensor, tensor_drop(tensor));
}

status_t npy_load(context_t *ctx, const char *path, tensor_t **out_tensor)
{
    TRY(context_output(ctx, "npy_load", out_tensor));
    if (path == NULL) return context_null(ctx, "npy_load", "path");
    header_t header = {.ctx = ctx, .path = path};
    file_mapping_t *mapping = NULL; /* holds a copy of the file */
    tensor_t *tensor = NULL;
    TRY(file_read_whole(ctx, path, &mapping));
    const char *bytes = file_bytes(mapping);
    status_t status = find_header(&header, (const unsigned char *)bytes, file_size(mapping));
    if (status == STATUS_OK) status = read_header(&header);
    if (status == STATUS_OK)
        status = read_elements(&header, (size_t)(bytes + file_size(mapping) - header.end), &tensor);
    file_release(mapping);
    TRY(status);
    return tensor_give(ctx, tensor, out_tensor);
}

/* ---- saving ---- */

/* Writes the header, padded with spaces so that the elements begin at a multiple of 64 bytes. */
static size_t print_header(const tensor_info_t *info, char *out)
{
    const char *type = "";
    char text[HEADER_MAX];
    int n = 0;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].dtype == info->dtype) type = types[i].name;
    n = snprintf(text, sizeof text, "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
                 dtype_size(info->dtype) > 1 ? '<' : '|', type);
    for (int d = 0; d < info->rank; d++)
        n += snprintf(text + n, sizeof text - (size_t)n, d == 0 ? "%lld," : " %lld,",
                      (long long)info->sizes[d]);
    if (info->rank > 1) n--; /* a tuple of one element needs its comma */
    n += snprintf(text + n, sizeof text - (size_t)n, "), }");
    size_t first = MAGIC_BYTES + 4, total = (first + (size_t)n + 1 + 63) / 64 * 64;
    memset(out, ' ', total);
    memcpy(out, magic, MAGIC_BYTES);
    out[6] = 1;
    out[7] = 0;
    out[8] = (char)((total - first) & 0xff);
    out[9] = (char)((total - first) >> 8);
    memcpy(out + first, text, (size_t)n);
    out[total - 1] = '\n';
    return total;
}

static status_t write_all(context_t *ctx, const char *path, const tensor_t *plain)
{
    char header[HEADER_MAX + 64];
    file_writer_t *writer = NULL;
    size_t n_bytes = (size_t)tensor_numel(plain) * dtype_size(tensor_dtype(plain));
    TRY(storage_restore(ctx, plain->storage, CAUSE_USER));
    TRY(file_write_begin(ctx, path, &writer));
    status_t status = file_write(writer, header, print_header(tensor_info(plain), header));
    if (status == STATUS_OK) status = file_write(writer, tensor_bytes(plain), n_bytes);
    status_t end = file_write_end(writer, status == STATUS_OK);
    return status != STATUS_OK ? status : end;
}

status_t npy_save(context_t *ctx, const char *path, const tensor_t *tensor)
{
    if (path == NULL) return context_null(ctx, "npy_save", "path");
    if (tensor == NULL) return context_null(ctx, "npy_save", "tensor");
    const tensor_info_t *info = tensor_info(tensor);
    dtype_t dtype = info->dtype == DTYPE_BF16 ? DTYPE_F32 : info->dtype;
    tensor_info_t plain_info = info_dense(dtype, info->rank, info->sizes);
    tensor_t *plain = NULL;
    TRY(tensor_make(ctx, &plain_info, &plain));
    status_t status = tensor_copy(ctx, plain, tensor);
    if (status == STATUS_OK) status = write_all(ctx, path, plain);
    tensor_drop(plain);
    return status;
}
