/* Reading the names of trace categories. */
#ifndef TESSERA_TENSOR_TRACE_IMPL_H
#define TESSERA_TENSOR_TRACE_IMPL_H

#include "tensor/trace.h"

/* Sets the bits of the categories named, as far as they are known; false if one is not. */
bool trace_parse(const char *text, unsigned *out_categories);

#endif
