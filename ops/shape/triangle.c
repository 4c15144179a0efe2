/* Keeps the lower or the upper triangle of matrices and sets the rest to zero. */
#include <string.h>

#include "ops/accept_impl.h"
#include "ops/gradient_impl.h"
#include "tensor/threads/threads_impl.h"

enum { TRIL, TRIU }; /* opdef_t.variant */

typedef struct triangle_attrs {
    int64_t diagonal;
} triangle_attrs_t;

static const attr_field_t fields[] = {FIELD_INT(triangle_attrs_t, diagonal, 0)};

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false}};

static status_t triangle_infer(context_t *ctx, const op_call_t *call, int *out_n,
                               tensor_info_t *out)
{
    REQUIRE(ctx, call->in[0]->rank >= 2, "%s: x is %s, rank 2 or more is needed", call->op->name,
            info_brief(call->in[0]));
    return ops_infer_like(ctx, call, out_n, out);
}

/* Finds the columns [*out_first, *out_end) of a row that are copied; the others become zero. */
static void find_kept(const opdef_t *op, int64_t diagonal, int64_t row, int64_t n_rows,
                      int64_t n_columns, int64_t *out_first, int64_t *out_end)
{
    /* Prevents overflow below. All diagonals outside of the matrix have the same effect. */
    if (diagonal < -n_rows) diagonal = -n_rows;
    if (diagonal > n_columns) diagonal = n_columns;
    int64_t edge = row + diagonal + (op->variant == TRIL);
    edge = edge < 0 ? 0 : edge > n_columns ? n_columns : edge;
    *out_first = op->variant == TRIL ? 0 : edge;
    *out_end = op->variant == TRIL ? edge : n_columns;
}

static double triangle_spec(const spec_call_t *call, int output, const int64_t *index)
{
    const int rank = call->out[output].rank;
    const int64_t row = index[rank - 2], column = index[rank - 1];
    const int64_t diagonal = ((const triangle_attrs_t *)call->attrs)->diagonal;
    bool is_kept = call->op->variant == TRIL ? column - row <= diagonal : column - row >= diagonal;
    return is_kept ? spec_at(call, 0, index) : 0.0;
}

/* ---- dense kernel ---- */

typedef struct rows {
    const opdef_t *op;
    int64_t diagonal, n_rows, n_columns, size; /* size: bytes of an element */
    const char *x;
    char *out;
} rows_t;

static void copy_rows(void *user, int64_t begin, int64_t last)
{
    const rows_t *rows = user;
    const int64_t size = rows->size, bytes = rows->n_columns * size;
    for (int64_t r = begin; r < last; r++) {
        int64_t first = 0, end = 0;
        const char *from = rows->x + r * bytes;
        char *to = rows->out + r * bytes;
        find_kept(rows->op, rows->diagonal, r % rows->n_rows, rows->n_rows, rows->n_columns, &first,
                  &end);
        memset(to, 0, (size_t)(first * size));
        memcpy(to + first * size, from + first * size, (size_t)((end - first) * size));
        memset(to + end * size, 0, (size_t)(bytes - end * size));
    }
}

static status_t triangle_run(context_t *ctx, const prepared_t *prepared, void *const *in,
                             void *const *out, void *scratch)
{
    (void)scratch;
    const tensor_info_t *x = &prepared->in[0];
    const int64_t n_columns = x->sizes[x->rank - 1], numel = info_numel(x);
    rows_t rows = {prepared->op,
                   ((const triangle_attrs_t *)prepared->attrs)->diagonal,
                   x->sizes[x->rank - 2],
                   n_columns,
                   (int64_t)dtype_size(x->dtype),
                   in[0],
                   out[0]};
    threads_share(threads_for(ctx, numel), numel > 0 ? numel / n_columns : 0, copy_rows, &rows);
    return STATUS_OK;
}

static void triangle_pass(const gradient_call_t *call)
{
    call->in_grad[0] = emit_op(call->emitter, call->op, call->attrs, 1, call->out_grad);
}

#define DEFINE(word, number)                                                                       \
    const opdef_t op_def_##word = {                                                                \
        .name = #word,                                                                             \
        .variant = (number),                                                                       \
        .preference = OP_DENSE,                                                                    \
        .attrs = {sizeof(triangle_attrs_t), 1, fields},                                            \
        OPERANDS(operands),                                                                        \
        .n_outputs = 1,                                                                            \
        .infer = triangle_infer,                                                                   \
        .infers_symbols = true,                                                                    \
        .kernels = KERNELS(KERNEL("native", ops_prepare_dense, triangle_run)),                     \
        .spec = triangle_spec,                                                                     \
        .gradient = GRADIENT(.pass = triangle_pass)}
DEFINE(tril, TRIL);
DEFINE(triu, TRIU);

status_t op_tril(context_t *ctx, const tensor_t *x, int64_t diagonal, tensor_t **out)
{
    return dispatch_run(ctx, &op_def_tril, &(triangle_attrs_t){diagonal}, 1, &x, NULL, out);
}

status_t op_triu(context_t *ctx, const tensor_t *x, int64_t diagonal, tensor_t **out)
{
    return dispatch_run(ctx, &op_def_triu, &(triangle_attrs_t){diagonal}, 1, &x, NULL, out);
}
