#include "graph/analysis/lifetimes_impl.h"

#include "tensor/context_impl.h"

/* The address of this variable identifies the analysis. */
static const char analysis_kind;

/* A block that contains the current node, and the index of that node in it (or of the node whose
 * inner block contains the current node). */
typedef struct level {
    const graph_block_t *block;
    int index;
    const struct level *outer;
} level_t;

static void note_use(lifetimes_t *lifetimes, const level_t *level, value_t value)
{
    if (value < 0) return;
    while (level != NULL && level->block != lifetimes->home[value]) level = level->outer;
    if (level != NULL) lifetimes->last_use[value] = level->index;
}

static void look_at_block(lifetimes_t *lifetimes, const graph_block_t *block, const level_t *outer)
{
    level_t level = {block, 0, outer};
    for (int i = 0; i < block->n_params; i++) {
        lifetimes->home[block->params[i]] = block;
        lifetimes->last_use[block->params[i]] = -1;
    }
    for (; level.index < block->n_nodes; level.index++) {
        const graph_node_t *node = block->nodes[level.index];
        int n = node->n_inputs > node->n_outputs ? node->n_inputs : node->n_outputs;
        if (n > lifetimes->most_operands) lifetimes->most_operands = n;
        for (int i = 0; i < node->n_inputs; i++) note_use(lifetimes, &level, node->inputs[i]);
        for (int i = 0; i < node->n_blocks; i++) look_at_block(lifetimes, node->blocks[i], &level);
        for (int i = 0; i < node->n_outputs; i++) {
            lifetimes->home[node->outputs[i]] = block;
            lifetimes->last_use[node->outputs[i]] = level.index;
        }
    }
    for (int i = 0; i < block->n_results; i++) note_use(lifetimes, &level, block->results[i]);
}

status_t lifetimes_of(context_t *ctx, const graph_t *graph, const lifetimes_t **out_lifetimes)
{
    const graph_analysis_t *kept = graph_find_analysis(graph, &analysis_kind);
    if (kept == NULL) {
        size_t n = (size_t)graph_n_values(graph);
        lifetimes_t *lifetimes = allocator_get(
            &graph->allocator,
            sizeof *lifetimes + n * (sizeof *lifetimes->home + sizeof *lifetimes->last_use));
        if (lifetimes == NULL)
            FAIL(ctx, STATUS_OUT_OF_MEMORY, "out of memory: lifetimes of %s", graph_name(graph));
        *lifetimes = (lifetimes_t){.kept = {.kind = &analysis_kind}};
        lifetimes->home = (const graph_block_t **)(void *)(lifetimes + 1);
        lifetimes->last_use = (int *)(void *)(lifetimes->home + n);
        for (size_t i = 0; i < n; i++) lifetimes->home[i] = NULL;
        look_at_block(lifetimes, graph_body(graph), NULL);
        kept = graph_keep_analysis_take(graph, &lifetimes->kept);
    }
    *out_lifetimes = (const lifetimes_t *)(const void *)kept;
    return STATUS_OK;
}
