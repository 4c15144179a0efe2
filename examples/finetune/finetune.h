/* Classifies sentences by topic. Trains MiniLM's last two layers and a new linear layer, the head;
 * MiniLM's other layers do not change. */
#ifndef EXAMPLES_FINETUNE_H
#define EXAMPLES_FINETUNE_H

#include <stdint.h>
#include <tessera.h>

#define FINETUNE_N 320
#define FINETUNE_TEST_N 64 /* the last sentences of the file are for the test */
#define FINETUNE_TRAIN_N (FINETUNE_N - FINETUNE_TEST_N)
#define FINETUNE_TOPICS 5
#define FINETUNE_FROZEN 4 /* layers that are not trained */

/* Inputs of the trained layers: the output of the frozen layers, which run only once, because it
 * never changes. T is the length of the longest sentence. */
typedef struct finetune_data {
    tensor_t *x;      /* f32 [320][T][384] */
    tensor_t *mask;   /* bool [320][T], true for the words of a sentence */
    tensor_t *topics; /* s64 [320] */
    int64_t wanted[FINETUNE_N];
} finetune_data_t;

/* Loads MiniLM from its folder and splits it. *out_front has the first layers. *out_network has the
 * last layers and a head with random weights; it maps x and mask to scores [N][5]. The caller
 * releases both. */
status_t finetune_network(context_t *ctx, const char *folder, module_t **out_front,
                          module_t **out_network);

/* Reads the sentences of a file, and runs front on them. The folder has the vocabulary. */
status_t finetune_read(context_t *ctx, module_t *front, const char *folder, const char *path,
                       finetune_data_t *out_data);
void finetune_release(finetune_data_t *data);

/* Called after each epoch of training. */
typedef void (*finetune_told_t)(void *user, int64_t epoch, double loss);

/* Trains with AdamW on batches of 32 sentences that are not for the test. Each step runs as one
 * plan. Afterwards the network is in evaluation mode. told may be NULL. */
status_t finetune_train(context_t *ctx, module_t *network, const finetune_data_t *data,
                        int64_t n_epochs, finetune_told_t told, void *user);

/* Returns the predicted topic of each test sentence. */
status_t finetune_predict(context_t *ctx, module_t *network, const finetune_data_t *data,
                          int64_t *out_topics);

#endif
