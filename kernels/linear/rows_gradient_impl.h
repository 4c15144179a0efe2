/* Gradient of a fully connected weight that lies in blocks, of a few rows:
 *
 *   out(j, k) = sum(r) grad[r][j] * x[r][k]
 *
 * The weight lies as rows_product_impl.h says, in blocks of outputs by inputs. It is made a tile at
 * a time: of one block of outputs by some blocks of inputs, which lie one behind the other. A tile
 * is written to out, or given to who asked, while it is in the first cache: an optimizer then steps
 * the weight with a gradient that never lies in memory. Each element is the sum over the rows from
 * the first to the last, whatever tile or thread makes it. */
#ifndef TESSERA_KERNELS_LINEAR_ROWS_GRADIENT_IMPL_H
#define TESSERA_KERNELS_LINEAR_ROWS_GRADIENT_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/axis_impl.h"
#include "kernels/isa_impl.h"

#define ROWS_GRADIENT_ROWS 64  /* at most */
#define ROWS_GRADIENT_BLOCK 64 /* outputs and inputs of a block, at most */
#define ROWS_GRADIENT_STEP 4   /* inputs that are summed at once, a part of a block */
#define ROWS_GRADIENT_AHEAD 4  /* arrays that are read with tiles, at most */

/* n elements of the gradient, which is at `first` in the weight's format. Threads call it at once.
 */
typedef void (*rows_gradient_take_t)(void *user, int64_t first, int64_t n, const float *tile);

typedef struct rows_gradient {
    int64_t n_rows;
    axis_t outputs, inputs;
    const float *x;            /* [n_rows][inputs.n] */
    const float *grad;         /* [n_rows][outputs.n] */
    float *out;                /* in the weight's format, padded lanes become zero; or NULL */
    rows_gradient_take_t take; /* is given the tiles if out is NULL */
    void *user;
    const float *ahead[ROWS_GRADIENT_AHEAD]; /* arrays in the weight's format that take reads, to
                                                be brought to the cache; or NULL */
} rows_gradient_t;

/* Whether an instruction set takes blocks of so many outputs by so many inputs. */
bool rows_gradient_fits(isa_t isa, int64_t block_outputs, int64_t block_inputs);

/* On at most so many threads, by an instruction set that isa_has. */
void rows_gradient_run(const rows_gradient_t *gradient, isa_t isa, int n_threads);

/* Sums over the rows, from the first to the last, of n columns from `first` on: of the gradient of
 * the bias. */
void rows_gradient_bias(const float *grad, int64_t n_rows, int64_t n_outputs, int64_t first,
                        int64_t n, float *out);

/* ---- for the loops of an instruction set ---- */

/* Tiles go chunk by chunk of inputs, so that x of a chunk stays in the first cache for all blocks
 * of outputs. */
typedef struct rows_gradient_tiles {
    const rows_gradient_t *gradient;
    int64_t tile_blocks;  /* blocks of inputs in a tile */
    int64_t chunk_blocks; /* and in a chunk, whole tiles */
} rows_gradient_tiles_t;

typedef struct rows_gradient_loops {
    /* Chunks of blocks of outputs [first, last): number c * blocks of outputs + b is chunk c of
     * block b. */
    void (*chunks)(const rows_gradient_tiles_t *tiles, int64_t first, int64_t last);
} rows_gradient_loops_t;

ISA_EXTERN(const rows_gradient_loops_t, rows_gradient);

/* Elements of x in a chunk, and of a tile, at most. A tile of one block may have more. */
#define ROWS_GRADIENT_CHUNK (ROWS_GRADIENT_ROWS * ROWS_GRADIENT_BLOCK)
#define ROWS_GRADIENT_TILE 1024

#endif
