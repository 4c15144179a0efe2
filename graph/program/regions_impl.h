/* Splits a program's graph into regions. */
#ifndef TESSERA_GRAPH_PROGRAM_REGIONS_IMPL_H
#define TESSERA_GRAPH_PROGRAM_REGIONS_IMPL_H

#include "graph/program/program_impl.h"

/* Finds and plans the program's regions. On failure the program owns those found so far. */
status_t regions_find(context_t *ctx, program_t *program, module_t *self);

#endif
