/* Random ONNX models that compute with sizes (tests/support/onnx/random_sizes.h). Each is imported
 * with fixed sizes, and with open sizes at those of the first run. At other sizes, both must give
 * the same result or both fail; if the open model's guards exclude a size, an import at that size
 * is compared instead. */
#include "tests/fuzz/fuzz.h"

#include <math.h>
#include <stdlib.h>

#include "dispatch/dispatch.h"
#include "graph/ir/graph_impl.h"
#include "io/onnx/onnx.h"
#include "module/module.h"
#include "tests/support/onnx/random_sizes.h"

#define MAX_NUMEL 16384 /* an input or result */

typedef struct result {
    status_t status;
    int n;
    tensor_t *out[METHOD_MAX_OUTPUTS];
} result_t;

static void clear(result_t *result)
{
    for (int i = 0; i < result->n; i++) tensor_release(result->out[i]);
    *result = (result_t){.n = 0};
}

static result_t run(context_t *ctx, module_t *module, const int64_t *sizes)
{
    static float numbers[MAX_NUMEL];
    result_t result = {.n = 0};
    tensor_t *x = NULL;
    const int64_t numel = sizes[0] * sizes[1] * sizes[2] * sizes[3];
    FUZZ_CHECK(numel <= MAX_NUMEL, "%lld elements", (long long)numel);
    for (int64_t i = 0; i < numel; i++) numbers[i] = (float)fuzz_number(i, 0.0);
    result.status = tensor_from(ctx, DTYPE_F32, 4, sizes, numbers, &x);
    if (result.status == STATUS_OK) {
        const tensor_t *const in[] = {x};
        result.status = module_call_tensors(ctx, module, "forward", 1, in, &result.n, result.out);
    }
    fuzz_check_failure(ctx, result.status);
    if (result.status != STATUS_OK) result.n = 0;
    tensor_release(x);
    return result;
}

static result_t import_and_run(context_t *ctx, const uint8_t *bytes, size_t n_bytes,
                               const int64_t *fixed, const int64_t *sizes)
{
    size_t n_packed = 0;
    module_t *model = NULL;
    result_t result = {.n = 0};
    uint8_t *packed = random_sizes_make(bytes, n_bytes, fixed, &n_packed);
    const onnx_shape_t shape = {"x", 4, sizes};
    const onnx_options_t options = {.n_shapes = 1, .shapes = &shape};
    result.status = onnx_load_bytes(ctx, packed, n_packed, &options, &model);
    fuzz_check_failure(ctx, result.status);
    if (result.status == STATUS_OK) result = run(ctx, model, sizes);
    module_release(model);
    free(packed);
    return result;
}

static bool lacks_memory(const result_t *result)
{
    return result->status == STATUS_OUT_OF_MEMORY;
}

static void compare(context_t *ctx, const char *what, const int64_t *sizes, const result_t *fixed,
                    const result_t *open)
{
    static double wanted[MAX_NUMEL], got[MAX_NUMEL]; /* elements of 4 or 8 bytes */
    if (lacks_memory(fixed) || lacks_memory(open)) return;
    FUZZ_CHECK(fixed->status == open->status, "%s at %lldx3x%lldx%lld: %s, with sizes fixed %s: %s",
               what, (long long)sizes[0], (long long)sizes[2], (long long)sizes[3],
               status_name(open->status), status_name(fixed->status), context_error(ctx));
    FUZZ_CHECK(fixed->n == open->n, "%s: %d results, not %d", what, open->n, fixed->n);
    for (int i = 0; i < fixed->n; i++) {
        const tensor_info_t *a = tensor_info(fixed->out[i]), *b = tensor_info(open->out[i]);
        FUZZ_CHECK(a->dtype == b->dtype && shape_equal(a->rank, a->sizes, b->rank, b->sizes),
                   "%s: sizes of result %d", what, i);
        if (tensor_read(ctx, fixed->out[i], wanted, sizeof wanted) != STATUS_OK ||
            tensor_read(ctx, open->out[i], got, sizeof got) != STATUS_OK)
            continue;
        for (int64_t k = 0; k < tensor_numel(fixed->out[i]); k++) {
            const double x = dtype_load(a->dtype,
                                        (char *)wanted + k * (int64_t)dtype_size(a->dtype));
            const double y = dtype_load(a->dtype, (char *)got + k * (int64_t)dtype_size(a->dtype));
            FUZZ_CHECK(x == y || fabs(x - y) <= 1e-5 * (1.0 + fabs(x)),
                       "%s: result %d element %lld is %g, with sizes fixed %g", what, i,
                       (long long)k, y, x);
        }
    }
}

static void check_at(context_t *ctx, module_t *model, const uint8_t *bytes, size_t n_bytes,
                     const int64_t *sizes)
{
    const tensor_info_t info = info_dense(DTYPE_F32, 4, sizes), *const in[] = {&info};
    result_t fixed = import_and_run(ctx, bytes, n_bytes, sizes, sizes), open;
    const bool holds = model != NULL &&
                       graph_check_inputs(ctx, graph_of(model, "forward"), 1, in) == STATUS_OK;
    open = holds ? run(ctx, model, sizes) : import_and_run(ctx, bytes, n_bytes, NULL, sizes);
    compare(ctx, holds ? "the open model" : "imported again", sizes, &fixed, &open);
    clear(&fixed);
    clear(&open);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    int64_t sizes[RANDOM_SIZES_RUNS][4];
    size_t n_packed = 0;
    module_t *model = NULL;
    random_sizes_draw(bytes, n_bytes, sizes);
    uint8_t *packed = random_sizes_make(bytes, n_bytes, NULL, &n_packed);
    context_t *ctx = fuzz_begin(64 << 20, 2000000);
    const onnx_shape_t shape = {"x", 4, sizes[0]};
    const onnx_options_t options = {.n_shapes = 1, .shapes = &shape};
    FUZZ_CHECK(dispatch_set_policy(ctx, POLICY_PER_OP) == STATUS_OK, "policy");
    fuzz_check_failure(ctx, onnx_load_bytes(ctx, packed, n_packed, &options, &model));
    for (int i = 0; i < RANDOM_SIZES_RUNS; i++) check_at(ctx, model, bytes, n_bytes, sizes[i]);
    module_release(model);
    fuzz_end(ctx);
    free(packed);
    return 0;
}
