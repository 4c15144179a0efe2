/* A safetensors file has 8 bytes with the header's length, the header, and the elements. Opening a
 * file checks all of the header, so reading a tensor needs only its offset. */
#include "io/safetensors/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "io/safetensors/safetensors_impl.h"
#include "tensor/file/file_block_impl.h"
#include "tensor/file/file_kind_impl.h"
#include "tensor/scope_impl.h"
#include "tensor/tensor_impl.h"

/* ---- types ---- */

static const safetensors_type_t types[] = {
    {"BOOL", DTYPE_BOOL, 8},    {"F4", DTYPE_NONE, 4},      {"F6_E2M3", DTYPE_NONE, 6},
    {"F6_E3M2", DTYPE_NONE, 6}, {"U8", DTYPE_U8, 8},        {"I8", DTYPE_S8, 8},
    {"F8_E5M2", DTYPE_NONE, 8}, {"F8_E4M3", DTYPE_NONE, 8}, {"F8_E8M0", DTYPE_NONE, 8},
    {"I16", DTYPE_S16, 16},     {"U16", DTYPE_U16, 16},     {"F16", DTYPE_F16, 16},
    {"BF16", DTYPE_BF16, 16},   {"I32", DTYPE_S32, 32},     {"U32", DTYPE_U32, 32},
    {"F32", DTYPE_F32, 32},     {"C64", DTYPE_NONE, 64},    {"F64", DTYPE_F64, 64},
    {"I64", DTYPE_S64, 64},     {"U64", DTYPE_U64, 64}};

const safetensors_type_t *safetensors_type(const char *name)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, name) == 0) return &types[i];
    return NULL;
}

const safetensors_type_t *safetensors_type_of(dtype_t dtype)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].dtype == dtype) return &types[i];
    return NULL;
}

/* ---- opening ---- */

/* Finds the header's text. The elements follow it. */
static status_t find_header(context_t *ctx, const safetensors_t *file, const char **out_text,
                            size_t *out_bytes)
{
    uint64_t length = 0;
    TRY(file_check_kind(ctx, "safetensors", file->path, FILE_SAFETENSORS, file->bytes,
                        file->n_bytes));
    if (file->n_bytes < SAFETENSORS_LENGTH_BYTES)
        FAIL(ctx, STATUS_CORRUPT, "safetensors: %s has %zu bytes, the header's length needs %d",
             file->path, file->n_bytes, SAFETENSORS_LENGTH_BYTES);
    for (int i = SAFETENSORS_LENGTH_BYTES - 1; i >= 0; i--) length = length << 8 | file->bytes[i];
    if (length > SAFETENSORS_HEADER_MAX)
        FAIL(ctx, STATUS_CORRUPT, "safetensors: %s has a header of %" PRIu64 " bytes, at most %d",
             file->path, length, SAFETENSORS_HEADER_MAX);
    size_t n_left = file->n_bytes - SAFETENSORS_LENGTH_BYTES;
    if (length > n_left)
        FAIL(ctx, STATUS_CORRUPT,
             "safetensors: %s has a header of %" PRIu64
             " bytes, the file has %zu behind its length",
             file->path, length, n_left);
    *out_text = (const char *)file->bytes + SAFETENSORS_LENGTH_BYTES;
    *out_bytes = (size_t)length;
    if (length == 0 || **out_text != '{')
        FAIL(ctx, STATUS_CORRUPT, "safetensors: %s, the header must begin with '{'", file->path);
    return STATUS_OK;
}

/* Orders by begin, then by end: an empty tensor precedes the tensor that begins at the same
 * byte. */
static int compare_places(const void *a, const void *b)
{
    const safetensors_item_t *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end) return x->end < y->end ? -1 : 1;
    return strcmp(x->info.name, y->info.name);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp((*(safetensors_item_t *const *)a)->info.name,
                  (*(safetensors_item_t *const *)b)->info.name);
}

/* Counts the bits of all elements; false on overflow. */
static bool count_bits(const safetensors_info_t *info, int n_bits, int64_t *out_bits)
{
    int64_t count = n_bits;
    for (int d = 0; d < info->rank; d++)
        if (__builtin_mul_overflow(count, info->sizes[d], &count)) return false;
    *out_bits = count;
    return true;
}

static status_t check_length(context_t *ctx, const safetensors_t *file,
                             const safetensors_item_t *item)
{
    const safetensors_type_t *type = safetensors_type(item->info.type);
    int64_t n_bits = 0, n_bytes = item->end - item->begin;
    if (type == NULL) return STATUS_OK;
    if (!count_bits(&item->info, type->n_bits, &n_bits))
        FAIL(ctx, STATUS_CORRUPT, "safetensors: %s, tensor \"%.100s\" has sizes that overflow",
             file->path, item->info.name);
    char sizes[256];
    if (n_bits % 8 != 0 || n_bits / 8 != n_bytes)
        FAIL(ctx, STATUS_CORRUPT,
             "safetensors: %s, tensor \"%.100s\" of %s%s has %" PRId64 " bytes, needs %" PRId64
             " bits",
             file->path, item->info.name, type->name,
             shape_text(item->info.rank, item->info.sizes, sizes, sizeof sizes), n_bytes, n_bits);
    return STATUS_OK;
}

/* Sorts the tensors. They must cover all bytes from the first element to the last without gaps. */
static status_t check_places(context_t *ctx, safetensors_t *file, size_t first)
{
    int64_t end = 0;
    size_t n_left = file->n_bytes - first;
    if (file->n_items > 1)
        qsort(file->items, (size_t)file->n_items, sizeof *file->items, compare_places);
    for (int i = 0; i < file->n_items; i++) {
        safetensors_item_t *item = &file->items[i];
        if (item->begin != end)
            FAIL(ctx, STATUS_CORRUPT,
                 "safetensors: %s, tensor \"%.100s\" begins at byte %" PRId64
                 ", must begin at %" PRId64 " where the last one ends",
                 file->path, item->info.name, item->begin, end);
        TRY(check_length(ctx, file, item));
        end = item->end;
        item->info.offset = first + (size_t)item->begin;
        item->info.n_bytes = (size_t)(item->end - item->begin);
    }
    if ((uint64_t)end != n_left)
        FAIL(ctx, STATUS_CORRUPT,
             "safetensors: %s, tensors end at byte %" PRId64 ", must end at %zu with the file",
             file->path, end, n_left);
    return STATUS_OK;
}

static status_t read_file(context_t *ctx, safetensors_t *file)
{
    const char *text = NULL;
    size_t n_bytes = 0;
    TRY(safetensors_check_build(ctx));
    TRY(find_header(ctx, file, &text, &n_bytes));
    TRY(safetensors_read_header(ctx, file, text, n_bytes));
    TRY(check_places(ctx, file, SAFETENSORS_LENGTH_BYTES + n_bytes));
    size_t n = (size_t)file->n_items;
    TRY(context_get(ctx, n * sizeof *file->by_name, "names of tensors", &file->by_name));
    for (size_t i = 0; i < n; i++) file->by_name[i] = &file->items[i];
    if (n > 1) qsort(file->by_name, n, sizeof *file->by_name, compare_names);
    return STATUS_OK;
}

/* Reads the length of the header, and as much of the header as the file contains; of other files as
 * many bytes as tell their kind. */
static status_t read_head(context_t *ctx, const char *path, const file_mapping_t *source,
                          void **out_head)
{
    unsigned char bytes[SAFETENSORS_LENGTH_BYTES] = {0};
    const size_t size = file_size(source);
    size_t n = size < sizeof bytes ? size : sizeof bytes;
    uint64_t length = 0;
    TRY(file_read(ctx, path, source, 0, n, bytes));
    for (int i = SAFETENSORS_LENGTH_BYTES - 1; i >= 0; i--) length = length << 8 | bytes[i];
    if (length <= SAFETENSORS_HEADER_MAX && length <= size - n) n += (size_t)length;
    if (n < FILE_KIND_BYTES) n = size < FILE_KIND_BYTES ? size : FILE_KIND_BYTES;
    TRY(context_get(ctx, n, "the header of a safetensors file", out_head));
    status_t status = file_read(ctx, path, source, 0, n, *out_head);
    if (status == STATUS_OK) return STATUS_OK;
    context_put(ctx, *out_head);
    *out_head = NULL;
    return status;
}

/* Opens a handle. Takes ownership of `source`, also on failure. If `source` is NULL, the caller
 * owns `bytes`. */
static status_t open_take(context_t *ctx, const char *path, file_mapping_t *source,
                          const void *bytes, size_t n_bytes, safetensors_t **out_file)
{
    safetensors_t *file = NULL;
    status_t status = context_get_zeroed(ctx, sizeof *file, "a safetensors file", &file);
    TRY_OR(status, file_release(source));
    file->allocator = *context_allocator(ctx);
    file->source = source;
    file->bytes = bytes;
    file->n_bytes = n_bytes;
    status = context_string(ctx, path, &file->path);
    if (status == STATUS_OK) status = read_file(ctx, file);
    GIVE(status, out_file, file, safetensors_close(file));
}

status_t safetensors_open(context_t *ctx, const char *path, safetensors_t **out_file)
{
    TRY(context_output(ctx, "safetensors_open", out_file));
    if (path == NULL) return context_null(ctx, "safetensors_open", "path");
    file_mapping_t *source = NULL;
    void *head = NULL;
    TRY(file_open_unmapped(ctx, path, &source));
    status_t status = read_head(ctx, path, source, &head);
    TRY_OR(status, file_release(source));
    status = open_take(ctx, path, source, head, file_size(source), out_file);
    if (status == STATUS_OK) (*out_file)->bytes = NULL;
    context_put(ctx, head);
    return status;
}

status_t safetensors_open_bytes(context_t *ctx, const void *bytes, size_t n_bytes,
                                safetensors_t **out_file)
{
    TRY(context_output(ctx, "safetensors_open_bytes", out_file));
    if (bytes == NULL) return context_null(ctx, "safetensors_open_bytes", "bytes");
    return open_take(ctx, "memory", NULL, bytes, n_bytes, out_file);
}

/* Frees a string of an info. The cast is needed because infos have const strings. */
static void put_string(const safetensors_t *file, const char *string)
{
    void *block = NULL;
    memcpy(&block, &string, sizeof block);
    allocator_put(&file->allocator, block);
}

void safetensors_close(safetensors_t *file)
{
    if (file == NULL) return;
    for (int i = 0; i < file->n_items; i++) {
        put_string(file, file->items[i].info.name);
        put_string(file, file->items[i].info.type);
    }
    for (int i = 0; i < file->n_pairs; i++) {
        put_string(file, file->pairs[i].key);
        put_string(file, file->pairs[i].value);
    }
    allocator_t allocator = file->allocator;
    allocator_put(&allocator, file->items);
    allocator_put(&allocator, file->by_name);
    allocator_put(&allocator, file->pairs);
    allocator_put(&allocator, file->path);
    file_release(file->source);
    allocator_put(&allocator, file);
}

/* ---- contents ---- */

int safetensors_count(const safetensors_t *file)
{
    return file != NULL ? file->n_items : 0;
}

const safetensors_info_t *safetensors_info(const safetensors_t *file, int index)
{
    return index >= 0 && index < safetensors_count(file) ? &file->items[index].info : NULL;
}

static int compare_to_item(const void *name, const void *item)
{
    return strcmp(name, (*(safetensors_item_t *const *)item)->info.name);
}

const safetensors_info_t *safetensors_find(const safetensors_t *file, const char *name)
{
    if (name == NULL || safetensors_count(file) == 0) return NULL;
    safetensors_item_t *const *found = bsearch(name, file->by_name, (size_t)file->n_items,
                                               sizeof *file->by_name, compare_to_item);
    return found != NULL ? &(*found)->info : NULL;
}

int safetensors_n_metadata(const safetensors_t *file)
{
    return file != NULL ? file->n_pairs : 0;
}

const char *safetensors_metadata_key(const safetensors_t *file, int index)
{
    return index >= 0 && index < safetensors_n_metadata(file) ? file->pairs[index].key : NULL;
}

const char *safetensors_metadata(const safetensors_t *file, const char *key)
{
    for (int i = 0; key != NULL && i < safetensors_n_metadata(file); i++)
        if (strcmp(file->pairs[i].key, key) == 0) return file->pairs[i].value;
    return NULL;
}

/* ---- reading ---- */

static status_t copy_elements(context_t *ctx, const safetensors_t *file,
                              const safetensors_info_t *info, const tensor_info_t *dense,
                              tensor_t **out_tensor)
{
    tensor_t *tensor = NULL;
    void *place = NULL;
    TRY(tensor_make(ctx, dense, &tensor));
    status_t status = tensor_writable(ctx, tensor, &place);
    TRY_OR(status, tensor_drop(tensor));
    unsigned char *bytes = place;
    if (file->source != NULL)
        status = file_read(ctx, file->path, file->source, info->offset, info->n_bytes, bytes);
    else if (info->n_bytes > 0)
        memcpy(bytes, file->bytes + info->offset, info->n_bytes);
    TRY_OR(status, tensor_drop(tensor));
    for (size_t i = 0; info->dtype == DTYPE_BOOL && i < info->n_bytes; i++)
        bytes[i] = bytes[i] != 0;
    return tensor_give(ctx, tensor, out_tensor);
}

status_t safetensors_tensor(context_t *ctx, const safetensors_t *file, const char *name,
                            tensor_t **out_tensor)
{
    TRY(context_output(ctx, "safetensors_tensor", out_tensor));
    if (file == NULL) return context_null(ctx, "safetensors_tensor", "file");
    if (name == NULL) return context_null(ctx, "safetensors_tensor", "name");
    const safetensors_info_t *info = safetensors_find(file, name);
    REQUIRE(ctx, info != NULL, "safetensors_tensor: \"%.100s\" is no tensor of %s", name,
            file->path);
    if (info->dtype == DTYPE_NONE)
        FAIL(ctx, STATUS_UNSUPPORTED,
             "safetensors_tensor: \"%.100s\" of %s has elements of type %s", name, file->path,
             info->type);
    TRY(tensor_check(ctx, "safetensors_tensor", info->dtype, info->rank, info->sizes));
    tensor_info_t dense = info_dense(info->dtype, info->rank, info->sizes);
    return copy_elements(ctx, file, info, &dense, out_tensor);
}

status_t safetensors_load(context_t *ctx, const char *path, datum_t **out_dict)
{
    TRY(context_output(ctx, "safetensors_load", out_dict));
    safetensors_t *file = NULL;
    datum_t *dict = NULL;
    TRY(safetensors_open(ctx, path, &file));
    status_t status = datum_dict(ctx, 0, NULL, NULL, &dict);
    for (int i = 0; i < file->n_items && status == STATUS_OK; i++)
        status = safetensors_put(ctx, file, file->items[i].info.name, dict);
    safetensors_close(file);
    GIVE(status, out_dict, dict, datum_release(dict));
}

status_t safetensors_put(context_t *ctx, const safetensors_t *file, const char *name, datum_t *dict)
{
    tensor_t *tensor = NULL;
    datum_t *value = NULL;
    TRY(scope_begin(ctx));
    status_t status = safetensors_tensor(ctx, file, name, &tensor);
    if (status == STATUS_OK) status = datum_tensor(ctx, tensor, &value);
    if (status == STATUS_OK) status = datum_put(ctx, dict, name, value);
    datum_release(value);
    status_t ended = scope_end(ctx);
    return status != STATUS_OK ? status : ended;
}
