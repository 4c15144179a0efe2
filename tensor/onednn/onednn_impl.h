/* Declarations that the files of this folder share. A frame holds oneDNN's memory objects for a
 * run. */
#ifndef TESSERA_TENSOR_ONEDNN_ONEDNN_IMPL_H
#define TESSERA_TENSOR_ONEDNN_ONEDNN_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "tensor/onednn/api.h"
#include "tensor/onednn/onednn.h"

/* `kernel` is built at the first run, with the number of threads for which the primitive was
 * described (n_threads), because the description depends on it. Frames that no run uses are kept in
 * a list. */
struct onednn_primitive {
    atomic_int n_references;
    allocator_t allocator;
    dnnl_primitive_desc_t description;
    _Atomic(dnnl_primitive_t) kernel;
    _Atomic(onednn_frame_t *) idle; /* frame for the next call, NULL while a thread uses it */
    pthread_mutex_t lock;
    onednn_frame_t *more;            /* further idle frames, protected by the lock */
    const onednn_problem_t *problem; /* copy of the problem, stored after the primitive with its
                                        infos */
    onednn_primitive_t *forward;     /* the problem's forward primitive, which the description
                                        may refer to */
    const char *implementation;
    size_t scratch_bytes;
    int n_threads;
    int n_arguments;                         /* not counting scratch memory */
    uint8_t arguments[ONEDNN_MAX_ARGUMENTS]; /* onednn_argument_t */
};

#define ONEDNN_MAX_MEMORIES (ONEDNN_MAX_ARGUMENTS + 8)

typedef struct onednn_fold onednn_fold_t;

/* oneDNN's memory objects for a run: one for each argument, in order, then one for scratch memory
 * if needed. `given` lists them for oneDNN, with the constants that no run sets. */
struct onednn_frame {
    onednn_frame_t *next;          /* in the list of idle frames */
    onednn_primitive_t *primitive; /* borrowed: the owner of the frame holds the primitive */
    onednn_fold_t *fold;           /* NULL: oneDNN takes all arguments as they are */
    dnnl_exec_arg_t given[ONEDNN_MAX_MEMORIES];
    int n_given;
    dnnl_memory_t memories[ONEDNN_MAX_ARGUMENTS + 1];
    void *handles[ONEDNN_MAX_ARGUMENTS + 1]; /* pointers that the memory objects have now; NULL: not
                                                set */
    bool is_padded[ONEDNN_MAX_ARGUMENTS + 1];
};

#define ONEDNN_REFUSAL_MAX 160

struct onednn_stream {
    dnnl_stream_t stream;
    char refusal[ONEDNN_REFUSAL_MAX]; /* reason why onednn_describe last returned UNSUPPORTED */
};

dnnl_engine_t onednn_engine(void);

/* Makes a oneDNN memory descriptor from an info; NULL if info is NULL. The caller destroys it. */
dnnl_status_t onednn_md_create(const tensor_info_t *info, dnnl_memory_desc_t *out_md);

/* Converts a descriptor to an info. Returns false if no tag describes the format. */
bool onednn_md_info(const_dnnl_memory_desc_t md, tensor_info_t *out_info);

/* Like onednn_md_info, for any dtype. Also accepts formats that differ from a tag only in the order
 * of dimensions of size 1. */
bool onednn_md_info_of_any(const_dnnl_memory_desc_t md, tensor_info_t *out_info);

/* Convert a descriptor whose format no tag describes to the words of an opaque format, and back.
 * Fail if this version of oneDNN has no such format, or if another version made the words. */
bool onednn_md_words(const_dnnl_memory_desc_t md, int64_t *out_words);
dnnl_status_t onednn_md_of_words(const tensor_info_t *info, dnnl_data_type_t data_type,
                                 dnnl_memory_desc_t *out_md);

/* Number of infos that a problem has for a kind of argument: 4 weights in a recurrent layer, for
 * example. `first` is the first argument of the kind. */
int onednn_n_operands(const onednn_problem_t *problem, int first);

/* Returns the problem's info for an argument; NULL if the problem has none. */
const tensor_info_t *onednn_operand(const onednn_problem_t *problem, int argument);

/* oneDNN's number for an argument; 0 if this version of oneDNN does not take it as an argument of a
 * run (see scales.c). */
int onednn_argument_number(int argument);

/* Number of output channels, each of which may have a scale. */
int64_t onednn_output_channels(const onednn_problem_t *problem);

/* For an argument that is a scale or a zero: returns its info (f32[1], f32[channels] or s32[1]) and
 * its constant value, or NULL. Returns false if the argument is neither, or if the problem does not
 * have it. */
bool onednn_quantity(const onednn_problem_t *problem, int argument, tensor_info_t *out_info,
                     const void **out_constant);

/* The memory descriptor that oneDNN chose for an argument; NULL if there is none. */
const_dnnl_memory_desc_t onednn_wanted(const onednn_primitive_t *primitive, int argument);

/* Lists the arguments of a primitive whose other fields are set. */
void onednn_list_arguments(onednn_primitive_t *primitive);

/* Descriptors that describing a problem needs: one for each operand, NULL for absent ones. */
typedef struct onednn_descriptors {
    dnnl_memory_desc_t md[ONEDNN_ARGUMENT_COUNT];
    dnnl_primitive_attr_t attr;
    dnnl_post_ops_t post;
    dnnl_alg_kind_t algorithm;
    const_dnnl_primitive_desc_t forward; /* NULL: none */
    onednn_operation_t *operation;       /* oneDNN 2.6 only */
} onednn_descriptors_t;

/* Returns a text such as "windows beyond 2^31 bytes" if a number of the problem, or of the formats
 * that oneDNN chose for it, overflows oneDNN's integers; NULL if none does. */
const char *onednn_limit(const onednn_problem_t *problem);
const char *onednn_limit_of_chosen(const onednn_primitive_t *primitive);

/* True for implementations for which onednn_fault may return a fault. */
bool onednn_is_doubtful(const char *implementation);

/* Make oneDNN's description of a problem; see onednn_describe. */
dnnl_status_t onednn_describe_problem(context_t *ctx, const onednn_problem_t *problem,
                                      dnnl_primitive_desc_t *out);
dnnl_status_t onednn_describe_backward(const onednn_problem_t *problem,
                                       const onednn_descriptors_t *d, dnnl_primitive_desc_t *out);

/* Set scales and zeros, or only scales, in oneDNN's attributes. How depends on oneDNN's version. */
dnnl_status_t onednn_set_quantization(context_t *ctx, const onednn_problem_t *problem,
                                      dnnl_primitive_attr_t attr);
dnnl_status_t onednn_set_scales(context_t *ctx, const onednn_problem_t *problem,
                                dnnl_primitive_attr_t attr);

/* Append post-ops. onednn_append_sum adds the elements that dst had before. onednn_append_scale,
 * for oneDNN 2.6, divides the result by the scale of dst, after all other post-ops. */
dnnl_status_t onednn_append_sum(const onednn_problem_t *problem, const onednn_post_op_t *op,
                                dnnl_post_ops_t post);
dnnl_status_t onednn_append_scale(const onednn_problem_t *problem, dnnl_post_ops_t post);

/* For oneDNN 2.6 only: computes values before each run. 2.6 takes one scale instead of three, so
 * the scales that are arguments of the run are combined, and the bias is divided by the product of
 * the scales of src and weight. If a problem does not need this, *out_fold is unchanged. */
status_t onednn_fold_create(context_t *ctx, onednn_frame_t *frame, onednn_fold_t **out_fold);
void onednn_fold_destroy(const onednn_primitive_t *primitive, onednn_fold_t *fold);

/* Writes the arguments of a run to out_arguments as oneDNN needs them. */
void *const *onednn_fold_run(onednn_fold_t *fold, onednn_frame_t *frame, void *const *arguments,
                             void **out_arguments);

/* Adds a memory object to the frame's arguments; out_memory may be NULL. */
status_t onednn_frame_add(context_t *ctx, onednn_frame_t *frame, int number,
                          const tensor_info_t *info, void *handle, dnnl_memory_t *out_memory);
status_t onednn_frame_add_constants(context_t *ctx, onednn_frame_t *frame);

/* Describes a recurrent layer, forward or backward. */
dnnl_status_t onednn_describe_rnn(const onednn_problem_t *problem, const onednn_descriptors_t *d,
                                  dnnl_primitive_desc_t *out);

/* Flags for describing a norm. */
unsigned onednn_norm_flags(const onednn_problem_t *problem);

#endif
