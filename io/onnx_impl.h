/* The inside of the ONNX importer.
 *
 * A model is read into items: an item is a tensor known at import, or a value of the graph to be
 * built. One function imports one ONNX operator; it calls operators of ours on items. A call on
 * known items alone runs at once, and gives known items: that is all of constant folding. Other
 * calls are noted, and become nodes of the graph at the end; a known item that such a node reads
 * becomes a parameter, a buffer or a constant then.
 *
 * Sizes that the file leaves open are tried at several numbers. A trial is one choice of them;
 * trial 0 is the sizes asked for. A node that reads what differs between trials is imported at each
 * of them: calls have to be the same, and integers of their attributes have to follow the sizes.
 * Where they do not, the size is fixed, and the graph says why. An import function knows nothing of
 * this: it sees the tensors and sizes of one trial.
 *
 * A size that depends on elements (NonZero), and integers that may become sizes, are numbers in
 * every trial, too: they stand for what will be there, the same where sizes of inputs are tried,
 * others in trials of their own. Where what the import makes of them follows them in none of the
 * ways that are known, the model is UNSUPPORTED.
 *
 *   x [N,3,8,8], Shape, Gather 0, Concat [.., -1], Reshape
 *   trial 0  N=1   reshape sizes=[1,-1]
 *   trial 1  N=2   reshape sizes=[2,-1]    so: where sizes[0]=N
 *
 * Messages of import functions say what is wrong; who calls them says where.
 *
 * Here is what an import holds, and how the message is read. Items are in onnx_item_impl.h, trials
 * in onnx_trial_impl.h, and in onnx_node_impl.h what import functions are written with. */
#ifndef TESSERA_IO_ONNX_IMPL_H
#define TESSERA_IO_ONNX_IMPL_H

#include "io/onnx.h"

#ifdef TESSERA_HAVE_ONNX

#include <onnx.pb-c.h>

#include "graph/ir/size_fit_impl.h"
#include "tensor/context_impl.h"

#define ONNX_OPSET_FIRST 1
#define ONNX_OPSET_LAST 27

/* Bytes of a tensor that folding may make. */
#define ONNX_MAX_FOLDED ((size_t)1 << 31)

/* Elements of a tensor whose values the import looks at one by one. */
#define ONNX_MAX_VALUES 65536

/* Elements of a known tensor that differs between trials. */
#define ONNX_MAX_VARYING 1024

/* ---- the import ---- */

typedef int item_t; /* index in onnx_t.items */
#define ITEM_NONE (-1)

typedef struct onnx_item {
    const char *name;     /* of the ONNX value it came from; in the message */
    tensor_t *known;      /* held, or NULL: a value of the graph */
    tensor_t **knowns;    /* [n_trials], held: what it is instead in a trial. NULL: nothing else */
    tensor_info_t info;   /* of a value */
    tensor_info_t *infos; /* [n_trials], of dtype NONE where it is `info`. NULL: everywhere */
    tensor_t **stands;    /* [n_trials], held, of a value with a few integers that may say sizes:
                             what stands for it where these are inferred. NULL: it has none */
    int call;             /* that gave it, or -1 */
    value_t value;        /* in the graph; VALUE_NONE while it is not needed there */
    size_expr_t *expr;    /* of a number that follows sizes of inputs: how; or NULL */
    int narrow;           /* the ONNX type of fewer bits that it had before it was widened, or 0 */
    item_t transposed;    /* the same matrix transposed, or ITEM_NONE */
    bool is_weight;       /* initializer, or made by ConstantOfShape */
    bool is_state;        /* a weight that the graph writes: a buffer of the module */
    bool is_view;         /* `known` may share its bytes with another item's */
    bool is_text;         /* is_missing, and a tensor of texts or made of such */
    bool is_missing;      /* an output that the import does not make */
    bool is_doubtful;     /* may be something else at sizes that no trial has */
    bool is_data;         /* known, and calculated from sizes or integers that depend on elements */
    bool is_sequence;     /* a list of tensors; `info` is what each of them is */
    bool is_optional;     /* it may be none, which is found out where the model runs */
    bool is_none;         /* an optional without an element */
    bool is_changing;     /* of what a loop carries: its sizes are not those that it begins with */
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
    ONNX_CALL_KNOWN,   /* a known item that an import function made; no call */
    ONNX_CALL_IF,      /* of a condition: calls of one block, YIELD, calls of the other, YIELD */
    ONNX_CALL_LOOP,    /* of trip count, condition, what is carried: calls of the block, YIELD. Its
                          results are n_results outputs, then the block's parameters */
    ONNX_CALL_YIELD    /* the end of a block; operands are its results */
} onnx_call_kind_t;

#define ONNX_NAME_MAX 64

/* An integer of an attribute that follows sizes. */
typedef struct onnx_sized {
    int field, index;
    size_expr_t value;
} onnx_sized_t;

/* What an import function called. Operands, results and attributes are in one block. */
typedef struct onnx_noted {
    onnx_call_kind_t kind;
    const char *builtin;
    char *message; /* of builtin fail */
    int n_results; /* of LOOP */
    int end; /* of IF, LOOP: the last YIELD; of the first YIELD of an IF: the last one; else 0 */
    const opdef_t *op;
    const Onnx__NodeProto *proto; /* of whose import it is */
    bool is_known;                /* it ran at import, results are known items */
    bool is_needed;               /* is_known, and the graph calculates it anew at each size */
    bool is_in_place;             /* the result is written into the first operand */
    int n_in, n_out;
    item_t *in, *out;
    void *attrs;
    void **others; /* [n_trials]: attributes that a trial has instead; NULL: nothing else */
    int n_sized;
    onnx_sized_t *sized; /* integers that follow sizes; found at the end */
    int sized_capacity;
    int first_data; /* sizes that depend on elements, of calls before it */
} onnx_noted_t;

/* A size that the file leaves open. */
#define ONNX_MAX_REASON 512

typedef struct onnx_open {
    char name[ONNX_NAME_MAX]; /* in the graph */
    const char *param;        /* in the file; NULL: it has none there */
    int dim;                  /* of inputs, if it has no name in the file */
    int64_t size;             /* at the import; 0: not known yet */
    bool is_fixed;            /* the graph holds for `size` only */
    char reason[ONNX_MAX_REASON];
} onnx_open_t;

#define ONNX_MAX_OPEN 8
#define ONNX_MAX_TRIALS 160 /* at most SIZE_MAX_SAMPLES */
#define ONNX_NOT_OPEN (-1)

/* Sizes that are tried beside the others, since numbers follow one of several quotients, which are
 * alike at all others. They are asked for by an import and tried by the next. */
#define ONNX_MAX_ASKED 48
typedef struct onnx_asked {
    int n;
    int open[ONNX_MAX_ASKED]; /* index of the size in onnx_t.open */
    int64_t sizes[ONNX_MAX_ASKED];
} onnx_asked_t;

/* Values that a loop carries, lists of its scan outputs among them. */
#define ONNX_MAX_CARRIED 64

/* Trials of sizes that depend on elements. */
#define ONNX_DATA_TRIALS 8

typedef struct onnx_input {
    item_t item;
    int8_t open[TENSOR_MAX_RANK]; /* index of the size in `open`, or ONNX_NOT_OPEN */
} onnx_input_t;

/* Calls of one node that have to go to the graph. */
#define ONNX_MAX_FORCED 64

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

    const char *closed_by; /* why all open sizes are fixed; NULL: they are not */
    int n_open;
    onnx_open_t open[ONNX_MAX_OPEN];
    int n_trials; /* at least 1 */
    int64_t sizes[ONNX_MAX_TRIALS][ONNX_MAX_OPEN];
    bool is_over[ONNX_MAX_TRIALS]; /* the model or the graph does not hold at these sizes */
    int first_data_trial;    /* from it on, sizes that depend on elements vary, others do not */
    int n_data;              /* sizes that depend on elements, so far */
    const char *data_reason; /* why these sizes cannot be followed; NULL: they can */
    onnx_asked_t *asked;     /* the caller's; grows when an import ends */
    struct onnx_pool *pool;  /* sizes inside, as they follow open ones; NULL: not looked for yet */
    bool is_local;           /* integers follow sizes of operands rather than of inputs */

    int n_blocks; /* and functions that the node is in; their tensors may be read more than once */

    /* The node that is imported now. */
    int trial;
    int first_call, next_call; /* its first; in trials behind 0 the one that comes next */
    bool is_literal;           /* calls that change nothing are made, too */
    bool is_doubtful;          /* it has looked at the elements of a doubtful item */
    const Onnx__NodeProto *proto;
    bool differs;    /* this trial calls something else than trial 0 */
    bool has_forced; /* this trial has found a call that has to go to the graph */
    bool is_forced[ONNX_MAX_FORCED];
} onnx_t;

/* ---- reading the message ---- */

/* Where a model comes from: a file and its folder, or bytes. */
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

/* Whether an integer, values[k] in trial k, is one number or follows open sizes. */
status_t onnx_is_followed(onnx_t *onnx, const int64_t *values, bool *out_is_followed);
#endif
#endif
