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
