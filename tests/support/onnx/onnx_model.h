/* Makes one ONNX model at a time, and imports, runs and checks it. */
#ifndef TESSERA_TESTS_ONNX_MODEL_H
#define TESSERA_TESTS_ONNX_MODEL_H

#include "io/onnx/onnx.h"
#include "module/signature.h"
#include "tests/support/onnx/onnx_maker.h"

#ifdef TESSERA_HAVE_ONNX

#define FLOAT ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT
#define INT64 ONNX__TENSOR_PROTO__DATA_TYPE__INT64
/* Rank and sizes, or any list of integers with its length. */
#define DIMS(...)                                                                                  \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), (int64_t[])                                       \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

/* The model being made; begin_model adds an f32 input "x" and an output "y". */
extern maker_t maker;
void begin_model(int64_t opset, int rank, const int64_t *sizes);

/* Imports the model; open sizes are `batch`. The caller releases the module. */
module_t *load_model(context_t *ctx);
status_t load_model_batch(context_t *ctx, int64_t batch, module_t **out);
status_t load_model_with(context_t *ctx, const onnx_options_t *options, module_t **out);

/* Fails unless the model's graph contains this line. */
void check_model_line(context_t *ctx, const module_t *model, const char *line);

/* Runs the model on 1, 2, 3, ... (model_ramp) in the shape of x, and compares all elements. */
extern const float model_ramp[64];
void check_model_result(context_t *ctx, module_t *model, int64_t n, const float *wanted);

#endif
#endif
