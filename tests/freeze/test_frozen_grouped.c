/* Weights in grouped formats in frozen modules and their files. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "graph/ir/graph.h"
#include "ops/ops.h"
#include "tensor/context_impl.h"
#include "tests/support/nets/subject.h"

enum { ROWS = 5, OUTPUTS = 70, INPUTS = 96, GROUPS = INPUTS / 32 };

static const char body[] = "  %1 = linear(%x, %w, none)\n  %2 = relu(%1)\n  return %2\n";

static tensor_t *make_weight(context_t *ctx)
{
    static int8_t codes[OUTPUTS * INPUTS];
    static float scales[OUTPUTS * GROUPS];
    const grouping_t grouping = {4, true, 32, DTYPE_F32, GROUPING_NONE};
    tensor_t *weight = NULL;
    for (int i = 0; i < OUTPUTS * INPUTS; i++) codes[i] = (int8_t)(i * 37 % 16 - 8);
    for (int i = 0; i < OUTPUTS * GROUPS; i++) scales[i] = (float)(i % 7 + 1) / 64.0f;
    CHECK_OK(ctx, tensor_grouped(ctx, &grouping, 2, (int64_t[]){OUTPUTS, INPUTS}, codes, scales,
                                 NULL, &weight));
    return weight;
}

/* is_widened: the module has the elements in f32. */
static module_t *make_net(context_t *ctx, bool is_widened)
{
    module_t *net = subject_net(ctx, "w=70,96", "%x : f32[N,96]", body);
    tensor_t *weight = make_weight(ctx), *dense = NULL;
    CHECK_OK(ctx, to_dense(ctx, weight, &dense));
    CHECK_OK(ctx, module_set_parameter(ctx, net, "w", is_widened ? dense : weight));
    tensor_release(weight);
    tensor_release(dense);
    return net;
}

static void read_result(context_t *ctx, module_t *module, float *out)
{
    tensor_t *x = NULL, *y = NULL;
    float values[ROWS * INPUTS];
    for (int i = 0; i < ROWS * INPUTS; i++) values[i] = (float)(i * 53 % 101) / 50.0f - 1.0f;
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, 2, (int64_t[]){ROWS, INPUTS}, values, &x));
    CHECK_OK(ctx, module_forward(ctx, module, x, &y));
    CHECK_OK(ctx, tensor_read(ctx, y, out, ROWS * OUTPUTS * sizeof *out));
    tensor_release(x);
    tensor_release(y);
}

static void check_near(const float *a, const float *b)
{
    for (int i = 0; i < ROWS * OUTPUTS; i++) {
        const float apart = a[i] - b[i];
        assert_true(apart < 1e-5f && apart > -1e-5f);
    }
}

/* Counts the grouped constants of a method. */
static int count_grouped(const module_t *module)
{
    const graph_t *graph = graph_of(module, "forward");
    int n = 0;
    for (int v = 0; v < graph_n_values(graph); v++) {
        const datum_t *constant = graph_constant(graph, v);
        n += constant != NULL && datum_kind(constant) == DATUM_TENSOR &&
             tensor_info(datum_as_tensor(constant))->format.kind == FORMAT_GROUPED;
    }
    return n;
}

static long size_of(const char *path)
{
    struct stat file;
    assert_int_equal(stat(path, &file), 0);
    return (long)file.st_size;
}

static void modules_freeze_and_files_keep_the_format(void **state)
{
    static float wanted[ROWS * OUTPUTS], found[ROWS * OUTPUTS];
    context_t *ctx = fixture_context(state);
    module_t *wide = make_net(ctx, true), *net = make_net(ctx, false), *frozen = NULL,
             *loaded = NULL;
    char path[] = "/tmp/test_grouped.XXXXXX";
    close(mkstemp(path));
    read_result(ctx, wide, wanted);
    read_result(ctx, net, found);
    check_near(found, wanted);
    CHECK_OK(ctx, freeze(ctx, net, NULL, &frozen));
    read_result(ctx, frozen, found);
    check_near(found, wanted);
    assert_int_equal(count_grouped(frozen), 1);
    CHECK_OK(ctx, freeze_save(ctx, frozen, path));
    assert_true(size_of(path) < OUTPUTS * INPUTS * 2); /* it has no widened form */
    CHECK_OK(ctx, freeze_load(ctx, path, &loaded));
    assert_int_equal(count_grouped(loaded), 1);
    read_result(ctx, loaded, found);
    check_near(found, wanted);
    unlink(path);
    module_t *const all[] = {wide, net, frozen, loaded};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) module_release(all[i]);
}

/* Rows of the weight, and products with it, as in models whose embedding is also the last layer. */
static void rows_and_products_share_a_weight(void **state)
{
    static const int64_t picked[] = {3, 69, -1, 0, 16};
    static const char *const bodies[] = {"  %1 = gather(%w, %x) dim=0\n  return %1\n",
                                         "  %1 = gather(%w, %x) dim=0\n"
                                         "  %2 = linear(%1, %w, none)\n  return %2\n"};
    context_t *ctx = fixture_context(state);
    tensor_t *weight = make_weight(ctx), *dense = NULL, *index = NULL, *wrong = NULL, *none = NULL;
    CHECK_OK(ctx, to_dense(ctx, weight, &dense));
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_S64, 1, (int64_t[]){5}, picked, &index));
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_S64, 1, (int64_t[]){1}, (int64_t[]){OUTPUTS}, &wrong));
    for (int i = 0; i < 2; i++) {
        module_t *net = subject_net(ctx, "w=70,96", "%x : s64[5]", bodies[i]), *frozen = NULL;
        tensor_t *wanted = NULL, *eager = NULL, *found = NULL;
        double difference = 1.0;
        CHECK_OK(ctx, module_set_parameter(ctx, net, "w", dense));
        CHECK_OK(ctx, module_forward(ctx, net, index, &wanted));
        CHECK_OK(ctx, module_set_parameter(ctx, net, "w", weight));
        CHECK_OK(ctx, module_forward(ctx, net, index, &eager));
        const counters_t before = *context_counters(ctx);
        CHECK_OK(ctx, freeze(ctx, net, NULL, &frozen));
        CHECK_OK(ctx, module_forward(ctx, frozen, index, &found));
        assert_int_equal(context_counters(ctx)->copies[CAUSE_WEIGHT], before.copies[CAUSE_WEIGHT]);
        CHECK_OK(ctx, tensor_max_rel_diff(ctx, eager, wanted, &difference));
        assert_true(difference <= (i == 0 ? 0.0 : 1e-6));
        CHECK_OK(ctx, tensor_max_rel_diff(ctx, found, wanted, &difference));
        assert_true(difference <= (i == 0 ? 0.0 : 1e-6));
        tensor_t *const all[] = {wanted, eager, found};
        for (size_t k = 0; k < sizeof all / sizeof *all; k++) tensor_release(all[k]);
        module_release(net);
        module_release(frozen);
    }
    CHECK_FAILS(ctx, op_gather(ctx, weight, 0, wrong, &none), STATUS_INVALID_ARGUMENT,
                "gather: index 70 of mkldnn f32[70,96]@s4f32g32b in dimension 0, out of range");
    tensor_t *const all[] = {weight, dense, index, wrong};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) tensor_release(all[k]);
}

/* No copies in a widened form: neither when it is packed, nor when it runs. */
static void nothing_is_widened(void **state)
{
    static const int64_t picked[] = {3, 69, -1, 0, 16};
    context_t *ctx = fixture_context(state);
    tensor_t *weight = make_weight(ctx), *index = NULL, *rows = NULL, *product = NULL;
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_S64, 1, (int64_t[]){5}, picked, &index));
    const counters_t before = *context_counters(ctx);
    CHECK_OK(ctx, op_gather(ctx, weight, 0, index, &rows));
    CHECK_OK(ctx, op_linear(ctx, rows, weight, NULL, &product));
    const counters_t after = *context_counters(ctx);
    assert_memory_equal(after.copies, before.copies, sizeof after.copies);
    assert_memory_equal(after.reorders, before.reorders, sizeof after.reorders);
    tensor_t *const all[] = {weight, index, rows, product};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) tensor_release(all[k]);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {TEST(modules_freeze_and_files_keep_the_format),
                                              TEST(rows_and_products_share_a_weight),
                                              TEST(nothing_is_widened)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
