/* What an eager call costs above the primitive itself: relu, to_mkldnn and a small convolution.
 *
 * usage: dispatch [N]    (N calls in each of 101 samples; 200 if not given)
 *
 * For each: the public call; the same prepared operator by dispatch_run_prepared, which has no
 * look-up, no scope and no observers; and the lone oneDNN primitive on memory made before, in the
 * format it likes best. One thread, then the context's number of threads. Medians, ns. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <omp.h>

#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_version.h>

#include <tessera.h>

#include "tools/try.h"

#define N_SAMPLES 101
#define BATCH 16
#define CHANNELS 16
#define SIZE 8
#define KERNEL 3

/* One thing to time. */
typedef struct subject {
    context_t *ctx;
    const tensor_t *x, *weight;
    prepared_t *prepared;
    int n_in;
    const tensor_t *in[3];
    dnnl_primitive_t primitive;
    dnnl_stream_t stream;
    int n_arguments;
    dnnl_exec_arg_t arguments[3];
} subject_t;

typedef status_t (*action_t)(subject_t *subject);

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int compare_times(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* The ways of running a subject that are compared. */
enum { WAY_CALL, WAY_PREPARED, WAY_PRIMITIVE, WAY_COUNT };

static double median(double *times)
{
    qsort(times, N_SAMPLES, sizeof times[0], compare_times);
    return times[N_SAMPLES / 2];
}

/* The mean of n calls; NaN if a call failed. */
static double time_calls(subject_t *subject, action_t action, int n)
{
    double begin = now_ns();
    for (int i = 0; i < n; i++)
        if (action(subject) != STATUS_OK) return (double)NAN;
    return (now_ns() - begin) / (double)n;
}

/* ---- through tessera ---- */

static status_t call_relu(subject_t *subject)
{
    tensor_t *out = NULL;
    TRY(op_relu(subject->ctx, subject->x, &out));
    tensor_release(out);
    return STATUS_OK;
}

static status_t call_to_mkldnn(subject_t *subject)
{
    tensor_t *out = NULL;
    TRY(to_mkldnn(subject->ctx, subject->x, &out));
    tensor_release(out);
    return STATUS_OK;
}

static status_t call_reorder(subject_t *subject)
{
    tensor_t *out = NULL;
    TRY(convert_reorder(subject->ctx, subject->x, "aBcd16b", &out));
    tensor_release(out);
    return STATUS_OK;
}

static status_t call_conv(subject_t *subject)
{
    tensor_t *out = NULL;
    conv_attrs_t attrs = {.padding = {1, 1}};
    TRY(op_conv2d(subject->ctx, subject->x, subject->weight, NULL, &attrs, &out));
    tensor_release(out);
    return STATUS_OK;
}

static status_t run_prepared(subject_t *subject)
{
    tensor_t *out[OP_MAX_OUTPUTS] = {NULL};
    TRY(dispatch_run_prepared(subject->ctx, subject->prepared, POLICY_AUTO, subject->n_in,
                              subject->in, out));
    tensor_release(out[0]);
    return STATUS_OK;
}

static status_t prepare(subject_t *subject, const char *name, const void *attrs)
{
    static const tensor_info_t absent = {.dtype = DTYPE_NONE};
    const tensor_info_t *infos[3];
    for (int i = 0; i < subject->n_in; i++)
        infos[i] = subject->in[i] != NULL ? tensor_info(subject->in[i]) : &absent;
    return dispatch_select(subject->ctx, ops_find(name), attrs, subject->n_in, infos, POLICY_AUTO,
                           &subject->prepared);
}

/* ---- oneDNN alone ---- */

static status_t run_primitive(subject_t *subject)
{
    bool is_done = dnnl_primitive_execute(subject->primitive, subject->stream, subject->n_arguments,
                                          subject->arguments) == dnnl_success &&
                   dnnl_stream_wait(subject->stream) == dnnl_success;
    return is_done ? STATUS_OK : STATUS_ONEDNN;
}

static const dnnl_dims_t x_dims = {BATCH, CHANNELS, SIZE, SIZE};
static const dnnl_dims_t weight_dims = {CHANNELS, CHANNELS, KERNEL, KERNEL};

#if DNNL_VERSION_MAJOR == 2
typedef dnnl_memory_desc_t desc_t;
#define DESC(desc) (&(desc))
static void make_desc(desc_t *out_desc, const dnnl_dims_t dims, dnnl_format_tag_t tag)
{
    dnnl_memory_desc_init_by_tag(out_desc, 4, dims, dnnl_f32, tag);
}
static desc_t wanted(const_dnnl_primitive_desc_t pd, dnnl_query_t query)
{
    return *dnnl_primitive_desc_query_md(pd, query, 0);
}
static void describe_relu(dnnl_engine_t engine, const desc_t *x, dnnl_primitive_desc_t *out_pd)
{
    dnnl_eltwise_desc_t op;
    dnnl_eltwise_forward_desc_init(&op, dnnl_forward_inference, dnnl_eltwise_relu, x, 0, 0);
    dnnl_primitive_desc_create(out_pd, &op, NULL, engine, NULL);
}
static void describe_conv(dnnl_engine_t engine, const desc_t *x, const desc_t *weight,
                          dnnl_primitive_desc_t *out_pd)
{
    static const dnnl_dims_t ones = {1, 1}, zeros = {0, 0};
    dnnl_convolution_desc_t op;
    dnnl_dilated_convolution_forward_desc_init(&op, dnnl_forward_inference, dnnl_convolution_direct,
                                               x, weight, NULL, x, ones, zeros, ones, ones);
    dnnl_primitive_desc_create(out_pd, &op, NULL, engine, NULL);
}
#else
typedef dnnl_memory_desc_t desc_t;
#define DESC(desc) (desc)
static void make_desc(desc_t *out_desc, const dnnl_dims_t dims, dnnl_format_tag_t tag)
{
    dnnl_memory_desc_create_with_tag(out_desc, 4, dims, dnnl_f32, tag);
}
static desc_t wanted(const_dnnl_primitive_desc_t pd, dnnl_query_t query)
{
    desc_t copy = NULL;
    dnnl_memory_desc_clone(&copy, dnnl_primitive_desc_query_md(pd, query, 0));
    return copy;
}
static void describe_relu(dnnl_engine_t engine, const desc_t *x, dnnl_primitive_desc_t *out_pd)
{
    dnnl_eltwise_forward_primitive_desc_create(out_pd, engine, dnnl_forward_inference,
                                               dnnl_eltwise_relu, *x, *x, 0, 0, NULL);
}
static void describe_conv(dnnl_engine_t engine, const desc_t *x, const desc_t *weight,
                          dnnl_primitive_desc_t *out_pd)
{
    static const dnnl_dims_t ones = {1, 1}, zeros = {0, 0};
    dnnl_convolution_forward_primitive_desc_create(out_pd, engine, dnnl_forward_inference,
                                                   dnnl_convolution_direct, *x, *weight, NULL, *x,
                                                   ones, zeros, ones, ones, NULL);
}
#endif

/* Memory of its own for a descriptor; the process ends before it would be missed. */
static dnnl_exec_arg_t argument(dnnl_engine_t engine, int name, desc_t *desc)
{
    dnnl_exec_arg_t made = {.arg = name};
    dnnl_memory_create(&made.memory, DESC(*desc), engine, DNNL_MEMORY_ALLOCATE);
    return made;
}

static void take_primitive(subject_t *subject, dnnl_engine_t engine, dnnl_primitive_desc_t pd,
                           int n, const int *names, desc_t *const *descs)
{
    dnnl_primitive_create(&subject->primitive, pd);
    dnnl_stream_create(&subject->stream, engine, dnnl_stream_default_flags);
    subject->n_arguments = n;
    for (int i = 0; i < n; i++) subject->arguments[i] = argument(engine, names[i], descs[i]);
    dnnl_primitive_desc_destroy(pd);
}

static void lone_relu(subject_t *subject, dnnl_engine_t engine, dnnl_format_tag_t tag)
{
    desc_t x;
    dnnl_primitive_desc_t pd = NULL;
    make_desc(&x, x_dims, tag);
    describe_relu(engine, &x, &pd);
    take_primitive(subject, engine, pd, 2, (int[]){DNNL_ARG_SRC, DNNL_ARG_DST},
                   (desc_t *[]){&x, &x});
}

static void lone_reorder(subject_t *subject, dnnl_engine_t engine)
{
    desc_t src, dst;
    dnnl_primitive_desc_t pd = NULL;
    make_desc(&src, x_dims, dnnl_abcd);
    make_desc(&dst, x_dims, dnnl_aBcd16b);
    dnnl_reorder_primitive_desc_create(&pd, DESC(src), engine, DESC(dst), engine, NULL);
    take_primitive(subject, engine, pd, 2, (int[]){DNNL_ARG_SRC, DNNL_ARG_DST},
                   (desc_t *[]){&src, &dst});
}

static void lone_conv(subject_t *subject, dnnl_engine_t engine)
{
    desc_t x, weight;
    dnnl_primitive_desc_t pd = NULL;
    make_desc(&x, x_dims, dnnl_format_tag_any);
    make_desc(&weight, weight_dims, dnnl_format_tag_any);
    describe_conv(engine, &x, &weight, &pd);
    desc_t src = wanted(pd, dnnl_query_src_md), packed = wanted(pd, dnnl_query_weights_md),
           dst = wanted(pd, dnnl_query_dst_md);
    take_primitive(subject, engine, pd, 3, (int[]){DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST},
                   (desc_t *[]){&src, &packed, &dst});
}

/* ---- the table ---- */

/* The ways take turns, so that what else the machine does falls on all of them alike; what a call
 * is above another way is the median of differences between neighbours. */
static void print_row(const char *name, subject_t *subject, action_t call, int n)
{
    static double times[WAY_COUNT][N_SAMPLES], above[WAY_COUNT][N_SAMPLES];
    const action_t actions[WAY_COUNT] = {call, subject->prepared != NULL ? run_prepared : NULL,
                                         subject->primitive != NULL ? run_primitive : NULL};
    for (int sample = -2; sample < N_SAMPLES; sample++)
        for (int way = 0; way < WAY_COUNT; way++) {
            if (actions[way] == NULL) continue;
            double ns = time_calls(subject, actions[way], n);
            if (sample < 0) continue;
            times[way][sample] = ns;
            above[way][sample] = times[WAY_CALL][sample] - ns;
        }
    printf("%-28s %9.0f", name, median(times[WAY_CALL]));
    for (int way = WAY_PREPARED; way < WAY_COUNT; way++) {
        if (actions[way] != NULL)
            printf(" %12.0f %9.0f", median(times[way]), median(above[way]));
        else
            printf(" %12s %9s", "-", "-");
    }
    printf("\n");
    prepared_release(subject->prepared);
}

static status_t relu(context_t *ctx, dnnl_engine_t engine, const char *name, const tensor_t *x,
                     dnnl_format_tag_t tag, int n)
{
    subject_t subject = {.ctx = ctx, .x = x, .n_in = 1, .in = {x}};
    TRY(prepare(&subject, "relu", NULL));
    lone_relu(&subject, engine, tag);
    print_row(name, &subject, call_relu, n);
    return STATUS_OK;
}

/* The weight becomes a module's parameter, so that it is packed once. */
static status_t conv(context_t *ctx, dnnl_engine_t engine, const tensor_t *x, int n)
{
    module_t *layer = NULL;
    conv_attrs_t attrs = {.padding = {1, 1}};
    tensor_t *first = NULL, *blocked = NULL;
    TRY(layer_conv2d(ctx, CHANNELS, CHANNELS, KERNEL, &attrs, false, &layer));
    TRY(module_mkldnn(ctx, layer, NULL));
    const tensor_t *weight = module_parameter(layer, "weight");
    /* What a convolution gives is in the format that the next one wants. */
    TRY(op_conv2d(ctx, x, weight, NULL, &attrs, &first));
    TRY(op_conv2d(ctx, first, weight, NULL, &attrs, &blocked));
    subject_t subject = {
        .ctx = ctx, .x = blocked, .weight = weight, .n_in = 3, .in = {blocked, weight, NULL}};
    TRY(prepare(&subject, "conv2d", &attrs));
    lone_conv(&subject, engine);
    print_row("conv2d 3x3, packed", &subject, call_conv, n);
    tensor_release(first);
    tensor_release(blocked);
    module_release(layer);
    return STATUS_OK;
}

static status_t measure(context_t *ctx, int n)
{
    tensor_t *x = NULL, *blocked = NULL;
    dnnl_engine_t engine = NULL;
    if (dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success)
        FAIL(ctx, STATUS_ONEDNN, "dispatch: no engine");
    omp_set_num_threads(context_threads(ctx)); /* for the lone primitives */
    TRY(tensor_randn(ctx, DTYPE_F32, SHAPE(BATCH, CHANNELS, SIZE, SIZE), &x));
    TRY(convert_reorder(ctx, x, "aBcd16b", &blocked));
    printf("%d threads, oneDNN %s, %s, f32[%d,%d,%d,%d], ns\n", context_threads(ctx),
           onednn_version_text(), onednn_isa_text(), BATCH, CHANNELS, SIZE, SIZE);
    printf("%-28s %9s %12s %9s %12s %9s\n", "", "call", "run_prepared", "above it", "primitive",
           "above it");
    TRY(relu(ctx, engine, "relu, dense", x, dnnl_abcd, n));
    TRY(relu(ctx, engine, "relu, mkldnn", blocked, dnnl_aBcd16b, n));
    subject_t snapshot = {.ctx = ctx, .x = x};
    print_row("to_mkldnn, plain: no copy", &snapshot, call_to_mkldnn, n);
    subject_t reorder = {.ctx = ctx, .x = x};
    lone_reorder(&reorder, engine);
    print_row("reorder to aBcd16b", &reorder, call_reorder, n);
    TRY(conv(ctx, engine, x, n));
    tensor_release(x);
    tensor_release(blocked);
    return STATUS_OK;
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 200;
    if (n < 1) {
        fprintf(stderr, "usage: dispatch [N]\n");
        return 2;
    }
    for (int n_threads = 1; n_threads >= 0; n_threads--) {
        context_t *ctx = NULL;
        context_options_t options = {.n_threads = n_threads};
        status_t status = context_create(&options, &ctx);
        if (status == STATUS_OK) status = measure(ctx, n);
        if (status != STATUS_OK) {
            fprintf(stderr, "dispatch: %s\n", ctx != NULL ? context_error(ctx) : "no context");
            return 1;
        }
        context_destroy(ctx);
    }
    return 0;
}
