/* tessera info FILE.gguf: lists the content of a file of a language model. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tensor/base/try_impl.h"
#include "tools/command/info_file.h"
#include "tools/support/print.h"
#include "tools/support/table.h"

/* Elements of arrays, and bytes of strings, that are printed. */
enum { MAX_ELEMENTS = 8, MAX_BYTES = 200 };

/* Appends a string with quotes, its beginning if it is long. */
static void append_string(text_t *text, const gguf_string_t *string)
{
    char copy[MAX_BYTES + 1];
    size_t n = string->n_bytes < MAX_BYTES ? string->n_bytes : MAX_BYTES;
    /* A character is not cut. */
    while (n < string->n_bytes && n > 0 && ((unsigned char)string->text[n] & 0xc0) == 0x80) n--;
    memcpy(copy, string->text, n);
    copy[n] = '\0';
    text_append_quoted(text, copy);
    if (n < string->n_bytes) text_append(text, "... (%zu bytes)", string->n_bytes);
}

static void append_number(text_t *text, const gguf_value_t *value, int64_t index)
{
    const char *element = (const char *)value->elements + (size_t)index * dtype_size(value->dtype);
    if (value->dtype == DTYPE_BOOL)
        text_append(text, "%s", dtype_load_integer(value->dtype, element) != 0 ? "true" : "false");
    else if (value->dtype == DTYPE_U64)
        text_append(text, "%" PRIu64, (uint64_t)dtype_load_integer(value->dtype, element));
    else if (dtype_is_integral(value->dtype))
        text_append(text, "%" PRId64, dtype_load_integer(value->dtype, element));
    else
        text_append(text, "%.9g", dtype_load(value->dtype, element));
}

/* Writes "key" = value. An array has its type and length before its first elements. */
static status_t print_value(context_t *ctx, const gguf_value_t *value)
{
    text_t text = text_begin(ctx);
    const int64_t n = value->n < MAX_ELEMENTS ? value->n : MAX_ELEMENTS;
    text_append_quoted(&text, value->key);
    text_append(&text, " = ");
    if (value->is_array)
        text_append(&text, "%s[%" PRId64 "] ",
                    value->dtype == DTYPE_NONE ? "string" : dtype_name(value->dtype), value->n);
    for (int64_t i = 0; i < n; i++) {
        if (i > 0) text_append(&text, ", ");
        if (value->dtype == DTYPE_NONE)
            append_string(&text, &value->strings[i]);
        else
            append_number(&text, value, i);
    }
    if (n < value->n) text_append(&text, ", ...");
    status_t status = text_status(&text);
    if (status == STATUS_OK) print("%s\n", text_string(&text));
    text_clear(&text);
    return status;
}

static status_t print_tensors(context_t *ctx, const gguf_t *file)
{
    static const char *const columns[] = {"<type", "<sizes", ">bytes", "<name"};
    table_t table;
    status_t status = STATUS_OK;
    table_begin(ctx, &table, 4, columns);
    for (int i = 0; i < gguf_count(file) && status == STATUS_OK; i++) {
        const gguf_info_t *info = gguf_info(file, i);
        char sizes[INFO_SIZES_MAX];
        text_t name = text_begin(ctx);
        text_append_quoted(&name, info->name);
        status = text_status(&name);
        table_cell(&table, info->dtype == DTYPE_NONE ? "%s (not read)" : "%s", info->type);
        table_cell(&table, "%s", info_sizes(info->rank, info->sizes, sizes));
        table_cell(&table, "%zu", info->n_bytes);
        table_cell(&table, "%s", text_string(&name));
        text_clear(&name);
    }
    if (status == STATUS_OK) return table_print(&table);
    text_clear(&table.text);
    return status;
}

status_t info_gguf(context_t *ctx, const char *path)
{
    gguf_t *file = NULL;
    uint64_t n_bytes = 0;
    status_t status = STATUS_OK;
    TRY(gguf_open(ctx, path, &file));
    for (int i = 0; i < gguf_count(file); i++) n_bytes += gguf_info(file, i)->n_bytes;
    print("%s: %d tensors, %" PRIu64 " bytes\n\n", path, gguf_count(file), n_bytes);
    for (int i = 0; i < gguf_n_values(file) && status == STATUS_OK; i++)
        status = print_value(ctx, gguf_value(file, i));
    if (gguf_n_values(file) > 0) print("\n");
    if (status == STATUS_OK) status = print_tensors(ctx, file);
    gguf_close(file);
    return status;
}
