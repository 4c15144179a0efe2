#define _GNU_SOURCE /* for getrandom, flock, O_DIRECTORY */

/* The folder of a store: who may write to it, its secret, and its files. The user may keep other
 * files in the same folder, so the store removes only files whose names have its own pattern. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tensor/file/file_range_impl.h"
#include "tensor/store/store_impl.h"

/* ---- opening ---- */

static bool is_mine(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && about.st_uid == geteuid();
}

/* Makes the folder and missing folders above it, in a folder of this user: root must not make
 * folders in the home of another user. */
static void make_folders(const char *path)
{
    char part[PATH_MAX], above[PATH_MAX] = ".";
    const size_t length = strlen(path);
    if (length >= sizeof part) return;
    for (size_t i = 1; i <= length; i++) {
        if (path[i] != '/' && path[i] != '\0') continue;
        memcpy(part, path, i);
        part[i] = '\0';
        if (access(part, F_OK) != 0 && !is_mine(above)) return;
        if (mkdir(part, S_IRWXU) != 0 && errno != EEXIST) return; /* others may make it, too */
        memcpy(above, part, i + 1);
    }
}

int store_open_folder(const char *path)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
    struct stat about;
    /* A program that runs with the rights of another user must not trust its environment. */
    if (path == NULL || path[0] == '\0' || getauxval(AT_SECURE) != 0) return -1;
    /* Nor does root follow a link that another user made. */
    if (lstat(path, &about) == 0 && about.st_uid != geteuid()) return -1;
    int folder = open(path, flags);
    if (folder < 0 && errno == ENOENT) {
        make_folders(path);
        folder = open(path, flags);
    }
    if (folder < 0) return -1;
    if (fstat(folder, &about) == 0 && store_is_private(&about) && !file_is_remote(folder))
        return folder; /* reading a mapped file that another machine truncates raises a signal */
    close(folder);
    return -1;
}

/* ---- the secret ---- */

#define SECRET_NAME "tessera-store-key"
#define SECRET_MAGIC "TESSKEY1"

typedef struct secret_file {
    char magic[8];
    unsigned char secret[STORE_SECRET];
} secret_file_t;

/* *out_is_damaged: the file is there and can be read, but is no key. */
static bool read_secret(int folder, unsigned char *out_secret, bool *out_is_damaged)
{
    struct stat about;
    secret_file_t content;
    *out_is_damaged = false;
    const int file = openat(folder, SECRET_NAME, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) return false;
    if (fstat(file, &about) == 0 && S_ISREG(about.st_mode) && store_is_private(&about)) {
        const ssize_t n = pread(file, &content, sizeof content, 0);
        *out_is_damaged = n >= 0 &&
                          (n < (ssize_t)sizeof content ||
                           memcmp(content.magic, SECRET_MAGIC, sizeof content.magic) != 0);
        if (n == (ssize_t)sizeof content && !*out_is_damaged) {
            memcpy(out_secret, content.secret, STORE_SECRET);
            close(file);
            return true;
        }
    }
    close(file);
    return false;
}

/* Writes a new secret to a temporary file, then links it. If another process was first, its secret
 * stays. */
static bool make_secret(int folder)
{
    secret_file_t content;
    uint64_t number;
    char name[64];
    bool is_made = false;
    memcpy(content.magic, SECRET_MAGIC, sizeof content.magic);
    if (getrandom(content.secret, STORE_SECRET, 0) != STORE_SECRET ||
        getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
        return false;
    snprintf(name, sizeof name, SECRET_NAME ".%016llx.tmp", (unsigned long long)number);
    const int file = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                            S_IRUSR | S_IWUSR);
    if (file < 0) return false;
    /* Not synced, which takes milliseconds: a damaged key is made again, as are the entries. */
    if (write(file, &content, sizeof content) == (ssize_t)sizeof content)
        is_made = linkat(folder, name, folder, SECRET_NAME, 0) == 0 || errno == EEXIST;
    close(file);
    (void)unlinkat(folder, name, 0);
    return is_made;
}

bool store_read_secret(int folder, unsigned char *out_secret)
{
    bool is_damaged = false;
    if (read_secret(folder, out_secret, &is_damaged)) return true;
    if (is_damaged) (void)unlinkat(folder, SECRET_NAME, 0);
    return make_secret(folder) && read_secret(folder, out_secret, &is_damaged);
}

/* ---- listing ---- */

typedef struct file {
    char name[STORE_NAME_MAX];
    int64_t n_bytes, used;
} file_t;

typedef struct files {
    file_t *items;
    int n, capacity;
} files_t;

/* True for `before`, n hexadecimal digits, and `after`. */
static bool is_numbered(const char *name, const char *before, size_t n, const char *after)
{
    const size_t length = strlen(before);
    if (strncmp(name, before, length) != 0) return false;
    name += length;
    return strspn(name, "0123456789abcdef") >= n && strcmp(name + n, after) == 0;
}

static bool is_entry(const char *name)
{
    return is_numbered(name, "", 32, ".form") || is_numbered(name, "", 32, ".model") ||
           is_numbered(name, "", 32, ".source");
}

static bool is_temporary(const char *name)
{
    return is_numbered(name, "", 32, ".form.tmp") || is_numbered(name, "", 32, ".model.tmp") ||
           is_numbered(name, "", 32, ".source.tmp") ||
           is_numbered(name, SECRET_NAME ".", 16, ".tmp");
}

/* Removes a temporary file if no process is writing it. A young file is kept, because its writer
 * may not have locked it yet. */
static void remove_if_stale(int folder, const char *name)
{
    struct stat about;
    bool is_held = false;
    const int file = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) return;
    if (fstat(file, &about) == 0 && S_ISREG(about.st_mode) &&
        llabs((long long)time(NULL) - (long long)about.st_mtime) > 60 &&
        store_lock_file(folder, name, file, &is_held))
        (void)unlinkat(folder, name, 0);
    close(file);
}

static bool add_file(const allocator_t *allocator, files_t *files, const char *name,
                     const struct stat *about)
{
    if (files->n == files->capacity) {
        const int capacity = files->capacity * 2 + 64;
        file_t *items = allocator_get(allocator, (size_t)capacity * sizeof *items);
        if (items == NULL) return false;
        if (files->n > 0) memcpy(items, files->items, (size_t)files->n * sizeof *items);
        allocator_put(allocator, files->items);
        *files = (files_t){items, files->n, capacity};
    }
    file_t *file = &files->items[files->n++];
    memcpy(file->name, name, strlen(name) + 1);
    file->n_bytes = about->st_size;
    file->used = about->st_atime;
    return true;
}

static int compare_used(const void *a, const void *b)
{
    const file_t *x = a, *y = b;
    if (x->used != y->used) return x->used < y->used ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Lists the entries, the least recently used first. Removes old temporary files that no process
 * writes. */
static bool read_folder(const allocator_t *allocator, int folder, files_t *files)
{
    struct stat about;
    const int again = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = again >= 0 ? fdopendir(again) : NULL;
    bool is_ok = entries != NULL;
    if (entries == NULL && again >= 0) close(again);
    for (const struct dirent *entry; is_ok && (entry = readdir(entries)) != NULL;) {
        const char *name = entry->d_name;
        if (is_temporary(name)) remove_if_stale(folder, name);
        if (!is_entry(name)) continue;
        if (fstatat(folder, name, &about, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(about.st_mode))
            is_ok = add_file(allocator, files, name, &about);
    }
    if (entries != NULL) closedir(entries);
    if (files->n > 0) qsort(files->items, (size_t)files->n, sizeof *files->items, compare_used);
    return is_ok;
}

int store_remove_oldest(const allocator_t *allocator, int folder, int64_t n_bytes)
{
    files_t files = {0};
    int64_t total = 0;
    int n_removed = 0;
    (void)read_folder(allocator, folder, &files);
    for (int i = 0; i < files.n; i++) total += files.items[i].n_bytes;
    for (int i = 0; i < files.n && (total > n_bytes || n_bytes == 0); i++) {
        if (unlinkat(folder, files.items[i].name, 0) != 0) continue;
        total -= files.items[i].n_bytes;
        n_removed++;
    }
    allocator_put(allocator, files.items);
    return n_removed;
}

static status_t visit_file(context_t *ctx, const store_t *store, const file_t *file,
                           bool is_checked, store_visit_t visit, void *user)
{
    char text[STORE_TEXT_MAX] = "";
    size_t n_bytes = 0;
    bool is_damaged = false;
    const int open = store_open_entry(store, file->name, text, &n_bytes, &is_damaged);
    bool is_whole = open >= 0;
    if (is_whole && is_checked) {
        file_mapping_t *mapping = store_map_entry(ctx, store, open, true, &is_damaged);
        is_whole = mapping != NULL;
        file_release(mapping);
    } else if (is_whole) {
        close(open);
    }
    const store_entry_t entry = {file->name, text, file->n_bytes, file->used, is_whole, is_damaged};
    return visit(user, &entry);
}

status_t store_list(context_t *ctx, bool is_checked, store_visit_t visit, void *user)
{
    if (ctx == NULL || visit == NULL) return context_null(ctx, "store_list", "visit");
    const store_t *store = store_of(ctx);
    files_t files = {0};
    status_t status = STATUS_OK;
    if (store == NULL || store->folder < 0) return STATUS_OK;
    if (!read_folder(&store->allocator, store->folder, &files))
        status = context_fail(ctx, STATUS_IO, "store_list: cannot read the folder %s",
                              context_store_path(ctx));
    for (int i = 0; i < files.n && status == STATUS_OK; i++)
        status = visit_file(ctx, store, &files.items[i], is_checked, visit, user);
    allocator_put(&store->allocator, files.items);
    return status;
}

/* ---- removing ---- */

status_t store_trim(context_t *ctx, int64_t n_bytes, int *out_n)
{
    if (out_n != NULL) *out_n = 0;
    if (ctx == NULL) return STATUS_INVALID_ARGUMENT;
    REQUIRE(ctx, n_bytes >= 0, "store_trim: %lld bytes, must be 0 or more", (long long)n_bytes);
    const store_t *store = store_of(ctx);
    if (store == NULL || store->folder < 0) return STATUS_OK;
    const int n = store_remove_oldest(&store->allocator, store->folder, n_bytes);
    if (out_n != NULL) *out_n = n;
    return STATUS_OK;
}

typedef struct cleaning {
    int folder, n_removed;
} cleaning_t;

static status_t remove_damaged(void *user, const store_entry_t *entry)
{
    cleaning_t *cleaning = user;
    if (entry->is_damaged && unlinkat(cleaning->folder, entry->name, 0) == 0) cleaning->n_removed++;
    return STATUS_OK;
}

status_t store_verify(context_t *ctx, int *out_n)
{
    if (out_n != NULL) *out_n = 0;
    if (ctx == NULL) return STATUS_INVALID_ARGUMENT;
    const store_t *store = store_of(ctx);
    if (store == NULL || store->folder < 0) return STATUS_OK;
    cleaning_t cleaning = {store->folder, 0};
    TRY(store_list(ctx, true, remove_damaged, &cleaning));
    if (out_n != NULL) *out_n = cleaning.n_removed;
    return STATUS_OK;
}
