/* Measures the overhead of an eager call: the time of the call, and of the same call with oneDNN's
 * primitives replaced by no-ops. relu of a dense tensor and sigmoid of f32 run our own loops, not
 * primitives, so all their time counts as overhead.
 *
 * usage: dispatch [N]    (N calls in each of 101 samples; default 500)
 *
 * Runs on one thread, then on the context's number of threads. Prints medians in ns, and
 * allocations per call. */
#include <stdio.h>
#include <stdlib.h>
#include <tessera.h>

#include "support/clock.h"
#include "support/still.h"

enum { N_SAMPLES = 101, CHANNELS = 16, SIZE = 8, KERNEL = 3 };

/* Operands of the calls. `weight` belongs to a module that module_mkldnn has converted, so that it
 * is packed only once. */
typedef struct operands {
    tensor_t *dense, *blocked;
    const tensor_t *weight;
} operands_t;

typedef status_t (*call_t)(context_t *ctx, const operands_t *operands, tensor_t **out);

static status_t relu_dense(context_t *ctx, const operands_t *operands, tensor_t **out)
{
    return op_relu(ctx, operands->dense, out);
}
static status_t relu_mkldnn(context_t *ctx, const operands_t *operands, tensor_t **out)
{
    return op_relu(ctx, operands->blocked, out);
}
static status_t sigmoid_mkldnn(context_t *ctx, const operands_t *operands, tensor_t **out)
{
    return op_sigmoid(ctx, operands->blocked, out);
}
static status_t add_dense(context_t *ctx, const operands_t *operands, tensor_t **out)
{
    return op_add(ctx, operands->dense, operands->dense, out);
}
static status_t add_mkldnn(context_t *ctx, const operands_t *operands, tensor_t **out)
{
    return op_add(ctx, operands->blocked, operands->blocked, out);
}
static status_t conv_packed(context_t *ctx, const operands_t *operands, tensor_t **out)
{
    conv_attrs_t attrs = {.padding = {1, 1}};
    return op_conv2d(ctx, operands->blocked, operands->weight, NULL, &attrs, out);
}
static status_t snapshot(context_t *ctx, const operands_t *operands, tensor_t **out)
{
    return to_mkldnn(ctx, operands->dense, out);
}
static status_t reorder(context_t *ctx, const operands_t *operands, tensor_t **out)
{
    return convert_reorder(ctx, operands->dense, "aBcd16b", out);
}

static const struct subject {
    const char *name;
    call_t call;
} subjects[] = {{"relu, dense", relu_dense},
                {"relu, mkldnn", relu_mkldnn},
                {"sigmoid, mkldnn", sigmoid_mkldnn},
                {"add, dense", add_dense},
                {"add, mkldnn", add_mkldnn},
                {"conv2d 3x3, packed", conv_packed},
                {"to_mkldnn, plain: no copy", snapshot},
                {"reorder to aBcd16b", reorder}};

/* ---- an allocator that counts allocations; timed runs do not use it ---- */

static long n_allocations;

static void *get_counted(void *user, size_t bytes)
{
    (void)user;
    n_allocations++;
    return aligned_alloc(64, (bytes + 63) / 64 * 64);
}
static void put_counted(void *user, void *block)
{
    (void)user;
    free(block);
}

/* ---- the table ---- */

static status_t make_operands(context_t *ctx, operands_t *out, module_t **out_layer)
{
    status_t status = tensor_randn(ctx, DTYPE_F32, SHAPE(1, CHANNELS, SIZE, SIZE), &out->dense);
    if (status == STATUS_OK) status = convert_reorder(ctx, out->dense, "aBcd16b", &out->blocked);
    if (status == STATUS_OK)
        status = layer_conv2d(ctx, CHANNELS, CHANNELS, KERNEL, NULL, false, out_layer);
    if (status == STATUS_OK) status = module_mkldnn(ctx, *out_layer, NULL);
    out->weight = module_parameter(*out_layer, "weight");
    return status;
}

/* Computes the mean time of n calls in ns. */
static status_t time_calls(context_t *ctx, const operands_t *operands, call_t call, int n,
                           double *out_ns)
{
    double begin = clock_ns();
    for (int i = 0; i < n; i++) {
        tensor_t *out = NULL;
        status_t status = call(ctx, operands, &out);
        if (status != STATUS_OK) return status;
        tensor_release(out);
    }
    *out_ns = (clock_ns() - begin) / n;
    return STATUS_OK;
}

static status_t print_row(context_t *ctx, const operands_t *operands, const struct subject *subject,
                          int n)
{
    static double whole[N_SAMPLES], above[N_SAMPLES];
    status_t status = time_calls(ctx, operands, subject->call, 2, &whole[0]);
    for (int i = 0; i < N_SAMPLES && status == STATUS_OK; i++) {
        status = time_calls(ctx, operands, subject->call, n, &whole[i]);
        still_set(true);
        if (status == STATUS_OK) status = time_calls(ctx, operands, subject->call, n, &above[i]);
        still_set(false);
    }
    if (status != STATUS_OK) return status;
    double median = clock_median(N_SAMPLES, above);
    printf("%-28s %9.0f %22.0f %9.0f\n", subject->name, clock_median(N_SAMPLES, whole), median,
           above[0]);
    return STATUS_OK;
}

static status_t print_allocations(context_t *ctx, const operands_t *operands,
                                  const struct subject *subject)
{
    double ns = 0;
    status_t status = time_calls(ctx, operands, subject->call, 2, &ns);
    n_allocations = 0;
    if (status == STATUS_OK) status = time_calls(ctx, operands, subject->call, 1, &ns);
    printf("%-28s %9ld\n", subject->name, n_allocations);
    return status;
}

enum { N_SUBJECTS = sizeof subjects / sizeof *subjects };

/* Measures times if n > 0, else allocations. */
static status_t measure(const context_options_t *options, int n)
{
    operands_t operands = {NULL, NULL, NULL};
    module_t *layer = NULL;
    context_t *ctx = NULL;
    if (context_create(options, &ctx) != STATUS_OK) return STATUS_OUT_OF_MEMORY;
    status_t status = make_operands(ctx, &operands, &layer);
    printf("%d threads, oneDNN %s, %s, f32[1,%d,%d,%d]\n", context_threads(ctx),
           onednn_version_text(), onednn_isa_text(), CHANNELS, SIZE, SIZE);
    if (n > 0)
        printf("%-28s %9s %22s %9s\n", "", "call, ns", "above the primitive", "least");
    else
        printf("%-28s %9s\n", "", "allocations");
    for (int i = 0; i < N_SUBJECTS && status == STATUS_OK; i++)
        status = n > 0 ? print_row(ctx, &operands, &subjects[i], n)
                       : print_allocations(ctx, &operands, &subjects[i]);
    if (status != STATUS_OK) fprintf(stderr, "dispatch: %s\n", context_error(ctx));
    module_release(layer);
    tensor_release(operands.blocked);
    tensor_release(operands.dense);
    context_destroy(ctx);
    return status;
}

int main(int argc, char **argv)
{
    const allocator_t counting = {NULL, get_counted, put_counted};
    const context_options_t runs[] = {{.n_threads = 1}, {.n_threads = 0}, {.allocator = &counting}};
    int n = argc > 1 ? atoi(argv[1]) : 500;
    if (n < 1) {
        fprintf(stderr, "usage: dispatch [N]\n");
        return 2;
    }
    for (int i = 0; i < 3; i++)
        if (measure(&runs[i], i < 2 ? n : 0) != STATUS_OK) return 1;
    return 0;
}
