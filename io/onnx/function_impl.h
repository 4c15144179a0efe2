/* Functions of a model: a node that calls one is imported as the nodes of the function, with names
 * of their own. */
#ifndef TESSERA_IO_ONNX_FUNCTION_IMPL_H
#define TESSERA_IO_ONNX_FUNCTION_IMPL_H

#include "io/onnx/node_impl.h"

#ifdef TESSERA_HAVE_ONNX

/* Functions that call each other, blocks that nest in them, and nodes when all are inlined. */
#define ONNX_MAX_CALL_DEPTH 32
#define ONNX_MAX_NESTED 96
#define ONNX_MAX_INLINED ((int64_t)1 << 17)

typedef struct onnx_function {
    const Onnx__FunctionProto *proto;
    int64_t opset;
    bool is_entered; /* while its nodes are checked */
    bool is_checked;
    int64_t n_nodes; /* with those of the functions that it calls */
    int n_defaults, defaults_capacity;
    Onnx__AttributeProto **defaults; /* attributes where a call gives none */
    bool owns_defaults;
} onnx_function_t;

/* A call of a function. */
typedef struct onnx_frame {
    const struct onnx_frame *parent;
    const onnx_function_t *function;
    const Onnx__NodeProto *call;
    const item_t *in; /* of each input of the function; ITEM_NONE: left out */
} onnx_frame_t;

/* Reads the opset and the functions. Refuses operators that are unknown, all in one message, and
 * functions that call themselves or become too many nodes. */
status_t onnx_check_operators(onnx_t *onnx);
void onnx_functions_end(onnx_t *onnx);

/* What a node is: an operator or a function of the model; or NULL. */
const onnx_operator_t *onnx_operator_of(const onnx_t *onnx, const Onnx__NodeProto *node);
onnx_function_t *onnx_function_of(const onnx_t *onnx, const Onnx__NodeProto *node);

/* Imports the nodes of the function in place of the call, and binds the outputs of the call. */
status_t onnx_import_function(onnx_t *onnx, onnx_function_t *function, const Onnx__NodeProto *call);

/* An attribute, or the one that it refers to in the call of the function; NULL: the call has none.
 */
Onnx__AttributeProto *onnx_attr_given(const onnx_t *onnx, Onnx__AttributeProto *attr);

/* The name is an input of the function that the call leaves out. */
bool onnx_is_left_out(const onnx_t *onnx, const char *name);

#endif
#endif
