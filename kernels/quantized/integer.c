#include "kernels/quantized/integer_impl.h"

#include "tensor/threads_impl.h"

#define PART_ROWS 48 /* rows that use a block of the weight while it is in first-level cache */

static integer_rows_t *const loops[ISA_COUNT] = ISA_TABLE(integer);

typedef struct run {
    const integer_t *integer;
    integer_rows_t *rows;
    int64_t n_blocks;
} run_t;

static void run_parts(void *user, int64_t first, int64_t last)
{
    const run_t *run = user;
    for (int64_t i = first; i < last; i++) {
        const int64_t row = i / run->n_blocks * PART_ROWS, rest = run->integer->n_rows - row;
        run->rows(run->integer, i % run->n_blocks * INTEGER_BLOCK, row,
                  row + (rest < PART_ROWS ? rest : PART_ROWS));
    }
}

void integer_run(const integer_t *integer, isa_t isa, int n_threads)
{
    const run_t run = {integer, loops[isa],
                       (integer->n_outputs + INTEGER_BLOCK - 1) / INTEGER_BLOCK};
    const int64_t n_parts = (integer->n_rows + PART_ROWS - 1) / PART_ROWS;
    threads_share(n_threads, n_parts * run.n_blocks, run_parts, (void *)(uintptr_t)&run);
}
