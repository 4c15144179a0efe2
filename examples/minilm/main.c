/* Prints how similar sentences are: the cosines between their MiniLM-L6 vectors, as a matrix.
 *
 *     minilm build/models/minilm "A man is eating." "Someone has lunch." "The sky is blue."
 *
 * The folder has model.safetensors and vocab.txt; tools/models downloads them. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "minilm.h"

enum { MAX_SENTENCES = 64, PATH_BYTES = 4096 };

static bool check(const context_t *ctx, status_t status)
{
    if (status != STATUS_OK) fprintf(stderr, "minilm: %s\n", context_error(ctx));
    return status == STATUS_OK;
}

/* Makes the model's inputs: the ids of a sentence, and a mask of the same length. */
static bool make_inputs(context_t *ctx, const wordpiece_t *wordpiece, const char *sentence,
                        tensor_t **in)
{
    int64_t ids[MINILM_MAX_IDS];
    const int n = wordpiece_run(wordpiece, sentence, MINILM_MAX_IDS, ids);
    return check(ctx, tensor_from(ctx, DTYPE_S64, SHAPE(1, n), ids, &in[0])) &&
           check(ctx, tensor_full(ctx, DTYPE_BOOL, SHAPE(1, n), 1, &in[1]));
}

/* Traces the model on one sentence; the graph works for any number of words. */
static bool freeze_model(context_t *ctx, const char *path, const wordpiece_t *wordpiece,
                         const char *sentence, module_t **out_frozen)
{
    module_t *model = NULL;
    tensor_t *in[2] = {NULL, NULL};
    bool done = check(ctx, minilm_load(ctx, path, &model)) &&
                make_inputs(ctx, wordpiece, sentence, in) &&
                check(ctx, graph_trace(ctx, model, "forward", 2, (const tensor_t *const *)in)) &&
                check(ctx, freeze_take(ctx, &model, NULL, out_frozen));
    tensor_release(in[0]);
    tensor_release(in[1]);
    module_release(model);
    return done;
}

static bool embed(context_t *ctx, module_t *frozen, const wordpiece_t *wordpiece,
                  const char *sentence, float *out_vector)
{
    tensor_t *in[2] = {NULL, NULL}, *vector = NULL;
    int n_out = 0;
    bool done = make_inputs(ctx, wordpiece, sentence, in) &&
                check(ctx, module_call_tensors(ctx, frozen, "forward", 2,
                                               (const tensor_t *const *)in, &n_out, &vector)) &&
                check(ctx, tensor_read(ctx, vector, out_vector, MINILM_WIDTH * sizeof *out_vector));
    tensor_release(in[0]);
    tensor_release(in[1]);
    tensor_release(vector);
    return done;
}

static void print_matrix(int n, float (*vectors)[MINILM_WIDTH])
{
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++) {
            double cosine = 0;
            for (int c = 0; c < MINILM_WIDTH; c++)
                cosine += (double)vectors[i][c] * (double)vectors[k][c];
            printf("%7.4f%c", cosine, k + 1 < n ? ' ' : '\n');
        }
}

static bool run(context_t *ctx, const char *folder, int n, char **sentences)
{
    static float vectors[MAX_SENTENCES][MINILM_WIDTH];
    char path[PATH_BYTES];
    const char *error = NULL;
    module_t *frozen = NULL;
    snprintf(path, sizeof path, "%s/vocab.txt", folder);
    wordpiece_t *wordpiece = wordpiece_create(path, &error);
    if (wordpiece == NULL) {
        fprintf(stderr, "minilm: %s: %s\n", path, error);
        return false;
    }
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    bool done = freeze_model(ctx, path, wordpiece, sentences[0], &frozen);
    for (int i = 0; i < n && done; i++)
        done = embed(ctx, frozen, wordpiece, sentences[i], vectors[i]);
    if (done) print_matrix(n, vectors);
    module_release(frozen);
    wordpiece_destroy(wordpiece);
    return done;
}

int main(int argc, char **argv)
{
    context_t *ctx = NULL;
    if (argc < 3 || argc - 2 > MAX_SENTENCES) {
        fprintf(stderr, "usage: minilm FOLDER SENTENCE...    (at most %d)\n", MAX_SENTENCES);
        return 2;
    }
    if (context_create(NULL, &ctx) != STATUS_OK) return EXIT_FAILURE;
    bool done = run(ctx, argv[1], argc - 2, argv + 2);
    context_destroy(ctx);
    return done ? EXIT_SUCCESS : EXIT_FAILURE;
}
