/* Selects the elements where a mask is true. */
#include <string.h>

#include "ops/accept_impl.h"
#include "ops/gradient_impl.h"
#include "ops/index/picking.h"
#include "tensor/sym/sizes_impl.h"
#include "tensor/threads/threads_impl.h"

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false},
                                     {"mask", ROLE_ACTIVATION, false, false}};
enum { X, MASK };

/* The broadcast shape of x and mask, and the strides of both, 0 where elements are repeated. */
typedef struct field {
    int rank;
    int64_t sizes[TENSOR_MAX_RANK], steps[2][TENSOR_MAX_RANK], numel;
} field_t;

static bool find_field(const tensor_info_t *const *in, field_t *out)
{
    *out = (field_t){.numel = 1};
    if (!shape_broadcast(in[X]->rank, in[X]->sizes, in[MASK]->rank, in[MASK]->sizes, &out->rank,
                         out->sizes))
        return false;
    for (int i = 0; i < 2; i++) {
        int64_t step = 1;
        for (int d = in[i]->rank - 1; d >= 0; d--) {
            out->steps[i][d + out->rank - in[i]->rank] = in[i]->sizes[d] == 1 ? 0 : step;
            step *= in[i]->sizes[d];
        }
    }
    for (int d = 0; d < out->rank; d++) out->numel *= out->sizes[d];
    return true;
}

/* ---- rows along the last dimension ---- */

static int64_t count_rows(const field_t *field)
{
    return field->numel == 0  ? 0
           : field->rank == 0 ? 1
                              : field->numel / field->sizes[field->rank - 1];
}

/* A row: the number of its elements, its start in x, and the strides in x and mask. */
typedef struct row {
    int64_t n, x_first, x_step, mask_step;
    const uint8_t *mask;
} row_t;

static row_t find_row(const field_t *field, const void *mask, int64_t index)
{
    const int last = field->rank - 1;
    row_t row = {.n = 1};
    int64_t first = 0;
    if (field->rank > 0) {
        row.n = field->sizes[last];
        row.x_step = field->steps[X][last];
        row.mask_step = field->steps[MASK][last];
    }
    for (int d = last - 1; d >= 0; d--) {
        row.x_first += index % field->sizes[d] * field->steps[X][d];
        first += index % field->sizes[d] * field->steps[MASK][d];
        index /= field->sizes[d];
    }
    row.mask = (const uint8_t *)mask + first;
    return row;
}

static int64_t count_row(const field_t *field, const void *mask, int64_t index)
{
    const row_t row = find_row(field, mask, index);
    int64_t n = 0;
    for (int64_t i = 0; i < row.n; i++) n += row.mask[i * row.mask_step] != 0;
    return n;
}

static int64_t count_picked(const field_t *field, const void *mask)
{
    int64_t n = 0;
    for (int64_t r = 0; r < count_rows(field); r++) n += count_row(field, mask, r);
    return n;
}

/* ---- inference and specification ---- */

static status_t masked_select_infer(context_t *ctx, const op_call_t *call, int *out_n,
                                    tensor_info_t *out)
{
    (void)out_n;
    const tensor_info_t *x = call->in[X], *mask = call->in[MASK];
    int64_t sizes[TENSOR_MAX_RANK], n = -1;
    int rank = 0;
    char text[INFO_TEXT_MAX];
    REQUIRE(ctx, mask->dtype == DTYPE_BOOL, "masked_select: mask %s, bool is needed",
            info_brief(mask));
    REQUIRE(ctx, sizes_broadcast(ctx, x->rank, x->sizes, mask->rank, mask->sizes, &rank, sizes),
            "masked_select: x %s and mask %s do not broadcast", info_text(x, text),
            info_brief(mask));
    TRY(shape_check(ctx, "masked_select", x->dtype, rank, sizes));
    field_t field;
    if (call_knows(call, MASK) && find_field(call->in, &field))
        n = count_picked(&field, call->data[MASK]);
    out[0] = info_dense(x->dtype, 1, &n);
    return STATUS_OK;
}

static double masked_select_spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    field_t field;
    int64_t at[TENSOR_MAX_RANK] = {0}, left = index[0];
    find_field(call->in, &field);
    for (int64_t i = 0; i < field.numel; i++) {
        if (spec_at_broadcast(call, MASK, field.rank, at) != 0.0 && left-- == 0)
            return spec_at_broadcast(call, X, field.rank, at);
        shape_next(field.rank, field.sizes, at);
    }
    return -1.0;
}

/* ---- dense kernel: first counts the selected elements of each row ---- */

/* The broadcast shape is stored as the prepared operator's state. */
static status_t masked_select_prepare(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    field_t *field = NULL;
    TRY(ops_prepare_dense(ctx, call, prepared));
    TRY(prepared_make_state(ctx, prepared, sizeof *field, &field));
    find_field(call->in, field);
    prepared->scratch_bytes = (size_t)(count_rows(field) + 1) * sizeof(int64_t);
    return STATUS_OK;
}

/* Arguments for the threads. */
typedef struct rows {
    const field_t *field;
    const void *mask;
    int64_t *before; /* [rows] selected elements in a row; later, in all rows before */
    size_t size;     /* bytes of an element */
    const void *x;
    char *out;
} rows_t;

static void count_rows_picked(void *user, int64_t first, int64_t last)
{
    const rows_t *rows = user;
    for (int64_t r = first; r < last; r++) rows->before[r] = count_row(rows->field, rows->mask, r);
}

/* Computes how many elements are selected before each row. */
static void count_before(context_t *ctx, const field_t *field, const void *mask, int64_t *before)
{
    const int64_t n_rows = count_rows(field);
    int64_t n = 0;
    rows_t rows = {.field = field, .mask = mask, .before = before};
    threads_share(threads_for(ctx, field->numel), n_rows, count_rows_picked, &rows);
    for (int64_t r = 0; r < n_rows; r++) {
        int64_t n_picked = before[r];
        before[r] = n;
        n += n_picked;
    }
}

#define PICK(type)                                                                                 \
    for (int64_t i = 0; i < row->n; i++)                                                           \
        if (row->mask[i * row->mask_step] != 0)                                                    \
    ((type *)out)[n++] = ((const type *)x)[row->x_first + i * row->x_step]

static void pick(size_t size, const row_t *row, const void *x, void *out)
{
    int64_t n = 0;
    switch (size) {
    case 1: PICK(uint8_t); break;
    case 2: PICK(uint16_t); break;
    case 4: PICK(uint32_t); break;
    default: PICK(uint64_t); break;
    }
}

static void pick_rows(void *user, int64_t first, int64_t last)
{
    const rows_t *rows = user;
    for (int64_t r = first; r < last; r++) {
        const row_t row = find_row(rows->field, rows->mask, r);
        pick(rows->size, &row, rows->x, rows->out + (size_t)rows->before[r] * rows->size);
    }
}

static status_t masked_select_run(context_t *ctx, const prepared_t *prepared, void *const *in,
                                  void *const *out, void *scratch)
{
    const field_t *field = prepared->state;
    const size_t size = dtype_size(prepared->in[X].dtype);
    const int64_t n_rows = count_rows(field);
    int64_t *before = scratch;
    count_before(ctx, field, in[MASK], before);
    rows_t rows = {field, in[MASK], before, size, in[X], out[0]};
    threads_share(threads_for(ctx, field->numel), n_rows, pick_rows, &rows);
    return STATUS_OK;
}

/* ---- gradients: writes grad where the mask is true ---- */

static void masked_select_pass(const gradient_call_t *call)
{
    emitter_t *e = call->emitter;
    const tensor_info_t x = *emit_info(e, call->in[X]), mask = *emit_info(e, call->in[MASK]);
    const tensor_info_t *in[] = {&x, &mask};
    const int64_t line = -1;
    field_t field;
    find_field(in, &field);
    value_t places = emit_ints(e, &op_def_expand, call->in[MASK], field.rank, field.sizes);
    places = emit_ints(e, &op_def_reshape, places, 1, &line);
    places = emit_ints(e, &op_def_reshape, emit_unary(e, &op_def_nonzero, places), 1, &line);
    value_t grad = emit_gather_backward(e, call->out_grad[0], places, 0, field.numel);
    grad = emit_ints(e, &op_def_reshape, grad, field.rank, field.sizes);
    call->in_grad[X] = emit_unbroadcast(e, grad, call->in[X]);
}

const opdef_t op_def_masked_select = {
    .name = "masked_select",
    FUNCTIONS_OF(masked_select),
    .preference = OP_DENSE,
    .traits = TRAIT_MEASURES,
    OPERANDS(operands),
    .kernels = KERNELS(KERNEL("native", masked_select_prepare, masked_select_run)),
    .gradient = GRADIENT(.pass = masked_select_pass, .reads_in = 1u << MASK)};

status_t op_masked_select(context_t *ctx, const tensor_t *x, const tensor_t *mask, tensor_t **out)
{
    const tensor_t *in[] = {x, mask};
    return dispatch_run(ctx, &op_def_masked_select, NULL, 2, in, NULL, out);
}
