/* Freezing a module: a clone's graphs go through the pipeline, and what they still need of it moves
 * into a new module. */
#include "freeze/freeze.h"

#include <string.h>

#include "freeze/freeze_impl.h"
#include "graph/attribute_impl.h"
#include "tensor/context_impl.h"

status_t freeze_module(context_t *ctx, const char *type_name, module_t **out_module)
{
    module_t *module = NULL;
    datum_t *mark = NULL;
    TRY(module_create(ctx, type_name, &module));
    status_t status = datum_bool(ctx, true, &mark);
    if (status == STATUS_OK) status = module_set_attribute(ctx, module, FREEZE_MARK, mark);
    datum_release(mark);
    if (status != STATUS_OK) {
        module_release(module);
        return status;
    }
    *out_module = module;
    return STATUS_OK;
}

bool freeze_is_frozen(const module_t *module)
{
    return module != NULL && module_attribute(module, FREEZE_MARK) != NULL;
}

/* ---- what stays ---- */

static graph_t *method_graph(const module_t *module, const char *name)
{
    graph_t *graph = graph_of(module, name);
    return graph != NULL ? graph : plan_method_graph(module, name);
}

static status_t check_module(context_t *ctx, module_t *module, const freeze_options_t *options)
{
    REQUIRE(ctx, !module_is_training(module),
            "freeze: %s is in training mode, only evaluation mode can be frozen: "
            "module_train(ctx, module, false)",
            module_type(module));
    bool has_graph = method_graph(module, "forward") != NULL;
    for (const char *const *name = options->preserved; name != NULL && *name != NULL; name++) {
        attribute_t attribute;
        bool is_method = module_method(module, *name, NULL) != NULL;
        REQUIRE(ctx, is_method || attribute_find(module, *name, &attribute),
                "freeze: \"%s\" is unknown, %s has no attribute or method of this name", *name,
                module_type(module));
        REQUIRE(ctx, !is_method || method_graph(module, *name) != NULL,
                "freeze: method \"%s\" has no graph, graph_trace or graph_define gives it one",
                *name);
        has_graph = has_graph || is_method;
    }
    REQUIRE(ctx, has_graph,
            "freeze: %s has no graph, graph_trace or graph_define gives its methods one",
            module_type(module));
    return STATUS_OK;
}

status_t freeze_owner(context_t *ctx, module_t *root, const char *path, const char **out_name,
                      module_t **out_owner)
{
    const char *dot;
    module_t *owner = root;
    while ((dot = strchr(path, '.')) != NULL) {
        char name[256];
        size_t length = (size_t)(dot - path);
        REQUIRE(ctx, length > 0 && length < sizeof name, "freeze: path \"%s\" is too long", path);
        memcpy(name, path, length);
        name[length] = '\0';
        module_t *child = module_child(owner, name);
        if (child == NULL) {
            TRY(module_create(ctx, "Module", &child));
            status_t status = module_set_child(ctx, owner, name, child);
            module_release(child);
            TRY(status);
            child = module_child(owner, name);
        }
        owner = child;
        path = dot + 1;
    }
    *out_name = path;
    *out_owner = owner;
    return STATUS_OK;
}

static status_t move_attribute(context_t *ctx, module_t *from, const char *path, module_t *to)
{
    attribute_t attribute;
    if (!attribute_find(from, path, &attribute)) return STATUS_OK;
    module_t *owner = NULL, *child = NULL;
    const char *name = NULL;
    TRY(freeze_owner(ctx, to, path, &name, &owner));
    if (attribute.kind == MEMBER_CHILD)
        return module_set_child(ctx, owner, name, module_child(from, path));
    if (attribute.kind == MEMBER_METHOD) return STATUS_OK;
    datum_t *datum = NULL;
    TRY(attribute_get(ctx, from, path, &datum, &child));
    tensor_t *tensor = datum_kind(datum) == DATUM_TENSOR ? datum_as_tensor(datum) : NULL;
    status_t status = attribute.kind == MEMBER_PARAMETER
                          ? module_set_parameter(ctx, owner, name, tensor)
                      : attribute.kind == MEMBER_BUFFER
                          ? module_set_buffer(ctx, owner, name, tensor)
                          : module_set_attribute(ctx, owner, name, datum);
    datum_release(datum);
    return status;
}

typedef struct moving {
    context_t *ctx;
    module_t *from, *to;
} moving_t;

static status_t move_used(void *user, const graph_node_t *node)
{
    moving_t *moving = user;
    if (node->kind != NODE_GETATTR && node->kind != NODE_SETATTR) return STATUS_OK;
    return move_attribute(moving->ctx, moving->from, node->name, moving->to);
}

static status_t visit_nodes(const graph_block_t *block, moving_t *moving)
{
    for (int i = 0; i < block->n_nodes; i++) {
        TRY(move_used(moving, block->nodes[i]));
        for (int b = 0; b < block->nodes[i]->n_blocks; b++)
            TRY(visit_nodes(block->nodes[i]->blocks[b], moving));
    }
    return STATUS_OK;
}

/* ---- freezing ---- */

static status_t freeze_method(context_t *ctx, module_t *clone, const char *name,
                              const freeze_options_t *options, module_t *frozen)
{
    pass_options_t passes = {.skip = options->skip,
                             .after = options->after,
                             .dump = options->dump,
                             .dump_user = options->dump_user,
                             .keep_numerics = options->keep_numerics,
                             .self = clone,
                             .keep = options->preserved};
    graph_t *constant = NULL, *graph = NULL;
    TRY(pass_run(ctx, method_graph(clone, name), pass_pipeline_freeze(), &passes, &constant));
    status_t status = pass_run(ctx, constant, pass_pipeline_optimize(), &passes, &graph);
    graph_release(constant);
    TRY(status);
    moving_t moving = {ctx, clone, frozen};
    status = visit_nodes(graph_body(graph), &moving);
    if (status == STATUS_OK) status = plan_set_method(ctx, frozen, name, graph, 0);
    graph_release(graph);
    if (status == STATUS_OK) status = plan_warm(ctx, frozen, name);
    return status;
}

static status_t freeze_clone(context_t *ctx, module_t *clone, const freeze_options_t *options,
                             module_t *frozen)
{
    static const char *const borders[] = {"input_names", "output_names"};
    if (method_graph(clone, "forward") != NULL)
        TRY(freeze_method(ctx, clone, "forward", options, frozen));
    for (const char *const *name = options->preserved; name != NULL && *name != NULL; name++) {
        if (module_method(clone, *name, NULL) == NULL)
            TRY(move_attribute(ctx, clone, *name, frozen));
        else if (strcmp(*name, "forward") != 0)
            TRY(freeze_method(ctx, clone, *name, options, frozen));
    }
    for (size_t i = 0; i < sizeof borders / sizeof *borders; i++)
        if (module_attribute(clone, borders[i]) != NULL)
            TRY(move_attribute(ctx, clone, borders[i], frozen));
    return STATUS_OK;
}

status_t freeze(context_t *ctx, module_t *module, const freeze_options_t *options,
                module_t **out_frozen)
{
    static const freeze_options_t none;
    if (module == NULL) return context_null(ctx, "freeze", "module");
    if (options == NULL) options = &none;
    if (freeze_is_frozen(module)) return module_clone(ctx, module, out_frozen);
    TRY(check_module(ctx, module, options));
    module_t *clone = NULL, *frozen = NULL;
    TRY(module_clone(ctx, module, &clone));
    status_t status = freeze_module(ctx, module_type(module), &frozen);
    if (status == STATUS_OK) status = freeze_clone(ctx, clone, options, frozen);
    module_release(clone);
    if (status != STATUS_OK) {
        module_release(frozen);
        return status;
    }
    *out_frozen = frozen;
    return STATUS_OK;
}
