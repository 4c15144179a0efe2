#include "kernels/conv/depthwise_impl.h"

#include "tensor/threads/threads_impl.h"

static depthwise_rows_t *const loops[ISA_COUNT] = ISA_TABLE(depthwise);

typedef struct run {
    const depthwise_t *depthwise;
    depthwise_rows_t *rows;
    int64_t n_blocks;
} run_t;

/* True if n units divide almost evenly among the threads. */
static bool is_even(int64_t n, int n_threads)
{
    const int64_t missing = (n_threads - n % n_threads) % n_threads;
    return missing * 16 <= n;
}

/* Computes rows of images, with all their channels. The 1x1 convolutions before and after divide
 * work among threads in the same way, so a thread reads elements that it has in its own cache. */
static void run_rows(void *user, int64_t first, int64_t last)
{
    const run_t *run = user;
    const depthwise_t *d = run->depthwise;
    const int64_t end_row = rows_end(&d->rows, d->out_height), height = end_row - d->rows.first;
    for (int64_t i = first; i < last; i += height - i % height) {
        const int64_t begin = d->rows.first + i % height, end = begin + last - i;
        const depthwise_part_t part = {i / height, 0, run->n_blocks, begin,
                                       end < end_row ? end : end_row};
        run->rows(d, &part);
    }
}

/* Computes blocks of channels. */
static void run_blocks(void *user, int64_t first, int64_t last)
{
    const run_t *run = user;
    for (int64_t i = first; i < last; i++) {
        const int64_t block = i % run->n_blocks;
        const depthwise_t *d = run->depthwise;
        const depthwise_part_t part = {i / run->n_blocks, block, block + 1, d->rows.first,
                                       rows_end(&d->rows, d->out_height)};
        run->rows(d, &part);
    }
}

void depthwise_run(const depthwise_t *depthwise, isa_t isa, int n_threads)
{
    const int64_t lanes = isa_lanes(isa);
    run_t run = {depthwise, loops[isa], (depthwise->n_channels + lanes - 1) / lanes};
    const int64_t n_rows = depthwise->n_images *
                           (rows_end(&depthwise->rows, depthwise->out_height) -
                            depthwise->rows.first);
    const int64_t n_planes = depthwise->n_images * run.n_blocks;
    if (is_even(n_rows, n_threads) || n_rows >= n_planes)
        threads_share(n_threads, n_rows, run_rows, &run);
    else
        threads_share(n_threads, n_planes, run_blocks, &run);
}
