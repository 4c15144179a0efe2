/* Reads GGUF files, in which llama.cpp stores language models: metadata (sizes of the model, its
 * vocabulary), then tensors, many of them quantised.
 *
 * A file stays mapped until its handle is closed and the tensors that share its bytes are released.
 * A handle is immutable, so threads may share it, each with its own context. Opening a file checks
 * every rule of the format, versions 2 and 3: counts and lengths fit in the file, keys and names
 * are unique, sizes do not overflow, tensors follow each other at the file's alignment and end
 * inside the file. The file must not be truncated while it is open. */
#ifndef TESSERA_IO_GGUF_GGUF_H
#define TESSERA_IO_GGUF_GGUF_H

#include "tensor/tensor.h"

typedef struct gguf gguf_t;

/* Opens a file. IO. CORRUPT if the file violates a rule. UNSUPPORTED for version 1, for big-endian
 * files, for arrays of arrays, for tensors of more than 4 dimensions or of unknown types, and for
 * names, keys and single strings that contain the character U+0000. */
status_t gguf_open(context_t *ctx, const char *path, gguf_t **out_file) TESSERA_API(gguf_open);
/* Opens a file in memory, which must stay valid until the handle is closed. */
status_t gguf_open_bytes(context_t *ctx, const void *bytes, size_t n_bytes, gguf_t **out_file)
    TESSERA_API(gguf_open_bytes);
/* Closes the handle. Tensors read from it stay valid. */
void gguf_close(gguf_t *file) TESSERA_API(gguf_close);

/* ---- contents: borrowed from the handle; NULL when absent ---- */

typedef struct gguf_string {
    const char *text; /* an element of an array does not end in a zero byte */
    size_t n_bytes;
} gguf_string_t;

/* A value of the metadata, or an array of such values. */
typedef struct gguf_value {
    const char *key;
    dtype_t dtype; /* DTYPE_NONE: strings */
    bool is_array;
    int64_t n;                    /* number of elements; 1 if it is not an array */
    const void *elements;         /* numbers: read them with dtype_load; they are not aligned */
    const gguf_string_t *strings; /* [n] */
} gguf_value_t;

/* The file's path, for messages. */
const char *gguf_path(const gguf_t *file) TESSERA_API(gguf_path);

/* Metadata, in the file's order. */
int gguf_n_values(const gguf_t *file) TESSERA_API(gguf_n_values);
const gguf_value_t *gguf_value(const gguf_t *file, int index) TESSERA_API(gguf_value);
const gguf_value_t *gguf_find_value(const gguf_t *file, const char *key)
    TESSERA_API(gguf_find_value);

/* A tensor. Its sizes are those of a row-major tensor: GGUF lists the innermost one first. */
typedef struct gguf_info {
    const char *name;
    const char *type; /* the file's name of the type: "F32", "Q4_K" */
    dtype_t dtype;    /* what gguf_tensor returns: F32 for quantised types. NONE: not supported */
    bool is_quantized;
    int rank;
    int64_t sizes[TENSOR_MAX_RANK];
    size_t offset; /* first byte, counted from the start of the file */
    size_t n_bytes;
} gguf_info_t;

/* Tensors, in the file's order. */
int gguf_count(const gguf_t *file) TESSERA_API(gguf_count);
const gguf_info_t *gguf_info(const gguf_t *file, int index) TESSERA_API(gguf_info);
const gguf_info_t *gguf_find(const gguf_t *file, const char *name) TESSERA_API(gguf_find);

/* ---- reading metadata: the value is unchanged if the file lacks the key ----
 *
 * CORRUPT if the file's value has another type, or is an array. */

/* Integers and booleans. CORRUPT for numbers above 2^63 - 1. */
status_t gguf_integer(context_t *ctx, const gguf_t *file, const char *key, int64_t *inout_value)
    TESSERA_API(gguf_integer);
/* Numbers of any type. */
status_t gguf_number(context_t *ctx, const gguf_t *file, const char *key, double *inout_value)
    TESSERA_API(gguf_number);
/* Strings; the text is borrowed from the handle. */
status_t gguf_text(context_t *ctx, const gguf_t *file, const char *key, const char **inout_text)
    TESSERA_API(gguf_text);

/* Makes a GGUF file that has the metadata and no tensors: [n] u8. As a buffer of a module, it keeps
 * the vocabulary, the chat template and the sizes of a model in a .tessera file; gguf_open_bytes
 * opens it. */
status_t gguf_metadata(context_t *ctx, const gguf_t *file, tensor_t **out_bytes)
    TESSERA_API(gguf_metadata);

/* ---- reading tensors ---- */

/* Reads a tensor. Elements that are numbers (F32, F16, BF16, F64, I8 to I64) stay in the mapped
 * file; they are copied only if their offset is not aligned. Quantised elements (Q8_0, Q4_0, Q4_1,
 * Q5_0, Q5_1, Q4_K, Q5_K, Q6_K) become an mkldnn tensor of a grouped format (tensor_grouped), whose
 * elements are exactly the f32 numbers that GGUF defines. Q4_0, Q4_1 and Q4_K have codes of 4 bits,
 * the others of 8.
 * INVALID_ARGUMENT for an unknown name. UNSUPPORTED for other types. */
status_t gguf_tensor(context_t *ctx, const gguf_t *file, const char *name, tensor_t **out_tensor)
    TESSERA_API(gguf_tensor);

#endif
