/* Dropout in training. Tests the share of dropped elements, that gradients match the mask, that
 * masks do not depend on layout and threads, and that every run of a plan has new masks. Bounds of
 * random counts are six standard deviations. */
#include "tests/support/nets/training.h"
#include "tests/support/support.h"

#include <math.h>
#include <string.h>

#include "graph/passes/pass.h"
#include "graph/program/plan.h"
#include "module/layers/layers.h"
#include "module/mkldnn.h"
#include "ops/gradient_impl.h"
#include "tensor/convert/convert.h"
#include "train/tape.h"
#include "train/trainer.h"

#define C 17
#define N (2 * C * 25 * 20)

static float kept[N], others[N];

static tensor_t *ones(context_t *ctx)
{
    tensor_t *x = NULL;
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(2, C, 25, 20), 1.0, &x));
    return x;
}

static void take(context_t *ctx, tensor_t *tensor, float *out)
{
    CHECK_OK(ctx, tensor_read(ctx, tensor, out, N * sizeof *out));
    tensor_release(tensor);
}

static void drop(context_t *ctx, const tensor_t *x, double p, int64_t leading_dims, float *out)
{
    tensor_t *y = NULL;
    CHECK_OK(ctx, op_dropout_train(ctx, x, p, leading_dims, &y));
    take(ctx, y, out);
}

static void elements_are_dropped_with_probability_p_and_the_others_scaled(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = ones(ctx);
    const double p = 0.25;
    int n_dropped = 0;
    drop(ctx, x, p, 0, kept);
    for (int i = 0; i < N; i++) {
        n_dropped += kept[i] == 0.0f;
        assert_true(kept[i] == 0.0f || fabs((double)kept[i] - 4.0 / 3.0) < 1e-6);
    }
    assert_true(fabs(n_dropped - p * N) < 6.0 * sqrt(N * p * (1.0 - p)));
    drop(ctx, x, 0.0, 0, kept);
    drop(ctx, x, 1.0, 0, others);
    for (int i = 0; i < N; i++) assert_true(kept[i] == 1.0f && others[i] == 0.0f);
    tensor_release(x);
}

static void whole_channels_go(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = ones(ctx);
    int n_dropped = 0;
    drop(ctx, x, 0.5, 2, kept);
    for (int c = 0; c < 2 * C; c++) {
        n_dropped += kept[c * 500] == 0.0f;
        for (int i = 0; i < 500; i++) assert_true(kept[c * 500 + i] == kept[c * 500]);
    }
    assert_in_range(n_dropped, 1, 2 * C - 1);
    tensor_release(x);
}

static void layouts_and_threads_change_nothing(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = ones(ctx), *blocked = NULL, *y = NULL;
    CHECK_OK(ctx, convert_reorder(ctx, x, "aBcd16b", &blocked));
    for (int64_t leading_dims = 0; leading_dims <= 2; leading_dims++) {
        context_seed(ctx, 3);
        drop(ctx, x, 0.5, leading_dims, kept);
        CHECK_OK(ctx, context_set_threads(ctx, 3));
        context_seed(ctx, 3);
        CHECK_OK(ctx, op_dropout_train(ctx, blocked, 0.5, leading_dims, &y));
        assert_int_equal(tensor_layout(y), LAYOUT_MKLDNN);
        take(ctx, y, others);
        assert_memory_equal(kept, others, sizeof kept);
    }
    tensor_release(blocked);
    tensor_release(x);
}

static void the_generator_goes_on_from_a_state_that_was_kept(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = ones(ctx);
    uint64_t generator[CONTEXT_GENERATOR_STATE], zeros[CONTEXT_GENERATOR_STATE] = {0};
    context_generator_state(ctx, generator);
    drop(ctx, x, 0.5, 0, kept);
    drop(ctx, x, 0.5, 0, others);
    assert_memory_not_equal(kept, others, sizeof kept);
    CHECK_OK(ctx, context_set_generator_state(ctx, generator));
    drop(ctx, x, 0.5, 0, others);
    assert_memory_equal(kept, others, sizeof kept);
    CHECK_FAILS(ctx, context_set_generator_state(ctx, zeros), STATUS_INVALID_ARGUMENT,
                "at least one word must not be zero");
    assert_int_equal(context_set_generator_state(NULL, generator), STATUS_INVALID_ARGUMENT);
    context_generator_state(NULL, generator);
    tensor_release(x);
}

static void the_gradient_is_dropped_with_its_element(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = ones(ctx), *grad = ones(ctx), *blocked = NULL, *y = NULL;
    tape_t *tape = NULL;
    CHECK_OK(ctx, convert_reorder(ctx, x, "aBcd16b", &blocked));
    CHECK_OK(ctx, tape_create(ctx, &tape));
    CHECK_OK(ctx, tape_watch(ctx, tape, blocked));
    CHECK_OK(ctx, op_dropout_train(ctx, blocked, 0.5, 0, &y));
    CHECK_OK(ctx, tape_backward(ctx, tape, y, grad));
    CHECK_OK(ctx, tensor_read(ctx, tape_gradient(tape, blocked), others, sizeof others));
    take(ctx, y, kept);
    assert_memory_equal(kept, others, sizeof kept);
    tape_destroy(tape);
    tensor_release(blocked);
    tensor_release(grad);
    tensor_release(x);
}

static const char text[] = "graph g(%x: f32[2,17,25,20]) {\n"
                           "  %s = draw_seed() : s64[]\n"
                           "  %y = dropout_by(%x, %s) : f32[2,17,25,20]\n"
                           "  %t = draw_seed() : s64[]\n"
                           "  %z = dropout_by(%x, %t) : f32[2,17,25,20]\n"
                           "  return %y, %z\n"
                           "}\n";

/* A dropout reads a random seed in each run, so no pass may merge two seeds or make one a
 * constant. */
static void every_run_of_a_plan_draws_again(void **state)
{
    context_t *ctx = fixture_context(state);
    const char *const names[] = {"constant_propagation", "common_subexpressions", "dead_code",
                                 NULL};
    tensor_t *x = ones(ctx), *out[2] = {NULL};
    graph_t *graph = NULL, *optimised = NULL;
    plan_t *plan = NULL;
    int n = 2;
    CHECK_OK(ctx, graph_parse(ctx, text, NULL, &graph));
    CHECK_OK(ctx, pass_run(ctx, graph, names, NULL, &optimised));
    CHECK_OK(ctx, plan_create(ctx, optimised, NULL, &plan));
    context_seed(ctx, 5);
    for (int run = 0; run < 2; run++) {
        static float first[N];
        CHECK_OK(ctx, plan_run(ctx, plan, 1, (const tensor_t *const *)&x, &n, out));
        take(ctx, out[0], kept);
        take(ctx, out[1], others);
        assert_memory_not_equal(kept, others, sizeof kept);
        if (run == 1) assert_memory_not_equal(kept, first, sizeof kept);
        memcpy(first, kept, sizeof first);
    }
    context_seed(ctx, 5);
    drop(ctx, x, 0.5, 0, kept);
    context_seed(ctx, 5);
    CHECK_OK(ctx, plan_run(ctx, plan, 1, (const tensor_t *const *)&x, &n, out));
    take(ctx, out[0], others);
    assert_memory_equal(kept, others, sizeof kept);
    tensor_release(out[1]);
    plan_release(plan);
    graph_release(optimised);
    graph_release(graph);
    tensor_release(x);
}

static int count_zeros(context_t *ctx, module_t *layer, const tensor_t *x)
{
    tensor_t *y = NULL;
    float elements[64];
    int n = 0;
    CHECK_OK(ctx, module_forward(ctx, layer, x, &y));
    CHECK_OK(ctx, tensor_read(ctx, y, elements, sizeof elements));
    for (int i = 0; i < 64; i++) n += elements[i] == 0.0f;
    tensor_release(y);
    return n;
}

static void layers_drop_in_training_alone(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *elements = NULL, *channels = NULL, *alpha = NULL;
    tensor_t *x = NULL, *y = NULL;
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(8, 8), 1.0, &x));
    CHECK_OK(ctx, layer_dropout(ctx, 0.5, &elements));
    CHECK_OK(ctx, layer_feature_dropout(ctx, 1, 0.5, &channels));
    CHECK_OK(ctx, layer_alpha_dropout(ctx, 0.5, &alpha));
    assert_int_equal(count_zeros(ctx, elements, x), 0);
    CHECK_OK(ctx, module_train(ctx, elements, true));
    CHECK_OK(ctx, module_train(ctx, channels, true));
    CHECK_OK(ctx, module_train(ctx, alpha, true));
    assert_in_range(count_zeros(ctx, elements, x), 8, 56);
    /* if x has rank 2, rows are channels, as in PyTorch's Dropout1d */
    assert_int_equal(count_zeros(ctx, channels, x) % 8, 0);
    CHECK_FAILS(ctx, module_forward(ctx, alpha, x, &y), STATUS_UNSUPPORTED,
                "AlphaDropout: the layer is in training mode");
    module_release(elements);
    module_release(channels);
    module_release(alpha);
    tensor_release(x);
}

static void what_does_not_fit_is_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *whole = NULL, *y = NULL;
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(3), &x));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_S32, SHAPE(3), &whole));
    CHECK_FAILS(ctx, op_dropout_train(ctx, x, 1.5, 0, &y), STATUS_INVALID_ARGUMENT,
                "dropout: p=1.5, 0 to 1 is needed");
    CHECK_FAILS(ctx, op_dropout_train(ctx, whole, 0.5, 0, &y), STATUS_INVALID_ARGUMENT,
                "dropout: x is s32[3], a floating dtype is needed");
    CHECK_FAILS(ctx, op_dropout_train(ctx, x, 0.5, 2, &y), STATUS_INVALID_ARGUMENT,
                "0 to 2 that x has are possible");
    const tensor_t *in[] = {x, x};
    CHECK_FAILS(ctx, dispatch_run(ctx, &op_def_dropout_by, NULL, 2, in, NULL, &y),
                STATUS_INVALID_ARGUMENT, "dropout: seed is f32[3], one s64 is needed");
    tensor_release(x);
    tensor_release(whole);
}

/* Makes a network from f32[n,3,8,8] to f32[n,5] that drops channels and elements. */
static module_t *make_net(context_t *ctx)
{
    module_t *net = NULL, *layer = NULL;
    const conv_attrs_t attrs = {.padding = {1, 1}};
    context_seed(ctx, 5);
    CHECK_OK(ctx, layer_sequential(ctx, &net));
    CHECK_OK(ctx, layer_conv(ctx, 2, 3, C, (const int64_t[]){3, 3}, &attrs, true, &layer));
    training_append(ctx, net, layer);
    CHECK_OK(ctx, layer_activation(ctx, ELTWISE_RELU, 0, 0, &layer));
    training_append(ctx, net, layer);
    CHECK_OK(ctx, layer_feature_dropout(ctx, 2, 0.25, &layer));
    training_append(ctx, net, layer);
    CHECK_OK(ctx, layer_flatten(ctx, 1, -1, &layer));
    training_append(ctx, net, layer);
    CHECK_OK(ctx, layer_dropout(ctx, 0.5, &layer));
    training_append(ctx, net, layer);
    CHECK_OK(ctx, layer_linear(ctx, C * 64, 5, true, &layer));
    training_append(ctx, net, layer);
    CHECK_OK(ctx, module_mkldnn(ctx, net, NULL));
    return net;
}

/* Returns the mean of the squares. */
static status_t squares(context_t *ctx, void *user, const tensor_t *output, const tensor_t *target,
                        tensor_t **out_loss)
{
    tensor_t *square = NULL;
    (void)user, (void)target;
    TRY(op_mul(ctx, output, output, &square));
    status_t status = op_mean(ctx, square, 0, NULL, false, out_loss);
    tensor_release(square);
    return status;
}

static void train(context_t *ctx, train_mode_t mode, double lr, int n_steps, double *losses)
{
    module_t *net = make_net(ctx);
    optimizer_t *optimizer = NULL;
    trainer_t *trainer = NULL;
    tensor_t *x = NULL;
    const sgd_options_t sgd = sgd_options(lr);
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(4, 3, 8, 8), &x));
    CHECK_OK(ctx, optimizer_sgd(ctx, net, &sgd, &optimizer));
    CHECK_OK(ctx, trainer_create(ctx, net, squares, NULL, optimizer,
                                 &(train_options_t){.mode = mode}, &trainer));
    for (int i = 0; i < n_steps; i++)
        CHECK_OK(ctx,
                 trainer_step(ctx, trainer, 1, (const tensor_t *const *)&x, x, NULL, &losses[i]));
    trainer_destroy(trainer);
    optimizer_destroy(optimizer);
    module_release(net);
    tensor_release(x);
}

/* The learning rate is almost 0, so losses differ only because of the masks. */
static void planned_steps_drop_what_eager_ones_do(void **state)
{
    context_t *ctx = fixture_context(state);
    double eager[4], planned[4];
    train(ctx, TRAIN_EAGER, 0.01, 4, eager);
    train(ctx, TRAIN_PLANNED, 0.01, 4, planned);
    for (int i = 0; i < 4; i++) assert_true(fabs(planned[i] - eager[i]) < 1e-5 * eager[i]);
    train(ctx, TRAIN_PLANNED, 1e-12, 4, planned);
    for (int i = 1; i < 4; i++) assert_true(fabs(planned[i] - planned[i - 1]) > 1e-4 * planned[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(elements_are_dropped_with_probability_p_and_the_others_scaled),
        TEST(whole_channels_go),
        TEST(layouts_and_threads_change_nothing),
        TEST(the_generator_goes_on_from_a_state_that_was_kept),
        TEST(the_gradient_is_dropped_with_its_element),
        TEST(every_run_of_a_plan_draws_again),
        TEST(layers_drop_in_training_alone),
        TEST(planned_steps_drop_what_eager_ones_do),
        TEST(what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
