/* Definition of an operator: data that dispatch, graph passes, importers and tests read. You can
 * define your own operators, which are run (dispatch_run), traced, compiled and frozen like the
 * built-in ones (examples/own_operator.c). Only graph_parse and files are limited to built-in
 * operators. A definition, and everything it points to, must outlive all contexts and graphs that
 * use it.
 *
 * An operator has a function that infers its outputs; an ordered list of kernels (implementations),
 * each of which may decline a call with a reason; and a specification, a function that computes one
 * output element naively in double. It also says which layout it prefers. Dispatch selects a kernel
 * and converts operands for it. */
#ifndef TESSERA_DISPATCH_OPDEF_H
#define TESSERA_DISPATCH_OPDEF_H

#include "dispatch/attrs.h"
#include "dispatch/emitter.h"
#include "tensor/tensor.h"

#define OP_MAX_INPUTS 64
#define OP_MAX_OUTPUTS 32

typedef struct prepared prepared_t;
typedef struct op_call op_call_t;

typedef enum op_preference {
    OP_DENSE,   /* needs dense tensors */
    OP_FOLLOWS, /* runs in mkldnn layout if one of its activations has it, else in dense */
    OP_PREFERS  /* converts dense activations to mkldnn */
} op_preference_t;

typedef enum operand_role {
    ROLE_ACTIVATION,
    ROLE_WEIGHT, /* packed once if module_mkldnn has converted its module */
    ROLE_BIAS,   /* always row-major */
    ROLE_STATE   /* statistics; always row-major */
} operand_role_t;

typedef struct operand {
    const char *name;
    operand_role_t role;
    bool is_optional;
    bool is_variadic; /* last operand only: may repeat */
} operand_t;

typedef enum op_trait {
    TRAIT_ELEMENTWISE = 1 << 0,    /* out[i] depends on in[i] alone, after broadcasting */
    TRAIT_VIEW = 1 << 1,           /* the result shares the input's bytes if the strides allow it */
    TRAIT_POST_OPS = 1 << 2,       /* has an attribute `post`, whose operands follow its own */
    TRAIT_COMMUTATIVE = 1 << 3,    /* the first two operands may be swapped */
    TRAIT_IDENTITY = 1 << 4,       /* returns its first operand in inference (dropout, identity) */
    TRAIT_DRAWS = 1 << 6,          /* returns different random numbers at each run: passes never
                                      evaluate it in advance or merge two calls */
    TRAIT_POST_FUNCTIONS = 1 << 8, /* supports only post-ops that are functions of one element */
    TRAIT_GRADS_WEIGHT = 1 << 7,   /* computes the gradient of a layer's weight, from the layer's
                                      input and the gradient of the layer's output */
    TRAIT_BATCHED = 1 << 9, /* if input 0 and the results have the same size in dimension 0, that is
                               a batch: item n of the results depends only on item n of the
                               activations */
    TRAIT_READS_GROUPED = 1 << 10, /* kernels get operand 0 in a grouped format (grouping_t) if it
                                      has one; otherwise activations are widened for them */
    TRAIT_MEASURES = 1 << 5 /* output sizes depend on elements of inputs, as in nonzero. `infer`
                               gets these elements when the operator runs; if they are unknown, it
                               returns -1 for such sizes. A kernel is selected in each call */
} op_trait_t;

/* Changes of the inputs with which dispatch_error_bound calls a specification. */
typedef struct spec_probe {
    double shake;    /* each floating-point element is multiplied by 1 + shake * r, with its own
                        random r in [-1, 1] */
    uint64_t seed;   /* seed of r */
    int64_t n_reads; /* number of elements read so far */
} spec_probe_t;

/* A call that a specification computes. All inputs are dense. */
typedef struct spec_call {
    const opdef_t *op;
    const void *attrs;
    int n_in;
    const tensor_info_t *const *in; /* absent operands have DTYPE_NONE */
    const void *const *data;
    const tensor_info_t *out;
    spec_probe_t *probe; /* NULL: none */
} spec_call_t;

/* Read an element of an operand. spec_at takes an index of the operand's rank; spec_at_broadcast
 * takes an index of rank `rank`, to which the operand is broadcast. */
double spec_at(const spec_call_t *call, int operand, const int64_t *index) TESSERA_API(spec_at);
double spec_at_broadcast(const spec_call_t *call, int operand, int rank, const int64_t *index)
    TESSERA_API(spec_at_broadcast);
/* A change to add to a number that kernels compute and round as an intermediate result, such as
 * resize's sampling coordinates. 0 without a probe. `which` distinguishes several such numbers. */
double spec_rounding(const spec_call_t *call, int which, double number) TESSERA_API(spec_rounding);
/* True if the operand is present. */
static inline bool spec_has(const spec_call_t *call, int operand)
{
    return operand < call->n_in && call->in[operand]->dtype != DTYPE_NONE;
}
/* Applies post-ops to a value at an index of output 0. first_operand: index of the first operand
 * that belongs to a post-op. */
double spec_post(const spec_call_t *call, const post_ops_t *post, int first_operand, double value,
                 const int64_t *index) TESSERA_API(spec_post);

typedef enum kernel_flag {
    /* The kernel computes the post-ops (attribute `post`), or declines. If it declines, or does not
     * have this flag, post-ops are "peeled": `prepare` gets the call without them, and dispatch
     * applies them to the kernel's result. */
    KERNEL_FUSES_POST_OPS = 1 << 0,
    /* The results share the bytes of input 0 from its first element; `run` is NULL. */
    KERNEL_IS_VIEW = 1 << 1,
    /* The kernel is skipped if an input is empty. */
    KERNEL_NEEDS_ELEMENTS = 1 << 2,
    /* Kernels with this flag compete: the one with the lowest estimated time is chosen, including
     * reorders of inputs. Kernels without the flag are tried only if none of these accepts. */
    KERNEL_COMPETES = 1 << 3,
    /* The store (tensor/store/store.h) may keep what `pack` writes, for other processes and later
     * versions of the program. Only for kernels of this library: a form's name in the store does
     * not tell programs' own kernels apart. */
    KERNEL_IS_STORED = 1 << 4
} kernel_flag_t;

/* A kernel: one implementation of an operator. */
typedef struct kernel {
    const char *name; /* "onednn", "native", "view" */

    /* Fills in `prepared` for a call in layout call->layout and returns OK, or declines with
     * `return prepared_decline(prepared, "reason")`, or fails. ops_prepare_dense is such a
     * function. */
    status_t (*prepare)(context_t *ctx, const op_call_t *call, prepared_t *prepared);

    /* Computes the outputs. `in` and `out` are pointers to first elements, NULL for absent
     * operands; prepared_input, prepared_output and prepared_attrs describe them. A plan may divide
     * a batch and run the parts in parallel; then each call has its own ctx with one thread. */
    status_t (*run)(context_t *ctx, const prepared_t *prepared, void *const *in, void *const *out,
                    void *scratch);

    uint32_t flags; /* kernel_flag_t */

    /* Packs a row-major weight into the format that prepared_want_packed requested. It must write
     * all of `out`, padding included, because `out` is not zeroed. All kernels that request this
     * format share the result, so it may depend only on `from`, the weight's bytes and `want`;
     * format_numbers(&want->format) are the numbers of the request. NULL: the kernel packs no
     * weights. */
    status_t (*pack)(context_t *ctx, const tensor_info_t *from, const void *bytes,
                     const tensor_info_t *want, void *out);

    /* Frees what the kernel's state points to; called once for each state of prepared_make_state,
     * before the state itself is freed. If `prepare` failed, the state may be incomplete. NULL: the
     * state points to nothing. */
    void (*destroy)(void *state);
} kernel_t;

/* Replacement for an operator if the elements of its last operands are constant: reshape_by(x,
 * sizes) becomes reshape(x) with the sizes as an attribute. */
typedef struct op_fixed {
    const opdef_t *op; /* takes the first n_kept operands */
    int n_kept;
    /* Computes the replacement's attributes; call->data[i] is NULL if the elements of operand i are
     * unknown. Returns UNSUPPORTED if the call cannot be replaced. */
    status_t (*attrs)(context_t *ctx, const op_call_t *call, void *out_attrs);
} op_fixed_t;

/* How dispatch handles the weights of a call. */
typedef enum weight_use {
    WEIGHT_GIVEN,   /* read in place, or converted for this call */
    WEIGHT_KEPT,    /* packed copies are kept for later calls; they may be updated by training, in
                       oneDNN's weight formats */
    WEIGHT_CONSTANT /* never written: packed once for each format */
} weight_use_t;

struct opdef {
    const char *name;
    /* A number that the operator's functions use, to distinguish operators that share functions,
     * such as max and avg pooling. 0 if the operator shares no functions. */
    int variant;
    op_preference_t preference;
    uint32_t traits;
    attr_table_t attrs;
    int n_operands;
    const operand_t *operands;
    int n_outputs; /* 0: `infer` returns the number (split) */
    /* True if `infer` accepts symbolic sizes and attributes (tensor/sym/sym.h), as built-in
     * operators do. Otherwise it gets numbers, and its result holds for these sizes only. (With
     * TRAIT_ELEMENTWISE it holds for all sizes, because the result has the operands' sizes.) */
    bool infers_symbols;

    /* Returns dtype and sizes of the outputs as dense infos. Checks all inputs, and fails with a
     * message if they are wrong. *out_n is n_outputs at first. */
    status_t (*infer)(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out);

    const kernel_t *const *kernels; /* in order of preference, NULL-terminated; see
                                       KERNEL_COMPETES */

    /* Computes out[output][index] naively, in double. */
    double (*spec)(const spec_call_t *call, int output, const int64_t *index); /* may be NULL */
    /* Size of the terms that cancel in the usual formula (see eltwise_cancels); the error bound
     * allows for their rounding. */
    double cancels;
    /* Number of multiplications and additions in the operator's formula, even if a kernel uses
     * another algorithm: 2 * N*K*P*Q * C*R*S for a convolution. NULL: one per element for
     * elementwise operators; 0 for others, such as pooling and softmax. */
    double (*flops)(const op_call_t *call);
    /* Factor by which an algorithm that the attributes request, such as Winograd, increases the
     * rounding error of sums; NULL: 1. */
    double (*amplifies)(const void *attrs);

    /* Describes the operator as a post-op of the operator before it, such as relu after a
     * convolution. Returns false if it cannot be one. An operator with two inputs becomes a post-op
     * with an operand. NULL: it can never be one. */
    bool (*as_post_op)(const opdef_t *op, const void *attrs, post_op_t *out_post);

    /* NULL: never replaced. */
    const op_fixed_t *fixed;

    /* Gradient rule (emitter.h). NULL: the operator has no gradient; requesting one fails with a
     * message that names the operator. */
    const gradient_t *gradient;
};

/* A call for which a kernel is prepared. Its activations already have the layout `layout`. */
struct op_call {
    const opdef_t *op;
    const void *attrs; /* with defaults filled in */
    int n_in;
    const tensor_info_t *const *in;
    const void *const *data;    /* row-major elements of the inputs, for `infer` of an operator
                                   with TRAIT_MEASURES; NULL: unknown */
    layout_t layout;            /* layout of activations and outputs */
    bool keep_formats;          /* the kernel must decline rather than reorder activations */
    const format_t *out_format; /* required format of the result; NULL: the kernel chooses */
    weight_use_t weights;
    bool per_op;            /* POLICY_PER_OP: use the formats that oneDNN proposes */
    const kernel_t *kernel; /* try only this kernel; NULL: all */
    int n_out;
    const tensor_info_t *out; /* inferred outputs, as dense infos */
};

static inline bool call_has(const op_call_t *call, int operand)
{
    return operand < call->n_in && call->in[operand]->dtype != DTYPE_NONE;
}

/* True if the elements of an operand are known. */
static inline bool call_knows(const op_call_t *call, int operand)
{
    return call->data != NULL && call_has(call, operand) && call->data[operand] != NULL;
}

#endif
