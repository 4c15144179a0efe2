/* Reads and writes safetensors files: a JSON header with names, dtypes, shapes and metadata,
 * followed by the elements.
 *
 * A file stays open until its handle is closed. Tensors that are read are copies of its bytes. The
 * file is not mapped, because other programs may write to it; if the file was truncated after
 * opening, reading returns CORRUPT. A handle is immutable, so threads may share it, each with its
 * own context. Opening a file checks every rule of the format: the header is an object of at most
 * 100 MB, keys are unique, tensors follow each other without gaps up to the last byte, and each has
 * as many bytes as its dtype and shape need.
 *
 * jansson reads the JSON; it allocates with malloc and frees before a call returns. Without
 * jansson, opening and saving are UNSUPPORTED. */
#ifndef TESSERA_IO_SAFETENSORS_SAFETENSORS_H
#define TESSERA_IO_SAFETENSORS_SAFETENSORS_H

#include "module/module.h"
#include "tensor/text/datum.h"

typedef struct safetensors safetensors_t;

/* Opens a file. IO. CORRUPT if the file violates a rule. UNSUPPORTED for more than 12 dimensions,
 * and for names that contain the character U+0000. */
status_t safetensors_open(context_t *ctx, const char *path, safetensors_t **out_file)
    TESSERA_API(safetensors_open);
/* Opens a file in memory, which must stay valid until the handle is closed. */
status_t safetensors_open_bytes(context_t *ctx, const void *bytes, size_t n_bytes,
                                safetensors_t **out_file) TESSERA_API(safetensors_open_bytes);
/* Closes the handle. Tensors read from it stay valid. */
void safetensors_close(safetensors_t *file) TESSERA_API(safetensors_close);

/* ---- contents: borrowed from the handle; NULL when absent ---- */

typedef struct safetensors_info {
    const char *name;
    const char *type; /* the file's name of the type: "F32", "BF16", "F8_E4M3" */
    dtype_t dtype;    /* DTYPE_NONE: the file's type is not a dtype of tensors */
    int rank;
    int64_t sizes[TENSOR_MAX_RANK];
    size_t offset; /* first byte, counted from the start of the file */
    size_t n_bytes;
} safetensors_info_t;

/* Tensors, in the order of their elements in the file. */
int safetensors_count(const safetensors_t *file) TESSERA_API(safetensors_count);
const safetensors_info_t *safetensors_info(const safetensors_t *file, int index)
    TESSERA_API(safetensors_info);
const safetensors_info_t *safetensors_find(const safetensors_t *file, const char *name)
    TESSERA_API(safetensors_find);

/* Keys and values of __metadata__, in the header's order. */
int safetensors_n_metadata(const safetensors_t *file) TESSERA_API(safetensors_n_metadata);
const char *safetensors_metadata_key(const safetensors_t *file, int index)
    TESSERA_API(safetensors_metadata_key);
const char *safetensors_metadata(const safetensors_t *file, const char *key)
    TESSERA_API(safetensors_metadata);

/* ---- reading ---- */

/* Reads a tensor as a contiguous copy; a BOOL byte above 1 counts as true. INVALID_ARGUMENT for an
 * unknown name. UNSUPPORTED for an unsupported dtype. CORRUPT if the file has become shorter. */
status_t safetensors_tensor(context_t *ctx, const safetensors_t *file, const char *name,
                            tensor_t **out_tensor) TESSERA_API(safetensors_tensor);

/* Reads all tensors of a file into a dict, in the file's order; the caller releases it. */
status_t safetensors_load(context_t *ctx, const char *path, datum_t **out_dict)
    TESSERA_API(safetensors_load);

/* Replaces the module's parameters and buffers with the file's tensors, as module_assign_state_dict
 * does. If is_strict is false, the file may lack names of the module, and tensors with other names
 * are not read. On failure the module is unchanged. */
status_t module_load_safetensors(context_t *ctx, module_t *module, const char *path, bool is_strict)
    TESSERA_API(module_load_safetensors);

/* ---- writing ---- */

/* Writes a dict of tensors of any layout, and a dict of strings (may be NULL). Tensors are ordered
 * like those of the reference implementation: largest element type first, then by name. The header
 * is padded to 8 bytes. The file is replaced atomically; a reader that has the old file open still
 * reads the old contents.
 * INVALID_ARGUMENT for dicts with other values, for text that is not UTF-8 and for a tensor named
 * "__metadata__". */
status_t safetensors_save(context_t *ctx, const char *path, const datum_t *tensors,
                          const datum_t *metadata) TESSERA_API(safetensors_save);

/* Writes a module's state dict; a tensor with two names is written twice. */
status_t module_save_safetensors(context_t *ctx, module_t *module, const char *path,
                                 const datum_t *metadata) TESSERA_API(module_save_safetensors);

#endif
