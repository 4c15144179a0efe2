#include "kernels/conv/parities_impl.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Finds the columns [*first, *last) of a row of the result for which both elements of x exist. */
static void find_inner(const parities_t *p, int64_t *first, int64_t *last)
{
    const int64_t begin = p->left > 0 ? (p->left + 1) / 2 : 0, end = (p->width + p->left) / 2;
    *last = end < p->split_width ? end : p->split_width;
    *first = begin < *last ? begin : *last;
}

static float element(const parities_t *p, const float *row, int64_t x)
{
    return x >= 0 && x < p->width ? row[x] : 0.0f;
}

/* Splits a row of x into its elements of even and odd columns. A NULL row is all zeros. */
static void split_row(const parities_t *p, const float *row, float *to)
{
    int64_t first = 0, last = 0;
    const float none[2] = {0.0f, 0.0f};
    if (row != NULL) find_inner(p, &first, &last);
    for (int64_t x = 0; x < p->split_width; x++, to += p->lanes) {
        const int64_t at = 2 * x - p->left;
        if (row == NULL) {
            memcpy(to, none, sizeof none);
        } else if (x >= first && x < last) {
            memcpy(to, row + at, sizeof none);
        } else {
            to[0] = element(p, row, at);
            to[1] = element(p, row, at + 1);
        }
    }
}

/* Writes the padded lanes, too. */
void parities_split(const parities_t *p, int64_t first, int64_t last)
{
    const int64_t per_block = p->lanes / 4, plane = p->split_height * p->split_width * p->lanes;
    const int64_t n_blocks = (p->n_channels + per_block - 1) / per_block;
    for (int64_t y = first; y < last; y++)
        for (int64_t c = 0; c < n_blocks * per_block; c++)
            for (int64_t i = 0; i < 2; i++) {
                const int64_t at = 2 * y + i - p->top;
                const bool has = c < p->n_channels && at >= 0 && at < p->height;
                split_row(p, has ? p->x + (c * p->height + at) * p->width : NULL,
                          p->split + c / per_block * plane + y * p->split_width * p->lanes +
                              c % per_block * 4 + 2 * i);
            }
}

void parities_split_weight(int64_t n_outputs, int64_t n_inputs, int64_t size, const float *from,
                           float *to)
{
    const int64_t half = (size + 1) / 2;
    memset(to, 0, (size_t)(n_outputs * n_inputs * 4 * half * half) * sizeof *to);
    for (int64_t plane = 0; plane < n_outputs * n_inputs; plane++)
        for (int64_t y = 0; y < size; y++)
            for (int64_t x = 0; x < size; x++, from++) {
                const int64_t parity = y % 2 * 2 + x % 2;
                to[((plane * 4 + parity) * half + y / 2) * half + x / 2] = *from;
            }
}
