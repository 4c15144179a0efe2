/* What the files of this folder share. */
#ifndef TESSERA_TENSOR_ONEDNN_ONEDNN_IMPL_H
#define TESSERA_TENSOR_ONEDNN_ONEDNN_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "tensor/onednn/api.h"
#include "tensor/onednn/onednn.h"

/* `kernel` is built at the first run, under the number of threads it was described for, which its
 * description depends on; idle frames are kept, as
 * many as there were threads at once. */
struct onednn_primitive {
    atomic_int n_references;
    allocator_t allocator;
    dnnl_primitive_desc_t description;
    _Atomic(dnnl_primitive_t) kernel;
    _Atomic(onednn_frame_t *) idle; /* the frame for the next call, NULL while a thread has it */
    pthread_mutex_t lock;
    onednn_frame_t *more;            /* idle frames beyond that one, under the lock */
    const onednn_problem_t *problem; /* as described, behind the primitive with its infos */
    onednn_primitive_t *forward;     /* the problem's, which the description may look at */
    const char *implementation;
    size_t scratch_bytes;
    int n_threads;
    int n_arguments;                         /* without scratch */
    uint8_t arguments[ONEDNN_MAX_ARGUMENTS]; /* onednn_argument_t */
};

#define ONEDNN_MAX_MEMORIES (ONEDNN_MAX_ARGUMENTS + 8)

typedef struct onednn_fold onednn_fold_t;

/* Memory objects: those of the primitive's arguments, in their order, then of scratch if it has
 * any; `given` has them all, and what no run sets. */
struct onednn_frame {
    onednn_frame_t *next;          /* among the idle ones */
    onednn_primitive_t *primitive; /* borrowed: whoever holds the frame holds the primitive */
    onednn_fold_t *fold;           /* NULL: oneDNN takes every argument as it is given */
    dnnl_exec_arg_t given[ONEDNN_MAX_MEMORIES];
    int n_given;
    dnnl_memory_t memories[ONEDNN_MAX_ARGUMENTS + 1];
    void *handles[ONEDNN_MAX_ARGUMENTS + 1]; /* what those point to; NULL: to be set */
    bool is_padded[ONEDNN_MAX_ARGUMENTS + 1];
};

#define ONEDNN_REFUSAL_MAX 160

struct onednn_stream {
    dnnl_stream_t stream;
    char refusal[ONEDNN_REFUSAL_MAX]; /* why the last problem that was not described was not */
};

dnnl_engine_t onednn_engine(void);

/* A descriptor for an info; the caller destroys it. NULL in gives NULL out. */
dnnl_status_t onednn_md_create(const tensor_info_t *info, dnnl_memory_desc_t *out_md);

/* Back to an info; false for a format that no tag describes. */
bool onednn_md_info(const_dnnl_memory_desc_t md, tensor_info_t *out_info);

/* The same, and of weights whose sizes of 1 stand in another order, whatever their dtype. */
bool onednn_md_info_of_any(const_dnnl_memory_desc_t md, tensor_info_t *out_info);

/* Formats that no tag describes: the words of ours for such a descriptor, and back. False where the
 * linked version of oneDNN has none, or did not write the words. */
bool onednn_md_words(const_dnnl_memory_desc_t md, int64_t *out_words);
dnnl_status_t onednn_md_of_words(const tensor_info_t *info, dnnl_data_type_t data_type,
                                 dnnl_memory_desc_t *out_md);

/* How many infos a problem has at the pointer for this argument, the first of its kind. */
int onednn_n_operands(const onednn_problem_t *problem, int first);

/* What the problem says of an argument; NULL: not given. */
const tensor_info_t *onednn_operand(const onednn_problem_t *problem, int argument);

/* oneDNN's number of an argument, 0 where this version does not take it as such: see
 * scales.c. */
int onednn_argument_number(int argument);

/* Output channels, each of which may have a scale. */
int64_t onednn_output_channels(const onednn_problem_t *problem);

/* The scale or zero that an argument is: whose, and the constant; false if it is none, or not
 * there. The info is f32[1], f32[channels] or s32[1]. */
bool onednn_quantity(const onednn_problem_t *problem, int argument, tensor_info_t *out_info,
                     const void **out_constant);

/* What a primitive wants for an argument, from its description; NULL if it says nothing. */
const_dnnl_memory_desc_t onednn_wanted(const onednn_primitive_t *primitive, int argument);

/* Fills arguments of a primitive that has all else. */
void onednn_list_arguments(onednn_primitive_t *primitive);

/* Of one problem while it is being described: a descriptor for each operand, else NULL. */
typedef struct onednn_descriptors {
    dnnl_memory_desc_t md[ONEDNN_ARGUMENT_COUNT];
    dnnl_primitive_attr_t attr;
    dnnl_post_ops_t post;
    dnnl_alg_kind_t algorithm;
    const_dnnl_primitive_desc_t forward; /* NULL: none */
} onednn_descriptors_t;

/* What of a problem, or of the formats that oneDNN chose for it, does not fit in the integers that
 * oneDNN computes with: "windows beyond 2^31 bytes". NULL: everything fits. */
const char *onednn_limit(const onednn_problem_t *problem);
const char *onednn_limit_of_chosen(const onednn_primitive_t *primitive);

/* True of implementations that onednn_fault knows something of, whatever the problem. */
bool onednn_is_doubtful(const char *implementation);

/* The description of a problem, before any primitive; see onednn_describe. */
dnnl_status_t onednn_describe_problem(context_t *ctx, const onednn_problem_t *problem,
                                      dnnl_primitive_desc_t *out);
dnnl_status_t onednn_describe_backward(const onednn_problem_t *problem,
                                       const onednn_descriptors_t *d, dnnl_primitive_desc_t *out);

/* Sets scales and zeros of the attributes; scales alone, in a version's own way. */
dnnl_status_t onednn_set_quantization(context_t *ctx, const onednn_problem_t *problem,
                                      dnnl_primitive_attr_t attr);
dnnl_status_t onednn_set_scales(context_t *ctx, const onednn_problem_t *problem,
                                dnnl_primitive_attr_t attr);

/* Post-ops: dst as it was is added; on 2.6 the result is divided by dst's scale after all others.
 */
dnnl_status_t onednn_append_sum(const onednn_problem_t *problem, const onednn_post_op_t *op,
                                dnnl_post_ops_t post);
dnnl_status_t onednn_append_scale(const onednn_problem_t *problem, dnnl_post_ops_t post);

/* What a run on 2.6 computes before oneDNN is called: the one scale, where parts of it are given at
 * each run, and the bias divided by it. out_fold stays as it is where there is no such thing. */
status_t onednn_fold_create(context_t *ctx, onednn_frame_t *frame, onednn_fold_t **out_fold);
void onednn_fold_destroy(const onednn_primitive_t *primitive, onednn_fold_t *fold);

/* The arguments of a run as oneDNN takes them, in out_arguments. */
void *const *onednn_fold_run(onednn_fold_t *fold, onednn_frame_t *frame, void *const *arguments,
                             void **out_arguments);

/* Adds a memory object to what a frame gives oneDNN; out_memory may be NULL. */
status_t onednn_frame_add(context_t *ctx, onednn_frame_t *frame, int number,
                          const tensor_info_t *info, void *handle, dnnl_memory_t *out_memory);
status_t onednn_frame_add_constants(context_t *ctx, onednn_frame_t *frame);

/* Forward and backward. */
dnnl_status_t onednn_describe_rnn(const onednn_problem_t *problem, const onednn_descriptors_t *d,
                                  dnnl_primitive_desc_t *out);

/* Flags of a norm's description. */
unsigned onednn_norm_flags(const onednn_problem_t *problem);

#endif
