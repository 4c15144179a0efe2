/* Definition of an operator: data that dispatch, passes, importers and tests read. Your own
 * operators are run by dispatch_run, traced, planned and frozen like the built-in ones
 * (examples/own_operator.c). Only graph_parse and files support no operators but the built-in ones.
 * A definition, and everything it points to, must outlive all contexts and graphs that use it.
 *
 * An operator has a rule that infers its outputs; an ordered list of kernels, each of which may
 * decline with a reason; and a specification that computes one output element naively in double. It
 * also states which layout it prefers. Dispatch converts operands and selects a kernel. */
#ifndef TESSERA_DISPATCH_OPDEF_H
#define TESSERA_DISPATCH_OPDEF_H

#include "dispatch/attrs.h"
#include "dispatch/emitter.h"
#include "tensor/tensor.h"

TESSERA_BEGIN

#define OP_MAX_INPUTS 64
#define OP_MAX_OUTPUTS 32

typedef struct prepared prepared_t;
typedef struct op_call op_call_t;

typedef enum op_preference {
    OP_DENSE,   /* needs dense tensors */
    OP_FOLLOWS, /* keeps mkldnn if an activation is mkldnn */
    OP_PREFERS  /* converts dense activations to mkldnn */
} op_preference_t;

typedef enum operand_role {
    ROLE_ACTIVATION,
    ROLE_WEIGHT, /* packed once if module_mkldnn marked it */
    ROLE_BIAS,   /* always plain */
    ROLE_STATE   /* statistics; always plain */
} operand_role_t;

typedef struct operand {
    const char *name;
    operand_role_t role;
    bool is_optional;
    bool is_variadic; /* last operand only: may repeat */
} operand_t;

typedef enum op_trait {
    TRAIT_ELEMENTWISE = 1 << 0,    /* out[i] depends on in[i] alone, after broadcasting */
    TRAIT_VIEW = 1 << 1,           /* moves no bytes if the strides allow it */
    TRAIT_POST_OPS = 1 << 2,       /* has an attribute `post`, whose operands follow its own */
    TRAIT_COMMUTATIVE = 1 << 3,    /* the first two operands may be swapped */
    TRAIT_IDENTITY = 1 << 4,       /* returns its first operand in inference: dropout, identity */
    TRAIT_DRAWS = 1 << 6,          /* returns different random numbers at each run: passes never
                                      evaluate it in advance or merge two calls */
    TRAIT_POST_FUNCTIONS = 1 << 8, /* supports only post-ops that are functions of one element */
    TRAIT_GRADS_WEIGHT = 1 << 7,   /* computes the gradient of a layer's weight from the layer's
                                      source and the gradient of its result */
    TRAIT_BATCHED = 1 << 9, /* dimension 0 is a batch if input 0 and the results have the same size
                               in it: results [n] depend on activations [n] only */
    TRAIT_MEASURES = 1 << 5 /* output sizes depend on elements: nonzero. `infer` gets the
                               elements when the operator runs; if they are unknown, it returns
                               -1 for such sizes. Kernels are selected at each run */
} op_trait_t;

/* Options with which dispatch_error_bound calls a specification. */
typedef struct spec_probe {
    double shake;    /* floating elements are multiplied by 1 + shake * r, with r in [-1, 1] per
                        element */
    uint64_t seed;   /* seed of r */
    int64_t n_reads; /* number of elements read so far */
} spec_probe_t;

/* A call as the specification sees it: all inputs are dense. */
typedef struct spec_call {
    const opdef_t *op;
    const void *attrs;
    int n_in;
    const tensor_info_t *const *in; /* absent operands have dtype NONE */
    const void *const *data;
    const tensor_info_t *out;
    spec_probe_t *probe; /* NULL: none */
} spec_call_t;

/* Element of an operand at an index of its own rank, or broadcast from an index of rank `rank`. */
double spec_at(const spec_call_t *call, int operand, const int64_t *index) TESSERA_API(spec_at);
double spec_at_broadcast(const spec_call_t *call, int operand, int rank, const int64_t *index)
    TESSERA_API(spec_at_broadcast);
/* Perturbation to add to a number that kernels compute and round on the way, such as resize's
 * sampling coordinates. 0 without a probe. `which` distinguishes several such numbers. */
double spec_rounding(const spec_call_t *call, int which, double number) TESSERA_API(spec_rounding);
/* True if the operand is present. */
static inline bool spec_has(const spec_call_t *call, int operand)
{
    return operand < call->n_in && call->in[operand]->dtype != DTYPE_NONE;
}
/* Applies post-ops to a value at an index of output 0. first_operand: operand of the first post-op
 * that has one. */
double spec_post(const spec_call_t *call, const post_ops_t *post, int first_operand, double value,
                 const int64_t *index) TESSERA_API(spec_post);

typedef enum kernel_flag {
    /* The kernel computes the attribute `post`, or declines. If it declines, or a kernel lacks this
     * flag, post-ops are peeled: `prepare` gets the call without them, and dispatch adds them. */
    KERNEL_FUSES_POST_OPS = 1 << 0,
    /* The results share the bytes of input 0 from its first element; `run` is NULL. */
    KERNEL_IS_VIEW = 1 << 1,
    /* The kernel is skipped if an input is empty. */
    KERNEL_NEEDS_ELEMENTS = 1 << 2,
    /* Among the kernels with this flag that accept, the one with the lowest estimated time wins,
     * reorders of inputs included. Kernels without it are tried if none of these accepts. */
    KERNEL_COMPETES = 1 << 3
} kernel_flag_t;

/* A kernel: one implementation of an operator. */
typedef struct kernel {
    const char *name; /* "onednn", "native", "view" */

    /* Fills in `prepared` for call->layout and returns OK, or declines with `return
     * prepared_decline(prepared, "reason")`, or fails. ops_prepare_dense is such a function. */
    status_t (*prepare)(context_t *ctx, const op_call_t *call, prepared_t *prepared);

    /* Computes the outputs. `in` and `out` are pointers to first elements, NULL for absent
     * operands; prepared_input, prepared_output and prepared_attrs describe them. A plan may run
     * several slices of a batch in parallel; each has its own ctx with one thread. */
    status_t (*run)(context_t *ctx, const prepared_t *prepared, void *const *in, void *const *out,
                    void *scratch);

    uint32_t flags; /* kernel_flag_t */

    /* Packs a weight, given row-major, into the format that prepared_want_packed requested. It must
     * write all of `out`, padding included: `out` is not zeroed. All kernels that request this
     * format share the result, so it may depend only on `from`, its bytes and `want`;
     * format_numbers(&want->format) are the numbers of the request. NULL: packs nothing. */
    status_t (*pack)(context_t *ctx, const tensor_info_t *from, const void *bytes,
                     const tensor_info_t *want, void *out);

    /* Frees what the state of a prepared operator points to; called once per prepared_make_state,
     * before the state itself is freed. If `prepare` failed, the state may be incomplete. NULL: the
     * state points to nothing. */
    void (*destroy)(void *state);
} kernel_t;

/* Replacement for an operator whose last operands are known: reshape_by(x, sizes) becomes
 * reshape(x) with an attribute. */
typedef struct op_fixed {
    const opdef_t *op; /* takes the first n_kept operands */
    int n_kept;
    /* Computes the replacement's attributes; call->data is NULL for unknown operands. UNSUPPORTED
     * if the call cannot be replaced. */
    status_t (*attrs)(context_t *ctx, const op_call_t *call, void *out_attrs);
} op_fixed_t;

/* How a call's weights are handled. */
typedef enum weight_use {
    WEIGHT_GIVEN,   /* read in place, or converted for this call */
    WEIGHT_KEPT,    /* converted forms are kept; gradients may update them, in oneDNN's weight
                       formats */
    WEIGHT_CONSTANT /* never written: each form is made once */
} weight_use_t;

struct opdef {
    const char *name;
    /* Distinguishes operators that share functions, such as max and avg pooling; these functions
     * define its meaning. 0 if the operator shares no functions. */
    int variant;
    op_preference_t preference;
    uint32_t traits;
    attr_table_t attrs;
    int n_operands;
    const operand_t *operands;
    int n_outputs; /* 0: `infer` returns the number (split) */
    /* `infer` accepts symbolic sizes and attributes; true for built-in operators. Otherwise it gets
     * numbers, and its result holds for these sizes only (with TRAIT_ELEMENTWISE: for all sizes, as
     * the result has the operands' sizes). */
    bool infers_symbols;

    /* Returns dtype and sizes of the outputs as dense infos. Checks all inputs and reports the
     * broken rule. *out_n is preset to n_outputs. */
    status_t (*infer)(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out);

    const kernel_t *const *kernels; /* in order of preference, NULL-terminated; see
                                       KERNEL_COMPETES */

    /* Computes out[output][index] naively, in double. */
    double (*spec)(const spec_call_t *call, int output, const int64_t *index); /* may be NULL */
    /* Size of terms that cancel in the usual formula, such as 1 and erf(x / sqrt 2) of gelu at -5:
     * see eltwise_cancels. The error bound allows for their rounding. */
    double cancels;
    /* Multiplications and additions of a call by the operator's formula, whatever algorithm
     * computes it: 2 * N*K*P*Q * C*R*S for a convolution. NULL: one per element for elementwise
     * operators; 0 for others, such as pooling and softmax. */
    double (*flops)(const op_call_t *call);
    /* Factor by which the algorithm that the attributes request (winograd) increases the rounding
     * error of sums; NULL: 1. */
    double (*amplifies)(const void *attrs);

    /* Describes the operator as a post-op of another operator, such as relu after a convolution;
     * false if it cannot be one. A post-op with an operand combines inputs 0 and 1. NULL: never. */
    bool (*as_post_op)(const opdef_t *op, const void *attrs, post_op_t *out_post);

    /* NULL: never replaced. */
    const op_fixed_t *fixed;

    /* Gradient rule from outputs to inputs. NULL: no gradient; requesting one is an error that
     * names the operator. */
    const gradient_t *gradient;

    /* Calls for tests and benchmarks, NULL-terminated: "(f32[1,3,7,7], f32[4,3,3,3], none)
     * padding=[1,1]". Operands are random; "s64[3]<n" has integers in [0, n), "f32[7]+" positive
     * numbers, "f32[7]*8" larger ones. NULL: none. */
    const char *const *cases;
};

/* A call as a kernel sees it: activations already have the requested layout. */
struct op_call {
    const opdef_t *op;
    const void *attrs; /* normalised */
    int n_in;
    const tensor_info_t *const *in;
    const void *const *data;    /* row-major elements of the inputs, for `infer` of an operator
                                   with TRAIT_MEASURES; NULL: unknown */
    layout_t layout;            /* layout of the activations and of the outputs */
    bool keep_formats;          /* decline instead of reordering activations */
    const format_t *out_format; /* required format of the result; NULL: the kernel chooses */
    weight_use_t weights;
    bool per_op;            /* policy per_op: use the formats that oneDNN proposes */
    const kernel_t *kernel; /* try only this kernel; NULL: all */
    int n_out;
    const tensor_info_t *out; /* inferred, dense */
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

TESSERA_END

#endif
