/* Sizes of a model's inputs. The model may leave sizes open (see module_input); --shape, --batch
 * and arrays given for inputs set them. Sizes with the same name are equal. */
#ifndef TESSERA_TOOLS_SUPPORT_SIZES_H
#define TESSERA_TOOLS_SUPPORT_SIZES_H

#include "tools/support/model.h"

/* A parsed argument "x=1x3x320x480". */
typedef struct sizes {
    const char *name;
    size_t name_length;
    int rank;
    int64_t sizes[TENSOR_MAX_RANK];
} sizes_t;

/* Returns false unless the argument has this form, with sizes of at least 1. */
bool sizes_parse(const char *argument, sizes_t *out_sizes);

/* Returns the number of sets of sizes, at least 1. The k-th --shape of an input is for set k; a
 * single --shape of an input is for all sets. If inputs have different numbers of them, other than
 * 1, returns 0, and *out_wrong is a --shape argument of such an input. */
int sizes_n_sets(const args_list_t *shapes, const char **out_wrong);
/* Returns the shapes of one set. */
args_list_t sizes_set(const args_list_t *shapes, int set);

/* Returns the first size that all shapes have; 0 if it differs, or if there are no shapes. */
int64_t sizes_batch(const args_list_t *shapes);

/* Applies --batch (0: none), then --shape, to the infos of the inputs. INVALID_ARGUMENT for an
 * unknown input, and if the model fixes a size to another value. */
status_t sizes_apply(context_t *ctx, model_t *model, const args_list_t *shapes, int64_t batch);

/* Applies the sizes of a tensor that was given for an input, in the same way. */
status_t sizes_take(context_t *ctx, model_t *model, int input, const tensor_info_t *given);

/* INVALID_ARGUMENT if --shape or --batch (0: none) contradicts the sizes of the given tensors. */
status_t sizes_check_given(context_t *ctx, const model_t *model, const args_list_t *shapes,
                           int64_t batch);

#endif
