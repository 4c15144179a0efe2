/* Internals of a safetensors handle, and the parser of the header. */
#ifndef TESSERA_IO_SAFETENSORS_SAFETENSORS_IMPL_H
#define TESSERA_IO_SAFETENSORS_SAFETENSORS_IMPL_H

#include "io/safetensors/safetensors.h"
#include "tensor/context_impl.h"
#include "tensor/file/file.h"

#define SAFETENSORS_LENGTH_BYTES 8 /* bytes before the header that hold its length */
#define SAFETENSORS_HEADER_MAX                                                                     \
    100000000 /* bytes: the reference reader's limit; a longer header is CORRUPT */
#define SAFETENSORS_METADATA "__metadata__" /* key of the metadata in the header */

typedef struct safetensors_pair {
    char *key, *value;
} safetensors_pair_t;

/* A tensor as the header declares it. info.offset and info.n_bytes are set after begin and end have
 * been checked. */
typedef struct safetensors_item {
    safetensors_info_t info; /* name and type are allocated by the handle's allocator */
    int64_t begin, end;      /* byte offsets from the end of the header */
} safetensors_item_t;

struct safetensors {
    allocator_t allocator;
    char *path;                 /* for messages */
    file_mapping_t *source;     /* the open file; NULL if the caller owns `bytes` */
    const unsigned char *bytes; /* NULL for an open file whose header has been read */
    size_t n_bytes;
    int n_items, n_pairs;
    safetensors_item_t *items;
    safetensors_item_t **by_name; /* [n_items], sorted by name */
    safetensors_pair_t *pairs;
};

/* An element type of the format; dtype NONE: tensors do not support it. */
typedef struct safetensors_type {
    const char *name;
    dtype_t dtype;
    int n_bits;
} safetensors_type_t;

/* Find a type by its name in the file, or by its dtype; NULL if there is none. Types are in the
 * order of the reference implementation, smallest first. */
const safetensors_type_t *safetensors_type(const char *name);
const safetensors_type_t *safetensors_type_of(dtype_t dtype);

/* Parses the header's n_bytes of JSON into file->items and file->pairs. Checks the kinds of values,
 * keys and numbers, but not lengths and offsets. On failure the handle owns what has been allocated
 * so far. */
status_t safetensors_read_header(context_t *ctx, safetensors_t *file, const char *text,
                                 size_t n_bytes);

/* Reads a tensor of the file and adds it to a dict under its name. */
status_t safetensors_put(context_t *ctx, const safetensors_t *file, const char *name,
                         datum_t *dict);

/* UNSUPPORTED if the build has no JSON parser. */
status_t safetensors_check_build(context_t *ctx);

/* Refuses text that is not UTF-8. `what` names the text in the message: "the name of a tensor". */
status_t safetensors_check_text(context_t *ctx, const char *what, const char *text);

#endif
