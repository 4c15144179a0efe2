/* Lifetime and running of plans. */
#include "graph/program/plan.h"

#include <string.h>

#include "dispatch/select_impl.h"
#include "graph/analysis/attribute_impl.h"
#include "graph/program/plan_run_impl.h"
#include "module/module_impl.h"
#include "tensor/base/references_impl.h"
#include "tensor/context_impl.h"
#include "tensor/convert/form_impl.h"
#include "tensor/file/file_range_impl.h"
#include "tensor/info_impl.h"
#include "tensor/threads/interrupt_impl.h"
#include "tensor/threads/threads_impl.h"

plan_t *plan_retain(plan_t *plan)
{
    if (plan != NULL) references_add(&plan->n_references);
    return plan;
}

static void frame_release(const allocator_t *allocator, plan_frame_t *frame)
{
    allocator_put(allocator, frame->workers);
    allocator_put(allocator, frame);
}

status_t plan_keep_info(context_t *ctx, plan_t *plan, const tensor_info_t *info,
                        const tensor_info_t **out_info)
{
    plan_info_t *kept = plan->infos;
    while (kept != NULL && !info_equal(&kept->info, info)) kept = kept->next;
    if (kept == NULL) {
        TRY(context_get(ctx, sizeof *kept, "a plan", &kept));
        *kept = (plan_info_t){plan->infos, *info};
        plan->infos = kept;
    }
    *out_info = &kept->info;
    return STATUS_OK;
}

void plan_source_clear(const plan_source_t *source)
{
    if (source->kind != SOURCE_TENSOR) return;
    tensor_drop(source->tensor);
    tensor_drop(source->given);
}

static void clear_sources(const plan_t *plan, const step_t *step)
{
    for (int i = 0; i < step->n_sources; i++) {
        const plan_source_t *source = &step->sources[i];
        if (source->kind == SOURCE_TENSOR && plan->is_retired) {
            tensor_drop(source->tensor);
            form_drop_idle(source->given->storage);
            tensor_drop(source->given);
        } else {
            plan_source_clear(source);
        }
    }
}

void plan_release(plan_t *plan)
{
    if (plan == NULL || !references_drop(&plan->n_references)) return;
    allocator_t allocator = plan->allocator;
    while (plan->idle != NULL) {
        plan_frame_t *next = plan->idle->next;
        frame_release(&allocator, plan->idle);
        plan->idle = next;
    }
    for (int s = 0; s < plan->n_steps; s++) {
        step_t *step = &plan->steps[s];
        clear_sources(plan, step);
        prepared_release(step->prepared);
        onednn_release(step->reorder);
        allocator_put(&allocator, step->sources);
    }
    while (plan->infos != NULL) {
        plan_info_t *next = plan->infos->next;
        allocator_put(&allocator, plan->infos);
        plan->infos = next;
    }
    for (int r = 0; r < plan->n_roots; r++) {
        tensor_drop(plan->roots[r].tensor);
        tensor_drop(plan->roots[r].snapshot);
    }
    allocator_put(&allocator, plan->steps);
    for (int c = 0; c < plan->n_chains; c++) allocator_put(&allocator, plan->chains[c].bands);
    allocator_put(&allocator, plan->chains);
    allocator_put(&allocator, plan->loops);
    allocator_put(&allocator, plan->roots);
    allocator_put(&allocator, plan->inputs);
    allocator_put(&allocator, plan->results);
    allocator_put(&allocator, plan->parameters);
    arenas_release(plan->arenas);
    graph_release(plan->graph);
    pthread_mutex_destroy(&plan->lock);
    allocator_put(&allocator, plan);
}

int plan_n_steps(const plan_t *plan)
{
    return plan != NULL ? plan->n_steps : 0;
}

const plan_step_t *plan_step(const plan_t *plan, int index)
{
    bool is_there = plan != NULL && index >= 0 && index < plan->n_steps;
    return is_there ? &plan->steps[index].view : NULL;
}

int plan_step_weights(const plan_t *plan, int index, int *out_n_mapped)
{
    const plan_step_t *view = plan_step(plan, index);
    int n = 0, n_mapped = 0;
    for (int i = 0; view != NULL && view->node != NULL && i < view->n_in; i++) {
        const plan_source_t *source = &plan->steps[index].sources[i];
        const tensor_t *tensor = NULL;
        if (source->kind == SOURCE_TENSOR) tensor = source->tensor;
        if (source->kind == SOURCE_ROOT) tensor = plan->roots[source->root].snapshot;
        if (tensor == NULL || select_operand(view->node->op, i)->role != ROLE_WEIGHT) continue;
        n++;
        n_mapped += file_is_mapped(tensor->storage);
    }
    if (out_n_mapped != NULL) *out_n_mapped = n_mapped;
    return n;
}

size_t plan_arena_bytes(const plan_t *plan)
{
    return plan != NULL ? plan->arena_bytes : 0;
}

size_t plan_weight_bytes(const plan_t *plan)
{
    return plan != NULL ? plan->weight_bytes : 0;
}

const graph_t *plan_graph(const plan_t *plan)
{
    return plan != NULL ? plan->graph : NULL;
}

bool plan_takes(const plan_t *plan, int index, const tensor_info_t *info)
{
    const tensor_info_t *want = &plan->inputs[index];
    if (plan->roots[index].is_shared)
        return info->layout == want->layout && tensor_lies_like(info, want);
    return info->dtype == want->dtype &&
           shape_equal(info->rank, info->sizes, want->rank, want->sizes);
}

bool plan_splits(const plan_t *plan, const tensor_t *const *in)
{
    for (int i = 0; i < plan->n_inputs; i++) {
        if (plan->roots[i].is_shared || tensor_lies_like(&in[i]->info, &plan->inputs[i])) continue;
        for (int j = 0; j < plan->n_inputs; j++)
            if (plan->roots[j].is_written && tensor_overlaps(in[i], in[j])) return true;
    }
    return false;
}

bool plan_overlaps_itself(const tensor_info_t *info)
{
    for (int d = 0; info->format.kind == FORMAT_STRIDED && d < info->rank; d++)
        if (info->sizes[d] > 1 && info->format.strides[d] == 0) return true;
    return false;
}

/* ---- frames ---- */

static status_t frame_create(context_t *ctx, const plan_t *plan, plan_frame_t **out_frame)
{
    plan_frame_t *frame = allocator_get(
        &plan->allocator,
        sizeof *frame + (2 * (size_t)plan->n_roots + (size_t)plan->n_parameters) * sizeof(void *));
    if (frame == NULL) FAIL(ctx, STATUS_OUT_OF_MEMORY, "plan: out of memory for a frame");
    frame->next = NULL;
    frame->bound = (tensor_t **)(void *)&frame->pointers[plan->n_roots];
    frame->parameters = (const tensor_t **)(void *)&frame->bound[plan->n_roots];
    frame->changes = 0;
    frame->arena = NULL;
    frame->workers = allocator_get(&plan->allocator, plan_workers_bytes(plan));
    if (frame->workers == NULL) {
        frame_release(&plan->allocator, frame);
        FAIL(ctx, STATUS_OUT_OF_MEMORY, "plan: out of memory for a frame");
    }
    for (int r = 0; r < plan->n_roots; r++) {
        const plan_root_t *root = &plan->roots[r];
        frame->pointers[r] = NULL;
        frame->bound[r] = NULL;
        if (root->kind == ROOT_CONSTANT)
            frame->pointers[r] = (void *)(uintptr_t)tensor_bytes(root->snapshot);
    }
    *out_frame = frame;
    return STATUS_OK;
}

/* Sets the addresses of arena buffers, unless the run leased the same block as the previous run. */
static void place_frame(const plan_t *plan, plan_frame_t *frame, char *arena)
{
    if (frame->arena == arena) return;
    frame->arena = arena;
    for (int r = 0; r < plan->n_roots; r++)
        if (plan->roots[r].kind == ROOT_ARENA) frame->pointers[r] = arena + plan->roots[r].offset;
}

static void give_back(plan_t *plan, plan_frame_t *frame)
{
    pthread_mutex_lock(&plan->lock);
    frame->next = plan->idle;
    plan->idle = frame;
    pthread_mutex_unlock(&plan->lock);
}

static status_t frame_lease(context_t *ctx, plan_t *plan, plan_frame_t **out_frame)
{
    pthread_mutex_lock(&plan->lock);
    plan_frame_t *frame = plan->idle;
    if (frame != NULL) plan->idle = frame->next;
    pthread_mutex_unlock(&plan->lock);
    if (frame == NULL) TRY(frame_create(ctx, plan, &frame));
    char *arena = arenas_lease(plan->arenas, plan->arena_bytes);
    if (arena == NULL) {
        give_back(plan, frame);
        FAIL(ctx, STATUS_OUT_OF_MEMORY, "plan: out of memory for an arena of %zu bytes",
             plan->arena_bytes);
    }
    place_frame(plan, frame, arena);
    *out_frame = frame;
    return STATUS_OK;
}

static void frame_return(plan_t *plan, plan_frame_t *frame)
{
    arenas_return(plan->arenas, frame->arena);
    give_back(plan, frame);
}

void plan_share_arenas(plan_t *plan, arenas_t *arenas)
{
    arenas_release(plan->arenas);
    plan->arenas = arenas_retain(arenas);
}

void plan_retire(plan_t *plan)
{
    atomic_store(&plan->is_retired, true);
}

size_t plan_own_bytes(const plan_t *plan)
{
    size_t bytes = sizeof *plan + (size_t)plan->n_roots * sizeof *plan->roots;
    bytes += plan_workers_bytes(plan) + 2 * (size_t)plan->n_roots * sizeof(void *);
    for (int s = 0; s < plan->n_steps; s++) {
        const step_t *step = &plan->steps[s];
        bytes += sizeof *step + (size_t)step->n_sources * sizeof *step->sources;
        if (step->prepared != NULL) bytes += prepared_bytes(step->prepared);
        if (step->reorder != NULL) bytes += ONEDNN_PRIMITIVE_BYTES;
    }
    return bytes;
}

/* True if the source is a converted copy (packed or reordered) of a constant, not its own bytes. */
static bool is_form(const plan_source_t *source)
{
    return source->kind == SOURCE_TENSOR &&
           storage_place(source->tensor->storage) != storage_place(source->given->storage);
}

status_t plan_form_bytes(context_t *ctx, const plan_t *plan, hash_table_t *seen, size_t *out_bytes)
{
    *out_bytes = 0;
    for (int s = 0; s < plan->n_steps; s++) {
        const step_t *step = &plan->steps[s];
        for (int i = 0; i < step->n_sources; i++) {
            if (!is_form(&step->sources[i])) continue;
            tensor_t *form = step->sources[i].tensor;
            const uint64_t hash = hash_mix(0, (uint64_t)(uintptr_t)form);
            if (hash_find(seen, hash, NULL, NULL) != NULL) continue;
            TRY(hash_put(ctx, seen, hash, form));
            *out_bytes += info_bytes(&form->info);
        }
    }
    return STATUS_OK;
}

/* ---- running ---- */

static status_t find_parameter(context_t *ctx, const plan_t *plan,
                               const plan_parameter_t *parameter, const tensor_t **out_tensor)
{
    attribute_t attribute;
    const tensor_t *tensor = NULL;
    if (attribute_find(plan->self, parameter->path, &attribute))
        tensor = attribute_tensor(&attribute);
    if (tensor == NULL || tensor->info.dtype != parameter->info.dtype ||
        !shape_equal(tensor->info.rank, tensor->info.sizes, parameter->info.rank,
                     parameter->info.sizes))
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "plan: %s is not the %s it was planned for",
             parameter->path, info_brief(&parameter->info));
    *out_tensor = tensor;
    return STATUS_OK;
}

/* Looks up parameters by path if any module has changed since the frame's last run. module_changes
 * is never 0 here, so a new frame always looks them up. */
static status_t find_parameters(plan_run_t *run)
{
    const plan_t *plan = run->plan;
    plan_frame_t *frame = run->frame;
    uint64_t changes = module_changes();
    if (plan->n_parameters == 0 || frame->changes == changes) return STATUS_OK;
    frame->changes = 0;
    for (int i = 0; i < plan->n_parameters; i++)
        TRY(find_parameter(run->ctx, plan, &plan->parameters[i], &frame->parameters[i]));
    frame->changes = changes;
    return STATUS_OK;
}

/* A view shares the parameter's storage, which also caches packed copies of it. If the parameter
 * does not have the planned format, the result is a view of a converted copy. */
status_t plan_take_parameter(plan_run_t *run, const plan_source_t *source, tensor_t **out_tensor)
{
    tensor_t *tensor = (tensor_t *)(uintptr_t)run->frame->parameters[source->parameter];
    tensor_t *base = NULL;
    if (!source->is_view) {
        *out_tensor = tensor_hold(tensor);
        return STATUS_OK;
    }
    if (tensor_lies_like(&tensor->info, source->base))
        base = tensor_hold(tensor);
    else
        TRY(convert_to(run->ctx, tensor, source->base, CAUSE_WEIGHT, &base));
    FINISH(tensor_over(run->ctx, source->view, base->storage,
                       base->offset + (int64_t)source->offset, out_tensor),
           tensor_drop(base));
}

static status_t convert_parameter(plan_run_t *run, const plan_source_t *source,
                                  const tensor_t *tensor, tensor_t **out_tensor)
{
    const tensor_info_t *want = source->want;
    if (!source->is_weight) return convert_to(run->ctx, tensor, want, CAUSE_WEIGHT, out_tensor);
    if (source->root >= 0 && storage_is_packable(tensor->storage) &&
        convert_moves_bytes(&tensor->info, want))
        return pack_weight_once(run->ctx, source->kernel, tensor, want,
                                run->frame->pointers[source->root], out_tensor);
    return pack_weight(run->ctx, source->kernel, tensor, want, out_tensor);
}

/* Provides the parameter that a step reads. *out_tensor is NULL if the converted elements are in
 * the source's arena buffer. */
static status_t fetch_parameter(plan_run_t *run, const plan_source_t *source, tensor_t **out_tensor)
{
    tensor_t *tensor = NULL;
    TRY(plan_take_parameter(run, source, &tensor));
    FINISH(convert_parameter(run, source, tensor, out_tensor), tensor_drop(tensor));
}

/* ---- steps that write in place or set attributes ---- */

/* Prepares a buffer for writing: snapshots get their own bytes, and a new version invalidates
 * cached packed copies. The bytes may move, so updates the addresses of all buffers of the
 * storage. */
static status_t open_root(plan_run_t *run, int root)
{
    plan_frame_t *frame = run->frame;
    tensor_t *written = frame->bound[root];
    void *bytes = NULL;
    if (written == NULL) return STATUS_OK; /* in the arena: no snapshots or packed copies */
    TRY(tensor_writable(run->ctx, written, &bytes));
    if (frame->pointers[root] == bytes) return STATUS_OK;
    for (int r = 0; r < run->plan->n_roots; r++)
        if (frame->bound[r] != NULL && frame->bound[r]->storage == written->storage)
            frame->pointers[r] = (void *)(uintptr_t)tensor_bytes(frame->bound[r]);
    return STATUS_OK;
}

/* Copies operands that overlap an in-place operator's target, for example views of it. The caller
 * frees copies[i], also on failure. */
static status_t part_operands(plan_run_t *run, const step_t *step, void **in, const char *written,
                              void **copies)
{
    size_t n_written = info_bytes(&step->prepared->out[0]);
    for (int i = 1; i < step->n_sources; i++) {
        if (in[i] == NULL) continue;
        size_t bytes = info_bytes(&step->prepared->in[i]);
        const char *read = in[i];
        if (read >= written + n_written || written >= read + bytes) continue;
        TRY(context_get(run->ctx, bytes, "an operand", &copies[i]));
        memcpy(copies[i], read, bytes);
        in[i] = copies[i];
    }
    return STATUS_OK;
}

static status_t run_kernel_in_place(plan_run_t *run, const step_t *step, void **in,
                                    void *const *out)
{
    void *copies[OP_MAX_INPUTS] = {NULL};
    status_t status = part_operands(run, step, in, out[0], copies);
    if (status == STATUS_OK)
        status = run->is_watched ? plan_run_watched(run, step, in, out)
                                 : plan_run_kernel(run, step, in, out);
    for (int i = 0; i < step->n_sources; i++) context_put(run->ctx, copies[i]);
    return status;
}

/* Runs a conversion. If the layouts are equal, copies the bytes, which does not count as a
 * reorder. */
static status_t run_conversion(plan_run_t *run, const step_t *step, const void *in, void *out)
{
    bool is_whole = step->to->layout == LAYOUT_MKLDNN || info_is_contiguous(step->to);
    if (step->pack != NULL)
        return convert_pack_bytes(run->ctx, step->pack, step->from, in, step->to, out, step->cause);
    if (!step->is_in_place || !is_whole || !tensor_lies_like(step->from, step->to))
        return convert_settled(run->ctx, step->reorder, step->from, in, step->to, out, step->cause);
    memcpy(out, in, info_bytes(step->to));
    return STATUS_OK;
}

static status_t take_tensor(plan_run_t *run, int root, size_t offset, const tensor_info_t *info,
                            tensor_t **out);

static status_t set_attribute(plan_run_t *run, const step_t *step)
{
    const plan_source_t *value = &step->sources[0];
    tensor_t *tensor = NULL;
    datum_t *datum = NULL;
    TRY(take_tensor(run, value->root, value->offset, step->from, &tensor));
    status_t status = datum_tensor(run->ctx, tensor, &datum);
    tensor_drop(tensor);
    if (status == STATUS_OK)
        status = attribute_set(run->ctx, run->plan->self, step->attribute, datum);
    datum_release(datum);
    return status;
}

static status_t make_argument(plan_run_t *run, const plan_source_t *source, datum_t **out_datum)
{
    tensor_t *tensor = NULL;
    if (source->kind == SOURCE_DATUM) {
        *out_datum = datum_retain(source->datum);
        return STATUS_OK;
    }
    if (run->plan->roots[source->root].kind == ROOT_ARENA)
        TRY(plan_tensor_at(run, &source->info,
                           (char *)run->frame->pointers[source->root] + source->offset, &tensor));
    else
        TRY(take_tensor(run, source->root, source->offset, &source->info, &tensor));
    FINISH(datum_tensor(run->ctx, tensor, out_datum), tensor_drop(tensor));
}

static status_t make_arguments(plan_run_t *run)
{
    const plan_t *plan = run->plan;
    if (plan->n_arguments == 0) return STATUS_OK;
    TRY(context_get_zeroed(run->ctx, (size_t)plan->n_arguments * sizeof *run->arguments,
                           "arguments of calls", &run->arguments));
    for (int s = 0; s < plan->n_steps; s++)
        for (int i = 0; plan->steps[s].method != NULL && i < plan->steps[s].n_sources; i++)
            TRY(make_argument(run, &plan->steps[s].sources[i],
                              &run->arguments[plan->steps[s].first_argument + i]));
    return STATUS_OK;
}

static void drop_arguments(plan_run_t *run)
{
    for (int i = 0; run->arguments != NULL && i < run->plan->n_arguments; i++)
        datum_release(run->arguments[i]);
    context_put(run->ctx, run->arguments);
}

static status_t call_method(plan_run_t *run, const step_t *step)
{
    datum_t *none[METHOD_MAX_OUTPUTS] = {NULL};
    int n_out = METHOD_MAX_OUTPUTS;
    return module_call(run->ctx, run->plan->self, step->method, step->n_sources,
                       run->arguments + step->first_argument, &n_out, none);
}

status_t plan_check_step(const plan_run_t *run, const step_t *step)
{
    return interrupt_check(run->ctx, step->prepared != NULL ? step->prepared->op->name
                                                            : "a step of the plan");
}

void plan_find_places(const plan_run_t *run, const step_t *step, void **in, void **out)
{
    const plan_root_t *roots = run->plan->roots;
    const size_t slice = (size_t)run->slice, worker = (size_t)run->worker;
    for (int i = 0; i < step->n_sources; i++) {
        const plan_source_t *source = &step->sources[i];
        in[i] = NULL;
        if (source->kind == SOURCE_ROOT)
            in[i] = (char *)run->frame->pointers[source->root] + source->offset +
                    slice * source->stride + worker * roots[source->root].copy_bytes;
        else if (source->kind == SOURCE_TENSOR)
            in[i] = (void *)(uintptr_t)tensor_bytes(source->tensor);
    }
    for (int i = 0; i < step->n_outputs; i++)
        out[i] = (char *)run->frame->pointers[step->output_roots[i]] + step->output_offsets[i] +
                 slice * step->output_strides[i] + worker * roots[step->output_roots[i]].copy_bytes;
}

status_t plan_run_step(plan_run_t *run, const step_t *step)
{
    void *in[OP_MAX_INPUTS], *out[OP_MAX_OUTPUTS];
    tensor_t *held[OP_MAX_INPUTS];
    int n_held = 0;
    TRY(plan_check_step(run, step));
    if (step->attribute != NULL) return set_attribute(run, step);
    if (step->method != NULL) return call_method(run, step);
    if (step->is_in_place) TRY(open_root(run, step->output_roots[0]));
    status_t status = STATUS_OK;
    plan_find_places(run, step, in, out);
    for (int i = 0; status == STATUS_OK && i < step->n_sources; i++) {
        const plan_source_t *source = &step->sources[i];
        if (source->kind != SOURCE_PARAMETER) continue;
        status = fetch_parameter(run, source, &held[n_held]);
        if (status == STATUS_OK && held[n_held] == NULL)
            in[i] = run->frame->pointers[source->root];
        else if (status == STATUS_OK)
            in[i] = (void *)(uintptr_t)tensor_bytes(held[n_held++]);
    }
    if (status == STATUS_OK && step->prepared == NULL)
        status = run_conversion(run, step, in[0], out[0]);
    else if (status == STATUS_OK && step->is_in_place)
        status = run_kernel_in_place(run, step, in, out);
    else if (status == STATUS_OK)
        status = run->is_watched ? plan_run_watched(run, step, in, out)
                                 : plan_run_kernel(run, step, in, out);
    while (n_held > 0) tensor_drop(held[--n_held]);
    context_counters(run->ctx)->operators += step->prepared != NULL;
    return status;
}

/* ---- results in the caller's tensors ---- */

/* True if a kernel can write to the tensor: outputs need the allocator's alignment. Released bytes
 * have no address yet. */
static bool is_aligned(const tensor_t *tensor)
{
    uintptr_t place = (uintptr_t)storage_place(tensor->storage);
    return place != 0 && (place + (uintptr_t)tensor->offset) % 64 == 0;
}

/* True if the tensor overlaps a parameter: steps may read parameters at any time during the run. */
static bool has_parameter_in(plan_run_t *run, const tensor_t *wanted)
{
    for (int i = 0; i < run->plan->n_parameters; i++)
        if (tensor_overlaps(run->frame->parameters[i], wanted)) return true;
    return false;
}

/* The caller's tensor into which a result that fills buffer r can be written directly, or NULL. */
static tensor_t *find_wanted(plan_run_t *run, int r, int n_in, const tensor_t *const *in)
{
    const plan_t *plan = run->plan;
    for (int i = 0; i < run->n_wanted; i++) {
        const plan_result_t *result = &plan->results[i];
        tensor_t *wanted = run->wanted[i];
        if (wanted == NULL) continue;
        bool fits = result->root == r && result->offset == 0 &&
                    tensor_lies_like(&result->info, &plan->roots[r].info) &&
                    tensor_lies_like(&wanted->info, &result->info) && is_aligned(wanted);
        for (int j = 0; fits && j < n_in; j++) fits = !tensor_overlaps(in[j], wanted);
        if (fits && !has_parameter_in(run, wanted)) return wanted;
    }
    return NULL;
}

static status_t bind_output(plan_run_t *run, int r, int n_in, const tensor_t *const *in)
{
    tensor_t *wanted = find_wanted(run, r, n_in, in), **bound = &run->frame->bound[r];
    if (wanted != NULL)
        *bound = tensor_hold(wanted);
    else
        TRY(tensor_make(run->ctx, &run->plan->roots[r].info, bound));
    return tensor_writable(run->ctx, *bound, &run->frame->pointers[r]);
}

static status_t check_wanted(context_t *ctx, const plan_t *plan, int n_wanted,
                             tensor_t *const *wanted)
{
    REQUIRE(ctx, n_wanted == plan->n_results, "plan: %d results, the call has tensors for %d",
            plan->n_results, n_wanted);
    for (int i = 0; i < n_wanted; i++)
        if (wanted[i] != NULL)
            TRY(module_check_result(ctx, i, &plan->results[i].info, &wanted[i]->info));
    return STATUS_OK;
}

/* ---- a run ---- */

static status_t bind_inputs(plan_run_t *run, int n_in, const tensor_t *const *in)
{
    plan_t *plan = run->plan;
    REQUIRE(run->ctx, n_in == plan->n_inputs, "plan: %d inputs, must be %d", n_in, plan->n_inputs);
    for (int r = 0; r < plan->n_roots; r++) {
        const plan_root_t *root = &plan->roots[r];
        if (root->kind == ROOT_OUTPUT) {
            TRY(bind_output(run, r, n_in, in));
        } else if (root->kind == ROOT_INPUT) {
            const tensor_t *tensor = in[root->index];
            if (tensor == NULL) return context_null(run->ctx, "plan", "input");
            REQUIRE(run->ctx,
                    tensor->info.dtype == root->info.dtype &&
                        shape_equal(tensor->info.rank, tensor->info.sizes, root->info.rank,
                                    root->info.sizes),
                    "plan: input %d is %s, the plan is for %s", root->index, tensor_text(tensor),
                    info_brief(&root->info));
            INVARIANT(!root->is_shared || plan_takes(plan, root->index, &tensor->info));
            TRY(convert_to(run->ctx, tensor, &root->info, CAUSE_INPUT, &run->frame->bound[r]));
            run->frame->pointers[r] = (void *)(uintptr_t)tensor_bytes(run->frame->bound[r]);
        }
    }
    return STATUS_OK;
}

/* Returns the bound tensor itself if the value is a complete output or a shared input, a snapshot
 * if it is a constant. So a caller who writes to the result does not change the plan. */
static status_t take_tensor(plan_run_t *run, int root, size_t at, const tensor_info_t *info,
                            tensor_t **out)
{
    const plan_root_t *of = &run->plan->roots[root];
    tensor_t *base = run->frame->bound[root];
    bool is_constant = base == NULL, is_itself = of->kind == ROOT_OUTPUT || of->is_shared;
    if (is_constant) base = of->snapshot;
    int64_t offset = base->offset + (int64_t)at;
    if (is_itself && at == 0 && info_identical(&base->info, info)) {
        *out = tensor_hold(base);
        return STATUS_OK;
    }
    if (is_constant) return tensor_snapshot(run->ctx, base, info, offset, out);
    return tensor_over(run->ctx, info, base->storage, offset, out);
}

static status_t collect_results(plan_run_t *run, tensor_t **out)
{
    const plan_t *plan = run->plan;
    for (int i = 0; i < plan->n_results; i++) {
        if (plan->results[i].is_whole && run->n_wanted == 0) {
            out[i] = tensor_hold(run->frame->bound[plan->results[i].root]);
            continue;
        }
        status_t status = take_tensor(run, plan->results[i].root, plan->results[i].offset,
                                      &plan->results[i].info, &out[i]);
        if (status == STATUS_OK) continue;
        while (i > 0) tensor_drop(out[--i]);
        return status;
    }
    return STATUS_OK;
}

static status_t run_steps(plan_run_t *run)
{
    const plan_t *plan = run->plan;
    int s = 0, l = 0, c = 0;
    while (s < plan->n_steps) {
        if (l < plan->n_loops && plan->loops[l].first_step == s) {
            TRY(plan_run_loop(run, &plan->loops[l]));
            s += plan->loops[l++].n_steps;
        } else if (c < plan->n_chains && plan->chains[c].first_step == s) {
            TRY(plan_run_chain(run, &plan->chains[c]));
            s += plan->chains[c++].n_steps;
        } else {
            TRY(plan_run_step(run, &plan->steps[s++]));
        }
    }
    return STATUS_OK;
}

/* If the plan calls methods, creates arguments and results before the first step, because nothing
 * may fail after a call. */
static status_t run_frame(plan_run_t *run, int n_in, const tensor_t *const *in, tensor_t **out)
{
    const bool has_calls = run->plan->n_arguments > 0;
    int n_out = 0;
    status_t status = find_parameters(run);
    if (status == STATUS_OK) status = bind_inputs(run, n_in, in);
    if (status == STATUS_OK) status = make_arguments(run);
    if (status == STATUS_OK && has_calls) status = collect_results(run, out);
    if (status == STATUS_OK && has_calls) n_out = run->plan->n_results;
    if (status == STATUS_OK) status = run_steps(run);
    if (status == STATUS_OK && !has_calls) status = collect_results(run, out);
    if (status != STATUS_OK)
        while (n_out > 0) tensor_drop(out[--n_out]);
    drop_arguments(run);
    return status;
}

static status_t execute(context_t *ctx, plan_t *plan, int n_in, const tensor_t *const *in,
                        int n_wanted, tensor_t *const *wanted, tensor_t **out)
{
    plan_run_t run = {.ctx = ctx, .plan = plan, .n_wanted = n_wanted, .wanted = wanted};
    TRY(dispatch_is_watched(ctx, &run.is_watched, &run.shows_inputs));
    TRY(frame_lease(ctx, plan, &run.frame));
    threads_limit_t limit = threads_limit(ctx, plan->n_threads);
    threads_guard_t guard = threads_enter(ctx);
    status_t status = run_frame(&run, n_in, in, out);
    threads_leave(ctx, guard);
    threads_unlimit(ctx, limit);
    for (int r = 0; r < plan->n_roots; r++) {
        tensor_drop(run.frame->bound[r]);
        run.frame->bound[r] = NULL;
    }
    frame_return(plan, run.frame);
    return status;
}

status_t plan_execute(context_t *ctx, plan_t *plan, int n_in, const tensor_t *const *in,
                      tensor_t **out)
{
    return execute(ctx, plan, n_in, in, 0, NULL, out);
}

status_t plan_execute_into(context_t *ctx, plan_t *plan, int n_in, const tensor_t *const *in,
                           int n_wanted, tensor_t *const *wanted, tensor_t **out)
{
    TRY(check_wanted(ctx, plan, n_wanted, wanted));
    return execute(ctx, plan, n_in, in, n_wanted, wanted, out);
}

status_t plan_run(context_t *ctx, plan_t *plan, int n_in, const tensor_t *const *in, int *n_out,
                  tensor_t **out)
{
    if (plan == NULL) return context_null(ctx, "plan_run", "plan");
    if (n_in > 0 && in == NULL) return context_null(ctx, "plan_run", "in");
    if (n_out == NULL || out == NULL) return context_null(ctx, "plan_run", "the output");
    if (ctx == NULL) return STATUS_INVALID_ARGUMENT;
    *n_out = 0;
    tensor_t *results[METHOD_MAX_OUTPUTS];
    REQUIRE(ctx, plan->n_results <= METHOD_MAX_OUTPUTS, "plan: %d results, at most %d",
            plan->n_results, METHOD_MAX_OUTPUTS);
    interrupt_begin(ctx, "plan_run");
    status_t status = interrupt_end(ctx, plan_execute(ctx, plan, n_in, in, results));
    TRY(status);
    for (int i = 0; i < plan->n_results; i++) {
        status_t given = tensor_give(ctx, results[i], &results[i]);
        if (given != STATUS_OK) results[i] = NULL;
        if (status == STATUS_OK) status = given;
    }
    for (int i = 0; status == STATUS_OK && i < plan->n_results; i++) out[i] = results[i];
    if (status == STATUS_OK) *n_out = plan->n_results;
    return status;
}
