/* The store: a folder of files with forms of weights, shared by all processes of a user.
 *
 * A form is a copy of a weight that a kernel reads instead of the weight, such as the transformed
 * filters of a Winograd convolution. Some forms take long to make and much memory. The first
 * process that makes such a form of a constant writes it to the store, in a thread of low priority.
 * Later processes map the file read-only: they do not make the form again, and the system keeps one
 * copy of it in memory for all of them.
 *
 * The store never changes a result. The name of a file is a hash of the weight's bytes and of all
 * that determines the form. A file is used only if its name and its checksum match. If the store
 * cannot be read or written, no model fails; the forms are made again.
 *
 * The folder must belong to the process's user, and no other user may be able to write to it, nor
 * to a file in it. See docs/store.md. */
#ifndef TESSERA_TENSOR_STORE_STORE_H
#define TESSERA_TENSOR_STORE_STORE_H

#include "tensor/context.h"

/* A file of the store. The strings are valid until the visit function returns. */
typedef struct store_entry {
    const char *name; /* the file's name */
    /* Describes the weight, the form, the weight's hash, the versions of the libraries and the
     * instruction set; "" if the header is damaged or cannot be read. */
    const char *text;
    int64_t n_bytes; /* size of the file */
    int64_t used;    /* seconds since 1970: last use by a process, updated at most once an hour */
    bool is_whole;   /* the file is complete, and its checksums are right */
    bool is_damaged; /* they are wrong. If neither is true, this process cannot read the file */
} store_entry_t;

/* Called for each file. If it returns a status other than STATUS_OK, store_list stops and returns
 * that status. */
typedef status_t (*store_visit_t)(void *user, const store_entry_t *entry);

/* Path of the context's store, or NULL if the context has none: the user turned it off, there is no
 * home directory, or the folder cannot be used. Makes the folder if it does not exist. */
const char *store_path(context_t *ctx) TESSERA_API(store_path);

/* Lists the files of the context's store, the least recently used first. If is_checked is true,
 * reads and checks all bytes of each file; otherwise is_whole covers only the header and the size.
 * Does nothing if there is no store. IO if the folder cannot be read. */
status_t store_list(context_t *ctx, bool is_checked, store_visit_t visit, void *user)
    TESSERA_API(store_list);

/* Removes files, the least recently used first, until the others have at most n_bytes bytes;
 * n_bytes = 0 removes all. A process that has mapped a file can still read it. out_n may be NULL.
 * INVALID_ARGUMENT if n_bytes is negative. */
status_t store_trim(context_t *ctx, int64_t n_bytes, int *out_n) TESSERA_API(store_trim);

/* Removes files that are damaged. out_n may be NULL. IO if the folder cannot be read. */
status_t store_verify(context_t *ctx, int *out_n) TESSERA_API(store_verify);

/* Writes all forms that wait to be written. Does not sync them to the disk, and returns STATUS_OK
 * even if a write fails. context_destroy does this, too. */
status_t store_flush(context_t *ctx) TESSERA_API(store_flush);

#endif
