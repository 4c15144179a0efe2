/* Planned steps of a small residual network, in a process of their own: what the counters say of
 * their reorders is what oneDNN logged of them, and what cannot be saved has a reason. */
#include "tests/support/support.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "dispatch/dispatch.h"
#include "module/flow_impl.h"
#include "module/layers.h"
#include "module/mkldnn.h"
#include "tensor/counters.h"
#include "tensor/form_impl.h"
#include "tools/audit.h"
#include "train/loss.h"
#include "train/trainer.h"

#define ARGUMENT "steps"
#define BEGIN "steps begin"
#define END "steps end"
#define N_STEPS 5
#define N_FIRST 2 /* steps in which forms are made, before those that are counted */
#define CLASSES 10
#define BATCH 4
#define SIDE 32

/* ---- the network: a stem and two bottlenecks, the second with strides ---- */

static void add_take(context_t *ctx, module_t *parent, const char *name, module_t *child)
{
    CHECK_OK(ctx, module_set_child(ctx, parent, name, child));
    module_release(child);
}

/* A convolution of kernel x kernel that keeps heights and widths but for the stride, and its batch
 * norm: conv1 and bn1. */
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

/* As in ResNet-50: 1x1, 3x3 with the stride, 1x1, and a 1x1 with the stride beside them. */
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

static module_t *make_net(context_t *ctx)
{
    module_t *net = NULL, *fc = NULL;
    context_seed(ctx, 11);
    CHECK_OK(ctx, module_create(ctx, "Residual", &net));
    add_conv(ctx, net, 1, 3, 32, 7, 2);
    add_take(ctx, net, "block1", make_bottleneck(ctx, 32, 16, 1));
    add_take(ctx, net, "block2", make_bottleneck(ctx, 64, 32, 2));
    CHECK_OK(ctx, layer_linear(ctx, 128, CLASSES, true, &fc));
    add_take(ctx, net, "fc", fc);
    CHECK_OK(ctx, module_set_forward(ctx, net, "forward", forward_net));
    CHECK_OK(ctx, module_mkldnn(ctx, net, NULL));
    return net;
}

static status_t cross_entropy(context_t *ctx, void *user, const tensor_t *output,
                              const tensor_t *target, tensor_t **out_loss)
{
    (void)user;
    return loss_cross_entropy(ctx, output, target, NULL, out_loss);
}

typedef struct run {
    module_t *net;
    optimizer_t *optimizer;
    trainer_t *trainer;
    tensor_t *x, *labels;
} run_t;

static run_t begin(context_t *ctx)
{
    run_t run = {.net = make_net(ctx)};
    sgd_options_t sgd = sgd_options(0.01);
    void *labels = NULL;
    sgd.momentum = 0.9;
    sgd.weight_decay = 1e-4;
    CHECK_OK(ctx, optimizer_sgd(ctx, run.net, &sgd, &run.optimizer));
    CHECK_OK(ctx, trainer_create(ctx, run.net, cross_entropy, NULL, run.optimizer,
                                 &(train_options_t){.mode = TRAIN_PLANNED}, &run.trainer));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(BATCH, 3, SIDE, SIDE), &run.x));
    CHECK_OK(ctx, tensor_empty(ctx, DTYPE_S64, SHAPE(BATCH), &run.labels));
    CHECK_OK(ctx, tensor_data_mutable(ctx, run.labels, &labels));
    for (int i = 0; i < BATCH; i++) ((int64_t *)labels)[i] = 3 * i;
    return run;
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

/* ---- the child ---- */

/* Steps whose reorders oneDNN logs between two lines of our own; then what was counted. */
static int run_steps(void)
{
    context_t *ctx = NULL;
    counters_t counters;
    CHECK_OK(NULL, context_create(NULL, &ctx));
    run_t run = begin(ctx);
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
} counted_t;

/* What the child said, and what oneDNN logged between its two lines. */
static counted_t run_child(audit_t *audit)
{
    char line[4096];
    counted_t counted = {0};
    bool is_between = false, is_counted = false;
    FILE *pipe = popen(
        "ONEDNN_VERBOSE=1 " TESSERA_BINARY_DIR "/tests/train/test_step_reorders " ARGUMENT, "r");
    assert_non_null(pipe);
    while (fgets(line, sizeof line, pipe) != NULL) {
        if (strcmp(line, END "\n") == 0) is_between = false;
        if (is_between) (void)audit_line(audit, line);
        if (strcmp(line, BEGIN "\n") == 0) is_between = true;
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

static void counters_of_steps_equal_onednn_s_own_log(void **state)
{
    static audit_t audit;
    (void)state;
    const counted_t counted = run_child(&audit);
    const uint64_t activations = audit.reorders[AUDIT_ACTIVATION].n +
                                 audit.reorders[AUDIT_MISMATCH].n + audit.reorders[AUDIT_COPY].n;
    print_message("%d steps: %" PRIu64 " reorders of weights, %" PRIu64 " of activations, %" PRIu64
                  " of gradients, %" PRIu64 " copies\n",
                  N_STEPS, counted.weights, counted.activations, counted.gradients, counted.copies);
    assert_int_equal(audit.n_malformed, 0);
    assert_true(audit_of(&audit, "convolution").n >= 3 * 8 * N_STEPS); /* all directions */
    assert_int_equal(audit_reorders(&audit).n,
                     counted.weights + counted.activations + counted.gradients);
    assert_int_equal(audit.reorders[AUDIT_WEIGHT].n, counted.weights);
    assert_int_equal(activations, counted.activations);
    assert_int_equal(counted.activations, 0);
    assert_int_equal(counted.gradients, 0);
    assert_int_equal(counted.copies, 0);
}

/* The elements are in a blocked form, and nowhere else. */
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
    for (int i = 2; i < body->n_results; i++) { /* loss and scores stand in front */
        const graph_type_t *type = graph_value_type(graph, body->results[i]);
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
    run_t run = begin(ctx);
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

/* The format in which the forward operator reads a weight, and how many read another. */
typedef struct reading {
    const tensor_t *weight;
    char format[FORMAT_TEXT_MAX];
} reading_t;

typedef struct readings {
    reading_t items[16];
    int n, n_other;
} readings_t;

static reading_t *find_reading(readings_t *readings, const tensor_t *weight)
{
    for (int i = 0; i < readings->n; i++)
        if (readings->items[i].weight == weight) return &readings->items[i];
    return NULL;
}

/* A backward operator that wants a weight as the forward one does not says what becomes of the
 * forward's format. */
static void check_reason(const reading_t *reading, const op_event_t *event, const char *format)
{
    char reason[FORMAT_TEXT_MAX + 64];
    snprintf(reason, sizeof reason, "weight %s, as the forward operator has it, ", reading->format);
    const char *reasons = prepared_reasons(event->prepared);
    if (strstr(reasons, reason) == NULL)
        fail_msg("%s reads a weight in %s, the forward operator in %s, and no reason is given: %s",
                 event->op->name, format, reading->format, reasons);
}

static status_t see(context_t *ctx, void *user, const op_event_t *event)
{
    readings_t *readings = user;
    (void)ctx;
    for (int i = 0; i < event->n_in && i < event->op->n_operands; i++) {
        char format[FORMAT_TEXT_MAX];
        if (event->op->operands[i].role != ROLE_WEIGHT || event->in[i] == NULL) continue;
        format_text(&prepared_input(event->prepared, i)->format, format);
        reading_t *reading = find_reading(readings, event->in[i]);
        if (reading == NULL) {
            assert_true(readings->n < 16);
            reading = &readings->items[readings->n++];
            reading->weight = event->in[i];
            memcpy(reading->format, format, sizeof format);
        } else if (strcmp(reading->format, format) != 0) {
            readings->n_other++;
            check_reason(reading, event, format);
        }
    }
    return STATUS_OK;
}

static void each_reorder_of_a_weight_has_a_reason(void **state)
{
    context_t *ctx = fixture_context(state);
    readings_t readings = {.n = 0};
    observer_t observer = {.user = &readings, .op_end = see};
    counters_t counters;
    run_t run = begin(ctx);
    for (int i = 0; i < N_FIRST; i++) step(ctx, &run);
    counters_reset(ctx);
    CHECK_OK(ctx, dispatch_add_observer(ctx, &observer));
    step(ctx, &run);
    dispatch_remove_observer(ctx, &observer);
    counters_read(ctx, &counters);
    assert_int_equal(readings.n, 10);
    assert_int_equal(counters_weight_reorders(&counters), readings.n_other);
    end(&run);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counters_of_steps_equal_onednn_s_own_log),
        TEST(all_that_a_step_updates_stays_blocked),
        TEST(each_reorder_of_a_weight_has_a_reason),
    };
    if (argc > 1 && strcmp(argv[1], ARGUMENT) == 0) return run_steps();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
