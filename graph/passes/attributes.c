#include <stdio.h>
#include <string.h>

#include "graph/attribute_impl.h"
#include "graph/pass_impl.h"
#include "graph/passes/alias_impl.h"
#include "tensor/context_impl.h"
#include "tensor/tensor_impl.h"

/* First what changes is found, in this graph and in all graph methods below self: attributes that
 * are set, those whose value is written in place, and the bytes of the latter, which other
 * attributes may share. Every other getattr below self becomes a constant. */

#define NAME_MAX_BYTES 256

/* An attribute that stays; name NULL: all of the module's. */
typedef struct kept {
    const module_t *owner;
    const char *name;
} kept_t;

typedef struct freezing {
    context_t *ctx;
    const graph_t *graph; /* the one looked at */
    module_t **objects;   /* for each value of it, the module it is, or NULL */
    const alias_t *alias;
    kept_t *kept;
    int n_kept, kept_capacity;
    const storage_t **written;
    int n_written, written_capacity;
    int n_done;
} freezing_t;

/* ---- what stays ---- */

static status_t keep(freezing_t *freezing, const module_t *owner, const char *name)
{
    TRY(context_grow(freezing->ctx, &freezing->kept, &freezing->kept_capacity, freezing->n_kept + 1,
                     sizeof *freezing->kept));
    freezing->kept[freezing->n_kept++] = (kept_t){owner, name};
    return STATUS_OK;
}

static status_t keep_module(context_t *ctx, void *user, const char *path, module_t *module)
{
    (void)ctx;
    (void)path;
    return keep(user, module, NULL);
}

static status_t keep_bytes(freezing_t *freezing, const tensor_t *tensor)
{
    TRY(context_grow(freezing->ctx, &freezing->written, &freezing->written_capacity,
                     freezing->n_written + 1, sizeof *freezing->written));
    freezing->written[freezing->n_written++] = tensor->storage;
    return STATUS_OK;
}

static bool is_kept(const freezing_t *freezing, const attribute_t *attribute)
{
    for (int i = 0; i < freezing->n_kept; i++) {
        const kept_t *kept = &freezing->kept[i];
        if ((kept->owner == NULL || kept->owner == attribute->owner) &&
            (kept->name == NULL || strcmp(kept->name, attribute->name) == 0))
            return true;
    }
    const tensor_t *tensor = attribute_tensor(attribute);
    for (int i = 0; tensor != NULL && i < freezing->n_written; i++) {
        if (freezing->written[i] == tensor->storage) return true;
    }
    return false;
}

/* ---- what changes ---- */

static module_t *object_of(const freezing_t *freezing, const graph_node_t *node)
{
    return node->n_inputs > 0 && node->inputs[0] >= 0 ? freezing->objects[node->inputs[0]] : NULL;
}

static status_t note_getattr(freezing_t *freezing, const graph_node_t *node)
{
    attribute_t attribute;
    module_t *object = object_of(freezing, node);
    if (object == NULL || !attribute_find(object, node->name, &attribute)) return STATUS_OK;
    if (attribute.kind == MEMBER_CHILD) {
        freezing->objects[node->outputs[0]] = module_child(attribute.owner, attribute.name);
        return STATUS_OK;
    }
    if (!alias_is_mutated(freezing->alias, node->outputs[0])) return STATUS_OK;
    TRY(keep(freezing, attribute.owner, attribute.name));
    const tensor_t *tensor = attribute_tensor(&attribute);
    return tensor != NULL ? keep_bytes(freezing, tensor) : STATUS_OK;
}

/* What is set on a module we cannot name stays wherever it has that name. */
static status_t note_setattr(freezing_t *freezing, const graph_node_t *node)
{
    attribute_t attribute;
    module_t *object = object_of(freezing, node);
    if (object != NULL && attribute_find(object, node->name, &attribute))
        return keep(freezing, attribute.owner, attribute.name);
    const char *dot = strrchr(node->name, '.');
    return object != NULL ? STATUS_OK : keep(freezing, NULL, dot != NULL ? dot + 1 : node->name);
}

/* Graph methods below self are looked at themselves; other ones may change what they like. */
static status_t note_call(freezing_t *freezing, const graph_node_t *node)
{
    module_t *object = object_of(freezing, node);
    if (object == NULL) return keep(freezing, NULL, NULL);
    if (graph_of(object, node->name) != NULL) return STATUS_OK;
    return module_walk(freezing->ctx, object, keep_module, freezing);
}

static status_t note_node(void *user, const graph_node_t *node)
{
    switch (node->kind) {
    case NODE_GETATTR: return note_getattr(user, node);
    case NODE_SETATTR: return note_setattr(user, node);
    case NODE_CALL: return note_call(user, node);
    default: return STATUS_OK;
    }
}

/* Fills freezing->objects for the graph, too; the caller puts them back. */
static status_t note_graph(freezing_t *freezing, const graph_t *graph, module_t *self)
{
    alias_t alias;
    TRY(context_get_zeroed(freezing->ctx, (size_t)graph_n_values(graph) * sizeof *freezing->objects,
                           "modules of values", &freezing->objects));
    TRY(alias_analyze(freezing->ctx, graph, &alias));
    freezing->graph = graph;
    freezing->alias = &alias;
    const graph_block_t *body = graph_body(graph);
    if (body->n_params > 0 && graph_value_type(graph, body->params[0])->kind == TYPE_MODULE)
        freezing->objects[body->params[0]] = self;
    status_t status = rewrite_visit(body, note_node, freezing);
    freezing->alias = NULL;
    alias_clear(&alias);
    return status;
}

static status_t note_methods(context_t *ctx, void *user, const char *path, module_t *module)
{
    (void)path;
    freezing_t *freezing = user;
    status_t status = STATUS_OK;
    for (int i = 0; i < module_n_members(module) && status == STATUS_OK; i++) {
        member_kind_t kind;
        const char *name = module_member(module, i, &kind);
        const graph_t *graph = kind == MEMBER_METHOD ? graph_of(module, name) : NULL;
        if (graph == NULL) continue;
        status = note_graph(freezing, graph, module);
        context_put(ctx, freezing->objects);
        freezing->objects = NULL;
    }
    return status;
}

static status_t note_wishes(freezing_t *freezing, module_t *self, const char *const *paths)
{
    for (; paths != NULL && *paths != NULL; paths++) {
        attribute_t attribute;
        if (!attribute_find(self, *paths, &attribute)) continue;
        if (attribute.kind == MEMBER_CHILD)
            TRY(module_walk(freezing->ctx, module_child(attribute.owner, attribute.name),
                            keep_module, freezing));
        else
            TRY(keep(freezing, attribute.owner, attribute.name));
    }
    return STATUS_OK;
}

/* ---- constants ---- */

/* "%7" of "layer1.conv1.weight" gives "7.weight", and "%weight" stays. */
static void name_constant(const rewrite_t *rewrite, const graph_node_t *node, char *out_name)
{
    const char *value = graph_value_name(rewrite->from, node->outputs[0]);
    const char *dot = strrchr(node->name, '.');
    const char *own = dot != NULL ? dot + 1 : node->name;
    if (strcmp(value, own) == 0)
        snprintf(out_name, NAME_MAX_BYTES, "%s", own);
    else
        snprintf(out_name, NAME_MAX_BYTES, "%s.%s", value, own);
}

static status_t add_constant(rewrite_t *rewrite, const graph_node_t *node, datum_t *datum)
{
    if (datum_kind(datum) == DATUM_NONE &&
        rewrite_feeds_operators(rewrite->from, node->outputs[0])) {
        rewrite_map(rewrite, node->outputs[0], GRAPH_NONE);
        return STATUS_OK;
    }
    char name[NAME_MAX_BYTES];
    name_constant(rewrite, node, name);
    datum_t *copy = NULL;
    TRY(attribute_copy(rewrite->ctx, datum, &copy));
    rewrite_map(rewrite, node->outputs[0], graph_add_constant(rewrite->to, copy, name));
    datum_release(copy);
    return STATUS_OK;
}

static bool is_frozen(const freezing_t *freezing, const graph_node_t *node)
{
    if (node->kind != NODE_GETATTR) return false;
    attribute_t attribute;
    module_t *object = object_of(freezing, node);
    if (object == NULL || !attribute_find(object, node->name, &attribute)) return false;
    return attribute.kind != MEMBER_CHILD && attribute.kind != MEMBER_METHOD &&
           !is_kept(freezing, &attribute);
}

static status_t freeze_node(rewrite_t *rewrite, const graph_node_t *node, bool *out_done)
{
    const freezing_t *freezing = rewrite->user;
    *out_done = is_frozen(freezing, node);
    if (!*out_done) return STATUS_OK;
    datum_t *datum = NULL;
    module_t *child = NULL;
    TRY(attribute_get(rewrite->ctx, object_of(freezing, node), node->name, &datum, &child));
    status_t status = add_constant(rewrite, node, datum);
    datum_release(datum);
    return status;
}

static status_t count_frozen(void *user, const graph_node_t *node)
{
    freezing_t *freezing = user;
    freezing->n_done += is_frozen(freezing, node);
    return STATUS_OK;
}

status_t pass_attributes(context_t *ctx, const graph_t *graph, const pass_options_t *options,
                         graph_t **out_graph)
{
    if (options->self == NULL) return rewrite_nothing(graph, out_graph);
    freezing_t freezing = {.ctx = ctx};
    status_t status = module_walk(ctx, options->self, note_methods, &freezing);
    if (status == STATUS_OK) status = note_wishes(&freezing, options->self, options->keep);
    if (status == STATUS_OK) status = note_graph(&freezing, graph, options->self);
    if (status == STATUS_OK) (void)rewrite_visit(graph_body(graph), count_frozen, &freezing);
    if (status == STATUS_OK)
        status = freezing.n_done > 0 ? rewrite_graph(ctx, graph, freeze_node, &freezing, out_graph)
                                     : rewrite_nothing(graph, out_graph);
    context_put(ctx, freezing.objects);
    context_put(ctx, freezing.kept);
    context_put(ctx, freezing.written);
    return status;
}
