/* Detects a file's kind from its first bytes. */
#ifndef TESSERA_TENSOR_FILE_FILE_KIND_IMPL_H
#define TESSERA_TENSOR_FILE_FILE_KIND_IMPL_H

#include "tensor/context.h"

typedef enum file_kind {
    FILE_ONNX, /* ONNX files have no fixed first bytes: assumed if nothing else matches */
    FILE_TESSERA,
    FILE_NPY,
    FILE_SAFETENSORS,
    FILE_GGUF,
    FILE_OTHER
} file_kind_t;

/* file_check_kind reads at most this many bytes. */
#define FILE_KIND_BYTES 23

/* Fails with CORRUPT if the first bytes belong to another known kind; the message names that kind
 * and says what to do: "onnx: m.onnx has the first bytes of a .tessera file: ...". Returns OK for
 * the expected kind, and for unknown bytes, which the caller checks. */
status_t file_check_kind(context_t *ctx, const char *op, const char *path, file_kind_t expected,
                         const void *bytes, size_t n_bytes);

#endif
