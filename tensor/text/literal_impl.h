/* Parses literals of the graph language from text at a cursor.
 *
 * On success the cursor advances past the literal; on failure it stays. A literal must not be
 * followed by characters that could continue it: "3.5" and "3x" are not integers. The text ends in
 * a zero byte, and may contain anything before it. */
#ifndef TESSERA_TENSOR_TEXT_LITERAL_IMPL_H
#define TESSERA_TENSOR_TEXT_LITERAL_IMPL_H

#include "tensor/base/api.h"

/* Longest string, including its zero byte, and longest floating-point number, in bytes. */
#define LITERAL_MAX 128

typedef enum literal {
    LITERAL_OK,
    LITERAL_OTHER, /* not a number of this kind */
    LITERAL_RANGE  /* does not fit in 64 bits */
} literal_t;

/* literal_integer reads numbers such as -3. literal_float reads 3, -3.5, 1e-5, inf, -inf, nan. */
literal_t literal_integer(const char **cursor, int64_t *out_value);
literal_t literal_float(const char **cursor, double *out_value);

/* Reads a word such as true or f32. */
bool literal_word(const char **cursor, char *out_word, size_t capacity);

/* Reads a double-quoted string with JSON's escapes into LITERAL_MAX bytes. */
bool literal_string(const char **cursor, char *out_string);

/* Decodes the characters after a backslash in a string to at most 4 bytes. Returns the number of
 * bytes, 0 for an invalid escape. Advances the cursor also if the escape is invalid. */
int literal_escape(const char **cursor, char *out);

/* Skips spaces and tabs, but no newlines, because a newline ends a statement. */
void literal_skip_blanks(const char **cursor);

bool literal_is_letter(char c);

/* True for letters, digits and underscore. */
bool literal_is_word(char c);

/* True for letters, digits, underscore and dot. */
bool literal_is_name(char c);

/* Length in bytes of the name at this position: a letter, then name characters; 0 if there is none.
 * Operators, attributes and symbolic sizes have such names. */
size_t literal_name_length(const char *at);

/* True for a character that must not directly follow a literal. */
bool literal_continues(char c);

/* Length in bytes of the literal at this position, valid or not, for messages. It extends to the
 * matching bracket or quote on this line, and is cut at `max` between two characters. */
int literal_length(const char *literal, int max);

#endif
