/* A text buffer that grows, for printing graphs, explanations and reports. */
#ifndef TESSERA_TENSOR_TEXT_TEXT_H
#define TESSERA_TENSOR_TEXT_TEXT_H

#include "tensor/context.h"

/* Start with text_begin. `bytes` is NULL while the text is empty, else it ends in a zero byte. The
 * text stores a failed allocation until text_status returns it, so code that appends need not check
 * each call. */
typedef struct text {
    context_t *ctx;
    char *bytes;
    size_t length;
    size_t capacity;
    status_t status;
} text_t;

static inline text_t text_begin(context_t *ctx)
{
    text_t text = {ctx, NULL, 0, 0, STATUS_OK};
    return text;
}

void text_append(text_t *text, const char *format, ...) TESSERA_API(text_append)
    TESSERA_PRINTF(2, 3);

/* Appends a double-quoted string with JSON's escapes. */
void text_append_quoted(text_t *text, const char *string) TESSERA_API(text_append_quoted);

/* Copies a string for a terminal or a log. Control characters (except newline and tab) and bytes
 * that are not UTF-8 become escapes, such as `\x1b`. Writes at most `room` bytes, including the
 * zero byte, and cuts the rest. Returns the full length, as snprintf does. */
size_t text_escape(const char *string, char *out, size_t room) TESSERA_API(text_escape);

/* Appends the shortest decimal text from which the same number can be read, always with a point or
 * exponent; or inf, -inf, nan. */
void text_append_float(text_t *text, double value) TESSERA_API(text_append_float);

/* Returns the text; "" when empty. */
const char *text_string(const text_t *text) TESSERA_API(text_string);
status_t text_status(const text_t *text) TESSERA_API(text_status);

/* Frees the bytes; the text is then empty. */
void text_clear(text_t *text) TESSERA_API(text_clear);

#endif
