#include "tools/support/print.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHORT 1024

static void put_escaped(FILE *file, const char *text)
{
    char piece[4 * SHORT];
    size_t length = text_escape(text, piece, sizeof piece);
    char *whole = length < sizeof piece ? piece : malloc(length + 1);
    if (whole == NULL) return;
    if (whole != piece) text_escape(text, whole, length + 1);
    fputs(whole, file);
    if (whole != piece) free(whole);
}

TESSERA_PRINTF(2, 0) static void put_list(FILE *file, const char *format, va_list arguments)
{
    char piece[SHORT];
    va_list again;
    va_copy(again, arguments);
    const int length = vsnprintf(piece, sizeof piece, format, arguments);
    char *whole = length < (int)sizeof piece ? piece : malloc((size_t)length + 1);
    if (length >= 0 && whole != NULL) {
        if (whole != piece) vsnprintf(whole, (size_t)length + 1, format, again);
        put_escaped(file, whole);
    }
    if (whole != piece) free(whole);
    va_end(again);
}

void print(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    put_list(stdout, format, arguments);
    va_end(arguments);
}

void print_error(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    put_list(stderr, format, arguments);
    va_end(arguments);
}

void print_error_list(const char *format, va_list arguments)
{
    put_list(stderr, format, arguments);
}
