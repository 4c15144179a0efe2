#include "tensor/convert/trim_impl.h"

#include <string.h>

#include "tensor/context_impl.h"
#include "tensor/shape.h"
#include "tensor/threads/threads_impl.h"

#define VERSION 1
static const char owner[] = "trim";

/* Indices of the numbers in the format (format_numbers): rank, order of dimensions (one digit
 * each), block, and all sizes except the number of rows. */
enum { RANK, ORDER, BLOCK_DIM, BLOCK_SIZE, SIZES, N_NUMBERS = SIZES + TRIM_MAX_RANK - 1 };

/* ---- the format ---- */

static bool is_matrix(const tensor_info_t *info)
{
    return info->dtype == DTYPE_F32 && info->rank == 2 && info->sizes[0] > 0 && info->sizes[1] > 0;
}

/* Info of one row in the format `tag`: the first size is 1, the others are those of `sizes`. */
static tensor_info_t row_of(int rank, const int64_t *sizes, const format_t *tag)
{
    int64_t row[TENSOR_MAX_RANK] = {1};
    memcpy(row + 1, sizes + 1, (size_t)(rank - 1) * sizeof *row);
    const tensor_info_t dense = info_dense(DTYPE_F32, rank, row);
    return info_mkldnn(&dense, tag);
}

bool trim_ordered(const tensor_info_t *matrix, int rank, const int64_t *sizes, const format_t *tag,
                  tensor_info_t *out_info)
{
    int64_t numbers[N_NUMBERS] = {[RANK] = rank}, columns = 0, elements = 0;
    if (!is_matrix(matrix) || rank < 2 || rank > TRIM_MAX_RANK || tag->kind != FORMAT_TAG ||
        tag->rank != rank || tag->order[0] != 0 || tag->n_blocks > 1 ||
        (tag->n_blocks == 1 && tag->block_dims[0] == 0))
        return false;
    if (!shape_numel(rank - 1, sizes + 1, &columns) || columns != matrix->sizes[1]) return false;
    const tensor_info_t row = row_of(rank, sizes, tag);
    const int64_t n_blocks = (matrix->sizes[0] - 1) / TRIM_ROWS + 1;
    if (!format_elements(tag, row.sizes, &elements) ||
        !shape_multiply((elements - 1) / TRIM_COLUMNS + 1, TRIM_WORDS, &elements) ||
        !shape_multiply(elements, n_blocks, &elements))
        return false;
    for (int d = 0; d < rank; d++)
        numbers[ORDER] = numbers[ORDER] * TENSOR_MAX_RANK + tag->order[d];
    if (tag->n_blocks == 1) numbers[BLOCK_DIM] = tag->block_dims[0];
    if (tag->n_blocks == 1) numbers[BLOCK_SIZE] = tag->block_sizes[0];
    for (int d = 1; d < rank; d++) numbers[SIZES + d - 1] = sizes[d];
    const format_t format = format_owned(2, elements, owner, VERSION, N_NUMBERS, numbers);
    const tensor_info_t plain = info_dense(DTYPE_F32, 2, matrix->sizes);
    *out_info = info_mkldnn(&plain, &format);
    return true;
}

bool trim_plain(const tensor_info_t *matrix, tensor_info_t *out_info)
{
    const format_t plain = format_plain(2);
    return trim_ordered(matrix, 2, matrix->sizes, &plain, out_info);
}

/* Decodes the order of the columns from a format's numbers. Returns false if they are invalid. */
static bool read_order(const int64_t *numbers, int64_t *out_sizes, format_t *out_tag)
{
    int64_t digits = numbers[ORDER];
    unsigned seen = 0;
    if (numbers[RANK] < 2 || numbers[RANK] > TRIM_MAX_RANK) return false;
    const int rank = (int)numbers[RANK];
    *out_tag = format_plain(rank);
    for (int d = rank - 1; d >= 0; d--, digits /= TENSOR_MAX_RANK) {
        out_tag->order[d] = (uint8_t)(digits % TENSOR_MAX_RANK);
        if (out_tag->order[d] >= rank) return false;
        seen |= 1u << out_tag->order[d];
    }
    if (digits != 0 || seen != (1u << rank) - 1) return false;
    if (numbers[BLOCK_SIZE] != 0) {
        if (numbers[BLOCK_SIZE] > UINT16_MAX || numbers[BLOCK_DIM] >= rank) return false;
        out_tag->n_blocks = 1;
        out_tag->block_dims[0] = (uint8_t)numbers[BLOCK_DIM];
        out_tag->block_sizes[0] = (uint16_t)numbers[BLOCK_SIZE];
    }
    out_sizes[0] = 1;
    for (int d = 1; d < rank; d++) out_sizes[d] = numbers[SIZES + d - 1];
    return true;
}

static bool find_row(const tensor_info_t *info, tensor_info_t *out_row)
{
    int64_t sizes[TRIM_MAX_RANK];
    format_t tag;
    tensor_info_t same;
    const int64_t *numbers = format_numbers(&info->format);
    if (info->layout != LAYOUT_MKLDNN || numbers == NULL || !is_matrix(info) ||
        !read_order(numbers, sizes, &tag) || !trim_ordered(info, tag.rank, sizes, &tag, &same) ||
        !format_same(&same.format, &info->format, info->sizes))
        return false;
    *out_row = row_of(tag.rank, sizes, &tag);
    return true;
}

bool trim_is(const tensor_info_t *info)
{
    tensor_info_t row;
    return find_row(info, &row);
}

int64_t trim_groups(const tensor_info_t *info)
{
    const int64_t n_blocks = (info->sizes[0] - 1) / TRIM_ROWS + 1;
    return (int64_t)(info_bytes(info) / sizeof(float)) / TRIM_WORDS / n_blocks;
}

/* ---- elements ---- */

/* Rounds to the upper 24 bits, to nearest even. A carry increases the exponent, so the largest
 * numbers become infinite. */
static uint32_t round_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (bits | 0x400000u) >> 8;
    return (bits + 0x7f + (bits >> 8 & 1)) >> 8;
}

static float widen(uint32_t rounded)
{
    const uint32_t bits = rounded << 8;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

float trim_round(float value)
{
    return widen(round_bits(value));
}

/* Lists, for each position in a row, the column that is stored there; -1: padding. */
static status_t list_columns(context_t *ctx, const tensor_info_t *info, int64_t **out_columns)
{
    tensor_info_t row;
    const bool is_trimmed = find_row(info, &row);
    INVARIANT(is_trimmed);
    const int64_t n = trim_groups(info) * TRIM_COLUMNS;
    int64_t *columns = NULL, index[TENSOR_MAX_RANK] = {0}, column = 0;
    TRY(context_get(ctx, (size_t)n * sizeof *columns, "the order of columns", &columns));
    for (int64_t i = 0; i < n; i++) columns[i] = -1;
    do {
        columns[format_offset(&row.format, row.sizes, index)] = column++;
    } while (shape_next(row.rank, row.sizes, index));
    *out_columns = columns;
    return STATUS_OK;
}

typedef struct work {
    const int64_t *columns;
    int64_t n_groups, n_rows, stride;
    const float *rows;
    float *out_rows;
    const uint32_t *words;
    uint32_t *out;
} work_t;

static void pack_row(const float *row, const int64_t *columns, uint32_t *out)
{
    uint32_t bits[TRIM_COLUMNS];
    for (int k = 0; k < TRIM_COLUMNS; k++)
        bits[k] = columns[k] >= 0 ? round_bits(row[columns[k]]) : 0;
    for (int k = 0; k < 3; k++)
        out[k * TRIM_ROWS] = bits[k] << 8 | (bits[3] >> (16 - 8 * k) & 0xff);
}

static void unpack_row(const uint32_t *words, const int64_t *columns, float *row)
{
    uint32_t bits[TRIM_COLUMNS] = {0};
    for (int k = 0; k < 3; k++) {
        bits[k] = words[k * TRIM_ROWS] >> 8;
        bits[3] |= (words[k * TRIM_ROWS] & 0xff) << (16 - 8 * k);
    }
    for (int k = 0; k < TRIM_COLUMNS; k++)
        if (columns[k] >= 0) row[columns[k]] = widen(bits[k]);
}

static void pack_blocks(void *user, int64_t first, int64_t last)
{
    const work_t *w = user;
    for (int64_t block = first; block < last; block++)
        for (int64_t g = 0; g < w->n_groups; g++) {
            uint32_t *to = w->out + (block * w->n_groups + g) * TRIM_WORDS;
            const int64_t row = block * TRIM_ROWS, n = w->n_rows - row;
            if (n < TRIM_ROWS) memset(to, 0, TRIM_WORDS * sizeof *to);
            for (int64_t r = 0; r < n && r < TRIM_ROWS; r++)
                pack_row(w->rows + (row + r) * w->stride, w->columns + g * TRIM_COLUMNS, to + r);
        }
}

static void unpack_blocks(void *user, int64_t first, int64_t last)
{
    const work_t *w = user;
    for (int64_t block = first; block < last; block++)
        for (int64_t g = 0; g < w->n_groups; g++) {
            const uint32_t *from = w->words + (block * w->n_groups + g) * TRIM_WORDS;
            const int64_t row = block * TRIM_ROWS, n = w->n_rows - row;
            for (int64_t r = 0; r < n && r < TRIM_ROWS; r++)
                unpack_row(from + r, w->columns + g * TRIM_COLUMNS,
                           w->out_rows + (row + r) * w->stride);
        }
}

static status_t share_blocks(context_t *ctx, const tensor_info_t *info, work_t *work,
                             void (*run)(void *user, int64_t first, int64_t last))
{
    int64_t *columns = NULL;
    TRY(list_columns(ctx, info, &columns));
    work->columns = columns;
    work->n_groups = trim_groups(info);
    work->n_rows = info->sizes[0];
    work->stride = info->sizes[1];
    threads_share(threads_for(ctx, info_numel(info)), (work->n_rows - 1) / TRIM_ROWS + 1, run,
                  work);
    context_put(ctx, columns);
    return STATUS_OK;
}

status_t trim_pack(context_t *ctx, const tensor_info_t *info, const float *rows, void *out)
{
    work_t work = {.rows = rows, .out = out};
    return share_blocks(ctx, info, &work, pack_blocks);
}

status_t trim_unpack(context_t *ctx, const tensor_info_t *info, const void *bytes, float *out_rows)
{
    work_t work = {.words = bytes, .out_rows = out_rows};
    return share_blocks(ctx, info, &work, unpack_blocks);
}
