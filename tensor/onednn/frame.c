/* Runs primitives. A frame holds oneDNN's memory objects for a primitive, from one run to the
 * next. */
#include <omp.h>
#include <pthread.h>
#include <string.h>

#include "tensor/onednn/onednn_impl.h"
#include "tensor/threads/threads_impl.h"

/* True if `kernel`, which oneDNN made or found in its own cache, has the primitive's description.
 * The cache confuses descriptions that differ only in strides of dimensions of size 1, as
 * f32[2,1,9,11] in row-major and in channels last, although implementation and weight format
 * differ. */
static bool is_as_described(const onednn_primitive_t *primitive, dnnl_primitive_t kernel)
{
    const_dnnl_primitive_desc_t made = NULL;
    const char *name = NULL;
    if (dnnl_primitive_get_primitive_desc(kernel, &made) != dnnl_success ||
        dnnl_primitive_desc_query(made, dnnl_query_impl_info_str, 0, (void *)&name) != dnnl_success)
        return true;
    const_dnnl_memory_desc_t has = dnnl_primitive_desc_query_md(made, dnnl_query_weights_md, 0);
    const_dnnl_memory_desc_t wants = dnnl_primitive_desc_query_md(primitive->description,
                                                                  dnnl_query_weights_md, 0);
    const bool is_other_weight = has != NULL && wants != NULL &&
                                 !dnnl_memory_desc_equal(has, wants);
    return strcmp(name, primitive->implementation) == 0 && !is_other_weight;
}

static dnnl_status_t create(const onednn_primitive_t *primitive, dnnl_primitive_t *out_kernel)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects the cache's capacity,
                                                                which is global */
    int capacity = 0;
    dnnl_status_t status = dnnl_primitive_create(out_kernel, primitive->description);
    if (status != dnnl_success || is_as_described(primitive, *out_kernel)) return status;
    dnnl_primitive_destroy(*out_kernel);
    *out_kernel = NULL;
    pthread_mutex_lock(&lock);
    dnnl_get_primitive_cache_capacity(&capacity);
    dnnl_set_primitive_cache_capacity(0);
    status = dnnl_primitive_create(out_kernel, primitive->description);
    dnnl_set_primitive_cache_capacity(capacity);
    pthread_mutex_unlock(&lock);
    return status;
}

static status_t build(context_t *ctx, onednn_primitive_t *primitive)
{
    if (atomic_load(&primitive->kernel) != NULL) return STATUS_OK;
    dnnl_primitive_t kernel = NULL, expected = NULL;
    int n_threads = omp_get_max_threads();
    if (n_threads != primitive->n_threads) omp_set_num_threads(primitive->n_threads);
    dnnl_status_t status = create(primitive, &kernel);
    if (n_threads != primitive->n_threads) omp_set_num_threads(n_threads);
    TRY_ONEDNN(ctx, status);
    if (atomic_compare_exchange_strong(&primitive->kernel, &expected, kernel))
        context_counters(ctx)->primitives_built++;
    else
        dnnl_primitive_destroy(kernel);
    return STATUS_OK;
}

/* True if the format has padding, or if that is unknown. */
static bool has_padding(const_dnnl_memory_desc_t md)
{
    tensor_info_t info;
    return !onednn_md_info(md, &info) || format_is_padded(&info.format, info.sizes);
}

static status_t add_memory(context_t *ctx, onednn_frame_t *frame, int number,
                           const_dnnl_memory_desc_t md, void *handle, dnnl_memory_t *out_memory)
{
    dnnl_memory_t memory = NULL;
    dnnl_status_t status = md == NULL ? dnnl_invalid_arguments
                                      : dnnl_memory_create(&memory, md, onednn_engine(), handle);
    if (status != dnnl_success) return onednn_fail(ctx, (int)status, "dnnl_memory_create");
    frame->given[frame->n_given++] = (dnnl_exec_arg_t){number, memory};
    if (out_memory != NULL) *out_memory = memory;
    return STATUS_OK;
}

status_t onednn_frame_add(context_t *ctx, onednn_frame_t *frame, int number,
                          const tensor_info_t *info, void *handle, dnnl_memory_t *out_memory)
{
    dnnl_memory_desc_t md = NULL;
    TRY_ONEDNN(ctx, onednn_md_create(info, &md));
    FINISH(add_memory(ctx, frame, number, md, handle, out_memory), dnnl_memory_desc_destroy(md));
}

/* Makes an argument's memory object, without a pointer to elements. A scale that this version of
 * oneDNN does not take as an argument has no memory object. Its handle is the frame itself, and
 * onednn_fold_run passes the frame as its pointer, so that `bind` finds no change and does
 * nothing. */
static status_t add_argument(context_t *ctx, onednn_frame_t *frame, int i, int number)
{
    const onednn_primitive_t *primitive = frame->primitive;
    tensor_info_t info;
    const void *constant = NULL;
    if (i < primitive->n_arguments &&
        onednn_quantity(primitive->problem, primitive->arguments[i], &info, &constant)) {
        if (number == 0) {
            frame->handles[i] = frame;
            return STATUS_OK;
        }
        return onednn_frame_add(ctx, frame, number, &info, DNNL_MEMORY_NONE, &frame->memories[i]);
    }
    const_dnnl_memory_desc_t md = dnnl_primitive_desc_query_md(primitive->description,
                                                               dnnl_query_exec_arg_md, number);
    if (md != NULL) frame->is_padded[i] = has_padding(md);
    return add_memory(ctx, frame, number, md, DNNL_MEMORY_NONE, &frame->memories[i]);
}

/* True if this version of oneDNN counts the shift as an input of a norm's gradient, although the
 * gradient does not depend on it. It then gets a memory object without data. */
static bool counts_shift(const onednn_primitive_t *primitive)
{
    const onednn_problem_t *p = primitive->problem;
    int n_read = 0, n_written = 3; /* gradients of src, scale and shift */
    dnnl_primitive_desc_query(primitive->description, dnnl_query_num_of_inputs_s32, 0, &n_read);
    return p->propagation == ONEDNN_BACKWARD && p->has_scale &&
           n_read > primitive->n_arguments - n_written;
}

static status_t add_memories(context_t *ctx, onednn_frame_t *frame)
{
    const onednn_primitive_t *primitive = frame->primitive;
    int n = primitive->n_arguments;
    for (int i = 0; i < n; i++)
        TRY(add_argument(ctx, frame, i, onednn_argument_number(primitive->arguments[i])));
    if (primitive->scratch_bytes > 0) TRY(add_argument(ctx, frame, n, DNNL_ARG_SCRATCHPAD));
    TRY(onednn_frame_add_constants(ctx, frame));
    if (!counts_shift(primitive)) return onednn_fold_create(ctx, frame, &frame->fold);
    const_dnnl_memory_desc_t md = dnnl_primitive_desc_query_md(
        primitive->description, dnnl_query_exec_arg_md, DNNL_ARG_SHIFT);
    return add_memory(ctx, frame, DNNL_ARG_SHIFT, md, DNNL_MEMORY_NONE, NULL);
}

status_t onednn_frame_create(context_t *ctx, onednn_primitive_t *primitive,
                             onednn_frame_t **out_frame)
{
    onednn_frame_t *frame = NULL;
    TRY(build(ctx, primitive));
    frame = allocator_get(&primitive->allocator, sizeof *frame);
    if (frame == NULL)
        FAIL(ctx, STATUS_OUT_OF_MEMORY, "out of memory: %zu bytes for a frame", sizeof *frame);
    *frame = (onednn_frame_t){.primitive = primitive};
    status_t status = add_memories(ctx, frame);
    GIVE(status, out_frame, frame, onednn_frame_destroy(frame));
}

void onednn_frame_destroy(onednn_frame_t *frame)
{
    if (frame == NULL) return;
    for (int i = 0; i < frame->n_given; i++) dnnl_memory_destroy(frame->given[i].memory);
    onednn_fold_destroy(frame->primitive, frame->fold);
    allocator_t allocator = frame->primitive->allocator;
    allocator_put(&allocator, frame);
}

/* Sets an argument's pointer, unless it is the same as in the previous run, which is usual in
 * plans. The pointer of an argument with padding is always set, because oneDNN 2.6 writes zeros to
 * the padding when the pointer is set. */
static status_t bind(context_t *ctx, onednn_frame_t *frame, int index, void *handle)
{
    if (handle != NULL && frame->handles[index] == handle) return STATUS_OK;
    TRY_ONEDNN(ctx, dnnl_memory_set_data_handle(frame->memories[index], handle));
    frame->handles[index] = frame->is_padded[index] ? NULL : handle;
    return STATUS_OK;
}

/* Number of threads for a primitive. Short reorders run on the calling thread alone. OpenMP's
 * threads would need longer, and afterwards the pool's workers would have to wake up and wait for
 * the cores of OpenMP's threads. */
static int count_threads(const context_t *ctx, const onednn_problem_t *problem)
{
    const bool is_short = problem->kind == ONEDNN_REORDER &&
                          threads_for(ctx, info_numel(&problem->src[0])) == 1;
    return is_short ? 1 : omp_get_max_threads();
}

status_t onednn_frame_run(context_t *ctx, onednn_frame_t *frame, void *const *arguments,
                          void *scratch)
{
    const onednn_primitive_t *primitive = frame->primitive;
    void *folded[ONEDNN_MAX_ARGUMENTS];
    if (frame->fold != NULL) arguments = onednn_fold_run(frame->fold, frame, arguments, folded);
    for (int i = 0; i < primitive->n_arguments; i++) TRY(bind(ctx, frame, i, arguments[i]));
    if (primitive->scratch_bytes > 0) TRY(bind(ctx, frame, primitive->n_arguments, scratch));
    const int n_before = omp_get_max_threads();
    const int n_threads = count_threads(ctx, primitive->problem);
    if (n_threads != n_before) omp_set_num_threads(n_threads);
    threads_begin_openmp(n_threads);
    const dnnl_status_t done = dnnl_primitive_execute(
        atomic_load(&primitive->kernel), context_stream(ctx)->stream, frame->n_given, frame->given);
    threads_end_openmp(n_threads);
    if (n_threads != n_before) omp_set_num_threads(n_before);
    TRY_ONEDNN(ctx, done);
    return STATUS_OK;
}

/* Takes an idle frame; returns NULL if there is none. The first one, `idle`, is taken without a
 * lock; if a single thread runs the primitive, no other frame is needed. */
static onednn_frame_t *take_idle(onednn_primitive_t *primitive)
{
    onednn_frame_t *frame = atomic_exchange(&primitive->idle, NULL);
    if (frame != NULL) return frame;
    pthread_mutex_lock(&primitive->lock);
    frame = primitive->more;
    if (frame != NULL) primitive->more = frame->next;
    pthread_mutex_unlock(&primitive->lock);
    return frame;
}

static void give_back(onednn_primitive_t *primitive, onednn_frame_t *frame)
{
    onednn_frame_t *none = NULL;
    if (atomic_compare_exchange_strong(&primitive->idle, &none, frame)) return;
    pthread_mutex_lock(&primitive->lock);
    frame->next = primitive->more;
    primitive->more = frame;
    pthread_mutex_unlock(&primitive->lock);
}

status_t onednn_run(context_t *ctx, onednn_primitive_t *primitive, void *const *arguments,
                    void *scratch)
{
    onednn_frame_t *frame = take_idle(primitive);
    if (frame == NULL) TRY(onednn_frame_create(ctx, primitive, &frame));
    FINISH(onednn_frame_run(ctx, frame, arguments, scratch), give_back(primitive, frame));
}

/* ---- packing ---- */

status_t onednn_pack(context_t *ctx, const onednn_primitive_t *primitive, int argument,
                     const tensor_info_t *from, const void *bytes, void *out_bytes)
{
    dnnl_engine_t engine = onednn_engine();
    const_dnnl_memory_desc_t wanted = onednn_wanted(primitive, argument);
    dnnl_memory_desc_t md = NULL;
    dnnl_primitive_desc_t description = NULL;
    dnnl_primitive_t reorder = NULL;
    dnnl_memory_t src = NULL, dst = NULL;
    dnnl_status_t status = wanted == NULL ? dnnl_invalid_arguments : onednn_md_create(from, &md);
    if (status == dnnl_success)
        status = dnnl_reorder_primitive_desc_create(&description, md, engine, wanted, engine, NULL);
    if (status == dnnl_success) status = dnnl_primitive_create(&reorder, description);
    if (status == dnnl_success)
        status = dnnl_memory_create(&src, md, engine, (void *)(uintptr_t)bytes);
    if (status == dnnl_success) status = dnnl_memory_create(&dst, wanted, engine, out_bytes);
    if (status == dnnl_success) {
        dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, src}, {DNNL_ARG_TO, dst}};
        threads_begin_openmp(omp_get_max_threads());
        status = dnnl_primitive_execute(reorder, context_stream(ctx)->stream, 2, arguments);
        threads_end_openmp(omp_get_max_threads());
    }
    if (dst != NULL) dnnl_memory_destroy(dst);
    if (src != NULL) dnnl_memory_destroy(src);
    if (reorder != NULL) dnnl_primitive_destroy(reorder);
    if (description != NULL) dnnl_primitive_desc_destroy(description);
    if (md != NULL) dnnl_memory_desc_destroy(md);
    if (status == dnnl_unimplemented) return STATUS_UNSUPPORTED;
    if (status != dnnl_success) return onednn_fail(ctx, (int)status, "packing");
    return STATUS_OK;
}
