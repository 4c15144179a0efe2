/* Shows what constant propagation (computing constant parts of a graph once) does, and what it
 * needs.
 *
 *   1  foo(x): a chain of numbers becomes one constant
 *   2  conv, batch norm, relu: without constant propagation, each inference computes the folded
 *      weight; with it, the folded weight is a constant
 *   3  the same network with `training` not frozen: batch norm stays under `if`, and
 *      freeze_explain reports why */
#include <stdio.h>
#include <stdlib.h>
#include <tessera.h>
#include <time.h>

static void check(context_t *ctx, status_t status)
{
    if (status == STATUS_OK) return;
    fprintf(stderr, "const_prop: %s\n", context_error(ctx));
    exit(EXIT_FAILURE);
}

static void print_graph(context_t *ctx, const char *title, const graph_t *graph)
{
    text_t text = text_begin(ctx);
    check(ctx, graph_print(ctx, graph, NULL, &text));
    printf("%s\n\n%s\n", title, text_string(&text));
    text_clear(&text);
}

/* ---- 1. numbers ---- */

static void show_numbers(context_t *ctx)
{
    static const char text[] = "graph foo(%self : module, %x : f32[10]) {\n"
                               "  %a = scalar_add(1, 2)\n"
                               "  %b = scalar_add(%a, 3)\n"
                               "  %c = scalar_add(%b, 4)\n"
                               "  %1 = add(%x, %c)\n"
                               "  return %1\n}\n";
    module_t *net = NULL;
    graph_t *graph = NULL;
    tensor_t *x = NULL;
    check(ctx, module_create(ctx, "Foo", &net));
    check(ctx, graph_define(ctx, net, text));
    check(ctx, tensor_rand(ctx, DTYPE_F32, SHAPE(10), &x));
    print_graph(ctx, "1. foo, as written", graph_of(net, "foo"));
    check(ctx, graph_for(ctx, net, "foo", 1, (const tensor_t *[]){x}, &graph));
    print_graph(ctx, "foo, optimised for f32[10]", graph);
    graph_release(graph);
    module_release(net);
}

/* ---- conv, batch norm, relu ---- */

/* Batch norm as in torch.nn.functional: with the batch's statistics in training, otherwise with the
 * running ones. */
static const char norm_text[] =
    "graph forward(%self : module, %x : f32[1,32,6,6]) {\n"
    "  %weight = getattr(%self) name=\"weight\" : f32[32]\n"
    "  %bias = getattr(%self) name=\"bias\" : f32[32]\n"
    "  %training = getattr(%self) name=\"training\" : bool\n"
    "  %result = if(%training) {\n"
    "    %mean = mean(%x) dims=[0,2,3] : f32[32]\n"
    "    %centre = mean(%x) dims=[0,2,3] keepdim=true : f32[1,32,1,1]\n"
    "    %distance = sub(%x, %centre) : f32[1,32,6,6]\n"
    "    %square = mul(%distance, %distance) : f32[1,32,6,6]\n"
    "    %var = mean(%square) dims=[0,2,3] : f32[32]\n"
    "    %1 = batch_norm(%x, %weight, %bias, %mean, %var) epsilon=0.001 : f32[1,32,6,6]\n"
    "    yield %1\n"
    "  } else {\n"
    "    %running_mean = getattr(%self) name=\"running_mean\" : f32[32]\n"
    "    %running_var = getattr(%self) name=\"running_var\" : f32[32]\n"
    "    %2 = batch_norm(%x, %weight, %bias, %running_mean, %running_var) epsilon=0.001"
    " : f32[1,32,6,6]\n"
    "    yield %2\n"
    "  } : f32[1,32,6,6]\n"
    "  return %result\n}\n";

static const char net_text[] = "graph forward(%self : module, %x : f32[1,3,8,8]) {\n"
                               "  %w = getattr(%self) name=\"conv.weight\" : f32[32,3,3,3]\n"
                               "  %1 = conv2d(%x, %w, none) : f32[1,32,6,6] at \"conv\"\n"
                               "  %bn = getattr(%self) name=\"bn\" : module\n"
                               "  %2 = call(%bn, %1) method=\"forward\" : f32[1,32,6,6]\n"
                               "  %3 = relu(%2) : f32[1,32,6,6]\n"
                               "  return %3\n}\n";

static module_t *conv_bn_relu(context_t *ctx)
{
    module_t *net = NULL, *conv = NULL, *norm = NULL;
    check(ctx, module_create(ctx, "Conv2dBnRelu", &net));
    check(ctx, layer_conv2d(ctx, 3, 32, 3, NULL, false, &conv));
    check(ctx, module_set_child(ctx, net, "conv", conv));
    check(ctx, layer_batch_norm(ctx, 32, 1e-3, &norm));
    check(ctx, module_remove(ctx, norm, "forward"));
    check(ctx, graph_define(ctx, norm, norm_text));
    check(ctx, module_set_child(ctx, net, "bn", norm));
    check(ctx, graph_define(ctx, net, net_text));
    module_release(norm);
    module_release(conv);
    return net;
}

static void freeze_all_params(context_t *ctx, module_t *net)
{
    static const char *const params[] = {"weight", "bias", "running_mean", "running_var"};
    for (int i = 0; i < 4; i++) check(ctx, freeze_params(ctx, net, "forward", params[i]));
}

/* Passes to skip. Without bound_errors no convolution uses Winograd, so results are comparable. */
static const char *const propagation_off[] = {"constant_propagation", "bound_errors", NULL};
static const char *const propagation_on[] = {"bound_errors", NULL};

/* Returns a copy of the module whose method runs the graph after the passes. */
static module_t *optimized(context_t *ctx, const module_t *net, const char *const *skip)
{
    module_t *copy = NULL;
    graph_t *graph = NULL;
    check(ctx, module_clone(ctx, net, &copy));
    check(ctx, pass_run(ctx, graph_of(copy, "forward"), pass_pipeline_optimize(),
                        &(pass_options_t){.self = copy, .skip = skip}, &graph));
    check(ctx, plan_set_method(ctx, copy, "forward", graph, 0));
    graph_release(graph);
    return copy;
}

static double seconds(void)
{
    struct timespec now;
    (void)timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Returns the time of the fastest of 100 inferences in microseconds. The scope owns *out. */
static double measure(context_t *ctx, module_t *net, const tensor_t *x, tensor_t **out)
{
    double best = 0;
    for (int i = 0; i < 100; i++) {
        double begin = seconds();
        check(ctx, module_forward(ctx, net, x, out));
        double time = (seconds() - begin) * 1e6;
        if (i == 0 || time < best) best = time;
    }
    return best;
}

static void show_folding(context_t *ctx, const tensor_t *x)
{
    module_t *net = conv_bn_relu(ctx);
    tensor_t *expected = NULL, *y[2];
    double difference[2] = {1, 1}, time[2];
    check(ctx, module_forward(ctx, net, x, &expected));
    print_graph(ctx, "2. conv, batch norm, relu, as written", graph_of(net, "forward"));
    freeze_all_params(ctx, net);
    check(ctx, freeze_flags(ctx, net, "forward", "training", false));
    print_graph(ctx, "parameters and flags frozen", graph_of(net, "forward"));
    module_t *without = optimized(ctx, net, propagation_off);
    module_t *with = optimized(ctx, net, propagation_on);
    print_graph(ctx, "optimised, constant propagation off", graph_of(without, "forward"));
    print_graph(ctx, "optimised, constant propagation on", graph_of(with, "forward"));
    time[0] = measure(ctx, without, x, &y[0]);
    time[1] = measure(ctx, with, x, &y[1]);
    for (int i = 0; i < 2; i++)
        check(ctx, tensor_max_rel_diff(ctx, y[i], expected, &difference[i]));
    printf("one inference: off %.1f us, on %.1f us; the results are %s\n\n", time[0], time[1],
           difference[0] < 1e-5 && difference[1] < 1e-5 ? "the same" : "OTHERS");
    module_release(without);
    module_release(with);
    module_release(net);
}

/* ---- 3. flags that are not frozen ---- */

static void show_flags(context_t *ctx)
{
    static const char *const preserved[] = {"bn.training", NULL};
    module_t *net = conv_bn_relu(ctx), *frozen = NULL, *folded = NULL;
    text_t why = text_begin(ctx);
    check(ctx, freeze(ctx, net, &(freeze_options_t){.preserved = preserved}, &frozen));
    freeze_all_params(ctx, net);
    folded = optimized(ctx, net, propagation_on);
    print_graph(ctx, "3. parameters frozen, flags not, optimised", graph_of(folded, "forward"));
    check(ctx, freeze_explain(ctx, frozen, &why));
    printf("and freeze, told to preserve the flag, explains what is left:\n\n%s",
           text_string(&why));
    text_clear(&why);
    module_release(folded);
    module_release(frozen);
    module_release(net);
}

int main(void)
{
    context_t *ctx = NULL;
    tensor_t *x = NULL;
    if (context_create(NULL, &ctx) != STATUS_OK) return EXIT_FAILURE;
    check(ctx, scope_begin(ctx));
    check(ctx, tensor_rand(ctx, DTYPE_F32, SHAPE(1, 3, 8, 8), &x));
    show_numbers(ctx);
    show_folding(ctx, x);
    show_flags(ctx);
    check(ctx, scope_end(ctx));
    context_destroy(ctx);
    return EXIT_SUCCESS;
}
