/* ONNX models stored with what they give. NAME.values is a GraphProto whose initializers are the
 * tensors of several runs: "0/x" is the value of input or output x in run 0; "0/x drawn" has the
 * sizes of an input whose elements follow from the name "0/x" (drawn.h). */
#ifndef TESSERA_TESTS_ONNX_RUNS_H
#define TESSERA_TESTS_ONNX_RUNS_H

#include "tests/support/onnx_data.h"

#ifdef TESSERA_HAVE_ONNX

enum { ONNX_RUNS_MAX = 16, ONNX_RUNS_PATH_MAX = 512 };

typedef struct onnx_runs {
    const char *folder, *name;
    int n_runs;
    Onnx__GraphProto *values;
} onnx_runs_t;

/* Reads FOLDER/NAME.values; the strings stay the caller's. */
void onnx_runs_open(context_t *ctx, const char *folder, const char *name, onnx_runs_t *out_runs);
void onnx_runs_close(onnx_runs_t *runs);

/* The tensor "RUN/NAME", or NULL; the caller releases. */
tensor_t *onnx_runs_find(context_t *ctx, const onnx_runs_t *runs, int run, const char *name);

/* The message FOLDER/FILE.onnx; freed by protobuf-c, with no allocator. */
Onnx__ModelProto *onnx_runs_model(context_t *ctx, const onnx_runs_t *runs, const char *file);

/* FOLDER/FILE.onnx imported at the sizes of this run, with its inputs, which are there when the
 * import fails, too; the caller clears the model. */
status_t onnx_runs_load(context_t *ctx, const onnx_runs_t *runs, const char *file, int run,
                        model_t *out_model);

/* Inputs of this run, by the names of the model's, into n_inputs empty places. */
void onnx_runs_inputs(context_t *ctx, const onnx_runs_t *runs, int run, const model_t *model,
                      tensor_t **out_in);

/* Runs the module on the inputs of this run. All outputs have to be what is stored: within atol +
 * rtol * |element|, or, where rtol is 0, within atol * |largest element|. Prints what is not, and
 * where a call fails its message; `form` says what is run. */
bool onnx_runs_check(context_t *ctx, const onnx_runs_t *runs, int run, const model_t *model,
                     runner_t *runner, double rtol, double atol, const char *form);

#endif
#endif
