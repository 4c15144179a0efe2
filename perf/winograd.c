/* Compares 3x3 convolutions by our own Winograd kernel, in tiles of 2, 4 and 6 (2 and 4 with stride
 * 2), with direct ones by oneDNN. Prints milliseconds, and the share of the machine's limit that
 * the multiply-adds of the products reach.
 *
 * usage: winograd [SAMPLES]    (default: 15; the best counts)
 *
 * Weights are packed once and sources are blocked. Runs of all variants alternate. */
#include <stdio.h>
#include <stdlib.h>
#include <tessera.h>

#include "support/clock.h"
#include "support/limit.h"
#include "tensor/base/try_impl.h"

enum { DIRECT, TILES_2, TILES_4, TILES_6, N_KINDS };

typedef struct layer {
    int64_t images, inputs, side, outputs, stride;
} layer_t;

static const layer_t layers[] = {
    {1, 64, 224, 64, 1},   {1, 128, 112, 128, 1}, {1, 256, 56, 256, 1},  {1, 512, 28, 512, 1},
    {1, 512, 14, 512, 1},  {1, 64, 56, 64, 1},    {1, 128, 28, 128, 1},  {1, 256, 14, 256, 1},
    {1, 512, 7, 512, 1},   {16, 64, 56, 64, 1},   {16, 256, 14, 256, 1}, {1, 64, 56, 128, 2},
    {1, 128, 56, 128, 2},  {1, 256, 28, 256, 2},  {1, 512, 14, 512, 2},  {16, 128, 56, 128, 2},
    {16, 256, 28, 256, 2}, {16, 512, 14, 512, 2}};

static const int algorithms[N_KINDS] = {CONV_DIRECT, CONV_WINOGRAD_2, CONV_WINOGRAD_4,
                                        CONV_WINOGRAD_6};

/* Returns the number of operations of the products in Winograd form; for tile 0, of the direct
 * convolution. */
static double flops_of(const layer_t *layer, int64_t tile)
{
    const int64_t side = layer->side / layer->stride; /* side of the output */
    const int64_t n = tile > 0 ? (side + tile - 1) / tile : side;
    const int64_t points = tile > 0 ? layer->stride * (tile - 1) + 3 : 3;
    return 2.0 * (double)(layer->images * n * n * points * points * layer->inputs * layer->outputs);
}

/* Runs once, and keeps the time if it is the shortest. */
static status_t run(context_t *ctx, const tensor_t *x, const tensor_t *weight, int64_t stride,
                    int algorithm, double *best)
{
    const conv_attrs_t attrs = {
        .stride = {stride, stride}, .padding = {1, 1}, .algorithm = algorithm};
    tensor_t *y = NULL;
    const double begin = clock_ns();
    TRY(op_conv2d(ctx, x, weight, NULL, &attrs, &y));
    const double time = clock_ns() - begin;
    tensor_release(y);
    if (*best == 0 || time < *best) *best = time;
    return STATUS_OK;
}

/* Makes the input, and a module that owns the weight and caches its packed forms. */
static status_t make(context_t *ctx, const layer_t *layer, module_t **out_module, tensor_t **out_x)
{
    tensor_t *weight = NULL, *dense = NULL;
    TRY(module_create(ctx, "Weight", out_module));
    TRY(tensor_randn(ctx, DTYPE_F32, SHAPE(layer->outputs, layer->inputs, 3, 3), &weight));
    status_t status = module_set_parameter(ctx, *out_module, "weight", weight);
    tensor_release(weight);
    if (status != STATUS_OK) return status;
    TRY(module_mkldnn(ctx, *out_module, NULL));
    TRY(tensor_randn(ctx, DTYPE_F32, SHAPE(layer->images, layer->inputs, layer->side, layer->side),
                     &dense));
    status = to_mkldnn(ctx, dense, out_x);
    tensor_release(dense);
    return status;
}

static status_t measure(context_t *ctx, const layer_t *layer, int n_samples, double limit)
{
    module_t *module = NULL;
    tensor_t *x = NULL;
    double best[N_KINDS] = {0};
    status_t status = make(ctx, layer, &module, &x);
    const int n_kinds = layer->stride == 1 ? N_KINDS : TILES_6;
    for (int i = 0; i < n_samples + 1; i++)
        for (int k = 0; k < n_kinds && status == STATUS_OK; k++) {
            if (i == 1) best[k] = 0; /* the first run packs weights */
            status = run(ctx, x, module_parameter(module, "weight"), layer->stride, algorithms[k],
                         &best[k]);
        }
    if (status == STATUS_OK) {
        printf("%2lld,%3lld,%4lld,%3lld,%lld", (long long)layer->images, (long long)layer->inputs,
               (long long)layer->side, (long long)layer->outputs, (long long)layer->stride);
        for (int k = 0; k < n_kinds; k++)
            printf(" %9.3f %5.2f", best[k] * 1e-6, flops_of(layer, 2 * k) / best[k] / limit);
        printf("\n");
    }
    fflush(stdout);
    module_release(module);
    tensor_release(x);
    return status;
}

int main(int argc, char **argv)
{
    const int n_samples = argc > 1 ? atoi(argv[1]) : 15;
    context_t *ctx = NULL;
    if (argc > 2 || n_samples < 1) {
        fprintf(stderr, "usage: winograd [SAMPLES]\n");
        return 2;
    }
    if (context_create(NULL, &ctx) != STATUS_OK) return 1;
    const double limit = limit_fma(context_threads(ctx));
    status_t status = STATUS_OK;
    printf("%.0f GFLOP/s at most\n%-16s %15s %15s %15s %15s\n", limit, "N,C,H=W,K,stride", "direct",
           "2x2", "4x4", "6x6");
    for (size_t l = 0; l < sizeof layers / sizeof *layers && status == STATUS_OK; l++)
        status = measure(ctx, &layers[l], n_samples, limit);
    if (status != STATUS_OK) fprintf(stderr, "winograd: %s\n", context_error(ctx));
    context_destroy(ctx);
    return status == STATUS_OK ? 0 : 1;
}
