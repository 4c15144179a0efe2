/* Internals of the store: names of entries, finding and adding them, and the files. This folder has
 * the code of the store; the store itself is a folder in the user's cache. An entry is a file with
 * one form, or with a model or a fact about a file (freeze/kept_impl.h). */
#ifndef TESSERA_TENSOR_STORE_STORE_IMPL_H
#define TESSERA_TENSOR_STORE_STORE_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "tensor/file/file_range_impl.h"
#include "tensor/store/store.h"
#include "tensor/tensor_impl.h"

#define STORE_SECRET 192 /* bytes of the key of all hashes; XXH3 needs at least 136 */
#define STORE_NAME_MAX 48
#define STORE_TEXT_MAX 2048
/* A smaller form is made again in less time than opening a file takes. */
#define STORE_LEAST_BYTES 65536

/* ---- forms ---- */

/* Identifies a form. The text has the tensor_info_t of the weight and of the form, which includes
 * the kernel and its version; a hash of the weight's bytes; the versions and the build of the
 * libraries, the instruction set, and the floating-point mode. The name of the file is a hash of
 * the text. */
typedef struct store_key {
    char name[STORE_NAME_MAX];
    char text[STORE_TEXT_MAX];
} store_key_t;

/* Makes the key of one form (`want`) of a weight (`from`). `file`, which may be NULL, is the mapped
 * file with the weight's bytes: if their hash is known, they are not read. Returns false if the
 * context has no store, or if the store does not take such forms: weights must be row-major, forms
 * must have at least STORE_LEAST_BYTES. */
bool store_name(context_t *ctx, const tensor_info_t *from, const void *bytes,
                const file_mapping_t *file, const tensor_info_t *want, store_key_t *out_key);

/* Returns the form, mapped from its file, or NULL if there is no file that can be used. The caller
 * drops the tensor. Removes a damaged file. */
tensor_t *store_find(context_t *ctx, const store_key_t *key, const tensor_info_t *want);

/* Adds a form, which must not change any more; it is written later. */
void store_put(context_t *ctx, const store_key_t *key, tensor_t *form);

/* Identifies the sources and the compiler of the kernels. Made by the build. */
extern const char store_build[];
/* The same for all sources of the library. */
extern const char store_build_all[];

/* ---- other entries ---- */

typedef enum store_kind { STORE_FORM, STORE_MODEL, STORE_SOURCE } store_kind_t;

/* Makes the key of an entry that is not a form from a text that identifies it; adds the versions
 * and the build of the libraries, the instruction set and the floating-point mode. Returns false if
 * the context has no store, or if the text is too long. */
bool store_name_text(context_t *ctx, store_kind_t kind, const char *text, store_key_t *out_key);

/* Hash of bytes with the store's key; false if the context has no store. */
bool store_hash_bytes(context_t *ctx, const void *bytes, size_t n_bytes, uint64_t *out_hash);

/* Returns a view of the entry's bytes, or NULL if there is no file that can be used. The caller
 * releases it. Removes a damaged file. */
file_mapping_t *store_find_bytes(context_t *ctx, const store_key_t *key);

/* Removes an entry whose content is wrong. */
void store_remove(context_t *ctx, const store_key_t *key);

/* Adds an entry with the bytes of these tensors, one after the other, which must not change any
 * more. In front of each tensor, zeros fill the entry up to a multiple of STORE_ALIGNMENT. */
#define STORE_ALIGNMENT 64
void store_put_all(context_t *ctx, const store_key_t *key, int n, tensor_t *const *tensors);

/* ---- the folder ---- */

typedef struct store_pending {
    struct store_pending *next;
    store_key_t key;
    size_t n_bytes; /* size of the entry without its header */
    int n;
    tensor_t *tensors[]; /* held */
} store_pending_t;

/* The store of a context. */
typedef struct store {
    allocator_t allocator;
    int folder; /* descriptor; -1: the folder cannot be used */
    int memo;   /* descriptor of the table of known hashes; -1: there is none */
    int64_t limit;
    unsigned char secret[STORE_SECRET];
    pthread_mutex_t lock;
    store_pending_t *first, **end; /* entries to be written; protected by the lock */
    size_t n_pending;              /* their bytes; protected by the lock */
    pthread_t thread;              /* writes them */
    bool has_thread;               /* a thread was started and not joined yet */
    bool is_running;        /* the thread will look for forms once more; protected by the lock */
    atomic_bool is_ending;  /* the thread must end soon and leave the rest */
    atomic_bool has_failed; /* a write failed: write no more */
    int n_forks; /* threads_forks() when the lock was made; more now: this is a forked child */
} store_t;

/* The context's store. The first call opens it. Returns NULL if the store is off or memory runs
 * out. */
store_t *store_of(context_t *ctx);

/* Opens a folder that only this user can write to, and makes it if necessary. Returns -1 if that is
 * not possible, or if the folder is on a remote file system. */
int store_open_folder(const char *path);

/* Reads the key of all hashes from the folder, or makes it if there is none or its file is
 * damaged; then files that were named with the old key are not found any more. */
bool store_read_secret(int folder, unsigned char *out_secret);

/* True if the file belongs to this user and nobody else can write to it. */
struct stat;
bool store_is_private(const struct stat *about);

/* Removes the least recently used files; see store_trim. Also removes old temporary files that no
 * process is writing. Ignores errors. Returns the number of removed entries. */
int store_remove_oldest(const allocator_t *allocator, int folder, int64_t n_bytes);

/* ---- known hashes ---- */

/* Opens or makes the table. Returns -1 if it cannot be used. */
int store_open_memo(int folder);

/* store_note keeps the hash of a range of a file; store_recall finds it, for as long as the file's
 * metadata stay the same. Old hashes are replaced. */
bool store_recall(const store_t *store, const file_range_t *range, uint64_t *out_hash);
void store_note(const store_t *store, const file_range_t *range, const uint64_t *hash);

/* store_set_checked keeps that a complete file has passed checks, which a number identifies. */
bool store_is_checked(context_t *ctx, const file_mapping_t *mapping, uint64_t checks);
void store_set_checked(context_t *ctx, const file_mapping_t *mapping, uint64_t checks);

/* ---- entries ---- */

/* Hash of bytes, with the store's secret; large blocks are divided among threads. */
void store_hash(const unsigned char *secret, int n_threads, const void *bytes, size_t n_bytes,
                uint64_t *out_hash);

/* Opens an entry and checks its header and size. Returns the descriptor, or -1 if it cannot be
 * used; *out_is_damaged is true if that is because its bytes are wrong. out_text has STORE_TEXT_MAX
 * bytes. */
int store_open_entry(const store_t *store, const char *name, char *out_text, size_t *out_n_bytes,
                     bool *out_is_damaged);

/* Sets the time of an entry's last use, which is the file's access time, at most once an hour.
 * Replaces a time in the future, which a wrong clock has set. */
void store_touch(int file);

/* Maps an open entry and checks its elements, without reading them if this was done before and the
 * file has not changed (unless is_read); closes the descriptor. Returns NULL if it cannot be
 * mapped, or if the elements are wrong; then *out_is_damaged is true. */
file_mapping_t *store_map_entry(context_t *ctx, const store_t *store, int file, bool is_read,
                                bool *out_is_damaged);

/* The offset of the elements in an entry. */
#define STORE_HEADER 4096

/* Writes an entry, unless there is one that can be used, or another process is writing it. Returns
 * false if a write failed or *is_ending became true. */
bool store_write_entry(store_t *store, const store_pending_t *pending,
                       const atomic_bool *is_ending);

/* Locks an open file for writing, and checks that the folder still has this file under this name.
 * *out_is_held: another process holds the lock, or has just renamed or removed the file. */
bool store_lock_file(int folder, const char *name, int file, bool *out_is_held);

#endif
