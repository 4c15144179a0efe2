/* The programs of a method: one for each set of input dtypes and sizes and number of threads.
 *
 * The lock is held to look, never to compile: while a thread compiles for new sizes, others run on
 * with what there is, and one that wants the same sizes waits for that entry alone. */
#ifndef TESSERA_GRAPH_METHOD_PROGRAMS_IMPL_H
#define TESSERA_GRAPH_METHOD_PROGRAMS_IMPL_H

#include <pthread.h>

#include "graph/program/program_impl.h"
#include "tensor/text.h"

typedef enum programs_state {
    PROGRAMS_COMPILING,
    PROGRAMS_READY,
    PROGRAMS_FAILED /* no longer listed; whoever waited tries himself */
} programs_state_t;

typedef struct programs_entry {
    struct programs_entry *next;
    int n_references; /* the list, who compiles, who waits; under the lock */
    programs_state_t state;
    int n_threads, n_inputs;
    int forks; /* threads_forks where it is compiled: in a forked child nobody compiles it */
    program_t *program;
    char *layout;           /* what the layout pass chose; NULL while it is compiled */
    size_t own_bytes;       /* program_own_bytes */
    tensor_info_t inputs[]; /* dtype and sizes matter */
} programs_entry_t;

/* Sizes that layouts were searched for, and what was chosen for these, kernels named. Sizes near
 * them take the same choice. */
typedef struct programs_anchor {
    struct programs_anchor *next;
    int n_threads, n_inputs;
    char *layout;
    tensor_info_t inputs[];
} programs_anchor_t;

/* Entries are listed with the most recently used first. */
typedef struct programs {
    allocator_t allocator;
    graph_t *graph;
    graph_t *computed; /* what programs are made of: `graph`, or widened for this processor */
    int capacity;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* an entry is no longer compiling */
    programs_entry_t *entries;
    programs_anchor_t *anchors; /* the latest first */
    size_t freed_bytes;         /* by evictions, since the allocator was trimmed */
    arenas_t *arenas;           /* that all programs run in */
    char *layouts; /* lines "infos;choice" of programs to come, and "#name;nanoseconds" of ways that
                      were measured, for `layouts_threads`; NULL: none */
    int layouts_threads;
    const char **skip; /* passes that programs leave out, NULL-terminated, names behind; or NULL */
    struct programs *next; /* of the method's next graph, for inputs that this one refuses; owned */
    _Atomic(struct programs *) used; /* of the first: whose graph ran last; NULL: its own */
} programs_t;

status_t programs_create(context_t *ctx, graph_t *graph, int capacity, programs_t **out_programs);
void programs_release(programs_t *programs);

/* Those of a method that runs as plans, of its first graph; or NULL. */
programs_t *programs_of(const module_t *module, const char *method);

/* Those of the first graph of the method that takes these inputs; of the first one, which then
 * refuses them in words, where there is no other. INVALID_ARGUMENT: of several none does. */
status_t programs_choose(context_t *ctx, programs_t *first, int n_in,
                         const tensor_info_t *const *in, programs_t **out_programs);

/* A copy for another module: the same graphs, without programs. */
status_t programs_clone(context_t *ctx, programs_t *first, programs_t **out_programs);

/* Puts those of another graph behind all others of the method. */
void programs_append(programs_t *first, programs_t *other);

/* The program for these inputs, retained: found, waited for or compiled. */
status_t programs_get(context_t *ctx, programs_t *programs, module_t *self, int n_in,
                      const tensor_info_t *const *in, program_t **out_program);

/* That of the entry used last, retained; NULL when there is none. */
program_t *programs_last(programs_t *programs);

/* How many entries are kept; those beyond go at once. */
int programs_capacity(programs_t *programs);
void programs_set_capacity(programs_t *programs, int capacity);

/* Lets all programs go that nobody compiles: those to come are compiled anew. */
void programs_forget(programs_t *programs);

/* Compiles what an entry is for; of the entry only `program`, `layout` and `own_bytes` are written.
 * known: what the layout pass shall choose, or NULL; timings: measured times that it may choose by,
 * or NULL. `chosen` takes the layout with the names of its kernels. */
status_t programs_compile(context_t *ctx, const programs_t *programs, module_t *self,
                          const char *known, const char *timings, programs_entry_t *entry,
                          text_t *chosen);

/* ---- what the layout pass chose ---- */

/* "f32[1,3,224,224] s64[4];" */
void programs_print_key(const programs_entry_t *entry, text_t *text);

/* A copy of all such lines, by the context; NULL when there are none for the entry's threads. Under
 * the lock. */
status_t programs_known_lines(context_t *ctx, const programs_t *programs,
                              const programs_entry_t *entry, char **out_lines);

/* The layout that a plan for an entry's inputs takes without a search, a copy by the context: the
 * one that the file has for exactly these inputs, else that of an anchor near them; NULL: neither
 * exists. Under the lock. */
status_t programs_known_layout(context_t *ctx, const programs_t *programs,
                               const programs_entry_t *entry, char **out_layout);

/* Keeps the layout that a search chose for an entry's inputs, as an anchor. Beyond a fixed number
 * the oldest anchor goes. Under the lock. */
status_t programs_add_anchor(context_t *ctx, programs_t *programs, const programs_entry_t *entry,
                             const char *layout);
void programs_end_anchors(programs_t *programs);

/* As plan_layouts and plan_set_layouts. */
status_t programs_layouts(context_t *ctx, programs_t *programs, text_t *text);
status_t programs_set_layouts(context_t *ctx, programs_t *programs, const char *lines);

/* Lines of the same keys give way to these, all others stay. */
status_t programs_add_layouts(context_t *ctx, programs_t *programs, const char *lines);

/* Programs to come leave these passes out; before the first. skip may be NULL. */
status_t programs_leave_out(context_t *ctx, programs_t *programs, const char *const *skip);

/* What the programs of a method keep is their own allocator's, whichever context asks. Zeroed. */
status_t programs_memory(context_t *ctx, const programs_t *programs, size_t bytes,
                         const char *purpose, void *out_block);
status_t programs_string(context_t *ctx, const programs_t *programs, const char *text,
                         char **out_text);

#endif
