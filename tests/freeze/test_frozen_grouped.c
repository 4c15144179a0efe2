/* Weights in grouped formats in frozen modules and their files. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "graph/ir/graph.h"
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

int main(void)
{
    static const struct CMUnitTest tests[] = {TEST(modules_freeze_and_files_keep_the_format)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
