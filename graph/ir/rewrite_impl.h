/* Rewriting a graph node by node, and queries about nodes. */
#ifndef TESSERA_GRAPH_IR_REWRITE_IMPL_H
#define TESSERA_GRAPH_IR_REWRITE_IMPL_H

#include "graph/ir/graph.h"

/* A rewrite visits the nodes of the old graph in order and fills a new graph. `map` contains the
 * new value of each old value. */
typedef struct rewrite {
    context_t *ctx;
    const graph_t *from;
    graph_builder_t *to;
    value_t *map; /* [graph_n_values(from)] */
    void *user;
    /* Called at the end of every old block; may replace the new values of its results. NULL: not
     * called. */
    status_t (*at_end)(struct rewrite *rewrite, const graph_block_t *block, value_t *results);
    const tensor_info_t *infos; /* one for each input, used for tensors; NULL: unchanged */
    bool drops_names;           /* removes the names of parameter sizes */
    const graph_type_t *types;  /* for all parameters; NULL: unchanged */
    const char *at;             /* prefix for the paths of all nodes; NULL: none */
    bool has_changes;           /* a callback replaced a node or a block's result */
} rewrite_t;

/* Called for each old node, inside blocks as well. If the function adds a replacement and maps the
 * node's outputs, it sets *out_done. Otherwise the node is copied. */
typedef status_t (*rewrite_node_t)(rewrite_t *rewrite, const graph_node_t *node, bool *out_done);

/* Calls `node` for each node, and returns the new graph. If no call replaces a node, returns the
 * old graph, retained. */
status_t rewrite_graph(context_t *ctx, const graph_t *from, rewrite_node_t node, void *user,
                       graph_t **out_graph);

/* rewrite_graph with a second function, which may replace the results of blocks. */
typedef status_t (*rewrite_end_t)(rewrite_t *rewrite, const graph_block_t *block, value_t *results);
status_t rewrite_graph_to_end(context_t *ctx, const graph_t *from, rewrite_node_t node,
                              rewrite_end_t at_end, void *user, graph_t **out_graph);

/* rewrite_graph with other parameter types. infos: one for each input, used for tensors (NULL:
 * unchanged). drops_names removes the names of their sizes. Types of new nodes are inferred. */
status_t rewrite_graph_typed(context_t *ctx, const graph_t *from, rewrite_node_t node,
                             const tensor_info_t *infos, bool drops_names, void *user,
                             graph_t **out_graph);

/* rewrite_graph with these types for all parameters. */
status_t rewrite_graph_params(context_t *ctx, const graph_t *from, rewrite_node_t node,
                              const graph_type_t *types, void *user, graph_t **out_graph);

/* For callbacks: rewrite_value returns the new value of an old one; rewrite_copy copies a node and
 * its blocks, with new values as inputs. */
value_t rewrite_value(const rewrite_t *rewrite, value_t old);
bool rewrite_is_mapped(const rewrite_t *rewrite, value_t old);
void rewrite_map(rewrite_t *rewrite, value_t old, value_t new_value);
status_t rewrite_copy(rewrite_t *rewrite, const graph_node_t *node);
/* Copies a node with these inputs. */
status_t rewrite_copy_with(rewrite_t *rewrite, const graph_node_t *node, const value_t *inputs);

/* Rewrites the nodes of an old block at the current position of the new graph. */
status_t rewrite_nodes(rewrite_t *rewrite, const graph_block_t *block);

/* Adds the nodes of another graph at the current position, using the same callback. params: new
 * values for its parameters. user: rewrite->user while the callback is called for these nodes.
 * out_results: new values of the graph's results. at: prefix for paths. */
status_t rewrite_inline(rewrite_t *rewrite, const graph_t *callee, const char *at, void *user,
                        const value_t *params, value_t *out_results);

/* Replaces an `if` by the nodes of one branch, and maps its outputs to the branch's results. */
status_t rewrite_branch(rewrite_t *rewrite, const graph_node_t *node, bool truth);

/* Adds a node with these new inputs. Its outputs replace the old values `stands_for`, one each;
 * these also provide names, and types that cannot be inferred. */
status_t rewrite_emit(rewrite_t *rewrite, const graph_node_t *node, const value_t *inputs,
                      const value_t *stands_for);

/* The name of an old value, for the value that replaces it; NULL if its name is a number. */
const char *rewrite_name(const graph_t *graph, value_t value);

/* The result of a pass that changes nothing: the graph, retained. */
status_t rewrite_nothing(const graph_t *graph, graph_t **out_graph);

/* A node's attribute by name; NULL if the operator has no attribute of this name and kind.
 * rewrite_attr_in returns a pointer into attrs, a copy of the node's attributes. */
const void *rewrite_attr(const graph_node_t *node, const char *name, attr_kind_t kind);
void *rewrite_attr_in(const graph_node_t *node, void *attrs, const char *name, attr_kind_t kind);

/* The post-ops of the operator; NULL if it does not support any. */
const post_ops_t *rewrite_post(const graph_node_t *node);

/* The producer of an old value, if it is this operator and the value has one use; else NULL. */
const graph_node_t *rewrite_single_use(const graph_t *graph, value_t value, const char *op_name);

/* True if only operators read the value. (If such a value is none, it is an omitted operand.) */
bool rewrite_feeds_operators(const graph_t *graph, value_t value);

/* True if the node is this operator or builtin; node may be NULL. */
bool rewrite_is_op(const graph_node_t *node, const char *op_name);
bool rewrite_is_builtin(const graph_node_t *node, const char *name);

/* The number of spatial dimensions (1 to 3) of a convolution, or of a transposed one; 0 for other
 * nodes. */
int rewrite_conv(const graph_node_t *node);
int rewrite_conv_transpose(const graph_node_t *node);

/* The value before all layout conversions that led to this value. */
value_t rewrite_before_conversions(const graph_t *graph, value_t value);

/* Visits every node in order, inside blocks as well. Stops at the first failure. */
typedef status_t (*rewrite_visit_t)(void *user, const graph_node_t *node);
status_t rewrite_visit(const graph_block_t *block, rewrite_visit_t visit, void *user);

#endif
