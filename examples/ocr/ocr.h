/* The text of a picture, by rapidocr's networks: one finds where lines of text are, the other reads
 * a line. Lines have to lie level: rapidocr itself turns those that do not. */
#ifndef EXAMPLES_OCR_H
#define EXAMPLES_OCR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tessera.h>

/* ---- picture.c ---- */

typedef struct picture {
    int width, height;
    uint8_t
        *bytes; /* [height][width][3]: blue, green, red, which is what the networks learnt from */
} picture_t;

/* In points of a picture; right and bottom are the first ones outside. */
typedef struct box {
    int left, top, right, bottom;
} box_t;

/* A PNG file, transparency on white. False with a text in out_error. */
bool picture_read(const char *path, picture_t *out_picture, size_t capacity, char *out_error);
void picture_clear(picture_t *picture);

/* A part of the picture scaled to height x width, bilinear: f32 [1][3][height][full_width], bytes
 * as -1..1, and 0 in the columns from width on. */
status_t picture_tensor(context_t *ctx, const picture_t *picture, const box_t *part, int height,
                        int width, int full_width, tensor_t **out_tensor);

/* ---- detect.c ---- */

#define DETECT_MAX 256 /* boxes; more are left out */

/* The frozen network of a file, for pictures of any size. */
status_t detect_load(context_t *ctx, const char *path, module_t **out_model);

/* The lines' boxes, from top to bottom and, side by side, from left to right. */
status_t detect(context_t *ctx, module_t *model, const picture_t *picture, box_t *out_boxes,
                int *out_n);

/* ---- read.c ---- */

/* The frozen network of a file, for lines of any width; it keeps its metadata. */
status_t reader_load(context_t *ctx, const char *path, module_t **out_model);

/* A model, and the characters that its metadata list. */
typedef struct reader reader_t;

/* The model is retained. NULL with a text in *out_error. */
reader_t *reader_create(context_t *ctx, module_t *model, const char **out_error);
void reader_destroy(reader_t *reader);

/* The text of a line in UTF-8, cut off at the capacity, and how sure the reader is of it, 0..1. */
status_t reader_read(context_t *ctx, const reader_t *reader, const picture_t *picture,
                     const box_t *line, size_t capacity, char *out_text, double *out_score);

#endif
