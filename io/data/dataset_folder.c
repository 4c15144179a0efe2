/* Data sets from a folder of classes, each a subfolder of pictures. First lists and sorts the
 * names, then reads each picture's size from its header. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "io/data/dataset_impl.h"
#include "io/data/picture_impl.h"
#include "tensor/tensor_impl.h"
#include "tensor/text/text.h"

/* ---- names ---- */

typedef struct names {
    char **items; /* paths that begin with the listed folder */
    int n, capacity;
} names_t;

static void clear(context_t *ctx, names_t *names)
{
    for (int i = 0; i < names->n; i++) context_put(ctx, names->items[i]);
    context_put(ctx, names->items);
    *names = (names_t){0};
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool ends_in(const char *name, const char *suffix)
{
    size_t length = strlen(name), n = strlen(suffix);
    return length > n && strcasecmp(name + length - n, suffix) == 0;
}

static bool is_picture(const char *name)
{
    return ends_in(name, ".png") || ends_in(name, ".jpg") || ends_in(name, ".jpeg");
}

/* Makes the path "FOLDER/NAME", which the caller releases with context_put. */
static status_t join(context_t *ctx, const char *folder, const char *name, char **out_path)
{
    text_t text = text_begin(ctx);
    text_append(&text, "%s/%s", folder, name);
    status_t status = text_status(&text);
    if (status == STATUS_OK) status = context_string(ctx, text_string(&text), out_path);
    text_clear(&text);
    return status;
}

/* Adds the entry if it is of the requested kind, a folder or a picture. */
static status_t add(context_t *ctx, const char *folder, const char *name, bool wants_folders,
                    names_t *names)
{
    struct stat about;
    char *path = NULL;
    if (name[0] == '.' || (!wants_folders && !is_picture(name))) return STATUS_OK;
    TRY(context_grow(ctx, &names->items, &names->capacity, names->n + 1, sizeof *names->items));
    TRY(join(ctx, folder, name, &path));
    status_t status = STATUS_OK;
    if (stat(path, &about) != 0)
        status = context_fail(ctx, STATUS_IO, "dataset_from_folder: %s: %s", path, strerror(errno));
    else if (S_ISDIR(about.st_mode) == wants_folders) {
        names->items[names->n++] = path;
        return STATUS_OK;
    }
    context_put(ctx, path);
    return status;
}

/* Lists the paths of a folder's subfolders, or of its pictures, sorted. */
static status_t list(context_t *ctx, const char *folder, bool wants_folders, names_t *names)
{
    DIR *stream = opendir(folder);
    if (stream == NULL)
        FAIL(ctx, STATUS_IO, "dataset_from_folder: %s: %s", folder, strerror(errno));
    status_t status = STATUS_OK;
    for (;;) {
        errno = 0;
        struct dirent *entry = readdir(stream);
        if (entry == NULL && errno != 0)
            status = context_fail(ctx, STATUS_IO, "dataset_from_folder: %s: %s", folder,
                                  strerror(errno));
        if (entry == NULL) break;
        status = add(ctx, folder, entry->d_name, wants_folders, names);
        if (status != STATUS_OK) break;
    }
    closedir(stream);
    if (names->n > 0) qsort(names->items, (size_t)names->n, sizeof *names->items, compare);
    return status;
}

/* ---- classes ---- */

/* A data set under construction, and the class of each picture found so far. */
typedef struct scan {
    dataset_t *dataset;
    int64_t *labels;
    int label_capacity;
} scan_t;

/* Adds the pictures of one class to the data set. */
static status_t take_pictures(context_t *ctx, scan_t *scan, names_t *pictures)
{
    dataset_t *dataset = scan->dataset;
    int n = 0;
    if (__builtin_add_overflow(dataset->n_paths, pictures->n, &n))
        return context_fail(ctx, STATUS_UNSUPPORTED, "dataset_from_folder: more pictures than %d",
                            INT32_MAX);
    TRY(context_grow(ctx, &dataset->paths, &dataset->path_capacity, n, sizeof *dataset->paths));
    TRY(context_grow(ctx, &scan->labels, &scan->label_capacity, n, sizeof *scan->labels));
    for (int i = 0; i < pictures->n; i++) {
        scan->labels[dataset->n_paths] = dataset->n_class_names - 1;
        dataset->paths[dataset->n_paths++] = pictures->items[i];
    }
    pictures->n = 0;
    return STATUS_OK;
}

static status_t add_class(context_t *ctx, scan_t *scan, const char *folder)
{
    dataset_t *dataset = scan->dataset;
    names_t pictures = {0};
    char *name = NULL;
    TRY(context_grow(ctx, &dataset->class_names, &dataset->class_capacity,
                     dataset->n_class_names + 1, sizeof *dataset->class_names));
    TRY(context_string(ctx, strrchr(folder, '/') + 1, &name));
    dataset->class_names[dataset->n_class_names++] = name;
    status_t status = list(ctx, folder, false, &pictures);
    if (status == STATUS_OK && pictures.n == 0)
        status = context_fail(
            ctx, STATUS_INVALID_ARGUMENT,
            "dataset_from_folder: %s has no picture, a class needs files that end in .png, "
            ".jpg or .jpeg",
            folder);
    if (status == STATUS_OK) status = take_pictures(ctx, scan, &pictures);
    clear(ctx, &pictures);
    return status;
}

static status_t set_targets(context_t *ctx, const scan_t *scan)
{
    dataset_t *dataset = scan->dataset;
    void *labels = NULL;
    dataset->n = dataset->n_paths;
    dataset->n_classes = dataset->n_class_names;
    tensor_info_t all = info_dense(DTYPE_S64, SHAPE(dataset->n));
    dataset->target = info_dense(DTYPE_S64, 0, NULL);
    TRY(tensor_make(ctx, &all, &dataset->targets));
    TRY(tensor_writable(ctx, dataset->targets, &labels));
    memcpy(labels, scan->labels, (size_t)dataset->n * sizeof *scan->labels);
    return STATUS_OK;
}

static status_t scan_classes(context_t *ctx, const char *path, dataset_t *dataset)
{
    scan_t scan = {.dataset = dataset};
    names_t folders = {0};
    status_t status = list(ctx, path, true, &folders);
    if (status == STATUS_OK && folders.n == 0)
        status = context_fail(ctx, STATUS_INVALID_ARGUMENT,
                              "dataset_from_folder: %s has no folder, one for each class is needed",
                              path);
    for (int i = 0; i < folders.n && status == STATUS_OK; i++)
        status = add_class(ctx, &scan, folders.items[i]);
    if (status == STATUS_OK) status = set_targets(ctx, &scan);
    clear(ctx, &folders);
    context_put(ctx, scan.labels);
    return status;
}

/* ---- sizes ---- */

/* Reads the size of every picture. All must have the size of the first one. */
static status_t measure(context_t *ctx, dataset_t *dataset)
{
    failure_t failure = {0};
    int64_t height = 0, width = 0;
    for (int i = 0; i < dataset->n_paths; i++) {
        int64_t h = 0, w = 0;
        if (picture_measure(dataset->paths[i], &h, &w, &failure) != STATUS_OK)
            FAIL(ctx, failure.status, "dataset_from_folder: %s", failure.message);
        if (i == 0) {
            height = h;
            width = w;
        }
        REQUIRE(ctx, h == height && w == width,
                "dataset_from_folder: %s has %lld x %lld points, %s %lld x %lld, all must have the "
                "same size",
                dataset->paths[i], (long long)h, (long long)w, dataset->paths[0], (long long)height,
                (long long)width);
    }
    TRY(shape_check(ctx, "dataset_from_folder", DTYPE_F32, SHAPE(PICTURE_CHANNELS, height, width)));
    dataset->item = info_dense(DTYPE_F32, SHAPE(PICTURE_CHANNELS, height, width));
    return STATUS_OK;
}

status_t dataset_from_folder(context_t *ctx, const char *path, dataset_t **out_dataset)
{
    TRY(context_output(ctx, "dataset_from_folder", out_dataset));
    if (path == NULL) return context_null(ctx, "dataset_from_folder", "path");
    dataset_t *dataset = NULL;
    TRY(dataset_make(ctx, &dataset));
    status_t status = scan_classes(ctx, path, dataset);
    if (status == STATUS_OK) status = measure(ctx, dataset);
    GIVE(status, out_dataset, dataset, dataset_release(dataset));
}
