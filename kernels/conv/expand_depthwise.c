#include "kernels/conv/expand_depthwise_impl.h"

#include "kernels/tiles_impl.h"
#include "tensor/threads/threads_impl.h"

#define MOST_AT_ONCE 14 /* maximum for all ISAs */

/* Maximum bytes of x in a band of rows, so that x stays in the cache for all groups of channels:
 * half of a second-level cache. */
#define SOURCE_BYTES (512 << 10)

/* Minimum rows of a band. Adjacent bands both compute the rows of e between them, which takes too
 * long if bands are shorter. */
#define LEAST_ROWS 12

static expand_depthwise_rows_t *const loops[ISA_COUNT] = ISA_TABLE(expand_depthwise);

typedef struct run {
    const expand_depthwise_t *pair;
    expand_depthwise_rows_t *rows;
    int64_t n_groups, n_bands; /* bands of rows in one image */
    float *scratch;
    int64_t ring; /* floats of the ring buffer of one thread */
} run_t;

static int64_t ring_floats(const expand_depthwise_t *pair, isa_t isa)
{
    const int64_t lanes = isa_lanes(isa);
    return EXPAND_DEPTHWISE_BLOCKS * lanes * expand_depthwise_kept(pair, MOST_AT_ONCE) *
           expand_depthwise_columns(pair);
}

/* Pairs of a band and a group of channels, numbered over all images. Groups change faster than
 * bands, so that a thread reads the same band several times. */
static void run_pairs(void *user, int64_t first, int64_t last, int member)
{
    const run_t *run = user;
    const expand_depthwise_t *pair = run->pair;
    for (int64_t i = first; i < last;) {
        const int64_t at = i / run->n_groups, group = i % run->n_groups;
        const int64_t band = at % run->n_bands;
        const int64_t some = run->n_groups - group < last - i ? run->n_groups - group : last - i;
        const expand_depthwise_part_t part = {at / run->n_bands,
                                              group,
                                              group + some,
                                              pair->out_height * band / run->n_bands,
                                              pair->out_height * (band + 1) / run->n_bands,
                                              run->scratch + member * run->ring};
        run->rows(pair, &part);
        i += some;
    }
}

/* Number of bands of an image, so that x of a band fits into the cache and threads get equal
 * shares. */
static int64_t count_bands(const expand_depthwise_t *pair, isa_t isa, int64_t n_groups,
                           int n_threads)
{
    const int64_t n_inputs = divide_up(pair->n_inputs, isa_lanes(isa)) * isa_lanes(isa);
    const int64_t bytes = pair->height * pair->width * n_inputs * (int64_t)sizeof(float);
    int64_t n = n_groups > 1 ? divide_up(bytes, SOURCE_BYTES) : 1;
    const int64_t n_parts = pair->n_images * n * n_groups;
    if (n_parts % n_threads != 0 && n_parts < 16 * n_threads)
        n = divide_up(n, n_threads) * n_threads;
    const int64_t most = pair->out_height / LEAST_ROWS;
    return n > most ? (most > 1 ? most : 1) : n;
}

void expand_depthwise_run(const expand_depthwise_t *pair, isa_t isa, int n_threads, void *scratch)
{
    const int64_t n_blocks = divide_up(pair->n_channels, isa_lanes(isa));
    run_t run = {.pair = pair,
                 .rows = loops[isa],
                 .n_groups = divide_up(n_blocks, EXPAND_DEPTHWISE_BLOCKS),
                 .scratch = scratch,
                 .ring = ring_floats(pair, isa)};
    run.n_bands = count_bands(pair, isa, run.n_groups, n_threads);
    threads_share_members(n_threads, pair->n_images * run.n_bands * run.n_groups, run_pairs, &run);
}

size_t expand_depthwise_scratch(const expand_depthwise_t *pair, isa_t isa, int n_threads)
{
    return (size_t)ring_floats(pair, isa) * (size_t)n_threads * sizeof(float);
}
