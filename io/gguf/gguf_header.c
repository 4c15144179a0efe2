/* Reads the header: magic, version, two counts; then keys with values; then names, sizes, types and
 * offsets of tensors. The elements begin at the next multiple of the alignment.
 *
 * Every read first checks that the file still has that many bytes. A count is compared with the
 * bytes that are left before anything is allocated for it, so memory is at most proportional to the
 * file. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "io/gguf/gguf_impl.h"

enum {
    MAX_KEY = 65535,       /* bytes */
    MAX_RANK = 4,          /* dimensions */
    MIN_VALUE_BYTES = 13,  /* length of the key, type, one byte */
    MIN_TENSOR_BYTES = 24, /* length of the name, rank, type, offset */
    DEFAULT_ALIGNMENT = 32,
    STRING = 8, /* STRING and ARRAY: types of values */
    ARRAY = 9
};

/* Reads the file from the front. */
typedef struct cursor {
    context_t *ctx;
    const gguf_t *file;
    size_t at;
} cursor_t;

static size_t left(const cursor_t *cursor)
{
    return cursor->file->n_bytes - cursor->at;
}

/* Takes n bytes; `what` names them in the message. */
static status_t take(cursor_t *cursor, uint64_t n, const char *what,
                     const unsigned char **out_bytes)
{
    if (n > left(cursor))
        FAIL(cursor->ctx, STATUS_CORRUPT,
             "gguf: %s, %s needs %" PRIu64 " bytes at byte %zu, the file has %zu",
             cursor->file->path, what, n, cursor->at, cursor->file->n_bytes);
    *out_bytes = cursor->file->bytes + cursor->at;
    cursor->at += (size_t)n;
    return STATUS_OK;
}

/* Takes a little-endian number of n bytes. */
static status_t take_number(cursor_t *cursor, int n, const char *what, uint64_t *out_number)
{
    const unsigned char *bytes = NULL;
    TRY(take(cursor, (uint64_t)n, what, &bytes));
    *out_number = 0;
    for (int i = n - 1; i >= 0; i--) *out_number = *out_number << 8 | bytes[i];
    return STATUS_OK;
}

static status_t take_string(cursor_t *cursor, const char *what, gguf_string_t *out_string)
{
    uint64_t length = 0;
    const unsigned char *bytes = NULL;
    TRY(take_number(cursor, 8, what, &length));
    TRY(take(cursor, length, what, &bytes));
    *out_string = (gguf_string_t){(const char *)bytes, (size_t)length};
    return STATUS_OK;
}

/* Takes a string, and copies it with a zero byte at its end. */
static status_t take_text(cursor_t *cursor, const char *what, size_t max_bytes, char **out_text,
                          size_t *out_bytes)
{
    gguf_string_t string = {0};
    TRY(take_string(cursor, what, &string));
    if (string.n_bytes > max_bytes)
        FAIL(cursor->ctx, STATUS_CORRUPT, "gguf: %s, %s has %zu bytes, at most %zu",
             cursor->file->path, what, string.n_bytes, max_bytes);
    if (memchr(string.text, '\0', string.n_bytes) != NULL)
        FAIL(cursor->ctx, STATUS_UNSUPPORTED, "gguf: %s, %s contains the character U+0000",
             cursor->file->path, what);
    TRY(context_get(cursor->ctx, string.n_bytes + 1, "text of a GGUF file", out_text));
    memcpy(*out_text, string.text, string.n_bytes);
    (*out_text)[string.n_bytes] = '\0';
    *out_bytes = string.n_bytes;
    return STATUS_OK;
}

/* ---- metadata ---- */

static const dtype_t dtypes[] = {DTYPE_U8,  DTYPE_S8,  DTYPE_U16,  DTYPE_S16,  DTYPE_U32,
                                 DTYPE_S32, DTYPE_F32, DTYPE_BOOL, DTYPE_NONE, DTYPE_NONE,
                                 DTYPE_U64, DTYPE_S64, DTYPE_F64};

static status_t take_type(cursor_t *cursor, const char *key, uint64_t *out_type)
{
    TRY(take_number(cursor, 4, "the type of a value", out_type));
    if (*out_type >= sizeof dtypes / sizeof *dtypes)
        FAIL(cursor->ctx, STATUS_CORRUPT,
             "gguf: %s, \"%.100s\" has a value of type %" PRIu64 ", types are 0 to 12",
             cursor->file->path, key, *out_type);
    return STATUS_OK;
}

static status_t take_strings(cursor_t *cursor, gguf_value_t *value)
{
    gguf_string_t *strings = NULL;
    TRY(context_get(cursor->ctx, (size_t)value->n * sizeof *strings, "strings of a GGUF file",
                    &strings));
    value->strings = strings;
    for (int64_t i = 0; i < value->n; i++)
        TRY(take_string(cursor, "a string of an array", &strings[i]));
    return STATUS_OK;
}

static status_t take_one_string(cursor_t *cursor, gguf_value_t *value)
{
    gguf_string_t *string = NULL;
    char *text = NULL;
    TRY(context_get_zeroed(cursor->ctx, sizeof *string, "a string of a GGUF file", &string));
    value->strings = string;
    TRY(take_text(cursor, "a string", SIZE_MAX, &text, &string->n_bytes));
    string->text = text;
    return STATUS_OK;
}

static status_t take_numbers(cursor_t *cursor, gguf_value_t *value)
{
    const unsigned char *bytes = NULL;
    TRY(take(cursor, (uint64_t)value->n * dtype_size(value->dtype), "a value", &bytes));
    value->elements = bytes;
    for (int64_t i = 0; value->dtype == DTYPE_BOOL && i < value->n; i++)
        if (bytes[i] > 1)
            FAIL(cursor->ctx, STATUS_CORRUPT,
                 "gguf: %s, \"%.100s\" has a boolean of %d, must be 0 "
                 "or 1",
                 cursor->file->path, value->key, bytes[i]);
    return STATUS_OK;
}

/* Takes the type and the number of an array's elements. */
static status_t take_array(cursor_t *cursor, gguf_value_t *value, uint64_t *out_type)
{
    uint64_t n = 0;
    TRY(take_type(cursor, value->key, out_type));
    if (*out_type == ARRAY)
        FAIL(cursor->ctx, STATUS_UNSUPPORTED, "gguf: %s, \"%.100s\" is an array of arrays",
             cursor->file->path, value->key);
    TRY(take_number(cursor, 8, "the length of an array", &n));
    const uint64_t each = *out_type == STRING ? 8 : dtype_size(dtypes[*out_type]);
    if (n > left(cursor) / each)
        FAIL(cursor->ctx, STATUS_CORRUPT,
             "gguf: %s, \"%.100s\" has %" PRIu64
             " elements, the file has %zu bytes after their number",
             cursor->file->path, value->key, n, left(cursor));
    value->is_array = true;
    value->n = (int64_t)n;
    return STATUS_OK;
}

static status_t take_value(cursor_t *cursor, gguf_value_t *value)
{
    uint64_t type = 0;
    size_t length = 0;
    char *key = NULL;
    TRY(take_text(cursor, "a key", MAX_KEY, &key, &length));
    value->key = key;
    if (length == 0)
        FAIL(cursor->ctx, STATUS_CORRUPT, "gguf: %s has an empty key", cursor->file->path);
    TRY(take_type(cursor, key, &type));
    value->n = 1;
    if (type == ARRAY) TRY(take_array(cursor, value, &type));
    value->dtype = dtypes[type];
    if (type != STRING) return take_numbers(cursor, value);
    return value->is_array ? take_strings(cursor, value) : take_one_string(cursor, value);
}

/* ---- tensors ---- */

/* Takes the sizes, innermost first, and computes the number of bytes. */
static status_t take_sizes(cursor_t *cursor, gguf_item_t *item)
{
    gguf_info_t *info = &item->info;
    uint64_t rank = 0, size = 0, number = 0;
    TRY(take_number(cursor, 4, "the rank of a tensor", &rank));
    if (rank > MAX_RANK)
        FAIL(cursor->ctx, STATUS_UNSUPPORTED,
             "gguf: %s, tensor \"%.100s\" has %" PRIu64 " dimensions, at most %d",
             cursor->file->path, info->name, rank, MAX_RANK);
    info->rank = (int)rank;
    for (int d = info->rank - 1; d >= 0; d--) {
        TRY(take_number(cursor, 8, "a size of a tensor", &size));
        if (size > INT64_MAX)
            FAIL(cursor->ctx, STATUS_CORRUPT, "gguf: %s, tensor \"%.100s\" has a size of %" PRIu64,
                 cursor->file->path, info->name, size);
        info->sizes[d] = (int64_t)size;
    }
    TRY(take_number(cursor, 4, "the type of a tensor", &number));
    item->type = gguf_type((uint32_t)number);
    if (item->type == NULL)
        FAIL(cursor->ctx, STATUS_UNSUPPORTED,
             "gguf: %s, tensor \"%.100s\" has unknown type %" PRIu64, cursor->file->path,
             info->name, number);
    info->type = item->type->name;
    info->dtype = item->type->dtype;
    info->is_quantized = item->type->block > 1;
    return STATUS_OK;
}

static status_t count_bytes(const cursor_t *cursor, gguf_item_t *item)
{
    gguf_info_t *info = &item->info;
    const int64_t inner = info->rank > 0 ? info->sizes[info->rank - 1] : 1;
    if (inner % item->type->block != 0)
        FAIL(cursor->ctx, STATUS_CORRUPT,
             "gguf: %s, tensor \"%.100s\" has rows of %" PRId64
             " elements, %s needs a multiple of %d",
             cursor->file->path, info->name, inner, info->type, item->type->block);
    /* The number of elements must not overflow either, even if another size is 0. */
    int64_t n = 1, n_bytes = 0;
    bool is_empty = false, overflows = false;
    for (int d = 0; d < info->rank; d++) {
        is_empty |= info->sizes[d] == 0;
        if (info->sizes[d] > 0) overflows |= __builtin_mul_overflow(n, info->sizes[d], &n);
    }
    overflows |= __builtin_mul_overflow(n, (int64_t)item->type->n_bytes, &n_bytes);
    if (overflows)
        FAIL(cursor->ctx, STATUS_CORRUPT, "gguf: %s, tensor \"%.100s\" has sizes that overflow",
             cursor->file->path, info->name);
    info->n_bytes = is_empty ? 0 : (size_t)(n_bytes / item->type->block);
    return STATUS_OK;
}

static status_t take_item(cursor_t *cursor, gguf_item_t *item)
{
    uint64_t offset = 0;
    size_t length = 0;
    char *name = NULL;
    TRY(take_text(cursor, "the name of a tensor", MAX_KEY, &name, &length));
    item->info.name = name;
    TRY(take_sizes(cursor, item));
    TRY(count_bytes(cursor, item));
    TRY(take_number(cursor, 8, "the offset of a tensor", &offset));
    if (offset > SIZE_MAX)
        FAIL(cursor->ctx, STATUS_CORRUPT, "gguf: %s, tensor \"%.100s\" begins at byte %" PRIu64,
             cursor->file->path, name, offset);
    item->info.offset = (size_t)offset;
    return STATUS_OK;
}

/* Rounds up to a multiple of the alignment; false on overflow. */
static bool align(size_t *offset, size_t alignment)
{
    if (__builtin_add_overflow(*offset, alignment - 1, offset)) return false;
    *offset -= *offset % alignment;
    return true;
}

static status_t find_alignment(const cursor_t *cursor, size_t *out_alignment)
{
    const gguf_value_t *value = gguf_find_value(cursor->file, "general.alignment");
    *out_alignment = DEFAULT_ALIGNMENT;
    if (value == NULL) return STATUS_OK;
    if (value->dtype != DTYPE_U32 || value->is_array)
        FAIL(cursor->ctx, STATUS_CORRUPT, "gguf: %s, general.alignment must be a u32",
             cursor->file->path);
    const int64_t alignment = dtype_load_integer(DTYPE_U32, value->elements);
    if (alignment == 0 || (alignment & (alignment - 1)) != 0)
        FAIL(cursor->ctx, STATUS_CORRUPT,
             "gguf: %s, general.alignment is %" PRId64 ", must be a power of 2", cursor->file->path,
             alignment);
    *out_alignment = (size_t)alignment;
    return STATUS_OK;
}

/* Tensors follow each other, each at the next multiple of the alignment. */
static status_t check_offsets(const cursor_t *cursor)
{
    const gguf_t *file = cursor->file;
    size_t alignment = 0, first = cursor->at, end = 0;
    TRY(find_alignment(cursor, &alignment));
    bool fits = align(&first, alignment);
    for (int i = 0; i < file->n_items; i++) {
        gguf_info_t *info = &file->items[i].info;
        fits = fits && align(&end, alignment);
        if (fits && info->offset != end)
            FAIL(cursor->ctx, STATUS_CORRUPT,
                 "gguf: %s, tensor \"%.100s\" begins at byte %zu of "
                 "the elements, must begin at %zu",
                 file->path, info->name, info->offset, end);
        fits = fits && !__builtin_add_overflow(end, info->n_bytes, &end) &&
               (info->n_bytes == 0 || (first <= file->n_bytes && end <= file->n_bytes - first));
        if (!fits)
            FAIL(cursor->ctx, STATUS_CORRUPT,
                 "gguf: %s, tensor \"%.100s\" of %zu bytes ends after "
                 "the file, which has %zu bytes",
                 file->path, info->name, info->n_bytes, file->n_bytes);
        info->offset += first;
    }
    return STATUS_OK;
}

/* ---- all ---- */

static int compare_keys(const void *a, const void *b)
{
    return strcmp((*(gguf_value_t *const *)a)->key, (*(gguf_value_t *const *)b)->key);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp((*(gguf_item_t *const *)a)->info.name, (*(gguf_item_t *const *)b)->info.name);
}

static status_t sort_values(const cursor_t *cursor, gguf_t *file)
{
    const size_t n = (size_t)file->n_values;
    TRY(context_get(cursor->ctx, n * sizeof *file->values_by_key, "keys of a GGUF file",
                    &file->values_by_key));
    for (size_t i = 0; i < n; i++) file->values_by_key[i] = &file->values[i];
    if (n > 1) qsort(file->values_by_key, n, sizeof *file->values_by_key, compare_keys);
    for (size_t i = 1; i < n; i++)
        if (strcmp(file->values_by_key[i - 1]->key, file->values_by_key[i]->key) == 0)
            FAIL(cursor->ctx, STATUS_CORRUPT, "gguf: %s has two values of \"%.100s\"", file->path,
                 file->values_by_key[i]->key);
    return STATUS_OK;
}

static status_t sort_items(const cursor_t *cursor, gguf_t *file)
{
    const size_t n = (size_t)file->n_items;
    TRY(context_get(cursor->ctx, n * sizeof *file->items_by_name, "names of a GGUF file",
                    &file->items_by_name));
    for (size_t i = 0; i < n; i++) file->items_by_name[i] = &file->items[i];
    if (n > 1) qsort(file->items_by_name, n, sizeof *file->items_by_name, compare_names);
    for (size_t i = 1; i < n; i++)
        if (strcmp(file->items_by_name[i - 1]->info.name, file->items_by_name[i]->info.name) == 0)
            FAIL(cursor->ctx, STATUS_CORRUPT, "gguf: %s has two tensors \"%.100s\"", file->path,
                 file->items_by_name[i]->info.name);
    return STATUS_OK;
}

static status_t check_version(cursor_t *cursor)
{
    const unsigned char *magic = NULL;
    uint64_t version = 0;
    TRY(take(cursor, 4, "the magic", &magic));
    if (memcmp(magic, "GGUF", 4) != 0)
        FAIL(cursor->ctx, STATUS_CORRUPT, "gguf: %s does not begin with GGUF", cursor->file->path);
    TRY(take_number(cursor, 4, "the version", &version));
    if (version != 0 && (version & 0xffff) == 0)
        FAIL(cursor->ctx, STATUS_UNSUPPORTED, "gguf: %s is a big-endian file", cursor->file->path);
    if (version < 2 || version > 3)
        FAIL(cursor->ctx, STATUS_UNSUPPORTED,
             "gguf: %s has version %" PRIu64 ", versions 2 and 3 are supported", cursor->file->path,
             version);
    return STATUS_OK;
}

/* Compares a count with the bytes of the file that are left. */
static status_t check_count(const cursor_t *cursor, uint64_t count, size_t min_bytes,
                            const char *what)
{
    if (count > left(cursor) / min_bytes || count > INT32_MAX)
        FAIL(cursor->ctx, STATUS_CORRUPT, "gguf: %s has %" PRIu64 " %s, the file has %zu bytes",
             cursor->file->path, count, what, cursor->file->n_bytes);
    return STATUS_OK;
}

status_t gguf_read_header(context_t *ctx, gguf_t *file)
{
    cursor_t cursor = {ctx, file, 0};
    uint64_t n_items = 0, n_values = 0;
    TRY(check_version(&cursor));
    TRY(take_number(&cursor, 8, "the number of tensors", &n_items));
    TRY(take_number(&cursor, 8, "the number of values", &n_values));
    TRY(check_count(&cursor, n_items, MIN_TENSOR_BYTES, "tensors"));
    TRY(check_count(&cursor, n_values, MIN_VALUE_BYTES, "values"));
    TRY(context_get_zeroed(ctx, n_values * sizeof *file->values, "values of a GGUF file",
                           &file->values));
    while (file->n_values < (int)n_values)
        TRY(take_value(&cursor, &file->values[file->n_values++]));
    file->values_end = cursor.at;
    TRY(sort_values(&cursor, file));
    TRY(context_get_zeroed(ctx, n_items * sizeof *file->items, "tensors of a GGUF file",
                           &file->items));
    while (file->n_items < (int)n_items) TRY(take_item(&cursor, &file->items[file->n_items++]));
    TRY(sort_items(&cursor, file));
    return check_offsets(&cursor);
}
