#define _POSIX_C_SOURCE 200809L

#include "tensor/context.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "tensor/context_impl.h"
#include "tensor/onednn/onednn.h"
#include "tensor/scope_impl.h"
#include "tensor/text/trace_impl.h"
#include "tensor/threads/interrupt_impl.h"
#include "tensor/threads/progress.h"
#include "tensor/threads/threads_impl.h"

#define DEFAULT_CACHE_ENTRIES 1024
#define DEFAULT_PLAN_BYTES (INT64_C(64) << 20)
#define DEFAULT_STORE_BYTES (INT64_C(4) << 30)
#define MAX_CACHE_ENTRIES (INT64_C(1) << 30)
#define MAX_THREADS 1024
#define MAX_CPU_CACHE (INT64_C(1) << 40)
#define MAX_LIMIT_SECONDS 1e9

/* Default limit on loop iterations in a call: higher than real models need, and reached by an
 * endless loop within a second. */
#define DEFAULT_ITERATIONS (1 << 20)

typedef struct slot_value {
    const context_slot_t *slot;
    void *value;
} slot_value_t;

struct context {
    allocator_t allocator;
    failure_t last;
    failures_t root;
    counters_t counters;
    int n_threads;
    int depth;
    conversion_listener_t listener;
    bool flush_denormals;
    int64_t cache_entries;
    int64_t plan_bytes;
    int64_t cpu_cache; /* bytes of the last-level cache; -1: ask the machine */
    unsigned trace_categories;
    unsigned trace_told;
    trace_sink_t trace_sink;
    void *trace_user;
    progress_sink_t progress_sink;
    void *progress_user;
    int trace_file;
    struct scope *scope;
    struct onednn_stream *stream;
    slot_value_t *slots;
    int n_slots;
    int slot_capacity;
    void *scratch;
    size_t scratch_bytes;
    uint64_t random[4];
    context_t **workers; /* [n_workers] */
    int n_workers, worker_capacity;
    char *store_path; /* folder of the store; NULL: no store, as in workers */
    int64_t store_bytes;
    bool is_limited; /* the allocator was made by allocator_limit for this context */
    interrupts_t own;
    interrupts_t *interrupts; /* &own; in a worker, those of the context for which it works */
};

enum {
    VARIABLE_THREADS,
    VARIABLE_TRACE,
    VARIABLE_TRACE_FILE,
    VARIABLE_CACHE,
    VARIABLE_PLANS,
    VARIABLE_CPU_CACHE,
    VARIABLE_LIMIT_MEMORY,
    VARIABLE_LIMIT_TIME,
    VARIABLE_LIMIT_ITERATIONS,
    VARIABLE_STORE,
    VARIABLE_STORE_LIMIT,
    VARIABLE_COUNT
};

static const environment_variable_t variables[VARIABLE_COUNT] = {
    {"TESSERA_THREADS",
     "threads that run operators; default: cores in the affinity mask on one NUMA node, or the "
     "CPU quota if it is smaller"},
    {"TESSERA_TRACE",
     "categories to trace, separated by commas: dispatch, convert, pass, plan, all"},
    {"TESSERA_TRACE_FILE", "file to append trace lines to; default: stderr"},
    {"TESSERA_CACHE", "prepared operators that a context keeps; default: 1024"},
    {"TESSERA_PLANS",
     "memory for a method's plans, not counting those of the last two sizes, such as 16M; default: "
     "64M"},
    {"TESSERA_CPU_CACHE",
     "bytes of the last-level cache that slices of a batch should fit; 0: no slices; default: the "
     "size of this machine's cache"},
    {"TESSERA_LIMIT_MEMORY",
     "bytes of memory that a context may use, such as 512M; default: no limit"},
    {"TESSERA_LIMIT_TIME", "seconds that each call of the library may take; default: no limit"},
    {"TESSERA_LIMIT_ITERATIONS", "iterations of loops in a call; default: 1048576"},
    {"TESSERA_STORE",
     "folder with packed weights that processes share, or off; default: tessera in XDG_CACHE_HOME "
     "or ~/.cache"},
    {"TESSERA_STORE_LIMIT", "bytes of that folder, such as 1G; default: 4G"},
};

const environment_variable_t *context_environment(int *out_n)
{
    if (out_n != NULL) *out_n = VARIABLE_COUNT;
    return variables;
}

/* ---- memory: see memory.c ---- */

const allocator_t *context_allocator(const context_t *ctx)
{
    return ctx != NULL ? &ctx->allocator : allocator_default();
}

status_t context_scratch(context_t *ctx, size_t bytes, void **out_block)
{
    if (ctx == NULL) return STATUS_INVALID_ARGUMENT;
    if (bytes > ctx->scratch_bytes || ctx->scratch == NULL) {
        void *block = NULL;
        TRY(context_get(ctx, bytes, "scratch", &block));
        context_put(ctx, ctx->scratch);
        ctx->scratch = block;
        ctx->scratch_bytes = bytes;
    }
    *out_block = ctx->scratch;
    return STATUS_OK;
}

/* ---- creation ---- */

/* Parses a decimal integer; on failure leaves *out_value unchanged. */
static bool parse_number(const char *text, int64_t least, int64_t largest, int64_t *out_value)
{
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value < least || value > largest) return false;
    *out_value = value;
    return true;
}

/* Parses bytes with an optional unit of K, M or G (powers of 1024): "512M". */
static bool parse_bytes(const char *text, int64_t *out_value)
{
    static const char units[] = "KMG";
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno != 0 || end == text || value < 1) return false;
    const char *unit = *end != '\0' ? strchr(units, *end) : NULL;
    const int bits = unit != NULL ? 10 * (int)(unit - units + 1) : 0;
    if (unit != NULL) end++;
    if (*end != '\0' || value > INT64_MAX >> bits) return false;
    *out_value = (int64_t)value << bits;
    return true;
}

static bool parse_seconds(const char *text, double *out_value)
{
    char *end = NULL;
    const double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value > 0.0) || value > MAX_LIMIT_SECONDS) return false;
    *out_value = value;
    return true;
}

/* The memory limit. It is read before the context exists, so a warning about an invalid value is
 * printed later. */
typedef struct memory_limit {
    int64_t bytes; /* 0: no limit */
    bool is_wrong; /* the environment variable has an invalid value */
} memory_limit_t;

static memory_limit_t read_memory_limit(const context_options_t *options)
{
    const char *text = getenv(variables[VARIABLE_LIMIT_MEMORY].name);
    memory_limit_t limit = {options->limit_bytes, false};
    if (limit.bytes == 0 && text != NULL) limit.is_wrong = !parse_bytes(text, &limit.bytes);
    return limit;
}

static void read_limits(context_t *ctx, const context_options_t *options, const char *const *text)
{
    const char *time = text[VARIABLE_LIMIT_TIME], *iterations = text[VARIABLE_LIMIT_ITERATIONS];
    if (options->limit_seconds == 0.0 && time != NULL &&
        !parse_seconds(time, &ctx->own.limit_seconds))
        context_trace_line(ctx, "tessera,warning,TESSERA_LIMIT_TIME is not a number of seconds");
    if (options->limit_iterations == 0 && iterations != NULL &&
        !parse_number(iterations, 1, INT64_MAX, &ctx->own.limit_iterations))
        context_trace_line(ctx,
                           "tessera,warning,TESSERA_LIMIT_ITERATIONS is not a positive number");
}

/* Sets the store's folder to "<folder><rest>"; ignores a folder that is not an absolute path. */
static status_t join_store(context_t *ctx, const char *folder, const char *rest)
{
    if (folder == NULL || folder[0] != '/') return STATUS_OK;
    const size_t n_bytes = strlen(folder) + strlen(rest) + 1;
    TRY(context_get(ctx, n_bytes, "a path", &ctx->store_path));
    snprintf(ctx->store_path, n_bytes, "%s%s", folder, rest);
    return STATUS_OK;
}

/* Sets the folder of the store: the option, the environment variable, or the user's folder for
 * caches. */
static status_t read_store(context_t *ctx, const context_options_t *options)
{
    const char *limit = getenv(variables[VARIABLE_STORE_LIMIT].name);
    ctx->store_bytes = options->store_bytes;
    if (ctx->store_bytes == 0 && limit != NULL && !parse_bytes(limit, &ctx->store_bytes))
        context_trace_line(ctx, "tessera,warning,TESSERA_STORE_LIMIT is not a number of bytes");
    if (ctx->store_bytes == 0) ctx->store_bytes = DEFAULT_STORE_BYTES;
    const char *path = options->store != NULL ? options->store
                                              : getenv(variables[VARIABLE_STORE].name);
    if (path != NULL)
        return path[0] == '\0' || strcmp(path, "off") == 0
                   ? STATUS_OK
                   : context_string(ctx, path, &ctx->store_path);
    TRY(join_store(ctx, getenv("XDG_CACHE_HOME"), "/tessera"));
    return ctx->store_path != NULL ? STATUS_OK : join_store(ctx, getenv("HOME"), "/.cache/tessera");
}

/* Reads environment variables for the options that the caller left at their defaults. An invalid
 * value causes a warning and is ignored. */
static void read_environment(context_t *ctx, const context_options_t *options)
{
    const char *text[VARIABLE_COUNT];
    for (int i = 0; i < VARIABLE_COUNT; i++) text[i] = getenv(variables[i].name);
    threads_note_openmp(getenv("GOMP_SPINCOUNT"), getenv("OMP_WAIT_POLICY"));
    threads_note_hwloc(getenv("HWLOC_SYNTHETIC") != NULL || getenv("HWLOC_XMLFILE") != NULL);

    const char *file = text[VARIABLE_TRACE_FILE];
    if (options->trace_sink == NULL && file != NULL && *file != '\0') {
        ctx->trace_file = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
        if (ctx->trace_file < 0)
            context_trace_line(ctx, "tessera,warning,TESSERA_TRACE_FILE cannot be opened");
    }
    const char *trace = text[VARIABLE_TRACE];
    if (options->trace == NULL && trace != NULL && !trace_parse(trace, &ctx->trace_categories))
        context_trace_line(ctx, "tessera,warning,TESSERA_TRACE names an unknown category");

    int64_t number = 0;
    const char *threads = text[VARIABLE_THREADS];
    if (options->n_threads == 0 && threads != NULL) {
        if (parse_number(threads, 1, MAX_THREADS, &number))
            ctx->n_threads = (int)number;
        else
            context_trace_line(ctx,
                               "tessera,warning,TESSERA_THREADS is not a number from 1 to 1024");
    }
    const char *cache = text[VARIABLE_CACHE];
    if (options->cache_entries == 0 && cache != NULL &&
        !parse_number(cache, 1, MAX_CACHE_ENTRIES, &ctx->cache_entries))
        context_trace_line(ctx, "tessera,warning,TESSERA_CACHE is not a positive number");
    const char *plans = text[VARIABLE_PLANS];
    if (options->plan_bytes == 0 && plans != NULL && !parse_bytes(plans, &ctx->plan_bytes))
        context_trace_line(ctx, "tessera,warning,TESSERA_PLANS is not a number of bytes");
    const char *cpu_cache = text[VARIABLE_CPU_CACHE];
    if (cpu_cache != NULL && !parse_number(cpu_cache, 0, MAX_CPU_CACHE, &ctx->cpu_cache))
        context_trace_line(ctx, "tessera,warning,TESSERA_CPU_CACHE is not a number of bytes");
    read_limits(ctx, options, text);
}

static status_t check_limits(context_t *ctx, const context_options_t *options)
{
    REQUIRE(ctx, options->limit_bytes >= 0,
            "context_create: a limit of %lld bytes, 0 (none) or more is needed",
            (long long)options->limit_bytes);
    REQUIRE(ctx, options->limit_seconds >= 0.0 && options->limit_seconds <= MAX_LIMIT_SECONDS,
            "context_create: a limit of %g seconds, must be 0 (none) to %g", options->limit_seconds,
            MAX_LIMIT_SECONDS);
    REQUIRE(ctx, options->limit_iterations >= 0,
            "context_create: a limit of %lld iterations, 0 (the default) or more is needed",
            (long long)options->limit_iterations);
    ctx->own.limit_seconds = options->limit_seconds;
    ctx->own.limit_iterations = options->limit_iterations;
    return STATUS_OK;
}

static status_t set_up(context_t *ctx, const context_options_t *options)
{
    REQUIRE(ctx, options->n_threads >= 0 && options->n_threads <= MAX_THREADS,
            "context_create: %d threads, must be 0 to %d", options->n_threads, MAX_THREADS);
    REQUIRE(ctx, options->cache_entries >= 0 && options->cache_entries <= MAX_CACHE_ENTRIES,
            "context_create: a cache of %lld entries, out of range",
            (long long)options->cache_entries);
    REQUIRE(ctx, options->plan_bytes >= 0,
            "context_create: %lld bytes of plans, must be 0 (64 MB) or more",
            (long long)options->plan_bytes);
    REQUIRE(ctx, options->trace == NULL || trace_parse(options->trace, &ctx->trace_categories),
            "context_create: trace \"%s\", the categories are dispatch, convert, pass, plan, all",
            options->trace);
    REQUIRE(ctx, options->store_bytes >= 0,
            "context_create: a store of %lld bytes, must be 0 (4 GB) or more",
            (long long)options->store_bytes);
    TRY(check_limits(ctx, options));
    ctx->n_threads = options->n_threads;
    ctx->cache_entries = options->cache_entries;
    ctx->plan_bytes = options->plan_bytes;
    ctx->cpu_cache = -1;
    ctx->trace_sink = options->trace_sink;
    ctx->trace_user = options->trace_user;
    ctx->flush_denormals = options->flush_denormals;
    read_environment(ctx, options);
    TRY(read_store(ctx, options));
    if (ctx->n_threads == 0) ctx->n_threads = threads_available();
    (void)threads_forks(); /* from here on, a forked child starts its own threads */
    if (ctx->cache_entries == 0) ctx->cache_entries = DEFAULT_CACHE_ENTRIES;
    if (ctx->plan_bytes == 0) ctx->plan_bytes = DEFAULT_PLAN_BYTES;
    if (ctx->own.limit_iterations == 0) ctx->own.limit_iterations = DEFAULT_ITERATIONS;
    context_seed(ctx, 0);
    return onednn_stream_create(ctx, &ctx->stream);
}

/* Failure of this thread's last context_create. There is no context in which it could be stored. */
static _Thread_local failure_t creation;

static status_t fail_creation(status_t status, const char *message)
{
    creation.status = status;
    snprintf(creation.message, sizeof creation.message, "%s", message);
    return status;
}

status_t context_create(const context_options_t *options, context_t **out_ctx)
{
    fail_creation(STATUS_OK, "");
    if (out_ctx == NULL)
        return fail_creation(STATUS_INVALID_ARGUMENT, "context_create: out_ctx is NULL");
    *out_ctx = NULL;
    static const context_options_t defaults = {0};
    if (options == NULL) options = &defaults;
    const allocator_t *allocator = options->allocator;
    if (allocator == NULL) allocator = allocator_default();
    if (allocator->get == NULL || allocator->put == NULL)
        return fail_creation(STATUS_INVALID_ARGUMENT,
                             "context_create: an allocator without get or put, both are needed");

    allocator_t limited = *allocator;
    const memory_limit_t limit = read_memory_limit(options);
    context_t *ctx = NULL;
    if (limit.bytes <= 0 || allocator_limit(allocator, (size_t)limit.bytes, &limited))
        ctx = allocator_get(&limited, sizeof *ctx);
    if (ctx == NULL) {
        if (limit.bytes > 0) allocator_end_limit(&limited);
        return fail_creation(STATUS_OUT_OF_MEMORY,
                             "out of memory: the allocator refused bytes for a context");
    }
    memset(ctx, 0, sizeof *ctx);
    ctx->allocator = limited;
    ctx->is_limited = limit.bytes > 0;
    ctx->interrupts = &ctx->own;
    ctx->trace_file = -1;
    status_t status = set_up(ctx, options);
    if (status != STATUS_OK) {
        fail_creation(status, ctx->last.message);
        context_destroy(ctx);
        return status;
    }
    if (limit.is_wrong)
        context_trace_line(ctx, "tessera,warning,TESSERA_LIMIT_MEMORY is not a number of bytes");
    *out_ctx = ctx;
    return STATUS_OK;
}

/* Makes a context for a worker thread. The worker itself does not set flushing of denormals,
 * because ctx does so on all threads. */
static status_t make_worker(context_t *ctx, context_t **out_worker)
{
    context_t *worker = NULL;
    TRY(context_get_zeroed(ctx, sizeof *worker, "a context of a thread", &worker));
    worker->allocator = ctx->allocator;
    worker->n_threads = 1;
    worker->cache_entries = ctx->cache_entries;
    worker->plan_bytes = ctx->plan_bytes;
    worker->cpu_cache = ctx->cpu_cache;
    worker->interrupts = ctx->interrupts;
    worker->trace_file = -1;
    context_seed(worker, 0);
    status_t status = onednn_stream_create(worker, &worker->stream);
    if (status == STATUS_OK) {
        *out_worker = worker;
        return STATUS_OK;
    }
    status = context_blame(ctx, worker, status);
    context_destroy(worker);
    return status;
}

status_t context_worker(context_t *ctx, int index, context_t **out_worker)
{
    TRY(context_grow(ctx, &ctx->workers, &ctx->worker_capacity, index + 1, sizeof *ctx->workers));
    for (; ctx->n_workers <= index; ctx->n_workers++)
        TRY(make_worker(ctx, &ctx->workers[ctx->n_workers]));
    *out_worker = ctx->workers[index];
    return STATUS_OK;
}

status_t context_blame(context_t *ctx, const context_t *worker, status_t status)
{
    FAIL(ctx, status, "%s", worker->last.message);
}

/* Ends the slots (context_slot), the last one first. A slot's fini may still use its own slot, and
 * may make new slots, which are ended, too. */
static void end_slots(context_t *ctx)
{
    while (ctx->n_slots > 0) {
        int last = ctx->n_slots - 1;
        slot_value_t ending = ctx->slots[last];
        if (ending.slot->fini != NULL) ending.slot->fini(ctx, ending.value);
        context_put(ctx, ending.value);
        ctx->slots[last] = ctx->slots[--ctx->n_slots];
    }
    context_put(ctx, ctx->slots);
}

void context_destroy(context_t *ctx)
{
    if (ctx == NULL) return;
    while (ctx->n_workers > 0) context_destroy(ctx->workers[--ctx->n_workers]);
    context_put(ctx, (void *)ctx->workers);
    scope_end_all(ctx);
    end_slots(ctx);
    if (ctx->stream != NULL) onednn_stream_destroy(ctx, ctx->stream);
    CONTEXT_PUT(ctx, ctx->scratch, ctx->store_path);
    if (ctx->trace_file >= 0) close(ctx->trace_file);
    allocator_t allocator = ctx->allocator;
    const bool is_limited = ctx->is_limited;
    allocator_put(&allocator, ctx);
    if (is_limited) allocator_end_limit(&allocator);
}

/* ---- the last failure: see failure.c ---- */

failures_t *context_root_failures(context_t *ctx)
{
    return &ctx->root;
}

failure_t *context_last_failure(context_t *ctx)
{
    return &ctx->last;
}

const char *context_error(const context_t *ctx)
{
    return ctx != NULL ? ctx->last.message : creation.message;
}

status_t context_status(const context_t *ctx)
{
    return ctx != NULL ? ctx->last.status : creation.status;
}

/* ---- settings, and state for higher folders ---- */

int context_threads(const context_t *ctx)
{
    return ctx != NULL ? ctx->n_threads : 0;
}

const char *context_threads_text(char *out_text, size_t capacity)
{
    const threads_bounds_t bounds = threads_bounds();
    char node[48] = "", quota[32] = "no quota";
    if (bounds.n_node < bounds.n_allowed)
        snprintf(node, sizeof node, "%d of them on one NUMA node, ", bounds.n_node);
    if (bounds.n_quota > 0) snprintf(quota, sizeof quota, "a quota of %d", bounds.n_quota);
    if (out_text != NULL && capacity > 0)
        snprintf(out_text, capacity, "%d core%s, %d in the affinity mask, %s%s", bounds.n_cores,
                 bounds.n_cores == 1 ? "" : "s", bounds.n_allowed, node, quota);
    return out_text;
}

status_t context_set_threads(context_t *ctx, int n_threads)
{
    if (ctx == NULL) return STATUS_INVALID_ARGUMENT;
    REQUIRE(ctx, n_threads >= 1 && n_threads <= MAX_THREADS,
            "context_set_threads: %d threads, must be 1 to %d", n_threads, MAX_THREADS);
    ctx->n_threads = n_threads;
    return STATUS_OK;
}

counters_t *context_counters(context_t *ctx)
{
    return &ctx->counters;
}

const counters_t *context_counters_now(const context_t *ctx)
{
    return &ctx->counters;
}

interrupts_t *context_interrupts(context_t *ctx)
{
    return ctx->interrupts;
}

struct onednn_stream *context_stream(context_t *ctx)
{
    return ctx->stream;
}

struct scope **context_scope(context_t *ctx)
{
    return &ctx->scope;
}

size_t context_cpu_cache(const context_t *ctx)
{
    return ctx->cpu_cache >= 0 ? (size_t)ctx->cpu_cache : threads_cache_bytes();
}

int64_t context_cache_entries(const context_t *ctx)
{
    return ctx->cache_entries;
}

size_t context_plan_bytes(const context_t *ctx)
{
    return (size_t)ctx->plan_bytes;
}

const char *context_store_path(const context_t *ctx)
{
    return ctx->store_path;
}

int64_t context_store_bytes(const context_t *ctx)
{
    return ctx->store_bytes;
}

bool context_flushes_denormals(const context_t *ctx)
{
    return ctx->flush_denormals;
}

conversion_listener_t *context_listener(context_t *ctx)
{
    return &ctx->listener;
}

int *context_depth(context_t *ctx)
{
    return &ctx->depth;
}

/* Adds a slot to the list after calling its init. So slots that this init made are earlier in the
 * list, and end later. */
status_t context_slot(context_t *ctx, const context_slot_t *slot, void **out_value)
{
    if (ctx == NULL) return STATUS_INVALID_ARGUMENT;
    for (int i = 0; i < ctx->n_slots; i++) {
        if (ctx->slots[i].slot == slot) {
            *out_value = ctx->slots[i].value;
            return STATUS_OK;
        }
    }
    void *value = NULL;
    TRY(context_get_zeroed(ctx, slot->bytes, "a slot of the context", &value));
    status_t status = slot->init != NULL ? slot->init(ctx, value) : STATUS_OK;
    TRY_OR(status, context_put(ctx, value));
    status = context_grow(ctx, &ctx->slots, &ctx->slot_capacity, ctx->n_slots + 1,
                          sizeof *ctx->slots);
    if (status != STATUS_OK) {
        if (slot->fini != NULL) slot->fini(ctx, value);
        context_put(ctx, value);
        return status;
    }
    ctx->slots[ctx->n_slots++] = (slot_value_t){slot, value};
    *out_value = value;
    return STATUS_OK;
}

/* ---- trace ---- */

bool context_traces(const context_t *ctx, unsigned category)
{
    return (ctx->trace_categories & category) != 0;
}

unsigned *context_trace_told(context_t *ctx)
{
    return &ctx->trace_told;
}

/* Writes the line with one system call, so that lines of several processes do not mix in a file. */
void context_trace_line(context_t *ctx, const char *line)
{
    if (ctx->trace_sink != NULL) {
        ctx->trace_sink(ctx->trace_user, line);
        return;
    }
    struct iovec pieces[2] = {{(void *)(uintptr_t)line, strlen(line)}, {"\n", 1}};
    ssize_t written = writev(ctx->trace_file >= 0 ? ctx->trace_file : STDERR_FILENO, pieces, 2);
    (void)written;
}

uint64_t context_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- random numbers: xoshiro256** seeded by splitmix64 ---- */

void context_seed(context_t *ctx, uint64_t seed)
{
    if (ctx == NULL) return;
    for (int i = 0; i < 4; i++) {
        seed += UINT64_C(0x9e3779b97f4a7c15);
        uint64_t z = seed;
        z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
        ctx->random[i] = z ^ (z >> 31);
    }
}

static uint64_t rotate(uint64_t x, int bits)
{
    return (x << bits) | (x >> (64 - bits));
}

uint64_t context_random(context_t *ctx)
{
    uint64_t *s = ctx->random;
    uint64_t result = rotate(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return result;
}

void context_generator_state(const context_t *ctx, uint64_t *out_state)
{
    if (ctx != NULL && out_state != NULL) memcpy(out_state, ctx->random, sizeof ctx->random);
}

status_t context_set_generator_state(context_t *ctx, const uint64_t *state)
{
    if (ctx == NULL) return STATUS_INVALID_ARGUMENT;
    if (state == NULL) return context_null(ctx, "context_set_generator_state", "state");
    REQUIRE(ctx, (state[0] | state[1] | state[2] | state[3]) != 0,
            "context_set_generator_state: four zeros, at least one word must not be zero");
    memcpy(ctx->random, state, sizeof ctx->random);
    return STATUS_OK;
}

uint64_t *context_random_state(context_t *ctx)
{
    return ctx->random;
}

/* ---- progress ---- */

void progress_listen(context_t *ctx, progress_sink_t sink, void *user)
{
    if (ctx == NULL) return;
    ctx->progress_sink = sink;
    ctx->progress_user = user;
}

void progress_tell(context_t *ctx, const char *what, int64_t done, int64_t total)
{
    if (ctx == NULL || ctx->progress_sink == NULL) return;
    const progress_t progress = {what != NULL ? what : "", done, total};
    ctx->progress_sink(ctx->progress_user, &progress);
}
