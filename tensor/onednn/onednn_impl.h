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

struct onednn_stream {
    dnnl_stream_t stream;
};

dnnl_engine_t onednn_engine(void);

/* A descriptor for an info; the caller destroys it. NULL in gives NULL out. */
dnnl_status_t onednn_md_create(const tensor_info_t *info, dnnl_memory_desc_t *out_md);

/* Back to an info; false for a format that no tag describes. */
bool onednn_md_info(const_dnnl_memory_desc_t md, tensor_info_t *out_info);

/* Formats that no tag describes: the words of ours for such a descriptor, and back. False where the
 * linked version of oneDNN has none, or did not write the words. */
bool onednn_md_words(const_dnnl_memory_desc_t md, int64_t *out_words);
dnnl_status_t onednn_md_of_words(const tensor_info_t *info, dnnl_data_type_t data_type,
                                 dnnl_memory_desc_t *out_md);

/* What the problem says of an argument; NULL: not given. */
const tensor_info_t *onednn_operand(const onednn_problem_t *problem, int argument);

/* oneDNN's number of an argument. */
int onednn_argument_number(int argument);

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

/* The description of a problem, before any primitive; see onednn_describe. */
dnnl_status_t onednn_describe_problem(const onednn_problem_t *problem, dnnl_primitive_desc_t *out);
dnnl_status_t onednn_describe_backward(const onednn_problem_t *problem,
                                       const onednn_descriptors_t *d, dnnl_primitive_desc_t *out);

/* Flags of a norm's description. */
unsigned onednn_norm_flags(const onednn_problem_t *problem);

#endif
