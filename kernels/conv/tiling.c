#include "kernels/conv/tiling_impl.h"

#include <string.h>

#include "tensor/threads/threads_impl.h"

int64_t tiling_bias_size(int64_t n_outputs, int64_t n_places)
{
    return (n_outputs * n_places + TILING_BLOCK - 1) / TILING_BLOCK * TILING_BLOCK;
}

int64_t tiling_weight_size(int64_t n_inputs, int64_t n_outputs, int64_t n_places)
{
    return tiling_bias_size(n_outputs, n_places) * n_inputs;
}

void tiling_pack(int64_t n_inputs, int64_t n_outputs, int64_t n_places, const float *weight,
                 float *to)
{
    const int64_t n = n_outputs * n_places, padded = tiling_bias_size(n_outputs, n_places);
    for (int64_t first = 0; first < padded; first += TILING_BLOCK)
        for (int64_t c = 0; c < n_inputs; c++)
            for (int64_t o = first; o < first + TILING_BLOCK; o++)
                *to++ = o < n ? weight[(c * n_outputs + o % n_outputs) * n_places + o / n_outputs]
                              : 0.0f;
}

void tiling_spread(int64_t n_outputs, int64_t n_places, const float *bias, float *to)
{
    const int64_t n = n_outputs * n_places, padded = tiling_bias_size(n_outputs, n_places);
    memset(to, 0, (size_t)padded * sizeof *to);
    for (int64_t o = 0; o < n && bias != NULL; o++) to[o] = bias[o % n_outputs];
}

static tiling_line_t *const loops[ISA_COUNT] = ISA_TABLE(tiling);

typedef struct run {
    const tiling_t *tiling;
    tiling_line_t *line;
} run_t;

static void run_lines(void *user, int64_t first, int64_t last)
{
    const run_t *run = user;
    for (int64_t i = first; i < last; i++) run->line(run->tiling, i);
}

void tiling_run(const tiling_t *tiling, isa_t isa, int n_threads)
{
    run_t run = {tiling, loops[isa]};
    threads_share(n_threads, tiling->n_images * tiling->in[0] * tiling->in[1], run_lines, &run);
}
