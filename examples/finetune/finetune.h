/* Topics of sentences: MiniLM's last two layers and a new head are trained, the others stay. */
#ifndef EXAMPLES_FINETUNE_H
#define EXAMPLES_FINETUNE_H

#include <stdint.h>
#include <tessera.h>

#define FINETUNE_N 320
#define FINETUNE_TEST_N 64 /* the last ones of the file are held out */
#define FINETUNE_TRAIN_N (FINETUNE_N - FINETUNE_TEST_N)
#define FINETUNE_TOPICS 5
#define FINETUNE_FROZEN 4 /* layers that stay as they are */

/* What the trained layers are given. The frozen ones have run once, since what they give of a
 * sentence never changes. T is the length of the longest sentence. */
typedef struct finetune_data {
    tensor_t *x;      /* f32 [320][T][384] */
    tensor_t *mask;   /* bool [320][T], false behind the end of a sentence */
    tensor_t *topics; /* s64 [320] */
    int64_t wanted[FINETUNE_N];
} finetune_data_t;

/* MiniLM from the folder of its files, cut in two: *out_front is its first layers; *out_network,
 * its last layers and a head of random weights, takes x and mask and gives scores [N][5]. The
 * caller releases both. */
status_t finetune_network(context_t *ctx, const char *folder, module_t **out_front,
                          module_t **out_network);

/* The sentences of a file, as the front gives them; the folder has the vocabulary. */
status_t finetune_read(context_t *ctx, module_t *front, const char *folder, const char *path,
                       finetune_data_t *out_data);
void finetune_release(finetune_data_t *data);

/* What a run of training tells after each epoch. */
typedef void (*finetune_told_t)(void *user, int64_t epoch, double loss);

/* AdamW in batches of 32 of what is not held out, each step as one plan. The network is in
 * evaluation mode after. told may be NULL. */
status_t finetune_train(context_t *ctx, module_t *network, const finetune_data_t *data,
                        int64_t n_epochs, finetune_told_t told, void *user);

/* The topic of each sentence that is held out. */
status_t finetune_predict(context_t *ctx, module_t *network, const finetune_data_t *data,
                          int64_t *out_topics);

#endif
