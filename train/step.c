/* One optimizer step on some parameters. First it does all that can fail, which changes no element:
 * chooses formats, converts gradients, creates state, makes bytes writable. Then the loops update
 * the elements, which cannot fail. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/linear/linear_impl.h"
#include "ops/shape/slabs_impl.h"
#include "tensor/convert/convert_impl.h"
#include "tensor/convert/form_impl.h"
#include "tensor/threads/threads_impl.h"
#include "train/optimizer_impl.h"

/* ---- formats ---- */

/* True if the tensor has neither gaps nor elements that share memory. */
static bool is_gapless(const tensor_info_t *info)
{
    const format_t format = info->format.kind == FORMAT_STRIDED
                                ? format_of_strides(info->rank, info->sizes, info->format.strides)
                                : info->format;
    return format.kind == FORMAT_TAG || format.kind == FORMAT_REGROUPED;
}

bool step_lies_in_slices(const tensor_info_t *info, step_slices_t slices)
{
    if (slices.dim >= info->rank || info->sizes[slices.dim] == 0) return false;
    if (info->format.kind != FORMAT_TAG) return slices.dim == 0 && info_is_contiguous(info);
    return slices.size % slabs_block(&info->format, slices.dim) == 0 &&
           slabs_row_bytes(info, slices.dim) == info_bytes(info);
}

tensor_info_t step_slice_info(const tensor_info_t *info, step_slices_t slices, int64_t n)
{
    tensor_info_t slice = *info;
    slice.sizes[slices.dim] = n;
    return slice;
}

/* True if the parameter may be stored only in a blocked format, so that its row-major bytes need no
 * updates. */
static bool may_be_blocked(const tensor_t *parameter)
{
    const tensor_info_t *info = tensor_info(parameter);
    return storage_is_packable(parameter->storage) && !storage_is_lent(parameter->storage) &&
           parameter->offset == 0 && info_is_contiguous(info) &&
           info_bytes(info) == storage_bytes(parameter->storage);
}

/* True if the gradient of a tensor in this format can be computed in tiles. A bias (rank 1) is
 * row-major. */
static bool takes_product(const tensor_info_t *info)
{
    return info->rank == 1 || linear_gradient_fits(info);
}

static bool is_candidate(const step_item_t *item, const tensor_info_t *info)
{
    const tensor_info_t *own = tensor_info(item->parameter);
    /* Vectors stay row-major: blocks would only pad them, and all operators read row-major
     * biases. */
    return info->layout == LAYOUT_MKLDNN && is_gapless(info) &&
           (item->slices.size == 0 || step_lies_in_slices(info, item->slices)) &&
           (!item->slices.is_product || takes_product(info)) &&
           (own->rank > 1 || !convert_moves_bytes(own, info));
}

/* Chooses the format in which the step runs. If the parameter may be blocked, this is the format of
 * its state, or of its gradient if there is no state yet. Otherwise it is the parameter's own
 * format, or row-major if the parameter has gaps. */
static tensor_info_t choose_format(const step_item_t *item)
{
    const tensor_info_t *own = tensor_info(item->parameter);
    if (own->layout == LAYOUT_MKLDNN) return *own;
    if (may_be_blocked(item->parameter)) {
        for (int s = 0; s < UPDATE_MAX_STATES; s++)
            if (item->state[s] != NULL && is_candidate(item, tensor_info(item->state[s])))
                return *tensor_info(item->state[s]);
        if (is_candidate(item, &item->given)) return item->given;
        if (own->rank > 0) {
            const format_t plain = format_plain(own->rank);
            return info_mkldnn(own, &plain);
        }
    }
    return is_gapless(own) ? *own : info_dense(own->dtype, own->rank, own->sizes);
}

/* ---- preparation, which can fail ---- */

static status_t read_gradient(context_t *ctx, step_item_t *item)
{
    const tensor_t *gradient = item->gradient;
    const bool is_apart = !tensor_lies_like(&item->given, &item->want) || item->is_written;
    if (item->slices.is_product) return STATUS_OK;
    if (gradient == NULL) {
        const tensor_info_t part = item->slices.size == 0
                                       ? item->want
                                       : step_slice_info(&item->want, item->slices,
                                                         item->slices.size);
        return is_apart ? tensor_make(ctx, &part, &item->gradient_as) : STATUS_OK;
    }
    if (is_apart) {
        TRY(convert_make(ctx, gradient, &item->want, CAUSE_GRADIENT, &item->gradient_as));
        gradient = item->gradient_as;
    }
    TRY(storage_restore(ctx, gradient->storage, CAUSE_GRADIENT));
    item->update.gradient = tensor_bytes(gradient);
    return STATUS_OK;
}

/* Address range of a parameter. `end_most` is the largest end of this and all earlier ranges. */
typedef struct extent {
    uintptr_t begin, end, end_most;
    const tensor_t *parameter;
} extent_t;

/* If the row-major bytes were released, uses the address of the storage object instead: such a
 * tensor can share bytes only with tensors of the same storage. */
static extent_t extent_of(const tensor_t *tensor)
{
    const void *place = storage_place(tensor->storage);
    const uintptr_t first = place != NULL ? (uintptr_t)place : (uintptr_t)tensor->storage;
    const uintptr_t begin = first + (uintptr_t)tensor->offset;
    return (extent_t){begin, begin + info_bytes(tensor_info(tensor)), 0, tensor};
}

static int compare_extents(const void *a, const void *b)
{
    const uintptr_t first = ((const extent_t *)a)->begin, second = ((const extent_t *)b)->begin;
    return (first > second) - (first < second);
}

/* True if the gradient overlaps a parameter. Finds the last range that begins before the gradient's
 * end by bisection, and goes back from there while ranges can reach the gradient. */
static bool has_parameter_in(int n, const extent_t *extents, const tensor_t *gradient)
{
    const extent_t own = extent_of(gradient);
    int first = 0, last = n;
    while (first < last) {
        const int middle = first + (last - first) / 2;
        if (extents[middle].begin < own.end)
            first = middle + 1;
        else
            last = middle;
    }
    for (int i = first - 1; i >= 0 && extents[i].end_most > own.begin; i--)
        if (tensor_overlaps(gradient, extents[i].parameter)) return true;
    return false;
}

/* Marks gradients that share memory with a parameter. Example: the gradient of x * y with respect
 * to x is y itself. */
static status_t find_written(context_t *ctx, int n, step_item_t *items)
{
    extent_t *extents = NULL;
    uintptr_t most = 0;
    if (n == 0) return STATUS_OK;
    TRY(context_get(ctx, (size_t)n * sizeof *extents, "parameters of a step", &extents));
    for (int i = 0; i < n; i++) extents[i] = extent_of(items[i].parameter);
    qsort(extents, (size_t)n, sizeof *extents, compare_extents);
    for (int i = 0; i < n; i++) {
        if (extents[i].end > most) most = extents[i].end;
        extents[i].end_most = most;
    }
    for (int i = 0; i < n; i++)
        items[i].is_written = items[i].gradient != NULL &&
                              has_parameter_in(n, extents, items[i].gradient);
    context_put(ctx, extents);
    return STATUS_OK;
}

static status_t make_zeros(context_t *ctx, const tensor_info_t *info, tensor_t **out_tensor)
{
    size_t n_bytes = 0;
    void *bytes = NULL;
    TRY(tensor_count_bytes(ctx, info, &n_bytes));
    TRY(tensor_make_of(ctx, info, n_bytes, 0, out_tensor, &bytes));
    if (n_bytes > 0) memset(bytes, 0, n_bytes);
    return STATUS_OK;
}

static status_t write_state(context_t *ctx, const char *op, const char *name, bool may_convert,
                            step_item_t *item, int s)
{
    tensor_t *state = item->state[s];
    void *bytes = NULL;
    if (state == NULL) {
        TRY(make_zeros(ctx, &item->want, &item->fresh[s]));
        state = item->fresh[s];
    } else if (!tensor_lies_like(tensor_info(state), &item->want)) {
        REQUIRE(ctx, may_convert, "%s: %s is %s, the step needs %s", op, name, tensor_text(state),
                info_brief(&item->want));
        TRY(convert_make(ctx, state, &item->want, CAUSE_WEIGHT, &item->fresh[s]));
        state = item->fresh[s];
    } else if (may_convert && tensor_info(state)->layout != item->want.layout) {
        TRY(tensor_over(ctx, &item->want, state->storage, state->offset, &item->fresh[s]));
    }
    TRY(tensor_writable(ctx, state, &bytes));
    item->update.state[s] = bytes;
    return STATUS_OK;
}

/* Prepares the update of a parameter with gaps: the loops update a copy without gaps, which is
 * copied back at the end. */
static status_t write_gapped(context_t *ctx, const char *op, step_item_t *item)
{
    void *bytes = NULL;
    TRY(tensor_check_writable(ctx, op, item->parameter));
    TRY(convert_make(ctx, item->parameter, &item->want, CAUSE_WEIGHT, &item->plain));
    TRY(tensor_writable(ctx, item->parameter, &item->gapped));
    TRY(tensor_writable(ctx, item->plain, &bytes));
    item->update.parameter = bytes;
    return STATUS_OK;
}

static status_t write_parameter(context_t *ctx, const char *op, step_item_t *item)
{
    const tensor_info_t *info = tensor_info(item->parameter);
    void *bytes = NULL;
    if (!is_gapless(info)) {
        if (info->layout == LAYOUT_MKLDNN)
            FAIL(ctx, STATUS_UNSUPPORTED,
                 "%s: the parameter is %s, steps in that format are not supported", op,
                 info_brief(info));
        return write_gapped(ctx, op, item);
    }
    if (item->gradient == NULL)
        return form_reserve(ctx, item->parameter, &item->want, CAUSE_WEIGHT);
    TRY(form_writable(ctx, item->parameter, &item->want, CAUSE_WEIGHT, &bytes));
    item->update.parameter = bytes;
    return STATUS_OK;
}

static status_t prepare(context_t *ctx, const char *op, const update_rule_t *rule, bool may_convert,
                        step_item_t *item)
{
    item->want = choose_format(item);
    item->update.n = (int64_t)(info_bytes(&item->want) / sizeof(float));
    TRY(read_gradient(ctx, item));
    for (int s = 0; s < UPDATE_MAX_STATES; s++)
        if (rule->state_names[s] != NULL)
            TRY(write_state(ctx, op, rule->state_names[s], may_convert, item, s));
    return write_parameter(ctx, op, item);
}

/* ---- numbers for the loops ---- */

static void set_numbers(const update_rule_t *rule, int64_t step, update_t *update)
{
    const double correction1 = 1.0 - pow(rule->beta1, (double)step);
    const double correction2 = 1.0 - pow(rule->beta2, (double)step);
    const bool is_adam = rule->kind == UPDATE_ADAM;
    update->decay = rule->is_decoupled ? 0.0f : (float)rule->weight_decay;
    update->shrink = rule->is_decoupled ? (float)(1.0 - rule->lr * rule->weight_decay) : 1.0f;
    update->rate = (float)(is_adam ? rule->lr / correction1 : rule->lr);
    update->momentum = (float)rule->momentum;
    update->blend = step == 1 ? 1.0f : (float)(1.0 - rule->dampening);
    update->gain1 = (float)(1.0 - rule->beta1);
    update->gain2 = (float)(1.0 - rule->beta2);
    update->beta2 = (float)rule->beta2;
    update->eps = (float)rule->eps;
    update->root = (float)sqrt(correction2);
    update->is_nesterov = rule->is_nesterov;
}

/* True if the update turns zeros into zeros, as the padding of blocks requires. With eps 0 (0
 * divided by 0) or an infinite learning rate it makes NaN. */
static bool keeps_zeros(update_kind_t kind, const update_t *update)
{
    float parameter = 0.0f, state[UPDATE_MAX_STATES] = {0.0f};
    const float gradient = 0.0f;
    update_t probe = *update;
    probe.n = 1;
    probe.parameter = &parameter;
    probe.gradient = &gradient;
    for (int s = 0; s < UPDATE_MAX_STATES; s++)
        if (probe.state[s] != NULL) probe.state[s] = &state[s];
    update_run(kind, 1, 1, &probe);
    return parameter == 0.0f && state[0] == 0.0f && state[1] == 0.0f && state[2] == 0.0f;
}

static void zero_padding(const step_item_t *item)
{
    const tensor_info_t info = convert_inner_info(&item->want);
    if (info.format.kind != FORMAT_TAG || !format_is_padded(&info.format, info.sizes)) return;
    convert_zero_padding(&info, item->update.parameter);
    for (int s = 0; s < UPDATE_MAX_STATES; s++)
        if (item->update.state[s] != NULL) convert_zero_padding(&info, item->update.state[s]);
}

/* ---- the step ---- */

/* Completes the update of one parameter. form_written records that the blocked bytes are now the
 * valid ones. It cannot fail here, because the preparation has already done its allocations. */
static void finish(context_t *ctx, update_kind_t kind, step_item_t *item)
{
    const tensor_info_t *info = tensor_info(item->parameter);
    if (!keeps_zeros(kind, &item->update)) zero_padding(item);
    if (item->plain != NULL) {
        convert_strided(info->rank, info->sizes, info->dtype, item->want.format.strides,
                        tensor_bytes(item->plain), info->dtype, info->format.strides, item->gapped,
                        threads_for(ctx, info_numel(info)));
        return;
    }
    status_t status = form_written(ctx, item->parameter, &item->want, CAUSE_WEIGHT);
    INVARIANT(status == STATUS_OK);
    (void)status;
}

static void keep_state(step_item_t *item)
{
    for (int s = 0; s < UPDATE_MAX_STATES; s++) {
        if (item->fresh[s] == NULL) continue;
        tensor_drop(item->state[s]);
        item->state[s] = item->fresh[s];
        item->fresh[s] = NULL;
    }
}

static void clear(step_item_t *item)
{
    tensor_drop(item->gradient_as);
    tensor_drop(item->plain);
    for (int s = 0; s < UPDATE_MAX_STATES; s++) tensor_drop(item->fresh[s]);
}

static void run_all(context_t *ctx, const update_rule_t *rule, int n, step_item_t *items,
                    update_t *updates)
{
    int64_t n_elements = 0;
    for (int i = 0; i < n; i++) {
        set_numbers(rule, items[i].step, &items[i].update);
        updates[i] = items[i].update;
        n_elements += updates[i].n;
    }
    threads_guard_t guard = threads_enter(ctx);
    update_run(rule->kind, threads_for(ctx, n_elements), n, updates);
    for (int i = 0; i < n; i++) {
        keep_state(&items[i]);
        finish(ctx, rule->kind, &items[i]);
    }
    threads_leave(ctx, guard);
}

status_t step_begin(context_t *ctx, const char *op, const update_rule_t *rule, bool may_convert,
                    int n, step_item_t *items)
{
    status_t status = find_written(ctx, n, items);
    for (int i = 0; i < n && status == STATUS_OK; i++)
        status = prepare(ctx, op, rule, may_convert, &items[i]);
    if (status != STATUS_OK) step_end(n, items);
    return status;
}

void step_end(int n, step_item_t *items)
{
    for (int i = 0; i < n; i++) clear(&items[i]);
}

status_t step_run(context_t *ctx, const char *op, const update_rule_t *rule, bool may_convert,
                  int n, step_item_t *items)
{
    update_t *updates = NULL;
    TRY(context_get(ctx, (size_t)n * sizeof *updates, "updates", &updates));
    status_t status = step_begin(ctx, op, rule, may_convert, n, items);
    if (status == STATUS_OK) {
        run_all(ctx, rule, n, items, updates);
        step_end(n, items);
    }
    context_put(ctx, updates);
    return status;
}

bool step_may_be_late(const tensor_t *parameter)
{
    const tensor_info_t *info = tensor_info(parameter);
    return info->dtype == DTYPE_F32 && is_gapless(info);
}

/* If the parameter may be blocked, the step uses the gradient's format, so only this must allow
 * slices. Otherwise the parameter's own format must allow them too. */
bool step_may_slice(const tensor_t *parameter, const tensor_info_t *gradient, step_slices_t slices)
{
    const tensor_info_t *own = tensor_info(parameter);
    const bool is_free = own->layout == LAYOUT_DENSE && may_be_blocked(parameter);
    if (slices.is_product)
        return step_may_be_late(parameter) && takes_product(is_free ? gradient : own);
    return step_may_be_late(parameter) && step_lies_in_slices(gradient, slices) &&
           (is_free || step_lies_in_slices(own, slices));
}

static int64_t size_at(const step_item_t *item, int64_t first)
{
    const int64_t left = tensor_info(item->parameter)->sizes[item->slices.dim] - first;
    return left < item->slices.size ? left : item->slices.size;
}

bool step_is_last(const step_item_t *item, int64_t first)
{
    const int64_t size = tensor_info(item->parameter)->sizes[item->slices.dim];
    return item->slices.size == 0 || first + item->slices.size >= size;
}

/* Sets the gradient's elements that the loops read. Converts the gradient to the step's format
 * first, if it has another. */
static status_t take_gradient(context_t *ctx, step_item_t *item, const tensor_info_t *want,
                              const tensor_t *gradient)
{
    void *bytes = NULL;
    item->update.gradient = tensor_bytes(gradient);
    if (item->gradient_as == NULL) return STATUS_OK;
    TRY(tensor_writable(ctx, item->gradient_as, &bytes));
    TRY(convert_into(ctx, tensor_info(gradient), tensor_bytes(gradient), want, bytes,
                     CAUSE_GRADIENT));
    item->update.gradient = bytes;
    return STATUS_OK;
}

/* Updates the elements of one slice. In memory they come after those of all earlier slices. */
static void run_slice(context_t *ctx, const update_rule_t *rule, step_item_t *item,
                      const tensor_info_t *slice, int64_t first)
{
    const tensor_info_t before = step_slice_info(&item->want, item->slices, first);
    const size_t offset = info_bytes(&before) / sizeof(float);
    set_numbers(rule, item->step, &item->update);
    update_t update = item->update;
    update.n = (int64_t)(info_bytes(slice) / sizeof(float));
    update.parameter += offset;
    for (int s = 0; s < UPDATE_MAX_STATES; s++)
        if (update.state[s] != NULL) update.state[s] += offset;
    threads_guard_t guard = threads_enter(ctx);
    update_run(rule->kind, threads_for(ctx, update.n), 1, &update);
    if (first == 0) keep_state(item);
    if (step_is_last(item, first)) finish(ctx, rule->kind, item);
    threads_leave(ctx, guard);
}

status_t step_late(context_t *ctx, const update_rule_t *rule, step_item_t *item, int64_t first,
                   const tensor_t *gradient)
{
    const bool is_whole = item->slices.size == 0;
    tensor_info_t given = item->given, want = item->want;
    if (!is_whole) {
        given = step_slice_info(&given, item->slices, size_at(item, first));
        want = step_slice_info(&want, item->slices, size_at(item, first));
    }
    update_t update;
    void *bytes = NULL;
    INVARIANT(tensor_lies_like(tensor_info(gradient), &given));
    (void)given;
    TRY(take_gradient(ctx, item, &want, gradient));
    TRY(form_writable(ctx, item->parameter, &item->want, CAUSE_WEIGHT, &bytes));
    item->update.parameter = bytes;
    if (is_whole)
        run_all(ctx, rule, 1, item, &update);
    else
        run_slice(ctx, rule, item, &want, first);
    return STATUS_OK;
}

/* ---- a gradient computed in tiles ---- */

typedef struct product {
    update_kind_t kind;
    update_t update;
} product_t;

static void step_tile(void *user, int64_t first, int64_t n, const float *tile)
{
    const product_t *product = user;
    update_part(product->kind, &product->update, first, n, tile);
}

static void run_weight(const context_t *ctx, const tensor_info_t *weight, product_t *product,
                       const float *x, const float *grad, int64_t n_rows)
{
    rows_gradient_t gradient = {.n_rows = n_rows,
                                .x = x,
                                .grad = grad,
                                .take = step_tile,
                                .user = product,
                                .ahead = {product->update.parameter}};
    int n = 1;
    for (int s = 0; s < UPDATE_MAX_STATES; s++)
        if (product->update.state[s] != NULL) gradient.ahead[n++] = product->update.state[s];
    linear_gradient_run(ctx, weight, &gradient);
}

#define BIAS_TILE 256

static void run_bias(product_t *product, const float *grad, int64_t n_rows, int64_t n_outputs)
{
    float tile[BIAS_TILE];
    for (int64_t first = 0; first < n_outputs; first += BIAS_TILE) {
        const int64_t n = n_outputs - first < BIAS_TILE ? n_outputs - first : BIAS_TILE;
        rows_gradient_bias(grad, n_rows, n_outputs, first, n, tile);
        step_tile(product, first, n, tile);
    }
}

status_t step_product(context_t *ctx, const update_rule_t *rule, step_item_t *item,
                      const tensor_t *x, const tensor_t *grad)
{
    void *bytes = NULL;
    const int64_t n_outputs = item->want.sizes[0];
    const int64_t n_rows = tensor_numel(grad) / n_outputs;
    INVARIANT(item->slices.is_product && takes_product(&item->want));
    TRY(form_writable(ctx, item->parameter, &item->want, CAUSE_WEIGHT, &bytes));
    item->update.parameter = bytes;
    set_numbers(rule, item->step, &item->update);
    product_t product = {rule->kind, item->update};
    threads_guard_t guard = threads_enter(ctx);
    if (x != NULL)
        run_weight(ctx, &item->want, &product, tensor_bytes(x), tensor_bytes(grad), n_rows);
    else
        run_bias(&product, tensor_bytes(grad), n_rows, n_outputs);
    keep_state(item);
    finish(ctx, rule->kind, item);
    threads_leave(ctx, guard);
    return STATUS_OK;
}

/* ---- single tensors ---- */

static status_t check_tensor(context_t *ctx, const char *op, const char *name,
                             const tensor_t *tensor, const tensor_t *parameter)
{
    const tensor_info_t *want = tensor_info(parameter);
    if (tensor == NULL) return context_null(ctx, op, name);
    const tensor_info_t *info = tensor_info(tensor);
    REQUIRE(ctx,
            info->dtype == want->dtype &&
                shape_equal(info->rank, info->sizes, want->rank, want->sizes),
            "%s: %s is %s, the parameter %s", op, name, info_brief(info), info_brief(want));
    return STATUS_OK;
}

static status_t step_one(context_t *ctx, const char *op, const update_rule_t *rule, int64_t step,
                         tensor_t *parameter, const tensor_t *gradient, tensor_t **state)
{
    if (parameter == NULL) return context_null(ctx, op, "parameter");
    TRY(check_tensor(ctx, op, "gradient", gradient, parameter));
    if (tensor_dtype(parameter) != DTYPE_F32)
        FAIL(ctx, STATUS_UNSUPPORTED, "%s: the parameter is %s, f32 is needed", op,
             tensor_text(parameter));
    for (int s = 0; s < UPDATE_MAX_STATES; s++)
        if (rule->state_names[s] != NULL)
            TRY(check_tensor(ctx, op, rule->state_names[s], state[s], parameter));
    REQUIRE(ctx, step >= 1, "%s: step %lld, steps count from 1", op, (long long)step);
    step_item_t item = {.parameter = parameter,
                        .gradient = gradient,
                        .given = *tensor_info(gradient),
                        .step = step,
                        .state = state};
    return step_run(ctx, op, rule, false, 1, &item);
}

status_t mkldnn_sgd_step(context_t *ctx, tensor_t *parameter, const tensor_t *gradient,
                         tensor_t *momentum_buffer, const sgd_options_t *options, int64_t step)
{
    if (ctx == NULL) return STATUS_INVALID_ARGUMENT;
    const sgd_options_t given = options != NULL ? *options : sgd_options(1e-3);
    TRY(update_check_sgd(ctx, "mkldnn_sgd_step", &given));
    const update_rule_t rule = update_sgd_rule(&given);
    tensor_t *state[UPDATE_MAX_STATES] = {momentum_buffer};
    return step_one(ctx, "mkldnn_sgd_step", &rule, step, parameter, gradient, state);
}

status_t mkldnn_adam_step(context_t *ctx, tensor_t *parameter, const tensor_t *gradient,
                          tensor_t *exp_avg, tensor_t *exp_avg_sq, tensor_t *max_exp_avg_sq,
                          const adam_options_t *options, int64_t step)
{
    if (ctx == NULL) return STATUS_INVALID_ARGUMENT;
    const adam_options_t given = options != NULL ? *options : adam_options(1e-3);
    TRY(update_check_adam(ctx, "mkldnn_adam_step", &given));
    const update_rule_t rule = update_adam_rule(&given);
    tensor_t *state[UPDATE_MAX_STATES] = {exp_avg, exp_avg_sq, max_exp_avg_sq};
    return step_one(ctx, "mkldnn_adam_step", &rule, step, parameter, gradient, state);
}
