/* What an operator is: data that dispatch, passes, importers and tests read. An operator of yours
 * is run by dispatch_run, traced, planned and frozen like those of the table
 * (examples/own_operator.c). Text is read with the table's operators only, so that neither
 * graph_parse nor a file has yours. What it points to has to live as long as any context that it
 * was run with, and any graph that it stands in.
 *
 * An operator infers its outputs, has an ordered list of kernels of which each may decline with a
 * reason, and a specification that computes any one element of its output naively in double. It
 * says how it feels about layout; dispatch does the rest. */
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
    OP_DENSE,   /* runs on dense tensors only */
    OP_FOLLOWS, /* stays mkldnn if an activation is */
    OP_PREFERS  /* turns dense activations into mkldnn */
} op_preference_t;

typedef enum operand_role {
    ROLE_ACTIVATION,
    ROLE_WEIGHT, /* packed once when module_mkldnn marked it */
    ROLE_BIAS,   /* stays plain */
    ROLE_STATE   /* statistics; stays plain */
} operand_role_t;

typedef struct operand {
    const char *name;
    operand_role_t role;
    bool is_optional;
    bool is_variadic; /* the last one: any number of them */
} operand_t;

typedef enum op_trait {
    TRAIT_ELEMENTWISE = 1 << 0, /* out[i] depends on in[i] alone, after broadcasting */
    TRAIT_VIEW = 1 << 1,        /* moves no bytes where strides allow it */
    TRAIT_POST_OPS = 1 << 2,    /* has an attribute `post`, and takes its operands after its own */
    TRAIT_COMMUTATIVE = 1 << 3, /* the first two operands may change places */
    TRAIT_IDENTITY = 1 << 4,    /* gives its first operand in inference: dropout, identity */
    TRAIT_DRAWS = 1 << 6,       /* gives something else at every run, by the context's generator: no
                                   pass runs it beforehand, or takes one for two of them */
    TRAIT_POST_FUNCTIONS = 1 << 8, /* its post-ops are functions of one element, none that takes an
                                      operand */
    TRAIT_GRADS_WEIGHT = 1 << 7,   /* gives the gradient of a layer's weight from the layer's source
                                      and the gradient of its result */
    TRAIT_BATCHED = 1 << 9, /* dimension 0 is a batch, if input 0 and the results are of the same
                               size there: results [n] depend on activations [n] alone */
    TRAIT_MEASURES = 1 << 5 /* sizes of its outputs depend on elements: nonzero. `infer` is given
                               these where it is called to run; where they are not known, it
                               gives -1 for such sizes. Kernels are selected at each run */
} op_trait_t;

/* What a specification is asked for besides the value: see dispatch_error_bound. */
typedef struct spec_probe {
    double shake;    /* floating elements are read times 1 + shake * r, r of [-1, 1] by place */
    uint64_t seed;   /* of r */
    int64_t n_reads; /* counts the elements read */
} spec_probe_t;

/* A specification's view of a call: inputs are dense. */
typedef struct spec_call {
    const opdef_t *op;
    const void *attrs;
    int n_in;
    const tensor_info_t *const *in; /* absent operands have dtype NONE */
    const void *const *data;
    const tensor_info_t *out;
    spec_probe_t *probe; /* NULL: none */
} spec_call_t;

/* Element of an operand at a full index; and with broadcasting from an index of rank `rank`. */
double spec_at(const spec_call_t *call, int operand, const int64_t *index) TESSERA_API(spec_at);
double spec_at_broadcast(const spec_call_t *call, int operand, int rank, const int64_t *index)
    TESSERA_API(spec_at_broadcast);
/* What the rounding of a number may change that kernels compute besides their elements, as the
 * coordinates that resize samples at: 0 unless probed. `which` tells such numbers apart. */
double spec_rounding(const spec_call_t *call, int which, double number) TESSERA_API(spec_rounding);
/* Operands present? */
static inline bool spec_has(const spec_call_t *call, int operand)
{
    return operand < call->n_in && call->in[operand]->dtype != DTYPE_NONE;
}
/* The post-ops applied to a value at an index of output 0; first_operand is the operand that the
 * first post-op with an operand takes. */
double spec_post(const spec_call_t *call, const post_ops_t *post, int first_operand, double value,
                 const int64_t *index) TESSERA_API(spec_post);

typedef enum kernel_flag {
    /* Computes the call's attribute `post` itself, or declines it. Where it declines, and for all
     * kernels without the flag, selection peels the post-ops: `prepare` sees a call without them,
     * and dispatch computes them behind `run`. */
    KERNEL_FUSES_POST_OPS = 1 << 0,
    /* The results lie in input 0, from its first element on; `run` is NULL. */
    KERNEL_IS_VIEW = 1 << 1,
    /* Is not asked about calls with an empty input. */
    KERNEL_NEEDS_ELEMENTS = 1 << 2,
    /* Of the kernels with this flag that do not decline, the one of the least estimate is taken,
     * reorders of its inputs included; those without it are asked where none is left. */
    KERNEL_COMPETES = 1 << 3
} kernel_flag_t;

/* One way to compute an operator. */
typedef struct kernel {
    const char *name; /* "onednn", "native", "view" */

    /* Settles `prepared` for call->layout and gives OK, or declines by
     * `return prepared_decline(prepared, "reason")`, or fails. ops_prepare_dense is one. */
    status_t (*prepare)(context_t *ctx, const op_call_t *call, prepared_t *prepared);

    /* Computes; pointers to first elements, NULL for operands that are absent. prepared_input,
     * prepared_output and prepared_attrs say what they point to. Of operators that are done element
     * by element of a batch plans run several slices at once: then ctx is one of those that have
     * one thread each, not the caller's. */
    status_t (*run)(context_t *ctx, const prepared_t *prepared, void *const *in, void *const *out,
                    void *scratch);

    uint32_t flags; /* kernel_flag_t */

    /* Makes a weight in the format that `prepare` asked for by prepared_want_packed: of row-major
     * bytes. It writes all of `out`, padding too: nobody has made that zero before. Everybody who
     * asks for this format gets what was made once, so it follows from `from` and `want` alone:
     * format_numbers(&want->format) are the numbers that `prepare` gave. NULL: the kernel packs
     * nothing. */
    status_t (*pack)(context_t *ctx, const tensor_info_t *from, const void *bytes,
                     const tensor_info_t *want, void *out);

    /* Frees what the state of a prepared operator points to, once for each prepared_make_state; the
     * state itself goes after. It may be half made: `prepare` failed. NULL: it points to nothing.
     */
    void (*destroy)(void *state);
} kernel_t;

/* What an operator becomes whose last operands are known: reshape_by(x, sizes) is reshape(x) with
 * an attribute. */
typedef struct op_fixed {
    const opdef_t *op; /* of the first n_kept operands */
    int n_kept;
    /* Its attributes; call->data of operands that are not known is NULL. UNSUPPORTED: it is no such
     * call. */
    status_t (*attrs)(context_t *ctx, const op_call_t *call, void *out_attrs);
} op_fixed_t;

/* What becomes of the weights of a call. */
typedef enum weight_use {
    WEIGHT_GIVEN, /* read where they lie, or converted for this call */
    WEIGHT_KEPT,  /* their forms are kept, and may be stepped by gradients, which lie as oneDNN has
                     weights */
    WEIGHT_CONSTANT /* nobody writes them: a form is made once */
} weight_use_t;

struct opdef {
    const char *name;
    /* Tells operators apart that share their functions, as max and avg of pooling; the functions
     * say what its values mean. 0 for an operator that shares none. */
    int variant;
    op_preference_t preference;
    uint32_t traits;
    attr_table_t attrs;
    int n_operands;
    const operand_t *operands;
    int n_outputs; /* 0: as many as `infer` says (split) */
    /* `infer` takes symbolic sizes and attributes: the operators of the table. Another rule is
     * given numbers, and what it says holds for these sizes only; for all sizes, where
     * TRAIT_ELEMENTWISE says that its result has the sizes of its operands. */
    bool infers_symbols;

    /* dtype and sizes of the outputs, as dense infos; checks every rule about the inputs and tells
     * what is broken. *out_n is preset to n_outputs. */
    status_t (*infer)(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out);

    const kernel_t *const *kernels; /* preferred first, NULL-terminated; see KERNEL_COMPETES */

    /* out[output][index], naively, in double. */
    double (*spec)(const spec_call_t *call, int output, const int64_t *index); /* may be NULL */
    /* Size of terms that kernels may subtract from each other though the function itself loses
     * nothing, as 1 + erf(x) of gelu does at -5: their rounding is allowed for. */
    double cancels;
    /* Multiplications and additions of a call, as the formula of the operator has them, whatever
     * algorithm computes it: 2 * N*K*P*Q * C*R*S for a convolution. NULL: an element each where it
     * is elementwise, else none that count, as in pooling or a softmax. */
    double (*flops)(const op_call_t *call);
    /* How many times the rounding of its sums the algorithm makes that the attributes ask for, as
     * winograd; NULL: once. */
    double (*amplifies)(const void *attrs);

    /* What it computes as a post-op of another operator, as relu behind a convolution: gives false
     * where it is none. A post-op with an operand combines inputs 0 and 1. NULL: never one. */
    bool (*as_post_op)(const opdef_t *op, const void *attrs, post_op_t *out_post);

    /* NULL: it stays what it is, whatever is known. */
    const op_fixed_t *fixed;

    /* How gradients pass it from its outputs to its inputs. NULL: they do not, and asking for one
     * is an error that names the operator. */
    const gradient_t *gradient;

    /* Calls that test and benchmark it, NULL-terminated: "(f32[1,3,7,7], f32[4,3,3,3], none)
     * padding=[1,1]". Operands are filled at random; integers in range [0, n) by
     * "s64[3]<n", with positive numbers by "f32[7]+", with larger ones by "f32[7]*8". NULL: none.
     */
    const char *const *cases;
};

/* A call as a kernel sees it: inputs in the layout it is asked for. */
struct op_call {
    const opdef_t *op;
    const void *attrs; /* normalised */
    int n_in;
    const tensor_info_t *const *in;
    const void *const *data;    /* elements of the inputs, which are row-major then; for `infer` of
                                   an operator with TRAIT_MEASURES. NULL: not known */
    layout_t layout;            /* what the activations are, and the outputs shall be */
    bool keep_formats;          /* activations may not be reordered: decline instead */
    const format_t *out_format; /* the format the result shall have, or NULL: the kernel's choice */
    weight_use_t weights;
    bool per_op;            /* policy per_op: formats as oneDNN proposes for (any, any) */
    const kernel_t *kernel; /* the only one that is asked; NULL: all are */
    int n_out;
    const tensor_info_t *out; /* inferred, dense */
};

static inline bool call_has(const op_call_t *call, int operand)
{
    return operand < call->n_in && call->in[operand]->dtype != DTYPE_NONE;
}

/* The elements of an operand are known. */
static inline bool call_knows(const op_call_t *call, int operand)
{
    return call->data != NULL && call_has(call, operand) && call->data[operand] != NULL;
}

TESSERA_END

#endif
