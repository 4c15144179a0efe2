/* Trains the network, and predicts topics of the test sentences. */
#include "finetune.h"

#define BATCH 32
#define RATE 5e-4
#define N_STEPS (FINETUNE_TRAIN_N / BATCH)

/* Rows of all inputs of a step: x, mask and topics. */
typedef struct rows {
    tensor_t *in[2], *topics;
} rows_t;

static status_t take_rows(context_t *ctx, const finetune_data_t *data, int64_t first, int64_t n,
                          rows_t *out_rows)
{
    status_t status = tensor_narrow(ctx, data->x, 0, first, n, &out_rows->in[0]);
    if (status == STATUS_OK) status = tensor_narrow(ctx, data->mask, 0, first, n, &out_rows->in[1]);
    if (status == STATUS_OK)
        status = tensor_narrow(ctx, data->topics, 0, first, n, &out_rows->topics);
    return status;
}

static void release_rows(rows_t *rows)
{
    tensor_release(rows->in[0]);
    tensor_release(rows->in[1]);
    tensor_release(rows->topics);
}

static status_t cross_entropy(context_t *ctx, void *user, const tensor_t *scores,
                              const tensor_t *topics, tensor_t **out_loss)
{
    (void)user;
    return loss_cross_entropy(ctx, scores, topics, NULL, out_loss);
}

static status_t run_epochs(context_t *ctx, trainer_t *trainer, const finetune_data_t *data,
                           int64_t n_epochs, finetune_told_t told, void *user)
{
    for (int64_t epoch = 0; epoch < n_epochs; epoch++) {
        double sum = 0;
        for (int64_t i = 0; i < N_STEPS; i++) {
            rows_t rows = {{NULL, NULL}, NULL};
            double loss = 0;
            status_t status = take_rows(ctx, data, i * BATCH, BATCH, &rows);
            if (status == STATUS_OK)
                status = trainer_step(ctx, trainer, 2, (const tensor_t *const *)rows.in,
                                      rows.topics, NULL, &loss);
            release_rows(&rows);
            if (status != STATUS_OK) return status;
            sum += loss;
        }
        if (told != NULL) told(user, epoch, sum / N_STEPS);
    }
    return STATUS_OK;
}

status_t finetune_train(context_t *ctx, module_t *network, const finetune_data_t *data,
                        int64_t n_epochs, finetune_told_t told, void *user)
{
    const adam_options_t rate = adamw_options(RATE);
    const train_options_t options = {.mode = TRAIN_PLANNED};
    optimizer_t *optimizer = NULL;
    trainer_t *trainer = NULL;
    status_t status = optimizer_adamw(ctx, network, &rate, &optimizer);
    if (status == STATUS_OK)
        status = trainer_create(ctx, network, cross_entropy, NULL, optimizer, &options, &trainer);
    if (status == STATUS_OK) status = run_epochs(ctx, trainer, data, n_epochs, told, user);
    if (status == STATUS_OK) status = module_train(ctx, network, false);
    trainer_destroy(trainer);
    optimizer_destroy(optimizer);
    return status;
}

status_t finetune_predict(context_t *ctx, module_t *network, const finetune_data_t *data,
                          int64_t *out_topics)
{
    const int64_t dim = 1;
    rows_t rows = {{NULL, NULL}, NULL};
    tensor_t *scores = NULL, *topics = NULL;
    int n_out = 0;
    status_t status = take_rows(ctx, data, FINETUNE_TRAIN_N, FINETUNE_TEST_N, &rows);
    if (status == STATUS_OK)
        status = module_call_tensors(ctx, network, "forward", 2, (const tensor_t *const *)rows.in,
                                     &n_out, &scores);
    if (status == STATUS_OK) status = op_argmax(ctx, scores, &dim, false, &topics);
    if (status == STATUS_OK)
        status = tensor_read(ctx, topics, out_topics, FINETUNE_TEST_N * sizeof *out_topics);
    tensor_release(scores);
    tensor_release(topics);
    release_rows(&rows);
    return status;
}
