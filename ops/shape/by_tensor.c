/* Operators that read sizes and bounds from a tensor: reshape_by, expand_by, slice_by, range. */
#include <math.h>
#include <string.h>

#include "ops/accept_impl.h"
#include "ops/gradient_impl.h"
#include "ops/index/measured.h"
#include "tensor/convert/convert_impl.h"
#include "tensor/sym/sizes_impl.h"
#include "tensor/threads/threads_impl.h"

/* ---- reading sizes and bounds ---- */

static status_t check_integers(context_t *ctx, const op_call_t *call, int operand)
{
    const tensor_info_t *info = call->in[operand];
    REQUIRE(ctx, info->dtype == DTYPE_S64 || info->dtype == DTYPE_S32,
            "%s: %s is %s, s64 or s32 is needed", call->op->name, call->op->operands[operand].name,
            info_brief(info));
    return STATUS_OK;
}

/* Checks a tensor of sizes: one element for each dimension of the result. */
static status_t check_sizes(context_t *ctx, const op_call_t *call, int operand)
{
    const tensor_info_t *info = call->in[operand];
    TRY(check_integers(ctx, call, operand));
    REQUIRE(ctx, info->rank == 1 && sym_pin(ctx, info->sizes[0]) <= TENSOR_MAX_RANK,
            "%s: sizes are %s, one dimension of at most %d is needed", call->op->name,
            info_brief(info), TENSOR_MAX_RANK);
    return STATUS_OK;
}

static int64_t integer_at(const op_call_t *call, int operand, int64_t at)
{
    const dtype_t dtype = call->in[operand]->dtype;
    return dtype_load_integer(dtype,
                              (const char *)call->data[operand] + (size_t)at * dtype_size(dtype));
}

static status_t read_sizes(context_t *ctx, const op_call_t *call, int operand, int64_t least,
                           int64_t *out_sizes)
{
    for (int d = 0; d < (int)call->in[operand]->sizes[0]; d++) {
        out_sizes[d] = integer_at(call, operand, d);
        REQUIRE(ctx, out_sizes[d] >= least, "%s: size %d is %lld, %lld or more is needed",
                call->op->name, d, (long long)out_sizes[d], (long long)least);
    }
    return STATUS_OK;
}

static status_t infer_open(dtype_t dtype, int rank, tensor_info_t *out)
{
    int64_t sizes[TENSOR_MAX_RANK];
    for (int d = 0; d < rank; d++) sizes[d] = -1;
    out[0] = info_dense(dtype, rank, sizes);
    return STATUS_OK;
}

/* Sets an attribute of the operator without `_by`, which replaces the operator. */
static void set_attr(const opdef_t *op, void *attrs, const char *name, int n, const int64_t *values)
{
    for (int i = 0; i < op->attrs.n_fields; i++) {
        const attr_field_t *field = &op->attrs.fields[i];
        char *place = (char *)attrs + field->offset;
        if (strcmp(field->name, name) != 0) continue;
        if (field->kind == ATTR_INT) {
            *(int64_t *)(void *)place = values[0];
        } else {
            ints_t ints = {.n = n};
            for (int k = 0; k < n; k++) ints.values[k] = values[k];
            *(ints_t *)(void *)place = ints;
        }
    }
}

/* ---- reshape_by ---- */

typedef struct reshape_by_attrs {
    bool copies_zeros;
} reshape_by_attrs_t;

static const attr_field_t reshape_by_fields[] = {FIELD_BOOL(reshape_by_attrs_t, copies_zeros, 0)};

static const operand_t sizes_operands[] = {{"x", ROLE_ACTIVATION, false, false},
                                           {"sizes", ROLE_ACTIVATION, false, false}};

/* Reads the sizes. Leaves a -1, for which reshape computes the size from the others. */
static status_t read_reshape(context_t *ctx, const op_call_t *call, int64_t *sizes)
{
    const tensor_info_t *x = call->in[0];
    TRY(read_sizes(ctx, call, 1, -1, sizes));
    for (int d = 0; d < (int)call->in[1]->sizes[0]; d++) {
        if (sizes[d] != 0 || !((const reshape_by_attrs_t *)call->attrs)->copies_zeros) continue;
        REQUIRE(ctx, d < x->rank, "reshape_by: size %d is to be that of %s", d, info_brief(x));
        sizes[d] = x->sizes[d];
    }
    return STATUS_OK;
}

static status_t infer_reshape_by(context_t *ctx, const op_call_t *call, int *out_n,
                                 tensor_info_t *out)
{
    const tensor_info_t *x = call->in[0];
    int64_t sizes[TENSOR_MAX_RANK] = {0};
    TRY(check_sizes(ctx, call, 1));
    int rank = (int)sym_pin(ctx, call->in[1]->sizes[0]);
    if (!call_knows(call, 1)) return infer_open(x->dtype, rank, out);
    TRY(read_reshape(ctx, call, sizes));
    ints_t wanted = {.n = rank};
    memcpy(wanted.values, sizes, (size_t)rank * sizeof *sizes);
    op_call_t reshape = {.op = &op_def_reshape, .attrs = &wanted, .n_in = 1, .in = call->in};
    return op_def_reshape.infer(ctx, &reshape, out_n, out);
}

static status_t fix_reshape(context_t *ctx, const op_call_t *call, void *out_attrs)
{
    int64_t sizes[TENSOR_MAX_RANK] = {0};
    TRY(read_reshape(ctx, call, sizes));
    for (int d = 0; d < (int)call->in[1]->sizes[0]; d++)
        if (sizes[d] < -1) return STATUS_UNSUPPORTED;
    set_attr(&op_def_reshape, out_attrs, "sizes", (int)call->in[1]->sizes[0], sizes);
    return STATUS_OK;
}

static const op_fixed_t fixed_reshape = {&op_def_reshape, 1, fix_reshape};

static double spec_reshape_by(const spec_call_t *call, int output, const int64_t *index)
{
    const spec_call_t reshape = {.op = &op_def_reshape,
                                 .n_in = 1,
                                 .in = call->in,
                                 .data = call->data,
                                 .out = call->out,
                                 .probe = call->probe};
    return op_def_reshape.spec(&reshape, output, index);
}

static status_t run_copy(context_t *ctx, const prepared_t *prepared, void *const *in,
                         void *const *out, void *scratch)
{
    (void)ctx, (void)scratch;
    memcpy(out[0], in[0], info_bytes(&prepared->out[0]));
    return STATUS_OK;
}

const opdef_t op_def_reshape_by = {
    .name = "reshape_by",
    .preference = OP_DENSE,
    .traits = TRAIT_MEASURES,
    .attrs = {sizeof(reshape_by_attrs_t), 1, reshape_by_fields},
    OPERANDS(sizes_operands),
    .n_outputs = 1,
    .infer = infer_reshape_by,
    .infers_symbols = true,
    .kernels = KERNELS(KERNEL("native", ops_prepare_dense, run_copy)),
    .spec = spec_reshape_by,
    .gradient = &gradient_reshape,
    .fixed = &fixed_reshape};

/* ---- expand_by ---- */

static status_t broadcast(context_t *ctx, const op_call_t *call, int *out_rank, int64_t *out_sizes)
{
    const tensor_info_t *x = call->in[0];
    int64_t sizes[TENSOR_MAX_RANK];
    char text[128];
    int n = (int)call->in[1]->sizes[0];
    TRY(read_sizes(ctx, call, 1, 0, sizes));
    shape_text(n, sizes, text, sizeof text);
    REQUIRE(ctx, shape_broadcast(x->rank, x->sizes, n, sizes, out_rank, out_sizes),
            "expand_by: %s and %s do not broadcast", info_brief(x), text);
    return STATUS_OK;
}

static status_t infer_expand_by(context_t *ctx, const op_call_t *call, int *out_n,
                                tensor_info_t *out)
{
    (void)out_n;
    const tensor_info_t *x = call->in[0];
    int64_t sizes[TENSOR_MAX_RANK];
    int n = 0, rank = 0;
    TRY(check_sizes(ctx, call, 1));
    n = (int)sym_pin(ctx, call->in[1]->sizes[0]);
    if (!call_knows(call, 1)) return infer_open(x->dtype, n > x->rank ? n : x->rank, out);
    TRY(broadcast(ctx, call, &rank, sizes));
    TRY(shape_check(ctx, "expand_by", x->dtype, rank, sizes));
    out[0] = info_dense(x->dtype, rank, sizes);
    return STATUS_OK;
}

static status_t fix_expand(context_t *ctx, const op_call_t *call, void *out_attrs)
{
    int64_t sizes[TENSOR_MAX_RANK];
    int rank = 0;
    TRY(broadcast(ctx, call, &rank, sizes));
    set_attr(&op_def_expand, out_attrs, "sizes", rank, sizes);
    return STATUS_OK;
}

static const op_fixed_t fixed_expand = {&op_def_expand, 1, fix_expand};

static double spec_expand_by(const spec_call_t *call, int output, const int64_t *index)
{
    return spec_at_broadcast(call, 0, call->out[output].rank, index);
}

static status_t run_expand(context_t *ctx, const prepared_t *prepared, void *const *in,
                           void *const *out, void *scratch)
{
    (void)scratch;
    const tensor_info_t *x = &prepared->in[0], *to = &prepared->out[0];
    int64_t strides[TENSOR_MAX_RANK];
    for (int d = 0; d < to->rank; d++) {
        int from = d - (to->rank - x->rank);
        strides[d] = from < 0 || x->sizes[from] == 1 ? 0 : x->format.strides[from];
    }
    convert_strided(to->rank, to->sizes, x->dtype, strides, in[0], to->dtype, to->format.strides,
                    out[0], threads_for(ctx, info_numel(to)));
    return STATUS_OK;
}

static void pass_expand(const gradient_call_t *call)
{
    call->in_grad[0] = emit_unbroadcast(call->emitter, call->out_grad[0], call->in[0]);
}

const opdef_t op_def_expand_by = {
    .name = "expand_by",
    .preference = OP_DENSE,
    .traits = TRAIT_MEASURES,
    OPERANDS(sizes_operands),
    .n_outputs = 1,
    .infer = infer_expand_by,
    .infers_symbols = true,
    .kernels = KERNELS(KERNEL("native", ops_prepare_dense, run_expand)),
    .spec = spec_expand_by,
    .gradient = GRADIENT(.pass = pass_expand),
    .fixed = &fixed_expand};

/* ---- slice_by ---- */

typedef struct slice_by_attrs {
    int64_t dim, step;
} slice_by_attrs_t;

static const attr_field_t slice_by_fields[] = {FIELD_INT(slice_by_attrs_t, dim, 0),
                                               FIELD_INT(slice_by_attrs_t, step, 1)};

static const operand_t slice_operands[] = {{"x", ROLE_ACTIVATION, false, false},
                                           {"start", ROLE_ACTIVATION, true, false},
                                           {"end", ROLE_ACTIVATION, true, false}};

static bool knows_bounds(const op_call_t *call)
{
    for (int i = 1; i < 3; i++)
        if (call_has(call, i) && !call_knows(call, i)) return false;
    return true;
}

/* Converts a bound of a slice like Python: a negative bound counts from the end. Then clamps it to
 * 0 .. size if the step is positive, or to -1 .. size - 1 if it is negative. */
static int64_t clamp(int64_t bound, int64_t size, bool is_forward)
{
    int64_t lowest = is_forward ? 0 : -1, highest = is_forward ? size : size - 1;
    if (bound < 0) bound = bound < -size ? lowest : bound + size;
    return bound < lowest ? lowest : bound > highest ? highest : bound;
}

static int64_t find_start(const op_call_t *call, int64_t size)
{
    bool is_forward = ((const slice_by_attrs_t *)call->attrs)->step > 0;
    if (!call_has(call, 1)) return is_forward ? 0 : size - 1;
    return clamp(integer_at(call, 1, 0), size, is_forward);
}

static int64_t find_end(const op_call_t *call, int64_t size)
{
    bool is_forward = ((const slice_by_attrs_t *)call->attrs)->step > 0;
    if (!call_has(call, 2)) return is_forward ? size : -1;
    return clamp(integer_at(call, 2, 0), size, is_forward);
}

/* Number of indices start, start + step, .. before end. */
static int64_t count_slice(int64_t start, int64_t end, int64_t step)
{
    int64_t length = step > 0 ? end - start : start - end;
    uint64_t stride = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    return length > 0 ? (int64_t)(((uint64_t)length - 1) / stride) + 1 : 0;
}

/* `clamp` for a symbolic size, without comparisons whose result depends on the size. */
static int64_t clamp_symbolic(context_t *ctx, const op_call_t *call, int operand, int64_t size)
{
    const int64_t bound = integer_at(call, operand, 0);
    const int64_t lowest = ((const slice_by_attrs_t *)call->attrs)->step > 0 ? 0 : -1;
    if (sym_is(bound)) return lowest;
    if (bound < 0) return sym_max(ctx, sym_add(ctx, bound, size), lowest);
    return sym_min(ctx, bound, sym_add(ctx, size, lowest));
}

/* `count_slice` for a symbolic size. */
static int64_t count_symbolic(context_t *ctx, const op_call_t *call, int64_t size)
{
    const int64_t step = ((const slice_by_attrs_t *)call->attrs)->step;
    int64_t start = step > 0 ? 0 : sym_subtract(ctx, size, 1), end = step > 0 ? size : -1;
    if (call_has(call, 1)) start = clamp_symbolic(ctx, call, 1, size);
    if (call_has(call, 2)) end = clamp_symbolic(ctx, call, 2, size);
    return sym_max(ctx, sym_divide_up(ctx, sym_subtract(ctx, end, start), step), 0);
}

static status_t infer_slice_by(context_t *ctx, const op_call_t *call, int *out_n,
                               tensor_info_t *out)
{
    (void)out_n;
    const slice_by_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[0];
    int64_t sizes[TENSOR_MAX_RANK];
    int dim = 0;
    REQUIRE(ctx, x->rank > 0 && shape_dim(x->rank, attrs->dim, &dim),
            "slice_by: dim %lld of %s, out of range", (long long)attrs->dim, info_brief(x));
    REQUIRE(ctx, attrs->step != 0, "slice_by: a step of 0");
    for (int i = 1; i < 3; i++) {
        if (!call_has(call, i)) continue;
        TRY(check_integers(ctx, call, i));
        REQUIRE(ctx, sizes_are_one(ctx, call->in[i]), "slice_by: %s is %s, one element is needed",
                slice_operands[i].name, info_brief(call->in[i]));
    }
    memcpy(sizes, x->sizes, sizeof sizes);
    if (!knows_bounds(call))
        sizes[dim] = -1;
    else if (sym_is(sizes[dim]))
        sizes[dim] = count_symbolic(ctx, call, sizes[dim]);
    else
        sizes[dim] = count_slice(find_start(call, sizes[dim]), find_end(call, sizes[dim]),
                                 attrs->step);
    out[0] = info_dense(x->dtype, x->rank, sizes);
    return STATUS_OK;
}

static status_t fix_slice(context_t *ctx, const op_call_t *call, void *out_attrs)
{
    (void)ctx;
    const slice_by_attrs_t *attrs = call->attrs;
    if (attrs->step < 1) return STATUS_UNSUPPORTED;
    const int64_t start = call_has(call, 1) ? integer_at(call, 1, 0) : 0;
    const int64_t end = call_has(call, 2) ? integer_at(call, 2, 0) : INT64_MAX;
    set_attr(&op_def_slice, out_attrs, "dim", 1, &attrs->dim);
    set_attr(&op_def_slice, out_attrs, "start", 1, &start);
    set_attr(&op_def_slice, out_attrs, "end", 1, &end);
    set_attr(&op_def_slice, out_attrs, "step", 1, &attrs->step);
    return STATUS_OK;
}

static const op_fixed_t fixed_slice = {&op_def_slice, 1, fix_slice};

static op_call_t call_of(const spec_call_t *call)
{
    return (op_call_t){.op = call->op,
                       .attrs = call->attrs,
                       .n_in = call->n_in,
                       .in = call->in,
                       .data = call->data};
}

static double spec_slice_by(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    const slice_by_attrs_t *attrs = call->attrs;
    const op_call_t sliced = call_of(call);
    int64_t at[TENSOR_MAX_RANK];
    int dim = ops_dim(call->in[0]->rank, attrs->dim);
    memcpy(at, index, (size_t)call->in[0]->rank * sizeof *at);
    at[dim] = find_start(&sliced, call->in[0]->sizes[dim]) + index[dim] * attrs->step;
    return spec_at(call, 0, at);
}

static status_t run_slice(context_t *ctx, const prepared_t *prepared, void *const *in,
                          void *const *out, void *scratch)
{
    (void)scratch;
    const slice_by_attrs_t *attrs = prepared->attrs;
    const tensor_info_t *x = &prepared->in[0], *to = &prepared->out[0];
    const tensor_info_t *infos[3] = {x, &prepared->in[1], &prepared->in[2]};
    const void *data[3] = {in[0], in[1], in[2]};
    const op_call_t call = {
        .op = prepared->op, .attrs = attrs, .n_in = 3, .in = infos, .data = data};
    int64_t strides[TENSOR_MAX_RANK];
    int dim = ops_dim(x->rank, attrs->dim);
    memcpy(strides, x->format.strides, sizeof strides);
    int64_t first = find_start(&call, x->sizes[dim]) * strides[dim];
    if (to->sizes[dim] > 1) strides[dim] *= attrs->step; /* else unused, and may overflow */
    convert_strided(to->rank, to->sizes, x->dtype, strides,
                    (const char *)in[0] + first * (int64_t)dtype_size(x->dtype), to->dtype,
                    to->format.strides, out[0], threads_for(ctx, info_numel(to)));
    return STATUS_OK;
}

/* Applies slice_by to the numbers 0, 1, 2, ... The results are the indices of the elements that
 * slice_by read. Adds grad to zeros at these indices. */
static void pass_slice(const gradient_call_t *call)
{
    emitter_t *e = call->emitter;
    const tensor_info_t x = *emit_info(e, call->in[0]);
    slice_by_attrs_t attrs = *(const slice_by_attrs_t *)call->attrs;
    const int dim = ops_dim(x.rank, attrs.dim);
    const tensor_info_t line = info_dense(DTYPE_S64, 1, &x.sizes[dim]);
    value_t in[3] = {emit_count(e, &line, 0), VALUE_NONE, VALUE_NONE};
    for (int i = 1; i < call->n_in; i++) in[i] = call->in[i];
    attrs.dim = 0;
    value_t places = emit_op(e, &op_def_slice_by, &attrs, call->n_in, in);
    call->in_grad[0] = emit_gather_backward(e, call->out_grad[0], places, dim, x.sizes[dim]);
}

const opdef_t op_def_slice_by = {.name = "slice_by",
                                 .preference = OP_DENSE,
                                 .traits = TRAIT_MEASURES,
                                 .attrs = {sizeof(slice_by_attrs_t), 2, slice_by_fields},
                                 OPERANDS(slice_operands),
                                 .n_outputs = 1,
                                 .infer = infer_slice_by,
                                 .infers_symbols = true,
                                 .kernels = KERNELS(KERNEL("native", ops_prepare_dense, run_slice)),
                                 .spec = spec_slice_by,
                                 .gradient = GRADIENT(.pass = pass_slice, .reads_in = 6),
                                 .fixed = &fixed_slice};

/* ---- range ---- */

static const operand_t range_operands[] = {{"start", ROLE_ACTIVATION, false, false},
                                           {"limit", ROLE_ACTIVATION, false, false},
                                           {"delta", ROLE_ACTIVATION, false, false}};

/* The length is unsigned, because the distance from INT64_MIN to INT64_MAX exceeds int64_t. */
static bool count_integers(int64_t start, int64_t limit, int64_t delta, int64_t *out_n)
{
    bool is_empty = delta > 0 ? limit <= start : limit >= start;
    uint64_t length = delta > 0 ? (uint64_t)limit - (uint64_t)start
                                : (uint64_t)start - (uint64_t)limit;
    uint64_t step = delta > 0 ? (uint64_t)delta : 0 - (uint64_t)delta;
    if (delta == 0) return false;
    uint64_t n = is_empty ? 0 : (length - 1) / step + 1;
    *out_n = (int64_t)n;
    return n <= INT64_MAX / 16;
}

static bool count_range(const op_call_t *call, int64_t *out_n)
{
    const dtype_t dtype = call->in[0]->dtype;
    if (!dtype_is_floating(dtype))
        return count_integers(integer_at(call, 0, 0), integer_at(call, 1, 0),
                              integer_at(call, 2, 0), out_n);
    const double start = dtype_load(dtype, call->data[0]), limit = dtype_load(dtype, call->data[1]);
    const double n = ceil((limit - start) / dtype_load(dtype, call->data[2]));
    if (!(n <= 0x1p53)) return false;
    *out_n = n > 0 ? (int64_t)n : 0;
    return true;
}

static status_t infer_range(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)out_n;
    const dtype_t dtype = call->in[0]->dtype;
    int64_t n = -1;
    REQUIRE(ctx,
            dtype == DTYPE_F32 || dtype == DTYPE_F64 || dtype == DTYPE_S32 || dtype == DTYPE_S64,
            "range: of %s, f32, f64, s32 or s64 is needed", dtype_name(dtype));
    for (int i = 0; i < 3; i++)
        REQUIRE(ctx, sizes_are_one(ctx, call->in[i]) && call->in[i]->dtype == dtype,
                "range: %s is %s, one element of %s is needed", range_operands[i].name,
                info_brief(call->in[i]), dtype_name(dtype));
    if (call->data != NULL && call_knows(call, 0) && call_knows(call, 1) && call_knows(call, 2))
        REQUIRE(ctx, count_range(call, &n), "range: it has no end, or too many elements");
    out[0] = info_dense(dtype, 1, &n);
    return STATUS_OK;
}

static double spec_range(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    const int64_t first[TENSOR_MAX_RANK] = {0};
    return spec_at(call, 0, first) + (double)index[0] * spec_at(call, 2, first);
}

static status_t run_range(context_t *ctx, const prepared_t *prepared, void *const *in,
                          void *const *out, void *scratch)
{
    (void)ctx, (void)scratch;
    const dtype_t dtype = prepared->out[0].dtype;
    const int64_t n = prepared->out[0].sizes[0];
    for (int64_t i = 0; i < n; i++) {
        void *place = (char *)out[0] + (size_t)i * dtype_size(dtype);
        if (dtype_is_floating(dtype))
            dtype_store(dtype, place,
                        dtype_load(dtype, in[0]) + (double)i * dtype_load(dtype, in[2]));
        else
            dtype_store_integer(
                dtype, place,
                (int64_t)((uint64_t)dtype_load_integer(dtype, in[0]) +
                          (uint64_t)i * (uint64_t)dtype_load_integer(dtype, in[2])));
    }
    return STATUS_OK;
}

const opdef_t op_def_range = {.name = "range",
                              .preference = OP_DENSE,
                              .traits = TRAIT_MEASURES,
                              OPERANDS(range_operands),
                              .n_outputs = 1,
                              .infer = infer_range,
                              .infers_symbols = true,
                              .kernels = KERNELS(KERNEL("native", ops_prepare_dense, run_range)),
                              .spec = spec_range,
                              .gradient = &gradient_zero};

/* ---- calls ---- */

status_t op_reshape_by(context_t *ctx, const tensor_t *x, const tensor_t *sizes, bool copies_zeros,
                       tensor_t **out)
{
    const reshape_by_attrs_t attrs = {copies_zeros};
    const tensor_t *in[] = {x, sizes};
    return dispatch_run(ctx, &op_def_reshape_by, &attrs, 2, in, NULL, out);
}

status_t op_expand_by(context_t *ctx, const tensor_t *x, const tensor_t *sizes, tensor_t **out)
{
    return dispatch_run(ctx, &op_def_expand_by, NULL, 2, (const tensor_t *[]){x, sizes}, NULL, out);
}

status_t op_slice_by(context_t *ctx, const tensor_t *x, const tensor_t *start, const tensor_t *end,
                     int64_t dim, int64_t step, tensor_t **out)
{
    const slice_by_attrs_t attrs = {dim, step};
    const tensor_t *in[] = {x, start, end};
    return dispatch_run(ctx, &op_def_slice_by, &attrs, 3, in, NULL, out);
}

status_t op_range(context_t *ctx, const tensor_t *start, const tensor_t *limit,
                  const tensor_t *delta, tensor_t **out)
{
    const tensor_t *in[] = {start, limit, delta};
    return dispatch_run(ctx, &op_def_range, NULL, 3, in, NULL, out);
}
