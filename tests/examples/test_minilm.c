/* The example minilm compared with PyTorch, in every mode: sentences of several lengths with one
 * graph, and a batch of two. minilm_values.py writes minilm_values.txt; tools/models downloads the
 * weights. */
#include "tests/support/support.h"

#ifdef TESSERA_HAVE_SAFETENSORS

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/minilm/minilm.h"

#define FOLDER TESSERA_SOURCE_DIR "/build/models/minilm/"

enum { N_SENTENCES = 8, N_SHOWN = 96, STEP = 4, MAX_LINE = 4096 };

typedef struct sentence {
    char text[MAX_LINE];
    int n;
    int64_t ids[MINILM_MAX_IDS];
    double vector[N_SHOWN];
} sentence_t;

static sentence_t sentences[N_SENTENCES];

static bool is_there(void)
{
    FILE *file = fopen(FOLDER "model.safetensors", "rb");
    if (file != NULL) fclose(file);
    return file != NULL;
}

static void read_numbers(sentence_t *sentence, const char *line, char *numbers)
{
    const bool is_vector = strncmp(line, "vector", 6) == 0;
    int n = 0;
    for (char *end = NULL;; numbers = end, n++) {
        const double number = strtod(numbers, &end);
        if (end == numbers) break;
        assert_in_range(n, 0, is_vector ? N_SHOWN - 1 : MINILM_MAX_IDS - 1);
        if (is_vector)
            sentence->vector[n] = number;
        else
            sentence->ids[n] = (int64_t)number;
    }
    if (!is_vector) sentence->n = n;
}

static void read_sentences(void)
{
    char line[MAX_LINE];
    int n = -1;
    FILE *file = fopen(TESSERA_SOURCE_DIR "/tests/examples/minilm_values.txt", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0] == '#') continue;
        char *rest = strchr(line, ' ');
        assert_non_null(rest);
        if (strncmp(line, "sentence", 8) == 0) {
            assert_in_range(++n, 0, N_SENTENCES - 1);
            snprintf(sentences[n].text, MAX_LINE, "%s", rest + 1);
        } else {
            read_numbers(&sentences[n], line, rest);
        }
    }
    fclose(file);
    assert_int_equal(n, N_SENTENCES - 1);
}

/* ---- the tokenizer ---- */

static void sentences_are_the_pieces_that_python_makes_of_them(void **state)
{
    (void)state;
    const char *error = NULL;
    int64_t ids[MINILM_MAX_IDS];
    if (!is_there()) skip_without("tools/models");
    read_sentences();
    wordpiece_t *wordpiece = wordpiece_create(FOLDER "vocab.txt", &error);
    assert_non_null(wordpiece);
    for (int i = 0; i < N_SENTENCES; i++) {
        const int n = wordpiece_run(wordpiece, sentences[i].text, MINILM_MAX_IDS, ids);
        if (n != sentences[i].n || memcmp(ids, sentences[i].ids, (size_t)n * sizeof *ids) != 0)
            fail_msg("\"%s\" has other pieces", sentences[i].text);
    }
    assert_int_equal(wordpiece_run(wordpiece, sentences[7].text, 5, ids), 5);
    assert_int_equal(ids[4], 102);
    wordpiece_destroy(wordpiece);
    assert_null(wordpiece_create(FOLDER "no such file", &error));
    assert_string_equal(error, "the file cannot be read");
}

/* ---- the model ---- */

static void run(context_t *ctx, module_t *model, int n, const sentence_t *const *batch)
{
    int64_t ids[2 * MINILM_MAX_IDS] = {0};
    bool mask[2 * MINILM_MAX_IDS] = {false};
    tensor_t *in[2] = {NULL, NULL}, *out = NULL;
    float vectors[2 * MINILM_WIDTH];
    int length = 0, n_out = 0;
    for (int i = 0; i < n; i++) length = batch[i]->n > length ? batch[i]->n : length;
    for (int i = 0; i < n; i++) {
        memcpy(&ids[i * length], batch[i]->ids, (size_t)batch[i]->n * sizeof *ids);
        for (int k = 0; k < batch[i]->n; k++) mask[i * length + k] = true;
    }
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_S64, SHAPE(n, length), ids, &in[0]));
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_BOOL, SHAPE(n, length), mask, &in[1]));
    CHECK_OK(ctx, module_call_tensors(ctx, model, "forward", 2, (const tensor_t *const *)in, &n_out,
                                      &out));
    CHECK_OK(ctx, tensor_read(ctx, out, vectors, sizeof vectors));
    for (int i = 0; i < n; i++)
        for (int k = 0; k < N_SHOWN; k++) {
            const double given = (double)vectors[i * MINILM_WIDTH + k * STEP];
            if (!(fabs(given - batch[i]->vector[k]) <= 1e-5))
                fail_msg("\"%s\": number %d is %g, must be %g", batch[i]->text, k * STEP, given,
                         batch[i]->vector[k]);
        }
    tensor_release(in[0]);
    tensor_release(in[1]);
    tensor_release(out);
}

static void check_all(context_t *ctx, module_t *model)
{
    for (int i = 0; i < N_SENTENCES; i++) {
        const sentence_t *one = &sentences[i];
        run(ctx, model, 1, &one);
    }
    run(ctx, model, 2, (const sentence_t *const[]){&sentences[3], &sentences[1]});
}

static void trace(context_t *ctx, module_t *model)
{
    tensor_t *in[2] = {NULL, NULL};
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_S64, SHAPE(2, 3), sentences[0].ids, &in[0]));
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_BOOL, SHAPE(2, 3), 1, &in[1]));
    CHECK_OK(ctx, graph_trace(ctx, model, "forward", 2, (const tensor_t *const *)in));
    tensor_release(in[0]);
    tensor_release(in[1]);
}

static module_t *load(context_t *ctx)
{
    module_t *model = NULL;
    CHECK_OK(ctx, minilm_load(ctx, FOLDER "model.safetensors", &model));
    return model;
}

static void vectors_are_those_of_pytorch_in_every_mode(void **state)
{
    context_t *ctx = fixture_context(state);
    if (!is_there()) skip_without("tools/models");
    read_sentences();
    module_t *model = load(ctx), *frozen = NULL, *loaded = NULL;
    CHECK_OK(ctx, dispatch_set_policy(ctx, POLICY_PER_OP));
    check_all(ctx, model);
    CHECK_OK(ctx, dispatch_set_policy(ctx, POLICY_AUTO));
    CHECK_OK(ctx, module_mkldnn(ctx, model, NULL));
    check_all(ctx, model);
    module_release(model);

    model = load(ctx);
    trace(ctx, model);
    check_all(ctx, model);
    CHECK_OK(ctx, freeze_take(ctx, &model, NULL, &frozen));
    check_all(ctx, frozen);
    CHECK_OK(ctx, freeze_save(ctx, frozen, TESSERA_BINARY_DIR "/minilm.tessera"));
    module_release(frozen);
    CHECK_OK(ctx, freeze_load(ctx, TESSERA_BINARY_DIR "/minilm.tessera", &loaded));
    check_all(ctx, loaded);
    module_release(loaded);
    remove(TESSERA_BINARY_DIR "/minilm.tessera");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(sentences_are_the_pieces_that_python_makes_of_them),
        TEST(vectors_are_those_of_pytorch_in_every_mode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    return 0;
}

#endif
