/* The nine light networks of the ONNX project, which tools/light downloads: real networks at full
 * size with constant weights. In every mode each must give its stored output; with random weights
 * all modes must agree. Only release builds run this. */
#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/program/plan.h"
#include "tests/support/onnx/onnx_data.h"

#if defined TESSERA_HAVE_ONNX && defined NDEBUG

#define LIGHT TESSERA_SOURCE_DIR "/build/light/light_"
#define PATH_BYTES 512

static const char *path_of(const char *name, const char *end, char *out_path)
{
    snprintf(out_path, PATH_BYTES, LIGHT "%s%s", name, end);
    return out_path;
}

static bool is_there(const char *name)
{
    char path[PATH_BYTES];
    FILE *file = fopen(path_of(name, ".onnx", path), "rb");
    if (file != NULL) fclose(file);
    return file != NULL;
}

/* ---- inputs ---- */

/* Makes arange(n) / n, as generate_dummy_data in onnx/backend/test/runner/__init__.py (onnx 1.17)
 * does. */
static tensor_t *dummy(context_t *ctx, const tensor_info_t *info)
{
    tensor_t *x = NULL;
    void *elements = NULL;
    assert_int_equal(info->dtype, DTYPE_F32);
    CHECK_OK(ctx, tensor_empty(ctx, DTYPE_F32, info->rank, info->sizes, &x));
    CHECK_OK(ctx, tensor_data_mutable(ctx, x, &elements));
    int64_t n = info_numel(info);
    for (int64_t i = 0; i < n; i++) ((float *)elements)[i] = (float)((double)i / (double)n);
    return x;
}

static model_t load(context_t *ctx, const char *name, char *path)
{
    model_t model = {.spec = path_of(name, ".onnx", path), .kind = MODEL_ONNX, .n_inputs = 1};
    model_input_t *input = &model.inputs[0];
    module_value_t value;
    CHECK_OK(ctx, onnx_load(ctx, model.spec, NULL, &model.module));
    CHECK_OK(ctx, module_input(ctx, model.module, "forward", 0, &value));
    input->info = info_dense(value.dtype, value.rank, value.made);
    return model;
}

/* ---- weights ---- */

/* Finds the node that reads a parameter, and the index of the operand. Returns NULL if there is
 * none. */
static const graph_node_t *reader_of(const graph_t *graph, const char *name, int *out_operand)
{
    const graph_block_t *body = graph_body(graph);
    for (int i = 0; i < body->n_nodes; i++)
        for (int k = 0; k < body->nodes[i]->n_inputs; k++) {
            value_t value = body->nodes[i]->inputs[k];
            const graph_node_t *made = value != VALUE_NONE ? graph_producer(graph, value) : NULL;
            if (made == NULL || made->kind != NODE_GETATTR || strcmp(made->name, name) != 0)
                continue;
            *out_operand = k;
            return body->nodes[i];
        }
    return NULL;
}

static bool is_layer(const graph_node_t *node)
{
    return node->kind == NODE_OP &&
           (strcmp(node->op->name, "conv2d") == 0 || strcmp(node->op->name, "linear") == 0);
}

static void scale(context_t *ctx, tensor_t *x, float factor, float shift)
{
    void *data = NULL;
    CHECK_OK(ctx, tensor_data_mutable(ctx, x, &data));
    float *elements = data;
    const int64_t n = info_numel(tensor_info(x));
    for (int64_t i = 0; i < n; i++) elements[i] = shift + factor * elements[i];
}

/* Makes random weights. Their variance is 2 / fan-in, which keeps the size of activations with
 * relu. Scales and variances are from 0.5 to 1.5; biases and means have a standard deviation of
 * 0.1. */
static tensor_t *draw(context_t *ctx, const graph_node_t *reader, int operand,
                      const tensor_info_t *info)
{
    const char *op = reader->op->name;
    bool is_scale = strcmp(op, "mul") == 0 ||
                    (strcmp(op, "batch_norm") == 0 && (operand == 1 || operand == 4));
    bool is_weight = is_layer(reader) && operand == 1;
    int64_t fan_in = 1;
    tensor_t *x = NULL;
    for (int d = 1; d < info->rank; d++) fan_in *= info->sizes[d];
    /* The width of a uniform distribution is its standard deviation times the root of 12. */
    const float width = sqrtf(12.0f) * (is_weight ? sqrtf(2.0f / (float)fan_in) : 0.1f);
    CHECK_OK(ctx, tensor_rand(ctx, DTYPE_F32, info->rank, info->sizes, &x));
    if (is_scale)
        scale(ctx, x, 1.0f, 0.5f);
    else
        scale(ctx, x, width, -width / 2.0f);
    return x;
}

static void refill(context_t *ctx, module_t *module)
{
    const graph_t *graph = graph_of(module, "forward");
    int n_weights = 0;
    context_seed(ctx, 7);
    for (int i = 0; i < module_n_members(module); i++) {
        member_kind_t kind;
        const char *name = module_member(module, i, &kind);
        if (kind != MEMBER_PARAMETER) continue;
        int operand = 0;
        const graph_node_t *reader = reader_of(graph, name, &operand);
        if (reader == NULL || reader->kind != NODE_OP) continue;
        const tensor_info_t *info = tensor_info(module_parameter(module, name));
        if (info->dtype != DTYPE_F32) continue;
        tensor_t *drawn = draw(ctx, reader, operand, info);
        CHECK_OK(ctx, module_set_parameter(ctx, module, name, drawn));
        tensor_release(drawn);
        n_weights++;
    }
    assert_in_range(n_weights, 16, 10000);
}

/* ---- running ---- */

static tensor_t *run(context_t *ctx, model_t *model, run_mode_t mode)
{
    tensor_t *out[METHOD_MAX_OUTPUTS];
    runner_t runner;
    int n = 0;
    CHECK_OK(ctx, mode_prepare(ctx, model, mode, &runner));
    CHECK_OK(ctx, mode_run(&runner, &n, out));
    assert_int_equal(n, 1);
    if ((mode == MODE_GRAPH || mode == MODE_FROZEN) && plan_of(runner.module, "forward") == NULL)
        fail_msg("%s, mode %s: is interpreted", model->spec, mode_name(mode));
    mode_clear(&runner);
    return out[0];
}

static void check_stored(context_t *ctx, const char *name)
{
    char path[PATH_BYTES], model_path[PATH_BYTES];
    model_t model = load(ctx, name, model_path);
    model.inputs[0].tensor = dummy(ctx, &model.inputs[0].info);
    Onnx__TensorProto *proto = onnx_data_read(ctx, &onnx__tensor_proto__descriptor,
                                              path_of(name, "_output_0.pb", path));
    tensor_t *wanted = NULL;
    assert_non_null(proto);
    CHECK_OK(ctx, onnx_data_tensor(ctx, proto, &wanted));
    for (int i = 0; i < MODE_COUNT; i++) {
        tensor_t *out = run(ctx, &model, onnx_data_modes[i]);
        if (!onnx_data_is_same(ctx, out, wanted, 1e-3, 1e-7))
            fail_msg("%s, mode %s: not the stored output", name, mode_name(onnx_data_modes[i]));
        tensor_release(out);
    }
    onnx__tensor_proto__free_unpacked(proto, NULL);
    tensor_release(wanted);
    model_clear(&model);
    CHECK_OK(ctx, dispatch_set_policy(ctx, POLICY_AUTO));
}

/* Returns false if the output is constant or one-hot, which would hide differences. */
static bool is_varied(context_t *ctx, const tensor_t *out)
{
    const void *data = NULL;
    CHECK_OK(ctx, tensor_data(ctx, out, &data));
    const float *x = data;
    int64_t n = info_numel(tensor_info(out)), n_seen = 0;
    float least = x[0], most = x[0];
    for (int64_t i = 0; i < n; i++) {
        least = fminf(least, x[i]);
        most = fmaxf(most, x[i]);
    }
    for (int64_t i = 0; i < n; i++) n_seen += x[i] > 1e-3f * most;
    return most > 1.5f * least && n_seen > n / 10;
}

/* Returns the name of the last layer's weight. */
static const char *last_weight(const graph_t *graph)
{
    const graph_block_t *body = graph_body(graph);
    for (int i = body->n_nodes - 1; i >= 0; i--)
        if (is_layer(body->nodes[i])) return graph_producer(graph, body->nodes[i]->inputs[1])->name;
    fail_msg("no layer");
    return NULL;
}

/* Runs in mode dense. Scales down the last weight until the softmax is not saturated. Returns the
 * output. */
static tensor_t *run_varied(context_t *ctx, model_t *model)
{
    const char *last = last_weight(graph_of(model->module, "forward"));
    tensor_t *weight = module_parameter(model->module, last);
    for (int attempt = 0; attempt < 16; attempt++) {
        tensor_t *out = run(ctx, model, MODE_DENSE);
        if (is_varied(ctx, out)) return out;
        tensor_release(out);
        scale(ctx, weight, 0.25f, 0.0f);
    }
    fail_msg("%s: the output does not vary", model->spec);
    return NULL;
}

static void check_random(context_t *ctx, const char *name)
{
    char path[PATH_BYTES];
    model_t model = load(ctx, name, path);
    const tensor_info_t *info = &model.inputs[0].info;
    refill(ctx, model.module);
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, info->rank, info->sizes, &model.inputs[0].tensor));
    tensor_t *dense = run_varied(ctx, &model);
    for (int i = 0; i < MODE_COUNT; i++) {
        run_mode_t mode = onnx_data_modes[i];
        double difference = 0;
        if (mode == MODE_DENSE) continue;
        tensor_t *out = run(ctx, &model, mode);
        CHECK_OK(ctx, tensor_max_rel_diff(ctx, out, dense, &difference));
        if (!(difference <= 1e-4))
            fail_msg("%s, mode %s: max_rel_diff %g", name, mode_name(mode), difference);
        tensor_release(out);
    }
    tensor_release(dense);
    model_clear(&model);
}

#define NETWORK(name)                                                                              \
    static void name##_gives_its_stored_output_in_every_mode(void **state)                         \
    {                                                                                              \
        if (!is_there(#name)) skip_without("build/light/" #name);                                  \
        check_stored(fixture_context(state), #name);                                               \
    }                                                                                              \
    static void name##_of_random_weights_agrees_in_every_mode(void **state)                        \
    {                                                                                              \
        if (!is_there(#name)) skip_without("build/light/" #name);                                  \
        check_random(fixture_context(state), #name);                                               \
    }

NETWORK(bvlc_alexnet)
NETWORK(densenet121)
NETWORK(inception_v1)
NETWORK(inception_v2)
NETWORK(resnet50)
NETWORK(shufflenet)
NETWORK(squeezenet)
NETWORK(vgg19)
NETWORK(zfnet512)

#define NETWORK_TESTS(name)                                                                        \
    TEST(name##_gives_its_stored_output_in_every_mode),                                            \
        TEST(name##_of_random_weights_agrees_in_every_mode)

int main(void)
{
    const struct CMUnitTest tests[] = {
        NETWORK_TESTS(bvlc_alexnet), NETWORK_TESTS(densenet121), NETWORK_TESTS(inception_v1),
        NETWORK_TESTS(inception_v2), NETWORK_TESTS(resnet50),    NETWORK_TESTS(shufflenet),
        NETWORK_TESTS(squeezenet),   NETWORK_TESTS(vgg19),       NETWORK_TESTS(zfnet512),
    };
    if (!is_there("resnet50")) print_message("no build/light: tools/light fetches the networks\n");
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    printf("skipped: the networks run at full size, in release builds with ONNX only\n");
    return 0;
}

#endif
