/* For large weights, gradients are computed and applied in parts: a tile at a time in one kernel,
 * or in slices. The results must have the same bits as with complete gradients, in less memory. */
#include "tests/support/nets/losses.h"
#include "tests/support/nets/training.h"
#include "tests/support/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/dispatch.h"
#include "module/layers/layers.h"
#include "module/mkldnn.h"
#include "module/state_dict.h"
#include "tensor/convert/convert.h"
#include "tensor/onednn/onednn.h"
#include "train/loss.h"
#include "train/optimizer_impl.h"
#include "train/trainer.h"

/* The first layer's weight has 17 MB. OUTPUTS is not divisible by the size of any block or tile. */
#define INPUTS 4200
#define OUTPUTS 1003
#define CLASSES 5

#define UPDATE "method=\"update\""

typedef enum kind { SGD, ADAM, RMSPROP, N_KINDS } kind_t;

static void append_linear(context_t *ctx, module_t *net, int64_t in, int64_t out, bool has_bias)
{
    module_t *layer = NULL;
    CHECK_OK(ctx, layer_linear(ctx, in, out, has_bias, &layer));
    CHECK_OK(ctx, layer_append_take(ctx, net, layer));
}

static optimizer_t *make_optimizer(context_t *ctx, module_t *net, kind_t kind)
{
    optimizer_t *optimizer = NULL;
    sgd_options_t sgd = sgd_options(0.05);
    adam_options_t adam = adamw_options(1e-3);
    rmsprop_options_t rmsprop = rmsprop_options(1e-4);
    sgd.momentum = 0.9;
    sgd.weight_decay = 1e-3;
    adam.amsgrad = true;
    rmsprop.centered = true;
    rmsprop.eps = 0; /* with eps = 0, updating padding would compute 0 / 0 */
    if (kind == SGD) CHECK_OK(ctx, optimizer_sgd(ctx, net, &sgd, &optimizer));
    if (kind == ADAM) CHECK_OK(ctx, optimizer_adamw(ctx, net, &adam, &optimizer));
    if (kind == RMSPROP) CHECK_OK(ctx, optimizer_rmsprop(ctx, net, &rmsprop, &optimizer));
    return optimizer;
}

static training_t begin(context_t *ctx, bool is_blocked, bool has_bias, kind_t kind, bool is_apart)
{
    training_t training = {0};
    context_seed(ctx, 5);
    CHECK_OK(ctx, layer_sequential(ctx, &training.net));
    append_linear(ctx, training.net, INPUTS, OUTPUTS, has_bias);
    append_linear(ctx, training.net, OUTPUTS, CLASSES, true);
    if (is_blocked) CHECK_OK(ctx, module_mkldnn(ctx, training.net, NULL));
    training.optimizer = make_optimizer(ctx, training.net, kind);
    const train_options_t options = {.mode = TRAIN_PLANNED, .update_apart = is_apart};
    CHECK_OK(ctx, trainer_create(ctx, training.net, losses_mse, NULL, training.optimizer, &options,
                                 &training.trainer));
    return training;
}

static status_t step(context_t *ctx, training_t *training, int64_t n)
{
    tensor_t *x = NULL, *target = NULL;
    context_seed(ctx, 7);
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, 2, (const int64_t[]){n, INPUTS}, &x));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, 2, (const int64_t[]){n, CLASSES}, &target));
    status_t status = trainer_step(ctx, training->trainer, 1, (const tensor_t *const *)&x, target,
                                   NULL, NULL);
    tensor_release(x);
    tensor_release(target);
    return status;
}

static int count_in_plan(context_t *ctx, const training_t *training, const char *words)
{
    text_t text = text_begin(ctx);
    int n = 0;
    CHECK_OK(ctx, graph_print(ctx, trainer_graph(training->trainer), NULL, &text));
    for (const char *at = text_string(&text); (at = strstr(at, words)) != NULL; at++) n++;
    text_clear(&text);
    return n;
}

/* True if our kernel makes gradients in blocks of outputs: with AVX-512. oneDNN 3.x may choose
 * other formats. */
static bool has_blocks(void)
{
    return strncmp(onednn_isa_text(), "avx512", 6) == 0 && onednn_version_text()[0] == '2';
}

/* Returns true if one operator makes the weight's gradient, and false if slices of it are made. */
static bool is_product(context_t *ctx, const training_t *training)
{
    const int n_updates = count_in_plan(ctx, training, UPDATE);
    const int n_gradients = count_in_plan(ctx, training, " = linear_backward_weight(");
    const bool is_one = n_gradients == 1 && n_updates <= 4;
    if (has_blocks()) assert_true(is_one);
    if (!is_one) assert_true(n_updates > 4 && n_gradients > 2);
    return is_one;
}

/* Tolerance relative to the largest number of a tensor, at least 1. Without AVX-512 gradients come
 * from oneDNN's gemm, whose order of sums depends on the threads. */
static double tolerance(void)
{
    return strncmp(onednn_isa_text(), "avx512", 6) == 0 ? 0.0 : 1e-5;
}

static void check_near(context_t *ctx, const char *key, const tensor_t *first,
                       const tensor_t *second)
{
    const size_t n = (size_t)tensor_numel(first), n_bytes = n * dtype_size(tensor_dtype(first));
    float *numbers[2] = {malloc(n_bytes), malloc(n_bytes)};
    double worst = 0.0, largest = 1.0;
    CHECK_OK(ctx, tensor_read(ctx, first, numbers[0], n_bytes));
    CHECK_OK(ctx, tensor_read(ctx, second, numbers[1], n_bytes));
    const bool is_same = memcmp(numbers[0], numbers[1], n_bytes) == 0;
    for (size_t i = 0; !is_same && tensor_dtype(first) == DTYPE_F32 && i < n; i++) {
        const double difference = fabs((double)numbers[0][i] - (double)numbers[1][i]);
        largest = fmax(largest, fabs((double)numbers[1][i]));
        if (!(difference <= worst)) worst = difference;
    }
    if (!is_same && !(worst > 0.0 && worst <= tolerance() * largest))
        fail_msg("%s: %g apart, of %g", key, worst, largest);
    free(numbers[0]);
    free(numbers[1]);
}

static void check_equal(context_t *ctx, const datum_t *a, const datum_t *b)
{
    assert_int_equal(datum_length(a), datum_length(b));
    for (int i = 0; i < datum_length(a); i++)
        check_near(ctx, datum_key(a, i), datum_as_tensor(datum_find(a, datum_key(a, i))),
                   datum_as_tensor(datum_find(b, datum_key(a, i))));
}

/* ---- bits ---- */

static void check_slices(context_t *ctx, bool is_blocked, bool has_bias, kind_t kind)
{
    training_t inside = begin(ctx, is_blocked, has_bias, kind, false);
    training_t behind = begin(ctx, is_blocked, has_bias, kind, true);
    for (int i = 0; i < 3; i++) {
        CHECK_OK(ctx, step(ctx, &inside, i == 1 ? 1 : 17));
        CHECK_OK(ctx, step(ctx, &behind, i == 1 ? 1 : 17));
        CHECK_OK(ctx, optimizer_set_lr(ctx, inside.optimizer, 1e-3 / (i + 1)));
        CHECK_OK(ctx, optimizer_set_lr(ctx, behind.optimizer, 1e-3 / (i + 1)));
    }
    if (is_blocked) {
        const size_t n_tenths = is_product(ctx, &inside) ? 1 : 10;
        /* In the arena are a slice, if slices are used, and activations. There is also the weight
         * if the forward pass needs it in another format than gradients do, as with oneDNN 3.2 on
         * AVX2. */
        const int n_weights = count_in_plan(ctx, &inside, " = reorder(%1)");
        assert_in_range(n_weights, 0, 1);
        assert_true(trainer_arena_bytes(inside.trainer) <
                    (n_tenths + 10 * (size_t)n_weights) * INPUTS * OUTPUTS * sizeof(float) / 10);
    }
    assert_int_equal(optimizer_n_updates(inside.optimizer, 0), 3);
    assert_int_equal(optimizer_n_steps(inside.optimizer), 3);
    training_compare(ctx, &inside, &behind, check_equal);
    training_end(&inside);
    training_end(&behind);
}

static void slices_are_the_whole(void **state)
{
    for (kind_t kind = SGD; kind < N_KINDS; kind++)
        check_slices(fixture_context(state), true, true, kind);
}

static void slices_without_a_bias_and_of_plain_weights_are_the_whole(void **state)
{
    check_slices(fixture_context(state), true, false, SGD);
    check_slices(fixture_context(state), false, true, SGD);
}

/* The optimizer's state may have another format than slices have. Then slices are converted to it,
 * or, for some formats, the state is converted. */
static void state_in_another_format_gives_the_same(void **state)
{
    static const char *const formats[] = {"ab", "ba", "BA16b16a", "AB16a16b"};
    context_t *ctx = fixture_context(state);
    for (int i = 0; i < 4; i++) {
        training_t trainings[2];
        for (int k = 0; k < 2; k++) {
            trainings[k] = begin(ctx, true, true, SGD, k == 1);
            CHECK_OK(ctx, step(ctx, &trainings[k], 17));
            tensor_t **buffer = &trainings[k].optimizer->entries[0].state[0], *other = NULL;
            CHECK_OK(ctx, convert_reorder(ctx, *buffer, formats[i], &other));
            tensor_release(*buffer);
            *buffer = other;
            CHECK_OK(ctx, step(ctx, &trainings[k], 17));
            CHECK_OK(ctx, step(ctx, &trainings[k], 17));
        }
        is_product(ctx, &trainings[0]);
        training_compare(ctx, &trainings[0], &trainings[1], check_equal);
        training_end(&trainings[0]);
        training_end(&trainings[1]);
    }
}

/* The weight is stored in the caller's memory, and must be updated there in its format. */
static void a_weight_in_lent_memory_is_stepped_there(void **state)
{
    context_t *ctx = fixture_context(state);
    training_t trainings[2];
    const size_t n_bytes = (size_t)INPUTS * OUTPUTS * sizeof(float);
    float *lent[2] = {malloc(n_bytes), malloc(n_bytes)};
    for (int k = 0; k < 2; k++) {
        tensor_t *weight = NULL;
        trainings[k] = begin(ctx, true, true, SGD, k == 1);
        CHECK_OK(ctx, step(ctx, &trainings[k], 3));
        CHECK_OK(ctx, tensor_read(ctx, module_parameter(trainings[k].net, "0.weight"), lent[k],
                                  n_bytes));
        CHECK_OK(ctx, tensor_borrow(ctx, DTYPE_F32, SHAPE(OUTPUTS, INPUTS), NULL, lent[k], NULL,
                                    NULL, &weight));
        CHECK_OK(ctx, module_set_parameter(ctx, trainings[k].net, "0.weight", weight));
        tensor_release(weight);
        CHECK_OK(ctx, step(ctx, &trainings[k], 3));
        CHECK_OK(ctx, step(ctx, &trainings[k], 3));
    }
    training_compare(ctx, &trainings[0], &trainings[1], check_equal);
    if (tolerance() == 0.0) assert_memory_equal(lent[0], lent[1], n_bytes);
    training_end(&trainings[0]);
    training_end(&trainings[1]);
    free(lent[0]);
    free(lent[1]);
}

/* ---- failures ---- */

/* An observer that fails after *left operators. */
static status_t fail_behind(context_t *ctx, void *user, const op_event_t *event)
{
    int *left = user;
    (void)event;
    return --*left == 0 ? context_fail(ctx, STATUS_OUT_OF_MEMORY, "no memory") : STATUS_OK;
}

/* If the step fails after the first slice of layer 1, layer 2 and a part of layer 1 have
 * changed. */
static void a_step_that_fails_between_slices_says_so(void **state)
{
    context_t *ctx = fixture_context(state);
    int n_broken = 0;
    bool is_done = false, is_sliced = true;
    for (int at = 1; !is_done; at++) {
        training_t training = begin(ctx, true, true, SGD, false);
        CHECK_OK(ctx, step(ctx, &training, 3));
        int left = at;
        observer_t observer = {.op_end = fail_behind, .user = &left};
        CHECK_OK(ctx, dispatch_add_observer(ctx, &observer));
        is_done = step(ctx, &training, 3) == STATUS_OK;
        dispatch_remove_observer(ctx, &observer);
        const bool is_between = strstr(context_error(ctx), "4 of 4 parameters were updated") !=
                                NULL;
        n_broken += is_between;
        is_sliced = !is_product(ctx, &training);
        assert_int_equal(optimizer_n_steps(training.optimizer), is_done ? 2 : 1);
        context_clear_error(ctx);
        if (is_between)
            CHECK_FAILS(ctx, step(ctx, &training, 3), STATUS_INVALID_ARGUMENT,
                        "trainer_step: an earlier step failed after updating some parameters; load "
                        "a saved state and create a new trainer");
        context_clear_error(ctx);
        training_end(&training);
    }
    assert_int_equal(n_broken > 0, is_sliced); /* a product is one step */
}

/* If several operators read a gradient, e.g. of a weight that two layers share, it is computed
 * completely. */
static void shared_weights_have_whole_gradients(void **state)
{
    context_t *ctx = fixture_context(state);
    training_t trainings[2];
    for (int k = 0; k < 2; k++) {
        training_t *training = &trainings[k];
        context_seed(ctx, 5);
        CHECK_OK(ctx, layer_sequential(ctx, &training->net));
        for (int i = 0; i < 2; i++) append_linear(ctx, training->net, 700, 700, false);
        CHECK_OK(ctx, module_set_parameter(ctx, training->net, "1.weight",
                                           module_parameter(training->net, "0.weight")));
        CHECK_OK(ctx, module_mkldnn(ctx, training->net, NULL));
        training->optimizer = make_optimizer(ctx, training->net, ADAM);
        const train_options_t options = {.mode = TRAIN_PLANNED, .update_apart = k == 1};
        CHECK_OK(ctx, trainer_create(ctx, training->net, losses_mse, NULL, training->optimizer,
                                     &options, &training->trainer));
        tensor_t *x = NULL, *target = NULL;
        CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(9, 700), &x));
        CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(9, 700), &target));
        for (int i = 0; i < 2; i++)
            CHECK_OK(ctx, trainer_step(ctx, training->trainer, 1, (const tensor_t *const *)&x,
                                       target, NULL, NULL));
        tensor_release(x);
        tensor_release(target);
    }
    assert_int_equal(count_in_plan(ctx, &trainings[0], " = linear_backward_weight("), 2);
    training_compare(ctx, &trainings[0], &trainings[1], check_equal);
    training_end(&trainings[0]);
    training_end(&trainings[1]);
}

/* The rows that the caller passes are strided, and the plan expects another format. */
static void rows_of_the_caller_may_be_strided(void **state)
{
    context_t *ctx = fixture_context(state);
    training_t trainings[2];
    for (int k = 0; k < 2; k++) {
        tensor_t *columns = NULL, *x = NULL, *target = NULL;
        trainings[k] = begin(ctx, true, true, SGD, k == 1);
        context_seed(ctx, 7);
        CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(INPUTS, 7), &columns));
        CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(7, CLASSES), &target));
        CHECK_OK(ctx, tensor_permute(ctx, columns, 2, (const int64_t[]){1, 0}, &x));
        CHECK_OK(ctx, trainer_step(ctx, trainings[k].trainer, 1, (const tensor_t *const *)&x,
                                   target, NULL, NULL));
        tensor_release(columns);
        tensor_release(x);
        tensor_release(target);
    }
    training_compare(ctx, &trainings[0], &trainings[1], check_equal);
    training_end(&trainings[0]);
    training_end(&trainings[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(slices_are_the_whole),
        TEST(slices_without_a_bias_and_of_plain_weights_are_the_whole),
        TEST(state_in_another_format_gives_the_same),
        TEST(a_weight_in_lent_memory_is_stepped_there),
        TEST(a_step_that_fails_between_slices_says_so),
        TEST(shared_weights_have_whole_gradients),
        TEST(rows_of_the_caller_may_be_strided),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
