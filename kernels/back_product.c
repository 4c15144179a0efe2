#include "kernels/back_product_impl.h"

#include "tensor/threads_impl.h"

static const back_product_loops_t *const loops[ISA_COUNT] = {
    [ISA_PORTABLE] = &back_product_portable,
    [ISA_AVX2] = &back_product_avx2,
    [ISA_AVX512] = &back_product_avx512};

typedef struct run {
    const back_product_t *product;
    const back_product_loops_t *loops;
    int64_t lanes;
    float *columns;
} run_t;

size_t back_product_scratch(int64_t n_rows, int64_t n_outputs, int64_t block_outputs)
{
    const int64_t n_blocks = back_product_blocks(n_outputs, block_outputs);
    return (size_t)(n_rows * n_blocks * block_outputs) * sizeof(float);
}

/* Vectors of all rows lie together: rows that are a power of two apart would share lines of the
 * first cache. Behind the last output there are zeros. */
static void turn(void *user, int64_t first, int64_t last)
{
    const run_t *run = user;
    const back_product_t *p = run->product;
    float *to = run->columns + first * p->n_rows * run->lanes;
    for (int64_t v = first; v < last; v++)
        for (int64_t r = 0; r < p->n_rows; r++)
            for (int64_t l = 0; l < run->lanes; l++) {
                const int64_t o = v * run->lanes + l;
                *to++ = o < p->n_outputs ? p->grad[r * p->n_outputs + o] : 0.0f;
            }
}

static void run_blocks(void *user, int64_t first, int64_t last)
{
    const run_t *run = user;
    run->loops->blocks(run->product, run->columns, first, last);
}

void back_product_run(const back_product_t *product, isa_t isa, int n_threads, void *scratch)
{
    const int64_t lanes = isa_lanes(isa);
    const int64_t padded = back_product_blocks(product->n_outputs, product->block_outputs) *
                           product->block_outputs;
    run_t run = {product, loops[isa], lanes, scratch};
    threads_share(n_threads, padded / lanes, turn, &run);
    threads_share(n_threads, back_product_blocks(product->n_inputs, product->block_inputs),
                  run_blocks, &run);
}
