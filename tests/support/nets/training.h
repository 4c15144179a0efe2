/* Parts of tests that train: a network with its optimizer and trainer, and layers. */
#ifndef TESSERA_TESTS_TRAINING_H
#define TESSERA_TESTS_TRAINING_H

#include "train/trainer.h"

typedef struct training {
    module_t *net;
    optimizer_t *optimizer;
    trainer_t *trainer;
} training_t;

void training_end(training_t *training);

/* Passes the state dictionaries of both networks, then those of both optimizers, to `check`. */
typedef void training_check_t(context_t *ctx, const datum_t *a, const datum_t *b);
void training_compare(context_t *ctx, const training_t *a, const training_t *b,
                      training_check_t *check);

/* Makes a trainer with SGD (learning rate 0.002, momentum 0.9) and losses_squares. */
trainer_t *training_make(context_t *ctx, module_t *net, train_mode_t mode,
                         optimizer_t **out_optimizer);

/* layer_append_take, and a layer with 3x3 windows and padding 1. */
void training_append(context_t *ctx, module_t *net, module_t *layer);
module_t *training_conv(context_t *ctx, int64_t in, int64_t out, int64_t stride);

#endif
