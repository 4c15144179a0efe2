/* How norms over a batch walk: by strips, which are up to 64 channels with all of their elements.
 *
 * A strip lies in runs of rows, and a row has one element of each channel: those of blocked
 * channels are [n][spatial][16], where runs are images and rows positions; of plain channels a row
 * is one element; channels last have one run, and strips of 64 neighbours. Runs are taken in
 * chunks of some thousand elements. What is added up over a chunk is kept for each channel, so that
 * results do not depend on the number of threads. */
#ifndef TESSERA_OPS_NORM_STRIPS_IMPL_H
#define TESSERA_OPS_NORM_STRIPS_IMPL_H

#include "ops/walk_impl.h"

#define STRIP_LANES 64 /* elements that are worked on side by side */

typedef struct strips {
    int64_t n, width;             /* channels of a strip; the last one may have fewer */
    int64_t channels;             /* without padding */
    int64_t padded;               /* with padding */
    int64_t n_runs, rows;         /* of a strip, and of a run */
    int64_t step, run_step;       /* elements from row to row, and from run to run */
    int64_t strip_step;           /* and from strip to strip */
    int64_t chunk_rows, n_chunks; /* rows of a chunk, the last of a run may have fewer; all chunks
                                     of a strip */
} strips_t;

/* False for blocks of more than STRIP_LANES channels. */
bool strips_of(const walk_t *walk, strips_t *out_strips);

typedef struct chunk {
    int64_t strip, channel, offset; /* the first channel, and the first element */
    int64_t rows, width, step;
} chunk_t;

chunk_t strips_chunk(const strips_t *strips, int64_t strip, int64_t index);

/* Elements of a channel. */
static inline int64_t strips_count(const strips_t *strips)
{
    return strips->n_runs * strips->rows;
}

/* Loops take rows without gaps together: 4 rows of 16 channels are one line of 64 lanes. Rows that
 * do not fill a line, and those with gaps, are lines of their own. */
typedef struct lines {
    int64_t n, lanes, step;
    int64_t rows;   /* of a line */
    int64_t offset; /* of the first one, in elements of the chunk */
} lines_t;

/* The lines of several rows, and those behind them; either may be none. */
void strips_lines(const chunk_t *chunk, lines_t out_lines[2]);

/* For each strip: `begin`, which may be NULL, `add` for each of its chunks, `settle`, and `apply`
 * for each of its chunks, while the strip is in the cache; if there are too few strips for the
 * threads, these share the chunks of all strips. */
typedef struct strips_body {
    void (*begin)(void *user, int64_t strip);
    void (*add)(void *user, const chunk_t *chunk, int64_t index);
    void (*settle)(void *user, int64_t strip);
    void (*apply)(void *user, const chunk_t *chunk);
} strips_body_t;

void strips_run(int n_threads, const strips_t *strips, const strips_body_t *body, void *user);

#endif
