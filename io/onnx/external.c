/* Reads elements of tensors from separate files.
 *
 * A model may come from an untrusted source, so a file name must not refer to a file outside of the
 * model's folder. The path with links resolved must be inside the folder. Then the file is opened
 * one component of the path at a time, starting at the folder, without following links. */
#include "io/onnx/onnx_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct place {
    const char *location;
    uint64_t offset;
    uint64_t length;
    bool has_length;
} place_t;

static bool read_number(const char *text, uint64_t *out_number)
{
    char *end = NULL;
    if (text == NULL || *text < '0' || *text > '9') return false;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    *out_number = number;
    return errno == 0 && *end == '\0';
}

static status_t read_place(context_t *ctx, const char *name, const Onnx__TensorProto *proto,
                           place_t *out_place)
{
    *out_place = (place_t){0};
    for (size_t i = 0; i < proto->n_external_data; i++) {
        const char *key = proto->external_data[i]->key, *value = proto->external_data[i]->value;
        bool is_read = true;
        if (key == NULL || value == NULL) continue;
        if (strcmp(key, "location") == 0) {
            out_place->location = value;
        } else if (strcmp(key, "offset") == 0) {
            is_read = read_number(value, &out_place->offset);
        } else if (strcmp(key, "length") == 0) {
            is_read = out_place->has_length = read_number(value, &out_place->length);
        }
        if (!is_read)
            FAIL(ctx, STATUS_CORRUPT, "tensor \"%s\": external %s \"%s\", a number is needed", name,
                 key, value);
    }
    if (out_place->location == NULL)
        FAIL(ctx, STATUS_CORRUPT, "tensor \"%s\": external data without a location", name);
    return STATUS_OK;
}

/* Opens the next component of a path and closes `folder`. Returns -1 with errno on failure. */
static int open_step(int folder, const char *name, size_t length, bool is_last)
{
    char step[NAME_MAX + 1];
    bool is_plain = length < sizeof step;
    if (is_plain) memcpy(step, name, length);
    step[is_plain ? length : 0] = '\0';
    int flags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC | (is_last ? O_NONBLOCK : O_DIRECTORY);
    int file = is_plain ? openat(folder, step, flags) : -1;
    int error = is_plain ? errno : ENAMETOOLONG;
    close(folder);
    errno = error;
    return file;
}

/* Opens a path inside a folder without following links. */
static int open_below(const char *folder, const char *path)
{
    int file = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (file >= 0) {
        size_t length = strcspn(path, "/");
        bool is_last = path[length] == '\0';
        file = open_step(file, path, length, is_last);
        if (is_last) break;
        path += length + 1;
    }
    return file;
}

/* The part of `path` after `folder`; NULL if the path is not inside it. Both must be free of
 * links. */
static const char *below(const char *path, const char *folder)
{
    size_t length = strlen(folder);
    if (length == 1) return path + 1; /* "/" */
    return strncmp(path, folder, length) == 0 && path[length] == '/' ? path + length + 1 : NULL;
}

static status_t refuse(context_t *ctx, const char *name, const char *location, const char *reason)
{
    FAIL(ctx, STATUS_IO, "tensor \"%s\": external data \"%s\", %s", name, location, reason);
}

static status_t refuse_system(context_t *ctx, const char *name, const char *location, int error)
{
    char reason[128];
    if (strerror_r(error, reason, sizeof reason) != 0)
        snprintf(reason, sizeof reason, "error %d", error);
    return refuse(ctx, name, location, reason);
}

/* Data must be in the model's folder or, if the model's file is a link, in the folder of the link's
 * target. In a download cache, model and data are links: snapshots/1/model.onnx to ../../blobs/5f,
 * and the data file to ../../blobs/8a. */
status_t onnx_open_data(context_t *ctx, const char *model_folder, const char *model_path,
                        const char *name, const char *location, int *out_file)
{
    char joined[PATH_MAX], real[PATH_MAX], folder[PATH_MAX], model[PATH_MAX];
    const char *base = *model_folder != '\0' ? model_folder : "./";
    if (*location == '\0' || *location == '/')
        return refuse(ctx, name, location, "a path from the model's folder is needed");
    if ((size_t)snprintf(joined, sizeof joined, "%s%s", base, location) >= sizeof joined)
        return refuse_system(ctx, name, location, ENAMETOOLONG);
    if (realpath(joined, real) == NULL || realpath(base, folder) == NULL)
        return refuse_system(ctx, name, location, errno);
    const char *root = folder, *rest = below(real, folder);
    if (rest == NULL && realpath(model_path, model) != NULL) {
        *strrchr(model, '/') = '\0';
        root = *model != '\0' ? model : "/";
        rest = below(real, root);
    }
    if (rest == NULL)
        return refuse(ctx, name, location,
                      "leads out of the model's folder, a file in it is needed");
    *out_file = open_below(root, rest);
    return *out_file >= 0 ? STATUS_OK : refuse_system(ctx, name, location, errno);
}

static status_t read_all(context_t *ctx, const char *name, const place_t *place, int file,
                         size_t n_bytes, void *bytes)
{
    struct stat about;
    if (fstat(file, &about) != 0 || !S_ISREG(about.st_mode))
        FAIL(ctx, STATUS_IO, "tensor \"%s\": \"%s\" is not a regular file", name, place->location);
    uint64_t size = (uint64_t)about.st_size;
    if (place->offset > size || n_bytes > size - place->offset)
        FAIL(ctx, STATUS_CORRUPT, "tensor \"%s\": %zu bytes at %llu of \"%s\", which has %llu",
             name, n_bytes, (unsigned long long)place->offset, place->location,
             (unsigned long long)size);
    for (size_t done = 0; done < n_bytes && bytes != NULL;) {
        ssize_t n = pread(file, (char *)bytes + done, n_bytes - done,
                          (off_t)(place->offset + done));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0)
            FAIL(ctx, STATUS_IO, "tensor \"%s\": \"%s\" cannot be read", name, place->location);
        done += (size_t)n;
    }
    return STATUS_OK;
}

status_t onnx_external(onnx_t *onnx, const Onnx__TensorProto *proto, size_t n_bytes, void *bytes)
{
    context_t *ctx = onnx->ctx;
    const char *name = proto->name != NULL ? proto->name : "";
    place_t place;
    TRY(read_place(ctx, name, proto, &place));
    if (onnx->folder == NULL)
        FAIL(ctx, STATUS_UNSUPPORTED,
             "tensor \"%s\": its data is in \"%s\", a model in memory has no files beside it", name,
             place.location);
    if (place.has_length && place.length != n_bytes)
        FAIL(ctx, STATUS_CORRUPT, "tensor \"%s\": %llu bytes of external data, needs %zu", name,
             (unsigned long long)place.length, n_bytes);
    int file = -1;
    TRY(onnx_open_data(ctx, onnx->folder, onnx->path, name, place.location, &file));
    FINISH(read_all(ctx, name, &place, file, n_bytes, bytes), close(file));
}
