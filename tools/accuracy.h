/* What a narrower dtype changes: the layers as freeze tells them, and the outputs on examples. */
#ifndef TESSERA_TOOLS_ACCURACY_H
#define TESSERA_TOOLS_ACCURACY_H

#include "tools/mode.h"

typedef struct accuracy_layer {
    char path[1024];
    double error;
} accuracy_layer_t;

typedef struct accuracy {
    accuracy_layer_t *layers; /* in the dtype */
    int n_layers, n_kept;
    char worst_path[1024], worst_op[64];
    double worst;
    int n; /* examples */
    struct accuracy_outputs *wide;
} accuracy_t;

/* Runs the model as it is on n examples of n_in inputs each, and keeps what it gives. */
status_t accuracy_begin(context_t *ctx, const model_t *model, int n,
                        const tensor_t *const *const *examples, accuracy_t *out_accuracy);
void accuracy_end(accuracy_t *accuracy);

/* What the outputs of all examples say. */
typedef struct agreement {
    double difference;      /* the largest of all outputs */
    int64_t n_rows, n_same; /* of scores [rows][classes]; whose largest stands at the same place */
} agreement_t;

/* For freeze_options_t: the largest error of those that are computed in the dtype; what stays f32
 * is printed. */
void accuracy_note(void *accuracy, const freeze_layer_t *layer);

/* Forgets the layers that accuracy_note was told, for another network of the same examples. */
void accuracy_forget(accuracy_t *accuracy);

/* The path of the layer whose error is the largest but for `rank` others; NULL: there is none. */
const char *accuracy_worst(const accuracy_t *accuracy, int rank);

/* Runs the frozen model on the examples. */
status_t accuracy_compare(context_t *ctx, module_t *frozen, const model_t *model,
                          const tensor_t *const *const *examples, const accuracy_t *accuracy,
                          agreement_t *out_agreement);

/* Prints how it differs. */
void accuracy_print(dtype_t dtype, const accuracy_t *accuracy, const agreement_t *agreement);

#endif
