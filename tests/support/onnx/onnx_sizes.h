/* Tests ONNX models with open sizes. Each is imported at one set of sizes of input "x" and runs at
 * others: as imported, frozen, and saved and loaded. */
#ifndef TESSERA_TESTS_ONNX_SIZES_H
#define TESSERA_TESTS_ONNX_SIZES_H

#include "tests/support/onnx/onnx_model.h"

#ifdef TESSERA_HAVE_ONNX

/* The file to which models are saved; tests that run in parallel use different names. */
extern const char *sizes_file;

/* Removes that file; the teardown of a group of tests. */
int sizes_remove_file(void **state);

/* ---- running ---- */

/* Returns element i of the input, and of every weight. */
double sizes_element(int64_t i);

/* Callbacks: element `index` of the expected result for an input with these sizes, and the result's
 * sizes. */
typedef double (*sizes_wanted_t)(const int64_t *sizes, const int64_t *index);
typedef void (*sizes_shape_t)(const int64_t *sizes, int *out_rank, int64_t *out_sizes);

typedef struct sizes_trial {
    int rank; /* rank of x */
    sizes_wanted_t wanted;
    sizes_shape_t shape; /* NULL: the shape of x */
} sizes_trial_t;

/* Imports the model at each of these sizes and runs it at all of them. */
void sizes_check_at(context_t *ctx, const sizes_trial_t *trial, int n, const int64_t (*sizes)[4]);

/* Imports the model at the first sizes; checks that it rejects all others with a message containing
 * `words`. */
void sizes_check_refused_at(context_t *ctx, int rank, int n, const int64_t (*sizes)[4],
                            const char *words);

/* Converts the model to form 0 (as imported), 1 (frozen) or 2 (loaded from a file). Returns false
 * after the last form; the caller then releases the model. */
bool sizes_next_form(context_t *ctx, int form, module_t **model);
status_t sizes_run_at(context_t *ctx, module_t *model, int rank, const int64_t *sizes,
                      tensor_t **out);

/* ---- making ---- */

/* Names the sizes of the last added input; NULL keeps a size as it is. */
void sizes_open(const char *const *names);
void sizes_vector(const char *name, int n, const int64_t *values);
void sizes_number(const char *name, int64_t value);
void sizes_weight(const char *name, int rank, const int64_t *sizes);
/* Adds the scalars "zero" and "one", and the vectors "v0" and "v1" of one element. */
void sizes_numbers(void);
/* Adds Shape of the value `of`, and Gather of one of its sizes; the scalar or vector `dim` is the
 * index. */
void sizes_size_of(const char *of, const char *shape, const char *dim, const char *out);

#endif
#endif
