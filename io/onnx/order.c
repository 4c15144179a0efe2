/* Finds the order in which nodes are imported (a topological sort). ONNX requires each node to
 * follow the nodes whose outputs it reads, but some files violate this.
 *
 * A node depends on the nodes that produce its inputs, and the inputs of nodes in its blocks. Nodes
 * are imported in the file's order, but each after its dependencies, so a correct file keeps its
 * order. In a cycle one dependency is ignored; the import then reports a missing value. */
#include "io/onnx/node_impl.h"

#include <string.h>

#include "tensor/context_impl.h"
#include "tensor/file/file.h"
#include "tensor/threads/interrupt_impl.h"

typedef struct maker {
    const char *name; /* NULL: free */
    int node;
} maker_t;

typedef struct order {
    context_t *ctx;
    Onnx__NodeProto *const *nodes;
    int n_nodes;
    maker_t *makers; /* producers of values, by the values' names; open addressing */
    size_t mask;
    int *first; /* [n_nodes + 1]: index of a node's first dependency in `edges` */
    int *edges;
    int n_edges, edges_capacity;
} order_t;

static maker_t *find_maker(const order_t *order, const char *name)
{
    size_t i = (size_t)file_checksum(name, strlen(name), 0) & order->mask;
    while (order->makers[i].name != NULL && strcmp(order->makers[i].name, name) != 0)
        i = (i + 1) & order->mask;
    return &order->makers[i];
}

static status_t list_makers(order_t *order)
{
    size_t n = 0, capacity = 64;
    for (int i = 0; i < order->n_nodes; i++) n += order->nodes[i]->n_output;
    while (capacity < 2 * n) capacity *= 2;
    TRY(context_get_zeroed(order->ctx, capacity * sizeof *order->makers, "names", &order->makers));
    order->mask = capacity - 1;
    for (int i = 0; i < order->n_nodes; i++)
        for (size_t k = 0; k < order->nodes[i]->n_output; k++) {
            const char *name = order->nodes[i]->output[k];
            maker_t *maker = find_maker(order, name);
            if (*name != '\0' && maker->name == NULL) *maker = (maker_t){name, i};
        }
    return STATUS_OK;
}

static status_t add_edges(order_t *order, int node, const Onnx__NodeProto *proto)
{
    for (size_t i = 0; i < proto->n_input; i++) {
        const maker_t *maker = find_maker(order, proto->input[i]);
        if (maker->name == NULL || maker->node == node) continue;
        TRY(context_grow(order->ctx, &order->edges, &order->edges_capacity, order->n_edges + 1,
                         sizeof *order->edges));
        order->edges[order->n_edges++] = maker->node;
    }
    for (size_t a = 0; a < proto->n_attribute; a++) {
        const Onnx__GraphProto *block = proto->attribute[a]->g;
        for (size_t i = 0; block != NULL && i < block->n_node; i++)
            TRY(add_edges(order, node, block->node[i]));
    }
    return STATUS_OK;
}

static status_t list_edges(order_t *order)
{
    const size_t n = (size_t)order->n_nodes + 1;
    TRY(context_get(order->ctx, n * sizeof *order->first, "nodes", &order->first));
    for (int i = 0; i < order->n_nodes; i++) {
        order->first[i] = order->n_edges;
        TRY(add_edges(order, i, order->nodes[i]));
    }
    order->first[order->n_nodes] = order->n_edges;
    return STATUS_OK;
}

/* Appends a node to `sorted` after its dependencies: a depth-first search without recursion. `path`
 * holds the nodes from `root` to the current one; next[node] is its first unvisited dependency. */
static void visit(const order_t *order, int root, int *path, int *next, bool *is_seen, int *sorted,
                  int *n_sorted)
{
    int depth = 0;
    if (is_seen[root]) return;
    is_seen[root] = true;
    next[root] = order->first[root];
    path[depth++] = root;
    while (depth > 0) {
        const int node = path[depth - 1];
        if (next[node] == order->first[node + 1]) {
            sorted[(*n_sorted)++] = node;
            depth--;
            continue;
        }
        const int before = order->edges[next[node]++];
        if (is_seen[before]) continue;
        is_seen[before] = true;
        next[before] = order->first[before];
        path[depth++] = before;
    }
}

static status_t sort(order_t *order, int *sorted)
{
    const size_t n = (size_t)order->n_nodes;
    int *path = NULL, n_sorted = 0;
    bool *is_seen = NULL;
    TRY(list_makers(order));
    TRY(list_edges(order));
    TRY(context_get(order->ctx, 2 * n * sizeof *path, "nodes", &path));
    status_t status = context_get_zeroed(order->ctx, n * sizeof *is_seen, "nodes", &is_seen);
    for (int i = 0; i < order->n_nodes && status == STATUS_OK; i++)
        visit(order, i, path, path + n, is_seen, sorted, &n_sorted);
    CONTEXT_PUT(order->ctx, path, is_seen);
    return status;
}

status_t onnx_add_nodes(onnx_t *onnx, size_t n, Onnx__NodeProto *const *nodes, const char *progress)
{
    order_t order = {.ctx = onnx->ctx, .nodes = nodes, .n_nodes = (int)n};
    int *sorted = NULL;
    if (n == 0) return STATUS_OK;
    TRY(context_get(onnx->ctx, n * sizeof *sorted, "nodes", &sorted));
    status_t status = sort(&order, sorted);
    for (int i = 0; i < order.n_nodes && status == STATUS_OK; i++) {
        status = onnx_add_node(onnx, nodes[sorted[i]]);
        if (status == STATUS_OK && progress != NULL)
            status = interrupt_tell(onnx->ctx, progress, i + 1, order.n_nodes);
    }
    CONTEXT_PUT(onnx->ctx, order.makers, order.first, order.edges, sorted);
    return status;
}
