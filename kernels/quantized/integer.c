#include "kernels/quantized/integer_impl.h"

#include <string.h>

#include "tensor/onednn/onednn.h"
#include "tensor/threads/threads_impl.h"

#define PART_ROWS 48 /* rows multiplied while a block of the weight is in the L1 cache */

static const integer_loops_t *const tables[ISA_COUNT] = ISA_TABLE(integer_loops);

#if defined(__x86_64__)
extern const integer_loops_t integer_loops_avx512_vnni, integer_loops_avx2_vnni;

/* oneDNN has read the processor's features. */
const integer_loops_t *integer_loops_of(isa_t isa)
{
    if (isa == ISA_AVX512 && isa_has_vnni()) return &integer_loops_avx512_vnni;
    if (isa == ISA_AVX2 && onednn_isa_has(onednn_isa(), ONEDNN_ISA_AVX2_VNNI))
        return &integer_loops_avx2_vnni;
    return tables[isa];
}
#else
const integer_loops_t *integer_loops_of(isa_t isa)
{
    return tables[isa];
}
#endif

typedef struct run {
    const integer_t *integer;
    const integer_loops_t *loops;
    int64_t n_blocks;
} run_t;

static void run_parts(void *user, int64_t first, int64_t last)
{
    const run_t *run = user;
    const bool is_quads = run->integer->step == INTEGER_QUADS;
    for (int64_t i = first; i < last; i++) {
        const int64_t row = i / run->n_blocks * PART_ROWS, rest = run->integer->n_rows - row;
        (is_quads ? run->loops->quad_rows
                  : run->loops->rows)(run->integer, i % run->n_blocks * INTEGER_BLOCK, row,
                                      row + (rest < PART_ROWS ? rest : PART_ROWS));
    }
}

void integer_run(const integer_t *integer, isa_t isa, int n_threads)
{
    const run_t run = {integer, integer_loops_of(isa),
                       (integer->n_outputs + INTEGER_BLOCK - 1) / INTEGER_BLOCK};
    const int64_t n_parts = (integer->n_rows + PART_ROWS - 1) / PART_ROWS;
    threads_share(n_threads, n_parts * run.n_blocks, run_parts, (void *)(uintptr_t)&run);
}

const integer_loops_t *integer_loops(void)
{
    return integer_loops_of(isa_best());
}

void integer_unsign(dtype_t dtype, int64_t n, const void *x, uint8_t *out)
{
    if (dtype == DTYPE_S8)
        integer_loops()->flip(n, x, out);
    else if (n > 0)
        memcpy(out, x, (size_t)n);
}

/* Bytes of a block of a packed weight. */
static int64_t packed_block(int64_t n_steps, integer_step_t step)
{
    const int64_t sums = step == INTEGER_QUADS ? (int64_t)sizeof(int32_t) : 0;
    return INTEGER_BLOCK * (n_steps * (int64_t)step + sums);
}

int64_t integer_packed(int64_t n_outputs, int64_t n_steps, integer_step_t step)
{
    return (n_outputs + INTEGER_BLOCK - 1) / INTEGER_BLOCK * packed_block(n_steps, step);
}

void integer_pack(dtype_t dtype, int64_t n_outputs, int64_t n_steps, integer_step_t step,
                  int64_t apart, integer_place_t place, const void *user, const void *from,
                  int8_t *to)
{
    const uint8_t flipped = dtype == DTYPE_U8 ? 0x80 : 0;
    const uint8_t *bytes = from;
    for (int64_t block = 0; block < n_outputs; block += INTEGER_BLOCK) {
        uint32_t sums[INTEGER_BLOCK] = {0};
        for (int64_t i = 0; i < (int64_t)step * n_steps; i++) {
            const int64_t at = place(user, i);
            int8_t *out = to + i / step * step * INTEGER_BLOCK + i % step;
            for (int64_t o = 0; o < INTEGER_BLOCK; o++, out += step) {
                *out = at < 0 || block + o >= n_outputs
                           ? 0
                           : (int8_t)(bytes[(block + o) * apart + at] ^ flipped);
                const int32_t weight = *out;
                sums[o] += (uint32_t)weight;
            }
        }
        to += packed_block(n_steps, step);
        if (step == INTEGER_QUADS) memcpy(to - sizeof sums, sums, sizeof sums);
    }
}

size_t integer_zero_bytes(int64_t n_outputs)
{
    return integer_align((size_t)(n_outputs + INTEGER_BLOCK) * sizeof(int32_t));
}
