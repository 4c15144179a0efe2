/* Internals of the ONNX importer.
 *
 * The import turns a model into items. An item is a tensor known at import, or a value of the
 * future graph. Each ONNX operator has one import function, which calls Tessera operators on items.
 * A call runs immediately if all its operands are known, and its results are known items; this is
 * constant folding. Any other call is recorded and becomes a node of the graph at the end. A known
 * item that such a node reads becomes a parameter, a buffer or a constant.
 *
 * Sizes that the file leaves open are symbolic integers (tensor/sym/sym.h) whose hints are the
 * requested sizes. Sizes of items, elements of small items computed from sizes, and integer
 * attributes may be symbolic too; the graph stores them as expressions. If an import function makes
 * a decision that depends on such an integer, the decision becomes a guard: the graph is valid for
 * all sizes that satisfy its guards.
 *
 * A size that depends on elements (the number of nonzeros) is a symbol without a hint; inference
 * computes with it. If a number is needed, the graph reads it at run time, or the import fails.
 *
 *   x [N,3,8,8], Shape, Gather 0, Concat [.., -1], Reshape    reshape sizes=[1,-1] where sizes[0]=N
 *
 * The error message of an import function says what is wrong; its caller adds the name of the node
 * or input.
 *
 * This header declares the import's state and the reading of the file. item_impl.h declares items,
 * and node_impl.h the functions that import functions call. */
#ifndef TESSERA_IO_ONNX_ONNX_IMPL_H
#define TESSERA_IO_ONNX_ONNX_IMPL_H

#include <onnx.pb-c.h>

#include "graph/ir/size_impl.h"
#include "io/onnx/onnx.h"
#include "tensor/context_impl.h"
#include "tensor/sym/sym.h"

#define ONNX_OPSET_FIRST 1
#define ONNX_OPSET_LAST 27

/* Largest tensor that folding may create, in bytes. */
#define ONNX_MAX_FOLDED ((size_t)1 << 31)

/* Largest tensor whose elements the import reads one by one. */
#define ONNX_MAX_VALUES 65536

/* Largest item whose elements may be symbolic. */
#define ONNX_MAX_SYMBOLS 1024

/* ---- the import ---- */

typedef int item_t; /* index in onnx_t.items */
#define ITEM_NONE (-1)

typedef struct onnx_item {
    const char *name;   /* the ONNX value's name; belongs to the message */
    tensor_t *known;    /* the tensor (owned); NULL: a value of the graph */
    tensor_info_t info; /* dtype and sizes if not known; sizes may be symbolic */
    int64_t *symbols;   /* [numel] elements as symbolic integers or reals, if not known; or NULL */
    int call;           /* index of the call that produced it, or -1 */
    value_t value;      /* in the graph; VALUE_NONE until the graph needs it */
    int narrow;         /* ONNX type before widening (int4, float8, ...), or 0 */
    item_t transposed;  /* this matrix transposed, or ITEM_NONE */
    bool is_weight;     /* initializer, or created by ConstantOfShape */
    bool is_state;      /* a weight that the graph writes, so it becomes a buffer */
    bool is_view;       /* `known` may share memory with another item */
    bool is_text;       /* is_missing, because it is or depends on a string tensor */
    bool is_missing;    /* an output that the import does not produce */
    bool is_live;       /* symbols depend on elements known only at run time */
    bool is_sequence;   /* a list of tensors; `info` describes each tensor */
    bool is_optional;   /* may be none; decided at run time */
    bool is_none;       /* an optional without an element */
    bool is_changing;   /* carried by a loop, and the body changes its sizes */
} onnx_item_t;

/* Entry of the name table, a hash table with open addressing. */
typedef struct onnx_name {
    const char *name; /* NULL: free */
    item_t item;      /* ITEM_NONE: the block that bound it has ended */
    int at;           /* index in onnx_t.bound */
} onnx_name_t;

typedef enum onnx_call_kind {
    ONNX_CALL_OP,      /* an operator */
    ONNX_CALL_BUILTIN, /* shape, list, append, join, ... */
    ONNX_CALL_IF,      /* operand: condition; then-calls, YIELD, else-calls, YIELD follow */
    ONNX_CALL_LOOP,    /* operands: trip count, condition, carried values; body calls, YIELD follow.
                          Results: n_results outputs, then the body's parameters */
    ONNX_CALL_YIELD    /* end of a block; operands are its results */
} onnx_call_kind_t;

#define ONNX_NAME_MAX 64

/* A recorded call. Operands, results and attributes share one allocation. */
typedef struct onnx_noted {
    onnx_call_kind_t kind;
    const char *builtin;
    char *message; /* text of builtin `fail` */
    int n_results; /* for LOOP */
    int end;       /* index of the last YIELD, for IF, LOOP and the first YIELD of an IF; else 0 */
    const opdef_t *op;
    const Onnx__NodeProto *proto; /* the node being imported */
    bool is_known;                /* the results, or their symbols, are known at import */
    bool is_needed;               /* is_known, but the graph reads a result */
    bool is_in_place;             /* the result overwrites the first operand */
    int n_in, n_out;
    item_t *in, *out;
    void *attrs; /* integers may be symbolic */
} onnx_noted_t;

/* A size that the file leaves open. */
typedef struct onnx_open {
    char name[ONNX_NAME_MAX]; /* name in the graph */
    const char *param;        /* name in the file, or NULL */
    int dim;                  /* dimension of the inputs; for sizes without a name */
    int64_t size;             /* requested size; -1: not known yet */
    bool is_free;             /* nobody requested the size */
} onnx_open_t;

#define ONNX_MAX_OPEN 32 /* below GRAPH_MAX_NAMES */
#define ONNX_NOT_OPEN (-1)

/* Maximum values that a loop carries, including the lists of its scan outputs. */
#define ONNX_MAX_CARRIED 64

typedef struct onnx_input {
    item_t item;
    int8_t open[TENSOR_MAX_RANK]; /* index of each open size in onnx_t.open, or ONNX_NOT_OPEN */
} onnx_input_t;

typedef struct onnx {
    context_t *ctx;
    const char *path;   /* the model's file; NULL: from memory */
    const char *folder; /* folder of that file, ends in '/' or is ""; NULL: from memory */
    const onnx_options_t *options;
    int64_t batch;
    int64_t opset; /* for the graph, or for the function being imported */
    int n_functions;
    struct onnx_function *functions; /* functions of the model */
    const struct onnx_frame *frame;  /* the function being imported, or NULL */
    ProtobufCAllocator allocator;
    bool is_refused; /* an allocation for the message failed */
    Onnx__ModelProto *model;
    module_t *module;
    graph_builder_t *builder;
    value_t self;
    onnx_item_t *items;
    int n_items, items_capacity;
    onnx_name_t *names;
    int n_names, names_capacity;
    onnx_name_t *bound; /* names in the order of binding, with their previous bindings */
    int n_bound, bound_capacity;
    int first_bound; /* index in `bound` of the current block's first name */
    onnx_input_t *inputs;
    int n_inputs, inputs_capacity;
    onnx_noted_t *calls;
    int n_calls, calls_capacity;

    sym_space_t *space; /* symbolic integers; the context's current space during the import */
    int n_open;
    onnx_open_t open[ONNX_MAX_OPEN];
    int n_unknown; /* number of symbols without a hint so far */

    int n_blocks; /* depth of nested blocks and functions, whose nodes may be imported repeatedly */
    const Onnx__NodeProto *proto; /* the node being imported */
    struct onnx_kept *kept;       /* the search for the model in the store, or NULL */
    struct onnx_hints *hints;     /* sizes that nobody requested, or NULL: open->size */
} onnx_t;

/* ---- reading the message ---- */

/* The source of a model: a file and its folder, or bytes. */
typedef struct onnx_source {
    const char *path;
    char *folder;
    const void *bytes;
    size_t n_bytes;
} onnx_source_t;

/* Makes the source for a path. The caller releases `folder` with context_put. */
status_t onnx_from_path(context_t *ctx, const char *op, const char *path,
                        onnx_source_t *out_source);

/* Parses the message and checks that all operators are known. `onnx` is zero except for `options`.
 * The caller calls onnx_end, also on failure. */
status_t onnx_begin(onnx_t *onnx, context_t *ctx, const onnx_source_t *source);
void onnx_end(onnx_t *onnx);

/* True for a graph input that is also an initializer. Call it after binding initializers. */
bool onnx_is_initializer(const onnx_t *onnx, const Onnx__ValueInfoProto *input);

/* onnx_shape_of: the shape of an input or output; NULL if it is not a tensor or has no shape.
 * onnx_is_fixed: true if the file fixes the dimension. onnx_param_of: the name that the file gives
 * the dimension; NULL for no name, "" and "?". */
const Onnx__TensorShapeProto *onnx_shape_of(const Onnx__ValueInfoProto *value);
bool onnx_is_fixed(const Onnx__TensorShapeProto__Dimension *dim);
const char *onnx_param_of(const Onnx__TensorShapeProto__Dimension *dim);

/* Sets names of inputs and outputs, opset and metadata as attributes of the module. */
status_t onnx_set_attributes(onnx_t *onnx);

/* The node's name, else its first output's, else "". */
const char *onnx_path_of(const Onnx__NodeProto *node);

/* Prefixes the current error message with the location: onnx: node "fc" (Gemm): ... */
status_t onnx_fail_at(onnx_t *onnx, status_t status, const char *what, const char *name,
                      const char *type);

/* Refuses bytes whose messages are nested too deeply for protobuf-c, or whose fields exceed the
 * end. */
status_t onnx_wire_check(context_t *ctx, const ProtobufCMessageDescriptor *message,
                         const void *bytes, size_t n_bytes);

/* The dtype of an ONNX element type. UNSUPPORTED names the type. */
status_t onnx_dtype(context_t *ctx, int64_t data_type, dtype_t *out_dtype);

/* Creates a dense tensor from a TensorProto and frees the elements in the message. */
status_t onnx_tensor(onnx_t *onnx, Onnx__TensorProto *proto, tensor_t **out_tensor);
/* The tensor that the options contain for an initializer, retained or copied; NULL if there is
 * none. */
status_t onnx_tensor_given(onnx_t *onnx, const Onnx__TensorProto *proto, tensor_t **out_tensor);
/* Refuses options that contain tensors for names that are not initializers of the graph. */
status_t onnx_check_given(onnx_t *onnx, const Onnx__GraphProto *graph);
/* Like onnx_tensor, but does not free the elements in the message. */
status_t onnx_tensor_again(onnx_t *onnx, const Onnx__TensorProto *proto, tensor_t **out_tensor);

/* Reads a tensor's elements from a separate file into `bytes`. If `bytes` is NULL, only checks that
 * they exist. */
status_t onnx_external(onnx_t *onnx, const Onnx__TensorProto *proto, size_t n_bytes, void *bytes);

/* Opens a file with elements of tensor `name`; the caller closes it. model_path is the model's file
 * and model_folder its folder, which ends in '/' or is "". */
status_t onnx_open_data(context_t *ctx, const char *model_folder, const char *model_path,
                        const char *name, const char *location, int *out_file);

/* ---- building ---- */

/* Creates the module and its parameters, and the graph from the recorded calls. */
status_t onnx_build(onnx_t *onnx, graph_t **out_graph);

/* Finds or adds an open size and returns its index in onnx->open; ONNX_NOT_OPEN if there are too
 * many. The size's name in the file identifies it. A size without a name (param NULL) is identified
 * by its dimension `dim` of an input and by `size` (-1: unknown, matches any). */
int onnx_open_find(onnx_t *onnx, const char *param, int dim, int64_t size);

/* ---- sizes that nobody gives ---- */

#define ONNX_MAX_FAILURES 16

/* A failed import, and the guard that explains it. */
typedef struct onnx_failure {
    sym_space_t *space; /* owned */
    int guard;
} onnx_failure_t;

/* The open sizes, once an import has failed. */
typedef struct onnx_hints {
    int n, n_failures;
    struct {
        char name[ONNX_NAME_MAX];
        int64_t size;
        bool is_free; /* the options do not give it */
    } sizes[ONNX_MAX_OPEN];
    onnx_failure_t failures[ONNX_MAX_FAILURES];
} onnx_hints_t;

/* The hint of an open size. */
int64_t onnx_hint(const onnx_t *onnx, const onnx_open_t *open);

/* After a failed import: chooses other sizes for the next one. Returns false if no sizes are known
 * to avoid the failures so far. */
bool onnx_hints_change(onnx_hints_t *hints, const onnx_t *onnx);
void onnx_hints_clear(onnx_hints_t *hints);

#endif
