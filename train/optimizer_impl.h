/* The optimizer struct, and steps on some of its tensors. */
#ifndef TESSERA_TRAIN_OPTIMIZER_IMPL_H
#define TESSERA_TRAIN_OPTIMIZER_IMPL_H

#include "kernels/optimizer/update_impl.h"
#include "tensor/context_impl.h"
#include "train/optimizer.h"

/* How parameters are updated: the options of all kinds. Each kind uses its own. */
typedef struct update_rule {
    update_kind_t kind;
    const char *state_names[UPDATE_MAX_STATES]; /* NULL: these options need no further state */
    double lr, weight_decay;
    double momentum, dampening;     /* SGD, RMSprop */
    double beta1, beta2, eps;       /* Adam; RMSprop uses beta2 for alpha */
    bool is_nesterov, is_decoupled; /* SGD; Adam */
} update_rule_t;

update_rule_t update_sgd_rule(const sgd_options_t *options);
update_rule_t update_adam_rule(const adam_options_t *options);
update_rule_t update_rmsprop_rule(const rmsprop_options_t *options);

/* Check that options are in range. Error messages begin with `op`. */
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
    uint64_t changes; /* module_changes() at the last check for shared bytes */
    int n;
    int capacity;
    optimizer_entry_t *entries;
};

/* Finds the parameter of entry `index`. INVALID_ARGUMENT if the module does not have it any more,
 * or with another dtype or sizes. */
status_t optimizer_find(context_t *ctx, const char *op, const optimizer_t *optimizer, int index,
                        tensor_t **out_parameter);

/* ---- state as a dict ---- */

/* Adds the entries of optimizer_state_dict to dict, with a prefix before each name. If is_dense is
 * false, adds the state tensors themselves, in their own format. */
status_t optimizer_put_state(context_t *ctx, const optimizer_t *optimizer, const char *prefix,
                             bool is_dense, datum_t *dict);

/* State that was read from a dict and checked. Only n_updates and state of the entries are set. */
typedef struct optimizer_loaded {
    const optimizer_t *optimizer;
    const datum_t *dict;
    double lr;
    int64_t n_steps;
    optimizer_entry_t *entries;
} optimizer_loaded_t;

/* Read and check a dict; make the optimizer take the new state, which cannot fail; release the
 * rest. Always call optimizer_drop_state at the end. */
status_t optimizer_read_state(context_t *ctx, const optimizer_t *optimizer, const datum_t *dict,
                              optimizer_loaded_t *out_loaded);
void optimizer_take_state(optimizer_t *optimizer, optimizer_loaded_t *loaded);
void optimizer_drop_state(context_t *ctx, optimizer_loaded_t *loaded);

/* ---- one step of some tensors: first does all that can fail, then runs the loops ---- */

/* How a gradient arrives: in slices of `size` indices along dimension `dim`, the last of which may
 * be smaller; or complete, if size is 0.
 *
 * is_product: the gradient itself never arrives, but its factors: rows of x and grad. The step
 * computes their product tile by tile, so that each tile stays in the cache. For a bias, it sums
 * the rows of grad. */
typedef struct step_slices {
    int dim;
    int64_t size;
    bool is_product;
} step_slices_t;

/* A parameter in a step, with its gradient and its state. */
typedef struct step_item {
    tensor_t *parameter;
    const tensor_t *gradient; /* NULL: passed later to step_late */
    tensor_info_t given;      /* info of the gradient */
    step_slices_t slices;
    bool is_written;       /* the gradient shares bytes with a parameter that is updated */
    int64_t step;          /* counts from 1 */
    tensor_t **state;      /* [UPDATE_MAX_STATES]; if NULL, created here if needed */
    tensor_info_t want;    /* the format in which the loops run */
    tensor_t *gradient_as; /* the gradient converted to `want`, if it differs */
    tensor_t *plain;       /* copy without gaps of a parameter with gaps; copied back at the end */
    void *gapped;          /* memory of that parameter */
    tensor_t *fresh[UPDATE_MAX_STATES]; /* state that was created or converted */
    update_t update;
} step_item_t;

/* A step for gradients that arrive one by one and share no bytes with parameters. step_begin does
 * all that can fail, and changes no element. step_late updates one item with its gradient, which
 * must match `given`; it can fail only if the gradient has to be converted. step_end releases what
 * is left. All of this is for parameters for which step_may_be_late is true.
 *
 * If step_may_slice is true for a parameter and its gradient, the gradient may arrive in slices,
 * first to last, each like step_slice_info(&given, ..), or as a product of plain rows
 * (step_product; x is NULL for a bias). */
status_t step_begin(context_t *ctx, const char *op, const update_rule_t *rule, bool may_convert,
                    int n, step_item_t *items);
status_t step_late(context_t *ctx, const update_rule_t *rule, step_item_t *item, int64_t first,
                   const tensor_t *gradient);
status_t step_product(context_t *ctx, const update_rule_t *rule, step_item_t *item,
                      const tensor_t *x, const tensor_t *grad);
void step_end(int n, step_item_t *items);
bool step_may_be_late(const tensor_t *parameter);
bool step_may_slice(const tensor_t *parameter, const tensor_info_t *gradient, step_slices_t slices);

/* step_lies_in_slices: true if each slice of the tensor is contiguous. step_slice_info: describes n
 * indices of the tensor. */
bool step_lies_in_slices(const tensor_info_t *info, step_slices_t slices);
tensor_info_t step_slice_info(const tensor_info_t *info, step_slices_t slices, int64_t n);
bool step_is_last(const step_item_t *item, int64_t first);

/* Runs a complete step. Messages begin with `op`. Creates missing state. If may_convert is false,
 * state that does not have the step's format is an error. On failure nothing has changed. */
status_t step_run(context_t *ctx, const char *op, const update_rule_t *rule, bool may_convert,
                  int n, step_item_t *items);

/* ---- a step whose gradients arrive one by one ---- */

typedef struct optimizer_run {
    step_item_t *items;
    int *item_of; /* [parameters] index of the parameter's item; -1: no gradient */
    int n_items, n_begun, n_done;
} optimizer_run_t;

/* A step with gradients that arrive one by one. Call optimizer_begin, which does all that can fail;
 * then, for each parameter in any order, optimizer_late (once, or once for each slice) or
 * optimizer_product; and in any case optimizer_end. The step is counted if all gradients arrived.
 * gradients [parameters] describes the gradients (DTYPE_NONE: there is none). slices [parameters]
 * describes their slices. Gradients must not share bytes with parameters. Errors as for
 * optimizer_step. */
status_t optimizer_begin(context_t *ctx, optimizer_t *optimizer, const tensor_info_t *gradients,
                         const step_slices_t *slices, optimizer_run_t *out_run);
status_t optimizer_late(context_t *ctx, const optimizer_t *optimizer, optimizer_run_t *run,
                        int index, int64_t first, const tensor_t *gradient);
status_t optimizer_product(context_t *ctx, const optimizer_t *optimizer, optimizer_run_t *run,
                           int index, const tensor_t *x, const tensor_t *grad);
void optimizer_end(context_t *ctx, optimizer_t *optimizer, optimizer_run_t *run);

#endif
