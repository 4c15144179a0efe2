/* Indices out of range must fail with a message in every mode and from a file; then a run with
 * valid ones must work. Slices beyond the end, and OneHot of an index out of range, are valid; the
 * tests of these operators have them. */
#include "tests/support/support.h"

#include <stdio.h>
#include <string.h>

#include "freeze/freeze.h"
#include "tests/support/onnx/onnx_data.h"
#include "tests/support/onnx/onnx_model.h"

#define SAVED "test_onnx_indices.tessera"

/* A node that reads some of x f32[3,4], indices i s64 and updates u f32, and its message. */
typedef struct indexing {
    const char *type, *inputs;
    int rank;
    int64_t sizes[3];   /* sizes of i */
    int64_t updates[3]; /* sizes of u, whose rank is at most that of i */
    int updates_rank;
    int64_t axis; /* -1: the node has no axis */
    int64_t bad;  /* an invalid value for the last index */
    const char *message;
} indexing_t;

static const indexing_t indexings[] = {
    {"Gather",
     "x i",
     1,
     {2},
     {0},
     0,
     0,
     3,
     "gather: index 3 of f32[3,4] in dimension 0, out of range"},
    {"Gather",
     "x i",
     2,
     {2, 2},
     {0},
     0,
     1,
     -5,
     "gather: index -5 of f32[3,4] in dimension 1, out of range"},
    {"GatherElements", "x i", 2, {2, 4}, {0}, 0, 0, 3, "gather_elements: "},
    {"GatherElements", "x i", 2, {3, 2}, {0}, 0, 1, -5, "gather_elements: "},
    {"GatherND", "x i", 2, {2, 1}, {0}, 0, -1, 3, "gather_nd: "},
    {"GatherND", "x i", 2, {2, 2}, {0}, 0, -1, 4, "gather_nd: "},
    {"ScatterND", "x i u", 2, {2, 1}, {2, 4}, 2, -1, -4, "scatter_nd: "},
    {"ScatterElements", "x i u", 2, {1, 4}, {1, 4}, 2, 0, 3, "scatter: "},
};

static void make(const indexing_t *indexing)
{
    maker_begin(&maker, 18);
    maker_input(&maker, "x", FLOAT, DIMS(3, 4));
    maker_input(&maker, "i", INT64, indexing->rank, indexing->sizes);
    if (indexing->updates_rank > 0)
        maker_input(&maker, "u", FLOAT, indexing->updates_rank, indexing->updates);
    maker_node_t *node = maker_node(&maker, indexing->type, "n", indexing->inputs, "z");
    if (indexing->axis >= 0) maker_int(node, "axis", indexing->axis);
    maker_node(&maker, "Relu", "r", "z", "y");
    maker_output(&maker, "y");
}

static tensor_t *make_indices(context_t *ctx, const indexing_t *indexing, int64_t last)
{
    int64_t indices[16] = {0}, n = 1;
    tensor_t *tensor = NULL;
    for (int d = 0; d < indexing->rank; d++) n *= indexing->sizes[d];
    indices[n - 1] = last;
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_S64, indexing->rank, indexing->sizes, indices, &tensor));
    return tensor;
}

static void set_input(context_t *ctx, model_t *model, tensor_t *tensor)
{
    model_input_t *input = &model->inputs[model->n_inputs++];
    (void)ctx;
    input->tensor = tensor;
    input->info = *tensor_info(tensor);
}

/* Runs with valid indices, with an invalid one, and with valid ones again. */
static void check_runner(context_t *ctx, const indexing_t *indexing, runner_t *runner,
                         const char *form)
{
    tensor_t *good = runner->in[1], *out[METHOD_MAX_OUTPUTS] = {NULL};
    tensor_t *first = NULL;
    int n_out = 0;
    for (int run = 0; run < 3; run++) {
        if (run == 1) {
            runner->in[1] = make_indices(ctx, indexing, indexing->bad);
            const status_t status = mode_run(runner, &n_out, out);
            if (status != STATUS_INVALID_ARGUMENT ||
                strstr(context_error(ctx), indexing->message) == NULL)
                fail_msg("%s, %s: %d, %s", indexing->type, form, (int)status, context_error(ctx));
            tensor_release(runner->in[1]);
            runner->in[1] = good;
            continue;
        }
        CHECK_OK(ctx, mode_run(runner, &n_out, out));
        if (run == 2) assert_true(onnx_data_is_same(ctx, out[0], first, 0.0, 0.0));
        if (run == 0) first = tensor_retain(out[0]);
        mode_release_outputs(n_out, out);
    }
    tensor_release(first);
}

static void check_file(context_t *ctx, const indexing_t *indexing, runner_t *runner)
{
    module_t *loaded = NULL;
    CHECK_OK(ctx, freeze_save(ctx, runner->module, SAVED));
    CHECK_OK(ctx, freeze_load(ctx, SAVED, &loaded));
    module_release(runner->module);
    runner->module = loaded;
    check_runner(ctx, indexing, runner, "loaded");
    remove(SAVED);
}

static void check(context_t *ctx, const indexing_t *indexing, run_mode_t mode)
{
    model_t model = {.spec = indexing->type, .kind = MODEL_ONNX};
    tensor_t *x = NULL, *u = NULL;
    runner_t runner;
    make(indexing);
    model.module = load_model(ctx);
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(3, 4), &x));
    set_input(ctx, &model, x);
    set_input(ctx, &model, make_indices(ctx, indexing, 1));
    if (indexing->updates_rank > 0) {
        CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, indexing->updates_rank, indexing->updates, &u));
        set_input(ctx, &model, u);
    }
    CHECK_OK(ctx, mode_prepare(ctx, &model, mode, &runner));
    check_runner(ctx, indexing, &runner, mode_name(mode));
    if (mode == MODE_FROZEN) check_file(ctx, indexing, &runner);
    mode_clear(&runner);
    model_clear(&model);
    CHECK_OK(ctx, dispatch_set_policy(ctx, POLICY_AUTO));
}

static void indices_out_of_range_are_refused_in_every_mode(void **state)
{
    context_t *ctx = fixture_context(state);
    for (size_t i = 0; i < sizeof indexings / sizeof *indexings; i++)
        for (int k = 0; k < MODE_COUNT; k++) check(ctx, &indexings[i], onnx_data_modes[k]);
}

/* Indices stored in the file are known at import, where the result is computed from constants. */
static void indices_of_the_file_are_refused_as_well(void **state)
{
    context_t *ctx = fixture_context(state);
    const int64_t index = 7;
    for (int k = 0; k < MODE_COUNT; k++) {
        model_t model = {.spec = "known", .kind = MODEL_ONNX};
        tensor_t *x = NULL, *out[METHOD_MAX_OUTPUTS] = {NULL};
        runner_t runner;
        int n_out = 0;
        maker_begin(&maker, 18);
        maker_input(&maker, "x", FLOAT, DIMS(3, 4));
        maker_initializer(&maker, "i", INT64, 0, NULL, &index, sizeof index);
        maker_node(&maker, "Gather", "n", "x i", "y");
        maker_output(&maker, "y");
        model.module = load_model(ctx);
        CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(3, 4), &x));
        set_input(ctx, &model, x);
        CHECK_OK(ctx, mode_prepare(ctx, &model, onnx_data_modes[k], &runner));
        CHECK_FAILS(ctx, mode_run(&runner, &n_out, out), STATUS_INVALID_ARGUMENT,
                    "gather: index 7 of f32[3,4] in dimension 0, out of range");
        mode_clear(&runner);
        model_clear(&model);
        CHECK_OK(ctx, dispatch_set_policy(ctx, POLICY_AUTO));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(indices_out_of_range_are_refused_in_every_mode),
        TEST(indices_of_the_file_are_refused_as_well),
    };
    return cmocka_run_group_tests_name("onnx_indices", tests, NULL, NULL);
}
