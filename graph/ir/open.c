/* Graphs with named input sizes: lists the names and substitutes sizes for them. */
#include <string.h>

#include "graph/ir/graph_impl.h"
#include "graph/ir/size_impl.h"
#include "tensor/context_impl.h"

typedef struct names {
    int n;
    const char *names[GRAPH_MAX_NAMES];
    int64_t sizes[GRAPH_MAX_NAMES]; /* sizes in the types; -1: unknown */
} names_t;

static int find_name(const names_t *names, const char *name)
{
    for (int i = 0; i < names->n; i++)
        if (strcmp(names->names[i], name) == 0) return i;
    return -1;
}

static void note_names(const graph_type_t *type, names_t *names)
{
    for (int d = 0; type->kind == TYPE_TENSOR && type->has_info && d < type->info.rank; d++) {
        const char *name = type_dim_name(type, d);
        if (name == NULL || names->n == GRAPH_MAX_NAMES) continue;
        int at = find_name(names, name);
        if (at < 0) {
            names->names[names->n] = name;
            names->sizes[names->n++] = type->info.sizes[d];
        } else if (names->sizes[at] != type->info.sizes[d]) {
            names->sizes[at] = -1;
        }
    }
}

static names_t names_of(const graph_t *graph)
{
    names_t names = {0};
    const graph_block_t *body = graph_body(graph);
    for (int i = 0; i < body->n_params; i++)
        note_names(graph_value_type(graph, body->params[i]), &names);
    return names;
}

bool graph_has_names(const graph_t *graph)
{
    return names_of(graph).n > 0;
}

bool graph_is_open(const graph_t *graph)
{
    const graph_block_t *body = graph_body(graph);
    names_t names = names_of(graph);
    for (int i = graph_first_input(graph); i < body->n_params; i++) {
        const graph_type_t *type = graph_value_type(graph, body->params[i]);
        if (type->kind != TYPE_LIST && !type_is_static(type)) return false;
    }
    for (int i = 0; i < names.n; i++)
        if (names.sizes[i] < 0) return false;
    return names.n > 0 && names.n < GRAPH_MAX_NAMES;
}

int graph_substitute(const graph_t *graph, const int64_t *sizes, tensor_info_t *infos)
{
    const graph_block_t *body = graph_body(graph);
    names_t names = names_of(graph);
    int first = graph_first_input(graph);
    for (int i = first; i < body->n_params && infos != NULL; i++) {
        const graph_type_t *type = graph_value_type(graph, body->params[i]);
        tensor_info_t info = type->info;
        for (int d = 0; d < info.rank && sizes != NULL; d++) {
            const char *name = type_dim_name(type, d);
            if (name != NULL) info.sizes[d] = sizes[find_name(&names, name)];
        }
        infos[i - first] = info_dense(info.dtype, info.rank, info.sizes);
    }
    return names.n;
}

void graph_sizes(const graph_t *graph, int64_t *out_sizes)
{
    names_t names = names_of(graph);
    memcpy(out_sizes, names.sizes, (size_t)names.n * sizeof *out_sizes);
}

/* ---- generic sizes ---- */

#define MAX_STEPS 4096 /* in which a size changes to satisfy a guard */

/* Changes all sizes by a step that depends on the attempt. Small steps suit batches and lengths.
 * Large steps suit images, whose sizes are divided by powers of two. The last attempts decrease
 * sizes, because some sizes have an upper limit, such as the length of a table. */
static bool move_sizes(int attempt, int n, int64_t *sizes)
{
    static const int64_t steps[] = {2, 32, 64, 128, 4, 16, 8, 1}, down[] = {2, 1, 3, 32};
    const int n_up = (int)(sizeof steps / sizeof *steps),
              n_down = (int)(sizeof down / sizeof *down);
    if (attempt >= n_up + n_down) return false;
    for (int i = 0; i < n; i++) {
        bool is_small = sizes[i] < 16;
        if (attempt < n_up)
            sizes[i] += is_small && attempt < 4 ? 2 + 2 * i + attempt : steps[attempt] * (i + 1);
        else if (sizes[i] > down[attempt - n_up] * (i + 1) + 1)
            sizes[i] -= down[attempt - n_up] * (i + 1);
        else
            sizes[i] += 2 + 2 * i;
    }
    return true;
}

typedef struct moved {
    const names_t *names;
    const int64_t *sizes;
} moved_t;

static bool size_of_moved(void *user, int name, const char *text, int64_t *out_size)
{
    const moved_t *moved = user;
    const int at = find_name(moved->names, text);
    (void)name;
    if (at >= 0) *out_size = moved->sizes[at];
    return at >= 0;
}

/* Sets the sizes of names for which guards require a number, or an expression of other names. */
static void follow_guards(context_t *ctx, const graph_t *graph, int64_t *sizes)
{
    const names_t names = names_of(graph);
    const moved_t moved = {&names, sizes};
    if (graph->space == NULL) return;
    sym_space_t *outer = sym_space_enter(ctx, graph->space);
    for (int i = 0; i < names.n; i++) {
        int64_t value = 0, min = 0, max = 0;
        const int64_t name = sym_name(ctx, names.names[i], names.sizes[i], 0, INT64_MAX / 16);
        sym_range(ctx, name, &min, &max);
        if (min == max) sizes[i] = min;
        const int64_t simplest = sym_add(ctx, name, 0); /* with guard N == M, M becomes N */
        if (simplest != SYM_NONE &&
            sym_calculate(graph->space, simplest, size_of_moved, (void *)(uintptr_t)&moved, &value))
            sizes[i] = value;
    }
    (void)sym_status(ctx);
    sym_space_enter(ctx, outer);
}

static bool is_read(void *user, int number, const char *name)
{
    (void)number;
    return strcmp(user, name) == 0;
}

/* Changes size `at` in steps, and those that follow from it, until guard k holds, and all guards
 * before it. */
static bool change_size(context_t *ctx, const graph_t *graph, int k, int at, int step,
                        int64_t *sizes)
{
    const names_t names = names_of(graph);
    moved_t moved = {&names, sizes};
    int64_t before[GRAPH_MAX_NAMES];
    int failing = k;
    memcpy(before, sizes, (size_t)names.n * sizeof *sizes);
    for (int i = 1; i <= MAX_STEPS && before[at] + i * step >= 1; i++) {
        sizes[at] = before[at] + i * step;
        follow_guards(ctx, graph, sizes);
        if (sym_guards_hold(graph->space, size_of_moved, &moved, &failing) || failing > k)
            return true;
        memcpy(sizes, before, (size_t)names.n * sizeof *sizes);
    }
    return false;
}

/* Changes sizes until all guards hold, or none is found for a guard. */
static void satisfy_guards(context_t *ctx, const graph_t *graph, int64_t *sizes)
{
    const names_t names = names_of(graph);
    moved_t moved = {&names, sizes};
    bool is_changed = true;
    int k = 0;
    while (is_changed && !sym_guards_hold(graph->space, size_of_moved, &moved, &k)) {
        const int64_t value = sym_guard_value(graph->space, k);
        is_changed = false;
        for (int i = 0; i < 2 * names.n && !is_changed; i++)
            is_changed = sym_any_name(graph->space, value, is_read,
                                      (void *)(uintptr_t)names.names[i % names.n]) &&
                         change_size(ctx, graph, k, i % names.n, i < names.n ? 1 : -1, sizes);
    }
}

bool graph_generic_sizes(context_t *ctx, const graph_t *graph, int attempt, int64_t *sizes)
{
    graph_sizes(graph, sizes);
    if (!move_sizes(attempt, names_of(graph).n, sizes)) return false;
    follow_guards(ctx, graph, sizes);
    satisfy_guards(ctx, graph, sizes);
    return true;
}
