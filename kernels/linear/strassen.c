#include "kernels/linear/strassen_impl.h"

#include "kernels/tiles_impl.h"
#include "tensor/threads/threads_impl.h"

static const strassen_loops_t *const loops[ISA_COUNT] = ISA_TABLE(strassen);

/* Maximum bytes of sources (sums of quarters of x) at a time. Each pair of vectors of outputs reads
 * all of them, so they must fit in the second-level cache together with the sums of the weight. */
#define SOURCE_BYTES (640 << 10)

/* Maximum inputs of each half that are multiplied at once. More inputs need fewer writes of
 * results; fewer inputs let more rows share the sums of the weight. */
#define MOST_INPUTS 256

/* Costs, in products of vectors, measured with layers of ResNet-50 and ViT on Zen 4. In order:
 * computing the sources of one row for `lanes` inputs of each half; computing the weight's sums for
 * one input and a pair of vectors of outputs; writing the results of a tile. */
#define SOURCE_COST 64.0
#define WEIGHT_COST 32.0
#define LEAVE_COST 1500.0

/* Parts of a thread's share, and how much more than the undivided share they may cost. */
#define PARTS_OF_THREAD 4
#define MOST_COST 1.02

typedef struct run {
    strassen_images_t images;
    const strassen_loops_t *loops;
    int64_t n_tiles, n_pairs; /* pairs of vectors in one half of the outputs */
    int64_t n_blocks;         /* in one half of the inputs */
    int64_t n_chunks;         /* number of chunks of blocks */
    int64_t tiles_at_once;
    int64_t source_elements; /* size of the sources of one tile and one chunk */
    int64_t thread_elements;
    float *scratch;
    int by_tiles, by_pairs; /* numbers of divisions; their product is the number of parts */
} run_t;

bool strassen_fits(int64_t n_inputs, int64_t n_outputs, isa_t isa)
{
    const int64_t lanes = isa_lanes(isa);
    return n_inputs > 0 && n_outputs > 0 && n_inputs % (2 * lanes) == 0 &&
           n_outputs % (2 * STRASSEN_VECTORS * lanes) == 0;
}

static run_t describe(const strassen_t *strassen, isa_t isa)
{
    run_t run = {.images = {.strassen = strassen, .half = divide_up(strassen->n_rows, 2)},
                 .loops = loops[isa]};
    const int64_t lanes = isa_lanes(isa), n_rows = run.loops->n_rows;
    run.images.tiles_of_image = divide_up(run.images.half, n_rows);
    run.images.tile_rows = divide_up(run.images.half, run.images.tiles_of_image);
    run.n_tiles = strassen->n_images * run.images.tiles_of_image;
    run.n_pairs = strassen->n_outputs / (2 * STRASSEN_VECTORS * lanes);
    run.n_blocks = strassen->n_inputs / (2 * lanes);
    run.n_chunks = divide_up(run.n_blocks * lanes, MOST_INPUTS);
    const int64_t n_inputs = divide_up(run.n_blocks, run.n_chunks) * lanes;
    run.source_elements = STRASSEN_TILE(n_inputs, run.images.tile_rows, lanes);
    const int64_t tiles = SOURCE_BYTES / (run.source_elements * (int64_t)sizeof(float));
    run.tiles_at_once = tiles > run.n_tiles ? run.n_tiles : tiles > 0 ? tiles : 1;
    run.thread_elements = run.tiles_at_once * run.source_elements +
                          STRASSEN_WEIGHTS * STRASSEN_WEIGHT(n_inputs, lanes);
    return run;
}

/* Estimates the time of a part with the most tiles and pairs, in products of vectors. */
static double part_cost(const run_t *run, int by_tiles, int by_pairs, isa_t isa)
{
    const int64_t lanes = isa_lanes(isa), n_tiles = divide_up(run->n_tiles, by_tiles);
    const double n_pairs = (double)divide_up(run->n_pairs, by_pairs);
    const double rows = (double)(n_tiles * run->images.tile_rows);
    const double of_input = STRASSEN_SOURCES * STRASSEN_VECTORS * rows * n_pairs +
                            SOURCE_COST / (double)lanes * rows +
                            WEIGHT_COST * n_pairs * (double)divide_up(n_tiles, run->tiles_at_once);
    return of_input * (double)(run->n_blocks * lanes) +
           LEAVE_COST * (double)(n_tiles * run->n_chunks) * n_pairs;
}

/* Chooses the numbers of parts into which tiles and pairs of outputs are divided, n_parts together,
 * so that the cost of a part is least; returns this cost. A part computes the sources of its tiles
 * and, for each tiles_at_once tiles, the sums of the weight for its pairs. */
static double divide_into(run_t *run, int n_parts, isa_t isa)
{
    double least = 0.0;
    for (int by_tiles = 1; by_tiles <= n_parts; by_tiles++) {
        if (n_parts % by_tiles != 0) continue;
        const double cost = part_cost(run, by_tiles, n_parts / by_tiles, isa);
        if (by_tiles > 1 && cost >= least) continue;
        least = cost;
        run->by_tiles = by_tiles;
        run->by_pairs = n_parts / by_tiles;
    }
    return least;
}

/* Chooses the most parts for each thread, at most PARTS_OF_THREAD, that cost almost no more than
 * one. If a thread then loses its core, it delays a part and not its share. */
static void divide(run_t *run, int n_threads, isa_t isa)
{
    const double most = MOST_COST * divide_into(run, n_threads, isa);
    for (int n = n_threads > 1 ? PARTS_OF_THREAD : 1; n > 0; n--)
        if (n * divide_into(run, n * n_threads, isa) <= most) return;
}

double strassen_flops(const strassen_t *strassen, isa_t isa, int n_threads)
{
    run_t run = describe(strassen, isa);
    return 2.0 * isa_lanes(isa) * n_threads * divide_into(&run, n_threads, isa);
}

/* Computes one part, at most tiles_at_once tiles at a time. */
static void run_part(const run_t *run, int64_t of_tiles, int64_t of_pairs, float *scratch)
{
    const int64_t begin = run->n_tiles * of_tiles / run->by_tiles;
    const int64_t end = run->n_tiles * (of_tiles + 1) / run->by_tiles;
    const int64_t n_turns = divide_up(end - begin, run->tiles_at_once);
    for (int64_t turn = 0; turn < n_turns; turn++)
        for (int64_t chunk = 0; chunk < run->n_chunks; chunk++) {
            const strassen_part_t part = {
                .first = begin + (end - begin) * turn / n_turns,
                .last = begin + (end - begin) * (turn + 1) / n_turns,
                .first_pair = run->n_pairs * of_pairs / run->by_pairs,
                .last_pair = run->n_pairs * (of_pairs + 1) / run->by_pairs,
                .first_block = run->n_blocks * chunk / run->n_chunks,
                .last_block = run->n_blocks * (chunk + 1) / run->n_chunks,
                .sources = scratch,
                .weights = scratch + run->tiles_at_once * run->source_elements};
            run->loops->multiply(&run->images, &part);
        }
}

static void run_parts(void *user, int64_t first, int64_t last, int member)
{
    const run_t *run = user;
    for (int64_t i = first; i < last; i++)
        run_part(run, i % run->by_tiles, i / run->by_tiles,
                 run->scratch + member * run->thread_elements);
}

size_t strassen_scratch(const strassen_t *strassen, isa_t isa, int n_threads)
{
    const run_t run = describe(strassen, isa);
    return (size_t)(n_threads * run.thread_elements) * sizeof(float);
}

void strassen_run(const strassen_t *strassen, isa_t isa, int n_threads, void *scratch)
{
    run_t run = describe(strassen, isa);
    run.scratch = scratch;
    divide(&run, n_threads, isa);
    threads_share_members(n_threads, run.by_tiles * run.by_pairs, run_parts, &run);
}
