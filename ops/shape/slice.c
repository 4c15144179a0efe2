/* Parts of a tensor along one dimension: slice, split. */
#include <string.h>

#include "dispatch/choose/choose_impl.h"
#include "ops/accept_impl.h"
#include "ops/gradient_impl.h"
#include "ops/shape/adjoint_impl.h"
#include "ops/shape/slabs_impl.h"
#include "tensor/convert/convert_impl.h"
#include "tensor/sym/sizes_impl.h"
#include "tensor/threads/threads_impl.h"

/* ---- attributes ---- */

typedef struct slice_attrs {
    int64_t dim, start, end, step;
} slice_attrs_t;

typedef struct split_attrs {
    int64_t dim;
    ints_t sizes;
} split_attrs_t;

static const attr_field_t slice_fields[] = {
    FIELD_INT(slice_attrs_t, dim, 0), FIELD_INT(slice_attrs_t, start, 0),
    FIELD_INT(slice_attrs_t, end, 0x1p63), FIELD_OR(slice_attrs_t, ATTR_INT, step, 0, 1)};
static const attr_field_t split_fields[] = {FIELD_INT(split_attrs_t, dim, 0),
                                            FIELD_INTS(split_attrs_t, sizes)};

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false}};

/* ---- inference ---- */

static int64_t clamp(int64_t at, int64_t size)
{
    if (at < 0) at = at < -size ? 0 : at + size;
    return at > size ? size : at;
}

/* Converts start and end to the first index and the number of elements. */
static void find_range(const slice_attrs_t *attrs, int64_t size, int64_t *out_start,
                       int64_t *out_length)
{
    int64_t start = clamp(attrs->start, size), end = clamp(attrs->end, size);
    *out_start = start;
    *out_length = end > start ? (end - start - 1) / attrs->step + 1 : 0;
}

/* `clamp` for symbolic numbers. It compares only `at` with 0, so the result is valid for all
 * sizes. */
static int64_t clamp_symbolic(context_t *ctx, int64_t at, int64_t size)
{
    if (at == INT64_MAX) return size;
    if (at <= -INT64_MAX) return 0;
    if (sym_less(ctx, at, 0)) at = sym_max(ctx, sym_add(ctx, at, size), 0);
    return sym_min(ctx, at, size);
}

/* The number of elements, as from find_range, for numeric and symbolic sizes. */
static int64_t find_length(context_t *ctx, const slice_attrs_t *attrs, int64_t size)
{
    int64_t start = 0, length = 0;
    if (sizes_have_symbols(4, (const int64_t[]){size, attrs->start, attrs->end, attrs->step}) &&
        !sizes_are_numbers(ctx)) {
        start = clamp_symbolic(ctx, attrs->start, size);
        length = sym_subtract(ctx, clamp_symbolic(ctx, attrs->end, size), start);
        return sym_max(ctx, sym_divide_up(ctx, length, attrs->step), 0);
    }
    find_range(attrs, size, &start, &length);
    return length;
}

static status_t find_dim(context_t *ctx, const op_call_t *call, int64_t dim, int *out_dim)
{
    REQUIRE(ctx, call->in[0]->rank > 0 && shape_dim(call->in[0]->rank, dim, out_dim),
            "%s: dim %lld of %s, out of range", call->op->name, (long long)dim,
            info_brief(call->in[0]));
    return STATUS_OK;
}

static status_t infer_slice(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)out_n;
    const slice_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[0];
    int dim = 0;
    TRY(find_dim(ctx, call, attrs->dim, &dim));
    REQUIRE(ctx, sym_at_most(ctx, 1, attrs->step), "slice: step %lld, at least 1 is needed",
            (long long)attrs->step);
    int64_t sizes[TENSOR_MAX_RANK];
    memcpy(sizes, x->sizes, sizeof sizes);
    sizes[dim] = find_length(ctx, attrs, x->sizes[dim]);
    out[0] = info_dense(x->dtype, x->rank, sizes);
    return STATUS_OK;
}

static status_t infer_split(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    const split_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[0];
    int64_t sizes[TENSOR_MAX_RANK], sum = 0;
    int dim = 0;
    TRY(find_dim(ctx, call, attrs->dim, &dim));
    char text[128];
    shape_text(attrs->sizes.n, attrs->sizes.values, text, sizeof text);
    REQUIRE(ctx, attrs->sizes.n >= 1, "split: no sizes, at least one is needed");
    memcpy(sizes, x->sizes, sizeof sizes);
    for (int i = 0; i < attrs->sizes.n; i++) {
        sizes[dim] = attrs->sizes.values[i];
        REQUIRE(ctx, sym_at_most(ctx, 0, sizes[dim]) && sizes_add(ctx, sum, sizes[dim], &sum),
                "split: %s into %s, sizes of at least 0 are needed", info_brief(x), text);
        TRY(shape_check(ctx, "split", x->dtype, x->rank, sizes));
        out[i] = info_dense(x->dtype, x->rank, sizes);
    }
    REQUIRE(ctx, sym_equal(ctx, sum, x->sizes[dim]), "split: %s into %s, dimension %d has %lld",
            info_brief(x), text, dim, (long long)x->sizes[dim]);
    *out_n = attrs->sizes.n;
    return STATUS_OK;
}

/* ---- specification ---- */

static double spec_slice(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    const slice_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[0];
    int64_t at[TENSOR_MAX_RANK], start = 0, length = 0;
    int dim = 0;
    shape_dim(x->rank, attrs->dim, &dim);
    find_range(attrs, x->sizes[dim], &start, &length);
    memcpy(at, index, (size_t)x->rank * sizeof *at);
    at[dim] = start + index[dim] * attrs->step;
    return spec_at(call, 0, at);
}

static double spec_split(const spec_call_t *call, int output, const int64_t *index)
{
    const split_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[0];
    int64_t at[TENSOR_MAX_RANK];
    int dim = 0;
    shape_dim(x->rank, attrs->dim, &dim);
    memcpy(at, index, (size_t)x->rank * sizeof *at);
    for (int i = 0; i < output; i++) at[dim] += attrs->sizes.values[i];
    return spec_at(call, 0, at);
}

/* ---- mkldnn kernels ----
 *
 * Each part must consist of complete blocks. Parts that are contiguous in memory are views,
 * others are copied. */

/* Adjacent parts of one dimension: the start of each part, then the end of the last part. */
typedef struct parts {
    int dim, n;
    int64_t starts[OP_MAX_OUTPUTS + 1];
} parts_t;

static bool blocks_divide(const format_t *format, const parts_t *parts, int64_t size)
{
    int64_t block = slabs_block(format, parts->dim);
    for (int i = 0; i <= parts->n; i++)
        if (parts->starts[i] % block != 0 && parts->starts[i] != size) return false;
    return format->kind == FORMAT_TAG;
}

/* Bytes of a row before `index` of the dimension. `index` is the start of a block, or the size. */
static size_t bytes_before(const tensor_info_t *x, int dim, int64_t index)
{
    int64_t padded[TENSOR_MAX_RANK];
    format_padded_sizes(&x->format, x->sizes, padded);
    int64_t at = index < x->sizes[dim] ? index : padded[dim];
    return padded[dim] == 0 ? 0 : slabs_row_bytes(x, dim) / (size_t)padded[dim] * (size_t)at;
}

static status_t accept_parts(context_t *ctx, const op_call_t *call, prepared_t *prepared,
                             const format_t *format, const parts_t *parts)
{
    TRY(accept_format(call, prepared, 0, format));
    for (int i = 0; i < parts->n; i++) TRY(accept_out(call, prepared, i, format));
    const tensor_info_t *x = &prepared->in[0];
    prepared->is_view = info_bytes(x) == slabs_row_bytes(x, parts->dim);
    for (int i = 0; i < parts->n && prepared->is_view; i++)
        prepared->offset[i] = (int64_t)(bytes_before(x, parts->dim, parts->starts[i]) /
                                        dtype_size(x->dtype));
    if (!prepared->is_view)
        prepared->cost_ns = cost_run(ctx, "slabs", 0.0, 2.0 * (double)info_bytes(x));
    return STATUS_OK;
}

static status_t prepare_parts(context_t *ctx, const op_call_t *call, prepared_t *prepared,
                              const parts_t *parts)
{
    const tensor_info_t *x = call->in[0];
    format_t formats[2 + CANDIDATES_MAX];
    int n = 0;
    if (call->layout == LAYOUT_DENSE) return prepared_decline(prepared, "slabs: mkldnn only");
    if (call->out_format != NULL) formats[n++] = *call->out_format;
    formats[n++] = info_tag(x);
    if (!call->keep_formats) n += candidates_list(x->rank, &formats[n]);
    for (int i = 0; i < n; i++) {
        if (!blocks_divide(&formats[i], parts, x->sizes[parts->dim])) continue;
        status_t status = accept_parts(ctx, call, prepared, &formats[i], parts);
        if (status != STATUS_UNSUPPORTED) return status;
    }
    return prepared_decline(prepared, "slabs: no format whose blocks hold one part each");
}

enum { BLOCK_BYTES = 16 * 1024 };

/* Rows of x, cut into parts. */
typedef struct cut {
    int n;
    const char *from;
    char *const *to;
    size_t row, first[OP_MAX_OUTPUTS], bytes[OP_MAX_OUTPUTS];
} cut_t;

static void cut_rows(void *user, int64_t first, int64_t last)
{
    const cut_t *cut = user;
    const int64_t block = cut->row < BLOCK_BYTES ? (int64_t)(BLOCK_BYTES / cut->row) : 1;
    for (int64_t r = first; r < last; r += block)
        for (int i = 0; i < cut->n; i++)
            convert_runs(last - r < block ? last - r : block, cut->bytes[i],
                         cut->from + (size_t)r * cut->row + cut->first[i], (int64_t)cut->row,
                         cut->to[i] + (size_t)r * cut->bytes[i], (int64_t)cut->bytes[i]);
}

static void run_parts(context_t *ctx, const prepared_t *prepared, const parts_t *parts,
                      const char *from, void *const *out)
{
    const tensor_info_t *x = &prepared->in[0];
    char *to[OP_MAX_OUTPUTS];
    cut_t cut = {.n = parts->n, .from = from, .to = to, .row = slabs_row_bytes(x, parts->dim)};
    size_t moved = 0;
    for (int i = 0; i < parts->n; i++) {
        to[i] = out[i];
        cut.first[i] = bytes_before(x, parts->dim, parts->starts[i]);
        cut.bytes[i] = slabs_row_bytes(&prepared->out[i], parts->dim);
        moved += info_bytes(&prepared->out[i]);
    }
    if (cut.row > 0)
        threads_share(threads_for(ctx, (int64_t)(moved / sizeof(float))),
                      (int64_t)(info_bytes(x) / cut.row), cut_rows, &cut);
}

static bool slice_parts(const slice_attrs_t *attrs, const tensor_info_t *x, parts_t *out)
{
    int64_t length = 0;
    *out = (parts_t){.n = 1};
    shape_dim(x->rank, attrs->dim, &out->dim);
    find_range(attrs, x->sizes[out->dim], &out->starts[0], &length);
    out->starts[1] = out->starts[0] + length;
    return attrs->step == 1 || length <= 1;
}

static void split_parts(const split_attrs_t *attrs, const tensor_info_t *x, parts_t *out)
{
    *out = (parts_t){.n = attrs->sizes.n};
    shape_dim(x->rank, attrs->dim, &out->dim);
    for (int i = 0; i < out->n; i++) out->starts[i + 1] = out->starts[i] + attrs->sizes.values[i];
}

static status_t prepare_slice_slabs(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    parts_t parts;
    if (!slice_parts(call->attrs, call->in[0], &parts))
        return prepared_decline(prepared, "slabs: a step of 1 is needed");
    return prepare_parts(ctx, call, prepared, &parts);
}

static status_t run_slice_slabs(context_t *ctx, const prepared_t *prepared, void *const *in,
                                void *const *out, void *scratch)
{
    (void)scratch;
    parts_t parts;
    slice_parts(prepared->attrs, &prepared->in[0], &parts);
    run_parts(ctx, prepared, &parts, in[0], out);
    return STATUS_OK;
}

static status_t prepare_split_slabs(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    parts_t parts;
    split_parts(call->attrs, call->in[0], &parts);
    return prepare_parts(ctx, call, prepared, &parts);
}

static status_t run_split_slabs(context_t *ctx, const prepared_t *prepared, void *const *in,
                                void *const *out, void *scratch)
{
    (void)scratch;
    parts_t parts;
    split_parts(prepared->attrs, &prepared->in[0], &parts);
    run_parts(ctx, prepared, &parts, in[0], out);
    return STATUS_OK;
}

/* ---- dense kernels: views ---- */

static status_t prepare_slice(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    (void)ctx;
    const slice_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[0];
    if (call->layout == LAYOUT_MKLDNN) return prepared_decline(prepared, "view: dense only");
    int64_t strides[TENSOR_MAX_RANK], start = 0, length = 0;
    int dim = 0;
    shape_dim(x->rank, attrs->dim, &dim);
    find_range(attrs, x->sizes[dim], &start, &length);
    memcpy(strides, x->format.strides, (size_t)x->rank * sizeof *strides);
    int64_t offset = start * strides[dim];
    if (length > 1) strides[dim] *= attrs->step;
    return accept_view(call, prepared, 0, strides, offset);
}

static status_t prepare_split(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    (void)ctx;
    const split_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[0];
    if (call->layout == LAYOUT_MKLDNN) return prepared_decline(prepared, "view: dense only");
    int64_t offset = 0;
    int dim = 0;
    shape_dim(x->rank, attrs->dim, &dim);
    for (int i = 0; i < call->n_out; i++) {
        TRY(accept_view(call, prepared, i, x->format.strides, offset));
        offset += attrs->sizes.values[i] * x->format.strides[dim];
    }
    return STATUS_OK;
}

/* ---- gradients: slice_backward writes grad into zeros ---- */

typedef struct backward_attrs {
    int64_t dim, start, step, size; /* start, step and size along dim of x */
} backward_attrs_t;

static const attr_field_t backward_fields[] = {
    FIELD_INT(backward_attrs_t, dim, 0), FIELD_INT(backward_attrs_t, start, 0),
    FIELD_OR(backward_attrs_t, ATTR_INT, step, 0, 1), FIELD_INT(backward_attrs_t, size, 0)};

static status_t slice_backward_infer(context_t *ctx, const op_call_t *call, int *out_n,
                                     tensor_info_t *out)
{
    (void)out_n;
    const backward_attrs_t *attrs = call->attrs;
    const tensor_info_t *grad = call->in[0];
    int64_t sizes[TENSOR_MAX_RANK], last = 0;
    int dim = 0;
    TRY(find_dim(ctx, call, attrs->dim, &dim));
    const int64_t n = grad->sizes[dim];
    const bool is_empty = sym_equal(ctx, n, 0);
    const bool fits = sym_at_most(ctx, 0, attrs->start) && sym_at_most(ctx, 1, attrs->step) &&
                      sizes_multiply(ctx, is_empty ? 0 : sym_subtract(ctx, n, 1), attrs->step,
                                     &last) &&
                      sizes_add(ctx, last, attrs->start, &last) &&
                      (is_empty ? sym_at_most(ctx, 0, attrs->size)
                                : sym_less(ctx, last, attrs->size));
    REQUIRE(ctx, dtype_is_floating(grad->dtype) && fits,
            "slice_backward: grad is %s, from %lld in steps of %lld along dimension %d, %lld "
            "floating elements are there",
            info_brief(grad), (long long)attrs->start, (long long)attrs->step, dim,
            (long long)attrs->size);
    memcpy(sizes, grad->sizes, sizeof sizes);
    sizes[dim] = attrs->size;
    TRY(shape_check(ctx, "slice_backward", grad->dtype, grad->rank, sizes));
    out[0] = info_dense(grad->dtype, grad->rank, sizes);
    return STATUS_OK;
}

static int backward_taps(const void *attrs, const tensor_info_t *x, const tensor_info_t *grad,
                         int dim, int64_t q, int64_t first, row_sum_tap_t *out_taps)
{
    const backward_attrs_t *given = attrs;
    (void)grad;
    const bool is_sliced = dim == ops_dim(x->rank, given->dim);
    out_taps[0] = (row_sum_tap_t){is_sliced ? given->start + q * given->step : q, 1.0};
    return first == 0 ? 1 : 0;
}

ADJOINT(backward_taps)

static void pass_slice(const gradient_call_t *call)
{
    const slice_attrs_t *attrs = call->attrs;
    const tensor_info_t x = *emit_info(call->emitter, call->in[0]);
    const int dim = ops_dim(x.rank, attrs->dim);
    backward_attrs_t given = {.dim = dim, .step = attrs->step, .size = x.sizes[dim]};
    int64_t length = 0;
    find_range(attrs, x.sizes[dim], &given.start, &length);
    call->in_grad[0] = emit_op(call->emitter, &op_def_slice_backward, &given, 1, call->out_grad);
}

/* Concatenates the gradients of the pieces, with zeros for pieces without a gradient. */
static void pass_split(const gradient_call_t *call)
{
    emitter_t *e = call->emitter;
    value_t pieces[TENSOR_MAX_RANK];
    for (int i = 0; i < call->n_out; i++) {
        const tensor_info_t piece = *emit_info(e, call->out[i]);
        pieces[i] = call->out_grad[i] != VALUE_NONE ? call->out_grad[i] : emit_zeros(e, &piece);
    }
    call->in_grad[0] = emit_concat(e, call->n_out, pieces,
                                   ((const split_attrs_t *)call->attrs)->dim);
}

/* ---- definitions ---- */

const opdef_t op_def_slice = {
    .name = "slice",
    .preference = OP_FOLLOWS,
    .traits = TRAIT_VIEW,
    .attrs = {sizeof(slice_attrs_t), 4, slice_fields},
    OPERANDS(operands),
    .n_outputs = 1,
    .infer = infer_slice,
    .infers_symbols = true,
    .kernels = KERNELS(KERNEL("slabs", prepare_slice_slabs, run_slice_slabs), VIEW(prepare_slice)),
    .spec = spec_slice,
    .gradient = GRADIENT(.pass = pass_slice)};

const opdef_t op_def_slice_backward = {.name = "slice_backward",
                                       .preference = OP_FOLLOWS,
                                       .attrs = {sizeof(backward_attrs_t), 4, backward_fields},
                                       .n_operands = 1,
                                       .operands = backward_operands,
                                       .n_outputs = 1,
                                       .infer = slice_backward_infer,
                                       .infers_symbols = true,
                                       .kernels = backward_kernels,
                                       .spec = backward_spec};

const opdef_t op_def_split = {
    .name = "split",
    .preference = OP_FOLLOWS,
    .traits = TRAIT_VIEW,
    .attrs = {sizeof(split_attrs_t), 2, split_fields},
    OPERANDS(operands),
    .n_outputs = 0,
    .infer = infer_split,
    .infers_symbols = true,
    .kernels = KERNELS(KERNEL("slabs", prepare_split_slabs, run_split_slabs), VIEW(prepare_split)),
    .spec = spec_split,
    .gradient = GRADIENT(.pass = pass_split)};

value_t emit_slice(emitter_t *emitter, value_t x, int64_t dim, int64_t start, int64_t end)
{
    const slice_attrs_t attrs = {.dim = dim, .start = start, .end = end, .step = 1};
    return emit_op(emitter, &op_def_slice, &attrs, 1, &x);
}

/* ---- public ---- */

status_t op_slice(context_t *ctx, const tensor_t *x, int64_t dim, int64_t start, int64_t end,
                  int64_t step, tensor_t **out)
{
    slice_attrs_t attrs = {dim, start, end, step};
    return dispatch_run(ctx, &op_def_slice, &attrs, 1, &x, NULL, out);
}

status_t op_split(context_t *ctx, const tensor_t *x, int64_t dim, int n, const int64_t *sizes,
                  tensor_t **out)
{
    split_attrs_t attrs = {.dim = dim};
    if (sizes == NULL) return context_null(ctx, "split", "sizes");
    if (out == NULL) return context_null(ctx, "split", "the output");
    REQUIRE(ctx, n >= 1 && n <= TENSOR_MAX_RANK, "split: %d pieces, 1 to %d are possible", n,
            TENSOR_MAX_RANK);
    for (int i = 0; i < n; i++) out[i] = NULL;
    attrs.sizes.n = n;
    memcpy(attrs.sizes.values, sizes, (size_t)n * sizeof *sizes);
    return dispatch_run(ctx, &op_def_split, &attrs, 1, &x, &n, out);
}
