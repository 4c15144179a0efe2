/* The ONNX project's test data: messages in files, their tensors, comparison with what they say,
 * and the modes that one imported model is run in. */
#ifndef TESSERA_TESTS_ONNX_DATA_H
#define TESSERA_TESTS_ONNX_DATA_H

#ifdef TESSERA_HAVE_ONNX

#include <onnx.pb-c.h>

#include "tools/mode.h"

/* All modes, those that leave the module as it was before those that pack it and put a plan in
 * place of its graph: in this order they can share one import. */
extern const run_mode_t onnx_data_modes[MODE_COUNT];

/* The message of a file, or NULL; freed by protobuf-c, with no allocator. */
void *onnx_data_read(context_t *ctx, const ProtobufCMessageDescriptor *type, const char *path);

/* The tensor that a message is; the message keeps its bytes. */
status_t onnx_data_tensor(context_t *ctx, const Onnx__TensorProto *proto, tensor_t **out_tensor);

/* The value of this type in a file: a tensor, a list of tensors for a sequence, none for an
 * optional without an element. False when the file is not there, or its elements are none of ours.
 */
bool onnx_data_datum(context_t *ctx, const Onnx__TypeProto *type, const char *path,
                     datum_t **out_datum);

/* onnx_data_is_same of tensors, and of each two tensors of lists that are of one length. */
bool onnx_data_is_same_datum(context_t *ctx, const datum_t *got, const datum_t *wanted);

/* dtype and shape equal, and |got - wanted| <= atol + rtol * |wanted| everywhere, where infinities
 * and NaN are equal to themselves; else prints the first difference. */
bool onnx_data_is_same(context_t *ctx, const tensor_t *got, const tensor_t *wanted, double rtol,
                       double atol);

#endif
#endif
