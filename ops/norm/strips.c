#include "ops/norm/strips_impl.h"

#include "tensor/threads/threads_impl.h"

#define CHUNK_ELEMENTS 4096

bool strips_of(const walk_t *walk, strips_t *out_strips)
{
    const bool is_last = walk->n_blocks == 1 && walk->block == walk->channels && walk->block > 1;
    if (walk->block > STRIP_LANES && !is_last) return false;
    strips_t strips = {.channels = walk->channels, .padded = walk->n_blocks * walk->block};
    if (is_last) {
        strips.width = walk->block < STRIP_LANES ? walk->block : STRIP_LANES;
        strips.n = (walk->block + strips.width - 1) / strips.width;
        strips.n_runs = 1;
        strips.rows = walk->n * walk->spatial;
        strips.step = walk->block;
        strips.strip_step = strips.width;
    } else {
        strips.width = strips.step = walk->block;
        strips.n = walk->n_blocks;
        strips.n_runs = walk->n;
        strips.rows = walk->spatial;
        strips.strip_step = walk->spatial * walk->block;
    }
    strips.run_step = walk->n_blocks * walk->spatial * walk->block;
    strips.chunk_rows = CHUNK_ELEMENTS / strips.width;
    const int64_t chunks_of_run = (strips.rows + strips.chunk_rows - 1) / strips.chunk_rows;
    strips.n_chunks = strips.n_runs * chunks_of_run;
    *out_strips = strips;
    return true;
}

chunk_t strips_chunk(const strips_t *strips, int64_t strip, int64_t index)
{
    const int64_t chunks_of_run = strips->n_chunks / strips->n_runs;
    const int64_t run = index / chunks_of_run, row = index % chunks_of_run * strips->chunk_rows;
    const int64_t rest = strips->rows - row, channel = strip * strips->width;
    chunk_t chunk = {.strip = strip, .channel = channel, .step = strips->step};
    chunk.offset = run * strips->run_step + strip * strips->strip_step + row * strips->step;
    chunk.rows = rest < strips->chunk_rows ? rest : strips->chunk_rows;
    chunk.width = strips->padded - channel < strips->width ? strips->padded - channel
                                                           : strips->width;
    return chunk;
}

void strips_lines(const chunk_t *chunk, lines_t out_lines[2])
{
    const bool is_joined = chunk->step == chunk->width && STRIP_LANES % chunk->width == 0;
    const int64_t rows = is_joined ? STRIP_LANES / chunk->width : 1, n = chunk->rows / rows;
    out_lines[0] = (lines_t){n, rows * chunk->width, rows * chunk->step, rows, 0};
    out_lines[1] = (lines_t){chunk->rows - n * rows, chunk->width, chunk->step, 1,
                             n * rows * chunk->step};
}

static void run_strip(const strips_t *strips, int64_t strip, const strips_body_t *body, void *user)
{
    if (body->begin != NULL) body->begin(user, strip);
    for (int64_t i = 0; i < strips->n_chunks; i++) {
        const chunk_t chunk = strips_chunk(strips, strip, i);
        body->add(user, &chunk, i);
    }
    body->settle(user, strip);
    for (int64_t i = 0; i < strips->n_chunks; i++) {
        const chunk_t chunk = strips_chunk(strips, strip, i);
        body->apply(user, &chunk);
    }
}

typedef struct run {
    const strips_t *strips;
    const strips_body_t *body;
    void *user;
} run_t;

static void run_strips(void *user, int64_t first, int64_t last)
{
    const run_t *run = user;
    for (int64_t strip = first; strip < last; strip++)
        run_strip(run->strips, strip, run->body, run->user);
}

static void add_chunks(void *user, int64_t first, int64_t last)
{
    const run_t *run = user;
    const int64_t n = run->strips->n_chunks;
    for (int64_t i = first; i < last; i++) {
        const chunk_t chunk = strips_chunk(run->strips, i / n, i % n);
        run->body->add(run->user, &chunk, i % n);
    }
}

static void apply_chunks(void *user, int64_t first, int64_t last)
{
    const run_t *run = user;
    const int64_t n = run->strips->n_chunks;
    for (int64_t i = first; i < last; i++) {
        const chunk_t chunk = strips_chunk(run->strips, i / n, i % n);
        run->body->apply(run->user, &chunk);
    }
}

void strips_run(int n_threads, const strips_t *strips, const strips_body_t *body, void *user)
{
    const int64_t n = strips->n, n_chunks = n * strips->n_chunks;
    run_t run = {strips, body, user};
    if (n % n_threads == 0 || n >= 4 * n_threads) {
        threads_share(n_threads, n, run_strips, &run);
        return;
    }
    for (int64_t strip = 0; strip < n && body->begin != NULL; strip++) body->begin(user, strip);
    threads_share(n_threads, n_chunks, add_chunks, &run);
    for (int64_t strip = 0; strip < n; strip++) body->settle(user, strip);
    threads_share(n_threads, n_chunks, apply_chunks, &run);
}
