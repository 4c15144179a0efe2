#include "kernels/linear/rows_product_impl.h"

#include "kernels/tiles_impl.h"
#include "tensor/threads/threads_impl.h"

static const rows_product_loops_t *const loops[ISA_COUNT] = ISA_TABLE(rows_product);

#define MOST_LANES 16

typedef struct run {
    const rows_product_t *product;
    const rows_product_loops_t *loops;
    int64_t n_padded; /* rows */
    float *columns;
} run_t;

size_t rows_product_scratch(int64_t n_rows, int64_t n_terms)
{
    return (size_t)(round_up(n_rows, MOST_LANES) * n_terms) * sizeof(float);
}

static void turn(void *user, int64_t first, int64_t last)
{
    const run_t *run = user;
    const rows_product_t *p = run->product;
    float *to = run->columns + first * run->n_padded;
    for (int64_t k = first; k < last; k++, to += run->n_padded)
        for (int64_t r = 0; r < run->n_padded; r++)
            to[r] = r < p->n_rows ? p->x[r * p->terms.n + k] : 0.0f;
}

static void run_blocks(void *user, int64_t first, int64_t last)
{
    const run_t *run = user;
    run->loops->blocks(run->product, run->columns, first, last);
}

void rows_product_run(const rows_product_t *product, isa_t isa, int n_threads, void *scratch)
{
    run_t run = {product, loops[isa], round_up(product->n_rows, isa_lanes(isa)), scratch};
    threads_share(n_threads, product->terms.n, turn, &run);
    threads_share(n_threads, axis_blocks(&product->results), run_blocks, &run);
}
