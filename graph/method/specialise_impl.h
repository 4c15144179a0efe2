/* A graph made one for the dtypes and sizes of a set of inputs. */
#ifndef TESSERA_GRAPH_METHOD_SPECIALISE_IMPL_H
#define TESSERA_GRAPH_METHOD_SPECIALISE_IMPL_H

#include "graph/ir/graph.h"
#include "tensor/text.h"

typedef struct shapes {
    int n;
    const tensor_info_t *infos;
} shapes_t;

/* What a program for these shapes is built from: types inferred anew, sizes computed, the passes of
 * pass_pipeline_plan run. `known` is what the layout pass shall choose, `chosen` what it chose;
 * both may be NULL. */
status_t specialise(context_t *ctx, module_t *self, const graph_t *graph, const shapes_t *shapes,
                    const char *known, text_t *chosen, graph_t **out_graph);

#endif
