/* What onednn.c and onednn_describe.c share. */
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
    const char *implementation;
    size_t scratch_bytes;
    int n_threads;
    int n_arguments; /* without scratch */
    int arguments[ONEDNN_MAX_ARGUMENTS];
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

/* The description of a problem, before any primitive; see onednn_describe. */
dnnl_status_t onednn_describe_problem(const onednn_problem_t *problem, dnnl_primitive_desc_t *out);

#endif
