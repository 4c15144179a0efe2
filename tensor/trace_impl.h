/* Parses names of trace categories. */
#ifndef TESSERA_TENSOR_TRACE_IMPL_H
#define TESSERA_TENSOR_TRACE_IMPL_H

#include "tensor/trace.h"

/* Sets the bits of all known categories in the text; false if one is unknown. */
bool trace_parse(const char *text, unsigned *out_categories);

#endif
