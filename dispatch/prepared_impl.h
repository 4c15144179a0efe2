/* A prepared operator: the kernel that dispatch_select chose, and everything that depends on
 * metadata only. Reference counted, immutable once returned, shared between threads. */
#ifndef TESSERA_DISPATCH_PREPARED_IMPL_H
#define TESSERA_DISPATCH_PREPARED_IMPL_H

#include <stdatomic.h>

#include "dispatch/dispatch.h"
#include "dispatch/opdef.h"
#include "tensor/counters.h"
#include "tensor/onednn/onednn.h"
#include "tensor/tensor_impl.h"

/* How an input reaches the kernel. */
typedef enum arrival_kind {
    ARRIVAL_PASS,    /* read in place: its bytes already match */
    ARRIVAL_SHARE,   /* a view of the same bytes in the other layout */
    ARRIVAL_CONVERT, /* reordered for the call, or the kept form of an mkldnn tensor */
    ARRIVAL_PACK     /* a weight: the kept form of a marked storage, else reordered */
} arrival_kind_t;

typedef struct arrival {
    arrival_kind_t kind;
    operand_role_t role;
    bool is_transition; /* the layout changes */
    reorder_cause_t cause;
} arrival_t;

struct prepared {
    atomic_int n_references;
    allocator_t allocator;
    const opdef_t *op;
    const kernel_t *kernel;
    /* Calls the kernel's `run`, then applies the last post_left post-ops, whose operands are the
     * last operands_left inputs. */
    status_t (*run)(context_t *ctx, const prepared_t *prepared, void *const *in, void *const *out,
                    void *scratch);
    int post_left, operands_left;
    char peeled_name[32]; /* "onednn_then_post" */
    void *attrs;
    void *kernel_attrs; /* attributes for the kernel: without peeled post-ops */
    int n_in, n_out;
    tensor_info_t *asked; /* infos of the inputs it was selected for */
    tensor_info_t *in;    /* infos that the kernel needs; a weight's sizes may differ, with the same
                             elements */
    arrival_t *arrivals;  /* [n_in] how to get from `asked` to `in` */
    tensor_info_t *out;   /* infos of the outputs, before the policy converts them */
    size_t *out_bytes;
    uint64_t *out_hash;  /* info_identity_hash */
    uint64_t *out_stamp; /* [n_out] tensor_stamp of the outputs; asked_stamp: of the inputs it
                            was selected for */
    uint64_t *asked_stamp;
    bool is_view; /* outputs share the bytes of input 0, starting `offset` elements in */
    int64_t offset[OP_MAX_OUTPUTS];
    bool is_joined;      /* output 0 is the concatenation of all inputs' bytes; the kernel skips
                            inputs that are already in position */
    bool may_grow;       /* output 0 may start at input 0's address, in its buffer, if the other
                            inputs are elsewhere */
    int sum_operand;     /* input whose bytes output 0 accumulates into, or -1 */
    uint64_t overwrites; /* bit i: output 0 may reuse the bytes of input i if both have the same
                            arrangement */
    size_t scratch_bytes;
    double cost_ns;    /* estimate, without reorders of inputs */
    bool is_asked_for; /* the attributes request this kernel: do not compare it with others */
    const char *implementation;
    char *reasons;         /* a line for each kernel or format that was rejected; NULL if none */
    bool is_out_of_memory; /* a reason could not be stored */

    /* Kernels on oneDNN: the primitive, and for each of its arguments the tensor to pass: the index
     * of an input, or -1 for output 0, -2 for output 1. */
    onednn_primitive_t *primitive;
    int n_arguments;
    int8_t arguments[ONEDNN_MAX_ARGUMENTS];

    /* State of native kernels, freed by the kernel's `destroy` and allocator_put. */
    void *state;
};

/* Estimated memory that it holds, including its primitive. */
size_t prepared_bytes(const prepared_t *prepared);

/* Adds a reason without declining. */
void prepared_note(prepared_t *prepared, const char *format, ...) TESSERA_PRINTF(2, 3);

/* Makes `prepared` run a described primitive and takes ownership of it: sets the implementation's
 * name, the scratch size, and `arguments` in the order inputs, outputs. A kernel with another order
 * sets `arguments` afterwards. */
void prepared_take_primitive(prepared_t *prepared, onednn_primitive_t *primitive);

/* `run` of all kernels on oneDNN. Copies the sum operand into the output if their addresses
 * differ. */
status_t prepared_run_primitive(context_t *ctx, const prepared_t *prepared, void *const *in,
                                void *const *out, void *scratch);

/* Sets output 0 to the inferred info, contiguous, in the call's layout (plain if mkldnn). */
void prepared_out_like_call(prepared_t *prepared, const op_call_t *call);

#endif
