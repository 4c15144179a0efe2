/* Literals of the graph language, read from text at a cursor.
 *
 * The cursor moves behind the literal on success, and stays on failure. A literal ends where it
 * cannot go on: "3.5" and "3x" are no integers. Text ends in a zero byte and is not trusted. */
#ifndef TESSERA_TENSOR_LITERAL_IMPL_H
#define TESSERA_TENSOR_LITERAL_IMPL_H

#include "tensor/api.h"

/* Bytes of the longest string, its zero byte included, and of the longest floating number. */
#define LITERAL_MAX 128

typedef enum literal {
    LITERAL_OK,
    LITERAL_OTHER, /* no number of this kind */
    LITERAL_RANGE  /* one that does not fit 64 bits */
} literal_t;

/* -3; and 3, -3.5, 1e-5, inf, -inf, nan. */
literal_t literal_integer(const char **cursor, int64_t *out_value);
literal_t literal_float(const char **cursor, double *out_value);

/* A word such as true or f32. */
bool literal_word(const char **cursor, char *out_word, size_t capacity);

/* A string in double quotes with JSON's escapes, into LITERAL_MAX bytes. */
bool literal_string(const char **cursor, char *out_string);

/* What stands behind a backslash in a string, as at most 4 bytes; gives their number, 0 for no
 * escape. The cursor moves in any case. */
int literal_escape(const char **cursor, char *out);

/* Spaces and tabs; a newline ends a statement. */
void literal_skip_blanks(const char **cursor);

bool literal_is_letter(char c);

/* Letters, digits, underscore. */
bool literal_is_word(char c);

/* The characters of a name: those of words, and dots. */
bool literal_is_name(char c);

/* Bytes of the name that begins here: a letter, then characters of names; 0: none does. Operators,
 * attributes and sizes have such names, in types and in guards alike. */
size_t literal_name_length(const char *at);

/* What may not follow a literal without something between. */
bool literal_continues(char c);

/* Bytes of the literal that begins here, right or wrong, for messages: as far as brackets and
 * quotes go, on this line, cut at `max` between two characters. */
int literal_length(const char *literal, int max);

#endif
