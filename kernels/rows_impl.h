/* Ranges of rows of an image. A convolution may compute some rows of the results at a time, from a
 * buffer that contains only the rows of x that these need. Rows keep their numbers, so a pointer to
 * x or to the results is the address that row 0 has or would have:
 *
 *   x of 224 rows, buffer of 12 that contains rows 16 to 27:
 *   plane of channels 0     | 16 17 .. 27 |                    pointer: 16 rows before the buffer
 *   plane of channels 1                   | 16 17 .. 27 |      12 rows after the one before */
#ifndef TESSERA_KERNELS_ROWS_IMPL_H
#define TESSERA_KERNELS_ROWS_IMPL_H

#include <stdint.h>

/* For one image. All zeros: all rows, in buffers that contain all. */
typedef struct image_rows {
    int64_t first, last;  /* rows of results to compute: first to last - 1 */
    int64_t of_x, of_out; /* rows that a plane of x, and of the results, has in its buffer */
} image_rows_t;

static inline int64_t rows_of_x(const image_rows_t *rows, int64_t height)
{
    return rows->last > 0 ? rows->of_x : height;
}

static inline int64_t rows_of_out(const image_rows_t *rows, int64_t height)
{
    return rows->last > 0 ? rows->of_out : height;
}

/* The row after the last one to compute. */
static inline int64_t rows_end(const image_rows_t *rows, int64_t height)
{
    return rows->last > 0 ? rows->last : height;
}

#endif
