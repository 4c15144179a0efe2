#include "kernels/linear/grouped_product_impl.h"

#include "tensor/threads/threads_impl.h"

static const grouped_product_loops_t *const loops[ISA_COUNT] = ISA_TABLE(grouped_product);

/* ---- few rows ---- */

typedef struct run {
    grouped_columns_t columns;
    const grouped_few_loops_t *loops;
} run_t;

/* Without VNNI, sums of two products of bytes must fit in 16 bits: 2 * 15 * 128, not 2 * 255 * 128.
 */
static bool uses_vnni(isa_t isa)
{
    return isa == ISA_AVX512 && isa_has_vnni();
}

static bool uses_avx2(isa_t isa, int bits)
{
    return (isa == ISA_AVX2 || isa == ISA_AVX512) && bits <= 4;
}

const char *grouped_product_name(isa_t isa, const grouped_t *grouped, int64_t n_rows)
{
    if (n_rows > GROUPED_PRODUCT_ROWS) return "grouped:widened";
    if (uses_vnni(isa)) return "grouped:integers_vnni";
    return uses_avx2(isa, grouped->grouping.bits) ? "grouped:integers_avx2" : "grouped:floats";
}

static const grouped_few_loops_t *find_loops(isa_t isa, int bits)
{
#if defined(__x86_64__)
    if (uses_vnni(isa)) return &grouped_integers_avx512_vnni;
    if (uses_avx2(isa, bits)) return &grouped_integers_avx2;
#endif
    (void)bits;
    return &loops[isa]->few;
}

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

#define GROUP_NUMBERS 5 /* a sum, a unit and three starts for each group and row */

static void run_few(const grouped_product_t *product, isa_t isa, int n_threads, void *scratch)
{
    const grouped_t *grouped = product->grouped;
    const int64_t n = grouped->n_groups * GROUPED_PRODUCT_ROWS;
    float *sums = (float *)scratch + grouped->n_padded * GROUPED_PRODUCT_ROWS;
    run_t run = {
        {.product = product, .x = scratch, .sums = sums, .units = sums + n, .starts = sums + 2 * n},
        find_loops(isa, grouped->grouping.bits)};
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
    const int64_t n = (grouped->n_padded + GROUP_NUMBERS * grouped->n_groups) *
                      GROUPED_PRODUCT_ROWS;
    return (size_t)n * sizeof(float);
}

void grouped_product_run(const grouped_product_t *product, isa_t isa, int n_threads, void *scratch)
{
    if (product->n_rows > GROUPED_PRODUCT_ROWS)
        run_many(product, isa, n_threads, scratch);
    else
        run_few(product, isa, n_threads, scratch);
}
