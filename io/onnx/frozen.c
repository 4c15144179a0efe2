/* Imports models and freezes them, or takes the results from the store. */
#include "io/onnx/kept_impl.h"
#include "tensor/context_impl.h"
#include "tensor/threads/interrupt_impl.h"

/* Imports and freezes, or takes the result from the store. */
static status_t find_or_import(context_t *ctx, const onnx_source_t *source,
                               const onnx_options_t *options, const freeze_options_t *freezing,
                               module_t **out_frozen)
{
    onnx_kept_t kept;
    module_t *module = NULL;
    const bool is_kept = kept_begin(&kept, ctx, source, options, freezing);
    if (is_kept) kept_recall(&kept);
    status_t status = interrupt_check(ctx, "the import");
    if (kept.found == NULL && status == STATUS_OK) {
        status = onnx_import(ctx, source, options, is_kept ? &kept : NULL, &module);
        if (status == STATUS_OK && kept.found == NULL)
            status = freeze_take(ctx, &module, freezing, out_frozen);
        if (status == STATUS_OK && is_kept) kept_add(&kept, *out_frozen);
    }
    if (kept.found != NULL) {
        if (status == STATUS_OK)
            status = freeze_set_plans(ctx, kept.found, freezing != NULL ? freezing->plans : 0);
        if (status == STATUS_OK)
            *out_frozen = kept.found;
        else
            module_release(kept.found);
    }
    module_release(module);
    kept_end(&kept);
    return status;
}

static status_t load_frozen(context_t *ctx, const onnx_source_t *source,
                            const onnx_options_t *options, const freeze_options_t *freezing,
                            module_t **out_frozen)
{
    interrupt_begin(ctx, "onnx_load_frozen");
    return interrupt_end(ctx, find_or_import(ctx, source, options, freezing, out_frozen));
}

status_t onnx_load_frozen(context_t *ctx, const char *path, const onnx_options_t *options,
                          const freeze_options_t *freezing, module_t **out_frozen)
{
    onnx_source_t source = {0};
    TRY(context_output(ctx, "onnx_load_frozen", out_frozen));
    TRY(onnx_from_path(ctx, "onnx_load_frozen", path, &source));
    FINISH(load_frozen(ctx, &source, options, freezing, out_frozen),
           context_put(ctx, source.folder));
}

status_t onnx_load_frozen_bytes(context_t *ctx, const void *bytes, size_t n_bytes,
                                const onnx_options_t *options, const freeze_options_t *freezing,
                                module_t **out_frozen)
{
    TRY(context_output(ctx, "onnx_load_frozen_bytes", out_frozen));
    if (bytes == NULL) return context_null(ctx, "onnx_load_frozen_bytes", "bytes");
    return load_frozen(ctx, &(onnx_source_t){.bytes = bytes, .n_bytes = n_bytes}, options, freezing,
                       out_frozen);
}
