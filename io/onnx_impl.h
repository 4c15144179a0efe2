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
 *   x [N,3,8,8], Shape, Gather 0, Concat [.., -1], Reshape
 *   trial 0  N=1   reshape sizes=[1,-1]
 *   trial 1  N=2   reshape sizes=[2,-1]    so: where sizes[0]=N
 *
 * Messages of import functions say what is wrong; who calls them says where. */
#ifndef TESSERA_IO_ONNX_IMPL_H
#define TESSERA_IO_ONNX_IMPL_H

#include "io/onnx.h"

#ifdef TESSERA_HAVE_ONNX

#include <stdalign.h>

#include <onnx.pb-c.h>

#include "graph/ir/size_impl.h"
#include "tensor/context_impl.h"

#define ONNX_OPSET_FIRST 6
#define ONNX_OPSET_LAST 22

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
    int call;             /* that gave it, or -1 */
    value_t value;        /* in the graph; GRAPH_NONE while it is not needed there */
    size_expr_t *expr;    /* of a number that follows sizes of inputs: how; or NULL */
    item_t transposed;    /* the same matrix transposed, or ITEM_NONE */
    bool is_weight;       /* initializer, or made by ConstantOfShape */
    bool is_view;         /* `known` may share its bytes with another item's */
    bool is_missing;      /* an output that the import does not make */
    bool is_doubtful;     /* may be something else at sizes that no trial has */
} onnx_item_t;

/* An entry of the table of names; open addressing. */
typedef struct onnx_name {
    const char *name; /* NULL: free */
    item_t item;
} onnx_name_t;

typedef enum onnx_call_kind {
    ONNX_CALL_OP,    /* an operator of ours */
    ONNX_CALL_SHAPE, /* the builtin: sizes of a value */
    ONNX_CALL_KNOWN  /* a known item that an import function made; no call */
} onnx_call_kind_t;

/* What an import function called. Operands, results and attributes are in one block. */
typedef struct onnx_noted {
    onnx_call_kind_t kind;
    const opdef_t *op;
    const Onnx__NodeProto *proto; /* of whose import it is */
    bool is_known;                /* it ran at import, results are known items */
    bool is_needed;               /* is_known, and the graph calculates it anew at each size */
    int n_in, n_out;
    item_t *in, *out;
    void *attrs;
    void **others; /* [n_trials]: attributes that a trial has instead; NULL: nothing else */
    int n_sized;
    sized_attr_t *sized; /* integers that follow sizes; found at the end */
} onnx_noted_t;

/* A size that the file leaves open. */
#define ONNX_MAX_REASON 512

typedef struct onnx_open {
    char name[SIZE_NAME_MAX]; /* in the graph */
    const char *param;        /* in the file; NULL: it has none there */
    int dim;                  /* of inputs, if it has no name in the file */
    int64_t size;             /* at the import; 0: not known yet */
    bool is_fixed;            /* the graph holds for `size` only */
    char reason[ONNX_MAX_REASON];
} onnx_open_t;

#define ONNX_MAX_OPEN 8
#define ONNX_MAX_TRIALS SIZE_MAX_SAMPLES
#define ONNX_NOT_OPEN (-1)

typedef struct onnx_input {
    item_t item;
    int8_t open[TENSOR_MAX_RANK]; /* index of the size in `open`, or ONNX_NOT_OPEN */
} onnx_input_t;

/* Calls of one node that have to go to the graph. */
#define ONNX_MAX_FORCED 64

typedef struct onnx {
    context_t *ctx;
    const char *folder; /* of the model's file, ends in '/' or is ""; NULL: from memory */
    const onnx_options_t *options;
    int64_t batch;
    int64_t opset;
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
    bool is_local;                 /* integers follow sizes of operands rather than of inputs */

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

/* The node's name, else its first output's, else "". */
const char *onnx_path_of(const Onnx__NodeProto *node);

/* Before a failed message's own words comes where it was: onnx: node "fc" (Gemm): ... */
status_t onnx_fail_at(onnx_t *onnx, status_t status, const char *what, const char *name,
                      const char *type);

/* Refuses bytes whose messages nest too deep to be unpacked, or run over their end. */
status_t onnx_wire_check(context_t *ctx, const void *bytes, size_t n_bytes);

/* The dtype of an ONNX element type. UNSUPPORTED names the type. */
status_t onnx_dtype(context_t *ctx, int64_t data_type, dtype_t *out_dtype);

/* A TensorProto's tensor, dense and with bytes of its own; its bytes in the message are freed. */
status_t onnx_tensor(onnx_t *onnx, Onnx__TensorProto *proto, tensor_t **out_tensor);
/* The same, and the bytes in the message stay. */
status_t onnx_tensor_again(onnx_t *onnx, const Onnx__TensorProto *proto, tensor_t **out_tensor);

/* Reads the element bytes that lie in a file beside the model into `bytes`; NULL: only checks that
 * they are there. */
status_t onnx_external(onnx_t *onnx, const Onnx__TensorProto *proto, size_t n_bytes, void *bytes);

/* ---- items ---- */

/* A known item that no import function makes; takes over the tensor, also on failure. */
status_t onnx_item_take(onnx_t *onnx, const char *name, tensor_t *tensor, item_t *out_item);

/* A known item, for import functions: the next one of the node. Takes over the tensor, also on
 * failure. */
status_t onnx_known_take(onnx_t *onnx, const char *name, tensor_t *tensor, item_t *out_item);

/* A value of the graph. */
status_t onnx_value(onnx_t *onnx, const char *name, const tensor_info_t *info, item_t *out_item);

/* C numbers, which do not take part in type promotion, and known s64 vectors. */
status_t onnx_number(onnx_t *onnx, double number, item_t *out_item);
status_t onnx_integer(onnx_t *onnx, int64_t number, item_t *out_item);
status_t onnx_vector(onnx_t *onnx, const char *name, int n, const int64_t *elements,
                     item_t *out_item);

/* dtype and sizes of an item; its tensor, or NULL; in this trial. */
const tensor_info_t *onnx_info(const onnx_t *onnx, item_t item);
tensor_t *onnx_tensor_of(const onnx_t *onnx, item_t item);

/* What an item is in this trial, where it differs from trial 0. The first takes over the tensor,
 * also on failure. */
status_t onnx_set_known_take(onnx_t *onnx, item_t item, tensor_t *tensor);
status_t onnx_set_info(onnx_t *onnx, item_t item, const tensor_info_t *info);

/* True when the item differs from trial 0 in one trial; in any that is not over. */
bool onnx_differs(const onnx_t *onnx, item_t item, int trial);
bool onnx_varies(const onnx_t *onnx, item_t item);
bool onnx_dim_varies(const onnx_t *onnx, item_t item, int dim);

/* Gives up the items from `first` on. */
void onnx_cut_items(onnx_t *onnx, int first);

/* The item's value in the graph: known ones go there as a literal, a parameter (floating weights,
 * and whatever floating has several elements), a buffer (other weights), or a constant. */
status_t onnx_value_of(onnx_t *onnx, item_t item, value_t *out_value);

/* A value that calculates item->expr from sizes of inputs. */
status_t onnx_calculate(onnx_t *onnx, item_t item, value_t *out_value);

/* Puts a tensor in the module under the name's dotted path, or under a name without dots where the
 * path is taken or no path. The caller puts *out_path back. */
status_t onnx_place(onnx_t *onnx, const char *name, tensor_t *tensor, char **out_path);

/* Names of ONNX values. CORRUPT when one is bound twice; ITEM_NONE when it is not bound. */
status_t onnx_bind(onnx_t *onnx, const char *name, item_t item);
item_t onnx_find(const onnx_t *onnx, const char *name);

/* ---- open sizes and trials ---- */

/* An open size of this name in the file (NULL: none), of an input's dimension `dim`: its index in
 * onnx->open, found or made; ONNX_NOT_OPEN when there are too many. */
int onnx_open_find(onnx_t *onnx, const char *param, int dim);

/* Chooses names and trials, when all inputs are read. */
void onnx_open_begin(onnx_t *onnx);
status_t onnx_set_inputs(onnx_t *onnx);

/* The sizes that this trial tries are fixed, or the trial is over; the reason is why. */
void onnx_fix(onnx_t *onnx, int trial, const Onnx__NodeProto *proto, const char *why);
void onnx_end_trial(onnx_t *onnx, int trial, const Onnx__NodeProto *proto, const char *why);

/* Fixes open sizes that no trial but those that are over tries by itself. */
void onnx_fix_lost(onnx_t *onnx);

/* What the graph says of sizes that are fixed; empty: none is. */
void onnx_reason(const onnx_t *onnx, size_t capacity, char *out_text);

/* ---- nodes ---- */

typedef struct onnx_node onnx_node_t;
typedef status_t (*onnx_import_t)(onnx_node_t *node);

typedef struct onnx_operator {
    const char *name;
    int first_opset, last_opset;
    int min_inputs, max_inputs;
    onnx_import_t import;
    const char *own; /* operator of ours, where `import` serves several */
} onnx_operator_t;

struct onnx_node {
    onnx_t *onnx;
    const onnx_operator_t *op;
    const Onnx__NodeProto *proto;
    int64_t opset;
    const char *path; /* `at` of what is made: the node's name, else its first output's */
    uint64_t asked;   /* attributes that were asked for, one bit each */
    int n_in;
    item_t in[OP_MAX_INPUTS]; /* ITEM_NONE: left out */
    int n_out;
    item_t out[OP_MAX_OUTPUTS]; /* ITEM_NONE: not made */
};

/* Runs the node's import function, in all trials where they differ. */
status_t onnx_import_node(onnx_node_t *node);

/* NULL when there is none of this name in this opset. */
const onnx_operator_t *onnx_operator(const char *name, int64_t opset);

static inline bool onnx_has(const onnx_node_t *node, int input)
{
    return input < node->n_in && node->in[input] != ITEM_NONE;
}
/* The input is given and its value known. */
static inline bool onnx_knows(const onnx_node_t *node, int input)
{
    return onnx_has(node, input) && node->onnx->items[node->in[input]].known != NULL;
}
/* The input is given, and follows open sizes. */
static inline bool onnx_follows(const onnx_node_t *node, int input)
{
    return onnx_has(node, input) && onnx_varies(node->onnx, node->in[input]);
}
/* The output has a name. */
static inline bool onnx_wants(const onnx_node_t *node, int output)
{
    return output < node->n_out && *node->proto->output[output] != '\0';
}
/* An input's info; the input has to be given. A copy, so that items may be made. */
static inline tensor_info_t onnx_input_info(const onnx_node_t *node, int input)
{
    return *onnx_info(node->onnx, node->in[input]);
}

/* Attributes. INVALID_ARGUMENT when one is of another kind; out is `initial` when it is absent. */
bool onnx_has_attr(onnx_node_t *node, const char *name);
status_t onnx_attr_int(onnx_node_t *node, const char *name, int64_t initial, int64_t *out_value);
status_t onnx_attr_bool(onnx_node_t *node, const char *name, bool initial, bool *out_value);
status_t onnx_attr_float(onnx_node_t *node, const char *name, double initial, double *out_value);
/* One of the texts in `names` (NULL-terminated): its index. */
status_t onnx_attr_name(onnx_node_t *node, const char *name, const char *const *names, int initial,
                        int *out_index);
/* *out_n is -1 when it is absent. */
status_t onnx_attr_ints(onnx_node_t *node, const char *name, int capacity, int *out_n,
                        int64_t *out_values);
status_t onnx_attr_floats(onnx_node_t *node, const char *name, int capacity, int *out_n,
                          double *out_values);
/* NULL when it is absent. */
status_t onnx_attr_tensor(onnx_node_t *node, const char *name, Onnx__TensorProto **out_proto);
/* The attribute itself, for lists of any length. */
Onnx__AttributeProto *onnx_attr(onnx_node_t *node, const char *name);
/* An attribute whose value makes no difference here. */
void onnx_attr_ignore(onnx_node_t *node, const char *name);
/* UNSUPPORTED when an attribute has not been asked for. */
status_t onnx_attrs_done(const onnx_node_t *node);

/* Values of an input that has to be known. *out_n is -1 when it is left out. */
status_t onnx_input_ints(onnx_node_t *node, int input, const char *what, int capacity, int *out_n,
                         int64_t *out_values);
status_t onnx_input_floats(onnx_node_t *node, int input, const char *what, int capacity, int *out_n,
                           double *out_values);

/* The attribute up to the opset before `since`, the input from it on. */
status_t onnx_ints_since(onnx_node_t *node, int64_t since, const char *name, int input,
                         int capacity, int *out_n, int64_t *out_values);

/* Dimensions counted from the end when negative, each once; sorted. */
status_t onnx_dims(onnx_node_t *node, int rank, int n, int64_t *dims);
status_t onnx_dim(onnx_node_t *node, const char *name, int rank, int64_t initial, int *out_dim);

/* ---- calls ---- */

#define ONNX_ATTRS_MAX 1024

/* An operator of ours with its attributes. The first failure of the setters is given by the emit
 * that follows. */
typedef struct onnx_call {
    onnx_node_t *node;
    const opdef_t *op;
    status_t status;
    alignas(max_align_t) unsigned char attrs[ONNX_ATTRS_MAX];
} onnx_call_t;

void onnx_call(onnx_node_t *node, const char *op_name, onnx_call_t *out_call);
void onnx_set_int(onnx_call_t *call, const char *name, int64_t value);
void onnx_set_float(onnx_call_t *call, const char *name, double value);
void onnx_set_ints(onnx_call_t *call, const char *name, int n, const int64_t *values);
void onnx_set_floats(onnx_call_t *call, const char *name, int n, const double *values);
/* All attributes at once, of a public struct. */
void onnx_set_all(onnx_call_t *call, const void *attrs, size_t bytes);

/* Runs the call if all items are known, else notes it for the graph. ITEM_NONE is an operand left
 * out; `in` may hold `out`. */
status_t onnx_emit_n(onnx_call_t *call, int n_in, const item_t *in, int n_out, item_t *out);
static inline status_t onnx_emit(onnx_call_t *call, int n_in, const item_t *in, item_t *out)
{
    return onnx_emit_n(call, n_in, in, 1, out);
}

/* The sizes of an item, as an item: s64 [rank]. */
status_t onnx_sizes(onnx_node_t *node, item_t x, item_t *out);

/* The call that comes next: at trial 0 a new one, in others that of trial 0, which has to be of
 * this kind, operator and operands. attrs may be NULL. */
status_t onnx_note(onnx_t *onnx, const onnx_noted_t *call, int *out_call);

/* Integers of a field of attributes, and one of them. */
int onnx_n_integers(const opdef_t *op, const void *attrs, int field);
int64_t *onnx_integer_at(const opdef_t *op, const void *attrs, int field, int index);

/* Gives up the calls from `first` on. */
void onnx_cut_calls(onnx_t *onnx, int first);

/* The module, its graph made of the calls, and its parameters. */
status_t onnx_build(onnx_t *onnx, graph_t **out_graph);

/* Calls without attributes. */
status_t onnx_unary(onnx_node_t *node, const char *op_name, item_t x, item_t *out);
status_t onnx_binary(onnx_node_t *node, const char *op_name, item_t a, item_t b, item_t *out);

/* Shapes. Those that change nothing give x. */
status_t onnx_reshape(onnx_node_t *node, item_t x, int rank, const int64_t *sizes, item_t *out);
status_t onnx_permute(onnx_node_t *node, item_t x, int n, const int64_t *dims, item_t *out);
status_t onnx_expand(onnx_node_t *node, item_t x, int rank, const int64_t *sizes, item_t *out);
status_t onnx_cast(onnx_node_t *node, item_t x, dtype_t dtype, item_t *out);
status_t onnx_slice(onnx_node_t *node, item_t x, int dim, int64_t start, int64_t end, int64_t step,
                    item_t *out);
/* A matrix transposed; the same item for the same matrix. */
status_t onnx_transposed(onnx_node_t *node, item_t x, item_t *out);
/* x[index] along dim. */
status_t onnx_take(onnx_node_t *node, item_t x, int dim, int n, const int64_t *index, item_t *out);

/* Sizes of the spatial dimensions, and the padding that auto_pad or pads ask for. */
typedef struct onnx_window {
    int n;
    int64_t kernel[3], stride[3], dilation[3], begin[3], end[3];
    bool is_same, is_same_lower;
} onnx_window_t;
/* Reads kernel_shape (`kernel` NULL), strides, dilations, pads and auto_pad. */
status_t onnx_window(onnx_node_t *node, const tensor_info_t *x, const int64_t *kernel,
                     onnx_window_t *out_window);

#define OPERATOR(name, first, last, min, max, function, own)                                       \
    status_t onnx_import_##function(onnx_node_t *node);
#include "io/onnx_ops.def"
#undef OPERATOR

#endif
#endif
