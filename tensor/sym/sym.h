/* Symbolic integers are expressions over sizes that are not known yet.
 *
 * A symbolic integer is an int64_t that is either a number, or a handle: a number below -2^62 that
 * identifies an expression. So a rule that infers sizes with these functions supports sizes
 * [N,3,H,W] as well as [1,3,224,224]. Handles are far apart, so ordinary C arithmetic on a handle,
 * which is a mistake, results in a negative size that shape_check rejects, or in a handle that does
 * not exist.
 *
 * A space holds names (of sizes of inputs, and of sizes that depend on elements of tensors),
 * expressions over names, and guards (conditions, see below). Expressions are stored in a normal
 * form: symbolic integers that are == in C are equal for all values of the names.
 *
 * A name's hint is an example of its value: the size at the first run. A decision (are these sizes
 * equal, does this kernel fit) is proven from ranges and earlier guards if possible. Otherwise it
 * is made for the hints, and its condition becomes a guard of the space: H % 8 == 0, W >= 100, N !=
 * 1. Results are correct for all sizes that satisfy the guards.
 *
 * A context has at most one current space, set by sym_space_enter. Without a space all functions
 * compute with numbers.
 *
 * The space stores the first failure (no memory, a decision on a name without a hint, an invalid
 * handle) until sym_status returns it. Until then, all results are SYM_NONE and all decisions
 * false.
 *
 * The folder tensor/sym contains these expressions, one source for each part (sums, quotients,
 * ranges, guards, parsing, printing), and the arithmetic on sizes that inference uses. */
#ifndef TESSERA_TENSOR_SYM_SYM_H
#define TESSERA_TENSOR_SYM_SYM_H

#include "tensor/context.h"
#include "tensor/text/text.h"

typedef struct sym_space sym_space_t;

/* "No integer": the result of an overflow, of a failure, and of arithmetic on SYM_NONE. */
#define SYM_NONE INT64_MIN

/* True for handles and SYM_NONE, false for numbers (above -2^62). */
static inline bool sym_is(int64_t value)
{
    return value < INT64_MIN / 2;
}

/* ---- spaces ---- */

status_t sym_space_create(context_t *ctx, sym_space_t **out_space);
void sym_space_retain(sym_space_t *space);
void sym_space_release(sym_space_t *space);

/* Makes this the context's current space. Returns the previous one (NULL: none), to restore it. */
sym_space_t *sym_space_enter(context_t *ctx, sym_space_t *space);

/* Returns and clears the first failure since the previous call; OK if there was none. */
status_t sym_status(context_t *ctx);

/* Sets the origin of later guards and failures: a text such as `conv2d "layer1.conv"` that tells
 * users where they come from. The text is copied. */
void sym_origin(context_t *ctx, const char *text);

/* ---- names ---- */

#define SYM_NO_HINT INT64_MIN

/* Returns the symbolic integer with this name. Makes the name if it is new, with a hint
 * (SYM_NO_HINT: known only at run time) and a range min to max. For an existing name, these are
 * ignored. */
int64_t sym_name(context_t *ctx, const char *name, int64_t hint, int64_t min, int64_t max);

/* ---- integers ---- */

int64_t sym_add(context_t *ctx, int64_t a, int64_t b);
int64_t sym_subtract(context_t *ctx, int64_t a, int64_t b);
int64_t sym_multiply(context_t *ctx, int64_t a, int64_t b);
/* sym_divide rounds down; the remainder of sym_modulo has the divisor's sign. Both add the guard b
 * != 0 unless that is proven, and return SYM_NONE if b is 0. */
int64_t sym_divide(context_t *ctx, int64_t a, int64_t b);
int64_t sym_modulo(context_t *ctx, int64_t a, int64_t b);
/* Quotients rounded up, and rounded towards zero as in C and ONNX. */
int64_t sym_divide_up(context_t *ctx, int64_t a, int64_t b);
int64_t sym_truncate(context_t *ctx, int64_t a, int64_t b);
int64_t sym_min(context_t *ctx, int64_t a, int64_t b);
int64_t sym_max(context_t *ctx, int64_t a, int64_t b);
/* The conditions a == b and a < b as integers 1 or 0, without a guard. sym_select is condition != 0
 * ? a : b. */
int64_t sym_is_equal(context_t *ctx, int64_t a, int64_t b);
int64_t sym_is_less(context_t *ctx, int64_t a, int64_t b);
int64_t sym_select(context_t *ctx, int64_t condition, int64_t a, int64_t b);

/* ---- floating numbers in size calculations, with exact f32 or f64 rounding ---- */

typedef enum sym_real { SYM_F32, SYM_F64 } sym_real_t;
typedef enum sym_rounding {
    SYM_FLOOR,
    SYM_CEIL,
    SYM_TRUNCATE,
    SYM_HALF_EVEN,
    SYM_HALF_UP, /* floor(x + 0.5), but without rounding the sum */
    SYM_HALF_DOWN
} sym_rounding_t;

int64_t sym_real(context_t *ctx, sym_real_t type, double number);
int64_t sym_to_real(context_t *ctx, sym_real_t type, int64_t integer_or_real);
/* Applies '+', '-', '*' or '/' to two floating-point numbers of the same type, and rounds the
 * result once. */
int64_t sym_real_calculate(context_t *ctx, char operation, int64_t a, int64_t b);
/* Rounds to an integer; SYM_NONE if an int64_t cannot hold it. Example: the rounded f32(H)/3 is the
 * same as an integer division if H is small enough, so it becomes an integer expression with the
 * guard H <= 8388608. */
int64_t sym_round(context_t *ctx, sym_rounding_t rounding, int64_t real);
/* Value of a floating-point number if all names have the values of their hints. */
double sym_real_hint(context_t *ctx, int64_t real);

/* ---- decisions ---- */

bool sym_equal(context_t *ctx, int64_t a, int64_t b);         /* a == b */
bool sym_less(context_t *ctx, int64_t a, int64_t b);          /* a < b */
bool sym_at_most(context_t *ctx, int64_t a, int64_t b);       /* a <= b */
bool sym_divides(context_t *ctx, int64_t divisor, int64_t a); /* a % divisor == 0; divisor >= 1 */
/* True only if the relation is proven; never add a guard. */
bool sym_knows_equal(context_t *ctx, int64_t a, int64_t b);
bool sym_knows_less(context_t *ctx, int64_t a, int64_t b);
/* Returns the value of `a` for the hints, and adds a guard that `a` has this value. SYM_NONE if a
 * name has no hint. */
int64_t sym_pin(context_t *ctx, int64_t a);

/* ---- reading ---- */

/* Value of `a` for the hints, for messages and checks; adds no guard. SYM_NONE if a name has no
 * hint. */
int64_t sym_hint(context_t *ctx, int64_t a);
/* Known bounds of an expression. */
void sym_range(context_t *ctx, int64_t a, int64_t *out_min, int64_t *out_max);
/* Writes the expression as text, "(H+7)/8*W", or the number, cut to capacity. */
const char *sym_text(context_t *ctx, int64_t a, size_t capacity, char *out_text);

/* Parses an expression (grammar in parse.c) and advances *cursor past it. Names that are new in
 * the space have no hint, and are not negative. On failure returns SYM_NONE and leaves *cursor
 * unchanged. */
int64_t sym_parse(context_t *ctx, const char **cursor);
/* Parses a guard such as "H % 8 == 0", and adds it to the space unless it is proven. `origin` is
 * the guard's origin (see sym_origin). */
bool sym_parse_guard(context_t *ctx, const char **cursor, const char *origin);

/* A callback that sets the value of a name; false if it is unknown. */
typedef bool (*sym_size_t)(void *user, int name, const char *text, int64_t *out_size);
/* Evaluates an expression for the values that size_of sets. False if a value is unknown, on
 * overflow, and on division by 0. */
bool sym_calculate(const sym_space_t *space, int64_t a, sym_size_t size_of, void *user,
                   int64_t *out_value);

/* Append an expression, or guard k, as text. */
void sym_append(text_t *text, const sym_space_t *space, int64_t a);
void sym_append_guard(text_t *text, const sym_space_t *space, int k);

/* ---- names in expressions, and substitution ---- */

/* True if is_name returns true for a name in the expression. */
typedef bool (*sym_is_name_t)(void *user, int name, const char *text);
bool sym_any_name(const sym_space_t *space, int64_t a, sym_is_name_t is_name, void *user);

/* Copies an expression from one space to another, or within one, and substitutes names: `put` sets
 * the number or symbolic integer of `to` that replaces a name. If put is NULL or returns false, the
 * name stays; if `to` does not have it, it is created there as not negative. Fails with
 * INVALID_ARGUMENT on overflow, and with UNSUPPORTED if the expression is too large. */
typedef bool (*sym_put_t)(void *user, int name, const char *text, int64_t *out_value);
status_t sym_put(context_t *ctx, const sym_space_t *from, int64_t a, sym_space_t *to, sym_put_t put,
                 void *user, int64_t *out_value);

/* ---- guards ---- */

int sym_n_guards(const sym_space_t *space);
/* Guard k as text: "H % 8 == 0", "W >= 100", "H == 2*W"; cut to capacity. */
const char *sym_guard_text(const sym_space_t *space, int k, size_t capacity, char *out_text);
/* The expression that guard k requires to be 0, not 0, or not negative. */
int64_t sym_guard_value(const sym_space_t *space, int k);
/* The origin (sym_origin) at the time the guard was made; "" if none. Borrowed from the space. */
const char *sym_guard_origin(const sym_space_t *space, int k);
/* True if guard k can be computed for these sizes, and does not hold. */
bool sym_guard_fails(const sym_space_t *space, int k, sym_size_t size_of, void *user);
/* True if all guards hold at these sizes. Otherwise *out_first is the first guard that fails or
 * cannot be computed. The first call after a new guard compiles the guards under a lock; later
 * calls take no lock and allocate nothing. */
bool sym_guards_hold(const sym_space_t *space, sym_size_t size_of, void *user, int *out_first);

#endif
