/* Loads a folder of .npy files as examples of a model's inputs. */
#ifndef TESSERA_TOOLS_COMMAND_EXAMPLES_H
#define TESSERA_TOOLS_COMMAND_EXAMPLES_H

#include "tools/support/model.h"

typedef struct examples {
    int n;
    datum_t *files;                  /* own the tensors */
    const tensor_t **tensors;        /* [n][n_inputs + 1], each row NULL-terminated */
    const tensor_t *const **of_each; /* [n], as freeze_options_t needs them */
} examples_t;

/* If the model has one input, each file is an example; the order is that of the file names. If it
 * has several inputs, such as a and b, the files are a.npy and b.npy, or for several examples
 * a.NUMBER.npy and b.NUMBER.npy. In file names, `_` replaces all characters of an input's name but
 * letters, digits, `.`, `_` and `-`. Errors name the file. Sizes are not checked. */
status_t examples_load(context_t *ctx, const model_t *model, const char *dir,
                       examples_t *out_examples);
void examples_clear(examples_t *examples);

#endif
