#include "tensor/text/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/context_impl.h"
#include "tensor/text/text_impl.h"

#define FIRST_CAPACITY 256

/* Ensures capacity for `more` bytes and the zero byte. */
static bool reserve(text_t *text, size_t more)
{
    if (text->status != STATUS_OK) return false;
    if (more < text->capacity - text->length) return true;
    size_t needed = 0, capacity = text->capacity > 0 ? text->capacity : FIRST_CAPACITY;
    if (__builtin_add_overflow(text->length, more, &needed) || needed > SIZE_MAX / 4) {
        text->status = context_fail(text->ctx, STATUS_OUT_OF_MEMORY, "text: its bytes overflow");
        return false;
    }
    while (capacity <= needed) capacity *= 2;

    char *bytes = NULL;
    text->status = context_get(text->ctx, capacity, "text", &bytes);
    if (text->status != STATUS_OK) return false;
    if (text->bytes != NULL) memcpy(bytes, text->bytes, text->length);
    bytes[text->length] = '\0';
    context_put(text->ctx, text->bytes);
    text->bytes = bytes;
    text->capacity = capacity;
    return true;
}

static void append_bytes(text_t *text, const char *bytes, size_t n)
{
    if (n == 0 || !reserve(text, n)) return;
    memcpy(text->bytes + text->length, bytes, n);
    text->length += n;
    text->bytes[text->length] = '\0';
}

/* Formats into a local buffer first, because most pieces are short. A failure leaves the text
 * unchanged. */
void text_append(text_t *text, const char *format, ...)
{
    char piece[256];
    if (text == NULL || format == NULL) return;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(piece, sizeof piece, format, arguments);
    va_end(arguments);
    if (length < 0) {
        if (text->status == STATUS_OK)
            text->status = context_fail(text->ctx, STATUS_INVALID_ARGUMENT,
                                        "text: \"%s\", its arguments cannot be printed", format);
    } else if ((size_t)length < sizeof piece) {
        append_bytes(text, piece, (size_t)length);
    } else if (reserve(text, (size_t)length)) {
        va_start(arguments, format);
        vsnprintf(text->bytes + text->length, (size_t)length + 1, format, arguments);
        va_end(arguments);
        text->length += (size_t)length;
    }
}

int text_character(const char *bytes, size_t n)
{
    const unsigned char *at = (const unsigned char *)bytes;
    if (*at < 0x80) return 1;
    if (*at < 0xc2 || *at > 0xf4) return -1;
    const int length = *at >= 0xf0 ? 4 : *at >= 0xe0 ? 3 : 2;
    /* Limits of the second byte exclude overlong forms, surrogates and numbers above U+10FFFF. */
    const unsigned char least = *at == 0xe0 ? 0xa0 : *at == 0xf0 ? 0x90 : 0x80;
    const unsigned char most = *at == 0xed ? 0x9f : *at == 0xf4 ? 0x8f : 0xbf;
    for (int i = 1; i < length; i++)
        if ((size_t)i == n || at[i] < (i == 1 ? least : 0x80) || at[i] > (i == 1 ? most : 0xbf))
            return -i;
    return length;
}

/* Number of bytes of the character at `at`; 0 if it must be escaped. This is so for control
 * characters (U+0000 to U+001F, U+007F to U+009F, except newline and tab) and for invalid UTF-8. */
static int shown_bytes(const unsigned char *at)
{
    if (*at < 0x80) return (*at >= 0x20 && *at != 0x7f) || *at == '\n' || *at == '\t' ? 1 : 0;
    const int n = text_character((const char *)at, strnlen((const char *)at, 4));
    return n < 0 || (*at == 0xc2 && at[1] < 0xa0) ? 0 : n;
}

size_t text_escape(const char *string, char *out, size_t room)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *at = (const unsigned char *)(string != NULL ? string : "");
    size_t length = 0, written = 0;
    while (*at != '\0') {
        const int n = shown_bytes(at);
        const char escaped[4] = {'\\', 'x', digits[*at >> 4], digits[*at & 15]};
        const size_t n_more = n > 0 ? (size_t)n : sizeof escaped;
        if (out != NULL && length == written && length + n_more < room) {
            memcpy(out + written, n > 0 ? (const void *)at : escaped, n_more);
            written += n_more;
        }
        length += n_more;
        at += n > 0 ? n : 1;
    }
    if (out != NULL && room > 0) out[written] = '\0';
    return length;
}

static const char *escape(unsigned char c)
{
    switch (c) {
    case '"': return "\\\"";
    case '\\': return "\\\\";
    case '\b': return "\\b";
    case '\f': return "\\f";
    case '\n': return "\\n";
    case '\r': return "\\r";
    case '\t': return "\\t";
    default: return NULL;
    }
}

void text_append_quoted(text_t *text, const char *string)
{
    if (text == NULL || string == NULL) return;
    append_bytes(text, "\"", 1);
    for (const char *at = string; *at != '\0';) {
        const char *plain = at;
        while ((unsigned char)*at >= 0x20 && *at != '"' && *at != '\\') at++;
        append_bytes(text, plain, (size_t)(at - plain));
        if (*at == '\0') break;
        const char *escaped = escape((unsigned char)*at);
        if (escaped != NULL)
            append_bytes(text, escaped, 2);
        else
            text_append(text, "\\u%04x", (unsigned)(unsigned char)*at);
        at++;
    }
    append_bytes(text, "\"", 1);
}

/* Appends integers below ten million without exponent ("100.0" instead of "1e+02"), and other
 * numbers with the fewest digits from which the same number can be read. Replaces the locale's
 * decimal point by ".". */
void text_append_float(text_t *text, double value)
{
    if (text == NULL) return;
    char written[64];
    if (isnan(value) || isinf(value)) {
        text_append(text, "%s", isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
        return;
    }
    if (fabs(value) < 1e7 && value == trunc(value)) {
        snprintf(written, sizeof written, "%.0f", value);
    } else {
        for (int digits = 1; digits <= 17; digits++) {
            snprintf(written, sizeof written, "%.*g", digits, value);
            if (strtod(written, NULL) == value) break;
        }
    }
    size_t n = strspn(written, "-0123456789");
    size_t point = strcspn(written + n, "0123456789e");
    append_bytes(text, written, n);
    if (point > 0 || written[n] != 'e') append_bytes(text, ".", 1);
    if (written[n] == '\0') append_bytes(text, "0", 1);
    append_bytes(text, written + n + point, strlen(written + n + point));
}

const char *text_string(const text_t *text)
{
    return text != NULL && text->bytes != NULL ? text->bytes : "";
}

status_t text_status(const text_t *text)
{
    return text != NULL ? text->status : STATUS_INVALID_ARGUMENT;
}

void text_clear(text_t *text)
{
    if (text == NULL) return;
    if (text->bytes != NULL) context_put(text->ctx, text->bytes);
    *text = text_begin(text->ctx);
}

bool text_matches(const char *pattern, const char *text)
{
    for (; *pattern != '*'; pattern++, text++) {
        if (*pattern != *text) return false;
        if (*pattern == '\0') return true;
    }
    for (;; text++) {
        if (text_matches(pattern + 1, text)) return true;
        if (*text == '\0') return false;
    }
}
