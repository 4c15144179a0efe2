/* The trainer: eager and planned steps give the same losses, weights stay blocked, and a step that
 * fails changes no weight. */
#include "tests/support/nets/losses.h"
#include "tests/support/nets/training.h"
#include "tests/support/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "module/layers/layers.h"
#include "module/mkldnn.h"
#include "ops/ops.h"
#include "tensor/convert/convert.h"
#include "tensor/counters.h"
#include "train/trainer.h"

/* Makes two convolutions and a linear layer for f32[n,3,8,8]. */
static module_t *make_net(context_t *ctx)
{
    module_t *net = NULL, *relu = NULL, *flatten = NULL, *linear = NULL;
    context_seed(ctx, 5);
    CHECK_OK(ctx, layer_sequential(ctx, &net));
    training_append(ctx, net, training_conv(ctx, 3, 17, 1));
    CHECK_OK(ctx, layer_activation(ctx, ELTWISE_RELU, 0, 0, &relu));
    training_append(ctx, net, relu);
    training_append(ctx, net, training_conv(ctx, 17, 16, 2));
    CHECK_OK(ctx, layer_flatten(ctx, 1, -1, &flatten));
    training_append(ctx, net, flatten);
    CHECK_OK(ctx, layer_linear(ctx, 16 * 16, 5, true, &linear));
    training_append(ctx, net, linear);
    return net;
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
    CHECK_OK(ctx, trainer_create(ctx, net, losses_squares, NULL, optimizer,
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

/* Runs a step and returns its counters. */
static counters_t count_step(context_t *ctx, trainer_t *trainer)
{
    counters_t counters;
    double loss = 0.0;
    counters_reset(ctx);
    CHECK_OK(ctx, step(ctx, trainer, 3, NULL, &loss));
    counters_read(ctx, &counters);
    return counters;
}

static void weights_gradients_and_state_stay_blocked(void **state)
{
    context_t *ctx = fixture_context(state);
    for (int mode = TRAIN_EAGER; mode <= TRAIN_PLANNED; mode++) {
        module_t *net = make_net(ctx);
        optimizer_t *optimizer = NULL;
        CHECK_OK(ctx, module_mkldnn(ctx, net, NULL));
        trainer_t *trainer = training_make(ctx, net, (train_mode_t)mode, &optimizer);
        (void)count_step(ctx, trainer);
        const counters_t counters = count_step(ctx, trainer);
        assert_int_equal(counters.reorders[CAUSE_GRADIENT] + counters.copies[CAUSE_GRADIENT], 0);
        /* Gradients of the inputs may read copies of the second convolution's and the linear
         * layer's weights. oneDNN needs these copies only for some numbers of threads and on some
         * machines. */
        assert_in_range(counters.reorders[CAUSE_WEIGHT], 0, 2);
        assert_int_equal(counters.copies[CAUSE_WEIGHT], 0);
        for (int i = 0; i < optimizer_n_parameters(optimizer); i++)
            assert_int_equal(tensor_layout(optimizer_state(optimizer, i, 0)), LAYOUT_MKLDNN);
        trainer_destroy(trainer);
        optimizer_destroy(optimizer);
        module_release(net);
    }
}

static void a_step_gives_what_the_module_gave_before_it(void **state)
{
    context_t *ctx = fixture_context(state);
    for (int mode = TRAIN_EAGER; mode <= TRAIN_PLANNED; mode++) {
        module_t *net = make_net(ctx);
        optimizer_t *optimizer = NULL;
        trainer_t *trainer = training_make(ctx, net, (train_mode_t)mode, &optimizer);
        tensor_t *x = make_batch(ctx, 3, 4, (const int64_t[]){3, 8, 8});
        tensor_t *expected = NULL, *output = NULL;
        double loss = 0.0, difference = 1.0;
        CHECK_OK(ctx, module_forward(ctx, net, x, &expected));
        CHECK_OK(ctx, step(ctx, trainer, 3, &output, &loss));
        CHECK_OK(ctx, tensor_max_rel_diff(ctx, output, expected, &difference));
        assert_true(difference < 1e-6);
        const train_times_t times = trainer_times(trainer);
        assert_true(times.backward_ns > 0 && times.update_ns > 0);
        assert_true((times.forward_ns > 0) == (mode == TRAIN_EAGER));
        assert_true((trainer_graph(trainer) != NULL) == (mode == TRAIN_PLANNED));
        assert_true((trainer_arena_bytes(trainer) > 0) == (mode == TRAIN_PLANNED));
        tensor_release(x);
        tensor_release(expected);
        tensor_release(output);
        trainer_destroy(trainer);
        optimizer_destroy(optimizer);
        module_release(net);
    }
}

/* Reads all parameters into one array. Returns the number of elements. */
static int read_weights(context_t *ctx, const optimizer_t *optimizer, float *elements, int capacity)
{
    int n = 0;
    for (int i = 0; i < optimizer_n_parameters(optimizer); i++) {
        const tensor_t *parameter = optimizer_parameter(optimizer, i);
        const int numel = (int)tensor_numel(parameter);
        assert_true(n + numel <= capacity);
        CHECK_OK(ctx, tensor_read(ctx, parameter, elements + n, (size_t)numel * sizeof *elements));
        n += numel;
    }
    return n;
}

/* Without momentum, a step moves the weights by the learning rate (1) times the norm of the
 * gradients. The norm is larger than max_norm here, so they move by max_norm. */
static void gradients_are_clipped_to_a_norm(void **state)
{
    context_t *ctx = fixture_context(state);
    static float before[8192], after[8192];
    for (int mode = TRAIN_EAGER; mode <= TRAIN_PLANNED; mode++) {
        module_t *net = make_net(ctx);
        optimizer_t *optimizer = NULL;
        trainer_t *trainer = NULL;
        double moved = 0.0;
        const sgd_options_t sgd = sgd_options(1.0);
        const train_options_t options = {
            .mode = (train_mode_t)mode, .max_norm = 0.01, .keep_numerics = true};
        CHECK_OK(ctx, optimizer_sgd(ctx, net, &sgd, &optimizer));
        CHECK_OK(ctx,
                 trainer_create(ctx, net, losses_squares, NULL, optimizer, &options, &trainer));
        const int n = read_weights(ctx, optimizer, before, 8192);
        CHECK_OK(ctx, step(ctx, trainer, 3, NULL, NULL));
        (void)read_weights(ctx, optimizer, after, 8192);
        for (int i = 0; i < n; i++)
            moved += ((double)after[i] - before[i]) * ((double)after[i] - before[i]);
        assert_true(fabs(sqrt(moved) - 0.01) < 1e-5);
        trainer_destroy(trainer);
        optimizer_destroy(optimizer);
        module_release(net);
    }
}

static float first_weight(context_t *ctx, const module_t *net)
{
    float elements[17 * 3 * 9];
    CHECK_OK(ctx, tensor_read(ctx, module_parameter(net, "0.weight"), elements, sizeof elements));
    return elements[0];
}

static void a_loss_that_is_no_number_changes_no_weight(void **state)
{
    context_t *ctx = fixture_context(state);
    for (int mode = TRAIN_EAGER; mode <= TRAIN_PLANNED; mode++) {
        module_t *net = make_net(ctx);
        optimizer_t *optimizer = NULL;
        trainer_t *trainer = training_make(ctx, net, (train_mode_t)mode, &optimizer);
        tensor_t *x = make_batch(ctx, 3, 4, (const int64_t[]){3, 8, 8}), *target = NULL;
        double loss = 0.0;
        CHECK_OK(ctx, step(ctx, trainer, 3, NULL, &loss));
        const float before = first_weight(ctx, net);
        CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, 2, (const int64_t[]){3, 5}, NAN, &target));
        CHECK_FAILS(ctx,
                    trainer_step(ctx, trainer, 1, (const tensor_t *const *)&x, target, NULL, &loss),
                    STATUS_INVALID_ARGUMENT, "the loss of step 2 is");
        assert_true(first_weight(ctx, net) == before);
        CHECK_OK(ctx, step(ctx, trainer, 3, NULL, &loss));
        assert_true(first_weight(ctx, net) != before);
        tensor_release(x);
        tensor_release(target);
        trainer_destroy(trainer);
        optimizer_destroy(optimizer);
        module_release(net);
    }
}

/* Returns x times the weight plus `total`, the sum of all inputs so far. If there is an attribute
 * "view", it reads the sum through a view that was made before the sum changed. */
static status_t forward_writing(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                                int *n_out, tensor_t **out)
{
    tensor_t *total = module_buffer(self, "total"), *view = total, *product = NULL;
    (void)n_in;
    *n_out = 1;
    TRY(op_mul(ctx, in[0], module_parameter(self, "weight"), &product));
    if (module_attribute(self, "view") != NULL)
        TRY(op_reshape(ctx, total, 1, (const int64_t[]){-1}, &view));
    TRY(op_add_(ctx, total, in[0]));
    return op_add(ctx, product, view, out);
}

static module_t *make_writing(context_t *ctx, bool has_view)
{
    static const char *const names[] = {"weight", "unused"};
    const int64_t n = 4;
    module_t *net = NULL;
    tensor_t *tensor = NULL;
    datum_t *yes = NULL;
    CHECK_OK(ctx, module_create(ctx, "Writing", &net));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, 1, &n, 2.0, &tensor));
        CHECK_OK(ctx, module_set_parameter(ctx, net, names[i], tensor));
        tensor_release(tensor);
    }
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, 1, &n, &tensor));
    CHECK_OK(ctx, module_set_buffer(ctx, net, "total", tensor));
    tensor_release(tensor);
    CHECK_OK(ctx, datum_bool(ctx, true, &yes));
    if (has_view) CHECK_OK(ctx, module_set_attribute(ctx, net, "view", yes));
    datum_release(yes);
    CHECK_OK(ctx, module_set_forward(ctx, net, "forward", forward_writing));
    return net;
}

static void state_moves_once_a_step(void **state)
{
    context_t *ctx = fixture_context(state);
    double losses[2][3], total = 0.0;
    for (int mode = TRAIN_EAGER; mode <= TRAIN_PLANNED; mode++) {
        module_t *net = make_writing(ctx, false);
        optimizer_t *optimizer = NULL;
        trainer_t *trainer = training_make(ctx, net, (train_mode_t)mode, &optimizer);
        tensor_t *x = NULL, *first = NULL;
        CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, 1, (const int64_t[]){4}, 3.0, &x));
        for (int i = 0; i < 3; i++)
            CHECK_OK(ctx, trainer_step(ctx, trainer, 1, (const tensor_t *const *)&x, x, NULL,
                                       &losses[mode][i]));
        CHECK_OK(ctx, tensor_narrow(ctx, module_buffer(net, "total"), 0, 0, 1, &first));
        CHECK_OK(ctx, tensor_item(ctx, first, &total));
        assert_true(total == 9.0);
        assert_string_equal(optimizer_unstepped(optimizer, 0), "unused");
        tensor_release(first);
        tensor_release(x);
        trainer_destroy(trainer);
        optimizer_destroy(optimizer);
        module_release(net);
    }
    assert_true(fabs(losses[0][0] - 36.0) < 1e-5); /* (3 * 2 + 3 - 3)^2 */
    for (int i = 0; i < 3; i++) assert_true(fabs(losses[0][i] - losses[1][i]) < 1e-4);
}

static void state_that_is_seen_through_a_view_needs_an_eager_step(void **state)
{
    context_t *ctx = fixture_context(state);
    for (int mode = TRAIN_EAGER; mode <= TRAIN_PLANNED; mode++) {
        module_t *net = make_writing(ctx, true);
        optimizer_t *optimizer = NULL;
        trainer_t *trainer = training_make(ctx, net, (train_mode_t)mode, &optimizer);
        tensor_t *x = NULL;
        double loss = 0.0;
        CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, 1, (const int64_t[]){4}, 3.0, &x));
        status_t status = trainer_step(ctx, trainer, 1, (const tensor_t *const *)&x, x, NULL,
                                       &loss);
        if (mode == TRAIN_PLANNED)
            CHECK_FAILS(ctx, status, STATUS_UNSUPPORTED,
                        "writes a tensor that is read later; use mode TRAIN_EAGER");
        else
            assert_true(status == STATUS_OK && fabs(loss - 36.0) < 1e-5);
        tensor_release(x);
        trainer_destroy(trainer);
        optimizer_destroy(optimizer);
        module_release(net);
    }
}

/* Like losses_squares, but reads elements, so a trace must run the operators. */
static status_t squares_seen(context_t *ctx, void *user, const tensor_t *output,
                             const tensor_t *target, tensor_t **out_loss)
{
    float elements[32];
    TRY(tensor_read(ctx, output, elements, sizeof elements));
    *(float *)user = elements[0];
    return losses_squares(ctx, user, output, target, out_loss);
}

static void a_loss_that_looks_at_elements_is_traced_by_running_it(void **state)
{
    context_t *ctx = fixture_context(state);
    double losses[2];
    for (int i = 0; i < 2; i++) {
        module_t *net = make_net(ctx);
        optimizer_t *optimizer = NULL;
        trainer_t *trainer = NULL;
        float seen = NAN;
        const sgd_options_t sgd = sgd_options(0.002);
        const train_options_t options = {.mode = TRAIN_PLANNED};
        CHECK_OK(ctx, optimizer_sgd(ctx, net, &sgd, &optimizer));
        CHECK_OK(ctx, trainer_create(ctx, net, i == 0 ? losses_squares : squares_seen, &seen,
                                     optimizer, &options, &trainer));
        CHECK_OK(ctx, step(ctx, trainer, 3, NULL, &losses[i]));
        assert_true(isnan(seen) == (i == 0));
        trainer_destroy(trainer);
        optimizer_destroy(optimizer);
        module_release(net);
    }
    assert_true(fabs(losses[0] - losses[1]) < 1e-5 * losses[0]);
}

/* In both modes, the next loss is different after an attribute of the network was changed. */
static void a_changed_attribute_is_seen_by_the_next_step(void **state)
{
    context_t *ctx = fixture_context(state);
    double losses[2][3];
    for (int mode = TRAIN_EAGER; mode <= TRAIN_PLANNED; mode++) {
        module_t *net = make_net(ctx), *leaky = NULL;
        optimizer_t *optimizer = NULL;
        datum_t *slope = NULL;
        CHECK_OK(ctx, layer_activation(ctx, ELTWISE_LEAKY_RELU, 0.1, 0, &leaky));
        CHECK_OK(ctx, module_set_child(ctx, net, "1", leaky));
        trainer_t *trainer = training_make(ctx, net, (train_mode_t)mode, &optimizer);
        CHECK_OK(ctx, step(ctx, trainer, 3, NULL, &losses[mode][0]));
        CHECK_OK(ctx, step(ctx, trainer, 3, NULL, &losses[mode][1]));
        CHECK_OK(ctx, datum_float(ctx, 0.9, &slope));
        assert_non_null(module_attribute(leaky, "alpha"));
        CHECK_OK(ctx, module_set_attribute(ctx, leaky, "alpha", slope));
        CHECK_OK(ctx, step(ctx, trainer, 3, NULL, &losses[mode][2]));
        datum_release(slope);
        module_release(leaky);
        trainer_destroy(trainer);
        optimizer_destroy(optimizer);
        module_release(net);
    }
    for (int i = 0; i < 3; i++)
        assert_true(fabs(losses[0][i] - losses[1][i]) < 1e-5 * losses[0][i]);
}

static void a_parameter_that_was_replaced_is_trained(void **state)
{
    context_t *ctx = fixture_context(state);
    for (int mode = TRAIN_EAGER; mode <= TRAIN_PLANNED; mode++) {
        module_t *net = make_net(ctx);
        optimizer_t *optimizer = NULL;
        tensor_t *weight = NULL;
        trainer_t *trainer = training_make(ctx, net, (train_mode_t)mode, &optimizer);
        CHECK_OK(ctx, step(ctx, trainer, 3, NULL, NULL));
        CHECK_OK(ctx,
                 tensor_full(ctx, DTYPE_F32, 4, (const int64_t[]){17, 3, 3, 3}, 0.25, &weight));
        CHECK_OK(ctx, module_set_parameter(ctx, net, "0.weight", weight));
        CHECK_OK(ctx, step(ctx, trainer, 3, NULL, NULL));
        assert_true(first_weight(ctx, net) != 0.25f);
        tensor_release(weight);
        trainer_destroy(trainer);
        optimizer_destroy(optimizer);
        module_release(net);
    }
}

static status_t sum_of_squares(context_t *ctx, void *user, const tensor_t *output,
                               const tensor_t *target, tensor_t **out_loss)
{
    tensor_t *difference = NULL, *square = NULL;
    (void)user;
    TRY(op_sub(ctx, output, target, &difference));
    status_t status = op_mul(ctx, difference, difference, &square);
    if (status == STATUS_OK) status = op_sum(ctx, square, 0, NULL, false, out_loss);
    tensor_release(square);
    tensor_release(difference);
    return status;
}

/* Without items, the mean is NaN; the sum and the gradients are 0. */
static void an_empty_batch_moves_no_weight(void **state)
{
    context_t *ctx = fixture_context(state);
    for (int i = 0; i < 4; i++) {
        const train_mode_t mode = i % 2 == 0 ? TRAIN_EAGER : TRAIN_PLANNED;
        module_t *net = make_net(ctx);
        optimizer_t *optimizer = NULL;
        trainer_t *trainer = NULL;
        double loss = -1.0;
        CHECK_OK(ctx, module_mkldnn(ctx, net, NULL));
        CHECK_OK(ctx, optimizer_sgd(ctx, net, NULL, &optimizer));
        CHECK_OK(ctx, trainer_create(ctx, net, i < 2 ? losses_squares : sum_of_squares, NULL,
                                     optimizer, &(train_options_t){.mode = mode}, &trainer));
        const float before = first_weight(ctx, net);
        if (i < 2) {
            CHECK_FAILS(ctx, step(ctx, trainer, 0, NULL, &loss), STATUS_INVALID_ARGUMENT,
                        "the loss of step 1 is");
        } else {
            CHECK_OK(ctx, step(ctx, trainer, 0, NULL, &loss));
            assert_true(loss == 0.0);
        }
        assert_true(first_weight(ctx, net) == before);
        CHECK_OK(ctx, step(ctx, trainer, 2, NULL, &loss));
        assert_true(first_weight(ctx, net) != before);
        trainer_destroy(trainer);
        optimizer_destroy(optimizer);
        module_release(net);
    }
}

/* module_mkldnn is called after step 2, and the number of threads changes after step 3. */
static void layout_and_threads_may_change_between_steps(void **state)
{
    context_t *ctx = fixture_context(state);
    double losses[2][5];
    const graph_t *graphs[5];
    for (int mode = TRAIN_EAGER; mode <= TRAIN_PLANNED; mode++) {
        module_t *net = make_net(ctx);
        optimizer_t *optimizer = NULL;
        trainer_t *trainer = training_make(ctx, net, (train_mode_t)mode, &optimizer);
        CHECK_OK(ctx, context_set_threads(ctx, 2));
        for (int i = 0; i < 5; i++) {
            if (i == 2) CHECK_OK(ctx, module_mkldnn(ctx, net, NULL));
            if (i >= 3) CHECK_OK(ctx, context_set_threads(ctx, i == 3 ? 1 : 2));
            CHECK_OK(ctx, step(ctx, trainer, 3, NULL, &losses[mode][i]));
            graphs[i] = trainer_graph(trainer);
        }
        trainer_destroy(trainer);
        optimizer_destroy(optimizer);
        module_release(net);
    }
    assert_ptr_not_equal(graphs[3], graphs[2]); /* kernels depend on the number of threads */
    assert_ptr_equal(graphs[4], graphs[2]);
    for (int i = 0; i < 5; i++)
        assert_true(fabs(losses[0][i] - losses[1][i]) < 1e-5 * losses[0][i]);
}

static void wrong_arguments_are_refused(void **state)
{
    context_t *ctx = fixture_context(state), *other = NULL;
    module_t *net = make_net(ctx);
    optimizer_t *optimizer = NULL;
    trainer_t *trainer = training_make(ctx, net, TRAIN_EAGER, &optimizer), *none = NULL;
    tensor_t *x = make_batch(ctx, 3, 4, (const int64_t[]){3, 8, 8});
    const tensor_t *const *in = (const tensor_t *const *)&x;
    CHECK_FAILS(ctx, trainer_step(ctx, trainer, 0, in, x, NULL, NULL), STATUS_INVALID_ARGUMENT,
                "trainer_step: 0 inputs");
    CHECK_FAILS(ctx, trainer_step(ctx, trainer, METHOD_MAX_OUTPUTS, in, x, NULL, NULL),
                STATUS_INVALID_ARGUMENT, "32 inputs, must be 1 to 31");
    CHECK_FAILS(ctx, trainer_step(ctx, trainer, 1, in, NULL, NULL, NULL), STATUS_INVALID_ARGUMENT,
                "trainer_step");
    CHECK_FAILS(ctx,
                trainer_create(ctx, net, losses_squares, NULL, optimizer,
                               &(train_options_t){.mode = (train_mode_t)7}, &none),
                STATUS_INVALID_ARGUMENT, "trainer_create: mode 7");
    CHECK_FAILS(ctx,
                trainer_create(ctx, net, losses_squares, NULL, optimizer,
                               &(train_options_t){.max_norm = -1.0}, &none),
                STATUS_INVALID_ARGUMENT, "max_norm -1, must not be negative");
    context_clear_error(ctx);
    CHECK_FAILS(ctx, trainer_create(ctx, net, NULL, NULL, optimizer, NULL, &none),
                STATUS_INVALID_ARGUMENT, "loss is NULL");
    context_clear_error(ctx);
    assert_null(none);
    CHECK_OK(ctx, context_create(NULL, &other));
    CHECK_FAILS(other, trainer_step(other, trainer, 1, in, x, NULL, NULL), STATUS_INVALID_ARGUMENT,
                "trainer_step: the trainer belongs to another context");
    context_destroy(other);
    CHECK_FAILS(ctx, trainer_step(ctx, trainer, 1, in, x, NULL, NULL), STATUS_INVALID_ARGUMENT,
                "sub"); /* in the loss: f32[3,5] and f32[3,3,8,8] */
    trainer_destroy(trainer);
    trainer_destroy(NULL);
    assert_null(trainer_graph(NULL));
    assert_int_equal(trainer_arena_bytes(NULL), 0);
    assert_int_equal(trainer_times(NULL).update_ns, 0);
    optimizer_destroy(optimizer);
    module_release(net);
    tensor_release(x);
}

/* Runs one step of a module with one weight. If it fails, the weight must not have changed. */
static status_t step_scarcely(context_t *ctx, train_mode_t mode)
{
    module_t *net = NULL, *linear = NULL;
    optimizer_t *optimizer = NULL;
    trainer_t *trainer = NULL;
    tensor_t *x = NULL, *target = NULL;
    sgd_options_t sgd = sgd_options(0.1);
    double loss = 0.0;
    float before[6] = {0}, after[6] = {0};
    status_t status = layer_sequential(ctx, &net);
    if (status == STATUS_OK) status = layer_linear(ctx, 3, 2, false, &linear);
    if (status == STATUS_OK) status = layer_append_take(ctx, net, linear);
    if (status == STATUS_OK) status = tensor_full(ctx, DTYPE_F32, 2, (int64_t[]){2, 3}, 1.5, &x);
    if (status == STATUS_OK) status = tensor_zeros(ctx, DTYPE_F32, 2, (int64_t[]){2, 2}, &target);
    if (status == STATUS_OK) status = optimizer_sgd(ctx, net, &sgd, &optimizer);
    if (status == STATUS_OK)
        status = trainer_create(ctx, net, losses_squares, NULL, optimizer,
                                &(train_options_t){.mode = mode}, &trainer);
    if (status == STATUS_OK)
        status = tensor_read(ctx, module_parameter(net, "0.weight"), before, sizeof before);
    if (status == STATUS_OK) {
        status = trainer_step(ctx, trainer, 1, (const tensor_t *const *)&x, target, NULL, &loss);
        if (tensor_read(ctx, module_parameter(net, "0.weight"), after, sizeof after) == STATUS_OK)
            assert_true((memcmp(before, after, sizeof before) == 0) == (status != STATUS_OK));
    }
    trainer_destroy(trainer);
    optimizer_destroy(optimizer);
    tensor_release(x);
    tensor_release(target);
    module_release(net);
    return status;
}

static status_t step_eagerly(context_t *ctx)
{
    return step_scarcely(ctx, TRAIN_EAGER);
}

static status_t step_planned(context_t *ctx)
{
    return step_scarcely(ctx, TRAIN_PLANNED);
}

/* Records the size of the largest block that was requested. */
static void *get_measured(void *user, size_t bytes)
{
    size_t *most = user;
    if (bytes > *most) *most = bytes;
    return aligned_alloc(64, (bytes + 64) / 64 * 64);
}

static void put_measured(void *user, void *block)
{
    (void)user;
    free(block);
}

static void gradients_of_a_plan_lie_where_those_before_lay(void **state)
{
    (void)state;
    size_t most = 0;
    const allocator_t allocator = {&most, get_measured, put_measured};
    const context_options_t options = {.allocator = &allocator, .n_threads = 2};
    context_t *ctx = NULL;
    module_t *net = NULL, *flatten = NULL, *first = NULL, *second = NULL;
    optimizer_t *optimizer = NULL;
    assert_int_equal(context_create(&options, &ctx), STATUS_OK);
    CHECK_OK(ctx, layer_sequential(ctx, &net));
    CHECK_OK(ctx, layer_flatten(ctx, 1, -1, &flatten));
    training_append(ctx, net, flatten);
    CHECK_OK(ctx, layer_linear(ctx, 3 * 8 * 8, 1024, true, &first));
    training_append(ctx, net, first);
    CHECK_OK(ctx, layer_linear(ctx, 1024, 5, true, &second));
    training_append(ctx, net, second);
    CHECK_OK(ctx, module_mkldnn(ctx, net, NULL));
    trainer_t *trainer = training_make(ctx, net, TRAIN_PLANNED, &optimizer);
    double loss = 0.0;
    CHECK_OK(ctx, step(ctx, trainer, 3, NULL, &loss));
    CHECK_OK(ctx, step(ctx, trainer, 3, NULL, &loss));
    most = 0;
    CHECK_OK(ctx, step(ctx, trainer, 3, NULL, &loss));
    assert_true(most < 3 * 8 * 8 * 1024 * sizeof(float));
    trainer_destroy(trainer);
    optimizer_destroy(optimizer);
    module_release(net);
    context_destroy(ctx);
}

static void nothing_leaks_when_allocations_fail(void **state)
{
    (void)state;
    check_allocations_by_turns(step_eagerly);
    check_allocations_by_turns(step_planned);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(eager_and_planned_steps_are_the_same),
        TEST(weights_gradients_and_state_stay_blocked),
        TEST(a_step_gives_what_the_module_gave_before_it),
        TEST(gradients_are_clipped_to_a_norm),
        TEST(a_loss_that_is_no_number_changes_no_weight),
        TEST(state_moves_once_a_step),
        TEST(state_that_is_seen_through_a_view_needs_an_eager_step),
        TEST(a_loss_that_looks_at_elements_is_traced_by_running_it),
        TEST(a_changed_attribute_is_seen_by_the_next_step),
        TEST(a_parameter_that_was_replaced_is_trained),
        TEST(an_empty_batch_moves_no_weight),
        TEST(layout_and_threads_may_change_between_steps),
        TEST(wrong_arguments_are_refused),
        cmocka_unit_test(gradients_of_a_plan_lie_where_those_before_lay),
        cmocka_unit_test(nothing_leaks_when_allocations_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
