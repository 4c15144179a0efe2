/* Handwritten digits: a convolutional network with batch norm, and how it is trained. */
#ifndef EXAMPLES_DIGITS_H
#define EXAMPLES_DIGITS_H

#include <stdint.h>
#include <tessera.h>

#define DIGITS_N 1797
#define DIGITS_TEST_N 359 /* every fifth is held out, from the fifth on */

/* Images of 8 x 8 points in shades from 0 to 16, and which digits they are, 0 to 9: images.npy and
 * labels.npy of the folder. What is held out is in test alone. */
status_t digits_load(context_t *ctx, const char *folder, dataset_t **out_train,
                     dataset_t **out_test);

/* All that is held out as one batch: x f32 [359][1][8][8], and the digits. */
status_t digits_test_batch(context_t *ctx, dataset_t *test, tensor_t **out_x, int64_t *out_digits);

/* Three convolutions of 3 x 3 with batch norm and relu, the last two of stride 2, and a linear
 * layer: f32 [N][1][8][8], shades from 0 to 1, to ten scores [N][10]. Weights are random. */
status_t digits_network(context_t *ctx, module_t **out_network);

/* What a run of training tells after each epoch. */
typedef void (*digits_told_t)(void *user, int64_t epoch, double loss);

/* SGD with momentum and a rate that falls as a cosine, in batches of 32. The network is in
 * evaluation mode after. told may be NULL. */
status_t digits_train(context_t *ctx, module_t *network, dataset_t *train, int64_t n_epochs,
                      digits_told_t told, void *user);

/* The digit of each image that has the largest score. */
status_t digits_predict(context_t *ctx, module_t *network, const tensor_t *x, int64_t n,
                        int64_t *out_digits);

#endif
