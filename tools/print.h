/* Everything that the command writes to a terminal. Names come from models and paths: control
 * characters and bytes that are not UTF-8 are escaped (text_escape), so that none commands the
 * terminal. */
#ifndef TESSERA_TOOLS_PRINT_H
#define TESSERA_TOOLS_PRINT_H

#include <stdarg.h>

#include <tessera.h>

/* On stdout, and on stderr. */
void print(const char *format, ...) TESSERA_PRINTF(1, 2);
void print_error(const char *format, ...) TESSERA_PRINTF(1, 2);
void print_error_list(const char *format, va_list arguments) TESSERA_PRINTF(1, 0);

#endif
