/* The number of threads of a context: reads quotas of cgroups, of versions 1 and 2, from files that
 * the test writes. */
#define _XOPEN_SOURCE 700

#include "tests/support/support.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tensor/threads/threads_impl.h"

enum { MAX_FILES = 6 };

typedef struct entry {
    const char *path, *text;
} entry_t;

/* Writes the file, and creates the folders in its path. */
static void write_file(const char *root, const entry_t *entry)
{
    char path[512];
    assert_true(snprintf(path, sizeof path, "%s%s", root, entry->path) < (int)sizeof path);
    for (char *at = path + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        mkdir(path, 0700);
        *at = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(entry->text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *place)
{
    (void)info;
    (void)type;
    (void)place;
    return remove(path);
}

static void quotas_are_rounded_up(void **state)
{
#define SELF "/proc/self/cgroup"
#define GROUPS "/sys/fs/cgroup"
    static const struct {
        int wanted;
        entry_t files[MAX_FILES];
    } cases[] = {
        {0, {{"/none", ""}}},
        {0, {{SELF, "0::/\n"}}},
        {0, {{SELF, "0::/\n"}, {GROUPS "/cpu.max", "max 100000\n"}}},
        {1, {{SELF, "0::/\n"}, {GROUPS "/cpu.max", "100000 100000\n"}}},
        {1, {{SELF, "0::/\n"}, {GROUPS "/cpu.max", "50000 100000\n"}}},
        {2, {{SELF, "0::/\n"}, {GROUPS "/cpu.max", "150000 100000\n"}}},
        {3, {{SELF, "0::/a/b\n"}, {GROUPS "/a/b/cpu.max", "60000 20000\n"}}},
        /* the smallest quota of all cgroups around the process counts */
        {2,
         {{SELF, "0::/a/b\n"},
          {GROUPS "/a/b/cpu.max", "max 100000\n"},
          {GROUPS "/a/cpu.max", "200000 100000\n"},
          {GROUPS "/cpu.max", "700000 100000\n"}}},
        /* in a container, /proc has the host's path of the cgroup, which is mounted as the root */
        {4, {{SELF, "0::/docker/0123\n"}, {GROUPS "/cpu.max", "400000 100000\n"}}},
        /* version 1, alone and next to an empty version 2 */
        {0,
         {{SELF, "3:cpuset:/\n1:cpu,cpuacct:/\n"},
          {GROUPS "/cpu/cpu.cfs_quota_us", "-1\n"},
          {GROUPS "/cpu/cpu.cfs_period_us", "100000\n"}}},
        {2,
         {{SELF, "3:cpuset:/\n1:cpuacct,cpu:/\n0::/\n"},
          {GROUPS "/cpu/cpu.cfs_quota_us", "110000\n"},
          {GROUPS "/cpu/cpu.cfs_period_us", "100000\n"}}},
        {1,
         {{SELF, "4:cpu:/slice/unit\n"},
          {GROUPS "/cpu/cpu.cfs_quota_us", "900000\n"},
          {GROUPS "/cpu/cpu.cfs_period_us", "100000\n"},
          {GROUPS "/cpu/slice/cpu.cfs_quota_us", "100000\n"},
          {GROUPS "/cpu/slice/cpu.cfs_period_us", "100000\n"}}},
        /* the controllers cpuset and cpuacct have no quota */
        {0,
         {{SELF, "1:cpuacct:/\n2:cpuset:/\n"},
          {GROUPS "/cpu/cpu.cfs_quota_us", "100000\n"},
          {GROUPS "/cpu/cpu.cfs_period_us", "100000\n"}}},
        /* a value that is not valid means no quota */
        {0, {{SELF, "0:/\n\nx\n"}, {GROUPS "/cpu.max", "100000 100000\n"}}},
        {0, {{SELF, "0::/\n"}, {GROUPS "/cpu.max", "-5 100000\n"}}},
        {0, {{SELF, "0::/\n"}, {GROUPS "/cpu.max", "100000 0\n"}}},
        {0, {{SELF, "0::/\n"}, {GROUPS "/cpu.max", "9223372036854775807 1\n"}}},
        {0, {{SELF, "0::/\n"}, {GROUPS "/cpu.max", ""}}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char root[] = "/tmp/tessera-quota-XXXXXX";
        assert_non_null(mkdtemp(root));
        for (int k = 0; k < MAX_FILES && cases[i].files[k].path != NULL; k++)
            write_file(root, &cases[i].files[k]);
        const int quota = threads_quota(root);
        if (quota != cases[i].wanted) fail_msg("case %zu: %d", i, quota);
        assert_int_equal(nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
    }
}

static void the_least_bound_decides(void **state)
{
    char text[128], few[8];
    (void)state;
    const threads_bounds_t bounds = threads_bounds();
    const int n = threads_available();
    assert_in_range(bounds.n_allowed, 1, bounds.n_cores);
    assert_in_range(bounds.n_node, 1, bounds.n_allowed);
    assert_in_range(n, 1, bounds.n_node);
    assert_int_equal(n, bounds.n_quota == 0 || bounds.n_quota > bounds.n_node ? bounds.n_node
                                                                              : bounds.n_quota);
    assert_ptr_equal(context_threads_text(text, sizeof text), text);
    assert_non_null(strstr(text, " in the affinity mask, "));
    context_threads_text(few, sizeof few);
    assert_int_equal(strlen(few), sizeof few - 1);
    assert_memory_equal(few, text, sizeof few - 1);
    assert_null(context_threads_text(NULL, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quotas_are_rounded_up),
        cmocka_unit_test(the_least_bound_decides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
