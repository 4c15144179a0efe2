/* Symbolic integers: sizes that are not numbers yet, and what is calculated from them.
 *
 * A symbolic integer is an int64_t that holds a handle of an expression in place of a number, so
 * that a rule written with the functions below takes both: sizes [N,3,H,W] as well as
 * [1,3,224,224]. Handles are negative and far from each other: a rule that adds to one as if it
 * were a number gives a size that shape_check refuses, or a handle that no space knows.
 *
 * A space holds the names (sizes of inputs, and sizes that depend on elements), the expressions
 * over them, and the guards. Expressions are in a normal form: equal ones are one handle, so that
 * a == b of two symbolic integers is proof that they are equal.
 *
 * Every name has a hint, its size at the first run. Where a rule has to decide (are these sizes
 * equal, does this kernel fit), ranges and earlier guards decide if they can. Else the hints
 * decide, and the decision becomes a guard of the space: H % 8 == 0, W >= 100, N != 1. What was
 * calculated holds at all sizes that satisfy the guards.
 *
 * A context has at most one space at a time, the one that was entered. Without one all functions
 * calculate with numbers.
 *
 * A failure (no memory, a decision on a name without a hint, a handle that is none) is kept in the
 * space, and sym_status gives it; until then results are SYM_NONE and decisions false. */
#ifndef TESSERA_TENSOR_SYM_H
#define TESSERA_TENSOR_SYM_H

#include "tensor/context.h"
#include "tensor/text.h"

TESSERA_BEGIN

typedef struct sym_space sym_space_t;

/* No integer: an overflow, or the result of a failure. What is calculated from it is SYM_NONE. */
#define SYM_NONE INT64_MIN

/* True of a handle, and of SYM_NONE; false of a number (above -2^62). */
static inline bool sym_is(int64_t value)
{
    return value < INT64_MIN / 2;
}

/* ---- spaces ---- */

status_t sym_space_create(context_t *ctx, sym_space_t **out_space);
void sym_space_retain(sym_space_t *space);
void sym_space_release(sym_space_t *space);

/* Makes this the context's space; gives the one before (NULL: none), to be entered again. */
sym_space_t *sym_space_enter(context_t *ctx, sym_space_t *space);

/* The first failure since the space was made or this was called last; OK: none. */
status_t sym_status(context_t *ctx);

/* What guards and failures from now on are said to come from: `conv2d "layer1.conv"`. Copied. */
void sym_origin(context_t *ctx, const char *text);

/* ---- names ---- */

#define SYM_NO_HINT INT64_MIN

/* The integer of this name: an old one (hint and range are not read then), or a new one that is
 * `hint` at the first run (SYM_NO_HINT: only the run tells) and from min to max always. */
int64_t sym_name(context_t *ctx, const char *name, int64_t hint, int64_t min, int64_t max);

/* ---- integers ---- */

int64_t sym_add(context_t *ctx, int64_t a, int64_t b);
int64_t sym_subtract(context_t *ctx, int64_t a, int64_t b);
int64_t sym_multiply(context_t *ctx, int64_t a, int64_t b);
/* Rounded down; the remainder of that, of the divisor's sign. b is not 0: where hints say so,
 * b != 0 is a guard; SYM_NONE when b is 0. */
int64_t sym_divide(context_t *ctx, int64_t a, int64_t b);
int64_t sym_modulo(context_t *ctx, int64_t a, int64_t b);
/* Rounded up; towards zero, as C and ONNX divide. */
int64_t sym_divide_up(context_t *ctx, int64_t a, int64_t b);
int64_t sym_truncate(context_t *ctx, int64_t a, int64_t b);
int64_t sym_min(context_t *ctx, int64_t a, int64_t b);
int64_t sym_max(context_t *ctx, int64_t a, int64_t b);
/* 1 or 0, calculated, not decided: a == b, a < b; and the choice by such a number (not 0: a). */
int64_t sym_is_equal(context_t *ctx, int64_t a, int64_t b);
int64_t sym_is_less(context_t *ctx, int64_t a, int64_t b);
int64_t sym_select(context_t *ctx, int64_t condition, int64_t a, int64_t b);

/* ---- floating numbers that sizes are calculated with, exactly as in f32 or f64 ---- */

typedef enum sym_real { SYM_F32, SYM_F64 } sym_real_t;
typedef enum sym_rounding {
    SYM_FLOOR,
    SYM_CEIL,
    SYM_TRUNCATE,
    SYM_HALF_EVEN,
    SYM_HALF_UP, /* floor(x + 0.5) without the rounding of that sum */
    SYM_HALF_DOWN
} sym_rounding_t;

int64_t sym_real(context_t *ctx, sym_real_t type, double number);
int64_t sym_to_real(context_t *ctx, sym_real_t type, int64_t integer_or_real);
/* '+', '-', '*' or '/' of two of the same type, rounded once. */
int64_t sym_real_calculate(context_t *ctx, char operation, int64_t a, int64_t b);
/* The integer. SYM_NONE, when it is none that an int64_t holds. Where floating numbers are exact as
 * long as an integer is small (f32(H)*2, f32(H)/3), a guard such as H <= 8388608 makes the result
 * an expression of integers. */
int64_t sym_round(context_t *ctx, sym_rounding_t rounding, int64_t real);
/* The number that a real is at the hints. */
double sym_real_hint(context_t *ctx, int64_t real);

/* ---- decisions ---- */

bool sym_equal(context_t *ctx, int64_t a, int64_t b);         /* a == b */
bool sym_less(context_t *ctx, int64_t a, int64_t b);          /* a < b */
bool sym_at_most(context_t *ctx, int64_t a, int64_t b);       /* a <= b */
bool sym_divides(context_t *ctx, int64_t divisor, int64_t a); /* a % divisor == 0; divisor >= 1 */
/* The same where that is proven, without a guard. */
bool sym_knows_equal(context_t *ctx, int64_t a, int64_t b);
bool sym_knows_less(context_t *ctx, int64_t a, int64_t b);
/* The number, and the guard that it is this one. SYM_NONE without a hint. */
int64_t sym_pin(context_t *ctx, int64_t a);

/* ---- reading ---- */

/* The number at the hints, for messages and checks: no guard. SYM_NONE where there is none. */
int64_t sym_hint(context_t *ctx, int64_t a);
/* What is known of it. */
void sym_range(context_t *ctx, int64_t a, int64_t *out_min, int64_t *out_max);
/* The expression as text, "(H+7)/8*W", cut to capacity; numbers as they are. */
const char *sym_text(context_t *ctx, int64_t a, size_t capacity, char *out_text);

/* Reads an expression, of the grammar in sym_parse.c, and moves *cursor behind it. Names that are
 * not there yet are made: without a hint, and not negative. SYM_NONE: a failure; *cursor stays. */
int64_t sym_parse(context_t *ctx, const char **cursor);
/* The same for a guard, "H % 8 == 0", which the space has from then on unless it is proven; it
 * comes from `origin`. */
bool sym_parse_guard(context_t *ctx, const char **cursor, const char *origin);

/* The size of the name-th name; false: it is not known. */
typedef bool (*sym_size_t)(void *user, int name, const char *text, int64_t *out_size);
/* The number of an expression of the space at other sizes; false where one is not known, or when it
 * overflows or divides by 0. */
bool sym_calculate(const sym_space_t *space, int64_t a, sym_size_t size_of, void *user,
                   int64_t *out_value);

/* Appends the expression as text, and the k-th guard. */
void sym_append(text_t *text, const sym_space_t *space, int64_t a);
void sym_append_guard(text_t *text, const sym_space_t *space, int k);

/* ---- names of expressions ---- */

/* True when is_name is true of a name in the expression. */
typedef bool (*sym_is_name_t)(void *user, int name, const char *text);
bool sym_any_name(const sym_space_t *space, int64_t a, sym_is_name_t is_name, void *user);

/* The expression in space `to`, where each name is what put gives for it, a number or an integer of
 * `to`; false: the name of the same text, which is not negative when it is new. put may be NULL,
 * and `to` may be `from`. INVALID_ARGUMENT when it overflows; UNSUPPORTED beyond a limit. */
typedef bool (*sym_put_t)(void *user, int name, const char *text, int64_t *out_value);
status_t sym_put(context_t *ctx, const sym_space_t *from, int64_t a, sym_space_t *to, sym_put_t put,
                 void *user, int64_t *out_value);

/* ---- guards ---- */

int sym_n_guards(const sym_space_t *space);
/* The k-th as people write it: "H % 8 == 0", "W >= 100", "H == 2*W"; cut to capacity. */
const char *sym_guard_text(const sym_space_t *space, int k, size_t capacity, char *out_text);
/* The expression of which it says that it is 0, not 0 or not negative. */
int64_t sym_guard_value(const sym_space_t *space, int k);
/* What sym_origin said last before it was made; "": nothing. Borrowed from the space. */
const char *sym_guard_origin(const sym_space_t *space, int k);
/* True when all guards hold at these sizes. Else *out_first is the first that does not hold, or
 * that cannot be calculated. Takes no lock and no memory: guards are made before they are asked. */
bool sym_guards_hold(const sym_space_t *space, sym_size_t size_of, void *user, int *out_first);

TESSERA_END

#endif
