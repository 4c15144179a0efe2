/* Text files of values with a line for each string. */
#ifndef TESSERA_TESTS_SUPPORT_LINES_H
#define TESSERA_TESTS_SUPPORT_LINES_H

#include <stdbool.h>
#include <stdio.h>

/* Reads a line of fewer than `size` bytes without its newline, and turns \x0a into the byte.
 * Returns false at the end of the file. */
bool lines_read(FILE *file, int size, char *line);

#endif
