/* Shared by the fuzz targets: a context with bounded memory, inputs as files, and a check.
 *
 * A target is one function, to which libFuzzer (preset fuzz) passes the bytes of an input. In other
 * presets replay.c passes it the files of the corpus. The allocator limits the memory and time of
 * an input. If it refuses a block, the call must fail and release everything, which fuzz_end
 * checks. */
#ifndef TESSERA_TESTS_FUZZ_H
#define TESSERA_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

#include "graph/ir/graph.h"
#include "tensor/status_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

/* Like assert, but active in every build. */
#define FUZZ_CHECK(condition, ...)                                                                 \
    do {                                                                                           \
        if (!(condition)) fuzz_fail(#condition, __FILE__, __LINE__, __VA_ARGS__);                  \
    } while (0)
_Noreturn void fuzz_fail(const char *condition, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Creates a single-threaded context with its own allocator: at most `max_bytes` allocated at a
 * time, and at most `max_requests` requests in all, which ends endless loops. fuzz_end checks that
 * nothing is still allocated. */
context_t *fuzz_begin(size_t max_bytes, long max_requests);
void fuzz_end(context_t *ctx);

/* Checks that a failure has a message. */
void fuzz_check_failure(const context_t *ctx, status_t status);

/* Makes a file with these bytes. It has no name except the returned path, which is valid until the
 * next call. */
const char *fuzz_file(const void *bytes, size_t n_bytes);

/* Outcome of a run: kinds of the outputs, and infos and elements of tensors. `elements` is NULL if
 * there are too many to read, or if out of memory. */
typedef struct fuzz_outcome {
    status_t status;
    int n;
    datum_kind_t kinds[METHOD_MAX_OUTPUTS];
    tensor_info_t infos[METHOD_MAX_OUTPUTS];
    double *elements[METHOD_MAX_OUTPUTS];
} fuzz_outcome_t;
void fuzz_outcome_clear(fuzz_outcome_t *outcome);

/* Returns element i of an input. It is never 0. `shake` is the relative size of a small change to
 * it. */
double fuzz_number(int64_t i, double shake);
/* Returns a shake for a graph: larger than the rounding of the narrowest float type in it. */
double fuzz_shake(const graph_t *graph);

/* Runs a graph on inputs of its parameters' types. Returns false if a parameter has no such input,
 * or if sizes are unknown or too large to run quickly. */
bool fuzz_run_graph(context_t *ctx, const graph_t *graph, module_t *self, double shake,
                    fuzz_outcome_t *outcome);
void fuzz_run_method(context_t *ctx, const graph_t *graph, module_t *self);

/* Checks that b, another way to run a, succeeded if a did (or ran out of memory), and that outputs
 * agree. Elements may differ as much as those of `shaken`, a run of a with slightly changed
 * numbers, plus some roundings. NaN and infinities are not compared, because a fused relu, clamp,
 * max or min may return a number for NaN. */
void fuzz_check_same(const context_t *ctx, const fuzz_outcome_t *a, const fuzz_outcome_t *shaken,
                     const fuzz_outcome_t *b);

#endif
