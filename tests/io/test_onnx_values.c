/* Models with pseudo-random weights, in every mode, compared with ONNX Runtime. onnx_values.py
 * writes onnx_values.txt and describes its lines. */
#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/program/plan.h"
#include "tests/support/drawn.h"
#include "tests/support/onnx/onnx_data.h"
#include "tests/support/onnx/onnx_model.h"

enum { N_SHOWN = 64, N_MODELS = 19, MAX_WORDS = 128, MAX_INTS = 32, MAX_NUMBERS = 8192 };

/* Relative to the largest element. The measured error is 4e-7. */
#define TOLERANCE 5e-6

static char microsoft[] = "com.microsoft";

/* ---- lines ---- */

/* Parses integers such as "2,3,17". Returns their number. */
static int parse_ints(char *text, int64_t *out_values)
{
    int n = 0;
    for (char *end = text; n == 0 || *end == ','; n++) {
        char *begin = end + (n > 0);
        assert_in_range(n, 0, MAX_INTS - 1);
        out_values[n] = strtoll(begin, &end, 10);
        assert_true(end != begin);
    }
    return n;
}

static int64_t count_of(int rank, const int64_t *sizes)
{
    int64_t n = 1;
    for (int d = 0; d < rank; d++) n *= sizes[d];
    assert_in_range(n, 1, MAX_NUMBERS);
    return n;
}

static void add_input(context_t *ctx, model_t *model, char **words)
{
    int64_t sizes[MAX_INTS];
    const int rank = parse_ints(words[2], sizes);
    model_input_t *input = &model->inputs[model->n_inputs++];
    void *elements = NULL;
    maker_input(&maker, words[1], FLOAT, rank, sizes);
    CHECK_OK(ctx, tensor_empty(ctx, DTYPE_F32, rank, sizes, &input->tensor));
    CHECK_OK(ctx, tensor_data_mutable(ctx, input->tensor, &elements));
    drawn_fill(words[1], 0.0, 2.0, count_of(rank, sizes), elements);
    input->info = *tensor_info(input->tensor);
}

static void add_weight(char **words, int n_words)
{
    static float elements[MAX_NUMBERS];
    int64_t sizes[MAX_INTS];
    const int rank = parse_ints(words[2], sizes);
    const int64_t n = count_of(rank, sizes);
    double shift = 0.0, scale = sqrt(3.0 / (double)(rank == 2 ? sizes[0] : n / sizes[0]));
    if (n_words > 3 && strcmp(words[3], "positive") == 0)
        shift = 1.0, scale = 0.5;
    else if (n_words > 3)
        scale = strtod(words[3], NULL);
    drawn_fill(words[1], shift, scale, n, elements);
    maker_initializer(&maker, words[1], FLOAT, rank, sizes, elements, (size_t)n * sizeof(float));
}

/* Replaces the commas in names such as "x,w,-" by blanks, as the maker needs. */
static const char *names_of(char *text)
{
    for (char *at = text; *at != '\0'; at++)
        if (*at == ',') *at = ' ';
    return text;
}

/* Adds an attribute such as "strides=[2,1]", "alpha=0.5", "ceil_mode=1" or "mode=reflect". */
static void add_attribute(maker_node_t *node, char *word)
{
    char *value = strchr(word, '='), *end = NULL;
    assert_non_null(value);
    *value++ = '\0';
    if (*value == '[') {
        int64_t ints[MAX_INTS];
        const int n = parse_ints(value + 1, ints);
        maker_ints(node, word, n, ints);
        return;
    }
    const double number = strtod(value, &end);
    if (*end != '\0')
        maker_string(node, word, value);
    else if (strchr(value, '.') != NULL)
        maker_float(node, word, (float)number);
    else
        maker_int(node, word, (int64_t)number);
}

static void add_line(context_t *ctx, model_t *model, char **words, int n_words)
{
    int64_t ints[MAX_INTS];
    if (strcmp(words[0], "input") == 0) {
        add_input(ctx, model, words);
    } else if (strcmp(words[0], "weight") == 0) {
        add_weight(words, n_words);
    } else if (strcmp(words[0], "ints") == 0) {
        const int64_t n = parse_ints(words[2], ints);
        maker_initializer(&maker, words[1], INT64, 1, &n, ints, (size_t)n * sizeof(int64_t));
    } else if (strcmp(words[0], "floats") == 0) {
        const int64_t n = parse_ints(words[2], ints);
        float floats[MAX_INTS];
        for (int64_t i = 0; i < n; i++) floats[i] = (float)ints[i];
        maker_initializer(&maker, words[1], FLOAT, 1, &n, floats, (size_t)n * sizeof(float));
    } else if (strcmp(words[0], "scalar") == 0) {
        const float number = strtof(words[2], NULL);
        maker_initializer(&maker, words[1], FLOAT, 0, NULL, &number, sizeof number);
    } else {
        assert_string_equal(words[0], "node");
        const char *inputs = names_of(words[2]);
        const size_t length = strlen(microsoft);
        const bool is_theirs = strncmp(words[1], "com.microsoft.", length + 1) == 0;
        const char *type = is_theirs ? words[1] + length + 1 : words[1];
        maker_node_t *node = maker_node(&maker, type, "", inputs, names_of(words[3]));
        if (is_theirs) node->node.domain = microsoft;
        for (int i = 4; i < n_words; i++) add_attribute(node, words[i]);
    }
}

/* ---- results ---- */

/* Compares a result. In mode nhwc, results with images may be channels-last. */
static void check_result(context_t *ctx, const model_t *model, run_mode_t mode, const tensor_t *out,
                         char **words, int n_words)
{
    tensor_t *plain = NULL;
    int64_t sizes[MAX_INTS];
    const void *data = NULL;
    const int rank = parse_ints(words[2], sizes);
    const int64_t n = count_of(rank, sizes), step = (n + N_SHOWN - 1) / N_SHOWN | 1;
    double largest = 0.0, error = 0.0;
    assert_true(shape_equal(tensor_rank(out), tensor_sizes(out), rank, sizes));
    assert_int_equal(n_words - 3, (n + step - 1) / step);
    CHECK_OK(ctx, tensor_contiguous(ctx, out, &plain));
    CHECK_OK(ctx, tensor_data(ctx, plain, &data));
    for (int i = 3; i < n_words; i++) {
        const double wanted = strtod(words[i], NULL);
        const double difference = fabs((double)((const float *)data)[(i - 3) * step] - wanted);
        largest = fmax(largest, fabs(wanted));
        error = isnan(difference) ? INFINITY : fmax(error, difference);
    }
    if (!(error <= TOLERANCE * largest))
        fail_msg("%s, mode %s: off by %g of the largest element", model->spec, mode_name(mode),
                 error / largest);
    tensor_release(plain);
}

static void check_model(context_t *ctx, model_t *model, char **words, int n_words)
{
    maker_output(&maker, words[1]);
    model->module = load_model(ctx);
    for (int i = 0; i < MODE_COUNT; i++) {
        const run_mode_t mode = onnx_data_modes[i];
        tensor_t *out[METHOD_MAX_OUTPUTS];
        runner_t runner;
        int n_out = 0;
        CHECK_OK(ctx, mode_prepare(ctx, model, mode, &runner));
        CHECK_OK(ctx, mode_run(&runner, &n_out, out));
        assert_int_equal(n_out, 1);
        if (mode == MODE_GRAPH || mode == MODE_FROZEN)
            assert_non_null(plan_of(runner.module, "forward"));
        check_result(ctx, model, mode, out[0], words, n_words);
        mode_release_outputs(n_out, out);
        mode_clear(&runner);
    }
    model_clear(model);
    CHECK_OK(ctx, dispatch_set_policy(ctx, POLICY_AUTO));
}

/* Reads the file. The names of models point into its text. */
static char *read_lines(void)
{
    enum { MAX_BYTES = 1 << 16 };
    char *text = calloc(1, MAX_BYTES);
    FILE *file = fopen(TESSERA_SOURCE_DIR "/tests/io/onnx_values.txt", "r");
    assert_non_null(text);
    assert_non_null(file);
    assert_in_range(fread(text, 1, MAX_BYTES, file), 1, MAX_BYTES - 1);
    fclose(file);
    return text;
}

static void models_give_what_onnx_runtime_gives(void **state)
{
    context_t *ctx = fixture_context(state);
    char *text = read_lines(), *rest = text;
    model_t model = {.kind = MODEL_ONNX};
    int n_models = 0;
    for (char *line; (line = strtok_r(rest, "\n", &rest)) != NULL;) {
        char *words[MAX_WORDS] = {NULL};
        int n_words = 0;
        for (char *word; (word = strtok_r(line, " ", &line)) != NULL; n_words++) {
            assert_in_range(n_words, 0, MAX_WORDS - 1);
            words[n_words] = word;
        }
        if (strcmp(words[0], "#") == 0) continue;
        assert_in_range(n_words, 3, MAX_WORDS);
        if (strcmp(words[0], "model") == 0) {
            model = (model_t){.spec = words[1], .kind = MODEL_ONNX};
            maker_begin(&maker, strtol(words[2], NULL, 10));
        } else if (strcmp(words[0], "output") == 0) {
            check_model(ctx, &model, words, n_words);
            n_models++;
        } else {
            add_line(ctx, &model, words, n_words);
        }
    }
    free(text);
    assert_int_equal(n_models, N_MODELS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(models_give_what_onnx_runtime_gives),
    };
    return cmocka_run_group_tests_name("onnx_values", tests, NULL, NULL);
}
