/* The store: a folder of files with packed weights, shared by all processes of a user.
 *
 * Some kernels need a weight in a form that takes long to make and much memory: winograd's
 * transformed filters, for example. The first process that makes such a form of a constant writes
 * it to the store, in a thread of low priority. Later processes map the file read-only: they do not
 * pack the weight again, and the system keeps one copy of the form in memory for all of them.
 *
 * The store never changes a result. A file is used only if its name, which is a hash of the
 * weight's bytes and of everything that determines the form, and the checksum of all its bytes are
 * right. A store that cannot be read or written costs time, but no call fails because of it.
 *
 * The folder must belong to the process's user, and no other user may be able to write to it, nor
 * to a file in it. See docs/store.md. */
#ifndef TESSERA_TENSOR_STORE_STORE_H
#define TESSERA_TENSOR_STORE_STORE_H

#include "tensor/context.h"

TESSERA_BEGIN

/* A file of the store. The texts are valid during the call that gets the entry. */
typedef struct store_entry {
    const char *name; /* the file's name */
    /* Weight and form: "f32[64,64,3,3] -> f32[...]:opaque...", and the versions that made it; "" if
     * the file's header is damaged. */
    const char *text;
    int64_t n_bytes; /* size of the file */
    int64_t used;    /* seconds since 1970 when a process last used it, exact to an hour */
    bool is_whole;   /* the file is complete and its checksums are right */
} store_entry_t;

/* Called for each file. To end the listing, returns another status than STATUS_OK. */
typedef status_t (*store_visit_t)(void *user, const store_entry_t *entry);

/* Path of the context's store, or NULL if the context has none: the user turned it off, there is no
 * home directory, or the folder cannot be used. Makes the folder if it does not exist. */
const char *store_path(context_t *ctx) TESSERA_API(store_path);

/* Lists the files of the context's store, the least recently used first. is_checked: reads all
 * bytes of each file; otherwise is_whole tells about headers and sizes only. Does nothing if there
 * is no store. */
status_t store_list(context_t *ctx, bool is_checked, store_visit_t visit, void *user)
    TESSERA_API(store_list);

/* Removes files, the least recently used first, until the others have at most n_bytes bytes;
 * n_bytes = 0 removes all. Processes that have mapped a file keep its bytes. out_n may be NULL.
 * INVALID_ARGUMENT if n_bytes is negative. */
status_t store_trim(context_t *ctx, int64_t n_bytes, int *out_n) TESSERA_API(store_trim);

/* Removes files that are damaged. out_n may be NULL. */
status_t store_verify(context_t *ctx, int *out_n) TESSERA_API(store_verify);

/* Writes the forms that wait to be written, and returns when they are on their way to the disk.
 * context_destroy does this, too. */
status_t store_flush(context_t *ctx) TESSERA_API(store_flush);

TESSERA_END

#endif
