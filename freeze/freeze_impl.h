/* What freezing, saving and loading share: what makes a module a frozen one. */
#ifndef TESSERA_FREEZE_FREEZE_IMPL_H
#define TESSERA_FREEZE_FREEZE_IMPL_H

#include "freeze/freeze.h"
#include "tensor/file.h"
#include "tensor/scope.h"
#include "tensor/tensor_impl.h"

/* Attribute that says that a module is frozen: a list of the paths that were to be preserved. */
#define FREEZE_MARK "frozen"

/* Makes the marked, empty module that methods and attributes are put in. */
status_t freeze_module(context_t *ctx, const char *type_name, module_t **out_module);

/* ---- what a frozen module keeps ---- */

/* A method that stays: as a plan if it is frozen, else as it is. The name is the module's own. */
typedef struct freeze_method {
    module_t *owner;
    const char *name;
    bool is_frozen;
} freeze_method_t;

typedef struct freeze_methods {
    freeze_method_t *items;
    int n, capacity;
} freeze_methods_t;

/* The graph of a graph or plan method, borrowed; NULL for others. */
graph_t *freeze_graph_of(const module_t *owner, const char *name);

/* Adds a method of `owner` (of a child, if the name is dotted), once. */
status_t freeze_add_method(context_t *ctx, freeze_methods_t *methods, module_t *owner,
                           const char *name, bool is_frozen);

/* Adds all methods of the module and below it. */
status_t freeze_add_methods(context_t *ctx, freeze_methods_t *methods, module_t *module);

/* Adds what the index-th method may call. */
status_t freeze_add_callees(context_t *ctx, freeze_methods_t *methods, module_t *root, int index);

/* Removes all methods below the root that are not listed. */
status_t freeze_drop_methods(context_t *ctx, module_t *root, const freeze_methods_t *methods);

/* Removes attributes that no listed frozen method reads or sets and that need not stay for another
 * reason, and modules without anything left. */
status_t freeze_drop_members(context_t *ctx, module_t *root, const freeze_methods_t *methods,
                             const char *const *preserved);

/* ---- paths ---- */

/* The module below `root` where the last name of a dotted path belongs, made where it is missing.
 */
status_t freeze_owner(context_t *ctx, module_t *root, const char *path, const char **out_name,
                      module_t **out_owner);

/* ---- the file ----
 *
 *   header | text | table of blobs | blobs, each at a multiple of 64
 *
 * The text holds the graph of each method, the attributes that stayed, and the module's type; "$n"
 * in it is blob n. A blob that is another form of blob `base` (a weight packed under other sizes)
 * is in the table only. All numbers are little-endian. */

#define FREEZE_MAGIC "TESSERA\n"
#define FREEZE_VERSION 1u
#define FREEZE_ALIGNMENT 64u
#define FREEZE_MAX_BLOBS (1u << 20)

typedef struct file_header {
    char magic[8];
    uint32_t version;
    uint32_t byte_order; /* 0x01020304 as written */
    uint64_t file_bytes;
    uint64_t text_offset, text_bytes, text_checksum;
    uint64_t table_offset, n_blobs, table_checksum;
    char onednn[16];
    char isa[32];
    uint32_t n_threads;
    uint32_t reserved;
    uint64_t header_checksum; /* of all before it */
} file_header_t;

typedef struct file_blob {
    uint64_t offset, bytes, checksum;
    int64_t base; /* -1: the constant itself */
    char dtype[8];
    uint32_t layout; /* 0 dense, 1 mkldnn */
    uint32_t rank;
    int64_t sizes[TENSOR_MAX_RANK];
    char format[64]; /* tag, or "" for contiguous */
} file_blob_t;

#endif
