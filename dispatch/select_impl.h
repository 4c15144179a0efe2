/* Functions that select kernels, and the cache of selected (prepared) operators. */
#ifndef TESSERA_DISPATCH_SELECT_IMPL_H
#define TESSERA_DISPATCH_SELECT_IMPL_H

#include "dispatch/prepared_impl.h"

/* Largest attribute struct, in bytes. */
#define ATTRS_MAX 1024

/* Like attrs_normalize, for an operator that a user may have defined: fails if the definition lacks
 * fields that dispatch needs, or if its attributes exceed ATTRS_MAX bytes, the size of
 * out_normalised. */
status_t select_attrs(context_t *ctx, const opdef_t *op, const void *attrs, void *out_normalised);

status_t prepared_create(context_t *ctx, const opdef_t *op, const void *attrs, int n_in, int n_out,
                         prepared_t **out_prepared);

/* Completes a prepared operator: sets how inputs with the infos `asked` are converted for the
 * kernel, and the sizes of the outputs in bytes. */
status_t prepared_settle(context_t *ctx, prepared_t *prepared, const tensor_info_t *const *asked);

/* Clears the fields that a kernel set before it declined; keeps the reasons. */
void prepared_reset(prepared_t *prepared);

/* Returns the operand's description for input `index`: a declared operand, the last one if it is
 * variadic, or an operand of a post-op. */
const operand_t *select_operand(const opdef_t *op, int index);

/* True if the operand is in a grouped format that the operator's kernels read
 * (TRAIT_READS_GROUPED). */
bool select_reads_grouped(const opdef_t *op, int index, const tensor_info_t *info);

/* Peeled post-ops are those that the kernel does not compute; dispatch applies them to its result.
 * peel_is_due returns true if the call has post-ops. */
bool peel_is_due(const op_call_t *call);
/* peel_rest peels the post-ops that the kernel excluded with post_leave. peel_prepare prepares a
 * kernel for the call without post-ops, and peels all of them. */
void peel_rest(prepared_t *prepared);
status_t peel_prepare(context_t *ctx, const op_call_t *call, const kernel_t *kernel,
                      prepared_t *prepared);

/* Like dispatch_select and dispatch_select_fixed, but with any weight_use_t instead of
 * WEIGHT_GIVEN. `kernel`: the only kernel to try, or NULL. select_prepared is select_for_weights
 * for attributes that are already normalised. */
status_t select_for_weights(context_t *ctx, const opdef_t *op, const void *attrs, int n_in,
                            const tensor_info_t *const *in, weight_use_t weights, policy_t policy,
                            prepared_t **out_prepared);
status_t select_fixed(context_t *ctx, const opdef_t *op, const void *attrs, int n_in,
                      const tensor_info_t *const *in, weight_use_t weights, layout_t layout,
                      const format_t *out_format, const kernel_t *kernel,
                      prepared_t **out_prepared);
status_t select_prepared(context_t *ctx, const opdef_t *op, const void *attrs, int n_in,
                         const tensor_info_t *const *in, weight_use_t weights, policy_t policy,
                         prepared_t **out_prepared);

/* Like dispatch_infer, for normalised attributes; also checks the outputs' sizes. */
status_t select_infer(context_t *ctx, op_call_t *call, int *out_n, tensor_info_t *out);

/* Like dispatch_infer, for a call with symbolic sizes or integer attributes (tensor/sym/sym.h). The
 * caller sets op, attrs (not normalised), in and, for TRAIT_MEASURES, data. Tensors with symbolic
 * sizes are dense and contiguous; their strides are ignored, and strides of results are
 * meaningless.
 *
 * The result holds for all sizes that satisfy the guards of the current space. Sets *out_is_pinned
 * if the guards allow only the sizes of the hints, as for users' operators without infers_symbols.
 * Errors are those that `infer` reports for the hints. If a size has no hint and `infer` needs its
 * value, fails with UNSUPPORTED; the message names the size. */
status_t dispatch_infer_symbolic(context_t *ctx, const op_call_t *given, int *out_n,
                                 tensor_info_t *out, bool *out_is_pinned);

/* Applies the policy to an operator with TRAIT_MEASURES, which needs dense tensors: fails with
 * UNSUPPORTED if a tensor is mkldnn and the policy forbids conversion. */
status_t select_may_measure(context_t *ctx, const opdef_t *op, int n_in,
                            const tensor_info_t *const *given, policy_t policy);

/* Selects a kernel for an operator with TRAIT_MEASURES, given the row-major elements of the inputs
 * `in`. The policy applies to the inputs `given`. */
status_t select_measured(context_t *ctx, const opdef_t *op, const void *attrs, int n_in,
                         const tensor_info_t *const *given, const tensor_info_t *const *in,
                         const void *const *data, policy_t policy, prepared_t **out_prepared);

/* A call, as a key for the context's cache. */
typedef struct cache_call {
    const opdef_t *op;
    const void *given; /* attributes as the caller wrote them */
    const void *attrs; /* the same with defaults filled in */
    int n_in;
    const tensor_t *const *in; /* NULL: absent */
    weight_use_t weights;
    policy_t policy;
    const format_t *out_format; /* a tag, or NULL */
    int n_threads;
} cache_call_t;

/* The context's cache of prepared operators. cache_enter returns the entry for a call, and selects
 * a kernel if there is none: with out_format as dispatch_select_fixed does, if possible, else as
 * dispatch_select. The entry stays valid until cache_leave, even if it is evicted meanwhile because
 * the kernel runs other operators or an observer clears the cache. cache_recall is faster: it finds
 * a recent call (recent_impl.h) without reading call->attrs or infos. If it returns NULL, call
 * cache_enter. */
typedef struct cache cache_t;
typedef struct cache_entry cache_entry_t;
status_t cache_of(context_t *ctx, cache_t **out_cache);
cache_entry_t *cache_recall(context_t *ctx, cache_t *cache, const cache_call_t *call);
status_t cache_enter(context_t *ctx, cache_t *cache, const cache_call_t *call,
                     cache_entry_t **out_entry);
prepared_t *cache_prepared(const cache_entry_t *entry);
void cache_leave(context_t *ctx, cache_entry_t *entry);

/* Sets *out_is_watched if calls must be reported to an observer or the trace, and *out_shows_inputs
 * if an observer reads elements of inputs. */
status_t dispatch_is_watched(context_t *ctx, bool *out_is_watched, bool *out_shows_inputs);
/* Reports a call that dispatch did not run, such as a step of a plan. */
status_t dispatch_tell(context_t *ctx, const op_event_t *event);

/* Like dispatch_run, with more information. If a kernel supports it, then under policy auto
 * activations are not reordered, and the result has the tag out_format (may be NULL). weights:
 * WEIGHT_CONSTANT if the weights are known to be constant; for weights whose packed forms are kept
 * (pack_impl.h), this replaces WEIGHT_KEPT. */
status_t dispatch_run_as(context_t *ctx, const opdef_t *op, const void *attrs, int n_in,
                         const tensor_t *const *in, weight_use_t weights,
                         const format_t *out_format, int *n_out, tensor_t **out);

/* Fails if the value is not a policy. */
status_t policy_check(context_t *ctx, const char *op, policy_t policy);

#endif
