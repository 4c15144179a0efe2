/* Data structures of plans, used for building and running.
 *
 * The folder graph/program contains what runs a graph: plans of operators, and programs, which
 * run plans between the nodes of control flow. */
#ifndef TESSERA_GRAPH_PROGRAM_PLAN_IMPL_H
#define TESSERA_GRAPH_PROGRAM_PLAN_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "dispatch/pack_impl.h"
#include "graph/program/arenas_impl.h"
#include "graph/program/plan.h"
#include "tensor/convert/convert_impl.h"
#include "tensor/hash_impl.h"

/* A plan_root_t is a buffer: a range of bytes that contains values. A view is in the same buffer as
 * the tensor it shows. */
typedef enum root_kind {
    ROOT_INPUT,    /* input `index` of each run; with is_shared, possibly state (program_impl.h) */
    ROOT_CONSTANT, /* snapshot of a constant */
    ROOT_ARENA,    /* at `offset` in the frame's arena */
    ROOT_OUTPUT    /* a tensor that each run allocates */
} root_kind_t;

typedef struct plan_root {
    root_kind_t kind;
    int index;          /* ROOT_INPUT */
    tensor_t *tensor;   /* ROOT_CONSTANT: the graph's tensor, retained; caches packed copies */
    tensor_t *snapshot; /* ROOT_CONSTANT: what runs read, since the graph's tensor may be written */
    tensor_info_t info; /* info of the complete buffer; ROOT_OUTPUT allocates it */
    size_t bytes, offset;
    int first_step, last_step; /* ROOT_ARENA: steps that first write and last read it */
    int last_node; /* while building: last node that reads a value in the buffer, or -1 */
    int twin;      /* ROOT_ARENA: 1 + the buffer with the same offset, or 0. A step that extends its
                      first input in place makes twins of this input and its result */
    int block;     /* ROOT_ARENA: 1 + the block that contains it, or 0. Each worker has a copy */
    int n_copies;  /* for a block: number of copies; else 0 */
    size_t copy_bytes; /* for a buffer in a block: distance between two workers' copies; else 0 */
    int64_t n_rows;    /* for a value inside a chain: rows of the image that the buffer holds */
    bool is_shared;    /* ROOT_INPUT: uses the bytes of the passed tensor itself, not of a converted
                          copy, because they are written during the run or stored in an attribute */
    bool is_written;   /* ROOT_INPUT: some step writes it */
} plan_root_t;

/* Kinds of places from which a step reads an input. */
typedef enum source_kind {
    SOURCE_NONE,
    SOURCE_ROOT,
    SOURCE_TENSOR,
    SOURCE_PARAMETER,
    SOURCE_DATUM /* call argument that is a constant, but not a tensor */
} source_kind_t;

/* A parameter that steps read at each run. */
typedef struct plan_parameter {
    const char *path;   /* path in the module; stored in the graph's arena */
    tensor_info_t info; /* planned dtype and sizes */
} plan_parameter_t;

/* An info that sources and steps of a plan share. Infos are large, and most are equal. */
typedef struct plan_info {
    struct plan_info *next;
    tensor_info_t info;
} plan_info_t;

typedef struct plan_source {
    source_kind_t kind;
    int root; /* SOURCE_PARAMETER: buffer for a converted copy that only one step reads, or -1 */
    size_t offset;
    size_t stride;      /* SOURCE_ROOT: distance between slices of the batch */
    tensor_t *tensor;   /* SOURCE_TENSOR: read by the step, packed while building; retained */
    tensor_t *given;    /* SOURCE_TENSOR: the graph's constant, for observers; retained */
    int parameter;      /* SOURCE_PARAMETER: index in the plan's parameters */
    datum_t *datum;     /* SOURCE_DATUM: owned by the graph */
    tensor_info_t info; /* format of the source's bytes */
    bool is_view;       /* SOURCE_PARAMETER: the step reads a view that begins at `offset` */
    const tensor_info_t *base; /* format that the parameter must have for the view */
    const tensor_info_t *view;
    const tensor_info_t *want; /* SOURCE_PARAMETER: format that the step needs */
    bool is_weight;
    const kernel_t *kernel; /* the kernel that reads a weight */
} plan_source_t;

typedef struct step {
    plan_step_t view;     /* shown by explain */
    prepared_t *prepared; /* NULL: converts source 0 into the output */
    int n_sources, n_outputs;
    plan_source_t *sources;
    int *output_roots;
    size_t *output_offsets;
    size_t *output_strides;      /* distance between slices of the batch */
    onednn_primitive_t *reorder; /* for conversions that are one oneDNN reorder, else NULL */
    convert_pack_t pack;         /* pack function of the kernel that reads format `to`, or NULL */
    const tensor_info_t *from, *to; /* for conversions; `from` also for setattr */
    reorder_cause_t cause;
    bool is_in_place;      /* output 0 is the target of an in-place operator */
    const char *attribute; /* attribute of self that the step sets to source 0, or NULL */
    const char *method;    /* method of self that the step calls with the sources, or NULL */
    int scratch;           /* the buffer of the kernel's scratch memory, or -1 */
    int first_argument;    /* for a call: index in the run's arguments */
} step_t;

/* Steps that run one after another for one slice of the batch, then for the next slice. Either all
 * threads share each step, or each worker runs all steps for its own slices on one thread. */
typedef struct plan_loop {
    int first_step, n_steps, n_slices;
    int n_workers; /* 1: all threads share each step */
} plan_loop_t;

/* The rows of a step's result in one band. */
typedef struct plan_band {
    int64_t first, last; /* rows to compute: first to last - 1 */
    int64_t kept;        /* the first row in the buffer of a value inside the chain */
} plan_band_t;

/* Steps that run one after another for a band of rows of an image, then for the next band. Only the
 * next step of the chain reads the result of a step, except for the last. */
#define PLAN_CHAIN_MOST 8
typedef struct plan_chain {
    int first_step, n_steps, n_bands;
    size_t scratch[PLAN_CHAIN_MOST]; /* bytes for a band of each step */
    plan_band_t *bands;              /* [n_bands][n_steps] */
} plan_chain_t;

typedef struct plan_frame {
    struct plan_frame *next;
    char *arena;      /* leased from the plan's arenas; between runs the previous address */
    void *workers;    /* see plan_workers_bytes */
    tensor_t **bound; /* [n_roots] tensors of inputs and outputs, NULL between runs; follows
                         pointers */
    const tensor_t **parameters; /* [n_parameters] borrowed; valid while module_changes returns
                                    `changes`; stored after bound */
    uint64_t changes;            /* 0: not looked up yet */
    void *pointers[];            /* [n_roots] */
} plan_frame_t;

typedef struct plan_result {
    int root;
    size_t offset;
    tensor_info_t info;
    bool is_whole; /* a complete buffer that a run allocates, with the buffer's info */
} plan_result_t;

struct plan {
    atomic_int n_references;
    allocator_t allocator;
    graph_t *graph;
    module_t *self; /* borrowed: the module owns the method, which owns the plan */
    int n_inputs, n_roots, n_steps, n_results, n_parameters;
    int n_threads;   /* threads for which kernels were prepared; runs use no more */
    int n_arguments; /* total over all calls */
    plan_parameter_t *parameters;
    tensor_info_t *inputs; /* expected inputs: dense, or in the tag or strides of the graph */
    plan_root_t *roots;
    step_t *steps;
    plan_info_t *infos;
    int n_loops;
    plan_loop_t *loops; /* sorted by first step */
    int n_chains;
    plan_chain_t *chains; /* the same; no step is in a loop and in a chain */
    plan_result_t *results;
    size_t arena_bytes, weight_bytes;
    arenas_t *arenas;       /* the plan's own, or shared by its method */
    atomic_bool is_retired; /* its last release also releases unused packed weights */
    pthread_mutex_t lock;
    plan_frame_t *idle;
};

/* Makes later runs lease their memory from these arenas. Call it before the first run. */
void plan_share_arenas(plan_t *plan, arenas_t *arenas);

/* Estimates the bytes of steps, primitives and frames, which are freed with the plan. Graph, arena
 * and weights are not included. */
size_t plan_own_bytes(const plan_t *plan);

/* Counts the bytes of packed constants that steps read and that are not in `seen`; adds these to
 * `seen`. */
status_t plan_form_bytes(context_t *ctx, const plan_t *plan, hash_table_t *seen, size_t *out_bytes);

/* Makes the last release also free packed copies of constants that no other plan reads. */
void plan_retire(plan_t *plan);

/* How a value's bytes are shared while a region runs. */
typedef enum plan_share {
    PLAN_ALONE,  /* nothing writes them, so a plan may copy or convert them */
    PLAN_SHARED, /* written during the run or stored in an attribute; all values that share them
                    must keep doing so */
    PLAN_VIEWED  /* PLAN_SHARED, and some of the values are views, so all must be dense */
} plan_share_t;

/* Like plan_create, for a region of a program. Results keep the layout and format of their types;
 * plan_create makes them dense. The region may write in place and set attributes of self. shares
 * [n_values] describes the sharing of each value's bytes. */
status_t plan_create_region(context_t *ctx, const graph_t *graph, module_t *self,
                            const plan_share_t *shares, plan_t **out_plan);

/* A parameter (a weight in training) that methods called by the plan write, and the format in which
 * they write it. */
typedef struct plan_master {
    const char *path;
    tensor_info_t info;
} plan_master_t;

/* Like plan_create_region, for a graph that also calls methods of self without results, such as the
 * update of a training step: call(%self, "conv1.weight", %gradient) method="update". Arguments are
 * tensors in the plan's memory: valid during the run, and not to be written. Arguments and results
 * are created before the first step, so after a call only another call can fail. If only one step
 * reads a converted copy of such a parameter, it is made in the arena; a cached copy would be out
 * of date at the next run. */
status_t plan_create_calling(context_t *ctx, const graph_t *graph, module_t *self,
                             const plan_share_t *shares, int n_masters,
                             const plan_master_t *masters, plan_t **out_plan);

/* Adds arena buffers for converted copies of masters that only one step reads. Call it after
 * building all steps and before plan_place. */
status_t plan_add_passing_forms(context_t *ctx, plan_t *plan, int n_masters,
                                const plan_master_t *masters, int *roots_capacity);

/* Adds an arena buffer for the scratch memory of each step's kernel; in a loop of workers each
 * worker has a copy. Scratch shares bytes with values that are not needed during the step. Call it
 * before plan_place. */
status_t plan_add_scratch(context_t *ctx, plan_t *plan, int *roots_capacity);

/* True if input `index` has this planned dtype and sizes; for a shared input, also this format. */
bool plan_takes(const plan_t *plan, int index, const tensor_info_t *info);

/* True if the plan would convert one input and write another that overlaps it: the converted copy
 * would miss the write. plan_takes must be true for all inputs. */
bool plan_splits(const plan_t *plan, const tensor_t *const *in);

/* True if two elements of a tensor have the same address, as in f32[4]{0}. */
bool plan_overlaps_itself(const tensor_info_t *info);

/* Returns the plan's copy of an info; equal infos share one. */
status_t plan_keep_info(context_t *ctx, plan_t *plan, const tensor_info_t *info,
                        const tensor_info_t **out_info);

/* Releases the tensors of a source. */
void plan_source_clear(const plan_source_t *source);

/* Like plan_run, but the caller owns the results, not a scope. out [n_results]. */
status_t plan_execute(context_t *ctx, plan_t *plan, int n_in, const tensor_t *const *in,
                      tensor_t **out);
/* Like plan_execute, but writes result i directly to wanted[i] if possible; in this case, out[i] is
 * wanted[i], or another tensor with its bytes. NULL in wanted means no request. INVALID_ARGUMENT,
 * before the run, if number, dtypes or sizes differ from those of the results. */
status_t plan_execute_into(context_t *ctx, plan_t *plan, int n_in, const tensor_t *const *in,
                           int n_wanted, tensor_t *const *wanted, tensor_t **out);

/* Turns ranges of steps into loops over slices of the batch: each step then finds the output of the
 * step before in a cache, and workers need not wait for each other. Call it before plan_join. */
status_t plan_slice(context_t *ctx, plan_t *plan, int *roots_capacity);

/* Keeps buffers that a loop accesses by slices alive during the loop. Call it after plan_join. */
void plan_keep_sliced(plan_t *plan);

/* Turns ranges of steps into chains, which compute bands of rows, where this makes the arena
 * smaller. Call it after plan_keep_sliced and before plan_add_scratch. */
status_t plan_band(context_t *ctx, plan_t *plan);

/* Scratch memory of a step: for a band, if it is in a chain. */
size_t plan_scratch_bytes(const plan_t *plan, int s);

/* Makes steps write parts of joins (concat) directly to the join's result, if possible. Call it
 * before plan_place. */
status_t plan_join(context_t *ctx, plan_t *plan, int *roots_capacity);

/* Rounds up to pages, so that threads rarely write to the same page. */
static inline size_t plan_round_to_page(size_t bytes)
{
    return (bytes + 4095) & ~(size_t)4095;
}

/* Assigns arena offsets to ROOT_ARENA buffers. Buffers alive at the same time do not overlap. */
status_t plan_place(context_t *ctx, plan_t *plan);

#endif
