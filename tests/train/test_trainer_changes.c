/* The trainer must notice when a module changes between steps. Also tests its errors. */
#include "tests/support/nets/losses.h"
#include "tests/support/nets/training.h"
#include "tests/support/support.h"

#include <math.h>

#include "dispatch/dispatch.h"
#include "module/module.h"
#include "ops/ops.h"
#include "train/trainer.h"

/* Returns x * a + b. */
static status_t forward_line(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                             int *n_out, tensor_t **out)
{
    tensor_t *product = NULL;
    (void)n_in;
    *n_out = 1;
    TRY(op_mul(ctx, in[0], module_parameter(self, "a"), &product));
    return op_add(ctx, product, module_parameter(self, "b"), out);
}

/* Returns -(x * a + b). */
static status_t forward_turned(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                               int *n_out, tensor_t **out)
{
    tensor_t *line = NULL;
    TRY(forward_line(ctx, self, n_in, in, n_out, &line));
    return op_neg(ctx, line, out);
}

/* Returns x * a. */
static status_t forward_scaled(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                               int *n_out, tensor_t **out)
{
    (void)n_in;
    *n_out = 1;
    return op_mul(ctx, in[0], module_parameter(self, "a"), out);
}

/* Returns a parameter itself. */
static status_t forward_weight(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                               int *n_out, tensor_t **out)
{
    (void)ctx;
    (void)n_in;
    (void)in;
    *n_out = 1;
    *out = tensor_retain(module_parameter(self, "a"));
    return STATUS_OK;
}

/* Returns a view of the parameter. */
static status_t forward_view(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                             int *n_out, tensor_t **out)
{
    (void)n_in;
    (void)in;
    *n_out = 1;
    return op_reshape(ctx, module_parameter(self, "a"), 1, (const int64_t[]){-1}, out);
}

static void set_number(context_t *ctx, module_t *module, const char *name, dtype_t dtype,
                       double value)
{
    tensor_t *tensor = NULL;
    CHECK_OK(ctx, tensor_full(ctx, dtype, 1, (const int64_t[]){4}, value, &tensor));
    CHECK_OK(ctx, module_set_parameter(ctx, module, name, tensor));
    tensor_release(tensor);
}

static module_t *make_line(context_t *ctx, dtype_t dtype, forward_t forward)
{
    module_t *net = NULL;
    CHECK_OK(ctx, module_create(ctx, "Line", &net));
    set_number(ctx, net, "a", dtype, 2.0);
    set_number(ctx, net, "b", dtype, 0.5);
    CHECK_OK(ctx, module_set_forward(ctx, net, "forward", forward));
    return net;
}

/* Runs a step; x and the target are filled with 3. */
static status_t step_line(context_t *ctx, trainer_t *trainer, tensor_t **out_output,
                          double *out_loss)
{
    tensor_t *x = NULL;
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, 1, (const int64_t[]){4}, 3.0, &x));
    status_t status = trainer_step(ctx, trainer, 1, (const tensor_t *const *)&x, x, out_output,
                                   out_loss);
    tensor_release(x);
    return status;
}

/* At first, a and b are one tensor, which a trace records once. Then b becomes another tensor, and
 * then the module gets another forward method. */
static void a_tie_that_ends_and_another_method_are_seen_by_the_next_step(void **state)
{
    context_t *ctx = fixture_context(state);
    double losses[2][4];
    for (int mode = TRAIN_EAGER; mode <= TRAIN_PLANNED; mode++) {
        module_t *net = make_line(ctx, DTYPE_F32, forward_line);
        optimizer_t *optimizer = NULL;
        CHECK_OK(ctx, module_set_parameter(ctx, net, "b", module_parameter(net, "a")));
        trainer_t *trainer = training_make(ctx, net, (train_mode_t)mode, &optimizer);
        assert_int_equal(optimizer_n_parameters(optimizer), 1);
        CHECK_OK(ctx, step_line(ctx, trainer, NULL, &losses[mode][0]));
        CHECK_OK(ctx, step_line(ctx, trainer, NULL, &losses[mode][3]));
        set_number(ctx, net, "b", DTYPE_F32, 7.0);
        CHECK_OK(ctx, step_line(ctx, trainer, NULL, &losses[mode][1]));
        CHECK_OK(ctx, module_set_forward(ctx, net, "forward", forward_turned));
        CHECK_OK(ctx, step_line(ctx, trainer, NULL, &losses[mode][2]));
        trainer_destroy(trainer);
        optimizer_destroy(optimizer);
        module_release(net);
    }
    assert_float_equal(losses[0][0], 25.0, 1e-5); /* (3 * 2 + 2 - 3)^2 */
    assert_true(losses[0][1] > 90.0);             /* nearly (3 * 2 + 7 - 3)^2 */
    assert_true(losses[0][2] > 200.0);            /* nearly (3 * 2 + 7 + 3)^2 */
    for (int i = 0; i < 4; i++)
        assert_true(fabs(losses[0][i] - losses[1][i]) < 1e-5 * losses[0][i]);
}

static void an_output_that_is_a_parameter_is_the_one_before_the_update(void **state)
{
    context_t *ctx = fixture_context(state);
    static const forward_t forwards[] = {forward_weight, forward_view};
    for (int i = 0; i < 2; i++) {
        module_t *net = make_line(ctx, DTYPE_F32, forwards[i]);
        optimizer_t *optimizer = NULL;
        trainer_t *trainer = training_make(ctx, net, TRAIN_EAGER, &optimizer);
        tensor_t *output = NULL;
        float elements[4];
        CHECK_OK(ctx, step_line(ctx, trainer, &output, NULL));
        CHECK_OK(ctx, tensor_read(ctx, output, elements, sizeof elements));
        for (int k = 0; k < 4; k++) assert_true(elements[k] == 2.0f);
        CHECK_OK(ctx, tensor_read(ctx, module_parameter(net, "a"), elements, sizeof elements));
        for (int k = 0; k < 4; k++) assert_true(elements[k] != 2.0f);
        tensor_release(output);
        trainer_destroy(trainer);
        trainer = NULL;
        CHECK_OK(ctx, trainer_create(ctx, net, losses_squares, NULL, optimizer,
                                     &(train_options_t){.mode = TRAIN_PLANNED}, &trainer));
        CHECK_FAILS(ctx, step_line(ctx, trainer, &output, NULL), STATUS_UNSUPPORTED, "plan: ");
        assert_null(output);
        trainer_destroy(trainer);
        optimizer_destroy(optimizer);
        module_release(net);
    }
}

/* Returns x * a plus an element of `total`, the sum of inputs, read through "one", a view of
 * "total". */
static status_t forward_seen(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                             int *n_out, tensor_t **out)
{
    tensor_t *product = NULL;
    (void)n_in;
    *n_out = 1;
    TRY(op_add_(ctx, module_buffer(self, "total"), in[0]));
    TRY(op_mul(ctx, in[0], module_parameter(self, "a"), &product));
    return op_add(ctx, product, module_buffer(self, "one"), out);
}

static void a_buffer_that_is_a_view_of_what_is_written_needs_an_eager_step(void **state)
{
    context_t *ctx = fixture_context(state);
    for (int mode = TRAIN_EAGER; mode <= TRAIN_PLANNED; mode++) {
        module_t *net = make_line(ctx, DTYPE_F32, forward_seen);
        optimizer_t *optimizer = NULL;
        tensor_t *total = NULL, *one = NULL;
        double loss = 0.0;
        CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, 1, (const int64_t[]){4}, &total));
        CHECK_OK(ctx, tensor_narrow(ctx, total, 0, 1, 1, &one));
        CHECK_OK(ctx, module_set_buffer(ctx, net, "total", total));
        CHECK_OK(ctx, module_set_buffer(ctx, net, "one", one));
        trainer_t *trainer = training_make(ctx, net, (train_mode_t)mode, &optimizer);
        if (mode == TRAIN_EAGER) {
            CHECK_OK(ctx, step_line(ctx, trainer, NULL, &loss));
            assert_float_equal(loss, 36.0, 1e-5); /* (3 * 2 + 3 - 3)^2 */
        } else {
            CHECK_FAILS(ctx, step_line(ctx, trainer, NULL, &loss), STATUS_UNSUPPORTED,
                        "writes a tensor that is read later; use mode TRAIN_EAGER");
        }
        tensor_release(total);
        tensor_release(one);
        trainer_destroy(trainer);
        optimizer_destroy(optimizer);
        module_release(net);
    }
}

static void a_parameter_in_lent_memory_with_gaps_is_trained_there(void **state)
{
    context_t *ctx = fixture_context(state);
    float memory[2][8];
    double losses[2][3];
    for (int mode = TRAIN_EAGER; mode <= TRAIN_PLANNED; mode++) {
        module_t *net = make_line(ctx, DTYPE_F32, forward_line);
        optimizer_t *optimizer = NULL;
        tensor_t *lent = NULL;
        for (int i = 0; i < 8; i++) memory[mode][i] = i % 2 == 0 ? 2.0f : -1.0f;
        CHECK_OK(ctx, tensor_borrow(ctx, DTYPE_F32, 1, (const int64_t[]){4}, (const int64_t[]){2},
                                    memory[mode], NULL, NULL, &lent));
        CHECK_OK(ctx, module_set_parameter(ctx, net, "a", lent));
        tensor_release(lent);
        trainer_t *trainer = training_make(ctx, net, (train_mode_t)mode, &optimizer);
        for (int i = 0; i < 3; i++) CHECK_OK(ctx, step_line(ctx, trainer, NULL, &losses[mode][i]));
        trainer_destroy(trainer);
        optimizer_destroy(optimizer);
        module_release(net);
    }
    assert_true(losses[0][2] < losses[0][0] && memory[0][0] < 2.0f);
    for (int i = 0; i < 3; i++)
        assert_true(fabs(losses[0][i] - losses[1][i]) < 1e-5 * losses[0][i]);
    for (int i = 0; i < 8; i++) {
        assert_float_equal(memory[0][i], memory[1][i], 1e-6);
        assert_true(i % 2 == 0 || memory[0][i] == -1.0f);
    }
}

/* Like losses_squares, plus the mean of parameter "a" of the module in `user`. */
static status_t squares_and_weight(context_t *ctx, void *user, const tensor_t *output,
                                   const tensor_t *target, tensor_t **out_loss)
{
    tensor_t *loss = NULL, *mean = NULL;
    TRY(losses_squares(ctx, NULL, output, target, &loss));
    status_t status = op_mean(ctx, module_parameter(user, "a"), 0, NULL, false, &mean);
    if (status == STATUS_OK) status = op_add(ctx, loss, mean, out_loss);
    tensor_release(loss);
    tensor_release(mean);
    return status;
}

/* A plan would not see that the loss reads the parameter: it would have no gradient and old
 * elements. */
static void a_loss_that_reads_the_module_needs_an_eager_step(void **state)
{
    context_t *ctx = fixture_context(state);
    for (int mode = TRAIN_EAGER; mode <= TRAIN_PLANNED; mode++) {
        module_t *net = make_line(ctx, DTYPE_F32, forward_line);
        optimizer_t *optimizer = NULL;
        trainer_t *trainer = NULL;
        double loss = 0.0;
        CHECK_OK(ctx, optimizer_sgd(ctx, net, NULL, &optimizer));
        CHECK_OK(ctx, trainer_create(ctx, net, squares_and_weight, net, optimizer,
                                     &(train_options_t){.mode = (train_mode_t)mode}, &trainer));
        status_t status = step_line(ctx, trainer, NULL, &loss);
        if (mode == TRAIN_EAGER)
            assert_true(status == STATUS_OK && fabs(loss - 14.25) < 1e-5); /* 3.5^2 + 2 */
        else
            CHECK_FAILS(ctx, status, STATUS_UNSUPPORTED,
                        "trainer_step: the loss reads \"a\" of the module, which a plan cannot do; "
                        "use mode TRAIN_EAGER");
        trainer_destroy(trainer);
        optimizer_destroy(optimizer);
        module_release(net);
    }
}

static void an_input_of_the_modules_own_needs_an_eager_step(void **state)
{
    context_t *ctx = fixture_context(state);
    for (int mode = TRAIN_EAGER; mode <= TRAIN_PLANNED; mode++) {
        module_t *net = make_line(ctx, DTYPE_F32, forward_line);
        optimizer_t *optimizer = NULL;
        tensor_t *target = NULL;
        trainer_t *trainer = training_make(ctx, net, (train_mode_t)mode, &optimizer);
        const tensor_t *a = module_parameter(net, "a");
        float elements[4] = {0};
        CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, 1, (const int64_t[]){4}, &target));
        status_t status = trainer_step(ctx, trainer, 1, &a, target, NULL, NULL);
        if (mode == TRAIN_EAGER) {
            CHECK_OK(ctx, status);
            CHECK_OK(ctx, tensor_read(ctx, a, elements, sizeof elements));
            /* the mean of (a^2 + b)^2 has the derivative a (a^2 + b) by each element of a */
            assert_float_equal(elements[3], 2.0f - 0.002f * 9.0f, 1e-6);
        } else {
            CHECK_FAILS(ctx, status, STATUS_UNSUPPORTED,
                        "trainer_step: input 0, f32[4], shares memory with the module; use mode "
                        "TRAIN_EAGER");
        }
        tensor_release(target);
        trainer_destroy(trainer);
        optimizer_destroy(optimizer);
        module_release(net);
    }
}

static void a_parameter_that_is_gone_is_named(void **state)
{
    context_t *ctx = fixture_context(state);
    for (int mode = TRAIN_EAGER; mode <= TRAIN_PLANNED; mode++) {
        module_t *net = make_line(ctx, DTYPE_F32, forward_scaled);
        optimizer_t *optimizer = NULL;
        trainer_t *trainer = training_make(ctx, net, (train_mode_t)mode, &optimizer);
        CHECK_OK(ctx, step_line(ctx, trainer, NULL, NULL));
        CHECK_OK(ctx, module_remove(ctx, net, "b"));
        CHECK_FAILS(ctx, step_line(ctx, trainer, NULL, NULL), STATUS_INVALID_ARGUMENT,
                    "trainer_step: parameter \"b\", Line no longer has it");
        set_number(ctx, net, "b", DTYPE_F32, 1.0);
        CHECK_OK(ctx, step_line(ctx, trainer, NULL, NULL));
        trainer_destroy(trainer);
        optimizer_destroy(optimizer);
        module_release(net);
    }
}

static void parameters_that_are_not_f32_are_refused_as_they_are(void **state)
{
    context_t *ctx = fixture_context(state);
    static const dtype_t dtypes[] = {DTYPE_F64, DTYPE_F16, DTYPE_BF16};
    for (int i = 0; i < 6; i++) {
        module_t *net = make_line(ctx, dtypes[i / 2], forward_line);
        optimizer_t *optimizer = NULL;
        trainer_t *trainer = training_make(ctx, net, i % 2 == 0 ? TRAIN_EAGER : TRAIN_PLANNED,
                                           &optimizer);
        double value = 0.0;
        tensor_t *first = NULL;
        CHECK_FAILS(ctx, step_line(ctx, trainer, NULL, NULL), STATUS_UNSUPPORTED, "f32 is needed");
        CHECK_OK(ctx, tensor_narrow(ctx, module_parameter(net, "a"), 0, 0, 1, &first));
        CHECK_OK(ctx, tensor_item(ctx, first, &value));
        assert_true(value == 2.0 && optimizer_n_steps(optimizer) == 0);
        tensor_release(first);
        trainer_destroy(trainer);
        optimizer_destroy(optimizer);
        module_release(net);
    }
}

static status_t square_of_target(context_t *ctx, void *user, const tensor_t *output,
                                 const tensor_t *target, tensor_t **out_loss)
{
    (void)output;
    return losses_squares(ctx, user, target, target, out_loss);
}

static void a_loss_that_depends_on_no_parameter_is_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    static const char *const words[] = {"was not computed from watched tensors since the last "
                                        "tape_backward (gradients of gradients are not supported)",
                                        "the loss depends on none of the optimizer's 2 parameters"};
    for (int mode = TRAIN_EAGER; mode <= TRAIN_PLANNED; mode++) {
        module_t *net = make_line(ctx, DTYPE_F32, forward_line);
        optimizer_t *optimizer = NULL;
        trainer_t *trainer = NULL;
        CHECK_OK(ctx, optimizer_sgd(ctx, net, NULL, &optimizer));
        CHECK_OK(ctx, trainer_create(ctx, net, square_of_target, NULL, optimizer,
                                     &(train_options_t){.mode = (train_mode_t)mode}, &trainer));
        CHECK_FAILS(ctx, step_line(ctx, trainer, NULL, NULL), STATUS_INVALID_ARGUMENT, words[mode]);
        assert_int_equal(optimizer_n_steps(optimizer), 0);
        trainer_destroy(trainer);
        optimizer_destroy(optimizer);
        module_release(net);
    }
}

/* Plans for eight batch sizes are kept. A ninth takes no more memory than the one that it replaces,
 * and a size whose plan was removed is planned again. */
static void plans_of_many_batch_sizes_are_bounded(void **state)
{
    context_t *ctx = fixture_context(state);
    const atomic_long *live = &((fixture_t *)*state)->memory.live;
    module_t *net = make_line(ctx, DTYPE_F32, forward_line);
    optimizer_t *optimizer = NULL;
    set_number(ctx, net, "a", DTYPE_F32, 2.0);
    trainer_t *trainer = training_make(ctx, net, TRAIN_PLANNED, &optimizer);
    long after_eight = 0;
    for (int64_t n = 1; n <= 20; n++) {
        tensor_t *x = NULL;
        CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, 2, (const int64_t[]){n, 4}, 3.0, &x));
        CHECK_OK(ctx, trainer_step(ctx, trainer, 1, (const tensor_t *const *)&x, x, NULL, NULL));
        tensor_release(x);
        dispatch_clear_cache(ctx);
        if (n == 8) after_eight = atomic_load(live);
    }
    assert_true(atomic_load(live) <= after_eight + 8);
    trainer_destroy(trainer);
    optimizer_destroy(optimizer);
    module_release(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_tie_that_ends_and_another_method_are_seen_by_the_next_step),
        TEST(an_output_that_is_a_parameter_is_the_one_before_the_update),
        TEST(a_buffer_that_is_a_view_of_what_is_written_needs_an_eager_step),
        TEST(a_parameter_in_lent_memory_with_gaps_is_trained_there),
        TEST(a_loss_that_reads_the_module_needs_an_eager_step),
        TEST(an_input_of_the_modules_own_needs_an_eager_step),
        TEST(a_parameter_that_is_gone_is_named),
        TEST(parameters_that_are_not_f32_are_refused_as_they_are),
        TEST(a_loss_that_depends_on_no_parameter_is_refused),
        TEST(plans_of_many_batch_sizes_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
