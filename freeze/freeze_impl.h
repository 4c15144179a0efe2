/* What freezing, saving and loading share: what makes a module a frozen one. */
#ifndef TESSERA_FREEZE_FREEZE_IMPL_H
#define TESSERA_FREEZE_FREEZE_IMPL_H

#include "freeze/freeze.h"
#include "tensor/file.h"
#include "tensor/scope.h"
#include "tensor/tensor_impl.h"

/* Attribute that says that a module is frozen. */
#define FREEZE_MARK "frozen"

/* Makes the marked, empty module that methods and attributes are put in. */
status_t freeze_module(context_t *ctx, const char *type_name, module_t **out_module);

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
