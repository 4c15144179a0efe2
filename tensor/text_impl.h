/* Name patterns. */
#ifndef TESSERA_TENSOR_TEXT_IMPL_H
#define TESSERA_TENSOR_TEXT_IMPL_H

#include <stdbool.h>

/* Matches a name against a pattern. A star matches any text, including dots and the empty text:
 * "layer1.*", "*.downsample". */
bool text_matches(const char *pattern, const char *text);

#endif
