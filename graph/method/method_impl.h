/* The inside of methods that run as programs, for freezing and its file. */
#ifndef TESSERA_GRAPH_METHOD_METHOD_IMPL_H
#define TESSERA_GRAPH_METHOD_METHOD_IMPL_H

#include "graph/program/program_impl.h"
#include "module/signature.h"

/* What the layout pass chose for the plans that a method had under the context's number of threads,
 * a line for each set of inputs ("f32[1,3,224,224];0 0 03 - d "); and what it shall choose for
 * plans to come, where it still can: a line that does not fit means a search. Nothing to do for
 * methods of other classes. */
status_t plan_layouts(context_t *ctx, module_t *module, const char *method, text_t *text);
status_t plan_set_layouts(context_t *ctx, module_t *module, const char *method, const char *lines);

/* As method_class_t.describe, of a method that runs this graph. */
status_t graph_describe(context_t *ctx, const graph_t *graph, bool is_output, int index, int *out_n,
                        module_value_t *out_value);

/* The program of a method that was run last, retained; NULL when none has run. */
program_t *program_of(const module_t *module, const char *method);

#endif
