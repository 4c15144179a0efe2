/* Tessera: a tensor runtime in C11 on top of oneDNN. The installed tessera.h joins all public
 * headers.
 *
 * Errors: a function that can fail returns status_t. If it fails, its outputs are NULL, and
 * context_error(ctx) returns a message. A function that needs a tensor and gets NULL returns the
 * context's first failure, so a chain of calls needs only one check. A scope or a forward starts
 * without failures, and its end returns the first one inside. context_clear_error discards a
 * failure that the program has handled.
 *
 * Ownership: the caller releases what a function returns to it. In a scope, the scope releases
 * tensors that the caller has not released. A forward may return its inputs and what it has made.
 * scope.h has these rules in full.
 *
 * Threads: each thread has its own context. Tensors, frozen modules and plans may be shared. */
#ifndef TESSERA_TESSERA_H
#define TESSERA_TESSERA_H

#ifdef __cplusplus
extern "C" {
#endif

/* Tensors, layouts and what is counted. */
#include "tensor/base/version.h"
#include "tensor/context.h"
#include "tensor/convert/convert.h"
#include "tensor/counters.h"
#include "tensor/file/file.h"
#include "tensor/scope.h"
#include "tensor/store/store.h"
#include "tensor/tensor.h"
#include "tensor/text/datum.h"
#include "tensor/text/print.h"
#include "tensor/text/text.h"
#include "tensor/text/trace.h"
#include "tensor/threads/progress.h"

/* Operators. */
#include "dispatch/dispatch.h"
#include "dispatch/profile/profile.h"
#include "ops/ops.h"

/* Modules. */
#include "module/layers/layers.h"
#include "module/layers/recurrent.h"
#include "module/layers/spatial.h"
#include "module/layers/transformer.h"
#include "module/mkldnn.h"
#include "module/module.h"
#include "module/signature.h"
#include "module/state_dict.h"
#include "module/zoo.h"

/* Graphs, plans, freezing. */
#include "freeze/freeze.h"
#include "graph/ir/graph.h"
#include "graph/passes/pass.h"
#include "graph/program/plan.h"

/* Training. */
#include "train/clip.h"
#include "train/graph_grad.h"
#include "train/loss.h"
#include "train/optimizer.h"
#include "train/parallel.h"
#include "train/schedule.h"
#include "train/tape.h"
#include "train/trainer.h"

/* Files of others. */
#include "io/data/dataset.h"
#include "io/data/loader.h"
#include "io/data/npy.h"
#include "io/generate/decoder.h"
#include "io/generate/generator.h"
#include "io/gguf/gguf.h"
#include "io/onnx/onnx.h"
#include "io/safetensors/checkpoint.h"
#include "io/safetensors/safetensors.h"
#include "io/text/chat.h"
#include "io/text/tokenizer.h"

#ifdef __cplusplus
}
#endif

#endif
