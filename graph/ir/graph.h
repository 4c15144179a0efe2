/* Graphs: the intermediate representation. A graph is made with a builder, by tracing a method, or
 * by parsing text. A printed graph can be parsed again.
 *
 * A graph is in SSA form. Values are numbered, and each is defined once, by a parameter or a node.
 * Nodes are in execution order. `if` and `loop` nodes contain blocks. A finished graph is immutable
 * and reference counted; a pass reads one graph and builds another. Each graph has one arena.
 *
 * The types of the parameters restrict the sizes of the inputs. A number means that only this size
 * is accepted. A name, such as "N", means that any size is accepted, but the same one wherever the
 * name occurs; "N=1" also shows the size at which the graph was made. A method rejects other sizes
 * with INVALID_ARGUMENT, which names the input. Types of other values show the sizes at which the
 * graph was made.
 *
 * The text format (parse.c has the grammar):
 *
 *   graph forward(%self : module, %x : f32[N=1,3,H=224,W=224]) {
 *     %w = getattr(%self) name="conv1.weight" : f32[64,3,7,7]
 *     %1 = conv2d(%x, %w, none) stride=[2,2] padding=[3,3] : f32[1,64,112,112] at "conv1"
 *     return %1
 *   }
 *
 * A kernel that was chosen by measurement is printed before `at`, for example by "winograd_4". */
#ifndef TESSERA_GRAPH_IR_GRAPH_H
#define TESSERA_GRAPH_IR_GRAPH_H

#include "module/module.h"
#include "ops/ops.h"

typedef struct graph graph_t;
typedef struct graph_builder graph_builder_t;
typedef struct sized_attr sized_attr_t;

/* Values are numbers (value_t); VALUE_NONE is the literal none. */

/* ---- types ---- */

typedef enum type_kind {
    TYPE_UNKNOWN, /* not specified */
    TYPE_TENSOR,
    TYPE_INT,
    TYPE_FLOAT,
    TYPE_BOOL,
    TYPE_STRING,
    TYPE_NONE,
    TYPE_MODULE,
    TYPE_LIST,
    TYPE_TUPLE,
    TYPE_DICT
} type_kind_t;

/* The type of a value. has_info is false for a tensor of unknown dtype and sizes, printed `tensor`.
 * A dense tensor prints {strides} only if it is not contiguous. An mkldnn tensor prints @format, or
 * @? if no format has been chosen. */
typedef struct graph_type {
    type_kind_t kind;
    bool is_optional; /* `?` */
    bool has_info;
    tensor_info_t info;
    int n_items; /* TYPE_LIST 1, TYPE_TUPLE n, TYPE_DICT 2 */
    const struct graph_type *items;
    const char *const *dims; /* names of variable sizes; equal names mean equal sizes. info.sizes[d]
                                of a named dimension is the size at which the graph was made
                                ("N=8"), or -1 ("N"). NULL array or entry: no name; size -1 then
                                prints "?" */
} graph_type_t;

/* ---- nodes ---- */

typedef enum node_kind {
    NODE_OP,       /* an operator of the table; uses attrs */
    NODE_CONSTANT, /* uses datum; an inline constant prints as a literal where it is used */
    NODE_GETATTR,  /* input: module or object; name: path relative to it */
    NODE_SETATTR,  /* inputs: module, value; name: path */
    NODE_CALL,     /* inputs: module, arguments; name: method */
    NODE_IF,       /* input: condition; two blocks */
    NODE_LOOP,     /* inputs: trip count, condition, carried values; one block (iteration,
                      carried...) that yields (condition, carried...), as in ONNX Loop */
    NODE_BUILTIN   /* list, tuple, dict, unpack, index, append, len, scalar_add, ...: see name */
} node_kind_t;

typedef struct graph_block graph_block_t;

/* One node. Borrowed from the graph; its arrays are in the graph's arena. */
typedef struct graph_node {
    node_kind_t kind;
    const opdef_t *op;      /* NODE_OP */
    const void *attrs;      /* NODE_OP: struct of op->attrs.bytes bytes, normalised */
    bool is_in_place;       /* "relu_": the result aliases operand 0 */
    bool is_inline;         /* NODE_CONSTANT: printed as a literal where it is used */
    const char *name;       /* getattr, setattr, call, builtin */
    datum_t *datum;         /* NODE_CONSTANT; held by the graph */
    const char *path;       /* path of the traced module, or NULL; printed after `at` */
    const kernel_t *kernel; /* NODE_OP: the kernel that was measured as fastest for the formats in
                               the types; printed after `by`; NULL: chosen when the operator is
                               prepared */
    int n_inputs;
    const value_t *inputs;
    int n_post_inputs; /* number of inputs, at the end, that post-ops use; printed after `;` */
    int n_sized;       /* integers in attrs computed from input sizes; printed after `where` */
    const sized_attr_t *sized;
    int n_outputs;
    const value_t *outputs;
    int n_blocks;
    graph_block_t *const *blocks;
} graph_node_t;

struct graph_block {
    int index; /* index among the graph's blocks; the body is 0 */
    int n_params;
    const value_t *params;
    int n_nodes;
    const graph_node_t *const *nodes;
    int n_results; /* operands of `return` or `yield` */
    const value_t *results;
};

/* ---- queries ---- */

const char *graph_name(const graph_t *graph) TESSERA_API(graph_name);
const graph_block_t *graph_body(const graph_t *graph) TESSERA_API(graph_body);
int graph_n_values(const graph_t *graph) TESSERA_API(graph_n_values);
const char *graph_value_name(const graph_t *graph, value_t value) TESSERA_API(graph_value_name);
const graph_type_t *graph_value_type(const graph_t *graph, value_t value)
    TESSERA_API(graph_value_type);
/* The node that produces a value; NULL for parameters. */
const graph_node_t *graph_producer(const graph_t *graph, value_t value) TESSERA_API(graph_producer);
/* Number of uses of a value: as node input and as block result. */
int graph_n_uses(const graph_t *graph, value_t value) TESSERA_API(graph_n_uses);
/* The datum of a constant; NULL for other values. */
datum_t *graph_constant(const graph_t *graph, value_t value) TESSERA_API(graph_constant);
/* Number of nodes in all blocks. */
int graph_n_nodes(const graph_t *graph) TESSERA_API(graph_n_nodes);

graph_t *graph_retain(graph_t *graph) TESSERA_API(graph_retain);
void graph_release(graph_t *graph) TESSERA_API(graph_release);

/* ---- building: functions return value numbers; graph_finish reports the first failure ---- */

status_t graph_builder_create(context_t *ctx, const char *name, graph_builder_t **out_builder)
    TESSERA_API(graph_builder_create);
void graph_builder_destroy(graph_builder_t *builder) TESSERA_API(graph_builder_destroy);

/* name is a hint; if another value has it, a number is appended. NULL: the value's number is its
 * name. type NULL means unknown. */
value_t graph_add_param(graph_builder_t *builder, const char *name, const graph_type_t *type)
    TESSERA_API(graph_add_param);
value_t graph_add_constant(graph_builder_t *builder, datum_t *datum, const char *name)
    TESSERA_API(graph_add_constant);
/* Adds a constant that prints as a literal. */
value_t graph_add_literal(graph_builder_t *builder, datum_t *datum) TESSERA_API(graph_add_literal);
value_t graph_add_getattr(graph_builder_t *builder, value_t object, const char *path,
                          const graph_type_t *type) TESSERA_API(graph_add_getattr);

/* Adds an operator with one output and infers its type if the input types are known. inputs: the
 * operator's operands, then those of its post-ops. attrs NULL means defaults. */
value_t graph_add_op(graph_builder_t *builder, const opdef_t *op, const void *attrs, int n_inputs,
                     const value_t *inputs, const char *path) TESSERA_API(graph_add_op);
/* Adds an operator with several outputs. */
void graph_add_op_n(graph_builder_t *builder, const opdef_t *op, const void *attrs, int n_inputs,
                    const value_t *inputs, const char *path, int n_outputs, value_t *out_values)
    TESSERA_API(graph_add_op_n);

/* Adds a copy of any node, with other inputs. Outputs become new values. If an entry of types is
 * NULL, it is inferred or unknown. names are hints. Then graph_block_begin adds the node's
 * blocks. */
void graph_add_node(graph_builder_t *builder, const graph_node_t *node, const value_t *inputs,
                    const graph_type_t *const *types, const char *const *names, value_t *out_values)
    TESSERA_API(graph_add_node);

/* Adds the blocks of the last node. For each block in order: begin, parameters, nodes, end. */
void graph_block_begin(graph_builder_t *builder) TESSERA_API(graph_block_begin);
void graph_block_end(graph_builder_t *builder, int n_results, const value_t *results)
    TESSERA_API(graph_block_end);

void graph_set_type(graph_builder_t *builder, value_t value, const graph_type_t *type)
    TESSERA_API(graph_set_type);
const graph_type_t *graph_builder_type(const graph_builder_t *builder, value_t value)
    TESSERA_API(graph_builder_type);
/* The datum of a constant added earlier; NULL for other values. */
datum_t *graph_builder_constant(const graph_builder_t *builder, value_t value)
    TESSERA_API(graph_builder_constant);

/* Makes the builder fail with this status, for which the caller has set the message. Later calls do
 * nothing. */
void graph_builder_fail(graph_builder_t *builder, status_t status) TESSERA_API(graph_builder_fail);

/* Ends the body with its results and returns the graph. Leaves the builder empty. */
status_t graph_finish(graph_builder_t *builder, int n_results, const value_t *results,
                      graph_t **out_graph) TESSERA_API(graph_finish);

/* ---- text ---- */

/* Appends the graph as text. Tensor constants print as $n; each is appended once to `pool`, a list
 * datum. If pool is NULL they print as "$?", which cannot be parsed. An unknown type in a list of
 * types prints as "?". Parsing text printed with a pool makes a graph that prints the same text. */
status_t graph_print(context_t *ctx, const graph_t *graph, datum_t *pool, text_t *text)
    TESSERA_API(graph_print);
/* Parses one graph. $n refers to pool, which may be NULL. Messages begin "line 3, column 9: ". */
status_t graph_parse(context_t *ctx, const char *text, const datum_t *pool, graph_t **out_graph)
    TESSERA_API(graph_parse);
/* Parses the next graph of a text with several, and moves *cursor past it. *out_graph is NULL at
 * the end of the text. Lines are counted from *cursor. */
status_t graph_parse_next(context_t *ctx, const char **cursor, const datum_t *pool,
                          graph_t **out_graph) TESSERA_API(graph_parse_next);

/* ---- checking ---- */

/* Checks that values are defined before use and in scope, that operands and attributes are valid,
 * that types equal inferred ones, and that formats agree. INVALID_ARGUMENT names the node. */
status_t graph_verify(context_t *ctx, const graph_t *graph) TESSERA_API(graph_verify);

/* Appends the guards, separated by commas: "H % 8 == 0, W >= 100". Appends nothing if there are
 * none. */
status_t graph_guards(context_t *ctx, const graph_t *graph, text_t *text) TESSERA_API(graph_guards);

/* ---- methods and running ---- */

/* Adds a graph method to a module. The text has one graph; its name becomes the method's name, and
 * its first parameter is the module. */
status_t graph_define(context_t *ctx, module_t *module, const char *text) TESSERA_API(graph_define);

/* Runs a C method on these inputs, records its operators, and replaces the method by a graph
 * method. The graph reads attributes with getattr nodes. Branches and other decisions that depend
 * on elements are fixed as they were in this run.
 *
 * Then the method runs again at other sizes, on a copy of the module and without computing. These
 * runs are not counted or observed and have no effects. If the graph predicts all of them, sizes
 * become names in the parameter types, and integers computed from sizes become expressions (`where
 * sizes[0]=N`, or `size`). Other sizes stay fixed; the reason is printed as `fixed "..."` after the
 * parameters, and is in messages for rejected inputs and in TESSERA_TRACE=pass. If the method
 * queries sizes (tensor_sizes), dozens of values of each size are tried; a branch that only other
 * sizes take is missed. */
status_t graph_trace(context_t *ctx, module_t *module, const char *method, int n_in,
                     const tensor_t *const *in) TESSERA_API(graph_trace);

/* Like graph_trace, but from dtypes and sizes only: the method runs without computing, on tensors
 * without elements. If the method reads elements, it fails with its own error. */
status_t graph_trace_for(context_t *ctx, module_t *module, const char *method, int n_in,
                         const tensor_info_t *const *infos) TESSERA_API(graph_trace_for);

/* Adds a graph as a method of a module. Retains the graph. */
status_t graph_set_method(context_t *ctx, module_t *module, const char *method, graph_t *graph)
    TESSERA_API(graph_set_method);
/* The graph of a graph method, borrowed; NULL for methods in C. */
graph_t *graph_of(const module_t *module, const char *method) TESSERA_API(graph_of);

/* Interprets a graph. If the first parameter is a module, it is bound to self. Views share memory
 * under every policy. So a value that has views and is written in place becomes dense; if it is an
 * mkldnn input, the dense copy is copied back at the end. UNSUPPORTED if such an mkldnn tensor
 * comes from an attribute or a call. */
status_t graph_run(context_t *ctx, const graph_t *graph, module_t *self, int n_in,
                   datum_t *const *in, int *n_out, datum_t **out) TESSERA_API(graph_run);

/* ---- visualisation ---- */

/* Appends a report on which values may share memory, and which nodes write to it. It has one line
 * for each class of values that may be the same bytes or the same container, in the order of their
 * first values.
 *
 *   [0] %x: input
 *   [1] %w %v: attribute conv.weight; written by %v = add_(%w, 1)
 *   [2] %l: holds [3]; result; written by append(%l, %t)
 *   [3] %t
 *
 * A line shows which other classes the class holds (as a list holds its items), the origin of its
 * memory, and the first node that writes it. An attribute can be frozen if no method writes or sets
 * its class or contents. If an input is written, all inputs of its kind count as sharing memory. */
status_t graph_alias(context_t *ctx, const graph_t *graph, text_t *text) TESSERA_API(graph_alias);

/* Appends the graph in Graphviz format. Colours show layouts; reorders are red. Constants show
 * their format and bytes. Blocks of `if` and `loop` are clusters. */
status_t graph_dot(context_t *ctx, const graph_t *graph, text_t *text) TESSERA_API(graph_dot);

#endif
