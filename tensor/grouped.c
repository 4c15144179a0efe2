#include "tensor/grouped_impl.h"

static int64_t round_up(int64_t n, int64_t multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}

int64_t grouped_columns(const grouped_t *grouped, int64_t group)
{
    const int64_t first = group * grouped->grouping.group, rest = grouped->n_padded - first;
    return rest < grouped->grouping.group ? rest : grouped->grouping.group;
}

int grouped_per_word(const grouped_t *grouped)
{
    return 32 / grouped->grouping.bits;
}

int grouped_bias(const grouped_t *grouped)
{
    return grouped->grouping.is_signed ? 1 << (grouped->grouping.bits - 1) : 0;
}

bool grouped_find(const format_t *format, const int64_t *sizes, grouped_t *out_grouped)
{
    grouped_t g = {.n_rows = 1};
    int64_t numel = 0, bytes = 0;
    if (!format_grouping(format, &g.grouping)) return false;
    const int last = format->rank - 1;
    for (int d = 0; d <= last; d++)
        if (sizes[d] <= 0) return false;
    /* An element takes less than 8 bytes with its share of a head; padding adds less than this
     * factor to rows and columns. */
    if (!shape_numel(format->rank, sizes, &numel) || numel > INT64_MAX / 8192) return false;
    for (int d = 0; d < last; d++) g.n_rows *= sizes[d];
    g.n_columns = sizes[last];
    g.n_padded = round_up(g.n_columns, GROUPING_LEAST);
    g.n_blocks = (g.n_rows - 1) / GROUPED_ROWS + 1;
    g.n_groups = (g.n_columns - 1) / g.grouping.group + 1;
    const int64_t scale = (int64_t)dtype_size(g.grouping.scale);
    const int64_t offset = g.grouping.offset == GROUPING_MINIMA  ? scale
                           : g.grouping.offset == GROUPING_ZEROS ? 1
                                                                 : 0;
    g.head_bytes = GROUPED_ROWS * (scale + offset);
    g.group_bytes = g.head_bytes + g.grouping.group * g.grouping.bits / 8 * GROUPED_ROWS;
    g.block_bytes = round_up(
        g.n_groups * g.head_bytes + g.n_padded * g.grouping.bits / 8 * GROUPED_ROWS, 64);
    if (!shape_multiply(g.n_blocks, g.block_bytes, &bytes)) return false;
    *out_grouped = g;
    return true;
}

bool grouped_elements(const format_t *format, const int64_t *sizes, int64_t *out_elements)
{
    grouped_t grouped;
    if (!grouped_find(format, sizes, &grouped)) return false;
    *out_elements = grouped.n_blocks * grouped.block_bytes / (int64_t)sizeof(float);
    return true;
}
