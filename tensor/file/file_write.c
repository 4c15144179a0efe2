#define _GNU_SOURCE /* for O_TMPFILE */

/* Writes an unnamed temporary file, syncs it, links it to a temporary name in the same directory,
 * and renames it to the final name. A process that is killed leaves no temporary file, except
 * between the last two steps. On file systems that do not support unnamed files, the temporary file
 * has its name from the beginning. The next writer of the same file removes temporary files that no
 * process is writing. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tensor/file/file.h"
#include "tensor/file/file_block_impl.h"
#include "tensor/threads/interrupt_impl.h"

#define WRITE_BUFFER 65536
#define PIECE_BYTES ((size_t)4 << 20) /* written between two checks for a cancel */

struct file_writer {
    context_t *ctx;
    char *path;
    char *temporary;
    int file;
    bool has_name;   /* the temporary file has a name */
    status_t status; /* first failure; nothing is written after it */
    size_t offset;
    size_t n_buffered;
    char buffer[WRITE_BUFFER];
};

#define MODE_BITS 07777
#define NEW_FILE_MODE 0666

static void drop_writer(file_writer_t *writer)
{
    context_t *ctx = writer->ctx;
    if (writer->file >= 0) {
        if (writer->has_name) unlink(writer->temporary);
        close(writer->file);
    }
    CONTEXT_PUT(ctx, writer->path, writer->temporary, writer);
}

static const char *kind_of_file(mode_t mode)
{
    return S_ISDIR(mode)    ? "a directory"
           : S_ISCHR(mode)  ? "a character device"
           : S_ISBLK(mode)  ? "a block device"
           : S_ISFIFO(mode) ? "a FIFO"
           : S_ISSOCK(mode) ? "a socket"
                            : "a symbolic link to nothing";
}

/* Resolves symbolic links and returns the file's path and mode (0: no such file). Fails for
 * anything but a regular file, because rename would replace, for example, a device. */
static status_t find_target(context_t *ctx, const char *path, char *out_target, mode_t *out_mode)
{
    struct stat about;
    *out_mode = 0;
    if (realpath(path, out_target) == NULL) {
        if (errno != ENOENT) return file_fail(ctx, "file", path, errno);
        size_t bytes = strlen(path) + 1;
        REQUIRE(ctx, bytes <= PATH_MAX, "file: a path of %zu bytes, at most %d", bytes, PATH_MAX);
        memcpy(out_target, path, bytes);
        if (lstat(path, &about) != 0) return STATUS_OK;
    } else if (stat(out_target, &about) != 0) {
        return file_fail(ctx, "file", path, errno);
    }
    if (!S_ISREG(about.st_mode))
        FAIL(ctx, STATUS_IO, "file: %s is %s, only regular files are replaced", path,
             kind_of_file(about.st_mode));
    *out_mode = about.st_mode & MODE_BITS;
    return STATUS_OK;
}

/* ---- temporaries ---- */

/* Length of the folder part of a path, including its last slash. */
static size_t folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? (size_t)(slash - path) + 1 : 0;
}

static void copy_folder(const char *path, char *out_folder)
{
    const size_t length = folder_length(path);
    memcpy(out_folder, length > 0 ? path : ".", length > 0 ? length : 1);
    out_folder[length > 0 ? length : 1] = '\0';
}

/* True for names of temporary files such as "model.tessera.1234-5.tmp" for "model.tessera". */
static bool is_temporary_of(const char *entry, const char *name)
{
    const size_t length = strlen(name);
    int end = 0;
    long process;
    unsigned number;
    return strncmp(entry, name, length) == 0 && entry[length] == '.' &&
           sscanf(entry + length + 1, "%ld-%u.tmp%n", &process, &number, &end) == 2 && end > 0 &&
           entry[length + 1 + (size_t)end] == '\0';
}

/* Removes a temporary file if no process is writing it. A writer holds a lock on it, which ends
 * with the process. */
static void remove_if_stale(int folder, const char *entry)
{
    const int file = openat(folder, entry, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0) return;
    if (flock(file, LOCK_EX | LOCK_NB) == 0) (void)unlinkat(folder, entry, 0);
    close(file);
}

/* Removes temporary files that no process is writing. Ignores errors, because a file that is left
 * does no harm. */
static void remove_stale(const char *target)
{
    char folder[PATH_MAX];
    copy_folder(target, folder);
    DIR *entries = opendir(folder);
    if (entries == NULL) return;
    for (const struct dirent *entry; (entry = readdir(entries)) != NULL;)
        if (is_temporary_of(entry->d_name, target + folder_length(target)))
            remove_if_stale(dirfd(entries), entry->d_name);
    closedir(entries);
}

static void name_temporary(file_writer_t *writer)
{
    static atomic_uint serial;
    snprintf(writer->temporary, strlen(writer->path) + 48, "%s.%ld-%u.tmp", writer->path,
             (long)getpid(), atomic_fetch_add(&serial, 1));
}

/* The path from which the writer's unnamed file can be linked, if /proc is mounted. */
#define SELF_MAX 64
static const char *name_itself(const file_writer_t *writer, char *out_name)
{
    snprintf(out_name, SELF_MAX, "/proc/self/fd/%d", writer->file);
    return out_name;
}

static bool open_unnamed(file_writer_t *writer, mode_t mode)
{
#ifdef O_TMPFILE
    char folder[PATH_MAX];
    copy_folder(writer->path, folder);
    writer->file = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
#endif
    if (writer->file < 0) return false;
    char self[SELF_MAX];
    if (access(name_itself(writer, self), F_OK) != 0) {
        close(writer->file);
        writer->file = -1;
        return false;
    }
    (void)flock(writer->file, LOCK_EX | LOCK_NB);
    return true;
}

/* Opens a named temporary file and locks it. Retries if another writer removed the file before it
 * was locked (st_nlink is 0). */
static bool open_named(file_writer_t *writer, mode_t mode)
{
    struct stat about = {.st_nlink = 0};
    for (int i = 0; i < 100 && about.st_nlink == 0; i++) {
        name_temporary(writer);
        if (writer->file >= 0) close(writer->file);
        writer->file = open(writer->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (writer->file < 0 && errno == EEXIST) continue;
        if (writer->file < 0) return false;
        writer->has_name = true;
        (void)flock(writer->file, LOCK_EX | LOCK_NB);
        if (fstat(writer->file, &about) != 0) return false;
    }
    return about.st_nlink > 0;
}

static status_t open_temporary(context_t *ctx, const char *path, file_writer_t *writer)
{
    char target[PATH_MAX];
    mode_t mode;
    TRY(find_target(ctx, path, target, &mode));
    TRY(context_string(ctx, target, &writer->path));
    TRY(context_get(ctx, strlen(target) + 48, "the name of a temporary file", &writer->temporary));
    remove_stale(target);
    const mode_t new_mode = mode != 0 ? mode & NEW_FILE_MODE : NEW_FILE_MODE;
    name_temporary(writer);
    if (!open_unnamed(writer, new_mode) && !open_named(writer, new_mode))
        return file_fail(ctx, "file", writer->temporary, errno);
    if (mode != 0 && fchmod(writer->file, mode) != 0)
        return file_fail(ctx, "file", writer->temporary, errno);
    return STATUS_OK;
}

/* Links an unnamed temporary file to a temporary name. */
static bool link_temporary(file_writer_t *writer)
{
    char self[SELF_MAX];
    if (writer->has_name) return true;
    for (int i = 0; i < 100 && !writer->has_name; i++) {
        writer->has_name = linkat(AT_FDCWD, name_itself(writer, self), AT_FDCWD, writer->temporary,
                                  AT_SYMLINK_FOLLOW) == 0;
        if (!writer->has_name && errno != EEXIST) return false;
        if (!writer->has_name) name_temporary(writer);
    }
    return writer->has_name;
}

/* ---- the writer ---- */

status_t file_write_begin(context_t *ctx, const char *path, file_writer_t **out_writer)
{
    TRY(context_output(ctx, "file_write_begin", out_writer));
    if (path == NULL) return context_null(ctx, "file_write_begin", "path");
    file_writer_t *writer = NULL;
    TRY(context_get_zeroed(ctx, sizeof *writer, "a file writer", &writer));
    writer->ctx = ctx;
    writer->file = -1;
    status_t status = open_temporary(ctx, path, writer);
    GIVE(status, out_writer, writer, drop_writer(writer));
}

static status_t write_out(file_writer_t *writer, const char *bytes, size_t n_bytes)
{
    while (n_bytes > 0) {
        writer->status = interrupt_check(writer->ctx, "the rest of a file");
        if (writer->status != STATUS_OK) return writer->status;
        ssize_t written = write(writer->file, bytes, n_bytes < PIECE_BYTES ? n_bytes : PIECE_BYTES);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) {
            writer->status = file_fail(writer->ctx, "file", writer->path, errno);
            return writer->status;
        }
        bytes += written;
        n_bytes -= (size_t)written;
    }
    return STATUS_OK;
}

static status_t flush(file_writer_t *writer)
{
    size_t n_bytes = writer->n_buffered;
    writer->n_buffered = 0;
    return write_out(writer, writer->buffer, n_bytes);
}

status_t file_write(file_writer_t *writer, const void *bytes, size_t n_bytes)
{
    if (writer == NULL) return STATUS_INVALID_ARGUMENT;
    if (writer->status != STATUS_OK || n_bytes == 0) return writer->status;
    if (bytes == NULL) return context_null(writer->ctx, "file_write", "bytes");
    if (n_bytes > PTRDIFF_MAX)
        return context_fail(writer->ctx, STATUS_INVALID_ARGUMENT,
                            "file_write: %zu bytes, too many for a buffer", n_bytes);
    if (n_bytes > WRITE_BUFFER - writer->n_buffered) TRY(flush(writer));
    if (n_bytes >= WRITE_BUFFER) {
        TRY(write_out(writer, bytes, n_bytes));
    } else {
        memcpy(writer->buffer + writer->n_buffered, bytes, n_bytes);
        writer->n_buffered += n_bytes;
    }
    writer->offset += n_bytes;
    return STATUS_OK;
}

size_t file_write_offset(const file_writer_t *writer)
{
    return writer != NULL ? writer->offset : 0;
}

/* Syncs the directory, so that the rename survives a crash. File systems that cannot sync a
 * directory return EINVAL. */
static status_t sync_directory(file_writer_t *writer)
{
    char *slash = strrchr(writer->path, '/');
    const char *directory = ".";
    if (slash == writer->path) {
        directory = "/";
    } else if (slash != NULL) {
        *slash = '\0';
        directory = writer->path;
    }
    int file = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int error = file < 0 || fsync(file) != 0 ? errno : 0;
    if (file >= 0) close(file);
    if (error != 0 && error != EINVAL) return file_fail(writer->ctx, "file", directory, error);
    return STATUS_OK;
}

static status_t commit_file(file_writer_t *writer)
{
    if (writer->status != STATUS_OK) return writer->status;
    TRY(flush(writer));
    if (fsync(writer->file) != 0 || !link_temporary(writer) ||
        rename(writer->temporary, writer->path) != 0)
        return file_fail(writer->ctx, "file", writer->path, errno);
    close(writer->file);
    writer->file = -1;
    return sync_directory(writer);
}

status_t file_write_end(file_writer_t *writer, bool commit)
{
    if (writer == NULL) return STATUS_INVALID_ARGUMENT;
    FINISH(commit ? commit_file(writer) : STATUS_OK, drop_writer(writer));
}
