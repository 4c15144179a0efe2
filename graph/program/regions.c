/* Finds the regions of a graph. Builds a graph and a plan for each region. */
#include <string.h>

#include "dispatch/select_impl.h"
#include "graph/analysis/alias_impl.h"
#include "graph/analysis/attribute_impl.h"
#include "graph/analysis/lifetimes_impl.h"
#include "graph/ir/rewrite_impl.h"
#include "graph/program/plan_impl.h"
#include "graph/program/regions_impl.h"
#include "tensor/context_impl.h"
#include "tensor/scope_impl.h"
#include "tensor/tensor_impl.h"

#define VALUE_UNMAPPED (-2)

typedef struct finding {
    context_t *ctx;
    program_t *program;
    const graph_t *graph;
    module_t *self;
    const alias_t *alias;
    const lifetimes_t *lifetimes;
    module_t **objects; /* [n_values] the module that a value is; NULL: none, or not known */
    attribute_t *set;   /* attributes replaced by setattr */
    int n_set, set_capacity;
    bool sets_any; /* a call, or setattr on an unknown module, may replace any attribute */
    int capacity;
    int *uses;    /* [n_values] how many operators in regions use it */
    int *made_in; /* [n_values] number of the node range in which an operator produces it, or 0 */
    int n_stretches;
    /* [n_values] the value in the region's graph while it is built, else VALUE_UNMAPPED */
    value_t *map;
    const graph_node_t **setters; /* setattr nodes of the current range */
    int n_setters, setter_capacity;
} finding_t;

/* ---- nodes that can be part of a region ---- */

static status_t note_setters(void *user, const graph_node_t *node)
{
    finding_t *f = user;
    attribute_t place;
    if (node->kind != NODE_SETATTR) {
        f->sets_any |= node->kind == NODE_CALL;
        return STATUS_OK;
    }
    module_t *object = node->inputs[0] >= 0 ? f->objects[node->inputs[0]] : NULL;
    if (object == NULL || !attribute_place(object, node->name, &place)) {
        f->sets_any = true;
        return STATUS_OK;
    }
    TRY(context_grow(f->ctx, &f->set, &f->set_capacity, f->n_set + 1, sizeof *f->set));
    f->set[f->n_set++] = place;
    return STATUS_OK;
}

static bool is_set(const finding_t *f, const attribute_t *attribute)
{
    bool is_set = f->sets_any;
    for (int i = 0; i < f->n_set; i++)
        is_set |= f->set[i].owner == attribute->owner &&
                  strcmp(f->set[i].name, attribute->name) == 0;
    return is_set;
}

static bool is_self(const finding_t *f, value_t value)
{
    const graph_block_t *body = graph_body(f->graph);
    return body->n_params > 0 && value == body->params[0] &&
           graph_value_type(f->graph, value)->kind == TYPE_MODULE;
}

/* How the value's bytes are shared: with views or other values, or with an attribute. */
static plan_share_t share_of(const finding_t *f, value_t value)
{
    int class = alias_class(f->alias, value);
    if (class < 0) return PLAN_ALONE;
    if (alias_is_viewed(f->alias, value)) return PLAN_VIEWED;
    bool is_kept = f->alias->classes[class].keeper != NULL;
    return is_kept || alias_is_mutated(f->alias, value) ? PLAN_SHARED : PLAN_ALONE;
}

static bool is_number(const datum_t *datum)
{
    datum_kind_t kind = datum_kind(datum);
    return kind == DATUM_INT || kind == DATUM_FLOAT || kind == DATUM_BOOL;
}

/* True for a parameter of self whose tensor and elements do not change during the run. */
static bool is_parameter(const finding_t *f, const graph_node_t *node)
{
    attribute_t member;
    if (node->kind != NODE_GETATTR || f->self == NULL || !is_self(f, node->inputs[0]) ||
        share_of(f, node->outputs[0]) != PLAN_ALONE)
        return false;
    return attribute_find(f->self, node->name, &member) && member.kind == MEMBER_PARAMETER &&
           attribute_tensor(&member) != NULL && !is_set(f, &member);
}

/* True for values that are not inputs of a region, because its plan contains them or looks them
 * up. */
static bool is_constant(const finding_t *f, const graph_node_t *node)
{
    if (node == NULL) return false;
    if (node->kind != NODE_CONSTANT) return is_parameter(f, node);
    return is_number(node->datum) ||
           (datum_kind(node->datum) == DATUM_TENSOR && share_of(f, node->outputs[0]) == PLAN_ALONE);
}

static bool can_read(const finding_t *f, value_t value)
{
    return value < 0 || type_is_static(graph_value_type(f->graph, value)) ||
           is_constant(f, graph_producer(f->graph, value));
}

static bool is_static_tensor(const finding_t *f, value_t value)
{
    if (value < 0) return false;
    const graph_type_t *type = graph_value_type(f->graph, value);
    return type->kind == TYPE_TENSOR && type_is_static(type) && !type->is_optional;
}

/* True for operators whose types are all known. Excludes conversions of shared bytes: only a run
 * shows whether such a conversion returns the same tensor. */
static bool can_join_op(const finding_t *f, const graph_node_t *node)
{
    if (node->n_outputs == 0 || node->n_sized > 0) return false;
    bool is_shared = false;
    for (int i = 0; i < node->n_inputs; i++) {
        if (!can_read(f, node->inputs[i])) return false;
        is_shared |= share_of(f, node->inputs[i]) != PLAN_ALONE;
    }
    for (int i = 0; i < node->n_outputs; i++) {
        if (!is_static_tensor(f, node->outputs[i])) return false;
        is_shared |= share_of(f, node->outputs[i]) != PLAN_ALONE;
    }
    if (node->is_in_place) return node->n_outputs == 1 && is_static_tensor(f, node->inputs[0]);
    return !is_shared || !graph_is_conversion(node->op);
}

static bool can_join(const finding_t *f, const graph_node_t *node)
{
    if (node->kind == NODE_OP) return can_join_op(f, node);
    return node->kind == NODE_SETATTR && f->self != NULL && is_self(f, node->inputs[0]) &&
           is_static_tensor(f, node->inputs[1]) &&
           !is_constant(f, graph_producer(f->graph, node->inputs[1]));
}

static const char *last_name(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot != NULL ? dot + 1 : path;
}

/* True for a node inside a range that has the same result if it runs before the range. */
static bool can_run_before(const finding_t *f, const graph_node_t *node)
{
    if (node->kind == NODE_CONSTANT) return true;
    if (node->kind != NODE_GETATTR || !is_self(f, node->inputs[0])) return false;
    for (int i = 0; i < f->n_setters; i++)
        if (strcmp(last_name(f->setters[i]->name), last_name(node->name)) == 0) return false;
    return true;
}

/* ---- live-ins and live-outs ---- */

typedef struct values {
    value_t *items;
    int n, capacity;
} values_t;

static status_t add_value(context_t *ctx, values_t *values, value_t value)
{
    for (int i = 0; i < values->n; i++)
        if (values->items[i] == value) return STATUS_OK;
    TRY(context_grow(ctx, &values->items, &values->capacity, values->n + 1, sizeof(value_t)));
    values->items[values->n++] = value;
    return STATUS_OK;
}

static status_t find_borders(finding_t *f, region_t *region, values_t *in, values_t *out)
{
    int last = region->first + region->n_nodes - 1, stretch = ++f->n_stretches;
    for (int n = region->first; n <= last; n++) {
        const graph_node_t *node = region->block->nodes[n];
        if (!can_join(f, node)) continue;
        for (int i = 0; i < node->n_outputs; i++) f->made_in[node->outputs[i]] = stretch;
        for (int i = 0; i < node->n_inputs; i++) {
            value_t value = node->inputs[i];
            if (value >= 0 && f->made_in[value] != stretch && !is_self(f, value) &&
                !is_constant(f, graph_producer(f->graph, value)))
                TRY(add_value(f->ctx, in, value));
        }
        for (int i = 0; i < node->n_outputs; i++)
            if (f->lifetimes->last_use[node->outputs[i]] > last)
                TRY(add_value(f->ctx, out, node->outputs[i]));
    }
    return STATUS_OK;
}

/* ---- a region's own graph ---- */

static void map_value(finding_t *f, values_t *mapped, value_t old, value_t new_value)
{
    f->map[old] = new_value;
    mapped->items[mapped->n++] = old;
}

static void copy_node(finding_t *f, graph_builder_t *to, values_t *mapped, value_t self,
                      const graph_node_t *node)
{
    value_t inputs[OP_MAX_INPUTS], outputs[OP_MAX_OUTPUTS];
    const graph_type_t *types[OP_MAX_OUTPUTS];
    const char *names[OP_MAX_OUTPUTS];
    for (int i = 0; i < node->n_inputs; i++) {
        value_t old = node->inputs[i];
        inputs[i] = old < 0 ? VALUE_NONE : is_self(f, old) ? self : f->map[old];
    }
    for (int i = 0; i < node->n_outputs; i++) {
        types[i] = graph_value_type(f->graph, node->outputs[i]);
        names[i] = rewrite_name(f->graph, node->outputs[i]);
        outputs[i] = VALUE_NONE;
    }
    graph_add_node(to, node, inputs, types, names, outputs);
    for (int i = 0; i < node->n_outputs; i++) map_value(f, mapped, node->outputs[i], outputs[i]);
}

/* The type of a region's input. For shared bytes it is the type of the attribute's current tensor,
 * which may be blocked or strided although the graph's type does not say so. */
static graph_type_t live_in_type(const finding_t *f, value_t value)
{
    graph_type_t type = *graph_value_type(f->graph, value);
    const graph_node_t *node = graph_producer(f->graph, value);
    attribute_t member;
    const tensor_t *tensor = NULL;
    if (share_of(f, value) == PLAN_ALONE || node == NULL || node->kind != NODE_GETATTR ||
        f->self == NULL || !is_self(f, node->inputs[0]))
        return type;
    if (attribute_find(f->self, node->name, &member)) tensor = attribute_tensor(&member);
    if (tensor != NULL && tensor->info.dtype == type.info.dtype &&
        shape_equal(tensor->info.rank, tensor->info.sizes, type.info.rank, type.info.sizes))
        type.info = tensor->info;
    return type;
}

static void fill_graph(finding_t *f, graph_builder_t *to, values_t *mapped, const region_t *region)
{
    static const graph_type_t module = {.kind = TYPE_MODULE};
    value_t self = graph_add_param(to, "self", &module);
    for (int i = 0; i < region->n_in; i++) {
        const graph_type_t type = live_in_type(f, region->in[i]);
        map_value(f, mapped, region->in[i],
                  graph_add_param(to, rewrite_name(f->graph, region->in[i]), &type));
    }
    for (int n = 0; n < region->n_nodes; n++) {
        const graph_node_t *node = region->block->nodes[region->first + n];
        if (!can_join(f, node)) continue;
        for (int i = 0; i < node->n_inputs; i++) {
            value_t value = node->inputs[i];
            if (value >= 0 && !is_self(f, value) && f->map[value] == VALUE_UNMAPPED)
                copy_node(f, to, mapped, self, graph_producer(f->graph, value));
        }
        copy_node(f, to, mapped, self, node);
    }
}

static status_t find_shares(finding_t *f, const graph_t *graph, const values_t *mapped,
                            plan_share_t **out_shares)
{
    TRY(context_get_zeroed(f->ctx, (size_t)graph_n_values(graph) * sizeof **out_shares,
                           "values of a region", out_shares));
    for (int i = 0; i < mapped->n; i++)
        (*out_shares)[f->map[mapped->items[i]]] = share_of(f, mapped->items[i]);
    return STATUS_OK;
}

/* Builds the region's graph and shares. The caller frees the shares. */
static status_t make_graph(finding_t *f, const region_t *region, graph_t **out_graph,
                           plan_share_t **out_shares)
{
    context_t *ctx = f->ctx;
    graph_builder_t *to = NULL;
    values_t mapped = {0};
    value_t *results = NULL;
    status_t status = context_get(ctx, (size_t)region->n_out * sizeof *results, "results",
                                  &results);
    if (status == STATUS_OK)
        status = context_get(ctx, (size_t)graph_n_values(f->graph) * sizeof(value_t), "values",
                             &mapped.items);
    if (status == STATUS_OK) status = graph_builder_create(ctx, graph_name(f->graph), &to);
    if (status == STATUS_OK) {
        fill_graph(f, to, &mapped, region);
        for (int i = 0; i < region->n_out; i++) results[i] = f->map[region->out[i]];
        status = graph_finish(to, region->n_out, results, out_graph);
    }
    if (status == STATUS_OK) status = find_shares(f, *out_graph, &mapped, out_shares);
    for (int i = 0; i < mapped.n; i++) f->map[mapped.items[i]] = VALUE_UNMAPPED;
    graph_builder_destroy(to);
    CONTEXT_PUT(ctx, mapped.items, results);
    return status;
}

/* ---- node ranges ---- */

/* Plans a region. If no plan can run it, region->plan stays NULL, and its nodes run one by one. */
static status_t plan_region(finding_t *f, region_t *region)
{
    graph_t *graph = NULL;
    plan_share_t *shares = NULL;
    bool is_refused = false;
    status_t status = make_graph(f, region, &graph, &shares);
    if (status == STATUS_OK) {
        scope_attempt(f->ctx);
        status = plan_create_region(f->ctx, graph, f->self, shares, &region->plan);
        is_refused = status == STATUS_UNSUPPORTED;
        status = scope_attempt_end(f->ctx, status, is_refused);
    }
    context_put(f->ctx, shares);
    graph_release(graph);
    return is_refused ? STATUS_OK : status;
}

static void note_uses(finding_t *f, const region_t *region)
{
    for (int n = 0; n < region->n_nodes; n++) {
        const graph_node_t *node = region->block->nodes[region->first + n];
        for (int i = 0; node->kind == NODE_OP && i < node->n_inputs; i++)
            if (node->inputs[i] >= 0) f->uses[node->inputs[i]]++;
    }
}

static status_t add_region(finding_t *f, const region_t *region)
{
    program_t *program = f->program;
    TRY(context_grow(f->ctx, &program->regions, &f->capacity, program->n_regions + 1,
                     sizeof *program->regions));
    program->regions[program->n_regions++] = *region;
    note_uses(f, region);
    return STATUS_OK;
}

static bool has_effect(const finding_t *f, const region_t *region)
{
    for (int n = 0; n < region->n_nodes; n++) {
        const graph_node_t *node = region->block->nodes[region->first + n];
        if (can_join(f, node) && alias_has_effect(node)) return true;
    }
    return false;
}

/* Adds a range of nodes as a region. If it has too many results for one plan, splits it. */
static status_t add_stretch(finding_t *f, const graph_block_t *block, int first, int n_nodes)
{
    region_t region = {.block = block, .first = first, .n_nodes = n_nodes};
    values_t in = {0}, out = {0};
    status_t status = find_borders(f, &region, &in, &out);
    bool is_cut = status == STATUS_OK && out.n > METHOD_MAX_OUTPUTS && n_nodes > 1;
    region.in = in.items;
    region.n_in = in.n;
    region.out = out.items;
    region.n_out = out.n;
    bool is_useful = out.n > 0 || has_effect(f, &region);
    if (status == STATUS_OK && !is_cut && is_useful) status = plan_region(f, &region);
    if (status == STATUS_OK && region.plan != NULL) {
        status = add_region(f, &region);
        if (status == STATUS_OK) return STATUS_OK;
        plan_release(region.plan);
    }
    CONTEXT_PUT(f->ctx, in.items, out.items);
    if (!is_cut) return status;
    TRY(add_stretch(f, block, first, n_nodes / 2));
    return add_stretch(f, block, first + n_nodes / 2, n_nodes - n_nodes / 2);
}

/* Records a setattr node of the current range. */
static status_t note_joined(finding_t *f, const graph_node_t *node)
{
    if (node->kind != NODE_SETATTR) return STATUS_OK;
    TRY(context_grow(f->ctx, &f->setters, &f->setter_capacity, f->n_setters + 1,
                     sizeof *f->setters));
    f->setters[f->n_setters++] = node;
    return STATUS_OK;
}

/* For a node outside of regions: makes its constant weights cache packed copies for later runs. */
static void keep_packed(const finding_t *f, const graph_node_t *node)
{
    for (int i = 0; node->kind == NODE_OP && i < node->n_inputs; i++) {
        const graph_node_t *maker = graph_producer(f->graph, node->inputs[i]);
        if (maker != NULL && maker->kind == NODE_CONSTANT && is_constant(f, maker) &&
            datum_kind(maker->datum) == DATUM_TENSOR &&
            select_operand(node->op, i)->role == ROLE_WEIGHT)
            storage_set_packable(datum_as_tensor(maker->datum)->storage, true);
    }
}

/* Adds the regions of a block, then those of inner blocks. A node that can run before a range does
 * not end the range. */
static status_t look_at_block(finding_t *f, const graph_block_t *block)
{
    int first = -1, last = -1;
    for (int n = 0; n < block->n_nodes; n++) {
        const graph_node_t *node = block->nodes[n];
        if (can_join(f, node)) {
            if (first < 0) first = n;
            last = n;
            TRY(note_joined(f, node));
            continue;
        }
        keep_packed(f, node);
        if (can_run_before(f, node)) continue;
        if (first >= 0) TRY(add_stretch(f, block, first, last - first + 1));
        first = -1;
        f->n_setters = 0;
    }
    if (first >= 0) TRY(add_stretch(f, block, first, last - first + 1));
    f->n_setters = 0;
    for (int n = 0; n < block->n_nodes; n++)
        for (int b = 0; b < block->nodes[n]->n_blocks; b++)
            TRY(look_at_block(f, block->nodes[n]->blocks[b]));
    return STATUS_OK;
}

/* Lists the nodes inside a region that run before it. Constants and parameters that only plans read
 * are part of these plans. */
static status_t find_before(finding_t *f, region_t *region)
{
    int capacity = 0;
    for (int n = 0; n < region->n_nodes; n++) {
        const graph_node_t *node = region->block->nodes[region->first + n];
        if (can_join(f, node) ||
            (is_constant(f, node) &&
             f->uses[node->outputs[0]] == graph_n_uses(f->graph, node->outputs[0])))
            continue;
        TRY(context_grow(f->ctx, &region->before, &capacity, region->n_before + 1,
                         sizeof *region->before));
        region->before[region->n_before++] = node;
    }
    return STATUS_OK;
}

static status_t find_all(finding_t *f)
{
    size_t n = (size_t)graph_n_values(f->graph);
    TRY(alias_of(f->ctx, f->graph, &f->alias));
    TRY(lifetimes_of(f->ctx, f->graph, &f->lifetimes));
    TRY(context_get_zeroed(f->ctx, n * sizeof *f->uses, "uses of values", &f->uses));
    TRY(context_get_zeroed(f->ctx, n * sizeof *f->made_in, "stretches", &f->made_in));
    TRY(context_get(f->ctx, n * sizeof *f->map, "values of a region", &f->map));
    for (size_t i = 0; i < n; i++) f->map[i] = VALUE_UNMAPPED;
    TRY(attribute_objects(f->ctx, f->graph, f->self, &f->objects));
    TRY(rewrite_visit(graph_body(f->graph), note_setters, f));
    TRY(look_at_block(f, graph_body(f->graph)));
    for (int i = 0; i < f->program->n_regions; i++) TRY(find_before(f, &f->program->regions[i]));
    return STATUS_OK;
}

/* Finds the regions of each block, and the largest number of inputs of a region. */
static status_t settle_rows(finding_t *f)
{
    program_t *program = f->program;
    TRY(context_get_zeroed(f->ctx, (size_t)f->graph->n_blocks * sizeof *program->rows,
                           "regions of blocks", &program->rows));
    for (int i = 0; i < program->n_regions; i++) {
        const region_t *region = &program->regions[i];
        row_t *row = &program->rows[region->block->index];
        if (row->n++ == 0) row->first = i;
        if (region->n_in > program->most_inputs) program->most_inputs = region->n_in;
    }
    return STATUS_OK;
}

status_t regions_find(context_t *ctx, program_t *program, module_t *self)
{
    finding_t finding = {.ctx = ctx, .program = program, .graph = program->graph, .self = self};
    status_t status = find_all(&finding);
    if (status == STATUS_OK) status = settle_rows(&finding);
    CONTEXT_PUT(ctx, finding.objects, finding.set, finding.setters, finding.uses, finding.made_in,
                finding.map);
    return status;
}
