/* Name patterns, and UTF-8.
 *
 * The folder tensor/text contains text that is written or read: growing texts, literals, printed
 * tensors, the lines of the trace; and datums, the values that such text describes. */
#ifndef TESSERA_TENSOR_TEXT_TEXT_IMPL_H
#define TESSERA_TENSOR_TEXT_TEXT_IMPL_H

#include <stdbool.h>
#include <stddef.h>

/* Matches a name against a pattern. A star matches any text, including dots and the empty text:
 * "layer1.*", "*.downsample". */
bool text_matches(const char *pattern, const char *text);

/* Length of the UTF-8 character at the beginning of n bytes, n > 0. If there is none, minus the
 * number of bytes that could begin one, or -1; such bytes together are replaced by one U+FFFD. The
 * result -n means that the character may continue after the n bytes. */
int text_character(const char *bytes, size_t n);

#endif
