/* Dispatch: runs each operator in the layout that suits it, and puts the transitions in by itself.
 *
 * No operator fails because of layout. What is prepared depends on metadata only and is kept in a
 * bounded cache per context, so a call seen before costs a look-up. */
#ifndef TESSERA_DISPATCH_DISPATCH_H
#define TESSERA_DISPATCH_DISPATCH_H

#include "dispatch/opdef.h"
#include "tensor/convert.h"
#include "tensor/text.h"

TESSERA_BEGIN

typedef enum policy {
    POLICY_AUTO,   /* preferring operators go mkldnn, followers stay, the rest gets to_dense */
    POLICY_STRICT, /* dense in gives dense out, mkldnn in gives mkldnn out, a mixture is an error */
    POLICY_PER_OP  /* plain at every operator's border; conv, linear reorder inside each call */
} policy_t;
const char *policy_name(policy_t policy) TESSERA_API(policy_name);

/* The context's policy; POLICY_AUTO at first. */
status_t dispatch_set_policy(context_t *ctx, policy_t policy) TESSERA_API(dispatch_set_policy);
policy_t dispatch_policy(context_t *ctx) TESSERA_API(dispatch_policy);

/* Runs an operator. attrs NULL means defaults; absent optional operands are NULL. in: inputs, then
 * operands of post-ops. out has room for *n_out tensors, which becomes the number made;
 * n_out may be NULL for operators whose definition says how many (all but split). A required
 * operand that is NULL passes on the context's failure. On failure nothing is written. */
status_t dispatch_run(context_t *ctx, const opdef_t *op, const void *attrs, int n_in,
                      const tensor_t *const *in, int *n_out, tensor_t **out)
    TESSERA_API(dispatch_run);

/* Runs an operator with one result, and writes that into the target, which stands for operand 0;
 * `in` are the n_in operands behind it. All are read before anything is written. The target keeps
 * its layout and dtype, which the result is cast to as PyTorch does: a floating result goes into
 * floating types only, and bool takes nothing but bool. Weights and views that share the target's
 * bytes see the new elements, snapshots do not.
 *
 * INVALID_ARGUMENT  the result has other sizes than the target, or a dtype that it cannot hold, or
 *                   the target has elements that share memory, as those of op_expand */
status_t dispatch_run_in_place(context_t *ctx, const opdef_t *op, const void *attrs,
                               tensor_t *target, int n_in, const tensor_t *const *in)
    TESSERA_API(dispatch_run_in_place);

/* Chooses kernel and formats from metadata alone. INVALID_ARGUMENT for wrong inputs, UNSUPPORTED
 * with all reasons when no kernel is left. The caller releases. */
status_t dispatch_select(context_t *ctx, const opdef_t *op, const void *attrs, int n_in,
                         const tensor_info_t *const *in, policy_t policy, prepared_t **out_prepared)
    TESSERA_API(dispatch_select);
/* For layout passes and plans: the layout is given, activations (mkldnn ones) come in exactly the
 * formats of their infos, and the result has out_format unless that is NULL. UNSUPPORTED without a
 * message in the context when no kernel takes them so: it is a question. */
status_t dispatch_select_fixed(context_t *ctx, const opdef_t *op, const void *attrs, int n_in,
                               const tensor_info_t *const *in, layout_t layout,
                               const format_t *out_format, prepared_t **out_prepared)
    TESSERA_API(dispatch_select_fixed);
prepared_t *prepared_retain(prepared_t *prepared) TESSERA_API(prepared_retain);
void prepared_release(prepared_t *prepared) TESSERA_API(prepared_release);

/* What was chosen. Infos of inputs are those wanted. */
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
/* The attributes as the kernel sees them: normalised, without post-ops that were peeled off. NULL
 * where the operator has none. */
const void *prepared_attrs(const prepared_t *prepared) TESSERA_API(prepared_attrs);

/* ---- for the `prepare` of a kernel ---- */

/* Declines with a reason in words, which explain shows. Gives UNSUPPORTED. */
status_t prepared_decline(prepared_t *prepared, const char *format, ...)
    TESSERA_API(prepared_decline) TESSERA_PRINTF(2, 3);
/* Bytes that `run` is given as scratch, aligned to 64; 0 at first. */
void prepared_set_scratch(prepared_t *prepared, size_t bytes) TESSERA_API(prepared_set_scratch);
/* Data of the kernel's own that ends with the prepared operator: zeroed bytes, aligned to 64, which
 * `run` finds by prepared_state and only reads. NULL if none was made. Once for each prepare. */
status_t prepared_make_state(context_t *ctx, prepared_t *prepared, size_t bytes, void *out_state)
    TESSERA_API(prepared_make_state);
void *prepared_state(const prepared_t *prepared) TESSERA_API(prepared_state);
/* Wants operand `index`, a weight, as the kernel's `pack` makes it, and not as ops_prepare_dense
 * said before: so many elements of the weight's dtype in a format of this kernel's. The version is
 * raised when `pack` makes something else of the same weight and numbers. Packed once for a weight
 * that module_mkldnn marked or a plan holds, else in each call; counted as a copy under cause
 * weight. */
status_t prepared_want_packed(context_t *ctx, prepared_t *prepared, int index, int64_t elements,
                              int version, int n_numbers, const int64_t *numbers)
    TESSERA_API(prepared_want_packed);

/* ---- running and asking ---- */

/* Appends the command line of benchdnn, oneDNN's own test, that repeats what oneDNN runs, in the
 * syntax of the version linked: "./benchdnn --conv ..."; "# native" and the like for kernels
 * of our own. No newline. */
void prepared_repro(const prepared_t *prepared, text_t *text) TESSERA_API(prepared_repro);

/* Infers outputs only. out has room for OP_MAX_OUTPUTS. */
status_t dispatch_infer(context_t *ctx, const opdef_t *op, const void *attrs, int n_in,
                        const tensor_info_t *const *in, int *out_n, tensor_info_t *out)
    TESSERA_API(dispatch_infer);

/* Multiplications and additions of a call by the operator's formula, whatever algorithm computes
 * it; 0 where they are not counted: an operator that moves bytes, pools, sorts. Optional operands
 * may be left out. attrs are normalised. */
double dispatch_flops(const opdef_t *op, const void *attrs, int n_in,
                      const tensor_info_t *const *in, int n_out, const tensor_info_t *out)
    TESSERA_API(dispatch_flops);

/* How far an element that the specification gives may be missed in the output's dtype: a few units
 * in the last place of the value, and as much as it changes when the inputs do by a few of theirs.
 * So cancellation excuses an error, and nothing else does: softplus(-20) has all its digits, and so
 * has each element of a softmax beside a large one. 0 for integers, infinities and NaN.
 *
 * The change is measured, by a few trials unless it has to be sure: a few find a tenth of it or
 * less for one element in thousands, so that an error that exceeds the bound has to be judged
 * again. */
double dispatch_error_bound(const spec_call_t *call, int output, const int64_t *index,
                            double expected, bool is_sure) TESSERA_API(dispatch_error_bound);

/* Recomputes n random elements (all, when n is 0 or more than there are) of every output by the
 * specification, and gives the largest error as a multiple of its bound: right is at most 1. */
status_t dispatch_verify(context_t *ctx, const opdef_t *op, const void *attrs, int n_in,
                         const tensor_t *const *in, int n_out, const tensor_t *const *out,
                         int64_t n, double *out_error) TESSERA_API(dispatch_verify);

/* ---- observers ---- */

struct plan;

/* A call that has run: tensors are borrowed for the duration of the callback. Those of a plan lie
 * in its arena, so that not even a retained one can be read later. */
typedef struct op_event {
    const opdef_t *op;
    const void *attrs; /* normalised */
    int n_in;
    const tensor_t *const *in;
    int n_out;
    tensor_t *const *out;
    tensor_t *target; /* of a call in place: in[0], which out[0] is about to be written into */
    const prepared_t *prepared;
    uint64_t ns;         /* wall clock of the call, conversions of its inputs included */
    bool is_planned;     /* a step of a plan; ns is the kernel's alone. Views have no step */
    int slice, n_slices; /* of the batch, where a plan runs the step for one slice after another;
                            0 and 1 for all at once, and 0 and 0 outside of plans */
    struct plan *plan;   /* the plan that runs the step; NULL outside of plans */
    int step;            /* its number: plan_step(plan, step) */
} op_event_t;

/* Sees every operator that dispatch or a plan runs. A failing callback fails the call; one that
 * `written` gives leaves the target written. */
typedef struct observer {
    void *user;
    status_t (*op_end)(context_t *ctx, void *user, const op_event_t *event);
    /* After op_end of a call in place, when the target has its new elements. May be NULL. */
    status_t (*written)(context_t *ctx, void *user, tensor_t *target);
    /* A reorder or a copy, when it has run: those that dispatch puts in come before op_end of the
     * operator whose call they are part of, those of a plan between its steps. May be NULL. */
    void (*converted)(context_t *ctx, void *user, const conversion_t *conversion);
    void (*module_enter)(context_t *ctx, void *user, const char *path);
    void (*module_leave)(context_t *ctx, void *user, const char *path);
    /* op_end reads no elements of inputs. Where all observers with an op_end say so, an input that
     * a step of a plan overwrites is shown where it lay, with what the step has made of it. Else a
     * copy is made before the step, which takes time and changes what caches hold. */
    bool ignores_inputs;
    struct observer *next; /* used by dispatch */
} observer_t;

/* The observer is borrowed until it is removed. */
status_t dispatch_add_observer(context_t *ctx, observer_t *observer)
    TESSERA_API(dispatch_add_observer);
void dispatch_remove_observer(context_t *ctx, observer_t *observer)
    TESSERA_API(dispatch_remove_observer);
void dispatch_enter_module(context_t *ctx, const char *path) TESSERA_API(dispatch_enter_module);
void dispatch_leave_module(context_t *ctx, const char *path) TESSERA_API(dispatch_leave_module);

/* Empties the context's cache of prepared operators. */
void dispatch_clear_cache(context_t *ctx) TESSERA_API(dispatch_clear_cache);

TESSERA_END

#endif
