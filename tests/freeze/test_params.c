#include "freeze/freeze.h"

#include "tests/support/support.h"

#include <stdio.h>
#include <string.h>

#include "graph/passes/pass.h"

/* ---- modules ---- */

static status_t add_tensor(context_t *ctx, module_t *module, const char *name, bool is_buffer,
                           int rank, const int64_t *sizes)
{
    tensor_t *tensor = NULL;
    TRY(tensor_rand(ctx, DTYPE_F32, rank, sizes, &tensor));
    status_t status = is_buffer ? module_set_buffer(ctx, module, name, tensor)
                                : module_set_parameter(ctx, module, name, tensor);
    tensor_release(tensor);
    return status;
}

static status_t add_child_take(context_t *ctx, module_t *module, const char *name, module_t *child,
                               const char *text)
{
    status_t status = graph_define(ctx, child, text);
    if (status == STATUS_OK) status = module_set_child(ctx, module, name, child);
    module_release(child);
    return status;
}

static status_t add_conv(context_t *ctx, module_t *module, const char *name, int64_t channels)
{
    module_t *conv = NULL;
    TRY(module_create(ctx, "Conv2d", &conv));
    status_t status = add_tensor(ctx, conv, "weight", false, SHAPE(8, channels, 3, 3));
    if (status == STATUS_OK) status = module_set_parameter(ctx, conv, "bias", NULL);
    if (status != STATUS_OK) {
        module_release(conv);
        return status;
    }
    return add_child_take(ctx, module, name, conv,
                          "graph forward(%self : module, %x : tensor) {\n"
                          "  %weight = getattr(%self) name=\"weight\" : tensor\n"
                          "  %bias = getattr(%self) name=\"bias\" : tensor?\n"
                          "  %1 = conv2d(%x, %weight, %bias) : tensor\n"
                          "  return %1\n}\n");
}

static status_t add_batch_norm(context_t *ctx, module_t *module, const char *name)
{
    module_t *norm = NULL;
    TRY(module_create(ctx, "BatchNorm2d", &norm));
    status_t status = add_tensor(ctx, norm, "weight", false, SHAPE(8));
    if (status == STATUS_OK) status = add_tensor(ctx, norm, "bias", false, SHAPE(8));
    if (status == STATUS_OK) status = add_tensor(ctx, norm, "running_mean", true, SHAPE(8));
    if (status == STATUS_OK) status = add_tensor(ctx, norm, "running_var", true, SHAPE(8));
    if (status != STATUS_OK) {
        module_release(norm);
        return status;
    }
    return add_child_take(ctx, module, name, norm,
                          "graph forward(%self : module, %x : tensor) {\n"
                          "  %1 = getattr(%self) name=\"weight\" : tensor\n"
                          "  %2 = getattr(%self) name=\"bias\" : tensor\n"
                          "  %3 = getattr(%self) name=\"running_mean\" : tensor\n"
                          "  %4 = getattr(%self) name=\"running_var\" : tensor\n"
                          "  %5 = batch_norm(%x, %1, %2, %3, %4) : tensor\n"
                          "  return %5\n}\n");
}

/* Makes a module that has a linear layer, and a conv and a batch norm two levels down. */
static status_t make_net(context_t *ctx, module_t **out_net)
{
    module_t *net = NULL, *block = NULL;
    TRY(module_create(ctx, "Block", &block));
    status_t status = add_conv(ctx, block, "conv", 3);
    if (status == STATUS_OK) status = add_batch_norm(ctx, block, "norm");
    if (status == STATUS_OK)
        status = graph_define(ctx, block,
                              "graph forward(%self : module, %x : tensor) {\n"
                              "  %c = getattr(%self) name=\"conv\" : module\n"
                              "  %1 = call(%c, %x) method=\"forward\" : tensor\n"
                              "  %n = getattr(%self) name=\"norm\" : module\n"
                              "  %2 = call(%n, %1) method=\"forward\" : tensor\n"
                              "  return %2\n}\n");
    if (status == STATUS_OK) status = module_create(ctx, "Net", &net);
    if (status == STATUS_OK) status = module_set_child(ctx, net, "block", block);
    module_release(block);
    if (status == STATUS_OK) status = add_tensor(ctx, net, "weight", false, SHAPE(4, 8));
    if (status == STATUS_OK)
        status = graph_define(ctx, net,
                              "graph forward(%self : module, %x : f32[1,3,3,3]) {\n"
                              "  %b = getattr(%self) name=\"block\" : module\n"
                              "  %1 = call(%b, %x) method=\"forward\" : tensor\n"
                              "  %2 = flatten(%1) start_dim=1 : tensor\n"
                              "  %w = getattr(%self) name=\"weight\" : f32[4,8]\n"
                              "  %3 = linear(%2, %w, none) : tensor\n"
                              "  return %3\n}\n");
    if (status != STATUS_OK) {
        module_release(net);
        return status;
    }
    *out_net = net;
    return STATUS_OK;
}

static module_t *net_of(context_t *ctx)
{
    module_t *net = NULL;
    CHECK_OK(ctx, make_net(ctx, &net));
    return net;
}

/* Makes a module with tensors "weight" [8,8,3,3], "bias" and "stat" [8], and this method. */
static module_t *module_of(context_t *ctx, const char *text)
{
    module_t *module = NULL;
    CHECK_OK(ctx, module_create(ctx, "Net", &module));
    CHECK_OK(ctx, add_tensor(ctx, module, "weight", false, SHAPE(8, 8, 3, 3)));
    CHECK_OK(ctx, add_tensor(ctx, module, "bias", false, SHAPE(8)));
    CHECK_OK(ctx, add_tensor(ctx, module, "stat", true, SHAPE(8)));
    CHECK_OK(ctx, graph_define(ctx, module, text));
    return module;
}

/* ---- helpers ---- */

static int count(const char *text, const char *part)
{
    int n = 0;
    for (; (text = strstr(text, part)) != NULL; text++) n++;
    return n;
}

/* Counts occurrences of `part` in the text of forward. */
static int occurs(context_t *ctx, const module_t *module, const char *part)
{
    text_t text = text_begin(ctx);
    CHECK_OK(ctx, graph_print(ctx, graph_of(module, "forward"), NULL, &text));
    int n = count(text_string(&text), part);
    text_clear(&text);
    return n;
}

static tensor_t *run(context_t *ctx, module_t *module, const tensor_t *x)
{
    tensor_t *y = NULL;
    CHECK_OK(ctx, module_forward(ctx, module, x, &y));
    return y;
}

static double differ(context_t *ctx, tensor_t *a, tensor_t *b)
{
    double difference = 1.0;
    CHECK_OK(ctx, tensor_max_rel_diff(ctx, a, b, &difference));
    tensor_release(a);
    tensor_release(b);
    return difference;
}

static tensor_t *image(context_t *ctx)
{
    tensor_t *x = NULL;
    CHECK_OK(ctx, tensor_rand(ctx, DTYPE_F32, SHAPE(1, 3, 3, 3), &x));
    return x;
}

/* ---- parameters ---- */

static void only_what_convolutions_and_batch_norms_take_becomes_constant(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = net_of(ctx);
    CHECK_OK(ctx, freeze_params(ctx, net, "forward", "weight"));
    assert_int_equal(occurs(ctx, net, "%block.conv.weight = constant()"), 1);
    assert_int_equal(occurs(ctx, net, "%block.norm.weight = constant()"), 1);
    assert_int_equal(occurs(ctx, net, "getattr(%self) name=\"weight\""), 1); /* the linear one */
    assert_int_equal(occurs(ctx, net, "name=\"block.norm.bias\""), 1);
    assert_int_equal(occurs(ctx, net, "= constant()"), 2);
    CHECK_OK(ctx, freeze_params(ctx, net, "forward", "running_mean"));
    CHECK_OK(ctx, freeze_params(ctx, net, "forward", "running_var"));
    assert_int_equal(occurs(ctx, net, ".running_mean = constant()"), 1);
    assert_int_equal(occurs(ctx, net, ".running_var = constant()"), 1);
    CHECK_OK(ctx, freeze_params(ctx, net, "forward", "bias"));
    assert_int_equal(occurs(ctx, net, "= getattr"), 1);
    module_release(net);
}

static void an_absent_bias_becomes_none(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = net_of(ctx);
    CHECK_OK(ctx, freeze_params(ctx, net, "forward", "weight"));
    assert_int_equal(occurs(ctx, net, "name=\"block.conv.bias\""), 1);
    CHECK_OK(ctx, freeze_params(ctx, net, "forward", "bias"));
    assert_int_equal(occurs(ctx, net, "conv2d(%x, %block.conv.weight, none)"), 1);
    module_release(net);
}

static void the_method_computes_what_it_did_and_later_writes_do_not_show(void **state)
{
    static const char *const params[] = {"weight", "bias", "running_mean", "running_var"};
    context_t *ctx = fixture_context(state);
    module_t *net = net_of(ctx);
    tensor_t *x = image(ctx), *before = run(ctx, net, x);
    for (int i = 0; i < 4; i++) CHECK_OK(ctx, freeze_params(ctx, net, "forward", params[i]));
    assert_true(differ(ctx, run(ctx, net, x), tensor_retain(before)) == 0.0);
    CHECK_OK(ctx, tensor_fill(ctx, module_parameter(net, "block.conv.weight"), 2.0));
    CHECK_OK(ctx, tensor_fill(ctx, module_buffer(net, "block.norm.running_mean"), 2.0));
    assert_true(differ(ctx, run(ctx, net, x), tensor_retain(before)) == 0.0);
    CHECK_OK(ctx, tensor_fill(ctx, module_parameter(net, "weight"), 2.0));
    assert_true(differ(ctx, run(ctx, net, x), before) > 0.0);
    tensor_release(x);
    module_release(net);
}

static void conversions_are_looked_through(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = module_of(ctx, "graph forward(%self : module, %x : f32[1,8,4,4]) {\n"
                                   "  %1 = getattr(%self) name=\"weight\" : f32[8,8,3,3]\n"
                                   "  %2 = reorder(%1) format=\"ABcd8b8a\"\n"
                                   "  %3 = conv2d(%x, %2, none)\n"
                                   "  %4 = getattr(%self) name=\"bias\" : f32[8]\n"
                                   "  %5 = to_mkldnn(%4)\n"
                                   "  %6 = to_dense(%5)\n"
                                   "  %7 = getattr(%self) name=\"stat\" : f32[8]\n"
                                   "  %8 = batch_norm(%3, none, %6, %7, %7)\n"
                                   "  return %8\n}\n");
    CHECK_OK(ctx, freeze_params(ctx, net, "forward", "weight"));
    assert_int_equal(occurs(ctx, net, "%weight = constant()"), 1);
    assert_int_equal(occurs(ctx, net, "= reorder(%"), 1);
    CHECK_OK(ctx, freeze_params(ctx, net, "forward", "bias"));
    assert_int_equal(occurs(ctx, net, "%bias = constant()"), 1);
    assert_int_equal(occurs(ctx, net, "= getattr"), 1);
    CHECK_OK(ctx, freeze_params(ctx, net, "forward", "running_mean"));
    assert_int_equal(occurs(ctx, net, "= getattr"), 0); /* both uses read the same constant */
    module_release(net);
}

static void fused_transposed_and_other_convolutions_count(void **state)
{
    static const char *const texts[] = {
        "graph forward(%self : module, %x : f32[1,8,4,4]) {\n"
        "  %1 = getattr(%self) name=\"weight\" : f32[8,8,3,3]\n"
        "  %2 = conv2d(%x, %1, none; %x) post=[\"add\",\"relu\"] padding=[1,1]\n"
        "  return %2\n}\n",
        "graph forward(%self : module, %x : f32[1,8,4,4]) {\n"
        "  %1 = getattr(%self) name=\"weight\" : f32[8,8,3,3]\n"
        "  %2 = conv_transpose2d(%x, %1, none)\n"
        "  return %2\n}\n",
        "graph forward(%self : module, %x : f32[1,8,3]) {\n"
        "  %1 = getattr(%self) name=\"weight1\" : f32[2,8,3]\n"
        "  %2 = conv1d(%x, %1, none)\n"
        "  return %2\n}\n",
        "graph forward(%self : module, %x : f32[1,2,3,3,3]) {\n"
        "  %1 = getattr(%self) name=\"weight3\" : f32[2,2,3,3,3]\n"
        "  %2 = conv3d(%x, %1, none)\n"
        "  return %2\n}\n"};
    context_t *ctx = fixture_context(state);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        module_t *net = module_of(ctx, texts[i]);
        CHECK_OK(ctx, add_tensor(ctx, net, "weight1", false, SHAPE(2, 8, 3)));
        CHECK_OK(ctx, add_tensor(ctx, net, "weight3", false, SHAPE(2, 2, 3, 3, 3)));
        CHECK_OK(ctx, freeze_params(ctx, net, "forward", "weight"));
        assert_int_equal(occurs(ctx, net, "= getattr"), 0);
        module_release(net);
    }
}

static void parameters_of_folded_batch_norms_are_reported_by_name(void **state)
{
    static const char *const params[] = {"running_mean", "running_var", "bias", "weight"};
    static const char *const members[] = {"mean", "variance", "bias", "scale"};
    context_t *ctx = fixture_context(state);
    module_t *net = module_of(ctx, "graph forward(%self : module, %x : f32[1,8,4,4]) {\n"
                                   "  %1 = getattr(%self) name=\"weight\" : f32[8,8,3,3]\n"
                                   "  %scale = getattr(%self) name=\"scale\" : f32[8]\n"
                                   "  %variance = getattr(%self) name=\"variance\" : f32[8]\n"
                                   "  %shift = getattr(%self) name=\"bias\" : f32[8]\n"
                                   "  %mean = getattr(%self) name=\"mean\" : f32[8]\n"
                                   "  %2 = fold_weight(%1, %scale, %variance)\n"
                                   "  %3 = fold_bias(%1, none, %scale, %shift, %mean, %variance)\n"
                                   "  %4 = conv2d(%x, %2, %3)\n"
                                   "  return %4\n}\n");
    CHECK_OK(ctx, add_tensor(ctx, net, "scale", false, SHAPE(8)));
    CHECK_OK(ctx, add_tensor(ctx, net, "variance", true, SHAPE(8)));
    CHECK_OK(ctx, add_tensor(ctx, net, "mean", true, SHAPE(8)));
    for (int i = 0; i < 4; i++) {
        char getattr[64];
        snprintf(getattr, sizeof getattr, "name=\"%s\"", members[i]);
        assert_int_equal(occurs(ctx, net, getattr), 1);
        CHECK_OK(ctx, freeze_params(ctx, net, "forward", params[i]));
        assert_int_equal(occurs(ctx, net, getattr), 0);
        assert_int_equal(occurs(ctx, net, "= getattr"), i == 3 ? 0 : 4 - i);
    }
    module_release(net);
}

static void a_written_attribute_stays_an_attribute(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = module_of(ctx, "graph forward(%self : module, %x : f32[1,8,4,4]) {\n"
                                   "  %1 = getattr(%self) name=\"stat\" : f32[8]\n"
                                   "  %2 = add_(%1, 1.0)\n"
                                   "  %3 = batch_norm(%x, none, none, %1, %1)\n"
                                   "  return %3\n}\n");
    CHECK_OK(ctx, freeze_params(ctx, net, "forward", "running_mean"));
    assert_int_equal(occurs(ctx, net, "= getattr"), 1);
    module_release(net);
}

static void an_attribute_that_another_method_writes_stays(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = module_of(ctx, "graph forward(%self : module, %x : f32[1,8,4,4]) {\n"
                                   "  %1 = getattr(%self) name=\"stat\" : f32[8]\n"
                                   "  %2 = batch_norm(%x, none, none, %1, %1)\n"
                                   "  return %2\n}\n");
    CHECK_OK(ctx, graph_define(ctx, net,
                               "graph reset(%self : module, %x : f32[8]) {\n"
                               "  setattr(%self, %x) name=\"stat\"\n"
                               "  return\n}\n"));
    CHECK_OK(ctx, freeze_params(ctx, net, "forward", "running_mean"));
    assert_int_equal(occurs(ctx, net, "= getattr"), 1);
    module_release(net);
}

static void tensors_that_lie_in_one_storage_are_frozen_one_by_one(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = module_of(ctx, "graph forward(%self : module, %x : f32[1,8,4,4]) {\n"
                                   "  %1 = getattr(%self) name=\"stat\" : f32[8]\n"
                                   "  %2 = getattr(%self) name=\"bias\" : f32[8]\n"
                                   "  %3 = batch_norm(%x, none, %2, %1, %1)\n"
                                   "  return %3\n}\n");
    tensor_t *both = NULL, *half = NULL;
    CHECK_OK(ctx, tensor_rand(ctx, DTYPE_F32, SHAPE(16), &both));
    CHECK_OK(ctx, tensor_narrow(ctx, both, 0, 0, 8, &half));
    CHECK_OK(ctx, module_set_parameter(ctx, net, "bias", half));
    tensor_release(half);
    CHECK_OK(ctx, tensor_narrow(ctx, both, 0, 8, 8, &half));
    CHECK_OK(ctx, module_set_buffer(ctx, net, "stat", half));
    tensor_release(half);
    tensor_release(both);
    CHECK_OK(ctx, freeze_params(ctx, net, "forward", "bias"));
    assert_int_equal(occurs(ctx, net, "%bias = constant()"), 1);
    assert_int_equal(occurs(ctx, net, "= getattr"), 1);
    module_release(net);
}

static void other_names_and_methods_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = net_of(ctx), *bare = NULL;
    const graph_t *graph = graph_of(net, "forward");
    CHECK_FAILS(ctx, freeze_params(ctx, net, "forward", "gamma"), STATUS_INVALID_ARGUMENT,
                "freeze_params: \"gamma\", Invalid Param Name");
    CHECK_FAILS(ctx, freeze_params(ctx, net, "backward", "weight"), STATUS_INVALID_ARGUMENT,
                "freeze_params: Net has no graph method \"backward\"");
    CHECK_OK(ctx, module_create(ctx, "Bare", &bare));
    CHECK_FAILS(ctx, freeze_flags(ctx, bare, "forward", "training", false), STATUS_INVALID_ARGUMENT,
                "freeze_flags: Bare has no graph method \"forward\"");
    assert_ptr_equal(graph_of(net, "forward"), graph);
    module_release(bare);
    module_release(net);
}

/* ---- flags ---- */

#define LAYER                                                                                      \
    "graph forward(%self : module, %x : tensor) {\n"                                               \
    "  %t = getattr(%self) name=\"training\" : bool\n"                                             \
    "  %1 = if(%t) {\n"                                                                            \
    "    %2 = neg(%x) : tensor\n"                                                                  \
    "    yield %2\n"                                                                               \
    "  } else {\n"                                                                                 \
    "    %u = getattr(%self) name=\"training\" : bool\n"                                           \
    "    %3 = if(%u) {\n"                                                                          \
    "      %4 = exp(%x) : tensor\n"                                                                \
    "      yield %4\n"                                                                             \
    "    } else {\n"                                                                               \
    "      %5 = relu(%x) : tensor\n"                                                               \
    "      yield %5\n"                                                                             \
    "    } : tensor\n"                                                                             \
    "    yield %3\n"                                                                               \
    "  } : tensor\n"                                                                               \
    "  return %1\n}\n"

static module_t *net_with_flags(context_t *ctx)
{
    module_t *net = NULL, *layer = NULL;
    CHECK_OK(ctx, module_create(ctx, "Net", &net));
    CHECK_OK(ctx, module_create(ctx, "Layer", &layer));
    CHECK_OK(ctx, add_child_take(ctx, net, "layer", layer, LAYER));
    CHECK_OK(ctx, graph_define(ctx, net,
                               "graph forward(%self : module, %x : f32[4]) {\n"
                               "  %l = getattr(%self) name=\"layer\" : module\n"
                               "  %1 = call(%l, %x) method=\"forward\" : tensor\n"
                               "  %t = getattr(%self) name=\"training\" : bool\n"
                               "  return %1, %t\n}\n"));
    return net;
}

static void a_flag_decides_every_if_that_asks_it(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = net_with_flags(ctx);
    CHECK_OK(ctx, module_train(ctx, net, true));
    CHECK_OK(ctx, freeze_flags(ctx, net, "forward", "training", false));
    assert_int_equal(occurs(ctx, net, "if("), 0);
    assert_int_equal(occurs(ctx, net, "relu(%x)"), 1);
    assert_int_equal(occurs(ctx, net, "neg(") + occurs(ctx, net, "exp("), 0);
    module_release(net);
    net = net_with_flags(ctx);
    CHECK_OK(ctx, freeze_flags(ctx, net, "forward", "training", true));
    assert_int_equal(occurs(ctx, net, "neg(%x)"), 1);
    assert_int_equal(occurs(ctx, net, "if("), 0);
    module_release(net);
}

static void other_uses_of_a_flag_stay(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = net_with_flags(ctx);
    CHECK_OK(ctx, freeze_flags(ctx, net, "forward", "training", false));
    assert_int_equal(occurs(ctx, net, "getattr(%self) name=\"training\""), 1);
    assert_int_equal(occurs(ctx, net, "name=\"layer.training\""), 0);
    assert_true(datum_kind(module_attribute(net, "layer.training")) == DATUM_BOOL);
    module_release(net);
}

static void other_conditions_stay(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = net_with_flags(ctx);
    CHECK_OK(ctx, freeze_flags(ctx, net, "forward", "train", false));
    assert_int_equal(occurs(ctx, net, "if("), 2);
    CHECK_OK(ctx, graph_define(ctx, net,
                               "graph forward(%self : module, %x : f32[4]) {\n"
                               "  %t = getattr(%self) name=\"training\" : bool\n"
                               "  %n = scalar_not(%t)\n"
                               "  %1 = if(%n) {\n"
                               "    %2 = neg(%x)\n"
                               "    yield %2\n"
                               "  } else {\n"
                               "    yield %x\n"
                               "  } : tensor\n"
                               "  return %1\n}\n"));
    CHECK_OK(ctx, freeze_flags(ctx, net, "forward", "training", false));
    assert_int_equal(occurs(ctx, net, "if("), 1);
    module_release(net);
}

/* ---- memory ---- */

static status_t scenario(context_t *ctx)
{
    module_t *net = NULL;
    TRY(make_net(ctx, &net));
    status_t status = freeze_params(ctx, net, "forward", "weight");
    if (status == STATUS_OK) status = freeze_flags(ctx, net, "forward", "training", false);
    module_release(net);
    return status;
}

static void every_failing_allocation_is_a_status(void **state)
{
    (void)state;
    check_every_allocation(scenario);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(only_what_convolutions_and_batch_norms_take_becomes_constant),
        TEST(an_absent_bias_becomes_none),
        TEST(the_method_computes_what_it_did_and_later_writes_do_not_show),
        TEST(conversions_are_looked_through),
        TEST(fused_transposed_and_other_convolutions_count),
        TEST(parameters_of_folded_batch_norms_are_reported_by_name),
        TEST(a_written_attribute_stays_an_attribute),
        TEST(an_attribute_that_another_method_writes_stays),
        TEST(tensors_that_lie_in_one_storage_are_frozen_one_by_one),
        TEST(other_names_and_methods_are_refused),
        TEST(a_flag_decides_every_if_that_asks_it),
        TEST(other_uses_of_a_flag_stay),
        TEST(other_conditions_stay),
        cmocka_unit_test(every_failing_allocation_is_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
