/* Measures how fast linear layers read 4-bit and 8-bit weights, in GB/s of stored bytes, and the
 * share of the machine's read rate.
 *
 * usage: grouped [SAMPLES]    (default: 9; the best counts)
 *
 * A stack is several copies of a layer, each with its own weight, so that no weight is still in a
 * cache from the previous run. Runs of stacks and plain reading alternate. */
#include <stdio.h>
#include <stdlib.h>
#include <tessera.h>

#include "support/clock.h"
#include "support/limit.h"
#include "tensor/base/try_impl.h"

enum { BYTES = 192 << 20, MAX_COPIES = 512 };

typedef struct stack {
    int n;
    int64_t n_bytes;
    tensor_t *weights[MAX_COPIES];
} stack_t;

static const int64_t layers[][2] = {{8960, 1536}, {1536, 8960}, {4096, 4096}, {960, 576}};
static const grouping_t groupings[] = {{4, true, 32, DTYPE_F16, GROUPING_NONE},
                                       {4, false, 32, DTYPE_F16, GROUPING_MINIMA},
                                       {8, true, 32, DTYPE_F16, GROUPING_NONE}};
static const char *const names[] = {"s4f16g32", "u4f16m32", "s8f16g32"};

static status_t make_weight(context_t *ctx, const grouping_t *grouping, const int64_t *sizes,
                            tensor_t **out)
{
    const size_t n = (size_t)(sizes[0] * sizes[1]), n_groups = n / (size_t)grouping->group;
    uint8_t *codes = calloc(n, 1);
    uint16_t *scales = calloc(n_groups, sizeof *scales);
    status_t status = codes != NULL && scales != NULL ? STATUS_OK : STATUS_OUT_OF_MEMORY;
    for (size_t i = 0; i < n && status == STATUS_OK; i++)
        codes[i] = (uint8_t)(i * 7 % 8); /* legal for all kinds of codes */
    if (status == STATUS_OK)
        status = tensor_grouped(ctx, grouping, 2, sizes, codes, scales,
                                grouping->offset == GROUPING_NONE ? NULL : scales, out);
    free(codes);
    free(scales);
    return status;
}

static status_t make_stack(context_t *ctx, const grouping_t *grouping, const int64_t *sizes,
                           stack_t *stack)
{
    const int n_scales = grouping->offset == GROUPING_NONE ? 1 : 2;
    const int64_t bits = grouping->bits + 16 * n_scales / grouping->group;
    int n = (int)(BYTES * 8LL / (sizes[0] * sizes[1] * bits)) + 1;
    if (n > MAX_COPIES) n = MAX_COPIES;
    stack->n_bytes = sizes[0] * sizes[1] * (grouping->bits * grouping->group + 16 * n_scales) /
                     grouping->group / 8 * n;
    for (stack->n = 0; stack->n < n; stack->n++)
        TRY(make_weight(ctx, grouping, sizes, &stack->weights[stack->n]));
    return STATUS_OK;
}

/* Keeps the highest rate at which the stack's weights were read, in GB/s. */
static status_t run(context_t *ctx, const stack_t *stack, const tensor_t *x, double *best)
{
    const double begin = clock_ns();
    for (int i = 0; i < stack->n; i++) {
        tensor_t *y = NULL;
        TRY(op_linear(ctx, x, stack->weights[i], NULL, &y));
        tensor_release(y);
    }
    const double rate = (double)stack->n_bytes / (clock_ns() - begin);
    if (rate > *best) *best = rate;
    return STATUS_OK;
}

static status_t measure(context_t *ctx, int kind, const int64_t *sizes, const stack_t *stack,
                        int64_t n_rows, int n_samples, const float *memory)
{
    double limit = 0, best = 0;
    tensor_t *x = NULL;
    TRY(tensor_randn(ctx, DTYPE_F32, SHAPE(n_rows, sizes[1]), &x));
    status_t status = STATUS_OK;
    for (int i = 0; i < n_samples && status == STATUS_OK; i++) {
        const double read = limit_read(memory, BYTES, context_threads(ctx));
        if (read > limit) limit = read;
        status = run(ctx, stack, x, &best);
    }
    if (status == STATUS_OK)
        printf("%-10s %5lld x %-5lld %4lld %8.1f %8.1f %8.2f\n", names[kind], (long long)sizes[0],
               (long long)sizes[1], (long long)n_rows, limit, best, best / limit);
    fflush(stdout);
    tensor_release(x);
    return status;
}

static status_t measure_layer(context_t *ctx, int kind, const int64_t *sizes, int n_samples,
                              const float *memory)
{
    static const int64_t rows[] = {1, 2, 4, 16};
    stack_t stack = {.n = 0};
    status_t status = make_stack(ctx, &groupings[kind], sizes, &stack);
    for (size_t r = 0; r < sizeof rows / sizeof *rows && status == STATUS_OK; r++)
        status = measure(ctx, kind, sizes, &stack, rows[r], n_samples, memory);
    for (int i = 0; i < stack.n; i++) tensor_release(stack.weights[i]);
    return status;
}

int main(int argc, char **argv)
{
    const int n_samples = argc > 1 ? atoi(argv[1]) : 9;
    context_t *ctx = NULL;
    if (argc > 2 || n_samples < 1) {
        fprintf(stderr, "usage: grouped [SAMPLES]\n");
        return 2;
    }
    if (context_create(NULL, &ctx) != STATUS_OK) return 1;
    float *memory = limit_make(BYTES, true, context_threads(ctx));
    status_t status = memory != NULL ? STATUS_OK : STATUS_OUT_OF_MEMORY;
    printf("%-10s %-13s %4s %8s %8s %8s\n", "weight", "layer", "rows", "limit", "own", "share");
    for (int k = 0; k < 3; k++)
        for (size_t l = 0; l < sizeof layers / sizeof *layers && status == STATUS_OK; l++)
            status = measure_layer(ctx, k, layers[l], n_samples, memory);
    if (status != STATUS_OK) fprintf(stderr, "grouped: %s\n", context_error(ctx));
    limit_free(memory, BYTES);
    context_destroy(ctx);
    return status == STATUS_OK ? 0 : 1;
}
