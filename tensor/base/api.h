/* Macros that every public header needs: visibility, symbol names, limits. */
#ifndef TESSERA_TENSOR_BASE_API_H
#define TESSERA_TENSOR_BASE_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Put this after the declaration of a public function: its symbol becomes `tessera_<name>` and is
 * exported, so that the short names in the source cannot collide with other libraries. */
#define TESSERA_API(name) __asm__("tessera_" #name) __attribute__((visibility("default")))

#define TESSERA_PRINTF(format_at, first_at) __attribute__((format(printf, format_at, first_at)))

/* Largest rank of a tensor; oneDNN has the same limit. */
#define TENSOR_MAX_RANK 12

#endif
