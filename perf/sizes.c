/* Measures the resident memory of a process whose inputs have N different sizes: in a frozen
 * convolutional network, which keeps plans for a few sizes, and in a single eager convolution. Each
 * of the two runs in a separate process.
 *
 * usage: sizes [N]    (1,000 to 10,000; default 10,000) */
#include <stdio.h>
#include <stdlib.h>
#include <tessera.h>

#include "support/resident.h"
#include "tensor/base/try_impl.h"

/* Heights and widths are LEAST to LEAST + SIDE - 1, in a shuffled order: each size is STEP further
 * than the last, and STEP has no common factor with the number of sizes. */
enum { SIDE = 100, LEAST = 8, STEP = 7919, CHANNELS = 16 };

typedef struct subject {
    const char *name;
    bool is_frozen;
    int n_sizes;
} subject_t;

/* Memory after a hundred sizes, after a thousand, and at the end. */
typedef struct reading {
    double mb, plans_evicted, entries, misses;
} reading_t;
enum { N_READINGS = 3, N_NUMBERS = N_READINGS * 4 };

static status_t make_frozen(context_t *ctx, module_t **out_frozen)
{
    module_t *net = NULL, *layer = NULL;
    tensor_t *image = NULL;
    TRY(layer_sequential(ctx, &net));
    for (int i = 0; i < 3; i++) {
        const conv_attrs_t attrs = {.padding = {1, 1}};
        TRY(layer_conv2d(ctx, CHANNELS, CHANNELS, 3, &attrs, false, &layer));
        TRY(layer_append_take(ctx, net, layer));
        TRY(layer_batch_norm(ctx, CHANNELS, 1e-5, &layer));
        TRY(layer_append_take(ctx, net, layer));
        TRY(layer_activation(ctx, ELTWISE_RELU, 0, 0, &layer));
        TRY(layer_append_take(ctx, net, layer));
    }
    TRY(module_train(ctx, net, false));
    TRY(tensor_randn(ctx, DTYPE_F32, SHAPE(1, CHANNELS, LEAST, LEAST), &image));
    TRY(graph_trace(ctx, net, "forward", 1, (const tensor_t *const[]){image}));
    tensor_release(image);
    return freeze_take(ctx, &net, NULL, out_frozen);
}

static status_t run_size(context_t *ctx, module_t *frozen, const tensor_t *weight, int number)
{
    const conv_attrs_t attrs = {.padding = {1, 1}};
    const int place = number * STEP % (SIDE * SIDE);
    const int64_t height = LEAST + place / SIDE, width = LEAST + place % SIDE;
    tensor_t *image = NULL, *out = NULL;
    TRY(tensor_randn(ctx, DTYPE_F32, SHAPE(1, CHANNELS, height, width), &image));
    status_t status = frozen != NULL ? module_forward(ctx, frozen, image, &out)
                                     : op_conv2d(ctx, image, weight, NULL, &attrs, &out);
    tensor_release(out);
    tensor_release(image);
    return status;
}

static status_t run(context_t *ctx, const subject_t *subject, reading_t *out)
{
    module_t *frozen = NULL;
    tensor_t *weight = NULL;
    int n_read = 0;
    TRY(tensor_randn(ctx, DTYPE_F32, SHAPE(CHANNELS, CHANNELS, 3, 3), &weight));
    if (subject->is_frozen) TRY(make_frozen(ctx, &frozen));
    for (int i = 0; i < subject->n_sizes; i++) {
        TRY(run_size(ctx, frozen, weight, i));
        if (i + 1 != 100 && i + 1 != 1000 && i + 1 != subject->n_sizes) continue;
        counters_t counters;
        counters_read(ctx, &counters);
        out[n_read++] = (reading_t){resident_mb(), (double)counters.plans_evicted,
                                    (double)counters.cache_entries, (double)counters.cache_misses};
    }
    return STATUS_OK;
}

/* Frees nothing, because the process ends after the measurement. */
static bool measure(const void *user, double *out_numbers)
{
    context_t *ctx = NULL;
    reading_t readings[N_READINGS] = {{0}};
    status_t status = context_create(NULL, &ctx);
    if (status == STATUS_OK) status = run(ctx, user, readings);
    if (status != STATUS_OK) fprintf(stderr, "sizes: %s\n", context_error(ctx));
    for (int i = 0; i < N_READINGS; i++) {
        const reading_t *reading = &readings[i];
        const double numbers[] = {reading->mb, reading->plans_evicted, reading->entries,
                                  reading->misses};
        for (int k = 0; k < 4; k++) out_numbers[4 * i + k] = numbers[k];
    }
    return status == STATUS_OK;
}

int main(int argc, char **argv)
{
    const int n = argc > 1 ? atoi(argv[1]) : SIDE * SIDE;
    if (argc > 2 || n <= 1000 || n > SIDE * SIDE) {
        fprintf(stderr, "usage: sizes [N]    (from 1,001 to 10,000)\n");
        return 2;
    }
    const subject_t subjects[] = {{"frozen network", true, n}, {"eager conv2d", false, n}};
    printf("%-16s %8s %12s %15s %10s %10s\n", "", "sizes", "resident, MB", "plans evicted",
           "entries", "misses");
    for (int i = 0; i < 2; i++) {
        double numbers[N_NUMBERS];
        if (!resident_apart(measure, &subjects[i], N_NUMBERS, numbers)) return 1;
        for (int k = 0; k < N_READINGS; k++)
            printf("%-16s %8d %12.1f %15.0f %10.0f %10.0f\n", subjects[i].name,
                   k == 0   ? 100
                   : k == 1 ? 1000
                            : n,
                   numbers[4 * k], numbers[4 * k + 1], numbers[4 * k + 2], numbers[4 * k + 3]);
    }
    return 0;
}
