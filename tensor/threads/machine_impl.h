/* The machine's processors (hardware threads), cores and caches, as Linux lists them in /sys.
 *
 * hwloc knows more, and other systems. But it loads plugins for devices and XML, which take 0.3 MB
 * of each process and a millisecond. So hwloc is only used where these functions do not suffice:
 * on machines with several NUMA nodes, or if a file is missing. */
#ifndef TESSERA_TENSOR_THREADS_MACHINE_IMPL_H
#define TESSERA_TENSOR_THREADS_MACHINE_IMPL_H

#include <stdbool.h>
#include <stddef.h>

#define MACHINE_MOST 2048 /* processors */

typedef struct machine_set {
    bool has[MACHINE_MOST];
} machine_set_t;

typedef struct machine_processor {
    bool is_online;
    int core;        /* number of the core's first processor */
    int cache_level; /* level of the cache farthest from the core; 0: not known */
    int cache;       /* number of the first processor that shares this cache */
    size_t cache_bytes;
} machine_processor_t;

typedef struct machine {
    machine_processor_t processors[MACHINE_MOST];
} machine_t;

/* Reads the machine. `root` is put before the path /sys; it is "" except in tests. Returns false if
 * the machine has several NUMA nodes, or if its processors and cores are not known. */
bool machine_read(const char *root, machine_t *out_machine);

/* The processors on which threads of this process may run. Returns false if they are not known. */
bool machine_allowed(machine_set_t *out_set);

/* Number of processors, and of cores, in a set; NULL means all of the machine. */
int machine_count(const machine_t *machine, const machine_set_t *set);
int machine_cores(const machine_t *machine, const machine_set_t *set);

/* Total bytes of the last-level caches of the processors in a set; 0: not known. */
size_t machine_cache_bytes(const machine_t *machine, const machine_set_t *set);

#endif
