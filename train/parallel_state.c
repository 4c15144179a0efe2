/* Copies the initial state from rank 0: parameters, buffers, optimizer, random generator. */
#ifdef TESSERA_HAVE_MPI

#include <string.h>

#include "module/module_impl.h"
#include "module/state_dict.h"
#include "tensor/convert/convert_impl.h"
#include "tensor/hash_impl.h"
#include "tensor/tensor_impl.h"
#include "train/optimizer_impl.h"
#include "train/parallel_impl.h"

static const char op[] = "parallel_broadcast";

/* ---- do all ranks have the same tensors? ---- */

static uint64_t mix_text(uint64_t hash, const char *text)
{
    for (; *text != '\0'; text++) hash = hash_mix(hash, (uint64_t)(unsigned char)*text);
    return hash_mix(hash, 0);
}

static uint64_t mix_info(uint64_t hash, const tensor_info_t *info)
{
    hash = hash_mix(hash_mix(hash, (uint64_t)info->dtype), (uint64_t)info->rank);
    for (int d = 0; d < info->rank; d++) hash = hash_mix(hash, (uint64_t)info->sizes[d]);
    return hash;
}

static uint64_t hash_of(const datum_t *dict, const optimizer_t *optimizer)
{
    uint64_t hash = 0;
    for (int i = 0; i < datum_length(dict); i++) {
        hash = mix_text(hash, datum_key(dict, i));
        hash = mix_info(hash, tensor_info(datum_as_tensor(datum_find(dict, datum_key(dict, i)))));
    }
    if (optimizer == NULL) return hash;
    hash = mix_text(hash, optimizer->kind);
    for (int i = 0; i < optimizer->n; i++) hash = mix_text(hash, optimizer->entries[i].name);
    for (int s = 0; s < UPDATE_MAX_STATES; s++)
        hash = mix_text(
            hash, optimizer->rule.state_names[s] != NULL ? optimizer->rule.state_names[s] : "");
    return hash;
}

static status_t check_same(context_t *ctx, group_t *group, const datum_t *dict,
                           const optimizer_t *optimizer)
{
    const uint64_t hash = hash_of(dict, optimizer);
    uint64_t words[] = {hash, ~hash};
    TRY(group_max(ctx, op, group, 2, words));
    REQUIRE(ctx, words[0] == ~words[1],
            "%s: ranks have different parameters, buffers or optimizers, must have the same", op);
    return STATUS_OK;
}

/* ---- tensors ---- */

/* Sends `own` from rank 0 to all other ranks as a dense, contiguous tensor. */
static status_t exchange_tensor(context_t *ctx, group_t *group, const tensor_t *own,
                                const tensor_info_t *info, tensor_t **out_tensor)
{
    const tensor_info_t dense = info_dense(info->dtype, info->rank, info->sizes);
    tensor_t *tensor = NULL;
    void *bytes = NULL;
    if (group->rank == 0)
        TRY(convert_make(ctx, own, &dense, CAUSE_OUTPUT, &tensor));
    else
        TRY(tensor_make(ctx, &dense, &tensor));
    status_t status = tensor_writable(ctx, tensor, &bytes);
    if (status == STATUS_OK) status = group_broadcast(ctx, op, group, info_bytes(&dense), bytes);
    GIVE(status, out_tensor, tensor, tensor_drop(tensor));
}

/* ---- the module ---- */

static status_t exchange_entry(context_t *ctx, group_t *group, const char *key, const tensor_t *own,
                               datum_t *dict)
{
    tensor_t *tensor = NULL;
    datum_t *value = NULL;
    TRY(exchange_tensor(ctx, group, own, tensor_info(own), &tensor));
    status_t status = datum_tensor(ctx, tensor, &value);
    tensor_drop(tensor);
    if (status == STATUS_OK) status = datum_put(ctx, dict, key, value);
    datum_release(value);
    return status;
}

static status_t exchange_module(context_t *ctx, group_t *group, module_t *module,
                                const datum_t *own)
{
    datum_t *dict = NULL;
    TRY(datum_dict(ctx, 0, NULL, NULL, &dict));
    status_t status = STATUS_OK;
    for (int i = 0; i < datum_length(own) && status == STATUS_OK; i++) {
        const char *key = datum_key(own, i);
        status = exchange_entry(ctx, group, key, datum_as_tensor(datum_find(own, key)), dict);
    }
    if (status == STATUS_OK && group->rank != 0) status = module_load_state_dict(ctx, module, dict);
    datum_release(dict);
    return status;
}

/* ---- the optimizer ---- */

static status_t exchange_states(context_t *ctx, group_t *group, const optimizer_t *optimizer,
                                optimizer_loaded_t *loaded)
{
    for (int i = 0; i < optimizer->n; i++)
        for (int s = 0; s < UPDATE_MAX_STATES; s++) {
            if (loaded->entries[i].n_updates == 0 || optimizer->rule.state_names[s] == NULL)
                continue;
            TRY(exchange_tensor(ctx, group, optimizer->entries[i].state[s],
                                &optimizer->entries[i].info, &loaded->entries[i].state[s]));
        }
    return STATUS_OK;
}

/* Sends the learning rate and the numbers of steps, which determine the state tensors that
 * follow. */
static status_t exchange_counts(context_t *ctx, group_t *group, const optimizer_t *optimizer,
                                int64_t *counts, optimizer_loaded_t *loaded)
{
    loaded->lr = optimizer->rule.lr;
    TRY(group_broadcast(ctx, op, group, sizeof loaded->lr, &loaded->lr));
    for (int i = 0; i < optimizer->n; i++) counts[i] = optimizer->entries[i].n_updates;
    counts[optimizer->n] = optimizer->n_steps;
    TRY(group_broadcast(ctx, op, group, (size_t)(optimizer->n + 1) * sizeof *counts, counts));
    for (int i = 0; i < optimizer->n; i++) loaded->entries[i].n_updates = counts[i];
    loaded->n_steps = counts[optimizer->n];
    return exchange_states(ctx, group, optimizer, loaded);
}

static status_t exchange_optimizer(context_t *ctx, group_t *group, optimizer_t *optimizer)
{
    optimizer_loaded_t loaded = {.optimizer = optimizer};
    int64_t *counts = NULL;
    TRY(context_get(ctx, (size_t)(optimizer->n + 1) * sizeof *counts, "counts of updates",
                    &counts));
    status_t status = context_get_zeroed(ctx, (size_t)optimizer->n * sizeof *loaded.entries,
                                         "loaded state", &loaded.entries);
    if (status == STATUS_OK) status = exchange_counts(ctx, group, optimizer, counts, &loaded);
    if (status == STATUS_OK && group->rank != 0) optimizer_take_state(optimizer, &loaded);
    optimizer_drop_state(ctx, &loaded);
    context_put(ctx, counts);
    return status;
}

/* ---- all state ---- */

static status_t broadcast(context_t *ctx, group_t *group, module_t *module, optimizer_t *optimizer)
{
    datum_t *own = NULL;
    TRY(group_check(ctx, op, group));
    TRY(module_state_dict(ctx, module, &own));
    status_t status = check_same(ctx, group, own, optimizer);
    if (status == STATUS_OK) status = exchange_module(ctx, group, module, own);
    datum_release(own);
    if (status == STATUS_OK && optimizer != NULL)
        status = exchange_optimizer(ctx, group, optimizer);
    TRY(status);
    return group_broadcast(ctx, op, group, 4 * sizeof(uint64_t), context_random_state(ctx));
}

status_t parallel_broadcast(context_t *ctx, parallel_t *parallel, module_t *module,
                            optimizer_t *optimizer)
{
    if (ctx == NULL) return STATUS_INVALID_ARGUMENT;
    if (parallel == NULL) return context_null(ctx, "parallel_broadcast", "parallel");
    if (module == NULL) return context_null(ctx, "parallel_broadcast", "module");
    status_t status = broadcast(ctx, &parallel->group, module, optimizer);
    if (status != STATUS_OK) group_leave(&parallel->group);
    return status;
}

#endif
