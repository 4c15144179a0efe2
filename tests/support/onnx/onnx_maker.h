/* Makes small ONNX models for tests: maker_begin, functions that add parts, maker_pack. Texts are
 * borrowed until maker_pack; arrays are copied. */
#ifndef TESSERA_TESTS_ONNX_MAKER_H
#define TESSERA_TESTS_ONNX_MAKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef TESSERA_HAVE_ONNX

#include <onnx.pb-c.h>

#define MAKER_MAX 24    /* inputs and outputs of the model and of a node */
#define MAKER_NODES 240 /* nodes, and initializers */
#define MAKER_ATTRS 8   /* per node */
#define MAKER_NAMES 256 /* bytes of a node's names */
#define MAKER_DIMS 6
#define MAKER_BYTES 262144 /* bytes of sizes and elements */

typedef struct maker_value {
    Onnx__ValueInfoProto value;
    Onnx__TypeProto type;
    Onnx__TypeProto__Tensor tensor;
    Onnx__TensorShapeProto shape;
    Onnx__TensorShapeProto__Dimension dims[MAKER_DIMS];
    Onnx__TensorShapeProto__Dimension *dim_list[MAKER_DIMS];
} maker_value_t;

typedef struct maker_node {
    Onnx__NodeProto node;
    char names[MAKER_NAMES];
    char *inputs[MAKER_MAX];
    char *outputs[MAKER_MAX];
    Onnx__AttributeProto attrs[MAKER_ATTRS];
    Onnx__AttributeProto *attr_list[MAKER_ATTRS];
    struct maker *maker;
} maker_node_t;

typedef struct maker {
    Onnx__ModelProto model;
    Onnx__GraphProto graph;
    Onnx__OperatorSetIdProto opset;
    Onnx__OperatorSetIdProto *opset_list[1];
    maker_value_t inputs[MAKER_MAX], outputs[MAKER_MAX];
    Onnx__ValueInfoProto *input_list[MAKER_MAX], *output_list[MAKER_MAX];
    Onnx__TensorProto initializers[MAKER_NODES];
    Onnx__TensorProto *initializer_list[MAKER_NODES];
    maker_node_t nodes[MAKER_NODES];
    Onnx__NodeProto *node_list[MAKER_NODES];
    size_t n_bytes;
    int64_t bytes[MAKER_BYTES / 8];
} maker_t;

void maker_begin(maker_t *maker, int64_t opset);

/* A size of -1 is open and named "N". */
void maker_input(maker_t *maker, const char *name, int data_type, int rank, const int64_t *sizes);
/* Renames an open size of the last added input; NULL removes its name. */
void maker_open(maker_t *maker, int dim, const char *name);
void maker_output(maker_t *maker, const char *name);

/* Adds an initializer. `elements` are raw little-endian bytes. */
Onnx__TensorProto *maker_initializer(maker_t *maker, const char *name, int data_type, int rank,
                                     const int64_t *sizes, const void *elements, size_t n_bytes);
/* Makes a tensor for an attribute, which the model does not contain otherwise. */
void maker_tensor(maker_t *maker, Onnx__TensorProto *out_tensor, int data_type, int rank,
                  const int64_t *sizes, const void *elements, size_t n_bytes);

/* Names of inputs and outputs are separated by blanks; "-" omits one. */
maker_node_t *maker_node(maker_t *maker, const char *type, const char *name, const char *inputs,
                         const char *outputs);
void maker_int(maker_node_t *node, const char *name, int64_t value);
void maker_float(maker_node_t *node, const char *name, float value);
void maker_ints(maker_node_t *node, const char *name, int n, const int64_t *values);
void maker_string(maker_node_t *node, const char *name, const char *value);
/* Sets an attribute to the graph of another maker, which must exist until maker_pack. */
void maker_attr_graph(maker_node_t *node, const char *name, maker_t *block);
void maker_attr_tensor(maker_node_t *node, const char *name, Onnx__TensorProto *tensor);

/* Returns the model's bytes; the caller frees them. */
uint8_t *maker_pack(const maker_t *maker, size_t *out_n_bytes);

#endif
#endif
