/* Parses names of trace categories. */
#ifndef TESSERA_TENSOR_TEXT_TRACE_IMPL_H
#define TESSERA_TENSOR_TEXT_TRACE_IMPL_H

#include "tensor/text/trace.h"

/* Parses category names separated by commas into the bits of trace_category_t. Returns false if a
 * name is unknown; the bits of the others are set. */
bool trace_parse(const char *text, unsigned *out_categories);

#endif
