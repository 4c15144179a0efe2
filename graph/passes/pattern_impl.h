/* Patterns describe operators that exporters write as several nodes. A matcher finds them in
 * graphs.
 *
 *   "mul(0.5, x, add(1, erf(div(x, 1.41421356))))"
 *
 *   pattern = number | "?" name | name | [name ":"] operator "(" pattern {"," pattern} ")"
 *
 * A number matches a constant close to it. ?name matches any number; a missing number counts as 1
 * in a product and as 0 in a sum. A name matches any value, but the same value wherever it occurs.
 * name:pattern names the value that the pattern matches. mul and div form products, add and sub
 * form sums; their operands may be in any number, order and nesting. reciprocal, neg, square, pow
 * by 2 or 3 and products of numbers are recognised, and 1 / sqrt(x) also matches rsqrt(x). Operands
 * of other operators have a fixed order; passes check the attributes of these operators.
 *
 * Values written in place never match. */
#ifndef TESSERA_GRAPH_PASSES_PATTERN_IMPL_H
#define TESSERA_GRAPH_PASSES_PATTERN_IMPL_H

#include "graph/analysis/alias_impl.h"
#include "graph/passes/pass_impl.h"

enum { PATTERN_TERMS = 32, PATTERN_NAMES = 12, PATTERN_NODES = 32, PATTERN_LENGTH = 16 };

typedef enum term_kind { TERM_NUMBER, TERM_ANY_NUMBER, TERM_VALUE, TERM_OP } term_kind_t;

typedef struct pattern_term {
    term_kind_t kind;
    double number;
    int name; /* index in pattern_t.names; -1: none */
    char op[PATTERN_LENGTH];
    int child, next; /* first operand, and the operand after this one; -1: none */
} pattern_term_t;

typedef struct pattern {
    pattern_term_t terms[PATTERN_TERMS]; /* the first is the outermost */
    int n_terms;
    char names[PATTERN_NAMES][PATTERN_LENGTH];
    int n_names;
} pattern_t;

/* The result of matching a pattern. */
typedef struct match {
    const alias_t *alias;
    const pattern_t *pattern;
    value_t values[PATTERN_NAMES]; /* VALUE_NONE: not matched yet */
    double numbers[PATTERN_NAMES];
    const graph_node_t *nodes[PATTERN_NODES]; /* each node once, including the outermost */
    int n_nodes;
} match_t;

/* Invalid or too long text is an internal error; it matches nothing. */
void pattern_parse(const char *text, pattern_t *out_pattern);

bool pattern_match(const pattern_t *pattern, const alias_t *alias, value_t value,
                   match_t *out_match);

/* The value or number that matched a name. */
value_t match_value(const match_t *match, const char *name);
double match_number(const match_t *match, const char *name);

/* The operator that produces the value that matched a name. */
const graph_node_t *match_node(const match_t *match, const char *name);

/* True if no node outside of the match reads values inside of it. If `whole` is replaced, these
 * values are then unused. */
bool match_is_closed(const match_t *match, value_t whole);

/* Adds an operator with new values as inputs. attrs: text ("end=1", or ""). path may be NULL. */
status_t pattern_add(rewrite_t *rewrite, const char *op, const char *attrs, int n_inputs,
                     const value_t *inputs, const char *path, value_t *out_value);

/* Replaces a node that has one output by a new operator. Arguments are as for pattern_add. */
status_t pattern_replace(rewrite_t *rewrite, const graph_node_t *node, const char *op,
                         const char *attrs, int n_inputs, const value_t *inputs);

/* The info of a tensor whose dtype and sizes are known; NULL for other values. */
const tensor_info_t *pattern_info(const graph_t *graph, value_t value);

/* True for tensors of known, equal dtype and shape. */
bool pattern_same(const graph_t *graph, value_t a, value_t b);

/* Reads a value that is a known number. False for other values. */
bool pattern_number(const graph_t *graph, value_t value, double *out_number);

#endif
