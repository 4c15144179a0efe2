/* Internals of the context, for library folders: memory, failures, values of higher folders
 * (slots), random numbers. */
#ifndef TESSERA_TENSOR_CONTEXT_IMPL_H
#define TESSERA_TENSOR_CONTEXT_IMPL_H

#include "tensor/context.h"
#include "tensor/counters.h"
#include "tensor/status_impl.h"

struct onednn_stream;
struct scope;

/* Longest failure message, including its zero byte; longer ones are cut. */
#define CONTEXT_ERROR_MAX 2048

/* A failure. Status STATUS_OK means "no failure"; then the message is unused. */
typedef struct failure {
    status_t status;
    char message[CONTEXT_ERROR_MAX];
} failure_t;
void failure_clear(failure_t *failure);
void failure_copy(failure_t *dst, const failure_t *src);

/* The recorded failure of a scope, or of the code outside all scopes. Calls with NULL inputs return
 * it until it is cleared. Failures inside an attempt (scope_impl.h) are not recorded. */
typedef struct failures {
    failure_t first; /* the first failure of a scope; outside scopes, the last failure */
    int n_attempts;  /* nesting depth of running attempts */
} failures_t;
failures_t *context_root_failures(context_t *ctx); /* those outside all scopes */
failure_t *context_last_failure(context_t *ctx);   /* the failure that context_status returns */

/* A slot describes a value that a higher folder stores in every context. context_slot returns the
 * value. At the first call for a slot, it allocates the value, zeroes it and passes it to init;
 * when the context ends, the value is passed to fini. The slot's address is its key. */
typedef struct context_slot {
    size_t bytes;
    status_t (*init)(context_t *ctx, void *value);
    void (*fini)(context_t *ctx, void *value);
} context_slot_t;
status_t context_slot(context_t *ctx, const context_slot_t *slot, void **out_value);

/* Allocates 64-byte aligned memory from the context's allocator. Fails with OUT_OF_MEMORY; the
 * message has the number of bytes and the purpose. A request for 0 bytes returns a valid block. */
status_t context_get(context_t *ctx, size_t bytes, const char *purpose, void *out_block);
status_t context_get_zeroed(context_t *ctx, size_t bytes, const char *purpose, void *out_block);
void context_put(context_t *ctx, void *block);
/* Puts several blocks, whose addresses are read before the first is freed. */
#define CONTEXT_PUT(ctx, ...)                                                                      \
    context_put_all((ctx), sizeof((void *[]){__VA_ARGS__}) / sizeof(void *),                       \
                    (void *[]){__VA_ARGS__})
void context_put_all(context_t *ctx, size_t n, void *const *blocks);

/* Copies a string; NULL stays NULL. */
status_t context_string(context_t *ctx, const char *text, char **out_text);

/* Makes an array large enough for `needed` items. `items` is the address of the array's pointer;
 * the array may move in memory. */
status_t context_grow(context_t *ctx, void *items, int *capacity, int needed, size_t item_bytes);

const allocator_t *context_allocator(const context_t *ctx);
const allocator_t *allocator_default(void); /* the C library's */
/* Returns free memory pages of the C library's heap to the system; does nothing for other
 * allocators. */
void allocator_trim(const allocator_t *allocator);
void *allocator_get(const allocator_t *allocator, size_t bytes);
void allocator_put(const allocator_t *allocator, void *block);

/* allocator_limit makes an allocator that takes memory from `from` and fails an allocation that
 * would make the total exceed `bytes`. Returns false without memory. It exists until
 * allocator_end_limit is called and its last block is freed. allocator_refusal appends the limit to
 * the message of a failed allocation. For other allocators, allocator_end_limit and
 * allocator_refusal do nothing. */
bool allocator_limit(const allocator_t *from, size_t bytes, allocator_t *out_allocator);
void allocator_end_limit(const allocator_t *limited);
void allocator_refusal(const allocator_t *allocator, char *message, size_t capacity);

/* Handles a required input that is NULL: returns the earlier failure that left it NULL, or, if
 * there is none, fails with "<op>: <argument> is NULL". */
status_t context_null(context_t *ctx, const char *op, const char *argument);

/* Checks an array and its length n: n must not be negative, and items may be NULL only if n is 0.
 * `name` is the array's name. */
status_t context_array(context_t *ctx, const char *op, const char *name, int64_t n,
                       const void *items);

/* First step of a public function that returns a pointer: sets the pointer to NULL, its value on
 * failure. `out` is the address of the pointer, which may have any type. Fails if `out` or ctx is
 * NULL. */
status_t context_output(context_t *ctx, const char *op, void *out);

/* Last step of an operator that calls other operators. Returns the status. If it is a failure,
 * replaces the called operator's name in the message by `op`: "one_hot: ...", not "scatter:
 * ...". */
status_t context_rename(context_t *ctx, status_t status, const char *op);

/* Reports the failure of a query. It sets context_error, but does not count as a failure of the
 * scope, and calls with NULL inputs do not return it. So a caller may ask for item after item until
 * a query fails. */
status_t context_decline(context_t *ctx, status_t status, const char *format, ...)
    TESSERA_PRINTF(3, 4);

counters_t *context_counters(context_t *ctx);
const counters_t *context_counters_now(const context_t *ctx);
struct onednn_stream *context_stream(context_t *ctx);
struct scope **context_scope(context_t *ctx);
int64_t context_cache_entries(const context_t *ctx);
size_t context_plan_bytes(const context_t *ctx);
/* Bytes of the processor's last-level cache, from TESSERA_CPU_CACHE or the machine; 0: unknown. */
size_t context_cpu_cache(const context_t *ctx);
/* Path of the folder of the store, or NULL; its limit in bytes. */
const char *context_store_path(const context_t *ctx);
int64_t context_store_bytes(const context_t *ctx);
bool context_flushes_denormals(const context_t *ctx);

/* Returns the address of a function pointer: the function is called for every conversion; NULL:
 * none. Dispatch sets it while there are observers. */
struct conversion;
typedef void (*conversion_listener_t)(context_t *ctx, const struct conversion *conversion);
conversion_listener_t *context_listener(context_t *ctx);

/* When several threads run parts of one call, each needs a context of its own: a worker.
 * context_worker returns worker `index`, which is made at first use and ends with ctx. A worker
 * shares ctx's allocator and caches. It has one thread, and no trace, because the trace sink is
 * called only in the thread of ctx. context_blame copies a worker's failure message to ctx and
 * returns the status. */
status_t context_worker(context_t *ctx, int index, context_t **out_worker);
status_t context_blame(context_t *ctx, const context_t *worker, status_t status);
/* Adds a worker's counters to those of ctx, and resets them. Omits the counters of plans and of
 * cache entries. */
void counters_take(context_t *ctx, context_t *worker);

/* Number of threads_enter calls that threads_leave has not ended yet. */
int *context_depth(context_t *ctx);

/* Scratch memory of at least `bytes`, valid until the next call of context_scratch. */
status_t context_scratch(context_t *ctx, size_t bytes, void **out_block);

/* Returns 64 random bits (xoshiro256**). */
uint64_t context_random(context_t *ctx);

/* The generator's four words of state, to save and restore. */
uint64_t *context_random_state(context_t *ctx);

/* context_traces returns true if a trace category (trace.h) is enabled. context_trace_line writes a
 * line to the trace sink. */
bool context_traces(const context_t *ctx, unsigned category);
void context_trace_line(context_t *ctx, const char *line);

/* Address of the bits of the trace categories whose column names were already printed. */
unsigned *context_trace_told(context_t *ctx);

/* Monotonic wall clock in nanoseconds. */
uint64_t context_now(void);

#endif
