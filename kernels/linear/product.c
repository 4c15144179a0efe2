#include "kernels/linear/product_impl.h"

#include "tensor/threads/threads_impl.h"

/* Maximum rows of x that are copied at once. One chunk of their inputs fits in the L2 cache. */
#define MOST_ROWS 224

static const product_loops_t *const loops[ISA_COUNT] = ISA_TABLE(product);

typedef struct run {
    product_rows_t rows;
    const product_loops_t *loops;
} run_t;

size_t product_scratch(int64_t n_rows, int64_t n_inputs)
{
    return (size_t)(n_rows < MOST_ROWS ? n_rows : MOST_ROWS) * (size_t)n_inputs * sizeof(float);
}

static void copy_groups(void *user, int64_t first, int64_t last)
{
    const run_t *run = user;
    run->loops->copy(&run->rows, first, last);
}

static void multiply_blocks(void *user, int64_t first, int64_t last)
{
    const run_t *run = user;
    run->loops->blocks(&run->rows, first, last);
}

void product_run(const product_t *product, isa_t isa, int n_threads, void *scratch)
{
    run_t run = {.rows = {.product = product, .copy = scratch}, .loops = loops[isa]};
    const int64_t n_parts = (product->n_rows + MOST_ROWS - 1) / MOST_ROWS;
    const int64_t n_blocks = (product->n_outputs + PRODUCT_BLOCK - 1) / PRODUCT_BLOCK;
    for (int64_t part = 0; part < n_parts; part++) {
        run.rows.first = product->n_rows * part / n_parts;
        run.rows.n_rows = product->n_rows * (part + 1) / n_parts - run.rows.first;
        run.rows.n_groups = (run.rows.n_rows + run.loops->n_rows - 1) / run.loops->n_rows;
        threads_share(n_threads, run.rows.n_groups, copy_groups, &run);
        threads_share(n_threads, n_blocks, multiply_blocks, &run);
    }
}

void product_pack(const product_pack_t *pack, isa_t isa)
{
    loops[isa]->pack(pack);
}
