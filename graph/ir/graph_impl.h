/* Internals of graphs: storage, limits, types, builtins.
 *
 * The folder graph/ir contains the data structure of graphs: values, types, sizes, text, and the
 * functions that rewrite a graph. */
#ifndef TESSERA_GRAPH_IR_GRAPH_IMPL_H
#define TESSERA_GRAPH_IR_GRAPH_IMPL_H

#include <stdatomic.h>

#include "graph/ir/graph.h"
#include "tensor/status_impl.h"
#include "tensor/sym/sym.h"

/* Limits on nested blocks, on nested types and literals, and on entries of a dict literal. The
 * builder and the parser have the same limits, so that every graph can be parsed back. */
#define GRAPH_MAX_DEPTH 64
#define GRAPH_MAX_NESTING 32
#define GRAPH_MAX_DICT 1024

/* Limit on the parts of an inferred type: the type itself and all types nested in it. Without a
 * limit, a loop that nests tuples would infer ever larger types. */
#define GRAPH_MAX_PARTS 64

/* ---- storage ---- */

typedef struct value_record {
    const char *name;
    const graph_type_t *type; /* never NULL */
    const graph_node_t *producer;
    int n_uses;
} value_record_t;

/* A chunk of the graph's arena. */
typedef struct arena_chunk {
    struct arena_chunk *next;
    size_t used, bytes;
} arena_chunk_t;

/* A datum that the graph retains; an entry of a linked list in the arena. */
typedef struct held_datum {
    struct held_datum *next;
    datum_t *datum;
} held_datum_t;

/* The result of an analysis, which the graph caches for all users. `kind` is an address that
 * identifies the analysis. The graph frees the struct with its allocator. */
typedef struct graph_analysis {
    struct graph_analysis *next;
    const void *kind;
} graph_analysis_t;

struct graph {
    _Atomic(graph_analysis_t *) analyses; /* prepended, never removed */
    atomic_int n_references;
    allocator_t allocator;
    arena_chunk_t *chunks;
    held_datum_t *held;
    const char *name;
    const char *fixed;  /* reason why sizes are fixed that could vary; NULL: none */
    sym_space_t *space; /* the graph's symbolic integers and guards (tensor/sym/sym.h), or NULL;
                           shared with graphs that passes make from this one */
    const graph_block_t *body;
    int n_values, n_nodes, n_blocks;
    value_record_t *values;
};

/* Creates an empty graph with one reference, for the builder to fill. */
status_t graph_make(context_t *ctx, graph_t **out_graph);

/* The bytes that graph_release frees, apart from constants. */
size_t graph_bytes(const graph_t *graph);

/* Sets the graph's symbol space. The graph must not have one yet. */
void graph_set_space(graph_t *graph, sym_space_t *space);
/* The symbol space of a graph under construction, created on first use. Borrowed. */
status_t graph_space(context_t *ctx, graph_t *graph, sym_space_t **out_space);

/* Checks the guards for these inputs; `in` is an array as for graph_check_inputs.
 * INVALID_ARGUMENT names the first violated guard and the node that added it. */
status_t graph_check_guards(context_t *ctx, const graph_t *graph, const tensor_info_t *const *in);

/* Allocates in the arena, aligned to 16 bytes. For 0 bytes the pointer is not NULL. */
status_t graph_get(context_t *ctx, graph_t *graph, size_t bytes, void *out_block);
status_t graph_string(context_t *ctx, graph_t *graph, const char *text, const char **out_text);

/* Retains the datum until the graph is freed. */
status_t graph_hold(context_t *ctx, graph_t *graph, datum_t *datum);

/* The cached analysis of this kind, or NULL. */
const graph_analysis_t *graph_find_analysis(const graph_t *graph, const void *kind);
/* Caches an analysis that was allocated with the graph's allocator; takes ownership. Returns the
 * cached analysis: if another thread was first, frees this one and returns the other thread's. */
const graph_analysis_t *graph_keep_analysis_take(const graph_t *graph, graph_analysis_t *analysis);

/* The name of a node's operation, such as "conv2d". For a node that works in place, the printed
 * text has a `_` after it. */
const char *graph_node_word(const graph_node_t *node);

/* ---- internal builder functions, for the parser ---- */

/* The last node. The caller may set its path and flags until the next node is added. */
graph_node_t *graph_builder_last(graph_builder_t *builder);
status_t graph_builder_set_path(graph_builder_t *builder, graph_node_t *node, const char *path);
status_t graph_builder_status(const graph_builder_t *builder);
int graph_builder_n_values(const graph_builder_t *builder);
graph_t *graph_builder_graph(graph_builder_t *builder);
/* Sets the graph's `fixed` reason. */
status_t graph_builder_set_fixed(graph_builder_t *builder, const char *reason);
/* Number of open blocks that are nested in the body; 0: the body itself is being built. */
int graph_builder_depth(const graph_builder_t *builder);
/* The value with exactly this name, or VALUE_NONE. The name need not be NUL-terminated. */
value_t graph_builder_find(const graph_builder_t *builder, const char *name, size_t length);

/* The name with which a value was added; NULL if it was added without one and gets a number. */
const char *graph_builder_name(const graph_builder_t *builder, value_t value);

/* Number of operands of the post-ops in these attributes. */
int graph_n_post(const opdef_t *op, const void *attrs);

/* Infers an operator's outputs from operand types. *out_n is 0 if the types do not suffice. out has
 * OP_MAX_OUTPUTS entries. */
status_t graph_infer(context_t *ctx, const opdef_t *op, const void *attrs, int n_in,
                     const graph_type_t *const *in, int *out_n, tensor_info_t *out);

/* True for operators that convert layouts, which the layout pass inserts. */
bool graph_is_conversion(const opdef_t *op);

/* ---- builtins ---- */

typedef enum builtin_rule {
    BUILTIN_UNKNOWN,
    BUILTIN_INT,
    BUILTIN_FLOAT,
    BUILTIN_BOOL,
    BUILTIN_SHAPE,    /* sizes of a tensor: s64[rank] */
    BUILTIN_TENSOR,   /* a tensor, no dtype or sizes */
    BUILTIN_NUMBER,   /* float if an operand is float, else int */
    BUILTIN_LIST,     /* its items have the operands' common type */
    BUILTIN_TUPLE,    /* its items have the operands' types */
    BUILTIN_DICT,     /* operands are key, value, key, value, ... */
    BUILTIN_ITEM,     /* one item of a list, tuple or dict */
    BUILTIN_ITEMS,    /* all items of a tuple or list */
    BUILTIN_SAME,     /* the type of operand 0 */
    BUILTIN_INSERTED, /* a list; its item type includes operand 0's items and operand 1 */
} builtin_rule_t;

typedef struct builtin {
    const char *name;
    int min_inputs;
    int max_inputs; /* -1: any number */
    int n_outputs;  /* -1: varies */
    builtin_rule_t rule;
} builtin_t;

/* Scalars are int, float and bool. scalar_div returns float; scalar_floordiv and scalar_mod round
 * as in Python.
 *   append   appends an item to a list; no result
 *   unpack   all items of a tuple or list
 *   index    one item, by number or key; negative numbers count from the end
 *   insert   a new list with an item before a position (none: at the end)
 *   erase    a new list without the item at a position
 *   element  its operand, which must not be none
 *   join     one tensor from a list, as concat along a dimension
 *   stack    one tensor from a list, along a new dimension; join and stack take a third operand,
 *            the result for an empty list
 *   fail     fails with the string as message; no result
 *   shape    the sizes of a tensor
 *   size     one size; negative dimensions count from the end */
#define GRAPH_BUILTINS(BUILTIN)                                                                    \
    BUILTIN(list, 0, -1, 1, LIST)                                                                  \
    BUILTIN(tuple, 0, -1, 1, TUPLE)                                                                \
    BUILTIN(dict, 0, -1, 1, DICT)                                                                  \
    BUILTIN(unpack, 1, 1, -1, ITEMS)                                                               \
    BUILTIN(index, 2, 2, 1, ITEM)                                                                  \
    BUILTIN(append, 2, 2, 0, UNKNOWN)                                                              \
    BUILTIN(len, 1, 1, 1, INT)                                                                     \
    BUILTIN(insert, 3, 3, 1, INSERTED)                                                             \
    BUILTIN(erase, 2, 2, 1, SAME)                                                                  \
    BUILTIN(element, 1, 1, 1, UNKNOWN)                                                             \
    BUILTIN(join, 2, 3, 1, TENSOR)                                                                 \
    BUILTIN(stack, 2, 3, 1, TENSOR)                                                                \
    BUILTIN(fail, 1, 1, 1, UNKNOWN)                                                                \
    BUILTIN(shape, 1, 1, 1, SHAPE)                                                                 \
    BUILTIN(size, 2, 2, 1, INT)                                                                    \
    BUILTIN(scalar_add, 2, 2, 1, NUMBER)                                                           \
    BUILTIN(scalar_sub, 2, 2, 1, NUMBER)                                                           \
    BUILTIN(scalar_mul, 2, 2, 1, NUMBER)                                                           \
    BUILTIN(scalar_div, 2, 2, 1, FLOAT)                                                            \
    BUILTIN(scalar_floordiv, 2, 2, 1, NUMBER)                                                      \
    BUILTIN(scalar_mod, 2, 2, 1, NUMBER)                                                           \
    BUILTIN(scalar_neg, 1, 1, 1, NUMBER)                                                           \
    BUILTIN(scalar_eq, 2, 2, 1, BOOL)                                                              \
    BUILTIN(scalar_ne, 2, 2, 1, BOOL)                                                              \
    BUILTIN(scalar_lt, 2, 2, 1, BOOL)                                                              \
    BUILTIN(scalar_le, 2, 2, 1, BOOL)                                                              \
    BUILTIN(scalar_gt, 2, 2, 1, BOOL)                                                              \
    BUILTIN(scalar_ge, 2, 2, 1, BOOL)                                                              \
    BUILTIN(scalar_and, 2, 2, 1, BOOL)                                                             \
    BUILTIN(scalar_or, 2, 2, 1, BOOL)                                                              \
    BUILTIN(scalar_not, 1, 1, 1, BOOL)

/* The builtin of this name, or NULL. */
const builtin_t *graph_builtin(const char *name);

/* ---- types ---- */

/* The type of this kind with nothing else specified (no dtype, sizes or items); a static object. */
const graph_type_t *type_plain(type_kind_t kind);

/* Deep copy into the graph's arena. INVALID_ARGUMENT if it is nested too deep. */
status_t type_copy(context_t *ctx, graph_t *graph, const graph_type_t *type,
                   const graph_type_t **out_type);

/* The type of a tensor. A number has the type of a tensor of rank 0. */
status_t type_of_info(context_t *ctx, graph_t *graph, const tensor_info_t *info,
                      const graph_type_t **out_type);

/* The type of a list, tuple or dict of these items; unknown if it has too many parts. */
status_t type_of_items(context_t *ctx, graph_t *graph, type_kind_t kind, int n,
                       const graph_type_t *const *items, const graph_type_t **out_type);

/* The type of a constant. INVALID_ARGUMENT if it cannot be printed: nested too deep, or too many
 * keys. */
status_t type_of_datum(context_t *ctx, graph_t *graph, const datum_t *datum,
                       const graph_type_t **out_type);

/* The output types of a builtin; out_types has n_out entries. */
status_t type_of_builtin(context_t *ctx, graph_t *graph, const builtin_t *builtin, int n_in,
                         const graph_type_t *const *in, int n_out, const graph_type_t **out_types);

/* A type to which the values of both types belong; unknown if their kinds differ. */
status_t type_join(context_t *ctx, graph_t *graph, const graph_type_t *a, const graph_type_t *b,
                   const graph_type_t **out_type);

/* Default type of parameter `index` of a loop's block. Parameter 0, the iteration, is int. The
 * others are values that each iteration passes to the next one; `carried` is the type of the first
 * value, of which only the kind is used. */
const graph_type_t *type_carried(int index, const graph_type_t *carried);

/* True if both types are equal, including their unspecified parts. */
bool type_equal(const graph_type_t *a, const graph_type_t *b);

/* False if no value can have both types; unspecified parts match anything. *out_formats_only, if
 * not NULL, is set if the types conflict only in layouts or formats. */
bool type_fits(const graph_type_t *a, const graph_type_t *b, bool *out_formats_only);

/* True if the type has at most GRAPH_MAX_PARTS parts. */
bool type_is_small(const graph_type_t *type);

/* True for a tensor with known dtype and sizes. */
bool type_is_static(const graph_type_t *type);

/* Prints a type as in the grammar; unknown parts print "?". */
void type_print(const graph_type_t *type, text_t *text);

/* Returns the graph with a reason why its sizes are fixed, or the unchanged graph if `reason` is
 * "". */
status_t graph_with_reason(context_t *ctx, const graph_t *graph, const char *reason,
                           graph_t **out_graph);

/* True if the dimension may have any size: unspecified or named. */
bool type_is_open(const graph_type_t *type, int dim);

/* The name of a dimension, or NULL. */
const char *type_dim_name(const graph_type_t *type, int dim);

/* Index of the parameter for the first input: 1 if parameter 0 is the module, else 0. */
int graph_first_input(const graph_t *graph);

/* Checks that the graph is valid for these inputs: dtypes, ranks and fixed sizes match the
 * parameters, and equal names have equal sizes. in[i] is NULL if input i is not a tensor, which is
 * not checked.
 * INVALID_ARGUMENT names the input. */
status_t graph_check_inputs(context_t *ctx, const graph_t *graph, int n_in,
                            const tensor_info_t *const *in);
/* The same check as a predicate, without a message. */
bool graph_accepts(const graph_t *graph, int n_in, const tensor_info_t *const *in);

/* True if both graphs have as many inputs and results, and inputs of the same dtypes and ranks. */
bool graph_is_alike(const graph_t *a, const graph_t *b);

/* True if inputs of these types always pass graph_check_inputs; given[i] is the type of input i.
 * Example: false for type `tensor` if the graph needs f32[2,4]. */
bool graph_takes(const graph_t *graph, const graph_type_t *const *given);

/* Infers all types again. infos: one for each input, used for tensors. If infos is NULL, parameters
 * keep their types, and a graph without blocks is returned unchanged. */
status_t graph_retype(context_t *ctx, const graph_t *graph, const tensor_info_t *infos,
                      graph_t **out_graph);

/* True if the graph has an `if` or a `loop`. */
bool graph_has_blocks(const graph_t *graph);

/* ---- printing ---- */

/* Prints a node as one line, without blocks, newline and indentation, for messages and for
 * graph_dot. */
void graph_print_node(const graph_t *graph, const graph_node_t *node, text_t *text);

#endif
