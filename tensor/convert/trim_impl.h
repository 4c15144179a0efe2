/* A trimmed matrix stores f32 elements in 3 bytes, for kernels that spend most of their time
 * reading a weight. An element is rounded to nearest, ties to even, to its upper 24 bits: sign, 8
 * bits of exponent, 15 of mantissa.
 *
 * Rows are divided into blocks of TRIM_ROWS rows, and a block into groups of TRIM_COLUMNS columns;
 * rows and columns are padded. A group has three 32-bit words per row: the first words of all rows,
 * then the second words, then the third. The upper 24 bits of word k are the element of column k.
 * The low bytes of the three words are the element of the fourth column, highest byte first. So
 * vector code extracts each of the first three columns with one mask. The columns may be flattened
 * dimensions of a tensor such as x, in the order of a tag (format.h) over these dimensions,
 * including the tag's padding.
 *
 * The format is opaque (format.h), with a number of elements that is its bytes divided by 4. Unlike
 * other opaque formats it can be converted back, to the rounded elements. */
#ifndef TESSERA_TENSOR_CONVERT_TRIM_IMPL_H
#define TESSERA_TENSOR_CONVERT_TRIM_IMPL_H

#include "tensor/tensor_impl.h"

#define TRIM_ROWS 16
#define TRIM_COLUMNS 4
#define TRIM_WORDS (3 * TRIM_ROWS) /* words of a group, in one block of rows */
#define TRIM_MAX_RANK 5            /* rank of the columns' tag, including the rows */

/* Describe the trimmed matrix. trim_plain has the columns in row-major order. trim_ordered has them
 * in the order of `tag` for `sizes`; sizes[0] is the number of rows, which must be the tag's
 * outermost dimension, and the tag may have at most one block. Return false if the tag does not
 * satisfy this, or the bytes overflow. */
bool trim_plain(const tensor_info_t *matrix, tensor_info_t *out_info);
bool trim_ordered(const tensor_info_t *matrix, int rank, const int64_t *sizes, const format_t *tag,
                  tensor_info_t *out_info);

/* True if the info's format is a valid trimmed matrix for its sizes. */
bool trim_is(const tensor_info_t *info);

/* Number of column groups in a block of rows. */
int64_t trim_groups(const tensor_info_t *info);

/* Convert from and to row-major f32 elements. trim_pack writes all of `out`, including padding. */
status_t trim_pack(context_t *ctx, const tensor_info_t *info, const float *rows, void *out);
status_t trim_unpack(context_t *ctx, const tensor_info_t *info, const void *bytes, float *out_rows);

/* Rounds a value as trim_pack does. The result is infinite if the nearest 24-bit value is infinite;
 * NaN stays NaN. */
float trim_round(float value);

#endif
