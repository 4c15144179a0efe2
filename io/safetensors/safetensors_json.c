/* Parses the header of a safetensors file: JSON, with jansson. */
#include "io/safetensors/safetensors_impl.h"

#ifdef TESSERA_HAVE_SAFETENSORS

#include <jansson.h>
#include <string.h>

#include "tensor/text/text.h"

typedef struct reading {
    context_t *ctx;
    safetensors_t *file;
    const char *path;
} reading_t;

static const char *kind_of(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "an array";
    case JSON_STRING: return "a string";
    case JSON_INTEGER: return "an integer";
    case JSON_REAL: return "a fraction";
    case JSON_TRUE:
    case JSON_FALSE: return "a bool";
    case JSON_NULL: return "null";
    }
    return "?";
}

/* ---- metadata ---- */

static status_t read_metadata(reading_t *r, json_t *metadata)
{
    const char *key = NULL;
    json_t *value = NULL;
    if (!json_is_object(metadata))
        FAIL(r->ctx, STATUS_CORRUPT,
             "safetensors: %s, __metadata__ is %s, must be an object of strings", r->path,
             kind_of(metadata));
    size_t n = json_object_size(metadata);
    TRY(context_get_zeroed(r->ctx, n * sizeof *r->file->pairs, "metadata", &r->file->pairs));
    json_object_foreach(metadata, key, value)
    {
        if (!json_is_string(value))
            FAIL(r->ctx, STATUS_CORRUPT,
                 "safetensors: %s, \"%.100s\" of __metadata__ is %s, must be a string", r->path,
                 key, kind_of(value));
        safetensors_pair_t *pair = &r->file->pairs[r->file->n_pairs++];
        TRY(context_string(r->ctx, key, &pair->key));
        TRY(context_string(r->ctx, json_string_value(value), &pair->value));
    }
    return STATUS_OK;
}

/* ---- tensors ---- */

static status_t fail_field(reading_t *r, const char *name, const char *field, const char *rule)
{
    FAIL(r->ctx, STATUS_CORRUPT, "safetensors: %s, %s of tensor \"%.100s\" must be %s", r->path,
         field, name, rule);
}

static bool is_count(const json_t *value)
{
    return json_is_integer(value) && json_integer_value(value) >= 0;
}

static status_t read_type(reading_t *r, const json_t *value, safetensors_info_t *info)
{
    if (!json_is_string(value)) return fail_field(r, info->name, "dtype", "a string");
    char *name = NULL;
    TRY(context_string(r->ctx, json_string_value(value), &name));
    info->type = name;
    const safetensors_type_t *type = safetensors_type(name);
    info->dtype = type != NULL ? type->dtype : DTYPE_NONE;
    return STATUS_OK;
}

static status_t read_shape(reading_t *r, const json_t *value, safetensors_info_t *info)
{
    static const char rule[] = "an array of integers of at least 0";
    if (!json_is_array(value)) return fail_field(r, info->name, "shape", rule);
    size_t rank = json_array_size(value);
    if (rank > TENSOR_MAX_RANK)
        FAIL(r->ctx, STATUS_UNSUPPORTED,
             "safetensors: %s, tensor \"%.100s\" has %zu dimensions, at most %d", r->path,
             info->name, rank, TENSOR_MAX_RANK);
    info->rank = (int)rank;
    for (size_t d = 0; d < rank; d++) {
        const json_t *size = json_array_get(value, d);
        if (!is_count(size)) return fail_field(r, info->name, "shape", rule);
        info->sizes[d] = json_integer_value(size);
    }
    return STATUS_OK;
}

static status_t read_offsets(reading_t *r, const json_t *value, safetensors_item_t *item)
{
    const json_t *begin = json_array_get(value, 0), *end = json_array_get(value, 1);
    if (json_array_size(value) != 2 || !is_count(begin) || !is_count(end) ||
        json_integer_value(begin) > json_integer_value(end))
        return fail_field(r, item->info.name, "data_offsets",
                          "[begin, end], integers of at least 0 in order");
    item->begin = json_integer_value(begin);
    item->end = json_integer_value(end);
    return STATUS_OK;
}

static status_t read_tensor(reading_t *r, const char *name, json_t *value, safetensors_item_t *item)
{
    char *copy = NULL;
    TRY(context_string(r->ctx, name, &copy));
    item->info.name = copy;
    if (!json_is_object(value))
        FAIL(r->ctx, STATUS_CORRUPT, "safetensors: %s, tensor \"%.100s\" is %s, must be an object",
             r->path, name, kind_of(value));
    const json_t *type = json_object_get(value, "dtype"), *shape = json_object_get(value, "shape"),
                 *offsets = json_object_get(value, "data_offsets");
    /* Other keys are ignored, as in the reference implementation. */
    if (type == NULL || shape == NULL || offsets == NULL)
        FAIL(
            r->ctx, STATUS_CORRUPT,
            "safetensors: %s, tensor \"%.100s\" lacks %s, dtype, shape and data_offsets are needed",
            r->path, name,
            type == NULL    ? "dtype"
            : shape == NULL ? "shape"
                            : "data_offsets");
    TRY(read_type(r, type, &item->info));
    TRY(read_shape(r, shape, &item->info));
    return read_offsets(r, offsets, item);
}

/* The number of tensors fits an int, because each takes at least one byte of the header. */
static status_t read_root(reading_t *r, json_t *root)
{
    const char *key = NULL;
    json_t *value = NULL;
    size_t n = json_object_size(root);
    TRY(context_get_zeroed(r->ctx, n * sizeof *r->file->items, "tensors of a file",
                           &r->file->items));
    json_object_foreach(root, key, value)
    {
        if (strcmp(key, SAFETENSORS_METADATA) == 0)
            TRY(read_metadata(r, value));
        else
            TRY(read_tensor(r, key, value, &r->file->items[r->file->n_items++]));
    }
    return STATUS_OK;
}

/* ---- text ---- */

static status_t status_of(const json_error_t *error)
{
    switch (json_error_code(error)) {
    case json_error_out_of_memory: return STATUS_OUT_OF_MEMORY;
    case json_error_null_character:
    case json_error_null_byte_in_key: return STATUS_UNSUPPORTED;
    default: return STATUS_CORRUPT;
    }
}

status_t safetensors_read_header(context_t *ctx, safetensors_t *file, const char *text,
                                 size_t n_bytes)
{
    json_error_t error;
    json_t *root = json_loadb(text, n_bytes, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL)
        FAIL(ctx, status_of(&error), "safetensors: %s, byte %d of the header: %s, must be JSON",
             file->path, error.position, error.text);
    reading_t reading = {ctx, file, file->path};
    FINISH(read_root(&reading, root), json_decref(root));
}

status_t safetensors_check_build(context_t *ctx)
{
    (void)ctx;
    return STATUS_OK;
}

status_t safetensors_check_text(context_t *ctx, const char *what, const char *text)
{
    json_error_t error;
    text_t quoted = text_begin(ctx);
    text_append_quoted(&quoted, text);
    status_t status = text_status(&quoted);
    json_t *json = NULL;
    if (status == STATUS_OK) {
        json = json_loadb(quoted.bytes, quoted.length, JSON_DECODE_ANY, &error);
        if (json == NULL && json_error_code(&error) == json_error_out_of_memory)
            status = context_fail(ctx, STATUS_OUT_OF_MEMORY, "safetensors: no memory for %s", what);
        else if (json == NULL)
            status = context_fail(ctx, STATUS_INVALID_ARGUMENT,
                                  "safetensors_save: %s, %.100s, must be UTF-8", what, error.text);
    }
    json_decref(json);
    text_clear(&quoted);
    return status;
}

#else

status_t safetensors_check_build(context_t *ctx)
{
    FAIL(ctx, STATUS_UNSUPPORTED, "safetensors: this build has no jansson");
}

status_t safetensors_read_header(context_t *ctx, safetensors_t *file, const char *text,
                                 size_t n_bytes)
{
    (void)file, (void)text, (void)n_bytes;
    return safetensors_check_build(ctx);
}

status_t safetensors_check_text(context_t *ctx, const char *what, const char *text)
{
    (void)what, (void)text;
    return safetensors_check_build(ctx);
}

#endif
