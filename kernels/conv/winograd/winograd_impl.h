/* Convolution with kernels of 3x3 and stride 1 or 2, or of 5x5 and stride 1, by Winograd's
 * transforms (arXiv 1509.09308):
 *
 *   out[n][k][p][q] = act(bias[k] + addend[n][k][p][q] + sum(c,r,s)
 *                         x[n][c][p*stride+r-top][q*stride+s-left] * weight[k][c][r][s])
 *
 * A tile of `tile` x `tile` results needs side^2 products for each pair of channels, where side =
 * tile + kernel - 1. Direct sums need kernel^2 tile^2: 2.25, 4 and 5.06 times as many for 3x3 and
 * tiles of 2, 4 and 6; 2.78 and 6.25 times as many for 5x5 and tiles of 2 and 4. Rounding errors
 * grow with the side and the number of channels: for sides of 4, 6 and 8, the largest is about 1, 5
 * and 30 times that of direct sums with 64 channels, and 3, 12 and 80 times with 512.
 *
 * With stride 2, the even and the odd samples of a tile are used separately in each dimension. The
 * even samples meet only the two outer elements of the kernel; their transform needs tile + 1
 * products. The odd samples meet only the middle element, which takes `tile` products without a
 * transform. So side = 2 * tile + 1, and direct sums need 1.44 and 1.78 times as many products for
 * tiles of 2 and 4.
 *
 * Elements of transformed tiles are called points: transforms evaluate polynomials at points. If
 * tiles would reach beyond the result, the last tiles of a row or column are short. They lack the
 * last result, and the point at infinity, which only that result needs. With stride 2 they also
 * lack the last odd sample. For example, 7 results with tiles of 4 need 6 + 5 products instead of
 * 6 + 6. Short tiles use the same transformed weight.
 *
 * Activations are in blocks of the ISA's lanes, [N][C / lanes][H][W][lanes]; the last block is
 * padded with zeros, also in the result. They are f32 or bf16; intermediate results are f32.
 * winograd_pack transforms the weight, which then takes (tile + kernel - 1)^2 / kernel^2 times the
 * memory.
 *
 * Results that are not finite are computed again as direct sums, so a NaN, an infinity or an
 * overflow affects the same results as without transforms
 * (kernels/conv/winograd/winograd_direct_impl.h).
 *
 * Products in pairs: transformed elements are rounded to bf16, and pairs of channels are multiplied
 * and summed in f32. Compared with direct sums of bf16, the rounding error is twice as large for
 * tiles of 2, and six times as large for tiles of 4. So pairs are used only for 3x3 and tiles of 2.
 *
 * The folder kernels/conv/winograd contains these transforms: of x, of weights, of results, for f32
 * and for pairs of bf16. */
#ifndef TESSERA_KERNELS_CONV_WINOGRAD_WINOGRAD_IMPL_H
#define TESSERA_KERNELS_CONV_WINOGRAD_WINOGRAD_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/axis_impl.h"
#include "kernels/isa_impl.h"
#include "kernels/rows_impl.h"

typedef enum winograd_act {
    WINOGRAD_NONE,
    WINOGRAD_CLAMP, /* min(max(x, alpha), beta); relu: 0 and infinity */
    WINOGRAD_LEAKY  /* x > 0 ? x : alpha * x */
} winograd_act_t;

/* How the work is divided among threads. FUSED, for many tiles: each thread does all steps of its
 * own tiles. PHASES, for few tiles: all threads transform the sources of a group of tiles; then
 * each multiplies them with some blocks of the weight, so the weight is read once. */
typedef enum winograd_schedule {
    WINOGRAD_CHOOSE,
    WINOGRAD_FUSED,
    WINOGRAD_PHASES
} winograd_schedule_t;

/* A weight to be transformed. Element i of the kernel for an input and an output is
 * from[axis_at(&inputs, input) + axis_at(&outputs, output) + i * element]. For a mirrored kernel,
 * which the gradient of the source needs, `from` is its last element and `element` is negative. */
typedef struct winograd_weight {
    int tile, kernel, stride;
    bool in_pairs;
    const float *from;
    axis_t inputs, outputs;
    int64_t element;
} winograd_weight_t;

typedef struct winograd {
    int tile, kernel, stride;     /* tile 2, 4 or 6; kernel 5 or stride 2: tile 2 or 4 */
    winograd_schedule_t schedule; /* WINOGRAD_CHOOSE, except in tests */
    int64_t n_images, n_inputs, n_outputs;
    int64_t height, width;         /* size of x */
    int64_t out_height, out_width; /* size of out */
    int64_t top, left;             /* zero padding of x */
    image_rows_t rows;             /* those to compute, see rows_impl.h; begins and ends of tiles */
    const void *x, *weight;
    const winograd_weight_t *plain; /* original weight; if NULL, recovered when needed */
    int split;          /* kernel size of the convolution that parities_split divided; 0: none */
    const float *bias;  /* [n_outputs], or NULL */
    const void *addend; /* same layout as out; may be out; or NULL */
    winograd_act_t act;
    float alpha, beta;
    void *out;     /* must not be x */
    bool is_bf16;  /* x, addend and out are bf16; else f32 */
    bool in_pairs; /* products of pairs of bf16; else of f32 */
    bool streams;  /* results bypass the caches, because they do not fit there */
} winograd_t;

/* winograd_has_pairs: true if there are loops for products in pairs for this ISA, for which isa_has
 * must be true. winograd_is_for_pairs: true if the ISA has instructions for pairs. */
bool winograd_has_pairs(isa_t isa);
bool winograd_is_for_pairs(isa_t isa);

/* Computes the result on at most n_threads threads. isa_has(isa) must be true. scratch has
 * winograd_scratch bytes for these sizes and at least this many threads, 64-byte aligned. */
void winograd_run(const winograd_t *winograd, isa_t isa, int n_threads, void *scratch);
size_t winograd_scratch(const winograd_t *winograd, isa_t isa, int n_threads);

/* The end of the tile that contains the row before `row`: the next row that may end a range. */
int64_t winograd_row_end(const winograd_t *winograd, int64_t row);

/* Describes a row-major weight [n_outputs][n_inputs][kernel][kernel], for products of f32. */
winograd_weight_t winograd_plain_weight(int tile, int kernel, int stride, int64_t n_inputs,
                                        int64_t n_outputs, const float *from);

/* Transforms a weight to blocks of outputs, and writes the padding too. The elements are f32, or
 * bf16 for products in pairs. The format depends only on the ISA's number of lanes; the number of
 * elements does not depend on the stride. */
int64_t winograd_weight_elements(int tile, int kernel, int64_t n_inputs, int64_t n_outputs,
                                 isa_t isa);
void winograd_pack(const winograd_weight_t *weight, isa_t isa, int n_threads, void *out);

/* ---- loops for one ISA ---- */

#define WINOGRAD_MAX_SIDE 9 /* side of a tile of sources */
#define WINOGRAD_MAX_KERNEL 5

/* Computes the matrix that recovers kernels from a transformed weight. It is applied in each
 * dimension: `out` is [kernel][tile + kernel - 1]. */
void winograd_recovery(const winograd_t *winograd, double (*out)[WINOGRAD_MAX_SIDE]);

#define WINOGRAD_VECTORS 2 /* vectors of outputs in a block of the weight */
#define WINOGRAD_MAX_TILES 128

/* Kinds of points, by the tiles that have them. 0: all tiles; 1: tiles in long columns; 2: tiles in
 * long rows; 3: tiles in both. */
enum { WINOGRAD_KINDS = 4 };

/* Tiles [first, first + n_tiles) of all images, row by row, at most WINOGRAD_MAX_TILES. Not every
 * tile has every point (see WINOGRAD_KINDS). For each point, the tiles that have it are divided
 * evenly into blocks of at most n_rows. Transformed sources are [side^2][block][C / lanes][tiles of
 * block][lanes], f32, or bf16 for pairs; points are `stride` elements apart. */
typedef struct winograd_group {
    const winograd_t *winograd;
    const float *bias;        /* padded to whole blocks of the weight */
    int64_t tiles_y, tiles_x; /* in one image */
    int64_t long_y, long_x;   /* number of long tiles, which come first */
    int64_t n_source_blocks;
    int64_t first, n_tiles;
    int64_t n[WINOGRAD_KINDS], n_blocks[WINOGRAD_KINDS]; /* tiles with these points; blocks */
    void *source;
    int64_t stride;
} winograd_group_t;

/* Transform of a weight, applied in each dimension. The matrix is [tile + kernel - 1][kernel]. */
typedef struct winograd_packing {
    const winograd_weight_t *weight;
    void *to;
    double matrix[WINOGRAD_MAX_SIDE][WINOGRAD_MAX_KERNEL];
} winograd_packing_t;

typedef struct winograd_loops {
    int n_rows; /* number of tiles whose products stay in registers */
    /* Transforms the sources of units [first, last). A unit is a tile and a block of channels; the
     * tile changes fastest. */
    void (*transform)(const winograd_group_t *group, int64_t first, int64_t last);
    /* Multiplies the transformed sources by one block of the weight and stores the results.
     * `products` is scratch memory for [side^2][tiles][lanes * WINOGRAD_VECTORS]; points are
     * `stride` apart. */
    void (*multiply)(const winograd_group_t *group, int64_t weight_block, float *products,
                     int64_t stride);
    /* Transforms blocks [first, last) of the weight. */
    void (*pack)(const winograd_packing_t *packing, int64_t first, int64_t last);
} winograd_loops_t;

ISA_EXTERN(const winograd_loops_t, winograd);

/* Loops for products in pairs. */
extern const winograd_loops_t winograd_pairs_portable, winograd_pairs_avx512_bf16;

/* Side of a tile of sources. */
static inline int winograd_side(int tile, int kernel, int stride)
{
    return stride * (tile - 1) + kernel;
}

/* Number of tiles in a row or column of n results, and how many of these are long. */
static inline int64_t winograd_count_tiles(int64_t n, int tile)
{
    return (n + tile - 1) / tile;
}

static inline int64_t winograd_count_long(int64_t n, int tile)
{
    const int64_t n_long = n - winograd_count_tiles(n, tile) * (tile - 1);
    return n_long > 0 ? n_long : 0;
}

/* A tile of a group: its position in tiles, and the number of tiles before it with each kind of
 * points. */
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

/* Number of the block's first tile among the tiles that have this kind of points. */
static inline int64_t winograd_block_begin(const winograd_group_t *group, int kind, int64_t block)
{
    return group->n[kind] * block / group->n_blocks[kind];
}

#endif
