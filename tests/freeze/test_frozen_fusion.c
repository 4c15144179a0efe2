/* Fused and merged operators in frozen modules: the number that remains, and results compared with
 * those of the module and of a module frozen without fusion. The tests of merging have the names of
 * PyTorch's TestFrozenOptimizations. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/program/plan.h"
#include "tests/support/nets/subject.h"

/* ---- every post-op after every operator that supports some ---- */

static const struct {
    const char *parameters, *inputs, *call; /* K is replaced by the number of channels */
    const char *same, *channels; /* operands with the result's shape, and one per channel */
} anchors[] = {
    {"w=K,5,3 b=K", "%x : f32[2,5,9]", "conv1d(%x, %w, %b)", "2,K,7", "K,1"},
    {"w=K,5,3,3 b=K", "%x : f32[2,5,7,6]", "conv2d(%x, %w, %b) padding=[1,1]", "2,K,7,6",
     "1,K,1,1"},
    {"w=K,1,3,3 b=K", "%x : f32[1,K,6,6]", "conv2d(%x, %w, %b) groups=K", "1,K,4,4", "K,1,1"},
    {"w=K,16,1,1 b=K", "%x : f32[1,16,5,5]", "conv2d(%x, %w, %b)", "1,K,5,5", "K,1,1"},
    {"w=K,3,2,3,3 b=K", "%x : f32[1,3,4,5,5]", "conv3d(%x, %w, %b)", "1,K,3,3,3", "1,K,1,1,1"},
    {"w=4,K,2,2 b=K", "%x : f32[1,4,4,4]", "conv_transpose2d(%x, %w, %b) stride=[2,2]", "1,K,8,8",
     "K,1,1"},
    {"w=K,9 b=K", "%x : f32[3,9]", "linear(%x, %w, %b)", "3,K", "K"},
    {"w=K,9 b=K", "%x : f32[2,3,9]", "linear(%x, %w, none)", "2,3,K", "1,K"},
    {"w=9,K b=K", "%x : f32[4,9]", "matmul(%x, %w)", "4,K", "1,K"},
    {"w=2,9,K b=K", "%x : f32[2,3,9]", "matmul(%x, %w)", "2,3,K", "K"},
};
enum { N_ANCHORS = sizeof anchors / sizeof *anchors };

static const int channels[] = {1, 3, 7, 16, 17, 31};
enum { N_CHANNELS = sizeof channels / sizeof *channels };

/* Replaces every K in the text by a number. */
static const char *with_number(const char *text, int k, char *out, size_t size)
{
    size_t used = 0;
    for (; *text != '\0' && used + 12 < size; text++) {
        if (*text == 'K')
            used += (size_t)snprintf(out + used, size - used, "%d", k);
        else
            out[used++] = *text;
    }
    out[used] = '\0';
    return out;
}

/* Checks an operator that can fuse others (the anchor), followed by lines that compute %y from its
 * result %1. The lines may read %e, another parameter, with the sizes `operand`. */
static void check_fused(context_t *ctx, int anchor, int k, const char *operand, const char *lines,
                        const char *gone)
{
    char parameters[128], inputs_text[64], call[128], body[512], all[256], extra[64];
    with_number(anchors[anchor].parameters, k, parameters, sizeof parameters);
    with_number(anchors[anchor].inputs, k, inputs_text, sizeof inputs_text);
    with_number(anchors[anchor].call, k, call, sizeof call);
    snprintf(all, sizeof all, "%s %s%s", parameters, operand != NULL ? "ve=" : "",
             operand != NULL ? with_number(operand, k, extra, sizeof extra) : "");
    snprintf(body, sizeof body, "  %%1 = %s\n%s  return %%y\n", call, lines);
    subject_t s = subject_begin(ctx, all, inputs_text, body);
    subject_check_count(&s, gone, 0);
    subject_check_count(&s, "post=[", 1);
    subject_check_values(&s);
    subject_end(&s);
}

static void every_activation_fuses_behind_every_operator(void **state)
{
    static const char *const activations[] = {"relu(%1)",
                                              "relu6(%1)",
                                              "leaky_relu(%1) negative_slope=0.2",
                                              "elu(%1) alpha=0.5",
                                              "selu(%1)",
                                              "gelu(%1)",
                                              "gelu(%1) tanh_approximation=true",
                                              "sigmoid(%1)",
                                              "tanh(%1)",
                                              "silu(%1)",
                                              "hardsigmoid(%1)",
                                              "hardswish(%1)",
                                              "abs(%1)",
                                              "neg(%1)",
                                              "clamp(%1) min=-1.0 max=2.0",
                                              "clamp(%1) min=0.5 max=2.0",
                                              "clamp(%1) min=-2.0 max=-0.5"};
    context_t *ctx = fixture_context(state);
    for (int a = 0; a < N_ANCHORS; a++)
        for (int i = a % 2; i < (int)(sizeof activations / sizeof *activations); i += 2) {
            char line[128], gone[32];
            snprintf(line, sizeof line, "  %%y = %s\n", activations[i]);
            snprintf(gone, sizeof gone, " %.*s(", (int)strcspn(activations[i], "("),
                     activations[i]);
            check_fused(ctx, a, channels[(a + i) % N_CHANNELS], NULL, line, gone);
        }
}

/* oneDNN's exponential and logarithm are inaccurate, so our own loops compute them after the
 * operator. */
static void exp_log_and_softplus_stay_behind_the_operator(void **state)
{
    static const char *const activations[] = {"exp", "log", "softplus"};
    context_t *ctx = fixture_context(state);
    for (size_t i = 0; i < sizeof activations / sizeof *activations; i++) {
        char body[256], kept[32];
        snprintf(body, sizeof body,
                 "  %%1 = conv2d(%%x, %%w, none)\n"
                 "  %%2 = sigmoid(%%1)\n"
                 "  %%y = %s(%%2)\n"
                 "  return %%y\n",
                 activations[i]);
        snprintf(kept, sizeof kept, " %s(", activations[i]);
        subject_t s = subject_begin(ctx, "w=17,3,3,3", "%x : f32[2,3,9,9]", body);
        subject_check_count(&s, kept, 1);
        subject_check_count(&s, "post=[", 1);
        subject_check_values(&s);
        subject_end(&s);
    }
}

/* The tanh keeps the number from being folded into the bias. */
static void arithmetic_with_numbers_fuses_behind_every_operator(void **state)
{
    static const char *const lines[] = {"add(%r, 1.5)", "sub(2.0, %r)",      "mul(-3, %r)",
                                        "div(%r, 4)",   "maximum(%r, 0.25)", "minimum(-0.25, %r)"};
    enum { N_LINES = sizeof lines / sizeof *lines };
    context_t *ctx = fixture_context(state);
    for (int a = 0; a < N_ANCHORS; a++)
        for (int i = a % 2; i < N_LINES; i += 2) {
            char both[128], gone[32];
            snprintf(both, sizeof both, "  %%r = tanh(%%1)\n  %%y = %s\n", lines[i]);
            snprintf(gone, sizeof gone, " %.*s(", (int)strcspn(lines[i], "("), lines[i]);
            check_fused(ctx, a, channels[(a + i) % N_CHANNELS], NULL, both, gone);
        }
}

static void every_operator_of_two_operands_fuses_behind_every_operator(void **state)
{
    static const char *const binaries[] = {"add(%1, %ve)",     "add(%ve, %1)",    "sub(%1, %ve)",
                                           "sub(%ve, %1)",     "mul(%ve, %1)",    "div(%1, %ve)",
                                           "maximum(%1, %ve)", "minimum(%ve, %1)"};
    context_t *ctx = fixture_context(state);
    for (int a = 0; a < N_ANCHORS; a++)
        for (size_t i = 0; i < sizeof binaries / sizeof *binaries; i++)
            for (int shape = (a + (int)i) % 2; shape < 3; shape += 2) {
                const char *operand = shape == 0   ? anchors[a].same
                                      : shape == 1 ? anchors[a].channels
                                                   : "1";
                char lines[128], gone[32];
                /* A constant per channel would be folded; the activation before it prevents
                 * that. */
                snprintf(lines, sizeof lines, "  %%r = tanh(%%1)\n  %%y = %.*s(%s\n",
                         (int)strcspn(binaries[i], "("), binaries[i], strchr(binaries[i], '(') + 1);
                for (char *at = strstr(lines, "%y"); (at = strstr(at, "%1")) != NULL;) at[1] = 'r';
                snprintf(gone, sizeof gone, " %.*s(", (int)strcspn(binaries[i], "("), binaries[i]);
                check_fused(ctx, a, channels[(a + (int)i + shape) % N_CHANNELS], operand, lines,
                            gone);
            }
}

/* If no node reads the other summand later, the operator accumulates into it, whether it is the
 * first or the second operand. The relu is fused as well. */
static void a_sum_and_a_relu_fuse_behind_every_operator(void **state)
{
    static const char *const orders[] = {"add(%1, %r)", "add(%r, %1)"};
    context_t *ctx = fixture_context(state);
    for (int a = 0; a < N_ANCHORS; a++)
        for (int i = 0; i < 2; i++)
            for (int c = (a + i) % 2; c < N_CHANNELS; c += 2) {
                char lines[160];
                snprintf(lines, sizeof lines,
                         "  %%r = cumsum(%%ve) dim=0\n  %%2 = %s\n  %%y = relu(%%2)\n", orders[i]);
                check_fused(ctx, a, channels[c], anchors[a].same, lines, " relu(");
            }
}

static int pick(int n)
{
    static uint32_t state = 12345;
    state = state * 1664525u + 1013904223u;
    return (int)(state >> 16) % n;
}

static void chains_of_random_shapes_agree(void **state)
{
    static const char *const links[] = {"relu(%K)",         "sigmoid(%K)",   "add(%K, %ve)",
                                        "mul(%ve, %K)",     "hardswish(%K)", "sub(%K, 0.5)",
                                        "maximum(%K, %ve)", "add(%K, %K)",   "mul(%K, 0.5)",
                                        "tanh(%K)",         "div(%K, %ve)"};
    context_t *ctx = fixture_context(state);
    for (int round = 0; round < 30; round++) {
        char parameters[96], inputs_text[64], body[1024];
        int n = 1 + pick(2), c = 1 + pick(20), k = 1 + pick(40), size = 3 + pick(6), at = 1;
        int length = 1 + pick(5), kernel = 1 + pick(3), is_same = pick(2);
        int out = size - kernel + 1;
        snprintf(parameters, sizeof parameters,
                 is_same ? "w=%d,%d,%d,%d ve=%d,%d,%d,%d" : "w=%d,%d,%d,%d ve=%d,1,1", k, c, kernel,
                 kernel, is_same ? n : k, k, out, out);
        snprintf(inputs_text, sizeof inputs_text, "%%x : f32[%d,%d,%d,%d]", n, c, size, size);
        size_t used = (size_t)snprintf(body, sizeof body, "  %%1 = conv2d(%%x, %%w, none)\n");
        for (; length > 0; length--, at++) {
            char call[64];
            with_number(links[pick((int)(sizeof links / sizeof *links))], at, call, sizeof call);
            used += (size_t)snprintf(body + used, sizeof body - used, "  %%%d = %s\n", at + 1,
                                     call);
        }
        snprintf(body + used, sizeof body - used, "  return %%%d\n", at);
        subject_t s = subject_begin(ctx, parameters, inputs_text, body);
        subject_check_values(&s);
        subject_end(&s);
    }
}

/* ---- merging ---- */

static void linear_concat(void **state)
{
    subject_t s = subject_begin(fixture_context(state), "w=12,16 b=12 u=5,16 c=5", "%x : f32[1,16]",
                                "  %1 = linear(%x, %w, %b)\n  %2 = linear(%x, %u, %c)\n"
                                "  return %1, %2\n");
    subject_check_count(&s, " linear(", 1);
    subject_check_count(&s, " split(", 1);
    subject_check_count(&s, " concat(", 0);
    subject_check_values(&s);
    subject_check_borders(&s, 0);
    subject_end(&s);
}

/* For many rows, splitting the merged result costs more than merging saves. PyTorch merges only on
 * CUDA. */
static void linear_concat_of_many_rows_stays(void **state)
{
    subject_t s = subject_begin(fixture_context(state), "w=12,16 b=12 u=5,16 c=5", "%x : f32[4,16]",
                                "  %1 = linear(%x, %w, %b)\n  %2 = linear(%x, %u, %c)\n"
                                "  return %1, %2\n");
    subject_check_count(&s, " linear(", 2);
    subject_check_values(&s);
    subject_end(&s);
}

/* Three linear layers read one input. One has no bias, and other operators are between and after
 * them. */
static void linear_concat_complex(void **state)
{
    subject_t s = subject_begin(fixture_context(state), "w=12,16 b=12 u=5,16 p=12,16 c=12 q=7,17",
                                "%x : f32[1,16], %z : f32[1,17]",
                                "  %1 = linear(%x, %w, %b)\n"
                                "  %2 = mul(%1, %1)\n"
                                "  %3 = linear(%z, %q, none)\n"
                                "  %4 = linear(%x, %u, none)\n"
                                "  %5 = softmax(%4) dim=-1\n"
                                "  %6 = linear(%x, %p, %c)\n"
                                "  %7 = add(%6, %2)\n"
                                "  return %5, %7, %3, %4\n");
    subject_check_values(&s);
    assert_true(subject_count(&s, " linear(") <= 3);
    subject_check_count(&s, " split(", 1);
    subject_end(&s);
}

static void linear_concat_different_input(void **state)
{
    subject_t s = subject_begin(fixture_context(state), "w=12,16 u=5,16",
                                "%x : f32[1,16], %z : f32[1,16]",
                                "  %1 = linear(%x, %w, none)\n  %2 = linear(%z, %u, none)\n"
                                "  return %1, %2\n");
    subject_check_count(&s, " linear(", 2);
    subject_check_count(&s, " split(", 0);
    subject_check_values(&s);
    subject_end(&s);
}

/* Only linear layers in the same block merge: a layer in a branch must not run if the branch does
 * not. */
static void linear_multiple_blocks(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = subject_net(ctx, "w=12,16 u=12,16 p=12,16", "%x : f32[1,16], %c : bool",
                                "  %1 = linear(%x, %w, none)\n"
                                "  %2 = if(%c) {\n"
                                "    %3 = linear(%x, %u, none)\n"
                                "    %4 = linear(%x, %p, none)\n"
                                "    %5 = cumsum(%3) dim=1\n"
                                "    %7 = cumsum(%4) dim=1\n"
                                "    %6 = mul(%5, %7)\n"
                                "    yield %6\n"
                                "  } else {\n"
                                "    yield %1\n"
                                "  }\n"
                                "  return %2, %1\n");
    module_t *frozen = NULL;
    text_t text = text_begin(ctx);
    CHECK_OK(ctx, freeze(ctx, net, NULL, &frozen));
    CHECK_OK(ctx, graph_print(ctx, graph_of(frozen, "forward"), NULL, &text));
    int n_linears = 0;
    for (const char *at = text_string(&text); (at = strstr(at, " linear(")) != NULL; at++)
        n_linears++;
    assert_int_equal(n_linears, 2);
    tensor_t *x = NULL;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(1, 16), &x));
    for (int i = 0; i < 2; i++) {
        datum_t *in[2] = {NULL}, *a[2] = {NULL}, *b[2] = {NULL};
        int n_a = 2, n_b = 2;
        CHECK_OK(ctx, datum_tensor(ctx, x, &in[0]));
        CHECK_OK(ctx, datum_bool(ctx, i == 1, &in[1]));
        CHECK_OK(ctx, module_call(ctx, net, "forward", 2, in, &n_a, a));
        CHECK_OK(ctx, module_call(ctx, frozen, "forward", 2, in, &n_b, b));
        for (int k = 0; k < 2; k++) {
            double difference = 1.0;
            CHECK_OK(ctx, tensor_max_rel_diff(ctx, datum_as_tensor(a[k]), datum_as_tensor(b[k]),
                                              &difference));
            assert_true(difference <= 1e-5);
            datum_release(a[k]);
            datum_release(b[k]);
            datum_release(in[k]);
        }
    }
    tensor_release(x);
    text_clear(&text);
    module_release(frozen);
    module_release(net);
}

/* Batch norm and activation are folded and fused before the convs merge. Their results are views of
 * the merged conv's result. */
static void convs_of_a_large_input_merge(void **state)
{
    subject_t s = subject_begin(fixture_context(state), "w=16,4,1,1 b=16 u=7,4,1,1 v=7",
                                "%x : f32[1,4,520,520]",
                                "  %0 = relu(%x)\n"
                                "  %1 = conv2d(%0, %w, %b)\n"
                                "  %2 = relu(%1)\n"
                                "  %3 = conv2d(%0, %u, none)\n"
                                "  %4 = batch_norm(%3, %v, %v, %v, %v)\n"
                                "  %5 = relu(%4)\n"
                                "  %6 = max_pool2d(%2) kernel=[8,8]\n"
                                "  %7 = max_pool2d(%5) kernel=[8,8]\n"
                                "  return %6, %7\n");
    subject_check_count(&s, " conv2d(", 1);
    subject_check_count(&s, " split(", 1);
    subject_check_values(&s);
    subject_check_borders(&s, 2);
    subject_end(&s);
}

static void convs_of_a_small_input_or_other_windows_stay(void **state)
{
    context_t *ctx = fixture_context(state);
    subject_t s = subject_begin(ctx, "w=16,4,1,1 u=16,4,1,1", "%x : f32[1,4,20,20]",
                                "  %1 = conv2d(%x, %w, none)\n  %2 = conv2d(%x, %u, none)\n"
                                "  return %1, %2\n");
    subject_check_count(&s, " conv2d(", 2);
    subject_check_values(&s);
    subject_end(&s);
    s = subject_begin(ctx, "w=16,4,1,1 u=16,4,3,3", "%x : f32[1,4,520,520]",
                      "  %1 = conv2d(%x, %w, none)\n  %2 = conv2d(%x, %u, none)\n"
                      "  return %1, %2\n");
    subject_check_count(&s, " conv2d(", 2);
    subject_end(&s);
}

/* The transposed weight is packed once. PyTorch multiplies by a transposed constant instead. */
static void linear_transpose(void **state)
{
    subject_t s = subject_begin(fixture_context(state), "w=32,16 b=32", "%x : f32[4,16]",
                                "  %1 = linear(%x, %w, %b)\n  return %1\n");
    subject_check_count(&s, "getattr", 0);
    subject_check_values(&s);
    subject_check_borders(&s, 0);
    subject_end(&s);
}

static void linear_non_constant_weight(void **state)
{
    subject_t s = subject_begin(fixture_context(state), "b=5",
                                "%x : f32[1,16], %w : f32[5,16], %u : f32[5,16]",
                                "  %1 = linear(%x, %w, %b)\n  %2 = linear(%x, %u, %b)\n"
                                "  return %1, %2\n");
    subject_check_count(&s, " linear(", 2);
    subject_check_values(&s);
    subject_end(&s);
}

/* ---- allocation ---- */

static status_t freeze_and_run(context_t *ctx)
{
    static const char text[] = "graph forward(%self : module, %x : f32[1,8]) {\n"
                               "  %w = getattr(%self) name=\"w\" : f32[8,8]\n"
                               "  %1 = linear(%x, %w, none)\n"
                               "  %2 = selu(%1)\n"
                               "  %3 = linear(%x, %w, none)\n"
                               "  %4 = mul(%3, %x)\n"
                               "  %5 = linear(%x, %w, none)\n"
                               "  %6 = selu(%5)\n"
                               "  return %2, %4, %6\n}\n";
    module_t *net = NULL, *frozen = NULL;
    tensor_t *w = NULL, *x = NULL, *y[3] = {NULL};
    int n = 3;
    status_t status = module_create(ctx, "Net", &net);
    if (status == STATUS_OK) status = tensor_randn(ctx, DTYPE_F32, SHAPE(8, 8), &w);
    if (status == STATUS_OK) status = tensor_randn(ctx, DTYPE_F32, SHAPE(1, 8), &x);
    if (status == STATUS_OK) status = module_set_parameter(ctx, net, "w", w);
    if (status == STATUS_OK) status = graph_define(ctx, net, text);
    if (status == STATUS_OK) status = freeze(ctx, net, NULL, &frozen);
    const tensor_t *const in[] = {x};
    if (status == STATUS_OK) status = module_call_tensors(ctx, frozen, "forward", 1, in, &n, y);
    for (int i = 0; i < 3; i++) tensor_release(y[i]);
    tensor_release(x);
    tensor_release(w);
    module_release(frozen);
    module_release(net);
    return status;
}

static void every_failing_allocation_is_a_status(void **state)
{
    (void)state;
    check_every_allocation(freeze_and_run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_activation_fuses_behind_every_operator),
        TEST(exp_log_and_softplus_stay_behind_the_operator),
        TEST(arithmetic_with_numbers_fuses_behind_every_operator),
        TEST(every_operator_of_two_operands_fuses_behind_every_operator),
        TEST(a_sum_and_a_relu_fuse_behind_every_operator),
        TEST(chains_of_random_shapes_agree),
        TEST(linear_concat),
        TEST(linear_concat_of_many_rows_stays),
        TEST(linear_concat_complex),
        TEST(linear_concat_different_input),
        TEST(linear_multiple_blocks),
        TEST(convs_of_a_large_input_merge),
        TEST(convs_of_a_small_input_or_other_windows_stay),
        TEST(linear_transpose),
        TEST(linear_non_constant_weight),
        TEST(every_failing_allocation_is_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
