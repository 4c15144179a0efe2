/* Sums over the nodes of each operator, and over the nodes inside each module. */
#include <stdlib.h>
#include <string.h>

#include "tools/profile/profile.h"

static profile_sum_t *find_sum(const profile_sums_t *sums, const char *name, size_t length)
{
    for (int i = 0; i < sums->n; i++)
        if (strncmp(sums->items[i].name, name, length) == 0 && sums->items[i].name[length] == '\0')
            return &sums->items[i];
    return NULL;
}

/* Inserts a sum at index `at`; later sums move by one. */
static profile_sum_t *add_sum(profile_sums_t *sums, int at, const char *name, size_t length)
{
    if (sums->n == sums->capacity) {
        const int capacity = sums->capacity > 0 ? 2 * sums->capacity : 64;
        profile_sum_t *grown = realloc(sums->items, (size_t)capacity * sizeof *grown);
        if (grown == NULL) return NULL;
        sums->items = grown;
        sums->capacity = capacity;
    }
    char *copy = malloc(length + 1);
    if (copy == NULL) return NULL;
    memcpy(copy, name, length);
    copy[length] = '\0';
    profile_sum_t *sum = &sums->items[at];
    memmove(sum + 1, sum, (size_t)(sums->n++ - at) * sizeof *sum);
    *sum = (profile_sum_t){.name = copy};
    return sum;
}

static void add_node(profile_sum_t *sum, const profile_node_t *node)
{
    sum->n_nodes++;
    sum->n_reorders += node->n_reorders;
    sum->ns += node->ns;
    sum->reorder_ns += profile_reorder_ns(node);
    sum->flops += node->flops;
}

static int compare_sums(const void *a, const void *b)
{
    const profile_sum_t *x = a, *y = b;
    return (x->ns < y->ns) - (x->ns > y->ns);
}

bool profile_sum_kinds(const profile_t *profile, profile_sums_t *out_sums)
{
    *out_sums = (profile_sums_t){.n = 0};
    for (int i = 0; i < profile_n_nodes(profile); i++) {
        const profile_node_t *node = profile_node(profile, i);
        const char *name = profile_name(node);
        profile_sum_t *sum = find_sum(out_sums, name, strlen(name));
        if (sum == NULL) sum = add_sum(out_sums, out_sums->n, name, strlen(name));
        if (sum == NULL) return false;
        add_node(sum, node);
    }
    if (out_sums->n > 0)
        qsort(out_sums->items, (size_t)out_sums->n, sizeof *out_sums->items, compare_sums);
    return true;
}

/* Finds the sum of a module, or inserts it after its parent and the parent's descendants. */
static profile_sum_t *find_module(profile_sums_t *sums, const char *path, size_t length,
                                  size_t of_parent, int depth)
{
    profile_sum_t *sum = find_sum(sums, path, length);
    if (sum != NULL) return sum;
    int at = 0;
    if (depth > 0) at = (int)(find_sum(sums, path, of_parent) - sums->items) + 1;
    while (at < sums->n && sums->items[at].depth >= depth && depth > 0) at++;
    sum = add_sum(sums, at, path, length);
    if (sum != NULL) sum->depth = depth;
    return sum;
}

bool profile_sum_modules(const profile_t *profile, profile_sums_t *out_sums)
{
    *out_sums = (profile_sums_t){.n = 0};
    for (int i = 0; i < profile_n_nodes(profile); i++) {
        const profile_node_t *node = profile_node(profile, i);
        profile_sum_t *sum = find_module(out_sums, "", 0, 0, 0);
        if (sum == NULL) return false;
        add_node(sum, node);
        size_t parent = 0;
        int depth = 0;
        for (const char *at = node->path; *at != '\0';) {
            const size_t length = (size_t)(at - node->path) + strcspn(at, ".");
            if (length == 0) break; /* the path begins with a dot */
            sum = find_module(out_sums, node->path, length, parent, ++depth);
            if (sum == NULL) return false;
            add_node(sum, node);
            parent = length;
            at = node->path + length + (node->path[length] == '.');
        }
    }
    return true;
}

void profile_sums_clear(profile_sums_t *sums)
{
    for (int i = 0; i < sums->n; i++) free(sums->items[i].name);
    free(sums->items);
    *sums = (profile_sums_t){.n = 0};
}
