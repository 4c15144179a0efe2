/* Opens GGUF files, and reads their values and tensors. */
#include "io/gguf/gguf.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "io/gguf/gguf_impl.h"
#include "tensor/convert/grouped_impl.h"
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

/* Rows of a quantised tensor, which become a grouped one a few at a time, so that the memory for
 * codes is small. */
typedef struct packing {
    const gguf_type_t *type;
    const unsigned char *blocks;
    size_t n_row; /* bytes of a row in the file */
    bool is_mapped;
    grouped_t grouped;
    void *out;
    size_t n_codes, n_scales; /* bytes of codes and of scales of GROUPED_ROWS rows */
    unsigned char *scratch;   /* each thread has codes, scales, minima */
} packing_t;

static void pack_rows(const packing_t *packing, int64_t first, int64_t n, unsigned char *codes)
{
    const gguf_type_t *type = packing->type;
    const int64_t step = type->block / type->grouping->group *
                         (int64_t)dtype_size(type->grouping->scale);
    const int64_t n_blocks = n * packing->grouped.n_columns / type->block;
    const unsigned char *blocks = packing->blocks + (size_t)first * packing->n_row;
    unsigned char *scales = codes + packing->n_codes, *minima = scales + packing->n_scales;
    for (int64_t i = 0; i < n_blocks; i++)
        type->unpack(blocks + i * type->n_bytes, codes + i * type->block, scales + i * step,
                     minima + i * step);
    grouped_pack(&packing->grouped, first, n, codes, scales, minima, packing->out);
}

/* The process no longer needs the file's pages that have rows [begin, end). */
static void unload(const packing_t *packing, int64_t begin, int64_t end)
{
    void *blocks = NULL;
    if (!packing->is_mapped || end <= begin) return;
    memcpy(&blocks, &packing->blocks, sizeof blocks);
    file_unload((char *)blocks + (size_t)begin * packing->n_row,
                (size_t)(end - begin) * packing->n_row);
}

static void pack_blocks(void *user, int64_t first, int64_t last, int member)
{
    const packing_t *packing = user;
    const size_t n_scratch = packing->n_codes + 2 * packing->n_scales;
    const int64_t n_rows = packing->grouped.n_rows, begin = first * GROUPED_ROWS;
    const int64_t end = last * GROUPED_ROWS < n_rows ? last * GROUPED_ROWS : n_rows;
    for (int64_t row = begin; row < end; row += GROUPED_ROWS)
        pack_rows(packing, row, end - row < GROUPED_ROWS ? end - row : GROUPED_ROWS,
                  packing->scratch + (size_t)member * n_scratch);
    unload(packing, begin, end);
}

static status_t make_grouped(context_t *ctx, const gguf_t *file, const gguf_item_t *item,
                             tensor_t **out_tensor)
{
    const gguf_type_t *type = item->type;
    const grouping_t *grouping = type->grouping;
    packing_t packing = {.type = type,
                         .blocks = file->bytes + item->info.offset,
                         .is_mapped = file->mapping != NULL};
    tensor_t *tensor = NULL;
    TRY(grouped_make(ctx, grouping, item->info.rank, item->info.sizes, &packing.grouped,
                     &packing.out, &tensor));
    const grouped_t *grouped = &packing.grouped;
    const int n_threads = threads_for(ctx, grouped->n_rows * grouped->n_columns);
    packing.n_row = item->info.n_bytes / (size_t)grouped->n_rows;
    packing.n_codes = (size_t)(GROUPED_ROWS * grouped->n_columns);
    packing.n_scales = (size_t)(GROUPED_ROWS * grouped->n_groups) * dtype_size(grouping->scale);
    status_t status = context_get(ctx, (size_t)n_threads * (packing.n_codes + 2 * packing.n_scales),
                                  "codes of rows", &packing.scratch);
    if (status != STATUS_OK) {
        tensor_drop(tensor);
        return status;
    }
    threads_share_members(n_threads, grouped->n_blocks, pack_blocks, &packing);
    context_put(ctx, packing.scratch);
    unload(&packing, 0, grouped->n_rows); /* pages that two ranges share */
    return tensor_give(ctx, tensor, out_tensor);
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
