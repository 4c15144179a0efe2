/* Exact sums of products of small integers, for 8-bit convolutions and matrix products:
 *
 *   out[r][o] = sum(i) x[r][i] * (weight[o][i] - zero[o])
 *
 * An element of x is a byte minus its zero point, stored as s16. Weights are s8 in memory and
 * become s16 in registers, because most x86 instructions that multiply bytes saturate their sums.
 * Instructions of VNNI do not (integer_has_quads): there x may also be u8 with its zero point, and
 * x_zero * sum(i) weight[o][i] is subtracted at the end.
 *
 * Row r of x is read in runs of adjacent steps, from x + starts[r] + offsets[run] on; a step is a
 * pair of s16 or four u8. A convolution's windows are rows, and need no copy. The weight's zero
 * point is subtracted at the end: zero[o] * sums[r], where sums[r] is the sum of row r, minus the
 * zero points of x. Sums wrap around. */
#ifndef TESSERA_KERNELS_QUANTIZED_INTEGER_IMPL_H
#define TESSERA_KERNELS_QUANTIZED_INTEGER_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/isa_impl.h"
#include "tensor/dtype.h"

#define INTEGER_BLOCK 16 /* outputs in a block of the packed weight */

/* Elements of x in a step. */
typedef enum integer_step { INTEGER_PAIRS = 2, INTEGER_QUADS = 4 } integer_step_t;

typedef struct integer {
    int64_t n_rows, n_outputs;
    int64_t n_runs, n_steps; /* runs in a row, steps in a run */
    integer_step_t step;
    const void *x;          /* s16 or u8, according to `step` */
    int32_t x_zero;         /* zero point of u8; unused for s16 */
    const int64_t *starts;  /* [n_rows], in elements */
    const int32_t *offsets; /* [n_runs], in elements; NULL for one run at offset 0 */
    const int8_t *weight;   /* packed by integer_pack */
    const int32_t *zeros;   /* [n_outputs], readable up to a full block; or NULL */
    const int32_t *sums;    /* [n_rows]; read if zeros is not NULL */
    int32_t *out;           /* rows out_stride elements apart */
    int64_t out_stride;
} integer_t;

/* Computes the sums on n_threads threads; isa_has(isa) must be true, and for quads
 * integer_has_quads(isa). */
void integer_run(const integer_t *integer, isa_t isa, int n_threads);

/* ---- preparation of x and the weight, which are s8 or u8 ---- */

static inline bool integer_is_byte(dtype_t dtype)
{
    return dtype == DTYPE_S8 || dtype == DTYPE_U8;
}

/* Rounds an offset in scratch up to 64 bytes. */
static inline size_t integer_align(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

/* Element i of an s8 or u8 buffer. */
static inline int32_t integer_load(dtype_t dtype, const void *bytes, int64_t i)
{
    return dtype == DTYPE_S8 ? ((const int8_t *)bytes)[i] : ((const uint8_t *)bytes)[i];
}

/* Converts n bytes to u8; adds 128 to those of s8. */
void integer_unsign(dtype_t dtype, int64_t n, const void *x, uint8_t *out);

/* Bytes of a packed weight with n_steps steps in all runs of a row. */
int64_t integer_packed(int64_t n_outputs, int64_t n_steps, integer_step_t step);

/* Packs a weight as [n_outputs / 16][n_steps][16][step], the last block padded; u8 becomes s8 by
 * subtracting 128. For quads, each block ends with the sums of its 16 outputs, as s32. Outputs are
 * `apart` elements apart. Element i of a packed output comes from offset place(i) of the output; -1
 * means padding. */
typedef int64_t (*integer_place_t)(const void *user, int64_t i);
void integer_pack(dtype_t dtype, int64_t n_outputs, int64_t n_steps, integer_step_t step,
                  int64_t apart, integer_place_t place, const void *user, const void *from,
                  int8_t *to);

/* Bytes of the zero points of n_outputs outputs, padded to full blocks. */
size_t integer_zero_bytes(int64_t n_outputs);

/* Loops of one ISA. */
typedef struct integer_loops {
    /* Computes rows [first, last) for the block of outputs from `output` on. */
    void (*rows)(const integer_t *integer, int64_t output, int64_t first, int64_t last);
    /* The same for quads; NULL without VNNI. */
    void (*quad_rows)(const integer_t *integer, int64_t output, int64_t first, int64_t last);
    /* out[i] = x[i] - zero; x has bytes */
    void (*center)(int64_t n, bool is_signed, const void *x, int32_t zero, int16_t *out);
    /* Sums each of n runs of `length` elements; runs begin `step` elements apart. */
    void (*sums)(int64_t n, int64_t step, int64_t length, const int16_t *x, int32_t *out);
    /* The same for u8, minus `zero` for each element. */
    void (*byte_sums)(int64_t n, int64_t step, int64_t length, int32_t zero, const uint8_t *x,
                      int32_t *out);
    /* sums[i] += numbers[i * step] for n sums, which wrap around. */
    void (*add)(int64_t n, int64_t step, const int32_t *numbers, int32_t *sums);
    void (*flip)(int64_t n, const uint8_t *x, uint8_t *out); /* s8 to u8, by adding 128 */
} integer_loops_t;
ISA_EXTERN(const integer_loops_t, integer_loops);

/* The loops of isa_best(), and of another ISA. Processors and limits (ONEDNN_MAX_CPU_ISA) with VNNI
 * have their own loops. */
const integer_loops_t *integer_loops(void);
const integer_loops_t *integer_loops_of(isa_t isa);

static inline bool integer_has_quads(isa_t isa)
{
    return integer_loops_of(isa)->quad_rows != NULL;
}

#endif
