/* Patterns of names. */
#ifndef TESSERA_TENSOR_TEXT_IMPL_H
#define TESSERA_TENSOR_TEXT_IMPL_H

#include <stdbool.h>

/* A star stands for any text, dots and nothing included: "layer1.*", "*.downsample". */
bool text_matches(const char *pattern, const char *text);

#endif
