/* Tessera's version: macros have the version of these headers, functions return the version of the
 * loaded library. CMake reads the project's version from this file. */
#ifndef TESSERA_TENSOR_BASE_VERSION_H
#define TESSERA_TENSOR_BASE_VERSION_H

#include "tensor/base/api.h"

#define TESSERA_VERSION_MAJOR 0
#define TESSERA_VERSION_MINOR 1
#define TESSERA_VERSION_PATCH 0

/* The version as a number that increases with each release: 1002003 for 1.2.3, so `#if
 * TESSERA_VERSION >= 2000` tests for 0.2.0 or later. */
#define TESSERA_VERSION                                                                            \
    (TESSERA_VERSION_MAJOR * 1000000 + TESSERA_VERSION_MINOR * 1000 + TESSERA_VERSION_PATCH)

/* Version of the loaded library: as TESSERA_VERSION, and as text, "1.2.3". */
int tessera_version(void) TESSERA_API(version);
const char *tessera_version_text(void) TESSERA_API(version_text);

#endif
