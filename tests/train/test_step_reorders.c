/* Planned training steps of small networks, in a separate process: the counters must count as many
 * reorders as oneDNN's log shows, and each remaining reorder must have a reason. */
#include "tests/support/nets/losses.h"
#include "tests/support/nets/nets.h"
#include "tests/support/support.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "dispatch/dispatch.h"
#include "module/layers/flow_impl.h"
#include "module/layers/layers.h"
#include "module/layers/transformer.h"
#include "module/mkldnn.h"
#include "module/zoo.h"
#include "ops/ops.h"
#include "tensor/convert/form_impl.h"
#include "tensor/counters.h"
#include "tools/audit/audit.h"
#include "train/loss.h"
#include "train/trainer.h"

#define ARGUMENT "steps"
#define BEGIN "steps begin"
#define END "steps end"
#define N_STEPS 5
#define N_FIRST 2 /* steps that are not counted, because they make forms */
#define CLASSES 10
#define BATCH 4
#define SIDE 32

/* ---- networks ---- */

static void add_take(context_t *ctx, module_t *parent, const char *name, module_t *child)
{
    CHECK_OK(ctx, module_set_child(ctx, parent, name, child));
    module_release(child);
}

/* Adds convolution conv<index>, which changes height and width only by its stride, and its batch
 * norm bn<index>. */
static void add_conv(context_t *ctx, module_t *parent, int index, int64_t in, int64_t out,
                     int64_t kernel, int64_t stride)
{
    char name[16];
    module_t *conv = NULL, *norm = NULL;
    const int64_t padding = kernel / 2;
    const conv_attrs_t attrs = {.stride = {stride, stride}, .padding = {padding, padding}};
    CHECK_OK(ctx,
             layer_conv(ctx, 2, in, out, (const int64_t[]){kernel, kernel}, &attrs, false, &conv));
    CHECK_OK(ctx, layer_batch_norm(ctx, out, 1e-5, &norm));
    snprintf(name, sizeof name, "conv%d", index);
    add_take(ctx, parent, name, conv);
    snprintf(name, sizeof name, "bn%d", index);
    add_take(ctx, parent, name, norm);
}

static status_t forward_bottleneck(context_t *ctx, module_t *self, int n_in,
                                   const tensor_t *const *in, int *n_out, tensor_t **out)
{
    flow_t flow = flow_begin(ctx, self, n_in, in), skip = flow_branch(&flow);
    *n_out = 1;
    flow_child(&flow, "conv1");
    flow_child(&flow, "bn1");
    flow_relu(&flow);
    flow_child(&flow, "conv2");
    flow_child(&flow, "bn2");
    flow_relu(&flow);
    flow_child(&flow, "conv3");
    flow_child(&flow, "bn3");
    flow_child(&skip, "conv4");
    flow_child(&skip, "bn4");
    flow_add(&flow, &skip);
    flow_relu(&flow);
    return flow_end(&flow, out);
}

/* Makes a bottleneck of ResNet-50: 1x1, 3x3 with the stride, 1x1, and in parallel a 1x1 with the
 * stride. */
static module_t *make_bottleneck(context_t *ctx, int64_t in, int64_t width, int64_t stride)
{
    module_t *block = NULL;
    CHECK_OK(ctx, module_create(ctx, "Bottleneck", &block));
    add_conv(ctx, block, 1, in, width, 1, 1);
    add_conv(ctx, block, 2, width, width, 3, stride);
    add_conv(ctx, block, 3, width, 4 * width, 1, 1);
    add_conv(ctx, block, 4, in, 4 * width, 1, stride);
    CHECK_OK(ctx, module_set_forward(ctx, block, "forward", forward_bottleneck));
    return block;
}

static status_t forward_inner(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                              int *n_out, tensor_t **out)
{
    flow_t flow = flow_begin(ctx, self, n_in, in);
    *n_out = 1;
    flow_child(&flow, "inner");
    return flow_end(&flow, out);
}

static status_t forward_net(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                            int *n_out, tensor_t **out)
{
    flow_t flow = flow_begin(ctx, self, n_in, in);
    *n_out = 1;
    flow_child(&flow, "conv1");
    flow_child(&flow, "bn1");
    flow_relu(&flow);
    flow_child(&flow, "block1");
    flow_child(&flow, "block2");
    flow_pool(&flow);
    flow_flatten(&flow);
    flow_child(&flow, "fc");
    return flow_end(&flow, out);
}

/* Makes a first convolution and two bottlenecks, the second with stride 2. */
static module_t *make_residual(context_t *ctx)
{
    module_t *net = NULL, *fc = NULL;
    CHECK_OK(ctx, module_create(ctx, "Residual", &net));
    add_conv(ctx, net, 1, 3, 32, 7, 2);
    add_take(ctx, net, "block1", make_bottleneck(ctx, 32, 16, 1));
    add_take(ctx, net, "block2", make_bottleneck(ctx, 64, 32, 2));
    CHECK_OK(ctx, layer_linear(ctx, 128, CLASSES, true, &fc));
    add_take(ctx, net, "fc", fc);
    CHECK_OK(ctx, module_set_forward(ctx, net, "forward", forward_net));
    return net;
}

static module_t *make_alexnet(context_t *ctx)
{
    const zoo_options_t options = {.n_classes = CLASSES, .divide = 8};
    module_t *net = NULL;
    CHECK_OK(ctx, zoo_create(ctx, "alexnet", &options, &net, NULL));
    return net;
}

/* Makes AlexNet as the only child of a module. */
static module_t *make_wrapped(context_t *ctx)
{
    module_t *net = NULL;
    CHECK_OK(ctx, module_create(ctx, "Wrapper", &net));
    add_take(ctx, net, "inner", make_alexnet(ctx));
    CHECK_OK(ctx, module_set_forward(ctx, net, "forward", forward_inner));
    return net;
}

static module_t *make_transformer(context_t *ctx)
{
    module_t *net = NULL, *embedding = NULL, *layers = NULL, *norm = NULL, *fc = NULL;
    const transformer_attrs_t attrs = {
        .d_model = 32, .nhead = 4, .dim_feedforward = 64, .activation = ELTWISE_GELU};
    CHECK_OK(ctx, module_create(ctx, "Transformer", &net));
    CHECK_OK(ctx, layer_embedding(ctx, 50, 32, &embedding));
    CHECK_OK(ctx, layer_sequential(ctx, &layers));
    for (int i = 0; i < 2; i++) {
        module_t *layer = NULL;
        CHECK_OK(ctx, layer_transformer_encoder_layer(ctx, &attrs, &layer));
        CHECK_OK(ctx, layer_append_take(ctx, layers, layer));
    }
    CHECK_OK(ctx, layer_layer_norm(ctx, 1, (const int64_t[]){32}, 1e-5, true, true, &norm));
    CHECK_OK(ctx, layer_linear(ctx, 32, CLASSES, true, &fc));
    add_take(ctx, net, "embedding", embedding);
    add_take(ctx, net, "layers", layers);
    add_take(ctx, net, "norm", norm);
    add_take(ctx, net, "fc", fc);
    CHECK_OK(ctx, module_set_forward(ctx, net, "forward", net_forward_transformer));
    return net;
}

typedef struct network {
    const char *name;
    module_t *(*make)(context_t *ctx);
    dtype_t dtype;
    int rank;
    int64_t sizes[4]; /* s64 elements are below 50 */
    int n_convolutions;
    uint64_t most_reorders; /* activation reorders per step; the layout pass has reasons for them */
} network_t;

/* Reasons for the reorders of activations: on older processors images are channels-last first.
 * AlexNet's classifier reads rows of a blocked tensor, its first convolution is dense, and on Zen 4
 * another one is faster channels-last. */
static const network_t networks[] = {
    {"residual", make_residual, DTYPE_F32, 4, {BATCH, 3, SIDE, SIDE}, 9, 1},
    {"alexnet", make_alexnet, DTYPE_F32, 4, {BATCH, 3, 127, 127}, 5, 5},
    {"transformer", make_transformer, DTYPE_S64, 2, {BATCH, 10}, 0, 0},
};
#define N_NETWORKS ((int)(sizeof networks / sizeof *networks))

static tensor_t *make_input(context_t *ctx, const network_t *network)
{
    tensor_t *x = NULL;
    void *data = NULL;
    if (network->dtype == DTYPE_F32) {
        CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, network->rank, network->sizes, &x));
        return x;
    }
    CHECK_OK(ctx, tensor_empty(ctx, DTYPE_S64, network->rank, network->sizes, &x));
    CHECK_OK(ctx, tensor_data_mutable(ctx, x, &data));
    for (int64_t i = 0; i < tensor_numel(x); i++) ((int64_t *)data)[i] = 7 * i % 50;
    return x;
}

typedef struct run {
    module_t *net;
    optimizer_t *optimizer;
    trainer_t *trainer;
    tensor_t *x, *labels;
} run_t;

/* The optimizer has the parameters of this child, or of the entire network if it is NULL. */
static run_t begin_with(context_t *ctx, const network_t *network, const char *child)
{
    context_seed(ctx, 11);
    run_t run = {.net = network->make(ctx)};
    sgd_options_t sgd = sgd_options(0.01);
    void *labels = NULL;
    sgd.momentum = 0.9;
    sgd.weight_decay = 1e-4;
    CHECK_OK(ctx, module_mkldnn(ctx, run.net, NULL));
    CHECK_OK(ctx, optimizer_sgd(ctx, child != NULL ? module_child(run.net, child) : run.net, &sgd,
                                &run.optimizer));
    CHECK_OK(ctx, trainer_create(ctx, run.net, losses_cross_entropy, NULL, run.optimizer,
                                 &(train_options_t){.mode = TRAIN_PLANNED}, &run.trainer));
    run.x = make_input(ctx, network);
    CHECK_OK(ctx, tensor_empty(ctx, DTYPE_S64, SHAPE(BATCH), &run.labels));
    CHECK_OK(ctx, tensor_data_mutable(ctx, run.labels, &labels));
    for (int i = 0; i < BATCH; i++) ((int64_t *)labels)[i] = 3 * i;
    return run;
}

static run_t begin(context_t *ctx, const network_t *network)
{
    return begin_with(ctx, network, NULL);
}

static void step(context_t *ctx, run_t *run)
{
    CHECK_OK(ctx, trainer_step(ctx, run->trainer, 1, (const tensor_t *const *)&run->x, run->labels,
                               NULL, NULL));
}

static void end(run_t *run)
{
    trainer_destroy(run->trainer);
    optimizer_destroy(run->optimizer);
    module_release(run->net);
    tensor_release(run->x);
    tensor_release(run->labels);
}

/* ---- the child process ---- */

/* Prints two marker lines, with steps between them whose reorders oneDNN logs; then the
 * counters. */
static int run_steps(const network_t *network)
{
    context_t *ctx = NULL;
    counters_t counters;
    CHECK_OK(NULL, context_create(NULL, &ctx));
    run_t run = begin(ctx, network);
    for (int i = 0; i < N_FIRST; i++) step(ctx, &run);
    counters_reset(ctx);
    printf("%s\n", BEGIN);
    for (int i = 0; i < N_STEPS; i++) step(ctx, &run);
    printf("%s\n", END);
    counters_read(ctx, &counters);
    printf("counted %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
           counters_weight_reorders(&counters), counters_activation_reorders(&counters),
           counters_gradient_reorders(&counters), counters_copies(&counters));
    end(&run);
    context_destroy(ctx);
    return 0;
}

typedef struct counted {
    uint64_t weights, activations, gradients, copies;
    uint64_t reasons; /* activations that the layout pass reorders for a reason */
} counted_t;

/* Runs the child process. Reads its counters, and oneDNN's log between the two markers. */
static counted_t run_child(const network_t *network, audit_t *audit)
{
    char line[4096], command[1024];
    counted_t counted = {0};
    bool is_between = false, is_counted = false;
    snprintf(command, sizeof command,
             "ONEDNN_VERBOSE=1 TESSERA_TRACE=pass " TESSERA_BINARY_DIR
             "/tests/train/test_step_reorders " ARGUMENT " %s 2>&1",
             network->name);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    while (fgets(line, sizeof line, pipe) != NULL) {
        if (strcmp(line, END "\n") == 0) is_between = false;
        if (is_between) (void)audit_line(audit, line);
        if (strcmp(line, BEGIN "\n") == 0) is_between = true;
        counted.reasons += strstr(line, "tessera,pass,layout,,,,") != NULL;
        is_counted |= sscanf(line, "counted %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64,
                             &counted.weights, &counted.activations, &counted.gradients,
                             &counted.copies) == 4;
    }
    const int status = pclose(pipe);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_true(is_counted && !is_between);
    return counted;
}

/* ---- tests ---- */

static void check_steps(const network_t *network)
{
    static audit_t audit;
    audit = (audit_t){0};
    const counted_t counted = run_child(network, &audit);
    const uint64_t activations = audit.reorders[AUDIT_ACTIVATION].n +
                                 audit.reorders[AUDIT_MISMATCH].n + audit.reorders[AUDIT_COPY].n;
    print_message("%d steps of %s: %" PRIu64 " reorders of weights, %" PRIu64
                  " of activations, %" PRIu64 " of gradients, %" PRIu64 " copies\n",
                  N_STEPS, network->name, counted.weights, counted.activations, counted.gradients,
                  counted.copies);
    assert_int_equal(audit.n_malformed, 0);
    /* two gradients each, except that of the images; some forward passes have other names */
    if (network->n_convolutions > 0)
        assert_true(audit_of(&audit, "convolution").n >=
                    (uint64_t)((2 * network->n_convolutions - 1) * N_STEPS));
    assert_int_equal(audit_reorders(&audit).n,
                     counted.weights + counted.activations + counted.gradients);
    assert_int_equal(audit.reorders[AUDIT_WEIGHT].n, counted.weights);
    assert_int_equal(activations, counted.activations);
    assert_int_equal(counted.activations, N_STEPS * counted.reasons);
    assert_in_range(counted.activations, 0, N_STEPS * network->most_reorders);
    assert_int_equal(counted.gradients, 0);
    assert_int_equal(counted.copies, 0);
}

static void counters_of_steps_equal_onednn_s_own_log(void **state)
{
    (void)state;
    for (int i = 0; i < N_NETWORKS; i++) check_steps(&networks[i]);
}

static uint64_t count_weight_reorders(context_t *ctx, const char *child)
{
    static const network_t wrapped = {
        "wrapped", make_wrapped, DTYPE_F32, 4, {BATCH, 3, 127, 127}, 5, 4};
    counters_t counters;
    run_t run = begin_with(ctx, &wrapped, child);
    step(ctx, &run);
    step(ctx, &run);
    counters_reset(ctx);
    step(ctx, &run);
    counters_read(ctx, &counters);
    end(&run);
    return counters_weight_reorders(&counters) + counters.reorders[CAUSE_GRADIENT];
}

/* An optimizer of a child knows weights by their names in the child. The step must find the same
 * weights in the network. */
static void an_optimizer_of_a_part_reorders_no_more(void **state)
{
    context_t *ctx = fixture_context(state);
    assert_int_equal(count_weight_reorders(ctx, "inner"), count_weight_reorders(ctx, NULL));
}

/* Checks that the weight's elements are only in blocked forms. */
static void check_weight(const tensor_t *weight)
{
    tensor_t *forms[4] = {NULL};
    const int n = form_list(weight, 4, forms);
    assert_true(n >= 1 && n <= 4);
    assert_false(storage_is_plain(weight->storage));
    for (int i = 0; i < n; i++) {
        assert_int_equal(tensor_layout(forms[i]), LAYOUT_MKLDNN);
        tensor_drop(forms[i]);
    }
}

static void check_gradients(const graph_t *graph, int n_weights)
{
    const graph_block_t *body = graph_body(graph);
    int n = 0;
    for (int i = 0; i < body->n_nodes; i++) {
        const graph_node_t *node = body->nodes[i];
        if (node->kind != NODE_CALL || strcmp(node->name, "update") != 0) continue;
        const graph_type_t *type = graph_value_type(graph, node->inputs[2]);
        assert_true(type->has_info);
        if (type->info.rank < 2) continue;
        n++;
        assert_int_equal(type->info.layout, LAYOUT_MKLDNN);
    }
    assert_int_equal(n, n_weights);
}

static void all_that_a_step_updates_stays_blocked(void **state)
{
    context_t *ctx = fixture_context(state);
    run_t run = begin(ctx, &networks[0]);
    for (int i = 0; i < N_STEPS; i++) {
        int n_weights = 0;
        step(ctx, &run);
        for (int p = 0; p < optimizer_n_parameters(run.optimizer); p++) {
            const tensor_t *parameter = optimizer_parameter(run.optimizer, p);
            assert_int_equal(tensor_layout(optimizer_state(run.optimizer, p, 0)), LAYOUT_MKLDNN);
            if (tensor_rank(parameter) < 2) continue;
            n_weights++;
            check_weight(parameter);
        }
        assert_int_equal(n_weights, 10);
        check_gradients(trainer_graph(run.trainer), n_weights);
    }
    end(&run);
}

/* A format in which an operator reads a weight. is_first: it is the forward operator. */
typedef struct reading {
    const tensor_t *weight;
    char format[FORMAT_TEXT_MAX];
    bool is_first;
} reading_t;

typedef struct readings {
    reading_t items[32];
    int n;
    const prepared_t *gradients[16]; /* operators that compute weight gradients */
    int n_gradients;
} readings_t;

/* A backward operator that does not use the forward operator's weight format must name that format
 * in its reason. */
static bool has_reason(const prepared_t *prepared, const char *forward_format)
{
    char reason[FORMAT_TEXT_MAX + 64];
    snprintf(reason, sizeof reason, "the forward operator's weight format %s", forward_format);
    return strstr(prepared_reasons(prepared), reason) != NULL;
}

static const reading_t *find_forward(const readings_t *readings, const tensor_t *weight)
{
    for (int i = 0; i < readings->n; i++)
        if (readings->items[i].weight == weight && readings->items[i].is_first)
            return &readings->items[i];
    return NULL;
}

static void note_reading(readings_t *readings, const op_event_t *event, int input)
{
    char format[FORMAT_TEXT_MAX];
    const reading_t *forward = find_forward(readings, event->in[input]);
    format_text(&prepared_input(event->prepared, input)->format, format);
    if (forward != NULL && strcmp(forward->format, format) == 0) return;
    if (forward != NULL && !has_reason(event->prepared, forward->format))
        fail_msg("%s reads a weight in %s, the forward operator in %s, and no reason is given: %s",
                 event->op->name, format, forward->format, prepared_reasons(event->prepared));
    assert_true(readings->n < 32);
    reading_t *reading = &readings->items[readings->n++];
    reading->weight = event->in[input];
    reading->is_first = forward == NULL;
    memcpy(reading->format, format, sizeof format);
}

static status_t see(context_t *ctx, void *user, const op_event_t *event)
{
    readings_t *readings = user;
    (void)ctx;
    for (int i = 0; i < event->n_in && i < event->op->n_operands; i++)
        if (event->op->operands[i].role == ROLE_WEIGHT && event->in[i] != NULL)
            note_reading(readings, event, i);
    if (strstr(event->op->name, "_backward_weight") != NULL) {
        assert_true(readings->n_gradients < 16);
        readings->gradients[readings->n_gradients++] = event->prepared;
    }
    return STATUS_OK;
}

/* Checks that an operator gives a reason for a weight gradient that is not in the forward
 * operator's format. */
static void check_gradient(const readings_t *readings, const tensor_info_t *stepped,
                           const char *format, const char *forward_format)
{
    bool has_one = false;
    for (int i = 0; i < readings->n_gradients; i++) {
        const tensor_info_t *out = prepared_output(readings->gradients[i], 0);
        if (shape_equal(out->rank, out->sizes, stepped->rank, stepped->sizes))
            has_one |= has_reason(readings->gradients[i], forward_format);
    }
    if (!has_one)
        fail_msg("a gradient is made in %s, the forward operator reads %s, and no reason is given",
                 format, forward_format);
}

/* Counts forms of a weight that a step makes from the form that the optimizer updates. */
static int count_other(const readings_t *readings, const tensor_t *weight, const tensor_t *state)
{
    char format[FORMAT_TEXT_MAX];
    int n = 0;
    const reading_t *forward = find_forward(readings, weight);
    assert_non_null(forward);
    format_text(&tensor_info(state)->format, format);
    if (strcmp(forward->format, format) != 0)
        check_gradient(readings, tensor_info(state), format, forward->format);
    for (int i = 0; i < readings->n; i++)
        n += readings->items[i].weight == weight && strcmp(readings->items[i].format, format) != 0;
    return n;
}

static void each_reorder_of_a_weight_has_a_reason(void **state)
{
    context_t *ctx = fixture_context(state);
    readings_t readings = {.n = 0};
    observer_t observer = {.user = &readings, .op_end = see};
    counters_t counters;
    int n_other = 0, n_weights = 0;
    run_t run = begin(ctx, &networks[0]);
    for (int i = 0; i < N_FIRST; i++) step(ctx, &run);
    counters_reset(ctx);
    CHECK_OK(ctx, dispatch_add_observer(ctx, &observer));
    step(ctx, &run);
    dispatch_remove_observer(ctx, &observer);
    counters_read(ctx, &counters);
    for (int p = 0; p < optimizer_n_parameters(run.optimizer); p++) {
        const tensor_t *parameter = optimizer_parameter(run.optimizer, p);
        if (tensor_rank(parameter) < 2) continue;
        n_weights++;
        n_other += count_other(&readings, parameter, optimizer_state(run.optimizer, p, 0));
    }
    assert_int_equal(n_weights, 10);
    assert_int_equal(counters_weight_reorders(&counters), n_other);
    end(&run);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counters_of_steps_equal_onednn_s_own_log),
        TEST(an_optimizer_of_a_part_reorders_no_more),
        TEST(all_that_a_step_updates_stays_blocked),
        TEST(each_reorder_of_a_weight_has_a_reason),
    };
    for (int i = 0; i < N_NETWORKS; i++)
        if (argc > 2 && strcmp(argv[1], ARGUMENT) == 0 && strcmp(argv[2], networks[i].name) == 0)
            return run_steps(&networks[i]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
