/* Files of the safetensors format: names, dtypes, shapes and metadata as JSON, then the elements.
 *
 * A file stays open until its handle is closed, and tensors are copies of their bytes. It is not
 * mapped: other programs write such files, and reading from one that was cut short is CORRUPT. A
 * handle never changes, so threads may share it, each with a context of its own. Every rule of the
 * format is checked when a file is opened: a header of at most 100 MB that is an object, keys that
 * differ, tensors that lie one behind the other without gaps up to the last byte and are as long as
 * their dtype and shape say.
 *
 * JSON is read by jansson, whose memory is malloc's and is freed before a call returns. Without
 * jansson, opening and saving are UNSUPPORTED. */
#ifndef TESSERA_IO_SAFETENSORS_SAFETENSORS_H
#define TESSERA_IO_SAFETENSORS_SAFETENSORS_H

#include "module/module.h"
#include "tensor/datum.h"

TESSERA_BEGIN

typedef struct safetensors safetensors_t;

/* IO; CORRUPT for what breaks a rule; UNSUPPORTED for more than 12 dimensions, and for names with
 * the character U+0000. */
status_t safetensors_open(context_t *ctx, const char *path, safetensors_t **out_file)
    TESSERA_API(safetensors_open);
/* The same from memory, which has to live as long as the handle; tensors are copies. */
status_t safetensors_open_bytes(context_t *ctx, const void *bytes, size_t n_bytes,
                                safetensors_t **out_file) TESSERA_API(safetensors_open_bytes);
/* Tensors that were got stay valid. */
void safetensors_close(safetensors_t *file) TESSERA_API(safetensors_close);

/* ---- asking: borrowed from the handle, NULL when absent ---- */

typedef struct safetensors_info {
    const char *name;
    const char *type; /* as the file names it: "F32", "BF16", "F8_E4M3" */
    dtype_t dtype;    /* DTYPE_NONE: a type that no tensor here has */
    int rank;
    int64_t sizes[TENSOR_MAX_RANK];
    size_t offset; /* of the first byte, from the beginning of the file */
    size_t n_bytes;
} safetensors_info_t;

/* Tensors in the order in which their elements lie in the file. */
int safetensors_count(const safetensors_t *file) TESSERA_API(safetensors_count);
const safetensors_info_t *safetensors_info(const safetensors_t *file, int index)
    TESSERA_API(safetensors_info);
const safetensors_info_t *safetensors_find(const safetensors_t *file, const char *name)
    TESSERA_API(safetensors_find);

/* Pairs of __metadata__, in the header's order. */
int safetensors_n_metadata(const safetensors_t *file) TESSERA_API(safetensors_n_metadata);
const char *safetensors_metadata_key(const safetensors_t *file, int index)
    TESSERA_API(safetensors_metadata_key);
const char *safetensors_metadata(const safetensors_t *file, const char *key)
    TESSERA_API(safetensors_metadata);

/* ---- reading ---- */

/* A copy, dense and contiguous; bytes of BOOL above 1 count as true. INVALID_ARGUMENT for a name
 * that is not there, UNSUPPORTED (names the dtype), CORRUPT for a file that has become shorter. */
status_t safetensors_tensor(context_t *ctx, const safetensors_t *file, const char *name,
                            tensor_t **out_tensor) TESSERA_API(safetensors_tensor);

/* All tensors of a file as a dict, in its order; the caller releases. */
status_t safetensors_load(context_t *ctx, const char *path, datum_t **out_dict)
    TESSERA_API(safetensors_load);

/* Weights of a file become the module's parameters and buffers, as module_assign_state_dict has it.
 * With is_strict false, names may be missing in the file or unknown to
 * the module; what is unknown is not read. On failure nothing has changed. */
status_t module_load_safetensors(context_t *ctx, module_t *module, const char *path, bool is_strict)
    TESSERA_API(module_load_safetensors);

/* ---- writing ---- */

/* Writes a dict of tensors of any layout, and one of strings, which may be NULL. The file is that
 * of the format's own writer: tensors of the largest elements first, then by name, the header
 * padded to 8 bytes. It appears whole or not at all; who has the old file open keeps its bytes.
 * INVALID_ARGUMENT for other values, for text that is no UTF-8 and for a tensor "__metadata__". */
status_t safetensors_save(context_t *ctx, const char *path, const datum_t *tensors,
                          const datum_t *metadata) TESSERA_API(safetensors_save);

/* The state dict of a module; a tensor that has two names is written twice. */
status_t module_save_safetensors(context_t *ctx, module_t *module, const char *path,
                                 const datum_t *metadata) TESSERA_API(module_save_safetensors);

TESSERA_END

#endif
