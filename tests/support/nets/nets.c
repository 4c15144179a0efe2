#include "tests/support/nets/nets.h"

#include "tests/support/support.h"

#include <stdio.h>

#include "graph/ir/graph.h"

static void add_parameter(context_t *ctx, module_t *net, const char *name, int rank,
                          const int64_t *sizes)
{
    tensor_t *tensor = NULL;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, rank, sizes, &tensor));
    CHECK_OK(ctx, module_set_parameter(ctx, net, name, tensor));
    tensor_release(tensor);
}

static void add_variance(context_t *ctx, module_t *net, const char *name, int64_t n)
{
    tensor_t *tensor = NULL;
    CHECK_OK(ctx, tensor_rand(ctx, DTYPE_F32, 1, &n, &tensor));
    float *values = NULL;
    CHECK_OK(ctx, tensor_data_mutable(ctx, tensor, (void **)&values));
    for (int64_t i = 0; i < n; i++) values[i] += 0.5f;
    CHECK_OK(ctx, module_set_buffer(ctx, net, name, tensor));
    tensor_release(tensor);
}

module_t *net_grouped(context_t *ctx)
{
    module_t *net = NULL;
    CHECK_OK(ctx, module_create(ctx, "Grouped", &net));
    add_parameter(ctx, net, "conv1", SHAPE(64, 3, 7, 7));
    add_parameter(ctx, net, "conv2", SHAPE(64, 2, 3, 3));
    add_parameter(ctx, net, "fc", SHAPE(10, 64 * 16 * 16));
    add_parameter(ctx, net, "fc_bias", SHAPE(10));
    CHECK_OK(ctx, graph_define(ctx, net,
                               "graph forward(%self : module, %x : f32[N=1,3,32,32]) {\n"
                               "  %w1 = getattr(%self) name=\"conv1\" : f32[64,3,7,7]\n"
                               "  %w2 = getattr(%self) name=\"conv2\" : f32[64,2,3,3]\n"
                               "  %w3 = getattr(%self) name=\"fc\" : f32[10,16384]\n"
                               "  %b = getattr(%self) name=\"fc_bias\" : f32[10]\n"
                               "  %1 = conv2d(%x, %w1, none) stride=[2,2] padding=[3,3]\n"
                               "  %2 = relu(%1)\n"
                               "  %3 = conv2d(%2, %w2, none) padding=[1,1] groups=32\n"
                               "  %4 = relu(%3)\n"
                               "  %5 = flatten(%4) start_dim=1\n"
                               "  %6 = linear(%5, %w3, %b)\n"
                               "  return %6\n}\n"));
    return net;
}

module_t *net_residual(context_t *ctx)
{
    module_t *net = NULL;
    CHECK_OK(ctx, module_create(ctx, "Residual", &net));
    add_parameter(ctx, net, "conv1", SHAPE(32, 3, 3, 3));
    add_parameter(ctx, net, "conv2", SHAPE(32, 32, 3, 3));
    add_parameter(ctx, net, "weight", SHAPE(32));
    add_parameter(ctx, net, "bias", SHAPE(32));
    add_parameter(ctx, net, "mean", SHAPE(32));
    add_variance(ctx, net, "var", 32);
    CHECK_OK(ctx, graph_define(ctx, net,
                               "graph forward(%self : module, %x : f32[N=1,3,32,32]) {\n"
                               "  %w1 = getattr(%self) name=\"conv1\" : f32[32,3,3,3]\n"
                               "  %w2 = getattr(%self) name=\"conv2\" : f32[32,32,3,3]\n"
                               "  %w = getattr(%self) name=\"weight\" : f32[32]\n"
                               "  %b = getattr(%self) name=\"bias\" : f32[32]\n"
                               "  %m = getattr(%self) name=\"mean\" : f32[32]\n"
                               "  %v = getattr(%self) name=\"var\" : f32[32]\n"
                               "  %1 = conv2d(%x, %w1, none) padding=[1,1]\n"
                               "  %2 = relu(%1)\n"
                               "  %3 = conv2d(%2, %w2, none) padding=[1,1]\n"
                               "  %4 = batch_norm(%3, %w, %b, %m, %v)\n"
                               "  %5 = add(%4, %2)\n"
                               "  %6 = relu(%5)\n"
                               "  return %6\n}\n"));
    return net;
}

module_t *net_sum(context_t *ctx, int64_t batch)
{
    char text[1024];
    module_t *net = NULL;
    CHECK_OK(ctx, module_create(ctx, "Sum", &net));
    add_parameter(ctx, net, "first", SHAPE(96, 1, 3, 3));
    add_parameter(ctx, net, "second", SHAPE(96, 1, 3, 3));
    add_parameter(ctx, net, "project", SHAPE(96, 96, 1, 1));
    snprintf(text, sizeof text,
             "graph forward(%%self : module, %%x : f32[%d,96,32,32]) {\n"
             "  %%w1 = getattr(%%self) name=\"first\" : f32[96,1,3,3]\n"
             "  %%w2 = getattr(%%self) name=\"second\" : f32[96,1,3,3]\n"
             "  %%w3 = getattr(%%self) name=\"project\" : f32[96,96,1,1]\n"
             "  %%y = conv2d(%%x, %%w1, none) padding=[1,1] groups=96\n"
             "  %%1 = conv2d(%%y, %%w2, none) padding=[1,1] groups=96\n"
             "  %%2 = conv2d(%%1, %%w3, none)\n"
             "  %%3 = add(%%2, %%y)\n"
             "  %%4 = relu(%%3)\n"
             "  %%5 = max_pool2d(%%4) kernel=[2,2] stride=[2,2]\n"
             "  return %%5\n}\n",
             (int)batch);
    CHECK_OK(ctx, graph_define(ctx, net, text));
    return net;
}

tensor_t *net_input(context_t *ctx, int64_t batch)
{
    tensor_t *x = NULL;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(batch, 3, 32, 32), &x));
    return x;
}

void net_compare(context_t *ctx, module_t *module, const tensor_t *x, const tensor_t *y)
{
    for (int64_t i = 0; i < tensor_sizes(x)[0]; i++) {
        tensor_t *image = NULL, *expected = NULL, *actual = NULL;
        double difference = 1.0;
        CHECK_OK(ctx, tensor_narrow(ctx, x, 0, i, 1, &image));
        CHECK_OK(ctx, module_forward(ctx, module, image, &expected));
        CHECK_OK(ctx, tensor_narrow(ctx, y, 0, i, 1, &actual));
        CHECK_OK(ctx, tensor_max_rel_diff(ctx, actual, expected, &difference));
        assert_true(difference < 1e-5);
        tensor_release(image);
        tensor_release(expected);
        tensor_release(actual);
    }
}

status_t net_forward_transformer(context_t *ctx, module_t *self, int n_in,
                                 const tensor_t *const *in, int *n_out, tensor_t **out)
{
    tensor_t *x = NULL, *mean = NULL;
    (void)n_in;
    *n_out = 1;
    (void)module_run_child(ctx, self, "embedding", in[0], &x);
    (void)module_run_child(ctx, self, "layers", x, &x);
    (void)module_run_child(ctx, self, "norm", x, &x);
    (void)op_mean(ctx, x, 1, (const int64_t[]){1}, false, &mean);
    return module_run_child(ctx, self, "fc", mean, out);
}
