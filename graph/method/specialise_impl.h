/* A graph made one for the dtypes and sizes of a set of inputs. */
#ifndef TESSERA_GRAPH_METHOD_SPECIALISE_IMPL_H
#define TESSERA_GRAPH_METHOD_SPECIALISE_IMPL_H

#include "graph/ir/graph.h"
#include "graph/passes/pass.h"
#include "tensor/text.h"

typedef struct shapes {
    int n;
    const tensor_info_t *infos;
} shapes_t;

/* What passes are told and tell, the layout pass above all; each may be NULL. */
typedef struct layout_talk {
    const char *known;  /* what it shall choose */
    text_t *chosen;     /* what it chose */
    bool names_kernels; /* in `chosen`, see layout_choice_print */
    layout_certificate_t *certificate;
    const char *timings;          /* that count instead of estimates */
    struct layout_tuning *tuning; /* it measures by itself */
    const char *const *skip;      /* passes that are left out, it or others */
} layout_talk_t;

/* What a program for these shapes is built from: types inferred anew, sizes computed, the passes of
 * pass_pipeline_plan run. */
status_t specialise(context_t *ctx, module_t *self, const graph_t *graph, const shapes_t *shapes,
                    const layout_talk_t *layout, graph_t **out_graph);

#endif
