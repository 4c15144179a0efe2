/* Name patterns.
 *
 * The folder tensor/text contains text that is written or read: growing texts, literals, printed
 * tensors, the lines of the trace; and datums, the values that such text describes. */
#ifndef TESSERA_TENSOR_TEXT_TEXT_IMPL_H
#define TESSERA_TENSOR_TEXT_TEXT_IMPL_H

#include <stdbool.h>

/* Matches a name against a pattern. A star matches any text, including dots and the empty text:
 * "layer1.*", "*.downsample". */
bool text_matches(const char *pattern, const char *text);

#endif
