#include <png.h>
#include <stdio.h>
#include <stdlib.h>

#include "ocr.h"

bool picture_read(const char *path, picture_t *out_picture, size_t capacity, char *out_error)
{
    const png_color white = {255, 255, 255};
    png_image image = {.version = PNG_IMAGE_VERSION};
    *out_picture = (picture_t){0};
    if (png_image_begin_read_from_file(&image, path) == 0) {
        snprintf(out_error, capacity, "%s", image.message);
        return false;
    }
    image.format = PNG_FORMAT_BGR;
    uint8_t *bytes = malloc(PNG_IMAGE_SIZE(image));
    if (bytes == NULL || png_image_finish_read(&image, &white, bytes, 0, NULL) == 0) {
        snprintf(out_error, capacity, "%s", bytes == NULL ? "out of memory" : image.message);
        png_image_free(&image);
        free(bytes);
        return false;
    }
    *out_picture = (picture_t){(int)image.width, (int)image.height, bytes};
    return true;
}

void picture_clear(picture_t *picture)
{
    free(picture->bytes);
    *picture = (picture_t){0};
}

/* A position between two pixels. `rest` is the weight of the second one. */
typedef struct between {
    int first, second;
    float rest;
} between_t;

/* Finds the position of pixel i of n in the range from begin to end. The centre of pixel i is at (i
 * + 0.5) / n of the range. */
static between_t find(int i, int n, int begin, int end)
{
    const float at = ((float)i + 0.5F) * (float)(end - begin) / (float)n - 0.5F;
    const int first = at > 0 ? (int)at : 0, last = end - begin - 1;
    return (between_t){begin + (first < last ? first : last),
                       begin + (first + 1 < last ? first + 1 : last),
                       at > (float)first ? at - (float)first : 0};
}

static float mix(float a, float b, float rest)
{
    return a + (b - a) * rest;
}

static void scale(const picture_t *picture, const box_t *part, int height, int width,
                  int full_width, float *out)
{
    const size_t row = (size_t)picture->width * 3, plane = (size_t)height * (size_t)full_width;
    for (int y = 0; y < height; y++) {
        const between_t v = find(y, height, part->top, part->bottom);
        const uint8_t *upper = picture->bytes + (size_t)v.first * row;
        const uint8_t *lower = picture->bytes + (size_t)v.second * row;
        for (int x = 0; x < width; x++) {
            const between_t h = find(x, width, part->left, part->right);
            for (int c = 0; c < 3; c++) {
                const int left = 3 * h.first + c, right = 3 * h.second + c;
                const float byte = mix(mix(upper[left], upper[right], h.rest),
                                       mix(lower[left], lower[right], h.rest), v.rest);
                out[(size_t)c * plane + (size_t)y * (size_t)full_width + (size_t)x] = byte /
                                                                                          127.5F -
                                                                                      1;
            }
        }
    }
}

status_t picture_tensor(context_t *ctx, const picture_t *picture, const box_t *part, int height,
                        int width, int full_width, tensor_t **out_tensor)
{
    void *elements = NULL;
    status_t status = tensor_full(ctx, DTYPE_F32, SHAPE(1, 3, height, full_width), 0, out_tensor);
    if (status == STATUS_OK) status = tensor_data_mutable(ctx, *out_tensor, &elements);
    if (status == STATUS_OK) scale(picture, part, height, width, full_width, elements);
    return status;
}
