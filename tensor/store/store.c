#define _GNU_SOURCE /* for SYS_gettid */

/* Finds entries of the store, and writes new ones in a thread of low priority. */
#include "tensor/store/store.h"

#include <fenv.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tensor/base/version.h"
#include "tensor/context_impl.h"
#include "tensor/file/file_block_impl.h"
#include "tensor/onednn/onednn.h"
#include "tensor/scope_impl.h"
#include "tensor/store/store_impl.h"
#include "tensor/threads/threads_impl.h"

#ifdef __SSE__
#include <xmmintrin.h>
#endif

/* ---- the store of a context ---- */

/* For a new store, and for the first use in a forked child. */
static void make_lock(store_t *store)
{
    pthread_mutex_init(&store->lock, NULL);
    store->first = NULL;
    store->end = &store->first;
    store->n_pending = 0;
    store->has_thread = store->is_running = false;
    atomic_store(&store->is_ending, false);
    store->n_forks = threads_forks();
}

static status_t open_store(context_t *ctx, void *value)
{
    store_t *store = value;
    *store = (store_t){.allocator = *context_allocator(ctx),
                       .folder = store_open_folder(context_store_path(ctx)),
                       .limit = context_store_bytes(ctx)};
    make_lock(store);
    store->memo = -1;
    if (store->folder >= 0 && !store_read_secret(store->folder, store->secret)) {
        close(store->folder);
        store->folder = -1;
    }
    if (store->folder >= 0) store->memo = store_open_memo(store->folder);
    return STATUS_OK;
}

/* Ends the thread, and then writes what it has not written. */
static void drain(store_t *store);

static void close_store(context_t *ctx, void *value)
{
    (void)ctx;
    store_t *store = value;
    drain(store);
    pthread_mutex_destroy(&store->lock);
    if (store->folder >= 0) close(store->folder);
    if (store->memo >= 0) close(store->memo);
}

store_t *store_of(context_t *ctx)
{
    static const context_slot_t slot = {sizeof(store_t), open_store, close_store};
    void *value = NULL;
    if (context_store_path(ctx) == NULL) return NULL;
    scope_attempt(ctx);
    (void)scope_attempt_end(ctx, context_slot(ctx, &slot, &value), true);
    return value;
}

/* NULL if the context has no store, or its folder cannot be used. */
static store_t *usable_store(context_t *ctx)
{
    store_t *store = store_of(ctx);
    return store != NULL && store->folder >= 0 ? store : NULL;
}

const char *store_path(context_t *ctx)
{
    return ctx != NULL && usable_store(ctx) != NULL ? context_store_path(ctx) : NULL;
}

/* ---- finding ---- */

/* Rounding, and flushing of denormals: a kernel may compute while it packs. */
static unsigned floating_point_mode(void)
{
#ifdef __SSE__
    return _mm_getcsr() & 0xe040u;
#else
    return (unsigned)fegetround();
#endif
}

/* The hash of a weight's bytes, from the table of known hashes if they are part of a mapped file
 * that has not changed. */
static void hash_weight(context_t *ctx, const store_t *store, const void *bytes, size_t n_bytes,
                        const file_mapping_t *file, uint64_t *out_hash)
{
    file_range_t range;
    const bool is_known = file_range(file, bytes, n_bytes, &range);
    if (is_known && store_recall(store, &range, out_hash)) return;
    store_hash(store->secret, context_threads(ctx), bytes, n_bytes, out_hash);
    if (is_known) store_note(store, &range, out_hash);
}

/* Completes a key whose text has `length` characters; false if these are too many. */
static bool end_key(const store_t *store, const char *build, const char *suffix, int length,
                    store_key_t *key)
{
    uint64_t hash[2];
    const size_t capacity = sizeof key->text;
    if (length < 0 || (size_t)length >= capacity) return false;
    const int added = snprintf(key->text + length, capacity - (size_t)length,
                               "; tessera %s (%s), oneDNN %s, %s, floating-point mode %x",
                               tessera_version_text(), build, onednn_version_text(),
                               onednn_isa_text(), floating_point_mode());
    if (added < 0 || (size_t)length + (size_t)added >= capacity) return false;
    store_hash(store->secret, 1, key->text, (size_t)length + (size_t)added, hash);
    snprintf(key->name, sizeof key->name, "%016llx%016llx.%s", (unsigned long long)hash[1],
             (unsigned long long)hash[0], suffix);
    return true;
}

bool store_name(context_t *ctx, const tensor_info_t *from, const void *bytes,
                const file_mapping_t *file, const tensor_info_t *want, store_key_t *out_key)
{
    char from_text[INFO_TEXT_MAX], want_text[INFO_TEXT_MAX];
    uint64_t hash[2];
    if (info_bytes(want) < STORE_LEAST_BYTES || !info_is_contiguous(from)) return false;
    const store_t *store = usable_store(ctx);
    if (store == NULL) return false;
    hash_weight(ctx, store, bytes, info_bytes(from), file, hash);
    const int length = snprintf(out_key->text, sizeof out_key->text,
                                "%s -> %s; weight %016llx%016llx", info_text(from, from_text),
                                info_text(want, want_text), (unsigned long long)hash[1],
                                (unsigned long long)hash[0]);
    return end_key(store, store_build, "form", length, out_key);
}

bool store_name_text(context_t *ctx, store_kind_t kind, const char *text, store_key_t *out_key)
{
    const store_t *store = usable_store(ctx);
    if (store == NULL) return false;
    const int length = snprintf(out_key->text, sizeof out_key->text, "%s", text);
    return end_key(store, store_build_all, kind == STORE_MODEL ? "model" : "source", length,
                   out_key);
}

bool store_hash_bytes(context_t *ctx, const void *bytes, size_t n_bytes, uint64_t *out_hash)
{
    const store_t *store = usable_store(ctx);
    if (store == NULL) return false;
    store_hash(store->secret, context_threads(ctx), bytes, n_bytes, out_hash);
    return true;
}

/* Makes a tensor of the mapping; NULL without memory. Failures are not reported. */
static tensor_t *make_tensor(context_t *ctx, file_mapping_t *mapping, const tensor_info_t *want)
{
    tensor_t *tensor = NULL;
    scope_attempt(ctx);
    (void)scope_attempt_end(ctx, file_tensor(ctx, mapping, STORE_HEADER, want, &tensor), true);
    if (tensor != NULL) scope_keep(ctx, tensor);
    return tensor;
}

/* Maps an entry that has this key; n_bytes: its size, 0: any. Returns NULL if there is none. */
static file_mapping_t *find_entry(context_t *ctx, const store_t *store, const store_key_t *key,
                                  size_t n_bytes)
{
    char text[STORE_TEXT_MAX];
    size_t n_found = 0;
    bool is_damaged = false;
    const int file = store_open_entry(store, key->name, text, &n_found, &is_damaged);
    file_mapping_t *mapping = NULL;
    if (file >= 0) {
        store_touch(file);
        mapping = store_map_entry(ctx, store, file, false, &is_damaged);
        is_damaged |= strcmp(text, key->text) != 0 || (n_bytes > 0 && n_found != n_bytes);
    }
    if (!is_damaged) return mapping;
    (void)unlinkat(store->folder, key->name, 0);
    file_release(mapping);
    return NULL;
}

tensor_t *store_find(context_t *ctx, const store_key_t *key, const tensor_info_t *want)
{
    file_mapping_t *mapping = find_entry(ctx, store_of(ctx), key, info_bytes(want));
    tensor_t *tensor = mapping != NULL ? make_tensor(ctx, mapping, want) : NULL;
    file_release(mapping);
    return tensor;
}

file_mapping_t *store_find_bytes(context_t *ctx, const store_key_t *key)
{
    file_mapping_t *mapping = find_entry(ctx, store_of(ctx), key, 0), *view = NULL;
    if (mapping == NULL) return NULL;
    scope_attempt(ctx);
    (void)scope_attempt_end(ctx, file_view(ctx, mapping, STORE_HEADER, &view), true);
    file_release(mapping);
    return view;
}

void store_remove(context_t *ctx, const store_key_t *key)
{
    const store_t *store = usable_store(ctx);
    if (store != NULL) (void)unlinkat(store->folder, key->name, 0);
}

/* ---- adding ---- */

/* Forms and models that wait have at most so many bytes, or are just one; more is not stored,
 * because waiting keeps it in memory after its model is gone. */
#define PENDING_BYTES ((size_t)256 << 20)

static void drop_pending(store_t *store, store_pending_t *pending)
{
    for (int i = 0; i < pending->n; i++) tensor_drop(pending->tensors[i]);
    allocator_put(&store->allocator, pending);
}

static store_pending_t *take_first(store_t *store)
{
    pthread_mutex_lock(&store->lock);
    store_pending_t *pending = store->first;
    if (pending != NULL) {
        store->first = pending->next;
        store->n_pending -= pending->n_bytes;
    }
    if (store->first == NULL) store->end = &store->first;
    pthread_mutex_unlock(&store->lock);
    return pending;
}

static void return_first(store_t *store, store_pending_t *pending)
{
    pthread_mutex_lock(&store->lock);
    pending->next = store->first;
    store->first = pending;
    store->n_pending += pending->n_bytes;
    if (pending->next == NULL) store->end = &pending->next;
    pthread_mutex_unlock(&store->lock);
}

/* True if the form is smaller than the store's limit and the limit of the process for files, and
 * the disk has more than four times its size free. */
static bool has_room(const store_t *store, size_t n_bytes)
{
    struct statvfs about;
    struct rlimit file;
    const uint64_t n_file = (uint64_t)n_bytes + STORE_HEADER;
    return n_file < (uint64_t)store->limit && fstatvfs(store->folder, &about) == 0 &&
           (uint64_t)about.f_bavail * about.f_frsize > 4 * n_file &&
           getrlimit(RLIMIT_FSIZE, &file) == 0 &&
           (file.rlim_cur == RLIM_INFINITY || n_file <= (uint64_t)file.rlim_cur);
}

/* Writes one form. Returns false if it must be written again later. */
static bool write_form(store_t *store, const store_pending_t *pending, const atomic_bool *is_ending,
                       int64_t *n_written)
{
    const size_t n_bytes = pending->n_bytes;
    if (atomic_load(&store->has_failed) || !has_room(store, n_bytes)) return true;
    if (!store_write_entry(store, pending, is_ending)) {
        if (atomic_load(is_ending)) return false;
        atomic_store(&store->has_failed, true);
    }
    *n_written += (int64_t)n_bytes;
    return true;
}

static void keep_limit(const store_t *store)
{
    (void)store_remove_oldest(&store->allocator, store->folder, store->limit);
}

/* Writes the forms that wait. Stops early, and leaves the rest, if *is_ending becomes true. */
static void write_forms(store_t *store, const atomic_bool *is_ending)
{
    store_pending_t *pending;
    int64_t n_written = 0;
    while ((pending = take_first(store)) != NULL) {
        if (!write_form(store, pending, is_ending, &n_written)) {
            return_first(store, pending);
            break;
        }
        drop_pending(store, pending);
        if (n_written < store->limit / 4) continue;
        keep_limit(store);
        n_written = 0;
    }
    if (n_written > 0) keep_limit(store);
}

/* True if forms were added after the thread has seen none. */
static bool has_more(store_t *store)
{
    pthread_mutex_lock(&store->lock);
    store->is_running = store->first != NULL && !atomic_load(&store->is_ending);
    const bool has_more = store->is_running;
    pthread_mutex_unlock(&store->lock);
    return has_more;
}

static void *run(void *user)
{
    store_t *store = user;
#ifdef SYS_gettid
    (void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 19);
#endif
    do write_forms(store, &store->is_ending);
    while (has_more(store));
    return NULL;
}

/* Starts the thread unless it is running. The lock must be held. */
static void start_thread(store_t *store)
{
    sigset_t all, before;
    if (store->is_running) return;
    if (store->has_thread) pthread_join(store->thread, NULL); /* it has nothing left to do */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    store->has_thread = pthread_create(&store->thread, NULL, run, store) == 0;
    store->is_running = store->has_thread;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* A forked child has no thread, and the parent's thread may have held the lock: makes a new lock
 * and an empty list. The parent writes the forms that were waiting. */
static void note_fork(store_t *store)
{
    if (store->n_forks == threads_forks()) return;
    for (store_pending_t *pending = store->first, *next; pending != NULL; pending = next) {
        next = pending->next;
        drop_pending(store, pending);
    }
    make_lock(store);
}

static store_pending_t *make_pending(const store_t *store, const store_key_t *key, int n,
                                     tensor_t *const *tensors)
{
    store_pending_t *pending = allocator_get(&store->allocator,
                                             sizeof *pending + (size_t)n * sizeof *tensors);
    if (pending == NULL) return NULL;
    *pending = (store_pending_t){.key = *key, .n = n};
    for (int i = 0; i < n; i++) {
        const size_t gaps = STORE_ALIGNMENT - 1;
        pending->n_bytes = (pending->n_bytes + gaps) / STORE_ALIGNMENT * STORE_ALIGNMENT +
                           info_bytes(&tensors[i]->info);
        pending->tensors[i] = tensor_hold(tensors[i]);
    }
    return pending;
}

void store_put_all(context_t *ctx, const store_key_t *key, int n, tensor_t *const *tensors)
{
    store_t *store = store_of(ctx);
    if (atomic_load(&store->has_failed)) return;
    note_fork(store);
    store_pending_t *pending = make_pending(store, key, n, tensors);
    if (pending == NULL) return;
    const bool has = has_room(store, pending->n_bytes);
    pthread_mutex_lock(&store->lock);
    const bool is_taken = has && (store->n_pending == 0 ||
                                  store->n_pending + pending->n_bytes <= PENDING_BYTES);
    if (is_taken) {
        *store->end = pending;
        store->end = &pending->next;
        store->n_pending += pending->n_bytes;
        start_thread(store);
    }
    pthread_mutex_unlock(&store->lock);
    if (!is_taken) drop_pending(store, pending);
}

void store_put(context_t *ctx, const store_key_t *key, tensor_t *form)
{
    store_put_all(ctx, key, 1, &form);
}

static void drain(store_t *store)
{
    static const atomic_bool never = false;
    note_fork(store);
    atomic_store(&store->is_ending, true);
    if (store->has_thread) pthread_join(store->thread, NULL);
    store->has_thread = store->is_running = false;
    atomic_store(&store->is_ending, false);
    write_forms(store, &never);
}

status_t store_flush(context_t *ctx)
{
    if (ctx == NULL) return STATUS_INVALID_ARGUMENT;
    store_t *store = store_of(ctx);
    if (store != NULL) drain(store);
    return STATUS_OK;
}
