/* Public functions of symbolic integers. Functions of integers lock the space only if an argument
 * is a handle. */
#include "tensor/sym/sym.h"

#include <string.h>

#include "tensor/sym/sym_impl.h"

/* The context's state. Without a current space, floating-point numbers ("reals") are stored in two
 * spaces of the context, `plain` and the older `before`. When `plain` is full, it replaces
 * `before`. So a real is valid until at least PLAIN_NODES more nodes were made. */
#define PLAIN_NODES 1024

typedef struct sym_state {
    sym_space_t *space, *plain, *before;
    status_t status; /* first failure while there was no space */
    char origin[CONTEXT_ERROR_MAX / 8];
} sym_state_t;

static void state_fini(context_t *ctx, void *value)
{
    sym_state_t *state = value;
    (void)ctx;
    sym_space_release(state->plain);
    sym_space_release(state->before);
}

static const context_slot_t state_slot = {sizeof(sym_state_t), NULL, state_fini};

static sym_state_t *state_of(context_t *ctx)
{
    void *state = NULL;
    return ctx != NULL && context_slot(ctx, &state_slot, &state) == STATUS_OK ? state : NULL;
}

status_t sym_state_make(context_t *ctx)
{
    void *state = NULL;
    return context_slot(ctx, &state_slot, &state);
}

sym_space_t *sym_space_enter(context_t *ctx, sym_space_t *space)
{
    sym_state_t *state = state_of(ctx);
    if (state == NULL) return NULL;
    sym_space_t *before = state->space;
    state->space = space;
    return before;
}

/* Locks and returns the current space; NULL if there is none, or if it has failed. */
static sym_space_t *begin(context_t *ctx)
{
    sym_state_t *state = state_of(ctx);
    if (state == NULL || state->space == NULL) {
        if (state != NULL && state->status == STATUS_OK) state->status = STATUS_INVALID_ARGUMENT;
        return NULL;
    }
    pthread_mutex_lock(&state->space->lock);
    if (state->space->status == STATUS_OK) return state->space;
    pthread_mutex_unlock(&state->space->lock);
    return NULL;
}

/* Unlocks the space; returns the result, or SYM_NONE after a failure. */
static int64_t end(sym_space_t *space, int64_t result)
{
    if (space->status != STATUS_OK) result = SYM_NONE;
    pthread_mutex_unlock(&space->lock);
    return result;
}

status_t sym_status(context_t *ctx)
{
    char message[CONTEXT_ERROR_MAX / 2];
    sym_state_t *state = state_of(ctx);
    if (state == NULL) return STATUS_OUT_OF_MEMORY;
    status_t status = state->status;
    state->status = STATUS_OK;
    strcpy(message, "a symbolic size is used where sizes must be numbers");
    if (state->space != NULL) {
        pthread_mutex_lock(&state->space->lock);
        if (state->space->status != STATUS_OK) {
            status = state->space->status;
            memcpy(message, state->space->message, sizeof message);
            state->space->status = STATUS_OK;
        }
        pthread_mutex_unlock(&state->space->lock);
    }
    return status != STATUS_OK ? context_fail(ctx, status, "%s", message) : STATUS_OK;
}

/* Stores the origin of later guards. Replaces control characters by blanks. */
void sym_set_origin(sym_space_t *space, const char *text)
{
    size_t n = 0;
    for (; text != NULL && text[n] != '\0' && n + 1 < sizeof space->origin; n++)
        space->origin[n] = (unsigned char)text[n] < ' ' || text[n] == 0x7f ? ' ' : text[n];
    space->origin[n] = '\0';
}

void sym_origin(context_t *ctx, const char *text)
{
    const sym_state_t *state = state_of(ctx);
    sym_space_t *space = state != NULL && state->space != NULL ? begin(ctx) : NULL;
    if (space == NULL) return;
    sym_set_origin(space, text);
    (void)end(space, 0);
}

/* Replaces a handle by its simplest form. Returns false if it is not an integer of the space. */
static bool read_integer(sym_space_t *space, int64_t *a)
{
    if (!sym_is(*a)) return true;
    if (*a == SYM_NONE) return false;
    const sym_node_t *node = sym_find(space, *a);
    if (node == NULL || node->kind >= SYM_REAL) {
        sym_fail(space, STATUS_INVALID_ARGUMENT,
                 node == NULL
                     ? "an invalid symbolic size: plain arithmetic on one, or one of another space"
                     : "a floating number where an integer is needed");
        return false;
    }
    *a = sym_simplest(space, *a);
    return *a != SYM_NONE;
}

static sym_space_t *begin_integers(context_t *ctx, int64_t *a, int64_t *b)
{
    if (*a == SYM_NONE || *b == SYM_NONE) return NULL;
    sym_space_t *space = begin(ctx);
    if (space == NULL || (read_integer(space, a) && read_integer(space, b))) return space;
    (void)end(space, 0);
    return NULL;
}

/* ---- names ---- */

int64_t sym_name(context_t *ctx, const char *name, int64_t hint, int64_t min, int64_t max)
{
    sym_space_t *space = begin(ctx);
    if (space == NULL) return SYM_NONE;
    sym_node_t *node = sym_find_name(space, name);
    if (node == NULL && min > max)
        sym_fail(space, STATUS_INVALID_ARGUMENT, "the range of %s, %lld to %lld, is empty", name,
                 (long long)min, (long long)max);
    else if (node == NULL)
        node = sym_new_name(space, name, hint, min < SYM_LOWEST ? SYM_LOWEST : min, max);
    return end(space, node != NULL ? sym_simplest(space, node->handle) : SYM_NONE);
}

/* ---- integers ---- */

static int64_t checked(sym_wide_t value)
{
    return sym_is_number(value) ? (int64_t)value : SYM_NONE;
}

int64_t sym_add(context_t *ctx, int64_t a, int64_t b)
{
    if (!sym_is(a) && !sym_is(b)) return checked((sym_wide_t)a + b);
    sym_space_t *space = begin_integers(ctx, &a, &b);
    return space != NULL ? end(space, sym_sum(space, a, 1, b)) : SYM_NONE;
}

int64_t sym_subtract(context_t *ctx, int64_t a, int64_t b)
{
    if (!sym_is(a) && !sym_is(b)) return checked((sym_wide_t)a - b);
    sym_space_t *space = begin_integers(ctx, &a, &b);
    return space != NULL ? end(space, sym_sum(space, a, -1, b)) : SYM_NONE;
}

int64_t sym_multiply(context_t *ctx, int64_t a, int64_t b)
{
    if (!sym_is(a) && !sym_is(b)) return checked((sym_wide_t)a * b);
    sym_space_t *space = begin_integers(ctx, &a, &b);
    return space != NULL ? end(space, sym_multiplied(space, a, b)) : SYM_NONE;
}

/* Prepares the operands of a division, and decides whether the divisor is 0. Returns NULL if it
 * is. */
static sym_space_t *begin_division(context_t *ctx, int64_t *a, int64_t *b)
{
    sym_space_t *space = begin_integers(ctx, a, b);
    if (space == NULL || sym_decide(space, SYM_NOT_ZERO, *b)) return space;
    (void)end(space, 0);
    return NULL;
}

int64_t sym_divide(context_t *ctx, int64_t a, int64_t b)
{
    if (!sym_is(a) && !sym_is(b)) return b != 0 ? checked(sym_floor(a, b)) : SYM_NONE;
    sym_space_t *space = begin_division(ctx, &a, &b);
    return space != NULL ? end(space, sym_quotient(space, a, b)) : SYM_NONE;
}

int64_t sym_modulo(context_t *ctx, int64_t a, int64_t b)
{
    if (!sym_is(a) && !sym_is(b)) return b != 0 ? a - b * sym_floor(a, b) : SYM_NONE;
    sym_space_t *space = begin_division(ctx, &a, &b);
    if (space == NULL) return SYM_NONE;
    const int64_t quotient = sym_quotient(space, a, b);
    const int64_t product = quotient != SYM_NONE ? sym_product(space, b, quotient) : SYM_NONE;
    return end(space, sym_sum(space, a, -1, product));
}

/* Rounds a / b up: (a+b-1)/b if b is positive, else -(-a/b). */
static int64_t divide_up(sym_space_t *space, int64_t a, int64_t b)
{
    if (sym_know(space, b).min >= 1) {
        const int64_t more = sym_sum(space, a, 1, sym_sum(space, b, -1, 1));
        return more != SYM_NONE ? sym_quotient(space, more, b) : SYM_NONE;
    }
    const int64_t less = sym_sum(space, 0, -1, a);
    const int64_t quotient = less != SYM_NONE ? sym_quotient(space, less, b) : SYM_NONE;
    return sym_sum(space, 0, -1, quotient);
}

int64_t sym_divide_up(context_t *ctx, int64_t a, int64_t b)
{
    if (!sym_is(a) && !sym_is(b))
        return b != 0 ? checked((sym_wide_t)sym_floor(a, b) + (a % b != 0)) : SYM_NONE;
    sym_space_t *space = begin_division(ctx, &a, &b);
    return space != NULL ? end(space, divide_up(space, a, b)) : SYM_NONE;
}

static int64_t truncate_symbolic(sym_space_t *space, int64_t a, int64_t b)
{
    const int64_t down = sym_quotient(space, a, b);
    const int64_t a_minus = sym_compared(space, SYM_LESS, a, 0);
    const int64_t b_minus = sym_compared(space, SYM_LESS, b, 0);
    const int64_t is_same = sym_compared(space, SYM_EQUALS, a_minus, b_minus);
    if (is_same == 1 || down == SYM_NONE || is_same == SYM_NONE) return down;
    return sym_choice(space, is_same, down, divide_up(space, a, b));
}

int64_t sym_truncate(context_t *ctx, int64_t a, int64_t b)
{
    if (!sym_is(a) && !sym_is(b)) return b != 0 ? checked((sym_wide_t)a / b) : SYM_NONE;
    sym_space_t *space = begin_division(ctx, &a, &b);
    return space != NULL ? end(space, truncate_symbolic(space, a, b)) : SYM_NONE;
}

static int64_t extreme(context_t *ctx, sym_kind_t kind, int64_t a, int64_t b)
{
    sym_space_t *space = begin_integers(ctx, &a, &b);
    const int64_t operands[2] = {a, b};
    return space != NULL ? end(space, sym_extreme(space, kind, 2, operands)) : SYM_NONE;
}

int64_t sym_min(context_t *ctx, int64_t a, int64_t b)
{
    if (!sym_is(a) && !sym_is(b)) return a < b ? a : b;
    return extreme(ctx, SYM_MINIMUM, a, b);
}

int64_t sym_max(context_t *ctx, int64_t a, int64_t b)
{
    if (!sym_is(a) && !sym_is(b)) return a > b ? a : b;
    return extreme(ctx, SYM_MAXIMUM, a, b);
}

int64_t sym_is_equal(context_t *ctx, int64_t a, int64_t b)
{
    if (!sym_is(a) && !sym_is(b)) return a == b;
    sym_space_t *space = begin_integers(ctx, &a, &b);
    return space != NULL ? end(space, sym_compared(space, SYM_EQUALS, a, b)) : SYM_NONE;
}

int64_t sym_is_less(context_t *ctx, int64_t a, int64_t b)
{
    if (!sym_is(a) && !sym_is(b)) return a < b;
    sym_space_t *space = begin_integers(ctx, &a, &b);
    return space != NULL ? end(space, sym_compared(space, SYM_LESS, a, b)) : SYM_NONE;
}

int64_t sym_select(context_t *ctx, int64_t condition, int64_t a, int64_t b)
{
    int64_t zero = 0;
    if (!sym_is(condition)) return condition != 0 ? a : b;
    if (a == b) return a;
    sym_space_t *space = begin_integers(ctx, &condition, &zero);
    if (space == NULL) return SYM_NONE;
    const bool is_read = (a == SYM_NONE || read_integer(space, &a)) &&
                         (b == SYM_NONE || read_integer(space, &b));
    return end(space, is_read ? sym_choice(space, condition, a, b) : SYM_NONE);
}

/* ---- reals ---- */

/* Locks and returns the space in which reals are stored: the current space, or `plain`. */
static sym_space_t *begin_reals(context_t *ctx)
{
    sym_state_t *state = state_of(ctx);
    if (state == NULL) return NULL;
    if (state->space != NULL) return begin(ctx);
    if (state->plain == NULL || atomic_load(&state->plain->n_nodes) >= PLAIN_NODES) {
        sym_space_t *space = NULL;
        if (sym_space_create(ctx, &space) != STATUS_OK) return NULL;
        sym_space_release(state->before);
        state->before = state->plain;
        state->plain = space;
    }
    pthread_mutex_lock(&state->plain->lock);
    return state->plain;
}

/* Returns the handle of the real in this space. If it is a constant from before the space was
 * entered, creates it again in this space. */
static int64_t read_real(context_t *ctx, sym_space_t *space, int64_t a)
{
    const sym_state_t *state = state_of(ctx);
    const sym_space_t *const older[2] = {state->plain, state->before};
    const sym_node_t *node = sym_find(space, a);
    for (int i = 0; i < 2 && node == NULL; i++) {
        const sym_node_t *old = older[i] != NULL ? sym_find(older[i], a) : NULL;
        if (old != NULL && old->kind == SYM_REAL)
            return sym_real_number(space, (sym_real_t)old->part, old->hint.real);
    }
    if (node != NULL && node->kind >= SYM_REAL) return sym_simplest(space, a);
    return sym_fail(space, STATUS_INVALID_ARGUMENT, "a size where a floating number is needed");
}

int64_t sym_real(context_t *ctx, sym_real_t type, double number)
{
    sym_space_t *space = begin_reals(ctx);
    return space != NULL ? end(space, sym_real_number(space, type, number)) : SYM_NONE;
}

int64_t sym_to_real(context_t *ctx, sym_real_t type, int64_t a)
{
    sym_space_t *space = a != SYM_NONE ? begin_reals(ctx) : NULL;
    if (space == NULL) return SYM_NONE;
    const sym_node_t *node = sym_is(a) ? sym_find(space, a) : NULL;
    if (node != NULL && node->kind < SYM_REAL)
        a = sym_simplest(space, a);
    else if (sym_is(a))
        a = read_real(ctx, space, a);
    return end(space, sym_made_real(space, type, a));
}

int64_t sym_real_calculate(context_t *ctx, char operation, int64_t a, int64_t b)
{
    static const char operations[] = "+-*/";
    const char *at = operation != '\0' ? strchr(operations, operation) : NULL;
    sym_space_t *space = a != SYM_NONE && b != SYM_NONE && at != NULL ? begin_reals(ctx) : NULL;
    if (space == NULL) return SYM_NONE;
    a = read_real(ctx, space, a);
    b = a != SYM_NONE ? read_real(ctx, space, b) : SYM_NONE;
    if (a == SYM_NONE || b == SYM_NONE) return end(space, SYM_NONE);
    if (sym_find(space, a)->part != sym_find(space, b)->part)
        sym_fail(space, STATUS_INVALID_ARGUMENT, "floating numbers of different types");
    const sym_kind_t kind = (sym_kind_t)(SYM_ARITHMETIC_ADD + (at - operations));
    return end(space, sym_arithmetic(space, kind, a, b));
}

int64_t sym_round(context_t *ctx, sym_rounding_t rounding, int64_t real)
{
    sym_space_t *space = real != SYM_NONE ? begin_reals(ctx) : NULL;
    if (space == NULL) return SYM_NONE;
    return end(space, sym_rounded(space, rounding, read_real(ctx, space, real), true));
}

double sym_real_hint(context_t *ctx, int64_t real)
{
    double hint = (double)SYM_NONE;
    sym_space_t *space = real != SYM_NONE ? begin_reals(ctx) : NULL;
    if (space == NULL) return hint;
    real = read_real(ctx, space, real);
    if (real != SYM_NONE && sym_find(space, real)->has_hint)
        hint = sym_find(space, real)->hint.real;
    (void)end(space, 0);
    return hint;
}

/* ---- decisions ---- */

/* Decides a comparison with a number that is larger than any symbolic integer. Returns -1 if
 * neither a nor b is such a number. */
static int compare_huge(sym_relation_t relation, int64_t a, int64_t b)
{
    if (!sym_is_huge(a) && !sym_is_huge(b)) return -1;
    return relation == SYM_NOT_NEGATIVE && sym_is_huge(a);
}

/* Decides whether a - b + constant is 0 (or is not negative, depending on the relation). */
static bool decide(context_t *ctx, sym_relation_t relation, int64_t a, int64_t b, int64_t constant)
{
    sym_space_t *space;
    const int is_huge = a != SYM_NONE && b != SYM_NONE ? compare_huge(relation, a, b) : -1;
    if (is_huge >= 0) return is_huge == 1;
    if (a == SYM_NONE || b == SYM_NONE) {
        int64_t none = 0;
        space = begin_integers(ctx, &none, &none);
        if (space != NULL) (void)sym_decide(space, relation, SYM_NONE);
    } else {
        space = begin_integers(ctx, &a, &b);
    }
    if (space == NULL) return false;
    const bool is_known = a != SYM_NONE && b != SYM_NONE;
    const int64_t difference = is_known ? sym_sum(space, a, -1, b) : SYM_NONE;
    const int64_t all = sym_sum(space, difference, 1, constant);
    return end(space, is_known && sym_decide(space, relation, all)) == 1;
}

bool sym_equal(context_t *ctx, int64_t a, int64_t b)
{
    if (!sym_is(a) && !sym_is(b)) return a == b;
    return decide(ctx, SYM_ZERO, a, b, 0);
}

bool sym_less(context_t *ctx, int64_t a, int64_t b)
{
    if (!sym_is(a) && !sym_is(b)) return a < b;
    return decide(ctx, SYM_NOT_NEGATIVE, b, a, -1);
}

bool sym_at_most(context_t *ctx, int64_t a, int64_t b)
{
    if (!sym_is(a) && !sym_is(b)) return a <= b;
    return decide(ctx, SYM_NOT_NEGATIVE, b, a, 0);
}

bool sym_divides(context_t *ctx, int64_t divisor, int64_t a)
{
    if (!sym_is(a) && !sym_is(divisor)) return divisor != 0 && a % divisor == 0;
    return decide(ctx, SYM_ZERO, sym_modulo(ctx, a, divisor), 0, 0);
}

static bool knows(context_t *ctx, sym_relation_t relation, int64_t a, int64_t b, int64_t constant)
{
    const int is_huge = compare_huge(relation, a, b);
    if (is_huge >= 0) return is_huge == 1;
    sym_space_t *space = begin_integers(ctx, &a, &b);
    if (space == NULL) return false;
    const int64_t all = sym_sum(space, sym_sum(space, a, -1, b), 1, constant);
    const bool is_number = !sym_is(all);
    bool is_proven = false;
    if (is_number)
        is_proven = relation == SYM_ZERO ? all == 0 : all >= 0;
    else if (all != SYM_NONE)
        is_proven = sym_proves(space, relation, all) == 1;
    return end(space, is_proven) == 1;
}

bool sym_knows_equal(context_t *ctx, int64_t a, int64_t b)
{
    if (!sym_is(a) && !sym_is(b)) return a == b;
    return knows(ctx, SYM_ZERO, a, b, 0);
}

bool sym_knows_less(context_t *ctx, int64_t a, int64_t b)
{
    if (!sym_is(a) && !sym_is(b)) return a < b;
    return knows(ctx, SYM_NOT_NEGATIVE, b, a, -1);
}

int64_t sym_pin(context_t *ctx, int64_t a)
{
    if (!sym_is(a)) return a;
    const int64_t hint = sym_hint(ctx, a);
    if (hint == SYM_NONE) { /* this call reports the failure */
        (void)decide(ctx, SYM_ZERO, a, 0, 0);
        return SYM_NONE;
    }
    return sym_equal(ctx, a, hint) ? hint : SYM_NONE;
}

/* ---- queries ---- */

int64_t sym_hint(context_t *ctx, int64_t a)
{
    int64_t zero = 0;
    if (!sym_is(a)) return a;
    sym_space_t *space = begin_integers(ctx, &a, &zero);
    if (space == NULL) return SYM_NONE;
    const sym_node_t *node = sym_is(a) ? sym_find(space, a) : NULL;
    return end(space, node == NULL ? a : node->has_hint ? node->hint.integer : SYM_NONE);
}

void sym_range(context_t *ctx, int64_t a, int64_t *out_min, int64_t *out_max)
{
    int64_t zero = 0;
    *out_min = *out_max = a;
    if (!sym_is(a)) return;
    *out_min = SYM_LOWEST;
    *out_max = SYM_HIGHEST;
    sym_space_t *space = begin_integers(ctx, &a, &zero);
    if (space == NULL) return;
    const sym_known_t known = sym_know(space, a);
    *out_min = known.min;
    *out_max = known.max;
    (void)end(space, 0);
}

const char *sym_text(context_t *ctx, int64_t a, size_t capacity, char *out_text)
{
    sym_state_t *state = sym_is(a) ? state_of(ctx) : NULL;
    return sym_print(state != NULL ? state->space : NULL, a, capacity, out_text);
}

int64_t sym_parse(context_t *ctx, const char **cursor)
{
    sym_space_t *space = begin(ctx);
    return space != NULL ? end(space, sym_read(space, cursor)) : SYM_NONE;
}

bool sym_parse_guard(context_t *ctx, const char **cursor, const char *origin)
{
    sym_space_t *space = begin(ctx);
    if (space == NULL) return false;
    const bool is_read = sym_read_guard(space, cursor, origin);
    sym_set_origin(space, NULL);
    return end(space, is_read) == 1;
}
