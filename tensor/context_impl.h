/* The inside of the context, for library folders: memory, slots, random numbers, null arguments. */
#ifndef TESSERA_TENSOR_CONTEXT_IMPL_H
#define TESSERA_TENSOR_CONTEXT_IMPL_H

#include "tensor/context.h"
#include "tensor/counters.h"
#include "tensor/status_impl.h"

struct onednn_stream;
struct scope;

/* Longest message of a failure, its zero byte included; longer ones are cut. */
#define CONTEXT_ERROR_MAX 2048

/* A failure; none when the status is OK, and the message is then not looked at. */
typedef struct failure {
    status_t status;
    char message[CONTEXT_ERROR_MAX];
} failure_t;
void failure_clear(failure_t *failure);
void failure_copy(failure_t *dst, const failure_t *src);

/* What failed in a scope, or outside of any, and was not cleared: a NULL input passes it on.
 * Failures of attempts under way (see scope_impl.h) are not noted. */
typedef struct failures {
    failure_t first; /* outside of scopes: the last */
    int n_attempts;  /* under way, in each other */
} failures_t;
failures_t *context_root_failures(context_t *ctx); /* outside of any scope */
failure_t *context_last_failure(context_t *ctx);   /* what context_status tells */

/* A value that a folder to the right keeps in every context: made zeroed at first use, then init;
 * fini at the end. Its address is its key. */
typedef struct context_slot {
    size_t bytes;
    status_t (*init)(context_t *ctx, void *value);
    void (*fini)(context_t *ctx, void *value);
} context_slot_t;
status_t context_slot(context_t *ctx, const context_slot_t *slot, void **out_value);

/* Memory of 64-byte alignment by the context's allocator; on refusal OUT_OF_MEMORY with bytes and
 * purpose in the message. Zero bytes give a block that can be put back. */
status_t context_get(context_t *ctx, size_t bytes, const char *purpose, void *out_block);
status_t context_get_zeroed(context_t *ctx, size_t bytes, const char *purpose, void *out_block);
void context_put(context_t *ctx, void *block);

/* Copies a string; NULL stays NULL. */
status_t context_string(context_t *ctx, const char *text, char **out_text);

/* Makes room for `needed` items in a growing array; items may move, contents stay. */
status_t context_grow(context_t *ctx, void *items, int *capacity, int needed, size_t item_bytes);

const allocator_t *context_allocator(const context_t *ctx);
const allocator_t *allocator_default(void); /* the C library's */
/* Gives free pages of the C library's heap back to the system; nothing for other allocators. */
void allocator_trim(const allocator_t *allocator);
void *allocator_get(const allocator_t *allocator, size_t bytes);
void allocator_put(const allocator_t *allocator, void *block);

/* An allocator that takes memory from another one, and refuses what would exceed `bytes` in all. It
 * lives until allocator_end_limit is called and its last block is put back. False: no memory.
 * allocator_refusal appends the limit to the message of an allocation that it refused. The last two
 * do nothing with other allocators. */
bool allocator_limit(const allocator_t *from, size_t bytes, allocator_t *out_allocator);
void allocator_end_limit(const allocator_t *limited);
void allocator_refusal(const allocator_t *allocator, char *message, size_t capacity);

/* For a required input that is NULL: passes on the failure that left it so, else reports
 * "<op>: <argument> is NULL". */
status_t context_null(context_t *ctx, const char *op, const char *argument);

/* For an array of which another argument says the length, which is not negative; NULL only where it
 * is 0. `name` is of the array. */
status_t context_array(context_t *ctx, const char *op, const char *name, int64_t n,
                       const void *items);

/* What a public function begins with that gives a pointer: sets it to NULL, so that it is NULL when
 * the call fails. out is the address of a pointer of any type; INVALID_ARGUMENT where it, or the
 * context, is NULL. */
status_t context_output(context_t *ctx, const char *op, void *out);

/* What an operator that is made of others gives back: the status, and on failure the message under
 * the name of the operator that was called, "one_hot: ..." for "scatter: ...". */
status_t context_rename(context_t *ctx, status_t status, const char *op);

/* A failure of a question: context_error tells it, but NULL does not pass it on, and the scope it
 * happens in has not failed. So a list may be read until the index is too large. */
status_t context_decline(context_t *ctx, status_t status, const char *format, ...)
    TESSERA_PRINTF(3, 4);

counters_t *context_counters(context_t *ctx);
const counters_t *context_counters_now(const context_t *ctx);
struct onednn_stream *context_stream(context_t *ctx);
struct scope **context_scope(context_t *ctx);
int64_t context_cache_entries(const context_t *ctx);
size_t context_plan_bytes(const context_t *ctx);
/* Bytes of the processor's last cache, as TESSERA_CPU_CACHE says or the machine; 0: not known. */
size_t context_cpu_cache(const context_t *ctx);
bool context_flushes_denormals(const context_t *ctx);

/* Who is told of every conversion, or NULL: dispatch, while there are observers. */
struct conversion;
typedef void (*conversion_listener_t)(context_t *ctx, const struct conversion *conversion);
conversion_listener_t *context_listener(context_t *ctx);

/* A context for one thread of those that run parts of a call by themselves, made at first use: it
 * has ctx's allocator and caches, one thread, no trace, since sinks are called in the thread of
 * ctx, and ends with ctx. And that a part failed there: gives status, and ctx the worker's message.
 */
status_t context_worker(context_t *ctx, int index, context_t **out_worker);
status_t context_blame(context_t *ctx, const context_t *worker, status_t status);
/* What a worker counted is the context's, but for plans and for entries of caches, each its own. */
void counters_take(context_t *ctx, context_t *worker);

/* How many calls of threads_enter are open. */
int *context_depth(context_t *ctx);

/* At least `bytes` of scratch memory, valid until the next call. */
status_t context_scratch(context_t *ctx, size_t bytes, void **out_block);

/* One draw of 64 random bits (xoshiro256**). */
uint64_t context_random(context_t *ctx);

/* The four words that the next draws follow from, to save and put back. */
uint64_t *context_random_state(context_t *ctx);

/* The trace sink and categories; see trace.h. */
bool context_traces(const context_t *ctx, unsigned category);
void context_trace_line(context_t *ctx, const char *line);

/* The categories whose template was printed. */
unsigned *context_trace_told(context_t *ctx);

/* Wall clock in nanoseconds, monotonic. */
uint64_t context_now(void);

#endif
