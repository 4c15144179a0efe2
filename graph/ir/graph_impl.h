/* The inside of graphs: storage, limits, types, the table of builtins. */
#ifndef TESSERA_GRAPH_IR_GRAPH_IMPL_H
#define TESSERA_GRAPH_IR_GRAPH_IMPL_H

#include <stdatomic.h>

#include "graph/ir/graph.h"
#include "tensor/status_impl.h"
#include "tensor/sym.h"

/* Blocks in blocks; types in types and literals in literals; entries of a dict literal. The builder
 * refuses what the parser would, so that every graph can be read back. */
#define GRAPH_MAX_DEPTH 64
#define GRAPH_MAX_NESTING 32
#define GRAPH_MAX_DICT 1024

/* Parts of an inferred type: tuples of tuples of the same value would grow without end. */
#define GRAPH_MAX_PARTS 64

/* ---- storage ---- */

typedef struct value_record {
    const char *name;
    const graph_type_t *type; /* never NULL */
    const graph_node_t *producer;
    int n_uses;
} value_record_t;

/* Chunks of memory that are released together. */
typedef struct arena_chunk {
    struct arena_chunk *next;
    size_t used, bytes;
} arena_chunk_t;

/* A datum that the graph holds; a list in the arena. */
typedef struct held_datum {
    struct held_datum *next;
    datum_t *datum;
} held_datum_t;

/* What an analysis found about a graph, kept with it so that all who ask borrow the same. `kind` is
 * an address that says which analysis; the block is of the graph's allocator. */
typedef struct graph_analysis {
    struct graph_analysis *next;
    const void *kind;
} graph_analysis_t;

struct graph {
    _Atomic(graph_analysis_t *) analyses; /* put in front, never taken out */
    atomic_int n_references;
    allocator_t allocator;
    arena_chunk_t *chunks;
    held_datum_t *held;
    const char *name;
    const char *fixed;  /* why sizes are fixed that could have varied; NULL: nothing to say */
    sym_space_t *space; /* of sized integers, and the guards; NULL: there are none. Shared by the
                           graphs that passes make of this one */
    const graph_block_t *body;
    int n_values, n_nodes, n_blocks;
    value_record_t *values;
};

/* An empty graph with one reference, which the builder fills. */
status_t graph_make(context_t *ctx, graph_t **out_graph);

/* Bytes that end with the graph, without its constants. */
size_t graph_bytes(const graph_t *graph);

/* The graph holds this space from now on; it had none. */
void graph_set_space(graph_t *graph, sym_space_t *space);
/* The space of a graph that is built, made at the first call. Borrowed. */
status_t graph_space(context_t *ctx, graph_t *graph, sym_space_t **out_space);

/* Checks the guards at the sizes of these inputs, as many as graph_check_inputs takes:
 * INVALID_ARGUMENT names the first that does not hold, and the node that it comes from. */
status_t graph_check_guards(context_t *ctx, const graph_t *graph, const tensor_info_t *const *in);

/* Memory that lives as long as the graph, aligned to 16 bytes. Zero bytes give a valid pointer. */
status_t graph_get(context_t *ctx, graph_t *graph, size_t bytes, void *out_block);
status_t graph_string(context_t *ctx, graph_t *graph, const char *text, const char **out_text);

/* The graph retains the datum until its end. */
status_t graph_hold(context_t *ctx, graph_t *graph, datum_t *datum);

/* The analysis of this kind that the graph keeps, or NULL. */
const graph_analysis_t *graph_find_analysis(const graph_t *graph, const void *kind);
/* Takes over a block of the graph's allocator. When another thread kept one of this kind before,
 * the block is freed. Gives the one that is kept. */
const graph_analysis_t *graph_keep_analysis_take(const graph_t *graph, graph_analysis_t *analysis);

/* What stands before the parenthesis in text, but for a trailing _. */
const char *graph_node_word(const graph_node_t *node);

/* ---- the builder's side door, for the parser ---- */

/* The node added last; its path and flags may be set until the next is added. */
graph_node_t *graph_builder_last(graph_builder_t *builder);
status_t graph_builder_set_path(graph_builder_t *builder, graph_node_t *node, const char *path);
status_t graph_builder_status(const graph_builder_t *builder);
int graph_builder_n_values(const graph_builder_t *builder);
graph_t *graph_builder_graph(graph_builder_t *builder);
/* What the graph's `fixed` says. */
status_t graph_builder_set_fixed(graph_builder_t *builder, const char *reason);
/* Blocks that are open below the body. */
int graph_builder_depth(const graph_builder_t *builder);
/* The value of exactly this name, which need not end in a zero byte; VALUE_NONE if there is none.
 */
value_t graph_builder_find(const graph_builder_t *builder, const char *name, size_t length);

/* The name that a value was made with; NULL for one that is numbered in the end. */
const char *graph_builder_name(const graph_builder_t *builder, value_t value);

/* Operands of the post-ops in these attributes. */
int graph_n_post(const opdef_t *op, const void *attrs);

/* What an operator infers from operands of these types; *out_n is 0 when a type is not known well
 * enough. out has room for OP_MAX_OUTPUTS. */
status_t graph_infer(context_t *ctx, const opdef_t *op, const void *attrs, int n_in,
                     const graph_type_t *const *in, int *out_n, tensor_info_t *out);

/* The transitions between layouts, which the layout pass writes and plans turn into steps. */
bool graph_is_conversion(const opdef_t *op);

/* ---- builtins ---- */

typedef enum builtin_rule {
    BUILTIN_UNKNOWN,
    BUILTIN_INT,
    BUILTIN_FLOAT,
    BUILTIN_BOOL,
    BUILTIN_SHAPE,    /* of a tensor: s64[rank] */
    BUILTIN_TENSOR,   /* a tensor of which no more is known */
    BUILTIN_NUMBER,   /* float if an operand is, int if none is */
    BUILTIN_LIST,     /* of the operands' common type */
    BUILTIN_TUPLE,    /* of the operands' types */
    BUILTIN_DICT,     /* of key, value, key, value, ... */
    BUILTIN_ITEM,     /* an item of a list, tuple or dict */
    BUILTIN_ITEMS,    /* all items of a tuple or list */
    BUILTIN_SAME,     /* as operand 0 */
    BUILTIN_INSERTED, /* a list as operand 0, of operand 1's type as well */
} builtin_rule_t;

typedef struct builtin {
    const char *name;
    int min_inputs;
    int max_inputs; /* -1: any number */
    int n_outputs;  /* -1: varies */
    builtin_rule_t rule;
} builtin_t;

/* Scalars are int, float and bool; scalar_div gives float, scalar_floordiv and scalar_mod round as
 * Python's. `append` changes its list and gives nothing. `unpack` gives the items of a tuple or
 * list, `index` one by its number or key, negative numbers from the end. `insert` and `erase` give
 * a new list: with an item before a place (none: behind the last one), without the item at a place.
 * `element` gives its operand, which shall not be none. `join` makes one tensor of those in a list,
 * as concat along a dimension does, `stack` along a dimension of its own; a third operand is what
 * they give of an empty list. `fail` gives nothing: it
 * is an error with the words of a string. `shape` gives the sizes of a tensor, `size` that of one
 * dimension, negative dimensions from the end. */
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

/* NULL when there is none of this name. */
const builtin_t *graph_builtin(const char *name);

/* ---- types ---- */

/* The type of this kind and no more; static. */
const graph_type_t *type_plain(type_kind_t kind);

/* A deep copy in the graph's arena. INVALID_ARGUMENT when it is nested too deep. */
status_t type_copy(context_t *ctx, graph_t *graph, const graph_type_t *type,
                   const graph_type_t **out_type);

/* A tensor's; numbers become ordinary rank 0 tensors. */
status_t type_of_info(context_t *ctx, graph_t *graph, const tensor_info_t *info,
                      const graph_type_t **out_type);

/* A list, tuple or dict of these; unknown when it would have too many parts. */
status_t type_of_items(context_t *ctx, graph_t *graph, type_kind_t kind, int n,
                       const graph_type_t *const *items, const graph_type_t **out_type);

/* A constant's. INVALID_ARGUMENT for one that has no text: nested too deep, or too many keys. */
status_t type_of_datum(context_t *ctx, graph_t *graph, const datum_t *datum,
                       const graph_type_t **out_type);

/* What a builtin gives; out_types has room for n_out. */
status_t type_of_builtin(context_t *ctx, graph_t *graph, const builtin_t *builtin, int n_in,
                         const graph_type_t *const *in, int n_out, const graph_type_t **out_types);

/* A type that holds values of both; unknown when there is none better. */
status_t type_join(context_t *ctx, graph_t *graph, const graph_type_t *a, const graph_type_t *b,
                   const graph_type_t **out_type);

/* What a loop's block takes as its index-th parameter, when that is not said: the iteration, an
 * int, or what was carried in as `carried`, of which only the kind is sure. */
const graph_type_t *type_carried(int index, const graph_type_t *carried);

/* Same in all that is said. */
bool type_equal(const graph_type_t *a, const graph_type_t *b);

/* False when no value is of both types; what is not said fits anything. out_formats_only is set
 * when nothing but layout or format keeps them apart; may be NULL. */
bool type_fits(const graph_type_t *a, const graph_type_t *b, bool *out_formats_only);

/* At most GRAPH_MAX_PARTS parts. */
bool type_is_small(const graph_type_t *type);

/* A tensor of which dtype and every size are said. */
bool type_is_static(const graph_type_t *type);

/* As in the grammar; unknown parts print "?". */
void type_print(const graph_type_t *type, text_t *text);

/* The same graph with this reason, "": none, why it holds for fixed sizes. */
status_t graph_with_reason(context_t *ctx, const graph_t *graph, const char *reason,
                           graph_t **out_graph);

/* True where any size may stand: one not said, or a name. */
bool type_is_open(const graph_type_t *type, int dim);

/* The name of a dimension, or NULL. */
const char *type_dim_name(const graph_type_t *type, int dim);

/* Parameters before the first input: 1 when the first of them is the module. */
int graph_first_input(const graph_t *graph);

/* Whether the graph is true for inputs of these infos: dtype, rank and numbers as its parameters'
 * types say, and one size wherever a name stands. in[i] NULL: no tensor, not looked at.
 * INVALID_ARGUMENT names the input. */
status_t graph_check_inputs(context_t *ctx, const graph_t *graph, int n_in,
                            const tensor_info_t *const *in);
/* The same as an answer, without a message. */
bool graph_accepts(const graph_t *graph, int n_in, const tensor_info_t *const *in);

/* True when both have as many inputs and results, and inputs of the same dtypes and ranks. */
bool graph_is_alike(const graph_t *a, const graph_t *b);

/* True when inputs of these types, one for each, are sure to pass graph_check_inputs: an input of
 * type `tensor` is not, where the graph was made for f32[2,4]. */
bool graph_takes(const graph_t *graph, const graph_type_t *const *given);

/* The graph with all types inferred anew, from tensor parameters that in order have these infos; or
 * NULL: as they were, and the very same graph if it has no blocks. */
status_t graph_retype(context_t *ctx, const graph_t *graph, const tensor_info_t *infos,
                      graph_t **out_graph);

/* True if it has an if or a loop. */
bool graph_has_blocks(const graph_t *graph);

/* ---- printing ---- */

/* The node's line, without blocks, newline and indent, for messages and pictures. */
void graph_print_node(const graph_t *graph, const graph_node_t *node, text_t *text);

#endif
