/* Builds a plan: one step per node, conversions where formats differ, then the arena. */
#include <string.h>

#include "dispatch/select_impl.h"
#include "graph/analysis/attribute_impl.h"
#include "graph/analysis/lifetimes_impl.h"
#include "graph/analysis/weights_impl.h"
#include "graph/ir/graph_impl.h"
#include "graph/program/plan_impl.h"
#include "tensor/context_impl.h"
#include "tensor/info_impl.h"
#include "tensor/threads/interrupt_impl.h"

/* While building: the place of a graph value's elements. */
typedef struct slot {
    plan_source_t source; /* SOURCE_NONE: absent, or not a tensor */
    bool is_module;
} slot_t;

typedef struct build {
    context_t *ctx;
    const graph_t *graph;
    plan_t *plan;
    slot_t *slots; /* [n_values] */
    const lifetimes_t *lifetimes;
    int roots_capacity, steps_capacity, parameters_capacity;
    int node;                   /* index of the current node */
    const plan_share_t *shares; /* [n_values], for a region; NULL: results are dense, and no bytes
                                   are shared */
    bool calls;                 /* methods of self may be called */
    int n_masters;
    const plan_master_t *masters;
} build_t;

static plan_share_t share_of(const build_t *b, value_t value)
{
    return b->shares == NULL || value < 0 ? PLAN_ALONE : b->shares[value];
}

/* ---- buffers ---- */

static status_t add_root(build_t *b, root_kind_t kind, const tensor_info_t *info, int *out_root)
{
    plan_t *plan = b->plan;
    TRY(context_grow(b->ctx, &plan->roots, &b->roots_capacity, plan->n_roots + 1,
                     sizeof *plan->roots));
    int step = plan->n_steps;
    plan->roots[plan->n_roots] = (plan_root_t){.kind = kind,
                                               .info = *info,
                                               .bytes = info_bytes(info),
                                               .first_step = step,
                                               .last_step = step,
                                               .last_node = -1};
    *out_root = plan->n_roots++;
    return STATUS_OK;
}

static status_t constant_source(build_t *b, const tensor_t *tensor, plan_source_t *out)
{
    int root = 0;
    TRY(add_root(b, ROOT_CONSTANT, &tensor->info, &root));
    plan_root_t *constant = &b->plan->roots[root];
    constant->tensor = tensor_hold((tensor_t *)(uintptr_t)tensor);
    TRY(tensor_snapshot(b->ctx, tensor, &tensor->info, tensor->offset, &constant->snapshot));
    *out = (plan_source_t){.kind = SOURCE_ROOT, .root = root, .info = tensor->info};
    return STATUS_OK;
}

/* ---- steps ---- */

/* Adds a step filled with zeros; one memory block contains all its arrays. */
static status_t add_step(build_t *b, int n_sources, int n_outputs, step_t **out_step)
{
    plan_t *plan = b->plan;
    TRY(context_grow(b->ctx, &plan->steps, &b->steps_capacity, plan->n_steps + 1,
                     sizeof *plan->steps));
    size_t sources = (size_t)n_sources * sizeof(plan_source_t);
    size_t offsets = (size_t)n_outputs * sizeof(size_t);
    char *block = NULL;
    TRY(context_get_zeroed(b->ctx, sources + 2 * offsets + (size_t)n_outputs * sizeof(int),
                           "a step", &block));
    step_t *step = &plan->steps[plan->n_steps++];
    *step = (step_t){.n_sources = n_sources, .n_outputs = n_outputs};
    step->sources = (plan_source_t *)(void *)block;
    step->output_offsets = (size_t *)(void *)(block + sources);
    step->output_strides = (size_t *)(void *)(block + sources + offsets);
    step->output_roots = (int *)(void *)(block + sources + 2 * offsets);
    *out_step = step;
    return STATUS_OK;
}

/* Extends the lifetimes of buffers that the step reads or writes up to this step. */
static void touch(build_t *b, const step_t *step)
{
    int now = (int)(step - b->plan->steps);
    for (int i = 0; i < step->n_sources; i++)
        if (step->sources[i].kind == SOURCE_ROOT)
            b->plan->roots[step->sources[i].root].last_step = now;
    for (int i = 0; i < step->n_outputs; i++) {
        plan_root_t *root = &b->plan->roots[step->output_roots[i]];
        if (root->last_step < now) root->last_step = now;
    }
}

/* Provides the source in format `want`: unchanged if it has that format, else by a conversion step,
 * which uses `pack` unless that is NULL. */
static status_t convert_source(build_t *b, const plan_source_t *from, const tensor_info_t *want,
                               convert_pack_t pack, const char *path, plan_source_t *out)
{
    *out = *from;
    if (format_same(&from->info.format, &want->format, want->sizes)) {
        out->info = *want;
        return STATUS_OK;
    }
    step_t *step = NULL;
    int root = 0;
    TRY(add_root(b, ROOT_ARENA, want, &root));
    TRY(add_step(b, 1, 1, &step));
    step->view = (plan_step_t){.name = "reorder", .path = path, .overwrites = -1};
    step->sources[0] = *from;
    step->output_roots[0] = root;
    TRY(plan_keep_info(b->ctx, b->plan, &from->info, &step->from));
    TRY(plan_keep_info(b->ctx, b->plan, want, &step->to));
    step->pack = pack;
    bool is_constant = from->kind == SOURCE_ROOT &&
                       b->plan->roots[from->root].kind == ROOT_CONSTANT;
    step->cause = is_constant ? CAUSE_WEIGHT : convert_cause(&from->info, want);
    touch(b, step);
    *out = (plan_source_t){.kind = SOURCE_ROOT, .root = root, .info = *want};
    return pack != NULL ? STATUS_OK : convert_settle(b->ctx, step->from, want, &step->reorder);
}

/* ---- operators ---- */

static const tensor_info_t *said_info(const build_t *b, value_t value)
{
    const graph_type_t *type = graph_value_type(b->graph, value);
    return type_is_static(type) ? &type->info : NULL;
}

/* True if an activation is dense but not contiguous; some kernels read it directly. */
static bool reads_view(const graph_node_t *node, const tensor_info_t *const *infos)
{
    for (int i = 0; i < node->n_inputs; i++)
        if (infos[i]->dtype != DTYPE_NONE && infos[i]->layout == LAYOUT_DENSE &&
            select_operand(node->op, i)->role == ROLE_ACTIVATION && !info_is_contiguous(infos[i]))
            return true;
    return false;
}

/* Selects a kernel for the formats that a layout pass has set, else as in an eager call. */
static status_t select_node(build_t *b, const graph_node_t *node, prepared_t **out_prepared)
{
    static const tensor_info_t absent = {.dtype = DTYPE_NONE};
    const tensor_info_t *infos[OP_MAX_INPUTS];
    const weight_use_t weights = weights_of(b->graph, node);
    layout_t layout = LAYOUT_DENSE;
    for (int i = 0; i < node->n_inputs; i++) {
        infos[i] = node->inputs[i] < 0 ? &absent : &b->slots[node->inputs[i]].source.info;
        const bool is_activation = select_operand(node->op, i)->role == ROLE_ACTIVATION;
        if (is_activation && infos[i]->layout == LAYOUT_MKLDNN &&
            !select_reads_grouped(node->op, i, infos[i]))
            layout = LAYOUT_MKLDNN;
    }
    const tensor_info_t *said = said_info(b, node->outputs[0]);
    const format_t *out_format = NULL;
    if (said != NULL && said->layout == LAYOUT_MKLDNN) {
        layout = LAYOUT_MKLDNN;
        out_format = &said->format;
    }
    if (layout == LAYOUT_MKLDNN || (said != NULL && reads_view(node, infos))) {
        status_t status = select_fixed(b->ctx, node->op, node->attrs, node->n_inputs, infos,
                                       weights, layout, out_format, node->kernel, out_prepared);
        if (status != STATUS_UNSUPPORTED) return status;
    }
    return select_for_weights(b->ctx, node->op, node->attrs, node->n_inputs, infos, weights,
                              POLICY_AUTO, out_prepared);
}

/* The tensor of a value that is a constant or a view of one. It shares the storage of the graph's
 * tensor, where packed copies are cached for later plans. */
static status_t constant_view(build_t *b, const plan_source_t *source, tensor_t **out_tensor)
{
    tensor_t *whole = b->plan->roots[source->root].tensor;
    if (source->offset == 0 && info_equal(&source->info, &whole->info)) {
        *out_tensor = tensor_hold(whole);
        return STATUS_OK;
    }
    return tensor_over(b->ctx, &source->info, whole->storage,
                       whole->offset + (int64_t)source->offset, out_tensor);
}

static status_t convert_constant(build_t *b, const tensor_t *tensor, const tensor_info_t *want,
                                 const kernel_t *kernel, tensor_t **out_settled)
{
    if (kernel == NULL) return convert_to(b->ctx, tensor, want, CAUSE_WEIGHT, out_settled);
    storage_set_constant(tensor->storage, (kernel->flags & KERNEL_IS_STORED) != 0);
    TRY(pack_weight(b->ctx, kernel, tensor, want, out_settled));
    b->plan->weight_bytes += info_bytes(want);
    return STATUS_OK;
}

/* Converts a constant once, while building: a weight to the packed format that `kernel` reads,
 * another operand (kernel NULL) to the given format. If the result shares the graph's bytes, which
 * may be written, the plan's snapshot of them is used instead. */
static status_t settle_constant(build_t *b, plan_source_t *source, const tensor_info_t *want,
                                const kernel_t *kernel)
{
    tensor_t *tensor = NULL, *settled = NULL;
    TRY(constant_view(b, source, &tensor));
    status_t status = convert_constant(b, tensor, want, kernel, &settled);
    tensor_t *snapshot = b->plan->roots[source->root].snapshot;
    if (status == STATUS_OK && settled->storage == tensor->storage) {
        tensor_t *own = settled;
        status = tensor_over(b->ctx, &own->info, snapshot->storage, own->offset, &settled);
        tensor_drop(own);
    }
    TRY_OR(status, tensor_drop(tensor));
    *source = (plan_source_t){
        .kind = SOURCE_TENSOR, .tensor = settled, .given = tensor, .info = *want};
    return STATUS_OK;
}

static status_t input_source(build_t *b, const graph_node_t *node, const prepared_t *prepared,
                             int input, plan_source_t *out)
{
    const tensor_info_t *want = &prepared->in[input];
    *out = (plan_source_t){.kind = SOURCE_NONE};
    if (node->inputs[input] < 0) return STATUS_OK;
    plan_source_t source = b->slots[node->inputs[input]].source;
    bool is_weight = select_operand(node->op, input)->role == ROLE_WEIGHT;
    if (source.kind == SOURCE_PARAMETER) {
        *out = source;
        TRY(plan_keep_info(b->ctx, b->plan, want, &out->want));
        out->is_weight = is_weight;
        out->kernel = prepared->kernel;
        return STATUS_OK;
    }
    if (source.kind == SOURCE_ROOT && b->plan->roots[source.root].kind == ROOT_CONSTANT &&
        (is_weight || !format_same(&source.info.format, &want->format, want->sizes))) {
        TRY(settle_constant(b, &source, want, is_weight ? prepared->kernel : NULL));
        *out = source;
        return STATUS_OK;
    }
    return convert_source(b, &source, want, pack_of(prepared->kernel, want), node->path, out);
}

/* True if no node after this one reads the source, so that this node may overwrite it. */
static bool dies_here(const build_t *b, const graph_node_t *node, const plan_source_t *source)
{
    if (source->kind != SOURCE_ROOT || source->offset != 0 ||
        b->plan->roots[source->root].kind != ROOT_ARENA ||
        b->plan->roots[source->root].last_node > b->node)
        return false;
    int uses = 0;
    for (int i = 0; i < node->n_inputs; i++)
        if (node->inputs[i] >= 0 && b->slots[node->inputs[i]].source.kind == SOURCE_ROOT)
            uses += b->slots[node->inputs[i]].source.root == source->root;
    return uses <= 1;
}

static bool lie_alike(const tensor_info_t *a, const tensor_info_t *b)
{
    return a->dtype == b->dtype && a->layout == b->layout &&
           shape_equal(a->rank, a->sizes, b->rank, b->sizes) &&
           format_same(&a->format, &b->format, a->sizes);
}

/* The input whose buffer output 0 reuses, or -1. If the kernel can overwrite only its first input,
 * swaps the operands of a commutative operator where that helps. */
static int find_overwritten(const build_t *b, const graph_node_t *node, step_t *step, int *out_root)
{
    const prepared_t *prepared = step->prepared;
    for (int i = 0; i < prepared->n_in; i++) {
        bool may_be = i == prepared->sum_operand || (prepared->overwrites >> i & 1) != 0;
        bool swaps = !may_be && i == 1 && (prepared->overwrites & 1) != 0 &&
                     (prepared->op->traits & TRAIT_COMMUTATIVE) != 0 &&
                     lie_alike(&prepared->in[0], &prepared->in[1]);
        if ((!may_be && !swaps) || !lie_alike(&prepared->in[i], &prepared->out[0]) ||
            !dies_here(b, node, &step->sources[i]))
            continue;
        *out_root = step->sources[i].root;
        if (swaps) {
            plan_source_t first = step->sources[0];
            step->sources[0] = step->sources[1];
            step->sources[1] = first;
        }
        return i;
    }
    return -1;
}

static status_t place_outputs(build_t *b, const graph_node_t *node, step_t *step)
{
    const prepared_t *prepared = step->prepared;
    for (int i = 0; i < prepared->n_out; i++) {
        const tensor_info_t *info = &prepared->out[i];
        int root = 0;
        if (i == 0) step->view.overwrites = find_overwritten(b, node, step, &root);
        if (i > 0 || step->view.overwrites < 0) {
            TRY(add_root(b, ROOT_ARENA, info, &root));
            int now = (int)(step - b->plan->steps);
            b->plan->roots[root].first_step = b->plan->roots[root].last_step = now;
        }
        step->output_roots[i] = root;
        step->output_offsets[i] = 0;
        b->slots[node->outputs[i]].source = (plan_source_t){
            .kind = SOURCE_ROOT, .root = root, .info = *info};
    }
    return STATUS_OK;
}

/* True if the kernel may write directly to an in-place operator's target: output 0 and operand 0
 * have the target's format, and no other operand is known to use the target's buffer. Other
 * overlaps are checked at run time. */
static bool writes_target(const step_t *step, const plan_source_t *target)
{
    const prepared_t *prepared = step->prepared;
    const plan_source_t *first = &step->sources[0];
    bool is_there = first->kind == SOURCE_ROOT && first->root == target->root &&
                    first->offset == target->offset;
    for (int i = 1; i < step->n_sources; i++)
        is_there &= step->sources[i].kind != SOURCE_ROOT || step->sources[i].root != target->root;
    return is_there && (prepared->overwrites & 1) != 0 &&
           lie_alike(&prepared->in[0], &prepared->out[0]) &&
           lie_alike(&target->info, &prepared->out[0]);
}

static status_t place_in_place(build_t *b, const graph_node_t *node, step_t *step)
{
    const plan_source_t target = b->slots[node->inputs[0]].source;
    b->slots[node->outputs[0]].source = target;
    step->view.overwrites = -1;
    if (writes_target(step, &target)) {
        step->view.overwrites = 0;
        step->is_in_place = true;
        step->output_roots[0] = target.root;
        step->output_offsets[0] = target.offset;
        touch(b, step);
        return STATUS_OK;
    }
    const tensor_info_t made = step->prepared->out[0];
    int root = 0;
    TRY(add_root(b, ROOT_ARENA, &made, &root));
    b->plan->roots[root].first_step = (int)(step - b->plan->steps);
    step->output_roots[0] = root;
    touch(b, step);
    TRY(add_step(b, 1, 1, &step));
    step->view = (plan_step_t){.name = "copy", .path = node->path, .overwrites = -1};
    step->is_in_place = true;
    step->sources[0] = (plan_source_t){.kind = SOURCE_ROOT, .root = root, .info = made};
    step->output_roots[0] = target.root;
    step->output_offsets[0] = target.offset;
    TRY(plan_keep_info(b->ctx, b->plan, &made, &step->from));
    TRY(plan_keep_info(b->ctx, b->plan, &target.info, &step->to));
    step->cause = CAUSE_USER;
    touch(b, step);
    return convert_settle(b->ctx, step->from, step->to, &step->reorder);
}

static status_t alias_outputs(build_t *b, const graph_node_t *node, const prepared_t *prepared,
                              const plan_source_t *source)
{
    for (int i = 0; i < prepared->n_out; i++) {
        slot_t *slot = &b->slots[node->outputs[i]];
        slot->source = *source;
        slot->source.offset += (size_t)prepared->offset[i] * dtype_size(prepared->out[i].dtype);
        slot->source.info = prepared->out[i];
    }
    return STATUS_OK;
}

static status_t build_sources(build_t *b, const graph_node_t *node, const prepared_t *prepared,
                              plan_source_t *sources)
{
    for (int i = 0; i < node->n_inputs; i++) {
        status_t status = input_source(b, node, prepared, i, &sources[i]);
        if (status == STATUS_OK) continue;
        for (int k = 0; k < i; k++) plan_source_clear(&sources[k]);
        return status;
    }
    return STATUS_OK;
}

/* Fails if a view of shared bytes needs a conversion, since the copy would not share the bytes. */
static status_t check_view(build_t *b, const graph_node_t *node, const prepared_t *prepared)
{
    const tensor_info_t *base = &b->slots[node->inputs[0]].source.info;
    if (share_of(b, node->inputs[0]) != PLAN_ALONE &&
        (base->layout != LAYOUT_DENSE || !lie_alike(base, &prepared->in[0])))
        FAIL(b->ctx, STATUS_UNSUPPORTED, "plan: a view of %s, which is shared", info_brief(base));
    return STATUS_OK;
}

/* Converts shared results to dense if views share them or if their type is dense. */
static status_t share_outputs(build_t *b, const graph_node_t *node)
{
    for (int i = 0; i < node->n_outputs; i++) {
        plan_share_t share = share_of(b, node->outputs[i]);
        plan_source_t *source = &b->slots[node->outputs[i]].source;
        const tensor_info_t *said = said_info(b, node->outputs[i]);
        bool is_dense = share == PLAN_VIEWED || said == NULL || said->layout == LAYOUT_DENSE;
        if (share == PLAN_ALONE || source->info.layout == LAYOUT_DENSE || !is_dense) continue;
        const tensor_info_t *info = &source->info;
        tensor_info_t dense = info_dense(info->dtype, info->rank, info->sizes);
        plan_source_t blocked = *source;
        TRY(convert_source(b, &blocked, &dense, NULL, node->path, source));
    }
    return STATUS_OK;
}

/* A view of a parameter adds no step: each step that reads the view makes the view at run time. */
static status_t build_view(build_t *b, const graph_node_t *node, const prepared_t *prepared)
{
    plan_source_t source = b->slots[node->inputs[0]].source;
    if (source.kind != SOURCE_PARAMETER) {
        TRY(check_view(b, node, prepared));
        TRY(input_source(b, node, prepared, 0, &source));
        return alias_outputs(b, node, prepared, &source);
    }
    if (source.is_view && !lie_alike(source.view, &prepared->in[0]))
        FAIL(b->ctx, STATUS_UNSUPPORTED, "plan: %s of a view of %s in another format",
             node->op->name, b->plan->parameters[source.parameter].path);
    if (!source.is_view) TRY(plan_keep_info(b->ctx, b->plan, &prepared->in[0], &source.base));
    source.is_view = true;
    TRY(alias_outputs(b, node, prepared, &source));
    for (int i = 0; i < prepared->n_out; i++)
        TRY(plan_keep_info(b->ctx, b->plan, &prepared->out[i],
                           &b->slots[node->outputs[i]].source.view));
    return STATUS_OK;
}

static status_t build_prepared(build_t *b, const graph_node_t *node, prepared_t *prepared)
{
    plan_source_t sources[OP_MAX_INPUTS];
    if (prepared->is_view) return build_view(b, node, prepared);
    TRY(build_sources(b, node, prepared, sources));
    step_t *step = NULL;
    status_t status = add_step(b, node->n_inputs, prepared->n_out, &step);
    if (status != STATUS_OK) {
        for (int i = 0; i < node->n_inputs; i++) plan_source_clear(&sources[i]);
        return status;
    }
    memcpy(step->sources, sources, (size_t)node->n_inputs * sizeof *sources);
    step->prepared = prepared_retain(prepared);
    step->view = (plan_step_t){.node = node,
                               .prepared = prepared,
                               .name = node->op->name,
                               .path = node->path,
                               .n_in = node->n_inputs,
                               .inputs = node->inputs};
    if (node->is_in_place) return place_in_place(b, node, step);
    TRY(place_outputs(b, node, step));
    touch(b, step);
    return share_outputs(b, node);
}

/* Builds an in-place operator such as add_(%a, %b), whose result overwrites operand 0. If the
 * kernel can overwrite this operand, it does so directly. Otherwise it writes to the arena, and a
 * second step copies the result. */
static status_t build_in_place(build_t *b, const graph_node_t *node, prepared_t *prepared)
{
    const plan_source_t target = b->slots[node->inputs[0]].source;
    const tensor_info_t *made = &prepared->out[0];
    bool is_ours = target.kind == SOURCE_ROOT && share_of(b, node->inputs[0]) != PLAN_ALONE &&
                   b->plan->roots[target.root].kind != ROOT_CONSTANT;
    bool fits = prepared->n_out == 1 && made->dtype == target.info.dtype &&
                shape_equal(made->rank, made->sizes, target.info.rank, target.info.sizes) &&
                !plan_overlaps_itself(&target.info);
    if (!is_ours || !fits)
        FAIL(b->ctx, STATUS_UNSUPPORTED, "plan: %s_ of %s returns %s", node->op->name,
             info_brief(&target.info), info_brief(made));
    if (prepared->is_view)
        FAIL(b->ctx, STATUS_UNSUPPORTED, "plan: %s_ writes nothing", node->op->name);
    b->plan->roots[target.root].is_written = true;
    return build_prepared(b, node, prepared);
}

/* A conversion of a parameter adds no step: the step that reads the parameter converts it. */
static status_t build_conversion(build_t *b, const graph_node_t *node, bool *out_done)
{
    const tensor_info_t *said = said_info(b, node->outputs[0]);
    plan_source_t source = b->slots[node->inputs[0]].source;
    *out_done = said != NULL && (source.kind == SOURCE_ROOT || source.kind == SOURCE_PARAMETER);
    if (!*out_done) return STATUS_OK;
    if (source.kind == SOURCE_PARAMETER) {
        source.info = *said;
        b->slots[node->outputs[0]].source = source;
        return STATUS_OK;
    }
    return convert_source(b, &source, said, NULL, node->path, &b->slots[node->outputs[0]].source);
}

static status_t build_op(build_t *b, const graph_node_t *node)
{
    for (int i = 0; i < node->n_inputs; i++)
        if (node->inputs[i] >= 0 && b->slots[node->inputs[i]].source.kind == SOURCE_NONE)
            FAIL(b->ctx, STATUS_UNSUPPORTED, "plan: input %d of %s is not a tensor", i,
                 node->op->name);
    if (graph_is_conversion(node->op)) {
        bool is_done = false;
        TRY(build_conversion(b, node, &is_done));
        if (is_done) return STATUS_OK;
    }
    prepared_t *prepared = NULL;
    TRY(select_node(b, node, &prepared));
    FINISH(node->is_in_place ? build_in_place(b, node, prepared)
                             : build_prepared(b, node, prepared),
           prepared_release(prepared));
}

/* ---- other nodes ---- */

/* Makes a number tensor. The caller owns *out_tensor, also on failure. */
static status_t number_tensor(context_t *ctx, const datum_t *datum, tensor_t **out_tensor)
{
    const bool is_float = datum_kind(datum) == DATUM_FLOAT;
    const dtype_t whole = datum_kind(datum) == DATUM_INT ? DTYPE_S64 : DTYPE_BOOL;
    tensor_info_t info = info_dense(is_float ? DTYPE_F64 : whole, 0, NULL);
    void *bytes = NULL;
    info.is_number = true;
    TRY(tensor_make(ctx, &info, out_tensor));
    TRY(tensor_writable(ctx, *out_tensor, &bytes));
    if (is_float)
        dtype_store(info.dtype, bytes, datum_as_float(datum));
    else
        dtype_store_integer(info.dtype, bytes, datum_as_int(datum));
    return STATUS_OK;
}

static status_t build_constant(build_t *b, const graph_node_t *node)
{
    slot_t *slot = &b->slots[node->outputs[0]];
    datum_kind_t kind = datum_kind(node->datum);
    if (kind == DATUM_TENSOR)
        return constant_source(b, datum_as_tensor(node->datum), &slot->source);
    if (kind != DATUM_INT && kind != DATUM_FLOAT && kind != DATUM_BOOL) return STATUS_OK;
    tensor_t *number = NULL;
    status_t status = number_tensor(b->ctx, node->datum, &number);
    if (status == STATUS_OK) status = constant_source(b, number, &slot->source);
    tensor_drop(number);
    return status;
}

static status_t add_parameter(build_t *b, const char *path, const tensor_info_t *info,
                              int *out_parameter)
{
    plan_t *plan = b->plan;
    for (int i = 0; i < plan->n_parameters; i++) {
        *out_parameter = i;
        if (strcmp(plan->parameters[i].path, path) == 0) return STATUS_OK;
    }
    TRY(context_grow(b->ctx, &plan->parameters, &b->parameters_capacity, plan->n_parameters + 1,
                     sizeof *plan->parameters));
    *out_parameter = plan->n_parameters++;
    plan->parameters[*out_parameter] = (plan_parameter_t){path, *info};
    return STATUS_OK;
}

static status_t build_getattr(build_t *b, const graph_node_t *node)
{
    attribute_t attribute;
    slot_t *slot = &b->slots[node->outputs[0]];
    if (!b->slots[node->inputs[0]].is_module || b->plan->self == NULL ||
        !attribute_find(b->plan->self, node->name, &attribute))
        FAIL(b->ctx, STATUS_UNSUPPORTED,
             "plan: getattr of %s, only parameters of the module itself are supported", node->name);
    const tensor_t *tensor = attribute_tensor(&attribute);
    if (tensor == NULL) return STATUS_OK;
    int parameter = 0;
    TRY(add_parameter(b, node->name, &tensor->info, &parameter));
    slot->source = (plan_source_t){
        .kind = SOURCE_PARAMETER, .root = -1, .parameter = parameter, .info = tensor->info};
    return STATUS_OK;
}

/* Builds a setattr: the attribute uses the value's buffer, which must be outside of the arena. */
static status_t build_setattr(build_t *b, const graph_node_t *node)
{
    const plan_source_t *value = &b->slots[node->inputs[1]].source;
    if (b->shares == NULL || !b->slots[node->inputs[0]].is_module || value->kind != SOURCE_ROOT ||
        b->plan->roots[value->root].kind == ROOT_CONSTANT)
        FAIL(b->ctx, STATUS_UNSUPPORTED, "plan: setattr of %s", node->name);
    step_t *step = NULL;
    TRY(add_step(b, 1, 0, &step));
    step->view = (plan_step_t){.name = "setattr", .overwrites = -1};
    step->attribute = node->name;
    step->sources[0] = *value;
    TRY(plan_keep_info(b->ctx, b->plan, &value->info, &step->from));
    plan_root_t *root = &b->plan->roots[value->root];
    if (root->kind == ROOT_ARENA) root->kind = ROOT_OUTPUT;
    touch(b, step);
    return STATUS_OK;
}

static status_t argument_source(build_t *b, const graph_node_t *node, int input, plan_source_t *out)
{
    const value_t value = node->inputs[input];
    *out = value >= 0 ? b->slots[value].source : (plan_source_t){.kind = SOURCE_NONE};
    datum_t *constant = value >= 0 ? graph_constant(b->graph, value) : NULL;
    if (constant != NULL && datum_kind(constant) != DATUM_TENSOR)
        *out = (plan_source_t){.kind = SOURCE_DATUM, .datum = constant};
    if (out->kind != SOURCE_ROOT && out->kind != SOURCE_DATUM)
        FAIL(b->ctx, STATUS_UNSUPPORTED, "plan: operand %d of a call of %s, must be computed",
             input, node->name);
    return STATUS_OK;
}

static status_t build_call(build_t *b, const graph_node_t *node)
{
    if (!b->calls || !b->slots[node->inputs[0]].is_module || node->n_outputs > 0)
        FAIL(b->ctx, STATUS_UNSUPPORTED, "plan: %s is not an operator", node->name);
    step_t *step = NULL;
    TRY(add_step(b, node->n_inputs - 1, 0, &step));
    step->view = (plan_step_t){.name = "call", .overwrites = -1};
    step->method = node->name;
    step->first_argument = b->plan->n_arguments;
    b->plan->n_arguments += step->n_sources;
    for (int i = 0; i < step->n_sources; i++)
        TRY(argument_source(b, node, i + 1, &step->sources[i]));
    touch(b, step);
    return STATUS_OK;
}

static status_t build_node(build_t *b, const graph_node_t *node)
{
    if (node->is_in_place && b->shares == NULL)
        FAIL(b->ctx, STATUS_UNSUPPORTED, "plan: %s_ writes in place", node->op->name);
    switch (node->kind) {
    case NODE_OP: return build_op(b, node);
    case NODE_CONSTANT: return build_constant(b, node);
    case NODE_GETATTR: return build_getattr(b, node);
    case NODE_SETATTR: return build_setattr(b, node);
    case NODE_CALL: return build_call(b, node);
    case NODE_IF: FAIL(b->ctx, STATUS_UNSUPPORTED, "plan: if is control flow");
    case NODE_LOOP: FAIL(b->ctx, STATUS_UNSUPPORTED, "plan: loop is control flow");
    default: FAIL(b->ctx, STATUS_UNSUPPORTED, "plan: %s is not an operator", node->name);
    }
}

/* Records for the values' buffers the last node that reads any value in the buffer. */
static void note_last_uses(build_t *b, int n, const value_t *values)
{
    for (int i = 0; i < n; i++) {
        const plan_source_t *source = &b->slots[values[i]].source;
        if (source->kind != SOURCE_ROOT) continue;
        plan_root_t *root = &b->plan->roots[source->root];
        const int last = b->lifetimes->last_use[values[i]];
        if (last > root->last_node) root->last_node = last;
    }
}

/* ---- parameters and results ---- */

static status_t build_params(build_t *b)
{
    const graph_block_t *body = graph_body(b->graph);
    plan_t *plan = b->plan;
    TRY(context_get_zeroed(b->ctx, (size_t)body->n_params * sizeof *plan->inputs, "a plan",
                           &plan->inputs));
    for (int i = 0; i < body->n_params; i++) {
        slot_t *slot = &b->slots[body->params[i]];
        const graph_type_t *type = graph_value_type(b->graph, body->params[i]);
        if (type->kind == TYPE_MODULE) {
            slot->is_module = true;
            continue;
        }
        const tensor_info_t *info = said_info(b, body->params[i]);
        if (info == NULL || !type_is_static(type))
            FAIL(b->ctx, STATUS_UNSUPPORTED, "plan: the shape of parameter %s is not known",
                 graph_value_name(b->graph, body->params[i]));
        tensor_info_t taken = info_dense(info->dtype, info->rank, info->sizes);
        if (info->format.kind == FORMAT_TAG || info->format.kind == FORMAT_STRIDED) taken = *info;
        int root = 0;
        TRY(add_root(b, ROOT_INPUT, &taken, &root));
        plan->roots[root].index = plan->n_inputs;
        plan->roots[root].is_shared = share_of(b, body->params[i]) != PLAN_ALONE;
        plan->inputs[plan->n_inputs++] = taken;
        slot->source = (plan_source_t){.kind = SOURCE_ROOT, .root = root, .info = taken};
    }
    return STATUS_OK;
}

/* The format of a result: dense; in a region, as its type says; shared bytes keep their format. */
static tensor_info_t result_info(const build_t *b, value_t value, const tensor_info_t *made)
{
    const tensor_info_t *said = b->shares != NULL ? said_info(b, value) : NULL;
    if (share_of(b, value) != PLAN_ALONE) return *made;
    if (said != NULL && said->layout == LAYOUT_MKLDNN) return *made;
    if (made->layout == LAYOUT_DENSE) return *made;
    return info_dense(made->dtype, made->rank, made->sizes);
}

/* A result in the arena becomes a separate output tensor. */
static status_t build_results(build_t *b)
{
    const graph_block_t *body = graph_body(b->graph);
    plan_t *plan = b->plan;
    TRY(context_get_zeroed(b->ctx, (size_t)body->n_results * sizeof *plan->results, "a plan",
                           &plan->results));
    for (int i = 0; i < body->n_results; i++) {
        value_t value = body->results[i];
        if (value < 0 || b->slots[value].source.kind != SOURCE_ROOT)
            FAIL(b->ctx, STATUS_UNSUPPORTED, "plan: result %d, must be a computed tensor", i);
        plan_source_t source = b->slots[value].source;
        tensor_info_t given = result_info(b, value, &source.info);
        if (given.layout != source.info.layout)
            TRY(convert_source(b, &b->slots[value].source, &given, NULL, NULL, &source));
        plan_root_t *root = &plan->roots[source.root];
        if (root->kind == ROOT_ARENA) root->kind = ROOT_OUTPUT;
        plan->results[plan->n_results++] = (plan_result_t){
            .root = source.root,
            .offset = source.offset,
            .info = source.info,
            .is_whole = root->kind == ROOT_OUTPUT && source.offset == 0 &&
                        info_identical(&root->info, &source.info)};
    }
    return STATUS_OK;
}

static status_t build_all(build_t *b)
{
    const graph_block_t *body = graph_body(b->graph);
    size_t n_values = (size_t)graph_n_values(b->graph);
    TRY(context_get_zeroed(b->ctx, n_values * sizeof *b->slots, "a plan", &b->slots));
    TRY(lifetimes_of(b->ctx, b->graph, &b->lifetimes));
    TRY(build_params(b));
    note_last_uses(b, body->n_params, body->params);
    for (b->node = 0; b->node < body->n_nodes; b->node++) {
        TRY(build_node(b, body->nodes[b->node]));
        note_last_uses(b, body->nodes[b->node]->n_outputs, body->nodes[b->node]->outputs);
        TRY(interrupt_tell(b->ctx, "plan", b->node + 1, body->n_nodes));
    }
    TRY(build_results(b));
    TRY(plan_slice(b->ctx, b->plan, &b->roots_capacity));
    TRY(plan_join(b->ctx, b->plan, &b->roots_capacity));
    plan_keep_sliced(b->plan);
    TRY(plan_band(b->ctx, b->plan));
    TRY(plan_add_passing_forms(b->ctx, b->plan, b->n_masters, b->masters, &b->roots_capacity));
    TRY(plan_add_scratch(b->ctx, b->plan, &b->roots_capacity));
    TRY(plan_place(b->ctx, b->plan));
    for (int s = 0; s < b->plan->n_steps; s++)
        if (b->plan->steps[s].n_outputs > 0)
            b->plan->steps[s].view.arena_offset =
                b->plan->roots[b->plan->steps[s].output_roots[0]].offset +
                b->plan->steps[s].output_offsets[0];
    return STATUS_OK;
}

/* Creates the plan. The caller has set shares, calls and masters of `build`. */
static status_t create(context_t *ctx, const graph_t *graph, module_t *self, build_t *build,
                       plan_t **out_plan)
{
    plan_t *plan = NULL;
    TRY(context_get_zeroed(ctx, sizeof *plan, "a plan", &plan));
    atomic_init(&plan->n_references, 1);
    plan->allocator = *context_allocator(ctx);
    plan->n_threads = context_threads(ctx);
    plan->graph = graph_retain((graph_t *)(uintptr_t)graph);
    plan->self = self;
    pthread_mutex_init(&plan->lock, NULL);
    build->ctx = ctx;
    build->graph = graph;
    build->plan = plan;
    status_t status = arenas_create(ctx, &plan->arenas);
    if (status == STATUS_OK) status = build_all(build);
    context_put(ctx, build->slots);
    GIVE(status, out_plan, plan, plan_release(plan));
}

status_t plan_create(context_t *ctx, const graph_t *graph, module_t *self, plan_t **out_plan)
{
    build_t build = {0};
    TRY(context_output(ctx, "plan_create", out_plan));
    if (graph == NULL) return context_null(ctx, "plan_create", "graph");
    return create(ctx, graph, self, &build, out_plan);
}

status_t plan_create_region(context_t *ctx, const graph_t *graph, module_t *self,
                            const plan_share_t *shares, plan_t **out_plan)
{
    build_t build = {.shares = shares};
    return create(ctx, graph, self, &build, out_plan);
}

status_t plan_create_calling(context_t *ctx, const graph_t *graph, module_t *self,
                             const plan_share_t *shares, int n_masters,
                             const plan_master_t *masters, plan_t **out_plan)
{
    build_t build = {.shares = shares, .calls = true, .n_masters = n_masters, .masters = masters};
    return create(ctx, graph, self, &build, out_plan);
}
