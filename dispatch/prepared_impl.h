/* A prepared operator: the kernel that dispatch_select chose for a call, and everything that
 * depends on the call's metadata only. Reference counted; never changes once it is returned, so
 * threads can share it. */
#ifndef TESSERA_DISPATCH_PREPARED_IMPL_H
#define TESSERA_DISPATCH_PREPARED_IMPL_H

#include <stdatomic.h>

#include "dispatch/dispatch.h"
#include "dispatch/opdef.h"
#include "kernels/rows_impl.h"
#include "tensor/counters.h"
#include "tensor/onednn/onednn.h"
#include "tensor/tensor_impl.h"

/* How dispatch makes the tensor that the kernel reads from the caller's input. */
typedef enum arrival_kind {
    ARRIVAL_PASS,    /* read in place: its bytes already match */
    ARRIVAL_SHARE,   /* a view of the same bytes in the other layout */
    ARRIVAL_CONVERT, /* reordered for the call; an mkldnn tensor keeps the copy (a form) */
    ARRIVAL_PACK     /* a packed weight, see pack_weight */
} arrival_kind_t;

typedef struct arrival {
    arrival_kind_t kind;
    operand_role_t role;
    bool is_transition; /* the layout changes */
    reorder_cause_t cause;
} arrival_t;

/* How a kernel computes some rows of its result at a time: dimension 2 of output 0, [1][K][P][Q].
 * Row p is computed from rows p * stride - padding to p * stride - padding + reach - 1 of input 0,
 * as far as these exist. Each result has the same bits as if all rows were computed at once. */
typedef struct kernel_rows {
    /* The first row, from `row` on, at which a range may begin or end. NULL: each row. */
    int64_t (*end)(const prepared_t *prepared, int64_t row);
    /* Bytes of scratch memory that `run` needs. NULL: as many as for all rows. */
    size_t (*scratch)(const prepared_t *prepared, const image_rows_t *rows);
    /* Like kernel_t.run. in[0] and out[0] are the addresses that row 0 has or would have; a post-op
     * adds the same rows of an operand in a buffer like that of the result. */
    status_t (*run)(context_t *ctx, const prepared_t *prepared, void *const *in, void *const *out,
                    void *scratch, const image_rows_t *rows);
} kernel_rows_t;

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
    tensor_info_t *asked; /* infos of the inputs for which the kernel was selected */
    tensor_info_t *in;    /* infos that the kernel needs; a weight's sizes may be a reshape */
    arrival_t *arrivals;  /* [n_in] how to get from `asked` to `in` */
    tensor_info_t *out;   /* infos of the outputs, before the policy converts them */
    size_t *out_bytes;
    uint64_t *out_hash;  /* info_identity_hash */
    uint64_t *out_stamp; /* [n_out] tensor_stamp of the outputs; asked_stamp has those of the inputs
                            for which the kernel was selected */
    uint64_t *asked_stamp;
    bool is_view; /* outputs share the bytes of input 0, from element `offset` on */
    int64_t offset[OP_MAX_OUTPUTS];
    bool is_joined;      /* output 0 is the concatenation of all inputs' bytes. The kernel skips an
                            input whose bytes are already at their position in output 0 */
    bool may_grow;       /* output 0 may begin at the address of input 0, in its buffer, if no other
                            input is there */
    int sum_operand;     /* input to whose bytes the kernel adds output 0, or -1 */
    uint64_t overwrites; /* bit i: output 0 may overwrite the bytes of input i if both have the same
                            format */
    size_t scratch_bytes;
    const kernel_rows_t *rows; /* NULL: computes all rows at once */
    int64_t rows_stride, rows_padding, rows_reach;
    double cost_ns;    /* estimate, without reorders of inputs */
    bool is_asked_for; /* the attributes or the weight's format request this kernel, so it is not
                          compared with others */
    const char *implementation;
    char *reasons;         /* a line for each kernel or format that was rejected; NULL if none */
    bool is_out_of_memory; /* a reason could not be stored */

    /* For kernels that call oneDNN: the primitive, and for each of its arguments the tensor to
     * pass: the index of an input, or -1 for output 0, -2 for output 1. */
    onednn_primitive_t *primitive;
    int n_arguments;
    int8_t arguments[ONEDNN_MAX_ARGUMENTS];

    /* State of other kernels; freed with the kernel's `destroy` and allocator_put. */
    void *state;
};

/* Estimated memory of a prepared operator, including its primitive. */
size_t prepared_bytes(const prepared_t *prepared);

/* Adds a line to the reasons without declining. */
void prepared_note(prepared_t *prepared, const char *format, ...) TESSERA_PRINTF(2, 3);

/* Makes `prepared` run a primitive, and takes ownership of the primitive: sets the implementation's
 * name, the scratch size, and `arguments` in the order inputs, outputs. A kernel with another order
 * sets `arguments` afterwards. */
void prepared_take_primitive(prepared_t *prepared, onednn_primitive_t *primitive);

/* `run` of all kernels that call oneDNN. Copies the operand of the post-op "sum" into the output if
 * their addresses differ. */
status_t prepared_run_primitive(context_t *ctx, const prepared_t *prepared, void *const *in,
                                void *const *out, void *scratch);

/* Sets output 0 to the inferred info, row-major, in the call's layout. */
void prepared_out_like_call(prepared_t *prepared, const op_call_t *call);

#endif
