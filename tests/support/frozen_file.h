/* Bytes of a .tessera file as tests change them. */
#ifndef TESSERA_TESTS_FROZEN_FILE_H
#define TESSERA_TESTS_FROZEN_FILE_H

#include "tests/support/frozen_seal.h"

/* A file's bytes, to be freed; what is not a file fails the test. */
char *frozen_file_read(const char *path, size_t *out_n);
void frozen_file_write(const char *path, const void *bytes, size_t n);

/* The same file with another text, sealed; *out_n bytes, to be freed. */
char *frozen_file_with_text(const void *bytes, size_t n, const char *text, size_t *out_n);

#endif
