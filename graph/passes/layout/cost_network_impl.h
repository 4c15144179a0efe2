/* Cost function networks: the optimisation problem of the layout pass, independent of graphs.
 *
 * Each variable takes one of its values, at a cost. A variable can produce data (as maker) or need
 * data (as reader). The form of the data, for example its memory format, depends on the variable's
 * value. A maker and its readers are a fan. Each form that readers need and that the maker does not
 * produce costs one conversion:
 *
 *   cost = sum(variables v) own[v][value of v]
 *        + sum(fans) sum(forms f that a reader needs) costs[form made][f]
 *
 * With one reader, a fan is an edge of a partitioned boolean quadratic problem. The solver is exact
 * if the variables can be eliminated one by one without an oversized table, as in trees, chains and
 * residual networks. Otherwise it returns a choice and a lower bound. */
#ifndef TESSERA_GRAPH_PASSES_LAYOUT_COST_NETWORK_IMPL_H
#define TESSERA_GRAPH_PASSES_LAYOUT_COST_NETWORK_IMPL_H

#include "tensor/context.h"

#define NETWORK_GIVEN (-1)   /* a maker or reader that is not a variable: its form is forms[0] */
#define NETWORK_NO_FORM (-1) /* with this value, the variable neither makes nor needs the data */

/* A variable, and the form that it makes or needs with each of its values. */
typedef struct network_end {
    int variable;
    const int *forms; /* [values of the variable] */
} network_end_t;

typedef struct network_fan {
    network_end_t maker;
    int n_readers;
    const network_end_t *readers;
    int n_forms;
    const double *costs; /* [made * n_forms + needed]; 0 if both are equal */
} network_fan_t;

typedef struct network {
    int n_variables, n_fans;
    const int *n_values;      /* [n_variables], at least one each */
    const double *const *own; /* [variable][value] */
    const network_fan_t *fans;
} network_t;

/* Quality of a choice. */
typedef struct network_certificate {
    double cost;        /* cost of the choice */
    double best_start;  /* least cost of any start that was passed in */
    double lower_bound; /* no choice costs less */
    bool is_optimal;    /* cost and lower bound differ by at most 1 */
    int64_t work;       /* work done: tables and forms visited, elements computed */
} network_certificate_t;

/* The cost of a choice; chosen[variable] is the index of a value. */
double network_cost(const network_t *network, const int *chosen);

/* Finds a choice that costs no more than the best of the given starts. A start has a value for each
 * variable. */
status_t network_solve(context_t *ctx, const network_t *network, int n_starts,
                       const int *const *starts, int *out_chosen,
                       network_certificate_t *out_certificate);

#endif
