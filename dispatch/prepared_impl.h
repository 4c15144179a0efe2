/* A prepared operator: the kernel that dispatch_select chose, with everything settled that depends
 * on metadata only. Immutable once given out, counted, shared between threads. */
#ifndef TESSERA_DISPATCH_PREPARED_IMPL_H
#define TESSERA_DISPATCH_PREPARED_IMPL_H

#include <stdatomic.h>

#include "dispatch/dispatch.h"
#include "dispatch/opdef.h"
#include "tensor/counters.h"
#include "tensor/onednn/onednn.h"
#include "tensor/tensor_impl.h"

/* How an input gets to the kernel. */
typedef enum arrival_kind {
    ARRIVAL_PASS,    /* it is read where it lies: its bytes are as the kernel wants them */
    ARRIVAL_SHARE,   /* the same bytes in the other layout, of which a view is made */
    ARRIVAL_CONVERT, /* reordered for the call; of an mkldnn tensor the form that is kept */
    ARRIVAL_PACK     /* a weight: a marked storage keeps the form, of others as ARRIVAL_CONVERT */
} arrival_kind_t;

typedef struct arrival {
    arrival_kind_t kind;
    operand_role_t role;
    bool is_transition; /* the kernel sees it in the other layout */
    reorder_cause_t cause;
} arrival_t;

struct prepared {
    atomic_int n_references;
    allocator_t allocator;
    const opdef_t *op;
    const kernel_t *kernel;
    /* How it is run: the kernel's `run`, or that and the last post_left post-ops, which take the
     * last operands_left inputs. */
    status_t (*run)(context_t *ctx, const prepared_t *prepared, void *const *in, void *const *out,
                    void *scratch);
    int post_left, operands_left;
    char peeled_name[32]; /* "onednn_then_post" */
    void *attrs;
    void *kernel_attrs; /* as the kernel sees them: without peeled post-ops */
    int n_in, n_out;
    tensor_info_t *asked; /* the inputs it was selected for */
    tensor_info_t *in; /* wanted. A weight may be wanted with other sizes over the same elements */
    arrival_t *arrivals; /* of each input, from `asked` to `in` */
    tensor_info_t *out;  /* what is made, before the policy has its say */
    size_t *out_bytes;
    uint64_t *out_hash;  /* info_identity_hash */
    uint64_t *out_stamp; /* tensor_stamp of what is made, and of what it was selected for */
    uint64_t *asked_stamp;
    bool is_view; /* outputs lie in input 0, `offset` elements in */
    int64_t offset[OP_MAX_OUTPUTS];
    bool is_joined;  /* output 0 is the bytes of all inputs one behind another; the kernel leaves
                        alone what lies there already */
    bool may_grow;   /* output 0 may begin where input 0 does, in its bytes, if others lie apart */
    int sum_operand; /* input that output 0 is accumulated on, or -1 */
    uint64_t overwrites; /* bit i: output 0 may have the bytes of input i, if that lies alike */
    size_t scratch_bytes;
    double cost_ns;    /* estimate, without reorders of inputs */
    bool is_asked_for; /* the attributes want this very kernel: no other is compared with it */
    const char *implementation;
    char *reasons;         /* a line for each kernel or format that was passed over; NULL if none */
    bool is_out_of_memory; /* a reason was lost */

    /* Kernels on oneDNN: the primitive, and for each of its arguments the input, or -1 for output
     * 0, -2 for output 1. */
    onednn_primitive_t *primitive;
    int n_arguments;
    int8_t arguments[ONEDNN_MAX_ARGUMENTS];

    /* Data of native kernels, released with the prepared operator by `destroy` of the kernel and
     * allocator_put. */
    void *state;
};

/* An estimate of the bytes that end with it, its primitive's included. */
size_t prepared_bytes(const prepared_t *prepared);

/* Adds a reason without declining. */
void prepared_note(prepared_t *prepared, const char *format, ...) TESSERA_PRINTF(2, 3);

/* Settles a kernel on a described primitive, which it takes over: name, scratch, arguments in the
 * order inputs then output; a kernel whose operands are ordered otherwise sets `arguments` after.
 */
void prepared_take_primitive(prepared_t *prepared, onednn_primitive_t *primitive);

/* The `run` of every kernel on oneDNN. Copies the sum operand into the output where they differ. */
status_t prepared_run_primitive(context_t *ctx, const prepared_t *prepared, void *const *in,
                                void *const *out, void *scratch);

/* A dense or plain mkldnn result contiguous like the inferred one, in the call's layout. */
void prepared_out_like_call(prepared_t *prepared, const op_call_t *call);

#endif
