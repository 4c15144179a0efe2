/* Converts optimizer state to a dict of dense tensors, and back. */
#include <string.h>

#include "module/module_impl.h"
#include "tensor/convert/convert_impl.h"
#include "train/optimizer_impl.h"

static const char lr_key[] = "lr";
/* number of the optimizer's steps; after a parameter's name, of its updates */
static const char step_key[] = "step";

/* ---- export ---- */

/* Adds an entry to the dict. Takes ownership of the tensor, also on failure. */
static status_t put_take(context_t *ctx, datum_t *dict, const char *key, tensor_t *tensor)
{
    datum_t *value = NULL;
    status_t status = datum_tensor(ctx, tensor, &value);
    tensor_drop(tensor);
    if (status == STATUS_OK) status = datum_put(ctx, dict, key, value);
    datum_release(value);
    return status;
}

/* Makes a dense copy for the dict. Without a copy, later steps would change the dict, and blocked
 * state would also have to be stored in dense format. */
static status_t copy_dense(context_t *ctx, const tensor_t *state, tensor_t **out_copy)
{
    const tensor_info_t *info = tensor_info(state);
    const tensor_info_t dense = info_dense(info->dtype, info->rank, info->sizes);
    if (tensor_lies_like(info, &dense))
        return tensor_snapshot(ctx, state, &dense, state->offset, out_copy);
    return convert_make(ctx, state, &dense, CAUSE_OUTPUT, out_copy);
}

/* A dict that is being filled. With prefix "optimizer", a key is "optimizer.fc.weight.exp_avg". */
typedef struct listing {
    const char *prefix;
    bool is_dense; /* false: add the state tensors themselves */
    datum_t *dict;
} listing_t;

static status_t put_number(context_t *ctx, const listing_t *listing, const char *name,
                           dtype_t dtype, const void *number)
{
    const tensor_info_t info = info_dense(dtype, 0, NULL);
    tensor_t *tensor = NULL;
    void *bytes = NULL;
    char *key = NULL;
    TRY(tree_join(ctx, listing->prefix, name, &key));
    status_t status = tensor_make_of(ctx, &info, dtype_size(dtype), 0, &tensor, &bytes);
    if (status == STATUS_OK) {
        memcpy(bytes, number, dtype_size(dtype));
        status = put_take(ctx, listing->dict, key, tensor);
    }
    context_put(ctx, key);
    return status;
}

static status_t put_state(context_t *ctx, const listing_t *listing, const char *name,
                          tensor_t *state)
{
    tensor_t *shown = NULL;
    char *key = NULL;
    TRY(tree_join(ctx, listing->prefix, name, &key));
    status_t status = STATUS_OK;
    if (listing->is_dense)
        status = copy_dense(ctx, state, &shown);
    else
        shown = tensor_hold(state);
    if (status == STATUS_OK) status = put_take(ctx, listing->dict, key, shown);
    context_put(ctx, key);
    return status;
}

static status_t put_entry(context_t *ctx, const listing_t *listing, const update_rule_t *rule,
                          const optimizer_entry_t *entry)
{
    char *name = NULL;
    TRY(tree_join(ctx, entry->name, step_key, &name));
    status_t status = put_number(ctx, listing, name, DTYPE_S64, &entry->n_updates);
    context_put(ctx, name);
    for (int s = 0; s < UPDATE_MAX_STATES && status == STATUS_OK; s++) {
        if (rule->state_names[s] == NULL) continue;
        TRY(tree_join(ctx, entry->name, rule->state_names[s], &name));
        status = put_state(ctx, listing, name, entry->state[s]);
        context_put(ctx, name);
    }
    return status;
}

status_t optimizer_put_state(context_t *ctx, const optimizer_t *optimizer, const char *prefix,
                             bool is_dense, datum_t *dict)
{
    const listing_t listing = {prefix, is_dense, dict};
    TRY(put_number(ctx, &listing, lr_key, DTYPE_F64, &optimizer->rule.lr));
    TRY(put_number(ctx, &listing, step_key, DTYPE_S64, &optimizer->n_steps));
    for (int i = 0; i < optimizer->n; i++)
        if (optimizer->entries[i].n_updates > 0)
            TRY(put_entry(ctx, &listing, &optimizer->rule, &optimizer->entries[i]));
    return STATUS_OK;
}

status_t optimizer_state_dict(context_t *ctx, const optimizer_t *optimizer, datum_t **out_dict)
{
    TRY(context_output(ctx, "optimizer_state_dict", out_dict));
    if (optimizer == NULL) return context_null(ctx, "optimizer_state_dict", "optimizer");
    datum_t *dict = NULL;
    TRY(datum_dict(ctx, 0, NULL, NULL, &dict));
    status_t status = optimizer_put_state(ctx, optimizer, "", true, dict);
    GIVE(status, out_dict, dict, datum_release(dict));
}

/* ---- import ---- */

static status_t find_tensor(context_t *ctx, const datum_t *dict, const char *key,
                            const tensor_info_t *want, const tensor_t **out_tensor)
{
    const datum_t *value = datum_find(dict, key);
    REQUIRE(ctx, value != NULL, "optimizer_load_state_dict: \"%.150s\" is missing", key);
    REQUIRE(ctx, datum_kind(value) == DATUM_TENSOR,
            "optimizer_load_state_dict: \"%.150s\" is %s, must be a tensor", key,
            datum_kind_name(datum_kind(value)));
    const tensor_info_t *info = tensor_info(datum_as_tensor(value));
    REQUIRE(ctx,
            info->dtype == want->dtype &&
                shape_equal(info->rank, info->sizes, want->rank, want->sizes),
            "optimizer_load_state_dict: \"%.150s\" is %s, the optimizer has %s", key,
            info_brief(info), info_brief(want));
    *out_tensor = datum_as_tensor(value);
    return STATUS_OK;
}

static status_t find_count(context_t *ctx, const datum_t *dict, const char *key, int64_t *out_count)
{
    const tensor_info_t want = info_dense(DTYPE_S64, 0, NULL);
    const tensor_t *tensor = NULL;
    TRY(find_tensor(ctx, dict, key, &want, &tensor));
    TRY(tensor_item_integer(ctx, tensor, out_count));
    REQUIRE(ctx, *out_count >= 0,
            "optimizer_load_state_dict: \"%.150s\" is %lld, must not be negative", key,
            (long long)*out_count);
    return STATUS_OK;
}

static status_t find_lr(context_t *ctx, const datum_t *dict, double *out_lr)
{
    const tensor_info_t want = info_dense(DTYPE_F64, 0, NULL);
    const tensor_t *tensor = NULL;
    TRY(find_tensor(ctx, dict, lr_key, &want, &tensor));
    TRY(tensor_item(ctx, tensor, out_lr));
    REQUIRE(ctx, *out_lr >= 0.0, "optimizer_load_state_dict: \"lr\" is %g, must not be negative",
            *out_lr);
    return STATUS_OK;
}

/* True if the optimizer has this key: "lr", "step", or a parameter's name with a state's name or
 * "step", such as "fc.weight.exp_avg". */
static bool is_known(const optimizer_t *optimizer, const char *key)
{
    const char *dot = strrchr(key, '.');
    if (strcmp(key, lr_key) == 0 || strcmp(key, step_key) == 0) return true;
    if (dot == NULL) return false;
    bool is_state = strcmp(dot + 1, step_key) == 0;
    for (int s = 0; s < UPDATE_MAX_STATES && !is_state; s++) {
        const char *name = optimizer->rule.state_names[s];
        is_state = name != NULL && strcmp(dot + 1, name) == 0;
    }
    const size_t length = (size_t)(dot - key);
    for (int i = 0; i < optimizer->n && is_state; i++) {
        const char *name = optimizer->entries[i].name;
        if (strlen(name) == length && memcmp(name, key, length) == 0) return true;
    }
    return false;
}

/* Makes a state tensor from an entry of the dict. A dense tensor shares the dict's bytes until one
 * of the two is written. */
static status_t take_state(context_t *ctx, const tensor_t *given, tensor_t **out_state)
{
    const tensor_info_t *info = tensor_info(given);
    const tensor_info_t dense = info_dense(info->dtype, info->rank, info->sizes);
    if (tensor_lies_like(info, &dense))
        return tensor_snapshot(ctx, given, &dense, given->offset, out_state);
    return convert_make(ctx, given, &dense, CAUSE_USER, out_state);
}

static status_t load_state(context_t *ctx, const optimizer_loaded_t *loaded, int index, int s)
{
    const optimizer_entry_t *entry = &loaded->optimizer->entries[index];
    const tensor_t *given = NULL;
    char *key = NULL;
    TRY(tree_join(ctx, entry->name, loaded->optimizer->rule.state_names[s], &key));
    status_t status = find_tensor(ctx, loaded->dict, key, &entry->info, &given);
    context_put(ctx, key);
    if (status != STATUS_OK) return status;
    return take_state(ctx, given, &loaded->entries[index].state[s]);
}

/* Loads the state of one parameter. A parameter without updates has no entries in the dict. */
static status_t load_entry(context_t *ctx, const optimizer_loaded_t *loaded, int index)
{
    const optimizer_t *optimizer = loaded->optimizer;
    int64_t *n_updates = &loaded->entries[index].n_updates;
    char *key = NULL;
    TRY(tree_join(ctx, optimizer->entries[index].name, step_key, &key));
    status_t status = STATUS_OK;
    if (datum_find(loaded->dict, key) != NULL)
        status = find_count(ctx, loaded->dict, key, n_updates);
    context_put(ctx, key);
    for (int s = 0; s < UPDATE_MAX_STATES && status == STATUS_OK && *n_updates > 0; s++)
        if (optimizer->rule.state_names[s] != NULL) status = load_state(ctx, loaded, index, s);
    return status;
}

static status_t read(context_t *ctx, optimizer_loaded_t *loaded)
{
    for (int i = 0; i < datum_length(loaded->dict); i++)
        REQUIRE(ctx, is_known(loaded->optimizer, datum_key(loaded->dict, i)),
                "optimizer_load_state_dict: \"%.150s\" is unknown, this %s optimizer has other "
                "parameters or options",
                datum_key(loaded->dict, i), loaded->optimizer->kind);
    TRY(find_lr(ctx, loaded->dict, &loaded->lr));
    TRY(find_count(ctx, loaded->dict, step_key, &loaded->n_steps));
    for (int i = 0; i < loaded->optimizer->n; i++) TRY(load_entry(ctx, loaded, i));
    return STATUS_OK;
}

/* Exchanges an entry's state with the loaded state. The old state is released later. */
static void swap(optimizer_entry_t *entry, optimizer_entry_t *loaded)
{
    entry->n_updates = loaded->n_updates;
    for (int s = 0; s < UPDATE_MAX_STATES; s++) {
        tensor_t *old = entry->state[s];
        entry->state[s] = loaded->state[s];
        loaded->state[s] = old;
    }
}

status_t optimizer_read_state(context_t *ctx, const optimizer_t *optimizer, const datum_t *dict,
                              optimizer_loaded_t *out_loaded)
{
    optimizer_loaded_t loaded = {.optimizer = optimizer, .dict = dict};
    TRY(context_get_zeroed(ctx, (size_t)optimizer->n * sizeof *loaded.entries, "loaded state",
                           &loaded.entries));
    status_t status = read(ctx, &loaded);
    if (status == STATUS_OK)
        *out_loaded = loaded;
    else
        optimizer_drop_state(ctx, &loaded);
    return status;
}

void optimizer_take_state(optimizer_t *optimizer, optimizer_loaded_t *loaded)
{
    optimizer->rule.lr = loaded->lr;
    optimizer->n_steps = loaded->n_steps;
    for (int i = 0; i < optimizer->n; i++) swap(&optimizer->entries[i], &loaded->entries[i]);
}

void optimizer_drop_state(context_t *ctx, optimizer_loaded_t *loaded)
{
    for (int i = 0; loaded->entries != NULL && i < loaded->optimizer->n; i++)
        for (int s = 0; s < UPDATE_MAX_STATES; s++) tensor_drop(loaded->entries[i].state[s]);
    context_put(ctx, loaded->entries);
    *loaded = (optimizer_loaded_t){0};
}

status_t optimizer_load_state_dict(context_t *ctx, optimizer_t *optimizer, const datum_t *dict)
{
    if (ctx == NULL) return STATUS_INVALID_ARGUMENT;
    if (optimizer == NULL) return context_null(ctx, "optimizer_load_state_dict", "optimizer");
    if (dict == NULL) return context_null(ctx, "optimizer_load_state_dict", "dict");
    REQUIRE(ctx, datum_kind(dict) == DATUM_DICT, "optimizer_load_state_dict: a %s, must be a dict",
            datum_kind_name(datum_kind(dict)));
    optimizer_loaded_t loaded;
    TRY(optimizer_read_state(ctx, optimizer, dict, &loaded));
    optimizer_take_state(optimizer, &loaded);
    optimizer_drop_state(ctx, &loaded);
    return STATUS_OK;
}
