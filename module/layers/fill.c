#include <string.h>

#include "module/layers/layers_impl.h"
#include "tensor/tensor_impl.h"

/* Returns the i-th number of the random generator splitmix64 for a seed, without computing those
 * before. */
static uint64_t word(uint64_t seed, int64_t i)
{
    uint64_t z = seed + ((uint64_t)i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Approximates normally distributed numbers by sums of four uniform 16-bit numbers. This needs no
 * library functions such as log, so the result is the same on every machine. */
static void fill_normal(float *elements, int64_t n, uint64_t seed, double deviation)
{
    const float scale = (float)(deviation / 37837.227);
    for (int64_t i = 0; i < n; i++) {
        uint64_t z = word(seed, i);
        int32_t sum = (int32_t)(z & 0xffff) + (int32_t)(z >> 16 & 0xffff) +
                      (int32_t)(z >> 32 & 0xffff) + (int32_t)(z >> 48);
        elements[i] = (float)(sum - 131070) * scale;
    }
}

static void fill_uniform(float *elements, int64_t n, uint64_t seed, double low, double high)
{
    const float scale = (float)((high - low) / 16777216.0);
    for (int64_t i = 0; i < n; i++)
        elements[i] = (float)low + (float)(int32_t)(word(seed, i) >> 40) * scale;
}

/* The tensor must be contiguous f32; layers create only such tensors. */
status_t layer_fill(context_t *ctx, tensor_t *tensor, fill_t fill, double a, double b)
{
    INVARIANT(tensor->info.dtype == DTYPE_F32 && info_is_contiguous(&tensor->info));
    int64_t n = tensor_numel(tensor);
    void *bytes = NULL;
    TRY(tensor_writable(ctx, tensor, &bytes));
    float *elements = bytes;
    switch (fill) {
    case FILL_NORMAL: fill_normal(elements, n, context_random(ctx), a); break;
    case FILL_UNIFORM: fill_uniform(elements, n, context_random(ctx), a, b); break;
    case FILL_VALUE:
        for (int64_t i = 0; i < n; i++) elements[i] = (float)a;
        break;
    }
    return STATUS_OK;
}

static status_t make(context_t *ctx, const char *name, int rank, const int64_t *sizes, fill_t fill,
                     double a, double b, tensor_t **out_tensor)
{
    TRY(shape_check(ctx, name, DTYPE_F32, rank, sizes));
    tensor_info_t info = info_dense(DTYPE_F32, rank, sizes);
    tensor_t *tensor = NULL;
    TRY(tensor_make(ctx, &info, &tensor));
    status_t status = layer_fill(ctx, tensor, fill, a, b);
    GIVE(status, out_tensor, tensor, tensor_drop(tensor));
}

status_t layer_parameter(context_t *ctx, module_t *module, const char *name, int rank,
                         const int64_t *sizes, fill_t fill, double a, double b)
{
    tensor_t *tensor = NULL;
    TRY(make(ctx, name, rank, sizes, fill, a, b, &tensor));
    FINISH(module_set_parameter(ctx, module, name, tensor), tensor_drop(tensor));
}

status_t layer_buffer(context_t *ctx, module_t *module, const char *name, int rank,
                      const int64_t *sizes, fill_t fill, double a, double b)
{
    tensor_t *tensor = NULL;
    TRY(make(ctx, name, rank, sizes, fill, a, b, &tensor));
    FINISH(module_set_buffer(ctx, module, name, tensor), tensor_drop(tensor));
}

/* ---- attributes ---- */

/* Sets an attribute. Takes ownership of the value. */
static status_t set(context_t *ctx, module_t *module, const char *name, datum_t *value)
{
    FINISH(module_set_attribute(ctx, module, name, value), datum_release(value));
}

status_t layer_set_int(context_t *ctx, module_t *module, const char *name, int64_t value)
{
    datum_t *datum = NULL;
    TRY(datum_int(ctx, value, &datum));
    return set(ctx, module, name, datum);
}

status_t layer_set_float(context_t *ctx, module_t *module, const char *name, double value)
{
    datum_t *datum = NULL;
    TRY(datum_float(ctx, value, &datum));
    return set(ctx, module, name, datum);
}

status_t layer_set_bool(context_t *ctx, module_t *module, const char *name, bool value)
{
    datum_t *datum = NULL;
    TRY(datum_bool(ctx, value, &datum));
    return set(ctx, module, name, datum);
}

status_t layer_set_sizes(context_t *ctx, module_t *module, const char *name, int n,
                         const int64_t *values)
{
    datum_t *items[TENSOR_MAX_RANK] = {NULL};
    datum_t *tuple = NULL;
    status_t status = STATUS_OK;
    INVARIANT(n <= TENSOR_MAX_RANK);
    for (int i = 0; i < n && status == STATUS_OK; i++)
        status = datum_int(ctx, values[i], &items[i]);
    if (status == STATUS_OK) status = datum_tuple(ctx, n, items, &tuple);
    if (status == STATUS_OK) status = module_set_attribute(ctx, module, name, tuple);
    datum_release(tuple);
    for (int i = 0; i < n; i++) datum_release(items[i]);
    return status;
}

status_t layer_child_take(context_t *ctx, module_t *module, const char *name, module_t *child)
{
    FINISH(module_set_child(ctx, module, name, child), module_release(child));
}
