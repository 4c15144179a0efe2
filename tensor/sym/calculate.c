/* Evaluates expressions for given values of the names. Takes no lock, because the definitions of
 * nodes never change. */
#include <math.h>

#include "tensor/sym/sym_impl.h"

static bool get_integer(sym_get_t get, void *user, int64_t operand, int64_t *out_value)
{
    sym_value_t value;
    if (!sym_is(operand)) {
        *out_value = operand;
        return true;
    }
    if (!get(user, operand, &value)) return false;
    *out_value = value.integer;
    return true;
}

/* Multiplies the factors from left to right. If one is 0, the product is 0 even if the others
 * overflow. */
static bool evaluate_product(const sym_node_t *node, sym_get_t get, void *user, int64_t *out_value)
{
    int64_t product = 1;
    bool fits = true, is_zero = false;
    for (int i = 0; i < node->n; i++) {
        int64_t factor;
        if (!get_integer(get, user, node->operands[i], &factor)) return false;
        is_zero = is_zero || factor == 0;
        fits = fits && !__builtin_mul_overflow(product, factor, &product);
    }
    *out_value = is_zero ? 0 : product;
    return is_zero || fits;
}

static bool evaluate_sum(const sym_node_t *node, sym_get_t get, void *user, int64_t *out_value)
{
    const int64_t *operands = node->operands;
    sym_wide_t sum = operands[0];
    for (int i = 2; i < node->n; i += 2) {
        int64_t product;
        if (!get_integer(get, user, operands[i + 1], &product)) return false;
        if (__builtin_add_overflow(sum, (sym_wide_t)operands[i] * product, &sum)) return false;
    }
    if (sum >= INT64_MIN && sum <= INT64_MAX) { /* 64-bit division is ten times faster than
                                                   128-bit */
        *out_value = operands[1] == 1 ? (int64_t)sum : sym_floor((int64_t)sum, operands[1]);
        return sym_is_number(*out_value);
    }
    const sym_wide_t divisor = operands[1];
    sum = sum / divisor - (sum % divisor < 0);
    *out_value = (int64_t)sum;
    return sym_is_number(sum);
}

static bool evaluate_extreme(const sym_node_t *node, sym_get_t get, void *user, int64_t *out_value)
{
    for (int i = 0; i < node->n; i++) {
        int64_t value;
        if (!get_integer(get, user, node->operands[i], &value)) return false;
        if (i == 0 || (node->kind == SYM_MINIMUM ? value < *out_value : value > *out_value))
            *out_value = value;
    }
    return true;
}

static bool evaluate_pair(const sym_node_t *node, sym_get_t get, void *user, int64_t *out_value)
{
    int64_t a, b;
    if (!get_integer(get, user, node->operands[0], &a) ||
        !get_integer(get, user, node->operands[1], &b))
        return false;
    switch (node->kind) {
    case SYM_EQUALS: *out_value = a == b; return true;
    case SYM_LESS: *out_value = a < b; return true;
    default:
        if (b == 0) return false;
        *out_value = sym_floor(a, b);
        return true;
    }
}

static bool evaluate_real(const sym_node_t *node, sym_get_t get, void *user, sym_value_t *out)
{
    sym_value_t a = {0, 0.0}, b = {0, 0.0};
    if (node->kind == SYM_REAL) {
        *out = node->hint;
        return true;
    }
    if (!sym_is(node->operands[0]))
        a = (sym_value_t){node->operands[0], (double)node->operands[0]};
    else if (!get(user, node->operands[0], &a))
        return false;
    if (node->kind == SYM_ROUNDED)
        return sym_real_rounded((sym_rounding_t)node->part, a.real, &out->integer);
    if (node->n > 1 && !get(user, node->operands[1], &b)) return false;
    if (node->kind != SYM_TO_REAL) {
        out->real = sym_real_calculated((sym_kind_t)node->kind, (sym_real_t)node->part, a.real,
                                        b.real);
        return true;
    }
    /* if the operand is a real, `integer` is SYM_NONE */
    if (node->part == SYM_F32)
        out->real = a.integer != SYM_NONE ? (double)(float)a.integer : (double)(float)a.real;
    else
        out->real = a.integer != SYM_NONE ? (double)a.integer : a.real;
    return true;
}

bool sym_evaluate(const sym_node_t *node, sym_get_t get, void *user, sym_value_t *out_value)
{
    int64_t condition;
    sym_value_t value = {SYM_NONE, 0.0};
    bool is_known = false;
    switch ((sym_kind_t)node->kind) {
    case SYM_SUM: is_known = evaluate_sum(node, get, user, &value.integer); break;
    case SYM_PRODUCT: is_known = evaluate_product(node, get, user, &value.integer); break;
    case SYM_MINIMUM:
    case SYM_MAXIMUM: is_known = evaluate_extreme(node, get, user, &value.integer); break;
    case SYM_QUOTIENT:
    case SYM_EQUALS:
    case SYM_LESS: is_known = evaluate_pair(node, get, user, &value.integer); break;
    case SYM_CHOICE:
        is_known = get_integer(get, user, node->operands[0], &condition) &&
                   get_integer(get, user, node->operands[condition != 0 ? 1 : 2], &value.integer);
        break;
    case SYM_NAME: break;
    default: is_known = evaluate_real(node, get, user, &value); break;
    }
    if (is_known && node->kind < SYM_REAL) {
        is_known = value.integer >= INT64_MIN / 2 && !sym_is_huge(value.integer);
        value.real = (double)value.integer;
    }
    *out_value = value;
    return is_known;
}

typedef struct sizes {
    const sym_space_t *space;
    sym_size_t size_of;
    void *user;
} sizes_t;

static bool value_of(void *user, int64_t operand, sym_value_t *out_value)
{
    const sizes_t *sizes = user;
    const sym_node_t *node = sym_is(operand) ? sym_find(sizes->space, operand) : NULL;
    if (node == NULL) return false;
    if (node->kind != SYM_NAME) return sym_evaluate(node, value_of, user, out_value);
    if (!sizes->size_of(sizes->user, node->name, node->text, &out_value->integer)) return false;
    out_value->real = (double)out_value->integer;
    return !sym_is(out_value->integer) && !sym_is_huge(out_value->integer);
}

bool sym_calculate(const sym_space_t *space, int64_t a, sym_size_t size_of, void *user,
                   int64_t *out_value)
{
    sizes_t sizes = {space, size_of, user};
    sym_value_t value = {a, 0.0};
    if (sym_is(a) && (space == NULL || !value_of(&sizes, a, &value))) return false;
    if (value.integer == SYM_NONE) return false;
    *out_value = value.integer;
    return true;
}
