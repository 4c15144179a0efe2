#include "train/optimizer.h"

#include <stdio.h>
#include <string.h>

#include "module/module_impl.h"
#include "tensor/tensor_impl.h"
#include "train/optimizer_impl.h"

/* ---- construction ---- */

/* Callback of module_walk: lists the floating-point parameters of one module. */
static status_t list_parameters(context_t *ctx, void *user, const char *path, module_t *module)
{
    optimizer_t *optimizer = user;
    for (int i = 0; i < module->n_members; i++) {
        const member_t *member = &module->members[i];
        tensor_t *tensor = member->kind == MEMBER_PARAMETER ? member->is.tensor : NULL;
        bool is_new = tensor != NULL && dtype_is_floating(tensor_dtype(tensor));
        for (int j = 0; j < optimizer->n && is_new; j++)
            is_new = optimizer_parameter(optimizer, j) != tensor;
        if (!is_new) continue;
        TRY(context_grow(ctx, &optimizer->entries, &optimizer->capacity, optimizer->n + 1,
                         sizeof *optimizer->entries));
        optimizer_entry_t entry = {.info = *tensor_info(tensor)};
        TRY(tree_join(ctx, path, member->name, &entry.name));
        optimizer->entries[optimizer->n++] = entry;
    }
    return STATUS_OK;
}

/* Fails if two parameters share bytes: two threads would write them, and one tensor would be
 * updated twice. Checked again after any module has changed, because parameters may be replaced.
 * Messages begin with `op`. */
static status_t check_apart(context_t *ctx, const char *op, optimizer_t *optimizer)
{
    const uint64_t changes = module_changes();
    const tensor_t **parameters = NULL;
    if (optimizer->changes == changes) return STATUS_OK;
    TRY(context_get(ctx, (size_t)optimizer->n * sizeof *parameters, "parameters", &parameters));
    status_t status = STATUS_OK;
    for (int i = 0; i < optimizer->n && status == STATUS_OK; i++) {
        parameters[i] = optimizer_parameter(optimizer, i);
        for (int j = 0; j < i && parameters[i] != NULL && status == STATUS_OK; j++)
            if (parameters[j] != NULL && tensor_overlaps(parameters[j], parameters[i]))
                status = context_fail(
                    ctx, STATUS_UNSUPPORTED,
                    "%s: parameters \"%.100s\" and \"%.100s\" share bytes, each needs its own", op,
                    optimizer->entries[j].name, optimizer->entries[i].name);
    }
    context_put(ctx, parameters);
    if (status == STATUS_OK) optimizer->changes = changes;
    return status;
}

static status_t fill(context_t *ctx, optimizer_t *optimizer)
{
    char op[32];
    snprintf(op, sizeof op, "optimizer_%s", optimizer->kind);
    TRY(module_walk(ctx, optimizer->module, list_parameters, optimizer));
    REQUIRE(ctx, optimizer->n > 0, "%s: %s has no floating parameter, at least one is needed", op,
            module_type(optimizer->module));
    return check_apart(ctx, op, optimizer);
}

static status_t create(context_t *ctx, module_t *module, const char *kind,
                       const update_rule_t *rule, optimizer_t **out_optimizer)
{
    optimizer_t *optimizer = NULL;
    TRY(context_get_zeroed(ctx, sizeof *optimizer, "an optimizer", &optimizer));
    optimizer->allocator = *context_allocator(ctx);
    optimizer->module = module_retain(module);
    optimizer->kind = kind;
    optimizer->rule = *rule;
    status_t status = fill(ctx, optimizer);
    GIVE(status, out_optimizer, optimizer, optimizer_destroy(optimizer));
}

status_t optimizer_sgd(context_t *ctx, module_t *module, const sgd_options_t *options,
                       optimizer_t **out_optimizer)
{
    TRY(context_output(ctx, "optimizer_sgd", out_optimizer));
    if (module == NULL) return context_null(ctx, "optimizer_sgd", "module");
    const sgd_options_t given = options != NULL ? *options : sgd_options(1e-3);
    TRY(update_check_sgd(ctx, "optimizer_sgd", &given));
    const update_rule_t rule = update_sgd_rule(&given);
    return create(ctx, module, "sgd", &rule, out_optimizer);
}

static status_t create_adam(context_t *ctx, const char *op, const char *kind, module_t *module,
                            const adam_options_t *options, optimizer_t **out_optimizer)
{
    if (module == NULL) return context_null(ctx, op, "module");
    TRY(update_check_adam(ctx, op, options));
    const update_rule_t rule = update_adam_rule(options);
    return create(ctx, module, kind, &rule, out_optimizer);
}

status_t optimizer_adam(context_t *ctx, module_t *module, const adam_options_t *options,
                        optimizer_t **out_optimizer)
{
    TRY(context_output(ctx, "optimizer_adam", out_optimizer));
    const adam_options_t given = options != NULL ? *options : adam_options(1e-3);
    return create_adam(ctx, "optimizer_adam", "adam", module, &given, out_optimizer);
}

status_t optimizer_adamw(context_t *ctx, module_t *module, const adam_options_t *options,
                         optimizer_t **out_optimizer)
{
    TRY(context_output(ctx, "optimizer_adamw", out_optimizer));
    adam_options_t given = options != NULL ? *options : adamw_options(1e-3);
    given.decoupled_weight_decay = true;
    return create_adam(ctx, "optimizer_adamw", "adamw", module, &given, out_optimizer);
}

status_t optimizer_rmsprop(context_t *ctx, module_t *module, const rmsprop_options_t *options,
                           optimizer_t **out_optimizer)
{
    TRY(context_output(ctx, "optimizer_rmsprop", out_optimizer));
    if (module == NULL) return context_null(ctx, "optimizer_rmsprop", "module");
    const rmsprop_options_t given = options != NULL ? *options : rmsprop_options(1e-2);
    TRY(update_check_rmsprop(ctx, "optimizer_rmsprop", &given));
    const update_rule_t rule = update_rmsprop_rule(&given);
    return create(ctx, module, "rmsprop", &rule, out_optimizer);
}

void optimizer_destroy(optimizer_t *optimizer)
{
    if (optimizer == NULL) return;
    const allocator_t allocator = optimizer->allocator;
    for (int i = 0; i < optimizer->n; i++) {
        optimizer_entry_t *entry = &optimizer->entries[i];
        for (int s = 0; s < UPDATE_MAX_STATES; s++) tensor_drop(entry->state[s]);
        allocator_put(&allocator, entry->name);
    }
    allocator_put(&allocator, optimizer->entries);
    module_release(optimizer->module);
    allocator_put(&allocator, optimizer);
}

/* ---- steps ---- */

status_t optimizer_find(context_t *ctx, const char *op, const optimizer_t *optimizer, int index,
                        tensor_t **out_parameter)
{
    const optimizer_entry_t *entry = &optimizer->entries[index];
    tensor_t *parameter = optimizer_parameter(optimizer, index);
    REQUIRE(ctx, parameter != NULL, "%s: parameter \"%.100s\", %s no longer has it", op,
            entry->name, module_type(optimizer->module));
    const tensor_info_t *info = tensor_info(parameter);
    REQUIRE(ctx,
            info->dtype == entry->info.dtype &&
                shape_equal(info->rank, info->sizes, entry->info.rank, entry->info.sizes),
            "%s: parameter \"%.100s\" is %s, the optimizer was made for %s", op, entry->name,
            info_brief(info), info_brief(&entry->info));
    *out_parameter = parameter;
    return STATUS_OK;
}

/* Checks dtype and sizes of a parameter's gradient (`given`), then appends the parameter to
 * items. */
static status_t list_item(context_t *ctx, optimizer_t *optimizer, int index,
                          const tensor_info_t *given, int *n_items, step_item_t *items)
{
    optimizer_entry_t *entry = &optimizer->entries[index];
    tensor_t *parameter = NULL;
    TRY(optimizer_find(ctx, "optimizer_step", optimizer, index, &parameter));
    const tensor_info_t *want = tensor_info(parameter);
    REQUIRE(ctx,
            given->dtype == want->dtype &&
                shape_equal(given->rank, given->sizes, want->rank, want->sizes),
            "optimizer_step: the gradient of \"%.100s\" is %s, the parameter %s", entry->name,
            info_brief(given), info_brief(want));
    if (want->dtype != DTYPE_F32)
        FAIL(ctx, STATUS_UNSUPPORTED, "optimizer_step: parameter \"%.100s\" is %s, f32 is needed",
             entry->name, info_brief(want));
    items[(*n_items)++] = (step_item_t){.parameter = parameter,
                                        .given = *given,
                                        .step = entry->n_updates + 1,
                                        .state = entry->state};
    return STATUS_OK;
}

status_t optimizer_step(context_t *ctx, optimizer_t *optimizer, tensor_t *const *gradients)
{
    if (ctx == NULL) return STATUS_INVALID_ARGUMENT;
    if (optimizer == NULL) return context_null(ctx, "optimizer_step", "optimizer");
    if (gradients == NULL) return context_null(ctx, "optimizer_step", "gradients");
    step_item_t *items = NULL;
    int n_items = 0;
    TRY(check_apart(ctx, "optimizer_step", optimizer));
    TRY(context_get(ctx, (size_t)optimizer->n * sizeof *items, "a step", &items));
    status_t status = STATUS_OK;
    for (int i = 0; i < optimizer->n && status == STATUS_OK; i++) {
        if (gradients[i] == NULL) continue;
        status = list_item(ctx, optimizer, i, tensor_info(gradients[i]), &n_items, items);
        if (status == STATUS_OK) items[n_items - 1].gradient = gradients[i];
    }
    if (status == STATUS_OK)
        status = step_run(ctx, "optimizer_step", &optimizer->rule, true, n_items, items);
    context_put(ctx, items);
    if (status != STATUS_OK) return status;
    for (int i = 0; i < optimizer->n; i++)
        if (gradients[i] != NULL) optimizer->entries[i].n_updates++;
    optimizer->n_steps++;
    return STATUS_OK;
}

status_t optimizer_begin(context_t *ctx, optimizer_t *optimizer, const tensor_info_t *gradients,
                         const step_slices_t *slices, optimizer_run_t *out_run)
{
    const size_t n = (size_t)optimizer->n;
    optimizer_run_t run = {0};
    TRY(check_apart(ctx, "optimizer_step", optimizer));
    TRY(context_get(ctx, n * (sizeof *run.items + sizeof *run.item_of), "a step", &run.items));
    run.item_of = (int *)(void *)(run.items + n);
    status_t status = STATUS_OK;
    for (int i = 0; i < optimizer->n && status == STATUS_OK; i++) {
        run.item_of[i] = gradients[i].dtype == DTYPE_NONE ? -1 : run.n_items;
        if (run.item_of[i] < 0) continue;
        status = list_item(ctx, optimizer, i, &gradients[i], &run.n_items, run.items);
        if (status == STATUS_OK) run.items[run.n_items - 1].slices = slices[i];
    }
    if (status == STATUS_OK)
        status = step_begin(ctx, "optimizer_step", &optimizer->rule, true, run.n_items, run.items);
    if (status == STATUS_OK)
        *out_run = run;
    else
        context_put(ctx, run.items);
    return status;
}

status_t optimizer_late(context_t *ctx, const optimizer_t *optimizer, optimizer_run_t *run,
                        int index, int64_t first, const tensor_t *gradient)
{
    INVARIANT(run->item_of[index] >= 0);
    step_item_t *item = &run->items[run->item_of[index]];
    TRY(step_late(ctx, &optimizer->rule, item, first, gradient));
    run->n_begun += first == 0;
    run->n_done += step_is_last(item, first);
    return STATUS_OK;
}

status_t optimizer_product(context_t *ctx, const optimizer_t *optimizer, optimizer_run_t *run,
                           int index, const tensor_t *x, const tensor_t *grad)
{
    INVARIANT(run->item_of[index] >= 0);
    TRY(step_product(ctx, &optimizer->rule, &run->items[run->item_of[index]], x, grad));
    run->n_begun++;
    run->n_done++;
    return STATUS_OK;
}

void optimizer_end(context_t *ctx, optimizer_t *optimizer, optimizer_run_t *run)
{
    if (run->items == NULL) return;
    const bool is_made = run->n_done == run->n_items;
    for (int i = 0; i < optimizer->n && is_made; i++)
        optimizer->entries[i].n_updates += run->item_of[i] >= 0;
    optimizer->n_steps += is_made;
    step_end(run->n_items, run->items);
    context_put(ctx, run->items);
    *run = (optimizer_run_t){0};
}

status_t optimizer_set_lr(context_t *ctx, optimizer_t *optimizer, double lr)
{
    if (ctx == NULL) return STATUS_INVALID_ARGUMENT;
    if (optimizer == NULL) return context_null(ctx, "optimizer_set_lr", "optimizer");
    REQUIRE(ctx, lr >= 0.0, "optimizer_set_lr: lr %g, must not be negative", lr);
    optimizer->rule.lr = lr;
    return STATUS_OK;
}

double optimizer_lr(const optimizer_t *optimizer)
{
    return optimizer != NULL ? optimizer->rule.lr : 0.0;
}

/* ---- queries ---- */

static const optimizer_entry_t *entry_at(const optimizer_t *optimizer, int index)
{
    bool is_there = optimizer != NULL && index >= 0 && index < optimizer->n;
    return is_there ? &optimizer->entries[index] : NULL;
}

const char *optimizer_kind(const optimizer_t *optimizer)
{
    return optimizer != NULL ? optimizer->kind : NULL;
}

int optimizer_n_parameters(const optimizer_t *optimizer)
{
    return optimizer != NULL ? optimizer->n : 0;
}

const char *optimizer_name(const optimizer_t *optimizer, int index)
{
    const optimizer_entry_t *entry = entry_at(optimizer, index);
    return entry != NULL ? entry->name : NULL;
}

tensor_t *optimizer_parameter(const optimizer_t *optimizer, int index)
{
    const optimizer_entry_t *entry = entry_at(optimizer, index);
    return entry != NULL ? module_parameter(optimizer->module, entry->name) : NULL;
}

int64_t optimizer_n_updates(const optimizer_t *optimizer, int index)
{
    const optimizer_entry_t *entry = entry_at(optimizer, index);
    return entry != NULL ? entry->n_updates : 0;
}

int64_t optimizer_n_steps(const optimizer_t *optimizer)
{
    return optimizer != NULL ? optimizer->n_steps : 0;
}

const char *optimizer_unstepped(const optimizer_t *optimizer, int nth)
{
    int n = 0;
    if (optimizer == NULL || optimizer->n_steps == 0) return NULL;
    for (int i = 0; i < optimizer->n; i++)
        if (optimizer->entries[i].n_updates == 0 && n++ == nth) return optimizer->entries[i].name;
    return NULL;
}

int optimizer_n_states(const optimizer_t *optimizer)
{
    int n = 0;
    for (int s = 0; optimizer != NULL && s < UPDATE_MAX_STATES; s++)
        n += optimizer->rule.state_names[s] != NULL;
    return n;
}

/* Index in state_names of the nth state that the options use, or -1. */
static int state_place(const optimizer_t *optimizer, int nth)
{
    for (int s = 0; optimizer != NULL && s < UPDATE_MAX_STATES; s++)
        if (optimizer->rule.state_names[s] != NULL && nth-- == 0) return s;
    return -1;
}

const char *optimizer_state_name(const optimizer_t *optimizer, int state)
{
    const int place = state_place(optimizer, state);
    return place >= 0 ? optimizer->rule.state_names[place] : NULL;
}

tensor_t *optimizer_state(const optimizer_t *optimizer, int index, int state)
{
    const optimizer_entry_t *entry = entry_at(optimizer, index);
    const int place = state_place(optimizer, state);
    return entry != NULL && place >= 0 ? entry->state[place] : NULL;
}
