/* Opens GGUF files, and reads their values and tensors. */
#include "io/gguf/gguf.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "io/gguf/gguf_impl.h"
#include "tensor/file/file_block_impl.h"
#include "tensor/file/file_kind_impl.h"
#include "tensor/tensor_impl.h"
#include "tensor/threads/threads_impl.h"

/* ---- opening ---- */

/* Opens a handle. Takes ownership of `mapping`, also on failure. If it is NULL, the caller owns
 * `bytes`. */
static status_t open_take(context_t *ctx, const char *path, file_mapping_t *mapping,
                          const void *bytes, size_t n_bytes, gguf_t **out_file)
{
    gguf_t *file = NULL;
    status_t status = context_get_zeroed(ctx, sizeof *file, "a GGUF file", &file);
    TRY_OR(status, file_release(mapping));
    file->allocator = *context_allocator(ctx);
    file->mapping = mapping;
    file->bytes = bytes;
    file->n_bytes = n_bytes;
    status = context_string(ctx, path, &file->path);
    if (status == STATUS_OK)
        status = file_check_kind(ctx, "gguf", path, FILE_GGUF, file->bytes, file->n_bytes);
    if (status == STATUS_OK) status = gguf_read_header(ctx, file);
    GIVE(status, out_file, file, gguf_close(file));
}

status_t gguf_open(context_t *ctx, const char *path, gguf_t **out_file)
{
    file_mapping_t *mapping = NULL;
    TRY(context_output(ctx, "gguf_open", out_file));
    if (path == NULL) return context_null(ctx, "gguf_open", "path");
    TRY(file_map(ctx, path, &mapping));
    return open_take(ctx, path, mapping, file_bytes(mapping), file_size(mapping), out_file);
}

status_t gguf_open_bytes(context_t *ctx, const void *bytes, size_t n_bytes, gguf_t **out_file)
{
    TRY(context_output(ctx, "gguf_open_bytes", out_file));
    if (bytes == NULL) return context_null(ctx, "gguf_open_bytes", "bytes");
    return open_take(ctx, "memory", NULL, bytes, n_bytes, out_file);
}

/* Frees what a handle owns, which its public structs declare const. */
static void put(const gguf_t *file, const void *owned)
{
    void *block = NULL;
    memcpy(&block, &owned, sizeof block);
    allocator_put(&file->allocator, block);
}

void gguf_close(gguf_t *file)
{
    if (file == NULL) return;
    for (int i = 0; i < file->n_values; i++) {
        const gguf_value_t *value = &file->values[i];
        if (value->strings != NULL && !value->is_array) put(file, value->strings->text);
        put(file, value->strings);
        put(file, value->key);
    }
    for (int i = 0; i < file->n_items; i++) put(file, file->items[i].info.name);
    allocator_t allocator = file->allocator;
    allocator_put(&allocator, file->values);
    allocator_put(&allocator, file->items);
    allocator_put(&allocator, file->values_by_key);
    allocator_put(&allocator, file->items_by_name);
    allocator_put(&allocator, file->path);
    file_release(file->mapping);
    allocator_put(&allocator, file);
}

/* ---- contents ---- */

const char *gguf_path(const gguf_t *file)
{
    return file != NULL ? file->path : NULL;
}

int gguf_n_values(const gguf_t *file)
{
    return file != NULL ? file->n_values : 0;
}

const gguf_value_t *gguf_value(const gguf_t *file, int index)
{
    return index >= 0 && index < gguf_n_values(file) ? &file->values[index] : NULL;
}

static int compare_to_value(const void *key, const void *value)
{
    return strcmp(key, (*(gguf_value_t *const *)value)->key);
}

const gguf_value_t *gguf_find_value(const gguf_t *file, const char *key)
{
    if (key == NULL || gguf_n_values(file) == 0) return NULL;
    gguf_value_t *const *found = bsearch(key, file->values_by_key, (size_t)file->n_values,
                                         sizeof *file->values_by_key, compare_to_value);
    return found != NULL ? *found : NULL;
}

int gguf_count(const gguf_t *file)
{
    return file != NULL ? file->n_items : 0;
}

const gguf_info_t *gguf_info(const gguf_t *file, int index)
{
    return index >= 0 && index < gguf_count(file) ? &file->items[index].info : NULL;
}

static int compare_to_item(const void *name, const void *item)
{
    return strcmp(name, (*(gguf_item_t *const *)item)->info.name);
}

static const gguf_item_t *find_item(const gguf_t *file, const char *name)
{
    if (name == NULL || gguf_count(file) == 0) return NULL;
    gguf_item_t *const *found = bsearch(name, file->items_by_name, (size_t)file->n_items,
                                        sizeof *file->items_by_name, compare_to_item);
    return found != NULL ? *found : NULL;
}

const gguf_info_t *gguf_find(const gguf_t *file, const char *name)
{
    const gguf_item_t *item = find_item(file, name);
    return item != NULL ? &item->info : NULL;
}

/* ---- reading metadata ---- */

/* Finds a single value; NULL if there is none. `wanted` says what the caller can read. */
static status_t find_single(context_t *ctx, const char *op, const gguf_t *file, const char *key,
                            bool is_text, const char *wanted, const gguf_value_t **out_value)
{
    if (file == NULL) return context_null(ctx, op, "file");
    if (key == NULL) return context_null(ctx, op, "key");
    const gguf_value_t *value = gguf_find_value(file, key);
    *out_value = value;
    if (value == NULL) return STATUS_OK;
    if (value->is_array || (value->dtype == DTYPE_NONE) != is_text)
        FAIL(ctx, STATUS_CORRUPT, "%s: %s, \"%.100s\" is %s%s, must be %s", op, file->path, key,
             value->is_array ? "an array of " : "",
             value->dtype == DTYPE_NONE ? "string" : dtype_name(value->dtype), wanted);
    return STATUS_OK;
}

status_t gguf_integer(context_t *ctx, const gguf_t *file, const char *key, int64_t *inout_value)
{
    const gguf_value_t *value = NULL;
    if (inout_value == NULL) return context_null(ctx, "gguf_integer", "inout_value");
    TRY(find_single(ctx, "gguf_integer", file, key, false, "an integer", &value));
    if (value == NULL) return STATUS_OK;
    if (dtype_is_floating(value->dtype))
        FAIL(ctx, STATUS_CORRUPT, "gguf_integer: %s, \"%.100s\" is %s, must be an integer",
             file->path, key, dtype_name(value->dtype));
    const int64_t number = dtype_load_integer(value->dtype, value->elements);
    if (value->dtype == DTYPE_U64 && number < 0)
        FAIL(ctx, STATUS_CORRUPT, "gguf_integer: %s, \"%.100s\" is %" PRIu64 ", at most 2^63 - 1",
             file->path, key, (uint64_t)number);
    *inout_value = number;
    return STATUS_OK;
}

status_t gguf_number(context_t *ctx, const gguf_t *file, const char *key, double *inout_value)
{
    const gguf_value_t *value = NULL;
    if (inout_value == NULL) return context_null(ctx, "gguf_number", "inout_value");
    TRY(find_single(ctx, "gguf_number", file, key, false, "a number", &value));
    if (value != NULL) *inout_value = dtype_load(value->dtype, value->elements);
    return STATUS_OK;
}

status_t gguf_text(context_t *ctx, const gguf_t *file, const char *key, const char **inout_text)
{
    const gguf_value_t *value = NULL;
    if (inout_text == NULL) return context_null(ctx, "gguf_text", "inout_text");
    TRY(find_single(ctx, "gguf_text", file, key, true, "a string", &value));
    if (value != NULL) *inout_text = value->strings->text;
    return STATUS_OK;
}

status_t gguf_metadata(context_t *ctx, const gguf_t *file, tensor_t **out_bytes)
{
    static const unsigned char no_tensors[8] = {0};
    tensor_t *tensor = NULL;
    void *bytes = NULL;
    TRY(context_output(ctx, "gguf_metadata", out_bytes));
    if (file == NULL) return context_null(ctx, "gguf_metadata", "file");
    const tensor_info_t info = info_dense(DTYPE_U8, SHAPE((int64_t)file->values_end));
    TRY(tensor_make(ctx, &info, &tensor));
    TRY_OR(tensor_writable(ctx, tensor, &bytes), tensor_drop(tensor));
    /* The number of tensors follows the magic and the version. */
    memcpy(bytes, file->bytes, file->values_end);
    memcpy((unsigned char *)bytes + 8, no_tensors, sizeof no_tensors);
    return tensor_give(ctx, tensor, out_bytes);
}

/* ---- reading tensors ---- */

/* The arguments of tensor_grouped, and the blocks of which they are made. */
typedef struct parts {
    const gguf_type_t *type;
    const unsigned char *blocks;
    uint8_t *codes;
    unsigned char *scales, *minima;
} parts_t;

static void unpack_blocks(void *user, int64_t first, int64_t last)
{
    const parts_t *parts = user;
    const gguf_type_t *type = parts->type;
    const int64_t step = type->block / type->grouping->group *
                         (int64_t)dtype_size(type->grouping->scale);
    for (int64_t i = first; i < last; i++)
        type->unpack(parts->blocks + i * type->n_bytes, parts->codes + i * type->block,
                     parts->scales + i * step, parts->minima + i * step);
}

static status_t make_grouped(context_t *ctx, const gguf_t *file, const gguf_item_t *item,
                             tensor_t **out_tensor)
{
    const gguf_type_t *type = item->type;
    const grouping_t *grouping = type->grouping;
    const size_t n = item->info.n_bytes / (size_t)type->n_bytes;
    const size_t n_codes = n * (size_t)type->block;
    const size_t n_scales = n_codes / (size_t)grouping->group * dtype_size(grouping->scale);
    parts_t parts = {.type = type, .blocks = file->bytes + item->info.offset};
    status_t status = context_get(ctx, n_codes, "codes of a tensor", &parts.codes);
    if (status == STATUS_OK) status = context_get(ctx, n_scales, "scales", &parts.scales);
    if (status == STATUS_OK) status = context_get(ctx, n_scales, "minima", &parts.minima);
    if (status == STATUS_OK) {
        const bool has_minima = grouping->offset == GROUPING_MINIMA;
        threads_share(threads_for(ctx, (int64_t)n_codes), (int64_t)n, unpack_blocks, &parts);
        status = tensor_grouped(ctx, grouping, item->info.rank, item->info.sizes, parts.codes,
                                parts.scales, has_minima ? parts.minima : NULL, out_tensor);
    }
    /* The process needs the codes only, not also the file's pages. */
    if (file->mapping != NULL) {
        void *blocks = NULL;
        memcpy(&blocks, &parts.blocks, sizeof blocks);
        file_unload(blocks, item->info.n_bytes);
    }
    CONTEXT_PUT(ctx, parts.codes, parts.scales, parts.minima);
    return status;
}

status_t gguf_tensor(context_t *ctx, const gguf_t *file, const char *name, tensor_t **out_tensor)
{
    TRY(context_output(ctx, "gguf_tensor", out_tensor));
    if (file == NULL) return context_null(ctx, "gguf_tensor", "file");
    if (name == NULL) return context_null(ctx, "gguf_tensor", "name");
    const gguf_item_t *item = find_item(file, name);
    REQUIRE(ctx, item != NULL, "gguf_tensor: \"%.100s\" is no tensor of %s", name, file->path);
    const gguf_info_t *info = &item->info;
    if (info->dtype == DTYPE_NONE)
        FAIL(ctx, STATUS_UNSUPPORTED, "gguf_tensor: \"%.100s\" of %s has elements of type %s", name,
             file->path, info->type);
    TRY(tensor_check(ctx, "gguf_tensor", info->dtype, info->rank, info->sizes));
    tensor_info_t dense = info_dense(info->dtype, info->rank, info->sizes);
    if (info->n_bytes == 0)
        return tensor_zeros(ctx, info->dtype, info->rank, info->sizes, out_tensor);
    if (item->type->unpack != NULL) return make_grouped(ctx, file, item, out_tensor);
    if (file->mapping != NULL && info->offset % dtype_size(info->dtype) == 0)
        return file_tensor(ctx, file->mapping, info->offset, &dense, out_tensor);
    return tensor_from(ctx, info->dtype, info->rank, info->sizes, file->bytes + info->offset,
                       out_tensor);
}
