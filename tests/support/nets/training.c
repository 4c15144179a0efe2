#include "tests/support/nets/training.h"

#include "module/layers/layers.h"
#include "module/state_dict.h"
#include "tests/support/nets/losses.h"
#include "tests/support/support.h"

void training_end(training_t *training)
{
    trainer_destroy(training->trainer);
    optimizer_destroy(training->optimizer);
    module_release(training->net);
}

void training_compare(context_t *ctx, const training_t *a, const training_t *b,
                      training_check_t *check)
{
    datum_t *dicts[4] = {NULL};
    CHECK_OK(ctx, module_state_dict(ctx, a->net, &dicts[0]));
    CHECK_OK(ctx, module_state_dict(ctx, b->net, &dicts[1]));
    CHECK_OK(ctx, optimizer_state_dict(ctx, a->optimizer, &dicts[2]));
    CHECK_OK(ctx, optimizer_state_dict(ctx, b->optimizer, &dicts[3]));
    check(ctx, dicts[0], dicts[1]);
    check(ctx, dicts[2], dicts[3]);
    for (int i = 0; i < 4; i++) datum_release(dicts[i]);
}

trainer_t *training_make(context_t *ctx, module_t *net, train_mode_t mode,
                         optimizer_t **out_optimizer)
{
    trainer_t *trainer = NULL;
    sgd_options_t sgd = sgd_options(0.002);
    sgd.momentum = 0.9;
    CHECK_OK(ctx, optimizer_sgd(ctx, net, &sgd, out_optimizer));
    CHECK_OK(ctx, trainer_create(ctx, net, losses_squares, NULL, *out_optimizer,
                                 &(train_options_t){.mode = mode}, &trainer));
    return trainer;
}

void training_append(context_t *ctx, module_t *net, module_t *layer)
{
    CHECK_OK(ctx, layer_append_take(ctx, net, layer));
}

module_t *training_conv(context_t *ctx, int64_t in, int64_t out, int64_t stride)
{
    module_t *layer = NULL;
    const conv_attrs_t attrs = {.stride = {stride, stride}, .padding = {1, 1}};
    CHECK_OK(ctx, layer_conv(ctx, 2, in, out, (const int64_t[]){3, 3}, &attrs, true, &layer));
    return layer;
}
