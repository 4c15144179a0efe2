/* Cost function networks: the problem that the layout pass solves, without what it is about.
 *
 * Each variable takes one of its values. A value costs something by itself; and where one variable
 * makes what others read, each form that is wanted but not made has to be converted to, once
 * however many readers want it:
 *
 *   cost = sum(variables v) own[v][value of v]
 *        + sum(fans) sum(forms f that a reader wants) costs[form made][f]
 *
 * With one reader a fan is an edge of a partitioned boolean quadratic problem. The solver is exact
 * where the variables can be eliminated one after the other without a table that is too large, as
 * on trees, chains and residual networks; else it gives a lower bound beside its choice. */
#ifndef TESSERA_GRAPH_PASSES_COST_NETWORK_IMPL_H
#define TESSERA_GRAPH_PASSES_COST_NETWORK_IMPL_H

#include "tensor/context.h"

#define NETWORK_GIVEN (-1)   /* a maker or reader that is no variable: its form is forms[0] */
#define NETWORK_NO_FORM (-1) /* of a value: it neither makes nor wants anything here */

/* A variable, and the form that each of its values makes or wants. */
typedef struct network_end {
    int variable;
    const int *forms; /* [values of the variable] */
} network_end_t;

typedef struct network_fan {
    network_end_t maker;
    int n_readers;
    const network_end_t *readers;
    int n_forms;
    const double *costs; /* [made * n_forms + wanted], 0 where both are the same */
} network_fan_t;

typedef struct network {
    int n_variables, n_fans;
    const int *n_values;      /* [n_variables], at least one each */
    const double *const *own; /* [variable][value] */
    const network_fan_t *fans;
} network_t;

/* What is known of a choice. */
typedef struct network_certificate {
    double cost;        /* of what was chosen */
    double best_start;  /* the least cost of the starts as they were given */
    double lower_bound; /* no choice costs less */
    bool is_optimal;    /* the bound was met, to 1 */
    int64_t work;       /* tables and forms that were looked at, elements that were computed */
} network_certificate_t;

/* chosen[variable] is the number of a value. */
double network_cost(const network_t *network, const int *chosen);

/* Finds a choice that costs no more than any of the starts, each of which has a value for every
 * variable. NO_MEMORY */
status_t network_solve(context_t *ctx, const network_t *network, int n_starts,
                       const int *const *starts, int *out_chosen,
                       network_certificate_t *out_certificate);

#endif
