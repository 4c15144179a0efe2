/* Finds the first node whose result differs between two runs of a model. */
#ifndef TESSERA_TOOLS_COMMAND_DIFF_H
#define TESSERA_TOOLS_COMMAND_DIFF_H

#include "tools/support/mode.h"

/* A node that ran in both runs, and the difference of its results. */
typedef struct diff_node {
    char name[64];       /* operator: "conv2d" */
    char path[256];      /* path of its module; "" for the top module */
    double difference;   /* max |a-b| / max |b|; infinite if dtypes or sizes differ */
    char a[512], b[512]; /* "f32[1,64,56,56]@aBcd16b by onednn, jit:avx512_core" */
} diff_node_t;

typedef struct diff_result {
    int n_nodes; /* compared nodes */
    int n_alone; /* nodes that ran in only one of the runs */
    bool has_first;
    diff_node_t first;   /* first node whose difference exceeds the tolerance */
    diff_node_t largest; /* node with the largest difference; its name is "" if n_nodes is 0 */
} diff_result_t;

/* Runs b, then a. Compares the results of each operator in a with those of the operator in b that
 * has the same name and path; of several, in the order in which they ran. All results of b stay in
 * memory until then. */
status_t diff_runs(runner_t *a, runner_t *b, double tolerance, diff_result_t *out_result);

#endif
