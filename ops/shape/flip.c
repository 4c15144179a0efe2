/* Operators that reverse dimensions, or shift elements cyclically. */
#include <string.h>

#include "ops/accept_impl.h"
#include "ops/gradient_impl.h"
#include "ops/shape/moving.h"
#include "tensor/threads/threads_impl.h"

enum { FLIP, ROLL }; /* opdef_t.variant */

typedef struct flip_attrs {
    ints_t dims;
    ints_t shifts; /* roll: one for each dim, or one if dims is empty */
} flip_attrs_t;

static const attr_field_t flip_fields[] = {FIELD_INTS(flip_attrs_t, dims)};
static const attr_field_t roll_fields[] = {FIELD_INTS(flip_attrs_t, dims),
                                           FIELD_INTS(flip_attrs_t, shifts)};

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false}};
enum { X };

static status_t flip_infer(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    const flip_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[X];
    const char *name = call->op->name;
    bool is_there[TENSOR_MAX_RANK] = {false};
    for (int i = 0; i < attrs->dims.n; i++) {
        int dim = 0;
        REQUIRE(ctx, shape_dim(x->rank, attrs->dims.values[i], &dim),
                "%s: dim %lld of %s, out of range", name, (long long)attrs->dims.values[i],
                info_brief(x));
        REQUIRE(ctx, call->op->variant == ROLL || !is_there[dim], "%s: dim %d is given twice", name,
                dim);
        is_there[dim] = true;
    }
    const int n_needed = attrs->dims.n > 0 ? attrs->dims.n : 1;
    REQUIRE(ctx, call->op->variant == FLIP || attrs->shifts.n == n_needed,
            "%s: %d shifts for %d dims, needs %d", name, attrs->shifts.n, attrs->dims.n, n_needed);
    return ops_infer_like(ctx, call, out_n, out);
}

/* How indices of the result map to indices of x. A flattened x has one dimension. */
typedef struct source {
    int rank;
    int64_t sizes[TENSOR_MAX_RANK];
    bool is_flipped[TENSOR_MAX_RANK];
    int64_t shifts[TENSOR_MAX_RANK]; /* 0 to size - 1 */
} source_t;

static source_t find_source(const opdef_t *op, const flip_attrs_t *attrs, const tensor_info_t *x)
{
    source_t source = {.rank = x->rank};
    bool is_flat = x->rank == 0 || (op->variant == ROLL && attrs->dims.n == 0);
    memcpy(source.sizes, x->sizes, sizeof source.sizes);
    if (is_flat) {
        source.rank = 1;
        source.sizes[0] = info_numel(x);
    }
    for (int i = 0; i < (is_flat ? 1 : attrs->dims.n); i++) {
        const int dim = is_flat ? 0 : ops_dim(x->rank, attrs->dims.values[i]);
        const int64_t size = source.sizes[dim];
        source.is_flipped[dim] = op->variant == FLIP;
        if (op->variant == FLIP || size == 0) continue;
        int64_t shift = source.shifts[dim] + attrs->shifts.values[i] % size;
        source.shifts[dim] = (shift % size + size) % size;
    }
    return source;
}

static int64_t place_of(const source_t *source, int dim, int64_t index)
{
    const int64_t size = source->sizes[dim], shifted = index - source->shifts[dim];
    if (source->is_flipped[dim]) return size - 1 - index;
    return shifted < 0 ? shifted + size : shifted;
}

static double flip_spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    const tensor_info_t *x = call->in[X];
    const source_t source = find_source(call->op, call->attrs, x);
    int64_t at[TENSOR_MAX_RANK] = {0}, place = 0;
    if (source.rank == x->rank) {
        for (int d = 0; d < x->rank; d++) at[d] = place_of(&source, d, index[d]);
        return spec_at(call, X, at);
    }
    for (int d = 0; d < x->rank; d++) place = place * x->sizes[d] + index[d];
    place = place_of(&source, 0, place);
    for (int d = x->rank - 1; d >= 0; d--) {
        at[d] = place % x->sizes[d];
        place /= x->sizes[d];
    }
    return spec_at(call, X, at);
}

/* ---- dense kernel: rows along the last dimension ---- */

#define REVERSE(type)                                                                              \
    for (int64_t i = 0; i < n; i++) ((type *)to)[i] = ((const type *)from)[n - 1 - i]

static void reverse(size_t size, int64_t n, const void *from, void *to)
{
    switch (size) {
    case 1: REVERSE(uint8_t); break;
    case 2: REVERSE(uint16_t); break;
    case 4: REVERSE(uint32_t); break;
    default: REVERSE(uint64_t); break;
    }
}

typedef struct rows {
    source_t source;
    size_t size; /* bytes of an element */
    const char *x;
    char *out;
} rows_t;

static void copy_rows(void *user, int64_t first, int64_t end)
{
    const rows_t *rows = user;
    const source_t *source = &rows->source;
    const int last = source->rank - 1;
    const int64_t n = source->sizes[last];
    const size_t bytes = (size_t)n * rows->size;
    const size_t shifted = (size_t)source->shifts[last] * rows->size;
    for (int64_t row = first; row < end; row++) {
        int64_t rest = row, from = 0, step = 1;
        for (int d = last - 1; d >= 0; d--) {
            from += place_of(source, d, rest % source->sizes[d]) * step;
            rest /= source->sizes[d];
            step *= source->sizes[d];
        }
        const char *src = rows->x + (size_t)from * bytes;
        char *dst = rows->out + (size_t)row * bytes;
        if (source->is_flipped[last]) {
            reverse(rows->size, n, src, dst);
        } else {
            memcpy(dst + shifted, src, bytes - shifted);
            memcpy(dst, src + bytes - shifted, shifted);
        }
    }
}

static status_t flip_run(context_t *ctx, const prepared_t *prepared, void *const *in,
                         void *const *out, void *scratch)
{
    (void)scratch;
    const tensor_info_t *x = &prepared->in[X];
    rows_t rows = {find_source(prepared->op, prepared->attrs, x), dtype_size(x->dtype), in[X],
                   out[0]};
    const int64_t numel = info_numel(x), n = rows.source.sizes[rows.source.rank - 1];
    threads_share(threads_for(ctx, numel), n > 0 ? numel / n : 0, copy_rows, &rows);
    return STATUS_OK;
}

/* ---- gradients: the inverse operation ---- */

static void pass_flip(const gradient_call_t *call)
{
    call->in_grad[X] = emit_op(call->emitter, &op_def_flip, call->attrs, 1, call->out_grad);
}

/* Negates the shifts, after reducing them modulo the size, because -INT64_MIN overflows. */
static void pass_roll(const gradient_call_t *call)
{
    const tensor_info_t x = *emit_info(call->emitter, call->in[X]);
    flip_attrs_t attrs = *(const flip_attrs_t *)call->attrs;
    for (int i = 0; i < attrs.shifts.n; i++) {
        const int64_t size = attrs.dims.n == 0 ? info_numel(&x)
                                               : x.sizes[ops_dim(x.rank, attrs.dims.values[i])];
        attrs.shifts.values[i] = size == 0 ? 0 : -(attrs.shifts.values[i] % size);
    }
    call->in_grad[X] = emit_op(call->emitter, &op_def_roll, &attrs, 1, call->out_grad);
}

static const gradient_t gradient_flip = {.pass = pass_flip};
static const gradient_t gradient_roll = {.pass = pass_roll};

#define DEFINE(op, which)                                                                          \
    const opdef_t op_def_##op = {                                                                  \
        .name = #op,                                                                               \
        .variant = (which),                                                                        \
        .preference = OP_DENSE,                                                                    \
        .attrs = {sizeof(flip_attrs_t), (int)(sizeof op##_fields / sizeof *(op##_fields)),         \
                  op##_fields},                                                                    \
        OPERANDS(operands),                                                                        \
        .n_outputs = 1,                                                                            \
        .infer = flip_infer,                                                                       \
        .infers_symbols = true,                                                                    \
        .kernels = KERNELS(KERNEL("native", ops_prepare_dense, flip_run)),                         \
        .spec = flip_spec,                                                                         \
        .gradient = &gradient_##op}
DEFINE(flip, FLIP);
DEFINE(roll, ROLL);

static status_t copy_ints(context_t *ctx, const char *op, const char *what, int n,
                          const int64_t *values, ints_t *out)
{
    *out = (ints_t){.n = n};
    if (n > 0 && values == NULL) return context_null(ctx, op, what);
    REQUIRE(ctx, n >= 0 && n <= TENSOR_MAX_RANK, "%s: %d %s, 0 to %d are possible", op, n, what,
            TENSOR_MAX_RANK);
    if (n > 0) memcpy(out->values, values, (size_t)n * sizeof *values);
    return STATUS_OK;
}

status_t op_flip(context_t *ctx, const tensor_t *x, int n, const int64_t *dims, tensor_t **out)
{
    flip_attrs_t attrs = {.shifts = {.n = 0}};
    TRY(context_output(ctx, "flip", out));
    TRY(copy_ints(ctx, "flip", "dims", n, dims, &attrs.dims));
    return dispatch_run(ctx, &op_def_flip, &attrs, 1, &x, NULL, out);
}

status_t op_roll(context_t *ctx, const tensor_t *x, int n, const int64_t *shifts,
                 const int64_t *dims, tensor_t **out)
{
    flip_attrs_t attrs;
    TRY(context_output(ctx, "roll", out));
    TRY(copy_ints(ctx, "roll", "shifts", n, shifts, &attrs.shifts));
    TRY(copy_ints(ctx, "roll", "dims", dims != NULL ? n : 0, dims, &attrs.dims));
    return dispatch_run(ctx, &op_def_roll, &attrs, 1, &x, NULL, out);
}
