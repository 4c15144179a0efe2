/* Declarations that freezing, saving and loading share. */
#ifndef TESSERA_FREEZE_FREEZE_IMPL_H
#define TESSERA_FREEZE_FREEZE_IMPL_H

#include "freeze/freeze.h"
#include "graph/passes/pass.h"
#include "tensor/scope.h"
#include "tensor/tensor_impl.h"

/* Attribute that marks a module as frozen: the list of preserved paths. */
#define FREEZE_MARK "frozen"

/* Attribute of the top module: the model that it was imported from. io makes and reads it. Files
 * store its tensors in any form from which their elements can be read. */
#define FREEZE_SOURCE "frozen_source"

/* Copies a graph for another set of sizes; constants that equal constants of the frozen method
 * become these. */
status_t freeze_share_graph(context_t *ctx, const module_t *frozen, const char *method,
                            const graph_t *graph, graph_t **out_shared);
/* Replaces tensors in a dict by equal constants of the frozen method; a matrix whose transpose is a
 * constant becomes a list with that constant. */
status_t freeze_share_tensors(context_t *ctx, const module_t *frozen, const char *method,
                              datum_t *dict);

/* True for attributes of the top module that stay in any case: the mark, the names of inputs and
 * outputs, and `training`. */
bool freeze_is_border(const module_t *root, const module_t *owner, const char *name);

/* ---- contents of a frozen module ---- */

/* A method to keep. If is_frozen, it becomes a plan; else it does not change. The module owns the
 * name. */
typedef struct freeze_method {
    module_t *owner;
    const char *name;
    bool is_frozen;
} freeze_method_t;

typedef struct freeze_methods {
    freeze_method_t *items;
    int n, capacity;
} freeze_methods_t;

/* Adds a method of `owner`, or of a module below it if the name is a dotted path, unless the list
 * has it. */
status_t freeze_add_method(context_t *ctx, freeze_methods_t *methods, module_t *owner,
                           const char *name, bool is_frozen);

/* Adds all methods of the module and of all modules below it. */
status_t freeze_add_methods(context_t *ctx, freeze_methods_t *methods, module_t *module);

/* Adds the methods that the index-th method may call. */
status_t freeze_add_callees(context_t *ctx, freeze_methods_t *methods, module_t *root, int index);

/* Removes all methods in the tree that are not listed. */
status_t freeze_drop_methods(context_t *ctx, module_t *root, const freeze_methods_t *methods);

/* Removes attributes that no listed frozen method reads or sets, unless they must stay for another
 * reason (graph/analysis/keep_impl.h), and modules that are then empty. */
status_t freeze_drop_members(context_t *ctx, module_t *root, const freeze_methods_t *methods,
                             const char *const *preserved);

/* ---- errors with a narrower dtype ---- */

typedef struct freeze_layers {
    freeze_layer_t *items;
    int n, capacity;
} freeze_layers_t;

void freeze_layers_clear(context_t *ctx, freeze_layers_t *layers);

/* Measures the products of a graph on the examples. For s8: the products that pass `quantize` would
 * convert, with the ranges in `passes`. */
status_t freeze_measure(context_t *ctx, const graph_t *graph, const freeze_options_t *options,
                        const pass_options_t *passes, freeze_layers_t *layers);

/* ---- running on examples ---- */

/* Callbacks; either may be NULL. */
typedef struct freeze_walk {
    void *user;
    /* Receives each parameter, and each result of a node of the body, when it is available. */
    status_t (*value)(void *user, int example, value_t value, const datum_t *datum);
    /* Receives each node after it has run, and the values that exist then, [graph_n_values]. */
    status_t (*node)(void *user, const graph_node_t *node, datum_t *const *known);
} freeze_walk_t;

/* Runs a frozen graph node by node on each example of the options. */
status_t freeze_walk(context_t *ctx, const graph_t *graph, const freeze_options_t *options,
                     const freeze_walk_t *walk);

/* Computes the ranges, on the examples, of all values that pass `quantize` may read. The graph owns
 * the names. The caller frees *out_ranges with context_put. */
status_t freeze_calibrate(context_t *ctx, const graph_t *graph, const freeze_options_t *options,
                          int *out_n, pass_range_t **out_ranges);

/* How `forward` is optimised, based on the examples. */
typedef struct freeze_narrow {
    pass_options_t passes;
    freeze_layers_t layers;
    const char **kept; /* NULL-terminated */
    pass_range_t *ranges;
    graph_t *graph; /* owns the names of the ranges */
} freeze_narrow_t;

/* Calibrates and measures as the dtype requires, and sets the pass options for `forward`. For s8,
 * replaces `forward` by the calibrated graph. The caller calls freeze_narrow_clear, also on
 * failure. */
status_t freeze_narrow(context_t *ctx, module_t *root, const freeze_options_t *options,
                       const pass_options_t *passes, freeze_narrow_t *narrow);
void freeze_narrow_clear(context_t *ctx, freeze_narrow_t *narrow);

/* ---- paths ---- */

/* Finds the owner of the last name of a dotted path below `root`; creates missing modules. */
status_t freeze_owner(context_t *ctx, module_t *root, const char *path, const char **out_name,
                      module_t **out_owner);

/* True if the options set rounding_error. */
static inline bool freeze_bounds_rounding(const freeze_options_t *options)
{
    return options->has_rounding_error || options->rounding_error > 0.0;
}
/* True if the options set max_error. */
static inline bool freeze_bounds_layers(const freeze_options_t *options)
{
    return options->has_max_error || options->max_error > 0.0;
}

#endif
