/* Loading: makes tensors from blobs, in the mapped file or in a copy, a module from the text, and
 * plans with the choices in the file. */
#include <string.h>

#include "freeze/file_impl.h"
#include "graph/ir/graph_impl.h"
#include "graph/method/method_impl.h"
#include "tensor/context_impl.h"
#include "tensor/convert/convert_impl.h"
#include "tensor/convert/form_impl.h"
#include "tensor/threads/interrupt_impl.h"

/* ---- constants ---- */

/* Describes a constant whose stored form has other sizes, such as a weight [64,8,3,3] that is
 * stored as 8 groups [8,8,8,3,3]: returns the constant's own sizes, in the format of the stored
 * form. */
static tensor_info_t regroup(const tensor_info_t *info, const file_blob_t *blob)
{
    int rank = (int)blob->constant_rank;
    format_t format = format_regroup(rank, &info->format, info->sizes);
    tensor_info_t constant = info_dense(info->dtype, rank, blob->constant_sizes);
    return info_mkldnn(&constant, &format);
}

/* Adds a blob: as the next constant, or as one more form of the last constant. */
static status_t add_blob(loading_t *l, int index)
{
    const file_blob_t *blob = &l->blobs[index];
    bool is_constant = (int)blob->constant == datum_length(l->pool);
    tensor_info_t info;
    tensor_t *tensor = NULL;
    datum_t *datum = NULL;
    TRY(file_blob_info(l, index, &info));
    bool is_regrouped = is_constant && !shape_equal(info.rank, info.sizes, (int)blob->constant_rank,
                                                    blob->constant_sizes);
    const bool is_opaque = !convert_is_readable(&info);
    if (is_constant && (is_opaque || (is_regrouped && blob->layout != FILE_TAG)))
        FILE_CORRUPT(l, "%s: blob %d cannot be the first one of its constant", l->path, index);
    if (is_regrouped) info = regroup(&info, blob);
    TRY(file_blob_tensor(l, index, &info, &tensor));
    scope_keep(l->ctx, tensor);
    status_t status = STATUS_OK;
    if (is_constant) {
        status = datum_tensor(l->ctx, tensor, &datum);
        if (status == STATUS_OK) status = datum_append(l->ctx, l->pool, datum);
    } else {
        tensor_t *constant = datum_as_tensor(datum_item(l->pool, (int)blob->constant));
        storage_set_packable(constant->storage, true);
        status = form_add(l->ctx, constant, tensor);
    }
    datum_release(datum);
    tensor_drop(tensor);
    return status;
}

static status_t load_blobs(loading_t *l)
{
    TRY(datum_list(l->ctx, 0, NULL, &l->pool));
    for (int i = 0; i < l->n_blobs; i++)
        if (file_is_wanted(l, i)) TRY(add_blob(l, i));
    return STATUS_OK;
}

/* ---- the tree ---- */

static status_t set_tensor(loading_t *l, module_t *owner, char kind, const char *name,
                           const datum_t *value)
{
    tensor_t *tensor = NULL;
    datum_kind_t is = datum_kind(value);
    const tensor_t *constant = is == DATUM_TENSOR ? datum_as_tensor(value) : NULL;
    if (is != DATUM_TENSOR && is != DATUM_NONE)
        FILE_CORRUPT(l, "%s: \"%s\" is a %s, must be a tensor", l->path, name, datum_kind_name(is));
    if (constant != NULL) tensor = tensor_hold(map_get(&l->tensors, constant));
    if (constant != NULL && tensor == NULL) {
        TRY(tensor_clone(l->ctx, constant, &tensor));
        scope_keep(l->ctx, tensor);
        status_t noted = map_put(&l->tensors, constant, tensor);
        if (noted != STATUS_OK) {
            tensor_drop(tensor);
            return noted;
        }
    }
    FINISH(kind == 'p' ? module_set_parameter(l->ctx, owner, name, tensor)
                       : module_set_buffer(l->ctx, owner, name, tensor),
           tensor_drop(tensor));
}

/* Adds a module that exists under an earlier path as a child of this module too. */
static status_t add_shared(loading_t *l, module_t *owner, const char *name, const datum_t *path)
{
    module_t *child = datum_kind(path) == DATUM_STRING
                          ? module_child(l->module, datum_as_string(path))
                          : NULL;
    if (child == NULL)
        FILE_CORRUPT(l, "%s: \"%s\" refers to a module that does not exist", l->path, name);
    return module_set_child(l->ctx, owner, name, child);
}

/* Creates the top module, or a child of an existing module. */
static status_t add_module(loading_t *l, const char *path, const datum_t *type)
{
    module_t *owner = NULL, *child = NULL;
    const char *name = NULL;
    if (datum_kind(type) != DATUM_STRING || (l->module == NULL) != (path[0] == '\0'))
        FILE_CORRUPT(l, "%s: module \"%s\" is malformed", l->path, path);
    if (l->module == NULL) return module_create(l->ctx, datum_as_string(type), &l->module);
    TRY(freeze_owner(l->ctx, l->module, path, &name, &owner));
    TRY(module_create(l->ctx, datum_as_string(type), &child));
    FINISH(module_set_child(l->ctx, owner, name, child), module_release(child));
}

/* Sets the first graph of a method, or adds a further graph to a plan method. */
static status_t set_graph(loading_t *l, module_t *owner, const char *name, char kind, bool is_plan,
                          graph_t *graph)
{
    if (kind == 'm')
        return is_plan ? plan_set_method(l->ctx, owner, name, graph, 0)
                       : graph_set_method(l->ctx, owner, name, graph);
    if (!plan_is_method(owner, name) || !graph_is_alike(graph_of(owner, name), graph))
        FILE_CORRUPT(l, "%s: a graph of method \"%s\" does not match its first one", l->path, name);
    return plan_add_graph(l->ctx, owner, name, graph);
}

/* Reads the next graph of the text and adds it to a method. */
static status_t add_method(loading_t *l, module_t *owner, const char *name, char kind, bool is_plan,
                           const char **cursor)
{
    graph_t *graph = NULL;
    TRY(graph_parse_next(l->ctx, cursor, l->pool, &graph));
    if (graph == NULL) FILE_CORRUPT(l, "%s: method \"%s\" has no graph", l->path, name);
    status_t status = graph_verify(l->ctx, graph);
    if (status == STATUS_OK) status = set_graph(l, owner, name, kind, is_plan, graph);
    graph_release(graph);
    return status;
}

static status_t add_member(loading_t *l, const char *entry, datum_t *value, const char **cursor)
{
    if (strlen(entry) < 2 || entry[1] != ':')
        FILE_CORRUPT(l, "%s: member \"%s\" is malformed", l->path, entry);
    char kind = entry[0];
    const char *name = NULL;
    module_t *owner = NULL;
    if (kind == 't') return add_module(l, entry + 2, value);
    if (l->module == NULL) FILE_CORRUPT(l, "%s: \"%s\" belongs to no module", l->path, entry);
    TRY(freeze_owner(l->ctx, l->module, entry + 2, &name, &owner));
    if (name[0] == '\0') FILE_CORRUPT(l, "%s: member \"%s\" has no name", l->path, entry);
    if (kind == 'c') return add_shared(l, owner, name, value);
    if (kind == 'p' || kind == 'b') return set_tensor(l, owner, kind, name, value);
    if (kind == 'm' && datum_kind(value) == DATUM_BOOL)
        return add_method(l, owner, name, kind, datum_as_bool(value), cursor);
    if (kind == 'g' && datum_kind(value) == DATUM_INT)
        return add_method(l, owner, name, kind, true, cursor);
    if (kind != 'a') FILE_CORRUPT(l, "%s: member \"%s\" has an unknown kind", l->path, entry);
    datum_t *copy = NULL;
    const bool is_source = owner == l->module && strcmp(name, FREEZE_SOURCE) == 0;
    if (is_source) return module_set_attribute(l->ctx, owner, name, value); /* constants */
    TRY(datum_clone(l->ctx, value, &copy));
    FINISH(module_set_attribute(l->ctx, owner, name, copy), datum_release(copy));
}

/* Checks that the module is marked as frozen, with a list of paths. */
static status_t check_mark(loading_t *l)
{
    bool is_right = freeze_is_frozen(l->module);
    const datum_t *paths = is_right ? module_attribute(l->module, FREEZE_MARK) : NULL;
    for (int i = 0; is_right && i < datum_length(paths); i++)
        is_right = datum_kind(datum_item(paths, i)) == DATUM_STRING;
    if (!is_right) FILE_CORRUPT(l, "%s holds a module that is not frozen", l->path);
    return STATUS_OK;
}

/* Reads the first graph. It returns one constant: a list of names and a list of values. */
static status_t load_tree(loading_t *l, const graph_t *tree, const char **cursor)
{
    const graph_block_t *body = graph_body(tree);
    const datum_t *both = body->n_results == 1 ? graph_constant(tree, body->results[0]) : NULL;
    bool is_pair = both != NULL && datum_kind(both) == DATUM_TUPLE && datum_length(both) == 2;
    const datum_t *names = is_pair ? datum_item(both, 0) : NULL;
    const datum_t *values = is_pair ? datum_item(both, 1) : NULL;
    bool is_tree = is_pair && datum_kind(names) == DATUM_LIST && datum_kind(values) == DATUM_LIST &&
                   datum_length(names) == datum_length(values) && datum_length(names) > 0;
    for (int i = 0; is_tree && i < datum_length(names); i++)
        is_tree = datum_kind(datum_item(names, i)) == DATUM_STRING;
    if (!is_tree) FILE_CORRUPT(l, "%s: the list of members is malformed", l->path);
    for (int i = 0; i < datum_length(names); i++)
        TRY(add_member(l, datum_as_string(datum_item(names, i)), datum_item(values, i), cursor));
    return check_mark(l);
}

static status_t load_text(loading_t *l, const char *text)
{
    const char *cursor = text;
    graph_t *tree = NULL, *more = NULL;
    TRY(graph_parse_next(l->ctx, &cursor, l->pool, &tree));
    if (tree == NULL) FILE_CORRUPT(l, "%s has no graphs", l->path);
    status_t status = graph_verify(l->ctx, tree);
    if (status == STATUS_OK) status = load_tree(l, tree, &cursor);
    graph_release(tree);
    TRY(status);
    TRY(graph_parse_next(l->ctx, &cursor, l->pool, &more));
    if (more == NULL) return STATUS_OK;
    graph_release(more);
    FILE_CORRUPT(l, "%s: a graph belongs to no method", l->path);
}

/* Changes INVALID_ARGUMENT, from the parsers of the text, to CORRUPT. */
static status_t blame_file(loading_t *l, status_t status)
{
    if (status != STATUS_INVALID_ARGUMENT) return status;
    return context_fail(l->ctx, STATUS_CORRUPT, "freeze_load: %s: %s", l->path,
                        context_error(l->ctx));
}

/* ---- plans ---- */

/* Sets the layouts of a method's plans. The hints have one line for each plan, which begins with
 * the path of the method. */
static status_t give_layouts(loading_t *l, const char *hints, module_t *module, const char *path,
                             const char *name)
{
    text_t prefix = text_begin(l->ctx), lines = text_begin(l->ctx);
    text_append(&prefix, "%s%s%s;", path, path[0] != '\0' ? "." : "", name);
    const char *end;
    for (const char *at = hints; (end = strchr(at, '\n')) != NULL; at = end + 1)
        if (strncmp(at, text_string(&prefix), prefix.length) == 0 && at + prefix.length <= end)
            text_append(&lines, "%.*s", (int)(end + 1 - at - (ptrdiff_t)prefix.length),
                        at + prefix.length);
    status_t status = text_status(&prefix);
    if (status == STATUS_OK) status = text_status(&lines);
    if (status == STATUS_OK) status = plan_set_layouts(l->ctx, module, name, text_string(&lines));
    text_clear(&prefix);
    text_clear(&lines);
    return status;
}

typedef struct warming {
    loading_t *loading;
    const char *hints; /* NULL: no hints for this machine */
} warming_t;

static status_t warm(context_t *ctx, void *user, const char *path, module_t *module)
{
    const warming_t *warming = user;
    for (int i = 0; i < module_n_members(module); i++) {
        member_kind_t kind;
        const char *name = module_member(module, i, &kind);
        if (kind != MEMBER_METHOD) continue;
        if (warming->hints != NULL)
            TRY(give_layouts(warming->loading, warming->hints, module, path, name));
        TRY(plan_warm(ctx, module, name));
    }
    return STATUS_OK;
}

static status_t warm_all(loading_t *l)
{
    char *hints = NULL;
    if (l->machine >= 0) TRY(file_string(l, &l->machines[l->machine].hints, &hints));
    warming_t warming = {l, hints};
    FINISH(module_walk(l->ctx, l->module, warm, &warming), context_put(l->ctx, hints));
}

status_t file_load(loading_t *l)
{
    char *text = NULL;
    TRY(file_open(l));
    TRY(load_blobs(l));
    TRY(file_string(l, &l->header->text, &text));
    status_t status = blame_file(l, load_text(l, text));
    context_put(l->ctx, text);
    TRY(status);
    return warm_all(l);
}

status_t freeze_load(context_t *ctx, const char *path, module_t **out_frozen)
{
    return freeze_load_with(ctx, path, NULL, out_frozen);
}

status_t freeze_load_with(context_t *ctx, const char *path, const freeze_load_options_t *options,
                          module_t **out_frozen)
{
    TRY(context_output(ctx, "freeze_load", out_frozen));
    loading_t loading = {.ctx = ctx, .path = path, .tensors = {.ctx = ctx}};
    if (options != NULL) loading.options = *options;
    if (path == NULL) return context_null(ctx, "freeze_load", "path");
    interrupt_begin(ctx, "freeze_load");
    status_t status = file_load(&loading);
    if (status == STATUS_OK) {
        *out_frozen = loading.module;
        loading.module = NULL;
    }
    file_close(&loading);
    return interrupt_end(ctx, status);
}
