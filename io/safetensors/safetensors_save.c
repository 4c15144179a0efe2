/* Writes a safetensors file. The header needs only dtypes and sizes, so it is written first; then
 * each tensor is converted to row-major and written. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "io/safetensors/safetensors_impl.h"
#include "tensor/tensor_impl.h"
#include "tensor/text/text.h"

typedef struct item {
    const char *name;
    const tensor_t *tensor;
    const safetensors_type_t *type;
    size_t n_bytes;
} item_t;

/* ---- arguments ---- */

static status_t check_metadata(context_t *ctx, const datum_t *metadata)
{
    if (metadata == NULL) return STATUS_OK;
    REQUIRE(ctx, datum_kind(metadata) == DATUM_DICT,
            "safetensors_save: metadata is %s, must be a dict of strings",
            datum_kind_name(datum_kind(metadata)));
    for (int i = 0; i < datum_length(metadata); i++) {
        const datum_t *value = datum_item(metadata, i);
        REQUIRE(ctx, datum_kind(value) == DATUM_STRING,
                "safetensors_save: metadata \"%.100s\" is %s, must be a string",
                datum_key(metadata, i), datum_kind_name(datum_kind(value)));
    }
    return STATUS_OK;
}

static status_t check_texts(context_t *ctx, const datum_t *tensors, const datum_t *metadata)
{
    for (int i = 0; i < datum_length(tensors); i++)
        TRY(safetensors_check_text(ctx, "the name of a tensor", datum_key(tensors, i)));
    for (int i = 0; i < datum_length(metadata); i++) {
        TRY(safetensors_check_text(ctx, "a key of the metadata", datum_key(metadata, i)));
        TRY(safetensors_check_text(ctx, "metadata", datum_as_string(datum_item(metadata, i))));
    }
    return STATUS_OK;
}

static status_t list_item(context_t *ctx, const char *name, const datum_t *value, item_t *item)
{
    REQUIRE(ctx, datum_kind(value) == DATUM_TENSOR,
            "safetensors_save: \"%.100s\" is %s, must be a tensor", name,
            datum_kind_name(datum_kind(value)));
    REQUIRE(ctx, strcmp(name, SAFETENSORS_METADATA) != 0,
            "safetensors_save: a tensor \"%s\", the name belongs to the metadata", name);
    const tensor_t *tensor = datum_as_tensor(value);
    const tensor_info_t *info = tensor_info(tensor);
    tensor_info_t dense = info_dense(info->dtype, info->rank, info->sizes);
    *item = (item_t){name, tensor, safetensors_type_of(info->dtype), 0};
    return tensor_count_bytes(ctx, &dense, &item->n_bytes);
}

/* Orders tensors by type, from the end of the types' table (largest first), so that each tensor is
 * aligned to its element size. */
static int compare(const void *a, const void *b)
{
    const item_t *x = a, *y = b;
    if (x->type != y->type) return x->type < y->type ? 1 : -1;
    return strcmp(x->name, y->name);
}

static status_t list_items(context_t *ctx, const datum_t *tensors, item_t *items)
{
    int n = datum_length(tensors);
    for (int i = 0; i < n; i++)
        TRY(list_item(ctx, datum_key(tensors, i), datum_item(tensors, i), &items[i]));
    if (n > 1) qsort(items, (size_t)n, sizeof *items, compare);
    return STATUS_OK;
}

/* ---- the header ---- */

static void print_metadata(text_t *text, const datum_t *metadata)
{
    text_append(text, "\"" SAFETENSORS_METADATA "\":{");
    for (int i = 0; i < datum_length(metadata); i++) {
        if (i > 0) text_append(text, ",");
        text_append_quoted(text, datum_key(metadata, i));
        text_append(text, ":");
        text_append_quoted(text, datum_as_string(datum_item(metadata, i)));
    }
    text_append(text, "}");
}

static void print_item(text_t *text, const item_t *item, size_t begin)
{
    const tensor_info_t *info = tensor_info(item->tensor);
    text_append_quoted(text, item->name);
    text_append(text, ":{\"dtype\":\"%s\",\"shape\":[", item->type->name);
    for (int d = 0; d < info->rank; d++)
        text_append(text, "%s%" PRId64, d > 0 ? "," : "", info->sizes[d]);
    text_append(text, "],\"data_offsets\":[%zu,%zu]}", begin, begin + item->n_bytes);
}

static status_t print_header(context_t *ctx, const datum_t *metadata, int n, const item_t *items,
                             text_t *text)
{
    size_t begin = 0, end = 0;
    text_append(text, "{");
    if (metadata != NULL) print_metadata(text, metadata);
    for (int i = 0; i < n; i++) {
        REQUIRE(ctx,
                !__builtin_add_overflow(begin, items[i].n_bytes, &end) && end <= (size_t)INT64_MAX,
                "safetensors_save: \"%.100s\" of %zu bytes after %zu, the file's size overflows",
                items[i].name, items[i].n_bytes, begin);
        if (i > 0 || metadata != NULL) text_append(text, ",");
        print_item(text, &items[i], begin);
        begin = end;
    }
    text_append(text, "}");
    while (text_status(text) == STATUS_OK && text->length % SAFETENSORS_LENGTH_BYTES != 0)
        text_append(text, " ");
    TRY(text_status(text));
    REQUIRE(ctx, text->length <= SAFETENSORS_HEADER_MAX,
            "safetensors_save: a header of %zu bytes, at most %d", text->length,
            SAFETENSORS_HEADER_MAX);
    return STATUS_OK;
}

/* ---- the file ---- */

static status_t write_plain(context_t *ctx, file_writer_t *writer, const tensor_t *plain,
                            size_t n_bytes)
{
    if (n_bytes == 0) return STATUS_OK;
    TRY(storage_restore(ctx, plain->storage, CAUSE_USER));
    return file_write(writer, tensor_bytes(plain), n_bytes);
}

static status_t write_item(context_t *ctx, file_writer_t *writer, const item_t *item)
{
    tensor_t *dense = NULL, *plain = NULL;
    TRY(tensor_readable(ctx, item->tensor, &dense));
    const tensor_info_t *info = tensor_info(dense);
    tensor_info_t wanted = info_dense(info->dtype, info->rank, info->sizes);
    status_t status = STATUS_OK;
    if (!info_is_contiguous(info)) {
        status = tensor_make(ctx, &wanted, &plain);
        if (status == STATUS_OK) status = tensor_copy(ctx, plain, dense);
    }
    if (status == STATUS_OK)
        status = write_plain(ctx, writer, plain != NULL ? plain : dense, item->n_bytes);
    tensor_drop(plain);
    tensor_drop(dense);
    return status;
}

static status_t write_file(context_t *ctx, const char *path, const text_t *header, int n,
                           const item_t *items)
{
    unsigned char length[SAFETENSORS_LENGTH_BYTES];
    for (size_t i = 0; i < sizeof length; i++)
        length[i] = (unsigned char)((uint64_t)header->length >> 8 * i & 0xff);
    file_writer_t *writer = NULL;
    TRY(file_write_begin(ctx, path, &writer));
    status_t status = file_write(writer, length, sizeof length);
    if (status == STATUS_OK) status = file_write(writer, header->bytes, header->length);
    for (int i = 0; i < n && status == STATUS_OK; i++) status = write_item(ctx, writer, &items[i]);
    status_t ended = file_write_end(writer, status == STATUS_OK);
    return status != STATUS_OK ? status : ended;
}

status_t safetensors_save(context_t *ctx, const char *path, const datum_t *tensors,
                          const datum_t *metadata)
{
    if (ctx == NULL) return STATUS_INVALID_ARGUMENT;
    if (path == NULL) return context_null(ctx, "safetensors_save", "path");
    if (tensors == NULL) return context_null(ctx, "safetensors_save", "tensors");
    REQUIRE(ctx, datum_kind(tensors) == DATUM_DICT,
            "safetensors_save: tensors are %s, must be a dict",
            datum_kind_name(datum_kind(tensors)));
    TRY(safetensors_check_build(ctx));
    TRY(check_metadata(ctx, metadata));
    int n = datum_length(tensors);
    item_t *items = NULL;
    text_t header = text_begin(ctx);
    TRY(context_get(ctx, (size_t)n * sizeof *items, "tensors of a file", &items));
    status_t status = list_items(ctx, tensors, items);
    if (status == STATUS_OK) status = print_header(ctx, metadata, n, items, &header);
    if (status == STATUS_OK) status = check_texts(ctx, tensors, metadata);
    if (status == STATUS_OK) status = write_file(ctx, path, &header, n, items);
    text_clear(&header);
    context_put(ctx, items);
    return status;
}
