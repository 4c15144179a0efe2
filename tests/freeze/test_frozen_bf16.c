/* Networks frozen with dtype bf16: each layer is within bf16's rounding of f32; there are casts
 * only where needed; some layers are kept in f32. They are run twice, from a file and at other
 * sizes, and on processors without bf16 instructions, where f32 computes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "graph/program/plan.h"
#include "kernels/conv/winograd/winograd_impl.h"
#include "tensor/convert/convert.h"
#include "tensor/onednn/onednn.h"
#include "tests/support/nets/subject.h"

/* bf16 has 8 bits of precision, so the relative rounding error is at most 2^-8. */
#define ROUNDING 0x1p-8

static bool has_bf16(void)
{
    return onednn_isa_has(onednn_isa(), ONEDNN_ISA_BF16);
}

static module_t *freeze_as(context_t *ctx, module_t *net, dtype_t dtype, const char *const *kept)
{
    module_t *frozen = NULL;
    const freeze_options_t options = {.dtype = dtype, .keep_f32 = kept};
    CHECK_OK(ctx, freeze(ctx, net, &options, &frozen));
    return frozen;
}

static int count_steps(const module_t *frozen, const char *name)
{
    const plan_t *plan = plan_of(frozen, "forward");
    int n = 0;
    for (int i = 0; i < plan_n_steps(plan); i++) n += strcmp(plan_step(plan, i)->name, name) == 0;
    return n;
}

/* Checks that products run in bf16; on processors without bf16 instructions all run in f32. None
 * may use oneDNN's slow reference implementation. */
static void check_steps(const module_t *frozen, const char *product, bool is_kept)
{
    const plan_t *plan = plan_of(frozen, "forward");
    const dtype_t wanted = has_bf16() && !is_kept ? DTYPE_BF16 : DTYPE_F32;
    int n = 0;
    assert_int_equal(plan_is_widened(frozen, "forward"), !has_bf16() && !is_kept);
    for (int i = 0; i < plan_n_steps(plan); i++) {
        const prepared_t *prepared = plan_step(plan, i)->prepared;
        if (prepared == NULL) continue;
        assert_false(onednn_is_reference(prepared_implementation(prepared)));
        if (strcmp(plan_step(plan, i)->name, product) != 0) continue;
        assert_int_equal(prepared_input(prepared, 0)->dtype, wanted);
        assert_int_equal(prepared_input(prepared, 1)->dtype, wanted);
        if (strcmp(prepared_kernel(prepared), "native") == 0)
            fail_msg("%s is native: %s", product, prepared_reasons(prepared));
        n++;
    }
    assert_true(n > 0);
}

static tensor_t *magnitude(context_t *ctx, const tensor_t *x)
{
    tensor_t *out = NULL;
    CHECK_OK(ctx, op_abs(ctx, x, &out));
    return out;
}

/* Checks that the result differs by at most the largest effect of rounding the two operands and the
 * result. Running the net on absolute values shows how large that is. */
static void check_within_rounding(context_t *ctx, module_t *net, module_t *narrow,
                                  const tensor_t *x)
{
    static const char *const names[] = {"w", "b"};
    tensor_t *wide = NULL, *got = NULL, *most = NULL, *kept[2] = {NULL};
    CHECK_OK(ctx, module_forward(ctx, net, x, &wide));
    CHECK_OK(ctx, module_forward(ctx, narrow, x, &got));
    assert_int_equal(tensor_dtype(got), DTYPE_F32);
    for (int i = 0; i < 2; i++) {
        kept[i] = tensor_retain(module_parameter(net, names[i]));
        tensor_t *positive = magnitude(ctx, kept[i]);
        CHECK_OK(ctx, module_set_parameter(ctx, net, names[i], positive));
        tensor_release(positive);
    }
    tensor_t *positive = magnitude(ctx, x);
    CHECK_OK(ctx, module_forward(ctx, net, positive, &most));
    tensor_release(positive);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(ctx, module_set_parameter(ctx, net, names[i], kept[i]));
        tensor_release(kept[i]);
    }
    const int64_t n = tensor_numel(wide);
    float *a = calloc((size_t)n, sizeof *a), *b = calloc((size_t)n, sizeof *b);
    float *m = calloc((size_t)n, sizeof *m);
    CHECK_OK(ctx, tensor_read(ctx, wide, a, (size_t)n * sizeof *a));
    CHECK_OK(ctx, tensor_read(ctx, got, b, (size_t)n * sizeof *b));
    CHECK_OK(ctx, tensor_read(ctx, most, m, (size_t)n * sizeof *m));
    double largest = 0.0;
    for (int64_t i = 0; i < n; i++) {
        const double error = fabs((double)a[i] - (double)b[i]);
        if (!(error <= 2.0 * ROUNDING * (double)m[i] + 1e-6))
            fail_msg("element %lld: %g for %g, of magnitudes %g", (long long)i, (double)b[i],
                     (double)a[i], (double)m[i]);
        if (error > largest) largest = error;
    }
    assert_true(largest > 0.0); /* weights are rounded on every processor */
    free(a);
    free(b);
    free(m);
    tensor_release(wide);
    tensor_release(got);
    tensor_release(most);
}

/* Freezes a single product with these parameters, input and line. Checks its result, a second call,
 * and a file. */
static void check_layer(context_t *ctx, const char *parameters, const char *input, const char *line)
{
    char body[512], product[32] = "";
    snprintf(body, sizeof body, "  %%y = %s\n  return %%y\n", line);
    assert_int_equal(sscanf(line, "%31[a-z0-9_]", product), 1);
    module_t *net = subject_net(ctx, parameters, input, body);
    module_t *narrow = freeze_as(ctx, net, DTYPE_BF16, NULL);
    const graph_t *graph = graph_of(net, "forward");
    const tensor_info_t *info = &graph_value_type(graph, graph_body(graph)->params[1])->info;
    tensor_t *x = NULL;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, info->rank, info->sizes, &x));
    check_within_rounding(ctx, net, narrow, x);
    check_within_rounding(ctx, net, narrow, x);
    check_steps(narrow, product, false);
    tensor_release(x);
    module_release(narrow);
    module_release(net);
}

static void convolutions_stay_within_their_rounding(void **state)
{
    static const int channels[] = {1, 3, 7, 16, 17, 31};
    context_t *ctx = fixture_context(state);
    char parameters[96], input[96];
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 6; k++) {
            snprintf(parameters, sizeof parameters, "w=%d,%d,3,3 b=%d", channels[k], channels[i],
                     channels[k]);
            snprintf(input, sizeof input, "%%x : f32[2,%d,9,11]", channels[i]);
            check_layer(ctx, parameters, input, "conv2d(%x, %w, %b) padding=[1,1]");
        }
    check_layer(ctx, "w=17,7,1,1 b=17", "%x : f32[1,7,5,5]", "conv2d(%x, %w, %b) stride=[2,2]");
    check_layer(ctx, "w=31,3,2,3 b=31", "%x : f32[1,3,9,9]", "conv2d(%x, %w, %b) dilation=[2,3]");
    check_layer(ctx, "w=17,7,5 b=17", "%x : f32[2,7,12]", "conv1d(%x, %w, %b)");
    check_layer(ctx, "w=7,17,2,3,3 b=7", "%x : f32[1,17,4,5,6]", "conv3d(%x, %w, %b)");
}

static void grouped_and_depthwise_ones_do(void **state)
{
    context_t *ctx = fixture_context(state);
    check_layer(ctx, "w=32,1,3,3 b=32", "%x : f32[2,32,8,8]",
                "conv2d(%x, %w, %b) padding=[1,1] groups=32");
    check_layer(ctx, "w=17,1,3,3 b=17", "%x : f32[2,17,8,8]",
                "conv2d(%x, %w, %b) padding=[1,1] stride=[2,2] groups=17");
    check_layer(ctx, "w=128,4,3,3 b=128", "%x : f32[1,128,10,10]",
                "conv2d(%x, %w, %b) padding=[1,1] groups=32");
    check_layer(ctx, "w=24,3,3,3 b=24", "%x : f32[1,12,6,6]",
                "conv2d(%x, %w, %b) padding=[1,1] groups=4");
    check_layer(ctx, "w=62,31,3,3 b=62", "%x : f32[1,62,7,7]", "conv2d(%x, %w, %b) groups=2");
}

static void other_products_do(void **state)
{
    context_t *ctx = fixture_context(state);
    check_layer(ctx, "w=17,31 b=17", "%x : f32[1,31]", "linear(%x, %w, %b)");
    check_layer(ctx, "w=31,17 b=31", "%x : f32[40,17]", "linear(%x, %w, %b)");
    check_layer(ctx, "w=7,3 b=7", "%x : f32[2,5,3]", "linear(%x, %w, %b)");
    check_layer(ctx, "w=16,16,3,3 b=16", "%x : f32[1,16,5,5]",
                "conv_transpose2d(%x, %w, %b) stride=[2,2]");
}

/* ---- winograd ---- */

/* Winograd computes tiles of 6 in f32, and of 2 in bf16. The 3x3 convolutions have a 1x1 one with
 * stride 2 between them; an addition follows. */
#define TILES_PARAMETERS "a=128,128,3,3 b=128 c=256,256,3,3 d=256 e=256,128,1,1"
#define TILES                                                                                      \
    "  %1 = conv2d(%x, %a, %b) padding=[1,1] at \"first\"\n"                                       \
    "  %2 = relu(%1)\n"                                                                            \
    "  %3 = conv2d(%2, %e, none) stride=[2,2] at \"between\"\n"                                    \
    "  %4 = conv2d(%3, %c, %d) padding=[1,1] at \"second\"\n"                                      \
    "  %5 = add(%4, %3)\n"                                                                         \
    "  %6 = relu(%5)\n"                                                                            \
    "  return %6\n"

/* Checks the algorithms of two consecutive 3x3 convolutions. */
static void check_tiles(const module_t *frozen, const char *first, const char *second)
{
    const char *const wanted[] = {first, second};
    const plan_t *plan = plan_of(frozen, "forward");
    int n = 0;
    for (int i = 0; i < plan_n_steps(plan); i++) {
        const prepared_t *prepared = plan_step(plan, i)->prepared;
        if (strcmp(plan_step(plan, i)->name, "conv2d") != 0 ||
            prepared_input(prepared, 1)->sizes[2] != 3)
            continue;
        assert_true(n < 2);
        if (strstr(prepared_implementation(prepared), wanted[n]) == NULL)
            fail_msg("convolution %d is %s, not %s", n, prepared_implementation(prepared),
                     wanted[n]);
        assert_int_equal(prepared_input(prepared, 0)->dtype, DTYPE_BF16);
        assert_int_equal(prepared_output(prepared, 0)->dtype, DTYPE_BF16);
        n++;
    }
    assert_int_equal(n, 2);
}

static void check_close(context_t *ctx, module_t *net, module_t *frozen, const tensor_t *x,
                        double tolerance)
{
    tensor_t *wanted = NULL, *is = NULL;
    double difference = 1.0;
    CHECK_OK(ctx, module_forward(ctx, net, x, &wanted));
    CHECK_OK(ctx, module_forward(ctx, frozen, x, &is));
    CHECK_OK(ctx, tensor_max_rel_diff(ctx, is, wanted, &difference));
    if (!(difference <= tolerance)) fail_msg("results differ by %g", difference);
    tensor_release(wanted);
    tensor_release(is);
}

static void winograd_weights_are_bf16_in_memory_and_in_files(void **state)
{
    context_t *ctx = fixture_context(state);
    char path[] = "/tmp/tessera-bf16-XXXXXX";
    const int file = mkstemp(path);
    module_t *net = subject_net(ctx, TILES_PARAMETERS, "%x : f32[1,128,28,28]", TILES);
    module_t *narrow = freeze_as(ctx, net, DTYPE_BF16, NULL), *strict = NULL, *loaded = NULL;
    const freeze_options_t options = {.dtype = DTYPE_BF16, .rounding_error = 1e-9};
    tensor_t *x = NULL;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, 4, (const int64_t[]){1, 128, 28, 28}, &x));
    CHECK_OK(ctx, freeze(ctx, net, &options, &strict));
    check_close(ctx, net, narrow, x, 6.0 * ROUNDING);
    check_close(ctx, net, strict, x, 4.0 * ROUNDING);
    if (winograd_is_for_pairs(isa_best())) {
        check_tiles(narrow, "winograd_6x6", "winograd_2x2");
        check_tiles(strict, "bf16", "bf16");
    }
    CHECK_OK(ctx, freeze_save(ctx, narrow, path));
    CHECK_OK(ctx, freeze_load(ctx, path, &loaded));
    check_close(ctx, narrow, loaded, x, 0.0);
    if (winograd_is_for_pairs(isa_best())) check_tiles(loaded, "winograd_6x6", "winograd_2x2");
    module_release(loaded);
    CHECK_OK(ctx, freeze_append(ctx, path));
    CHECK_OK(ctx, freeze_load(ctx, path, &loaded));
    check_close(ctx, narrow, loaded, x, 0.0);
    close(file);
    unlink(path);
    tensor_release(x);
    module_release(loaded);
    module_release(strict);
    module_release(narrow);
    module_release(net);
}

/* ---- networks ---- */

#define PARAMETERS "w=16,3,3,3 u=16,16,3,3 p=32,16,1,1 l=10,48 v=16 m=16 s=16 t=16"
#define NETWORK                                                                                    \
    "  %1 = conv2d(%x, %w, none) padding=[1,1] at \"stem.conv\"\n"                                 \
    "  %2 = batch_norm(%1, %s, %t, %m, %v) at \"stem.norm\"\n"                                     \
    "  %3 = relu(%2) at \"stem.relu\"\n"                                                           \
    "  %4 = conv2d(%3, %u, none) padding=[1,1] at \"block.conv\"\n"                                \
    "  %5 = add(%4, %3) at \"block.add\"\n"                                                        \
    "  %6 = relu(%5) at \"block.relu\"\n"                                                          \
    "  %7 = max_pool2d(%6) kernel=[2,2] stride=[2,2] at \"pool\"\n"                                \
    "  %8 = conv2d(%7, %p, none) at \"wide\"\n"                                                    \
    "  %9 = sigmoid(%8) at \"gate\"\n"                                                             \
    "  %10 = concat(%9, %7) dim=1 at \"join\"\n"                                                   \
    "  %11 = mean(%10) dims=[2,3] at \"mean\"\n"                                                   \
    "  %12 = linear(%11, %l, none) at \"head\"\n"                                                  \
    "  %13 = softmax(%12) dim=-1 at \"scores\"\n"                                                  \
    "  return %13, %12\n"

static module_t *network(context_t *ctx)
{
    return subject_net(ctx, PARAMETERS, "%x : f32[N=2,3,12,12]", NETWORK);
}

static void check_alike(context_t *ctx, module_t *wide, module_t *narrow, int64_t batch,
                        double tolerance)
{
    tensor_t *x = NULL, *a[2], *b[2];
    int n_a = 2, n_b = 2;
    const int64_t sizes[] = {batch, 3, 12, 12};
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, 4, sizes, &x));
    const tensor_t *in[] = {x};
    CHECK_OK(ctx, module_call_tensors(ctx, wide, "forward", 1, in, &n_a, a));
    CHECK_OK(ctx, module_call_tensors(ctx, narrow, "forward", 1, in, &n_b, b));
    for (int i = 0; i < 2; i++) {
        double difference = 1.0;
        assert_int_equal(tensor_dtype(b[i]), DTYPE_F32);
        CHECK_OK(ctx, tensor_max_rel_diff(ctx, b[i], a[i], &difference));
        if (!(difference <= tolerance)) fail_msg("result %d differs by %g", i, difference);
        tensor_release(a[i]);
        tensor_release(b[i]);
    }
    tensor_release(x);
}

/* Four layers follow each other; each rounds its result and its operands. */
#define OF_NETWORK (16.0 * ROUNDING)

static void a_network_has_two_casts_and_no_reorder(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = network(ctx), *wide = freeze_as(ctx, net, DTYPE_F32, NULL);
    module_t *narrow = freeze_as(ctx, net, DTYPE_BF16, NULL);
    counters_t counters;
    for (int64_t batch = 1; batch <= 3; batch++) check_alike(ctx, wide, narrow, batch, OF_NETWORK);
    check_alike(ctx, wide, narrow, 3, OF_NETWORK);
    check_steps(narrow, "conv2d", false);
    check_steps(narrow, "linear", false);
    assert_true(count_steps(narrow, "cast") <= (has_bf16() ? 3 : 0)); /* x, and two results */
    tensor_t *x = NULL, *out[2];
    int n = 2;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, 4, (const int64_t[]){3, 3, 12, 12}, &x));
    counters_reset(ctx);
    CHECK_OK(ctx, module_call_tensors(ctx, narrow, "forward", 1, (const tensor_t *[]){x}, &n, out));
    counters_read(ctx, &counters);
    assert_int_equal(counters_weight_reorders(&counters), 0);
    assert_true(counters_activation_reorders(&counters) <= 1);
    for (int i = 0; i < 2; i++) tensor_release(out[i]);
    tensor_release(x);
    module_release(narrow);
    module_release(wide);
    module_release(net);
}

static void a_file_has_bf16_and_gives_the_same(void **state)
{
    context_t *ctx = fixture_context(state);
    char path[] = "/tmp/tessera-bf16-XXXXXX", other[] = "/tmp/tessera-bf16-XXXXXX";
    struct stat narrow_file, wide_file;
    const int files[2] = {mkstemp(path), mkstemp(other)};
    module_t *net = network(ctx), *wide = freeze_as(ctx, net, DTYPE_F32, NULL);
    module_t *narrow = freeze_as(ctx, net, DTYPE_BF16, NULL), *loaded = NULL;
    check_alike(ctx, wide, narrow, 2, OF_NETWORK);
    CHECK_OK(ctx, freeze_save(ctx, narrow, path));
    CHECK_OK(ctx, freeze_save(ctx, wide, other));
    CHECK_OK(ctx, freeze_load(ctx, path, &loaded));
    check_alike(ctx, narrow, loaded, 2, 0.0);
    check_alike(ctx, wide, loaded, 5, OF_NETWORK);
    check_steps(loaded, "conv2d", false);
    assert_int_equal(stat(path, &narrow_file) | stat(other, &wide_file), 0);
    if (has_bf16()) assert_true(narrow_file.st_size < wide_file.st_size);
    for (int i = 0; i < 2; i++) close(files[i]);
    unlink(path);
    unlink(other);
    module_release(loaded);
    module_release(narrow);
    module_release(wide);
    module_release(net);
}

/* ---- exceptions ---- */

static void excluded_layers_stay_f32(void **state)
{
    static const char *const all[] = {"*", NULL}, *const stem[] = {"stem.*", "head", NULL};
    context_t *ctx = fixture_context(state);
    module_t *net = network(ctx), *wide = freeze_as(ctx, net, DTYPE_NONE, NULL);
    module_t *kept = freeze_as(ctx, net, DTYPE_BF16, all);
    check_alike(ctx, wide, kept, 2, 1e-5);
    check_steps(kept, "conv2d", true);
    module_release(kept);
    kept = freeze_as(ctx, net, DTYPE_BF16, stem);
    check_alike(ctx, wide, kept, 2, OF_NETWORK);
    const plan_t *plan = plan_of(kept, "forward");
    for (int i = 0; i < plan_n_steps(plan); i++) {
        const plan_step_t *step = plan_step(plan, i);
        if (step->path == NULL || step->prepared == NULL || strcmp(step->name, "cast") == 0)
            continue;
        const bool is_kept = strncmp(step->path, "stem", 4) == 0 || strcmp(step->path, "head") == 0;
        if (strcmp(step->name, "conv2d") == 0 || strcmp(step->name, "linear") == 0)
            assert_int_equal(prepared_input(step->prepared, 0)->dtype,
                             is_kept || !has_bf16() ? DTYPE_F32 : DTYPE_BF16);
    }
    module_release(kept);
    module_release(wide);
    module_release(net);
}

/* ---- measured exceptions ---- */

typedef struct report {
    int n, n_kept;
    double largest, least;
    char worst[64];
} report_t;

static void note_layer(void *user, const freeze_layer_t *layer)
{
    report_t *report = user;
    if (!(layer->error > 0.0 && layer->error < 0.5))
        fail_msg("%s %s: error %g", layer->op, layer->path, layer->error);
    if (report->n == 0 || layer->error < report->least) report->least = layer->error;
    if (layer->error > report->largest) {
        report->largest = layer->error;
        snprintf(report->worst, sizeof report->worst, "%s", layer->path);
    }
    report->n++;
    report->n_kept += layer->is_kept;
}

static report_t freeze_measured(context_t *ctx, module_t *net, const tensor_t *x, double bound,
                                module_t **out_frozen)
{
    report_t report = {.n = 0};
    const tensor_t *const first[] = {x, NULL}, *const second[] = {x, NULL};
    const tensor_t *const *const examples[] = {first, second};
    const freeze_options_t options = {.dtype = DTYPE_BF16,
                                      .n_examples = 2,
                                      .examples = examples,
                                      .max_error = bound,
                                      .report = note_layer,
                                      .report_user = &report};
    CHECK_OK(ctx, freeze(ctx, net, &options, out_frozen));
    return report;
}

/* In f32, a linear layer with one row would store its weight in 3 bytes an element. To measure the
 * error, it is rounded to bf16 like other weights. */
static void a_linear_of_few_rows_is_measured(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL;
    module_t *frozen = NULL;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(1, 2000), &x));
    module_t *net = subject_net(ctx, "w=150,2000 b=150", "%x : f32[1,2000]",
                                "  %1 = linear(%x, %w, %b)\n  return %1\n");
    const report_t report = freeze_measured(ctx, net, x, 0.0, &frozen);
    assert_int_equal(report.n, 1);
    assert_true(report.largest < 2 * ROUNDING);
    module_release(frozen);
    module_release(net);
    tensor_release(x);
}

static void layers_above_the_bound_stay_f32(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = network(ctx), *wide = freeze_as(ctx, net, DTYPE_NONE, NULL), *frozen = NULL;
    tensor_t *x = NULL;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, 4, (const int64_t[]){2, 3, 12, 12}, &x));
    report_t free = freeze_measured(ctx, net, x, 0.0, &frozen);
    assert_int_equal(free.n, 4); /* three convolutions and a linear layer */
    assert_int_equal(free.n_kept, 0);
    check_steps(frozen, "conv2d", false);
    module_release(frozen);
    report_t all = freeze_measured(ctx, net, x, free.least / 2.0, &frozen);
    assert_int_equal(all.n_kept, 4);
    check_steps(frozen, "conv2d", true);
    check_alike(ctx, wide, frozen, 2, 1e-5);
    module_release(frozen);
    report_t one = freeze_measured(ctx, net, x, free.largest * 0.999, &frozen);
    assert_int_equal(one.n_kept, 1);
    assert_string_equal(one.worst, free.worst);
    check_alike(ctx, wide, frozen, 2, OF_NETWORK);
    module_release(frozen);
    tensor_release(x);
    module_release(wide);
    module_release(net);
}

/* The report includes what transforms lose even on processors without bf16 instructions, where the
 * actual error is smaller. */
static void a_layers_error_includes_the_error_of_its_transform(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL;
    module_t *frozen = NULL;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, 4, (const int64_t[]){1, 64, 14, 14}, &x));
    module_t *net = subject_net(ctx, "w=64,64,3,3 v=64,64,3,2", "%x : f32[1,64,14,14]",
                                "  %1 = conv2d(%x, %w, none) padding=[1,1] at \"tiles\"\n"
                                "  %2 = conv2d(%x, %v, none) padding=[1,1] at \"none\"\n"
                                "  return %1, %2\n");
    const report_t report = freeze_measured(ctx, net, x, 0.0, &frozen);
    assert_int_equal(report.n, 2);
    assert_string_equal(report.worst, "tiles");
    assert_true(report.largest > report.least + ROUNDING / 4.0);
    assert_true(report.largest < 6.0 * ROUNDING);
    module_release(frozen);
    module_release(net);
    tensor_release(x);
}

static void wrong_examples_are_named(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = network(ctx), *frozen = NULL;
    tensor_t *x = NULL;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, 4, (const int64_t[]){2, 4, 12, 12}, &x));
    const tensor_t *const example[] = {x, NULL};
    const tensor_t *const *const examples[] = {example};
    freeze_options_t options = {.dtype = DTYPE_BF16, .n_examples = 1, .examples = examples};
    CHECK_FAILS(ctx, freeze(ctx, net, &options, &frozen), STATUS_INVALID_ARGUMENT,
                "f32[2,4,12,12]");
    options.examples = NULL;
    CHECK_FAILS(ctx, freeze(ctx, net, &options, &frozen), STATUS_INVALID_ARGUMENT,
                "freeze: n_examples 1, needs that many examples");
    options.n_examples = 0;
    options.max_error = 0.5;
    CHECK_FAILS(ctx, freeze(ctx, net, &options, &frozen), STATUS_INVALID_ARGUMENT,
                "freeze: max_error 0.5 without examples, which are needed to measure layers");
    options.max_error = -1.0;
    CHECK_FAILS(ctx, freeze(ctx, net, &options, &frozen), STATUS_INVALID_ARGUMENT,
                "freeze: max_error -1, must be at least 0");
    tensor_release(x);
    module_release(net);
}

static void other_dtypes_are_left_alone(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = subject_net(ctx, "w=7,3 e=5,3", "%x : f64[2,3], %i : s64[4]",
                                "  %1 = relu(%x)\n  %2 = gather(%e, %i) dim=0\n"
                                "  %3 = linear(%2, %w, none)\n  return %1, %3\n");
    module_t *narrow = freeze_as(ctx, net, DTYPE_BF16, NULL);
    tensor_t *x = NULL, *i = NULL, *out[2];
    int n = 2;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F64, 2, (const int64_t[]){2, 3}, &x));
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_S64, 1, (const int64_t[]){4}, 1, &i));
    CHECK_OK(ctx,
             module_call_tensors(ctx, narrow, "forward", 2, (const tensor_t *[]){x, i}, &n, out));
    assert_int_equal(tensor_dtype(out[0]), DTYPE_F64);
    assert_int_equal(tensor_dtype(out[1]), DTYPE_F32);
    for (int k = 0; k < 2; k++) tensor_release(out[k]);
    tensor_release(x);
    tensor_release(i);
    module_release(narrow);
    module_release(net);
}

static void wrong_options_are_named(void **state)
{
    static const char *const nobody[] = {"block.conv", "nobody.*", NULL};
    context_t *ctx = fixture_context(state);
    module_t *net = network(ctx), *frozen = NULL;
    CHECK_FAILS(ctx, freeze(ctx, net, &(freeze_options_t){.dtype = DTYPE_F16}, &frozen),
                STATUS_INVALID_ARGUMENT, "freeze: dtype f16, must be f32, bf16 or s8");
    CHECK_FAILS(ctx, freeze(ctx, net, &(freeze_options_t){.dtype = (dtype_t)99}, &frozen),
                STATUS_INVALID_ARGUMENT, "freeze: dtype of unknown name, must be f32, bf16 or s8");
    CHECK_FAILS(
        ctx,
        freeze(ctx, net, &(freeze_options_t){.dtype = DTYPE_BF16, .keep_numerics = true}, &frozen),
        STATUS_INVALID_ARGUMENT,
        "freeze: dtype bf16 changes the last bits, which keep_numerics forbids");
    CHECK_FAILS(
        ctx,
        freeze(ctx, net, &(freeze_options_t){.dtype = DTYPE_BF16, .keep_f32 = nobody}, &frozen),
        STATUS_INVALID_ARGUMENT, "freeze: keep_f32 \"nobody.*\" matches no operator");
    module_release(net);
}

/* The result must be the same if freeze left out optimisation and freeze_optimize follows. */
static void freeze_optimize_after_freeze_converts_to_bf16(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = network(ctx), *wide = freeze_as(ctx, net, DTYPE_NONE, NULL), *late = NULL;
    CHECK_OK(ctx, freeze(ctx, net, &(freeze_options_t){.no_optimize = true}, &late));
    CHECK_OK(ctx, freeze_optimize(ctx, late, &(freeze_options_t){.dtype = DTYPE_BF16}));
    check_alike(ctx, wide, late, 2, OF_NETWORK);
    check_steps(late, "conv2d", false);
    module_release(late);
    module_release(wide);
    module_release(net);
}

/* The pass cannot change operands of unknown types, and must report that. */
static void a_network_without_known_sizes_is_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = subject_net(ctx, "w=4,3", "%x : tensor",
                                "  %y = linear(%x, %w, none) at \"head\"\n  return %y\n");
    module_t *frozen = NULL;
    CHECK_FAILS(ctx, freeze(ctx, net, &(freeze_options_t){.dtype = DTYPE_BF16}, &frozen),
                STATUS_INVALID_ARGUMENT,
                "freeze: dtype bf16, the sizes that linear head reads are not known, so nothing "
                "would change; parameters need types such as f32[N=1,3,224,224]");
    assert_null(frozen);
    CHECK_OK(ctx, freeze(ctx, net, NULL, &frozen));
    module_release(frozen);
    module_release(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(convolutions_stay_within_their_rounding),
        TEST(grouped_and_depthwise_ones_do),
        TEST(other_products_do),
        TEST(winograd_weights_are_bf16_in_memory_and_in_files),
        TEST(a_network_has_two_casts_and_no_reorder),
        TEST(a_file_has_bf16_and_gives_the_same),
        TEST(excluded_layers_stay_f32),
        TEST(a_linear_of_few_rows_is_measured),
        TEST(layers_above_the_bound_stay_f32),
        TEST(a_layers_error_includes_the_error_of_its_transform),
        TEST(wrong_examples_are_named),
        TEST(other_dtypes_are_left_alone),
        TEST(wrong_options_are_named),
        TEST(freeze_optimize_after_freeze_converts_to_bf16),
        TEST(a_network_without_known_sizes_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
