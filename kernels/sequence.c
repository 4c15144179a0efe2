#include "kernels/sequence_impl.h"

#include <omp.h>
#include <string.h>

static const sequence_loops_t *const loops[ISA_COUNT] = {[ISA_PORTABLE] = &sequence_portable,
                                                         [ISA_AVX2] = &sequence_avx2,
                                                         [ISA_AVX512] = &sequence_avx512};

/* Products with x that are made at once: enough for their weight to be read from far away. */
#define ROWS_AT_ONCE 64

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

/* ---- scratch ---- */

/* An odd number of lines, in floats: were it a power of two, all rows would share a set of the
 * first cache. */
static int64_t odd_lines(int64_t n)
{
    return ((n + 15) / 16 | 1) * 16;
}

static void make_run(const sequence_t *s, isa_t isa, sequence_run_t *run)
{
    const int64_t lanes = isa_lanes(isa), n_blocks = count_blocks(s->n_elements, lanes);
    const int64_t most = s->n_sequences < ROWS_AT_ONCE ? ROWS_AT_ONCE / s->n_sequences : 1;
    *run = (sequence_run_t){.sequence = s,
                            .lanes = lanes,
                            .n_blocks = n_blocks,
                            .n_rows = s->n_sequences * (most < s->n_steps ? most : s->n_steps),
                            .x_stride = odd_lines(s->n_inputs),
                            .state_stride = odd_lines(n_blocks * lanes)};
}

/* Gives `n` rows of so many floats of scratch. False on overflow. */
static bool place(int64_t n, int64_t floats, char *scratch, int64_t *at, float **out)
{
    int64_t bytes = 0;
    if (scratch != NULL) *out = (float *)(void *)(scratch + *at);
    return !__builtin_mul_overflow(n, floats, &bytes) &&
           !__builtin_mul_overflow(bytes, (int64_t)sizeof(float), &bytes) &&
           !__builtin_add_overflow(bytes, 63, &bytes) &&
           !__builtin_add_overflow(*at, bytes / 64 * 64, at);
}

/* The parts of scratch; without any only their bytes. */
static bool place_all(sequence_run_t *run, char *scratch, int64_t *out_bytes)
{
    const sequence_t *s = run->sequence;
    const int64_t padded = run->n_blocks * run->lanes, gates = sequence_gates(s->cell) * padded;
    *out_bytes = 0;
    return place(run->n_rows, run->x_stride, scratch, out_bytes, &run->x) &&
           place(run->n_rows, gates, scratch, out_bytes, &run->sums) &&
           place(1, gates, scratch, out_bytes, &run->bias) &&
           place(1, padded, scratch, out_bytes, &run->inner_bias) &&
           (s->peephole == NULL || place(3, padded, scratch, out_bytes, &run->peephole)) &&
           place(s->n_sequences, run->state_stride, scratch, out_bytes, &run->h[0]) &&
           place(s->n_sequences, run->state_stride, scratch, out_bytes, &run->h[1]) &&
           place(s->n_sequences, run->state_stride, scratch, out_bytes, &run->c);
}

bool sequence_scratch(const sequence_t *sequence, isa_t isa, size_t *out_bytes)
{
    sequence_run_t run;
    int64_t bytes = 0, elements = 0;
    if (sequence->n_inputs > INT64_MAX / 8 || sequence->n_sequences > INT64_MAX / ROWS_AT_ONCE ||
        !sequence_weight_elements(sequence->cell, sequence->n_elements, 1, isa_lanes(isa),
                                  &elements))
        return false;
    make_run(sequence, isa, &run);
    if (!place_all(&run, NULL, &bytes)) return false;
    *out_bytes = (size_t)bytes;
    return true;
}

/* ---- before and behind the steps ---- */

/* Adds [n_parts][elements] to [blocks][of][lanes], as the parts from `first` on. */
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

/* Rows [first, last) of x: of a step behind the end of its sequence any row that is there. */
static void copy_rows(const sequence_run_t *run, int64_t first, int64_t last)
{
    const sequence_t *s = run->sequence;
    for (int64_t row = first; row < last; row++) {
        const int64_t step = run->first_step + row / s->n_sequences, n = row % s->n_sequences;
        const bool turns = s->is_reverse && step < s->lengths[n];
        const int64_t time = turns ? s->lengths[n] - 1 - step : step;
        memcpy(run->x + row * run->x_stride, s->x + time * s->x_time + n * s->x_sequence,
               (size_t)s->n_inputs * sizeof(float));
    }
}

/* ---- running ---- */

static void meet(int n_members)
{
    if (n_members > 1) {
#pragma omp barrier
    }
}

/* What one of the threads does: they meet before x is read and behind each step, which costs less
 * than a parallel region for each. */
static void run_member(const sequence_run_t *whole, const sequence_loops_t *isa, int member,
                       int n_members)
{
    const sequence_t *s = whole->sequence;
    const int64_t first = whole->n_blocks * member / n_members;
    const int64_t last = whole->n_blocks * (member + 1) / n_members;
    const int64_t at_once = whole->n_rows / s->n_sequences;
    sequence_run_t run = *whole;
    for (; run.first_step < s->n_steps; run.first_step = run.last_step) {
        const int64_t rest = s->n_steps - run.first_step;
        run.last_step = run.first_step + (rest < at_once ? rest : at_once);
        const int64_t n_rows = (run.last_step - run.first_step) * s->n_sequences;
        copy_rows(&run, n_rows * member / n_members, n_rows * (member + 1) / n_members);
        meet(n_members);
        isa->project(&run, first, last);
        for (int64_t step = run.first_step; step < run.last_step; step++) {
            isa->step(&run, step, first, last);
            meet(n_members);
        }
    }
}

void sequence_run(const sequence_t *sequence, isa_t isa, int n_threads, void *scratch)
{
    sequence_run_t run;
    int64_t bytes = 0;
    make_run(sequence, isa, &run);
    place_all(&run, scratch, &bytes);
    begin(&run);
    if (n_threads <= 1) {
        run_member(&run, loops[isa], 0, 1);
    } else {
#pragma omp parallel num_threads(n_threads)
        run_member(&run, loops[isa], omp_get_thread_num(), omp_get_num_threads());
    }
    end_states(&run, run.h[sequence->n_steps % 2], sequence->h);
    if (sequence->cell == SEQUENCE_LSTM) end_states(&run, run.c, sequence->c);
}
