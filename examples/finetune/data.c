/* Before training: reads the sentences, runs the frozen layers on them, and makes the network. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "finetune.h"
#include "minilm.h"

#define MAX_LINE 256
#define MAX_IDS 32
#define BATCH 32

#define TRY(expr)                                                                                  \
    do {                                                                                           \
        status_t status_ = (expr);                                                                 \
        if (status_ != STATUS_OK) return status_;                                                  \
    } while (0)

typedef struct sentences {
    int64_t ids[FINETUNE_N][MAX_IDS];
    int n_ids[FINETUNE_N], longest;
    int64_t topics[FINETUNE_N];
} sentences_t;

static status_t complain(const char *path, const char *what)
{
    fprintf(stderr, "finetune: %s: %s\n", path, what);
    return STATUS_INVALID_ARGUMENT;
}

/* ---- sentences ---- */

static bool read_line(const wordpiece_t *wordpiece, char *line, sentences_t *sentences, int index)
{
    char *text = NULL;
    line[strcspn(line, "\n")] = '\0';
    const long topic = strtol(line, &text, 10);
    if (text == line || *text != ' ' || topic < 0 || topic >= FINETUNE_TOPICS) return false;
    const int n = wordpiece_run(wordpiece, text + 1, MAX_IDS, sentences->ids[index]);
    sentences->n_ids[index] = n;
    sentences->topics[index] = topic;
    if (n > sentences->longest) sentences->longest = n;
    return true;
}

static status_t read_sentences(const wordpiece_t *wordpiece, const char *path,
                               sentences_t *sentences)
{
    char line[MAX_LINE];
    int n = 0;
    FILE *file = fopen(path, "r");
    if (file == NULL) return complain(path, "the file cannot be read");
    while (n < FINETUNE_N && fgets(line, sizeof line, file) != NULL &&
           read_line(wordpiece, line, sentences, n))
        n++;
    fclose(file);
    return n == FINETUNE_N ? STATUS_OK
                           : complain(path, "320 lines of topic and sentence are needed");
}

static status_t tokenize(const char *folder, const char *path, sentences_t *sentences)
{
    char words[1024];
    const char *error = NULL;
    snprintf(words, sizeof words, "%s/vocab.txt", folder);
    wordpiece_t *wordpiece = wordpiece_create(words, &error);
    if (wordpiece == NULL) return complain(words, error);
    status_t status = read_sentences(wordpiece, path, sentences);
    wordpiece_destroy(wordpiece);
    return status;
}

/* ---- output of the frozen layers ---- */

/* Makes the ids and the mask of all sentences. Short ones are padded to the length of the
 * longest. */
static status_t make_inputs(context_t *ctx, const sentences_t *sentences, tensor_t **out_ids,
                            tensor_t **out_mask)
{
    static int64_t ids[FINETUNE_N * MAX_IDS];
    static bool mask[FINETUNE_N * MAX_IDS];
    const int length = sentences->longest;
    for (int i = 0; i < FINETUNE_N; i++)
        for (int k = 0; k < length; k++) {
            mask[i * length + k] = k < sentences->n_ids[i];
            ids[i * length + k] = k < sentences->n_ids[i] ? sentences->ids[i][k] : 0;
        }
    TRY(tensor_from(ctx, DTYPE_S64, SHAPE(FINETUNE_N, length), ids, out_ids));
    return tensor_from(ctx, DTYPE_BOOL, SHAPE(FINETUNE_N, length), mask, out_mask);
}

/* Runs the frozen layers on BATCH sentences, from number `first` on, and writes the row-major
 * elements of their output. Call it in a scope. */
static status_t run_front(context_t *ctx, module_t *front, const tensor_t *ids,
                          const tensor_t *mask, int64_t first, float *elements, size_t n_bytes)
{
    tensor_t *in[2] = {NULL, NULL}, *x = NULL;
    int n_out = 0;
    TRY(tensor_narrow(ctx, ids, 0, first, BATCH, &in[0]));
    TRY(tensor_narrow(ctx, mask, 0, first, BATCH, &in[1]));
    TRY(module_call_tensors(ctx, front, "forward", 2, (const tensor_t *const *)in, &n_out, &x));
    return tensor_read(ctx, x, elements, n_bytes);
}

static status_t run_all(context_t *ctx, module_t *front, const tensor_t *ids, const tensor_t *mask,
                        tensor_t **out_x)
{
    const int64_t length = tensor_sizes(ids)[1];
    const size_t n = (size_t)(BATCH * length * MINILM_WIDTH);
    float *elements = malloc(FINETUNE_N / BATCH * n * sizeof *elements);
    status_t status = elements != NULL ? STATUS_OK : STATUS_OUT_OF_MEMORY;
    for (int64_t i = 0; i < FINETUNE_N / BATCH && status == STATUS_OK; i++) {
        scope_begin(ctx);
        (void)run_front(ctx, front, ids, mask, i * BATCH, elements + (size_t)i * n,
                        n * sizeof *elements);
        status = scope_end(ctx);
    }
    if (status == STATUS_OK)
        status = tensor_from(ctx, DTYPE_F32, SHAPE(FINETUNE_N, length, MINILM_WIDTH), elements,
                             out_x);
    free(elements);
    return status;
}

static status_t make_data(context_t *ctx, module_t *front, const sentences_t *sentences,
                          finetune_data_t *data)
{
    tensor_t *ids = NULL;
    status_t status = make_inputs(ctx, sentences, &ids, &data->mask);
    if (status == STATUS_OK) status = run_all(ctx, front, ids, data->mask, &data->x);
    tensor_release(ids);
    TRY(status);
    memcpy(data->wanted, sentences->topics, sizeof data->wanted);
    return tensor_from(ctx, DTYPE_S64, SHAPE(FINETUNE_N), data->wanted, &data->topics);
}

/* ---- the network ---- */

static status_t forward(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                        int *n_out, tensor_t **out)
{
    tensor_t *vectors = NULL;
    int n = 0;
    *n_out = 1;
    TRY(module_call_tensors(ctx, module_child(self, "back"), "forward", n_in, in, &n, &vectors));
    return module_run_child(ctx, self, "head", vectors, out);
}

static status_t build(context_t *ctx, module_t *back, module_t *network)
{
    module_t *head = NULL;
    TRY(module_set_child(ctx, network, "back", back));
    TRY(layer_linear(ctx, MINILM_WIDTH, FINETUNE_TOPICS, true, &head));
    status_t status = module_set_child(ctx, network, "head", head);
    module_release(head);
    TRY(status);
    return module_set_forward(ctx, network, "forward", forward);
}

status_t finetune_network(context_t *ctx, const char *folder, module_t **out_front,
                          module_t **out_network)
{
    char path[1024];
    module_t *model = NULL, *front = NULL, *back = NULL, *network = NULL;
    *out_front = *out_network = NULL;
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    TRY(minilm_load(ctx, path, &model));
    status_t status = minilm_split(ctx, model, FINETUNE_FROZEN, &front, &back);
    if (status == STATUS_OK) status = module_create(ctx, "Topics", &network);
    if (status == STATUS_OK) status = build(ctx, back, network);
    module_release(back);
    module_release(model);
    if (status != STATUS_OK) {
        module_release(front);
        module_release(network);
        return status;
    }
    *out_front = front;
    *out_network = network;
    return STATUS_OK;
}

status_t finetune_read(context_t *ctx, module_t *front, const char *folder, const char *path,
                       finetune_data_t *out_data)
{
    static sentences_t sentences;
    memset(out_data, 0, sizeof *out_data);
    memset(&sentences, 0, sizeof sentences);
    TRY(tokenize(folder, path, &sentences));
    status_t status = make_data(ctx, front, &sentences, out_data);
    if (status != STATUS_OK) finetune_release(out_data);
    return status;
}

void finetune_release(finetune_data_t *data)
{
    tensor_release(data->x);
    tensor_release(data->mask);
    tensor_release(data->topics);
    memset(data, 0, sizeof *data);
}
