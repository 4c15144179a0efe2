#include <math.h>
#include <string.h>

#include "graph/program/run_impl.h"
#include "ops/ops.h"
#include "tensor/context_impl.h"
#include "tensor/scope_impl.h"
#include "tensor/tensor_impl.h"

/* Builtins on datums: containers, then arithmetic and comparison of scalars. */

typedef struct call {
    context_t *ctx;
    const char *name;
    int n_in;
    datum_t *const *in;
    int n_out;
    datum_t **out;
} call_t;

status_t run_truth(context_t *ctx, const char *who, const datum_t *datum, bool *out_truth)
{
    datum_kind_t kind = datum_kind(datum);
    if (kind == DATUM_TENSOR) {
        double value;
        TRY(tensor_item(ctx, datum_as_tensor(datum), &value));
        *out_truth = value != 0.0;
        return STATUS_OK;
    }
    REQUIRE(ctx, kind == DATUM_BOOL || kind == DATUM_INT || kind == DATUM_FLOAT,
            "%s: the condition is of kind %s, must be a bool", who, datum_kind_name(kind));
    *out_truth = kind == DATUM_BOOL ? datum_as_bool(datum) : datum_as_float(datum) != 0.0;
    return STATUS_OK;
}

/* ---- containers ---- */

static status_t check_arity(const call_t *call, int n_in)
{
    REQUIRE(call->ctx, n_in < 0 || call->n_in == n_in, "%s: %d operands, takes %d", call->name,
            call->n_in, n_in);
    return STATUS_OK;
}

static status_t run_list(const call_t *call)
{
    return datum_list(call->ctx, call->n_in, call->in, call->out);
}

static status_t run_tuple(const call_t *call)
{
    return datum_tuple(call->ctx, call->n_in, call->in, call->out);
}

/* Operands are key, value, key, value, ... */
static status_t run_dict(const call_t *call)
{
    context_t *ctx = call->ctx;
    REQUIRE(ctx, call->n_in % 2 == 0, "dict: %d operands, keys and values must alternate",
            call->n_in);
    datum_t *dict;
    TRY(datum_dict(ctx, 0, NULL, NULL, &dict));
    status_t status = STATUS_OK;
    for (int i = 0; i < call->n_in && status == STATUS_OK; i += 2) {
        if (datum_kind(call->in[i]) != DATUM_STRING)
            status = context_fail(ctx, STATUS_INVALID_ARGUMENT,
                                  "dict: a key of kind %s, must be a string",
                                  datum_kind_name(datum_kind(call->in[i])));
        else
            status = datum_put(ctx, dict, datum_as_string(call->in[i]), call->in[i + 1]);
    }
    if (status == STATUS_OK)
        call->out[0] = dict;
    else
        datum_release(dict);
    return status;
}

static bool is_sequence(const datum_t *datum)
{
    return datum_kind(datum) == DATUM_LIST || datum_kind(datum) == DATUM_TUPLE;
}

static status_t run_unpack(const call_t *call)
{
    const datum_t *sequence = call->in[0];
    REQUIRE(call->ctx, is_sequence(sequence), "unpack: a %s, must be a list or tuple",
            datum_kind_name(datum_kind(sequence)));
    REQUIRE(call->ctx, datum_length(sequence) == call->n_out,
            "unpack: %d items, the graph takes %d", datum_length(sequence), call->n_out);
    for (int i = 0; i < call->n_out; i++) call->out[i] = datum_retain(datum_item(sequence, i));
    return STATUS_OK;
}

/* Reads an index from an int or a tensor of one integer; a negative index counts from the end. It
 * must be -n to n - 1, or up to n if takes_end. */
static status_t read_place(const call_t *call, int operand, int n, bool takes_end, int *out_place)
{
    const datum_t *datum = call->in[operand];
    const datum_kind_t kind = datum_kind(datum);
    int64_t at = 0;
    if (kind == DATUM_TENSOR && !dtype_is_floating(tensor_dtype(datum_as_tensor(datum)))) {
        TRY(tensor_item_integer(call->ctx, datum_as_tensor(datum), &at));
    } else {
        REQUIRE(call->ctx, kind == DATUM_INT, "%s: the index is a %s, must be an int", call->name,
                datum_kind_name(kind));
        at = datum_as_int(datum);
    }
    REQUIRE(call->ctx, at >= -(int64_t)n && at < n + takes_end,
            "%s: index %lld, out of range for %d items", call->name, (long long)at, n);
    *out_place = (int)(at < 0 ? at + n : at);
    return STATUS_OK;
}

static status_t run_index(const call_t *call)
{
    const datum_t *container = call->in[0], *key = call->in[1];
    datum_t *item = NULL;
    if (datum_kind(container) == DATUM_DICT) {
        REQUIRE(call->ctx, datum_kind(key) == DATUM_STRING,
                "index: the key is a %s, a dict needs a string", datum_kind_name(datum_kind(key)));
        item = datum_find(container, datum_as_string(key));
        REQUIRE(call->ctx, item != NULL, "index: the dict has no \"%s\"", datum_as_string(key));
    } else {
        int at = 0;
        REQUIRE(call->ctx, is_sequence(container), "index: a %s, must be a list, tuple or dict",
                datum_kind_name(datum_kind(container)));
        TRY(read_place(call, 1, datum_length(container), false, &at));
        item = datum_item(container, at);
    }
    call->out[0] = datum_retain(item);
    return STATUS_OK;
}

static status_t run_append(const call_t *call)
{
    REQUIRE(call->ctx, datum_kind(call->in[0]) == DATUM_LIST, "append: to a %s, must be a list",
            datum_kind_name(datum_kind(call->in[0])));
    return datum_append(call->ctx, call->in[0], call->in[1]);
}

/* Copies a list: items before `place`, `put` unless NULL, then the rest without `skipped` items. */
static status_t copy_list(const call_t *call, int place, datum_t *put, int skipped)
{
    const datum_t *list = call->in[0];
    const int n = datum_length(list);
    datum_t *copy = NULL;
    TRY(datum_list(call->ctx, 0, NULL, &copy));
    status_t status = STATUS_OK;
    for (int i = 0; i < place && status == STATUS_OK; i++)
        status = datum_append(call->ctx, copy, datum_item(list, i));
    if (put != NULL && status == STATUS_OK) status = datum_append(call->ctx, copy, put);
    for (int i = place + skipped; i < n && status == STATUS_OK; i++)
        status = datum_append(call->ctx, copy, datum_item(list, i));
    if (status == STATUS_OK)
        call->out[0] = copy;
    else
        datum_release(copy);
    return status;
}

static status_t require_list(const call_t *call)
{
    REQUIRE(call->ctx, datum_kind(call->in[0]) == DATUM_LIST, "%s: a %s, must be a list",
            call->name, datum_kind_name(datum_kind(call->in[0])));
    return STATUS_OK;
}

/* Inserts before an item. A negative index counts from the end; the list's length means the end. */
static status_t run_insert(const call_t *call)
{
    TRY(require_list(call));
    const int n = datum_length(call->in[0]);
    int place = n;
    if (datum_kind(call->in[2]) != DATUM_NONE) TRY(read_place(call, 2, n, true, &place));
    return copy_list(call, place, call->in[1], 0);
}

static status_t run_erase(const call_t *call)
{
    int place = 0;
    TRY(require_list(call));
    TRY(read_place(call, 1, datum_length(call->in[0]), false, &place));
    return copy_list(call, place, NULL, 1);
}

static status_t run_element(const call_t *call)
{
    REQUIRE(call->ctx, datum_kind(call->in[0]) != DATUM_NONE,
            "element: none, an element is needed");
    call->out[0] = datum_retain(call->in[0]);
    return STATUS_OK;
}

static status_t run_len(const call_t *call)
{
    const datum_t *container = call->in[0];
    REQUIRE(call->ctx, is_sequence(container) || datum_kind(container) == DATUM_DICT,
            "len: of a %s, must be a list, tuple or dict", datum_kind_name(datum_kind(container)));
    return datum_int(call->ctx, datum_length(container), call->out);
}

/* ---- join and stack ---- */

/* Tensors that this call owns. They are taken out of any open scope. */
typedef struct pieces {
    int n;
    tensor_t **tensors;
} pieces_t;

static void drop_pieces(pieces_t *pieces)
{
    for (int i = 0; i < pieces->n; i++) tensor_drop(pieces->tensors[i]);
    pieces->n = 0;
}

/* Gets the list's tensors; for stack, each with an additional dimension of size 1. */
static status_t take_pieces(const call_t *call, bool is_stack, int64_t dim, pieces_t *pieces)
{
    const datum_t *list = call->in[0];
    for (int i = 0; i < datum_length(list); i++) {
        const datum_t *item = datum_item(list, i);
        tensor_t *piece = NULL;
        REQUIRE(call->ctx, datum_kind(item) == DATUM_TENSOR,
                "%s: item %d is a %s, must be a tensor", call->name, i,
                datum_kind_name(datum_kind(item)));
        if (is_stack) {
            TRY(op_unsqueeze(call->ctx, datum_as_tensor(item), 1, &dim, &piece));
            scope_take(call->ctx, piece);
        } else {
            piece = tensor_hold(datum_as_tensor(item));
        }
        pieces->tensors[pieces->n++] = piece;
    }
    return STATUS_OK;
}

/* Concatenates each group of OP_MAX_INPUTS tensors to one tensor. */
static status_t join_once(context_t *ctx, int64_t dim, pieces_t *pieces)
{
    int n_joined = 0, from = 0;
    status_t status = STATUS_OK;
    while (from < pieces->n && status == STATUS_OK) {
        int n = pieces->n - from < OP_MAX_INPUTS ? pieces->n - from : OP_MAX_INPUTS;
        tensor_t *joined = NULL;
        status = op_concat(ctx, n, (const tensor_t *const *)&pieces->tensors[from], dim, &joined);
        if (status != STATUS_OK) break;
        scope_take(ctx, joined);
        for (int i = from; i < from + n; i++) tensor_drop(pieces->tensors[i]);
        pieces->tensors[n_joined++] = joined;
        from += n;
    }
    while (from < pieces->n) pieces->tensors[n_joined++] = pieces->tensors[from++];
    pieces->n = n_joined;
    return status;
}

/* Returns operand 2, the result for an empty list. */
static status_t give_empty(const call_t *call)
{
    const datum_t *empty = call->in[2];
    REQUIRE(call->ctx, datum_kind(empty) == DATUM_TENSOR,
            "%s: a %s for an empty list, must be a tensor", call->name,
            datum_kind_name(datum_kind(empty)));
    return datum_tensor(call->ctx, datum_as_tensor(empty), call->out);
}

static status_t join_list(const call_t *call, bool is_stack)
{
    context_t *ctx = call->ctx;
    TRY(check_arity(call, call->n_in == 3 ? 3 : 2));
    REQUIRE(ctx, is_sequence(call->in[0]) && datum_kind(call->in[1]) == DATUM_INT,
            "%s: a %s along a %s, must be a list and an int", call->name,
            datum_kind_name(datum_kind(call->in[0])), datum_kind_name(datum_kind(call->in[1])));
    int n = datum_length(call->in[0]);
    if (n == 0 && call->n_in == 3) return give_empty(call);
    REQUIRE(ctx, n > 0, "%s: the list is empty, one tensor is needed to know dtype and sizes",
            call->name);
    pieces_t pieces = {0, NULL};
    TRY(context_get(ctx, (size_t)n * sizeof *pieces.tensors, "tensors", &pieces.tensors));
    const int64_t dim = datum_as_int(call->in[1]);
    status_t status = take_pieces(call, is_stack, dim, &pieces);
    while (status == STATUS_OK && pieces.n > 1) status = join_once(ctx, dim, &pieces);
    if (status == STATUS_OK) status = datum_tensor(ctx, pieces.tensors[0], call->out);
    drop_pieces(&pieces);
    context_put(ctx, pieces.tensors);
    return status;
}

static status_t run_join(const call_t *call)
{
    return join_list(call, false);
}

static status_t run_stack(const call_t *call)
{
    return join_list(call, true);
}

static status_t run_fail(const call_t *call)
{
    REQUIRE(call->ctx, datum_kind(call->in[0]) == DATUM_STRING, "fail: a %s, must be a string",
            datum_kind_name(datum_kind(call->in[0])));
    FAIL(call->ctx, STATUS_INVALID_ARGUMENT, "%s", datum_as_string(call->in[0]));
}

static status_t find_tensor(const call_t *call, const tensor_t **out_tensor)
{
    datum_kind_t kind = datum_kind(call->in[0]);
    REQUIRE(call->ctx, kind == DATUM_TENSOR, "%s: of a %s, must be a tensor", call->name,
            datum_kind_name(kind));
    *out_tensor = datum_as_tensor(call->in[0]);
    return STATUS_OK;
}

static status_t run_size(const call_t *call)
{
    const tensor_t *tensor = NULL;
    int dim = 0;
    TRY(find_tensor(call, &tensor));
    REQUIRE(call->ctx,
            datum_kind(call->in[1]) == DATUM_INT && tensor_rank(tensor) > 0 &&
                shape_dim(tensor_rank(tensor), datum_as_int(call->in[1]), &dim),
            "size: %s has no such dimension", tensor_text(tensor));
    return datum_int(call->ctx, tensor_sizes(tensor)[dim], call->out);
}

static status_t run_shape(const call_t *call)
{
    const tensor_t *tensor = NULL;
    tensor_t *shape = NULL;
    void *bytes = NULL;
    TRY(find_tensor(call, &tensor));
    int64_t rank = tensor_rank(tensor);
    tensor_info_t info = info_dense(DTYPE_S64, 1, &rank);
    TRY(tensor_make(call->ctx, &info, &shape));
    status_t status = tensor_writable(call->ctx, shape, &bytes);
    if (status == STATUS_OK && rank > 0)
        memcpy(bytes, tensor_sizes(tensor), (size_t)rank * sizeof(int64_t));
    if (status == STATUS_OK) status = datum_tensor(call->ctx, shape, call->out);
    tensor_drop(shape);
    return status;
}

static const struct {
    const char *name;
    int n_in; /* -1: any number */
    status_t (*run)(const call_t *call);
} containers[] = {
    {"list", -1, run_list},    {"tuple", -1, run_tuple}, {"dict", -1, run_dict},
    {"unpack", 1, run_unpack}, {"index", 2, run_index},  {"append", 2, run_append},
    {"insert", 3, run_insert}, {"erase", 2, run_erase},  {"element", 1, run_element},
    {"len", 1, run_len},       {"join", -1, run_join},   {"stack", -1, run_stack},
    {"fail", 1, run_fail},     {"shape", 1, run_shape},  {"size", 2, run_size},
};

/* ---- scalars: ints, or floats if an operand is a float, and for a division ---- */

typedef enum scalar_op {
    SCALAR_ADD,
    SCALAR_SUB,
    SCALAR_MUL,
    SCALAR_DIV,
    SCALAR_FLOORDIV,
    SCALAR_MOD,
    SCALAR_NEG,
    SCALAR_EQ,
    SCALAR_NE,
    SCALAR_LT,
    SCALAR_LE,
    SCALAR_GT,
    SCALAR_GE,
    SCALAR_AND,
    SCALAR_OR,
    SCALAR_NOT,
    SCALAR_COUNT
} scalar_op_t;

static const char *const scalar_names[SCALAR_COUNT] = {
    "scalar_add", "scalar_sub", "scalar_mul", "scalar_div", "scalar_floordiv", "scalar_mod",
    "scalar_neg", "scalar_eq",  "scalar_ne",  "scalar_lt",  "scalar_le",       "scalar_gt",
    "scalar_ge",  "scalar_and", "scalar_or",  "scalar_not"};

/* A number as double and, unless is_float, as integer. */
typedef struct number {
    bool is_float;
    int64_t integer;
    double value;
} number_t;

/* Reads a scalar, or the only element of a tensor. */
static status_t read_number(const call_t *call, int i, number_t *out_number)
{
    const datum_t *datum = call->in[i];
    datum_kind_t kind = datum_kind(datum);
    number_t number = {.is_float = kind == DATUM_FLOAT};
    if (kind == DATUM_TENSOR) {
        const tensor_t *tensor = datum_as_tensor(datum);
        number.is_float = dtype_is_floating(tensor_dtype(tensor));
        TRY(tensor_item(call->ctx, tensor, &number.value));
        if (!number.is_float) TRY(tensor_item_integer(call->ctx, tensor, &number.integer));
    } else {
        REQUIRE(call->ctx, kind == DATUM_INT || kind == DATUM_BOOL || kind == DATUM_FLOAT,
                "%s: operand %d is of kind %s, must be a number", call->name, i,
                datum_kind_name(kind));
        number.value = datum_as_float(datum);
        if (!number.is_float) number.integer = datum_as_int(datum);
    }
    *out_number = number;
    return STATUS_OK;
}

/* As in Python, the quotient is rounded down, and the remainder has the sign of b. */
static status_t divide(const call_t *call, int64_t a, int64_t b, int64_t *out_quotient,
                       int64_t *out_remainder)
{
    REQUIRE(call->ctx, b != 0 && !(a == INT64_MIN && b == -1), "%s: %lld by %lld", call->name,
            (long long)a, (long long)b);
    int64_t quotient = a / b, remainder = a % b;
    if (remainder != 0 && (remainder < 0) != (b < 0)) {
        quotient--;
        remainder += b;
    }
    *out_quotient = quotient;
    *out_remainder = remainder;
    return STATUS_OK;
}

static status_t calculate_int(const call_t *call, scalar_op_t op, int64_t a, int64_t b)
{
    int64_t result = 0, rest = 0;
    bool fits = true;
    switch (op) {
    case SCALAR_ADD: fits = !__builtin_add_overflow(a, b, &result); break;
    case SCALAR_SUB: fits = !__builtin_sub_overflow(a, b, &result); break;
    case SCALAR_MUL: fits = !__builtin_mul_overflow(a, b, &result); break;
    case SCALAR_FLOORDIV: TRY(divide(call, a, b, &result, &rest)); break;
    case SCALAR_MOD: TRY(divide(call, a, b, &rest, &result)); break;
    default: fits = !__builtin_sub_overflow((int64_t)0, a, &result); break;
    }
    REQUIRE(call->ctx, fits, "%s: %lld and %lld, the result overflows", call->name, (long long)a,
            (long long)b);
    return datum_int(call->ctx, result, call->out);
}

static status_t calculate_float(const call_t *call, scalar_op_t op, double a, double b)
{
    bool divides = op == SCALAR_DIV || op == SCALAR_FLOORDIV || op == SCALAR_MOD;
    REQUIRE(call->ctx, !divides || b != 0.0, "%s: %g by zero", call->name, a);
    double result = 0.0;
    switch (op) {
    case SCALAR_ADD: result = a + b; break;
    case SCALAR_SUB: result = a - b; break;
    case SCALAR_MUL: result = a * b; break;
    case SCALAR_DIV: result = a / b; break;
    case SCALAR_FLOORDIV: result = floor(a / b); break;
    case SCALAR_MOD:
        result = fmod(a, b);
        if (result != 0.0 && (result < 0.0) != (b < 0.0)) result += b;
        break;
    default: result = -a; break;
    }
    return datum_float(call->ctx, result, call->out);
}

/* Compares two integers as integers, other numbers as doubles. NaN is unequal to everything. */
static bool compare(scalar_op_t op, const number_t *a, const number_t *b)
{
    bool as_float = a->is_float || b->is_float;
    bool less = as_float ? a->value < b->value : a->integer < b->integer;
    bool equal = as_float ? a->value == b->value : a->integer == b->integer;
    bool greater = as_float ? a->value > b->value : a->integer > b->integer;
    switch (op) {
    case SCALAR_EQ: return equal;
    case SCALAR_NE: return !equal;
    case SCALAR_LT: return less;
    case SCALAR_LE: return less || equal;
    case SCALAR_GT: return greater;
    default: return greater || equal;
    }
}

/* True for == and != if an operand is a string or none. */
static bool is_equality_of_others(const call_t *call, scalar_op_t op)
{
    if (op != SCALAR_EQ && op != SCALAR_NE) return false;
    for (int i = 0; i < 2; i++) {
        datum_kind_t kind = datum_kind(call->in[i]);
        if (kind == DATUM_STRING || kind == DATUM_NONE) return true;
    }
    return false;
}

static status_t run_logic(const call_t *call, scalar_op_t op)
{
    bool a, b = false;
    TRY(run_truth(call->ctx, call->name, call->in[0], &a));
    if (op != SCALAR_NOT) TRY(run_truth(call->ctx, call->name, call->in[1], &b));
    bool result = op == SCALAR_NOT ? !a : op == SCALAR_AND ? a && b : a || b;
    return datum_bool(call->ctx, result, call->out);
}

static status_t run_scalar(const call_t *call, scalar_op_t op)
{
    context_t *ctx = call->ctx;
    if (op >= SCALAR_AND) return run_logic(call, op);
    if (is_equality_of_others(call, op)) {
        bool equal = datum_equal(ctx, call->in[0], call->in[1]);
        return datum_bool(ctx, equal == (op == SCALAR_EQ), call->out);
    }
    number_t a, b = {0};
    TRY(read_number(call, 0, &a));
    if (op != SCALAR_NEG) TRY(read_number(call, 1, &b));
    if (op >= SCALAR_EQ) return datum_bool(ctx, compare(op, &a, &b), call->out);
    if (a.is_float || b.is_float || op == SCALAR_DIV)
        return calculate_float(call, op, a.value, b.value);
    return calculate_int(call, op, a.integer, b.integer);
}

status_t run_builtin(context_t *ctx, const char *name, int n_in, datum_t *const *in, int n_out,
                     datum_t **out)
{
    const call_t call = {ctx, name, n_in, in, n_out, out};
    for (size_t i = 0; i < sizeof containers / sizeof containers[0]; i++) {
        if (strcmp(containers[i].name, name) != 0) continue;
        TRY(check_arity(&call, containers[i].n_in));
        return containers[i].run(&call);
    }
    for (int op = 0; op < SCALAR_COUNT; op++) {
        if (strcmp(scalar_names[op], name) != 0) continue;
        TRY(check_arity(&call, op == SCALAR_NEG || op == SCALAR_NOT ? 1 : 2));
        return run_scalar(&call, (scalar_op_t)op);
    }
    FAIL(ctx, STATUS_UNSUPPORTED, "%s: there is no such builtin", name);
}
