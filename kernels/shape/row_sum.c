#include "kernels/shape/row_sum_impl.h"

#include "tensor/threads/threads_impl.h"

static row_sum_rows_t *const loops[ISA_COUNT] = ISA_TABLE(row_sum);

typedef struct run {
    const row_sum_t *sum;
    row_sum_rows_t *rows;
} run_t;

static void run_rows(void *user, int64_t first, int64_t last)
{
    const run_t *run = user;
    run->rows(run->sum, first, last);
}

void row_sum_run(const row_sum_t *sum, isa_t isa, int n_threads)
{
    run_t run = {sum, loops[isa]};
    threads_share(n_threads, sum->outer * sum->n_to, run_rows, &run);
}
