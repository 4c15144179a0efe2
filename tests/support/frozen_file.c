#include "tests/support/frozen_file.h"

#include "tests/support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *frozen_file_read(const char *path, size_t *out_n)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    long n = ftell(file);
    assert_true(n > 0);
    rewind(file);
    char *bytes = malloc((size_t)n);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, (size_t)n, file), n);
    fclose(file);
    *out_n = (size_t)n;
    return bytes;
}

void frozen_file_write(const char *path, const void *bytes, size_t n)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

char *frozen_file_with_text(const void *bytes, size_t n, const char *text, size_t *out_n)
{
    file_header_t header;
    size_t length = strlen(text);
    char *result = malloc(n + length);
    assert_non_null(result);
    memcpy(result, bytes, n);
    memcpy(result + n, text, length);
    memcpy(&header, result, sizeof header);
    header.text.offset = n;
    header.text.bytes = length;
    memcpy(result, &header, sizeof header);
    frozen_seal(result, n + length);
    *out_n = n + length;
    return result;
}
