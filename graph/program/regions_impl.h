/* Finding the regions of a program. */
#ifndef TESSERA_GRAPH_PROGRAM_REGIONS_IMPL_H
#define TESSERA_GRAPH_PROGRAM_REGIONS_IMPL_H

#include "graph/program/program_impl.h"

/* Fills the program's regions from its graph, each with its plan. On failure those that were found
 * are the program's all the same. */
status_t regions_find(context_t *ctx, program_t *program, module_t *self);

#endif
