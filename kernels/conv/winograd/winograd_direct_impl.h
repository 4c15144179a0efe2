/* Direct sums for results that Winograd's transforms cannot compute, for vectors of KERNEL_LANES
 * floats.
 *
 * In the transforms, a NaN or an infinity in x affects all results of its tile, and numbers near
 * 3e38 may overflow. So if a row of a tile has a result that is not finite, finish_tile does not
 * store the row, and finish_directly computes it as direct sums. The kernels are recovered from the
 * transformed weight, in double. A recovered element of at most FACTOR_TINY times the largest one
 * is set to zero: it may be a zero with a rounding error, and zero times infinity must be NaN. */
#include "kernels/conv/winograd/winograd_results_impl.h"

/* State of the direct sums for one vector of outputs (`out_block`) of a group of tiles. The
 * products of the tiles are no longer needed, so the sum for result [y][x] overwrites point [y][x].
 * Each tile has this point, because it is not in the last row or column. */
typedef struct direct {
    const winograd_group_t *group;
    const uint8_t *rows; /* for each tile, the rows that finish_tile did not store, as bits */
    int64_t out_block;
    float *sums; /* [side^2][tiles][lanes * WINOGRAD_VECTORS] */
    int64_t stride;
    const finish_t *finish;
    double matrix[WINOGRAD_MAX_KERNEL][WINOGRAD_MAX_SIDE]; /* from winograd_recovery */
    int64_t channel;                                       /* channel of the kernels in `taps` */
    vector_t taps[WINOGRAD_MAX_KERNEL * WINOGRAD_MAX_KERNEL];
} direct_t;

static void recover_half(direct_t *d, int half)
{
    const winograd_t *w = d->group->winograd;
    const int kernel = w->kernel, n = w->tile + kernel - 1;
    const int64_t n_channels = d->group->n_source_blocks * KERNEL_LANES;
    const int64_t block = d->out_block / WINOGRAD_VECTORS, k = d->out_block % WINOGRAD_VECTORS;
    const bool is_wide = w->n_outputs - block * WIDTH > KERNEL_LANES;
    const int64_t width = is_wide ? WIDTH : KERNEL_LANES;
    const factor_t *weight = (const factor_t *)w->weight + block * n * n * n_channels * WIDTH;
    wide_t rows[WINOGRAD_MAX_KERNEL][WINOGRAD_MAX_SIDE] = {{{0}}};
    for (int i = 0; i < n * n; i++) {
        const vector_t all = load_weight(weight + i * n_channels * width, d->channel, width,
                                         k * KERNEL_LANES);
        narrow_t values;
        memcpy(&values, (const char *)&all + (size_t)half * sizeof values, sizeof values);
        const wide_t wide = __builtin_convertvector(values, wide_t);
        for (int r = 0; r < kernel; r++) rows[r][i % n] += d->matrix[r][i / n] * wide;
    }
    for (int i = 0; i < kernel * kernel; i++) {
        wide_t sum = {0};
        for (int x = 0; x < n; x++) sum += d->matrix[i % kernel][x] * rows[i / kernel][x];
        const narrow_t tap = __builtin_convertvector(sum, narrow_t);
        memcpy((char *)&d->taps[i] + (size_t)half * sizeof tap, &tap, sizeof tap);
    }
}

/* Recovers the kernels between the channel and the vector of outputs from the transformed
 * weight. */
static void recover(direct_t *d)
{
    const winograd_t *w = d->group->winograd;
    const int n = w->kernel * w->kernel;
    vector_t *taps = d->taps, largest = {0};
    if (w->plain != NULL) {
        int64_t outputs[WIDTH];
        float from[WINOGRAD_MAX_KERNEL * WINOGRAD_MAX_KERNEL][WIDTH];
        find_outputs(w->plain, d->out_block * KERNEL_LANES, outputs);
        load_kernels(w->plain, w->kernel, d->channel, outputs, from);
        for (int i = 0; i < n; i++) taps[i] = vector_load(from[i]);
        return;
    }
    for (int half = 0; half < 2; half++) recover_half(d, half);
    for (int i = 0; i < n; i++) largest = vector_max(largest, vector_max(taps[i], -taps[i]));
    for (int i = 0; i < n; i++) {
        const vector_t size = vector_max(taps[i], -taps[i]);
        const vector_u32_t is_tiny = (vector_u32_t)(size <= FACTOR_TINY * largest);
        taps[i] = (vector_t)(~is_tiny & (vector_u32_t)taps[i]);
    }
}

/* Number of results in a row of a tile. A short tile has one less. */
static int64_t count_columns(const winograd_group_t *g, const winograd_tile_t *tile)
{
    const winograd_t *w = g->winograd;
    return at_most(w->out_width - begin_of(tile->x, g->long_x, w->tile),
                   tile->x < g->long_x ? w->tile : w->tile - 1);
}

static float load_source(const winograd_t *w, int64_t at)
{
    if (!w->is_bf16) return ((const float *)w->x)[at];
    const uint32_t bits = (uint32_t)((const uint16_t *)w->x)[at] << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float *sums_of(const direct_t *d, const winograd_tile_t *tile, int row)
{
    const winograd_t *w = d->group->winograd;
    const int side = winograd_side(w->tile, w->kernel, w->stride);
    return d->sums + row * side * d->stride + tile->number[0] * WIDTH;
}

static void clear_row(const direct_t *d, const winograd_tile_t *tile, int row)
{
    float *sums = sums_of(d, tile, row);
    for (int64_t i = 0; i < count_columns(d->group, tile); i++)
        vector_store((vector_t){0}, sums + i * d->stride);
}

/* Adds the products of a channel. If a split kernel has an odd size, its odd rows and columns are
 * one element shorter. */
static void add_row(const direct_t *d, const winograd_tile_t *tile, int row)
{
    const winograd_group_t *g = d->group;
    const winograd_t *w = g->winograd;
    const int64_t c = d->channel, lane = c % KERNEL_LANES;
    const int64_t n_rows = w->split > 0 ? (w->split - c % 4 / 2 + 1) / 2 : w->kernel;
    const int64_t n_columns = w->split > 0 ? (w->split - c % 2 + 1) / 2 : w->kernel;
    const int64_t y = (begin_of(tile->y, g->long_y, w->tile) + row) * w->stride - w->top;
    const int64_t begin = begin_of(tile->x, g->long_x, w->tile);
    const int64_t plane = tile->image * g->n_source_blocks + c / KERNEL_LANES;
    const int64_t top = plane * rows_of_x(&w->rows, w->height);
    float *sums = sums_of(d, tile, row);
    for (int64_t i = 0; i < count_columns(g, tile); i++, sums += d->stride) {
        const int64_t x = (begin + i) * w->stride - w->left;
        vector_t sum = vector_load(sums);
        for (int64_t r = y < 0 ? -y : 0; r < n_rows && y + r < w->height; r++)
            for (int64_t s = x < 0 ? -x : 0; s < n_columns && x + s < w->width; s++) {
                const int64_t at = ((top + y + r) * w->width + x + s) * KERNEL_LANES;
                sum += load_source(w, at + lane) * d->taps[r * w->kernel + s];
            }
        vector_store(sum, sums);
    }
}

static void put_row(const direct_t *d, const winograd_tile_t *tile, int row)
{
    const winograd_group_t *g = d->group;
    const winograd_t *w = g->winograd;
    const int64_t n_blocks = (w->n_outputs + KERNEL_LANES - 1) / KERNEL_LANES;
    const int64_t plane = tile->image * n_blocks + d->out_block;
    const int64_t y = begin_of(tile->y, g->long_y, w->tile) + row;
    const int64_t x = begin_of(tile->x, g->long_x, w->tile);
    const int64_t row_at = plane * rows_of_out(&w->rows, w->out_height) + y;
    const int64_t at = (row_at * w->out_width + x) * KERNEL_LANES;
    const float *sums = sums_of(d, tile, row);
    for (int64_t i = 0; i < count_columns(g, tile); i++)
        put(d->finish, vector_load(sums + i * d->stride), at + i * KERNEL_LANES);
}

static void each_row(const direct_t *d,
                     void (*visit)(const direct_t *d, const winograd_tile_t *tile, int row))
{
    winograd_tile_t tile = winograd_first_tile(d->group);
    for (int64_t i = 0; i < d->group->n_tiles; i++, winograd_next_tile(d->group, &tile))
        for (int row = 0; d->rows[i] >> row != 0; row++)
            if ((d->rows[i] >> row & 1) != 0) visit(d, &tile, row);
}

static __attribute__((noinline)) void finish_directly(const winograd_group_t *g, int64_t out_block,
                                                      float *products, int64_t stride,
                                                      const finish_t *finish, const uint8_t *rows)
{
    direct_t d = {.group = g,
                  .rows = rows,
                  .out_block = out_block,
                  .sums = products,
                  .stride = stride,
                  .finish = finish};
    winograd_recovery(g->winograd, d.matrix);
    each_row(&d, clear_row);
    for (d.channel = 0; d.channel < g->winograd->n_inputs; d.channel++) {
        recover(&d);
        each_row(&d, add_row);
    }
    each_row(&d, put_row);
}

/* Computes one vector of outputs for all tiles. */
KERNEL_INLINE void finish_tiles(const winograd_group_t *g, int n_pairs, int tile, int step,
                                int64_t out_block, float *products, int64_t stride)
{
    const winograd_t *w = g->winograd;
    const int64_t rest = w->n_outputs - out_block * KERNEL_LANES;
    const int64_t n_blocks = (w->n_outputs + KERNEL_LANES - 1) / KERNEL_LANES;
    const finish_t finish = {w, vector_load(g->bias + out_block * KERNEL_LANES),
                             rest < KERNEL_LANES ? (int)rest : KERNEL_LANES,
                             w->streams && (uintptr_t)w->out % sizeof(vector_t) == 0};
    winograd_tile_t at = winograd_first_tile(g);
    uint8_t left_out[WINOGRAD_MAX_TILES], any = 0;
    for (int64_t i = 0; i < g->n_tiles; i++, winograd_next_tile(g, &at)) {
        const int64_t y = begin_of(at.y, g->long_y, tile), x = begin_of(at.x, g->long_x, tile);
        const int64_t plane = at.image * n_blocks + out_block;
        const int64_t row = plane * rows_of_out(&w->rows, w->out_height) + y;
        result_t result = {.stride = stride,
                           .at = (row * w->out_width + x) * KERNEL_LANES,
                           .is_long_y = at.y < g->long_y,
                           .is_long_x = at.x < g->long_x};
        result.n_rows = at_most(w->out_height - y, result.is_long_y ? tile : tile - 1);
        result.n_columns = at_most(w->out_width - x, result.is_long_x ? tile : tile - 1);
        for (int kind = 0; kind < WINOGRAD_KINDS; kind++)
            result.products[kind] = products + at.number[kind] * WIDTH;
        left_out[i] = finish_tile(&finish, n_pairs, tile, step, &result);
        any |= left_out[i];
    }
    if (any != 0) finish_directly(g, out_block, products, stride, &finish, left_out);
    if (finish.streams) vector_fence();
}
