#include "kernels/shape/adjoint_impl.h"

#include "tensor/threads/threads_impl.h"

static adjoint_rows_t *const loops[ISA_COUNT] = ISA_TABLE(adjoint);

typedef struct run {
    const adjoint_sum_t *sum;
    adjoint_rows_t *rows;
} run_t;

static void run_rows(void *user, int64_t first, int64_t last)
{
    const run_t *run = user;
    run->rows(run->sum, first, last);
}

void adjoint_sum(const adjoint_sum_t *sum, isa_t isa, int n_threads)
{
    run_t run = {sum, loops[isa]};
    threads_share(n_threads, sum->outer * sum->n_to, run_rows, &run);
}
