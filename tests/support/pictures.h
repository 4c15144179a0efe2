/* Writes PNG and JPEG files with libpng and libjpeg; errors fail the test. */
#ifndef TESSERA_TESTS_PICTURES_H
#define TESSERA_TESTS_PICTURES_H

#include <stdint.h>

/* `points` are pixels of red, green and blue, [height][width][3]. */
void pictures_write_png(const char *path, int height, int width, const uint8_t *points);
void pictures_write_jpeg(const char *path, int height, int width, const uint8_t *points);

/* `points` are pixels of gray and alpha, [height][width][2]. */
void pictures_write_gray_png(const char *path, int height, int width, const uint8_t *points);

/* Truncates a file to its first n bytes. */
void pictures_cut(const char *path, long n);

#endif
