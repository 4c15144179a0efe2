/* Follows the weights of two convolutions as they become blocked constants.
 *
 * The network is conv, batch norm, relu, twice. After each step the program prints the graph, and
 * how many weights an inference reorders to another format:
 *
 *   1  traced         conv2d reads the result of getattr: one kernel reorders it each time, the
 *                     other reads it without a reorder
 *   2  layout         the reorder is a separate node, which still runs each time
 *   3  freeze_params  the weight is a constant; its reorder still runs each time
 *   4  fold_reorders  the reorder ran once: the constant is blocked
 *   5  folded         batch norm is folded into the weights, and relu into the convolution */
#include <stdio.h>
#include <stdlib.h>
#include <tessera.h>

static void check(context_t *ctx, status_t status)
{
    if (status == STATUS_OK) return;
    fprintf(stderr, "freeze_params: %s\n", context_error(ctx));
    exit(EXIT_FAILURE);
}

/* ---- the network ---- */

static status_t forward(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                        int *n_out, tensor_t **out)
{
    static const char *const layers[2][2] = {{"conv1", "bn1"}, {"conv2", "bn2"}};
    tensor_t *x = NULL;
    (void)n_in;
    for (int i = 0; i < 2; i++) {
        tensor_t *convolved = NULL, *normed = NULL;
        (void)module_run_child(ctx, self, layers[i][0], i == 0 ? in[0] : x, &convolved);
        (void)module_run_child(ctx, self, layers[i][1], convolved, &normed);
        (void)op_relu(ctx, normed, &x); /* context_status returns the first failure */
    }
    out[0] = x;
    *n_out = 1;
    return context_status(ctx);
}

static void add_take(context_t *ctx, module_t *net, const char *name, module_t *layer)
{
    check(ctx, module_set_child(ctx, net, name, layer));
    module_release(layer);
}

static module_t *cascaded_conv_bn_relu(context_t *ctx, int64_t in, int64_t middle, int64_t out,
                                       int64_t kernel)
{
    module_t *net = NULL, *layer = NULL;
    check(ctx, module_create(ctx, "CascadedConv2dBnRelu", &net));
    check(ctx, layer_conv2d(ctx, in, middle, kernel, NULL, false, &layer));
    add_take(ctx, net, "conv1", layer);
    check(ctx, layer_batch_norm(ctx, middle, 1e-3, &layer));
    add_take(ctx, net, "bn1", layer);
    check(ctx, layer_conv2d(ctx, middle, out, kernel, NULL, false, &layer));
    add_take(ctx, net, "conv2", layer);
    check(ctx, layer_batch_norm(ctx, out, 1e-3, &layer));
    add_take(ctx, net, "bn2", layer);
    check(ctx, module_set_forward(ctx, net, "forward", forward));
    return net;
}

/* ---- printing and measuring a stage ---- */

static void print_graph(context_t *ctx, const char *title, const graph_t *graph)
{
    text_t text = text_begin(ctx);
    check(ctx, graph_print(ctx, graph, NULL, &text));
    printf("%s\n\n%s\n", title, text_string(&text));
    text_clear(&text);
}

/* Returns how many weights the plan's second run reorders. The scope owns *out. */
static unsigned count_reorders(context_t *ctx, plan_t *plan, const tensor_t *x, tensor_t **out)
{
    counters_t counters;
    for (int i = 0; i < 2; i++) {
        int n_out = 1;
        counters_reset(ctx);
        check(ctx, plan_run(ctx, plan, 1, &x, &n_out, out));
    }
    counters_read(ctx, &counters);
    return (unsigned)counters_weight_reorders(&counters);
}

/* Makes a plan of the graph, runs it, and compares the result with `expected`. Returns the number
 * of weight reorders. Releases the graph. */
static unsigned show_take(context_t *ctx, const char *title, graph_t *graph, module_t *net,
                          const tensor_t *x, const tensor_t *expected)
{
    plan_t *plan = NULL;
    tensor_t *y = NULL;
    double difference = 1;
    print_graph(ctx, title, graph);
    check(ctx, plan_create(ctx, graph, net, &plan));
    unsigned n = count_reorders(ctx, plan, x, &y);
    check(ctx, tensor_max_rel_diff(ctx, y, expected, &difference));
    printf("weight reorders in each inference: %u; the result is %s\n\n\n", n,
           difference < 1e-5 ? "the same" : "ANOTHER");
    plan_release(plan);
    graph_release(graph);
    return n;
}

/* ---- the stages ---- */

static graph_t *run_passes(context_t *ctx, module_t *net, const char *const *passes,
                           const char *const *skip)
{
    graph_t *graph = NULL;
    check(ctx, pass_run(ctx, graph_of(net, "forward"), passes,
                        &(pass_options_t){.self = net, .skip = skip}, &graph));
    return graph;
}

static void tell_story(context_t *ctx, module_t *net, const tensor_t *x)
{
    static const char *const params[] = {"weight", "bias", "running_mean", "running_var"};
    static const char *const unfolded[] = {"fold_reorders", NULL};
    /* Without bound_errors no convolution uses Winograd. The choice of Winograd depends on the
     * machine. */
    static const char *const direct[] = {"bound_errors", NULL};
    tensor_t *y = NULL;
    graph_t *graph = NULL;
    unsigned n[4];

    check(ctx, graph_trace(ctx, net, "forward", 1, &x));
    print_graph(ctx, "1. traced: a convolution reads what getattr gives", graph_of(net, "forward"));
    check(ctx, module_forward(ctx, net, x, &y)); /* the machine decides what it reorders */
    printf("\n\n");

    check(ctx, graph_for(ctx, net, "forward", 1, &x, &graph));
    n[0] = show_take(ctx, "2. layout: the reorder of the weight is seen", graph, net, x, y);

    for (int i = 0; i < 4; i++) check(ctx, freeze_params(ctx, net, "forward", params[i]));
    graph = run_passes(ctx, net, pass_pipeline_plan(), unfolded);
    n[1] = show_take(ctx, "3. freeze_params: what is reordered is a constant", graph, net, x, y);

    check(ctx, graph_for(ctx, net, "forward", 1, &x, &graph));
    n[2] = show_take(ctx, "4. fold_reorders: the constant is blocked", graph, net, x, y);

    graph = run_passes(ctx, net, pass_pipeline_optimize(), direct);
    check(ctx, graph_set_method(ctx, net, "forward", graph));
    graph_release(graph);
    check(ctx, graph_for(ctx, net, "forward", 1, &x, &graph));
    n[3] = show_take(ctx, "5. folded: batch norm is in the constants", graph, net, x, y);

    printf("weight reorders in each inference, stages 2 to 5: %u, %u, %u, %u\n", n[0], n[1], n[2],
           n[3]);
}

int main(void)
{
    context_t *ctx = NULL;
    tensor_t *x = NULL;
    if (context_create(NULL, &ctx) != STATUS_OK) return EXIT_FAILURE;
    check(ctx, scope_begin(ctx));
    check(ctx, tensor_rand(ctx, DTYPE_F32, SHAPE(1, 3, 32, 32), &x));
    module_t *net = cascaded_conv_bn_relu(ctx, 3, 16, 32, 3);
    tell_story(ctx, net, x);
    module_release(net);
    check(ctx, scope_end(ctx));
    context_destroy(ctx);
    return EXIT_SUCCESS;
}
