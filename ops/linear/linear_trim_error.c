/* Measures the error from trimming the weight of a linear layer to 3 bytes per element
 * (tensor/convert/trim_impl.h). Computes some outputs for a few random rows in double, with the
 * trimmed and with the original weight. */
#include <math.h>

#include "ops/linear/linear_impl.h"
#include "ops/sample_impl.h"
#include "tensor/context_impl.h"
#include "tensor/convert/trim_impl.h"

enum { MAX_OUTPUTS = 64, N_ROWS = 2 };

static bool stays_finite(const tensor_info_t *weight, const float *bytes)
{
    for (int64_t i = 0; i < info_numel(weight); i++)
        if (!isfinite(trim_round(bytes[i]))) return false;
    return true;
}

status_t linear_trim_error(context_t *ctx, const tensor_info_t *weight, const float *bytes,
                           double *out_error)
{
    const int64_t n_outputs = weight->sizes[0], n_inputs = weight->sizes[1];
    const int64_t n_sampled = n_outputs < MAX_OUTPUTS ? n_outputs : MAX_OUTPUTS;
    const int64_t n_x = N_ROWS * n_inputs;
    sample_error_t total = {0.0, 0.0};
    uint64_t state = 1;
    float *x = NULL;
    *out_error = INFINITY;
    if (!stays_finite(weight, bytes)) return STATUS_OK;
    TRY(context_get(ctx, (size_t)n_x * sizeof *x, "a sample of a linear layer", &x));
    for (int64_t i = 0; i < n_x; i++) x[i] = sample_draw(&state);
    for (int64_t k = 0; k < n_sampled; k++) {
        const float *row = bytes + k * n_outputs / n_sampled * n_inputs;
        for (int64_t b = 0; b < N_ROWS; b++) {
            double sum = 0.0, error = 0.0;
            for (int64_t i = 0; i < n_inputs; i++) {
                const double element = (double)row[i], at = (double)x[b * n_inputs + i];
                sum += at * element;
                error += at * ((double)trim_round(row[i]) - element);
            }
            sample_add(&total, error, sum);
        }
    }
    *out_error = sample_ratio(&total);
    context_put(ctx, x);
    return STATUS_OK;
}
