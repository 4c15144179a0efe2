/* Checking operators while a model runs: random elements of every output, by the specification. */
#ifndef TESSERA_TOOLS_VERIFY_H
#define TESSERA_TOOLS_VERIFY_H

#include "tools/mode.h"

typedef struct verify_result {
    int n_operators; /* that ran; one that ran for slices of a batch counts once */
    int n_failed;    /* outputs, of a slice or whole, that are wrong */
    double largest;  /* error as a multiple of what rounding explains: right is at most 1 */
    char where[512];
    int n_values;      /* of a plan, at each step that reads them and at the end */
    int n_overwritten; /* of those: not what their step had made */
} verify_result_t;

/* Runs the model once more, as it runs, with every operator's outputs checked at n_elements random
 * elements: calls of dispatch, and steps of plans in the formats and bytes that they have. Where a
 * step runs for slices of a batch, by all threads or by workers, each slice is checked.
 *
 * Where plans run, what each step reads, and what the caller gets of a method that is one plan,
 * must also be what was computed: a value that another step, slice or worker has overwritten in the
 * arena is told. Plans that write in place are not followed so. What is wrong is told on stderr. */
status_t verify_run(runner_t *runner, int64_t n_elements, uint64_t seed,
                    verify_result_t *out_result);

#endif
