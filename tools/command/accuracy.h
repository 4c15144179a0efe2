/* Measures the effect of a lower precision: errors of layers, and differences of outputs. */
#ifndef TESSERA_TOOLS_COMMAND_ACCURACY_H
#define TESSERA_TOOLS_COMMAND_ACCURACY_H

#include "tools/support/mode.h"

typedef struct accuracy_layer {
    char path[1024];
    double error;
} accuracy_layer_t;

typedef struct accuracy {
    accuracy_layer_t *layers; /* layers computed in the narrower dtype */
    int n_layers, n_kept;
    char worst_path[1024], worst_op[64];
    double worst;
    int n; /* number of examples */
    struct accuracy_outputs *wide;
} accuracy_t;

/* Runs the unfrozen model on n examples. Its outputs are the reference. */
status_t accuracy_begin(context_t *ctx, const model_t *model, int n,
                        const tensor_t *const *const *examples, accuracy_t *out_accuracy);
void accuracy_end(accuracy_t *accuracy);

/* How closely two models' outputs agree, over all examples. */
typedef struct agreement {
    double difference;      /* the largest difference of an output */
    int64_t n_rows, n_same; /* rows of scores; rows in which the same class has the largest score */
} agreement_t;

/* Callback for freeze_options_t. Records the error of each layer; prints layers that stay f32. */
void accuracy_note(void *accuracy, const freeze_layer_t *layer);

/* Removes the recorded layers, so that another network can be frozen on the same examples. */
void accuracy_forget(accuracy_t *accuracy);

/* The path of a layer, counted from the layer with the largest error (rank 0) to the one with the
 * smallest; NULL if there are fewer layers. */
const char *accuracy_worst(const accuracy_t *accuracy, int rank);

/* Runs the frozen model on the examples and compares it with the reference. */
status_t accuracy_compare(context_t *ctx, module_t *frozen, const model_t *model,
                          const tensor_t *const *const *examples, const accuracy_t *accuracy,
                          agreement_t *out_agreement);

/* Prints the result of the comparison. */
void accuracy_print(dtype_t dtype, const accuracy_t *accuracy, const agreement_t *agreement);

#endif
