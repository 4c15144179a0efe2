/* What import functions are written with: the node, its inputs and attributes, and calls of
 * operators of ours on items. */
#ifndef TESSERA_IO_ONNX_NODE_IMPL_H
#define TESSERA_IO_ONNX_NODE_IMPL_H

#include "io/onnx/item_impl.h"

#ifdef TESSERA_HAVE_ONNX

#include <stdalign.h>

#include "tensor/sym.h"

typedef struct onnx_node onnx_node_t;
typedef status_t (*onnx_import_t)(onnx_node_t *node);

typedef struct onnx_operator {
    const char *domain; /* "": of ONNX */
    const char *name;
    int first_opset, last_opset;
    int min_inputs, max_inputs;
    onnx_import_t import;
    const char *own; /* operator of ours, where `import` serves several */
    bool takes_any;  /* sequences and optionals as well as tensors */
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

/* A node, with all that is in it; an initializer. */
status_t onnx_add_node(onnx_t *onnx, const Onnx__NodeProto *proto);
/* The nodes of a graph, block or function, each after those whose outputs it reads, else in the
 * file's order. `progress` is what progress is reported as; NULL: not at all. */
status_t onnx_add_nodes(onnx_t *onnx, size_t n, Onnx__NodeProto *const *nodes,
                        const char *progress);
status_t onnx_add_initializer(onnx_t *onnx, Onnx__TensorProto *proto);

/* NULL when there is none of this name in this domain and opset. */
const onnx_operator_t *onnx_operator(const char *domain, const char *name, int64_t opset);

static inline bool onnx_has(const onnx_node_t *node, int input)
{
    return input < node->n_in && node->in[input] != ITEM_NONE;
}
/* The input is given, and its elements are known, as numbers or as expressions of sizes. */
static inline bool onnx_knows(const onnx_node_t *node, int input)
{
    return onnx_has(node, input) && onnx_is_known(node->onnx, node->in[input]);
}
/* The input's elements are known as numbers, not as expressions. */
static inline bool onnx_is_number(const onnx_node_t *node, int input)
{
    return onnx_knows(node, input) && node->onnx->items[node->in[input]].symbols == NULL;
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

/* Inputs from `begin` to `end` - 1 are given; INVALID_ARGUMENT names the first that is left out. */
status_t onnx_check_inputs(const onnx_node_t *node, int begin, int end);

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

/* Values of an input that has to be known. *out_n is -1 when it is left out. Integers may be
 * symbolic; numbers so low that they would be taken for such are raised to INT64_MIN / 2. */
status_t onnx_input_ints(onnx_node_t *node, int input, const char *what, int capacity, int *out_n,
                         int64_t *out_values);
/* The same as numbers, for axes and modes, and for what C loops over. */
status_t onnx_input_numbers(onnx_node_t *node, int input, const char *what, int capacity,
                            int *out_n, int64_t *out_values);
status_t onnx_input_floats(onnx_node_t *node, int input, const char *what, int capacity, int *out_n,
                           double *out_values);
/* As symbolic reals of f64. */
status_t onnx_input_reals(onnx_node_t *node, int input, const char *what, int capacity, int *out_n,
                          int64_t *out_values);
/* n pieces make up a size, and none is negative. */
status_t onnx_check_pieces(onnx_node_t *node, int n, const int64_t *pieces, int64_t size);

/* An input whose elements are looked at where the model runs: integers. */
status_t onnx_check_integers(onnx_node_t *node, int input, const char *what);

/* The attribute up to the opset before `since`, the input from it on: as onnx_input_ints, and as
 * numbers. */
status_t onnx_ints_since(onnx_node_t *node, int64_t since, const char *name, int input,
                         int capacity, int *out_n, int64_t *out_values);
status_t onnx_numbers_since(onnx_node_t *node, int64_t since, const char *name, int input,
                            int capacity, int *out_n, int64_t *out_values);

/* Dimensions counted from the end when negative, each once; sorted. */
status_t onnx_dims(onnx_node_t *node, int rank, int n, int64_t *dims);
/* The same, not sorted. */
status_t onnx_dims_in_order(onnx_node_t *node, int rank, int n, int64_t *dims);
status_t onnx_dim(onnx_node_t *node, const char *name, int rank, int64_t initial, int *out_dim);

/* ---- sizes, numbers or symbolic integers; onnx_sizes.c ---- */

int64_t onnx_product(const onnx_node_t *node, int n, const int64_t *sizes);
int64_t onnx_numel(const onnx_node_t *node, const tensor_info_t *info);
/* One product by another, rounded down. Sizes that stand in both are left out of both, so that
 * [N,C,H,W] by [N,C] is H*W at all sizes. */
int64_t onnx_quotient(const onnx_node_t *node, int n, const int64_t *sizes, int n_divisors,
                      const int64_t *divisors);
/* As shape_multiply, shape_equal, shape_broadcast and shape_check; what they decide is a guard. */
bool onnx_multiply(const onnx_node_t *node, int64_t a, int64_t b, int64_t *out_product);
bool onnx_same_sizes(const onnx_node_t *node, int rank_a, const int64_t *a, int rank_b,
                     const int64_t *b);
bool onnx_broadcast(const onnx_node_t *node, int rank_a, const int64_t *a, int rank_b,
                    const int64_t *b, int *out_rank, int64_t *out_sizes);
status_t onnx_check_shape(const onnx_node_t *node, const char *what, dtype_t dtype, int rank,
                          const int64_t *sizes);
/* With the sizes of the first run, for messages; and as info_brief. */
tensor_info_t onnx_hinted(const onnx_node_t *node, const tensor_info_t *info);
const char *onnx_brief(const onnx_node_t *node, const tensor_info_t *info);
/* s64 [n]: 0, 1, .. n - 1, made by calls, so that n may be symbolic. */
status_t onnx_count_up(onnx_node_t *node, int64_t n, item_t *out);

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

/* A builtin of graphs; its result, of which nothing is known, in *out, unless that is NULL. */
status_t onnx_builtin(onnx_node_t *node, const char *name, int n_in, const item_t *in, item_t *out);

/* A sequence of these items, which becomes a list of the graph where that is read. dtype NONE: that
 * of the items. */
status_t onnx_sequence(onnx_node_t *node, dtype_t dtype, int n, const item_t *items, item_t *out);

/* The call that comes next. attrs may be NULL. */
status_t onnx_note(onnx_t *onnx, const onnx_noted_t *call, int *out_call);

/* Puts names in place of sizes -1. */
void onnx_name_sizes(onnx_t *onnx, tensor_info_t *info);

/* Calculates the results of a call whose operands are known or symbols; *out_is_done: that was
 * possible. */
status_t onnx_run_symbols(onnx_t *onnx, int call, bool *out_is_done);

/* Integers of a field of attributes, and one of them. */
int onnx_n_integers(const opdef_t *op, const void *attrs, int field);
int64_t *onnx_integer_at(const opdef_t *op, const void *attrs, int field, int index);

/* The call of this operator that gave an item, run at import or not; NULL: another gave it. */
onnx_noted_t *onnx_call_of(const onnx_t *onnx, item_t item, const char *op_name);

/* Gives up the calls from `first` on. */
void onnx_cut_calls(onnx_t *onnx, int first);

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

/* Pads (input 1, before and after each of these dimensions), bounds and steps of slices (inputs 1,
 * 2 and 4), and the axis of running sums (input 1) that are not known at import. */
status_t onnx_pad_live(onnx_node_t *node, int n, const int64_t *dims, int mode, item_t value);
status_t onnx_slice_live(onnx_node_t *node, int n, const int64_t *dims);
status_t onnx_cumsum_live(onnx_node_t *node, bool is_exclusive, bool is_reverse);

/* Sizes of the spatial dimensions, and the padding that auto_pad or pads ask for. */
typedef struct onnx_window {
    int n;
    int64_t kernel[3], stride[3], dilation[3], begin[3], end[3];
    bool is_same, is_same_lower;
} onnx_window_t;
/* Reads kernel_shape (`kernel` NULL), strides, dilations, pads and auto_pad. */
status_t onnx_window(onnx_node_t *node, const tensor_info_t *x, const int64_t *kernel,
                     onnx_window_t *out_window);

/* The attributes of a convolution. */
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
#endif
