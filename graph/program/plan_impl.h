/* The inside of plans, shared by building and running. */
#ifndef TESSERA_GRAPH_PROGRAM_PLAN_IMPL_H
#define TESSERA_GRAPH_PROGRAM_PLAN_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "dispatch/pack_impl.h"
#include "graph/program/arenas_impl.h"
#include "graph/program/plan.h"
#include "tensor/convert_impl.h"
#include "tensor/hash_impl.h"

/* A run of bytes that values lie in. Values that are views share their root. */
typedef enum root_kind {
    ROOT_INPUT,    /* given at each run; index is the input's; state where is_shared */
    ROOT_CONSTANT, /* snapshot */
    ROOT_ARENA,    /* offset in the frame's arena */
    ROOT_OUTPUT    /* a tensor made at each run */
} root_kind_t;

typedef struct plan_root {
    root_kind_t kind;
    int index;          /* ROOT_INPUT */
    tensor_t *tensor;   /* ROOT_CONSTANT: the graph's own, retained; packed forms hang on it */
    tensor_t *snapshot; /* ROOT_CONSTANT: what runs read, though the graph's own may be written */
    tensor_info_t info; /* of the whole: what ROOT_OUTPUT makes */
    size_t bytes, offset;
    int first_step, last_step; /* ROOT_ARENA: written first, read last */
    int last_node; /* while the plan is built: the last that reads a value which lies there, or -1
                    */
    int twin;      /* ROOT_ARENA: 1 + the root that has the same offset, since the one grows into
                      the other in a step that is the last of this and the first of that; or 0 */
    int block; /* ROOT_ARENA: 1 + the root that it lies in, of which each worker has a copy; or 0 */
    int n_copies;      /* of such a block; else 0 */
    size_t copy_bytes; /* of what lies in a block: from a worker's to the next one's; else 0 */
    bool is_shared; /* ROOT_INPUT: the plan uses the bytes of the tensor that is given, and no other
                       form of it: they are written, here or elsewhere, or the tensor is kept */
    bool is_written; /* ROOT_INPUT: a step writes it */
} plan_root_t;

/* Where a step finds an input. */
typedef enum source_kind {
    SOURCE_NONE,
    SOURCE_ROOT,
    SOURCE_TENSOR,
    SOURCE_PARAMETER,
    SOURCE_DATUM /* of a call: a constant that is no tensor */
} source_kind_t;

/* A parameter that steps read at each run, as it is then. */
typedef struct plan_parameter {
    const char *path;   /* of the module; in the graph's arena */
    tensor_info_t info; /* dtype and sizes that it was planned for */
} plan_parameter_t;

typedef struct plan_source {
    source_kind_t kind;
    int root; /* SOURCE_PARAMETER: room for a form that one step reads, or -1 */
    size_t offset;
    size_t stride;    /* SOURCE_ROOT: from a slice of the batch to the next */
    tensor_t *tensor; /* SOURCE_TENSOR: packed at build, retained */
    tensor_t *given;  /* SOURCE_TENSOR: the constant as the graph has it, for observers; retained */
    int parameter;    /* SOURCE_PARAMETER: of the plan's */
    datum_t *datum;   /* SOURCE_DATUM: the graph's */
    tensor_info_t info; /* as it lies there */
    bool is_view; /* SOURCE_PARAMETER: what is read is a view of it, which begins at `offset` */
    tensor_info_t base; /* of what lies as this */
    tensor_info_t view;
    tensor_info_t want; /* SOURCE_PARAMETER: what the step wants of it */
    bool is_weight;
    const kernel_t *kernel; /* that wants it, where it is a weight */
} plan_source_t;

typedef struct step {
    plan_step_t view;     /* what explain sees */
    prepared_t *prepared; /* NULL: conversion of source 0 into the output */
    int n_sources, n_outputs;
    plan_source_t *sources;
    int *output_roots;
    size_t *output_offsets;
    size_t *output_strides;      /* from a slice of the batch to the next */
    onednn_primitive_t *reorder; /* of a conversion that oneDNN does in one go, else NULL */
    convert_pack_t pack;         /* the kernel's that `to` is a format of, or NULL */
    tensor_info_t from, to;      /* conversions; `from` also of what goes into an attribute */
    reorder_cause_t cause;
    bool is_in_place;      /* output 0 is what an in-place operator writes */
    const char *attribute; /* of self that source 0 becomes, no more; NULL: of no attribute */
    const char *method;    /* of self that is called with the sources, no more; NULL: none is */
    int first_argument;    /* of a call: among those of a run */
} step_t;

/* Steps that are run for a slice of the batch, one behind another, then for the next slice. Either
 * all threads run each step together, or each worker runs slices of its own, on one thread. */
typedef struct plan_loop {
    int first_step, n_steps, n_slices;
    int n_workers; /* 1: all threads together */
} plan_loop_t;

typedef struct plan_frame {
    struct plan_frame *next;
    char *arena;   /* of the plan's arenas, while the frame is leased; as it was placed before */
    char *scratch; /* behind the arena */
    void *workers; /* see plan_workers_bytes */
    tensor_t *
        *bound; /* [n_roots]: inputs and outputs of the run, NULL between runs; behind pointers */
    const tensor_t **parameters; /* [n_parameters]: borrowed, found when `changes` was what
                                    module_changes gave; behind bound */
    uint64_t changes;            /* 0: not found yet */
    void *pointers[];            /* [n_roots] */
} plan_frame_t;

typedef struct plan_result {
    int root;
    size_t offset;
    tensor_info_t info;
    bool is_whole; /* all of a root that a run makes, with the root's own info */
} plan_result_t;

struct plan {
    atomic_int n_references;
    allocator_t allocator;
    graph_t *graph;
    module_t *self; /* borrowed: the module that holds the method holds the plan */
    int n_inputs, n_roots, n_steps, n_results, n_parameters;
    int n_threads;   /* it was prepared for: runs have no more */
    int n_arguments; /* of all calls */
    plan_parameter_t *parameters;
    tensor_info_t *inputs; /* expected: dense, or in the tag or strides that the graph says */
    plan_root_t *roots;
    step_t *steps;
    int n_loops;
    plan_loop_t *loops; /* by their first steps */
    plan_result_t *results;
    size_t arena_bytes, scratch_bytes, weight_bytes;
    size_t worker_scratch;  /* bytes of scratch_bytes from a worker's to the next one's */
    arenas_t *arenas;       /* its own, or those of its method */
    atomic_bool is_retired; /* forms of weights that nobody else holds go with it */
    pthread_mutex_t lock;
    plan_frame_t *idle;
};

/* Runs from now on lease their memory there; before the first run. */
void plan_share_arenas(plan_t *plan, arenas_t *arenas);

/* The bytes of a run's arena and scratch. */
size_t plan_run_bytes(const plan_t *plan);

/* An estimate of the bytes that end with the plan: its steps, primitives and frames, without its
 * graph, arenas and weights. */
size_t plan_own_bytes(const plan_t *plan);

/* Bytes of the forms of constants that its steps read and that are not in `seen` yet, which they
 * are after. */
status_t plan_form_bytes(context_t *ctx, const plan_t *plan, hash_table_t *seen, size_t *out_bytes);

/* With the last reference forms of constants go, too, that no other plan reads. */
void plan_retire(plan_t *plan);

/* Who else has the bytes of a value while a region runs. */
typedef enum plan_share {
    PLAN_ALONE,  /* nobody writes them: a plan may copy or convert them as it likes */
    PLAN_SHARED, /* written somewhere in the run, or kept in an attribute: all names of these bytes
                    stay names of the same bytes */
    PLAN_VIEWED  /* the same, and views share them: dense */
} plan_share_t;

/* plan_create for a region of a program: results leave in the layout and format that their types
 * say, where plan_create makes them dense. The region may write in place and set attributes of
 * self: `shares` tells of each value of the graph who else has its bytes. */
status_t plan_create_region(context_t *ctx, const graph_t *graph, module_t *self,
                            const plan_share_t *shares, plan_t **out_plan);

/* A parameter that calls of the plan write in this form. */
typedef struct plan_master {
    const char *path;
    tensor_info_t info;
} plan_master_t;

/* The same for a graph that calls methods of self which give nothing, as the update of a training
 * step: call(%self, "conv1.weight", %gradient) method="update". A method is called in its turn
 * with tensors over the plan's own bytes, which end with the run and may not be written; tensors
 * and results are made before the first step is run, so that a call is the last that may fail. Of
 * the masters' parameters a form that one step alone reads is made in the arena, for it would be
 * dirty before the next run. */
status_t plan_create_calling(context_t *ctx, const graph_t *graph, module_t *self,
                             const plan_share_t *shares, int n_masters,
                             const plan_master_t *masters, plan_t **out_plan);

/* Takes such forms of a plan whose steps are there, before roots are placed. */
status_t plan_add_passing_forms(context_t *ctx, plan_t *plan, int n_masters,
                                const plan_master_t *masters, int *roots_capacity);

/* True if input `index` is planned for this dtype and these sizes; of shared bytes, for this very
 * form, too. */
bool plan_takes(const plan_t *plan, int index, const tensor_info_t *info);

/* True if the plan would convert an input whose bytes it writes by another name: then it would read
 * the bytes as they were before. plan_takes is true for all of the inputs. */
bool plan_splits(const plan_t *plan, const tensor_t *const *in);

/* True for a tensor two elements of which lie in the same bytes, as f32[4]{0}. */
bool plan_overlaps_itself(const tensor_info_t *info);

/* Lets go of what a source holds. */
void plan_source_clear(const plan_source_t *source);

/* plan_run whose results belong to the caller, whatever scope is open; out has room for all. */
status_t plan_execute(context_t *ctx, plan_t *plan, int n_in, const tensor_t *const *in,
                      tensor_t **out);
/* The same, with result i written straight into wanted[i] where that can be: out[i] is then that,
 * or another tensor over its bytes. NULL: nothing is wanted for that result. INVALID_ARGUMENT,
 * before anything is run, for others than the results' dtypes, sizes and number. */
status_t plan_execute_into(context_t *ctx, plan_t *plan, int n_in, const tensor_t *const *in,
                           int n_wanted, tensor_t *const *wanted, tensor_t **out);

/* Has runs of steps done slice by slice of their batch, so that what one step writes the next reads
 * from a cache, and threads do not wait for each other; before plan_join. */
status_t plan_slice(context_t *ctx, plan_t *plan, int *roots_capacity);

/* What a step of a loop reads in one slice, or writes, others may read in another: its root lives
 * as long as the loop. After plan_join. */
void plan_keep_sliced(plan_t *plan);

/* Has the parts of joins (concat) written at their place in the result, where a plan's steps allow
 * it; before roots are placed. */
status_t plan_join(context_t *ctx, plan_t *plan, int *roots_capacity);

/* Up to whole pages, so that what one thread writes is seldom in a page of another's. */
static inline size_t plan_round_to_page(size_t bytes)
{
    return (bytes + 4095) & ~(size_t)4095;
}

/* Gives every root of kind ROOT_ARENA its offset, so that roots alive at once do not overlap. */
status_t plan_place(context_t *ctx, plan_t *plan);

#endif
