/* The inside of the ONNX importer.
 *
 * A model is read into items: an item is a tensor known at import, or a value of the graph to be
 * built. One function imports one ONNX operator; it calls operators of ours on items. A call on
 * known items alone runs at once, and gives known items: that is all of constant folding. Other
 * calls are noted, and become nodes of the graph at the end; a known item that such a node reads
 * becomes a parameter, a buffer or a constant then.
 *
 * Sizes that the file leaves open are symbolic integers (tensor/sym.h), which have the sizes asked
 * for as hints. Sizes of items, and elements of small items that are calculated from sizes, are
 * symbolic, too; so are integers of attributes, which become expressions of the graph. What an
 * import function decides by such an integer becomes a guard of the graph, so that the graph holds
 * for all sizes that satisfy its guards.
 *
 * A size that depends on elements (NonZero) is a name without a hint. Inference calculates with it;
 * where a number is needed, the size is read where the graph runs, or the model is UNSUPPORTED.
 *
 *   x [N,3,8,8], Shape, Gather 0, Concat [.., -1], Reshape    reshape sizes=[1,-1] where sizes[0]=N
 *
 * Messages of import functions say what is wrong; who calls them says where.
 *
 * Here is what an import holds, and how the message is read. Items are in onnx_item_impl.h, and in
 * onnx_node_impl.h what import functions are written with. */
#ifndef TESSERA_IO_ONNX_ONNX_IMPL_H
#define TESSERA_IO_ONNX_ONNX_IMPL_H

#include "io/onnx/onnx.h"

#ifdef TESSERA_HAVE_ONNX

#include <onnx.pb-c.h>

#include "graph/ir/size_impl.h"
#include "tensor/context_impl.h"
#include "tensor/sym.h"

#define ONNX_OPSET_FIRST 1
#define ONNX_OPSET_LAST 27

/* Bytes of a tensor that folding may make. */
#define ONNX_MAX_FOLDED ((size_t)1 << 31)

/* Elements of a tensor whose values the import looks at one by one. */
#define ONNX_MAX_VALUES 65536

/* Elements of an item that may be symbolic. */
#define ONNX_MAX_SYMBOLS 1024

/* ---- the import ---- */

typedef int item_t; /* index in onnx_t.items */
#define ITEM_NONE (-1)

typedef struct onnx_item {
    const char *name;   /* of the ONNX value it came from; in the message */
    tensor_t *known;    /* held, or NULL: a value of the graph */
    tensor_info_t info; /* of a value; sizes may be symbolic */
    int64_t *symbols;   /* [numel], of a value: its elements, symbolic integers or reals; or NULL */
    int call;           /* that gave it, or -1 */
    value_t value;      /* in the graph; VALUE_NONE while it is not needed there */
    int narrow;         /* the ONNX type of fewer bits that it had before it was widened, or 0 */
    item_t transposed;  /* the same matrix transposed, or ITEM_NONE */
    bool is_weight;     /* initializer, or made by ConstantOfShape */
    bool is_state;      /* a weight that the graph writes: a buffer of the module */
    bool is_view;       /* `known` may share its bytes with another item's */
    bool is_text;       /* is_missing, and a tensor of texts or made of such */
    bool is_missing;    /* an output that the import does not make */
    bool is_live;       /* its symbols are calculated from elements that only the run knows */
    bool is_sequence;   /* a list of tensors; `info` is what each of them is */
    bool is_optional;   /* it may be none, which is found out where the model runs */
    bool is_none;       /* an optional without an element */
    bool is_changing;   /* of what a loop carries: its sizes are not those that it begins with */
} onnx_item_t;

/* An entry of the table of names; open addressing. */
typedef struct onnx_name {
    const char *name; /* NULL: free */
    item_t item;      /* ITEM_NONE: bound in a block that has ended */
    int at;           /* index in onnx_t.bound */
} onnx_name_t;

typedef enum onnx_call_kind {
    ONNX_CALL_OP,      /* an operator of ours */
    ONNX_CALL_BUILTIN, /* of graphs: shape, list, append, join */
    ONNX_CALL_IF,      /* of a condition: calls of one block, YIELD, calls of the other, YIELD */
    ONNX_CALL_LOOP,    /* of trip count, condition, what is carried: calls of the block, YIELD. Its
                          results are n_results outputs, then the block's parameters */
    ONNX_CALL_YIELD    /* the end of a block; operands are its results */
} onnx_call_kind_t;

#define ONNX_NAME_MAX 64

/* What an import function called. Operands, results and attributes are in one block. */
typedef struct onnx_noted {
    onnx_call_kind_t kind;
    const char *builtin;
    char *message; /* of builtin fail */
    int n_results; /* of LOOP */
    int end; /* of IF, LOOP: the last YIELD; of the first YIELD of an IF: the last one; else 0 */
    const opdef_t *op;
    const Onnx__NodeProto *proto; /* of whose import it is */
    bool is_known;                /* results are known items, or their symbols are */
    bool is_needed;               /* is_known, and the graph reads the result */
    bool is_in_place;             /* the result is written into the first operand */
    int n_in, n_out;
    item_t *in, *out;
    void *attrs; /* integers may be symbolic */
} onnx_noted_t;

/* A size that the file leaves open. */
typedef struct onnx_open {
    char name[ONNX_NAME_MAX]; /* in the graph */
    const char *param;        /* in the file; NULL: it has none there */
    int dim;                  /* of inputs, if it has no name in the file */
    int64_t size;             /* at the import; 0: not known yet */
} onnx_open_t;

#define ONNX_MAX_OPEN 32 /* below GRAPH_MAX_NAMES */
#define ONNX_NOT_OPEN (-1)

/* Values that a loop carries, lists of its scan outputs among them. */
#define ONNX_MAX_CARRIED 64

typedef struct onnx_input {
    item_t item;
    int8_t open[TENSOR_MAX_RANK]; /* index of the size in `open`, or ONNX_NOT_OPEN */
} onnx_input_t;

typedef struct onnx {
    context_t *ctx;
    const char *path;   /* of the model's file; NULL: from memory */
    const char *folder; /* of the model's file, ends in '/' or is ""; NULL: from memory */
    const onnx_options_t *options;
    int64_t batch;
    int64_t opset; /* of the graph, or of the function whose node is imported */
    int n_functions;
    struct onnx_function *functions; /* of the model */
    const struct onnx_frame *frame;  /* the function whose node is imported, or NULL */
    ProtobufCAllocator allocator;
    bool is_refused; /* the allocator refused a block of the message */
    Onnx__ModelProto *model;
    module_t *module;
    graph_builder_t *builder;
    value_t self;
    onnx_item_t *items;
    int n_items, items_capacity;
    onnx_name_t *names;
    int n_names, names_capacity;
    onnx_name_t *bound; /* names in the order in which they were bound, and what they were before */
    int n_bound, bound_capacity;
    int first_bound; /* of the block that is imported: it may hide names of outer blocks */
    onnx_input_t *inputs;
    int n_inputs, inputs_capacity;
    onnx_noted_t *calls;
    int n_calls, calls_capacity;

    sym_space_t *space; /* of the symbolic integers; the context's while the import runs */
    int n_open;
    onnx_open_t open[ONNX_MAX_OPEN];
    int n_unknown; /* names without a hint, so far */

    int n_blocks; /* and functions that the node is in; their tensors may be read more than once */
    const Onnx__NodeProto *proto; /* the node that is imported now */
} onnx_t;

/* ---- reading the message ---- */

/* The source of a model: a file and its folder, or bytes. */
typedef struct onnx_source {
    const char *path;
    char *folder;
    const void *bytes;
    size_t n_bytes;
} onnx_source_t;

/* The file at a path; the caller puts `folder` back. */
status_t onnx_from_path(context_t *ctx, const char *op, const char *path,
                        onnx_source_t *out_source);

/* Reads the message and checks that its operators are known. `onnx` is zero, or holds options; the
 * caller ends it, also on failure. */
status_t onnx_begin(onnx_t *onnx, context_t *ctx, const onnx_source_t *source);
void onnx_end(onnx_t *onnx);

/* True for an input of the graph that is an initializer, once those are bound. */
bool onnx_is_initializer(const onnx_t *onnx, const Onnx__ValueInfoProto *input);

/* The shape of an input or output; NULL: the file does not say it, or it is no tensor. Whether the
 * file fixes a dimension; its name, if it has one ("" and "?" are none). */
const Onnx__TensorShapeProto *onnx_shape_of(const Onnx__ValueInfoProto *value);
bool onnx_is_fixed(const Onnx__TensorShapeProto__Dimension *dim);
const char *onnx_param_of(const Onnx__TensorShapeProto__Dimension *dim);

/* Names of inputs and outputs, opset and metadata, as attributes of the module. */
status_t onnx_set_attributes(onnx_t *onnx);

/* The node's name, else its first output's, else "". */
const char *onnx_path_of(const Onnx__NodeProto *node);

/* Before a failed message's own words comes where it was: onnx: node "fc" (Gemm): ... */
status_t onnx_fail_at(onnx_t *onnx, status_t status, const char *what, const char *name,
                      const char *type);

/* Refuses bytes whose messages nest too deep to be unpacked, or run over their end. */
status_t onnx_wire_check(context_t *ctx, const ProtobufCMessageDescriptor *message,
                         const void *bytes, size_t n_bytes);

/* The dtype of an ONNX element type. UNSUPPORTED names the type. */
status_t onnx_dtype(context_t *ctx, int64_t data_type, dtype_t *out_dtype);

/* A TensorProto's tensor, dense and with bytes of its own; its bytes in the message are freed. */
status_t onnx_tensor(onnx_t *onnx, Onnx__TensorProto *proto, tensor_t **out_tensor);
/* The tensor that the options have for this initializer, with a reference more; NULL: none. */
status_t onnx_tensor_given(onnx_t *onnx, const Onnx__TensorProto *proto, tensor_t **out_tensor);
/* Refuses options with tensors that no initializer of the graph asks for. */
status_t onnx_check_given(onnx_t *onnx, const Onnx__GraphProto *graph);
/* As onnx_tensor, and the bytes in the message stay. */
status_t onnx_tensor_again(onnx_t *onnx, const Onnx__TensorProto *proto, tensor_t **out_tensor);

/* Reads the element bytes that lie in a file beside the model into `bytes`; NULL: only checks that
 * they are there. */
status_t onnx_external(onnx_t *onnx, const Onnx__TensorProto *proto, size_t n_bytes, void *bytes);

/* ---- the end ---- */

/* The module, its graph made of the calls, and its parameters. */
status_t onnx_build(onnx_t *onnx, graph_t **out_graph);

/* The open size of this name in the file, or without a name (NULL), of an input's dimension `dim`:
 * its index in onnx->open, found or made; ONNX_NOT_OPEN when there are too many. Those without a
 * name are one where dimension and size (0: not known) are the same. */
int onnx_open_find(onnx_t *onnx, const char *param, int dim, int64_t size);
#endif
#endif
