/* Graphs whose inputs have names for sizes: which names there are, and what to put in for them. */
#include <string.h>

#include "graph/ir/graph_impl.h"
#include "graph/ir/size_impl.h"
#include "tensor/context_impl.h"

typedef struct names {
    int n;
    const char *names[GRAPH_MAX_NAMES];
    int64_t sizes[GRAPH_MAX_NAMES]; /* in the types; -1: none */
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

/* Small steps suit batches and lengths, large ones suit images, whose sizes are divided by powers
 * of two. Those down come last: they suit sizes that are as large as a table allows. */
bool graph_generic_sizes(int attempt, int n, int64_t *sizes)
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
