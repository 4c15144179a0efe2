#include "kernels/linear/rows_gradient_impl.h"

#include "tensor/threads/threads_impl.h"

static const rows_gradient_loops_t *const loops[ISA_COUNT] = ISA_TABLE(rows_gradient);

typedef struct run {
    rows_gradient_tiles_t tiles;
    const rows_gradient_loops_t *loops;
} run_t;

bool rows_gradient_fits(isa_t isa, int64_t block_outputs, int64_t block_inputs)
{
    return block_outputs % isa_lanes(isa) == 0 && block_outputs <= ROWS_GRADIENT_BLOCK &&
           block_inputs % ROWS_GRADIENT_STEP == 0 && block_inputs <= ROWS_GRADIENT_BLOCK;
}

/* Number of blocks of inputs in a tile. */
static int64_t tile_blocks(const rows_gradient_t *gradient)
{
    const int64_t block = gradient->inputs.block;
    const int64_t of_tile = ROWS_GRADIENT_TILE / (block * gradient->outputs.block);
    const int64_t of_chunk = ROWS_GRADIENT_CHUNK / (block * gradient->n_rows);
    const int64_t n = of_tile < of_chunk ? of_tile : of_chunk;
    return n > 1 ? n : 1;
}

static void run_chunks(void *user, int64_t first, int64_t last)
{
    const run_t *run = user;
    run->loops->chunks(&run->tiles, first, last);
}

void rows_gradient_run(const rows_gradient_t *gradient, isa_t isa, int n_threads)
{
    const int64_t block = gradient->inputs.block, n = tile_blocks(gradient);
    const int64_t n_tiles = ROWS_GRADIENT_CHUNK / (gradient->n_rows * block * n);
    const run_t run = {{gradient, n, n * n_tiles}, loops[isa]};
    const int64_t n_blocks = axis_blocks(&gradient->inputs);
    const int64_t n_chunks = (n_blocks + run.tiles.chunk_blocks - 1) / run.tiles.chunk_blocks;
    threads_share(n_threads, n_chunks * axis_blocks(&gradient->outputs), run_chunks,
                  (void *)(uintptr_t)&run);
}

void rows_gradient_bias(const float *grad, int64_t n_rows, int64_t n_outputs, int64_t first,
                        int64_t n, float *out)
{
    for (int64_t j = 0; j < n; j++) out[j] = grad[first + j];
    for (int64_t r = 1; r < n_rows; r++)
        for (int64_t j = 0; j < n; j++) out[j] += grad[r * n_outputs + first + j];
}
