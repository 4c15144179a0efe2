/* Creates tensors from numbers. */
#include "ops/making.h"

#include <math.h>

#include "tensor/tensor_impl.h"

/* Creates a contiguous tensor, which the caller fills. */
static status_t make(context_t *ctx, const char *op, dtype_t dtype, int rank, const int64_t *sizes,
                     tensor_t **out_tensor, char **out_elements)
{
    tensor_t *tensor = NULL;
    void *bytes = NULL;
    if (dtype == DTYPE_NONE) dtype = DTYPE_F32;
    TRY(tensor_check(ctx, op, dtype, rank, sizes));
    tensor_info_t info = info_dense(dtype, rank, sizes);
    TRY(tensor_make(ctx, &info, &tensor));
    TRY_OR(tensor_writable(ctx, tensor, &bytes), tensor_drop(tensor));
    *out_elements = bytes;
    *out_tensor = tensor;
    return STATUS_OK;
}

static void store(const tensor_t *tensor, char *elements, int64_t i, double value)
{
    const dtype_t dtype = tensor->info.dtype;
    dtype_store(dtype, elements + (size_t)i * dtype_size(dtype), value);
}

status_t op_arange(context_t *ctx, double start, double end, double step, dtype_t dtype,
                   tensor_t **out)
{
    tensor_t *tensor = NULL;
    char *elements = NULL;
    TRY(context_output(ctx, "arange", out));
    REQUIRE(ctx, isfinite(start) && isfinite(end) && isfinite(step) && step != 0,
            "arange: from %g to %g by %g, finite numbers and a step that is not 0 are needed",
            start, end, step);
    REQUIRE(ctx, start == end || (end > start) == (step > 0),
            "arange: from %g to %g by %g, the step leads away", start, end, step);
    REQUIRE(ctx,
            dtype == DTYPE_NONE || !dtype_is_integral(dtype) ||
                (start == trunc(start) && step == trunc(step)),
            "arange: from %g by %g in %s, whole numbers are needed", start, step,
            dtype_name(dtype));
    const double count = ceil((end - start) / step);
    REQUIRE(ctx, count < 0x1p53, "arange: from %g to %g by %g, too many elements", start, end,
            step);
    const int64_t n = (int64_t)count;
    TRY(make(ctx, "arange", dtype, 1, &n, &tensor, &elements));
    for (int64_t i = 0; i < n; i++) store(tensor, elements, i, start + (double)i * step);
    return tensor_give(ctx, tensor, out);
}

status_t op_linspace(context_t *ctx, double start, double end, int64_t n, dtype_t dtype,
                     tensor_t **out)
{
    tensor_t *tensor = NULL;
    char *elements = NULL;
    TRY(context_output(ctx, "linspace", out));
    REQUIRE(ctx, n >= 0, "linspace: %lld elements, 0 or more are possible", (long long)n);
    TRY(make(ctx, "linspace", dtype, 1, &n, &tensor, &elements));
    const double step = n > 1 ? (end - start) / (double)(n - 1) : 0;
    for (int64_t i = 0; i < n; i++)
        store(tensor, elements, i,
              i < n / 2 || n == 1 ? start + (double)i * step : end - (double)(n - 1 - i) * step);
    return tensor_give(ctx, tensor, out);
}

status_t op_eye(context_t *ctx, int64_t n, int64_t m, dtype_t dtype, tensor_t **out)
{
    const int64_t sizes[] = {n, m};
    tensor_t *tensor = NULL;
    char *elements = NULL;
    TRY(context_output(ctx, "eye", out));
    TRY(make(ctx, "eye", dtype, 2, sizes, &tensor, &elements));
    for (int64_t i = 0; i < n * m; i++) store(tensor, elements, i, i / m == i % m);
    return tensor_give(ctx, tensor, out);
}
