/* ONNX models with open sizes, of the maker in onnx_model.h: imported at one set of sizes of input
 * "x", and run at others as they are, frozen, and saved and loaded. */
#ifndef TESSERA_TESTS_ONNX_SIZES_H
#define TESSERA_TESTS_ONNX_SIZES_H

#include "tests/support/onnx_model.h"

#ifdef TESSERA_HAVE_ONNX

/* Where models are saved; tests that run side by side need other names. */
extern const char *sizes_file;

/* Removes that file: the teardown of a group of tests. */
int sizes_remove_file(void **state);

/* ---- running ---- */

/* Element i of the input and of every weight. */
double sizes_element(int64_t i);

/* What element `index` of the result is for an input of these sizes; the result's sizes. */
typedef double (*sizes_wanted_t)(const int64_t *sizes, const int64_t *index);
typedef void (*sizes_shape_t)(const int64_t *sizes, int *out_rank, int64_t *out_sizes);

typedef struct sizes_trial {
    int rank; /* of x */
    sizes_wanted_t wanted;
    sizes_shape_t shape; /* NULL: that of x */
} sizes_trial_t;

/* Imports the model at each of these sizes and runs it at all of them. */
void sizes_check_at(context_t *ctx, const sizes_trial_t *trial, int n, const int64_t (*sizes)[4]);

/* Imports the model at the first sizes; all others are refused with these words. */
void sizes_check_refused_at(context_t *ctx, int rank, int n, const int64_t (*sizes)[4],
                            const char *words);

/* The model in form 0, as it is; 1, frozen; 2, loaded from a file. False when there is no more, and
 * the model is released by the caller. */
bool sizes_next_form(context_t *ctx, int form, module_t **model);
status_t sizes_run_at(context_t *ctx, module_t *model, int rank, const int64_t *sizes,
                      tensor_t **out);

/* ---- making ---- */

/* Names of the sizes of the input added last; NULL: as it is. */
void sizes_open(const char *const *names);
void sizes_vector(const char *name, int n, const int64_t *values);
void sizes_number(const char *name, int64_t value);
void sizes_weight(const char *name, int rank, const int64_t *sizes);
/* Numbers "zero" and "one", vectors "v0" and "v1" of one element. */
void sizes_numbers(void);
/* Shape of a value, and Gather of what the number or vector `dim` says. */
void sizes_size_of(const char *of, const char *shape, const char *dim, const char *out);

#endif
#endif
