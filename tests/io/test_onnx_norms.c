/* Normalization operators of ONNX. Those with wrong attributes are refused. */
#include "io/onnx/onnx.h"
#include "tests/support/onnx/onnx_model.h"
#include "tests/support/support.h"

static void groups_have_to_fit_the_channels(void **state)
{
    context_t *ctx = fixture_context(state);
    static const float ones[6] = {1, 1, 1, 1, 1, 1};
    static const struct {
        int64_t opset, n_groups, n_weights;
        const char *message;
    } cases[] = {{18, 4, 4, "num_groups 4 of x f32[1,6,2]"},
                 {21, 0, 6, "num_groups 0 of x f32[1,6,2]"},
                 {18, 3, 6, "input 1 is f32[6], [3] is needed"}};
    for (int i = 0; i < 3; i++) {
        module_t *model = NULL;
        begin_model(cases[i].opset, DIMS(1, 6, 2));
        maker_initializer(&maker, "w", FLOAT, 1, &cases[i].n_weights, ones,
                          (size_t)cases[i].n_weights * sizeof *ones);
        maker_int(maker_node(&maker, "GroupNormalization", "", "x w w", "y"), "num_groups",
                  cases[i].n_groups);
        CHECK_FAILS(ctx, load_model_batch(ctx, 1, &model), STATUS_INVALID_ARGUMENT,
                    cases[i].message);
    }
}

static void norms_of_another_power_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *model = NULL;
    begin_model(13, DIMS(2, 3));
    maker_int(maker_node(&maker, "LpNormalization", "", "x", "y"), "p", 3);
    CHECK_FAILS(ctx, load_model_batch(ctx, 1, &model), STATUS_INVALID_ARGUMENT,
                "p 3, 1 or 2 is needed");
}

static void begin_training(int rank, const int64_t *sizes)
{
    static const float ones[3] = {1, 1, 1};
    begin_model(15, rank, sizes);
    maker_initializer(&maker, "w", FLOAT, 1, (const int64_t[]){3}, ones, sizeof ones);
    maker_int(maker_node(&maker, "BatchNormalization", "", "x w w w w", "y"), "training_mode", 1);
}

static void statistics_of_a_batch_are_those_of_one_operator(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *model = NULL;
    begin_training(DIMS(2, 3, 4, 5));
    model = load_model(ctx);
    check_model_line(ctx, model, " = batch_norm_training(");
    module_release(model);
    begin_training(DIMS(2, 3, 1, 1, 1, 5));
    CHECK_FAILS(ctx, load_model_batch(ctx, 1, &model), STATUS_INVALID_ARGUMENT,
                "x is f32[2,3,1,1,1,5], rank 2 to 5 is needed");
}

static void check_statistic(context_t *ctx, const module_t *model, const char *name,
                            const float *wanted)
{
    float read[3];
    tensor_t *buffer = module_buffer(model, name);
    assert_non_null(buffer);
    CHECK_OK(ctx, tensor_read(ctx, buffer, read, sizeof read));
    for (int i = 0; i < 3; i++)
        assert_true(read[i] > wanted[i] - 1e-5F && read[i] < wanted[i] + 1e-5F);
}

/* The columns of x, [1,2,3; 4,5,6], have means 2.5, 3.5, 4.5 and variances of 2.25. */
static void runs_in_training_mode_update_the_running_statistics(void **state)
{
    context_t *ctx = fixture_context(state);
    static const float ones[3] = {1, 1, 1}, wanted[6] = {-1, -1, -1, 1, 1, 1}, none[3] = {0, 0, 0};
    const char *const names[] = {"w", "m", "v", "b"};
    begin_model(15, DIMS(2, 3));
    for (int i = 0; i < 4; i++)
        maker_initializer(&maker, names[i], FLOAT, DIMS(3), i == 3 ? none : ones, sizeof ones);
    maker_node_t *node = maker_node(&maker, "BatchNormalization", "", "x w b m v", "y mean var");
    maker_int(node, "training_mode", 1);
    maker_float(node, "momentum", 0.5F);
    module_t *model = load_model(ctx);
    check_model_result(ctx, model, 6, wanted);
    check_statistic(ctx, model, "m", (const float[]){1.75F, 2.25F, 2.75F});
    check_statistic(ctx, model, "v", (const float[]){1.625F, 1.625F, 1.625F});
    check_model_result(ctx, model, 6, wanted);
    check_statistic(ctx, model, "m", (const float[]){2.125F, 2.875F, 3.625F});
    assert_null(module_parameter(model, "m"));
    module_release(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(groups_have_to_fit_the_channels),
        TEST(statistics_of_a_batch_are_those_of_one_operator),
        TEST(runs_in_training_mode_update_the_running_statistics),
        TEST(norms_of_another_power_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
