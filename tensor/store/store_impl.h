/* Internals of the store: names of forms, finding and adding them, and the files.
 *
 * The folder tensor/store contains the store of packed forms that all processes of a user share. */
#ifndef TESSERA_TENSOR_STORE_STORE_IMPL_H
#define TESSERA_TENSOR_STORE_STORE_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "tensor/file/file.h"
#include "tensor/store/store.h"
#include "tensor/tensor_impl.h"

#define STORE_SECRET 192 /* bytes of the key of all hashes; XXH3 needs at least 136 */
#define STORE_NAME_MAX 48
#define STORE_TEXT_MAX 2048
/* A smaller form is packed again in less time than opening a file takes. */
#define STORE_LEAST_BYTES 65536

/* ---- forms ---- */

/* Identifies a form. The text names the weight's info, a hash of its bytes, the form's info, which
 * includes the kernel and its version, and the versions of the libraries; the name of the file is a
 * hash of the text. */
typedef struct store_key {
    char name[STORE_NAME_MAX];
    char text[STORE_TEXT_MAX];
} store_key_t;

/* Sets the key of the form `want` of a weight. Returns false if the context has no store, or if the
 * store does not take such forms: weights must be row-major, forms must have at least
 * STORE_LEAST_BYTES. */
bool store_name(context_t *ctx, const tensor_info_t *from, const void *bytes,
                const tensor_info_t *want, store_key_t *out_key);

/* Returns the form, mapped from its file, or NULL if there is none that can be used. The caller
 * drops the tensor. A damaged file is removed. */
tensor_t *store_find(context_t *ctx, const store_key_t *key, const tensor_info_t *want);

/* Adds a form, which must not change any more; it is written later. */
void store_put(context_t *ctx, const store_key_t *key, tensor_t *form);

/* ---- the folder ---- */

typedef struct store_pending {
    struct store_pending *next;
    store_key_t key;
    tensor_t *tensor;
} store_pending_t;

/* The store of a context. */
typedef struct store {
    allocator_t allocator;
    int folder; /* descriptor; -1: the context has no store */
    int64_t limit;
    unsigned char secret[STORE_SECRET];
    /* Forms to be written, and the thread that writes them. */
    pthread_mutex_t lock;
    store_pending_t *first, **end;
    pthread_t thread;
    bool has_thread; /* a thread was started and not joined yet */
    bool is_running; /* it has not decided to end; protected by the lock */
    atomic_bool is_ending;
    atomic_bool is_full; /* a write failed: write no more */
    int n_forks;         /* threads_forks when the lock was made */
} store_t;

/* The context's store, opened at the first call; its folder may be -1. NULL if the store is off,
 * and without memory. */
store_t *store_of(context_t *ctx);

/* Opens a folder that only this user can write to, and makes it if necessary. Returns -1 if that is
 * not possible. */
int store_open_folder(const char *path);

/* Reads the key of all hashes from the folder, or makes it. */
bool store_read_secret(int folder, unsigned char *out_secret);

/* True if the file belongs to this user and nobody else can write to it. */
struct stat;
bool store_is_private(const struct stat *about);

/* Removes the least recently used files; see store_trim. Also removes temporary files that no
 * process is writing. Ignores errors. Returns the number of removed files. */
int store_remove_oldest(const allocator_t *allocator, int folder, int64_t n_bytes);

/* ---- files ---- */

/* Hash of bytes, with the store's secret; large blocks are divided among threads. */
void store_hash(const unsigned char *secret, int n_threads, const void *bytes, size_t n_bytes,
                uint64_t *out_hash);

/* Opens an entry and checks its header and size. Returns the descriptor, or -1; *out_is_damaged
 * tells a damaged file from a missing one. out_text has STORE_TEXT_MAX bytes. */
int store_open_entry(const store_t *store, const char *name, char *out_text, size_t *out_n_bytes,
                     bool *out_is_damaged);

/* Maps an open entry and checks its elements; closes the descriptor. NULL if they are damaged. */
file_mapping_t *store_map_entry(context_t *ctx, const store_t *store, int file);

/* The offset of the elements in an entry, a multiple of the page size of common machines. */
#define STORE_HEADER 4096

/* Writes an entry, unless it exists or another process is writing it. Returns false if a write
 * failed or is_ending became true. */
bool store_write_entry(store_t *store, const store_key_t *key, const void *bytes, size_t n_bytes,
                       const atomic_bool *is_ending);

#endif
