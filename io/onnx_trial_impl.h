/* Sizes that a file leaves open, and the trials that try them at several numbers. */
#ifndef TESSERA_IO_ONNX_TRIAL_IMPL_H
#define TESSERA_IO_ONNX_TRIAL_IMPL_H

#include "io/onnx_impl.h"

#ifdef TESSERA_HAVE_ONNX

/* An open size of this name in the file, or without a name (NULL), of an input's dimension `dim`:
 * its index in onnx->open, found or made; ONNX_NOT_OPEN when there are too many. Those without a
 * name are one where dimension and size (0: not known) are the same. */
int onnx_open_find(onnx_t *onnx, const char *param, int dim, int64_t size);

/* Chooses names and trials, when all inputs are read. */
void onnx_open_begin(onnx_t *onnx);
status_t onnx_set_inputs(onnx_t *onnx);

/* What stands in this trial for the data-th size that depends on elements. */
int64_t onnx_data_size(const onnx_t *onnx, int data);

/* The same for an integer, which may be 0 and negative. */
int64_t onnx_data_number(const onnx_t *onnx, int data);

/* True of operators that make of sizes lines and quotients of them. */
bool onnx_is_smooth(const opdef_t *op);

/* UNSUPPORTED once a node makes of such a size what cannot be followed. */
status_t onnx_check_data(onnx_t *onnx);

/* Asks for sizes that tell apart the quotients of an open size that give these values. */
void onnx_ask(onnx_t *onnx, int open, int n_samples, const int64_t *sizes, const int64_t *values);

/* Sizes that are tried by themselves for an open one, and at which the model does not hold. */
int onnx_sizes_over(const onnx_t *onnx, int open, int64_t *out_sizes);

/* Asks for one size. */
void onnx_ask_size(onnx_t *onnx, int open, int64_t size);

/* ---- what follows sizes ---- */

#define ONNX_MAX_VARIABLES (ONNX_MAX_OPEN + TENSOR_MAX_RANK)

/* Trials that are not over; sizes at them that integers may follow. */
typedef struct onnx_samples {
    int n, n_variables;
    int trials[ONNX_MAX_TRIALS];
    size_variable_t variables[ONNX_MAX_VARIABLES]; /* of a name, `dim` is its index in onnx->open */
    int64_t sizes[ONNX_MAX_VARIABLES][ONNX_MAX_TRIALS];
} onnx_samples_t;

/* Samples without variables, which the caller puts back; open sizes, and dimensions of an item that
 * differ. */
status_t onnx_samples_begin(onnx_t *onnx, onnx_samples_t **out_samples);
void onnx_samples_open(const onnx_t *onnx, onnx_samples_t *samples);
void onnx_samples_dims(onnx_t *onnx, item_t item, onnx_samples_t *samples);

/* The expression that gives values[s] at each sample. */
bool onnx_samples_fit(const onnx_t *onnx, const onnx_samples_t *samples, const int64_t *values,
                      size_expr_t *out_expr);

/* Where an open size has several quotients that fit: asks for sizes that tell them apart, or takes
 * one where the model holds at no such size. */
bool onnx_samples_between(onnx_t *onnx, const onnx_samples_t *samples, const int64_t *values,
                          size_expr_t *out_expr);

/* Sizes of the items so far go to onnx->pool; sizes are asked for that tell their quotients apart.
 */
status_t onnx_pool_fill(onnx_t *onnx);
status_t onnx_pool_ask(onnx_t *onnx);

/* Whether the known results of a call follow sizes at all numbers, as they do in the trials: a
 * minimum that is always the same operand, a quotient that is one number. */
status_t onnx_is_proven(onnx_t *onnx, const onnx_noted_t *call, bool *out_is_proven);

/* The sizes that this trial tries are fixed, or the trial is over; the reason is why. */
void onnx_fix(onnx_t *onnx, int trial, const Onnx__NodeProto *proto, const char *why);
void onnx_end_trial(onnx_t *onnx, int trial, const Onnx__NodeProto *proto, const char *why);

/* Fixes all open sizes. */
void onnx_fix_all(onnx_t *onnx, const Onnx__NodeProto *proto, const char *why);

/* Fixes open sizes that no trial but those that are over tries by itself. */
void onnx_fix_lost(onnx_t *onnx);

/* What the graph says of sizes that are fixed; empty: none is. */
void onnx_reason(const onnx_t *onnx, size_t capacity, char *out_text);

#endif
#endif
