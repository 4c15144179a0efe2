/* The optimizer struct, and its steps. Gradients either are all passed at once (step_run), or
 * arrive one by one during a backward pass (step_begin, step_late; optimizer_begin,
 * optimizer_late). */
#ifndef TESSERA_TRAIN_OPTIMIZER_IMPL_H
#define TESSERA_TRAIN_OPTIMIZER_IMPL_H

#include "kernels/optimizer/update_impl.h"
#include "tensor/context_impl.h"
#include "train/optimizer.h"

/* How parameters are updated: the options of all kinds of optimizers. Each kind reads only its own
 * options. */
typedef struct update_rule {
    update_kind_t kind;
    const char *state_names[UPDATE_MAX_STATES]; /* NULL: no (further) state is needed */
    double lr, weight_decay;
    double momentum, dampening;     /* SGD, RMSprop */
    double beta1, beta2, eps;       /* Adam; RMSprop uses beta2 for alpha */
    bool is_nesterov, is_decoupled; /* is_nesterov: SGD; is_decoupled: Adam */
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

/* Finds the parameter of entry `index`. Fails with INVALID_ARGUMENT if it has been removed from the
 * module, or if its dtype or sizes have changed. */
status_t optimizer_find(context_t *ctx, const char *op, const optimizer_t *optimizer, int index,
                        tensor_t **out_parameter);

/* ---- state as a dict ---- */

/* Adds the entries of optimizer_state_dict to dict, with a prefix before each name. If is_dense is
 * false, adds the state tensors themselves, in their own formats, instead of dense copies. */
status_t optimizer_put_state(context_t *ctx, const optimizer_t *optimizer, const char *prefix,
                             bool is_dense, datum_t *dict);

/* State that was read from a dict and checked. The entries have only n_updates and state. */
typedef struct optimizer_loaded {
    const optimizer_t *optimizer;
    const datum_t *dict;
    double lr;
    int64_t n_steps;
    optimizer_entry_t *entries;
} optimizer_loaded_t;

/* optimizer_read_state reads and checks a dict. optimizer_take_state gives the state to the
 * optimizer, which cannot fail. Always call optimizer_drop_state at the end; it releases what is
 * left. */
status_t optimizer_read_state(context_t *ctx, const optimizer_t *optimizer, const datum_t *dict,
                              optimizer_loaded_t *out_loaded);
void optimizer_take_state(optimizer_t *optimizer, optimizer_loaded_t *loaded);
void optimizer_drop_state(context_t *ctx, optimizer_loaded_t *loaded);

/* ---- one step of some tensors: first all that can fail, then the loops ---- */

/* How a gradient arrives: complete if size is 0; otherwise in slices, each of `size` indices along
 * dimension `dim` (the last slice may have fewer).
 *
 * is_product: the step gets not the gradient but the two matrices whose product it is: the rows of
 * x and of grad. It computes the product tile by tile, so that each tile stays in the cache. For a
 * bias, it sums the rows of grad. */
typedef struct step_slices {
    int dim;
    int64_t size;
    bool is_product;
} step_slices_t;

/* A parameter in a step, with its gradient and its state. */
typedef struct step_item {
    tensor_t *parameter;
    const tensor_t *gradient; /* NULL: passed later to step_late */
    tensor_info_t given;      /* dtype, sizes and format of the gradient */
    step_slices_t slices;
    bool is_written;       /* the gradient shares bytes that the step writes */
    int64_t step;          /* counts from 1 */
    tensor_t **state;      /* [UPDATE_MAX_STATES]; if NULL, created here if needed */
    tensor_info_t want;    /* the format in which the loops run */
    tensor_t *gradient_as; /* the gradient converted to `want`, if it differs */
    tensor_t *plain;       /* copy without gaps of a parameter with gaps; copied back at the end */
    void *gapped;          /* bytes of the parameter with gaps */
    tensor_t *fresh[UPDATE_MAX_STATES]; /* state that was created or converted */
    update_t update;
} step_item_t;

/* A step for gradients that arrive one by one and share no bytes with parameters. step_begin does
 * all that can fail, and changes no element. step_late updates one item with its gradient, which
 * must match `given`; it can fail only if the gradient has to be converted. step_end releases
 * temporary memory. Parameters must satisfy step_may_be_late.
 *
 * If step_may_slice is true for a parameter and its gradient, the gradient may arrive in slices, in
 * order, each as described by step_slice_info(&given, ..); or as two row-major matrices whose
 * product it is (step_product; x is NULL for a bias). */
status_t step_begin(context_t *ctx, const char *op, const update_rule_t *rule, bool may_convert,
                    int n, step_item_t *items);
status_t step_late(context_t *ctx, const update_rule_t *rule, step_item_t *item, int64_t first,
                   const tensor_t *gradient);
status_t step_product(context_t *ctx, const update_rule_t *rule, step_item_t *item,
                      const tensor_t *x, const tensor_t *grad);
void step_end(int n, step_item_t *items);
bool step_may_be_late(const tensor_t *parameter);
bool step_may_slice(const tensor_t *parameter, const tensor_info_t *gradient, step_slices_t slices);

/* step_lies_in_slices returns true if each slice of the tensor is contiguous in memory.
 * step_slice_info describes a slice of n indices. step_is_last returns true if the slice that
 * starts at `first` is the last one. */
bool step_lies_in_slices(const tensor_info_t *info, step_slices_t slices);
tensor_info_t step_slice_info(const tensor_info_t *info, step_slices_t slices, int64_t n);
bool step_is_last(const step_item_t *item, int64_t first);

/* Runs a complete step. Error messages begin with `op`. Creates missing state. State in another
 * format than the step's is converted if may_convert, else it is an error. On failure nothing has
 * changed. */
status_t step_run(context_t *ctx, const char *op, const update_rule_t *rule, bool may_convert,
                  int n, step_item_t *items);

/* ---- a step whose gradients arrive one by one ---- */

typedef struct optimizer_run {
    step_item_t *items;
    int *item_of; /* [parameters] index in items; -1: the parameter has no gradient */
    int n_items, n_begun, n_done;
} optimizer_run_t;

/* Call optimizer_begin, which does all that can fail; then, for each parameter in any order,
 * optimizer_late (once, or once for each slice) or optimizer_product; and in any case
 * optimizer_end. The step is counted if all gradients arrived. gradients [parameters] describes the
 * gradients (DTYPE_NONE: there is none). slices [parameters] describes their slices. Gradients must
 * not share bytes with parameters. Errors as for optimizer_step. */
status_t optimizer_begin(context_t *ctx, optimizer_t *optimizer, const tensor_info_t *gradients,
                         const step_slices_t *slices, optimizer_run_t *out_run);
status_t optimizer_late(context_t *ctx, const optimizer_t *optimizer, optimizer_run_t *run,
                        int index, int64_t first, const tensor_t *gradient);
status_t optimizer_product(context_t *ctx, const optimizer_t *optimizer, optimizer_run_t *run,
                           int index, const tensor_t *x, const tensor_t *grad);
void optimizer_end(context_t *ctx, optimizer_t *optimizer, optimizer_run_t *run);

#endif
