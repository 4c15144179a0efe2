/* The cores that this process may use, in hwloc's order: cores that share a cache are adjacent. */
#ifndef TESSERA_TOOLS_BENCH_CORES_H
#define TESSERA_TOOLS_BENCH_CORES_H

#include <hwloc.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct cores {
    hwloc_topology_t topology;
    hwloc_bitmap_t mask; /* processors that the process may use, hyperthreads included */
    int n;               /* number of physical cores among them */
} cores_t;

/* Returns false if hwloc cannot read the machine. Call cores_clear in either case. */
bool cores_find(cores_t *out_cores);
void cores_clear(cores_t *cores);

/* Binds this thread, and threads that it creates later, to n cores, from number `first` on. They
 * may use all hyperthreads of these cores that the process may use. Returns false if the system
 * refuses. */
bool cores_bind(const cores_t *cores, int first, int n);

/* Writes the processors that this thread is bound to, e.g. "0-3,8". Returns false if they are
 * unknown. */
bool cores_print(const cores_t *cores, char *out_text, size_t capacity);

#endif
