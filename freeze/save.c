/* Saves graphs and attributes as text without layouts, and constants in the formats of plans. */
#include <stdio.h>
#include <string.h>

#include "dispatch/select_impl.h"
#include "freeze/file_impl.h"
#include "graph/ir/rewrite_impl.h"
#include "module/map_impl.h"
#include "module/module_impl.h"
#include "tensor/context_impl.h"
#include "tensor/threads/interrupt_impl.h"

typedef struct saving {
    context_t *ctx;
    module_t *frozen;
    text_t text;
    datum_t *pool;
    map_t plain; /* tensors whose plain bytes are read */
    uint32_t version;
} saving_t;

/* ---- tensors that are read plain ---- */

static status_t mark_plain(saving_t *saving, const datum_t *datum)
{
    if (datum == NULL) return STATUS_OK;
    if (datum_kind(datum) == DATUM_TENSOR)
        return map_put(&saving->plain, datum_as_tensor(datum), saving);
    datum_kind_t kind = datum_kind(datum);
    if (kind == DATUM_LIST || kind == DATUM_TUPLE || kind == DATUM_DICT)
        for (int i = 0; i < datum_length(datum); i++) TRY(mark_plain(saving, datum_item(datum, i)));
    return STATUS_OK;
}

typedef struct visit {
    saving_t *saving;
    const graph_t *graph;
} visit_t;

static status_t mark_values(const visit_t *visit, int n, const value_t *values)
{
    for (int i = 0; i < n; i++)
        if (values[i] >= 0) TRY(mark_plain(visit->saving, graph_constant(visit->graph, values[i])));
    return STATUS_OK;
}

/* Marks all operands of a node as read plain, except operators' weights, which have packed
 * forms. */
static status_t mark_node(void *user, const graph_node_t *node)
{
    const visit_t *visit = user;
    if (node->kind == NODE_OP && ops_find(node->op->name) != node->op)
        FAIL(visit->saving->ctx, STATUS_UNSUPPORTED,
             "freeze_save: operator %s is not in the operator table, so the file could not be "
             "loaded",
             node->op->name);
    for (int i = 0; i < node->n_inputs; i++)
        if (node->kind != NODE_OP || select_operand(node->op, i)->role != ROLE_WEIGHT)
            TRY(mark_values(visit, 1, &node->inputs[i]));
    for (int b = 0; b < node->n_blocks; b++)
        TRY(mark_values(visit, node->blocks[b]->n_results, node->blocks[b]->results));
    return STATUS_OK;
}

/* ---- methods ---- */

/* Removes the type of a constant, because it may contain a format. */
static status_t drop_type(rewrite_t *rewrite, const graph_node_t *node, bool *out_done)
{
    static const graph_type_t unknown = {.kind = TYPE_UNKNOWN};
    if (node->kind != NODE_CONSTANT || datum_kind(node->datum) != DATUM_TENSOR) return STATUS_OK;
    TRY(rewrite_copy(rewrite, node));
    graph_set_type(rewrite->to, rewrite_value(rewrite, node->outputs[0]), &unknown);
    *out_done = true;
    return STATUS_OK;
}

static status_t print_method(saving_t *saving, const graph_t *graph)
{
    graph_t *stored = NULL;
    visit_t visit = {saving, graph};
    const graph_block_t *body = graph_body(graph);
    TRY(rewrite_visit(body, mark_node, &visit));
    TRY(mark_values(&visit, body->n_results, body->results));
    TRY(rewrite_graph(saving->ctx, graph, drop_type, NULL, &stored));
    FINISH(graph_print(saving->ctx, stored, saving->pool, &saving->text), graph_release(stored));
}

/* Prints methods in the order in which the tree lists members. */
static status_t print_methods(context_t *ctx, void *user, const char *path, module_t *module)
{
    saving_t *saving = user;
    (void)ctx, (void)path;
    for (int i = 0; i < module_n_members(module); i++) {
        member_kind_t kind;
        const char *name = module_member(module, i, &kind);
        if (kind != MEMBER_METHOD) continue;
        TRY(print_method(saving, graph_of(module, name)));
        for (int k = 1; k < plan_n_graphs(module, name); k++)
            TRY(print_method(saving, plan_graph_at(module, name, k)));
    }
    return STATUS_OK;
}

/* ---- the tree, as a list of names and a list of values ---- */

typedef struct listing {
    saving_t *saving;
    datum_t *names, *values;
} listing_t;

/* Adds an entry "kind:path" with its value. Takes ownership of the value. */
static status_t add_take(const listing_t *listing, char kind, const char *path, const char *name,
                         datum_t *value)
{
    context_t *ctx = listing->saving->ctx;
    datum_t *entry = NULL;
    text_t text = text_begin(ctx);
    text_append(&text, "%c:%s%s%s", kind, path, path[0] != '\0' && name[0] != '\0' ? "." : "",
                name);
    status_t status = text_status(&text);
    if (status == STATUS_OK) status = datum_string(ctx, text_string(&text), &entry);
    if (status == STATUS_OK) status = datum_append(ctx, listing->names, entry);
    if (status == STATUS_OK) status = datum_append(ctx, listing->values, value);
    if (status == STATUS_OK &&
        !(kind == 'a' && path[0] == '\0' && strcmp(name, FREEZE_SOURCE) == 0))
        status = mark_plain(listing->saving, value);
    text_clear(&text);
    datum_release(entry);
    datum_release(value);
    return status;
}

static status_t add_tensor(const listing_t *listing, char kind, const char *path, const char *name,
                           tensor_t *tensor)
{
    datum_t *value = NULL;
    context_t *ctx = listing->saving->ctx;
    TRY(tensor == NULL ? datum_none(ctx, &value) : datum_tensor(ctx, tensor, &value));
    return add_take(listing, kind, path, name, value);
}

static status_t add_method(const listing_t *listing, const char *path, const module_t *module,
                           const char *name)
{
    context_t *ctx = listing->saving->ctx;
    datum_t *value = NULL;
    if (graph_of(module, name) == NULL)
        FAIL(ctx, STATUS_UNSUPPORTED,
             "freeze_save: method \"%s%s%s\" is C code, only graph methods can be stored", path,
             path[0] != '\0' ? "." : "", name);
    TRY(datum_bool(ctx, plan_is_method(module, name), &value));
    TRY(add_take(listing, 'm', path, name, value));
    for (int k = 1; k < plan_n_graphs(module, name); k++) {
        TRY(datum_int(ctx, k, &value));
        TRY(add_take(listing, 'g', path, name, value));
        listing->saving->version = FILE_VERSION_GRAPHS;
    }
    return STATUS_OK;
}

static status_t add_members(context_t *ctx, void *user, const char *path, module_t *module)
{
    const listing_t *listing = user;
    datum_t *type = NULL;
    TRY(datum_string(ctx, module_type(module), &type));
    TRY(add_take(listing, 't', path, "", type));
    for (int i = 0; i < module_n_members(module); i++) {
        member_kind_t kind;
        const char *name = module_member(module, i, &kind);
        switch (kind) {
        case MEMBER_PARAMETER:
            TRY(add_tensor(listing, 'p', path, name, module_parameter(module, name)));
            break;
        case MEMBER_BUFFER:
            TRY(add_tensor(listing, 'b', path, name, module_buffer(module, name)));
            break;
        case MEMBER_ATTRIBUTE:
            TRY(add_take(listing, 'a', path, name, datum_retain(module_attribute(module, name))));
            break;
        case MEMBER_METHOD: TRY(add_method(listing, path, module, name)); break;
        case MEMBER_CHILD: break;
        }
    }
    return STATUS_OK;
}

/* Adds children that the walk has reached under another path before; the value is that path. */
static status_t add_shared(const listing_t *listing, const map_t *paths, const tree_item_t *item)
{
    context_t *ctx = listing->saving->ctx;
    for (int i = 0; i < module_n_members(item->module); i++) {
        member_kind_t kind;
        const char *name = module_member(item->module, i, &kind);
        if (kind != MEMBER_CHILD) continue;
        const char *first = map_get(paths, module_child(item->module, name));
        char *path = NULL;
        datum_t *value = NULL;
        TRY(tree_join(ctx, item->path, name, &path));
        bool is_first = strcmp(first, path) == 0;
        context_put(ctx, path);
        if (is_first) continue;
        TRY(datum_string(ctx, first, &value));
        TRY(add_take(listing, 'c', item->path, name, value));
    }
    return STATUS_OK;
}

/* Call this after all modules are listed. Loading then knows every module that is named here. */
static status_t add_all_shared(const listing_t *listing)
{
    context_t *ctx = listing->saving->ctx;
    tree_t all = {0};
    map_t paths = {.ctx = ctx};
    TRY(tree_collect(ctx, listing->saving->frozen, &all));
    status_t status = STATUS_OK;
    for (int i = 0; i < all.n && status == STATUS_OK; i++)
        status = map_put(&paths, all.items[i].module, all.items[i].path);
    for (int i = 0; i < all.n && status == STATUS_OK; i++)
        status = add_shared(listing, &paths, &all.items[i]);
    map_clear(&paths);
    tree_clear(ctx, &all);
    return status;
}

static status_t print_constant(saving_t *saving, datum_t *datum)
{
    static const graph_type_t unknown = {.kind = TYPE_UNKNOWN};
    graph_builder_t *builder = NULL;
    graph_t *graph = NULL;
    TRY(graph_builder_create(saving->ctx, "module", &builder));
    value_t value = graph_add_constant(builder, datum, NULL);
    graph_set_type(builder, value, &unknown);
    status_t status = graph_finish(builder, 1, &value, &graph);
    if (status == STATUS_OK) status = graph_print(saving->ctx, graph, saving->pool, &saving->text);
    graph_release(graph);
    graph_builder_destroy(builder);
    return status;
}

static status_t print_tree(saving_t *saving)
{
    context_t *ctx = saving->ctx;
    listing_t listing = {.saving = saving};
    datum_t *both = NULL;
    status_t status = datum_list(ctx, 0, NULL, &listing.names);
    if (status == STATUS_OK) status = datum_list(ctx, 0, NULL, &listing.values);
    if (status == STATUS_OK) status = module_walk(ctx, saving->frozen, add_members, &listing);
    if (status == STATUS_OK) status = add_all_shared(&listing);
    if (status == STATUS_OK)
        status = datum_tuple(ctx, 2, (datum_t *[]){listing.names, listing.values}, &both);
    if (status == STATUS_OK) status = print_constant(saving, both);
    datum_release(both);
    datum_release(listing.names);
    datum_release(listing.values);
    return status;
}

/* ---- saving ---- */

static status_t add_constants(saving_t *saving, image_t *image)
{
    int machine = 0;
    image->version = saving->version;
    TRY(context_string(saving->ctx, text_string(&saving->text), &image->text));
    TRY(image_add_machine(image, saving->frozen, &machine));
    for (int i = 0; i < datum_length(saving->pool); i++) {
        tensor_t *tensor = datum_as_tensor(datum_item(saving->pool, i));
        TRY(image_add_constant(image, tensor, i, machine, map_get(&saving->plain, tensor) != NULL));
        if (!image->is_entry)
            TRY(interrupt_tell(saving->ctx, "save, constants", i + 1, datum_length(saving->pool)));
    }
    return STATUS_OK;
}

status_t image_of(context_t *ctx, module_t *frozen, image_t *image)
{
    saving_t saving = {.ctx = ctx,
                       .frozen = frozen,
                       .text = text_begin(ctx),
                       .plain = {.ctx = ctx},
                       .version = FILE_VERSION_LEAST};
    status_t status = datum_list(ctx, 0, NULL, &saving.pool);
    if (status == STATUS_OK) status = print_tree(&saving);
    if (status == STATUS_OK) status = module_walk(ctx, frozen, print_methods, &saving);
    if (status == STATUS_OK) status = text_status(&saving.text);
    if (status == STATUS_OK) status = add_constants(&saving, image);
    text_clear(&saving.text);
    map_clear(&saving.plain);
    datum_release(saving.pool);
    return status;
}

status_t freeze_save(context_t *ctx, module_t *frozen, const char *path)
{
    if (frozen == NULL) return context_null(ctx, "freeze_save", "module");
    REQUIRE(ctx, freeze_is_frozen(frozen), "freeze_save: %s is not frozen, freeze it first",
            module_type(frozen));
    image_t image = {.ctx = ctx};
    interrupt_begin(ctx, "freeze_save");
    status_t status = image_of(ctx, frozen, &image);
    if (status == STATUS_OK) status = image_write(&image, path);
    image_clear(&image);
    return interrupt_end(ctx, status);
}

static status_t append(context_t *ctx, const char *op, const char *path, bool has_all_forms)
{
    loading_t loading = {.ctx = ctx, .path = path, .tensors = {.ctx = ctx}};
    if (path == NULL) return context_null(ctx, op, "path");
    image_t image = {.ctx = ctx, .has_all_forms = has_all_forms};
    int machine = 0;
    interrupt_begin(ctx, op);
    status_t status = file_load(&loading);
    if (status == STATUS_OK) status = file_image(&loading, &image);
    if (status == STATUS_OK) status = image_add_machine(&image, loading.module, &machine);
    for (int i = 0; i < datum_length(loading.pool) && status == STATUS_OK; i++)
        status = image_add_constant(&image, datum_as_tensor(datum_item(loading.pool, i)), i,
                                    machine, true);
    if (status == STATUS_OK) status = image_write(&image, path);
    image_clear(&image);
    file_close(&loading);
    return interrupt_end(ctx, status);
}

status_t freeze_append(context_t *ctx, const char *path)
{
    return append(ctx, "freeze_append", path, false);
}

status_t freeze_append_forms(context_t *ctx, const char *path)
{
    return append(ctx, "freeze_append_forms", path, true);
}
