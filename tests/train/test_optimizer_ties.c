/* Optimizers on parameters that share memory with each other or with gradients. */
#include "tests/support/support.h"

#include <string.h>

#include "train/optimizer.h"

/* Makes a vector of four elements: first, first + 1, ... */
static tensor_t *vector(context_t *ctx, float first)
{
    const float elements[] = {first, first + 1, first + 2, first + 3};
    tensor_t *x = NULL;
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, 1, (const int64_t[]){4}, elements, &x));
    return x;
}

/* Makes a module with a parameter "weight", and for n = 2 one named "other". */
static module_t *make_module(context_t *ctx, int n)
{
    static const char *const names[] = {"weight", "other"};
    module_t *module = NULL;
    CHECK_OK(ctx, module_create(ctx, "Holder", &module));
    for (int i = 0; i < n; i++) {
        tensor_t *parameter = vector(ctx, (float)(10 * i + 1));
        CHECK_OK(ctx, module_set_parameter(ctx, module, names[i], parameter));
        tensor_release(parameter);
    }
    return module;
}

static void tied_parameters_are_stepped_once_under_their_first_name(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *module = make_module(ctx, 1);
    optimizer_t *optimizer = NULL;
    tensor_t *weight = module_parameter(module, "weight"), *view = NULL, *index = NULL;
    CHECK_OK(ctx, tensor_arange(ctx, DTYPE_S64, 4, 0, &index));
    CHECK_OK(ctx, module_set_parameter(ctx, module, "tied", weight));
    CHECK_OK(ctx, module_set_parameter(ctx, module, "index", index));
    CHECK_OK(ctx, optimizer_adam(ctx, module, NULL, &optimizer));
    assert_int_equal(optimizer_n_parameters(optimizer), 1);
    assert_string_equal(optimizer_name(optimizer, 0), "weight");
    assert_ptr_equal(optimizer_parameter(optimizer, 0), weight);
    assert_string_equal(optimizer_kind(optimizer), "adam");
    assert_int_equal(optimizer_n_states(optimizer), 2);
    assert_string_equal(optimizer_state_name(optimizer, 1), "exp_avg_sq");
    assert_null(optimizer_state(optimizer, 0, 0));
    assert_null(optimizer_state_name(optimizer, 2));
    assert_null(optimizer_name(optimizer, 1));
    optimizer_destroy(optimizer);
    CHECK_OK(ctx, tensor_narrow(ctx, weight, 0, 1, 2, &view));
    CHECK_OK(ctx, module_set_parameter(ctx, module, "tied", view));
    CHECK_FAILS(ctx, optimizer_adam(ctx, module, NULL, &optimizer), STATUS_UNSUPPORTED,
                "parameters \"weight\" and \"tied\" share bytes, each needs its own");
    assert_null(optimizer);
    module_release(module);
    tensor_release(view);
    tensor_release(index);
}

static void parameters_that_were_tied_since_are_not_stepped_twice(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *module = make_module(ctx, 2);
    optimizer_t *optimizer = NULL;
    tensor_t *weight = module_parameter(module, "weight"), *view = NULL;
    tensor_t *other = tensor_retain(module_parameter(module, "other"));
    tensor_t *gradient = vector(ctx, 0.25f);
    float before[4], after[4];
    tensor_t *const gradients[] = {gradient, gradient};
    CHECK_OK(ctx, optimizer_sgd(ctx, module, NULL, &optimizer));
    CHECK_OK(ctx, optimizer_step(ctx, optimizer, gradients));
    CHECK_OK(ctx, tensor_read(ctx, weight, before, sizeof before));
    CHECK_OK(ctx, module_set_parameter(ctx, module, "other", weight));
    for (int i = 0; i < 2; i++)
        CHECK_FAILS(
            ctx, optimizer_step(ctx, optimizer, gradients), STATUS_UNSUPPORTED,
            "optimizer_step: parameters \"weight\" and \"other\" share bytes, each needs its own");
    CHECK_OK(ctx, tensor_view(ctx, weight, 1, (const int64_t[]){4}, &view));
    CHECK_OK(ctx, module_set_parameter(ctx, module, "other", view));
    CHECK_FAILS(ctx, optimizer_step(ctx, optimizer, gradients), STATUS_UNSUPPORTED, "share bytes");
    CHECK_OK(ctx, tensor_read(ctx, weight, after, sizeof after));
    assert_memory_equal(before, after, sizeof before);
    CHECK_OK(ctx, module_set_parameter(ctx, module, "other", other));
    CHECK_OK(ctx, optimizer_step(ctx, optimizer, gradients));
    optimizer_destroy(optimizer);
    module_release(module);
    tensor_release(other);
    tensor_release(view);
    tensor_release(gradient);
}

/* In a product of two parameters, each is the gradient of the other one. */
static void parameters_may_be_each_others_gradients(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *module = make_module(ctx, 2);
    optimizer_t *optimizer = NULL;
    tensor_t *weight = module_parameter(module, "weight");
    tensor_t *other = module_parameter(module, "other");
    float a[4], b[4], after[4];
    const sgd_options_t sgd = sgd_options(0.5);
    CHECK_OK(ctx, tensor_read(ctx, weight, a, sizeof a));
    CHECK_OK(ctx, tensor_read(ctx, other, b, sizeof b));
    CHECK_OK(ctx, optimizer_sgd(ctx, module, &sgd, &optimizer));
    CHECK_OK(ctx, optimizer_step(ctx, optimizer, (tensor_t *const[]){other, weight}));
    CHECK_OK(ctx, tensor_read(ctx, weight, after, sizeof after));
    for (int i = 0; i < 4; i++) assert_float_equal(after[i], a[i] - 0.5f * b[i], 1e-6);
    CHECK_OK(ctx, tensor_read(ctx, other, after, sizeof after));
    for (int i = 0; i < 4; i++) assert_float_equal(after[i], b[i] - 0.5f * a[i], 1e-6);
    optimizer_destroy(optimizer);
    module_release(module);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(tied_parameters_are_stepped_once_under_their_first_name),
        TEST(parameters_that_were_tied_since_are_not_stepped_twice),
        TEST(parameters_may_be_each_others_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
