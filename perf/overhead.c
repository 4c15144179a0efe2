/* Measures the overhead of a frozen network: the time of an inference, and of the same inference
 * with oneDNN's primitives replaced by no-ops. Steps that are not primitives (copies, our own
 * loops) count as overhead.
 *
 * usage: overhead [NETWORK] [SAMPLES] [SIZE]
 *
 * Defaults: resnet50, 51 samples of each, alternating, at the network's own image size. Prints
 * medians. The overhead is the largest part of the time with small images and one thread:
 * TESSERA_THREADS=1 overhead resnet18 51 32 */
#include <stdio.h>
#include <stdlib.h>
#include <tessera.h>

#include "support/clock.h"
#include "support/still.h"

enum { MAX_SAMPLES = 1001, CALLS = 100 };

/* size 0: the network's own size. */
static status_t load(context_t *ctx, const char *name, int64_t size, module_t **out_frozen,
                     tensor_t **out_image)
{
    module_t *net = NULL;
    int64_t own_size = 224;
    status_t status = zoo_create(ctx, name, NULL, &net, &own_size);
    if (size == 0) size = own_size;
    if (status == STATUS_OK)
        status = tensor_randn(ctx, DTYPE_F32, SHAPE(1, 3, size, size), out_image);
    if (status == STATUS_OK)
        status = graph_trace(ctx, net, "forward", 1, (const tensor_t *[]){*out_image});
    if (status == STATUS_OK) status = freeze(ctx, net, NULL, out_frozen);
    module_release(net);
    return status;
}

/* Computes the mean time of `calls` inferences in ns. */
static status_t run(context_t *ctx, module_t *frozen, const tensor_t *image, int calls,
                    double *out_ns)
{
    double begin = clock_ns();
    for (int i = 0; i < calls; i++) {
        tensor_t *scores = NULL;
        status_t status = module_forward(ctx, frozen, image, &scores);
        if (status != STATUS_OK) return status;
        tensor_release(scores);
    }
    *out_ns = (clock_ns() - begin) / calls;
    return STATUS_OK;
}

static status_t measure(context_t *ctx, const char *name, int samples, module_t *frozen,
                        const tensor_t *image)
{
    static double whole[MAX_SAMPLES], above[MAX_SAMPLES];
    double warm = 0;
    status_t status = run(ctx, frozen, image, 3, &warm); /* builds the plan */
    int n_steps = plan_n_steps(plan_of(frozen, "forward"));
    for (int i = 0; i < samples && status == STATUS_OK; i++) {
        status = run(ctx, frozen, image, 1, &whole[i]);
        still_set(true);
        if (status == STATUS_OK) status = run(ctx, frozen, image, CALLS, &above[i]);
        still_set(false);
    }
    if (status != STATUS_OK) return status;
    double whole_ns = clock_median(samples, whole), above_ns = clock_median(samples, above);
    printf("%s: %.3f ms, of which %.2f us (%.3f %%) above the primitives: %.3f us for each of %d "
           "steps\n",
           name, whole_ns / 1e6, above_ns / 1e3, above_ns / whole_ns * 100,
           above_ns / 1e3 / n_steps, n_steps);
    return STATUS_OK;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "resnet50";
    int samples = argc > 2 ? atoi(argv[2]) : 51;
    int64_t size = argc > 3 ? atoll(argv[3]) : 0;
    context_t *ctx = NULL;
    module_t *frozen = NULL;
    tensor_t *image = NULL;
    if (samples < 1 || samples > MAX_SAMPLES || size < 0) {
        fprintf(stderr, "usage: overhead [NETWORK] [SAMPLES up to %d] [SIZE]\n", MAX_SAMPLES);
        return 2;
    }
    if (context_create(NULL, &ctx) != STATUS_OK) return 1;
    status_t status = load(ctx, name, size, &frozen, &image);
    if (status == STATUS_OK) status = measure(ctx, name, samples, frozen, image);
    if (status != STATUS_OK) fprintf(stderr, "overhead: %s\n", context_error(ctx));
    tensor_release(image);
    module_release(frozen);
    context_destroy(ctx);
    return status == STATUS_OK ? 0 : 1;
}
