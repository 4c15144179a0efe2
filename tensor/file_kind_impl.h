/* Files by their first bytes. */
#ifndef TESSERA_TENSOR_FILE_KIND_IMPL_H
#define TESSERA_TENSOR_FILE_KIND_IMPL_H

#include "tensor/context.h"

typedef enum file_kind {
    FILE_ONNX, /* has no magic: what nothing else is */
    FILE_TESSERA,
    FILE_NPY,
    FILE_SAFETENSORS,
    FILE_OTHER
} file_kind_t;

/* CORRUPT for a file that is of another kind, with the kind and what to do: "onnx: m.onnx has
 * the first bytes of a .tessera file: ...". OK for the expected one, and for bytes that are of no
 * kind that is known here, which the caller's own checks are for. */
status_t file_check_kind(context_t *ctx, const char *op, const char *path, file_kind_t expected,
                         const void *bytes, size_t n_bytes);

#endif
