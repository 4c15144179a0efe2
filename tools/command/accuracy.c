#include "tools/command/accuracy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tensor/base/try_impl.h"
#include "tools/support/bar.h"
#include "tools/support/print.h"

typedef struct accuracy_outputs {
    int n;
    tensor_t *items[METHOD_MAX_OUTPUTS];
} accuracy_outputs_t;

static status_t run(context_t *ctx, module_t *module, int n_in, const tensor_t *const *in,
                    accuracy_outputs_t *out)
{
    out->n = METHOD_MAX_OUTPUTS;
    status_t status = module_call_tensors(ctx, module, "forward", n_in, in, &out->n, out->items);
    if (status != STATUS_OK) out->n = 0;
    return status;
}

status_t accuracy_begin(context_t *ctx, const model_t *model, int n,
                        const tensor_t *const *const *examples, accuracy_t *out_accuracy)
{
    accuracy_t accuracy = {.wide = calloc((size_t)n, sizeof *accuracy.wide)};
    if (accuracy.wide == NULL)
        FAIL(ctx, STATUS_OUT_OF_MEMORY, "no memory for the outputs of %d examples", n);
    for (accuracy.n = 0; accuracy.n < n; accuracy.n++) {
        status_t status = run(ctx, model->module, model->n_inputs, examples[accuracy.n],
                              &accuracy.wide[accuracy.n]);
        if (status == STATUS_OK) continue;
        accuracy_end(&accuracy);
        return status;
    }
    *out_accuracy = accuracy;
    return STATUS_OK;
}

void accuracy_end(accuracy_t *accuracy)
{
    for (int i = 0; i < accuracy->n; i++)
        mode_release_outputs(accuracy->wide[i].n, accuracy->wide[i].items);
    free(accuracy->wide);
    free(accuracy->layers);
    *accuracy = (accuracy_t){.n = 0};
}

void accuracy_note(void *user, const freeze_layer_t *layer)
{
    accuracy_t *accuracy = user;
    bar_end();
    if (layer->is_kept) {
        print("kept in f32: %s %s, error %.4g\n", layer->op, layer->path, layer->error);
        accuracy->n_kept++;
        return;
    }
    if (accuracy->n_layers % 64 == 0) {
        const size_t n = (size_t)accuracy->n_layers + 64;
        accuracy_layer_t *layers = realloc(accuracy->layers, n * sizeof *layers);
        if (layers == NULL) return; /* out of memory: this layer will not be in the list */
        accuracy->layers = layers;
    }
    accuracy_layer_t *known = &accuracy->layers[accuracy->n_layers++];
    snprintf(known->path, sizeof known->path, "%s", layer->path);
    known->error = layer->error;
    if (isnan(accuracy->worst) || layer->error < accuracy->worst) return;
    accuracy->worst = layer->error;
    snprintf(accuracy->worst_path, sizeof accuracy->worst_path, "%s", layer->path);
    snprintf(accuracy->worst_op, sizeof accuracy->worst_op, "%s", layer->op);
}

void accuracy_forget(accuracy_t *accuracy)
{
    accuracy->n_layers = accuracy->n_kept = 0;
    accuracy->worst = 0.0;
}

static bool is_worse(const accuracy_t *accuracy, int a, int b)
{
    const double x = accuracy->layers[a].error, y = accuracy->layers[b].error;
    if (isnan(x) || isnan(y)) return isnan(x) && (!isnan(y) || a < b);
    return x > y || (x == y && a < b);
}

const char *accuracy_worst(const accuracy_t *accuracy, int rank)
{
    for (int i = 0; i < accuracy->n_layers; i++) {
        int n_worse = 0;
        for (int k = 0; k < accuracy->n_layers; k++) n_worse += k != i && is_worse(accuracy, k, i);
        if (n_worse == rank) return accuracy->layers[i].path;
    }
    return NULL;
}

/* ---- outputs ---- */

/* Returns the index of the largest number, or -1 if a number is NaN. */
static int64_t find_largest(int64_t n, const float *row)
{
    int64_t best = 0;
    for (int64_t i = 0; i < n; i++) {
        if (isnan(row[i])) return -1;
        if (row[i] > row[best]) best = i;
    }
    return best;
}

/* For scores [rows][classes], counts the rows whose largest score is that of the same class in both
 * tensors. */
static status_t compare_rows(context_t *ctx, const tensor_t *a, const tensor_t *b,
                             agreement_t *agreement)
{
    const int64_t *sizes = tensor_info(a)->sizes;
    const size_t bytes = (size_t)tensor_numel(a) * sizeof(float);
    if (tensor_rank(a) != 2 || sizes[1] < 2 || tensor_dtype(a) != DTYPE_F32 || bytes == 0)
        return STATUS_OK;
    float *first = malloc(bytes), *second = malloc(bytes);
    status_t status = first == NULL || second == NULL
                          ? context_fail(ctx, STATUS_OUT_OF_MEMORY, "no memory for scores")
                          : tensor_read(ctx, a, first, bytes);
    if (status == STATUS_OK) status = tensor_read(ctx, b, second, bytes);
    for (int64_t row = 0; row < sizes[0] && status == STATUS_OK; row++) {
        const int64_t best = find_largest(sizes[1], first + row * sizes[1]);
        agreement->n_rows++;
        agreement->n_same += best >= 0 && best == find_largest(sizes[1], second + row * sizes[1]);
    }
    free(first);
    free(second);
    return status;
}

static status_t compare(context_t *ctx, const accuracy_outputs_t *wide,
                        const accuracy_outputs_t *narrow, agreement_t *agreement)
{
    double difference = 0.0;
    for (int i = 0; i < wide->n && i < narrow->n; i++) {
        if (!dtype_is_floating(tensor_dtype(wide->items[i]))) continue;
        TRY(tensor_max_rel_diff(ctx, narrow->items[i], wide->items[i], &difference));
        if (!isnan(agreement->difference) && !(difference <= agreement->difference))
            agreement->difference = difference;
    }
    return wide->n > 0 && narrow->n > 0
               ? compare_rows(ctx, wide->items[0], narrow->items[0], agreement)
               : STATUS_OK;
}

status_t accuracy_compare(context_t *ctx, module_t *frozen, const model_t *model,
                          const tensor_t *const *const *examples, const accuracy_t *accuracy,
                          agreement_t *out_agreement)
{
    *out_agreement = (agreement_t){0.0, 0, 0};
    for (int i = 0; i < accuracy->n; i++) {
        accuracy_outputs_t narrow = {0, {NULL}};
        status_t status = run(ctx, frozen, model->n_inputs, examples[i], &narrow);
        if (status == STATUS_OK) status = compare(ctx, &accuracy->wide[i], &narrow, out_agreement);
        mode_release_outputs(narrow.n, narrow.items);
        TRY(status);
    }
    return STATUS_OK;
}

void accuracy_print(dtype_t dtype, const accuracy_t *accuracy, const agreement_t *agreement)
{
    bar_end();
    print("%s: %d layers, %d kept in f32; outputs differ from f32 by %.4g", dtype_name(dtype),
          accuracy->n_layers, accuracy->n_kept, agreement->difference);
    if (accuracy->n_layers > 0)
        print(", largest error of a layer %.4g: %s %s", accuracy->worst, accuracy->worst_op,
              accuracy->worst_path);
    print("\n");
    if (agreement->n_rows > 0)
        print("top-1 agreement with f32 %.4f: %lld of %lld rows\n",
              (double)agreement->n_same / (double)agreement->n_rows, (long long)agreement->n_same,
              (long long)agreement->n_rows);
}
