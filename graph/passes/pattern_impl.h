/* Patterns: what exporters write as several operators, stated as text and found in a graph.
 *
 *   "mul(0.5, x, add(1, erf(div(x, 1.41421356))))"
 *
 *   pattern = number | "?" name | name | [name ":"] operator "(" pattern {"," pattern} ")"
 *
 * A number matches a constant that is near it. ?name takes any number, and 1 in a product, 0 in a
 * sum where there is none. A name takes any value, the same wherever it stands; name:pattern names
 * what the pattern matches. mul and div are a product, add and sub a sum, of any number of operands
 * in any order, however the graph brackets them: reciprocal, neg, square, pow by 2 or 3 and numbers
 * multiplied together are seen through, and 1 / sqrt(x) is also rsqrt(x). Other operators have
 * their operands in order; their attributes are for the pass to look at.
 *
 * Nothing matches that is written in place. */
#ifndef TESSERA_GRAPH_PASSES_PATTERN_IMPL_H
#define TESSERA_GRAPH_PASSES_PATTERN_IMPL_H

#include "graph/analysis/alias_impl.h"
#include "graph/passes/pass_impl.h"

enum { PATTERN_TERMS = 32, PATTERN_NAMES = 12, PATTERN_NODES = 32, PATTERN_LENGTH = 16 };

typedef enum term_kind { TERM_NUMBER, TERM_ANY_NUMBER, TERM_VALUE, TERM_OP } term_kind_t;

typedef struct pattern_term {
    term_kind_t kind;
    double number;
    int name; /* of pattern_t.names; -1: none */
    char op[PATTERN_LENGTH];
    int child, next; /* first operand, and the operand behind this one; -1: none */
} pattern_term_t;

typedef struct pattern {
    pattern_term_t terms[PATTERN_TERMS]; /* the first one is the whole */
    int n_terms;
    char names[PATTERN_NAMES][PATTERN_LENGTH];
    int n_names;
} pattern_t;

/* What a pattern was found to be. */
typedef struct match {
    const alias_t *alias;
    const pattern_t *pattern;
    value_t values[PATTERN_NAMES]; /* VALUE_NONE: not met yet */
    double numbers[PATTERN_NAMES];
    const graph_node_t
        *nodes[PATTERN_NODES]; /* each once; the one that makes the whole among them */
    int n_nodes;
} match_t;

/* A text that is no pattern, or too long, is an error of ours, and matches nothing. */
void pattern_parse(const char *text, pattern_t *out_pattern);

bool pattern_match(const pattern_t *pattern, const alias_t *alias, value_t value,
                   match_t *out_match);

/* What stands for a name of the pattern. */
value_t match_value(const match_t *match, const char *name);
double match_number(const match_t *match, const char *name);

/* The operator that makes what a name stands for. */
const graph_node_t *match_node(const match_t *match, const char *name);

/* True where nothing outside of the match reads what is inside: then all of it goes. */
bool match_is_closed(const match_t *match, value_t whole);

/* Adds an operator: its attributes as text ("end=1", or ""), and new values; path may be NULL. */
status_t pattern_add(rewrite_t *rewrite, const char *op, const char *attrs, int n_inputs,
                     const value_t *inputs, const char *path, value_t *out_value);

/* Puts one in the place of a node with one output. */
status_t pattern_replace(rewrite_t *rewrite, const graph_node_t *node, const char *op,
                         const char *attrs, int n_inputs, const value_t *inputs);

/* What is known of a value that is a tensor; NULL where nothing is. */
const tensor_info_t *pattern_info(const graph_t *graph, value_t value);

/* Known tensors of one dtype and shape. */
bool pattern_same(const graph_t *graph, value_t a, value_t b);

/* The number that a value is; false for all else. */
bool pattern_number(const graph_t *graph, value_t value, double *out_number);

#endif
