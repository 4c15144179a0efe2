/* Records the operators that run in a method, as a graph. */
#include <stdio.h>
#include <string.h>

#include "graph/analysis/attribute_impl.h"
#include "graph/ir/graph.h"
#include "graph/ir/graph_impl.h"
#include "graph/method/trace_impl.h"
#include "module/map_impl.h"
#include "module/module_impl.h"
#include "tensor/scope_impl.h"
#include "tensor/tensor_impl.h"

#define VALUE_UNMADE (-2) /* value of an attribute that no operator has read yet */

/* A tensor that the trace has seen. It is retained to the end of the trace, so that its address
 * stays unique. */
typedef struct known {
    tensor_t *tensor;
    value_t value;
    char *path;       /* for attributes: path below the traced module; else NULL */
    uint64_t version; /* for attributes: the storage's version after an operator's last write */
} known_t;

typedef struct tracer {
    context_t *ctx;
    const char *method;
    graph_builder_t *builder;
    value_t self;
    known_t *known;
    int n_known;
    int capacity;
    map_t by_tensor; /* index + 1 in known */
    map_t by_bytes;  /* the same index, by address of the storage's bytes */
    char *path;      /* path of the running module, relative to the traced one */
    int path_length;
    int path_capacity;
    status_t status; /* failure of a callback that cannot return a status */
} tracer_t;

/* ---- tensors ---- */

static const void *bytes_of(const tensor_t *tensor)
{
    return info_numel(&tensor->info) > 0 ? storage_data(tensor->storage) : NULL;
}

static known_t *find(const tracer_t *tracer, const map_t *map, const void *key)
{
    uintptr_t place = key != NULL ? (uintptr_t)map_get(map, key) : 0;
    return place > 0 ? &tracer->known[place - 1] : NULL;
}

/* Records that the tensor is this value of the graph. Takes ownership of the path. */
static status_t learn_take(tracer_t *tracer, tensor_t *tensor, value_t value, char *path)
{
    known_t *old = find(tracer, &tracer->by_tensor, tensor);
    if (old != NULL) {
        if (path == NULL) old->value = value;
        context_put(tracer->ctx, path);
        return STATUS_OK;
    }
    status_t status = context_grow(tracer->ctx, &tracer->known, &tracer->capacity,
                                   tracer->n_known + 1, sizeof *tracer->known);
    void *place = (void *)(uintptr_t)(tracer->n_known + 1);
    if (status == STATUS_OK) status = map_put(&tracer->by_tensor, tensor, place);
    TRY_OR(status, context_put(tracer->ctx, path));
    tracer->known[tracer->n_known++] = (known_t){tensor_hold(tensor), value, path,
                                                 storage_version(tensor->storage)};
    const void *bytes = bytes_of(tensor);
    return bytes != NULL ? map_put(&tracer->by_bytes, bytes, place) : STATUS_OK;
}

static graph_type_t type_of(const tensor_t *tensor)
{
    graph_type_t type = {.kind = TYPE_TENSOR, .has_info = true, .info = tensor->info};
    if (type.info.layout == LAYOUT_DENSE)
        type.info = info_dense(type.info.dtype, type.info.rank, type.info.sizes);
    return type;
}

static status_t add_number(tracer_t *tracer, const tensor_t *tensor, value_t *out_value)
{
    context_t *ctx = tracer->ctx;
    datum_t *datum = NULL;
    if (dtype_is_floating(tensor_dtype(tensor))) {
        double number;
        TRY(tensor_item(ctx, tensor, &number));
        TRY(datum_float(ctx, number, &datum));
    } else {
        int64_t number;
        TRY(tensor_item_integer(ctx, tensor, &number));
        TRY(tensor_dtype(tensor) == DTYPE_BOOL ? datum_bool(ctx, number != 0, &datum)
                                               : datum_int(ctx, number, &datum));
    }
    *out_value = graph_add_literal(tracer->builder, datum);
    datum_release(datum);
    return STATUS_OK;
}

/* Adds a tensor that no operator produced as a constant. Fails if the tensor shares bytes with a
 * known one. The graph gets a snapshot, since the method may write to the tensor later. */
static status_t add_constant(tracer_t *tracer, tensor_t *tensor, value_t *out_value)
{
    context_t *ctx = tracer->ctx;
    const known_t *base = find(tracer, &tracer->by_bytes, bytes_of(tensor));
    if (base != NULL && bytes_of(base->tensor) == bytes_of(tensor))
        FAIL(ctx, STATUS_UNSUPPORTED,
             "graph_trace: %s uses %s, which shares the bytes of %s %s but was not made by an "
             "operator (op_reshape and similar operators are recorded, tensor_view and similar "
             "functions are not)",
             tracer->method, tensor_text(tensor),
             base->path != NULL ? base->path : "another tensor", tensor_text(base->tensor));
    tensor_t *kept = NULL;
    datum_t *datum = NULL;
    TRY(tensor_snapshot(ctx, tensor, &tensor->info, tensor->offset, &kept));
    status_t status = datum_tensor(ctx, kept, &datum);
    tensor_drop(kept);
    TRY(status);
    *out_value = graph_add_constant(tracer->builder, datum, NULL);
    datum_release(datum);
    return learn_take(tracer, tensor, *out_value, NULL);
}

static status_t value_of(tracer_t *tracer, const tensor_t *tensor, value_t *out_value)
{
    known_t *known = find(tracer, &tracer->by_tensor, tensor);
    if (known != NULL) {
        if (known->value == VALUE_UNMADE) {
            graph_type_t type = type_of(tensor);
            known->value = graph_add_getattr(tracer->builder, tracer->self, known->path, &type);
            TRY(graph_builder_status(tracer->builder));
        }
        *out_value = known->value;
        return STATUS_OK;
    }
    if (tensor->info.is_number) return add_number(tracer, tensor, out_value);
    tensor_t *held;
    memcpy(&held, &tensor, sizeof held);
    return add_constant(tracer, held, out_value);
}

/* ---- the observer ---- */

/* Records that the target of an in-place call now is the value of the call's result. */
static status_t learn_target(tracer_t *tracer, const op_event_t *event, value_t value)
{
    if (event->target->info.dtype != event->out[0]->info.dtype)
        FAIL(tracer->ctx, STATUS_UNSUPPORTED,
             "graph_trace: %s writes %s in place into %s, both must have the same dtype",
             tracer->method, tensor_text(event->out[0]), tensor_text(event->target));
    known_t *known = find(tracer, &tracer->by_tensor, event->target);
    if (known == NULL) return learn_take(tracer, event->target, value, NULL);
    known->value = value;
    return STATUS_OK;
}

/* Updates addresses and versions after a write, which may have moved bytes that a snapshot
 * shared. */
static status_t note_written(context_t *ctx, void *user, tensor_t *target)
{
    (void)ctx;
    tracer_t *tracer = user;
    for (int i = 0; i < tracer->n_known; i++) {
        known_t *known = &tracer->known[i];
        if (known->tensor->storage != target->storage) continue;
        known->version = storage_version(target->storage);
        const void *bytes = bytes_of(known->tensor);
        if (bytes != NULL) TRY(map_put(&tracer->by_bytes, bytes, (void *)(uintptr_t)(i + 1)));
    }
    return STATUS_OK;
}

static status_t record(context_t *ctx, void *user, const op_event_t *event)
{
    tracer_t *tracer = user;
    TRY(tracer->status);
    if (event->is_planned)
        FAIL(ctx, STATUS_UNSUPPORTED,
             "graph_trace: %s runs a plan, as frozen modules do, which cannot be traced; trace the "
             "module that was frozen",
             tracer->method);
    REQUIRE(ctx, event->n_in <= OP_MAX_INPUTS,
            "graph_trace: %s has %d operands, at most %d are supported", event->op->name,
            event->n_in, OP_MAX_INPUTS);
    value_t inputs[OP_MAX_INPUTS];
    value_t outputs[OP_MAX_OUTPUTS];
    for (int i = 0; i < event->n_in; i++) {
        inputs[i] = VALUE_NONE;
        if (event->in[i] != NULL) TRY(value_of(tracer, event->in[i], &inputs[i]));
    }
    for (int i = 0; i < event->n_out; i++) outputs[i] = VALUE_NONE;
    graph_node_t node = {.kind = NODE_OP,
                         .op = event->op,
                         .attrs = event->attrs,
                         .is_in_place = event->target != NULL,
                         .path = tracer->path_length > 0 ? tracer->path : NULL,
                         .n_inputs = event->n_in,
                         .n_outputs = event->n_out};
    graph_add_node(tracer->builder, &node, inputs, NULL, NULL, outputs);
    TRY(graph_builder_status(tracer->builder));
    if (event->target != NULL) return learn_target(tracer, event, outputs[0]);
    for (int i = 0; i < event->n_out; i++) TRY(learn_take(tracer, event->out[i], outputs[i], NULL));
    return STATUS_OK;
}

static void enter(context_t *ctx, void *user, const char *path)
{
    tracer_t *tracer = user;
    int length = (int)strlen(path);
    if (tracer->status == STATUS_OK)
        tracer->status = context_grow(ctx, &tracer->path, &tracer->path_capacity,
                                      tracer->path_length + length + 2, 1);
    if (tracer->status != STATUS_OK) return;
    if (tracer->path_length > 0) tracer->path[tracer->path_length++] = '.';
    memcpy(tracer->path + tracer->path_length, path, (size_t)length + 1);
    tracer->path_length += length;
}

static void leave(context_t *ctx, void *user, const char *path)
{
    (void)ctx;
    tracer_t *tracer = user;
    if (tracer->status != STATUS_OK) return;
    int length = tracer->path_length - (int)strlen(path);
    tracer->path_length = length > 0 ? length - 1 : 0;
    tracer->path[tracer->path_length] = '\0';
}

/* ---- tracing ---- */

static status_t learn_attributes(context_t *ctx, void *user, const char *path, module_t *module)
{
    tracer_t *tracer = user;
    for (int i = 0; i < module_n_members(module); i++) {
        attribute_t attribute = {.owner = module};
        attribute.name = module_member(module, i, &attribute.kind);
        tensor_t *tensor = attribute_tensor(&attribute);
        if (tensor == NULL) continue;
        char *full;
        TRY(tree_join(ctx, path, attribute.name, &full));
        TRY(learn_take(tracer, tensor, VALUE_UNMADE, full));
    }
    return STATUS_OK;
}

static status_t begin(tracer_t *tracer, module_t *module, int n_in, const tensor_t *const *in)
{
    TRY(graph_builder_create(tracer->ctx, tracer->method, &tracer->builder));
    tracer->self = graph_add_param(tracer->builder, "self", &(graph_type_t){.kind = TYPE_MODULE});
    for (int i = 0; i < n_in; i++) {
        if (in[i] == NULL) return context_null(tracer->ctx, "graph_trace", "an input");
        char name[16];
        snprintf(name, sizeof name, "x%d", i);
        if (n_in == 1) name[1] = '\0';
        graph_type_t type = type_of(in[i]);
        value_t value = graph_add_param(tracer->builder, name, &type);
        TRY(graph_builder_status(tracer->builder));
        tensor_t *held;
        memcpy(&held, &in[i], sizeof held);
        TRY(learn_take(tracer, held, value, NULL));
    }
    return module_walk(tracer->ctx, module, learn_attributes, tracer);
}

/* Fails if an attribute was written without an operator: the graph would miss the write. */
static status_t check_unchanged(const tracer_t *tracer)
{
    for (int i = 0; i < tracer->n_known; i++) {
        const known_t *known = &tracer->known[i];
        if (known->path == NULL || storage_version(known->tensor->storage) == known->version)
            continue;
        FAIL(tracer->ctx, STATUS_UNSUPPORTED,
             "graph_trace: %s wrote %s without an operator, which a trace cannot record; use "
             "graph_define",
             tracer->method, known->path);
    }
    return STATUS_OK;
}

static status_t run(tracer_t *tracer, module_t *module, int n_in, const tensor_t *const *in,
                    int *n_out, tensor_t **out)
{
    observer_t observer = {.user = tracer,
                           .op_end = record,
                           .written = note_written,
                           .module_enter = enter,
                           .module_leave = leave};
    TRY(dispatch_add_observer(tracer->ctx, &observer));
    status_t status = module_call_tensors(tracer->ctx, module, tracer->method, n_in, in, n_out,
                                          out);
    dispatch_remove_observer(tracer->ctx, &observer);
    return status != STATUS_OK ? status : tracer->status;
}

static status_t finish(tracer_t *tracer, int n_out, tensor_t *const *out, graph_t **out_graph)
{
    value_t results[METHOD_MAX_OUTPUTS];
    for (int i = 0; i < n_out; i++) TRY(value_of(tracer, out[i], &results[i]));
    TRY(check_unchanged(tracer));
    graph_t *graph;
    TRY(graph_finish(tracer->builder, n_out, results, &graph));
    status_t status = graph_verify(tracer->ctx, graph);
    GIVE(status, out_graph, graph, graph_release(graph));
}

static void end(tracer_t *tracer)
{
    for (int i = 0; i < tracer->n_known; i++) {
        tensor_drop(tracer->known[i].tensor);
        context_put(tracer->ctx, tracer->known[i].path);
    }
    CONTEXT_PUT(tracer->ctx, tracer->known, tracer->path);
    map_clear(&tracer->by_tensor);
    map_clear(&tracer->by_bytes);
    graph_builder_destroy(tracer->builder);
}

status_t trace_once(context_t *ctx, module_t *module, const char *method, int n_in,
                    const tensor_t *const *in, graph_t **out_graph)
{
    tracer_t tracer = {.ctx = ctx, .method = method};
    tracer.by_tensor.ctx = ctx;
    tracer.by_bytes.ctx = ctx;
    tensor_t *out[METHOD_MAX_OUTPUTS];
    int n_out = 0;
    status_t status = begin(&tracer, module, n_in, in);
    if (status == STATUS_OK) status = run(&tracer, module, n_in, in, &n_out, out);
    if (status == STATUS_OK) status = finish(&tracer, n_out, out, out_graph);
    for (int i = 0; i < n_out; i++) {
        scope_take(ctx, out[i]);
        tensor_drop(out[i]);
    }
    end(&tracer);
    return status;
}
