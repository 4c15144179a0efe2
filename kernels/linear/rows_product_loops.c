/* The loops of rows_product_impl.h, compiled once for each ISA (isa_impl.h).
 *
 * A part is a range of the summed dimension (terms) of one block of results. In a part, the sums of
 * some results for all rows stay in registers. While one part is multiplied, the next one is
 * prefetched to the first-level cache, line by line. */
#include "kernels/linear/rows_product_impl.h"
#include "kernels/vector_impl.h"

#define MAX_VECTORS (ROWS_PRODUCT_ROWS / KERNEL_LANES) /* vectors of rows */
#define PART_BLOCKS 4                                  /* blocks of terms in a part */

typedef vector_t sums_t[MAX_VECTORS];

/* A part of the products: terms [first, last) of one block of results. */
typedef struct part {
    const float *weight; /* weights of this block of results */
    const float *columns;
    int64_t first, last;
    const float *next; /* the part to prefetch; if this is the last part, itself */
} part_t;

/* Adds the products for n results, from `result` of the block on, and n_vectors vectors of rows.
 * All calls for a part together prefetch the next part, each line once if the weights of n results
 * fill a line. */
KERNEL_INLINE void multiply(const rows_product_t *p, const part_t *part, int n_vectors, int n,
                            int64_t result, sums_t *total)
{
    const axis_t terms = p->terms;
    const int64_t step = p->results.inner;
    vector_t sums[16][MAX_VECTORS];
    KERNEL_UNROLL
    for (int j = 0; j < n; j++) KERNEL_UNROLL
    for (int v = 0; v < n_vectors; v++) sums[j][v] = total[result + j][v];
    const float *columns = part->columns + part->first * n_vectors * KERNEL_LANES;
    for (int64_t from = part->first; from < part->last; from += terms.block) {
        const int64_t rest = part->last - from, end = rest < terms.block ? rest : terms.block;
        const float *block = part->weight + from / terms.block * terms.outer;
        const int64_t visit = result / n * PART_BLOCKS + (from - part->first) / terms.block;
        const float *next = part->next + visit * terms.block / PART_BLOCKS * n;
        const float *weight = block + result * step;
        for (int64_t k = 0; k < end; k++) {
            vector_t x[MAX_VECTORS];
            KERNEL_UNROLL
            for (int v = 0; v < n_vectors; v++) x[v] = vector_load(columns + v * KERNEL_LANES);
            __builtin_prefetch(next + k % PART_BLOCKS * terms.outer + k / PART_BLOCKS * n);
            KERNEL_UNROLL
            for (int j = 0; j < n; j++) KERNEL_UNROLL
            for (int v = 0; v < n_vectors; v++) sums[j][v] += weight[j * step] * x[v];
            columns += n_vectors * KERNEL_LANES;
            weight += terms.inner;
        }
    }
    KERNEL_UNROLL
    for (int j = 0; j < n; j++) KERNEL_UNROLL
    for (int v = 0; v < n_vectors; v++) total[result + j][v] = sums[j][v];
}

/* Computes as many results at once as fit in the registers together with a vector of x. */
KERNEL_INLINE void multiply_part(const rows_product_t *p, const part_t *part, int n_vectors,
                                 sums_t *total)
{
    const int half = KERNEL_REGISTERS / 2;
    const int n = n_vectors == 3 ? half / 2 : half / n_vectors;
    int64_t result = 0;
    for (; result + n <= p->results.block; result += n)
        multiply(p, part, n_vectors, n, result, total);
    for (; result < p->results.block; result += 2) multiply(p, part, n_vectors, 2, result, total);
}

/* Stores the results of the block for each row. */
static void finish(const rows_product_t *p, int n_vectors, int64_t block, const sums_t *total)
{
    const int64_t first = block * p->results.block, rest = p->results.n - first;
    const int64_t n = rest < p->results.block ? rest : p->results.block;
    for (int64_t j = 0; j < n; j++) {
        const float bias = p->bias != NULL ? p->bias[first + j] : 0.0f;
        float rows[MAX_VECTORS * KERNEL_LANES] = {0};
        for (int v = 0; v < n_vectors; v++) vector_store(total[j][v], rows + v * KERNEL_LANES);
        for (int64_t r = 0; r < p->n_rows; r++)
            p->out[r * p->results.n + first + j] = rows[r] + bias;
    }
}

KERNEL_INLINE void one_block(const rows_product_t *p, const float *columns, int n_vectors,
                             int64_t block)
{
    const axis_t *terms = &p->terms;
    sums_t total[ROWS_PRODUCT_BLOCK] = {{{0}}};
    const int64_t n_blocks = axis_blocks(terms);
    const float *weight = p->weight + block * p->results.outer;
    for (int64_t b = 0; b < n_blocks; b += PART_BLOCKS) {
        const int64_t last = (b + PART_BLOCKS) * terms->block;
        const int64_t next = b + 2 * PART_BLOCKS <= n_blocks ? b + PART_BLOCKS : b;
        const part_t part = {.weight = weight,
                             .columns = columns,
                             .first = b * terms->block,
                             .last = last < terms->n ? last : terms->n,
                             .next = weight + next * terms->outer};
        multiply_part(p, &part, n_vectors, total);
    }
    finish(p, n_vectors, block, (const sums_t *)total);
}

static void blocks(const rows_product_t *p, const float *columns, int64_t first, int64_t last)
{
    const int64_t n_vectors = (p->n_rows + KERNEL_LANES - 1) / KERNEL_LANES;
    for (int64_t block = first; block < last; block++) switch (n_vectors) {
        case 1: one_block(p, columns, 1, block); break;
        case 2: one_block(p, columns, 2, block); break;
#if KERNEL_LANES < 16
        case 3: one_block(p, columns, 3, block); break;
        default: one_block(p, columns, 4, block); break;
#endif
        }
}

const rows_product_loops_t KERNEL_NAME(rows_product) = {blocks};
