/* Declarations shared by the files of this folder. */
#ifndef TESSERA_TENSOR_ONEDNN_ONEDNN_IMPL_H
#define TESSERA_TENSOR_ONEDNN_ONEDNN_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "tensor/onednn/api.h"
#include "tensor/onednn/onednn.h"

/* `kernel` is built at the first run, with the number of threads used for the description, which
 * depends on it. Idle frames are kept, as many as the largest number of concurrent runs. */
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
    int n_arguments;                         /* without scratch */
    uint8_t arguments[ONEDNN_MAX_ARGUMENTS]; /* onednn_argument_t */
};

#define ONEDNN_MAX_MEMORIES (ONEDNN_MAX_ARGUMENTS + 8)

typedef struct onednn_fold onednn_fold_t;

/* Memory objects: one per argument, in order, then scratch if needed. `given` lists all of them,
 * and constants that no run sets. */
struct onednn_frame {
    onednn_frame_t *next;          /* in the list of idle frames */
    onednn_primitive_t *primitive; /* borrowed: the owner of the frame holds the primitive */
    onednn_fold_t *fold;           /* NULL: oneDNN takes all arguments unchanged */
    dnnl_exec_arg_t given[ONEDNN_MAX_MEMORIES];
    int n_given;
    dnnl_memory_t memories[ONEDNN_MAX_ARGUMENTS + 1];
    void *handles[ONEDNN_MAX_ARGUMENTS + 1]; /* current pointers of the memory objects; NULL: not
                                                set */
    bool is_padded[ONEDNN_MAX_ARGUMENTS + 1];
};

#define ONEDNN_REFUSAL_MAX 160

struct onednn_stream {
    dnnl_stream_t stream;
    char refusal[ONEDNN_REFUSAL_MAX]; /* reason why the last undescribed problem was rejected */
};

dnnl_engine_t onednn_engine(void);

/* Makes a descriptor for an info, which the caller destroys; NULL if info is NULL. */
dnnl_status_t onednn_md_create(const tensor_info_t *info, dnnl_memory_desc_t *out_md);

/* Converts a descriptor to an info; false for a format that no tag describes. */
bool onednn_md_info(const_dnnl_memory_desc_t md, tensor_info_t *out_info);

/* onednn_md_info for any dtype; also accepts weights whose sizes of 1 are in another order. */
bool onednn_md_info_of_any(const_dnnl_memory_desc_t md, tensor_info_t *out_info);

/* Formats that no tag describes: converts a descriptor to a format's words, and back. False or an
 * error if the linked version of oneDNN has no such format, or did not write the words. */
bool onednn_md_words(const_dnnl_memory_desc_t md, int64_t *out_words);
dnnl_status_t onednn_md_of_words(const tensor_info_t *info, dnnl_data_type_t data_type,
                                 dnnl_memory_desc_t *out_md);

/* Number of infos that a problem has for this kind of argument (`first` is the first of the
 * kind). */
int onednn_n_operands(const onednn_problem_t *problem, int first);

/* The problem's info for an argument; NULL: not given. */
const tensor_info_t *onednn_operand(const onednn_problem_t *problem, int argument);

/* oneDNN's number for an argument; 0 if this version does not take it as an argument: see
 * scales.c. */
int onednn_argument_number(int argument);

/* Number of output channels, each of which may have a scale. */
int64_t onednn_output_channels(const onednn_problem_t *problem);

/* The scale or zero that an argument denotes: its info, f32[1], f32[channels] or s32[1], and its
 * constant. False if the argument is neither, or absent. */
bool onednn_quantity(const onednn_problem_t *problem, int argument, tensor_info_t *out_info,
                     const void **out_constant);

/* Descriptor of an argument in the primitive's description; NULL if there is none. */
const_dnnl_memory_desc_t onednn_wanted(const onednn_primitive_t *primitive, int argument);

/* Fills in the list of arguments of an otherwise complete primitive. */
void onednn_list_arguments(onednn_primitive_t *primitive);

/* Descriptors used while a problem is being described: one per operand, else NULL. */
typedef struct onednn_descriptors {
    dnnl_memory_desc_t md[ONEDNN_ARGUMENT_COUNT];
    dnnl_primitive_attr_t attr;
    dnnl_post_ops_t post;
    dnnl_alg_kind_t algorithm;
    const_dnnl_primitive_desc_t forward; /* NULL: none */
} onednn_descriptors_t;

/* Names what overflows oneDNN's integers in a problem, or in the formats that oneDNN chose for it:
 * "windows beyond 2^31 bytes". NULL if nothing does. */
const char *onednn_limit(const onednn_problem_t *problem);
const char *onednn_limit_of_chosen(const onednn_primitive_t *primitive);

/* True for implementations for which onednn_fault may return a fault. */
bool onednn_is_doubtful(const char *implementation);

/* oneDNN's description of a problem, without a primitive; see onednn_describe. */
dnnl_status_t onednn_describe_problem(context_t *ctx, const onednn_problem_t *problem,
                                      dnnl_primitive_desc_t *out);
dnnl_status_t onednn_describe_backward(const onednn_problem_t *problem,
                                       const onednn_descriptors_t *d, dnnl_primitive_desc_t *out);

/* Set scales and zeros, or only scales, in the attributes; the API depends on oneDNN's version. */
dnnl_status_t onednn_set_quantization(context_t *ctx, const onednn_problem_t *problem,
                                      dnnl_primitive_attr_t attr);
dnnl_status_t onednn_set_scales(context_t *ctx, const onednn_problem_t *problem,
                                dnnl_primitive_attr_t attr);

/* Append post-ops. onednn_append_sum: adds the previous dst. onednn_append_scale, for 2.6: divides
 * the result by the dst scale, after all other post-ops. */
dnnl_status_t onednn_append_sum(const onednn_problem_t *problem, const onednn_post_op_t *op,
                                dnnl_post_ops_t post);
dnnl_status_t onednn_append_scale(const onednn_problem_t *problem, dnnl_post_ops_t post);

/* For 2.6 only: values that are computed before each run. They are the single scale, if scales are
 * arguments of the run, and the bias divided by the scale. Without these, out_fold is unchanged. */
status_t onednn_fold_create(context_t *ctx, onednn_frame_t *frame, onednn_fold_t **out_fold);
void onednn_fold_destroy(const onednn_primitive_t *primitive, onednn_fold_t *fold);

/* Writes the arguments of a run to out_arguments in the form that oneDNN needs. */
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
