/* With a memory limit, a step recomputes activations. It must give the same bits in less memory,
 * and an error if the limit is too small. */
#include "tests/support/nets/losses.h"
#include "tests/support/nets/training.h"
#include "tests/support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/ir/graph_impl.h"
#include "module/layers/flow_impl.h"
#include "module/layers/layers.h"
#include "module/mkldnn.h"
#include "module/state_dict.h"
#include "train/loss.h"
#include "train/optimizer.h"
#include "train/trainer.h"

#define SIDE 24
#define CLASSES 5
#define N_BLOCKS 4

/* ---- a network: convolutions, batch norms, relus, a skip, pooling ---- */

static void add_take(context_t *ctx, module_t *parent, const char *name, int index, module_t *child)
{
    char text[32];
    snprintf(text, sizeof text, "%s%d", name, index);
    CHECK_OK(ctx, module_set_child(ctx, parent, text, child));
    module_release(child);
}

static status_t forward_net(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                            int *n_out, tensor_t **out)
{
    flow_t flow = flow_begin(ctx, self, n_in, in);
    char name[32];
    *n_out = 1;
    for (int i = 0; i < N_BLOCKS; i++) {
        flow_t branch = flow_branch(&flow), *through = i % 2 == 1 ? &branch : &flow;
        snprintf(name, sizeof name, "conv%d", i);
        flow_child(through, name);
        snprintf(name, sizeof name, "bn%d", i);
        flow_child(through, name);
        if (i % 2 == 1) flow_add(&flow, &branch);
        flow_relu(&flow);
    }
    flow_child(&flow, "pool0");
    flow_child(&flow, "conv9");
    flow_pool(&flow);
    flow_flatten(&flow);
    flow_child(&flow, "fc0");
    return flow_end(&flow, out);
}

static module_t *make_net(context_t *ctx)
{
    module_t *net = NULL, *layer = NULL;
    const conv_attrs_t attrs = {.padding = {1, 1}};
    const pool_attrs_t pool = {.kernel = {2, 2}, .stride = {2, 2}};
    context_seed(ctx, 5);
    CHECK_OK(ctx, module_create(ctx, "Net", &net));
    for (int i = 0; i < N_BLOCKS; i++) {
        CHECK_OK(ctx, layer_conv(ctx, 2, i == 0 ? 3 : 17, 17, (const int64_t[]){3, 3}, &attrs, true,
                                 &layer));
        add_take(ctx, net, "conv", i, layer);
        CHECK_OK(ctx, layer_batch_norm(ctx, 17, 1e-5, &layer));
        add_take(ctx, net, "bn", i, layer);
    }
    CHECK_OK(ctx, layer_max_pool2d(ctx, &pool, &layer));
    add_take(ctx, net, "pool", 0, layer);
    CHECK_OK(ctx, layer_conv(ctx, 2, 17, 32, (const int64_t[]){3, 3}, &attrs, true, &layer));
    add_take(ctx, net, "conv", 9, layer);
    CHECK_OK(ctx, layer_linear(ctx, 32, CLASSES, true, &layer));
    add_take(ctx, net, "fc", 0, layer);
    CHECK_OK(ctx, module_set_forward(ctx, net, "forward", forward_net));
    return net;
}

static training_t begin(context_t *ctx, bool is_blocked, train_options_t options)
{
    training_t training = {.net = make_net(ctx)};
    sgd_options_t sgd = sgd_options(0.05);
    sgd.momentum = 0.9;
    options.mode = TRAIN_PLANNED;
    if (is_blocked) CHECK_OK(ctx, module_mkldnn(ctx, training.net, NULL));
    CHECK_OK(ctx, optimizer_sgd(ctx, training.net, &sgd, &training.optimizer));
    CHECK_OK(ctx, trainer_create(ctx, training.net, losses_cross_entropy, NULL, training.optimizer,
                                 &options, &training.trainer));
    return training;
}

static status_t step(context_t *ctx, training_t *training, int64_t n, double *out_loss)
{
    tensor_t *x = NULL, *labels = NULL;
    void *data = NULL;
    context_seed(ctx, 7);
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(n, 3, SIDE, SIDE), &x));
    CHECK_OK(ctx, tensor_empty(ctx, DTYPE_S64, SHAPE(n), &labels));
    CHECK_OK(ctx, tensor_data_mutable(ctx, labels, &data));
    for (int64_t i = 0; i < n; i++) ((int64_t *)data)[i] = 3 * i % CLASSES;
    status_t status = trainer_step(ctx, training->trainer, 1, (const tensor_t *const *)&x, labels,
                                   NULL, out_loss);
    tensor_release(x);
    tensor_release(labels);
    return status;
}

/* ---- the same bits within the limit ---- */

static int count(const training_t *training, const char *op)
{
    const graph_block_t *body = graph_body(trainer_graph(training->trainer));
    int n = 0;
    for (int k = 0; k < body->n_nodes; k++)
        n += body->nodes[k]->kind == NODE_OP && strcmp(body->nodes[k]->op->name, op) == 0;
    return n;
}

static void check_equal(context_t *ctx, module_t *first, module_t *second)
{
    datum_t *dicts[2] = {NULL};
    CHECK_OK(ctx, module_state_dict(ctx, first, &dicts[0]));
    CHECK_OK(ctx, module_state_dict(ctx, second, &dicts[1]));
    assert_int_equal(datum_length(dicts[0]), datum_length(dicts[1]));
    for (int i = 0; i < datum_length(dicts[0]); i++) {
        const char *key = datum_key(dicts[0], i);
        char *bytes[2] = {NULL};
        size_t n_bytes = 0;
        for (int k = 0; k < 2; k++) {
            const tensor_t *tensor = datum_as_tensor(datum_find(dicts[k], key));
            n_bytes = (size_t)tensor_numel(tensor) * dtype_size(tensor_dtype(tensor));
            bytes[k] = malloc(n_bytes + 1);
            CHECK_OK(ctx, tensor_read(ctx, tensor, bytes[k], n_bytes));
        }
        if (memcmp(bytes[0], bytes[1], n_bytes) != 0) fail_msg("%s differs", key);
        free(bytes[0]);
        free(bytes[1]);
    }
    datum_release(dicts[0]);
    datum_release(dicts[1]);
}

/* Runs two steps each with two batch sizes. Returns the bytes of the last step's arena. */
static size_t run(context_t *ctx, training_t *training, double *losses)
{
    for (int i = 0; i < 4; i++) CHECK_OK(ctx, step(ctx, training, i % 2 == 0 ? 2 : 3, &losses[i]));
    return trainer_arena_bytes(training->trainer);
}

/* Returns the least possible limit for a step of 3 images. The error for a smaller limit names
 * it. */
static size_t find_least(context_t *ctx, bool is_blocked, train_options_t options)
{
    size_t least = 0;
    options.memory_limit = 1;
    training_t training = begin(ctx, is_blocked, options);
    CHECK_FAILS(ctx, step(ctx, &training, 3, NULL), STATUS_INVALID_ARGUMENT,
                "trainer_step: memory_limit 1, a step on these inputs needs ");
    assert_int_equal(sscanf(context_error(ctx), "%*[^,], a step on these inputs needs %zu", &least),
                     1);
    context_clear_error(ctx);
    assert_int_equal(optimizer_n_steps(training.optimizer), 0);
    training_end(&training);
    return least;
}

static void check_bounds(context_t *ctx, bool is_blocked, train_options_t options)
{
    double losses[2][4];
    training_t free_of = begin(ctx, is_blocked, options);
    const size_t whole = run(ctx, &free_of, losses[0]);
    const size_t least = find_least(ctx, is_blocked, options);
    int before = count(&free_of, "relu");
    assert_true(least < whole - whole / 8);
    /* relus after batch norms are fused with them; the others have a step of their own */
    assert_int_equal(count(&free_of, "elementwise_backward"), N_BLOCKS / 2);
    for (int i = 0; i <= 3; i++) {
        options.memory_limit = whole - (whole - least) / 3 * (size_t)i;
        if (i == 3) options.memory_limit = least;
        training_t bounded = begin(ctx, is_blocked, options);
        const size_t bytes = run(ctx, &bounded, losses[1]);
        if (bytes > options.memory_limit)
            fail_msg("%zu bytes, the bound is %zu", bytes, options.memory_limit);
        assert_memory_equal(losses[0], losses[1], sizeof losses[0]);
        check_equal(ctx, free_of.net, bounded.net);
        if (i == 0) assert_int_equal(count(&bounded, "relu"), before);
        if (i == 3) assert_true(count(&bounded, "batch_norm_training") > N_BLOCKS);
        training_end(&bounded);
    }
    training_end(&free_of);
}

static void steps_within_a_bound_are_those_without(void **state)
{
    for (int i = 0; i < 4; i++)
        check_bounds(fixture_context(state), i % 2 == 0, (train_options_t){.update_apart = i >= 2});
}

static void eager_steps_have_no_bound(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_net(ctx);
    optimizer_t *optimizer = NULL;
    trainer_t *trainer = NULL;
    CHECK_OK(ctx, optimizer_sgd(ctx, net, NULL, &optimizer));
    CHECK_FAILS(ctx,
                trainer_create(ctx, net, losses_cross_entropy, NULL, optimizer,
                               &(train_options_t){.memory_limit = 1 << 20}, &trainer),
                STATUS_INVALID_ARGUMENT,
                "trainer_create: memory_limit 1048576, needs mode TRAIN_PLANNED");
    optimizer_destroy(optimizer);
    module_release(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(steps_within_a_bound_are_those_without),
                                       TEST(eager_steps_have_no_bound)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
