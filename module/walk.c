#include <stdio.h>
#include <string.h>

#include "module/map_impl.h"
#include "module/module_impl.h"
#include "tensor/tensor_impl.h"

/* ---- the tree as a list ---- */

status_t tree_join(context_t *ctx, const char *path, const char *name, char **out_path)
{
    size_t bytes = strlen(path) + strlen(name) + sizeof ".";
    char *joined = NULL;
    TRY(context_get(ctx, bytes, "a path", &joined));
    snprintf(joined, bytes, "%s%s%s", path, path[0] != '\0' ? "." : "", name);
    *out_path = joined;
    return STATUS_OK;
}

/* Adds a module to the list unless it was `seen`. Takes ownership of the path, also on failure. */
static status_t list_take(context_t *ctx, tree_t *tree, map_t *seen, module_t *module, char *path)
{
    status_t status = STATUS_OK;
    bool is_new = map_get(seen, module) == NULL;
    if (is_new) status = map_put(seen, module, module);
    if (is_new && status == STATUS_OK)
        status = context_grow(ctx, &tree->items, &tree->capacity, tree->n + 1, sizeof *tree->items);
    if (!is_new || status != STATUS_OK) {
        context_put(ctx, path);
        return status;
    }
    tree->items[tree->n++] = (tree_item_t){module_retain(module), path};
    for (int i = 0; i < module->n_members; i++) {
        const member_t *member = &module->members[i];
        if (member->kind != MEMBER_CHILD) continue;
        char *below = NULL;
        TRY(tree_join(ctx, path, member->name, &below));
        TRY(list_take(ctx, tree, seen, member->is.child, below));
    }
    return STATUS_OK;
}

/* `module` is const although its reference count changes. */
status_t tree_collect(context_t *ctx, const module_t *module, tree_t *out_tree)
{
    if (ctx == NULL) return STATUS_INVALID_ARGUMENT;
    module_t *root = NULL;
    memcpy(&root, &module, sizeof root);
    tree_t tree = {0};
    map_t seen = {.ctx = ctx};
    char *path = NULL;
    TRY(context_string(ctx, "", &path));
    status_t status = list_take(ctx, &tree, &seen, root, path);
    map_clear(&seen);
    TRY_OR(status, tree_clear(ctx, &tree));
    *out_tree = tree;
    return STATUS_OK;
}

void tree_clear(context_t *ctx, tree_t *tree)
{
    for (int i = 0; i < tree->n; i++) {
        module_release(tree->items[i].module);
        context_put(ctx, tree->items[i].path);
    }
    context_put(ctx, tree->items);
    *tree = (tree_t){0};
}

/* Lists the modules first, and then visits them, because a visit may change the tree. */
status_t module_walk(context_t *ctx, module_t *module, module_visit_t visit, void *user)
{
    if (module == NULL) return context_null(ctx, "module_walk", "module");
    if (visit == NULL) return context_null(ctx, "module_walk", "visit");
    tree_t tree = {0};
    TRY(tree_collect(ctx, module, &tree));
    status_t status = STATUS_OK;
    for (int i = 0; i < tree.n && status == STATUS_OK; i++)
        status = visit(ctx, user, tree.items[i].path, tree.items[i].module);
    tree_clear(ctx, &tree);
    return status;
}

static status_t set_training(context_t *ctx, void *user, const char *path, module_t *module)
{
    (void)path;
    return module_set_attribute(ctx, module, "training", user);
}

status_t module_train(context_t *ctx, module_t *module, bool is_training)
{
    if (module == NULL) return context_null(ctx, "module_train", "module");
    datum_t *training = NULL;
    TRY(datum_bool(ctx, is_training, &training));
    FINISH(module_walk(ctx, module, set_training, training), datum_release(training));
}

/* ---- text ---- */

typedef struct printer {
    text_t *text;
    map_t paths; /* [module] the first path that leads to it */
    map_t printed;
} printer_t;

static void print_tensor(text_t *text, const char *name, const tensor_t *tensor)
{
    char described[INFO_TEXT_MAX];
    text_append(text, " %s %s", name,
                tensor != NULL ? info_text(tensor_info(tensor), described) : "none");
}

/* Returns false for attribute `training` if it is false: the usual value is not printed. */
static bool is_worth_printing(const module_t *module, const member_t *member)
{
    return strcmp(member->name, "training") != 0 || module_is_training(module);
}

static status_t print_module(printer_t *printer, const module_t *module, const char *name,
                             int depth)
{
    text_t *text = printer->text;
    text_append(text, "%*s%s%s%s", 2 * depth, "", name, name[0] != '\0' ? ": " : "", module->type);
    if (map_get(&printer->printed, module) != NULL) {
        const char *path = map_get(&printer->paths, module);
        text_append(text, ", the one at %s\n", path);
        return text_status(text);
    }
    TRY(map_put(&printer->printed, module, printer));

    for (int i = 0; i < module->n_members; i++) {
        const member_t *member = &module->members[i];
        if (member->kind == MEMBER_PARAMETER || member->kind == MEMBER_BUFFER)
            print_tensor(text, member->name, member->is.tensor);
    }
    for (int i = 0; i < module->n_members; i++) {
        const member_t *member = &module->members[i];
        if (member->kind != MEMBER_ATTRIBUTE || !is_worth_printing(module, member)) continue;
        text_append(text, " %s=", member->name);
        datum_print(member->is.datum, text);
    }
    text_append(text, atomic_load(&module->runs_dense) ? ", dense\n" : "\n");
    for (int i = 0; i < module->n_members; i++) {
        const member_t *member = &module->members[i];
        if (member->kind == MEMBER_CHILD)
            TRY(print_module(printer, member->is.child, member->name, depth + 1));
    }
    return text_status(text);
}

status_t module_print(context_t *ctx, const module_t *module, text_t *text)
{
    if (module == NULL) return context_null(ctx, "module_print", "module");
    if (text == NULL) return context_null(ctx, "module_print", "text");
    tree_t tree = {0};
    TRY(tree_collect(ctx, module, &tree));
    printer_t printer = {text, {.ctx = ctx}, {.ctx = ctx}};
    status_t status = STATUS_OK;
    for (int i = 0; i < tree.n && status == STATUS_OK; i++)
        status = map_put(&printer.paths, tree.items[i].module, tree.items[i].path);
    if (status == STATUS_OK) status = print_module(&printer, module, "", 0);
    map_clear(&printer.paths);
    map_clear(&printer.printed);
    tree_clear(ctx, &tree);
    return status;
}

/* ---- overlap ---- */

static bool datum_overlaps(const datum_t *datum, const tensor_t *tensor)
{
    const tensor_t *own = datum_as_tensor(datum);
    if (own != NULL) return tensor_overlaps(own, tensor);
    for (int i = 0; i < datum_length(datum); i++)
        if (datum_overlaps(datum_item(datum, i), tensor)) return true;
    return false;
}

static bool member_overlaps(const member_t *member, const tensor_t *tensor)
{
    switch (member->kind) {
    case MEMBER_PARAMETER:
    case MEMBER_BUFFER:
        return member->is.tensor != NULL && tensor_overlaps(member->is.tensor, tensor);
    case MEMBER_ATTRIBUTE: return datum_overlaps(member->is.datum, tensor);
    case MEMBER_CHILD: return module_overlaps(member->is.child, tensor);
    default: return false;
    }
}

bool module_overlaps(const module_t *module, const tensor_t *tensor)
{
    for (int i = 0; i < module->n_members; i++)
        if (member_overlaps(&module->members[i], tensor)) return true;
    return false;
}
