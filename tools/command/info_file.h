/* The part of tessera info that describes a weights file. */
#ifndef TESSERA_TOOLS_COMMAND_INFO_FILE_H
#define TESSERA_TOOLS_COMMAND_INFO_FILE_H

#include <tessera.h>

/* Prints names, types, sizes and bytes of a safetensors file's tensors, in the file's order, then
 * its metadata. Errors of safetensors_open. */
status_t info_file(context_t *ctx, const char *path);

#endif
