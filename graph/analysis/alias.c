#include "graph/analysis/alias_impl.h"

#include <stdlib.h>
#include <string.h>

#include "graph/ir/graph_impl.h"
#include "graph/ir/rewrite_impl.h"
#include "tensor/context_impl.h"
#include "tensor/tensor_impl.h"

/* ---- classes ---- */

/* The address of this variable identifies the analysis. */
static const char analysis_kind;

/* Union-find with path halving. */
static int find_root(alias_t *alias, int index)
{
    alias_class_t *classes = alias->classes;
    while (classes[index].parent != index) {
        classes[index].parent = classes[classes[index].parent].parent;
        index = classes[index].parent;
    }
    return index;
}

int alias_root(const alias_t *alias, int index)
{
    while (alias->classes[index].parent != index) index = alias->classes[index].parent;
    return index;
}

static bool has_memory(type_kind_t kind)
{
    return kind == TYPE_UNKNOWN || kind == TYPE_TENSOR || kind == TYPE_LIST || kind == TYPE_TUPLE ||
           kind == TYPE_DICT;
}

int alias_class(const alias_t *alias, value_t value)
{
    if (value < 0 || !has_memory(graph_value_type(alias->graph, value)->kind)) return -1;
    return alias_root(alias, value);
}

/* The class of everything that calls may reach. Its contents are the class itself. */
static int outside(const alias_t *alias)
{
    return graph_n_values(alias->graph);
}

static status_t add_class(alias_t *alias, int *out_index)
{
    TRY(context_grow(alias->ctx, &alias->classes, &alias->class_capacity, alias->n_classes + 1,
                     sizeof *alias->classes));
    *out_index = alias->n_classes++;
    alias->classes[*out_index] = (alias_class_t){.parent = *out_index, .contents = -1};
    return STATUS_OK;
}

/* Joins two classes, then the classes of their contents. A negative index means no class. */
static void join(alias_t *alias, int a, int b)
{
    alias_class_t *classes = alias->classes;
    while (a >= 0 && b >= 0) {
        a = alias_root(alias, a);
        b = alias_root(alias, b);
        if (a == b) return;
        classes[b].parent = a;
        classes[a].origins |= classes[b].origins;
        if (classes[a].writer == NULL) classes[a].writer = classes[b].writer;
        if (classes[a].keeper == NULL) classes[a].keeper = classes[b].keeper;
        int inner = classes[a].contents;
        if (inner < 0) classes[a].contents = classes[b].contents;
        a = inner;
        b = classes[b].contents;
    }
}

static status_t contents_of(alias_t *alias, int container, int *out_contents)
{
    *out_contents = -1;
    if (container < 0) return STATUS_OK;
    container = alias_root(alias, container);
    if (alias->classes[container].contents < 0) {
        int made;
        TRY(add_class(alias, &made));
        alias->classes[container].contents = made;
    }
    *out_contents = alias_root(alias, alias->classes[container].contents);
    return STATUS_OK;
}

static void mark(alias_t *alias, int class, const graph_node_t *writer)
{
    if (class < 0) return;
    class = alias_root(alias, class);
    if (alias->classes[class].writer == NULL) alias->classes[class].writer = writer;
}

static void add_origin(alias_t *alias, int class, alias_origin_t origin)
{
    if (class >= 0) alias->classes[alias_root(alias, class)].origins |= origin;
}

/* ---- members of modules ---- */

static status_t add_place(alias_t *alias, int parent, const char *name, size_t length, int *out)
{
    int class;
    TRY(add_class(alias, &class));
    TRY(context_grow(alias->ctx, &alias->places, &alias->place_capacity, alias->n_places + 1,
                     sizeof *alias->places));
    *out = alias->n_places++;
    alias->places[*out] = (alias_place_t){.parent = parent,
                                          .first_child = -1,
                                          .next = -1,
                                          .root = VALUE_NONE,
                                          .name = name,
                                          .length = (int)length,
                                          .class = class};
    if (parent >= 0) {
        alias->places[*out].next = alias->places[parent].first_child;
        alias->places[parent].first_child = *out;
    }
    return STATUS_OK;
}

/* The entry of a module's value. A value without an entry becomes the root of a new tree. */
static status_t place_of(alias_t *alias, value_t module, int *out)
{
    *out = alias->place_of[module];
    if (*out >= 0) return STATUS_OK;
    TRY(add_place(alias, -1, "", 0, out));
    alias->places[*out].root = module;
    alias->place_of[module] = *out;
    return STATUS_OK;
}

static status_t place_below(alias_t *alias, int place, const char *path, int *out)
{
    for (;;) {
        size_t length = strcspn(path, ".");
        int child = alias->places[place].first_child;
        while (child >= 0 && ((size_t)alias->places[child].length != length ||
                              memcmp(alias->places[child].name, path, length) != 0))
            child = alias->places[child].next;
        if (child < 0) TRY(add_place(alias, place, path, length, &child));
        place = child;
        if (path[length] == '\0') break;
        path += length + 1;
    }
    *out = place;
    return STATUS_OK;
}

/* Joins what a module from outside contains with the outside. Parents precede their children in the
 * array, so one pass is enough. */
static void join_outside(alias_t *alias)
{
    for (int i = 0; i < alias->n_places; i++) {
        alias_place_t *place = &alias->places[i];
        if (place->parent < 0) continue;
        place->is_outside |= alias->places[place->parent].is_outside;
        if (place->is_outside) join(alias, outside(alias), place->class);
    }
}

static int by_name(const void *a, const void *b)
{
    const alias_place_t *x = *(alias_place_t *const *)a, *y = *(alias_place_t *const *)b;
    if (x->length != y->length) return x->length < y->length ? -1 : 1;
    return memcmp(x->name, y->name, (size_t)x->length);
}

/* A module that does not come from the first parameter may be any module, so members with equal
 * names may be the same member. */
static status_t join_unknown_modules(alias_t *alias)
{
    const graph_block_t *body = graph_body(alias->graph);
    bool is_known = true;
    for (int i = 0; i < alias->n_places; i++)
        is_known &= alias->places[i].parent >= 0 ||
                    (body->n_params > 0 && alias->places[i].root == body->params[0]);
    if (is_known) return STATUS_OK;
    const alias_place_t **places;
    TRY(context_get(alias->ctx, (size_t)alias->n_places * sizeof *places, "places of values",
                    &places));
    for (int i = 0; i < alias->n_places; i++) places[i] = &alias->places[i];
    qsort(places, (size_t)alias->n_places, sizeof *places, by_name);
    for (int i = 1; i < alias->n_places; i++) {
        if (places[i]->length > 0 && by_name(&places[i], &places[i - 1]) == 0)
            join(alias, places[i]->class, places[i - 1]->class);
    }
    context_put(alias->ctx, places);
    return STATUS_OK;
}

/* ---- nodes ---- */

bool alias_has_effect(const graph_node_t *node)
{
    if (node->kind == NODE_SETATTR || node->kind == NODE_CALL || rewrite_is_builtin(node, "append"))
        return true;
    if (node->kind == NODE_OP && node->is_in_place) return true;
    for (int b = 0; b < node->n_blocks; b++) {
        for (int i = 0; i < node->blocks[b]->n_nodes; i++) {
            if (alias_has_effect(node->blocks[b]->nodes[i])) return true;
        }
    }
    return false;
}

/* True if the result may share bytes with the input. Includes operators that return their input
 * itself if no conversion is needed. */
bool alias_shares(const graph_node_t *node)
{
    if (node->kind == NODE_BUILTIN)
        return strncmp(node->name, "scalar_", 7) != 0 && strcmp(node->name, "len") != 0 &&
               strcmp(node->name, "size") != 0 && strcmp(node->name, "shape") != 0;
    if (node->kind != NODE_OP) return node->kind != NODE_CONSTANT;
    return node->is_in_place || (node->op->traits & (TRAIT_VIEW | TRAIT_IDENTITY)) != 0 ||
           rewrite_is_op(node, "cast") || rewrite_is_op(node, "to_dense") ||
           rewrite_is_op(node, "to_mkldnn") || rewrite_is_op(node, "reorder");
}

static void join_blocks(alias_t *alias, const graph_node_t *node)
{
    bool is_loop = node->kind == NODE_LOOP;
    for (int b = 0; b < node->n_blocks; b++) {
        const graph_block_t *block = node->blocks[b];
        for (int i = 0; i < node->n_outputs; i++) {
            int at = is_loop ? i + 1 : i, out = alias_class(alias, node->outputs[i]);
            if (at < block->n_results) join(alias, out, alias_class(alias, block->results[at]));
            if (!is_loop) continue;
            if (at + 1 < node->n_inputs) join(alias, out, alias_class(alias, node->inputs[at + 1]));
            if (at < block->n_params) join(alias, out, alias_class(alias, block->params[at]));
        }
    }
}

/* If an operand is a list, its items are the operands; an operand of unknown type may be a list. */
static status_t look_at_op(alias_t *alias, const graph_node_t *node)
{
    if (!alias_shares(node) || node->n_inputs == 0 || node->inputs[0] < 0) return STATUS_OK;
    int given = alias_class(alias, node->inputs[0]);
    type_kind_t kind = graph_value_type(alias->graph, node->inputs[0])->kind;
    int items = -1;
    if (kind != TYPE_TENSOR && !node->is_in_place) TRY(contents_of(alias, given, &items));
    for (int i = 0; i < node->n_outputs; i++) {
        int out = alias_class(alias, node->outputs[i]);
        if (kind == TYPE_TENSOR || kind == TYPE_UNKNOWN || node->is_in_place)
            join(alias, given, out);
        join(alias, items, out);
    }
    if (node->is_in_place) mark(alias, given, node);
    return STATUS_OK;
}

/* The result is a new list: it contains the old list's items and the inserted item. */
static status_t look_at_copy(alias_t *alias, const graph_node_t *node)
{
    int items, copies;
    TRY(contents_of(alias, alias_class(alias, node->inputs[0]), &items));
    TRY(contents_of(alias, alias_class(alias, node->outputs[0]), &copies));
    join(alias, items, copies);
    if (rewrite_is_builtin(node, "insert")) join(alias, items, alias_class(alias, node->inputs[1]));
    return STATUS_OK;
}

static status_t look_at_builtin(alias_t *alias, const graph_node_t *node)
{
    if (!alias_shares(node)) return STATUS_OK;
    if (rewrite_is_builtin(node, "insert") || rewrite_is_builtin(node, "erase"))
        return look_at_copy(alias, node);
    if (rewrite_is_builtin(node, "element")) {
        join(alias, alias_class(alias, node->inputs[0]), alias_class(alias, node->outputs[0]));
        return STATUS_OK;
    }
    bool makes = rewrite_is_builtin(node, "list") || rewrite_is_builtin(node, "tuple") ||
                 rewrite_is_builtin(node, "dict");
    value_t container = makes ? node->outputs[0] : node->inputs[0];
    int class = alias_class(alias, container), items;
    TRY(contents_of(alias, class, &items));
    for (int i = makes ? 0 : 1; i < node->n_inputs; i++)
        join(alias, items, alias_class(alias, node->inputs[i]));
    for (int i = 0; i < node->n_outputs && !makes; i++)
        join(alias, items, alias_class(alias, node->outputs[i]));
    if (rewrite_is_builtin(node, "append")) mark(alias, class, node);
    return STATUS_OK;
}

/* Reads from a module or a dict; an input of unknown type may be either. */
static status_t look_at_getattr(alias_t *alias, const graph_node_t *node)
{
    value_t object = node->inputs[0], out = node->outputs[0];
    if (object < 0) return STATUS_OK;
    type_kind_t kind = graph_value_type(alias->graph, object)->kind;
    int class = alias_class(alias, out), place, items;
    if (kind != TYPE_MODULE) {
        TRY(contents_of(alias, alias_class(alias, object), &items));
        join(alias, items, class);
        if (kind != TYPE_UNKNOWN) return STATUS_OK;
    }
    TRY(place_of(alias, object, &place));
    TRY(place_below(alias, place, node->name, &place));
    alias->place_of[out] = place;
    alias->places[place].is_used |= graph_value_type(alias->graph, out)->kind != TYPE_MODULE;
    join(alias, alias->places[place].class, class);
    add_origin(alias, class, ALIAS_ATTRIBUTE);
    return STATUS_OK;
}

static status_t look_at_setattr(alias_t *alias, const graph_node_t *node)
{
    int place;
    if (node->inputs[0] < 0) return STATUS_OK;
    TRY(place_of(alias, node->inputs[0], &place));
    TRY(place_below(alias, place, node->name, &place));
    alias->places[place].is_used = true;
    if (alias->places[place].setter == NULL) alias->places[place].setter = node;
    int class = alias_class(alias, node->inputs[1]);
    join(alias, alias->places[place].class, class);
    if (class >= 0) class = alias_root(alias, class);
    if (class >= 0 && alias->classes[class].keeper == NULL) alias->classes[class].keeper = node;
    return STATUS_OK;
}

static status_t look_at(void *user, const graph_node_t *node)
{
    alias_t *alias = user;
    alias->has_effects |= alias_has_effect(node);
    alias->has_calls |= node->kind == NODE_CALL;
    switch (node->kind) {
    case NODE_OP: return look_at_op(alias, node);
    case NODE_BUILTIN: return look_at_builtin(alias, node);
    case NODE_GETATTR: return look_at_getattr(alias, node);
    case NODE_SETATTR: return look_at_setattr(alias, node);
    case NODE_IF:
    case NODE_LOOP: join_blocks(alias, node); return STATUS_OK;
    default: return STATUS_OK;
    }
}

/* A call may read and write everything that it can reach. Run this after all members of modules
 * have entries. */
static status_t look_at_call(void *user, const graph_node_t *node)
{
    alias_t *alias = user;
    if (node->kind != NODE_CALL) return STATUS_OK;
    mark(alias, outside(alias), node);
    for (int i = 0; i < node->n_inputs; i++) {
        value_t value = node->inputs[i];
        join(alias, outside(alias), alias_class(alias, value));
        if (value < 0 || graph_value_type(alias->graph, value)->kind != TYPE_MODULE) continue;
        int place;
        TRY(place_of(alias, value, &place));
        alias->places[place].is_outside = true;
    }
    for (int i = 0; i < node->n_outputs; i++)
        join(alias, outside(alias), alias_class(alias, node->outputs[i]));
    return STATUS_OK;
}

/* ---- constants ---- */

typedef struct held {
    uintptr_t storage;
    int class;
} held_t;

typedef struct holding {
    alias_t *alias;
    held_t *held;
    int n, capacity;
} holding_t;

static status_t hold(holding_t *holding, const datum_t *datum, int class)
{
    datum_kind_t kind = datum_kind(datum);
    alias_t *alias = holding->alias;
    add_origin(alias, class, ALIAS_CONSTANT);
    if (kind == DATUM_TENSOR) {
        TRY(context_grow(alias->ctx, &holding->held, &holding->capacity, holding->n + 1,
                         sizeof *holding->held));
        holding->held[holding->n++] = (held_t){(uintptr_t)datum_as_tensor(datum)->storage, class};
    }
    if (kind != DATUM_LIST && kind != DATUM_TUPLE && kind != DATUM_DICT) return STATUS_OK;
    int items;
    TRY(contents_of(alias, class, &items));
    for (int i = 0; i < datum_length(datum); i++) TRY(hold(holding, datum_item(datum, i), items));
    return STATUS_OK;
}

static status_t hold_constant(void *user, const graph_node_t *node)
{
    holding_t *holding = user;
    if (node->kind != NODE_CONSTANT) return STATUS_OK;
    int class = alias_class(holding->alias, node->outputs[0]);
    return class >= 0 ? hold(holding, node->datum, class) : STATUS_OK;
}

static int by_storage(const void *a, const void *b)
{
    uintptr_t x = ((const held_t *)a)->storage, y = ((const held_t *)b)->storage;
    return (x > y) - (x < y);
}

static status_t join_constants(alias_t *alias)
{
    holding_t holding = {.alias = alias};
    status_t status = rewrite_visit(graph_body(alias->graph), hold_constant, &holding);
    if (holding.n > 1) qsort(holding.held, (size_t)holding.n, sizeof *holding.held, by_storage);
    for (int i = 1; i < holding.n; i++) {
        if (holding.held[i].storage == holding.held[i - 1].storage)
            join(alias, holding.held[i].class, holding.held[i - 1].class);
    }
    context_put(alias->ctx, holding.held);
    return status;
}

/* ---- parameters ---- */

/* For each kind of type, the first node that writes a value passed in from outside. */
typedef struct writing {
    const graph_node_t *by_kind[TYPE_DICT + 1];
    bool is_marking;
} writing_t;

static status_t look_at_given(alias_t *alias, writing_t *writing, int class,
                              const graph_type_t *type)
{
    add_origin(alias, class, ALIAS_INPUT);
    const graph_node_t *writer = alias->classes[alias_root(alias, class)].writer;
    for (int kind = 0; kind <= TYPE_DICT; kind++) {
        bool may_be = type->kind == TYPE_UNKNOWN || (int)type->kind == kind;
        if (!may_be || !has_memory((type_kind_t)kind)) continue;
        if (writing->is_marking && writing->by_kind[kind] != NULL)
            mark(alias, class, writing->by_kind[kind]);
        if (writing->by_kind[kind] == NULL) writing->by_kind[kind] = writer;
    }
    if (type->n_items == 0) return STATUS_OK;
    int items;
    TRY(contents_of(alias, class, &items));
    for (int i = 0; i < type->n_items; i++) {
        if (has_memory(type->items[i].kind))
            TRY(look_at_given(alias, writing, items, &type->items[i]));
    }
    return STATUS_OK;
}

static status_t join_params(alias_t *alias)
{
    const graph_block_t *body = graph_body(alias->graph);
    writing_t writing = {.is_marking = false};
    for (int round = 0; round < 2; round++) {
        writing.is_marking = round == 1;
        for (int i = 0; i < body->n_params; i++) {
            int class = alias_class(alias, body->params[i]);
            if (class >= 0)
                TRY(look_at_given(alias, &writing, class,
                                  graph_value_type(alias->graph, body->params[i])));
        }
    }
    return STATUS_OK;
}

/* ---- analysis ---- */

/* Adds the origins and the keeper of a class to its contents. */
static void hand_down(alias_t *alias, int class)
{
    while (alias->classes[class].contents >= 0) {
        const alias_class_t *from = &alias->classes[class];
        class = alias_root(alias, from->contents);
        alias_class_t *to = &alias->classes[class];
        bool is_new = (to->origins | from->origins) != to->origins ||
                      (to->keeper == NULL && from->keeper != NULL);
        if (!is_new) return;
        to->origins |= from->origins;
        if (to->keeper == NULL) to->keeper = from->keeper;
    }
}

/* Marks a value that an attribute keeps as written, because other methods may write it. Values that
 * each run creates are unaffected: no other method sees them during the run. */
static void mark_kept(alias_t *alias, int class)
{
    const alias_class_t *at = &alias->classes[class];
    if (at->keeper != NULL && (at->origins & (ALIAS_CONSTANT | ALIAS_ATTRIBUTE)) != 0)
        mark(alias, class, at->keeper);
}

/* Sets `deep` of a class. Follows contents from the class to the end, to a finished class, or
 * around a cycle. Then goes back along the path and sets `deep` of each class, also from its
 * contents. */
static void settle(alias_t *alias, int class, int *path, char *state)
{
    int n = 0;
    alias_class_t *classes = alias->classes;
    for (; class >= 0 && state[class] == 0; path[n++] = class, class = classes[class].contents) {
        class = alias_root(alias, class);
        if (state[class] != 0) break;
        state[class] = 1;
    }
    if (class >= 0) class = alias_root(alias, class);
    const graph_node_t *writer = class >= 0 ? classes[class].deep : NULL;
    bool is_circle = class >= 0 && state[class] == 1;
    for (int i = n - 1; is_circle && i >= 0; i--) {
        if (classes[path[i]].writer != NULL) writer = classes[path[i]].writer;
        if (path[i] == class) break;
    }
    while (n > 0) {
        alias_class_t *at = &classes[path[--n]];
        at->deep = at->writer != NULL ? at->writer : writer;
        writer = at->deep;
        state[path[n]] = 2;
    }
}

static status_t settle_all(alias_t *alias)
{
    int *path = NULL;
    char *state = NULL;
    size_t n = (size_t)alias->n_classes;
    status_t status = context_get(alias->ctx, n * sizeof *path, "classes of values", &path);
    if (status == STATUS_OK)
        status = context_get_zeroed(alias->ctx, n * sizeof *state, "classes of values", &state);
    bool is_ready = status == STATUS_OK;
    for (int i = 0; is_ready && i < alias->n_classes; i++)
        if (alias->classes[i].parent == i) hand_down(alias, i);
    for (int i = 0; is_ready && i < alias->n_classes; i++)
        if (alias->classes[i].parent == i) mark_kept(alias, i);
    for (int i = 0; is_ready && i < alias->n_classes; i++)
        if (alias->classes[i].parent == i) settle(alias, i, path, state);
    CONTEXT_PUT(alias->ctx, state, path);
    return status;
}

/* Records which classes have views or in-place writes, after all classes are joined. Conversions
 * make snapshots, which are not views. */
static status_t note_views(void *user, const graph_node_t *node)
{
    alias_t *alias = user;
    if (node->kind != NODE_OP || node->n_inputs == 0 || alias_class(alias, node->inputs[0]) < 0)
        return STATUS_OK;
    alias_class_t *class = &alias->classes[find_root(alias, node->inputs[0])];
    class->is_in_place |= node->is_in_place;
    class->has_views |= !node->is_in_place && alias_shares(node) && !graph_is_conversion(node->op);
    return STATUS_OK;
}

/* Marks the results of the body and their contents. */
static void mark_returned(alias_t *alias)
{
    const graph_block_t *body = graph_body(alias->graph);
    for (int i = 0; i < body->n_results; i++) {
        int class = body->results[i] >= 0 ? find_root(alias, body->results[i]) : -1;
        while (class >= 0 && !alias->classes[class].is_returned) {
            alias->classes[class].is_returned = true;
            int contents = alias->classes[class].contents;
            class = contents >= 0 ? find_root(alias, contents) : -1;
        }
    }
}

static status_t analyze(alias_t *alias)
{
    const graph_block_t *body = graph_body(alias->graph);
    int n_values = graph_n_values(alias->graph), class;
    TRY(context_get(alias->ctx, (size_t)n_values * sizeof *alias->place_of, "places of values",
                    &alias->place_of));
    for (int i = 0; i < n_values; i++) alias->place_of[i] = -1;
    for (int i = 0; i <= n_values; i++) TRY(add_class(alias, &class));
    alias->classes[outside(alias)].contents = outside(alias);
    alias->classes[outside(alias)].origins = ALIAS_CALL;
    TRY(rewrite_visit(body, look_at, alias));
    TRY(join_unknown_modules(alias));
    if (alias->has_calls) TRY(rewrite_visit(body, look_at_call, alias));
    join_outside(alias);
    TRY(join_constants(alias));
    TRY(join_params(alias));
    mark_returned(alias);
    TRY(rewrite_visit(body, note_views, alias));
    return settle_all(alias);
}

/* Sets the parent of every class to its representative, so that later lookups change nothing. */
static void flatten(alias_t *alias)
{
    for (int i = 0; i < alias->n_classes; i++) alias->classes[i].parent = find_root(alias, i);
}

/* Copies everything into one block of the graph's allocator, because it outlives the context. */
static status_t pack(const alias_t *alias, alias_t **out_packed)
{
    size_t classes = (size_t)alias->n_classes * sizeof *alias->classes;
    size_t places = (size_t)alias->n_places * sizeof *alias->places;
    size_t values = (size_t)graph_n_values(alias->graph) * sizeof *alias->place_of;
    alias_t *packed = allocator_get(&alias->graph->allocator,
                                    sizeof *packed + classes + places + values);
    if (packed == NULL)
        FAIL(alias->ctx, STATUS_OUT_OF_MEMORY, "out of memory: classes of %s",
             graph_name(alias->graph));
    *packed = *alias;
    packed->kept.kind = &analysis_kind;
    packed->ctx = NULL;
    packed->classes = (alias_class_t *)(packed + 1);
    packed->places = (alias_place_t *)(packed->classes + alias->n_classes);
    packed->place_of = (int *)(packed->places + alias->n_places);
    memcpy(packed->classes, alias->classes, classes);
    if (places > 0) memcpy(packed->places, alias->places, places);
    if (values > 0) memcpy(packed->place_of, alias->place_of, values);
    *out_packed = packed;
    return STATUS_OK;
}

status_t alias_of(context_t *ctx, const graph_t *graph, const alias_t **out_alias)
{
    const graph_analysis_t *kept = graph_find_analysis(graph, &analysis_kind);
    status_t status = STATUS_OK;
    if (kept == NULL) {
        alias_t alias = {.ctx = ctx, .graph = graph}, *packed = NULL;
        status = analyze(&alias);
        if (status == STATUS_OK) {
            flatten(&alias);
            status = pack(&alias, &packed);
        }
        if (status == STATUS_OK) kept = graph_keep_analysis_take(graph, &packed->kept);
        CONTEXT_PUT(ctx, alias.place_of, alias.places, alias.classes);
    }
    *out_alias = (const alias_t *)(const void *)kept;
    return status;
}

const graph_node_t *alias_writer(const alias_t *alias, value_t value)
{
    int class = alias_class(alias, value);
    return class >= 0 ? alias->classes[class].deep : NULL;
}

bool alias_is_mutated(const alias_t *alias, value_t value)
{
    return alias_writer(alias, value) != NULL;
}

bool alias_is_returned(const alias_t *alias, value_t value)
{
    int class = alias_class(alias, value);
    return class >= 0 && alias->classes[class].is_returned;
}

bool alias_is_viewed(const alias_t *alias, value_t value)
{
    int class = alias_class(alias, value);
    return class >= 0 && alias->classes[class].is_in_place && alias->classes[class].has_views;
}
