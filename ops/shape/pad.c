/* Padding: a constant, reflection, the edge, or repetition. Negative padding crops first. */
#include <string.h>

#include "ops/accept_impl.h"
#include "ops/gradient_impl.h"
#include "ops/shape/adjoint_impl.h"
#include "tensor/convert/convert_impl.h"
#include "tensor/sym/sizes_impl.h"
#include "tensor/threads/threads_impl.h"

/* ---- attributes ---- */

typedef struct pad_attrs {
    ints_t before, after; /* for each dimension */
    int mode;             /* pad_mode_t */
    double value;
} pad_attrs_t;

static const char *const mode_names[] = {"constant", "reflect", "edge", "wrap", NULL};

static const attr_field_t fields[] = {
    FIELD_INTS(pad_attrs_t, before), FIELD_INTS(pad_attrs_t, after),
    FIELD_NAME(pad_attrs_t, mode, 0, mode_names), FIELD_FLOAT(pad_attrs_t, value, 0)};

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false}};

/* The range of a dimension of x that is in the result, and its position there. */
typedef struct part {
    int64_t cut, kept; /* elements cropped at the beginning; elements in the result */
    int64_t before;    /* padding elements before these */
} part_t;

/* Negative numbers crop x; positive numbers pad the cropped x. */
static part_t find_part(const pad_attrs_t *attrs, int dim, int64_t size)
{
    int64_t before = attrs->before.values[dim], after = attrs->after.values[dim];
    part_t part = {.cut = before < 0 ? -before : 0, .before = before > 0 ? before : 0};
    part.kept = size - part.cut + (after < 0 ? after : 0);
    return part;
}

/* ---- inference ---- */

/* True if the size is still 0 or more after `added` elements, which may be negative. */
static bool leaves(context_t *ctx, int64_t size, int64_t added)
{
    return sym_at_most(ctx, 0, sym_add(ctx, size, added)) || !sym_less(ctx, added, 0);
}

/* True if elements are added. Call this after other checks: for symbolic sizes it may add a guard
 * (tensor/sym/sym.h), which limits the sizes that a graph supports. */
static bool adds(context_t *ctx, int64_t before, int64_t after)
{
    return sym_less(ctx, 0, before) || sym_less(ctx, 0, after);
}

/* Number of elements of x that remain after cropping. */
static int64_t count_kept(context_t *ctx, int64_t size, int64_t before, int64_t after)
{
    size = sym_add(ctx, size, sym_min(ctx, before, 0));
    return sym_add(ctx, size, sym_min(ctx, after, 0));
}

static status_t pad_infer(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)out_n;
    const pad_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[0];
    int64_t sizes[TENSOR_MAX_RANK];
    REQUIRE(ctx, attrs->before.n == x->rank && attrs->after.n == x->rank,
            "pad: %d numbers before and %d after for %s, one for each dimension is needed",
            attrs->before.n, attrs->after.n, info_brief(x));
    for (int d = 0; d < x->rank; d++) {
        int64_t before = attrs->before.values[d], after = attrs->after.values[d];
        int64_t size = x->sizes[d];
        bool fits = sizes_add(ctx, size, before, &sizes[d]) &&
                    sizes_add(ctx, sizes[d], after, &sizes[d]) && sym_at_most(ctx, 0, sizes[d]);
        REQUIRE(ctx, fits && leaves(ctx, size, before) && leaves(ctx, size, after),
                "pad: %lld before and %lld after dimension %d of %s, no size is left",
                (long long)before, (long long)after, d, info_brief(x));
        if (attrs->mode == PAD_CONSTANT) continue;
        const int64_t kept = count_kept(ctx, size, before, after);
        REQUIRE(ctx, sym_less(ctx, 0, kept) || !adds(ctx, before, after),
                "pad: %lld before and %lld after dimension %d of %s, nothing is left that has an "
                "edge",
                (long long)before, (long long)after, d, info_brief(x));
        REQUIRE(ctx,
                attrs->mode != PAD_REFLECT ||
                    (sym_less(ctx, before, kept) && sym_less(ctx, after, kept)) ||
                    !adds(ctx, before, after),
                "pad: %lld before and %lld after dimension %d of %s, reflection needs less than "
                "its size",
                (long long)before, (long long)after, d, info_brief(x));
    }
    TRY(shape_check(ctx, "pad", x->dtype, x->rank, sizes));
    out[0] = info_dense(x->dtype, x->rank, sizes);
    return STATUS_OK;
}

/* Converts an index of the result to the index of its source in x. Returns -1 for constant
 * padding. */
static int64_t find_source(int mode, const part_t *part, int64_t index)
{
    int64_t at = index - part->before, size = part->kept;
    if (at < 0 || at >= size) {
        switch (mode) {
        case PAD_REFLECT: at = at < 0 ? -at : 2 * (size - 1) - at; break;
        case PAD_EDGE: at = at < 0 ? 0 : size - 1; break;
        case PAD_WRAP: at = at < 0 ? size - 1 - (-1 - at) % size : at % size; break;
        default: return -1;
        }
    }
    return part->cut + at;
}

/* ---- specification ---- */

static double pad_spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    const pad_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[0];
    int64_t at[TENSOR_MAX_RANK] = {0};
    for (int d = 0; d < x->rank; d++) {
        const part_t part = find_part(attrs, d, x->sizes[d]);
        at[d] = find_source(attrs->mode, &part, index[d]);
        if (at[d] < 0) return attrs->value;
    }
    return spec_at(call, 0, at);
}

/* ---- dense kernel: copies the kept elements of each row at once ---- */

/* The dimensions, after merging. Those after the last padded dimension become one "element":
 * f32[172,309,4], padded in dimension 1, has rows of 309 elements of 16 bytes. Adjacent dimensions
 * without padding become one dimension. */
typedef struct geometry {
    int n;
    size_t size, element;              /* bytes of the dtype; bytes of an "element" */
    part_t parts[TENSOR_MAX_RANK + 1]; /* the last one is that of a row */
    int64_t in[TENSOR_MAX_RANK + 1], out[TENSOR_MAX_RANK + 1]; /* sizes */
    int64_t steps[TENSOR_MAX_RANK + 1];                        /* strides of x, in "elements" */
    const char *x, *value;
    char *to;
    int mode;
} geometry_t;

static geometry_t describe(const prepared_t *prepared)
{
    const pad_attrs_t *attrs = prepared->attrs;
    const tensor_info_t *x = &prepared->in[0], *result = &prepared->out[0];
    geometry_t g = {.mode = attrs->mode, .size = dtype_size(x->dtype)};
    g.element = g.size;
    int rank = x->rank;
    while (rank > 0 && attrs->before.values[rank - 1] == 0 && attrs->after.values[rank - 1] == 0)
        g.element *= (size_t)x->sizes[--rank];
    for (int d = 0; d < rank; d++) {
        const bool is_padded = attrs->before.values[d] != 0 || attrs->after.values[d] != 0;
        if (!is_padded && g.n > 0 && g.in[g.n - 1] == g.out[g.n - 1] &&
            g.parts[g.n - 1].kept == g.in[g.n - 1]) {
            g.in[g.n - 1] *= x->sizes[d];
            g.out[g.n - 1] = g.parts[g.n - 1].kept = g.in[g.n - 1];
            continue;
        }
        g.parts[g.n] = find_part(attrs, d, x->sizes[d]);
        g.in[g.n] = x->sizes[d];
        g.out[g.n++] = result->sizes[d];
    }
    if (g.n == 0) {
        g.parts[0] = (part_t){.kept = 1};
        g.in[0] = g.out[0] = g.n = 1;
    }
    for (int64_t d = g.n - 1, step = 1; d >= 0; step *= g.in[d--]) g.steps[d] = step;
    return g;
}

static void fill(const geometry_t *g, int64_t n, char *to)
{
    convert_runs(n * (int64_t)(g->element / g->size), g->size, g->value, 0, to, (int64_t)g->size);
}

/* Computes one row of the result from row x. If x is NULL, all of the row is padding. */
static void pad_row(const geometry_t *g, const char *x, char *out)
{
    const size_t size = g->element;
    const int64_t n = g->out[g->n - 1];
    const part_t part = g->parts[g->n - 1];
    const int64_t begin = x == NULL ? n : part.before, end = x == NULL ? n : begin + part.kept;
    if (end > begin)
        memcpy(out + (size_t)begin * size, x + (size_t)part.cut * size, (size_t)part.kept * size);
    if (g->mode == PAD_CONSTANT || x == NULL) {
        fill(g, begin, out);
        fill(g, n - end, out + (size_t)end * size);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        if (i == begin) i = end;
        if (i >= n) break;
        memcpy(out + (size_t)i * size, x + (size_t)find_source(g->mode, &part, i) * size, size);
    }
}

static void pad_rows(void *user, int64_t first, int64_t last)
{
    const geometry_t *g = user;
    const size_t row_bytes = (size_t)g->out[g->n - 1] * g->element;
    for (int64_t row = first; row < last; row++) {
        int64_t rest = row, offset = 0;
        bool is_inside = true;
        for (int d = g->n - 2; d >= 0; d--) {
            const int64_t at = find_source(g->mode, &g->parts[d], rest % g->out[d]);
            rest /= g->out[d];
            is_inside = is_inside && at >= 0;
            offset += at * g->steps[d];
        }
        const char *from = is_inside ? g->x + (size_t)offset * g->element : NULL;
        pad_row(g, from, g->to + (size_t)row * row_bytes);
    }
}

static status_t pad_run(context_t *ctx, const prepared_t *prepared, void *const *in,
                        void *const *out, void *scratch)
{
    (void)scratch;
    const int64_t numel = info_numel(&prepared->out[0]);
    char value[16] = {0};
    if (numel == 0) return STATUS_OK;
    dtype_store(prepared->in[0].dtype, value, ((const pad_attrs_t *)prepared->attrs)->value);
    geometry_t g = describe(prepared);
    g.x = in[0];
    g.to = out[0];
    g.value = value;
    const int64_t row = g.out[g.n - 1] * (int64_t)(g.element / g.size);
    threads_share(threads_for(ctx, numel), numel / row, pad_rows, &g);
    return STATUS_OK;
}

/* ---- gradients ----
 *
 * For constant padding, pad crops grad. For other modes, pad_backward adds the gradients of all
 * copies of an element. */

static int backward_taps(const void *attrs, const tensor_info_t *x, const tensor_info_t *grad,
                         int dim, int64_t q, int64_t first, row_sum_tap_t *out_taps)
{
    (void)grad;
    const part_t part = find_part(attrs, dim, x->sizes[dim]);
    const int64_t at = find_source(((const pad_attrs_t *)attrs)->mode, &part, q);
    out_taps[0] = (row_sum_tap_t){at, 1.0};
    return at >= 0 && first == 0;
}

static status_t pad_backward_infer(context_t *ctx, const op_call_t *call, int *out_n,
                                   tensor_info_t *out)
{
    const pad_attrs_t *attrs = call->attrs;
    const tensor_info_t *grad = call->in[0];
    tensor_info_t x = *grad, padded = x;
    op_call_t forward = *call;
    REQUIRE(ctx, dtype_is_floating(grad->dtype),
            "pad_backward: grad is %s, a floating dtype is needed", info_brief(grad));
    for (int d = 0; d < grad->rank && d < attrs->before.n && d < attrs->after.n; d++) {
        x.sizes[d] = sym_subtract(ctx, x.sizes[d], attrs->before.values[d]);
        x.sizes[d] = sym_subtract(ctx, x.sizes[d], attrs->after.values[d]);
        REQUIRE(ctx, sym_at_most(ctx, 0, x.sizes[d]),
                "pad_backward: %lld before and %lld after dimension %d gave %s, of no size",
                (long long)attrs->before.values[d], (long long)attrs->after.values[d], d,
                info_brief(grad));
    }
    x = info_dense(x.dtype, x.rank, x.sizes);
    forward.in = (const tensor_info_t *const[]){&x};
    TRY(pad_infer(ctx, &forward, out_n, &padded));
    out[0] = x;
    return STATUS_OK;
}

ADJOINT(backward_taps)

static void pad_pass(const gradient_call_t *call)
{
    pad_attrs_t attrs = *(const pad_attrs_t *)call->attrs;
    const bool is_constant = attrs.mode == PAD_CONSTANT;
    for (int d = 0; is_constant && d < attrs.before.n; d++) {
        attrs.before.values[d] = -attrs.before.values[d];
        attrs.after.values[d] = -attrs.after.values[d];
    }
    attrs.value = 0.0;
    call->in_grad[0] = emit_op(call->emitter, is_constant ? &op_def_pad : &op_def_pad_backward,
                               &attrs, 1, call->out_grad);
}

value_t emit_pad(emitter_t *emitter, value_t x, const int64_t *before, const int64_t *after)
{
    const int rank = emit_info(emitter, x)->rank;
    pad_attrs_t attrs = {.before = {.n = rank}, .after = {.n = rank}};
    if (rank == 0) return x;
    memcpy(attrs.before.values, before, (size_t)rank * sizeof *before);
    memcpy(attrs.after.values, after, (size_t)rank * sizeof *after);
    return emit_op(emitter, &op_def_pad, &attrs, 1, &x);
}

/* ---- definitions ---- */

const opdef_t op_def_pad = {.name = "pad",
                            FUNCTIONS_OF(pad),
                            .preference = OP_DENSE,
                            .attrs = {sizeof(pad_attrs_t), 4, fields},
                            OPERANDS(operands),
                            .kernels = KERNELS(KERNEL("native", ops_prepare_dense, pad_run)),
                            .gradient = GRADIENT(.pass = pad_pass)};

const opdef_t op_def_pad_backward = {.name = "pad_backward",
                                     .preference = OP_FOLLOWS,
                                     .attrs = {sizeof(pad_attrs_t), 4, fields},
                                     .n_operands = 1,
                                     .operands = backward_operands,
                                     .n_outputs = 1,
                                     .infer = pad_backward_infer,
                                     .infers_symbols = true,
                                     .kernels = backward_kernels,
                                     .spec = backward_spec};

/* ---- public ---- */

status_t op_pad(context_t *ctx, const tensor_t *x, const int64_t *before, const int64_t *after,
                pad_mode_t mode, double value, tensor_t **out)
{
    TRY(context_output(ctx, "pad", out));
    if (x == NULL) return context_null(ctx, "pad", "x");
    int rank = tensor_rank(x);
    if (rank > 0 && before == NULL) return context_null(ctx, "pad", "before");
    if (rank > 0 && after == NULL) return context_null(ctx, "pad", "after");
    pad_attrs_t attrs = {
        .before = {.n = rank}, .after = {.n = rank}, .mode = (int)mode, .value = value};
    if (rank > 0) {
        memcpy(attrs.before.values, before, (size_t)rank * sizeof *before);
        memcpy(attrs.after.values, after, (size_t)rank * sizeof *after);
    }
    return dispatch_run(ctx, &op_def_pad, &attrs, 1, &x, NULL, out);
}
