/* A context: allocator, number of threads, counters, trace, scopes and last error of its calls.
 *
 * Use one context per thread. Threads, each with its own context, may share tensors, modules that
 * nobody mutates, frozen modules without mutable attributes, and plans. Objects keep their
 * allocator alive, so a tensor may outlive the context that made it. */
#ifndef TESSERA_TENSOR_CONTEXT_H
#define TESSERA_TENSOR_CONTEXT_H

#include "tensor/status.h"

TESSERA_BEGIN

typedef struct context context_t;

/* Source of memory. `get` returns a block aligned to 64 bytes, or NULL if it refuses. Both
 * functions must be thread-safe: several threads may call them at the same time. */
typedef struct allocator {
    void *user;
    void *(*get)(void *user, size_t bytes);
    void (*put)(void *user, void *block);
} allocator_t;

/* Receives one trace line without its newline. Called in the context's thread. */
typedef void (*trace_sink_t)(void *user, const char *line);

typedef struct context_options {
    const allocator_t *allocator; /* NULL: the C library's */
    int n_threads;     /* 0: TESSERA_THREADS, else the number of physical cores in the affinity
                          mask, or the control group's CPU quota, rounded up, if that is smaller */
    const char *trace; /* categories as in trace.h; NULL: TESSERA_TRACE */
    trace_sink_t trace_sink; /* NULL: stderr */
    void *trace_user;
    int64_t cache_entries; /* capacity of the cache of prepared operators; 0: TESSERA_CACHE, else
                              1024 */
    bool flush_denormals;  /* treat denormals as zero, on every thread of a call; x86 only */
    /* Limits on time and memory: docs/limits.md. */
    int64_t limit_bytes;      /* memory in use; 0: TESSERA_LIMIT_MEMORY, else no limit */
    double limit_seconds;     /* per outermost call; 0: TESSERA_LIMIT_TIME, else no limit */
    int64_t limit_iterations; /* loop iterations per outermost call; 0: TESSERA_LIMIT_ITERATIONS,
                                 else 1048576 */
    int64_t plan_bytes;       /* memory for a method's plans, except its plans for the last two sets
                                 of sizes; 0: TESSERA_PLANS, else 64 MB */
} context_options_t;

/* Makes a context. options may be NULL. OUT_OF_MEMORY; ONEDNN if oneDNN cannot make an engine;
 * UNSUPPORTED if the loaded oneDNN differs from the one this library was built for. On failure
 * *out_ctx is NULL and context_error(NULL) has the message. */
status_t context_create(const context_options_t *options, context_t **out_ctx)
    TESSERA_API(context_create);

/* Ends all open scopes, frees the caches and the context. NULL does nothing. */
void context_destroy(context_t *ctx) TESSERA_API(context_destroy);

/* Message of the last failure since the innermost scope or the running forward began: operator,
 * what was given, the rule that it breaks. Never NULL; "" if nothing failed. Valid until the next
 * failing call, and until a scope begins or ends. context_error(NULL) is the message of this
 * thread's last context_create, "" if it succeeded. */
const char *context_error(const context_t *ctx) TESSERA_API(context_error);

/* Status of the failure whose message context_error returns. A forward may end with `return
 * context_status(ctx)`. */
status_t context_status(const context_t *ctx) TESSERA_API(context_status);

/* Marks the failure that context_status returns as handled: the innermost scope then counts as not
 * failed, and NULL inputs no longer pass the failure on. */
void context_clear_error(context_t *ctx) TESSERA_API(context_clear_error);

/* Records a failure and returns its status code. Library code and C methods of modules report
 * failures with it. */
status_t context_fail(context_t *ctx, status_t status, const char *format, ...)
    TESSERA_API(context_fail) TESSERA_PRINTF(3, 4);

/* Cancels the call that runs in this context. May be called from another thread or from a signal
 * handler: it is async-signal-safe. The outermost call returns CANCELLED within milliseconds, or
 * when the running kernel ends, and does not write its outputs. If nothing runs, the next call that
 * checks for a cancel is cancelled. Once a call has returned CANCELLED, the context works as
 * before. A training step whose update has begun, and a file that is being renamed, finish first.
 * NULL does nothing. */
void context_cancel(context_t *ctx) TESSERA_API(context_cancel);

/* Removes a cancel that no call has noticed yet; returns true if there was one. Prevents a late
 * cancel from ending the next call. */
bool context_withdraw_cancel(context_t *ctx) TESSERA_API(context_withdraw_cancel);

/* Number of threads that operators use. */
int context_threads(const context_t *ctx) TESSERA_API(context_threads);
/* Writes the current bounds on the default number of threads: "4 cores, 2 in the affinity mask, a
 * quota of 3". Cuts the text to `capacity` bytes and returns out_text. */
const char *context_threads_text(char *out_text, size_t capacity) TESSERA_API(context_threads_text);
status_t context_set_threads(context_t *ctx, int n_threads) TESSERA_API(context_set_threads);

/* Restarts the context's random number generator, which tensor_rand and tensor_randn use. */
void context_seed(context_t *ctx, uint64_t seed) TESSERA_API(context_seed);

/* State of the context's random number generator: four numbers for a checkpoint. Setting them makes
 * the generator repeat its sequence. INVALID_ARGUMENT if all four are 0. */
#define CONTEXT_GENERATOR_STATE 4
void context_generator_state(const context_t *ctx, uint64_t *out_state)
    TESSERA_API(context_generator_state);
status_t context_set_generator_state(context_t *ctx, const uint64_t *state)
    TESSERA_API(context_set_generator_state);

/* oneDNN's version, and the instruction set it generates code for (ONEDNN_MAX_CPU_ISA included).
 * Static texts such as "2.6.3" and "avx512_core_bf16". */
const char *onednn_version_text(void) TESSERA_API(onednn_version_text);
const char *onednn_isa_text(void) TESSERA_API(onednn_isa_text);

/* All environment variables that the library reads, for `tessera info`. */
typedef struct environment_variable {
    const char *name;
    const char *help;
} environment_variable_t;
const environment_variable_t *context_environment(int *out_n) TESSERA_API(context_environment);

TESSERA_END

#endif
