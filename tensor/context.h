/* A context holds the settings and state that calls share: allocator, number of threads, counters,
 * trace, scopes and last error.
 *
 * Use one context per thread. Threads, each with its own context, may share tensors, plans
 * (compiled graphs), modules that nobody changes while they are shared, and frozen modules without
 * mutable attributes. Objects keep their allocator alive, so a tensor may outlive the context that
 * made it. */
#ifndef TESSERA_TENSOR_CONTEXT_H
#define TESSERA_TENSOR_CONTEXT_H

#include "tensor/base/status.h"

typedef struct context context_t;

/* Source of memory. `get` returns a block aligned to 64 bytes, or NULL if it has no memory. Both
 * functions must be thread-safe: several threads may call them at the same time. */
typedef struct allocator {
    void *user;
    void *(*get)(void *user, size_t bytes);
    void (*put)(void *user, void *block);
} allocator_t;

/* Receives one line of the trace, without newline. Called in the thread that uses the context. */
typedef void (*trace_sink_t)(void *user, const char *line);

typedef struct context_options {
    const allocator_t *allocator; /* NULL: the C library's */
    int n_threads;     /* 0: TESSERA_THREADS. If that is not set: the number of physical cores that
                          the affinity mask allows on one NUMA node (the one with the most), or the
                          cgroup's CPU quota, rounded up, if that is smaller */
    const char *trace; /* categories as in trace.h; NULL: TESSERA_TRACE */
    trace_sink_t trace_sink; /* NULL: the file TESSERA_TRACE_FILE, else stderr */
    void *trace_user;
    int64_t cache_entries; /* capacity of the cache of prepared operators; 0: TESSERA_CACHE, else
                              1024 */
    bool flush_denormals;  /* treat denormals as zero on all threads that run a call; x86 only */
    /* Limits on time and memory: docs/limits.md. */
    int64_t limit_bytes;      /* memory in use; 0: TESSERA_LIMIT_MEMORY, else no limit */
    double limit_seconds;     /* for each outermost call; 0: TESSERA_LIMIT_TIME, else no limit */
    int64_t limit_iterations; /* loop iterations per outermost call; 0: TESSERA_LIMIT_ITERATIONS,
                                 else 1048576 */
    int64_t plan_bytes;       /* memory for the plans (compiled graphs, one for each set of input
                                 sizes) of a method. The two used last are always kept and do not
                                 count; 0: TESSERA_PLANS, else 64 MB */
    /* Folder of the store of packed weights (tensor/store/store.h), and its limit. */
    const char *store; /* "" or "off": none; NULL: TESSERA_STORE, else tessera in XDG_CACHE_HOME or
                          ~/.cache */
    int64_t store_bytes; /* 0: TESSERA_STORE_LIMIT, else 4 GB */
} context_options_t;

/* Makes a context. options may be NULL. Fails with OUT_OF_MEMORY; with INVALID_ARGUMENT if an
 * option is out of range; with ONEDNN if oneDNN cannot make an engine; with UNSUPPORTED if the
 * loaded oneDNN has another version than the one for which this library was built. On failure
 * *out_ctx is NULL and context_error(NULL) returns the message. */
status_t context_create(const context_options_t *options, context_t **out_ctx)
    TESSERA_API(context_create);

/* Ends all open scopes, frees the caches and the context. NULL does nothing. */
void context_destroy(context_t *ctx) TESSERA_API(context_destroy);

/* Returns the message of the last failure since the innermost scope or the running forward began.
 * It names the operator, the argument or data, and the rule that was broken. Never NULL; "" if
 * nothing failed. The text is valid until the next call fails, or a scope begins or ends.
 * context_error(NULL) returns the message of this thread's last context_create, "" if it
 * succeeded. */
const char *context_error(const context_t *ctx) TESSERA_API(context_error);

/* Returns the status of the failure whose message context_error returns. A module's forward may end
 * with `return context_status(ctx)`. */
status_t context_status(const context_t *ctx) TESSERA_API(context_status);

/* Marks the failure that context_status returns as handled: the innermost scope no longer counts as
 * failed, and calls with NULL inputs no longer return the failure. */
void context_clear_error(context_t *ctx) TESSERA_API(context_clear_error);

/* Records a failure and returns its status code. Library code and C methods of modules report
 * failures with it. */
status_t context_fail(context_t *ctx, status_t status, const char *format, ...)
    TESSERA_API(context_fail) TESSERA_PRINTF(3, 4);

/* Cancels the call that runs in this context. May be called from another thread or from a signal
 * handler: it is async-signal-safe. The outermost call returns CANCELLED within milliseconds, or
 * when the running operator ends, and does not write its outputs. If no call runs, the next call
 * that can be cancelled is cancelled. Once a call has returned CANCELLED, the context works as
 * before. A training step that has begun its update finishes first, and so does the renaming of a
 * finished file. NULL does nothing. */
void context_cancel(context_t *ctx) TESSERA_API(context_cancel);

/* Removes a cancel that no call has noticed yet; returns true if there was one. Use it when a
 * cancel may have come too late, so that it does not end the next call. */
bool context_withdraw_cancel(context_t *ctx) TESSERA_API(context_withdraw_cancel);

/* Number of threads that operators use. */
int context_threads(const context_t *ctx) TESSERA_API(context_threads);
/* Writes a text with the limits that determine the default number of threads, such as "4 cores, 2
 * in the affinity mask, a quota of 3", cut to `capacity` bytes. Returns out_text. */
const char *context_threads_text(char *out_text, size_t capacity) TESSERA_API(context_threads_text);
status_t context_set_threads(context_t *ctx, int n_threads) TESSERA_API(context_set_threads);

/* Restarts the context's random number generator, which tensor_rand and tensor_randn use. */
void context_seed(context_t *ctx, uint64_t seed) TESSERA_API(context_seed);

/* Read and set the state of the context's random number generator: four numbers, for example for a
 * checkpoint. From the same state, the generator repeats the same sequence. Setting fails with
 * INVALID_ARGUMENT if all four are 0. */
#define CONTEXT_GENERATOR_STATE 4
void context_generator_state(const context_t *ctx, uint64_t *out_state)
    TESSERA_API(context_generator_state);
status_t context_set_generator_state(context_t *ctx, const uint64_t *state)
    TESSERA_API(context_set_generator_state);

/* oneDNN's version, and the instruction set for which it generates code (limited by
 * ONEDNN_MAX_CPU_ISA): static strings such as "2.6.3" and "avx512_core_bf16". */
const char *onednn_version_text(void) TESSERA_API(onednn_version_text);
const char *onednn_isa_text(void) TESSERA_API(onednn_isa_text);

/* All environment variables that the library reads, for `tessera info`. */
typedef struct environment_variable {
    const char *name;
    const char *help;
} environment_variable_t;
const environment_variable_t *context_environment(int *out_n) TESSERA_API(context_environment);

#endif
