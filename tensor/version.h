/* The version of Tessera: of these headers as macros, of the library that runs as a call. CMake
 * reads the project's version from here. */
#ifndef TESSERA_TENSOR_VERSION_H
#define TESSERA_TENSOR_VERSION_H

#include "tensor/api.h"

TESSERA_BEGIN

#define TESSERA_VERSION_MAJOR 0
#define TESSERA_VERSION_MINOR 1
#define TESSERA_VERSION_PATCH 0

/* As a number that later versions exceed, 1002003 for 1.2.3: #if TESSERA_VERSION >= 2000. */
#define TESSERA_VERSION                                                                            \
    (TESSERA_VERSION_MAJOR * 1000000 + TESSERA_VERSION_MINOR * 1000 + TESSERA_VERSION_PATCH)

/* TESSERA_VERSION, and "1.2.3", of the library that the program runs with. */
int tessera_version(void) TESSERA_API(version);
const char *tessera_version_text(void) TESSERA_API(version_text);

TESSERA_END

#endif
