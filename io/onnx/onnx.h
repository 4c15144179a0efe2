/* Loads ONNX models, opset 1 to 27, as modules.
 *
 * Initializers become parameters. The graph becomes the graph method `forward`, which reads them
 * with getattr, so the module can be packed, traced and frozen like any other. Nodes that depend
 * only on shapes and constants (Shape, Gather, ConstantOfShape, Cast, ...) are folded at import.
 *
 * Sizes that the file leaves open become named sizes of the graph's inputs. The model, whether
 * frozen or not, accepts any values for them. Integers that the model computes from sizes become
 * expressions of these names in the graph (tensor/sym/sym.h). If the import of a node depends on
 * such a size, the sizes passed to the import decide, and the graph stores the condition as a
 * guard. A call whose inputs violate a guard fails:
 *
 *   forward: N is 3, the graph holds where N == 1 (Reshape "r")
 *
 * If, Loop and Scan become `if` and `loop` of the graph unless the condition is known at import. A
 * size that depends on elements, such as the number of nonzeros (NonZero), is known only at run
 * time. If the import of a node needs such a size as a number, it fails with UNSUPPORTED.
 *
 * If the tensors of a sequence are known at import, the graph uses them directly; any other
 * sequence becomes a list of the graph. A sequence that is an input or output of the model is a
 * list of tensors. An optional without an element is none.
 *
 * Calls of model functions are inlined. ZipMap returns the probabilities as a tensor instead of
 * maps. String outputs are removed if at least one other output remains.
 *
 * The attributes `input_names` and `output_names` (lists of strings) hold the names of the inputs,
 * without initializers, and outputs. module_input and module_output report them with dtypes and
 * sizes.
 *
 * The attribute `metadata` (a dict of strings) holds the file's metadata. A .tessera file contains
 * it only if the freeze option `preserved` names it.
 *
 * Without protobuf-c, loading is UNSUPPORTED. */
#ifndef TESSERA_IO_ONNX_ONNX_H
#define TESSERA_IO_ONNX_ONNX_H

#include "freeze/freeze.h"
#include "graph/ir/graph.h"

/* Sizes of one input of the model. They must agree with the sizes that the file fixes. */
typedef struct onnx_shape {
    const char *input;
    int rank;
    const int64_t *sizes;
} onnx_shape_t;

/* A tensor that replaces an initializer: dense, with the dtype and sizes that the file declares. A
 * contiguous tensor is retained, not copied; if it was made with tensor_borrow, the model reads the
 * owner's memory. Freezing copies the elements that it stores. */
typedef struct onnx_tensor {
    const char *initializer;
    tensor_t *tensor;
} onnx_tensor_t;

/* Options of an import. The model also runs at other sizes than those given here. */
typedef struct onnx_options {
    int64_t batch; /* size of a first dimension that is not fixed; 0: 1 */
    int n_shapes;
    const onnx_shape_t *shapes;
    bool keeps_numbers; /* compute between DequantizeLinear and QuantizeLinear in f32, as the file
                           says; false: pass fold_quantize computes on the integers */
    int64_t open_size;  /* any other size that is not fixed and not in `shapes`; 0: such a size is
                           INVALID_ARGUMENT. If the model does not accept it, or the batch of 1, the
                           guards of the failed import say which sizes to try next */
    int n_tensors; /* tensors used for initializers of the model's graph; elements of these in the
                      file are not read */
    const onnx_tensor_t *tensors;
    int n_guards; /* conditions on the sizes that the exporter knew but the file does not contain:
                     "H % 8 == 0". The graph adds them to its guards and refuses other sizes.
                     Grammar: guards in tensor/sym/parse.c, with the graph's names of sizes */
    const char *const *guards;
} onnx_options_t;

/* Imports a model. options may be NULL.
 *
 * INVALID_ARGUMENT  options that contradict the file
 * IO, CORRUPT
 * UNSUPPORTED       lists every unknown operator with node, operator and opset */
status_t onnx_load(context_t *ctx, const char *path, const onnx_options_t *options,
                   module_t **out_module) TESSERA_API(onnx_load);
/* The same from memory. */
status_t onnx_load_bytes(context_t *ctx, const void *bytes, size_t n_bytes,
                         const onnx_options_t *options, module_t **out_module)
    TESSERA_API(onnx_load_bytes);

/* Imports a model and freezes it (freeze.h): freezing may be NULL, as options. If the context has a
 * store (docs/store.md), the first run of the result adds it to the store. Later calls for the same
 * bytes and the same options map it from there, in any process: they import nothing and pack no
 * weights, and the module computes the same bits. The counters models_imported and models_mapped
 * show which of the two happened.
 *
 * Errors as in onnx_load and freeze. A model that the store has is not imported, so nothing is
 * reported for it. */
status_t onnx_load_frozen(context_t *ctx, const char *path, const onnx_options_t *options,
                          const freeze_options_t *freezing, module_t **out_frozen)
    TESSERA_API(onnx_load_frozen);
/* The same from memory. */
status_t onnx_load_frozen_bytes(context_t *ctx, const void *bytes, size_t n_bytes,
                                const onnx_options_t *options, const freeze_options_t *freezing,
                                module_t **out_frozen) TESSERA_API(onnx_load_frozen_bytes);

/* Reads a model's inputs and outputs without importing it, for example to find out which shapes
 * onnx_load needs. The returned module has the attributes `input_names`, `output_names`, `opset`
 * and `metadata`, and no parameters. module_input and module_output report what the file declares;
 * open sizes are -1, with their names. Calling `forward` is UNSUPPORTED.
 *
 * IO, CORRUPT, UNSUPPORTED (unknown operators, as for onnx_load) */
status_t onnx_describe(context_t *ctx, const char *path, module_t **out_module)
    TESSERA_API(onnx_describe);
/* onnx_describe for a model in memory. */
status_t onnx_describe_bytes(context_t *ctx, const void *bytes, size_t n_bytes,
                             module_t **out_module) TESSERA_API(onnx_describe_bytes);

/* Stores the model in the module that was frozen from it, so that the module accepts all sizes that
 * the model accepts: if the guards of its graphs refuse the inputs of a call, the model is imported
 * and frozen again at their sizes. Up to 8 graphs made in this way are kept. freeze_save writes the
 * model too: its graph and those weights that the file does not have as constants.
 *
 *     onnx_load(ctx, "net.onnx", &options, &model);
 *     freeze(ctx, model, &how, &frozen);
 *     onnx_keep(ctx, frozen, "net.onnx", &options, &how);
 *     freeze_save(ctx, frozen, "net.tessera");
 *
 * Does nothing if the graphs have no guards. options and how are those of onnx_load and freeze, and
 * may be NULL; shapes are not used. No other thread may use `frozen` during the call.
 *
 * INVALID_ARGUMENT  the module is not frozen
 * UNSUPPORTED       dtype s8 or max_error, which need the examples again; preserved, skip or
 *                   no_optimize
 * IO, CORRUPT */
status_t onnx_keep(context_t *ctx, module_t *frozen, const char *path,
                   const onnx_options_t *options, const freeze_options_t *how)
    TESSERA_API(onnx_keep);
/* onnx_keep for a model in memory. */
status_t onnx_keep_bytes(context_t *ctx, module_t *frozen, const void *bytes, size_t n_bytes,
                         const onnx_options_t *options, const freeze_options_t *how)
    TESSERA_API(onnx_keep_bytes);
/* Makes a module that freeze_load has loaded accept all sizes again, as described for onnx_keep.
 * Does nothing if its file has no model. No other thread may use the module during the call.
 *
 * INVALID_ARGUMENT  the module is not frozen
 * CORRUPT           the model in the file is malformed */
status_t onnx_reopen(context_t *ctx, module_t *frozen) TESSERA_API(onnx_reopen);

/* The module's attribute with the file's metadata, a dict of strings. */
#define ONNX_METADATA "metadata"
/* The metadata value for a key, borrowed from the module; NULL if there is none. */
const char *onnx_metadata(const module_t *module, const char *key) TESSERA_API(onnx_metadata);

#endif
