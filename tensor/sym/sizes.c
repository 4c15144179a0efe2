#include "tensor/sym/sizes_impl.h"

#include <string.h>

bool sizes_have_symbols(int rank, const int64_t *sizes)
{
    for (int d = 0; d < rank; d++)
        if (sym_is(sizes[d])) return true;
    return false;
}

bool sizes_are_numbers(context_t *ctx)
{
    sym_space_t *space = sym_space_enter(ctx, NULL);
    if (space != NULL) sym_space_enter(ctx, space);
    return space == NULL;
}

bool sizes_multiply(context_t *ctx, int64_t a, int64_t b, int64_t *out_product)
{
    if (!sym_is(a) && !sym_is(b)) return shape_multiply(a, b, out_product);
    *out_product = sym_multiply(ctx, a, b);
    return *out_product != SYM_NONE;
}

bool sizes_add(context_t *ctx, int64_t a, int64_t b, int64_t *out_sum)
{
    if (!sym_is(a) && !sym_is(b)) return !__builtin_add_overflow(a, b, out_sum);
    *out_sum = sym_add(ctx, a, b);
    return *out_sum != SYM_NONE;
}

bool sizes_within(context_t *ctx, int64_t value, int64_t min, int64_t max)
{
    if (sym_is(value)) return sym_at_most(ctx, min, value);
    return value >= min && value <= max;
}

bool sizes_numel(context_t *ctx, int rank, const int64_t *sizes, int64_t *out_numel)
{
    int64_t numel = 1;
    if (!sizes_have_symbols(rank, sizes)) return shape_numel(rank, sizes, out_numel);
    for (int d = 0; d < rank; d++)
        if (!sizes_multiply(ctx, numel, sizes[d], &numel)) return false;
    *out_numel = numel;
    return true;
}

bool sizes_are_one(context_t *ctx, const tensor_info_t *info)
{
    int64_t numel = 0;
    return sizes_numel(ctx, info->rank, info->sizes, &numel) && sym_equal(ctx, numel, 1);
}

bool sizes_equal(context_t *ctx, int rank_a, const int64_t *a, int rank_b, const int64_t *b)
{
    if (rank_a != rank_b) return false;
    for (int d = 0; d < rank_a; d++)
        if (a[d] != b[d] && !sym_equal(ctx, a[d], b[d])) return false;
    return true;
}

bool sizes_are_like(context_t *ctx, const tensor_info_t *a, const tensor_info_t *b)
{
    return a->dtype == b->dtype && sizes_equal(ctx, a->rank, a->sizes, b->rank, b->sizes);
}

bool sizes_expand(context_t *ctx, int64_t from, int64_t to)
{
    if (from == to || from == 1) return true;
    if (!sym_is(from) && !sym_is(to)) return false;
    const bool is_one = sym_hint(ctx, from) == 1 && sym_hint(ctx, to) != 1;
    return sym_equal(ctx, from, is_one ? 1 : to);
}

/* Broadcasts one size. If a guard states that a symbolic size is equal to a number, the result is
 * the number. */
static bool broadcast_size(context_t *ctx, int64_t a, int64_t b, int64_t *out_size)
{
    *out_size = a == 1 ? b : a;
    if (a == 1 || b == 1 || a == b) return true;
    if (!sym_is(a) && !sym_is(b)) return false;
    const int64_t hint_a = sym_hint(ctx, a), hint_b = sym_hint(ctx, b);
    const bool is_one = hint_b == 1 && hint_a != 1;
    if (!is_one && ((hint_a == 1 && hint_b != 1) || !sym_is(b))) *out_size = b;
    return is_one ? sym_equal(ctx, b, 1) : sizes_expand(ctx, a, b);
}

bool sizes_broadcast(context_t *ctx, int rank_a, const int64_t *a, int rank_b, const int64_t *b,
                     int *out_rank, int64_t *out_sizes)
{
    const int rank = rank_a > rank_b ? rank_a : rank_b;
    int64_t sizes[TENSOR_MAX_RANK];
    if (!sizes_have_symbols(rank_a, a) && !sizes_have_symbols(rank_b, b))
        return shape_broadcast(rank_a, a, rank_b, b, out_rank, out_sizes);
    for (int d = 0; d < rank; d++) {
        const int d_a = d - (rank - rank_a), d_b = d - (rank - rank_b);
        if (!broadcast_size(ctx, d_a >= 0 ? a[d_a] : 1, d_b >= 0 ? b[d_b] : 1, &sizes[d]))
            return false;
    }
    *out_rank = rank;
    memcpy(out_sizes, sizes, (size_t)rank * sizeof *sizes);
    return true;
}
