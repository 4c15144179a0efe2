/* Measures how fast linear layers with few rows read their weights, in GB/s of stored bytes. Frozen
 * layers use our own kernel; their weights have 4 bytes per element if numerics are kept, else 3.
 * Layers converted by module_mkldnn use oneDNN's format. The machine's read rate is printed, too.
 *
 * usage: linear [SAMPLES]    (default: 15; the best counts)
 *
 * A stack is several copies of a layer, each with its own weight. They run one after another, so no
 * weight is still in a cache from the previous run. Runs of stacks and plain reading alternate. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tessera.h>

#include "support/clock.h"
#include "support/limit.h"
#include "tensor/base/try_impl.h"

enum { BYTES = 256 << 20, MAX_COPIES = 32 };

typedef struct layer {
    const char *name;
    int64_t outputs, inputs;
} layer_t;

typedef enum kind { CONVERTED, WHOLE, TRIMMED, N_KINDS } kind_t;

/* Copies of a layer that all read the same input. */
typedef struct stack {
    int n;
    kind_t kind;
    module_t *layers[MAX_COPIES];
} stack_t;

static const layer_t layers[] = {{"4096 x 9216", 4096, 9216},
                                 {"4096 x 4096", 4096, 4096},
                                 {"1000 x 4096", 1000, 4096},
                                 {"3072 x 768", 3072, 768},
                                 {"768 x 3072", 768, 3072}};

static void release(stack_t *stack)
{
    for (int i = 0; i < stack->n; i++) module_release(stack->layers[i]);
    stack->n = 0;
}

static status_t make(context_t *ctx, const layer_t *layer, const tensor_t *x, kind_t kind,
                     stack_t *out)
{
    const freeze_options_t options = {.keep_numerics = kind == WHOLE};
    int n = (int)(BYTES / (layer->outputs * layer->inputs * 4)) + 1;
    if (n > MAX_COPIES) n = MAX_COPIES;
    *out = (stack_t){.kind = kind};
    while (out->n < n) {
        module_t *plain = NULL;
        TRY(layer_linear(ctx, layer->inputs, layer->outputs, true, &plain));
        out->layers[out->n++] = plain;
        if (kind == CONVERTED) {
            TRY(module_mkldnn(ctx, plain, NULL));
            continue;
        }
        module_t *frozen = NULL;
        TRY(graph_trace(ctx, plain, "forward", 1, &x));
        TRY(freeze(ctx, plain, &options, &frozen));
        out->layers[out->n - 1] = frozen;
        module_release(plain);
    }
    return STATUS_OK;
}

/* Runs the stack. Keeps the highest rate at which weights were read, in GB/s. */
static status_t run(context_t *ctx, const layer_t *layer, const stack_t *stack, const tensor_t *x,
                    double *best)
{
    const double begin = clock_ns();
    for (int i = 0; i < stack->n; i++) {
        tensor_t *y = NULL;
        TRY(module_forward(ctx, stack->layers[i], x, &y));
        tensor_release(y);
    }
    const int size = stack->kind == TRIMMED ? 3 : 4;
    const double bytes = (double)(layer->outputs * layer->inputs * size * stack->n);
    const double rate = bytes / (clock_ns() - begin);
    if (rate > *best) *best = rate;
    return STATUS_OK;
}

static status_t measure(context_t *ctx, const layer_t *layer, int64_t n_rows, int n_samples,
                        const float *memory)
{
    const int n_threads = context_threads(ctx);
    double limit = 0, best[N_KINDS] = {0};
    tensor_t *x = NULL;
    stack_t stacks[N_KINDS] = {{0}};
    TRY(tensor_randn(ctx, DTYPE_F32, SHAPE(n_rows, layer->inputs), &x));
    status_t status = STATUS_OK;
    for (int k = 0; k < N_KINDS && status == STATUS_OK; k++)
        status = make(ctx, layer, x, (kind_t)k, &stacks[k]);
    for (int i = 0; i < n_samples + 1 && status == STATUS_OK; i++) {
        if (i == 1) memset(best, 0, sizeof best); /* the first run packs weights */
        const double read = limit_read(memory, BYTES, n_threads);
        if (read > limit) limit = read;
        for (int k = 0; k < N_KINDS && status == STATUS_OK; k++)
            status = run(ctx, layer, &stacks[k], x, &best[k]);
    }
    if (status == STATUS_OK)
        printf("%-14s %4lld %8.1f %8.1f %8.1f %8.2f %8.1f %8.2f\n", layer->name, (long long)n_rows,
               limit, best[CONVERTED], best[WHOLE], best[WHOLE] / limit, best[TRIMMED],
               best[TRIMMED] / limit);
    fflush(stdout);
    for (int k = 0; k < N_KINDS; k++) release(&stacks[k]);
    tensor_release(x);
    return status;
}

int main(int argc, char **argv)
{
    static const int64_t rows[] = {1, 2, 4, 8, 16};
    const int n_samples = argc > 1 ? atoi(argv[1]) : 15;
    context_t *ctx = NULL;
    if (argc > 2 || n_samples < 1) {
        fprintf(stderr, "usage: linear [SAMPLES]\n");
        return 2;
    }
    if (context_create(NULL, &ctx) != STATUS_OK) return 1;
    float *memory = limit_make(BYTES, true, context_threads(ctx));
    status_t status = memory != NULL ? STATUS_OK : STATUS_OUT_OF_MEMORY;
    printf("%-14s %4s %8s %8s %8s %8s %8s %8s\n", "GB/s", "rows", "limit", "oneDNN", "own", "share",
           "3 bytes", "share");
    for (size_t l = 0; l < sizeof layers / sizeof *layers; l++)
        for (size_t r = 0; r < sizeof rows / sizeof *rows && status == STATUS_OK; r++)
            status = measure(ctx, &layers[l], rows[r], n_samples, memory);
    if (status != STATUS_OK) fprintf(stderr, "linear: %s\n", context_error(ctx));
    limit_free(memory, BYTES);
    context_destroy(ctx);
    return status == STATUS_OK ? 0 : 1;
}
