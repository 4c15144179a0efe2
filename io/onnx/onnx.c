/* Imports ONNX models: reads the file, adds inputs and nodes, builds the module.
 *
 * The elements of a tensor in the message are freed as soon as the tensor exists. The rest of the
 * message, which owns the names, is freed at the end. */
#include <stdio.h>
#include <string.h>

#include "graph/ir/graph_impl.h"
#include "graph/ir/size_impl.h"
#include "graph/passes/pass_impl.h"
#include "io/onnx/function_impl.h"
#include "io/onnx/kept_impl.h"
#include "io/onnx/ml_impl.h"
#include "io/onnx/narrow_impl.h"
#include "tensor/context_impl.h"
#include "tensor/file/file.h"
#include "tensor/file/file_block_impl.h"
#include "tensor/file/file_kind_impl.h"
#include "tensor/scope_impl.h"
#include "tensor/tensor_impl.h"
#include "tensor/threads/interrupt_impl.h"

/* ---- the message ---- */

static void *get_block(void *user, size_t bytes)
{
    onnx_t *onnx = user;
    void *block = NULL;
    if (context_get(onnx->ctx, bytes, "an ONNX message", &block) != STATUS_OK)
        onnx->is_refused = true;
    return block;
}

static void put_block(void *user, void *block)
{
    onnx_t *onnx = user;
    context_put(onnx->ctx, block);
}

static status_t unpack(onnx_t *onnx, const void *bytes, size_t n_bytes)
{
    TRY(file_check_kind(onnx->ctx, "onnx", onnx->path != NULL ? onnx->path : "the model", FILE_ONNX,
                        bytes, n_bytes));
    TRY(onnx_wire_check(onnx->ctx, &onnx__model_proto__descriptor, bytes, n_bytes));
    onnx->model = onnx__model_proto__unpack(&onnx->allocator, n_bytes, bytes);
    if (onnx->is_refused) return STATUS_OUT_OF_MEMORY;
    if (onnx->model == NULL)
        FAIL(onnx->ctx, STATUS_CORRUPT, "onnx: %zu bytes, no protobuf message of a model", n_bytes);
    return STATUS_OK;
}

status_t onnx_begin(onnx_t *onnx, context_t *ctx, const onnx_source_t *source)
{
    file_mapping_t *mapping = NULL;
    const void *bytes = source->bytes;
    size_t n_bytes = source->n_bytes;
    onnx->ctx = ctx;
    onnx->path = source->path;
    onnx->folder = source->folder;
    onnx->self = VALUE_NONE;
    onnx->allocator = (ProtobufCAllocator){get_block, put_block, onnx};
    if (source->path != NULL) {
        TRY(file_read_whole(ctx, source->path, &mapping));
        bytes = file_bytes(mapping);
        n_bytes = file_size(mapping);
    }
    if (onnx->kept != NULL) kept_see_bytes(onnx->kept, bytes, n_bytes);
    status_t status = unpack(onnx, bytes, n_bytes);
    file_release(mapping);
    return status == STATUS_OK ? onnx_check_operators(onnx) : status;
}

status_t onnx_fail_at(onnx_t *onnx, status_t status, const char *what, const char *name,
                      const char *type)
{
    char message[CONTEXT_ERROR_MAX];
    const char *inner = context_error(onnx->ctx); /* the message may name a node of a block */
    snprintf(message, sizeof message, "%s", inner + (strncmp(inner, "onnx: ", 6) == 0 ? 6 : 0));
    return context_fail(onnx->ctx, status, "onnx: %s \"%.200s\"%s%.64s%s: %s", what,
                        name != NULL ? name : "", type != NULL ? " (" : "",
                        type != NULL ? type : "", type != NULL ? ")" : "", message);
}

static const char *text_or(const char *text, const char *other)
{
    return text != NULL && *text != '\0' ? text : other;
}

const char *onnx_path_of(const Onnx__NodeProto *node)
{
    return text_or(node->name, node->n_output > 0 ? node->output[0] : "");
}

/* ---- initializers ---- */

status_t onnx_add_initializer(onnx_t *onnx, Onnx__TensorProto *proto)
{
    tensor_t *tensor = NULL;
    item_t item;
    if (proto->name == NULL || *proto->name == '\0')
        FAIL(onnx->ctx, STATUS_CORRUPT, "it has no name");
    if (proto->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__STRING)
        return ml_bind_text(onnx, proto->name);
    if (onnx->n_blocks == 0) TRY(onnx_tensor_given(onnx, proto, &tensor));
    if (tensor == NULL)
        TRY(onnx->n_blocks > 0 ? onnx_tensor_again(onnx, proto, &tensor)
                               : onnx_tensor(onnx, proto, &tensor));
    TRY(onnx_item_take(onnx, proto->name, tensor, &item));
    onnx->items[item].is_weight = true;
    onnx->items[item].narrow = onnx_narrow_type(proto->data_type);
    return onnx_bind(onnx, proto->name, item);
}

/* ---- inputs ---- */

/* True for inputs that are also initializers. These are weights, which are bound before other
 * inputs. */
bool onnx_is_initializer(const onnx_t *onnx, const Onnx__ValueInfoProto *input)
{
    item_t item = onnx_find(onnx, input->name);
    return item != ITEM_NONE && onnx->items[item].is_weight;
}

const Onnx__TensorShapeProto *onnx_shape_of(const Onnx__ValueInfoProto *input)
{
    const Onnx__TypeProto *type = input->type;
    bool is_tensor = type != NULL && type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE &&
                     type->tensor_type != NULL;
    return is_tensor ? type->tensor_type->shape : NULL;
}

bool onnx_is_fixed(const Onnx__TensorShapeProto__Dimension *dim)
{
    return dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE &&
           dim->dim_value >= 0;
}

const char *onnx_param_of(const Onnx__TensorShapeProto__Dimension *dim)
{
    bool is_param = dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
    const char *name = is_param && dim->dim_param != NULL ? dim->dim_param : "";
    return *name == '\0' || strcmp(name, "?") == 0 ? NULL : name;
}

/* The options' shape for an input, or NULL. */
static const onnx_shape_t *given_shape(const onnx_t *onnx, const char *input)
{
    int n = onnx->options != NULL ? onnx->options->n_shapes : 0;
    for (int i = 0; i < n; i++) {
        const onnx_shape_t *shape = &onnx->options->shapes[i];
        if (shape->input != NULL && strcmp(shape->input, input) == 0) return shape;
    }
    return NULL;
}

/* The size requested for a dimension of an input; -1 if unknown. */
static int64_t given_size(const onnx_t *onnx, const onnx_shape_t *given, int dim)
{
    return given != NULL ? given->sizes[dim] : dim == 0 ? onnx->batch : -1;
}

static status_t check_given(context_t *ctx, const Onnx__TensorShapeProto *shape,
                            const onnx_shape_t *given)
{
    if (given == NULL) return STATUS_OK;
    if (given->rank != (int)shape->n_dim || (given->rank > 0 && given->sizes == NULL))
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "a shape of rank %d, the file has rank %zu", given->rank,
             shape->n_dim);
    for (int d = 0; d < given->rank; d++) {
        REQUIRE(ctx, given->sizes[d] >= 0, "size %lld in dimension %d", (long long)given->sizes[d],
                d);
        if (onnx_is_fixed(shape->dim[d]) && shape->dim[d]->dim_value != given->sizes[d])
            FAIL(ctx, STATUS_INVALID_ARGUMENT,
                 "size %lld in dimension %d, the file fixes it to %lld", (long long)given->sizes[d],
                 d, (long long)shape->dim[d]->dim_value);
    }
    return STATUS_OK;
}

/* Records the sizes of an input's named dimensions: from the options' shape for the input if
 * is_given, else from the options' batch. Called for all inputs before any input is added, because
 * inputs may share a size. */
static status_t note_sizes(onnx_t *onnx, const Onnx__ValueInfoProto *input, bool is_given)
{
    context_t *ctx = onnx->ctx;
    const Onnx__TensorShapeProto *shape = onnx_shape_of(input);
    const onnx_shape_t *given = given_shape(onnx, input->name);
    if (shape == NULL || shape->n_dim > TENSOR_MAX_RANK || (given != NULL) != is_given)
        return STATUS_OK;
    TRY(check_given(ctx, shape, given));
    for (int d = 0; d < (int)shape->n_dim; d++) {
        int64_t size = given_size(onnx, given, d);
        if (onnx_is_fixed(shape->dim[d]) || size < 0) continue;
        int at = onnx_open_find(onnx, onnx_param_of(shape->dim[d]), d, size);
        if (at == ONNX_NOT_OPEN) continue;
        onnx_open_t *open = &onnx->open[at];
        if (open->size >= 0 && !is_given) continue;
        if (open->size >= 0 && open->size != size)
            FAIL(ctx, STATUS_INVALID_ARGUMENT,
                 "size %lld in dimension %d, %s is %lld elsewhere, one name is one size",
                 (long long)size, d, open->name, (long long)open->size);
        open->size = size;
        open->is_free = !is_given && (onnx->options == NULL || onnx->options->batch == 0);
    }
    return STATUS_OK;
}

static status_t read_sizes(onnx_t *onnx, const Onnx__ValueInfoProto *value, onnx_input_t *input,
                           int64_t *out_sizes)
{
    context_t *ctx = onnx->ctx;
    const Onnx__TensorShapeProto *shape = onnx_shape_of(value);
    if (shape->n_dim > TENSOR_MAX_RANK)
        FAIL(ctx, STATUS_UNSUPPORTED, "rank %zu, must be at most %d", shape->n_dim,
             TENSOR_MAX_RANK);
    for (int d = 0; d < (int)shape->n_dim; d++) {
        const char *param = onnx_param_of(shape->dim[d]);
        input->open[d] = ONNX_NOT_OPEN;
        out_sizes[d] = shape->dim[d]->dim_value;
        if (onnx_is_fixed(shape->dim[d])) continue;
        int64_t size = given_size(onnx, given_shape(onnx, value->name), d);
        int at = onnx_open_find(onnx, param, d, size);
        out_sizes[d] = at == ONNX_NOT_OPEN ? size : onnx->open[at].size;
        const bool is_free = out_sizes[d] < 0;
        if (is_free && onnx->options != NULL && onnx->options->open_size > 0)
            out_sizes[d] = onnx->options->open_size;
        if (at != ONNX_NOT_OPEN) {
            onnx->open[at].size = out_sizes[d];
            onnx->open[at].is_free |= is_free;
        }
        if (out_sizes[d] < 0)
            FAIL(ctx, STATUS_INVALID_ARGUMENT,
                 "dimension %d (\"%.64s\") is not fixed, and no shape says its size", d,
                 param != NULL ? param : "?");
        input->open[d] = (int8_t)at;
        if (at != ONNX_NOT_OPEN)
            out_sizes[d] = sym_name(ctx, onnx->open[at].name, onnx_hint(onnx, &onnx->open[at]), 0,
                                    INT64_MAX / 16);
    }
    return sym_status(ctx);
}

/* Index of the open size that is called `param` in a tensor input; ONNX_NOT_OPEN if there is
 * none. */
static int8_t find_open(const onnx_t *onnx, const char *param)
{
    for (int i = 0; i < onnx->n_open && param != NULL; i++)
        if (onnx->open[i].param != NULL && strcmp(onnx->open[i].param, param) == 0)
            return (int8_t)i;
    return ONNX_NOT_OPEN;
}

/* Describes the tensors of a sequence, or an optional's element. Open sizes are -1, unless a tensor
 * input has an open size of the same name. */
static status_t read_element(onnx_t *onnx, const Onnx__TypeProto *type, onnx_input_t *input,
                             tensor_info_t *out_info)
{
    tensor_info_t info = {.rank = ONNX_RANK_ANY};
    if (type == NULL || type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE ||
        type->tensor_type == NULL)
        FAIL(onnx->ctx, STATUS_UNSUPPORTED, "it has elements that are not tensors");
    TRY(onnx_dtype(onnx->ctx, type->tensor_type->elem_type, &info.dtype));
    const Onnx__TensorShapeProto *shape = type->tensor_type->shape;
    if (shape != NULL) info.rank = (int)shape->n_dim;
    if (shape != NULL && shape->n_dim > TENSOR_MAX_RANK)
        FAIL(onnx->ctx, STATUS_UNSUPPORTED, "rank %zu, must be at most %d", shape->n_dim,
             TENSOR_MAX_RANK);
    for (int d = 0; d < info.rank; d++) {
        input->open[d] = find_open(onnx, onnx_param_of(shape->dim[d]));
        info.sizes[d] = onnx_is_fixed(shape->dim[d]) ? shape->dim[d]->dim_value : -1;
        if (input->open[d] != ONNX_NOT_OPEN)
            info.sizes[d] = sym_name(onnx->ctx, onnx->open[input->open[d]].name, SYM_NO_HINT, 0, 0);
    }
    *out_info = info;
    return STATUS_OK;
}

/* Adds an input that is a sequence (a list of the graph) or an optional (a value that is a tensor
 * or none). */
static status_t add_special(onnx_t *onnx, const Onnx__ValueInfoProto *value)
{
    const Onnx__TypeProto *type = value->type;
    const bool is_optional = type->value_case == ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE;
    onnx_input_t input;
    tensor_info_t info;
    if (is_optional) type = type->optional_type != NULL ? type->optional_type->elem_type : NULL;
    const bool is_sequence = type != NULL &&
                             type->value_case == ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE;
    if (is_sequence) type = type->sequence_type != NULL ? type->sequence_type->elem_type : NULL;
    TRY(read_element(onnx, type, &input, &info));
    TRY(context_grow(onnx->ctx, &onnx->inputs, &onnx->inputs_capacity, onnx->n_inputs + 1,
                     sizeof *onnx->inputs));
    TRY(onnx_value(onnx, value->name, &info, &input.item));
    onnx->items[input.item].is_sequence = is_sequence;
    onnx->items[input.item].is_optional = is_optional;
    onnx->inputs[onnx->n_inputs++] = input;
    return onnx_bind(onnx, value->name, input.item);
}

static status_t add_input(onnx_t *onnx, const Onnx__ValueInfoProto *value)
{
    context_t *ctx = onnx->ctx;
    const Onnx__TypeProto *type = value->type;
    int64_t sizes[TENSOR_MAX_RANK];
    dtype_t dtype = DTYPE_NONE;
    onnx_input_t input;
    if (type != NULL && (type->value_case == ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE ||
                         type->value_case == ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE))
        return add_special(onnx, value);
    if (type == NULL || type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE ||
        type->tensor_type == NULL)
        FAIL(ctx, STATUS_UNSUPPORTED, "it is not a tensor");
    TRY(onnx_dtype(ctx, type->tensor_type->elem_type, &dtype));
    if (type->tensor_type->shape == NULL) FAIL(ctx, STATUS_INVALID_ARGUMENT, "it has no shape");
    int rank = (int)type->tensor_type->shape->n_dim;
    TRY(read_sizes(onnx, value, &input, sizes));
    TRY(shape_check(ctx, "shape", dtype, rank, sizes));
    tensor_info_t info = info_dense(dtype, rank, sizes);
    TRY(context_grow(ctx, &onnx->inputs, &onnx->inputs_capacity, onnx->n_inputs + 1,
                     sizeof *onnx->inputs));
    TRY(onnx_value(onnx, value->name, &info, &input.item));
    onnx->inputs[onnx->n_inputs++] = input;
    return onnx_bind(onnx, value->name, input.item);
}

/* Requires that each shape of the options belongs to an input. */
static status_t check_shapes(onnx_t *onnx)
{
    const Onnx__GraphProto *graph = onnx->model->graph;
    int n = onnx->options != NULL ? onnx->options->n_shapes : 0;
    for (int s = 0; s < n; s++) {
        const char *name = onnx->options->shapes[s].input;
        bool is_there = false;
        for (size_t i = 0; i < graph->n_input && name != NULL; i++)
            is_there |= graph->input[i]->name != NULL && strcmp(graph->input[i]->name, name) == 0 &&
                        !onnx_is_initializer(onnx, graph->input[i]);
        if (!is_there)
            FAIL(onnx->ctx, STATUS_INVALID_ARGUMENT,
                 "onnx: a shape for input \"%.200s\", the model has no such input",
                 text_or(name, ""));
    }
    return STATUS_OK;
}

static status_t add_inputs(onnx_t *onnx)
{
    const Onnx__GraphProto *graph = onnx->model->graph;
    if (graph->n_sparse_initializer > 0)
        FAIL(onnx->ctx, STATUS_UNSUPPORTED, "onnx: sparse initializers");
    TRY(onnx_check_given(onnx, graph));
    for (size_t i = 0; i < graph->n_initializer; i++) {
        status_t status = onnx_add_initializer(onnx, graph->initializer[i]);
        if (status != STATUS_OK)
            return onnx_fail_at(onnx, status, "initializer", graph->initializer[i]->name, NULL);
    }
    for (size_t i = 0; i < graph->n_input; i++)
        if (graph->input[i]->name == NULL || *graph->input[i]->name == '\0')
            FAIL(onnx->ctx, STATUS_CORRUPT, "onnx: input %zu has no name", i);
    TRY(check_shapes(onnx));
    enum { SHAPES, BATCH, INPUTS, N_ROUNDS };
    for (size_t i = 0; i < N_ROUNDS * graph->n_input; i++) {
        const size_t round = i / graph->n_input;
        const Onnx__ValueInfoProto *input = graph->input[i % graph->n_input];
        if (onnx_is_initializer(onnx, input)) continue;
        status_t status = round == INPUTS ? add_input(onnx, input)
                                          : note_sizes(onnx, input, round == SHAPES);
        if (status != STATUS_OK) return onnx_fail_at(onnx, status, "input", input->name, NULL);
    }
    for (int i = 0; i < onnx->n_inputs; i++)
        if (!onnx_is_special(onnx, onnx->inputs[i].item))
            TRY(onnx_name_elements(onnx, onnx->inputs[i].item));
    return STATUS_OK;
}

/* ---- nodes ---- */

static status_t begin_node(onnx_t *onnx, const onnx_operator_t *op, const Onnx__NodeProto *proto,
                           onnx_node_t *node)
{
    context_t *ctx = onnx->ctx;
    *node = (onnx_node_t){
        .onnx = onnx, .op = op, .proto = proto, .opset = onnx->opset, .path = onnx_path_of(proto)};
    if (*node->path == '\0') node->path = NULL;
    if (proto->n_input > OP_MAX_INPUTS || proto->n_output > OP_MAX_OUTPUTS)
        FAIL(ctx, STATUS_UNSUPPORTED, "%zu inputs and %zu outputs, %d and %d are the most",
             proto->n_input, proto->n_output, OP_MAX_INPUTS, OP_MAX_OUTPUTS);
    if (op->max_inputs >= 0 && proto->n_input > (size_t)op->max_inputs)
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "%zu inputs, %d are the most", proto->n_input,
             op->max_inputs);
    for (size_t i = 0; i < proto->n_input; i++) {
        const char *name = proto->input[i];
        node->in[i] = ITEM_NONE;
        if (*name == '\0') continue;
        node->in[i] = onnx_find(onnx, name);
        if (node->in[i] == ITEM_NONE && onnx_is_left_out(onnx, name)) continue;
        if (node->in[i] == ITEM_NONE)
            FAIL(ctx, STATUS_CORRUPT, "input \"%.64s\" is made by no node before it", name);
        if (onnx->items[node->in[i]].is_missing)
            FAIL(ctx, STATUS_UNSUPPORTED, "input \"%.64s\" is an output that is not supported",
                 name);
        if (!op->takes_any && onnx_is_special(onnx, node->in[i]))
            FAIL(ctx, STATUS_INVALID_ARGUMENT, "input \"%.64s\" is %s, a tensor is needed", name,
                 onnx->items[node->in[i]].is_sequence ? "a sequence" : "an optional");
    }
    node->n_in = (int)proto->n_input;
    TRY(onnx_check_inputs(node, 0, op->min_inputs));
    node->n_out = (int)proto->n_output;
    bool has_output = false;
    for (int i = 0; i < node->n_out; i++) {
        node->out[i] = ITEM_NONE;
        has_output = has_output || onnx_wants(node, i);
    }
    if (!has_output) FAIL(ctx, STATUS_INVALID_ARGUMENT, "it has no output");
    return STATUS_OK;
}

/* True if the output has elements of input 0 and therefore its narrow type (narrow_impl.h). This
 * holds for all ONNX operators on narrow types, except those listed here, which set the type
 * themselves. */
static bool moves_elements(const onnx_node_t *node, item_t out)
{
    static const char *const others[] = {
        "Cast", "CastLike", "QuantizeLinear", "DequantizeLinear", "Constant", NULL};
    const onnx_t *onnx = node->onnx;
    if (!onnx_has(node, 0) || onnx->items[node->in[0]].narrow == 0) return false;
    for (int i = 0; others[i] != NULL; i++)
        if (strcmp(node->op->name, others[i]) == 0) return false;
    return onnx->items[out].info.dtype == onnx->items[node->in[0]].info.dtype;
}

/* Binds the outputs. An output that the import does not produce is bound as missing, so that a node
 * that reads it fails with a clear message. */
static status_t end_node(onnx_node_t *node, item_t first_new)
{
    onnx_t *onnx = node->onnx;
    TRY(onnx_attrs_done(node));
    for (int i = 0; i < node->n_out; i++) {
        const char *name = node->proto->output[i];
        item_t item = node->out[i];
        if (*name == '\0') continue;
        if (item == ITEM_NONE) {
            TRY(onnx_value(onnx, name, &(tensor_info_t){.dtype = DTYPE_NONE}, &item));
            onnx->items[item].is_missing = true;
            onnx->items[item].is_text = i == 0 && ml_gives_text(node->proto);
        }
        if (item >= first_new && moves_elements(node, item))
            onnx->items[item].narrow = onnx->items[node->in[0]].narrow;
        if (item >= first_new && (!onnx->items[item].is_weight || onnx->items[item].name == NULL))
            onnx->items[item].name = name;
        TRY(onnx_bind(onnx, name, item));
    }
    return STATUS_OK;
}

/* Imports the node. Messages of guards that it adds contain its name. */
static status_t import_node(onnx_node_t *node)
{
    onnx_t *onnx = node->onnx;
    char origin[256];
    onnx->proto = node->proto;
    snprintf(origin, sizeof origin, "%.100s \"%.120s\"", node->proto->op_type,
             onnx_path_of(node->proto));
    sym_origin(onnx->ctx, origin);
    const status_t status = node->op->import(node), calculated = sym_status(onnx->ctx);
    /* report the first error, not its consequence */
    return calculated != STATUS_OK ? calculated : status;
}

status_t onnx_add_node(onnx_t *onnx, const Onnx__NodeProto *proto)
{
    const onnx_operator_t *op = onnx_operator_of(onnx, proto);
    onnx_function_t *function = onnx_function_of(onnx, proto);
    item_t first_new = onnx->n_items;
    onnx_node_t node;
    status_t status = STATUS_OK;
    bool is_text = false;
    TRY(ml_pass_text(onnx, proto, &is_text));
    if (is_text) return STATUS_OK;
    if (function != NULL) {
        status = onnx_import_function(onnx, function, proto);
    } else {
        status = begin_node(onnx, op, proto, &node);
        if (status == STATUS_OK) status = import_node(&node);
        if (status == STATUS_OK) status = end_node(&node, first_new);
    }
    return status == STATUS_OK
               ? status
               : onnx_fail_at(onnx, status, "node", onnx_path_of(proto), proto->op_type);
}

/* ---- the module ---- */

static status_t append_name(context_t *ctx, datum_t *list, const char *name)
{
    datum_t *item = NULL;
    TRY(datum_string(ctx, name, &item));
    FINISH(datum_append(ctx, list, item), datum_release(item));
}

static status_t set_names(onnx_t *onnx, const char *attribute, size_t n,
                          Onnx__ValueInfoProto *const *values)
{
    context_t *ctx = onnx->ctx;
    datum_t *list = NULL;
    TRY(datum_list(ctx, 0, NULL, &list));
    status_t status = STATUS_OK;
    for (size_t i = 0; i < n && status == STATUS_OK; i++) {
        bool is_left_out = values == onnx->model->graph->input &&
                           onnx_is_initializer(onnx, values[i]);
        if (!is_left_out) status = append_name(ctx, list, values[i]->name);
    }
    if (status == STATUS_OK) status = module_set_attribute(ctx, onnx->module, attribute, list);
    datum_release(list);
    return status;
}

static status_t put_metadata(context_t *ctx, datum_t *dict,
                             const Onnx__StringStringEntryProto *pair)
{
    datum_t *value = NULL;
    TRY(datum_string(ctx, text_or(pair->value, ""), &value));
    FINISH(datum_put(ctx, dict, text_or(pair->key, ""), value), datum_release(value));
}

static status_t set_metadata(onnx_t *onnx)
{
    const Onnx__ModelProto *model = onnx->model;
    datum_t *dict = NULL;
    TRY(datum_dict(onnx->ctx, 0, NULL, NULL, &dict));
    status_t status = STATUS_OK;
    for (size_t i = 0; i < model->n_metadata_props && status == STATUS_OK; i++)
        status = put_metadata(onnx->ctx, dict, model->metadata_props[i]);
    if (status == STATUS_OK)
        status = module_set_attribute(onnx->ctx, onnx->module, ONNX_METADATA, dict);
    datum_release(dict);
    return status;
}

status_t onnx_set_attributes(onnx_t *onnx)
{
    const Onnx__GraphProto *graph = onnx->model->graph;
    datum_t *opset = NULL;
    TRY(set_names(onnx, "input_names", graph->n_input, graph->input));
    TRY(set_names(onnx, "output_names", graph->n_output, graph->output));
    TRY(set_metadata(onnx));
    TRY(datum_int(onnx->ctx, onnx->opset, &opset));
    FINISH(module_set_attribute(onnx->ctx, onnx->module, "opset", opset), datum_release(opset));
}

static status_t find_dequantize(void *user, const graph_node_t *node)
{
    *(bool *)user |= rewrite_is_op(node, "dequantize");
    return STATUS_OK;
}

/* Runs pass fold_quantize. Keeps the old graph if the new one no longer has the open sizes. */
static status_t fold_quantize(onnx_t *onnx, graph_t **graph)
{
    static const char *const passes[] = {"fold_quantize", "dead_code", NULL};
    const pass_options_t options = {.self = onnx->module, .knows_self = true};
    bool has_integers = false;
    graph_t *folded = NULL;
    (void)rewrite_visit(graph_body(*graph), find_dequantize, &has_integers);
    if (!has_integers || (onnx->options != NULL && onnx->options->keeps_numbers)) return STATUS_OK;
    TRY(pass_run(onnx->ctx, *graph, passes, &options, &folded));
    graph_t *unused = folded;
    if (graph_is_open(folded) || !graph_is_open(*graph)) {
        unused = *graph;
        *graph = folded;
    }
    graph_release(unused);
    return STATUS_OK;
}

static bool size_at_import(void *user, int number, const char *name, int64_t *out_size)
{
    const onnx_t *onnx = user;
    (void)number;
    for (int i = 0; i < onnx->n_open; i++) {
        if (strcmp(onnx->open[i].name, name) != 0) continue;
        *out_size = onnx_hint(onnx, &onnx->open[i]);
        return true;
    }
    return false;
}

/* Adds the options' guards, and checks that the sizes of the import satisfy them. */
static status_t add_guards(onnx_t *onnx)
{
    context_t *ctx = onnx->ctx;
    const onnx_options_t *options = onnx->options;
    char text[256];
    int failing = 0;
    for (int i = 0; options != NULL && i < options->n_guards; i++) {
        const char *cursor = options->guards[i];
        if (cursor == NULL) return context_null(ctx, "onnx_load", "a guard");
        if (!sym_parse_guard(ctx, &cursor, "the model's exporter")) return sym_status(ctx);
        if (*cursor != '\0')
            FAIL(ctx, STATUS_INVALID_ARGUMENT, "onnx: guard \"%.200s\", \"%.40s\" is left over",
                 options->guards[i], cursor);
    }
    if (sym_guards_hold(onnx->space, size_at_import, onnx, &failing)) return STATUS_OK;
    sym_guard_text(onnx->space, failing, sizeof text, text);
    FAIL(ctx, STATUS_INVALID_ARGUMENT, "onnx: the sizes of the import do not satisfy %s", text);
}

static status_t import_model(onnx_t *onnx)
{
    graph_t *graph = NULL;
    TRY(add_inputs(onnx));
    TRY(add_guards(onnx));
    const Onnx__GraphProto *read = onnx->model->graph;
    TRY(onnx_add_nodes(onnx, read->n_node, read->node, "import"));
    TRY(ml_drop_texts(onnx));
    status_t status = onnx_build(onnx, &graph);
    if (status == STATUS_OK) status = fold_quantize(onnx, &graph);
    if (status == STATUS_OK) status = onnx_set_attributes(onnx);
    if (status == STATUS_OK) status = graph_set_method(onnx->ctx, onnx->module, "forward", graph);
    graph_release(graph);
    return status;
}

void onnx_end(onnx_t *onnx)
{
    onnx_cut_items(onnx, 0);
    onnx_cut_calls(onnx, 0);
    CONTEXT_PUT(onnx->ctx, onnx->items, onnx->names, onnx->bound, onnx->inputs, onnx->calls);
    onnx_functions_end(onnx);
    graph_builder_destroy(onnx->builder);
    module_release(onnx->module);
    sym_space_release(onnx->space);
    if (onnx->model != NULL) onnx__model_proto__free_unpacked(onnx->model, &onnx->allocator);
}

static status_t import_in_space(onnx_t *onnx, const onnx_source_t *source)
{
    TRY(onnx_begin(onnx, onnx->ctx, source));
    if (onnx->kept != NULL) kept_see_model(onnx->kept, onnx);
    if (onnx->kept != NULL && onnx->kept->found != NULL) return STATUS_OK;
    TRY(sym_space_create(onnx->ctx, &onnx->space));
    sym_space_t *outer = sym_space_enter(onnx->ctx, onnx->space);
    FINISH(import_model(onnx), sym_space_enter(onnx->ctx, outer));
}

static status_t import_once(context_t *ctx, const onnx_source_t *source,
                            const onnx_options_t *options, onnx_kept_t *kept, onnx_hints_t *hints,
                            bool *out_is_changed, module_t **out_module)
{
    onnx_t *onnx = NULL;
    TRY(context_get_zeroed(ctx, sizeof *onnx, "an import", &onnx));
    onnx->ctx = ctx;
    onnx->options = options;
    onnx->kept = kept;
    onnx->hints = hints;
    onnx->batch = options != NULL && options->batch != 0 ? options->batch : 1;
    const status_t status = import_in_space(onnx, source);
    if (status == STATUS_OK) *out_module = module_retain(onnx->module);
    if (*out_module != NULL) context_counters(ctx)->models_imported++;
    *out_is_changed = status == STATUS_INVALID_ARGUMENT && hints != NULL &&
                      onnx_hints_change(hints, onnx);
    onnx_end(onnx);
    context_put(ctx, onnx);
    return status;
}

/* Imports for sizes that nobody requested. If there are none that the model accepts, the message is
 * that of the first import. */
static status_t import_somewhere(context_t *ctx, const onnx_source_t *source,
                                 const onnx_options_t *options, onnx_kept_t *kept,
                                 module_t **out_module)
{
    onnx_hints_t *hints = NULL;
    char message[CONTEXT_ERROR_MAX];
    bool is_changed = false;
    TRY(context_get_zeroed(ctx, sizeof *hints, "sizes", &hints));
    status_t status = import_once(ctx, source, options, kept, hints, &is_changed, out_module);
    const status_t first = status;
    snprintf(message, sizeof message, "%s", context_error(ctx));
    while (is_changed) {
        context_clear_error(ctx);
        status = import_once(ctx, source, options, NULL, hints, &is_changed, out_module);
    }
    onnx_hints_clear(hints);
    context_put(ctx, hints);
    if (status != STATUS_INVALID_ARGUMENT || first == STATUS_OK) return status;
    return context_fail(ctx, first, "%s", message);
}

status_t onnx_import(context_t *ctx, const onnx_source_t *source, const onnx_options_t *options,
                     onnx_kept_t *kept, module_t **out_module)
{
    bool is_changed = false;
    if (options != NULL && options->batch < 0)
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "onnx: a batch of %lld, 1 or more is needed",
             (long long)options->batch);
    if (options != NULL)
        TRY(context_array(ctx, "onnx_load", "shapes", options->n_shapes, options->shapes));
    if (options != NULL)
        TRY(context_array(ctx, "onnx_load", "guards", options->n_guards, options->guards));
    interrupt_begin(ctx, "onnx_load");
    const status_t status = options != NULL && options->open_size != 0
                                ? import_somewhere(ctx, source, options, kept, out_module)
                                : import_once(ctx, source, options, kept, NULL, &is_changed,
                                              out_module);
    return interrupt_end(ctx, status);
}

status_t onnx_from_path(context_t *ctx, const char *op, const char *path, onnx_source_t *out_source)
{
    if (path == NULL) return context_null(ctx, op, "path");
    char *folder = NULL;
    TRY(context_string(ctx, path, &folder));
    char *slash = strrchr(folder, '/');
    folder[slash != NULL ? slash - folder + 1 : 0] = '\0';
    *out_source = (onnx_source_t){.path = path, .folder = folder};
    return STATUS_OK;
}

status_t onnx_load(context_t *ctx, const char *path, const onnx_options_t *options,
                   module_t **out_module)
{
    onnx_source_t source = {0};
    TRY(context_output(ctx, "onnx_load", out_module));
    TRY(onnx_from_path(ctx, "onnx_load", path, &source));
    FINISH(onnx_import(ctx, &source, options, NULL, out_module), context_put(ctx, source.folder));
}

status_t onnx_load_bytes(context_t *ctx, const void *bytes, size_t n_bytes,
                         const onnx_options_t *options, module_t **out_module)
{
    TRY(context_output(ctx, "onnx_load_bytes", out_module));
    if (bytes == NULL) return context_null(ctx, "onnx_load_bytes", "bytes");
    return onnx_import(ctx, &(onnx_source_t){.bytes = bytes, .n_bytes = n_bytes}, options, NULL,
                       out_module);
}
