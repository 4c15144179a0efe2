/* ONNX models with stored inputs and outputs. NAME.values is a GraphProto whose initializers are
 * the tensors of several runs: "0/x" is input or output x in run 0. "0/x drawn" has only the sizes
 * of an input; drawn_fill computes its elements from the name "0/x". */
#ifndef TESSERA_TESTS_ONNX_RUNS_H
#define TESSERA_TESTS_ONNX_RUNS_H

#include "tests/support/onnx/onnx_data.h"

#ifdef TESSERA_HAVE_ONNX

enum { ONNX_RUNS_MAX = 16, ONNX_RUNS_PATH_MAX = 512 };

typedef struct onnx_runs {
    const char *folder, *name;
    int n_runs;
    Onnx__GraphProto *values;
} onnx_runs_t;

/* Reads FOLDER/NAME.values; borrows the strings. */
void onnx_runs_open(context_t *ctx, const char *folder, const char *name, onnx_runs_t *out_runs);
void onnx_runs_close(onnx_runs_t *runs);

/* Returns the tensor "RUN/NAME", or NULL; the caller releases it. */
tensor_t *onnx_runs_find(context_t *ctx, const onnx_runs_t *runs, int run, const char *name);

/* Reads the message FOLDER/FILE.onnx. protobuf-c frees it, with no allocator. */
Onnx__ModelProto *onnx_runs_model(context_t *ctx, const onnx_runs_t *runs, const char *file);

/* Imports FOLDER/FILE.onnx at the sizes of this run, and reads its inputs even if the import fails.
 * The caller clears the model. */
status_t onnx_runs_load(context_t *ctx, const onnx_runs_t *runs, const char *file, int run,
                        model_t *out_model);

/* Writes the inputs of this run, in the order of the model's inputs, to n_inputs empty slots. */
void onnx_runs_inputs(context_t *ctx, const onnx_runs_t *runs, int run, const model_t *model,
                      tensor_t **out_in);

/* Runs the module on the inputs of this run. All outputs must match the stored ones within atol +
 * rtol * |element|, or, if rtol is 0, within atol * |largest element|. Prints differences and
 * messages of failed calls; `form` says in them which module ran. */
bool onnx_runs_check(context_t *ctx, const onnx_runs_t *runs, int run, const model_t *model,
                     runner_t *runner, double rtol, double atol, const char *form);

#endif
#endif
