#define _GNU_SOURCE /* for flock, O_NOFOLLOW and O_NOATIME */

/* Files of the store: a header of 4096 bytes, then the elements of one form or other bytes. A file
 * is written under another name and renamed when it is complete. It is not synced: after a crash of
 * the system the file may be damaged; then its checksum is wrong, and the form is made again. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tensor/file/file_block_impl.h"
#include "tensor/file/file_hash_impl.h"
#include "tensor/scope_impl.h"
#include "tensor/store/store_impl.h"
#include "tensor/threads/threads_impl.h"

#define ENTRY_MAGIC "TESSFORM"
#define ENTRY_VERSION 1u
#define BYTE_ORDER_MARK 0x01020304u

/* The unused bytes are zero. All numbers are in the byte order of the machine. */
typedef struct entry_header {
    char magic[8];
    uint32_t version, byte_order;
    uint64_t n_elements;       /* bytes of the elements */
    uint64_t elements_hash[2]; /* hash of the elements */
    char text[STORE_TEXT_MAX];
    char unused[STORE_HEADER - STORE_TEXT_MAX - 56];
    uint64_t header_hash[2]; /* hash of everything before */
} entry_header_t;
_Static_assert(sizeof(entry_header_t) == STORE_HEADER, "the elements follow the header");

/* ---- hashes ---- */

#define PIECES_MAX 1024
#define PIECE_BYTES ((size_t)1 << 20)

typedef struct pieces {
    const unsigned char *secret;
    const char *bytes;
    size_t n_bytes, piece;
    uint64_t (*hashes)[2];
} pieces_t;

static void hash_pieces(void *user, int64_t first, int64_t last)
{
    const pieces_t *pieces = user;
    for (int64_t i = first; i < last; i++) {
        const size_t at = (size_t)i * pieces->piece, left = pieces->n_bytes - at;
        file_hash_keyed(pieces->bytes + at, left < pieces->piece ? left : pieces->piece,
                        pieces->secret, STORE_SECRET, pieces->hashes[i]);
    }
}

static size_t piece_bytes(size_t n_bytes)
{
    const size_t piece = (n_bytes + PIECES_MAX - 1) / PIECES_MAX;
    return piece < PIECE_BYTES ? PIECE_BYTES : piece;
}

void store_hash(const unsigned char *secret, int n_threads, const void *bytes, size_t n_bytes,
                uint64_t *out_hash)
{
    uint64_t hashes[PIECES_MAX][2];
    const size_t piece = piece_bytes(n_bytes);
    const size_t n = (n_bytes + piece - 1) / piece;
    pieces_t pieces = {secret, bytes, n_bytes, piece, hashes};
    if (n > 0) threads_share(n_threads, (int64_t)n, hash_pieces, &pieces);
    file_hash_keyed(hashes, n * sizeof *hashes, secret, STORE_SECRET, out_hash);
}

/* Computes store_hash of bytes that arrive one after the other. */
typedef struct stream {
    file_keyed_t state;
    const unsigned char *secret;
    size_t piece, n_piece; /* bytes of each piece, and of the current one so far */
    int n;                 /* pieces that ended */
    uint64_t hashes[PIECES_MAX][2];
} stream_t;

static void end_piece(stream_t *stream)
{
    file_keyed_end(&stream->state, stream->hashes[stream->n++]);
    file_keyed_begin(&stream->state, stream->secret, STORE_SECRET);
    stream->n_piece = 0;
}

static void begin_stream(stream_t *stream, const unsigned char *secret, size_t n_bytes)
{
    stream->secret = secret;
    stream->piece = piece_bytes(n_bytes);
    stream->n_piece = 0;
    stream->n = 0;
    file_keyed_begin(&stream->state, secret, STORE_SECRET);
}

static void add_bytes(stream_t *stream, const char *bytes, size_t n_bytes)
{
    for (size_t done = 0; done < n_bytes;) {
        const size_t left = n_bytes - done, room = stream->piece - stream->n_piece;
        const size_t n = left < room ? left : room;
        file_keyed_add(&stream->state, bytes + done, n);
        stream->n_piece += n;
        done += n;
        if (stream->n_piece == stream->piece) end_piece(stream);
    }
}

static void end_stream(stream_t *stream, uint64_t *out_hash)
{
    if (stream->n_piece > 0) end_piece(stream);
    file_hash_keyed(stream->hashes, (size_t)stream->n * sizeof *stream->hashes, stream->secret,
                    STORE_SECRET, out_hash);
}

static void hash_header(const store_t *store, const entry_header_t *header, uint64_t *out_hash)
{
    file_hash_keyed(header, offsetof(entry_header_t, header_hash), store->secret, STORE_SECRET,
                    out_hash);
}

/* ---- reading ---- */

/* Returns false on an error. *out_is_short: the file ended. */
static bool read_whole(int file, void *bytes, size_t n_bytes, bool *out_is_short)
{
    *out_is_short = false;
    for (size_t done = 0; done < n_bytes && !*out_is_short;) {
        const ssize_t n = pread(file, (char *)bytes + done, n_bytes - done, (off_t)done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return false;
        *out_is_short = n == 0;
        done += (size_t)n;
    }
    return true;
}

static bool is_valid(const store_t *store, const entry_header_t *header, size_t file_bytes)
{
    uint64_t hash[2];
    hash_header(store, header, hash);
    return memcmp(header->magic, ENTRY_MAGIC, sizeof header->magic) == 0 &&
           header->version == ENTRY_VERSION && header->byte_order == BYTE_ORDER_MARK &&
           memcmp(hash, header->header_hash, sizeof hash) == 0 &&
           memchr(header->text, '\0', sizeof header->text) != NULL &&
           header->n_elements == file_bytes - STORE_HEADER;
}

bool store_is_private(const struct stat *about)
{
    return about->st_uid == geteuid() && (about->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

void store_touch(int file)
{
    struct stat about;
    const time_t now = time(NULL);
    const struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_OMIT}};
    if (fstat(file, &about) == 0 && (now - about.st_atime >= 3600 || now < about.st_atime))
        (void)futimens(file, times);
}

int store_open_entry(const store_t *store, const char *name, char *out_text, size_t *out_n_bytes,
                     bool *out_is_damaged)
{
    entry_header_t header;
    struct stat about;
    bool is_short = false;
    *out_is_damaged = false;
    const int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOATIME;
    const int file = openat(store->folder, name, flags);
    if (file < 0) return -1;
    const bool is_read = fstat(file, &about) == 0 && S_ISREG(about.st_mode) &&
                         store_is_private(&about) &&
                         read_whole(file, &header, sizeof header, &is_short);
    *out_is_damaged = is_read && (is_short || about.st_size <= STORE_HEADER ||
                                  !is_valid(store, &header, (size_t)about.st_size));
    if (!is_read || *out_is_damaged) {
        close(file);
        return -1;
    }
    memcpy(out_text, header.text, sizeof header.text);
    *out_n_bytes = header.n_elements;
    return file;
}

/* True if the elements have the hash that the header says. */
static bool is_right(context_t *ctx, const store_t *store, const file_mapping_t *mapping,
                     bool is_read)
{
    const entry_header_t *header = file_bytes(mapping);
    const size_t n_bytes = header->n_elements;
    file_range_t range;
    uint64_t hash[2];
    const bool is_known = file_range(mapping, header + 1, n_bytes, &range);
    if (is_known && !is_read && store_recall(store, &range, hash) &&
        memcmp(hash, header->elements_hash, sizeof hash) == 0)
        return true;
    store_hash(store->secret, context_threads(ctx), header + 1, n_bytes, hash);
    if (memcmp(hash, header->elements_hash, sizeof hash) != 0) return false;
    if (is_known) store_note(store, &range, hash);
    return true;
}

file_mapping_t *store_map_entry(context_t *ctx, const store_t *store, int file, bool is_read,
                                bool *out_is_damaged)
{
    file_mapping_t *mapping = NULL;
    *out_is_damaged = false;
    scope_attempt(ctx);
    (void)scope_attempt_end(ctx, file_map_open(ctx, "the store", file, &mapping), true);
    close(file);
    if (mapping == NULL) return NULL;
    const entry_header_t *header = file_bytes(mapping);
    /* The size was checked before the file was mapped; it may have changed. */
    if (file_size(mapping) == STORE_HEADER + header->n_elements &&
        is_right(ctx, store, mapping, is_read))
        return mapping;
    *out_is_damaged = true;
    file_release(mapping);
    return NULL;
}

/* ---- writing ---- */

/* Bytes per write: so few that they are still in the cache after they were hashed. is_ending is
 * checked before each write. */
#define WRITE_BYTES ((size_t)256 << 10)

static bool write_piece(int file, const char *bytes, size_t n_bytes)
{
    for (size_t done = 0; done < n_bytes;) {
        const ssize_t n = write(file, bytes + done, n_bytes - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        done += (size_t)n;
    }
    return true;
}

static bool write_bytes(int file, const char *bytes, size_t n_bytes, const atomic_bool *is_ending,
                        stream_t *stream)
{
    for (size_t done = 0; done < n_bytes;) {
        const size_t left = n_bytes - done, n = left < WRITE_BYTES ? left : WRITE_BYTES;
        if (atomic_load(is_ending)) return false;
        add_bytes(stream, bytes + done, n);
        if (!write_piece(file, bytes + done, n)) return false;
        done += n;
    }
    return true;
}

bool store_lock_file(int folder, const char *name, int file, bool *out_is_held)
{
    struct stat about, now;
    const bool is_locked = flock(file, LOCK_EX | LOCK_NB) == 0;
    *out_is_held = !is_locked && errno == EWOULDBLOCK;
    if (!is_locked) return false;
    *out_is_held = fstat(file, &about) != 0 ||
                   fstatat(folder, name, &now, AT_SYMLINK_NOFOLLOW) != 0 ||
                   about.st_ino != now.st_ino || about.st_dev != now.st_dev;
    return !*out_is_held;
}

/* Opens and locks the temporary file of an entry. If it exists but is not locked, a process that
 * was killed has left it. Returns -1 on failure. *out_is_held: leave this form to others. */
static int open_temporary(const store_t *store, const char *name, bool *out_is_held)
{
    const int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    struct stat about;
    *out_is_held = false;
    const int file = openat(store->folder, name, flags, S_IRUSR | S_IWUSR);
    if (file < 0) return -1;
    if (fstat(file, &about) != 0 || !S_ISREG(about.st_mode) || !store_is_private(&about))
        *out_is_held = true;
    else if (store_lock_file(store->folder, name, file, out_is_held) && ftruncate(file, 0) == 0)
        return file;
    if (!*out_is_held) (void)unlinkat(store->folder, name, 0);
    close(file);
    return -1;
}

/* Writes the tensors after the place of the header, and computes the hash of what was written. */
static bool write_elements(const store_t *store, int file, const store_pending_t *pending,
                           const atomic_bool *is_ending, uint64_t *out_hash)
{
    static const char zeros[STORE_ALIGNMENT];
    stream_t stream;
    size_t at = 0;
    if (lseek(file, STORE_HEADER, SEEK_SET) != STORE_HEADER) return false;
    begin_stream(&stream, store->secret, pending->n_bytes);
    for (int i = 0; i < pending->n; i++) {
        const size_t n_bytes = info_bytes(&pending->tensors[i]->info);
        const size_t gap = (STORE_ALIGNMENT - at % STORE_ALIGNMENT) % STORE_ALIGNMENT;
        if (!write_bytes(file, zeros, gap, is_ending, &stream) ||
            !write_bytes(file, tensor_bytes(pending->tensors[i]), n_bytes, is_ending, &stream))
            return false;
        at += gap + n_bytes;
    }
    end_stream(&stream, out_hash);
    return at == pending->n_bytes;
}

/* The header is written last. */
static bool write_file(const store_t *store, const store_pending_t *pending, const char *temporary,
                       int file, const atomic_bool *is_ending)
{
    const store_key_t *key = &pending->key;
    entry_header_t header = {
        .version = ENTRY_VERSION, .byte_order = BYTE_ORDER_MARK, .n_elements = pending->n_bytes};
    memcpy(header.magic, ENTRY_MAGIC, sizeof header.magic);
    memcpy(header.text, key->text, strlen(key->text));
    if (!write_elements(store, file, pending, is_ending, header.elements_hash)) return false;
    hash_header(store, &header, header.header_hash);
    return lseek(file, 0, SEEK_SET) == 0 &&
           write_piece(file, (const char *)&header, sizeof header) &&
           renameat(store->folder, temporary, store->folder, key->name) == 0;
}

bool store_write_entry(store_t *store, const store_pending_t *pending, const atomic_bool *is_ending)
{
    const store_key_t *key = &pending->key;
    char temporary[STORE_NAME_MAX + 8], text[STORE_TEXT_MAX];
    size_t n_stored = 0;
    bool is_held = false, is_damaged = false;
    const int stored = store_open_entry(store, key->name, text, &n_stored, &is_damaged);
    if (stored >= 0) {
        close(stored);
        return true;
    }
    snprintf(temporary, sizeof temporary, "%s.tmp", key->name);
    const int file = open_temporary(store, temporary, &is_held);
    if (file < 0) return is_held;
    const bool is_done = write_file(store, pending, temporary, file, is_ending);
    if (!is_done) (void)unlinkat(store->folder, temporary, 0);
    close(file);
    return is_done;
}
