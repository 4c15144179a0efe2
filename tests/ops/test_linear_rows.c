/* Linear layers with few rows and a weight in training: which kernel runs, and its results,
 * compared with sums in double. */
#include "tests/support/support.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "dispatch/select_impl.h"
#include "module/mkldnn.h"
#include "ops/linear/linear.h"
#include "ops/ops_impl.h"

/* Returns true if the weight is in blocks of outputs: oneDNN 2 with AVX-512. oneDNN 3.x may choose
 * other formats. */
static bool has_blocks(void)
{
    return strncmp(onednn_isa_text(), "avx512", 6) == 0 && onednn_version_text()[0] == '2';
}

static prepared_t *choose(context_t *ctx, const linear_attrs_t *attrs, const tensor_t *const *in,
                          policy_t policy)
{
    static const tensor_info_t absent = {.dtype = DTYPE_NONE};
    const tensor_info_t *infos[] = {tensor_info(in[0]), tensor_info(in[1]),
                                    in[2] != NULL ? tensor_info(in[2]) : &absent};
    prepared_t *prepared = NULL;
    CHECK_OK(ctx, select_for_weights(ctx, &op_def_linear, attrs, 3, infos, WEIGHT_KEPT, policy,
                                     &prepared));
    return prepared;
}

static const float *floats_of(context_t *ctx, const tensor_t *tensor)
{
    const void *data = NULL;
    if (tensor != NULL) CHECK_OK(ctx, tensor_data(ctx, tensor, &data));
    return data;
}

static void check(context_t *ctx, const tensor_t *const *in, const tensor_t *out, bool has_relu)
{
    const float *x = floats_of(ctx, in[0]), *weight = floats_of(ctx, in[1]);
    const float *bias = floats_of(ctx, in[2]), *got = floats_of(ctx, out);
    const int64_t outputs = tensor_info(in[1])->sizes[0], features = tensor_info(in[1])->sizes[1];
    const int64_t rows = tensor_info(in[0])->sizes[0];
    for (int64_t i = 0; i < rows * outputs; i++) {
        const int64_t row = i / outputs, k = i % outputs;
        double sum = bias != NULL ? (double)bias[k] : 0.0, size = fabs(sum);
        for (int64_t c = 0; c < features; c++) {
            const double term = (double)x[row * features + c] * (double)weight[k * features + c];
            sum += term;
            size += fabs(term);
        }
        if (has_relu && sum < 0.0) sum = 0.0;
        assert_true(fabs((double)got[i] - sum) <= ((double)features + 8.0) * FLT_EPSILON * size);
    }
}

static char kernel_that_ran[32];

static status_t note_kernel(context_t *ctx, void *user, const op_event_t *event)
{
    (void)ctx;
    (void)user;
    snprintf(kernel_that_ran, sizeof kernel_that_ran, "%s", prepared_kernel(event->prepared));
    return STATUS_OK;
}

static void run_one(context_t *ctx, int64_t rows, int64_t outputs, int64_t features, bool has_relu)
{
    linear_attrs_t attrs = {.post.n = has_relu ? 1 : 0};
    tensor_t *x = NULL, *weight = NULL, *bias = NULL, *out = NULL, *dense = NULL;
    attrs.post.op[0] = (post_op_t){.kind = POST_ELTWISE, .eltwise = ELTWISE_RELU};
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(rows, features), &x));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(outputs, features), &weight));
    if (has_relu) CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(outputs), &bias));
    const tensor_t *in[] = {x, weight, bias};
    module_t *module = NULL;
    CHECK_OK(ctx, module_create(ctx, "linear", &module));
    CHECK_OK(ctx, module_set_parameter(ctx, module, "weight", weight));
    CHECK_OK(ctx, module_mkldnn(ctx, module, NULL));
    const tensor_t *kept[] = {x, module_parameter(module, "weight"), bias};
    observer_t observer = {.op_end = note_kernel};
    int n_out = 1;
    CHECK_OK(ctx, dispatch_add_observer(ctx, &observer));
    CHECK_OK(ctx, dispatch_run(ctx, &op_def_linear, &attrs, 3, kept, &n_out, &out));
    dispatch_remove_observer(ctx, &observer);
    if (has_blocks()) assert_string_equal(kernel_that_ran, "rows");
    CHECK_OK(ctx, op_to_dense(ctx, out, &dense));
    check(ctx, in, dense, has_relu);
    module_release(module);
    tensor_release(x);
    tensor_release(weight);
    tensor_release(bias);
    tensor_release(out);
    tensor_release(dense);
}

static void layers_compute_what_double_does(void **state)
{
    static const int64_t rows[] = {14, 15, 16, 31, 32}, sizes[] = {1, 3, 7, 17, 31};
    context_t *ctx = fixture_context(state);
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            run_one(ctx, rows[r], 64 + sizes[s], 128 + sizes[s], (r + s) % 2 == 0);
}

/* oneDNN runs a layer if it has very few rows, which would leave most lanes empty, if it has many
 * rows, and with policy per_op. */
static void other_layers_are_left_to_onednn(void **state)
{
    static const int64_t rows[] = {1, 4, 33};
    context_t *ctx = fixture_context(state);
    const linear_attrs_t attrs = {.flatten = false};
    for (int i = 0; i < 4; i++) {
        tensor_t *x = NULL, *weight = NULL;
        CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(i < 3 ? rows[i] : 16, 130), &x));
        CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(67, 130), &weight));
        const tensor_t *in[] = {x, weight, NULL};
        prepared_t *prepared = choose(ctx, &attrs, in, i < 3 ? POLICY_AUTO : POLICY_PER_OP);
        assert_string_equal(prepared_kernel(prepared), "onednn");
        prepared_release(prepared);
        tensor_release(x);
        tensor_release(weight);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(layers_compute_what_double_does),
        TEST(other_layers_are_left_to_onednn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
