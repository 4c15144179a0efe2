/* Which values may share bytes, and which of them are written: what keeps passes off in-place
 * operators. Conservative: values that may meet in one container or view are one class. */
#ifndef TESSERA_GRAPH_PASSES_ALIAS_IMPL_H
#define TESSERA_GRAPH_PASSES_ALIAS_IMPL_H

#include "graph/graph.h"

typedef struct alias {
    context_t *ctx;
    const graph_t *graph;
    value_t *parent;              /* union-find over values */
    const graph_node_t **writers; /* of a class, at its root: the first that writes it, or NULL */
    bool has_effects;             /* something is written: in place, by append, setattr or a call */
} alias_t;

/* On failure there is nothing to clear. */
status_t alias_analyze(context_t *ctx, const graph_t *graph, alias_t *out_alias);
void alias_clear(alias_t *alias);

/* True if the value's bytes or items may be written somewhere in the graph. */
bool alias_is_mutated(const alias_t *alias, value_t value);

/* The first node that may write them, or NULL. */
const graph_node_t *alias_writer(const alias_t *alias, value_t value);

/* True for a node that does more than to compute its outputs; what is inside blocks counts. */
bool alias_has_effect(const graph_node_t *node);

/* True for a node whose outputs may share bytes with its inputs. */
bool alias_shares(const graph_node_t *node);

#endif
