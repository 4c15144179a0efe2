/* Recognises handwritten digits: a convolutional network with batch norm, and its training. */
#ifndef EXAMPLES_DIGITS_H
#define EXAMPLES_DIGITS_H

#include <stdint.h>
#include <tessera.h>

#define DIGITS_N 1797
#define DIGITS_TEST_N 359 /* every fifth image is kept for the test */

/* Loads images.npy and labels.npy from the folder: images of 8 x 8 pixels from 0 to 16, and their
 * digits. Every fifth image is not for training and only in *out_test. */
status_t digits_load(context_t *ctx, const char *folder, dataset_t **out_train,
                     dataset_t **out_test);

/* Returns all test images as one batch x f32 [359][1][8][8], and their digits. */
status_t digits_test_batch(context_t *ctx, dataset_t *test, tensor_t **out_x, int64_t *out_digits);

/* Makes the network with random weights: three 3 x 3 convolutions with batch norm and relu, the
 * last two with stride 2, and a linear layer. It maps f32 [N][1][8][8], pixels from 0 to 1, to
 * scores [N][10]. */
status_t digits_network(context_t *ctx, module_t **out_network);

/* Called after each epoch of training. */
typedef void (*digits_told_t)(void *user, int64_t epoch, double loss);

/* Trains with SGD with momentum and a cosine learning rate, in batches of 32. Afterwards the
 * network is in evaluation mode. told may be NULL. */
status_t digits_train(context_t *ctx, module_t *network, dataset_t *train, int64_t n_epochs,
                      digits_told_t told, void *user);

/* Returns for each image the digit with the largest score. */
status_t digits_predict(context_t *ctx, module_t *network, const tensor_t *x, int64_t n,
                        int64_t *out_digits);

#endif
