/* What a narrower dtype changes: the layers as freeze tells them, and the outputs on examples. */
#ifndef TESSERA_TOOLS_ACCURACY_H
#define TESSERA_TOOLS_ACCURACY_H

#include "tools/mode.h"

typedef struct accuracy {
    int n_layers, n_kept;
    char worst_path[256], worst_op[64];
    double worst;
    int n; /* examples */
    struct accuracy_outputs *wide;
} accuracy_t;

/* Runs the model as it is on n examples of n_in inputs each, and keeps what it gives. */
status_t accuracy_begin(context_t *ctx, const model_t *model, int n,
                        const tensor_t *const *const *examples, accuracy_t *out_accuracy);
void accuracy_end(accuracy_t *accuracy);

/* For freeze_options_t: the largest error of those that are computed in the dtype; what stays f32
 * is printed. */
void accuracy_note(void *accuracy, const freeze_layer_t *layer);

/* Runs the frozen model on the examples, and prints how it differs. */
status_t accuracy_print(context_t *ctx, module_t *frozen, const model_t *model, dtype_t dtype,
                        const tensor_t *const *const *examples, const accuracy_t *accuracy);

#endif
