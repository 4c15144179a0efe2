/* Data sets: creation from arrays, properties, release. */
#include "io/data/dataset.h"

#include <stdarg.h>
#include <stdio.h>

#include "io/data/dataset_impl.h"
#include "io/data/npy.h"
#include "tensor/base/references_impl.h"
#include "tensor/scope.h"
#include "tensor/tensor_impl.h"

status_t dataset_fail(failure_t *failure, status_t status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(failure->message, sizeof failure->message, format, arguments);
    va_end(arguments);
    failure->status = status;
    return status;
}

status_t dataset_make(context_t *ctx, dataset_t **out_dataset)
{
    dataset_t *dataset = NULL;
    TRY(context_get_zeroed(ctx, sizeof *dataset, "a data set", &dataset));
    atomic_init(&dataset->n_references, 1);
    dataset->allocator = *context_allocator(ctx);
    *out_dataset = dataset;
    return STATUS_OK;
}

dataset_t *dataset_retain(dataset_t *dataset)
{
    if (dataset != NULL) references_add(&dataset->n_references);
    return dataset;
}

static void put_strings(const allocator_t *allocator, char **strings, int n)
{
    for (int i = 0; i < n; i++) allocator_put(allocator, strings[i]);
    allocator_put(allocator, strings);
}

void dataset_release(dataset_t *dataset)
{
    if (dataset == NULL || !references_drop(&dataset->n_references)) return;
    const allocator_t allocator = dataset->allocator;
    tensor_drop(dataset->elements);
    tensor_drop(dataset->targets);
    put_strings(&allocator, dataset->paths, dataset->n_paths);
    put_strings(&allocator, dataset->class_names, dataset->n_class_names);
    allocator_put(&allocator, dataset);
}

/* ---- arrays ---- */

/* Makes a contiguous copy with another dtype. */
static status_t copy(context_t *ctx, const tensor_t *tensor, dtype_t dtype, tensor_t **out_copy)
{
    tensor_info_t info = info_dense(dtype, tensor_rank(tensor), tensor_sizes(tensor));
    tensor_t *made = NULL;
    TRY(tensor_make(ctx, &info, &made));
    status_t status = tensor_copy(ctx, made, tensor);
    GIVE(status, out_copy, made, tensor_drop(made));
}

/* Dtype and sizes of one item along the first dimension. */
static tensor_info_t info_of_one(dtype_t dtype, const tensor_t *all)
{
    return info_dense(dtype, tensor_rank(all) - 1, tensor_sizes(all) + 1);
}

static int64_t count_classes(const dataset_t *dataset)
{
    if (dataset->target.dtype != DTYPE_S64 || dataset->target.rank != 0) return 0;
    const int64_t *labels = tensor_bytes(dataset->targets);
    int64_t largest = -1;
    for (int64_t i = 0; i < dataset->n; i++)
        if (labels[i] > largest) largest = labels[i];
    return largest < INT64_MAX ? largest + 1 : largest;
}

static status_t fill(context_t *ctx, dataset_t *dataset, const tensor_t *x, const tensor_t *y)
{
    dtype_t type = tensor_dtype(x);
    dtype_t kept = dtype_is_floating(type) ? DTYPE_F32 : type;
    dtype_t target = dtype_is_floating(tensor_dtype(y)) ? DTYPE_F32 : DTYPE_S64;
    TRY(copy(ctx, x, kept, &dataset->elements));
    TRY(copy(ctx, y, target, &dataset->targets));
    dataset->n = tensor_sizes(x)[0];
    dataset->item = info_of_one(kept == DTYPE_U8 ? DTYPE_F32 : kept, x);
    dataset->target = info_of_one(target, y);
    dataset->n_classes = count_classes(dataset);
    return STATUS_OK;
}

/* x_name and y_name identify the tensors in messages. */
static status_t make_of_tensors(context_t *ctx, const char *op, const char *x_name,
                                const char *y_name, const tensor_t *x, const tensor_t *y,
                                dataset_t **out_dataset)
{
    REQUIRE(ctx, tensor_rank(x) > 0 && tensor_rank(y) > 0 && tensor_sizes(x)[0] > 0,
            "%s: %s is %s, %s %s, a first dimension of at least one item is needed", op, x_name,
            tensor_text(x), y_name, tensor_text(y));
    REQUIRE(ctx, tensor_sizes(x)[0] == tensor_sizes(y)[0],
            "%s: %s has %lld items, %s %lld, each item needs a target", op, x_name,
            (long long)tensor_sizes(x)[0], y_name, (long long)tensor_sizes(y)[0]);
    dataset_t *dataset = NULL;
    TRY(dataset_make(ctx, &dataset));
    status_t status = fill(ctx, dataset, x, y);
    GIVE(status, out_dataset, dataset, dataset_release(dataset));
}

status_t dataset_from_tensors(context_t *ctx, const tensor_t *x, const tensor_t *y,
                              dataset_t **out_dataset)
{
    TRY(context_output(ctx, "dataset_from_tensors", out_dataset));
    if (x == NULL) return context_null(ctx, "dataset_from_tensors", "x");
    if (y == NULL) return context_null(ctx, "dataset_from_tensors", "y");
    return make_of_tensors(ctx, "dataset_from_tensors", "x", "y", x, y, out_dataset);
}

/* The scope releases the tensors of npy_load. */
status_t dataset_from_npy(context_t *ctx, const char *x_path, const char *y_path,
                          dataset_t **out_dataset)
{
    TRY(context_output(ctx, "dataset_from_npy", out_dataset));
    if (x_path == NULL) return context_null(ctx, "dataset_from_npy", "x_path");
    if (y_path == NULL) return context_null(ctx, "dataset_from_npy", "y_path");
    tensor_t *x = NULL, *y = NULL;
    dataset_t *dataset = NULL;
    TRY(scope_begin(ctx));
    status_t status = npy_load(ctx, x_path, &x);
    if (status == STATUS_OK) status = npy_load(ctx, y_path, &y);
    if (status == STATUS_OK)
        status = make_of_tensors(ctx, "dataset_from_npy", x_path, y_path, x, y, &dataset);
    status_t ended = scope_end(ctx);
    if (status == STATUS_OK) status = ended;
    GIVE(status, out_dataset, dataset, dataset_release(dataset));
}

/* ---- properties ---- */

int64_t dataset_n(const dataset_t *dataset)
{
    return dataset != NULL ? dataset->n : 0;
}

int64_t dataset_classes(const dataset_t *dataset)
{
    return dataset != NULL ? dataset->n_classes : 0;
}

const char *dataset_class_name(const dataset_t *dataset, int64_t index)
{
    if (dataset == NULL || index < 0 || index >= dataset->n_class_names) return NULL;
    return dataset->class_names[index];
}

const tensor_info_t *dataset_item(const dataset_t *dataset)
{
    return dataset != NULL ? &dataset->item : NULL;
}

const tensor_info_t *dataset_target(const dataset_t *dataset)
{
    return dataset != NULL ? &dataset->target : NULL;
}
