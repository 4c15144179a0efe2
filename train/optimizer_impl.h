/* The inside of an optimizer. */
#ifndef TESSERA_TRAIN_OPTIMIZER_IMPL_H
#define TESSERA_TRAIN_OPTIMIZER_IMPL_H

#include "tensor/context_impl.h"
#include "train/optimizer.h"
#include "train/update_impl.h"

/* How parameters are updated: the options of all kinds, of which each reads its own. */
typedef struct update_rule {
    update_kind_t kind;
    const char *state_names[UPDATE_MAX_STATES]; /* NULL: the options ask for none */
    double lr, weight_decay;
    double momentum, dampening;     /* SGD, RMSprop */
    double beta1, beta2, eps;       /* Adam; RMSprop's alpha is beta2 */
    bool is_nesterov, is_decoupled; /* SGD; Adam */
} update_rule_t;

update_rule_t update_sgd_rule(const sgd_options_t *options);
update_rule_t update_adam_rule(const adam_options_t *options);
update_rule_t update_rmsprop_rule(const rmsprop_options_t *options);

/* Refuses options out of range; `op` begins the message. */
status_t update_check_sgd(context_t *ctx, const char *op, const sgd_options_t *options);
status_t update_check_adam(context_t *ctx, const char *op, const adam_options_t *options);
status_t update_check_rmsprop(context_t *ctx, const char *op, const rmsprop_options_t *options);

typedef struct optimizer_entry {
    char *name;
    tensor_info_t info; /* of the parameter when the optimizer was made: dtype and sizes */
    int64_t n_updates;
    tensor_t *state[UPDATE_MAX_STATES];
} optimizer_entry_t;

struct optimizer {
    allocator_t allocator;
    module_t *module;
    const char *kind;
    update_rule_t rule;
    int64_t n_steps;
    uint64_t changes; /* module_changes when parameters were last seen to be apart */
    int n;
    int capacity;
    optimizer_entry_t *entries;
};

/* The parameter of an entry; INVALID_ARGUMENT where the module has none of its dtype and sizes. */
status_t optimizer_find(context_t *ctx, const char *op, const optimizer_t *optimizer, int index,
                        tensor_t **out_parameter);

/* ---- state as a dict ---- */

/* What optimizer_state_dict has, under names behind a prefix; not is_dense: state is shared, in its
 * format. */
status_t optimizer_put_state(context_t *ctx, const optimizer_t *optimizer, const char *prefix,
                             bool is_dense, datum_t *dict);

/* What the optimizer becomes once everything is checked: of the entries n_updates and state alone.
 */
typedef struct optimizer_loaded {
    const optimizer_t *optimizer;
    const datum_t *dict;
    double lr;
    int64_t n_steps;
    optimizer_entry_t *entries;
} optimizer_loaded_t;

/* Reads and checks; then the optimizer takes it over, which cannot fail, or not; then the rest is
 * dropped. */
status_t optimizer_read_state(context_t *ctx, const optimizer_t *optimizer, const datum_t *dict,
                              optimizer_loaded_t *out_loaded);
void optimizer_take_state(optimizer_t *optimizer, optimizer_loaded_t *loaded);
void optimizer_drop_state(context_t *ctx, optimizer_loaded_t *loaded);

/* ---- one step of some tensors: everything that can fail, then the loops ---- */

/* A gradient that comes in parts: `size` indices of dimension `dim` each, but the last one, which
 * may have less. size 0: it comes whole.
 *
 * is_product: it does not come at all. Rows of x and grad do, whose product it is, and the step
 * makes it a tile at a time, which lies in a cache only; that of a bias is the sum of the rows of
 * grad. */
typedef struct step_slices {
    int dim;
    int64_t size;
    bool is_product;
} step_slices_t;

/* A parameter, its gradient and its state on their way through a step. */
typedef struct step_item {
    tensor_t *parameter;
    const tensor_t *gradient; /* NULL: it comes late, as step_late gets it */
    tensor_info_t given;      /* of the gradient */
    step_slices_t slices;
    bool is_written;       /* the gradient has bytes of a parameter of the step */
    int64_t step;          /* from 1 */
    tensor_t **state;      /* [UPDATE_MAX_STATES], NULL: made here where the rule has it */
    tensor_info_t want;    /* in which format the step is made */
    tensor_t *gradient_as; /* the gradient in it, where it lies otherwise */
    tensor_t *plain;       /* elements of a parameter with gaps, to be brought back */
    void *gapped;          /* its bytes */
    tensor_t *fresh[UPDATE_MAX_STATES]; /* state that was made or converted */
    update_t update;
} step_item_t;

/* The same in parts, for gradients that come one by one and have no bytes of a parameter: begin
 * does what can fail, and changes no element; late is the step of one item, which fails only where
 * the gradient has to be converted, and lies as `given`; end clears what is left of all. The caller
 * takes items of parameters that step_may_be_late.
 *
 * A gradient may come in slices, from the first to the last, each as step_slice_info(&given, ..);
 * or as a product, of plain rows. The caller takes parameters and gradients that step_may_slice.
 * x: NULL for a bias. */
status_t step_begin(context_t *ctx, const char *op, const update_rule_t *rule, bool may_convert,
                    int n, step_item_t *items);
status_t step_late(context_t *ctx, const update_rule_t *rule, step_item_t *item, int64_t first,
                   const tensor_t *gradient);
status_t step_product(context_t *ctx, const update_rule_t *rule, step_item_t *item,
                      const tensor_t *x, const tensor_t *grad);
void step_end(int n, step_item_t *items);
bool step_may_be_late(const tensor_t *parameter);
bool step_may_slice(const tensor_t *parameter, const tensor_info_t *gradient, step_slices_t slices);

/* True if the slices lie one behind the other; and so many indices, of a tensor for which that is
 * so. */
bool step_lies_in_slices(const tensor_info_t *info, step_slices_t slices);
tensor_info_t step_slice_info(const tensor_info_t *info, step_slices_t slices, int64_t n);
bool step_is_last(const step_item_t *item, int64_t first);

/* The whole step; `op` begins messages. State that is not there is made. With may_convert false,
 * state that lies otherwise than the step is made is refused. On failure nothing has changed. */
status_t step_run(context_t *ctx, const char *op, const update_rule_t *rule, bool may_convert,
                  int n, step_item_t *items);

/* ---- a step whose gradients come one by one ---- */

typedef struct optimizer_run {
    step_item_t *items;
    int *item_of; /* [parameters], -1: no gradient */
    int n_items, n_begun, n_done;
} optimizer_run_t;

/* gradients: [parameters] as what each will come, dtype DTYPE_NONE: none will; slices: [parameters]
 * the slices in which it comes. begin does what can fail, as optimizer_step; then one call
 * of late for each, or each of its slices, or one of product, in any order of parameters; end,
 * always, after which the step has been made if all have come. Gradients have no bytes of a
 * parameter. */
status_t optimizer_begin(context_t *ctx, optimizer_t *optimizer, const tensor_info_t *gradients,
                         const step_slices_t *slices, optimizer_run_t *out_run);
status_t optimizer_late(context_t *ctx, const optimizer_t *optimizer, optimizer_run_t *run,
                        int index, int64_t first, const tensor_t *gradient);
status_t optimizer_product(context_t *ctx, const optimizer_t *optimizer, optimizer_run_t *run,
                           int index, const tensor_t *x, const tensor_t *grad);
void optimizer_end(context_t *ctx, optimizer_t *optimizer, optimizer_run_t *run);

#endif
