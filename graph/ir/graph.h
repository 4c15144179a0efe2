/* Graphs: the IR, made by a builder, by tracing, or from text; printed to text that parses back.
 *
 * A graph is SSA: values are numbered, each is made once, by a parameter or a node, and nodes stand
 * in the order they run. Blocks nest in `if` and `loop`. A graph that is finished is immutable and
 * counted; a pass reads one and builds another. All memory of a graph lies in its arena.
 *
 * The types of the parameters are a contract: a number is that size only, a name ("N", or "N=1"
 * with the size that the graph was made at) any, but one size wherever it stands. A method is run
 * on no other sizes: INVALID_ARGUMENT names the input. Types of values inside are those at the
 * sizes that the graph was made at.
 *
 * The text, of which parse.c has the grammar:
 *
 *   graph forward(%self : module, %x : f32[N=1,3,H=224,W=224]) {
 *     %w = getattr(%self) name="conv1.weight" : f32[64,3,7,7]
 *     %1 = conv2d(%x, %w, none) stride=[2,2] padding=[3,3] : f32[1,64,112,112] at "conv1"
 *     return %1
 *   }
 *
 * Before `at` may stand the kernel that measuring chose: by "winograd_4". */
#ifndef TESSERA_GRAPH_IR_GRAPH_H
#define TESSERA_GRAPH_IR_GRAPH_H

#include "module/module.h"
#include "ops/ops.h"

TESSERA_BEGIN

typedef struct graph graph_t;
typedef struct graph_builder graph_builder_t;
typedef struct sized_attr sized_attr_t;

/* Values are numbers (value_t); VALUE_NONE is the literal none. */

/* ---- types ---- */

typedef enum type_kind {
    TYPE_UNKNOWN, /* not said */
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

/* What is known of a tensor: has_info false is the word `tensor`. Dense infos without gaps print no
 * format, others {strides}; mkldnn ones print @format, @? when not chosen yet. */
typedef struct graph_type {
    type_kind_t kind;
    bool is_optional; /* `?` */
    bool has_info;
    tensor_info_t info;
    int n_items; /* TYPE_LIST 1, TYPE_TUPLE n, TYPE_DICT 2 */
    const struct graph_type *items;
    const char *const *dims; /* names of sizes that may be any, one size wherever a name stands:
                                info.sizes[d] beside a name is the size that the graph was made at,
                                printed "N=8", or -1. NULL and NULL entries: no name; -1 is "?" */
} graph_type_t;

/* ---- nodes ---- */

typedef enum node_kind {
    NODE_OP,       /* an operator of the table; attrs */
    NODE_CONSTANT, /* a datum; inline ones print as a literal in their uses' argument lists */
    NODE_GETATTR,  /* module or object value, name: path below it */
    NODE_SETATTR,  /* module value, value; name */
    NODE_CALL,     /* module value, arguments; name: method */
    NODE_IF,       /* condition; two blocks */
    NODE_LOOP,     /* trip count, condition, carried values; one block (iteration, carried...) that
                      yields (condition, carried...), as ONNX Loop */
    NODE_BUILTIN   /* list, tuple, dict, unpack, index, append, len, scalar_add, ...; name */
} node_kind_t;

typedef struct graph_block graph_block_t;

/* One node. Arrays belong to the graph's arena. Borrowed from the graph. */
typedef struct graph_node {
    node_kind_t kind;
    const opdef_t *op;      /* NODE_OP */
    const void *attrs;      /* NODE_OP: normalised struct of op->attrs.bytes */
    bool is_in_place;       /* "relu_": the result aliases operand 0 */
    bool is_inline;         /* NODE_CONSTANT: written in place of its name */
    const char *name;       /* getattr, setattr, call, builtin */
    datum_t *datum;         /* NODE_CONSTANT; held by the graph */
    const char *path;       /* module path this came from, or NULL: `at` */
    const kernel_t *kernel; /* NODE_OP: the one of op->kernels that was measured to be fastest, in
                               the formats of the types: `by`; NULL: selection chooses */
    int n_inputs;
    const value_t *inputs;
    int n_post_inputs; /* the last ones of inputs: operands of post-ops, printed after `;` */
    int n_sized;       /* integers of attrs that follow the sizes of inputs, printed `where` */
    const sized_attr_t *sized;
    int n_outputs;
    const value_t *outputs;
    int n_blocks;
    graph_block_t *const *blocks;
} graph_node_t;

struct graph_block {
    int index; /* among the blocks of the graph, of which the body is 0 */
    int n_params;
    const value_t *params;
    int n_nodes;
    const graph_node_t *const *nodes;
    int n_results; /* of return or yield */
    const value_t *results;
};

/* ---- asking ---- */

const char *graph_name(const graph_t *graph) TESSERA_API(graph_name);
const graph_block_t *graph_body(const graph_t *graph) TESSERA_API(graph_body);
int graph_n_values(const graph_t *graph) TESSERA_API(graph_n_values);
const char *graph_value_name(const graph_t *graph, value_t value) TESSERA_API(graph_value_name);
const graph_type_t *graph_value_type(const graph_t *graph, value_t value)
    TESSERA_API(graph_value_type);
/* The node that makes a value; NULL for parameters. */
const graph_node_t *graph_producer(const graph_t *graph, value_t value) TESSERA_API(graph_producer);
/* How often a value is used: as input of nodes and as result of blocks. */
int graph_n_uses(const graph_t *graph, value_t value) TESSERA_API(graph_n_uses);
/* The datum of a value that is a constant, or NULL. */
datum_t *graph_constant(const graph_t *graph, value_t value) TESSERA_API(graph_constant);
/* Nodes in all blocks. */
int graph_n_nodes(const graph_t *graph) TESSERA_API(graph_n_nodes);

graph_t *graph_retain(graph_t *graph) TESSERA_API(graph_retain);
void graph_release(graph_t *graph) TESSERA_API(graph_release);

/* ---- building: values come out as numbers; the first failure is kept and given by finish ---- */

status_t graph_builder_create(context_t *ctx, const char *name, graph_builder_t **out_builder)
    TESSERA_API(graph_builder_create);
void graph_builder_destroy(graph_builder_t *builder) TESSERA_API(graph_builder_destroy);

/* Names are hints: a taken one gets a number. NULL: a number alone. type NULL: unknown. */
value_t graph_add_param(graph_builder_t *builder, const char *name, const graph_type_t *type)
    TESSERA_API(graph_add_param);
value_t graph_add_constant(graph_builder_t *builder, datum_t *datum, const char *name)
    TESSERA_API(graph_add_constant);
/* A constant that prints as a literal. */
value_t graph_add_literal(graph_builder_t *builder, datum_t *datum) TESSERA_API(graph_add_literal);
value_t graph_add_getattr(graph_builder_t *builder, value_t object, const char *path,
                          const graph_type_t *type) TESSERA_API(graph_add_getattr);

/* An operator with one output: infers its type where the inputs' infos are known. inputs, then
 * operands of post-ops. attrs NULL: defaults. */
value_t graph_add_op(graph_builder_t *builder, const opdef_t *op, const void *attrs, int n_inputs,
                     const value_t *inputs, const char *path) TESSERA_API(graph_add_op);
/* The same with several outputs. */
void graph_add_op_n(graph_builder_t *builder, const opdef_t *op, const void *attrs, int n_inputs,
                    const value_t *inputs, const char *path, int n_outputs, value_t *out_values)
    TESSERA_API(graph_add_op_n);

/* Any node: a copy of `node` with these inputs; outputs get new values of the given types (NULL:
 * inferred or unknown), named as `names` hints. Blocks are opened by graph_block_begin after. */
void graph_add_node(graph_builder_t *builder, const graph_node_t *node, const value_t *inputs,
                    const graph_type_t *const *types, const char *const *names, value_t *out_values)
    TESSERA_API(graph_add_node);

/* Blocks of the node added last: begin, params, nodes, end with results; in order. */
void graph_block_begin(graph_builder_t *builder) TESSERA_API(graph_block_begin);
void graph_block_end(graph_builder_t *builder, int n_results, const value_t *results)
    TESSERA_API(graph_block_end);

void graph_set_type(graph_builder_t *builder, value_t value, const graph_type_t *type)
    TESSERA_API(graph_set_type);
const graph_type_t *graph_builder_type(const graph_builder_t *builder, value_t value)
    TESSERA_API(graph_builder_type);
/* The datum of a value already added that is a constant, or NULL. */
datum_t *graph_builder_constant(const graph_builder_t *builder, value_t value)
    TESSERA_API(graph_builder_constant);

/* A failure found by who builds: the message is in the context; later calls do nothing. */
void graph_builder_fail(graph_builder_t *builder, status_t status) TESSERA_API(graph_builder_fail);

/* Ends the body with what it returns and gives the graph; the builder is empty after. */
status_t graph_finish(graph_builder_t *builder, int n_results, const value_t *results,
                      graph_t **out_graph) TESSERA_API(graph_finish);

/* ---- text ---- */

/* Constants that are tensors print as $n and are put in `pool` (a list datum), each once; as "$?",
 * which cannot be read back, when it is NULL. Where several types stand in a row, "?" alone is one
 * not known. What was printed with a pool reads back to the same text. */
status_t graph_print(context_t *ctx, const graph_t *graph, datum_t *pool, text_t *text)
    TESSERA_API(graph_print);
/* Reads one graph; $n is taken from the pool (may be NULL). Messages begin "line 3, column 9: ". */
status_t graph_parse(context_t *ctx, const char *text, const datum_t *pool, graph_t **out_graph)
    TESSERA_API(graph_parse);
/* The same on a text of several graphs: *cursor moves behind the one read; NULL graph at the end.
 * Lines are counted from *cursor. */
status_t graph_parse_next(context_t *ctx, const char **cursor, const datum_t *pool,
                          graph_t **out_graph) TESSERA_API(graph_parse_next);

/* ---- checking ---- */

/* Values made before use and in scope, arity, types of operands, attributes, inferred shapes equal
 * to those said, every edge's format what its reader's type says. INVALID_ARGUMENT names the node.
 */
status_t graph_verify(context_t *ctx, const graph_t *graph) TESSERA_API(graph_verify);

/* Appends the guards, with commas between: "H % 8 == 0, W >= 100"; nothing where there are none. */
status_t graph_guards(context_t *ctx, const graph_t *graph, text_t *text) TESSERA_API(graph_guards);

/* ---- methods and running ---- */

/* Makes a method of a module from text, as if it were written in C; the text's graph gives the
 * name. Its first parameter is the module. */
status_t graph_define(context_t *ctx, module_t *module, const char *text) TESSERA_API(graph_define);

/* Runs a C method on these inputs, records the operators, and puts a graph method in its place.
 * Attributes stay getattr; what depends on elements, a branch above all, is baked in.
 *
 * Then the method is run again, without computing, at other sizes of its inputs, on a copy of the
 * module: nothing of this is counted, observed or left behind. Sizes at which the graph foretells
 * each of these runs get a name in the types of its parameters; literals that came from such sizes
 * follow them (`where sizes[0]=N`, or `size`). Other sizes stay numbers, and `fixed "..."` behind
 * the parameters, the messages of inputs that are refused and TESSERA_TRACE=pass say why. A method
 * that asks for sizes (tensor_sizes and its like) is run at some fifty of each: a branch on a size
 * that none of them meets is not seen. */
status_t graph_trace(context_t *ctx, module_t *module, const char *method, int n_in,
                     const tensor_t *const *in) TESSERA_API(graph_trace);

/* The same from the dtypes and sizes of the inputs alone: the method runs without computing, on
 * tensors that have no elements. A method that reads elements fails as it says itself. */
status_t graph_trace_for(context_t *ctx, module_t *module, const char *method, int n_in,
                         const tensor_info_t *const *infos) TESSERA_API(graph_trace_for);

/* Makes a graph a method; the graph is retained. */
status_t graph_set_method(context_t *ctx, module_t *module, const char *method, graph_t *graph)
    TESSERA_API(graph_set_method);
/* The graph of a method that runs one, borrowed; NULL for methods in C. */
graph_t *graph_of(const module_t *module, const char *method) TESSERA_API(graph_of);

/* Interprets a graph: self is bound to the first parameter when that is of type module. Views share
 * bytes under every policy: what is written in place and has views is dense, and goes back into an
 * mkldnn input at the end. UNSUPPORTED for an mkldnn tensor of an attribute or a call. */
status_t graph_run(context_t *ctx, const graph_t *graph, module_t *self, int n_in,
                   datum_t *const *in, int *n_out, datum_t **out) TESSERA_API(graph_run);

/* ---- pictures ---- */

/* What may share memory, and what writes it: one line for each class of values that may be the same
 * bytes or the same container, in the order of their first values.
 *
 *   [0] %x: input
 *   [1] %w %v: attribute conv.weight; written by %v = add_(%w, 1)
 *   [2] %l: holds [3]; result; written by append(%l, %t)
 *   [3] %t
 *
 * A line says what the class holds, where its memory comes from, and the first node that writes it.
 * An attribute is frozen when neither its class nor what that holds is written or set in any
 * method. Inputs of one kind may share memory when one of them is written. */
status_t graph_alias(context_t *ctx, const graph_t *graph, text_t *text) TESSERA_API(graph_alias);

/* For Graphviz: a colour for each kind of layout, reorders red, constants with format and bytes,
 * blocks of if and loop as clusters. */
status_t graph_dot(context_t *ctx, const graph_t *graph, text_t *text) TESSERA_API(graph_dot);

TESSERA_END

#endif
