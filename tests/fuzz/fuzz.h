/* What fuzz targets share: a context whose memory is bounded, inputs as files, and a check.
 *
 * Each target has one function, which libFuzzer (preset fuzz) or replay.c (every preset, over the
 * kept corpus) calls with the bytes of an input. Memory and time that an input may claim are
 * bounded by the allocator, so what is refused by it has to come back as a failure and leave
 * nothing behind; that is checked at the end of each input. */
#ifndef TESSERA_TESTS_FUZZ_H
#define TESSERA_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

#include "graph/ir/graph.h"
#include "tensor/status_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

/* Like assert, in every build. */
#define FUZZ_CHECK(condition, ...)                                                                 \
    do {                                                                                           \
        if (!(condition)) fuzz_fail(#condition, __FILE__, __LINE__, __VA_ARGS__);                  \
    } while (0)
_Noreturn void fuzz_fail(const char *condition, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* A context on one thread with an allocator of its own: at most `max_bytes` alive, and at most
 * `max_requests` in all, which ends loops. End checks that nothing is alive. */
context_t *fuzz_begin(size_t max_bytes, long max_requests);
void fuzz_end(context_t *ctx);

/* A failure has to have a message. */
void fuzz_check_failure(const context_t *ctx, status_t status);

/* A file with these bytes, and no name but the path given here; valid until the next call. */
const char *fuzz_file(const void *bytes, size_t n_bytes);

/* What running gave: kinds of the outputs, infos and elements of those that are tensors. NULL
 * elements: there were too many, or no memory to read them. */
typedef struct fuzz_outcome {
    status_t status;
    int n;
    datum_kind_t kinds[METHOD_MAX_OUTPUTS];
    tensor_info_t infos[METHOD_MAX_OUTPUTS];
    double *elements[METHOD_MAX_OUTPUTS];
} fuzz_outcome_t;
void fuzz_outcome_clear(fuzz_outcome_t *outcome);

/* Element i of what a run is given, of n floating ones: none is 0, and each a little different from
 * what it is without shaking. */
double fuzz_number(int64_t i, double shake);
/* How much a graph's numbers are shaken: more than its shortest floating type rounds. */
double fuzz_shake(const graph_t *graph);

/* Runs a graph or a method on inputs of the types that the graph's parameters have, if there is
 * such an input for each, and if all sizes are known and small enough to be run in no time; false
 * if not. */
bool fuzz_run_graph(context_t *ctx, const graph_t *graph, module_t *self, double shake,
                    fuzz_outcome_t *outcome);
void fuzz_run_method(context_t *ctx, const graph_t *graph, module_t *self);

/* What a succeeded, b does as well, unless it is out of memory: to outputs of the same types, whose
 * elements differ by no more than those of `shaken`, a run of a on shaken numbers, and some
 * roundings. NaN and infinities are not compared: a fused relu, clamp, max or min gives a number
 * for NaN. */
void fuzz_check_same(const context_t *ctx, const fuzz_outcome_t *a, const fuzz_outcome_t *shaken,
                     const fuzz_outcome_t *b);

#endif
