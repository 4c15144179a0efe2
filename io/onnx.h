/* ONNX models, opset 6 to 22: imported as modules.
 *
 * Initializers become parameters, the graph becomes the graph method `forward` that reads them by
 * getattr; so a model is packed, traced, frozen like any other. What depends on shapes and
 * constants alone (Shape, Gather, ConstantOfShape, Cast, ...) is folded at import. Without
 * protobuf-c all calls are UNSUPPORTED. */
#ifndef TESSERA_IO_ONNX_H
#define TESSERA_IO_ONNX_H

#include "graph/ir/graph.h"

TESSERA_BEGIN

typedef struct onnx_options {
    int64_t batch; /* stands for a first dimension that is not fixed; 0: 1 */
} onnx_options_t;

/* IO, CORRUPT, UNSUPPORTED (lists every operator that is unknown, with node, operator and opset).
 */
status_t onnx_load(context_t *ctx, const char *path, const onnx_options_t *options,
                   module_t **out_module) TESSERA_API(onnx_load);
/* The same from memory. */
status_t onnx_load_bytes(context_t *ctx, const void *bytes, size_t n_bytes,
                         const onnx_options_t *options, module_t **out_module)
    TESSERA_API(onnx_load_bytes);

/* The model's inputs (initializers left out) and outputs: names in attributes `input_names` and
 * `output_names` of the module, lists of strings; infos of inputs with the batch filled in. */
status_t onnx_input(context_t *ctx, const module_t *module, int index, const char **out_name,
                    tensor_info_t *out_info) TESSERA_API(onnx_input);

TESSERA_END

#endif
