/* PNG and JPEG files as tests write them, by libpng and libjpeg; what fails fails the test. */
#ifndef TESSERA_TESTS_PICTURES_H
#define TESSERA_TESTS_PICTURES_H

#include <stdint.h>

/* Points of red, green and blue, [height][width][3]. */
void pictures_write_png(const char *path, int height, int width, const uint8_t *points);
void pictures_write_jpeg(const char *path, int height, int width, const uint8_t *points);

/* Points of gray and how opaque they are, [height][width][2]. */
void pictures_write_gray_png(const char *path, int height, int width, const uint8_t *points);

/* The first n bytes of a file are left. */
void pictures_cut(const char *path, long n);

#endif
