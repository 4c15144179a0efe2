#include "tools/command/examples.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/base/try_impl.h"

/* Replaces characters that are not allowed in file names by '_'. Returns the length. */
static size_t file_name(const char *name, char *out_name)
{
    size_t i = 0;
    for (; i < MODEL_NAME_MAX - 1 && name[i] != '\0'; i++) {
        const bool stays = isalnum((unsigned char)name[i]) || strchr("._-", name[i]) != NULL;
        out_name[i] = stays ? name[i] : '_';
    }
    out_name[i] = '\0';
    return i;
}

/* Returns the part of a file's name (the key) after the input's name: "" or ".NUMBER". NULL if the
 * file belongs to another input. */
static const char *end_of(const char *name, const char *key)
{
    char own[MODEL_NAME_MAX];
    const size_t length = file_name(name, own);
    if (strncmp(key, own, length) != 0) return NULL;
    const char *end = key + length;
    if (*end == '\0') return end;
    if (*end != '.' || end[1] == '\0') return NULL;
    return end[1 + strspn(end + 1, "0123456789")] == '\0' ? end : NULL;
}

static status_t check_tensor(context_t *ctx, const model_input_t *input, const char *dir,
                             const char *key, const tensor_t *tensor)
{
    const tensor_info_t *want = &input->info, *given = tensor_info(tensor);
    char want_text[INFO_TEXT_MAX], given_text[INFO_TEXT_MAX];
    if (want->dtype == DTYPE_NONE) return STATUS_OK;
    REQUIRE(ctx, want->dtype == given->dtype && want->rank == given->rank,
            "%s/%s.npy: %s was given, input %s must be %s", dir, key, info_text(given, given_text),
            input->name, info_text(want, want_text));
    return STATUS_OK;
}

static status_t add(context_t *ctx, const model_t *model, const char *dir, int file,
                    examples_t *examples)
{
    char of_several[MODEL_NAME_MAX + 64], own[MODEL_NAME_MAX];
    const char *first = datum_key(examples->files, file);
    const char *end = model->n_inputs == 1 ? "" : end_of(model->inputs[0].name, first);
    const tensor_t **row = examples->tensors + examples->n * (model->n_inputs + 1);
    if (end == NULL) return STATUS_OK;
    for (int i = 1; i < model->n_inputs; i++) { /* x.1.npy belongs to input x.1, if any, not to x */
        file_name(model->inputs[i].name, own);
        if (strcmp(own, first) == 0) return STATUS_OK;
    }
    for (int i = 0; i < model->n_inputs; i++) {
        const model_input_t *input = &model->inputs[i];
        file_name(input->name, own);
        snprintf(of_several, sizeof of_several, "%s%s", own, end);
        const char *key = model->n_inputs == 1 ? first : of_several;
        const datum_t *item = datum_find(examples->files, key);
        REQUIRE(ctx, item != NULL,
                "%s/%s.npy is missing: %s.npy is an example, and input %s needs one", dir, key,
                first, input->name);
        row[i] = datum_as_tensor(item);
        TRY(check_tensor(ctx, input, dir, key, row[i]));
    }
    examples->of_each[examples->n++] = row;
    return STATUS_OK;
}

static status_t check_names(context_t *ctx, const model_t *model, const char *dir,
                            const datum_t *files)
{
    for (int i = 0; i < datum_length(files); i++) {
        bool is_known = model->n_inputs == 1;
        for (int k = 0; k < model->n_inputs && !is_known; k++)
            is_known = end_of(model->inputs[k].name, datum_key(files, i)) != NULL;
        REQUIRE(ctx, is_known, "%s/%s.npy matches no input of %s, the first is %s", dir,
                datum_key(files, i), model->spec, model->inputs[0].name);
    }
    return STATUS_OK;
}

status_t examples_load(context_t *ctx, const model_t *model, const char *dir,
                       examples_t *out_examples)
{
    examples_t examples = {0};
    TRY(npy_load_folder(ctx, dir, &examples.files));
    const int n = datum_length(examples.files);
    status_t status = check_names(ctx, model, dir, examples.files);
    examples.tensors = calloc((size_t)n * (size_t)(model->n_inputs + 1), sizeof *examples.tensors);
    examples.of_each = calloc((size_t)n, sizeof *examples.of_each);
    if (status == STATUS_OK && (examples.tensors == NULL || examples.of_each == NULL))
        status = context_fail(ctx, STATUS_OUT_OF_MEMORY, "no memory for %d examples", n);
    for (int i = 0; i < n && status == STATUS_OK; i++) status = add(ctx, model, dir, i, &examples);
    if (status == STATUS_OK && examples.n == 0)
        status = context_fail(ctx, STATUS_INVALID_ARGUMENT, "%s has no file of input %s", dir,
                              model->inputs[0].name);
    if (status == STATUS_OK)
        *out_examples = examples;
    else
        examples_clear(&examples);
    return status;
}

void examples_clear(examples_t *examples)
{
    free((void *)examples->of_each);
    free((void *)examples->tensors);
    datum_release(examples->files);
    *examples = (examples_t){0};
}
