/* Between selection, its cache and running. */
#ifndef TESSERA_DISPATCH_SELECT_IMPL_H
#define TESSERA_DISPATCH_SELECT_IMPL_H

#include "dispatch/prepared_impl.h"

/* Room for the attributes of any operator. */
#define ATTRS_MAX 1024

/* attrs_normalize of an operator that may be a user's: refuses one without what dispatch needs, and
 * attributes for which there is no room. out_normalised has ATTRS_MAX bytes. */
status_t select_attrs(context_t *ctx, const opdef_t *op, const void *attrs, void *out_normalised);

status_t prepared_create(context_t *ctx, const opdef_t *op, const void *attrs, int n_in, int n_out,
                         prepared_t **out_prepared);

/* Ends the making: what becomes of each input, given what was asked, and how large the outputs are.
 */
status_t prepared_settle(context_t *ctx, prepared_t *prepared, const tensor_info_t *const *asked);

/* Drops what a kernel that declined had filled in; reasons stay. */
void prepared_reset(prepared_t *prepared);

/* The operand of an input by position: its declared one, the variadic last one, or that of a
 * post-op. */
const operand_t *select_operand(const opdef_t *op, int index);

/* Whether the call has post-ops; and prepares a kernel without them, which are then computed behind
 * it. */
bool peel_is_due(const op_call_t *call);
/* The same behind a kernel that left some post-ops by post_leave. */
void peel_rest(prepared_t *prepared);
status_t peel_prepare(context_t *ctx, const op_call_t *call, const kernel_t *kernel,
                      prepared_t *prepared);

/* dispatch_select and dispatch_select_fixed for who knows what becomes of the weights, which these
 * take for given, and, unless it is NULL, which of the operator's kernels it shall be;
 * select_prepared without normalising. */
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

/* dispatch_infer of normalised attributes; what is checked of the outputs is their sizes, too. */
status_t select_infer(context_t *ctx, op_call_t *call, int *out_n, tensor_info_t *out);

/* dispatch_infer of a call whose sizes, and attributes that are integers, may be symbolic in the
 * context's space (tensor/sym.h); the caller has normalised nothing, and fills in op, attrs, in
 * and, for an operator with TRAIT_MEASURES, data. Tensors with symbolic sizes are dense and
 * contiguous: their strides are not read, those of results say nothing.
 *
 * Guards of the space say for which sizes the result holds. *out_is_pinned: only for the hints,
 * which guards say then; an operator of a user's does that (opdef_t.infers_symbols). The error is
 * the one that the rule gives for the hints. Where a size has no hint, the result is symbolic, or
 * UNSUPPORTED says what had to be known. */
status_t dispatch_infer_symbolic(context_t *ctx, const op_call_t *given, int *out_n,
                                 tensor_info_t *out, bool *out_is_pinned);

/* What the policy says to an operator with TRAIT_MEASURES, which reads dense tensors: UNSUPPORTED
 * for mkldnn ones where nothing may be converted. */
status_t select_may_measure(context_t *ctx, const opdef_t *op, int n_in,
                            const tensor_info_t *const *given, policy_t policy);

/* A kernel for an operator with TRAIT_MEASURES on these elements of inputs `in`, which are
 * row-major; the policy looks at those that were given. */
status_t select_measured(context_t *ctx, const opdef_t *op, const void *attrs, int n_in,
                         const tensor_info_t *const *given, const tensor_info_t *const *in,
                         const void *const *data, policy_t policy, prepared_t **out_prepared);

/* A call as it is looked up in the context's cache. */
typedef struct cache_call {
    const opdef_t *op;
    const void *given; /* attributes as the caller wrote them */
    const void *attrs; /* the same, normalised */
    int n_in;
    const tensor_t *const *in; /* NULL: absent */
    weight_use_t weights;
    policy_t policy;
    const format_t *out_format; /* a tag, or NULL */
    int n_threads;
} cache_call_t;

/* The context's cache: the entry of a call's metadata, which is there until cache_leave even if it
 * loses its place meanwhile: a kernel may run operators, an observer may clear the cache. With
 * out_format as dispatch_select_fixed where that can be, else as dispatch_select.
 * cache_recall looks at neither call->attrs nor infos: it gives the entry of a call that was made
 * lately, written alike, on inputs of the same stamps; or NULL, and cache_enter is to be called. */
typedef struct cache cache_t;
typedef struct cache_entry cache_entry_t;
status_t cache_of(context_t *ctx, cache_t **out_cache);
cache_entry_t *cache_recall(context_t *ctx, cache_t *cache, const cache_call_t *call);
status_t cache_enter(context_t *ctx, cache_t *cache, const cache_call_t *call,
                     cache_entry_t **out_entry);
prepared_t *cache_prepared(const cache_entry_t *entry);
void cache_leave(context_t *ctx, cache_entry_t *entry);

/* Whether an observer, or the trace, is to be told of calls; and whether an observer reads elements
 * of inputs. */
status_t dispatch_is_watched(context_t *ctx, bool *out_is_watched, bool *out_shows_inputs);
/* Tells them of a call that somebody else ran, a step of a plan. */
status_t dispatch_tell(context_t *ctx, const op_event_t *event);

/* dispatch_run for who knows what comes in and what is wanted: under policy auto, activations are
 * taken as they are and the result has the tag out_format, if a kernel does that. It may be NULL.
 * weights: WEIGHT_CONSTANT where it is known that they are; of weights that module_mkldnn or a plan
 * marked, whose forms are kept, that says more than WEIGHT_KEPT. */
status_t dispatch_run_as(context_t *ctx, const opdef_t *op, const void *attrs, int n_in,
                         const tensor_t *const *in, weight_use_t weights,
                         const format_t *out_format, int *n_out, tensor_t **out);

/* Refuses what is no policy. */
status_t policy_check(context_t *ctx, const char *op, policy_t policy);

#endif
