/* Rewriting: a copy of a graph in progress, node by node; and questions about nodes. */
#ifndef TESSERA_GRAPH_IR_REWRITE_IMPL_H
#define TESSERA_GRAPH_IR_REWRITE_IMPL_H

#include "graph/ir/graph.h"

/* A rewrite walks the old graph in order and fills a new one; `map` gives for each old value the
 * new one that stands for it. */
typedef struct rewrite {
    context_t *ctx;
    const graph_t *from;
    graph_builder_t *to;
    value_t *map; /* [graph_n_values(from)] */
    void *user;
    /* Called at the end of every old block, and may put other values in the place of what stands
     * for its results; NULL: nothing to do there. */
    status_t (*at_end)(struct rewrite *rewrite, const graph_block_t *block, value_t *results);
    const tensor_info_t *infos; /* of tensor parameters; NULL: as they were */
    bool drops_names;           /* of the parameters' sizes */
    const graph_type_t *types;  /* of all parameters; NULL: as they were */
    const char *at;             /* put before the paths of all nodes; NULL: nothing */
    bool has_changes;           /* a node was dealt with, or a result of a block replaced */
} rewrite_t;

/* Called for each old node, inner blocks included: sets *out_done when it has dealt with the node
 * (added what stands for it, and mapped its outputs); else the node is copied as it is. */
typedef status_t (*rewrite_node_t)(rewrite_t *rewrite, const graph_node_t *node, bool *out_done);

/* Walks the whole graph with the function, copies what it leaves, and gives the new graph; or the
 * old one, retained, when the function has left every node. */
status_t rewrite_graph(context_t *ctx, const graph_t *from, rewrite_node_t node, void *user,
                       graph_t **out_graph);

/* The same, with a function that has the last word on what stands for the results of blocks. */
typedef status_t (*rewrite_end_t)(rewrite_t *rewrite, const graph_block_t *block, value_t *results);
status_t rewrite_graph_to_end(context_t *ctx, const graph_t *from, rewrite_node_t node,
                              rewrite_end_t at_end, void *user, graph_t **out_graph);

/* The same, with tensor parameters that, in order, have these infos (NULL: as they were), and keep
 * the names of their sizes or lose them; the types of nodes that the function emits anew follow. */
status_t rewrite_graph_typed(context_t *ctx, const graph_t *from, rewrite_node_t node,
                             const tensor_info_t *infos, bool drops_names, void *user,
                             graph_t **out_graph);

/* The same, with these types for all parameters. */
status_t rewrite_graph_params(context_t *ctx, const graph_t *from, rewrite_node_t node,
                              const graph_type_t *types, void *user, graph_t **out_graph);

/* For use inside: the new value of an old one; whether it has one yet; maps an old value; copies a
 * node (blocks included) with its inputs mapped. */
value_t rewrite_value(const rewrite_t *rewrite, value_t old);
bool rewrite_is_mapped(const rewrite_t *rewrite, value_t old);
void rewrite_map(rewrite_t *rewrite, value_t old, value_t new_value);
status_t rewrite_copy(rewrite_t *rewrite, const graph_node_t *node);
/* The same with these inputs. */
status_t rewrite_copy_with(rewrite_t *rewrite, const graph_node_t *node, const value_t *inputs);

/* Walks the nodes of an old block into the place where the new graph is now: what is left of an
 * `if` whose condition is known. */
status_t rewrite_nodes(rewrite_t *rewrite, const graph_block_t *block);

/* Walks the body of another graph, with the same function, into the place where the new graph is
 * now: a call that becomes what it calls. params are new values for its parameters; the rewrite
 * that the function sees meanwhile has this user. out_results: new values of its results. */
status_t rewrite_inline(rewrite_t *rewrite, const graph_t *callee, const char *at, void *user,
                        const value_t *params, value_t *out_results);

/* What an `if` whose condition is known comes to: the nodes of one branch, whose results stand for
 * the outputs. */
status_t rewrite_branch(rewrite_t *rewrite, const graph_node_t *node, bool truth);

/* Adds a node with these new inputs, and maps the old values `stands_for` (one for each output) to
 * what it makes; they give the names, and the types where none can be inferred. */
status_t rewrite_emit(rewrite_t *rewrite, const graph_node_t *node, const value_t *inputs,
                      const value_t *stands_for);

/* A name for what stands for an old value: its own, or NULL if that is a number. */
const char *rewrite_name(const graph_t *graph, value_t value);

/* What a pass gives that found nothing to do. */
status_t rewrite_nothing(const graph_t *graph, graph_t **out_graph);

/* An attribute of a node by name; NULL when the operator lacks one of that name and kind. The
 * second form gives the place of it in a copy of the node's attributes. */
const void *rewrite_attr(const graph_node_t *node, const char *name, attr_kind_t kind);
void *rewrite_attr_in(const graph_node_t *node, void *attrs, const char *name, attr_kind_t kind);

/* The operator's post-ops, or NULL when it takes none. */
const post_ops_t *rewrite_post(const graph_node_t *node);

/* The producer of an old value if it is this operator and its only use is the asking one. */
const graph_node_t *rewrite_single_use(const graph_t *graph, value_t value, const char *op_name);

/* True for a value that is given to operators only: to them none is an operand left out. */
bool rewrite_feeds_operators(const graph_t *graph, value_t value);

/* True for a node that is this operator, or this builtin; node may be NULL. */
bool rewrite_is_op(const graph_node_t *node, const char *op_name);
bool rewrite_is_builtin(const graph_node_t *node, const char *name);

/* 1, 2 or 3 for a convolution over that many dimensions, or a transposed one; 0 for other nodes. */
int rewrite_conv(const graph_node_t *node);
int rewrite_conv_transpose(const graph_node_t *node);

/* What a value was before it was converted from layout to layout. */
value_t rewrite_before_conversions(const graph_t *graph, value_t value);

/* Visits every node of a graph in order, inner blocks included; a failing visit ends the walk. */
typedef status_t (*rewrite_visit_t)(void *user, const graph_node_t *node);
status_t rewrite_visit(const graph_block_t *block, rewrite_visit_t visit, void *user);

#endif
