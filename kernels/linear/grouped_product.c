#include "kernels/linear/grouped_product_impl.h"

#include "tensor/threads/threads_impl.h"

static const grouped_product_loops_t *const loops[ISA_COUNT] = ISA_TABLE(grouped_product);

typedef struct run {
    grouped_columns_t columns;
    const grouped_product_loops_t *loops;
} run_t;

/* ---- few rows ---- */

static void turn(void *user, int64_t first, int64_t last)
{
    const run_t *run = user;
    run->loops->turn(&run->columns, first, last);
}

static void multiply_blocks(void *user, int64_t first, int64_t last)
{
    const run_t *run = user;
    run->loops->blocks(&run->columns, first, last);
}

static void run_few(const grouped_product_t *product, isa_t isa, int n_threads, void *scratch)
{
    const grouped_t *grouped = product->grouped;
    run_t run = {{.product = product, .columns = scratch}, loops[isa]};
    run.columns.sums = run.columns.columns + grouped->n_padded * GROUPED_PRODUCT_ROWS;
    run.columns.starts = run.columns.sums + grouped->n_groups * GROUPED_PRODUCT_ROWS;
    run.loops->divide(product->n_rows, &run.columns);
    threads_share(product->n_rows > 1 ? n_threads : 1, grouped->n_groups, turn, &run);
    threads_share(n_threads, grouped->n_blocks, multiply_blocks, &run);
}

/* ---- many rows ---- */

typedef struct source {
    const grouped_product_t *product;
    const grouped_product_loops_t *loops;
} source_t;

#define PER_BLOCK (PRODUCT_BLOCK / GROUPED_ROWS) /* blocks of the weight in one of the product */

/* Widens the blocks of the weight that are a block of the product. The last one may be missing: the
 * product then leaves its lanes out of the result, so any numbers will do. */
static void fetch(const void *user, int64_t block, float *to)
{
    const source_t *source = user;
    const grouped_t *grouped = source->product->grouped;
    for (int64_t i = 0; i < PER_BLOCK; i++) {
        const int64_t at = block * PER_BLOCK + i < grouped->n_blocks ? block * PER_BLOCK + i
                                                                     : block * PER_BLOCK;
        source->loops->widen(grouped, source->product->weight, at, to + i * GROUPED_ROWS,
                             PRODUCT_BLOCK);
    }
}

static void run_many(const grouped_product_t *product, isa_t isa, int n_threads, void *scratch)
{
    const grouped_t *grouped = product->grouped;
    const source_t source = {product, loops[isa]};
    const product_t whole = {.n_rows = product->n_rows,
                             .n_outputs = grouped->n_rows,
                             .n_inputs = grouped->n_columns,
                             .x = product->x,
                             .x_stride = product->x_stride,
                             .block_stride = grouped->n_padded * PRODUCT_BLOCK,
                             .fetch = fetch,
                             .source = &source,
                             .bias = product->bias,
                             .accumulates = product->accumulates,
                             .out = product->out,
                             .out_stride = product->out_stride,
                             .finish = product->finish,
                             .user = product->user};
    product_run(&whole, isa, n_threads, scratch);
}

size_t grouped_product_scratch(const grouped_t *grouped, int64_t n_rows, int n_threads)
{
    if (n_rows > GROUPED_PRODUCT_ROWS)
        return product_scratch(n_rows, grouped->n_columns) +
               product_fetch_scratch(grouped->n_padded, n_threads);
    const int64_t n = (grouped->n_padded + 2 * grouped->n_groups) * GROUPED_PRODUCT_ROWS;
    return (size_t)n * sizeof(float);
}

void grouped_product_run(const grouped_product_t *product, isa_t isa, int n_threads, void *scratch)
{
    if (product->n_rows > GROUPED_PRODUCT_ROWS)
        run_many(product, isa, n_threads, scratch);
    else
        run_few(product, isa, n_threads, scratch);
}
