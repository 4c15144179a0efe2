/* The inside of a safetensors handle, and the header as text. */
#ifndef TESSERA_IO_SAFETENSORS_SAFETENSORS_IMPL_H
#define TESSERA_IO_SAFETENSORS_SAFETENSORS_IMPL_H

#include "io/safetensors/safetensors.h"
#include "tensor/context_impl.h"
#include "tensor/file.h"

#define SAFETENSORS_LENGTH_BYTES 8 /* of the header's length, in front of it */
#define SAFETENSORS_HEADER_MAX                                                                     \
    100000000 /* bytes of a header, as the format's own reader has it                              \
               */
#define SAFETENSORS_METADATA "__metadata__" /* the key that is no tensor */

typedef struct safetensors_pair {
    char *key, *value;
} safetensors_pair_t;

/* A tensor as its entry in the header says; info.offset and info.n_bytes follow from begin and end
 * once these are checked. */
typedef struct safetensors_item {
    safetensors_info_t info; /* name and type are blocks of the handle's allocator */
    int64_t begin, end;      /* from the first byte behind the header */
} safetensors_item_t;

struct safetensors {
    allocator_t allocator;
    char *path;                 /* for messages */
    file_mapping_t *source;     /* an open file; NULL: bytes are the caller's */
    const unsigned char *bytes; /* NULL for an open file whose header was read */
    size_t n_bytes;
    int n_items, n_pairs;
    safetensors_item_t *items;
    safetensors_item_t **by_name; /* n_items, sorted */
    safetensors_pair_t *pairs;
};

/* Types of elements that the format has; dtype NONE: no tensor here has such. */
typedef struct safetensors_type {
    const char *name;
    dtype_t dtype;
    int n_bits;
} safetensors_type_t;

/* In the order in which the format's own writer counts them, shortest first; NULL for others. */
const safetensors_type_t *safetensors_type(const char *name);
const safetensors_type_t *safetensors_type_of(dtype_t dtype);

/* Reads the header's n_bytes of JSON into file->items and file->pairs: kinds, keys and numbers are
 * checked, lengths and offsets are not. Blocks that are there on failure are the handle's. */
status_t safetensors_read_header(context_t *ctx, safetensors_t *file, const char *text,
                                 size_t n_bytes);

/* Puts a tensor of the file in a dict under its name. */
status_t safetensors_put(context_t *ctx, const safetensors_t *file, const char *name,
                         datum_t *dict);

/* UNSUPPORTED where the build has no reader of JSON. */
status_t safetensors_check_build(context_t *ctx);

/* Refuses text that is no UTF-8; `what` it is: "the name of a tensor". */
status_t safetensors_check_text(context_t *ctx, const char *what, const char *text);

#endif
