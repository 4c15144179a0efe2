/* Makes the graph for one set of input dtypes and sizes. */
#ifndef TESSERA_GRAPH_METHOD_SPECIALISE_IMPL_H
#define TESSERA_GRAPH_METHOD_SPECIALISE_IMPL_H

#include "graph/ir/graph.h"
#include "graph/passes/pass.h"
#include "tensor/text/text.h"

typedef struct shapes {
    int n;
    const tensor_info_t *infos;
} shapes_t;

/* Options and results of the passes, mostly of the layout pass. Each may be NULL. */
typedef struct layout_talk {
    const char *known;  /* a layout chosen earlier, to be used again */
    text_t *chosen;     /* receives the chosen layout */
    bool names_kernels; /* `chosen` includes kernel names, see layout_choice_print */
    layout_certificate_t *certificate;
    const char *timings;          /* measured times to use instead of estimates */
    struct layout_tuning *tuning; /* lets the pass measure kernels */
    const char *const *skip;      /* passes to skip */
} layout_talk_t;

/* Makes the graph for a program: infers types, computes sizes, runs pass_pipeline_plan. */
status_t specialise(context_t *ctx, module_t *self, const graph_t *graph, const shapes_t *shapes,
                    const layout_talk_t *layout, graph_t **out_graph);

#endif
