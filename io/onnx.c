/* Reading ONNX models: the file, the graph's inputs, its nodes in order, the module.
 *
 * The bytes of the message are dropped as tensors are made of them; what is left of it, names above
 * all, goes at the end. */
#include "io/onnx_impl.h"

#include <stdio.h>
#include <string.h>

#include "tensor/context_impl.h"
#include "tensor/file.h"
#include "tensor/tensor_impl.h"

#ifdef TESSERA_HAVE_ONNX

#include "graph/ir/graph_impl.h"

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
    TRY(onnx_wire_check(onnx->ctx, bytes, n_bytes));
    onnx->model = onnx__model_proto__unpack(&onnx->allocator, n_bytes, bytes);
    if (onnx->is_refused) return STATUS_OUT_OF_MEMORY;
    if (onnx->model == NULL)
        FAIL(onnx->ctx, STATUS_CORRUPT, "onnx: %zu bytes, no protobuf message of a model", n_bytes);
    return STATUS_OK;
}

/* Before a failed message's own words comes where it was. */
static status_t fail_at(onnx_t *onnx, status_t status, const char *what, const char *name,
                        const char *type)
{
    char message[CONTEXT_ERROR_MAX];
    snprintf(message, sizeof message, "%s", context_error(onnx->ctx));
    return context_fail(onnx->ctx, status, "onnx: %s \"%.200s\"%s%.64s%s: %s", what,
                        name != NULL ? name : "", type != NULL ? " (" : "",
                        type != NULL ? type : "", type != NULL ? ")" : "", message);
}

static bool is_own_domain(const char *domain)
{
    return domain == NULL || *domain == '\0' || strcmp(domain, "ai.onnx") == 0;
}

static status_t read_opset(onnx_t *onnx)
{
    const Onnx__ModelProto *model = onnx->model;
    if (model->graph == NULL) FAIL(onnx->ctx, STATUS_CORRUPT, "onnx: the model has no graph");
    for (size_t i = 0; i < model->n_opset_import; i++)
        if (is_own_domain(model->opset_import[i]->domain))
            onnx->opset = model->opset_import[i]->version;
    if (onnx->opset < ONNX_OPSET_FIRST || onnx->opset > ONNX_OPSET_LAST)
        FAIL(onnx->ctx, STATUS_UNSUPPORTED, "onnx: opset %lld, %d to %d are supported",
             (long long)onnx->opset, ONNX_OPSET_FIRST, ONNX_OPSET_LAST);
    return STATUS_OK;
}

/* ---- operators that are unknown: all of them in one message ---- */

static const char *text_or(const char *text, const char *other)
{
    return text != NULL && *text != '\0' ? text : other;
}

static const char *path_of(const Onnx__NodeProto *node)
{
    return text_or(node->name, node->n_output > 0 ? node->output[0] : "");
}

static const onnx_operator_t *find_operator(const onnx_t *onnx, const Onnx__NodeProto *node)
{
    bool is_ours = is_own_domain(node->domain) && node->op_type != NULL;
    return is_ours ? onnx_operator(node->op_type, onnx->opset) : NULL;
}

static bool is_same_operator(const Onnx__NodeProto *a, const Onnx__NodeProto *b)
{
    return strcmp(text_or(a->op_type, ""), text_or(b->op_type, "")) == 0 &&
           strcmp(text_or(a->domain, ""), text_or(b->domain, "")) == 0;
}

/* The first nodes of operators that are unknown, as many as a message can hold. */
#define MAX_LISTED 32

static void list_unknown(const onnx_t *onnx, int n, const Onnx__NodeProto *const *unknown,
                         const int *n_nodes, text_t *text)
{
    text_append(text, "onnx: %d operator%s not supported: ", n, n == 1 ? " is" : "s are");
    for (int i = 0; i < n; i++) {
        const Onnx__NodeProto *node = unknown[i];
        bool is_ours = is_own_domain(node->domain);
        text_append(text, "%s%.64s%s%.64s (node \"%.64s\"", i > 0 ? ", " : "",
                    is_ours ? "" : node->domain, is_ours ? "" : ".", text_or(node->op_type, "\"\""),
                    path_of(node));
        if (n_nodes[i] > 1) text_append(text, " and %d more", n_nodes[i] - 1);
        if (is_ours) text_append(text, ", opset %lld", (long long)onnx->opset);
        text_append(text, ")");
    }
}

static status_t check_operators(onnx_t *onnx)
{
    const Onnx__GraphProto *graph = onnx->model->graph;
    const Onnx__NodeProto *unknown[MAX_LISTED];
    int n_nodes[MAX_LISTED] = {0}, n = 0;
    for (size_t i = 0; i < graph->n_node; i++) {
        const Onnx__NodeProto *node = graph->node[i];
        if (find_operator(onnx, node) != NULL) continue;
        int at = 0;
        while (at < n && !is_same_operator(unknown[at], node)) at++;
        if (at == MAX_LISTED) continue;
        if (at == n) unknown[n++] = node;
        n_nodes[at]++;
    }
    if (n == 0) return STATUS_OK;
    text_t text = text_begin(onnx->ctx);
    list_unknown(onnx, n, unknown, n_nodes, &text);
    status_t status = text_status(&text);
    if (status == STATUS_OK)
        status = context_fail(onnx->ctx, STATUS_UNSUPPORTED, "%s", text_string(&text));
    text_clear(&text);
    return status;
}

/* ---- initializers and inputs ---- */

static status_t add_initializer(onnx_t *onnx, Onnx__TensorProto *proto)
{
    tensor_t *tensor = NULL;
    item_t item;
    if (proto->name == NULL || *proto->name == '\0')
        FAIL(onnx->ctx, STATUS_CORRUPT, "it has no name");
    TRY(onnx_tensor(onnx, proto, &tensor));
    TRY(onnx_known_take(onnx, proto->name, tensor, &item));
    onnx->items[item].is_weight = true;
    return onnx_bind(onnx, proto->name, item);
}

static status_t read_sizes(onnx_t *onnx, const Onnx__TensorShapeProto *shape, int64_t *out_sizes)
{
    context_t *ctx = onnx->ctx;
    if (shape->n_dim > TENSOR_MAX_RANK)
        FAIL(ctx, STATUS_UNSUPPORTED, "rank %zu, %d is the most", shape->n_dim, TENSOR_MAX_RANK);
    for (size_t i = 0; i < shape->n_dim; i++) {
        const Onnx__TensorShapeProto__Dimension *dim = shape->dim[i];
        bool is_fixed = dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE &&
                        dim->dim_value >= 0;
        bool is_named = dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
        if (!is_fixed && i > 0)
            FAIL(ctx, STATUS_INVALID_ARGUMENT,
                 "dimension %zu (\"%.64s\") is not fixed, only the first may be open", i,
                 is_named ? text_or(dim->dim_param, "?") : "?");
        out_sizes[i] = is_fixed ? dim->dim_value : onnx->batch;
    }
    return STATUS_OK;
}

static status_t add_input(onnx_t *onnx, const Onnx__ValueInfoProto *input)
{
    context_t *ctx = onnx->ctx;
    const Onnx__TypeProto *type = input->type;
    int64_t sizes[TENSOR_MAX_RANK];
    dtype_t dtype = DTYPE_NONE;
    item_t item;
    if (type == NULL || type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE ||
        type->tensor_type == NULL)
        FAIL(ctx, STATUS_UNSUPPORTED, "it is no tensor");
    TRY(onnx_dtype(ctx, type->tensor_type->elem_type, &dtype));
    if (type->tensor_type->shape == NULL)
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "its shape is not said");
    int rank = (int)type->tensor_type->shape->n_dim;
    TRY(read_sizes(onnx, type->tensor_type->shape, sizes));
    TRY(shape_check(ctx, "shape", dtype, rank, sizes));
    graph_type_t graph_type = {
        .kind = TYPE_TENSOR, .has_info = true, .info = info_dense(dtype, rank, sizes)};
    value_t value = graph_add_param(onnx->builder, input->name, &graph_type);
    TRY(graph_builder_status(onnx->builder));
    TRY(onnx_value(onnx, input->name, value, &item));
    return onnx_bind(onnx, input->name, item);
}

static status_t add_inputs(onnx_t *onnx)
{
    const Onnx__GraphProto *graph = onnx->model->graph;
    if (graph->n_sparse_initializer > 0)
        FAIL(onnx->ctx, STATUS_UNSUPPORTED, "onnx: sparse initializers");
    for (size_t i = 0; i < graph->n_initializer; i++) {
        status_t status = add_initializer(onnx, graph->initializer[i]);
        if (status != STATUS_OK)
            return fail_at(onnx, status, "initializer", graph->initializer[i]->name, NULL);
    }
    for (size_t i = 0; i < graph->n_input; i++) {
        const Onnx__ValueInfoProto *input = graph->input[i];
        if (input->name == NULL || *input->name == '\0')
            FAIL(onnx->ctx, STATUS_CORRUPT, "onnx: input %zu has no name", i);
        item_t taken = onnx_find(onnx, input->name);
        if (taken != ITEM_NONE && onnx->items[taken].known != NULL) continue;
        status_t status = add_input(onnx, input);
        if (status != STATUS_OK) return fail_at(onnx, status, "input", input->name, NULL);
    }
    return STATUS_OK;
}

/* ---- nodes ---- */

static status_t begin_node(onnx_t *onnx, const onnx_operator_t *op, const Onnx__NodeProto *proto,
                           onnx_node_t *node)
{
    context_t *ctx = onnx->ctx;
    *node = (onnx_node_t){
        .onnx = onnx, .op = op, .proto = proto, .opset = onnx->opset, .path = path_of(proto)};
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
        if (node->in[i] == ITEM_NONE)
            FAIL(ctx, STATUS_CORRUPT, "input \"%.64s\" is made by no node before it", name);
        if (onnx->items[node->in[i]].is_missing)
            FAIL(ctx, STATUS_UNSUPPORTED, "input \"%.64s\" is an output that is not supported",
                 name);
    }
    node->n_in = (int)proto->n_input;
    for (int i = 0; i < op->min_inputs; i++)
        if (!onnx_has(node, i)) FAIL(ctx, STATUS_INVALID_ARGUMENT, "input %d is missing", i);
    node->n_out = (int)proto->n_output;
    if (node->n_out < 1 || *proto->output[0] == '\0')
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "it has no output");
    for (int i = 0; i < node->n_out; i++) node->out[i] = ITEM_NONE;
    return STATUS_OK;
}

/* Binds the outputs; those that the import does not make are remembered, for who asks for them. */
static status_t end_node(onnx_node_t *node, item_t first_new)
{
    onnx_t *onnx = node->onnx;
    TRY(onnx_attrs_done(node));
    for (int i = 0; i < node->n_out; i++) {
        const char *name = node->proto->output[i];
        item_t item = node->out[i];
        if (*name == '\0') continue;
        if (item == ITEM_NONE) {
            TRY(onnx_value(onnx, name, GRAPH_NONE, &item));
            onnx->items[item].is_missing = true;
        }
        if (item >= first_new && (!onnx->items[item].is_weight || onnx->items[item].name == NULL))
            onnx->items[item].name = name;
        TRY(onnx_bind(onnx, name, item));
    }
    return STATUS_OK;
}

static status_t add_node(onnx_t *onnx, const Onnx__NodeProto *proto)
{
    const onnx_operator_t *op = find_operator(onnx, proto);
    item_t first_new = onnx->n_items;
    onnx_node_t node;
    status_t status = begin_node(onnx, op, proto, &node);
    if (status == STATUS_OK) status = op->import(&node);
    if (status == STATUS_OK) status = end_node(&node, first_new);
    return status == STATUS_OK ? status
                               : fail_at(onnx, status, "node", path_of(proto), proto->op_type);
}

/* ---- outputs ---- */

static status_t finish_graph(onnx_t *onnx, graph_t **out_graph)
{
    const Onnx__GraphProto *graph = onnx->model->graph;
    value_t results[METHOD_MAX_OUTPUTS];
    if (graph->n_output < 1 || graph->n_output > METHOD_MAX_OUTPUTS)
        FAIL(onnx->ctx, STATUS_UNSUPPORTED, "onnx: %zu outputs, 1 to %d are supported",
             graph->n_output, METHOD_MAX_OUTPUTS);
    for (size_t i = 0; i < graph->n_output; i++) {
        const char *name = text_or(graph->output[i]->name, "");
        item_t item = onnx_find(onnx, name);
        if (item == ITEM_NONE || onnx->items[item].is_missing)
            FAIL(onnx->ctx, item == ITEM_NONE ? STATUS_CORRUPT : STATUS_UNSUPPORTED,
                 "onnx: output \"%.200s\" is %s", name,
                 item == ITEM_NONE ? "made by no node" : "one that is not supported");
        TRY(onnx_value_of(onnx, item, &results[i]));
    }
    TRY(graph_finish(onnx->builder, (int)graph->n_output, results, out_graph));
    return graph_verify(onnx->ctx, *out_graph);
}

/* ---- the module ---- */

static status_t append_name(context_t *ctx, datum_t *list, const char *name)
{
    datum_t *item = NULL;
    TRY(datum_string(ctx, name, &item));
    status_t status = datum_append(ctx, list, item);
    datum_release(item);
    return status;
}

static status_t set_names(onnx_t *onnx, const char *attribute, size_t n,
                          Onnx__ValueInfoProto *const *values)
{
    context_t *ctx = onnx->ctx;
    datum_t *list = NULL;
    TRY(datum_list(ctx, 0, NULL, &list));
    status_t status = STATUS_OK;
    for (size_t i = 0; i < n && status == STATUS_OK; i++) {
        item_t item = onnx_find(onnx, values[i]->name);
        bool is_initializer = values == onnx->model->graph->input &&
                              onnx->items[item].known != NULL;
        if (!is_initializer) status = append_name(ctx, list, values[i]->name);
    }
    if (status == STATUS_OK) status = module_set_attribute(ctx, onnx->module, attribute, list);
    datum_release(list);
    return status;
}

static status_t set_attributes(onnx_t *onnx)
{
    const Onnx__GraphProto *graph = onnx->model->graph;
    datum_t *opset = NULL;
    TRY(set_names(onnx, "input_names", graph->n_input, graph->input));
    TRY(set_names(onnx, "output_names", graph->n_output, graph->output));
    TRY(datum_int(onnx->ctx, onnx->opset, &opset));
    status_t status = module_set_attribute(onnx->ctx, onnx->module, "opset", opset);
    datum_release(opset);
    return status;
}

/* Names that parameters shall not take are taken first. */
static status_t begin_module(onnx_t *onnx)
{
    static const char *const names[] = {"input_names", "output_names", "opset"};
    context_t *ctx = onnx->ctx;
    datum_t *none = NULL;
    TRY(module_create(ctx, "OnnxModel", &onnx->module));
    TRY(datum_none(ctx, &none));
    status_t status = STATUS_OK;
    for (int i = 0; i < 3 && status == STATUS_OK; i++)
        status = module_set_attribute(ctx, onnx->module, names[i], none);
    datum_release(none);
    TRY(status);
    TRY(graph_builder_create(ctx, "forward", &onnx->builder));
    onnx->self = graph_add_param(onnx->builder, "self", &(graph_type_t){.kind = TYPE_MODULE});
    return graph_builder_status(onnx->builder);
}

static status_t import_model(onnx_t *onnx, const void *bytes, size_t n_bytes,
                             file_mapping_t **mapping)
{
    graph_t *graph = NULL;
    TRY(unpack(onnx, bytes, n_bytes));
    file_release(*mapping);
    *mapping = NULL;
    TRY(read_opset(onnx));
    TRY(check_operators(onnx));
    TRY(begin_module(onnx));
    TRY(add_inputs(onnx));
    for (size_t i = 0; i < onnx->model->graph->n_node; i++)
        TRY(add_node(onnx, onnx->model->graph->node[i]));
    status_t status = finish_graph(onnx, &graph);
    if (status == STATUS_OK) status = set_attributes(onnx);
    if (status == STATUS_OK) status = graph_set_method(onnx->ctx, onnx->module, "forward", graph);
    graph_release(graph);
    return status;
}

static void end_import(onnx_t *onnx)
{
    for (int i = 0; i < onnx->n_items; i++) tensor_drop(onnx->items[i].known);
    context_put(onnx->ctx, onnx->items);
    context_put(onnx->ctx, onnx->names);
    graph_builder_destroy(onnx->builder);
    module_release(onnx->module);
    if (onnx->model != NULL) onnx__model_proto__free_unpacked(onnx->model, &onnx->allocator);
}

/* Releases the mapping as soon as the message is unpacked. */
static status_t load(context_t *ctx, const char *folder, const void *bytes, size_t n_bytes,
                     file_mapping_t *mapping, const onnx_options_t *options, module_t **out_module)
{
    onnx_t onnx = {.ctx = ctx, .folder = folder, .self = GRAPH_NONE};
    onnx.allocator = (ProtobufCAllocator){get_block, put_block, &onnx};
    onnx.batch = options != NULL && options->batch != 0 ? options->batch : 1;
    status_t status = STATUS_OK;
    if (onnx.batch < 0)
        status = context_fail(ctx, STATUS_INVALID_ARGUMENT,
                              "onnx: a batch of %lld, 1 or more is needed", (long long)onnx.batch);
    if (status == STATUS_OK) status = import_model(&onnx, bytes, n_bytes, &mapping);
    if (status == STATUS_OK) *out_module = module_retain(onnx.module);
    end_import(&onnx);
    file_release(mapping);
    return status;
}

status_t onnx_load(context_t *ctx, const char *path, const onnx_options_t *options,
                   module_t **out_module)
{
    TRY(context_output(ctx, "onnx_load", out_module));
    if (path == NULL) return context_null(ctx, "onnx_load", "path");
    char *folder = NULL;
    file_mapping_t *mapping = NULL;
    TRY(context_string(ctx, path, &folder));
    char *slash = strrchr(folder, '/');
    folder[slash != NULL ? slash - folder + 1 : 0] = '\0';
    status_t status = file_map(ctx, path, &mapping);
    if (status == STATUS_OK)
        status = load(ctx, folder, file_bytes(mapping), file_size(mapping), mapping, options,
                      out_module);
    context_put(ctx, folder);
    return status;
}

status_t onnx_load_bytes(context_t *ctx, const void *bytes, size_t n_bytes,
                         const onnx_options_t *options, module_t **out_module)
{
    TRY(context_output(ctx, "onnx_load_bytes", out_module));
    if (bytes == NULL) return context_null(ctx, "onnx_load_bytes", "bytes");
    return load(ctx, NULL, bytes, n_bytes, NULL, options, out_module);
}

#else

static status_t refuse(context_t *ctx)
{
    FAIL(ctx, STATUS_UNSUPPORTED, "onnx: this build has no protobuf-c");
}

status_t onnx_load(context_t *ctx, const char *path, const onnx_options_t *options,
                   module_t **out_module)
{
    (void)path, (void)options, (void)out_module;
    return refuse(ctx);
}

status_t onnx_load_bytes(context_t *ctx, const void *bytes, size_t n_bytes,
                         const onnx_options_t *options, module_t **out_module)
{
    (void)bytes, (void)n_bytes, (void)options, (void)out_module;
    return refuse(ctx);
}

#endif

/* ---- asking ---- */

status_t onnx_input(context_t *ctx, const module_t *module, int index, const char **out_name,
                    tensor_info_t *out_info)
{
    TRY(context_output(ctx, "onnx_input", out_name));
    if (module == NULL) return context_null(ctx, "onnx_input", "module");
    const datum_t *names = module_attribute(module, "input_names");
    const graph_t *graph = graph_of(module, "forward");
    REQUIRE(ctx, names != NULL && datum_kind(names) == DATUM_LIST && graph != NULL,
            "onnx_input: %s is not a model read from ONNX", module_type(module));
    const graph_block_t *body = graph_body(graph);
    if (index < 0 || index >= datum_length(names) || index + 1 >= body->n_params)
        return context_decline(ctx, STATUS_INVALID_ARGUMENT,
                               "onnx_input: index %d, the model has %d inputs", index,
                               datum_length(names));
    const datum_t *name = datum_item(names, index);
    const graph_type_t *type = graph_value_type(graph, body->params[index + 1]);
    REQUIRE(ctx, datum_kind(name) == DATUM_STRING && type->has_info,
            "onnx_input: input %d of %s has no name or no shape", index, module_type(module));
    *out_name = datum_as_string(name);
    *out_info = type->info;
    return STATUS_OK;
}
