/* The part of tessera info that describes files: weights, and language models. */
#ifndef TESSERA_TOOLS_COMMAND_INFO_FILE_H
#define TESSERA_TOOLS_COMMAND_INFO_FILE_H

#include <tessera.h>

/* Prints names, types, sizes and bytes of a safetensors file's tensors, in the file's order, then
 * its metadata. Errors of safetensors_open. */
status_t info_file(context_t *ctx, const char *path);

/* Prints the metadata of a GGUF file, then its tensors. Long arrays and strings are cut. Errors of
 * gguf_open. */
status_t info_gguf(context_t *ctx, const char *path);

/* Writes "[64,3,7,7]", or "[]" for a scalar. */
#define INFO_SIZES_MAX (TENSOR_MAX_RANK * 21 + 2)
const char *info_sizes(int rank, const int64_t *sizes, char *out_text);

#endif
