/* Computes the sums of quarters of x and of the weight that Strassen's algorithm needs, for vectors
 * of KERNEL_LANES floats and KERNEL_ROWS rows: see strassen_loops.c. */
#include "kernels/linear/strassen_impl.h"
#include "kernels/linear/strassen_sources_impl.h"
#include "kernels/tiles_impl.h"

#define VECTORS STRASSEN_VECTORS
#define WIDTH (VECTORS * KERNEL_LANES)

/* Vectors of outputs in the weight or in its sums. Strides are in elements. */
typedef struct weights {
    const float *first;
    int64_t input, vector;
} weights_t;

static tile_at_t find_tile(const strassen_images_t *images, int64_t tile)
{
    return tile_find(images->half, images->tiles_of_image, tile);
}

/* Offset of a row in x, in elements. */
static int64_t find_row(const strassen_t *s, int64_t image, int64_t row)
{
    return image * s->x_image + row / s->line_rows * s->x_line + row % s->line_rows * s->x_row;
}

/* Returns a tile's first source. The element before it is 1 if rows are multiplied separately. */
static float *tile_sources(const strassen_images_t *images, const strassen_part_t *part,
                           int64_t tile)
{
    const int64_t n_inputs = (part->last_block - part->first_block) * KERNEL_LANES;
    return part->sources + tile * STRASSEN_TILE(n_inputs, images->tile_rows, KERNEL_LANES) +
           KERNEL_LANES;
}

static source_rows_t find_rows(const strassen_images_t *images, const strassen_part_t *part,
                               tile_at_t at)
{
    const strassen_t *s = images->strassen;
    const int64_t n_last = s->n_rows - images->half - at.begin;
    source_rows_t rows = {.x = s->x + part->first_block * s->x_block,
                          .block = s->x_block,
                          .last_inputs = s->n_inputs / 2 / KERNEL_LANES * s->x_block,
                          .n_rows = at.n_rows,
                          .n_last = n_last < at.n_rows ? n_last : at.n_rows};
    for (int64_t r = 0; r < at.n_rows; r++) {
        rows.first[r] = find_row(s, at.image, at.begin + r);
        rows.last[r] = find_row(s, at.image, at.begin + r + images->half);
    }
    return rows;
}

static void make_tile(const strassen_images_t *images, const strassen_part_t *part, int64_t tile)
{
    const source_rows_t rows = find_rows(images, part, find_tile(images, part->first + tile));
    const int64_t n_blocks = part->last_block - part->first_block;
    float *to = tile_sources(images, part, tile);
    make_flagged_sources(&rows, n_blocks, to);
}

static const float *weight_at(const strassen_t *s, int64_t column, int64_t input)
{
    return s->weight + column / s->weight_outputs * s->weight_block + input * s->weight_outputs +
           column % s->weight_outputs;
}

/* Finds a quarter of the weight, for one pair of vectors of outputs and the inputs of a part. */
static weights_t find_weights(const strassen_t *s, const strassen_part_t *part, int64_t pair,
                              bool has_last_inputs, bool has_last_outputs)
{
    const int64_t input = part->first_block * KERNEL_LANES +
                          (has_last_inputs ? s->n_inputs / 2 : 0);
    const int64_t column = pair * WIDTH + (has_last_outputs ? s->n_outputs / 2 : 0);
    const float *first = weight_at(s, column, input);
    return (weights_t){first, s->weight_outputs,
                       weight_at(s, column + KERNEL_LANES, input) - first};
}

static void make_weights(const strassen_t *s, const strassen_part_t *part, int64_t pair)
{
    const weights_t w11 = find_weights(s, part, pair, false, false);
    const weights_t w12 = find_weights(s, part, pair, false, true);
    const int64_t n_inputs = (part->last_block - part->first_block) * KERNEL_LANES;
    const int64_t last_inputs = s->n_inputs / 2 * s->weight_outputs;
    const int64_t form = STRASSEN_WEIGHT(n_inputs, KERNEL_LANES);
    for (int v = 0; v < VECTORS; v++) {
        const float *first = w11.first + v * w11.vector, *last = w12.first + v * w12.vector;
        float *made = part->weights + v * KERNEL_LANES;
        for (int64_t i = 0; i < n_inputs; i++, made += WIDTH) {
            const vector_t at12 = vector_load(last), t1 = at12 - vector_load(first);
            const vector_t at22 = vector_load(last + last_inputs), t2 = at22 - t1;
            vector_store(t1, made + W12_11 * form);
            vector_store(t2, made + W22_T1 * form);
            vector_store(at22 - at12, made + W22_12 * form);
            vector_store(vector_load(first + last_inputs) - t2, made + W21_T2 * form);
            first += w11.input;
            last += w12.input;
        }
    }
}
