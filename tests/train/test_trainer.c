/* The trainer: eager and planned steps agree, weights stay blocked, failures leave them alone. */
#include "tests/support/support.h"

#include <math.h>
#include <string.h>

#include "module/layers.h"
#include "module/mkldnn.h"
#include "ops/ops.h"
#include "tensor/convert.h"
#include "tensor/counters.h"
#include "train/trainer.h"

static void append(context_t *ctx, module_t *net, module_t *layer)
{
    CHECK_OK(ctx, layer_append_take(ctx, net, layer));
}

static module_t *make_conv(context_t *ctx, int64_t in, int64_t out, int64_t stride)
{
    module_t *layer = NULL;
    const conv_attrs_t attrs = {.stride = {stride, stride}, .padding = {1, 1}};
    CHECK_OK(ctx, layer_conv(ctx, 2, in, out, (const int64_t[]){3, 3}, &attrs, true, &layer));
    return layer;
}

/* Two convolutions and a fully connected layer on f32[n,3,8,8]. */
static module_t *make_net(context_t *ctx)
{
    module_t *net = NULL, *relu = NULL, *flatten = NULL, *linear = NULL;
    context_seed(ctx, 5);
    CHECK_OK(ctx, layer_sequential(ctx, &net));
    append(ctx, net, make_conv(ctx, 3, 17, 1));
    CHECK_OK(ctx, layer_activation(ctx, ELTWISE_RELU, 0, 0, &relu));
    append(ctx, net, relu);
    append(ctx, net, make_conv(ctx, 17, 16, 2));
    CHECK_OK(ctx, layer_flatten(ctx, 1, -1, &flatten));
    append(ctx, net, flatten);
    CHECK_OK(ctx, layer_linear(ctx, 16 * 16, 5, true, &linear));
    append(ctx, net, linear);
    return net;
}

/* The mean of the squared differences. */
static status_t squares(context_t *ctx, void *user, const tensor_t *output, const tensor_t *target,
                        tensor_t **out_loss)
{
    tensor_t *difference = NULL, *square = NULL;
    (void)user;
    TRY(op_sub(ctx, output, target, &difference));
    status_t status = op_mul(ctx, difference, difference, &square);
    if (status == STATUS_OK) status = op_mean(ctx, square, 0, NULL, false, out_loss);
    tensor_release(square);
    tensor_release(difference);
    return status;
}

static tensor_t *make_batch(context_t *ctx, int64_t n, int rank, const int64_t *rest)
{
    int64_t sizes[4] = {n};
    tensor_t *x = NULL;
    context_seed(ctx, (uint64_t)(n + rank));
    memcpy(&sizes[1], rest, (size_t)(rank - 1) * sizeof *sizes);
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, rank, sizes, &x));
    return x;
}

static status_t step(context_t *ctx, trainer_t *trainer, int64_t n, tensor_t **out_output,
                     double *out_loss)
{
    tensor_t *x = make_batch(ctx, n, 4, (const int64_t[]){3, 8, 8});
    tensor_t *target = make_batch(ctx, n, 2, (const int64_t[]){5});
    status_t status = trainer_step(ctx, trainer, 1, (const tensor_t *const *)&x, target, out_output,
                                   out_loss);
    tensor_release(x);
    tensor_release(target);
    return status;
}

static void run(context_t *ctx, bool is_blocked, train_mode_t mode, int n_steps, double *losses)
{
    module_t *net = make_net(ctx);
    optimizer_t *optimizer = NULL;
    trainer_t *trainer = NULL;
    sgd_options_t sgd = sgd_options(0.002);
    sgd.momentum = 0.9;
    sgd.weight_decay = 1e-3;
    if (is_blocked) CHECK_OK(ctx, module_mkldnn(ctx, net, NULL));
    CHECK_OK(ctx, optimizer_sgd(ctx, net, &sgd, &optimizer));
    CHECK_OK(ctx, trainer_create(ctx, net, squares, NULL, optimizer,
                                 &(train_options_t){.mode = mode}, &trainer));
    assert_true(module_is_training(net));
    for (int i = 0; i < n_steps; i++)
        CHECK_OK(ctx, step(ctx, trainer, 3 + i % 2, NULL, &losses[i]));
    trainer_destroy(trainer);
    optimizer_destroy(optimizer);
    module_release(net);
}

static void eager_and_planned_steps_are_the_same(void **state)
{
    context_t *ctx = fixture_context(state);
    double dense[8], blocked[8], planned[8];
    run(ctx, false, TRAIN_EAGER, 8, dense);
    run(ctx, true, TRAIN_EAGER, 8, blocked);
    run(ctx, true, TRAIN_PLANNED, 8, planned);
    assert_true(dense[6] < 0.8 * dense[0]);
    for (int i = 0; i < 8; i++) {
        assert_true(fabs(blocked[i] - dense[i]) < 1e-5 * dense[i]);
        assert_true(fabs(planned[i] - dense[i]) < 1e-5 * dense[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(eager_and_planned_steps_are_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
