/* The ONNX project's test data: reads messages and tensors from files, and compares results with
 * them. Also lists the modes in which an imported model runs. */
#ifndef TESSERA_TESTS_ONNX_DATA_H
#define TESSERA_TESTS_ONNX_DATA_H

#ifdef TESSERA_HAVE_ONNX

#include <onnx.pb-c.h>

#include "tools/support/mode.h"

/* All modes, in an order in which they can share one import: first those that leave the module
 * unchanged, then those that pack it and replace its graph by a plan. */
extern const run_mode_t onnx_data_modes[MODE_COUNT];

/* Reads the message in a file, or returns NULL. protobuf-c frees it, with no allocator. */
void *onnx_data_read(context_t *ctx, const ProtobufCMessageDescriptor *type, const char *path);

/* Converts a message to a tensor; the message keeps its bytes. */
status_t onnx_data_tensor(context_t *ctx, const Onnx__TensorProto *proto, tensor_t **out_tensor);

/* Reads the value of this type from a file: a tensor, a list of tensors for a sequence, or none for
 * an empty optional. Returns false if the file is missing or has an unsupported element type. */
bool onnx_data_datum(context_t *ctx, const Onnx__TypeProto *type, const char *path,
                     datum_t **out_datum);

/* Compares tensors with onnx_data_is_same, and lists item by item. */
bool onnx_data_is_same_datum(context_t *ctx, const datum_t *got, const datum_t *wanted);

/* Checks that dtypes and shapes are equal and |got - wanted| <= atol + rtol * |wanted|; infinities
 * and NaN equal themselves. Prints the first difference. */
bool onnx_data_is_same(context_t *ctx, const tensor_t *got, const tensor_t *wanted, double rtol,
                       double atol);

#endif
#endif
