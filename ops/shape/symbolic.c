#include "ops/shape/symbolic_impl.h"

#include <stdalign.h>
#include <string.h>

#include "dispatch/attrs_impl.h"
#include "dispatch/select_impl.h"
#include "ops/elementwise/broadcast_impl.h"
#include "ops/ops_impl.h"
#include "ops/reduce/reduce_impl.h"
#include "tensor/context_impl.h"

status_t symbolic_create(context_t *ctx, dtype_t dtype, int rank, const int64_t *sizes,
                         symbolic_t *out)
{
    symbolic_t made = {.dtype = dtype, .rank = rank};
    TRY(shape_check(ctx, "symbolic elements", dtype, rank, sizes));
    if (rank > 0) memcpy(made.sizes, sizes, (size_t)rank * sizeof *sizes);
    if (!shape_numel(rank, sizes, &made.n) || made.n > SYMBOLIC_MOST)
        FAIL(ctx, STATUS_UNSUPPORTED, "%lld symbolic elements, %d are the most", (long long)made.n,
             SYMBOLIC_MOST);
    TRY(context_get_zeroed(ctx, (size_t)(made.n + 1) * sizeof *made.elements, "symbolic elements",
                           &made.elements));
    *out = made;
    return STATUS_OK;
}

void symbolic_clear(context_t *ctx, symbolic_t *symbolic)
{
    if (symbolic->elements != NULL) context_put(ctx, symbolic->elements);
    *symbolic = (symbolic_t){.dtype = DTYPE_NONE};
}

/* ---- a call ---- */

typedef struct call {
    context_t *ctx;
    const opdef_t *op;
    const void *attrs; /* with all defaults filled in */
    int n_in;
    const symbolic_t *in;
    int n_out;
    symbolic_t *out;
} call_t;

static bool is_real(dtype_t dtype)
{
    return dtype == DTYPE_F32 || dtype == DTYPE_F64;
}

static bool is_integer(dtype_t dtype)
{
    return dtype == DTYPE_S64 || dtype == DTYPE_S32 || dtype == DTYPE_BOOL;
}

static sym_real_t real_of(dtype_t dtype)
{
    return dtype == DTYPE_F64 ? SYM_F64 : SYM_F32;
}

static tensor_info_t info_of(const symbolic_t *symbolic)
{
    tensor_info_t info = {.dtype = DTYPE_NONE};
    if (symbolic->dtype != DTYPE_NONE)
        info = info_dense(symbolic->dtype, symbolic->rank, symbolic->sizes);
    info.is_number = symbolic->is_number;
    return info;
}

/* The value of an attribute, or INT64_MIN if the operator has no such attribute. */
static int64_t attr_of(const call_t *call, const char *name)
{
    for (int f = 0; f < call->op->attrs.n_fields; f++)
        if (strcmp(call->op->attrs.fields[f].name, name) == 0)
            return attrs_integer(&call->op->attrs.fields[f], call->attrs, 0);
    return INT64_MIN;
}

static status_t refuse(const call_t *call, const char *why)
{
    FAIL(call->ctx, STATUS_UNSUPPORTED, "%s: symbolic elements, %s", call->op->name, why);
}

/* ---- arithmetic on integers ---- */

typedef int64_t (*binary_t)(context_t *ctx, int64_t a, int64_t b);

static int64_t is_not(context_t *ctx, int64_t truth)
{
    return sym_subtract(ctx, 1, truth);
}

static int64_t truth_of(context_t *ctx, int64_t a)
{
    return is_not(ctx, sym_is_equal(ctx, a, 0));
}

static int64_t differs(context_t *ctx, int64_t a, int64_t b)
{
    return is_not(ctx, sym_is_equal(ctx, a, b));
}

static int64_t is_at_most(context_t *ctx, int64_t a, int64_t b)
{
    return is_not(ctx, sym_is_less(ctx, b, a));
}

static int64_t is_greater(context_t *ctx, int64_t a, int64_t b)
{
    return sym_is_less(ctx, b, a);
}

static int64_t is_at_least(context_t *ctx, int64_t a, int64_t b)
{
    return is_not(ctx, sym_is_less(ctx, a, b));
}

static int64_t both(context_t *ctx, int64_t a, int64_t b)
{
    return sym_min(ctx, truth_of(ctx, a), truth_of(ctx, b));
}

static int64_t either(context_t *ctx, int64_t a, int64_t b)
{
    return sym_max(ctx, truth_of(ctx, a), truth_of(ctx, b));
}

static int64_t one_of(context_t *ctx, int64_t a, int64_t b)
{
    return differs(ctx, truth_of(ctx, a), truth_of(ctx, b));
}

static int64_t remainder_of_truncated(context_t *ctx, int64_t a, int64_t b)
{
    return sym_subtract(ctx, a, sym_multiply(ctx, b, sym_truncate(ctx, a, b)));
}

/* real: the operation for floating elements, or '\0'. rounding: how its result is rounded, or
 * -1. */
static const struct binary {
    const opdef_t *op;
    binary_t integers;
    char real;
    int rounding;
} binaries[] = {
    {&op_def_add, sym_add, '+', -1},
    {&op_def_sub, sym_subtract, '-', -1},
    {&op_def_mul, sym_multiply, '*', -1},
    {&op_def_div, NULL, '/', -1},
    {&op_def_div_floor, sym_divide, '/', SYM_FLOOR},
    {&op_def_div_trunc, sym_truncate, '/', SYM_TRUNCATE},
    {&op_def_remainder, sym_modulo, '\0', -1},
    {&op_def_fmod, remainder_of_truncated, '\0', -1},
    {&op_def_minimum, sym_min, '\0', -1},
    {&op_def_maximum, sym_max, '\0', -1},
    {&op_def_eq, sym_is_equal, '\0', -1},
    {&op_def_ne, differs, '\0', -1},
    {&op_def_lt, sym_is_less, '\0', -1},
    {&op_def_le, is_at_most, '\0', -1},
    {&op_def_gt, is_greater, '\0', -1},
    {&op_def_ge, is_at_least, '\0', -1},
    {&op_def_logical_and, both, '\0', -1},
    {&op_def_logical_or, either, '\0', -1},
    {&op_def_logical_xor, one_of, '\0', -1},
};

/* The element of a broadcast operand that belongs to an index of output 0. */
static int64_t element_at(const call_t *call, int operand, const int64_t *index)
{
    const symbolic_t *from = &call->in[operand];
    const int lead = call->out[0].rank - from->rank;
    int64_t at = 0;
    for (int d = 0; d < from->rank; d++)
        at = at * from->sizes[d] + (from->sizes[d] == 1 ? 0 : index[lead + d]);
    return from->elements[at];
}

static int64_t to_real(context_t *ctx, dtype_t dtype, int64_t element)
{
    return sym_to_real(ctx, real_of(dtype), element);
}

static int64_t round_real(context_t *ctx, dtype_t dtype, int rounding, int64_t element)
{
    if (rounding < 0) return element;
    return to_real(ctx, dtype, sym_round(ctx, (sym_rounding_t)rounding, element));
}

static int64_t calculate(context_t *ctx, const struct binary *rule, dtype_t dtype, int64_t a,
                         int64_t b)
{
    if (is_real(dtype))
        return round_real(
            ctx, dtype, rule->rounding,
            sym_real_calculate(ctx, rule->real, to_real(ctx, dtype, a), to_real(ctx, dtype, b)));
    const int64_t result = rule->integers(ctx, a, b);
    return dtype == DTYPE_BOOL && rule->real == '+' ? truth_of(ctx, result) : result;
}

static status_t run_binary(const call_t *call, const struct binary *rule)
{
    const dtype_t dtype = call->out[0].dtype;
    const bool has_reals = is_real(call->in[0].dtype) || is_real(call->in[1].dtype);
    int64_t index[TENSOR_MAX_RANK] = {0};
    if (is_real(dtype) ? rule->real == '\0' : has_reals || rule->integers == NULL)
        return refuse(call, "integers are needed");
    for (int64_t i = 0; i < call->out[0].n; i++) {
        call->out[0].elements[i] = calculate(call->ctx, rule, dtype, element_at(call, 0, index),
                                             element_at(call, 1, index));
        shape_next(call->out[0].rank, call->out[0].sizes, index);
    }
    return STATUS_OK;
}

/* ---- functions of one element ---- */

static int64_t convert(context_t *ctx, dtype_t from, dtype_t to, int64_t a)
{
    if (is_real(to)) return to_real(ctx, to, a);
    if (is_real(from)) a = sym_round(ctx, SYM_TRUNCATE, a);
    return to == DTYPE_BOOL ? truth_of(ctx, a) : a;
}

static int64_t find_sign(context_t *ctx, int64_t a)
{
    return sym_subtract(ctx, sym_is_less(ctx, 0, a), sym_is_less(ctx, a, 0));
}

static int rounding_of(const opdef_t *op)
{
    if (op == &op_def_floor) return SYM_FLOOR;
    if (op == &op_def_ceil) return SYM_CEIL;
    if (op == &op_def_trunc) return SYM_TRUNCATE;
    return op == &op_def_round ? SYM_HALF_EVEN : -1;
}

static bool is_unary(const opdef_t *op)
{
    return op == &op_def_cast || op == &op_def_neg || op == &op_def_abs || op == &op_def_sign ||
           op == &op_def_logical_not || rounding_of(op) >= 0;
}

static status_t run_unary(const call_t *call)
{
    context_t *ctx = call->ctx;
    const opdef_t *op = call->op;
    const dtype_t from = call->in[0].dtype, to = call->out[0].dtype;
    const int rounding = rounding_of(op);
    const int64_t minus = is_real(from) ? sym_real(ctx, real_of(from), -1.0) : 0;
    if (is_real(from) && ((op == &op_def_cast && to == DTYPE_BOOL) || op == &op_def_abs ||
                          op == &op_def_sign || op == &op_def_logical_not))
        return refuse(call, "integers are needed");
    for (int64_t i = 0; i < call->out[0].n; i++) {
        const int64_t a = call->in[0].elements[i];
        int64_t *out = &call->out[0].elements[i];
        if (op == &op_def_cast)
            *out = convert(ctx, from, to, a);
        else if (rounding >= 0)
            *out = is_real(from) ? round_real(ctx, to, rounding, a) : a;
        else if (op == &op_def_neg)
            *out = is_real(from) ? sym_real_calculate(ctx, '*', a, minus) : sym_subtract(ctx, 0, a);
        else if (op == &op_def_abs)
            *out = sym_max(ctx, a, sym_subtract(ctx, 0, a));
        else if (op == &op_def_sign)
            *out = find_sign(ctx, a);
        else
            *out = sym_is_equal(ctx, a, 0);
    }
    return STATUS_OK;
}

static status_t run_where(const call_t *call)
{
    context_t *ctx = call->ctx;
    const dtype_t dtype = call->out[0].dtype;
    int64_t index[TENSOR_MAX_RANK] = {0};
    for (int64_t i = 0; i < call->out[0].n; i++) {
        const int64_t condition = element_at(call, 0, index);
        const int64_t a = convert(ctx, call->in[1].dtype, dtype, element_at(call, 1, index));
        const int64_t b = convert(ctx, call->in[2].dtype, dtype, element_at(call, 2, index));
        if (is_real(dtype) && sym_is(condition))
            return refuse(call, "integers are needed, or a condition that is known");
        call->out[0].elements[i] = sym_select(ctx, condition, a, b);
        shape_next(call->out[0].rank, call->out[0].sizes, index);
    }
    return STATUS_OK;
}

/* ---- reductions and cumulative sums: integers only ---- */

static binary_t reduction_of(const opdef_t *op, int64_t *out_first)
{
    *out_first = op == &op_def_prod || op == &op_def_cumprod || op == &op_def_all;
    if (op == &op_def_sum || op == &op_def_cumsum) return sym_add;
    if (op == &op_def_prod || op == &op_def_cumprod) return sym_multiply;
    if (op == &op_def_amax) return sym_max;
    if (op == &op_def_amin) return sym_min;
    if (op == &op_def_any) return either;
    return op == &op_def_all ? both : NULL;
}

static status_t run_reduction(const call_t *call, binary_t combine, int64_t first)
{
    const symbolic_t *x = &call->in[0];
    const bool has_first = call->op != &op_def_amax && call->op != &op_def_amin;
    bool gone[TENSOR_MAX_RANK];
    int64_t index[TENSOR_MAX_RANK] = {0};
    if (is_real(x->dtype)) return refuse(call, "integers are needed");
    reduce_mark(&((const reduce_attrs_t *)call->attrs)->dims, x->rank, gone);
    for (int64_t i = 0; i < call->out[0].n; i++)
        call->out[0].elements[i] = has_first ? first : SYM_NONE;
    for (int64_t i = 0; i < x->n; i++) {
        int64_t at = 0;
        for (int d = 0; d < x->rank; d++)
            if (!gone[d]) at = at * x->sizes[d] + index[d];
        int64_t *to = &call->out[0].elements[at];
        const bool is_first = !has_first && *to == SYM_NONE;
        *to = is_first ? x->elements[i] : combine(call->ctx, *to, x->elements[i]);
        shape_next(x->rank, x->sizes, index);
    }
    return STATUS_OK;
}

static status_t run_running(const call_t *call, binary_t combine, int64_t first)
{
    const symbolic_t *x = &call->in[0];
    const bool exclusive = attr_of(call, "exclusive") == 1, reverse = attr_of(call, "reverse") == 1;
    const int dim = ops_dim(x->rank, attr_of(call, "dim"));
    const int64_t size = x->rank > 0 ? x->sizes[dim] : 1;
    int64_t inner = 1;
    if (is_real(x->dtype)) return refuse(call, "integers are needed");
    for (int d = dim + 1; d < x->rank; d++) inner *= x->sizes[d];
    for (int64_t line = 0; x->n > 0 && line < x->n / size; line++) {
        const int64_t begin = line / inner * size * inner + line % inner;
        int64_t total = first;
        for (int64_t k = 0; k < size; k++) {
            const int64_t at = begin + (reverse ? size - 1 - k : k) * inner;
            const int64_t next = combine(call->ctx, total, x->elements[at]);
            call->out[0].elements[at] = exclusive ? total : next;
            total = next;
        }
    }
    return STATUS_OK;
}

/* ---- range ---- */

static status_t run_range(call_t *call)
{
    context_t *ctx = call->ctx;
    for (int i = 0; i < 3; i++)
        if (!is_integer(call->in[i].dtype) || call->in[i].n != 1)
            return refuse(call, "single integers are needed");
    const int64_t start = call->in[0].elements[0], delta = call->in[2].elements[0];
    const int64_t length = sym_subtract(ctx, call->in[1].elements[0], start);
    const int64_t n = sym_pin(ctx, sym_max(ctx, sym_divide_up(ctx, length, delta), 0));
    TRY(sym_status(ctx));
    if (n < 0) return refuse(call, "their number is not known");
    TRY(symbolic_create(ctx, call->in[0].dtype, 1, &n, &call->out[0]));
    call->n_out = 1;
    for (int64_t i = 0; i < n; i++)
        call->out[0].elements[i] = sym_add(ctx, start, sym_multiply(ctx, delta, i));
    return STATUS_OK;
}

/* ---- moves ----
 *
 * Runs the operator's kernel on the positions of elements, then replaces each position by its
 * element. */

/* Operators that only move elements. Bit i of `indices` is set if operand i is an index. */
static const struct move {
    const opdef_t *op;
    unsigned indices;
} moves[] = {{&op_def_identity, 0},
             {&op_def_reshape, 0},
             {&op_def_flatten, 0},
             {&op_def_squeeze, 0},
             {&op_def_unsqueeze, 0},
             {&op_def_transpose, 0},
             {&op_def_permute, 0},
             {&op_def_expand, 0},
             {&op_def_slice, 0},
             {&op_def_split, 0},
             {&op_def_concat, 0},
             {&op_def_flip, 0},
             {&op_def_roll, 0},
             {&op_def_pad, 0},
             {&op_def_gather, 2},
             {&op_def_gather_nd, 2},
             {&op_def_gather_elements, 2},
             {&op_def_scatter, 2},
             {&op_def_scatter_nd, 2}};

/* Creates a tensor of positions first, first + 1, ... For an index operand, creates a tensor of its
 * elements as numbers. */
static status_t make_places(const call_t *call, int operand, bool is_index, int64_t first,
                            tensor_t **out_tensor)
{
    const symbolic_t *from = &call->in[operand];
    void *data = NULL;
    TRY(tensor_empty(call->ctx, DTYPE_S64, from->rank, from->sizes, out_tensor));
    TRY(tensor_data_mutable(call->ctx, *out_tensor, &data));
    for (int64_t i = 0; i < from->n; i++)
        ((int64_t *)data)[i] = is_index ? sym_pin(call->ctx, from->elements[i]) : first + i;
    return sym_status(call->ctx);
}

/* Replaces pad's fill value by -1, which is not a position, and returns the fill value. */
static int64_t take_fill(const call_t *call, void *attrs)
{
    const dtype_t dtype = call->in[0].dtype;
    for (int f = 0; f < call->op->attrs.n_fields; f++) {
        const attr_field_t *field = &call->op->attrs.fields[f];
        if (call->op != &op_def_pad || strcmp(field->name, "value") != 0) continue;
        double *value = attrs_field(field, attrs);
        const double fill = *value;
        *value = -1.0;
        return is_real(dtype)        ? sym_real(call->ctx, real_of(dtype), fill)
               : dtype == DTYPE_BOOL ? fill != 0.0
                                     : (int64_t)fill;
    }
    return 0;
}

static int64_t moved_element(const call_t *call, unsigned indices, int64_t fill, int64_t place)
{
    if (place < 0) return fill;
    for (int i = 0; i < call->n_in; i++) {
        if ((indices >> i & 1) != 0) continue;
        if (place < call->in[i].n) return call->in[i].elements[place];
        place -= call->in[i].n;
    }
    return SYM_NONE;
}

static status_t read_places(const call_t *call, unsigned indices, int64_t fill,
                            const tensor_t *places, symbolic_t *out)
{
    context_t *ctx = call->ctx;
    const tensor_info_t *info = tensor_info(places);
    TRY(symbolic_create(ctx, call->in[0].dtype, info->rank, info->sizes, out));
    TRY(tensor_read(ctx, places, out->elements, (size_t)(out->n + 1) * sizeof *out->elements));
    for (int64_t i = 0; i < out->n; i++)
        out->elements[i] = moved_element(call, indices, fill, out->elements[i]);
    return STATUS_OK;
}

static status_t run_move(call_t *call, unsigned indices)
{
    context_t *ctx = call->ctx;
    alignas(16) char attrs[ATTRS_MAX];
    tensor_t *in[OP_MAX_INPUTS] = {NULL}, *out[OP_MAX_OUTPUTS] = {NULL};
    int n_out = OP_MAX_OUTPUTS;
    int64_t first = 0;
    status_t status = STATUS_OK;
    if ((call->op == &op_def_scatter || call->op == &op_def_scatter_nd) &&
        attr_of(call, "reduction") != 0)
        return refuse(call, "reductions do not take them");
    attrs_normalize(&call->op->attrs, call->attrs, attrs);
    const int64_t fill = take_fill(call, attrs);
    for (int i = 0; i < call->n_in && status == STATUS_OK; i++) {
        const bool is_index = (indices >> i & 1) != 0;
        if (!is_index && call->in[i].dtype != call->in[0].dtype)
            status = refuse(call, "one dtype is needed");
        else
            status = make_places(call, i, is_index, first, &in[i]);
        if (!is_index) first += call->in[i].n;
    }
    if (status == STATUS_OK)
        status = dispatch_run(ctx, call->op, attrs, call->n_in, (const tensor_t *const *)in, &n_out,
                              out);
    for (int i = 0; i < n_out && status == STATUS_OK; i++) {
        status = read_places(call, indices, fill, out[i], &call->out[i]);
        call->n_out = i + 1;
    }
    for (int i = 0; i < OP_MAX_INPUTS; i++) ops_drop(ctx, in[i]);
    for (int i = 0; i < OP_MAX_OUTPUTS; i++) ops_drop(ctx, out[i]);
    return status;
}

/* ---- the call ---- */

/* Creates the only output, with the inferred sizes and dtype. */
static status_t create_output(call_t *call)
{
    tensor_info_t infos[3], out[OP_MAX_OUTPUTS];
    const tensor_info_t *in[3];
    int n_out = 0;
    if (call->n_in > 3) return refuse(call, "at most 3 operands are possible");
    for (int i = 0; i < call->n_in; i++) {
        infos[i] = info_of(&call->in[i]);
        in[i] = &infos[i];
    }
    TRY(dispatch_infer(call->ctx, call->op, call->attrs, call->n_in, in, &n_out, out));
    if (n_out != 1 || (!is_integer(out[0].dtype) && !is_real(out[0].dtype)))
        return refuse(call, "the result needs to be s64, s32, bool, f32 or f64");
    TRY(symbolic_create(call->ctx, out[0].dtype, out[0].rank, out[0].sizes, &call->out[0]));
    call->n_out = 1;
    return STATUS_OK;
}

static status_t run(call_t *call)
{
    int64_t first = 0;
    const binary_t reduction = reduction_of(call->op, &first);
    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++)
        if (moves[i].op == call->op) return run_move(call, moves[i].indices);
    if (call->op == &op_def_range) return run_range(call);
    const struct binary *binary = NULL;
    for (size_t i = 0; i < sizeof binaries / sizeof *binaries; i++)
        if (binaries[i].op == call->op) binary = &binaries[i];
    if (binary == NULL && reduction == NULL && call->op != &op_def_where && !is_unary(call->op))
        return refuse(call, "this operator does not take them");
    TRY(create_output(call));
    if (binary != NULL) return run_binary(call, binary);
    if (call->op == &op_def_where) return run_where(call);
    if (reduction == NULL) return run_unary(call);
    return call->op == &op_def_cumsum || call->op == &op_def_cumprod
               ? run_running(call, reduction, first)
               : run_reduction(call, reduction, first);
}

/* Refuses elements that overflow their dtype. A kernel would wrap them around. */
static status_t check_elements(const call_t *call)
{
    TRY(sym_status(call->ctx));
    for (int i = 0; i < call->n_out; i++)
        for (int64_t k = 0; k < call->out[i].n; k++) {
            const int64_t element = call->out[i].elements[k];
            const bool is_wide = call->out[i].dtype == DTYPE_S32 && !sym_is(element) &&
                                 (element < INT32_MIN || element > INT32_MAX);
            if (element == SYM_NONE || is_wide)
                return refuse(call, "an overflow or a division by 0");
        }
    return STATUS_OK;
}

status_t symbolic_run(context_t *ctx, const opdef_t *op, const void *attrs, int n_in,
                      const symbolic_t *in, int *out_n, symbolic_t *out)
{
    alignas(16) char normalised[ATTRS_MAX];
    call_t call = {.ctx = ctx, .op = op, .attrs = normalised, .n_in = n_in, .in = in, .out = out};
    TRY(select_attrs(ctx, op, attrs, normalised));
    REQUIRE(ctx, n_in >= 0 && n_in <= OP_MAX_INPUTS, "%s: %d inputs, at most %d are possible",
            op->name, n_in, OP_MAX_INPUTS);
    for (int i = 0; i < OP_MAX_OUTPUTS; i++) out[i] = (symbolic_t){.dtype = DTYPE_NONE};
    for (int i = 0; i < n_in; i++)
        if (!is_integer(in[i].dtype) && !is_real(in[i].dtype))
            return refuse(&call, "operands of s64, s32, bool, f32 or f64 are needed");
    TRY(sym_status(ctx));
    status_t status = run(&call);
    const status_t calculated = sym_status(ctx);
    if (status == STATUS_OK) status = calculated;
    if (status == STATUS_OK) status = check_elements(&call);
    for (int i = 0; i < OP_MAX_OUTPUTS && status != STATUS_OK; i++) symbolic_clear(ctx, &out[i]);
    if (status == STATUS_OK) *out_n = call.n_out;
    return status;
}
