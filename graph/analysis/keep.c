#include "graph/analysis/keep_impl.h"

#include <string.h>

#include "graph/analysis/alias_impl.h"
#include "graph/ir/graph_impl.h"
#include "graph/ir/rewrite_impl.h"
#include "tensor/context_impl.h"
#include "tensor/tensor_impl.h"

/* All methods are analysed before any decision. The analysis makes two lists: attributes that must
 * stay, and the storages, lists and dicts that nodes may write through them. Any other attribute
 * that shares one of these must stay, too. If a node uses a module as a value (in a call, branch or
 * result), all attributes of the module stay, because its further use is unknown. */

/* The method being analysed. */
typedef struct look {
    keeping_t *keeping;
    const graph_t *graph;
    module_t **objects; /* for each value, the module that it is, or NULL */
    const alias_t *alias;
} look_t;

static status_t add(keeping_t *keeping, const kept_t *kept)
{
    TRY(context_grow(keeping->ctx, &keeping->kept, &keeping->kept_capacity, keeping->n_kept + 1,
                     sizeof *keeping->kept));
    keeping->kept[keeping->n_kept++] = *kept;
    return STATUS_OK;
}

/* ---- storages and containers ---- */

static status_t add_thing(keeping_t *keeping, const void *thing)
{
    TRY(context_grow(keeping->ctx, &keeping->things, &keeping->things_capacity,
                     keeping->n_things + 1, sizeof *keeping->things));
    keeping->things[keeping->n_things++] = (keep_thing_t){thing, keeping->n_kept - 1};
    return STATUS_OK;
}

static const void *thing_of(const datum_t *datum)
{
    datum_kind_t kind = datum_kind(datum);
    if (kind == DATUM_TENSOR) return datum_as_tensor(datum)->storage;
    return kind == DATUM_LIST || kind == DATUM_DICT ? datum : NULL;
}

static status_t add_datum(keeping_t *keeping, const datum_t *datum)
{
    const void *thing = thing_of(datum);
    if (thing != NULL) TRY(add_thing(keeping, thing));
    for (int i = 0; i < datum_length(datum); i++) TRY(add_datum(keeping, datum_item(datum, i)));
    return STATUS_OK;
}

/* Adds the storages and containers of the attribute added last. */
static status_t add_things(keeping_t *keeping, const attribute_t *attribute)
{
    if (attribute->kind == MEMBER_ATTRIBUTE)
        return add_datum(keeping, module_attribute(attribute->owner, attribute->name));
    const tensor_t *tensor = attribute_tensor(attribute);
    return tensor != NULL ? add_thing(keeping, tensor->storage) : STATUS_OK;
}

/* True if the datum is, or contains, something that can be written in place. */
static bool has_things(const datum_t *datum)
{
    bool has = thing_of(datum) != NULL;
    for (int i = 0; i < datum_length(datum) && !has; i++) has = has_things(datum_item(datum, i));
    return has;
}

static int find_thing(const keeping_t *keeping, const void *thing)
{
    for (int i = 0; i < keeping->n_things; i++)
        if (keeping->things[i].thing == thing) return keeping->things[i].because;
    return -1;
}

static int find_datum(const keeping_t *keeping, const datum_t *datum)
{
    const void *thing = thing_of(datum);
    int found = thing != NULL ? find_thing(keeping, thing) : -1;
    for (int i = 0; i < datum_length(datum) && found < 0; i++)
        found = find_datum(keeping, datum_item(datum, i));
    return found;
}

static int find_shared(const keeping_t *keeping, const attribute_t *attribute)
{
    if (attribute->kind == MEMBER_ATTRIBUTE)
        return find_datum(keeping, module_attribute(attribute->owner, attribute->name));
    const tensor_t *tensor = attribute_tensor(attribute);
    return tensor != NULL ? find_thing(keeping, tensor->storage) : -1;
}

/* ---- attributes that stay ---- */

static status_t add_attribute(keeping_t *keeping, const kept_t *why, const attribute_t *attribute)
{
    kept_t kept = *why;
    kept.owner = attribute->owner;
    kept.name = attribute->name;
    return add(keeping, &kept);
}

typedef struct spread {
    keeping_t *keeping;
    const kept_t *why;
} spread_t;

static status_t add_module(context_t *ctx, void *user, const char *path, module_t *module)
{
    (void)ctx, (void)path;
    const spread_t *spread = user;
    kept_t kept = *spread->why;
    kept.owner = module;
    kept.name = NULL;
    TRY(add(spread->keeping, &kept));
    for (int i = 0; i < module_n_members(module); i++) {
        attribute_t attribute = {.owner = module};
        attribute.name = module_member(module, i, &attribute.kind);
        TRY(add_things(spread->keeping, &attribute));
    }
    return STATUS_OK;
}

/* Adds the module and its descendants. */
static status_t add_whole(keeping_t *keeping, const kept_t *why, module_t *module)
{
    spread_t spread = {keeping, why};
    return module_walk(keeping->ctx, module, add_module, &spread);
}

static status_t add_named(context_t *ctx, void *user, const char *path, module_t *module)
{
    (void)ctx, (void)path;
    const spread_t *spread = user;
    attribute_t attribute;
    if (!attribute_find(module, spread->why->name, &attribute) || attribute.kind == MEMBER_METHOD ||
        attribute.kind == MEMBER_CHILD)
        return STATUS_OK;
    return add_things(spread->keeping, &attribute);
}

/* For an unknown module: adds the last name of the path for every module that has such a member. */
static status_t add_anywhere(keeping_t *keeping, const kept_t *why, const char *path)
{
    const char *dot = strrchr(path, '.');
    kept_t kept = *why;
    kept.owner = NULL;
    kept.name = dot != NULL ? dot + 1 : path;
    TRY(add(keeping, &kept));
    spread_t spread = {keeping, &kept};
    return module_walk(keeping->ctx, keeping->root, add_named, &spread);
}

/* ---- methods ---- */

/* Adds the containers and storages that are written. If a list is written, its contents are not
 * added for that reason. */
static status_t add_written(look_t *look, int class, const datum_t *datum)
{
    const alias_class_t *at = &look->alias->classes[alias_root(look->alias, class)];
    const void *thing = at->writer != NULL ? thing_of(datum) : NULL;
    if (thing != NULL) TRY(add_thing(look->keeping, thing));
    for (int i = 0; i < datum_length(datum) && at->contents >= 0; i++)
        TRY(add_written(look, at->contents, datum_item(datum, i)));
    return STATUS_OK;
}

static status_t look_at_getattr(look_t *look, const graph_node_t *node)
{
    attribute_t attribute;
    value_t value = node->outputs[0];
    kept_t why = {
        .reason = KEEP_WRITTEN, .graph = look->graph, .node = alias_writer(look->alias, value)};
    module_t *object = node->inputs[0] >= 0 ? look->objects[node->inputs[0]] : NULL;
    if (why.node == NULL || look->objects[value] != NULL) return STATUS_OK;
    if (object == NULL) return add_anywhere(look->keeping, &why, node->name);
    if (!attribute_find(object, node->name, &attribute)) return STATUS_OK;
    const datum_t *datum = attribute.kind == MEMBER_ATTRIBUTE
                               ? module_attribute(attribute.owner, attribute.name)
                               : NULL;
    if (datum != NULL && !has_things(datum)) return STATUS_OK;
    TRY(add_attribute(look->keeping, &why, &attribute));
    int class = alias_class(look->alias, value);
    return datum != NULL && class >= 0 ? add_written(look, class, datum)
                                       : add_things(look->keeping, &attribute);
}

static status_t look_at_setattr(look_t *look, const graph_node_t *node)
{
    attribute_t attribute;
    kept_t why = {.reason = KEEP_SET, .graph = look->graph, .node = node};
    module_t *object = node->inputs[0] >= 0 ? look->objects[node->inputs[0]] : NULL;
    if (object == NULL || !attribute_place(object, node->name, &attribute))
        return add_anywhere(look->keeping, &why, node->name);
    return add_attribute(look->keeping, &why, &attribute);
}

static bool has_graph(const attribute_t *method)
{
    return graph_of(method->owner, method->name) != NULL;
}

typedef struct callee {
    spread_t spread;
    const char *name;
} callee_t;

/* A C method may change all of its module, so a module with a C method of this name is added. */
static status_t look_for_c_method(context_t *ctx, void *user, const char *path, module_t *module)
{
    (void)ctx, (void)path;
    const callee_t *callee = user;
    attribute_t method;
    if (!attribute_find(module, callee->name, &method) || method.kind != MEMBER_METHOD ||
        has_graph(&method))
        return STATUS_OK;
    return add_whole(callee->spread.keeping, callee->spread.why, method.owner);
}

/* Adds the modules that C methods of the called name may change. Graph methods are analysed
 * separately. */
static status_t look_at_call(look_t *look, const graph_node_t *node)
{
    kept_t why = {.reason = KEEP_PART, .graph = look->graph, .node = node};
    callee_t callee = {{look->keeping, &why}, node->name};
    module_t *object = node->inputs[0] >= 0 ? look->objects[node->inputs[0]] : NULL;
    if (object != NULL) return look_for_c_method(look->keeping->ctx, &callee, "", object);
    return module_walk(look->keeping->ctx, look->keeping->root, look_for_c_method, &callee);
}

static status_t take_whole(look_t *look, const graph_node_t *taker, value_t value)
{
    if (value < 0 || look->objects[value] == NULL) return STATUS_OK;
    kept_t why = {.reason = KEEP_PART, .graph = look->graph, .node = taker};
    return add_whole(look->keeping, &why, look->objects[value]);
}

/* Adds modules used as values. Calling a graph method of self is not such a use. */
static status_t look_at_modules(look_t *look, const graph_node_t *node)
{
    bool is_access = node->kind == NODE_GETATTR || node->kind == NODE_SETATTR;
    value_t self = graph_body(look->graph)->n_params > 0 ? graph_body(look->graph)->params[0] : 0;
    for (int i = 0; i < node->n_inputs; i++) {
        bool is_own_call = node->kind == NODE_CALL && node->inputs[i] == self &&
                           strchr(node->name, '.') == NULL;
        if (i > 0 || !(is_access || is_own_call)) TRY(take_whole(look, node, node->inputs[i]));
    }
    for (int b = 0; b < node->n_blocks; b++)
        for (int i = 0; i < node->blocks[b]->n_results; i++)
            TRY(take_whole(look, node, node->blocks[b]->results[i]));
    return STATUS_OK;
}

static status_t look_at_node(void *user, const graph_node_t *node)
{
    TRY(look_at_modules(user, node));
    switch (node->kind) {
    case NODE_GETATTR: return look_at_getattr(user, node);
    case NODE_SETATTR: return look_at_setattr(user, node);
    case NODE_CALL: return look_at_call(user, node);
    default: return STATUS_OK;
    }
}

static status_t look_at_graph(keeping_t *keeping, const graph_t *graph, module_t *self)
{
    context_t *ctx = keeping->ctx;
    const graph_block_t *body = graph_body(graph);
    look_t look = {.keeping = keeping, .graph = graph};
    TRY(attribute_objects(ctx, graph, self, &look.objects));
    status_t status = alias_of(ctx, graph, &look.alias);
    if (status == STATUS_OK) {
        status = rewrite_visit(body, look_at_node, &look);
        for (int i = 0; i < body->n_results && status == STATUS_OK; i++)
            status = take_whole(&look, NULL, body->results[i]);
    }
    context_put(ctx, look.objects);
    return status;
}

static status_t look_at_methods(context_t *ctx, void *user, const char *path, module_t *module)
{
    (void)ctx, (void)path;
    for (int i = 0; i < module_n_members(module); i++) {
        member_kind_t kind;
        const char *name = module_member(module, i, &kind);
        if (kind != MEMBER_METHOD) continue;
        const graph_t *graph = graph_of(module, name);
        if (graph != NULL) TRY(look_at_graph(user, graph, module));
    }
    return STATUS_OK;
}

static status_t look_at_wishes(keeping_t *keeping, const char *const *wishes)
{
    for (; wishes != NULL && *wishes != NULL; wishes++) {
        attribute_t attribute;
        kept_t why = {.reason = KEEP_WISHED, .wish = *wishes};
        if (!attribute_find(keeping->root, *wishes, &attribute)) continue;
        if (attribute.kind == MEMBER_CHILD)
            TRY(add_whole(keeping, &why, module_child(attribute.owner, attribute.name)));
        if (attribute.kind == MEMBER_CHILD || attribute.kind == MEMBER_METHOD) continue;
        TRY(add_attribute(keeping, &why, &attribute));
        TRY(add_things(keeping, &attribute));
    }
    return STATUS_OK;
}

/* ---- search ---- */

status_t keep_find(context_t *ctx, module_t *root, const char *const *wishes, const graph_t *graph,
                   module_t *self, keeping_t *out_keeping)
{
    keeping_t keeping = {.ctx = ctx, .root = root};
    status_t status = look_at_wishes(&keeping, wishes);
    if (status == STATUS_OK) status = module_walk(ctx, root, look_at_methods, &keeping);
    if (status == STATUS_OK && graph != NULL) status = look_at_graph(&keeping, graph, self);
    TRY_OR(status, keep_clear(&keeping));
    *out_keeping = keeping;
    return STATUS_OK;
}

void keep_clear(keeping_t *keeping)
{
    if (keeping->ctx == NULL) return;
    CONTEXT_PUT(keeping->ctx, keeping->kept, keeping->things);
    *keeping = (keeping_t){0};
}

bool keep_holds(const keeping_t *keeping, const attribute_t *attribute, kept_t *out_why)
{
    kept_t why = {.reason = KEEP_SHARED, .because = -1};
    for (int i = 0; i < keeping->n_kept; i++) {
        const kept_t *kept = &keeping->kept[i];
        bool is_it = (kept->owner == NULL || kept->owner == attribute->owner) &&
                     (kept->name == NULL || strcmp(kept->name, attribute->name) == 0);
        if (is_it && kept->reason < why.reason) why = *kept;
    }
    if (why.reason == KEEP_SHARED) why.because = find_shared(keeping, attribute);
    bool holds = why.reason != KEEP_SHARED || why.because >= 0;
    if (holds && out_why != NULL) *out_why = why;
    return holds;
}

bool keep_holds_all(const keeping_t *keeping, const module_t *module)
{
    for (int i = 0; i < keeping->n_kept; i++)
        if (keeping->kept[i].owner == module && keeping->kept[i].name == NULL) return true;
    return false;
}
