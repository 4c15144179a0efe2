/* Dispatch runs operators: it chooses a layout and a kernel for each call, and converts inputs
 * automatically.
 *
 * No operator fails because of the layout of its inputs (except under POLICY_STRICT). The kernel is
 * selected from metadata (dtypes, sizes, formats) only. The result of the selection, a "prepared"
 * operator, is stored in a bounded cache of the context, so that repeating a call costs only a
 * look-up. */
#ifndef TESSERA_DISPATCH_DISPATCH_H
#define TESSERA_DISPATCH_DISPATCH_H

#include "dispatch/opdef.h"
#include "tensor/convert/convert.h"
#include "tensor/text/text.h"

typedef enum policy {
    POLICY_AUTO,   /* as the operator prefers (opdef.h): OP_PREFERS converts inputs to mkldnn,
                      OP_FOLLOWS keeps their layout, OP_DENSE converts them to dense */
    POLICY_STRICT, /* outputs have the inputs' layout; inputs of different layouts are an error */
    POLICY_PER_OP  /* tensors stay row-major; convolutions etc. reorder inside each call */
} policy_t;
const char *policy_name(policy_t policy) TESSERA_API(policy_name);

/* The policy of the context; at first POLICY_AUTO. */
status_t dispatch_set_policy(context_t *ctx, policy_t policy) TESSERA_API(dispatch_set_policy);
policy_t dispatch_policy(context_t *ctx) TESSERA_API(dispatch_policy);

/* Runs an operator. attrs NULL means defaults. `in` has the operands, then those of post-ops;
 * absent optional operands are NULL. Set *n_out to the capacity of `out`; it receives the number of
 * outputs. n_out may be NULL unless the number of outputs depends on the call (split). If a
 * required operand is NULL, returns the context's earlier failure (scope.h). Writes nothing on
 * failure. */
status_t dispatch_run(context_t *ctx, const opdef_t *op, const void *attrs, int n_in,
                      const tensor_t *const *in, int *n_out, tensor_t **out)
    TESSERA_API(dispatch_run);

/* Runs an operator with one result and writes the result into `target`. The target is operand 0;
 * `in` are the n_in operands after it. All operands are read before the target is written. The
 * target keeps its layout and dtype; the result is cast by PyTorch's rules: floating-point results
 * need a floating-point target, and a bool target needs a bool result. Views and weights that share
 * the target's bytes change with it; snapshots do not.
 *
 * INVALID_ARGUMENT  the result's sizes differ from the target's, or its dtype cannot be cast, or
 * elements of the target share memory, as after op_expand */
status_t dispatch_run_in_place(context_t *ctx, const opdef_t *op, const void *attrs,
                               tensor_t *target, int n_in, const tensor_t *const *in)
    TESSERA_API(dispatch_run_in_place);

/* Chooses kernel and formats from metadata alone. Fails with INVALID_ARGUMENT if the inputs are
 * wrong, and with UNSUPPORTED if all kernels decline; the message contains the reason of each. The
 * caller releases the result. */
status_t dispatch_select(context_t *ctx, const opdef_t *op, const void *attrs, int n_in,
                         const tensor_info_t *const *in, policy_t policy, prepared_t **out_prepared)
    TESSERA_API(dispatch_select);
/* Like dispatch_select, but with layout and formats that the caller has chosen, for compiling
 * graphs. The kernel reads mkldnn activations in exactly the formats of their infos, and the result
 * has out_format unless that is NULL. Returns UNSUPPORTED, without a message, if no kernel accepts
 * these formats. */
status_t dispatch_select_fixed(context_t *ctx, const opdef_t *op, const void *attrs, int n_in,
                               const tensor_info_t *const *in, layout_t layout,
                               const format_t *out_format, prepared_t **out_prepared)
    TESSERA_API(dispatch_select_fixed);
prepared_t *prepared_retain(prepared_t *prepared) TESSERA_API(prepared_retain);
void prepared_release(prepared_t *prepared) TESSERA_API(prepared_release);

/* Properties of the selection. prepared_input and prepared_output describe the tensors that the
 * kernel reads and writes; inputs are converted to this before the kernel runs. */
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
/* The attributes that the kernel must use: with defaults filled in, and without post-ops that
 * dispatch applies itself (KERNEL_FUSES_POST_OPS). NULL if the operator has no attributes. */
const void *prepared_attrs(const prepared_t *prepared) TESSERA_API(prepared_attrs);

/* ---- for the `prepare` function of a kernel ---- */

/* Declines the call with a reason, which explain prints. Returns UNSUPPORTED. */
status_t prepared_decline(prepared_t *prepared, const char *format, ...)
    TESSERA_API(prepared_decline) TESSERA_PRINTF(2, 3);
/* Sets how many scratch bytes `run` needs, aligned to 64; initially 0. */
void prepared_set_scratch(prepared_t *prepared, size_t bytes) TESSERA_API(prepared_set_scratch);
/* Allocates the kernel's private state: zeroed bytes, aligned to 64, freed with the prepared
 * operator. Call it at most once in `prepare`. `run` finds the state with prepared_state and must
 * not modify it. prepared_state returns NULL if there is no state. */
status_t prepared_make_state(context_t *ctx, prepared_t *prepared, size_t bytes, void *out_state)
    TESSERA_API(prepared_make_state);
void *prepared_state(const prepared_t *prepared) TESSERA_API(prepared_state);
/* Requests a weight (operand `index`) in the format that the kernel's `pack` produces, instead of
 * the format that ops_prepare_dense set. elements: size of the packed weight, in elements of its
 * dtype. version: increase it whenever `pack` changes its result for the same weight and numbers.
 * The weight of a plan, or of a module that module_mkldnn has converted, is packed once; other
 * weights are packed in each call. Packing is counted as a copy with cause `weight`. */
status_t prepared_want_packed(context_t *ctx, prepared_t *prepared, int index, int64_t elements,
                              int version, int n_numbers, const int64_t *numbers)
    TESSERA_API(prepared_want_packed);

/* ---- running and inspecting ---- */

/* Appends a command line of benchdnn, oneDNN's test program, that repeats the call of oneDNN:
 * "./benchdnn --conv ...", in the syntax of the linked version. For kernels that do not call
 * oneDNN, appends "# native" or similar. No newline. */
void prepared_repro(const prepared_t *prepared, text_t *text) TESSERA_API(prepared_repro);

/* Infers dtype and sizes of the outputs without selecting a kernel. `out` has capacity
 * OP_MAX_OUTPUTS. */
status_t dispatch_infer(context_t *ctx, const opdef_t *op, const void *attrs, int n_in,
                        const tensor_info_t *const *in, int *out_n, tensor_info_t *out)
    TESSERA_API(dispatch_infer);

/* Number of multiplications and additions in the operator's formula, even if the kernel uses
 * another algorithm. 0 for operators without such a formula: those that move bytes, pool or sort.
 * Optional operands may be left out. attrs must be normalised (attrs_normalize). */
double dispatch_flops(const opdef_t *op, const void *attrs, int n_in,
                      const tensor_info_t *const *in, int n_out, const tensor_info_t *out)
    TESSERA_API(dispatch_flops);

/* Largest allowed difference between a kernel's result and the specification (opdef_t.spec) for one
 * element: a few units in the last place of the value in the output's dtype, plus the change of the
 * value when the inputs change by a few units. So a large error is allowed only where the formula
 * itself cancels digits. Where it does not, as in softplus(-20) or in an element of a softmax with
 * one large input, all digits must be correct. 0 for integers, infinities and NaN.
 *
 * The change of the value is measured with a few random changes of the inputs, or with more if
 * is_sure. For one element in thousands, a few trials find a bound that is ten times too small. So
 * if an error exceeds the bound, compute the bound again with is_sure. */
double dispatch_error_bound(const spec_call_t *call, int output, const int64_t *index,
                            double expected, bool is_sure) TESSERA_API(dispatch_error_bound);

/* Recomputes n random elements of every output with the specification (all elements if n is 0 or
 * too large). *out_error is the largest error divided by its bound; if all elements are correct, it
 * is at most 1. */
status_t dispatch_verify(context_t *ctx, const opdef_t *op, const void *attrs, int n_in,
                         const tensor_t *const *in, int n_out, const tensor_t *const *out,
                         int64_t n, double *out_error) TESSERA_API(dispatch_verify);

/* ---- observers ---- */

struct plan;

/* A finished call. Tensors are valid during the callback. A plan's tensors use the plan's memory:
 * do not read them later, even if you have retained them. */
typedef struct op_event {
    const opdef_t *op;
    const void *attrs; /* with defaults filled in */
    int n_in;
    const tensor_t *const *in;
    int n_out;
    tensor_t *const *out;
    tensor_t *target; /* for a call in place: in[0], into which out[0] will be written; else NULL */
    const prepared_t *prepared;
    uint64_t begin;      /* when the call began (context_now) */
    uint64_t ns;         /* wall clock of the call, including conversions of its inputs */
    bool is_planned;     /* a step of a plan (compiled graph); then ns is the kernel's time */
    int slice, n_slices; /* a plan may run a step several times, each time for a part (slice) of the
                            batch: index of this slice, and number of slices. 0 and 1 if the step
                            runs once; 0 and 0 outside plans */
    struct plan *plan;   /* the plan that runs the step; NULL outside plans */
    int step;            /* index of the step for plan_step */
} op_event_t;

/* Receives each operator that dispatch or a plan runs. If a callback fails, the call fails; but if
 * `written` fails, the target has already been written. */
typedef struct observer {
    void *user;
    status_t (*op_end)(context_t *ctx, void *user, const op_event_t *event);
    /* Called after op_end for a call in place, when the target has its new elements. May be
     * NULL. */
    status_t (*written)(context_t *ctx, void *user, tensor_t *target);
    /* Called after each reorder or copy. Outside plans this is before op_end of the operator that
     * needs the conversion; in a plan it is between steps. May be NULL. */
    void (*converted)(context_t *ctx, void *user, const conversion_t *conversion);
    void (*module_enter)(context_t *ctx, void *user, const char *path);
    void (*module_leave)(context_t *ctx, void *user, const char *path);
    /* Set this if op_end does not read elements of inputs. A step of a plan may overwrite an input;
     * the plan then copies the input before the step, so that op_end can read it, which takes time
     * and affects the CPU caches. If all observers with an op_end set this field, the plan makes no
     * copies. */
    bool ignores_inputs;
    struct observer *next; /* set by dispatch */
} observer_t;

/* Add and remove an observer, which must exist until it is removed. */
status_t dispatch_add_observer(context_t *ctx, observer_t *observer)
    TESSERA_API(dispatch_add_observer);
void dispatch_remove_observer(context_t *ctx, observer_t *observer)
    TESSERA_API(dispatch_remove_observer);

/* Tell the observers that the module at `path` begins or ends. They do nothing if path is NULL. */
void dispatch_enter_module(context_t *ctx, const char *path) TESSERA_API(dispatch_enter_module);
void dispatch_leave_module(context_t *ctx, const char *path) TESSERA_API(dispatch_leave_module);

/* Empties the context's cache of prepared operators. */
void dispatch_clear_cache(context_t *ctx) TESSERA_API(dispatch_clear_cache);

#endif
