/* The programs (compiled graphs) of a method: one for each set of input dtypes and sizes and each
 * number of threads.
 *
 * The lock is held during lookups, but not while compiling. While one thread compiles for new
 * sizes, others run existing programs; only threads that need the same sizes wait. */
#ifndef TESSERA_GRAPH_METHOD_PROGRAMS_IMPL_H
#define TESSERA_GRAPH_METHOD_PROGRAMS_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "graph/method/method_impl.h"
#include "graph/program/program_impl.h"
#include "tensor/text/text.h"

typedef enum programs_state {
    PROGRAMS_COMPILING,
    PROGRAMS_READY,
    PROGRAMS_FAILED /* no longer in the list; each waiting thread tries to compile it */
} programs_state_t;

typedef struct programs_entry {
    struct programs_entry *next;
    int n_references; /* held by list, compiling and waiting threads; the lock protects it */
    programs_state_t state;
    int n_threads, n_inputs;
    int forks; /* threads_forks when compiling started; a forked child has no compiling thread */
    program_t *program;
    char *layout;           /* choice of the layout pass; NULL while compiling */
    size_t own_bytes;       /* program_own_bytes */
    tensor_info_t inputs[]; /* only dtype and sizes are used */
} programs_entry_t;

/* A layout that a search chose, with kernel names. Similar sizes use it without a search. */
typedef struct programs_anchor {
    struct programs_anchor *next;
    int n_threads, n_inputs;
    char *layout;
    tensor_info_t inputs[];
} programs_anchor_t;

/* Inputs that `extend` refused. */
typedef struct programs_refusal {
    struct programs_refusal *next;
    int n_inputs;
    tensor_info_t inputs[];
} programs_refusal_t;

/* Entries are sorted by last use, the latest first. */
typedef struct programs {
    allocator_t allocator;
    graph_t *graph;
    graph_t *computed; /* the graph that is compiled: `graph`, or one widened for this processor */
    int capacity;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* signals that an entry has left state COMPILING, or that is_extending
                               has become false */
    programs_entry_t *entries;
    programs_anchor_t *anchors; /* newest first */
    size_t freed_bytes;         /* bytes freed by evictions since the last allocator_trim */
    arenas_t *arenas;           /* shared by all programs */
    char *layouts; /* lines "infos;layout" for later programs and "#name;nanoseconds" of measured
                      kernels, for `layouts_threads`; or NULL */
    int layouts_threads;
    const char **skip;     /* passes to skip, NULL-terminated, followed by their names; or NULL */
    struct programs *next; /* programs of the next graph, which accepts other inputs; owned */
    _Atomic(struct programs *) used; /* for the first graph: the programs used last, or NULL */
    atomic_bool has_others;          /* for the first graph: there are or were more graphs */
    plan_extend_t *extend;           /* for the first graph; NULL: other inputs are refused */
    programs_refusal_t *refusals;    /* what extend refused, the latest first */
    bool is_extending;               /* a thread runs extend; others wait for `changed` */
    int extending_forks;             /* threads_forks when it began */
    bool is_added;                   /* `extend` made the graph, so it may be dropped */
    int n_users;                     /* if is_added: calls that use it; the first graph's lock */
    uint64_t used_at, n_uses;        /* order of use; the first graph counts uses */
    _Atomic(struct programs_watch *) watch; /* set by plan_watch for the first graph, or NULL */
} programs_t;

status_t programs_create(context_t *ctx, graph_t *graph, int capacity, programs_t **out_programs);
void programs_release(programs_t *programs);

/* Ends the watch of a method (plan_watch). programs_tell calls its function before. */
void programs_unwatch(programs_t *first);
void programs_tell(context_t *ctx, module_t *self, programs_t *first);

/* The programs of the first graph of a plan method; NULL for other methods. */
programs_t *programs_of(const module_t *module, const char *method);

/* Finds the programs of the first graph that accepts these inputs, or adds a graph for them if the
 * method can and self is not NULL. A single graph of a method that cannot is returned without a
 * check, because running it reports errors. The caller ends the use with programs_leave.
 * INVALID_ARGUMENT if no graph accepts the inputs. */
status_t programs_choose(context_t *ctx, programs_t *first, module_t *self, int n_in,
                         const tensor_info_t *const *in, programs_t **out_programs);
void programs_leave(programs_t *first, programs_t *programs);

/* Calls programs_choose, then programs_get for the chosen programs. Checks guards only for inputs
 * without a program. */
status_t programs_choose_program(context_t *ctx, programs_t *first, module_t *self, int n_in,
                                 const tensor_info_t *const *in, programs_t **out_programs,
                                 program_t **out_program);

/* The programs used last, or those of the first graph. The caller ends the use with
 * programs_leave. */
programs_t *programs_used(programs_t *first);

/* The programs of the index-th graph, without graphs that programs_choose added; NULL if there are
 * fewer. They are not dropped. */
programs_t *programs_at(programs_t *first, int index);

/* Makes programs for another module, with the same graphs and nothing compiled. */
status_t programs_clone(context_t *ctx, programs_t *first, programs_t **out_programs);

/* Appends the programs of another graph to the list that starts with `first`. */
void programs_append(programs_t *first, programs_t *other);

/* Returns the program for these inputs, retained: finds it, waits for it or compiles it. */
status_t programs_get(context_t *ctx, programs_t *programs, module_t *self, int n_in,
                      const tensor_info_t *const *in, program_t **out_program);

/* True if there is a program for these inputs, or one is being compiled. in[i] may be NULL. The
 * caller holds the lock. */
bool programs_serve(const programs_t *programs, int n_in, const tensor_info_t *const *in);

/* True if the inputs have the dtypes and sizes of `known`. in[i] may be NULL. */
bool programs_same_inputs(int n_known, const tensor_info_t *known, int n_in,
                          const tensor_info_t *const *in);

/* The program used last, retained; NULL if there is none. */
program_t *programs_last(programs_t *programs);

/* The maximum number of programs. If it is lowered, the least recently used programs are
 * dropped. */
int programs_capacity(programs_t *programs);
void programs_set_capacity(programs_t *programs, int capacity);

/* Drops all programs except those being compiled; they are compiled again when needed. */
void programs_forget(programs_t *programs);

/* Compiles the program of an entry. Writes only `program`, `layout` and `own_bytes`. known: a
 * layout to use, or NULL. timings: measured times with which layouts are chosen, or NULL. Appends
 * the used layout, with kernel names, to `chosen`. */
status_t programs_compile(context_t *ctx, const programs_t *programs, module_t *self,
                          const char *known, const char *timings, programs_entry_t *entry,
                          text_t *chosen);

/* ---- choices of the layout pass ---- */

/* Appends the entry's inputs as the key of a line: "f32[1,3,224,224] s64[4];". */
void programs_print_key(const programs_entry_t *entry, text_t *text);

/* Copies all lines for the entry's number of threads; the caller frees them. NULL if there are
 * none. The caller holds the lock. */
status_t programs_known_lines(context_t *ctx, const programs_t *programs,
                              const programs_entry_t *entry, char **out_lines);

/* The layout that an entry's program can use without a search: the line for exactly these inputs,
 * else that of an anchor with similar sizes; NULL if neither exists. The caller holds the lock, and
 * frees the copy. */
status_t programs_known_layout(context_t *ctx, const programs_t *programs,
                               const programs_entry_t *entry, char **out_layout);

/* Adds the result of a search as an anchor; drops the oldest anchors beyond a limit. The caller
 * holds the lock. */
status_t programs_add_anchor(context_t *ctx, programs_t *programs, const programs_entry_t *entry,
                             const char *layout);
void programs_end_anchors(programs_t *programs);

/* Implement plan_layouts and plan_set_layouts. */
status_t programs_layouts(context_t *ctx, programs_t *programs, text_t *text);
status_t programs_set_layouts(context_t *ctx, programs_t *programs, const char *lines);

/* Adds lines. They replace lines that have the same keys. */
status_t programs_add_layouts(context_t *ctx, programs_t *programs, const char *lines);

/* Makes all programs skip these passes. Call it before any is compiled. skip may be NULL. */
status_t programs_leave_out(context_t *ctx, programs_t *programs, const char *const *skip);

/* Allocate zeroed memory from the allocator of `programs`, for any context. */
status_t programs_memory(context_t *ctx, const programs_t *programs, size_t bytes,
                         const char *purpose, void *out_block);
status_t programs_string(context_t *ctx, const programs_t *programs, const char *text,
                         char **out_text);

#endif
