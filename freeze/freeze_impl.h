/* What freezing, saving and loading share: what makes a module a frozen one. */
#ifndef TESSERA_FREEZE_FREEZE_IMPL_H
#define TESSERA_FREEZE_FREEZE_IMPL_H

#include "freeze/freeze.h"
#include "graph/passes/pass.h"
#include "tensor/scope.h"
#include "tensor/tensor_impl.h"

/* Attribute that says that a module is frozen: a list of the paths that were to be preserved. */
#define FREEZE_MARK "frozen"

/* Attributes that a root has for those who use it, and keeps whoever reads them: the mark, the
 * names of inputs and outputs, and `training`, which every module has. */
bool freeze_is_border(const module_t *root, const module_t *owner, const char *name);

/* ---- what a frozen module keeps ---- */

/* A method that stays: as a plan if it is frozen, else as it is. The name is the module's own. */
typedef struct freeze_method {
    module_t *owner;
    const char *name;
    bool is_frozen;
} freeze_method_t;

typedef struct freeze_methods {
    freeze_method_t *items;
    int n, capacity;
} freeze_methods_t;

/* Adds a method of `owner` (of a child, if the name is dotted), once. */
status_t freeze_add_method(context_t *ctx, freeze_methods_t *methods, module_t *owner,
                           const char *name, bool is_frozen);

/* Adds all methods of the module and below it. */
status_t freeze_add_methods(context_t *ctx, freeze_methods_t *methods, module_t *module);

/* Adds what the index-th method may call. */
status_t freeze_add_callees(context_t *ctx, freeze_methods_t *methods, module_t *root, int index);

/* Removes all methods below the root that are not listed. */
status_t freeze_drop_methods(context_t *ctx, module_t *root, const freeze_methods_t *methods);

/* Removes attributes that no listed frozen method reads or sets and that need not stay for another
 * reason, and modules without anything left. */
status_t freeze_drop_members(context_t *ctx, module_t *root, const freeze_methods_t *methods,
                             const char *const *preserved);

/* ---- errors of a narrower dtype ---- */

typedef struct freeze_layers {
    freeze_layer_t *items;
    int n, capacity;
} freeze_layers_t;

void freeze_layers_clear(context_t *ctx, freeze_layers_t *layers);

/* Measures the products of a graph on the examples; of s8 those that pass `quantize` makes of
 * integers by the ranges in `passes`. */
status_t freeze_measure(context_t *ctx, const graph_t *graph, const freeze_options_t *options,
                        const pass_options_t *passes, freeze_layers_t *layers);

/* ---- running on examples ---- */

/* Who looks on; either may be NULL. */
typedef struct freeze_walk {
    void *user;
    /* Is told each parameter, and each result of a node of the body, when it is there. */
    status_t (*value)(void *user, int example, value_t value, const datum_t *datum);
    /* Is told each node that has run, and what is known then, [graph_n_values]. */
    status_t (*node)(void *user, const graph_node_t *node, datum_t *const *known);
} freeze_walk_t;

/* Runs a frozen graph node by node on each example of the options. */
status_t freeze_walk(context_t *ctx, const graph_t *graph, const freeze_options_t *options,
                     const freeze_walk_t *walk);

/* The ranges on the examples of all values that pass `quantize` may ask for; names are the graph's
 * own. The caller puts *out_ranges back. */
status_t freeze_calibrate(context_t *ctx, const graph_t *graph, const freeze_options_t *options,
                          int *out_n, pass_range_t **out_ranges);

/* How `forward` is optimised after what the examples have shown. */
typedef struct freeze_narrow {
    pass_options_t passes;
    freeze_layers_t layers;
    const char **kept; /* ends in NULL */
    pass_range_t *ranges;
    graph_t *graph; /* that has the names of the ranges */
} freeze_narrow_t;

/* Calibrates and measures, as the dtype wants it, and gives the options for `forward`, to be
 * cleared in any case. With s8 `forward` becomes the graph that was calibrated. */
status_t freeze_narrow(context_t *ctx, module_t *root, const freeze_options_t *options,
                       const pass_options_t *passes, freeze_narrow_t *narrow);
void freeze_narrow_clear(context_t *ctx, freeze_narrow_t *narrow);

/* ---- paths ---- */

/* The module below `root` where the last name of a dotted path belongs, made where it is missing.
 */
status_t freeze_owner(context_t *ctx, module_t *root, const char *path, const char **out_name,
                      module_t **out_owner);

/* Whether the options bound what layers may lose by rounding_error, and by max_error. */
static inline bool freeze_bounds_rounding(const freeze_options_t *options)
{
    return options->has_rounding_error || options->rounding_error > 0.0;
}
static inline bool freeze_bounds_layers(const freeze_options_t *options)
{
    return options->has_max_error || options->max_error > 0.0;
}

#endif
