#include <math.h>

#include "digits.h"

#define BATCH 32
#define RATE 0.05
#define PI 3.14159265358979323846

/* The loader divides bytes by 255, but pixels are from 0 to 16. Dividing by `shade` makes them 0 to
 * 1. The loader also shifts images at random by up to one pixel. */
static const float shade = 16.0F / 255.0F;
static const loader_options_t loading = {.batch = BATCH,
                                         .seed = 1,
                                         .shuffle = true,
                                         .drop_last = true,
                                         .crop_padding = 1,
                                         .n_channels = 1,
                                         .std = &shade};

static status_t cross_entropy(context_t *ctx, void *user, const tensor_t *scores,
                              const tensor_t *digits, tensor_t **out_loss)
{
    (void)user;
    return loss_cross_entropy(ctx, scores, digits, NULL, out_loss);
}

static status_t step(context_t *ctx, loader_t *loader, trainer_t *trainer, bool *out_is_end,
                     double *out_loss)
{
    tensor_t *x = NULL, *y = NULL;
    status_t status = loader_next(ctx, loader, &x, &y, out_is_end);
    if (status == STATUS_OK)
        status = trainer_step(ctx, trainer, 1, (const tensor_t *[]){x}, y, NULL, out_loss);
    tensor_release(x);
    tensor_release(y);
    return status;
}

/* The learning rate falls from RATE to 0 along half a cosine. */
static status_t run_epochs(context_t *ctx, loader_t *loader, trainer_t *trainer,
                           optimizer_t *optimizer, int64_t n_epochs, digits_told_t told, void *user)
{
    double n_steps = (double)(n_epochs * loader_batches(loader)), at = 0;
    for (int64_t epoch = 0; epoch < n_epochs; epoch++) {
        double sum = 0;
        for (bool is_end = false; !is_end; at++) {
            double loss = 0;
            status_t status = optimizer_set_lr(ctx, optimizer,
                                               RATE * (1 + cos(PI * at / n_steps)) / 2);
            if (status == STATUS_OK) status = step(ctx, loader, trainer, &is_end, &loss);
            if (status != STATUS_OK) return status;
            sum += loss;
        }
        if (told != NULL) told(user, epoch, sum / (double)loader_batches(loader));
    }
    return STATUS_OK;
}

status_t digits_train(context_t *ctx, module_t *network, dataset_t *train, int64_t n_epochs,
                      digits_told_t told, void *user)
{
    sgd_options_t options = sgd_options(RATE);
    optimizer_t *optimizer = NULL;
    trainer_t *trainer = NULL;
    loader_t *loader = NULL;
    options.momentum = 0.9;
    options.weight_decay = 5e-4;
    status_t status = optimizer_sgd(ctx, network, &options, &optimizer);
    if (status == STATUS_OK)
        status = trainer_create(ctx, network, cross_entropy, NULL, optimizer, NULL, &trainer);
    if (status == STATUS_OK) status = loader_create(ctx, train, &loading, &loader);
    if (status == STATUS_OK)
        status = run_epochs(ctx, loader, trainer, optimizer, n_epochs, told, user);
    if (status == STATUS_OK) status = module_train(ctx, network, false);
    loader_destroy(loader);
    trainer_destroy(trainer);
    optimizer_destroy(optimizer);
    return status;
}
