/* The CPU quota of the process: the smallest quota of its cgroup and all parents of this cgroup, in
 * processors, rounded up. Version 2 of cgroups stores a quota in the file cpu.max, as "150000
 * 100000" or "max 100000"; version 1 in cpu.cfs_quota_us (-1: none) and cpu.cfs_period_us. In a
 * container, the cgroup's path may be one of the host that does not exist here; then the files are
 * at the mount point. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/threads/threads_impl.h"

enum { MAX_PATH = 4096, MAX_LINE = 4096 };

/* Reads the first line of a file; false if there is none. */
static bool read_line(const char *path, char *out_line)
{
    FILE *file = fopen(path, "r");
    if (file == NULL) return false;
    const bool is_read = fgets(out_line, MAX_LINE, file) != NULL;
    (void)fclose(file);
    return is_read;
}

/* quota / period rounded up, which is a number of processors; 0: unlimited. */
static int processors(long long quota, long long period)
{
    if (quota <= 0 || period <= 0 || quota / period >= INT32_MAX) return 0;
    return (int)(quota / period + (quota % period != 0));
}

/* Processors of one cgroup, from the files in its folder; 0: no quota. */
static int read_quota(const char *folder, bool is_unified)
{
    char path[MAX_PATH], line[MAX_LINE], *end = line;
    if (is_unified) {
        const int n = snprintf(path, sizeof path, "%s/cpu.max", folder);
        if (n >= (int)sizeof path || !read_line(path, line)) return 0;
        const long long quota = strtoll(line, &end, 10);
        return end != line ? processors(quota, strtoll(end, NULL, 10)) : 0; /* "max" is not a
                                                                               number */
    }
    int n = snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
    if (n >= (int)sizeof path || !read_line(path, line)) return 0;
    const long long quota = strtoll(line, NULL, 10);
    n = snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
    return n < (int)sizeof path && read_line(path, line)
               ? processors(quota, strtoll(line, NULL, 10))
               : 0;
}

static int least(int a, int b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

/* The smallest quota of the cgroup and its parents, up to the mount point. */
static int walk_up(const char *mount, char *group, bool is_unified)
{
    char folder[MAX_PATH];
    int quota = 0;
    for (;;) {
        const int n = snprintf(folder, sizeof folder, "%s%s", mount, group);
        if (n < (int)sizeof folder) quota = least(quota, read_quota(folder, is_unified));
        char *last = strrchr(group, '/');
        if (last == NULL) return quota;
        *last = '\0';
    }
}

static bool lists_cpu(const char *controllers, size_t n)
{
    while (n > 0) {
        const char *comma = memchr(controllers, ',', n);
        const size_t length = comma != NULL ? (size_t)(comma - controllers) : n;
        if (length == 3 && memcmp(controllers, "cpu", 3) == 0) return true;
        n -= comma != NULL ? length + 1 : length;
        controllers += length + 1;
    }
    return false;
}

/* Finds the quota of a cgroup from its line in /proc/self/cgroup: "0::/user.slice" (version 2) or
 * "1:cpu,cpuacct:/user.slice" (version 1). */
static int quota_of_line(const char *root, char *line)
{
    char mount[MAX_PATH];
    char *controllers = strchr(line, ':'), *group = NULL;
    line[strcspn(line, "\n")] = '\0';
    if (controllers != NULL) group = strchr(++controllers, ':');
    if (group == NULL) return 0;
    const size_t n = (size_t)(group++ - controllers);
    if (n > 0 && !lists_cpu(controllers, n)) return 0;
    if (strcmp(group, "/") == 0) group[0] = '\0';
    const char *place = n > 0 ? "/cpu" : ""; /* /cpu is a link if cpu is mounted together with
                                                cpuacct */
    if (snprintf(mount, sizeof mount, "%s/sys/fs/cgroup%s", root, place) >= (int)sizeof mount)
        return 0;
    return walk_up(mount, group, n == 0);
}

int threads_quota(const char *root)
{
    char path[MAX_PATH], line[MAX_LINE];
    int quota = 0;
    if (snprintf(path, sizeof path, "%s/proc/self/cgroup", root) >= (int)sizeof path) return 0;
    FILE *file = fopen(path, "r");
    if (file == NULL) return 0;
    while (fgets(line, sizeof line, file) != NULL) quota = least(quota, quota_of_line(root, line));
    (void)fclose(file);
    return quota;
}
