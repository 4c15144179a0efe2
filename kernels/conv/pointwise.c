#include "kernels/conv/pointwise_impl.h"

#include "kernels/tiles_impl.h"
#include "tensor/threads/threads_impl.h"

static const pointwise_loops_t *const loops[ISA_COUNT] = ISA_TABLE(pointwise);

/* Bytes of x (or of its gathered or normalized copy) that a thread multiplies with all groups of
 * outputs before it reads more of x: half of a second-level cache. */
#define SOURCE_BYTES (512 << 10)

/* Costs, measured on Granite Rapids. PRODUCT_COST: multiplying one byte of x by the weights of one
 * group of outputs. WEIGHT_COST: reading one byte of the weight, which is prefetched. The unit is
 * the cost of reading one byte of x, if other cores have just written half of x. */
#define PRODUCT_COST 2.0
#define WEIGHT_COST 0.125

/* The work of a thread is divided into several parts if these are long enough. If the system takes
 * a thread's core away, other threads compute its remaining parts. Dividing by threads first lets a
 * thread read the x that it has just written, because it has the same tiles in all layers: reading
 * from another core's cache takes long. */
#define PARTS_OF_THREAD 4
#define LEAST_PRODUCTS (256 << 10) /* minimum products in a part: about 5 us */

/* Tiles are cut into by_tiles parts, groups of outputs into by_groups. */
typedef struct cut {
    int by_tiles, by_groups;
} cut_t;

typedef struct run {
    pointwise_images_t images;
    const pointwise_loops_t *loops;
    int64_t n_tiles, n_groups;
    int64_t tiles_at_once;
    int64_t tile_elements; /* elements of x in a tile */
    float *made;           /* n_threads buffers for gathered or normalized x, or NULL */
    cut_t threads, parts;  /* `parts` cuts the tiles and groups of a thread */
    int n_parts;           /* number of parts of a thread */
} run_t;

/* Divides tiles and groups of outputs into n parts. A part reads x of its tiles (`source` elements
 * of x in all tiles) and the weights of its groups. Minimizes n times the cost of products of the
 * longest part, plus the cost of all reads of x and weights. */
static cut_t divide(int64_t n_tiles, int64_t n_groups, int n, double source, double weight)
{
    cut_t cut = {1, n};
    double least = 0.0;
    for (int by_tiles = 1; by_tiles <= n; by_tiles++) {
        const int by_groups = n / by_tiles;
        if (by_tiles * by_groups != n) continue;
        const double products = (double)divide_up(n_tiles, by_tiles) / (double)n_tiles *
                                (double)divide_up(n_groups, by_groups);
        const double cost = PRODUCT_COST * products * source * n + WEIGHT_COST * weight * by_tiles +
                            source * by_groups;
        if (by_tiles > 1 && cost >= least) continue;
        least = cost;
        cut = (cut_t){by_tiles, by_groups};
    }
    return cut;
}

typedef struct range {
    int64_t first, last;
} range_t;

static range_t part_of(range_t range, int64_t i, int n)
{
    const int64_t size = range.last - range.first;
    return (range_t){range.first + size * i / n, range.first + size * (i + 1) / n};
}

static void run_parts(void *user, int64_t first, int64_t last, int member)
{
    const run_t *run = user;
    for (int64_t i = first; i < last; i++) {
        const int64_t thread = i / run->n_parts, part_number = i % run->n_parts;
        const cut_t threads = run->threads, parts = run->parts;
        range_t tiles = part_of((range_t){0, run->n_tiles}, thread % threads.by_tiles,
                                threads.by_tiles);
        range_t groups = part_of((range_t){0, run->n_groups}, thread / threads.by_tiles,
                                 threads.by_groups);
        tiles = part_of(tiles, part_number % parts.by_tiles, parts.by_tiles);
        groups = part_of(groups, part_number / parts.by_tiles, parts.by_groups);
        const int64_t n_turns = divide_up(tiles.last - tiles.first, run->tiles_at_once);
        for (int64_t turn = 0; turn < n_turns; turn++) {
            const range_t some = part_of(tiles, turn, (int)n_turns);
            const pointwise_part_t part = {
                some.first, some.last, groups.first, groups.last,
                run->made == NULL ? NULL
                                  : run->made + member * run->tiles_at_once * run->tile_elements};
            run->loops->multiply(&run->images, &part);
        }
    }
}

/* Number of rows of results to compute. */
static int64_t out_height(const pointwise_t *p)
{
    return p->rows.last > 0 ? p->rows.last - p->rows.first : divide_up(p->height, p->stride);
}

static int64_t out_width(const pointwise_t *p)
{
    return divide_up(p->width, p->stride);
}

/* Describes the tiles, and how many of them are multiplied at once. */
static run_t describe(const pointwise_t *pointwise, isa_t isa)
{
    run_t run = {.images = {.pointwise = pointwise}, .loops = loops[isa]};
    const int64_t lanes = isa_lanes(isa), n_rows = run.loops->n_rows;
    const int64_t row = out_width(pointwise) * lanes;
    run.images.plane = out_height(pointwise) * out_width(pointwise);
    run.images.source_plane = rows_of_x(&pointwise->rows, pointwise->height) * pointwise->width *
                              lanes;
    run.images.out_plane = rows_of_out(&pointwise->rows, out_height(pointwise)) * row;
    run.images.tiles_of_image = divide_up(run.images.plane, n_rows);
    run.n_tiles = pointwise->n_images * run.images.tiles_of_image;
    run.n_groups = divide_up(pointwise->n_outputs, POINTWISE_BLOCKS * lanes);
    run.tile_elements = divide_up(pointwise->n_inputs, lanes) * lanes * n_rows;
    const int64_t tiles = SOURCE_BYTES / (run.tile_elements * (int64_t)sizeof(float));
    run.tiles_at_once = tiles > run.n_tiles ? run.n_tiles : tiles > 0 ? tiles : 1;
    return run;
}

/* True if x is normalized or gathered before it is multiplied. */
static bool makes_sources(const pointwise_t *pointwise)
{
    return pointwise->is_scaled || pointwise->stride != 1;
}

size_t pointwise_scratch(const pointwise_t *pointwise, isa_t isa, int n_threads)
{
    const run_t run = describe(pointwise, isa);
    if (!makes_sources(pointwise)) return 0;
    return (size_t)(n_threads * run.tiles_at_once * run.tile_elements) * sizeof(float);
}

/* Moves the pointers to the first row. */
static pointwise_t begin_at_row(const pointwise_t *pointwise, int64_t lanes)
{
    pointwise_t moved = *pointwise;
    const int64_t n = pointwise->rows.first * pointwise->width * lanes;
    moved.x += n;
    moved.out += n;
    if (moved.addend != NULL) moved.addend += n;
    return moved;
}

void pointwise_run(const pointwise_t *whole, isa_t isa, int n_threads, void *scratch)
{
    const pointwise_t moved = begin_at_row(whole, isa_lanes(isa)), *pointwise = &moved;
    run_t run = describe(pointwise, isa);
    const double source = (double)(run.n_tiles * run.tile_elements);
    const int64_t n_inputs = run.tile_elements / run.loops->n_rows; /* whole blocks */
    const double weight = (double)(n_inputs * pointwise->n_outputs);
    const double of_thread = source * (double)pointwise->n_outputs / n_threads / LEAST_PRODUCTS;
    run.n_parts = of_thread < 1.0 || n_threads == 1 ? 1
                  : of_thread < PARTS_OF_THREAD     ? (int)of_thread
                                                    : PARTS_OF_THREAD;
    run.threads = divide(run.n_tiles, run.n_groups, n_threads, source, weight);
    run.parts = divide(divide_up(run.n_tiles, run.threads.by_tiles),
                       divide_up(run.n_groups, run.threads.by_groups), run.n_parts,
                       source / run.threads.by_tiles, weight / run.threads.by_groups);
    if (makes_sources(pointwise)) run.made = scratch;
    threads_share_members(n_threads, n_threads * run.n_parts, run_parts, &run);
}
