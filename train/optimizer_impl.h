/* The optimizer struct, and steps on some of its tensors. */
#ifndef TESSERA_TRAIN_OPTIMIZER_IMPL_H
#define TESSERA_TRAIN_OPTIMIZER_IMPL_H

#include "kernels/optimizer/update_impl.h"
#include "tensor/context_impl.h"
#include "train/optimizer.h"

/* How parameters are updated: the options of all kinds; each kind uses its own. */
typedef struct update_rule {
    update_kind_t kind;
    const char *state_names[UPDATE_MAX_STATES]; /* NULL: not needed with these options */
    double lr, weight_decay;
    double momentum, dampening;     /* SGD, RMSprop */
    double beta1, beta2, eps;       /* Adam; RMSprop uses beta2 for alpha */
    bool is_nesterov, is_decoupled; /* SGD; Adam */
} update_rule_t;

update_rule_t update_sgd_rule(const sgd_options_t *options);
update_rule_t update_adam_rule(const adam_options_t *options);
update_rule_t update_rmsprop_rule(const rmsprop_options_t *options);

/* Check that options are in range; `op` starts the message. */
status_t update_check_sgd(context_t *ctx, const char *op, const sgd_options_t *options);
status_t update_check_adam(context_t *ctx, const char *op, const adam_options_t *options);
status_t update_check_rmsprop(context_t *ctx, const char *op, const rmsprop_options_t *options);

typedef struct optimizer_entry {
    char *name;
    tensor_info_t info; /* the parameter's dtype and sizes at creation */
    int64_t n_updates;
    tensor_t *state[UPDATE_MAX_STATES];
} optimizer_entry_t;

struct optimizer {
    allocator_t allocator;
    module_t *module;
    const char *kind;
    update_rule_t rule;
    int64_t n_steps;
    uint64_t changes; /* module_changes when parameters were last checked for shared bytes */
    int n;
    int capacity;
    optimizer_entry_t *entries;
};

/* Finds an entry's parameter. INVALID_ARGUMENT if it is absent or has another dtype or sizes. */
status_t optimizer_find(context_t *ctx, const char *op, const optimizer_t *optimizer, int index,
                        tensor_t **out_parameter);

/* ---- state as a dict ---- */

/* Adds the entries of optimizer_state_dict to dict, with a prefix before each name. If is_dense is
 * false, the state tensors themselves are added, in their format. */
status_t optimizer_put_state(context_t *ctx, const optimizer_t *optimizer, const char *prefix,
                             bool is_dense, datum_t *dict);

/* New state of an optimizer, complete and checked; entries hold only n_updates and state. */
typedef struct optimizer_loaded {
    const optimizer_t *optimizer;
    const datum_t *dict;
    double lr;
    int64_t n_steps;
    optimizer_entry_t *entries;
} optimizer_loaded_t;

/* Read and check a dict; make the optimizer take the new state, which cannot fail; release what
 * remains. Call optimizer_drop_state in both cases. */
status_t optimizer_read_state(context_t *ctx, const optimizer_t *optimizer, const datum_t *dict,
                              optimizer_loaded_t *out_loaded);
void optimizer_take_state(optimizer_t *optimizer, optimizer_loaded_t *loaded);
void optimizer_drop_state(context_t *ctx, optimizer_loaded_t *loaded);

/* ---- one step of some tensors: all that can fail is done first, then the loops run ---- */

/* A gradient that arrives in slices of `size` indices along dimension `dim`; the last slice may be
 * smaller. size 0: it arrives complete.
 *
 * is_product: the gradient itself never arrives. The caller passes rows of x and grad, whose
 * product it is. The step computes it tile by tile, so that each tile stays in the cache. The
 * gradient of a bias is the sum of the rows of grad. */
typedef struct step_slices {
    int dim;
    int64_t size;
    bool is_product;
} step_slices_t;

/* A parameter, its gradient and its state during a step. */
typedef struct step_item {
    tensor_t *parameter;
    const tensor_t *gradient; /* NULL: passed later to step_late */
    tensor_info_t given;      /* info of the gradient */
    step_slices_t slices;
    bool is_written;       /* the gradient shares bytes with a parameter of the step */
    int64_t step;          /* counts from 1 */
    tensor_t **state;      /* [UPDATE_MAX_STATES]; NULL: created here if the rule needs it */
    tensor_info_t want;    /* the format in which the step is computed */
    tensor_t *gradient_as; /* the gradient converted to `want`, if it differs */
    tensor_t *plain;       /* gapless copy of a parameter with gaps; copied back at the end */
    void *gapped;          /* bytes of that parameter */
    tensor_t *fresh[UPDATE_MAX_STATES]; /* state that was created or converted */
    update_t update;
} step_item_t;

/* A step in parts, for gradients that arrive one by one and share no bytes with parameters.
 * step_begin does everything that can fail, and changes no element. step_late updates one item from
 * its gradient, which must match `given`; it fails only if the gradient has to be converted.
 * step_end releases what is left. Use it only for parameters that step_may_be_late.
 *
 * A gradient may arrive in slices, first to last, each like step_slice_info(&given, ..), or as a
 * product of plain rows (step_product; x is NULL for a bias). Use these only for parameters and
 * gradients that step_may_slice. */
status_t step_begin(context_t *ctx, const char *op, const update_rule_t *rule, bool may_convert,
                    int n, step_item_t *items);
status_t step_late(context_t *ctx, const update_rule_t *rule, step_item_t *item, int64_t first,
                   const tensor_t *gradient);
status_t step_product(context_t *ctx, const update_rule_t *rule, step_item_t *item,
                      const tensor_t *x, const tensor_t *grad);
void step_end(int n, step_item_t *items);
bool step_may_be_late(const tensor_t *parameter);
bool step_may_slice(const tensor_t *parameter, const tensor_info_t *gradient, step_slices_t slices);

/* step_lies_in_slices: true if each slice is one contiguous run of bytes. step_slice_info: the info
 * of n indices of such a tensor. */
bool step_lies_in_slices(const tensor_info_t *info, step_slices_t slices);
tensor_info_t step_slice_info(const tensor_info_t *info, step_slices_t slices, int64_t n);
bool step_is_last(const step_item_t *item, int64_t first);

/* Runs a complete step; `op` starts messages. Creates missing state. With may_convert false, state
 * in another format than the step's is an error. On failure nothing has changed. */
status_t step_run(context_t *ctx, const char *op, const update_rule_t *rule, bool may_convert,
                  int n, step_item_t *items);

/* ---- a step whose gradients arrive one by one ---- */

typedef struct optimizer_run {
    step_item_t *items;
    int *item_of; /* [parameters] index of its item; -1: no gradient */
    int n_items, n_begun, n_done;
} optimizer_run_t;

/* Call optimizer_begin, which does everything that can fail, then for each parameter, in any order,
 * optimizer_late (once, or once per slice) or optimizer_product, and always optimizer_end. The step
 * counts as made if all gradients arrived. gradients [parameters] describes each gradient; dtype
 * DTYPE_NONE: none. slices [parameters] describes its slices. Errors as optimizer_step. Gradients
 * must not share bytes with parameters. */
status_t optimizer_begin(context_t *ctx, optimizer_t *optimizer, const tensor_info_t *gradients,
                         const step_slices_t *slices, optimizer_run_t *out_run);
status_t optimizer_late(context_t *ctx, const optimizer_t *optimizer, optimizer_run_t *run,
                        int index, int64_t first, const tensor_t *gradient);
status_t optimizer_product(context_t *ctx, const optimizer_t *optimizer, optimizer_run_t *run,
                           int index, const tensor_t *x, const tensor_t *grad);
void optimizer_end(context_t *ctx, optimizer_t *optimizer, optimizer_run_t *run);

#endif
