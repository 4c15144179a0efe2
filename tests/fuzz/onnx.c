/* Imports ONNX models. Importing must fail with a message, or return a graph that verifies. Graphs
 * with small tensors then run. */
#include "tests/fuzz/fuzz.h"

#include "io/onnx/onnx.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    module_t *module = NULL;
    context_t *ctx = fuzz_begin(16 << 20, 100000);
    status_t status = onnx_load_bytes(ctx, bytes, n_bytes, NULL, &module);
    fuzz_check_failure(ctx, status);
    FUZZ_CHECK((status == STATUS_OK) == (module != NULL), "%s", status_name(status));
    if (module != NULL) {
        const graph_t *graph = graph_of(module, "forward");
        FUZZ_CHECK(graph != NULL, "an imported model has no graph");
        status = graph_verify(ctx, graph);
        FUZZ_CHECK(status != STATUS_INVALID_ARGUMENT, "%s", context_error(ctx));
        if (status == STATUS_OK) fuzz_run_method(ctx, graph, module);
    }
    module_release(module);
    fuzz_end(ctx);
    return 0;
}
