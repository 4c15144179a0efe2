/* freeze_add: adds graphs of the same model, frozen for other sizes. Equal constants are stored
 * once, so another graph needs little more memory than its text. */
#include <string.h>

#include "freeze/freeze_impl.h"
#include "graph/ir/graph_impl.h"
#include "graph/ir/rewrite_impl.h"
#include "graph/method/method_impl.h"
#include "module/module_impl.h"
#include "ops/shape/shapes.h"
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

static bool has_same_elements(const tensor_info_t *a, const tensor_info_t *b)
{
    return a->dtype == b->dtype && shape_equal(a->rank, a->sizes, b->rank, b->sizes);
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
            !has_same_elements(tensor_info(other), tensor_info(tensor)))
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

static status_t share(adding_t *adding, const module_t *frozen, const char *method,
                      const graph_t *graph, graph_t **out_shared)
{
    context_t *ctx = adding->ctx;
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
    return rewrite_graph(ctx, graph, share_constant, adding, out_shared);
}

static status_t add_graph(adding_t *adding, module_t *frozen, const char *method,
                          const graph_t *graph)
{
    graph_t *shared = NULL;
    TRY(share(adding, frozen, method, graph, &shared));
    FINISH(plan_add_graph(adding->ctx, frozen, method, shared), graph_release(shared));
}

static status_t note_constants(adding_t *adding, const module_t *frozen, const char *method)
{
    adding->n_known = 0;
    for (int k = 0; k < plan_n_graphs(frozen, method); k++)
        TRY(rewrite_visit(graph_body(plan_graph_at(frozen, method, k)), note_constant, adding));
    return STATUS_OK;
}

static status_t add_method(adding_t *adding, module_t *frozen, const module_t *other,
                           const char *method)
{
    context_t *ctx = adding->ctx;
    REQUIRE(ctx, plan_is_method(other, method),
            "freeze_add: the other module has no frozen method \"%s\"", method);
    TRY(note_constants(adding, frozen, method));
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

/* ---- models that other sizes are imported from ---- */

status_t freeze_share_graph(context_t *ctx, const module_t *frozen, const char *method,
                            const graph_t *graph, graph_t **out_shared)
{
    adding_t adding = {.ctx = ctx};
    status_t status = note_constants(&adding, frozen, method);
    if (status == STATUS_OK) status = share(&adding, frozen, method, graph, out_shared);
    context_put(ctx, adding.known);
    return status;
}

/* Finds a constant that equals the transpose of a matrix. *out_list receives a list with this
 * constant, because a list marks it as transposed. */
static status_t find_transposed(adding_t *adding, const datum_t *datum, datum_t **out_list)
{
    context_t *ctx = adding->ctx;
    tensor_t *matrix = datum_as_tensor(datum);
    tensor_t *transposed = NULL;
    datum_t *own = NULL;
    const datum_t *equal = NULL;
    if (tensor_rank(matrix) != 2) return STATUS_OK;
    TRY(op_transpose(ctx, matrix, 0, 1, &transposed));
    scope_keep(ctx, transposed);
    status_t status = datum_tensor(ctx, transposed, &own);
    if (status == STATUS_OK) status = find_equal(adding, own, &equal);
    if (status == STATUS_OK && equal != NULL)
        status = datum_list(ctx, 1, (datum_t *[]){(datum_t *)(uintptr_t)equal}, out_list);
    datum_release(own);
    tensor_drop(transposed);
    return status;
}

static status_t share_tensor(adding_t *adding, datum_t *dict, int index)
{
    const datum_t *datum = datum_item(dict, index), *equal = NULL;
    datum_t *list = NULL;
    TRY(find_equal(adding, datum, &equal));
    if (equal == NULL) TRY(find_transposed(adding, datum, &list));
    datum_t *value = equal != NULL ? (datum_t *)(uintptr_t)equal : list;
    if (value == NULL) return STATUS_OK;
    FINISH(datum_put(adding->ctx, dict, datum_key(dict, index), value), datum_release(list));
}

status_t freeze_share_tensors(context_t *ctx, const module_t *frozen, const char *method,
                              datum_t *dict)
{
    adding_t adding = {.ctx = ctx};
    status_t status = note_constants(&adding, frozen, method);
    for (int i = 0; i < datum_length(dict) && status == STATUS_OK; i++)
        status = share_tensor(&adding, dict, i);
    context_put(ctx, adding.known);
    return status;
}
