/* Random ONNX models, chosen by the bytes of an input (tests/support/onnx/random_model.h). Each
 * model is imported at one set of sizes and runs at two: dense, operator by operator, with mkldnn
 * weights, frozen, and from a file. All results must agree. */
#include "tests/fuzz/fuzz.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "dispatch/dispatch.h"
#include "freeze/freeze.h"
#include "io/onnx/onnx.h"
#include "module/mkldnn.h"
#include "module/module.h"
#include "tests/support/onnx/random_model.h"

#define N_SIZES RANDOM_MODEL_RUNS
#define MAX_NUMEL RANDOM_MODEL_NUMEL /* elements */
#define MAX_SHAKEN 16.0              /* error, relative to the change by shaken numbers */

/* ---- running ---- */

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

static void run(context_t *ctx, module_t *module, const int64_t *sizes, double shake, result_t *out)
{
    static float numbers[MAX_NUMEL];
    tensor_t *x = NULL;
    const int64_t numel = sizes[0] * sizes[1] * sizes[2] * sizes[3];
    FUZZ_CHECK(numel <= MAX_NUMEL, "%lld elements", (long long)numel);
    random_model_fill(numel, shake, numbers);
    *out = (result_t){.n = 0};
    out->status = tensor_from(ctx, DTYPE_F32, 4, sizes, numbers, &x);
    if (out->status == STATUS_OK) {
        const tensor_t *const in[] = {x};
        out->status = module_call_tensors(ctx, module, "forward", 1, in, &out->n, out->out);
    }
    fuzz_check_failure(ctx, out->status);
    if (out->status != STATUS_OK) out->n = 0;
    tensor_release(x);
}

static void compare(context_t *ctx, const char *mode, const result_t *dense, const result_t *shaken,
                    const result_t *given)
{
    static float wanted[MAX_NUMEL], moved[MAX_NUMEL], got[MAX_NUMEL];
    if (dense->status != STATUS_OK || given->status == STATUS_OUT_OF_MEMORY) return;
    FUZZ_CHECK(given->status == STATUS_OK, "%s: %s", mode, context_error(ctx));
    FUZZ_CHECK(given->n == dense->n, "%s: %d results, not %d", mode, given->n, dense->n);
    for (int i = 0; i < dense->n; i++) {
        const tensor_info_t *a = tensor_info(dense->out[i]), *b = tensor_info(given->out[i]);
        FUZZ_CHECK(shape_equal(a->rank, a->sizes, b->rank, b->sizes), "%s: sizes of result %d",
                   mode, i);
        const int64_t n = tensor_numel(dense->out[i]);
        if (n > MAX_NUMEL) continue;
        if (tensor_read(ctx, dense->out[i], wanted, sizeof wanted) != STATUS_OK ||
            tensor_read(ctx, shaken->out[i], moved, sizeof moved) != STATUS_OK ||
            tensor_read(ctx, given->out[i], got, sizeof got) != STATUS_OK)
            continue;
        double largest = 0, reach = 0;
        for (int64_t k = 0; k < n; k++) {
            largest = fmax(largest, fabs((double)wanted[k]));
            reach = fmax(reach, fabs((double)(wanted[k] - moved[k])));
        }
        const double most = MAX_SHAKEN * reach + 1e-4 * (1.0 + largest);
        for (int64_t k = 0; k < n; k++)
            FUZZ_CHECK(!(fabs((double)(wanted[k] - got[k])) > most),
                       "%s: result %d element %lld is %g, dense %g", mode, i, (long long)k,
                       (double)got[k], (double)wanted[k]);
    }
}

typedef struct sizes {
    int64_t all[N_SIZES][4];
} sizes_t;

static void run_mode(context_t *ctx, const char *mode, module_t *module, const sizes_t *sizes,
                     const result_t *dense, const result_t *shaken)
{
    for (int i = 0; i < N_SIZES; i++) {
        result_t result;
        run(ctx, module, sizes->all[i], 0.0, &result);
        compare(ctx, mode, &dense[i], &shaken[i], &result);
        clear(&result);
    }
}

static status_t take_through_file(context_t *ctx, module_t *frozen, module_t **out_loaded)
{
    char path[] = "/dev/shm/tessera-fuzz-model-XXXXXX";
    int descriptor = mkstemp(path);
    FUZZ_CHECK(descriptor >= 0 && close(descriptor) == 0, "%s", path);
    status_t status = freeze_save(ctx, frozen, path);
    if (status == STATUS_OK) status = freeze_load(ctx, path, out_loaded);
    unlink(path);
    return status;
}

static void run_modes(context_t *ctx, module_t *model, const sizes_t *sizes)
{
    result_t dense[N_SIZES], shaken[N_SIZES];
    module_t *frozen = NULL, *loaded = NULL;
    FUZZ_CHECK(dispatch_set_policy(ctx, POLICY_PER_OP) == STATUS_OK, "policy");
    for (int i = 0; i < N_SIZES; i++) {
        run(ctx, model, sizes->all[i], 0.0, &dense[i]);
        run(ctx, model, sizes->all[i], RANDOM_MODEL_SHAKE, &shaken[i]);
        if (shaken[i].status != STATUS_OK) dense[i].status = shaken[i].status;
    }
    FUZZ_CHECK(dispatch_set_policy(ctx, POLICY_AUTO) == STATUS_OK, "policy");
    run_mode(ctx, "graph", model, sizes, dense, shaken);
    status_t status = freeze(ctx, model, NULL, &frozen);
    fuzz_check_failure(ctx, status);
    if (status == STATUS_OK) run_mode(ctx, "frozen", frozen, sizes, dense, shaken);
    if (status == STATUS_OK) status = take_through_file(ctx, frozen, &loaded);
    fuzz_check_failure(ctx, status);
    if (status == STATUS_OK) run_mode(ctx, "file", loaded, sizes, dense, shaken);
    status = module_mkldnn(ctx, model, NULL);
    fuzz_check_failure(ctx, status);
    if (status == STATUS_OK) run_mode(ctx, "mkldnn", model, sizes, dense, shaken);
    for (int i = 0; i < N_SIZES; i++) {
        clear(&dense[i]);
        clear(&shaken[i]);
    }
    module_release(loaded);
    module_release(frozen);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    sizes_t sizes;
    size_t n_packed = 0;
    module_t *model = NULL;
    uint8_t *packed = random_model_make(bytes, n_bytes, sizes.all, &n_packed);
    context_t *ctx = fuzz_begin(64 << 20, 2000000);
    const onnx_shape_t shape = {"x", 4, sizes.all[0]};
    const onnx_options_t options = {.n_shapes = 1, .shapes = &shape};
    status_t status = onnx_load_bytes(ctx, packed, n_packed, &options, &model);
    fuzz_check_failure(ctx, status);
    if (status == STATUS_OK) run_modes(ctx, model, &sizes);
    module_release(model);
    fuzz_end(ctx);
    free(packed);
    return 0;
}
