/* freeze_add: adds graphs of the same model, frozen for other sizes. Equal constants are stored
 * once, so another graph needs little more memory than its text. */
#include <string.h>

#include "freeze/freeze_impl.h"
#include "graph/ir/graph_impl.h"
#include "graph/ir/rewrite_impl.h"
#include "graph/method/method_impl.h"
#include "module/module_impl.h"
#include "tensor/context_impl.h"
#include "tensor/hash_impl.h"
#include "tensor/threads/interrupt_impl.h"

/* A constant of the module to which graphs are added. */
typedef struct known {
    const datum_t *datum;
    uint64_t hash; /* hash of the elements */
} known_t;

typedef struct adding {
    context_t *ctx;
    known_t *known;
    int n_known, capacity;
    const char *path; /* such as "getattr": a node that uses its module; NULL: none */
} adding_t;

/* ---- equal constants ---- */

/* Reads all elements; the caller frees them with context_put. */
static status_t read_elements(context_t *ctx, const tensor_t *tensor, size_t *out_bytes,
                              void **out_elements)
{
    *out_bytes = (size_t)tensor_numel(tensor) * dtype_size(tensor_dtype(tensor));
    TRY(context_get(ctx, *out_bytes, "the elements of a constant", out_elements));
    status_t status = tensor_read(ctx, tensor, *out_elements, *out_bytes);
    if (status != STATUS_OK) context_put(ctx, *out_elements);
    return status;
}

static status_t hash_elements(context_t *ctx, const tensor_t *tensor, uint64_t *out_hash)
{
    void *elements = NULL;
    size_t n_bytes = 0;
    TRY(read_elements(ctx, tensor, &n_bytes, &elements));
    *out_hash = hash_bytes(elements, n_bytes, 0);
    context_put(ctx, elements);
    return STATUS_OK;
}

static status_t compare(context_t *ctx, const tensor_t *a, const tensor_t *b, bool *out_is_equal)
{
    void *one = NULL, *other = NULL;
    size_t n_bytes = 0;
    TRY(read_elements(ctx, a, &n_bytes, &one));
    status_t status = read_elements(ctx, b, &n_bytes, &other);
    if (status == STATUS_OK) *out_is_equal = memcmp(one, other, n_bytes) == 0;
    if (status == STATUS_OK) context_put(ctx, other);
    context_put(ctx, one);
    return status;
}

static bool is_shared(const datum_t *datum)
{
    return datum_kind(datum) == DATUM_TENSOR;
}

static bool is_of_same_form(const tensor_info_t *a, const tensor_info_t *b)
{
    return a->dtype == b->dtype && a->layout == b->layout &&
           shape_equal(a->rank, a->sizes, b->rank, b->sizes) &&
           (a->layout == LAYOUT_DENSE || format_same(&a->format, &b->format, a->sizes));
}

static status_t note_constant(void *user, const graph_node_t *node)
{
    adding_t *adding = user;
    known_t known = {.datum = node->datum};
    if (node->kind != NODE_CONSTANT || !is_shared(node->datum)) return STATUS_OK;
    TRY(hash_elements(adding->ctx, datum_as_tensor(node->datum), &known.hash));
    TRY(context_grow(adding->ctx, &adding->known, &adding->capacity, adding->n_known + 1,
                     sizeof *adding->known));
    adding->known[adding->n_known++] = known;
    return STATUS_OK;
}

static status_t find_equal(adding_t *adding, const datum_t *datum, const datum_t **out_equal)
{
    const tensor_t *tensor = datum_as_tensor(datum);
    uint64_t hash = 0;
    bool is_equal = false;
    TRY(hash_elements(adding->ctx, tensor, &hash));
    for (int i = 0; i < adding->n_known && !is_equal; i++) {
        const tensor_t *other = datum_as_tensor(adding->known[i].datum);
        if (adding->known[i].hash != hash ||
            !is_of_same_form(tensor_info(other), tensor_info(tensor)))
            continue;
        TRY(compare(adding->ctx, other, tensor, &is_equal));
        if (is_equal) *out_equal = adding->known[i].datum;
    }
    return STATUS_OK;
}

/* Replaces a constant by an equal one of the module. */
static status_t share_constant(rewrite_t *rewrite, const graph_node_t *node, bool *out_done)
{
    const datum_t *equal = NULL;
    if (node->kind != NODE_CONSTANT || !is_shared(node->datum)) return STATUS_OK;
    TRY(find_equal(rewrite->user, node->datum, &equal));
    if (equal == NULL) return STATUS_OK;
    graph_node_t shared = *node;
    shared.datum = (datum_t *)(uintptr_t)equal;
    *out_done = true;
    return rewrite_emit(rewrite, &shared, NULL, node->outputs);
}

/* ---- checks and adding ---- */

/* Finds a node that reads or calls the graph's module. Only graphs are added, not attributes. */
static status_t find_read(void *user, const graph_node_t *node)
{
    adding_t *adding = user;
    if (node->kind == NODE_GETATTR || node->kind == NODE_SETATTR || node->kind == NODE_CALL)
        adding->path = graph_node_word(node);
    return STATUS_OK;
}

static status_t add_graph(adding_t *adding, module_t *frozen, const char *method,
                          const graph_t *graph)
{
    context_t *ctx = adding->ctx;
    graph_t *shared = NULL;
    REQUIRE(ctx, graph_is_alike(graph_of(frozen, method), graph),
            "freeze_add: %s of the other module has other inputs or results than %s of %s", method,
            method, module_type(frozen));
    adding->path = NULL;
    (void)rewrite_visit(graph_body(graph), find_read, adding);
    if (adding->path != NULL)
        FAIL(ctx, STATUS_UNSUPPORTED,
             "freeze_add: %s of the other module contains a %s, attributes of that module cannot "
             "be added",
             method, adding->path);
    TRY(rewrite_graph(ctx, graph, share_constant, adding, &shared));
    status_t status = plan_add_graph(ctx, frozen, method, shared);
    graph_release(shared);
    return status;
}

static status_t add_method(adding_t *adding, module_t *frozen, const module_t *other,
                           const char *method)
{
    context_t *ctx = adding->ctx;
    REQUIRE(ctx, plan_is_method(other, method),
            "freeze_add: the other module has no frozen method \"%s\"", method);
    adding->n_known = 0;
    for (int k = 0; k < plan_n_graphs(frozen, method); k++)
        TRY(rewrite_visit(graph_body(plan_graph_at(frozen, method, k)), note_constant, adding));
    for (int k = 0; k < plan_n_graphs(other, method); k++)
        TRY(add_graph(adding, frozen, method, plan_graph_at(other, method, k)));
    return STATUS_OK;
}

static status_t add_methods(context_t *ctx, module_t *frozen, const module_t *other)
{
    adding_t adding = {.ctx = ctx};
    status_t status = STATUS_OK;
    for (int i = 0; i < module_n_members(frozen) && status == STATUS_OK; i++) {
        member_kind_t kind;
        const char *name = module_member(frozen, i, &kind);
        if (kind == MEMBER_METHOD && plan_is_method(frozen, name))
            status = add_method(&adding, frozen, other, name);
    }
    context_put(ctx, adding.known);
    return status;
}

status_t freeze_add(context_t *ctx, module_t *frozen, const module_t *other)
{
    if (frozen == NULL) return context_null(ctx, "freeze_add", "module");
    if (other == NULL) return context_null(ctx, "freeze_add", "other");
    REQUIRE(ctx, freeze_is_frozen(frozen) && freeze_is_frozen(other),
            "freeze_add: %s is not frozen, freeze it first",
            module_type(freeze_is_frozen(frozen) ? other : frozen));
    REQUIRE(ctx, frozen != other, "freeze_add: %s is added to itself", module_type(frozen));
    interrupt_begin(ctx, "freeze_add");
    return interrupt_end(ctx, add_methods(ctx, frozen, other));
}
