/* What tessera info says of a file. */
#ifndef TESSERA_TOOLS_INFO_FILE_H
#define TESSERA_TOOLS_INFO_FILE_H

#include <tessera.h>

/* Prints names, types, sizes and bytes of a safetensors file's tensors, in the file's order, and
 * its metadata. Fails as safetensors_open does. */
status_t info_file(context_t *ctx, const char *path);

#endif
