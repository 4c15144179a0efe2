#include <stdio.h>

#include "digits.h"

enum { PATH_BYTES = 4096 };

/* Makes a dataset of n selected images and their labels. */
static void select_items(context_t *ctx, const tensor_t *images, const tensor_t *labels, int64_t n,
                         const int64_t *items, dataset_t **out_dataset)
{
    tensor_t *index = NULL, *x = NULL, *y = NULL;
    tensor_from(ctx, DTYPE_S64, SHAPE(n), items, &index);
    op_gather(ctx, images, 0, index, &x);
    op_gather(ctx, labels, 0, index, &y);
    dataset_from_tensors(ctx, x, y, out_dataset);
}

status_t digits_load(context_t *ctx, const char *folder, dataset_t **out_train,
                     dataset_t **out_test)
{
    char images_path[PATH_BYTES], labels_path[PATH_BYTES];
    tensor_t *images = NULL, *labels = NULL;
    dataset_t *train = NULL, *test = NULL;
    int64_t train_items[DIGITS_N], test_items[DIGITS_N], n_train = 0, n_test = 0;
    for (int64_t i = 0; i < DIGITS_N; i++)
        if (i % 5 == 4)
            test_items[n_test++] = i;
        else
            train_items[n_train++] = i;
    snprintf(images_path, sizeof images_path, "%s/images.npy", folder);
    snprintf(labels_path, sizeof labels_path, "%s/labels.npy", folder);
    scope_begin(ctx);
    npy_load(ctx, images_path, &images);
    npy_load(ctx, labels_path, &labels);
    select_items(ctx, images, labels, n_train, train_items, &train);
    select_items(ctx, images, labels, n_test, test_items, &test);
    status_t status = scope_end(ctx);
    if (status != STATUS_OK) {
        dataset_release(train);
        dataset_release(test);
        return status;
    }
    *out_train = train;
    *out_test = test;
    return STATUS_OK;
}

/* The loader divides bytes by 255, but pixels are from 0 to 16. Dividing by `shade` makes them 0 to
 * 1. */
static const float shade = 16.0F / 255.0F;

status_t digits_test_batch(context_t *ctx, dataset_t *test, tensor_t **out_x, int64_t *out_digits)
{
    const loader_options_t options = {.batch = DIGITS_TEST_N, .n_channels = 1, .std = &shade};
    loader_t *loader = NULL;
    tensor_t *x = NULL, *y = NULL;
    status_t status = loader_create(ctx, test, &options, &loader);
    if (status == STATUS_OK) status = loader_next(ctx, loader, &x, &y, NULL);
    if (status == STATUS_OK)
        status = tensor_read(ctx, y, out_digits, DIGITS_TEST_N * sizeof *out_digits);
    loader_destroy(loader);
    tensor_release(y);
    if (status == STATUS_OK)
        *out_x = x;
    else
        tensor_release(x);
    return status;
}
