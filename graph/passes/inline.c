#include <string.h>

#include "graph/analysis/attribute_impl.h"
#include "graph/ir/graph_impl.h"
#include "graph/ir/size_impl.h"
#include "graph/passes/pass_impl.h"
#include "module/module_impl.h"
#include "tensor/context_impl.h"

/* Replaces calls by the nodes of the called graphs, and tracks which values are modules. A method
 * made for certain argument types is inlined only if the arguments certainly have these types,
 * because no node would check them. Members of known modules are read relative to self, by the
 * first path that leads to them, even if a module has two paths. Values that may be one of several
 * modules do not change. */

#define MAX_FRAMES 64
#define MAX_NODES (1 << 18)

/* A graph method of self or a descendant. While the search for cycles visits it, depth is not 0. */
typedef struct method {
    module_t *owner;
    const char *name;
    const graph_t *graph;
    int depth; /* 0: the search does not visit it */
    bool is_seen, is_recursive;
} method_t;

typedef struct inlining {
    context_t *ctx;
    value_t self; /* self as a value of the new graph */
    tree_t tree;  /* self and its descendants */
    method_t *methods;
    int n_methods, methods_capacity;
    int n_nodes, n_done, n_calls;
    bool has_names; /* the graph has named sizes; its types show one set of sizes */
    graph_t *other; /* if has_names: the same graph at other sizes, or NULL */
} inlining_t;

/* A graph being inlined. */
typedef struct frame {
    inlining_t *inlining;
    const struct frame *caller;
    int depth;
    const graph_t *graph;
    module_t **objects; /* for each of the graph's values, the module that it is, or NULL */
} frame_t;

/* ---- modules and their paths ---- */

static status_t note_methods(inlining_t *inlining, module_t *module)
{
    for (int i = 0; i < module_n_members(module); i++) {
        member_kind_t kind;
        const char *name = module_member(module, i, &kind);
        const graph_t *graph = kind == MEMBER_METHOD ? graph_of(module, name) : NULL;
        if (graph == NULL) continue;
        TRY(context_grow(inlining->ctx, &inlining->methods, &inlining->methods_capacity,
                         inlining->n_methods + 1, sizeof *inlining->methods));
        inlining->methods[inlining->n_methods++] = (method_t){module, name, graph, 0, false, false};
    }
    return STATUS_OK;
}

static const char *path_of(const inlining_t *inlining, const module_t *module)
{
    for (int i = 0; i < inlining->tree.n; i++)
        if (inlining->tree.items[i].module == module) return inlining->tree.items[i].path;
    return NULL;
}

static module_t *object_of(const frame_t *frame, const graph_node_t *node)
{
    return node->n_inputs > 0 && node->inputs[0] >= 0 ? frame->objects[node->inputs[0]] : NULL;
}

/* Appends the member's path relative to self. False if the path leads to another member. */
static bool write_path(const frame_t *frame, const attribute_t *member, text_t *text)
{
    attribute_t found;
    module_t *self = frame->inlining->tree.items[0].module;
    const char *path = path_of(frame->inlining, member->owner);
    if (path == NULL) return false;
    text_append(text, "%s%s%s", path, path[0] != '\0' ? "." : "", member->name);
    return text_status(text) == STATUS_OK && attribute_place(self, text_string(text), &found) &&
           found.owner == member->owner && strcmp(found.name, member->name) == 0;
}

/* ---- getattr and setattr ---- */

static bool reads_self(const rewrite_t *rewrite, const graph_node_t *node)
{
    return rewrite_value(rewrite, node->inputs[0]) ==
           ((const frame_t *)rewrite->user)->inlining->self;
}

/* Replaces reading or setting a member of a known module by reading or setting it through self. */
static status_t reach_member(rewrite_t *rewrite, const graph_node_t *node, bool *out_done)
{
    frame_t *frame = rewrite->user;
    attribute_t member;
    module_t *object = object_of(frame, node);
    bool is_set = node->kind == NODE_SETATTR;
    if (object == NULL) return STATUS_OK;
    if (!(is_set ? attribute_place(object, node->name, &member)
                 : attribute_find(object, node->name, &member)))
        return STATUS_OK;
    if (member.kind == MEMBER_CHILD)
        frame->objects[node->outputs[0]] = module_child(member.owner, member.name);
    text_t path = text_begin(rewrite->ctx);
    bool is_same = true;
    if (member.kind != MEMBER_METHOD && write_path(frame, &member, &path))
        is_same = reads_self(rewrite, node) && strcmp(text_string(&path), node->name) == 0;
    status_t status = text_status(&path);
    if (status == STATUS_OK && !is_same) {
        graph_node_t reached = *node;
        value_t inputs[2] = {frame->inlining->self, VALUE_NONE};
        if (is_set) inputs[1] = rewrite_value(rewrite, node->inputs[1]);
        reached.name = text_string(&path);
        frame->inlining->n_done++;
        *out_done = true;
        status = rewrite_emit(rewrite, &reached, inputs, node->outputs);
    }
    text_clear(&path);
    return status;
}

/* ---- recursion: one method of every cycle is not inlined ---- */

static method_t *find_method(const inlining_t *inlining, module_t *object, const char *name)
{
    attribute_t found;
    if (object == NULL || !attribute_find(object, name, &found)) return NULL;
    for (int i = 0; i < inlining->n_methods; i++) {
        method_t *method = &inlining->methods[i];
        if (method->owner == found.owner && strcmp(method->name, found.name) == 0) return method;
    }
    return NULL;
}

static status_t follow(inlining_t *inlining, method_t *method, int depth);

static void close_circle(inlining_t *inlining, int depth)
{
    for (int i = 0; i < inlining->n_methods; i++)
        inlining->methods[i].is_recursive |= inlining->methods[i].depth >= depth;
}

static status_t follow_node(void *user, const graph_node_t *node)
{
    frame_t *frame = user;
    if (node->kind != NODE_CALL) return STATUS_OK;
    method_t *callee = find_method(frame->inlining, object_of(frame, node), node->name);
    if (callee == NULL) return STATUS_OK;
    if (callee->depth > 0) close_circle(frame->inlining, callee->depth);
    if (frame->depth == MAX_FRAMES) callee->is_recursive = true;
    return callee->is_seen ? STATUS_OK : follow(frame->inlining, callee, frame->depth + 1);
}

static status_t follow(inlining_t *inlining, method_t *method, int depth)
{
    frame_t frame = {.inlining = inlining, .depth = depth, .graph = method->graph};
    if (method->is_seen || depth > MAX_FRAMES) return STATUS_OK;
    method->is_seen = true;
    method->depth = depth;
    TRY(attribute_objects(inlining->ctx, method->graph, method->owner, &frame.objects));
    status_t status = rewrite_visit(graph_body(method->graph), follow_node, &frame);
    method->depth = 0;
    context_put(inlining->ctx, frame.objects);
    return status;
}

/* ---- calls ---- */

static int depth_of(const graph_block_t *block)
{
    int deepest = 0;
    for (int i = 0; i < block->n_nodes; i++) {
        for (int b = 0; b < block->nodes[i]->n_blocks; b++) {
            int depth = 1 + depth_of(block->nodes[i]->blocks[b]);
            if (depth > deepest) deepest = depth;
        }
    }
    return deepest;
}

static status_t find_sized(void *user, const graph_node_t *node)
{
    *(bool *)user |= node->n_sized > 0;
    return STATUS_OK;
}

/* The reason why the call cannot be inlined, or NULL. */
static const char *find_obstacle(const rewrite_t *rewrite, const graph_node_t *node,
                                 const method_t *method)
{
    const frame_t *frame = rewrite->user;
    const graph_t *callee = method->graph;
    const graph_block_t *body = graph_body(callee);
    if (method->is_recursive) return "the method calls itself";
    if (frame->depth == MAX_FRAMES) return "calls are nested too deep";
    if (graph_builder_depth(rewrite->to) + depth_of(body) > GRAPH_MAX_DEPTH)
        return "blocks would be nested too deep";
    if (frame->inlining->n_nodes + graph_n_nodes(callee) > MAX_NODES)
        return "the graph would be too large";
    if (body->n_params != node->n_inputs || body->n_results != node->n_outputs)
        return "the method takes or returns another number of values";
    bool is_sized = false;
    (void)rewrite_visit(body, find_sized, &is_sized);
    return is_sized ? "integers of its attributes depend on the sizes of its inputs" : NULL;
}

/* A value's type at the other sizes; unknown if it cannot be determined. */
static const graph_type_t *other_type(const frame_t *frame, value_t value)
{
    const graph_t *other = frame->inlining->other;
    bool is_known = frame->depth == 0 && value >= 0 && other != NULL &&
                    graph_n_values(other) == graph_n_values(frame->graph) &&
                    strcmp(graph_value_name(other, value), graph_value_name(frame->graph, value)) ==
                        0;
    return is_known ? graph_value_type(other, value) : type_plain(TYPE_UNKNOWN);
}

/* Checks that the method certainly accepts these arguments. With named sizes, it must accept them
 * at all sizes: a value of type [4,8] in the graph may be [N,8] in general. */
static status_t find_takes(const rewrite_t *rewrite, const graph_node_t *node,
                           const graph_t *callee, bool *out_takes)
{
    const frame_t *frame = rewrite->user;
    const graph_type_t **types = NULL;
    TRY(context_get(rewrite->ctx, (size_t)node->n_inputs * sizeof *types, "types", &types));
    for (int i = 1; i < node->n_inputs; i++)
        types[i - 1] = graph_builder_type(rewrite->to, rewrite_value(rewrite, node->inputs[i]));
    *out_takes = graph_takes(callee, types);
    if (sym_n_guards(callee->space) > 0 && frame->inlining->has_names) *out_takes = false;
    if (frame->inlining->has_names) {
        for (int i = 1; i < node->n_inputs; i++)
            if (node->inputs[i] != VALUE_NONE) types[i - 1] = other_type(frame, node->inputs[i]);
        *out_takes = *out_takes && graph_takes(callee, types);
    }
    context_put(rewrite->ctx, types);
    return STATUS_OK;
}

/* Sets the values of the callee's parameters, and which of them are modules. If the call uses a
 * dotted name, the method's self is the module that owns the method. */
static status_t bind(rewrite_t *rewrite, const graph_node_t *node, module_t *owner, frame_t *frame,
                     value_t *params)
{
    const frame_t *caller = frame->caller;
    const graph_block_t *body = graph_body(frame->graph);
    for (int i = 0; i < node->n_inputs; i++) {
        value_t old = node->inputs[i];
        params[i] = rewrite_value(rewrite, old);
        if (old >= 0) frame->objects[body->params[i]] = caller->objects[old];
        if (params[i] != VALUE_NONE || rewrite_feeds_operators(frame->graph, body->params[i]))
            continue;
        datum_t *none = NULL;
        TRY(datum_none(rewrite->ctx, &none));
        params[i] = graph_add_constant(rewrite->to, none, NULL);
        datum_release(none);
    }
    frame->objects[body->params[0]] = owner;
    if (caller->objects[node->inputs[0]] != owner)
        params[0] = graph_add_getattr(rewrite->to, frame->inlining->self,
                                      path_of(frame->inlining, owner), type_plain(TYPE_MODULE));
    return STATUS_OK;
}

/* Maps the call's results. If a result is a known module, it is one in the caller, too. */
static void map_results(rewrite_t *rewrite, const graph_node_t *node, const frame_t *frame,
                        const value_t *results)
{
    const graph_block_t *body = graph_body(frame->graph);
    for (int i = 0; i < node->n_outputs; i++) {
        rewrite_map(rewrite, node->outputs[i], results[i]);
        if (body->results[i] >= 0)
            ((frame_t *)rewrite->user)->objects[node->outputs[i]] =
                frame->objects[body->results[i]];
    }
}

static status_t inline_call(rewrite_t *rewrite, const graph_node_t *node, const method_t *method)
{
    context_t *ctx = rewrite->ctx;
    const graph_t *callee = method->graph;
    const frame_t *caller = rewrite->user;
    frame_t frame = {.inlining = caller->inlining,
                     .caller = caller,
                     .depth = caller->depth + 1,
                     .graph = callee};
    value_t *params = NULL, *results = NULL;
    frame.inlining->n_nodes += graph_n_nodes(callee);
    frame.inlining->n_done++;
    frame.inlining->n_calls++;
    TRY(context_get_zeroed(ctx, (size_t)graph_n_values(callee) * sizeof *frame.objects,
                           "modules of values", &frame.objects));
    status_t status = context_get(ctx, (size_t)node->n_inputs * sizeof *params, "arguments",
                                  &params);
    if (status == STATUS_OK)
        status = context_get(ctx, (size_t)node->n_outputs * sizeof *results, "results", &results);
    if (status == STATUS_OK) status = bind(rewrite, node, method->owner, &frame, params);
    if (status == STATUS_OK)
        status = rewrite_inline(rewrite, callee, path_of(frame.inlining, method->owner), &frame,
                                params, results);
    if (status == STATUS_OK) map_results(rewrite, node, &frame, results);
    CONTEXT_PUT(ctx, results, params, frame.objects);
    return status;
}

static status_t reach_method(rewrite_t *rewrite, const graph_node_t *node, bool *out_done)
{
    inlining_t *inlining = ((frame_t *)rewrite->user)->inlining;
    module_t *object = object_of(rewrite->user, node);
    method_t *method = find_method(inlining, object, node->name);
    if (method != NULL) TRY(follow(inlining, method, 1));
    const char *obstacle = method != NULL   ? find_obstacle(rewrite, node, method)
                           : object == NULL ? "the module of the method is unknown"
                                            : "the method has no graph";
    bool takes = false;
    if (obstacle == NULL) TRY(find_takes(rewrite, node, method->graph, &takes));
    if (obstacle == NULL && !takes) obstacle = "the method was made for other types of arguments";
    if (obstacle != NULL) {
        pass_note(rewrite->ctx, "inline", node, obstacle);
        return STATUS_OK;
    }
    *out_done = true;
    return inline_call(rewrite, node, method);
}

/* ---- pass ---- */

static status_t reach(rewrite_t *rewrite, const graph_node_t *node, bool *out_done)
{
    switch (node->kind) {
    case NODE_GETATTR:
    case NODE_SETATTR: return reach_member(rewrite, node, out_done);
    case NODE_CALL: return reach_method(rewrite, node, out_done);
    default: return STATUS_OK;
    }
}

/* The graph at other sizes; NULL if it accepts none. */
static status_t make_other(context_t *ctx, const graph_t *graph, graph_t **out_other)
{
    tensor_info_t *infos = NULL;
    *out_other = NULL;
    if (!graph_is_open(graph)) return STATUS_OK;
    size_t n = (size_t)graph_body(graph)->n_params;
    TRY(context_get(ctx, n * sizeof *infos, "infos of inputs", &infos));
    FINISH(pass_make_generic(ctx, graph, infos, NULL, out_other), context_put(ctx, infos));
}

static status_t run(context_t *ctx, const graph_t *graph, inlining_t *inlining, graph_t **out_graph)
{
    frame_t frame = {.inlining = inlining, .graph = graph};
    value_t self = graph_body(graph)->params[0];
    inlining->self = 0; /* value 0 is the first parameter */
    inlining->n_nodes = graph_n_nodes(graph);
    inlining->n_done = inlining->n_calls = 0;
    inlining->has_names = graph_has_names(graph);
    if (inlining->has_names) TRY(make_other(ctx, graph, &inlining->other));
    status_t status = context_get_zeroed(ctx, (size_t)graph_n_values(graph) * sizeof *frame.objects,
                                         "modules of values", &frame.objects);
    if (status == STATUS_OK) {
        frame.objects[self] = inlining->tree.items[0].module;
        status = rewrite_graph(ctx, graph, reach, &frame, out_graph);
    }
    context_put(ctx, frame.objects);
    graph_release(inlining->other);
    inlining->other = NULL;
    return status;
}

/* With named sizes, types at the other sizes are known for an inlined graph only after inlining, so
 * the calls in it are inlined in the next round. */
static status_t run_rounds(context_t *ctx, const graph_t *graph, inlining_t *inlining,
                           graph_t **out_graph)
{
    graph_t *current = NULL;
    status_t status = rewrite_nothing(graph, &current);
    bool goes_on = status == STATUS_OK;
    for (int round = 0; goes_on && round < MAX_FRAMES; round++) {
        graph_t *next = NULL;
        status = run(ctx, current, inlining, &next);
        goes_on = status == STATUS_OK && inlining->has_names && inlining->n_calls > 0;
        if (status == STATUS_OK && inlining->n_done > 0) {
            graph_release(current);
            current = next;
        } else {
            graph_release(next);
        }
    }
    GIVE(status, out_graph, current, graph_release(current));
}

static bool takes_self(const graph_t *graph)
{
    const graph_block_t *body = graph_body(graph);
    return body->n_params > 0 && graph_value_type(graph, body->params[0])->kind == TYPE_MODULE;
}

status_t pass_inline(context_t *ctx, const graph_t *graph, const pass_options_t *options,
                     graph_t **out_graph)
{
    if (options->self == NULL || !takes_self(graph)) return rewrite_nothing(graph, out_graph);
    inlining_t inlining = {.ctx = ctx};
    graph_t *result = NULL;
    status_t status = tree_collect(ctx, options->self, &inlining.tree);
    for (int i = 0; i < inlining.tree.n && status == STATUS_OK; i++)
        status = note_methods(&inlining, inlining.tree.items[i].module);
    if (status == STATUS_OK) status = run_rounds(ctx, graph, &inlining, &result);
    tree_clear(ctx, &inlining.tree);
    context_put(ctx, inlining.methods);
    if (status == STATUS_OK) *out_graph = result;
    return status;
}
