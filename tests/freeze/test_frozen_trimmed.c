/* Linear layers whose weights are stored in 3 bytes an element ("trimmed"): which ones are, how the
 * error bound limits it, and files that work with other instruction sets and batch sizes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "graph/ir/graph.h"
#include "graph/program/plan.h"
#include "kernels/linear/stream_impl.h"
#include "ops/linear/linear_impl.h"
#include "tensor/tensor_impl.h"
#include "tests/support/nets/subject.h"

enum { OUTPUTS = 150, CHANNELS = 20, FEATURES = CHANNELS * 100 };

static const char parameters[] = "k=20,3,1,1 w=150,2000 b=150";
static const char body[] = "  %1 = conv2d(%x, %k, none)\n  %2 = relu(%1)\n"
                           "  %3 = flatten(%2) start_dim=1\n  %4 = linear(%3, %w, %b)\n"
                           "  return %4\n";

static module_t *make_net(context_t *ctx, const char *batch)
{
    char input[64];
    snprintf(input, sizeof input, "%%x : f32[%s,3,10,10]", batch);
    return subject_net(ctx, parameters, input, body);
}

/* Counts trimmed constants of the frozen graph. */
static int count_trimmed(const module_t *frozen)
{
    const graph_t *graph = graph_of(frozen, "forward");
    int n = 0;
    for (int v = 0; v < graph_n_values(graph); v++) {
        const datum_t *constant = graph_constant(graph, v);
        n += constant != NULL && datum_kind(constant) == DATUM_TENSOR &&
             trim_is(tensor_info(datum_as_tensor(constant)));
    }
    return n;
}

static int count_of(context_t *ctx, module_t *net, const freeze_options_t *options)
{
    module_t *frozen = NULL;
    CHECK_OK(ctx, freeze(ctx, net, options, &frozen));
    const int n = count_trimmed(frozen);
    CHECK_OK(ctx, freeze_optimize(ctx, frozen, options));
    assert_int_equal(count_trimmed(frozen), n);
    module_release(frozen);
    return n;
}

static tensor_t *make_input(context_t *ctx, int64_t batch)
{
    tensor_t *x = NULL;
    void *bytes = NULL;
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, 4, (int64_t[]){batch, 3, 10, 10}, 0.0, &x));
    CHECK_OK(ctx, tensor_writable(ctx, x, &bytes));
    for (int64_t i = 0; i < tensor_numel(x); i++)
        ((float *)bytes)[i] = (float)(i * 37 % 101) / 50.0f - 1.0f;
    return x;
}

static void read_result(context_t *ctx, module_t *module, int64_t batch, float *out)
{
    tensor_t *x = make_input(ctx, batch), *y = NULL;
    CHECK_OK(ctx, module_forward(ctx, module, x, &y));
    assert_int_equal(tensor_numel(y), batch * OUTPUTS);
    CHECK_OK(ctx, tensor_read(ctx, y, out, (size_t)(batch * OUTPUTS) * sizeof *out));
    tensor_release(x);
    tensor_release(y);
}

/* Returns the largest difference relative to the largest element. */
static double difference(int64_t n, const float *a, const float *b)
{
    double worst = 0.0, largest = 0.0;
    for (int64_t i = 0; i < n; i++) {
        worst = fmax(worst, fabs((double)a[i] - (double)b[i]));
        largest = fmax(largest, fabs((double)b[i]));
    }
    return worst / largest;
}

static void the_bound_and_numerics_decide(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_net(ctx, "1");
    const char *const skip[] = {"bound_errors", NULL};
    assert_int_equal(count_of(ctx, net, NULL), 1);
    assert_int_equal(count_of(ctx, net, &(freeze_options_t){.rounding_error = 1.0}), 1);
    assert_int_equal(count_of(ctx, net, &(freeze_options_t){.rounding_error = 1e-9}), 0);
    assert_int_equal(count_of(ctx, net, &(freeze_options_t){.keep_numerics = true}), 0);
    assert_int_equal(count_of(ctx, net, &(freeze_options_t){.skip = skip}), 0);
    const tensor_t *weight = module_parameter(net, "w");
    double error = 0.0;
    CHECK_OK(ctx, linear_trim_error(ctx, tensor_info(weight), tensor_bytes(weight), &error));
    assert_true(error > 1e-7 && error < 2e-5);
    assert_int_equal(count_of(ctx, net, &(freeze_options_t){.rounding_error = error * 1.01}), 1);
    assert_int_equal(count_of(ctx, net, &(freeze_options_t){.rounding_error = error * 0.99}), 0);
    module_release(net);
}

/* The bound allows one of two linear layers to be trimmed. When count_of optimises again, this
 * layer's error must count. */
static void errors_of_trimmed_layers_count_in_later_optimisation(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = subject_net(ctx, "w=512,512 v=512,512", "%x : f32[1,512]",
                                "  %1 = linear(%x, %w, none)\n  %2 = linear(%1, %v, none)\n"
                                "  return %2\n");
    double one = 0.0, other = 0.0;
    const tensor_t *w = module_parameter(net, "w"), *v = module_parameter(net, "v");
    CHECK_OK(ctx, linear_trim_error(ctx, tensor_info(w), tensor_bytes(w), &one));
    CHECK_OK(ctx, linear_trim_error(ctx, tensor_info(v), tensor_bytes(v), &other));
    const double both = one + other, larger = fmax(one, other);
    assert_int_equal(count_of(ctx, net, &(freeze_options_t){.rounding_error = 1.01 * both}), 2);
    assert_int_equal(count_of(ctx, net, &(freeze_options_t){.rounding_error = 1.1 * larger}), 1);
    module_release(net);
}

static void many_rows_small_and_shared_weights_stay(void **state)
{
    static const struct {
        const char *parameters, *input, *body;
        int n;
    } cases[] = {
        {"w=512,512", "%x : f32[16,512]", "  %1 = linear(%x, %w, none)\n  return %1\n", 1},
        {"w=512,512", "%x : f32[2,8,512]", "  %1 = linear(%x, %w, none)\n  return %1\n", 1},
        {"w=512,512", "%x : f32[17,512]", "  %1 = linear(%x, %w, none)\n  return %1\n", 0},
        {"w=511,512", "%x : f32[1,512]", "  %1 = linear(%x, %w, none)\n  return %1\n", 0},
        {"w=512,512", "%x : f32[1,512]",
         "  %1 = linear(%x, %w, none)\n  %2 = add(%1, %w)\n  return %2\n", 0},
    };
    context_t *ctx = fixture_context(state);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        module_t *net = subject_net(ctx, cases[i].parameters, cases[i].input, cases[i].body);
        assert_int_equal(count_of(ctx, net, NULL), cases[i].n);
        module_release(net);
    }
}

/* Weights with infinite elements, or elements that rounding would make infinite, are not
 * trimmed. */
static void weights_that_are_not_finite_stay(void **state)
{
    static const uint32_t elements[] = {0x7f800000, 0xff800000, 0x7fc00000, 0x7f7fffff};
    context_t *ctx = fixture_context(state);
    for (size_t i = 0; i < sizeof elements / sizeof *elements; i++) {
        module_t *net = make_net(ctx, "1");
        tensor_t *weight = NULL;
        void *bytes = NULL;
        CHECK_OK(ctx, tensor_clone(ctx, module_parameter(net, "w"), &weight));
        CHECK_OK(ctx, tensor_writable(ctx, weight, &bytes));
        memcpy((float *)bytes + 7777, &elements[i], sizeof *elements);
        CHECK_OK(ctx, module_set_parameter(ctx, net, "w", weight));
        assert_int_equal(count_of(ctx, net, &(freeze_options_t){.rounding_error = 1.0}), 0);
        tensor_release(weight);
        module_release(net);
    }
}

static int save(context_t *ctx, module_t *frozen, char *path)
{
    struct stat status;
    const int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    CHECK_OK(ctx, freeze_save(ctx, frozen, path));
    assert_int_equal(stat(path, &status), 0);
    return (int)status.st_size;
}

/* The linear layer's source is blocked. The file stores the weight once, in the order of that
 * source. */
static void a_file_has_3_bytes_an_element(void **state)
{
    context_t *ctx = fixture_context(state);
    char path[] = "/tmp/tessera-trimmed-XXXXXX";
    module_t *net = make_net(ctx, "1"), *frozen = NULL, *loaded = NULL;
    float first[OUTPUTS], second[OUTPUTS], whole[OUTPUTS];
    counters_t before, after;
    CHECK_OK(ctx, freeze(ctx, net, NULL, &frozen));
    read_result(ctx, frozen, 1, first);
    read_result(ctx, net, 1, whole);
    assert_true(difference(OUTPUTS, first, whole) < 1e-5);
    const int padded = 160 * 32 * 100 * 3; /* outputs and channels rounded up to blocks */
    assert_true(save(ctx, frozen, path) < padded + 32768);
    CHECK_OK(ctx, freeze_load(ctx, path, &loaded));
    assert_int_equal(count_trimmed(loaded), 1);
    counters_read(ctx, &before);
    read_result(ctx, loaded, 1, second);
    counters_read(ctx, &after);
    assert_int_equal(after.copies[CAUSE_WEIGHT], before.copies[CAUSE_WEIGHT]);
    assert_int_equal(after.weights_packed, before.weights_packed);
    assert_memory_equal(first, second, sizeof first);
    module_release(net);
    module_release(frozen);
    module_release(loaded);
    remove(path);
}

/* For large batches another kernel runs. It reads the same numbers in another order. */
static void other_batches_read_the_same_numbers(void **state)
{
    static const int64_t batches[] = {2, 1, 16, 17, 40, 3};
    context_t *ctx = fixture_context(state);
    char path[] = "/tmp/tessera-trimmed-XXXXXX";
    module_t *net = make_net(ctx, "N=1"), *frozen = NULL, *loaded = NULL;
    static float first[40 * OUTPUTS], second[40 * OUTPUTS], whole[40 * OUTPUTS];
    CHECK_OK(ctx, freeze(ctx, net, NULL, &frozen));
    assert_int_equal(count_trimmed(frozen), 1);
    read_result(ctx, frozen, 2, first);
    (void)save(ctx, frozen, path);
    for (int append = 0; append < 2; append++) {
        if (append) CHECK_OK(ctx, freeze_append(ctx, path));
        CHECK_OK(ctx, freeze_load(ctx, path, &loaded));
        for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
            const int64_t n = batches[i] * OUTPUTS;
            read_result(ctx, frozen, batches[i], first);
            read_result(ctx, loaded, batches[i], second);
            read_result(ctx, net, batches[i], whole);
            assert_memory_equal(first, second, (size_t)n * sizeof *first);
            assert_true(difference(n, first, whole) < 1e-5);
        }
        module_release(loaded);
    }
    module_release(net);
    module_release(frozen);
    remove(path);
}

/* Compares a file's result with path.result, in a separate process. */
static int check_file(const char *path)
{
    char of_result[256];
    float result[OUTPUTS], wanted[OUTPUTS];
    context_t *ctx = NULL;
    module_t *loaded = NULL;
    tensor_t *y = NULL;
    snprintf(of_result, sizeof of_result, "%s.result", path);
    FILE *file = fopen(of_result, "rb");
    if (file == NULL || fread(wanted, sizeof wanted, 1, file) != 1) return 3;
    fclose(file);
    if (context_create(NULL, &ctx) != STATUS_OK || freeze_load(ctx, path, &loaded) != STATUS_OK)
        return 4;
    tensor_t *x = make_input(ctx, 1);
    if (module_forward(ctx, loaded, x, &y) != STATUS_OK ||
        tensor_read(ctx, y, result, sizeof result) != STATUS_OK)
        return 5;
    const bool is_right = difference(OUTPUTS, result, wanted) < 2e-6;
    const bool is_appended = freeze_append(ctx, path) == STATUS_OK;
    tensor_release(x);
    tensor_release(y);
    module_release(loaded);
    context_destroy(ctx);
    return is_right && is_appended ? 0 : 6;
}

static const char *self; /* argv[0] */

static void other_instruction_sets_read_the_file(void **state)
{
    static const char *const sets[] = {"AVX2", "SSE41", "DEFAULT", "AVX2"};
    context_t *ctx = fixture_context(state);
    char path[] = "/tmp/tessera-trimmed-XXXXXX", command[1024];
    module_t *net = make_net(ctx, "1"), *frozen = NULL;
    float result[OUTPUTS];
    CHECK_OK(ctx, freeze(ctx, net, NULL, &frozen));
    read_result(ctx, frozen, 1, result);
    (void)save(ctx, frozen, path);
    snprintf(command, sizeof command, "%s.result", path);
    FILE *file = fopen(command, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(result, sizeof result, 1, file), 1);
    fclose(file);
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        snprintf(command, sizeof command, "ONEDNN_MAX_CPU_ISA=%s '%s' %s", sets[i], self, path);
        const int code = system(command);
        if (code != 0) fail_msg("%s: %d", command, code);
    }
    snprintf(command, sizeof command, "%s.result", path);
    remove(command);
    remove(path);
    module_release(net);
    module_release(frozen);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(errors_of_trimmed_layers_count_in_later_optimisation),
        TEST(the_bound_and_numerics_decide),
        TEST(many_rows_small_and_shared_weights_stay),
        TEST(weights_that_are_not_finite_stay),
        TEST(a_file_has_3_bytes_an_element),
        TEST(other_batches_read_the_same_numbers),
        TEST(other_instruction_sets_read_the_file),
    };
    if (argc == 2 && argv[1][0] == '/') return check_file(argv[1]);
    self = argv[0];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
