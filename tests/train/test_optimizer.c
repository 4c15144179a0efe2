/* Optimizers compared with PyTorch (optimizer_values.py writes optimizer_values.txt), on dense and
 * blocked weights. */
#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "module/mkldnn.h"
#include "tensor/convert/convert.h"
#include "tensor/convert/form_impl.h"
#include "tests/support/drawn.h"
#include "train/optimizer.h"

enum { N = 6, STEPS = 8, MAX_LINE = 4096 };

/* Format of a convolution's weight and of its gradient. The weights have 2 to 17 channels, in
 * blocks of 16. */
#define BLOCKED "ABcd16b16a"

static tensor_t *gradient_times(context_t *ctx, int step, double factor, const char *format,
                                int rank, const int64_t *sizes)
{
    char key[32];
    void *data = NULL;
    tensor_t *blocked = NULL;
    snprintf(key, sizeof key, "gradient %d", step);
    tensor_t *dense = drawn_tensor(ctx, key, rank, sizes);
    CHECK_OK(ctx, tensor_data_mutable(ctx, dense, &data));
    for (int64_t i = 0; i < tensor_numel(dense); i++) ((float *)data)[i] *= (float)factor;
    if (format == NULL) return dense;
    CHECK_OK(ctx, convert_reorder(ctx, dense, format, &blocked));
    tensor_release(dense);
    return blocked;
}

static tensor_t *gradient_of(context_t *ctx, int step, const char *format, int rank,
                             const int64_t *sizes)
{
    return gradient_times(ctx, step, 1.0, format, rank, sizes);
}

/* Makes a module with a random parameter "weight". */
static module_t *module_with(context_t *ctx, bool is_packable, int rank, const int64_t *sizes)
{
    module_t *module = NULL;
    tensor_t *weight = drawn_tensor(ctx, "parameter", rank, sizes);
    CHECK_OK(ctx, module_create(ctx, "Holder", &module));
    CHECK_OK(ctx, module_set_parameter(ctx, module, "weight", weight));
    if (is_packable) CHECK_OK(ctx, module_mkldnn(ctx, module, NULL));
    tensor_release(weight);
    return module;
}

static void read_weight(context_t *ctx, const module_t *module, float *elements, size_t bytes)
{
    CHECK_OK(ctx, tensor_read(ctx, module_parameter(module, "weight"), elements, bytes));
}

/* Checks that the weight has one form (copy in another format), whose padding is zero. */
static void check_blocked(const tensor_t *weight)
{
    tensor_t *forms[4];
    const int n = form_list(weight, 4, forms);
    assert_int_equal(n, 1);
    assert_true(convert_padding_is_zero(tensor_info(forms[0]), tensor_bytes(forms[0])));
    tensor_drop(forms[0]);
}

static uint64_t count_moves(const context_t *ctx)
{
    counters_t counters;
    uint64_t n = 0;
    counters_read(ctx, &counters);
    for (int cause = 0; cause < CAUSE_COUNT; cause++)
        n += counters.reorders[cause] + counters.copies[cause];
    return n;
}

/* ---- stored numbers ---- */

/* Returns the number after "name=" in a line, or a default. */
static double option(const char *line, const char *name, double otherwise)
{
    char word[40];
    snprintf(word, sizeof word, " %s=", name);
    const char *at = strstr(line, word);
    return at != NULL ? strtod(at + strlen(word), NULL) : otherwise;
}

static status_t make_adam(context_t *ctx, module_t *module, const char *line, bool is_adamw,
                          optimizer_t **out)
{
    adam_options_t options = is_adamw ? adamw_options(1.0) : adam_options(1.0);
    options.lr = option(line, "lr", NAN);
    options.beta1 = option(line, "beta1", options.beta1);
    options.beta2 = option(line, "beta2", options.beta2);
    options.eps = option(line, "eps", options.eps);
    options.weight_decay = option(line, "weight_decay", options.weight_decay);
    options.amsgrad = option(line, "amsgrad", 0.0) != 0.0;
    return is_adamw ? optimizer_adamw(ctx, module, &options, out)
                    : optimizer_adam(ctx, module, &options, out);
}

static status_t make_sgd(context_t *ctx, module_t *module, const char *line, optimizer_t **out)
{
    sgd_options_t options = sgd_options(option(line, "lr", NAN));
    options.momentum = option(line, "momentum", options.momentum);
    options.dampening = option(line, "dampening", options.dampening);
    options.weight_decay = option(line, "weight_decay", options.weight_decay);
    options.nesterov = option(line, "nesterov", 0.0) != 0.0;
    return optimizer_sgd(ctx, module, &options, out);
}

static status_t make_rmsprop(context_t *ctx, module_t *module, const char *line, optimizer_t **out)
{
    rmsprop_options_t options = rmsprop_options(option(line, "lr", NAN));
    options.alpha = option(line, "alpha", options.alpha);
    options.eps = option(line, "eps", options.eps);
    options.weight_decay = option(line, "weight_decay", options.weight_decay);
    options.momentum = option(line, "momentum", options.momentum);
    options.centered = option(line, "centered", 0.0) != 0.0;
    return optimizer_rmsprop(ctx, module, &options, out);
}

/* Makes the optimizer that the line describes; NULL if the line describes something else. */
static optimizer_t *make_optimizer(context_t *ctx, module_t *module, const char *line)
{
    optimizer_t *optimizer = NULL;
    if (strncmp(line, "sgd ", 4) == 0)
        CHECK_OK(ctx, make_sgd(ctx, module, line, &optimizer));
    else if (strncmp(line, "adam ", 5) == 0 || strncmp(line, "adamw ", 6) == 0)
        CHECK_OK(ctx, make_adam(ctx, module, line, line[4] == 'w', &optimizer));
    else if (strncmp(line, "rmsprop ", 8) == 0)
        CHECK_OK(ctx, make_rmsprop(ctx, module, line, &optimizer));
    return optimizer;
}

static void check_step(context_t *ctx, const char *line, const char *format, int step,
                       const module_t *module, char **numbers)
{
    float elements[N];
    read_weight(ctx, module, elements, sizeof elements);
    for (int i = 0; i < N; i++) {
        const double wanted = strtod(*numbers, numbers);
        if (!(fabs((double)elements[i] - wanted) <= 2e-6 * (1.0 + fabs(wanted))))
            fail_msg("%.60s, gradients %s: element %d is %.9g after step %d, must be %.9g", line,
                     format != NULL ? format : "dense", i, (double)elements[i], step, wanted);
    }
}

static bool check_line(context_t *ctx, const char *line, const char *format)
{
    const int64_t sizes[] = {2, 3, 1, 1};
    module_t *module = module_with(ctx, format != NULL, 4, sizes);
    optimizer_t *optimizer = make_optimizer(ctx, module, line);
    char *numbers = strchr(line, ':');
    for (int step = 1; optimizer != NULL && step <= STEPS; step++) {
        numbers += step == 1;
        const double factor = step == 1 ? option(line, "kick", 1.0) : 1.0;
        tensor_t *gradient = gradient_times(ctx, step, factor, format, 4, sizes);
        CHECK_OK(ctx, optimizer_step(ctx, optimizer, &gradient));
        if (format != NULL) check_blocked(module_parameter(module, "weight"));
        check_step(ctx, line, format, step, module, &numbers);
        tensor_release(gradient);
    }
    for (int s = 0; s < optimizer_n_states(optimizer); s++) {
        const tensor_t *tensor = optimizer_state(optimizer, 0, s);
        assert_int_equal(tensor_layout(tensor), format != NULL ? LAYOUT_MKLDNN : LAYOUT_DENSE);
        assert_true(convert_padding_is_zero(tensor_info(tensor), tensor_bytes(tensor)));
    }
    const bool is_there = optimizer != NULL;
    optimizer_destroy(optimizer);
    module_release(module);
    return is_there;
}

static void steps_are_those_of_pytorch(void **state)
{
    context_t *ctx = fixture_context(state);
    static char line[MAX_LINE];
    int n = 0;
    FILE *file = fopen(TESSERA_SOURCE_DIR "/tests/train/values/optimizer_values.txt", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        n += check_line(ctx, line, NULL);
        check_line(ctx, line, BLOCKED);
    }
    fclose(file);
    assert_int_equal(n, 17);
}

/* ---- blocked weights ---- */

static void a_blocked_step_gives_the_bits_of_a_dense_one_and_moves_nothing(void **state)
{
    context_t *ctx = fixture_context(state);
    static const int64_t channels[] = {3, 7, 17};
    for (size_t c = 0; c < 3; c++) {
        const int64_t sizes[] = {channels[c], channels[2 - c], 3, 3};
        const size_t bytes = (size_t)(sizes[0] * sizes[1] * 9) * sizeof(float);
        module_t *dense = module_with(ctx, false, 4, sizes);
        module_t *blocked = module_with(ctx, true, 4, sizes);
        optimizer_t *of_dense = NULL, *of_blocked = NULL;
        sgd_options_t options = sgd_options(0.1);
        options.momentum = 0.9;
        options.weight_decay = 1e-3;
        CHECK_OK(ctx, optimizer_sgd(ctx, dense, &options, &of_dense));
        CHECK_OK(ctx, optimizer_sgd(ctx, blocked, &options, &of_blocked));
        for (int step = 1; step <= 4; step++) {
            tensor_t *plain = gradient_of(ctx, step, NULL, 4, sizes);
            tensor_t *grad = gradient_of(ctx, step, BLOCKED, 4, sizes);
            CHECK_OK(ctx, optimizer_step(ctx, of_dense, &plain));
            const uint64_t before = count_moves(ctx);
            CHECK_OK(ctx, optimizer_step(ctx, of_blocked, &grad));
            assert_int_equal(count_moves(ctx) - before, step == 1); /* the weight, in step 1 */
            check_blocked(module_parameter(blocked, "weight"));
            tensor_release(plain);
            tensor_release(grad);
        }
        float *a = malloc(bytes), *b = malloc(bytes);
        read_weight(ctx, dense, a, bytes);
        read_weight(ctx, blocked, b, bytes);
        assert_memory_equal(a, b, bytes);
        free(a);
        free(b);
        optimizer_destroy(of_dense);
        optimizer_destroy(of_blocked);
        module_release(dense);
        module_release(blocked);
    }
}

static void padded_lanes_stay_zero_where_zero_is_divided_by_zero(void **state)
{
    context_t *ctx = fixture_context(state);
    const int64_t sizes[] = {3, 7, 1, 1};
    module_t *module = module_with(ctx, true, 4, sizes);
    optimizer_t *optimizer = NULL;
    adam_options_t options = adam_options(0.1);
    options.eps = 0.0;
    CHECK_OK(ctx, optimizer_adam(ctx, module, &options, &optimizer));
    tensor_t *gradient = gradient_of(ctx, 1, BLOCKED, 4, sizes);
    CHECK_OK(ctx, optimizer_step(ctx, optimizer, &gradient));
    check_blocked(module_parameter(module, "weight"));
    tensor_release(gradient);
    optimizer_destroy(optimizer);
    module_release(module);
}

static void a_gradient_of_another_format_is_reordered_once(void **state)
{
    context_t *ctx = fixture_context(state);
    const int64_t sizes[] = {17, 7, 3, 3};
    module_t *module = module_with(ctx, true, 4, sizes);
    optimizer_t *optimizer = NULL;
    counters_t counters;
    CHECK_OK(ctx, optimizer_adam(ctx, module, NULL, &optimizer));
    static const char *const formats[] = {BLOCKED, "ABcd16a16b", NULL};
    for (int step = 1; step <= 3; step++) {
        tensor_t *gradient = gradient_of(ctx, step, formats[step - 1], 4, sizes);
        counters_reset(ctx);
        CHECK_OK(ctx, optimizer_step(ctx, optimizer, &gradient));
        counters_read(ctx, &counters);
        assert_int_equal(counters_gradient_reorders(&counters), step > 1);
        assert_int_equal(count_moves(ctx), 1); /* the weight, in step 1 */
        tensor_release(gradient);
    }
    check_blocked(module_parameter(module, "weight"));
    optimizer_destroy(optimizer);
    module_release(module);
}

/* module_mkldnn before step 2, and module_dense before step 4, must not change results. */
static void layouts_may_change_between_steps(void **state)
{
    context_t *ctx = fixture_context(state);
    const int64_t sizes[] = {17, 7, 3, 3};
    enum { BYTES = 17 * 7 * 9 * sizeof(float) };
    static float elements[2][BYTES / sizeof(float)];
    for (int is_changing = 0; is_changing < 2; is_changing++) {
        module_t *module = module_with(ctx, false, 4, sizes);
        optimizer_t *optimizer = NULL;
        CHECK_OK(ctx, optimizer_adamw(ctx, module, NULL, &optimizer));
        for (int step = 1; step <= 4; step++) {
            const bool is_blocked = is_changing && (step == 2 || step == 3);
            if (is_changing && step == 2) CHECK_OK(ctx, module_mkldnn(ctx, module, NULL));
            if (is_changing && step == 4) CHECK_OK(ctx, module_dense(ctx, module));
            tensor_t *gradient = gradient_of(ctx, step, is_blocked ? BLOCKED : NULL, 4, sizes);
            CHECK_OK(ctx, optimizer_step(ctx, optimizer, &gradient));
            assert_int_equal(tensor_layout(optimizer_state(optimizer, 0, 0)),
                             is_blocked ? LAYOUT_MKLDNN : LAYOUT_DENSE);
            tensor_release(gradient);
        }
        read_weight(ctx, module, elements[is_changing], BYTES);
        optimizer_destroy(optimizer);
        module_release(module);
    }
    assert_memory_equal(elements[0], elements[1], BYTES);
}

/* ---- other parameters ---- */

/* The parameter has every other element of the caller's memory. The others must not change. */
static void a_parameter_with_gaps_is_written_between_them(void **state)
{
    context_t *ctx = fixture_context(state);
    const int64_t n = 5, strides[] = {2};
    float memory[10] = {1, -1, 2, -2, 3, -3, 4, -4, 5, -5};
    const float ones[] = {1, 1, 1, 1, 1}, wanted[] = {0.5f, -1, 1.5f, -2, 2.5f, -3, 3.5f, -4, 4.5f};
    module_t *module = NULL;
    optimizer_t *optimizer = NULL;
    tensor_t *weight = NULL, *gradient = NULL, *opaque = NULL, *index = NULL;
    CHECK_OK(ctx, tensor_arange(ctx, DTYPE_S64, n, 0, &index));
    CHECK_OK(ctx, tensor_borrow(ctx, DTYPE_F32, 1, &n, strides, memory, NULL, NULL, &weight));
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, 1, &n, ones, &gradient));
    CHECK_OK(ctx, module_create(ctx, "Holder", &module));
    CHECK_OK(ctx, module_set_parameter(ctx, module, "weight", weight));
    CHECK_OK(ctx, module_mkldnn(ctx, module, NULL));
    CHECK_OK(ctx, optimizer_sgd(ctx, module, &(sgd_options_t){.lr = 0.5}, &optimizer));
    CHECK_OK(ctx, optimizer_step(ctx, optimizer, &gradient));
    assert_memory_equal(memory, wanted, sizeof wanted);
    CHECK_OK(ctx, to_mkldnn(ctx, weight, &opaque));
    CHECK_FAILS(ctx, mkldnn_sgd_step(ctx, opaque, gradient, NULL, NULL, 1), STATUS_UNSUPPORTED,
                "steps in that format are not supported");
    CHECK_FAILS(ctx, mkldnn_sgd_step(ctx, gradient, index, NULL, NULL, 1), STATUS_INVALID_ARGUMENT,
                "mkldnn_sgd_step: gradient is s64[5], the parameter f32[5]");
    CHECK_FAILS(ctx, mkldnn_sgd_step(ctx, index, index, NULL, NULL, 1), STATUS_UNSUPPORTED,
                "the parameter is s64[5], f32 is needed");
    tensor_release(opaque);
    tensor_release(index);
    optimizer_destroy(optimizer);
    module_release(module);
    tensor_release(weight);
    tensor_release(gradient);
}

static void a_step_reaches_memory_that_was_lent(void **state)
{
    context_t *ctx = fixture_context(state);
    const int64_t sizes[] = {2, 2, 1, 1};
    float memory[] = {1, 2, 3, 4};
    const float wanted[] = {0.5f, 1, 1.5f, 2};
    module_t *module = NULL;
    optimizer_t *optimizer = NULL;
    tensor_t *weight = NULL, *gradient = NULL;
    CHECK_OK(ctx, tensor_borrow(ctx, DTYPE_F32, 4, sizes, NULL, memory, NULL, NULL, &weight));
    CHECK_OK(ctx, module_create(ctx, "Holder", &module));
    CHECK_OK(ctx, module_set_parameter(ctx, module, "weight", weight));
    CHECK_OK(ctx, module_mkldnn(ctx, module, NULL));
    CHECK_OK(ctx, optimizer_sgd(ctx, module, &(sgd_options_t){.lr = 0.5}, &optimizer));
    CHECK_OK(ctx, convert_reorder(ctx, weight, BLOCKED, &gradient));
    CHECK_OK(ctx, optimizer_step(ctx, optimizer, &gradient));
    assert_memory_equal(memory, wanted, sizeof wanted);
    tensor_release(gradient);
    CHECK_OK(ctx, optimizer_step(ctx, optimizer, &weight)); /* the weight is its own gradient */
    assert_true(memory[3] == 1.0f);
    optimizer_destroy(optimizer);
    module_release(module);
    tensor_release(weight);
}

static void a_parameter_without_a_gradient_stays_and_is_told(void **state)
{
    context_t *ctx = fixture_context(state);
    const int64_t sizes[] = {2, 3};
    float before[6], after[6];
    module_t *module = module_with(ctx, false, 2, sizes);
    tensor_t *other = drawn_tensor(ctx, "other", 2, sizes), *gradients[2] = {NULL};
    optimizer_t *optimizer = NULL;
    CHECK_OK(ctx, module_set_parameter(ctx, module, "other", other));
    CHECK_OK(ctx, optimizer_adamw(ctx, module, NULL, &optimizer));
    assert_null(optimizer_unstepped(optimizer, 0));
    read_weight(ctx, module, before, sizeof before);
    gradients[1] = gradient_of(ctx, 1, NULL, 2, sizes);
    CHECK_OK(ctx, optimizer_step(ctx, optimizer, gradients));
    read_weight(ctx, module, after, sizeof after);
    assert_memory_equal(before, after, sizeof before);
    assert_string_equal(optimizer_unstepped(optimizer, 0), "weight");
    assert_null(optimizer_unstepped(optimizer, 1));
    assert_int_equal(optimizer_n_updates(optimizer, 0), 0);
    assert_int_equal(optimizer_n_updates(optimizer, 1), 1);
    assert_int_equal(optimizer_n_steps(optimizer), 1);
    optimizer_destroy(optimizer);
    module_release(module);
    tensor_release(other);
    tensor_release(gradients[1]);
}

/* ---- errors ---- */

static void gradients_that_do_not_fit_change_nothing(void **state)
{
    context_t *ctx = fixture_context(state);
    const int64_t sizes[] = {2, 3}, more[] = {2, 4};
    float before[6], after[6];
    module_t *module = module_with(ctx, false, 2, sizes);
    tensor_t *other = drawn_tensor(ctx, "other", 2, sizes), *number = NULL;
    tensor_t *large = drawn_tensor(ctx, "large", 2, more),
             *good = gradient_of(ctx, 1, NULL, 2, sizes);
    optimizer_t *optimizer = NULL;
    CHECK_OK(ctx, module_set_parameter(ctx, module, "other", other));
    CHECK_OK(ctx, optimizer_sgd(ctx, module, NULL, &optimizer));
    read_weight(ctx, module, before, sizeof before);
    CHECK_FAILS(ctx, optimizer_step(ctx, optimizer, (tensor_t *[]){good, large}),
                STATUS_INVALID_ARGUMENT,
                "the gradient of \"other\" is f32[2,4], the parameter f32[2,3]");
    CHECK_OK(ctx, tensor_cast(ctx, good, DTYPE_F64, &number));
    CHECK_FAILS(ctx, optimizer_step(ctx, optimizer, (tensor_t *[]){good, number}),
                STATUS_INVALID_ARGUMENT, "is f64[2,3], the parameter f32[2,3]");
    CHECK_OK(ctx, module_set_parameter(ctx, module, "other", large));
    CHECK_FAILS(ctx, optimizer_step(ctx, optimizer, (tensor_t *[]){good, good}),
                STATUS_INVALID_ARGUMENT, "the optimizer was made for f32[2,3]");
    CHECK_OK(ctx, module_remove(ctx, module, "other"));
    CHECK_FAILS(ctx, optimizer_step(ctx, optimizer, (tensor_t *[]){good, good}),
                STATUS_INVALID_ARGUMENT, "parameter \"other\", Holder no longer has it");
    read_weight(ctx, module, after, sizeof after);
    assert_memory_equal(before, after, sizeof before);
    assert_int_equal(optimizer_n_steps(optimizer), 0);
    optimizer_destroy(optimizer);
    CHECK_OK(ctx, module_set_parameter(ctx, module, "weight", number));
    CHECK_OK(ctx, optimizer_sgd(ctx, module, NULL, &optimizer));
    CHECK_FAILS(ctx, optimizer_step(ctx, optimizer, &number), STATUS_UNSUPPORTED,
                "parameter \"weight\" is f64[2,3], f32 is needed");
    optimizer_destroy(optimizer);
    module_release(module);
    tensor_release(other);
    tensor_release(large);
    tensor_release(good);
    tensor_release(number);
}

static void options_out_of_range_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    const int64_t sizes[] = {2};
    module_t *module = module_with(ctx, false, 1, sizes), *empty = NULL;
    optimizer_t *optimizer = NULL;
    sgd_options_t sgd = {.lr = -1.0};
    adam_options_t adam = adam_options(0.1);
    rmsprop_options_t rmsprop = rmsprop_options(0.1);
    CHECK_FAILS(ctx, optimizer_sgd(ctx, module, &sgd, &optimizer), STATUS_INVALID_ARGUMENT,
                "optimizer_sgd: lr -1, must not be negative");
    sgd = (sgd_options_t){.lr = 1.0, .momentum = 0.5, .dampening = 0.5, .nesterov = true};
    CHECK_FAILS(ctx, optimizer_sgd(ctx, module, &sgd, &optimizer), STATUS_INVALID_ARGUMENT,
                "needs momentum and no dampening");
    sgd = (sgd_options_t){.dampening = NAN};
    CHECK_FAILS(ctx, optimizer_sgd(ctx, module, &sgd, &optimizer), STATUS_INVALID_ARGUMENT,
                "must be a number");
    adam.beta2 = 1.0;
    CHECK_FAILS(ctx, optimizer_adam(ctx, module, &adam, &optimizer), STATUS_INVALID_ARGUMENT,
                "optimizer_adam: beta2 1, must be at least 0 and below 1");
    rmsprop.eps = NAN;
    CHECK_FAILS(ctx, optimizer_rmsprop(ctx, module, &rmsprop, &optimizer), STATUS_INVALID_ARGUMENT,
                "optimizer_rmsprop: eps");
    CHECK_OK(ctx, module_create(ctx, "Empty", &empty));
    CHECK_FAILS(ctx, optimizer_adam(ctx, empty, NULL, &optimizer), STATUS_INVALID_ARGUMENT,
                "Empty has no floating parameter, at least one is needed");
    assert_null(optimizer);
    CHECK_OK(ctx, optimizer_rmsprop(ctx, module, NULL, &optimizer));
    assert_true(optimizer_lr(optimizer) == 1e-2);
    CHECK_OK(ctx, optimizer_set_lr(ctx, optimizer, 0.25));
    CHECK_FAILS(ctx, optimizer_set_lr(ctx, optimizer, NAN), STATUS_INVALID_ARGUMENT,
                "optimizer_set_lr: lr nan");
    assert_true(optimizer_lr(optimizer) == 0.25);
    optimizer_destroy(optimizer);
    module_release(module);
    module_release(empty);
}

/* ---- single tensors ---- */

static void single_tensors_are_stepped_in_their_format(void **state)
{
    context_t *ctx = fixture_context(state);
    const int64_t sizes[] = {2, 3, 1, 1};
    tensor_t *plain = drawn_tensor(ctx, "parameter", 4, sizes), *p = NULL, *momentum = NULL,
             *zeros = NULL;
    tensor_t *gradient = gradient_of(ctx, 1, NULL, 4, sizes), *square = NULL;
    const sgd_options_t options = {.lr = 0.5, .momentum = 0.5};
    float before[6], after[6], given[6];
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, 4, sizes, &zeros));
    CHECK_OK(ctx, convert_reorder(ctx, plain, BLOCKED, &p));
    CHECK_OK(ctx, convert_reorder(ctx, zeros, BLOCKED, &momentum));
    CHECK_OK(ctx, convert_reorder(ctx, zeros, BLOCKED, &square));
    CHECK_OK(ctx, tensor_read(ctx, gradient, given, sizeof given));
    CHECK_OK(ctx, tensor_read(ctx, p, before, sizeof before));
    CHECK_OK(ctx, mkldnn_sgd_step(ctx, p, gradient, momentum, &options, 1));
    CHECK_OK(ctx, tensor_read(ctx, p, after, sizeof after));
    for (int i = 0; i < 6; i++) assert_true(after[i] == before[i] - 0.5f * given[i]);
    CHECK_OK(ctx, tensor_fill(ctx, momentum, 0.0));
    CHECK_OK(ctx, mkldnn_adam_step(ctx, p, gradient, momentum, square, NULL, NULL, 1));
    CHECK_OK(ctx, tensor_read(ctx, p, before, sizeof before));
    for (int i = 0; i < 6; i++) /* the first step's length is the learning rate */
        assert_float_equal(after[i] - before[i], given[i] > 0 ? 1e-3f : -1e-3f, 1e-6);
    assert_true(convert_padding_is_zero(tensor_info(p), tensor_bytes(p)));
    CHECK_FAILS(ctx, mkldnn_sgd_step(ctx, p, gradient, zeros, &options, 1), STATUS_INVALID_ARGUMENT,
                "the step needs");
    context_clear_error(ctx);
    CHECK_FAILS(ctx, mkldnn_sgd_step(ctx, p, gradient, NULL, &options, 1), STATUS_INVALID_ARGUMENT,
                "momentum_buffer is NULL");
    CHECK_FAILS(ctx, mkldnn_sgd_step(ctx, p, gradient, momentum, &options, 0),
                STATUS_INVALID_ARGUMENT, "step 0, steps count from 1");
    tensor_t *all[] = {plain, p, momentum, zeros, gradient, square};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tensor_release(all[i]);
}

/* ---- state ---- */

static optimizer_t *make_resumed(context_t *ctx, module_t *module, const optimizer_t *from)
{
    optimizer_t *optimizer = NULL;
    datum_t *dict = NULL;
    CHECK_OK(ctx, optimizer_adamw(ctx, module, NULL, &optimizer));
    CHECK_OK(ctx, optimizer_state_dict(ctx, from, &dict));
    CHECK_OK(ctx, optimizer_load_state_dict(ctx, optimizer, dict));
    datum_release(dict);
    return optimizer;
}

static void state_that_was_put_in_a_dict_and_back_goes_on_with_the_same_bits(void **state)
{
    context_t *ctx = fixture_context(state);
    const int64_t sizes[] = {7, 3, 3, 3};
    enum { BYTES = 7 * 27 * sizeof(float) };
    static float whole[BYTES / sizeof(float)], resumed[BYTES / sizeof(float)];
    module_t *module = module_with(ctx, true, 4, sizes), *copy = NULL;
    optimizer_t *optimizer = NULL, *other = NULL;
    CHECK_OK(ctx, optimizer_adamw(ctx, module, NULL, &optimizer));
    for (int step = 1; step <= 6; step++) {
        tensor_t *gradient = gradient_of(ctx, step, BLOCKED, 4, sizes);
        if (step == 4) {
            CHECK_OK(ctx, optimizer_set_lr(ctx, optimizer, 0.1));
            CHECK_OK(ctx, module_clone(ctx, module, &copy));
            CHECK_OK(ctx, module_mkldnn(ctx, copy, NULL));
            other = make_resumed(ctx, copy, optimizer);
        }
        CHECK_OK(ctx, optimizer_step(ctx, optimizer, &gradient));
        if (step >= 4) CHECK_OK(ctx, optimizer_step(ctx, other, &gradient));
        tensor_release(gradient);
    }
    read_weight(ctx, module, whole, BYTES);
    read_weight(ctx, copy, resumed, BYTES);
    assert_memory_equal(whole, resumed, BYTES);
    assert_int_equal(optimizer_n_steps(other), 6);
    assert_int_equal(tensor_layout(optimizer_state(other, 0, 0)), LAYOUT_MKLDNN);
    optimizer_destroy(optimizer);
    optimizer_destroy(other);
    module_release(module);
    module_release(copy);
}

/* Adds a tensor of one number to the dict. */
static void put_number(context_t *ctx, datum_t *dict, const char *key, dtype_t dtype, double number)
{
    tensor_t *tensor = NULL;
    datum_t *value = NULL;
    CHECK_OK(ctx, tensor_full(ctx, dtype, 0, NULL, number, &tensor));
    CHECK_OK(ctx, datum_tensor(ctx, tensor, &value));
    CHECK_OK(ctx, datum_put(ctx, dict, key, value));
    datum_release(value);
    tensor_release(tensor);
}

static void a_state_dict_that_does_not_fit_changes_nothing(void **state)
{
    context_t *ctx = fixture_context(state);
    const int64_t sizes[] = {2, 3};
    module_t *module = module_with(ctx, false, 2, sizes);
    optimizer_t *optimizer = NULL, *sgd = NULL;
    datum_t *dict = NULL, *text = NULL;
    tensor_t *gradient = gradient_of(ctx, 1, NULL, 2, sizes);
    CHECK_OK(ctx, optimizer_adam(ctx, module, NULL, &optimizer));
    CHECK_OK(ctx, optimizer_sgd(ctx, module, NULL, &sgd));
    CHECK_OK(ctx, optimizer_step(ctx, optimizer, &gradient));
    const tensor_t *average = optimizer_state(optimizer, 0, 0);
    CHECK_OK(ctx, optimizer_state_dict(ctx, optimizer, &dict));
    CHECK_FAILS(ctx, optimizer_load_state_dict(ctx, sgd, dict), STATUS_INVALID_ARGUMENT,
                "\"weight.exp_avg\" is unknown, this sgd optimizer");
    put_number(ctx, dict, "weight.exp_avg_sq", DTYPE_F32, 1.0);
    CHECK_FAILS(ctx, optimizer_load_state_dict(ctx, optimizer, dict), STATUS_INVALID_ARGUMENT,
                "\"weight.exp_avg_sq\" is f32[], the optimizer has f32[2,3]");
    put_number(ctx, dict, "step", DTYPE_S64, -1.0);
    CHECK_FAILS(ctx, optimizer_load_state_dict(ctx, optimizer, dict), STATUS_INVALID_ARGUMENT,
                "\"step\" is -1, must not be negative");
    put_number(ctx, dict, "lr", DTYPE_F64, -1.0);
    CHECK_FAILS(ctx, optimizer_load_state_dict(ctx, optimizer, dict), STATUS_INVALID_ARGUMENT,
                "\"lr\" is -1, must not be negative");
    CHECK_OK(ctx, datum_string(ctx, "0.1", &text));
    CHECK_OK(ctx, datum_put(ctx, dict, "lr", text));
    CHECK_FAILS(ctx, optimizer_load_state_dict(ctx, optimizer, dict), STATUS_INVALID_ARGUMENT,
                "\"lr\" is string, must be a tensor");
    CHECK_FAILS(ctx, optimizer_load_state_dict(ctx, optimizer, text), STATUS_INVALID_ARGUMENT,
                "a string, must be a dict");
    datum_release(dict);
    CHECK_OK(ctx, datum_dict(ctx, 0, NULL, NULL, &dict));
    CHECK_FAILS(ctx, optimizer_load_state_dict(ctx, optimizer, dict), STATUS_INVALID_ARGUMENT,
                "\"lr\" is missing");
    assert_ptr_equal(optimizer_state(optimizer, 0, 0), average);
    assert_int_equal(optimizer_n_steps(optimizer), 1);
    datum_release(dict);
    datum_release(text);
    optimizer_destroy(optimizer);
    optimizer_destroy(sgd);
    module_release(module);
    tensor_release(gradient);
}

/* ---- threads and memory ---- */

static void the_number_of_threads_changes_no_bit(void **state)
{
    context_t *ctx = fixture_context(state);
    const int64_t sizes[] = {131, 259};
    enum { COUNT = 131 * 259 };
    static float one[COUNT], many[COUNT];
    for (int threads = 1; threads <= 5; threads += 2) {
        module_t *module = module_with(ctx, false, 2, sizes);
        optimizer_t *optimizer = NULL;
        tensor_t *gradient = gradient_of(ctx, 1, NULL, 2, sizes);
        CHECK_OK(ctx, context_set_threads(ctx, threads));
        CHECK_OK(ctx, optimizer_adam(ctx, module, NULL, &optimizer));
        for (int step = 0; step < 2; step++)
            CHECK_OK(ctx, optimizer_step(ctx, optimizer, &gradient));
        read_weight(ctx, module, threads == 1 ? one : many, sizeof one);
        if (threads > 1) assert_memory_equal(one, many, sizeof one);
        tensor_release(gradient);
        optimizer_destroy(optimizer);
        module_release(module);
    }
}

/* Runs a step. If it fails, the weight must not have changed, and the optimizer must have no
 * state. */
static status_t step_or_nothing(context_t *ctx, module_t *module, optimizer_t *optimizer,
                                tensor_t *const *gradients)
{
    tensor_t *weight = module_parameter(module, "weight");
    float before[6], after[6];
    TRY(tensor_read(ctx, weight, before, sizeof before));
    const status_t status = optimizer_step(ctx, optimizer, gradients);
    if (status == STATUS_OK) return STATUS_OK;
    assert_int_equal(optimizer_n_steps(optimizer), 0);
    assert_null(optimizer_state(optimizer, 0, 0));
    if (tensor_read(ctx, weight, after, sizeof after) == STATUS_OK)
        assert_memory_equal(before, after, sizeof before);
    return status;
}

static status_t make_and_step(context_t *ctx, module_t *module, tensor_t *const *gradients)
{
    optimizer_t *optimizer = NULL;
    datum_t *dict = NULL;
    TRY(module_mkldnn(ctx, module, NULL));
    TRY(optimizer_adam(ctx, module, NULL, &optimizer));
    status_t status = step_or_nothing(ctx, module, optimizer, gradients);
    if (status == STATUS_OK) status = optimizer_state_dict(ctx, optimizer, &dict);
    if (status == STATUS_OK) status = optimizer_load_state_dict(ctx, optimizer, dict);
    datum_release(dict);
    optimizer_destroy(optimizer);
    return status;
}

static status_t scenario(context_t *ctx)
{
    const int64_t sizes[] = {2, 3, 1, 1};
    const float elements[] = {1, 2, 3, 4, 5, 6};
    module_t *module = NULL;
    tensor_t *weight = NULL, *gradients[2] = {NULL};
    status_t status = module_create(ctx, "Holder", &module);
    if (status == STATUS_OK) status = tensor_from(ctx, DTYPE_F32, 4, sizes, elements, &weight);
    if (status == STATUS_OK) status = module_set_parameter(ctx, module, "weight", weight);
    if (status == STATUS_OK) status = convert_reorder(ctx, weight, BLOCKED, &gradients[0]);
    tensor_release(weight);
    weight = NULL;
    if (status == STATUS_OK)
        status = tensor_from(ctx, DTYPE_F32, 1, &(int64_t){6}, elements, &weight);
    if (status == STATUS_OK) status = module_set_parameter(ctx, module, "bias", weight);
    if (status == STATUS_OK)
        status = tensor_as_strided(ctx, weight, 1, &(int64_t){6}, &(int64_t){0}, 0, &gradients[1]);
    if (status == STATUS_OK) status = make_and_step(ctx, module, gradients);
    tensor_release(weight);
    tensor_release(gradients[0]);
    tensor_release(gradients[1]);
    module_release(module);
    return status;
}

static void a_step_for_which_memory_ends_changes_no_weight(void **state)
{
    (void)state;
    check_every_allocation(scenario);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(steps_are_those_of_pytorch),
        TEST(a_blocked_step_gives_the_bits_of_a_dense_one_and_moves_nothing),
        TEST(padded_lanes_stay_zero_where_zero_is_divided_by_zero),
        TEST(a_gradient_of_another_format_is_reordered_once),
        TEST(layouts_may_change_between_steps),
        TEST(a_parameter_with_gaps_is_written_between_them),
        TEST(a_step_reaches_memory_that_was_lent),
        TEST(a_parameter_without_a_gradient_stays_and_is_told),
        TEST(gradients_that_do_not_fit_change_nothing),
        TEST(options_out_of_range_are_refused),
        TEST(single_tensors_are_stepped_in_their_format),
        TEST(state_that_was_put_in_a_dict_and_back_goes_on_with_the_same_bits),
        TEST(a_state_dict_that_does_not_fit_changes_nothing),
        TEST(the_number_of_threads_changes_no_bit),
        TEST(a_step_for_which_memory_ends_changes_no_weight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
