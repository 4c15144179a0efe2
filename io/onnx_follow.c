/* How integers follow open sizes: expressions that give what the trials gave, and proofs that these
 * hold where no trial has been. */
#include "io/onnx_node_impl.h"
#include "io/onnx_trial_impl.h"

#ifdef TESSERA_HAVE_ONNX

#include <string.h>

#include "tensor/tensor_impl.h"

/* ---- samples ---- */

status_t onnx_samples_begin(onnx_t *onnx, onnx_samples_t **out_samples)
{
    TRY(context_get(onnx->ctx, sizeof **out_samples, "sizes of trials", out_samples));
    (*out_samples)->n = (*out_samples)->n_variables = 0;
    for (int k = 0; k < onnx->n_trials; k++)
        if (!onnx->is_over[k]) (*out_samples)->trials[(*out_samples)->n++] = k;
    return STATUS_OK;
}

void onnx_samples_open(const onnx_t *onnx, onnx_samples_t *samples)
{
    for (int i = 0; i < onnx->n_open; i++) {
        if (onnx->open[i].is_fixed) continue;
        int v = samples->n_variables++;
        samples->variables[v] = (size_variable_t){.name = onnx->open[i].name, .dim = i};
        for (int s = 0; s < samples->n; s++)
            samples->sizes[v][s] = onnx->sizes[samples->trials[s]][i];
    }
}

void onnx_samples_dims(onnx_t *onnx, item_t item, onnx_samples_t *samples)
{
    int rank = onnx_info(onnx, item)->rank;
    for (int d = 0; d < rank; d++) {
        int v = samples->n_variables;
        bool varies = false;
        for (int s = 0; s < samples->n; s++) {
            onnx->trial = samples->trials[s];
            const tensor_info_t *info = onnx_info(onnx, item);
            samples->sizes[v][s] = d < info->rank ? info->sizes[d] : 0;
            varies |= samples->sizes[v][s] != samples->sizes[v][0];
        }
        onnx->trial = 0;
        samples->variables[v] = (size_variable_t){.name = NULL, .dim = d};
        samples->n_variables += varies;
    }
}

/* Pointers to the rows of the table. */
static size_samples_t samples_of(const onnx_samples_t *samples, const int64_t **sizes)
{
    for (int v = 0; v < samples->n_variables; v++) sizes[v] = samples->sizes[v];
    return (size_samples_t){samples->n, samples->n_variables, sizes, samples->variables};
}

/* ---- sizes inside ---- */

typedef struct onnx_pool {
    int n_items; /* that have been looked at */
    int n_live;  /* trials that were not over */
    size_pool_t sizes;
} onnx_pool_t;

bool onnx_samples_fit(const onnx_t *onnx, const onnx_samples_t *samples, const int64_t *values,
                      size_expr_t *out_expr)
{
    const int64_t *sizes[ONNX_MAX_VARIABLES];
    const size_samples_t all = samples_of(samples, sizes);
    const bool has_pool = onnx->pool != NULL && onnx->pool->n_live == samples->n;
    return size_fit(&all, has_pool ? &onnx->pool->sizes : NULL, values, out_expr);
}

bool onnx_samples_between(onnx_t *onnx, const onnx_samples_t *samples, const int64_t *values,
                          size_expr_t *out_expr)
{
    for (int v = 0; v < samples->n_variables; v++) {
        int64_t over[ONNX_MAX_TRIALS];
        size_stairs_t stairs;
        const int open = samples->variables[v].dim;
        if (samples->variables[v].name == NULL) continue;
        const int n = onnx_sizes_over(onnx, open, over);
        if (size_fit_between(samples->n, samples->sizes[v], values, &samples->variables[v], n, over,
                             out_expr))
            return true;
        for (int k = 0; k < SIZE_STAIRS; k++)
            if (size_stairs(k, samples->n, samples->sizes[v], values, &stairs))
                onnx_ask(onnx, open, samples->n, samples->sizes[v], stairs.steps);
    }
    return false;
}

/* Integers of an item: its sizes; elements, where these are few and known. */
static int n_integers(const onnx_t *onnx, item_t index)
{
    const onnx_item_t *item = &onnx->items[index];
    if (onnx_is_special(onnx, index)) return 0;
    if (item->known == NULL) return item->info.rank;
    const dtype_t dtype = tensor_dtype(item->known);
    const bool is_integer = dtype == DTYPE_S64 || dtype == DTYPE_S32;
    return is_integer && tensor_numel(item->known) <= TENSOR_MAX_RANK
               ? (int)tensor_numel(item->known)
               : 0;
}

static bool integer_in(const onnx_t *onnx, item_t index, int at, int trial, int64_t *out_value)
{
    const onnx_item_t *item = &onnx->items[index];
    if (item->known == NULL) {
        const bool is_other = item->infos != NULL && item->infos[trial].dtype != DTYPE_NONE;
        const tensor_info_t *info = is_other ? &item->infos[trial] : &item->info;
        if (info->rank != item->info.rank) return false;
        *out_value = info->sizes[at];
        return true;
    }
    const bool is_other = item->knowns != NULL && item->knowns[trial] != NULL;
    const tensor_t *tensor = is_other ? item->knowns[trial] : item->known;
    const tensor_info_t *info = tensor_info(tensor);
    if (!info_is_contiguous(info) || info_numel(info) != tensor_numel(item->known)) return false;
    *out_value = dtype_load_integer(info->dtype, (const char *)tensor_bytes(tensor) +
                                                     (size_t)at * dtype_size(info->dtype));
    return true;
}

/* An integer at all samples; false where it is one number, or not there in all of them. */
static bool read_integers(const onnx_t *onnx, const onnx_samples_t *samples, item_t item, int at,
                          int64_t *out_values)
{
    bool varies = false;
    for (int s = 0; s < samples->n; s++) {
        if (!integer_in(onnx, item, at, samples->trials[s], &out_values[s])) return false;
        varies |= out_values[s] != out_values[0];
    }
    return varies;
}

static bool may_vary(const onnx_item_t *item)
{
    return item->known != NULL ? item->knowns != NULL : item->infos != NULL;
}

status_t onnx_pool_fill(onnx_t *onnx)
{
    onnx_samples_t *samples = NULL;
    int64_t values[ONNX_MAX_TRIALS];
    const int64_t *sizes[ONNX_MAX_VARIABLES];
    if (onnx->pool == NULL)
        TRY(context_get_zeroed(onnx->ctx, sizeof *onnx->pool, "sizes inside", &onnx->pool));
    TRY(onnx_samples_begin(onnx, &samples));
    onnx_samples_open(onnx, samples);
    const size_samples_t all = samples_of(samples, sizes);
    onnx_pool_t *pool = onnx->pool;
    if (pool->n_live != samples->n || pool->n_items > onnx->n_items)
        pool->n_items = pool->sizes.n = 0;
    pool->n_live = samples->n;
    for (; pool->n_items < onnx->n_items; pool->n_items++) {
        if (!may_vary(&onnx->items[pool->n_items])) continue;
        const int n = n_integers(onnx, pool->n_items);
        for (int i = 0; i < n; i++)
            if (read_integers(onnx, samples, pool->n_items, i, values))
                size_pool_add(&pool->sizes, &all, values);
    }
    context_put(onnx->ctx, samples);
    return STATUS_OK;
}

status_t onnx_pool_ask(onnx_t *onnx)
{
    onnx_samples_t *samples = NULL;
    int64_t values[ONNX_MAX_TRIALS];
    size_expr_t expr;
    TRY(onnx_samples_begin(onnx, &samples));
    onnx_samples_open(onnx, samples);
    for (item_t item = 0; item < onnx->n_items; item++) {
        if (!may_vary(&onnx->items[item])) continue;
        const int n = n_integers(onnx, item);
        for (int i = 0; i < n; i++)
            if (read_integers(onnx, samples, item, i, values) &&
                !onnx_samples_fit(onnx, samples, values, &expr))
                (void)onnx_samples_between(onnx, samples, values, &expr);
    }
    context_put(onnx->ctx, samples);
    return STATUS_OK;
}

status_t onnx_is_followed(onnx_t *onnx, const int64_t *values, bool *out_is_followed)
{
    onnx_samples_t *samples = NULL;
    size_expr_t expr;
    int64_t chosen[ONNX_MAX_TRIALS];
    bool is_one = true;
    TRY(onnx_samples_begin(onnx, &samples));
    onnx_samples_open(onnx, samples);
    for (int s = 0; s < samples->n; s++) {
        chosen[s] = values[samples->trials[s]];
        is_one = is_one && chosen[s] == chosen[0];
    }
    *out_is_followed = is_one || onnx_samples_fit(onnx, samples, chosen, &expr);
    context_put(onnx->ctx, samples);
    return STATUS_OK;
}

/* ---- proofs ---- */

typedef bool (*integer_op_t)(int64_t a, int64_t b, int64_t *out_value);

static bool take_min(int64_t a, int64_t b, int64_t *out_value)
{
    *out_value = a < b ? a : b;
    return true;
}

static bool take_max(int64_t a, int64_t b, int64_t *out_value)
{
    *out_value = a > b ? a : b;
    return true;
}

static bool divide_trunc(int64_t a, int64_t b, int64_t *out_value)
{
    if (b == 0) return false;
    *out_value = a / b;
    return true;
}

static bool divide_floor(int64_t a, int64_t b, int64_t *out_value)
{
    if (b == 0) return false;
    *out_value = a / b - (a % b != 0 && (a < 0) != (b < 0));
    return true;
}

static bool take_remainder(int64_t a, int64_t b, int64_t *out_value)
{
    int64_t quotient = 0;
    if (!divide_floor(a, b, &quotient)) return false;
    *out_value = a - quotient * b;
    return true;
}

static bool take_fmod(int64_t a, int64_t b, int64_t *out_value)
{
    if (b == 0) return false;
    *out_value = a % b;
    return true;
}

static bool is_equal(int64_t a, int64_t b, int64_t *out_value)
{
    *out_value = a == b;
    return true;
}

static bool is_unequal(int64_t a, int64_t b, int64_t *out_value)
{
    *out_value = a != b;
    return true;
}

static bool is_less(int64_t a, int64_t b, int64_t *out_value)
{
    *out_value = a < b;
    return true;
}

static bool is_at_most(int64_t a, int64_t b, int64_t *out_value)
{
    *out_value = a <= b;
    return true;
}

static bool is_greater(int64_t a, int64_t b, int64_t *out_value)
{
    *out_value = a > b;
    return true;
}

static bool is_at_least(int64_t a, int64_t b, int64_t *out_value)
{
    *out_value = a >= b;
    return true;
}

static integer_op_t op_of(const opdef_t *op)
{
    static const struct {
        const char *name;
        integer_op_t op;
    } ops[] = {
        {"minimum", take_min},
        {"maximum", take_max},
        {"div_trunc", divide_trunc},
        {"div_floor", divide_floor},
        {"remainder", take_remainder},
        {"fmod", take_fmod},
        {"eq", is_equal},
        {"ne", is_unequal},
        {"lt", is_less},
        {"le", is_at_most},
        {"gt", is_greater},
        {"ge", is_at_least},
    };
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (strcmp(op->name, ops[i].name) == 0) return ops[i].op;
    return NULL;
}

/* Element `at` of a known item of integers, as it follows open sizes. */
static bool find_element(const onnx_t *onnx, const onnx_samples_t *samples, item_t item, int64_t at,
                         size_expr_t *out_expr)
{
    int64_t values[ONNX_MAX_TRIALS] = {0};
    bool varies = false;
    for (int s = 0; s < samples->n; s++) {
        if (!integer_in(onnx, item, (int)at, samples->trials[s], &values[s])) return false;
        varies |= values[s] != values[0];
    }
    *out_expr = (size_expr_t){.offset = values[0], .divisor = 1};
    return !varies || onnx_samples_fit(onnx, samples, values, out_expr);
}

/* The open size that this expression is of, if *open is it or none yet. */
static bool is_of_one(const size_expr_t *expr, int *open)
{
    for (int t = 0; t < expr->n_terms; t++)
        for (int i = 0; i < expr->terms[t].n; i++) {
            const int dim = expr->terms[t].parts[i].variable.dim;
            if (*open != ONNX_NOT_OPEN && *open != dim) return false;
            *open = dim;
        }
    return true;
}

static bool size_at(void *user, const size_variable_t *variable, int64_t *out_size)
{
    (void)variable;
    *out_size = *(const int64_t *)user;
    return true;
}

/* The largest size at which the result is not what the operator gives; 0: there is none. Quotients
 * come again after as many sizes as their divisors' product, so that what holds for thousands in a
 * row, and far away, holds for all. */
static int64_t last_mismatch(integer_op_t op, const size_expr_t *a, const size_expr_t *b,
                             const size_expr_t *result)
{
    enum { N_DENSE = 8192, FAR = 1 << 20 };
    int64_t last = 0;
    for (int64_t i = 1; i <= 2 * N_DENSE; i++) {
        int64_t size = i <= N_DENSE ? i : FAR + i, x = 0, y = 0, found = 0, wanted = 0;
        if (!size_calculate(a, size_at, &size, &x) || !size_calculate(b, size_at, &size, &y) ||
            !size_calculate(result, size_at, &size, &found) || !op(x, y, &wanted) ||
            found != wanted)
            last = size;
    }
    return last;
}

/* Sizes up to a mismatch may be some that the model refuses: then it has none that is smaller. */
static bool is_refused(onnx_t *onnx, const onnx_samples_t *samples, int open, int64_t last)
{
    int64_t over[ONNX_MAX_TRIALS];
    for (int s = 0; s < samples->n; s++)
        if (onnx->sizes[samples->trials[s]][open] <= last) return false;
    const int n = onnx_sizes_over(onnx, open, over);
    for (int i = 0; i < n; i++)
        if (over[i] == last) return true;
    onnx_ask_size(onnx, open, last);
    return false;
}

static bool prove_element(onnx_t *onnx, const onnx_samples_t *samples, const onnx_noted_t *call,
                          int64_t at)
{
    size_expr_t a, b, result;
    int open = ONNX_NOT_OPEN;
    const bool is_number_a = tensor_numel(onnx->items[call->in[0]].known) == 1,
               is_number_b = tensor_numel(onnx->items[call->in[1]].known) == 1;
    if (!find_element(onnx, samples, call->in[0], is_number_a ? 0 : at, &a) ||
        !find_element(onnx, samples, call->in[1], is_number_b ? 0 : at, &b) ||
        !find_element(onnx, samples, call->out[0], at, &result) || !is_of_one(&a, &open) ||
        !is_of_one(&b, &open) || !is_of_one(&result, &open))
        return false;
    if (open == ONNX_NOT_OPEN) return true;
    const int64_t last = last_mismatch(op_of(call->op), &a, &b, &result);
    return last == 0 || is_refused(onnx, samples, open, last);
}

/* Elements of a result, bools among them; 0: they are others, or many. */
static int n_results(const onnx_t *onnx, const onnx_noted_t *call)
{
    const tensor_t *known = onnx->items[call->out[0]].known;
    const dtype_t dtype = tensor_dtype(known);
    const bool is_read = dtype == DTYPE_S64 || dtype == DTYPE_S32 || dtype == DTYPE_BOOL;
    return is_read && tensor_numel(known) <= TENSOR_MAX_RANK ? (int)tensor_numel(known) : 0;
}

/* Operands of a few integers, as many as the result has, or one. */
static bool is_simple(const onnx_t *onnx, const onnx_noted_t *call)
{
    if (op_of(call->op) == NULL || call->n_in != 2 || call->n_out != 1) return false;
    const int n = n_results(onnx, call);
    for (int i = 0; i < 2; i++) {
        if (call->in[i] == ITEM_NONE || onnx->items[call->in[i]].known == NULL) return false;
        const int n_own = n_integers(onnx, call->in[i]);
        if (n_own != n && n_own != 1) return false;
    }
    return n > 0;
}

status_t onnx_is_proven(onnx_t *onnx, const onnx_noted_t *call, bool *out_is_proven)
{
    onnx_samples_t *samples = NULL;
    *out_is_proven = false;
    if (!is_simple(onnx, call)) return STATUS_OK;
    TRY(onnx_pool_fill(onnx));
    TRY(onnx_samples_begin(onnx, &samples));
    onnx_samples_open(onnx, samples);
    const int n = n_results(onnx, call);
    *out_is_proven = true;
    for (int i = 0; i < n && *out_is_proven; i++)
        *out_is_proven = prove_element(onnx, samples, call, i);
    context_put(onnx->ctx, samples);
    return *out_is_proven ? STATUS_OK : onnx_pool_ask(onnx);
}

#endif
