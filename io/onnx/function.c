/* A call of a function that the model defines: its nodes are imported in place of the call, with
 * their own names for values.
 *
 *   y = Double<factor = 2.0>(x)          names: x y
 *   function Double<factor>(a) => (b)    names: a = x, b
 *   { b = Scale<by = @factor>(a) }       by = 2.0
 *   afterwards                           names: x, y = b */
#include "io/onnx/function_impl.h"

#include <string.h>

#include "tensor/context_impl.h"

/* ---- attributes ---- */

static Onnx__AttributeProto *find(size_t n, Onnx__AttributeProto *const *attrs, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (attrs[i]->name != NULL && strcmp(attrs[i]->name, name) == 0) return attrs[i];
    return NULL;
}

Onnx__AttributeProto *onnx_attr_given(const onnx_t *onnx, Onnx__AttributeProto *attr)
{
    const onnx_frame_t *frame = onnx->frame;
    while (attr != NULL && attr->ref_attr_name != NULL && *attr->ref_attr_name != '\0' &&
           frame != NULL) {
        const char *name = attr->ref_attr_name;
        attr = find(frame->call->n_attribute, frame->call->attribute, name);
        if (attr == NULL)
            return find((size_t)frame->function->n_defaults, frame->function->defaults, name);
        frame = frame->parent;
    }
    return attr;
}

/* ---- names ---- */

/* The caller's name table, saved while the function uses its own. */
typedef struct names {
    onnx_name_t *names;
    int n_names, names_capacity;
    onnx_name_t *bound;
    int n_bound, bound_capacity, first_bound;
} names_t;

static names_t take_names(onnx_t *onnx)
{
    const names_t names = {onnx->names,   onnx->n_names,        onnx->names_capacity, onnx->bound,
                           onnx->n_bound, onnx->bound_capacity, onnx->first_bound};
    onnx->names = NULL;
    onnx->bound = NULL;
    onnx->n_names = onnx->names_capacity = onnx->n_bound = onnx->bound_capacity = 0;
    onnx->first_bound = 0;
    return names;
}

static void put_back_names(onnx_t *onnx, const names_t *names)
{
    CONTEXT_PUT(onnx->ctx, onnx->names, onnx->bound);
    onnx->names = names->names;
    onnx->n_names = names->n_names;
    onnx->names_capacity = names->names_capacity;
    onnx->bound = names->bound;
    onnx->n_bound = names->n_bound;
    onnx->bound_capacity = names->bound_capacity;
    onnx->first_bound = names->first_bound;
}

bool onnx_is_left_out(const onnx_t *onnx, const char *name)
{
    if (onnx->frame == NULL) return false;
    const Onnx__FunctionProto *proto = onnx->frame->function->proto;
    for (size_t i = 0; i < proto->n_input; i++)
        if (strcmp(proto->input[i], name) == 0) return onnx->frame->in[i] == ITEM_NONE;
    return false;
}

/* ---- the call ---- */

/* Finds the items of the function's inputs among the caller's names. */
static status_t find_inputs(onnx_t *onnx, const Onnx__FunctionProto *proto,
                            const Onnx__NodeProto *call, item_t *in)
{
    for (size_t i = 0; i < proto->n_input; i++) {
        const char *name = i < call->n_input ? call->input[i] : "";
        in[i] = *name != '\0' ? onnx_find(onnx, name) : ITEM_NONE;
        if (*name != '\0' && in[i] == ITEM_NONE && !onnx_is_left_out(onnx, name))
            FAIL(onnx->ctx, STATUS_CORRUPT, "input \"%.64s\" is made by no node before it", name);
    }
    return STATUS_OK;
}

/* Imports the nodes with the function's names. out[i] is ITEM_NONE if the caller does not use
 * it. */
static status_t import_nodes(onnx_t *onnx, const onnx_frame_t *frame, item_t *out)
{
    const Onnx__FunctionProto *proto = frame->function->proto;
    for (size_t i = 0; i < proto->n_input; i++)
        if (frame->in[i] != ITEM_NONE) TRY(onnx_bind(onnx, proto->input[i], frame->in[i]));
    TRY(onnx_add_nodes(onnx, proto->n_node, proto->node, NULL));
    for (size_t i = 0; i < frame->call->n_output; i++) {
        out[i] = ITEM_NONE;
        if (*frame->call->output[i] == '\0') continue;
        out[i] = onnx_find(onnx, proto->output[i]);
        if (out[i] == ITEM_NONE)
            FAIL(onnx->ctx, STATUS_CORRUPT, "result \"%.64s\" is made by no node",
                 proto->output[i]);
    }
    return STATUS_OK;
}

static status_t import_apart(onnx_t *onnx, onnx_function_t *function, const Onnx__NodeProto *call,
                             const item_t *in, item_t *out)
{
    const onnx_frame_t frame = {onnx->frame, function, call, in};
    const int64_t opset = onnx->opset;
    const names_t names = take_names(onnx);
    onnx->frame = &frame;
    onnx->opset = function->opset;
    onnx->n_blocks++;
    status_t status = import_nodes(onnx, &frame, out);
    onnx->n_blocks--;
    onnx->opset = opset;
    onnx->frame = frame.parent;
    put_back_names(onnx, &names);
    return status;
}

status_t onnx_import_function(onnx_t *onnx, onnx_function_t *function, const Onnx__NodeProto *call)
{
    context_t *ctx = onnx->ctx;
    const Onnx__FunctionProto *proto = function->proto;
    item_t *items = NULL;
    if (call->n_input > proto->n_input || call->n_output > proto->n_output)
        FAIL(ctx, STATUS_INVALID_ARGUMENT,
             "%zu inputs and %zu outputs, the function has %zu and %zu", call->n_input,
             call->n_output, proto->n_input, proto->n_output);
    if (onnx->n_blocks >= ONNX_MAX_NESTED)
        FAIL(ctx, STATUS_UNSUPPORTED, "functions and blocks nest more than %d deep",
             ONNX_MAX_NESTED);
    TRY(context_get(ctx, (proto->n_input + call->n_output + 1) * sizeof *items, "a call", &items));
    item_t *out = items + proto->n_input;
    status_t status = find_inputs(onnx, proto, call, items);
    if (status == STATUS_OK) status = import_apart(onnx, function, call, items, out);
    for (size_t i = 0; i < call->n_output && status == STATUS_OK; i++)
        if (out[i] != ITEM_NONE) status = onnx_bind(onnx, call->output[i], out[i]);
    context_put(ctx, items);
    return status;
}
