#define _GNU_SOURCE /* for sched_getaffinity */

#include "tensor/threads/machine_impl.h"

#include <dirent.h>
#include <limits.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/base/api.h"

enum { MAX_PATH = 4096, MAX_LINE = 16384, MAX_CACHES = 16 };

/* Reads the first line of a file in /sys/devices/system; false if there is none. */
static bool read_line(char *out_line, const char *root, const char *format, ...)
    TESSERA_PRINTF(3, 4);

static bool read_line(char *out_line, const char *root, const char *format, ...)
{
    char path[MAX_PATH];
    va_list arguments;
    int n = snprintf(path, sizeof path, "%s/sys/devices/system/", root);
    if (n < 0 || n >= MAX_PATH) return false;
    va_start(arguments, format);
    const int rest = vsnprintf(path + n, sizeof path - (size_t)n, format, arguments);
    va_end(arguments);
    FILE *file = rest < MAX_PATH - n ? fopen(path, "r") : NULL;
    if (file == NULL) return false;
    const bool is_read = fgets(out_line, MAX_LINE, file) != NULL;
    (void)fclose(file);
    return is_read;
}

/* Reads a list of numbers such as "0-3,8". Returns how many there are; -1 if the text is not such a
 * list or has numbers that are too large. */
static int read_list(const char *text, machine_set_t *out_set)
{
    int n = 0;
    memset(out_set, 0, sizeof *out_set);
    for (;;) {
        char *end = NULL;
        const long first = strtol(text, &end, 10);
        if (end == text || first < 0) return -1;
        long last = first;
        if (*end == '-') {
            text = end + 1;
            last = strtol(text, &end, 10);
            if (end == text) return -1;
        }
        if (last < first || last >= MACHINE_MOST) return -1;
        for (long i = first; i <= last; i++) out_set->has[i] = true;
        n += (int)(last - first + 1);
        if (*end != ',') return *end == '\0' || *end == '\n' ? n : -1;
        text = end + 1;
    }
}

static int first_of(const machine_set_t *set)
{
    int first = 0;
    while (!set->has[first]) first++;
    return first;
}

/* ---- the machine ---- */

/* The bytes of a size such as "32768K"; 0 if the text is something else. */
static size_t read_size(const char *text)
{
    char *end = NULL;
    const unsigned long long n = strtoull(text, &end, 10);
    const int shift = *end == 'K' ? 10 : *end == 'M' ? 20 : 0;
    return end != text && n <= SIZE_MAX >> shift ? (size_t)n << shift : 0;
}

#define CACHE "cpu/cpu%d/cache/index%d/%s"

/* Finds the last-level cache of a processor, and sets it for all processors that share it. */
static void read_cache(const char *root, int number, machine_t *machine)
{
    char line[MAX_LINE];
    machine_set_t shared;
    for (int i = 0; i < MAX_CACHES; i++) {
        if (!read_line(line, root, CACHE, number, i, "level")) return;
        const int level = (int)strtol(line, NULL, 10);
        if (level < 2 || level <= machine->processors[number].cache_level) continue;
        if (!read_line(line, root, CACHE, number, i, "size")) continue;
        const size_t bytes = read_size(line);
        if (!read_line(line, root, CACHE, number, i, "shared_cpu_list") ||
            read_list(line, &shared) < 1 || !shared.has[number])
            continue;
        for (int p = 0; p < MACHINE_MOST; p++) {
            if (!shared.has[p]) continue;
            machine->processors[p].cache_level = level;
            machine->processors[p].cache = first_of(&shared);
            machine->processors[p].cache_bytes = bytes;
        }
    }
}

bool machine_read(const char *root, machine_t *out_machine)
{
    char line[MAX_LINE];
    machine_set_t online, shared;
    memset(out_machine, 0, sizeof *out_machine);
    if (read_line(line, root, "node/online") && read_list(line, &online) != 1) return false;
    if (!read_line(line, root, "cpu/online") || read_list(line, &online) < 1) return false;
    for (int p = 0; p < MACHINE_MOST; p++) {
        if (!online.has[p]) continue;
        if (!read_line(line, root, "cpu/cpu%d/topology/thread_siblings_list", p) ||
            read_list(line, &shared) < 1)
            return false;
        out_machine->processors[p].is_online = true;
        out_machine->processors[p].core = first_of(&shared);
        if (out_machine->processors[p].cache_level < 3) read_cache(root, p, out_machine);
    }
    return true;
}

/* ---- affinity ---- */

static bool add_affinity(pid_t thread, machine_set_t *set)
{
    union {
        cpu_set_t set;
        unsigned char bytes[MACHINE_MOST / CHAR_BIT];
    } mask;
    memset(&mask, 0, sizeof mask);
    if (sched_getaffinity(thread, sizeof mask, &mask.set) != 0) return false;
    for (int p = 0; p < MACHINE_MOST; p++)
        if (CPU_ISSET_S((size_t)p, sizeof mask, &mask.set)) set->has[p] = true;
    return true;
}

/* Each thread has an affinity. A host may bind one of them to a single processor, so all count. */
bool machine_allowed(machine_set_t *out_set)
{
    bool is_known = false;
    memset(out_set, 0, sizeof *out_set);
    DIR *threads = opendir("/proc/self/task");
    for (const struct dirent *entry; threads != NULL && (entry = readdir(threads)) != NULL;)
        if (entry->d_name[0] != '.')
            is_known |= add_affinity((pid_t)strtol(entry->d_name, NULL, 10), out_set);
    if (threads != NULL) (void)closedir(threads);
    return is_known || add_affinity(0, out_set);
}

/* ---- counts ---- */

static bool has(const machine_t *machine, const machine_set_t *set, int p)
{
    return machine->processors[p].is_online && (set == NULL || set->has[p]);
}

int machine_count(const machine_t *machine, const machine_set_t *set)
{
    int n = 0;
    for (int p = 0; p < MACHINE_MOST; p++) n += has(machine, set, p);
    return n;
}

int machine_cores(const machine_t *machine, const machine_set_t *set)
{
    machine_set_t cores = {{false}};
    int n = 0;
    for (int p = 0; p < MACHINE_MOST; p++) {
        if (!has(machine, set, p)) continue;
        n += !cores.has[machine->processors[p].core];
        cores.has[machine->processors[p].core] = true;
    }
    return n;
}

size_t machine_cache_bytes(const machine_t *machine, const machine_set_t *set)
{
    machine_set_t caches = {{false}};
    size_t bytes = 0;
    int level = 0;
    for (int p = 0; p < MACHINE_MOST; p++)
        if (has(machine, set, p) && machine->processors[p].cache_level > level)
            level = machine->processors[p].cache_level;
    for (int p = 0; p < MACHINE_MOST; p++) {
        const machine_processor_t *of = &machine->processors[p];
        if (!has(machine, set, p) || of->cache_level != level || caches.has[of->cache]) continue;
        caches.has[of->cache] = true;
        bytes += of->cache_bytes;
    }
    return bytes;
}
