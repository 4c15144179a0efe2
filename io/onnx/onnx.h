/* ONNX models, opset 1 to 27: imported as modules.
 *
 * Initializers become parameters, the graph becomes the graph method `forward` that reads them by
 * getattr; so a model is packed, traced, frozen like any other. What depends on shapes and
 * constants alone (Shape, Gather, ConstantOfShape, Cast, ...) is folded at import.
 *
 * Sizes that the file leaves open get names in the types of the graph's inputs: the model runs at
 * any of them, frozen too. The import calculates with the names (tensor/sym.h): sizes, and integers
 * that nodes calculate from sizes, become expressions in the graph. Where a node has to decide, the
 * sizes that were asked for decide, and the graph keeps the decision as a guard. Inputs that do not
 * satisfy it are refused:
 *
 *   forward: N is 3, the graph holds where N == 1 (Reshape "r")
 *
 * If, Loop and Scan become `if` and `loop` of the graph, where a condition is not known at import.
 * A size that depends on elements, as NonZero's, is not known in the graph; what follows it in no
 * way that is known is UNSUPPORTED.
 *
 * A sequence whose tensors are known at import is these tensors; another one is a list of the
 * graph. A sequence that is an input or a result is a list of tensors, an optional without an
 * element none.
 *
 * Functions of the model are imported in place of their calls. A ZipMap gives the probabilities
 * that it would make maps of. An output of texts is left out where another one is left.
 *
 * Names of inputs (initializers left out) and outputs are attributes `input_names` and
 * `output_names`, lists of strings; module_input and module_output tell them with dtypes and sizes.
 *
 * Metadata of the file, pairs of a key and a text, are attribute `metadata`, a dict of strings;
 * where freezing preserves it by name, it stays, in the .tessera file too.
 *
 * Without protobuf-c loading is UNSUPPORTED. */
#ifndef TESSERA_IO_ONNX_ONNX_H
#define TESSERA_IO_ONNX_ONNX_H

#include "graph/ir/graph.h"

TESSERA_BEGIN

/* The sizes of one input; where the file says them they have to be the same. */
typedef struct onnx_shape {
    const char *input;
    int rank;
    const int64_t *sizes;
} onnx_shape_t;

/* An initializer's tensor, dense, of the dtype and sizes that the file says. Where it is contiguous
 * it is retained and not copied, so of a borrowed one (tensor_borrow) the model reads the owner's
 * memory. Freezing takes a copy of what it keeps. */
typedef struct onnx_tensor {
    const char *initializer;
    tensor_t *tensor;
} onnx_tensor_t;

/* What the model is imported at, and run at unless its inputs are of other sizes. */
typedef struct onnx_options {
    int64_t batch; /* stands for a first dimension that is not fixed; 0: 1 */
    int n_shapes;
    const onnx_shape_t *shapes;
    bool keeps_numbers; /* what stands between DequantizeLinear and QuantizeLinear is computed in
                           f32, as the file says, and not by pass fold_quantize on the integers */
    int64_t open_size;  /* stands for any other size that is not fixed and in none of the shapes; 0:
                           such a size is INVALID_ARGUMENT */
    int n_tensors; /* initializers of the model's graph whose elements, if the file has any, are not
                      read */
    const onnx_tensor_t *tensors;
    int n_guards; /* what the file does not say of its sizes, as the exporter knew it: "H % 8 == 0".
                     The graph keeps them with its own, and refuses other sizes. Grammar: that of
                     guards in tensor/sym_parse.c; names as the graph has them */
    const char *const *guards;
} onnx_options_t;

/* INVALID_ARGUMENT (options that the file contradicts), IO, CORRUPT, UNSUPPORTED (lists every
 * operator that is unknown, with node, operator and opset).
 */
status_t onnx_load(context_t *ctx, const char *path, const onnx_options_t *options,
                   module_t **out_module) TESSERA_API(onnx_load);
/* The same from memory. */
status_t onnx_load_bytes(context_t *ctx, const void *bytes, size_t n_bytes,
                         const onnx_options_t *options, module_t **out_module)
    TESSERA_API(onnx_load_bytes);

/* Reads a model's inputs and outputs without importing it. Gives a module whose `forward` has those
 * that the file says (module_input, module_output; open sizes -1, with their names), and
 * which has `input_names`, `output_names`, `opset` and `metadata`. It has no parameters, and its
 * `forward` is UNSUPPORTED. Needs no sizes: a caller may ask it which shapes to give onnx_load.
 *
 * IO, CORRUPT, UNSUPPORTED (operators that are unknown, as for onnx_load) */
status_t onnx_describe(context_t *ctx, const char *path, module_t **out_module)
    TESSERA_API(onnx_describe);
/* The same from memory. */
status_t onnx_describe_bytes(context_t *ctx, const void *bytes, size_t n_bytes,
                             module_t **out_module) TESSERA_API(onnx_describe_bytes);

/* The metadata's text of this key, borrowed from the module; NULL when there is none. */
const char *onnx_metadata(const module_t *module, const char *key) TESSERA_API(onnx_metadata);

TESSERA_END

#endif
