#include "kernels/recurrent/sequence_impl.h"

#include <string.h>

#include "kernels/linear/strassen_impl.h"
#include "kernels/tiles_impl.h"
#include "tensor/threads/threads_impl.h"

static const sequence_loops_t *const loops[ISA_COUNT] = ISA_TABLE(sequence);

/* Rows of x multiplied at once: enough to amortise reading the weight from memory. Strassen's
 * algorithm multiplies fewer, so that its sums of quarters of x stay in the L2 cache. */
#define ROWS_AT_ONCE 64
#define STRASSEN_ROWS_AT_ONCE 32

/* ---- weights ---- */

static int64_t count_blocks(int64_t n_elements, int64_t lanes)
{
    return n_elements / lanes + (n_elements % lanes > 0 ? 1 : 0);
}

bool sequence_weight_elements(sequence_cell_t cell, int64_t n_elements, int64_t n_inputs,
                              int64_t lanes, int64_t *out_n)
{
    return !__builtin_mul_overflow(count_blocks(n_elements, lanes), sequence_gates(cell) * lanes,
                                   out_n) &&
           !__builtin_mul_overflow(*out_n, n_inputs, out_n);
}

void sequence_pack(sequence_cell_t cell, int64_t n_elements, int64_t n_inputs, int64_t lanes,
                   const float *weight, float *out)
{
    const int64_t n_gates = sequence_gates(cell), step = n_gates * lanes;
    for (int64_t gate = 0; gate < n_gates; gate++) {
        for (int64_t element = 0; element < n_elements; element++, weight += n_inputs) {
            float *to = out + element / lanes * n_inputs * step + gate * lanes + element % lanes;
            for (int64_t i = 0; i < n_inputs; i++) to[i * step] = weight[i];
        }
    }
}

bool sequence_has_halves(sequence_cell_t cell, int64_t n_elements, int64_t n_inputs, int64_t lanes)
{
    return cell == SEQUENCE_LSTM && n_elements > 0 && n_inputs > 0 && n_elements % lanes == 0 &&
           n_inputs % (2 * lanes) == 0;
}

bool sequence_halves_elements(int64_t n_elements, int64_t n_inputs, int64_t *out_n)
{
    return !__builtin_mul_overflow(n_elements, SEQUENCE_HALVES, out_n) && /* 4 gates * 7 / 4 */
           !__builtin_mul_overflow(*out_n, n_inputs, out_n);
}

/* Packs two outputs, `first` and `last` from the two halves of the outputs, in the order in which
 * sequence_halves_impl.h reads them. */
static void pack_outputs(int64_t n_inputs, int64_t lanes, const float *first, const float *last,
                         float *out)
{
    const int64_t half = n_inputs / 2, step = 2 * lanes;
    for (int64_t i = 0; i < half; i++, out += step) {
        const float w11 = first[i], w21 = first[half + i], w12 = last[i], w22 = last[half + i];
        const float t1 = w12 - w11, t2 = w22 - t1;
        const float all[SEQUENCE_HALVES] = {w11, w21, t2, w22 - w12, w21 - t2, t1, w22};
        for (int k = 0; k < SEQUENCE_HALVES; k++) out[k * half * step] = all[k];
    }
}

void sequence_pack_halves(int64_t n_elements, int64_t n_inputs, int64_t lanes, const float *weight,
                          float *out)
{
    const int64_t block = SEQUENCE_HALVES * n_inputs * lanes, half = 2 * n_elements * n_inputs;
    for (int64_t gate = 0; gate < 2; gate++)
        for (int64_t element = 0; element < n_elements; element++, weight += n_inputs)
            pack_outputs(n_inputs, lanes, weight, weight + half,
                         out + element / lanes * block + gate * lanes + element % lanes);
}

/* ---- scratch ---- */

/* Rounds n floats up to an odd number of cache lines. If the stride of rows were a power of two,
 * all rows would share one set of the L1 cache. */
static int64_t odd_lines(int64_t n)
{
    return ((n + 15) / 16 | 1) * 16;
}

/* Number of floats in the sources of up to n_rows rows (sums of quarters, strassen_impl.h). */
static int64_t count_sources(int64_t n_rows, int64_t n_inputs, isa_t isa)
{
    const int64_t half = divide_up(n_rows, 2), most = loops[isa]->n_rows;
    return divide_up(half, most) *
           STRASSEN_TILE(n_inputs / 2, half < most ? half : most, isa_lanes(isa));
}

static void make_run(const sequence_t *s, isa_t isa, sequence_run_t *run)
{
    const int64_t lanes = isa_lanes(isa), n_blocks = count_blocks(s->n_elements, lanes);
    const int64_t rows = s->by_strassen ? STRASSEN_ROWS_AT_ONCE : ROWS_AT_ONCE;
    const int64_t most = s->n_sequences < rows ? rows / s->n_sequences : 1;
    *run = (sequence_run_t){.sequence = s,
                            .lanes = lanes,
                            .n_blocks = n_blocks,
                            .n_rows = s->n_sequences * (most < s->n_steps ? most : s->n_steps),
                            .x_stride = odd_lines(s->n_inputs),
                            .state_stride = odd_lines(n_blocks * lanes)};
    if (!s->by_strassen) return;
    const int64_t of_x = count_sources(run->n_rows, s->n_inputs, isa);
    const int64_t of_h = count_sources(s->n_sequences, s->n_elements, isa);
    run->sources_of_thread = of_x > of_h ? of_x : of_h;
}

/* Reserves n * floats floats of scratch, rounded up to 64 bytes. False on overflow. */
static bool place(int64_t n, int64_t floats, char *scratch, int64_t *at, float **out)
{
    int64_t bytes = 0;
    if (scratch != NULL) *out = (float *)(void *)(scratch + *at);
    return !__builtin_mul_overflow(n, floats, &bytes) &&
           !__builtin_mul_overflow(bytes, (int64_t)sizeof(float), &bytes) &&
           !__builtin_add_overflow(bytes, 63, &bytes) &&
           !__builtin_add_overflow(*at, bytes / 64 * 64, at);
}

/* Places all buffers in scratch and counts its bytes. If scratch is NULL, only counts. */
static bool place_all(sequence_run_t *run, int n_threads, char *scratch, int64_t *out_bytes)
{
    const sequence_t *s = run->sequence;
    const int64_t padded = run->n_blocks * run->lanes, gates = sequence_gates(s->cell) * padded;
    *out_bytes = 0;
    return (s->by_strassen
                ? place(n_threads, run->sources_of_thread, scratch, out_bytes, &run->sources)
                : place(run->n_rows, run->x_stride, scratch, out_bytes, &run->x)) &&
           place(run->n_rows, gates, scratch, out_bytes, &run->sums) &&
           place(1, gates, scratch, out_bytes, &run->bias) &&
           place(1, padded, scratch, out_bytes, &run->inner_bias) &&
           (s->peephole == NULL || place(3, padded, scratch, out_bytes, &run->peephole)) &&
           place(s->n_sequences, run->state_stride, scratch, out_bytes, &run->h[0]) &&
           place(s->n_sequences, run->state_stride, scratch, out_bytes, &run->h[1]) &&
           place(s->n_sequences, run->state_stride, scratch, out_bytes, &run->c);
}

/* True if the sizes of the sources do not overflow. */
static bool are_possible(const sequence_t *s, int64_t n_rows)
{
    int64_t n = 0;
    return !__builtin_mul_overflow(divide_up(n_rows, 2) + STRASSEN_MOST_ROWS,
                                   s->n_inputs > s->n_elements ? s->n_inputs : s->n_elements, &n) &&
           n <= INT64_MAX / (8 * STRASSEN_SOURCES);
}

bool sequence_scratch(const sequence_t *sequence, isa_t isa, int n_threads, size_t *out_bytes)
{
    sequence_run_t run;
    int64_t bytes = 0, elements = 0;
    if (sequence->n_inputs > INT64_MAX / 8 || sequence->n_sequences > INT64_MAX / ROWS_AT_ONCE ||
        !sequence_weight_elements(sequence->cell, sequence->n_elements, 1, isa_lanes(isa),
                                  &elements))
        return false;
    make_run(sequence, isa, &run);
    if (sequence->by_strassen && !are_possible(sequence, run.n_rows)) return false;
    if (!place_all(&run, n_threads, NULL, &bytes)) return false;
    *out_bytes = (size_t)bytes;
    return true;
}

/* ---- before and after the steps ---- */

/* Adds from[part][element] to to[block][part][lane] for all n_parts parts. `of` is the number of
 * parts of `to`. */
static void add_blocks(const sequence_run_t *run, const float *from, int n_parts, int of, float *to)
{
    const int64_t n = run->sequence->n_elements, lanes = run->lanes;
    for (int part = 0; from != NULL && part < n_parts; part++)
        for (int64_t i = 0; i < n; i++)
            to[(i / lanes * of + part) * lanes + i % lanes] += from[part * n + i];
}

static void begin_states(const sequence_run_t *run, const float *from, float *to)
{
    const sequence_t *s = run->sequence;
    const size_t bytes = (size_t)s->n_elements * sizeof(float);
    memset(to, 0, (size_t)(s->n_sequences * run->state_stride) * sizeof(float));
    for (int64_t n = 0; from != NULL && n < s->n_sequences; n++)
        memcpy(to + n * run->state_stride, from + n * s->n_elements, bytes);
}

static void end_states(const sequence_run_t *run, const float *from, float *to)
{
    const sequence_t *s = run->sequence;
    for (int64_t n = 0; n < s->n_sequences; n++)
        memcpy(to + n * s->n_elements, from + n * run->state_stride,
               (size_t)s->n_elements * sizeof(float));
}

static void begin(const sequence_run_t *run)
{
    const sequence_t *s = run->sequence;
    const int n_gates = sequence_gates(s->cell);
    const bool has_inner = s->cell == SEQUENCE_GRU;
    const int64_t padded = run->n_blocks * run->lanes;
    memset(run->bias, 0, (size_t)(n_gates * padded) * sizeof(float));
    add_blocks(run, s->bias_ih, n_gates, n_gates, run->bias);
    add_blocks(run, s->bias_hh, has_inner ? 2 : n_gates, n_gates, run->bias);
    memset(run->inner_bias, 0, (size_t)padded * sizeof(float));
    if (has_inner && s->bias_hh != NULL)
        add_blocks(run, s->bias_hh + 2 * s->n_elements, 1, 1, run->inner_bias);
    if (s->peephole != NULL) {
        memset(run->peephole, 0, (size_t)(3 * padded) * sizeof(float));
        add_blocks(run, s->peephole, 3, 3, run->peephole);
    }
    begin_states(run, s->h0, run->h[0]);
    begin_states(run, NULL, run->h[1]);
    begin_states(run, s->c0, run->c);
}

/* One of the loops that threads share: over rows of x or over blocks. */
typedef struct task {
    const sequence_run_t *run;
    const sequence_loops_t *loops;
    int64_t step;
    int64_t n_parts; /* parts of the blocks: one for each thread */
} task_t;

static void copy_rows(void *user, int64_t first, int64_t last)
{
    const sequence_run_t *run = ((const task_t *)user)->run;
    const sequence_t *s = run->sequence;
    for (int64_t row = first; row < last; row++)
        memcpy(run->x + row * run->x_stride, s->x + sequence_row(run, row),
               (size_t)s->n_inputs * sizeof(float));
}

/* The run as one thread sees it: each thread has its own sources. */
static sequence_run_t run_of(const task_t *task, int member)
{
    sequence_run_t run = *task->run;
    if (run.sequence->by_strassen) run.sources += member * run.sources_of_thread;
    return run;
}

static void project_parts(void *user, int64_t first, int64_t last, int member)
{
    const task_t *task = user;
    const sequence_run_t run = run_of(task, member);
    task->loops->project(&run, run.n_blocks * first / task->n_parts,
                         run.n_blocks * last / task->n_parts);
}

static void step_parts(void *user, int64_t first, int64_t last, int member)
{
    const task_t *task = user;
    const sequence_run_t run = run_of(task, member);
    task->loops->step(&run, task->step, run.n_blocks * first / task->n_parts,
                      run.n_blocks * last / task->n_parts);
}

/* Each step is a loop of the pool, whose members have the same blocks in each step, because their
 * weights are in the member's cache. If a worker has no core, the caller takes its blocks. */
static void run_steps(sequence_run_t *run, const sequence_loops_t *isa, int n_threads)
{
    const sequence_t *s = run->sequence;
    const int64_t at_once = run->n_rows / s->n_sequences;
    task_t task = {.run = run, .loops = isa, .n_parts = n_threads};
    if (task.n_parts > run->n_blocks) task.n_parts = run->n_blocks;
    for (; run->first_step < s->n_steps; run->first_step = run->last_step) {
        const int64_t rest = s->n_steps - run->first_step;
        run->last_step = run->first_step + (rest < at_once ? rest : at_once);
        const int64_t n_rows = (run->last_step - run->first_step) * s->n_sequences;
        if (!s->by_strassen) threads_share(n_threads, n_rows, copy_rows, &task);
        threads_share_members(n_threads, task.n_parts, project_parts, &task);
        for (task.step = run->first_step; task.step < run->last_step; task.step++)
            threads_share_members(n_threads, task.n_parts, step_parts, &task);
    }
}

void sequence_run(const sequence_t *sequence, isa_t isa, int n_threads, void *scratch)
{
    sequence_run_t run;
    int64_t bytes = 0;
    make_run(sequence, isa, &run);
    place_all(&run, n_threads, scratch, &bytes);
    begin(&run);
    run_steps(&run, loops[isa], n_threads);
    end_states(&run, run.h[sequence->n_steps % 2], sequence->h);
    if (sequence->cell == SEQUENCE_LSTM) end_states(&run, run.c, sequence->c);
}
