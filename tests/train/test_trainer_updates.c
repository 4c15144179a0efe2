/* Updating parameters inside of a step's plan: the same bits as updates after the plan, less
 * memory, and steps that fail after some updates. */
#include "tests/support/nets/losses.h"
#include "tests/support/nets/training.h"
#include "tests/support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/dispatch.h"
#include "module/layers/layers.h"
#include "module/mkldnn.h"
#include "module/state_dict.h"
#include "ops/ops.h"
#include "train/loss.h"
#include "train/trainer.h"

/* ---- networks, steps ---- */

/* Makes a network for f32[n,3,8,8]: 17 channels, which need padding; a batch norm, which has state;
 * and a layer whose weight has another format in each direction. */
static module_t *make_net(context_t *ctx)
{
    module_t *net = NULL, *norm = NULL, *relu = NULL, *flatten = NULL, *linear = NULL;
    context_seed(ctx, 5);
    CHECK_OK(ctx, layer_sequential(ctx, &net));
    training_append(ctx, net, training_conv(ctx, 3, 17, 1));
    CHECK_OK(ctx, layer_batch_norm(ctx, 17, 1e-5, &norm));
    training_append(ctx, net, norm);
    CHECK_OK(ctx, layer_activation(ctx, ELTWISE_RELU, 0, 0, &relu));
    training_append(ctx, net, relu);
    training_append(ctx, net, training_conv(ctx, 17, 32, 2));
    training_append(ctx, net, training_conv(ctx, 32, 16, 1));
    CHECK_OK(ctx, layer_flatten(ctx, 1, -1, &flatten));
    training_append(ctx, net, flatten);
    CHECK_OK(ctx, layer_linear(ctx, 16 * 16, 5, true, &linear));
    training_append(ctx, net, linear);
    return net;
}

typedef enum kind { SGD, ADAM, RMSPROP, N_KINDS } kind_t;

static optimizer_t *make_optimizer(context_t *ctx, module_t *net, kind_t kind)
{
    optimizer_t *optimizer = NULL;
    sgd_options_t sgd = sgd_options(0.05);
    sgd.momentum = 0.9;
    sgd.dampening = 0.1;
    sgd.weight_decay = 1e-3;
    adam_options_t adam = adamw_options(1e-2);
    adam.amsgrad = true;
    rmsprop_options_t rmsprop = rmsprop_options(1e-3);
    rmsprop.centered = true;
    if (kind == SGD) CHECK_OK(ctx, optimizer_sgd(ctx, net, &sgd, &optimizer));
    if (kind == ADAM) CHECK_OK(ctx, optimizer_adamw(ctx, net, &adam, &optimizer));
    if (kind == RMSPROP) CHECK_OK(ctx, optimizer_rmsprop(ctx, net, &rmsprop, &optimizer));
    return optimizer;
}

static trainer_t *make_trainer(context_t *ctx, module_t *net, optimizer_t *optimizer,
                               train_options_t options)
{
    trainer_t *trainer = NULL;
    options.mode = TRAIN_PLANNED;
    CHECK_OK(ctx, trainer_create(ctx, net, losses_mse, NULL, optimizer, &options, &trainer));
    return trainer;
}

static status_t step_on(context_t *ctx, trainer_t *trainer, int64_t n, int rank,
                        const int64_t *rest, double *out_loss)
{
    int64_t sizes[4] = {n};
    tensor_t *x = NULL, *target = NULL;
    context_seed(ctx, 7);
    memcpy(&sizes[1], rest, (size_t)(rank - 1) * sizeof *sizes);
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, rank, sizes, &x));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, 2, (const int64_t[]){n, 5}, &target));
    status_t status = trainer_step(ctx, trainer, 1, (const tensor_t *const *)&x, target, NULL,
                                   out_loss);
    tensor_release(x);
    tensor_release(target);
    return status;
}

static status_t step(context_t *ctx, trainer_t *trainer, int64_t n, double *out_loss)
{
    return step_on(ctx, trainer, n, 4, (const int64_t[]){3, 8, 8}, out_loss);
}

static int count_updates(context_t *ctx, const trainer_t *trainer)
{
    text_t text = text_begin(ctx);
    int n = 0;
    CHECK_OK(ctx, graph_print(ctx, trainer_graph(trainer), NULL, &text));
    for (const char *at = text_string(&text); (at = strstr(at, "method=\"update\"")) != NULL; at++)
        n++;
    text_clear(&text);
    return n;
}

/* Checks that the tensors of two dicts have equal bits. */
static void check_equal(context_t *ctx, const datum_t *a, const datum_t *b)
{
    assert_int_equal(datum_length(a), datum_length(b));
    for (int i = 0; i < datum_length(a); i++) {
        const char *key = datum_key(a, i);
        const tensor_t *first = datum_as_tensor(datum_find(a, key));
        const tensor_t *second = datum_as_tensor(datum_find(b, key));
        const size_t n_bytes = (size_t)tensor_numel(first) * dtype_size(tensor_dtype(first));
        char *bytes[2] = {malloc(n_bytes), malloc(n_bytes)};
        CHECK_OK(ctx, tensor_read(ctx, first, bytes[0], n_bytes));
        CHECK_OK(ctx, tensor_read(ctx, second, bytes[1], n_bytes));
        if (memcmp(bytes[0], bytes[1], n_bytes) != 0) fail_msg("%s differs", key);
        free(bytes[0]);
        free(bytes[1]);
    }
}

/* ---- the same as after the plan ---- */

static training_t train(context_t *ctx, bool is_blocked, kind_t kind, train_options_t options,
                        double *losses)
{
    training_t training = {.net = make_net(ctx)};
    if (is_blocked) CHECK_OK(ctx, module_mkldnn(ctx, training.net, NULL));
    training.optimizer = make_optimizer(ctx, training.net, kind);
    training.trainer = make_trainer(ctx, training.net, training.optimizer, options);
    for (int i = 0; i < 5; i++) {
        /* changes the learning rate and the batch size */
        CHECK_OK(ctx, optimizer_set_lr(ctx, training.optimizer, 0.01 / (i + 1)));
        CHECK_OK(ctx, step(ctx, training.trainer, i == 3 ? 2 : 3, &losses[i]));
    }
    return training;
}

static void updates_in_a_plan_are_those_behind_it(void **state)
{
    context_t *ctx = fixture_context(state);
    for (int i = 0; i < 2 * N_KINDS; i++) {
        const bool is_blocked = i % 2 == 1;
        double losses[2][5];
        training_t inside = train(ctx, is_blocked, (kind_t)(i / 2), (train_options_t){0},
                                  losses[0]);
        training_t behind = train(ctx, is_blocked, (kind_t)(i / 2),
                                  (train_options_t){.update_apart = true}, losses[1]);
        assert_int_equal(count_updates(ctx, inside.trainer), 10);
        assert_int_equal(count_updates(ctx, behind.trainer), 0);
        assert_memory_equal(losses[0], losses[1], sizeof losses[0]);
        assert_int_equal(optimizer_n_steps(inside.optimizer), 5);
        training_compare(ctx, &inside, &behind, check_equal);
        for (int p = 0; p < optimizer_n_parameters(inside.optimizer) && is_blocked; p++)
            assert_true(tensor_layout(optimizer_state(inside.optimizer, p, 0)) == LAYOUT_MKLDNN);
        training_end(&inside);
        training_end(&behind);
    }
}

static void updates_that_need_all_gradients_run_after_the_plan(void **state)
{
    context_t *ctx = fixture_context(state);
    double losses[5];
    training_t training = train(ctx, true, SGD, (train_options_t){.max_norm = 0.5}, losses);
    assert_int_equal(count_updates(ctx, training.trainer), 0);
    training_end(&training);
}

/* The network uses one layer twice. Its gradient is complete only in the backward pass of the first
 * use, which still reads the weight. */
static void a_layer_that_stands_twice_is_updated_once(void **state)
{
    context_t *ctx = fixture_context(state);
    training_t trainings[2];
    double losses[2][3];
    for (int i = 0; i < 2; i++) {
        module_t *net = NULL, *first = NULL, *flatten = NULL, *last = NULL;
        context_seed(ctx, 3);
        CHECK_OK(ctx, layer_sequential(ctx, &net));
        CHECK_OK(ctx, layer_flatten(ctx, 1, -1, &flatten));
        training_append(ctx, net, flatten);
        CHECK_OK(ctx, layer_linear(ctx, 192, 192, true, &first));
        training_append(ctx, net, module_retain(first));
        training_append(ctx, net, first);
        CHECK_OK(ctx, layer_linear(ctx, 192, 5, true, &last));
        training_append(ctx, net, last);
        CHECK_OK(ctx, module_mkldnn(ctx, net, NULL));
        trainings[i].net = net;
        trainings[i].optimizer = make_optimizer(ctx, net, SGD);
        trainings[i].trainer = make_trainer(ctx, net, trainings[i].optimizer,
                                            (train_options_t){.update_apart = i == 1});
        for (int k = 0; k < 3; k++)
            CHECK_OK(ctx, step(ctx, trainings[i].trainer, 3, &losses[i][k]));
    }
    assert_int_equal(count_updates(ctx, trainings[0].trainer), 4);
    assert_memory_equal(losses[0], losses[1], sizeof losses[0]);
    training_compare(ctx, &trainings[0], &trainings[1], check_equal);
    training_end(&trainings[0]);
    training_end(&trainings[1]);
}

/* Returns a * b. Each factor's gradient is the other one, which must not be updated yet. */
static status_t forward_product(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                                int *n_out, tensor_t **out)
{
    tensor_t *product = NULL;
    (void)n_in;
    *n_out = 1;
    TRY(op_mul(ctx, module_parameter(self, "a"), module_parameter(self, "b"), &product));
    status_t status = op_mul(ctx, product, in[0], out);
    tensor_release(product);
    return status;
}

static void gradients_made_of_other_parameters_have_those_before_the_step(void **state)
{
    context_t *ctx = fixture_context(state);
    training_t trainings[2];
    for (int i = 0; i < 2; i++) {
        tensor_t *number = NULL;
        CHECK_OK(ctx, module_create(ctx, "Product", &trainings[i].net));
        for (int k = 0; k < 2; k++) {
            CHECK_OK(ctx,
                     tensor_full(ctx, DTYPE_F32, 2, (const int64_t[]){3, 5}, 0.5 + k, &number));
            CHECK_OK(ctx, module_set_parameter(ctx, trainings[i].net, k == 0 ? "a" : "b", number));
            tensor_release(number);
        }
        CHECK_OK(ctx, module_set_forward(ctx, trainings[i].net, "forward", forward_product));
        trainings[i].optimizer = make_optimizer(ctx, trainings[i].net, SGD);
        trainings[i].trainer = make_trainer(ctx, trainings[i].net, trainings[i].optimizer,
                                            (train_options_t){.update_apart = i == 1});
        for (int k = 0; k < 3; k++)
            CHECK_OK(ctx, step_on(ctx, trainings[i].trainer, 3, 2, (const int64_t[]){5}, NULL));
    }
    training_compare(ctx, &trainings[0], &trainings[1], check_equal);
    training_end(&trainings[0]);
    training_end(&trainings[1]);
}

/* ---- memory ---- */

typedef struct measured {
    size_t alive, most;
} measured_t;

static void *get_measured(void *user, size_t bytes)
{
    measured_t *measured = user;
    char *block = aligned_alloc(64, 64 + (bytes + 63) / 64 * 64);
    if (block == NULL) return NULL;
    memcpy(block, &bytes, sizeof bytes);
    measured->alive += bytes;
    if (measured->alive > measured->most) measured->most = measured->alive;
    return block + 64;
}

static void put_measured(void *user, void *block)
{
    measured_t *measured = user;
    size_t bytes = 0;
    if (block == NULL) return;
    memcpy(&bytes, (char *)block - 64, sizeof bytes);
    measured->alive -= bytes;
    free((char *)block - 64);
}

#define N_LAYERS 8
#define WIDTH 512

/* Returns the peak memory of the second step, with updates apart or in the plan. */
static size_t measure(bool is_apart)
{
    measured_t measured = {0};
    const allocator_t allocator = {&measured, get_measured, put_measured};
    context_t *ctx = NULL;
    training_t training = {0};
    module_t *layer = NULL;
    assert_int_equal(
        context_create(&(context_options_t){.allocator = &allocator, .n_threads = 2}, &ctx),
        STATUS_OK);
    CHECK_OK(ctx, layer_sequential(ctx, &training.net));
    for (int i = 0; i <= N_LAYERS; i++) {
        CHECK_OK(ctx, layer_linear(ctx, WIDTH, i < N_LAYERS ? WIDTH : 5, false, &layer));
        training_append(ctx, training.net, layer);
    }
    CHECK_OK(ctx, module_mkldnn(ctx, training.net, NULL));
    training.optimizer = make_optimizer(ctx, training.net, SGD);
    training.trainer = make_trainer(ctx, training.net, training.optimizer,
                                    (train_options_t){.update_apart = is_apart});
    CHECK_OK(ctx, step_on(ctx, training.trainer, 4, 2, (const int64_t[]){WIDTH}, NULL));
    measured.most = 0;
    CHECK_OK(ctx, step_on(ctx, training.trainer, 4, 2, (const int64_t[]){WIDTH}, NULL));
    training_end(&training);
    context_destroy(ctx);
    return measured.most;
}

static void gradients_take_the_memory_of_one(void **state)
{
    (void)state;
    const size_t inside = measure(false), behind = measure(true);
    if (inside + (N_LAYERS - 2) * WIDTH * WIDTH * sizeof(float) > behind)
        fail_msg("%zu bytes with updates in the plan, %zu behind it", inside, behind);
}

/* ---- failures ---- */

static bool is_as_before(context_t *ctx, const module_t *net, float before[3][16])
{
    static const char *const names[] = {"0.bias", "3.bias", "4.bias"};
    bool is_same = true;
    for (int i = 0; i < 3; i++) {
        float now[32];
        const tensor_t *bias = module_parameter(net, names[i]);
        CHECK_OK(ctx, tensor_read(ctx, bias, now, (size_t)tensor_numel(bias) * sizeof *now));
        is_same = is_same && memcmp(now, before[i], sizeof before[i]) == 0;
        memcpy(before[i], now, sizeof before[i]);
    }
    return is_same;
}

/* An observer that fails after *left operators. */
static status_t fail_behind(context_t *ctx, void *user, const op_event_t *event)
{
    int *left = user;
    (void)event;
    return --*left == 0 ? context_fail(ctx, STATUS_OUT_OF_MEMORY, "no memory") : STATUS_OK;
}

static void a_step_that_fails_halfway_says_so(void **state)
{
    context_t *ctx = fixture_context(state);
    int n_whole = 0, n_broken = 0;
    bool is_done = false;
    for (int at = 1; !is_done; at++) {
        int left = at;
        float before[3][16];
        module_t *net = make_net(ctx);
        CHECK_OK(ctx, module_mkldnn(ctx, net, NULL));
        optimizer_t *optimizer = make_optimizer(ctx, net, SGD);
        trainer_t *trainer = make_trainer(ctx, net, optimizer, (train_options_t){0});
        CHECK_OK(ctx, step(ctx, trainer, 3, NULL));
        (void)is_as_before(ctx, net, before);
        observer_t observer = {.op_end = fail_behind, .user = &left};
        CHECK_OK(ctx, dispatch_add_observer(ctx, &observer));
        const status_t status = step(ctx, trainer, 3, NULL);
        dispatch_remove_observer(ctx, &observer);
        is_done = status == STATUS_OK;
        if (status == STATUS_OK) {
            assert_false(is_as_before(ctx, net, before));
        } else if (strstr(context_error(ctx), "parameters were updated when step 2 failed") !=
                   NULL) {
            n_broken++;
            context_clear_error(ctx);
            CHECK_FAILS(ctx, step(ctx, trainer, 3, NULL), STATUS_INVALID_ARGUMENT,
                        "trainer_step: an earlier step failed after updating some parameters; load "
                        "a saved state and create a new trainer");
            assert_int_equal(optimizer_n_steps(optimizer), 1);
        } else {
            n_whole++;
            assert_true(is_as_before(ctx, net, before));
            context_clear_error(ctx);
            CHECK_OK(ctx, step(ctx, trainer, 3, NULL));
            assert_int_equal(optimizer_n_steps(optimizer), 2);
        }
        context_clear_error(ctx);
        trainer_destroy(trainer);
        optimizer_destroy(optimizer);
        module_release(net);
    }
    if (n_whole < 3 || n_broken < 3)
        fail_msg("%d steps failed before updates, %d behind one", n_whole, n_broken);
}

/* Runs one step of five layers. If it fails, parameters have not changed, or the message says that
 * they have. */
static status_t step_scarcely(context_t *ctx)
{
    module_t *net = NULL, *layer = NULL;
    optimizer_t *optimizer = NULL;
    trainer_t *trainer = NULL;
    tensor_t *x = NULL;
    float before[5][4] = {{0}}, after[5][4] = {{0}};
    char names[5][16];
    status_t status = layer_sequential(ctx, &net);
    for (int i = 0; i < 5; i++) {
        if (status == STATUS_OK) status = layer_linear(ctx, 2, 2, false, &layer);
        if (status == STATUS_OK) status = layer_append_take(ctx, net, layer);
        snprintf(names[i], sizeof names[i], "%d.weight", i);
    }
    if (status == STATUS_OK) status = module_mkldnn(ctx, net, NULL);
    if (status == STATUS_OK) status = tensor_full(ctx, DTYPE_F32, 2, (int64_t[]){2, 2}, 1.5, &x);
    if (status == STATUS_OK) status = optimizer_sgd(ctx, net, NULL, &optimizer);
    if (status == STATUS_OK)
        status = trainer_create(ctx, net, losses_mse, NULL, optimizer,
                                &(train_options_t){.mode = TRAIN_PLANNED}, &trainer);
    for (int i = 0; i < 5 && status == STATUS_OK; i++)
        status = tensor_read(ctx, module_parameter(net, names[i]), before[i], sizeof before[i]);
    if (status == STATUS_OK) {
        status = trainer_step(ctx, trainer, 1, (const tensor_t *const *)&x, x, NULL, NULL);
        const bool is_broken = strstr(context_error(ctx), "parameters were updated") != NULL;
        status_t read = STATUS_OK;
        for (int i = 0; i < 5 && read == STATUS_OK; i++)
            read = tensor_read(ctx, module_parameter(net, names[i]), after[i], sizeof after[i]);
        const bool is_same = memcmp(before, after, sizeof before) == 0;
        if (read == STATUS_OK) assert_true(is_same == (status != STATUS_OK && !is_broken));
        if (status == STATUS_OK) status = read;
    }
    trainer_destroy(trainer);
    optimizer_destroy(optimizer);
    module_release(net);
    tensor_release(x);
    return status;
}

static void memory_that_ends_leaves_parameters_or_says_so(void **state)
{
    (void)state;
    check_allocations_by_turns(step_scarcely);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(updates_in_a_plan_are_those_behind_it),
        TEST(updates_that_need_all_gradients_run_after_the_plan),
        TEST(a_layer_that_stands_twice_is_updated_once),
        TEST(gradients_made_of_other_parameters_have_those_before_the_step),
        cmocka_unit_test(gradients_take_the_memory_of_one),
        TEST(a_step_that_fails_halfway_says_so),
        cmocka_unit_test(memory_that_ends_leaves_parameters_or_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
