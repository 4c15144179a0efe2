/* Makes and widens tensors in grouped formats. */
#include "tensor/convert/grouped_impl.h"

#include <string.h>

#include "tensor/context_impl.h"
#include "tensor/threads/threads_impl.h"

/* ---- widening ---- */

static float load(dtype_t dtype, const char *from, int64_t i)
{
    return (float)dtype_load(dtype, from + i * (int64_t)dtype_size(dtype));
}

/* Widens the columns of one group in row r of a block. `head` begins the group. The product and the
 * sum are rounded one after the other, so that the result does not depend on the compiler. */
static void unpack_group(const grouped_t *g, const char *head, int64_t r, int64_t n, float *out)
{
    const grouping_t *grouping = &g->grouping;
    const int per = grouped_per_word(g), bits = grouping->bits;
    const uint32_t mask = (1u << bits) - 1;
    const char *words = head + g->head_bytes + r * 4;
    const char *second = head + GROUPED_ROWS * (int64_t)dtype_size(grouping->scale);
    const float scale = load(grouping->scale, head, r);
    const float minimum = grouping->offset == GROUPING_MINIMA ? load(grouping->scale, second, r)
                                                              : 0.0f;
    const int zero = grouping->offset == GROUPING_ZEROS ? (uint8_t)second[r] : grouped_bias(g);
    float values[16];
    for (int64_t c = 0; c < n; c += per, words += 4 * GROUPED_ROWS) {
        uint32_t word;
        memcpy(&word, words, sizeof word);
        for (int k = 0; k < per; k++)
            values[k] = scale * (float)((int)(word >> (k % 4 * 8 + k / 4 * bits) & mask) - zero);
        if (grouping->offset == GROUPING_MINIMA)
            for (int k = 0; k < per; k++) values[k] += minimum;
        memcpy(out + c, values, (size_t)(n - c < per ? n - c : per) * sizeof *out);
    }
}

void grouped_unpack_row(const grouped_t *g, const void *bytes, int64_t row, float *out_row)
{
    const char *block = (const char *)bytes + row / GROUPED_ROWS * g->block_bytes;
    for (int64_t group = 0; group < g->n_groups; group++) {
        const int64_t first = group * g->grouping.group, rest = g->n_columns - first;
        unpack_group(g, block + group * g->group_bytes, row % GROUPED_ROWS,
                     rest < g->grouping.group ? rest : g->grouping.group, out_row + first);
    }
}

typedef struct rows {
    const grouped_t *grouped;
    const void *bytes;
    float *out;
} rows_t;

static void unpack_rows(void *user, int64_t first, int64_t last)
{
    const rows_t *rows = user;
    for (int64_t row = first; row < last; row++)
        grouped_unpack_row(rows->grouped, rows->bytes, row,
                           rows->out + row * rows->grouped->n_columns);
}

void grouped_unpack(context_t *ctx, const grouped_t *grouped, const void *bytes, float *out_rows)
{
    rows_t rows = {grouped, bytes, out_rows};
    threads_share(threads_for(ctx, grouped->n_rows * grouped->n_columns), grouped->n_rows,
                  unpack_rows, &rows);
}

/* ---- making ---- */

/* Codes, scales and offsets of rows from `first` on. */
typedef struct pack {
    const grouped_t *grouped;
    int64_t first;
    const uint8_t *codes; /* a code in each byte, [rows][columns] */
    const char *scales;   /* [rows][groups] */
    const char *offsets;  /* [rows][groups], zeros or minima; NULL: none */
    char *out;
} pack_t;

/* Packs the codes of one group of row r of a block. */
static void pack_codes(const pack_t *pack, const uint8_t *codes, int64_t n, char *words)
{
    const int per = grouped_per_word(pack->grouped), bits = pack->grouped->grouping.bits;
    const uint8_t bias = (uint8_t)grouped_bias(pack->grouped);
    for (int64_t c = 0; c < n; c += per, words += 4 * GROUPED_ROWS) {
        uint32_t word = 0;
        for (int k = 0; k < per && c + k < n; k++)
            word |= (uint32_t)(uint8_t)(codes[c + k] + bias) << (k % 4 * 8 + k / 4 * bits);
        memcpy(words, &word, sizeof word);
    }
}

static void pack_row(const pack_t *pack, int64_t row)
{
    const grouped_t *g = pack->grouped;
    const int64_t r = row % GROUPED_ROWS, scale = (int64_t)dtype_size(g->grouping.scale);
    const int64_t given = row - pack->first;
    char *block = pack->out + row / GROUPED_ROWS * g->block_bytes;
    for (int64_t group = 0; group < g->n_groups; group++) {
        const int64_t at = given * g->n_groups + group, first = group * g->grouping.group;
        const int64_t rest = g->n_columns - first;
        char *head = block + group * g->group_bytes, *second = head + GROUPED_ROWS * scale;
        memcpy(head + r * scale, pack->scales + at * scale, (size_t)scale);
        if (g->grouping.offset == GROUPING_MINIMA)
            memcpy(second + r * scale, pack->offsets + at * scale, (size_t)scale);
        else if (g->grouping.offset == GROUPING_ZEROS)
            second[r] = (char)(uint8_t)((uint8_t)pack->offsets[at] + grouped_bias(g));
        pack_codes(pack, pack->codes + given * g->n_columns + first,
                   rest < g->grouping.group ? rest : g->grouping.group,
                   head + g->head_bytes + r * 4);
    }
}

static void pack_blocks(void *user, int64_t first, int64_t last)
{
    const pack_t *pack = user;
    const grouped_t *g = pack->grouped;
    for (int64_t block = first; block < last; block++) {
        const int64_t end = (block + 1) * GROUPED_ROWS;
        memset(pack->out + block * g->block_bytes, 0, (size_t)g->block_bytes);
        for (int64_t row = block * GROUPED_ROWS; row < end && row < g->n_rows; row++)
            pack_row(pack, row);
    }
}

void grouped_pack(const grouped_t *grouped, int64_t first, int64_t n, const void *codes,
                  const void *scales, const void *offsets, void *bytes)
{
    pack_t pack = {grouped, first, codes, scales, offsets, bytes};
    pack_blocks(&pack, first / GROUPED_ROWS, (first + n - 1) / GROUPED_ROWS + 1);
}

/* Fails if one of n codes or zeros is outside the range of the codes. */
static status_t check_codes(context_t *ctx, const grouping_t *grouping, const char *what, int64_t n,
                            const void *bytes)
{
    const int least = grouping->is_signed ? -(1 << (grouping->bits - 1)) : 0;
    const int most = least + (1 << grouping->bits) - 1;
    int64_t at = 0;
    int code = 0;
    if (grouping->bits == 8) return STATUS_OK;
    for (; at < n; at++) {
        code = grouping->is_signed ? ((const int8_t *)bytes)[at] : ((const uint8_t *)bytes)[at];
        if (code < least || code > most) break;
    }
    REQUIRE(ctx, at == n, "tensor_grouped: %s %lld is %d, must be %d to %d", what, (long long)at,
            code, least, most);
    return STATUS_OK;
}

static status_t check(context_t *ctx, const grouping_t *grouping, int rank, const int64_t *sizes,
                      tensor_info_t *out_info, grouped_t *out_grouped)
{
    TRY(tensor_check(ctx, "tensor_grouped", DTYPE_F32, rank, sizes));
    const tensor_info_t dense = info_dense(DTYPE_F32, rank, sizes);
    const format_t format = format_grouped(rank > 0 ? rank : 1, grouping);
    REQUIRE(ctx, rank > 0 && info_numel(&dense) > 0,
            "tensor_grouped: %s, must have a dimension and elements", info_brief(&dense));
    REQUIRE(
        ctx, format.kind == FORMAT_GROUPED,
        "tensor_grouped: %d bits in groups of %lld with scales of %s, must be 2, 4 or 8 bits, a "
        "multiple of %d up to %d, and f32, f16 or bf16",
        grouping->bits, (long long)grouping->group, dtype_name(grouping->scale), GROUPING_LEAST,
        GROUPING_MOST);
    REQUIRE(ctx, grouped_find(&format, sizes, out_grouped),
            "tensor_grouped: %s, its bytes overflow", info_brief(&dense));
    *out_info = info_mkldnn(&dense, &format);
    return STATUS_OK;
}

status_t grouped_make(context_t *ctx, const grouping_t *grouping, int rank, const int64_t *sizes,
                      grouped_t *out_grouped, void **out_bytes, tensor_t **out_tensor)
{
    tensor_info_t info;
    TRY(check(ctx, grouping, rank, sizes, &info, out_grouped));
    return tensor_make_of(ctx, &info, info_bytes(&info), 0, out_tensor, out_bytes);
}

status_t tensor_grouped(context_t *ctx, const grouping_t *grouping, int rank, const int64_t *sizes,
                        const void *codes, const void *scales, const void *offsets,
                        tensor_t **out_tensor)
{
    TRY(context_output(ctx, "tensor_grouped", out_tensor));
    if (grouping == NULL) return context_null(ctx, "tensor_grouped", "grouping");
    if (codes == NULL) return context_null(ctx, "tensor_grouped", "codes");
    if (scales == NULL) return context_null(ctx, "tensor_grouped", "scales");
    tensor_info_t info;
    grouped_t grouped;
    tensor_t *tensor = NULL;
    void *bytes = NULL;
    TRY(check(ctx, grouping, rank, sizes, &info, &grouped));
    REQUIRE(ctx, (offsets != NULL) == (grouping->offset != GROUPING_NONE),
            "tensor_grouped: offsets are %s, the grouping has %s",
            offsets != NULL ? "given" : "missing",
            grouping->offset == GROUPING_NONE ? "none" : "some");
    TRY(check_codes(ctx, grouping, "code", grouped.n_rows * grouped.n_columns, codes));
    if (grouping->offset == GROUPING_ZEROS)
        TRY(check_codes(ctx, grouping, "zero", grouped.n_rows * grouped.n_groups, offsets));
    TRY(tensor_make_of(ctx, &info, info_bytes(&info), 0, &tensor, &bytes));
    pack_t pack = {&grouped, 0, codes, scales, offsets, bytes};
    threads_share(threads_for(ctx, grouped.n_rows * grouped.n_columns), grouped.n_blocks,
                  pack_blocks, &pack);
    return tensor_give(ctx, tensor, out_tensor);
}
