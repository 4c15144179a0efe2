/* Reads machines from files in /sys that the test writes, and this machine, compared with hwloc. */
#define _XOPEN_SOURCE 700

#include "tests/support/support.h"

#include <ftw.h>
#include <hwloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tensor/threads/machine_impl.h"
#include "tensor/threads/threads_impl.h"

#define CPU "/sys/devices/system/cpu/"

static machine_t machine;

static void write_file(const char *root, const char *text, const char *name)
{
    char path[512];
    assert_true(snprintf(path, sizeof path, "%s%s", root, name) < (int)sizeof path);
    for (char *at = path + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        mkdir(path, 0700);
        *at = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void write_cache(const char *root, int number, int index, const char *level,
                        const char *size, const char *shared)
{
    const char *files[][2] = {{"level", level}, {"size", size}, {"shared_cpu_list", shared}};
    char name[128];
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, CPU "cpu%d/cache/index%d/%s", number, index, files[i][0]);
        write_file(root, files[i][1], name);
    }
}

/* Processors 0 to 7 without 5, two per core: 0 and 4, 1 and 5, ...; two caches of level 3, 32 MB
 * for cores 0 and 1, 16 MB for cores 2 and 3. */
static void write_machine(const char *root)
{
    char name[128], list[32];
    write_file(root, "0-4,6-7\n", CPU "online");
    for (int p = 0; p < 8; p++) {
        if (p == 5) continue;
        const int core = p % 4;
        snprintf(name, sizeof name, CPU "cpu%d/topology/thread_siblings_list", p);
        snprintf(list, sizeof list, core == 1 ? "1\n" : "%d,%d\n", core, core + 4);
        write_file(root, list, name);
        write_cache(root, p, 0, "1\n", "48K\n", list);
        write_cache(root, p, 1, "2\n", "1024K\n", list);
        write_cache(root, p, 2, "3\n", core < 2 ? "32M\n" : "16384K\n",
                    core < 2 ? "0-1,4\n" : "2-3,6-7\n");
    }
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *place)
{
    (void)info;
    (void)type;
    (void)place;
    return remove(path);
}

/* Reads the machine in which one file has another text; NULL: as it is. */
static bool reads(const char *name, const char *text)
{
    char root[] = "/tmp/tessera-machine-XXXXXX";
    assert_non_null(mkdtemp(root));
    write_machine(root);
    if (name != NULL) write_file(root, text, name);
    const bool is_read = machine_read(root, &machine);
    assert_int_equal(nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
    return is_read;
}

static void cores_and_caches_are_counted_in_a_set(void **state)
{
    static const struct {
        const char *allowed;
        int n, n_cores;
        size_t mb;
    } cases[] = {
        {"11111111", 7, 4, 48}, {"10001000", 2, 1, 32}, {"01000100", 1, 1, 32},
        {"11000000", 2, 2, 32}, {"01100000", 2, 2, 48}, {"00110011", 4, 2, 16},
        {"00000000", 0, 0, 0},
    };
    (void)state;
    assert_true(reads(NULL, NULL));
    assert_int_equal(machine_count(&machine, NULL), 7);
    assert_int_equal(machine_cores(&machine, NULL), 4);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        machine_set_t set = {{false}};
        for (int p = 0; p < 8; p++) set.has[p] = cases[i].allowed[p] == '1';
        assert_int_equal(machine_count(&machine, &set), cases[i].n);
        assert_int_equal(machine_cores(&machine, &set), cases[i].n_cores);
        assert_int_equal(machine_cache_bytes(&machine, &set), cases[i].mb << 20);
    }
}

static void files_that_do_not_suffice_are_left_to_hwloc(void **state)
{
    (void)state;
    assert_true(reads("/sys/devices/system/node/online", "0\n"));
    assert_false(reads("/sys/devices/system/node/online", "0-1\n"));
    assert_false(reads("/sys/devices/system/node/online", "0,2\n"));
    static const char *const lists[] = {"",   "\n", "x",     "0-",     "3-1",
                                        "0,", "-1", "0-4 8", "0-4096", "99999999999999999999",
                                        "0-7"}; /* processor 5 has no files */
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        assert_false(reads(CPU "online", lists[i]));
    assert_false(reads(CPU "cpu2/topology/thread_siblings_list", "none\n"));
}

static void caches_that_are_not_known_have_no_bytes(void **state)
{
    (void)state;
    assert_true(reads(CPU "cpu0/cache/index2/size", "many\n"));
    assert_int_equal(machine_cache_bytes(&machine, NULL), (size_t)16 << 20);
    assert_true(reads(CPU "cpu0/cache/index2/shared_cpu_list", "7\n"));
    assert_int_equal(machine_cache_bytes(&machine, NULL), (size_t)48 << 20);
}

/* hwloc is what reads the machine if Linux's files do not suffice. */
static void this_machine_is_as_hwloc_says(void **state)
{
    hwloc_topology_t topology;
    machine_set_t allowed;
    (void)state;
    if (!machine_read("", &machine)) {
        skip_without("/sys of a machine with one NUMA node");
        return;
    }
    assert_true(machine_allowed(&allowed));
    assert_int_equal(hwloc_topology_init(&topology), 0);
    assert_int_equal(hwloc_topology_load(topology), 0);
    hwloc_bitmap_t mask = hwloc_bitmap_alloc();
    assert_int_equal(hwloc_get_cpubind(topology, mask, HWLOC_CPUBIND_PROCESS), 0);
    size_t bytes = 0;
    for (hwloc_obj_t cache = NULL;
         (cache = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_L3CACHE, cache)) != NULL;)
        if (hwloc_bitmap_intersects(cache->cpuset, mask)) bytes += cache->attr->cache.size;
    if (bytes > 0) assert_int_equal(machine_cache_bytes(&machine, &allowed), bytes);
    assert_int_equal(machine_count(&machine, &allowed), hwloc_bitmap_weight(mask));
    const threads_bounds_t bounds = threads_bounds();
    assert_int_equal(bounds.n_cores, hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE));
    assert_int_equal(threads_cache_bytes(), machine_cache_bytes(&machine, &allowed));
    hwloc_bitmap_free(mask);
    hwloc_topology_destroy(topology);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cores_and_caches_are_counted_in_a_set),
        cmocka_unit_test(files_that_do_not_suffice_are_left_to_hwloc),
        cmocka_unit_test(caches_that_are_not_known_have_no_bytes),
        cmocka_unit_test(this_machine_is_as_hwloc_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
