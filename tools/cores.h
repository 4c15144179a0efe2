/* The cores that this process may run on, those that share a cache side by side (hwloc). */
#ifndef TESSERA_TOOLS_CORES_H
#define TESSERA_TOOLS_CORES_H

#include <hwloc.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct cores {
    hwloc_topology_t topology;
    hwloc_bitmap_t mask; /* what the process was given, hyperthreads and all */
    int n;               /* physical cores in it */
} cores_t;

/* False when the machine cannot be read; clear it in either case. */
bool cores_find(cores_t *out_cores);
void cores_clear(cores_t *cores);

/* Binds this thread, and those that it makes from now on, to n cores from `first` on, with what of
 * their hyperthreads is in the mask. False where the system refuses. */
bool cores_bind(const cores_t *cores, int first, int n);

/* Writes what processors this thread is bound to: "0-3,8". False when it cannot be asked. */
bool cores_print(const cores_t *cores, char *out_text, size_t capacity);

#endif
