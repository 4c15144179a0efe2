#include "kernels/linear/product_impl.h"

#include "tensor/threads/threads_impl.h"

/* Maximum rows of x that are copied at once. One chunk of their inputs fits in the L2 cache. */
#define MOST_ROWS 224
#define ALIGNMENT 64 /* bytes */

static const product_loops_t *const loops[ISA_COUNT] = ISA_TABLE(product);

typedef struct run {
    product_rows_t rows;
    const product_loops_t *loops;
    float *fetched; /* a block of the weight for each thread */
} run_t;

size_t product_scratch(int64_t n_rows, int64_t n_inputs)
{
    return (size_t)(n_rows < MOST_ROWS ? n_rows : MOST_ROWS) * (size_t)n_inputs * sizeof(float);
}

size_t product_fetch_scratch(int64_t n_inputs, int n_threads)
{
    return ALIGNMENT + (size_t)n_threads * (size_t)n_inputs * PRODUCT_BLOCK * sizeof(float);
}

/* The place after the copies of x, aligned. */
static float *fetched_at(const product_t *product, void *scratch)
{
    const size_t n_bytes = product_scratch(product->n_rows, product->n_inputs);
    return (float *)scratch + (n_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT / sizeof(float);
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

static void fetch_blocks(void *user, int64_t first, int64_t last, int member)
{
    const run_t *run = user;
    product_t one = *run->rows.product;
    product_rows_t rows = run->rows;
    float *fetched = run->fetched + member * one.block_stride;
    rows.product = &one;
    one.weight = fetched;
    for (int64_t block = first; block < last; block++) {
        one.fetch(one.source, block, fetched);
        one.first_block = block;
        run->loops->blocks(&rows, block, block + 1);
    }
}

void product_run(const product_t *product, isa_t isa, int n_threads, void *scratch)
{
    run_t run = {.rows = {.product = product, .copy = scratch}, .loops = loops[isa]};
    const int64_t n_parts = (product->n_rows + MOST_ROWS - 1) / MOST_ROWS;
    const int64_t n_blocks = (product->n_outputs + PRODUCT_BLOCK - 1) / PRODUCT_BLOCK;
    if (product->fetch != NULL) run.fetched = fetched_at(product, scratch);
    for (int64_t part = 0; part < n_parts; part++) {
        run.rows.first = product->n_rows * part / n_parts;
        run.rows.n_rows = product->n_rows * (part + 1) / n_parts - run.rows.first;
        run.rows.n_groups = (run.rows.n_rows + run.loops->n_rows - 1) / run.loops->n_rows;
        threads_share(n_threads, run.rows.n_groups, copy_groups, &run);
        if (product->fetch == NULL)
            threads_share(n_threads, n_blocks, multiply_blocks, &run);
        else
            threads_share_members(n_threads, n_blocks, fetch_blocks, &run);
    }
}

void product_pack(const product_pack_t *pack, isa_t isa)
{
    loops[isa]->pack(pack);
}
