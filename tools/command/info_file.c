/* tessera info FILE.safetensors: lists the content of a file of weights. */
#include "tools/command/info_file.h"

#include <inttypes.h>
#include <stdio.h>

#include "tensor/base/try_impl.h"
#include "tools/support/print.h"
#include "tools/support/table.h"

/* Quotes and escapes a string of the file, so that it is printed as one line. */
static status_t quote(context_t *ctx, const char *string, text_t *out_text)
{
    *out_text = text_begin(ctx);
    text_append_quoted(out_text, string);
    return text_status(out_text);
}

static status_t print_metadata(context_t *ctx, const safetensors_t *file)
{
    for (int i = 0; i < safetensors_n_metadata(file); i++) {
        const char *key = safetensors_metadata_key(file, i);
        text_t name, value;
        status_t status = quote(ctx, key, &name);
        status_t of_value = quote(ctx, safetensors_metadata(file, key), &value);
        if (status == STATUS_OK) status = of_value;
        if (status == STATUS_OK) print("%s = %s\n", text_string(&name), text_string(&value));
        text_clear(&value);
        text_clear(&name);
        TRY(status);
    }
    if (safetensors_n_metadata(file) > 0) print("\n");
    return STATUS_OK;
}

const char *info_sizes(int rank, const int64_t *sizes, char *out_text)
{
    size_t length = (size_t)snprintf(out_text, INFO_SIZES_MAX, "[");
    for (int i = 0; i < rank; i++)
        length += (size_t)snprintf(out_text + length, INFO_SIZES_MAX - length, "%s%" PRId64,
                                   i > 0 ? "," : "", sizes[i]);
    snprintf(out_text + length, INFO_SIZES_MAX - length, "]");
    return out_text;
}

static status_t print_tensors(context_t *ctx, const safetensors_t *file)
{
    static const char *const columns[] = {"<type", "<sizes", ">bytes", "<name"};
    char sizes[INFO_SIZES_MAX];
    table_t table;
    table_begin(ctx, &table, 4, columns);
    status_t status = STATUS_OK;
    for (int i = 0; i < safetensors_count(file) && status == STATUS_OK; i++) {
        const safetensors_info_t *info = safetensors_info(file, i);
        text_t name, type;
        status = quote(ctx, info->name, &name);
        status_t of_type = quote(ctx, info->type, &type);
        if (status == STATUS_OK) status = of_type;
        if (info->dtype == DTYPE_NONE)
            table_cell(&table, "%s (not read)", text_string(&type));
        else
            table_cell(&table, "%s", info->type);
        table_cell(&table, "%s", info_sizes(info->rank, info->sizes, sizes));
        table_cell(&table, "%zu", info->n_bytes);
        table_cell(&table, "%s", text_string(&name));
        text_clear(&type);
        text_clear(&name);
    }
    if (status == STATUS_OK) return table_print(&table);
    text_clear(&table.text);
    return status;
}

status_t info_file(context_t *ctx, const char *path)
{
    safetensors_t *file = NULL;
    TRY(safetensors_open(ctx, path, &file));
    uint64_t n_bytes = 0;
    for (int i = 0; i < safetensors_count(file); i++) n_bytes += safetensors_info(file, i)->n_bytes;
    print("%s: %d tensors, %" PRIu64 " bytes\n\n", path, safetensors_count(file), n_bytes);
    status_t status = print_metadata(ctx, file);
    if (status == STATUS_OK) status = print_tensors(ctx, file);
    safetensors_close(file);
    return status;
}
