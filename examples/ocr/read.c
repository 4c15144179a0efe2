/* The network maps a line [1][3][48][W] to [1][T][K]: for T positions from left to right, the
 * probabilities of K characters. Character 0 is "none", the last is a blank, and the metadata list
 * the others. Equal characters at adjacent positions are one, unless "none" is between them
 * (CTC). */
#include <stdlib.h>
#include <string.h>

#include "ocr.h"

#define HEIGHT 48
#define NARROWEST 320 /* width of the narrowest lines in training */
#define STEP 32       /* widths are multiples, because each width needs a plan */

struct reader {
    module_t *model;
    char *bytes;             /* the list; zeros replace its line ends */
    const char **characters; /* point into bytes */
    int64_t n;               /* without none and blank */
};

status_t reader_load(context_t *ctx, const char *path, module_t **out_model)
{
    static const int64_t sizes[] = {1, 3, HEIGHT, NARROWEST};
    static const onnx_shape_t shape = {"x", 4, sizes};
    static const char *const preserved[] = {"metadata", NULL};
    module_t *model = NULL;
    status_t status = onnx_load(ctx, path, &(onnx_options_t){.n_shapes = 1, .shapes = &shape},
                                &model);
    if (status == STATUS_OK)
        status = freeze_take(ctx, &model, &(freeze_options_t){.preserved = preserved}, out_model);
    module_release(model);
    return status;
}

static bool split(reader_t *reader, const char *list)
{
    const size_t length = strlen(list);
    size_t n_lines = 1;
    for (const char *at = list; *at != '\0'; at++) n_lines += *at == '\n';
    reader->bytes = malloc(length + 1);
    reader->characters = malloc(n_lines * sizeof *reader->characters);
    if (reader->bytes == NULL || reader->characters == NULL) return false;
    memcpy(reader->bytes, list, length + 1);
    for (char *at = reader->bytes; *at != '\0';) {
        const size_t line = strcspn(at, "\n");
        const bool is_last = at[line] == '\0';
        at[line] = '\0';
        reader->characters[reader->n++] = at;
        at += line + !is_last;
    }
    return true;
}

/* Checks that each position has a score for every character of the list. */
static bool fits(context_t *ctx, const reader_t *reader)
{
    module_value_t scores;
    return module_output(ctx, reader->model, "forward", 0, &scores) == STATUS_OK &&
           scores.rank == 3 && scores.sizes[2] == reader->n + 2;
}

reader_t *reader_create(context_t *ctx, module_t *model, const char **out_error)
{
    const char *list = onnx_metadata(model, "character");
    reader_t *reader = calloc(1, sizeof *reader);
    *out_error = list == NULL ? "the model has no list of characters" : "out of memory";
    if (reader != NULL && list != NULL && split(reader, list)) {
        reader->model = module_retain(model);
        if (fits(ctx, reader)) return reader;
        *out_error = "the model's scores do not match its list of characters";
    }
    reader_destroy(reader);
    return NULL;
}

void reader_destroy(reader_t *reader)
{
    if (reader == NULL) return;
    module_release(reader->model);
    free(reader->characters);
    free(reader->bytes);
    free(reader);
}

static int64_t likeliest(int64_t n, const float *scores)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (scores[i] > scores[best]) best = i;
    return best;
}

static void decode(const reader_t *reader, int64_t n_places, const float *scores, size_t capacity,
                   char *out_text, double *out_score)
{
    const int64_t n_characters = reader->n + 2;
    int64_t before = 0;
    size_t length = 0;
    double sum = 0;
    int n = 0;
    for (int64_t place = 0; place < n_places; place++, scores += n_characters) {
        const int64_t character = likeliest(n_characters, scores);
        const bool is_new = character != 0 && character != before;
        before = character;
        if (!is_new) continue;
        const char *text = character <= reader->n ? reader->characters[character - 1] : " ";
        const size_t n_bytes = strlen(text);
        if (length + n_bytes >= capacity) break;
        memcpy(out_text + length, text, n_bytes);
        length += n_bytes;
        sum += (double)scores[character];
        n++;
    }
    out_text[length] = '\0';
    *out_score = n > 0 ? sum / n : 0;
}

/* Scales the line to HEIGHT and keeps its proportions. The rest of the input's width is grey. */
static status_t make_input(context_t *ctx, const picture_t *picture, const box_t *line,
                           tensor_t **out_tensor)
{
    const int height = line->bottom - line->top;
    const int width = (HEIGHT * (line->right - line->left) + height - 1) / height;
    const int steps = (width + STEP - 1) / STEP * STEP;
    return picture_tensor(ctx, picture, line, HEIGHT, width, steps > NARROWEST ? steps : NARROWEST,
                          out_tensor);
}

status_t reader_read(context_t *ctx, const reader_t *reader, const picture_t *picture,
                     const box_t *line, size_t capacity, char *out_text, double *out_score)
{
    tensor_t *x = NULL, *y = NULL;
    float *scores = NULL;
    status_t status = make_input(ctx, picture, line, &x);
    if (status == STATUS_OK) status = module_forward(ctx, reader->model, x, &y);
    if (status == STATUS_OK) {
        const size_t n_bytes = (size_t)tensor_numel(y) * sizeof *scores;
        scores = malloc(n_bytes);
        status = scores == NULL ? STATUS_OUT_OF_MEMORY : tensor_read(ctx, y, scores, n_bytes);
    }
    if (status == STATUS_OK)
        decode(reader, tensor_sizes(y)[1], scores, capacity, out_text, out_score);
    free(scores);
    tensor_release(x);
    tensor_release(y);
    return status;
}
