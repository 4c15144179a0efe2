/* Finds, waits for and drops the programs of a method. */
#include "graph/method/programs_impl.h"

#include <string.h>

#include "graph/ir/graph_impl.h"
#include "graph/ir/size_impl.h"
#include "graph/passes/layout/layout_impl.h"
#include "graph/passes/precision/widen_impl.h"
#include "tensor/context_impl.h"
#include "tensor/tensor_impl.h"
#include "tensor/text/trace.h"
#include "tensor/threads/threads_impl.h"

/* ---- creation and release ---- */

status_t programs_memory(context_t *ctx, const programs_t *programs, size_t bytes,
                         const char *purpose, void *out_block)
{
    void *block = allocator_get(&programs->allocator, bytes);
    if (block == NULL)
        FAIL(ctx, STATUS_OUT_OF_MEMORY, "out of memory: %zu bytes for %s, the allocator refused",
             bytes, purpose);
    memset(block, 0, bytes);
    memcpy(out_block, &block, sizeof block);
    return STATUS_OK;
}

status_t programs_string(context_t *ctx, const programs_t *programs, const char *text,
                         char **out_text)
{
    size_t bytes = strlen(text) + 1;
    TRY(programs_memory(ctx, programs, bytes, "a layout", out_text));
    memcpy(*out_text, text, bytes);
    return STATUS_OK;
}

status_t programs_leave_out(context_t *ctx, programs_t *programs, const char *const *skip)
{
    const char **copy = NULL;
    size_t n = 0, bytes = 0;
    for (; skip != NULL && skip[n] != NULL; n++) bytes += strlen(skip[n]) + 1;
    if (n > 0)
        TRY(programs_memory(ctx, programs, (n + 1) * sizeof *copy + bytes, "passes to skip",
                            &copy));
    char *text = (char *)(void *)(copy + n + 1);
    for (size_t i = 0; i < n; i++) {
        copy[i] = strcpy(text, skip[i]);
        text += strlen(skip[i]) + 1;
    }
    allocator_put(&programs->allocator, (void *)programs->skip);
    programs->skip = copy;
    return STATUS_OK;
}

status_t programs_create(context_t *ctx, graph_t *graph, int capacity, programs_t **out_programs)
{
    programs_t *programs = NULL;
    graph_t *computed = NULL;
    TRY(widen_graph(ctx, graph, &computed));
    status_t status = context_get_zeroed(ctx, sizeof *programs, "a plan method", &programs);
    TRY_OR(status, graph_release(computed));
    programs->allocator = *context_allocator(ctx);
    programs->graph = graph_retain(graph);
    programs->computed = computed;
    programs->capacity = capacity > 0 ? capacity : PLAN_CAPACITY;
    pthread_mutex_init(&programs->lock, NULL);
    pthread_cond_init(&programs->changed, NULL);
    status = arenas_create(ctx, &programs->arenas);
    GIVE(status, out_programs, programs, programs_release(programs));
}

/* Drops a reference to an entry. The caller holds the lock. */
static void let_go(const programs_t *programs, programs_entry_t *entry)
{
    if (--entry->n_references > 0) return;
    program_release(entry->program);
    allocator_put(&programs->allocator, entry->layout);
    allocator_put(&programs->allocator, entry);
}

static void release_one(programs_t *programs)
{
    allocator_t allocator = programs->allocator;
    while (programs->entries != NULL) {
        programs_entry_t *next = programs->entries->next;
        let_go(programs, programs->entries);
        programs->entries = next;
    }
    programs_end_anchors(programs);
    while (programs->refusals != NULL) {
        programs_refusal_t *next = programs->refusals->next;
        allocator_put(&allocator, programs->refusals);
        programs->refusals = next;
    }
    arenas_release(programs->arenas);
    graph_release(programs->computed);
    graph_release(programs->graph);
    allocator_put(&allocator, programs->layouts);
    allocator_put(&allocator, (void *)programs->skip);
    pthread_cond_destroy(&programs->changed);
    pthread_mutex_destroy(&programs->lock);
    allocator_put(&allocator, programs);
}

void programs_release(programs_t *programs)
{
    while (programs != NULL) {
        programs_t *next = programs->next;
        programs_unwatch(programs);
        release_one(programs);
        programs = next;
    }
}

/* ---- the list of entries; the caller holds the lock ---- */

static void list(programs_t *programs, programs_entry_t *entry)
{
    entry->next = programs->entries;
    programs->entries = entry;
}

static void unlist(programs_t *programs, const programs_entry_t *entry)
{
    programs_entry_t **at = &programs->entries;
    while (*at != entry) at = &(*at)->next;
    *at = entry->next;
}

bool programs_same_inputs(int n_known, const tensor_info_t *known, int n_in,
                          const tensor_info_t *const *in)
{
    bool are_same = n_known == n_in;
    for (int i = 0; i < n_in && are_same; i++)
        are_same = in[i] != NULL && in[i]->dtype == known[i].dtype &&
                   shape_equal(in[i]->rank, in[i]->sizes, known[i].rank, known[i].sizes);
    return are_same;
}

static bool matches(const programs_entry_t *entry, int n_threads, int n_in,
                    const tensor_info_t *const *in)
{
    return entry->n_threads == n_threads &&
           programs_same_inputs(entry->n_inputs, entry->inputs, n_in, in);
}

bool programs_serve(const programs_t *programs, int n_in, const tensor_info_t *const *in)
{
    for (const programs_entry_t *entry = programs->entries; entry != NULL; entry = entry->next)
        if (programs_same_inputs(entry->n_inputs, entry->inputs, n_in, in)) return true;
    return false;
}

static void move_to_front(programs_t *programs, programs_entry_t *entry)
{
    unlist(programs, entry);
    list(programs, entry);
}

static bool is_abandoned(const programs_entry_t *entry)
{
    return entry->state == PROGRAMS_COMPILING && entry->forks != threads_forks();
}

/* Finds the entry for these inputs and moves it to the front; NULL if there is none. */
static programs_entry_t *find(programs_t *programs, int n_threads, int n_in,
                              const tensor_info_t *const *in)
{
    programs_entry_t *entry = programs->entries;
    while (entry != NULL && (!matches(entry, n_threads, n_in, in) || is_abandoned(entry)))
        entry = entry->next;
    if (entry != NULL) move_to_front(programs, entry);
    return entry;
}

/* Removes the least recently used program from the list, but not one of the first n_kept, and
 * returns it; NULL if there is none. Skips programs that are being compiled. Packed weights that no
 * other program reads are freed with the program, after its last run. */
static programs_entry_t *take_surplus(programs_t *programs, int n_kept)
{
    programs_entry_t *last = NULL;
    int n = 0;
    for (programs_entry_t *entry = programs->entries; entry != NULL; entry = entry->next) {
        if (entry->state != PROGRAMS_READY) continue;
        last = entry;
        n++;
    }
    if (n <= n_kept) return NULL;
    unlist(programs, last);
    program_retire(last->program);
    return last;
}

/* Number of most recently used programs that are kept whatever their size. */
#define LEAST_KEPT 2

/* Counts the most recently used programs to keep: the first LEAST_KEPT, and those after them whose
 * bytes fit in the context's limit. *out_bytes: bytes of the latter; *out_beyond: bytes of programs
 * that are not kept. A packed weight counts for the first program that reads it. */
static status_t count_within_bytes(context_t *ctx, const programs_t *programs, int *out_n,
                                   size_t *out_bytes, size_t *out_beyond)
{
    hash_table_t seen = {0};
    int n = 0;
    status_t status = STATUS_OK;
    *out_bytes = *out_beyond = 0;
    for (const programs_entry_t *entry = programs->entries; entry != NULL; entry = entry->next) {
        size_t bytes = 0;
        if (entry->state != PROGRAMS_READY) continue;
        status = program_form_bytes(ctx, entry->program, &seen, &bytes);
        if (status != STATUS_OK) break;
        bytes += entry->own_bytes;
        if (*out_beyond > 0 || n == programs->capacity ||
            (n >= LEAST_KEPT && *out_bytes + bytes > context_plan_bytes(ctx)))
            *out_beyond += bytes;
        else if (n++ >= LEAST_KEPT)
            *out_bytes += bytes;
    }
    hash_clear(ctx, &seen);
    *out_n = n;
    return status;
}

/* Frees arena blocks larger than the remaining programs need. */
static void trim_arenas(const programs_t *programs)
{
    size_t most = 0;
    for (const programs_entry_t *entry = programs->entries; entry != NULL; entry = entry->next) {
        if (entry->state != PROGRAMS_READY) continue;
        const size_t bytes = program_run_bytes(entry->program);
        most = bytes > most ? bytes : most;
    }
    arenas_trim(programs->arenas, most);
}

/* After freeing this many bytes, asks the C library to return free pages to the system. Packed
 * weights are large, but smaller allocations between them prevent the heap from shrinking. */
#define FREED_BYTES ((size_t)32 << 20)

static status_t evict(context_t *ctx, programs_t *programs)
{
    programs_entry_t *entry = NULL;
    size_t bytes = 0, beyond = 0;
    int n_kept = 0;
    TRY(count_within_bytes(ctx, programs, &n_kept, &bytes, &beyond));
    context_counters(ctx)->plan_bytes = bytes;
    while ((entry = take_surplus(programs, n_kept)) != NULL) {
        text_t key = text_begin(ctx);
        programs_print_key(entry, &key);
        trace_event(ctx, TRACE_PLAN, "evicted,%s,\"%s\",%d", graph_name(programs->graph),
                    text_string(&key), programs->capacity);
        text_clear(&key);
        context_counters(ctx)->plans_evicted++;
        let_go(programs, entry);
    }
    trim_arenas(programs);
    programs->freed_bytes += beyond;
    if (programs->freed_bytes >= FREED_BYTES) {
        programs->freed_bytes = 0;
        allocator_trim(&programs->allocator);
    }
    return STATUS_OK;
}

void programs_forget(programs_t *programs)
{
    pthread_mutex_lock(&programs->lock);
    for (programs_entry_t *entry = programs->entries, *next; entry != NULL; entry = next) {
        next = entry->next;
        if (entry->state != PROGRAMS_READY) continue;
        unlist(programs, entry);
        let_go(programs, entry);
    }
    pthread_mutex_unlock(&programs->lock);
}

/* ---- lookup ---- */

static status_t add_entry(context_t *ctx, programs_t *programs, int n_in,
                          const tensor_info_t *const *in, programs_entry_t **out_entry)
{
    programs_entry_t *entry = NULL;
    size_t bytes = sizeof *entry + (size_t)n_in * sizeof(tensor_info_t);
    TRY(graph_check_inputs(ctx, programs->graph, n_in, in));
    TRY(programs_memory(ctx, programs, bytes, "a plan", &entry));
    entry->n_references = 2; /* for the list and the compiling thread */
    entry->n_threads = context_threads(ctx);
    entry->n_inputs = n_in;
    entry->forks = threads_forks();
    for (int i = 0; i < n_in; i++)
        entry->inputs[i] = info_dense(in[i]->dtype, in[i]->rank, in[i]->sizes);
    list(programs, entry);
    *out_entry = entry;
    return STATUS_OK;
}

/* Compiles an entry. The caller holds the lock, which is released while compiling. */
static status_t fill_entry(context_t *ctx, programs_t *programs, module_t *self,
                           programs_entry_t *entry)
{
    char *known = NULL, *lines = NULL;
    text_t chosen = text_begin(ctx);
    status_t status = programs_known_layout(ctx, programs, entry, &known);
    if (status == STATUS_OK) status = programs_known_lines(ctx, programs, entry, &lines);
    pthread_mutex_unlock(&programs->lock);
    if (status == STATUS_OK)
        status = programs_compile(ctx, programs, self, known, lines, entry, &chosen);
    const bool has_timings = layout_has_timings(lines);
    const bool is_new = known == NULL || strcmp(known, text_string(&chosen)) != 0;
    CONTEXT_PUT(ctx, known, lines);
    pthread_mutex_lock(&programs->lock);
    if (status == STATUS_OK && !has_timings && is_new)
        status = programs_add_anchor(ctx, programs, entry, text_string(&chosen));
    text_clear(&chosen);
    if (status == STATUS_OK) {
        entry->state = PROGRAMS_READY;
        move_to_front(programs, entry); /* other entries may have been used meanwhile */
        status = evict(ctx, programs);
    }
    if (status == STATUS_OK) {
        context_counters(ctx)->plans_built++;
    } else {
        entry->state = PROGRAMS_FAILED;
        unlist(programs, entry);
        let_go(programs, entry);
    }
    pthread_cond_broadcast(&programs->changed);
    return status;
}

static void wait_for(programs_t *programs, programs_entry_t *entry)
{
    entry->n_references++;
    while (entry->state == PROGRAMS_COMPILING)
        pthread_cond_wait(&programs->changed, &programs->lock);
}

/* Returns an entry with an additional reference. If another thread fails to compile the entry, each
 * waiting thread compiles it again, so that each reports the error. */
static status_t get_entry(context_t *ctx, programs_t *programs, module_t *self, int n_in,
                          const tensor_info_t *const *in, programs_entry_t **out_entry)
{
    programs_entry_t *entry = NULL;
    while ((entry = find(programs, context_threads(ctx), n_in, in)) != NULL) {
        wait_for(programs, entry);
        *out_entry = entry;
        if (entry->state == PROGRAMS_READY) return STATUS_OK;
        let_go(programs, entry);
    }
    TRY(add_entry(ctx, programs, n_in, in, &entry));
    status_t status = fill_entry(ctx, programs, self, entry);
    GIVE(status, out_entry, entry, let_go(programs, entry));
}

status_t programs_get(context_t *ctx, programs_t *programs, module_t *self, int n_in,
                      const tensor_info_t *const *in, program_t **out_program)
{
    programs_entry_t *entry = NULL;
    pthread_mutex_lock(&programs->lock);
    status_t status = get_entry(ctx, programs, self, n_in, in, &entry);
    if (status == STATUS_OK) {
        *out_program = program_retain(entry->program);
        let_go(programs, entry);
    }
    pthread_mutex_unlock(&programs->lock);
    return status;
}

program_t *programs_last(programs_t *programs)
{
    pthread_mutex_lock(&programs->lock);
    programs_entry_t *entry = programs->entries;
    while (entry != NULL && entry->state != PROGRAMS_READY) entry = entry->next;
    program_t *program = entry != NULL ? program_retain(entry->program) : NULL;
    pthread_mutex_unlock(&programs->lock);
    return program;
}

int programs_capacity(programs_t *programs)
{
    pthread_mutex_lock(&programs->lock);
    int capacity = programs->capacity;
    pthread_mutex_unlock(&programs->lock);
    return capacity;
}

void programs_set_capacity(programs_t *programs, int capacity)
{
    programs_entry_t *entry = NULL;
    pthread_mutex_lock(&programs->lock);
    programs->capacity = capacity > 0 ? capacity : PLAN_CAPACITY;
    while ((entry = take_surplus(programs, programs->capacity)) != NULL) let_go(programs, entry);
    pthread_mutex_unlock(&programs->lock);
}
