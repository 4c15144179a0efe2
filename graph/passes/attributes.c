#include <string.h>

#include "graph/analysis/keep_impl.h"
#include "graph/passes/pass_impl.h"
#include "tensor/context_impl.h"

/* First finds the attributes that must stay attributes, by looking at this graph and all graph
 * methods of the root and its descendants. Each other attribute becomes one constant in the body,
 * which replaces all getattr nodes of this attribute. */

/* A constant that was added. */
typedef struct frozen {
    attribute_t attribute;
    value_t value;
} frozen_t;

typedef struct freezing {
    context_t *ctx;
    const graph_t *graph;
    module_t **objects; /* for each value, the module that it is, or NULL */
    const char *const *only;
    keeping_t keeping;
    frozen_t *frozen;
    int n_frozen, capacity;
    int n_in_body; /* nodes of the body visited so far */
    int n_done;
} freezing_t;

static bool is_asked_for(const freezing_t *freezing, const attribute_t *attribute)
{
    for (const char *const *path = freezing->only; path != NULL && *path != NULL; path++) {
        attribute_t asked;
        if (attribute_find(freezing->keeping.root, *path, &asked) &&
            asked.owner == attribute->owner && strcmp(asked.name, attribute->name) == 0)
            return true;
    }
    return freezing->only == NULL;
}

static bool is_frozen(const freezing_t *freezing, const graph_node_t *node,
                      attribute_t *out_attribute)
{
    if (node->kind != NODE_GETATTR || node->inputs[0] < 0) return false;
    module_t *object = freezing->objects[node->inputs[0]];
    if (object == NULL || !attribute_find(object, node->name, out_attribute)) return false;
    return out_attribute->kind != MEMBER_CHILD && out_attribute->kind != MEMBER_METHOD &&
           is_asked_for(freezing, out_attribute) &&
           !keep_holds(&freezing->keeping, out_attribute, NULL);
}

/* ---- constants ---- */

/* Names a constant after the path that a getattr, or a chain of getattrs, reads:
 * "layer1.conv1.weight". */
static void name_constant(const freezing_t *freezing, const graph_node_t *node, text_t *name)
{
    const graph_node_t *owner = graph_producer(freezing->graph, node->inputs[0]);
    if (owner != NULL && owner->kind == NODE_GETATTR && owner->inputs[0] >= 0) {
        name_constant(freezing, owner, name);
        text_append(name, ".");
    }
    text_append(name, "%s", node->name);
}

static const frozen_t *find_frozen(const freezing_t *freezing, const attribute_t *attribute)
{
    for (int i = 0; i < freezing->n_frozen; i++) {
        const attribute_t *made = &freezing->frozen[i].attribute;
        if (made->owner == attribute->owner && strcmp(made->name, attribute->name) == 0)
            return &freezing->frozen[i];
    }
    return NULL;
}

static status_t make_constant(rewrite_t *rewrite, const graph_node_t *node,
                              const attribute_t *attribute, datum_t *datum)
{
    freezing_t *freezing = rewrite->user;
    datum_t *copy = NULL;
    TRY(context_grow(rewrite->ctx, &freezing->frozen, &freezing->capacity, freezing->n_frozen + 1,
                     sizeof *freezing->frozen));
    TRY(attribute_copy(rewrite->ctx, datum, &copy));
    text_t name = text_begin(rewrite->ctx);
    name_constant(freezing, node, &name);
    freezing->frozen[freezing->n_frozen++] = (frozen_t){
        *attribute, graph_add_constant(rewrite->to, copy, text_string(&name))};
    status_t status = text_status(&name);
    text_clear(&name);
    datum_release(copy);
    return status;
}

/* Maps a getattr to its constant. An absent parameter that only operators read becomes an omitted
 * operand. */
static status_t map_constant(rewrite_t *rewrite, const graph_node_t *node,
                             const attribute_t *attribute)
{
    datum_t *datum = NULL;
    module_t *child = NULL;
    TRY(attribute_get(rewrite->ctx, attribute->owner, attribute->name, &datum, &child));
    status_t status = STATUS_OK;
    const frozen_t *frozen = find_frozen(rewrite->user, attribute);
    if (datum_kind(datum) == DATUM_NONE &&
        rewrite_feeds_operators(rewrite->from, node->outputs[0])) {
        rewrite_map(rewrite, node->outputs[0], VALUE_NONE);
    } else {
        if (frozen == NULL) status = make_constant(rewrite, node, attribute, datum);
        if (status == STATUS_OK)
            rewrite_map(rewrite, node->outputs[0], find_frozen(rewrite->user, attribute)->value);
    }
    datum_release(datum);
    return status;
}

static status_t freeze_inner(void *user, const graph_node_t *node)
{
    rewrite_t *rewrite = user;
    attribute_t attribute;
    return is_frozen(rewrite->user, node, &attribute) ? map_constant(rewrite, node, &attribute)
                                                      : STATUS_OK;
}

/* Before each node of the body, adds the constants that the node's blocks need. */
static status_t freeze_node(rewrite_t *rewrite, const graph_node_t *node, bool *out_done)
{
    freezing_t *freezing = rewrite->user;
    const graph_block_t *body = graph_body(rewrite->from);
    attribute_t attribute;
    bool is_in_body = freezing->n_in_body < body->n_nodes &&
                      body->nodes[freezing->n_in_body] == node;
    freezing->n_in_body += is_in_body;
    *out_done = is_frozen(freezing, node, &attribute);
    if (*out_done) return is_in_body ? map_constant(rewrite, node, &attribute) : STATUS_OK;
    for (int b = 0; b < node->n_blocks && is_in_body; b++)
        TRY(rewrite_visit(node->blocks[b], freeze_inner, rewrite));
    return STATUS_OK;
}

/* ---- pass ---- */

static status_t count_getattr(void *user, const graph_node_t *node)
{
    *(int *)user += node->kind == NODE_GETATTR;
    return STATUS_OK;
}

static status_t count_frozen(void *user, const graph_node_t *node)
{
    freezing_t *freezing = user;
    attribute_t attribute;
    freezing->n_done += is_frozen(freezing, node, &attribute);
    return STATUS_OK;
}

static status_t note_what_stays(void *user, const graph_node_t *node)
{
    static const char *const reasons[] = {
        [KEEP_WISHED] = "it is preserved by name",
        [KEEP_PART] = "it belongs to a module that is used as a value",
        [KEEP_SET] = "a method sets it",
        [KEEP_WRITTEN] = "a method writes it in place",
        [KEEP_SHARED] = "it shares bytes or lists with a value that a method changes",
    };
    freezing_t *freezing = user;
    attribute_t attribute;
    kept_t why;
    module_t *object = node->kind == NODE_GETATTR && node->inputs[0] >= 0
                           ? freezing->objects[node->inputs[0]]
                           : NULL;
    if (object != NULL && attribute_find(object, node->name, &attribute) &&
        attribute.kind != MEMBER_CHILD && keep_holds(&freezing->keeping, &attribute, &why))
        pass_note(freezing->ctx, "attributes", node, reasons[why.reason]);
    return STATUS_OK;
}

status_t pass_attributes(context_t *ctx, const graph_t *graph, const pass_options_t *options,
                         graph_t **out_graph)
{
    int n_getattr = 0;
    (void)rewrite_visit(graph_body(graph), count_getattr, &n_getattr);
    if (options->self == NULL || n_getattr == 0) return rewrite_nothing(graph, out_graph);
    freezing_t freezing = {.ctx = ctx, .graph = graph, .only = options->only};
    module_t *root = options->root != NULL ? options->root : options->self;
    TRY(keep_find(ctx, root, options->keep, graph, options->self, &freezing.keeping));
    status_t status = attribute_objects(ctx, graph, options->self, &freezing.objects);
    if (status == STATUS_OK) {
        (void)rewrite_visit(graph_body(graph), count_frozen, &freezing),
            (void)rewrite_visit(graph_body(graph), note_what_stays, &freezing);
        status = freezing.n_done > 0 ? rewrite_graph(ctx, graph, freeze_node, &freezing, out_graph)
                                     : rewrite_nothing(graph, out_graph);
    }
    CONTEXT_PUT(ctx, freezing.objects, freezing.frozen);
    keep_clear(&freezing.keeping);
    return status;
}
