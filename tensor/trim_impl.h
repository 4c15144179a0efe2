/* Matrices of f32 in 3 bytes an element, for kernels that are bound by reading a weight: the upper
 * 24 bits, rounded to the nearest, ties to even: a sign, 8 bits of exponent and 15 of mantissa.
 *
 * Rows lie in blocks of TRIM_ROWS, and a block in groups of TRIM_COLUMNS columns, both padded to
 * whole ones: three words of 32 bits for each row, first words of all rows first. The upper 24 bits
 * of word k are those of column k; the fourth column's are in the low bytes, from the highest down.
 * So vector code gets three columns by a mask each. Columns lie in any order that is a tag over the
 * dimensions which they were flattened from, with the padding that it has.
 *
 * As a format this is an opaque one, of as many f32 as fill its bytes. Unlike those of kernels it
 * can be read back: conversion goes both ways, and between values that 24 bits hold loses nothing.
 */
#ifndef TESSERA_TENSOR_TRIM_IMPL_H
#define TESSERA_TENSOR_TRIM_IMPL_H

#include "tensor/tensor_impl.h"

#define TRIM_ROWS 16
#define TRIM_COLUMNS 4
#define TRIM_WORDS (3 * TRIM_ROWS) /* of a group of a block */
#define TRIM_MAX_RANK 5            /* of the order of columns, that of the rows included */

/* The matrix trimmed, its columns in plain order; or in that of a tag, which has the rows outermost
 * and at most one block, for sizes of which the first stands for the rows and the others make a
 * column each. False: the tag has more, or the bytes overflow. */
bool trim_plain(const tensor_info_t *matrix, tensor_info_t *out_info);
bool trim_ordered(const tensor_info_t *matrix, int rank, const int64_t *sizes, const format_t *tag,
                  tensor_info_t *out_info);

/* Whether an info is such a matrix: its format says what one of these sizes has. */
bool trim_is(const tensor_info_t *info);

/* Groups of columns in a block of rows. */
int64_t trim_groups(const tensor_info_t *info);

/* From and to row-major elements of f32; all of `out` is written. */
status_t trim_pack(context_t *ctx, const tensor_info_t *info, const float *rows, void *out);
status_t trim_unpack(context_t *ctx, const tensor_info_t *info, const void *bytes, float *out_rows);

/* The value that packing makes of one: infinite where the nearest of 24 bits is, NaN stays. */
float trim_round(float value);

#endif
