/* The loops of sequence_impl.h, compiled once for each ISA (isa_impl.h). */
#include "kernels/recurrent/sequence_impl.h"
#include "kernels/tiles_impl.h"
#include "kernels/vector_functions_impl.h"

#include "kernels/recurrent/sequence_halves_impl.h"

#if KERNEL_REGISTERS > 16
#define SEQUENCE_ROWS 6 /* rows computed together, with four gates each */
#else
#define SEQUENCE_ROWS 3
#endif
#define CHUNK 512    /* inputs processed at once, so that their weights stay in the L2 cache */
#define MOST_ROWS 32 /* rows that share one read of a weight block */

/* Product of a few rows with one block of a weight: sums[rows][gates][lanes] = from + product. */
typedef struct tile {
    const float *numbers, *weight;
    int64_t stride, n_inputs; /* stride: floats between rows of numbers */
    const float *from;
    int64_t from_stride;    /* 0: same initial sums for all rows */
    const float *last_from; /* initial sum of the last gate; NULL if it is in `from` */
    float *sums;
    const char *ahead; /* prefetched: ahead_step bytes per input */
    int64_t ahead_step;
} tile_t;

/* Multiplies a single row. Uses two accumulators per gate, because each addition waits for the one
 * before it. */
KERNEL_INLINE int64_t multiply_pairs(const tile_t *tile, int n_gates,
                                     vector_t sum[SEQUENCE_MAX_GATES])
{
    const float *weight = tile->weight;
    vector_t other[SEQUENCE_MAX_GATES];
    int64_t i = 0;
    KERNEL_UNROLL
    for (int g = 0; g < n_gates; g++) other[g] = (vector_t){0};
    for (; i + 1 < tile->n_inputs; i += 2, weight += 2 * n_gates * KERNEL_LANES) {
        KERNEL_UNROLL
        for (int g = 0; g < n_gates; g++) {
            sum[g] += tile->numbers[i] * vector_load(weight + g * KERNEL_LANES);
            other[g] += tile->numbers[i + 1] * vector_load(weight + (n_gates + g) * KERNEL_LANES);
        }
    }
    KERNEL_UNROLL
    for (int g = 0; g < n_gates; g++) sum[g] += other[g];
    return i;
}

KERNEL_INLINE void multiply(const tile_t *tile, int n_rows, int n_gates)
{
    vector_t sum[SEQUENCE_ROWS][SEQUENCE_MAX_GATES];
    KERNEL_UNROLL
    for (int r = 0; r < n_rows; r++) KERNEL_UNROLL
    for (int g = 0; g < n_gates; g++)
        sum[r][g] = vector_load(tile->from + r * tile->from_stride + g * KERNEL_LANES);
    if (tile->last_from != NULL) KERNEL_UNROLL
    for (int r = 0; r < n_rows; r++) sum[r][n_gates - 1] = vector_load(tile->last_from);
    int64_t i = n_rows == 1 ? multiply_pairs(tile, n_gates, sum[0]) : 0;
    const float *numbers = tile->numbers + i;
    const float *weight = tile->weight + i * n_gates * KERNEL_LANES;
    const char *ahead = tile->ahead;
    for (; i < tile->n_inputs; i++, numbers++, weight += n_gates * KERNEL_LANES) {
        if (n_rows + 1 >= SEQUENCE_ROWS) { /* fewer rows do not cover the time of prefetching */
            __builtin_prefetch(ahead);
            __builtin_prefetch(ahead + 64);
            ahead += tile->ahead_step;
        }
        KERNEL_UNROLL
        for (int g = 0; g < n_gates; g++) {
            const vector_t w = vector_load(weight + g * KERNEL_LANES);
            KERNEL_UNROLL
            for (int r = 0; r < n_rows; r++) sum[r][g] += numbers[r * tile->stride] * w;
        }
    }
    KERNEL_UNROLL
    for (int r = 0; r < n_rows; r++) KERNEL_UNROLL
    for (int g = 0; g < n_gates; g++)
        vector_store(sum[r][g], tile->sums + (r * n_gates + g) * KERNEL_LANES);
}

#define ROWS(n)                                                                                    \
    case n: multiply(tile, n, n_gates); break

/* Each case passes the row count as a constant, so that all sums stay in registers. */
KERNEL_INLINE void multiply_rows(const tile_t *tile, int64_t n_rows, int n_gates)
{
    switch (n_rows) {
        ROWS(1);
        ROWS(2);
#if SEQUENCE_ROWS > 3
        ROWS(3);
        ROWS(4);
        ROWS(5);
#endif
    default: multiply(tile, SEQUENCE_ROWS, n_gates); break;
    }
}

/* ---- activations of a cell, for one block of one sequence ---- */

KERNEL_INLINE vector_t gate(const float *sums, int number)
{
    return vector_load(sums + number * KERNEL_LANES);
}

KERNEL_INLINE void finish_lstm(const float *sums, const float *peephole, float *c, float *h)
{
    const vector_t old = vector_load(c);
    vector_t input = gate(sums, 0), forget = gate(sums, 1), output = gate(sums, 3);
    if (peephole != NULL) input += gate(peephole, 0) * old;
    if (peephole != NULL) forget += gate(peephole, 1) * old;
    const vector_t next = vector_by_sigmoid(old, forget) +
                          vector_tanh_by_sigmoid(gate(sums, 2), input);
    if (peephole != NULL) output += gate(peephole, 2) * next;
    vector_store(next, c);
    vector_store(vector_tanh_by_sigmoid(next, output), h);
}

KERNEL_INLINE void finish_gru(const float *sums, const float *fresh, const float *old, float *h)
{
    const vector_t reset = vector_sigmoid(gate(sums, 0)), update = vector_sigmoid(gate(sums, 1));
    const vector_t candidate = vector_tanh(vector_load(fresh) + reset * gate(sums, 2));
    vector_store((1.0f - update) * candidate + update * vector_load(old), h);
}

/* ---- products ---- */

/* Product of any number of rows with one block of a weight; from and last_from as in tile_t. `next`
 * is the block to prefetch meanwhile. */
typedef struct rows {
    const float *numbers, *weight, *next;
    int64_t n, stride, n_inputs;
    const float *from, *last_from;
    int64_t from_stride;
} rows_t;

/* Computes sums[rows][gates][lanes]. */
KERNEL_INLINE void sum_products(const rows_t *rows, int n_gates, float *sums)
{
    const int64_t n_chunks = (rows->n_inputs + CHUNK - 1) / CHUNK, width = n_gates * KERNEL_LANES;
    const int64_t n_groups = (rows->n + SEQUENCE_ROWS - 1) / SEQUENCE_ROWS;
    for (int64_t chunk = 0; chunk < n_chunks; chunk++) {
        const int64_t from = rows->n_inputs * chunk / n_chunks;
        const int64_t to = rows->n_inputs * (chunk + 1) / n_chunks;
        const int64_t step = width * (int64_t)sizeof(float) / n_groups + 1;
        const char *ahead = (const char *)(rows->next + from * width);
        for (int64_t group = 0; group < n_groups; group++) {
            const int64_t row = rows->n * group / n_groups;
            const bool is_first = chunk == 0;
            const tile_t tile = {.numbers = rows->numbers + row * rows->stride + from,
                                 .weight = rows->weight + from * width,
                                 .stride = rows->stride,
                                 .n_inputs = to - from,
                                 .from = is_first ? rows->from + row * rows->from_stride
                                                  : sums + row * width,
                                 .from_stride = is_first ? rows->from_stride : width,
                                 .last_from = is_first ? rows->last_from : NULL,
                                 .sums = sums + row * width,
                                 .ahead = ahead + group * (step - 1) * (to - from),
                                 .ahead_step = step};
            multiply_rows(&tile, rows->n * (group + 1) / n_groups - row, n_gates);
        }
    }
}

static void sum_all(sequence_cell_t cell, const rows_t *rows, float *sums)
{
    if (cell == SEQUENCE_LSTM)
        sum_products(rows, 4, sums);
    else
        sum_products(rows, 3, sums);
}

static float *sums_of(const sequence_run_t *run, int64_t block, int64_t row)
{
    return run->sums +
           (block * run->n_rows + row) * sequence_gates(run->sequence->cell) * KERNEL_LANES;
}

static void project(const sequence_run_t *run, int64_t first, int64_t last)
{
    const sequence_t *s = run->sequence;
    const int64_t width = sequence_gates(s->cell) * KERNEL_LANES;
    const int64_t n_rows = (run->last_step - run->first_step) * s->n_sequences;
    for (int64_t block = first; block < last; block++) {
        const int64_t next = block + 1 < last ? block + 1 : first;
        for (int64_t row = 0; row < n_rows; row += MOST_ROWS) {
            const int64_t n = n_rows - row < MOST_ROWS ? n_rows - row : MOST_ROWS;
            const rows_t rows = {.numbers = run->x + row * run->x_stride,
                                 .weight = s->weight_ih + block * s->n_inputs * width,
                                 .next = s->weight_ih + next * s->n_inputs * width,
                                 .n = n,
                                 .stride = run->x_stride,
                                 .n_inputs = s->n_inputs,
                                 .from = run->bias + block * width};
            sum_all(s->cell, &rows, sums_of(run, block, row));
        }
    }
}

/* ---- a step of one block ---- */

typedef struct part {
    const sequence_run_t *run;
    int64_t step, block, next, first, n_rows; /* n_rows sequences from `first` on */
} part_t;

static float *part_sums(const part_t *part, int64_t row)
{
    const sequence_run_t *run = part->run;
    const int64_t of_step = (part->step - run->first_step) * run->sequence->n_sequences;
    return sums_of(run, part->block, of_step + part->first + row);
}

/* Computes h, c and y of one sequence from its sums. After its end y is 0 and the state does not
 * change. */
static void finish(const part_t *part, int64_t row, const float *sums)
{
    static const float zeros[KERNEL_LANES];
    const sequence_run_t *run = part->run;
    const sequence_t *s = run->sequence;
    const int64_t n = part->first + row, length = s->lengths[n],
                  column = part->block * KERNEL_LANES;
    const int64_t at = n * run->state_stride + column, rest = s->n_elements - column;
    const float *old = run->h[part->step % 2] + at;
    float *h = run->h[(part->step + 1) % 2] + at;
    const bool is_inside = part->step < length;
    if (!is_inside)
        memcpy(h, old, KERNEL_LANES * sizeof *h);
    else if (s->cell == SEQUENCE_LSTM)
        finish_lstm(sums, run->peephole != NULL ? run->peephole + 3 * column : NULL, run->c + at,
                    h);
    else
        finish_gru(sums, part_sums(part, row) + 2 * KERNEL_LANES, old, h);
    const int64_t time = is_inside && s->is_reverse ? length - 1 - part->step : part->step;
    const float *from = is_inside ? h : zeros;
    float *y = s->y + time * s->y_time + n * s->y_sequence + column;
    if (rest >= KERNEL_LANES)
        memcpy(y, from, KERNEL_LANES * sizeof *y);
    else
        memcpy(y, from, (size_t)rest * sizeof *y);
}

/* Prefetches the memory that `finish` reads and writes. */
static void fetch_states(const part_t *part)
{
    const sequence_run_t *run = part->run;
    const sequence_t *s = run->sequence;
    const int64_t column = part->block * KERNEL_LANES;
    for (int64_t n = part->first; n < part->first + part->n_rows; n++) {
        __builtin_prefetch(run->c + n * run->state_stride + column, 1);
        __builtin_prefetch(run->h[(part->step + 1) % 2] + n * run->state_stride + column, 1);
        __builtin_prefetch(s->y + part->step * s->y_time + n * s->y_sequence + column, 1);
    }
}

/* Computes a step of one block. Products with h are added to those with x, except in gru's last
 * gate, where they must stay separate. */
static void step_block(const part_t *part)
{
    const sequence_run_t *run = part->run;
    const sequence_t *s = run->sequence;
    const int64_t width = sequence_gates(s->cell) * KERNEL_LANES;
    const float *inner_bias = run->inner_bias + part->block * KERNEL_LANES;
    const rows_t rows = {.numbers = run->h[part->step % 2] + part->first * run->state_stride,
                         .weight = s->weight_hh + part->block * s->n_elements * width,
                         .next = s->weight_hh + part->next * s->n_elements * width,
                         .n = part->n_rows,
                         .stride = run->state_stride,
                         .n_inputs = s->n_elements,
                         .from = part_sums(part, 0),
                         .from_stride = width,
                         .last_from = s->cell == SEQUENCE_GRU ? inner_bias : NULL};
    float sums[MOST_ROWS * SEQUENCE_MAX_GATES * KERNEL_LANES];
    fetch_states(part);
    sum_all(s->cell, &rows, sums);
    for (int64_t row = 0; row < part->n_rows; row++) finish(part, row, sums + row * width);
}

static void step(const sequence_run_t *run, int64_t number, int64_t first, int64_t last)
{
    const bool is_forth = number % 2 == 0;
    part_t part = {.run = run, .step = number};
    for (int64_t i = 0; i < last - first; i++) {
        part.block = is_forth ? first + i : last - 1 - i;
        part.next = i + 1 == last - first ? part.block : part.block + (is_forth ? 1 : -1);
        for (part.first = 0; part.first < run->sequence->n_sequences; part.first += MOST_ROWS) {
            const int64_t rest = run->sequence->n_sequences - part.first;
            part.n_rows = rest < MOST_ROWS ? rest : MOST_ROWS;
            step_block(&part);
        }
    }
}

/* ---- Strassen's algorithm ---- */

/* Divides rows into tiles. A tile pairs rows of the first half with rows of the last half. */
static tiles_t cut_rows(const sequence_run_t *run, int64_t n_rows, int64_t n_inputs)
{
    tiles_t tiles = {.n_rows = n_rows, .half = divide_up(n_rows, 2), .n_inputs = n_inputs};
    tiles.n = divide_up(tiles.half, KERNEL_ROWS);
    tiles.sources = run->sources;
    return tiles;
}

static void make_x_sources(const sequence_run_t *run, const tiles_t *tiles)
{
    for (int64_t t = 0; t < tiles->n; t++) {
        const tile_at_t at = tile_find(tiles->half, tiles->n, t);
        source_rows_t rows = begin_rows(tiles, at, run->sequence->x);
        for (int64_t r = 0; r < at.n_rows; r++) rows.first[r] = sequence_row(run, at.begin + r);
        for (int64_t r = 0; r < rows.n_last; r++)
            rows.last[r] = sequence_row(run, at.begin + tiles->half + r);
        make_flagged_sources(&rows, tiles->n_inputs / 2 / KERNEL_LANES, tile_sources(tiles, t));
    }
}

static void make_h_sources(const sequence_run_t *run, const tiles_t *tiles, int64_t number)
{
    for (int64_t t = 0; t < tiles->n; t++) {
        const tile_at_t at = tile_find(tiles->half, tiles->n, t);
        source_rows_t rows = begin_rows(tiles, at, run->h[number % 2]);
        for (int64_t r = 0; r < at.n_rows; r++) {
            rows.first[r] = (at.begin + r) * run->state_stride;
            rows.last[r] = rows.first[r] + tiles->half * run->state_stride;
        }
        make_flagged_sources(&rows, tiles->n_inputs / 2 / KERNEL_LANES, tile_sources(tiles, t));
    }
}

static void project_halves(const sequence_run_t *run, int64_t first, int64_t last)
{
    const sequence_t *s = run->sequence;
    const tiles_t tiles = cut_rows(run, (run->last_step - run->first_step) * s->n_sequences,
                                   s->n_inputs);
    make_x_sources(run, &tiles);
    for (int64_t block = first; block < last; block++)
        for (int64_t t = 0; t < tiles.n; t++) {
            const tile_at_t at = tile_find(tiles.half, tiles.n, t);
            const float *bias = run->bias + block * 2 * HALF_WIDTH;
            const halves_t halves = {
                .weight = s->weight_ih + block * HALVES_BLOCK(s->n_inputs),
                .from = {bias, bias},
                .to = {sums_of(run, block, at.begin), sums_of(run, block, at.begin + tiles.half)}};
            multiply_tile(&tiles, t, &halves);
        }
}

/* Computes one step of a block for the sequences of a tile. */
static void step_tile(const part_t *part, const tiles_t *tiles, int64_t t)
{
    const int64_t width = 2 * HALF_WIDTH;
    const tile_at_t at = tile_find(tiles->half, tiles->n, t);
    float sums[2 * KERNEL_ROWS * 2 * HALF_WIDTH];
    const halves_t halves = {
        .weight = part->run->sequence->weight_hh + part->block * HALVES_BLOCK(tiles->n_inputs),
        .from = {part_sums(part, at.begin), part_sums(part, at.begin + tiles->half)},
        .from_stride = width,
        .to = {sums, sums + at.n_rows * width}};
    multiply_tile(tiles, t, &halves);
    for (int64_t r = 0; r < at.n_rows; r++) finish(part, at.begin + r, sums + r * width);
    for (int64_t r = at.n_rows; r < at.n_rows + last_rows(tiles, at); r++)
        finish(part, at.begin + tiles->half + r - at.n_rows, sums + r * width);
}

static void step_halves(const sequence_run_t *run, int64_t number, int64_t first, int64_t last)
{
    const bool is_forth = number % 2 == 0;
    const sequence_t *s = run->sequence;
    const tiles_t tiles = cut_rows(run, s->n_sequences, s->n_elements);
    part_t part = {.run = run, .step = number, .n_rows = s->n_sequences};
    make_h_sources(run, &tiles, number);
    for (int64_t i = 0; i < last - first; i++) {
        part.block = is_forth ? first + i : last - 1 - i;
        fetch_states(&part);
        for (int64_t t = 0; t < tiles.n; t++) step_tile(&part, &tiles, t);
    }
}

static void project_any(const sequence_run_t *run, int64_t first, int64_t last)
{
    if (run->sequence->by_strassen)
        project_halves(run, first, last);
    else
        project(run, first, last);
}

static void step_any(const sequence_run_t *run, int64_t number, int64_t first, int64_t last)
{
    if (run->sequence->by_strassen)
        step_halves(run, number, first, last);
    else
        step(run, number, first, last);
}

const sequence_loops_t KERNEL_NAME(sequence) = {KERNEL_ROWS, project_any, step_any};
