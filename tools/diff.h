/* The first node whose result differs between two runs of a model. */
#ifndef TESSERA_TOOLS_DIFF_H
#define TESSERA_TOOLS_DIFF_H

#include "tools/mode.h"

/* A node that both runs computed, and how far run a is from run b. */
typedef struct diff_node {
    char name[64];       /* operator: "conv2d" */
    char path[256];      /* of its module; "" for the root's own */
    double difference;   /* max |a-b| / max |b|; infinite where dtype or sizes differ */
    char a[512], b[512]; /* "f32[1,64,56,56]@aBcd16b by onednn, jit:avx512_core" */
} diff_node_t;

typedef struct diff_result {
    int n_nodes; /* compared */
    int n_alone; /* in one of the runs only */
    bool has_first;
    diff_node_t first;   /* beyond the tolerance */
    diff_node_t largest; /* of all; name is "" where n_nodes is 0 */
} diff_result_t;

/* Runs b, then a, and compares what each operator of a gave with what the operator of the same
 * name, at the same path and in the same order, gave in b. Results of b are kept meanwhile. */
status_t diff_runs(runner_t *a, runner_t *b, double tolerance, diff_result_t *out_result);

#endif
