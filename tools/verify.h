/* Checks operators while a model runs: compares random elements of every output with the
 * specification. */
#ifndef TESSERA_TOOLS_VERIFY_H
#define TESSERA_TOOLS_VERIFY_H

#include "tools/mode.h"

typedef struct verify_result {
    int n_operators; /* operators that ran; slices of a batch count once */
    int n_failed;    /* wrong outputs, each slice counted */
    double largest;  /* error as a multiple of the rounding bound; correct results are at most 1 */
    char where[512];
    int n_values;      /* checked values of plans: at each step that reads them and at the end */
    int n_overwritten; /* values among them that had changed */
} verify_result_t;

/* Runs the model once more and checks n_elements random elements of every operator's outputs. This
 * covers calls of dispatch and steps of plans, in their actual formats. If a step runs on slices of
 * a batch, each slice is checked.
 *
 * It also checks that what a step of a plan reads is what was computed, and so for the results of a
 * method that is one plan. This detects values that another step, slice or worker overwrote in the
 * arena. Plans that write in place are not followed. Faults are reported on stderr. */
status_t verify_run(runner_t *runner, int64_t n_elements, uint64_t seed,
                    verify_result_t *out_result);

#endif
