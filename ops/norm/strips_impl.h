/* How norms iterate over a batch: by strips of up to 64 adjacent channels with all of their
 * elements.
 *
 * A strip consists of runs of rows; a row has one element of each channel. In a blocked format, a
 * strip is a block of, for example, 16 channels: [n][spatial][16]. A run is one image of it, and a
 * row is one position. In the plain format a strip has one channel, so a row is one element. In
 * channels last, strips have 64 channels and a single run. Runs are processed in chunks of about
 * 4096 elements. Sums are stored per chunk and channel, so that results do not depend on the number
 * of threads. */
#ifndef TESSERA_OPS_NORM_STRIPS_IMPL_H
#define TESSERA_OPS_NORM_STRIPS_IMPL_H

#include "kernels/norm/batch_norm_impl.h"
#include "ops/walk_impl.h"

typedef struct strips {
    int64_t n, width;             /* strips, and channels in one; the last strip may have fewer */
    int64_t channels;             /* without padding */
    int64_t padded;               /* with padding */
    int64_t n_runs, rows;         /* runs in a strip, rows in a run */
    int64_t step, run_step;       /* strides of rows and of runs, in elements */
    int64_t strip_step;           /* stride of strips */
    int64_t chunk_rows, n_chunks; /* rows in a chunk (the last may have fewer); chunks in a strip */
} strips_t;

/* Describes the strips of a walk. Returns false for a blocked format with blocks of more than
 * STRIP_LANES channels. */
bool strips_of(const walk_t *walk, strips_t *out_strips);

typedef struct chunk {
    int64_t strip, channel, offset; /* channel: its first one; offset: its first element */
    int64_t rows, width, step;
} chunk_t;

chunk_t strips_chunk(const strips_t *strips, int64_t strip, int64_t index);

/* Number of elements in one channel of the batch. */
static inline int64_t strips_count(const strips_t *strips)
{
    return strips->n_runs * strips->rows;
}

/* Splits a chunk into lines of several rows, then lines of the rows left over; either may be
 * empty. */
void strips_lines(const chunk_t *chunk, lines_t out_lines[2]);

/* Callbacks for each strip: `begin` (may be NULL), `add` for each chunk, `settle`, then `apply` for
 * each chunk while the strip is in the cache. If there are too few strips to keep all threads busy,
 * each stage runs for all strips before the next stage, and the chunks are divided among the
 * threads. */
typedef struct strips_body {
    void (*begin)(void *user, int64_t strip);
    void (*add)(void *user, const chunk_t *chunk, int64_t index);
    void (*settle)(void *user, int64_t strip);
    void (*apply)(void *user, const chunk_t *chunk);
} strips_body_t;

void strips_run(int n_threads, const strips_t *strips, const strips_body_t *body, void *user);

#endif
