/* Batch norm in training: PyTorch's numbers, running statistics, layouts, errors. */
#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "dispatch/dispatch.h"
#include "module/layers/layers.h"
#include "ops/ops_impl.h"
#include "tensor/convert/convert.h"
#include "tensor/counters.h"
#include "tests/support/case.h"
#include "train/tape.h"

/* Values from batch_norm_values.py. A momentum of -1 stands for PyTorch's None. */
static const struct {
    int rank;
    int64_t sizes[4];
    double offset, momentum;
    float y[6], running_mean[3], running_var[3], grad[6], grad_weight[3], grad_bias[3];
} rows[] = {
    {
        4,
        {2, 3, 5, 7},
        0,
        0.1,
        .y = {3.321723f, -0.004353986f, -3.330431f, -6.656507f, 0.4248172f, -2.901259f},
        .running_mean = {0.028f, -0.02075f, 0.00325f},
        .running_var = {2.234708f, 2.242828f, 2.242828f},
        .grad = {5.161783f, 3.515363f, 1.868944f, 0.2225246f, -0.6365895f, -2.283009f},
        .grad_weight = {-9.254004f, 3.52839f, -6.435611f},
        .grad_bias = {-15.9375f, 4.375f, 6.5f},
    },
    {
        4,
        {2, 3, 5, 7},
        1000,
        0.1,
        .y = {3.321723f, -0.004353986f, -3.330431f, -6.656507f, 0.4248172f, -2.901259f},
        .running_mean = {280.028f, 279.9793f, 280.0033f},
        .running_var = {2.234708f, 2.242828f, 2.242828f},
        .grad = {5.161783f, 3.515363f, 1.868944f, 0.2225246f, -0.6365895f, -2.283009f},
        .grad_weight = {-9.254004f, 3.52839f, -6.435611f},
        .grad_bias = {-15.9375f, 4.375f, 6.5f},
    },
    {
        2,
        {7, 3},
        0,
        -1,
        .y = {5.179163f, -5.523585f, -4.556144f, -4.205647f, -4.24489f, -3.495763f},
        .running_mean = {2.169643f, -2.71875f, 0.1875f},
        .running_var = {10.0665f, 0.7291667f, 0.7291667f},
        .grad = {-0.27838f, 9.970384f, 1.850537f, 0.6162259f, -2.212608f, -7.337724f},
        .grad_weight = {6.694125f, -0.7796922f, -3.804898f},
        .grad_bias = {-6.1875f, -0.5f, -0.875f},
    },
    {
        3,
        {3, 3, 4},
        0,
        0.25,
        .y = {3.58485f, 0.4226518f, -2.739546f, -5.901744f, 0.2417823f, -2.426221f},
        .running_mean = {0.2636719f, 0.05533854f, -0.1529948f},
        .running_var = {4.247248f, 4.339104f, 3.305723f},
        .grad = {3.795289f, 2.519856f, 1.244423f, -0.03100996f, -0.1503396f, -1.338986f},
        .grad_weight = {0.3533034f, -0.5842599f, -4.448107f},
        .grad_bias = {-7.4375f, 1.25f, -2.1875f},
    },
};

/* Makes a tensor whose element i is (i step % 97 - 48) / 16 + offset. */
static tensor_t *fill(context_t *ctx, int step, double offset, int rank, const int64_t *sizes)
{
    tensor_t *tensor = NULL;
    void *bytes = NULL;
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, rank, sizes, &tensor));
    CHECK_OK(ctx, tensor_data_mutable(ctx, tensor, &bytes));
    for (int64_t i = 0; i < tensor_numel(tensor); i++)
        ((float *)bytes)[i] = (float)((double)(i * step % 97 - 48) / 16 + offset);
    return tensor;
}

static void set_parameter(context_t *ctx, module_t *norm, const char *name, int step, double offset)
{
    tensor_t *tensor = fill(ctx, step, offset, 1, (const int64_t[]){3});
    CHECK_OK(ctx, module_set_parameter(ctx, norm, name, tensor));
    tensor_release(tensor);
}

static void set_buffer(context_t *ctx, module_t *norm, const char *name, double value)
{
    tensor_t *tensor = NULL;
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(3), value, &tensor));
    CHECK_OK(ctx, module_set_buffer(ctx, norm, name, tensor));
    tensor_release(tensor);
}

static void set_momentum(context_t *ctx, module_t *norm, double momentum)
{
    datum_t *value = NULL;
    CHECK_OK(ctx, momentum < 0 ? datum_none(ctx, &value) : datum_float(ctx, momentum, &value));
    CHECK_OK(ctx, module_set_attribute(ctx, norm, "momentum", value));
    datum_release(value);
}

/* A layer in training mode with PyTorch's initial running statistics. */
static module_t *make_norm(context_t *ctx)
{
    module_t *norm = NULL;
    CHECK_OK(ctx, layer_batch_norm(ctx, 3, 1e-3, &norm));
    set_parameter(ctx, norm, "weight", 7, 0);
    set_parameter(ctx, norm, "bias", 5, 1);
    set_buffer(ctx, norm, "running_mean", 0);
    set_buffer(ctx, norm, "running_var", 1);
    CHECK_OK(ctx, module_train(ctx, norm, true));
    return norm;
}

static void expect(context_t *ctx, const char *what, const tensor_t *tensor, float bound, int n,
                   const float *expected)
{
    float got[256];
    assert_true(tensor_numel(tensor) <= 256);
    CHECK_OK(ctx, tensor_read(ctx, tensor, got, (size_t)tensor_numel(tensor) * sizeof *got));
    for (int i = 0; i < n; i++)
        if (!(fabsf(got[i] - expected[i]) <= bound * (1 + fabsf(expected[i]))))
            fail_msg("%s %d is %.8g, PyTorch has %.8g", what, i, (double)got[i],
                     (double)expected[i]);
}

static void check_row(context_t *ctx, size_t r, bool is_mkldnn)
{
    module_t *norm = make_norm(ctx);
    tensor_t *x = fill(ctx, 31, rows[r].offset, rows[r].rank, rows[r].sizes);
    tensor_t *grad = fill(ctx, 13, 0, rows[r].rank, rows[r].sizes), *y = NULL, *twice = NULL;
    tape_t *tape = NULL;
    /* f32 keeps seven digits of 1000.01, so only five of its difference from the mean */
    const float bound = rows[r].offset == 0 ? 1e-5f : 1e-4f;
    if (rows[r].momentum != 0.1) set_momentum(ctx, norm, rows[r].momentum);
    CHECK_OK(ctx, op_mul_scalar(ctx, x, 2, &twice));
    CHECK_OK(ctx, module_forward(ctx, norm, twice, &y));
    tensor_release(y);
    if (is_mkldnn) {
        tensor_t *blocked = NULL;
        CHECK_OK(ctx, to_mkldnn(ctx, x, &blocked));
        tensor_release(x);
        x = blocked;
    }
    CHECK_OK(ctx, tape_create(ctx, &tape));
    CHECK_OK(ctx, tape_watch(ctx, tape, x));
    CHECK_OK(ctx, tape_watch_module(ctx, tape, norm));
    CHECK_OK(ctx, module_forward(ctx, norm, x, &y));
    CHECK_OK(ctx, tape_backward(ctx, tape, y, grad));
    expect(ctx, "y", y, 1e-5f, 6, rows[r].y);
    expect(ctx, "running_mean", module_buffer(norm, "running_mean"), 1e-5f, 3,
           rows[r].running_mean);
    expect(ctx, "running_var", module_buffer(norm, "running_var"), 1e-5f, 3, rows[r].running_var);
    expect(ctx, "grad", tape_gradient(tape, x), bound, 6, rows[r].grad);
    expect(ctx, "grad_weight", tape_gradient(tape, module_parameter(norm, "weight")), bound, 3,
           rows[r].grad_weight);
    expect(ctx, "grad_bias", tape_gradient(tape, module_parameter(norm, "bias")), bound, 3,
           rows[r].grad_bias);
    int64_t n_tracked = 0;
    CHECK_OK(ctx, tensor_read(ctx, module_buffer(norm, "num_batches_tracked"), &n_tracked,
                              sizeof n_tracked));
    assert_int_equal(n_tracked, 2);
    tape_destroy(tape);
    tensor_release(y);
    tensor_release(twice);
    tensor_release(grad);
    tensor_release(x);
    module_release(norm);
}

static void statistics_and_gradients_are_those_of_pytorch(void **state)
{
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        check_row(fixture_context(state), r, false);
        check_row(fixture_context(state), r, true);
    }
}

static void without_running_statistics_those_of_the_batch_serve_inference(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *norm = make_norm(ctx);
    tensor_t *x = fill(ctx, 31, 0, 4, (const int64_t[]){2, 3, 5, 7}), *y = NULL;
    CHECK_OK(ctx, module_remove(ctx, norm, "running_mean"));
    CHECK_OK(ctx, module_remove(ctx, norm, "running_var"));
    CHECK_OK(ctx, module_train(ctx, norm, false));
    CHECK_OK(ctx, module_forward(ctx, norm, x, &y));
    expect(ctx, "y", y, 1e-5f, 6, rows[0].y);
    tensor_release(y);
    tensor_release(x);
    module_release(norm);
}

static void calls_that_have_no_statistics_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *norm = make_norm(ctx);
    tensor_t *one = fill(ctx, 31, 0, 2, (const int64_t[]){1, 3}), *y = NULL, *mean = NULL;
    tensor_t *line = fill(ctx, 31, 0, 1, (const int64_t[]){3}), *variance = NULL;
    tensor_t *x = fill(ctx, 31, 0, 2, (const int64_t[]){4, 3}), *out[3] = {NULL};
    int n_out = 3;
    CHECK_FAILS(ctx, module_forward(ctx, norm, one, &y), STATUS_INVALID_ARGUMENT,
                "batch_norm_training: x is f32[1,3], more than 1 value per channel is needed in "
                "training");
    CHECK_FAILS(ctx, op_batch_norm_training(ctx, line, NULL, NULL, 1e-5, &y, &mean, &variance),
                STATUS_INVALID_ARGUMENT, "batch_norm_training: x is f32[3], rank 2 to 5 is needed");
    CHECK_FAILS(ctx, op_batch_norm_training(ctx, x, one, NULL, 1e-5, &y, &mean, &variance),
                STATUS_INVALID_ARGUMENT,
                "batch_norm_training: weight is f32[1,3], input f32[4,3] needs floating [3]");
    const tensor_t *const in[] = {x, NULL, line, line, one, NULL};
    CHECK_FAILS(ctx, dispatch_run(ctx, &op_def_batch_norm_backward, NULL, 6, in, &n_out, out),
                STATUS_INVALID_ARGUMENT,
                "batch_norm_backward: grad is f32[1,3], x is f32[4,3], equal sizes and dtypes are "
                "needed");
    set_momentum(ctx, norm, -1);
    CHECK_OK(ctx, module_remove(ctx, norm, "num_batches_tracked"));
    CHECK_FAILS(
        ctx, module_forward(ctx, norm, x, &y), STATUS_INVALID_ARGUMENT,
        "batch_norm: attribute \"momentum\" is None, which needs buffer num_batches_tracked");
    assert_null(y);
    tensor_release(x);
    tensor_release(line);
    tensor_release(one);
    module_release(norm);
}

static void blocked_tensors_stay_blocked(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *blocked = NULL, *y = NULL, *mean = NULL, *variance = NULL;
    tensor_t *out[3] = {NULL};
    counters_t before, after;
    char text[FORMAT_TEXT_MAX];
    int n_out = 3;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(2, 17, 5, 5), &x));
    CHECK_OK(ctx, op_reorder(ctx, x, "aBcd8b", &blocked));
    counters_read(ctx, &before);
    CHECK_OK(ctx, op_batch_norm_training(ctx, blocked, NULL, NULL, 1e-5, &y, &mean, &variance));
    const tensor_t *const in[] = {blocked, NULL, mean, variance, y, NULL};
    CHECK_OK(ctx, dispatch_run(ctx, &op_def_batch_norm_backward, NULL, 6, in, &n_out, out));
    counters_read(ctx, &after);
    assert_string_equal(format_text(&tensor_info(y)->format, text), "aBcd8b");
    assert_string_equal(format_text(&tensor_info(out[0])->format, text), "aBcd8b");
    assert_int_equal(counters_activation_reorders(&after), counters_activation_reorders(&before));
    assert_int_equal(counters_copies(&after), counters_copies(&before));
    for (int i = 0; i < 3; i++) tensor_release(out[i]);
    tensor_release(variance);
    tensor_release(mean);
    tensor_release(y);
    tensor_release(blocked);
    tensor_release(x);
}

/* The results of a norm followed by an activation, fused or not: y, and the gradients of x, weight
 * and bias. */
typedef struct passed {
    tensor_t *y, *grads[3];
} passed_t;

static passed_t pass_norm(context_t *ctx, const char *text, const char *format, int behind)
{
    case_call_t call;
    passed_t passed = {0};
    tensor_t *in[3] = {NULL}, *made[3] = {NULL}, *blocked = NULL, *grad = NULL;
    tape_t *tape = NULL;
    int n_out = 3;
    context_seed(ctx, 3);
    CHECK_OK(ctx, case_parse(ctx, &op_def_batch_norm_training, text, &call));
    for (int i = 0; i < 3; i++) CHECK_OK(ctx, case_fill(ctx, &call.in[i], &in[i]));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, 4, tensor_sizes(in[0]), &grad));
    if (format != NULL) {
        CHECK_OK(ctx, op_reorder(ctx, in[0], format, &blocked));
        tensor_release(in[0]);
        in[0] = blocked;
    }
    CHECK_OK(ctx, tape_create(ctx, &tape));
    for (int i = 0; i < 3; i++) CHECK_OK(ctx, tape_watch(ctx, tape, in[i]));
    CHECK_OK(ctx, dispatch_run(ctx, &op_def_batch_norm_training, call.attrs, 3,
                               (const tensor_t *const *)in, &n_out, made));
    if (behind == 1) CHECK_OK(ctx, op_relu(ctx, made[0], &passed.y));
    if (behind == 2) CHECK_OK(ctx, op_relu6(ctx, made[0], &passed.y));
    if (behind == 0) passed.y = tensor_retain(made[0]);
    CHECK_OK(ctx, tape_backward(ctx, tape, passed.y, grad));
    for (int i = 0; i < 3; i++) passed.grads[i] = tensor_retain(tape_gradient(tape, in[i]));
    tape_destroy(tape);
    for (int i = 0; i < 3; i++) {
        tensor_release(made[i]);
        tensor_release(in[i]);
    }
    tensor_release(grad);
    return passed;
}

static void check_activation(context_t *ctx, int channels, const char *format, int activation)
{
    static const char *const names[] = {"", " activation=\"relu\"", " activation=\"relu6\""};
    char text[160];
    double difference = 0;
    const int size = snprintf(text, sizeof text, "(f32[3,%d,6,5], f32[%d]*5, f32[%d]*3)", channels,
                              channels, channels);
    const passed_t apart = pass_norm(ctx, text, format, activation);
    snprintf(text + size, sizeof text - (size_t)size, "%s", names[activation]);
    const passed_t fused = pass_norm(ctx, text, format, 0);
    CHECK_OK(ctx, tensor_max_rel_diff(ctx, fused.y, apart.y, &difference));
    assert_true(difference == 0);
    for (int i = 0; i < 3; i++) {
        CHECK_OK(ctx, tensor_max_rel_diff(ctx, fused.grads[i], apart.grads[i], &difference));
        if (!(difference <= 1e-6))
            fail_msg("%d channels, %s: gradient %d differs by %g", channels, text, i, difference);
    }
    for (int i = 0; i < 3; i++) {
        tensor_release(fused.grads[i]);
        tensor_release(apart.grads[i]);
    }
    tensor_release(fused.y);
    tensor_release(apart.y);
}

static void an_activation_in_the_norm_is_that_behind_it(void **state)
{
    static const int channels[] = {1, 3, 7, 17, 31, 64};
    static const char *const formats[] = {NULL, "abcd", "acdb", "aBcd8b", "aBcd16b"};
    for (int i = 0; i < 6; i++)
        for (int f = 0; f < 5; f++)
            for (int activation = 1; activation <= 2; activation++)
                check_activation(fixture_context(state), channels[i], formats[f], activation);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_activation_in_the_norm_is_that_behind_it),
        TEST(statistics_and_gradients_are_those_of_pytorch),
        TEST(without_running_statistics_those_of_the_batch_serve_inference),
        TEST(calls_that_have_no_statistics_are_refused),
        TEST(blocked_tensors_stay_blocked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
