#include "tensor/shape.h"

#include <stdio.h>
#include <string.h>

#include "tensor/context_impl.h"
#include "tensor/sym/sym.h"

#define SHAPE_TEXT_MAX 256

static bool is_list(int n, const int64_t *items)
{
    return n <= 0 || items != NULL;
}

/* If a size is 0 the product is 0, even if the product of the other sizes overflows. */
bool shape_numel(int rank, const int64_t *sizes, int64_t *out_numel)
{
    int64_t numel = 1;
    bool is_empty = false, fits = true;
    if (!is_list(rank, sizes) || out_numel == NULL) return false;
    for (int d = 0; d < rank; d++) {
        if (sizes[d] < 0) return false;
        is_empty = is_empty || sizes[d] == 0;
        fits = fits && shape_multiply(numel, sizes[d], &numel);
    }
    if (!fits && !is_empty) return false;
    *out_numel = is_empty ? 0 : numel;
    return true;
}

/* Sizes of 0 count as 1, so that strides cannot overflow either. For a symbolic size (sym.h), adds
 * a guard that it is not negative, and leaves it out of the number of bytes. */
status_t shape_check(context_t *ctx, const char *op, dtype_t dtype, int rank, const int64_t *sizes)
{
    if (op == NULL) return context_null(ctx, "shape_check", "op");
    REQUIRE(ctx, rank >= 0 && rank <= TENSOR_MAX_RANK, "%s: rank %d, must be 0 to %d", op, rank,
            TENSOR_MAX_RANK);
    if (rank > 0 && sizes == NULL) return context_null(ctx, op, "sizes");
    char text[SHAPE_TEXT_MAX];
    int64_t bytes = (int64_t)dtype_size(dtype);
    bool fits = true;
    for (int d = 0; d < rank; d++) {
        const bool is_symbolic = sym_is(sizes[d]);
        REQUIRE(ctx, is_symbolic ? sym_at_most(ctx, 0, sizes[d]) : sizes[d] >= 0,
                "%s: %s%s, size %d is negative", op, dtype_name(dtype),
                shape_text(rank, sizes, text, sizeof text), d);
        if (!is_symbolic) fits = fits && shape_multiply(bytes, sizes[d] > 0 ? sizes[d] : 1, &bytes);
    }
    REQUIRE(ctx, fits, "%s: %s%s, its bytes overflow", op, dtype_name(dtype),
            shape_text(rank, sizes, text, sizeof text));
    return STATUS_OK;
}

void shape_strides(int rank, const int64_t *sizes, int64_t *out_strides)
{
    int64_t stride = 1;
    if (rank > TENSOR_MAX_RANK || !is_list(rank, sizes) || out_strides == NULL) return;
    for (int d = rank - 1; d >= 0; d--) {
        out_strides[d] = stride;
        if (sizes[d] > 1) stride *= sizes[d];
    }
}

bool shape_equal(int rank_a, const int64_t *a, int rank_b, const int64_t *b)
{
    if (rank_a != rank_b || !is_list(rank_a, a) || !is_list(rank_b, b)) return false;
    for (int d = 0; d < rank_a; d++)
        if (a[d] != b[d]) return false;
    return true;
}

bool shape_broadcast(int rank_a, const int64_t *a, int rank_b, const int64_t *b, int *out_rank,
                     int64_t *out_sizes)
{
    int rank = rank_a > rank_b ? rank_a : rank_b;
    if (rank_a < 0 || rank_b < 0 || rank > TENSOR_MAX_RANK) return false;
    if (!is_list(rank_a, a) || !is_list(rank_b, b) || out_rank == NULL || out_sizes == NULL)
        return false;
    int64_t sizes[TENSOR_MAX_RANK];
    for (int d = 0; d < rank; d++) {
        int d_a = d - (rank - rank_a), d_b = d - (rank - rank_b);
        int64_t size_a = d_a >= 0 ? a[d_a] : 1, size_b = d_b >= 0 ? b[d_b] : 1;
        if (size_a != size_b && size_a != 1 && size_b != 1) return false;
        sizes[d] = size_a == 1 ? size_b : size_a;
    }
    *out_rank = rank;
    if (rank > 0) memcpy(out_sizes, sizes, (size_t)rank * sizeof *sizes);
    return true;
}

bool shape_dim(int rank, int64_t dim, int *out_dim)
{
    int64_t n = rank > 0 ? rank : 1;
    if (dim < -n || dim >= n || out_dim == NULL) return false;
    *out_dim = (int)(dim < 0 ? dim + n : dim);
    return true;
}

const char *shape_text(int rank, const int64_t *sizes, char *out_text, size_t capacity)
{
    if (out_text == NULL) return "";
    if (capacity == 0) return out_text;
    if (sizes == NULL) rank = 0;
    size_t length = 0;
    out_text[0] = '\0';
    for (int d = 0; d <= rank && length < capacity; d++) {
        char *at = out_text + length;
        size_t room = capacity - length;
        const char *before = d == 0 ? "[" : ",";
        int n = d < rank ? snprintf(at, room, "%s%lld", before, (long long)sizes[d])
                         : snprintf(at, room, rank == 0 ? "[]" : "]");
        length += n > 0 ? (size_t)n : 0;
    }
    return out_text;
}
