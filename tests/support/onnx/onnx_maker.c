#include "tests/support/onnx/onnx_maker.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/support.h"

/* protobuf-c's fields are not const, so const data needs this conversion. */
static void *writable(const void *given)
{
    void *same;
    memcpy(&same, &given, sizeof same);
    return same;
}

static void *copy(maker_t *maker, const void *given, size_t n_bytes)
{
    void *place = (char *)maker->bytes + maker->n_bytes;
    maker->n_bytes += (n_bytes + 7) / 8 * 8;
    assert_in_range(maker->n_bytes, 0, MAKER_BYTES);
    if (n_bytes > 0) memcpy(place, given, n_bytes);
    return place;
}

void maker_begin(maker_t *maker, int64_t opset)
{
    memset(maker, 0, sizeof *maker);
    onnx__model_proto__init(&maker->model);
    onnx__graph_proto__init(&maker->graph);
    onnx__operator_set_id_proto__init(&maker->opset);
    maker->model.has_ir_version = true;
    maker->model.ir_version = 8;
    maker->model.graph = &maker->graph;
    maker->opset.has_version = true;
    maker->opset.version = opset;
    maker->opset_list[0] = &maker->opset;
    maker->model.opset_import = maker->opset_list;
    maker->model.n_opset_import = 1;
    maker->graph.input = maker->input_list;
    maker->graph.output = maker->output_list;
    maker->graph.initializer = maker->initializer_list;
    maker->graph.node = maker->node_list;
}

static void set_value(maker_value_t *value, const char *name, int data_type, int rank,
                      const int64_t *sizes)
{
    onnx__value_info_proto__init(&value->value);
    onnx__type_proto__init(&value->type);
    onnx__type_proto__tensor__init(&value->tensor);
    onnx__tensor_shape_proto__init(&value->shape);
    value->value.name = writable(name);
    value->value.type = &value->type;
    value->type.value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    value->type.tensor_type = &value->tensor;
    value->tensor.has_elem_type = true;
    value->tensor.elem_type = data_type;
    value->tensor.shape = &value->shape;
    value->shape.n_dim = (size_t)rank;
    value->shape.dim = value->dim_list;
    for (int i = 0; i < rank; i++) {
        Onnx__TensorShapeProto__Dimension *dim = &value->dims[i];
        onnx__tensor_shape_proto__dimension__init(dim);
        value->dim_list[i] = dim;
        dim->value_case = sizes[i] < 0 ? ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM
                                       : ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        if (sizes[i] < 0)
            dim->dim_param = writable("N");
        else
            dim->dim_value = sizes[i];
    }
}

void maker_input(maker_t *maker, const char *name, int data_type, int rank, const int64_t *sizes)
{
    size_t at = maker->graph.n_input++;
    assert_in_range(at, 0, MAKER_MAX - 1);
    assert_in_range(rank, 0, MAKER_DIMS);
    set_value(&maker->inputs[at], name, data_type, rank, sizes);
    maker->input_list[at] = &maker->inputs[at].value;
}

void maker_open(maker_t *maker, int dim, const char *name)
{
    maker_value_t *input = &maker->inputs[maker->graph.n_input - 1];
    input->dims[dim].dim_param = writable(name);
    if (name == NULL)
        input->dims[dim].value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE__NOT_SET;
}

void maker_output(maker_t *maker, const char *name)
{
    size_t at = maker->graph.n_output++;
    assert_in_range(at, 0, MAKER_MAX - 1);
    set_value(&maker->outputs[at], name, 1, 0, NULL);
    maker->output_list[at] = &maker->outputs[at].value;
}

void maker_tensor(maker_t *maker, Onnx__TensorProto *out_tensor, int data_type, int rank,
                  const int64_t *sizes, const void *elements, size_t n_bytes)
{
    onnx__tensor_proto__init(out_tensor);
    out_tensor->n_dims = (size_t)rank;
    out_tensor->dims = copy(maker, sizes, (size_t)rank * sizeof *sizes);
    out_tensor->has_data_type = true;
    out_tensor->data_type = data_type;
    out_tensor->has_raw_data = true;
    out_tensor->raw_data.data = copy(maker, elements, n_bytes);
    out_tensor->raw_data.len = n_bytes;
}

Onnx__TensorProto *maker_initializer(maker_t *maker, const char *name, int data_type, int rank,
                                     const int64_t *sizes, const void *elements, size_t n_bytes)
{
    size_t at = maker->graph.n_initializer++;
    assert_in_range(at, 0, MAKER_NODES - 1);
    Onnx__TensorProto *tensor = &maker->initializers[at];
    maker_tensor(maker, tensor, data_type, rank, sizes, elements, n_bytes);
    tensor->name = writable(name);
    maker->initializer_list[at] = tensor;
    return tensor;
}

/* Splits names at blanks. The node's buffer stores the parts. */
static size_t split(maker_node_t *node, size_t *used, const char *names, char **out)
{
    size_t n = 0;
    while (*names != '\0') {
        size_t length = strcspn(names, " ");
        assert_in_range(*used + length + 1, 0, MAKER_NAMES);
        assert_in_range(n, 0, MAKER_MAX - 1);
        out[n] = node->names + *used;
        memcpy(out[n], names, length);
        out[n][length] = '\0';
        *used += length + 1;
        if (strcmp(out[n], "-") == 0) out[n][0] = '\0';
        n++;
        names += length;
        while (*names == ' ') names++;
    }
    return n;
}

maker_node_t *maker_node(maker_t *maker, const char *type, const char *name, const char *inputs,
                         const char *outputs)
{
    size_t at = maker->graph.n_node++, used = 0;
    assert_in_range(at, 0, MAKER_NODES - 1);
    maker_node_t *node = &maker->nodes[at];
    onnx__node_proto__init(&node->node);
    node->maker = maker;
    node->node.op_type = writable(type);
    node->node.name = writable(name);
    node->node.input = node->inputs;
    node->node.n_input = split(node, &used, inputs, node->inputs);
    node->node.output = node->outputs;
    node->node.n_output = split(node, &used, outputs, node->outputs);
    node->node.attribute = node->attr_list;
    maker->node_list[at] = &node->node;
    return node;
}

static Onnx__AttributeProto *add_attr(maker_node_t *node, const char *name,
                                      Onnx__AttributeProto__AttributeType type)
{
    size_t at = node->node.n_attribute++;
    assert_in_range(at, 0, MAKER_ATTRS - 1);
    Onnx__AttributeProto *attr = &node->attrs[at];
    onnx__attribute_proto__init(attr);
    attr->name = writable(name);
    attr->has_type = true;
    attr->type = type;
    node->attr_list[at] = attr;
    return attr;
}

void maker_int(maker_node_t *node, const char *name, int64_t value)
{
    Onnx__AttributeProto *attr = add_attr(node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);
    attr->has_i = true;
    attr->i = value;
}

void maker_float(maker_node_t *node, const char *name, float value)
{
    Onnx__AttributeProto *attr = add_attr(node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT);
    attr->has_f = true;
    attr->f = value;
}

void maker_ints(maker_node_t *node, const char *name, int n, const int64_t *values)
{
    Onnx__AttributeProto *attr = add_attr(node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS);
    attr->n_ints = (size_t)n;
    attr->ints = copy(node->maker, values, (size_t)n * sizeof *values);
}

void maker_attr_graph(maker_node_t *node, const char *name, maker_t *block)
{
    Onnx__AttributeProto *attr = add_attr(node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH);
    attr->g = &block->graph;
}

void maker_string(maker_node_t *node, const char *name, const char *value)
{
    Onnx__AttributeProto *attr = add_attr(node, name,
                                          ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING);
    attr->has_s = true;
    attr->s.data = writable(value);
    attr->s.len = strlen(value);
}

void maker_attr_tensor(maker_node_t *node, const char *name, Onnx__TensorProto *tensor)
{
    add_attr(node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR)->t = tensor;
}

uint8_t *maker_pack(const maker_t *maker, size_t *out_n_bytes)
{
    *out_n_bytes = onnx__model_proto__get_packed_size(&maker->model);
    uint8_t *bytes = malloc(*out_n_bytes + 1);
    assert_non_null(bytes);
    onnx__model_proto__pack(&maker->model, bytes);
    return bytes;
}
