/* Gradient of the weight of a fully connected layer, stored in blocks, for an x of a few rows:
 *
 *   out(j, k) = sum(r) grad[r][j] * x[r][k]
 *
 * The weight has blocks of both outputs and inputs, see rows_product_impl.h. The
 * gradient is computed in tiles: one block of outputs with a few blocks of inputs, contiguous in
 * memory. A finished tile, still in the first-level cache, is written to out or passed to `take`,
 * with which an optimizer updates the weight without storing the gradient. Each element is summed
 * from the first row to the last, so the result does not depend on tiles or threads. */
#ifndef TESSERA_KERNELS_LINEAR_ROWS_GRADIENT_IMPL_H
#define TESSERA_KERNELS_LINEAR_ROWS_GRADIENT_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/axis_impl.h"
#include "kernels/isa_impl.h"

#define ROWS_GRADIENT_ROWS 64  /* maximum */
#define ROWS_GRADIENT_BLOCK 64 /* maximum outputs, and maximum inputs, in a block */
#define ROWS_GRADIENT_STEP 4   /* inputs that are summed together; divides a block */
#define ROWS_GRADIENT_AHEAD 4  /* maximum number of arrays in `ahead` */

/* Receives n elements of the gradient, from offset `first` on. Threads call it concurrently. */
typedef void (*rows_gradient_take_t)(void *user, int64_t first, int64_t n, const float *tile);

typedef struct rows_gradient {
    int64_t n_rows;
    axis_t outputs, inputs;
    const float *x;            /* [n_rows][inputs.n] */
    const float *grad;         /* [n_rows][outputs.n] */
    float *out;                /* in the weight's format, padding is set to zero; or NULL */
    rows_gradient_take_t take; /* receives the tiles if out is NULL */
    void *user;
    const float *ahead[ROWS_GRADIENT_AHEAD]; /* arrays in the weight's format that `take` reads,
                                                prefetched; NULL ends the list */
} rows_gradient_t;

/* Returns true if the kernel supports blocks of this many outputs and inputs. */
bool rows_gradient_fits(isa_t isa, int64_t block_outputs, int64_t block_inputs);

/* Computes the gradient on at most n_threads threads; isa_has(isa) must be true. */
void rows_gradient_run(const rows_gradient_t *gradient, isa_t isa, int n_threads);

/* Computes columns [first, first + n) of the bias gradient, each summed in the order of rows. */
void rows_gradient_bias(const float *grad, int64_t n_rows, int64_t n_outputs, int64_t first,
                        int64_t n, float *out);

/* ---- for the loops of an instruction set ---- */

/* Tiles are computed in chunks of inputs, so that x of a chunk stays in the first-level cache for
 * all blocks of outputs. */
typedef struct rows_gradient_tiles {
    const rows_gradient_t *gradient;
    int64_t tile_blocks;  /* blocks of inputs in a tile */
    int64_t chunk_blocks; /* blocks of inputs in a chunk, a multiple of tile_blocks */
} rows_gradient_tiles_t;

typedef struct rows_gradient_loops {
    /* Computes units [first, last). Unit c * (blocks of outputs) + b is chunk c of output block
     * b. */
    void (*chunks)(const rows_gradient_tiles_t *tiles, int64_t first, int64_t last);
} rows_gradient_loops_t;

ISA_EXTERN(const rows_gradient_loops_t, rows_gradient);

/* Maximum elements of x in a chunk, and maximum elements of a tile. A tile of one block may be
 * larger. */
#define ROWS_GRADIENT_CHUNK (ROWS_GRADIENT_ROWS * ROWS_GRADIENT_BLOCK)
#define ROWS_GRADIENT_TILE 1024

#endif
