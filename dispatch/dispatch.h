/* Dispatch runs each operator in the layout that suits it, and converts inputs automatically.
 *
 * No operator fails because of the layout of its inputs. The kernel is selected from metadata
 * (dtypes, sizes, formats) only. A bounded cache per context keeps the selection, so that repeating
 * a call costs only a look-up. */
#ifndef TESSERA_DISPATCH_DISPATCH_H
#define TESSERA_DISPATCH_DISPATCH_H

#include "dispatch/opdef.h"
#include "tensor/convert.h"
#include "tensor/text.h"

TESSERA_BEGIN

typedef enum policy {
    POLICY_AUTO,   /* OP_PREFERS converts to mkldnn, OP_FOLLOWS stays as it is, OP_DENSE converts
                      to dense */
    POLICY_STRICT, /* outputs have the layout of the inputs; mixed layouts are an error */
    POLICY_PER_OP  /* row-major between operators; conv and linear reorder inside each call */
} policy_t;
const char *policy_name(policy_t policy) TESSERA_API(policy_name);

/* Policy of the context; initially POLICY_AUTO. */
status_t dispatch_set_policy(context_t *ctx, policy_t policy) TESSERA_API(dispatch_set_policy);
policy_t dispatch_policy(context_t *ctx) TESSERA_API(dispatch_policy);

/* Runs an operator. attrs NULL means defaults. `in`: operands, then operands of post-ops; absent
 * optional operands are NULL. *n_out: capacity of `out`, then the number of outputs. n_out may be
 * NULL unless the number of outputs depends on the call (split). A required operand that is NULL
 * passes on the context's failure. Writes nothing on failure. */
status_t dispatch_run(context_t *ctx, const opdef_t *op, const void *attrs, int n_in,
                      const tensor_t *const *in, int *n_out, tensor_t **out)
    TESSERA_API(dispatch_run);

/* Runs an operator with one result and writes the result into `target`. The target is operand 0;
 * `in` are the n_in operands after it. All operands are read before the target is written. The
 * target keeps its layout and dtype; the result is cast by PyTorch's rules: floating results need a
 * floating target, and a bool target needs a bool result. Weights and views that share the target's
 * bytes change with it; snapshots do not.
 *
 * INVALID_ARGUMENT  the result's sizes differ from the target's, or its dtype cannot be cast, or
 * elements of the target share memory, as after op_expand */
status_t dispatch_run_in_place(context_t *ctx, const opdef_t *op, const void *attrs,
                               tensor_t *target, int n_in, const tensor_t *const *in)
    TESSERA_API(dispatch_run_in_place);

/* Chooses kernel and formats from metadata alone. INVALID_ARGUMENT for wrong inputs; UNSUPPORTED,
 * with every kernel's reason, if all kernels decline. The caller releases the result. */
status_t dispatch_select(context_t *ctx, const opdef_t *op, const void *attrs, int n_in,
                         const tensor_info_t *const *in, policy_t policy, prepared_t **out_prepared)
    TESSERA_API(dispatch_select);
/* dispatch_select with a given layout and formats, for layout passes and plans. The kernel reads
 * mkldnn activations in exactly the formats of their infos, and the result has out_format unless
 * that is NULL. UNSUPPORTED, without a message, if no kernel accepts these formats. */
status_t dispatch_select_fixed(context_t *ctx, const opdef_t *op, const void *attrs, int n_in,
                               const tensor_info_t *const *in, layout_t layout,
                               const format_t *out_format, prepared_t **out_prepared)
    TESSERA_API(dispatch_select_fixed);
prepared_t *prepared_retain(prepared_t *prepared) TESSERA_API(prepared_retain);
void prepared_release(prepared_t *prepared) TESSERA_API(prepared_release);

/* Properties of the selection. prepared_input is the info that the kernel needs, after conversion
 * of the caller's input. */
const opdef_t *prepared_op(const prepared_t *prepared) TESSERA_API(prepared_op);
const char *prepared_kernel(const prepared_t *prepared) TESSERA_API(prepared_kernel);
const char *prepared_implementation(const prepared_t *prepared)
    TESSERA_API(prepared_implementation);
const char *prepared_reasons(const prepared_t *prepared) TESSERA_API(prepared_reasons);
const tensor_info_t *prepared_input(const prepared_t *prepared, int index)
    TESSERA_API(prepared_input);
const tensor_info_t *prepared_output(const prepared_t *prepared, int index)
    TESSERA_API(prepared_output);
int prepared_n_outputs(const prepared_t *prepared) TESSERA_API(prepared_n_outputs);
double prepared_cost(const prepared_t *prepared) TESSERA_API(prepared_cost);
/* The attributes as the kernel sees them: normalised, without peeled post-ops. NULL if the operator
 * has no attributes. */
const void *prepared_attrs(const prepared_t *prepared) TESSERA_API(prepared_attrs);

/* ---- for the `prepare` function of a kernel ---- */

/* Declines the call with a reason, which explain prints. Returns UNSUPPORTED. */
status_t prepared_decline(prepared_t *prepared, const char *format, ...)
    TESSERA_API(prepared_decline) TESSERA_PRINTF(2, 3);
/* Sets how many scratch bytes `run` needs, aligned to 64; initially 0. */
void prepared_set_scratch(prepared_t *prepared, size_t bytes) TESSERA_API(prepared_set_scratch);
/* Allocates the kernel's private state: zeroed bytes, aligned to 64, freed with the prepared
 * operator. Call it at most once per prepare. `run` gets the state from prepared_state and must not
 * modify it. prepared_state is NULL if none was made. */
status_t prepared_make_state(context_t *ctx, prepared_t *prepared, size_t bytes, void *out_state)
    TESSERA_API(prepared_make_state);
void *prepared_state(const prepared_t *prepared) TESSERA_API(prepared_state);
/* Requests operand `index`, a weight, in the format that the kernel's `pack` produces. This
 * replaces the format that ops_prepare_dense set. elements: size of the packed weight, in elements
 * of its dtype. version: increase it whenever `pack` changes its result for the same weight and
 * numbers. A weight that module_mkldnn marked or a plan holds is packed once, other weights in each
 * call. Packing counts as a copy with cause `weight`. */
status_t prepared_want_packed(context_t *ctx, prepared_t *prepared, int index, int64_t elements,
                              int version, int n_numbers, const int64_t *numbers)
    TESSERA_API(prepared_want_packed);

/* ---- running and inspecting ---- */

/* Appends the benchdnn command line (benchdnn is oneDNN's test program) that repeats what oneDNN
 * runs, in the syntax of the linked version: "./benchdnn --conv ...". Kernels without oneDNN print
 * "# native" or similar. No newline. */
void prepared_repro(const prepared_t *prepared, text_t *text) TESSERA_API(prepared_repro);

/* Infers the outputs only. `out` has capacity OP_MAX_OUTPUTS. */
status_t dispatch_infer(context_t *ctx, const opdef_t *op, const void *attrs, int n_in,
                        const tensor_info_t *const *in, int *out_n, tensor_info_t *out)
    TESSERA_API(dispatch_infer);

/* Multiplications and additions of a call by the operator's formula, whatever algorithm computes
 * it. 0 for operators that are not counted: those that move bytes, pool or sort. Optional operands
 * may be left out. attrs are normalised. */
double dispatch_flops(const opdef_t *op, const void *attrs, int n_in,
                      const tensor_info_t *const *in, int n_out, const tensor_info_t *out)
    TESSERA_API(dispatch_flops);

/* Largest allowed difference from the specification for one element: a few units in the last place
 * of the value in the output's dtype, plus the change of the value when the inputs change by a few
 * units. So an error is larger only where the formula cancels: softplus(-20) must have all its
 * digits, and so must every element of a softmax with one large input. 0 for integers, infinities
 * and NaN.
 *
 * The change is measured with a few random trials, or with more if is_sure. A few trials
 * underestimate it tenfold for one element in thousands. So if an error exceeds the bound, compute
 * the bound again with is_sure. */
double dispatch_error_bound(const spec_call_t *call, int output, const int64_t *index,
                            double expected, bool is_sure) TESSERA_API(dispatch_error_bound);

/* Recomputes n random elements of every output with the specification (all elements if n is 0 or
 * too large). *out_error is the largest error divided by its bound: at most 1 if all is correct. */
status_t dispatch_verify(context_t *ctx, const opdef_t *op, const void *attrs, int n_in,
                         const tensor_t *const *in, int n_out, const tensor_t *const *out,
                         int64_t n, double *out_error) TESSERA_API(dispatch_verify);

/* ---- observers ---- */

struct plan;

/* A finished call. Tensors are borrowed during the callback. Tensors of a plan are in its arena: do
 * not read them later, even if retained. */
typedef struct op_event {
    const opdef_t *op;
    const void *attrs; /* normalised */
    int n_in;
    const tensor_t *const *in;
    int n_out;
    tensor_t *const *out;
    tensor_t *target; /* for a call in place: in[0], into which out[0] will be written; else NULL */
    const prepared_t *prepared;
    uint64_t ns;         /* wall clock of the call, including conversions of its inputs */
    bool is_planned;     /* a step of a plan; ns is the kernel's time. Views are not steps */
    int slice, n_slices; /* index and number of slices, if the plan runs this step for one slice of
                            the batch after the other; 0 and 1 if it runs for the complete batch; 0
                            and 0 outside plans */
    struct plan *plan;   /* the plan that runs the step; NULL outside plans */
    int step;            /* index of the step for plan_step */
} op_event_t;

/* Receives every operator that dispatch or a plan runs. If a callback fails, the call fails; if
 * `written` fails, the target has been written nevertheless. */
typedef struct observer {
    void *user;
    status_t (*op_end)(context_t *ctx, void *user, const op_event_t *event);
    /* Called after op_end for a call in place, when the target has new elements. May be NULL. */
    status_t (*written)(context_t *ctx, void *user, tensor_t *target);
    /* Called after each reorder or copy. dispatch converts before op_end of the operator that needs
     * the conversion; a plan converts between its steps. May be NULL. */
    void (*converted)(context_t *ctx, void *user, const conversion_t *conversion);
    void (*module_enter)(context_t *ctx, void *user, const char *path);
    void (*module_leave)(context_t *ctx, void *user, const char *path);
    /* op_end does not read elements of inputs. If all observers with an op_end set this, an input
     * that a step of a plan overwrites is passed with its new elements. Otherwise the input is
     * copied before the step, which takes time and affects the CPU caches. */
    bool ignores_inputs;
    struct observer *next; /* set by dispatch */
} observer_t;

/* Add and remove an observer, which must exist until it is removed. */
status_t dispatch_add_observer(context_t *ctx, observer_t *observer)
    TESSERA_API(dispatch_add_observer);
void dispatch_remove_observer(context_t *ctx, observer_t *observer)
    TESSERA_API(dispatch_remove_observer);

/* Tells the observers that the module at `path` begins and ends. Nothing happens if path is NULL.
 */
void dispatch_enter_module(context_t *ctx, const char *path) TESSERA_API(dispatch_enter_module);
void dispatch_leave_module(context_t *ctx, const char *path) TESSERA_API(dispatch_leave_module);

/* Empties the context's cache of prepared operators. */
void dispatch_clear_cache(context_t *ctx) TESSERA_API(dispatch_clear_cache);

TESSERA_END

#endif
