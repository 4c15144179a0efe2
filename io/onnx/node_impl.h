/* Used by import functions: a node's inputs and attributes, and calls of Tessera operators on
 * items. */
#ifndef TESSERA_IO_ONNX_NODE_IMPL_H
#define TESSERA_IO_ONNX_NODE_IMPL_H

#include <stdalign.h>

#include "io/onnx/item_impl.h"
#include "tensor/sym/sym.h"

typedef struct onnx_node onnx_node_t;
typedef status_t (*onnx_import_t)(onnx_node_t *node);

typedef struct onnx_operator {
    const char *domain; /* "": ONNX's own */
    const char *name;
    int first_opset, last_opset;
    int min_inputs, max_inputs;
    onnx_import_t import;
    const char *own; /* the Tessera operator, if the function imports several ONNX operators */
    bool takes_any;  /* accepts sequences and optionals too */
} onnx_operator_t;

struct onnx_node {
    onnx_t *onnx;
    const onnx_operator_t *op;
    const Onnx__NodeProto *proto;
    int64_t opset;
    const char *path; /* path of the graph's nodes: the node's name, else its first output's */
    uint64_t asked;   /* attributes that were read, bit i for attribute i */
    int n_in;
    item_t in[OP_MAX_INPUTS]; /* ITEM_NONE: left out */
    int n_out;
    item_t out[OP_MAX_OUTPUTS]; /* ITEM_NONE: not produced */
};

/* Imports a node, including the blocks in its attributes. */
status_t onnx_add_node(onnx_t *onnx, const Onnx__NodeProto *proto);
/* Imports the nodes of a graph, block or function in the file's order, but each node after the
 * nodes whose outputs it reads. `progress` names the progress report; NULL: no report. */
status_t onnx_add_nodes(onnx_t *onnx, size_t n, Onnx__NodeProto *const *nodes,
                        const char *progress);
/* Imports an initializer. */
status_t onnx_add_initializer(onnx_t *onnx, Onnx__TensorProto *proto);

/* Finds an operator. NULL if the domain has no operator of this name in this opset. */
const onnx_operator_t *onnx_operator(const char *domain, const char *name, int64_t opset);

static inline bool onnx_has(const onnx_node_t *node, int input)
{
    return input < node->n_in && node->in[input] != ITEM_NONE;
}
/* True if the input is present and its elements are known, as numbers or as expressions of
 * sizes. */
static inline bool onnx_knows(const onnx_node_t *node, int input)
{
    return onnx_has(node, input) && onnx_is_known(node->onnx, node->in[input]);
}
/* True if the input's elements are known as numbers, not as expressions. */
static inline bool onnx_is_number(const onnx_node_t *node, int input)
{
    return onnx_knows(node, input) && node->onnx->items[node->in[input]].symbols == NULL;
}
/* True if the output has a name, so another node or the graph may read it. */
static inline bool onnx_wants(const onnx_node_t *node, int output)
{
    return output < node->n_out && *node->proto->output[output] != '\0';
}
/* The info of an input, which must be present. Returns a copy, because adding an item may move the
 * array of items. */
static inline tensor_info_t onnx_input_info(const onnx_node_t *node, int input)
{
    return *onnx_info(node->onnx, node->in[input]);
}

/* Requires inputs `begin` to `end` - 1. INVALID_ARGUMENT names the first missing one. */
status_t onnx_check_inputs(const onnx_node_t *node, int begin, int end);

/* Read attributes. If the attribute is missing, the result is `initial`. CORRUPT if it has another
 * type. */
bool onnx_has_attr(onnx_node_t *node, const char *name);
status_t onnx_attr_int(onnx_node_t *node, const char *name, int64_t initial, int64_t *out_value);
/* INVALID_ARGUMENT if the attribute is not 0 or 1: other libraries disagree about other numbers. */
status_t onnx_attr_bool(onnx_node_t *node, const char *name, bool initial, bool *out_value);
status_t onnx_attr_float(onnx_node_t *node, const char *name, double initial, double *out_value);
/* Returns the index of a string attribute in `names` (NULL-terminated). */
status_t onnx_attr_name(onnx_node_t *node, const char *name, const char *const *names, int initial,
                        int *out_index);
/* *out_n is -1 if the attribute is missing. */
status_t onnx_attr_ints(onnx_node_t *node, const char *name, int capacity, int *out_n,
                        int64_t *out_values);
status_t onnx_attr_floats(onnx_node_t *node, const char *name, int capacity, int *out_n,
                          double *out_values);
/* NULL if the attribute is missing. */
status_t onnx_attr_tensor(onnx_node_t *node, const char *name, Onnx__TensorProto **out_proto);
/* Returns the attribute itself, for lists of any length; NULL if it is missing. */
Onnx__AttributeProto *onnx_attr(onnx_node_t *node, const char *name);
/* Counts an attribute as read, because its value makes no difference. */
void onnx_attr_ignore(onnx_node_t *node, const char *name);
/* UNSUPPORTED if the node has an attribute that was not read. */
status_t onnx_attrs_done(const onnx_node_t *node);

/* Reads an input whose elements must be known. *out_n is -1 if the input is left out. Integers may
 * be symbolic. A very negative number that would look like a symbol's handle is raised to INT64_MIN
 * / 2. */
status_t onnx_input_ints(onnx_node_t *node, int input, const char *what, int capacity, int *out_n,
                         int64_t *out_values);
/* Reads numbers, for axes, modes and C loops. If an element is symbolic, a guard fixes its
 * value. */
status_t onnx_input_numbers(onnx_node_t *node, int input, const char *what, int capacity,
                            int *out_n, int64_t *out_values);
status_t onnx_input_floats(onnx_node_t *node, int input, const char *what, int capacity, int *out_n,
                           double *out_values);
/* Reads symbolic real numbers, computed in f64. */
status_t onnx_input_reals(onnx_node_t *node, int input, const char *what, int capacity, int *out_n,
                          int64_t *out_values);
/* Checks that the sizes of n pieces are not negative and add up to `size`. */
status_t onnx_check_pieces(onnx_node_t *node, int n, const int64_t *pieces, int64_t size);

/* Requires integers for an input whose elements are read at run time. */
status_t onnx_check_integers(onnx_node_t *node, int input, const char *what);

/* Read integers from an attribute in opsets before `since`, later from an input. onnx_ints_since
 * reads like onnx_input_ints, onnx_numbers_since like onnx_input_numbers. */
status_t onnx_ints_since(onnx_node_t *node, int64_t since, const char *name, int input,
                         int capacity, int *out_n, int64_t *out_values);
status_t onnx_numbers_since(onnx_node_t *node, int64_t since, const char *name, int input,
                            int capacity, int *out_n, int64_t *out_values);

/* Resolves negative dimensions and sorts. Each dimension may occur once. */
status_t onnx_dims(onnx_node_t *node, int rank, int n, int64_t *dims);
/* onnx_dims without sorting. */
status_t onnx_dims_in_order(onnx_node_t *node, int rank, int n, int64_t *dims);
status_t onnx_dim(onnx_node_t *node, const char *name, int rank, int64_t initial, int *out_dim);

/* ---- sizes, numbers or symbolic integers; sizes.c ---- */

int64_t onnx_product(const onnx_node_t *node, int n, const int64_t *sizes);
int64_t onnx_numel(const onnx_node_t *node, const tensor_info_t *info);
/* The product of sizes divided by the product of divisors, rounded down. Sizes that occur in both
 * cancel: [N,C,H,W] divided by [N,C] is H*W for any N and C. */
int64_t onnx_quotient(const onnx_node_t *node, int n, const int64_t *sizes, int n_divisors,
                      const int64_t *divisors);
/* Like shape_multiply, shape_equal, shape_broadcast and shape_check, but for symbolic sizes. A
 * decision that depends on them becomes a guard. */
bool onnx_multiply(const onnx_node_t *node, int64_t a, int64_t b, int64_t *out_product);
/* True if a size depends on elements, so that no decision can be made about it at import. The
 * operators that read it check it at run time. */
bool onnx_is_late(const onnx_node_t *node, int64_t size);
/* True if one of these sizes is late, and the sizes of the operand do not determine it. */
bool onnx_are_late(const onnx_node_t *node, item_t operand, int n, const int64_t *sizes);
bool onnx_same_sizes(const onnx_node_t *node, int rank_a, const int64_t *a, int rank_b,
                     const int64_t *b);
bool onnx_broadcast(const onnx_node_t *node, int rank_a, const int64_t *a, int rank_b,
                    const int64_t *b, int *out_rank, int64_t *out_sizes);
status_t onnx_check_shape(const onnx_node_t *node, const char *what, dtype_t dtype, int rank,
                          const int64_t *sizes);
/* For messages: the info with hints instead of symbolic sizes, and its text (info_brief). */
tensor_info_t onnx_hinted(const onnx_node_t *node, const tensor_info_t *info);
const char *onnx_brief(const onnx_node_t *node, const tensor_info_t *info);
/* Computes 0, 1, .. n - 1 as s64 [n] with operators, so n may be symbolic. */
status_t onnx_count_up(onnx_node_t *node, int64_t n, item_t *out);

/* ---- calls ---- */

#define ONNX_ATTRS_MAX 1024

/* A call of a Tessera operator under construction. Setters store their first failure in `status`;
 * onnx_emit returns it. */
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
/* Sets all attributes at once, from a public struct. */
void onnx_set_all(onnx_call_t *call, const void *attrs, size_t bytes);

/* Runs the call if all operands are known, else records it for the graph. ITEM_NONE is an operand
 * that is left out. `in` may be `out`. */
status_t onnx_emit_n(onnx_call_t *call, int n_in, const item_t *in, int n_out, item_t *out);
static inline status_t onnx_emit(onnx_call_t *call, int n_in, const item_t *in, item_t *out)
{
    return onnx_emit_n(call, n_in, in, 1, out);
}

/* An attribute of a call: a number, or n integers. */
typedef struct onnx_set {
    const char *name;
    int64_t value;
    int n;
    const int64_t *ints;
    double number; /* for attributes that are floats */
} onnx_set_t;

/* ONNX_ATTRS(SET("dim", 1), SET_INTS("sizes", 2, sizes), SET_FLOAT("value", 0.5)) */
#define ONNX_ATTRS(...) ((const onnx_set_t[]){__VA_ARGS__, {.name = NULL}})
#define SET(its_name, number) ((onnx_set_t){.name = its_name, .value = number})
#define SET_INTS(its_name, length, ...)                                                            \
    ((onnx_set_t){.name = its_name, .n = length, .ints = __VA_ARGS__})
#define SET_FLOAT(its_name, real) ((onnx_set_t){.name = its_name, .number = real})

/* Emits a call with some attributes; attrs may be NULL. Attributes that are not listed have their
 * defaults. `in` may be `out`. */
status_t onnx_op(onnx_node_t *node, const char *op_name, const onnx_set_t *attrs, int n_in,
                 const item_t *in, item_t *out);

/* Returns the sizes of an item as an item: s64 [rank]. */
status_t onnx_sizes(onnx_node_t *node, item_t x, item_t *out);

/* Records a call of a graph builtin, such as "append". *out becomes its result; the caller sets its
 * type. out may be NULL. */
status_t onnx_builtin(onnx_node_t *node, const char *name, int n_in, const item_t *in, item_t *out);

/* Makes a sequence of items. It becomes a list of the graph only if a node reads it. dtype NONE:
 * the dtype of the items. */
status_t onnx_sequence(onnx_node_t *node, dtype_t dtype, int n, const item_t *items, item_t *out);

/* Records a call, which becomes a node of the graph. attrs may be NULL. */
status_t onnx_note(onnx_t *onnx, const onnx_noted_t *call, int *out_call);

/* Replaces sizes of -1 with new symbols. */
void onnx_name_sizes(onnx_t *onnx, tensor_info_t *info);

/* Computes a call whose operands are known or symbolic. If that fails, *out_is_done is false. */
status_t onnx_run_symbols(onnx_t *onnx, int call, bool *out_is_done);

/* The number of integers in field `field` of an attribute struct, and a pointer to one of them. */
int onnx_n_integers(const opdef_t *op, const void *attrs, int field);
int64_t *onnx_integer_at(const opdef_t *op, const void *attrs, int field, int index);

/* The call that produced an item, if it is a call of this operator; else NULL. */
onnx_noted_t *onnx_call_of(const onnx_t *onnx, item_t item, const char *op_name);

/* Removes the recorded calls from index `first` on. */
void onnx_cut_calls(onnx_t *onnx, int first);

/* Emit calls of operators without attributes. */
status_t onnx_unary(onnx_node_t *node, const char *op_name, item_t x, item_t *out);
status_t onnx_binary(onnx_node_t *node, const char *op_name, item_t a, item_t b, item_t *out);
/* onnx_binary with a number as operand b. */
status_t onnx_with_number(onnx_node_t *node, const char *op_name, item_t x, double number,
                          item_t *out);
/* Concatenates parts along dim. */
status_t onnx_concat(onnx_node_t *node, int n, const item_t *parts, int64_t dim, item_t *out);

/* Emit operators that change shapes. Return x itself if nothing changes. */
status_t onnx_reshape(onnx_node_t *node, item_t x, int rank, const int64_t *sizes, item_t *out);
status_t onnx_permute(onnx_node_t *node, item_t x, int n, const int64_t *dims, item_t *out);
status_t onnx_expand(onnx_node_t *node, item_t x, int rank, const int64_t *sizes, item_t *out);
status_t onnx_cast(onnx_node_t *node, item_t x, dtype_t dtype, item_t *out);
status_t onnx_slice(onnx_node_t *node, item_t x, int dim, int64_t start, int64_t end, int64_t step,
                    item_t *out);
/* Transposes a matrix. A second call for x returns the same item. */
status_t onnx_transposed(onnx_node_t *node, item_t x, item_t *out);
/* Gathers x[index] along dim. */
status_t onnx_take(onnx_node_t *node, item_t x, int dim, int n, const int64_t *index, item_t *out);

/* Import Pad, Slice and CumSum if some inputs are known only at run time: input 1 of Pad (pads
 * before and after each of `dims`); 1, 2 and 4 of Slice (starts, ends, steps); 1 of CumSum
 * (axis). */
status_t onnx_pad_live(onnx_node_t *node, int n, const int64_t *dims, int mode, item_t value);
status_t onnx_slice_live(onnx_node_t *node, int n, const int64_t *dims);
status_t onnx_cumsum_live(onnx_node_t *node, bool is_exclusive, bool is_reverse);

/* Kernel, strides, dilations and padding of the spatial dimensions; padding comes from auto_pad or
 * pads. */
typedef struct onnx_window {
    int n;
    int64_t kernel[3], stride[3], dilation[3], begin[3], end[3];
    bool is_same, is_same_lower;
} onnx_window_t;
/* Reads the attributes kernel_shape (if `kernel` is NULL), strides, dilations, pads and
 * auto_pad. */
status_t onnx_window(onnx_node_t *node, const tensor_info_t *x, const int64_t *kernel,
                     onnx_window_t *out_window);

/* Reads the attributes of a convolution. */
status_t onnx_read_conv(onnx_node_t *node, const tensor_info_t *x, const tensor_info_t *weight,
                        conv_attrs_t *out_attrs);

#define OPERATOR(name, first, last, min, max, function, own)                                       \
    status_t onnx_import_##function(onnx_node_t *node);
#define MICROSOFT(name, min, max, function, own) OPERATOR(name, 0, 0, min, max, function, own)
#define ML(name, min, max, function) OPERATOR(name, 0, 0, min, max, function, NULL)
#define ANY(name, first, last, min, max, function)                                                 \
    OPERATOR(name, first, last, min, max, function, NULL)
#include "io/onnx/ops.def"
#undef ANY
#undef MICROSOFT
#undef ML
#undef OPERATOR

#endif
