/* A folder of .npy files as a dict: one file for each tensor, named after its key. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "io/data/npy.h"
#include "tensor/context_impl.h"
#include "tensor/scope.h"
#include "tensor/tensor_impl.h"
#include "tensor/text/text.h"

static const char suffix[] = ".npy";
#define SUFFIX_BYTES (sizeof suffix - 1)

/* ---- reading ---- */

typedef struct names {
    char **items; /* file names without the folder */
    int n, capacity;
} names_t;

static void clear(context_t *ctx, names_t *names)
{
    for (int i = 0; i < names->n; i++) context_put(ctx, names->items[i]);
    context_put(ctx, names->items);
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static status_t add_name(context_t *ctx, names_t *names, const char *name)
{
    char *copy = NULL;
    TRY(context_grow(ctx, &names->items, &names->capacity, names->n + 1, sizeof *names->items));
    TRY(context_string(ctx, name, &copy));
    names->items[names->n++] = copy;
    return STATUS_OK;
}

/* True for names that end in ".npy", except hidden files. */
static bool is_array(const char *name)
{
    size_t length = strlen(name);
    return name[0] != '.' && length > SUFFIX_BYTES &&
           strcmp(name + length - SUFFIX_BYTES, suffix) == 0;
}

static status_t list_files(context_t *ctx, const char *path, names_t *names)
{
    DIR *folder = opendir(path);
    if (folder == NULL) FAIL(ctx, STATUS_IO, "npy_load_folder: %s: %s", path, strerror(errno));
    status_t status = STATUS_OK;
    errno = 0;
    for (struct dirent *entry; status == STATUS_OK && (entry = readdir(folder)) != NULL;)
        if (is_array(entry->d_name)) status = add_name(ctx, names, entry->d_name);
    if (status == STATUS_OK && errno != 0)
        status = context_fail(ctx, STATUS_IO, "npy_load_folder: %s: %s", path, strerror(errno));
    closedir(folder);
    if (status == STATUS_OK && names->n == 0)
        status = context_fail(ctx, STATUS_INVALID_ARGUMENT,
                              "npy_load_folder: %s has no .npy file, one for each tensor is needed",
                              path);
    if (names->n > 0) qsort(names->items, (size_t)names->n, sizeof *names->items, compare);
    return status;
}

/* Makes the path "FOLDER/NAME" and an ending; the caller clears the text. */
static status_t join(context_t *ctx, const char *folder, const char *name, const char *end,
                     text_t *out_path)
{
    *out_path = text_begin(ctx);
    text_append(out_path, "%s/%s%s", folder, name, end);
    return text_status(out_path);
}

static status_t load_file(context_t *ctx, const char *folder, char *name, datum_t *dict)
{
    text_t path;
    tensor_t *tensor = NULL;
    datum_t *value = NULL;
    status_t status = join(ctx, folder, name, "", &path);
    if (status == STATUS_OK) status = npy_load(ctx, text_string(&path), &tensor);
    text_clear(&path);
    TRY(status);
    TRY(datum_tensor(ctx, tensor, &value));
    name[strlen(name) - SUFFIX_BYTES] = '\0';
    status = datum_put(ctx, dict, name, value);
    datum_release(value);
    return status;
}

/* The scope releases the tensors of npy_load; the dict retains them. */
status_t npy_load_folder(context_t *ctx, const char *path, datum_t **out_dict)
{
    TRY(context_output(ctx, "npy_load_folder", out_dict));
    if (path == NULL) return context_null(ctx, "npy_load_folder", "path");
    names_t names = {0};
    datum_t *dict = NULL;
    TRY(scope_begin(ctx));
    status_t status = list_files(ctx, path, &names);
    if (status == STATUS_OK) status = datum_dict(ctx, 0, NULL, NULL, &dict);
    for (int i = 0; i < names.n && status == STATUS_OK; i++)
        status = load_file(ctx, path, names.items[i], dict);
    status_t ended = scope_end(ctx);
    if (status == STATUS_OK) status = ended;
    clear(ctx, &names);
    GIVE(status, out_dict, dict, datum_release(dict));
}

/* ---- writing ---- */

static status_t check_item(context_t *ctx, const char *key, const datum_t *value)
{
    REQUIRE(ctx, key[0] != '\0' && key[0] != '.' && strchr(key, '/') == NULL,
            "npy_save_folder: key \"%s\", a name without a slash that does not begin with a point "
            "is needed",
            key);
    REQUIRE(ctx, datum_kind(value) == DATUM_TENSOR,
            "npy_save_folder: \"%s\" is %s, must be a tensor", key,
            datum_kind_name(datum_kind(value)));
    return STATUS_OK;
}

status_t npy_save_folder(context_t *ctx, const char *path, const datum_t *dict)
{
    if (ctx == NULL) return STATUS_INVALID_ARGUMENT;
    if (path == NULL) return context_null(ctx, "npy_save_folder", "path");
    if (dict == NULL) return context_null(ctx, "npy_save_folder", "dict");
    REQUIRE(ctx, datum_kind(dict) == DATUM_DICT, "npy_save_folder: a %s, must be a dict",
            datum_kind_name(datum_kind(dict)));
    for (int i = 0; i < datum_length(dict); i++)
        TRY(check_item(ctx, datum_key(dict, i), datum_item(dict, i)));
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        FAIL(ctx, STATUS_IO, "npy_save_folder: %s: %s", path, strerror(errno));
    for (int i = 0; i < datum_length(dict); i++) {
        text_t file;
        status_t status = join(ctx, path, datum_key(dict, i), suffix, &file);
        if (status == STATUS_OK)
            status = npy_save(ctx, text_string(&file), datum_as_tensor(datum_item(dict, i)));
        text_clear(&file);
        TRY(status);
    }
    return STATUS_OK;
}
