/* Internals of a GGUF handle: the parser of the header, and the types of elements. */
#ifndef TESSERA_IO_GGUF_GGUF_IMPL_H
#define TESSERA_IO_GGUF_GGUF_IMPL_H

#include "io/gguf/gguf.h"
#include "tensor/context_impl.h"
#include "tensor/file/file.h"

/* A type of elements: a row is a sequence of blocks of `block` elements, n_bytes each. */
typedef struct gguf_type {
    uint32_t number; /* in the file */
    const char *name;
    int block, n_bytes;
    dtype_t dtype; /* F32 if `unpack` is set; NONE: not supported */
    /* Writes the codes of a block, and the scales and minima of its groups, as tensor_grouped takes
     * them. */
    void (*unpack)(const unsigned char *block, uint8_t *codes, void *scales, void *minima);
    const grouping_t *grouping;
} gguf_type_t;

/* Finds a type by its number; NULL if it is unknown. */
const gguf_type_t *gguf_type(uint32_t number);

typedef struct gguf_item {
    gguf_info_t info; /* the name is allocated by the handle's allocator */
    const gguf_type_t *type;
} gguf_item_t;

struct gguf {
    allocator_t allocator;
    char *path;
    file_mapping_t *mapping; /* NULL: the caller owns `bytes` */
    const unsigned char *bytes;
    size_t n_bytes;
    size_t values_end; /* the byte after the metadata */
    int n_values, n_items;
    gguf_value_t *values;
    gguf_item_t *items;
    gguf_value_t **values_by_key; /* [n_values], sorted */
    gguf_item_t **items_by_name;  /* [n_items], sorted */
};

/* Parses the header into values and items, and sorts both. On failure the handle owns what has been
 * allocated so far. */
status_t gguf_read_header(context_t *ctx, gguf_t *file);

#endif
