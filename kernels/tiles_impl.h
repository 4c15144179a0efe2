/* Divides images into tiles of complete rows, or of adjacent elements. */
#ifndef TESSERA_KERNELS_TILES_IMPL_H
#define TESSERA_KERNELS_TILES_IMPL_H

#include <stdint.h>

static inline int64_t divide_up(int64_t n, int64_t by)
{
    return (n + by - 1) / by;
}

static inline int64_t round_up(int64_t n, int64_t to)
{
    return divide_up(n, to) * to;
}

/* A tile: rows [begin, begin + n_rows) of an image. */
typedef struct tile_at {
    int64_t image, begin, n_rows;
} tile_at_t;

/* Finds a tile by number. Each image has n_rows rows and tiles_of_image tiles of nearly equal size:
 * 99 rows in 8 tiles are 12 or 13 rows a tile. */
static inline tile_at_t tile_find(int64_t n_rows, int64_t tiles_of_image, int64_t tile)
{
    const int64_t of_image = tile % tiles_of_image;
    const int64_t begin = n_rows * of_image / tiles_of_image;
    const int64_t end = n_rows * (of_image + 1) / tiles_of_image;
    return (tile_at_t){tile / tiles_of_image, begin, end - begin};
}

#endif
