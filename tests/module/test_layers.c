#include "module/layers/layers.h"

#include "tests/support/support.h"

#include <math.h>
#include <string.h>

#include "module/module_impl.h"
#include "tensor/scope.h"
#include "tensor/tensor_impl.h"

/* ---- helpers ---- */

static tensor_t *from(context_t *ctx, int rank, const int64_t *sizes, const float *elements)
{
    tensor_t *tensor = NULL;
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, rank, sizes, elements, &tensor));
    return tensor;
}

static void set(context_t *ctx, module_t *module, const char *name, const float *elements)
{
    tensor_t *tensor = module_parameter(module, name);
    if (tensor == NULL) tensor = module_buffer(module, name);
    tensor_t *value = from(ctx, tensor_rank(tensor), tensor_sizes(tensor), elements);
    CHECK_OK(ctx, tensor_copy(ctx, tensor, value));
    tensor_release(value);
}

/* Runs the module on x, compares shape and elements of the result, and releases the module. */
static void check_forward(context_t *ctx, module_t *module, tensor_t *x, int rank,
                          const int64_t *sizes, const float *wanted)
{
    tensor_t *y = NULL;
    float elements[256];
    CHECK_OK(ctx, module_forward(ctx, module, x, &y));
    assert_true(shape_equal(tensor_rank(y), tensor_sizes(y), rank, sizes));
    CHECK_OK(ctx, tensor_read(ctx, y, elements, sizeof elements));
    for (int64_t i = 0; i < tensor_numel(y); i++)
        if (fabsf(elements[i] - wanted[i]) > 1e-5f * (1 + fabsf(wanted[i])))
            fail_msg("element %d is %g, must be %g", (int)i, (double)elements[i],
                     (double)wanted[i]);
    tensor_release(y);
    tensor_release(x);
}

static void check_sizes(const tensor_t *tensor, int rank, const int64_t *sizes)
{
    assert_non_null(tensor);
    assert_true(shape_equal(tensor_rank(tensor), tensor_sizes(tensor), rank, sizes));
}

static void statistics(context_t *ctx, const tensor_t *tensor, double *out_mean,
                       double *out_deviation)
{
    const void *bytes = NULL;
    CHECK_OK(ctx, tensor_data(ctx, tensor, &bytes));
    const float *elements = bytes;
    double sum = 0, squares = 0, n = (double)tensor_numel(tensor);
    for (int64_t i = 0; i < tensor_numel(tensor); i++) {
        sum += (double)elements[i];
        squares += (double)elements[i] * (double)elements[i];
    }
    *out_mean = sum / n;
    *out_deviation = sqrt(squares / n - *out_mean * *out_mean);
}

/* ---- parameters ---- */

static void parameters_have_the_names_and_shapes_of_torch(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *conv = NULL, *linear = NULL, *norm = NULL, *line = NULL;
    CHECK_OK(ctx, layer_conv2d(ctx, 6, 4, 3, &(conv_attrs_t){.groups = 2}, true, &conv));
    check_sizes(module_parameter(conv, "weight"), SHAPE(4, 3, 3, 3));
    check_sizes(module_parameter(conv, "bias"), SHAPE(4));
    CHECK_OK(ctx, layer_linear(ctx, 5, 2, false, &linear));
    check_sizes(module_parameter(linear, "weight"), SHAPE(2, 5));
    assert_null(module_parameter(linear, "bias"));
    CHECK_OK(ctx, layer_batch_norm(ctx, 7, 1e-3, &norm));
    check_sizes(module_parameter(norm, "weight"), SHAPE(7));
    check_sizes(module_buffer(norm, "running_var"), SHAPE(7));
    assert_int_equal(tensor_rank(module_buffer(norm, "num_batches_tracked")), 0);
    assert_int_equal(tensor_dtype(module_buffer(norm, "num_batches_tracked")), DTYPE_S64);
    assert_true(datum_as_float(module_attribute(norm, "eps")) == 1e-3);
    CHECK_OK(ctx, layer_conv(ctx, 1, 2, 3, (const int64_t[]){5}, NULL, false, &line));
    check_sizes(module_parameter(line, "weight"), SHAPE(3, 2, 5));
    assert_string_equal(module_type(line), "Conv1d");
    module_release(line);
    module_release(norm);
    module_release(linear);
    module_release(conv);
}

static void weights_are_those_of_he_and_follow_the_seed(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *first = NULL, *second = NULL, *third = NULL;
    double mean, deviation, difference = -1;
    context_seed(ctx, 5);
    CHECK_OK(ctx, layer_conv2d(ctx, 32, 64, 3, NULL, true, &first));
    CHECK_OK(ctx, layer_conv2d(ctx, 32, 64, 3, NULL, true, &second));
    context_seed(ctx, 5);
    CHECK_OK(ctx, layer_conv2d(ctx, 32, 64, 3, NULL, true, &third));
    const tensor_t *weight = module_parameter(first, "weight");
    statistics(ctx, weight, &mean, &deviation);
    double wanted = sqrt(2.0 / (32 * 9));
    assert_true(fabs(mean) < 0.02 * wanted);
    assert_true(fabs(deviation - wanted) < 0.02 * wanted);
    statistics(ctx, module_parameter(first, "bias"), &mean, &deviation);
    assert_true(deviation > 0.02 && deviation < 0.1);
    CHECK_OK(ctx,
             tensor_max_rel_diff(ctx, module_parameter(second, "weight"), weight, &difference));
    assert_true(difference > 0.1);
    CHECK_OK(ctx, tensor_max_rel_diff(ctx, module_parameter(third, "weight"), weight, &difference));
    assert_true(difference == 0);
    module_release(third);
    module_release(second);
    module_release(first);
}

static void constructors_refuse_what_makes_no_sense(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *module = NULL;
    conv_attrs_t fused = {.post = {.n = 1}};
    CHECK_FAILS(ctx, layer_conv2d(ctx, 6, 4, 3, &(conv_attrs_t){.groups = 4}, true, &module),
                STATUS_INVALID_ARGUMENT,
                "layer_conv: 6 to 4 channels in 4 groups, groups must divide both");
    CHECK_FAILS(ctx, layer_conv2d(ctx, 0, 4, 3, NULL, true, &module), STATUS_INVALID_ARGUMENT,
                "layer_conv: 0 to 4 channels, must be positive");
    CHECK_FAILS(ctx, layer_conv2d(ctx, 1, 4, 0, NULL, true, &module), STATUS_INVALID_ARGUMENT,
                "layer_conv: a kernel of size 0");
    CHECK_FAILS(ctx, layer_conv2d(ctx, 1, 4, 1, &fused, true, &module), STATUS_INVALID_ARGUMENT,
                "only the fusion pass");
    CHECK_FAILS(ctx, layer_linear(ctx, 5, -1, true, &module), STATUS_INVALID_ARGUMENT,
                "layer_linear: 5 to -1 features, must be positive");
    CHECK_FAILS(ctx, layer_batch_norm(ctx, 0, 1e-5, &module), STATUS_INVALID_ARGUMENT,
                "layer_batch_norm: 0 channels");
    CHECK_FAILS(ctx, layer_max_pool2d(ctx, &(pool_attrs_t){.stride = {2, 2}}, &module),
                STATUS_INVALID_ARGUMENT, "layer_max_pool: a kernel of size 0, must be positive");
    CHECK_FAILS(ctx, layer_dropout(ctx, 1.5, &module), STATUS_INVALID_ARGUMENT,
                "layer_dropout: p 1.5, must be 0 to 1");
    CHECK_FAILS(ctx, layer_activation(ctx, ELTWISE_NONE, 0, 0, &module), STATUS_INVALID_ARGUMENT,
                "must be an activation");
    CHECK_FAILS(ctx, layer_linear(ctx, INT64_MAX / 2, 4, true, &module), STATUS_INVALID_ARGUMENT,
                "weight");
    assert_null(module);
}

/* ---- results ---- */

static void a_convolution_uses_its_attributes(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *conv = NULL;
    CHECK_OK(ctx, layer_conv2d(ctx, 1, 1, 3, &(conv_attrs_t){.stride = {2, 2}, .padding = {1, 1}},
                               true, &conv));
    set(ctx, conv, "weight", (const float[]){1, 1, 1, 1, 1, 1, 1, 1, 1});
    set(ctx, conv, "bias", (const float[]){0.5f});
    static const float x[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    check_forward(ctx, conv, from(ctx, SHAPE(1, 1, 3, 3), x), SHAPE(1, 1, 2, 2),
                  (const float[]){12.5f, 16.5f, 24.5f, 28.5f});

    datum_t *item = NULL, *stride = NULL;
    CHECK_OK(ctx, datum_int(ctx, 3, &item));
    CHECK_OK(ctx, datum_list(ctx, 2, (datum_t *const[]){item, item}, &stride));
    CHECK_OK(ctx, module_set_attribute(ctx, conv, "stride", stride));
    check_forward(ctx, conv, from(ctx, SHAPE(1, 1, 3, 3), x), SHAPE(1, 1, 1, 1),
                  (const float[]){12.5f});
    CHECK_OK(ctx, module_set_attribute(ctx, conv, "stride", item));
    tensor_t *input = from(ctx, SHAPE(1, 1, 3, 3), x), *y = NULL;
    CHECK_FAILS(ctx, module_forward(ctx, conv, input, &y), STATUS_INVALID_ARGUMENT,
                "module: attribute \"stride\" of Conv2d is int, must be a list or tuple");
    tensor_release(input);
    datum_release(item);
    datum_release(stride);
    module_release(conv);
}

static void convolutions_have_one_to_three_dimensions(void **state)
{
    context_t *ctx = fixture_context(state);
    static const int64_t kernel[] = {2, 2, 2};
    static const float ones[] = {1, 1, 1, 1, 1, 1, 1, 1};
    static const int64_t sizes[] = {1, 1, 2, 2, 2};
    for (int n = 1; n <= 3; n++) {
        module_t *conv = NULL;
        CHECK_OK(ctx, layer_conv(ctx, n, 1, 1, kernel, NULL, false, &conv));
        set(ctx, conv, "weight", ones);
        const float wanted = (float)(1 << n);
        check_forward(ctx, conv, from(ctx, 2 + n, sizes, ones), 2 + n,
                      (const int64_t[]){1, 1, 1, 1, 1}, &wanted);
        module_release(conv);
    }
}

static void linear_and_batch_norm_use_their_parameters(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *linear = NULL, *norm = NULL;
    static const float x[] = {1, 2, 3, 4};
    CHECK_OK(ctx, layer_linear(ctx, 2, 3, true, &linear));
    set(ctx, linear, "weight", (const float[]){1, 0, 0, 1, 1, 1});
    set(ctx, linear, "bias", (const float[]){10, 20, 30});
    check_forward(ctx, linear, from(ctx, SHAPE(2, 2), x), SHAPE(2, 3),
                  (const float[]){11, 22, 33, 13, 24, 37});
    CHECK_OK(ctx, layer_batch_norm(ctx, 2, 0, &norm));
    set(ctx, norm, "weight", (const float[]){2, 3});
    set(ctx, norm, "bias", (const float[]){1, 0});
    set(ctx, norm, "running_mean", (const float[]){1, 2});
    set(ctx, norm, "running_var", (const float[]){4, 1});
    check_forward(ctx, norm, from(ctx, SHAPE(2, 2, 1, 1), x), SHAPE(2, 2, 1, 1),
                  (const float[]){1, 0, 3, 6});
    module_release(norm);
    module_release(linear);
}

static void pooling_flatten_and_dropout_use_their_attributes(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *largest = NULL, *average = NULL, *adaptive = NULL, *flatten = NULL, *dropout = NULL;
    static const float x[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    pool_attrs_t attrs = {.kernel = {2, 2}, .ceil_mode = true};
    CHECK_OK(ctx, layer_max_pool2d(ctx, &attrs, &largest));
    check_forward(ctx, largest, from(ctx, SHAPE(1, 1, 3, 3), x), SHAPE(1, 1, 2, 2),
                  (const float[]){5, 6, 8, 9});
    attrs = (pool_attrs_t){.kernel = {2, 2}, .stride = {1, 1}};
    CHECK_OK(ctx, layer_avg_pool2d(ctx, &attrs, &average));
    check_forward(ctx, average, from(ctx, SHAPE(1, 1, 3, 3), x), SHAPE(1, 1, 2, 2),
                  (const float[]){3, 4, 6, 7});
    CHECK_OK(ctx, layer_adaptive_avg_pool2d(ctx, 1, 3, &adaptive));
    check_forward(ctx, adaptive, from(ctx, SHAPE(1, 1, 3, 3), x), SHAPE(1, 1, 1, 3),
                  (const float[]){4, 5, 6});
    CHECK_OK(ctx, layer_flatten(ctx, 1, -1, &flatten));
    check_forward(ctx, flatten, from(ctx, SHAPE(1, 1, 3, 3), x), SHAPE(1, 9), x);
    CHECK_OK(ctx, layer_dropout(ctx, 0.5, &dropout));
    check_forward(ctx, dropout, from(ctx, SHAPE(9), x), SHAPE(9), x);
    module_release(dropout);
    module_release(flatten);
    module_release(adaptive);
    module_release(average);
    module_release(largest);
}

static void every_activation_is_its_elementwise_function(void **state)
{
    context_t *ctx = fixture_context(state);
    static const float x[] = {0.25f, 0.5f, 1, 2, 4, 7};
    int n_run = 0;
    for (int e = ELTWISE_NONE + 1; e < ELTWISE_COUNT; e++) {
        eltwise_t eltwise = (eltwise_t)e;
        module_t *layer = NULL;
        double alpha = 0.5, beta = 3;
        if (layer_activation(ctx, eltwise, alpha, beta, &layer) != STATUS_OK) continue;
        float wanted[6];
        for (int i = 0; i < 6; i++)
            wanted[i] = (float)eltwise_value(eltwise, (double)x[i], alpha, beta);
        check_forward(ctx, layer, from(ctx, SHAPE(2, 3), x), SHAPE(2, 3), wanted);
        module_release(layer);
        n_run++;
    }
    assert_int_equal(n_run, ELTWISE_COUNT - 1 - 2); /* square and linear are no layers */
}

static void relu6_is_a_clamp_of_its_own_name(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *layer = NULL;
    CHECK_OK(ctx, layer_activation(ctx, ELTWISE_CLAMP, 0, 6, &layer));
    assert_string_equal(module_type(layer), "ReLU6");
    check_forward(ctx, layer, from(ctx, SHAPE(3), (const float[]){-1, 5, 7}), SHAPE(3),
                  (const float[]){0, 5, 6});
    module_release(layer);
}

static void transitions_change_the_layout(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *in = NULL, *out = NULL;
    tensor_t *x = NULL, *y = NULL, *z = NULL;
    CHECK_OK(ctx, layer_dense_to_mkldnn(ctx, &in));
    CHECK_OK(ctx, layer_mkldnn_to_dense(ctx, &out));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(1, 3, 4, 4), &x));
    CHECK_OK(ctx, module_forward(ctx, in, x, &y));
    assert_int_equal(tensor_layout(y), LAYOUT_MKLDNN);
    CHECK_OK(ctx, module_forward(ctx, out, y, &z));
    assert_int_equal(tensor_layout(z), LAYOUT_DENSE);
    tensor_release(z);
    tensor_release(y);
    tensor_release(x);
    module_release(out);
    module_release(in);
}

static void a_layer_takes_one_input(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *layer = NULL;
    tensor_t *x = NULL, *out[METHOD_MAX_OUTPUTS] = {NULL};
    int n_out = 0;
    CHECK_OK(ctx, layer_flatten(ctx, 0, -1, &layer));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(2), &x));
    CHECK_FAILS(
        ctx,
        module_call_tensors(ctx, layer, "forward", 2, (const tensor_t *const[]){x, x}, &n_out, out),
        STATUS_INVALID_ARGUMENT, "module: forward of Flatten with 2 inputs, takes one");
    tensor_release(x);
    module_release(layer);
}

/* ---- sequential ---- */

static void a_sequential_runs_its_children_in_order(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = NULL, *child = NULL;
    CHECK_OK(ctx, layer_sequential(ctx, &net));
    CHECK_OK(ctx, layer_activation(ctx, ELTWISE_NEG, 0, 0, &child));
    CHECK_OK(ctx, layer_append_take(ctx, net, child));
    CHECK_OK(ctx, layer_activation(ctx, ELTWISE_EXP, 0, 0, &child));
    CHECK_OK(ctx, layer_append_take(ctx, net, child));
    assert_string_equal(module_type(module_child(net, "0")), "Neg");
    assert_string_equal(module_type(module_child(net, "1")), "Exp");
    check_forward(ctx, net, from(ctx, SHAPE(1), (const float[]){1}), SHAPE(1),
                  (const float[]){0.36787944f});
    module_release(net);
}

static void an_empty_sequential_gives_its_input(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = NULL;
    CHECK_OK(ctx, layer_sequential(ctx, &net));
    check_forward(ctx, net, from(ctx, SHAPE(2), (const float[]){1, 2}), SHAPE(2),
                  (const float[]){1, 2});
    module_release(net);
}

static void appending_takes_the_child_also_on_failure(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *child = NULL, *net = NULL;
    CHECK_OK(ctx, layer_flatten(ctx, 0, -1, &child));
    CHECK_FAILS(ctx, layer_append_take(ctx, NULL, child), STATUS_INVALID_ARGUMENT,
                "layer_append_take: sequential is NULL");
    CHECK_OK(ctx, layer_sequential(ctx, &net));
    child = NULL;
    (void)layer_dropout(ctx, 2, &child);
    CHECK_FAILS(ctx, layer_append_take(ctx, net, child), STATUS_INVALID_ARGUMENT,
                "layer_dropout: p 2");
    module_release(net);
}

static void a_sequential_holds_two_activations_at_a_time(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = NULL, *child = NULL;
    tensor_t *x = NULL, *y = NULL;
    CHECK_OK(ctx, layer_sequential(ctx, &net));
    for (int i = 0; i < 20; i++) {
        CHECK_OK(ctx, layer_activation(ctx, ELTWISE_NEG, 0, 0, &child));
        CHECK_OK(ctx, layer_append_take(ctx, net, child));
    }
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(64), &x));
    CHECK_OK(ctx, module_forward(ctx, net, x, &y));
    tensor_release(y);
    /* Each of 20 activations takes two blocks, so keeping all of them would take 40. */
    counting_t *memory = &((fixture_t *)*state)->memory;
    long before = atomic_load(&memory->live);
    CHECK_OK(ctx, scope_begin(ctx));
    CHECK_OK(ctx, module_forward(ctx, net, x, &y));
    assert_true(atomic_load(&memory->live) - before < 12);
    CHECK_OK(ctx, scope_end(ctx));
    tensor_release(x);
    module_release(net);
}

/* ---- memory ---- */

static status_t append(context_t *ctx, module_t *net, status_t status, module_t *child)
{
    if (status != STATUS_OK) return status;
    return layer_append_take(ctx, net, child);
}

static status_t build(context_t *ctx, module_t **out_net)
{
    module_t *child = NULL;
    pool_attrs_t pool = {.kernel = {2, 2}};
    TRY(layer_sequential(ctx, out_net));
    status_t status = layer_conv2d(ctx, 1, 2, 1, NULL, true, &child);
    TRY(append(ctx, *out_net, status, child));
    status = layer_batch_norm(ctx, 2, 1e-5, &child);
    TRY(append(ctx, *out_net, status, child));
    status = layer_activation(ctx, ELTWISE_LEAKY_RELU, 0.1, 0, &child);
    TRY(append(ctx, *out_net, status, child));
    status = layer_max_pool2d(ctx, &pool, &child);
    TRY(append(ctx, *out_net, status, child));
    status = layer_flatten(ctx, 1, -1, &child);
    TRY(append(ctx, *out_net, status, child));
    status = layer_linear(ctx, 2, 2, true, &child);
    return append(ctx, *out_net, status, child);
}

static status_t build_and_run(context_t *ctx)
{
    module_t *net = NULL;
    tensor_t *x = NULL, *y = NULL;
    TRY(scope_begin(ctx));
    status_t status = build(ctx, &net);
    if (status == STATUS_OK) status = tensor_randn(ctx, DTYPE_F32, SHAPE(1, 1, 2, 2), &x);
    if (status == STATUS_OK) status = module_forward(ctx, net, x, &y);
    module_release(net);
    status_t ended = scope_end(ctx);
    return status != STATUS_OK ? status : ended;
}

static void layers_survive_every_failed_allocation(void **state)
{
    (void)state;
    check_every_allocation(build_and_run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(parameters_have_the_names_and_shapes_of_torch),
        TEST(weights_are_those_of_he_and_follow_the_seed),
        TEST(constructors_refuse_what_makes_no_sense),
        TEST(a_convolution_uses_its_attributes),
        TEST(convolutions_have_one_to_three_dimensions),
        TEST(linear_and_batch_norm_use_their_parameters),
        TEST(pooling_flatten_and_dropout_use_their_attributes),
        TEST(every_activation_is_its_elementwise_function),
        TEST(relu6_is_a_clamp_of_its_own_name),
        TEST(transitions_change_the_layout),
        TEST(a_layer_takes_one_input),
        TEST(a_sequential_runs_its_children_in_order),
        TEST(an_empty_sequential_gives_its_input),
        TEST(appending_takes_the_child_also_on_failure),
        TEST(a_sequential_holds_two_activations_at_a_time),
        TEST(layers_survive_every_failed_allocation),
    };
    return cmocka_run_group_tests_name("layers", tests, NULL, NULL);
}
