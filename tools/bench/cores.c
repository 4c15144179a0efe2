#include "tools/bench/cores.h"

bool cores_find(cores_t *out_cores)
{
    *out_cores = (cores_t){.topology = NULL};
    hwloc_topology_t topology;
    hwloc_obj_t core = NULL;
    if (hwloc_topology_init(&topology) != 0) return false;
    out_cores->topology = topology;
    out_cores->mask = hwloc_bitmap_alloc();
    if (hwloc_topology_load(topology) != 0 || out_cores->mask == NULL) return false;
    if (hwloc_get_cpubind(topology, out_cores->mask, HWLOC_CPUBIND_PROCESS) != 0) return false;
    while ((core = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_CORE, core)) != NULL)
        if (hwloc_bitmap_intersects(core->cpuset, out_cores->mask)) out_cores->n++;
    return out_cores->n > 0;
}

void cores_clear(cores_t *cores)
{
    hwloc_bitmap_free(cores->mask);
    if (cores->topology != NULL) hwloc_topology_destroy(cores->topology);
    *cores = (cores_t){.topology = NULL};
}

/* hwloc numbers cores in the order of its tree of packages, memories and caches, so consecutive
 * cores share caches. */
bool cores_bind(const cores_t *cores, int first, int n)
{
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    hwloc_obj_t core = NULL;
    int at = 0;
    if (set == NULL) return false;
    while ((core = hwloc_get_next_obj_by_type(cores->topology, HWLOC_OBJ_CORE, core)) != NULL) {
        if (!hwloc_bitmap_intersects(core->cpuset, cores->mask)) continue;
        if (at >= first && at < first + n) hwloc_bitmap_or(set, set, core->cpuset);
        at++;
    }
    hwloc_bitmap_and(set, set, cores->mask);
    bool is_bound = hwloc_set_cpubind(cores->topology, set, HWLOC_CPUBIND_THREAD) == 0;
    hwloc_bitmap_free(set);
    return is_bound;
}

bool cores_print(const cores_t *cores, char *out_text, size_t capacity)
{
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    bool is_told = set != NULL &&
                   hwloc_get_cpubind(cores->topology, set, HWLOC_CPUBIND_THREAD) == 0 &&
                   hwloc_bitmap_list_snprintf(out_text, capacity, set) >= 0;
    hwloc_bitmap_free(set);
    return is_told;
}
