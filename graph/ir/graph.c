/* The immutable graph: its arena, value records, analyses and queries. */
#include "graph/ir/graph_impl.h"

#include <string.h>

#include "tensor/base/references_impl.h"
#include "tensor/context_impl.h"

/* Sizes of the arena's chunks double up to CHUNK_LARGEST. A larger allocation gets its own
 * chunk. */
#define CHUNK_FIRST 4096
#define CHUNK_LARGEST 262144
#define CHUNK_HEAD ((sizeof(arena_chunk_t) + 15) / 16 * 16)

/* ---- storage ---- */

status_t graph_make(context_t *ctx, graph_t **out_graph)
{
    graph_t *graph = NULL;
    TRY(context_get_zeroed(ctx, sizeof *graph, "a graph", &graph));
    atomic_init(&graph->n_references, 1);
    graph->allocator = *context_allocator(ctx);
    graph->name = "";
    *out_graph = graph;
    return STATUS_OK;
}

void graph_set_space(graph_t *graph, sym_space_t *space)
{
    sym_space_retain(space);
    graph->space = space;
}

status_t graph_space(context_t *ctx, graph_t *graph, sym_space_t **out_space)
{
    if (graph->space == NULL) TRY(sym_space_create(ctx, &graph->space));
    *out_space = graph->space;
    return STATUS_OK;
}

size_t graph_bytes(const graph_t *graph)
{
    size_t bytes = sizeof *graph;
    for (const arena_chunk_t *chunk = graph->chunks; chunk != NULL; chunk = chunk->next)
        bytes += chunk->bytes;
    return bytes;
}

static status_t add_chunk(context_t *ctx, graph_t *graph, size_t bytes)
{
    size_t wanted = CHUNK_FIRST;
    if (graph->chunks != NULL && graph->chunks->bytes < CHUNK_LARGEST)
        wanted = graph->chunks->bytes * 2;
    else if (graph->chunks != NULL)
        wanted = CHUNK_LARGEST;
    if (wanted < bytes + CHUNK_HEAD) wanted = bytes + CHUNK_HEAD;
    arena_chunk_t *chunk = allocator_get(&graph->allocator, wanted);
    if (chunk == NULL)
        FAIL(ctx, STATUS_OUT_OF_MEMORY,
             "out of memory: %zu bytes for a graph, the allocator refused", wanted);
    *chunk = (arena_chunk_t){graph->chunks, CHUNK_HEAD, wanted};
    graph->chunks = chunk;
    return STATUS_OK;
}

status_t graph_get(context_t *ctx, graph_t *graph, size_t bytes, void *out_block)
{
    if (bytes > SIZE_MAX / 4)
        FAIL(ctx, STATUS_OUT_OF_MEMORY, "out of memory: %zu bytes for a graph", bytes);
    bytes = (bytes + 15) / 16 * 16;
    if (graph->chunks == NULL || bytes > graph->chunks->bytes - graph->chunks->used)
        TRY(add_chunk(ctx, graph, bytes));
    void *block = (char *)graph->chunks + graph->chunks->used;
    graph->chunks->used += bytes;
    memcpy(out_block, &block, sizeof block);
    return STATUS_OK;
}

status_t graph_string(context_t *ctx, graph_t *graph, const char *text, const char **out_text)
{
    if (text == NULL) {
        *out_text = NULL;
        return STATUS_OK;
    }
    size_t bytes = strlen(text) + 1;
    char *copy = NULL;
    TRY(graph_get(ctx, graph, bytes, &copy));
    memcpy(copy, text, bytes);
    *out_text = copy;
    return STATUS_OK;
}

status_t graph_hold(context_t *ctx, graph_t *graph, datum_t *datum)
{
    held_datum_t *held = NULL;
    TRY(graph_get(ctx, graph, sizeof *held, &held));
    *held = (held_datum_t){graph->held, datum_retain(datum)};
    graph->held = held;
    return STATUS_OK;
}

graph_t *graph_retain(graph_t *graph)
{
    if (graph != NULL) references_add(&graph->n_references);
    return graph;
}

void graph_release(graph_t *graph)
{
    if (graph == NULL || !references_drop(&graph->n_references)) return;
    for (held_datum_t *held = graph->held; held != NULL; held = held->next)
        datum_release(held->datum);
    sym_space_release(graph->space);
    allocator_t allocator = graph->allocator;
    for (graph_analysis_t *analysis = atomic_load(&graph->analyses); analysis != NULL;) {
        graph_analysis_t *next = analysis->next;
        allocator_put(&allocator, analysis);
        analysis = next;
    }
    for (arena_chunk_t *chunk = graph->chunks; chunk != NULL;) {
        arena_chunk_t *next = chunk->next;
        allocator_put(&allocator, chunk);
        chunk = next;
    }
    allocator_put(&allocator, graph);
}

/* ---- analyses ---- */

static const graph_analysis_t *find_from(const graph_analysis_t *analysis, const void *kind)
{
    while (analysis != NULL && analysis->kind != kind) analysis = analysis->next;
    return analysis;
}

const graph_analysis_t *graph_find_analysis(const graph_t *graph, const void *kind)
{
    return find_from(atomic_load(&graph->analyses), kind);
}

/* Casts away const, because the list of analyses is only a cache. */
static graph_t *cache_of(const graph_t *graph)
{
    union {
        const graph_t *shared;
        graph_t *cache;
    } of = {graph};
    return of.cache;
}

const graph_analysis_t *graph_keep_analysis_take(const graph_t *graph, graph_analysis_t *analysis)
{
    graph_t *cache = cache_of(graph);
    graph_analysis_t *first = atomic_load(&cache->analyses);
    do {
        const graph_analysis_t *other = find_from(first, analysis->kind);
        if (other != NULL) {
            allocator_put(&cache->allocator, analysis);
            return other;
        }
        analysis->next = first;
    } while (!atomic_compare_exchange_weak(&cache->analyses, &first, analysis));
    return analysis;
}

/* ---- queries ---- */

static const value_record_t *record_of(const graph_t *graph, value_t value)
{
    return graph != NULL && value >= 0 && value < graph->n_values ? &graph->values[value] : NULL;
}

const char *graph_name(const graph_t *graph)
{
    return graph != NULL ? graph->name : NULL;
}

const graph_block_t *graph_body(const graph_t *graph)
{
    return graph != NULL ? graph->body : NULL;
}

int graph_n_values(const graph_t *graph)
{
    return graph != NULL ? graph->n_values : 0;
}

int graph_n_nodes(const graph_t *graph)
{
    return graph != NULL ? graph->n_nodes : 0;
}

const char *graph_value_name(const graph_t *graph, value_t value)
{
    const value_record_t *record = record_of(graph, value);
    return record != NULL ? record->name : "none";
}

const graph_type_t *graph_value_type(const graph_t *graph, value_t value)
{
    const value_record_t *record = record_of(graph, value);
    return record != NULL ? record->type : type_plain(TYPE_NONE);
}

const graph_node_t *graph_producer(const graph_t *graph, value_t value)
{
    const value_record_t *record = record_of(graph, value);
    return record != NULL ? record->producer : NULL;
}

int graph_n_uses(const graph_t *graph, value_t value)
{
    const value_record_t *record = record_of(graph, value);
    return record != NULL ? record->n_uses : 0;
}

datum_t *graph_constant(const graph_t *graph, value_t value)
{
    const graph_node_t *producer = graph_producer(graph, value);
    return producer != NULL && producer->kind == NODE_CONSTANT ? producer->datum : NULL;
}

graph_t *graph_of(const module_t *module, const char *method)
{
    void *state = NULL;
    const method_class_t *class_ = module_method(module, method, &state);
    return class_ != NULL && class_->graph != NULL ? class_->graph(state) : NULL;
}

const char *graph_node_word(const graph_node_t *node)
{
    static const char *const words[] = {
        [NODE_CONSTANT] = "constant", [NODE_GETATTR] = "getattr", [NODE_SETATTR] = "setattr",
        [NODE_CALL] = "call",         [NODE_IF] = "if",           [NODE_LOOP] = "loop"};
    if (node->kind == NODE_OP) return node->op->name;
    return node->kind == NODE_BUILTIN ? node->name : words[node->kind];
}
