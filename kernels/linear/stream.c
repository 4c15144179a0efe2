#include "kernels/linear/stream_impl.h"

#include "tensor/threads/threads_impl.h"

static const stream_loops_t *const loops[ISA_COUNT] = ISA_TABLE(stream);

typedef struct run {
    const stream_t *stream;
    const stream_loops_t *loops;
    float *columns; /* [n_inputs][n_rows], of x */
} run_t;

size_t stream_scratch(bool is_blocked, int64_t n_rows, int64_t n_inputs)
{
    return is_blocked ? (size_t)n_rows * (size_t)n_inputs * sizeof(float) : 0;
}

static void run_rows(void *user, int64_t first, int64_t last)
{
    const run_t *run = user;
    run->loops->rows(run->stream, first, last);
}

static void run_blocks(void *user, int64_t first, int64_t last)
{
    const run_t *run = user;
    run->loops->blocks(run->stream, run->columns, first, last);
}

/* Transposes inputs [first, last) of x, so that the elements of one input are adjacent.
 * Without this, rows whose stride is a power of two would compete for the same lines of the
 * first-level cache. */
static void turn(void *user, int64_t first, int64_t last)
{
    const run_t *run = user;
    const stream_t *s = run->stream;
    for (int64_t b = 0; b < s->n_rows; b++)
        for (int64_t i = first; i < last; i++)
            run->columns[i * s->n_rows + b] = s->x[b * s->x_stride + i];
}

void stream_run(const stream_t *stream, isa_t isa, int n_threads, void *scratch)
{
    run_t run = {stream, loops[isa], scratch};
    const int64_t lanes = stream->elements == STREAM_TRIMMED ? TRIM_ROWS : isa_lanes(isa);
    if (!stream->is_blocked) {
        threads_share(n_threads, stream->n_outputs, run_rows, &run);
        return;
    }
    threads_share(n_threads, stream->n_inputs, turn, &run);
    threads_share(n_threads, (stream->n_outputs + lanes - 1) / lanes, run_blocks, &run);
}
