/* The inside of a space of symbolic integers: nodes, polynomials, what is known of each node.
 *
 * A node is one expression, made once and never moved. What it is (kind, operands, hint) is final
 * when its handle is known, so that sym_calculate reads it without a lock. What is known of it
 * (range, divisibility, its simplest form under the guards so far) changes under the space's lock.
 *
 * Everything below is called with the lock held, but for sym_find and sym_evaluate. */
#ifndef TESSERA_TENSOR_SYM_IMPL_H
#define TESSERA_TENSOR_SYM_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "tensor/context_impl.h"
#include "tensor/sym.h"

/* Products of two integers, and sums of these. */
__extension__ typedef __int128 sym_wide_t;

/* Limits. Beyond one the result is SYM_NONE, and the failure names the limit. */
#define SYM_MAX_NODES (1 << 17) /* of a space */
#define SYM_MAX_TERMS 32        /* of a sum; operands of a minimum or maximum */
#define SYM_MAX_FACTORS 12      /* of a product */
#define SYM_MAX_WEIGHT 4096     /* operands of operands: what the text of an expression has */
#define SYM_MAX_DEPTH 64

/* Infinite ends of ranges. */
#define SYM_LOWEST (-INT64_MAX)
#define SYM_HIGHEST INT64_MAX

/* In the order in which they stand in a product. */
typedef enum sym_kind {
    SYM_QUOTIENT, /* {numerator, divisor}: rounded down */
    SYM_MINIMUM,  /* two operands or more, in order */
    SYM_MAXIMUM,
    SYM_EQUALS, /* {a, b}: 1 or 0 */
    SYM_LESS,
    SYM_CHOICE,  /* {condition, a, b} */
    SYM_ROUNDED, /* {real}; part: sym_rounding_t */
    SYM_NAME,
    SYM_PRODUCT,        /* two atoms or more, in order */
    SYM_SUM,            /* {constant, denominator, factor, product, factor, product, ...} */
    SYM_REAL,           /* a number; part: sym_real_t, as for all reals */
    SYM_TO_REAL,        /* {integer or real} */
    SYM_ARITHMETIC_ADD, /* {real, real} */
    SYM_ARITHMETIC_SUBTRACT,
    SYM_ARITHMETIC_MULTIPLY,
    SYM_ARITHMETIC_DIVIDE
} sym_kind_t;

/* What a node is at some sizes. */
typedef struct sym_value {
    int64_t integer;
    double real;
} sym_value_t;

/* A set of integers: min <= x <= max, x % modulus == remainder. Modulus 0: x is the remainder. */
typedef struct sym_known {
    int64_t min, max;
    int64_t modulus, remainder;
} sym_known_t;

typedef struct sym_node {
    int64_t handle;
    uint64_t hash;
    uint8_t kind, part, depth;
    bool has_hint;
    int16_t name; /* its number; -1 */
    uint16_t weight;
    int n;
    const int64_t *operands;
    const char *text; /* of a name */
    sym_value_t hint; /* real: the number of a SYM_REAL as well */
    /* ---- under the lock ---- */
    bool is_busy, has_exclusions;
    unsigned simplest_stamp, known_stamp;
    int64_t simplest;    /* under the guards when the space had this stamp */
    int64_t replacement; /* what a guard says it equals; 0: nothing */
    sym_known_t known;   /* derived, at known_stamp */
    sym_known_t fact;    /* what guards, and who made the name, say */
    double real_min, real_max;
} sym_node_t;

typedef enum sym_relation { SYM_ZERO, SYM_NOT_ZERO, SYM_NOT_NEGATIVE } sym_relation_t;

/* What a guard says of an expression. */
typedef struct sym_guard {
    sym_relation_t relation;
    int64_t value;
    const char *origin;
} sym_guard_t;

typedef struct sym_exclusion {
    int64_t form, value; /* form != value */
} sym_exclusion_t;

#define SYM_FIRST_CHUNK 64
#define SYM_N_CHUNKS 12

typedef struct sym_chunk {
    struct sym_chunk *next;
    size_t used, bytes;
} sym_chunk_t;

typedef struct sym_program sym_program_t;

struct sym_space {
    atomic_int n_references;
    allocator_t allocator;
    pthread_mutex_t lock;
    uint64_t salt;
    atomic_int n_nodes;
    _Atomic(sym_node_t *) nodes[SYM_N_CHUNKS]; /* chunk k has SYM_FIRST_CHUNK << k */
    uint32_t *table;                           /* 1 + number of a node, by hash; 0: free */
    size_t n_slots;
    sym_chunk_t *chunks;
    sym_node_t **names;
    int n_names, name_capacity;
    sym_guard_t *guards;
    atomic_int n_guards;
    int guard_capacity;
    sym_exclusion_t *exclusions;
    int n_exclusions, exclusion_capacity;
    int n_sum_facts; /* sums of which guards say something */
    unsigned stamp;  /* raised by every guard that says something new */
    char origin[CONTEXT_ERROR_MAX / 8];
    status_t status; /* the first failure */
    char message[CONTEXT_ERROR_MAX / 2];
    _Atomic(sym_program_t *) program; /* of the guards so far; see sym_program.c */
};

/* ---- sym.c ---- */

/* What the context keeps: which space was entered. */
status_t sym_state_make(context_t *ctx);
void sym_set_origin(sym_space_t *space, const char *text);

/* ---- sym_space.c ---- */

/* A handle is INT64_MIN + 2^61 + number << SYM_NUMBER_AT + check. So the sum of two handles is a
 * number above 2^61, and a handle plus a small number is no handle. */
#define SYM_HANDLE_BASE (INT64_MIN + (INT64_C(1) << 61))
#define SYM_NUMBER_AT 40

/* Which node of its space a handle is. */
static inline uint64_t sym_number(int64_t handle)
{
    return ((uint64_t)handle - (uint64_t)SYM_HANDLE_BASE) >> SYM_NUMBER_AT;
}

/* The node of a handle of this space; NULL: none of its handles. */
sym_node_t *sym_find(const sym_space_t *space, int64_t handle);
/* Keeps the first failure; gives SYM_NONE. */
int64_t sym_fail(sym_space_t *space, status_t status, const char *format, ...) TESSERA_PRINTF(3, 4);
int64_t sym_limit(sym_space_t *space, const char *what, int limit);
/* Memory that lives as long as the space; NULL is a failure of the space. */
void *sym_get(sym_space_t *space, size_t bytes);
bool sym_grow(sym_space_t *space, void *items, int *capacity, int needed, size_t item_bytes);
/* The node of this kind and these operands, an old one or a new one; NULL is a failure. */
sym_node_t *sym_intern(sym_space_t *space, sym_kind_t kind, int part, int n,
                       const int64_t *operands);
/* The same that is there already, or NULL. */
sym_node_t *sym_look_up(sym_space_t *space, sym_kind_t kind, int part, int n,
                        const int64_t *operands);
sym_node_t *sym_find_name(sym_space_t *space, const char *text);
sym_node_t *sym_new_name(sym_space_t *space, const char *text, int64_t hint, int64_t min,
                         int64_t max);
/* The order of operands: by kind, then by operands or text; 0 only for equal ones. */
int sym_compare(const sym_space_t *space, int64_t a, int64_t b);
/* True when `name` stands in the expression. */
bool sym_contains(const sym_space_t *space, int64_t a, int64_t atom);

/* ---- sym_poly.c: sums with integer factors over one denominator ---- */

typedef struct sym_term {
    int64_t factor, product; /* of atoms, or one atom */
} sym_term_t;

/* (terms + constant) / denominator, which is above 0 and divides it at all sizes. Terms are in
 * order, without factors 0. */
typedef struct sym_poly {
    int n;
    int64_t constant, denominator;
    sym_term_t terms[SYM_MAX_TERMS];
} sym_poly_t;

/* True of what is a sum of products: the number, and handles of integers. */
bool sym_is_integer(const sym_space_t *space, int64_t a);
/* All of them: false when it overflows, or a limit is exceeded. */
bool sym_load(sym_space_t *space, int64_t a, sym_poly_t *out);
bool sym_poly_add(sym_space_t *space, sym_poly_t *a, int64_t factor, const sym_poly_t *b);
bool sym_poly_scale(sym_poly_t *a, int64_t factor, int64_t divisor);
bool sym_poly_multiply(sym_space_t *space, const sym_poly_t *a, const sym_poly_t *b,
                       sym_poly_t *out);
/* The handle or number; SYM_NONE. */
int64_t sym_store(sym_space_t *space, sym_poly_t *poly);
/* The quotient of two products, 1 for equal ones; 0: b does not divide a. */
int64_t sym_product_divide(sym_space_t *space, int64_t a, int64_t b);
int64_t sym_product_multiply(sym_space_t *space, int64_t a, int64_t b);
/* Atoms of a product or atom. */
int sym_atoms(const sym_space_t *space, const int64_t *product, const int64_t **out_atoms);
/* Splits poly (denominator 1) in factor * form + constant, where the form is the simplest sum of
 * this kind: no constant, factors without a common divisor, the first above 0. With `makes` false
 * the form is SYM_NONE where it is no node yet. */
int64_t sym_form(sym_space_t *space, const sym_poly_t *poly, bool makes, int64_t *out_factor);

/* ---- sym_quotient.c ---- */

/* a / b rounded down, where b is not 0. */
int64_t sym_quotient(sym_space_t *space, int64_t a, int64_t b);

/* ---- sym_choice.c: minimum, maximum, comparisons, choices ---- */

int64_t sym_extreme(sym_space_t *space, sym_kind_t kind, int n, const int64_t *operands);
int64_t sym_compared(sym_space_t *space, sym_kind_t kind, int64_t a, int64_t b);
int64_t sym_choice(sym_space_t *space, int64_t condition, int64_t a, int64_t b);

/* ---- sym_real.c ---- */

int64_t sym_real_number(sym_space_t *space, sym_real_t type, double number);
int64_t sym_made_real(sym_space_t *space, sym_real_t type, int64_t a);
int64_t sym_arithmetic(sym_space_t *space, sym_kind_t kind, int64_t a, int64_t b);
/* guards: names may be bounded by guards that make the result an integer expression. */
int64_t sym_rounded(sym_space_t *space, sym_rounding_t rounding, int64_t real, bool guards);
double sym_real_calculated(sym_kind_t kind, sym_real_t type, double a, double b);
bool sym_real_rounded(sym_rounding_t rounding, double real, int64_t *out_value);
void sym_real_range(sym_space_t *space, sym_node_t *node);

/* ---- sym_range.c ---- */

sym_known_t sym_know(sym_space_t *space, int64_t a);
sym_known_t sym_poly_know(sym_space_t *space, const sym_poly_t *poly);
/* known becomes what both say. */
void sym_known_meet(sym_known_t *known, const sym_known_t *other);
int64_t sym_saturate(sym_wide_t value);

/* ---- sym_guard.c ---- */

/* The node made again in a space, from what map gives for each operand; no name. */
typedef int64_t (*sym_map_t)(void *user, int64_t operand);
int64_t sym_rebuild(sym_space_t *space, const sym_node_t *node, sym_map_t map, void *user);
/* The expression as it is made today: under all guards so far. */
int64_t sym_simplest(sym_space_t *space, int64_t a);
/* The same for an atom of which the operands are in this form; NULL gives SYM_NONE. */
int64_t sym_atom(sym_space_t *space, const sym_node_t *node);
/* 1: the relation is proven, 0: its contrary is, -1: neither. */
int sym_proves(sym_space_t *space, sym_relation_t relation, int64_t a);
/* Decides by proof, or by the hint and a guard. */
bool sym_decide(sym_space_t *space, sym_relation_t relation, int64_t a);
/* The product; that it is not negative is known of it where it is known of both. */
int64_t sym_multiplied(sym_space_t *space, int64_t a, int64_t b);
/* a >= 0 is known from now on, as what follows from what is known. */
void sym_learn(sym_space_t *space, int64_t a);
/* Adds the guard, which the hint satisfies. */
bool sym_assume(sym_space_t *space, sym_relation_t relation, int64_t a);
/* The relation of a number. */
bool sym_holds(sym_relation_t relation, int64_t value);
int64_t sym_sum(sym_space_t *space, int64_t a, int64_t factor, int64_t b);
int64_t sym_product(sym_space_t *space, int64_t a, int64_t b);

/* ---- sym_text.c ---- */

const char *sym_print(const sym_space_t *space, int64_t a, size_t capacity, char *out_text);

/* ---- sym_parse.c: from *cursor, which moves behind what is read ---- */

int64_t sym_read(sym_space_t *space, const char **cursor);
bool sym_read_guard(sym_space_t *space, const char **cursor, const char *origin);

/* ---- sym_calculate.c ---- */

/* The value of an operand; false: there is none. */
typedef bool (*sym_get_t)(void *user, int64_t operand, sym_value_t *out_value);
/* The value of a node, from those of its operands. */
bool sym_evaluate(const sym_node_t *node, sym_get_t get, void *user, sym_value_t *out_value);

static inline bool sym_is_number(sym_wide_t value)
{
    return value >= INT64_MIN / 2 && value <= INT64_MAX;
}

/* A number above all symbolic integers, which are at most 2^62: the end of a slice that has none.
 */
static inline bool sym_is_huge(int64_t a)
{
    return a > INT64_MAX / 2;
}

static inline int64_t sym_floor(int64_t a, int64_t b)
{
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

#endif
