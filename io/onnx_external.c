/* Elements of tensors in files beside the model.
 *
 * A model is data from elsewhere: what it names is opened step by step below the model's folder,
 * each step without following links, so that no name leads out of it. */
#include "io/onnx_impl.h"

#ifdef TESSERA_HAVE_ONNX

#include <errno.h>
#include <fcntl.h>
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

/* Opens the next name of the path below `folder`, which is closed; -1 with errno. */
static int open_step(int folder, const char *name, size_t length, bool is_last)
{
    char step[256];
    bool is_plain = length > 0 && length < sizeof step;
    if (is_plain) memcpy(step, name, length);
    step[is_plain ? length : 0] = '\0';
    is_plain = is_plain && strcmp(step, ".") != 0 && strcmp(step, "..") != 0;
    int flags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC | (is_last ? O_NONBLOCK : O_DIRECTORY);
    int file = is_plain ? openat(folder, step, flags) : -1;
    int error = is_plain ? errno : EACCES;
    close(folder);
    errno = error;
    return file;
}

static int open_below(const char *folder, const char *location)
{
    int file = open(*folder != '\0' ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (file >= 0) {
        size_t length = strcspn(location, "/");
        bool is_last = location[length] == '\0';
        file = open_step(file, location, length, is_last);
        if (is_last) break;
        location += length + 1;
    }
    return file;
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
        FAIL(ctx, STATUS_CORRUPT, "tensor \"%s\": %llu bytes of external data, %zu are needed",
             name, (unsigned long long)place.length, n_bytes);
    int file = open_below(onnx->folder, place.location);
    if (file < 0) {
        char reason[128];
        if (strerror_r(errno, reason, sizeof reason) != 0) snprintf(reason, sizeof reason, "?");
        FAIL(ctx, STATUS_IO,
             "tensor \"%s\": \"%s\", %s; a file in the model's folder, not a link, is needed", name,
             place.location, reason);
    }
    status_t status = read_all(ctx, name, &place, file, n_bytes, bytes);
    close(file);
    return status;
}

#endif
