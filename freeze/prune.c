/* Selects the members that stay in a frozen module: the methods needed, and what they read. */
#include <string.h>

#include "freeze/freeze_impl.h"
#include "graph/analysis/attribute_impl.h"
#include "graph/analysis/keep_impl.h"
#include "graph/ir/rewrite_impl.h"
#include "module/map_impl.h"
#include "module/module_impl.h"
#include "tensor/context_impl.h"

/* ---- methods ---- */

/* The module's own copy of a method's name; it is valid as long as the method exists. */
static const char *own_name(const module_t *module, const char *name)
{
    for (int i = 0; i < module_n_members(module); i++) {
        member_kind_t kind;
        const char *own = module_member(module, i, &kind);
        if (kind == MEMBER_METHOD && strcmp(own, name) == 0) return own;
    }
    return NULL;
}

static freeze_method_t *find_method(const freeze_methods_t *methods, const module_t *owner,
                                    const char *name)
{
    for (int i = 0; i < methods->n; i++)
        if (methods->items[i].owner == owner && strcmp(methods->items[i].name, name) == 0)
            return &methods->items[i];
    return NULL;
}

status_t freeze_add_method(context_t *ctx, freeze_methods_t *methods, module_t *owner,
                           const char *name, bool is_frozen)
{
    attribute_t method;
    if (!attribute_find(owner, name, &method) || method.kind != MEMBER_METHOD) return STATUS_OK;
    freeze_method_t *known = find_method(methods, method.owner, method.name);
    if (known != NULL) {
        known->is_frozen |= is_frozen;
        return STATUS_OK;
    }
    TRY(context_grow(ctx, &methods->items, &methods->capacity, methods->n + 1,
                     sizeof *methods->items));
    methods->items[methods->n++] = (freeze_method_t){
        method.owner, own_name(method.owner, method.name), is_frozen};
    return STATUS_OK;
}

static status_t add_own_methods(context_t *ctx, void *user, const char *path, module_t *module)
{
    (void)path;
    for (int i = 0; i < module_n_members(module); i++) {
        member_kind_t kind;
        const char *name = module_member(module, i, &kind);
        if (kind == MEMBER_METHOD) TRY(freeze_add_method(ctx, user, module, name, false));
    }
    return STATUS_OK;
}

status_t freeze_add_methods(context_t *ctx, freeze_methods_t *methods, module_t *module)
{
    return module_walk(ctx, module, add_own_methods, methods);
}

typedef struct calls {
    context_t *ctx;
    freeze_methods_t *methods;
    module_t *root, *owner;
    module_t **objects;
    const char *name;
    bool is_frozen;
} calls_t;

static status_t add_of_module(context_t *ctx, void *user, const char *path, module_t *module)
{
    (void)path;
    const calls_t *calls = user;
    return freeze_add_method(ctx, calls->methods, module, calls->name, false);
}

/* A method that a frozen method calls on its own module becomes frozen too; a method that it calls
 * on another module stays unchanged. If the module is unknown, all methods of this name stay. */
static status_t add_callee(void *user, const graph_node_t *node)
{
    calls_t *calls = user;
    if (node->kind != NODE_CALL) return STATUS_OK;
    module_t *object = node->inputs[0] >= 0 ? calls->objects[node->inputs[0]] : NULL;
    calls->name = node->name;
    if (object == NULL) return module_walk(calls->ctx, calls->root, add_of_module, calls);
    bool is_own = object == calls->owner && graph_of(object, node->name) != NULL &&
                  strchr(node->name, '.') == NULL;
    return freeze_add_method(calls->ctx, calls->methods, object, node->name,
                             is_own && calls->is_frozen);
}

status_t freeze_add_callees(context_t *ctx, freeze_methods_t *methods, module_t *root, int index)
{
    const freeze_method_t method = methods->items[index];
    const graph_t *graph = graph_of(method.owner, method.name);
    if (graph == NULL) return freeze_add_methods(ctx, methods, method.owner);
    calls_t calls = {.ctx = ctx,
                     .methods = methods,
                     .root = root,
                     .owner = method.owner,
                     .is_frozen = method.is_frozen};
    TRY(attribute_objects(ctx, graph, method.owner, &calls.objects));
    FINISH(rewrite_visit(graph_body(graph), add_callee, &calls), context_put(ctx, calls.objects));
}

static status_t drop_own_methods(context_t *ctx, void *user, const char *path, module_t *module)
{
    (void)path;
    for (int i = module_n_members(module) - 1; i >= 0; i--) {
        member_kind_t kind;
        const char *name = module_member(module, i, &kind);
        if (kind == MEMBER_METHOD && find_method(user, module, name) == NULL)
            TRY(module_remove(ctx, module, name));
    }
    return STATUS_OK;
}

status_t freeze_drop_methods(context_t *ctx, module_t *root, const freeze_methods_t *methods)
{
    freeze_methods_t listed = *methods;
    return module_walk(ctx, root, drop_own_methods, &listed);
}

/* ---- attributes and children ---- */

typedef struct pruning {
    context_t *ctx;
    module_t *root;
    const freeze_methods_t *methods;
    keeping_t keeping;
    module_t **objects;
    attribute_t *used;
    int n_used, capacity;
    map_t needed; /* modules that were checked and are needed, each mapped to itself */
    map_t asked;
} pruning_t;

static status_t note_use(void *user, const graph_node_t *node)
{
    pruning_t *pruning = user;
    attribute_t attribute;
    if (node->kind != NODE_GETATTR && node->kind != NODE_SETATTR) return STATUS_OK;
    module_t *object = node->inputs[0] >= 0 ? pruning->objects[node->inputs[0]] : NULL;
    if (object == NULL || !attribute_place(object, node->name, &attribute)) return STATUS_OK;
    TRY(context_grow(pruning->ctx, &pruning->used, &pruning->capacity, pruning->n_used + 1,
                     sizeof *pruning->used));
    pruning->used[pruning->n_used++] = attribute;
    return STATUS_OK;
}

static status_t note_uses(pruning_t *pruning)
{
    for (int i = 0; i < pruning->methods->n; i++) {
        const freeze_method_t *method = &pruning->methods->items[i];
        const graph_t *graph = graph_of(method->owner, method->name);
        if (!method->is_frozen || graph == NULL) continue;
        TRY(attribute_objects(pruning->ctx, graph, method->owner, &pruning->objects));
        status_t status = rewrite_visit(graph_body(graph), note_use, pruning);
        context_put(pruning->ctx, pruning->objects);
        pruning->objects = NULL;
        TRY(status);
    }
    return STATUS_OK;
}

static bool is_value_needed(const pruning_t *pruning, const attribute_t *member)
{
    if (freeze_is_border(pruning->root, member->owner, member->name)) return true;
    for (int i = 0; i < pruning->n_used; i++)
        if (pruning->used[i].owner == member->owner &&
            strcmp(pruning->used[i].name, member->name) == 0)
            return true;
    kept_t why;
    return keep_holds(&pruning->keeping, member, &why) && why.reason == KEEP_WISHED;
}

static status_t is_module_needed(pruning_t *pruning, module_t *module, bool *out_needed);

static status_t is_needed(pruning_t *pruning, module_t *module, int index, bool *out_needed)
{
    attribute_t member = {.owner = module};
    member.name = module_member(module, index, &member.kind);
    if (member.kind == MEMBER_METHOD)
        *out_needed = find_method(pruning->methods, module, member.name) != NULL;
    else if (keep_holds_all(&pruning->keeping, module))
        *out_needed = true;
    else if (member.kind == MEMBER_CHILD)
        return is_module_needed(pruning, module_child(module, member.name), out_needed);
    else
        *out_needed = is_value_needed(pruning, &member);
    return STATUS_OK;
}

/* Checks each module only once, even if several paths lead to it. */
static status_t is_module_needed(pruning_t *pruning, module_t *module, bool *out_needed)
{
    *out_needed = map_get(&pruning->needed, module) != NULL;
    if (map_get(&pruning->asked, module) != NULL) return STATUS_OK;
    bool needed = keep_holds_all(&pruning->keeping, module);
    for (int i = 0; i < module_n_members(module) && !needed; i++)
        TRY(is_needed(pruning, module, i, &needed));
    *out_needed = needed;
    if (needed) TRY(map_put(&pruning->needed, module, module));
    return map_put(&pruning->asked, module, module);
}

static status_t drop_unneeded(context_t *ctx, void *user, const char *path, module_t *module)
{
    (void)path;
    for (int i = module_n_members(module) - 1; i >= 0; i--) {
        bool needed = false;
        TRY(is_needed(user, module, i, &needed));
        if (!needed) TRY(module_remove(ctx, module, module_member(module, i, NULL)));
    }
    return STATUS_OK;
}

status_t freeze_drop_members(context_t *ctx, module_t *root, const freeze_methods_t *methods,
                             const char *const *preserved)
{
    pruning_t pruning = {.ctx = ctx,
                         .root = root,
                         .methods = methods,
                         .needed = {.ctx = ctx},
                         .asked = {.ctx = ctx}};
    TRY(keep_find(ctx, root, preserved, NULL, NULL, &pruning.keeping));
    status_t status = note_uses(&pruning);
    if (status == STATUS_OK) status = module_walk(ctx, root, drop_unneeded, &pruning);
    map_clear(&pruning.asked);
    map_clear(&pruning.needed);
    context_put(ctx, pruning.used);
    keep_clear(&pruning.keeping);
    return status;
}
