/* Reads text in images with rapidocr's networks: one finds the lines of text, the other reads a
 * line. Lines must be horizontal; rapidocr itself also turns other lines. */
#ifndef EXAMPLES_OCR_H
#define EXAMPLES_OCR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tessera.h>

/* ---- picture.c ---- */

typedef struct picture {
    int width, height;
    uint8_t *bytes; /* [height][width][3]: blue, green, red, as the networks were trained */
} picture_t;

/* A part of a picture, in pixels. right and bottom are not inside. */
typedef struct box {
    int left, top, right, bottom;
} box_t;

/* Reads a PNG file; transparent pixels become white. On failure returns false, with a message in
 * out_error. */
bool picture_read(const char *path, picture_t *out_picture, size_t capacity, char *out_error);
void picture_clear(picture_t *picture);

/* Scales a part of the picture to height x width with bilinear interpolation. Returns f32
 * [1][3][height][full_width]: bytes become -1 to 1, and columns from width on are 0. */
status_t picture_tensor(context_t *ctx, const picture_t *picture, const box_t *part, int height,
                        int width, int full_width, tensor_t **out_tensor);

/* ---- detect.c ---- */

#define DETECT_MAX 256 /* maximum number of boxes; more are ignored */

/* Loads and freezes the network, for images of any size. */
status_t detect_load(context_t *ctx, const char *path, module_t **out_model);

/* Finds the boxes of lines, sorted from top to bottom and, within a row, from left to right. */
status_t detect(context_t *ctx, module_t *model, const picture_t *picture, box_t *out_boxes,
                int *out_n);

/* ---- read.c ---- */

/* Loads and freezes the network, for lines of any width. The module keeps its metadata, which has
 * the list of characters. */
status_t reader_load(context_t *ctx, const char *path, module_t **out_model);

/* A model and its list of characters. */
typedef struct reader reader_t;

/* Retains the model. Returns NULL, with a message in *out_error, on failure. */
reader_t *reader_create(context_t *ctx, module_t *model, const char **out_error);
void reader_destroy(reader_t *reader);

/* Reads a line of text. Writes UTF-8, truncated to the capacity, and a confidence from 0 to 1. */
status_t reader_read(context_t *ctx, const reader_t *reader, const picture_t *picture,
                     const box_t *line, size_t capacity, char *out_text, double *out_score);

#endif
