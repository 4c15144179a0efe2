/* Measures an imported network whose image size changes in every run: the memory of the process,
 * and the times of the first and of a second run at each size.
 *
 * usage: new_sizes MODEL.onnx [N [STEP]]
 *
 * The model's only input is f32[1,C,H,W] with open H and W. N sizes (default 600) are taken from a
 * square of sizes with sides that are multiples of STEP (8), always in the same order. Prints six
 * lines: the sizes so far, resident MB, MB of plans beyond the last two sizes, plans dropped and
 * weights packed so far, and the medians of both times since the previous line.
 * perf/peers/new_sizes does the same with ONNX Runtime. */
#include <stdio.h>
#include <stdlib.h>
#include <tessera.h>

#include "support/clock.h"
#include "support/resident.h"
#include "tensor/base/try_impl.h"

enum { LINES = 6, LEAST = 4 };

typedef struct lengths {
    int n, step, side, prime;
} lengths_t;

/* The smallest square with at least n sizes, and a stride that visits each of its sizes once. */
static lengths_t lengths_for(int n, int step)
{
    lengths_t lengths = {.n = n, .step = step, .prime = 7919};
    while (lengths.side * lengths.side < n) lengths.side++;
    return lengths;
}

static status_t run(context_t *ctx, module_t *frozen, const tensor_t *image, double *out_ms)
{
    tensor_t *out = NULL;
    const double start = clock_ns();
    const status_t status = module_forward(ctx, frozen, image, &out);
    *out_ms = (clock_ns() - start) / 1e6;
    tensor_release(out);
    return status;
}

static status_t run_size(context_t *ctx, module_t *frozen, int64_t channels,
                         const lengths_t *lengths, int number, double *out_ms)
{
    const int64_t place = (int64_t)number * lengths->prime % (lengths->side * lengths->side);
    const int64_t height = (LEAST + place / lengths->side) * lengths->step;
    const int64_t width = (LEAST + place % lengths->side) * lengths->step;
    tensor_t *image = NULL;
    TRY(tensor_randn(ctx, DTYPE_F32, SHAPE(1, channels, height, width), &image));
    status_t status = run(ctx, frozen, image, &out_ms[0]);
    if (status == STATUS_OK) status = run(ctx, frozen, image, &out_ms[1]);
    tensor_release(image);
    return status;
}

static void print_line(context_t *ctx, int n_sizes, int n, double *first, double *second)
{
    counters_t counters;
    counters_read(ctx, &counters);
    printf("%6d %10.1f %10.1f %8llu %8llu %10.2f %10.2f\n", n_sizes, resident_mb(),
           (double)counters.plan_bytes / 1e6, (unsigned long long)counters.plans_evicted,
           (unsigned long long)counters.weights_packed, clock_median(n, first),
           clock_median(n, second));
    fflush(stdout);
}

static status_t measure(context_t *ctx, module_t *frozen, const lengths_t *lengths)
{
    module_value_t input;
    double *times = calloc((size_t)lengths->n * 2, sizeof *times), ms[2];
    double *first = times, *second = times + lengths->n;
    int n = 0;
    TRY(module_input(ctx, frozen, "forward", 0, &input));
    printf("%6s %10s %10s %8s %8s %10s %10s\n", "sizes", "MB", "plans, MB", "evicted", "packed",
           "first, ms", "again, ms");
    for (int i = 0; i < lengths->n; i++) {
        TRY(run_size(ctx, frozen, input.sizes[1], lengths, i, ms));
        first[n] = ms[0];
        second[n++] = ms[1];
        if ((i + 1) % (lengths->n / LINES) != 0) continue;
        print_line(ctx, i + 1, n, first, second);
        n = 0;
    }
    free(times);
    return STATUS_OK;
}

static status_t import(context_t *ctx, const char *path, module_t **out_frozen)
{
    module_t *module = NULL;
    TRY(onnx_load(ctx, path, &(onnx_options_t){.open_size = 64}, &module));
    return freeze_take(ctx, &module, NULL, out_frozen);
}

int main(int argc, char **argv)
{
    context_t *ctx = NULL;
    module_t *frozen = NULL;
    const int n = argc > 2 ? atoi(argv[2]) : 600, step = argc > 3 ? atoi(argv[3]) : 8;
    if (argc < 2 || argc > 4 || n < LINES || step < 1) {
        fprintf(stderr, "usage: new_sizes MODEL.onnx [N [STEP]]\n");
        return 2;
    }
    const lengths_t lengths = lengths_for(n, step);
    status_t status = context_create(NULL, &ctx);
    if (status == STATUS_OK) status = import(ctx, argv[1], &frozen);
    if (status == STATUS_OK) status = measure(ctx, frozen, &lengths);
    if (status != STATUS_OK) fprintf(stderr, "new_sizes: %s\n", context_error(ctx));
    module_release(frozen);
    context_destroy(ctx);
    return status == STATUS_OK ? 0 : 1;
}
