/* The trace: a CSV line for each event of the enabled categories.
 *
 * context_options_t.trace or TESSERA_TRACE lists categories, separated by commas: `dispatch`,
 * `convert`, `pass`, `plan`, `all`. Before the first event of a category, the trace writes one line
 * with the names of that category's columns:
 *
 *   tessera,dispatch,operator,kernel,implementation,inputs,outputs,us
 *   tessera,convert,cause,by,source,destination,bytes,us
 *   tessera,pass,name,nodes_before,nodes_after,us
 *   tessera,plan,event,method,inputs,capacity */
#ifndef TESSERA_TENSOR_TEXT_TRACE_H
#define TESSERA_TENSOR_TEXT_TRACE_H

#include "tensor/context.h"

typedef enum trace_category {
    TRACE_DISPATCH = 1 << 0,
    TRACE_CONVERT = 1 << 1,
    TRACE_PASS = 1 << 2,
    TRACE_PLAN = 1 << 3
} trace_category_t;

/* True if the category is enabled. Call it before formatting text. */
bool trace_wanted(const context_t *ctx, trace_category_t category) TESSERA_API(trace_wanted);

/* Writes one line, prefixed with "tessera,<category>,". */
void trace_event(context_t *ctx, trace_category_t category, const char *format, ...)
    TESSERA_API(trace_event) TESSERA_PRINTF(3, 4);

#endif
