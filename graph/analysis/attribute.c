#include "graph/analysis/attribute_impl.h"

#include <string.h>

#include "graph/ir/rewrite_impl.h"
#include "tensor/context_impl.h"

/* Finds a module's own member by name (not NUL-terminated), and returns the member's name. */
static const char *find_own(const module_t *module, const char *name, size_t length,
                            member_kind_t *out_kind)
{
    int n = module_n_members(module);
    for (int i = 0; i < n; i++) {
        const char *own = module_member(module, i, out_kind);
        if (strlen(own) == length && memcmp(own, name, length) == 0) return own;
    }
    return NULL;
}

bool attribute_find(module_t *module, const char *path, attribute_t *out_attribute)
{
    while (module != NULL && path != NULL) {
        member_kind_t kind;
        if (find_own(module, path, strlen(path), &kind) != NULL) {
            *out_attribute = (attribute_t){module, path, kind};
            return true;
        }
        size_t length = strcspn(path, ".");
        const char *name = path[length] == '.' ? find_own(module, path, length, &kind) : NULL;
        if (name == NULL || kind != MEMBER_CHILD) return false;
        module = module_child(module, name);
        path += length + 1;
    }
    return false;
}

tensor_t *attribute_tensor(const attribute_t *attribute)
{
    if (attribute->kind == MEMBER_PARAMETER)
        return module_parameter(attribute->owner, attribute->name);
    if (attribute->kind == MEMBER_BUFFER) return module_buffer(attribute->owner, attribute->name);
    if (attribute->kind != MEMBER_ATTRIBUTE) return NULL;
    datum_t *datum = module_attribute(attribute->owner, attribute->name);
    return datum_kind(datum) == DATUM_TENSOR ? datum_as_tensor(datum) : NULL;
}

status_t attribute_get(context_t *ctx, module_t *module, const char *path, datum_t **out_datum,
                       module_t **out_child)
{
    attribute_t found;
    REQUIRE(ctx, attribute_find(module, path, &found) && found.kind != MEMBER_METHOD,
            "getattr: %s has no member \"%s\"", module_type(module), path);
    datum_t *datum = NULL;
    module_t *child = NULL;
    if (found.kind == MEMBER_CHILD) {
        child = module_child(found.owner, found.name);
    } else if (found.kind == MEMBER_ATTRIBUTE) {
        datum = datum_retain(module_attribute(found.owner, found.name));
    } else {
        tensor_t *tensor = attribute_tensor(&found);
        TRY(tensor != NULL ? datum_tensor(ctx, tensor, &datum) : datum_none(ctx, &datum));
    }
    *out_datum = datum;
    *out_child = child;
    return STATUS_OK;
}

/* The module that contains, or would contain, the member of this path. */
static bool find_owner(module_t *module, const char *path, attribute_t *out_attribute)
{
    const char *dot;
    while ((dot = strchr(path, '.')) != NULL) {
        member_kind_t kind;
        const char *name = find_own(module, path, (size_t)(dot - path), &kind);
        if (name == NULL || kind != MEMBER_CHILD) return false;
        module = module_child(module, name);
        path = dot + 1;
    }
    *out_attribute = (attribute_t){module, path, MEMBER_ATTRIBUTE};
    return true;
}

bool attribute_place(module_t *module, const char *path, attribute_t *out_attribute)
{
    return attribute_find(module, path, out_attribute) || find_owner(module, path, out_attribute);
}

status_t attribute_set(context_t *ctx, module_t *module, const char *path, datum_t *value)
{
    attribute_t found;
    REQUIRE(ctx, attribute_place(module, path, &found),
            "setattr: %s has no module that could hold \"%s\"", module_type(module), path);
    if (found.kind == MEMBER_ATTRIBUTE)
        return module_set_attribute(ctx, found.owner, found.name, value);

    datum_kind_t kind = datum_kind(value);
    REQUIRE(ctx, found.kind == MEMBER_PARAMETER || found.kind == MEMBER_BUFFER,
            "setattr: \"%s\" of %s is a child or a method, which a graph cannot set", path,
            module_type(module));
    REQUIRE(ctx, kind == DATUM_TENSOR || kind == DATUM_NONE,
            "setattr: \"%s\" of %s is a tensor, given a value of kind %s", path,
            module_type(module), datum_kind_name(kind));
    tensor_t *tensor = kind == DATUM_TENSOR ? datum_as_tensor(value) : NULL;
    return found.kind == MEMBER_PARAMETER
               ? module_set_parameter(ctx, found.owner, found.name, tensor)
               : module_set_buffer(ctx, found.owner, found.name, tensor);
}

static status_t find_child(void *user, const graph_node_t *node)
{
    module_t **objects = user;
    attribute_t member;
    module_t *object = node->n_inputs > 0 && node->inputs[0] >= 0 ? objects[node->inputs[0]] : NULL;
    if (node->kind == NODE_GETATTR && object != NULL &&
        attribute_find(object, node->name, &member) && member.kind == MEMBER_CHILD)
        objects[node->outputs[0]] = module_child(member.owner, member.name);
    return STATUS_OK;
}

status_t attribute_objects(context_t *ctx, const graph_t *graph, module_t *self,
                           module_t ***out_objects)
{
    module_t **objects = NULL;
    const graph_block_t *body = graph_body(graph);
    TRY(context_get_zeroed(ctx, (size_t)graph_n_values(graph) * sizeof(module_t *),
                           "modules of values", &objects));
    if (body->n_params > 0 && graph_value_type(graph, body->params[0])->kind == TYPE_MODULE)
        objects[body->params[0]] = self;
    (void)rewrite_visit(body, find_child, objects);
    *out_objects = objects;
    return STATUS_OK;
}

static status_t append_copy(context_t *ctx, const datum_t *value, int index, datum_t *container)
{
    datum_t *item;
    TRY(attribute_copy(ctx, datum_item(value, index), &item));
    FINISH(datum_kind(container) == DATUM_DICT
               ? datum_put(ctx, container, datum_key(value, index), item)
               : datum_append(ctx, container, item),
           datum_release(item));
}

static bool can_change(const datum_t *value)
{
    datum_kind_t kind = datum_kind(value);
    bool changes = kind == DATUM_LIST || kind == DATUM_DICT;
    for (int i = 0; kind == DATUM_TUPLE && i < datum_length(value); i++)
        changes |= can_change(datum_item(value, i));
    return changes;
}

/* Converts a list to a tuple; releases the list. */
static status_t tuple_of(context_t *ctx, datum_t *list, datum_t **out_tuple)
{
    int n = datum_length(list);
    datum_t **items = NULL;
    status_t status = context_get(ctx, (size_t)n * sizeof *items, "items of a tuple", &items);
    if (status == STATUS_OK) {
        for (int i = 0; i < n; i++) items[i] = datum_item(list, i);
        status = datum_tuple(ctx, n, items, out_tuple);
    }
    context_put(ctx, items);
    datum_release(list);
    return status;
}

status_t attribute_copy(context_t *ctx, datum_t *value, datum_t **out_copy)
{
    if (!can_change(value)) {
        *out_copy = datum_retain(value);
        return STATUS_OK;
    }
    datum_kind_t kind = datum_kind(value);
    datum_t *copy;
    TRY(kind == DATUM_DICT ? datum_dict(ctx, 0, NULL, NULL, &copy)
                           : datum_list(ctx, 0, NULL, &copy));
    for (int i = 0; i < datum_length(value); i++) {
        status_t status = append_copy(ctx, value, i, copy);
        if (status == STATUS_OK) continue;
        datum_release(copy);
        return status;
    }
    if (kind == DATUM_TUPLE) return tuple_of(ctx, copy, out_copy);
    *out_copy = copy;
    return STATUS_OK;
}
