/* Reads and changes bytes of a .tessera file in tests. */
#ifndef TESSERA_TESTS_FROZEN_FILE_H
#define TESSERA_TESTS_FROZEN_FILE_H

#include "tests/support/frozen_seal.h"

/* Returns the bytes of a file, to be freed; fails the test if it cannot be read. */
char *frozen_file_read(const char *path, size_t *out_n);
void frozen_file_write(const char *path, const void *bytes, size_t n);

/* Returns a copy of the file with another text and correct checksums; *out_n bytes, to be freed. */
char *frozen_file_with_text(const void *bytes, size_t n, const char *text, size_t *out_n);

#endif
