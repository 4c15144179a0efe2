/* A folder of .npy files as examples of a model's inputs. */
#ifndef TESSERA_TOOLS_EXAMPLES_H
#define TESSERA_TOOLS_EXAMPLES_H

#include "tools/model.h"

typedef struct examples {
    int n;
    datum_t *files;                  /* that have the tensors */
    const tensor_t **tensors;        /* [n][n_inputs + 1], each NULL-terminated */
    const tensor_t *const **of_each; /* [n], as freeze_options_t has them */
} examples_t;

/* A model of one input has an example in every file, in the order of their names. Of several
 * inputs, a and b, the files are a.npy and b.npy, or a.NUMBER.npy and b.NUMBER.npy for as many
 * examples; in file names anything but letters, digits, `.`, `_` and `-` is `_`. Whether sizes fit
 * is left to whoever takes the examples; other faults name the file. */
status_t examples_load(context_t *ctx, const model_t *model, const char *dir,
                       examples_t *out_examples);
void examples_clear(examples_t *examples);

#endif
