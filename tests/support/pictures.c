#define _POSIX_C_SOURCE 200809L

#include "tests/support/pictures.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/support.h"

void pictures_cut(const char *path, long n)
{
    assert_int_equal(truncate(path, n), 0);
}

#ifdef TESSERA_HAVE_PNG
#include <png.h>

static void write_png(const char *path, int height, int width, unsigned format,
                      const uint8_t *points)
{
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = (unsigned)width,
                       .height = (unsigned)height,
                       .format = format};
    assert_int_not_equal(png_image_write_to_file(&image, path, 0, points, 0, NULL), 0);
}

void pictures_write_png(const char *path, int height, int width, const uint8_t *points)
{
    write_png(path, height, width, PNG_FORMAT_RGB, points);
}

void pictures_write_gray_png(const char *path, int height, int width, const uint8_t *points)
{
    write_png(path, height, width, PNG_FORMAT_GA, points);
}
#endif

#ifdef TESSERA_HAVE_JPEG
#include <jpeglib.h>

void pictures_write_jpeg(const char *path, int height, int width, const uint8_t *points)
{
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    uint8_t row[3 * 64];
    JSAMPROW from = row;
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_true(width <= 64);
    memset(&jpeg, 0, sizeof jpeg);
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    jpeg_stdio_dest(&jpeg, file);
    jpeg.image_width = (unsigned)width;
    jpeg.image_height = (unsigned)height;
    jpeg.input_components = 3;
    jpeg.in_color_space = JCS_RGB;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, 100, TRUE);
    jpeg_start_compress(&jpeg, TRUE);
    for (int y = 0; y < height; y++) {
        memcpy(row, points + (size_t)y * (size_t)width * 3, (size_t)width * 3);
        jpeg_write_scanlines(&jpeg, &from, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    fclose(file);
}
#endif
