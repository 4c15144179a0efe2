/* Trimmed matrices store f32 elements in 3 bytes, for kernels that spend their time reading a
 * weight. An element keeps its upper 24 bits (sign, 8 bits of exponent, 15 of mantissa), rounded to
 * nearest, ties to even.
 *
 * Rows are split into blocks of TRIM_ROWS, and a block into groups of TRIM_COLUMNS columns; both
 * are padded. A group has three 32-bit words per row: the first words of all rows, then the second
 * words, then the third. The upper 24 bits of word k are column k. The low bytes of the three words
 * are the fourth column, highest byte first. So vector code extracts three of the columns with one
 * mask each. The order of the columns is that of a tag over the dimensions from which they were
 * flattened, including the tag's padding.
 *
 * The format is opaque; its element count is its bytes divided by 4. Unlike the formats of kernels
 * it can be converted back; values that fit in 24 bits are preserved. */
#ifndef TESSERA_TENSOR_TRIM_IMPL_H
#define TESSERA_TENSOR_TRIM_IMPL_H

#include "tensor/tensor_impl.h"

#define TRIM_ROWS 16
#define TRIM_COLUMNS 4
#define TRIM_WORDS (3 * TRIM_ROWS) /* words of a group, in one block of rows */
#define TRIM_MAX_RANK 5            /* rank of the column order's tag, with the rows' dimension */

/* Info of the trimmed matrix. trim_plain: columns in row-major order. trim_ordered: columns in the
 * order of `tag` for `sizes`; sizes[0] is the number of rows; in the tag, rows are outermost and
 * there is at most one block. False if the tag is not of this kind, or the bytes overflow. */
bool trim_plain(const tensor_info_t *matrix, tensor_info_t *out_info);
bool trim_ordered(const tensor_info_t *matrix, int rank, const int64_t *sizes, const format_t *tag,
                  tensor_info_t *out_info);

/* True if the info's format is a valid trimmed matrix for its sizes. */
bool trim_is(const tensor_info_t *info);

/* Number of column groups in a block of rows. */
int64_t trim_groups(const tensor_info_t *info);

/* Convert from and to row-major f32 elements; all of `out` is written. */
status_t trim_pack(context_t *ctx, const tensor_info_t *info, const float *rows, void *out);
status_t trim_unpack(context_t *ctx, const tensor_info_t *info, const void *bytes, float *out_rows);

/* The value after packing. Infinite if the nearest 24-bit value is infinite; NaN stays NaN. */
float trim_round(float value);

#endif
