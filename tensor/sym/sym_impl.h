/* Internals of a space of symbolic integers: nodes, polynomials, facts about each node.
 *
 * A node is one expression; equal expressions share a node, and nodes never move in memory. A
 * node's definition (kind, operands, hint) is complete before other threads can see its handle, and
 * never changes, so sym_calculate reads it without a lock. Facts about it (range, divisibility, its
 * simplest form given the guards) change under the space's lock. Atoms are integer nodes other than
 * sums and products. The value of a node "at the hints" is its value if all names have the values
 * of their hints (sym.h).
 *
 * Hold the space's lock when you call the functions below, except sym_find and sym_evaluate. */
#ifndef TESSERA_TENSOR_SYM_SYM_IMPL_H
#define TESSERA_TENSOR_SYM_SYM_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "tensor/context_impl.h"
#include "tensor/sym/sym.h"

/* Holds products of two integers, and sums of such products. */
__extension__ typedef __int128 sym_wide_t;

/* Limits. A result beyond a limit is SYM_NONE, with a failure that names the limit. */
#define SYM_MAX_NODES (1 << 17) /* in a space */
#define SYM_MAX_TERMS 32        /* per sum; also operands of a minimum or maximum */
#define SYM_MAX_FACTORS 12      /* in a product */
#define SYM_MAX_WEIGHT 4096     /* size of an expression's tree, which limits its text */
#define SYM_MAX_DEPTH 64

/* Infinite ends of ranges. */
#define SYM_LOWEST (-INT64_MAX)
#define SYM_HIGHEST INT64_MAX

/* Kinds of nodes, in the order in which the factors of a product are sorted. */
typedef enum sym_kind {
    SYM_QUOTIENT, /* {numerator, divisor}: rounded down */
    SYM_MINIMUM,  /* two or more operands, sorted */
    SYM_MAXIMUM,
    SYM_EQUALS, /* {a, b}: 1 if a == b, else 0 */
    SYM_LESS,
    SYM_CHOICE,  /* {condition, a, b}: a if condition is not 0, else b */
    SYM_ROUNDED, /* {real}; part: sym_rounding_t */
    SYM_NAME,
    SYM_PRODUCT,        /* two or more atoms, sorted */
    SYM_SUM,            /* {constant, denominator, factor, product, ...} */
    SYM_REAL,           /* a number; part: sym_real_t, as for all reals */
    SYM_TO_REAL,        /* {integer or real} */
    SYM_ARITHMETIC_ADD, /* {real, real} */
    SYM_ARITHMETIC_SUBTRACT,
    SYM_ARITHMETIC_MULTIPLY,
    SYM_ARITHMETIC_DIVIDE
} sym_kind_t;

/* Value of a node at given sizes. */
typedef struct sym_value {
    int64_t integer;
    double real;
} sym_value_t;

/* Facts about an integer x: min <= x <= max, and x % modulus == remainder; if modulus is 0, x ==
 * remainder. */
typedef struct sym_known {
    int64_t min, max;
    int64_t modulus, remainder;
} sym_known_t;

typedef struct sym_node {
    int64_t handle;
    uint64_t hash;
    uint8_t kind, part, depth;
    bool has_hint;
    int16_t name; /* index of the name; -1: not a name */
    uint16_t weight;
    int n;
    const int64_t *operands;
    const char *text; /* names only */
    sym_value_t hint; /* real: also the number of a SYM_REAL */
    /* ---- protected by the lock ---- */
    bool is_busy, has_exclusions;
    unsigned simplest_stamp, known_stamp;
    int64_t simplest;    /* simplest form, valid if simplest_stamp is current */
    int64_t replacement; /* an integer that a guard says is equal; 0: none */
    sym_known_t known;   /* derived facts, valid if known_stamp is current */
    sym_known_t fact;    /* facts from guards and from sym_name */
    double real_min, real_max;
} sym_node_t;

typedef enum sym_relation { SYM_ZERO, SYM_NOT_ZERO, SYM_NOT_NEGATIVE } sym_relation_t;

/* A guard: a relation that an expression satisfies. */
typedef struct sym_guard {
    sym_relation_t relation;
    int64_t value;
    const char *origin;
} sym_guard_t;

typedef struct sym_exclusion {
    int64_t form, value; /* a fact: form != value */
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
    _Atomic(sym_node_t *) nodes[SYM_N_CHUNKS]; /* chunk k has SYM_FIRST_CHUNK << k nodes */
    uint32_t *table;                           /* hash table of 1 + node number; 0: free */
    size_t n_slots;
    sym_chunk_t *chunks;
    sym_node_t **names;
    int n_names, name_capacity;
    sym_guard_t *guards;
    atomic_int n_guards;
    int guard_capacity;
    sym_exclusion_t *exclusions;
    int n_exclusions, exclusion_capacity;
    int n_sum_facts; /* number of sums about which a guard states a fact */
    unsigned stamp;  /* incremented by each guard that adds information */
    char origin[CONTEXT_ERROR_MAX / 8];
    status_t status; /* first failure */
    char message[CONTEXT_ERROR_MAX / 2];
    _Atomic(sym_program_t *) program; /* program that checks the guards so far; see program.c */
};

/* ---- sym.c ---- */
/* Makes the context's state, which holds the current space. */
status_t sym_state_make(context_t *ctx);
void sym_set_origin(sym_space_t *space, const char *text);

/* ---- space.c ---- */
/* A handle is INT64_MIN + 2^61 + number << SYM_NUMBER_AT + check. So the sum of two handles is a
 * number above 2^61, and a handle plus a small number is not a handle. */
#define SYM_HANDLE_BASE (INT64_MIN + (INT64_C(1) << 61))
#define SYM_NUMBER_AT 40

/* Number of a handle's node in its space. */
static inline uint64_t sym_number(int64_t handle)
{
    return ((uint64_t)handle - (uint64_t)SYM_HANDLE_BASE) >> SYM_NUMBER_AT;
}

/* The node of a handle; NULL if the handle does not belong to this space. */
sym_node_t *sym_find(const sym_space_t *space, int64_t handle);
/* Stores a failure if the space has none yet; returns SYM_NONE. */
int64_t sym_fail(sym_space_t *space, status_t status, const char *format, ...) TESSERA_PRINTF(3, 4);
int64_t sym_limit(sym_space_t *space, const char *what, int limit);
/* Allocates memory that exists as long as the space. On failure stores the failure in the space and
 * returns NULL. */
void *sym_get(sym_space_t *space, size_t bytes);
bool sym_grow(sym_space_t *space, void *items, int *capacity, int needed, size_t item_bytes);
/* The node with this kind and these operands, existing or new; NULL on failure. */
sym_node_t *sym_intern(sym_space_t *space, sym_kind_t kind, int part, int n,
                       const int64_t *operands);
/* The node with this kind and these operands if it exists, else NULL. */
sym_node_t *sym_look_up(sym_space_t *space, sym_kind_t kind, int part, int n,
                        const int64_t *operands);
sym_node_t *sym_find_name(sym_space_t *space, const char *text);
sym_node_t *sym_new_name(sym_space_t *space, const char *text, int64_t hint, int64_t min,
                         int64_t max);
/* Compares two operands for sorting: by kind, then by operands or text. 0 only if they are
 * equal. */
int sym_compare(const sym_space_t *space, int64_t a, int64_t b);
/* True if the atom occurs in the expression. */
bool sym_contains(const sym_space_t *space, int64_t a, int64_t atom);

/* ---- poly.c: sums with integer factors over one denominator ---- */
typedef struct sym_term {
    int64_t factor, product; /* product: a product of atoms, or one atom */
} sym_term_t;

/* A polynomial (terms + constant) / denominator. The denominator is positive and divides the sum
 * for all values of the names. Terms are sorted; no factor is 0. */
typedef struct sym_poly {
    int n;
    int64_t constant, denominator;
    sym_term_t terms[SYM_MAX_TERMS];
} sym_poly_t;

/* True for numbers and for handles of integers, which sym_load can read. */
bool sym_is_integer(const sym_space_t *space, int64_t a);
/* Arithmetic on polynomials. False on overflow or if a limit is exceeded. */
bool sym_load(sym_space_t *space, int64_t a, sym_poly_t *out);
bool sym_poly_add(sym_space_t *space, sym_poly_t *a, int64_t factor, const sym_poly_t *b);
bool sym_poly_scale(sym_poly_t *a, int64_t factor, int64_t divisor);
bool sym_poly_multiply(sym_space_t *space, const sym_poly_t *a, const sym_poly_t *b,
                       sym_poly_t *out);
/* Makes a symbolic integer from a polynomial. Returns its handle or number; SYM_NONE on failure. */
int64_t sym_store(sym_space_t *space, sym_poly_t *poly);
/* Quotient of two products, for example A*B*C / B = A*C; 1 if they are equal; 0 if a does not
 * contain all atoms of b. */
int64_t sym_product_divide(sym_space_t *space, int64_t a, int64_t b);
int64_t sym_product_multiply(sym_space_t *space, int64_t a, int64_t b);
/* Lists the atoms of a product (or the atom itself); returns their number. */
int sym_atoms(const sym_space_t *space, const int64_t *product, const int64_t **out_atoms);
/* Splits a polynomial with denominator 1 into factor * form + constant, and returns the form: a sum
 * without constant, whose coefficients have no common divisor and whose first coefficient is
 * positive. If `makes` is false, creates no node: returns SYM_NONE if the form has none yet. */
int64_t sym_form(sym_space_t *space, const sym_poly_t *poly, bool makes, int64_t *out_factor);

/* ---- quotient.c ---- */
/* a / b rounded down; b is not 0. */
int64_t sym_quotient(sym_space_t *space, int64_t a, int64_t b);

/* ---- choice.c: minimum, maximum, comparisons, choices ---- */
int64_t sym_extreme(sym_space_t *space, sym_kind_t kind, int n, const int64_t *operands);
int64_t sym_compared(sym_space_t *space, sym_kind_t kind, int64_t a, int64_t b);
int64_t sym_choice(sym_space_t *space, int64_t condition, int64_t a, int64_t b);

/* ---- real.c ---- */
int64_t sym_real_number(sym_space_t *space, sym_real_t type, double number);
int64_t sym_made_real(sym_space_t *space, sym_real_t type, int64_t a);
int64_t sym_arithmetic(sym_space_t *space, sym_kind_t kind, int64_t a, int64_t b);
/* If `guards` is true, may add guards that bound names if this makes the result an integer
 * expression. */
int64_t sym_rounded(sym_space_t *space, sym_rounding_t rounding, int64_t real, bool guards);
double sym_real_calculated(sym_kind_t kind, sym_real_t type, double a, double b);
bool sym_real_rounded(sym_rounding_t rounding, double real, int64_t *out_value);
void sym_real_range(sym_space_t *space, sym_node_t *node);

/* ---- range.c ---- */
sym_known_t sym_know(sym_space_t *space, int64_t a);
sym_known_t sym_poly_know(sym_space_t *space, const sym_poly_t *poly);
/* Intersects `known` with `other`. */
void sym_known_meet(sym_known_t *known, const sym_known_t *other);
int64_t sym_saturate(sym_wide_t value);

/* The greatest common divisor of two magnitudes; gcd(0, a) is |a|. */
int64_t sym_gcd(int64_t a, int64_t b);

/* ---- guard.c ---- */
/* Makes a node's expression in `space`, with operands that `map` has replaced. Not for names. */
typedef int64_t (*sym_map_t)(void *user, int64_t operand);
int64_t sym_rebuild(sym_space_t *space, const sym_node_t *node, sym_map_t map, void *user);
/* Simplifies an expression with all guards so far. */
int64_t sym_simplest(sym_space_t *space, int64_t a);
/* Like sym_simplest, for an atom whose operands are already in simplest form; returns SYM_NONE for
 * NULL. */
int64_t sym_atom(sym_space_t *space, const sym_node_t *node);
/* 1: the relation is proven; 0: its negation is proven; -1: neither. */
int sym_proves(sym_space_t *space, sym_relation_t relation, int64_t a);
/* Returns whether the relation holds. If this can be neither proven nor disproven, returns whether
 * it holds for the hints, and adds a guard that says so. */
bool sym_decide(sym_space_t *space, sym_relation_t relation, int64_t a);
/* The product of a and b. If neither factor can be negative, records that the product cannot be
 * negative. */
int64_t sym_multiplied(sym_space_t *space, int64_t a, int64_t b);
/* Records a >= 0, a fact that follows from others. */
void sym_learn(sym_space_t *space, int64_t a);
/* Adds a guard that holds at the hints. */
bool sym_assume(sym_space_t *space, sym_relation_t relation, int64_t a);
/* True if the relation holds for a number. */
bool sym_holds(sym_relation_t relation, int64_t value);
int64_t sym_sum(sym_space_t *space, int64_t a, int64_t factor, int64_t b);
int64_t sym_product(sym_space_t *space, int64_t a, int64_t b);

/* ---- text.c ---- */
const char *sym_print(const sym_space_t *space, int64_t a, size_t capacity, char *out_text);

/* ---- parse.c: reads at *cursor and advances it ---- */
int64_t sym_read(sym_space_t *space, const char **cursor);
bool sym_read_guard(sym_space_t *space, const char **cursor, const char *origin);

/* ---- calculate.c ---- */
/* Returns the value of an operand; false if there is none. */
typedef bool (*sym_get_t)(void *user, int64_t operand, sym_value_t *out_value);
/* Computes the value of a node from the values of its operands. */
bool sym_evaluate(const sym_node_t *node, sym_get_t get, void *user, sym_value_t *out_value);

static inline bool sym_is_number(sym_wide_t value)
{
    return value >= INT64_MIN / 2 && value <= INT64_MAX;
}

/* True for numbers above 2^62, the limit of symbolic integers. Example: the end of an open
 * slice. */
static inline bool sym_is_huge(int64_t a)
{
    return a > INT64_MAX / 2;
}

static inline int64_t sym_floor(int64_t a, int64_t b)
{
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

#endif
