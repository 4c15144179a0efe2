/* Sizes of a model's inputs: what --shape, --batch and files ask for, where the model leaves them
 * open, as module_input says. A name is one size wherever it stands. */
#ifndef TESSERA_TOOLS_SIZES_H
#define TESSERA_TOOLS_SIZES_H

#include "tools/model.h"

/* "x=1x3x320x480" */
typedef struct sizes {
    const char *name;
    size_t name_length;
    int rank;
    int64_t sizes[TENSOR_MAX_RANK];
} sizes_t;

/* False when it is not of this form, with sizes from 1. */
bool sizes_parse(const char *argument, sizes_t *out_sizes);

/* Several --shape of one input are several sets of sizes: the k-th is of set k. An input that has
 * one is of that size in all sets. How many sets there are, at least 1; 0 where an input has
 * another number of them, which *out_wrong then names. */
int sizes_n_sets(const args_list_t *shapes, const char **out_wrong);
/* Those of one set. */
args_list_t sizes_set(const args_list_t *shapes, int set);

/* What several --shape agree on as first size; 0: they do not, or there is none. */
int64_t sizes_batch(const args_list_t *shapes);

/* Puts the sizes of --shape, then of --batch (0: none) into the infos of the inputs.
 * INVALID_ARGUMENT for inputs there are not, and for sizes that are fixed to others. */
status_t sizes_apply(context_t *ctx, model_t *model, const args_list_t *shapes, int64_t batch);

/* The same for the sizes of a tensor that is given for an input. */
status_t sizes_take(context_t *ctx, model_t *model, int input, const tensor_info_t *given);

/* INVALID_ARGUMENT where --shape or --batch (0: none) asks for other sizes than the inputs have by
 * the tensors that are given. */
status_t sizes_check_given(context_t *ctx, const model_t *model, const args_list_t *shapes,
                           int64_t batch);

#endif
