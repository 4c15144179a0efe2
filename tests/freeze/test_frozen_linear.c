/* Linear layers in frozen modules: which kernel runs, that weights are packed once for the format
 * of the input, and packed weights in files. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dispatch/select_impl.h"
#include "graph/program/plan.h"
#include "kernels/isa_impl.h"
#include "module/layers/layers.h"
#include "ops/ops.h"
#include "tensor/convert/convert.h"
#include "tests/support/nets/subject.h"

enum { MOST_ROWS = 16 };

static const int64_t sizes[] = {1, 3, 7, 17, 31, 100};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

/* Returns the prepared operator of the only linear layer. */
static const prepared_t *linear_of(const module_t *frozen)
{
    const plan_t *plan = plan_of(frozen, "forward");
    const prepared_t *found = NULL;
    for (int i = 0; i < plan_n_steps(plan); i++)
        if (strcmp(plan_step(plan, i)->name, "linear") == 0) found = plan_step(plan, i)->prepared;
    return found;
}

/* Fails, with the reasons of the choice, if another kernel ran. */
static void check_kernel(const module_t *frozen, const char *wanted)
{
    const prepared_t *linear = linear_of(frozen);
    assert_non_null(linear);
    if (strncmp(prepared_kernel(linear), wanted, strlen(wanted)) != 0)
        fail_msg("kernel %s, wanted %s; %s", prepared_kernel(linear), wanted,
                 prepared_reasons(linear));
}

static void check_run(context_t *ctx, module_t *frozen, const tensor_t *x)
{
    tensor_t *y = NULL;
    counters_t before, after;
    CHECK_OK(ctx, module_forward(ctx, frozen, x, &y)); /* makes the plan */
    tensor_release(y);
    counters_read(ctx, &before);
    CHECK_OK(ctx, module_forward(ctx, frozen, x, &y));
    counters_read(ctx, &after);
    assert_int_equal(after.reorders[CAUSE_WEIGHT], before.reorders[CAUSE_WEIGHT]);
    assert_int_equal(after.copies[CAUSE_WEIGHT], before.copies[CAUSE_WEIGHT]);
    tensor_release(y);
}

/* Returns the kernel for many rows. */
static const char *kernel_of(int64_t outputs, int64_t features)
{
    const bool is_packed = outputs >= 64 && features >= 16 && isa_best() != ISA_PORTABLE;
    return is_packed ? "product" : "onednn";
}

static void few_rows_are_streamed_and_many_are_not(void **state)
{
    static const int64_t rows[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17};
    context_t *ctx = fixture_context(state);
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (int o = 0; o < N_SIZES; o++) {
            char parameters[64], inputs[64];
            const int64_t features = sizes[(o + (int)r) % N_SIZES];
            snprintf(parameters, sizeof parameters, "w=%lld,%lld b=%lld", (long long)sizes[o],
                     (long long)features, (long long)sizes[o]);
            snprintf(inputs, sizeof inputs, "%%x : f32[%lld,%lld]", (long long)rows[r],
                     (long long)features);
            subject_t s = subject_begin(ctx, parameters, inputs,
                                        "  %1 = linear(%x, %w, %b)\n  %2 = relu(%1)\n"
                                        "  return %2\n");
            subject_check_values(&s);
            check_run(ctx, s.frozen, s.in[0]);
            check_kernel(s.frozen, rows[r] <= MOST_ROWS ? "stream" : kernel_of(sizes[o], features));
            subject_end(&s);
        }
}

/* After each part of the rows, the kernel applies the operators that follow. */
static void many_rows_are_multiplied_by_a_packed_weight(void **state)
{
    static const struct {
        const char *parameters, *inputs, *body, *kernel;
    } cases[] = {
        {"w=64,16 b=64", "%x : f32[17,16]", "  %2 = gelu(%1)\n", "product"},
        {"w=100,31 b=100", "%x : f32[3,7,31]", "  %2 = gelu(%1) tanh_approximation=true\n",
         "product"},
        {"w=65,17 b=65", "%x : f32[31,17], %r : f32[31,65]",
         "  %s = sigmoid(%r)\n  %a = add(%1, %s)\n  %2 = silu(%a)\n", "product"},
        {"w=65,17 b=65", "%x : f32[31,17], %r : f32[31,65]",
         "  %s = silu(%1)\n  %m = mul(%s, %r)\n  %2 = add(%m, %r)\n", "product"},
        {"w=130,801 b=130", "%x : f32[197,801]", "  %2 = clamp(%1) min=-1.0 max=0.5\n", "product"},
        /* If an operand has other sizes than the result, the operator runs after the kernel. */
        {"w=65,17 b=65", "%x : f32[31,17], %r : f32[65]", "  %s = relu(%1)\n  %2 = mul(%s, %r)\n",
         "product"},
        {"w=65,17 b=65", "%x : f32[31,17], %r : f32[65]", "  %s = tanh(%1)\n  %2 = add(%s, %r)\n",
         "product"},
        {"w=65,17 b=65", "%x : f32[31,17], %r : f32[31,65], %s : f32[1]",
         "  %a = add(%1, %r)\n  %2 = mul(%a, %s)\n", "product"},
        {"w=63,16 b=63", "%x : f32[17,16]", "  %2 = relu(%1)\n", "onednn_then_post"},
        {"w=64,15 b=64", "%x : f32[17,15]", "  %2 = relu(%1)\n", "onednn_then_post"},
    };
    context_t *ctx = fixture_context(state);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[256];
        snprintf(body, sizeof body, "  %%1 = linear(%%x, %%w, %%b)\n%s  return %%2\n",
                 cases[i].body);
        subject_t s = subject_begin(ctx, cases[i].parameters, cases[i].inputs, body);
        subject_check_values(&s);
        check_kernel(s.frozen, isa_best() == ISA_PORTABLE ? "onednn" : cases[i].kernel);
        subject_end(&s);
    }
}

/* The linear layer reads its blocked source without a reorder, whatever the size of the blocks. */
static void a_flattened_source_is_read_as_it_lies(void **state)
{
    static const int64_t rows[] = {1, 4, 5, 8, 16};
    static const int channels[] = {3, 8, 16, 17, 31};
    context_t *ctx = fixture_context(state);
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (size_t c = 0; c < sizeof channels / sizeof *channels; c++) {
            char parameters[64], inputs[64];
            snprintf(parameters, sizeof parameters, "k=%d,3,3,3 w=10,%d", channels[c],
                     channels[c] * 25);
            snprintf(inputs, sizeof inputs, "%%x : f32[%lld,3,7,7]", (long long)rows[r]);
            subject_t s = subject_begin(ctx, parameters, inputs,
                                        "  %1 = conv2d(%x, %k, none)\n  %2 = relu(%1)\n"
                                        "  %3 = flatten(%2) start_dim=1\n"
                                        "  %4 = linear(%3, %w, none)\n  return %4\n");
            subject_check_values(&s);
            subject_check_borders(&s, 0);
            subject_end(&s);
        }
}

static void save_and_load(context_t *ctx, module_t *frozen, module_t **out_loaded)
{
    char path[] = "/tmp/tessera-linear-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    CHECK_OK(ctx, freeze_save(ctx, frozen, path));
    CHECK_OK(ctx, freeze_load(ctx, path, out_loaded));
    remove(path);
}

static void check_equal(context_t *ctx, module_t *a, module_t *b, const tensor_t *x, double bound)
{
    tensor_t *of_a = NULL, *of_b = NULL;
    float first[4096], second[4096];
    CHECK_OK(ctx, module_forward(ctx, a, x, &of_a));
    CHECK_OK(ctx, module_forward(ctx, b, x, &of_b));
    const int64_t n = tensor_numel(of_a);
    assert_true(n <= 4096 && tensor_numel(of_b) == n);
    CHECK_OK(ctx, tensor_read(ctx, of_a, first, sizeof first));
    CHECK_OK(ctx, tensor_read(ctx, of_b, second, sizeof second));
    for (int64_t i = 0; i < n; i++) assert_true(fabs((double)first[i] - second[i]) <= bound);
    tensor_release(of_a);
    tensor_release(of_b);
}

static void a_file_has_the_packed_weight(void **state)
{
    static const char *const inputs[] = {"%x : f32[1,40]", "%x : f32[8,40]", "%x : f32[16,40]"};
    context_t *ctx = fixture_context(state);
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        module_t *loaded = NULL;
        counters_t before, after;
        subject_t s = subject_begin(ctx, "w=31,40 b=31", inputs[i],
                                    "  %1 = linear(%x, %w, %b)\n  return %1\n");
        save_and_load(ctx, s.frozen, &loaded);
        counters_read(ctx, &before);
        check_equal(ctx, s.frozen, loaded, s.in[0], 0.0);
        counters_read(ctx, &after);
        assert_int_equal(after.reorders[CAUSE_WEIGHT], before.reorders[CAUSE_WEIGHT]);
        assert_int_equal(after.weights_packed, before.weights_packed);
        check_kernel(loaded, "stream");
        module_release(loaded);
        subject_end(&s);
    }
}

/* A weight packed for other vector widths is packed again when the file is loaded. */
static void a_weight_in_blocks_of_another_width_is_packed_again(void **state)
{
    static const char *const formats[] = {"ABcd8b8a", "ABcd16b16a"};
    context_t *ctx = fixture_context(state);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        module_t *frozen = NULL, *loaded = NULL;
        tensor_t *packed = NULL;
        const char *body = "  %1 = conv2d(%x, %k, none)\n  %2 = flatten(%1) start_dim=1\n"
                           "  %3 = reshape(%w) sizes=[31,40]\n"
                           "  %4 = linear(%2, %3, none)\n  return %4\n";
        subject_t s = subject_begin(ctx, "k=40,3,1,1 w=31,40,1,1", "%x : f32[8,3,1,1]", body);
        module_t *net = subject_net(ctx, "k=40,3,1,1 w=31,40,1,1", "%x : f32[8,3,1,1]", body);
        CHECK_OK(ctx, module_set_parameter(ctx, net, "k", module_parameter(s.net, "k")));
        CHECK_OK(ctx, convert_reorder(ctx, module_parameter(s.net, "w"), formats[i], &packed));
        CHECK_OK(ctx, module_set_parameter(ctx, net, "w", packed));
        CHECK_OK(ctx, freeze(ctx, net, NULL, &frozen));
        save_and_load(ctx, frozen, &loaded);
        check_equal(ctx, s.frozen, loaded, s.in[0], 0.0);
        check_kernel(loaded, "stream");
        tensor_release(packed);
        module_release(loaded);
        module_release(frozen);
        module_release(net);
        subject_end(&s);
    }
}

/* Weights in training have the format of oneDNN's gradients; weights that module_mkldnn did not
 * convert stay dense. */
static void weights_that_may_be_stepped_are_left_to_onednn(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *layer = NULL;
    tensor_t *x = NULL;
    prepared_t *prepared = NULL;
    CHECK_OK(ctx, layer_linear(ctx, 40, 31, false, &layer));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(2, 40), &x));
    const tensor_info_t absent = {.dtype = DTYPE_NONE};
    const tensor_t *weight = module_parameter(layer, "weight");
    const tensor_info_t *in[] = {tensor_info(x), tensor_info(weight), &absent};
    const opdef_t *op = ops_find("linear");
    CHECK_OK(ctx, dispatch_select(ctx, op, NULL, 3, in, POLICY_AUTO, &prepared));
    assert_string_equal(prepared_kernel(prepared), "stream");
    prepared_release(prepared);
    CHECK_OK(ctx, dispatch_select(ctx, op, NULL, 3, in, POLICY_PER_OP, &prepared));
    assert_string_equal(prepared_kernel(prepared), "onednn");
    assert_non_null(strstr(prepared_reasons(prepared), "stream: oneDNN alone under policy per_op"));
    prepared_release(prepared);
    CHECK_OK(ctx, select_for_weights(ctx, op, NULL, 3, in, WEIGHT_KEPT, POLICY_AUTO, &prepared));
    assert_string_equal(prepared_kernel(prepared), "onednn");
    assert_non_null(strstr(prepared_reasons(prepared), "stream: the weight may be trained"));
    prepared_release(prepared);
    tensor_release(x);
    module_release(layer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(few_rows_are_streamed_and_many_are_not),
        TEST(many_rows_are_multiplied_by_a_packed_weight),
        TEST(a_flattened_source_is_read_as_it_lies),
        TEST(a_file_has_the_packed_weight),
        TEST(a_weight_in_blocks_of_another_width_is_packed_again),
        TEST(weights_that_may_be_stepped_are_left_to_onednn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
