/* Functions that a model defines. A call is imported as the function's nodes, which have their own
 * names for values. */
#ifndef TESSERA_IO_ONNX_FUNCTION_IMPL_H
#define TESSERA_IO_ONNX_FUNCTION_IMPL_H

#include "io/onnx/node_impl.h"

/* Limits, in this order: nested function calls, nested functions and blocks together, nodes after
 * inlining. */
#define ONNX_MAX_CALL_DEPTH 32
#define ONNX_MAX_NESTED 96
#define ONNX_MAX_INLINED ((int64_t)1 << 17)

typedef struct onnx_function {
    const Onnx__FunctionProto *proto;
    int64_t opset;
    bool is_entered; /* its nodes are being checked at the moment */
    bool is_checked;
    int64_t n_nodes; /* including those of functions it calls */
    int n_defaults, defaults_capacity;
    Onnx__AttributeProto **defaults; /* values of attributes that a call leaves out */
    bool owns_defaults;
} onnx_function_t;

/* A call of a function. */
typedef struct onnx_frame {
    const struct onnx_frame *parent;
    const onnx_function_t *function;
    const Onnx__NodeProto *call;
    const item_t *in; /* items of the function's inputs; ITEM_NONE: omitted by the call */
} onnx_frame_t;

/* Reads the opset and the functions. UNSUPPORTED lists all unknown operators in one message. Also
 * refuses functions that call themselves or expand to too many nodes. */
status_t onnx_check_operators(onnx_t *onnx);
void onnx_functions_end(onnx_t *onnx);

/* The operator, or the model's function, that a node calls; NULL if there is none. */
const onnx_operator_t *onnx_operator_of(const onnx_t *onnx, const Onnx__NodeProto *node);
onnx_function_t *onnx_function_of(const onnx_t *onnx, const Onnx__NodeProto *node);

/* Imports the function's nodes in place of the call and binds the call's outputs. */
status_t onnx_import_function(onnx_t *onnx, onnx_function_t *function, const Onnx__NodeProto *call);

/* If an attribute refers to an attribute of the function's call, returns the latter, or NULL if the
 * call does not set it. Any other attribute is returned unchanged. */
Onnx__AttributeProto *onnx_attr_given(const onnx_t *onnx, Onnx__AttributeProto *attr);

/* True if the name is an input of the function that the call omits. */
bool onnx_is_left_out(const onnx_t *onnx, const char *name);

#endif
