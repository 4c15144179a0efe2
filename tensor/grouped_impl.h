/* How the bytes of a grouped format (grouping_t in format.h) are arranged. All machines use the
 * same arrangement, so files keep it, and kernels read it as it is.
 *
 * All dimensions but the innermost one are joined to rows. A block has GROUPED_ROWS rows; the last
 * one is padded with zeros. It holds its groups of columns one after another:
 *
 *   scales[16] | zeros[16] or minima[16], if any | words[columns of group / codes in a word][16]
 *
 * A word has 32 bits and holds adjacent columns of one row, 16, 8 or 4 of them. Column 4 * j + b of
 * a word begins at bit 8 * b + j * bits, so that a mask extracts four adjacent columns as bytes.
 * Codes and zeros are unsigned; signed ones are stored with half of their range added. Columns are
 * padded to a multiple of GROUPING_LEAST, and blocks to a multiple of 64 bytes, with zeros. */
#ifndef TESSERA_TENSOR_GROUPED_IMPL_H
#define TESSERA_TENSOR_GROUPED_IMPL_H

#include "tensor/info.h"

#define GROUPED_ROWS 16

typedef struct grouped {
    grouping_t grouping;
    int64_t n_rows, n_columns, n_blocks;
    int64_t n_groups;    /* in a row */
    int64_t n_padded;    /* columns with padding */
    int64_t head_bytes;  /* a group's scales, zeros and minima */
    int64_t group_bytes; /* a whole group, with its head */
    int64_t block_bytes;
} grouped_t;

/* Describes the bytes of a tensor in a grouped format. Returns false for other formats and
 * overflows, and if a size is 0 or unknown. */
bool grouped_find(const format_t *format, const int64_t *sizes, grouped_t *out_grouped);

/* format_elements for grouped formats: the bytes divided by 4. */
bool grouped_elements(const format_t *format, const int64_t *sizes, int64_t *out_elements);

/* Columns of a group with padding, codes in a word, and what was added to signed codes. */
int64_t grouped_columns(const grouped_t *grouped, int64_t group);
int grouped_per_word(const grouped_t *grouped);
int grouped_bias(const grouped_t *grouped);

#endif
