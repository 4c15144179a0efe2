/* The public functions of io/onnx, in builds without protobuf-c. Compiled in place of io/onnx and
 * io/onnx_ops; CMakeLists.txt turns off warnings of unused parameters. */
#include "io/onnx/onnx.h"
#include "tensor/context_impl.h"

#define REFUSE FAIL(ctx, STATUS_UNSUPPORTED, "onnx: this build has no protobuf-c")

status_t onnx_load(context_t *ctx, const char *path, const onnx_options_t *options,
                   module_t **out_module)
{
    REFUSE;
}

status_t onnx_load_bytes(context_t *ctx, const void *bytes, size_t n_bytes,
                         const onnx_options_t *options, module_t **out_module)
{
    REFUSE;
}

status_t onnx_load_frozen(context_t *ctx, const char *path, const onnx_options_t *options,
                          const freeze_options_t *freezing, module_t **out_frozen)
{
    REFUSE;
}

status_t onnx_load_frozen_bytes(context_t *ctx, const void *bytes, size_t n_bytes,
                                const onnx_options_t *options, const freeze_options_t *freezing,
                                module_t **out_frozen)
{
    REFUSE;
}

status_t onnx_describe(context_t *ctx, const char *path, module_t **out_module)
{
    REFUSE;
}

status_t onnx_describe_bytes(context_t *ctx, const void *bytes, size_t n_bytes,
                             module_t **out_module)
{
    REFUSE;
}

status_t onnx_keep(context_t *ctx, module_t *frozen, const char *path,
                   const onnx_options_t *options, const freeze_options_t *how)
{
    REFUSE;
}

status_t onnx_keep_bytes(context_t *ctx, module_t *frozen, const void *bytes, size_t n_bytes,
                         const onnx_options_t *options, const freeze_options_t *how)
{
    REFUSE;
}

/* Without an importer, a module accepts only the sizes that its graphs accept. */
status_t onnx_reopen(context_t *ctx, module_t *frozen)
{
    return frozen != NULL ? STATUS_OK : context_null(ctx, "onnx_reopen", "module");
}
