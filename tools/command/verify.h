/* Checks operators while a model runs: compares random elements of each output with the operator's
 * specification. */
#ifndef TESSERA_TOOLS_COMMAND_VERIFY_H
#define TESSERA_TOOLS_COMMAND_VERIFY_H

#include "tools/support/mode.h"

typedef struct verify_result {
    int n_operators; /* operators that ran; slices of a batch count once */
    int n_failed;    /* wrong outputs; each slice counts */
    double largest;  /* largest error / rounding bound; at most 1 if results are correct */
    char where[512];
    int n_values;      /* checks of plan values: for each step that reads one, and for results */
    int n_overwritten; /* how many of these checks found a change */
} verify_result_t;

/* Runs the model once more and checks n_elements random elements of each operator's outputs: in
 * calls of dispatch and in steps of plans, in the formats in which they run. If a step runs on
 * slices of a batch, each slice is checked.
 *
 * Also checks that the values which a plan's steps read, and the results of a method that is a
 * single plan, are those that were computed. This finds values that another step, slice or worker
 * has overwritten in the arena. Plans that write in place are not checked. Faults go to stderr. */
status_t verify_run(runner_t *runner, int64_t n_elements, uint64_t seed,
                    verify_result_t *out_result);

#endif
