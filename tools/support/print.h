/* All terminal output of the command. Names in models and paths are untrusted, so control
 * characters and invalid UTF-8 are escaped (text_escape); no name can control the terminal. */
#ifndef TESSERA_TOOLS_SUPPORT_PRINT_H
#define TESSERA_TOOLS_SUPPORT_PRINT_H

#include <stdarg.h>

#include <tessera.h>

/* Print to stdout and to stderr. */
void print(const char *format, ...) TESSERA_PRINTF(1, 2);
void print_error(const char *format, ...) TESSERA_PRINTF(1, 2);
void print_error_list(const char *format, va_list arguments) TESSERA_PRINTF(1, 0);

#endif
