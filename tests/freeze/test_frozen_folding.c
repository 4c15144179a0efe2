/* Folding in frozen modules, with the names of PyTorch's TestFrozenOptimizations. Each network is a
 * text with random parameters. Its results before and after freezing are compared. */
#include "freeze/freeze.h"

#include "tests/support/support.h"

#include <stdio.h>
#include <string.h>

#include "module/layers/layers.h"
#include "module/mkldnn.h"

#define TEXT_MAX 4096

/* ---- networks ---- */

/* Makes the parameter that a getattr in the text names. Those named "var..." are positive, those
 * named "int..." are ones. */
static void set_parameter(context_t *ctx, module_t *net, const graph_node_t *node,
                          const tensor_info_t *info)
{
    tensor_t *tensor = NULL, *half = NULL, *sum = NULL;
    if (strncmp(node->name, "int", 3) == 0) {
        CHECK_OK(ctx, tensor_full(ctx, info->dtype, info->rank, info->sizes, 2.0, &tensor));
    } else if (strncmp(node->name, "var", 3) == 0) {
        CHECK_OK(ctx, tensor_rand(ctx, info->dtype, info->rank, info->sizes, &tensor));
        CHECK_OK(ctx, tensor_number(ctx, 0.5, &half));
        CHECK_OK(ctx, op_add(ctx, tensor, half, &sum));
        tensor_release(tensor);
        tensor_release(half);
        tensor = sum;
    } else {
        CHECK_OK(ctx, tensor_randn(ctx, info->dtype, info->rank, info->sizes, &tensor));
    }
    CHECK_OK(ctx, module_set_parameter(ctx, net, node->name, tensor));
    tensor_release(tensor);
}

static void add_method(context_t *ctx, module_t *net, const char *text)
{
    graph_t *graph = NULL;
    CHECK_OK(ctx, graph_parse(ctx, text, NULL, &graph));
    const graph_block_t *body = graph_body(graph);
    for (int i = 0; i < body->n_nodes; i++) {
        const graph_node_t *node = body->nodes[i];
        if (node->kind != NODE_GETATTR || module_parameter(net, node->name) != NULL) continue;
        set_parameter(ctx, net, node, &graph_value_type(graph, node->outputs[0])->info);
    }
    CHECK_OK(ctx, graph_set_method(ctx, net, graph_name(graph), graph));
    graph_release(graph);
}

static module_t *make_net(context_t *ctx, const char *text)
{
    module_t *net = NULL;
    CHECK_OK(ctx, module_create(ctx, "Net", &net));
    add_method(ctx, net, text);
    return net;
}

/* Makes an input for the last parameter of the method. */
static tensor_t *make_input(context_t *ctx, const module_t *net, const char *method)
{
    const graph_t *graph = graph_of(net, method);
    const graph_block_t *body = graph_body(graph);
    const tensor_info_t *info = &graph_value_type(graph, body->params[body->n_params - 1])->info;
    tensor_t *x = NULL;
    CHECK_OK(ctx, tensor_randn(ctx, info->dtype, info->rank, info->sizes, &x));
    return x;
}

static tensor_t *run(context_t *ctx, module_t *net, const char *method, const tensor_t *x)
{
    tensor_t *out[METHOD_MAX_OUTPUTS] = {NULL};
    int n_out = METHOD_MAX_OUTPUTS;
    CHECK_OK(ctx, module_call_tensors(ctx, net, method, 1, &x, &n_out, out));
    assert_int_equal(n_out, 1);
    return out[0];
}

static void check_same(context_t *ctx, module_t *a, module_t *b, const char *method,
                       const tensor_t *x, double tolerance)
{
    tensor_t *expected = run(ctx, a, method, x), *actual = run(ctx, b, method, x);
    double difference = 1.0;
    assert_int_equal(tensor_dtype(actual), tensor_dtype(expected));
    CHECK_OK(ctx, tensor_max_rel_diff(ctx, actual, expected, &difference));
    if (!(difference <= tolerance)) {
        text_t text = text_begin(ctx);
        CHECK_OK(ctx, graph_print(ctx, graph_of(a, method), NULL, &text));
        print_error("differs by %g:\n%s", difference, text_string(&text));
        text_clear(&text);
        fail();
    }
    tensor_release(expected);
    tensor_release(actual);
}

/* Returns true if the method's graph contains the word. */
static bool says(context_t *ctx, const module_t *module, const char *method, const char *word)
{
    const graph_t *graph = graph_of(module, method);
    assert_non_null(graph);
    text_t text = text_begin(ctx);
    CHECK_OK(ctx, graph_print(ctx, graph, NULL, &text));
    bool found = strstr(text_string(&text), word) != NULL;
    text_clear(&text);
    return found;
}

/* Freezes the network and compares results. */
static module_t *freeze_and_check(context_t *ctx, module_t *net, const freeze_options_t *options,
                                  const char *method, double tolerance)
{
    module_t *frozen = NULL;
    tensor_t *x = make_input(ctx, net, method);
    CHECK_OK(ctx, freeze(ctx, net, options, &frozen));
    check_same(ctx, net, frozen, method, x, tolerance);
    tensor_release(x);
    return frozen;
}

/* Checks that the network contains the word, and that the frozen network does only if it `stays`.
 * fold_weight and fold_bias never remain. */
static void check_word(context_t *ctx, const char *text, const char *word, bool stays,
                       double tolerance)
{
    module_t *net = make_net(ctx, text);
    assert_true(says(ctx, net, "forward", word));
    module_t *frozen = freeze_and_check(ctx, net, NULL, "forward", tolerance);
    if (says(ctx, frozen, "forward", word) != stays) {
        print_error("%s: \"%s\" %s\n", text, word, stays ? "is gone" : "is still there");
        fail();
    }
    assert_false(says(ctx, frozen, "forward", "fold_"));
    module_release(frozen);
    module_release(net);
}

/* ---- texts ---- */

static const char spatial[][16] = {"", ",6", ",6,5", ",4,5,3"};
static const char kernels[][16] = {"", ",3", ",3,3", ",3,3,3"};
static const char ones[][16] = {"", ",1", ",1,1", ",1,1,1"};

/* Returns the text of a conv of n dimensions, with or without a bias, followed by the other texts:
 * its input is %c, its result %y, and it has the constants %k, %gamma, %beta, %mean and %var. */
static const char *conv_text(int n, const char *dtype, bool has_bias, const char *constant,
                             const char *behind)
{
    static char text[TEXT_MAX];
    int length = snprintf(text, sizeof text,
                          "graph forward(%%self : module, %%x : %s[2,3%s]) {\n"
                          "  %%w = getattr(%%self) name=\"w\" : %s[8,3%s]\n"
                          "  %%b = getattr(%%self) name=\"b\" : %s[8]\n"
                          "  %%k = getattr(%%self) name=\"%s\n"
                          "  %%gamma = getattr(%%self) name=\"gamma\" : f32[8]\n"
                          "  %%beta = getattr(%%self) name=\"beta\" : f32[8]\n"
                          "  %%mean = getattr(%%self) name=\"mean\" : f32[8]\n"
                          "  %%var = getattr(%%self) name=\"var\" : f32[8]\n"
                          "  %%c = conv%dd(%%x, %%w, %s)\n%s"
                          "  return %%y\n}\n",
                          dtype, spatial[n], dtype, kernels[n], dtype, constant, n,
                          has_bias ? "%b" : "none", behind);
    assert_true(length < (int)sizeof text);
    return text;
}

static const char *linear_text(const char *dtype, const char *sizes, int channels)
{
    static char text[TEXT_MAX];
    snprintf(text, sizeof text,
             "graph forward(%%self : module, %%x : %s[%s,8]) {\n"
             "  %%w = getattr(%%self) name=\"w\" : %s[8,8]\n"
             "  %%mean = getattr(%%self) name=\"mean\" : f32[%d]\n"
             "  %%var = getattr(%%self) name=\"var\" : f32[%d]\n"
             "  %%c = linear(%%x, %%w, none)\n"
             "  %%y = batch_norm(%%c, %%var, %%mean, %%mean, %%var)\n"
             "  return %%y\n}\n",
             dtype, sizes, dtype, channels, channels);
    return text;
}

static const char no_constant[] = "gamma\" : f32[8]";
static const char norm[] = "  %y = batch_norm(%c, %gamma, %beta, %mean, %var) epsilon=0.001\n";

/* ---- conv and batch norm ---- */

static module_t *traced_conv_bn(context_t *ctx, int n, bool has_bias)
{
    module_t *net = NULL, *child = NULL;
    static const int64_t kernel[] = {3, 3, 3}, sizes[] = {2, 3, 6, 5, 4};
    tensor_t *x = NULL;
    CHECK_OK(ctx, layer_sequential(ctx, &net));
    CHECK_OK(ctx, layer_conv(ctx, n, 3, 7, kernel, NULL, has_bias, &child));
    CHECK_OK(ctx, layer_append_take(ctx, net, child));
    CHECK_OK(ctx, layer_batch_norm(ctx, 7, 0.001, &child));
    CHECK_OK(ctx, layer_append_take(ctx, net, child));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, n + 2, sizes, &x));
    CHECK_OK(ctx, tensor_copy(ctx, module_buffer(net, "1.running_mean"),
                              module_parameter(net, "1.bias")));
    CHECK_OK(ctx, graph_trace(ctx, net, "forward", 1, (const tensor_t *const[]){x}));
    tensor_release(x);
    return net;
}

static void conv_bn_folding(void **state)
{
    context_t *ctx = fixture_context(state);
    for (int n = 1; n <= 3; n++)
        for (int has_bias = 0; has_bias < 2; has_bias++) {
            check_word(ctx, conv_text(n, "f32", has_bias, no_constant, norm), "batch_norm", false,
                       1e-5);
            module_t *net = traced_conv_bn(ctx, n, has_bias);
            assert_true(says(ctx, net, "forward", "batch_norm"));
            module_t *frozen = freeze_and_check(ctx, net, NULL, "forward", 1e-5);
            assert_false(says(ctx, frozen, "forward", "batch_norm"));
            module_release(frozen);
            module_release(net);
        }
    /* Tessera's batch_norm always has statistics. It stays if they are not constant. */
    module_t *net = make_net(ctx, conv_text(2, "f32", true, no_constant, norm));
    const char *const preserved[] = {"mean", "var", NULL};
    module_t *frozen = freeze_and_check(ctx, net, &(freeze_options_t){.preserved = preserved},
                                        "forward", 1e-5);
    assert_true(says(ctx, frozen, "forward", "batch_norm"));
    module_release(frozen);
    module_release(net);
}

static void conv_bn_folding_not_forward(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_net(ctx, conv_text(2, "f32", true, no_constant, norm));
    const char *const preserved[] = {"make_prediction", "amt", NULL};
    char text[TEXT_MAX];
    snprintf(text, sizeof text, "graph make_prediction(%s",
             strchr(conv_text(2, "f32", false, no_constant, norm), '(') + 1);
    add_method(ctx, net, text);
    datum_t *amt = NULL;
    CHECK_OK(ctx, datum_float(ctx, 3.2, &amt));
    CHECK_OK(ctx, module_set_attribute(ctx, net, "amt", amt));
    datum_release(amt);
    module_t *frozen = freeze_and_check(ctx, net, &(freeze_options_t){.preserved = preserved},
                                        "make_prediction", 1e-5);
    assert_false(says(ctx, frozen, "make_prediction", "batch_norm"));
    assert_false(says(ctx, frozen, "forward", "batch_norm"));
    assert_non_null(module_attribute(frozen, "amt"));
    module_release(frozen);
    module_release(net);
}

/* Checks the operands' dtype in the last node of this operator. */
static void check_dtype(context_t *ctx, module_t *net, const char *op, dtype_t dtype,
                        double tolerance)
{
    module_t *frozen = freeze_and_check(ctx, net, NULL, "forward", tolerance);
    assert_false(says(ctx, frozen, "forward", "batch_norm"));
    const graph_t *graph = graph_of(frozen, "forward");
    const graph_block_t *body = graph_body(graph);
    int n = 0;
    for (int i = 0; i < body->n_nodes; i++) {
        const graph_node_t *node = body->nodes[i];
        if (node->kind != NODE_OP || strcmp(node->op->name, op) != 0) continue;
        for (int k = 1; k <= 2; k++)
            assert_int_equal(graph_value_type(graph, node->inputs[k])->info.dtype, dtype);
        n++;
    }
    assert_int_equal(n, 1);
    module_release(frozen);
    module_release(net);
}

static void conv_bn_folding_autocast_scenario_cuda(void **state)
{
    context_t *ctx = fixture_context(state);
    check_dtype(ctx, make_net(ctx, conv_text(2, "bf16", false, no_constant, norm)), "conv2d",
                DTYPE_BF16, 3e-2);
    check_dtype(ctx, make_net(ctx, conv_text(2, "f16", false, no_constant, norm)), "conv2d",
                DTYPE_F16, 3e-3);
}

static void linear_bn_folding_autocast_scenario_cuda(void **state)
{
    context_t *ctx = fixture_context(state);
    check_dtype(ctx, make_net(ctx, linear_text("bf16", "5", 8)), "linear", DTYPE_BF16, 3e-2);
    check_dtype(ctx, make_net(ctx, linear_text("f16", "5", 8)), "linear", DTYPE_F16, 3e-3);
}

/* ---- conv and arithmetic ---- */

static void conv_add_folding(void **state)
{
    context_t *ctx = fixture_context(state);
    static const struct {
        const char *name, *arguments;
        bool folds;
    } forms[] = {{"add", "%c, %k", true}, {"add", "%k, %c", true}, {"sub", "%c, %k", true},
                 {"sub", "%k, %c", true}, {"mul", "%c, %k", true}, {"mul", "%k, %c", true},
                 {"div", "%c, %k", true}, {"div", "%k, %c", false}};
    for (int n = 1; n <= 3; n++) {
        for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
            char constants[5][64], behind[128], word[16];
            snprintf(constants[0], 64, "var_k\" : f32[8%s]", ones[n]);
            snprintf(constants[1], 64, "var_k\" : f32[1,8%s]", ones[n]);
            snprintf(constants[2], 64, "var_k\" : f32[1,1]");
            snprintf(constants[3], 64, "var_k\" : f64[]");
            snprintf(constants[4], 64, "int_k\" : s64[8%s]", ones[n]);
            snprintf(word, sizeof word, " %s(", forms[f].name);
            snprintf(behind, sizeof behind, "  %%y = %s(%s)\n", forms[f].name, forms[f].arguments);
            for (int i = 0; i < 5; i++)
                check_word(ctx, conv_text(n, "f32", i != 1, constants[i], behind), word,
                           !forms[f].folds, forms[f].folds ? 1e-5 : 1e-3);
        }
    }
}

static void a_constant_along_the_width_is_not_folded(void **state)
{
    context_t *ctx = fixture_context(state);
    check_word(ctx, conv_text(2, "f32", true, "var_k\" : f32[8,1,3]", "  %y = div(%c, %k)\n"),
               " div(", true, 1e-5);
    check_word(ctx, conv_text(2, "f32", true, "var_k\" : f64[8,1,1]", "  %y = div(%c, %k)\n"),
               " div(", true, 1e-5);
}

static void conv_mul_add_bn(void **state)
{
    context_t *ctx = fixture_context(state);
    const char *text = conv_text(2, "f32", true, "var_k\" : f32[8,1,1]",
                                 "  %m = mul(%c, %k)\n"
                                 "  %a = add(%m, 4.5)\n"
                                 "  %n = batch_norm(%a, %gamma, %beta, %mean, %var)\n"
                                 "  %y = div(%n, %k)\n");
    check_word(ctx, text, "batch_norm", false, 1e-5);
    check_word(ctx, text, " mul(", false, 1e-5);
    check_word(ctx, text, " add(", false, 1e-5);
    check_word(ctx, text, " div(", false, 1e-5);
}

/* ---- linear and batch norm ---- */

static void linear_bn_folding(void **state)
{
    context_t *ctx = fixture_context(state);
    check_word(ctx, linear_text("f32", "5", 8), "batch_norm", false, 1e-5);
    check_word(ctx, linear_text("f32", "5,1", 1), "batch_norm", false, 1e-5);
}

static void bn_not_broadcast_with_linear(void **state)
{
    context_t *ctx = fixture_context(state);
    check_word(ctx, linear_text("f32", "5,4", 4), "batch_norm", true, 1e-5);
    check_word(ctx, linear_text("f32", "5,8", 8), "batch_norm", true, 1e-5);
    check_word(ctx, linear_text("f32", "5,8,3", 8), "batch_norm", true, 1e-5);
}

/* ---- optimisation, and parts that can be left out ---- */

static void optimize_freeze_module(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_net(ctx, conv_text(2, "f32", true, no_constant, norm));
    const freeze_options_t options[] = {{.keep_numerics = true}, {.no_optimize = true}};
    for (int i = 0; i < 2; i++) {
        module_t *frozen = freeze_and_check(ctx, net, &options[i], "forward", 1e-5);
        tensor_t *x = make_input(ctx, net, "forward");
        assert_true(says(ctx, frozen, "forward", "batch_norm"));
        CHECK_OK(ctx, freeze_optimize(ctx, frozen, NULL));
        assert_false(says(ctx, frozen, "forward", "batch_norm"));
        check_same(ctx, net, frozen, "forward", x, 1e-5);
        tensor_release(x);
        module_release(frozen);
    }
    module_release(net);
}

static void without_constant_propagation_folded_weights_are_computed_at_each_run(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_net(ctx, conv_text(2, "f32", false, "var_k\" : f32[8,1,1]",
                                            "  %m = div(%c, %k)\n"
                                            "  %y = batch_norm(%m, %gamma, %beta, %mean, %var)\n"));
    const char *const skip[] = {"constant_propagation", NULL};
    module_t *frozen = freeze_and_check(ctx, net, &(freeze_options_t){.skip = skip}, "forward",
                                        1e-5);
    assert_true(
        says(ctx, frozen, "forward", "%w.bn_folded = fold_weight(%w.folded, %gamma, %var)"));
    assert_true(says(ctx, frozen, "forward", "%b.bn_folded = fold_bias(") ||
                says(ctx, frozen, "forward", "%w.bias.bn_folded = fold_bias("));
    assert_false(says(ctx, frozen, "forward", "batch_norm"));
    module_release(frozen);
    module_release(net);
}

/* ---- no effect ---- */

static void remove_dropout(void **state)
{
    context_t *ctx = fixture_context(state);
    check_word(ctx, conv_text(2, "f32", true, no_constant, "  %y = dropout(%c) p=0.3\n"), "dropout",
               false, 1e-5);
    check_word(ctx, conv_text(2, "f32", true, no_constant, "  %y = dropout_(%c) p=0.3\n"),
               "dropout", false, 1e-5);
}

static void remove_feature_dropout(void **state)
{
    context_t *ctx = fixture_context(state);
    check_word(ctx, conv_text(2, "f32", true, no_constant, "  %y = feature_dropout(%c)\n"),
               "dropout", false, 1e-5);
    check_word(ctx, conv_text(2, "f32", true, no_constant, "  %y = feature_dropout_(%c)\n"),
               "dropout", false, 1e-5);
}

static void remove_detach(void **state)
{
    context_t *ctx = fixture_context(state);
    check_word(ctx,
               conv_text(2, "f32", true, no_constant, "  %d = identity(%c)\n  %y = add(%d, %d)\n"),
               "identity", false, 1e-5);
}

/* Graphs have no `is`. A write to one value shows whether two values share memory. */
static void remove_detach_not_applied(void **state)
{
    context_t *ctx = fixture_context(state);
    static const char text[] = "graph forward(%x : f32[2,3]) {\n"
                               "  %d = identity(%x)\n"
                               "  %e = add_(%d, 1.0)\n"
                               "  %y = sub(%e, %x)\n"
                               "  return %y\n}\n";
    const char *const passes[] = {"remove_identity", NULL};
    graph_t *graph = NULL, *result = NULL;
    CHECK_OK(ctx, graph_parse(ctx, text, NULL, &graph));
    CHECK_OK(ctx, pass_run(ctx, graph, passes, NULL, &result));
    assert_ptr_equal(result, graph);
    graph_release(graph);
    graph_release(result);
}

/* The first product is folded into the conv; all other uses share its result. */
static void scalar_mul(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_net(ctx, conv_text(2, "f32", true, no_constant,
                                            "  %a = mul(%c, 4)\n"
                                            "  %d = mul(%a, 4)\n"
                                            "  %e = mul(%a, 5.0)\n"
                                            "  %y = add(%d, %e)\n"));
    const char *const skip[] = {"fuse_post_ops", NULL};
    module_t *frozen = freeze_and_check(ctx, net, &(freeze_options_t){.skip = skip}, "forward",
                                        1e-5);
    assert_true(says(ctx, frozen, "forward", "%a = conv2d("));
    assert_true(says(ctx, frozen, "forward", "%d = mul(%a, 4)"));
    assert_true(says(ctx, frozen, "forward", "%e = mul(%a, 5.0)"));
    module_release(frozen);
    module_release(net);
}

/* ---- a converted module ---- */

static void freeze_mkdlnn(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(2, 3, 6, 5), &x));
    for (int by_hand = 0; by_hand < 2; by_hand++) {
        module_t *net = traced_conv_bn(ctx, 2, true), *all = net, *frozen = NULL, *layer = NULL;
        const tensor_t *const example[] = {x, NULL};
        CHECK_OK(ctx, module_mkldnn(ctx, net, &(mkldnn_options_t){.example = example}));
        if (by_hand) {
            CHECK_OK(ctx, layer_sequential(ctx, &all));
            CHECK_OK(ctx, layer_dense_to_mkldnn(ctx, &layer));
            CHECK_OK(ctx, layer_append_take(ctx, all, layer));
            CHECK_OK(ctx, layer_append_take(ctx, all, net));
            CHECK_OK(ctx, layer_mkldnn_to_dense(ctx, &layer));
            CHECK_OK(ctx, layer_append_take(ctx, all, layer));
        }
        CHECK_OK(ctx, graph_trace(ctx, all, "forward", 1, (const tensor_t *const[]){x}));
        CHECK_OK(ctx, freeze(ctx, all, NULL, &frozen));
        assert_false(says(ctx, frozen, "forward", "batch_norm"));
        check_same(ctx, all, frozen, "forward", x, 1e-5);
        module_release(frozen);
        module_release(all);
    }
    tensor_release(x);
}

/* With a single channel, two formats have the same bytes, but oneDNN chooses other kernels for
 * them. */
static void a_conv_that_winograd_takes_runs_whatever_its_weight_was_packed_for(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_net(ctx, "graph forward(%self : module, %x : f32[2,1,6,5]) {\n"
                                  "  %w = getattr(%self) name=\"w\" : f32[31,1,3,3]\n"
                                  "  %c = conv2d(%x, %w, none)\n"
                                  "  %y = mul(%c, 2)\n"
                                  "  return %y\n}\n");
    module_release(freeze_and_check(ctx, net, NULL, "forward", 1e-4));
    module_release(net);
}

/* ---- random networks ---- */

static unsigned draw(unsigned *seed, unsigned n)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 16) % n;
}

/* Writes a random conv (1 to 3 dimensions; plain, grouped or transposed; K channels) and up to six
 * operations, all of which freezing folds into it. */
static void write_chain(unsigned *seed, char *text, size_t size)
{
    static const int channels[] = {1, 3, 7, 17, 31};
    int n = 1 + (int)draw(seed, 3), k = channels[draw(seed, 5)];
    bool transposed = draw(seed, 2) == 1;
    int groups = draw(seed, 2) == 1 ? k : 1, c = groups * (1 + (int)draw(seed, 2));
    size_t at = (size_t)snprintf(text, size,
                                 "graph forward(%%self : module, %%x : f32[2,%d%s]) {\n"
                                 "  %%w = getattr(%%self) name=\"w\" : f32[%d,%d%s]\n"
                                 "  %%b = getattr(%%self) name=\"b\" : f32[%d]\n"
                                 "  %%var = getattr(%%self) name=\"var\" : f32[%d]\n"
                                 "  %%k = getattr(%%self) name=\"var_k\" : f32[%d%s]\n"
                                 "  %%v0 = conv%s%dd(%%x, %%w, %s) groups=%d\n",
                                 c, spatial[n], transposed ? c : k, (transposed ? k : c) / groups,
                                 kernels[n], k, k, k, ones[n], transposed ? "_transpose" : "", n,
                                 draw(seed, 2) == 1 ? "%b" : "none", groups);
    int length = 1 + (int)draw(seed, 6);
    for (int i = 0; i < length; i++) {
        static const char *const forms[] = {"add(%v, %k)", "add(1.5, %v)",
                                            "sub(%v, %k)", "sub(%k, %v)",
                                            "mul(%v, %k)", "mul(2, %v)",
                                            "div(%v, %k)", "div(%v, 3)",
                                            "sub(2, %v)",  "batch_norm(%v, %var, %b, %b, %var)"};
        const char *form = forms[draw(seed, 10)], *v = strstr(form, "%v");
        while (v[2] == 'a') v = strstr(v + 1, "%v");
        at += (size_t)snprintf(text + at, size - at, "  %%v%d = %.*s%d%s\n", i + 1,
                               (int)(v + 2 - form), form, i, v + 2);
    }
    snprintf(text + at, size - at, "  return %%v%d\n}\n", length);
}

/* Winograd is left out, because it needs a larger tolerance. */
static void chains_by_chance_become_one_operator(void **state)
{
    context_t *ctx = fixture_context(state);
    const char *const skip[] = {"bound_errors", NULL};
    unsigned seed = 4;
    for (int round = 0; round < 60; round++) {
        char text[TEXT_MAX];
        write_chain(&seed, text, sizeof text);
        module_t *net = make_net(ctx, text), *frozen = NULL;
        frozen = freeze_and_check(ctx, net, &(freeze_options_t){.skip = skip}, "forward", 1e-5);
        const graph_block_t *body = graph_body(graph_of(frozen, "forward"));
        int n_ops = 0;
        for (int i = 0; i < body->n_nodes; i++) n_ops += body->nodes[i]->kind == NODE_OP;
        if (n_ops != 1) {
            print_error("%d operators are left of\n%s", n_ops, text);
            fail();
        }
        module_release(frozen);
        module_release(net);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(conv_bn_folding),
        TEST(conv_bn_folding_not_forward),
        TEST(conv_bn_folding_autocast_scenario_cuda),
        TEST(linear_bn_folding_autocast_scenario_cuda),
        TEST(conv_add_folding),
        TEST(a_constant_along_the_width_is_not_folded),
        TEST(conv_mul_add_bn),
        TEST(linear_bn_folding),
        TEST(bn_not_broadcast_with_linear),
        TEST(optimize_freeze_module),
        TEST(without_constant_propagation_folded_weights_are_computed_at_each_run),
        TEST(remove_dropout),
        TEST(remove_feature_dropout),
        TEST(remove_detach),
        TEST(remove_detach_not_applied),
        TEST(scalar_mul),
        TEST(freeze_mkdlnn),
        TEST(a_conv_that_winograd_takes_runs_whatever_its_weight_was_packed_for),
        TEST(chains_by_chance_become_one_operator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
