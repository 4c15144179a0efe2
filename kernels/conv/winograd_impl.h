/* Convolution with kernels of 3 by 3 and stride 1 or 2, or of 5 by 5 and stride 1, by winograd's
 * transforms (arXiv 1509.09308):
 *
 *   out[n][k][p][q] = act(bias[k] + addend[n][k][p][q] + sum(c,r,s)
 *                         x[n][c][p*stride+r-top][q*stride+s-left] * weight[k][c][r][s])
 *
 * Tiles of `tile` by `tile` results are made of side^2 products for each pair of channels, where
 * side = tile + kernel - 1 and direct sums need kernel^2 tile^2: 2.25, 4 and 5.06 times as many for
 * 3 by 3 and tiles of 2, 4 and 6, and 2.78 and 6.25 times as many for 5 by 5 and tiles of 2 and 4.
 * Rounding grows with the side: of 4, 6 and 8, about 0.5, 2 and 10 times that of direct sums.
 *
 * With stride 2 results of one dimension are those of a kernel of two elements on samples 0, 2, 4
 * and so on of a tile, and of its middle element on those between, which are not transformed: tile
 * + 1 products and `tile` more, of which all need one weight. So side = 2 * tile + 1, and direct
 * sums need 1.44 and 1.78 times as many products for tiles of 2 and 4.
 *
 * Where tiles would cover more than there is, the last of a row, or of a column, are short: without
 * their last result, and without the point at infinity, which that one alone needs (with stride 2
 * the last sample between goes as well). Of 7 results tiles of 4 take 6 + 5 products, not 6 + 6,
 * with the same weight.
 *
 * Activations lie in blocks of the instruction set's lanes, [N][C / lanes][H][W][lanes], of which
 * the last is padded by zeros; so is that of the result. They are f32 or bf16; all that is computed
 * between is f32. The weight is transformed by winograd_pack, and takes
 * (tile + kernel - 1)^2 / kernel^2 times its memory.
 *
 * Results that are not finite are computed once more, by direct sums: so a NaN, an infinity or an
 * overflow reaches the same results as without transforms (kernels/conv/winograd_direct_impl.h).
 *
 * Products may be those of bf16, in pairs of channels, which are summed in f32: what is transformed
 * is rounded to bf16 before. Tiles of 2 lose twice what direct sums of bf16 lose by rounding, tiles
 * of 4 six times that. So pairs are for kernels of 3 by 3 and tiles of 2 only. */
#ifndef TESSERA_KERNELS_CONV_WINOGRAD_IMPL_H
#define TESSERA_KERNELS_CONV_WINOGRAD_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/axis_impl.h"
#include "kernels/isa_impl.h"

typedef enum winograd_act {
    WINOGRAD_NONE,
    WINOGRAD_CLAMP, /* min(max(x, alpha), beta); relu is that of 0 and infinity */
    WINOGRAD_LEAKY  /* x > 0 ? x : alpha * x */
} winograd_act_t;

/* What each thread does: tiles of its own, all of it (for many tiles); or its share of the sources
 * of a group of tiles, and then of the blocks of the weight, which is read once (for few). */
typedef enum winograd_schedule {
    WINOGRAD_CHOOSE,
    WINOGRAD_FUSED,
    WINOGRAD_PHASES
} winograd_schedule_t;

/* A weight to be transformed. Element i of the kernel between an input and an output lies at
 * from[axis_at(&inputs, input) + axis_at(&outputs, output) + i * element]; of one that is mirrored,
 * as the gradient of sources reads it, `from` is that of the last, and `element` negative. */
typedef struct winograd_weight {
    int tile, kernel, stride;
    bool in_pairs;
    const float *from;
    axis_t inputs, outputs;
    int64_t element;
} winograd_weight_t;

typedef struct winograd {
    int tile, kernel, stride;     /* 2, 4 or 6 and 3, 1; 2 or 4 and 5, 1; 2 or 4 and 3, 2 */
    winograd_schedule_t schedule; /* WINOGRAD_CHOOSE but for tests */
    int64_t n_images, n_inputs, n_outputs;
    int64_t height, width;         /* of x */
    int64_t out_height, out_width; /* what x does not cover, on either side, is zero */
    int64_t top, left;
    const void *x, *weight;
    const winograd_weight_t *plain; /* what the weight was made of, or NULL: it is recovered */
    int split;          /* parities_split has split x, and kernels of so many elements; or 0 */
    const float *bias;  /* [n_outputs], or NULL */
    const void *addend; /* as out lies; may be out; or NULL */
    winograd_act_t act;
    float alpha, beta;
    void *out;     /* not x */
    bool is_bf16;  /* are x, addend and out, to which results are rounded; else they are f32 */
    bool in_pairs; /* of bf16 are products */
    bool streams;  /* results go past the caches, which would not hold them until they are read */
} winograd_t;

/* Whether a set that isa_has multiplies pairs of bf16 at all, and by instructions for that. */
bool winograd_has_pairs(isa_t isa);
bool winograd_is_for_pairs(isa_t isa);

/* On at most so many threads, by an instruction set that isa_has. scratch: 64-byte aligned bytes,
 * as winograd_scratch says for these sizes and so many threads or more. */
void winograd_run(const winograd_t *winograd, isa_t isa, int n_threads, void *scratch);
size_t winograd_scratch(const winograd_t *winograd, isa_t isa, int n_threads);

/* [n_outputs][n_inputs][kernel][kernel], row-major, for products of f32. */
winograd_weight_t winograd_plain_weight(int tile, int kernel, int stride, int64_t n_inputs,
                                        int64_t n_outputs, const float *from);

/* The transformed weight, in blocks of outputs; all elements are written, padded ones too. Sets of
 * equal lanes have it alike. Either stride takes as many. In pairs they are bf16. */
int64_t winograd_weight_elements(int tile, int kernel, int64_t n_inputs, int64_t n_outputs,
                                 isa_t isa);
void winograd_pack(const winograd_weight_t *weight, isa_t isa, int n_threads, void *out);

/* ---- for the loops of an instruction set ---- */

#define WINOGRAD_MAX_SIDE 9 /* of a tile of sources */
#define WINOGRAD_MAX_KERNEL 5

/* What gives the kernels of a transformed weight, in each dimension: `out` has [kernel][tile +
 * kernel - 1] numbers. */
void winograd_recovery(const winograd_t *winograd, double (*out)[WINOGRAD_MAX_SIDE]);

#define WINOGRAD_VECTORS 2 /* of outputs in one block of the weight */
#define WINOGRAD_MAX_TILES 128

/* Points that all tiles have; those of long columns alone, of long rows, and of both. */
enum { WINOGRAD_KINDS = 4 };

/* Tiles [first, first + n_tiles) of all images, row by row, at most WINOGRAD_MAX_TILES. For a point
 * those that have it are numbered without the others, and lie in blocks of at most n_rows of the
 * loops, evenly shared: transformed sources are [side^2][block][C / lanes][tiles of
 * block][lanes], `stride` elements from one of side^2 to the next, which are bf16 for products in
 * pairs. */
typedef struct winograd_group {
    const winograd_t *winograd;
    const float *bias;        /* padded to whole blocks of the weight */
    int64_t tiles_y, tiles_x; /* of one image */
    int64_t long_y, long_x;   /* those before the short ones */
    int64_t n_source_blocks;
    int64_t first, n_tiles;
    int64_t n[WINOGRAD_KINDS], n_blocks[WINOGRAD_KINDS]; /* tiles, and blocks of them */
    void *source;
    int64_t stride;
} winograd_group_t;

/* What transforms a weight: [tile + kernel - 1][kernel] numbers in either dimension. */
typedef struct winograd_packing {
    const winograd_weight_t *weight;
    void *to;
    double matrix[WINOGRAD_MAX_SIDE][WINOGRAD_MAX_KERNEL];
} winograd_packing_t;

typedef struct winograd_loops {
    int n_rows; /* tiles whose products with a block of the weight stay in registers */
    /* Transforms sources: of units [first, last), of which there is one for each block of channels
     * and tile, tiles fastest. */
    void (*transform)(const winograd_group_t *group, int64_t first, int64_t last);
    /* Products with one block of the weight, and results of them. `products` has room for
     * [side^2][tiles][lanes * WINOGRAD_VECTORS], `stride` apart. */
    void (*multiply)(const winograd_group_t *group, int64_t weight_block, float *products,
                     int64_t stride);
    /* Blocks [first, last) of the weight. */
    void (*pack)(const winograd_packing_t *packing, int64_t first, int64_t last);
} winograd_loops_t;

ISA_EXTERN(const winograd_loops_t, winograd);

/* Of products in pairs. */
extern const winograd_loops_t winograd_pairs_portable, winograd_pairs_avx512_bf16;

/* Of a tile of sources. */
static inline int winograd_side(int tile, int kernel, int stride)
{
    return stride * (tile - 1) + kernel;
}

/* Tiles in a row or column of n results, and the long ones of them. */
static inline int64_t winograd_count_tiles(int64_t n, int tile)
{
    return (n + tile - 1) / tile;
}

static inline int64_t winograd_count_long(int64_t n, int tile)
{
    const int64_t n_long = n - winograd_count_tiles(n, tile) * (tile - 1);
    return n_long > 0 ? n_long : 0;
}

/* A tile of a group: where it is, in tiles, and its number among those that have a kind of points,
 * or would have if it did. */
typedef struct winograd_tile {
    int64_t image, y, x;
    int64_t number[WINOGRAD_KINDS];
} winograd_tile_t;

static inline winograd_tile_t winograd_first_tile(const winograd_group_t *g)
{
    const int64_t row = g->first / g->tiles_x;
    return (winograd_tile_t){
        .image = row / g->tiles_y, .y = row % g->tiles_y, .x = g->first % g->tiles_x};
}

static inline bool winograd_has(const winograd_group_t *g, const winograd_tile_t *tile, int kind)
{
    return (kind / 2 == 0 || tile->y < g->long_y) && (kind % 2 == 0 || tile->x < g->long_x);
}

static inline void winograd_next_tile(const winograd_group_t *g, winograd_tile_t *tile)
{
    for (int kind = 0; kind < WINOGRAD_KINDS; kind++)
        tile->number[kind] += winograd_has(g, tile, kind);
    if (++tile->x < g->tiles_x) return;
    tile->x = 0;
    if (++tile->y < g->tiles_y) return;
    tile->y = 0;
    tile->image++;
}

/* First tile of a block. */
static inline int64_t winograd_block_begin(const winograd_group_t *group, int kind, int64_t block)
{
    return group->n[kind] * block / group->n_blocks[kind];
}

#endif
